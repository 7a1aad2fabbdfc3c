"""What the experiments of this paper take on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from desim.exceptions import InvalidConfiguration
from desim.experiments import options
from desim.experiments.osdec.simulating import Setting

__all__ = ["Options"]

#: With --quick: slots of a trajectory.
QUICK_SLOTS = 30


@dataclass(frozen=True)
class Options(options.Options):
    """What all experiments of this paper take; with ``quick`` a trajectory has 30 slots.

    Attributes
    ----------
    check : bool
        Check the records of every run with `desim.validation`.
    heuristics_only : bool
        Leave out learned agents, those that plan, and the optimum, which take most of the time.
    time_limit : float
        Seconds for each optimum; if they are over, its bound still holds.
    weights : Path or None
        Directory of the weights of learned agents, with names like ``default-osdec``; those that come with the package
        if left out.
    """

    family: ClassVar[str] = "osdec"

    seeds: int = 100
    check: bool = False
    heuristics_only: bool = False
    time_limit: float = 60.0
    weights: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        self.require_positive("seeds", "jobs")
        if not self.time_limit > 0:
            raise InvalidConfiguration(f"time_limit is {self.time_limit!r}, want a number of seconds above 0")

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for; it is checked if that is a trial."""
        if not self.quick:
            return replace(setting, check=setting.check or self.check)
        return replace(setting, num_slots=QUICK_SLOTS, check=True)
