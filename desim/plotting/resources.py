"""How much of each resource of a multi-server cluster is in use over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._panels import add_legend, given_or_new_panels, new_figure, set_titles
from desim.plotting._slot_bins import bin_width_of
from desim.plotting._slot_curves import Curve, draw_slot_curves
from desim.plotting._slot_runs import SlotRun, bin_edges, check_slots, load_slot_runs, slot_span
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["resource_utilization"]

#: Of more slots means over bins are drawn, unless told otherwise, in about so many bins.
MOST_SLOTS, BINS = 150, 100
COLUMNS = 2
#: Height of a line of the legend, in inches.
LEGEND_LINE = 0.19
VERBS = {"allocated": "in use", "reserved": "given away"}


def resource_utilization(
    results: Result | Mapping[str, Result],
    *,
    of: Literal["allocated", "reserved"] = "allocated",
    bin_width: int | Literal["auto"] | None = "auto",
    slots: tuple[int, int] | None = None,
    colors: Mapping[str, Any] | None = None,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Draw which share of each resource of a multi-server cluster is in use over time, one panel a resource.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, on clusters with the same resources.
    of : {"allocated", "reserved"}
        What the jobs hold that run when a slot has begun, or all that the agent has given away, to ports without
        a job too.
    bin_width : int, "auto" or None
        Draw means over bins of so many slots. None draws every slot; ``"auto"`` does so for up to 150 slots.
    slots : (int, int), optional
        Show only the slots from the first to before the second.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : sequence of Axes, optional
        Where to draw, one a resource; by default on a new figure.

    Returns
    -------
    list of Axes
        One a resource, in the order of the graph, in percent of the capacity of all nodes. Slot t reaches from t
        to t + 1; the last value is repeated where its slot ends. There is no curve without capacity.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, the results are not those of ``multiserver``, or the resources differ.
    """
    if of not in VERBS:
        raise InvalidConfiguration(f"of is {of!r}, want 'allocated' or 'reserved'")
    window = check_slots(slots)
    runs = load_slot_runs(results)
    resources = runs[0].resources
    for run in runs:
        if run.resources != resources:
            raise InvalidConfiguration(f"results[{run.name!r}] has the resources {run.resources}, others {resources}")
    span = slot_span(runs, window)
    width = bin_width_of(bin_width, span, most_slots=MOST_SLOTS, bins=BINS)
    panels, own = _panels(axes, len(resources), len(runs))
    for index, (panel, resource) in enumerate(zip(panels, resources, strict=True)):
        curves = [_curve(run, f"{of}_{resource}", index, width, span) for run in runs]
        lines = draw_slot_curves(panel, runs, curves, span, label="", drawn="steps-post", colors=colors)
        panel.set_ylim(0.0, 105.0)
        bottom = index >= len(panels) - COLUMNS or not own
        panel.set_xlabel("slot" if bottom else "")
        panel.set_ylabel(f"{VERBS[of]} (%)" if index % COLUMNS == 0 or not own else "")
        set_titles(panel, resource if len(resource) <= 40 else resource[:39] + "…", _remark(runs, index, width))
    add_legend(panels, lines, [run.title for run in runs], own=own)
    return panels


def _panels(axes: Sequence[Axes] | None, count: int, names: int) -> tuple[list[Axes], bool]:
    """Return a panel for each resource, and whether they are on a figure of our own."""
    if axes is not None:
        return given_or_new_panels(axes, count)
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    figure = new_figure(9.0, 0.6 + 1.6 * rows + LEGEND_LINE * names)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    places: list[Axes] = grid.ravel().tolist()
    for place in places[count:]:
        place.remove()
    for place in places[max(count - columns, 0) : count]:
        place.tick_params(axis="x", labelbottom=True)  # where the panel below is missing
    return places[:count], True


def _curve(run: SlotRun, column: str, resource: int, width: int, span: tuple[float, float]) -> Curve:
    """Return where bins begin and their means, in percent of the capacity; the last mean is repeated at the end."""
    capacity = float(run.result.info["total_capacity"][resource])
    edges = bin_edges(span[0], min(span[1], float(len(run.slots))), width)
    if not len(edges) or not capacity > 0:
        return np.zeros(0), np.zeros(0)
    values: NDArray[np.float64] = run.slots[column].to_numpy()
    sums = np.add.reduceat(values[: int(edges[-1])], edges[:-1].astype(np.int64))
    means = 100.0 * sums / np.diff(edges) / capacity
    return edges, np.append(means, means[-1])


def _remark(runs: list[SlotRun], resource: int, width: int) -> str:
    if not any(run.result.info["total_capacity"][resource] for run in runs):
        return "no node has it"
    return f"means over {width} slots" if width > 1 else ""
