"""Rewards of allocations: gain by parallel computation minus the dominant communication overhead.

Equation (7) of arXiv 2305.06572, in the "nice setup" of its definition 1: a utility for each node and resource, summed
over nodes. For a job at port l

    q_l(y) = sum_k sum_r f_r^k(y_(l,r)^k) - max_k beta_k sum_r y_(l,r)^k.

Gangs (section 3.5) are jobs of several components, a minimum number of which must be served together. Each component
becomes a port of a larger graph, with the channels of its job, so that any agent for bipartite graphs can serve
components. Rewards are those of the jobs, and the components of a job share the utility of a node:

    q_l(y) = sum_k sum_r f_r^k(sum_q y_(l,r)^(q,k)) - max_k beta_k sum_q sum_r y_(l,r)^(q,k).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.utilities import Utility, utility

__all__ = ["NEGLIGIBLE", "Gang", "GangRewards", "Layout", "RewardModel", "RewardTerms", "Rewards"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

NEGLIGIBLE = 1e-9
"""Amounts up to this are rounding errors, and serve no component."""


class RewardTerms(NamedTuple):
    """Gain, overhead and amounts of each job; its reward is gain minus overhead.

    Attributes
    ----------
    gain, overhead : numpy.ndarray of shape (num_ports,)
        Gain and overhead in units of reward.
    dominant : numpy.ndarray of int64, shape (num_ports,)
        First resource with the largest overhead, k* of equation (27).
    held : numpy.ndarray of shape (num_ports, num_resources)
        Amounts summed over the nodes.
    """

    gain: Floats
    overhead: Floats
    dominant: NDArray[np.int64]
    held: Floats


class Rewards(Protocol):
    """Interface of rewards for agents: a :class:`RewardModel`, or the :class:`GangRewards` of components."""

    @property
    def graph(self) -> BipartiteGraph:
        """Graph whose channels are the rows of allocations."""

    @property
    def overhead(self) -> Floats:
        """Overhead coefficients beta_k."""

    @property
    def slopes_at_zero(self) -> Floats:
        """Largest slopes of the utilities, by node and resource."""

    def evaluate(self, allocation: Floats, arrived: Booleans) -> RewardTerms:
        """Return the amounts, gain and overhead of each job."""

    def gradient(self, allocation: Floats, arrived: Booleans | Floats, smoothing: float = 0.0) -> Floats:
        """Return a supergradient of the total reward, or, with smoothing, the gradient of a smooth approximation."""


class RewardModel:
    """Gain, overhead and gradient of allocations on a graph.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes and resources.
    utilities : array_like of str
        Names of the utilities f_r^k: one for all, one per resource, or of shape (num_nodes, num_resources).
    weights : array_like of float
        Parameters alpha of the utilities, above 0: one for all, one per resource, or of shape (num_nodes,
        num_resources).
    overhead : array_like of float
        Coefficients beta_k of the communication overhead, at least 0: one for all, or one per resource.

    Attributes
    ----------
    graph : BipartiteGraph
        As given.
    utilities, weights : numpy.ndarray of shape (num_nodes, num_resources)
        Names and parameters of the utilities.
    overhead : numpy.ndarray of shape (num_resources,)
        Overhead coefficients.

    Raises
    ------
    InvalidConfiguration
        If a shape does not match, a utility is unknown, or a number is out of range.
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
                f"weight of {graph.nodes[node]}, {graph.resources[resource]}: got "
                f"{float(self.weights[node, resource])!r}, expected a number above 0"
            )
        if not (self.overhead >= 0).all():
            resource = int(np.flatnonzero(~(self.overhead >= 0))[0])
            raise InvalidConfiguration(
                f"overhead of {graph.resources[resource]}: got {float(self.overhead[resource])!r}, expected at least 0"
            )
        names = self.utilities[self.graph.channel_node].ravel()
        self._order: Indices = np.argsort(names, kind="stable")
        self._place: Indices = np.argsort(self._order)
        self._groups = list(self._group(names[self._order]))

    def _group(self, names: NDArray[np.str_]) -> Iterator[tuple[Utility, slice, Floats]]:
        """Yield each utility, the sorted entries of an allocation that it applies to, and their weights."""
        weights = self.weights[self.graph.channel_node].ravel()[self._order]
        for name in np.unique(names).tolist():
            begin, end = np.searchsorted(names, name), np.searchsorted(names, name, side="right")
            yield utility(name), slice(int(begin), int(end)), weights[begin:end]

    def for_graph(self, graph: BipartiteGraph) -> RewardModel:
        """Return the same rewards on a graph with the same nodes and resources but other ports.

        Parameters
        ----------
        graph : BipartiteGraph
            New graph, for example one with repeated ports.

        Returns
        -------
        RewardModel
            Rewards on the new graph.
        """
        return RewardModel(graph, self.utilities, self.weights, self.overhead)

    def utility_gains(self, allocation: Floats) -> Floats:
        """Return the utility f_r^k(y) of every entry.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts, at least 0.

        Returns
        -------
        numpy.ndarray
            Utilities, of the same shape.
        """
        return self._apply("value", allocation)

    def slopes(self, allocation: Floats) -> Floats:
        """Return the derivative of f_r^k at every entry; shapes as for :meth:`utility_gains`."""
        return self._apply("slope", allocation)

    def slope_inverse(self, slopes: Floats, largest: Floats) -> Floats:
        """Return the amounts within [0, largest] at which the utilities have given slopes.

        Parameters
        ----------
        slopes, largest : numpy.ndarray of shape (num_channels, num_resources)
            Slopes and upper bounds of the amounts.

        Returns
        -------
        numpy.ndarray
            Amounts, of the same shape; the nearest bound if no amount has the slope, see :meth:`Utility.amount_at`.
        """
        return self._apply("amount_at", slopes, largest)

    def _apply(self, function: str, values: Floats, *more: Floats) -> Floats:
        """Apply a function of each entry's utility to the value, the weight and further arguments."""
        if len(self._groups) == 1:
            ((family, _, weights),) = self._groups
            return np.reshape(getattr(family, function)(values.ravel(), weights, *map(np.ravel, more)), values.shape)
        # Sorting by utility makes entries of a utility contiguous: two moves in total instead of two per utility.
        ordered = [table.take(self._order) for table in (values, *more)]
        result = np.empty(values.size)
        for family, entries, weights in self._groups:
            result[entries] = getattr(family, function)(
                ordered[0][entries], weights, *[o[entries] for o in ordered[1:]]
            )
        return result.take(self._place).reshape(values.shape)

    @property
    def slopes_at_zero(self) -> Floats:
        """Largest slopes, varpi_r^k of equation (13), by node and resource."""
        result: Floats = np.empty_like(self.weights)
        for name in np.unique(self.utilities).tolist():
            at = self.utilities == name
            result[at] = utility(name).slope(np.zeros(at.sum()), self.weights[at])
        return result

    def evaluate(self, allocation: Floats, arrived: Booleans) -> RewardTerms:
        """Return amounts, gain and overhead of the jobs that have arrived.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts, at least 0.
        arrived : numpy.ndarray of bool, shape (num_ports,)
            Whether each port has a job.

        Returns
        -------
        RewardTerms
            Values per port, zero for ports without a job.
        """
        present = arrived[:, None]
        gain = self.graph.port_sums(self.utility_gains(allocation)).sum(axis=1)
        held = np.where(present, self.graph.port_sums(allocation), 0.0)
        overheads = held * self.overhead
        dominant = overheads.argmax(axis=1)
        return RewardTerms(np.where(arrived, gain, 0.0), overheads.max(axis=1), dominant, held)

    def total_reward(self, allocation: Floats, arrived: Booleans) -> float:
        """Return the total reward of a slot, equation (8); arguments as for :meth:`evaluate`."""
        earnings = self.evaluate(allocation, arrived)
        return float(earnings.gain.sum() - earnings.overhead.sum())

    def dominant_resource(self, allocation: Floats) -> NDArray[np.int64]:
        """Return the dominant resource, k* of equation (27), of each port, with or without a job.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts, at least 0.

        Returns
        -------
        numpy.ndarray of shape (num_ports,)
            Indices of resources; the first one if several have the largest overhead.
        """
        dominant: NDArray[np.int64] = (self.graph.port_sums(allocation) * self.overhead).argmax(axis=1)
        return dominant

    def gradient(self, allocation: Floats, arrived: Booleans | Floats, smoothing: float = 0.0) -> Floats:
        """Return a supergradient of the total reward, equation (30).

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Amounts, at least 0.
        arrived : numpy.ndarray of shape (num_ports,)
            Whether each port has a job, or numbers that multiply the gradients of the ports.
        smoothing : float
            Degree of smoothing. At 0, the dominant resource bears all overhead. Above 0, resources share it in
            proportion to exp(-gap / smoothing), where the gap is the relative distance of an overhead to the port's
            largest one. Without smoothing, gradient ascent stops where two overheads are equal.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Supergradient; zero at channels of ports without a job.
        """
        port = self.graph.channel_port
        result = self.slopes(allocation)
        if smoothing:
            marginal = self._shared_overhead(allocation, smoothing)
        else:
            dominant = self.dominant_resource(allocation)
            marginal = np.zeros((self.graph.num_ports, self.graph.num_resources))
            marginal[np.arange(len(marginal)), dominant] = self.overhead[dominant]
        result -= marginal.take(port, axis=0)
        if arrived.dtype != np.bool_:
            result *= arrived[port][:, None]
        elif not arrived.all():
            result[np.logical_not(arrived[port])] = 0.0
        return result

    def _shared_overhead(self, allocation: Floats, smoothing: float) -> Floats:
        """Return the marginal overhead of each resource at each port, shared between the largest overheads.

        At a port that has nothing, all resources have equal shares.
        """
        overheads = self.graph.port_sums(allocation) * self.overhead
        largest = overheads.max(axis=1, keepdims=True)
        shares: Floats = np.exp((overheads - largest) / np.where(largest > 0, smoothing * largest, 1.0))
        shares *= self.overhead / shares.sum(axis=1, keepdims=True)
        return shares


