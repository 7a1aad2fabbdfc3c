"""A metric against a parameter, one line an agent, with confidence bands and a bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._panels import add_legend, given_or_new_panels, group_digits, plain
from desim.plotting._style import line_styles
from desim.statistics import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["metric_lines"]

Floats = NDArray[np.float64]
Samples = Mapping[float, ArrayLike]

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
BOUND_COLOR = "#555555"


def metric_lines(
    samples: Mapping[str, Samples],
    *,
    xlabel: str,
    ylabel: str,
    bound: Samples | None = None,
    bound_name: str = "lower bound",
    level: float = 0.95,
    colors: Mapping[str, Any] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw means of a metric against a parameter, such as the number of jobs, with confidence bands.

    Parameters
    ----------
    samples : mapping of str to mapping of float to array_like
        For each agent and each value of the parameter, the values of the metric, one for each workload, or one number.
    xlabel, ylabel : str
        What parameter and metric are called, with their units.
    bound : mapping of float to array_like, optional
        What no agent can pass, for values of the parameter: a grey line through its means.
    bound_name : str
        What the bound is called.
    level : float
        Confidence level of the bands, which are those of :func:`desim.statistics.mean_interval`; a single value has
        none.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        Lines with gid ``curve``, one an agent, and ``bound``. A sample that holds NaN leaves a gap.

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
    if not samples:
        raise InvalidConfiguration("samples is an empty mapping, want the values of at least one agent")
    styles = line_styles(samples, colors)
    (panel,), own = given_or_new_panels(axes, 1, height=3.4)
    lines: list[Any] = []
    for position, (name, line) in enumerate(samples.items()):
        places, means, halves = _means(f"samples[{name!r}]", line, level)
        style = styles[name]
        band = panel.fill_between(places, means - halves, means + halves, color=style.color, alpha=0.15, linewidth=0.0)
        band.set_gid("band")
        lines += panel.plot(
            places,
            means,
            color=style.color,
            linestyle=style.dashes,
            marker=MARKERS[position % len(MARKERS)],
            markersize=4.0,
            linewidth=1.4,
            gid="curve",
        )
    names = [str(name) for name in samples]
    if bound is not None:
        places, means, _ = _means("bound", bound, level)
        lines += panel.plot(places, means, color=BOUND_COLOR, linewidth=1.2, linestyle=(0, (6, 2)), gid="bound")
        names.append(bound_name)
    _set_axes(panel, xlabel, ylabel, np.concatenate([line.get_xdata() for line in lines]))
    add_legend([panel], lines, names, own=own)
    return panel


def _means(name: str, samples: Samples, level: float) -> tuple[Floats, Floats, Floats]:
    """Return the values of the parameter in ascending order, means, and half widths of intervals, 0 without one."""
    if not samples:
        raise InvalidConfiguration(f"{name} is empty, want values of the metric by values of the parameter")
    places = sorted(samples)
    estimates = [mean_interval(np.atleast_1d(samples[place]), level=level) for place in places]
    means = np.array([estimate.mean for estimate in estimates])
    halves = np.nan_to_num(np.array([estimate.half_width for estimate in estimates]), posinf=0.0)
    return np.array(places, dtype=np.float64), means, halves


def _set_axes(axes: Axes, xlabel: str, ylabel: str, places: Floats) -> None:
    from matplotlib.ticker import MaxNLocator

    plain(axes, grid="y")
    axes.set_xlabel(xlabel, parse_math=False)
    axes.set_ylabel(ylabel, parse_math=False)
    whole = bool((places == np.round(places)).all())
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=whole, steps=[1, 2, 5, 10]))
    group_digits(axes.yaxis)
