"""Settings of trainings: nested dataclasses shared by the command line, the training, and the model card."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from torch import Tensor

from desim import user_code
from desim.agents.learning.checkpoint import load_into, save_weights
from desim.agents.learning.custom import check_known, digests
from desim.agents.learning.learned import AgentConfig, plain, restored
from desim.agents.learning.learner import Algorithm, Learner, LearningConfig
from desim.agents.learning.policy import Policy, device_of
from desim.agents.learning.policy_gradients import ActorCritic, Reinforce
from desim.agents.learning.ppo import PPO
from desim.agents.learning.q_actor_critic import QActorCritic
from desim.agents.learning.rule_comparison import RuleComparison, compare_with_rules
from desim.agents.learning.seeds import Trainings, train_seeds
from desim.agents.learning.training import Task, Training, TrainingConfig, TrainingResult
from desim.agents.learning.tune import USUAL, Trial, Tuned, tune, with_values
from desim.checks import check_int
from desim.exceptions import InvalidConfiguration

__all__ = ["TrainingSettings"]

AnyPolicy = TypeVar("AnyPolicy", bound=Policy)
ALGORITHMS: dict[str, type[Learner]] = {
    "ppo": PPO,
    "a2c": ActorCritic,
    "reinforce": Reinforce,
    "q_actor_critic": QActorCritic,
}


def _options(settings: Any, default: Any) -> Iterator[str]:
    """Yield the command-line options by which settings differ from the defaults."""
    for one in fields(settings):
        value, usual = getattr(settings, one.name), getattr(default, one.name)
        option = one.name.replace("_", "-")
        if is_dataclass(value):
            yield from _options(value, usual)
        elif value != usual and isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        elif value != usual:
            yield f"--{option}"
            yield from map(str, value if isinstance(value, tuple) else [value])


@dataclass(frozen=True)
class TrainingSettings(Generic[AnyPolicy]):
    """Base class of the settings that determine a training; subclasses add settings of their problem.

    Parameters
    ----------
    agent : AgentConfig
        Configuration of the agent.
    learning : LearningConfig
        Learning algorithm and its settings.
    training : TrainingConfig
        Training length, seed, environments and validation.
    warm_start : int
        Length of the imitation of an expert before learning from rewards; the unit depends on the subclass.

    Attributes
    ----------
    trained : str
        Name of the training for ``desim train``, for example ``"batch"``.
    rules : tuple of str
        Names of the agents that trained weights are compared with.
    quick_values : mapping of str to object
        Settings of a short training of a few minutes that differ from the defaults, by name.
    """

    trained: ClassVar[str]
    rules: ClassVar[tuple[str, ...]] = ()
    quick_values: ClassVar[Mapping[str, Any]] = {}

    agent: AgentConfig[AnyPolicy] = field(default_factory=AgentConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    warm_start: int = 0

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if values are out of range or do not fit together."""
        check_known("algorithm", self.learning.algorithm, ALGORITHMS)
        check_int("warm_start", self.warm_start, least=0)
        if self.learning.algorithm == "reinforce" and not self.training.whole_episodes:
            raise InvalidConfiguration("whole_episodes: got False, expected True for the algorithm 'reinforce'")

    @classmethod
    def quick(cls) -> Self:
        """Return the settings of a short training of a few minutes."""
        return cls().with_values(cls.quick_values)

    @property
    def default_name(self) -> str:
        """Default base name of the weight files."""
        raise NotImplementedError

    def task(self) -> Task:
        """Return the learning task."""
        raise NotImplementedError

    def warm_up(self, training: Training) -> float | None:
        """Train the policy to imitate an expert before it learns from rewards.

        Parameters
        ----------
        training : Training
            Training that has not begun.

        Returns
        -------
        float or None
            Share of the last decisions in which policy and expert agreed; None without a warm start.
        """
        return None

    def plain(self) -> dict[str, Any]:
        """Return the settings as plain values, for a model card."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Self:
        """Return the settings of the training that a model card describes."""
        found: Self = restored(cls(), {**card["training"], "agent": card["config"]})
        return found

    def command(self, name: str | None = None) -> str:
        """Return the command line of this training; ``name`` is the base name of the weight files."""
        words = ["desim", "train", self.trained, *_options(self, type(self)())]
        return shlex.join(words if name in (None, self.default_name) else [*words, "--name", str(name)])

    def learner(self, policy: AnyPolicy, rng: np.random.Generator) -> Algorithm:
        """Return the learning algorithm, which trains a policy in place and orders samples by a generator."""
        given = self.learning.algorithm
        if given in ALGORITHMS:
            return ALGORITHMS[given](policy, self.learning, rng)
        made = user_code.load_problem_factory(given, user_code.load(given), policy, self.learning, rng)()
        for name in ("update", "tensors", "state", "restore"):
            if not callable(getattr(made, name, None)):
                raise InvalidConfiguration(f"{given}: {type(made).__name__} is no algorithm: it has no method {name}")
        algorithm: Algorithm = made
        return algorithm

    def train(
        self,
        directory: Path | None = None,
        report: Callable[[dict[str, Any]], None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> TrainingResult:
        """Train the agent.

        Parameters
        ----------
        directory : Path, optional
            Directory of checkpoints and the TensorBoard log; an interrupted training is resumed.
        report : callable, optional
            Function that is called with each new entry of the learning curve.
        progress : callable, optional
            Function that is called after each update with the number of decisions so far.

        Returns
        -------
        TrainingResult
            Best weights on the validation episodes, and the learning curve.
        """
        root = np.random.SeedSequence(self.training.seed)
        for_weights, for_learner = (np.random.default_rng(seed) for seed in root.spawn(2))
        device = device_of(self.training.device)  # raises before any work is done
        learner = self.learner(self.agent.policy(for_weights).to(device), for_learner)
        others = {name: value for name, value in self.plain().items() if name != "training"}
        training = Training(self.task(), learner, self.training, directory, others)
        if not training.history:
            agreement = self.warm_up(training)
            if agreement is not None:
                training.noted["agreement"] = agreement
        return training.run(report, progress)

    def compare_with_rules(self, weights: dict[str, Tensor]) -> list[RuleComparison]:
        """Compare weights with rules, see :func:`desim.agents.learning.rule_comparison.compare_with_rules`."""
        return compare_with_rules(self, weights)

    def train_seeds(
        self,
        directory: Path,
        count: int,
        *,
        name: str | None = None,
        report: Callable[[dict[str, Any]], None] | None = None,
    ) -> Trainings:
        """Train once per seed; see :func:`desim.agents.learning.seeds.train_seeds`."""
        return train_seeds(self, directory, count, name=name, report=report)

    def tune(
        self,
        directory: Path,
        trials: int,
        *,
        over: Sequence[str] = (),
        seeds: int = 1,
        report: Callable[[Trial], None] | None = None,
    ) -> Tuned:
        """Search for better settings; see :func:`desim.agents.learning.tune.tune`. Default: its usual ranges."""
        return tune(self, directory, trials, over=over or USUAL, seeds=seeds, report=report)

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return these settings with some values replaced, by name."""
        changed: Self = with_values(self, values)
        return changed

    def write(self, stem: Path, result: TrainingResult) -> None:
        """Write the weights of a training with their model card, for the agent's ``load``.

        Parameters
        ----------
        stem : Path
            Path of the two files without ``.safetensors`` and ``.json``.
        result : TrainingResult
            Result of the training.

        Raises
        ------
        RecordError
            If the files cannot be written, or the weights do not fit the network that the card describes.
        InvalidConfiguration
            If the training was interrupted.
        """
        if result.status == "interrupted":
            raise InvalidConfiguration("the training was interrupted, so its weights are not final; resume it first")
        self._check_described(result)
        training = self.plain()
        card = {
            "agent": self.agent.agent_kind,
            "config": training.pop("agent"),
            "command": self.command(stem.name),
            "training": training,
            "status": result.status,
            "validation": result.best,
            "history": result.history,
        }
        own = digests(self)
        if own:
            card["user_code"] = own
        part = self.agent.acts_with
        weights = {name: tensor for name, tensor in result.weights.items() if name.startswith(part)}
        save_weights(stem, weights, card, half=bool(part))

    def _check_described(self, result: TrainingResult) -> None:
        """Raise RecordError for weights that do not fit the model card, such as those of an unlisted subclass."""
        kind = next(one for one in type(self.agent).__mro__ if "agent_kind" in vars(one))
        described: AgentConfig[Any] = restored(kind(), plain(self.agent))
        load_into(described.policy(np.random.default_rng(0)), result.weights, "this training")
