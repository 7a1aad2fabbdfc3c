"""Alibaba v2018 as graphs: names of tasks, repairs and their books, order, streaming, and an independent reading."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.dag import create
from desim.exceptions import WorkloadError
from desim.problems.dag import DagCluster, Executors
from desim.problems.dag.job import Job
from desim.workloads.alibaba import DagReason, DagReport, dags

Row = tuple[str, int | None, str, str | None, float | None, float | None]
Write = Callable[..., Path]


def task(
    name: str, *, job: str = "j_1", instances: int | None = 1, start: float | None = 10, end: float | None = 12
) -> Row:
    return name, instances, job, "Terminated", start, end


def lines_of(rows: Iterable[Row]) -> list[str]:
    """Return the lines of the file, with what is not needed made up."""
    fields = ((name, number, job, 1, status, start, end, 100, 0.4) for name, number, job, status, start, end in rows)
    return [",".join("" if field is None else str(field) for field in line) for line in fields]


def edges_of(job: Job) -> set[tuple[str, str]]:
    return {(job.names[parent], job.names[child]) for child in range(job.num_nodes) for parent in job.parents(child)}


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return a function that writes batch_task.csv of lines or rows."""
    path = tmp_path_factory.mktemp("dags") / "batch_task.csv"

    def make(*lines: str | Row) -> Path:
        path.write_text("\n".join(line if isinstance(line, str) else lines_of([line])[0] for line in lines) + "\n")
        return path

    return make


LINES = (
    "M1,10,j_1,1,Terminated,1000,1060,100,0.39",
    "R3_1,4,j_2,1,Terminated,900,905.5,100,0.39",
    "J4_2_3_1,2,j_1,1,Terminated,1100,1101,100,0.39",
    "M2,1,j_1,1,Terminated,990,1000,50,0.2",
    "task_Nzg3ODAw,7,j_3,1,Terminated,1200,1260,100,0.39",
    "R3_2,1,j_1,1,Terminated,1010,1050,50,0.2",
    "M1,3,j_2,1,Terminated,890,900,100,0.39",
)


def test_a_file(write: Write) -> None:
    stream = dags.jobs(write(*LINES))
    jobs = first, second, third = tuple(stream)
    assert [(job.job_id, job.label, job.submission_time) for job in jobs] == [
        (0, "j_2", 890),
        (1, "j_1", 990),
        (2, "j_3", 1200),
    ]
    assert (first.names, third.names) == (("M1", "R3_1"), ("task_Nzg3ODAw",))
    assert second.names == ("M1", "M2", "R3_2", "J4_2_3_1")
    assert edges_of(second) == {("M2", "R3_2"), ("M1", "J4_2_3_1"), ("M2", "J4_2_3_1"), ("R3_2", "J4_2_3_1")}
    assert (second.work.tolist(), second.num_tasks.tolist()) == ([60, 10, 40, 1], [10, 1, 1, 2])
    assert not second.parent_size.any()
    report = stream.report
    assert (report.rows, report.tasks, report.jobs, report.dropped, report.disconnected) == (7, 7, 3, 0, 0)
    assert report.places == {DagReason.INDEPENDENT: ["j_3 task_Nzg3ODAw"]}
    assert [job.names for job in stream] == [job.names for job in jobs]
    by_instances = {job.label: job.work.tolist() for job in dags.jobs(write(*LINES), work="instances")}
    assert by_instances == {"j_1": [600, 10, 40, 2], "j_2": [30, 22], "j_3": [420]}
    assert [job.work.sum() for job in dags.jobs(write(*LINES), reference_speed=0.5)] == [7.75, 55.5, 30]


# -- repairs ------------------------------------------------------------------------------------------

