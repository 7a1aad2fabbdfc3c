"""What the studies of this paper share: sizes, rows, and what metrics are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from desim.agents.learning.pretrained import pretrained_names
from desim.exceptions import InvalidConfiguration
from desim.experiments import study
from desim.experiments.dbf.simulate import Setting, card_of, perform
from desim.experiments.dbf.workloads import TRACE, num_episodes, present
from desim.experiments.frame import Choice

__all__ = ["DBF_WINDOWS", "METRICS", "ONLINE", "RULES", "Study", "dbf_rows", "named", "trained", "window_rules"]

#: With --quick: jobs of an episode, and episodes of a run.
QUICK_JOBS, QUICK_EPISODES = 100, 1

METRICS = {
    "waiting_time_mean": "waiting time, s",
    "queue_length_mean": "queue length",
    "utilization": "utilization",
    "queued_load_mean": "queued load, core-s",
    "waiting_time_p99": "99th percentile of waits, s",
    "waiting_time_max": "longest wait, s",
    "bounded_slowdown_mean": "bounded slowdown",
    "slowdown_mean": "slowdown",
    "started_waiting_time_mean": "waiting time of started jobs, s",
    "started_bounded_slowdown_mean": "bounded slowdown of ended jobs",
    "started_slowdown_mean": "slowdown of ended jobs",
    "seen_queue_length": "queue length at decisions",
    "invisible_jobs": "unseen jobs",
    "hidden_share": "share of decisions with some",
}
"""What metrics are called; of all jobs, those still queued included, if nothing else is said."""

ONLINE = Setting()
"""The paper's episodes: from a random point of the trace to the 1,000th start."""

RULES = {
    "FCFS": Choice("backfilling-fcfs"),
    "LCFS": Choice("backfilling-lcfs"),
    "SJF by cores": Choice("backfilling-smallest-first"),
    "SJF": Choice("backfilling-sjf"),
    "FCFS, EASY": Choice("easy-fcfs"),
}
"""Rules that see the whole queue; the first three are the paper's, whose SJF starts the job with fewest cores."""

DBF_WINDOWS = ((20, 0), (19, 1), (10, 10))
"""Windows for which DBF is trained as printed: slots at the head and at the tail."""


def trained(policy: str) -> Choice:
    """Return an agent with weights that come with the package; a digest tells them from others of the same name."""
    return Choice(policy, (("sha256", card_of(policy.partition("@")[0])["sha256"]),))


def dbf_rows() -> dict[str, Choice]:
    """Return DBF as printed with the windows for which there are weights."""
    there = pretrained_names("dbf")
    names = {f"dbf {head}-{tail}": f"dbf-m{head + tail}-t{tail}" for head, tail in DBF_WINDOWS}
    return {row: trained(f"dbf:{name}") for row, name in names.items() if name in there}


def window_rules(head: int, tail: int, rules: tuple[str, ...] = ("random", "shortest", "first")) -> dict[str, Choice]:
    """Return rules that see no more than a window, by their names."""
    return {rule: Choice(f"window-{rule}-{head}-{tail}") for rule in rules}


@dataclass(frozen=True)
class Study(study.Study):
    """What all studies of this paper take; with ``quick`` there are two episodes of 100 jobs.

    Attributes
    ----------
    seeds : int
        Blocks of episodes, the same for all agents.
    workload : {"lublin_256", "generated"}
        The paper's trace, or generated traces like it, which no training has seen.
    check : bool
        Check the records of every run with `desim.validation`.
    """

    paper: ClassVar[str] = "dbf"
    perform = staticmethod(perform)

    workload: Literal["lublin_256", "generated"] = "lublin_256"
    check: bool = False

    def fit(self, setting: Any) -> Any:
        """Return a setting in the size that is asked for, on the workload that is; it is checked if that is a trial."""
        if not isinstance(setting, Setting):
            return setting
        setting = replace(setting, workload=present(self.workload if setting.workload == TRACE else setting.workload))
        if self.quick:
            return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), episodes=QUICK_EPISODES, check=True)
        return replace(setting, check=setting.check or self.check)

    def seeds_of(self, setting: Any) -> list[int]:
        """Return the blocks of a setting; there have to be so many episodes."""
        if isinstance(setting, Setting):
            there = num_episodes(setting.workload, setting.num_jobs)
            if (len(self.seed_list) - 1) * setting.episodes >= there:
                raise InvalidConfiguration(
                    f"seeds: got {len(self.seed_list)} blocks of {setting.episodes} episodes, "
                    f"expected at most {there} episodes of {setting.workload}"
                )
        return self.seed_list

    @property
    def how(self) -> str:
        """What stands behind titles."""
        return f"{len(self.seed_list)} blocks of episodes of {self.workload}"


def named(metrics: tuple[str, ...]) -> Mapping[str, str]:
    """Return what some metrics are called."""
    return {metric: METRICS[metric] for metric in metrics}
