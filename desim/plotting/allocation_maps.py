"""Maps of what multi-server jobs are given: nodes or ports over slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.plotting._allocation_grid import Grid, allocation_grid
from desim.plotting._panels import add_legend, given_or_new_panels, panel_pixels, set_titles
from desim.plotting._share_colors import share_colors
from desim.plotting._slot_runs import SlotRun, check_slots, load_slot_runs, nice_count, slot_axis, slot_span
from desim.plotting._style import DOWN_COLOR
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["allocation_map"]

#: Maps of fewer rows and columns have lines between their cells.
MOST_LINED = 40
#: Height of the name of a row, in pixels at 100 dots an inch.
NAME_HEIGHT = 15.0


@overload
def allocation_map(
    results: Result,
    resource: str,
    *,
    by: Literal["node", "port"] = ...,
    slots: tuple[int, int] | None = ...,
    axes: Axes | None = ...,
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def allocation_map(
    results: Mapping[str, Result],
    resource: str,
    *,
    by: Literal["node", "port"] = ...,
    slots: tuple[int, int] | None = ...,
    axes: Sequence[Axes] | None = ...,
) -> list[Axes]: ...  # numpydoc ignore=GL08


def allocation_map(
    results: Result | Mapping[str, Result],
    resource: str,
    *,
    by: Literal["node", "port"] = "node",
    slots: tuple[int, int] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw how much of a resource the jobs of a multi-server cluster hold, where and when.

    A row is a node, in the order of the graph, and a column a slot. The darker a cell, the larger the
    share of the node's capacity that jobs hold; white is nothing, and nodes that have nothing of the
    resource are grey. What is reserved at ports without a job does not count. Of many slots or nodes
    a cell shows the mean. If only the allocations of every so many slots were recorded, each is drawn
    until the next.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other with the same colours.
    resource : str
        Name of the resource.
    by : {"node", "port"}
        A row may be a port instead; its colour is then the amount that the jobs of the port hold.
    slots : (int, int), optional
        Show only the slots from the first to before the second.
    axes : Axes or sequence of Axes, optional
        Where to draw, one a run; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Slot t reaches from t to t + 1, row i from i - 0.5 to i + 0.5.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, the results are not those of ``multiserver``, or they do not
        hold the allocations of all jobs.

    Examples
    --------
    >>> import numpy as np
    >>> from desim.agents.multiserver import Fairness
    >>> from desim import simulate
    >>> from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
    >>> graph = BipartiteGraph([[2.0], [1.0]], [[3.0], [4.0]], resources=["cpu"])
    >>> cluster = MultiServerCluster(RewardModel(graph, "log"), np.ones((5, 2), dtype=bool))
    >>> axes = allocation_map(simulate(cluster, Fairness()), "cpu")
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('slot', 'node')
    """
    if by not in ("node", "port"):
        raise InvalidConfiguration(f"by is {by!r}, want 'node' or 'port'")
    window = check_slots(slots)
    runs = load_slot_runs(results)
    span = slot_span(runs, window)
    grids = [allocation_grid(run, resource, by, span) for run in runs]
    height = min(max(0.22 * max(len(grid.names) for grid in grids), 1.6), 4.6 if len(runs) == 1 else 3.4)
    panels, own = given_or_new_panels(axes, len(runs), height=height)
    scale = _scale(grids, by)
    for panel, run, grid in zip(panels, runs, grids, strict=True):
        _draw(panel, grid, scale)
        slot_axis(panel, *span, label=panel is panels[-1] or not own)
        panel.set_ylabel(by)
        set_titles(panel, run.title, _remark(run, grid, by))
        _name_rows(panel, grid.names)
    _add_keys(panels, grids, scale, resource, by, own=own)
    return panels[0] if isinstance(results, Result) else panels


def _scale(grids: list[Grid], by: str) -> Any:
    """Return the colours: percent of a capacity, or amounts up to the largest."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    largest = max(float(np.nanmax(grid.values, initial=0.0)) for grid in grids) or 1.0
    return ScalarMappable(Normalize(0.0, 100.0 if by == "node" else largest), share_colors())


def _draw(axes: Axes, grid: Grid, scale: Any) -> None:
    rows, columns = grid.values.shape
    if rows and columns:
        lined = rows <= MOST_LINED and columns <= MOST_LINED
        axes.pcolormesh(
            grid.edges,
            np.arange(rows + 1) - 0.5,
            np.ma.masked_invalid(grid.values),
            cmap=scale.cmap,
            norm=scale.norm,
            edgecolors="#E4E4E4" if lined else "none",
            linewidth=0.5 if lined else 0.0,
            rasterized=not lined,
            gid="allocations",
        )
    axes.set_ylim(max(rows, 1) - 0.5, -0.5)


def _name_rows(axes: Axes, names: list[str]) -> None:
    """Write the names of as many rows as there is room for."""
    step = nice_count(len(names) * NAME_HEIGHT / panel_pixels(axes)[1])
    labels = [name if len(name) <= 18 else name[:17] + "…" for name in names[::step]]
    axes.set_yticks(range(0, len(names), step), labels, fontsize=8, parse_math=False)
    axes.tick_params(axis="y", length=0 if step == 1 else 2)


def _remark(run: SlotRun, grid: Grid, by: str) -> str:
    """Say what a cell puts together."""
    every = int(run.result.info["record_allocations"])
    together = [f"{grid.width} slots"] * (grid.width > 1) + [f"{grid.together} {by}s"] * (grid.together > 1)
    parts = [f"a cell is the mean of {' and '.join(together)}"] * bool(together)
    return "; ".join([*parts, *[f"allocations of every {every} slots"] * (every > 1)])


def _add_keys(panels: list[Axes], grids: list[Grid], scale: Any, resource: str, by: str, *, own: bool) -> None:
    from matplotlib.patches import Patch

    from desim.plotting._time_axis import color_bar

    name = (resource if len(resource) <= 30 else resource[:29] + "…").replace("$", r"\$")
    if any(np.isnan(grid.values).any() for grid in grids):
        add_legend(panels, [Patch(facecolor=DOWN_COLOR)], [f"nodes without {resource}"], own=own)
    of = "\n(% of the node's)" if by == "node" else "\n(amount per port)"
    color_bar(panels, scale, f"{name} that jobs hold{of}")
