"""Means over bins of slots, and areas that they make up one above the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._slot_runs import nice_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BinWidth", "bin_means", "bin_width_of", "draw_layer", "draw_stack"]

Floats = NDArray[np.float64]
BinWidth = int | Literal["auto"] | None

#: Of more slots means over bins are drawn, unless told otherwise, in about so many bins.
MOST_SLOTS, BINS = 250, 125


def bin_width_of(
    bin_width: BinWidth, span: tuple[float, float], *, most_slots: int = MOST_SLOTS, bins: int = BINS
) -> int:
    """Return how many slots share a bin.

    Parameters
    ----------
    bin_width : int, "auto" or None
        What was asked for; None is every slot.
    span : (float, float)
        The slots that are shown.
    most_slots, bins : int
        Of more slots than this, about so many bins are made.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InvalidConfiguration
        If it is none of these.
    """
    length = span[1] - span[0]
    if bin_width is None:
        return 1
    if bin_width == "auto":
        return nice_count(length / bins) if length > most_slots else 1
    number = isinstance(bin_width, int | float | np.number) and not isinstance(bin_width, bool)
    if not number or bin_width < 1 or not float(bin_width).is_integer():
        raise InvalidConfiguration(f"bin_width is {bin_width!r}, want a whole number of slots, 'auto' or None")
    return int(bin_width)


def bin_means(values: Floats, edges: Floats) -> Floats:
    """Return the means of values by slot over bins: the last axis becomes one of bins.

    Parameters
    ----------
    values : array, shape (..., num_slots)
        Of each slot, from slot 0 on.
    edges : array, shape (num_bins + 1,)
        Where bins begin and end, in slots that there are; fewer than two for no bins.

    Returns
    -------
    array, shape (..., num_bins)
        The means.
    """
    if len(edges) < 2:
        return np.zeros((*values.shape[:-1], 0))
    sums = np.add.reduceat(values[..., : int(edges[-1])], edges[:-1].astype(np.int64), axis=-1)
    means: Floats = sums / np.diff(edges)
    return means


def draw_layer(axes: Axes, edges: Floats, below: Floats, above: Floats, name: str, **style: Any) -> None:
    """Fill the area between two heights, which other code finds by its gid; none if they are the same everywhere.

    Parameters
    ----------
    axes : Axes
        Where.
    edges : array, shape (num_bins + 1,)
        Where bins begin and end, in slots; fewer than two for no bins.
    below, above : array, shape (num_bins,)
        Where it begins and ends.
    name : str
        The gid.
    **style
        How it is filled.
    """
    if (above > below).any():
        axes.stairs(above, edges, baseline=below, fill=True, linewidth=0.0, gid=name, **({"zorder": 2.0} | style))


def draw_stack(
    axes: Axes, edges: Floats, layers: Floats, styles: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> None:
    """Draw layers one above the other.

    Parameters
    ----------
    axes : Axes
        Where.
    edges : array, shape (num_bins + 1,)
        Where bins begin and end, in slots.
    layers : array, shape (num_layers, num_bins)
        How high they are, the lowest first.
    styles : sequence of mapping
        How each is filled.
    names : sequence of str
        Their gids.
    """
    tops = layers.cumsum(axis=0)
    for layer, top, style, name in zip(layers, tops, styles, names, strict=True):
        draw_layer(axes, edges, top - layer, top, name, **style)
