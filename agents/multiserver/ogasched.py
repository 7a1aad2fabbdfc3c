"""OgaSched: algorithm 1 of arXiv 2305.06572 as printed, with the loop that the paper uses as projection.

The loop is meant to project onto {0 <= y <= a, sum of y <= c}, for one node and resource. It subtracts one number from
all entries of a set B3, so that they and the capped entries B1 sum to c. Entries that become negative leave B3, and the
loop repeats. At the end, if the largest entry exceeds its bound, only that entry is capped, and the loop runs once more
over all others. This is not a projection, and the result need not even be feasible:

* The whole capacity is always used, even if the point lies inside the set (the number may be negative).
* Only the largest entry is capped: others may exceed their bounds, constraint (5).
* Entries that leave B3 are not set to 0, although this defines the set B2 that they join. The first of them keeps its
  negative amount, and later ones keep their amount from an earlier round. Entries may therefore end below 0, and sums
  above c, constraint (6). Utilities are undefined there: with logarithms or roots the reward soon becomes NaN.

Two steps are missing in the paper and added here: S is empty at the beginning of each round (otherwise no round would
be the last), and a B3 without ports ends the round (the number would be 0 / 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.multiserver.oga import Among, Booleans, Form, GradientSteps, StepSize
from desim.agents.multiserver.projection import Columns
from desim.checks import check_choice
from desim.problems.multiserver import BipartiteGraph, MultiServerObservation

__all__ = ["Breaches", "Leftovers", "OGASched", "PrintedLoop", "printed_loop"]

Floats = NDArray[np.float64]

Leftovers = Literal["zeroed", "kept"]
"""Treatment of entries that leave the set B3 of algorithm 1: they are set to 0, or keep their amount."""

#: Relative excess that counts as a rounding error.
TOLERANCE = 1e-9


def printed_loop(
    points: Floats, upper: Floats, capacity: Floats, members: Booleans | None = None, leftovers: Leftovers = "zeroed"
) -> Floats:
    """Return the result of lines 7 to 40 of algorithm 1 for some points, for all nodes and resources at once.

    Parameters
    ----------
    points, upper : numpy.ndarray of shape (n, m)
        ``m`` independent points of ``n`` ports each, and the upper bounds of their entries.
    capacity : numpy.ndarray of shape (m,)
        Sum of the entries of each result.
    members : numpy.ndarray of bool, shape (n, m), optional
        Mask of the ports that take part; others get 0. Default: all.
    leftovers : {"zeroed", "kept"}
        Treatment of entries that leave the set B3.

    Returns
    -------
    numpy.ndarray of shape (n, m)
        Result as a new array, possibly infeasible.

    Examples
    --------
    >>> printed_loop(np.array([[3.0], [1.0]]), np.array([[9.0], [9.0]]), np.array([8.0])).ravel()  # they need only 4
    array([5., 3.])
    """
    inside = np.ones(points.shape, dtype=np.bool_) if members is None else members
    order = np.argsort(np.where(inside, -points, np.inf), axis=0, kind="stable")
    count = inside.sum(axis=0)
    z = np.take_along_axis(np.where(inside, points, 0.0), order, axis=0)
    bounds = np.take_along_axis(upper, order, axis=0)
    y, zeroed = np.zeros_like(z), leftovers == "zeroed"
    _rounds(y, z, capacity, 0, count, zeroed=zeroed)
    (capped,) = np.nonzero((count > 0) & (y[:1] > bounds[:1]).any(axis=0))
    if capped.size:
        again = y[:, capped]
        again[0] = bounds[0, capped]
        _rounds(again, z[:, capped], capacity[capped] - again[0], 1, count[capped], zeroed=zeroed)
        y[:, capped] = again
    result = np.empty_like(y)
    np.put_along_axis(result, order, y, axis=0)
    return result


def _rounds(y: Floats, z: Floats, capacity: Floats, first: int, count: NDArray[Any], *, zeroed: bool) -> None:
    """Run the repeat loop in place, with z in descending order; B3 is the rows from ``first`` to before ``last``."""
    rows = np.arange(len(z))[:, None]
    sums = np.concatenate([np.zeros((1, z.shape[1])), np.cumsum(z[first:], axis=0)])
    last = count.copy()
    columns = np.flatnonzero(last > first)
    while columns.size:
        size = last[columns] - first
        half = (sums[size, columns] - capacity[columns]) / size
        values = z[:, columns] - half
        inside = (rows >= first) & (rows < last[columns])
        negative = inside & (values < 0)
        found = negative.any(axis=0)
        end = np.where(found, negative.argmax(axis=0), last[columns])
        y[:, columns] = np.where(inside & (rows <= end), values, y[:, columns])
        last[columns] = end
        columns = columns[found & (end > first)]
    if zeroed:
        y[(rows >= np.maximum(last, first)) & (rows < count)] = 0.0


class PrintedLoop:
    """Printed loop for the allocations of one graph, called like a :class:`Projection`.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph whose requests bound the entries and whose capacities are used up.
    leftovers : {"zeroed", "kept"}
        Treatment of entries that leave the set B3.
    """

    def __init__(self, graph: BipartiteGraph, leftovers: Leftovers = "zeroed") -> None:
        self.graph = graph
        self.leftovers = leftovers
        if graph.num_channels:
            self._columns = Columns(graph)
            self._upper = self._columns.of(graph.channel_requests)

    def __call__(self, points: Floats, *, ports: Booleans | None = None, capacity: Floats | None = None) -> Floats:
        """Return the result of the loop for an allocation.

        Parameters
        ----------
        points : numpy.ndarray of shape (num_channels, num_resources)
            Amounts.
        ports : numpy.ndarray of bool, shape (num_ports,), optional
            Ports that take part. Default: all.
        capacity : numpy.ndarray of shape (num_nodes, num_resources), optional
            Present capacity of the nodes. Default: the graph's capacity.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Result as a new array, possibly infeasible.
        """
        if points.size == 0:
            return np.zeros_like(points)
        columns, members = self._columns, self._columns.members
        if ports is not None:
            present = np.repeat(ports[self.graph.channel_port][:, None], self.graph.num_resources, axis=1)
            members = members & (columns.of(present.astype(np.float64)) > 0)
        available = (self.graph.capacity if capacity is None else capacity).ravel()
        return columns.allocation(printed_loop(columns.of(points), self._upper, available, members, self.leftovers))


@dataclass
class Breaches:
    """Violations of the constraints (5), 0 <= y <= a, and (6), sum of y <= c: their number and size.

    The usage of a node is the sum of its positive entries; negative entries free no capacity.

    Attributes
    ----------
    slots : int
        Number of allocations recorded.
    above_request, below_zero, above_capacity : int
        Numbers of allocations with an entry above its request (5), an entry below 0 (5), or a node whose usage exceeds
        its capacity (6).
    excess_request, excess_capacity : float
        Sums over slots of the excess over requests, as a share of the total usage, and of the excess over capacities,
        as a share of the total capacity.
    worst_request, worst_capacity : float
        Largest excess over a request and over a capacity > 0, as a share of it.
    lowest : float
        Smallest entry, 0 if none is negative.
    """

    slots: int = 0
    above_request: int = 0
    below_zero: int = 0
    above_capacity: int = 0
    excess_request: float = 0.0
    excess_capacity: float = 0.0
    worst_request: float = 0.0
    worst_capacity: float = 0.0
    lowest: float = 0.0

    def record(self, graph: BipartiteGraph, allocation: Floats, capacity: Floats) -> None:
        """Record the violations of an allocation.

        Parameters
        ----------
        graph : BipartiteGraph
            Graph whose requests bound the entries.
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Allocation, possibly infeasible.
        capacity : numpy.ndarray of shape (num_nodes, num_resources)
            Capacity of the nodes.
        """
        self.slots += 1
        if allocation.size == 0:
            return
        requests = graph.channel_requests
        over = np.maximum(allocation - requests, 0.0)
        over[over <= TOLERANCE * (1.0 + requests)] = 0.0
        given = graph.node_sums(np.maximum(allocation, 0.0))
        beyond = np.maximum(given - capacity, 0.0)
        beyond[beyond <= TOLERANCE * (1.0 + capacity)] = 0.0
        lowest = float(allocation.min())
        self.above_request += bool(over.any())
        self.below_zero += bool(lowest < -TOLERANCE)
        self.above_capacity += bool(beyond.any())
        self.excess_request += _share(over, given)
        self.excess_capacity += _share(beyond, capacity)
        self.worst_request = max(self.worst_request, _worst(over, requests))
        self.worst_capacity = max(self.worst_capacity, _worst(beyond, capacity))
        self.lowest = min(self.lowest, lowest)


def _share(part: Floats, whole: Floats) -> float:
    total = float(whole.sum())
    return float(part.sum()) / total if total else 0.0


def _worst(excess: Floats, bounds: Floats) -> float:
    """Return the largest excess over a positive bound, as a share of the bound."""
    return float(np.divide(excess, bounds, out=np.zeros_like(excess), where=bounds > 0).max(initial=0.0))


class OGASched(GradientSteps):
    """OgaSched, algorithm 1 of arXiv 2305.06572 as printed: online gradient ascent with :class:`PrintedLoop`.

    Its allocations may be infeasible. They are refused with InfeasibleAction, unless the cluster is made with
    ``enforce_limits=False`` or the agent is ``capped``. :class:`ExactOGA` uses the intended projection.

    Parameters
    ----------
    form : {"reactive", "reservation"}
        Time of the decision: after the arrivals of a slot are seen, as in the authors' program, or before, as the
        indices of algorithm 1 say.
    steps : StepSize or float
        Step sizes, or the first of geometric step sizes with decay 0.9999; the paper uses 25 (table II).
    start : array_like of shape (num_channels, num_resources), optional
        Initial allocation y(1), which the paper does not state. Default: zero.
    among : {"all", "arrived"}
        Ports of a node that take part in the loop: all, as printed, or only those with a job.
    forget : bool, optional
        Whether the allocation of a port without a job is set to 0 after the loop, as in the authors' program but not
        in the paper. Default: True in the form ``reactive``.
    leftovers : {"zeroed", "kept"}
        Treatment of entries that leave the set B3: set to 0, as the definition of B2 says, or kept, as the algorithm is
        printed.
    capped : bool
        Whether each allocation is made feasible: entries are clipped to [0, a], and scaled down where a node's usage
        exceeds its capacity.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        Learned allocation y(t); None before the first slot.
    breaches : Breaches
        Constraint violations of the loop's allocations in this run, before they are capped.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or, in the first slot, ``start`` does not fit the graph.
    """

    def __init__(
        self,
        form: Form = "reactive",
        steps: StepSize | float = 25.0,
        start: ArrayLike | None = None,
        *,
        among: Among = "all",
        forget: bool | None = None,
        leftovers: Leftovers = "zeroed",
        capped: bool = False,
    ) -> None:
        usual = form == "reactive"
        forget = usual if forget is None else forget
        super().__init__(form, steps, start, among=among, forget=forget)
        self.leftovers = check_choice("leftovers", leftovers, ("zeroed", "kept"))
        self.capped = capped
        self.breaches = Breaches()
        words: list[str] = [form] if form == "reservation" else []
        words += ["arrived"] if among == "arrived" else []
        words += [] if forget == usual else ["forget" if forget else "remember"]
        words += ["leftovers"] if leftovers == "kept" else []
        words += ["capped"] if capped else []
        self.name = "-".join(["ogasched", *words, *self.step_words()])

    def begin(self, observation: MultiServerObservation) -> None:
        """Reset the step sizes and the recorded violations."""
        super().begin(observation)
        self.breaches = Breaches()

    def projection_of(self, graph: BipartiteGraph) -> Callable[..., Floats]:
        """Return the printed loop in place of a projection."""
        return PrintedLoop(graph, self.leftovers)

    def fit(self, reservation: Floats, graph: BipartiteGraph, capacity: Floats) -> Floats:
        """Return a reservation, capped if the agent is ``capped``."""
        return capped(graph, reservation, capacity) if self.capped else reservation

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Take a step along the gradient and run the loop; see :meth:`OnlineGradient.learn`."""
        graph = observation.graph
        available = graph.capacity if capacity is None else capacity
        with np.errstate(invalid="ignore", divide="ignore"):  # slopes at negative amounts
            answer = super().learn(allocation, observation, ports, capacity)
        self.breaches.record(graph, answer, available)
        return capped(graph, answer, available) if self.capped else answer


def capped(graph: BipartiteGraph, allocation: Floats, capacity: Floats) -> Floats:
    """Return an allocation clipped to [0, a], and scaled down where a node's usage exceeds its capacity.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph whose requests bound the entries.
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        Allocation, possibly infeasible.
    capacity : numpy.ndarray of shape (num_nodes, num_resources)
        Capacity of the nodes.

    Returns
    -------
    numpy.ndarray
        Feasible allocation.
    """
    result = np.clip(allocation, 0.0, graph.channel_requests)
    asked = graph.node_sums(result)
    if (asked > capacity).any():
        result *= np.divide(capacity, asked, out=np.ones_like(asked), where=asked > capacity)[graph.channel_node]
    return result
