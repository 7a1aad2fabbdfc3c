"""What a network must offer to be trained, the plain one, and what networks are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.learning.distributions import Distribution, MaskedCategorical
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.agents.learning.experience import Experience

__all__ = [
    "MLPPolicy",
    "ObservationNormalizer",
    "Observations",
    "Policy",
    "action_for",
    "drawn",
    "initialized",
    "mlp",
    "one_thread",
    "to_tensors",
]

Observations = dict[str, Tensor]
"""Parts of a batch of observations by name."""

Module = TypeVar("Module", bound=nn.Module)


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
        """Take in what was seen in some experience, after it was learned from; those that normalize override this."""

    def rates(self) -> dict[str, float]:
        """Return how many times faster than the others some parameters learn, by the beginning of their names."""
        return {}

    def targets(self, experience: Experience) -> dict[str, NDArray[np.float32]]:
        """Return what is to be learned beside actions and values, arrays of shape (T, N, ...) by name.

        They stand among the observations when :meth:`auxiliary_loss` is asked for.

        Parameters
        ----------
        experience : Experience
            What was collected.
        """
        return {}

    def auxiliary_loss(self, observations: Observations) -> Tensor | None:
        """Return the loss of what is learned beside actions and values, of a batch with targets; None if nothing is."""
        return None


def to_tensors(arrays: dict[str, NDArray[np.generic]], device: str = "cpu") -> Observations:
    """Return arrays as tensors, double precision in single, which share the arrays' memory where they can.

    Parameters
    ----------
    arrays : dict of str to numpy.ndarray
        A batch of observations.
    device : str
        Where to.
    """
    single = {name: array.astype(np.float32) if array.dtype == np.float64 else array for name, array in arrays.items()}
    return {name: torch.from_numpy(array).to(device) for name, array in single.items()}


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


def action_for(policy: Policy, observation: dict[str, NDArray[np.generic]]) -> Tensor:
    """Return what a policy does most likely about a single encoded observation, as a batch of one action."""
    with torch.inference_mode(), one_thread():
        distribution, _ = policy(to_tensors({name: array[None] for name, array in observation.items()}))
        action: Tensor = distribution.mode()
    return action


def mlp(sizes: Sequence[int], activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """Return a fully connected network without an activation at its end, with weights as torch draws them.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of inputs, of the units of each hidden layer, and of outputs.
    activation : type
        Between layers.
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
    """
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    for layer in layers:
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        gain = last if layer is layers[-1] else math.sqrt(2)
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        nn.init.zeros_(layer.bias)
    return network


def drawn(module: Module, rng: np.random.Generator) -> Module:
    """Give a module of the library weights as Glorot and Bengio propose, no biases; return it.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS
    2010. The weights of normalization layers stay as they are.

    Parameters
    ----------
    module : torch.nn.Module
        Changed in place.
    rng : numpy.random.Generator
        For the weights.
    """
    for name, parameter in module.named_parameters():
        if parameter.dim() >= 2:
            bound = math.sqrt(6.0 / (parameter.shape[0] + parameter.shape[1]))
            numbers = rng.uniform(-bound, bound, tuple(parameter.shape)).astype(np.float32)
            parameter.data = torch.from_numpy(numbers)
        elif "bias" in name:
            nn.init.zeros_(parameter)
    return module


class ObservationNormalizer(nn.Module):
    """Scales each input by its running mean and deviation; part of a network, and of its weights.

    It learns only when told so, by :meth:`update`, so that policies act alike in all processes.

    Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37(3),
    1983: how the moments of two samples are joined.

    Parameters
    ----------
    size : int
        Number of inputs.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor

    LIMIT = 10.0
    """Scaled inputs are cut at plus and minus this."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(size, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the scaled inputs, shape (B, size); as they are before anything was seen."""
        if not self.count:
            return inputs
        deviation = (self.squares / self.count).sqrt().clamp(min=1e-6)
        scaled = (inputs - self.mean) / deviation
        return scaled.clamp(-self.LIMIT, self.LIMIT).to(inputs.dtype)

    @torch.no_grad()
    def update(self, inputs: Tensor) -> None:
        """Take in a batch of inputs, shape (B, size)."""
        inputs = inputs.double()
        count = float(len(inputs))
        mean = inputs.mean(0)
        total = self.count + count
        difference = mean - self.mean
        self.squares += ((inputs - mean) ** 2).sum(0) + difference**2 * self.count * count / total
        self.mean += difference * count / total
        self.count.fill_(total)


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
