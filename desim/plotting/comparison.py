"""Comparison figures of agents: metrics with intervals, ranks, profiles, distributions, and means over time with bands.

They take plain values, so that every problem, and data from elsewhere, can be drawn. Points, not bars, show values:
they need no zero, so an axis may be logarithmic without making small values look large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.formatting import (
    all_names,
    compared,
    distinct,
    heading,
    how_many,
    metric_words,
    nice_count,
    nice_duration,
    selection,
    shortened,
)
from desim.plotting.axes import (
    DURATION_LINEAR,
    add_legend,
    figure_width,
    group_digits,
    label_panels,
    new_figure,
    new_panels,
    panel_pixels,
    plain,
    scale_durations,
    slot_axis,
    text_scale,
    time_axis,
)
from desim.plotting.colors import LineStyle, line_styles
from desim.plotting.runs import load_runs
from desim.plotting.views import averages
from desim.problem import ProblemDescriptor, kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.plotting.views import Curve
    from desim.result import Result
    from desim.statistics import PerformanceProfile, Ranking
    from desim.sweep.comparison import Comparison

__all__ = [
    "compare_metrics",
    "comparison_figures",
    "critical_differences",
    "decision_time_cdf",
    "distributions",
    "figures_of",
    "mean_curves",
    "metric_lines",
    "performance_profiles",
]

Floats = NDArray[np.float64]
Samples = Mapping[float, ArrayLike]

#: Width of a figure in inches from which it has the first number of panels in a row, and otherwise the second.
WIDE, COLUMNS = 6.0, (3, 2)
#: Widths of characters and of tick labels, and room beside texts, in pixels as :func:`panel_pixels` counts them.
CHARACTER, TITLE_CHARACTER, TICK, GAP = 6.5, 7.2, 60.0, 12.0
#: Longest name of an agent in characters.
LONGEST_NAME = 26
#: What keeps a unit in the line of the word before it.
NO_BREAK = "\u00a0("
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Number of points above which a line has no markers.
MOST_MARKED = 25
#: Number of bins of a mean over time.
BINS = 60
BOUND_COLOR = "#555555"
#: Ratio of a value to the median of the others above which the axis is logarithmic.
SQUASHING = 20.0
#: Largest ratio on a linear axis; larger ones make the axis logarithmic.
LARGEST_LINEAR = 5.0
#: Percentile of the decision times that is marked.
PERCENTILE = 98.0
#: Number of metrics that a figure shows at most, unless they are named.
PANELS = 6
#: Number of quantiles that a curve of more decisions is drawn through.
MOST_POINTS = 2_000


def compare_metrics(
    table: Mapping[str, Mapping[str, float]],
    *,
    problem: str | ProblemDescriptor = "batch",
    metrics: Sequence[str] | None = None,
    unfinished: Collection[str] = (),
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
) -> list[Axes]:
    """Draw metrics of several runs as dots with intervals, one small panel per metric.

    Parameters
    ----------
    table : mapping of str to mapping of str to float
        Metrics by name, as :meth:`desim.Result.metrics` returns them, for each run by name.
    problem : str or ProblemDescriptor
        Problem of the metrics, which determines units, directions and the most important metrics.
    metrics : sequence of str, optional
        Metrics to draw, in this order; default: up to six most important ones.
    unfinished : collection of str
        Runs that left jobs queued, running or lost. Their waiting times, slowdowns and similar metrics are marked with
        a dagger and are never the best, because they do not count those jobs.
    intervals : mapping of str to mapping of str to (float, float), optional
        Intervals by metric for each run by name, drawn as lines through the dots, as far as values are possible;
        intervals that are not finite are omitted.

    Returns
    -------
    list of Axes
        One panel per metric, on a new figure, with the values on the right. The best value is bold if the metric has a
        better direction. A metric that a run lacks, or that is NaN, has no dot. If one value is 20 times as large as
        the median of the others, and all are > 0, the axis is logarithmic.

    Raises
    ------
    InvalidConfiguration
        If there is no run, or no run has one of the metrics.
    """
    kind = kind_of(problem) if isinstance(problem, str) else problem
    if not table:
        raise InvalidConfiguration("table: got an empty mapping, expected the metrics of at least one run")
    names = list(metrics) if metrics is not None else selection(table, PANELS, kind)
    unknown = sorted(set(names) - set(all_names(table.values())))
    if unknown or not names:
        raise InvalidConfiguration(f"metrics: got {names!r}, but no run has {', '.join(unknown) or 'any'}")
    runs = distinct(table, LONGEST_NAME)
    width = figure_width(9.0)
    columns = min(len(names), COLUMNS[width < WIDE])
    rows = -(-len(names) // columns)
    room = (100.0 * width / text_scale() - CHARACTER * max(map(len, runs)) - GAP) / columns - GAP
    found = {name: [float(run.get(name, math.nan)) for run in table.values()] for name in names}
    titles = {
        name: _title(name, kind, _is_squashed(found[name]), max(int(room / TITLE_CHARACTER), 12)) for name in names
    }
    lines = rows * (len(table) + max(map(len, titles.values())) + 1.5)
    grid = new_figure(9.0, 0.15 * rows, lines).subplots(rows, columns, squeeze=False, sharey=True).ravel().tolist()
    colors = [style.color for style in line_styles(table).values()]
    for axes, name in zip(grid, names, strict=False):
        values, within = found[name], kind.metrics[name].within
        given = [(intervals or {}).get(run, {}).get(name, (math.nan, math.nan)) for run in table]
        ends = [(within(low), within(high)) for low, high in given]
        _draw_dots(axes, values, ends, colors)
        _mark_values(axes, values, ends, compared(name, table, unfinished, kind), room)
        axes.set_title("\n".join(titles[name]), loc="left", fontsize="small", parse_math=False)
    for axes in grid[len(names) :]:
        axes.remove()
    for axes in grid[: len(names) : columns]:
        axes.set_yticks(range(len(table)), runs, fontsize="small", parse_math=False)
    grid[0].set_ylim(len(table) - 0.5, -0.5)
    return list(grid[: len(names)])


def _title(name: str, kind: ProblemDescriptor, is_log: bool, width: int) -> list[str]:
    """Return the lines above a panel: metric, unit, which values are better, and whether the axis is logarithmic."""
    better = kind.metrics[name].better
    notes = ", ".join([*([f"{better} is better"] if better else []), *(["logarithmic"] if is_log else [])])
    lines = wrap(heading(name, kind).replace(" (", NO_BREAK), width, break_on_hyphens=False) + wrap(notes, width)
    return [line.replace(NO_BREAK, " (") for line in lines]


def _draw_dots(axes: Axes, values: Sequence[float], ends: Sequence[tuple[float, float]], colors: Sequence[Any]) -> None:
    """Draw dots with intervals in rows, the first at the top; leave out what is not finite."""
    for row, (value, end, color) in enumerate(zip(values, ends, colors, strict=True)):
        look: Any = {"color": color, "clip_on": True, "solid_capstyle": "butt"}
        if all(map(math.isfinite, (value, *end))):
            axes.plot(end, [row, row], linewidth=1.4, gid="interval", **look)
        if math.isfinite(value):
            axes.plot([value], [row], "o", markersize=4.5, gid="mark", zorder=3.0, **look)
    plain(axes)
    axes.spines["left"].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="#E8E8E8", linewidth=0.6)
    axes.tick_params(axis="y", length=0)


def _mark_values(
    axes: Axes,
    values: Sequence[float],
    ends: Sequence[tuple[float, float]],
    words: Sequence[tuple[str, bool]],
    room: float,
) -> None:
    """Write the values at the right of a panel that is ``room`` wide, and set up its axis beside them."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    known = [number for number in (*values, *(end for pair in ends for end in pair)) if math.isfinite(number)] or [0.0]
    low, high = min(known), max(known)
    taken = min((CHARACTER * max(len(text) for text, _ in words) + GAP) / room, 0.7)
    label = CHARACTER * max(len(f"{high:,.0f}"), 4) + 2.0 * GAP
    most = max(int((1.0 - taken) * room / label), 1)
    place: Callable[[float], float] = float
    if _is_squashed(values):
        axes.set_xscale("log")
        low, high = min(values) / 1.5, high * 1.2  # an interval that reaches below 0 runs out of the panel
        marks, place = LogLocator(numticks=most + 1).tick_values(low, high), math.log
        right = high * (high / low) ** (taken / (1.0 - taken))
    else:
        if 0.0 <= low < 0.4 * high:
            low = 0.0
        space = 0.06 * ((high - low) or abs(high) or 1.0)
        marks = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high) if high > low else [low]
        low, high = low - space, high + space
        right = high + (high - low) * taken / (1.0 - taken)
    axes.set_xlim(low, right)
    marks = _apart([mark for mark in marks if low <= mark <= high], place, room / (place(right) - place(low)))
    axes.xaxis.set_major_locator(FixedLocator(marks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelsize="small", length=2.5)
    for row, (text, best) in enumerate(words):
        look: Any = {"fontsize": "small", "fontweight": "bold" if best else "normal", "va": "center", "ha": "right"}
        axes.text(1.0, row, text, transform=axes.get_yaxis_transform(), **look)


def _apart(marks: Sequence[float], place: Callable[[float], float], pixels: float) -> list[float]:
    """Return marks at equal steps whose labels do not overlap, given the pixels per unit of place."""
    ordered = sorted(marks, reverse=True)
    for step in range(1, len(ordered)):
        kept = ordered[::step]
        widths = [CHARACTER * (len(f"{a:,.10g}") + len(f"{b:,.10g}")) / 2.0 + GAP / 3.0 for a, b in pairwise(kept)]
        rooms = [pixels * (place(a) - place(b)) for a, b in pairwise(kept)]
        if all(room >= width for room, width in zip(rooms, widths, strict=True)):
            return kept
    return ordered[:1]


def _is_squashed(values: Sequence[float]) -> bool:
    """Return whether one value is so large that the others would hardly differ."""
    if len(values) < 3 or not all(value > 0.0 and math.isfinite(value) for value in values):
        return False
    ordered = sorted(values)
    return ordered[-1] > SQUASHING * float(np.median(ordered[:-1]))


def metric_lines(
    samples: Mapping[str, Samples],
    *,
    xlabel: str,
    ylabel: str,
    bound: Samples | None = None,
    limits: tuple[float, float] = (-math.inf, math.inf),
    colors: Mapping[str, Any] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw means of a metric against a parameter, such as the number of jobs, with 95 % confidence bands.

    Parameters
    ----------
    samples : mapping of str to mapping of float to array_like
        For each agent and each value of the parameter, the values of the metric, one per workload, or a single number.
    xlabel, ylabel : str
        Labels of parameter and metric, with units.
    bound : mapping of float to array_like, optional
        Bound that no agent can pass, by value of the parameter; its means are drawn as a grey line.
    limits : (float, float)
        Least and largest possible value of the metric, at which bands end; default: unknown.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.
    axes : Axes, optional
        Panel to draw on; default: a new figure.

    Returns
    -------
    Axes
        Panel with lines of gid ``curve``, one per agent, and ``bound``. A sample that contains NaN leaves a gap. The
        bands are the intervals of :func:`desim.statistics.mean_interval`; a single value has none.

    Raises
    ------
    InvalidConfiguration
        If there is no agent, or an agent has no values.

    Examples
    --------
    >>> makespans = {"HEFT": {5: [40.0, 44.0], 10: [80.0, 82.0]}, "FIFO": {5: [50.0, 52.0], 10: [99.0, 97.0]}}
    >>> axes = metric_lines(makespans, xlabel="jobs", ylabel="makespan (s)")
    >>> axes.get_lines()[0].get_ydata().tolist()
    [42.0, 81.0]
    """
    from matplotlib.ticker import MaxNLocator

    if not samples:
        raise InvalidConfiguration("samples: got an empty mapping, expected the values of at least one agent")
    (panel,) = new_panels(axes, 1, height=3.4)
    entries = _draw_means(panel, samples, line_styles(samples, colors), limits)
    if bound is not None:
        places, means, _ = _means("bound", bound)
        look: Any = {"color": BOUND_COLOR, "linewidth": 1.2, "linestyle": (0, (6, 2)), "gid": "bound"}
        entries += [("lower bound", line) for line in panel.plot(places, means, **look)]
    panel.set_xlabel(xlabel, parse_math=False)
    panel.set_ylabel(ylabel, parse_math=False)
    every = np.concatenate([line.get_xdata() for _, line in entries])
    is_whole, most = bool((every == np.round(every)).all()), int(panel_pixels(panel)[0] / TICK)
    panel.xaxis.set_major_locator(MaxNLocator(max(min(10, most), 1), integer=is_whole, steps=[1, 2, 5, 10]))
    add_legend([panel], entries)
    return panel


def _draw_means(
    axes: Axes, samples: Mapping[str, Samples], styles: Mapping[str, LineStyle], limits: tuple[float, float]
) -> list[tuple[str, Any]]:
    """Draw means with confidence bands, as far as values are possible; return the legend entries."""
    entries = []
    for position, (name, line) in enumerate(samples.items()):
        places, means, halves = _means(f"samples[{name!r}]", line)
        look: Any = {"color": styles[name].color, "linestyle": styles[name].dashes, "linewidth": 1.4, "gid": "curve"}
        area: Any = {"color": look["color"], "alpha": min(0.15, 0.6 / len(samples)), "linewidth": 0.0, "gid": "band"}
        axes.fill_between(places, *np.clip([means - halves, means + halves], *limits), **area)
        marker = MARKERS[position % len(MARKERS)] if len(places) <= MOST_MARKED else None
        entries += [(str(name), line) for line in axes.plot(places, means, marker=marker, markersize=4.0, **look)]
    plain(axes, grid="y")
    group_digits(axes.yaxis)
    return entries


def _means(name: str, samples: Samples) -> tuple[Floats, Floats, Floats]:
    """Return the values of the parameter in ascending order, the means, and the half widths of intervals, or 0."""
    from desim.statistics import mean_interval

    if not samples:
        raise InvalidConfiguration(f"{name}: got no values, expected values of the metric by value of the parameter")
    places = sorted(samples)
    estimates = [mean_interval(np.atleast_1d(samples[place])) for place in places]
    means = np.array([estimate.mean for estimate in estimates])
    halves = np.nan_to_num(np.array([estimate.half_width for estimate in estimates]), posinf=0.0)
    return np.array(places, dtype=np.float64), means, halves


def critical_differences(
    ranking: Ranking, *, metric: str = "", pair: str = "scenario", colors: Mapping[str, Any] | None = None
) -> Axes:
    """Draw mean ranks with half the critical difference on either side, and bars that join agents that do not differ.

    Lines end at the ranks that are possible, which changes nothing about which of them overlap.

    Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
    Research 7, 2006; here with one row per agent, because names need more room than ranks.

    Parameters
    ----------
    ranking : Ranking
        Ranking from :func:`desim.statistics.rank_agents`.
    metric : str
        What the agents are ranked by, for the label.
    pair : str
        What is ranked, such as a seed or a window.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.

    Returns
    -------
    Axes
        Panel on a new figure; the best agent is at the top. A bar on the right joins agents without significant
        differences.
    """
    ranks, groups = ranking.mean_ranks, ranking.groups()
    axes = new_figure(7.0, 0.5, len(ranks) + 2.0).subplots()
    half, last = ranking.critical_difference / 2.0, float(len(ranks))
    styles = line_styles(ranks, colors)
    _draw_dots(
        axes,
        list(ranks.values()),
        [(max(rank - half, 1.0), min(rank + half, last)) for rank in ranks.values()],
        [styles[name].color for name in ranks],
    )
    names = list(ranks)
    step = 0.04 * last
    for number, group in enumerate(groups):
        rows = [names.index(group[0]) - 0.25, names.index(group[-1]) + 0.25]
        place = last + step * (number + 1)
        axes.plot([place] * 2, rows, color="black", linewidth=2.5, solid_capstyle="butt", gid="group")
    axes.set(xlim=(1.0 - step, last + step * (len(groups) + 1)), ylim=(last - 0.5, -0.5))
    axes.set_xticks(range(1, len(ranks) + 1, nice_count(len(ranks) * TICK / 2 / panel_pixels(axes)[0])))
    texts = [f"{n}  {rank:.2f}" for n, rank in zip(distinct(ranks, LONGEST_NAME), ranks.values(), strict=True)]
    axes.set_yticks(range(len(ranks)), texts, fontsize="small", parse_math=False)
    by = f"mean rank by {metric}," if metric else "mean rank"
    label = (
        f"{by} over {how_many(ranking.num_scenarios, pair)}; significant: above\u00a0{ranking.critical_difference:.2f}"
    )
    _label_below(axes, label, beside=max(map(len, texts)))
    return axes


def _label_below(axes: Axes, label: str, *, beside: int = 8) -> None:
    """Label the x axis in as many lines as are needed, given the length of the texts beside the panel."""
    lines = wrap(label.replace(" (", NO_BREAK), max(int(panel_pixels(axes)[0] / CHARACTER) - beside, 12))
    axes.set_xlabel("\n".join(lines).replace(NO_BREAK, " ("), fontsize="small", parse_math=False)


def performance_profiles(
    profile: PerformanceProfile,
    *,
    metric: str = "cost",
    pair: str = "scenario",
    colors: Mapping[str, Any] | None = None,
) -> Axes:
    """Draw performance profiles: the fraction of scenarios in which each agent is within a ratio of the best.

    Parameters
    ----------
    profile : PerformanceProfile
        Profiles from :func:`desim.statistics.performance_profile`.
    metric : str
        What is compared with the best, for the label.
    pair : str
        What the shares are of, such as seeds or windows.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.

    Returns
    -------
    Axes
        Panel on a new figure, with steps at the ratios of the profile; logarithmic if some ratio is above 5.
    """
    axes = new_figure(7.0, 3.6).subplots()
    styles = line_styles(profile.shares, colors)
    end = profile.ratios[-1] + 0.03 * max(profile.ratios[-1] - 1.0, 0.01)
    ratios = np.append(profile.ratios, end)
    for name, shares in profile.shares.items():
        look = {"color": styles[name].color, "linestyle": styles[name].dashes}
        axes.step(ratios, np.append(shares, shares[-1]), where="post", label=name, **look)
    plain(axes)
    axes.set(xlim=(1.0, end), ylim=(0.0, 1.02), ylabel=f"share of the {pair}s")
    _label_below(axes, f"{metric}, relative to the best")
    if profile.ratios[-1] > LARGEST_LINEAR:
        _logarithmic(axes, 1.0, end)
    add_legend([axes], zip(profile.shares, axes.get_lines(), strict=True))
    return axes


def _logarithmic(axes: Axes, low: float, high: float) -> None:
    """Make the x axis logarithmic, with plain numbers at 1, 2 and 5 of each power of ten, if there is room for them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    room = panel_pixels(axes)[0] / math.log10(high / low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if room > 2.5 * TICK else (1.0,)))
    group_digits(axes.xaxis)
    axes.xaxis.set_minor_formatter(NullFormatter())


def decision_time_cdf(
    seconds: Mapping[str, ArrayLike], *, colors: Mapping[str, Any] | None = None, axes: Axes | None = None
) -> Axes:
    """Draw the empirical distribution of decision times by agent, with the 98th percentile marked.

    Parameters
    ----------
    seconds : mapping of str to array_like of shape (num_decisions,)
        Duration of each decision in seconds, by agent.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.
    axes : Axes, optional
        Panel to draw on; default: a new figure.

    Returns
    -------
    Axes
        Panel with times in milliseconds on a logarithmic axis, and percentages. A time of 0 is at the left end.

    Raises
    ------
    InvalidConfiguration
        If there are no times, or a time is negative or not finite.

    Examples
    --------
    >>> axes = decision_time_cdf({"HEFT": [0.001, 0.002, 0.003, 0.004]})
    >>> [text.get_text() for text in axes.figure.legends[0].get_texts()]
    ['HEFT: 98 % within 4 ms']
    """
    times = {name: 1_000.0 * values for name, values in _ascending("seconds", seconds).items()}
    for name, values in times.items():
        if values[0] < 0.0:
            raise InvalidConfiguration(
                f"seconds[{name!r}]: got {float(values[0]) / 1_000.0!r}, expected finite times >= 0"
            )
    styles = line_styles(times, colors)
    known = np.concatenate([values[values > 0.0] for values in times.values()])
    low, high = (known.min() / 1.3, known.max() * 1.3) if len(known) else (0.1, 1.0)
    (panel,) = new_panels(axes, 1, height=3.2)
    panel.axhline(PERCENTILE, color="#777777", linewidth=0.8, zorder=1.9, gid="percentile")
    entries = []
    for name, values in times.items():
        within = float(np.percentile(values, PERCENTILE, method="inverted_cdf"))
        entry = f"{shortened(name, 20)}: {PERCENTILE:g} % within {within:.3g} ms"
        entries.append((entry, _draw_shares(panel, values, styles[name], low, high)))
        color = styles[name].color
        panel.plot([max(within, low)], [PERCENTILE], "o", color=color, markersize=5.0, gid="mark", zorder=3.0)
    _logarithmic(panel, low, high)
    panel.set(xlim=(low, high), ylim=(0.0, 102.0), xlabel="decision time (ms)", ylabel="decisions (%)")
    plain(panel, grid="both")
    add_legend([panel], entries)
    return panel


def _draw_shares(axes: Axes, values: Floats, style: Any, low: float, high: float) -> Any:
    """Draw the percentage of ascending values up to each position from ``low`` to ``high``; return the line."""
    shares = 100.0 * np.arange(1, len(values) + 1) / len(values)
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_POINTS)).astype(np.int64))
    steps = np.concatenate([values[:1], values[chosen], [max(high, values[-1])]])
    look: Any = {"color": style.color, "linestyle": style.dashes, "linewidth": 1.5, "gid": "curve"}
    heights = np.concatenate([[0.0], shares[chosen], [100.0]])
    return axes.plot(np.maximum(steps, low), heights, drawstyle="steps-post", **look)[0]


