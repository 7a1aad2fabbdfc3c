"""All experiments one after another: ``python -m experiments.ogasched --quick``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.options import run_modules

__all__ = ["MODULES", "main"]

MODULES = ("figure2", "table3", "figure7", "figure6", "rivals", "figure4", "figure3", "figure5", "regret")


def main(argv: Sequence[str] | None = None) -> int:
    """Run all experiments, as :func:`experiments.options.run_modules` says."""
    return run_modules("experiments.ogasched", MODULES, argv)


if __name__ == "__main__":
    sys.exit(main())
