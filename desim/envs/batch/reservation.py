"""A reservation for the oldest queued job, which keeps a learned agent from starving anybody.

As in EASY back-filling (Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995), others may then start only where they
do not delay that job, by requested times.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch import BatchObservation

__all__ = ["allowed_beside_oldest", "earliest_start"]


def allowed_beside_oldest(
    observation: BatchObservation,
    positions: NDArray[np.int64],
    cores: NDArray[np.int64],
    times: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Tell which jobs may start without delaying the first job of the queue, shape (n,).

    Parameters
    ----------
    observation : BatchObservation
        A decision; its queue is not empty.
    positions, cores : array of int, shape (n,)
        Queue positions and requested cores of the jobs in question.
    times : array of float, shape (n,)
        Their requested times in seconds.

    Returns
    -------
    array of bool, shape (n,)
        False for a job that does not fit into the free cores. Where the first job fits itself, nothing else may start
        that would take its cores.
    """
    fits = cores <= observation.free_cores
    start = earliest_start(observation, observation.queue.head_cores)
    if start is None:  # nothing delays the job further
        return fits
    begin, spare = start
    allowed: NDArray[np.bool_] = (observation.time + times <= begin) | (cores <= spare) | (positions == 0)
    return allowed & fits


def earliest_start(observation: BatchObservation, cores: int) -> tuple[float, int] | None:
    """Return when a job could start if nothing else did, and how many cores are then left beside it.

    Parameters
    ----------
    observation : BatchObservation
        A decision.
    cores : int
        Requested cores of the job.

    Returns
    -------
    tuple of float and int, or None
        The time in seconds, by requested times, and the cores; None if cores are down, and nobody knows for how long.
    """
    free, running = observation.free_cores, observation.running
    if cores <= free:
        return observation.time, free - cores
    released = running.requested_cores.cumsum() + free
    place = int(released.searchsorted(cores))
    if place == len(released):
        return None
    begin = max(float(running.expected_end[place]), observation.time)
    return begin, int(released[int(running.expected_end.searchsorted(begin, "right")) - 1]) - cores
