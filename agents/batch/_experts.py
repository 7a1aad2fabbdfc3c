"""What rules would do, for imitation: actions for encoded observations of a window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.window_rules import AGE_POWER
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.encoders import CLUSTER_FEATURES, JOB_FEATURES, SCALE

__all__ = ["EXPERTS", "aged", "reserving", "shortest"]


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
    _check_features(observations, "reserving")
    jobs, cluster = observations["jobs"], observations["cluster"]
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    soon = cluster[:, CLUSTER_FEATURES.index("reserved_job")] > 0
    soon &= cluster[:, CLUSTER_FEATURES.index("reserved_time")] < SCALE * np.log1p(horizon)
    mask &= ~(soon[:, None] & (jobs[:, :, JOB_FEATURES.index("delays_reservation")] > 0))
    return _least(jobs[:, :, JOB_FEATURES.index("requested_time")], mask)


def aged(observations: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return what the rule "aged" does, for imitation; the reservation for the oldest job is the environment's.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Features.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job may start.

    Raises
    ------
    InvalidConfiguration
        If the observations are flat.
    """
    _check_features(observations, "aged")
    jobs = observations["jobs"].astype(float)
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    times, waits = (jobs[:, :, JOB_FEATURES.index(name)] for name in ("requested_time", "waiting_time"))
    return _least(times - AGE_POWER * waits, mask)


def _check_features(observations: dict[str, NDArray[Any]], rule: str) -> None:
    if "cluster" not in observations:
        raise InvalidConfiguration(f"the rule {rule!r} needs features: use 'shortest' with the flat observation")


def _least(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    slots: NDArray[Any] = np.where(mask.any(1), np.where(mask, values, np.inf).argmin(1), mask.shape[1])
    return slots


EXPERTS = {"shortest": shortest, "reserving": reserving, "aged": aged}
