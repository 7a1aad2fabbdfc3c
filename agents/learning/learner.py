"""What the algorithms share: their settings, an optimizer, a scale of values, and a state to go on from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.learning.experience import Experience
from desim.agents.learning.policy import Policy, to_tensors
from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration

__all__ = ["Algorithm", "Learner", "LearningConfig", "RunningMoments", "Samples", "between"]

Floats = NDArray[np.float64]

MAX_GRADIENT = 0.5
"""Longer gradients are cut to this."""

LARGE = 1_000_000
"""From so many weights on Adam goes through them once a step: they fit no cache, and it takes a fifth of the time."""


@dataclass(frozen=True)
class LearningConfig:
    """How experience is learned from.

    Parameters
    ----------
    algorithm : str
        "ppo": proximal policy optimization; "a2c": the synchronous one; "reinforce"; "q_actor_critic": that of
        LACHESIS; or ``module:Name``, an :class:`Algorithm` of your own.
    learning_rate : float
        Of Adam at the beginning.
    last_rate : float
        Part of the learning rate that is left at the end, to which it falls evenly; with 1 it stays.
    discount : float
        Weight of what comes one decision, or one unit of time, later: gamma.
    gae_lambda : float
        The lambda of generalized advantage estimation, for one decision or unit of time; of PPO and the actor-critic.
    time_unit : float
        In seconds or slots: discount and lambda then hold for so much simulated time, and decisions at the same instant
        are not discounted at all (semi-Markov decision process). With 0 they hold for one decision.
    entropy_coef : float
        Weight of the entropy at the beginning; it falls to 0.
    value_coef : float
        Weight of the critic's loss; of PPO and the actor-critic.
    clip_range : float
        Of PPO: how far the ratio of probabilities may go from 1.
    epochs : int
        Of PPO and LACHESIS' algorithm: how often each sample is used.
    minibatch_size : int
        Of the same: samples in a step of the optimizer.
    target_kl : float
        Of PPO: an update ends when the policy has moved further than 1.5 times this, in nats; never with 0.
    target_rate : float
        Of LACHESIS' algorithm: which part of the way to the networks their targets go in an update.
    standardize : bool
        Of REINFORCE: divide advantages by their deviation.
    """

    algorithm: str = "ppo"
    learning_rate: float = 3e-4
    last_rate: float = 0.1
    discount: float = 0.99
    gae_lambda: float = 0.95
    time_unit: float = 0.0
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    clip_range: float = 0.2
    epochs: int = 4
    minibatch_size: int = 1024
    target_kl: float = 0.02
    target_rate: float = 0.1
    standardize: bool = True

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        for name in ("learning_rate", "clip_range"):
            check_float(name, getattr(self, name), above=0)
        for name in ("time_unit", "entropy_coef", "value_coef", "target_kl"):
            check_float(name, getattr(self, name), least=0)
        for name in ("last_rate", "discount", "gae_lambda", "target_rate"):
            check_float(name, getattr(self, name), least=0, most=1)
        for name in ("epochs", "minibatch_size"):
            check_int(name, getattr(self, name), least=1)

    def weights(self, elapsed: Floats) -> tuple[Floats, Floats]:
        """Return discount and lambda of each step, by the time that elapsed with it in seconds or slots."""
        if not self.time_unit:
            return np.full_like(elapsed, self.discount), np.full_like(elapsed, self.gae_lambda)
        units = elapsed / self.time_unit
        return self.discount**units, self.gae_lambda**units


class RunningMoments:
    """Mean and standard deviation of all numbers so far.

    Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37(3),
    1983: how the moments of two samples are joined.
    """

    def __init__(self) -> None:
        self.count = self.mean = self.squares = 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 as long as it is not known or is 0."""
        return math.sqrt(self.squares / self.count) if self.count > 1 and self.squares > 0 else 1.0

    def update(self, numbers: NDArray[np.floating]) -> None:
        """Take in numbers of any shape."""
        count = float(numbers.size)
        if not count:
            return
        mean = float(numbers.mean())
        squares = float(((numbers - mean) ** 2).sum())
        total = self.count + count
        difference = mean - self.mean
        self.squares += squares + difference * difference * self.count * count / total
        self.mean += difference * count / total
        self.count = total

    def normalized(self, numbers: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return numbers less the mean, over the deviation."""
        return (numbers - self.mean) / self.deviation

    def restored(self, numbers: NDArray[np.floating]) -> NDArray[np.floating]:
        """Undo :meth:`normalized`."""
        return numbers * self.deviation + self.mean


@dataclass
class Samples:
    """The valid steps of some experience in a row, as tensors on the policy's device.

    Attributes
    ----------
    observations : dict of str to Tensor, shape (S, ...)
        What was seen.
    actions : Tensor, shape (S, ...)
        What was done.
    log_probs, advantages, targets : Tensor, shape (S,)
        Log-probabilities when acting, advantages, and targets of the critic on its own scale.
    explained_variance : float
        Which part of the variance of the targets the critic had foreseen; NaN where all targets are equal, and as long
        as it has learned nothing, since its values have no scale yet.
    """

    observations: dict[str, Tensor]
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    targets: Tensor
    explained_variance: float = math.nan

    def part(self, places: Tensor) -> Samples:
        """Return some of the samples, by their places; ``index_select`` copies whole rows, a quarter of the time."""
        return Samples(
            {name: tensor.index_select(0, places) for name, tensor in self.observations.items()},
            self.actions.index_select(0, places),
            self.log_probs.index_select(0, places),
            self.advantages.index_select(0, places),
            self.targets.index_select(0, places),
        )

    def divided(self, number: int) -> list[Samples]:
        """Return the samples in so many parts of about the same size, as views."""
        names = list(self.observations)
        tensors = [*self.observations.values(), self.actions, self.log_probs, self.advantages, self.targets]
        parts = zip(*(tensor.tensor_split(number) for tensor in tensors), strict=True)
        return [Samples(dict(zip(names, part[:-4], strict=True)), *part[-4:]) for part in parts]


class _Group(NamedTuple):
    """Parameters that learn at the same rate: how many times the usual one, their names, and themselves."""

    scale: float
    names: list[str]
    parameters: list[nn.Parameter]


def _parameter_groups(policy: Policy) -> list[_Group]:
    """Return the parameters of a policy by how fast they learn, those at the usual rate first."""
    rates = policy.rates()
    if not all(rate > 0 for rate in rates.values()):
        raise InvalidConfiguration(f"some parameters would learn {rates!r} times as fast, want numbers above 0")
    groups = {"": _Group(1.0, [], [])} | {prefix: _Group(rate, [], []) for prefix, rate in rates.items()}
    for name, parameter in policy.named_parameters():
        group = groups[next((prefix for prefix in rates if name.startswith(prefix)), "")]
        group.names.append(name)
        group.parameters.append(parameter)
    return [group for group in groups.values() if group.names]


class Algorithm(Protocol):
    """What a training asks of an algorithm; :class:`~desim.agents.learning.ppo.PPO` is one.

    It is made of a policy, a :class:`LearningConfig` and a generator. :class:`Learner` has all but ``update`` and
    ``estimate``, an optimizer and a scale of values included.

    Attributes
    ----------
    policy : Policy
        Is trained in place; it acts between updates.
    threads : int
        Processes that wait during an update: as many threads may be used.
    """

    policy: Policy
    threads: int

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Learn from experience of the policy as it is now, and return figures for the log, the same ones each time.

        Parameters
        ----------
        experience : Experience
            T steps of N environments.
        progress : float
            Part of the training that is over, 0 to 1.
        """

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors that it needs to go on, the policy's weights included, by name."""

    def state(self) -> dict[str, Any]:
        """Return all else that it needs to go on, as plain values."""

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Take over what :meth:`tensors` and :meth:`state` returned."""


class Learner(ABC):
    """Base class of the algorithms that come with desim, and an :class:`Algorithm` but for two methods.

    The critic learns values on a scale of mean 0 and deviation 1.

    Parameters
    ----------
    policy : Policy
        Is trained in place.
    config : LearningConfig
        Settings.
    rng : numpy.random.Generator
        For the order of samples.

    Attributes
    ----------
    threads : int
        Among how many threads large minibatches are divided; as many as there are processes that wait meanwhile.
    """

    threads = 1

    def __init__(self, policy: Policy, config: LearningConfig, rng: np.random.Generator) -> None:
        self.policy = policy
        self.config = config
        self.rng = rng
        self.moments = RunningMoments()
        self._groups = _parameter_groups(policy)
        self._names = [name for group in self._groups for name in group.names]
        groups = [{"params": group.parameters, "lr": group.scale * config.learning_rate} for group in self._groups]
        large = sum(parameter.numel() for parameter in policy.parameters()) >= LARGE
        self.optimizer = torch.optim.Adam(groups, lr=config.learning_rate, eps=1e-5, foreach=not large, fused=large)

    @abstractmethod
    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Learn from experience of the policy as it is now.

        Parameters
        ----------
        experience : Experience
            T steps of N environments.
        progress : float
            Part of the training that is over, 0 to 1, for schedules.

        Returns
        -------
        dict of str to float
            Figures for the log.
        """

    @abstractmethod
    def estimate(self, experience: Experience) -> tuple[Floats, Floats]:
        """Return the advantages of all steps and the targets of the critic, in units of reward, shape (T, N) each."""

    def samples(self, experience: Experience) -> Samples:
        """Return the valid steps with their advantages and targets; the scale of the values takes the targets in."""
        advantages, targets = self.estimate(experience)
        chosen: NDArray[Any] = experience.in_a_row(targets)
        explained = self._explained(chosen, experience.in_a_row(experience.values))
        self.moments.update(chosen)
        chosen = self.moments.normalized(chosen).astype(np.float32)
        device = next(self.policy.parameters()).device
        tensors = to_tensors(
            {
                "actions": experience.in_a_row(experience.actions),
                "log_probs": experience.in_a_row(experience.log_probs),
                "advantages": experience.in_a_row(advantages),
                "targets": chosen,
            },
            device,
        )
        shown = experience.observations | self.policy.targets(experience)
        observations = to_tensors({name: experience.in_a_row(array) for name, array in shown.items()}, device)
        return Samples(observations, **tensors, explained_variance=explained)

    def _explained(self, targets: NDArray[Any], values: NDArray[Any]) -> float:
        """Return which part of the variance of targets, in units of reward, the critic had foreseen."""
        variance = float(targets.var())
        if not (variance and self.moments.count):
            return math.nan
        errors = targets - self.moments.restored(values)  # on the scale on which they were learned
        return 1.0 - float(errors.var()) / variance

    def descend(self, loss: Tensor) -> float:
        """Take one step down a loss; return the length of the gradient of what learns at the usual rate."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return self.step()

    def step(self) -> float:
        """Take one step down the gradient that the parameters hold; return its length, as :meth:`descend` does."""
        norms = [torch.nn.utils.clip_grad_norm_(group.parameters, MAX_GRADIENT) for group in self._groups]
        self.optimizer.step()
        return float(norms[0])

    def schedule(self, progress: float) -> float:
        """Set the learning rate for the progress of the training, and return the weight of the entropy."""
        first = self.config.learning_rate
        rate = between(first, self.config.last_rate * first, progress)
        for group, known in zip(self.optimizer.param_groups, self._groups, strict=True):
            group["lr"] = rate * known.scale
        return between(self.config.entropy_coef, 0.0, progress)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and the state of the optimizer, by name."""
        found = {f"policy.{name}": tensor for name, tensor in self.policy.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.{self._names[number]}.{key}": tensor for key, tensor in state.items()}
        # Copies, since layers may share their weights, which a tensor file cannot.
        return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in found.items()}

    def state(self) -> dict[str, Any]:
        """Return all else that it needs to go on, as plain values."""
        return {"rng": self.rng.bit_generator.state, "moments": vars(self.moments).copy()}

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Take over what :meth:`tensors` and :meth:`state` returned."""
        weights = {name.removeprefix("policy."): t for name, t in tensors.items() if name.startswith("policy.")}
        self.policy.load_state_dict(weights)
        optimizer = self.optimizer.state_dict()
        for number, name in enumerate(self._names):
            prefix = f"optimizer.{name}."
            found = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
            found = {key: t for key, t in found.items() if "." not in key}
            if found:
                optimizer["state"][number] = found
        self.optimizer.load_state_dict(optimizer)
        self.rng.bit_generator.state = state["rng"]
        vars(self.moments).update(state["moments"])


def between(first: float, last: float, progress: float) -> float:
    """Return the value of a linear schedule, given both ends and the part that is over, 0 to 1."""
    return first + (last - first) * min(max(progress, 0.0), 1.0)
