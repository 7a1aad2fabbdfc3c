"""Training of OSDEC and its variants, for ``desim train deferrable`` and for the experiments."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from desim.agents.deferrable._demonstrations import agreement, demonstrations, distance
from desim.agents.deferrable._training_episodes import DeferrableEpisodes
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.deferrable.score_policy import ScorePolicy
from desim.agents.learning.imitation import clone
from desim.agents.learning.learner import Discounting, Learner
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.recipe import train, write
from desim.agents.learning.reinforce import Reinforce, ReinforceConfig
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.problems.deferrable.env import DeferrableEnv

__all__ = [
    "DEFAULT_PPO",
    "DEFAULT_REINFORCE",
    "DeferrableEpisodes",
    "ScoreTraining",
    "make_env",
    "measure",
    "train",
    "write",
]

DEFAULT_PPO = PPOConfig(
    learning_rate=1e-4,
    final_learning_rate=1e-5,
    minibatch_size=64,
    entropy=0.0,
    discounting=Discounting(0.99, 0.95),
)
"""Learning rates, mini-batches and discount are those of the paper's table 3, which tells no others."""

DEFAULT_REINFORCE = ReinforceConfig(learning_rate=1e-3, final_learning_rate=1e-4, baseline="mean", discount=0.99)

DEFAULT_TRAINING = TrainingConfig(
    total_steps=500_000, num_envs=16, num_steps=128, validate_every=20, validation_episodes=50
)
"""Batches of 2,048 decisions of 16 environments, as in the paper."""

DEMONSTRATIONS = 2
"""What the seeds of the demonstrations begin with, which keeps them apart from those of training and validation."""

CLONING: dict[str, Any] = {"epochs": 6, "minibatch_size": 128, "learning_rate": 1e-3}
"""How demonstrations are learned from."""

MEASURES = ("total_reward", "utilization", "time_delay", "violation_penalty")


@dataclass(frozen=True)
class ScoreTraining:
    """All that determines the training of a network that scores jobs.

    Parameters
    ----------
    agent : ScoreConfig
        Network, and how its scores are read.
    episodes : DeferrableEpisodes
        Workloads and objective.
    auxiliary_rate : float
        How many times faster than the policy the auxiliary module learns; 100 in the paper.
    warm_start : int
        Episodes from which the network first learns to do what a list plan does; 0 does without.
    algorithm : PPOConfig or ReinforceConfig
        Which one learns, and its settings.
    training : TrainingConfig
        Length, seed and environments.
    """

    agent: ScoreConfig = field(default_factory=ScoreConfig)
    episodes: DeferrableEpisodes = field(default_factory=DeferrableEpisodes)
    auxiliary_rate: float = 100.0
    warm_start: int = 0
    algorithm: PPOConfig | ReinforceConfig = field(default_factory=lambda: DEFAULT_PPO)
    training: TrainingConfig = field(default_factory=lambda: DEFAULT_TRAINING)

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card."""
        values = asdict(self)
        return values | {"algorithm": {"name": self.algorithm_name} | values["algorithm"]}

    @property
    def algorithm_name(self) -> Literal["ppo", "reinforce"]:
        """Which algorithm learns."""
        return "ppo" if isinstance(self.algorithm, PPOConfig) else "reinforce"

    def learner(self, policy: ScorePolicy, rng: np.random.Generator) -> Learner:
        """Return what learns.

        Parameters
        ----------
        policy : ScorePolicy
            Is trained in place, its auxiliary module at the rate of these settings.
        rng : numpy.random.Generator
            For the order of samples.

        Returns
        -------
        Learner
            With the settings of the algorithm.
        """
        policy.auxiliary_rate = self.auxiliary_rate
        if isinstance(self.algorithm, PPOConfig):
            return PPO(policy, self.algorithm, rng)
        return Reinforce(policy, self.algorithm, rng)

    def task(self) -> Task:
        """Return what is to be learned."""
        make = partial(make_env, self)
        return Task(make, make, measure, objective="total_reward")

    def warm_up(self, training: Training) -> float | None:
        """Let the network imitate list plans; return in which share of the decisions it agreed in the last epoch."""
        if not self.warm_start:
            return None
        seeds = np.random.SeedSequence([DEMONSTRATIONS, self.training.seed]).spawn(self.warm_start)
        workers = self.training.num_workers
        shown, done = demonstrations(self.agent, self.episodes, seeds, num_workers=workers)
        return clone(training.learner, shown, done, distance, agrees=agreement, **CLONING)[-1]


def make_env(settings: ScoreTraining) -> DeferrableEnv:
    """Return an environment for training or for validation, which differ by the seeds of their episodes.

    Parameters
    ----------
    settings : ScoreTraining
        Observation and workloads.

    Returns
    -------
    DeferrableEnv
        Which asks in every slot, so that each follows the one before.
    """
    return DeferrableEnv(settings.episodes, observation=settings.agent.encoder())


def measure(gym_env: Any) -> dict[str, float]:
    """Return measures of an episode that has ended.

    Parameters
    ----------
    gym_env : gymnasium.Env
        An environment of deferrable jobs.

    Returns
    -------
    dict of str to float
        Metrics of :mod:`desim.problems.deferrable.metrics`.
    """
    metrics = gym_env.unwrapped.result().metrics()
    return {name: metrics[name] for name in MEASURES}
