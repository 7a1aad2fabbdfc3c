"""Metrics of runs on nodes: by hand, and against loops over the moments at which something changes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, Node, Request
from desim.problems.batch.fragmentation import Fragmentation, typical_requests
from desim.problems.batch.nodes import NodeTable
from desim.problems.batch.resources.node_availability import NodeAvailability
from desim.processes.outages import Outage, planned_outages

NODES = [
    *Node.several(2, 8, memory=100, gpus=2, gpu_model="A"),
    Node("big", 16, memory=300, gpus=4, gpu_model="B", resources={"licenses": 2}),
]


def random_jobs(rng: np.random.Generator, count: int = 30) -> list[Job]:
    times = rng.integers(0, 12, count).cumsum().tolist()
    jobs = []
    for number, time in enumerate(times):
        request = Request(
            tasks=int(rng.integers(1, 4)),
            cores=int(rng.integers(1, 4)),
            memory=int(rng.integers(0, 60)),
            gpus=float(rng.choice([0, 1, 0.25, 0.5])),
            resources=(("licenses", 1),) if rng.random() < 0.2 else (),
            exclusive=bool(rng.random() < 0.2),
        )
        jobs.append(Job.of_tasks(number, float(time), request, 99.0, float(rng.integers(0, 60)), number % 3))
    return jobs


class Holding:
    """Follows a run, and adds up what is held from one moment to the next."""

    def __init__(self, problem: Any, table: NodeTable, jobs: list[Job]) -> None:
        self.room, self.table, self.time, self.held = NodeAvailability(table), table, 0.0, {}
        self.measure = Fragmentation(typical_requests(job.request for job in jobs), table)
        self.used = dict.fromkeys(["cores", "memory", "gpus", "gpus_A", "gpus_B", "licenses", "lost"], 0.0)
        self.up = dict.fromkeys(self.used, 0.0)
        problem.on("start", self.start)
        problem.on("completion", self.end)
        problem.on("interruption", self.end)
        problem.on("outage", lambda time, nodes: self.turn(time, nodes, is_down=True))
        problem.on("repair", lambda time, nodes: self.turn(time, nodes, is_down=False))

    def go_on(self, time: float) -> None:
        """Let what is held last until a time."""
        length, self.time = time - self.time, time
        up = ~self.room.down
        held = self.table.capacity - self.room.free
        for column, name in enumerate(self.table.resources):
            self.used[name] += length * float(held[:, column].sum())
            self.up[name] += length * float(self.table.capacity[up, column].sum())
        of_gpus = (self.table.gpus - self.room.gpus).sum(axis=1) / 1000
        there = self.table.gpus.sum(axis=1) / 1000
        for name, nodes in (("gpus", slice(None)), ("gpus_A", slice(2)), ("gpus_B", slice(2, None))):
            self.used[name] += length * float(of_gpus[nodes].sum())
            self.up[name] += length * float((there * up)[nodes].sum())
        self.used["lost"] += length * float(self.measure.of_room(self.room).sum()) / 1000
        self.up["lost"] += length * float(there.sum())

    def start(self, time: float, execution: Any) -> None:
        self.go_on(time)
        self.held[execution.job.job_id] = self.now[execution.job.job_id]
        self.room.take(self.held[execution.job.job_id])

    def end(self, time: float, execution: Any) -> None:
        self.go_on(time)
        self.room.release(self.held.pop(execution.job.job_id))

    def turn(self, time: float, nodes: tuple[str, ...], is_down: bool) -> None:
        self.go_on(time)
        self.room.down[[node.name in nodes for node in self.table.nodes]] = is_down


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), fails=st.booleans())
def test_metrics_are_those_of_a_clock(seed: int, fails: bool) -> None:
    jobs = random_jobs(np.random.default_rng(seed))
    outages = [planned_outages([Outage(50.0, 150.0, nodes=[0, 2]), Outage(100.0, 170.0, nodes=[1])])] * fails
    followed: list[Holding] = []

    def follow(problem: Any) -> Any:
        followed.append(Holding(problem, problem.resources.table, jobs))
        followed[0].now = problem.resources.held  # type: ignore[attr-defined]
        yield problem.env.timeout(0.0)

    problem = BatchCluster(jobs, nodes=NODES, placement="best-fit", too_wide="reject", processes=[follow, *outages])
    result = simulate(problem, create("easy-fcfs"))
    followed[0].go_on(result.end_time)
    values = result.metrics(window=(0.0, result.end_time))
    for name, used in followed[0].used.items():
        want = used / followed[0].up[name]
        found = values["fragmentation_gpus" if name == "lost" else f"utilization_{name}"]
        assert found == pytest.approx(want, rel=1e-9, abs=1e-12), name


def test_by_hand() -> None:
    """Half a GPU of four for half of the time, and all memory of one of two nodes."""
    nodes = Node.several(2, 4, memory=100, gpus=2, gpu_model="A")
    jobs = [
        Job.of_tasks(1, 0.0, Request(cores=2, memory=100, gpus=0.5), 10.0, 10.0),
        Job.of_tasks(2, 0.0, Request(cores=1), 20.0, 20.0),
    ]
    values = simulate(BatchCluster(jobs, nodes=nodes), create("fcfs")).metrics()
    assert values["utilization_memory"] == 0.25
    assert values["utilization_gpus"] == values["utilization_gpus_A"] == 0.5 * 0.5 / 4
    assert values["utilization_cores"] == (2 * 10 + 20) / (8 * 20)
    assert list(values)[-5:] == [
        "utilization_cores",
        "utilization_memory",
        "utilization_gpus",
        "utilization_gpus_A",
        "fragmentation_gpus",
    ]


def test_without_gpus_there_is_no_fragmentation() -> None:
    values = simulate(BatchCluster([Job(1, 0.0, 2, 5.0, 5.0)], nodes=Node.several(2, 4)), create("fcfs")).metrics()
    assert values["utilization_cores"] == 0.25
    assert not {"fragmentation_gpus", "utilization_memory", "utilization_gpus"} & set(values)


def test_windows_add_up() -> None:
    jobs = random_jobs(np.random.default_rng(1))
    result = simulate(BatchCluster(jobs, nodes=NODES, too_wide="reject"), create("fcfs"))
    times = [0.0, 40.0, 100.0, result.end_time]
    parts = [
        (end - begin) * result.metrics(window=(begin, end))["utilization_memory"]
        for begin, end in itertools.pairwise(times)
    ]
    assert sum(parts) / result.end_time == pytest.approx(result.metrics(window=(0.0, times[-1]))["utilization_memory"])
