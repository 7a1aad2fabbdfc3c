"""The executors of a cluster: how fast they compute, how fast data move between them, and what links these share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.checks import names_of, numbers
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Executors", "SharedLinks"]

Floats = NDArray[np.float64]


class Executors:
    """Executors with their speeds and the channels between each pair of them; they do not change.

    Moving ``size`` units of data from executor k to another executor l takes
    ``latencies[k, l] + size / transfer_speeds[k, l]`` seconds, and no time within one executor.

    Parameters
    ----------
    speeds : array_like of shape (num_executors,)
        Work per second, v_k, above 0. A node of work w runs for w / v_k seconds, unless its job says otherwise.
    transfer_speed : float or array_like of shape (num_executors, num_executors)
        Units of data per second from each executor to each other, c_kl, above 0; infinite for no delay. The
        diagonal is not looked at.
    latency : float or array_like of shape (num_executors, num_executors)
        Seconds before the first unit of data arrives, at least 0.
    names : sequence of str, optional
        ``executor0``, ``executor1``, ... if left out.

    Attributes
    ----------
    speeds : numpy.ndarray of shape (num_executors,)
        As given, read-only.
    transfer_speeds, latencies : numpy.ndarray of shape (num_executors, num_executors)
        As given, read-only; the diagonals are infinite and 0.
    names : tuple of str
        Names.

    Raises
    ------
    InvalidConfiguration
        If a shape does not fit, or a value is out of range; the message names the executor or the pair.

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
    ) -> None:
        speeds = numbers("speeds", speeds, shape=(None,))
        self.names = names_of("executor", names, len(speeds))
        if not self.names:
            raise InvalidConfiguration("speeds is empty, want one number for each executor")
        self.speeds = numbers("speed", speeds, above=0, names=[self.names])
        self.transfer_speeds = self._between_pairs("transfer_speed", transfer_speed, np.inf, above=0, infinite=True)
        self.latencies = self._between_pairs("latency", latency, 0.0, least=0)

    def _between_pairs(self, what: str, values: ArrayLike, diagonal: float, **bounds: Any) -> Floats:
        given, count = numbers(what, values), self.num_executors
        table = np.array(np.broadcast_to(given, (count, count))) if given.ndim == 0 else given.copy()
        if table.shape == (count, count):
            np.fill_diagonal(table, diagonal)
        return numbers(what, table, shape=(count, count), names=[self.names] * 2, **bounds)

    def __repr__(self) -> str:
        """Say how many there are and how fast."""
        return f"Executors({self.num_executors}, speeds {self.speeds.min():g} to {self.speeds.max():g})"

    @property
    def num_executors(self) -> int:
        """Number of executors, M."""
        return len(self.speeds)

    @cached_property
    def seconds_per_unit(self) -> Floats:
        """Seconds that a unit of data takes from each executor to each other, 1 / c_kl; the diagonal is 0."""
        table = 1.0 / self.transfer_speeds
        table.flags.writeable = False
        return table

    @cached_property
    def mean_seconds_per_unit(self) -> float:
        """Mean over all pairs of different executors of the seconds that a unit of data takes, without latency."""
        return self._mean_between(self.seconds_per_unit)

    @cached_property
    def mean_latency(self) -> float:
        """Mean latency over all pairs of different executors, in seconds."""
        return self._mean_between(self.latencies)

    def _mean_between(self, table: Floats) -> float:
        count = self.num_executors
        if count == 1:
            return 0.0
        apart = table[~np.eye(count, dtype=bool)]
        first = apart[0].item()
        # Of equal numbers the mean is that number; summing them would round.
        return float(first) if (apart == first).all() else float(apart.mean())

    def describe(self) -> dict[str, Any]:
        """Return what they are as plain values; tables of pairs as one number where all pairs are equal."""
        return {
            "num_executors": self.num_executors,
            "speeds": self.speeds.tolist(),
            "transfer_speed": _plain(self.transfer_speeds),
            "latency": _plain(self.latencies),
            "executors": list(self.names),
        }


def _plain(table: Floats) -> float | list[list[float | None]] | None:
    """Return the value of all pairs, or the whole table; None for what is infinite, as JSON has no such number."""
    apart = table[~np.eye(len(table), dtype=bool)]
    if not len(apart) or (apart == np.inf).all():
        return None
    if (apart == apart[0]).all():
        return float(apart[0])
    return [[value if value < np.inf else None for value in row] for row in table.tolist()]


