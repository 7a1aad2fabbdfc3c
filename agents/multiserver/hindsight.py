"""Best fixed allocation in hindsight, the reference for the regret of a policy.

If the same allocation y is used in every slot, only the number n_l of jobs at each port matters, and the reward of all
slots is

    Q(y) = sum_l n_l q_l(y),   q_l(y) = sum_k sum_r f_r^k(y) - max_k beta_k sum_r y

(equations (7) to (10) of arXiv 2305.06572), which is concave. Every result comes with an upper bound on the reward of
any fixed allocation: since max_k x_k is the largest p . x over p >= 0 with sum 1, for every such p_l and all prices
nu >= 0

    Q(y) <= sum_(r,k) [ nu c + sum_l max_(0 <= y <= min(a, c)) ( n_l f(y) - (n_l p_l beta_k + nu) y ) ].
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.bounds import Bounded
from desim.agents.multiserver.interior_point import FixedAllocationProgram, Point, central_path
from desim.agents.multiserver.projection import Projection
from desim.exceptions import DesimError, InvalidConfiguration, MissingDependency
from desim.problems.multiserver import RewardModel

__all__ = ["Hindsight", "best_fixed_allocation", "best_fixed_allocation_cvxpy", "hindsight_bound"]

Floats = NDArray[np.float64]


class CvxpySolution(NamedTuple):
    """Raw solution of the solver, which may violate bounds within its tolerance.

    Attributes
    ----------
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        Amounts.
    shares : numpy.ndarray of shape (num_ports, num_resources)
        Multipliers of the overheads; rows sum to 1.
    prices : numpy.ndarray of shape (num_nodes, num_resources)
        Multipliers of the capacities, for all slots.
    iterations : int
        Number of iterations; 0 if the solver does not report it.
    method : str
        Name of the solver.
    """

    allocation: Floats
    shares: Floats
    prices: Floats
    iterations: int
    method: str


#: Utilities as cvxpy expressions of weights w and amounts y.
_FORMS: dict[str, Callable[[Any, Any, Floats], Any]] = {
    "linear": lambda cvxpy, y, w: cvxpy.multiply(w, y),
    "log": lambda cvxpy, y, w: cvxpy.multiply(w, cvxpy.log1p(y)),
    "reciprocal": lambda cvxpy, y, w: 1.0 / w - cvxpy.inv_pos(y + w),
    "poly": lambda cvxpy, y, w: cvxpy.multiply(w, cvxpy.sqrt(y + 1.0) - 1.0),
}


def solve_with_cvxpy(rewards: RewardModel, counts: Floats, solver: str | None) -> CvxpySolution:
    """Build the program and solve it with cvxpy.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead.
    counts : numpy.ndarray of shape (num_ports,)
        Number of jobs per port.
    solver : str or None
        Name of the solver; None for cvxpy's choice.

    Returns
    -------
    CvxpySolution
        Raw solution.

    Raises
    ------
    InvalidConfiguration
        If a utility has no form in cvxpy, or the solver is not installed.
    MissingDependency
        If cvxpy is not installed.
    DesimError
        If the solver finds no solution.
    """
    cvxpy = _import_cvxpy()
    if solver is not None and solver not in cvxpy.installed_solvers():
        raise InvalidConfiguration(
            f"solver: got {solver!r}, expected one installed for cvxpy: {', '.join(cvxpy.installed_solvers())}"
        )
    graph = rewards.graph
    scale = float(counts.max()) or 1.0
    weights = counts / scale
    if graph.num_channels == 0:
        even = np.full((graph.num_ports, graph.num_resources), 1.0 / graph.num_resources)
        return CvxpySolution(np.zeros(graph.shape), even, np.zeros(graph.capacity.shape), 0, "cvxpy")
    amounts = cvxpy.Variable(graph.shape, nonneg=True)
    levels = cvxpy.Variable((graph.num_ports, 1))
    held = _incidence(graph.channel_port, graph.num_ports) @ amounts
    capacity = _incidence(graph.channel_node, graph.num_nodes) @ amounts <= graph.capacity
    overhead = cvxpy.multiply(held, np.tile(rewards.overhead, (graph.num_ports, 1))) <= levels @ np.ones(
        (1, graph.num_resources)
    )
    objective = _gain(cvxpy, rewards, weights, amounts) - weights @ levels
    problem = cvxpy.Problem(cvxpy.Maximize(objective), [amounts <= graph.channel_requests, capacity, overhead])
    _solve(cvxpy, problem, solver)
    shares = np.maximum(overhead.dual_value, 0.0) + 1e-15
    shares = np.where(weights[:, None] > 0, shares, 1.0)
    return CvxpySolution(
        np.asarray(amounts.value),
        shares / shares.sum(axis=1, keepdims=True),
        np.maximum(capacity.dual_value, 0.0) * scale,
        int(problem.solver_stats.num_iters or 0),
        f"cvxpy {problem.solver_stats.solver_name}",
    )


def _gain(cvxpy: Any, rewards: RewardModel, weights: Floats, amounts: Any) -> Any:
    """Return the weighted gain of all entries, by utility."""
    node, port = rewards.graph.channel_node, rewards.graph.channel_port
    names, parameters = rewards.utilities[node].ravel(), rewards.weights[node].ravel()
    times = np.repeat(weights[port], rewards.graph.num_resources)
    flat = cvxpy.vec(amounts, order="C")
    terms = []
    for name in np.unique(names).tolist():
        if name not in _FORMS:
            raise InvalidConfiguration(f"utility for cvxpy: got {name!r}, expected one of {', '.join(_FORMS)}")
        entries = np.flatnonzero(names == name)
        terms.append(times[entries] @ _FORMS[name](cvxpy, flat[entries], parameters[entries]))
    return cvxpy.sum(cvxpy.hstack(terms))


def _solve(cvxpy: Any, problem: Any, solver: str | None) -> None:
    try:
        with warnings.catch_warnings():  # an inaccurate solution shows in the gap
            warnings.simplefilter("ignore")
            problem.solve(solver=solver)
    except cvxpy.error.SolverError as error:
        raise DesimError(f"cvxpy found no best fixed allocation: {error}") from error
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise DesimError(f"cvxpy found no best fixed allocation: status {problem.status!r}")


def _incidence(ends: NDArray[np.int64], count: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(ends)), (ends, np.arange(len(ends)))), shape=(count, len(ends)))


def _import_cvxpy() -> Any:
    try:
        return importlib.import_module("cvxpy")
    except ImportError as error:
        raise MissingDependency('best_fixed_allocation_cvxpy needs cvxpy: pip install "desim[cvxpy]"') from error


#: Gap, relative to the gain without overheads and capacities, that counts as a rounding error.
ROUNDING = 1e-14

#: Largest deviation of the sum of a port's shares from 1.
SHARES_OFF = 1e-6


@dataclass(frozen=True, eq=False)
class Hindsight(Bounded):
    """Fixed allocation with a certified upper bound.

    Attributes
    ----------
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        Feasible allocation; 0 for ports without jobs.
    value : float
        Reward of the allocation over all slots, Q(y).
    upper_bound : float
        Upper bound on the reward of any feasible allocation, up to rounding; at least ``value``.
    shares : numpy.ndarray of shape (num_ports, num_resources)
        Multipliers p of the bound, which split the overhead of each port among resources. Rows sum to 1.
    prices : numpy.ndarray of shape (num_nodes, num_resources)
        Multipliers nu of the bound: marginal reward of a unit of capacity over all slots.
    iterations : int
        Number of iterations.
    method : str
        Name of the method.
    """

    allocation: Floats
    value: float
    upper_bound: float
    shares: Floats
    prices: Floats
    iterations: int
    method: str

    def highest(self) -> float:
        """Return the upper bound.

        Returns
        -------
        float
            Upper bound for all slots.
        """
        return self.upper_bound


def best_fixed_allocation(
    rewards: RewardModel,
    counts: ArrayLike,
    *,
    relative_gap: float = 1e-7,
    max_iterations: int = 200,
    progress: Callable[[int, float, float], None] | None = None,
) -> Hindsight:
    """Find the fixed allocation with the largest reward over all slots.

    The method is a primal-dual interior-point method. An iteration costs O(channels x resources) and a few products of
    (ports x nodes) matrices. Ten to twenty iterations are usual, and fifty for a complete graph of 100 ports and 1024
    nodes. Convergence is quadratic at the end, so a smaller gap costs little more.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead, on a graph. With utilities that have kinks the gap may stay open, usually below 1e-3.
    counts : array_like of shape (num_ports,)
        Number of jobs at each port over all slots, n_l, or their frequency; at least 0.
    relative_gap : float
        Relative gap at which to stop.
    max_iterations : int
        Largest number of iterations; the result may then have a larger gap.
    progress : callable, optional
        Function that is called after each iteration with the number of iterations, the value and the upper bound.

    Returns
    -------
    Hindsight
        Best allocation and lowest upper bound found.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the rewards are not a :class:`RewardModel` (those of gangs are not concave).

    Examples
    --------
    >>> from desim.problems.multiserver import BipartiteGraph
    >>> rewards = RewardModel(BipartiteGraph([[2.0], [2.0]], [[3.0]]), "log")
    >>> best = best_fixed_allocation(rewards, [3, 3])
    >>> best.allocation.ravel().round(3), round(best.value, 6)
    (array([1.5, 1.5]), 5.497744)
    """
    numbers = _counts(rewards, counts)
    if not relative_gap >= 0:
        raise InvalidConfiguration(f"relative_gap: got {relative_gap!r}, expected a number >= 0")
    if max_iterations < 1:
        raise InvalidConfiguration(f"max_iterations: got {max_iterations!r}, expected an integer >= 1")
    program = FixedAllocationProgram(rewards, numbers)
    most = float(program.gains(program.upper).sum())
    search = _Search(program)
    iteration = 0
    for iteration, point in enumerate(central_path(program) if most > 0 else ()):
        search.meet(point)
        if progress is not None and iteration:
            progress(iteration, search.value * program.scale, search.bound * program.scale)
        gap = search.bound - search.value
        if gap <= max(relative_gap * search.bound, ROUNDING * most) or iteration == max_iterations:
            break
    return search.result(numbers, iteration)


class _Search:
    """Best allocation and bound found so far; the initial allocation is zero."""

    def __init__(self, program: FixedAllocationProgram) -> None:
        self._program = program
        self._amounts = np.zeros(program.num_entries)
        self._shares = np.tile(program.counts / program.num_resources, program.num_resources)
        self._prices = np.zeros(len(program.capacity))
        self.value = 0.0
        self.bound = program.bound(self._shares, self._prices)

    def meet(self, point: Point) -> None:
        """Update the best allocation and bound with a point, which is feasible up to rounding."""
        amounts, shares = self._fit(point.amounts), self._program.normalize(point.shares)
        prices = self._program.full_prices(point.prices, point.ceilings)
        value = self._program.value(amounts)
        if value > self.value:
            self._amounts, self.value = amounts, value
        # If the zero allocation is optimal, prices that have not quite reached 0 would be the whole gap.
        candidates = [prices] if self.value > 0 else [prices, np.zeros_like(prices)]
        for candidate in candidates:
            bound = self._program.bound(shares, candidate)
            if bound < self.bound:
                self._shares, self._prices, self.bound = shares, candidate, bound

    def _fit(self, amounts: Floats) -> Floats:
        program = self._program
        amounts = np.minimum(amounts, program.upper)
        shrink = np.minimum(1.0, program.capacity / program.cell_sums(amounts))
        return amounts * shrink[program.entry_cell]

    def result(self, counts: Floats, iterations: int) -> Hindsight:
        """Return the result for all slots."""
        program = self._program
        allocation = program.to_allocation(self._amounts)
        value = _reward(program.rewards, counts, allocation)
        shares, prices = program.to_tables(self._shares, self._prices)
        bound = max(self.bound * program.scale, value)
        return Hindsight(allocation, value, bound, shares, prices, iterations, "interior-point")


def best_fixed_allocation_cvxpy(rewards: RewardModel, counts: ArrayLike, *, solver: str | None = None) -> Hindsight:
    """Find the best fixed allocation with cvxpy, for comparison; much slower than :func:`best_fixed_allocation`.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead; utilities must be linear, log, reciprocal or poly.
    counts : array_like of shape (num_ports,)
        Number of jobs at each port over all slots, at least 0.
    solver : str, optional
        Name of a solver from ``cvxpy.installed_solvers()``. Default: cvxpy's choice.

    Returns
    -------
    Hindsight
        Allocation, with :func:`hindsight_bound` of the solver's multipliers as upper bound.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, a utility has no form in cvxpy, or the solver is not installed.
    MissingDependency
        If cvxpy is not installed.
    DesimError
        If the solver finds no solution.
    """
    numbers = _counts(rewards, counts)
    solution = solve_with_cvxpy(rewards, numbers, solver)
    present = (numbers > 0)[rewards.graph.channel_port][:, None]
    allocation = Projection(rewards.graph)(np.where(present, solution.allocation, 0.0))
    value = _reward(rewards, numbers, allocation)
    bound = max(hindsight_bound(rewards, numbers, solution.shares, solution.prices), value)
    return Hindsight(allocation, value, bound, solution.shares, solution.prices, solution.iterations, solution.method)


def hindsight_bound(rewards: RewardModel, counts: ArrayLike, shares: ArrayLike, prices: ArrayLike) -> float:
    """Return an upper bound on the reward of every fixed allocation, by the formula at the top of this module.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead, on a graph.
    counts : array_like of shape (num_ports,)
        Number of jobs at each port over all slots, at least 0.
    shares : array_like of shape (num_ports, num_resources)
        Multipliers p, at least 0; each row sums to 1.
    prices : array_like of shape (num_nodes, num_resources)
        Multipliers nu, at least 0; those of nodes without channels do not matter.

    Returns
    -------
    float
        Upper bound; valid for any shares and prices, and tight for those of the optimum.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    numbers = _counts(rewards, counts)
    graph = rewards.graph
    split = _multipliers("shares", shares, (graph.num_ports, graph.num_resources))
    charge = _multipliers("prices", prices, graph.capacity.shape)
    off = np.flatnonzero(np.abs(split.sum(axis=1) - 1.0) > SHARES_OFF)
    if len(off):
        raise InvalidConfiguration(f"shares of {graph.ports[off[0]]}: got a sum of {split[off[0]].sum()!r}, expected 1")
    program = FixedAllocationProgram(rewards, numbers)
    flat_shares, flat_prices = program.from_tables(split, charge)
    return program.bound(program.normalize(flat_shares), flat_prices) * program.scale


