"""Heat maps of rows over time bins; larger values are darker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.plotting.axes import name_rows
from desim.plotting.colors import share_colors

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

__all__ = ["draw_map", "integrals", "share_scale"]

Floats = NDArray[np.float64]

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
