"""Ctrl-C that waits for a safe moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["SimulationInterrupted", "deferred_interrupts"]


@contextmanager
def deferred_interrupts() -> Iterator[list[int]]:
    """Collect the first SIGINT in the list that is yielded; let the second one through.

    Outside the main thread, or where somebody else already handles SIGINT, nothing is changed.
    """
    caught: list[int] = []
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield caught
        return

    def catch(number: int, frame: FrameType | None) -> None:
        if caught:
            signal.default_int_handler(number, frame)
        caught.append(number)

    signal.signal(signal.SIGINT, catch)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`simulate`; nothing recorded so far is lost.

    Parameters
    ----------
    message : str
        When it happened.
    result : Result
        The records up to the interruption, complete and consistent; also an attribute.
    """

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result
