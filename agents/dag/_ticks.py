"""Times as whole ticks, for a solver that knows only whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["choose_resolution", "in_ticks"]

Floats = NDArray[np.float64]

#: Without a resolution that fits, a long time is divided into this many ticks.
NUM_TICKS = 100_000_000

#: Times that are within this part of a whole number of ticks are one: a rounding error.
TOLERANCE = 1e-9


def choose_resolution(times: Sequence[Floats], given: float | None, long_time: float) -> tuple[float, bool]:
    """Return how long a tick is.

    Parameters
    ----------
    times : sequence of numpy.ndarray
        All times that will be converted, in seconds.
    given : float, optional
        What the user wants, in seconds.
    long_time : float
        In seconds; it is divided if not all times are whole seconds.

    Returns
    -------
    resolution : float
        Seconds of a tick.
    is_exact : bool
        Whether all times are whole ticks.
    """
    if given is not None:
        return given, all(_is_whole(array / given) for array in times)
    if all(_is_whole(array) for array in times):
        return 1.0, True
    return (long_time / NUM_TICKS or 1.0), False


def in_ticks(times: Floats, resolution: float) -> NDArray[np.int64]:
    """Return times as whole ticks, rounded up but for what is only a rounding error.

    Parameters
    ----------
    times : numpy.ndarray
        Seconds.
    resolution : float
        Seconds of a tick.

    Returns
    -------
    numpy.ndarray of int, of the same shape
        Ticks.
    """
    ticks = times / resolution
    return np.where(_close(ticks), np.rint(ticks), np.ceil(ticks)).astype(np.int64)


def _is_whole(ticks: Floats) -> bool:
    return bool(_close(ticks).all())


def _close(ticks: Floats) -> NDArray[np.bool_]:
    close: NDArray[np.bool_] = np.abs(ticks - np.rint(ticks)) <= TOLERANCE * np.maximum(ticks, 1.0)
    return close
