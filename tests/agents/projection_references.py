"""Other ways to project: exact arithmetic, all active sets, least squares; and problems to try them on."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Points, upper bounds, capacities and weights, one problem a column
Problem = tuple[Floats, Floats, Floats, Floats]
KINDS = ("plain", "weighted", "steep", "integers", "full", "empty", "roomy", "ties", "scales")


def random_problem(kind: str, count: int, number: int, rng: Generator) -> Problem:
    shape = (count, number)
    points, upper, weights = rng.normal(1, 3, shape), rng.uniform(0, 3, shape), np.ones(shape)
    capacity = rng.uniform(0, count, number)
    match kind:
        case "weighted":
            weights = rng.uniform(0.1, 10, shape)
        case "steep":
            weights = 10.0 ** rng.uniform(-3, 3, shape)
        case "integers":
            points, upper, weights = (rng.integers(*ends, shape) * 1.0 for ends in ((-2, 6), (0, 4), (1, 3)))
            capacity = np.floor(capacity)
        case "full":
            capacity *= rng.random(number) < 0.5
        case "empty":
            upper *= rng.random(shape) < 0.3
        case "roomy":
            capacity = upper.sum(axis=0) * rng.choice([1.0, 1.5], number)
        case "ties":
            points, upper = np.tile(points[:1], (count, 1)), np.tile(upper[:1], (count, 1))
        case "scales":
            points *= 10.0 ** rng.choice([-9, 0, 9], shape)
            upper *= 10.0 ** rng.choice([-9, 0, 9], shape)
            capacity *= 10.0 ** rng.choice([-9, 0, 9], number)
    return points, upper, capacity, weights


def exact(points: Any, upper: Any, capacity: float, weights: Any) -> Floats:
    """Solve one problem in rational numbers: walk along the bends of the clipped sum to where it meets the capacity."""
    z, a, w = ([Fraction(float(value)) for value in column] for column in (points, upper, weights))
    available = Fraction(float(capacity))

    def clipped(tau: Fraction) -> list[Fraction]:
        return [min(max(zi - wi * tau, Fraction(0)), ai) for zi, ai, wi in zip(z, a, w, strict=True)]

    answer = clipped(Fraction(0))
    if sum(answer) > available:
        bends = {bend for zi, ai, wi in zip(z, a, w, strict=True) for bend in (zi / wi, (zi - ai) / wi) if bend > 0}
        for left, right in pairwise([Fraction(0), *sorted(bends)]):
            before, after = sum(clipped(left)), sum(clipped(right))
            if after <= available:
                answer = clipped(left + (right - left) * (before - available) / (before - after))
                break
    return np.array([float(value) for value in answer])


def exact_columns(problem: Problem) -> Floats:
    points, upper, capacity, weights = problem
    columns = [exact(points[:, i], upper[:, i], capacity[i], weights[:, i]) for i in range(len(capacity))]
    return np.array(columns).T


def best_of_all_active_sets(problem: Problem) -> Floats:
    """Return the best feasible minimizer of all faces: entries at 0, at their bound or free; sum free or full."""
    points, upper, capacity, weights = problem
    slack = 1e-12 * (1 + np.abs(points).max())
    best, cost = np.zeros_like(points), np.square(points / np.sqrt(weights)).sum(axis=0)
    for sides in product((0, 1, 2), repeat=len(points)):
        free = np.array(sides)[:, None] == 2
        fixed = upper * (np.array(sides)[:, None] == 1)
        steepness = (weights * free).sum(axis=0)
        surplus = (points * free + fixed).sum(axis=0) - capacity
        for tau in [0.0] if not free.any() else [0.0, surplus / steepness]:
            y = np.where(free, points - weights * tau, fixed)
            feasible = ((y >= -slack) & (y <= upper + slack)).all(axis=0) & (y.sum(axis=0) <= capacity + slack)
            distance = np.square((y - points) / np.sqrt(weights)).sum(axis=0)
            better = feasible & (distance < cost)
            best, cost = np.where(better, y, best), np.where(better, distance, cost)
    return best


def least_distance(points: Floats, upper: Floats, capacity: float, weights: Floats) -> Floats:
    """Solve one problem as Lawson and Hanson's least distance programming: a non-negative least squares problem."""
    from scipy.optimize import nnls

    count, root = len(points), np.sqrt(weights)
    matrix = np.vstack([np.diag(root), -np.diag(root), -root])
    bounds = np.concatenate([-points, points - upper, [points.sum() - capacity]])
    system = np.vstack([matrix.T, bounds])
    multipliers, _ = nnls(system, np.eye(count + 1)[count])
    residual = system @ multipliers - np.eye(count + 1)[count]
    return points - root * residual[:count] / residual[count]


def rounding(problem: Problem) -> Floats:
    """Return what the representation of the multiplier costs each problem, in the units of the points."""
    points, _, capacity, weights = problem
    return 2.0**-49 * (capacity + np.maximum((points / weights).max(axis=0), 0) * weights.sum(axis=0))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Yield one problem of one to six coordinates with many coincidences."""
    count = draw(st.integers(1, 6))
    special = st.sampled_from([0.0, 1.0, 2.0, 3.0, 1 / 3, 1e-9, 1e9])

    def column(entries: st.SearchStrategy[float], size: int = count) -> Floats:
        return np.array(draw(st.lists(entries, min_size=size, max_size=size)))

    points = column(st.one_of(special, special.map(lambda value: -value), st.floats(-5, 5)))
    upper = column(st.one_of(special, st.floats(0, 5)))
    weights = column(st.one_of(st.just(1.0), st.sampled_from([1e-3, 0.5, 2.0, 1e3])))
    capacity = column(st.one_of(special, st.floats(0, 9), st.just(float(upper.sum()))), 1)
    return points[:, None], upper[:, None], capacity, weights[:, None]
