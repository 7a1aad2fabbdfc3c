"""Units, tick distances and words for times in seconds; knows nothing of matplotlib."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["DAY", "DURATIONS", "HOUR", "TimeUnit", "duration_words", "nice_width", "time_unit"]

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0

#: Distances between marks that people read easily, below one day, in seconds.
WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200)

#: Marks of a logarithmic axis of durations, in seconds, and their names.
DURATIONS = {
    0.0: "0",
    10.0: "10 s",
    MINUTE: "1 min",
    10 * MINUTE: "10 min",
    HOUR: "1 h",
    10 * HOUR: "10 h",
    4 * DAY: "4 d",
    40 * DAY: "40 d",
    400 * DAY: "400 d",
}


class TimeUnit(NamedTuple):
    """A unit of time.

    Attributes
    ----------
    name : str
        As it stands in an axis label.
    seconds : float
        Its length.
    """

    name: str
    seconds: float


def time_unit(span: float) -> TimeUnit:
    """Return the unit in which a span of seconds gives numbers of one to three digits."""
    if span <= 3 * MINUTE:
        return TimeUnit("s", 1.0)
    if span <= 3 * HOUR:
        return TimeUnit("min", MINUTE)
    if span <= 4 * DAY:
        return TimeUnit("h", HOUR)
    return TimeUnit("days", DAY)


def nice_width(width: float) -> float:
    """Return the smallest round length of time that is at least ``width``, in seconds.

    Round are 1, 2 and 5 times a power of ten of seconds up to 5 s and of days from one day on, and
    in between the usual parts of a minute, an hour and a day.
    """
    if 1.0 < width <= WIDTHS[-1]:
        return float(next(nice for nice in WIDTHS if nice >= width))
    unit = DAY if width > 1.0 else 1.0
    if WIDTHS[-1] < width <= DAY:
        return DAY
    power = 10.0 ** math.floor(math.log10(width / unit))
    for factor in (1, 2, 5):
        if factor * power * unit >= width * (1 - 1e-12):
            return factor * power * unit
    return 10 * power * unit


def duration_words(seconds: float) -> str:
    """Write a duration with the unit that suits it, such as ``"12 h"``."""
    unit = time_unit(seconds)
    for name, length in (("days", DAY), ("h", HOUR), ("min", MINUTE)):
        if seconds >= length and seconds % length == 0:
            unit = TimeUnit(name, length)
            break
    number = f"{seconds / unit.seconds:.4g}"
    return f"{number} {'day' if unit.name == 'days' and number == '1' else unit.name}"
