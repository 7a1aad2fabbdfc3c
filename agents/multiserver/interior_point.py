"""Primal-dual interior-point method for the best fixed allocation.

The concave program is stored in flat arrays. Over the entries e = (channel, resource) with a positive upper bound,

    maximize   sum_e n_e f_e(y_e) - sum_l n_l t_l
    subject to 0 <= y <= a,  cell sums of y <= c,  beta_k sum_r y_(l,r)^k <= t_l  for every port l and resource k.

A *cell* is a node and resource with its capacity, a *holding* is a port and resource with its overhead. Counts are
divided by the largest.

The method is Mehrotra's predictor-corrector (SIAM J. Optim. 2(4), 1992; Nocedal and Wright, "Numerical Optimization",
2nd ed., algorithm 14.3) on the optimality conditions of :class:`FixedAllocationProgram`, with multipliers for every
bound. Newton's equations are solved by elimination: the block of amounts is diagonal, then that of the prices of cells,
and the rest couples the ports in one dense matrix per resource. An iteration costs O(entries), one product of a
(ports x nodes) matrix with its transpose per resource, and a Cholesky factorization of order (ports x (resources - 1)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.multiserver import RewardModel

__all__ = ["FixedAllocationProgram", "Newton", "Point", "central_path"]

Floats = NDArray[np.float64]

Indices = NDArray[np.int64]

#: Half the relative width of the interval that brackets the maximum of a term of the Lagrangian.
NEARBY = 1e-9

#: Half the relative width of the finite differences for the curvature.
DIFFERENCE = 1e-3

#: Relative allowance for rounding errors of a sum.
ROUNDING = 1e-15


class FixedAllocationProgram:
    """Concave program of the best fixed allocation: its data and functions.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead, on a graph.
    counts : numpy.ndarray of shape (num_ports,)
        Number of jobs per port, at least 0.

    Attributes
    ----------
    scale : float
        Largest count, or 1 if all are 0.
    ports : numpy.ndarray of shape (num_active,)
        Active ports, which have jobs and a positive upper bound; they are renumbered in this order.
    upper : numpy.ndarray of shape (num_entries,)
        Upper bounds min(a, c), > 0. Entries are sorted by resource, then channel.
    capacity : numpy.ndarray of shape (num_cells,)
        Capacity of the cells that have entries, sorted by resource, then node.
    counts : numpy.ndarray of shape (num_active,)
        Scaled counts, > 0.
    overhead : numpy.ndarray of shape (num_holdings,)
        Overhead beta of each holding; holdings are sorted by resource, then port.
    entry_port, entry_cell, entry_holding : numpy.ndarray of shape (num_entries,)
        Port, cell and holding of each entry.
    entry_bounds, cell_bounds : list of int
        Bounds of the resources: entries and cells of resource ``k`` are those from ``bounds[k]`` to ``bounds[k + 1]``.
    """

    def __init__(self, rewards: RewardModel, counts: Floats) -> None:
        graph = rewards.graph
        self.rewards = rewards
        self.num_resources = graph.num_resources
        self.scale = float(counts.max()) or 1.0
        upper = np.minimum(graph.channel_requests, graph.capacity[graph.channel_node])
        active = (upper > 0) & (counts > 0)[graph.channel_port][:, None]
        resource, channel = np.nonzero(active.T)
        self._flat = channel * self.num_resources + resource
        self.upper = upper.ravel()[self._flat]
        self._cut = graph.channel_requests.ravel()[self._flat] > self.upper
        self.ports, self.entry_port = np.unique(graph.channel_port[channel], return_inverse=True)
        self.counts = counts[self.ports] / self.scale
        self.overhead = np.repeat(rewards.overhead, self.num_ports)
        self.entry_holding = resource * self.num_ports + self.entry_port
        self._cells, self.entry_cell = np.unique(
            resource * graph.num_nodes + graph.channel_node[channel], return_inverse=True
        )
        self.capacity = graph.capacity.T.ravel()[self._cells]
        resources = np.arange(self.num_resources + 1)
        self.entry_bounds = np.searchsorted(resource, resources).tolist()
        self.cell_bounds = np.searchsorted(self._cells // graph.num_nodes, resources).tolist()
        self._entry_counts = self.counts[self.entry_port]
        self._sums = [
            _summation(self.entry_cell, len(self.capacity)),
            _summation(self.entry_holding, len(self.overhead)),
        ]

    @property
    def num_ports(self) -> int:
        """Number of active ports."""
        return len(self.ports)

    @property
    def num_entries(self) -> int:
        """Number of amounts to choose."""
        return len(self.upper)

    def cell_sums(self, values: Floats) -> Floats:
        """Sum entries over the ports of each cell."""
        sums: Floats = self._sums[0] @ values
        return sums

    def holding_sums(self, values: Floats) -> Floats:
        """Sum entries over the nodes of each holding."""
        sums: Floats = self._sums[1] @ values
        return sums

    def to_allocation(self, amounts: Floats) -> Floats:
        """Return entries as an array of shape (num_channels, num_resources), 0 elsewhere."""
        allocation = np.zeros(self.rewards.graph.shape)
        allocation.ravel()[self._flat] = amounts
        return allocation

    def from_allocation(self, allocation: Floats) -> Floats:
        """Return the entries of an array of shape (num_channels, num_resources)."""
        entries: Floats = allocation.ravel()[self._flat]
        return entries

    def gains(self, amounts: Floats) -> Floats:
        """Return n f(y) of every entry."""
        return self._entry_counts * self.from_allocation(self.rewards.utility_gains(self.to_allocation(amounts)))

    def slopes(self, amounts: Floats) -> Floats:
        """Return n f'(y) of every entry."""
        return self._entry_counts * self.from_allocation(self.rewards.slopes(self.to_allocation(amounts)))

    def curvatures(self, amounts: Floats, room: Floats) -> Floats:
        """Return -n f''(y) of every entry by finite differences; ``room`` is the distance to its upper bound."""
        step = DIFFERENCE * np.minimum(amounts, room)
        fall = self.slopes(amounts - step) - self.slopes(amounts + step)
        return np.maximum(fall / (2.0 * step), 0.0)

    def value(self, amounts: Floats) -> float:
        """Return the objective, with every t_l as small as possible."""
        overheads = (self.overhead * self.holding_sums(amounts)).reshape(self.num_resources, self.num_ports).max(axis=0)
        return float(self.gains(amounts).sum() - self.counts @ overheads)

    def costs(self, shares: Floats, prices: Floats) -> Floats:
        """Return the unit cost of every entry: its share of the overhead, plus the price of its cell."""
        costs: Floats = (self.overhead * shares)[self.entry_holding] + prices[self.entry_cell]
        return costs

    def normalize(self, shares: Floats) -> Floats:
        """Scale multipliers of the overheads so that those of each port sum to its count."""
        table = shares.reshape(self.num_resources, self.num_ports)
        normal: Floats = (table * (self.counts / table.sum(axis=0))).ravel()
        return normal

    def bound(self, shares: Floats, prices: Floats) -> float:
        """Return an upper bound of the objective over the feasible set.

        Parameters
        ----------
        shares : numpy.ndarray of shape (num_holdings,)
            Multipliers of the overheads, at least 0; those of each port sum to its count.
        prices : numpy.ndarray of shape (num_cells,)
            Multipliers of the capacities, at least 0.

        Returns
        -------
        float
            sum of price c + sum_e max over [0, min(a, c)] of (n f(y) - cost y). The maximum is bounded by tangents near
            the point where the slope equals the cost, so the bound holds even if this point is inaccurate.
        """
        costs = self.costs(shares, prices)
        wanted = self.rewards.slope_inverse(
            self.to_allocation(costs / self._entry_counts), self.to_allocation(self.upper)
        )
        best = self.from_allocation(wanted)
        low, high = best * (1.0 - NEARBY), np.minimum(best * (1.0 + NEARBY), self.upper)
        net_low, tilt_low = self.gains(low) - costs * low, self.slopes(low) - costs
        net_high, tilt_high = self.gains(high) - costs * high, self.slopes(high) - costs
        pieces = net_low + np.maximum(np.maximum(-tilt_low, 0.0) * low, np.maximum(tilt_low, 0.0) * (high - low))
        pieces = np.maximum(pieces, net_high + np.maximum(tilt_high, 0.0) * (self.upper - high))
        total = float(prices @ self.capacity + pieces.sum())
        return total + ROUNDING * float(prices @ self.capacity + np.abs(pieces).sum())

    def full_prices(self, prices: Floats, ceilings: Floats) -> Floats:
        """Return the marginal values of the capacities, including upper bounds that are a cell's capacity.

        Parameters
        ----------
        prices : numpy.ndarray of shape (num_cells,)
            Multipliers of the capacities.
        ceilings : numpy.ndarray of shape (num_entries,)
            Multipliers of the upper bounds.

        Returns
        -------
        numpy.ndarray of shape (num_cells,)
            Multipliers of the capacities, with an equally low bound.
        """
        return prices + self.cell_sums(np.where(self._cut, ceilings, 0.0))

    def to_tables(self, shares: Floats, prices: Floats) -> tuple[Floats, Floats]:
        """Return p, by port and resource, and the prices for all slots, by node and resource."""
        graph = self.rewards.graph
        split = np.full((graph.num_ports, self.num_resources), 1.0 / self.num_resources)
        split[self.ports] = (shares.reshape(self.num_resources, self.num_ports) / self.counts).T
        charge = np.zeros(graph.capacity.T.shape)
        charge.ravel()[self._cells] = prices * self.scale
        return split, np.ascontiguousarray(charge.T)

    def from_tables(self, split: Floats, charge: Floats) -> tuple[Floats, Floats]:
        """Return multipliers of overheads and capacities as flat arrays; the inverse of :meth:`to_tables`."""
        return (split[self.ports].T * self.counts).ravel(), charge.T.ravel()[self._cells] / self.scale


