"""What the algorithms share: discounts, an optimizer, a scale of values, and a state to go on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.learning.baselines import group_means
from desim.agents.learning.gae import Discounting, advantages
from desim.agents.learning.normalizers import RunningMoments
from desim.agents.learning.policy import Policy, to_tensors
from desim.agents.learning.rollout import Rollout
from desim.exceptions import InvalidConfiguration

__all__ = ["Discounting", "Learner", "Samples", "between", "explained"]


@dataclass
class Samples:
    """The valid steps of a rollout in a row, as tensors on the policy's device.

    Attributes
    ----------
    observations : dict of str to Tensor, shape (S, ...)
        What was seen.
    actions : Tensor, shape (S, ...)
        What was done.
    log_probs, advantages, targets : Tensor, shape (S,)
        Log-probabilities when acting, advantages, and targets of the critic on its own scale.
    """

    observations: dict[str, Tensor]
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    targets: Tensor

    def part(self, places: Tensor) -> Samples:
        """Return some of the samples, by their places."""
        return Samples(
            {name: tensor[places] for name, tensor in self.observations.items()},
            self.actions[places],
            self.log_probs[places],
            self.advantages[places],
            self.targets[places],
        )


class ParameterGroup(NamedTuple):
    """Parameters that learn at the same rate: how many times the usual one, their names, and themselves."""

    scale: float
    names: list[str]
    parameters: list[nn.Parameter]


def parameter_groups(policy: Policy) -> list[ParameterGroup]:
    """Return the parameters of a policy by how fast they learn, those at the usual rate first."""
    rates = policy.rates()
    if not all(rate > 0 for rate in rates.values()):
        raise InvalidConfiguration(f"some parameters would learn {rates!r} times as fast, want numbers above 0")
    groups = {"": ParameterGroup(1.0, [], [])}
    groups |= {prefix: ParameterGroup(rate, [], []) for prefix, rate in rates.items()}
    for name, parameter in policy.named_parameters():
        group = groups[next((prefix for prefix in rates if name.startswith(prefix)), "")]
        group.names.append(name)
        group.parameters.append(parameter)
    return [group for group in groups.values() if group.names]


class Learner:
    """Base class of the algorithms.

    Parameters
    ----------
    policy : Policy
        Is trained in place.
    discounting : Discounting
        How much the future counts.
    learning_rate : float
        Of Adam, at the beginning.
    rng : numpy.random.Generator
        For the order of samples.
    normalize_values : bool
        Let the critic learn values on a scale of mean 0 and deviation 1.
    max_grad_norm : float
        Longer gradients are cut to this.
    group_size : int
        If above 1, the mean of the advantages of so many neighbouring environments, which face the same episodes, at
        the same simulated time is taken off; rollouts are then whole episodes.
    """

    def __init__(
        self,
        policy: Policy,
        discounting: Discounting,
        learning_rate: float,
        rng: np.random.Generator,
        *,
        normalize_values: bool = True,
        max_grad_norm: float = 0.5,
        group_size: int = 1,
    ) -> None:
        if not learning_rate > 0:
            raise InvalidConfiguration(f"the learning rate is {learning_rate!r}, want a number above 0")
        self.policy = policy
        self.discounting = discounting
        self.learning_rate = learning_rate
        self.rng = rng
        self.normalize_values = normalize_values
        self.max_grad_norm = max_grad_norm
        self.group_size = group_size
        self._groups = parameter_groups(policy)
        self._names = [name for group in self._groups for name in group.names]
        groups = [{"params": group.parameters, "lr": group.scale * learning_rate} for group in self._groups]
        self.optimizer = torch.optim.Adam(groups, lr=learning_rate, eps=1e-5)
        self.moments = RunningMoments()

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Learn from a rollout.

        Parameters
        ----------
        rollout : Rollout
            Of the policy as it is now.
        progress : float
            Part of the training that is over, 0 to 1, for schedules.

        Returns
        -------
        dict of str to float
            Figures for the log.
        """
        raise NotImplementedError

    def estimate(self, rollout: Rollout) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the advantages of all steps and the targets of the critic, in units of reward, shape (T, N) each."""
        discounts, decays = self.discounting.weights(rollout.elapsed)
        values: NDArray[Any] = self.moments.restored(rollout.values) if self.normalize_values else rollout.values
        last: NDArray[Any] = rollout.last_values
        final: NDArray[Any] = rollout.final_values
        if self.normalize_values:
            last = self.moments.restored(last)
            final = np.where(final != 0, self.moments.restored(final), 0.0)
        found = advantages(
            rollout.rewards,
            values,
            ends=rollout.ends,
            final_values=final,
            last_values=last,
            discounts=discounts,
            decays=decays,
        )
        targets = found + values
        if self.group_size > 1:
            found = found - group_means(found, rollout, self.group_size)
        return found, targets

    def samples(self, rollout: Rollout, found: NDArray[np.float64], targets: NDArray[np.float64]) -> Samples:
        """Return the valid steps of a rollout as tensors; the scale of the values takes the targets in.

        Parameters
        ----------
        rollout : Rollout
            T steps of N environments.
        found, targets : array of float, shape (T, N)
            Advantages, and targets of the critic.

        Returns
        -------
        Samples
            S of them, by step and environment.
        """
        device = next(self.policy.parameters()).device.type
        valid = rollout.valid
        chosen: NDArray[Any] = targets[valid]
        if self.normalize_values:
            self.moments.update(chosen)
            chosen = self.moments.normalized(chosen)
        tensors = to_tensors(
            {
                "actions": rollout.actions[valid],
                "log_probs": rollout.log_probs[valid],
                "advantages": found[valid].astype(np.float32),
                "targets": chosen.astype(np.float32),
            },
            device,
        )
        shown = rollout.observations | self.policy.targets(rollout)
        observations = to_tensors({name: array[valid] for name, array in shown.items()}, device)
        return Samples(observations, **tensors)

    def descend(self, loss: Tensor) -> float:
        """Take one step down a loss; return the length of the gradient of what learns at the usual rate."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norms = [torch.nn.utils.clip_grad_norm_(group.parameters, self.max_grad_norm) for group in self._groups]
        self.optimizer.step()
        return float(norms[0])

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""
        for group, known in zip(self.optimizer.param_groups, self._groups, strict=True):
            group["lr"] = rate * known.scale

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and the state of the optimizer, by name."""
        found = {f"policy.{name}": tensor for name, tensor in self.policy.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.{self._names[number]}.{key}": tensor for key, tensor in state.items()}
        # Copies, since layers may share their weights, which a tensor file cannot.
        return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in found.items()}

    def state(self) -> dict[str, Any]:
        """Return all else that it needs to go on, as plain values."""
        return {"rng": self.rng.bit_generator.state, "moments": self.moments.state()}

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Take over what :meth:`tensors` and :meth:`state` returned.

        Parameters
        ----------
        tensors : dict of str to Tensor
            Weights and state of the optimizer.
        state : dict
            The rest.
        """
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
        self.moments.restore(state["moments"])


def between(first: float, last: float, progress: float) -> float:
    """Return the value of a linear schedule.

    Parameters
    ----------
    first, last : float
        At the beginning and at the end.
    progress : float
        Part that is over, 0 to 1.

    Returns
    -------
    float
        Between both.
    """
    return first + (last - first) * min(max(progress, 0.0), 1.0)


def explained(samples: Samples, rollout: Rollout) -> dict[str, float]:
    """Return which part of the variance of the targets the critic had foreseen, as ``explained_variance``.

    Parameters
    ----------
    samples : Samples
        Of the rollout.
    rollout : Rollout
        With the values as they were when acting.

    Returns
    -------
    dict of str to float
        NaN where all targets are equal.
    """
    targets = samples.targets.cpu().numpy()
    variance = float(targets.var())
    if variance == 0:
        return {"explained_variance": float("nan")}
    errors = targets - rollout.values[rollout.valid]
    return {"explained_variance": 1.0 - float(errors.var()) / variance}
