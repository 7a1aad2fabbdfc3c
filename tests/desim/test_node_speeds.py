"""Run times on nodes: speeds, run times by models of GPUs, limits, outages, and what validation makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from desim import simulate
from desim.agents.batch import create
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import BatchCluster, Job, Node, NodeTable, QualityOfService, Request, StartPreempting
from desim.processes import Outage, planned_outages
from desim.validation import validate
from tests.jobs import with_fields

FAST, SLOW = Node("fast", 4, speed=2.0), Node("slow", 4, speed=0.5)


def run(jobs: list[Job], nodes: list[Node], agent: str = "fcfs", **options: Any) -> Any:
    result = simulate(BatchCluster(jobs, nodes=nodes, **options), create(agent))
    assert validate(result, jobs).ok
    return result.jobs.sort("job_id")


def test_the_slowest_node_counts() -> None:
    jobs: list[Job] = [
        Job.of_tasks(1, 0.0, Request(1, 4), 100.0, 10.0),  # on the fast node
        Job(2, 0.0, 4, 100.0, 10.0),  # on the slow one
        Job.of_tasks(3, 50.0, Request(2, 4), 100.0, 10.0),  # on both
    ]
    table = run(jobs, [FAST, SLOW])
    assert table["execution_time"].to_list() == [5.0, 20.0, 20.0]
    assert table["run_time"].to_list() == [5.0, 20.0, 20.0]
    assert table["status"].to_list() == ["completed"] * 3


def test_run_times_by_models_and_limits() -> None:
    nodes = [Node("a", 1, gpus=1, gpu_model="V100"), Node("b", 1, gpus=1, gpu_model="K80"), Node("c", 1)]
    times = {"V100": 10.0, "K80": 80.0}
    jobs: list[Job] = [
        Job.of_tasks(number, 0.0, Request(gpus=int(number < 3)), 50.0, 20.0, run_times=times) for number in (1, 2, 3)
    ]
    table = run(jobs, nodes)
    assert table["execution_time"].to_list() == [10.0, 50.0, 20.0]  # the second one is killed at what it requests
    assert table["status"].to_list() == ["completed", "killed", "completed"]
    assert run(jobs, nodes, enforce_time_limit=False)["execution_time"].to_list() == [10.0, 80.0, 20.0]


def test_who_is_cut_starts_afresh_wherever_that_is() -> None:
    jobs: list[Job] = [Job(1, 0.0, 4, 100.0, 20.0)]
    cut = {"processes": [planned_outages([Outage(5.0, 50.0, nodes=[0])])]}
    table = run(jobs, [FAST, SLOW], **cut)
    assert table["execution_time"].to_list() == [40.0]
    assert table["attempts"].to_list() == [2]
    assert run(jobs, [FAST, SLOW], on_outage="lose", **cut)["status"].to_list() == ["lost"]


class Answers:
    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def act(self, observation: Any) -> Any:
        return self.answers.pop(0)


def test_who_is_cut_at_once_and_takes_no_time_elsewhere_ran_where_it_was_last() -> None:
    nodes = [Node("a", 1, gpus=1, gpu_model="A"), Node("b", 1)]
    jobs: list[Job] = [
        Job.of_tasks(1, 0.0, Request(), 10.0, 0.0, run_times={"A": 5.0}),  # on b it takes no time
        Job.of_tasks(2, 0.0, Request(gpus=1), 10.0, 1.0),
    ]
    service = [QualityOfService("low"), QualityOfService("high", 1.0, ("low",))]
    jobs = with_fields(jobs, qos={1: "low", 2: "high"})
    cluster = BatchCluster(jobs, nodes=nodes, qos=service)
    result = simulate(cluster, Answers(0, StartPreempting(1, (0,)), 0))
    columns = ["starting_time", "finish_time", "run_time", "allocated_resources"]
    assert result.jobs.sort("job_id").select(columns).rows() == [(0.0, 0.0, 0.0, "1"), (0.0, 1.0, 1.0, "0")]
    validate(result, jobs).raise_if_invalid()


def test_who_is_suspended_twice_at_one_moment_holds_what_it_holds_once() -> None:
    jobs: list[Job] = [
        Job.of_tasks(1, 0.0, Request(gpus=1), 10.0, 5.0),
        Job.of_tasks(2, 0.0, Request(), 10.0, 0.0),
        Job.of_tasks(3, 0.0, Request(), 10.0, 4.0),
    ]
    service = [QualityOfService("low", mode="suspend"), QualityOfService("high", 1.0, ("low",))]
    jobs = with_fields(jobs, qos={1: "low", 2: "high", 3: "high"})
    cluster = BatchCluster(jobs, nodes=[Node("a", 1, gpus=1)], qos=service)
    result = simulate(cluster, Answers(0, StartPreempting(1, (0,)), None, StartPreempting(2, (0,))))
    cuts = result.table("interruptions").select("job_id", "starting_time", "finish_time", "outcome").rows()
    assert cuts == [(1, 0.0, 0.0, "suspended")] * 2
    assert result.jobs.sort("job_id")["finish_time"].to_list() == [9.0, 0.0, 4.0]
    validate(result, jobs).raise_if_invalid()


def test_on_nodes_that_are_all_slow_who_is_cut_and_waits_may_have_run_for_longer_than_submitted() -> None:
    jobs = [Job(1, 0.0, 4, 100.0, 10.0)]
    nodes = [SLOW]
    outages = [planned_outages([Outage(15.0, 99.0, nodes=[0])])]
    table = run(jobs, nodes, processes=outages)  # it takes 20 s there, but is submitted with 10 s
    assert table.select("starting_time", "finish_time", "run_time").rows() == [(99.0, 119.0, 20.0)]
    cluster = BatchCluster(jobs, nodes=nodes, processes=outages)
    result = simulate(cluster, create("fcfs"), until=50.0)
    assert result.jobs.select("status", "run_time").rows() == [("queued", 10.0)]
    validate(result, jobs).raise_if_invalid()


def test_equal_to_a_plain_loop_and_unlike_what_was_changed() -> None:
    rng = np.random.default_rng(0)
    nodes = [Node(f"n{i}", 4, gpus=2, gpu_model=("A", "B")[i % 2], speed=float(rng.uniform(0.5, 2))) for i in range(5)]
    jobs: list[Job] = []
    for number, time in enumerate(sorted(rng.uniform(0, 500, 60))):
        times = {"A": float(rng.uniform(1, 50))} if rng.random() < 0.5 else {}
        request = Request(int(rng.integers(1, 4)), int(rng.integers(1, 5)))
        jobs.append(Job.of_tasks(number, float(time), request, 200.0, float(rng.uniform(1, 50)), run_times=times))
    cluster = BatchCluster(jobs, nodes=nodes)
    result = simulate(cluster, create("easy"))
    assert validate(result, jobs).ok
    there = result.table("placements").group_by("job_id").agg("node")
    for job_id, numbers in there.iter_rows():
        job = jobs[job_id]
        longest = max(job.run_times.get(nodes[n].gpu_model, job.run_time) / nodes[n].speed for n in numbers)
        assert result.jobs.filter(pl.col("job_id") == job_id)["execution_time"].item() == longest
    other = [job._replace(run_time=job.run_time * 3) for job in jobs]
    assert not validate(result, other).ok


def test_agents_know_nothing_of_it() -> None:
    job = Job.of_tasks(1, 0.0, Request(), 50.0, 20.0, run_times={"A": 1.0})
    assert job.known().run_times == {}
    assert job._replace(submission_time=3.0).run_times == {"A": 1.0}
    assert job != Job.of_tasks(1, 0.0, Request(), 50.0, 20.0)


def test_what_makes_no_sense() -> None:
    with pytest.raises(InvalidConfiguration, match="speed of node 'a'"):
        NodeTable([Node("a", 1, speed=0.0)])
    with pytest.raises(WorkloadError, match=r"job 1: run_times\['A'\]: got -1\.0"):
        Job.of_tasks(1, 0.0, Request(), 50.0, 20.0, run_times={"A": -1.0})
