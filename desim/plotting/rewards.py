"""Rewards of multi-server runs: averages, sums and ratios over slots, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._panels import add_legend, given_or_new_panels, group_digits, plain
from desim.plotting._side_by_side import class_axis, place_of
from desim.plotting._slot_curves import Curve, add_names, draw_slot_curves, thin_out
from desim.plotting._slot_runs import SlotRun, load_slot_runs, slot_span
from desim.plotting._style import line_styles
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["average_reward", "cumulative_reward", "reward_parts", "reward_ratio"]

Floats = NDArray[np.float64]

PARTS = ("gain", "overhead", "reward")
#: Bars of more runs have no numbers.
MOST_NUMBERED = 7


def average_reward(
    results: Result | Mapping[str, Result], *, colors: Mapping[str, Any] | None = None, axes: Axes | None = None
) -> Axes:
    """Draw the mean reward of the slots so far.

    After t slots that is their sum of rewards, through t: figure 2(a) of arXiv 2305.06572. Where jobs
    hold resources, the reward of a slot is that of the jobs that run when it has begun.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        The mean of the slots 0 to t stands at t + 1, where slot t ends. Of very many slots not every point
        is drawn.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``multiserver``.
    """
    runs = load_slot_runs(results)
    return _draw(runs, [_averages(run) for run in runs], "average reward per slot", colors, axes)


def cumulative_reward(
    results: Result | Mapping[str, Result], *, colors: Mapping[str, Any] | None = None, axes: Axes | None = None
) -> Axes:
    """Draw the sum of the rewards of the slots so far, figure 2(b) of arXiv 2305.06572.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        The sum of the slots 0 to t stands at t + 1, where slot t ends. Of very many slots not every point
        is drawn.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``multiserver``.
    """
    runs = load_slot_runs(results)
    curves = [(times, means * times) for times, means in map(_averages, runs)]
    return _draw(runs, curves, "cumulative reward", colors, axes)


def reward_ratio(
    results: Mapping[str, Result], *, of: str, colors: Mapping[str, Any] | None = None, axes: Axes | None = None
) -> Axes:
    """Draw the average reward of one run in relation to that of each other run, over the slots so far.

    Figure 2(c) of arXiv 2305.06572. A curve has the colour of the other run.

    Parameters
    ----------
    results : mapping of str to Result
        Several runs by name.
    of : str
        The run whose reward is divided by those of the others.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        The ratio after the slots 0 to t stands at t + 1, as far as both runs have come. There is a gap where
        the other run has no reward above 0. The y axis shows 98 percent of the values: single ones at the
        beginning, where a ratio can be anything, do not stretch it.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``multiserver``.
    """
    runs = load_slot_runs(results)
    names = [run.name for run in runs]
    if isinstance(results, Result) or of not in names or len(runs) < 2:
        raise InvalidConfiguration(f"of is {of!r}, want one of at least two runs; there are {', '.join(names)}")
    one = runs[names.index(of)]
    others = [run for run in runs if run is not one]
    known = {name: style.color for name, style in line_styles(names, colors).items()}
    curves = [_ratios(_averages(one), _averages(run)) for run in others]
    (panel,), own = given_or_new_panels(axes, 1, height=3.2)
    name = (one.title if len(one.title) <= 25 else one.title[:24] + "…").replace("$", r"\$")
    label = f"average reward:\n{name} / other run"
    thinned = [thin_out(*curve) for curve in curves]
    lines = draw_slot_curves(panel, others, thinned, slot_span(runs, None), label=label, colors=known)
    panel.axhline(1.0, color="#777777", linewidth=0.8, zorder=1.9, gid="equal")
    panel.set_ylim(_limits(np.concatenate([values for _, values in curves])))
    add_legend([panel], lines, [run.title for run in others], own=own)
    return panel


def reward_parts(
    results: Result | Mapping[str, Result], *, colors: Mapping[str, Any] | None = None, axes: Axes | None = None
) -> Axes:
    """Draw what rewards are made of: means of gain, overhead and their difference, as in figure 6 of arXiv 2305.06572.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, side by side.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        Bars around 0 for the gain by parallel computation, 1 for the communication overhead and 2 for the
        reward; one container of bars a run. A run without slots has none.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``multiserver``.
    """
    runs = load_slot_runs(results)
    styles = line_styles([run.name for run in runs], colors)
    (panel,), own = given_or_new_panels(axes, 1, height=3.4)
    bars = []
    for position, run in enumerate(runs):
        means = [float(run.slots[part].mean() or 0.0) if len(run.slots) else np.nan for part in PARTS]  # type: ignore[arg-type]
        shift, width = place_of(position, len(runs), share=0.72)
        bars.append(panel.bar(np.arange(len(PARTS)) + shift, means, width, color=styles[run.name].color))
        if len(runs) <= MOST_NUMBERED and len(run.slots):
            panel.bar_label(bars[-1], [_number(mean) for mean in means], fontsize=7, padding=1)
    plain(panel, grid="y")
    panel.axhline(0.0, color="black", linewidth=0.8)
    class_axis(panel, PARTS)
    panel.set_ylabel("mean per slot")
    group_digits(panel.yaxis)
    add_names([panel], runs, bars, own=own)
    return panel


def _averages(run: SlotRun) -> Curve:
    """Return the ends of the slots and the mean rewards until then."""
    times = np.arange(1.0, len(run.slots) + 1.0)
    return times, run.slots["reward"].to_numpy().cumsum() / times


def _ratios(one: Curve, other: Curve) -> Curve:
    both = min(len(one[0]), len(other[0]))
    above, below = one[1][:both], other[1][:both]
    return one[0][:both], np.divide(above, below, out=np.full(both, np.nan), where=below > 0)


def _limits(ratios: Floats) -> tuple[float, float]:
    """Return an interval that holds 98 percent of the ratios, and 1."""
    known = np.append(ratios[np.isfinite(ratios)], 1.0)
    low = min(1.0, float(np.percentile(known, 1.0, method="lower")))
    high = max(1.0, float(np.percentile(known, 99.0, method="higher")))
    room = 0.05 * (high - low) or 0.05
    return low - room, high + room


def _draw(
    runs: list[SlotRun],
    curves: list[Curve],
    label: str,
    colors: Mapping[str, Any] | None,
    axes: Axes | None,
) -> Axes:
    """Draw curves of rewards; their axis begins at 0, unless some are negative."""
    (panel,), own = given_or_new_panels(axes, 1, height=3.2)
    thinned = [thin_out(*curve) for curve in curves]
    lines = draw_slot_curves(panel, runs, thinned, slot_span(runs, None), label=label, colors=colors)
    add_names([panel], runs, lines, own=own)
    values = np.concatenate([values for _, values in curves])
    if values.min(initial=0.0) >= 0.0:
        panel.set_ylim(0.0, 1.05 * values.max(initial=0.0) or 1.0)
    return panel


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
