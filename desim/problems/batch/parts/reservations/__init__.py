"""Advance reservations, in which some cores or nodes are not available to jobs: maintenance, or reserved for users.

A reservation without users is an announced outage: its cores go down at its start and come back at its end, as in
:mod:`desim.processes.outages`, and agents know it from the beginning of the run. A reservation of nodes that admits
users is not an outage: the nodes stay up, for the jobs of these users only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import simpy

from desim.checks import check_float, check_int, did_you_mean
from desim.core import Phase, at
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.parts.base import Part
from desim.problems.batch.parts.outages import begin_outage, clear_cores, end_outage

__all__ = ["AdvanceReservation", "Reservations", "reservations_of", "reservations_on_nodes"]

_MOST_NAMES = 8  # listed in a message


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
        """Return the number of reservations."""
        return {"reservations": len(self.reservations)}

    def begin(self) -> None:
        """Schedule the beginnings and ends; ends first, as another reservation may begin at the same instant."""
        env = self.cluster.env
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
