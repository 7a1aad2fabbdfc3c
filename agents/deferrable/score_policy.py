"""Networks that score jobs whose window is open: OSDEC's and those that it is compared with.

Source: Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable workloads in
cloud computing" (OSDEC), sections 4.1.3 and 4.2. Departures: jobs whose window is yet to open are tokens of the encoder
as well, and so is the system itself, so that there always is one.

Beside scheduling a network learns to predict the next slot (section 4.2.2). Departures: the capacity is predicted as a
change from what it is now, and so are mean cores and durations from their means over the slots that are seen, since
these are what a recurrent network would have to find out first; and the gradient of the policy does not reach the
predictions.

The pointer network: Vinyals, Fortunato and Jaitly, "Pointer networks", NeurIPS 2015, and Bello, Pham, Le, Norouzi and
Bengio, "Neural combinatorial optimization with reinforcement learning", 2016 (arXiv:1611.09940). The OSDEC paper
compares with such a network and does not say how it starts jobs. Here it points at one job after another; pointing at
the end gives all that are left a score of -1, which holds them back if the threshold of the encoder is above that.
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
    "ScorePolicy",
    "next_slots",
    "seen_of",
]

Auxiliary = Literal["none", "high", "low", "both"]

"""Which vectors of the auxiliary module the encoder sees."""

WITH_AUXILIARY: Sequence[str] = ("high", "low", "both")

"""Those that need the module."""

TASKS = ("capacity", "mean_cores", "mean_duration", "violation")

"""What is predicted of the next slot: cores, cores, the compressed duration in slots, and cores above the capacity."""

_CAPACITY, _USED, _VIOLATION, _CORES = range(4)

_JOBS, _DURATION = HISTORY_FEATURES.index("current_jobs"), HISTORY_FEATURES.index("mean_duration")

TARGETS, KNOWN = "next_slot", "next_slot_is_known"

"""Keys of what is to be learned, beside observations."""


class AuxiliaryTasks(nn.Module):
    """A recurrent network over past slots, a layer that all tasks share, and a layer and an output for each task.

    Parameters
    ----------
    num_features : int
        Columns of ``history``.
    num_resources : int
        Resources of the cluster, K; cores are the first.
    rng : numpy.random.Generator
        For the weights.
    hidden : int
        Units of the recurrent network.
    width : int
        Numbers in the shared layer and in each task's.
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
        """Return what the module knows.

        Parameters
        ----------
        history : Tensor of shape (B, H, F)
            Of :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.

        Returns
        -------
        tuple of Tensor
            The low-level vector, shape (B, width), and the high-level one of all tasks, shape (B, tasks x width).
        """
        state = self.recurrent(history)[0][:, -1]
        low = torch.tanh(self.shared(state))
        return low, torch.tanh(self.tasks(low))

    def predictions(self, history: Tensor, high: Tensor | None = None) -> Tensor:
        """Return what is expected of the next slot, shape (B, tasks), as the targets of :func:`next_slots`.

        Parameters
        ----------
        history : Tensor of shape (B, H, F)
            Of :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.
        high : Tensor, optional
            The high-level vector of this history, where it is known.
        """
        if high is None:
            _, high = self.vectors(history)
        parts = high.reshape(len(high), len(TASKS), -1)
        found: Tensor = (parts * self.outputs).sum(2) + self.biases + self._expected(history)
        return found

    def _expected(self, history: Tensor) -> Tensor:
        """Return what would be expected without learning: the capacity as it is, means of jobs as they have been."""
        capacity = history[:, -1, self.columns[_CAPACITY]]
        there = (history[:, :, _JOBS] > 0).to(history)
        number = there.sum(1).clamp(min=1.0)
        cores = (history[:, :, self.columns[_CORES]] * there).sum(1) / number
        duration = (history[:, :, _DURATION] * there).sum(1) / number
        return torch.stack([capacity, cores, duration, torch.zeros_like(capacity)], dim=1)

    def loss(self, observations: dict[str, Tensor], high: Tensor | None = None) -> Tensor:
        """Return the mean squared error over all tasks, each in units of its own usual error.

        Parameters
        ----------
        observations : dict of str to Tensor
            A batch, with its targets.
        high : Tensor, optional
            As for :meth:`predictions`.
        """
        known = observations[KNOWN]
        scale = observations[TARGETS].new_tensor(UNITS)
        errors = (self.predictions(observations["history"], high) - observations[TARGETS]) / scale
        return (errors.square() * known).sum() / known.sum().clamp(min=1.0)


UNITS = (0.01, 0.2, 0.1, 0.02)

"""About how far predictions are off, which lets no task drown the others; the capacity, which has to be told from what
it was a slot ago by hundredths, counts a little more."""


