"""Checkpoints, from which interrupted jobs resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from desim.checks import check_float
from desim.problems.batch.parts.base import Part

if TYPE_CHECKING:
    from desim.problems.batch.execution import Execution

__all__ = ["Checkpoints"]


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
