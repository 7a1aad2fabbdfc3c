"""Checkpoints, from which interrupted jobs resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from desim.checks import check_float
from desim.problems.batch.parts.base import Part
from desim.tables import Column

if TYPE_CHECKING:
    from desim.problems.batch.execution import Execution
    from desim.result import Result

__all__: list[str] = []


class Checkpoints(Part):
    """Checkpoints at regular intervals; an interrupted job resumes from its last one.

    Parameters
    ----------
    interval : float
        Seconds that a job runs between checkpoints, above 0.

    Raises
    ------
    InvalidConfiguration
        If the interval is out of range.
    """

    name = "checkpoints"

    def __init__(self, interval: float) -> None:
        self.interval = check_float("checkpoint_interval", interval, above=0)

    def describe(self) -> dict[str, Any]:
        """Return the interval."""
        return {"checkpoint_interval": self.interval}

    def keeps(self, execution: Execution, seconds: float) -> float:
        """Return the seconds up to the last checkpoint."""
        return seconds // self.interval * self.interval


INFO = (Column("checkpoint_interval", "float", "work between checkpoints, if there are any", unit="s", optional=True),)
"""Entries in the description of a run."""


def sentence(result: Result) -> str:
    """Return what was in force in a run, for reports; empty if there were no checkpoints."""
    interval = result.info.get("checkpoint_interval")
    return "" if interval is None else f"Jobs have a checkpoint every {interval:,.10g} s of work."
