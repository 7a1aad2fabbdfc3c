"""Figures of multi-server runs: maps, rewards and utilization against the tables, and drawings of the graph."""

from __future__ import annotations

from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import polars as pl
import pytest
from batch_pictures import check_layout, legend
from batch_pictures import run as run_batch
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from multiserver_pictures import Nobody, RandomShares, curves, given, hold, points, run, some_rewards

from desim import InvalidConfiguration, Result
from desim.plotting import (
    allocation_map,
    average_reward,
    bipartite_drawing,
    cumulative_reward,
    resource_utilization,
    reward_parts,
    reward_ratio,
)
from desim.plotting.colors import share_colors
from desim.problems.multiserver import BipartiteGraph, Gang, RewardModel, to_networkx
from desim.problems.multiserver.metrics import running_average_reward

FIGURES = (average_reward, cumulative_reward, reward_parts, resource_utilization)
TWELVE = run(12)
THREE = {"half": run(30, agent=RandomShares(most=0.5)), "all": run(30), "other": run(20, agent=RandomShares(seed=5))}


def mesh(axes):
    (found,) = [collection for collection in axes.collections if collection.get_gid() == "cells"]
    return found


def cells(axes) -> np.ndarray:
    return np.ma.filled(mesh(axes).get_array().astype(float), np.nan)


def edges(axes) -> np.ndarray:
    return mesh(axes).get_coordinates()[0, :, 0]


def expected(result: Result, resource: str, by: str, bounds: np.ndarray) -> np.ndarray:
    values = given(result, resource, by, bounds.tolist())
    return values if by == "port" else 100.0 * values / capacities(result, resource)[:, None]


def capacities(result: Result, resource: str) -> np.ndarray:
    return result.table("nodes").filter(resource=resource)["capacity"].to_numpy()


@pytest.mark.parametrize(
    "result",
    [
        TWELVE,
        run(12, agent=RandomShares(reserves=True)),
        run(6, jobs_per_port=3),
        run(6, gang=Gang([[[1.0, 1.0], [2.0, 0.5]], [[3.0, 1.0]], [[1.0, 2.0], [1.0, 1.0]]], 1)),
        hold(10),
        hold(10, until=8.0),
        hold(6, until=4.5, jobs_per_port=2),
    ],
    ids=["slots", "user_reservations", "copies", "gangs", "holding", "holding, cut", "holding, cut in a slot"],
)
def test_cells_are_what_the_tables_say(result):
    for resource, by in (("cpu", "node"), ("gpu", "port")):
        axes = allocation_map(result, resource, by=by)
        bounds = edges(axes)
        assert bounds[0] == 0.0 and bounds[-1] == pytest.approx(result.info["end_time"])
        assert cells(axes) == pytest.approx(expected(result, resource, by, bounds), abs=1e-9)
        assert cells(axes).max() > 0


def test_rows_add_up_to_what_is_in_use_without_reservations():
    result = run(20, some_rewards(4, 9), agent=RandomShares(reserves=True))
    slots = result.table("slots")
    assert (slots["reserved_gpu"] > slots["allocated_gpu"]).any()
    amounts = cells(allocation_map(result, "gpu", by="port"))
    assert amounts.sum(axis=0) == pytest.approx(slots["allocated_gpu"].to_numpy())
    shares = cells(allocation_map(result, "gpu")) / 100.0
    assert capacities(result, "gpu") @ shares == pytest.approx(slots["allocated_gpu"].to_numpy())


