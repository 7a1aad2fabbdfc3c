"""Figures without pyplot: panels, titles, legends and colour bars beside the data, and axes of time, slots and names.

Data stay in seconds or slots; tick labels of time axes use the unit that suits the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.formatting import DURATIONS, distinct, nice_count, nice_duration, shortened, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

    from desim.result import Result

__all__ = [
    "Entries",
    "FigureFormat",
    "Style",
    "add_legend",
    "beside",
    "class_axis",
    "color_bar",
    "count_axis",
    "drawn_entries",
    "duration_axis",
    "figure_style",
    "figure_width",
    "group_digits",
    "label_panels",
    "literal",
    "name_rows",
    "new_figure",
    "new_panels",
    "panel_pixels",
    "plain",
    "scale_durations",
    "set_titles",
    "shade_unmeasured",
    "slot_axis",
    "text_scale",
    "time_axis",
]

Entries = Iterable[tuple[str, Any]]
"""Legend entries: names, each with a handle or with the fill style of the area that it explains."""

Style = Literal["screen", "paper", "paper-wide"]
"""Use of a figure: a screen, one column of a paper, or both columns."""

FigureFormat = Literal["png", "svg", "pdf"]
"""File format of a figure."""

DPI = 120
#: Mark of figures created by this package, whose layout makes room for legends.
OWN = "desim"
#: Widths of characters in titles, remarks and legends, in pixels as :func:`panel_pixels` counts them.
TITLE_CHARACTER, REMARK_CHARACTER, LEGEND_CHARACTER = 9.0, 6.0, 6.5
#: Height of the name of a row, and widths of a tick label of a slot axis and of a time axis, in the same pixels.
NAME_HEIGHT, TICK_WIDTH, TIME_WIDTH = 12.0, 60.0, 50.0
MOST_TICKS = 9
#: An axis of durations is logarithmic if these reach the first number of seconds; it is linear up to the second.
LOGARITHMIC_FROM, DURATION_LINEAR = 200.0, 10.0
#: Shares of a figure's width that a panel has beside the label of its rows, and beside a colour bar as well.
BESIDE_LABEL, BESIDE_BAR = 0.9, 0.7
#: Height of a line of text in inches, at a font size of ten points.
LINE = 0.2


class _Size(NamedTuple):
    """Width of figures in inches, which overrides the requested width, and the factor for their heights."""

    width: float
    height_factor: float


#: On a page with two columns, a column is 3.5 inches wide, and the text 7.16 inches.
SIZES: dict[str, _Size | None] = {"screen": None, "paper": _Size(3.5, 0.65), "paper-wide": _Size(7.16, 0.8)}
#: Thinner lines and smaller text, which remains text: fonts are embedded in PDF, and left to the viewer in SVG.
PAPER: dict[str, Any] = {
    "font.size": 8.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}
_SIZE: ContextVar[_Size | None] = ContextVar("size", default=None)


@contextmanager
def figure_style(style: Style) -> Iterator[None]:
    """Draw the figures of this package in a style for papers within the block; save them before it ends.

    Parameters
    ----------
    style : {"screen", "paper", "paper-wide"}
        Style: ``"paper"`` is 3.5 inches wide, one of two columns; ``"paper-wide"`` is 7.16 inches, both columns.

    Yields
    ------
    None
        Nothing; figures are drawn within the block.
    """
    from matplotlib import rc_context

    token = _SIZE.set(SIZES[style])
    parameters: Any = {} if style == "screen" else PAPER
    try:
        with rc_context(parameters):
            yield
    finally:
        _SIZE.reset(token)


def text_scale() -> float:
    """Return the size of text relative to ten points."""
    from matplotlib import rcParams

    return float(rcParams["font.size"]) / 10.0


def figure_width(width: float) -> float:
    """Return the width of a new figure in inches, given that on a screen."""
    size = _SIZE.get()
    return width if size is None else size.width


def new_figure(width: float, height: float, lines: float = 0.0) -> Figure:
    """Return an empty figure of a size in inches, with automatic layout and independent of pyplot.

    Parameters
    ----------
    width, height : float
        Size on a screen, in inches; a style for papers sets the width, and reduces the height.
    lines : float
        Number of lines of text for which there is room besides.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    size = _SIZE.get()
    if size is not None:
        width, height = size.width, height * size.height_factor
    height += lines * LINE * text_scale()
    layout = ConstrainedLayoutEngine(w_pad=0.1 if size is None else 0.05, h_pad=0.06 if size is None else 0.03)
    figure = Figure(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")
    figure.set_gid(OWN)
    return figure


def new_panels(
    axes: Axes | Iterable[Axes] | None, count: int, *, width: float = 9.0, height: float = 3.0, columns: int = 1
) -> list[Axes]:
    """Return the panels to draw on.

    Parameters
    ----------
    axes : Axes, iterable of Axes or None
        Panels given by the caller; None creates a figure with panels that share their axes.
    count : int
        Number of panels.
    width, height : float
        Width of a new figure, and height of one row of panels, in inches.
    columns : int
        Number of panels per row of a new figure.

    Returns
    -------
    list of Axes
        Panels, ``count`` of them.

    Raises
    ------
    InvalidConfiguration
        If the caller gave another number of panels, or something else.
    """
    from matplotlib.axes import Axes

    if axes is None:
        rows = -(-count // columns)
        figure = new_figure(width, 0.6 + height * rows)
        grid = figure.subplots(rows, columns, sharex=True, sharey=columns > 1, squeeze=False).ravel().tolist()
        for missing in grid[count:]:
            missing.remove()
        for above in grid[max(count - columns, 0) : count]:
            above.tick_params(axis="x", labelbottom=True)
        return list(grid[:count])
    panels: list[Any] = list(axes) if isinstance(axes, Iterable) else [axes]
    if not all(isinstance(panel, Axes) for panel in panels):
        raise InvalidConfiguration(f"axes: got {axes!r}, expected matplotlib Axes")
    if len(panels) != count:
        raise InvalidConfiguration(f"axes: got {len(panels)} Axes, expected {count}, one per panel")
    return panels


def _is_own(axes: Axes) -> bool:
    return axes.get_figure(root=True).get_gid() == OWN  # type: ignore[union-attr]


def plain(axes: Axes, *, grid: str | None = None) -> None:
    """Remove the frame of a panel except its axes, and draw a faint grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        axes.set_axisbelow(True)
        axes.grid(axis=grid, color="#DDDDDD", linewidth=0.6)  # type: ignore[arg-type]


def panel_pixels(axes: Axes) -> tuple[float, float]:
    """Return the approximate width and height of a panel, in pixels, of which ten points of text are 14.

    These are pixels at 100 dots per inch; smaller text leaves room for more. A figure with constrained layout positions
    its panels only after they are drawn on.

    Parameters
    ----------
    axes : Axes
        The panel.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = axes.get_figure(root=True)
    assert figure is not None
    place = axes.get_subplotspec()
    if place is None or not isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        extent, scale = axes.get_window_extent(), figure.dpi * text_scale() / 100.0
        return extent.width / scale, extent.height / scale
    grid = place.get_gridspec()
    width, height = figure.get_size_inches() / text_scale()
    return float(width) * 90.0 / grid.ncols, float(height) * 85.0 / grid.nrows


def literal(text: str) -> str:
    """Escape a text so that matplotlib neither reads dollar signs as formulas nor hides a name with a leading "_"."""
    text = text.replace("$", r"\$")
    return " " + text if text.startswith("_") else text


def set_titles(axes: Axes, title: str, remark: str = "", *, has_bar: bool = False) -> None:
    """Write a title at the top left of a panel, and a grey remark at the right, or below if there is no room.

    Parameters
    ----------
    axes : Axes
        Panel.
    title : str
        Title; one that is too long is shortened.
    remark : str
        Remark.
    has_bar : bool
        Whether the panel has a colour bar, which leaves less room.
    """
    width = (BESIDE_BAR if has_bar else BESIDE_LABEL) * panel_pixels(axes)[0]
    title = shortened(title, max(int(width / TITLE_CHARACTER), 8))
    lines = wrap(remark, max(10, int(panel_pixels(axes)[0] / REMARK_CHARACTER)))
    beside = TITLE_CHARACTER * len(title) + REMARK_CHARACTER * len(remark) <= width
    text = literal(title) if beside or not title else literal(title) + "\n" * len(lines)
    axes.set_title(text, loc="left", fontsize="medium", fontweight="bold")
    axes.set_title(literal("\n".join(lines)), loc="right", fontsize="small", color="#555555")


def label_panels(panels: Sequence[Axes]) -> None:
    """Label the x axis only on the lowest panels of a figure of this package."""
    columns = panels[0].get_subplotspec().get_gridspec().ncols if _is_own(panels[0]) else len(panels)  # type: ignore[union-attr]
    for panel in panels[: max(len(panels) - columns, 0)]:
        panel.set_xlabel("")


def add_legend(panels: Sequence[Axes], entries: Entries) -> None:
    """Add a legend that covers no data: above all panels of our own figure, or above the caller's first panel.

    Parameters
    ----------
    panels : sequence of Axes
        Panels with their titles.
    entries : iterable of (str, handle)
        Legend entries; a mapping instead of a handle is the fill style of an area. Without entries there is no legend.
    """
    from matplotlib.patches import Patch
    from matplotlib.transforms import ScaledTranslation

    given = list(entries)
    if not given:
        return
    names = distinct((name for name, _ in given), 40)
    entries = [
        (literal(name), Patch(**handle) if isinstance(handle, Mapping) else handle)
        for name, (_, handle) in zip(names, given, strict=True)
    ]
    first, figure = panels[0], panels[0].get_figure(root=True)
    assert figure is not None
    labels, handles = [name for name, _ in entries], [handle for _, handle in entries]
    columns = _legend_columns(labels, room=int(panel_pixels(first)[0] / LEGEND_CHARACTER))
    options: dict[str, Any] = {"ncols": columns, "frameon": False, "fontsize": "small"}
    if _is_own(first):
        figure.set_figheight(figure.get_figheight() + LINE * text_scale() * -(-len(labels) // columns))
        figure.legend(handles, labels, loc="outside upper right", **options)
        return
    titles = first.get_title("left"), first.get_title("right")
    lines = max(title.count("\n") + 1 if title else 0 for title in titles)
    above = first.transAxes + ScaledTranslation(0.0, (4.0 + 13.0 * lines) / 72.0, figure.dpi_scale_trans)
    options |= {"bbox_to_anchor": (1.0, 1.0), "bbox_transform": above, "borderaxespad": 0.0}
    first.legend(handles, labels, loc="lower right", **options)


def drawn_entries(panels: Sequence[Axes], styles: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the legend entries for what is drawn on panels, that is, for entry names that occur as a gid."""
    drawn = {artist.get_gid() for panel in panels for artist in panel.get_children()}
    return [(name, style) for name, style in styles.items() if name in drawn]


def _legend_columns(labels: Sequence[str], room: int) -> int:
    """Return the number of columns for labels, given ``room`` in characters."""
    lengths = [len(label) + 8 for label in labels]
    for columns in range(len(labels), 1, -1):
        depth, longer = divmod(len(labels), columns)  # matplotlib puts the remaining entries into the first columns
        tops = [column * depth + min(column, longer) for column in range(columns + 1)]
        if sum(max(lengths[top:bottom]) for top, bottom in pairwise(tops)) <= room:
            return columns
    return 1


def group_digits(axis: Axis) -> None:
    """Format the numbers of an axis with commas between groups of three digits."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def count_axis(axis: Axis, most: int = 6) -> None:
    """Put at most ``most`` ticks at integers on an axis."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, integer=True, steps=[1, 2, 5, 10]))
    group_digits(axis)


def slot_axis(axes: Axes, begin: float, end: float) -> None:
    """Set up the x axis for slots from begin to end; slot t lasts from t to t + 1."""
    axes.set_xlim(begin, end)
    count_axis(axes.xaxis, max(2, min(10, int(panel_pixels(axes)[0] / TICK_WIDTH))))
    axes.set_xlabel("slot")


def time_axis(axes: Axes, begin: float, end: float) -> None:
    """Set up the x axis for times from begin to end, in seconds."""
    axes.set_xlim(begin, end)
    axes.set_xlabel(f"time ({_mark_time(axes.xaxis, end - begin)})")


def shade_unmeasured(panels: Sequence[Axes], runs: Iterable[Result]) -> list[tuple[str, Any]]:
    """Shade what is simulated, but not measured, on time axes; return the legend entry.

    Parameters
    ----------
    panels : sequence of Axes
        Panels whose time axes are set up.
    runs : iterable of Result
        Runs of the panels: one for each, or several of the same window for a single panel.

    Returns
    -------
    list of (str, dict)
        Entry of the legend; empty if the panels show no warm-up or cool-down of a window.
    """
    look: Any = {"facecolor": "#808080", "alpha": 0.22, "linewidth": 0.0}
    found = []
    for panel, run in dict.fromkeys((panels[min(place, len(panels) - 1)], run) for place, run in enumerate(runs)):
        low, high = panel.get_xlim()
        begin, end = run.measured_span or (low, high)
        if all(part.get_gid() != "unmeasured" for part in panel.patches):
            sides = [(low, min(begin, high)), (max(end, low), high)]
            found += [panel.axvspan(*side, zorder=2.6, gid="unmeasured", **look) for side in sides if side[0] < side[1]]
    return [("warm-up, cool-down (not measured)", look)] if found else []


def _mark_time(axis: Any, span: float) -> str:
    """Put ticks at round times on an axis or colour bar with a span in seconds; return their unit."""
    from matplotlib.ticker import FuncFormatter

    unit = time_unit(span)
    axis.set_major_locator(_time_locator(unit.seconds))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.seconds:.10g}"))
    return unit.name


def _time_locator(unit: float) -> Locator:
    """Return a locator of round times that also works after zooming; ticks closer than half a unit are decimals."""
    from matplotlib.ticker import Locator

    class TimeLocator(Locator):
        def __call__(self) -> Sequence[float]:
            low, high = self.axis.get_view_interval()  # type: ignore[union-attr]
            return self.tick_values(float(low), float(high))

        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            low, high = sorted((vmin, vmax))
            if not high > low:
                return [low]
            room = panel_pixels(self.axis.axes)[0] / TIME_WIDTH if self.axis.axis_name == "x" else MOST_TICKS  # type: ignore[union-attr]
            width = (high - low) / max(min(MOST_TICKS, int(room)), 1)
            width = nice_duration(width) if width > unit / 2 else nice_duration(width / unit) * unit
            first, last = np.ceil(low / width - 1e-9), np.floor(high / width + 1e-9)
            return [float(tick) for tick in np.arange(first, last + 1) * width + 0.0]

    return TimeLocator()


def duration_axis(axis: Any, longest: float) -> None:
    """Set up a logarithmic axis or colour bar for durations from 0 to ``longest`` seconds, with units in the labels."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator([mark for mark in DURATIONS if mark <= longest]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: DURATIONS.get(float(value), f"{value:g} s")))
    axis.set_minor_locator(NullLocator())


def scale_durations(axes: Axes, which: Literal["x", "y"], longest: float) -> bool:
    """Make an axis of durations linear to 10 s and then logarithmic if they are long; return whether they are."""
    if longest < LOGARITHMIC_FROM:
        return False
    getattr(axes, f"set_{which}scale")("symlog", linthresh=DURATION_LINEAR, linscale=0.5)
    duration_axis(getattr(axes, f"{which}axis"), longest)
    return True


def color_bar(panels: Sequence[Axes], scale: ScalarMappable, label: str, *, times: bool = False) -> Axis:
    """Add a colour bar on the right of panels, and return its axis.

    Parameters
    ----------
    panels : sequence of Axes
        Panels beside which the bar is drawn.
    scale : ScalarMappable
        Mapping of values to colours.
    label : str
        Label of the values.
    times : bool
        Whether the values are seconds, so that tick labels get units.

    Returns
    -------
    Axis
        Axis along the bar.
    """
    from matplotlib.colors import LogNorm, SymLogNorm
    from matplotlib.ticker import FuncFormatter, NullLocator

    where: Any = panels[0] if len(panels) == 1 else list(panels)
    bar = panels[0].figure.colorbar(scale, ax=where, label=label, pad=0.015, aspect=30, fraction=0.05)
    low, high = scale.get_clim()
    assert low is not None and high is not None
    axis = bar.ax.yaxis
    if isinstance(scale.norm, SymLogNorm):
        duration_axis(axis, high)
    elif times:
        bar.set_label(f"{label} ({_mark_time(axis, high - low)})")
    elif isinstance(scale.norm, LogNorm):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    return axis


def name_rows(axes: Axes, names: Sequence[str], label: str) -> None:
    """Set up the y axis for rows 0, 1, ..., the first at the top, and label the rows for which there is room."""
    step = nice_count(len(names) * NAME_HEIGHT / panel_pixels(axes)[1])
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    shown = [shortened(name, 24) for name in names[::step]]
    axes.set_yticks(range(0, len(names), step), shown, fontsize="small", parse_math=False)
    axes.tick_params(axis="y", length=0 if step == 1 else 2)
    axes.set_ylabel(label)


def class_axis(axes: Axes, names: Sequence[str], **style: Any) -> None:
    """Write the names of classes 0, 1, ... below their positions on the x axis."""
    axes.set_xticks(range(len(names)), names, **style)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.tick_params(axis="x", length=0)


def beside(position: int, count: int, *, share: float) -> tuple[float, float]:
    """Return the shift and width of the bars of one of several runs, which stand side by side at each class."""
    return 0.8 * ((position + 0.5) / count - 0.5), min(share / count, 0.4)
