"""Deferrable jobs, capacity and what is used of it as arrays; actions are scores of the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any, Literal, Protocol, get_args

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.envs.base import ACTION_MASK, Arrays, bounded, log_scaled
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable.job import JobSet
from desim.problems.deferrable.observation import DeferrableObservation, EarliestFitPlan, limit_of

__all__ = [
    "CURRENT_FEATURES",
    "FUTURE_FEATURES",
    "HISTORY_FEATURES",
    "SYSTEM_FEATURES",
    "Advice",
    "DecodingRule",
    "ScoreEncoder",
]

Floats = NDArray[np.float64]

CURRENT_FEATURES = (
    "present",
    "fits",
    "slots_until_fit",
    "worth",
    "pays",
    "duration",
    "slots_left",
    "delay",
    "lead_time",
    "evictions",
    "few_slots",
    "few_slots_left",
    "few_slots_of_delay",
)
"""The first columns of ``current``; two for each resource follow: what a job requests, and what is free less that.

``slots_until_fit`` says when the running jobs leave enough, if the capacity stays as it is and nothing else is started.
``worth`` is what a job would add to the objective if it were started now, and ``pays`` whether that is above 0. Counts
are compressed, but those of slots up to 8 are told as eighths as well.
"""

FUTURE_FEATURES = (
    "present",
    "slots_until_fit",
    "worth",
    "slots_until_window",
    "window_length",
    "duration",
    "few_slots",
    "few_slots_until_window",
    "few_slots_of_window",
)
"""The first columns of ``future``; the same follow as for ``current``."""

HISTORY_FEATURES = ("present", "current_jobs", "started_jobs", "mean_duration")
"""The first columns of ``history``; capacity, what was used, violation, and mean request of each resource follow."""

SYSTEM_FEATURES = (
    "progress",
    "current_jobs",
    "invisible_current_jobs",
    "future_jobs",
    "invisible_future_jobs",
    "running_jobs",
)
"""The first entries of ``system``; capacity, what is used, and what is free of each resource follow, over the scale."""

HIGHEST = 100.0
"""No number is further from 0."""

_FEW = 8.0

_QUARTER = 0.25
"""Scores of jobs that an agent would start, and minus those of others: where noise still turns some around."""

DecodingRule = Literal["stop", "skip", "reserve"]
"""What becomes of a job that does not fit."""

DECODING_RULES: tuple[DecodingRule, ...] = get_args(DecodingRule)


class Advice(Protocol):
    """What else is told of each job, such as what a plan would do with it.

    Attributes
    ----------
    names : tuple of str
        Of its columns.
    """

    names: tuple[str, ...]

    def describe(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return numbers of the current jobs and then of the future ones, shape (jobs, columns)."""


Columns = Sequence[tuple[int, ArrayLike, float]]
"""Columns of a table: how many, what their numbers are divided by, one or one each, and the most that they may be."""


