"""The training loop: collect, learn, now and then evaluate and store.

A training that is interrupted goes on later as if it had not been.

Episodes for training and for validation come from seeds that are kept apart. The weights that did best on the
validation episodes are what a training returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from desim.agents.learning._averaging import WeightAverage, weights_of
from desim.agents.learning._task import LENGTHS, TRAINING, Task, TrainingConfig, TrainingResult, validation_seeds
from desim.agents.learning.checkpoint import load_checkpoint, save_checkpoint
from desim.agents.learning.evaluation import evaluate, mean_of
from desim.agents.learning.learner import Learner, between
from desim.agents.learning.policy import Policy
from desim.agents.learning.rollout import Collector, Rollout
from desim.agents.learning.workers import WorkerCollector
from desim.core import deferred_interrupts
from desim.exceptions import DesimError, InvalidConfiguration, RecordError

__all__ = ["Task", "Training", "TrainingConfig", "TrainingResult", "validation_seeds"]


class Collecting(Protocol):
    """What makes rollouts: in this process or in several."""

    def collect(self, policy: Policy, num_steps: int) -> Rollout:
        """Act for a number of steps."""

    def collect_episodes(self, policy: Policy, longest: int) -> Rollout:
        """Act through whole episodes."""

    def state(self) -> dict[str, Any]:
        """Return where it stands."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where it stood."""


