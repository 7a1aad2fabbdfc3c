"""Networks that score jobs whose window is open: OSDEC's and those that it is compared with.

Source: Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable workloads in
cloud computing" (OSDEC), sections 4.1.3 and 4.2. Departures: jobs whose window is yet to open are tokens of the encoder
as well, and so is the system itself, so that there always is one.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from desim.agents.deferrable.auxiliary import WITH_AUXILIARY, Auxiliary, AuxiliaryTasks, next_slots
from desim.agents.learning.distributions import Distribution, Gaussian
from desim.agents.learning.experience import Experience
from desim.agents.learning.policy import Observations, Policy, drawn, initialized, mlp
from desim.envs import ACTION_MASK
from desim.problems.deferrable.encoder import ScoreEncoder

__all__ = ["AttentionPolicy", "FixedLengthPolicy", "Network", "ScorePolicy"]

Network = Literal["attention", "mlp", "pointer"]
"""Which network scores: a Transformer encoder, a fully connected one over rows in a fixed order, a pointer network."""

LEAST_DEVIATION = 0.02


class ScorePolicy(Policy):
    """Base class of the networks: the context that all of them see, and the auxiliary module.

    Parameters
    ----------
    encoder : ScoreEncoder
        Whose observations are seen.
    rng : numpy.random.Generator
        For the weights.
    auxiliary : {"none", "high", "low", "both"}
        Which vectors of the auxiliary module are part of the context. The paper multiplies them by 10, for amounts that
        are not scaled, which comes to about 1 here.
    """

    def __init__(self, encoder: ScoreEncoder, rng: np.random.Generator, auxiliary: Auxiliary) -> None:
        super().__init__()
        shapes = {name: space.shape for name, space in encoder.observation_space.items()}
        self.shapes = {name: shape for name, shape in shapes.items() if shape is not None}
        self.num_resources = encoder.num_resources
        self.auxiliary_kind = auxiliary
        self.auxiliary_rate = 100.0
        self.context_width = self.shapes["system"][0] + int(np.prod(self.shapes["free"]))
        self.auxiliary: AuxiliaryTasks | None = None
        if auxiliary in WITH_AUXILIARY:
            self.auxiliary = AuxiliaryTasks(self.shapes["history"][1], self.num_resources, rng)
            width = self.auxiliary.shared.out_features
            widths = {"high": self.auxiliary.tasks.out_features, "low": width}
            self.context_width += sum(size for name, size in widths.items() if auxiliary in (name, "both"))

    def context(self, observations: Observations) -> Tensor:
        """Return what is seen of the system, with the vectors of the auxiliary module, shape (B, context_width)."""
        parts = [observations["system"], observations["free"].flatten(1)]
        if self.auxiliary is not None:
            low, high = (vector.detach() for vector in self.auxiliary.vectors(observations["history"]))
            if self.auxiliary_kind != "low":
                parts.append(high)
            if self.auxiliary_kind != "high":
                parts.append(low)
        return torch.cat(parts, dim=1)

    def rates(self) -> dict[str, float]:
        """Return by which factor parts learn faster than the policy, by the beginning of their names."""
        return {"value": 2.0, "auxiliary": self.auxiliary_rate}

    def targets(self, experience: Experience) -> dict[str, NDArray[np.float32]]:
        """Return what the auxiliary tasks are to predict."""
        return {} if self.auxiliary is None else next_slots(experience, self.num_resources)

    def auxiliary_loss(self, observations: Observations) -> Tensor | None:
        """Return the error of the predictions."""
        return None if self.auxiliary is None else self.auxiliary.loss(observations)


def _gaussian(outputs: Tensor, mask: Tensor) -> Gaussian:
    """Return the distribution of scores from two numbers for each job, shape (B, M, 2)."""
    room = mask.shape[1] - outputs.shape[1]
    if room:
        outputs = nn.functional.pad(outputs, (0, 0, 0, room))
    deviation = softplus(outputs[:, :, 1]) + LEAST_DEVIATION
    return Gaussian(torch.tanh(outputs[:, :, 0]), deviation, mask)


def _begin(layer: nn.Linear) -> None:
    """Let scores begin above 0, with a deviation of about a seventh."""
    with torch.no_grad():
        layer.bias[0::2] = 0.5
        layer.bias[1::2] = -2.0


class AttentionPolicy(ScorePolicy):
    """A Transformer encoder over jobs, with heads for scores and value.

    Each job, current or future, and the system is a token; the context is part of each. The encoder's tokens do not
    know their place, so the order of jobs means nothing, and neither does padding.

    Parameters
    ----------
    encoder : ScoreEncoder
        Whose observations are seen.
    rng : numpy.random.Generator
        For the weights.
    auxiliary : {"none", "high", "low", "both"}
        As for :class:`ScorePolicy`.
    width : int
        Numbers in a token.
    layers : int
        Encoder layers, with one head as in the paper.
    """

    def __init__(
        self, encoder: ScoreEncoder, rng: np.random.Generator, auxiliary: Auxiliary, width: int, layers: int
    ) -> None:
        super().__init__(encoder, rng, auxiliary)
        self.of_system = drawn(nn.Linear(self.context_width, width), rng)
        self.of_current = drawn(nn.Linear(self.shapes["current"][1], width), rng)
        self.of_future = drawn(nn.Linear(self.shapes["future"][1], width), rng)
        self.layers = nn.ModuleList(
            drawn(nn.TransformerEncoderLayer(width, 1, 2 * width, 0.0, batch_first=True), rng) for _ in range(layers)
        )
        self.score = initialized(mlp([width, width, 2], nn.ReLU), rng, 0.1)
        _begin(cast(nn.Linear, self.score[-1]))
        self.value = initialized(mlp([width, width, 1], nn.ReLU), rng)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution of the scores, and the values, shape (B,)."""
        mask = observations[ACTION_MASK]
        encoded, absent, count = self.encode(observations)
        scores = self._spread(self.score(encoded[:, 1:]), count, mask.shape[1])
        there = (~absent).to(encoded).unsqueeze(-1)
        value = (self.value(encoded) * there).sum((1, 2)) / there.sum((1, 2))
        return _gaussian(scores, mask), value

    def _spread(self, outputs: Tensor, count: int, num_scores: int) -> Tensor:
        """Return the outputs of current jobs, and of future ones if they have scores, in the rows of an action."""
        room = self.shapes["current"][0]
        if num_scores == room:
            return outputs[:, :count]
        between = outputs.new_zeros(len(outputs), room - count, 2)
        return torch.cat([outputs[:, :count], between, outputs[:, count:]], dim=1)

    def tokens(self, observations: Observations) -> tuple[Tensor, Tensor, int]:
        """Return the tokens before the encoder. Rows that have no job in the whole batch are left out.

        Parameters
        ----------
        observations : dict of str to Tensor
            A batch of B observations.

        Returns
        -------
        tuple of Tensor of shape (B, L, width), Tensor of shape (B, L), and int
            The tokens: the system, current jobs, future jobs; which of them are padding; how many are current jobs.
        """
        current, future = observations["current"], observations["future"]
        counts = [max(int(rows[:, :, 0].sum(1).max()), 0) for rows in (current, future)]
        current, future = current[:, : counts[0]], future[:, : counts[1]]
        system = self.of_system(self.context(observations)).unsqueeze(1)
        tokens = torch.cat([system, self.of_current(current) + system, self.of_future(future) + system], dim=1)
        there = torch.cat([torch.ones_like(system[:, :, 0]), current[:, :, 0], future[:, :, 0]], dim=1)
        return tokens, there == 0, counts[0]

    def encode(self, observations: Observations) -> tuple[Tensor, Tensor, int]:
        """Return the same as :meth:`tokens`, the tokens encoded."""
        tokens, absent, count = self.tokens(observations)
        for layer in self.layers:
            tokens = layer(tokens, src_key_padding_mask=absent)
        return tokens, absent, count

    def attention(self, observations: Observations) -> list[Tensor]:
        """Return how much each token takes from each other.

        Parameters
        ----------
        observations : dict of str to Tensor
            A batch of B observations.

        Returns
        -------
        list of Tensor
            One of shape (B, L, L) for each layer, whose rows sum to 1; the tokens are those of
            :meth:`tokens`.
        """
        tokens, absent, _ = self.tokens(observations)
        found = []
        for layer in cast("list[nn.TransformerEncoderLayer]", list(self.layers)):
            found.append(layer.self_attn(tokens, tokens, tokens, key_padding_mask=absent, need_weights=True)[1])
            tokens = layer(tokens, src_key_padding_mask=absent)
        return found


