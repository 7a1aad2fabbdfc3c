"""Learning curves: from the cards of trained weights, or of a training of seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.experiments.curves import Course
from desim.experiments.run import Choice
from desim.sweep import Run

__all__ = ["CURVE_METRICS", "Curve", "TrainingSetting", "perform_training"]

CURVE_METRICS = ("utilization", "waiting_time_mean", "queue_length_mean")


@dataclass(frozen=True)
class Curve(Course):
    """The course of a training, from validation to validation.

    Attributes
    ----------
    name : str
        Of the weights.
    reward : str
        What the training earned.
    network : str
        What was trained.
    history : sequence of dict
        Entries of :class:`desim.agents.learning.training.Training`.
    """

    name: str
    reward: str
    network: str
    history: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, name: str, card: Mapping[str, Any]) -> Curve:
        """Return the curve that a card holds."""
        training = card.get("training") or {}
        network = card["config"].get("network", "")
        return cls(name, str(training.get("reward", "")), str(network), card.get("history") or [])

    def values(self, part: str, metric: str) -> NDArray[np.float64]:
        """Return a metric at each validation.

        Parameters
        ----------
        part : {"training", "validation"}
            Of the training episodes since the last one, in which actions are drawn, or of the validation episodes, in
            which the likeliest is taken.
        metric : str
            One of :data:`CURVE_METRICS`.

        Returns
        -------
        array of float
            Not a number where no episode has ended.
        """
        found = [(entry.get(part) or {}).get(metric) for entry in self.history]
        return np.array(found, dtype=np.float64)


@dataclass(frozen=True)
class TrainingSetting:
    """A training of seconds, to try the experiment with.

    Attributes
    ----------
    head, tail : int
        Slots of the window.
    total_steps : int
        Decisions to learn from.
    """

    head: int
    tail: int
    total_steps: int


def perform_training(run: Run) -> dict[str, Any]:
    """Train.

    Parameters
    ----------
    run : Run
        Of a :class:`TrainingSetting` and a :class:`~desim.experiments.run.Choice` whose policy is a network, and whose
        parameters tell the reward.

    Returns
    -------
    dict
        The ``card`` of the weights, which are not kept, with their ``history``.
    """
    from desim.agents.batch.split_window import SplitWindowConfig
    from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining
    from desim.agents.learning.learned import plain
    from desim.agents.learning.training import TrainingConfig

    choice: Choice = run.agent
    small: TrainingSetting = run.setting
    settings = SplitWindowTraining(
        agent=SplitWindowConfig(small.head, small.tail, choice.policy, hidden=(32,)),  # type: ignore[arg-type]
        episodes=EpisodeOptions(num_traces=4, trace_jobs=600, num_jobs=100),
        reward=dict(choice.parameters)["reward"],
        training=TrainingConfig(
            total_steps=small.total_steps,
            seed=run.seed,
            num_envs=4,
            num_steps=128,
            validation_episodes=2,
            validate_every=3,
        ),
    )
    result = settings.train()
    card = {"config": plain(settings.agent), "training": {"reward": settings.reward}, "history": result.history}
    return {"card": card}
