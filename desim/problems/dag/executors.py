"""Executors of a cluster: their speeds, the transfer speeds between them, and the links that transfers share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.checks import names_of, numbers, sets_of_names
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["MILLION", "Executors", "PairValues", "SharedLinks", "units_of"]

Floats = NDArray[np.float64]
Route = tuple[int, ...]

Units = NDArray[np.int64]

MILLION = 1_000_000
"""Units of an amount of 1: amounts are counted in millionths, so that their sums do not round."""

STORED = 512
"""Largest number of executors whose equal pairs are stored one by one, which is faster than computing them."""

LISTED = 512
"""Largest number of executors for which a run lists the channels and routes of all pairs, even if they are equal."""


def units_of(what: str, amounts: Mapping[str, float], resources: Sequence[str], error: type[Exception]) -> list[int]:
    """Return the amount of each resource in millionths, rounded down, so that n demands of 1 / n fit into 1.

    Parameters
    ----------
    what : str
        Name of the amounts, for error messages.
    amounts : mapping of str to float
        Amounts by resource, at least 0.
    resources : sequence of str
        Names of the resources.
    error : type of Exception
        Class of the error to raise.

    Returns
    -------
    list of int
        Amounts in millionths; 0 of resources that are not named.
    """
    if not isinstance(amounts, Mapping):
        raise error(f"{what}: got {amounts!r}, expected amounts by resource, such as {{'cores': 4}}")
    amount: Any
    for name, amount in amounts.items():
        if name not in resources:
            raise error(f"{what}: got the resource {name!r}, expected one of {', '.join(resources) or 'none'}")
        is_number = isinstance(amount, Real) and not isinstance(amount, bool)
        if not is_number or not (amount == 0 or 1e-6 <= amount <= 1e12):
            raise error(f"{what}: {name}: got {amount!r}, expected 0 or a number from 1e-6 to 1e12")
    return [_floor(float(amounts.get(name, 0.0)) * MILLION) for name in resources]


def _floor(amount: float) -> int:
    """Return the largest integer up to an amount, which may have been rounded down."""
    nearest = round(amount)
    return nearest if amount <= nearest <= amount * (1 + 1e-12) else math.floor(amount)


class PairValues:
    """A value for each ordered pair of executors; immutable. Equal values of many executors take no memory per pair.

    Parameters
    ----------
    values : float or numpy.ndarray of shape (count, count)
        Value of all pairs, or of each.
    diagonal : float
        Value from an executor to itself.
    count : int
        Number of executors.

    Attributes
    ----------
    common : float or None
        Value of all pairs of different executors; None if they differ or there are none.
    """

    def __init__(self, values: float | Floats, diagonal: float, count: int) -> None:
        self.diagonal, self._count = diagonal, count
        self._given = None if isinstance(values, float) else values
        self.common = self._common(values) if count > 1 else None
        self._stored = None if self.common is not None and count > STORED else self.table

    def _common(self, values: float | Floats) -> float | None:
        if isinstance(values, float):
            return values
        first: float = values[0, 1].item()
        different = values != first
        np.fill_diagonal(different, val=False)
        return None if different.any() else first

    @cached_property
    def table(self) -> Floats:
        """All values, shape (count, count), read-only."""
        if self._given is not None:
            return self._given
        table = np.full((self._count, self._count), np.nan if self.common is None else self.common)
        np.fill_diagonal(table, self.diagonal)
        table.flags.writeable = False
        return table

    def rows(self, sources: Any) -> Floats:
        """Return a new array with the values from each of several executors to all, shape (num_sources, count)."""
        if self._stored is not None:
            stored: Floats = self._stored[sources]
            return stored
        assert self.common is not None
        rows = np.full((len(sources), self._count), self.common)
        rows[np.arange(len(sources)), sources] = self.diagonal
        return rows

    def column(self, sources: NDArray[np.int64], destination: int) -> Floats:
        """Return the values from each of several executors to one, shape (num_sources,)."""
        if self._stored is not None:
            stored: Floats = self._stored[sources, destination]
            return stored
        assert self.common is not None
        return np.where(sources == destination, self.diagonal, self.common)

    def item(self, source: int, destination: int) -> float:
        """Return the value from one executor to another."""
        if self._stored is not None:
            return self._stored.item(source, destination)
        assert self.common is not None
        return self.diagonal if source == destination else self.common

    def between(self, used: NDArray[np.int64]) -> Floats:
        """Return the values between some of the executors, shape (num_used, num_used)."""
        if self._stored is not None:
            return self._stored[np.ix_(used, used)]
        return PairValues(self.item(0, 1), self.diagonal, len(used)).table

    @cached_property
    def mean(self) -> float:
        """Mean over all pairs of different executors; 0 if there are none."""
        if self._count == 1:
            return 0.0
        if self.common is not None:  # a sum would round
            return self.common
        return float(self.table[~np.eye(self._count, dtype=bool)].mean())

    def plain(self) -> float | list[list[float | None]] | None:
        """Return the common value of all pairs, or the whole table; infinite values become None because of JSON."""
        if self._count == 1 or self.common == np.inf:
            return None
        if self.common is not None:
            return self.common
        return [[value if value < np.inf else None for value in row] for row in self.table.tolist()]


class Executors:
    """Executors with their speeds and the channels between each pair of them; immutable.

    Moving ``size`` units of data from executor k to another executor l takes
    ``latencies[k, l] + size / transfer_speeds[k, l]`` seconds. Within one executor it takes no time.

    Parameters
    ----------
    speeds : array_like of shape (num_executors,)
        Work per second, v_k, above 0. A node of work w runs for w / v_k seconds unless its job has ``run_times``.
    transfer_speed : float or array_like of shape (num_executors, num_executors)
        Units of data per second from each executor to each other, c_kl, above 0; infinite for no delay. The diagonal
        is ignored.
    latency : float or array_like of shape (num_executors, num_executors)
        Delay before the first unit of data arrives, in seconds, at least 0.
    names : sequence of str, optional
        Names of the executors; default: ``executor0``, ``executor1``, ...
    features : sequence of iterable of str, optional
        Names of the features of each executor, such as ``{"gpu"}``, which nodes may require; see :class:`Job`.
    capacities : sequence of mapping of str to float, optional
        Amounts of each executor by resource, such as ``{"cores": 64, "memory": 256}``. Each executor is then a pool: it
        runs several nodes at once, as long as their demands fit; see :class:`Job`. Without it, an executor runs one
        node at a time.

    Attributes
    ----------
    speeds : numpy.ndarray of shape (num_executors,)
        As given, read-only.
    speed_between, latency_between : PairValues
        Transfer speeds and latencies as given.
    names : tuple of str
        Names of the executors.
    features : tuple of frozenset of str
        Features of the executors.
    resources : tuple of str
        Names of the resources of pools; empty if executors run one node at a time.
    units : numpy.ndarray of int, shape (num_executors, num_resources)
        Amounts of the resources in millionths, so that sums of demands are exact.

    Raises
    ------
    InvalidConfiguration
        If a shape does not match or a value is out of range. The message names the executor or the pair.

    Examples
    --------
    >>> executors = Executors([1.0, 2.0], transfer_speed=10.0)
    >>> executors.num_executors, float(executors.seconds_per_unit[0, 1])
    (2, 0.1)
    """

    def __init__(
        self,
        speeds: ArrayLike,
        transfer_speed: ArrayLike = np.inf,
        latency: ArrayLike = 0.0,
        *,
        names: Sequence[str] | None = None,
        features: Sequence[Iterable[str]] | None = None,
        capacities: Sequence[Mapping[str, float]] | None = None,
    ) -> None:
        speeds = numbers("speeds", speeds, shape=(None,))
        self.names = names_of("executor", names, len(speeds))
        if not self.names:
            raise InvalidConfiguration("speeds is empty, expected one number per executor")
        self.speeds = numbers("speed", speeds, above=0, names=[self.names])
        of_each = sets_of_names("features", [()] * len(speeds) if features is None else features, self.names)
        self.features = tuple(frozenset(found or ()) for found in of_each)
        self.speed_between = self._between_pairs("transfer_speed", transfer_speed, np.inf, above=0, infinite=True)
        self.latency_between = self._between_pairs("latency", latency, 0.0, least=0)
        self.resources, self.units = self._amounts(capacities)

    def _amounts(self, capacities: Sequence[Mapping[str, float]] | None) -> tuple[tuple[str, ...], Units]:
        """Return the names of the resources, and the amounts of each executor in millionths."""
        if capacities is None:
            return (), np.zeros((self.num_executors, 0), dtype=np.int64)
        if len(capacities) != self.num_executors:
            raise InvalidConfiguration(f"capacities: got {len(capacities)}, expected {self.num_executors}")
        resources = tuple(dict.fromkeys(name for amounts in capacities for name in amounts))
        units = np.array(
            [
                units_of(f"capacities of {name!r}", amounts, resources, InvalidConfiguration)
                for name, amounts in zip(self.names, capacities, strict=True)
            ]
        ).reshape(self.num_executors, -1)
        for name, amounts in zip(self.names, units.tolist(), strict=True):
            if not any(amounts):
                raise InvalidConfiguration(f"capacities of {name!r}: got none, expected an amount of some resource")
        units.flags.writeable = False
        return resources, units

    def _between_pairs(self, what: str, values: ArrayLike, diagonal: float, **bounds: Any) -> PairValues:
        count = self.num_executors
        given = numbers(what, values)
        if given.ndim == 0:
            if count > 1:
                numbers(what, [[given]], names=[self.names, self.names[1:]], **bounds)
            return PairValues(given.item(), diagonal, count)
        table = given.copy()
        if table.shape == (count, count):
            np.fill_diagonal(table, diagonal)
        return PairValues(numbers(what, table, shape=(count, count), names=[self.names] * 2, **bounds), diagonal, count)

    def __repr__(self) -> str:
        """Return the number of executors and the range of their speeds."""
        return f"Executors({self.num_executors}, speeds {self.speeds.min():g} to {self.speeds.max():g})"

    @property
    def num_executors(self) -> int:
        """Number of executors, M."""
        return len(self.speeds)

    @property
    def transfer_speeds(self) -> Floats:
        """Units of data per second from each executor to each other; the diagonal is infinite."""
        return self.speed_between.table

    @property
    def latencies(self) -> Floats:
        """Delay before the first unit of data arrives, from each executor to each other; the diagonal is 0."""
        return self.latency_between.table

    @property
    def seconds_per_unit(self) -> Floats:
        """Seconds per unit of data from each executor to each other, 1 / c_kl; the diagonal is 0."""
        return self.seconds_between.table

    @cached_property
    def seconds_between(self) -> PairValues:
        """Seconds per unit of data, 1 / c_kl, between pairs of executors."""
        speeds = self.speed_between
        if speeds.common is not None:
            return PairValues(1.0 / speeds.common, 0.0, self.num_executors)
        table = 1.0 / speeds.table
        table.flags.writeable = False
        return PairValues(table, 0.0, self.num_executors)

    @property
    def lists_channels(self) -> bool:
        """Whether tables list the channel of each pair, instead of only the description's common values."""
        is_uniform = self.speed_between.common is not None and self.latency_between.common is not None
        return self.num_executors <= LISTED or not is_uniform

    @property
    def mean_seconds_per_unit(self) -> float:
        """Mean seconds per unit of data over all pairs of different executors, without latency."""
        return self.seconds_between.mean

    @property
    def mean_latency(self) -> float:
        """Mean latency over all pairs of different executors, in seconds."""
        return self.latency_between.mean

    def describe(self) -> dict[str, Any]:
        """Return the configuration as plain Python values; tables become one number if all pairs are equal."""
        return {
            "num_executors": self.num_executors,
            "speeds": self.speeds.tolist(),
            "transfer_speed": self.speed_between.plain(),
            "latency": self.latency_between.plain(),
            "executors": list(self.names),
            **({"features": [sorted(found) for found in self.features]} if any(self.features) else {}),
            **({"resources": list(self.resources), "capacities": self.capacities} if self.resources else {}),
        }

    @property
    def capacities(self) -> list[dict[str, float]] | None:
        """Amounts of each executor by resource; None if executors run one node at a time."""
        if not self.resources:
            return None
        return [dict(zip(self.resources, row, strict=True)) for row in (self.units / MILLION).tolist()]

    def only(self, used: Sequence[int]) -> Executors:
        """Return some of the executors, which are numbered anew."""
        numbers_used = np.array(used, dtype=np.int64)
        return Executors(
            self.speeds[numbers_used],
            self.speed_between.between(numbers_used),
            self.latency_between.between(numbers_used),
            names=[self.names[executor] for executor in used],
            features=[self.features[executor] for executor in used],
            capacities=[self.capacities[executor] for executor in used] if self.capacities else None,
        )


