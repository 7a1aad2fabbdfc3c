"""One run: a cluster with its jobs, an agent, a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim import simulate
from desim.agents.dag import create
from desim.core import Agent
from desim.decision_times import DecisionTimes
from desim.experiments.measured import is_valid
from desim.problems.dag import DagCluster, Executors, Job
from desim.sweep import Run
from desim.workloads import executors, submissions, tpch

__all__ = ["METRICS", "SHARES", "Choice", "Setting", "jobs_of", "measure", "perform"]

#: What is kept of the metrics of a run.
METRICS = (
    "makespan",
    "speedup",
    "slr",
    "turnaround_time_mean",
    "gap_to_lower_bound",
    "lower_bound",
    "num_duplicates",
    "num_useful_duplicates",
    "data_moved",
    "utilization",
)

#: Shares of the decisions whose times are kept.
SHARES = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True)
class Setting:
    """A cluster and its workload; the defaults are those of section V where it says something.

    Attributes
    ----------
    num_jobs : int
        TPC-H-like queries of 2, 5, 10, 50, 80 and 100 GB.
    num_executors : int
        Their speeds are drawn from 2.1, 2.2, ... 3.6 GHz.
    ccr : float
        Ratio of mean transfer time to mean run time, which the paper does not give.
    mean_interval : float
        Mean time between submissions in seconds; 0 for all at time 0.
    check : bool
        Check the records with `desim.validation`.
    """

    num_jobs: int = 20
    num_executors: int = 50
    ccr: float = 0.5
    mean_interval: float = 0.0
    check: bool = False


@dataclass(frozen=True)
class Choice:
    """An agent, and how it is asked.

    Attributes
    ----------
    policy : str
        Its name in `desim.agents.dag.registry`.
    plan_ahead : bool
        It may assign nodes as soon as their parents are assigned.
    sha256 : str
        Of its weights, if it is trained.
    """

    policy: str
    plan_ahead: bool = False
    sha256: str = ""


def jobs_of(setting: Setting, seed: int) -> list[Job]:
    """Return the jobs of a setting, the same for all agents.

    Parameters
    ----------
    setting : Setting
        Which workload.
    seed : int
        Which sample of it.

    Returns
    -------
    list of Job
        In order of submission.
    """
    jobs = tpch.generate(setting.num_jobs, ccr=setting.ccr, seed=seed)
    if setting.mean_interval:
        return submissions.poisson(jobs, setting.mean_interval, seed)
    return submissions.batch(jobs)


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run. All agents of one setting and seed face the same executors and the same jobs.

    Parameters
    ----------
    run : Run
        Of a :class:`Setting` and a :class:`Choice`.

    Returns
    -------
    dict
        See :func:`measure`.
    """
    setting: Setting = run.setting
    machines = executors.heterogeneous(setting.num_executors, seed=run.seed)
    return measure(jobs_of(setting, run.seed), machines, create(run.agent.policy), run)


def measure(jobs: Sequence[Job], machines: Executors, agent: Agent, run: Run) -> dict[str, Any]:
    """Simulate jobs and measure what has come of it.

    Parameters
    ----------
    jobs : sequence of Job
        In order of submission.
    machines : Executors
        What they run on.
    agent : Agent
        What decides.
    run : Run
        Whether the agent plans ahead and whether the records are checked.

    Returns
    -------
    dict
        The metrics of :data:`METRICS`; ``decision_seconds``, the quantiles of the wall-clock time of a decision at 201
        equally spaced shares; ``num_decisions``; ``valid``, None if unchecked.
    """
    timed = DecisionTimes(agent)
    result = simulate(DagCluster(jobs, machines, plan_ahead=run.agent.plan_ahead), timed, seed=run.seed)
    metrics = result.metrics()
    return {name: metrics[name] for name in METRICS} | {
        "decision_seconds": np.quantile(timed.seconds, SHARES).tolist(),
        "num_decisions": len(timed.seconds),
        "valid": is_valid(result, check=run.setting.check),
    }
