"""Encoder of deferrable jobs, capacity and its use as arrays; an action is a score per job."""

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
"""First columns of ``current``; two per resource follow: the job's request, and the free amount minus the request.

``slots_until_fit`` is the number of slots until the running jobs leave enough, if the capacity stays as it is and no
other job starts. ``worth`` is the contribution of an immediate start to the objective, and ``pays`` whether it is
above 0. Counts are log-scaled; counts of slots up to 8 are additionally given in eighths.
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
"""First columns of ``future``; the same columns per resource follow as for ``current``."""

HISTORY_FEATURES = ("present", "current_jobs", "started_jobs", "mean_duration")
"""First columns of ``history``; capacity, amount used, violation and mean request follow, one column per resource."""

SYSTEM_FEATURES = (
    "progress",
    "current_jobs",
    "invisible_current_jobs",
    "future_jobs",
    "invisible_future_jobs",
    "running_jobs",
)
"""First entries of ``system``; capacity, amount used and free amount per resource follow, divided by the scale."""

HIGHEST = 100.0
"""Largest absolute value of any entry."""

_FEW = 8.0

_QUARTER = 0.25
"""Score of jobs that an agent would start, and negated score of others: small enough for noise to swap some of them."""

DecodingRule = Literal["stop", "skip", "reserve"]
"""Treatment of a job that does not fit."""

DECODING_RULES: tuple[DecodingRule, ...] = get_args(DecodingRule)


class Advice(Protocol):
    """Source of extra features per job, such as what a plan would do with it.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    """

    names: tuple[str, ...]

    def describe(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return features of the current jobs followed by the future ones, shape (jobs, columns)."""


Columns = Sequence[tuple[int, ArrayLike, float]]
"""Columns of a table as groups: number of columns, divisor of their values (one, or one each), largest value."""


