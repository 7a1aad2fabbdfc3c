"""Fluctuating capacity as SimPy processes: a series, changes at given times, and noise around a daily pattern.

Each is given to a cluster for deferrable jobs as its ``capacity``, or added to ``processes=[...]``. They are short on
purpose: copy one and change it where your platform behaves in another way.
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
        """Let the capacity be this much from now on, one number for each resource."""


CapacityProcess = Callable[[FluctuatingCluster], Generator[simpy.Event, None, None] | Arrivals]
"""Makes a SimPy process that sets the capacity; it must not look at the jobs, so that all agents face the same one."""


def replayed_capacity(series: ArrayLike, *, repeat: bool = False) -> CapacityProcess:
    """Return a process that sets the capacity of every slot from a series.

    Parameters
    ----------
    series : array_like of shape (num_slots,) or (num_slots, num_resources)
        The capacity of each slot, from slot 0 on.
    repeat : bool
        Begin again after the last one; otherwise that one stays.

    Returns
    -------
    callable
        To be passed as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If the series is empty, has another number of dimensions, or an entry is negative or not finite.

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
        """Set one slot's capacity after the other."""
        return _changes(cluster, series_of_slots)

    return in_background(run)


class _Slots:
    """The capacity of each slot, which may begin again after the last one."""

    def __init__(self, table: Floats, repeat: bool) -> None:
        self.table, self.repeat = table, repeat

    def __iter__(self) -> Iterator[tuple[int, Floats]]:
        return enumerate(cycle(self.table) if self.repeat else self.table)


def _changes(cluster: FluctuatingCluster, changes: Iterable[tuple[float, Any]]) -> Arrivals:
    """Return the process that makes changes (time, amounts) at their times."""
    return Arrivals(cluster.env, changes, itemgetter(0), partial(_change, cluster), Phase.CAPACITY)


def _change(cluster: FluctuatingCluster, change: tuple[float, Any]) -> None:
    cluster.set_capacity(change[1])


def stepped_capacity(steps: Iterable[tuple[float, Amounts]]) -> CapacityProcess:
    """Return a process that changes the capacity at given times.

    Parameters
    ----------
    steps : iterable of (time, amounts)
        In order of time, in slots; the first at time 0. Amounts are a number, or one for each resource.

    Returns
    -------
    callable
        To be passed as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If there is no step at time 0, or the times are out of order.
    """
    try:
        changes = tuple((float(time), amounts) for time, amounts in steps)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"the steps of the capacity are {steps!r}, want pairs (time, amounts)") from error
    if not changes or changes[0][0] != 0:
        raise InvalidConfiguration(f"the steps of the capacity are {changes!r}, want the first at time 0")
    for (before, _), (after, _) in pairwise(changes):
        if not before <= after < math.inf:
            raise InvalidConfiguration(f"the capacity changes at time {after!r} after time {before!r}: sort the steps")

    def run(cluster: FluctuatingCluster) -> Arrivals:
        """Make one change after the other."""
        return _changes(cluster, changes)

    return in_background(run)


class TimeVarying(Protocol):
    """What a process needs to know of a rate or a level that changes with time: a :class:`Pattern` is one."""

    @property
    def maximum(self) -> float:
        """A bound that it never exceeds."""

    def __call__(self, time: Any) -> Any:
        """Return it at one time, a number, or at many, an array."""


