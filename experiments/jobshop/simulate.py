"""Simulation of one run: all jobs of a job shop, with a rule, our search, or CP-SAT."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from desim import simulate
from desim.agents.dag import create
from desim.agents.dag.optimum import Optimum
from desim.agents.dag.search import SearchAgent
from desim.exceptions import InvalidConfiguration
from desim.experiments.frame import Choice
from desim.experiments.study import is_valid
from desim.problems.dag import DagCluster, Executors, Job
from desim.sweep import Run
from desim.workloads.dag import jobshop

__all__ = ["CP_SAT", "Setting", "instances", "perform", "shop"]

CP_SAT = "cp-sat"
"""Policy that plans with CP-SAT; its parameter ``seconds`` is the limit on its processor time."""

WARM_SEARCH, WARM_SECONDS = "search:dag:makespan:1000", 0.1
"""Search and limit of CP-SAT in the run before the one that is timed: it imports and compiles what the agent calls."""
LONGEST = 99
"""Longest operation of a generated job shop, in seconds, as in Taillard's."""


@dataclass(frozen=True)
class Setting:
    """Instance.

    Attributes
    ----------
    instance : str
        Name of the instance, such as ``"la16"``; of a generated one, its numbers of jobs and machines, such as
        ``"10 x 5"``.
    data : str
        Directory of the instances; empty for generated ones.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    instance: str
    data: str = ""
    check: bool = False


@lru_cache(maxsize=4)
def instances(data: str) -> dict[str, float]:
    """Return the best known makespan of each instance, by name.

    Parameters
    ----------
    data : str
        Directory of the instances.
    """
    path = Path(data) / "jobshop" / "jobshop.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(instance["upper_bound"]) for name, instance in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidConfiguration(
            f"data: got {data!r}, expected a directory with jobshop/jobshop.json, whose instances have upper_bound "
            f"({type(error).__name__}: {error})"
        ) from None


def shop(setting: Setting, seed: int) -> tuple[list[Job], Executors]:
    """Return the jobs and the machines of an instance.

    Parameters
    ----------
    setting : Setting
        The instance.
    seed : int
        Seed of a generated instance.

    Returns
    -------
    tuple of list of Job and Executors
        Jobs submitted at time 0, and an executor per machine.
    """
    if setting.data:
        return jobshop.read(Path(setting.data) / "jobshop" / "jobshop.json", setting.instance)
    num_jobs, num_machines = (int(number) for number in setting.instance.split(" x "))
    rng = np.random.default_rng(seed)
    machines = [rng.permutation(num_machines).tolist() for _ in range(num_jobs)]
    return jobshop.job_shop(machines, rng.integers(1, LONGEST + 1, (num_jobs, num_machines)).tolist())


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run of an instance.

    Parameters
    ----------
    run : Run
        Run of a :class:`Setting` and a :class:`Choice`.

    Returns
    -------
    dict
        ``makespan``; ``gap``, by which it exceeds the best known one, or the lower bound of a generated shop, in
        percent; ``seconds`` of processor time that the run took; ``valid``, None if unchecked.
    """
    setting: Setting = run.setting
    choice: Choice = run.agent
    jobs, machines = shop(setting, run.seed)
    agent: Any
    warm: Any
    if choice.policy == CP_SAT:
        agent, warm = (
            Optimum(duplication=False, time_limit=limit) for limit in (choice.parameters[0][1], WARM_SECONDS)
        )
    else:
        agent = create(choice.policy)
        warm = create(WARM_SEARCH if isinstance(agent, SearchAgent) else choice.policy)
    simulate(DagCluster(jobs, machines), warm, seed=run.seed)
    begin = time.process_time()
    result = simulate(DagCluster(jobs, machines), agent, seed=run.seed)
    seconds = time.process_time() - begin
    metrics = result.metrics()
    makespan = metrics["makespan"]
    best = instances(setting.data)[setting.instance] if setting.data else metrics["lower_bound"]
    return {
        "makespan": makespan,
        "gap": 100.0 * (makespan / best - 1.0),
        "seconds": seconds,
        "valid": is_valid(result, jobs, check=setting.check),
    }
