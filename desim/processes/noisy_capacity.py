"""Capacity that fluctuates at random around a daily pattern, as a SimPy process."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim.core import Phase, at
from desim.exceptions import InvalidConfiguration
from desim.processes._background import in_background
from desim.processes.capacity import CapacityProcess, FluctuatingCluster
from desim.processes.patterns import TimeVarying, checked_number, pattern_of

__all__ = ["mean_reverting_capacity"]

Floats = NDArray[np.float64]


def mean_reverting_capacity(
    level: float | TimeVarying | Sequence[float | TimeVarying],
    coefficient: ArrayLike,
    deviation: ArrayLike,
    *,
    relative: bool = False,
    correlation: float = 0.0,
    floor: float = 0.0,
    whole: bool = True,
) -> CapacityProcess:
    """Return a process in which the capacity wanders around a level and is drawn back to it.

    The capacity of slot t is level(t) + noise(t), where noise(t) = coefficient x noise(t - 1) + innovation(t) with
    independent normal innovations: an autoregressive process of order 1, which is the Ornstein-Uhlenbeck process seen
    once a slot. It begins in its stationary law, so that no slot is special. Innovations come from the simulation's
    stream ``"capacity"``, one draw a slot, so that every agent faces the same capacity.

    Parameters
    ----------
    level : float, TimeVarying, or sequence of these
        What the capacity is drawn back to, such as a :class:`~desim.processes.Pattern`; one for each resource.
    coefficient : float or sequence of float
        How much of the noise is left one slot later, at least 0 and below 1; one number, or one for each resource.
    deviation : float or sequence of float
        Standard deviation of the noise, at least 0; one number, or one for each resource.
    relative : bool
        Take the noise as a share of the level, level(t) x (1 + noise(t)), instead of in units of the resource.
    correlation : float
        Between the noises of two resources, from 0 to 1.
    floor : float
        The capacity never falls below this.
    whole : bool
        Round the capacity to the nearest whole number.

    Returns
    -------
    callable
        To be passed as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or there are not as many levels as the cluster has resources.

    Examples
    --------
    >>> from desim.problems.deferrable import DeferrableCluster, foresee
    >>> cluster = DeferrableCluster([], mean_reverting_capacity(40, 0.9, 4), num_slots=6)
    >>> foresee(cluster).capacity[:, 0].tolist()
    [36.0, 36.0, 36.0, 37.0, 35.0, 33.0]
    """
    levels = _levels_of(level)
    kept = _one_each("coefficient", coefficient, len(levels))
    if (kept >= 1).any():
        raise InvalidConfiguration(f"coefficient is {coefficient!r}, want numbers below 1")
    deviations = _one_each("deviation", deviation, len(levels))
    mix = _mixing(len(levels), checked_number("correlation", correlation, most=1.0))
    if checked_number("floor", floor) != int(floor) and whole:
        raise InvalidConfiguration(f"floor is {floor!r}, want a whole number, as the capacity is, or whole=False")

    def run(cluster: FluctuatingCluster) -> Generator[simpy.Event, None, None]:
        """Set one slot's capacity after the other."""
        if len(levels) != len(cluster.resources):
            raise InvalidConfiguration(
                f"the capacity has {len(levels)} levels, want one for each of {cluster.resources}"
            )
        env, rng = cluster.env, cluster.simulation.stream("capacity")
        slot = math.ceil(env.now)
        noise = mix @ rng.standard_normal(len(levels))  # of variance 1
        while True:
            means = np.array([mean(slot) for mean in levels], dtype=np.float64)
            amounts = means + deviations * noise * (means if relative else 1.0)
            cluster.set_capacity(np.maximum(np.rint(amounts) if whole else amounts, floor))
            slot += 1
            yield at(env, slot, Phase.CAPACITY)
            noise = kept * noise + np.sqrt(1.0 - kept**2) * (mix @ rng.standard_normal(len(levels)))

    return in_background(run)


def _levels_of(level: Any) -> list[TimeVarying]:
    if callable(level) or isinstance(level, str) or np.ndim(level) == 0:
        return [pattern_of("level", level)]
    if len(level) == 0:
        raise InvalidConfiguration(f"level is {level!r}, want at least one")
    return [pattern_of(f"level {index}", value) for index, value in enumerate(level)]


def _one_each(name: str, values: ArrayLike, count: int) -> Floats:
    """Return numbers of at least 0, one a resource."""
    try:
        table: Floats = np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (count,)))
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{name} is {values!r}, want one number or {count}") from error
    if not ((table >= 0) & (table < np.inf)).all():
        raise InvalidConfiguration(f"{name} is {values!r}, want finite numbers from 0 on")
    return table


def _mixing(count: int, correlation: float) -> Floats:
    """Return the symmetric root of a correlation matrix whose entries off the diagonal are all the same."""
    own = math.sqrt(1.0 - correlation)
    common: float = (math.sqrt(1.0 + (count - 1) * correlation) - own) / count
    return own * np.eye(count) + common
