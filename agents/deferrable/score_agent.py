"""OSDEC and its variants as agents: a network scores the jobs whose start window is open.

For single decisions the network is computed in NumPy, because with a few jobs torch spends more time on overhead than
on arithmetic. Pointer networks and networks with a custom computation stay in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import relu

from desim.agents.deferrable.forecasts import Forecast
from desim.agents.deferrable.list_plan import PlannedWaits
from desim.agents.deferrable.orders import first_fitting
from desim.agents.deferrable.score_policy import (
    AttentionPolicy,
    Auxiliary,
    AuxiliaryTasks,
    FixedLengthPolicy,
    Network,
    PointerPolicy,
    ScorePolicy,
)
from desim.agents.learning.custom import check_known, custom_network
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.agents.learning.policy import NumpyMLP, action_for, array_of, computes_as
from desim.envs.base import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation, EarliestFitPlan
from desim.problems.deferrable.encoder import DecodingRule, ScoreEncoder
from desim.problems.deferrable.observation import HORIZON, free_ahead

__all__ = [
    "Context",
    "EncoderLayer",
    "InTorch",
    "Linear",
    "Recurrent",
    "ScoreAgent",
    "ScoreConfig",
    "Scores",
    "are_linear",
    "scores_of",
]

Floats = NDArray[np.float32]

Arrays = dict[str, NDArray[Any]]

Scores = Callable[[Arrays], Floats]

"""Function that returns the most likely scores of all rows of one encoded observation."""


def scores_of(policy: ScorePolicy) -> Scores:
    """Return a function that computes a network's scores with its present weights.

    Parameters
    ----------
    policy : ScorePolicy
        Network. It is copied to NumPy if it computes exactly what its class does, otherwise run in torch.
    """
    if isinstance(policy, AttentionPolicy) and _Attention.can_copy(policy):
        return _Attention(policy)
    if isinstance(policy, FixedLengthPolicy) and _FixedLength.can_copy(policy):
        return _FixedLength(policy)
    return InTorch(policy)


def are_linear(*layers: nn.Module) -> bool:
    """Return whether all layers are plain linear layers with a bias, so that :class:`Linear` may replace them."""
    return all(computes_as(layer, nn.Linear) and layer.bias is not None for layer in layers)


class Linear:
    """Linear layer in NumPy.

    Parameters
    ----------
    weight, bias : torch.Tensor
        Weight and bias of the torch layer.
    """

    def __init__(self, weight: Any, bias: Any) -> None:
        self.weight, self.bias = array_of(weight).T.copy(), array_of(bias)

    @classmethod
    def of(cls, layer: nn.Linear) -> Linear:
        """Return the NumPy copy of a torch layer."""
        return cls(layer.weight, layer.bias)

    def __call__(self, x: Floats) -> Floats:
        """Return the outputs for rows of inputs."""
        result: Floats = x @ self.weight
        result += self.bias
        return result


class _Norm:
    def __init__(self, layer: nn.LayerNorm) -> None:
        self.weight, self.bias, self.epsilon = array_of(layer.weight), array_of(layer.bias), np.float32(layer.eps)

    def __call__(self, x: Floats) -> Floats:
        x = x - x.sum(axis=1, keepdims=True) / np.float32(x.shape[1])
        variance = (x * x).sum(axis=1, keepdims=True) / np.float32(x.shape[1])
        result: Floats = x / np.sqrt(variance + self.epsilon) * self.weight + self.bias
        return result


class EncoderLayer:
    """Transformer encoder layer in NumPy: self-attention and feed-forward, each with residual and normalization.

    Parameters
    ----------
    layer : torch.nn.TransformerEncoderLayer
        Layer to copy.
    """

    @staticmethod
    def can_copy(layer: Any) -> bool:
        """Return whether a layer computes exactly what its class does, so that this copy may replace it."""
        return (
            computes_as(layer, nn.TransformerEncoderLayer, "_sa_block", "_ff_block")
            and layer.activation is relu
            and not layer.norm_first
            and computes_as(layer.self_attn, nn.MultiheadAttention)
            and layer.self_attn.bias_k is None
            and not layer.self_attn.add_zero_attn
            and are_linear(layer.linear1, layer.linear2, layer.self_attn.out_proj)
            and all(computes_as(norm, nn.LayerNorm) for norm in (layer.norm1, layer.norm2))
        )

    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        self.heads = attention.num_heads
        self.inward = Linear(attention.in_proj_weight, attention.in_proj_bias)
        self.outward = Linear.of(attention.out_proj)
        self.first, self.second = Linear.of(layer.linear1), Linear.of(layer.linear2)
        self.norms = _Norm(layer.norm1), _Norm(layer.norm2)

    def __call__(self, x: Floats) -> Floats:
        """Return the encoded tokens."""
        x = self.norms[0](x + self._attended(x))
        return self.norms[1](x + self.second(np.maximum(self.first(x), np.float32(0.0))))

    def _attended(self, x: Floats) -> Floats:
        length, width = x.shape
        size = width // self.heads
        parts = self.inward(x).reshape(length, 3, self.heads, size).transpose(1, 2, 0, 3)
        weights = parts[0] @ parts[1].transpose(0, 2, 1) / np.float32(np.sqrt(size))
        weights = np.exp(weights - weights.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        return self.outward((weights @ parts[2]).transpose(1, 0, 2).reshape(length, width))


class Recurrent:
    """Gated recurrent unit in NumPy.

    Most of the time is spent here, so biases are part of the matrix products, and operations are in place.

    Parameters
    ----------
    recurrent : torch.nn.GRU
        Unit with one layer.
    """

    @staticmethod
    def can_copy(recurrent: Any) -> bool:
        """Return whether a unit can be copied."""
        return (
            computes_as(recurrent, nn.GRU)
            and recurrent.num_layers == 1
            and not recurrent.bidirectional
            and bool(recurrent.bias)
        )

    def __init__(self, recurrent: Any) -> None:
        self.hidden = size = int(recurrent.hidden_size)
        inward = array_of(recurrent.weight_ih_l0).T, array_of(recurrent.bias_ih_l0)
        onward = array_of(recurrent.weight_hh_l0).T, array_of(recurrent.bias_hh_l0)
        self.inward, self.onward = (np.vstack(parts) for parts in (inward, onward))
        for weights in (self.inward, self.onward):
            weights[:, : 2 * size] *= -1  # a gate is 1 / (1 + exp(-x)), so store -x

    @np.errstate(over="ignore")  # where the exponential is infinite, the gate is 0
    def __call__(self, history: Floats) -> Floats:
        """Return the last state, shape (h,), after a history of shape (n, features)."""
        size, one = self.hidden, np.float32(1.0)
        state = np.zeros(size + 1, np.float32)
        state[size] = one
        kept, new = state[:size], np.empty(size, np.float32)
        sums = np.empty(3 * size, np.float32)
        gates, candidate = sums[: 2 * size], sums[2 * size :]
        reset, update = gates[:size], gates[size:]
        arriving = history @ self.inward[:-1]
        arriving += self.inward[-1]
        for of_gates, of_candidate in zip(arriving[:, : 2 * size], arriving[:, 2 * size :], strict=True):
            np.dot(state, self.onward, out=sums)
            np.add(gates, of_gates, out=gates)
            np.exp(gates, out=gates)
            np.add(gates, one, out=gates)
            np.reciprocal(gates, out=gates)
            np.multiply(reset, candidate, out=new)
            np.add(new, of_candidate, out=new)
            np.tanh(new, out=new)
            np.subtract(kept, new, out=kept)
            np.multiply(kept, update, out=kept)
            np.add(kept, new, out=kept)
        return kept


class _Auxiliary:
    """Auxiliary module in NumPy: its low-level and high-level vectors."""

    @staticmethod
    def can_copy(module: AuxiliaryTasks) -> bool:
        known = computes_as(module, AuxiliaryTasks, "vectors") and Recurrent.can_copy(module.recurrent)
        return known and are_linear(module.shared, module.tasks)

    def __init__(self, module: AuxiliaryTasks) -> None:
        self.recurrent = Recurrent(module.recurrent)
        self.shared, self.tasks = Linear.of(module.shared), Linear.of(module.tasks)

    def __call__(self, history: Floats) -> tuple[Floats, Floats]:
        low = np.tanh(self.shared(self.recurrent(history)))
        return low, np.tanh(self.tasks(low))


class Context:
    """Context of the system that all networks see, in NumPy.

    Parameters
    ----------
    policy : ScorePolicy
        Network to copy from.
    """

    @staticmethod
    def can_copy(policy: ScorePolicy) -> bool:
        """Return whether a network computes its context exactly as its base class does."""
        known = type(policy).context is ScorePolicy.context and "context" not in vars(policy)
        return known and (policy.auxiliary is None or _Auxiliary.can_copy(policy.auxiliary))

    def __init__(self, policy: ScorePolicy) -> None:
        self.auxiliary = None if policy.auxiliary is None else _Auxiliary(policy.auxiliary)
        self.kind, self.seen, self.coefficient = policy.auxiliary_kind, policy.seen, np.float32(policy.coefficient)

    def __call__(self, arrays: Arrays) -> Floats:
        """Return the context of one encoded observation, shape (context_width,)."""
        parts = [arrays[name].ravel() for name in self.seen]
        if self.auxiliary is not None:
            low, high = (self.coefficient * vector for vector in self.auxiliary(arrays["history"]))
            if self.kind != "low":
                parts.append(high)
            if self.kind != "high":
                parts.append(low)
        return np.concatenate(parts)


class _Attention:
    @staticmethod
    def can_copy(policy: AttentionPolicy) -> bool:
        return (
            computes_as(policy, AttentionPolicy, "encode", "tokens", "_spread")
            and Context.can_copy(policy)
            and are_linear(policy.of_system, policy.of_current, policy.of_future)
            and all(map(EncoderLayer.can_copy, policy.layers))
            and NumpyMLP.can_copy(policy.score)
        )

    def __init__(self, policy: AttentionPolicy) -> None:
        self.context = Context(policy)
        self.of_system, self.of_current = Linear.of(policy.of_system), Linear.of(policy.of_current)
        self.of_future = Linear.of(policy.of_future)
        self.layers = [EncoderLayer(layer) for layer in policy.layers]
        self.score = NumpyMLP(policy.score)

    def __call__(self, arrays: Arrays) -> Floats:
        current, future = arrays["current"], arrays["future"]
        count, ahead = (int(rows[:, 0].sum()) for rows in (current, future))
        system = self.of_system(self.context(arrays)[None])
        jobs = [self.of_current(current[:count]) + system, self.of_future(future[:ahead]) + system]
        tokens = np.concatenate([system, *jobs])
        for layer in self.layers:
            tokens = layer(tokens)
        result = np.zeros(len(arrays[ACTION_MASK]), np.float32)
        has_all = len(result) > len(current)
        scores = np.tanh(self.score(tokens[1:] if has_all else tokens[1 : 1 + count])[:, 0])
        result[:count] = scores[:count]
        if has_all:
            result[len(current) : len(current) + ahead] = scores[count:]
        return result


class _FixedLength:
    @staticmethod
    def can_copy(policy: FixedLengthPolicy) -> bool:
        known = computes_as(policy, FixedLengthPolicy)
        return known and Context.can_copy(policy) and NumpyMLP.can_copy(policy.score)

    def __init__(self, policy: FixedLengthPolicy) -> None:
        self.context, self.sets = Context(policy), policy.sets
        self.score = NumpyMLP(policy.score)

    def __call__(self, arrays: Arrays) -> Floats:
        rows = [arrays[name].ravel() for name in self.sets]
        outputs = self.score(np.concatenate([self.context(arrays), *rows]))
        result: Floats = np.tanh(outputs[0::2]) * arrays[ACTION_MASK]
        return result


class InTorch:
    """Scores computed by a copy of the network in torch.

    Parameters
    ----------
    policy : ScorePolicy
        Network to copy.
    """

    def __init__(self, policy: ScorePolicy) -> None:
        self.policy = deepcopy(policy).eval()

    def __call__(self, arrays: Arrays) -> Floats:
        """Return the scores of one encoded observation."""
        result: Floats = action_for(self.policy, arrays)[0].numpy()
        return result


@dataclass(frozen=True)
class ScoreConfig(AgentConfig[ScorePolicy]):
    """Network, and how its scores are decoded.

    Parameters
    ----------
    network : str
        Network that scores jobs: "attention" (Transformer encoder), "mlp" (fully connected network over rows in a fixed
        order), "pointer" (pointer network), or module:Name of a custom network.
    auxiliary : {"none", "high", "low", "both"}
        Vectors of the auxiliary module that the network sees; "both" is OSDEC.
    rule : {"stop", "skip", "reserve"}
        Rule for a job that does not fit: it ends the slot ("stop", as in the paper), is skipped, or gets a reservation.
        With "reserve" all known jobs are scored.
    threshold : float
        Score up to which jobs are held back; -1 holds back none, as in the paper.
    max_jobs : int
        Largest number of jobs in an observation, separately for open and for future start windows.
    num_resources : int
        Number of resources of the cluster.
    width : int
        Size of a token, or number of units of a layer.
    layers : int
        Number of encoder layers.
    plans : bool
        Whether the network sees when list schedules would start each job.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    agent_kind: ClassVar[str] = "score"

    network: str = "attention"
    auxiliary: Auxiliary = "both"
    rule: DecodingRule = "stop"
    threshold: float = -1.0
    max_jobs: int = 32
    num_resources: int = 1
    width: int = 32
    layers: int = 2
    plans: bool = False

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if an argument is out of range."""
        check_known("network", self.network, get_args(Network))
        for name, known in (("auxiliary", Auxiliary), ("rule", DecodingRule)):
            if getattr(self, name) not in get_args(known):
                raise InvalidConfiguration(
                    f"{name}: got {getattr(self, name)!r}, expected one of {', '.join(get_args(known))}"
                )
        for name in ("max_jobs", "num_resources", "width", "layers"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name}: got {getattr(self, name)!r}, expected an integer >= 1")
        if self.network == "pointer" and self.rule == "reserve":
            raise InvalidConfiguration("rule: got 'reserve', expected 'stop' or 'skip' for a pointer network")
        if not -1 <= self.threshold <= 1:
            raise InvalidConfiguration(f"threshold: got {self.threshold!r}, expected a number from -1 to 1")

    def encoder(self) -> ScoreEncoder:
        """Return the encoder of observations."""
        return ScoreEncoder(
            self.max_jobs,
            self.num_resources,
            max_future_jobs=self.max_jobs,
            threshold=self.threshold,
            rule=self.rule,
            advice=PlannedWaits() if self.plans else None,
        )

    def policy(self, rng: Generator) -> ScorePolicy:
        """Return a new actor-critic network with random weights."""
        encoder, width = self.encoder(), self.width
        if self.network == "mlp":
            return FixedLengthPolicy(encoder, rng, self.auxiliary, 2 * width)
        if self.network == "pointer":
            return PointerPolicy(encoder, rng, self.auxiliary, width)
        if self.network != "attention":
            return cast(ScorePolicy, custom_network(self.network, encoder, rng))  # only its scores are used
        return AttentionPolicy(encoder, rng, self.auxiliary, width, self.layers)


class ScoreAgent(LearnedAgent):
    """Agent that starts jobs in the order of a network's scores, if they fit.

    Parameters
    ----------
    policy : ScorePolicy
        Network; later changes of its weights have no effect.
    config : ScoreConfig
        Configuration of the network and the decoding of its scores.
    forecast : Forecast, optional
        Shield: a job is started only if it fits this forecast for its whole duration.
    name : str
        Name of the agent in records and tables.

    Attributes
    ----------
    policy : ScorePolicy
        Network, for inspection.
    """

    considers = frozenset({"eviction"})

    config_type = ScoreConfig

    def __init__(
        self, policy: ScorePolicy, config: ScoreConfig, *, forecast: Forecast | None = None, name: str = "score"
    ) -> None:
        self.policy = policy
        self.network = scores_of(policy)
        self.config = config
        self.forecast = forecast
        self.name = name
        self.encoder = config.encoder()

    def scores(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return the scores of all rows of jobs, shape (num_scores,); scores of empty rows have no meaning.

        Parameters
        ----------
        observation : DeferrableObservation
            Present observation.
        """
        return self.network(self.encoder.encode(observation))

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to start, in order."""
        if not len(observation.current):
            return []
        scores = self.scores(observation)
        if self.forecast is None:
            return self.encoder.decode(observation, scores)[0] or []
        if self.config.rule == "reserve":
            horizon = max(HORIZON, int(observation.current.duration.max()))
            ahead = self.forecast.predict(observation, horizon - 1)
            return self.encoder.reserving(observation, scores, EarliestFitPlan(observation, horizon, ahead)) or []
        given = scores[: len(observation.current)].tolist()
        order = np.array(self.encoder.order(given), dtype=np.int64)
        steps = int(observation.current.duration.max()) - 1
        room = free_ahead(observation, self.forecast.predict(observation, steps))
        return first_fitting(observation.current, order, room, skip=self.config.rule == "skip")
