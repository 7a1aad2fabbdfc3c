"""Mixed-integer linear programs by HiGHS, as part of scipy."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answer", "Program", "maximize", "no_solver_output"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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


STDOUT = 1


class _Redirection:
    """How many threads are within, and what the standard output was before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._saved: int | None = None

    def begin(self) -> None:
        """Redirect, if nobody has."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                with suppress(OSError):  # there may be no standard output
                    _flush()
                    self._saved = os.dup(STDOUT)
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, STDOUT)
                    os.close(nowhere)

    def end(self) -> None:
        """Put things back, if nobody else is within."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._saved is not None:
                _flush()
                os.dup2(self._saved, STDOUT)
                os.close(self._saved)
                self._saved = None


_redirection = _Redirection()


def _flush() -> None:
    """Write what the C library holds back."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


@contextmanager
def no_solver_output() -> Iterator[None]:
    """Let C code within print to nowhere.

    HiGHS 1.12, as in scipy 1.17, leaves a line for debugging on the standard output now and then, whatever its options
    are.

    Yields
    ------
    None
        Nothing; all threads of the process are concerned.
    """
    _redirection.begin()
    try:
        yield
    finally:
        _redirection.end()


def maximize(program: Program, *, time_limit: float, gap: float, integral: bool = True) -> Answer:
    """Solve a program.

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
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array

    shape = (len(program.right), len(program.gain))
    matrix = csc_array((program.value, (program.row, program.column)), shape=shape)
    with no_solver_output():
        answer: Any = milp(
            -program.gain,
            integrality=program.is_whole if integral else None,
            bounds=Bounds(0.0, program.upper),
            constraints=LinearConstraint(matrix, -np.inf, program.right),
            options={"time_limit": time_limit, "mip_rel_gap": gap},
        )
    if answer.x is None:
        return Answer(None, np.inf)
    return Answer(np.asarray(answer.x), float(-answer.mip_dual_bound if integral else -answer.fun))
