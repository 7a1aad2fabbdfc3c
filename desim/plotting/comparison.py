"""Comparison figures of runs or agents: metrics as bars and as lines with confidence bands, ranks, distributions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.formatting import all_names, compared, heading, selection, shortened
from desim.plotting.axes import add_legend, group_digits, new_figure, new_panels, plain
from desim.plotting.colors import line_styles
from desim.problem import ProblemDescriptor, kind_of
from desim.sweep.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.statistics import PerformanceProfile, Ranking
    from desim.sweep.study import ComparisonResult

__all__ = [
    "compare_metrics",
    "comparison_figures",
    "critical_differences",
    "decision_time_cdf",
    "metric_lines",
    "performance_profiles",
]

Floats = NDArray[np.float64]
Samples = Mapping[float, ArrayLike]

COLUMNS = 3
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
BOUND_COLOR = "#555555"
INTERVAL_COLOR = "#6E6E6E"
#: Ratio of a bar to the median of the others above which the axis is logarithmic.
SQUASHING = 20.0
#: Largest ratio on a linear axis; larger ones make the axis logarithmic.
LARGEST_LINEAR = 5.0
#: Percentile of the decision times that is marked.
PERCENTILE = 98.0
#: Number of quantiles that a curve of more decisions is drawn through.
MOST_POINTS = 2_000


def comparison_figures(found: ComparisonResult | Comparison) -> dict[str, list[Axes]]:
    """Draw a comparison of agents.

    Parameters
    ----------
    found : ComparisonResult
        Comparison, as :func:`desim.compare` returns it.

    Returns
    -------
    dict of str to list of Axes
        Figures by name: ``metrics``, and ``ranks`` and ``profiles`` if available.
    """
    comparison = found if isinstance(found, Comparison) else found.comparison
    ends = {
        agent: {name: (item.low, item.high) for name, item in row.items()} for agent, row in comparison.means.items()
    }
    options: dict[str, Any] = {"problem": comparison.kind, "unfinished": comparison.unfinished, "intervals": ends}
    figures = {"metrics": compare_metrics(comparison.table, **options)}
    if comparison.ranking is not None:
        figures["ranks"] = [critical_differences(comparison.ranking)]
    if comparison.profile is not None:
        figures["profiles"] = [performance_profiles(comparison.profile)]
    return figures


def compare_metrics(
    table: Mapping[str, Mapping[str, float]],
    *,
    problem: str | ProblemDescriptor = "batch",
    metrics: Sequence[str] | None = None,
    unfinished: Collection[str] = (),
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
) -> list[Axes]:
    """Draw metrics of several runs as bars, one small panel per metric.

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
        Intervals by metric for each run by name, drawn as lines over the bars; intervals that are not finite are
        omitted.

    Returns
    -------
    list of Axes
        One panel per metric, on a new figure. The best value is bold if the metric has a better direction. A metric
        that a run lacks, or that is NaN, has no bar. If one bar is 20 times as long as the median of the others, and
        all are > 0, the axis is logarithmic.

    Raises
    ------
    InvalidConfiguration
        If there is no run, or no run has one of the metrics.
    """
    kind = kind_of(problem) if isinstance(problem, str) else problem
    if not table:
        raise InvalidConfiguration("table: got an empty mapping, expected the metrics of at least one run")
    names = list(metrics) if metrics is not None else selection(table, 6, kind)
    unknown = sorted(set(names) - set(all_names(table.values())))
    if unknown or not names:
        raise InvalidConfiguration(f"metrics: got {names!r}, but no run has {', '.join(unknown) or 'any'}")
    rows, columns = -(-len(names) // COLUMNS), min(len(names), COLUMNS)
    figure = new_figure(9.0, rows * (0.65 + 0.26 * len(table)))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel().tolist()
    colors = [style.color for style in line_styles(table).values()]
    for axes, name in zip(grid, names, strict=False):
        values = [float(run.get(name, math.nan)) for run in table.values()]
        ends = [(intervals or {}).get(run, {}).get(name, (math.nan, math.nan)) for run in table]
        _draw_metric(axes, values, compared(name, table, unfinished, kind), colors, ends)
        direction = f"{kind.metrics[name].better} is better" if kind.metrics[name].better else ""
        axes.set_title(f"{heading(name, kind)}\n{direction}", loc="left", fontsize=8, parse_math=False)
    for axes in grid[len(names) :]:
        axes.remove()
    for axes in grid[: len(names) : COLUMNS]:
        axes.set_yticks(range(len(table)), [shortened(run, 30) for run in table], fontsize=9, parse_math=False)
    grid[0].invert_yaxis()
    return list(grid[: len(names)])


def _draw_metric(
    axes: Axes,
    values: list[float],
    words: list[tuple[str, bool]],
    colors: list[Any],
    ends: list[tuple[float, float]],
) -> None:
    lengths = [value if math.isfinite(value) else 0.0 for value in values]
    known = [all(map(math.isfinite, (*end, value))) for end, value in zip(ends, values, strict=True)]
    drawn = [end if there else (length, length) for end, there, length in zip(ends, known, lengths, strict=True)]
    axes.barh(range(len(values)), lengths, height=0.7, color=colors)
    for row in np.flatnonzero(known).tolist():
        axes.plot(drawn[row], [row, row], color=INTERVAL_COLOR, linewidth=1.2, solid_capstyle="butt", gid="interval")
    plain(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="both", length=0)
    reach = [max(length, high) for length, (_, high) in zip(lengths, drawn, strict=True)]
    low, high = min(0.0, *lengths), max(0.0, *reach)
    if low < 0.0:  # intervals of non-negative quantities are cut off at the start of the bars
        low = min(low, *(end for end, _ in drawn))
    if _is_squashed(values):
        low = min(values) / 3.0
        axes.set_xscale("log")
        axes.set_xlim(low, high * (high / low) ** 0.45)
        places = [top * (high / low) ** 0.03 for top in reach]
        axes.set_xlabel("logarithmic", fontsize=7, color="#555555")
    else:
        room = (high - low) or 1.0
        axes.set_xlim(low, high + 0.35 * room)
        places = [max(top, 0.0) + 0.02 * room for top in reach]
    axes.set_xticks([])
    axes.minorticks_off()
    for row, (place, (text, best)) in enumerate(zip(places, words, strict=True)):
        weight = "bold" if best else "normal"
        axes.text(place, row, text, va="center", fontsize=8, fontweight=weight)


def _is_squashed(values: list[float]) -> bool:
    """Return whether one bar is so long that the others would hardly be visible."""
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
    styles = line_styles(samples, colors)
    (panel,) = new_panels(axes, 1, height=3.4)
    lines: list[Any] = []
    for position, (name, line) in enumerate(samples.items()):
        places, means, halves = _means(f"samples[{name!r}]", line)
        look: Any = {"color": styles[name].color, "linestyle": styles[name].dashes, "linewidth": 1.4, "gid": "curve"}
        area: Any = {"color": look["color"], "alpha": 0.15, "linewidth": 0.0, "gid": "band"}
        panel.fill_between(places, means - halves, means + halves, **area)
        lines += panel.plot(places, means, marker=MARKERS[position % len(MARKERS)], markersize=4.0, **look)
    names = [str(name) for name in samples]
    if bound is not None:
        places, means, _ = _means("bound", bound)
        lines += panel.plot(places, means, color=BOUND_COLOR, linewidth=1.2, linestyle=(0, (6, 2)), gid="bound")
        names.append("lower bound")
    plain(panel, grid="y")
    panel.set_xlabel(xlabel, parse_math=False)
    panel.set_ylabel(ylabel, parse_math=False)
    every = np.concatenate([line.get_xdata() for line in lines])
    panel.xaxis.set_major_locator(MaxNLocator(10, integer=bool((every == np.round(every)).all()), steps=[1, 2, 5, 10]))
    group_digits(panel.yaxis)
    add_legend([panel], zip(names, lines, strict=True))
    return panel


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


def critical_differences(ranking: Ranking) -> Axes:
    """Draw mean ranks on a line, with bars that join agents without significant differences.

    Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
    Research 7, 2006.

    Parameters
    ----------
    ranking : Ranking
        Ranking from :func:`desim.statistics.rank_agents`.

    Returns
    -------
    Axes
        Panel on a new figure; the best agent is on the left.
    """
    names, ranks = list(ranking.mean_ranks), list(ranking.mean_ranks.values())
    half, groups = (len(names) + 1) // 2, ranking.groups()
    rows = 1.0 + 0.35 * len(groups)
    axes = new_figure(7.5, 0.9 + 0.3 * (half + rows)).subplots()
    axes.set(xlim=(1 - 0.02, len(names) + 0.02), ylim=(half + rows, -0.2))
    look: dict[str, Any] = {"annotation_clip": False, "parse_math": False, "fontsize": 9, "va": "center"}
    for place, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        is_left = place < half
        level = rows + (place if is_left else len(names) - 1 - place)
        edge = 1.0 if is_left else float(len(names))
        axes.plot([rank, rank, edge], [-0.2, level, level], color="0.4", linewidth=0.9, clip_on=False)
        text, shift = (f"{name}  {rank:.2f}", -5) if is_left else (f"{rank:.2f}  {name}", 5)
        look |= {"xytext": (shift, 0), "textcoords": "offset points", "ha": "right" if is_left else "left"}
        axes.annotate(text, (edge, level), **look)
    for number, group in enumerate(groups):
        ends = [ranking.mean_ranks[group[0]] - 0.02, ranking.mean_ranks[group[-1]] + 0.02]
        axes.plot(ends, [0.45 + 0.35 * number] * 2, color="black", linewidth=3.5, solid_capstyle="butt")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(range(1, len(names) + 1))
    axes.set_yticks([])
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    count, apart = ranking.num_scenarios, ranking.critical_difference
    axes.set_xlabel(f"mean rank over {count} scenarios; differences above {apart:.2f} are significant", fontsize=9)
    return axes


def performance_profiles(profile: PerformanceProfile, *, colors: Mapping[str, Any] | None = None) -> Axes:
    """Draw performance profiles: the fraction of scenarios in which each agent is within a ratio of the best.

    Parameters
    ----------
    profile : PerformanceProfile
        Profiles from :func:`desim.statistics.performance_profile`.
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
    axes.set(xlim=(1.0, end), ylim=(0.0, 1.02), xlabel="cost relative to the best", ylabel="share of the scenarios")
    if profile.ratios[-1] > LARGEST_LINEAR:
        _logarithmic(axes, (1.0, 2.0, 5.0))
    add_legend([axes], zip(profile.shares, axes.get_lines(), strict=True))
    return axes


