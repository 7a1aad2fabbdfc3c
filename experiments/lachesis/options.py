"""What the experiments of this paper take on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from desim.experiments import options
from desim.experiments.lachesis.simulating import Setting

__all__ = ["Options"]

#: With --quick: the most jobs of a run.
QUICK_JOBS = 6


@dataclass(frozen=True)
class Options(options.Options):
    """What all experiments of this paper take; with ``quick`` a run has at most 6 jobs."""

    family: ClassVar[str] = "lachesis"

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for; it is checked if that is a trial."""
        if not self.quick:
            return setting
        return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), check=True)
