"""Training of LACHESIS and Decima, for ``desim train dag`` and for the experiments."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from desim.agents.dag._graph_episodes import GraphEpisodes
from desim.agents.dag._graph_experts import EXPERTS
from desim.agents.dag.graph_agent import GraphConfig
from desim.agents.dag.graph_policy import GraphPolicy
from desim.agents.learning.actor_critic import ActorCritic, ActorCriticConfig
from desim.agents.learning.imitation import imitate
from desim.agents.learning.learner import Discounting, Learner
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.recipe import train, write
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.problems.dag.env import DagEnv
from desim.problems.dag.graph_encoder import GraphSizes

__all__ = [
    "PAPER_ALGORITHM",
    "GraphEpisodes",
    "GraphTraining",
    "Objective",
    "make_env",
    "measure",
    "train",
    "write",
]

Objective = Literal["makespan", "completion_time"]

MEASURES = {"makespan": "makespan", "completion_time": "turnaround_time_mean"}
"""What decides which weights are best, by objective."""

DEFAULT_PPO = PPOConfig(
    learning_rate=1e-3,
    final_learning_rate=1e-4,
    epochs=4,
    minibatch_size=2048,
    entropy=0.0,
    discounting=Discounting(1.0, 0.9, 100.0),
    group_size=8,
)
PAPER_ALGORITHM = ActorCriticConfig(entropy=0.0, discounting=Discounting(1.0, 0.9, 100.0), group_size=8)
"""The paper's: each rollout is learned from once."""

DEFAULT_TRAINING = TrainingConfig(
    total_steps=1_000_000,
    num_envs=64,
    num_steps=1_500,
    whole_episodes=True,
    group_size=8,
    validate_every=4,
    validation_episodes=32,
    averaging=0.9,
)


@dataclass(frozen=True)
class GraphTraining:
    """All that determines the training of a graph network.

    Parameters
    ----------
    agent : GraphConfig
        Network and mode.
    episodes : GraphEpisodes
        Workloads.
    sizes : GraphSizes
        Room in the arrays of an observation.
    objective : {"makespan", "completion_time"}
        What is earned: minus the time that passes, or minus the time that jobs spend in the system.
    warm_start : int
        Rollouts in which the network first learns to do what a rule does, a patient one in mode "idle"; 0 does without.
    algorithm : PPOConfig or ActorCriticConfig
        Which one learns, and its settings.
    training : TrainingConfig
        Length, seed and environments.
    """

    agent: GraphConfig = field(default_factory=GraphConfig)
    episodes: GraphEpisodes = field(default_factory=GraphEpisodes)
    sizes: GraphSizes = field(default_factory=lambda: GraphSizes(jobs=30, candidates=120))
    objective: Objective = "makespan"
    warm_start: int = 0
    algorithm: PPOConfig | ActorCriticConfig = field(default_factory=lambda: DEFAULT_PPO)
    training: TrainingConfig = field(default_factory=lambda: DEFAULT_TRAINING)

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card."""
        name = "ppo" if isinstance(self.algorithm, PPOConfig) else "actor_critic"
        values = asdict(self) | {"agent": self.agent.plain()}
        return values | {"algorithm": {"name": name} | values["algorithm"]}

    def learner(self, policy: GraphPolicy, rng: np.random.Generator) -> Learner:
        """Return what learns.

        Parameters
        ----------
        policy : GraphPolicy
            Is trained in place.
        rng : numpy.random.Generator
            For the order of samples.

        Returns
        -------
        Learner
            With the settings of the algorithm.
        """
        if isinstance(self.algorithm, PPOConfig):
            return PPO(policy, self.algorithm, rng)
        return ActorCritic(policy, self.algorithm, rng)

    def task(self) -> Task:
        """Return what is to be learned."""
        make = partial(make_env, self)
        return Task(make, make, measure, objective=MEASURES[self.objective], maximize=False)

    def warm_up(self, training: Training) -> float | None:
        """Let the network imitate the rule in whole episodes; return in which share of the decisions it agreed."""
        if not self.warm_start:
            return None
        learner, expert = training.learner, EXPERTS[self.objective]
        collect = partial(training.collector.collect_episodes, learner.policy, self.training.num_steps)
        return imitate(learner, collect, expert, num_rollouts=self.warm_start)[-1]


def make_env(settings: GraphTraining) -> DagEnv:
    """Return an environment for training or for validation, which differ by the seeds of their episodes.

    Parameters
    ----------
    settings : GraphTraining
        Observation, reward and workloads.

    Returns
    -------
    DagEnv
        Which does not ask where there is no choice.
    """
    return DagEnv(
        settings.episodes,
        observation=settings.agent.encoder(settings.sizes),
        reward=settings.objective,
        skip_forced=True,
    )


def measure(gym_env: Any) -> dict[str, float]:
    """Return measures of an episode that has ended.

    Parameters
    ----------
    gym_env : gymnasium.Env
        An environment of DAG jobs.

    Returns
    -------
    dict of str to float
        Makespan and mean completion time in seconds, and the gap of the makespan to its lower bound.
    """
    metrics = gym_env.unwrapped.result().metrics()
    names = ("makespan", "turnaround_time_mean")
    gap = metrics["makespan"] / metrics["lower_bound"] - 1.0
    return {name: metrics[name] for name in names} | {"gap": gap}
