"""Settings once: nested dataclasses that the command line reads, a training takes, and the card of weights keeps."""

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
    """Yield the options of the command line that make settings of the default ones."""
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
    """Base class of all that determines a training: who learns, how, and how long, and what more a subclass has.

    Parameters
    ----------
    agent : AgentConfig
        Who learns.
    learning : LearningConfig
        How.
    training : TrainingConfig
        How long, from which seed, and in how many environments.
    warm_start : int
        How long the policy imitates somebody before it learns by itself.

    Attributes
    ----------
    trained : str
        What stands behind ``desim train``, for example ``"batch"``.
    rules : tuple of str
        Names of agents that trained weights are compared with.
    """

    trained: ClassVar[str]
    rules: ClassVar[tuple[str, ...]] = ()

    agent: AgentConfig[AnyPolicy] = field(default_factory=AgentConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    warm_start: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        check_known("algorithm", self.learning.algorithm, ALGORITHMS)
        check_int("warm_start", self.warm_start, least=0)
        if self.learning.algorithm == "reinforce" and not self.training.whole_episodes:
            raise InvalidConfiguration("REINFORCE learns from the returns of whole episodes: want whole_episodes")

    @classmethod
    def quick(cls) -> Self:
        """Return a small training of a few minutes."""
        raise NotImplementedError

    @property
    def default_name(self) -> str:
        """What the files with the weights are called unless a name is given."""
        raise NotImplementedError

    def task(self) -> Task:
        """Return what is to be learned."""
        raise NotImplementedError

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
        return None

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Self:
        """Return the settings of the training that a card tells of."""
        found: Self = restored(cls(), {**card["training"], "agent": card["config"]})
        return found

    def command(self, name: str | None = None) -> str:
        """Return the command line that trains the same agent, into files of a name."""
        words = ["desim", "train", self.trained, *_options(self, type(self)())]
        return shlex.join(words if name in (None, self.default_name) else [*words, "--name", str(name)])

    def learner(self, policy: AnyPolicy, rng: np.random.Generator) -> Algorithm:
        """Return what learns: trains a policy in place, and draws the order of samples from a generator."""
        given = self.learning.algorithm
        if given in ALGORITHMS:
            return ALGORITHMS[given](policy, self.learning, rng)
        made = user_code.load_problem_factory(given, user_code.load(given), policy, self.learning, rng)()
        for name in ("update", "tensors", "state", "restore"):
            if not callable(getattr(made, name, None)):
                raise InvalidConfiguration(f"{given}: {type(made).__name__} has no method {name}, as algorithms have")
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
            Where checkpoints and TensorBoard's log go; a training that was interrupted there goes on.
        report : callable, optional
            Called with each new entry of the learning curve.
        progress : callable, optional
            Called after each update with the decisions so far.

        Returns
        -------
        TrainingResult
            The best weights on the validation episodes, and the learning curve.
        """
        root = np.random.SeedSequence(self.training.seed)
        for_weights, for_learner = (np.random.default_rng(seed) for seed in root.spawn(2))
        device = device_of(self.training.device)  # before any work is done
        learner = self.learner(self.agent.policy(for_weights).to(device), for_learner)
        others = {name: value for name, value in self.plain().items() if name != "training"}
        training = Training(self.task(), learner, self.training, directory, others)
        if not training.history:
            agreement = self.warm_up(training)
            if agreement is not None:
                training.noted["agreement"] = agreement
        return training.run(report, progress)

    def compare_with_rules(self, weights: dict[str, Tensor]) -> list[RuleComparison]:
        """Compare weights with rules; see :func:`desim.agents.learning.rule_comparison.compare_with_rules`."""
        return compare_with_rules(self, weights)

    def train_seeds(
        self,
        directory: Path,
        count: int,
        *,
        name: str | None = None,
        report: Callable[[dict[str, Any]], None] | None = None,
    ) -> Trainings:
        """Train once for each of some seeds; see :func:`desim.agents.learning.seeds.train_seeds`."""
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
        """Search for better settings; see :func:`desim.agents.learning.tune.tune`, by default over its usual ranges."""
        return tune(self, directory, trials, over=over or USUAL, seeds=seeds, report=report)

    def with_values(self, values: dict[str, Any]) -> Self:
        """Return these settings with other values, by name."""
        changed: Self = with_values(self, values)
        return changed

    def write(self, stem: Path, result: TrainingResult) -> None:
        """Write the weights of a training with their card, for the agent's ``load``.

        Parameters
        ----------
        stem : Path
            The files, without ``.safetensors`` and ``.json``.
        result : TrainingResult
            What has come of it.

        Raises
        ------
        RecordError
            If they cannot be written, or are of another network than the card would tell of.
        InvalidConfiguration
            If the training was interrupted.
        """
        if result.status == "interrupted":
            raise InvalidConfiguration("the training was interrupted: its weights are not final")
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
        """Refuse weights that whoever reads the card could not use, such as those of a subclass of the agent's."""
        kind = next(one for one in type(self.agent).__mro__ if "agent_kind" in vars(one))
        described: AgentConfig[Any] = restored(kind(), plain(self.agent))
        load_into(described.policy(np.random.default_rng(0)), result.weights, "this training")
