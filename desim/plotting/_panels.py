"""Figures without pyplot: panels one above the other, titles, legends and colour bars beside the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["add_legend", "given_or_new_panels", "new_figure", "plain", "set_titles"]

DPI = 120


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, which lays itself out and which pyplot does not know."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.06)  # type: ignore[union-attr]
    return figure


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


def set_titles(axes: Axes, title: str, remark: str = "") -> None:
    """Write a title on the left above a panel, and a remark in grey on the right."""
    axes.set_title(_literal(title), loc="left", fontsize=10, fontweight="bold")
    if remark:
        axes.set_title(_literal(remark), loc="right", fontsize=8, color="#555555")


def add_legend(panels: Sequence[Axes], handles: Sequence[Any], labels: Sequence[str], *, own: bool) -> None:
    """Add a legend that covers no data: above all panels of our own figure, or above the caller's first.

    Parameters
    ----------
    panels : sequence of Axes
        The panels.
    handles, labels : sequence
        The entries; without any there is no legend.
    own : bool
        Whether the figure is our own and has a layout that makes room.
    """
    if not handles:
        return
    labels = [_literal(label if len(label) <= 40 else label[:39] + "…") for label in labels]
    options: dict[str, Any] = {"ncols": _legend_columns(labels), "frameon": False, "fontsize": 8}
    figure = panels[0].figure
    if own and figure is not None:
        figure.legend(handles, labels, loc="outside upper right", **options)
    else:
        panels[0].legend(handles, labels, loc="lower right", bbox_to_anchor=(1.0, 1.06), borderaxespad=0.0, **options)


def _legend_columns(labels: Sequence[str], room: int = 125) -> int:
    """Return into how many columns labels can go, side by side on ``room`` characters."""
    lengths = [len(label) + 8 for label in labels]
    for columns in range(len(labels), 1, -1):
        depth = -(-len(labels) // columns)
        if sum(max(lengths[top : top + depth]) for top in range(0, len(labels), depth)) <= room:
            return columns
    return 1


def _literal(text: str) -> str:
    """Keep matplotlib from reading dollar signs as formulas and from hiding a name with a leading "_"."""
    text = text.replace("$", r"\$")
    return " " + text if text.startswith("_") else text
