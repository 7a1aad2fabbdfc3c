"""Exact projection onto the feasible set of a slot, for all nodes and resources at once.

The set of equations (5) and (6) of arXiv 2305.06572 separates by node and resource. Each part is the problem

    min sum_i (y_i - z_i)^2 / (2 w_i)   subject to   0 <= y_i <= a_i,  sum_i y_i <= c,

whose solution is y = clip(z - w tau, 0, a), with tau = 0 if that is feasible, and otherwise the root of
g(tau) = sum_i clip(z_i - w_i tau, 0, a_i) - c, which is piecewise linear and nonincreasing. Newton's method finds it:
the step that starts on the right piece reaches the root exactly. A bracket limits the steps and is halved where g is
flat. No piece is visited twice, so the method terminates, usually after three to six steps. (The loop printed in the
paper is a different map: :class:`desim.agents.multiserver.PrintedLoop`.)

:func:`project` takes numpy arrays or torch tensors on any device, through the array API standard and the method
``clip``, which both have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph

__all__ = ["Columns", "Projection", "project"]

Floats = NDArray[np.float64]

#: Largest number of steps, far more than bisection alone would need.
MOST_STEPS = 2_000
#: Tolerance of a capacity, in multiples of the machine precision.
ROUNDING = 4.0
#: Excess over a capacity, relative and absolute, that is not corrected.
LARGEST_EXCESS = 1e-10


def project(points: Any, upper: Any, capacity: Any, weights: Any = None) -> Any:
    """Project onto {0 <= y <= upper, sum of y over the first axis <= capacity}.

    Parameters
    ----------
    points : array of shape (n, m)
        ``m`` independent points of ``n`` coordinates each: floating-point numpy arrays or torch tensors.
    upper : array of shape (n, m)
        Upper bounds, at least 0.
    capacity : array of shape (m,)
        Upper bounds of the sums, at least 0.
    weights : array of shape (n, m), optional
        Positive weights by which the squared distance in each coordinate is divided. Default: 1.

    Returns
    -------
    array of shape (n, m)
        Nearest points, with the library, type and device of ``points``.

    Raises
    ------
    InvalidConfiguration
        If a point is NaN or plus infinity.

    Examples
    --------
    >>> import numpy as np
    >>> project(np.array([[3.0], [1.0]]), np.array([[2.5], [2.0]]), np.array([2.0])).ravel()
    array([2., 0.])
    """
    library = _library_of(points)
    upper, capacity = library.astype(upper, points.dtype), library.astype(capacity, points.dtype)
    weights = None if weights is None else library.astype(weights, points.dtype)
    return _project(points, upper, capacity, weights, None)[0]


def _library_of(array: Any) -> Any:
    """Return the array API functions for an array; numpy's own ones conform and are faster than wrapped ones."""
    return np if isinstance(array, np.ndarray) else array_namespace(array)


def _project(points: Any, upper: Any, capacity: Any, weights: Any, guess: Any) -> tuple[Any, Any]:
    """Return the projection and its multipliers; a good guess of the multipliers saves steps."""
    library = _library_of(points)
    w = 1.0 if weights is None else weights
    tau = _multipliers(points, upper, capacity, w, guess)
    result = (points - w * tau).clip(library.zeros_like(upper[:1, :1]), upper)
    total = library.sum(result, axis=0)
    beyond = total > capacity + LARGEST_EXCESS * (1.0 + capacity)
    if library.any(beyond):  # rounding errors with huge points
        result = result * library.where(beyond, capacity / library.where(beyond, total, 1.0), 1.0)
    return result, tau


def _multipliers(z: Any, a: Any, c: Any, w: Any, guess: Any) -> Any:
    """Return for each column the smallest tau >= 0 at which the clipped sum is within the capacity."""
    library = _library_of(z)
    zero, nothing = library.zeros_like(a[:1, :1]), library.zeros_like(c)
    weighted = not isinstance(w, float)
    high, tolerance = _scales(z, c, w)
    low, high = nothing - 1.0, 2 * high  # low: no bound yet; the sum is already 0 at half of high
    tau = result = nothing if guess is None else guess
    columns = None
    for _ in range(MOST_STEPS):
        y = z - w * tau
        clipped = y.clip(zero, a)
        excess = library.sum(clipped, axis=0) - c
        if columns is None:
            result = tau
        else:
            result[columns] = tau
        open_ = (excess > tolerance) | ((excess < -tolerance) & (tau > 0))
        (active,) = library.nonzero(open_)
        if active.shape[0] == 0:
            break
        free = library.astype(clipped == y, z.dtype)
        steepness = library.sum(w * free if weighted else free, axis=0)
        low, high = library.where(excess > 0, tau, low), library.where(excess < 0, tau, high)
        following = tau + excess / library.where(steepness > 0, steepness, 1.0)
        following = library.where(following > 0, following, nothing)
        astray = (steepness <= 0) | (following <= low) | (following >= high)
        middle = library.where(low < 0, nothing, 0.5 * (low + high))
        following = library.where(open_, library.where(astray, middle, following), tau)
        if active.shape[0] < 0.5 * c.shape[0]:  # removing columns costs about as much as a step
            columns = active if columns is None else columns[active]
            z, a, c, tolerance = z[:, active], a[:, active], c[active], tolerance[active]
            w = w[:, active] if weighted else w
            low, high, following, nothing = low[active], high[active], following[active], nothing[active]
            result = library.asarray(result, copy=True)
        tau = following
    return result


