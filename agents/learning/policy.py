"""Base class of policy networks, distributions over actions, and building blocks of networks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax

from desim.checks import check_int
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.agents.learning.experience import Experience

__all__ = [
    "Distribution",
    "Gaussian",
    "MLPPolicy",
    "MaskedCategorical",
    "NumpyMLP",
    "ObservationNormalizer",
    "Observations",
    "Policy",
    "action_for",
    "array_of",
    "computes_as",
    "device_of",
    "drawn",
    "initialized",
    "mlp",
    "one_thread",
    "to_tensors",
    "versions_of",
]

Observations = dict[str, Tensor]
"""Batch of observations: a tensor per part, by name."""

Floats = NDArray[np.float32]

Module = TypeVar("Module", bound=nn.Module)


class Distribution(Protocol):
    """A batch of B distributions over actions."""

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Sample one action per distribution, shape (B, ...)."""

    def mode(self) -> Tensor:
        """Return the most likely action per distribution, shape (B, ...)."""

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-probability, or log-density, of one action per distribution, shape (B,)."""

    def entropy(self) -> Tensor:
        """Return the entropy of each distribution in nats, shape (B,)."""


class MaskedCategorical:
    """Batch of categorical distributions over K actions, some of which are impossible.

    Parameters
    ----------
    logits : Tensor, shape (B, K)
        Unnormalized log-probabilities.
    mask : Tensor, shape (B, K), optional
        Mask of the possible actions, at least one per row. Default: all are possible.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.mask = None if mask is None else mask.bool()
        if self.mask is not None:
            logits = logits.masked_fill(~self.mask, -math.inf)
        self.log_probabilities = log_softmax(logits, dim=-1)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Sample one action per distribution, shape (B,), by the Gumbel-max method."""
        noise = torch.from_numpy(rng.gumbel(size=tuple(self.log_probabilities.shape)).astype(np.float32))
        return (self.log_probabilities + noise.to(self.log_probabilities)).argmax(-1)

    def mode(self) -> Tensor:
        """Return the most likely action per distribution, shape (B,); ties go to the lowest index."""
        return self.log_probabilities.argmax(-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-probability of one action per distribution, shape (B,)."""
        return self.log_probabilities.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of each distribution in nats, shape (B,)."""
        logs = self.log_probabilities
        if self.mask is not None:  # 0 log 0 and its gradient count as 0
            logs = logs.masked_fill(~self.mask, 0.0)
            return -(logs.exp() * logs).masked_fill(~self.mask, 0.0).sum(-1)
        return -(logs.exp() * logs).sum(-1)


class Gaussian:
    """Batch of independent normal distributions of D numbers, some of which are masked out.

    Parameters
    ----------
    mean : Tensor, shape (B, D)
        Means.
    deviation : Tensor, shape (B, D)
        Standard deviations, > 0.
    mask : Tensor, shape (B, D), optional
        Mask of the numbers in use. Others are 0 in samples and add nothing to log-probabilities. Default: all in use.
    """

    def __init__(self, mean: Tensor, deviation: Tensor, mask: Tensor | None = None) -> None:
        self.mask = torch.ones_like(mean) if mask is None else mask.to(mean)
        self.mean = mean
        self.deviation = deviation

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Sample from each distribution, shape (B, D)."""
        noise = torch.from_numpy(rng.standard_normal(tuple(self.mean.shape)).astype(np.float32))
        return (self.mean + self.deviation * noise.to(self.mean)) * self.mask

    def mode(self) -> Tensor:
        """Return the means, shape (B, D)."""
        return self.mean * self.mask

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-density of one vector per distribution, shape (B,)."""
        scaled = (actions - self.mean) / self.deviation
        logs = -0.5 * scaled * scaled - self.deviation.log() - 0.5 * math.log(2 * math.pi)
        return (logs * self.mask).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of each distribution in nats, shape (B,)."""
        return ((self.deviation.log() + 0.5 * math.log(2 * math.pi * math.e)) * self.mask).sum(-1)