def _summation(groups: Indices, count: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(count, len(groups)))


#: Largest relative shift of the diagonal that is tried to make a matrix positive definite.
LARGEST_SHIFT = 1e-6


@dataclass(frozen=True)
class Point:
    """Amounts, slacks and multipliers; all except ``levels`` are > 0. A direction has the same fields.

    Attributes
    ----------
    amounts, rooms : numpy.ndarray of shape (num_entries,)
        Amounts y, and slacks a - y.
    spare : numpy.ndarray of shape (num_cells,)
        Slacks of the capacities: c minus the sum of the amounts.
    levels : numpy.ndarray of shape (num_active,)
        Levels t_l, at least the overhead of each holding of a port.
    margins : numpy.ndarray of shape (num_holdings,)
        Slacks of the overheads: t_l minus the overhead.
    floors, ceilings, prices, shares : numpy.ndarray
        Multipliers of amounts, rooms, spare and margins.
    """

    amounts: Floats
    rooms: Floats
    spare: Floats
    levels: Floats
    margins: Floats
    floors: Floats
    ceilings: Floats
    prices: Floats
    shares: Floats

    def step(self, direction: Point, length: float) -> Point:
        """Return the point at a given length along a direction."""
        names = [field.name for field in fields(self)]
        return Point(**{name: getattr(self, name) + length * getattr(direction, name) for name in names})

    @property
    def pairs(self) -> list[tuple[Floats, Floats]]:
        """Pairs of slack and multiplier, which are complementary at the optimum."""
        return [
            (self.amounts, self.floors),
            (self.rooms, self.ceilings),
            (self.spare, self.prices),
            (self.margins, self.shares),
        ]

    @property
    def complementarity(self) -> float:
        """Sum of the products of the pairs."""
        return float(sum(slack @ multiplier for slack, multiplier in self.pairs))

    def longest_step(self, direction: Point) -> float:
        """Return the longest step along a direction, at most 1, before a slack or multiplier reaches 0."""
        longest = 1.0
        for pair, change in zip(self.pairs, direction.pairs, strict=True):
            for values, changes in zip(pair, change, strict=True):
                steepest = float(np.min(changes / values, initial=0.0))
                longest = min(longest, -1.0 / steepest) if steepest < 0 else longest
        return longest


