"""Curves over slots, one a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.plotting._panels import add_legend, group_digits, plain, set_titles
from desim.plotting._slot_runs import SlotRun, slot_axis
from desim.plotting._style import LineStyle, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["Curve", "add_names", "draw_slot_curves", "thin_out"]

Floats = NDArray[np.float64]
Curve = tuple[Floats, Floats]
"""Times in slots, and values."""

#: Points that are drawn of a smooth curve.
MOST_POINTS = 4_000


def thin_out(times: Floats, values: Floats) -> Curve:
    """Return points of a smooth curve at equal distances, the last one included."""
    step = -(-len(times) // MOST_POINTS) or 1
    return times[::-1][::step][::-1], values[::-1][::step][::-1]


def draw_slot_curves(
    axes: Axes,
    runs: Sequence[SlotRun],
    curves: Sequence[Curve],
    span: tuple[float, float],
    *,
    label: str,
    drawn: Literal["default", "steps-post"] = "default",
    colors: Mapping[str, Any] | None = None,
) -> list[Line2D]:
    """Draw a curve for each run on one panel.

    Parameters
    ----------
    axes : Axes
        The panel.
    runs : sequence of SlotRun
        The runs; a style follows the position.
    curves : sequence of (array, array)
        Times in slots and values, run by run.
    span : (float, float)
        The slots that are shown.
    label : str
        Label of the y axis.
    drawn : {"default", "steps-post"}
        How points are joined.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.

    Returns
    -------
    list of Line2D
        The curves.
    """
    styles = line_styles([run.name for run in runs], colors)
    lines = [
        _draw(axes, curve, styles[run.name], drawn, above=position, below=len(runs) - 1 - position)
        for position, (run, curve) in enumerate(zip(runs, curves, strict=True))
    ]
    plain(axes, grid="y")
    axes.set_ylabel(label)
    group_digits(axes.yaxis)
    slot_axis(axes, *span)
    return lines


def _draw(axes: Axes, curve: Curve, style: LineStyle, drawn: Any, *, above: int, below: int) -> Line2D:
    """Draw a curve above some others and below some, wider than those, so that equal curves show all colours."""
    (line,) = axes.plot(
        *curve,
        drawstyle=drawn,
        color=style.color,
        linestyle=style.dashes,
        linewidth=1.3 + min(0.5 * below, 1.5),
        marker="o" if len(curve[0]) == 1 else None,  # a line of one point would not be seen
        clip_on=len(curve[0]) != 1,  # it stands on the edge
        zorder=2.0 + 0.01 * above,
        gid="curve",
    )
    return line


def add_names(panels: list[Axes], runs: Sequence[SlotRun], lines: Sequence[Any], *, own: bool) -> None:
    """Name the runs: one in the title of the first panel, several in a legend."""
    if len(runs) > 1:
        add_legend(panels, lines, [run.title for run in runs], own=own)
    else:
        set_titles(panels[0], runs[0].title, panels[0].get_title("right"))