class Policy(nn.Module):
    """Base class of all actor-critic networks.

    Attributes
    ----------
    parts_add_up : bool
        Whether a minibatch may be split between threads: its loss is the mean of the losses of its parts.
    apart : bool
        Whether actor and critic are separate networks, computed by ``distribution`` and ``values``. Such a policy
        computes no values while it acts, and no actions where they have no effect. Both are filled in afterwards for
        many decisions at once, which is faster with large networks.
    """

    parts_add_up = True
    apart = False

    def __init__(self) -> None:
        super().__init__()

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the action distribution and the value of each observation.

        Parameters
        ----------
        observations : dict of str to Tensor
            Batch of B encoded observations, every tensor of shape (B, ...).

        Returns
        -------
        Distribution and Tensor of shape (B,)
            Distribution over the actions, and the value of each observation.
        """
        raise NotImplementedError

    def distribution(self, observations: Observations) -> Distribution:
        """Return the action distribution alone; see :meth:`forward`."""
        return self.forward(observations)[0]

    def values(self, observations: Observations) -> Tensor:
        """Return the values alone, shape (B,); see :meth:`forward`."""
        return self.forward(observations)[1]

    def observe(self, observations: Observations) -> None:
        """Update observation statistics after an update; policies that normalize their inputs override this."""

    def rates(self) -> dict[str, float]:
        """Return multiples of the learning rate for some parameters, by the prefix of their names."""
        return {}

    def targets(self, experience: Experience) -> dict[str, NDArray[np.float32]]:
        """Return the targets of the auxiliary task, arrays of shape (T, N, ...) by name.

        They are added to the observations that :meth:`auxiliary_loss` receives.

        Parameters
        ----------
        experience : Experience
            Collected experience.
        """
        return {}

    def auxiliary_loss(self, observations: Observations) -> Tensor | None:
        """Return the auxiliary loss of a batch of observations with targets; None if there is no auxiliary task."""
        return None


def device_of(name: str) -> torch.device:
    """Return a device by its name.

    Parameters
    ----------
    name : str
        Name of the device: ``"cpu"``, ``"cuda"`` or for example ``"cuda:1"``.

    Raises
    ------
    InvalidConfiguration
        If this machine has no such device.
    """
    if re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise InvalidConfiguration(f"device: got {name!r}, expected cpu, cuda, or one of several GPUs, such as cuda:1")
    if name != "cpu":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(name.partition(":")[2] or 0) >= there:
            raise InvalidConfiguration(f"device: got {name!r}, but PyTorch {torch.__version__} finds {there} GPUs")
    return torch.device(name)


def to_tensors(arrays: dict[str, NDArray[np.generic]], device: str | torch.device = "cpu") -> Observations:
    """Return arrays as tensors that share their memory if possible; double precision becomes single.

    Parameters
    ----------
    arrays : dict of str to numpy.ndarray
        Batch of observations.
    device : str or torch.device
        Device of the tensors.
    """
    single = {name: array.astype(np.float32) if array.dtype == np.float64 else array for name, array in arrays.items()}
    return {name: torch.from_numpy(array).to(device) for name, array in single.items()}


def versions_of(parameters: Sequence[nn.Parameter]) -> tuple[int, ...]:
    """Return version numbers of weights, which differ after any change in place.

    Torch does not count changes of weights that were made in inference mode; their numbers differ at every call.

    Parameters
    ----------
    parameters : sequence of torch.nn.Parameter
        Weights.

    Returns
    -------
    tuple of int
        Version numbers, to be compared with earlier ones.
    """
    if any(parameter.is_inference() for parameter in parameters):
        return (next(_NEW),)
    return tuple(parameter._version for parameter in parameters)


_NEW = count(-1, -1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread inside the context, and restore the number of threads afterwards.

    Batches are small when a policy acts. Threads that share them wait for one another most of the time, and very long
    on a busy machine.
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
    """Return a policy's action for a single encoded observation, as a batch of one.

    Parameters
    ----------
    policy : Policy
        Network.
    observation : dict of str to numpy.ndarray
        Encoded observation.
    rng : numpy.random.Generator, optional
        Generator to sample the action with. Default: the most likely action.
    """
    with torch.inference_mode(), one_thread():
        distribution, _ = policy(to_tensors({name: array[None] for name, array in observation.items()}))
        action: Tensor = distribution.mode() if rng is None else distribution.sample(rng)
    return action


#: Largest number of units of a hidden layer.
MOST_UNITS = 2**16


class FullyConnected(nn.Sequential):
    """Sequence of layers that skips the module call of linear layers, a noticeable overhead with small batches."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs."""
        for layer in self._modules.values():
            if type(layer) is nn.Linear:
                x = linear(x, layer.weight, layer.bias)
            elif type(layer) is nn.Tanh:
                x = torch.tanh(x)
            else:
                x = layer(x)
        return x


