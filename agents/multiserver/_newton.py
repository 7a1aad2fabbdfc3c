"""Newton's equations on the way to the best fixed allocation.

They are solved by elimination: the amounts are diagonal, then so are the prices of the cells, and what is left couples
the ports, one dense matrix a resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.multiserver._fixed_allocation import FixedAllocationProgram

__all__ = ["Newton", "Point"]

Floats = NDArray[np.float64]

#: Largest relative change of the diagonal that is tried to make a matrix definite.
LARGEST_SHIFT = 1e-6


@dataclass(frozen=True)
class Point:
    """Amounts, slacks and multipliers; all but ``levels`` are above 0. A direction has the same fields.

    Attributes
    ----------
    amounts, rooms : numpy.ndarray of shape (num_entries,)
        y and a - y.
    spare : numpy.ndarray of shape (num_cells,)
        c less the sum of the amounts.
    levels : numpy.ndarray of shape (num_active,)
        t_l, at least the overhead of each holding of a port.
    margins : numpy.ndarray of shape (num_holdings,)
        t_l less the overhead.
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
        """Return the point at some length along a direction."""
        names = [field.name for field in fields(self)]
        return Point(**{name: getattr(self, name) + length * getattr(direction, name) for name in names})

    @property
    def pairs(self) -> list[tuple[Floats, Floats]]:
        """What is complementary at the optimum."""
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
        """Return how far a direction can be followed until something is 0, at most 1."""
        longest = 1.0
        for pair, change in zip(self.pairs, direction.pairs, strict=True):
            for values, changes in zip(pair, change, strict=True):
                steepest = float(np.min(changes / values, initial=0.0))
                longest = min(longest, -1.0 / steepest) if steepest < 0 else longest
        return longest


class Newton:
    """Newton's equations at a point, factorized.

    With D = -n f'' + floors / y + ceilings / (a - y), and N, P the sums over cells and holdings,

        D dy + N' dprices + P' beta dshares = r
        (spare / prices) dprices - N dy = s
        (margins / shares) dshares + dt - beta P dy = w
        sum over resources of dshares = u.
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
        """Return beta times the softness by port and cell, one table a resource."""
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
        """Return the matrix on the shares that is left when amounts and prices are eliminated."""
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
        """Leave out one share a port, the largest: it follows from the others, whose matrix stays definite.

        (Eliminating all shares instead would need the inverse of each block, singular close to the optimum.)
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
        """Return the changes of amounts, prices and shares for right-hand sides."""
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
        """Return the step towards products of ``target``, less second-order terms of the products."""
        program, point = self.program, self.point
        floor, ceiling, price, share = (
            target - slack * multiplier - correction
            for (slack, multiplier), correction in zip(point.pairs, corrections, strict=True)
        )
        r = self.residual + floor / point.amounts - ceiling / point.rooms
        # The slacks follow from the amounts, so that what they are off by enters with them.
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
    """Factorize a matrix that is positive definite but for rounding, or raise LinAlgError."""
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
