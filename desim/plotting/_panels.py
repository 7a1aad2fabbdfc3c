"""Figures without pyplot: panels one above the other, titles, legends and colour bars beside the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "add_keys",
    "add_legend",
    "given_or_new_panels",
    "group_digits",
    "how_many",
    "new_figure",
    "panel_pixels",
    "plain",
    "set_titles",
]

DPI = 120
#: Widths of characters in titles, remarks and legends, in pixels at 100 dots an inch.
TITLE_CHARACTER, REMARK_CHARACTER, LEGEND_CHARACTER = 9.0, 6.0, 6.5


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, which lays itself out and which pyplot does not know."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)
    return Figure(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")


def given_or_new_panels(
    axes: Axes | Sequence[Axes] | None, count: int, *, width: float = 9.0, height: float = 3.0
) -> tuple[list[Axes], bool]:
    """Return the panels to draw on, and whether they are on a figure of our own.

    Parameters
    ----------
    axes : Axes, sequence of Axes or None
        What the caller gave; None makes a figure with panels one above the other that share
        their x axis.
    count : int
        How many panels.
    width, height : float
        Width of a new figure, and height of one panel, in inches.

    Returns
    -------
    panels : list of Axes
        As many as ``count``.
    own : bool
        Whether they are new.

    Raises
    ------
    InvalidConfiguration
        If the caller gave another number of them, or something else.
    """
    from matplotlib.axes import Axes

    if axes is None:
        grid = new_figure(width, 0.6 + height * count).subplots(count, 1, sharex=True, squeeze=False)
        return list(grid[:, 0]), True
    try:
        panels: list[Any] = [axes] if isinstance(axes, Axes) else list(axes)
    except TypeError:
        panels = [axes]
    if not all(isinstance(panel, Axes) for panel in panels):
        raise InvalidConfiguration(f"axes is {axes!r}, want matplotlib Axes")
    if len(panels) != count:
        raise InvalidConfiguration(f"axes holds {len(panels)} Axes, want {count}: one a panel")
    return panels, False


def plain(axes: Axes, *, grid: str | None = None) -> None:
    """Take the frame off a panel but for its axes, and draw a faint grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        axes.set_axisbelow(True)
        axes.grid(axis=grid, color="#DDDDDD", linewidth=0.6)  # type: ignore[arg-type]


def panel_pixels(axes: Axes) -> tuple[float, float]:
    """Return about how wide and high a panel will be, in pixels at 100 dots an inch.

    A figure with constrained layout has not given its panels their places yet when they are drawn on.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = axes.figure.figure
    assert figure is not None
    place = axes.get_subplotspec()
    if place is None or not isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        extent = axes.get_window_extent()
        return extent.width / figure.dpi * 100.0, extent.height / figure.dpi * 100.0
    grid = place.get_gridspec()
    width, height = figure.get_size_inches()
    return float(width) * 90.0 / grid.ncols, float(height) * 85.0 / grid.nrows


def group_digits(axis: Axis) -> None:
    """Write the numbers of an axis with commas between groups of three digits."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def how_many(number: int, word: str) -> str:
    """Return a number with the word for what it counts, in the plural unless it is one."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def set_titles(axes: Axes, title: str, remark: str = "") -> None:
    """Write a title on the left above a panel, and a remark in grey on the right, below it if there is no room."""
    width = panel_pixels(axes)[0]
    lines = wrap(remark, max(10, int(width / REMARK_CHARACTER)))
    beside = TITLE_CHARACTER * len(title) + REMARK_CHARACTER * len(remark) <= width
    text = _literal(title) if beside or not title else _literal(title) + "\n" * len(lines)
    axes.set_title(text, loc="left", fontsize=10, fontweight="bold")
    axes.set_title(_literal("\n".join(lines)), loc="right", fontsize=8, color="#555555")


def add_legend(panels: Sequence[Axes], handles: Sequence[Any], labels: Sequence[str], *, own: bool) -> None:
    """Add a legend that covers no data: above all panels of our own figure, or above the caller's first.

    Parameters
    ----------
    panels : sequence of Axes
        The panels, with their titles.
    handles, labels : sequence
        The entries; without any there is no legend.
    own : bool
        Whether the figure is our own and has a layout that makes room.
    """
    from matplotlib.transforms import ScaledTranslation

    figure = panels[0].figure.figure
    if not handles or figure is None:
        return
    labels = [_literal(label if len(label) <= 40 else label[:39] + "…") for label in labels]
    columns = _legend_columns(labels, room=int(panel_pixels(panels[0])[0] / LEGEND_CHARACTER))
    options: dict[str, Any] = {"ncols": columns, "frameon": False, "fontsize": 8}
    if own:
        figure.legend(handles, labels, loc="outside upper right", **options)
        return
    lines = max(
        panels[0].get_title(loc).count("\n") + 1 if panels[0].get_title(loc) else 0 for loc in ("left", "right")
    )
    above = panels[0].transAxes + ScaledTranslation(0.0, (4.0 + 13.0 * lines) / 72.0, figure.dpi_scale_trans)
    options |= {"bbox_to_anchor": (1.0, 1.0), "bbox_transform": above, "borderaxespad": 0.0}
    panels[0].legend(handles, labels, loc="lower right", **options)


def add_keys(
    panels: Sequence[Axes], styles: Mapping[str, Mapping[str, Any]], seen: Sequence[bool], *, own: bool
) -> None:
    """Add a legend of areas.

    Parameters
    ----------
    panels : sequence of Axes
        The panels, with their titles.
    styles : mapping of str to mapping
        How each area is filled, by what it stands for.
    seen : sequence of bool
        Which of them there are.
    own : bool
        As for :func:`add_legend`.
    """
    from matplotlib.patches import Patch

    names = [name for name, there in zip(styles, seen, strict=True) if there]
    add_legend(panels, [Patch(**styles[name]) for name in names], names, own=own)


def _legend_columns(labels: Sequence[str], room: int) -> int:
    """Return into how many columns labels can go, side by side on ``room`` characters."""
    lengths = [len(label) + 8 for label in labels]
    for columns in range(len(labels), 1, -1):
        depth, longer = divmod(len(labels), columns)  # matplotlib gives one more entry to the first few columns
        tops = [column * depth + min(column, longer) for column in range(columns + 1)]
        if sum(max(lengths[top:bottom]) for top, bottom in pairwise(tops)) <= room:
            return columns
    return 1


def _literal(text: str) -> str:
    """Keep matplotlib from reading dollar signs as formulas and from hiding a name with a leading "_"."""
    text = text.replace("$", r"\$")
    return " " + text if text.startswith("_") else text
