"""Strict orders and backfilling around advance reservations, which take cores for maintenance or for other users.

A job starts only if, by its requested time, it uses no cores of an advance reservation. All decisions use a profile of
free cores that contains the running jobs and the advance reservations.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.profile import AvailabilityProfile, Reservation
from desim.problems.batch import BatchObservation

__all__ = ["fits_now", "start_around_reservations"]


def start_around_reservations(
    observation: BatchObservation, order: NDArray[np.int64], blocked: Literal["stops", "reserves", "waits"]
) -> list[int] | None:
    """Return the jobs to start now, which respect all advance reservations by their requested times.

    Parameters
    ----------
    observation : BatchObservation
        Observation with L queued jobs.
    order : array of int, shape (L,)
        Positions of the queued jobs, first to last.
    blocked : {"stops", "reserves", "waits"}
        Effect of the first job that cannot start on later ones: none may start; they may start if they do not delay
        its earliest reservation, as in EASY; or no effect.

    Returns
    -------
    list of int, or None
        Ids of the jobs; None if no job starts.
    """
    profile, queue, time = AvailabilityProfile.of_running(observation), observation.queue, observation.time
    free, started = observation.free_cores, []
    for position in order.tolist():
        job_id, cores, requested = queue.job_at(position)
        if cores <= free and fits_now(profile, cores, time + requested):
            profile.take(Reservation(time, time + requested, cores, 0))
            free -= cores
            started.append(job_id)
            continue
        if blocked == "stops":
            break
        if blocked == "reserves":
            reserved = profile.fit(cores, requested)
            if reserved is not None:  # otherwise cores are down for an unknown time
                profile.take(reserved)
            blocked = "waits"
    return started or None


def fits_now(profile: AvailabilityProfile, cores: int, end: float) -> bool:
    """Return whether enough cores stay free from the beginning of a profile until a given time.

    Parameters
    ----------
    profile : AvailabilityProfile
        Profile that begins now.
    cores : int
        Number of cores.
    end : float
        End of the interval in seconds.

    Returns
    -------
    bool
        True if they stay free.
    """
    points = zip(profile.times, profile.free, strict=True)
    return profile.free[0] >= cores and all(free >= cores for time, free in points if time < end)