def _reward(rewards: RewardModel, counts: Floats, allocation: Floats) -> float:
    """Return Q(y)."""
    gains = rewards.graph.port_sums(rewards.utility_gains(allocation).sum(axis=1))
    overheads = (rewards.graph.port_sums(allocation) * rewards.overhead).max(axis=1)
    return float(counts @ (gains - overheads))


def _counts(rewards: RewardModel, counts: ArrayLike) -> Floats:
    if not isinstance(rewards, RewardModel):
        raise InvalidConfiguration(f"rewards: got {rewards!r}, expected a RewardModel, which is concave")
    try:
        numbers = np.array(counts, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"counts: expected an array of numbers ({error})") from error
    if numbers.shape != (rewards.graph.num_ports,):
        raise InvalidConfiguration(
            f"counts: got shape {numbers.shape}, expected ({rewards.graph.num_ports},), one number per port"
        )
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < np.inf)))
    if len(wrong):
        port = rewards.graph.ports[wrong[0]]
        raise InvalidConfiguration(f"count of {port}: got {float(numbers[wrong[0]])!r}, expected a finite number >= 0")
    return numbers


def _multipliers(what: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    table = np.array(values, dtype=np.float64)
    if table.shape != shape:
        raise InvalidConfiguration(f"{what}: got an array of shape {table.shape}, expected {shape}")
    if len(wrong := table[~((table >= 0) & (table < np.inf))]):
        raise InvalidConfiguration(f"{what}: got {wrong[0]:g}, expected finite numbers >= 0")
    return table
