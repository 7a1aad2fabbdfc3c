"""Deferrable jobs under a fluctuating capacity as a Gymnasium environment, and what it earns."""

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
    """Revenue less delay and violation: equation (6) of the OSDEC paper, over a scale.

    The sum over an episode is the paper's objective, equation (1): the metric ``total_reward``.

    Parameters
    ----------
    scale : float
        Core-slots that earn 1.
    """

    def __init__(self, scale: float = 10.0) -> None:
        super().__init__(scale)

    def value(self, outcome: SlotOutcome) -> float:
        """Return what a slot is worth, in core-slots."""
        return outcome.reward


class UtilizationReward(PaperReward):
    """Cores times duration of the jobs that are started, less those of jobs that are evicted, over a scale.

    The sum over an episode is the metric ``revenue``, the utilization of the paper's Table 2.
    """

    def value(self, outcome: SlotOutcome) -> float:
        """Return what a slot is worth, in core-slots."""
        return outcome.revenue


REWARDS: dict[str, Callable[[], Reward]] = {"paper": PaperReward, "utilization": UtilizationReward}
"""The rewards by name."""


class DeferrableEnv(SchedulingEnv):
    """``desim/Deferrable-v0``: in which order jobs are started whose window is open, slot by slot.

    The action space is Box(-1, 1, (max_jobs,)): scores, see :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.

    Parameters
    ----------
    workload : sequence of DeferrableCluster, or callable, optional
        Clusters that episodes are drawn from, or what makes that of an episode from a random generator. By default
        jobs and capacity are drawn for each episode, see :func:`desim.workloads.deferrable.registry.draw`.
    max_jobs : int
        How many jobs whose window is open are seen, and scored.
    num_resources : int
        Resources of every cluster.
    observation : {"scores"} or Encoder
        What is seen; with an encoder of your own max_jobs, num_resources, threshold and rule play no part.
    threshold : float
        Jobs whose scores are at or below it are not started; -1 excludes none.
    rule : {"stop", "skip", "reserve"}
        Whether the first job that does not fit ends the slot, or is passed over.
    reward : {"paper", "utilization"} or Reward
        What is earned.
    until, max_decisions, skip_forced : float, int, bool
        As for :class:`~desim.envs.SchedulingEnv`; forced are slots without a job to be started.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If there is no package that makes the default workload.
    """

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
        )


def _drawn(make: Callable[..., Any], rng: np.random.Generator) -> DeferrableCluster:
    scenario = make(rng)
    return DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
