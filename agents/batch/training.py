"""Training of the split-window agent, for ``desim train batch`` and for the experiments.

Workloads for training and for validation are generated from seeds that are kept apart; a real trace, or the one that
a paper used, is left for the evaluation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from desim.agents.batch._experts import EXPERTS, aged, reserving, shortest
from desim.agents.batch._training_episodes import EpisodeOptions, trace_episodes
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.learning.imitation import imitate
from desim.agents.learning.learner import Discounting, Learner
from desim.agents.learning.policy import Policy
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.recipe import train, write
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.problems.batch.env import BatchEnv

__all__ = [
    "EXPERTS",
    "WINDOWS",
    "EpisodeOptions",
    "SplitWindowTraining",
    "aged",
    "make_env",
    "measure",
    "reserving",
    "shortest",
    "trace_episodes",
    "train",
    "with_seed",
    "write",
]

WINDOWS = tuple((size - tail, tail) for size in (8, 10, 16, 20, 32, 64) for tail in range(1, size + 1))
"""The windows of the DBF paper's figure 5 with at least one slot at the tail."""

DEFAULT_PPO = PPOConfig(
    learning_rate=3e-3,
    final_learning_rate=3e-4,
    epochs=6,
    minibatch_size=2048,
    discounting=Discounting(0.98, 0.9, 3600.0),
)
"""Settings that served well: what comes an hour later counts 2 % less, whatever the number of decisions in between."""

MEASURES = (
    "waiting_time_mean",
    "waiting_time_p99",
    "waiting_time_max",
    "queue_length_mean",
    "utilization",
    "queued_load_mean",
)


@dataclass(frozen=True)
class SplitWindowTraining:
    """All that determines the training of a split-window agent.

    Parameters
    ----------
    agent : SplitWindowConfig
        Window and network.
    windows : tuple of pairs of ints
        Several windows, each the window of an episode at random, in place of the agent's; for the scorer.
    episodes : EpisodeOptions
        Workloads.
    reward : {"waiting", "paper", "scaled"}
        What is earned.
    warm_start : int
        Rollouts in which the agent first learns to do what a rule does in its window; 0 does without.
    expert : {"shortest", "reserving", "aged"}
        The rule, of :class:`desim.agents.batch.window_rules.WindowRule`; all but the first for the scorer.
    ppo : PPOConfig
        Settings of the algorithm.
    training : TrainingConfig
        Length, seed and environments.
    """

    agent: SplitWindowConfig = field(default_factory=SplitWindowConfig)
    windows: tuple[tuple[int, int], ...] = ()
    episodes: EpisodeOptions = field(default_factory=EpisodeOptions)
    reward: str = "waiting"
    warm_start: int = 0
    expert: Literal["shortest", "reserving", "aged"] = "reserving"
    ppo: PPOConfig = field(default_factory=lambda: DEFAULT_PPO)
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(total_steps=3_000_000))

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card."""
        return asdict(self) | {"agent": self.agent.plain()}

    def task(self) -> Task:
        """Return what is to be learned."""
        for_long_waits = self.reward == "long-waits"  # their mean is not what matters then
        return Task(
            partial(make_env, self),
            partial(make_env, self, validation=True),
            measure,
            objective="return" if for_long_waits else "waiting_time_mean",
            maximize=for_long_waits,
        )

    def learner(self, policy: Policy, rng: np.random.Generator) -> Learner:
        """Return what learns, as for :class:`~desim.agents.learning.recipe.Recipe`."""
        return PPO(policy, self.ppo, rng)

    def warm_up(self, training: Training) -> float | None:
        """Let the policy imitate the rule while it acts itself; return in which share of the decisions it agreed."""
        if not self.warm_start:
            return None
        expert = EXPERTS[self.expert]
        return imitate(training.learner, training.rollout, expert, num_rollouts=self.warm_start)[-1]


def make_env(settings: SplitWindowTraining, *, validation: bool = False) -> BatchEnv:
    """Return an environment for training or for validation.

    Parameters
    ----------
    settings : SplitWindowTraining
        Window, observation, reward and workloads.
    validation : bool
        Whether it is for validation.

    Returns
    -------
    BatchEnv
        Which does not ask where there is no choice.
    """
    agent, episodes = settings.agent, settings.episodes
    return BatchEnv(
        trace_episodes(episodes, validation=validation),
        episodes.num_cores,
        window=settings.windows or (agent.head, agent.tail),
        observation=agent.observation,
        reward=settings.reward,
        num_jobs=episodes.num_jobs,
        skip_forced=True,
        reserve_after=agent.reserve_after_or_never,
    )


def measure(gym_env: Any) -> dict[str, float]:
    """Return measures of an episode that has ended; jobs still queued count with their waiting time so far.

    Parameters
    ----------
    gym_env : gymnasium.Env
        A batch environment.

    Returns
    -------
    dict of str to float
        Names of metrics.
    """
    metrics = gym_env.unwrapped.result().metrics(unfinished="include")
    return {name: metrics[name] for name in MEASURES}


def with_seed(settings: SplitWindowTraining, seed: int) -> SplitWindowTraining:
    """Return the same training from another seed.

    Parameters
    ----------
    settings : SplitWindowTraining
        What is trained.
    seed : int
        Of everything random in it.

    Returns
    -------
    SplitWindowTraining
        A copy.
    """
    return replace(settings, training=replace(settings.training, seed=seed))
