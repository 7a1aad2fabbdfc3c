"""Waiting times of batch runs by the size of the jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from desim.exceptions import InvalidConfiguration
from desim.plotting._panels import add_legend, given_or_new_panels, panel_pixels, plain, set_titles
from desim.plotting._runs import Run, load_runs
from desim.plotting._side_by_side import class_axis, place_of
from desim.plotting._sizes import check_edges, class_counts, class_names, classify, default_edges, waiting_quantiles
from desim.plotting._style import line_styles
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["waiting_by_size"]

LABELS = {"cores": "cores requested", "core_seconds": "cores requested x run time (core-seconds)"}
#: If waiting times reach so many seconds, the axis is logarithmic from its first mark on, and linear below.
LOGARITHMIC_FROM, FIRST_MARK = 200.0, 10.0
#: Width of a character in the name of a class, in pixels at 100 dots an inch.
NAME_CHARACTER = 7.0


def waiting_by_size(
    results: Result | Mapping[str, Result],
    *,
    size: Literal["cores", "core_seconds"] = "cores",
    edges: Sequence[float] | None = None,
    colors: Mapping[str, Any] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw how long jobs of different sizes waited.

    For each class of size and each run a thin line reaches from the 5th to the 95th percentile of
    the waiting time, a bar from the 25th to the 75th, and a dot is the median. Jobs that have not
    started have no waiting time yet; how many there are stands above the chart.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, side by side in each class.
    size : {"cores", "core_seconds"}
        Cores that a job requests, or these times its actual run time.
    edges : sequence of float, optional
        Lower ends of the classes, and the upper end of the last, which does not belong to it; jobs
        outside are left out. By default classes of cores end at powers of two, and classes of
        core-seconds begin at powers of ten.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        Class i stands at x = i; waiting times are in seconds, whatever the unit of the ticks. The
        number of jobs of a class stands below its name, unless the runs differ in it.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``batch``.
    """
    if size not in LABELS:
        raise InvalidConfiguration(f"size is {size!r}, want 'cores' or 'core_seconds'")
    runs = load_runs(results, ["waiting_time", "run_time"])
    bounds = check_edges(edges) if edges is not None else default_edges([run.jobs for run in runs], size)
    classes = [classify(run.jobs, size, bounds) for run in runs]
    quantiles = [waiting_quantiles(table) for table in classes]
    styles = line_styles([run.name for run in runs], colors)
    (panel,), own = given_or_new_panels(axes, 1, height=3.4)
    bars = []
    for position, (run, table) in enumerate(zip(runs, quantiles, strict=True)):
        shift, width = place_of(position, len(runs), share=0.68)
        bars.append(_draw_run(panel, table, styles[run.name].color, shift, width))
    _waiting_axis(panel, max([0.0, *(longest for table in quantiles for longest in table["p95"])]))
    panel.set_xlabel(LABELS[size])
    _name_classes(panel, class_names(bounds, size), [class_counts(table, len(bounds) - 1) for table in classes])
    plain(panel, grid="y")
    set_titles(panel, runs[0].title if len(runs) == 1 else "", _remark(runs))
    if len(runs) > 1:
        add_legend([panel], bars, [run.title for run in runs], own=own)
    return panel


def _draw_run(axes: Axes, table: pl.DataFrame, color: Any, shift: float, width: float) -> Any:
    """Draw one run's percentiles beside the places of the classes; return the bars."""
    at = table["class"].to_numpy() + shift
    low, high = table["p25"].to_numpy(), table["p75"].to_numpy()
    axes.vlines(at, table["p5"], table["p95"], color=color, linewidth=1.2)
    bars = axes.bar(at, high - low, width, bottom=low, color=color, edgecolor=color, linewidth=0.8, alpha=0.55)
    axes.plot(at, table["p50"], "o", color=color, markeredgecolor="white", markersize=5, zorder=3.0, clip_on=False)
    return bars


def _waiting_axis(axes: Axes, longest: float) -> None:
    """Set up the axis of waiting times, from 0 to ``longest`` seconds."""
    from desim.plotting._time_axis import duration_axis

    axes.set_ylabel("waiting time (s)")
    if longest >= LOGARITHMIC_FROM:
        axes.set_yscale("symlog", linthresh=FIRST_MARK, linscale=0.5)
        axes.set_ylabel("waiting time")
        duration_axis(axes.yaxis, 2.0 * longest)
    axes.set_ylim(0.0, longest * (2.0 if longest >= LOGARITHMIC_FROM else 1.05) or 1.0)


def _name_classes(axes: Axes, names: list[str], counts: list[list[int]]) -> None:
    """Write names and, where all runs have the same, numbers of jobs below the classes."""
    if all(other == counts[0] for other in counts):
        names = [f"{name}\n({count:,})" for name, count in zip(names, counts[0], strict=True)]
        axes.set_xlabel(f"{axes.get_xlabel()}; in brackets the number of jobs")
    room = panel_pixels(axes)[0] / len(names) / NAME_CHARACTER
    crowded = max(len(line) for name in names for line in name.split("\n")) > room
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    class_axis(axes, names, fontsize=8 if crowded else 9, **turned)


def _remark(runs: list[Run]) -> str:
    """Explain the marks and say how many jobs have no waiting time."""
    unstarted = [run.jobs.filter(run.jobs["status"] != "rejected")["waiting_time"].null_count() for run in runs]
    remark = "dot: median, bar: 25th to 75th, line: 5th to 95th percentile"
    if any(unstarted):
        remark += f"; without {' / '.join(f'{count:,}' for count in unstarted)} jobs that have not started"
    return remark
