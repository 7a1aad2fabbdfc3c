"""The best fixed allocation as a model of cvxpy, written from the graph alone so that it can check our own method."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import DesimError, InvalidConfiguration, MissingDependency
from desim.problems.multiserver import RewardModel

__all__ = ["CvxpySolution", "solve_with_cvxpy"]

Floats = NDArray[np.float64]


class CvxpySolution(NamedTuple):
    """What the solver found, as it is: amounts may be out of bounds by its tolerance.

    Attributes
    ----------
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        Amounts.
    shares : numpy.ndarray of shape (num_ports, num_resources)
        Multipliers of the overheads; rows sum to 1.
    prices : numpy.ndarray of shape (num_nodes, num_resources)
        Multipliers of the capacities, for all slots.
    iterations : int
        Of the solver; 0 if it does not say.
    method : str
        The solver's name.
    """

    allocation: Floats
    shares: Floats
    prices: Floats
    iterations: int
    method: str


#: The utilities as cvxpy knows them; sums over weights w and expressions y.
_FORMS: dict[str, Callable[[Any, Any, Floats], Any]] = {
    "linear": lambda cvxpy, y, w: cvxpy.multiply(w, y),
    "log": lambda cvxpy, y, w: cvxpy.multiply(w, cvxpy.log1p(y)),
    "reciprocal": lambda cvxpy, y, w: 1.0 / w - cvxpy.inv_pos(y + w),
    "poly": lambda cvxpy, y, w: cvxpy.multiply(w, cvxpy.sqrt(y + 1.0) - 1.0),
}


def solve_with_cvxpy(rewards: RewardModel, counts: Floats, solver: str | None) -> CvxpySolution:
    """Build the model and solve it.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead.
    counts : numpy.ndarray of shape (num_ports,)
        Jobs a port.
    solver : str or None
        For cvxpy; its choice if None.

    Returns
    -------
    CvxpySolution
        The solution.

    Raises
    ------
    InvalidConfiguration
        If a utility has no form in cvxpy, or the solver is not installed.
    MissingDependency
        If cvxpy is not installed.
    DesimError
        If the solver finds nothing.
    """
    cvxpy = _import_cvxpy()
    if solver is not None and solver not in cvxpy.installed_solvers():
        raise InvalidConfiguration(f"no solver {solver!r} for cvxpy; there are {', '.join(cvxpy.installed_solvers())}")
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
            raise InvalidConfiguration(f"utility {name!r} has no form in cvxpy; {', '.join(_FORMS)} have")
        entries = np.flatnonzero(names == name)
        terms.append(times[entries] @ _FORMS[name](cvxpy, flat[entries], parameters[entries]))
    return cvxpy.sum(cvxpy.hstack(terms))


def _solve(cvxpy: Any, problem: Any, solver: str | None) -> None:
    try:
        with warnings.catch_warnings():  # that a solution may be inaccurate is seen in the gap
            warnings.simplefilter("ignore")
            problem.solve(solver=solver)
    except cvxpy.error.SolverError as error:
        raise DesimError(f"cvxpy finds no best fixed allocation: {error}") from error
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise DesimError(f"cvxpy finds no best fixed allocation: its status is {problem.status!r}")


def _incidence(ends: NDArray[np.int64], count: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(ends)), (ends, np.arange(len(ends)))), shape=(count, len(ends)))


def _import_cvxpy() -> Any:
    try:
        return importlib.import_module("cvxpy")
    except ImportError as error:
        raise MissingDependency('the comparison with cvxpy needs cvxpy; pip install "desim[cvxpy]"') from error
