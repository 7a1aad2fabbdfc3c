"""Outages of the cores or nodes of a batch cluster, or of the executors of a DAG cluster: planned or random.

A cluster takes one in ``processes=[...]``. The processes are short on purpose: copy one and adapt
it if your machine fails differently.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal, Never

import numpy as np
import simpy

from desim.checks import check_choice, check_float, check_int, did_you_mean, places_of, python_scalar, short_repr
from desim.core import Phase, Simulation, at
from desim.exceptions import DesimError, InvalidConfiguration, WorkloadError
from desim.processes.endings import in_background

__all__ = ["FailingCluster", "FailureCounts", "Outage", "planned_outages", "random_outages"]

Units = Iterable[int | str]


class FailureCounts:
    """Number of unrepaired failures of each unit of a cluster.

    Parameters
    ----------
    kind : {"core", "node", "executor"}
        What the units are.
    num_units : int
        Number of units.
    names : sequence of str
        Names of the units, if they have any.
    """

    def __init__(self, kind: str, num_units: int, names: Sequence[str] = ()) -> None:
        self.kind = kind
        self.num_units = num_units
        self._counts = [0] * num_units
        self._names = names
        self._numbers = places_of(names, None)

    def ids(self, units: Units) -> tuple[int | str, ...]:
        """Return units as listeners get them: names, or numbers if the units have no names.

        Parameters
        ----------
        units : iterable of int or str
            Numbers of units.

        Returns
        -------
        tuple of int or str
            Names or numbers in the same order.
        """
        return tuple(self._names[int(unit)] if self._names else unit for unit in units)

    def numbers(self, *refused: Never, **units: Units) -> list[int]:
        """Return the numbers of units given by name or number.

        Parameters
        ----------
        *refused : Never
            Not allowed: write what the units are, as in ``cores=[3]``.
        **units : iterable of int or str
            Units by the plural of their kind, such as ``cores``.

        Returns
        -------
        list of int
            Numbers, ascending, each once.

        Raises
        ------
        InvalidConfiguration
            If a unit does not exist, or the cluster has units of another kind.
        TypeError
            If the units are given in another way.
        """
        own = f"{self.kind}s"
        kind, members = _by_kind(refused, units)
        if kind != own:
            raise InvalidConfiguration(f"{kind}: the units of the cluster are its {own}; try {own}=[...]")
        return sorted({self._number(unit) for unit in members})

    def _number(self, unit: int | str) -> int:
        number = self._numbers.get(unit) if isinstance(unit, str) else unit
        if number is None or not 0 <= number < self.num_units:
            names = " a name or" if self._names else ""
            raise InvalidConfiguration(
                f"{self.kind}s: got {unit!r}{did_you_mean(unit, self._names)}, "
                f"expected{names} a number from 0 to {self.num_units - 1}"
            )
        return int(number)

    def fail(self, units: Iterable[int]) -> list[int]:
        """Count failures.

        Parameters
        ----------
        units : iterable of int
            Numbers of failing units.

        Returns
        -------
        list of int
            Numbers of the units that were up, in the same order.
        """
        fresh = [unit for unit in units if not self._counts[unit]]
        for unit in units:
            self._counts[unit] += 1
        return fresh

    def repair(self, units: Iterable[int], time: float) -> list[int]:
        """Count repairs.

        Parameters
        ----------
        units : iterable of int
            Numbers of repaired units.
        time : float
            Time of the repair in seconds.

        Returns
        -------
        list of int
            Numbers of the units that are up again, in the same order.

        Raises
        ------
        InvalidConfiguration
            If a unit is not down.
        """
        for unit in units:
            if not self._counts[unit]:
                name = self.ids([unit])[0]
                raise InvalidConfiguration(f"{self.kind} {name} cannot be repaired at time {time}: it is not down")
        for unit in units:
            self._counts[unit] -= 1
        return [unit for unit in units if not self._counts[unit]]


class FailingCluster:
    """Mixin for problems whose units fail and are repaired: it counts, and subclasses act.

    The units are the cores or nodes of a batch cluster, or the executors of a DAG cluster.

    Attributes
    ----------
    failures : FailureCounts
        Failure counts, to be created when the problem is bound.
    """

    env: simpy.Environment
    simulation: Simulation
    failures: FailureCounts

    @property
    def num_units(self) -> int:
        """Number of units that can fail."""
        return self.failures.num_units

    def fail(self, *refused: Never, **units: Units) -> None:
        """Take units down now, interrupting what runs on them.

        Call it from a process in the phase CAPACITY. Failures nest: a unit that failed twice must be repaired
        twice. Listeners of ``outage`` get a tuple of the units that were up: core numbers, or names of nodes or
        executors.

        Parameters
        ----------
        *refused : Never
            Not allowed: write what the units are, as in ``cores=[3]``.
        **units : iterable of int or str
            Names or numbers of units as ``nodes``, ``cores`` or ``executors``, for example in a list or range.

        Raises
        ------
        InvalidConfiguration
            If a unit does not exist, or the cluster has units of another kind.
        DesimError
            If no run is under way.
        TypeError
            If units are given in another way.
        """
        failures = self._failures_of_run("fail")
        if fresh := failures.fail(failures.numbers(*refused, **units)):
            self.on_failure(fresh)

    def repair(self, *refused: Never, **units: Units) -> None:
        """Bring units back up now, after :meth:`fail`.

        Listeners of ``repair`` get a tuple of the units that are up again, in the same form.

        Parameters
        ----------
        *refused : Never
            Not allowed: write what the units are, as in ``cores=[3]``.
        **units : iterable of int or str
            Names or numbers of units as ``nodes``, ``cores`` or ``executors``, for example in a list or range.

        Raises
        ------
        InvalidConfiguration
            If a unit does not exist or is not down, or the cluster has units of another kind.
        DesimError
            If no run is under way.
        TypeError
            If units are given in another way.
        """
        failures = self._failures_of_run("repair")
        if fresh := failures.repair(failures.numbers(*refused, **units), self.env.now):
            self.on_repair(fresh)

    def _failures_of_run(self, call: str) -> FailureCounts:
        """Return the failure counts; only the copy of the problem that a run works on has them."""
        if not hasattr(self, "failures"):
            name = type(self).__name__
            raise DesimError(
                f"{call}: got a {name} outside a run, expected that of a run; call it in a process, "
                f"{name}(..., processes=[process]), whose argument is the running cluster"
            )
        return self.failures

    def on_failure(self, units: list[int]) -> None:
        """Handle a failure: the units with these numbers were up and are down now. Implemented by subclasses."""
        raise NotImplementedError

    def on_repair(self, units: list[int]) -> None:
        """Handle a repair: the units with these numbers were down and are up now. Implemented by subclasses."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Outage:
    """Outage of some units: cores or nodes of a batch cluster, or executors of a DAG cluster.

    Attributes
    ----------
    start, end : float
        Start and end in seconds: the units are down in [start, end); ``end`` may be infinite.
    refused : None
        Not allowed: write what the units are, as in ``cores=[3]``.
    nodes, cores, executors : tuple of int or str
        Names or numbers of the units, given by any iterable. Give one of the three; the others are None.

    Raises
    ------
    TypeError
        If the units are given in another way.

    Examples
    --------
    >>> Outage(3_600.0, 7_200.0, nodes=["n2", "n3"]).nodes
    ('n2', 'n3')
    >>> Outage(0.0, 60.0, cores=range(4)).cores
    (0, 1, 2, 3)
    """

    start: float
    end: float
    refused: InitVar[None] = None
    nodes: Units | None = field(default=None, kw_only=True)
    cores: Units | None = field(default=None, kw_only=True)
    executors: Units | None = field(default=None, kw_only=True)

    def __post_init__(self, refused: Any) -> None:
        """Check the units, and read iterators once."""
        kind, members = _by_kind(() if refused is None else (refused,), self.units)
        object.__setattr__(self, kind, members)

    @property
    def units(self) -> dict[str, Units]:
        """Units by kind, as :meth:`FailingCluster.fail` and :meth:`FailingCluster.repair` take them."""
        given = {"nodes": self.nodes, "cores": self.cores, "executors": self.executors}
        return {kind: units for kind, units in given.items() if units is not None}


