"""Trainings that take seconds: the options of the command line, with small workloads and rollouts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from desim.agents.batch.command import TrainingOptions
from desim.agents.batch.training import EpisodeOptions

FULL = TrainingOptions.settings


def small(options: TrainingOptions) -> Any:
    """Return the settings of the options, with workloads and rollouts that are small."""
    found = FULL(options)
    episodes = EpisodeOptions(options.cores, options.load, options.overestimate, 2, trace_jobs=120, num_jobs=30)
    rollouts = {"num_envs": 4, "num_steps": 40, "validation_episodes": 2, "validate_every": 2}
    return replace(
        found,
        agent=replace(found.agent, hidden=(8,)),
        episodes=episodes,
        training=replace(found.training, **rollouts),
        ppo=replace(found.ppo, minibatch_size=64, epochs=2),
    )


def shrink(set_attribute: Callable[..., object] = setattr) -> None:
    """Put the small settings in the place of the usual ones."""
    set_attribute(TrainingOptions, "settings", small)


def wait_after_the_first_checkpoint(pressed: str) -> None:
    """Let no training end before somebody who has seen its checkpoint has pressed Ctrl-C and made a file."""
    from desim.agents.learning import training

    save = training.save_checkpoint

    def save_and_wait(*arguments: Any) -> None:
        save(*arguments)
        while not Path(pressed).exists():
            time.sleep(0.01)

    training.save_checkpoint = save_and_wait  # type: ignore[assignment]


def environment() -> dict[str, str]:
    """Return the variables with which another process finds this module."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
