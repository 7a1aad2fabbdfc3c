"""On-demand virtual machines as SimPy processes: they come first, and leave a platform's capacity to deferrable jobs.

A VM takes its cores when it arrives, if they are free of other VMs, and gives them back when it leaves; deferrable jobs
never stand in its way. Within an instant VMs leave before others arrive. They are replayed from records, or arrive at
random, in batches, more of them by day than by night.
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

#: When VMs arrive together, and of each when it leaves and what it takes of each resource.
Batch = tuple[float, list[tuple[float, Amounts]]]

#: Returns the batches of one simulation, in order of time.
Batches = Callable[[FluctuatingCluster], Iterator[Batch]]

#: Amounts that are not whole add up with errors: a VM fits if no more than this share of the platform is missing.
_TOLERANCE = 1e-9

_NO_MORE: Batch = (math.inf, [])


class OnDemandVM(Protocol):
    """What a record of a VM must offer, beside an attribute for each resource, by name, such as ``cores``."""

    @property
    def start(self) -> float:
        """When it arrives, in slots; may be before 0."""

    @property
    def end(self) -> float:
        """When it leaves, in slots; may be infinite."""


class OnDemand:
    """The on-demand VMs of one simulation; live, do not change it.

    At any time, num_initial + num_arrived = num_present + num_departed + num_turned_away.

    Parameters
    ----------
    env : simpy.Environment
        Where they live.
    total : tuple of float
        What the platform has of each resource.

    Attributes
    ----------
    total : tuple of float
        As above.
    free : tuple of float
        What VMs leave of each resource now.
    num_initial : int
        VMs that were there as the simulation began.
    num_arrived : int
        VMs that have come since.
    num_turned_away : int
        Those of them for which too little was free.
    num_departed : int
        VMs that have left.
    turned_away_work : tuple of float
        What those turned away would have held, times how long: in core-slots, and so for each resource.
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
        """Say how many there are and what has become of the others."""
        return (
            f"<{self.num_present} on-demand VMs of {self.num_initial} + {self.num_arrived}, "
            f"{self.num_turned_away} turned away>"
        )

    @property
    def num_present(self) -> int:
        """VMs that are there now."""
        return self.num_initial + self.num_arrived - self.num_turned_away - self.num_departed

    @property
    def capacity(self) -> Amounts:
        """What VMs leave of each resource, without the errors of sums that would make it negative."""
        return tuple(max(0.0, amount) for amount in self.free)

    def arrive(self, time: float, end: float, amounts: Amounts) -> None:
        """Let a VM take what it needs from now on, or turn it away.

        Parameters
        ----------
        time, end : float
            When it comes, which is now, and leaves, in slots.
        amounts : tuple of float
            What it takes of each resource.
        """
        self.num_arrived += 1
        if end <= time:  # it holds nothing, not even for an instant
            self.num_departed += 1
        elif not self._take(amounts):
            self.num_turned_away += 1
            work = (amount * (end - time) if amount else 0.0 for amount in amounts)  # it may be there for ever
            self.turned_away_work = tuple(map(add, self.turned_away_work, work))
        else:
            self._stay_until(end, amounts)

    def begin(self, batches: Iterator[Batch]) -> Batch:
        """Let pass what happened before time 0, which has no place on the clock, and return what comes next."""
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
            # The clock may stand one rounding error after an arrival.
            at(self._env, max(end, self._env.now), Phase.COMPLETION, amounts).callbacks.append(self._leave)

    def _leave(self, event: simpy.Event) -> None:
        """Take back what a VM has held, the value of the event."""
        self.num_departed += 1
        held: Any = event.value
        self.free = tuple(map(add, self.free, held)) if self.num_present else self.total


def _hosted(total: Amounts, batches: Batches, listener: Callable[[OnDemand], None] | None) -> CapacityProcess:
    """Return a process in which VMs come and go, and which sets the capacity once a slot, when it is looked at."""

    def run(cluster: FluctuatingCluster) -> Generator[simpy.Event, None, None]:
        """Let VMs arrive; each leaves by an event of its own."""
        if len(total) != len(cluster.resources):
            raise InvalidConfiguration(f"total is {total}, want a number for each of {cluster.resources}")
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
            tick.callbacks = []  # the same event serves again
            schedule_at(tick, min(time, slot), Phase.CAPACITY)
            yield tick

    return in_background(run)


