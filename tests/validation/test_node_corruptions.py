"""Each corruption of a valid run on nodes is caught by the rule that is meant for it, and by no other."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from editable_runs import EditableRun

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import AdvanceReservation, BatchCluster, Job, Node, QualityOfService, Request
from desim.problems.batch.node_rules import NODE_RULES
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from tests.jobs import with_fields

NODES = [
    *Node.several(2, 4, memory=100, gpus=2, gpu_model="A", partition="fast", resources={"licenses": 2}),
    Node("local", 8, memory=100, gpus=2, gpu_model="B", features=frozenset({"disk"})),
]
REQUESTS = [
    Request(tasks=2, cores=2, memory=40, gpus=1, partition="fast", tasks_per_node=1),  # 0: on both of the first nodes
    Request(tasks=2, cores=1, gpus=0.5, gpu_models=("B",)),  # 1: on the third one, from 0 s, too
    Request(cores=2, memory=60, resources=(("licenses", 1),)),  # 2: beside the first
    Request(cores=2, memory=90, features=("disk",), gpus=1),  # 3: beside the second
    Request(tasks=2, cores=2, exclusive=True, excluded_features=("disk",), tasks_per_node=1),  # 4: waits for both nodes
    Request(cores=1, gpus=0.25),  # 5: on the third one, after it
]
JOBS = [Job.of_tasks(10 + number, float(number), request, 20.0, 10.0) for number, request in enumerate(REQUESTS)]


@pytest.fixture(scope="module")
def run() -> EditableRun:
    """Return a run in which node 0 fails for a moment, which cuts the job that is alone there."""
    outages = planned_outages([Outage(15.0, 16.0, nodes=[0])])
    return EditableRun(simulate(BatchCluster(JOBS, nodes=NODES, processes=[outages]), create("fcfs")))


def placed(run: EditableRun, job_id: int, **values: Any) -> Any:
    """Edit the last placement of a job."""
    rows = run.result.table("placements")["job_id"].to_list()
    return run.edited("placements", len(rows) - 1 - rows[::-1].index(job_id), **values)


def asked(run: EditableRun, job_id: int, **values: Any) -> Any:
    """Edit what a job requests."""
    return run.edited("requests", run.find("requests", pl.col("job_id") == job_id), **values)


def of_node(run: EditableRun, number: int, **values: Any) -> Any:
    return run.edited("nodes", number, **values)


CASES: list[Any] = [
    ("nodes", lambda run: of_node(run, 1, node=7), {"placements", "placed_tasks"}),
    ("nodes", lambda run: of_node(run, 2, first_core=9), {"cores_on_nodes"}),
    ("nodes", lambda run: run.described(num_nodes=4), set()),
    ("requests", lambda run: run.dropped("requests", 5), {"cores_on_nodes"}),
    ("requests", lambda run: run.repeated("requests", 5), set()),
    ("requests", lambda run: run.edited("requests", 0, job_id=99), {"cores_on_nodes"}),
    ("placements", lambda run: run.dropped("placements", 4), {"cores_on_nodes"}),
    ("placements", lambda run: run.repeated("placements", 2), {"placed_tasks", "node_capacity"}),
    ("placements", lambda run: placed(run, 15, starting_time=12.5), {"cores_on_nodes"}),
    ("placements", lambda run: placed(run, 15, node=3), {"cores_on_nodes"}),
    ("placed_tasks", lambda run: placed(run, 12, tasks=2), {"cores_on_nodes", "node_capacity"}),
    ("placed_tasks", lambda run: asked(run, 11, tasks_per_node=1), {"request_conservation"}),
    ("suitable_nodes", lambda run: of_node(run, 1, partition="slow"), set()),
    ("suitable_nodes", lambda run: of_node(run, 2, gpu_model="A"), set()),
    ("suitable_nodes", lambda run: of_node(run, 2, features=[]), set()),
    ("suitable_nodes", lambda run: of_node(run, 1, features=["disk"]), set()),
    ("held_gpus", lambda run: placed(run, 11, gpus="0:1000x"), set()),
    ("held_gpus", lambda run: placed(run, 11, gpus="0:400 1:600"), {"node_capacity"}),
    ("held_gpus", lambda run: placed(run, 11, gpus="0:500"), set()),
    ("held_gpus", lambda run: placed(run, 15, gpus="0:200 0:50"), set()),
    ("held_gpus", lambda run: placed(run, 10, gpus="0:500 1:500"), set()),
    ("held_gpus", lambda run: placed(run, 10, gpus=""), set()),
    ("held_gpus", lambda run: placed(run, 10, gpus="2:1000"), {"node_capacity"}),
    ("held_gpus", lambda run: placed(run, 14, gpus="0:1000"), set()),
    ("cores_on_nodes", lambda run: run.edited("jobs", 2, allocated_resources="4-5"), {"core_exclusive"}),
    ("node_capacity", lambda run: of_node(run, 0, memory=99), set()),
    ("node_capacity", lambda run: of_node(run, 0, resources="slots=1"), set()),
    ("node_capacity", lambda run: placed(run, 13, gpus="0:1000"), set()),
    ("exclusive_nodes", lambda run: asked(run, 12, exclusive=True), {"request_conservation", "held_gpus"}),
    ("request_conservation", lambda run: asked(run, 15, memory=1), set()),
    ("request_conservation", lambda run: asked(run, 11, features=["disk"]), set()),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case[0]}-{index}") for index, case in enumerate(CASES)])
def test_a_corruption_is_caught_by_the_rule_that_is_meant(run: EditableRun, case: Any) -> None:
    rule, corrupt, consequences = case
    report = validate(corrupt(run), JOBS)
    assert set(report.counts) == {rule, *consequences}, str(report)


def test_every_rule_has_its_corruption() -> None:
    assert {case[0] for case in CASES} == {rule.name for rule in NODE_RULES}


def test_the_run_is_valid_before(run: EditableRun) -> None:
    report = validate(run.result, JOBS)
    assert report.ok, str(report)
    assert {rule.name for rule in NODE_RULES} <= set(report.checks)
    assert run.result.table("interruptions")["job_id"].to_list() == [14]


RESERVED = [
    Job.of_tasks(number, float(number), Request(cores=4), 30.0, 20.0, user_id=number % 2) for number in range(6)
]
RESERVATIONS = [
    AdvanceReservation(10.0, 50.0, nodes="n0"),
    AdvanceReservation(10.0, 40.0, nodes=["n1"], users=(0,)),
    AdvanceReservation(60.0, 70.0, nodes=[0]),
]


class Careless:
    """Starts the first job that has room, whatever comes."""

    def act(self, observation: Any) -> int | None:
        fits = observation.nodes.fitting().nonzero()[0]
        return int(observation.queue.row[fits[0]]) if len(fits) else None


@pytest.fixture(scope="module")
def reserved() -> EditableRun:
    """Return a run in which a job is cut by maintenance, and one by the reservation of others."""
    nodes = Node.several(2, 4)
    return EditableRun(simulate(BatchCluster(RESERVED, nodes=nodes, reservations=RESERVATIONS), Careless()))


OF_RESERVATIONS: list[Any] = [
    ("reservations", lambda run: run.edited("reservations", 2, start=59.0), {"reservation_nodes"}),
    ("reservations", lambda run: run.edited("reservations", 1, end=55.0), {"reservation_nodes"}),
    ("reservation_nodes", lambda run: run.edited("reservations", 1, cores=3), set()),
    ("reservation_nodes", lambda run: run.dropped("reservation_nodes", 0), {"interruptions"}),
    ("reservation_nodes", lambda run: run.repeated("reservation_nodes", 0), set()),
    ("reservation_nodes", lambda run: run.edited("reservation_users", 0, user_id=1), {"interruptions"}),
    ("interruptions", lambda run: run.edited("reservations", 0, start=9.0), {"reservation_nodes"}),
]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case[0]}-{index}") for index, case in enumerate(OF_RESERVATIONS)]
)
def test_a_corruption_of_reservations_is_caught(reserved: EditableRun, case: Any) -> None:
    rule, corrupt, consequences = case
    report = validate(corrupt(reserved), RESERVED)
    assert set(report.counts) == {rule, *consequences}, str(report)


def test_the_run_with_reservations_is_valid_before(reserved: EditableRun) -> None:
    report = validate(reserved.result, RESERVED)
    assert report.ok, str(report)
    assert {"reservations", "reservation_nodes"} <= set(report.checks)
    assert reserved.result.table("interruptions").select("finish_time").rows() == [(10.0,), (10.0,), (60.0,)]


def test_messages_name_nodes_and_amounts(run: EditableRun) -> None:
    (violation,) = validate(of_node(run, 0, memory=99), JOBS).violations
    message = "at 2.0 s, when job 12 starts, 100 memory of node 'n0' are held, but the node has 99"
    assert str(violation) == f"node_capacity: {message}"


def test_requests_are_compared_with_sequences_only(run: EditableRun) -> None:
    report = validate(asked(run, 15, memory=1), iter(JOBS))
    assert report.ok, str(report)
    assert "conservation" in report.checks


def test_on_nodes_of_several_speeds_work_that_is_left_has_a_bound() -> None:
    """A checkpoint tells seconds where the job was cut; elsewhere nobody knows exactly what they are worth."""
    nodes = [Node("slow", 1, speed=0.5), Node("fast", 1, speed=2.0)]
    outages = planned_outages([Outage(50.0, 900.0, nodes=[0])])
    jobs = [Job.of_tasks(1, 0.0, Request(), 90.0, 40.0)]
    cluster = BatchCluster(jobs, nodes=nodes, checkpoint_interval=20.0, processes=[outages])
    run = EditableRun(simulate(cluster, create("fcfs")))  # 20 s of work are done, the others take 10 s
    assert run.result.jobs.select("finish_time", "run_time").rows() == [(60.0, 20.0)]
    assert validate(run.result, jobs).ok
    for values in ({"run_time": 9.0}, {"status": "killed", "success": False}, {"requested_time": 9.0}):
        report = validate(run.edited("jobs", 0, **values))
        assert set(report.counts) == {"execution_time"} | ({"interruptions"} if "requested_time" in values else set())


def test_suspended_jobs_hold_their_memory() -> None:
    qos = [QualityOfService("urgent", preempts=("standby",)), QualityOfService("standby", mode="suspend")]
    jobs = [
        Job.of_tasks(1, 0.0, Request(cores=4, memory=60), 90.0, 90.0),
        Job.of_tasks(2, 10.0, Request(cores=2, memory=40), 9.0, 9.0),
    ]
    jobs = with_fields(jobs, qos={1: "standby", 2: "urgent"})
    cluster = BatchCluster(jobs, nodes=[Node("n", 4, memory=100)], qos=qos)
    run = EditableRun(simulate(cluster, create("preemptive-fcfs")))
    assert run.result.jobs["starting_time"].to_list() == [19.0, 10.0]
    assert validate(run.result, jobs).ok
    report = validate(run.edited("requests", 1, memory=41))
    assert set(report.counts) == {"node_capacity"} and "101 memory of node 'n'" in str(report)
