"""What the experiments of this paper take on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from experiments import options
from experiments.osdec.simulating import Setting

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
        Leave out the agents that plan and the optimum, which take most of the time.
    """

    family: ClassVar[str] = "osdec"

    seeds: int = 100
    check: bool = False
    heuristics_only: bool = False

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for; it is checked if that is a trial."""
        if not self.quick:
            return replace(setting, check=setting.check or self.check)
        return replace(setting, num_slots=QUICK_SLOTS, check=True)