def replayed_vms(
    total: ArrayLike, vms: Iterable[OnDemandVM], *, listener: Callable[[OnDemand], None] | None = None
) -> CapacityProcess:
    """Return a process that replays on-demand VMs and leaves the rest of a platform to deferrable jobs.

    Parameters
    ----------
    total : float or sequence of float
        What the platform has, one number for each of the cluster's resources.
    vms : iterable of OnDemandVM
        In order of their starts. They are read one ahead of the clock, so memory follows the VMs that are there. Those
        that are alive at time 0 arrive at time 0; those that have ended by then are left out.
    listener : callable, optional
        Called with the live :class:`OnDemand` of each simulation as it begins, which counts what is turned away.

    Returns
    -------
    callable
        To be passed as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If the total is out of range or has another length than the cluster's resources, or the VMs are an iterator
        and are to be read a second time.
    WorkloadError
        While it runs, if a VM is out of order, ends before it starts, or lacks a resource.

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
        """Read the VMs once more."""
        nonlocal used_up
        if used_up:
            raise InvalidConfiguration("the on-demand VMs are an iterator, which can be read only once: pass a list")
        used_up = isinstance(vms, Iterator)
        return _batches(vms, cluster.resources)

    return _hosted(_total_of(total), batches, listener)


def _batches(vms: Iterable[OnDemandVM], resources: tuple[str, ...]) -> Iterator[Batch]:
    """Yield each VM that lives at time 0 or later, on its own."""
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
            raise WorkloadError(f"on-demand VM {vm!r} starts at {start!r}, after one at {last!r}: sort the VMs")
        if not end >= start:
            raise WorkloadError(f"on-demand VM {vm!r} ends at {end!r}, before its start at {start!r}")
        for amount in amounts:
            if not 0 <= amount < math.inf:
                raise WorkloadError(f"on-demand VM {vm!r} takes {amount!r} of a resource, want a number from 0 on")
        last = start
        if end > 0 or start >= 0:
            yield max(start, 0.0), [(end, amounts)]


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
        """Draw the batches of one simulation."""
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
                yield end, []  # the clock goes on however long nobody comes

    return _hosted(amounts, batches, listener)


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


def _drawn(name: str, sampler: Sampler, rng: np.random.Generator, *, counts: bool = False) -> Iterator[float]:
    """Draw numbers from 0 on without end, or whole ones from 1 on, many at a time."""

    def block() -> list[float]:
        values = np.asarray(sampler(rng, _BLOCK), dtype=np.float64)
        if values.shape != (_BLOCK,):
            raise InvalidConfiguration(f"{name} gave an array of shape {values.shape}, want ({_BLOCK},)")
        good = (values >= 1) & (values < np.inf) & (values == np.floor(values)) if counts else values >= 0
        if not good.all():
            wanted = "whole numbers of at least 1" if counts else "numbers from 0 on"
            raise InvalidConfiguration(f"{name} gave {float(values[~good][0])!r}, want {wanted}")
        drawn: list[float] = values.tolist()
        return drawn

    return chain.from_iterable(iter(block, None))


def _exponential(mean: float) -> Sampler:
    return lambda rng, count: rng.exponential(mean, count)


def _always(number: int) -> Sampler:
    return lambda rng, count: np.full(count, number)


def _sizes_of(sizes: ArrayLike, num_resources: int) -> list[Amounts]:
    """Return what VMs of each size take of each resource."""
    table = numbers_of("sizes", sizes)
    if table.ndim < 2:
        table = table.reshape(-1, 1)
    if table.ndim > 2 or not len(table) or table.shape[1] != num_resources:
        raise InvalidConfiguration(f"sizes is {sizes!r}, want a row for each size of as many numbers as total has")
    return [tuple(row) for row in table.tolist()]


def _chances_of(probabilities: ArrayLike | None, num_sizes: int) -> Floats | None:
    if probabilities is None:
        return None
    table = numbers_of("probabilities", probabilities)
    if table.shape != (num_sizes,) or not math.isclose(table.sum(), 1.0, abs_tol=1e-6):
        raise InvalidConfiguration(f"probabilities is {probabilities!r}, want {num_sizes} numbers that add up to 1")
    chances: Floats = table / table.sum()
    return chances


def _total_of(total: ArrayLike) -> Amounts:
    """Return what a platform has of each resource."""
    table = numbers_of("total", total)
    if table.ndim > 1 or not table.size:
        raise InvalidConfiguration(f"total is {total!r}, want a number for each resource")
    return tuple(table.reshape(-1).tolist())
