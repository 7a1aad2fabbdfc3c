"""What the benchmarks share: traces, timing, tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from desim.problems.batch import Job
from desim.workloads import lublin, swf

__all__ = ["best_and_median", "exponent_of", "print_table", "processor_seconds", "risen", "trace"]

RISE = 0.2
"""By how much an exponent may exceed the recorded one; more fails ``make bench``."""

SWF = Path(__file__).resolve().parents[2] / "shared" / "data" / "swf"
"""Where the traces lie in the project's own workplace; they are not part of the package."""

STAND_INS = {"lublin_256": (10_000, 256, 1.06), "KTH-SP2-1996-2": (28_489, 100, 0.69)}


def trace(name: str) -> tuple[str, list[Job]]:
    """Return a trace by name and what it is: a generated stand-in where the file is absent."""
    path = SWF / f"{name}.swf"
    if path.exists():
        return path.name, swf.read(path).jobs
    num_jobs, num_cores, load = STAND_INS[name]
    return f"generated in place of {path.name}", lublin.generate(num_jobs, num_cores, seed=0, load=load)


def best_and_median(runs: int, *calls: Callable[[], object]) -> list[tuple[float, float]]:
    """Time calls in turn, so that all meet the same disturbances; return best and median seconds of each."""
    seconds: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(runs):
        for call, times in zip(calls, seconds, strict=True):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    return [(min(times), median(times)) for times in seconds]


def processor_seconds(runs: int, *calls: Callable[[], object]) -> list[float]:
    """Time calls in turn, after one that warms up; return the least processor time of each."""
    best = [float("inf")] * len(calls)
    for round_ in range(runs + 1):
        for place, call in enumerate(calls):
            begin = time.process_time()
            call()
            seconds = time.process_time() - begin
            best[place] = min(best[place], seconds) if round_ else best[place]
    return best


def exponent_of(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of a straight line through the logarithms: 1 if the time is linear in the size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def risen(name: str, exponent: float, recorded: float) -> list[str]:
    """Return what is wrong with an exponent: nothing, or that it has risen by more than is allowed."""
    if exponent <= recorded + RISE:
        return []
    return [f"{name}: the exponent is {exponent:.2f}, recorded is {recorded:.2f}; at most {RISE} more is allowed"]


def print_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a head in aligned columns."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(head), *texts]) for column in range(len(head))]
    print(title)
    for row in (list(head), ["-" * width for width in widths], *texts):
        cells = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join(cells))
