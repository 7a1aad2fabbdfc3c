"""Tasks for other processes: well-behaved and not."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from desim.exceptions import WorkloadError


class Awkward(Exception):
    """An exception that cannot be pickled."""

    def __init__(self, number: int, lock: Any) -> None:
        super().__init__(f"{number} is awkward")
        self.lock = lock


def square(number: int) -> int:
    """Misbehave for some numbers below 0, square all others."""
    if number == -1:
        raise WorkloadError("line 7 is empty")
    if number == -2:
        raise Awkward(number, threading.Lock())
    if number == -3:
        sys.exit("no more")
    if number == -4:
        raise KeyboardInterrupt
    if number == -5:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == -6:
        os._exit(7)
    return number * number


def unpicklable(number: int) -> Any:
    return threading.Lock() if number == 1 else number


class Step(NamedTuple):
    """A task that notes when it begins and ends, and may die the first time or every time."""

    number: int
    trace: Path
    seconds: float = 0.05
    deaths: int = 0


def note(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(f"{text}\n")


def noted(step: Step) -> int:
    note(step.trace, f"begin {step.number}")
    time.sleep(step.seconds)
    if step.trace.read_text().count(f"begin {step.number}\n") <= step.deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    note(step.trace, f"end {step.number}")
    return step.number


def environment(name: str) -> str | None:
    return os.environ.get(name)


def meeting(place: Path) -> int:
    """Return which process this is, when there are two in a place."""
    (place / str(os.getpid())).touch()
    while len(list(place.iterdir())) < 2:
        time.sleep(0.01)
    return os.getpid()


def process(_: int) -> int:
    return os.getpid()


def lingering(pipe: Path) -> None:
    """Write a line to a named pipe, and keep it open for ever."""
    with pipe.open("w") as file:
        print("here", file=file, flush=True)
        while True:
            time.sleep(3_600)


def imported(name: str) -> str:
    return str(__import__(name).VALUE)
