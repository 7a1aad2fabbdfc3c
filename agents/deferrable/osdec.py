"""OSDEC as in the paper, and the variants of its table 1; :mod:`.score_policy` has desim's extension of it.

Source: Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable workloads in
cloud computing", sections 4.1 to 4.2.3 and table 3. The paper leaves some details open; the register of its experiments
lists our choices: the sizes of layers, the activation of the value, what the coefficients of table 3 multiply (here the
two vectors of the auxiliary module), that the policy's gradient does not reach this module, and the pointer network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast, get_args

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.deferrable.forecasts import Forecast
from desim.agents.deferrable.score_agent import Context, EncoderLayer, Linear, ScoreAgent, ScoreConfig, are_linear
from desim.agents.deferrable.score_policy import (
    KNOWN,
    TARGETS,
    TASKS,
    Auxiliary,
    AuxiliaryTasks,
    Network,
    PointerPolicy,
    RowsPolicy,
    ScorePolicy,
    gaussian_of,
)
from desim.agents.learning.policy import (
    Distribution,
    NumpyMLP,
    Observations,
    computes_as,
    drawn,
    initialized,
    mlp,
)
from desim.envs.base import ACTION_MASK, Arrays
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable.encoder import DecodingRule
from desim.problems.deferrable.printed import JOB_SETS, PrintedEncoder

__all__ = ["OsdecAgent", "OsdecConfig"]

COEFFICIENT = 10.0
"""Factor of the high-level and low-level vectors, table 3."""


class _Tasks(AuxiliaryTasks):
    """Auxiliary module that predicts amounts directly and minimizes their mean squared error."""

    def _expected(self, history: Tensor) -> Tensor:
        return history.new_zeros(len(history), len(TASKS))

    def loss(self, observations: dict[str, Tensor], high: Tensor | None = None) -> Tensor:
        """Return the mean squared error over all tasks, in the encoder's scale."""
        known = observations[KNOWN]
        errors = self.predictions(observations["history"], high) - observations[TARGETS]
        return (errors.square() * known).sum() / known.sum().clamp(min=1.0)


class _Printed(ScorePolicy):
    """Base class of the networks: capacity and the auxiliary vectors are part of every job's input."""

    seen = ("capacity",)
    coefficient = COEFFICIENT
    tasks = _Tasks


class Encoded(_Printed):
    """Transformer encoder over running, current and future jobs and the capacity, with heads for scores and value.

    Parameters
    ----------
    encoder : PrintedEncoder
        Encoder of the observations.
    rng : numpy.random.Generator
        Generator for the weights.
    auxiliary : {"none", "high", "low", "both"}
        Vectors of the auxiliary module in every token; both is OSDEC.
    width : int
        Size of a token.
    layers : int
        Number of encoder layers, each with one head.
    """

    def __init__(self, encoder: PrintedEncoder, rng: Generator, auxiliary: Auxiliary, width: int, layers: int) -> None:
        super().__init__(encoder, rng, auxiliary)
        inputs = self.context_width + self.shapes["current"][1]
        self.of_jobs = nn.ModuleDict({name: drawn(nn.Linear(inputs, width), rng) for name in JOB_SETS})
        self.of_system = drawn(nn.Linear(self.context_width, width), rng)
        self.layers = nn.ModuleList(
            drawn(nn.TransformerEncoderLayer(width, 1, 2 * width, 0.0, batch_first=True), rng) for _ in range(layers)
        )
        self.mean = initialized(mlp([width, width, 1], nn.ReLU), rng, 0.1)
        self.deviation = initialized(mlp([width, width, 1], nn.ReLU), rng, 0.1)
        self.value = drawn(nn.Linear(width, 1), rng)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution of the scores, and the values, shape (B,)."""
        mask = observations[ACTION_MASK]
        context = self.context(observations)
        tokens, there = [self.of_system(context).unsqueeze(1)], [mask.new_ones(len(mask), 1, dtype=torch.bool)]
        counts = []
        for name in JOB_SETS:
            rows = observations[name]
            counts.append(int(rows[:, :, 0].sum(1).max()))
            rows = rows[:, : counts[-1]]
            with_context = torch.cat([rows, context.unsqueeze(1).expand(-1, rows.shape[1], -1)], dim=2)
            tokens.append(self.of_jobs[name](with_context))
            there.append(rows[:, :, 0] > 0)
        encoded, is_there = torch.cat(tokens, dim=1), torch.cat(there, dim=1)
        for layer in self.layers:
            encoded = layer(encoded, src_key_padding_mask=~is_there)
        first = 1 + counts[0]
        current = encoded[:, first : first + counts[1]]
        outputs = torch.cat([self.mean(current), self.deviation(current)], dim=2)
        counted = is_there.to(encoded)
        value = (self.value(encoded).squeeze(2) * counted).sum(1) / counted.sum(1)
        return gaussian_of(outputs, mask), value


class FixedLength(_Printed, RowsPolicy):
    """Fully connected network over the concatenated rows: the paper's PPO."""

    sets = JOB_SETS


