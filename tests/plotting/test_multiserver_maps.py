"""Maps of what multi-server jobs are given."""

from __future__ import annotations

import numpy as np
import pytest
from batch_pictures import check_layout, some_jobs
from batch_pictures import run as run_batch
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from multiserver_pictures import Nobody, RandomShares, given, hold, run, some_rewards

from desim import InvalidConfiguration, Result
from desim.plotting import allocation_map
from desim.plotting._allocation_grid import allocation_grid
from desim.plotting._slot_runs import bin_edges, load_slot_runs, nice_count
from desim.problems.multiserver import Gang, RewardModel

TWELVE = run(12)


def mesh(axes):
    (found,) = [collection for collection in axes.collections if collection.get_gid() == "allocations"]
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


@pytest.mark.parametrize("by", ["node", "port"])
@pytest.mark.parametrize("resource", ["cpu", "gpu"])
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
    ids=["slots", "reservations", "copies", "gangs", "holding", "holding, cut", "holding, cut in a slot"],
)
def test_cells_are_what_the_tables_say(result, resource, by):
    axes = allocation_map(result, resource, by=by)
    bounds = edges(axes)
    assert bounds[0] == 0.0 and bounds[-1] == pytest.approx(result.info["end_time"])
    assert cells(axes) == pytest.approx(expected(result, resource, by, bounds), abs=1e-9)
    assert cells(axes).max() > 0


def test_rows_add_up_to_what_is_in_use():
    result = run(20, some_rewards(4, 9))
    amounts = cells(allocation_map(result, "gpu", by="port"))
    assert amounts.sum(axis=0) == pytest.approx(result.table("slots")["allocated_gpu"].to_numpy())
    shares = cells(allocation_map(result, "gpu")) / 100.0
    assert capacities(result, "gpu") @ shares == pytest.approx(result.table("slots")["allocated_gpu"].to_numpy())


def test_reservations_without_a_job_do_not_count():
    result = run(20, agent=RandomShares(reserves=True))
    slots = result.table("slots")
    assert (slots["reserved_cpu"] > slots["allocated_cpu"]).any()
    amounts = cells(allocation_map(result, "cpu", by="port"))
    assert amounts.sum(axis=0) == pytest.approx(slots["allocated_cpu"].to_numpy())


