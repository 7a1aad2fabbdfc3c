"""What a patient rule would do, for imitation: actions for encoded observations of a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.envs import ACTION_MASK
from desim.problems.dag.features import CANDIDATE_FEATURES, PROMPT, SOON

__all__ = ["EXPERTS", "patient"]

Arrays = dict[str, NDArray[Any]]

_DELAY = CANDIDATE_FEATURES.index("delay")


def patient(observations: Arrays, order: str, most_delay: float) -> NDArray[Any]:
    """Return the first candidate, by an order, that an idle executor finishes about as soon as any other would.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Of :class:`desim.problems.dag.graph_encoder.GraphEncoder`.
    order : str
        The feature of a candidate that is least for the first one.
    most_delay : float
        A node is held back if the logarithm of the ratio of the time that it takes on the best idle executor to that on
        the best of all, waiting for that one included, is larger.

    Returns
    -------
    array of int, shape (B,)
        Candidates, or to wait. Where waiting is impossible, the node that loses least. Unless nodes are kept back until
        an executor is idle, none loses anything.
    """
    candidates = observations["candidates"]
    room = candidates.shape[1]
    mask = observations[ACTION_MASK]
    possible = mask[:, :room].astype(bool)
    delay = candidates[:, :, _DELAY]
    soon = possible & (delay <= most_delay)
    chosen = np.where(soon, candidates[:, :, CANDIDATE_FEATURES.index(order)], np.inf).argmin(1)
    least = np.where(possible, delay, np.inf).argmin(1)
    wait = np.where(mask[:, room:].any(1), room, least)
    result: NDArray[Any] = np.where(soon.any(1), chosen, wait)
    return result


EXPERTS: dict[str, Callable[[Arrays], NDArray[Any]]] = {
    "makespan": partial(patient, order="before_by_rank", most_delay=PROMPT),
    "completion_time": partial(patient, order="before_by_work", most_delay=SOON),
}
"""By objective."""