REPAIRS: dict[str, tuple[list[Row], list[str], set[tuple[str, str]], dict[DagReason, list[str]]]] = {
    "other status": (
        [task("M1"), ("M2", 1, "j_1", "Failed", 10, 12), ("R3_2_1", 1, "j_1", None, 10, 12), task("R4_2_1")],
        ["M1", "R4_2_1"],
        {("M1", "R4_2_1")},
        {DagReason.OTHER_STATUS: ["M2", "R3_2_1"], DagReason.MISSING_PARENT: ["R4_2_1"]},
    ),
    "unknown times": (
        [
            *(task("M1"), task("M2", start=None), task("M3", end=None), task("M4", start=0), task("M5", end=0)),
            task("M6", start=-1),
        ],
        ["M1"],
        set(),
        {DagReason.UNKNOWN_TIME: ["M2", "M3", "M4", "M5", "M6"]},
    ),
    "ended before start": (
        [task("M1", start=12, end=12), task("M2", start=12, end=11)],
        ["M1"],
        set(),
        {DagReason.ENDED_BEFORE_START: ["M2"]},
    ),
    "repeated": (
        [task("M1"), task("R2_1"), task("M2"), task("M1"), task("task_x"), task("task_x"), task("R3_2")],
        ["M1", "R2_1", "task_x", "R3_2"],
        {("M1", "R2_1"), ("R2_1", "R3_2")},
        {DagReason.REPEATED: ["M2", "M1", "task_x"], DagReason.INDEPENDENT: ["task_x"]},
    ),
    "needs itself": (
        [task("M1"), task("R2_2_1_2")],
        ["M1", "R2_2_1_2"],
        {("M1", "R2_2_1_2")},
        {DagReason.SELF_DEPENDENCY: ["R2_2_1_2"]},
    ),
    "missing, and twice": (
        [task("M1"), task("R2_1_1_7_7"), task("R3_9")],
        ["M1", "R2_1_1_7_7", "R3_9"],
        {("M1", "R2_1_1_7_7")},
        {DagReason.MISSING_PARENT: ["R2_1_1_7_7", "R3_9"], DagReason.REPEATED_PARENT: ["R2_1_1_7_7"]},
    ),
    "instances": (
        [task("M1", instances=None), task("R2_1", instances=0), task("R3_2", instances=4)],
        ["M1", "R2_1", "R3_2"],
        {("M1", "R2_1"), ("R2_1", "R3_2")},
        {DagReason.UNKNOWN_INSTANCES: ["M1", "R2_1"]},
    ),
    "names": (
        [
            *(task("MergeTask"), task("M01"), task("MR2_1_Stg4"), task("R3_"), task("7"), task("M1234567890")),
            *(task("M-4"), task("task_M5_1")),
        ],
        ["MergeTask", "M01", "MR2_1_Stg4", "R3_", "7", "M1234567890", "M-4", "task_M5_1"],
        {("M01", "MR2_1_Stg4")},
        {
            DagReason.INDEPENDENT: ["MergeTask", "7", "M1234567890", "M-4", "task_M5_1"],
            DagReason.SUFFIX: ["MR2_1_Stg4", "R3_"],
        },
    ),
}


@pytest.mark.parametrize("name", REPAIRS)
def test_repairs(write: Write, name: str) -> None:
    rows, names, edges, reasons = REPAIRS[name]
    stream = dags.jobs(write(*rows))
    (job,) = stream
    assert (list(job.names), edges_of(job)) == (names, edges)
    report = stream.report
    assert report.counts == {reason: len(tasks) for reason, tasks in reasons.items()}
    assert report.places == {reason: [f"j_1 {task}" for task in tasks[:5]] for reason, tasks in reasons.items()}
    assert (report.rows, report.tasks, report.dropped) == (len(rows), len(names), len(rows) - len(names))
    parts = nx.Graph(sorted(edges))
    parts.add_nodes_from(names)
    assert report.disconnected == (nx.number_connected_components(parts) > 1)
    if name == "instances":
        assert job.num_tasks.tolist() == [1, 1, 4]


GOOD = task("M1", job="j_2", start=20, end=21)


