"""Figures of simulated waits beside those that a log recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from desim.exceptions import InvalidConfiguration
from desim.plotting.axes import add_legend, new_figure, new_panels, plain
from desim.plotting.colors import line_styles
from desim.problems.batch.fidelity import WaitAccuracy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_groups", "draw_waits"]

#: Curves of more waits than this are drawn through this number of quantiles.
_MOST_POINTS = 2_000


def draw_waits(waits: Mapping[str, ArrayLike], *, recorded: str = "recorded", axes: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of waits, for the log and for each agent.

    Parameters
    ----------
    waits : mapping of str to array_like
        Waits in seconds, by name of the curve; nan is omitted.
    recorded : str
        Name of the curve of the log, which is drawn in black.
    axes : Axes, optional
        Axes to draw into (default: a new figure).

    Returns
    -------
    Axes
        Axes with lines of gid ``curve``. The time axis is linear up to one minute and logarithmic above.

    Raises
    ------
    InvalidConfiguration
        If there are no curves.
    """
    if not waits:
        raise InvalidConfiguration("waits: got an empty mapping, expected the waits of at least one agent")
    styles = line_styles([name for name in waits if name != recorded])
    (panel,) = new_panels(axes, 1, height=3.6)
    entries = []
    for name, values in waits.items():
        known = np.asarray(values, dtype=np.float64)
        shares = np.linspace(0.0, 1.0, min(int((~np.isnan(known)).sum()), _MOST_POINTS))
        places = np.quantile(known[~np.isnan(known)], shares)
        look: Any = {"color": "black", "linewidth": 2.2}
        if name != recorded:
            look = {"color": styles[name].color, "linestyle": styles[name].dashes, "linewidth": 1.3}
        entries.append((name, panel.plot(places, 100.0 * shares, gid="curve", **look)[0]))
    panel.set_xscale("symlog", linthresh=60.0)
    _mark_times(panel.xaxis)
    panel.set(xlim=(0.0, None), ylim=(0.0, 102.0), xlabel="wait", ylabel="jobs that waited no longer (%)")
    plain(panel, grid="both")
    add_legend([panel], entries)
    return panel


def _mark_times(axis: Any) -> None:
    marks = {"0": 0, "1 min": 60, "10 min": 600, "1 h": 3_600, "6 h": 21_600, "1 day": 86_400, "1 week": 604_800}
    axis.set_ticks(list(marks.values()), labels=list(marks))
    axis.set_ticks([], minor=True)


def draw_groups(
    found: Mapping[str, Mapping[str, Mapping[str, WaitAccuracy]]],
    *,
    value: Callable[[WaitAccuracy], float] = lambda one: 100.0 * one.near,
    label: str = "near (%)",
) -> list[Axes]:
    """Draw the accuracy of each agent per group of jobs, one panel per grouping.

    Parameters
    ----------
    found : mapping of str to mapping
        Results of `group_nearness` by agent.
    value : callable
        Function that returns the plotted value of a group (default: percentage of near waits).
    label : str
        Axis label of that value.

    Returns
    -------
    list of Axes
        Axes with lines of gid ``curve``, one line per agent.

    Raises
    ------
    InvalidConfiguration
        If there are no agents.
    """
    if not found:
        raise InvalidConfiguration("found: got an empty mapping, expected the groups of at least one agent")
    styles = line_styles(found)
    ways = list(next(iter(found.values())))
    figure = new_figure(9.0, 0.6 + 2.2 * len(ways))
    panels: list[Axes] = figure.subplots(len(ways), 1, squeeze=False).ravel().tolist()
    entries: dict[str, Any] = {}
    for panel, by in zip(panels, ways, strict=True):
        names = list(next(iter(found.values()))[by])
        for agent, groups in found.items():
            look: Any = {"color": styles[agent].color, "linestyle": styles[agent].dashes, "linewidth": 1.3}
            heights = [value(groups[by][name]) for name in names]
            entries[agent] = panel.plot(range(len(names)), heights, gid="curve", marker="o", markersize=3.0, **look)[0]
        panel.set_xticks(range(len(names)), labels=names)
        panel.set(xlabel=by, ylabel=label)
        plain(panel, grid="y")
    add_legend(panels, entries.items())
    return panels
