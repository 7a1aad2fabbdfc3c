"""Bars of several runs side by side at the places of classes 0, 1, 2, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["class_axis", "place_of"]


def place_of(position: int, count: int, *, share: float) -> tuple[float, float]:
    """Return how far the bars of a run, one of so many, are shifted, and how wide they are.

    Parameters
    ----------
    position : int
        Which of the runs it is.
    count : int
        How many runs there are.
    share : float
        Of the distance of two classes, what is covered with bars.

    Returns
    -------
    float, float
        In distances of classes.
    """
    return 0.8 * ((position + 0.5) / count - 0.5), min(share / count, 0.4)


def class_axis(axes: Axes, names: Sequence[str], **style: Any) -> None:
    """Write the names of classes below their places."""
    axes.set_xticks(range(len(names)), names, **style)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.tick_params(axis="x", length=0)
