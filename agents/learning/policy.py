"""What a network must offer to be trained, and the plain one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.learning.distributions import Distribution, MaskedCategorical
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.agents.learning.rollout import Rollout

__all__ = ["MLPPolicy", "Policy", "action_for", "initialized", "mlp", "one_thread", "to_tensors"]

Observations = dict[str, Tensor]


class Policy(nn.Module):
    """Base class of all actor-critic networks."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return what to do and what to expect.

        Parameters
        ----------
        observations : dict of str to Tensor
            A batch of B encoded observations, every tensor of shape (B, ...).

        Returns
        -------
        Distribution and Tensor of shape (B,)
            Over the actions, and the value of each observation.
        """
        raise NotImplementedError

    def observe(self, observations: Observations) -> None:
        """Take in what was seen in a rollout, after it was learned from; normalizers override this."""

    def rates(self) -> dict[str, float]:
        """Return how many times faster than the others some parameters learn, by the beginning of their names."""
        return {}

    def targets(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """Return what is to be learned beside actions and values, arrays of shape (T, N, ...) by name.

        They stand among the observations when :meth:`auxiliary_loss` is asked for.

        Parameters
        ----------
        rollout : Rollout
            T steps of N environments.
        """
        return {}

    def auxiliary_loss(self, observations: Observations) -> Tensor | None:
        """Return the loss of what is learned beside actions and values; None if nothing is.

        Parameters
        ----------
        observations : dict of str to Tensor
            A batch, with the targets.
        """
        return None


def to_tensors(arrays: dict[str, NDArray[np.generic]], device: str = "cpu") -> Observations:
    """Return arrays as tensors that share their memory where they can.

    Parameters
    ----------
    arrays : dict of str to numpy.ndarray
        A batch of observations.
    device : str
        Where to.

    Returns
    -------
    dict of str to Tensor
        Of the same names and shapes.
    """
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread meanwhile.

    Batches are small when a policy acts. Threads that share them wait for one another most of the time, and on a busy
    machine for very long. Afterwards there are as many as before.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def action_for(
    policy: Policy, observation: dict[str, NDArray[np.generic]], rng: np.random.Generator | None = None
) -> Tensor:
    """Return what a policy does about a single observation.

    Parameters
    ----------
    policy : Policy
        Who acts.
    observation : dict of str to numpy.ndarray
        Encoded, without an axis for a batch.
    rng : numpy.random.Generator, optional
        Draw the action; by default, the most likely one is taken.

    Returns
    -------
    Tensor of shape (1, ...)
        A batch of one action.
    """
    with torch.inference_mode(), one_thread():
        distribution, _ = policy(to_tensors({name: array[None] for name, array in observation.items()}))
        action: Tensor = distribution.mode() if rng is None else distribution.sample(rng)
    return action


def mlp(sizes: Sequence[int], activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """Return a fully connected network without an activation at its end.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of inputs, of the units of each hidden layer, and of outputs.
    activation : type
        Between layers.

    Returns
    -------
    torch.nn.Sequential
        With weights as torch draws them; see :func:`initialized`.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def initialized(network: nn.Sequential, rng: np.random.Generator, last: float = 1.0) -> nn.Sequential:
    """Give a fully connected network orthogonal weights and no biases; return it.

    Source: Huang et al., "The 37 implementation details of proximal policy optimization", ICLR blog track 2022.

    Parameters
    ----------
    network : torch.nn.Sequential
        Changed in place.
    rng : numpy.random.Generator
        For the weights.
    last : float
        Scale of the last layer's weights, small for a policy, so that it begins near to uniform.

    Returns
    -------
    torch.nn.Sequential
        The same network.
    """
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    for layer in layers:
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        gain = last if layer is layers[-1] else math.sqrt(2)
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        nn.init.zeros_(layer.bias)
    return network


class MLPPolicy(Policy):
    """Two fully connected networks, actor and critic, over all inputs in a row.

    Parameters
    ----------
    inputs : dict of str to int
        The observations that are used, and how many numbers each holds.
    num_actions : int
        Number of actions, K.
    rng : numpy.random.Generator
        For the weights.
    hidden : sequence of int
        Units of the hidden layers, of actor and critic each.
    mask : str or None
        Name of the observation that holds the mask of possible actions; None does without.
    activation : {"tanh", "relu"}
        Between layers.

    Raises
    ------
    InvalidConfiguration
        If there is no such activation.
    """

    def __init__(
        self,
        inputs: dict[str, int],
        num_actions: int,
        rng: np.random.Generator,
        *,
        hidden: Sequence[int] = (64, 64),
        mask: str | None = None,
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        kinds: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
        if activation not in kinds:
            raise InvalidConfiguration(f"no activation {activation!r}; there are {', '.join(kinds)}")
        self.inputs = tuple(inputs)
        self.mask = mask
        width = sum(inputs.values())
        self.actor = initialized(mlp([width, *hidden, num_actions], kinds[activation]), rng, 0.01)
        self.critic = initialized(mlp([width, *hidden, 1], kinds[activation]), rng)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution over K actions, and the values, shape (B,)."""
        x = torch.cat([observations[name].flatten(1).float() for name in self.inputs], dim=1)
        mask = None if self.mask is None else observations[self.mask]
        return MaskedCategorical(self.actor(x), mask), cast(Tensor, self.critic(x)).squeeze(-1)
