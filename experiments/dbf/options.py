"""What the experiments of this paper take on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from desim.experiments import options
from desim.experiments.dbf.simulating import BLOCK, Setting
from desim.experiments.dbf.workloads import TRACE, present

__all__ = ["Options"]

#: With --quick: jobs of an episode, and episodes of a run.
QUICK_JOBS, QUICK_BLOCK = 150, 2


@dataclass(frozen=True)
class Options(options.Options):
    """What all experiments of this paper take; with ``quick`` there are two episodes of 150 jobs.

    Attributes
    ----------
    seeds : int
        Episodes, the same for all agents.
    workload : {"lublin_256", "generated"}
        The paper's trace, or generated traces like it, which no training has seen; the real log in ``kth``.
    weights : Path or None
        Directory of trained weights; those that come with the package if left out.
    check : bool
        Check the records of every run with `desim.validation`.
    """

    family: ClassVar[str] = "dbf"
    block: ClassVar[int] = BLOCK

    seeds: int = 50
    workload: Literal["lublin_256", "generated"] = "lublin_256"
    weights: Path | None = None
    check: bool = False

    @property
    def num_episodes(self) -> int:
        """How many episodes are compared."""
        return min(self.seeds, QUICK_BLOCK) if self.quick else self.seeds

    @property
    def seed_list(self) -> list[int]:
        """The blocks of episodes; the last one may hold more than are compared."""
        size = QUICK_BLOCK if self.quick else self.block
        return list(range(-(-self.num_episodes // size)))

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for, on the workload that is; it is checked if that is a trial."""
        named = self.workload if setting.workload == TRACE else setting.workload
        setting = replace(setting, workload=present(named), episodes=self.block)
        if not self.quick:
            return replace(setting, check=setting.check or self.check)
        return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), episodes=QUICK_BLOCK, check=True)
