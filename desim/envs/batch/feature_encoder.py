"""Features of the jobs in a window and of the cluster, the same for clusters of all sizes."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays
from desim.envs.batch.window import SplitWindow, WindowEncoder
from desim.problems.batch import BatchObservation

__all__ = ["CLUSTER_FEATURES", "JOB_FEATURES", "SCALE", "FeatureEncoder"]

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
"""The columns of ``jobs``: times and areas as logarithms, of 1 + seconds or core-seconds, over 4."""

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
"""The columns of ``cluster``; loads are in seconds of the whole machine."""

SCALE = 0.25
"""What logarithms of times, areas and numbers are multiplied with."""
_NEVER = 1e7  # seconds; cores that are down


class FeatureEncoder(WindowEncoder):
    """Features of each job in the window, beside a summary of the cluster.

    A network that scores every job with the same weights can use them for windows and clusters of any
    size. "Reserved" is the shortest job in the window that does not fit: a longer job delays it if it would still
    run, on cores that it needs, when it could start (as in EASY back-filling over the shortest first).

    Parameters
    ----------
    window : SplitWindow
        Which jobs are seen.
    slots : int, optional
        Slots of the arrays, S; as many as the window has, M, if left out.
    reserve_after : float
        Once the oldest queued job has waited for so long, in seconds, jobs that would delay it are not possible; they
        are shown as jobs that do not fit.
    """

    def __init__(self, window: SplitWindow, slots: int | None = None, *, reserve_after: float = math.inf) -> None:
        slots = window.size if slots is None else slots
        shapes = {"jobs": (slots, len(JOB_FEATURES)), "cluster": (len(CLUSTER_FEATURES),)}
        box = gymnasium.spaces.Box
        super().__init__(
            window,
            {name: box(-100.0, 100.0, shape, np.float32) for name, shape in shapes.items()},
            slots,
            reserve_after,
        )

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return ``jobs``, shape (S, 12), ``cluster``, shape (12,), and the mask, shape (S + 1,).

        Parameters
        ----------
        observation : BatchObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            The columns are :data:`JOB_FEATURES` and :data:`CLUSTER_FEATURES`; empty slots are 0.
        """
        queue, time, free, total = observation.queue, observation.time, observation.free_cores, observation.num_cores
        length, size = len(queue), self.window.size
        index, positions = self.window.index(length), self.window.positions(length)
        count = len(positions)
        cores, times = queue.requested_cores[index], queue.requested_time[index]
        waits = time - queue.submission_time[index]
        fits = self.possible(observation, positions, cores, times)
        fitting = fits.nonzero()[0]
        running = observation.running
        ends, released = running.expected_end, running.requested_cores.cumsum()
        remaining = _remaining(ends, time)
        load = float(remaining[:-1] @ running.requested_cores)
        released += free
        until = remaining[released.searchsorted(cores)]  # the time until each job would fit if nothing else started
        until[fits] = 0.0
        logs = np.empty((4, count))
        logs[0], logs[1], logs[2], logs[3] = times, cores, waits, until
        np.log1p(logs, out=logs)
        logs *= SCALE
        rows = np.zeros((len(JOB_FEATURES), self.slots), np.float32)
        shown = rows[:, :count]
        shown[0] = 1.0
        shown[1] = logs[0]
        shown[2] = cores / total
        shown[3] = logs[1] * (1.0 / (SCALE * math.log1p(total)))
        shown[4] = logs[2]
        shown[5] = fits
        shown[7] = logs[3]
        if len(fitting):
            areas = logs[0] + logs[1]
            shown[6] = fits * (cores / free)
            shown[8] = logs[0] - np.minimum.reduce(logs[0, fitting])
            shown[9] = areas - np.minimum.reduce(areas[fitting])
        reservation = [0.0, 0.0, 0.0, 0.0]
        if len(fitting) < count:
            blocked = int(np.where(fits, np.inf, times).argmin())
            reserved = time + until[blocked]
            spare = released[int(ends.searchsorted(reserved, "right")) - 1] if len(ends) else free
            late = fits & (times > times[blocked]) & (time + times > reserved)
            shown[10] = late & (cores > spare - cores[blocked])
            reservation = [1.0, logs[3, blocked], logs[0, blocked], cores[blocked] / total]
        if length > size:
            shown[11, self.window.head :] = 1.0
        cluster = [
            free / total,
            _log(length),
            _log(max(length - size, 0)),
            _log(len(fitting)),
            _log(max(ends[0] - time, 0.0)) if len(ends) else 0.0,
            _log(load / total),
            _log(float(times @ cores) / total),
            _log(time - queue.submission_time[0]) if length else 0.0,
            *reservation,
        ]
        return {
            "jobs": np.ascontiguousarray(rows.T),
            "cluster": np.array(cluster, np.float32),
            ACTION_MASK: self.mask(fits),
        }


def _log(value: float) -> float:
    return SCALE * math.log1p(value)


def _remaining(ends: NDArray[np.float64], time: float) -> NDArray[np.float64]:
    """Return the time until each expected end, in seconds, and at last the time that stands for never."""
    remaining = np.empty(len(ends) + 1)
    remaining[-1] = _NEVER
    np.maximum(np.subtract(ends, time, out=remaining[:-1]), 0.0, out=remaining[:-1])
    return remaining