def test_jobs_that_are_dropped(write: Write) -> None:
    stream = dags.jobs(write(task("M1_3"), task("R2_1"), task("R3_2"), task("R4_3", end=5), GOOD))
    assert [job.label for job in stream] == ["j_2"]
    assert stream.report.counts == {DagReason.CYCLIC_JOB: 3, DagReason.ENDED_BEFORE_START: 1}
    assert (stream.report.rows, stream.report.tasks, stream.report.dropped) == (5, 1, 4)
    assert stream.report.summary() == "1 ended_before_start, 3 cyclic_job"
    path = write(task("M1"), task("M2"), GOOD)
    stream = dags.jobs(path)
    assert [(job.label, job.num_nodes) for job in stream] == [("j_1", 2), ("j_2", 1)]
    assert stream.report.disconnected == 1
    stream = dags.jobs(path, allow_disconnected=False)
    assert [(job.label, job.job_id) for job in stream] == [("j_2", 0)]
    assert (stream.report.counts, stream.report.disconnected) == ({DagReason.DISCONNECTED_JOB: 2}, 0)


def test_statuses(write: Write) -> None:
    path = write(*((f"M{at}", 1, f"j_{at}", status, 10, 12) for at, status in enumerate(["Failed", "Running", None])))
    assert [job.label for job in dags.jobs(path, statuses=["Failed", "Running"])] == ["j_0", "j_1"]
    assert [job.label for job in dags.jobs(path, statuses=None)] == ["j_0", "j_1", "j_2"]
    with pytest.raises(WorkloadError, match=r"batch_task.csv: no usable job; dropped: 3 other_status$"):
        list(dags.jobs(path))


# -- order --------------------------------------------------------------------------------------------


def test_contiguous_files(write: Write) -> None:
    path = write(*LINES[1:2], *LINES[6:7], *LINES[2:4], *LINES[4:5])
    assert [job.label for job in dags.jobs(path, contiguous=True)] == ["j_2", "j_1", "j_3"]
    path = write(*LINES)
    with pytest.raises(WorkloadError) as caught:
        list(dags.jobs(path, contiguous=True))
    assert str(caught.value) == (f"{path}: row 3: job 'j_1' has rows that are not consecutive; try contiguous=False")


def test_jobs_longer_than_a_batch_of_rows(write: Write) -> None:
    lines = [f"task_{row},1,j_{row // 60_000},1,Terminated,{200_000 - row},{200_001},100,1" for row in range(101_000)]
    path = write(*lines)
    for contiguous in (True, False):
        sizes = [(job.label, job.num_nodes) for job in dags.jobs(path, contiguous=contiguous)]
        assert sorted(sizes) == [("j_0", 60_000), ("j_1", 41_000)]
        assert sizes[0][0] == ("j_0" if contiguous else "j_1")


names = st.builds(
    lambda prefix, numbers: prefix + "_".join(map(str, numbers)),
    st.sampled_from(["M", "R", "J"]),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
) | st.sampled_from(["task_a", "task_b", "MergeTask"])
times = st.none() | st.integers(-1, 20).map(float)
rows = st.tuples(
    names,
    st.none() | st.integers(-1, 5),
    st.sampled_from(["j_1", "j_2", "j_3"]),
    st.sampled_from(["Terminated", "Terminated", "Terminated", "Failed"]),
    times,
    times,
)


def second_reading(table_rows: list[Row]) -> dict[str, tuple[float, set[tuple[str, str]], dict[str, float]]]:
    """Return submission time, edges and work of each job, written with other means than the reader."""
    found = {}
    for job in dict.fromkeys(row[2] for row in table_rows):
        mine = [row for row in table_rows if row[2] == job]
        fit = [row for row in mine if row[3] == "Terminated" and row[4] and row[5] and 0 < row[4] <= row[5]]
        graph, by_number = nx.DiGraph(), dict[str, str]()
        for name, _, _, _, start, end in fit:
            key = name[1:].split("_")[0] if name[1].isdigit() else name
            if key not in by_number:
                by_number[key] = name
                graph.add_node(name, work=end - start)
        for name in list(graph):
            if name[1].isdigit():
                own, *needed = name[1:].split("_")
                for number in needed:
                    if number in by_number and number != own:
                        graph.add_edge(by_number[number], name)
        if len(graph) and nx.is_directed_acyclic_graph(graph):
            found[job] = (min(row[4] for row in fit), set(graph.edges), dict(graph.nodes(data="work")))
    return found


