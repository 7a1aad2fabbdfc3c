"""Deferrable jobs, capacity and what is used of it as arrays; actions are scores of the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays, bounded, compressed
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable.job import JobSet
from desim.problems.deferrable.observation import DeferrableObservation, Placing, limit_of

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
    "notice",
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
        in which they fit, as :class:`~desim.problems.deferrable.Placing` does; those that are given this one start.
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
        mask = np.zeros(self.num_scores, np.int8)
        mask[: min(len(observation.current), self.max_jobs)] = 1
        mask[self.max_jobs :][: len(observation.future)] = 1
        free = self._free_ahead(observation)
        current, future = self._describe_current(observation, free), self._describe_future(observation, free)
        if self.advice is not None:
            current, future = self._advised(observation, current, future)
        return {
            "current": current,
            "future": future,
            "free": self._amounts(free).astype(np.float32),
            "history": self._describe_history(observation),
            "system": self._describe_system(observation),
            ACTION_MASK: mask,
        }

    def forced(self, observation: DeferrableObservation) -> bool:
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
        scores = scores[: len(observation.current)]
        if np.isnan(scores).any():
            return None, False
        order = np.argsort(-scores, kind="stable")
        if self.threshold > -1:
            order = order[scores[order] > self.threshold]
        return self._fitting(observation, order.tolist()), True

    def reserving(
        self, observation: DeferrableObservation, action: Any, placing: Placing | None = None
    ) -> list[int] | None:
        """Return the positions of the jobs that start now if every job keeps its place, as the rule "reserve" has it.

        Parameters
        ----------
        observation : DeferrableObservation
            What was encoded.
        action : array_like of shape (max_jobs + max_future_jobs,)
            Scores.
        placing : Placing, optional
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
        placing = Placing(observation) if placing is None else placing
        return np.flatnonzero(placing.starts(places[order].tolist())[:number] == 0).tolist()

    def _fitting(self, observation: DeferrableObservation, order: list[int]) -> list[int]:
        """Return the positions of the jobs that fit, each beside those before it."""
        if self.num_resources > 1:
            return self._all_fitting(observation, order)
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

    def _amounts(self, amounts: Floats) -> Floats:
        """Return amounts of each resource over their scale, within bounds."""
        scaled = amounts / self.scale
        return np.minimum(np.maximum(scaled, -HIGHEST, out=scaled), HIGHEST, out=scaled)

    def _free_ahead(self, observation: DeferrableObservation) -> Floats:
        """Return what running jobs leave in the next slots of the capacity as it is, shape (horizon, K)."""
        running = observation.running
        runs_on = running.finish_time > observation.slot + np.arange(self.horizon)[:, None]
        return observation.capacity - runs_on @ running.requests

    def _until_fit(self, requests: Floats, free: Floats) -> Floats:
        """Return in how many slots there will be enough free; the horizon if not within it."""
        enough = limit_of(free)[None] >= requests[:, None]
        fits: NDArray[np.bool_] = np.all(enough | (requests <= 0)[:, None], axis=2)
        return np.where(fits.any(axis=1), fits.argmax(axis=1), self.horizon).astype(np.float64)

    def _describe_current(self, observation: DeferrableObservation, free: Floats) -> NDArray[np.float32]:
        """Return the numbers that tell of jobs whose window is open, one a row."""
        first, each = len(CURRENT_FEATURES), self.num_resources
        rows = np.zeros((self.max_jobs, first + 2 * each), np.float32)
        jobs = JobSet(observation.current.rows[: self.max_jobs])
        count, slot = len(jobs), observation.slot
        if count:
            requests = jobs.requests
            after = observation.used + requests
            delay = slot - jobs.earliest_start
            left = jobs.latest_start - slot
            worth = jobs.revenue - observation.delay_weight * delay
            counts = jobs.duration, left, delay, slot - jobs.submission_time, jobs.evictions
            shown = rows[:count]
            shown[:, 0] = 1.0
            shown[:, 1] = ((after <= observation.limit) | (requests <= 0)).all(axis=1)
            shown[:, 2] = self._until_fit(requests, free) / _FEW
            shown[:, 3] = np.clip(worth / self.scale.max(), -HIGHEST, HIGHEST)
            shown[:, 4] = worth > 0
            shown[:, 5:10] = compressed(np.stack(counts, axis=1))
            shown[:, 10:first] = np.minimum(np.stack(counts[:3], axis=1) / _FEW, 1.0)
            shown[:, first : first + each] = self._amounts(requests)
            shown[:, first + each :] = self._amounts(free[0] - requests)
        return rows

    def _describe_future(self, observation: DeferrableObservation, free: Floats) -> NDArray[np.float32]:
        """Return the numbers that tell of jobs whose window is to open, one a row."""
        first, each = len(FUTURE_FEATURES), self.num_resources
        rows = np.zeros((self.max_future_jobs, first + 2 * each), np.float32)
        jobs = JobSet(observation.future.rows[: self.max_future_jobs])
        count = len(jobs)
        if count:
            earliest, requests = jobs.earliest_start, jobs.requests
            counts = np.stack((earliest - observation.slot, jobs.latest_start - earliest + 1, jobs.duration), axis=1)
            shown = rows[:count]
            shown[:, 0] = 1.0
            shown[:, 1] = self._until_fit(requests, free) / _FEW
            shown[:, 2] = np.clip(jobs.revenue / self.scale.max(), -HIGHEST, HIGHEST)
            shown[:, 3:6] = compressed(counts)
            shown[:, 6:first] = np.minimum(counts[:, [2, 0, 1]] / _FEW, 1.0)
            shown[:, first : first + each] = self._amounts(requests)
            shown[:, first + each :] = self._amounts(free[0] - requests)
        return rows

    def _describe_history(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return the numbers that tell of the last slots, one a row."""
        first, each = len(HISTORY_FEATURES), self.num_resources
        rows = np.zeros((self.history, first + 4 * each), np.float32)
        count = min(self.history, observation.slot + 1)
        shown = rows[self.history - count :]
        jobs = observation.current_history[-count:]
        shown[:, 0] = 1.0
        shown[:, 1] = jobs[:, 0]
        shown[:, 3] = jobs[:, 1]
        if count > 1:
            shown[:-1, 2] = observation.started_history[1 - count :]
        shown[:, 1:first] = compressed(shown[:, 1:first])
        amounts = np.empty((count, 4, each))
        amounts[:, 0] = observation.capacity_history[-count:]
        if count > 1:
            amounts[:-1, 1] = observation.used_history[1 - count :]
        amounts[-1, 1] = observation.used
        amounts[:, 2] = np.maximum(amounts[:, 1] - amounts[:, 0], 0.0)
        amounts[:, 3] = jobs[:, 2:]
        shown[:, first:] = self._amounts(amounts).reshape(count, -1)
        return rows

    def _describe_system(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return the numbers that tell of the cluster."""
        result = np.empty(len(SYSTEM_FEATURES) + 3 * self.num_resources, np.float32)
        current, future = len(observation.current), len(observation.future)
        invisible = max(current - self.max_jobs, 0), max(future - self.max_future_jobs, 0)
        result[0] = observation.slot / observation.num_slots if observation.num_slots else 0.0
        result[1:6] = compressed((current, invisible[0], future, invisible[1], len(observation.running)))
        amounts = np.stack((observation.capacity, observation.used, observation.free))
        result[6:] = self._amounts(amounts).ravel()
        return result

    def _advised(
        self, observation: DeferrableObservation, current: NDArray[np.float32], future: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return rows of jobs with what is advised behind them."""
        assert self.advice is not None
        numbers = np.clip(self.advice.describe(observation), -HIGHEST, HIGHEST)
        known = len(observation.current)
        found = []
        for rows, told in ((current, numbers[:known]), (future, numbers[known:])):
            more = np.zeros((len(rows), numbers.shape[1]), np.float32)
            more[: len(told)] = told[: len(rows)]
            found.append(np.concatenate([rows, more], axis=1))
        return found[0], found[1]
