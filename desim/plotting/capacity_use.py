"""What deferrable jobs hold over time, against the capacity that on-demand jobs leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._boxes import add_boxes, box_edges, box_pixels
from desim.plotting._deferrable_runs import DeferrableRun, load_deferrable_runs
from desim.plotting._deferrable_series import job_boxes, use_by_group
from desim.plotting._panels import add_legend, given_or_new_panels, group_digits, plain, set_titles
from desim.plotting._size_classes import SizeClasses, size_classes
from desim.plotting._slot_bins import BinWidth, bin_means, bin_width_of, draw_layer, draw_stack
from desim.plotting._slot_runs import bin_edges, check_slots, slot_axis, slot_span
from desim.plotting._style import JOB_COLORS, OTHER_COLOR
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["capacity_use"]

Floats = NDArray[np.float64]
Several = list[str] | tuple[str, ...]
By = Literal["size", "job"] | None

VIOLATION: dict[str, Any] = {"facecolor": "#D55E00", "edgecolor": "#7A2E00", "hatch": "////"}
CAPACITY: dict[str, Any] = {"color": "black", "linewidth": 1.4}
ALL_COLOR = "#8CC3E6"
#: Neighbours differ, and none is near the colour of a violation.
NEIGHBOUR_COLORS = tuple(color for color in JOB_COLORS if color != "#EE8866")
#: How far capacities and amounts may differ without being seen.
UNSEEN = 1e-6


@overload
def capacity_use(
    results: Result,
    *,
    by: By = ...,
    resource: str | None = ...,
    bin_width: BinWidth = ...,
    slots: tuple[int, int] | None = ...,
    axes: Axes | None = ...,
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def capacity_use(
    results: Mapping[str, Result],
    *,
    by: By = ...,
    resource: str | Several | None = ...,
    bin_width: BinWidth = ...,
    slots: tuple[int, int] | None = ...,
    axes: Sequence[Axes] | None = ...,
) -> list[Axes]: ...  # numpydoc ignore=GL08


@overload
def capacity_use(
    results: Result,
    *,
    by: By = ...,
    resource: Several,
    bin_width: BinWidth = ...,
    slots: tuple[int, int] | None = ...,
    axes: Sequence[Axes] | None = ...,
) -> list[Axes]: ...  # numpydoc ignore=GL08


def capacity_use(
    results: Result | Mapping[str, Result],
    *,
    by: By = "size",
    resource: str | Several | None = None,
    bin_width: BinWidth = "auto",
    slots: tuple[int, int] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw what deferrable jobs hold, one above the other, and the capacity as a line.

    What is held beyond the capacity, a violation, is hatched in orange. Of many slots means over bins are drawn: the
    hatched area is then the mean violation, at the top of what is held on average, even where that is below the mean
    capacity.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other with the same axes.
    by : {"size", "job"} or None
        What is told apart: sizes of jobs, which are amounts of the first resource, at most six classes of them; single
        jobs, the earliest start at the bottom, in colours that tell neighbours apart; or nothing.
    resource : str or list of str, optional
        The resource that is shown, or several, one panel each; by default the first one of the first run.
    bin_width : int, "auto" or None
        Draw means over bins of so many slots. None draws every slot; ``"auto"`` does so for up to 250 slots.
    slots : (int, int), optional
        Show only the slots from the first to before the second.
    axes : Axes or sequence of Axes, optional
        Where to draw, one a panel; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result and a single resource, otherwise a list: run by run, each with its resources. Slot t reaches
        from t to t + 1. There is what was held once jobs had been started.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, the results are not those of ``deferrable``, or one has no such resource.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> class Eager:
    ...     def act(self, observation):
    ...         return range(len(observation.current))
    >>> jobs = [Job(1, 0.0, 0, 2, 3, 2.0), Job(2, 0.0, 1, 1, 2, 1.0)]
    >>> axes = capacity_use(simulate(DeferrableCluster(jobs, [3, 3, 2], num_slots=4), Eager()))
    >>> axes.get_ylabel(), axes.get_title("right")
    ('cores in use', '80 % of the capacity in use; exceeded in 1 of 4 slots')
    """
    if by not in ("size", "job", None):
        raise InvalidConfiguration(f"by is {by!r}, want 'size', 'job' or None")
    window = check_slots(slots)
    runs = load_deferrable_runs(results)
    names = _names(resource, runs)
    span = slot_span([*runs], window)
    width = bin_width_of(bin_width, span)
    amounts = np.concatenate([run.executions[f"requested_{run.resources[0]}"].to_numpy() for run in runs])
    sizes = size_classes(amounts, runs[0].resources[0]) if by == "size" else None
    several = len(runs) * len(names) > 1
    panels, own = given_or_new_panels(axes, len(runs) * len(names), height=2.1 if several else 3.4)
    grid = [panels[row * len(names) : (row + 1) * len(names)] for row in range(len(runs))]
    for run, row in zip(runs, grid, strict=True):
        for name, panel in zip(names, row, strict=True):
            slot_axis(panel, *span, label=panel is panels[-1] or not own)
            edges = bin_edges(span[0], min(span[1], run.end), width)
            _draw(panel, run, name, edges, by=by, sizes=sizes)
            set_titles(panel, run.title, _remark(run, name, span, width))
    for column in zip(*grid, strict=True):
        _same_heights(column)
    _add_keys(panels, sizes, own=own)
    return panels[0] if isinstance(results, Result) and not isinstance(resource, list | tuple) else panels


