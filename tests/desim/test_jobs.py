"""Jobs: one class for all that a job may have, its copies, and its attributes from a file to the tables."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import desim.problems.batch as batch
from desim import InvalidConfiguration, Result, Simulation, WorkloadError, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, BatchObservation, Dependency, Job, Limit, Node, Request, Size, check_job
from desim.validation import validate
from desim.workloads import job_table, swf
from desim.workloads.batch import batsim

FULL = Job.of_tasks(
    7,
    3.0,
    Request(2, 3, memory=5),
    9.0,
    8.0,
    4,
    sizes=(Size(12, 5.0, 4.0, Request(4, 3), {"A": 2.0}),),
    run_times={"A": 6.0},
    after=Dependency((1, 2), 4.0),
    queue="long",
    partition="big",
    qos="urgent",
    attributes={"energy": 2.5, "tags": ["a", "b"]},
)
CHANGED: dict[str, Any] = {
    "job_id": 8,
    "submission_time": 4.0,
    "requested_cores": 5,
    "requested_time": 1.0,
    "run_time": 1.0,
    "user_id": 5,
    "request": Request(6),
    "sizes": (),
    "run_times": {},
    "after": None,
    "queue": "short",
    "partition": "small",
    "qos": "standby",
    "attributes": {"energy": 2.0},
}
"""Another value of each field."""


class TestJobs:
    def test_a_plain_job_has_six_fields_and_shares_the_rest(self) -> None:
        job, other = Job(1, 0.0, 4, 10.0, 10.0), Job(2, 0.0, 4, 10.0, 10.0)
        text = "Job(job_id=1, submission_time=0.0, requested_cores=4, requested_time=10.0, run_time=10.0, user_id=-1)"
        assert repr(job) == text
        assert job.attributes is other.attributes is job.run_times
        with pytest.raises(TypeError, match="a job cannot be changed; use"):
            job.attributes["energy"] = 1.0  # type: ignore[index]
        with pytest.raises(AttributeError):
            job.energy = 1.0  # type: ignore[attr-defined]
        assert repr(FULL).endswith("attributes={'energy': 2.5, 'tags': ['a', 'b']})")

    @pytest.mark.parametrize("job", [Job(1, 0.0, 4, 10.0, 10.0), FULL], ids=["plain", "full"])
    def test_copies_are_equal_and_have_the_same_hash(self, job: Job) -> None:
        for same in (copy.copy(job), copy.deepcopy(job), pickle.loads(pickle.dumps(job)), Job(*job), job._replace()):
            assert same == job and hash(same) == hash(job) and type(same) is Job
            assert (same.attributes is job.attributes) or job.attributes

    @pytest.mark.parametrize("name", Job._fields)
    def test_each_field_counts(self, name: str) -> None:
        other = FULL._replace(**{name: CHANGED[name]})
        assert other != FULL and getattr(other, name) == CHANGED[name]
        assert all(getattr(other, field) == getattr(FULL, field) for field in Job._fields if field != name)

    def test_what_agents_know(self) -> None:
        known = FULL.known()
        assert (known.run_time, known.run_times) == (9.0, {})
        assert known.sizes == (Size(12, 5.0, 5.0, Request(4, 3)),)
        kept = {name for name in Job._fields if getattr(known, name) == getattr(FULL, name)}
        assert kept == {*Job._fields} - {"run_time", "run_times", "sizes"}

    def test_a_job_in_one_of_its_sizes(self) -> None:
        small, large = FULL.in_all_sizes()
        assert small == FULL._replace(sizes=()) == FULL.in_size(0)
        assert large[2:9] == (12, 5.0, 4.0, 4, Request(4, 3), (), {"A": 2.0}) and large[9:] == FULL[9:]

    def test_another_request_brings_its_cores(self) -> None:
        assert Job(1, 0.0, 1, 1.0, 1.0).requesting(Request(3, 2)).requested_cores == 6
        with pytest.raises(WorkloadError, match="requested_cores: got 6, but 6 tasks of 2 cores request 12"):
            check_job(FULL._replace(request=Request(6, 2)))
        with pytest.raises(WorkloadError, match="requested_cores: got 6, but 6 tasks of 2 cores request 12"):
            simulate(BatchCluster([FULL._replace(request=Request(6, 2), after=None)], 16), create("fcfs"))

    @pytest.mark.parametrize(
        ("name", "what"), [("NodeJob", "write Job.of_tasks"), ("MoldableJob", "write Job"), ("Jbo", "no attribute")]
    )
    def test_former_names_say_what_to_write(self, name: str, what: str) -> None:
        with pytest.raises(AttributeError, match=what):
            getattr(batch, name)


class LeastEnergy:
    """Starts the job with the least energy of those that fit."""

    def act(self, observation: BatchObservation) -> int | None:
        queue = observation.queue
        fits = np.flatnonzero(queue.requested_cores <= observation.free_cores)
        return int(queue.row[fits[np.nanargmin(queue["energy"][fits])]]) if len(fits) else None


class Looks:
    """Keeps a column of the queue, and starts the first job."""

    def __init__(self, name: str) -> None:
        self.name, self.seen = name, []

    def act(self, observation: BatchObservation) -> int | None:
        self.seen.append(observation.queue[self.name])
        fits = observation.queue.requested_cores[0] <= observation.free_cores
        return int(observation.queue.row[0]) if fits else None


class TestAttributes:
    TEXT = (
        "job_id,submission_time,cores,run_time,energy,image,project,node_list\n"
        "1,0,2,10,9.5,cpu,x,n1\n2,0,2,10,4,gpu,y,n2\n3,0,2,10,7,,x,n3\n"
    )

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "jobs.csv"
        path.write_text(self.TEXT)
        return path

    def test_from_a_file_through_a_policy_to_the_table(self, path: Path, tmp_path: Path) -> None:
        trace = job_table.read(path, attributes=("energy", "image", "project"))
        assert trace.report.unread == ("node_list",)
        assert trace.jobs[2].attributes == {"energy": 7.0, "project": "x"}
        cluster = BatchCluster(trace.jobs, 2, cycle="instant")
        result = simulate(cluster, LeastEnergy(), out=tmp_path / "out")
        columns = ["job_id", "energy", "image", "starting_time"]
        rows = [(1, 9.5, "cpu", 20.0), (2, 4.0, "gpu", 0.0), (3, 7.0, None, 10.0)]
        for found in (result, Result.load(tmp_path / "out")):
            assert found.jobs.select(columns).rows() == rows
            assert found.info["attributes"] == {"energy": "float", "image": "text", "project": "text"}
            validate(found, trace.jobs).raise_if_invalid()
        other = result.jobs.with_columns(energy=pl.col("energy") + 1)
        assert not other.equals(result.jobs)

    def test_limits_of_an_attribute(self, path: Path) -> None:
        jobs = job_table.read(path, attributes=["project"]).jobs
        result = simulate(BatchCluster(jobs, 8, limits=[Limit(scope="project", running_jobs=1)]), create("fcfs"))
        assert result.jobs["starting_time"].to_list() == [0.0, 0.0, 10.0]
        assert result.table("limited_jobs")["group"].to_list() == ["x", "y", "x"]

    @pytest.mark.parametrize("name", ["run_time", "waiting_time", "starting_time", "nothing"])
    def test_a_reader_keeps_no_outcomes_and_no_unknown_columns(self, path: Path, name: str) -> None:
        path.write_text(self.TEXT.replace("node_list", name) if name != "run_time" else self.TEXT)
        wrong = "nowhere" if name == "nothing" else name
        with pytest.raises(InvalidConfiguration, match=f"attributes: got '{wrong}', which is"):
            job_table.read(path, attributes=[wrong])

    @pytest.mark.parametrize(
        ("values", "dtype", "kind"),
        [
            ((1, 2), np.int64, "integer"),
            ((1, 2.5), np.float64, "float"),
            ((1, None), np.float64, "integer"),
            ((True, False), np.bool_, "boolean"),
            (("a", None), np.object_, "text"),
            (((1, 2), "b"), np.object_, "text"),
        ],
    )
    @pytest.mark.parametrize("streams", [False, True])
    def test_types(self, values: Any, dtype: Any, kind: str, streams: bool) -> None:
        values = values[: 2 - streams * (values[1] is None)]  # a stream knows only the attributes of queued jobs
        facts = [{} if value is None else {"x": value} for value in values]
        jobs = [Job(n, 0.0, 1, 5.0, 5.0, attributes=fact) for n, fact in enumerate(facts)]
        agent = Looks("x")
        result = simulate(BatchCluster(iter(jobs) if streams else jobs, 1, cycle="instant"), agent)
        assert len(values) < 2 or agent.seen[0].dtype == dtype
        assert agent.seen[0].shape == (len(values),)
        missing = "" if kind == "text" else np.nan
        assert agent.seen[0].tolist()[:1] == list(values[:1])
        if values[1:] == (None,):
            assert agent.seen[0].tolist()[1:] == pytest.approx([missing], nan_ok=True)
        assert result.info.get("attributes") == (None if streams else {"x": kind})  # only lists are known in advance

    def test_columns_of_fields_and_what_is_not_there(self) -> None:
        jobs = [Job(1, 0.0, 1, 5.0, 5.0, queue="long", qos="a", attributes={"energy": 3.0})]
        for name, want in (("queue", ["long"]), ("qos", ["a"]), ("partition", [""]), ("requested_time", [5.0])):
            agent = Looks(name)
            simulate(BatchCluster(jobs, 1), agent)
            assert agent.seen[0].tolist() == want
        message = (
            r"queue\['enrgy'\]: no job has this attribute \(did you mean 'energy'\?\); expected one of: queue, "
            "partition, qos, energy"
        )
        with pytest.raises(InvalidConfiguration, match=message):
            simulate(BatchCluster(jobs, 1), Looks("enrgy"))
        for secret in ("run_time", "run_times"):
            with pytest.raises(InvalidConfiguration, match="no job has this attribute"):
                simulate(BatchCluster(jobs, 1), Looks(secret))

    @pytest.mark.parametrize("name", ["run_time", "waiting_time", "queue", "arrival_number", "status", 3])
    def test_names_that_are_taken(self, name: Any) -> None:
        job = Job(1, 0.0, 1, 5.0, 5.0, attributes={name: 1})
        for check in (lambda: check_job(job), lambda: BatchCluster([job], 1)):
            with pytest.raises(WorkloadError, match=f"job 1: attributes: got {name!r}, expected names other than"):
                check()

    @pytest.mark.parametrize("options", [{"num_cores": 2}, {"nodes": Node.several(1, 2)}])
    @pytest.mark.parametrize("foresight", [True, False])
    def test_forks_see_them(self, options: Any, foresight: bool) -> None:
        jobs = [Job(n, 0.0, 2, 5.0, 5.0, attributes={"energy": float(n)}) for n in range(4)]
        simulation = Simulation(BatchCluster(jobs, **options, cycle="instant"))
        decision = simulation.advance()
        assert decision is not None
        decision.answer(LeastEnergy().act(decision.observation))
        first = simulation.advance()
        assert first is not None
        fork = simulation.fork(foresight=foresight)
        decision = fork.advance()
        assert decision is not None
        assert decision.observation.queue["energy"].tolist() == [1.0, 2.0, 3.0]
        decision.answer(None)
        while (decision := fork.advance()) is not None:
            decision.answer(LeastEnergy().act(decision.observation))
        assert fork.finish().jobs["energy"].to_list() == [0.0, 1.0, 2.0, 3.0]
        assert first.observation.queue["energy"].tolist() == [1.0, 2.0, 3.0]

    def test_fields_of_a_log(self, tmp_path: Path) -> None:
        path = tmp_path / "log.swf"
        row = "{} {} -1 10 1 -1 -1 1 10 {} 1 1 {} {} 3 -1 -1 -1\n"
        path.write_text(row.format(1, 0, 512.5, 2, 9) + row.format(2, 1, -1, -1, 8))
        jobs = swf.read(path, attributes=["requested_memory", "group", "executable"]).jobs
        facts = [{"requested_memory": 512.5, "group": 2, "executable": 9}, {"executable": 8}]
        assert [job.attributes for job in jobs] == facts
        assert [job.queue for job in jobs] == ["3", "3"]
        assert swf.read(path).jobs[0].attributes == {}
        with pytest.raises(InvalidConfiguration, match="attributes"):
            swf.read(path, attributes=["used_memory"])

    def test_ids_that_are_text_reach_the_table(self, tmp_path: Path) -> None:
        table = {"job_id": ["b!7", "a!3"], "subtime": [0, 1], "cores": [1, 1], "run_time": [5, 5], "user": ["ann", ""]}
        result = simulate(BatchCluster(job_table.jobs_from(table).jobs, 2), create("fcfs"))
        assert result.jobs.select("job_id", "user").rows() == [("b!7", "ann"), ("a!3", None)]
        path = tmp_path / "jobs.json"
        batsim.write(path, [Job(1, 0.0, 1, 5.0, 5.0)], 2)
        path.write_text(path.read_text().replace('"id": 1,', '"id": "w0!1",'))
        assert [(job.job_id, job.attributes) for job in batsim.read(path).jobs] == [("w0!1", {})]


def test_the_case_of_ids_that_come_back() -> None:
    """References mean the first row that has a number; the jobs keep the numbers of the file."""
    path = Path("/work/shared/cases/dup_ids_dependencies/w.swf")
    if not path.exists():
        pytest.skip(f"{path} is not there")
    jobs = swf.read(path, dependencies=True).jobs
    assert [(job.job_id, job.after) for job in jobs] == [
        (1, None),
        (1, None),
        (2, Dependency((1,), 100.0)),
        (3, Dependency((2,), 7.0)),
    ]
    assert {row: others for row, (others, _) in jobs.dependencies().items()} == {2: (0,), 3: (2,)}
    table = {"id": [1, 1, 2], "subtime": [0, 3, 4], "cores": [1] * 3, "run_time": [10] * 3}
    assert len(job_table.jobs_from(table | {"after": ["", "2", ""]}).jobs) == 3
    with pytest.raises(WorkloadError, match="row 2: after: got 1, the id of several jobs"):
        job_table.jobs_from(table | {"after": ["", "", "1"]})


@pytest.mark.parametrize("request_", [2, "2", None, (1, 4)])
def test_of_tasks_refuses_what_is_no_request(request_: Any) -> None:
    with pytest.raises(WorkloadError, match=r"job 7: request: got .*, expected a Request, such as Request\(tasks=2"):
        Job.of_tasks(7, 0.0, request_, 10.0, 10.0)
