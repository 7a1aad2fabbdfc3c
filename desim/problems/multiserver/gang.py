"""Gang scheduling: jobs of several components, of which enough must be served together (section 3.5).

A component becomes a port of a larger graph, with the channels of its job, so that every agent for bipartite graphs can
serve components; the rewards are those of the jobs, whose components share what a node's utility gives:

    q_l(y) = sum_k sum_r f_r^k(sum_q y_(l,r)^(q,k)) - max_k beta_k sum_q sum_r y_(l,r)^(q,k).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.rewards import Earnings, RewardModel

__all__ = ["Gang", "GangRewards"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Indices = NDArray[np.int64]


#: Amounts up to this are rounding, and serve no component.
NEGLIGIBLE = 1e-9


class Gang:
    """The components of each type of job, and how many of them a job needs.

    Parameters
    ----------
    components : sequence of array_like of shape (num_components, num_resources)
        For each port what its components request at most through one channel, a_l^(q,k).
    minimum : int or sequence of int
        Components that must get resources for a job to start, m_l: one number, or one a port. A job
        with fewer gets nothing. A component that requests nothing gets nothing, and does not count.
    whole : bool
        Components are indivisible: each gets all that it requests from one node, or nothing.

    Attributes
    ----------
    counts : numpy.ndarray of shape (num_ports,)
        Components of each port.

    Raises
    ------
    InvalidConfiguration
        If a shape does not fit, an amount is out of range, or more components are needed than there are.
    """

    def __init__(self, components: Sequence[ArrayLike], minimum: int | Sequence[int], *, whole: bool = False) -> None:
        try:
            self.components = [np.array(requests, dtype=np.float64) for requests in components]
            self.minimum: Indices = np.array(np.broadcast_to(minimum, (len(self.components),)))
        except (TypeError, ValueError) as error:
            raise InvalidConfiguration(
                f"components or minimum are not tables of numbers, one a port: {error}"
            ) from error
        if self.minimum.dtype.kind not in "ui":
            raise InvalidConfiguration(f"minimum is {minimum!r}, want whole numbers")
        for port, requests in enumerate(self.components):
            if requests.ndim != 2 or 0 in requests.shape:
                raise InvalidConfiguration(
                    f"the components of port {port} have shape {requests.shape}, want (components, resources)"
                )
            if not ((requests >= 0) & (requests < np.inf)).all():
                raise InvalidConfiguration(f"a component of port {port} requests {requests.tolist()}, want at least 0")
        self.counts: Indices = np.array([len(requests) for requests in self.components], dtype=np.int64)
        self.whole = whole
        wrong = np.flatnonzero((self.minimum < 1) | (self.minimum > self.counts))
        if len(wrong):
            port = int(wrong[0])
            raise InvalidConfiguration(
                f"port {port} needs {self.minimum[port]} of its components, want 1 to {self.counts[port]}"
            )

    def repeat_ports(self, copies: int) -> Gang:
        """Return the gang for a graph whose ports are repeated; see :meth:`BipartiteGraph.repeat_ports`."""
        if copies == 1:
            return self
        components = [requests for requests in self.components for _ in range(copies)]
        return Gang(components, np.repeat(self.minimum, copies).tolist(), whole=self.whole)

    def component_graph(self, graph: BipartiteGraph) -> BipartiteGraph:
        """Return the graph in which every component is a port.

        Parameters
        ----------
        graph : BipartiteGraph
            Of the jobs; only its channels, nodes and capacities count.

        Returns
        -------
        BipartiteGraph
            Ports called ``name/1``, ``name/2``, ..., those of one job side by side.

        Raises
        ------
        InvalidConfiguration
            If the numbers of ports or resources do not fit.
        """
        if len(self.counts) != graph.num_ports:
            raise InvalidConfiguration(f"components for {len(self.counts)} ports, the graph has {graph.num_ports}")
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
    """Rewards of jobs as functions of what their components get; it offers what agents use of a :class:`RewardModel`.

    Parameters
    ----------
    jobs : RewardModel
        On the graph of the jobs.
    gang : Gang
        Their components.

    Attributes
    ----------
    graph : BipartiteGraph
        Of the components.
    job_of : numpy.ndarray of shape (number of components,)
        The job's port of each component's port.
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
        """The coefficients beta_k."""
        coefficients: Floats = self.jobs.overhead
        return coefficients

    @property
    def slopes_at_zero(self) -> Floats:
        """The largest slopes, by node and resource."""
        return self.jobs.slopes_at_zero

    def of_jobs(self, allocation: Floats) -> Floats:
        """Add up what the components of each job get.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (channels of components, num_resources)
            Amounts.

        Returns
        -------
        numpy.ndarray of shape (channels of jobs, num_resources)
            Amounts.
        """
        total = np.zeros(self.jobs.graph.shape)
        np.add.at(total, self._channel_of, allocation)
        return total

    def jobs_arrived(self, arrived: Booleans) -> Booleans:
        """Return which jobs have arrived, of which components have arrived."""
        jobs: Booleans = arrived[self._first]
        return jobs

    def components_served(self, allocation: Floats) -> Indices:
        """Return how many components of each job get anything.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (channels of components, num_resources)
            Amounts.

        Returns
        -------
        numpy.ndarray of shape (ports of jobs,)
            Counts.
        """
        served = self.graph.port_sums(np.where(allocation > NEGLIGIBLE, 1.0, 0.0)).any(axis=1)
        counts: Indices = np.add.reduceat(served.astype(np.int64), self._first)
        return counts

    def evaluate(self, allocation: Floats, arrived: Booleans) -> Earnings:
        """Return what each job gets and earns; the arguments are those of components, see :class:`RewardModel`."""
        return self.jobs.evaluate(self.of_jobs(allocation), self.jobs_arrived(arrived))

    def gradient(self, allocation: Floats, arrived: Booleans | Floats) -> Floats:
        """Return a supergradient, for each channel of a component."""
        of_jobs = self.jobs.gradient(self.of_jobs(allocation), arrived[self._first])
        result: Floats = of_jobs[self._channel_of]
        return result
