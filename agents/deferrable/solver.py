"""Mixed-integer linear programs by HiGHS, whose solver is kept from program to program.

The rolling horizon asks for a program in every slot, most of some thirty variables and ten rows. To hand one over as
arrays takes a hundredth of the time that it takes to solve it, so that programs are passed anew, and what is kept is
the solver with its options. To begin with the last basis saves nothing. To begin with the last plan, new jobs put in,
saves a tenth, and among plans that are equally good it prefers the old one, which brings .14 % less in a capacity that
fluctuates. Two thirds of the time of such small programs were heuristics that look for a first solution; these are for
larger ones.
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

#: Programs of no more variables are solved without heuristics: branching finds their solutions sooner.
SMALL = 500

#: The same program has the same answer on every computer, and nothing is printed.
_FOR_ALL: dict[str, bool | int] = {"output_flag": False, "threads": 1, "random_seed": 0}

#: What is of no use to small programs, and how it is turned off.
_FOR_SMALL: dict[str, bool | float] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_detect_symmetry": False,
    "mip_allow_restart": False,
    "mip_pool_soft_limit": 10,  # cuts leave sooner: to look for violated ones takes longer than to find them again
}

# what passModel calls a matrix by columns, and to maximize
_BY_COLUMNS, _MAXIMIZE = 1, -1


class Program(NamedTuple):
    """Maximize gain x subject to matrix x <= right, 0 <= x <= upper.

    Attributes
    ----------
    gain, upper : numpy.ndarray of shape (num_columns,)
        Of each variable.
    is_whole : numpy.ndarray of bool, shape (num_columns,)
        Which variables are whole numbers.
    right : numpy.ndarray of shape (num_rows,)
        Right-hand sides.
    row, column : numpy.ndarray of int64, shape (num_entries,)
        Places in the matrix, each at most once.
    value : numpy.ndarray of shape (num_entries,)
        What is there.
    """

    gain: Floats
    upper: Floats
    is_whole: NDArray[np.bool_]
    right: Floats
    row: Ints
    column: Ints
    value: Floats


class Answer(NamedTuple):
    """What the solver found.

    Attributes
    ----------
    values : numpy.ndarray of shape (num_columns,), or None
        Of the variables; None if it found none in its time.
    bound : float
        No values gain more, but for the tolerances of the solver; infinity if it has none.
    """

    values: Floats | None
    bound: float


class SolverCache(threading.local):
    """The solvers of a thread, each made when it is first needed: for small programs, and for others."""

    def __init__(self) -> None:
        self._solvers: dict[bool, highspy.Highs] = {}

    def solver(self, is_small: bool) -> highspy.Highs:
        """Return one."""
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
    # highspy.Highs, which adds what builds models, prints a line when the first of them is made
    solver: highspy.Highs = highspy._Highs()  # type: ignore[attr-defined]  # exported, and not in the stubs
    for option, value in options.items():
        solver.setOptionValue(option, value)
    return solver


def maximize(program: Program, *, time_limit: float, gap: float, integral: bool = True) -> Answer:
    """Solve a program; it has the same answer whatever was solved before, if there is the time.

    Parameters
    ----------
    program : Program
        What is to be solved; x = 0 must be a solution.
    time_limit : float
        Seconds of real time.
    gap : float
        Relative gap at which the solver may stop.
    integral : bool
        Whether variables are whole numbers; if not, the linear relaxation is solved.

    Returns
    -------
    Answer
        The best that it found.

    Raises
    ------
    MissingDependency
        If HiGHS cannot be loaded.
    DesimError
        If it fails.
    """
    solver = _kept.solver(len(program.gain) <= SMALL)
    solver.setOptionValue("mip_rel_gap", gap)
    # for linear programs, though not for others, the solver's clock runs on from one to the next
    solver.setOptionValue("time_limit", time_limit if integral else solver.getRunTime() + time_limit)
    _pass(solver, program, integral)
    _run(solver)
    return _answer(solver, integral)


def _pass(solver: highspy.Highs, program: Program, integral: bool) -> None:
    """Hand the program over, in place of the last one."""
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
    # others may have used HiGHS with more threads, which stay, and which it then insists on
    solver.resetGlobalScheduler(True)
    if solver.run() == highspy.HighsStatus.kError:
        raise DesimError(f"HiGHS fails, with status {solver.modelStatusToString(solver.getModelStatus())!r}")


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
