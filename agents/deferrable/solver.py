"""Solve mixed-integer linear programs with HiGHS; the solver object is reused between programs.

The rolling horizon solves a program in every slot, most with some thirty variables and ten rows. Passing one as arrays
takes a hundredth of the time of solving it, so each program is passed anew, and only the solver with its options is
reused. A warm start from the last basis saves no time. A warm start from the last plan with new jobs inserted saves a
tenth, but prefers the old plan among equally good ones, which lowers the reward by 0.14 % under fluctuating capacity.
Heuristics for a first solution took two thirds of the time of such small programs; only larger ones use them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import DesimError, MissingDependency

if TYPE_CHECKING:
    import highspy

__all__ = ["Answer", "Program", "maximize"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Largest number of variables of a program solved without heuristics; branching finds its solutions sooner.
SMALL = 500

#: Options of all programs: the same answer on every computer, and no output.
_FOR_ALL: dict[str, bool | int] = {"output_flag": False, "threads": 1, "random_seed": 0}

#: Options that turn off what does not help with small programs.
_FOR_SMALL: dict[str, bool | float] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_detect_symmetry": False,
    "mip_allow_restart": False,
    "mip_pool_soft_limit": 10,  # drop cuts early: checking them takes longer than finding them again
}

# codes of passModel for a column-wise matrix and for maximization
_BY_COLUMNS, _MAXIMIZE = 1, -1


class Program(NamedTuple):
    """Mixed-integer linear program: maximize gain x subject to matrix x <= right, 0 <= x <= upper.

    Attributes
    ----------
    gain, upper : numpy.ndarray of shape (num_columns,)
        Objective coefficient and upper bound of each variable.
    is_whole : numpy.ndarray of bool, shape (num_columns,)
        Whether each variable is an integer.
    right : numpy.ndarray of shape (num_rows,)
        Right-hand sides.
    row, column : numpy.ndarray of int64, shape (num_entries,)
        Positions of the nonzero matrix entries, each at most once.
    value : numpy.ndarray of shape (num_entries,)
        Values of these entries.
    """

    gain: Floats
    upper: Floats
    is_whole: NDArray[np.bool_]
    right: Floats
    row: Ints
    column: Ints
    value: Floats


class Answer(NamedTuple):
    """Answer of the solver.

    Attributes
    ----------
    values : numpy.ndarray of shape (num_columns,), or None
        Values of the variables; None if no solution was found within the time limit.
    bound : float
        Upper bound on the objective, within the solver's tolerances; infinity if there is none.
    """

    values: Floats | None
    bound: float


class SolverCache(threading.local):
    """Solvers of a thread, one for small and one for other programs, created on first use."""

    def __init__(self) -> None:
        self._solvers: dict[bool, highspy.Highs] = {}

    def solver(self, is_small: bool) -> highspy.Highs:
        """Return the solver for small or for other programs."""
        if is_small not in self._solvers:
            self._solvers[is_small] = _new_solver({**_FOR_ALL, **_FOR_SMALL} if is_small else _FOR_ALL)
        return self._solvers[is_small]


_kept = SolverCache()


def _new_solver(options: Mapping[str, bool | float]) -> highspy.Highs:
    try:
        import highspy
    except ImportError as error:
        raise MissingDependency(
            f"HiGHS cannot be loaded: {error}. highspy 1.15 and ortools exclude each other in one process: "
            "pip install 'highspy>=1.16'"
        ) from error
    # highspy.Highs, the modelling layer on top, prints a line on first use
    solver: highspy.Highs = highspy._Highs()  # type: ignore[attr-defined]  # exported, but not in the stubs
    for option, value in options.items():
        solver.setOptionValue(option, value)
    return solver


def maximize(program: Program, *, time_limit: float, gap: float, integral: bool = True) -> Answer:
    """Solve a program; unless time runs out, the answer does not depend on programs solved before.

    Parameters
    ----------
    program : Program
        Program to solve; x = 0 must be feasible.
    time_limit : float
        Time limit in wall-clock seconds.
    gap : float
        Relative gap at which the solver may stop.
    integral : bool
        Whether to respect ``is_whole``; otherwise the linear relaxation is solved.

    Returns
    -------
    Answer
        Best solution found, and a bound.

    Raises
    ------
    MissingDependency
        If HiGHS cannot be loaded.
    DesimError
        If HiGHS fails.
    """
    solver = _kept.solver(len(program.gain) <= SMALL)
    solver.setOptionValue("mip_rel_gap", gap)
    # only for linear programs does the solver's clock keep running between solves
    solver.setOptionValue("time_limit", time_limit if integral else solver.getRunTime() + time_limit)
    _pass(solver, program, integral)
    _run(solver)
    return _answer(solver, integral)


def _pass(solver: highspy.Highs, program: Program, integral: bool) -> None:
    """Pass a program to the solver, replacing the last one."""
    num_columns, num_rows = len(program.gain), len(program.right)
    order = np.argsort(program.column, kind="stable")
    begin = np.zeros(num_columns + 1, dtype=np.int32)
    np.cumsum(np.bincount(program.column, minlength=num_columns), out=begin[1:])
    solver.passModel(
        num_columns,
        num_rows,
        len(order),
        _BY_COLUMNS,
        _MAXIMIZE,
        0.0,
        program.gain,
        np.zeros(num_columns),
        program.upper,
        np.full(num_rows, -np.inf),
        program.right,
        begin,
        program.row[order].astype(np.int32),
        program.value[order],
        program.is_whole.astype(np.int32) if integral else np.zeros(num_columns, dtype=np.int32),
    )


def _run(solver: highspy.Highs) -> None:
    import highspy

    if solver.run() != highspy.HighsStatus.kError:
        return
    # other code may have used HiGHS with more threads, whose scheduler persists and conflicts with ours
    solver.resetGlobalScheduler(True)
    if solver.run() == highspy.HighsStatus.kError:
        raise DesimError(f"HiGHS failed with status {solver.modelStatusToString(solver.getModelStatus())!r}")


def _answer(solver: highspy.Highs, integral: bool) -> Answer:
    import highspy

    info = solver.getInfo()
    values = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.array(solver.getSolution().col_value)
    if integral:
        return Answer(values, info.mip_dual_bound)
    is_optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Answer(values, info.objective_function_value if is_optimal else np.inf)
