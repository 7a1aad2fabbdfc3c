"""``desim recover``: close the records of a run that was cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from desim.cli.output import print_text
from desim.formatting import how_many
from desim.problem import kind_of
from desim.records import close_cut
from desim.result import Result

__all__ = ["Recover"]


@dataclass(frozen=True)
class Recover:
    """Close the records of a run that was cut by a power failure or SIGKILL, so that other commands read them.

    Examples::

        desim recover easy

    A run with --out writes its tables in parts, of 65,536 rows of the longest table as a rule. The records end with the
    last part that was complete. They have the status interrupted; jobs that had not ended by then are not recorded.
    """

    directory: Annotated[Positional[Path], arg(metavar="DIR")]
    """Directory of the run."""

    def execute(self) -> int:
        """Close the records and print where they end."""
        dropped = close_cut(self.directory)
        result = Result.load(self.directory)
        rows = ", ".join(f"{result.height(name):,} of {name}" for name in result.table_names if result.height(name))
        end = f"{result.end_time:,.10g} {kind_of(result).time_unit}"
        print_text(f"{self.directory}: interrupted at {end}; rows: {rows}")
        if dropped:
            print_text(f"dropped: {how_many(dropped, 'file')} of a part that was not complete")
        return 0
