"""Base class of the learning algorithms: settings, optimizer, value normalization, and checkpointed state."""

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
"""Largest norm of a gradient; longer ones are clipped."""

LARGE = 1_000_000
"""Number of weights from which on Adam is fused: beyond the size of caches, one pass takes a fifth of the time."""


@dataclass(frozen=True)
class LearningConfig:
    """Learning algorithm and its settings.

    Parameters
    ----------
    algorithm : str
        Learning algorithm: "ppo" (proximal policy optimization), "a2c" (synchronous advantage actor-critic,
        A2C), "reinforce", "q_actor_critic" (the algorithm of LACHESIS), or module:Name of a custom Algorithm.
    learning_rate : float
        Initial learning rate of Adam.
    last_rate : float
        Final learning rate as a fraction of the initial one; the rate falls linearly, and 1 keeps it constant.
    discount : float
        Discount factor gamma per decision, or per unit of time.
    gae_lambda : float
        Lambda of generalized advantage estimation (GAE) per decision, or per unit of time. PPO and A2C only.
    time_unit : float
        Simulated time, in seconds or slots, over which discount and decay apply once; decisions at the same instant
        are then not discounted (semi-Markov decision process). With 0 they apply once per decision.
    entropy_coef : float
        Initial weight of the entropy bonus; it falls linearly to 0.
    value_coef : float
        Weight of the critic's loss. PPO and A2C only.
    clip_range : float
        Clipping range of the probability ratio. PPO only.
    epochs : int
        Number of passes over the samples per update. PPO and the algorithm of LACHESIS only.
    minibatch_size : int
        Number of samples per optimizer step. PPO and the algorithm of LACHESIS only.
    target_kl : float
        Kullback-Leibler divergence in nats; an update stops once the policy has moved by more than 1.5 times this.
        With 0 it never stops early. PPO only.
    target_rate : float
        Fraction by which the target networks move towards the networks per update. Algorithm of LACHESIS only.
    standardize : bool
        Whether to divide advantages by their standard deviation. REINFORCE only.
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
        """Raise InvalidConfiguration if a value is out of range."""
        for name in ("learning_rate", "clip_range"):
            check_float(name, getattr(self, name), above=0)
        for name in ("time_unit", "entropy_coef", "value_coef", "target_kl"):
            check_float(name, getattr(self, name), least=0)
        for name in ("last_rate", "discount", "gae_lambda", "target_rate"):
            check_float(name, getattr(self, name), least=0, most=1)
        for name in ("epochs", "minibatch_size"):
            check_int(name, getattr(self, name), least=1)

    def weights(self, elapsed: Floats) -> tuple[Floats, Floats]:
        """Return discount and lambda of each step, given its elapsed time in seconds or slots."""
        if not self.time_unit:
            return np.full_like(elapsed, self.discount), np.full_like(elapsed, self.gae_lambda)
        units = elapsed / self.time_unit
        return self.discount**units, self.gae_lambda**units


class RunningMoments:
    """Running mean and standard deviation of all numbers so far.

    Source of the rule that merges the moments of two samples: Chan, Golub and LeVeque, "Algorithms for computing the
    sample variance", The American Statistician 37(3), 1983.
    """

    def __init__(self) -> None:
        self.count = self.mean = self.squares = 0.0

    @property
    def deviation(self) -> float:
        """Standard deviation; 1 if it is unknown or 0."""
        return math.sqrt(self.squares / self.count) if self.count > 1 and self.squares > 0 else 1.0

    def update(self, numbers: NDArray[np.floating]) -> None:
        """Add numbers of any shape."""
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
        """Return numbers minus the mean, divided by the standard deviation."""
        return (numbers - self.mean) / self.deviation

    def restored(self, numbers: NDArray[np.floating]) -> NDArray[np.floating]:
        """Undo :meth:`normalized`."""
        return numbers * self.deviation + self.mean


@dataclass
class Samples:
    """Valid steps of some experience on one axis, as tensors on the policy's device.

    Attributes
    ----------
    observations : dict of str to Tensor, shape (S, ...)
        Observations.
    actions : Tensor, shape (S, ...)
        Actions.
    log_probs, advantages, targets : Tensor, shape (S,)
        Log-probabilities at acting time, advantages, and normalized targets of the critic.
    explained_variance : float
        Share of the targets' variance that the critic explained before the update. NaN if all targets are equal, or
        before the first update, when its values have no scale yet.
    """

    observations: dict[str, Tensor]
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    targets: Tensor
    explained_variance: float = math.nan

    def part(self, places: Tensor) -> Samples:
        """Return samples by position; ``index_select`` copies whole rows in a quarter of the time of indexing."""
        return Samples(
            {name: tensor.index_select(0, places) for name, tensor in self.observations.items()},
            self.actions.index_select(0, places),
            self.log_probs.index_select(0, places),
            self.advantages.index_select(0, places),
            self.targets.index_select(0, places),
        )

    def divided(self, number: int) -> list[Samples]:
        """Return the samples as a given number of views of about equal size."""
        names = list(self.observations)
        tensors = [*self.observations.values(), self.actions, self.log_probs, self.advantages, self.targets]
        parts = zip(*(tensor.tensor_split(number) for tensor in tensors), strict=True)
        return [Samples(dict(zip(names, part[:-4], strict=True)), *part[-4:]) for part in parts]


class _Group(NamedTuple):
    """Parameters with the same learning rate; ``scale`` is a multiple of the usual rate."""

    scale: float
    names: list[str]
    parameters: list[nn.Parameter]


def _parameter_groups(policy: Policy) -> list[_Group]:
    """Return the parameters of a policy grouped by learning rate, those with the usual rate first."""
    rates = policy.rates()
    if not all(rate > 0 for rate in rates.values()):
        raise InvalidConfiguration(f"rates of {type(policy).__name__}: got {rates!r}, expected numbers > 0")
    groups = {"": _Group(1.0, [], [])} | {prefix: _Group(rate, [], []) for prefix, rate in rates.items()}
    for name, parameter in policy.named_parameters():
        group = groups[next((prefix for prefix in rates if name.startswith(prefix)), "")]
        group.names.append(name)
        group.parameters.append(parameter)
    return [group for group in groups.values() if group.names]


class Algorithm(Protocol):
    """Interface of learning algorithms, such as :class:`~desim.agents.learning.ppo.PPO`.

    An algorithm is made from a policy, a :class:`LearningConfig` and a random generator. :class:`Learner` implements
    everything except ``update`` and ``estimate``, including an optimizer and value normalization.

    Attributes
    ----------
    policy : Policy
        Policy that is trained in place; it acts between updates.
    threads : int
        Number of threads that an update may use. It equals the number of worker processes, which are idle meanwhile.
    """

    policy: Policy
    threads: int

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Update the policy from its own experience; return metrics for the log, under the same names each time.

        Parameters
        ----------
        experience : Experience
            T steps of N environments.
        progress : float
            Fraction of the training that is done, 0 to 1.
        """

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors needed to resume, including the policy's weights, by name."""

    def state(self) -> dict[str, Any]:
        """Return all other state needed to resume, as plain values."""

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Restore what :meth:`tensors` and :meth:`state` returned."""


class Learner(ABC):
    """Base class of the algorithms in desim: an :class:`Algorithm` without ``update`` and ``estimate``.

    The critic learns values that are normalized to mean 0 and standard deviation 1.

    Parameters
    ----------
    policy : Policy
        Policy that is trained in place.
    config : LearningConfig
        Settings.
    rng : numpy.random.Generator
        Generator for the order of samples.

    Attributes
    ----------
    threads : int
        Number of threads that share a large minibatch. It equals the number of worker processes, which are idle
        meanwhile.
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
        """Update the policy from its own experience.

        Parameters
        ----------
        experience : Experience
            T steps of N environments.
        progress : float
            Fraction of the training that is done, 0 to 1; schedules depend on it.

        Returns
        -------
        dict of str to float
            Figures for the log.
        """

    @abstractmethod
    def estimate(self, experience: Experience) -> tuple[Floats, Floats]:
        """Return the advantages of all steps and the targets of the critic, in units of reward, shape (T, N) each."""

    def samples(self, experience: Experience) -> Samples:
        """Return the valid steps with their advantages and targets; update the value normalization."""
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
        """Return the share of the targets' variance that the critic explains, in units of reward."""
        variance = float(targets.var())
        if not (variance and self.moments.count):
            return math.nan
        errors = targets - self.moments.restored(values)  # values have the scale that they were learned on
        return 1.0 - float(errors.var()) / variance

    def descend(self, loss: Tensor) -> float:
        """Take one gradient step on a loss; return the gradient norm of the parameters with the usual rate."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return self.step()

    def step(self) -> float:
        """Take one step along the gradients stored in the parameters; return the norm, as :meth:`descend` does."""
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
        # Layers may share weights, but a tensor file cannot, so each entry is a copy.
        return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in found.items()}

    def state(self) -> dict[str, Any]:
        """Return all other state needed to resume, as plain values."""
        return {"rng": self.rng.bit_generator.state, "moments": vars(self.moments).copy()}

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Restore what :meth:`tensors` and :meth:`state` returned."""
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
    """Return the value of a linear schedule, given both ends and the fraction that is done, 0 to 1."""
    return first + (last - first) * min(max(progress, 0.0), 1.0)