class SharedLinks:
    """Links with their bandwidths, and the route (list of links) between each pair of executors; immutable.

    A transfer is never faster than the pair's transfer speed, see :class:`Executors`. Transfers under way share the
    links on their routes max-min fairly, see :class:`desim.processes.SharedChannels`.

    Parameters
    ----------
    bandwidths : array_like of shape (num_links,)
        Units of data per second of each link, above 0; infinite for a link that never limits transfers.
    routes : sequence of shape (num_executors, num_executors) of sequence of int
        Links used from each executor (row) to each other executor (column), each at most once. The diagonal is
        ignored.
    names : sequence of str, optional
        Names of the links; default: ``link0``, ``link1``, ...

    Attributes
    ----------
    bandwidths : numpy.ndarray of shape (num_links,)
        As given, read-only.
    num_executors : int
        Number of executors, M.
    names : tuple of str
        Names of the links.

    Raises
    ------
    InvalidConfiguration
        If a bandwidth is not above 0, or a route names a link twice or an unknown link. The message names the link or
        the pair.

    Examples
    --------
    >>> links = SharedLinks.bus(3, bandwidth=10.0)
    >>> links.num_executors, links.num_links, links.routes[0][2]
    (3, 1, (0,))
    """

    def __init__(
        self,
        bandwidths: ArrayLike,
        routes: Sequence[Sequence[Sequence[int]]],
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        bandwidths = numbers("bandwidths", bandwidths, shape=(None,))
        self.names = names_of("link", names, len(bandwidths))
        self.bandwidths = numbers("bandwidth", bandwidths, above=0, infinite=True, names=[self.names])
        count = len(routes)
        for source, row in enumerate(routes):
            if len(row) != count:
                raise InvalidConfiguration(
                    f"routes of executor {source}: got {len(row)}, expected {count}, one per executor"
                )
        if not count:
            raise InvalidConfiguration("routes is empty, expected one route for each pair of executors")
        table = tuple(
            tuple(
                () if source == destination else self._route(source, destination, route) for destination, route in row
            )
            for source, row in enumerate(map(enumerate, routes))
        )
        self._take(_GroupedRoutes(range(count), table))

    def _take(self, routes: _GroupedRoutes | _NetworkRoutes) -> None:
        """Set the routes."""
        self._routes, self.num_executors = routes, routes.num_executors

    def route(self, source: int, destination: int) -> Route:
        """Return the links from one executor to another; none within an executor."""
        return self._routes.route(source, destination)

    @classmethod
    def _with(cls, bandwidths: ArrayLike, names: Sequence[str], routes: _GroupedRoutes | _NetworkRoutes) -> SharedLinks:
        """Return links whose routes take no memory for each pair of executors."""
        links = cls(bandwidths, [[()]], names=names)
        links._take(routes)
        return links

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> SharedLinks:
        """Return the links from :meth:`describe`."""
        bandwidths, names = (
            [np.inf if value is None else value for value in described["bandwidths"]],
            described["names"],
        )
        if "routes" in described:
            return cls(bandwidths, described["routes"], names=names)
        if "neighbors" in described:
            return cls._with(bandwidths, names, _NetworkRoutes(described["neighbors"], described["executors"]))
        shape = (described[part] for part in ("groups", "between", "up", "down"))
        return cls._with(bandwidths, names, _GroupedRoutes(*shape))

    @property
    def routes(self) -> tuple[tuple[Route, ...], ...]:
        """Links from each executor to each other; the diagonal is empty. Many executors have very many."""
        executors = range(self.num_executors)
        return tuple(tuple(self.route(source, destination) for destination in executors) for source in executors)

    def only(self, used: Sequence[int]) -> SharedLinks:
        """Return the links for some of the executors, which are numbered anew."""
        return SharedLinks._with(self.bandwidths, self.names, self._routes.only(used))

    def _route(self, source: int, destination: int, links: Sequence[int]) -> tuple[int, ...]:
        route = tuple(map(int, links))
        if len(set(route)) < len(route) or not all(0 <= link < self.num_links for link in route):
            raise InvalidConfiguration(
                f"route from executor {source} to {destination}: got {route}, expected distinct links below "
                f"{self.num_links}"
            )
        return route

    def __repr__(self) -> str:
        """Return the number of links and executors."""
        return f"SharedLinks({self.num_links} links between {self.num_executors} executors)"

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.bandwidths)

    def describe(self) -> dict[str, Any]:
        """Return the configuration as plain Python values; infinite bandwidths become None.

        The route between two different executors consists of the source's links ``up``, of those ``between`` the
        ``groups`` of source and destination, and of the destination's links ``down``. Of a network with many executors,
        ``neighbors`` are the pairs (vertex, link) at each vertex, and ``executors`` the vertices that are executors;
        routes are then the paths with the fewest links that a breadth-first search finds first.
        """
        return {
            "names": list(self.names),
            "bandwidths": [value if value < np.inf else None for value in self.bandwidths.tolist()],
            **self._routes.describe(),
        }

    # -- common network topologies ------------------------------------------------------------------

    @classmethod
    def bus(cls, num_executors: int, bandwidth: float) -> SharedLinks:
        """Return a bus: one link that all transfers share.

        Parameters
        ----------
        num_executors : int
            Number of executors.
        bandwidth : float
            Bandwidth of the bus, in units of data per second.

        Returns
        -------
        SharedLinks
            The bus.
        """
        return cls._with([bandwidth], ["bus"], _GroupedRoutes([0] * num_executors, [[(0,)]]))

    @classmethod
    def star(cls, up: ArrayLike, down: ArrayLike | None = None) -> SharedLinks:
        """Return a star: an uplink and a downlink per executor, to a switch that never limits transfers.

        Parameters
        ----------
        up : array_like of shape (num_executors,)
            Bandwidth from each executor to the switch, in units of data per second.
        down : array_like of shape (num_executors,), optional
            Bandwidth from the switch to each executor, in units of data per second; default: as ``up``.

        Returns
        -------
        SharedLinks
            The uplinks, then the downlinks.

        Raises
        ------
        InvalidConfiguration
            If the numbers of uplinks and downlinks differ, or a bandwidth is not above 0.
        """
        uplinks, downlinks = np.atleast_1d(up), np.atleast_1d(up if down is None else down)
        if uplinks.shape != downlinks.shape:
            raise InvalidConfiguration(f"down: got {downlinks.size} downlinks, expected {uplinks.size}, one per uplink")
        count = len(uplinks)
        up, down = ([(first + executor,) for executor in range(count)] for first in (0, count))
        bandwidths = np.concatenate([uplinks, downlinks])
        return cls._with(bandwidths, _both_ways(count, "executor"), _GroupedRoutes([0] * count, [[()]], up, down))

    @classmethod
    def racks(cls, sizes: Sequence[int], bandwidth: float, *, within: float = np.inf) -> SharedLinks:
        """Return racks of executors: an uplink and a downlink per rack, and a switch within each rack.

        Parameters
        ----------
        sizes : sequence of int
            Number of executors of each rack. Executors are numbered rack by rack.
        bandwidth : float
            Bandwidth of each rack's uplink and of its downlink, in units of data per second.
        within : float
            Bandwidth of each rack's switch, for transfers between its own executors, in units of data per second.

        Returns
        -------
        SharedLinks
            The uplinks, then the downlinks, then the switches.
        """
        count = len(sizes)
        rack = np.repeat(np.arange(count), sizes).tolist()
        between = [
            [(2 * count + home,) if home == other else (home, count + other) for other in range(count)]
            for home in range(count)
        ]
        names = [*_both_ways(count, "rack"), *(f"within rack{index}" for index in range(count))]
        return cls._with([bandwidth] * 2 * count + [within] * count, names, _GroupedRoutes(rack, between))

    @classmethod
    def from_networkx(cls, graph: nx.Graph, executors: Sequence[Any]) -> SharedLinks:
        """Return the links of a network of routers and executors; the routes are paths with the fewest edges.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
            Network whose edges have the attribute ``bandwidth``, in units of data per second. An edge of a DiGraph
            carries one direction. In a Graph, both directions share the edge's bandwidth.
        executors : sequence
            Nodes of the graph that are executors, in the order of their numbers.

        Returns
        -------
        SharedLinks
            One link per edge, in the graph's order.

        Raises
        ------
        InvalidConfiguration
            If an executor is not in the graph, an edge has no bandwidth, or there is no path between two executors.
        """
        missing = [name for name in executors if name not in graph]
        if missing:
            raise InvalidConfiguration(f"executors: got {missing[0]!r}, expected nodes of the graph")
        number: dict[tuple[Any, Any], int] = {}
        bandwidths = []
        for index, (one, other, attributes) in enumerate(graph.edges(data=True)):
            if "bandwidth" not in attributes:
                raise InvalidConfiguration(
                    f"edge {one!r} - {other!r}: no attribute 'bandwidth', expected units of data per second"
                )
            bandwidths.append(attributes["bandwidth"])
            number[one, other] = index
            if not graph.is_directed():
                number[other, one] = index
        place = {vertex: at for at, vertex in enumerate(graph)}
        neighbors = [[(place[other], number[vertex, other]) for other in graph.adj[vertex]] for vertex in graph]
        found = _NetworkRoutes(neighbors, [place[name] for name in executors])
        unreached = found.unreached()
        if unreached:
            source, destination = (executors[end] for end in unreached)
            raise InvalidConfiguration(
                f"graph: no path from {source!r} to {destination!r}, expected one between all executors"
            )
        names = [f"{one} - {other}" for one, other in graph.edges]
        if len(executors) > LISTED:
            return cls._with(bandwidths, names, found)
        count = range(len(executors))
        return cls(bandwidths, [[found.route(one, other) for other in count] for one in count], names=names)


