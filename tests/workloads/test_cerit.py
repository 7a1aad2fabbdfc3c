"""CERIT-SC's log: requests in the words of TORQUE, nodes that the log uses, and the log repeated on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from workload_files import data, refusal

from desim import simulate
from desim.agents.batch import TraceReplay, create
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job, Request
from desim.validation import validate
from desim.workloads.batch import cerit, registry
from desim.workloads.batch.trace import TraceReason

#: number, submit, wait, run, CPUs, bytes on each node, node of each CPU, queue, request
ROWS = [
    (0, 100, 0, 50, 8, 600, "7,7,7,7,7,7,7,7", "q_1d", "1:ppn=8:cl_big#excl"),
    (1, 110, 40, 30, 4, 3_000, "7,7,9,9", "q_2h", "2:ppn=2:^cl_small"),
    (2, 120, 0, 10, 2, 500, "9,9", "q_2h", "1:ppn=2:x86_64:brno"),
    (3, 130, 20, 10, 5, 400, "7,7,7,7,9", "q_1d", "1:ppn=1+2:ppn=2"),
    (4, 131, 5, 10, 1, 100, "3", "q_1d", "1:ppn=1.5:nodecpus4"),
    (5, 132, 0, -1, 1, 100, "3", "q_1d", "1:ppn=1"),
]
MACHINES = "0\tsmall\t9\t4\t1\t1\n1\tbig\t9\t8\t1\t3\n"
REQUESTS = [
    Request(1, 8, 600, features=("cl_big",), exclusive=True, tasks_per_node=1),
    Request(2, 2, 3_000, excluded_features=("cl_small",), tasks_per_node=1),
    Request(1, 2, 500, tasks_per_node=1),
    Request(5, 1, 200),
    Request(1, 1, 100, features=("nodecpus4",), tasks_per_node=1),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path, ROWS)


def write(folder: Path, rows: list[tuple[object, ...]]) -> Path:
    lines = [
        f"{number} {submit} {wait} {run} {cpus} 1 1024 {cpus} 60 {memory} 1 5 1 1 -1 1 1 1 {{{ids}}} {queue} {request}"
        for number, submit, wait, run, cpus, memory, ids, queue, request in rows
    ]
    (folder / "log.swf").write_text("\n".join(lines) + "\n")
    (folder / "log.swf.machines").write_text(MACHINES)
    return folder / "log.swf"


def test_requests_nodes_queues(log: Path) -> None:
    assert cerit.is_such(log)
    trace = cerit.read(log)
    assert [job.request for job in trace.jobs if isinstance(job, Job)] == REQUESTS
    assert [job.queue for job in trace.jobs] == ["q_1d", "q_2h", "q_2h", "q_1d", "q_1d"]
    assert [(node.name, node.cores, node.partition) for node in trace.nodes] == [
        ("3", 4, "small"),
        ("7", 8, "big"),
        ("9", 4, "small"),  # never more than three of its CPUs are used
    ]
    # Node 7 has what the table states, 9 what jobs 1 and 3 requested at once
    assert [node.memory for node in trace.nodes] == [1024, 3_400, 3_400]
    assert trace.report.count(TraceReason.UNEQUAL_PARTS) == 1
    assert trace.report.places[TraceReason.IGNORED_PROPERTIES] == [3]
    assert trace.report.dropped == 1
    assert trace.report.count(TraceReason.EXTRA_FIELDS) == 0


def test_the_log_is_repeated_where_it_ran(log: Path) -> None:
    rows = [row for row in ROWS if row[0] != 1]  # which ran on a node that is no part of its cluster
    path = write(log.parent, rows)
    workload = registry.load(str(path), nodes="log")
    agent = TraceReplay.named(str(path))
    result = simulate(BatchCluster(workload.jobs, nodes=workload.nodes, enforce_time_limit=False), agent)
    assert agent.delays == {}
    assert validate(result, workload.jobs).ok
    assert result.jobs.sort("job_id")["waiting_time"].to_list() == [0, 0, 20, 5]
    names = {number: node.name for number, node in enumerate(workload.nodes)}
    where = result.table("placements").sort("job_id", "node").select("job_id", "node", "tasks").rows()
    assert [(job, names[node], tasks) for job, node, tasks in where] == [
        (0, "7", 1),
        (2, "9", 1),
        (3, "7", 4),
        (3, "9", 1),
        (4, "3", 1),
    ]


def test_a_job_waits_for_its_own_nodes_or_goes_anywhere_if_they_are_not_there(log: Path) -> None:
    rows = [(0, 100, 0, 50, 8, 0, "7,7,7,7,7,7,7,7", "q", "1:ppn=8"), (1, 101, 60, 5, 1, 0, "7", "q", "1:ppn=1")]
    path = write(log.parent, rows)
    agent = TraceReplay({0: 100.0, 1: 101.0}, nodes={0: [("7", 1)], 1: [("7", 1)]})
    workload = registry.load(str(path), nodes="log")
    simulate(BatchCluster(workload.jobs, nodes=workload.nodes, enforce_time_limit=False), agent)
    assert agent.delays == {1: 49.0}
    other = registry.load(str(path), nodes="2x8")
    simulate(BatchCluster(other.jobs, nodes=other.nodes, enforce_time_limit=False), agent)
    assert agent.delays == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"request": "3:ppn=2"}, "line 1: field 21: got '3:ppn=2', expected the CPUs of field 5"),
        ({"request": "1:ppn=8#alone"}, "line 1: field 21: got '1:ppn=8#alone'"),
        ({"memory": "1GB"}, "field 10"),
        (
            {"ids": "7,7,7,7,7,7,7,7,7", "cpus": 9, "request": "1:ppn=9"},
            "node 7: got 9 busy CPUs",
        ),
    ],
)
def test_rows_that_make_no_sense(tmp_path: Path, change: dict[str, object], message: str) -> None:
    names = ("number", "submit", "wait", "run", "cpus", "memory", "ids", "queue", "request")
    row = dict(zip(names, ROWS[0], strict=True)) | change
    assert message in refusal(lambda: cerit.read(write(tmp_path, [tuple(row.values())])))


def test_what_is_missing(log: Path, tmp_path: Path) -> None:
    (tmp_path / "log.swf.machines").write_text("0 big 3\n")
    assert "line 1: expected cluster, name, nodes" in refusal(lambda: cerit.read(log))
    (tmp_path / "log.swf.machines").unlink()
    assert "must state CPUs and memory of the nodes" in refusal(lambda: cerit.read(log))
    plain = tmp_path / "plain.swf"
    plain.write_text("1 0 0 5 1 -1 -1 1 5 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    assert not cerit.is_such(plain)
    with pytest.raises(InvalidConfiguration, match="the log describes no nodes"):
        registry.load(str(plain), nodes="log")
    with pytest.raises(InvalidConfiguration, match="cannot be streamed"):
        registry.load(str(log), nodes="log", stream=True)


def test_the_published_log() -> None:
    trace = cerit.read(data("swf/wagap-2013.swf.gz"), max_jobs=1_500)
    every = cerit.read(data("swf/wagap-2013.swf.gz"))
    assert (len(every), every.num_cores, len(every.nodes)) == (17_898, 1_752, 44)
    cluster = BatchCluster(trace.jobs, nodes=every.nodes, enforce_time_limit=False)
    agent = TraceReplay(trace.recorded_starts(), nodes=trace.recorded_nodes)
    result = simulate(cluster, agent)
    assert agent.delays == {}
    assert validate(result, trace.jobs).ok
    assert validate(simulate(cluster, create("easy")), trace.jobs).ok