def next_slots(experience: Experience, num_resources: int) -> dict[str, NDArray[np.float32]]:
    """Return what the tasks are to predict in each step.

    Parameters
    ----------
    experience : Experience
        T steps of N environments that ask in every slot.
    num_resources : int
        Resources of the cluster.

    Returns
    -------
    dict of str to array of shape (T, N, tasks)
        The targets, in the scale of the encoder, and whether each is known: at the end of an episode or of
        the experience nothing is, and in a slot without jobs their means are not.
    """
    slots = experience.observations["history"][:, :, -1]
    targets = np.zeros((*slots.shape[:2], len(TASKS)), np.float32)
    known = np.zeros_like(targets)
    targets[:-1], known[:-1] = seen_of(slots[1:], num_resources)
    known[:-1] *= (experience.valid[1:] & ~experience.ends[:-1])[:, :, None]
    return {TARGETS: targets, KNOWN: known}


def seen_of(slots: NDArray[np.float32], num_resources: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return what the tasks should have predicted of slots.

    Parameters
    ----------
    slots : array of shape (..., F)
        Rows of ``history``, each the last of its own.
    num_resources : int
        Resources of the cluster.

    Returns
    -------
    tuple of array of shape (..., tasks)
        The targets, and whether there is such a thing: 1 or 0.
    """
    first = len(HISTORY_FEATURES)
    columns = [first + _CAPACITY * num_resources, first + _CORES * num_resources, _DURATION]
    columns.append(first + _VIOLATION * num_resources)
    known = np.ones((*slots.shape[:-1], len(TASKS)), np.float32)
    known[..., 1:3] = (slots[..., _JOBS] > 0)[..., None]
    return slots[..., columns], known


Network = Literal["attention", "mlp", "pointer"]

"""Which network scores: a Transformer encoder, a fully connected one over rows in a fixed order, a pointer network."""

LEAST_DEVIATION = 0.02


class _Last:
    """The high-level vector of the last history that was seen while learning, which the auxiliary loss needs again."""

    def __init__(self) -> None:
        self._known: tuple[Tensor, Tensor, tuple[int, ...]] | None = None

    def __reduce__(self) -> tuple[type[_Last], tuple[()]]:
        """Leave it behind when a policy is copied or sent to another process."""
        return _Last, ()

    def note(self, history: Tensor, high: Tensor, versions: tuple[int, ...]) -> None:
        """Keep a vector in mind, and what tells of the weights."""
        self._known = history, high, versions

    def take(self, history: Tensor, versions: tuple[int, ...]) -> Tensor | None:
        """Return the vector of a history if it was the last one, with these weights; it is forgotten then."""
        known, self._known = self._known, None
        return known[1] if known is not None and known[0] is history and known[2] == versions else None


class ScorePolicy(Policy):
    """Base class of the networks: the context that all of them see, and the auxiliary module.

    Parameters
    ----------
    encoder : ScoreEncoder
        Whose observations are seen.
    rng : numpy.random.Generator
        For the weights.
    auxiliary : {"none", "high", "low", "both"}
        Which vectors of the auxiliary module are part of the context.

    Attributes
    ----------
    seen : sequence of str
        The parts of an observation that are the context beside these vectors.
    coefficient : float
        What the vectors are multiplied by. The paper has 10, for amounts that are not scaled, which comes to about 1
        here.
    tasks : type
        The auxiliary module.
    """

    seen: Sequence[str] = ("system", "free")
    coefficient = 1.0
    tasks: type[AuxiliaryTasks] = AuxiliaryTasks
    parts_add_up = False  # vectors of the auxiliary module are kept from a pass to its loss, which counts known steps

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
        """Return what is seen of the system, with the vectors of the auxiliary module, shape (B, context_width)."""
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
        """Return by which factor parts learn faster than the policy, by the beginning of their names."""
        return {"value": 2.0, "auxiliary": self.auxiliary_rate}

    def targets(self, experience: Experience) -> dict[str, NDArray[np.float32]]:
        """Return what the auxiliary tasks are to predict."""
        return {} if self.auxiliary is None else next_slots(experience, self.num_resources)

    def auxiliary_loss(self, observations: Observations) -> Tensor | None:
        """Return the error of the predictions."""
        if self.auxiliary is None:
            return None
        high = self._last.take(observations["history"], versions_of(list(self.auxiliary.parameters())))
        return self.auxiliary.loss(observations, high)


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

    Attributes
    ----------
    sign : float
        1 if the highest scores come first, -1 if the lowest do.
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
        begin = self._pointing(options, summary, system)
        return PointerOrder(begin, mask[:, :count], mask.shape[1], self.sign), value

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
    sign : float
        -1 turns all scores around.
    """

    def __init__(self, begin: Callable[[], Pointing], mask: Tensor, room: int, sign: float = 1.0) -> None:
        self.begin = begin
        self.mask = mask
        self.room = room
        self.sign = sign

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
        return nn.functional.pad(self.sign * scores, (0, self.room - count)), log_prob, entropy

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
        shown = (self.sign * actions[:, :count]).masked_fill(~self.mask, -1.0)
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
