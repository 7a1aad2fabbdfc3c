"""A reservation for the oldest queued job, which keeps a learned agent from starving anybody.

As in EASY back-filling (Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995), others may then start only where they
do not delay that job, by requested times.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch import BatchObservation

__all__ = ["allowed_beside_oldest"]


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
    free, needed = observation.free_cores, observation.queue.head_cores
    running = observation.running
    released = running.requested_cores.cumsum()
    released += free
    if needed <= free:
        begin, spare = observation.time, free - needed
    else:
        place = int(released.searchsorted(needed))
        if place == len(released):  # cores are down, and nobody knows for how long: nothing delays the job further
            return cores <= free
        begin = running.expected_end[place]
        spare = int(released[int(running.expected_end.searchsorted(begin, "right")) - 1]) - needed
    allowed: NDArray[np.bool_] = (observation.time + times <= begin) | (cores <= spare) | (positions == 0)
    return allowed & (cores <= free)
