"""Has a fault of its own."""

from __future__ import annotations

from dataclasses import dataclass

from desim.experiments.options import Options


@dataclass(frozen=True)
class Third(Options):
    """No options of its own."""


def third(options: Third) -> None:
    raise ZeroDivisionError("in the program")
