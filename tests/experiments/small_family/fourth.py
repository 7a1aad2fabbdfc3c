"""Is interrupted if it is given three seeds."""

from __future__ import annotations

from dataclasses import dataclass

from desim.cli.output import print_text
from desim.experiments.options import Options


@dataclass(frozen=True)
class Fourth(Options):
    """No options of its own."""


def fourth(options: Fourth) -> None:
    print_text("end")
    if options.seeds == 3:
        raise KeyboardInterrupt
