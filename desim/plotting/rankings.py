"""Ranks of agents with critical differences, and performance profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.plotting._panels import new_figure, plain
from desim.plotting._style import line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.statistics import Profile, Ranking

__all__ = ["critical_differences", "performance_profiles"]

#: Ratios beyond this one would press all others against the axis.
LARGEST_LINEAR = 5.0


def critical_differences(ranking: Ranking) -> Axes:
    """Draw mean ranks on a line, with bars over agents that cannot be told apart.

    Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
    Research 7, 2006.

    Parameters
    ----------
    ranking : Ranking
        Of :func:`desim.statistics.rank_agents`.

    Returns
    -------
    Axes
        On a new figure; the best agent is at the left.
    """
    names, ranks = list(ranking.mean_ranks), list(ranking.mean_ranks.values())
    half, groups = (len(names) + 1) // 2, ranking.groups()
    rows = 1.0 + 0.35 * len(groups)
    figure = new_figure(7.5, 0.9 + 0.3 * (half + rows))
    axes = figure.subplots()
    axes.set(xlim=(1 - 0.02, len(names) + 0.02), ylim=(half + rows, -0.2))
    for place, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        is_left = place < half
        level = rows + (place if is_left else len(names) - 1 - place)
        edge = 1.0 if is_left else float(len(names))
        axes.plot([rank, rank, edge], [-0.2, level, level], color="0.4", linewidth=0.9, clip_on=False)
        side, shift = ("right", -5) if is_left else ("left", 5)
        text = f"{name}  {rank:.2f}" if is_left else f"{rank:.2f}  {name}"
        look: dict[str, Any] = {
            "annotation_clip": False,
            "parse_math": False,
            "fontsize": 9,
            "ha": side,
            "va": "center",
        }
        axes.annotate(text, (edge, level), xytext=(shift, 0), textcoords="offset points", **look)
    for number, group in enumerate(groups):
        ends = [ranking.mean_ranks[group[0]] - 0.02, ranking.mean_ranks[group[-1]] + 0.02]
        axes.plot(ends, [0.45 + 0.35 * number] * 2, color="black", linewidth=3.5, solid_capstyle="butt")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(range(1, len(names) + 1))
    axes.set_yticks([])
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    count, apart = ranking.num_scenarios, ranking.critical_difference
    axes.set_xlabel(f"mean rank over {count} scenarios; ranks that differ by {apart:.2f} are different", fontsize=9)
    return axes


def performance_profiles(profile: Profile, *, colors: Mapping[str, Any] | None = None) -> Axes:
    """Draw in which share of the scenarios agents are how near to the best.

    Parameters
    ----------
    profile : Profile
        Of :func:`desim.statistics.performance_profile`.
    colors : mapping of str to colour, optional
        Colours of some agents, by name.

    Returns
    -------
    Axes
        On a new figure, with steps at the ratios of the profile; logarithmic if some are above 5.
    """
    figure = new_figure(7.0, 3.6)
    axes = figure.subplots()
    styles = line_styles(profile.shares, colors)
    end = profile.ratios[-1] + 0.03 * max(profile.ratios[-1] - 1.0, 0.01)
    ratios = np.append(profile.ratios, end)
    for name, shares in profile.shares.items():
        look = {"color": styles[name].color, "linestyle": styles[name].dashes}
        axes.step(ratios, np.append(shares, shares[-1]), where="post", label=name, **look)
    plain(axes)
    axes.set(xlim=(1.0, end), ylim=(0.0, 1.02), xlabel="cost over that of the best", ylabel="share of the scenarios")
    if profile.ratios[-1] > LARGEST_LINEAR:
        _logarithmic(axes)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    return axes


def _logarithmic(axes: Axes) -> None:
    """Let equal factors be equally far apart, with plain numbers at the ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