def _names(resource: str | Several | None, runs: list[DeferrableRun]) -> list[str]:
    """Return the resources that are shown, or raise unless all runs have them."""
    wanted: list[Any] = list(resource) if isinstance(resource, list | tuple) else [resource]
    names = [runs[0].resources[0] if name is None else name for name in wanted]
    if not names or len(set(map(str, names))) < len(names):
        raise InvalidConfiguration(f"resource is {resource!r}, want one name, or several that differ")
    for run in runs:
        for name in names:
            run.place(name)
    return names


def _draw(axes: Axes, run: DeferrableRun, resource: str, edges: Floats, *, by: By, sizes: SizeClasses | None) -> None:
    """Draw one panel."""
    plain(axes, grid="y")
    axes.set_ylabel(f"{resource} in use")
    group_digits(axes.yaxis)
    if len(edges) < 2:
        return
    used, capacity, violation = (
        bin_means(run.slots[f"{kind}_{resource}"].to_numpy(), edges) for kind in ("used", "capacity", "violation")
    )
    layers = _layers(run, resource, edges, sizes)
    if by == "job":
        _draw_jobs(axes, run, resource, edges, highest=max(used.max(), capacity.max()))
    elif sizes is not None:
        draw_stack(axes, edges, layers, [{"facecolor": color} for color in sizes.colors], sizes.names)
    else:
        draw_stack(axes, edges, layers, [{"facecolor": ALL_COLOR}], ["all jobs"])
    known = layers.sum(axis=0)
    if (used - known > UNSEEN * used.max()).any():  # a run that crashed
        draw_layer(axes, edges, np.minimum(known, used), used, "not recorded", facecolor=OTHER_COLOR)
    draw_layer(axes, edges, used - violation, used, "violation", zorder=2.5, **VIOLATION)
    axes.stairs(capacity, edges, baseline=None, zorder=3.0, gid="capacity", **CAPACITY)


def _layers(run: DeferrableRun, resource: str, edges: Floats, sizes: SizeClasses | None) -> Floats:
    """Return what the jobs of each class hold on average in each bin; without classes, what all hold together."""
    table = run.executions
    if sizes is None:
        group, count = np.zeros(len(table), dtype=np.int64), 1
    else:
        group, count = sizes.of(table[f"requested_{run.resources[0]}"].to_numpy()), len(sizes.tops)
    return bin_means(use_by_group(table, resource, group, count, len(run.slots)), edges)


def _draw_jobs(axes: Axes, run: DeferrableRun, resource: str, edges: Floats, *, highest: float) -> None:
    """Draw every job as rectangles; one that was evicted and started anew keeps its colour."""
    from matplotlib.colors import to_rgba_array

    boxes, owners = job_boxes(run.executions, resource, edges)
    _, first, job = np.unique(run.executions["row"].to_numpy(), return_index=True, return_inverse=True)
    order = first.argsort().argsort()[job]  # neighbours have been started one after the other
    faces = to_rgba_array(list(NEIGHBOUR_COLORS))[order[owners] % len(NEIGHBOUR_COLORS)]
    pixels = box_pixels(axes, boxes, (edges[0], edges[-1]), max(1, round(highest)))
    add_boxes(axes, boxes, "jobs", facecolor=faces, zorder=2.0, always=True, **box_edges(pixels.min(axis=1)))


def _remark(run: DeferrableRun, resource: str, span: tuple[float, float], width: int) -> str:
    """Say how much of the capacity was in use, and how often more than that."""
    shown = run.slots[int(span[0]) : int(span[1])]
    used, capacity = (float(shown[f"{kind}_{resource}"].sum()) for kind in ("used", "capacity"))
    over = int((shown[f"violation_{resource}"] > 0).sum())
    parts = [f"{100.0 * used / capacity:.3g} % of the capacity in use"] if capacity > 0 else []
    parts += [f"exceeded in {over:,} of {len(shown):,} slots"] if over else []
    parts += [f"means over {width} slots"] if width > 1 else []
    return "; ".join(parts)


def _same_heights(panels: Sequence[Axes]) -> None:
    """Show the same range of amounts on all panels of a resource."""
    top = max(panel.dataLim.y1 for panel in panels if panel.patches) if any(panel.patches for panel in panels) else 0.0
    for panel in panels:
        panel.set_ylim(0.0, 1.06 * top or 1.0)


def _add_keys(panels: list[Axes], sizes: SizeClasses | None, *, own: bool) -> None:
    """Explain the line and the colours."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = {str(artist.get_gid()) for panel in panels for artist in panel.patches}
    entries: list[tuple[str, Any]] = [("capacity", Line2D([], [], **CAPACITY))] * ("capacity" in drawn)
    entries += [("all jobs", Patch(facecolor=ALL_COLOR))] * ("all jobs" in drawn)
    if sizes is not None:
        named = zip(sizes.names, sizes.colors, strict=True)
        entries += [(name, Patch(facecolor=color)) for name, color in named if name in drawn]
    entries += [("not recorded", Patch(facecolor=OTHER_COLOR))] * ("not recorded" in drawn)
    entries += [("violation", Patch(linewidth=0.0, **VIOLATION))] * ("violation" in drawn)
    add_legend(panels, [patch for _, patch in entries], [name for name, _ in entries], own=own)
