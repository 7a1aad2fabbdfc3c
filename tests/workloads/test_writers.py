"""Task graphs, job shops and tables of sacct: what is written is read again, and what is lost is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Job, Workload
from desim.problems.dag import Executors
from desim.problems.dag import Job as DagJob
from desim.workloads.batch import job_table
from desim.workloads.batch import registry as batch
from desim.workloads.dag import jobshop, stg
from desim.workloads.dag import registry as dag

CORPUS = Path(__file__).parent.parent / "corpus"


def graph(job: DagJob) -> list[object]:
    return [job.names, job.work.tolist(), job.parent_lists, job.run_times, job.eligible]


@pytest.mark.parametrize("name", ["graph.stg", "standard.jsp", "taillard.jsp"])
def test_graphs_and_job_shops_are_read_again(tmp_path: Path, name: str) -> None:
    source, copy = CORPUS / name, tmp_path / name
    jobs, executors = dag.read_all(source), dag.executors_of(source)
    assert dag.write(copy, jobs, executors=executors, taillard=name == "taillard.jsp") == ()
    assert [graph(job) for job in dag.read_all(copy)] == [graph(job) for job in jobs]
    if executors is not None:
        again = dag.executors_of(copy)
        assert again is not None
        assert again.names == executors.names
    assert ("Machines" in copy.read_text()) == (name == "taillard.jsp")


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_and_job_shops_are_read_again(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 12))
    edges = [(a, b, 0.0) for b in range(size) for a in range(b) if rng.random() < 0.3]
    names = list(map(str, range(size)))
    job = DagJob(0, 2.85 * rng.integers(0, 10**9, size), edges, names=None, allow_disconnected=True)
    told = dag.write(tmp_path / "a.stg.gz", job)
    again = dag.read(tmp_path / "a.stg.gz")
    assert told == (() if job.names == tuple(names) else ("names of nodes",))
    assert (again.work.tolist(), again.parent_lists) == (job.work.tolist(), job.parent_lists)
    count = int(rng.integers(1, 5))
    machines = [rng.permutation(count).tolist() for _ in range(int(rng.integers(1, 6)))]
    jobs, executors = jobshop.job_shop(machines, [rng.random(count).tolist() for _ in machines])
    for taillard in (False, True):
        jobshop.write(tmp_path / "a.jsp", jobs, executors, taillard=taillard)
        assert [graph(job) for job in jobshop.read(tmp_path / "a.jsp")[0]] == [graph(job) for job in jobs]


def test_first_numbers_leave_out_dummies(tmp_path: Path) -> None:
    for work, first in (([0, 3, 0], "1"), ([1, 3, 0], "3")):
        stg.write(tmp_path / "a.stg", DagJob(0, work, [(0, 1, 0.0), (1, 2, 0.0)]))
        assert (tmp_path / "a.stg").read_text().startswith(f"{first}\n0 {work[0]} 0\n1 3 1 0\n")


def test_what_graphs_and_job_shops_lose_is_told(tmp_path: Path) -> None:
    job = DagJob(0, [1.5, 2.0], [("a", "b", 7.0)], names="ab", submission_time=3.0, num_tasks=[1, 2])
    told = stg.write(tmp_path / "a.stg", job)
    assert told == (
        "names of nodes", "sizes of data", "fractions of durations", "submission times", "parallel tasks",
    )  # fmt: skip
    machines = Executors([1.0, 2.0, 1.0], names="xyz")
    step = DagJob(0, [1.0, 4.0], [("a", "b", 7.0)], names="ab", submission_time=3.0, eligible=[["x"], ["y"]])
    told = jobshop.write(tmp_path / "a.jsp", [step], machines)
    assert (tmp_path / "a.jsp").read_text() == "1 3\n0 1 1 2\n"
    assert told == (
        "names of machines", "machines without an operation", "names of operations", "sizes of data",
        "submission times",
    )  # fmt: skip


def test_what_no_format_holds_is_refused(tmp_path: Path) -> None:
    free = DagJob(0, [1.0, 2.0], [(0, 1, 0.0)])
    bound = DagJob(0, [1.0], eligible=[["a"]])
    machines = Executors([1.0, 1.0], names="ab")
    for write, message in (
        (lambda: stg.write(tmp_path / "a.stg", bound), "every executor"),
        (lambda: stg.write(tmp_path / "a.stg", DagJob(0, [1e16])), "at most 1e15"),
        (lambda: jobshop.write(tmp_path / "a.jsp", [free], machines), "each on one executor"),
        (lambda: jobshop.write(tmp_path / "a.jsp", [], machines), "at least one job"),
        (lambda: jobshop.write(tmp_path / "a.jsp", [bound], machines, taillard=True), "each of 2 machines once"),
        (lambda: job_table.write(tmp_path / "a.csv", [Job("1.batch", 0.0, 1, 5.0, 5.0)], sacct=True), "step of a job"),
        (lambda: job_table.write(tmp_path / "a.csv", [Job(1, 1e14, 1, 5.0, 5.0)], sacct=True), "before year 10000"),
    ):
        with pytest.raises(WorkloadError, match=message):
            write()
    for write, message in (
        (lambda: dag.write(tmp_path / "a.dax", free), "unknown workload format"),
        (lambda: dag.write(tmp_path / "a.jsp", free), "got none"),
        (lambda: dag.write(tmp_path / "a.stg", [free, free]), "got 2 jobs"),
        (lambda: dag.write(tmp_path / "a.stg", free, taillard=True), "got Taillard's format"),
        (lambda: batch.write(tmp_path / "a.swf", [], sacct=True), "expected a .csv file"),
        (lambda: job_table.write(tmp_path / "a.parquet", [], sacct=True), "expected a .csv file"),
    ):
        with pytest.raises(InvalidConfiguration, match=message):
            write()
    assert list(tmp_path.iterdir()) == []


def accounted(rng: np.random.Generator, count: int) -> Workload:
    """Return jobs with all that sacct knows, in whole seconds."""
    times = np.sort(rng.integers(0, 2 * 10**9, count)).astype(float)
    ran = rng.integers(0, 400_000, count).astype(float)
    users = [["ann", "bob", "c|d"][at] for at in rng.integers(0, 3, count)]
    known = dict.fromkeys(users)
    return Workload(
        {
            "job_id": [f"{at}_1" for at in range(count)],
            "submission_time": times,
            "requested_cores": rng.integers(1, 100, count),
            "requested_time": ran + rng.integers(1, 400_000, count),
            "run_time": ran,
            "user_id": [list(known).index(user) for user in users],
            "user": users,
            "partition": rng.choice(["", "gpu", "long"], count).tolist(),
            "qos": rng.choice(["", "high"], count).tolist(),
            "waiting_time": np.where(rng.random(count) < 0.3, np.nan, rng.integers(0, 1000, count)),
        },
        secret=["waiting_time"],
    )


@pytest.mark.parametrize("seed", range(10))
def test_tables_of_sacct_are_read_again(tmp_path: Path, seed: int) -> None:
    jobs = accounted(np.random.default_rng(seed), 30)
    assert batch.write(tmp_path / "a.csv", jobs, sacct=True) == ()
    trace = batch.read(tmp_path / "a.csv")
    assert trace.jobs == jobs
    assert np.array_equal(trace.waiting_time, jobs["waiting_time"], equal_nan=True)
    assert (trace.report.dropped, trace.report.unread) == (0, ())


def test_a_line_of_sacct(tmp_path: Path) -> None:
    job = Job(7, 1_729_989_000.4, 4, 90_000.5, 61.0, 3, partition="gpu")
    told = batch.write(tmp_path / "a.csv", Workload.of([job._replace(queue="q")]), num_cores=8, sacct=True)
    assert told == ("queue", "fractions of seconds", "num_cores")
    assert (tmp_path / "a.csv").read_text() == (
        "JobID|User|Partition|QOS|Submit|Start|Elapsed|Timelimit|NCPUS\n"
        "7|3|gpu||2024-10-27T00:30:00|Unknown|00:01:01|1-01:00:01|4\n"
    )


def test_what_other_formats_lose_is_told(tmp_path: Path) -> None:
    jobs = accounted(np.random.default_rng(1), 5).with_columns(job_id=range(5))
    assert batch.write(tmp_path / "a.swf", jobs) == ("user", "partition", "qos", "waiting_time")
    numbered = jobs.with_columns(partition=list("12345"), qos=None, user=None, waiting_time=None)
    assert batch.write(tmp_path / "a.swf", numbered) == ()
    assert batch.write(tmp_path / "a.parquet", numbered, num_cores=4) == ("partition",)
    assert batch.write(tmp_path / "a.json", numbered, num_cores=4) == ("partition",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1e9\n999999999 5\n", "machines: got the number 999999999, expected one below 10,000"),
        ("1 2\n0 1e308 1 1e308\n", "job 0: got the duration 1e\\+308, expected at most 1e\\+15"),
    ],
)
def test_job_shops_of_absurd_numbers_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.jsp").write_text(text)
    with pytest.raises(WorkloadError, match=message):
        jobshop.read(tmp_path / "a.jsp")
