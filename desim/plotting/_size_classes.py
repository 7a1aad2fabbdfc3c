"""Classes of requested amounts, such as cores, with names and with colours that darken with the size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SizeClasses", "size_classes"]

#: More amounts than these share classes.
MOST_CLASSES = 6
#: The classes of many amounts end at powers of the first of these that makes few enough.
BASES = (2.0, 4.0, 10.0, 100.0)
#: Where on the scale of colours the smallest and the largest class stand: one that is seen on white, one below black.
LIGHTEST, DARKEST = 0.2, 0.8


class SizeClasses(NamedTuple):
    """Classes that follow each other.

    Attributes
    ----------
    tops : array, shape (num_classes,)
        The largest amount of each, ascending.
    names : list of str
        What they are called.
    colors : list of colours
        From light to dark.
    """

    tops: NDArray[np.float64]
    names: list[str]
    colors: list[Any]

    def of(self, amounts: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the class of each amount."""
        return np.searchsorted(self.tops, amounts, side="left").astype(np.int64)


def size_classes(amounts: NDArray[np.float64], resource: str) -> SizeClasses:
    """Return a class for each amount that there is, or a few that hold them all.

    Parameters
    ----------
    amounts : array
        What jobs request, above 0.
    resource : str
        Name of what they request.

    Returns
    -------
    SizeClasses
        At most six.
    """
    from desim.plotting._share_colors import share_colors

    values = np.unique(amounts)
    if len(values) <= MOST_CLASSES:
        tops = values
        names = [f"{value:g} {'core' if (value, resource) == (1, 'cores') else resource}" for value in tops.tolist()]
    else:
        tops = _ends(values)
        names = [f"up to {tops[0]:g} {resource}"]
        names += [f"above {low:g} to {high:g}" for low, high in pairwise(tops.tolist())]
    places = np.linspace(LIGHTEST, DARKEST, len(tops)) if len(tops) > 1 else [(LIGHTEST + DARKEST) / 2] * len(tops)
    return SizeClasses(tops, names, [share_colors()(float(place)) for place in places])


def _ends(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return round ends of classes that hold all values, or, where they are too wide apart, some of the values."""
    for base in BASES:
        low, high = (int(np.ceil(np.log(value) / np.log(base) - 1e-12)) for value in (values[0], values[-1]))
        if high - low < MOST_CLASSES:
            return np.asarray(base ** np.arange(low, high + 1, dtype=np.float64))
    return np.unique(np.quantile(values, np.arange(1, MOST_CLASSES + 1) / MOST_CLASSES, method="higher"))
