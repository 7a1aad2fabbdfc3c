"""All experiments one after another: ``python -m experiments.osdec --quick``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.options import run_modules

__all__ = ["MODULES", "main"]

MODULES = ("table1", "table2", "table4", "figure4", "forecasts", "attention", "safety")


def main(argv: Sequence[str] | None = None) -> int:
    """Run all experiments, as :func:`experiments.options.run_modules` says."""
    return run_modules("experiments.osdec", MODULES, argv)


if __name__ == "__main__":
    sys.exit(main())
