"""Summaries of samples, and names of metrics of which there is one for each resource."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["RESOURCE", "mean", "named_for", "summary"]

RESOURCE = "<resource>"
"""Stands for the name of a resource in the name of a metric."""


def mean(values: NDArray[np.float64]) -> float:
    """Return the mean of a sample.

    Parameters
    ----------
    values : array of float, shape (n,)
        The sample.

    Returns
    -------
    float
        NaN if it is empty.
    """
    return float(values.mean()) if len(values) else math.nan


def summary(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """Return mean, median and 95th percentile of a sample.

    Parameters
    ----------
    name : str
        What was measured.
    values : array of float, shape (n,)
        The sample.

    Returns
    -------
    dict of str to float
        ``NAME_mean``, ``NAME_median`` and ``NAME_p95``, NaN if it is empty. Percentiles are interpolated linearly.
    """
    median, high = np.quantile(values, (0.5, 0.95)) if len(values) else (math.nan, math.nan)
    return {f"{name}_mean": mean(values), f"{name}_median": float(median), f"{name}_p95": float(high)}


def named_for(names: Iterable[str], resources: Sequence[str]) -> list[str]:
    """Put a name for each resource in the place of those that stand for all.

    Parameters
    ----------
    names : iterable of str
        Names of metrics.
    resources : sequence of str
        Names of the resources.

    Returns
    -------
    list of str
        In the same order.
    """
    return [
        name.replace(RESOURCE, resource) for name in names for resource in (resources if RESOURCE in name else ("",))
    ]
