"""Which jobs are started or evicted: an agent's answer is checked, and what has to go is found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InfeasibleAction
from desim.problems.deferrable.job_set import REQUESTS
from desim.problems.deferrable.observation import DeferrableObservation

__all__ = ["newest_to_evict", "positions_of"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def positions_of(action: Any, observation: DeferrableObservation, *, overcommit: bool) -> Indices:
    """Return an agent's answer as an array of positions in ``observation.current``.

    Parameters
    ----------
    action : sequence of int, or None
        The answer.
    observation : DeferrableObservation
        What was asked.
    overcommit : bool
        Whether jobs may be started beyond the capacity.

    Returns
    -------
    numpy.ndarray of int64
        In the order of the answer.

    Raises
    ------
    InfeasibleAction
        If it is no sequence of whole numbers, there is no such job, one is started twice, or one does not fit.
    """
    if action is None:
        return np.empty(0, dtype=np.int64)
    time, current = observation.slot, observation.current
    try:
        positions = np.asarray(action)
    except ValueError:  # of sequences of unequal length
        positions = np.zeros((0, 0))
    if positions.size == 0 and positions.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "ui":
        raise InfeasibleAction(
            f"time {time}: the answer is {action!r}, want the positions in current of the jobs to be started, or None"
        )
    if positions.min() < 0 or positions.max() >= len(current):
        wrong = positions[(positions < 0) | (positions >= len(current))][0]
        raise InfeasibleAction(f"time {time}: position {wrong} is to be started, and there are {len(current)} jobs")
    if len(np.unique(positions)) < len(positions):
        values, counts = np.unique(positions, return_counts=True)
        job_id = current.job_id[values[counts > 1][0]]
        raise InfeasibleAction(f"time {time}: job {job_id} is to be started twice")
    if not overcommit:
        _check_fit(positions, observation)
    return positions.astype(np.int64)


def _check_fit(positions: Indices, observation: DeferrableObservation) -> None:
    """Raise unless jobs fit beside those that run, those before them included."""
    requests = observation.current.requests[positions]
    after = observation.used + np.cumsum(requests, axis=0)
    # a job that needs nothing of a resource fits however much others hold of it
    over = ((after > observation.limit) & (requests > 0)).any(axis=1)
    if over.any():
        place = int(over.argmax())
        free = observation.capacity - after[place] + requests[place]
        raise InfeasibleAction(
            f"time {observation.slot}: job {observation.current.job_id[positions[place]]} requests "
            f"{_listed(requests[place], observation)} and {_listed(free, observation)} are free"
        )


def _listed(amounts: Floats, observation: DeferrableObservation) -> str:
    return ", ".join(f"{a:.12g} {name}" for a, name in zip(amounts.tolist(), observation.resources, strict=True))


def newest_to_evict(running: Floats, limit: Floats) -> Indices:
    """Return which running jobs must go until the others fit: those that were started last go first.

    A job stays if it holds nothing of what is short.

    Parameters
    ----------
    running : numpy.ndarray
        Rows of the jobs, in the order of their starts.
    limit : numpy.ndarray of shape (num_resources,)
        What they may hold together.

    Returns
    -------
    numpy.ndarray of int64
        Positions in ``running``, ascending.
    """
    requests = running[:, REQUESTS:]
    excess = requests.sum(axis=0) - limit
    chosen = []
    for position in range(len(running) - 1, -1, -1):
        if not (excess > 0).any():
            break
        if (requests[position][excess > 0] > 0).any():
            chosen.append(position)
            excess = excess - requests[position]
    return np.array(chosen[::-1], dtype=np.int64)
