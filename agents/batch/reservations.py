"""Orders and backfilling where cores are announced to be away: in reservations of maintenance, or for somebody else.

A job starts only where it leaves the reservations alone if it runs for as long as it requests. Everything is decided on
a profile of free cores in which running jobs and reservations have their places.
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
    """Return the jobs that start now and end before reservations take their cores, by requested times.

    Parameters
    ----------
    observation : BatchObservation
        L jobs are queued.
    order : array of int, shape (L,)
        Their positions, first to last.
    blocked : {"stops", "reserves", "waits"}
        What the first job that cannot start means for those behind it: that none may start, that they may where its
        earliest place in the profile stays free, as in EASY, or nothing.

    Returns
    -------
    list of int, or None
        Ids; None if no job starts.
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
            if reserved is not None:  # else cores are down, and nobody knows for how long
                profile.take(reserved)
            blocked = "waits"
    return started or None


def fits_now(profile: AvailabilityProfile, cores: int, end: float) -> bool:
    """Tell whether enough cores stay free from the beginning of a profile to a time.

    Parameters
    ----------
    profile : AvailabilityProfile
        Whose beginning is now.
    cores : int
        How many.
    end : float
        In seconds.

    Returns
    -------
    bool
        Whether they do.
    """
    points = zip(profile.times, profile.free, strict=True)
    return profile.free[0] >= cores and all(free >= cores for time, free in points if time < end)