class Newton:
    """Factorized Newton equations at a point.

    With D = -n f'' + floors / y + ceilings / (a - y), and N, P the sums over cells and holdings,

        D dy + N' dprices + P' beta dshares = r
        (spare / prices) dprices - N dy = s
        (margins / shares) dshares + dt - beta P dy = w
        sum over resources of dshares = u.

    Parameters
    ----------
    program : object
        Program to solve.
    point : object
        Point at which the equations are set up.
    slopes : numpy.ndarray
        First derivatives at the point.
    curvatures : numpy.ndarray
        Second derivatives at the point.
    """

    def __init__(self, program: FixedAllocationProgram, point: Point, slopes: Floats, curvatures: Floats) -> None:
        self.program, self.point = program, point
        self.residual = point.floors - point.ceilings - program.costs(point.shares, point.prices) + slopes
        self.spare_residual = program.capacity - program.cell_sums(point.amounts) - point.spare
        overheads = program.overhead * program.holding_sums(point.amounts)
        self.margin_residual = self._levels(point.levels) - overheads - point.margins
        shares = point.shares.reshape(program.num_resources, program.num_ports)
        self.share_residual = program.counts - shares.sum(axis=0)
        self.softness = 1.0 / (curvatures + point.floors / point.amounts + point.ceilings / point.rooms)
        self.cell_softness = 1.0 / (point.spare / point.prices + program.cell_sums(self.softness))
        self.matrix = self._couple()
        self._eliminate(shares, point.margins.reshape(shares.shape))

    def _levels(self, levels: Floats) -> Floats:
        return np.tile(levels, self.program.num_resources)

    @cached_property
    def _tables(self) -> list[Floats]:
        """Return beta times the softness by port and cell, one table per resource."""
        program, tables = self.program, []
        for resource in range(program.num_resources):
            (first, last), (left, right) = (
                bounds[resource : resource + 2] for bounds in (program.entry_bounds, program.cell_bounds)
            )
            table = np.zeros((program.num_ports, right - left))
            table[program.entry_port[first:last], program.entry_cell[first:last] - left] = self.softness[first:last]
            tables.append(table * program.rewards.overhead[resource])
        return tables

    def _couple(self) -> Floats:
        """Return the matrix of the shares after elimination of amounts and prices."""
        program, point = self.program, self.point
        diagonal = point.margins / point.shares + program.overhead**2 * program.holding_sums(self.softness)
        matrix = np.zeros((len(diagonal), len(diagonal)))
        count = program.num_ports
        for resource, table in enumerate(self._tables):
            cells = slice(program.cell_bounds[resource], program.cell_bounds[resource + 1])
            block = slice(resource * count, (resource + 1) * count)
            matrix[block, block] = -(table * self.cell_softness[cells]) @ table.T
        matrix[np.diag_indices_from(matrix)] += diagonal
        return matrix

    def _eliminate(self, shares: Floats, margins: Floats) -> None:
        """Eliminate one share per port, the largest: it follows from the others, whose matrix stays definite.

        (Eliminating all shares instead would need the inverse of each block, which is singular near the optimum.)
        """
        count = self.program.num_ports
        kept_out = (shares / margins).argmax(axis=0)
        self.dependent = kept_out * count + np.arange(count)
        self.independent = np.flatnonzero((np.arange(len(shares))[:, None] != kept_out).ravel())
        self.follows = self.independent % count
        i, d = self.independent, self.dependent[self.follows]
        m = self.matrix
        self.factor = _cholesky(m[np.ix_(i, i)] - m[np.ix_(i, d)] - m[np.ix_(d, i)] + m[np.ix_(d, d)])

    def solve(self, r: Floats, s: Floats, w: Floats, u: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the changes of amounts, prices and shares for given right-hand sides."""
        from scipy.linalg import cho_solve

        program = self.program
        cells = self.cell_softness * (s + program.cell_sums(self.softness * r))
        right = w + program.overhead * program.holding_sums(self.softness * r)
        right -= np.concatenate([table @ cells[part] for table, part in self._by_resource()])
        shares = np.zeros_like(right)
        shares[self.dependent] = u
        if len(self.independent):
            rest = right - self.matrix @ shares
            change = cho_solve(
                self.factor, rest[self.independent] - rest[self.dependent[self.follows]], check_finite=False
            )
            shares[self.independent] = change
            shares[self.dependent] -= np.bincount(self.follows, change, len(u))
        parts = np.split(shares, program.num_resources)
        back = [share @ table for share, (table, _) in zip(parts, self._by_resource(), strict=True)]
        prices = cells - self.cell_softness * np.concatenate(back)
        amounts = self.softness * (r - program.costs(shares, prices))
        return amounts, prices, shares

    def _by_resource(self) -> Iterator[tuple[Floats, slice]]:
        bounds = self.program.cell_bounds
        for resource, table in enumerate(self._tables):
            yield table, slice(bounds[resource], bounds[resource + 1])

    def direction(self, target: float, corrections: list[Floats]) -> Point:
        """Return the step towards complementarity products of ``target``, minus second-order corrections."""
        program, point = self.program, self.point
        floor, ceiling, price, share = (
            target - slack * multiplier - correction
            for (slack, multiplier), correction in zip(point.pairs, corrections, strict=True)
        )
        r = self.residual + floor / point.amounts - ceiling / point.rooms
        # The slacks follow from the amounts, so their residuals enter here.
        s = (price - point.prices * self.spare_residual) / point.prices
        w = (share - point.shares * self.margin_residual) / point.shares
        amounts, prices, shares = self.solve(r, s, w, self.share_residual)
        margins = (share - point.margins * shares) / point.shares
        overheads = program.overhead * program.holding_sums(amounts)
        levels = (margins - self.margin_residual + overheads)[self.dependent]
        return Point(
            amounts=amounts,
            rooms=-amounts,
            spare=self.spare_residual - program.cell_sums(amounts),
            levels=levels,
            margins=self._levels(levels) - overheads + self.margin_residual,
            floors=(floor - point.floors * amounts) / point.amounts,
            ceilings=(ceiling + point.ceilings * amounts) / point.rooms,
            prices=prices,
            shares=shares,
        )


def _cholesky(matrix: Floats) -> Any:
    """Factorize a matrix that is positive definite up to rounding; raise LinAlgError if it is not."""
    from scipy.linalg import cho_factor

    if not matrix.size:
        return None
    shifted = matrix.copy()
    shift = 0.0
    while True:
        try:
            np.fill_diagonal(shifted, matrix.diagonal() * (1.0 + shift))
            return cho_factor(shifted, check_finite=False)
        except np.linalg.LinAlgError:
            shift = max(shift * 100.0, 1e-14)
            if shift > LARGEST_SHIFT:
                raise


#: Largest step, as a fraction of the distance to the boundary.
BOLDNESS = 0.9995

#: Step length below which a pure centring step is tried, and step length below which the method stops.
SHORT_STEP, SHORTEST_STEP = 1e-2, 1e-8

#: Factor per step of a remembered fall of slopes, and the multiple of the curvature above which it counts.
MEMORY, JUMP = 0.8, 8.0


class _Curvatures:
    """Second derivatives -n f'' at the points of a path.

    Finite differences over short distances miss a jump of the slope, and steps would oscillate around such a kink.
    There the fall of the slope over recent steps is larger and is used instead.
    """

    def __init__(self, program: FixedAllocationProgram) -> None:
        self._program = program
        self._fall = np.zeros(program.num_entries)
        self._before: tuple[Floats, Floats] | None = None

    def __call__(self, point: Point, slopes: Floats) -> Floats:
        """Return the curvatures at the next point, given its slopes."""
        local = self._program.curvatures(point.amounts, point.rooms)
        if self._before is not None:
            moved = point.amounts - self._before[0]
            fall = np.where(moved != 0, (self._before[1] - slopes) / moved, 0.0)
            self._fall = np.maximum(MEMORY * self._fall, fall)
        self._before = point.amounts, slopes
        return np.where(self._fall > JUMP * local, self._fall, local)


def _centre(program: FixedAllocationProgram) -> Point:
    """Return a point well inside all bounds, with multipliers that match the slopes of the utilities."""
    filling = 0.5 * np.minimum(1.0, program.capacity / program.cell_sums(program.upper))
    amounts = program.upper * filling[program.entry_cell]
    spare = program.capacity - program.cell_sums(amounts)
    overheads = program.overhead * program.holding_sums(amounts)
    table = overheads.reshape(program.num_resources, program.num_ports)
    slopes = program.slopes(amounts)
    shares = np.tile(program.counts / program.num_resources, program.num_resources)
    costs = program.costs(shares, np.zeros_like(spare))
    product = 0.3 * float((slopes + costs) @ amounts) / program.num_entries
    levels = 1.1 * table.max(axis=0) + product * program.num_resources / program.counts
    surplus = slopes - costs
    scarce = program.capacity < program.cell_sums(program.upper)
    mean_surplus = np.bincount(program.entry_cell, np.maximum(surplus, 0.0)) / np.bincount(program.entry_cell)
    prices = product / spare + scarce * mean_surplus
    surplus -= prices[program.entry_cell]
    common = product / np.minimum(amounts, program.upper - amounts)
    return Point(
        amounts=amounts,
        rooms=program.upper - amounts,
        spare=spare,
        levels=levels,
        margins=np.tile(levels, program.num_resources) - overheads,
        floors=np.maximum(-surplus, 0.0) + common,
        ceilings=np.maximum(surplus, 0.0) + common,
        prices=prices,
        shares=shares,
    )


def central_path(program: FixedAllocationProgram) -> Iterator[Point]:
    """Yield points that approach the optimum, until rounding errors stop the progress.

    Parameters
    ----------
    program : FixedAllocationProgram
        Program with at least one entry and a positive gain.

    Yields
    ------
    Point
        Next point; its amounts are feasible up to rounding.
    """
    point, curvatures = _centre(program), _Curvatures(program)
    while True:
        yield point
        with np.errstate(all="ignore"):
            following = _advance(program, point, curvatures)
        if following is None:
            return
        point = following


def _advance(program: FixedAllocationProgram, point: Point, curvatures: _Curvatures) -> Point | None:
    try:
        slopes = program.slopes(point.amounts)
        newton = Newton(program, point, slopes, curvatures(point, slopes))
    except np.linalg.LinAlgError:
        return None
    total = point.complementarity
    pairs = sum(len(slack) for slack, _ in point.pairs)
    none = [np.zeros_like(slack) for slack, _ in point.pairs]
    predictor = newton.direction(0.0, none)
    length = point.longest_step(predictor)
    expected = point.step(predictor, length).complementarity
    # The second-order terms are only as reliable as the step that they correct.
    corrections = [length**2 * first * second for first, second in predictor.pairs]
    for centring, terms in (((expected / total) ** 3, corrections), (1.0, none)):
        direction = newton.direction(centring * total / pairs, terms)
        length = min(1.0, BOLDNESS * point.longest_step(direction))
        following = point.step(direction, length)
        sound = all(np.isfinite(values).all() and (values > 0).all() for pair in following.pairs for values in pair)
        if sound and length > SHORT_STEP:
            return following
    return following if sound and length > SHORTEST_STEP else None