class SharedLinks:
    """Links with their bandwidths, and the links that data take between each pair of executors; they do not change.

    A transfer goes at most at the pair's own transfer speed, see :class:`Executors`, and transfers under way share the
    links that they take max-min fairly, see :class:`desim.processes.SharedChannels`.

    Parameters
    ----------
    bandwidths : array_like of shape (num_links,)
        Units of data per second, above 0; infinite for a link that never limits.
    routes : sequence of shape (num_executors, num_executors) of sequence of int
        The links that data take from each executor (row) to each other (column), each once; the diagonal is not
        looked at.
    names : sequence of str, optional
        Names of the links; ``link0``, ``link1``, ... if left out.

    Attributes
    ----------
    bandwidths : numpy.ndarray of shape (num_links,)
        As given, read-only.
    routes : tuple of tuple of tuple of int
        As given; the diagonal is empty.
    names : tuple of str
        Names.

    Raises
    ------
    InvalidConfiguration
        If a bandwidth is not above 0, or a route names a link twice or one that there is not; the message names the
        link or the pair.

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
                raise InvalidConfiguration(f"executor {source} has routes to {len(row)} executors, there are {count}")
        if not count:
            raise InvalidConfiguration("there are no routes, want one for each pair of executors")
        self.routes = tuple(
            tuple(
                () if source == destination else self._route(source, destination, route) for destination, route in row
            )
            for source, row in enumerate(map(enumerate, routes))
        )

    def _route(self, source: int, destination: int, links: Sequence[int]) -> tuple[int, ...]:
        route = tuple(map(int, links))
        if len(set(route)) < len(route) or not all(0 <= link < self.num_links for link in route):
            raise InvalidConfiguration(
                f"the route from executor {source} to {destination} is {route}, want different links of "
                f"{self.num_links}"
            )
        return route

    def __repr__(self) -> str:
        """Say how many there are."""
        return f"SharedLinks({self.num_links} links between {self.num_executors} executors)"

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.bandwidths)

    @property
    def num_executors(self) -> int:
        """Number of executors, M."""
        return len(self.routes)

    def describe(self) -> dict[str, Any]:
        """Return what they are as plain values; the bandwidth of a link that never limits is None."""
        return {
            "names": list(self.names),
            "bandwidths": [value if value < np.inf else None for value in self.bandwidths.tolist()],
            "routes": [[list(route) for route in row] for row in self.routes],
        }

    # -- usual networks -----------------------------------------------------------------------------

    @classmethod
    def bus(cls, num_executors: int, bandwidth: float) -> SharedLinks:
        """Return one link that all transfers share.

        Parameters
        ----------
        num_executors : int
            Number of executors.
        bandwidth : float
            Of the link, in units of data per second.

        Returns
        -------
        SharedLinks
            The bus.
        """
        return cls([bandwidth], [[(0,)] * num_executors] * num_executors, names=["bus"])

    @classmethod
    def star(cls, up: ArrayLike, down: ArrayLike | None = None) -> SharedLinks:
        """Return an uplink and a downlink for each executor, to a switch that never limits.

        Parameters
        ----------
        up : array_like of shape (num_executors,)
            Bandwidth from each executor to the switch, in units of data per second.
        down : array_like of shape (num_executors,), optional
            Bandwidth from the switch to each executor; as ``up`` if left out.

        Returns
        -------
        SharedLinks
            The uplinks, then the downlinks.

        Raises
        ------
        InvalidConfiguration
            If there are not as many downlinks as uplinks, or for what the class refuses.
        """
        uplinks, downlinks = np.atleast_1d(up), np.atleast_1d(up if down is None else down)
        if uplinks.shape != downlinks.shape:
            raise InvalidConfiguration(f"there are {uplinks.size} uplinks and {downlinks.size} downlinks, want as many")
        count = len(uplinks)
        routes = [[(source, count + destination) for destination in range(count)] for source in range(count)]
        return cls(np.concatenate([uplinks, downlinks]), routes, names=_both_ways(count, "executor"))

    @classmethod
    def racks(cls, sizes: Sequence[int], bandwidth: float, *, within: float = np.inf) -> SharedLinks:
        """Return racks of executors: an uplink and a downlink a rack, and a switch within each.

        Parameters
        ----------
        sizes : sequence of int
            Executors of each rack; they are numbered rack by rack.
        bandwidth : float
            From each rack to the others and back, in units of data per second each way.
        within : float
            Of the switch of a rack, for the transfers between its own executors, in units of data per second.

        Returns
        -------
        SharedLinks
            The uplinks, then the downlinks, then the switches.
        """
        count = len(sizes)
        rack = np.repeat(np.arange(count), sizes).tolist()
        routes = [[(2 * count + home,) if home == other else (home, count + other) for other in rack] for home in rack]
        names = [*_both_ways(count, "rack"), *(f"within rack{index}" for index in range(count))]
        return cls([bandwidth] * 2 * count + [within] * count, routes, names=names)

    @classmethod
    def from_networkx(cls, graph: nx.Graph, executors: Sequence[Any]) -> SharedLinks:
        """Return the links of a network of routers and executors, with paths of the fewest edges as routes.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
            Each edge has an attribute ``bandwidth``, in units of data per second. An edge of a DiGraph carries one
            direction; both directions share one of a Graph.
        executors : sequence
            The nodes of the graph that are executors, in the order of their numbers.

        Returns
        -------
        SharedLinks
            A link for each edge, in the graph's order.

        Raises
        ------
        InvalidConfiguration
            If an executor is not in the graph, an edge has no bandwidth, or there is no path between two executors.
        """
        import networkx as nx

        missing = [name for name in executors if name not in graph]
        if missing:
            raise InvalidConfiguration(f"executor {missing[0]!r} is not in the graph")
        number: dict[tuple[Any, Any], int] = {}
        bandwidths = []
        for index, (one, other, attributes) in enumerate(graph.edges(data=True)):
            if "bandwidth" not in attributes:
                raise InvalidConfiguration(f"the edge {one!r} - {other!r} has no bandwidth")
            bandwidths.append(attributes["bandwidth"])
            number[one, other] = index
            if not graph.is_directed():
                number[other, one] = index
        routes = []
        for source in executors:
            paths = nx.single_source_shortest_path(graph, source)
            unreached = [name for name in executors if name not in paths]
            if unreached:
                raise InvalidConfiguration(f"there is no path from {source!r} to {unreached[0]!r}")
            routes.append([[number[step] for step in pairwise(paths[name])] for name in executors])
        return cls(bandwidths, routes, names=[f"{one} - {other}" for one, other in graph.edges])


def _both_ways(count: int, what: str) -> list[str]:
    return [f"{what}{index} {way}" for way in ("up", "down") for index in range(count)]
