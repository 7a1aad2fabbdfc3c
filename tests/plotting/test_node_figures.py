"""Figures of runs on nodes, against what jobs held of nodes, added up one by one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from batch_pictures import area, boxes

from desim import InvalidConfiguration, Result, simulate
from desim.agents.batch import create
from desim.problem import kind_of
from desim.problems.batch import AdvanceReservation, BatchCluster, Job, Node, Request
from desim.problems.batch.node_figures import node_gantt, node_map
from desim.processes.outages import Outage, planned_outages

NODES = [
    *Node.several(3, 8, memory=100, gpus=2, gpu_model="A"),
    Node("m", 4, memory=400),
    Node("big", 16, memory=900, gpus=4, gpu_model="B"),
]


def random_run(seed: int = 1, **options: Any) -> Result:
    rng = np.random.default_rng(seed)
    times = rng.exponential(6.0, 40).cumsum().tolist()
    jobs = [
        Job.of_tasks(
            number,
            time,
            Request(
                tasks=int(rng.integers(1, 4)),
                cores=int(rng.integers(1, 5)),
                memory=int(rng.integers(0, 100)),
                gpus=float(rng.choice([0, 0, 1, 0.25])),
            ),
            60.0,
            float(rng.integers(1, 50)),
        )
        for number, time in enumerate(times)
    ]
    return simulate(BatchCluster(jobs, nodes=NODES, too_wide="reject", **options), create("easy"))


def held_of(result: Result, resource: str) -> list[tuple[int, float, float, float]]:
    """Return node, begin, end and amount of all that executions held."""
    requests = {row["arrival_number"]: row for row in result.table("requests").rows(named=True)}
    found = []
    for row in result.table("placements").rows(named=True):
        request = requests[row["arrival_number"]]
        amount = request[resource] * row["tasks"]
        found.append((row["node"], row["starting_time"], row["finish_time"], amount))
    return found


def capacity(number: int, resource: str) -> float:
    return float(getattr(NODES[number], resource))


@pytest.mark.parametrize("resource", ["cores", "memory", "gpus"])
def test_the_map_shows_the_mean_share_that_is_held(resource: str) -> None:
    result = random_run()
    axes = node_map(result, resource)
    (mesh,) = axes.collections[:1]
    values = np.ma.filled(mesh.get_array().reshape(len(NODES), -1), np.nan) / 100.0
    edges = mesh.get_coordinates()[0, :, 0]
    for number in range(len(NODES)):
        whole = capacity(number, resource)
        for column, (begin, end) in enumerate(pairwise(edges)):
            used = sum(
                amount * max(0.0, min(end, last) - max(begin, first))
                for node, first, last, amount in held_of(result, resource)
                if node == number
            )
            if whole:
                assert values[number, column] == pytest.approx(used / (whole * (end - begin)), abs=1e-6)
            else:
                assert np.isnan(values[number, column])


@pytest.mark.parametrize("resource", ["cores", "memory", "gpus"])
def test_the_chart_has_the_area_that_is_held_and_nothing_overlaps(resource: str) -> None:
    result = random_run(2)
    axes = node_gantt(result, resource)
    rows = [number for number in range(len(NODES)) if capacity(number, resource)]
    assert [text.get_text() for text in axes.get_yticklabels()] == [NODES[number].name for number in rows]
    drawn = boxes(axes, "executions")  # x0, x1, y0, y1
    for place, number in enumerate(rows):
        middle = (drawn[:, 2] + drawn[:, 3]) / 2
        held = sum((last - first) * each for node, first, last, each in held_of(result, resource) if node == number)
        assert area(drawn[np.abs(middle - place) <= 0.5]) == pytest.approx(held / capacity(number, resource), rel=1e-6)
    for index, one in enumerate(drawn):
        width, height = (
            np.minimum(drawn[:index, high], one[high]) - np.maximum(drawn[:index, low], one[low])
            for low, high in ((0, 1), (2, 3))
        )
        assert not ((width > 1e-6) & (height > 1e-6)).any()


def test_nodes_that_are_down_are_grey() -> None:
    result = random_run(3, processes=[planned_outages([Outage(20.0, 90.0, nodes=[0])])])
    assert boxes(node_gantt(result), "node down").tolist() == [[20.0, 90.0, -0.5, 0.5]]
    values = node_map(result).collections[0].get_array().reshape(len(NODES), -1)
    assert np.ma.getmaskarray(values)[0].any() or np.isnan(np.ma.filled(values, np.nan))[0].any()


def test_reservations_are_marked() -> None:
    jobs = [Job.of_tasks(n, 0.0, Request(cores=4), 100.0, 100.0, user_id=n) for n in range(2)]
    reservations = [AdvanceReservation(20.0, 400.0, nodes=[1], users=[1]), AdvanceReservation(30.0, 50.0, nodes=[2])]
    result = simulate(BatchCluster(jobs, nodes=Node.several(3, 4), reservations=reservations), create("fcfs"))
    axes = node_gantt(result)
    assert boxes(axes, "reserved for users").tolist() == [[20.0, 100.0, 0.5, 1.5]]
    assert boxes(axes, "node down").tolist() == [[30.0, 50.0, 1.5, 2.5]]


def test_they_are_offered_where_there_are_nodes() -> None:
    on_nodes, on_cores = random_run(), simulate(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], 4), create("fcfs"))
    for figure in ("nodes", "node-gantt"):
        assert kind_of("batch").figures[figure].suits([on_nodes])
        assert not kind_of("batch").figures[figure].suits([on_nodes, on_cores])
    bare = simulate(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], nodes=[Node("n", 4)]), create("fcfs"))
    for figure in ("nodes-gpus", "node-gantt-gpus"):
        assert kind_of("batch").figures[figure].suits([on_nodes])
        assert not kind_of("batch").figures[figure].suits([on_nodes, bare])
    (axes,) = kind_of("batch").figures["node-gantt-gpus"].draw({"a": on_nodes})  # type: ignore[misc]
    assert axes.get_title("right").endswith("4 nodes, gpus")
    with pytest.raises(InvalidConfiguration, match=r"got a run on cores without nodes \('a'\)"):
        node_map({"a": on_cores})
    with pytest.raises(InvalidConfiguration, match="resource: got 'disks', expected one of 'cores', 'memory'"):
        node_gantt(on_nodes, "disks")


def test_partitions_are_together_and_divided_by_a_line() -> None:
    nodes = [Node(name, 2, partition=part) for name, part in (("a", "gpu"), ("b", "cpu"), ("c", "gpu"), ("d", "cpu"))]
    jobs = [Job.of_tasks(1, 0.0, Request(tasks=1, cores=2, partition="gpu"), 10.0, 10.0)]
    axes = node_gantt(simulate(BatchCluster(jobs, nodes=nodes), create("easy")))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["cpu b", "cpu d", "gpu a", "gpu c"]
    assert boxes(axes, "executions").tolist() == [[0.0, 10.0, 1.5, 2.5]]
    (line,) = (part for part in axes.collections if part.get_gid() == "partitions")
    assert [path.vertices[:, 1].tolist() for path in line.get_paths()] == [[1.5, 1.5]]
