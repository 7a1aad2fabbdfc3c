"""Common parts of this paper's studies: sizes, rows, and labels of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from desim.exceptions import InvalidConfiguration
from desim.experiments import study
from desim.experiments.dbf.simulate import Setting, perform
from desim.experiments.dbf.workloads import TRACE, num_episodes, present
from desim.experiments.frame import Choice
from desim.experiments.learning_curves import trained_rows

#: With --quick: number of jobs per episode, and of episodes per run.
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
"""Labels of metrics; they include all jobs, also those still queued, unless stated otherwise."""

ONLINE = Setting()
"""Episodes of the paper: from a random point of the trace to the 1,000th start."""

RULES = {
    "FCFS": Choice("backfilling-fcfs"),
    "LCFS": Choice("backfilling-lcfs"),
    "SJF by cores": Choice("backfilling-smallest-first"),
    "SJF": Choice("backfilling-sjf"),
    "FCFS, EASY": Choice("easy-fcfs"),
}
"""Rules that see the whole queue; the first three are the paper's, whose SJF starts the job with fewest cores."""

DBF_WINDOWS = ((20, 0), (19, 1), (10, 10))
"""Windows with trained weights of DBF as printed: numbers of slots at the head and at the tail."""


def dbf_rows() -> dict[str, Choice]:
    """Return DBF as printed: every training of every window."""
    weights = {f"dbf {head}-{tail}": f"dbf-m{head + tail}-t{tail}" for head, tail in DBF_WINDOWS}
    return trained_rows("dbf", weights, several=True)


def window_rules(head: int, tail: int, rules: tuple[str, ...] = ("random", "shortest", "first")) -> dict[str, Choice]:
    """Return rules that see only a window, by name."""
    return {rule: Choice(f"window-{rule}-{head}-{tail}") for rule in rules}


@dataclass(frozen=True)
class Study(study.Study):
    """Settings of all studies of this paper; with ``quick`` there are two episodes of 100 jobs.

    Attributes
    ----------
    seeds : int
        Number of blocks of episodes, the same for all agents.
    workload : {"lublin_256", "generated"}
        The paper's trace, or generated traces like it that no training has used.
    """

    paper: ClassVar[str] = "dbf"
    perform = staticmethod(perform)

    workload: Literal["lublin_256", "generated"] = "lublin_256"

    def fit(self, setting: Any) -> Any:
        """Return a setting in the requested size and on the requested workload; trials are checked."""
        if not isinstance(setting, Setting):
            return setting
        setting = replace(setting, workload=present(self.workload if setting.workload == TRACE else setting.workload))
        if self.quick:
            return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), episodes=QUICK_EPISODES, check=True)
        return setting

    def seeds_of(self, setting: Any) -> list[int]:
        """Return the blocks of a setting; its workload must have enough episodes."""
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
        """Blocks and workload, as the end of titles."""
        return f"{len(self.seed_list)} blocks of episodes of {self.workload}"


def named(metrics: tuple[str, ...]) -> Mapping[str, str]:
    """Return the labels of some metrics."""
    return {metric: METRICS[metric] for metric in metrics}
