"""On-demand virtual machines (VMs), which take priority and leave the remaining capacity to deferrable jobs.

A VM takes its cores when it arrives, if no other VM uses them, and releases them when it leaves; deferrable jobs never
block it. At the same instant, departures come before arrivals. VMs are replayed from records, or arrive at random in
batches, with a daily pattern.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from operator import add, attrgetter, le, sub
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float, check_int
from desim.core import Phase, at, schedule_at
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.processes.capacity import CapacityProcess, FluctuatingCluster, TimeVarying, numbers_of, pattern_of
from desim.processes.endings import in_background

__all__ = ["OnDemand", "OnDemandVM", "on_demand_vms", "replayed_vms"]

Floats = NDArray[np.float64]
Amounts = tuple[float, ...]

#: Arrival time of a batch of VMs, and for each VM its departure time and its amount of each resource.
Batch = tuple[float, list[tuple[float, Amounts]]]

#: Function that returns the batches of one simulation in order of time.
Batches = Callable[[FluctuatingCluster], Iterator[Batch]]

#: Tolerance for rounding errors of fractional amounts: a VM fits if at most this fraction of the platform is missing.
_TOLERANCE = 1e-9

_NO_MORE: Batch = (math.inf, [])


class OnDemandVM(Protocol):
    """Record of a VM; it also has an attribute per resource, by name, such as ``cores``."""

    @property
    def start(self) -> float:
        """Arrival time in slots; may be negative."""

    @property
    def end(self) -> float:
        """Departure time in slots; may be infinite."""


class OnDemand:
    """On-demand VMs of one simulation; a live object that must not be changed.

    At any time, num_initial + num_arrived = num_present + num_departed + num_turned_away.

    Parameters
    ----------
    env : simpy.Environment
        Environment of the simulation.
    total : tuple of float
        Capacity of the platform, per resource.

    Attributes
    ----------
    total : tuple of float
        Capacity of the platform, per resource.
    free : tuple of float
        Capacity that VMs currently leave free, per resource.
    num_initial : int
        Number of VMs present at the start of the simulation.
    num_arrived : int
        Number of VMs that arrived since.
    num_turned_away : int
        Number of those rejected because too little was free.
    num_departed : int
        Number of VMs that left.
    turned_away_work : tuple of float
        Amount times duration of the rejected VMs, per resource, such as core-slots.
    """

    def __init__(self, env: simpy.Environment, total: Amounts) -> None:
        self.total = total
        self.free = total
        self.num_initial = 0
        self.num_arrived = 0
        self.num_turned_away = 0
        self.num_departed = 0
        self.turned_away_work: Amounts = (0.0,) * len(total)
        self._env = env
        self._slack = tuple(_TOLERANCE * amount for amount in total)

    def __repr__(self) -> str:
        """Return the numbers of present, arrived and rejected VMs as text."""
        return (
            f"<{self.num_present} on-demand VMs of {self.num_initial} + {self.num_arrived}, "
            f"{self.num_turned_away} turned away>"
        )

    @property
    def num_present(self) -> int:
        """Number of VMs present now."""
        return self.num_initial + self.num_arrived - self.num_turned_away - self.num_departed

    @property
    def capacity(self) -> Amounts:
        """Capacity that VMs leave free per resource, without negative rounding errors."""
        return tuple(max(0.0, amount) for amount in self.free)

    def arrive(self, time: float, end: float, amounts: Amounts) -> None:
        """Admit a VM if enough is free now, otherwise turn it away.

        Parameters
        ----------
        time, end : float
            Arrival time, which is now, and departure time, in slots.
        amounts : tuple of float
            Amount that the VM takes of each resource.
        """
        self.num_arrived += 1
        if end <= time:  # such a VM takes nothing, not even for an instant
            self.num_departed += 1
        elif not self._take(amounts):
            self.num_turned_away += 1
            work = (amount * (end - time) if amount else 0.0 for amount in amounts)  # the end may be infinite
            self.turned_away_work = tuple(map(add, self.turned_away_work, work))
        else:
            self._stay_until(end, amounts)

    def begin(self, batches: Iterator[Batch]) -> Batch:
        """Process the batches before time 0, which the clock does not cover, and return the next batch."""
        present: list[tuple[float, Amounts]] = []  # a heap
        time, vms = next(batches, _NO_MORE)
        while time < 0:
            self._release(present, time)
            for vm in vms:
                if self._take(vm[1]):
                    heapq.heappush(present, vm)
            time, vms = next(batches, _NO_MORE)
        self._release(present, 0.0)
        self.num_initial = len(present)
        for end, amounts in sorted(present):
            self._stay_until(end, amounts)
        return time, vms

    def _take(self, amounts: Amounts) -> bool:
        free = self.free
        if not all(map(le, amounts, free)) and not all(map(le, amounts, map(add, free, self._slack))):
            return False
        self.free = tuple(map(sub, free, amounts))
        return True

    def _release(self, present: list[tuple[float, Amounts]], time: float) -> None:
        while present and present[0][0] <= time:
            self.free = tuple(map(add, self.free, heapq.heappop(present)[1]))

    def _stay_until(self, end: float, amounts: Amounts) -> None:
        if end < math.inf:
            # Because of rounding, the clock may be slightly past the end.
            at(self._env, max(end, self._env.now), Phase.COMPLETION, amounts).callbacks.append(self._leave)

    def _leave(self, event: simpy.Event) -> None:
        """Release the amounts that a VM held, which are the value of the event."""
        self.num_departed += 1
        held: Any = event.value
        self.free = tuple(map(add, self.free, held)) if self.num_present else self.total


def _hosted(total: Amounts, batches: Batches, listener: Callable[[OnDemand], None] | None) -> CapacityProcess:
    """Return a process in which VMs come and go, and which sets the capacity once per slot."""

    def run(cluster: FluctuatingCluster) -> Generator[simpy.Event, None, None]:
        """Admit VMs, and schedule a departure event for each."""
        if len(total) != len(cluster.resources):
            raise InvalidConfiguration(f"total: got {total}, expected a number for each of {cluster.resources}")
        env = cluster.env
        platform = OnDemand(env, total)
        if listener is not None:
            listener(platform)
        source = batches(cluster)
        time, vms = platform.begin(source)
        slot = math.ceil(env.now)
        tick = simpy.Event(env)
        while True:
            while time <= env.now:
                for end, amounts in vms:
                    platform.arrive(time, end, amounts)
                time, vms = next(source, _NO_MORE)
            if slot <= env.now:
                cluster.set_capacity(platform.capacity)
                slot += 1
            tick.callbacks = []  # the event is reused
            schedule_at(tick, min(time, slot), Phase.CAPACITY)
            yield tick

    return in_background(run)


def replayed_vms(
    total: ArrayLike, vms: Iterable[OnDemandVM], *, listener: Callable[[OnDemand], None] | None = None
) -> CapacityProcess:
    """Return a process that replays on-demand VMs and leaves the remaining capacity to deferrable jobs.

    Parameters
    ----------
    total : float or sequence of float
        Capacity of the platform, one number per resource of the cluster.
    vms : iterable of OnDemandVM
        VMs in order of their starts. They are read one ahead of the clock, so memory depends on the VMs present. VMs
        that are alive at time 0 arrive at time 0; VMs that have ended by then are skipped.
    listener : callable, optional
        Called at the start of each simulation with its live :class:`OnDemand`, which counts rejected VMs.

    Returns
    -------
    callable
        Process to pass as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If the total is out of range or does not match the cluster's resources, or the VMs are an iterator and would
        have to be read again.
    WorkloadError
        During the run, if a VM is out of order, ends before it starts, or lacks a resource.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from desim.problems.deferrable import DeferrableCluster, clairvoyant_view
    >>> class VM(NamedTuple):
    ...     start: float
    ...     end: float
    ...     cores: int
    >>> vms = [VM(-7.0, 2.0, 4), VM(1.2, 3.9, 2), VM(2.5, 4.0, 12)]
    >>> platforms = []
    >>> cluster = DeferrableCluster([], replayed_vms(10, vms, listener=platforms.append), num_slots=5)
    >>> clairvoyant_view(cluster).capacity[:, 0].tolist()
    [6.0, 6.0, 8.0, 8.0, 10.0]
    >>> platforms[-1].num_turned_away, platforms[-1].turned_away_work
    (1, (18.0,))
    """
    used_up = False

    def batches(cluster: FluctuatingCluster) -> Iterator[Batch]:
        """Yield the batches of VMs, reading the VMs again."""
        nonlocal used_up
        if used_up:
            raise InvalidConfiguration("vms: got an iterator, which can be read only once; pass a list")
        used_up = isinstance(vms, Iterator)
        return _batches(vms, cluster.resources)

    return _hosted(_total_of(total), batches, listener)


def _batches(vms: Iterable[OnDemandVM], resources: tuple[str, ...]) -> Iterator[Batch]:
    """Yield a batch for each VM that is alive at time 0 or later."""
    start_and_end, amounts_of = attrgetter("start", "end"), attrgetter(*resources)
    alone = len(resources) == 1
    last = -math.inf
    for vm in vms:
        try:
            start, end = map(float, start_and_end(vm))
            found: Any = amounts_of(vm)
            amounts = (float(found),) if alone else tuple(map(float, found))
        except (AttributeError, TypeError, ValueError) as error:
            raise WorkloadError(f"on-demand VM {vm!r}: {error}") from error
        if not last <= start < math.inf:
            raise WorkloadError(
                f"on-demand VM {vm!r} starts at {start!r}, after one at {last!r}; sort the VMs by start"
            )
        if not end >= start:
            raise WorkloadError(f"on-demand VM {vm!r} ends at {end!r}, before its start at {start!r}")
        for amount in amounts:
            if not 0 <= amount < math.inf:
                raise WorkloadError(f"on-demand VM {vm!r}: amount: got {amount!r}, expected a number >= 0")
        last = start
        if end > 0 or start >= 0:
            yield max(start, 0.0), [(end, amounts)]


#: Function that samples an array of a given length.
Sampler = Callable[[np.random.Generator, int], ArrayLike]

# Number of values sampled at once. It affects the random numbers: with another value, a seed gives other VMs.
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
    """Return a process in which on-demand VMs arrive at random and leave the remaining capacity to deferrable jobs.

    Batches of VMs arrive in a Poisson process whose rate may change with time. Arrivals are sampled at the maximum rate
    and accepted with probability rate / maximum (thinning; Lewis and Shedler, 1979). Each VM of a batch samples its
    size and lifetime independently. It takes what it needs if that is free, and is turned away otherwise. Without
    batches this is an Erlang loss system, M/G/c/c, or M/G/infinity on a large platform.

    Arrivals, batch sizes, sizes and lifetimes have separate random streams below the simulation's stream
    ``"capacity"``: every agent gets the same VMs, and a change of the sizes leaves the arrivals unchanged.

    Parameters
    ----------
    total : float or sequence of float
        Capacity of the platform, one number per resource of the cluster.
    arrivals : float or TimeVarying
        Rate of batches per slot; a number, or for example a :class:`~desim.processes.Pattern`.
    lifetime : float or callable
        Lifetimes in slots: the mean of an exponential distribution, or a function of a random generator and a count
        that samples the given number of values >= 0, which may be infinite.
    sizes : array_like of shape (num_sizes,) or (num_sizes, num_resources)
        Possible amounts of each resource that a VM takes.
    probabilities : array_like of shape (num_sizes,), optional
        Probability of each size, with sum 1; equal if None.
    batch_size : int or callable
        Number of VMs per batch, at least 1: a number, or a function of a random generator and a count.
    warm_up : float
        Length of the warm-up in slots: VMs arrive from this time before 0 on. Without it the platform is empty at the
        start; a multiple of the longest lifetimes starts it in its steady state.
    listener : callable, optional
        Called at the start of each simulation with its live :class:`OnDemand`, which counts rejected VMs.

    Returns
    -------
    callable
        Process to pass as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range; sampled values are checked when they are used.

    Examples
    --------
    >>> from desim.problems.deferrable import DeferrableCluster, clairvoyant_view
    >>> from desim.processes.capacity import Pattern
    >>> rate = Pattern(2.0, amplitude=0.6, peak=14, day_length=24)
    >>> vms = on_demand_vms(100, rate, 5.0, sizes=[1, 2, 4, 8], probabilities=[0.6, 0.2, 0.1, 0.1], warm_up=48)
    >>> clairvoyant_view(DeferrableCluster([], vms, num_slots=6)).capacity[:, 0].tolist()
    [82.0, 83.0, 82.0, 86.0, 87.0, 94.0]
    """
    amounts = _total_of(total)
    rate = pattern_of("arrivals", arrivals)
    check_float("the maximum of arrivals", rate.maximum, least=0)
    table = _sizes_of(sizes, len(amounts))
    chances = _chances_of(probabilities, len(table))
    lifetimes = lifetime if callable(lifetime) else _exponential(check_float("lifetime", lifetime, least=0))
    batch_sizes = batch_size if callable(batch_size) else _always(check_int("batch_size", batch_size, least=1))
    first = -check_float("warm_up", warm_up, least=0)

    def batches(cluster: FluctuatingCluster) -> Iterator[Batch]:
        """Yield the batches of one simulation."""
        rngs = cluster.simulation.stream("capacity").spawn(4)
        lives = _drawn("lifetime", lifetimes, rngs[3])
        counts = _drawn("batch_size", batch_sizes, rngs[1], counts=True)
        chosen = _drawn("sizes", lambda rng, count: rng.choice(len(table), count, p=chances), rngs[2])
        needs = (table[int(index)] for index in chosen)
        for times, end in _thinned(rate, rngs[0], first):
            for time in times:
                count = int(next(counts))
                lives_and_needs = zip(islice(lives, count), islice(needs, count), strict=True)
                yield time, [(time + life, need) for life, need in lives_and_needs]
            if not times:
                yield end, []  # so that the clock advances even if no VM arrives for long

    return _hosted(amounts, batches, listener)


def _thinned(rate: TimeVarying, rng: np.random.Generator, time: float) -> Iterator[tuple[list[float], float]]:
    """Yield the arrivals of successive stretches of time, each with the end of its stretch."""
    highest = rate.maximum
    while highest > 0:
        candidates = time + np.cumsum(rng.exponential(1.0 / highest, _BLOCK))
        rates = np.asarray(rate(candidates), dtype=np.float64)
        if rates.shape != candidates.shape:
            raise InvalidConfiguration(f"arrivals: got an array of shape {rates.shape}, expected {candidates.shape}")
        wrong = np.flatnonzero(~((rates >= 0) & (rates <= highest * (1.0 + 1e-9))))
        if len(wrong):
            rate_there, there = float(rates[wrong[0]]), float(candidates[wrong[0]])
            raise InvalidConfiguration(
                f"arrivals: got {rate_there!r} at time {there!r}, expected a number from 0 to its maximum {highest!r}"
            )
        time = float(candidates[-1])
        yield candidates[rng.random(_BLOCK) * highest < rates].tolist(), time


def _drawn(name: str, sampler: Sampler, rng: np.random.Generator, *, counts: bool = False) -> Iterator[float]:
    """Yield sampled numbers >= 0, or integers >= 1, without end, sampling many at a time."""

    def block() -> list[float]:
        values = np.asarray(sampler(rng, _BLOCK), dtype=np.float64)
        if values.shape != (_BLOCK,):
            raise InvalidConfiguration(f"{name}: got an array of shape {values.shape}, expected ({_BLOCK},)")
        good = (values >= 1) & (values < np.inf) & (values == np.floor(values)) if counts else values >= 0
        if not good.all():
            wanted = "integers >= 1" if counts else "numbers >= 0"
            raise InvalidConfiguration(f"{name}: got {float(values[~good][0])!r}, expected {wanted}")
        drawn: list[float] = values.tolist()
        return drawn

    return chain.from_iterable(iter(block, None))


def _exponential(mean: float) -> Sampler:
    return lambda rng, count: rng.exponential(mean, count)


def _always(number: int) -> Sampler:
    return lambda rng, count: np.full(count, number)


def _sizes_of(sizes: ArrayLike, num_resources: int) -> list[Amounts]:
    """Return the amounts of each resource, by VM size."""
    table = numbers_of("sizes", sizes)
    if table.ndim < 2:
        table = table.reshape(-1, 1)
    if table.ndim > 2 or not len(table) or table.shape[1] != num_resources:
        raise InvalidConfiguration(f"sizes: got {sizes!r}, expected a row per size with as many numbers as total")
    return [tuple(row) for row in table.tolist()]


def _chances_of(probabilities: ArrayLike | None, num_sizes: int) -> Floats | None:
    if probabilities is None:
        return None
    table = numbers_of("probabilities", probabilities)
    if table.shape != (num_sizes,) or not math.isclose(table.sum(), 1.0, abs_tol=1e-6):
        raise InvalidConfiguration(f"probabilities: got {probabilities!r}, expected {num_sizes} numbers with sum 1")
    chances: Floats = table / table.sum()
    return chances


def _total_of(total: ArrayLike) -> Amounts:
    """Return the capacity of a platform per resource."""
    table = numbers_of("total", total)
    if table.ndim > 1 or not table.size:
        raise InvalidConfiguration(f"total: got {total!r}, expected a number for each resource")
    return tuple(table.reshape(-1).tolist())