@settings(max_examples=80, deadline=None)
@given(given_rows=st.lists(rows, min_size=1, max_size=14))
def test_against_a_second_reading(write: Write, given_rows: list[Row]) -> None:
    stream = dags.jobs(write(*given_rows))
    try:
        jobs = list(stream)
    except WorkloadError as error:
        assert "no usable job" in str(error)
        jobs = []
    assert {
        job.label: (job.submission_time, edges_of(job), dict(zip(job.names, job.work.tolist(), strict=True)))
        for job in jobs
    } == second_reading(given_rows)
    assert [job.job_id for job in jobs] == list(range(len(jobs)))
    assert [job.submission_time for job in jobs] == sorted(job.submission_time for job in jobs)
    check_books(stream.report, jobs, len(given_rows))
    # Where rows are next to each other, a stream gives the same jobs
    again = dags.jobs(write(*sorted(given_rows, key=lambda row: row[2])), contiguous=True)
    if jobs:
        assert {job.label: edges_of(job) for job in again} == {job.label: edges_of(job) for job in jobs}
        assert again.report.counts == stream.report.counts


def check_books(report: DagReport, jobs: list[Job], num_rows: int) -> None:
    assert report.rows == num_rows == report.tasks + report.dropped
    assert (report.jobs, report.tasks) == (len(jobs), sum(job.num_nodes for job in jobs))
    assert sum(entry["count"] for entry in report.as_dict()["reasons"].values()) == sum(report.counts.values())


# -- refusals -----------------------------------------------------------------------------------------


def test_files_that_do_not_fit(write: Write) -> None:
    with pytest.raises(WorkloadError, match=r"missing\.csv: cannot be read"):
        dags.jobs("missing.csv")
    path = write(*LINES, "M1,x,j_9,1,Terminated,1,2,3,4")
    with pytest.raises(WorkloadError, match=r"line 8: column instance_num: got 'x', expected a whole number$"):
        list(dags.jobs(path))
    path = write(task("M1", instances=10**9))
    with pytest.raises(WorkloadError, match=r"job 0: work of M1: got inf, expected a finite number"):
        list(dags.jobs(path, work="instances", reference_speed=1e300))


PIECES = ["", ",", "\n", "-1", "0", "nan", "1e15", "_", "_1", "_4", "M", "j_1", "Failed", '"', "\xe9", "\x00", "9" * 12]


def test_damaged_files(write: Write) -> None:
    rng = random.Random(8)
    read, refused = 0, set()
    for _ in range(200):
        text = "\n".join(LINES)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(PIECES) + text[at + rng.choice([0, 1, 3]) :]
        path = write(text)
        stream = dags.jobs(path, contiguous=rng.random() < 0.2)
        try:
            jobs = list(stream)
        except WorkloadError as error:
            assert str(error).startswith(f"{path}: ")
            refused.add(str(error))
        else:
            read += 1
            check_books(stream.report, jobs, len(text.replace("\n\n", "\n").strip("\n").split("\n")))
    assert read > 25
    assert len(refused) > 15


def test_planned_cores_and_memory_are_demands(write: Write) -> None:
    lines = (
        "M1,10,j_1,1,Terminated,1000,1060,100,0.5",
        "R2_1,4,j_1,1,Terminated,1060,1070,50,",
        "R3_1,2,j_1,1,Terminated,1060,1070,,0.25",
    )
    path = write(*lines)
    assert next(iter(dags.jobs(path))).demands is None
    stream = dags.jobs(path, demands=True)
    (job,) = stream
    assert job.demands == (
        {"cores": 10.0, "memory": 5.0},
        {"cores": 2.0, "memory": 0.0},
        {"cores": 2.0, "memory": 0.5},
    )
    assert stream.report.count(DagReason.UNKNOWN_DEMAND) == 2
    pool = Executors([1.0], capacities=[{"cores": 12, "memory": 100}])
    result = simulate(DagCluster([job], pool), create("rank-up-eft-idle"))
    assert result.metrics()["makespan"] == 70.0
