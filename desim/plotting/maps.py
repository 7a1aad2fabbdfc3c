"""Heat maps of rows over time bins; larger values are darker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.plotting.axes import name_rows
from desim.plotting.colors import share_colors

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

__all__ = ["coverage", "draw_map", "integrals", "share_scale"]

Floats = NDArray[np.float64]

ONE_ROW = np.array([0.0, 1.0])
"""Edges of the rows of a map of one row."""

#: Number of rows and columns below which lines are drawn between cells.
MOST_LINED = 40


def share_scale(largest: float) -> ScalarMappable:
    """Return the colour scale of amounts from 0 to the largest; missing amounts are grey."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(0.0, largest), share_colors())


def integrals(spans: pl.DataFrame, edges: Floats, count: int) -> Floats:
    """Return integrals over time bins of amounts that last for some time.

    Parameters
    ----------
    spans : polars.DataFrame
        Rows with an ``amount`` that holds from ``begin`` to ``end`` in a ``row`` of the map.
    edges : array of shape (num_bins + 1,)
        Edges of the bins.
    count : int
        Number of rows of the map.

    Returns
    -------
    array of shape (count, num_bins)
        The integrals; rounding errors around zero are set to 0.
    """
    bins, last = len(edges) - 1, edges[-1]
    partial, rate = np.zeros((2, count * (bins + 1)))
    row, begin, end, amount = (spans[name].to_numpy() for name in ("row", "begin", "end", "amount"))
    for time, change in ((begin, amount), (end, -amount)):
        at = np.clip(time, edges[0], last)
        bin_of = np.searchsorted(edges, at, side="right") - 1  # the last edge opens a bin that is dropped
        upper = np.append(edges[1:], last)[bin_of]
        cell = row * (bins + 1) + bin_of
        partial += np.bincount(cell, weights=change * (upper - at), minlength=len(partial))
        rate += np.bincount(cell, weights=change, minlength=len(rate))
    before = rate.reshape(count, -1).cumsum(axis=1)[:, :-1]
    before = np.column_stack([np.zeros(count), before[:, :-1]])
    total = partial.reshape(count, -1)[:, :-1] + before * np.diff(edges)
    return np.where(total > 1e-9 * before.max(initial=0.0), total, 0.0)


def coverage(
    begin: Floats,
    end: Floats,
    edges: Floats,
    *,
    first: NDArray[Any] | float = 0.0,
    last: NDArray[Any] | float = 1.0,
    row_edges: Floats = ONE_ROW,
) -> Floats:
    """Return the share of each cell of a map that rectangles cover, in a time that does not depend on their sizes.

    Parameters
    ----------
    begin, end : array of shape (n,)
        Times at which the rectangles begin and end.
    edges : array of shape (num_bins + 1,)
        Edges of the bins; what lies outside is cut off.
    first, last : array of shape (n,) or float
        Positions on the axis of rows at which they begin and end (default: one row).
    row_edges : array of shape (count + 1,)
        Edges of the rows of the map, as positions on the axis of rows.

    Returns
    -------
    array of shape (count, num_bins)
        Shares, above 1 where rectangles overlap; rounding errors around zero are set to 0.
    """
    shape = len(row_edges) + 1, len(edges) + 1
    total = np.zeros(shape[0] * shape[1])
    rows, columns = _steps(first, last, row_edges), _steps(begin, end, edges)
    for row, of_row in rows:  # a rectangle is the product of a step up and a step down on each axis
        for column, of_column in columns:
            total += np.bincount(row * shape[1] + column, of_row * of_column, minlength=len(total))
    shares = total.reshape(shape).cumsum(axis=0).cumsum(axis=1)[:-2, :-2]
    return np.where(shares > 1e-9, shares, 0.0)


def _steps(begin: NDArray[Any] | float, end: NDArray[Any] | float, edges: Floats) -> list[tuple[Any, Any]]:
    """Return the cells and sizes of the steps whose running sum is the share of each cell between begin and end."""
    found: list[tuple[Any, Any]] = []
    for position, sign in ((begin, 1.0), (end, -1.0)):
        place = np.asarray(np.interp(position, edges, np.arange(len(edges))))
        cell = place.astype(np.int64)
        found += [(cell, sign * (cell + 1 - place)), (cell + 1, sign * (place - cell))]
    return found


def draw_map(
    axes: Axes, edges: Floats, values: Floats, scale: ScalarMappable, *, names: Sequence[str], label: str
) -> None:
    """Draw a map whose row i extends from i - 0.5 to i + 0.5, the first at the top.

    Parameters
    ----------
    axes : Axes
        Panel to draw on.
    edges : array of shape (num_bins + 1,)
        Edges of the bins.
    values : array of shape (num_rows, num_bins)
        Values of the cells; NaN is grey.
    scale : ScalarMappable
        Mapping of values to colours.
    names : sequence of str
        Names of the rows.
    label : str
        Label of the rows.
    """
    rows, columns = values.shape
    if rows and columns:
        lined = rows <= MOST_LINED and columns <= MOST_LINED
        axes.pcolormesh(
            edges,
            np.arange(rows + 1) - 0.5,
            np.ma.masked_invalid(values),
            cmap=scale.cmap,
            norm=scale.norm,  # type: ignore[arg-type]  # a Norm is what it takes
            edgecolors="#E4E4E4" if lined else "none",
            linewidth=0.5 if lined else 0.0,
            rasterized=not lined,
            gid="cells",
        )
    name_rows(axes, names, label)
