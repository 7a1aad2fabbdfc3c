"""Windows of a log: parts of it that are simulated one by one, and measured without what surrounds them.

A log is a sample of one. Cut into windows, it gives pairs for a comparison: every agent runs on every window. A run on
a window begins with an empty machine, so jobs before the window, the warm-up, and behind it, the cool-down, are
simulated as well, but not measured.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from desim.checks import UNITS, check_float, check_int, short_repr
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.problems.batch.workload import Workload

__all__ = ["Span", "Window", "cut", "part_of", "sampled", "seconds_of", "shifted"]

_SPAN = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*(s|m|h|d|w|jobs?)?")
_SPANS = "a number of seconds, or a text such as 12h, 7d or 2000jobs"


class Span(NamedTuple):
    """Length of a part of a log: a time in seconds, or a number of jobs.

    Attributes
    ----------
    value : float
        Seconds or jobs.
    in_jobs : bool
        Whether jobs are counted.
    """

    value: float
    in_jobs: bool = False

    @classmethod
    def parse(cls, name: str, given: float | str) -> Span:
        """Return a span.

        Parameters
        ----------
        name : str
            Name of the argument, for messages.
        given : float or str
            Seconds, or a number with one of the units s, m, h, d, w and jobs.

        Raises
        ------
        InvalidConfiguration
            If it is of another form.

        Examples
        --------
        >>> Span.parse("split", "7d"), Span.parse("split", "2000jobs")
        (Span(value=604800.0, in_jobs=False), Span(value=2000.0, in_jobs=True))
        """
        if not isinstance(given, str):
            return cls(check_float(name, given, least=0))
        found = _SPAN.fullmatch(given.strip())
        value, unit = (0.0, "") if found is None else (float(found[1]), found[2] or "s")
        in_jobs = unit.startswith("job")
        if found is None or not math.isfinite(value) or (in_jobs and not value.is_integer()):
            raise InvalidConfiguration(f"{name}: got {short_repr(given)}, expected {_SPANS}")
        return cls(value if in_jobs else value * UNITS[unit], in_jobs)


def seconds_of(name: str, given: float | str) -> float:
    """Return a time in seconds, given as a number or as a text such as ``"7d"``; refuse a number of jobs."""
    found = Span.parse(name, given)
    if found.in_jobs:
        raise InvalidConfiguration(f"{name}: got {given!r} without windows, expected a time such as 86400 or 1d")
    return found.value


def sampled(given: str) -> tuple[int, str]:
    """Return how many windows a text such as ``"20x2000jobs"`` asks for, and their length."""
    count, is_given, length = given.partition("x")
    if not is_given or not count.strip().isdecimal() or not int(count):
        raise InvalidConfiguration(f"sample: got {given!r}, expected COUNTxLENGTH, such as 20x2000jobs or 40x7d")
    return int(count), length


class Window(NamedTuple):
    """Place of a window in its log; times are in seconds on the log's clock.

    Attributes
    ----------
    number : int
        Number of the window, from 0, in order of time.
    first : float
        Begin of the warm-up, which is time 0 in a run.
    start, end : float
        The measured interval [start, end).
    last : float
        End of the cool-down: no job that is submitted then or later is simulated.
    """

    number: int
    first: float
    start: float
    end: float
    last: float

    @property
    def observed(self) -> tuple[float, float]:
        """The measured interval on the clock of a run."""
        return self.start - self.first, self.end - self.first


def cut(
    log: Workload,
    length: float | str,
    *,
    sample: int | None = None,
    seed: int = 0,
    warm_up: float | str = 0.0,
    cool_down: float | str = 0.0,
) -> list[Workload]:
    """Return windows of a log, see :meth:`Workload.windows`."""
    size, before, behind = (
        Span.parse(name, given) for name, given in (("length", length), ("warm_up", warm_up), ("cool_down", cool_down))
    )
    if not size.value:
        raise InvalidConfiguration(f"length: got {length!r}, expected a length > 0")
    axis = _Axis(log, size.in_jobs)
    begin = axis.place(axis.moved(axis.begin, before))
    room = axis.place(axis.moved(axis.end, behind, -1)) - begin
    most = max(math.floor(room / size.value), 0)
    if not most:
        raise InvalidConfiguration(
            f"length: got {length} with warm_up {warm_up} and cool_down {cool_down}, but the log has only {len(log):,} "
            f"jobs in {axis.end - axis.begin:,.0f} s; try shorter windows"
        )
    edges = begin + size.value * np.arange(most + 1)
    starts, ends = edges[:-1], edges[1:]  # a window ends exactly where the next one starts
    if sample is not None:
        check_int("sample", sample, least=1)
        apart = size.value if sample <= most else 0.0  # windows overlap only if they do not fit otherwise
        spare = room - size.value - apart * (sample - 1)
        drawn = np.random.default_rng(seed).random(sample) * (spare + size.in_jobs)
        starts = begin + np.sort(np.floor(drawn)) + apart * np.arange(sample)
        ends = starts + size.value
    found: list[Workload] = []
    for start, end in zip(map(axis.time, starts.tolist()), map(axis.time, ends.tolist()), strict=True):
        window = Window(len(found), axis.moved(start, before, -1), start, end, axis.moved(end, behind))
        begins, stops = np.searchsorted(axis.times, window[2:4]).tolist()
        if begins < stops:
            found.append(part_of(log, window))
    return found


def part_of(log: Workload, window: Window) -> Workload:
    """Return the jobs of a window, on the clock of a run."""
    first, last = np.searchsorted(log["submission_time"], (window.first, window.last)).tolist()
    return shifted(log, slice(first, last), window.first).as_window(window)


def shifted(log: Workload, rows: slice, origin: float) -> Workload:
    """Return the jobs of some rows of a log, on a clock that shows 0 at a given time of the log."""
    return log.take(rows).with_columns(submission_time=log["submission_time"][rows] - origin)


class _Axis:
    """Places in a log: times, or rows of jobs. Jobs submitted at the same time are never separated."""

    def __init__(self, log: Workload, in_jobs: bool) -> None:
        if not len(log):
            raise InvalidConfiguration("windows: got a workload without jobs")
        self.times, self.in_jobs = log["submission_time"], in_jobs
        self.begin = float(self.times[0])
        self.end = math.nextafter(float(self.times[-1]), math.inf)  # the last job is submitted before the end

    def time(self, place: float) -> float:
        """Return the time of a place."""
        if not self.in_jobs:
            return place
        return float(self.times[int(place)]) if place < len(self.times) else self.end

    def place(self, time: float) -> float:
        """Return the place of a time."""
        return float(np.searchsorted(self.times, time)) if self.in_jobs else time

    def moved(self, time: float, by: Span, sign: int = 1) -> float:
        """Return the time that is a span later or, with the sign -1, earlier."""
        if not by.in_jobs:
            return time + sign * by.value
        row = max(int(np.searchsorted(self.times, time)) + sign * int(by.value), 0)
        return float(self.times[row]) if row < len(self.times) else self.end
