"""Simulation of one run: a trajectory of jobs and capacity, and an agent by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import process_time_ns
from typing import Any

import numpy as np

from desim import simulate
from desim.agents.deferrable import Oracle, create
from desim.decision_times import DecisionTimes
from desim.experiments.frame import Choice
from desim.experiments.learning_curves import trained_rows
from desim.experiments.osdec.workloads import TRACED, traced
from desim.experiments.study import is_valid
from desim.problems.deferrable import DeferrableCluster
from desim.sweep import Run
from desim.workloads.deferrable import Scenario, generate, named

WHOLE_LIFE = (("starts", "what fits for as long as it runs"),)
RULES: Mapping[str, Choice] = {
    "FIFO": Choice("fifo", WHOLE_LIFE),
    "SJF": Choice("smallest-work", WHOLE_LIFE),
    "Tetris": Choice("tetris", WHOLE_LIFE),
}
"""Rules of the paper. In its table 1, utilization and delay add up to the total: they never exceed the capacity."""

OURS: Mapping[str, Choice] = {
    "FIFO, what fits now": Choice("fifo"),
    "earliest deadline": Choice("earliest-deadline"),
    "list plan": Choice("list-plan"),
}
"""Rules of desim that, like the learned agents, do not know the future."""

LEARNED: Mapping[str, str] = {
    "REINFORCE": "osdec-table-1-reinforce",
    "PPO": "osdec-table-1-ppo",
    "PointerNet": "osdec-table-1-pointernet",
    "PPO+Att": "osdec-table-1-ppo-att",
    "PPO+Att+AuxH": "osdec-table-1-ppo-att-auxh",
    "PPO+Att+AuxL": "osdec-table-1-ppo-att-auxl",
    "OSDEC": "osdec-table-1",
}
"""Learned agents of the paper, and their weights in desim: as printed, trained on the workload of table 1."""

METRICS = ("utilization", "time_delay", "violation_penalty", "total_reward")
"""Metrics of a run, in core-slots; "utilization" is the paper's name for the revenue."""


@dataclass(frozen=True)
class Setting:
    """Workload and objective.

    Attributes
    ----------
    workload : str
        Name known to :func:`desim.workloads.deferrable.named`, or one of
        :data:`desim.experiments.osdec.workloads.TRACED`.
    real_time : bool
        Whether jobs are shown only at their earliest start and must then be started.
    delay_weight : float
        Cost of one slot of delay.
    seeds : int
        Largest number of trajectories.
    num_slots : int or None
        Length of a trajectory in slots. Default: that of the workload.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    workload: str = "osdec-table-1"
    real_time: bool = False
    delay_weight: float = 2.0
    seeds: int = 100
    num_slots: int | None = None
    check: bool = False


def learned_rows(*, several: bool = False) -> dict[str, Choice]:
    """Return the learned agents whose weights ship with the package: their first trainings, or several of each."""
    return trained_rows("osdec", LEARNED, several=several)


def scenario_of(setting: Setting, seed: int) -> Scenario:
    """Return the jobs and the capacity of a trajectory, the same for all agents."""
    if setting.workload in TRACED:
        return traced(setting.workload, seed, setting.num_slots)
    settings = named(setting.workload)
    return generate(replace(settings, num_slots=setting.num_slots or settings.num_slots), seed=seed)


def perform(run: Run) -> dict[str, Any]:
    """Simulate an agent on a trajectory.

    Parameters
    ----------
    run : Run
        Run of a :class:`Setting` and a :class:`~desim.experiments.frame.Choice`.

    Returns
    -------
    dict
        :data:`METRICS`, ``decision_ms``, the median processor time of a decision, and ``valid``, None if unchecked.
    """
    setting: Setting = run.setting
    scenario = scenario_of(setting, run.seed)
    chosen = dict(run.agent.parameters)
    agent: Any = create(run.agent.policy)
    if "starts" in chosen:
        agent.forecast = Oracle(np.asarray(scenario.capacity)[:, None])
    cluster = DeferrableCluster(
        scenario.jobs,
        scenario.capacity,
        num_slots=scenario.num_slots,
        delay_weight=setting.delay_weight,
        real_time=setting.real_time,
    )
    timed = DecisionTimes(agent, process_time_ns)
    result = simulate(cluster, timed, seed=run.seed)
    metrics = result.metrics()
    metrics["utilization"] = metrics["revenue"]
    return {
        **{name: metrics[name] for name in METRICS},
        "decision_ms": 1e3 * float(np.median(timed.seconds)),  # the first one compiles
        "valid": is_valid(result, cluster.jobs, check=setting.check),
    }
