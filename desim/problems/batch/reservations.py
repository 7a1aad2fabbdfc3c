"""Reservations of time in which some cores or nodes are not for jobs: maintenance, or a reservation for somebody else.

A reservation is an outage that is announced: its cores go down when it begins and come back when it ends, as in
:mod:`desim.processes.outages`, and agents know of it from the beginning of the run. A reservation of nodes that admits
users is no outage: the nodes stay up, for the jobs of these users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from desim.checks import check_float, check_int, did_you_mean
from desim.exceptions import InvalidConfiguration

__all__ = ["AdvanceReservation", "reservations_of", "reservations_on_nodes"]

_MOST_NAMES = 8  # that a message lists


@dataclass(frozen=True, slots=True, repr=False)
class AdvanceReservation:
    """Some cores, or some nodes, that are not for jobs for a time, or only for those of some users.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    cores : int
        How many, on a cluster of cores; 0 on one of nodes. Which ones is decided when the reservation begins: the
        highest of those that are free, and if these are too few, the highest of those on which jobs run, which are cut;
        in the end, of those that have failed.
    nodes : "all" or tuple of str or int
        Which, on a cluster of nodes, by name or number; the reservation takes them in whole.
    partition : str
        All nodes of a partition, in the place of ``nodes``.
    users : tuple of int
        Whose jobs may run on the nodes all the same: the reservation is their advance reservation. It does not bind
        them to it: their jobs may run elsewhere, and begin before the reservation and end after it.
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
                raise InvalidConfiguration(f"only reservations of nodes admit users, but {self} is of counted cores")
        elif bool(self.cores) + bool(self.nodes) + bool(self.partition) > 1:
            raise InvalidConfiguration(
                f"a reservation takes cores, nodes or a partition, but {self} takes more than one"
            )

    def __repr__(self) -> str:
        """Return what was given."""
        values = [(one.name, getattr(self, one.name)) for one in fields(self)]
        said = [f"{name}={value!r}" for name, value in values if name == "start" or value not in {0, (), ""}]
        return f"Reservation({', '.join(said)})"


def _tuple_of(name: str, values: object) -> tuple[str | int, ...]:
    """Return one or several names or numbers as a tuple of plain ones, each once."""
    given = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    found: dict[str | int, None] = {}
    for value in given:
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise InvalidConfiguration(f"among the {name} of a reservation is {value!r}, want names or numbers")
        found[value if isinstance(value, str) else int(value)] = None
    return tuple(found)


def reservations_of(reservations: Iterable[AdvanceReservation], num_cores: int) -> tuple[AdvanceReservation, ...]:
    """Return reservations in order of their starts.

    Parameters
    ----------
    reservations : iterable of AdvanceReservation
        In any order; they may overlap.
    num_cores : int
        Cores of the cluster.

    Returns
    -------
    tuple of AdvanceReservation
        The same.

    Raises
    ------
    InvalidConfiguration
        If one is none or names nodes, or more cores than there are belong to reservations at a time.
    """
    given = _in_order(reservations)
    for reservation in given:
        if not reservation.cores:
            raise InvalidConfiguration(
                f"{reservation} names nodes, but the cluster has none: say how many cores it takes"
            )
        together = sum(other.cores for other in given if other.start <= reservation.start < other.end)
        if together > num_cores:
            raise InvalidConfiguration(
                f"at {reservation.start} s reservations take {together} cores, the cluster has {num_cores}"
            )
    return given


def reservations_on_nodes(
    reservations: Iterable[AdvanceReservation], names: Sequence[str], partitions: Mapping[str, Sequence[int]]
) -> tuple[AdvanceReservation, ...]:
    """Return reservations in order of their starts, with the numbers of their nodes.

    Parameters
    ----------
    reservations : iterable of AdvanceReservation
        In any order; they may overlap, if on other nodes.
    names : sequence of str
        Of the nodes of the cluster, by their numbers.
    partitions : mapping of str to sequence of int
        The nodes of each partition.

    Returns
    -------
    tuple of AdvanceReservation
        With ``nodes`` that are numbers, ascending, and no partition.

    Raises
    ------
    InvalidConfiguration
        If one is none or has no nodes, if there is no such node or partition, or a node belongs to two at a time.
    """
    numbers = {name: number for number, name in enumerate(names)}

    def number_of(node: str | int) -> int:
        """Return the number of a node; text that is no name may be its number."""
        if isinstance(node, str) and (node in numbers or not node.isdecimal()):
            if node not in numbers:
                more = ", ..." * (len(names) > _MOST_NAMES)
                there = f"there are {', '.join(names[:_MOST_NAMES])}{more}"
                raise InvalidConfiguration(f"a reservation is of node {node!r}{did_you_mean(node, names)}; {there}")
            return numbers[node]
        if not 0 <= int(node) < len(names):
            raise InvalidConfiguration(f"a reservation is of node {node}; they are numbered 0 to {len(names) - 1}")
        return int(node)

    found = []
    for reservation in _in_order(reservations):
        if reservation.cores:
            raise InvalidConfiguration(
                f"{reservation} takes counted cores, but the cluster has nodes: say which it takes"
            )
        if reservation.partition:
            if reservation.partition not in partitions:
                close = did_you_mean(reservation.partition, partitions)
                there = ", ".join(partitions) or "none"
                raise InvalidConfiguration(
                    f"a reservation is of partition {reservation.partition!r}{close}; there are {there}"
                )
            nodes: Iterable[int] = partitions[reservation.partition]
        else:
            nodes = range(len(names)) if reservation.nodes == "all" else map(number_of, reservation.nodes)
        found.append(replace(reservation, nodes=tuple(sorted(set(nodes))), partition=""))
    for place, reservation in enumerate(found):
        taken = {node for other in found[:place] if reservation.start < other.end for node in other.nodes}
        if both := [node for node in reservation.nodes if node in taken]:
            name = names[int(both[0])]
            raise InvalidConfiguration(f"at {reservation.start} s node {name!r} belongs to two reservations")
    return tuple(found)


def _in_order(reservations: Iterable[AdvanceReservation]) -> tuple[AdvanceReservation, ...]:
    given = tuple(reservations)
    if wrong := [reservation for reservation in given if not isinstance(reservation, AdvanceReservation)]:
        raise InvalidConfiguration(f"reservations holds {wrong[0]!r}, want Reservations")
    return tuple(sorted(given, key=lambda reservation: (reservation.start, reservation.end)))
