"""Advance reservations, in which some cores or nodes are not available to jobs: maintenance, or reserved for users.

A reservation without users is an announced outage: its cores go down at its start and come back at its end, as in
:mod:`desim.processes.outages`, and agents know it from the beginning of the run. A reservation of nodes that admits
users is not an outage: the nodes stay up, for the jobs of these users only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import simpy

from desim.checks import check_float, check_int, did_you_mean
from desim.core import Phase, at
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.parts.base import Part
from desim.problems.batch.parts.outages import begin_outage, clear_cores, end_outage
from desim.tables import Column, Table

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["AdvanceReservation"]

_MOST_NAMES = 8  # listed in a message
_MOST_RESERVATIONS, _MOST_NODES = 5, 5  # listed one by one in sentences


@dataclass(frozen=True, slots=True, repr=False)
class AdvanceReservation:
    """Advance reservation: cores or nodes that are unavailable for a time, or available to some users only.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    cores : int
        Number of reserved cores, in a cluster of cores; 0 in one of nodes. The cores are chosen at the start: the
        highest free cores first, then the highest busy ones, whose jobs are interrupted, and finally failed ones.
    nodes : "all" or tuple of str or int
        Names or numbers of the reserved nodes, in a cluster of nodes; each is reserved as a whole.
    partition : str
        Partition whose nodes are all reserved, instead of ``nodes``.
    users : tuple of int
        Numbers of the users whose jobs may still run on the nodes: the nodes are reserved for them. Their jobs may
        also run elsewhere, start before the reservation and end after it.
    """

    start: float
    end: float
    cores: int = 0
    nodes: Literal["all"] | tuple[str | int, ...] = ()
    partition: str = ""
    users: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Check the values."""
        check_float("the start of a reservation", self.start, least=0)
        check_float("the end of a reservation", self.end, above=self.start)
        if self.nodes != "all":
            object.__setattr__(self, "nodes", _tuple_of("nodes", self.nodes))
        object.__setattr__(self, "users", _tuple_of("users", self.users))
        for user in self.users:
            check_int("a user of a reservation", user, least=0)
        if not (self.nodes or self.partition):
            check_int("the cores of a reservation", self.cores, least=1)
            if self.users:
                raise InvalidConfiguration(f"users: only reservations of nodes admit users, got {self}")
        elif bool(self.cores) + bool(self.nodes) + bool(self.partition) > 1:
            raise InvalidConfiguration(f"got {self}, expected only one of cores, nodes and partition")

    def __repr__(self) -> str:
        """Return the constructor call with the given values."""
        values = [(one.name, getattr(self, one.name)) for one in fields(self)]
        said = [f"{name}={value!r}" for name, value in values if name == "start" or value not in {0, (), ""}]
        return f"Reservation({', '.join(said)})"


def _tuple_of(name: str, values: object) -> tuple[str | int, ...]:
    """Return one or several names or numbers as a tuple of plain values without duplicates."""
    given = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    found: dict[str | int, None] = {}
    for value in given:
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise InvalidConfiguration(f"the {name} of a reservation: got {value!r}, expected names or numbers")
        found[value if isinstance(value, str) else int(value)] = None
    return tuple(found)


def reservations_of(reservations: Iterable[AdvanceReservation], num_cores: int) -> tuple[AdvanceReservation, ...]:
    """Return reservations on a cluster of cores, sorted by start.

    Parameters
    ----------
    reservations : iterable of AdvanceReservation
        Reservations in any order; they may overlap in time.
    num_cores : int
        Number of cores of the cluster.

    Returns
    -------
    tuple of AdvanceReservation
        Reservations by start.

    Raises
    ------
    InvalidConfiguration
        If an object is not a Reservation or names nodes, or reservations at the same time exceed the cores of the
        cluster.
    """
    given = _in_order(reservations)
    for reservation in given:
        if not reservation.cores:
            raise InvalidConfiguration(f"{reservation} names nodes, but the cluster has none; give its number of cores")
        together = sum(other.cores for other in given if other.start <= reservation.start < other.end)
        if together > num_cores:
            raise InvalidConfiguration(
                f"at {reservation.start} s, reservations reserve {together} cores, but the cluster has {num_cores}"
            )
    return given


