"""How far one agent is ahead of another on the same seeds, and words for it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from desim.statistics import Estimate, mean_interval

__all__ = ["lead_percent", "short", "with_interval"]


def lead_percent(ours: ArrayLike, theirs: ArrayLike) -> Estimate:
    """Return the mean, over seeds, of the percentage by which ours is above theirs, and its confidence interval.

    Parameters
    ----------
    ours, theirs : array-like of float, shape (n,)
        The same metric of two agents, seed by seed in the same order.

    Returns
    -------
    Estimate
        Of 100 (ours / theirs - 1). NaN where one of these is not above 0: a ratio of a gain to a loss says nothing.
    """
    numerator, denominator = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if not ((numerator > 0) & (denominator > 0)).all():
        return Estimate(math.nan, math.nan, len(denominator), 0.95)
    return mean_interval(100.0 * (numerator / denominator - 1.0))


def short(value: float | None) -> str:
    """Return a number as it stands in tables.

    Parameters
    ----------
    value : float or None
        Any number.

    Returns
    -------
    str
        Four digits or more; a dash for what is not a number.
    """
    if value is None or not math.isfinite(value):
        return "–"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 4)}f}"


def with_interval(estimate: Estimate | None, digits: int | None = None) -> str:
    """Return a mean with half the width of its interval.

    Parameters
    ----------
    estimate : Estimate or None
        Nothing, or a mean that may not be a number.
    digits : int, optional
        Digits after the point; as many as four significant ones if left out.

    Returns
    -------
    str
        Such as ``"3,105 ± 20"``; a dash for what is not a number.
    """
    if estimate is None or not math.isfinite(estimate.mean):
        return "–"
    mean = short(estimate.mean) if digits is None else f"{estimate.mean:+.{digits}f}"
    if not math.isfinite(estimate.half_width):
        return mean
    width = f"{estimate.half_width:,.2g}" if digits is None else f"{estimate.half_width:.{digits}f}"
    if digits is None and estimate.half_width >= 10:
        width = f"{estimate.half_width:,.0f}"
    return f"{mean} ± {width}"