class Gang:
    """Components of each job type, and the minimum number of components that a job needs.

    Parameters
    ----------
    components : sequence of array_like of shape (num_components, num_resources)
        Largest amounts that the components of each port take through one channel, a_l^(q,k).
    minimum : int or sequence of int
        Number of components that must get resources for a job to start, m_l: one number, or one per port. A job with
        fewer gets nothing. A component that requests nothing gets nothing and does not count.
    whole : bool
        Whether components are indivisible: each gets its full request from one node, or nothing.

    Attributes
    ----------
    counts : numpy.ndarray of shape (num_ports,)
        Number of components of each port.

    Raises
    ------
    InvalidConfiguration
        If a shape does not match, an amount is out of range, or the minimum exceeds the number of components.
    """

    def __init__(self, components: Sequence[ArrayLike], minimum: int | Sequence[int], *, whole: bool = False) -> None:
        try:
            self.components = [np.array(requests, dtype=np.float64) for requests in components]
            self.minimum: Indices = np.array(np.broadcast_to(minimum, (len(self.components),)))
        except (TypeError, ValueError) as error:
            raise InvalidConfiguration(
                f"components, minimum: expected tables of numbers, one per port: {error}"
            ) from error
        if self.minimum.dtype.kind not in "ui":
            raise InvalidConfiguration(f"minimum: got {minimum!r}, expected integers")
        for port, requests in enumerate(self.components):
            if requests.ndim != 2 or 0 in requests.shape:
                raise InvalidConfiguration(
                    f"components of port {port}: got shape {requests.shape}, expected (components, resources)"
                )
            if not ((requests >= 0) & (requests < np.inf)).all():
                raise InvalidConfiguration(
                    f"components of port {port}: got {requests.tolist()}, expected finite amounts >= 0"
                )
        self.counts: Indices = np.array([len(requests) for requests in self.components], dtype=np.int64)
        self.whole = whole
        wrong = np.flatnonzero((self.minimum < 1) | (self.minimum > self.counts))
        if len(wrong):
            port = int(wrong[0])
            raise InvalidConfiguration(
                f"minimum of port {port}: got {self.minimum[port]}, expected 1 to {self.counts[port]}, its components"
            )

    def repeat_ports(self, copies: int) -> Gang:
        """Return the gang for a graph with repeated ports, see :meth:`BipartiteGraph.repeat_ports`."""
        if copies == 1:
            return self
        components = [requests for requests in self.components for _ in range(copies)]
        return Gang(components, np.repeat(self.minimum, copies).tolist(), whole=self.whole)

    def component_graph(self, graph: BipartiteGraph) -> BipartiteGraph:
        """Return the graph in which every component is a port.

        Parameters
        ----------
        graph : BipartiteGraph
            Graph of the jobs; only its channels, nodes and capacities are used.

        Returns
        -------
        BipartiteGraph
            Graph with ports named ``name/1``, ``name/2``, ..., those of one job side by side.

        Raises
        ------
        InvalidConfiguration
            If the numbers of ports or resources do not match.
        """
        if len(self.counts) != graph.num_ports:
            raise InvalidConfiguration(
                f"components: got {len(self.counts)} ports, expected {graph.num_ports} as in graph"
            )
        requests = np.concatenate(self.components)
        first = np.cumsum(self.counts) - self.counts
        channels = [
            (int(first[port]) + component, node)
            for port, node in zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
            for component in range(int(self.counts[port]))
        ]
        names = [
            f"{name}/{number + 1}"
            for name, count in zip(graph.ports, self.counts, strict=True)
            for number in range(count)
        ]
        return BipartiteGraph(
            requests, graph.capacity, channels, ports=names, nodes=graph.nodes, resources=graph.resources
        )


