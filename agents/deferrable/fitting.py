"""Which jobs of an order fit into what is free, now and as long as they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable import JobSet

__all__ = ["first_fitting"]

Floats = NDArray[np.float64]


def first_fitting(jobs: JobSet, order: NDArray[np.int64], room: Floats, *, skip: bool) -> list[int]:
    """Return the positions of the jobs that fit, each beside those before it.

    Parameters
    ----------
    jobs : JobSet
        The jobs.
    order : numpy.ndarray of int64
        Positions in which they are tried.
    room : numpy.ndarray of shape (num_slots, num_resources)
        What is free in this slot and in later ones. A job that runs longer is checked against what there is.
    skip : bool
        Pass over what does not fit; if not, stop there.

    Returns
    -------
    list of int
        Positions, in order.
    """
    if room.shape == (1, 1):
        return _first_fitting_now(jobs.cores[order].tolist(), order.tolist(), float(room[0, 0]), skip)
    room = room.copy()
    requests, durations = jobs.requests, jobs.duration.astype(np.int64)
    chosen = []
    for position in order.tolist():
        # a job that holds nothing of a resource does not mind if that is short
        held = room[: durations[position]]
        if (held - requests[position] >= 0)[:, requests[position] > 0].all():
            held -= requests[position]
            chosen.append(position)
        elif not skip:
            break
    return chosen


def _first_fitting_now(requests: list[float], order: list[int], free: float, skip: bool) -> list[int]:
    """Do the same for one resource and for this slot alone."""
    chosen = []
    for position, request in zip(order, requests, strict=True):
        if request <= free:
            free -= request
            chosen.append(position)
        elif not skip:
            break
    return chosen
