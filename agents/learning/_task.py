"""What is learned, how long, and what has come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from torch import Tensor

from desim.agents.learning.checkpoint import save_weights
from desim.agents.learning.evaluation import Measure
from desim.exceptions import InvalidConfiguration

__all__ = ["LENGTHS", "TRAINING", "VALIDATION", "Task", "TrainingConfig", "TrainingResult", "validation_seeds"]

VALIDATION, TRAINING, LENGTHS = 0, 1, 2
"""What the seeds of validation and training episodes, and of their lengths, begin with, which keeps them apart."""


@dataclass(frozen=True)
class Task:
    """What is to be learned.

    Parameters
    ----------
    make_env : callable
        Returns a new environment to train in.
    make_validation_env : callable
        Returns a new environment to evaluate in.
    measure : callable, optional
        Called with an environment whose episode has ended; returns measures by name.
    objective : str
        The measure that decides which weights are best; ``"return"`` or one of ``measure``'s.
    maximize : bool
        Whether more is better.
    """

    make_env: Callable[[], gymnasium.Env[Any, Any]]
    make_validation_env: Callable[[], gymnasium.Env[Any, Any]]
    measure: Measure | None = None
    objective: str = "return"
    maximize: bool = True


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of a training that are the same for all algorithms.

    Parameters
    ----------
    total_steps : int
        Decisions to learn from.
    seed : int
        Of everything random in the training.
    num_envs : int
        Environments that advance together.
    num_steps : int
        Decisions of each environment in a rollout; of whole episodes, the most.
    whole_episodes : bool
        Whether a rollout is one episode of each environment.
    first_length : float, optional
        Of whole episodes: how many decisions of an episode count is drawn for each rollout from an exponential
        distribution; this is its mean at the beginning, and it grows to ``num_steps`` at the end. By default all do.
    group_size : int
        Neighbouring environments that face the same episodes.
    num_workers : int
        Processes that simulate; 0 simulates in this one.
    validation_episodes : int
        Episodes of a validation.
    validate_every : int
        Updates between validations; a checkpoint is written after each.
    patience : int, optional
        Validations without an improvement after which the training ends.
    num_threads : int
        Threads for learning.
    averaging : float
        What is validated and kept is an average of the weights after all updates, in which each counts so many times
        less for every one that follows: that takes off what is noise in single updates. With 0 the last ones count
        alone.
    """

    total_steps: int = 1_000_000
    seed: int = 0
    num_envs: int = 32
    num_steps: int = 256
    whole_episodes: bool = False
    first_length: float | None = None
    group_size: int = 1
    num_workers: int = 0
    validation_episodes: int = 32
    validate_every: int = 20
    patience: int | None = None
    num_threads: int = 1
    averaging: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        for name in ("total_steps", "num_envs", "num_steps", "group_size", "validation_episodes", "validate_every"):
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want at least 1")
        if self.num_envs % self.group_size:
            raise InvalidConfiguration(
                f"{self.num_envs} environments are no whole number of groups of {self.group_size}"
            )
        if self.seed < 0 or self.num_workers < 0:
            raise InvalidConfiguration(f"seed {self.seed!r}, num_workers {self.num_workers!r}: want at least 0")
        if self.first_length is not None and not (self.whole_episodes and 1 <= self.first_length <= self.num_steps):
            raise InvalidConfiguration(
                f"first_length is {self.first_length!r}, want a number from 1 to num_steps, of whole episodes"
            )
        if not 0 <= self.averaging < 1:
            raise InvalidConfiguration(f"averaging is {self.averaging!r}, want a number from 0 to below 1")
        if self.num_threads < 1 or (self.patience is not None and self.patience < 1):
            raise InvalidConfiguration(f"num_threads {self.num_threads!r}, patience {self.patience!r}: want at least 1")


@dataclass
class TrainingResult:
    """What has come of a training.

    Attributes
    ----------
    weights : dict of str to Tensor
        Those that did best on the validation episodes.
    best : dict of str to float
        Their measures.
    history : list of dict
        The learning curve: an entry for each validation.
    status : str
        ``"complete"``, ``"stopped"`` (no more improvement) or ``"interrupted"``.
    """

    weights: dict[str, Tensor]
    best: dict[str, float]
    history: list[dict[str, Any]]
    status: str

    def write(
        self, stem: Path, agent: str, config: dict[str, Any], settings: dict[str, Any], command: str = ""
    ) -> None:
        """Write the weights with their card.

        Parameters
        ----------
        stem : Path
            The files, without ``.safetensors`` and ``.json``.
        agent : str
            What kind of agent the weights are for.
        config : dict
            What it is made of besides its weights, as plain values.
        settings : dict
            All that determines the training, as plain values; those of the loop stand under ``training``.
        command : str
            The command line that trains the agent again.

        Raises
        ------
        RecordError
            If they cannot be written.
        InvalidConfiguration
            If the training was interrupted.
        """
        if self.status == "interrupted":
            raise InvalidConfiguration("the training was interrupted: its weights are not final")
        card = {
            "agent": agent,
            "config": config,
            "command": command,
            "seed": settings["training"]["seed"],
            "training": settings,
            "status": self.status,
            "validation": self.best,
            "history": self.history,
        }
        save_weights(stem, self.weights, card)


def validation_seeds(count: int) -> list[int]:
    """Return the seeds of the validation episodes, the same for all trainings.

    Parameters
    ----------
    count : int
        How many.

    Returns
    -------
    list of int
        More of them begin with the same.
    """
    sequence = np.random.SeedSequence(VALIDATION)
    return [int(seed) for seed in sequence.generate_state(count)]
