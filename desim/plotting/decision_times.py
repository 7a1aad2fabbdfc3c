"""How long decisions take: cumulative distributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._panels import add_legend, given_or_new_panels, plain
from desim.plotting._style import line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["decision_time_cdf"]

Floats = NDArray[np.float64]

#: A curve of more decisions is drawn through so many quantiles.
MOST_POINTS = 2_000
MILLISECONDS = 1_000.0


def decision_time_cdf(
    seconds: Mapping[str, ArrayLike],
    *,
    percentile: float = 98.0,
    colors: Mapping[str, Any] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw which share of the decisions was made within which time.

    Parameters
    ----------
    seconds : mapping of str to array_like of shape (num_decisions,)
        How long each decision took, in seconds, by agent.
    percentile : float
        Between 0 and 100: the time within which so many percent of the decisions were made is marked, and
        stands in the legend.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        Times in milliseconds on a logarithmic axis, shares in percent. A time of 0 stands at the left end.

    Raises
    ------
    InvalidConfiguration
        If there are no times, a time is negative or not finite, or the percentile is out of range.

    Examples
    --------
    >>> axes = decision_time_cdf({"HEFT": [0.001, 0.002, 0.003, 0.004]}, percentile=50)
    >>> [text.get_text() for text in axes.figure.legends[0].get_texts()]
    ['HEFT: 50 % within 2 ms']
    """
    if not 0.0 < percentile < 100.0:
        raise InvalidConfiguration(f"percentile is {percentile!r}, want a number between 0 and 100")
    if not seconds:
        raise InvalidConfiguration("seconds is an empty mapping, want the decision times of at least one agent")
    times = {str(name): _sorted_times(str(name), values) for name, values in seconds.items()}
    styles = line_styles(times, colors)
    low, high = _limits(times)
    (panel,), own = given_or_new_panels(axes, 1, height=3.2)
    panel.axhline(percentile, color="#777777", linewidth=0.8, zorder=1.9, gid="percentile")
    lines, names = [], []
    for name, values in times.items():
        within = float(np.percentile(values, percentile, method="inverted_cdf"))
        style = styles[name]
        lines += panel.plot(
            *_curve(np.maximum(values, low), high),
            drawstyle="steps-post",
            color=style.color,
            linestyle=style.dashes,
            linewidth=1.5,
            gid="curve",
        )
        panel.plot([max(within, low)], [percentile], "o", color=style.color, markersize=5.0, gid="mark", zorder=3.0)
        short = name if len(name) <= 20 else name[:19] + "…"
        names.append(f"{short}: {percentile:g} % within {within:.3g} ms")
    _set_axes(panel, low, high)
    add_legend([panel], lines, names, own=own)
    return panel


def _sorted_times(name: str, seconds: ArrayLike) -> Floats:
    """Return the times in milliseconds, ascending."""
    try:
        times = np.asarray(seconds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"seconds[{name!r}] are no numbers: {error}") from error
    if times.ndim != 1 or not len(times):
        raise InvalidConfiguration(f"seconds[{name!r}] has shape {times.shape}, want one number for each decision")
    wrong = times[~((times >= 0.0) & (times < np.inf))]
    if len(wrong):
        raise InvalidConfiguration(f"seconds[{name!r}] holds {wrong[0].item()!r}, want finite times of at least 0")
    return np.asarray(np.sort(times) * MILLISECONDS)


def _limits(times: Mapping[str, Floats]) -> tuple[float, float]:
    """Return the ends of the axis, in milliseconds."""
    known = np.concatenate([values[values > 0.0] for values in times.values()])
    if not len(known):
        return 0.1, 1.0
    return float(known.min()) / 1.3, float(known.max()) * 1.3


def _curve(times: Floats, end: float) -> tuple[Floats, Floats]:
    """Return times and the percentage of decisions that had been made by then, up to the end of the axis."""
    shares = np.arange(1, len(times) + 1) / len(times)
    chosen = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_POINTS)).astype(np.int64))
    steps = np.concatenate([[times[0]], times[chosen], [max(end, times[-1])]])
    return steps, 100.0 * np.concatenate([[0.0], shares[chosen], [1.0]])


def _set_axes(axes: Axes, low: float, high: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_xlim(low, high)
    decades = np.log10(high / low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 3.0 else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0.0, 102.0)
    axes.set_xlabel("decision time (ms)")
    axes.set_ylabel("decisions (%)")
    plain(axes, grid="both")
