"""Workloads as columns: the same jobs as a list, whatever is taken, changed, copied, or depends on what."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, WorkloadError, simulate
from desim.agents.batch import create
from desim.core import Simulation
from desim.problems.batch import BatchCluster, Dependency, Job, Request, Size, Workload
from desim.problems.batch.attributes import types_of_attributes
from desim.validation import validate

VALUES = st.one_of(st.none(), st.integers(-5, 5), st.floats(0, 9), st.booleans(), st.text("ab", max_size=2))


@st.composite
def any_jobs(draw: Any) -> list[Job]:
    """Return jobs in order of submission with any fields."""
    is_text = draw(st.booleans())
    count = draw(st.integers(0, 12))
    times = sorted(draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)))
    jobs: list[Job] = []
    for number, time in enumerate(times):
        cores, run = draw(st.integers(1, 6)), draw(st.integers(0, 9))
        further: dict[str, Any] = {"user_id": draw(st.integers(-1, 3)), "queue": draw(st.sampled_from(["", "a", "b"]))}
        if draw(st.booleans()):
            further["attributes"] = {name: value for name in ("energy", "image") if (value := draw(VALUES)) is not None}
        if draw(st.booleans()):
            further["request"] = Request(tasks=cores, memory=draw(st.integers(0, 1)))
        elif draw(st.booleans()):
            further["sizes"] = tuple(Size(n, 5.0, 3.0) for n in range(1, draw(st.integers(1, 3))))
        if draw(st.booleans()):
            further["run_times"] = {"K80": 2.0}
        if number and draw(st.booleans()):
            others = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=3))
            further["after"] = Dependency(tuple(jobs[n].job_id for n in others), 2.0) if others else None
        jobs.append(Job(f"j{number}" if is_text else number, float(time), cores, 9.0, float(run), **further))
    return jobs


@settings(max_examples=150, deadline=None)
@given(any_jobs(), st.data())
def test_a_workload_holds_the_same_jobs_as_a_list(jobs: list[Job], data: Any) -> None:
    workload = Workload.of(jobs)
    assert workload == jobs and list(workload) == jobs and len(workload) == len(jobs)
    assert [workload.job(row) for row in range(len(jobs))] == jobs
    assert workload.attributes == types_of_attributes(jobs)
    assert list(workload.starting_at(len(jobs) // 2)) == jobs[len(jobs) // 2 :]
    for name in ("job_id", "requested_cores", "run_time", "queue", "after", "sizes", "request"):
        assert workload[name].tolist() == [getattr(job, name) for job in jobs]
    for other in (copy.deepcopy(workload), pickle.loads(pickle.dumps(workload)), Workload.of(iter(jobs))):
        assert other == workload and other.digest() == workload.digest() and hash(other) == hash(workload)
    rows = data.draw(st.lists(st.sampled_from(range(len(jobs))), unique=True)) if jobs else []
    taken = workload.take(rows)
    kept = {jobs[row].job_id for row in rows}
    for row, job in zip(sorted(rows, key=lambda row: (jobs[row].submission_time, rows.index(row))), taken, strict=True):
        others = () if jobs[row].after is None else tuple(each for each in jobs[row].after.jobs if each in kept)
        assert job == jobs[row]._replace(after=Dependency(others, 2.0) if others else None)
    assert workload[:3] == [job._replace(after=workload[:3][n].after) for n, job in enumerate(jobs[:3])]


def test_rows_are_sorted_and_references_follow() -> None:
    jobs = [Job("late", 9.0, 1, 5.0, 5.0, after=Dependency(("first",))), Job("first", 0.0, 1, 5.0, 5.0)]
    workload = Workload.of(jobs)
    assert workload["job_id"].tolist() == ["first", "late"]
    assert workload.dependencies() == {1: ((0,), Dependency(("first",)))}
    moved = workload.with_columns(submission_time=[8.0, 1.0])
    assert moved.dependencies() == {0: ((1,), Dependency(("first",)))}
    assert moved.with_columns(after=None).dependencies() == {}


def test_ids_may_repeat_unless_somebody_depends_on_one() -> None:
    one = Workload.of([Job(1, 0.0, 1, 5.0, 5.0), Job(2, 3.0, 1, 5.0, 5.0, after=Dependency((1,)))])
    both = one.take([0, 1, 1])
    assert both["job_id"].tolist() == [1, 2, 2] and both.dependencies() == {
        1: ((0,), Dependency((1,))),
        2: ((0,), Dependency((1,))),
    }
    with pytest.raises(WorkloadError, match="job 2 depends on job 1, but this row is taken more than once, as rows 0 "):
        one.take([0, 0, 1])
    with pytest.raises(
        WorkloadError, match="job 2 depends on job 1, but two jobs have this id, submitted at 0 s and 1 s"
    ):
        Workload.of([*one, Job(1, 1.0, 1, 5.0, 5.0)])
    by_row = {"job_id": [1, 1, 2], "submission_time": [0, 1, 2], "requested_cores": [1] * 3, "requested_time": [9] * 3}
    known = Workload(by_row | {"run_time": [5, 5, 5], "after": [None, None, ((1,), 4.0)]})
    assert known[2].after == Dependency((1,), 4.0) and known.dependencies()[2][0] == (1,)
    with pytest.raises(WorkloadError, match="dependencies form a cycle: 1 after 2 after 1"):
        known.with_columns(after=[None, ((2,), 0.0), ((1,), 0.0)])


def test_secret_columns_are_neither_attributes_nor_seen() -> None:
    workload = Workload.of([Job(1, 0.0, 1, 5.0, 5.0, attributes={"energy": 2.5})])
    workload = workload.with_columns(secret=True, waiting_time=[3.0])
    assert workload.attributes == {"energy": "float"} and workload[0].attributes == {"energy": 2.5}
    assert workload.secret == {"run_time", "waiting_time"} and workload["waiting_time"].tolist() == [3.0]
    assert workload == workload.with_columns(waiting_time=None)
    assert workload.digest() != workload.with_columns(waiting_time=None).digest()
    with pytest.raises(InvalidConfiguration, match="columns: got 'waiting_time', expected a name that no field"):
        Workload.of([workload[0]]).with_columns(waiting_time=[3.0])


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([Job(1, 0.0, 1, 5.0, 5.0), Job("a", 0.0, 1, 5.0, 5.0)], "got 'a' and 1, expected only integers or only texts"),
        ([Job(True, 0.0, 1, 5.0, 5.0)], "job_id: got True, expected an integer or a string"),
        ([Job("", 0.0, 1, 5.0, 5.0)], "job_id: got '', expected an integer or a string"),
        ([Job(7, 0.0, 1, 5.0, -1.0)], "job 7: run_time: got -1.0, expected a finite time >= 0 s"),
        ([Job(7, 2.0**53, 1, 5.0, 1.0)], "job 7: submission_time: got 9007199254740992.0, expected <= 1e+15 s"),
        ([Job(7, 0.0, 1, None, 1.0)], "job 7: requested_time: got None"),
        ([Job(7, 0.0, 1.5, 1.0, 1.0)], "job 7: requested_cores: got 1.5, expected an integer >= 1"),
        ([Job(7, 0.0, 2, 1.0, 1.0, request=Request(3))], "job 7: requested_cores: got 2, but 3 tasks"),
        ([Job(7, 0.0, 2, 1.0, 1.0, sizes=(Size(0, 1.0, 1.0),))], "job 7: requested_cores: got 0"),
        ([Job(7, 0.0, 2, 1.0, 1.0, attributes={"job_id": 1})], "job 7: attributes: got 'job_id'"),
        ([3], "jobs: got 3, expected objects of batch.Job"),
        (
            [Job("a b", 0.0, 1, 1.0, 1.0), Job("c", 0.0, 1, 1.0, 1.0, after=Dependency(("a b",)))],
            "job c: after: got 'a b', expected an id without blanks",
        ),
    ],
)
def test_what_is_refused(jobs: list[Any], message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        Workload.of(jobs)
    assert message in str(error.value)


def test_a_cluster_refuses_times_at_which_a_second_is_no_time() -> None:
    for late, jobs in ((1e15, 1), (2.0**53, 0)):
        cluster = BatchCluster(iter([Job(7, late, 1, 5.0, 1.0)]), 1)
        if jobs:
            assert simulate(cluster, create("fcfs")).jobs["finish_time"].to_list() == [1e15 + 1.0]
            continue
        with pytest.raises(WorkloadError, match=r"job 7: submission_time: got 9007199254740992\.0, expected <= 1e"):
            simulate(cluster, create("fcfs"))


def test_a_workload_does_not_change() -> None:
    workload = Workload.of([Job(1, 0.0, 1, 5.0, 5.0)])
    with pytest.raises(AttributeError, match="a workload cannot be changed"):
        workload.secret = frozenset()  # type: ignore[misc]
    for name in ("job_id", "run_time", "queue"):
        with pytest.raises(ValueError, match="read-only"):
            workload[name][0] = 3
    with pytest.raises(KeyError, match="energy: no job has it; expected one of job_id"):
        workload["energy"]
    with pytest.raises(InvalidConfiguration, match="queue: got 2 values, expected 1, one per job"):
        workload.with_columns(queue=["a", "b"])
    with pytest.raises(InvalidConfiguration, match="columns: got no run_time, expected job_id"):
        Workload({"job_id": [1], "submission_time": [0], "requested_cores": [1], "requested_time": [1]})


TEXTS = [Job(f"w0!{n}", 5.0 * (n // 2), 1 + n % 3, 40.0, 30.0 - n, n % 2, attributes={"n": n}) for n in range(12)]


@pytest.mark.parametrize("agent", ["fcfs", "easy-sjf", "conservative", "easy-moldable", "rollout:fcfs"])
def test_ids_that_are_texts_in_a_run(agent: str, tmp_path: Any) -> None:
    made = create(agent)
    result = simulate(BatchCluster(Workload.of(TEXTS), 4), made, out=tmp_path / "run")
    numbers = simulate(BatchCluster([job._replace(job_id=n) for n, job in enumerate(TEXTS)], 4), made)
    assert result.jobs.sort("arrival_number")["job_id"].to_list() == [job.job_id for job in TEXTS]
    assert result.jobs.sort("arrival_number")["finish_time"].equals(numbers.jobs.sort("arrival_number")["finish_time"])
    assert result.info["job_ids"] == "text" and "job_ids" not in numbers.info
    validate(result, TEXTS).raise_if_invalid()


def test_a_stream_has_the_ids_of_its_first_job(tmp_path: Any) -> None:
    result = simulate(BatchCluster(iter(TEXTS), 4), create("easy"), out=tmp_path / "run")
    assert set(result.jobs["job_id"]) == {job.job_id for job in TEXTS} and result.info["job_ids"] == "text"
    validate(result, TEXTS).raise_if_invalid()
    mixed = [TEXTS[0], TEXTS[1]._replace(job_id=7)]
    with pytest.raises(WorkloadError, match="job 7: job_id: got 7, expected a text as in earlier jobs"):
        simulate(BatchCluster(iter(mixed), 4), create("easy"))
    with pytest.raises(WorkloadError, match="job w0!1: job_id: got 'w0!1', expected an integer as in earlier jobs"):
        simulate(BatchCluster(iter([TEXTS[0]._replace(job_id=7), TEXTS[1]]), 4), create("easy"))
    with pytest.raises(WorkloadError, match="got 'w0!0' and 7, expected only integers or only texts"):
        BatchCluster(mixed, 4)


def test_forks_share_a_workload() -> None:
    jobs = Workload.of([Job(n, float(n), 1 + n % 4, 20.0, 9.0) for n in range(30)])
    simulation, agent = Simulation(BatchCluster(jobs, 4)), create("easy")
    for _ in range(8):
        decision = simulation.advance()
        assert decision is not None
        decision.answer(agent.act(decision.observation))
    other = simulation.fork()
    assert other.problem.jobs is jobs  # type: ignore[attr-defined]
    for each in (simulation, other):
        while (decision := each.advance()) is not None:
            decision.answer(agent.act(decision.observation))
    assert simulation.finish().jobs.equals(other.finish().jobs)


def test_columns_of_numpy_are_copied() -> None:
    energy = np.array([1.0, 2.0])
    workload = Workload.of([Job(1, 0.0, 1, 5.0, 5.0), Job(2, 0.0, 1, 5.0, 5.0)]).with_columns(energy=energy)
    energy[0] = 9.0
    assert workload["energy"].tolist() == [1.0, 2.0]