def _scales(z: Any, c: Any, w: Any) -> tuple[Any, Any]:
    """Return for each column a tau at which the sum is 0, and the tolerance of the sum."""
    library = _library_of(z)
    weighted = not isinstance(w, float)
    high = library.max(z / w if weighted else z, axis=0)
    if not library.all(high < np.inf):
        raise InvalidConfiguration("points: got nan or inf, expected finite numbers to project")
    # An entry between its bounds has w tau < z, so z bounds its rounding error.
    largest = library.max(z, axis=0) if weighted else high
    return high, ROUNDING * library.finfo(z.dtype).eps * (c + z.shape[0] * library.abs(largest))


class Columns:
    """Layout of allocations with one column per (node, resource); rows are the node's ports in order.

    Columns of nodes with fewer ports than others are padded at the end.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph of the allocations.

    Attributes
    ----------
    members : numpy.ndarray of bool, shape (largest degree, num_nodes * num_resources)
        Mask of the positions that belong to a channel.
    """

    def __init__(self, graph: BipartiteGraph) -> None:
        self.graph = graph
        self._complete = graph.num_channels == graph.num_ports * graph.num_nodes
        self._gather = slots = graph.slots_by_node
        self._scatter = np.empty(graph.num_channels, dtype=np.int64)
        places = np.arange(slots.size).reshape(slots.shape)
        there = slots < graph.num_channels
        self._scatter[slots[there]] = places[there]
        self.members: NDArray[np.bool_] = np.repeat(there, graph.num_resources, axis=1)

    def of(self, allocation: Floats, filler: float = 0.0) -> Floats:
        """Return an allocation by columns, padded with a filler."""
        slots = self._gather
        if self._complete:  # channels are sorted by port, then node
            return allocation.reshape(slots.shape[0], -1)
        extended = np.concatenate([allocation, np.full((1, allocation.shape[1]), filler)])
        return extended.take(slots, axis=0).reshape(slots.shape[0], -1)

    def allocation(self, columns: Floats) -> Floats:
        """Return the allocation in columns as a new array."""
        if self._complete:
            return np.ascontiguousarray(columns).reshape(self.graph.shape)
        allocation: Floats = columns.reshape(-1, self.graph.num_resources).take(self._scatter, axis=0)
        return allocation


class Projection:
    """Projection onto the feasible allocations of one graph.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph whose requests bound the entries and whose capacities bound the sums.
    """

    def __init__(self, graph: BipartiteGraph) -> None:
        self.graph = graph
        self._guess: Floats | None = None  # a learner's next point is near its last
        if graph.num_channels == 0:
            return
        self._columns = Columns(graph)
        self._upper = self._columns.of(graph.channel_requests)
        self._capacity = graph.capacity.ravel()

    def __call__(
        self,
        points: Floats,
        *,
        ports: NDArray[np.bool_] | None = None,
        capacity: Floats | None = None,
        weights: Floats | None = None,
    ) -> Floats:
        """Return the nearest feasible allocation.

        Parameters
        ----------
        points : numpy.ndarray of shape (num_channels, num_resources)
            Amounts to project.
        ports : numpy.ndarray of bool, shape (num_ports,), optional
            Ports that may get an allocation. Default: all.
        capacity : numpy.ndarray of shape (num_nodes, num_resources), optional
            Present capacity of the nodes. Default: the graph's capacity.
        weights : numpy.ndarray of shape (num_channels, num_resources), optional
            Positive weights; see :func:`project`.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible allocation, a new array. Its last bits may depend on earlier projections.

        Raises
        ------
        InvalidConfiguration
            If a point is NaN or plus infinity.
        """
        if self.graph.num_channels == 0:
            return np.zeros_like(points)
        columns, upper = self._columns, self._upper
        if ports is not None and not ports.all():
            upper = columns.of(self.graph.channel_requests * ports[self.graph.channel_port][:, None])
        available = self._capacity if capacity is None else np.asarray(capacity, dtype=np.float64).ravel()
        spread = None if weights is None else columns.of(weights, 1.0)
        nearest, self._guess = _project(columns.of(points), upper, available, spread, self._guess)
        return columns.allocation(nearest)
