"""What a patient rule would do, for imitation: actions for encoded observations of a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.envs import ACTION_MASK
from desim.envs.dag import CANDIDATE_FEATURES, FIXED_FEATURES, JOB_FEATURES

__all__ = ["EXPERTS", "patient"]

Arrays = dict[str, NDArray[Any]]
Keys = Callable[[Arrays, NDArray[Any], NDArray[Any]], NDArray[Any]]


def patient(observations: Arrays, keys: Keys, slack: float) -> NDArray[Any]:
    """Return the first candidate, by an order, that an idle executor finishes about as soon as any other would.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Of :class:`desim.envs.dag.GraphEncoder` with ``only_idle``.
    keys : callable
        Returns the keys of candidates given the observations, the rows and the jobs and nodes of the candidates.
    slack : float
        A node is held back if the best idle executor takes longer than so many times the time that it would take on
        the best of all, waiting for that one included.

    Returns
    -------
    array of int, shape (B,)
        Candidates, or to wait. Where waiting is impossible, the node that loses least.
    """
    mask = observations[ACTION_MASK]
    possible = mask[:, :-1].astype(bool)
    at = np.maximum(observations["candidate_nodes"], 0).astype(np.int64)
    rows = np.arange(len(mask))[:, None]
    order = keys(observations, rows, at)
    delay = observations["candidates"][:, :, CANDIDATE_FEATURES.index("delay")]
    soon = possible & (delay <= np.log(slack) + 1e-6)
    chosen = np.where(soon, order, np.inf).argmin(1)
    least = np.where(possible, delay, np.inf).argmin(1)
    wait = np.where(mask[:, -1] > 0, possible.shape[1], least)
    result: NDArray[Any] = np.where(soon.any(1), chosen, wait)
    return result


def highest_rank(observations: Arrays, rows: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return minus the upward ranks, shape (B, C), as compressed in the observation."""
    column = FIXED_FEATURES.index("rank_up")
    ranks: NDArray[Any] = observations["nodes"][rows, at[:, :, 0], at[:, :, 1], column]
    return -ranks


def least_work(observations: Arrays, rows: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return the time that is left of each candidate's job, less a hundredth of its rank, shape (B, C)."""
    left = observations["jobs"][rows, at[:, :, 0], JOB_FEATURES.index("unassigned_time")].astype(float)
    ranks = -highest_rank(observations, rows, at).astype(float)
    keys: NDArray[Any] = np.expm1(4.0 * left) - 0.01 * np.expm1(4.0 * ranks)
    return keys


EXPERTS: dict[str, Callable[[Arrays], NDArray[Any]]] = {
    "makespan": partial(patient, keys=highest_rank, slack=1.0),
    "completion_time": partial(patient, keys=least_work, slack=1.35),
}
"""By objective."""
