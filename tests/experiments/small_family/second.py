"""Fails with an error of desim."""

from __future__ import annotations

from dataclasses import dataclass

from desim.cli.output import print_text
from desim.exceptions import DesimError
from desim.experiments.options import Options


@dataclass(frozen=True)
class Second(Options):
    """No options of its own."""


def second(options: Second) -> None:
    print_text("half")
    raise DesimError("a run has failed")
