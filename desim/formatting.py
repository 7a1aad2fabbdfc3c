"""Text formatting of counts, durations and metrics; independent of matplotlib."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from os.path import commonprefix
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from desim.problem import ProblemDescriptor

__all__ = [
    "DURATIONS",
    "MARK",
    "TimeUnit",
    "all_names",
    "compared",
    "distinct",
    "duration_words",
    "format_value",
    "heading",
    "how_many",
    "metric_words",
    "nice_count",
    "nice_duration",
    "selection",
    "shortened",
    "time_unit",
]

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0

#: Readable distances between ticks, from one second to a day, in seconds.
WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)

#: Ticks of a logarithmic axis of durations, in seconds, with their labels.
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

#: Mark of values that do not count unfinished jobs.
MARK = "†"
WORDS = {
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "maximum",
    "jain": "(Jain)",
    "slr": "SLR",
    "num": "number of",
}


def how_many(number: int, word: str) -> str:
    """Return a number with the noun that it counts, in the plural unless it is one."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """Return a text shortened to at most ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def distinct(names: Iterable[str], most: int) -> list[str]:
    """Return names shortened to at most ``most`` characters; what all begin or end with gives way first.

    Parameters
    ----------
    names : iterable of str
        Names.
    most : int
        Largest number of characters.

    Returns
    -------
    list of str
        The names, or their parts with ellipses.

    Examples
    --------
    >>> distinct(["my_policies:easy", "my_policies:fcfs"], 8)
    ['…easy', '…fcfs']
    """
    found = list(names)
    for turn in (1, -1):
        whole = [name[::turn] for name in found]
        common = len(commonprefix(whole)) if len(set(found)) > 1 else 0  # noqa: RUF071  # characters are meant
        if common > 1 and max(map(len, found)) > most:
            found = [f"{name[: common - 1 : -1]}…" if turn < 0 else f"…{name[common:]}" for name in whole]
    return [shortened(name, most) for name in found]


class TimeUnit(NamedTuple):
    """Unit of time: its name on an axis, and its length in seconds."""

    name: str
    seconds: float


def time_unit(span: float) -> TimeUnit:
    """Return the unit in which a span of seconds is a number of one to three digits."""
    if span <= 3 * MINUTE:
        return TimeUnit("s", 1.0)
    if span <= 3 * HOUR:
        return TimeUnit("min", MINUTE)
    return TimeUnit("h", HOUR) if span <= 4 * DAY else TimeUnit("days", DAY)


def nice_duration(width: float) -> float:
    """Return the smallest round duration that is at least ``width``, in seconds.

    Round durations are 1, 2 and 5 times a power of ten of seconds up to 5 s, and of days from one day on, and
    in between the usual fractions of a minute, an hour and a day.

    Parameters
    ----------
    width : float
        Minimum in seconds.
    """
    if 1.0 < width <= DAY:
        return float(next(nice for nice in WIDTHS if nice >= width))
    unit = DAY if width > 1.0 else 1.0
    power = 10.0 ** math.floor(math.log10(width / unit)) * unit
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= width * (1 - 1e-12))


def nice_count(number: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... that is at least ``number``."""
    power: int = 10 ** max(0, math.floor(math.log10(max(number, 1.0))))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= number)


def duration_words(seconds: float) -> str:
    """Return a duration with a suitable unit, such as ``"12 h"``."""
    unit = time_unit(seconds)
    for name, length in (("days", DAY), ("h", HOUR), ("min", MINUTE)):
        if seconds >= length and seconds % length == 0:
            unit = TimeUnit(name, length)
            break
    number = f"{seconds / unit.seconds:.4g}"
    return f"{number} {'day' if unit.name == 'days' and number == '1' else unit.name}"


def format_value(value: float) -> str:
    """Return a value as text with thousands separators and four significant digits."""
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if value == int(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.3e}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def metric_words(name: str) -> str:
    """Return the name of a metric in words, such as ``"waiting time, 95th percentile"``."""
    words = [WORDS.get(word, word) for word in name.split("_")]
    if len(words) > 1 and (words[-1] in ("mean", "median", "maximum") or words[-1].endswith("percentile")):
        words[-2] += ","
    return " ".join(words)


def heading(name: str, kind: ProblemDescriptor) -> str:
    """Return the name of a metric in words, with its unit."""
    unit = kind.metrics[name].unit
    return f"{metric_words(name)} ({unit})" if unit else metric_words(name)


def selection(metrics: Mapping[str, Mapping[str, float]], most: int, kind: ProblemDescriptor) -> list[str]:
    """Return the most important metrics that the runs together have, at most ``most``."""
    known = all_names(metrics.values())
    main = [name for name in kind.metrics.main or kind.metrics.headline if name in known]
    return (main or known)[:most]


def all_names(tables: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names of the metrics of all runs, in the order in which they first appear."""
    return list(dict.fromkeys(name for table in tables for name in table))


def compared(
    name: str, table: Mapping[str, Mapping[str, float]], unfinished: Collection[str], kind: ProblemDescriptor
) -> list[tuple[str, bool]]:
    """Return the values of a metric as texts, with the best ones marked.

    Parameters
    ----------
    name : str
        Name of the metric.
    table : mapping of str to mapping of str to float
        Metrics of each run.
    unfinished : collection of str
        Runs that left jobs unfinished. Their values of metrics that such jobs affect are marked and
        never the best.
    kind : ProblemDescriptor
        Kind of problem.

    Returns
    -------
    list of (str, bool)
        For each run the value as text, and whether it is the best; no value is if all are equal, if the metric
        has no better direction, or if fewer than two values are comparable.
    """
    partial = unfinished if name.startswith(kind.words.of_finished_jobs) else ()
    values = {run: float(metrics.get(name, math.nan)) for run, metrics in table.items()}
    fair = [value for run, value in values.items() if run not in partial and not math.isnan(value)]
    better, best = kind.metrics[name].better, math.nan
    if better is not None and len(set(fair)) > 1:
        best = min(fair) if better == "lower" else max(fair)
    return [
        (format_value(value) + (MARK if run in partial else ""), value == best and run not in partial)
        for run, value in values.items()
    ]
