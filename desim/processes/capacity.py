"""Processes for fluctuating capacity: a series, changes at given times, and noise around a daily pattern.

A cluster for deferrable jobs takes one as its ``capacity``, or in ``processes=[...]``. The processes are short on
purpose: copy one and adapt it if your platform behaves differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, pairwise
from operator import itemgetter
from typing import Any, Protocol, overload

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float, check_int
from desim.core import Phase, Simulation, at
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.processes.arrivals import Arrivals
from desim.processes.endings import in_background

__all__ = [
    "CapacityProcess",
    "FluctuatingCluster",
    "Pattern",
    "TimeVarying",
    "mean_reverting_capacity",
    "replayed_capacity",
    "stepped_capacity",
]

Amounts = float | Sequence[float]
Floats = NDArray[np.float64]

_DAYS_OF_WEEK = 7
_FIRST_DAY_OF_WEEKEND = 5


class FluctuatingCluster(Protocol):
    """What a capacity process needs of a problem."""

    env: simpy.Environment
    simulation: Simulation
    resources: tuple[str, ...]

    def set_capacity(self, amounts: ArrayLike) -> None:
        """Set the capacity from now on, one number per resource."""


CapacityProcess = Callable[[FluctuatingCluster], Generator[simpy.Event, None, None] | Arrivals]
"""Factory of a SimPy process that sets the capacity, independently of the jobs, so that all agents get the same one."""


def replayed_capacity(series: ArrayLike, *, repeat: bool = False) -> CapacityProcess:
    """Return a process that sets the capacity of every slot from a series.

    Parameters
    ----------
    series : array_like of shape (num_slots,) or (num_slots, num_resources)
        Capacity of each slot, from slot 0 on.
    repeat : bool
        Whether to repeat the series after its end; otherwise the last value stays.

    Returns
    -------
    callable
        Process to pass as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If the series is empty, has a wrong number of dimensions, or contains a negative or infinite entry.

    Examples
    --------
    >>> from desim.agents.deferrable import FIFO
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> job = Job(1, submission_time=0, earliest_start=0, latest_start=3, duration=1, cores=2)
    >>> cluster = DeferrableCluster([job], replayed_capacity([0, 1, 2]))
    >>> simulate(cluster, FIFO()).jobs["starting_time"].to_list()
    [2.0]
    """
    table = checked_series(series)

    series_of_slots = _Slots(table, repeat)

    def run(cluster: FluctuatingCluster) -> Arrivals:
        """Set the capacity slot by slot."""
        return _changes(cluster, series_of_slots)

    return in_background(run)


class _Slots:
    """Iterable of the capacity of each slot, which may repeat."""

    def __init__(self, table: Floats, repeat: bool) -> None:
        self.table, self.repeat = table, repeat

    def __iter__(self) -> Iterator[tuple[int, Floats]]:
        return enumerate(cycle(self.table) if self.repeat else self.table)


def _changes(cluster: FluctuatingCluster, changes: Iterable[tuple[float, Any]]) -> Arrivals:
    """Return the process that applies changes (time, amounts) at their times."""
    return Arrivals(cluster.env, changes, itemgetter(0), partial(_change, cluster), Phase.CAPACITY)


def _change(cluster: FluctuatingCluster, change: tuple[float, Any]) -> None:
    cluster.set_capacity(change[1])


def stepped_capacity(steps: Iterable[tuple[float, Amounts]]) -> CapacityProcess:
    """Return a process that changes the capacity at given times.

    Parameters
    ----------
    steps : iterable of (time, amounts)
        Changes in order of time, in slots, the first at time 0. Amounts are one number, or one per resource.

    Returns
    -------
    callable
        Process to pass as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If there is no step at time 0, or the times are not ascending.
    """
    try:
        changes = tuple((float(time), amounts) for time, amounts in steps)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"steps: got {steps!r}, expected pairs (time, amounts)") from error
    if not changes or changes[0][0] != 0:
        raise InvalidConfiguration(f"steps: got {changes!r}, expected the first at time 0")
    for (before, _), (after, _) in pairwise(changes):
        if not before <= after < math.inf:
            raise InvalidConfiguration(f"steps: got time {after!r} after time {before!r}; sort the steps by time")

    def run(cluster: FluctuatingCluster) -> Arrivals:
        """Apply one change after another."""
        return _changes(cluster, changes)

    return in_background(run)


class TimeVarying(Protocol):
    """Rate or level that changes with time, such as a :class:`Pattern`."""

    @property
    def maximum(self) -> float:
        """Upper bound of the values."""

    def __call__(self, time: Any) -> Any:
        """Return the value at one time as a number, or at many times as an array."""


@dataclass(frozen=True)
class Pattern:
    """Daily pattern of a rate or level, with a different level on weekends.

    On a weekday the value is mean x (1 + amplitude x cos(2 pi (time - peak) / day_length)); on the sixth and seventh
    day of each week it is that times the weekend level.

    Parameters
    ----------
    mean : float
        Average over a weekday, at least 0.
    amplitude : float
        Deviation from the mean at the peak, as a fraction of the mean, from 0 to 1.
    peak : float
        Time of the maximum, in slots from the beginning of a day.
    day_length : float
        Number of slots per day, > 0; the default is 288 slots of 5 minutes.
    weekend_level : float
        Ratio of weekend values to weekday values, at least 0.
    first_weekday : int
        Day of the week that begins at time 0, from 0 (Monday) to 6 (Sunday).

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Examples
    --------
    >>> pattern = Pattern(100, amplitude=0.5, peak=14, day_length=24, weekend_level=0.6)
    >>> pattern(14), pattern(2), pattern(5 * 24 + 14)
    (150.0, 50.0, 90.0)
    """

    mean: float
    amplitude: float = 0.0
    peak: float = 0.0
    day_length: float = 288.0
    weekend_level: float = 1.0
    first_weekday: int = 0

    def __post_init__(self) -> None:
        check_float("the mean of a pattern", self.mean, least=0)
        check_float("the amplitude of a pattern", self.amplitude, least=0, most=1)
        check_float("the peak of a pattern", self.peak)
        check_float("the day_length of a pattern", self.day_length, above=0)
        check_float("the weekend_level of a pattern", self.weekend_level, least=0)
        check_int("the first_weekday of a pattern", self.first_weekday, least=0, most=_DAYS_OF_WEEK - 1)

    @overload
    def __call__(self, time: float) -> float: ...

    @overload
    def __call__(self, time: Sequence[float] | Floats) -> Floats: ...

    def __call__(self, time: ArrayLike) -> float | Floats:
        """Return the value at one or more times.

        Parameters
        ----------
        time : float or array_like
            Times in slots, which may be negative.

        Returns
        -------
        float or numpy.ndarray
            Value at the time, or at each of the times.
        """
        times = np.asarray(time, dtype=np.float64)
        phase = 2.0 * np.pi / self.day_length * (times - self.peak)
        day = np.floor(times / self.day_length) + self.first_weekday
        weekend = np.mod(day, _DAYS_OF_WEEK) >= _FIRST_DAY_OF_WEEKEND
        values = self.mean * (1.0 + self.amplitude * np.cos(phase)) * np.where(weekend, self.weekend_level, 1.0)
        return values if times.ndim else float(values)

    @property
    def maximum(self) -> float:
        """Maximum value."""
        return self.mean * (1.0 + self.amplitude) * max(1.0, self.weekend_level)

    @property
    def minimum(self) -> float:
        """Minimum value."""
        return self.mean * (1.0 - self.amplitude) * min(1.0, self.weekend_level)

    @property
    def average(self) -> float:
        """Average over a week."""
        weekdays = _FIRST_DAY_OF_WEEKEND
        return self.mean * (weekdays + (_DAYS_OF_WEEK - weekdays) * self.weekend_level) / _DAYS_OF_WEEK


def pattern_of(name: str, value: float | TimeVarying) -> TimeVarying:
    """Return a time-varying value unchanged, and a number as a constant pattern."""
    return value if callable(value) else Pattern(check_float(name, value, least=0))


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
    """Return a process in which the capacity fluctuates around a level and reverts to it.

    The capacity of slot t is level(t) + noise(t), where noise(t) = coefficient x noise(t - 1) + innovation(t) with
    independent normal innovations: an autoregressive process of order 1, which is the Ornstein-Uhlenbeck process
    sampled once per slot. It starts in its stationary distribution, so that no slot is special. Innovations come from
    the simulation's stream ``"capacity"``, one per slot, so that every agent gets the same capacity.

    Parameters
    ----------
    level : float, TimeVarying, or sequence of these
        Level that the capacity reverts to, such as a :class:`~desim.processes.Pattern`; one per resource.
    coefficient : float or sequence of float
        Fraction of the noise that remains one slot later, at least 0 and below 1; one number, or one per resource.
    deviation : float or sequence of float
        Standard deviation of the noise, at least 0; one number, or one per resource.
    relative : bool
        Whether the noise is a fraction of the level, level(t) x (1 + noise(t)), instead of in units of the resource.
    correlation : float
        Correlation between the noises of two resources, from 0 to 1.
    floor : float
        Lower bound of the capacity.
    whole : bool
        Whether to round the capacity to the nearest integer.

    Returns
    -------
    callable
        Process to pass as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the number of levels differs from the cluster's number of resources.

    Examples
    --------
    >>> from desim.problems.deferrable import DeferrableCluster, clairvoyant_view
    >>> cluster = DeferrableCluster([], mean_reverting_capacity(40, 0.9, 4), num_slots=6)
    >>> clairvoyant_view(cluster).capacity[:, 0].tolist()
    [36.0, 36.0, 36.0, 37.0, 35.0, 33.0]
    """
    levels = _levels_of(level)
    kept = _one_each("coefficient", coefficient, len(levels))
    if (kept >= 1).any():
        raise InvalidConfiguration(f"coefficient: got {coefficient!r}, expected numbers < 1")
    deviations = _one_each("deviation", deviation, len(levels))
    mix = _mixing(len(levels), check_float("correlation", correlation, least=0, most=1))
    if check_float("floor", floor, least=0) != int(floor) and whole:
        raise InvalidConfiguration(f"floor: got {floor!r}, expected an integer, as the capacity is, or whole=False")

    def run(cluster: FluctuatingCluster) -> Generator[simpy.Event, None, None]:
        """Set the capacity slot by slot."""
        if len(levels) != len(cluster.resources):
            raise InvalidConfiguration(f"level: got {len(levels)} levels, expected one for each of {cluster.resources}")
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
        raise InvalidConfiguration(f"level: got {level!r}, expected at least one")
    return [pattern_of(f"level {index}", value) for index, value in enumerate(level)]


def _one_each(name: str, values: ArrayLike, count: int) -> Floats:
    """Return numbers >= 0, one per resource."""
    table = numbers_of(name, values)
    if table.shape not in ((), (1,), (count,)):
        several = f" or {count} numbers" if count > 1 else ""
        raise InvalidConfiguration(f"{name}: got {values!r}, expected one number{several}")
    return np.broadcast_to(table, (count,))


def _mixing(count: int, correlation: float) -> Floats:
    """Return the symmetric root of a correlation matrix whose off-diagonal entries are all equal."""
    own = math.sqrt(1.0 - correlation)
    common: float = (math.sqrt(1.0 + (count - 1) * correlation) - own) / count
    return own * np.eye(count) + common


def checked_series(series: ArrayLike) -> NDArray[np.float64]:
    """Return a series as a table with one row per slot; raise if it is invalid."""
    table = numbers_of("capacity", series)
    if table.ndim not in (1, 2) or not table.size:
        raise InvalidConfiguration(f"capacity: got shape {table.shape}, expected one row per slot, and at least one")
    return table[:, None] if table.ndim == 1 else table


def numbers_of(name: str, values: ArrayLike) -> Floats:
    """Return finite numbers >= 0 as an array; raise if one is invalid."""
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{name}: got {values!r}, expected numbers: {error}") from error
    for place in np.argwhere(~((table >= 0) & (table < np.inf))).tolist():
        check_float(name + "".join(f"[{index}]" for index in place), float(table[tuple(place)]), least=0)
    table.flags.writeable = False
    return table


def amounts_of(amounts: ArrayLike, resources: Sequence[str], time: float) -> NDArray[np.float64]:
    """Return the amounts of a new capacity as an array; raise if they are invalid."""
    try:
        table = np.array(amounts, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"time {time}: new capacity: got {amounts!r}: {error}") from error
    if len(table) != len(resources):
        raise WorkloadError(f"time {time}: new capacity: got {amounts!r}, expected a number for each of {resources}")
    for name, amount in zip(resources, table.tolist(), strict=True):
        if not 0 <= amount < math.inf:
            raise WorkloadError(f"time {time}: new capacity of {name}: got {amount!r}, expected a number >= 0")
    table.flags.writeable = False
    return table