def mlp(sizes: Sequence[int], activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """Return a fully connected network with a linear output and torch's default initial weights.

    Parameters
    ----------
    sizes : sequence of int
        Number of inputs, of units of each hidden layer, and of outputs.
    activation : type
        Activation between layers.
    """
    for size in sizes[1:-1]:
        check_int("hidden", size, least=1, most=MOST_UNITS)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return FullyConnected(*layers[:-1])


def initialized(network: nn.Sequential, rng: np.random.Generator, last: float = 1.0) -> nn.Sequential:
    """Initialize a fully connected network with orthogonal weights and zero biases; return it.

    Source: Huang et al., "The 37 implementation details of proximal policy optimization", ICLR blog track 2022.

    Parameters
    ----------
    network : torch.nn.Sequential
        Network, changed in place.
    rng : numpy.random.Generator
        Generator for the weights.
    last : float
        Scale of the last layer's weights. A small scale makes a policy start almost uniform.
    """
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    for layer in layers:
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        gain = last if layer is layers[-1] else math.sqrt(2)
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        nn.init.zeros_(layer.bias)
    return network


def drawn(module: Module, rng: np.random.Generator) -> Module:
    """Initialize a torch module with Glorot-uniform weights and zero biases; return it.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS
    2010. The weights of normalization layers stay unchanged.

    Parameters
    ----------
    module : torch.nn.Module
        Module, changed in place.
    rng : numpy.random.Generator
        Generator for the weights.
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
    """Layer that normalizes each input by its running mean and standard deviation, stored with the weights.

    Only :meth:`update` changes these moments, so policies act alike in all processes.

    Source of the rule that merges the moments of two samples: Chan, Golub and LeVeque, "Algorithms for computing the
    sample variance", The American Statistician 37(3), 1983.

    Parameters
    ----------
    size : int
        Number of inputs.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor

    LIMIT = 10.0
    """Largest absolute value of a normalized input; larger ones are clipped."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(size, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the normalized inputs, shape (B, size); unchanged before the first update."""
        if not self.count:
            return inputs
        deviation = (self.squares / self.count).sqrt().clamp(min=1e-6)
        scaled = (inputs - self.mean) / deviation
        return scaled.clamp(-self.LIMIT, self.LIMIT).to(inputs.dtype)

    @torch.no_grad()
    def update(self, inputs: Tensor) -> None:
        """Update the moments with a batch of inputs, shape (B, size)."""
        inputs = inputs.double()
        count = float(len(inputs))
        mean = inputs.mean(0)
        total = self.count + count
        difference = mean - self.mean
        self.squares += ((inputs - mean) ** 2).sum(0) + difference**2 * self.count * count / total
        self.mean += difference * count / total
        self.count.fill_(total)


class MLPPolicy(Policy):
    """Policy of two fully connected networks, actor and critic, over the concatenated inputs.

    Parameters
    ----------
    inputs : dict of str to int
        Number of values of each part of the observation that is used, by name.
    num_actions : int
        Number of actions, K.
    rng : numpy.random.Generator
        Generator for the weights.
    hidden : sequence of int
        Numbers of units of the hidden layers, for actor and critic alike.
    mask : str or None
        Name of the part of the observation that holds the mask of possible actions; None for no mask.
    activation : {"tanh", "relu"}
        Activation between layers.
    apart : bool
        Whether values are computed only after acting; see :class:`Policy`.

    Raises
    ------
    InvalidConfiguration
        If the activation is unknown.
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
        apart: bool = False,
    ) -> None:
        super().__init__()
        self.apart = apart
        kinds: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
        if activation not in kinds:
            raise InvalidConfiguration(f"activation: got {activation!r}, expected one of {', '.join(kinds)}")
        self.inputs = tuple(inputs)
        self.mask = mask
        width = sum(inputs.values())
        self.actor = initialized(mlp([width, *hidden, num_actions], kinds[activation]), rng, 0.01)
        self.critic = initialized(mlp([width, *hidden, 1], kinds[activation]), rng)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution over K actions, and the values, shape (B,)."""
        return self.distribution(observations), self.values(observations)

    def distribution(self, observations: Observations) -> MaskedCategorical:
        """Return the distribution over K actions."""
        mask = None if self.mask is None else observations[self.mask]
        return MaskedCategorical(self.actor(self._in_a_row(observations)), mask)

    def values(self, observations: Observations) -> Tensor:
        """Return the values, shape (B,)."""
        return cast(Tensor, self.critic(self._in_a_row(observations))).squeeze(-1)

    def _in_a_row(self, observations: Observations) -> Tensor:
        return torch.cat([observations[name].flatten(1).float() for name in self.inputs], dim=1)


class NumpyMLP:
    """NumPy copy of a fully connected network with its present weights, for single decisions.

    With inputs of a few rows, torch spends more time on overhead than on arithmetic.

    Parameters
    ----------
    network : torch.nn.Sequential
        Linear layers with the same activation between them, and none at the end.

    Attributes
    ----------
    layers : list of pairs of arrays
        Transposed weights, shape (inputs, outputs), and biases of each layer.
    activation : callable
        Activation between layers.

    Raises
    ------
    InvalidConfiguration
        If the activation is none of tanh, ReLU and leaky ReLU.
    """

    @staticmethod
    def can_copy(network: nn.Module) -> bool:
        """Return whether a network can be copied: it computes nothing but linear layers and one activation."""
        if not any(computes_as(network, kind) for kind in (FullyConnected, nn.Sequential)):
            return False
        linear, units = list(network)[0::2], list(network)[1::2]  # type: ignore[call-overload]
        return (
            len(linear) == len(units) + 1
            and all(computes_as(layer, nn.Linear) and layer.bias is not None for layer in linear)
            and any(all(computes_as(unit, kind) for unit in units) for kind in (nn.Tanh, nn.ReLU, nn.LeakyReLU))
            and len({getattr(unit, "negative_slope", 0.0) for unit in units}) < 2
        )

    def __init__(self, network: nn.Sequential) -> None:
        linear = [module for module in network if isinstance(module, nn.Linear)]
        units = [module for module in network if not isinstance(module, nn.Linear)]
        self.layers: list[tuple[Floats, Floats]] = [
            (array_of(layer.weight).T.copy(), array_of(layer.bias)) for layer in linear
        ]
        self.activation = _activation(units[0]) if units else np.asarray

    def __call__(self, x: Floats) -> Floats:
        """Return the outputs, shape (..., outputs)."""
        return self.after_first(x @ self.layers[0][0] + self.layers[0][1])

    def after_first(self, x: Floats) -> Floats:
        """Return the outputs, given those of the first linear layer.

        Parameters
        ----------
        x : array of float, shape (..., units)
            Outputs of the first linear layer before its activation.
        """
        for weight, bias in self.layers[1:]:
            x = self.activation(x) @ weight
            x += bias
        return x


def computes_as(module: nn.Module, kind: type[nn.Module], *methods: str) -> bool:
    """Return whether a module computes exactly what its class does, so that a copy may replace it.

    Parameters
    ----------
    module : torch.nn.Module
        Module to check; a subclass may override methods.
    kind : type
        Class whose computation is expected.
    *methods : str
        Names of methods besides ``forward`` that take part in the computation.

    Returns
    -------
    bool
        True if none of these methods is overridden and there are no hooks.
    """
    return (
        isinstance(module, kind)
        and not (module._forward_hooks or module._forward_pre_hooks)
        and not {"forward", *methods} & vars(module).keys()
        and all(getattr(type(module), name) is getattr(kind, name) for name in ("__call__", "forward", *methods))
    )


def array_of(tensor: Any) -> Floats:
    """Return a tensor as an array in single precision."""
    array: Floats = tensor.detach().cpu().numpy().astype(np.float32)
    return array


def _activation(unit: nn.Module) -> Callable[[Floats], Floats]:
    """Return the NumPy function of an activation module."""
    if isinstance(unit, nn.Tanh):
        return np.tanh
    if isinstance(unit, nn.LeakyReLU):
        slope = np.float32(unit.negative_slope)
        return lambda x: np.maximum(x, slope * x)
    if isinstance(unit, nn.ReLU):
        return lambda x: np.maximum(x, np.float32(0.0))
    raise InvalidConfiguration(f"activation for NumPy: got {type(unit).__name__}, expected Tanh, ReLU or LeakyReLU")
