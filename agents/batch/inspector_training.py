"""Training of an inspector: PPO on sequences of jobs, with a reward at the end of each.

Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022: sequences of 128 jobs, and the relative improvement of the
average bounded slowdown over the base policy alone. Departures: what a sequence can lose is limited, because a few
sequences with next to no waiting would decide everything; a new network begins by accepting; several environments face
the same sequence, and the mean of their advantages is taken off; the best weights are those with the least mean.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np

from desim.agents.batch.inspector import BackfilledPriority
from desim.agents.batch.inspector_network import InspectorConfig
from desim.agents.batch.training import EpisodeOptions, trace_episodes
from desim.agents.learning.learner import Discounting, Learner
from desim.agents.learning.policy import Policy
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.recipe import train as train_inspector
from desim.agents.learning.recipe import write as write_inspector
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.inspection import OBJECTIVES, InspectorEnv

__all__ = ["InspectorTraining", "make_inspector_env", "measure_inspector", "train_inspector", "write_inspector"]


@dataclass(frozen=True)
class InspectorTraining:
    """All that determines the training of an inspector.

    Parameters
    ----------
    agent : InspectorConfig
        Base policy, rules and network.
    episodes : EpisodeOptions
        Workloads; sequences must be closed.
    reward : {"bounded_slowdown", "waiting_time"}
        Whose relative improvement is earned, and whose mean on the validation sequences is to be least.
    floor : float
        The least that a sequence can earn; minus infinity is the paper's reward.
    ppo : PPOConfig
        Settings of the algorithm. Nothing is discounted, because only the end of a sequence is rewarded. Its groups are
        those of the training.
    training : TrainingConfig
        Length, seed and environments. Rollouts are whole sequences, which are no longer than ``num_steps``.
    """

    agent: InspectorConfig = field(default_factory=InspectorConfig)
    episodes: EpisodeOptions = field(
        default_factory=lambda: EpisodeOptions(num_traces=16, num_jobs=128, arrivals="closed")
    )
    reward: Literal["bounded_slowdown", "waiting_time"] = "bounded_slowdown"
    floor: float = -1.0
    ppo: PPOConfig = field(
        default_factory=lambda: PPOConfig(
            learning_rate=1e-3,
            final_learning_rate=1e-4,
            minibatch_size=2048,
            entropy=0.03,
            discounting=Discounting(1.0, 1.0),
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=500_000,
            num_envs=128,
            num_steps=10_000,
            whole_episodes=True,
            group_size=16,
            validation_episodes=64,
            validate_every=5,
        )
    )

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card."""
        return asdict(self) | {"agent": self.agent.plain()}

    def task(self) -> Task:
        """Return what is to be learned."""
        return Task(
            partial(make_inspector_env, self),
            partial(make_inspector_env, self, validation=True),
            measure_inspector,
            objective=self.reward,
            maximize=False,
        )

    def learner(self, policy: Policy, rng: np.random.Generator) -> Learner:
        """Return what learns, as for :class:`~desim.agents.learning.recipe.Recipe`."""
        return PPO(policy, replace(self.ppo, group_size=self.training.group_size), rng)

    def warm_up(self, training: Training) -> None:
        """Do nothing: a new network accepts what the base policy chooses, which is where it is to begin."""


def make_inspector_env(settings: InspectorTraining, *, validation: bool = False) -> InspectorEnv:
    """Return an environment for training or for validation.

    Parameters
    ----------
    settings : InspectorTraining
        Base policy, rules, reward and workloads.
    validation : bool
        Whether it is for validation.

    Returns
    -------
    InspectorEnv
        Whose sequences are cut from generated traces.
    """
    agent, episodes = settings.agent, settings.episodes
    if episodes.arrivals != "closed":
        raise InvalidConfiguration(f"arrivals is {episodes.arrivals!r}: an inspector learns from closed sequences")
    sequences = trace_episodes(episodes, validation=validation)
    return InspectorEnv(
        BackfilledPriority(agent.base), sequences, reward=settings.reward, floor=settings.floor, **agent.rules()
    )


def measure_inspector(gym_env: gymnasium.Env[Any, Any]) -> dict[str, float]:
    """Return what the inspector and the base policy alone have made of a sequence that is over.

    Parameters
    ----------
    gym_env : InspectorEnv
        At the end of an episode.

    Returns
    -------
    dict of str to float
        Mean bounded slowdown and mean waiting time in seconds, of the inspector and, after ``base_``, of the base.

    Raises
    ------
    InvalidConfiguration
        If it is another environment.
    """
    if not isinstance(gym_env, InspectorEnv):
        raise InvalidConfiguration(f"gym_env is {gym_env!r}, want an InspectorEnv")
    found: dict[str, float] = {}
    for prefix, run in (("", gym_env.result()), ("base_", gym_env.base_result())):
        metrics = run.metrics(unfinished="include")
        found |= {prefix + name: metrics[metric] for name, metric in OBJECTIVES.items()}
    return found
