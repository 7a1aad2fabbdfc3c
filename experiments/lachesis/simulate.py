"""Simulation of one run: a cluster with its jobs, an agent, and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import process_time_ns
from typing import Any

import numpy as np

from desim import simulate
from desim.agents.dag import create
from desim.decision_times import DecisionTimes
from desim.experiments.frame import Choice
from desim.experiments.study import is_valid
from desim.problems.dag import DagCluster, Job
from desim.sweep import Run
from desim.workloads import executors, submissions, tpch

CALIBRATED = 3.5
"""Ratio of transfer to run times at which the rules are closest to the paper's results; the paper states none."""

METRICS = ("makespan", "speedup", "slr", "turnaround_time_mean", "lower_bound", "num_duplicates", "data_moved")
AHEAD = ("plan_ahead", True)
"""Parameter of a choice of a rule that assigns nodes as soon as their parents are assigned; others decide alone."""


@dataclass(frozen=True)
class Setting:
    """Cluster and workload; the defaults are those of section V-B where it states them.

    Attributes
    ----------
    num_jobs : int
        Number of jobs, which are TPC-H queries of 2, 5, 10, 50, 80 and 100 GB.
    num_executors : int
        Number of executors; their speeds are sampled from 2.1, 2.2, ... 3.6 GHz.
    ccr : float
        Ratio of mean transfer time to mean run time.
    mean_interval : float
        Mean time between submissions in seconds; 0 submits all jobs at time 0.
    data : str
        Directory with measured queries in ``tpch``; empty for synthetic queries.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    num_jobs: int = 20
    num_executors: int = 50
    ccr: float = CALIBRATED
    mean_interval: float = 0.0
    data: str = ""
    check: bool = False


def planning(policy: str) -> Choice:
    """Return a rule that does not plan by itself, but here assigns nodes as soon as their parents are assigned."""
    return Choice(policy, (AHEAD,))


def jobs_of(setting: Setting, seed: int) -> list[Job]:
    """Return the jobs of a setting in order of submission, the same for all agents.

    Parameters
    ----------
    setting : Setting
        Setting of the workload.
    seed : int
        Seed of the sample.
    """
    directory = Path(setting.data) / "tpch" if setting.data else None
    jobs = tpch.generate(setting.num_jobs, ccr=setting.ccr, directory=directory, seed=seed)
    return submissions.poisson(jobs, setting.mean_interval, seed) if setting.mean_interval else submissions.batch(jobs)


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run. All agents of a setting and seed get the same executors and the same jobs.

    Parameters
    ----------
    run : Run
        Run of a :class:`Setting` and a Choice.

    Returns
    -------
    dict
        Metrics of :func:`measure`.
    """
    return measure(jobs_of(run.setting, run.seed), run)


def measure(jobs: list[Job], run: Run) -> dict[str, Any]:
    """Simulate jobs, and return the metrics of the run.

    Parameters
    ----------
    jobs : list of Job
        Jobs in order of submission.
    run : Run
        Run with the agent, the number of executors, and whether the records are checked.

    Returns
    -------
    dict
        Metrics of the run; ``gap``, percent above the lower bound; ``decision_50`` and ``decision_98``, milliseconds of
        processor time within which 50 and 98 percent of the decisions are made; ``valid``, None if unchecked.
    """
    machines = executors.heterogeneous(run.setting.num_executors, seed=run.seed)
    timed = DecisionTimes(create(run.agent.policy), process_time_ns)
    ahead = True if AHEAD in run.agent.parameters else None
    result = simulate(DagCluster(jobs, machines, plan_ahead=ahead), timed, seed=run.seed)
    found = result.metrics()
    middle, high = 1000.0 * np.quantile(timed.seconds, (0.5, 0.98))
    return {name: found[name] for name in METRICS} | {
        "gap": 100.0 * found["gap_to_lower_bound"],
        "decision_50": float(middle),
        "decision_98": float(high),
        "valid": is_valid(result, check=run.setting.check),
    }