def _by_kind(refused: tuple[Any, ...], units: Mapping[str, Any]) -> tuple[str, tuple[int | str, ...]]:
    """Return the kind and the members of units given by keyword; refuse what does not say what the units are."""
    if refused or len(units) != 1:
        given = ", ".join([*map(short_repr, refused), *(f"{kind}=..." for kind in units)])
        raise TypeError(
            f"units: got {given or 'none'}, expected names or numbers of units of one kind; "
            'try cores=[3], cores=range(8), nodes=["n2"] or executors=[0]'
        )
    ((kind, given),) = units.items()
    if isinstance(given, str) or not isinstance(given, Iterable):
        unit = short_repr(python_scalar(given))
        raise TypeError(f"{kind}: got {unit}, expected several names or numbers; try {kind}=[{unit}]")
    members = tuple(map(python_scalar, given))
    for unit in members:
        if isinstance(unit, bool) or not isinstance(unit, int | str):
            raise TypeError(f"{kind}: got {short_repr(unit)} among them, expected names or integers")
    return kind, members


Process = Callable[[FailingCluster], Generator[simpy.Event, None, None]]


def planned_outages(outages: Iterable[Outage]) -> Process:
    """Return a process that takes units down and brings them back up at given times.

    Parameters
    ----------
    outages : iterable of Outage
        Outages in order of their start; they may overlap, and a unit in two outages is down
        until both have ended.

    Returns
    -------
    callable
        Process to pass in ``BatchCluster(..., processes=[...])`` or ``DagCluster(..., processes=[...])``.

    Raises
    ------
    InvalidConfiguration
        At the beginning of the run, if a unit does not exist, or the cluster has units of another kind.
    WorkloadError
        During the run, if an outage starts before its predecessor, or does not end after its start.
    """
    planned = tuple(outages)

    def run(cluster: FailingCluster) -> Generator[simpy.Event, None, None]:
        """Start the outages; a process per outage ends it."""
        env = cluster.env
        for outage in planned:  # a wrong name is an error now, not in the middle of the run
            cluster.failures.numbers(**outage.units)
        last = env.now
        for outage in planned:
            if not last <= outage.start < outage.end:
                raise WorkloadError(f"outages: got {outage}, expected order of start, and an end after each start")
            last = outage.start
            if outage.start > env.now:
                yield at(env, outage.start, Phase.CAPACITY)
            cluster.fail(**outage.units)
            if outage.end < np.inf:
                env.process(_repair(cluster, outage))

    return in_background(run)


