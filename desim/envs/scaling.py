"""How times and amounts become numbers that a network can take, within bounds."""

from __future__ import annotations

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LARGEST", "bounded", "compressed"]

LARGEST = 6.0
"""No compressed number is larger."""

_MOST = 1e9
"""What is larger counts as this: more than 30 years, if it is seconds."""


def compressed(values: ArrayLike) -> NDArray[np.float64]:
    """Return a quarter of the logarithm of 1 + values.

    Parameters
    ----------
    values : array_like
        Times or amounts of at least 0, which may be infinite.

    Returns
    -------
    numpy.ndarray
        Numbers between 0 and 5.2.
    """
    result: NDArray[np.float64] = np.log1p(np.minimum(values, _MOST))
    result *= 0.25
    return result


def bounded(shape: tuple[int, ...], lowest: float = 0.0, highest: float = LARGEST) -> gymnasium.spaces.Box:
    """Return the space of arrays of 32-bit numbers between two bounds.

    Parameters
    ----------
    shape : tuple of int
        Of the arrays.
    lowest, highest : float
        The bounds.

    Returns
    -------
    gymnasium.spaces.Box
        A new space.
    """
    return gymnasium.spaces.Box(lowest, highest, shape, np.float32)
