"""Time averages and maxima of quantities that are constant between events.

An execution, or a stay in the queue, is a half-open interval [begin, end) with a weight. All times are
in seconds, and an observed interval is a pair (begin, end).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["area", "maximum", "step_area"]

Floats = NDArray[np.float64]


def area(begins: Floats, ends: Floats, weights: Floats | float, observed: tuple[float, float]) -> float:
    """Return the integral over an observed interval of the weights of the intervals that cover a moment.

    Parameters
    ----------
    begins, ends : array of float, shape (n,)
        The intervals.
    weights : array of float, shape (n,), or float
        The weight of each interval, or of all.
    observed : tuple of float
        Begin and end of the integration.

    Returns
    -------
    float
        Sum of weight times the length that lies within the observed interval, in seconds.
    """
    lengths = np.clip(ends, *observed) - np.clip(begins, *observed)
    return float(np.sum(lengths * weights))


def step_area(times: Floats, values: Floats, initial: float, observed: tuple[float, float]) -> float:
    """Return the integral of a step function over an observed interval.

    Parameters
    ----------
    times : array of float, shape (n,)
        When the function changes, ascending.
    values : array of float, shape (n,)
        Its value from each change on; the last one counts where changes coincide.
    initial : float
        Its value before the first change.
    observed : tuple of float
        Begin and end of the integration.

    Returns
    -------
    float
        The integral, in units of the values times seconds.
    """
    begin, end = observed
    edges = np.concatenate(([begin], np.clip(times, begin, end), [end]))
    return float(np.sum(np.diff(edges) * np.concatenate(([initial], values))))


def maximum(entries: Floats, exits: Floats, observed: tuple[float, float]) -> float:
    """Return the largest number present at any moment of an observed interval [begin, end).

    Whoever enters and leaves at the same instant is never present.

    Parameters
    ----------
    entries : array of float, shape (n,)
        When somebody enters.
    exits : array of float, shape (m,)
        When somebody leaves.
    observed : tuple of float
        Begin and end of the interval.

    Returns
    -------
    float
        The largest number present, NaN if the interval is empty.
    """
    begin, end = observed
    if not begin < end:
        return float("nan")
    entries, exits = np.sort(entries), np.sort(exits)
    inside = entries[np.searchsorted(entries, begin) : np.searchsorted(entries, end)]
    moments = np.concatenate(([begin], inside))  # the number grows at entries only
    present = np.searchsorted(entries, moments, "right") - np.searchsorted(exits, moments, "right")
    return float(present.max())