def random_outages(
    mean_time_to_failure: float, mean_time_to_repair: float, *, unit: Literal["core", "node", "executor"] | int = 1
) -> Process:
    """Return a process in which units, or blocks of them, fail and are repaired independently.

    Times to failure and to repair are exponentially distributed. They come from the simulation's stream
    ``"outages"``, so that every agent gets the same outages.

    Parameters
    ----------
    mean_time_to_failure : float
        Mean time for which a block is up, in seconds.
    mean_time_to_repair : float
        Mean time for which a block is down, in seconds.
    unit : {"core", "node", "executor"} or int
        What fails as a whole: a unit of the cluster, by its kind, or a block of that many units, such as 8 cores that
        form a node; the last block may have fewer.

    Returns
    -------
    callable
        Process to pass in ``BatchCluster(..., processes=[...])`` or ``DagCluster(..., processes=[...])``. It does not
        keep the run alive after the last job.

    Raises
    ------
    InvalidConfiguration
        If a mean is not > 0, or a block has no unit; at the beginning of the run, if the cluster has units of another
        kind.
    """
    check_float("mean_time_to_failure", mean_time_to_failure, above=0)
    check_float("mean_time_to_repair", mean_time_to_repair, above=0)
    size = 1
    if isinstance(unit, str):
        check_choice("unit", unit, ("core", "node", "executor"))
    else:
        size = check_int("unit", unit, least=1)

    def run(cluster: FailingCluster) -> Generator[simpy.Event, None, None]:
        """Start a process for each block of units."""
        kind = cluster.failures.kind
        if isinstance(unit, str) and unit != kind:
            raise InvalidConfiguration(f"unit: got {unit!r}, but the cluster's units are its {kind}s; try {kind!r}")
        rng = cluster.simulation.stream("outages")
        for first in range(0, cluster.num_units, size):
            block = {f"{kind}s": range(first, min(first + size, cluster.num_units))}
            (child,) = rng.spawn(1)
            cluster.env.process(_fail_and_repair(cluster, block, child, mean_time_to_failure, mean_time_to_repair))
        yield from ()  # makes this function a generator, as a process must be

    return in_background(run)


def _repair(cluster: FailingCluster, outage: Outage) -> Generator[simpy.Event, None, None]:
    yield at(cluster.env, outage.end, Phase.CAPACITY)
    cluster.repair(**outage.units)


def _fail_and_repair(
    cluster: FailingCluster, units: dict[str, range], rng: np.random.Generator, up: float, down: float
) -> Generator[simpy.Event, None, None]:
    env = cluster.env
    while True:
        yield at(env, env.now + rng.exponential(up), Phase.CAPACITY)
        cluster.fail(**units)
        yield at(env, env.now + rng.exponential(down), Phase.CAPACITY)
        cluster.repair(**units)
