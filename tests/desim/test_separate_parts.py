"""Each part of a batch cluster is a separate module: a cluster that does not use it runs without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from desim import InfeasibleAction, InvalidConfiguration, Result, Simulation, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, Limit, Part, WaitUntil, parts
from desim.tables import Column, Table
from desim.validation import validate

MODULES = ("checkpoints", "dependencies", "limits", "outages", "preemption", "reservations", "usage")
NEEDED_BY = {"outages": ("reservations",)}
"""Parts that need another one."""

BROUGHT = {
    "dependencies": "dependencies session_gap",
    "limits": "limits limited_jobs",
    "reservations": "reservations reservation_nodes reservation_users node_reservations user_reservations",
    "preemption": "qos job_qos preemptions suspended",
    "checkpoints": "checkpoint_interval",
    "outages": "outages",
}
"""Tables, entries of the description, rules, metrics and options that go with a part."""

RUN = """
import sys
missing = {missing!r}
for name in missing:
    sys.modules["desim.problems.batch.parts." + name] = None  # importing it raises ImportError
from desim import simulate
from desim.agents.batch import create
from desim.problems import batch
from desim.problems.batch import BatchCluster, Job
from desim.processes import Outage, planned_outages

jobs = [Job(n, float(n), 1 + n % 3, 50.0, 40.0, n % 2) for n in range(6)]
site = {{}}
if "dependencies" not in missing:
    jobs[5] = jobs[5]._replace(after=batch.Dependency((0, 1), 5.0))
if "limits" not in missing:
    site["limits"] = [batch.Limit(running_jobs=2)]
if "reservations" not in missing:
    site["reservations"] = [batch.AdvanceReservation(60.0, 70.0, 2)]
if "outages" not in missing:
    site["processes"] = [planned_outages([Outage(20.0, 25.0, cores=[0])])]
if "preemption" not in missing:
    jobs = [job._replace(qos="low") for job in jobs]
    levels = ("low", (), "suspend"), ("high", ("low",), "requeue")
    site["qos"] = [batch.QualityOfService(name, preempts=preempts, mode=mode) for name, preempts, mode in levels]
    jobs.append(Job(6, 10.0, 4, 50.0, 10.0, 2, qos="high"))
if "checkpoints" not in missing:
    site["checkpoint_interval"] = 7.0
agent = "easy-fcfs" if "usage" in missing else "easy-multifactor"
result = simulate(BatchCluster(jobs, 4, **site), create(agent if "preemption" in missing else "preemptive-" + agent))
assert set(result.table("jobs")["status"]) == {{"completed"}}, result.table("jobs")
print(*result.info["parts"])
if not {whole!r}:
    sys.exit()

import contextlib, io
from dataclasses import fields
from desim.cli.app import main
from desim.problems.batch.kind import KIND
from desim.problems.batch.options import SiteOptions
from desim.validation import validate

validate(result, jobs).raise_if_invalid()
assert result.metrics()["jobs_completed"] == len(jobs)
print(len(KIND.words.in_force(result)))
with contextlib.redirect_stdout(io.StringIO()):
    assert main(["run", "batch", "--jobs", "20", "--cores", "256", "--agent", "easy-fcfs", "--until", "1e5"]) == 0
for named in (KIND.tables, KIND.info, KIND.rules, KIND.metrics, fields(SiteOptions)):
    print(*(one.name for one in named), end=" ")
