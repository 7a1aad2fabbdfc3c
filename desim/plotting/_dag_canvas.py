"""The marks of a drawing of a graph: edges, discs, names and numbers, in sizes that fit the room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.plotting._layers import Layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CHARACTER",
    "CRITICAL_COLOR",
    "RING",
    "Room",
    "draw_discs",
    "draw_edges",
    "draw_rings",
    "write_names",
    "write_numbers",
]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CRITICAL_COLOR = "#D55E00"
EDGE_COLOR, OUTLINE = "#9A9A9A", "#404040"
#: Points on a bend of an edge.
BEND = 14
#: The smallest area of a disc in relation to the largest; the smallest and the largest diameter, in points.
SMALLEST, LEAST, LARGEST = 0.06, 2.2, 30.0
#: How much larger than its disc a second ring is, in outlines.
RING = 7.0
#: Width of a character, height of a name and a number, and the smallest diameter around a name, in points.
CHARACTER, TWO_LINES, LEAST_AROUND = 5.2, 21.0, 10.0
#: More edges than these are thinner.
MOST_WIDE = 50
#: Where on an edge, as parts of its first bend, a number may stand.
NUMBER_AT = (0.38, 0.5, 0.3, 0.62)


class Room(NamedTuple):
    """How much room there is, in points.

    Attributes
    ----------
    wide, high : float
        Distance of neighbouring layers, and of neighbours in a layer.
    noted : bool
        Whether nodes have a name above them and a number below.
    """

    wide: float
    high: float
    noted: bool

    @property
    def diameter(self) -> float:
        """Diameter of the largest disc."""
        free = self.high - TWO_LINES if self.noted else 0.72 * self.high
        return max(min(0.45 * self.wide, free, LARGEST), LEAST)

    def diameters(self, sizes: Floats) -> Floats:
        """Return the diameters of discs whose areas are in proportion to sizes."""
        shares = _relative(sizes) if sizes.any() else np.full(len(sizes), 0.5)
        found: Floats = np.maximum(self.diameter * np.sqrt(np.maximum(shares, SMALLEST)), LEAST)
        return found


def _relative(sizes: Floats) -> Floats:
    """Return sizes in relation to the largest; 0 where all are 0."""
    return sizes / (sizes.max(initial=0.0) or 1.0)


def draw_edges(axes: Axes, layout: Layout, sizes: Floats, critical: Mask, room: Room) -> None:
    """Draw edges as bent lines, wide in proportion to sizes, those of the critical path in its colour."""
    from matplotlib.collections import LineCollection

    widest = min(max(0.22 * room.diameter, 0.8), 4.5) * min(1.0, (MOST_WIDE / max(len(sizes), 1)) ** 0.5)
    widths = 0.4 + widest * _relative(sizes)
    opacity = min(max(600.0 / max(len(sizes), 1), 0.3), 1.0)
    for chosen, name, color, alpha in (
        (~critical, "edges", EDGE_COLOR, opacity),
        (critical, "critical edges", CRITICAL_COLOR, 1.0),
    ):
        lines = [_bent(route) for route, wanted in zip(layout.routes, chosen.tolist(), strict=True) if wanted]
        least = 0.0 if name == "edges" else min(0.08 * room.diameter + 0.6, 1.8)
        collection = LineCollection(
            lines,
            linewidths=np.maximum(widths[chosen], least),
            colors=color,
            alpha=alpha,
            capstyle="butt",
            zorder=1.0 if name == "edges" else 1.5,
            gid=name,
        )
        axes.add_collection(collection, autolim=False)


def _bent(route: Floats) -> Floats:
    """Return a smooth line through places, which leaves and enters each layer horizontally."""
    share = np.linspace(0.0, 1.0, BEND)
    smooth = share * share * (3.0 - 2.0 * share)
    starts, steps = route[:-1, None, :], np.diff(route, axis=0)[:, None, :]
    line: Floats = (starts + steps * np.stack([share, smooth], axis=1)).reshape(-1, 2)
    return line


def draw_discs(axes: Axes, places: Floats, diameters: Floats, faces: Any, critical: Mask) -> None:
    """Draw discs of diameters in points, those of the critical path with an outline in its colour."""
    thick = _outline(diameters)
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=diameters**2,
        c=faces,
        edgecolors=[CRITICAL_COLOR if strong else OUTLINE for strong in critical.tolist()],
        linewidths=np.where(critical, 2.2 * thick, thick).tolist(),
        zorder=3.0,
        clip_on=False,
        gid="nodes",
    )


def draw_rings(axes: Axes, places: Floats, diameters: Floats, doubled: Mask) -> None:
    """Draw a second ring around some discs."""
    axes.scatter(
        places[doubled, 0],
        places[doubled, 1],
        s=(diameters[doubled] + RING * _outline(diameters)) ** 2,
        facecolors="none",
        edgecolors="#000000",
        linewidths=_outline(diameters),
        zorder=3.1,
        clip_on=False,
        gid="duplicated",
    )


def _outline(diameters: Floats) -> float:
    """Return the width of outlines."""
    return float(min(max(0.07 * diameters.max(), 0.3), 1.0))


def write_names(axes: Axes, places: Floats, names: Sequence[str], notes: Sequence[str], diameters: Floats) -> None:
    """Write names into discs or, where they do not fit, above them; notes go below.

    Parameters
    ----------
    axes : Axes
        Where.
    places : array of shape (n, 2)
        The centres.
    names, notes : sequence of str
        What to write; empty for nothing.
    diameters : array of shape (n,)
        Of the discs, in points.
    """
    inside = CHARACTER * max(map(len, names), default=0) + 2.0 <= np.median(diameters)
    for place, name, note, diameter in zip(places, names, notes, diameters.tolist(), strict=True):
        common: dict[str, Any] = {"ha": "center", "textcoords": "offset points", "parse_math": False, "zorder": 4.0}
        fits = inside and diameter >= max(CHARACTER * len(name) + 2.0, LEAST_AROUND)
        if name:
            up = 0.0 if fits else diameter / 2 + 1.5
            axes.annotate(name, place, xytext=(0.0, up), va="center" if fits else "bottom", fontsize=7.5, **common)
        if note:
            down = -diameter / 2 - 1.5
            axes.annotate(note, place, xytext=(0.0, down), va="top", fontsize=6.5, color="#555555", **common)


def write_numbers(axes: Axes, layout: Layout, sizes: Floats, colors: Sequence[str], room: Room) -> None:
    """Write sizes above 0 on edges, on a white ground, each where it is farthest from those before and from nodes."""
    scale = np.array([room.wide, room.high])
    taken = layout.places * scale
    for route, size, color in zip(layout.routes, sizes.tolist(), colors, strict=True):
        if not size:
            continue
        line = _bent(route[:2])
        spots = line[[round(at * (BEND - 1)) for at in NUMBER_AT]]
        apart = [np.hypot(*((taken - spot * scale) / (2.0, 1.0)).T).min() for spot in spots]
        near = [index for index, distance in enumerate(apart) if distance >= CHARACTER * 1.7]
        spot = spots[near[0] if near else int(np.argmax(apart))]
        taken = np.vstack([taken, spot * scale])
        axes.annotate(
            f"{size:.3g}",
            tuple(spot),
            ha="center",
            va="center",
            fontsize=6.5,
            color=color,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            parse_math=False,
            zorder=2.0,
        )