@pytest.mark.parametrize("result", [run(700), hold(350, until=350.0)], ids=["slots", "holding"])
def test_of_many_slots_means_are_drawn(result):
    axes = allocation_map(result, "cpu")
    width = 5 if result.info["end_time"] == 700 else 2
    assert axes.get_title("right") == f"a cell is the mean of {width} slots"
    assert np.diff(edges(axes)).tolist() == [width] * (int(result.info["end_time"]) // width)
    (grid,) = [allocation_grid(run, "cpu", "node", (0.0, 250.0)) for run in load_slot_runs(result)]
    assert grid.width == 1 and grid.values.shape == (4, 250)
    fine = grid.values.reshape(4, -1, width).mean(axis=2)
    assert cells(axes)[:, : fine.shape[1]] == pytest.approx(fine)
    some = expected(result, "cpu", "node", np.array([30.0, 30.0 + width]))
    assert cells(axes)[:, 30 // width] == pytest.approx(some[:, 0])


def test_of_many_nodes_means_are_drawn():
    result = run(3, some_rewards(4, 300))
    axes = allocation_map(result, "cpu")
    assert axes.get_title("right") == "a cell is the mean of 5 nodes"
    capacity = capacities(result, "cpu")
    single = expected(result, "cpu", "node", np.arange(4.0)) * capacity[:, None]
    together = single.reshape(60, 5, 3).sum(axis=1) / capacity.reshape(60, 5).sum(axis=1)[:, None]
    assert cells(axes) == pytest.approx(together)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert [int(name.removeprefix("node")) for name in names] == [5 * row for row in axes.get_yticks()]


@for_all(st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.integers(1, 30))
def test_bins_cover_a_span_without_gaps(one, other, width):
    bounds = bin_edges(min(one, other), max(one, other), width)
    if one == other:
        assert len(bounds) == 0
    else:
        assert (bounds[0], bounds[-1]) == (min(one, other), max(one, other))
        assert (np.diff(bounds) > 0).all() and (np.diff(bounds) <= width).all()
        assert (bounds[1:-1] % width == 0).all()


@for_all(st.floats(0.0, 1e12))
def test_round_counts(number):
    count = nice_count(number)
    assert count >= number and (count < 2.5 * number or count == 1) and str(count).rstrip("0") in ("1", "2", "5")


@settings(max_examples=25, deadline=None)
@for_all(st.integers(0, 11), st.integers(1, 14))
def test_a_window_shows_the_same_cells(begin, length):
    axes = allocation_map(TWELVE, "cpu", slots=(begin, begin + length))
    assert axes.get_xlim() == (begin, begin + length)
    assert edges(axes).tolist() == list(range(begin, min(begin + length, 12) + 1))
    whole = cells(allocation_map(TWELVE, "cpu"))
    assert cells(axes) == pytest.approx(whole[:, begin : begin + length])


def test_samples_are_drawn_until_the_next():
    result, all_slots = run(8, record_allocations=3), run(8)
    axes = allocation_map(result, "cpu")
    wanted = cells(allocation_map(all_slots, "cpu"))[:, [0, 0, 0, 3, 3, 3, 6, 6]]
    assert cells(axes) == pytest.approx(wanted)
    assert axes.get_title("right") == "allocations of every 3 slots"


def test_nodes_without_the_resource_are_grey():
    axes = allocation_map(run(5, some_rewards(without=(1, 3))), "gpu")
    assert np.isnan(cells(axes)).all(axis=1).tolist() == [False, True, False, True]
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["nodes without gpu"]
    assert axes.figure.axes[0] is axes and not allocation_map(run(5), "gpu").figure.legends


def test_rows_stand_in_the_order_of_the_graph():
    result = run(5)
    axes = allocation_map(result, "cpu")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["node0", "node1", "node2", "node3"]
    assert axes.get_ylim() == (3.5, -0.5)
    assert axes.get_ylabel() == "node" and allocation_map(result, "cpu", by="port").get_ylabel() == "port"


def test_several_runs_share_colours_and_slots():
    results = {"few": run(5), "none": run(9, agent=Nobody())}
    first, second = allocation_map(results, "cpu", by="port")
    assert first.get_xlim() == second.get_xlim() == (0.0, 9.0)
    assert len(edges(first)) == 6 and len(edges(second)) == 10
    assert mesh(first).get_clim() == mesh(second).get_clim() == (0.0, cells(first).max())
    assert not cells(second).any()
    assert [axes.get_title("left") for axes in (first, second)] == ["few", "none"]
    check_layout(first.figure)


def test_a_saved_run_gives_the_same_map(tmp_path):
    result = hold(10)
    loaded = Result.load(result.save(tmp_path / "run"))
    assert (cells(allocation_map(loaded, "gpu")) == cells(allocation_map(result, "gpu"))).all()


def test_a_run_of_one_slot_and_one_of_none():
    assert cells(allocation_map(run(1), "cpu")).shape == (4, 1)
    for by in ("node", "port"):
        axes = allocation_map(run(0), "cpu", by=by)
        assert not axes.collections and axes.get_xlim() == (0.0, 1.0)
        axes.figure.draw_without_rendering()
    axes = allocation_map(run(5), "cpu", slots=(7, 9))
    assert not axes.collections and axes.get_xlim() == (7.0, 9.0)


def test_titles_and_marks_have_their_own_places():
    large = run(40, some_rewards(10, 128, without=tuple(range(0, 128, 9))))
    check_layout(allocation_map(large, "gpu").figure)
    check_layout(allocation_map(large, "gpu", by="port").figure)
    check_layout(allocation_map(run(3), "cpu").figure)


def test_axes_of_the_caller_are_used():
    figure = Figure()
    mine = figure.subplots()
    assert allocation_map(run(3), "cpu", axes=mine) is mine and mine.get_xlabel() == "slot"


def test_what_cannot_be_drawn_is_refused():
    result = run(3)
    with pytest.raises(InvalidConfiguration, match=r"resource is 'fpga'.*'cpu', 'gpu'"):
        allocation_map(result, "fpga")
    with pytest.raises(InvalidConfiguration, match="by is 'rack'"):
        allocation_map(result, "cpu", by="rack")
    with pytest.raises(InvalidConfiguration, match="record_allocations was 0"):
        allocation_map({"a": run(3, record_allocations=0)}, "cpu")
    with pytest.raises(InvalidConfiguration, match=r"results\['a'\].*record_allocations was 2, want 1"):
        allocation_map({"a": hold(3, record_allocations=2)}, "cpu")
    with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'multiserver'"):
        allocation_map(run_batch(some_jobs(3, 4), 4), "cpu")
    with pytest.raises(InvalidConfiguration, match="empty mapping"):
        allocation_map({}, "cpu")
    with pytest.raises(InvalidConfiguration, match=r"results\['a'\] is 3"):
        allocation_map({"a": 3}, "cpu")
    with pytest.raises(InvalidConfiguration, match="results is 3"):
        allocation_map(3, "cpu")


@pytest.mark.parametrize("slots", [(3, 3), (-1, 4), (0.5, 2), (1,), 5, ("a", "b"), (0, float("inf"))])
def test_slots_are_two_whole_numbers(slots):
    with pytest.raises(InvalidConfiguration, match=r"slots is .*whole numbers"):
        allocation_map(run(3), "cpu", slots=slots)


def test_a_failed_run_shows_what_it_has():
    result = run(6)
    tables = {name: result.scan(name) for name in result.table_names}
    failed = Result(tables, {**result.info, "status": "failed", "end_time": None})
    axes = allocation_map(failed, "cpu")
    assert axes.get_title("left") == "random shares (failed)"
    assert cells(axes) == pytest.approx(cells(allocation_map(result, "cpu")))


def test_names_with_signs_of_formulas_are_written_as_they_are():
    graph = some_rewards().graph
    names = {"ports": ["a$", "b$", "c"], "nodes": ["$x", "y$", "z", "_"], "resources": ["$cpu$", "gpu"]}
    ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
    odd = type(graph)(graph.requests, graph.capacity, ends, **names)
    axes = allocation_map(run(3, RewardModel(odd, "log")), "$cpu$")
    check_layout(axes.figure)
    assert [text.get_text() for text in axes.get_yticklabels()] == names["nodes"]
