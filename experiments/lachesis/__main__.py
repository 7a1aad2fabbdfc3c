"""All experiments one after another: ``python -m experiments.lachesis --quick``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from experiments.options import run_as_program

__all__ = ["MODULES", "main"]

MODULES = ("figure7", "figure8", "figure9", "room", "optimality")


def main(argv: Sequence[str] | None = None) -> int:
    """Run all experiments with the same arguments, each with its own number of seeds unless one is given.

    Parameters
    ----------
    argv : sequence of str, optional
        What every experiment takes, without ``--out``: each writes into its own directory.

    Returns
    -------
    int
        The first exit status that is not 0, else 0; what follows a failed experiment is not run.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in MODULES:
        module = import_module(f"experiments.lachesis.{name}")
        status = run_as_program(getattr(module, name.capitalize()), getattr(module, name), arguments)
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
