"""Gymnasium environment for deferrable jobs under a fluctuating capacity, with its rewards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from desim import plugins
from desim.checks import named
from desim.envs.base import Encoder, Episodes, Reward, SchedulingEnv, SlotReward, episodes_of
from desim.problems.deferrable.cluster import DeferrableCluster, SlotOutcome
from desim.problems.deferrable.encoder import DecodingRule, ScoreEncoder

__all__ = ["REWARDS", "DeferrableEnv", "PaperReward", "UtilizationReward"]


class PaperReward(SlotReward):
    """Revenue minus delay and violation costs: equation (6) of the OSDEC paper, divided by a scale.

    Summed over an episode, it is the paper's objective, equation (1): the metric ``total_reward``.

    Parameters
    ----------
    scale : float
        Core-slots that yield a reward of 1.
    """

    def __init__(self, scale: float = 10.0) -> None:
        super().__init__(scale)

    def value(self, outcome: SlotOutcome) -> float:
        """Return the value of a slot, in core-slots."""
        return outcome.reward


class UtilizationReward(PaperReward):
    """Cores times duration of the started jobs, minus those of evicted jobs, divided by a scale.

    Summed over an episode, it is the metric ``revenue``, the utilization of the paper's Table 2.
    """

    def value(self, outcome: SlotOutcome) -> float:
        """Return the value of a slot, in core-slots."""
        return outcome.revenue


REWARDS: dict[str, Callable[[], Reward]] = {"paper": PaperReward, "utilization": UtilizationReward}
"""Rewards by name."""


class DeferrableEnv(SchedulingEnv):
    """``desim/Deferrable-v0``: environment in which scores order the starts of jobs with an open window, slot by slot.

    The action space is Box(-1, 1, (max_jobs,)): scores, see :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.

    Parameters
    ----------
    workload : sequence of DeferrableCluster, or callable, optional
        Clusters that episodes are sampled from, or a function that creates the cluster of an episode from a random
        generator. By default, jobs and capacity are generated for each episode, see
        :func:`desim.workloads.deferrable.registry.draw`.
    max_jobs : int
        Number of jobs with an open window that are encoded and scored.
    num_resources : int
        Number of resources of every cluster.
    observation : {"scores"} or Encoder
        Name of an encoder, or a custom encoder; with a custom one, max_jobs, num_resources, threshold and rule are
        ignored.
    threshold : float
        Score at or below which jobs are not started; -1 excludes none.
    rule : {"stop", "skip", "reserve"}
        Treatment of the first job that does not fit, see :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.
    reward : {"paper", "utilization"} or Reward
        Name of a reward, or a custom reward.
    until, max_decisions, skip_forced, render_mode : float, int, bool, str
        As for :class:`~desim.envs.SchedulingEnv`; a decision is forced if no job can start.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If the package for the default workload is not installed.
    """

    picture = "capacity"  # a Gantt chart shows the first jobs only

    def __init__(
        self,
        workload: Sequence[DeferrableCluster] | Episodes | None = None,
        max_jobs: int = 32,
        *,
        num_resources: int = 1,
        observation: str | Encoder = "scores",
        threshold: float = -1.0,
        rule: DecodingRule = "stop",
        reward: str | Reward = "paper",
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if workload is None:
            workload = partial(_drawn, plugins.episode_workload("deferrable"))
        encoders: dict[str, Callable[[], Encoder]] = {
            "scores": lambda: ScoreEncoder(max_jobs, num_resources, threshold=threshold, rule=rule)
        }
        super().__init__(
            episodes_of(workload),
            named("observation", observation, encoders),
            named("reward", reward, REWARDS),
            until=until,
            max_decisions=max_decisions,
            skip_forced=skip_forced,
            render_mode=render_mode,
        )


def _drawn(make: Callable[..., Any], rng: np.random.Generator) -> DeferrableCluster:
    scenario = make(rng)
    return DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