class FixedLengthPolicy(ScorePolicy):
    """A fully connected network over all rows of an observation, one behind the other: the paper's PPO.

    Parameters
    ----------
    encoder : ScoreEncoder
        Whose observations are seen.
    rng : numpy.random.Generator
        For the weights.
    auxiliary : {"none", "high", "low", "both"}
        As for :class:`ScorePolicy`.
    hidden : int
        Units of each of two hidden layers, of actor and critic each.
    """

    def __init__(self, encoder: ScoreEncoder, rng: np.random.Generator, auxiliary: Auxiliary, hidden: int) -> None:
        super().__init__(encoder, rng, auxiliary)
        rows = int(np.prod(self.shapes["current"]) + np.prod(self.shapes["future"]))
        width = self.context_width + rows
        self.score = initialized(mlp([width, hidden, hidden, 2 * encoder.num_scores], nn.Tanh), rng, 0.1)
        _begin(cast(nn.Linear, self.score[-1]))
        self.value = initialized(mlp([width, hidden, hidden, 1], nn.Tanh), rng)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution of the scores, and the values, shape (B,)."""
        rows = [observations[name].flatten(1) for name in ("current", "future")]
        inputs = torch.cat([self.context(observations), *rows], dim=1)
        outputs = self.score(inputs).unflatten(1, (-1, 2))
        return _gaussian(outputs, observations[ACTION_MASK]), cast(Tensor, self.value(inputs)).squeeze(-1)
