"""Training of an inspector: PPO on sequences of jobs, with a reward at the end of each.

Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022: sequences of 128 jobs, and the relative improvement of the
average bounded slowdown over the base policy alone. Departures: what a sequence can lose is limited, because a few
sequences with next to no waiting would decide everything; a new network begins by accepting; several environments face
the same sequence, and the mean of their advantages is taken off; the best weights are those with the least mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

from agents.batch.inspector import BackfilledPriority
from agents.batch.inspector_network import InspectorConfig
from agents.batch.training import EpisodeOptions, trace_episodes
from agents.learning.learner import Discounting
from agents.learning.ppo import PPO, PPOConfig
from agents.learning.training import Task, Training, TrainingConfig, TrainingResult
from desim.envs.batch.inspector import OBJECTIVES, InspectorEnv
from desim.exceptions import InvalidConfiguration

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
    """
    assert isinstance(gym_env, InspectorEnv)
    found: dict[str, float] = {}
    for prefix, run in (("", gym_env.result()), ("base_", gym_env.base_result())):
        metrics = run.metrics(unfinished="include")
        found |= {prefix + name: metrics[metric] for name, metric in OBJECTIVES.items()}
    return found


def train_inspector(
    settings: InspectorTraining,
    directory: Path | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> TrainingResult:
    """Train an inspector.

    Parameters
    ----------
    settings : InspectorTraining
        All that determines the training.
    directory : Path, optional
        Where checkpoints and TensorBoard's log go; a training that was interrupted there goes on.
    report : callable, optional
        Called with each new entry of the learning curve.

    Returns
    -------
    TrainingResult
        The best weights on the validation sequences, and the learning curve.
    """
    root = np.random.SeedSequence(settings.training.seed)
    for_weights, for_learner = (np.random.default_rng(seed) for seed in root.spawn(2))
    ppo = replace(settings.ppo, group_size=settings.training.group_size)
    learner = PPO(settings.agent.policy(for_weights), ppo, for_learner)
    task = Task(
        partial(make_inspector_env, settings),
        partial(make_inspector_env, settings, validation=True),
        measure_inspector,
        objective=settings.reward,
        maximize=False,
    )
    others = {name: value for name, value in settings.plain().items() if name != "training"}
    return Training(task, learner, settings.training, directory, others).run(report)


def write_inspector(stem: Path, settings: InspectorTraining, result: TrainingResult, command: str = "") -> None:
    """Write the weights of a training with their card, for :meth:`agents.batch.inspector.Inspector.load`.

    Parameters
    ----------
    stem : Path
        The files, without ``.safetensors`` and ``.json``.
    settings : InspectorTraining
        What was trained.
    result : TrainingResult
        What has come of it.
    command : str
        The command line that trains the agent again.

    Raises
    ------
    RecordError
        If they cannot be written.
    InvalidConfiguration
        If the training was interrupted.
    """
    result.write(stem, "inspector", settings.agent.plain(), settings.plain(), command)