def reservations_on_nodes(
    reservations: Iterable[AdvanceReservation], names: Sequence[str], partitions: Mapping[str, Sequence[int]]
) -> tuple[AdvanceReservation, ...]:
    """Return reservations on a cluster of nodes, sorted by start, with the numbers of their nodes.

    Parameters
    ----------
    reservations : iterable of AdvanceReservation
        Reservations in any order; those of the same node must not overlap in time.
    names : sequence of str
        Names of the nodes of the cluster, in order of their numbers.
    partitions : mapping of str to sequence of int
        Numbers of the nodes of each partition.

    Returns
    -------
    tuple of AdvanceReservation
        Reservations whose ``nodes`` are ascending numbers, without partition.

    Raises
    ------
    InvalidConfiguration
        If an object is not a Reservation or has no nodes, a node or partition is unknown, or reservations of a node
        overlap.
    """
    numbers = {name: number for number, name in enumerate(names)}

    def number_of(node: str | int) -> int:
        """Return the number of a node, given its name, or its number even as text."""
        if isinstance(node, str) and (node in numbers or not node.isdecimal()):
            if node not in numbers:
                more = ", ..." * (len(names) > _MOST_NAMES)
                there = f"{', '.join(names[:_MOST_NAMES])}{more}"
                raise InvalidConfiguration(
                    f"reservation: unknown node {node!r}{did_you_mean(node, names)}; there are {there}"
                )
            return numbers[node]
        if not 0 <= int(node) < len(names):
            raise InvalidConfiguration(f"reservation: got node {node}, expected a number from 0 to {len(names) - 1}")
        return int(node)

    found = []
    for reservation in _in_order(reservations):
        if reservation.cores:
            raise InvalidConfiguration(
                f"{reservation} reserves counted cores, but the cluster has nodes; name the nodes"
            )
        if reservation.partition:
            if reservation.partition not in partitions:
                close = did_you_mean(reservation.partition, partitions)
                there = ", ".join(partitions) or "none"
                raise InvalidConfiguration(
                    f"reservation: unknown partition {reservation.partition!r}{close}; there are {there}"
                )
            nodes: Iterable[int] = partitions[reservation.partition]
        else:
            nodes = range(len(names)) if reservation.nodes == "all" else map(number_of, reservation.nodes)
        found.append(replace(reservation, nodes=tuple(sorted(set(nodes))), partition=""))
    for place, reservation in enumerate(found):
        taken = {node for other in found[:place] if reservation.start < other.end for node in other.nodes}
        if both := [node for node in reservation.nodes if node in taken]:
            name = names[int(both[0])]
            raise InvalidConfiguration(f"at {reservation.start} s, node {name!r} belongs to two reservations")
    return tuple(found)


def _in_order(reservations: Iterable[AdvanceReservation]) -> tuple[AdvanceReservation, ...]:
    given = tuple(reservations)
    if wrong := [reservation for reservation in given if not isinstance(reservation, AdvanceReservation)]:
        raise InvalidConfiguration(f"reservations: got {wrong[0]!r}, expected Reservation objects")
    return tuple(sorted(given, key=lambda reservation: (reservation.start, reservation.end)))


class Reservations(Part):
    """Part that begins and ends advance reservations.

    Parameters
    ----------
    reservations : tuple of AdvanceReservation
        Reservations by start, checked for the resources of the cluster.
    """

    name = "reservations"
    constants = (AdvanceReservation,)

    def __init__(self, reservations: tuple[AdvanceReservation, ...]) -> None:
        self.reservations = reservations

    def describe(self) -> dict[str, Any]:
        """Return the numbers of reservations, of those of nodes, and of those that admit users."""
        counts = {
            "reservations": len(self.reservations),
            "node_reservations": sum(bool(one.nodes) for one in self.reservations),
            "user_reservations": sum(bool(one.users) for one in self.reservations),
        }
        return {name: count for name, count in counts.items() if count}

    def begin(self) -> None:
        """Schedule the beginnings and ends; ends first, as another reservation may begin at the same instant."""
        env, tables, resources = self.cluster.env, self.cluster.simulation.records.tables, self.cluster.resources
        for number, one in enumerate(self.reservations):
            nodes: Any = one.nodes  # their numbers
            cores = one.cores or resources.core_set_of(nodes).bit_count()
            tables["reservations"].append((number, one.start, one.end, cores))
            for node in nodes:
                tables["reservation_nodes"].append((number, node))
            for user in one.users:
                tables["reservation_users"].append((number, user))
        for number, reservation in enumerate(self.reservations):
            at(env, reservation.end, Phase.CAPACITY, number).callbacks.append(self._close)
        for number, reservation in enumerate(self.reservations):
            at(env, reservation.start, Phase.CAPACITY, number).callbacks.append(self._open)

    def is_due(self) -> bool:
        """Return whether a reservation has not ended."""
        return bool(self.cluster._state.reservations)

    def drop_future(self) -> Iterable[Callable[[Any], None]]:
        """Return the callbacks of all reservations, which agents know."""
        return self._open, self._close

    def _open(self, event: simpy.Event) -> None:
        """Take the units of a reservation out of service, or interrupt the jobs of others than its users."""
        number: Any = event.value
        cluster = self.cluster
        units, users = cluster.resources.reserve(number), self.reservations[number].users
        if users:
            clear_cores(cluster, cluster.resources.core_set_of(units), cluster.resources.down, users)
        else:
            begin_outage(cluster, units)
        self.open_cycle()  # even if these units had failed before

    def _close(self, event: simpy.Event) -> None:
        """Return the units of a reservation to service, or open them to all users."""
        number: Any = event.value
        reservation, state = self.reservations[number], self.cluster._state
        state.reservations = tuple(other for other in state.reservations if other is not reservation)
        end_outage(self.cluster, self.cluster.resources.end_reservation(number, self.cluster.env.now))
        self.open_cycle()


