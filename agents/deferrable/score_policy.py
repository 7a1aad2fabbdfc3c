"""Networks that score jobs whose start window is open: OSDEC's and its baselines.

Source: Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable workloads in
cloud computing" (OSDEC), sections 4.1.3 and 4.2. Differences from the paper: jobs whose start window opens later are
tokens of the encoder too, and so is the system itself, so there is always at least one token.

As an auxiliary task a network learns to predict the next slot (section 4.2.2). Differences from the paper: the capacity
is predicted as a change from its present value, and mean cores and durations as changes from their means over the
slots in the history, because a recurrent network would have to learn these values first. The policy's gradient does not
reach the predictions.

Pointer network: Vinyals, Fortunato and Jaitly, "Pointer networks", NeurIPS 2015, and Bello, Pham, Le, Norouzi and
Bengio, "Neural combinatorial optimization with reinforcement learning", 2016 (arXiv:1611.09940). The OSDEC paper
compares with such a network but does not say how it starts jobs. Here it points at one job after another; when it
points at the end, all remaining jobs get a score of -1, which holds them back if the encoder's threshold is above -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

from desim.agents.learning.experience import Experience
from desim.agents.learning.policy import (
    Distribution,
    Gaussian,
    Observations,
    Policy,
    drawn,
    initialized,
    mlp,
    versions_of,
)
from desim.envs import ACTION_MASK
from desim.problems.deferrable.encoder import HISTORY_FEATURES, ScoreEncoder

__all__ = [
    "KNOWN",
    "TARGETS",
    "TASKS",
    "UNITS",
    "WITH_AUXILIARY",
    "AttentionPolicy",
    "Auxiliary",
    "AuxiliaryTasks",
    "FixedLengthPolicy",
    "Network",
    "PointerOrder",
    "PointerPolicy",
    "RowsPolicy",
    "ScorePolicy",
    "gaussian_of",
    "next_slots",
    "seen_of",
]

Auxiliary = Literal["none", "high", "low", "both"]

"""Vectors of the auxiliary module that the encoder sees."""

WITH_AUXILIARY: Sequence[str] = ("high", "low", "both")

"""Values that need the auxiliary module."""

TASKS = ("capacity", "mean_cores", "mean_duration", "violation")

"""Predicted quantities of the next slot, in cores, cores, log-scaled slots, and cores above the capacity."""

_CAPACITY, _USED, _VIOLATION, _CORES = range(4)

_JOBS, _DURATION = HISTORY_FEATURES.index("current_jobs"), HISTORY_FEATURES.index("mean_duration")

TARGETS, KNOWN = "next_slot", "next_slot_is_known"

"""Keys of the prediction targets among the observations."""


class AuxiliaryTasks(nn.Module):
    """Auxiliary module: a recurrent network over past slots, a shared layer, and a layer and an output per task.

    Parameters
    ----------
    num_features : int
        Number of columns of ``history``.
    num_resources : int
        Number of resources of the cluster, K; cores are the first.
    rng : numpy.random.Generator
        Generator for the weights.
    hidden : int
        Number of units of the recurrent network.
    width : int
        Size of the shared layer and of each task's layer.
    """

    def __init__(
        self, num_features: int, num_resources: int, rng: np.random.Generator, *, hidden: int = 32, width: int = 5
    ) -> None:
        super().__init__()
        self.columns = [len(HISTORY_FEATURES) + block * num_resources for block in range(4)]
        self.recurrent = drawn(nn.GRU(num_features, hidden, batch_first=True), rng)
        self.shared = drawn(nn.Linear(hidden, width), rng)
        self.tasks = drawn(nn.Linear(width, len(TASKS) * width), rng)
        self.outputs = nn.Parameter(torch.zeros(len(TASKS), width))
        self.biases = nn.Parameter(torch.zeros(len(TASKS)))

    def vectors(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Return the low-level and high-level vectors.

        Parameters
        ----------
        history : Tensor of shape (B, H, F)
            History from :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.

        Returns
        -------
        tuple of Tensor
            Low-level vector, shape (B, width), and high-level vector of all tasks, shape (B, tasks x width).
        """
        state = self.recurrent(history)[0][:, -1]
        low = torch.tanh(self.shared(state))
        return low, torch.tanh(self.tasks(low))

    def predictions(self, history: Tensor, high: Tensor | None = None) -> Tensor:
        """Return the predictions for the next slot, shape (B, tasks), comparable with :func:`next_slots`.

        Parameters
        ----------
        history : Tensor of shape (B, H, F)
            History from :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.
        high : Tensor, optional
            High-level vector of this history, if it is already computed.
        """
        if high is None:
            _, high = self.vectors(history)
        parts = high.reshape(len(high), len(TASKS), -1)
        found: Tensor = (parts * self.outputs).sum(2) + self.biases + self._expected(history)
        return found

    def _expected(self, history: Tensor) -> Tensor:
        """Return the predictions before learning: the present capacity, and past means over jobs."""
        capacity = history[:, -1, self.columns[_CAPACITY]]
        there = (history[:, :, _JOBS] > 0).to(history)
        number = there.sum(1).clamp(min=1.0)
        cores = (history[:, :, self.columns[_CORES]] * there).sum(1) / number
        duration = (history[:, :, _DURATION] * there).sum(1) / number
        return torch.stack([capacity, cores, duration, torch.zeros_like(capacity)], dim=1)

    def loss(self, observations: dict[str, Tensor], high: Tensor | None = None) -> Tensor:
        """Return the mean squared error over all tasks, each in units of its typical error ``UNITS``.

        Parameters
        ----------
        observations : dict of str to Tensor
            Batch with its targets.
        high : Tensor, optional
            Same as for :meth:`predictions`.
        """
        known = observations[KNOWN]
        scale = observations[TARGETS].new_tensor(UNITS)
        errors = (self.predictions(observations["history"], high) - observations[TARGETS]) / scale
        return (errors.square() * known).sum() / known.sum().clamp(min=1.0)


