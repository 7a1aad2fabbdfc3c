"""Multi-server jobs on a bipartite graph as a Gymnasium environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from desim import plugins
from desim.envs.base import Encoder, Episodes, Reward, SchedulingEnv
from desim.envs.episodes import episodes_of, named
from desim.envs.multiserver.allocation_encoder import AllocationEncoder
from desim.envs.multiserver.rewards import REWARDS
from desim.problems.multiserver import MultiServerCluster, RewardModel

__all__ = ["MultiServerEnv"]


class MultiServerEnv(SchedulingEnv):
    """``desim/MultiServer-v0``: what each job gets of each resource from each node, slot by slot.

    The action space is Box(-1, 1, (num_channels, num_resources)): shares of requests, see :class:`AllocationEncoder`.

    Parameters
    ----------
    workload : sequence of MultiServerCluster, or callable, optional
        Clusters that episodes are drawn from, or what makes that of an episode from a random generator. Their graphs
        must have the same numbers of ports, nodes, channels and resources; a callable is called once to see them. By
        default a system is drawn once for the environment, and arrivals for each episode, see
        :func:`desim.workloads.episodes.multiserver`.
    observation : {"shares"} or Encoder
        What is seen.
    reward : {"paper"} or Reward
        What is earned.
    num_slots : int
        Length of an episode of the default workload.
    until : float
        An episode is truncated at this time, in slots.
    max_decisions : int, optional
        And after so many decisions.
    skip_forced : bool
        Do not ask in slots without a job.
    workload_seed : int
        Of the default system.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If there is no package that makes the default workload.
    """

    def __init__(
        self,
        workload: Sequence[MultiServerCluster] | Episodes | None = None,
        *,
        observation: str | Encoder = "shares",
        reward: str | Reward = "paper",
        num_slots: int = 500,
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        workload_seed: int = 0,
    ) -> None:
        if workload is None:
            make = plugins.episode_workload("multiserver")
            rewards, _ = make(np.random.default_rng(workload_seed), num_slots=num_slots)
            workload = partial(_drawn, make, rewards, num_slots)
        episodes = episodes_of(workload)

        def encoder() -> Encoder:
            first = cast(MultiServerCluster, episodes(np.random.default_rng(workload_seed)))
            return AllocationEncoder(first.layout.graph)

        super().__init__(
            episodes,
            named("observation", observation, {"shares": encoder}),
            named("reward", reward, REWARDS),
            until=until,
            max_decisions=max_decisions,
            skip_forced=skip_forced,
        )


def _drawn(
    make: Callable[..., Any], rewards: RewardModel, num_slots: int, rng: np.random.Generator
) -> MultiServerCluster:
    rewards, arrivals = make(rng, rewards=rewards, num_slots=num_slots)
    return MultiServerCluster(rewards, arrivals)