def _logarithmic(axes: Axes, marks: Sequence[float]) -> None:
    """Make the x axis logarithmic, with plain numbers at the given marks of each power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=marks))
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
    if not seconds:
        raise InvalidConfiguration("seconds: got an empty mapping, expected the decision times of at least one agent")
    times = {str(name): _milliseconds(str(name), values) for name, values in seconds.items()}
    styles = line_styles(times, colors)
    known = np.concatenate([values[values > 0.0] for values in times.values()])
    low, high = (known.min() / 1.3, known.max() * 1.3) if len(known) else (0.1, 1.0)
    (panel,) = new_panels(axes, 1, height=3.2)
    panel.axhline(PERCENTILE, color="#777777", linewidth=0.8, zorder=1.9, gid="percentile")
    entries = []
    for name, values in times.items():
        within = float(np.percentile(values, PERCENTILE, method="inverted_cdf"))
        shares = 100.0 * np.arange(1, len(values) + 1) / len(values)
        chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_POINTS)).astype(np.int64))
        steps = np.concatenate([values[:1], values[chosen], [max(high, values[-1])]])
        look: Any = {"color": styles[name].color, "linestyle": styles[name].dashes, "linewidth": 1.5, "gid": "curve"}
        heights = np.concatenate([[0.0], shares[chosen], [100.0]])
        entry = f"{shortened(name, 20)}: {PERCENTILE:g} % within {within:.3g} ms"
        entries.append((entry, panel.plot(np.maximum(steps, low), heights, drawstyle="steps-post", **look)[0]))
        panel.plot([max(within, low)], [PERCENTILE], "o", color=look["color"], markersize=5.0, gid="mark", zorder=3.0)
    _logarithmic(panel, (1.0,) if high > 1_000.0 * low else (1.0, 2.0, 5.0))
    panel.set(xlim=(low, high), ylim=(0.0, 102.0), xlabel="decision time (ms)", ylabel="decisions (%)")
    plain(panel, grid="both")
    add_legend([panel], entries)
    return panel


def _milliseconds(name: str, seconds: ArrayLike) -> Floats:
    """Return times in milliseconds, ascending."""
    try:
        times = np.asarray(seconds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"seconds[{name!r}]: expected numbers: {error}") from error
    if times.ndim != 1 or not len(times):
        raise InvalidConfiguration(f"seconds[{name!r}]: got shape {times.shape}, expected one number per decision")
    wrong = times[~((times >= 0.0) & (times < np.inf))]
    if len(wrong):
        raise InvalidConfiguration(f"seconds[{name!r}]: got {wrong[0].item()!r}, expected finite times >= 0")
    return np.asarray(1_000.0 * np.sort(times))