class Training:
    """A training, from its beginning or from where it was interrupted.

    Parameters
    ----------
    task : Task
        What is to be learned.
    learner : Learner
        Who learns.
    config : TrainingConfig
        How long, how often, and from which seed.
    directory : Path, optional
        Where checkpoints and TensorBoard's log go; a checkpoint that is there is gone on from.
    settings : dict, optional
        All else that determines the training, as plain values: a checkpoint with other settings is refused.

    Raises
    ------
    InvalidConfiguration
        If the directory holds a checkpoint of another training, or the learner's groups are not those of the
        environments.
    RecordError
        If the checkpoint cannot be read.
    """

    def __init__(
        self,
        task: Task,
        learner: Learner,
        config: TrainingConfig,
        directory: Path | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        if learner.group_size > 1 and (config.group_size != learner.group_size or not config.whole_episodes):
            raise InvalidConfiguration(
                f"groups of {learner.group_size} for advantages need whole episodes and environments in such groups, "
                f"not {config.group_size}"
            )
        self.task = task
        self.learner = learner
        self.config = config
        self.directory = directory
        self._settings = {**asdict(replace(config, total_steps=1, num_threads=1)), **(settings or {})}
        self.steps = self.updates = self.stale = 0
        self.seconds = 0.0
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, float] = {}
        self._average = WeightAverage(config.averaging)
        self._weights = weights_of(learner.policy)
        self.collector = self._make_collector()
        self._writer: Any = None
        self._since: dict[str, list[Any]] = {"episodes": [], "figures": [], "seconds": []}
        if directory is not None:
            self._resume(directory)

    def _make_collector(self) -> Collecting:
        config = self.config
        root = np.random.SeedSequence([TRAINING, config.seed])
        acting, episodes = root.spawn(2)
        groups = episodes.spawn(config.num_envs // config.group_size)
        seeds = [groups[number // config.group_size] for number in range(config.num_envs)]
        rng = np.random.default_rng(acting)
        if config.num_workers:
            return WorkerCollector(self.task.make_env, seeds, rng, config.num_workers, measure=self.task.measure)
        return Collector(self.task.make_env, seeds, rng, measure=self.task.measure)

    def rollout(self) -> Rollout:
        """Collect what the next update learns from."""
        config, policy = self.config, self.learner.policy
        if config.whole_episodes:
            return self.collector.collect_episodes(policy, self._length())
        return self.collector.collect(policy, config.num_steps)

    def _length(self) -> int:
        """Return how many decisions of an episode count.

        Short episodes at first keep a policy that knows nothing from learning of situations that it would not get into
        later: Mao et al., "Learning scheduling algorithms for data processing clusters", SIGCOMM 2019, section 5.3.
        """
        config = self.config
        if config.first_length is None:
            return config.num_steps
        mean = between(config.first_length, config.num_steps, self.steps / config.total_steps)
        rng = np.random.default_rng([LENGTHS, config.seed, self.updates])
        return min(max(round(rng.exponential(mean)), 1), config.num_steps)

    def run(self, report: Callable[[dict[str, Any]], None] | None = None) -> TrainingResult:
        """Train to the end, or until Ctrl-C, which loses nothing.

        Parameters
        ----------
        report : callable, optional
            Called with each new entry of the history.

        Returns
        -------
        TrainingResult
            The best weights so far, and the learning curve.
        """
        config = self.config
        threads = torch.get_num_threads()
        status = "complete"
        try:
            if not self.history:
                self._validate({}, report)
            with deferred_interrupts() as interrupted:
                while self.steps < config.total_steps and not self._is_stale():
                    self._iterate(report)
                    if interrupted:
                        status = "interrupted"
                        break
            if self.steps >= config.total_steps and self.history[-1]["steps"] != self.steps:
                self._validate(self._summary(), report)
            if status == "complete" and self._is_stale():
                status = "stopped"
        finally:
            torch.set_num_threads(threads)
            close = getattr(self.collector, "close", None)
            if status == "interrupted":
                self._store()
            if close is not None:
                close()
            if self._writer is not None:
                self._writer.close()
        return TrainingResult(self._weights, self.best, self.history, status)

    def _is_stale(self) -> bool:
        return self.config.patience is not None and self.stale >= self.config.patience

    def _iterate(self, report: Callable[[dict[str, Any]], None] | None) -> None:
        begin = time.perf_counter()
        rollout = self.rollout()
        torch.set_num_threads(self.config.num_threads)
        middle = time.perf_counter()
        figures = self.learner.update(rollout, self.steps / self.config.total_steps)
        end = time.perf_counter()
        self.steps += rollout.num_steps
        self.updates += 1
        self._average.take(self.learner.policy)
        self.seconds += end - begin
        self._since["episodes"] += rollout.episodes
        self._since["figures"].append(figures)
        self._since["seconds"].append(rollout.seconds | {"update": end - middle, "decisions": rollout.num_steps})
        if self.updates % self.config.validate_every == 0:
            self._validate(self._summary(), report)

    def _summary(self) -> dict[str, Any]:
        """Return means of all since the last validation."""
        since, self._since = self._since, {"episodes": [], "figures": [], "seconds": []}
        seconds = {name: sum(part[name] for part in since["seconds"]) for name in (since["seconds"] or [{}])[0]}
        return {
            "training": mean_of(since["episodes"]),
            "episodes": len(since["episodes"]),
            "figures": mean_of(since["figures"]),
            "throughput": seconds,
        }

    def _validate(self, summary: dict[str, Any], report: Callable[[dict[str, Any]], None] | None) -> None:
        seeds = validation_seeds(self.config.validation_episodes)
        task = self.task
        sign = 1.0 if task.maximize else -1.0
        policy = self.learner.policy
        with self._average.lent_to(policy):
            found = mean_of(evaluate(policy, task.make_validation_env, seeds, measure=task.measure))
            if not self.best or sign * found[task.objective] > sign * self.best[task.objective]:
                self.best, self._weights, self.stale = found, weights_of(policy), 0
            else:
                self.stale += 1
        entry = {"steps": self.steps, "updates": self.updates, "seconds": self.seconds, "validation": found, **summary}
        self.history.append(entry)
        self._log(entry)
        if self.history[1:]:
            self._store()
        if report is not None:
            report(entry)

    def _log(self, entry: dict[str, Any]) -> None:
        """Write scalars for TensorBoard."""
        if self.directory is None:
            return
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.directory / "tensorboard"), purge_step=entry["steps"])
        for group in ("validation", "training", "figures", "throughput"):
            for name, value in entry.get(group, {}).items():
                self._writer.add_scalar(f"{group}/{name}", value, entry["steps"])

    def _store(self) -> None:
        if self.directory is None:
            return
        weights = {f"best.{name}": tensor for name, tensor in self._weights.items()}
        weights |= {f"average.{name}": tensor for name, tensor in self._average.weights.items()}
        document = {
            "settings": self._settings,
            "learner": self.learner.state(),
            "collector": self.collector.state(),
            "since": self._since,
            **{name: getattr(self, name) for name in ("steps", "updates", "stale", "seconds", "history", "best")},
        }
        save_checkpoint(self.directory, self.learner.tensors() | weights, document)

    def _resume(self, directory: Path) -> None:
        found = load_checkpoint(directory)
        if found is None:
            return
        try:
            self._take_over(*found, directory)
        except DesimError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise RecordError(f"the checkpoint in {directory} does not fit this training ({reason})") from error

    def _take_over(self, tensors: dict[str, Tensor], document: dict[str, Any], directory: Path) -> None:
        settings = document["settings"]
        differing = [name for name in self._settings if settings.get(name) != _plain(self._settings[name])]
        if differing:
            name = differing[0]
            raise InvalidConfiguration(
                f"{directory} holds a checkpoint of another training: its {name} is "
                f"{settings.get(name)!r}, not {self._settings[name]!r}"
            )
        self.learner.restore(tensors, document["learner"])
        self.collector.restore(document["collector"])
        self._since = document["since"]
        for name in ("steps", "updates", "stale", "seconds", "history", "best"):
            setattr(self, name, document[name])
        self._weights = _with_prefix(tensors, "best.")
        self._average.weights = _with_prefix(tensors, "average.")


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return those whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """Return a setting as JSON gives it back."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
