"""Quantiles, means and ratios without arrays, for metrics that are computed a second time."""

from __future__ import annotations

import math
import statistics


def quantile(values, level):
    """Interpolate between the two values next to a level."""
    if not values:
        return math.nan
    values = sorted(values)
    place = level * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def mean(values):
    """Return the mean of a list that may be empty."""
    return statistics.fmean(values) if values else math.nan


def ratio(part, whole):
    """Divide, unless by nothing."""
    return part / whole if whole > 0 else math.nan
