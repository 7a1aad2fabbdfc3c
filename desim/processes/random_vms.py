"""On-demand virtual machines that arrive at random, in batches, more of them by day than by night."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.processes.capacity import CapacityProcess, FluctuatingCluster
from desim.processes.on_demand import Amounts, Batch, OnDemand, hosted, total_of
from desim.processes.patterns import TimeVarying, checked_number, pattern_of

__all__ = ["on_demand_vms"]

Floats = NDArray[np.float64]

#: Draws an array of a given length.
Sampler = Callable[[np.random.Generator, int], ArrayLike]

# Part of what a seed means: another value gives other VMs.
_BLOCK = 1024


def on_demand_vms(
    total: ArrayLike,
    arrivals: float | TimeVarying,
    lifetime: float | Sampler,
    *,
    sizes: ArrayLike = 1.0,
    probabilities: ArrayLike | None = None,
    batch_size: int | Sampler = 1,
    warm_up: float = 0.0,
    listener: Callable[[OnDemand], None] | None = None,
) -> CapacityProcess:
    """Return a process in which on-demand VMs arrive at random and leave the rest of a platform to deferrable jobs.

    Batches of VMs arrive in a Poisson process, whose rate may change with time: arrivals at its highest rate are drawn,
    and kept with the probability that the rate of their time is of the highest one (thinning; Lewis and Shedler, 1979).
    Each VM of a batch draws its size and its lifetime for itself, takes what it needs if that is free, and is turned
    away otherwise. So without batches this is an Erlang loss system, M/G/c/c, or M/G/infinity on a large platform.

    Arrivals, batch sizes, sizes and lifetimes have random streams of their own below the simulation's stream
    ``"capacity"``: every agent faces the same VMs, and other sizes leave the arrivals as they are.

    Parameters
    ----------
    total : float or sequence of float
        What the platform has, one number for each of the cluster's resources.
    arrivals : float or TimeVarying
        Batches a slot, such as a :class:`~desim.processes.Pattern`.
    lifetime : float or callable
        In slots: the mean of an exponential distribution, or a function of a random generator and a count that draws
        so many, each at least 0; they may be infinite.
    sizes : array_like of shape (num_sizes,) or (num_sizes, num_resources)
        What VMs take of each resource.
    probabilities : array_like of shape (num_sizes,), optional
        How frequent each size is, adding up to 1; all are equally so if None.
    batch_size : int or callable
        VMs of a batch, at least 1: a number, or a function of a random generator and a count that draws so many.
    warm_up : float
        VMs arrive from so many slots before time 0 on. Without it the platform is empty as the run begins; a multiple
        of the longest lifetimes begins it in its usual state.
    listener : callable, optional
        Called with the live :class:`OnDemand` of each simulation as it begins, which counts what is turned away.

    Returns
    -------
    callable
        To be passed as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, at once or when it is drawn from.

    Examples
    --------
    >>> from desim.problems.deferrable import DeferrableCluster, foresee
    >>> from desim.processes.patterns import Pattern
    >>> rate = Pattern(2.0, amplitude=0.6, peak=14, day_length=24)
    >>> vms = on_demand_vms(100, rate, 5.0, sizes=[1, 2, 4, 8], probabilities=[0.6, 0.2, 0.1, 0.1], warm_up=48)
    >>> foresee(DeferrableCluster([], vms, num_slots=6)).capacity[:, 0].tolist()
    [82.0, 83.0, 82.0, 86.0, 87.0, 94.0]
    """
    amounts = total_of(total)
    rate = pattern_of("arrivals", arrivals)
    checked_number("the maximum of arrivals", rate.maximum)
    table = _sizes_of(sizes, len(amounts))
    chances = _chances_of(probabilities, len(table))
    lifetimes, batch_sizes = _lifetimes_of(lifetime), _batch_sizes_of(batch_size)
    first = -checked_number("warm_up", warm_up)

    def batches(cluster: FluctuatingCluster) -> Iterator[Batch]:
        """Draw the batches of one simulation."""
        rngs = cluster.simulation.stream("capacity").spawn(4)
        lives = _drawn("lifetime", lifetimes, rngs[3])
        counts = _drawn("batch_size", batch_sizes, rngs[1], whole=True)
        chosen = _drawn("sizes", lambda rng, count: rng.choice(len(table), count, p=chances), rngs[2])
        needs = (table[int(index)] for index in chosen)
        for times, end in _thinned(rate, rngs[0], first):
            for time in times:
                count = int(next(counts))
                lives_and_needs = zip(islice(lives, count), islice(needs, count), strict=True)
                yield time, [(time + life, need) for life, need in lives_and_needs]
            if not times:
                yield end, []  # the clock goes on however long nobody comes

    return hosted(amounts, batches, listener)


def _thinned(rate: TimeVarying, rng: np.random.Generator, time: float) -> Iterator[tuple[list[float], float]]:
    """Yield the arrivals of one stretch of time after the other, and when each ends."""
    highest = rate.maximum
    while highest > 0:
        candidates = time + np.cumsum(rng.exponential(1.0 / highest, _BLOCK))
        rates = np.asarray(rate(candidates), dtype=np.float64)
        if rates.shape != candidates.shape:
            raise InvalidConfiguration(f"arrivals gave an array of shape {rates.shape}, want {candidates.shape}")
        wrong = np.flatnonzero(~((rates >= 0) & (rates <= highest * (1.0 + 1e-9))))
        if len(wrong):
            rate_there, there = float(rates[wrong[0]]), float(candidates[wrong[0]])
            raise InvalidConfiguration(
                f"arrivals is {rate_there!r} at time {there!r}, want a number from 0 to its maximum {highest!r}"
            )
        time = float(candidates[-1])
        yield candidates[rng.random(_BLOCK) * highest < rates].tolist(), time


def _drawn(name: str, sampler: Sampler, rng: np.random.Generator, *, whole: bool = False) -> Iterator[float]:
    """Draw numbers from 0 on without end, or whole ones from 1 on, many at a time."""

    def block() -> list[float]:
        values = np.asarray(sampler(rng, _BLOCK), dtype=np.float64)
        if values.shape != (_BLOCK,):
            raise InvalidConfiguration(f"{name} gave an array of shape {values.shape}, want ({_BLOCK},)")
        good = (values >= 1) & (values < np.inf) & (values == np.floor(values)) if whole else values >= 0
        if not good.all():
            wanted = "whole numbers of at least 1" if whole else "numbers from 0 on"
            raise InvalidConfiguration(f"{name} gave {float(values[~good][0])!r}, want {wanted}")
        drawn: list[float] = values.tolist()
        return drawn

    return chain.from_iterable(iter(block, None))


def _lifetimes_of(lifetime: Any) -> Sampler:
    if callable(lifetime):
        return lifetime  # type: ignore[no-any-return]
    mean = checked_number("lifetime", lifetime)
    return lambda rng, count: rng.exponential(mean, count)


def _batch_sizes_of(batch_size: Any) -> Sampler:
    if callable(batch_size):
        return batch_size  # type: ignore[no-any-return]
    number = checked_number("batch_size", batch_size, least=1.0)
    if number != math.floor(number):
        raise InvalidConfiguration(f"batch_size is {batch_size!r}, want a whole number of at least 1")
    return lambda rng, count: np.full(count, number)


def _sizes_of(sizes: ArrayLike, num_resources: int) -> list[Amounts]:
    """Return what VMs of each size take of each resource."""
    try:
        table = np.array(sizes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"sizes is {sizes!r}, want a number for each size and resource: {error}") from error
    if table.ndim < 2:
        table = table.reshape(-1, 1)
    if table.ndim > 2 or not len(table) or table.shape[1] != num_resources:
        raise InvalidConfiguration(f"sizes is {sizes!r}, want a row for each size of as many numbers as total has")
    if not ((table >= 0) & (table < np.inf)).all():
        raise InvalidConfiguration(f"sizes is {sizes!r}, want finite numbers from 0 on")
    return [tuple(row) for row in table.tolist()]


def _chances_of(probabilities: ArrayLike | None, num_sizes: int) -> Floats | None:
    if probabilities is None:
        return None
    try:
        table = np.array(probabilities, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"probabilities is {probabilities!r}, want numbers: {error}") from error
    if table.shape != (num_sizes,) or not (table >= 0).all() or not math.isclose(table.sum(), 1.0, abs_tol=1e-6):
        raise InvalidConfiguration(
            f"probabilities is {probabilities!r}, want {num_sizes} numbers from 0 on that add up to 1"
        )
    chances: Floats = table / table.sum()
    return chances
