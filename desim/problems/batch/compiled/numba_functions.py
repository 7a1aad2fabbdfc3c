"""How functions of the compiled engine are compiled, and what its loops share.

This module imports numba, whose compiler caches its functions on disk.
"""

# mypy: disable-error-code="arg-type, no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Integers", "compiled", "entry", "inlined", "move_down", "move_up", "scheduled"]

Function = TypeVar("Function", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
OPTIONS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy", "_nrt": False}


def entry(function: Function) -> Function:
    """Return a compiled function that Python calls, and that numba caches on disk."""
    return cast(Function, numba.njit(cache=True)(function))


def compiled(function: Function) -> Function:
    """Return a function for compiled ones, which saves the compiler wrappers and checks, and counts no references."""
    return cast(Function, cast(Any, numba.njit)(**OPTIONS)(function))  # its type hints lack some options


def inlined(function: Function) -> Function:
    """Return a function for compiled ones that is compiled into each of them, which pays for the short and frequent."""
    return cast(Function, cast(Any, numba.njit)(**OPTIONS, forceinline=True)(function))


@compiled
def scheduled(now: float, time: float) -> float:
    """Return when SimPy's clock reaches an event at a time: it adds a delay, which is never too short."""
    delay = time - now
    while now + delay < time:
        delay = np.nextafter(delay, np.inf)
    return now + delay


@inlined
def move_up(values: Floats | Integers, begin: int, end: int) -> None:
    """Move values one place up. Unsigned places cannot count from the end, so that this becomes a copy of memory."""
    first, place, one = np.uint64(begin), np.uint64(end), np.uint64(1)
    while place > first:
        values[place] = values[place - one]
        place -= one


@inlined
def move_down(values: Floats | Integers, begin: int, end: int, by: int) -> None:
    """Move the values from a place on some places down, over those that are there."""
    place, last, step, one = np.uint64(begin), np.uint64(end - by), np.uint64(by), np.uint64(1)
    while place < last:
        values[place] = values[place + step]
        place += one
