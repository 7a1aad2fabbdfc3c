"""What rules would do, for imitation: actions for encoded observations of a window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.envs import ACTION_MASK
from desim.envs.batch import CLUSTER_FEATURES, JOB_FEATURES, SCALE
from desim.exceptions import InvalidConfiguration

__all__ = ["EXPERTS", "reserving", "shortest"]


def shortest(observations: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the slots of the shortest jobs that fit, for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Flat ones or features.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job fits.
    """
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    column = JOB_FEATURES.index("requested_time") if "cluster" in observations else 1
    return _least(observations["jobs"][:, :, column], mask)


def reserving(observations: dict[str, NDArray[Any]], horizon: float = 3600.0) -> NDArray[Any]:
    """Return what the rule "reserving" does, for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Features.
    horizon : float
        In seconds.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job fits, or all would delay the reserved one.

    Raises
    ------
    InvalidConfiguration
        If the observations are flat.
    """
    if "cluster" not in observations:
        raise InvalidConfiguration("the rule 'reserving' needs features: use 'shortest' with the flat observation")
    jobs, cluster = observations["jobs"], observations["cluster"]
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    soon = cluster[:, CLUSTER_FEATURES.index("reserved_job")] > 0
    soon &= cluster[:, CLUSTER_FEATURES.index("reserved_time")] < SCALE * np.log1p(horizon)
    mask &= ~(soon[:, None] & (jobs[:, :, JOB_FEATURES.index("delays_reservation")] > 0))
    return _least(jobs[:, :, JOB_FEATURES.index("requested_time")], mask)


def _least(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    slots: NDArray[Any] = np.where(mask.any(1), np.where(mask, values, np.inf).argmin(1), mask.shape[1])
    return slots


EXPERTS = {"shortest": shortest, "reserving": reserving}
