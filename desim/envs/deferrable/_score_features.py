"""What a score encoder tells of jobs, capacity and the past."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from desim.envs.scaling import compressed
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation, JobSet
from desim.problems.deferrable.observation import TOLERANCE

__all__ = ["CURRENT_FEATURES", "FUTURE_FEATURES", "HIGHEST", "HISTORY_FEATURES", "SYSTEM_FEATURES", "ScoreFeatures"]

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


class ScoreFeatures:
    """Describes observations as arrays; the base of :class:`~desim.envs.deferrable.ScoreEncoder`.

    Parameters
    ----------
    sizes : tuple of int
        Rows for current jobs, resources, rows for future jobs, slots of the past, slots ahead.
    scale : float or sequence of float
        Amounts are divided by it.

    Raises
    ------
    InvalidConfiguration
        If a size or the scale is out of range.
    """

    def __init__(self, sizes: tuple[int, int, int, int, int], scale: float | Sequence[float]) -> None:
        if min(sizes) < 1:
            raise InvalidConfiguration(
                f"max_jobs, num_resources, max_future_jobs, history, horizon are {sizes!r}, want at least 1 of each"
            )
        self.max_jobs, self.num_resources, self.max_future_jobs, self.history, self.horizon = map(int, sizes)
        self.scale: Floats = np.asarray(scale, dtype=np.float64)
        wanted = (), (self.num_resources,)
        if self.scale.shape not in wanted or not ((self.scale > 0) & (self.scale < np.inf)).all():
            raise InvalidConfiguration(f"scale is {scale!r}, want a number above 0, or one for each resource")

    def _amounts(self, amounts: Floats) -> Floats:
        """Return amounts of each resource over their scale, within bounds."""
        scaled = amounts / self.scale
        return np.minimum(np.maximum(scaled, -HIGHEST, out=scaled), HIGHEST, out=scaled)

    def free_ahead(self, observation: DeferrableObservation) -> Floats:
        """Return what running jobs leave in the next slots of the capacity as it is, shape (horizon, K)."""
        running = observation.running
        runs_on = running.finish_time > observation.slot + np.arange(self.horizon)[:, None]
        return observation.capacity - runs_on @ running.requests

    def _until_fit(self, requests: Floats, free: Floats) -> Floats:
        """Return in how many slots there will be enough free; the horizon if not within it."""
        enough = (free + TOLERANCE * np.maximum(free, 1.0))[None] >= requests[:, None]
        fits: NDArray[np.bool_] = np.all(enough | (requests <= 0)[:, None], axis=2)
        return np.where(fits.any(axis=1), fits.argmax(axis=1), self.horizon).astype(np.float64)

    def describe_current(self, observation: DeferrableObservation, free: Floats) -> NDArray[np.float32]:
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
            shown[:, 3] = _within(worth / self.scale.max())
            shown[:, 4] = worth > 0
            shown[:, 5:10] = compressed(np.stack(counts, axis=1))
            shown[:, 10:first] = np.minimum(np.stack(counts[:3], axis=1) / _FEW, 1.0)
            shown[:, first : first + each] = self._amounts(requests)
            shown[:, first + each :] = self._amounts(free[0] - requests)
        return rows

    def describe_future(self, observation: DeferrableObservation, free: Floats) -> NDArray[np.float32]:
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
            shown[:, 2] = _within(jobs.revenue / self.scale.max())
            shown[:, 3:6] = compressed(counts)
            shown[:, 6:first] = np.minimum(counts[:, [2, 0, 1]] / _FEW, 1.0)
            shown[:, first : first + each] = self._amounts(requests)
            shown[:, first + each :] = self._amounts(free[0] - requests)
        return rows

    def describe_history(self, observation: DeferrableObservation) -> NDArray[np.float32]:
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

    def describe_system(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return the numbers that tell of the cluster."""
        result = np.empty(len(SYSTEM_FEATURES) + 3 * self.num_resources, np.float32)
        current, future = len(observation.current), len(observation.future)
        invisible = max(current - self.max_jobs, 0), max(future - self.max_future_jobs, 0)
        result[0] = observation.slot / observation.num_slots if observation.num_slots else 0.0
        result[1:6] = compressed((current, invisible[0], future, invisible[1], len(observation.running)))
        amounts = np.stack((observation.capacity, observation.used, observation.free))
        result[6:] = self._amounts(amounts).ravel()
        return result


def _within(amounts: Floats) -> Floats:
    """Return amounts within bounds."""
    return np.minimum(np.maximum(amounts, -HIGHEST), HIGHEST)
