"""DAG jobs on heterogeneous executors as a Gymnasium environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from desim import plugins
from desim.envs.base import Encoder, Episodes, Reward, SchedulingEnv
from desim.envs.dag.node_encoder import Allocate, NodeEncoder
from desim.envs.dag.rewards import REWARDS
from desim.envs.episodes import episodes_of, named
from desim.problems.dag import DagCluster, Executors

__all__ = ["DagEnv"]


class DagEnv(SchedulingEnv):
    """``desim/Dag-v0``: which executable node is assigned next, and to which executor.

    The action space is Discrete(max_nodes x num_executors), see :class:`NodeEncoder`; with an allocation it is
    Discrete(max_nodes).

    Parameters
    ----------
    workload : sequence of DagCluster, or callable, optional
        Clusters that episodes are drawn from, or what makes that of an episode from a random generator. By default
        queries like those of TPC-H are drawn for each episode, see :func:`desim.workloads.episodes.dag`, and executors
        once for the environment.
    num_executors : int
        Executors of every cluster.
    max_nodes : int
        How many executable nodes are seen.
    allocation : callable, optional
        Chooses the executor of a node, given the observation, the job and the node, such as
        ``desim.agents.dag.DEFT().allocate``; an action is then a node alone.
    observation : {"nodes"} or Encoder
        What is seen; with an encoder of your own max_nodes and allocation play no part.
    reward : {"makespan", "completion_time"} or Reward
        What is earned.
    num_jobs : int
        Jobs of an episode of the default workload.
    until : float
        An episode is truncated at this time, in seconds.
    max_decisions : int, optional
        And after so many decisions.
    skip_forced : bool
        Do not ask while all executors are down.
    workload_seed : int
        Of the default executors.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If there is no package that makes the default workload.
    """

    def __init__(
        self,
        workload: Sequence[DagCluster] | Episodes | None = None,
        num_executors: int = 10,
        *,
        max_nodes: int = 32,
        allocation: Allocate | None = None,
        observation: str | Encoder = "nodes",
        reward: str | Reward = "makespan",
        num_jobs: int = 20,
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        workload_seed: int = 0,
    ) -> None:
        if workload is None:
            make = plugins.episode_workload("dag")
            rng = np.random.default_rng(workload_seed)
            _, executors = make(rng, num_jobs=num_jobs, num_executors=num_executors)
            workload = partial(_drawn, make, executors, num_jobs)
        encoders: dict[str, Callable[[], Encoder]] = {
            "nodes": lambda: NodeEncoder(num_executors, max_nodes, allocation=allocation)
        }
        super().__init__(
            episodes_of(workload),
            named("observation", observation, encoders),
            named("reward", reward, REWARDS),
            until=until,
            max_decisions=max_decisions,
            skip_forced=skip_forced,
        )


def _drawn(make: Callable[..., Any], executors: Executors, num_jobs: int, rng: np.random.Generator) -> DagCluster:
    jobs, executors = make(rng, num_jobs=num_jobs, executors=executors)
    return DagCluster(jobs, executors)