class GangRewards:
    """Rewards of jobs as functions of their components' amounts; same interface for agents as :class:`RewardModel`.

    Parameters
    ----------
    jobs : RewardModel
        Rewards on the graph of the jobs.
    gang : Gang
        Components of the jobs.

    Attributes
    ----------
    graph : BipartiteGraph
        Graph of the components.
    job_of : numpy.ndarray of shape (number of components,)
        Port of the job of each component.
    """

    def __init__(self, jobs: RewardModel, gang: Gang) -> None:
        self.jobs = jobs
        self.gang = gang
        self.graph = gang.component_graph(jobs.graph)
        self.job_of: Indices = np.repeat(np.arange(jobs.graph.num_ports), gang.counts)
        index = np.full((jobs.graph.num_ports, jobs.graph.num_nodes), -1, dtype=np.int64)
        index[jobs.graph.channel_port, jobs.graph.channel_node] = np.arange(jobs.graph.num_channels)
        self._channel_of: Indices = index[self.job_of[self.graph.channel_port], self.graph.channel_node]
        self._first: Indices = np.cumsum(gang.counts) - gang.counts

    @property
    def overhead(self) -> Floats:
        """Overhead coefficients beta_k."""
        coefficients: Floats = self.jobs.overhead
        return coefficients

    @property
    def slopes_at_zero(self) -> Floats:
        """Largest slopes, by node and resource."""
        return self.jobs.slopes_at_zero

    def of_jobs(self, allocation: Floats) -> Floats:
        """Return the sum of the amounts of each job's components.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (channels of components, num_resources)
            Amounts of the components.

        Returns
        -------
        numpy.ndarray of shape (channels of jobs, num_resources)
            Amounts of the jobs.
        """
        total = np.zeros(self.jobs.graph.shape)
        np.add.at(total, self._channel_of, allocation)
        return total

    def jobs_arrived(self, arrived: Booleans) -> Booleans:
        """Return which jobs have arrived, given which components have."""
        jobs: Booleans = arrived[self._first]
        return jobs

    def components_served(self, allocation: Floats) -> Indices:
        """Return the number of components of each job that get resources.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (channels of components, num_resources)
            Amounts of the components.

        Returns
        -------
        numpy.ndarray of shape (ports of jobs,)
            Number of served components.
        """
        served = self.graph.port_sums(np.where(allocation > NEGLIGIBLE, 1.0, 0.0)).any(axis=1)
        counts: Indices = np.add.reduceat(served.astype(np.int64), self._first)
        return counts

    def evaluate(self, allocation: Floats, arrived: Booleans) -> RewardTerms:
        """Return amounts, gain and overhead of each job; arguments by component, see :class:`RewardModel`."""
        return self.jobs.evaluate(self.of_jobs(allocation), self.jobs_arrived(arrived))

    def gradient(self, allocation: Floats, arrived: Booleans | Floats, smoothing: float = 0.0) -> Floats:
        """Return a supergradient by channel of the components, see :meth:`RewardModel.gradient`."""
        of_jobs = self.jobs.gradient(self.of_jobs(allocation), arrived[self._first], smoothing)
        result: Floats = of_jobs[self._channel_of]
        return result