def _ascending(name: str, samples: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    """Return finite samples by agent, ascending."""
    if not samples:
        raise InvalidConfiguration(f"{name}: got an empty mapping, expected the values of at least one agent")
    found = {}
    for agent, given in samples.items():
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidConfiguration(f"{name}[{str(agent)!r}]: expected numbers: {error}") from error
        if values.ndim != 1 or not len(values):
            raise InvalidConfiguration(
                f"{name}[{str(agent)!r}]: got shape {values.shape}, expected a list of at least one number"
            )
        if not np.isfinite(values).all():
            wrong = values[~np.isfinite(values)][0].item()
            raise InvalidConfiguration(f"{name}[{str(agent)!r}]: got {wrong!r}, expected finite numbers")
        found[str(agent)] = np.sort(values)
    return found


def distributions(
    samples: Mapping[str, ArrayLike],
    *,
    label: str,
    unit: str = "",
    things: str = "jobs",
    colors: Mapping[str, Any] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw empirical distributions: the percentage of jobs with at most a value.

    Parameters
    ----------
    samples : mapping of str to array_like of shape (n,)
        Values by agent, such as the waiting times of its jobs.
    label : str
        What the values are.
    unit : str
        Unit of the values. If it is s, and values reach 200 s, the axis shows durations: linear to 10 s, so that 0 has
        a place, and logarithmic beyond. Every other axis is linear.
    things : str
        What has the values, in the plural.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.
    axes : Axes, optional
        Panel to draw on; default: a new figure.

    Returns
    -------
    Axes
        Panel with a line of gid ``curve`` per agent.

    Raises
    ------
    InvalidConfiguration
        If there are no values, or a value is not a finite number.

    Examples
    --------
    >>> axes = distributions({"easy": [0.0, 30.0, 60.0, 90.0]}, label="waiting time", unit="s")
    >>> axes.get_lines()[0].get_ydata().tolist()
    [0.0, 25.0, 50.0, 75.0, 100.0, 100.0]
    """
    values = _ascending("samples", samples)
    styles = line_styles(values, colors)
    low, high = min(found[0] for found in values.values()), max(found[-1] for found in values.values())
    low = min(low, 0.0) if low < 0.5 * high else low
    high = high if high > low else low + 1.0
    (panel,) = new_panels(axes, 1, height=3.2)
    lines = [_draw_shares(panel, found, styles[name], low, high) for name, found in values.items()]
    panel.set(xlim=(low, high), ylim=(0.0, 102.0), ylabel=f"{things} (%)")
    panel.set_xlabel(f"{label} ({unit})" if unit else label, parse_math=False)
    group_digits(panel.xaxis)
    if unit == "s" and low >= 0.0 and scale_durations(panel, "x", high):
        panel.set_xlim(0.0, high)
        panel.set_xlabel(f"{label} (logarithmic from {DURATION_LINEAR:g} s)", parse_math=False)
    plain(panel, grid="both")
    add_legend([panel], zip(values, lines, strict=True))
    return panel


class _Seen(NamedTuple):
    """What figures over many runs show of one; it is small, so that a run's tables can go before the next is read.

    Attributes
    ----------
    curves : mapping of str to Curve
        Curves by name.
    begin, end : float
        Begin and end of the measured part of the run.
    spread : array
        Values whose distribution is shown.
    """

    curves: Mapping[str, Curve]
    begin: float
    end: float
    spread: Floats


def _seen(run: Result, kind: ProblemDescriptor) -> _Seen:
    view = kind.view(run)
    begin, end = run.measured_span or run.span
    return _Seen(view.curves, begin, min(end, run.span[1]), view.spread_values() if view.spread else np.zeros(0))


def _all_seen(comparison: Comparison) -> dict[str, list[_Seen]]:
    """Return what figures show of the stored runs, by agent, reading each once."""
    found: dict[str, list[_Seen]] = {}
    for one in comparison.all_runs:
        if one.records is not None:
            found.setdefault(one.policy, []).append(_seen(one.load(), comparison.kind))
    return found


def mean_curves(
    runs: Mapping[str, Sequence[Result]], *, bin_width: float | None = None, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw curves over time, such as utilization and queue, as means over runs with 95 % confidence bands.

    Parameters
    ----------
    runs : mapping of str to sequence of Result
        Runs by agent, such as one per seed, or one per window of a log.
    bin_width : float, optional
        Width of the bins over which each run is averaged, in seconds or slots; default: about sixty bins.
    axes : sequence of Axes, optional
        Panels to draw on, one per curve; default: a new figure.

    Returns
    -------
    list of Axes
        One panel per curve of the problem's view, see :class:`desim.plotting.views.View`. Time counts from the start of
        each run, or of the window of a log that it measures, to the end of the shortest one, so that each mean is over
        all runs.

    Raises
    ------
    InvalidConfiguration
        If there are no runs, they are of several problems, or their problem has no curves.
    """
    first = next((result for results in runs.values() for result in results), None)
    if first is None:
        raise InvalidConfiguration("runs: got no runs, expected at least one per agent")
    kind = kind_of(first)
    loaded = {
        agent: load_runs({f"{agent}, {number}": result for number, result in enumerate(results)}, kind.name)
        for agent, results in runs.items()
    }
    seen = {agent: [_seen(run, kind) for run in some] for agent, some in loaded.items()}
    return _draw_curves(seen, kind, bin_width, axes)


def _draw_curves(
    seen: Mapping[str, Sequence[_Seen]],
    kind: ProblemDescriptor,
    bin_width: float | None = None,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Draw the curves of the runs of each agent, see :func:`mean_curves`."""
    length = min(one.end - one.begin for some in seen.values() for one in some)
    is_time = kind.time_unit == "s"
    width = bin_width or (nice_duration(length / BINS) if is_time else float(nice_count(length / BINS)))
    edges = np.arange(max(int(length / width), 1) + 1) * width
    tables = {agent: [averages(one.curves, one.begin + edges) for one in some] for agent, some in seen.items()}
    curves = {name: curve for some in seen.values() for one in some for name, curve in one.curves.items()}
    if not curves:
        raise InvalidConfiguration(f"problem {kind.name!r} has no curves over time")
    panels, styles = new_panels(axes, len(curves), height=2.2), line_styles(seen)
    places = (edges[:-1] + 0.5 * width).tolist()
    for panel, (name, curve) in zip(panels, curves.items(), strict=True):
        samples: dict[str, Samples] = {}
        for agent, some in tables.items():
            values = [table[name].to_numpy() for table in some if name in table.columns]
            means = np.stack(values, axis=1) if values else np.full((len(places), 1), math.nan)
            samples[agent] = dict(zip(places, means, strict=True))
        entries = _draw_means(panel, samples, styles, (curve.least, curve.most))
        panel.set_ylabel("\n".join(wrap(curve.label, 18)), parse_math=False)
        panel.set_ylim(bottom=min(0.0, panel.dataLim.y0))
        (time_axis if is_time else slot_axis)(panel, 0.0, float(edges[-1]))
    add_legend(panels, entries if len(seen) > 1 else [])
    label_panels(panels)
    return panels


def comparison_figures(found: Comparison) -> dict[str, list[Axes]]:
    """Draw a comparison of agents.

    Parameters
    ----------
    found : Comparison
        Comparison, as :func:`desim.compare` returns it.

    Returns
    -------
    dict of str to list of Axes
        Figures by name: ``metrics``; ``ranks`` and ``profiles`` if available; ``distribution`` and ``over-time`` if the
        runs were stored.
    """
    drawn = {name: draw() for name, draw in figures_of(found).items()}
    return {name: axes if isinstance(axes, list) else [axes] for name, axes in drawn.items()}


def figures_of(comparison: Comparison) -> dict[str, Callable[[], Axes | list[Axes]]]:
    """Return the figures of a comparison by name, as functions that draw them in the style that then holds.

    Parameters
    ----------
    comparison : Comparison
        The comparison; unless its runs were stored, there are no distributions and curves.

    Returns
    -------
    dict of str to callable
        ``metrics``; ``ranks`` and ``profiles`` if the comparison has them; ``distribution`` if jobs have a value to
        show, such as their waiting times; ``over-time`` if there are curves, and several runs per agent.
    """
    kind = comparison.kind
    colors = {name: style.color for name, style in line_styles(comparison.means).items()}
    ends = {
        agent: {name: (item.low, item.high) for name, item in row.items()} for agent, row in comparison.means.items()
    }
    names = selection(comparison.mean_table, PANELS, kind)
    if comparison.main_metric not in names:
        names = [comparison.main_metric, *names[: PANELS - 1]]
    options: Any = {"metrics": names, "problem": kind, "unfinished": comparison.unfinished, "intervals": ends}
    found: dict[str, Callable[[], Axes | list[Axes]]] = {
        "metrics": partial(compare_metrics, comparison.mean_table, **options)
    }
    by = "" if comparison.criterion is None else metric_words(comparison.criterion.metric)
    words: Any = {"pair": comparison.pair, "colors": colors}
    if comparison.ranking is not None:
        found["ranks"] = partial(critical_differences, comparison.ranking, metric=by, **words)
    if comparison.profile is not None:
        is_gain = comparison.criterion is not None and comparison.criterion.better == "higher"
        words["metric"] = f"1 / {by}" if is_gain else by
        found["profiles"] = partial(performance_profiles, comparison.profile, **words)
    first = next((kind.view(one.load()) for one in comparison.all_runs if one.records is not None), None)
    seen = cache(partial(_all_seen, comparison))
    if first is not None and first.spread:
        found["distribution"] = lambda: _draw_spread(seen(), first.spread, kind, colors)
    if first is not None and first.curves and len(comparison.seeds) > 1:
        found["over-time"] = lambda: _draw_curves(seen(), kind)
    return found


def _draw_spread(
    seen: Mapping[str, Sequence[_Seen]], column: str, kind: ProblemDescriptor, colors: Mapping[str, Any]
) -> Axes:
    """Draw the distributions of a column of the job tables, over all runs of an agent."""
    values = {agent: np.concatenate([one.spread for one in some]) for agent, some in seen.items()}
    samples = {agent: found for agent, found in values.items() if len(found)}
    if not samples:
        raise InvalidConfiguration(f"no job of these runs has a {metric_words(column)}, as none has got that far")
    return distributions(samples, label=metric_words(column), unit=kind.metrics[f"{column}_mean"].unit, colors=colors)
