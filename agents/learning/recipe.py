"""A training from its settings alone, for ``desim train`` and for the experiments, whatever the agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from desim.agents.learning.configuration import AgentConfig
from desim.agents.learning.learner import Learner
from desim.agents.learning.policy import Policy
from desim.agents.learning.training import Task, Training, TrainingConfig, TrainingResult

__all__ = ["Recipe", "train", "write"]

AnyPolicy = TypeVar("AnyPolicy", bound=Policy)


class Recipe(Protocol[AnyPolicy]):
    """All that determines the training of an agent."""

    @property
    def agent(self) -> AgentConfig[AnyPolicy]:
        """Who learns."""

    @property
    def training(self) -> TrainingConfig:
        """Length, seed and environments."""

    def task(self) -> Task:
        """Return what is to be learned."""

    def learner(self, policy: AnyPolicy, rng: np.random.Generator) -> Learner:
        """Return what learns.

        Parameters
        ----------
        policy : Policy
            Is trained in place.
        rng : numpy.random.Generator
            For the order of samples.
        """

    def warm_up(self, training: Training) -> float | None:
        """Let the policy imitate somebody before it learns by itself.

        Parameters
        ----------
        training : Training
            Which has not begun.

        Returns
        -------
        float or None
            In which share of the last decisions it agreed; None if it begins without.
        """

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card; those of the loop stand under ``training``."""


def train(
    settings: Recipe[AnyPolicy],
    directory: Path | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> TrainingResult:
    """Train an agent.

    Parameters
    ----------
    settings : Recipe
        All that determines the training.
    directory : Path, optional
        Where checkpoints and TensorBoard's log go; a training that was interrupted there goes on.
    report : callable, optional
        Called with each new entry of the learning curve.

    Returns
    -------
    TrainingResult
        The best weights on the validation episodes, and the learning curve.
    """
    root = np.random.SeedSequence(settings.training.seed)
    for_weights, for_learner = (np.random.default_rng(seed) for seed in root.spawn(2))
    learner = settings.learner(settings.agent.policy(for_weights), for_learner)
    others = {name: value for name, value in settings.plain().items() if name != "training"}
    training = Training(settings.task(), learner, settings.training, directory, others)
    if not training.history:
        agreement = settings.warm_up(training)
        if agreement is not None and report is not None:
            report({"steps": 0, "seconds": 0.0, "agreement": agreement})
    return training.run(report)


def write(stem: Path, settings: Recipe[AnyPolicy], result: TrainingResult, command: str = "") -> None:
    """Write the weights of a training with their card, for the agent's ``load``.

    Parameters
    ----------
    stem : Path
        The files, without ``.safetensors`` and ``.json``.
    settings : Recipe
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
    agent = settings.agent
    result.write(stem, agent.agent_kind, agent.plain(), settings.plain(), command)
