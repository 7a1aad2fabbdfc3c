"""Intervals that ask for no distribution."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from desim.exceptions import InvalidConfiguration

__all__ = ["Interval", "bootstrap_interval"]


class Interval(NamedTuple):
    """A statistic of a sample and an interval around it, not always in its middle.

    Attributes
    ----------
    value : float
        The statistic of the sample.
    low, high : float
        Ends of the interval.
    level : float
        Confidence level.
    """

    value: float
    low: float
    high: float
    level: float


def bootstrap_interval(
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    statistic: Literal["mean", "median"] = "mean",
    num_resamples: int = 9_999,
    level: float = 0.95,
) -> Interval:
    """Return a statistic of independent values with a bias-corrected and accelerated bootstrap interval.

    It asks for no distribution, which t intervals do for small and skewed samples. Differences of pairs, such as the
    rewards of two agents seed by seed, are values like any other.

    Source: Efron, "Better bootstrap confidence intervals", Journal of the American Statistical Association 82, 1987.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        At least two.
    rng : numpy.random.Generator
        For the resamples.
    statistic : {"mean", "median"}
        Of what.
    num_resamples : int
        How often values are drawn anew.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Interval
        Of no width where all values are the same.

    Raises
    ------
    InvalidConfiguration
        If there are less than two values, one is no number, or an argument is out of range.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or len(sample) < 2 or not np.isfinite(sample).all():
        raise InvalidConfiguration(f"values of shape {sample.shape}: want at least two numbers in one dimension")
    if not 0 < level < 1 or num_resamples < 1:
        raise InvalidConfiguration(f"level is {level!r} and num_resamples {num_resamples!r}: out of range")
    if statistic not in ("mean", "median"):
        raise InvalidConfiguration(f"statistic is {statistic!r}, want 'mean' or 'median'")
    function = np.mean if statistic == "mean" else np.median
    value = float(function(sample))
    if (sample == sample[0]).all():
        return Interval(value, value, value, level)
    from scipy.stats import bootstrap

    found = bootstrap((sample,), function, n_resamples=num_resamples, confidence_level=level, rng=rng)
    return Interval(value, float(found.confidence_interval.low), float(found.confidence_interval.high), level)
