"""Rectangles of Gantt charts: drawn as one collection, with edges and labels where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.plotting._panels import panel_pixels
from desim.plotting._style import DOWN_COLOR, WAITING_COLOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CUT", "DOWN", "WAITING", "add_boxes", "box_edges", "box_pixels", "write_labels"]

Floats = NDArray[np.float64]

DOWN: dict[str, Any] = {"facecolor": "#E8E8E8", "edgecolor": DOWN_COLOR, "hatch": "\\\\\\\\", "linewidth": 0.0}
CUT: dict[str, Any] = {"facecolor": "none", "edgecolor": "#202020", "hatch": "///", "linewidth": 0.0}
WAITING: dict[str, Any] = {"facecolor": WAITING_COLOR, "edgecolor": "none"}

#: More rectangles than these become pixels in vector files, which would be slow to show otherwise.
MOST_VECTOR_RECTANGLES = 3_000
#: Edges are drawn if at least half of the rectangles are this large, in pixels at 100 dots an inch, and then
#: around those that are; around the others they would hide the colour.
SMALLEST_WITH_EDGE = 4.0
#: Labels are written if at least this share of the rectangles has room for one, and at most so many.
SMALLEST_LABELLED_SHARE = 0.05
MOST_LABELS = 400
CHARACTER_WIDTH, LABEL_HEIGHT = 5.6, 9.0
#: Their size in points, in a low rectangle so much of its height in pixels at 100 dots an inch.
LABEL_SIZE, SHARE = 7.5, 0.6


def box_pixels(axes: Axes, boxes: Floats, span: tuple[float, float], rows: int) -> Floats:
    """Return width and height of the visible part of each rectangle, in pixels at 100 dots an inch, shape (n, 2)."""
    width, height = panel_pixels(axes)
    shown = np.minimum(boxes[:, 1], span[1]) - np.maximum(boxes[:, 0], span[0])
    return np.column_stack([shown / (span[1] - span[0]) * width, (boxes[:, 3] - boxes[:, 2]) / rows * height])


def box_edges(thickness: Floats) -> dict[str, Any]:
    """Return how rectangles of such pixels across are framed."""
    if not len(thickness) or np.median(thickness) < SMALLEST_WITH_EDGE:
        return {"linewidth": 0.0, "antialiased": False}  # then whole pixels tile without seams
    return {"linewidth": np.where(thickness >= SMALLEST_WITH_EDGE, 0.5, 0.0), "edgecolor": "#404040"}


def add_boxes(axes: Axes, boxes: Floats, name: str, *, always: bool = False, **style: Any) -> None:
    """Add rectangles as one collection, which other code finds by its gid; none for no rectangles, unless ``always``.

    Parameters
    ----------
    axes : Axes
        Where.
    boxes : array of shape (n, 4)
        Begin, end, lower and upper edge of each.
    name : str
        The gid.
    always : bool
        Add an empty collection, too.
    **style
        Of the collection.
    """
    from matplotlib.collections import PolyCollection

    if not len(boxes) and not always:
        return
    corners = boxes[:, [0, 2, 0, 3, 1, 3, 1, 2]].reshape(-1, 4, 2)
    collection = PolyCollection(corners, **style)  # type: ignore[arg-type]  # an array is much faster than a list
    collection.set_gid(name)
    collection.set_rasterized(len(boxes) > MOST_VECTOR_RECTANGLES)
    axes.add_collection(collection, autolim=False)


def write_labels(
    axes: Axes,
    boxes: Floats,
    texts: Sequence[str],
    pixels: Floats,
    shades: Floats,
    *,
    framed: NDArray[np.bool_],
    fitting: bool,
) -> None:
    """Write texts into rectangles, the largest first, upright where only that fits.

    Parameters
    ----------
    axes : Axes
        Where; its x axis is set.
    boxes : array of shape (n, 4)
        Begin, end, lower and upper edge of each.
    texts : sequence of str
        What they are called.
    pixels : array of shape (n, 2)
        Their sizes, see :func:`box_pixels`.
    shades : array of shape (n, 4)
        Their colours.
    framed : array of bool, shape (n,)
        Those that are hatched, so that a text needs a ground.
    fitting : bool
        Only where they fit.
    """
    lengths = CHARACTER_WIDTH * np.array([len(text) for text in texts], dtype=np.float64) + 4.0
    wide, high = pixels.T
    upright = (wide < high) & (wide < lengths)
    along, across = np.where(upright, [high, wide], [wide, high])
    fits = (along >= lengths) & (across >= LABEL_HEIGHT)
    if fitting and fits.sum() < SMALLEST_LABELLED_SHARE * len(boxes):
        return
    order = np.argsort(-pixels.prod(axis=1), kind="stable")
    order = order[fits[order]][:MOST_LABELS] if fitting else order
    begin, end = axes.get_xlim()
    for index in order.tolist():
        face = shades[index]
        axes.text(
            (max(boxes[index, 0], begin) + min(boxes[index, 1], end)) / 2,
            boxes[index, 2:].mean(),
            texts[index],
            ha="center",
            va="center",
            rotation=90 if upright[index] else 0,
            fontsize=min(LABEL_SIZE, SHARE * across[index]) if fitting else LABEL_SIZE,
            color="black" if face[:3] @ (0.299, 0.587, 0.114) > 0.5 else "white",
            bbox={"facecolor": face, "edgecolor": "none", "pad": 1.0} if framed[index] else None,
            clip_on=True,
            parse_math=False,
            zorder=3.0,
        )
