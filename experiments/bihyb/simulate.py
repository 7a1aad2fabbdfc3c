"""Simulation of one run: all stages of one instance on one pool, with one of the paper's rules or a search of ours."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim import simulate
from desim.agents.dag.orders import static_levels
from desim.agents.dag.search import SearchAgent
from desim.agents.search import Budget
from desim.exceptions import InvalidConfiguration
from desim.experiments.frame import Choice
from desim.experiments.study import is_valid
from desim.problems.dag import Assign, DagCluster, DagObservation, Executors, Job
from desim.sweep import Run
from desim.workloads.dag import stages, tpch

__all__ = ["PASSES", "RULES", "Rule", "Setting", "perform"]

Floats = NDArray[np.float64]

PASSES = {"Search, 100 passes": 100, "Search, 1,000 passes": 1_000, "Search, 10,000 passes": 10_000}
"""Pairs of a backward and a forward pass of our search, by its name in tables."""
FULL = 1e-9
"""Relative distance to the lower bound up to which a makespan is optimal."""


@dataclass(frozen=True)
class Setting:
    """Instances and arithmetic.

    Attributes
    ----------
    size : int
        Number of queries in an instance.
    data : str
        Directory of the instances; empty for generated queries.
    by_shares : bool
        Whether demands are added as floats, in shares of the pool, as in the publication: ``used + share <= 1`` then
        refuses some exact fills. Otherwise, amounts are whole numbers.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    size: int
    data: str = ""
    by_shares: bool = False
    check: bool = False


def _stage_number(job: Job) -> NDArray[np.int64]:
    """Return the number of each stage in its instance: stages of one rank start in this order."""
    return np.array([int(name.removeprefix("node")) for name in job.names])


RULES: dict[str, Callable[[Job, Executors, Floats], tuple[Floats, NDArray[np.int64]]]] = {
    "SJF": lambda job, pool, demands: (job.work, _stage_number(job)),
    "Tetris": lambda job, pool, demands: (-demands, -_stage_number(job)),
    "Critical path": lambda job, pool, demands: (-static_levels(job, pool), _stage_number(job)),
}
"""The paper's rules: functions that return the keys of the stages, smallest first, and what breaks ties."""


class Rule:
    """Agent that starts every stage that fits, in the order of a rule.

    Parameters
    ----------
    name : str
        Name of the rule.
    by_shares : bool
        Whether to add demands as floats.
    """

    considers = frozenset({"demands"})

    def __init__(self, name: str, *, by_shares: bool) -> None:
        self.name, self.by_shares = name, by_shares
        self._ranks: NDArray[np.int64] | None = None

    def act(self, observation: DagObservation) -> list[Assign | None]:
        """Return the assignments of all stages that fit now."""
        (state,) = observation.jobs.values()
        job, (capacity,) = state.job, observation.executors.units[:, 0].tolist()
        if self._ranks is None:
            self._units = [units[0] for units in state.units if units is not None]
            keys, ties = RULES[self.name](job, observation.executors, np.array(self._units, dtype=np.float64))
            order = np.lexsort((ties, keys))
            self._ranks = np.empty_like(order)
            self._ranks[order] = np.arange(len(order))
            self._used, self._running, self._count = 0.0, list[tuple[float, int, float]](), 0
        while self._running and self._running[0][0] <= observation.time:
            self._used -= heapq.heappop(self._running)[2]
        chosen: list[Assign | None] = []
        free = int(observation.free_units[0, 0])
        nodes = np.array([node for _, node in observation.ready.values()])
        for node in nodes[np.argsort(self._ranks[nodes])].tolist():
            units, share = self._units[node], self._units[node] / capacity
            if self._used + share <= 1.0 if self.by_shares else units <= free:
                free -= units
                self._used += share
                heapq.heappush(self._running, (observation.time + state.run_times[node, 0], self._count, share))
                self._count += 1
                chosen.append(Assign(job.job_id, node, 0))
        return [*chosen, None]


@lru_cache(maxsize=4)
def _instances(data: str) -> dict[str, list[tuple[Job, Executors]]]:
    return stages.read_all(Path(data) / "bihyb" / "instances.json.gz")


def instance(setting: Setting, number: int) -> tuple[Job, Executors]:
    """Return the stages and the pool of an instance.

    Parameters
    ----------
    setting : Setting
        Where the instances are, and how many queries they have.
    number : int
        Number of the instance; of generated queries, their seed.

    Returns
    -------
    tuple of Job and Executors
        All stages as one job, and one pool.

    Raises
    ------
    InvalidConfiguration
        If there is no such instance.
    """
    if setting.data:
        found = _instances(setting.data).get(str(setting.size), [])
        if number >= len(found):
            raise InvalidConfiguration(f"seeds: got {number}, expected below {len(found)}, the number of instances")
        return found[number]
    queries = tpch.generate(setting.size, seed=number)
    durations = np.concatenate([job.work / job.num_tasks / tpch.REFERENCE_SPEED for job in queries])
    demands = np.concatenate([np.minimum(job.num_tasks, stages.CAPACITY) for job in queries])
    first = np.cumsum([0, *(job.num_nodes for job in queries)]).tolist()
    edges = [
        (start + parent, start + node)
        for start, job in zip(first, queries, strict=False)
        for node, parents in enumerate(job.parent_lists)
        for parent, _ in parents
    ]
    return stages.instance(durations.tolist(), demands.tolist(), edges)


@cache
def compile_search() -> None:
    """Carry out a small search, so that no search that is timed has to be compiled."""
    job, pool = stages.instance([1.0, 1.0], [1, 1], [(0, 1)])
    simulate(DagCluster([job], pool), SearchAgent(budget=Budget(moves=1)))


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run of an instance.

    Parameters
    ----------
    run : Run
        Run of a :class:`Setting` and a :class:`Choice`; its seed is the number of the instance.

    Returns
    -------
    dict
        ``makespan``; ``lower_bound`` of the makespan; ``optimal``, 1 if the makespan meets it and else 0; ``seconds``
        of processor time that the run took; ``valid``, None if unchecked.
    """
    setting: Setting = run.setting
    choice: Choice = run.agent
    job, pool = instance(setting, run.seed)
    agent: Any
    if choice.policy in PASSES:
        compile_search()
        agent = SearchAgent("makespan", Budget(moves=PASSES[choice.policy]), by_shares=setting.by_shares)
    elif choice.policy in RULES:
        agent = Rule(choice.policy, by_shares=setting.by_shares)
    else:
        raise InvalidConfiguration(f"policy: got {choice.policy!r}, expected one of {', '.join([*RULES, *PASSES])}")
    begin = time.process_time()
    result = simulate(DagCluster([job], pool), agent)
    seconds = time.process_time() - begin
    metrics = result.metrics()
    makespan, bound = metrics["makespan"], metrics["lower_bound"]
    return {
        "makespan": makespan,
        "lower_bound": bound,
        "optimal": float(makespan <= bound * (1 + FULL)),
        "seconds": seconds,
        "valid": is_valid(result, [job], check=setting.check),
    }