@dataclass(frozen=True)
class Pattern:
    """A rate or a level that goes up and down once a day and is another one on weekends.

    On a weekday it is mean x (1 + amplitude x cos(2 pi (time - peak) / day_length)), and on the sixth and the seventh
    day of each week that times the weekend level.

    Parameters
    ----------
    mean : float
        Its average over a weekday, at least 0.
    amplitude : float
        By how much it rises above that average each day, and falls below it, as a share of it: from 0 to 1.
    peak : float
        When it is highest, in slots from the beginning of a day.
    day_length : float
        Slots that a day has, above 0; 288 of 5 minutes each.
    weekend_level : float
        Its level on weekends, as a multiple of that on weekdays, at least 0.
    first_weekday : int
        Day of the week in which time 0 is, from 0, a Monday, to 6; the day begins at time 0.

    Raises
    ------
    InvalidConfiguration
        If one of them is out of range.

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
        """Return its value.

        Parameters
        ----------
        time : float or array_like
            In slots; may be before 0.

        Returns
        -------
        float or numpy.ndarray
            At that time, or at each of those.
        """
        times = np.asarray(time, dtype=np.float64)
        phase = 2.0 * np.pi / self.day_length * (times - self.peak)
        day = np.floor(times / self.day_length) + self.first_weekday
        weekend = np.mod(day, _DAYS_OF_WEEK) >= _FIRST_DAY_OF_WEEKEND
        values = self.mean * (1.0 + self.amplitude * np.cos(phase)) * np.where(weekend, self.weekend_level, 1.0)
        return values if times.ndim else float(values)

    @property
    def maximum(self) -> float:
        """The highest value that it takes."""
        return self.mean * (1.0 + self.amplitude) * max(1.0, self.weekend_level)

    @property
    def minimum(self) -> float:
        """The lowest value that it takes."""
        return self.mean * (1.0 - self.amplitude) * min(1.0, self.weekend_level)

    @property
    def average(self) -> float:
        """Its average over a week."""
        weekdays = _FIRST_DAY_OF_WEEKEND
        return self.mean * (weekdays + (_DAYS_OF_WEEK - weekdays) * self.weekend_level) / _DAYS_OF_WEEK


def pattern_of(name: str, value: float | TimeVarying) -> TimeVarying:
    """Return what changes with time as it is, and a number as a pattern that stays."""
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
    >>> from desim.problems.deferrable import DeferrableCluster, clairvoyant_view
    >>> cluster = DeferrableCluster([], mean_reverting_capacity(40, 0.9, 4), num_slots=6)
    >>> clairvoyant_view(cluster).capacity[:, 0].tolist()
    [36.0, 36.0, 36.0, 37.0, 35.0, 33.0]
    """
    levels = _levels_of(level)
    kept = _one_each("coefficient", coefficient, len(levels))
    if (kept >= 1).any():
        raise InvalidConfiguration(f"coefficient is {coefficient!r}, want numbers below 1")
    deviations = _one_each("deviation", deviation, len(levels))
    mix = _mixing(len(levels), check_float("correlation", correlation, least=0, most=1))
    if check_float("floor", floor, least=0) != int(floor) and whole:
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
    table = numbers_of(name, values)
    if table.shape not in ((), (1,), (count,)):
        raise InvalidConfiguration(f"{name} is {values!r}, want one number or {count}")
    return np.broadcast_to(table, (count,))


def _mixing(count: int, correlation: float) -> Floats:
    """Return the symmetric root of a correlation matrix whose entries off the diagonal are all the same."""
    own = math.sqrt(1.0 - correlation)
    common: float = (math.sqrt(1.0 + (count - 1) * correlation) - own) / count
    return own * np.eye(count) + common


def checked_series(series: ArrayLike) -> NDArray[np.float64]:
    """Return a series as a table with one row a slot, or say what is wrong with it."""
    table = numbers_of("capacity", series)
    if table.ndim not in (1, 2) or not table.size:
        raise InvalidConfiguration(f"capacity has shape {table.shape}, want one row a slot, and at least one")
    return table[:, None] if table.ndim == 1 else table


def numbers_of(name: str, values: ArrayLike) -> Floats:
    """Return finite numbers of at least 0 as an array, or say which is none."""
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{name} is {values!r}, want numbers: {error}") from error
    for place in np.argwhere(~((table >= 0) & (table < np.inf))).tolist():
        check_float(name + "".join(f"[{index}]" for index in place), float(table[tuple(place)]), least=0)
    table.flags.writeable = False
    return table


def amounts_of(amounts: ArrayLike, resources: Sequence[str], time: float) -> NDArray[np.float64]:
    """Return what a capacity is set to as an array, or say what is wrong with it."""
    try:
        table = np.array(amounts, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"time {time}: the capacity is set to {amounts!r}: {error}") from error
    if len(table) != len(resources):
        raise WorkloadError(f"time {time}: the capacity is set to {amounts!r}, want a number for each of {resources}")
    for name, amount in zip(resources, table.tolist(), strict=True):
        if not 0 <= amount < math.inf:
            raise WorkloadError(f"time {time}: the capacity of {name} is set to {amount!r}, want a number from 0 on")
    table.flags.writeable = False
    return table
