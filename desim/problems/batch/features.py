"""Features of the jobs in the windows of many clusters, computed for all clusters at once.

An array operation on a few jobs takes as long as one on a few hundred. This module therefore computes the features of
:class:`~desim.problems.batch.encoders.FeatureEncoder` with one row per cluster. Rows are as long as the fullest
window; the values in their empty slots are never shown.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.observation import BatchObservation

if TYPE_CHECKING:
    from desim.problems.batch.encoders import SplitWindow

__all__ = ["CLUSTER_FEATURES", "JOB_FEATURES", "NEVER", "SCALE", "Windows", "scaled_log"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Truths = NDArray[np.bool_]

JOB_FEATURES = (
    "present",
    "requested_time",
    "requested_cores",
    "requested_cores_log",
    "waiting_time",
    "fits",
    "share_of_free_cores",
    "time_until_it_fits",
    "requested_time_over_shortest",
    "area_over_smallest",
    "delays_reservation",
    "from_tail",
)
"""Columns of ``jobs``; times and areas are logarithms of 1 + seconds or core-seconds, divided by 4."""

CLUSTER_FEATURES = (
    "free_cores",
    "queue_length",
    "invisible_jobs",
    "jobs_that_fit",
    "time_to_next_end",
    "running_load",
    "window_load",
    "oldest_waiting_time",
    "reserved_job",
    "reserved_time",
    "reserved_job_requested_time",
    "reserved_job_requested_cores",
)
"""Columns of ``cluster``; loads are in seconds of the entire cluster."""

SCALE = 0.25
"""Factor that scales logarithms of times, areas and numbers."""
NEVER = 1e7
"""Seconds that stand for the unknown time until cores that are down are repaired."""
_LONGEST = 1e300  # seconds, longer than any job
_FAR = 2.0**40  # more cores than any cluster; floats represent integers exactly up to 4,096 times this value


def scaled_log(value: float) -> float:
    """Return the scaled logarithm of 1 + a number."""
    return SCALE * math.log1p(value)


class Windows:
    """Jobs in the windows of N clusters, up to W per window.

    Parameters
    ----------
    windows : sequence of SplitWindow
        Window of each cluster.
    seen : sequence of BatchObservation
        Observation of a decision of each cluster.

    Attributes
    ----------
    counts : list of int
        Number of jobs in each window.
    cores, times : array of float, shape (N, W)
        Requested cores and requested times in seconds; empty slots request more than any cluster has.
    """

    def __init__(self, windows: Sequence[SplitWindow], seen: Sequence[BatchObservation]) -> None:
        self.windows, self.seen = windows, seen
        self._lengths = [len(one.queue) for one in seen]
        shown = [
            one.queue.numbers(window.index(length))
            for one, window, length in zip(seen, windows, self._lengths, strict=True)
        ]
        self.counts = [numbers.shape[1] for numbers in shown]
        block = np.empty((4, len(seen), max(*self.counts, 1)), np.int64)
        self._submitted, self.times = block[2:].view(np.float64)
        block[0], self._submitted[:], self.times[:] = _FAR, 0.0, _LONGEST
        for place, (count, numbers) in enumerate(zip(self.counts, shown, strict=True)):
            block[:, place, :count] = numbers
        self.cores = block[0].astype(np.float64)
        self._state = [(one.time, one.free_cores, one.num_cores) for one in seen]
        rows = [(now, free, free or 1, total, 1.0 / scaled_log(total)) for now, free, total in self._state]
        self._now, self._free, self._divisor, self._total, self._per_log = np.array(rows).T[:, :, None]

    def fitting(self) -> Truths:
        """Return which jobs request no more cores than are free, shape (N, W)."""
        fits: Truths = self.cores <= self._free
        return fits

    def describe(self, fits: Truths, jobs: Singles, cluster: Singles) -> None:
        """Write the features.

        Parameters
        ----------
        fits : array of bool, shape (N, W)
            Whether each job may start now.
        jobs : array of float, shape (N, S, 12)
            Output for the :data:`JOB_FEATURES`; empty slots become 0.
        cluster : array of float, shape (N, 12)
            Output for the :data:`CLUSTER_FEATURES`.
        """
        running = _Running(self.seen, self._now)
        until = running.time_until(self.cores, self._free)
        np.copyto(until, 0.0, where=fits)  # no waiting needed
        logs = np.empty((4, *fits.shape))
        logs[0], logs[1], logs[3] = self.times, self.cores, until
        np.subtract(self._now, self._submitted, out=logs[2])
        np.log1p(logs, out=logs)
        logs *= SCALE
        numbers = fits.sum(axis=1).tolist()
        bars, reserved = self._reserve(running, fits, numbers, until, logs)
        self._describe_jobs(fits, numbers, logs, bars, jobs)
        self._describe_clusters(numbers, running, cluster)
        cluster[:, 8:] = reserved

    def _describe_jobs(self, fits: Truths, numbers: list[int], logs: Floats, bars: Floats, jobs: Singles) -> None:
        """Write the features of jobs; comparisons with fitting jobs are 0 where no job fits."""
        width = fits.shape[1]
        shown = jobs[:, :width]
        shown[..., 0] = 1.0
        shown[..., 1] = logs[0]
        shown[..., 2] = self.cores / self._total
        shown[..., 3] = logs[1] * self._per_log
        shown[..., 4] = logs[2]
        shown[..., 5] = fits
        shown[..., 6] = fits * (self.cores / self._divisor)
        shown[..., 7] = logs[3]
        for column, values in ((8, logs[0]), (9, logs[0] + logs[1])):
            shown[..., column] = values - np.where(fits, values, np.inf).min(axis=1, keepdims=True)
        longer, start, spare = bars
        shown[..., 10] = fits & (self.times > longer) & (self._now + self.times > start) & (self.cores > spare)
        shown[..., 11] = 0.0
        for place, (number, count) in enumerate(zip(numbers, self.counts, strict=True)):
            jobs[place, count:] = 0.0
            if not number:
                jobs[place, :count, 8:10] = 0.0
            if self._lengths[place] > count:
                jobs[place, self.windows[place].head : count, 11] = 1.0

    def _reserve(
        self, running: _Running, fits: Truths, numbers: list[int], until: Floats, logs: Floats
    ) -> tuple[Floats, list[list[float]]]:
        """Plan a reservation for the shortest job of each window that does not fit.

        Return two things: the bounds that a fitting job exceeds if it delays the reserved job (requested time, end and
        cores, shape (3, N, 1)), and the features of the reservations.
        """
        places = np.arange(len(numbers))
        blocked = np.where(fits, np.inf, self.times).argmin(axis=1)  # the first of equal ones
        picked = np.array([self.times, self.cores, until, logs[3], logs[0]])[:, places, blocked].T.tolist()
        bars, shown = [], []
        for place, (time, cores, wait, wait_log, time_log) in enumerate(picked):
            if numbers[place] == self.counts[place]:
                bars.append((np.inf, np.inf, np.inf))
                shown.append([0.0, 0.0, 0.0, 0.0])
                continue
            now, free, total = self._state[place]
            start = now + wait
            bars.append((time, start, running.free_at(place, start, free) - cores))
            shown.append([1.0, wait_log, time_log, cores / total])
        return np.array(bars).T[:, :, None], shown

    def _describe_clusters(self, numbers: list[int], running: _Running, cluster: Singles) -> None:
        """Write the features of clusters except those of reservations, given how many jobs in each window fit."""
        amounts: list[float] = []
        for place, (number, count, length) in enumerate(zip(numbers, self.counts, self._lengths, strict=True)):
            now, _, total = self._state[place]
            asked = self.times[place, :count].dot(self.cores[place, :count])
            waited = now - self.seen[place].queue.head_submission if length else 0.0
            ahead = running.next_end(place), running.load(place) / total
            amounts += (length, length - count, number, *ahead, asked / total, waited)
        logs = np.array(list(map(math.log1p, amounts)))  # faster than an array operation, and the same bits as encode
        cluster[:, 0] = (self._free / self._total)[:, 0]
        cluster[:, 1:8] = SCALE * logs.reshape(len(numbers), -1)


class _Running:
    """Running jobs of N clusters by expected end, concatenated; a job that never ends follows those of each cluster.

    Levels are cumulative counts of the cores released. The job that never ends fills each cluster up to far more cores
    than it has, so that a single search in the levels serves all clusters.
    """

    def __init__(self, seen: Sequence[BatchObservation], now: Floats) -> None:
        self.ends: list[float] = []
        cores: list[float] = []
        self.bounds = [0]
        for one in seen:
            first = len(cores)
            one.running.list_into(self.ends, cores)
            self.ends.append(math.inf)
            cores.append(_FAR - sum(cores[first:]))
            self.bounds.append(len(cores))
        self.cores = np.array(cores)
        self.levels = self.cores.cumsum()
        first_places = np.array(self.bounds)
        self.firsts, behind = first_places[:-1, None], first_places[1:]
        self.remaining = np.array(self.ends)
        self.remaining -= np.repeat(now[:, 0], behind - first_places[:-1])
        np.maximum(self.remaining, 0.0, out=self.remaining)
        self.remaining[behind - 1] = NEVER

    def time_until(self, cores: Floats, free: Floats) -> Floats:
        """Return the seconds until a given number of cores is free if nothing starts, shape (N, W).

        Parameters
        ----------
        cores : array of float, shape (N, W)
            Numbers of cores.
        free : array of float, shape (N, 1)
            Free cores now.
        """
        wanted = cores + (np.arange(len(free))[:, None] * _FAR - free)
        places = np.maximum(self.levels.searchsorted(wanted), self.firsts)
        until: Floats = self.remaining[places]
        return until

    def free_at(self, place: int, time: float, free: int) -> float:
        """Return how many cores of a cluster are free at a time if nothing starts, given how many are now."""
        first, last = self.bounds[place], self.bounds[place + 1] - 1
        if first == last:
            return free
        behind = bisect_right(self.ends, time, first, last)
        if behind == first:  # rounding has put the time just before the first end: count all cores as released
            behind = last
        return free + float(self.levels[behind - 1]) - place * _FAR

    def next_end(self, place: int) -> float:
        """Return the seconds until the first running job of a cluster ends; 0 if none is running."""
        first, last = self.bounds[place : place + 2]
        return float(self.remaining[first]) if first < last - 1 else 0.0

    def load(self, place: int) -> float:
        """Return the remaining core-seconds of the running jobs of a cluster."""
        part = slice(self.bounds[place], self.bounds[place + 1] - 1)
        return float(self.remaining[part].dot(self.cores[part]))
