"""Rewards of multi-server runs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from batch_pictures import check_layout
from batch_pictures import run as run_batch
from hypothesis import given as for_all
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from multiserver_pictures import Nobody, RandomShares, curves, hold, points, run, some_rewards

from desim import InvalidConfiguration, Result
from desim.plotting import (
    average_reward,
    cumulative_reward,
    resource_utilization,
    reward_parts,
    reward_ratio,
)
from desim.plotting._slot_curves import MOST_POINTS, thin_out

FIGURES = (average_reward, cumulative_reward, reward_parts, resource_utilization)
THREE = {"half": run(30, agent=RandomShares(most=0.5)), "all": run(30), "other": run(20, agent=RandomShares(seed=5))}


def reward_of_slots(result: Result) -> np.ndarray:
    """Add up what the jobs of each slot have earned."""
    slots = np.zeros(len(result.table("slots")))
    for job in result.jobs.iter_rows(named=True):
        slots[int(job["submission_time"])] += job["gain"] - job["overhead"]
    return slots


def altered(result: Result, **columns: pl.Expr) -> Result:
    """Return a result with other slots."""
    tables = {name: result.scan(name) for name in result.table_names}
    return Result(tables | {"slots": result.scan("slots").with_columns(**columns)}, result.info)


def test_averages_are_those_of_the_jobs():
    drawn = points(average_reward(THREE))
    for (times, means), result in zip(drawn, THREE.values(), strict=True):
        rewards = reward_of_slots(result)
        assert times == list(range(1, len(rewards) + 1))
        assert means == pytest.approx([rewards[: slot + 1].mean() for slot in range(len(rewards))])


def test_sums_are_those_of_the_jobs():
    drawn = points(cumulative_reward(THREE))
    for (times, sums), result in zip(drawn, THREE.values(), strict=True):
        assert times == list(range(1, len(sums) + 1))
        assert sums == pytest.approx([reward_of_slots(result)[: slot + 1].sum() for slot in range(len(sums))])


def test_where_jobs_hold_resources_the_slots_count():
    result = hold(10)
    ((_, means),) = points(average_reward(result))
    assert means[-1] == pytest.approx(result.table("slots")["reward"].mean())
    speeds = [
        sum(job["reward"] for job in result.jobs.iter_rows(named=True) if job["starting_time"] <= slot < end(job))
        for slot in range(len(means))
    ]
    assert means == pytest.approx([np.mean(speeds[: slot + 1]) for slot in range(len(means))])


def end(job) -> float:
    return np.inf if job["finish_time"] is None else job["finish_time"]


def test_ratios_are_taken_as_far_as_both_runs_go():
    axes = reward_ratio(THREE, of="all")
    averages = dict(zip(THREE, points(average_reward(THREE)), strict=True))
    for name, (times, ratios) in zip(("half", "other"), points(axes), strict=True):
        length = min(30, len(averages[name][0]))
        wanted = np.array(averages["all"][1][:length]) / np.array(averages[name][1][:length])
        assert times == averages["all"][0][:length] and ratios == pytest.approx(wanted.tolist())
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["half", "other"]
    assert axes.get_ylabel() == "average reward:\nall / other run"
    assert curves(axes, "equal")[0].get_ydata() == [1.0, 1.0]


def test_there_is_no_ratio_to_nothing_or_less():
    late = altered(THREE["all"], reward=pl.col("slot").cast(pl.Float64) - 3.0)  # the average is above 0 from slot 7 on
    axes = reward_ratio({"one": THREE["all"], "late": late, "none": run(30, agent=Nobody())}, of="one")
    (_, ratios), (_, nothing) = points(axes)
    assert np.isfinite(ratios).tolist() == [False] * 7 + [True] * 23
    assert np.isnan(nothing).all()
    axes.figure.draw_without_rendering()


def test_single_large_ratios_do_not_stretch_the_axis():
    start = altered(run(300), reward=pl.when(pl.col("slot") == 0).then(1e-6).otherwise(1.0))
    axes = reward_ratio({"one": altered(run(300), reward=pl.lit(1.0)), "two": start}, of="one")
    assert max(points(axes)[0][1]) == pytest.approx(1e6)
    low, high = axes.get_ylim()
    assert 0.9 < low < 1.0 < high < 2.0


def test_a_run_keeps_its_colour():
    colors = {"other": "#123456"}
    wanted = [to_hex(line.get_color()) for line in curves(average_reward(THREE, colors=colors))]
    assert len(set(wanted)) == 3 and wanted[2] == "#123456"
    bars = reward_parts(THREE, colors=colors).containers
    assert [to_hex(bar.patches[0].get_facecolor()) for bar in bars] == wanted
    ratio = reward_ratio(THREE, of="half", colors=colors)
    assert [to_hex(line.get_color()) for line in curves(ratio)] == wanted[1:]
    panel = resource_utilization(THREE, colors=colors)[1]
    assert [to_hex(line.get_color()) for line in curves(panel)] == wanted


def test_bars_are_means_of_the_jobs():
    axes = reward_parts(THREE)
    for bars, result in zip(axes.containers, THREE.values(), strict=True):
        heights = [bar.get_height() for bar in bars]
        count = len(result.table("slots"))
        gain, overhead = (result.jobs[name].sum() / count for name in ("gain", "overhead"))
        assert heights == pytest.approx([gain, overhead, gain - overhead])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["gain", "overhead", "reward"]
    centres = np.array([[bar.get_x() + bar.get_width() / 2 for bar in bars] for bars in axes.containers])
    assert centres.mean(axis=0) == pytest.approx([0.0, 1.0, 2.0])


def test_negative_rewards_are_drawn():
    loss = altered(run(5), reward=pl.lit(-2.0), gain=pl.lit(1.0), overhead=pl.lit(3.0))
    for figure in (average_reward, cumulative_reward, reward_parts):
        axes = figure(loss)
        assert axes.get_ylim()[0] < -2.0
        check_layout(axes.figure)


@for_all(st.integers(1, 3 * MOST_POINTS))
def test_smooth_curves_lose_points_but_not_the_last(length):
    times, values = thin_out(np.arange(1.0, length + 1), -np.arange(1.0, length + 1))
    assert times[-1] == length and len(times) <= MOST_POINTS
    assert (values == -times).all() and len(set(np.diff(times))) <= 1
    assert len(times) == length or length > MOST_POINTS


@pytest.mark.parametrize("figure", FIGURES)
def test_a_run_of_one_slot_and_one_of_none(figure):
    for results in (run(1), run(0), {"one": run(1), "none": run(0)}):
        drawn = figure(results)
        axes = drawn[0] if isinstance(drawn, list) else drawn
        check_layout(axes.figure)
    assert points(average_reward(run(0))) == [([], [])]
    (line,) = curves(average_reward(run(1)))
    assert line.get_marker() == "o"
    assert np.isnan([bar.get_height() for bar in reward_parts(run(0)).containers[0]]).all()


def test_ratios_of_runs_without_slots():
    axes = reward_ratio({"a": run(0), "b": run(0)}, of="a")
    assert points(axes) == [([], [])] and axes.get_ylim() == (0.95, 1.05)


def test_many_runs_and_long_names_find_room():
    results = {f"a policy with the rather long name {number}": THREE["all"] for number in range(9)}
    figures = [figure(results) for figure in FIGURES] + [reward_ratio(results, of=next(iter(results)))]
    for drawn in figures:
        check_layout((drawn[0] if isinstance(drawn, list) else drawn).figure)


def test_one_run_is_named_in_the_title():
    assert average_reward(THREE["all"]).get_title("left") == "random shares"
    cut = hold(20, until=7.0)
    assert cut.info["status"] == "complete" and average_reward({"x": cut}).get_title("left") == "x"
    failed = Result({name: cut.scan(name) for name in cut.table_names}, cut.info | {"status": "failed"})
    assert reward_parts({"x": failed}).get_title("left") == "x (failed)"


def test_axes_of_the_caller_are_used():
    figure = Figure(figsize=(8, 6))
    mine = figure.subplots(2, 1)
    assert average_reward(THREE, axes=mine[0]) is mine[0]
    assert resource_utilization(THREE, axes=mine) == list(mine)
    assert [axes.get_ylabel() for axes in mine] == ["in use (%)"] * 2


def test_what_cannot_be_drawn_is_refused():
    result = run(3)
    for figure in FIGURES:
        with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'multiserver'"):
            figure({"a": result, "b": run_batch([], 4)})
        with pytest.raises(InvalidConfiguration, match="empty mapping"):
            figure({})
        with pytest.raises(InvalidConfiguration, match=r"colors\['a'\]"):
            figure({"a": result}, colors={"a": "no colour"})
    with pytest.raises(InvalidConfiguration, match="of is 'c', want one of at least two runs; there are a, b"):
        reward_ratio({"a": result, "b": result}, of="c")
    with pytest.raises(InvalidConfiguration, match="of is 'a'"):
        reward_ratio({"a": result}, of="a")
    with pytest.raises(InvalidConfiguration, match="of is 'random shares'"):
        reward_ratio(result, of="random shares")


def test_digits_are_grouped():
    large = altered(run(3), reward=pl.lit(2e6))
    axes = cumulative_reward(large)
    axes.figure.draw_without_rendering()
    assert "6,000,000" in [tick.label1.get_text() for tick in axes.yaxis.get_major_ticks()]


def test_pyplot_stays_unknown():
    code = (
        "import sys, numpy as np\n"
        "from desim import simulate\n"
        "from desim import plotting\n"
        "from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel\n"
        "assert 'matplotlib' not in sys.modules and 'networkx' not in sys.modules\n"
        "class Nobody:\n"
        "    def act(self, observation): return None\n"
        "graph = BipartiteGraph([[1.0]], [[1.0]])\n"
        "result = simulate(MultiServerCluster(RewardModel(graph, 'log'), np.ones((3, 1), bool)), Nobody())\n"
        "plotting.bipartite_drawing(graph, allocation=[[1.0]]).figure.draw_without_rendering()\n"
        "plotting.allocation_map(result, 'resource0'), plotting.reward_parts(result)\n"
        "plotting.resource_utilization(result), plotting.reward_ratio({'a': result, 'b': result}, of='a')\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rewards_do_not_depend_on_recorded_allocations():
    without = run(30, some_rewards(), record_allocations=0)
    assert points(average_reward(without)) == points(average_reward(THREE["all"]))
