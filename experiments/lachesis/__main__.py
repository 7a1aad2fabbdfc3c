"""All experiments one after another: ``python -m experiments.lachesis --quick``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.options import run_modules

__all__ = ["MODULES", "main"]

MODULES = ("figure6", "figure7", "figure8", "figure9", "room", "generalization", "gantts", "optimality")


def main(argv: Sequence[str] | None = None) -> int:
    """Run all experiments, as :func:`experiments.options.run_modules` says."""
    return run_modules("experiments.lachesis", MODULES, argv)


if __name__ == "__main__":
    sys.exit(main())