class Pointer(_Printed, PointerPolicy):
    """Pointer network over the current jobs; scores ascend in the order in which it points at jobs."""

    sign = -1.0


@dataclass(frozen=True)
class OsdecConfig(ScoreConfig):
    """Network of table 1, with or without the auxiliary module.

    Parameters
    ----------
    network : {"attention", "mlp", "pointer"}
        Network that scores jobs: "attention" (Transformer encoder), "mlp" (fully connected network, the paper's PPO)
        or "pointer" (pointer network).
    auxiliary : {"none", "high", "low", "both"}
        Vectors of the auxiliary module that the network sees; "both" is OSDEC.
    rule : {"stop"}
        Rule for a job that does not fit; always "stop": it ends the slot.
    threshold : float
        Score up to which jobs are held back; always -1, which holds back none.
    max_jobs : int
        Largest number of running, current and future jobs in an observation, each.
    num_resources : int
        Number of resources of the cluster.
    width : int
        Size of a token, or number of units of a layer.
    layers : int
        Number of encoder layers.
    plans : bool
        Whether the network sees list schedules; always False.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    agent_kind: ClassVar[str] = "osdec"

    rule: DecodingRule = "stop"

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if an argument is out of range."""
        super().__post_init__()
        if self.network not in get_args(Network):
            raise InvalidConfiguration(f"network: got {self.network!r}, expected one of {', '.join(get_args(Network))}")
        if (self.rule, self.threshold, self.plans) != ("stop", -1.0, False):
            raise InvalidConfiguration(
                f"rule, threshold, plans: got {self.rule!r}, {self.threshold!r}, {self.plans!r}, expected 'stop', -1, "
                "False as in the paper; try `desim train deferrable` for other values"
            )

    def encoder(self) -> PrintedEncoder:
        """Return the encoder of observations."""
        return PrintedEncoder(self.max_jobs, self.num_resources)

    def policy(self, rng: Generator) -> ScorePolicy:
        """Return a new actor-critic network with random weights."""
        encoder, width = self.encoder(), self.width
        if self.network == "mlp":
            return FixedLength(encoder, rng, self.auxiliary, 2 * width)
        if self.network == "pointer":
            return Pointer(encoder, rng, self.auxiliary, width)
        return Encoded(encoder, rng, self.auxiliary, width, self.layers)


class OsdecAgent(ScoreAgent):
    """OSDEC as in the paper, or a variant: starts jobs by ascending score, up to the first that does not fit.

    Parameters
    ----------
    policy : ScorePolicy
        Network; later changes of its weights have no effect.
    config : OsdecConfig
        Configuration of the network.
    forecast : Forecast, optional
        Shield, which is not in the paper: a job is started only if it fits this forecast for its whole duration.
    name : str
        Name of the agent in records and tables.
    """

    config_type = OsdecConfig

    def __init__(
        self, policy: ScorePolicy, config: OsdecConfig, *, forecast: Forecast | None = None, name: str = "osdec"
    ) -> None:
        super().__init__(policy, config, forecast=forecast, name=name)
        if isinstance(policy, Encoded) and _InNumpy.can_copy(policy):
            self.network = _InNumpy(policy)


class _InNumpy:
    """NumPy copy of the encoder for mean scores; torch would spend more time on overhead than on arithmetic."""

    @staticmethod
    def can_copy(policy: Encoded) -> bool:
        return (
            computes_as(policy, Encoded)
            and Context.can_copy(policy)
            and are_linear(policy.of_system, *policy.of_jobs.values())
            and all(map(EncoderLayer.can_copy, policy.layers))
            and NumpyMLP.can_copy(policy.mean)
        )

    def __init__(self, policy: Encoded) -> None:
        self.context = Context(policy)
        self.of_jobs = {name: Linear.of(cast(nn.Linear, layer)) for name, layer in policy.of_jobs.items()}
        self.of_system = Linear.of(policy.of_system)
        self.layers = [EncoderLayer(layer) for layer in policy.layers]
        self.mean = NumpyMLP(policy.mean)

    def __call__(self, arrays: Arrays) -> NDArray[np.float32]:
        context = self.context(arrays)
        tokens, counts = [self.of_system(context[None])], []
        for name in JOB_SETS:
            counts.append(int(arrays[name][:, 0].sum()))
            rows = arrays[name][: counts[-1]]
            tokens.append(self.of_jobs[name](np.hstack([rows, np.broadcast_to(context, (len(rows), len(context)))])))
        encoded = np.concatenate(tokens)
        for layer in self.layers:
            encoded = layer(encoded)
        result = np.zeros(len(arrays[ACTION_MASK]), np.float32)
        first = 1 + counts[0]
        if counts[1]:
            result[: counts[1]] = np.tanh(self.mean(encoded[first : first + counts[1]])[:, 0])
        return result
