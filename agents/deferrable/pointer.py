"""A pointer network over jobs whose window is open.

Sources: Vinyals, Fortunato and Jaitly, "Pointer networks", NeurIPS 2015, and Bello, Pham, Le, Norouzi and Bengio,
"Neural combinatorial optimization with reinforcement learning", 2016 (arXiv:1611.09940). The OSDEC paper compares with
such a network and does not say how it starts jobs. Here it points at one job after another; pointing at the end gives
all that are left a score of -1, which holds them back if the threshold of the encoder is above that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from desim.agents.deferrable.auxiliary import Auxiliary
from desim.agents.deferrable.score_policy import ScorePolicy
from desim.agents.learning.distributions import Distribution
from desim.agents.learning.policy import Observations, drawn, initialized, mlp
from desim.envs import ACTION_MASK
from desim.problems.deferrable.encoder import ScoreEncoder

__all__ = ["PointerOrder", "PointerPolicy"]


class PointerPolicy(ScorePolicy):
    """Reads the jobs one after another, then points at those that are started, one after another.

    Parameters
    ----------
    encoder : ScoreEncoder
        Whose observations are seen.
    rng : numpy.random.Generator
        For the weights.
    auxiliary : {"none", "high", "low", "both"}
        As for :class:`~desim.agents.deferrable.score_policy.ScorePolicy`.
    width : int
        Units of both recurrent networks.
    """

    def __init__(self, encoder: ScoreEncoder, rng: np.random.Generator, auxiliary: Auxiliary, width: int) -> None:
        super().__init__(encoder, rng, auxiliary)
        self.of_system = drawn(nn.Linear(self.context_width, width), rng)
        self.of_job = drawn(nn.Linear(self.shapes["current"][1], width), rng)
        self.reader = drawn(nn.LSTM(width, width, batch_first=True), rng)
        self.pointer = drawn(nn.LSTMCell(width, width), rng)
        self.of_read = drawn(nn.Linear(width, width), rng)
        self.of_query = drawn(nn.Linear(width, width), rng)
        self.attention = drawn(nn.Linear(width, 1, bias=False), rng)
        self.end = nn.Parameter(torch.from_numpy(rng.normal(0.0, 0.1, width).astype(np.float32)))
        self.end_bias = nn.Parameter(torch.tensor(-2.0))  # begins by starting what fits
        self.value = initialized(mlp([2 * width, width, 1], nn.ReLU), rng)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution of the scores, and the values, shape (B,)."""
        mask = observations[ACTION_MASK].bool()
        count = max(int(mask.sum(1).max()), 1)
        system = self.of_system(self.context(observations))
        jobs = self.of_job(observations["current"][:, :count]) + system.unsqueeze(1)
        read, _ = self.reader(torch.relu(jobs))
        last = mask.sum(1).clamp(min=1) - 1
        summary = read[torch.arange(len(read), device=read.device), last]
        value = cast(Tensor, self.value(torch.cat([summary, system], dim=1))).squeeze(-1)
        ends = self.end.expand(len(read), 1, -1)
        options = torch.cat([read, ends], dim=1)
        return PointerOrder(self._pointing(options, summary, system), mask[:, :count], mask.shape[1]), value

    def _pointing(self, options: Tensor, summary: Tensor, system: Tensor) -> Callable[[], Pointing]:
        keys = self.of_read(options)
        bias = torch.cat([keys.new_zeros(options.shape[1] - 1), self.end_bias.unsqueeze(0)])
        return lambda: Pointing(self, options, keys, bias, (summary, system))


class Pointing:
    """The state of a decoder, from its beginning on."""

    def __init__(
        self, policy: PointerPolicy, options: Tensor, keys: Tensor, bias: Tensor, begin: tuple[Tensor, Tensor]
    ) -> None:
        self.policy = policy
        self.options, self.keys, self.bias = options, keys, bias
        summary, self.input = begin
        self.state = summary, torch.zeros_like(summary)

    def logits(self) -> Tensor:
        """Take a step; return a score of every job and of the end, shape (B, m + 1)."""
        self.state = self.policy.pointer(self.input, self.state)
        query = self.policy.of_query(self.state[0]).unsqueeze(1)
        scores: Tensor = self.policy.attention(torch.tanh(self.keys + query)).squeeze(-1) + self.bias
        return scores

    def take(self, chosen: Tensor) -> None:
        """Point at something, shape (B,)."""
        self.input = self.options[torch.arange(len(chosen), device=chosen.device), chosen]


class PointerOrder:
    """The distribution of scores that stand for an order: those of the jobs pointed at fall from 1 on, others are -1.

    Parameters
    ----------
    begin : callable
        Returns a decoder at its beginning.
    mask : Tensor of shape (B, m)
        Which jobs there are.
    room : int
        Scores of an action, at least m.
    """

    def __init__(self, begin: Callable[[], Pointing], mask: Tensor, room: int) -> None:
        self.begin = begin
        self.mask = mask
        self.room = room

    def _walk(self, choose: Callable[[int, Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Point until the end; return scores, log-probabilities and entropies along the way."""
        pointing = self.begin()
        batch, count = self.mask.shape
        rows = torch.arange(batch, device=self.mask.device)
        left = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], dim=1)
        scores = torch.where(self.mask, -1.0, 0.0)
        log_prob, entropy = torch.zeros(2, batch, device=rows.device)
        over = ~self.mask.any(1)
        for step in range(count + 1):
            if bool(over.all()):
                break
            logs = log_softmax(pointing.logits().masked_fill(~left, -math.inf), dim=1)
            chosen = choose(step, logs)
            goes_on = (~over).to(logs)
            log_prob = log_prob + logs.gather(1, chosen.unsqueeze(1)).squeeze(1) * goes_on
            entropy = entropy - (logs.exp() * logs.masked_fill(~left, 0.0)).sum(1) * goes_on
            over = over | (chosen == count)
            started = rows[~over]
            scores[started, chosen[~over]] = 1.0 - step / self.room
            left = left.clone()
            left[started, chosen[~over]] = False
            over = over | ~left[:, :count].any(1)
            pointing.take(chosen)
        return nn.functional.pad(scores, (0, self.room - count)), log_prob, entropy

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Draw the scores of each, shape (B, room)."""

        def draw(step: int, logs: Tensor) -> Tensor:
            """Choose at random, by the Gumbel-max method."""
            noise = torch.from_numpy(rng.gumbel(size=tuple(logs.shape)).astype(np.float32))
            return (logs + noise.to(logs)).argmax(1)

        return self._walk(draw)[0]

    def mode(self) -> Tensor:
        """Return the scores of always the most likely choice, shape (B, room)."""
        return self._walk(lambda step, logs: logs.argmax(1))[0]

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the probability of scores, shape (B,)."""
        count = self.mask.shape[1]
        shown = actions[:, :count].masked_fill(~self.mask, -1.0)
        order = torch.argsort(shown, dim=1, descending=True, stable=True)
        numbers = (shown > 0).sum(1)

        def follow(step: int, logs: Tensor) -> Tensor:
            """Choose what was chosen."""
            chosen = order[:, min(step, count - 1)]
            return torch.where(step < numbers, chosen, count)

        return self._walk(follow)[1]

    def entropy(self) -> Tensor:
        """Return the entropies of the choices along the most likely way, in nats, shape (B,): an estimate."""
        return self._walk(lambda step, logs: logs.argmax(1))[2]
