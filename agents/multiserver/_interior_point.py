"""A primal-dual interior-point method for the best fixed allocation.

Mehrotra's predictor and corrector (SIAM J. Optim. 2(4), 1992; Nocedal and Wright, "Numerical Optimization", 2nd ed.,
algorithm 14.3), on the conditions of optimality of :class:`FixedAllocationProgram` with multipliers for every bound. An
iteration costs O(entries), one product of a (ports x nodes) matrix with its transpose a resource, and a Cholesky
factorization of order (ports x (resources - 1)).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from desim.agents.multiserver._fixed_allocation import FixedAllocationProgram
from desim.agents.multiserver._newton import Newton, Point

__all__ = ["central_path"]

Floats = NDArray[np.float64]

#: Part of the way to the boundary that a step may go.
BOLDNESS = 0.9995
#: After a shorter step than this a plain step towards the centre is tried; one shorter than the second gets nowhere.
SHORT_STEP, SHORTEST_STEP = 1e-2, 1e-8
#: What is kept of a fall of slopes from one step to the next, and how much above the curvature it must be to count.
MEMORY, JUMP = 0.8, 8.0


class _Curvatures:
    """Second derivatives -n f'' at the points of a path.

    Differences over short distances do not see where a slope jumps, and steps would hop back and forth over the kink.
    There, how the slope fell over the steps of late is larger, and is taken instead.
    """

    def __init__(self, program: FixedAllocationProgram) -> None:
        self._program = program
        self._fall = np.zeros(program.num_entries)
        self._before: tuple[Floats, Floats] | None = None

    def __call__(self, point: Point, slopes: Floats) -> Floats:
        """Return the curvatures at the next point, where the slopes are given."""
        local = self._program.curvatures(point.amounts, point.rooms)
        if self._before is not None:
            moved = point.amounts - self._before[0]
            fall = np.where(moved != 0, (self._before[1] - slopes) / moved, 0.0)
            self._fall = np.maximum(MEMORY * self._fall, fall)
        self._before = point.amounts, slopes
        return np.where(self._fall > JUMP * local, self._fall, local)


def _centre(program: FixedAllocationProgram) -> Point:
    """Return a point well inside all bounds whose multipliers agree with the slopes of the utilities."""
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
    """Yield points that approach the optimum, until rounding stops the progress.

    Parameters
    ----------
    program : FixedAllocationProgram
        With at least one entry, and utilities that gain something.

    Yields
    ------
    Point
        Its amounts are feasible but for rounding.
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
    # The second-order terms are as trustworthy as the step that they are about.
    corrections = [length**2 * first * second for first, second in predictor.pairs]
    for centring, terms in (((expected / total) ** 3, corrections), (1.0, none)):
        direction = newton.direction(centring * total / pairs, terms)
        length = min(1.0, BOLDNESS * point.longest_step(direction))
        following = point.step(direction, length)
        sound = all(np.isfinite(values).all() and (values > 0).all() for pair in following.pairs for values in pair)
        if sound and length > SHORT_STEP:
            return following
    return following if sound and length > SHORTEST_STEP else None