"""


@pytest.mark.parametrize("name", ["", *MODULES])
def test_the_rest_runs_without_a_part(name: str) -> None:
    missing = (name, *NEEDED_BY.get(name, ()))
    parts, sentences, *names = lines_of_a_run(missing, whole=True)
    every = ["dependencies", "limits", "reservations", "preemption", "checkpoints"]
    assert parts.split() == [part for part in every if part not in missing]
    assert int(sentences) == len(parts.split())
    there = set(names[0].split())
    for part, brought in BROUGHT.items():
        assert there.isdisjoint(brought.split()) if part in missing else there.issuperset(brought.split())


def test_every_part_is_tested() -> None:
    there = {path.stem for path in Path(parts.__file__).parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - {"__init__", "__pycache__", "base", "text"} == set(MODULES)


def test_a_cluster_without_features_imports_none() -> None:
    assert lines_of_a_run(MODULES) == [""]


def lines_of_a_run(missing: tuple[str, ...], *, whole: bool = False) -> list[str]:
    code = RUN.format(missing=missing, whole=whole)
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert not ran.returncode, ran.stderr
    return ran.stdout.splitlines()


class Licences(Part):
    """At most `count` jobs with a license are queued or running."""

    name = "licences"
    tables = (Table("licences", "a job with a license", (Column("job_id", "integer", "identifier of the job"),)),)

    def __init__(self, count: int) -> None:
        self.count = count

    def started(self, execution: Any) -> None:
        if execution.job.attributes.get("license"):
            self.cluster.simulation.records.tables["licences"].append((execution.job.job_id,))

    def describe(self) -> dict[str, Any]:
        return {"licences": self.count}

    def begin(self) -> None:
        self.waiting: dict[int, Job] = {}

    def outside(self) -> dict[int, Job]:
        return self.waiting

    def explain(self, job: Job, row: int) -> str:
        return "all licences are in use"

    def holds(self, job: Job, row: int) -> bool:
        if job.attributes.get("license") and not self.count:
            self.waiting[row] = job
            return True
        self.count -= job.attributes.get("license", 0)
        return False

    def left(self, job: Job, row: int, outcome: str) -> None:
        if outcome != "rejected" and job.attributes.get("license"):
            self.count += 1
            if self.waiting:
                self.count -= 1
                row = next(iter(self.waiting))
                self.let_in({row: self.waiting.pop(row)})


class Noticing(Part):
    """It notes what happens."""

    def begin(self) -> None:
        self.seen: list[Any] = []

    def arrived(self, job: Job, row: int) -> None:
        self.seen.append((self.cluster.env.now, "arrived", job.job_id, row))

    def started(self, execution: Any) -> None:
        self.seen.append((self.cluster.env.now, "started", execution.job.job_id))

    def left(self, job: Job, row: int, outcome: str) -> None:
        self.seen.append((self.cluster.env.now, outcome, job.job_id))


class NoOddTimes(Part):
    """Jobs start at even times only."""

    def may_start(self, job: Job, row: int, size: int | None) -> str:
        return "the time is odd" if self.cluster.env.now % 2 else ""


LICENSED = [Job(n, 0.0, 1, 10.0, 10.0, attributes={"license": 1} if n < 3 else {}) for n in range(4)]


class Always:
    def act(self, observation: Any) -> int:
        return 1


class AtEvenTimes:
    def act(self, observation: Any) -> Any:
        return WaitUntil(observation.time + 1) if observation.time % 2 else 0


def run(simulation: Simulation) -> Any:
    agent = create("fcfs")
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    return simulation.problem


class TestYourOwn:
    @pytest.mark.parametrize("limits", [(), [Limit("license", running_jobs=2)]])
    def test_it_holds_jobs_back(self, limits: Any, tmp_path: Path) -> None:
        result = simulate(BatchCluster(LICENSED, 4, parts=[Licences(1)], limits=limits), create("fcfs"))
        assert result.table("jobs")["starting_time"].to_list() == [0.0, 10.0, 20.0, 0.0]
        assert result.info["parts"] == ["limits"] * bool(limits) + ["licences"]
        assert result.info["licences"] == 1
        assert result.info["resources"] == "cores"
        assert result.table("licences")["job_id"].to_list() == [0, 1, 2]
        result.save(tmp_path / "run")
        assert Result.load(tmp_path / "run").table("licences").equals(result.table("licences"))
        assert validate(result).ok

    def test_each_run_has_its_own(self) -> None:
        cluster = BatchCluster(LICENSED, 4, parts=[Licences(1)])
        first, second = (simulate(cluster, create("fcfs"), until=5.0) for _ in range(2))
        assert first.table("jobs").equals(second.table("jobs"))
        assert first.table("jobs")["status"].to_list() == ["running", "queued", "queued", "running"]

    @pytest.mark.parametrize("foresight", [True, False])
    def test_forks_have_their_own(self, foresight: bool) -> None:
        simulation = Simulation(BatchCluster(LICENSED, 4, parts=[Licences(1)]))
        simulation.advance()
        fork = simulation.fork(foresight=foresight)
        for one in (fork, simulation):
            assert run(one).parts[0].count == 1
        assert simulation.problem.parts[0] is not fork.problem.parts[0]

    def test_a_held_job_cannot_start(self) -> None:
        with pytest.raises(InfeasibleAction, match="job 1 is held back: all licences are in use"):
            simulate(BatchCluster(LICENSED, 4, parts=[Licences(1)]), Always())

    def test_it_forbids_starts(self) -> None:
        cluster = BatchCluster([Job(0, 1.0, 1, 10.0, 10.0)], 4, parts=[NoOddTimes()])
        with pytest.raises(InfeasibleAction, match="job 0 cannot start: the time is odd"):
            simulate(cluster, create("fcfs"))
        result = simulate(cluster, AtEvenTimes())
        assert result.table("jobs")["starting_time"].to_list() == [2.0]

    def test_it_sees_what_happens(self) -> None:
        cluster = run(Simulation(BatchCluster(LICENSED[:2], 1, parts=[Noticing()])))
        assert cluster.parts[0].seen == [
            (0.0, "arrived", 0, 0),
            (0.0, "arrived", 1, 1),
            (0.0, "started", 0),
            (10.0, "ended", 0),
            (10.0, "started", 1),
            (20.0, "ended", 1),
        ]

    def test_anything_else_is_refused(self) -> None:
        with pytest.raises(InvalidConfiguration, match="parts: got 3, expected objects of subclasses"):
            BatchCluster([], 4, parts=[3])