class Layout:
    """Mapping between job types and the ports of the graph that agents see.

    A *job position* is the position of one job in a slot: every job type has ``copies`` of them, side by side. A *port*
    of the graph that agents see is a job position, or one component of a job position's job.

    Parameters
    ----------
    rewards : RewardModel
        Rewards on the graph of job types.
    copies : int
        Number of jobs of a type that can be served in one slot.
    gang : Gang or None
        Components of the job types.

    Attributes
    ----------
    types : BipartiteGraph
        Graph whose ports are the job types.
    graph : BipartiteGraph
        Graph that agents see.
    rewards : RewardModel or GangRewards
        Rewards on that graph.
    type_of : numpy.ndarray of shape (num_job_positions,)
        Job type of each job position.
    position_of, component_of : numpy.ndarray of shape (graph.num_ports,)
        Seat of each port, and index of the component within its job, from 0.
    seat_of_channel : numpy.ndarray of shape (graph.num_channels,)
        Seat of each channel's port.
    """

    def __init__(self, rewards: RewardModel, copies: int, gang: Gang | None) -> None:
        self.types: BipartiteGraph = rewards.graph
        self.copies = copies
        job_positions = self.types.repeat_ports(copies)
        self.jobs = rewards if copies == 1 else rewards.for_graph(job_positions)
        self.gang = None if gang is None else gang.repeat_ports(copies)
        self.type_of: Indices = np.repeat(np.arange(self.types.num_ports), copies)
        if self.gang is None:
            self.rewards: RewardModel | GangRewards = self.jobs
            self.position_of: Indices = np.arange(job_positions.num_ports)
            self.component_of: Indices = np.zeros(job_positions.num_ports, dtype=np.int64)
        else:
            if any(requests.shape[1] != job_positions.num_resources for requests in self.gang.components):
                raise InvalidConfiguration(
                    f"components: expected requests of {job_positions.num_resources} resources each"
                )
            self.rewards = GangRewards(self.jobs, self.gang)
            self.position_of = self.rewards.job_of
            first = np.cumsum(self.gang.counts) - self.gang.counts
            self.component_of = np.arange(len(self.position_of)) - first[self.position_of]
        self.graph: BipartiteGraph = self.rewards.graph
        self.seat_of_channel: Indices = self.position_of[self.graph.channel_port]

    def job_positions(self, counts: Indices) -> Booleans:
        """Return which job positions are taken, given the number of jobs of each type."""
        if self.copies == 1:
            return counts > 0
        return (counts[:, None] > np.arange(self.copies)).ravel()

    def ports(self, job_positions: Booleans) -> Booleans:
        """Return the ports of the taken job positions."""
        return job_positions if self.gang is None else job_positions[self.position_of]


def _texts(utilities: ArrayLike) -> NDArray[np.str_]:
    try:
        return np.asarray(utilities, dtype=np.str_)
    except ValueError as error:
        raise InvalidConfiguration(f"utilities: expected an array of names: {error}") from error


def _numbers(what: str, values: ArrayLike) -> Floats:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{what}: expected an array of numbers: {error}") from error
    wrong = np.argwhere(~np.isfinite(numbers))
    if len(wrong):
        place = f" at {wrong[0].tolist()}" if numbers.ndim else ""
        raise InvalidConfiguration(f"{what}: got {float(numbers[tuple(wrong[0])])!r}{place}, expected finite numbers")
    return numbers


def _broadcast(what: str, values: Any, shape: tuple[int, ...]) -> Any:
    try:
        result = np.array(np.broadcast_to(values, shape))
    except ValueError:
        raise InvalidConfiguration(f"{what}: got shape {values.shape}, expected it to broadcast to {shape}") from None
    result.flags.writeable = False
    return result
