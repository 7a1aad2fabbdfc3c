"""How much of each resource of a multi-server cluster is in use."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from batch_pictures import check_layout
from matplotlib.figure import Figure
from multiserver_pictures import Nobody, RandomShares, points, run

from desim import InvalidConfiguration
from desim.plotting import resource_utilization
from desim.problems.multiserver import BipartiteGraph, RewardModel


@pytest.mark.parametrize("of", ["allocated", "reserved"])
def test_what_is_in_use_is_what_the_tables_say(of):
    result = run(20, agent=RandomShares(reserves=True))
    panels = resource_utilization(result, of=of)
    assert [axes.get_title("left") for axes in panels] == ["cpu", "gpu"]
    for axes, resource in zip(panels, ("cpu", "gpu"), strict=True):
        ((times, shares),) = points(axes)
        capacity = result.table("nodes").filter(resource=resource)["capacity"].sum()
        assert times == list(range(21))
        amounts = [100.0 * value / capacity for value in result.table("slots")[f"{of}_{resource}"]]
        assert shares == pytest.approx([*amounts, amounts[-1]])
        if of == "allocated":
            given = result.table("allocations").filter(resource=resource).group_by("slot").agg(pl.col("amount").sum())
            by_slot = dict(given.iter_rows())
            assert amounts == pytest.approx([100.0 * by_slot.get(slot, 0.0) / capacity for slot in range(20)])


@pytest.mark.parametrize(("width", "bounds"), [(7, [0, 7, 14, 20]), (1, list(range(21))), (50, [0, 20])])
def test_means_over_bins(width, bounds):
    result = run(20)
    ((times, shares),) = points(resource_utilization(result, bin_width=width)[0])
    used = result.table("slots")["allocated_cpu"].to_numpy() / result.info["total_capacity"][0] * 100.0
    assert times == bounds
    wanted = [used[first:last].mean() for first, last in pairwise(bounds)]
    assert shares == pytest.approx([*wanted, wanted[-1]])


def test_means_are_drawn_for_long_runs_only():
    short, long = (resource_utilization(run(number))[0] for number in (150, 151))
    assert (short.get_title("right"), long.get_title("right")) == ("", "means over 2 slots")
    assert len(points(long)[0][0]) == 77
    assert len(points(resource_utilization(run(151), bin_width=None)[0])[0][0]) == 152


def test_a_window_of_slots():
    axes = resource_utilization({"a": run(20), "b": run(10)}, slots=(8, 30), bin_width=4)[0]
    assert axes.get_xlim() == (8.0, 30.0)
    (longer, _), (shorter, _) = points(axes)
    assert (longer, shorter) == ([8, 12, 16, 20], [8, 10])
    assert points(resource_utilization(run(5), slots=(8, 30))[0]) == [([], [])]


def test_a_resource_that_no_node_has():
    graph = BipartiteGraph([[1.0, 1.0]], [[2.0, 0.0]], resources=["cpu", "gpu"])
    cpu, gpu = resource_utilization(run(4, RewardModel(graph, "log")))
    assert (cpu.get_title("right"), gpu.get_title("right")) == ("", "no node has it")
    assert points(gpu) == [([], [])] and len(points(cpu)[0][0]) == 5


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_panels_have_their_own_places(count):
    names = [f"resource number {number}" for number in range(count)]
    graph = BipartiteGraph(np.ones((2, count)), 3.0 * np.ones((2, count)), resources=names)
    rewards = RewardModel(graph, "log")
    panels = resource_utilization({"one": run(2_001, rewards, Nobody()), "two": run(5, rewards)})
    assert len(panels) == count == len(panels[0].figure.axes)
    check_layout(panels[0].figure)
    labels = [axes.get_xlabel() for axes in panels]
    assert labels == ["slot" if index >= count - 2 else "" for index in range(count)]


def test_what_no_panel_can_show_is_refused():
    result = run(3)
    with pytest.raises(InvalidConfiguration, match="of is 'free'"):
        resource_utilization(result, of="free")
    other = RewardModel(BipartiteGraph([[1.0]], [[1.0]], resources=["cpu"]), "log")
    with pytest.raises(InvalidConfiguration, match=r"results\['b'\] has the resources \['cpu'\]"):
        resource_utilization({"a": result, "b": run(3, other)})
    for width in (0, -1, 2.5, "wide", float("nan"), float("inf")):
        with pytest.raises(InvalidConfiguration, match="bin_width is "):
            resource_utilization(result, bin_width=width)
    with pytest.raises(InvalidConfiguration, match="axes holds 1 Axes, want 2"):
        resource_utilization(result, axes=Figure().subplots())
