"""What an allocation earns: gain by parallel computation, less the dominant communication overhead.

Equation (7) of arXiv 2305.06572, in the "nice setup" of its definition 1: a utility for each node and resource, summed
over nodes. For a job at port l

    q_l(y) = sum_k sum_r f_r^k(y_(l,r)^k) - max_k beta_k sum_r y_(l,r)^k.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.utilities import Utility, utility

__all__ = ["Earnings", "RewardModel", "Rewards"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


class Earnings(NamedTuple):
    """What each job gets and earns; a job's reward is its gain less its overhead.

    Attributes
    ----------
    gain, overhead : numpy.ndarray of shape (num_ports,)
        In units of reward.
    dominant : numpy.ndarray of int64, shape (num_ports,)
        k* of equation (27): the first resource with the largest overhead.
    held : numpy.ndarray of shape (num_ports, num_resources)
        Amounts, summed over nodes.
    """

    gain: Floats
    overhead: Floats
    dominant: NDArray[np.int64]
    held: Floats


class Rewards(Protocol):
    """What agents may ask of the rewards: a :class:`RewardModel`, or the :class:`GangRewards` of components."""

    @property
    def graph(self) -> BipartiteGraph:
        """The graph whose channels are the rows of allocations."""

    @property
    def overhead(self) -> Floats:
        """The coefficients beta_k."""

    @property
    def slopes_at_zero(self) -> Floats:
        """The largest slopes of the utilities, by node and resource."""

    def evaluate(self, allocation: Floats, arrived: Booleans) -> Earnings:
        """Return what each job gets and earns."""

    def gradient(self, allocation: Floats, arrived: Booleans | Floats) -> Floats:
        """Return a supergradient of the total reward."""


class RewardModel:
    """Gain, overhead and gradient of allocations on one graph.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes, resources.
    utilities : array_like of str
        Names of utilities f_r^k: one for all, one a resource, or of shape (num_nodes, num_resources).
    weights : array_like of float
        Their parameters alpha, above 0: one for all, one a resource, or of shape (num_nodes, num_resources).
    overhead : array_like of float
        Coefficients beta_k of the communication overhead, at least 0: one for all, or one a resource.

    Attributes
    ----------
    graph : BipartiteGraph
        As given.
    utilities, weights : numpy.ndarray of shape (num_nodes, num_resources)
        Names and parameters.
    overhead : numpy.ndarray of shape (num_resources,)
        The coefficients.

    Raises
    ------
    InvalidConfiguration
        If a shape does not fit, a utility is unknown, or a number is out of range.
    """

    def __init__(
        self, graph: BipartiteGraph, utilities: ArrayLike, weights: ArrayLike = 1.0, overhead: ArrayLike = 0.0
    ) -> None:
        self.graph = graph
        shape = (graph.num_nodes, graph.num_resources)
        self.utilities = _broadcast("utilities", _texts(utilities), shape)
        self.weights = _broadcast("weights", _numbers("weights", weights), shape)
        self.overhead = _broadcast("overhead", _numbers("overhead", overhead), shape[1:])
        if not (self.weights > 0).all():
            node, resource = np.argwhere(~(self.weights > 0))[0]
            raise InvalidConfiguration(
                f"the weight of {graph.nodes[node]}, {graph.resources[resource]} is "
                f"{float(self.weights[node, resource])!r}, want a number above 0"
            )
        if not (self.overhead >= 0).all():
            resource = int(np.flatnonzero(~(self.overhead >= 0))[0])
            raise InvalidConfiguration(
                f"the overhead of {graph.resources[resource]} is {float(self.overhead[resource])!r}, want at least 0"
            )
        self._groups = list(self._group())

    def _group(self) -> Iterator[tuple[Utility, Any, Floats]]:
        """Yield each utility, the flat entries of an allocation that it applies to, and their weights."""
        names = self.utilities[self.graph.channel_node].ravel()
        weights = self.weights[self.graph.channel_node].ravel()
        for name in np.unique(self.utilities).tolist():
            entries = np.flatnonzero(names == name)
            everywhere = len(entries) == len(names)
            yield utility(name), slice(None) if everywhere else entries, weights if everywhere else weights[entries]

    def for_graph(self, graph: BipartiteGraph) -> RewardModel:
        """Return the same rewards on a graph with the same nodes and resources, but other ports.

        Parameters
        ----------
        graph : BipartiteGraph
            For example one with repeated ports.

        Returns
        -------
        RewardModel
            A new one.
        """
        return RewardModel(graph, self.utilities, self.weights, self.overhead)

    def utility_gains(self, allocation: Floats) -> Floats:
        """Return f_r^k(y) of every entry.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts of at least 0.

        Returns
        -------
        numpy.ndarray
            Of the same shape.
        """
        return self._apply(allocation, "value")

    def slopes(self, allocation: Floats) -> Floats:
        """Return the derivative of f_r^k at every entry; the shapes are those of :meth:`utility_gains`."""
        return self._apply(allocation, "slope")

    def _apply(self, allocation: Floats, function: str) -> Floats:
        flat = allocation.ravel()
        result = np.empty_like(flat)
        for family, entries, weights in self._groups:
            result[entries] = getattr(family, function)(flat[entries], weights)
        return result.reshape(allocation.shape)

    def slope_inverse(self, slopes: Floats, largest: Floats) -> Floats:
        """Return the amounts within [0, largest] at which the utilities have given slopes.

        Parameters
        ----------
        slopes, largest : numpy.ndarray of shape (num_channels, num_resources)
            What is asked for.

        Returns
        -------
        numpy.ndarray
            Of the same shape; the nearest end where no amount has the slope, see :meth:`Utility.amount_at`.
        """
        slope, most = slopes.ravel(), largest.ravel()
        result = np.empty_like(slope)
        for family, entries, weights in self._groups:
            result[entries] = family.amount_at(slope[entries], weights, most[entries])
        return result.reshape(slopes.shape)

    @property
    def slopes_at_zero(self) -> Floats:
        """The largest slopes, varpi_r^k of equation (13), by node and resource."""
        result: Floats = np.empty_like(self.weights)
        for name in np.unique(self.utilities).tolist():
            at = self.utilities == name
            result[at] = utility(name).slope(np.zeros(at.sum()), self.weights[at])
        return result

    def evaluate(self, allocation: Floats, arrived: Booleans) -> Earnings:
        """Return what the jobs that have arrived get and earn.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts of at least 0.
        arrived : numpy.ndarray of bool, shape (num_ports,)
            Ports that have a job.

        Returns
        -------
        Earnings
            Zero for ports without a job.
        """
        present = arrived[:, None]
        gain = self.graph.port_sums(self.utility_gains(allocation)).sum(axis=1)
        held = np.where(present, self.graph.port_sums(allocation), 0.0)
        overheads = held * self.overhead
        dominant = overheads.argmax(axis=1)
        return Earnings(np.where(arrived, gain, 0.0), overheads.max(axis=1), dominant, held)

    def total_reward(self, allocation: Floats, arrived: Booleans) -> float:
        """Return the reward of a slot, equation (8); the arguments are those of :meth:`evaluate`."""
        earnings = self.evaluate(allocation, arrived)
        return float(earnings.gain.sum() - earnings.overhead.sum())

    def dominant_resource(self, allocation: Floats) -> NDArray[np.int64]:
        """Return k* of equation (27) for each port, whether it has a job or not.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts of at least 0.

        Returns
        -------
        numpy.ndarray of shape (num_ports,)
            Indices of resources, the first of those with the largest overhead.
        """
        dominant: NDArray[np.int64] = (self.graph.port_sums(allocation) * self.overhead).argmax(axis=1)
        return dominant

    def gradient(self, allocation: Floats, arrived: Booleans | Floats) -> Floats:
        """Return a supergradient of the total reward, equation (30).

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts of at least 0.
        arrived : numpy.ndarray of shape (num_ports,)
            Ports that have a job; or numbers, with which the gradients of the ports are multiplied.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Zero at channels of ports without a job.
        """
        port = self.graph.channel_port
        result = self.slopes(allocation)
        dominant = self.dominant_resource(allocation)
        marginal = np.zeros((self.graph.num_ports, self.graph.num_resources))
        marginal[np.arange(len(marginal)), dominant] = self.overhead[dominant]
        result -= marginal.take(port, axis=0)
        if arrived.dtype != np.bool_:
            result *= arrived[port][:, None]
        elif not arrived.all():
            result[np.logical_not(arrived[port])] = 0.0
        return result


def _texts(utilities: ArrayLike) -> NDArray[np.str_]:
    try:
        return np.asarray(utilities, dtype=np.str_)
    except ValueError as error:
        raise InvalidConfiguration(f"utilities is not an array of names: {error}") from error


def _numbers(what: str, values: ArrayLike) -> Floats:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{what} is not an array of numbers: {error}") from error
    wrong = np.argwhere(~np.isfinite(numbers))
    if len(wrong):
        place = f" at {wrong[0].tolist()}" if numbers.ndim else ""
        raise InvalidConfiguration(f"{what} holds {float(numbers[tuple(wrong[0])])!r}{place}, want finite numbers")
    return numbers


def _broadcast(what: str, values: Any, shape: tuple[int, ...]) -> Any:
    try:
        result = np.array(np.broadcast_to(values, shape))
    except ValueError:
        raise InvalidConfiguration(f"{what} has shape {values.shape}, want one that broadcasts to {shape}") from None
    result.flags.writeable = False
    return result