class _GroupedRoutes:
    """Routes of links up from each executor, between the groups of the two executors, and down to each.

    Parameters
    ----------
    groups : sequence of int
        Group of each executor.
    between : sequence of shape (num_groups, num_groups) of sequence of int
        Links from each group to each other.
    up, down : sequence of sequence of int, optional
        Links from and to each executor; default: none.
    """

    def __init__(
        self,
        groups: Sequence[int],
        between: Sequence[Sequence[Sequence[int]]],
        up: Sequence[Sequence[int]] | None = None,
        down: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.num_executors = len(groups)
        self._groups, self._between = tuple(groups), between
        self._up = ((),) * len(groups) if up is None else tuple(map(tuple, up))
        self._down = ((),) * len(groups) if down is None else tuple(map(tuple, down))

    def route(self, source: int, destination: int) -> Route:
        """Return the links from one executor to another; none within an executor."""
        if source == destination:
            return ()
        between = self._between[self._groups[source]][self._groups[destination]]
        return (*self._up[source], *between, *self._down[destination])

    def only(self, used: Sequence[int]) -> _GroupedRoutes:
        """Return the routes of some of the executors."""
        up, down = ([each[executor] for executor in used] for each in (self._up, self._down))
        return _GroupedRoutes([self._groups[executor] for executor in used], self._between, up, down)

    def describe(self) -> dict[str, Any]:
        """Return the routes as plain Python values."""
        return {
            "groups": list(self._groups),
            "between": [[list(route) for route in row] for row in self._between],
            "up": list(map(list, self._up)),
            "down": list(map(list, self._down)),
        }


class _NetworkRoutes:
    """Paths with the fewest links in a network, computed from a source when a route from it is first asked for.

    Parameters
    ----------
    neighbors : sequence of sequence of (int, int)
        Pairs (vertex, link) that follow each vertex, in the order in which a breadth-first search takes them.
    executors : sequence of int
        Vertices that are executors.
    """

    def __init__(self, neighbors: Sequence[Sequence[Sequence[int]]], executors: Sequence[int]) -> None:
        self._neighbors, self._executors = neighbors, tuple(executors)
        self.num_executors = len(self._executors)
        self._known: dict[int, dict[int, tuple[int, int]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make the routes again, without the paths found so far: equal networks are stored alike."""
        return _NetworkRoutes, (self._neighbors, self._executors)

    def _before(self, source: int) -> dict[int, tuple[int, int]]:
        """Return the vertex before each vertex on the path from a source, and the link between them."""
        before = self._known.get(source)
        if before is None:
            before, vertices = {source: (source, -1)}, [source]
            for vertex in vertices:  # grows
                for other, link in self._neighbors[vertex]:
                    if other not in before:
                        before[other] = vertex, link
                        vertices.append(other)
            self._known[source] = before
        return before

    def route(self, source: int, destination: int) -> Route:
        """Return the links from one executor to another; none within an executor."""
        vertex, links = self._executors[destination], []
        before = self._before(self._executors[source])
        while vertex != self._executors[source]:
            vertex, link = before[vertex]
            links.append(link)
        return tuple(reversed(links))

    def unreached(self) -> tuple[int, int] | None:
        """Return two executors without a path from the one to the other, if there are any."""
        if not self._executors:
            return None
        first = self._executors[0]
        backwards: list[list[tuple[int, int]]] = [[] for _ in self._neighbors]
        for vertex, following in enumerate(self._neighbors):
            for other, link in following:
                backwards[other].append((vertex, link))
        there, back = self._before(first), _NetworkRoutes(backwards, self._executors)._before(first)
        for number, vertex in enumerate(self._executors):
            if vertex not in there:
                return 0, number
            if vertex not in back:
                return number, 0
        return None

    def only(self, used: Sequence[int]) -> _NetworkRoutes:
        """Return the routes of some of the executors."""
        return _NetworkRoutes(self._neighbors, [self._executors[executor] for executor in used])

    def describe(self) -> dict[str, Any]:
        """Return the network as plain Python values."""
        neighbors = [[list(pair) for pair in following] for following in self._neighbors]
        return {"neighbors": neighbors, "executors": list(self._executors)}


def _both_ways(count: int, what: str) -> list[str]:
    return [f"{what}{index} {way}" for way in ("up", "down") for index in range(count)]
