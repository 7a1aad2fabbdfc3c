"""What the figures and the report know of metrics: headings, units, and whether less is better."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from desim.plotting._presentations import Better, Presentation

__all__ = ["MARK", "MetricName", "all_names", "compared", "format_value", "metric_name", "selection"]

MARK = "†"
WORDS = {
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "maximum",
    "jain": "(Jain)",
    "slr": "SLR",
    "num": "number of",
}


class MetricName(NamedTuple):
    """A metric as people read it.

    Attributes
    ----------
    text : str
        Its name in words.
    unit : str
        Its unit; empty if it is a plain number or unknown.
    better : {"lower", "higher"} or None
        Which values are better, if any.
    """

    text: str
    unit: str
    better: Better | None

    @property
    def heading(self) -> str:
        """Name and unit."""
        return f"{self.text} ({self.unit})" if self.unit else self.text


def metric_name(name: str, presentation: Presentation) -> MetricName:
    """Return what is known of a metric; of one that is unknown, its words alone."""
    unit, better = presentation.kind_of(name)
    words = [WORDS.get(word, word) for word in name.split("_")]
    if words[-1] in ("mean", "median", "maximum") or words[-1].endswith("percentile"):
        words[-2:] = [f"{words[-2]},", words[-1]] if len(words) > 1 else words
    return MetricName(" ".join(words), unit, better)


def selection(metrics: Mapping[str, Mapping[str, float]], most: int, presentation: Presentation) -> list[str]:
    """Return the most important metrics that all runs together have, at most so many."""
    known = all_names(metrics.values())
    main = [name for name in presentation.main if name in known]
    return (main or known)[:most]


def all_names(tables: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the metrics of all runs in the order in which they first appear."""
    return list(dict.fromkeys(name for table in tables for name in table))


def compared(
    name: str,
    table: Mapping[str, Mapping[str, float]],
    unfinished: Collection[str],
    presentation: Presentation,
) -> list[tuple[str, bool]]:
    """Write the values of a metric, and say which are the best.

    Parameters
    ----------
    name : str
        The metric.
    table : mapping of str to mapping of str to float
        The metrics of each run.
    unfinished : collection of str
        Runs that left jobs behind. Their values of a metric that such jobs change are marked and
        never the best.
    presentation : Presentation
        What is known of the problem's metrics.

    Returns
    -------
    list of (str, bool)
        For each run the value in words, and whether it is the best; none is if all are the same, if
        nothing says what is better, or if fewer than two can be compared.
    """
    partial = unfinished if name.startswith(presentation.of_finished_jobs) else ()
    values = {run: float(metrics.get(name, math.nan)) for run, metrics in table.items()}
    fair = [value for run, value in values.items() if run not in partial and not math.isnan(value)]
    better, best = metric_name(name, presentation).better, math.nan
    if better is not None and len(set(fair)) > 1:
        best = min(fair) if better == "lower" else max(fair)
    return [
        (format_value(value) + (MARK if run in partial else ""), value == best and run not in partial)
        for run, value in values.items()
    ]


def format_value(value: float) -> str:
    """Write a value with thousands separated and four digits that count; as people read them."""
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