@pytest.mark.parametrize("result", [run(700), hold(350, until=350.0)], ids=["slots", "holding"])
def test_of_many_slots_means_are_drawn(result):
    axes = allocation_map(result, "cpu")
    width = 5 if result.info["end_time"] == 700 else 2
    assert axes.get_title("right") == f"a cell is the mean of {width} slots"
    assert np.diff(edges(axes)).tolist() == [width] * (int(result.info["end_time"]) // width)
    fine = cells(allocation_map(result, "cpu", window=(0, 250)))
    assert fine.shape == (4, 250)
    assert cells(axes)[:, : 250 // width] == pytest.approx(fine.reshape(4, -1, width).mean(axis=2))


def test_of_many_nodes_means_are_drawn():
    result = run(3, some_rewards(4, 300))
    axes = allocation_map(result)
    assert axes.get_title("right") == "a cell is the mean of 5 nodes"
    capacity = capacities(result, "cpu")
    single = expected(result, "cpu", "node", np.arange(4.0)) * capacity[:, None]
    together = single.reshape(60, 5, 3).sum(axis=1) / capacity.reshape(60, 5).sum(axis=1)[:, None]
    assert cells(axes) == pytest.approx(together)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert [int(name.removeprefix("node")) for name in names] == [5 * row for row in axes.get_yticks()]


@settings(max_examples=15)
@for_all(st.integers(0, 11), st.integers(1, 14))
def test_a_window_shows_the_same_cells(begin, length):
    axes = allocation_map(TWELVE, "cpu", window=(begin, begin + length))
    assert axes.get_xlim() == (begin, begin + length)
    assert edges(axes).tolist() == list(range(begin, min(begin + length, 12) + 1))
    whole = expected(TWELVE, "cpu", "node", np.arange(13.0))
    assert cells(axes) == pytest.approx(whole[:, begin : begin + length])


def test_samples_are_drawn_until_the_next():
    axes = allocation_map(run(8, record_allocations=3), "cpu")
    assert cells(axes) == pytest.approx(cells(allocation_map(run(8), "cpu"))[:, [0, 0, 0, 3, 3, 3, 6, 6]])
    assert axes.get_title("right") == "allocations of every 3 slots"


def test_nodes_without_the_resource_are_grey_and_rows_stand_in_the_order_of_the_graph():
    axes = allocation_map(run(5, some_rewards(without=(1, 3))), "gpu")
    assert np.isnan(cells(axes)).all(axis=1).tolist() == [False, True, False, True]
    assert legend(axes) == ["nodes without gpu"] and not legend(allocation_map(TWELVE, "gpu"))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["node0", "node1", "node2", "node3"]
    assert axes.get_ylim() == (3.5, -0.5)
    assert axes.get_ylabel() == "node" and allocation_map(TWELVE, "cpu", by="port").get_ylabel() == "port"


def test_several_runs_share_colours_and_slots():
    first, second = allocation_map({"few": run(5), "none": run(9, agent=Nobody())}, "cpu", by="port")
    assert first.get_xlim() == second.get_xlim() == (0.0, 9.0)
    assert len(edges(first)) == 6 and len(edges(second)) == 10
    assert mesh(first).get_clim() == mesh(second).get_clim() == (0.0, cells(first).max())
    assert not cells(second).any()
    check_layout(first.figure)
    check_layout(allocation_map(run(40, some_rewards(10, 128, without=tuple(range(0, 128, 9)))), "gpu").figure)


def test_names_with_signs_of_formulas_are_written_as_they_are():
    graph = some_rewards().graph
    names = {"ports": ["a$", "b$", "c"], "nodes": ["$x", "y$", "z", "_"], "resources": ["$cpu$", "gpu"]}
    ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
    odd = type(graph)(graph.requests, graph.capacity, ends, **names)
    axes = allocation_map(run(3, RewardModel(odd, "log")), "$cpu$")
    check_layout(axes.figure)
    assert [text.get_text() for text in axes.get_yticklabels()] == names["nodes"]


def test_a_saved_and_a_failed_run_show_what_they_have(tmp_path):
    result = hold(10)
    loaded = Result.load(result.save(tmp_path / "run"))
    assert (cells(allocation_map(loaded, "gpu")) == cells(allocation_map(result, "gpu"))).all()
    tables = {name: TWELVE.scan(name) for name in TWELVE.table_names}
    failed = Result(tables, {**TWELVE.info, "status": "failed", "end_time": None})
    assert allocation_map(failed, "cpu").get_title("left") == "random shares (failed)"
    assert cells(allocation_map(failed, "cpu")) == pytest.approx(cells(allocation_map(TWELVE, "cpu")))
    assert points(average_reward(run(30, record_allocations=0))) == points(average_reward(THREE["all"]))


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


def test_averages_and_sums_are_those_of_the_jobs():
    drawn = zip(points(average_reward(THREE)), points(cumulative_reward(THREE)), THREE.values(), strict=True)
    for (times, means), (same, sums), result in drawn:
        rewards = reward_of_slots(result)
        assert times == same == list(range(1, len(rewards) + 1))
        assert means == pytest.approx([rewards[: slot + 1].mean() for slot in range(len(rewards))])
        assert sums == pytest.approx([rewards[: slot + 1].sum() for slot in range(len(rewards))])


def test_where_jobs_hold_resources_the_slots_count():
    for until in (np.inf, 8.0, 7.25):
        result = hold(10, until=until)
        ((times, means),), ((_, sums),) = points(average_reward(result)), points(cumulative_reward(result))
        wanted = running_average_reward(result)
        end = result.info["end_time"]
        assert times == pytest.approx([min(slot + 1.0, end) for slot in range(len(means))])
        assert means == pytest.approx(wanted["average_reward"].to_list())
        assert sums == pytest.approx(wanted["cumulative_reward"].to_list())
        drawn = [bar.get_height() for bar in reward_parts(result).containers[0]]
        values = result.metrics()
        assert drawn == pytest.approx([values[f"average_{part}"] for part in ("gain", "overhead", "reward")])


def test_ratios_are_taken_as_far_as_both_runs_go():
    axes = reward_ratio(THREE, of="all")
    averages = dict(zip(THREE, points(average_reward(THREE)), strict=True))
    for name, (times, ratios) in zip(("half", "other"), points(axes), strict=True):
        length = min(30, len(averages[name][0]))
        wanted = np.array(averages["all"][1][:length]) / np.array(averages[name][1][:length])
        assert times == averages["all"][0][:length] and ratios == pytest.approx(wanted.tolist())
    assert legend(axes) == ["half", "other"] and axes.get_ylabel() == "average reward:\nall / other run"
    assert curves(axes, "equal")[0].get_ydata() == [1.0, 1.0]
    late = altered(THREE["all"], reward=pl.col("slot").cast(pl.Float64) - 3.0)  # the average is above 0 from slot 7 on
    axes = reward_ratio({"one": THREE["all"], "late": late, "none": run(30, agent=Nobody())}, of="one")
    (_, ratios), (_, nothing) = points(axes)
    assert np.isfinite(ratios).tolist() == [False] * 7 + [True] * 23 and np.isnan(nothing).all()
    none = reward_ratio({"a": run(0), "b": run(0)}, of="a")
    assert points(none) == [([], [])] and none.get_ylim() == (0.95, 1.05)


def test_single_large_ratios_do_not_stretch_the_axis():
    start = altered(run(300), reward=pl.when(pl.col("slot") == 0).then(1e-6).otherwise(1.0))
    axes = reward_ratio({"one": altered(run(300), reward=pl.lit(1.0)), "two": start}, of="one")
    assert max(points(axes)[0][1]) == pytest.approx(1e6)
    low, high = axes.get_ylim()
    assert 0.9 < low < 1.0 < high < 2.0


def test_a_run_keeps_its_colour():
    wanted = [to_hex(line.get_color()) for line in curves(average_reward(THREE))]
    assert len(set(wanted)) == 3
    bars = reward_parts(THREE).containers
    assert [to_hex(bar.patches[0].get_facecolor()) for bar in bars] == wanted
    assert [to_hex(line.get_color()) for line in curves(reward_ratio(THREE, of="half"))] == wanted[1:]
    assert [to_hex(line.get_color()) for line in curves(resource_utilization(THREE)[1])] == wanted


def test_bars_are_means_of_the_jobs():
    axes = reward_parts(THREE)
    for bars, result in zip(axes.containers, THREE.values(), strict=True):
        count = len(result.table("slots"))
        gain, overhead = (result.jobs[name].sum() / count for name in ("gain", "overhead"))
        assert [bar.get_height() for bar in bars] == pytest.approx([gain, overhead, gain - overhead])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["gain", "overhead", "reward"]
    centres = np.array([[bar.get_x() + bar.get_width() / 2 for bar in bars] for bars in axes.containers])
    assert centres.mean(axis=0) == pytest.approx([0.0, 1.0, 2.0])
    loss = altered(run(5), reward=pl.lit(-2.0), gain=pl.lit(1.0), overhead=pl.lit(3.0))
    assert all(figure(loss).get_ylim()[0] < -2.0 for figure in (average_reward, cumulative_reward, reward_parts))
    large = cumulative_reward(altered(run(3), reward=pl.lit(2e6)))
    large.figure.draw_without_rendering()
    assert "6,000,000" in [tick.label1.get_text() for tick in large.yaxis.get_major_ticks()]


def test_smooth_curves_lose_points_but_not_the_last():
    result = altered(run(7), reward=pl.lit(1.0))
    many = pl.concat([result.table("slots")] * 1_000).with_columns(reward=pl.int_range(pl.len()).cast(pl.Float64))
    tables = {name: result.scan(name) for name in result.table_names} | {"slots": many.lazy()}
    ((times, means),) = points(average_reward(Result(tables, result.info)))
    assert times[-1] == 7_000 and 1_000 < len(times) <= 3_000 and len(set(np.diff(times))) == 1
    assert means == pytest.approx([(time - 1.0) / 2.0 for time in times])


def test_runs_of_one_slot_or_none_and_many_runs_find_room():
    many = {f"a policy with the rather long name {number}": THREE["all"] for number in range(9)}
    for figure in FIGURES:
        for results in (run(1), {"one": run(1), "none": run(0)}):
            drawn = figure(results)
            (drawn[0] if isinstance(drawn, list) else drawn).figure.draw_without_rendering()
        drawn = figure(many)
        check_layout((drawn[0] if isinstance(drawn, list) else drawn).figure)
    assert points(average_reward(run(0))) == [([], [])]
    (line,) = curves(average_reward(run(1)))
    assert line.get_marker() == "o"
    assert np.isnan([bar.get_height() for bar in reward_parts(run(0)).containers[0]]).all()
    for empty in (allocation_map(run(0), "cpu"), allocation_map(TWELVE, "cpu", window=(17, 19))):
        assert not empty.collections and np.diff(empty.get_xlim()) > 0
        empty.figure.draw_without_rendering()


def test_one_run_is_named_in_the_title_and_axes_of_the_caller_are_used():
    cut = hold(20, until=7.0)
    assert average_reward(THREE["all"]).get_title("left") == "random shares"
    failed = Result({name: cut.scan(name) for name in cut.table_names}, cut.info | {"status": "failed"})
    assert reward_parts({"x": failed}).get_title("left") == "x (failed)"
    mine = Figure(figsize=(8, 6)).subplots(2, 1)
    assert average_reward(THREE, axes=mine[0]) is mine[0]
    assert resource_utilization(THREE, axes=mine) == list(mine)
    assert [axes.get_ylabel() for axes in mine] == ["in use (%)"] * 2
    assert allocation_map(TWELVE, axes=mine[1]) is mine[1] and mine[1].get_xlabel() == "slot"


def test_what_is_in_use_is_what_the_tables_say():
    result = run(20, agent=RandomShares(reserves=True))
    panels = resource_utilization(result)
    assert [axes.get_title("left") for axes in panels] == ["cpu", "gpu"]
    for axes, resource in zip(panels, ("cpu", "gpu"), strict=True):
        ((times, shares),) = points(axes)
        capacity = result.table("nodes").filter(resource=resource)["capacity"].sum()
        table = result.table("allocations").filter(resource=resource).group_by("slot").agg(pl.col("amount").sum())
        by_slot = dict(table.iter_rows())
        amounts = [100.0 * by_slot.get(slot, 0.0) / capacity for slot in range(20)]
        assert times == list(range(21)) and shares == pytest.approx([*amounts, amounts[-1]])
    long = run(151)
    axes = resource_utilization(long)[0]
    ((times, shares),) = points(axes)
    used = long.table("slots")["allocated_cpu"].to_numpy() / long.info["total_capacity"][0] * 100.0
    wanted = [used[first:last].mean() for first, last in pairwise(map(int, times))]
    assert axes.get_title("right") == "means over 2 slots" and times == [*range(0, 151, 2), 151]
    assert shares == pytest.approx([*wanted, wanted[-1]])
    assert average_reward({"a": run(20)}, window=(8, 12)).get_xlim() == pytest.approx((8, 12))
    axes = resource_utilization({"a": run(20), "b": run(10)}, window=(8, 30))[0]
    (longer, _), (shorter, _) = points(axes)
    assert axes.get_xlim() == (8.0, 30.0) and (longer[-1], shorter) == (20.0, [8.0, 9.0, 10.0])


@pytest.mark.parametrize("count", [1, 3])
def test_panels_have_their_own_places(count):
    names = [f"resource number {number}" for number in range(count)]
    graph = BipartiteGraph(np.ones((2, count)), 3.0 * np.ones((2, count)), resources=names)
    rewards = RewardModel(graph, "log")
    panels = resource_utilization({"one": run(2_001, rewards, Nobody()), "two": run(5, rewards)})
    assert len(panels) == count == len(panels[0].figure.axes)
    check_layout(panels[0].figure)
    assert [axes.get_xlabel() for axes in panels] == ["slot" if index >= count - 2 else "" for index in range(count)]


def test_a_resource_that_no_node_has():
    graph = BipartiteGraph([[1.0, 1.0]], [[2.0, 0.0]], resources=["cpu", "gpu"])
    cpu, gpu = resource_utilization(run(4, RewardModel(graph, "log")))
    assert (cpu.get_title("right"), gpu.get_title("right")) == ("", "no node has it")
    assert points(gpu) == [([], [])] and len(points(cpu)[0][0]) == 5


def test_what_cannot_be_drawn_is_refused():
    result = run(3)
    for figure in (*FIGURES, allocation_map):
        with pytest.raises(InvalidConfiguration, match="problem 'batch', expected 'multiserver'"):
            figure({"a": result, "b": run_batch([], 4)})
        with pytest.raises(InvalidConfiguration, match="empty mapping"):
            figure({})
    for results, of in (({"a": result, "b": result}, "c"), ({"a": result}, "a"), (result, "random shares")):
        with pytest.raises(InvalidConfiguration, match=f"of: got '{of}', expected one of at least two runs"):
            reward_ratio(results, of=of)
    with pytest.raises(InvalidConfiguration, match=r"resource: got 'fpga'.*'cpu', 'gpu'"):
        allocation_map(result, "fpga")
    with pytest.raises(InvalidConfiguration, match="by: got 'rack'"):
        allocation_map(result, "cpu", by="rack")
    with pytest.raises(InvalidConfiguration, match="record_allocations: got 0, expected 1"):
        allocation_map({"a": run(3, record_allocations=0)}, "cpu")
    with pytest.raises(InvalidConfiguration, match=r"results\['a'\].*record_allocations: got 2, expected 1"):
        allocation_map({"a": hold(3, record_allocations=2)}, "cpu")
    other = RewardModel(BipartiteGraph([[1.0]], [[1.0]], resources=["cpu"]), "log")
    with pytest.raises(InvalidConfiguration, match=r"results\['b'\]: resources: got \['cpu'\]"):
        resource_utilization({"a": result, "b": run(3, other)})


SMALL = BipartiteGraph(
    [[2.0, 1.0], [4.0, 0.0], [1.0, 1.0]],
    [[8.0, 2.0], [4.0, 0.0], [4.0, 1.0], [16.0, 4.0], [2.0, 0.0]],
    [(0, 0), (0, 2), (1, 1), (1, 3), (1, 4), (2, 0), (2, 1), (2, 3)],
    ports=["train", "batch", "web"],
    nodes=["a", "b", "c", "d", "e"],
    resources=["cpu", "gpu"],
)
GIVEN = 0.5 * SMALL.channel_requests * np.arange(8)[:, None] / 7.0
LARGE = some_rewards(10, 128).graph


def graphs() -> st.SearchStrategy[BipartiteGraph]:
    """Return a strategy for graphs of up to 5 ports and 7 nodes, not all of them with channels."""

    def build(ports: int, nodes: int, mask: int) -> BipartiteGraph:
        ends = [(cell // nodes, cell % nodes) for cell in range(ports * nodes) if mask >> cell & 1]
        return BipartiteGraph(np.ones((ports, 1)), np.ones((nodes, 1)), ends)

    return st.builds(build, st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**35 - 1))


def crossings_of(ends: np.ndarray) -> int:
    """Count crossing lines between two columns by looking at all pairs."""
    return sum(bool((one[0] - other[0]) * (one[1] - other[1]) < 0) for one, other in combinations(ends, 2))


def channels(axes):
    (found,) = [collection for collection in axes.collections if collection.get_gid() == "channels"]
    return found


def segments(axes) -> np.ndarray:
    return np.array(channels(axes).get_segments()).reshape(-1, 2, 2)


def vertices(axes):
    """Return the two collections of discs, ports first."""
    return [collection for collection in axes.collections if collection.get_gid() == "nodes"]


def names(axes) -> dict[str, list[float]]:
    return {text.get_text(): list(text.xy) for text in axes.texts}


@settings(max_examples=15)
@for_all(graphs())
def test_lines_join_the_vertices_of_channels_and_cross_no_more_than_given(graph):
    axes = bipartite_drawing(graph)
    ports, nodes = (collection.get_offsets() for collection in vertices(axes))
    assert len({*map(tuple, ports.tolist())}) == graph.num_ports
    assert len({*map(tuple, nodes.tolist())}) == graph.num_nodes
    lines = segments(axes)
    assert lines[:, 0].tolist() == ports[graph.channel_port].tolist()
    assert lines[:, 1].tolist() == nodes[graph.channel_node].tolist()
    ends = np.column_stack([graph.channel_port, graph.channel_node])
    assert crossings_of(lines[:, :, 1]) <= crossings_of(ends)


@settings(max_examples=10)
@for_all(st.permutations(range(9)))
def test_stars_and_pairs_do_not_cross(order):
    pairs = BipartiteGraph(np.ones((9, 1)), np.ones((9, 1)), enumerate(order))
    stars = BipartiteGraph(np.ones((3, 1)), np.ones((9, 1)), [(leaf % 3, node) for leaf, node in enumerate(order)])
    for graph in (pairs, stars):
        assert crossings_of(segments(bipartite_drawing(graph))[:, :, 1]) == 0


def test_sorting_is_worth_it():
    ends = np.column_stack([LARGE.channel_port, LARGE.channel_node])
    assert crossings_of(segments(bipartite_drawing(LARGE))[:, :, 1]) < 0.7 * crossings_of(ends)


def test_names_stand_at_their_vertices():
    axes = bipartite_drawing(SMALL)
    ports, nodes = (collection.get_offsets().tolist() for collection in vertices(axes))
    places = names(axes)
    assert places == dict(zip((*SMALL.ports, *SMALL.nodes), ports + nodes, strict=True))
    assert {place[0] for place in ports} == {0.0} and {place[0] for place in nodes} == {1.0}
    assert set(names(bipartite_drawing(LARGE))) == set(LARGE.ports)
    graph = to_networkx(SMALL)
    found = {frozenset(map(tuple, line)) for line in segments(axes).tolist()}
    assert found == {frozenset((tuple(places[one]), tuple(places[other]))) for one, other in graph.edges}
    assert nx.is_bipartite(graph)


@pytest.mark.parametrize("resource", [None, "cpu", "gpu"])
def test_areas_are_in_proportion(resource):
    axes = bipartite_drawing(SMALL, resource=resource)
    wanted = np.bincount(SMALL.channel_port), np.bincount(SMALL.channel_node)
    if resource is not None:
        column = SMALL.resources.index(resource)
        wanted = SMALL.requests[:, column], SMALL.capacity[:, column]
    for collection, sizes in zip(vertices(axes), wanted, strict=True):
        areas, some = collection.get_sizes(), sizes > 0
        assert areas[some] / areas.max() == pytest.approx(sizes[some] / sizes.max())
        assert (areas[~some] <= areas[some].min()).all()


def test_amounts_widen_lines():
    axes = bipartite_drawing(SMALL, allocation=GIVEN, resource="cpu")
    widths, amounts = np.asarray(channels(axes).get_linewidths()), GIVEN[:, 0]
    assert amounts[0] == 0.0 and (amounts[1:] > 0).all()
    assert widths == pytest.approx(widths[0] + (widths.max() - widths[0]) * amounts / amounts.max())
    assert widths[0] < widths[1:].min()
    grey = to_rgba("#C8C8C8")[:3]
    assert [tuple(color[:3]) == grey for color in channels(axes).get_colors().tolist()] == [True] + [False] * 7
    # without a resource a width is the mean share of the request
    widths = np.asarray(channels(bipartite_drawing(SMALL, allocation=GIVEN)).get_linewidths())
    shares = []
    for channel, port in enumerate(SMALL.channel_port):
        asked = [resource for resource in range(2) if SMALL.requests[port, resource] > 0]
        shares.append(np.mean([GIVEN[channel, resource] / SMALL.requests[port, resource] for resource in asked]))
    assert (widths - 0.3)[1:] / (widths - 0.3)[-1] == pytest.approx(np.array(shares)[1:] / shares[-1])


def test_nodes_are_the_darker_the_more_they_have_given():
    nodes = vertices(bipartite_drawing(SMALL, allocation=GIVEN, resource="cpu"))[1]
    shares = [GIVEN[SMALL.channel_node == node, 0].sum() / SMALL.capacity[node, 0] for node in range(5)]
    assert nodes.get_facecolors() == pytest.approx(share_colors()(shares))
    nodes = vertices(bipartite_drawing(SMALL, allocation=GIVEN))[1]
    both = np.array([GIVEN[SMALL.channel_node == node].sum(axis=0) for node in range(5)])
    largest = np.divide(both, SMALL.capacity, out=np.zeros_like(both), where=SMALL.capacity > 0).max(axis=1)
    assert nodes.get_facecolors() == pytest.approx(share_colors()(largest))
    red, green, blue = share_colors()(np.linspace(0.0, 1.0, 50))[:, :3].T
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert (np.diff(luminance) < 0).all() and luminance[0] == pytest.approx(1.0)


def test_channels_have_the_colours_of_their_ports_and_many_nodes_stand_in_columns():
    axes = bipartite_drawing(LARGE)
    colors = vertices(axes)[0].get_facecolors()
    assert channels(axes).get_colors()[:, :3].tolist() == colors[LARGE.channel_port][:, :3].tolist()
    ranked = colors[np.argsort(vertices(axes)[0].get_offsets()[:, 1])]
    assert (ranked[1:] != ranked[:-1]).any(axis=1).all()
    assert len(set(vertices(axes)[1].get_offsets()[:, 0])) == 1
    wide = bipartite_drawing(some_rewards(4, 600).graph)
    places = vertices(wide)[1].get_offsets()
    assert len(set(places[:, 0])) > 1 and (places[:, 0] >= 1.0).all() and places[:, 0].max() < wide.get_xlim()[1]
    assert len(set(places[:, 1])) == 600 and places[:, 1].min() > 0.0 and places[:, 1].max() < 1.0


@pytest.mark.parametrize("graph", [SMALL, some_rewards(40, 40).graph], ids=["small", "many names"])
def test_names_have_their_own_places(graph):
    figure = bipartite_drawing(graph, allocation=0.1 * graph.channel_requests, resource="gpu").figure
    figure.draw_without_rendering()
    axes, bar = figure.axes
    boxes = [text.get_window_extent() for text in [*axes.texts, axes._right_title, bar.yaxis.label]]
    inside = figure.bbox.padded(1.0)
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes)
    assert all(inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes)
    for one, other in combinations(boxes, 2):
        wide, high = min(one.x1, other.x1) - max(one.x0, other.x0), min(one.y1, other.y1) - max(one.y0, other.y0)
        assert min(wide, high) < 1.0


def test_odd_names_and_what_cannot_be_drawn():
    graph = BipartiteGraph([[1.0]], [[1.0]], ports=["$x"], nodes=["y$" * 20], resources=["c$u$"])
    mine = Figure().subplots()
    assert bipartite_drawing(graph, allocation=[[0.0]], resource="c$u$", axes=mine) is mine
    mine.figure.draw_without_rendering()
    assert list(names(mine)) == ["$x", ("y$" * 20)[:23] + "…"]
    with pytest.raises(InvalidConfiguration, match="resource: got 'fpga', expected one of 'cpu', 'gpu'"):
        bipartite_drawing(SMALL, resource="fpga")
    with pytest.raises(InvalidConfiguration, match=r"allocation: got shape \(7, 2\), expected \(8, 2\)"):
        bipartite_drawing(SMALL, allocation=GIVEN[:7])
    with pytest.raises(InvalidConfiguration, match=r"from batch to d: got \[nan, 1.0\], expected amounts >= 0"):
        bipartite_drawing(SMALL, allocation=np.where(np.arange(16).reshape(8, 2) == 6, np.nan, 1.0))
    with pytest.raises(InvalidConfiguration, match=r"allocation: expected an array of numbers: .*'much'"):
        bipartite_drawing(SMALL, allocation="much")