INFO = (
    Column("reservations", "integer", "number of advance reservations, if any", least=1, optional=True),
    Column("node_reservations", "integer", "number of reservations of nodes, if any", least=1, optional=True),
    Column("user_reservations", "integer", "number of reservations that admit users, if any", least=1, optional=True),
)
"""Entries in the description of a run."""

TABLES = (
    Table(
        "reservations",
        "an advance reservation of cores or nodes",
        (
            Column("reservation", "integer", "number of the reservation", least=0),
            Column("start", "float", "start of the reservation", unit="s", least=0),
            Column("end", "float", "end of the reservation", unit="s", least=0),
            Column("cores", "integer", "number of reserved cores", unit="cores", least=1),
        ),
        sort_by=("reservation",),
        only_with="reservations",
    ),
    Table(
        "reservation_nodes",
        "a node of a reservation",
        (
            Column("reservation", "integer", "number of the reservation", least=0),
            Column("node", "integer", "number of the node", least=0),
        ),
        sort_by=("reservation", "node"),
        only_with="node_reservations",
    ),
    Table(
        "reservation_users",
        "a user whose jobs may run on the nodes of a reservation",
        (
            Column("reservation", "integer", "number of the reservation", least=0),
            Column("user_id", "integer", "number of the user", least=0),
        ),
        sort_by=("reservation", "user_id"),
        only_with="user_reservations",
    ),
)
"""Tables of a run."""


def sentence(result: Result) -> str:
    """Return what was in force in a run, for reports; empty if there were no reservations."""
    if "reservations" not in result.info:
        return ""
    columns = result.table("reservations").select("reservation", "cores", "start", "end").rows()
    shown = [
        f"{_taken(reservation, cores, result)} from {start:,.10g} to {end:,.10g} s{_but(reservation, result)}"
        for reservation, cores, start, end in columns
    ]
    more = [f"{len(shown) - _MOST_RESERVATIONS:,} more"] if len(shown) > _MOST_RESERVATIONS else []
    return f"Reservations: {'; '.join(shown[:_MOST_RESERVATIONS] + more)}."


def _taken(reservation: int, cores: int, result: Result) -> str:
    """Return a description of what a reservation takes."""
    if "node_reservations" not in result.info:
        return f"{cores:,} cores"
    nodes = result.table("nodes").join(
        result.table("reservation_nodes").filter(reservation=reservation), on="node", how="semi"
    )
    if len(nodes) == 1:
        return f"node {nodes['name'].item()}"
    if len(nodes) == result.info["num_nodes"]:
        return "all nodes"
    return f"{len(nodes):,} nodes" if len(nodes) > _MOST_NODES else f"nodes {', '.join(nodes['name'])}"


def _but(reservation: int, result: Result) -> str:
    """Return a description of the users whom a reservation admits."""
    if "user_reservations" not in result.info:
        return ""
    users = result.table("reservation_users").filter(reservation=reservation)["user_id"].to_list()
    return f" but for user{'s' * (len(users) > 1)} {', '.join(map(str, users))}" if users else ""
