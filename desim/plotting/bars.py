"""Rectangles in rows over time, drawn as one collection, with edges and labels where there is room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.plotting.axes import panel_pixels, text_scale
from desim.plotting.colors import DOWN_COLOR, WAITING_COLOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CUT", "DOWN", "WAITING", "add_boxes", "boxes_of", "draw_bars", "label_alike"]

Floats = NDArray[np.float64]

#: Fill style of areas for resources that are down.
DOWN: dict[str, Any] = {"facecolor": "#E8E8E8", "edgecolor": DOWN_COLOR, "hatch": "\\\\\\\\", "linewidth": 0.0}
#: Fill style of areas for executions interrupted by an outage.
CUT: dict[str, Any] = {"facecolor": "none", "edgecolor": "#202020", "hatch": "///", "linewidth": 0.0}
#: Fill style of areas for waiting.
WAITING: dict[str, Any] = {"facecolor": WAITING_COLOR, "edgecolor": "none"}

#: Number of rectangles above which vector files contain pixels, since vectors would be slow to display.
MOST_VECTOR_RECTANGLES = 3_000
#: Edges are drawn if at least half of the rectangles are this large, in pixels at 100 dots per inch, and then
#: around those that are; around smaller ones they would hide the colour.
SMALLEST_WITH_EDGE = 4.0
#: Labels are written if at least this fraction of the rectangles has room for one, up to a maximum number.
SMALLEST_LABELLED_SHARE = 0.05
MOST_LABELS = 400
CHARACTER_WIDTH, LABEL_HEIGHT = 5.6, 9.0
#: Size of labels in points, and its maximum as a fraction of the rectangle's height in pixels at 100 dots per inch.
LABEL_SIZE, SHARE = 7.5, 0.6


def boxes_of(begin: Any, end: Any, rows: Any, half: Any, last: Any = None) -> Floats:
    """Return rectangles as begin, end, lower and upper edge, with shape (n, 4).

    Parameters
    ----------
    begin, end : array_like of shape (n,)
        Start and end on the time axis.
    rows : array_like of shape (n,)
        Rows on the y axis, or the first row of each rectangle.
    half : float or array_like
        Extent below and above the middle of a row.
    last : array_like of shape (n,), optional
        Last row of each rectangle.

    Returns
    -------
    array of shape (n, 4)
        The rectangles.
    """
    first = np.asarray(rows, dtype=np.float64)
    upper = first if last is None else np.asarray(last, dtype=np.float64)
    return np.column_stack([begin, end, first - half, upper + half]).astype(np.float64)


def add_boxes(axes: Axes, boxes: Floats, name: str, **style: Any) -> None:
    """Add rectangles as one collection, identified by its gid; do nothing if there are no rectangles.

    Parameters
    ----------
    axes : Axes
        Panel to draw on.
    boxes : array of shape (n, 4)
        Begin, end, lower and upper edge of each rectangle.
    name : str
        Gid of the collection.
    **style
        Style of the collection.
    """
    from matplotlib.collections import PolyCollection

    if not len(boxes):
        return
    corners = boxes[:, [0, 2, 0, 3, 1, 3, 1, 2]].reshape(-1, 4, 2)
    collection = PolyCollection(corners, **style)  # type: ignore[arg-type]  # an array is much faster than a list
    collection.set_gid(name)
    collection.set_rasterized(len(boxes) > MOST_VECTOR_RECTANGLES)
    axes.add_collection(collection, autolim=False)


def draw_bars(
    axes: Axes,
    boxes: Floats,
    name: str,
    faces: Floats,
    *,
    rows: float,
    texts: Sequence[str] = (),
    framed: NDArray[np.bool_] | None = None,
    alike: bool = False,
) -> None:
    """Draw the coloured rectangles of a chart, with edges and labels where they are large enough.

    Parameters
    ----------
    axes : Axes
        Panel with its x axis set up. Rectangles outside its range are omitted.
    boxes : array of shape (n, 4)
        Begin, end, lower and upper edge of each rectangle.
    name : str
        Gid of the collection.
    faces : array of shape (n, 4)
        Colours of the rectangles.
    rows : float
        Extent of the y axis, in rows.
    texts : sequence of str
        Labels of the rectangles; empty for none.
    framed : array of bool, shape (n,), optional
        Hatched rectangles, whose labels need a background.
    alike : bool
        Whether either all rectangles have edges or none.
    """
    span = axes.get_xlim()
    seen = (boxes[:, 1] >= span[0]) & (boxes[:, 0] <= span[1])
    boxes, faces = boxes[seen], faces[seen]
    width, height = panel_pixels(axes)
    wide = (np.minimum(boxes[:, 1], span[1]) - np.maximum(boxes[:, 0], span[0])) / (span[1] - span[0]) * width
    high = (boxes[:, 3] - boxes[:, 2]) / max(rows, 1.0) * height
    thickness = np.minimum(wide, high)
    if alike and len(thickness):
        thickness = np.full(len(thickness), np.median(thickness))
    edges: dict[str, Any] = {"linewidth": 0.0, "antialiased": False}  # so that rectangles tile without seams
    if len(thickness) and np.median(thickness) >= SMALLEST_WITH_EDGE:
        edges = {"linewidth": np.where(thickness >= SMALLEST_WITH_EDGE, 0.5, 0.0), "edgecolor": "#404040"}
    add_boxes(axes, boxes, name, facecolor=faces, zorder=2.0, **edges)
    if len(texts):
        hatched = np.zeros(len(boxes), dtype=np.bool_) if framed is None else framed[seen]
        shown = [text for text, visible in zip(texts, seen.tolist(), strict=True) if visible]
        _write_labels(axes, boxes, shown, faces, hatched, pixels=np.column_stack([wide, high]))


def _write_labels(
    axes: Axes, boxes: Floats, texts: Sequence[str], faces: Floats, framed: NDArray[np.bool_], *, pixels: Floats
) -> None:
    """Write labels into the rectangles that have room, the largest first, vertically where only that fits."""
    lengths = CHARACTER_WIDTH * np.array([len(text) for text in texts], dtype=np.float64) + 4.0
    wide, high = pixels.T
    upright = (wide < high) & (wide < lengths)
    along, across = np.where(upright, [high, wide], [wide, high])
    fits = (along >= lengths) & (across >= LABEL_HEIGHT)
    if fits.sum() < SMALLEST_LABELLED_SHARE * len(boxes):
        return
    order = np.argsort(-pixels.prod(axis=1), kind="stable")
    begin, end = axes.get_xlim()
    for index in order[fits[order]][:MOST_LABELS].tolist():
        face = faces[index]
        axes.text(
            (max(boxes[index, 0], begin) + min(boxes[index, 1], end)) / 2,
            boxes[index, 2:].mean(),
            texts[index],
            ha="center",
            va="center",
            rotation=90 if upright[index] else 0,
            fontsize=min(LABEL_SIZE, SHARE * across[index]) * text_scale(),
            color="black" if face[:3] @ (0.299, 0.587, 0.114) > 0.5 else "white",
            bbox={"facecolor": face, "edgecolor": "none", "pad": 1.0} if framed[index] else None,
            clip_on=True,
            parse_math=False,
            zorder=3.0,
            gid="label",
        )


def label_alike(panels: Iterable[Axes]) -> None:
    """Remove the labels of rectangles from charts side by side if there are none in one of them that has rectangles."""
    labels = [[text for text in panel.texts if text.get_gid() == "label"] for panel in panels if panel.collections]
    if not all(labels):
        for text in chain.from_iterable(labels):
            text.remove()