class _Sheet:
    """All tables of an observation in one array, so that their numbers are divided, bounded and rounded at once.

    Parameters
    ----------
    tables : dict of str to (int, Columns)
        Rows and columns of each table by name.

    Attributes
    ----------
    tables : dict of str to numpy.ndarray
        To be written to; parts of the array.
    """

    def __init__(self, tables: dict[str, tuple[int, Columns]]) -> None:
        self._description = tables
        divisors, bounds = [], []
        for rows, columns in tables.values():
            divisor = [np.broadcast_to(np.asarray(by, np.float64), count) for count, by, _ in columns]
            most = [np.full(count, bound) for count, _, bound in columns]
            divisors.append(np.tile(np.concatenate(divisor), rows))
            bounds.append(np.tile(np.concatenate(most), rows))
        self._divisor, self._most = np.concatenate(divisors), np.concatenate(bounds)
        self._numbers = np.zeros(len(self._divisor))
        ends = np.cumsum([len(part) for part in divisors]).tolist()
        self._places = {
            name: (slice(end - len(part), end), (rows, len(part) // rows))
            for (name, (rows, _)), part, end in zip(tables.items(), divisors, ends, strict=True)
        }
        self.tables = {name: self._numbers[part].reshape(shape) for name, (part, shape) in self._places.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the parts anew when an encoder is copied or sent to another process."""
        return _Sheet, (self._description,)

    def clear(self) -> None:
        """Let all numbers be 0."""
        self._numbers.fill(0.0)

    def bound(self) -> None:
        """Divide all numbers and keep them within bounds."""
        numbers = self._numbers
        numbers /= self._divisor
        np.minimum(np.maximum(numbers, -HIGHEST, out=numbers), self._most, out=numbers)

    def rounded(self) -> Arrays:
        """Return the tables in new arrays."""
        numbers = self._numbers.astype(np.float32)
        return {name: numbers[part].reshape(shape) for name, (part, shape) in self._places.items()}


class ScoreEncoder:
    """The first jobs whose window is open, those whose window is to open, and the capacity so far.

    An action has a score for each of the ``max_jobs`` rows of ``current``, and with the rule "reserve" for each of the
    ``max_future_jobs`` rows of ``future`` behind them. Jobs are started in order of their scores,
    the highest first and of equal scores the one that became known first, while they fit into what is free: this is how
    the OSDEC paper (Dong et al., section 4.1.2) reads the scores of its agents. The scores of rows without a job mean
    nothing. Jobs behind the last row are not started in this slot.

    Parameters
    ----------
    max_jobs : int
        How many jobs whose window is open are seen, and scored.
    num_resources : int
        Resources of the cluster, K.
    max_future_jobs : int
        How many jobs whose window is to open are seen.
    history : int
        For how many slots, this one included, capacity and use are seen.
    horizon : int
        For how many slots, this one included, it is seen what running jobs leave of the capacity.
    threshold : float
        Jobs whose scores are at or below it are not started; -1 excludes none.
    rule : {"stop", "skip", "reserve"}
        Whether the first job that does not fit ends the slot, as in the paper, or is passed over; or keeps its place:
        then all known jobs have scores, those whose window is to open behind the others, and are given the first slots
        in which they fit, as :class:`~desim.problems.deferrable.EarliestFitPlan` does; those that are given this one
        start.
    scale : float or sequence of float
        Amounts are divided by it: one number, or one for each resource.
    advice : Advice, optional
        What else is told of each job, in further columns.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(
        self,
        max_jobs: int = 32,
        num_resources: int = 1,
        *,
        max_future_jobs: int = 16,
        history: int = 24,
        horizon: int = 12,
        threshold: float = -1.0,
        rule: DecodingRule = "stop",
        scale: float | Sequence[float] = 32.0,
        advice: Advice | None = None,
    ) -> None:
        sizes = max_jobs, num_resources, max_future_jobs, history, horizon
        if min(sizes) < 1:
            raise InvalidConfiguration(
                f"max_jobs, num_resources, max_future_jobs, history, horizon are {sizes!r}, want at least 1 of each"
            )
        self.max_jobs, self.num_resources, self.max_future_jobs, self.history, self.horizon = map(int, sizes)
        self.scale: Floats = np.asarray(scale, dtype=np.float64)
        if self.scale.shape not in ((), (self.num_resources,)) or not ((self.scale > 0) & (self.scale < np.inf)).all():
            raise InvalidConfiguration(f"scale is {scale!r}, want a number above 0, or one for each resource")
        if not -1 <= threshold <= 1:
            raise InvalidConfiguration(f"threshold is {threshold!r}, want a number from -1 to 1")
        if rule not in DECODING_RULES:
            raise InvalidConfiguration(f"rule is {rule!r}, want one of {', '.join(map(repr, DECODING_RULES))}")
        self.threshold = float(threshold)
        self.rule = rule
        self.num_scores = self.max_jobs + (self.max_future_jobs if rule == "reserve" else 0)
        self.advice = advice
        more = 0 if advice is None else len(advice.names)
        amounts, each = (-HIGHEST, HIGHEST), 2 * self.num_resources
        self.observation_space = gymnasium.spaces.Dict(
            {
                "current": bounded((self.max_jobs, len(CURRENT_FEATURES) + each + more), *amounts),
                "future": bounded((self.max_future_jobs, len(FUTURE_FEATURES) + each + more), *amounts),
                "free": bounded((self.horizon, self.num_resources), *amounts),
                "history": bounded((self.history, len(HISTORY_FEATURES) + 4 * self.num_resources), *amounts),
                "system": bounded((len(SYSTEM_FEATURES) + 3 * self.num_resources,), *amounts),
                ACTION_MASK: gymnasium.spaces.Box(0, 1, (self.num_scores,), np.int8),
            }
        )
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Box(-1.0, 1.0, (self.num_scores,), np.float32)
        self._sheet = self._new_sheet(more)
        self._ahead = np.arange(self.horizon)[:, None]

    def _new_sheet(self, num_advised: int) -> _Sheet:
        """Return room for what is seen; counts that are to be compressed have no bound yet."""
        each = self.num_resources
        scale = np.array(np.broadcast_to(self.scale, each))
        one, few, worth, few_slots = (1, 1.0, HIGHEST), (1, _FEW, HIGHEST), (1, scale.max(), HIGHEST), (3, _FEW, 1.0)
        more: list[tuple[int, ArrayLike, float]] = [(2 * each, np.tile(scale, 2), HIGHEST), (num_advised, 1.0, HIGHEST)]
        return _Sheet(
            {
                "current": (self.max_jobs, [one, one, few, worth, one, (5, 1.0, np.inf), few_slots, *more]),
                "future": (self.max_future_jobs, [one, few, worth, (3, 1.0, np.inf), few_slots, *more]),
                "free": (self.horizon, [(each, scale, HIGHEST)]),
                "history": (self.history, [one, (3, 1.0, np.inf), (4 * each, np.tile(scale, 4), HIGHEST)]),
                "system": (1, [one, (5, 1.0, np.inf), (3 * each, np.tile(scale, 3), HIGHEST)]),
            }
        )

    def encode(self, observation: DeferrableObservation) -> Arrays:
        """Return ``current``, ``future``, ``free``, ``history``, ``system``, and the mask.

        Parameters
        ----------
        observation : DeferrableObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            The columns are :data:`CURRENT_FEATURES`, :data:`FUTURE_FEATURES`, :data:`HISTORY_FEATURES` and
            :data:`SYSTEM_FEATURES`, then one a resource, or several. Row h of ``free`` has what the jobs that run now
            will leave h slots from now of the capacity as it is. The rows of ``history`` are slots, the last one this
            slot, now before any start. Rows without a job or slot are 0. The mask tells the rows of ``current`` that
            have a job.

        Raises
        ------
        InvalidConfiguration
            If the cluster has another number of resources.
        """
        if len(observation.resources) != self.num_resources:
            raise InvalidConfiguration(
                f"the cluster has {len(observation.resources)} resources, the encoder {self.num_resources}"
            )
        current, future = observation.current.rows[: self.max_jobs], observation.future.rows[: self.max_future_jobs]
        mask = np.zeros(self.num_scores, np.int8)
        mask[: len(current)] = 1
        mask[self.max_jobs :][: len(future)] = 1
        sheet = self._sheet
        sheet.clear()
        tables = sheet.tables
        counts = [self._describe_system(tables["system"], observation)]
        tables["free"][:] = free = self._free_ahead(observation)
        if len(current):
            counts.append(self._describe_current(tables["current"][: len(current)], JobSet(current), observation, free))
        if len(future):
            counts.append(self._describe_future(tables["future"][: len(future)], JobSet(future), observation, free))
        if self.advice is not None:
            self._add_advice(tables, observation)
        count = self._describe_history(tables["history"], observation)
        sheet.bound()
        for part in counts:
            part[:] = log_scaled(part)
        arrays = sheet.rounded()
        arrays["system"] = arrays["system"][0]
        past = arrays["history"][-count:, 1 : len(HISTORY_FEATURES)]
        past[:] = log_scaled(past)
        arrays[ACTION_MASK] = mask
        return arrays

    def is_forced(self, observation: DeferrableObservation) -> bool:
        """Tell whether there is no job to be started.

        Parameters
        ----------
        observation : DeferrableObservation
            A decision.
        """
        return not len(observation.current)

    def decode(self, observation: DeferrableObservation, action: Any) -> tuple[list[int] | None, bool]:
        """Return the positions of the jobs that are started, in order, and whether the scores are numbers.

        Parameters
        ----------
        observation : DeferrableObservation
            What was encoded.
        action : array_like of shape (num_scores,)
            Scores.

        Returns
        -------
        tuple of (list of int or None) and bool
            Scores that are not numbers start nothing.

        Raises
        ------
        InvalidConfiguration
            If there is another number of scores.
        """
        scores = np.asarray(action, dtype=np.float64)
        if scores.shape != (self.num_scores,):
            raise InvalidConfiguration(f"the action has shape {scores.shape}, want ({self.num_scores},)")
        if self.rule == "reserve":
            chosen = self.reserving(observation, scores)
            return chosen, chosen is not None
        given = scores[: len(observation.current)].tolist()  # there are few: plain numbers are sorted faster
        if any(map(isnan, given)):
            return None, False
        return self._fitting(observation, self.order(given)), True

    def order(self, scores: Sequence[float]) -> list[int]:
        """Return in which order jobs are started: positions of scores, without those that are held back.

        Parameters
        ----------
        scores : sequence of float
            Of the jobs whose window is open.
        """
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)  # stable, too, if reversed
        return [position for position in order if scores[position] > self.threshold] if self.threshold > -1 else order

    def reserving(
        self, observation: DeferrableObservation, action: Any, placing: EarliestFitPlan | None = None
    ) -> list[int] | None:
        """Return the positions of the jobs that start now if every job keeps its place, as the rule "reserve" has it.

        Parameters
        ----------
        observation : DeferrableObservation
            What was encoded.
        action : array_like of shape (max_jobs + max_future_jobs,)
            Scores.
        placing : EarliestFitPlan, optional
            The room that there is; by default, as much as there would be with the capacity as it is.

        Returns
        -------
        list of int or None
            None for scores that are not numbers.
        """
        scores = np.asarray(action, dtype=np.float64)
        number = len(observation.current)
        known = scores[: self.max_jobs][:number], scores[self.max_jobs :][: len(observation.future)]
        places = np.concatenate([np.arange(len(known[0])), number + np.arange(len(known[1]))])
        given = np.concatenate(known)
        if np.isnan(given).any():
            return None
        order = np.argsort(-given, kind="stable")
        if self.threshold > -1:
            order = order[given[order] > self.threshold]
        placing = EarliestFitPlan(observation) if placing is None else placing
        return np.flatnonzero(placing.starts(places[order].tolist())[:number] == 0).tolist()

    def _fitting(self, observation: DeferrableObservation, order: list[int]) -> list[int]:
        """Return the positions of the jobs that fit, each beside those before it."""
        if self.num_resources > 1:
            return self._all_fitting(observation, order)
        if not order:
            return []
        requests = observation.current.cores[: self.max_jobs].tolist()
        used, limit = observation.used.item(), observation.limit.item()
        chosen = []
        started = 0.0  # added up like this the sums are those that the problem checks
        for position in order:
            if used + (started + requests[position]) <= limit:
                started += requests[position]
                chosen.append(position)
            elif self.rule == "stop":
                break
        return chosen

    def _all_fitting(self, observation: DeferrableObservation, order: list[int]) -> list[int]:
        """Do the same for several resources; a job that requests nothing of one fits however short it is."""
        requests, used, limit = observation.current.requests, observation.used, observation.limit
        chosen = []
        started = np.zeros(self.num_resources)
        for position in order:
            request = requests[position]
            together = started + request
            if ((used + together <= limit) | (request <= 0)).all():
                started = together
                chosen.append(position)
            elif self.rule == "stop":
                break
        return chosen

    def encode_action(self, observation: DeferrableObservation, answer: Any) -> NDArray[np.float32] | None:
        """Return scores with which the same jobs start as those that an agent answers.

        The jobs that are to start have scores of at least a quarter, in order; all others minus a quarter, or what
        holds them back.

        Parameters
        ----------
        observation : DeferrableObservation
            What the agent saw.
        answer : sequence of int, or None
            Its answer: positions of the jobs to be started.

        Returns
        -------
        numpy.ndarray or None
            None if the encoder shows too few jobs or would start others, too: it holds back no job that fits unless its
            threshold says so.
        """
        chosen = [] if answer is None else [int(position) for position in answer]
        if any(position >= self.max_jobs for position in chosen):
            return None
        lowest = _QUARTER if self.threshold < _QUARTER else (self.threshold + 1) / 2
        rest = -_QUARTER if self.threshold == -1.0 or self.threshold >= -_QUARTER else self.threshold
        scores = np.full(self.num_scores, rest, np.float32)
        scores[chosen] = np.linspace(min(2 * lowest, 1.0), lowest, max(len(chosen), 1))[: len(chosen)]
        started = self.decode(observation, scores)[0]
        return scores if sorted(started or []) == sorted(chosen) else None

    def _free_ahead(self, observation: DeferrableObservation) -> Floats:
        """Return what running jobs leave in the next slots of the capacity as it is, shape (horizon, K)."""
        running = observation.running
        if not len(running):
            return np.broadcast_to(observation.capacity, (self.horizon, self.num_resources))
        runs_on = running.finish_time > observation.slot + self._ahead
        return observation.capacity - runs_on @ running.requests

    def _until_fit(self, requests: Floats, free: Floats) -> NDArray[np.int64]:
        """Return in how many slots there will be enough free; the horizon if not within it."""
        fits = np.ones((len(requests), self.horizon + 1), np.bool_)  # behind the horizon all fit, which ends the search
        enough = limit_of(free)[None] >= requests[:, None]
        if self.num_resources > 1:
            fits[:, :-1] = np.all(enough | (requests <= 0)[:, None], axis=2)
        else:  # every job requests cores
            fits[:, :-1] = enough[:, :, 0]
        slots: NDArray[np.int64] = fits.argmax(axis=1)
        return slots

    def _describe_current(self, rows: Floats, jobs: JobSet, observation: DeferrableObservation, free: Floats) -> Floats:
        """Write the numbers that tell of jobs whose window is open, one a row, and return those to be compressed."""
        first, each, slot = len(CURRENT_FEATURES), self.num_resources, observation.slot
        requests = jobs.requests
        delay = slot - jobs.earliest_start
        worth = jobs.revenue - observation.delay_weight * delay
        fits = observation.used + requests <= observation.limit
        rows[:, 0] = 1.0
        rows[:, 1] = fits[:, 0] if each == 1 else (fits | (requests <= 0)).all(axis=1)
        rows[:, 2] = self._until_fit(requests, free)
        rows[:, 3] = worth
        rows[:, 4] = worth > 0
        rows[:, 5] = jobs.duration
        rows[:, 6] = jobs.latest_start - slot
        rows[:, 7] = delay
        rows[:, 8] = slot - jobs.submission_time
        rows[:, 9] = jobs.evictions
        rows[:, 10:first] = rows[:, 5:8]
        rows[:, first : first + each] = requests
        rows[:, first + each : first + 2 * each] = free[0] - requests
        return rows[:, 5:10]

    def _describe_future(self, rows: Floats, jobs: JobSet, observation: DeferrableObservation, free: Floats) -> Floats:
        """Do the same for jobs whose window is to open."""
        first, each = len(FUTURE_FEATURES), self.num_resources
        earliest, requests = jobs.earliest_start, jobs.requests
        rows[:, 0] = 1.0
        rows[:, 1] = self._until_fit(requests, free)
        rows[:, 2] = jobs.revenue
        rows[:, 3] = earliest - observation.slot
        rows[:, 4] = jobs.latest_start - earliest + 1
        rows[:, 5] = rows[:, 6] = jobs.duration
        rows[:, 7:first] = rows[:, 3:5]
        rows[:, first : first + each] = requests
        rows[:, first + each : first + 2 * each] = free[0] - requests
        return rows[:, 3:6]

    def _describe_history(self, rows: Floats, observation: DeferrableObservation) -> int:
        """Write the numbers that tell of the last slots, one a row, and return how many slots there are."""
        count = min(self.history, observation.slot + 1)
        shown = rows[-count:]
        shown[:, 0] = 1.0
        shown[:, 1:] = observation.log[-count:]
        return count

    def _describe_system(self, rows: Floats, observation: DeferrableObservation) -> Floats:
        """Write the numbers that tell of the cluster, and return those to be compressed."""
        current, future = len(observation.current.rows), len(observation.future.rows)
        invisible = max(current - self.max_jobs, 0), max(future - self.max_future_jobs, 0)
        progress = observation.slot / observation.num_slots if observation.num_slots else 0.0
        counts = current, invisible[0], future, invisible[1], len(observation.running)
        amounts = (*observation.capacity.tolist(), *observation.used.tolist(), *observation.free.tolist())
        rows[0] = [progress, *counts, *amounts]
        return rows[:, 1:6]

    def _add_advice(self, tables: Arrays, observation: DeferrableObservation) -> None:
        """Write what is advised behind what is known of each job."""
        assert self.advice is not None
        numbers = self.advice.describe(observation)
        known, width = len(observation.current), numbers.shape[1]
        for name, told in (("current", numbers[:known]), ("future", numbers[known:])):
            rows = tables[name][: len(told)]
            rows[:, rows.shape[1] - width :] = told[: len(rows)]