UNITS = (0.01, 0.2, 0.1, 0.02)

"""Typical prediction error of each task, which balances the tasks. The capacity counts a little more, because its
changes from slot to slot are only hundredths."""


def next_slots(experience: Experience, num_resources: int) -> dict[str, NDArray[np.float32]]:
    """Return the prediction targets of each step.

    Parameters
    ----------
    experience : Experience
        T steps of N environments with a decision in every slot.
    num_resources : int
        Number of resources of the cluster.

    Returns
    -------
    dict of str to array of shape (T, N, tasks)
        Targets in the encoder's scale, and whether each is known. None is known at the end of an episode or of the
        experience. Means over jobs are unknown in a slot without jobs.
    """
    slots = experience.observations["history"][:, :, -1]
    targets = np.zeros((*slots.shape[:2], len(TASKS)), np.float32)
    known = np.zeros_like(targets)
    targets[:-1], known[:-1] = seen_of(slots[1:], num_resources)
    known[:-1] *= (experience.valid[1:] & ~experience.ends[:-1])[:, :, None]
    return {TARGETS: targets, KNOWN: known}


def seen_of(slots: NDArray[np.float32], num_resources: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the prediction targets of given slots.

    Parameters
    ----------
    slots : array of shape (..., F)
        Last rows of ``history``, one per slot.
    num_resources : int
        Number of resources of the cluster.

    Returns
    -------
    tuple of array of shape (..., tasks)
        Targets, and whether each exists (1 or 0).
    """
    first = len(HISTORY_FEATURES)
    columns = [first + _CAPACITY * num_resources, first + _CORES * num_resources, _DURATION]
    columns.append(first + _VIOLATION * num_resources)
    known = np.ones((*slots.shape[:-1], len(TASKS)), np.float32)
    known[..., 1:3] = (slots[..., _JOBS] > 0)[..., None]
    return slots[..., columns], known


Network = Literal["attention", "mlp", "pointer"]

"""Kind of network: a Transformer encoder, a fully connected one over rows in a fixed order, or a pointer network."""

LEAST_DEVIATION = 0.02


class _Last:
    """Cache of the last high-level vector computed while learning, which the auxiliary loss needs again."""

    def __init__(self) -> None:
        self._known: tuple[Tensor, Tensor, tuple[int, ...]] | None = None

    def __reduce__(self) -> tuple[type[_Last], tuple[()]]:
        """Drop the cache when a policy is copied or sent to another process."""
        return _Last, ()

    def note(self, history: Tensor, high: Tensor, versions: tuple[int, ...]) -> None:
        """Store a vector with its history and the versions of the weights."""
        self._known = history, high, versions

    def take(self, history: Tensor, versions: tuple[int, ...]) -> Tensor | None:
        """Return and drop the stored vector; None if it is for another history or other weights."""
        known, self._known = self._known, None
        return known[1] if known is not None and known[0] is history and known[2] == versions else None


class ScorePolicy(Policy):
    """Base class of the networks: the context that all of them see, and the auxiliary module.

    Parameters
    ----------
    encoder : ScoreEncoder
        Encoder of the observations.
    rng : numpy.random.Generator
        Generator for the weights.
    auxiliary : {"none", "high", "low", "both"}
        Vectors of the auxiliary module that are part of the context.

    Attributes
    ----------
    seen : sequence of str
        Parts of an observation that form the context, besides these vectors.
    coefficient : float
        Factor of the vectors. The paper uses 10 with unscaled amounts, which corresponds to about 1 here.
    tasks : type
        Type of the auxiliary module.
    """

    seen: Sequence[str] = ("system", "free")
    coefficient = 1.0
    tasks: type[AuxiliaryTasks] = AuxiliaryTasks
    parts_add_up = False  # the auxiliary loss reuses the last pass's vectors, and averages over known steps only

    def __init__(self, encoder: ScoreEncoder, rng: np.random.Generator, auxiliary: Auxiliary) -> None:
        super().__init__()
        shapes = {name: space.shape for name, space in encoder.observation_space.items()}
        self.shapes = {name: shape for name, shape in shapes.items() if shape is not None}
        self.num_resources = encoder.num_resources
        self.auxiliary_kind = auxiliary
        self.auxiliary_rate = 100.0
        self.context_width = sum(int(np.prod(self.shapes[name])) for name in self.seen)
        self.auxiliary: AuxiliaryTasks | None = None
        self._last = _Last()
        if auxiliary in WITH_AUXILIARY:
            self.auxiliary = self.tasks(self.shapes["history"][1], self.num_resources, rng)
            width = self.auxiliary.shared.out_features
            widths = {"high": self.auxiliary.tasks.out_features, "low": width}
            self.context_width += sum(size for name, size in widths.items() if auxiliary in (name, "both"))

    def context(self, observations: Observations) -> Tensor:
        """Return the context: the system's state and the auxiliary vectors, shape (B, context_width)."""
        parts = [observations[name].flatten(1) for name in self.seen]
        if self.auxiliary is not None:
            vectors = self.auxiliary.vectors(observations["history"])
            if vectors[1].requires_grad:
                self._last.note(observations["history"], vectors[1], versions_of(list(self.auxiliary.parameters())))
            low, high = (self.coefficient * vector.detach() for vector in vectors)
            if self.auxiliary_kind != "low":
                parts.append(high)
            if self.auxiliary_kind != "high":
                parts.append(low)
        return torch.cat(parts, dim=1)

    def rates(self) -> dict[str, float]:
        """Return multiples of the learning rate for value and auxiliary module, by the prefix of their names."""
        return {"value": 2.0, "auxiliary": self.auxiliary_rate}

    def targets(self, experience: Experience) -> dict[str, NDArray[np.float32]]:
        """Return the targets of the auxiliary tasks."""
        return {} if self.auxiliary is None else next_slots(experience, self.num_resources)

    def auxiliary_loss(self, observations: Observations) -> Tensor | None:
        """Return the loss of the auxiliary tasks; None without an auxiliary module."""
        if self.auxiliary is None:
            return None
        high = self._last.take(observations["history"], versions_of(list(self.auxiliary.parameters())))
        return self.auxiliary.loss(observations, high)


def gaussian_of(outputs: Tensor, mask: Tensor) -> Gaussian:
    """Return the distribution of scores.

    Parameters
    ----------
    outputs : Tensor of shape (B, m, 2)
        Two outputs per job: of the mean, and of the standard deviation.
    mask : Tensor of shape (B, M)
        Mask of the rows that hold a job; rows from m on do not.
    """
    room = mask.shape[1] - outputs.shape[1]
    if room:
        outputs = nn.functional.pad(outputs, (0, 0, 0, room))
    return Gaussian(torch.tanh(outputs[:, :, 0]), softplus(outputs[:, :, 1]) + LEAST_DEVIATION, mask)


def _begin(layer: nn.Linear) -> None:
    """Set initial biases so that scores start above 0, with a standard deviation of about 1/7."""
    with torch.no_grad():
        layer.bias[0::2] = 0.5
        layer.bias[1::2] = -2.0


class AttentionPolicy(ScorePolicy):
    """Transformer encoder over jobs, with heads for scores and value.

    Each current or future job is a token, and so is the system; the context is part of every token. There is no
    positional encoding, so neither the order of jobs nor padding matters.

    Parameters
    ----------
    encoder : ScoreEncoder
        Encoder of the observations.
    rng : numpy.random.Generator
        Generator for the weights.
    auxiliary : {"none", "high", "low", "both"}
        Vectors of the auxiliary module, as for :class:`ScorePolicy`.
    width : int
        Size of a token.
    layers : int
        Number of encoder layers, each with one head as in the paper.
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
        return gaussian_of(scores, mask), value

    def _spread(self, outputs: Tensor, count: int, num_scores: int) -> Tensor:
        """Return the outputs of current jobs, and of future jobs if they are scored, in the rows of an action."""
        room = self.shapes["current"][0]
        if num_scores == room:
            return outputs[:, :count]
        between = outputs.new_zeros(len(outputs), room - count, 2)
        return torch.cat([outputs[:, :count], between, outputs[:, count:]], dim=1)

    def tokens(self, observations: Observations) -> tuple[Tensor, Tensor, int]:
        """Return the tokens before the encoder, without rows that are empty in the whole batch.

        Parameters
        ----------
        observations : dict of str to Tensor
            Batch of B observations.

        Returns
        -------
        tuple of Tensor of shape (B, L, width), Tensor of shape (B, L), and int
            Tokens (the system, current jobs, future jobs); mask of padding; number of tokens for current jobs.
        """
        current, future = observations["current"], observations["future"]
        counts = [max(int(rows[:, :, 0].sum(1).max()), 0) for rows in (current, future)]
        current, future = current[:, : counts[0]], future[:, : counts[1]]
        system = self.of_system(self.context(observations)).unsqueeze(1)
        tokens = torch.cat([system, self.of_current(current) + system, self.of_future(future) + system], dim=1)
        there = torch.cat([torch.ones_like(system[:, :, 0]), current[:, :, 0], future[:, :, 0]], dim=1)
        return tokens, there == 0, counts[0]

    def encode(self, observations: Observations) -> tuple[Tensor, Tensor, int]:
        """Return the same as :meth:`tokens`, with encoded tokens."""
        tokens, absent, count = self.tokens(observations)
        for layer in self.layers:
            tokens = layer(tokens, src_key_padding_mask=absent)
        return tokens, absent, count

    def attention(self, observations: Observations) -> list[Tensor]:
        """Return the attention weights between tokens.

        Parameters
        ----------
        observations : dict of str to Tensor
            Batch of B observations.

        Returns
        -------
        list of Tensor
            Attention weights of each layer, shape (B, L, L), whose rows sum to 1; tokens are those of :meth:`tokens`.
        """
        tokens, absent, _ = self.tokens(observations)
        found = []
        for layer in cast("list[nn.TransformerEncoderLayer]", list(self.layers)):
            found.append(layer.self_attn(tokens, tokens, tokens, key_padding_mask=absent, need_weights=True)[1])
            tokens = layer(tokens, src_key_padding_mask=absent)
        return found


class RowsPolicy(ScorePolicy):
    """Base class of fully connected networks over the concatenated rows of an observation.

    Parameters
    ----------
    encoder : ScoreEncoder
        Encoder of the observations.
    rng : numpy.random.Generator
        Generator for the weights.
    auxiliary : {"none", "high", "low", "both"}
        Vectors of the auxiliary module, as for :class:`ScorePolicy`.
    hidden : int
        Number of units of each of the two hidden layers, for actor and critic alike.

    Attributes
    ----------
    sets : sequence of str
        Sets of jobs whose rows the network sees.
    """

    sets: Sequence[str]

    def __init__(self, encoder: ScoreEncoder, rng: np.random.Generator, auxiliary: Auxiliary, hidden: int) -> None:
        super().__init__(encoder, rng, auxiliary)
        width = self.context_width + sum(int(np.prod(self.shapes[name])) for name in self.sets)
        self.score = initialized(mlp([width, hidden, hidden, 2 * encoder.num_scores], nn.Tanh), rng, 0.1)
        self.value = initialized(mlp([width, hidden, hidden, 1], nn.Tanh), rng)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution of the scores, and the values, shape (B,)."""
        rows = [observations[name].flatten(1) for name in self.sets]
        inputs = torch.cat([self.context(observations), *rows], dim=1)
        outputs = self.score(inputs).unflatten(1, (-1, 2))
        return gaussian_of(outputs, observations[ACTION_MASK]), cast(Tensor, self.value(inputs)).squeeze(-1)


class FixedLengthPolicy(RowsPolicy):
    """Network of :class:`RowsPolicy` over current and future jobs, whose scores start above 0."""

    sets = ("current", "future")

    def __init__(self, encoder: ScoreEncoder, rng: np.random.Generator, auxiliary: Auxiliary, hidden: int) -> None:
        super().__init__(encoder, rng, auxiliary, hidden)
        _begin(cast(nn.Linear, self.score[-1]))


class PointerPolicy(ScorePolicy):
    """Pointer network: reads the jobs one after another, then points at the jobs to start, one after another.

    Parameters
    ----------
    encoder : ScoreEncoder
        Encoder of the observations.
    rng : numpy.random.Generator
        Generator for the weights.
    auxiliary : {"none", "high", "low", "both"}
        Vectors of the auxiliary module, as for :class:`~desim.agents.deferrable.score_policy.ScorePolicy`.
    width : int
        Number of units of both recurrent networks.

    Attributes
    ----------
    sign : float
        Direction of the scores: 1 if the highest comes first, -1 if the lowest does.
    """

    sign = 1.0

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
        self.end_bias = nn.Parameter(torch.tensor(-2.0))  # an untrained network starts all jobs that fit
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
        begin = self._pointing(options, summary, system)
        return PointerOrder(begin, mask[:, :count], mask.shape[1], self.sign), value

    def _pointing(self, options: Tensor, summary: Tensor, system: Tensor) -> Callable[[], Pointing]:
        keys = self.of_read(options)
        bias = torch.cat([keys.new_zeros(options.shape[1] - 1), self.end_bias.unsqueeze(0)])
        return lambda: Pointing(self, options, keys, bias, (summary, system))


class Pointing:
    """Decoder of a pointer network with its recurrent state."""

    def __init__(
        self, policy: PointerPolicy, options: Tensor, keys: Tensor, bias: Tensor, begin: tuple[Tensor, Tensor]
    ) -> None:
        self.policy = policy
        self.options, self.keys, self.bias = options, keys, bias
        summary, self.input = begin
        self.state = summary, torch.zeros_like(summary)

    def logits(self) -> Tensor:
        """Take a step; return a score for every job and for the end, shape (B, m + 1)."""
        self.state = self.policy.pointer(self.input, self.state)
        query = self.policy.of_query(self.state[0]).unsqueeze(1)
        scores: Tensor = self.policy.attention(torch.tanh(self.keys + query)).squeeze(-1) + self.bias
        return scores

    def take(self, chosen: Tensor) -> None:
        """Point at a job or at the end, given by its index, shape (B,)."""
        self.input = self.options[torch.arange(len(chosen), device=chosen.device), chosen]


class PointerOrder:
    """Distribution over orders of jobs, encoded as scores.

    Scores of the jobs pointed at descend from 1 in that order; other jobs have a score of -1.

    Parameters
    ----------
    begin : callable
        Function that returns a new decoder.
    mask : Tensor of shape (B, m)
        Mask of the rows that hold a job.
    room : int
        Number of scores in an action, at least m.
    sign : float
        Factor of all scores; -1 reverses the order.
    """

    def __init__(self, begin: Callable[[], Pointing], mask: Tensor, room: int, sign: float = 1.0) -> None:
        self.begin = begin
        self.mask = mask
        self.room = room
        self.sign = sign

    def _walk(self, choose: Callable[[int, Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Decode until the end; return scores, log-probabilities and entropies of the choices."""
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
        return nn.functional.pad(self.sign * scores, (0, self.room - count)), log_prob, entropy

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Sample scores, shape (B, room)."""

        def draw(step: int, logs: Tensor) -> Tensor:
            """Sample a choice by the Gumbel-max method."""
            noise = torch.from_numpy(rng.gumbel(size=tuple(logs.shape)).astype(np.float32))
            return (logs + noise.to(logs)).argmax(1)

        return self._walk(draw)[0]

    def mode(self) -> Tensor:
        """Return the scores of the most likely choices, taken greedily, shape (B, room)."""
        return self._walk(lambda step, logs: logs.argmax(1))[0]

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-probability of scores, shape (B,)."""
        count = self.mask.shape[1]
        shown = (self.sign * actions[:, :count]).masked_fill(~self.mask, -1.0)
        order = torch.argsort(shown, dim=1, descending=True, stable=True)
        numbers = (shown > 0).sum(1)

        def follow(step: int, logs: Tensor) -> Tensor:
            """Repeat the choices that the scores encode."""
            chosen = order[:, min(step, count - 1)]
            return torch.where(step < numbers, chosen, count)

        return self._walk(follow)[1]

    def entropy(self) -> Tensor:
        """Return an estimate of the entropy in nats: the sum along the most likely choices, shape (B,)."""
        return self._walk(lambda step, logs: logs.argmax(1))[2]
