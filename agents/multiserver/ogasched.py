"""OgaSched: algorithm 1 of arXiv 2305.06572 as it is printed, with the loop that the paper projects by.

The loop is to project onto {0 <= y <= a, sum of y <= c}, for one node and resource. It subtracts one number from all
entries of a set B3, so that they and the capped entries B1 add up to c; entries that are then negative leave B3, and it
starts again. At the end, if the largest entry is above its bound, that entry alone is capped, and the loop runs once
more over all others. This is no projection, and need not even be feasible:

* the whole capacity is always spent, also where the point lies within the set (the number may be negative);
* only the largest entry is capped: others may end above their bounds, constraint (5);
* what leaves B3 is not set to 0, although the set B2 that it joins is defined by that. The first of such entries keeps
  its negative amount, those behind it what an earlier round has given them, so that entries end below 0 and sums above
  c, constraint (6). Utilities are not defined there: with logarithms or roots the reward is soon not a number.

Two steps are missing in print, and are supplied: S is empty at the beginning of each round (or no round would be the
last), and a B3 without ports ends the round (the number would be 0 / 0).
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
"""What becomes of entries that leave the set B3 of algorithm 1: they are set to 0, or keep what they have."""

#: Relative excess that is taken for rounding.
TOLERANCE = 1e-9


def printed_loop(
    points: Floats, upper: Floats, capacity: Floats, members: Booleans | None = None, leftovers: Leftovers = "zeroed"
) -> Floats:
    """Return what lines 7 to 40 of algorithm 1 make of points, for all nodes and resources at once.

    Parameters
    ----------
    points, upper : numpy.ndarray of shape (n, m)
        ``m`` independent points of ``n`` ports each, and the bounds of their entries.
    capacity : numpy.ndarray of shape (m,)
        What the entries of a point add up to.
    members : numpy.ndarray of bool, shape (n, m), optional
        The ports that take part; all if left out. Others get 0.
    leftovers : {"zeroed", "kept"}
        What becomes of entries that leave the set B3.

    Returns
    -------
    numpy.ndarray of shape (n, m)
        A new array. It need not be feasible.

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
    """Write what the repeat loop gives, in descending order of z; B3 is the rows from ``first`` to before ``last``."""
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
    """The loop for one graph, on allocations as agents give them; called as a :class:`Projection`.

    Parameters
    ----------
    graph : BipartiteGraph
        Its requests bound the entries, its capacity is spent.
    leftovers : {"zeroed", "kept"}
        What becomes of entries that leave the set B3.
    """

    def __init__(self, graph: BipartiteGraph, leftovers: Leftovers = "zeroed") -> None:
        self.graph = graph
        self.leftovers = leftovers
        if graph.num_channels:
            self._columns = Columns(graph)
            self._upper = self._columns.of(graph.channel_requests)

    def __call__(self, points: Floats, *, ports: Booleans | None = None, capacity: Floats | None = None) -> Floats:
        """Return what the loop makes of an allocation.

        Parameters
        ----------
        points : numpy.ndarray of shape (num_channels, num_resources)
            Any amounts.
        ports : numpy.ndarray of bool, shape (num_ports,), optional
            Only these take part.
        capacity : numpy.ndarray of shape (num_nodes, num_resources), optional
            What the nodes have at present; the graph's capacity if left out.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            A new array.
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
    """How often and how far allocations have broken constraints (5), 0 <= y <= a, and (6), sum of y <= c.

    What a node gives is the sum of its entries above 0: entries below 0 make no room.

    Attributes
    ----------
    slots : int
        Allocations that were looked at.
    above_request, below_zero, above_capacity : int
        Those in which an entry is above its request (5), below 0 (5), or a node gives more than it has (6).
    excess_request, excess_capacity : float
        Sum over slots of the excess over requests, as a share of what all nodes give; and of that over capacities, as a
        share of all capacity.
    worst_request, worst_capacity : float
        The largest excess over a request and over a capacity, as a share of it, where it is above 0.
    lowest : float
        The lowest entry, 0 if none is below.
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
        """Look at an allocation.

        Parameters
        ----------
        graph : BipartiteGraph
            Its requests bound the entries.
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Any amounts.
        capacity : numpy.ndarray of shape (num_nodes, num_resources)
            What the nodes have.
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
    """Return the largest excess over a bound above 0, as a share of it."""
    return float(np.divide(excess, bounds, out=np.zeros_like(excess), where=bounds > 0).max(initial=0.0))


class OGASched(GradientSteps):
    """Algorithm 1 of arXiv 2305.06572 as printed: online gradient ascent by way of the loop above.

    Its answers need not be feasible, and are refused with InfeasibleAction unless the cluster is made with
    ``enforce_limits=False`` or the agent is ``capped``. :class:`ExactOGA` has the projection that is meant.

    Parameters
    ----------
    form : {"reactive", "reservation"}
        Whether a slot is decided after its arrivals are seen, as in the authors' program, or before, as the indices of
        algorithm 1 say.
    steps : StepSize or float
        Steps, or the first of geometric steps with decay 0.9999; 25 is the paper's (table II).
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with, y(1), which the paper does not state; zero if left out.
    among : {"all", "arrived"}
        Whether all ports of a node take part in the loop, as printed, or those with a job.
    forget : bool, optional
        Whether the allocation of a port without a job is set to 0 after the loop, as in the authors' program and not in
        print. By default in the form ``reactive``.
    leftovers : {"zeroed", "kept"}
        Entries that leave the set B3 are set to 0, as the definition of B2 says, or not, as the algorithm is printed.
    capped : bool
        Make each allocation feasible: entries are clipped to [0, a], and scaled down where a node would give more than
        it has.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far, y(t); None before the first slot.
    breaches : Breaches
        How often and how far the allocations of the loop broke the constraints in this run, before they were capped.

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
        """Begin with the first step and nothing recorded."""
        super().begin(observation)
        self.breaches = Breaches()

    def projection_of(self, graph: BipartiteGraph) -> Callable[..., Floats]:
        """Return the printed loop."""
        return PrintedLoop(graph, self.leftovers)

    def fit(self, reservation: Floats, graph: BipartiteGraph, capacity: Floats) -> Floats:
        """Return a reservation, capped if answers are."""
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
    """Return an allocation clipped to [0, a], and scaled down where a node would give more than it has.

    Parameters
    ----------
    graph : BipartiteGraph
        Its requests bound the entries.
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        Any amounts.
    capacity : numpy.ndarray of shape (num_nodes, num_resources)
        What the nodes have.

    Returns
    -------
    numpy.ndarray
        Feasible.
    """
    result = np.clip(allocation, 0.0, graph.channel_requests)
    asked = graph.node_sums(result)
    if (asked > capacity).any():
        result *= np.divide(capacity, asked, out=np.ones_like(asked), where=asked > capacity)[graph.channel_node]
    return result
