"""Pictures of ranks and profiles show the numbers that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from desim.plotting import critical_differences, performance_profiles
from desim.statistics import performance_profile, rank_agents

RNG = np.random.default_rng(0)
COSTS = {f"agent $ {number}": np.exp(RNG.normal(0.2 * number, 0.3, 12)) for number in range(5)}


def test_every_agent_stands_at_its_rank_and_bars_over_what_is_alike() -> None:
    ranking = rank_agents(COSTS, better="lower")
    axes = critical_differences(ranking)
    lines = [line.get_xdata() for line in axes.lines]
    stems, bars = lines[:5], lines[5:]
    assert [float(xs[0]) for xs in stems] == list(ranking.mean_ranks.values())
    assert [float(xs[-1]) for xs in stems] == [1.0, 1.0, 1.0, 5.0, 5.0]
    assert len(bars) == len(ranking.groups()) > 0
    for ends, group in zip(bars, ranking.groups(), strict=True):
        within = [name for name, rank in ranking.mean_ranks.items() if ends[0] <= rank <= ends[1]]
        assert tuple(within) == group
    for text, (name, rank) in zip(axes.texts, ranking.mean_ranks.items(), strict=True):
        assert name in text.get_text()
        assert f"{rank:.2f}" in text.get_text()
    assert f"{ranking.critical_difference:.2f}" in axes.get_xlabel()
    axes.figure.canvas.draw()


def test_profiles_are_steps_up_to_the_end() -> None:
    profile = performance_profile(COSTS)
    axes = performance_profiles(profile, colors={"agent $ 0": "red"})
    assert [line.get_label() for line in axes.lines] == list(COSTS)
    assert axes.lines[0].get_color() == "red"
    for line, shares in zip(axes.lines, profile.shares.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata()[:-1], shares)
        np.testing.assert_array_equal(line.get_xdata()[:-1], profile.ratios)
        assert line.get_drawstyle() == "steps-post"
    assert axes.get_xlim()[1] > profile.ratios[-1]
    axes.figure.canvas.draw()


def test_one_agent_that_is_always_best() -> None:
    axes = performance_profiles(performance_profile({"only": [2.0, 3.0]}))
    assert axes.get_xlim()[1] > 1.0
    assert axes.lines[0].get_ydata().tolist() == pytest.approx([1.0, 1.0])


def test_ratios_far_apart_are_on_a_logarithmic_axis() -> None:
    assert performance_profiles(performance_profile(COSTS, [1.0, 4.9])).get_xscale() == "linear"
    axes = performance_profiles(performance_profile({"near": [1.0, 1.0], "far": [2.0, 400.0]}))
    assert axes.get_xscale() == "log"
    axes.figure.canvas.draw()
    low, high = axes.get_xlim()
    names = [tick.get_text() for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high]
    assert names == ["1", "2", "5", "10", "20", "50", "100", "200"]
