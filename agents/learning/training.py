"""The training loop: collect experience, learn, and periodically validate and store a checkpoint.

An interrupted training resumes with exactly the same results. Episodes for training and for validation have separate
seeds. A training returns the weights that did best on the validation episodes.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from torch import Tensor

from desim.agents.learning.checkpoint import load_checkpoint, save_checkpoint
from desim.agents.learning.experience import Collector, Experience, evaluate, mean_of
from desim.agents.learning.lanes import Measure
from desim.agents.learning.learner import Algorithm, Learner, between
from desim.agents.learning.policy import Policy, one_thread
from desim.agents.learning.workers import WorkerCollector
from desim.checks import check_float, check_int
from desim.core import InterruptOverdue, SimulationInterrupted, deferred_interrupts
from desim.exceptions import DesimError, InvalidConfiguration, RecordError

__all__ = ["Task", "Training", "TrainingConfig", "TrainingResult", "validation_seeds"]

VALIDATION, TRAINING, LENGTHS = 0, 1, 2
"""First part of the seeds of validation episodes, training episodes and episode lengths, which keeps them separate."""

COUNTERS = ("steps", "updates", "seconds", "history", "best")
"""Attributes of a training that a checkpoint stores, besides learner and environments."""

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]
"""Function that returns a new environment."""

Report = Callable[[dict[str, Any]], None]
"""Function that is called with each new entry of the learning curve."""


@dataclass(frozen=True)
class Task:
    """Learning task: environments, and the objective by which weights are chosen.

    Parameters
    ----------
    make_env : callable
        Function that returns a new training environment.
    make_validation_env : callable
        Function that returns a new validation environment.
    measure : callable, optional
        Function that is called with an environment at the end of an episode and returns measures by name.
    objective : str
        Name of the measure that decides which weights are best: ``"return"`` or one of ``measure``'s.
    maximize : bool
        Whether larger values are better.
    sampled : bool
        Whether validation samples actions, instead of taking the most likely ones.
    compiled : bool
        Whether a compiled loop steps the environments, if the problem has one that serves them; the measure may then
        use only the ``unwrapped.result()`` of what it receives.
    """

    make_env: Callable[[], gymnasium.Env[Any, Any]]
    make_validation_env: Callable[[], gymnasium.Env[Any, Any]]
    measure: Measure | None = None
    objective: str = "return"
    maximize: bool = True
    sampled: bool = False
    compiled: bool = False

    def validation_rng(self) -> np.random.Generator | None:
        """Return a generator for the actions of a validation, equal each time; None for the most likely actions."""
        return np.random.default_rng(VALIDATION) if self.sampled else None


@dataclass(frozen=True)
class TrainingConfig:
    """Training length, seed, environments and validation.

    Parameters
    ----------
    total_steps : int
        Number of decisions to learn from; with 0 there is only a warm start.
    seed : int
        Seed of all random numbers in the training.
    num_envs : int
        Number of environments that run at the same time.
    num_steps : int
        Number of decisions per environment between updates. With whole episodes, the largest length of an episode.
    whole_episodes : bool
        Whether each update learns from one whole episode of every environment.
    first_length : float, optional
        Initial mean number of decisions per episode. Each update samples the number from an exponential distribution,
        whose mean grows linearly to num_steps. Needs whole_episodes. By default episodes are not shortened.
    group_size : int
        Number of neighbouring environments that face the same episodes and share a baseline. Values above 1 need
        whole_episodes.
    num_workers : int
        Number of processes that simulate; with 0 the main process does. Large minibatches are divided between as many
        threads. Results depend on this number.
    device : str
        Device where the network acts and learns: "cpu", "cuda" or for example "cuda:1". Worker processes always act on
        the CPU. On a GPU, results may differ between runs by rounding.
    validation_episodes : int
        Number of episodes per validation.
    validate_every : int
        Number of updates between validations; each validation also writes a checkpoint.
    averaging : float
        Decay of the exponential moving average of the weights per update. The averaged weights are validated and kept,
        which reduces the noise of single updates. With 0 there is no averaging.
    """

    total_steps: int = 1_000_000
    seed: int = 0
    num_envs: int = 32
    num_steps: int = 256
    whole_episodes: bool = False
    first_length: float | None = None
    group_size: int = 1
    num_workers: int = 0
    device: str = "cpu"
    validation_episodes: int = 32
    validate_every: int = 20
    averaging: float = 0.0

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        for name in ("num_envs", "num_steps", "group_size", "validation_episodes", "validate_every"):
            check_int(name, getattr(self, name), least=1)
        for name in ("total_steps", "seed", "num_workers"):
            check_int(name, getattr(self, name), least=0)
        check_float("averaging", self.averaging, least=0, below=1)
        if self.num_envs % self.group_size or (self.group_size > 1 and not self.whole_episodes):
            raise InvalidConfiguration(
                f"group_size: got {self.group_size} with {self.num_envs} environments, expected a divisor of num_envs, "
                "and whole_episodes if it is above 1"
            )
        if self.first_length is not None and not (self.whole_episodes and 1 <= self.first_length <= self.num_steps):
            raise InvalidConfiguration(
                f"first_length: got {self.first_length!r}, expected 1 to num_steps, with whole_episodes"
            )


@dataclass
class TrainingResult:
    """Result of a training.

    Attributes
    ----------
    weights : dict of str to Tensor
        Weights that did best on the validation episodes.
    best : dict of str to float
        Measures of these weights in validation.
    history : list of dict
        Learning curve: one entry per validation.
    status : str
        Status of the training: ``"complete"`` or ``"interrupted"``.
    """

    weights: dict[str, Tensor]
    best: dict[str, float]
    history: list[dict[str, Any]]
    status: str


def validation_seeds(count: int) -> list[int]:
    """Return the seeds of ``count`` validation episodes, equal for all trainings; more seeds extend the list."""
    return [int(seed) for seed in np.random.SeedSequence(VALIDATION).generate_state(count)]


class Training:
    """A training, from its beginning or from a checkpoint.

    Parameters
    ----------
    task : Task
        Learning task.
    learner : Algorithm
        Learning algorithm with its policy.
    config : TrainingConfig
        Length, seed, environments and validation.
    directory : Path, optional
        Directory of checkpoints and the TensorBoard log; an existing checkpoint is resumed.
    settings : dict, optional
        Other settings of the training as plain values; a checkpoint with other settings is refused.

    Raises
    ------
    InvalidConfiguration
        If the directory holds a checkpoint of another training.
    RecordError
        If the checkpoint cannot be read.

    Attributes
    ----------
    noted : dict
        Entries for the first point of the learning curve, such as the ``agreement`` after a warm start.
    """

    def __init__(
        self,
        task: Task,
        learner: Algorithm,
        config: TrainingConfig,
        directory: Path | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.task = task
        self.learner = learner
        on_cpu = next(learner.policy.parameters()).device.type == "cpu"
        learner.threads = max(config.num_workers, 1) if on_cpu else 1  # worker processes are idle during updates
        self.config = config
        self.directory = directory
        self._settings = {**asdict(replace(config, total_steps=1)), **(settings or {})}
        self.steps = self.updates = 0
        self.seconds = 0.0
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, float] = {}
        self.noted: dict[str, Any] = {}
        self._engine = "simpy"  # of the last experience
        self._average: dict[str, Tensor] = {}
        self._weights = _weights_of(learner.policy)
        self.collector = self._make_collector()
        self._writer: Any = None
        self._since: dict[str, list[Any]] = {"episodes": [], "figures": [], "seconds": []}
        if directory is not None:
            self._resume(directory)

    def _make_collector(self) -> Collector | WorkerCollector:
        return self._collector(self.task.make_env, TRAINING)

    def _collector(self, make_env: MakeEnv, stage: int) -> Collector | WorkerCollector:
        config = self.config
        acting, episodes = np.random.SeedSequence([stage, config.seed]).spawn(2)
        groups = episodes.spawn(config.num_envs // config.group_size)
        seeds = [groups[number // config.group_size] for number in range(config.num_envs)]
        rng = np.random.default_rng(acting)
        further: dict[str, Any] = {
            "measure": self.task.measure,
            "group_size": config.group_size,
            "compiled": self.task.compiled,
        }
        if config.num_workers:
            return WorkerCollector(make_env, seeds, rng, config.num_workers, **further)
        return Collector(make_env, seeds, rng, **further)

    @contextmanager
    def collector_of(self, make_env: MakeEnv, stage: int) -> Iterator[Collector | WorkerCollector]:
        """Provide a second collector inside a context, for example for a warm start.

        It has the same number of environments and processes as the collector of the training.

        Parameters
        ----------
        make_env : callable
            Function that returns a new environment.
        stage : int
            First part of the seeds of its episodes.

        Yields
        ------
        Collector or WorkerCollector
            Collector, closed at the end of the context.
        """
        collector = self._collector(make_env, stage)
        try:
            yield collector
        finally:
            if isinstance(collector, WorkerCollector):
                collector.close()

    @property
    def student(self) -> Learner:
        """Learner of the training, for imitation of an expert.

        Raises
        ------
        InvalidConfiguration
            If it is a custom algorithm that is no :class:`~desim.agents.learning.learner.Learner`.
        """
        if not isinstance(self.learner, Learner):
            raise InvalidConfiguration(
                f"warm_start needs a Learner, got {type(self.learner).__name__}; try warm_start 0"
            )
        return self.learner

    def collect(self) -> Experience:
        """Return the experience for the next update."""
        config, policy = self.config, self.learner.policy
        if config.whole_episodes:
            return self.collector.collect_episodes(policy, self._length())
        return self.collector.collect(policy, config.num_steps)

    def _length(self) -> int:
        """Return the number of decisions per episode.

        Short episodes at first keep an untrained policy from learning about states that it will not reach later.
        Source: Mao et al., "Learning scheduling algorithms for data processing clusters", SIGCOMM 2019, section 5.3.
        """
        config = self.config
        if config.first_length is None:
            return config.num_steps
        mean = between(config.first_length, config.num_steps, self.steps / config.total_steps)
        rng = np.random.default_rng([LENGTHS, config.seed, self.updates])
        return min(max(round(rng.exponential(mean)), 1), config.num_steps)

    def run(self, report: Report | None = None, progress: Callable[[int], None] | None = None) -> TrainingResult:
        """Train to the end, or until Ctrl-C, which stores a checkpoint first.

        Parameters
        ----------
        report : callable, optional
            Function that is called with each new entry of the history.
        progress : callable, optional
            Function that is called after each update with the number of decisions so far.

        Returns
        -------
        TrainingResult
            Best weights so far, and the learning curve.
        """
        total = self.config.total_steps
        status, kept = "complete", None
        try:
            if not self.history:
                self._validate(self.noted, report)
            try:
                with deferred_interrupts(lambda frame: True) as interrupted:
                    while self.steps < total and not interrupted:
                        kept = self._state()
                        self._iterate(report)
                        if progress is not None:
                            progress(self.steps)
                    kept = self._state()
                    if not interrupted and self.history[-1]["steps"] != self.steps:
                        self._validate(self._summary(), report)
                    if interrupted:
                        status = "interrupted"
            except (InterruptOverdue, SimulationInterrupted):  # within an update, which is repeated later
                status = "interrupted"
            if status == "interrupted":
                self._store(kept)
        finally:
            if isinstance(self.collector, WorkerCollector):
                self.collector.close()
            if self._writer is not None:
                self._writer.close()
        return TrainingResult(self._weights, self.best, self.history, status)

    def _iterate(self, report: Report | None) -> None:
        begin = time.perf_counter()
        experience = self.collect()
        middle = time.perf_counter()
        with one_thread():  # sums of gradients over several threads are not reproducible
            figures = self.learner.update(experience, self.steps / self.config.total_steps)
        end = time.perf_counter()
        self.steps += experience.num_steps
        self.updates += 1
        self._take_average()
        self.seconds += end - begin
        self._engine = experience.engine
        self._since["episodes"] += experience.episodes
        self._since["figures"].append(figures)
        self._since["seconds"].append(experience.seconds | {"update": end - middle, "decisions": experience.num_steps})
        if self.updates % self.config.validate_every == 0:
            self._validate(self._summary(), report)

    def _take_average(self) -> None:
        """Update the exponential moving average of the weights.

        Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", SIAM Journal on Control
        and Optimization 30(4), 1992; here with exponentially decaying instead of equal weights.
        """
        share = self.config.averaging
        if share:
            now = _weights_of(self.learner.policy)
            before = self._average or now
            self._average = {name: share * before[name] + (1.0 - share) * tensor for name, tensor in now.items()}

    @contextmanager
    def _averaged(self) -> Iterator[Policy]:
        """Load the averaged weights, if there are any, into the policy inside the context."""
        policy = self.learner.policy
        own = _weights_of(policy)
        policy.load_state_dict(self._average or own)
        try:
            yield policy
        finally:
            policy.load_state_dict(own)

    def _summary(self) -> dict[str, Any]:
        """Return means of all figures since the last validation."""
        since, self._since = self._since, {"episodes": [], "figures": [], "seconds": []}
        seconds = {name: sum(part[name] for part in since["seconds"]) for name in (since["seconds"] or [{}])[0]}
        return {
            "training": mean_of(since["episodes"]),
            "episodes": len(since["episodes"]),
            "figures": _mean_of_known(since["figures"]),
            "throughput": seconds,
            "engine": self._engine,
        }

    def _validate(self, summary: dict[str, Any], report: Report | None) -> None:
        task = self.task
        seeds = validation_seeds(self.config.validation_episodes)
        with self._averaged() as policy:
            rng = task.validation_rng()
            how: dict[str, Any] = {"measure": task.measure, "rng": rng, "compiled": task.compiled}
            found = mean_of(evaluate(policy, task.make_validation_env, seeds, **how))
            sign = 1.0 if task.maximize else -1.0
            if not self.best or sign * found[task.objective] > sign * self.best[task.objective]:
                self.best, self._weights = found, _weights_of(policy)
        entry = {"steps": self.steps, "updates": self.updates, "seconds": self.seconds, "validation": found, **summary}
        self.history.append(entry)
        self._log(entry)
        if self.history[1:]:
            self._store(self._state())
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

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return what a checkpoint holds, which later updates leave alone; None without a directory."""
        if self.directory is None:
            return None
        weights = {f"best.{name}": tensor for name, tensor in self._weights.items()}
        weights |= {f"average.{name}": tensor for name, tensor in self._average.items()}
        own = {name: tensor.detach().clone() for name, tensor in self.learner.tensors().items()}
        document = {
            "settings": self._settings,
            "learner": copy.deepcopy(self.learner.state()),
            "collector": copy.deepcopy(self.collector.state()),
            "since": {name: list(values) for name, values in self._since.items()},
            **{name: getattr(self, name) for name in COUNTERS},
            "history": list(self.history),
        }
        return own | weights, document

    def _store(self, state: tuple[dict[str, Tensor], dict[str, Any]] | None) -> None:
        if self.directory is not None and state is not None:
            save_checkpoint(self.directory, *state)

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
        for name, value in self._settings.items():
            if settings.get(name) != _plain(value):
                raise InvalidConfiguration(
                    f"{directory} holds a checkpoint of another training: {name}: got {settings.get(name)!r}, "
                    f"expected {value!r}; try another directory"
                )
        self.learner.restore(tensors, document["learner"])
        self.collector.restore(document["collector"])
        self._since = document["since"]
        for name in COUNTERS:
            setattr(self, name, document[name])
        self._weights = _with_prefix(tensors, "best.")
        self._average = _with_prefix(tensors, "average.")


def _mean_of_known(figures: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every figure over the updates in which it is not NaN."""
    names = figures[0] if figures else {}
    known = {name: [one[name] for one in figures if not math.isnan(one[name])] for name in names}
    return {name: float(np.mean(values)) for name, values in known.items() if values}


def _weights_of(policy: Policy) -> dict[str, Tensor]:
    """Return a copy of the weights of a policy, by name."""
    return {name: tensor.detach().cpu().clone() for name, tensor in policy.state_dict().items()}


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, with the prefix removed."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """Return a setting as it is after a round trip through JSON."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
