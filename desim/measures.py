"""Integrals, maxima and summaries, of which the metrics of a run are made.

Time averages are over quantities that are constant between events. An execution, or a stay in the queue, is a half-open
interval [begin, end) with a weight, in seconds; an observed interval is a pair (begin, end).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["maximum", "mean", "step_integral", "summary", "time_integral"]

Floats = NDArray[np.float64]


def time_integral(begins: Floats, ends: Floats, weights: Floats | float, observed: tuple[float, float]) -> float:
    """Return the integral over an observed interval of the total weight of the intervals that cover each moment.

    Parameters
    ----------
    begins, ends : array of float, shape (n,)
        Begin and end of each interval, in seconds.
    weights : array of float, shape (n,), or float
        Weight of each interval, or of all.
    observed : tuple of float
        Begin and end of the observed interval, in seconds.

    Returns
    -------
    float
        Sum of weight times the length within the observed interval, in units of the weights times seconds.
    """
    lengths = np.clip(ends, *observed)
    lengths -= np.clip(begins, *observed)  # in place, because these arrays may be long
    return float(np.sum(lengths * weights))


def step_integral(times: Floats, values: Floats, initial: float, observed: tuple[float, float]) -> float:
    """Return the integral of a step function over an observed interval.

    Parameters
    ----------
    times : array of float, shape (n,)
        Times at which the function changes, ascending, in seconds.
    values : array of float, shape (n,)
        Value from each change on; if changes coincide, the last one counts.
    initial : float
        Value before the first change.
    observed : tuple of float
        Begin and end of the observed interval, in seconds.

    Returns
    -------
    float
        Integral in units of the values times seconds.
    """
    begin, end = observed
    edges = np.concatenate(([begin], np.clip(times, begin, end), [end]))
    return float(np.sum(np.diff(edges) * np.concatenate(([initial], values))))


def maximum(entries: Floats, exits: Floats, observed: tuple[float, float]) -> float:
    """Return the maximum number present at any moment of an observed interval [begin, end).

    An item that enters and leaves at the same instant is never present.

    Parameters
    ----------
    entries : array of float, shape (n,)
        Times at which items enter, in seconds.
    exits : array of float, shape (m,)
        Times at which items leave, in seconds.
    observed : tuple of float
        Begin and end of the observed interval, in seconds.

    Returns
    -------
    float
        Maximum number present; NaN if the interval is empty.
    """
    begin, end = observed
    if not begin < end:
        return float("nan")
    entries, exits = _ascending(entries), _ascending(exits)
    inside = entries[np.searchsorted(entries, begin) : np.searchsorted(entries, end)]
    moments = np.concatenate(([begin], inside))  # the number increases only at entries
    present = np.searchsorted(entries, moments, "right")
    present -= np.searchsorted(exits, moments, "right")
    return float(present.max())


def _ascending(values: Floats) -> Floats:
    """Return sorted values; most are sorted already, and looking takes less time than sorting."""
    return values if (values[1:] >= values[:-1]).all() else np.sort(values)


def mean(values: Floats) -> float:
    """Return the mean of a sample.

    Parameters
    ----------
    values : array of float, shape (n,)
        Sample.

    Returns
    -------
    float
        Mean; NaN if the sample is empty.
    """
    return float(values.mean()) if len(values) else math.nan


def summary(name: str, values: Floats) -> dict[str, float]:
    """Return mean, median and 95th percentile of a sample.

    Parameters
    ----------
    name : str
        Name of the quantity.
    values : array of float, shape (n,)
        Sample.

    Returns
    -------
    dict of str to float
        ``NAME_mean``, ``NAME_median`` and ``NAME_p95``; NaN if empty. Percentiles are interpolated linearly.
    """
    median, high = np.quantile(values, (0.5, 0.95)) if len(values) else (math.nan, math.nan)
    return {f"{name}_mean": mean(values), f"{name}_median": float(median), f"{name}_p95": float(high)}
