"""All experiments one after another: ``python -m experiments.dbf --quick``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.options import run_modules

__all__ = ["MODULES", "main"]

MODULES = ("figure3", "figure4", "figure5", "figure6", "figure7", "controls", "starvation", "kth")


def main(argv: Sequence[str] | None = None) -> int:
    """Run all experiments, as :func:`experiments.options.run_modules` says."""
    return run_modules("experiments.dbf", MODULES, argv)


if __name__ == "__main__":
    sys.exit(main())
