"""Metrics of several runs as bars."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from desim.exceptions import InvalidConfiguration
from desim.plotting._metric_names import MetricName, all_names, compared, metric_name, selection
from desim.plotting._panels import new_figure, plain
from desim.plotting._presentations import Presentation, presentation_of
from desim.plotting._style import line_styles
from desim.problem import kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["compare_metrics", "metric_bars"]

COLUMNS = 3


def compare_metrics(
    table: Mapping[str, Mapping[str, float]],
    *,
    metrics: Sequence[str] | None = None,
    unfinished: Collection[str] = (),
    colors: Mapping[str, Any] | None = None,
    problem: str = "batch",
) -> list[Axes]:
    """Draw metrics of several runs as bars, one small panel a metric.

    Parameters
    ----------
    table : mapping of str to mapping of str to float
        Runs by name, each with its metrics by name, as :meth:`desim.Result.metrics` returns them.
    metrics : sequence of str, optional
        Which metrics, in which order; by default up to six that matter most.
    unfinished : collection of str
        Runs that left jobs behind: queued, running or lost. Their waiting times, slowdowns and the like are
        marked with a dagger and are never the best, for they say nothing of those jobs.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    problem : str
        Which problem's metrics these are: units, directions and which matter most depend on it.

    Returns
    -------
    list of Axes
        One a metric, on a new figure. The best value is in bold where it is known whether lower or
        higher is better; a metric that a run does not have, or that is NaN, has no bar.

    Raises
    ------
    InvalidConfiguration
        If there is no run, or no run has one of the metrics.
    """
    return metric_bars(table, presentation_of(kind_of(problem)), metrics=metrics, unfinished=unfinished, colors=colors)


def metric_bars(
    table: Mapping[str, Mapping[str, float]],
    presentation: Presentation,
    *,
    metrics: Sequence[str] | None = None,
    unfinished: Collection[str] = (),
    colors: Mapping[str, Any] | None = None,
) -> list[Axes]:
    """Draw what :func:`compare_metrics` draws of a problem of which this is known.

    Parameters
    ----------
    table : mapping of str to mapping of str to float
        Runs by name, each with its metrics.
    presentation : Presentation
        What is known of the metrics.
    metrics : sequence of str, optional
        Which metrics; by default up to six that matter most.
    unfinished : collection of str
        Runs that left jobs behind.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.

    Returns
    -------
    list of Axes
        One a metric.

    Raises
    ------
    InvalidConfiguration
        If there is no run, or no run has one of the metrics.
    """
    if not table:
        raise InvalidConfiguration("table is empty, want the metrics of at least one run")
    names = list(metrics) if metrics is not None else selection(table, 6, presentation)
    unknown = sorted(set(names) - set(all_names(table.values())))
    if unknown or not names:
        raise InvalidConfiguration(f"metrics is {names!r}, of which no run has {', '.join(unknown) or 'any'}")
    rows, columns = -(-len(names) // COLUMNS), min(len(names), COLUMNS)
    figure = new_figure(9.0, rows * (0.65 + 0.26 * len(table)))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel().tolist()
    styles = line_styles(table, colors)
    for axes, name in zip(grid, names, strict=False):
        values = [float(run.get(name, math.nan)) for run in table.values()]
        words = compared(name, table, unfinished, presentation)
        _draw_metric(axes, metric_name(name, presentation), values, words, [styles[run].color for run in table])
    for axes in grid[len(names) :]:
        axes.remove()
    labels = [run if len(run) <= 30 else run[:29] + "…" for run in table]
    for axes in grid[: len(names) : COLUMNS]:
        axes.set_yticks(range(len(labels)), labels, fontsize=9, parse_math=False)
    grid[0].invert_yaxis()
    return list(grid[: len(names)])


def _draw_metric(
    axes: Axes, name: MetricName, values: list[float], words: list[tuple[str, bool]], colors: list[Any]
) -> None:
    lengths = [value if math.isfinite(value) else 0.0 for value in values]
    axes.barh(range(len(values)), lengths, height=0.7, color=colors)
    plain(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="both", length=0)
    axes.set_xticks([])
    low, high = min(0.0, *lengths), max(0.0, *lengths)
    room = (high - low) or 1.0
    axes.set_xlim(low, high + 0.35 * room)
    for row, (length, (text, best)) in enumerate(zip(lengths, words, strict=True)):
        weight = "bold" if best else "normal"
        axes.text(max(length, 0.0) + 0.02 * room, row, text, va="center", fontsize=8, fontweight=weight)
    direction = f"{name.better} is better" if name.better else ""
    axes.set_title(f"{name.heading}\n{direction}", loc="left", fontsize=8, parse_math=False)
