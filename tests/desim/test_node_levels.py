"""Bit sets of nodes by free cores, which plans use where jobs request only cores, say what the arrays say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, Node, NodeAvailability, NodeTable, Request
from desim.problems.batch.placement import FirstFit
from desim.problems.batch.resources.node_levels import NodeLevels
from desim.processes.outages import Outage, planned_outages

NODES = {
    "one core each": Node.several(9, 1),
    "alike": Node.several(6, 4),
    "unlike": [*Node.several(3, 4), *Node.several(3, 2, name="m", partition="small"), Node("last", 7)],
}


class SameByArrays(FirstFit):
    """First fit, but not known to be: the arrays decide."""


def random_requests(rng: np.random.Generator, kind: str) -> list[Request]:
    limits = [None, None, None, 1, 2]
    partitions = ["", "", "small"] if kind == "unlike" else [""]
    return [
        Request(
            int(rng.integers(1, 9)),
            int(rng.integers(1, 3)) if kind != "one core each" else 1,
            partition=str(rng.choice(partitions)),
            tasks_per_node=limits[int(rng.integers(5))],
        )
        for _ in range(8)
    ]


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("seed", range(4))
def test_levels_answer_as_the_arrays_do(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = NodeTable(NODES[kind])
    levels, room, policy = NodeLevels(table), NodeAvailability(table), FirstFit()
    shapes = [table.compile(request) for request in random_requests(rng, kind)]
    running: list[Any] = []
    for step in range(120):
        shape = shapes[int(rng.integers(len(shapes)))]
        assert levels.total(shape) == room.total(shape)
        assert levels.fits(shape) == room.fits(shape)
        place = levels.place(shape, policy)
        assert place == room.place(shape, policy)
        if place is None:
            ends = sorted(float(rng.integers(1, 9)) for _ in running)
            releases = list(zip(ends, running, strict=True))
            supposed, by_arrays = levels.copy(), room.copy()
            end = by_arrays.release_until_fits(shape, releases)
            assert supposed.release_until_fits(shape, releases) == end
            least, least_by_arrays = levels.least_of(supposed), room.least_of(by_arrays)
            for other in shapes:
                assert supposed.place(other, policy) == by_arrays.place(other, policy)
                assert least.place(other, policy) == least_by_arrays.place(other, policy)
        else:
            assert not levels.fault(shape, place)
            assert not levels.fault(shape, tuple(place))
            if rng.random() < 0.7:
                for one in (levels, room):
                    one.take(place)
                running.append(place)
                assert bool(levels.fault(shape, place)) == bool(room.fault(shape, place))
        if running and rng.random() < 0.4:
            ended = running.pop(int(rng.integers(len(running))))
            for one in (levels, room):
                one.release(ended)
        if step % 40 == 39:
            down = [int(rng.integers(len(table)))]
            room.down[:] = False
            room.down[down] = True
            levels.up = sum(1 << node for node in range(len(table)) if node not in down)


@pytest.mark.parametrize("change", ["another number", "another node", "a node twice", "no node", "amounts", "GPUs"])
def test_a_wrong_allocation_has_a_fault(change: str) -> None:
    table = NodeTable(Node.several(4, 2))
    levels, shape = NodeLevels(table), table.compile(Request(4))
    place = levels.place(shape, FirstFit())
    assert place is not None
    first, second = place
    levels.take(levels.place_on(shape, [(3, 1)], FirstFit()) or ())
    wrong = {
        "another number": (first,),
        "another node": (first, second._replace(node=3)),
        "a node twice": (first, first),
        "no node": (first, second._replace(node=9)),
        "amounts": (first, second._replace(amounts=(1, 0))),
        "GPUs": (first, second._replace(gpus=((0, 1000),))),
    }
    assert not levels.fault(shape, (first, second))
    assert levels.fault(shape, wrong[change])


@pytest.mark.parametrize("agent", ["fcfs", "sjf", "backfilling-fcfs", "easy-fcfs", "easy-sjf"])
@pytest.mark.parametrize("kind", NODES)
def test_runs_are_those_of_the_arrays(agent: str, kind: str) -> None:
    rng = np.random.default_rng(len(agent))
    only_plain = kind != "unlike"  # then the number of free cores decides
    requests = [None] if only_plain else random_requests(rng, kind)
    jobs, time = [], 0.0
    for number in range(80):
        request = requests[int(rng.integers(len(requests)))]
        cores = int(rng.integers(1, 9)) if request is None else request.num_cores
        time += float(rng.integers(0, 30))
        requested = float(rng.integers(1, 120))
        run_time = requested * float(rng.choice([0.2, 0.5, 1.0, 1.3]))
        jobs.append(Job(number, time, cores, requested, run_time, request=request))
    options: dict[str, Any] = {
        "enforce_time_limit": bool(rng.integers(2)),
        "too_wide": "reject",
        "processes": [planned_outages([Outage(300.0, 500.0, nodes=[0, 2]), Outage(900.0, 950.0, nodes=[1])])],
    }
    runs = []
    for policy in (FirstFit(), SameByArrays()):
        runs.append(simulate(BatchCluster(jobs, nodes=NODES[kind], placement=policy, **options), create(agent)))
    for name in ("jobs", "placements", "interruptions", "requests"):
        assert runs[0].table(name).equals(runs[1].table(name)), name
    assert runs[0].table("jobs")["starting_time"].null_count() < 40


def test_free_resources_are_current_although_levels_suffice() -> None:
    """Whoever reads the arrays sees all jobs, also those that have started since the last time."""

    class Reader:
        name = "reader"

        def __init__(self) -> None:
            self.seen: list[list[int]] = []

        def act(self, observation: Any) -> Any:
            self.seen.append(observation.nodes.room.free[:, 0].tolist())
            assert sum(self.seen[-1]) == observation.free_cores
            return int(observation.queue.row[0])

    jobs = [Job(number, 10.0 * number, 3, 25.0, 25.0) for number in range(4)]
    reader = Reader()
    simulate(BatchCluster(jobs, nodes=Node.several(3, 4)), reader)
    assert reader.seen[:4] == [[4, 4, 4], [1, 4, 4], [0, 2, 4], [3, 0, 3]]
