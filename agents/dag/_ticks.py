"""Times as whole ticks, for a solver that knows only whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

__all__ = ["choose_resolution", "in_ticks"]

Floats = NDArray[np.float64]

#: Without a resolution that fits, a long time is divided into this many ticks.
NUM_TICKS = 100_000_000

#: What takes longer than this, and much longer than a schedule need be, is never chosen, however long it takes.
FAR = 2.0**40

#: A schedule of more ticks is too long for a solver that adds numbers of 64 bits.
LONGEST = 2.0**48

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


def in_ticks(times: Floats, resolution: float, long_time: float) -> NDArray[np.int64]:
    """Return times as whole ticks, rounded up but for what is only a rounding error.

    Those that are too long for any schedule are only that: how long they are may be more than the solver can count.

    Parameters
    ----------
    times : numpy.ndarray
        Seconds.
    resolution : float
        Seconds of a tick.
    long_time : float
        Seconds in which all can be done.

    Returns
    -------
    numpy.ndarray of int, of the same shape
        Ticks.

    Raises
    ------
    InvalidConfiguration
        If that are more ticks than the solver can count.
    """
    if not long_time / resolution < LONGEST:
        raise InvalidConfiguration(
            f"the resolution is {resolution!r} s, and a schedule may take {long_time!r} s: "
            "these are more ticks than the solver can count"
        )
    ticks = np.minimum(times / resolution, max(4.0 * long_time / resolution, FAR))
    return np.where(_close(ticks), np.rint(ticks), np.ceil(ticks)).astype(np.int64)


def _is_whole(ticks: Floats) -> bool:
    return bool(_close(ticks).all())


def _close(ticks: Floats) -> NDArray[np.bool_]:
    close: NDArray[np.bool_] = np.abs(ticks - np.rint(ticks)) <= TOLERANCE * np.maximum(ticks, 1.0)
    return close