class _Sheet:
    """All tables of an observation in one array, so that all values are divided, clipped and rounded at once.

    Parameters
    ----------
    tables : dict of str to (int, Columns)
        Rows and columns of each table by name.

    Attributes
    ----------
    tables : dict of str to numpy.ndarray
        Views into the array, to write to.
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
        """Return a recipe that rebuilds the views, for copies and other processes."""
        return _Sheet, (self._description,)

    def clear(self) -> None:
        """Set all values to 0."""
        self._numbers.fill(0.0)

    def bound(self) -> None:
        """Divide all values and clip them."""
        numbers = self._numbers
        numbers /= self._divisor
        np.minimum(np.maximum(numbers, -HIGHEST, out=numbers), self._most, out=numbers)

    def rounded(self) -> Arrays:
        """Return the tables as new arrays of 32-bit floats."""
        numbers = self._numbers.astype(np.float32)
        return {name: numbers[part].reshape(shape) for name, (part, shape) in self._places.items()}


class ScoreEncoder:
    """Encoder of the first jobs with an open window, the first jobs with a later window, and the recent capacity.

    An action has a score for each of the ``max_jobs`` rows of ``current`` and, with the rule "reserve", for each of the
    ``max_future_jobs`` rows of ``future`` after them. Jobs start in descending order of their scores while they fit;
    ties are broken by the order in which jobs became known. This is how the OSDEC paper (Dong et al., section 4.1.2)
    interprets its agents' scores. Scores of rows without a job are ignored. Jobs without a row do not start in this
    slot.

    Parameters
    ----------
    max_jobs : int
        Number of jobs with an open window that are encoded and scored.
    num_resources : int
        Number of resources of the cluster, K.
    max_future_jobs : int
        Number of jobs with a later window that are encoded.
    history : int
        Number of slots of capacity and use that are encoded, including this one.
    horizon : int
        Number of slots, including this one, for which the capacity left by running jobs is encoded.
    threshold : float
        Score at or below which jobs are not started; -1 excludes none.
    rule : {"stop", "skip", "reserve"}
        Treatment of the first job that does not fit. ``"stop"``: it ends the slot, as in the paper. ``"skip"``: it is
        skipped. ``"reserve"``: it keeps its place. All known jobs then have scores, those with a later window after the
        others, and are placed in the first slots in which they fit, as
        :class:`~desim.problems.deferrable.EarliestFitPlan` does; jobs placed in this slot start.
    scale : float or sequence of float
        Divisor of amounts: one number, or one per resource.
    advice : Advice, optional
        Source of extra features per job, in further columns.

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
                f"max_jobs, num_resources, max_future_jobs, history, horizon: got {sizes!r}, expected at least 1 each"
            )
        self.max_jobs, self.num_resources, self.max_future_jobs, self.history, self.horizon = map(int, sizes)
        self.scale: Floats = np.asarray(scale, dtype=np.float64)
        if self.scale.shape not in ((), (self.num_resources,)) or not ((self.scale > 0) & (self.scale < np.inf)).all():
            raise InvalidConfiguration(f"scale: got {scale!r}, expected a number above 0, or one per resource")
        if not -1 <= threshold <= 1:
            raise InvalidConfiguration(f"threshold: got {threshold!r}, expected a number from -1 to 1")
        if rule not in DECODING_RULES:
            raise InvalidConfiguration(f"rule: got {rule!r}, expected one of {', '.join(map(repr, DECODING_RULES))}")
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
        """Return an empty sheet; counts have no bound yet, because they are log-scaled after clipping."""
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
        """Return ``current``, ``future``, ``free``, ``history``, ``system``, and the action mask.

        Parameters
        ----------
        observation : DeferrableObservation
            Observation at a decision.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays with the columns :data:`CURRENT_FEATURES`, :data:`FUTURE_FEATURES`, :data:`HISTORY_FEATURES` and
            :data:`SYSTEM_FEATURES`, followed by one or several per resource. Row h of ``free`` is the current capacity
            minus what the running jobs still hold h slots from now. The rows of ``history`` are slots, the last one
            being this slot before any start. Rows without a job or slot are 0. The mask marks the rows that have a job.

        Raises
        ------
        InvalidConfiguration
            If the cluster has a different number of resources.
        """
        self._check_resources(observation)
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

    def _check_resources(self, observation: DeferrableObservation) -> None:
        """Raise InvalidConfiguration if the cluster has a different number of resources."""
        if len(observation.resources) != self.num_resources:
            raise InvalidConfiguration(
                f"resources: got {len(observation.resources)} in the cluster, expected {self.num_resources}"
            )

    def is_forced(self, observation: DeferrableObservation) -> bool:
        """Return whether no job can start.

        Parameters
        ----------
        observation : DeferrableObservation
            Observation at a decision.
        """
        return not len(observation.current)

    def decode(self, observation: DeferrableObservation, action: Any) -> tuple[list[int] | None, bool]:
        """Return the positions of the jobs that start, in order, and whether the action is valid.

        Parameters
        ----------
        observation : DeferrableObservation
            Observation that was encoded.
        action : array_like of shape (num_scores,)
            Scores of the jobs.

        Returns
        -------
        tuple of (list of int or None) and bool
            Positions, and whether the action is valid. If a score is NaN, no job starts.

        Raises
        ------
        InvalidConfiguration
            If the number of scores is wrong.
        """
        scores = np.asarray(action, dtype=np.float64)
        if scores.shape != (self.num_scores,):
            raise InvalidConfiguration(f"action: got shape {scores.shape}, expected ({self.num_scores},)")
        if self.rule == "reserve":
            chosen = self.reserving(observation, scores)
            return chosen, chosen is not None
        given = scores[: len(observation.current)].tolist()  # for few scores, plain numbers are sorted faster
        if any(map(isnan, given)):
            return None, False
        return self._fitting(observation, self.order(given)), True

    def order(self, scores: Sequence[float]) -> list[int]:
        """Return the positions of the scores in the order of starts, without jobs that the threshold excludes.

        Parameters
        ----------
        scores : sequence of float
            Scores of the jobs with an open window.
        """
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)  # stable even if reversed
        return [position for position in order if scores[position] > self.threshold] if self.threshold > -1 else order

    def reserving(
        self, observation: DeferrableObservation, action: Any, placing: EarliestFitPlan | None = None
    ) -> list[int] | None:
        """Return the positions of the jobs that start now under the rule "reserve".

        Parameters
        ----------
        observation : DeferrableObservation
            Observation that was encoded.
        action : array_like of shape (max_jobs + max_future_jobs,)
            Scores of the jobs.
        placing : EarliestFitPlan, optional
            Plan to place the jobs in; default: a new one that assumes a constant capacity.

        Returns
        -------
        list of int or None
            Positions; None if a score is NaN.
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
        """Return the positions of the jobs that fit, each in addition to those before it."""
        if self.num_resources > 1:
            return self._all_fitting(observation, order)
        if not order:
            return []
        requests = observation.current.cores[: self.max_jobs].tolist()
        used, limit = observation.used.item(), observation.limit.item()
        chosen = []
        started = 0.0  # summed in the same order as in the problem's own check, so that rounding agrees
        for position in order:
            if used + (started + requests[position]) <= limit:
                started += requests[position]
                chosen.append(position)
            elif self.rule == "stop":
                break
        return chosen

    def _all_fitting(self, observation: DeferrableObservation, order: list[int]) -> list[int]:
        """Do the same for several resources; a resource of which a job requests none cannot prevent its start."""
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
        """Return scores that start the same jobs as an agent's answer.

        Parameters
        ----------
        observation : DeferrableObservation
            Observation that the agent decided on.
        answer : sequence of int, or None
            Answer of the agent: positions of the jobs to start.

        Returns
        -------
        numpy.ndarray or None
            Scores, or None if no scores express the answer: a job is not encoded, or further jobs would start,
            too.
        """
        chosen = [] if answer is None else [int(position) for position in answer]
        if any(position >= self.max_jobs for position in chosen):
            return None
        scores = self._scores_for(observation, chosen)
        started = self.decode(observation, scores)[0]
        return scores if sorted(started or []) == sorted(chosen) else None

    def _scores_for(self, observation: DeferrableObservation, chosen: list[int]) -> NDArray[np.float32]:
        """Return at least a quarter, in order, for jobs to start, and otherwise minus a quarter, or the threshold."""
        lowest = _QUARTER if self.threshold < _QUARTER else (self.threshold + 1) / 2
        rest = -_QUARTER if self.threshold == -1.0 or self.threshold >= -_QUARTER else self.threshold
        scores = np.full(self.num_scores, rest, np.float32)
        scores[chosen] = np.linspace(min(2 * lowest, 1.0), lowest, max(len(chosen), 1))[: len(chosen)]
        return scores

    def _free_ahead(self, observation: DeferrableObservation) -> Floats:
        """Return the current capacity minus what running jobs hold in the next slots, shape (horizon, K)."""
        running = observation.running
        if not len(running):
            return np.broadcast_to(observation.capacity, (self.horizon, self.num_resources))
        runs_on = running.finish_time > observation.slot + self._ahead
        return observation.capacity - runs_on @ running.requests

    def _until_fit(self, requests: Floats, free: Floats) -> NDArray[np.int64]:
        """Return the number of slots until requests fit; the horizon if they do not fit within it."""
        fits = np.ones((len(requests), self.horizon + 1), np.bool_)  # the extra column ends the search
        enough = limit_of(free)[None] >= requests[:, None]
        if self.num_resources > 1:
            fits[:, :-1] = np.all(enough | (requests <= 0)[:, None], axis=2)
        else:  # every job requests cores, so the check for requests of 0 is not needed
            fits[:, :-1] = enough[:, :, 0]
        slots: NDArray[np.int64] = fits.argmax(axis=1)
        return slots

    def _describe_current(self, rows: Floats, jobs: JobSet, observation: DeferrableObservation, free: Floats) -> Floats:
        """Write the features of jobs with an open window, one per row, and return those to log-scale."""
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
        """Do the same for jobs with a later window."""
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
        """Write the features of the last slots, one per row, and return the number of slots."""
        count = min(self.history, observation.slot + 1)
        shown = rows[-count:]
        shown[:, 0] = 1.0
        shown[:, 1:] = observation.log[-count:]
        return count

    def _describe_system(self, rows: Floats, observation: DeferrableObservation) -> Floats:
        """Write the features of the cluster, and return those to log-scale."""
        current, future = len(observation.current.rows), len(observation.future.rows)
        invisible = max(current - self.max_jobs, 0), max(future - self.max_future_jobs, 0)
        progress = observation.slot / observation.num_slots if observation.num_slots else 0.0
        counts = current, invisible[0], future, invisible[1], len(observation.running)
        amounts = (*observation.capacity.tolist(), *observation.used.tolist(), *observation.free.tolist())
        rows[0] = [progress, *counts, *amounts]
        return rows[:, 1:6]

    def _add_advice(self, tables: Arrays, observation: DeferrableObservation) -> None:
        """Write the extra features into the last columns of each job."""
        assert self.advice is not None
        numbers = self.advice.describe(observation)
        known, width = len(observation.current), numbers.shape[1]
        for name, told in (("current", numbers[:known]), ("future", numbers[known:])):
            rows = tables[name][: len(told)]
            rows[:, rows.shape[1] - width :] = told[: len(rows)]
