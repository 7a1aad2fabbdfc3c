"""Keeping what a solver prints for its own debugging off the terminal and out of results."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["no_solver_output"]

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
