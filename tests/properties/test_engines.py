"""The compiled engine has the same records as SimPy's kernel, byte by byte."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, Result, compare, files, simulate
from desim.agents.batch import EASYBackfilling, create
from desim.agents.batch.priorities import PRIORITIES, Multifactor
from desim.problems.batch import BatchCluster, Job, Size, Workload, cluster, compiled
from desim.problems.batch.compiled.loops import CHANGING, loop_of
from desim.problems.deferrable import DeferrableCluster
from desim.processes import random_outages
from desim.validation import validate
from desim.workloads import lublin

pytest.importorskip("numba", reason="needs the extra search")

ORDERS = list(PRIORITIES)
BY_LENGTH = ("sjf", "f1", "f2", "f3", "f4", "wfp3", "unicep")
JOBS = [Job(1, 0.0, 3, 10.0, 10.0), Job(2, 0.0, 2, 5.0, 5.0), Job(3, 1.0, 1, 6.0, 8.0), Job(4, 2.0, 4, 5.0, 1.0)]


class Setting(NamedTuple):
    """One run."""

    jobs: list[Job]
    num_cores: int
    options: dict[str, Any]
    agent: str
    until: float

    def result(self, engine: Any, out: Path | None = None) -> Result:
        """Return the result of the run with an engine."""
        jobs = Workload.of(self.jobs) if len(self.jobs) % 2 else self.jobs
        cluster = BatchCluster(jobs, self.num_cores, **self.options)
        kinds = {} if self.until == float("inf") else {"until": self.until}
        return simulate(cluster, create(self.agent), engine=engine, out=out, seed=len(self.jobs), **kinds)


def drawn(rng: Random) -> Setting:
    """Return a random run: times with many ties or with digits, jobs that are killed or exceed their requests."""
    num_cores = rng.choice((1, 2, 4, 8, 30, 100))
    integers, longest = rng.random() < 0.5, rng.choice((3, 20, 500))

    def time(most: float) -> float:
        return float(rng.randint(0, int(most))) if integers else rng.uniform(0.0, most)

    now, jobs = rng.choice((0.0, time(3e6))), []
    gaps = rng.choice(((0.0, 1.0), (0.0, 0.0, 0.0, 5.0), (0.5, 1.5), (2.0, 40.0)))
    widest = rng.choice((num_cores, max(1, num_cores // 3)))
    ids = rng.choice(("rows", "few", "text"))
    for row in range(rng.choice((1, 5, 20, 40, 150))):
        now += time(2.0) if rng.random() < 0.3 else rng.choice(gaps)
        requested = time(longest)
        run = rng.choice((requested, time(requested), time(longest), requested * rng.choice((1.01, 3, 30))))
        number: Any = {"rows": row, "few": rng.randrange(4), "text": f"job-{rng.randrange(30)}"}[ids]
        jobs.append(Job(number, now, rng.randint(1, widest), requested, run, rng.randrange(-1, 4)))
    options: dict[str, Any] = {"cycle": rng.choice(("instant", "instant", "arrival", "event", 7.0, 0.3))}
    if rng.random() < 0.3:
        options |= rng.choice(({"enforce_time_limit": False}, {"over_time_limit": time(100.0)}))
    if rng.random() < 0.2:
        row = rng.randrange(len(jobs))
        jobs[row] = jobs[row]._replace(requested_cores=num_cores + 1)
        options["too_wide"] = "reject"
    if rng.random() < 0.4:
        options["predictor"] = rng.choice(("oracle", "user-average", "user-average:1"))
    averages = "user" in options.get("predictor", "")
    expected = [f"{name}-expected" for name in BY_LENGTH if name != "f1" or not averages]
    first, second = (rng.choice((*ORDERS, *expected)) for _ in range(2))
    kind = rng.choice(("{}", "backfilling-{}", "easy-{}", "easy-{}+{}", "conservative-{}", "conservative-{}"))
    until = rng.uniform(0.1, now + longest) if rng.random() < 0.2 else float("inf")
    return Setting(jobs, num_cores, options, kind.format(first, second), until)


def plain(rng: Random) -> Setting:
    """Return a random run in which every job ends by its expected end, which has loops of its own."""
    setting = drawn(rng)
    order, other = (rng.choice([name for name in ORDERS if name not in CHANGING]) for _ in range(2))
    kind = rng.choice(("{}", "fcfs", "backfilling-{}", "easy-{}", "easy-{}+{}", "easy-{}-expected"))
    if "expected" in kind:
        order = rng.choice([name for name in BY_LENGTH if name not in CHANGING])
    options = {"predictor": rng.choice(("request", "oracle"))}
    narrow = [job._replace(requested_cores=min(job.requested_cores, setting.num_cores)) for job in setting.jobs]
    return Setting(narrow, setting.num_cores, options, kind.format(order, other), float("inf"))


def check(setting: Setting) -> None:
    """Raise an error if the engines differ."""
    found, known = setting.result("compiled"), setting.result("simpy")
    assert found.info.pop("engine") == "compiled"
    assert found.info == known.info
    assert repr(found.metrics()) == repr(known.metrics())  # before the table is made as a whole
    for name in known.table_names:
        assert found.table(name).schema == known.table(name).schema
        assert found.table(name).equals(known.table(name)), name


@given(st.integers(0, 2**48))
@settings(max_examples=60)
def test_engines_agree(seed: int) -> None:
    """Tables, descriptions and metrics are equal on random workloads, orders, backfilling and options."""
    check(drawn(Random(seed)))


@given(st.integers(0, 2**48))
@settings(max_examples=60)
def test_engines_agree_on_plain_runs(seed: int) -> None:
    """The same holds for runs with loops of their own."""
    setting = plain(Random(seed))
    assert loop_of(BatchCluster([], 1, **setting.options), create(setting.agent).compiled_rule()) != "kernel.run"
    check(setting)


@pytest.mark.parametrize("agent", ["fcfs", "easy", "easy-sjf", "easy-fcfs+f3", "backfilling-smallest-first", "sjf"])
def test_engines_agree_with_many_jobs_at_a_time(agent: str) -> None:
    """The same holds where so many jobs run that they become a heap, and so many queue that gaps are closed."""
    rng = Random(7)
    jobs = [
        Job(row, float(row // 40), rng.choice((1, 1, 1, 12)), time := rng.uniform(1.0, 60.0), time * rng.random())
        for row in range(1_500)
    ]
    check(Setting(jobs, 800, {}, agent, float("inf")))


@pytest.mark.slow
def test_engines_agree_on_thousands_of_runs() -> None:
    """The same holds for thousands of runs."""
    for seed in range(4_000):
        check(drawn(Random(seed)))
        check(plain(Random(seed)))


def test_orders_that_are_kept_equal_those_that_are_sorted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """In long queues, whose limit is lowered here, orders follow arrivals, starts, and jobs that failures requeue."""
    agents = ("sjf", "f1", "easy-sjf", "easy-fcfs+f3", "easy-f4+smallest-first", "backfilling-f2", "easy-sjf-expected")
    jobs = lublin.generate(150, 16, seed=4, load=1.5, num_users=5, overestimate=3.0)

    def runs() -> list[Result]:
        """Return runs with failures."""
        options: dict[str, Any] = {"processes": [random_outages(3e5, 3e4)], "predictor": "user-average"}
        return [simulate(BatchCluster(jobs, 16, **options), create(agent)) for agent in agents]

    known = runs()
    for module in ("desim.agents.batch.priorities", "desim.problems.batch.observation"):
        monkeypatch.setattr(f"{module}.MANY", 4)
    for found, result in zip(runs(), known, strict=True):
        assert result.height("interruptions") > 3
        assert found.jobs.equals(result.jobs), result.info["agent"]
    for seed in range(20):
        check(drawn(Random(seed)))


def test_files_are_equal(tmp_path: Path) -> None:
    """Runs that write their records to files write the same bytes, in the same parts."""
    jobs = [Job(row, float(row // 3), 1 + row % 4, 5.0, 4.0 + row % 3, row % 2) for row in range(17_000)]
    for engine in ("compiled", "simpy"):
        simulate(BatchCluster(jobs, 4), create("easy-sjf"), engine=engine, out=tmp_path / engine)
    files = sorted(path.relative_to(tmp_path / "simpy") for path in (tmp_path / "simpy").rglob("*.parquet"))
    assert len([path for path in files if path.parts[0] == "jobs"]) == 3
    for path in files:
        assert (tmp_path / "simpy" / path).read_bytes() == (tmp_path / "compiled" / path).read_bytes(), path


class Mine(EASYBackfilling):
    """An agent that may do anything."""


@pytest.mark.parametrize(
    ("options", "agent", "named"),
    [
        (
            {},
            EASYBackfilling(Multifactor(partitions={"a": 1.0})),
            "agent easy-multifactor (the scores of multifactor depend on partitions)",
        ),
        ({}, "easy-specific-fcfs", "agent easy-specific-fcfs (it reserves particular cores)"),
        ({}, Mine(), "agent easy-fcfs (its class is not one of desim's)"),
        ({}, "window-shortest-9-1", "agent window-shortest-9-1 (it has no compiled rule)"),
        ({"checkpoint_interval": 5.0}, "fcfs", "part 'checkpoints' of the cluster"),
        ({"ask_when_empty": True}, "fcfs", "ask_when_empty"),
        ({"predictor": "user-average:3"}, "fcfs", "user averages of more than two jobs"),
        ({"predictor": "user-average"}, "f1-expected", "order f1-expected with averages of users"),
        ({"jobs": iter(JOBS)}, "fcfs", "jobs from an iterator"),
        ({"jobs": [JOBS[0]._replace(sizes=(Size(1, 30.0, 30.0),))]}, "fcfs", "moldable jobs"),
        ({"jobs": JOBS[::-1]}, "fcfs", "jobs that are not in order"),
        ({"num_cores": 3}, "fcfs", "jobs that are too wide"),
    ],
)
def test_what_cannot_be_compiled_is_named(options: dict[str, Any], agent: Any, named: str) -> None:
    """engine="compiled" raises an error that names the feature."""
    arguments = {"jobs": JOBS, "num_cores": 4} | options
    problem = BatchCluster(arguments.pop("jobs"), arguments.pop("num_cores"), **arguments)
    with pytest.raises(InvalidConfiguration) as raised:
        simulate(problem, agent, engine="compiled")
    assert str(raised.value) == f"engine: got 'compiled', which cannot simulate {named}; try 'auto' or 'simpy'"


def test_other_problems_have_no_compiled_engine() -> None:
    """The error says so."""
    with pytest.raises(InvalidConfiguration, match="problem deferrable has none"):
        simulate(DeferrableCluster([], [1]), "fifo", engine="compiled")


def test_auto_compiles_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """engine="auto" compiles runs of many jobs, and falls back silently; the description of the run says which ran."""
    problem = BatchCluster(JOBS, 4)
    assert "engine" not in simulate(problem, "easy").info
    monkeypatch.setattr(cluster, "LEAST_JOBS", 4)
    monkeypatch.setattr(compiled, "is_cached", lambda *_: False)
    assert "engine" not in simulate(problem, "easy").info  # compiling takes longer than the run
    monkeypatch.setattr(compiled, "is_cached", lambda *_: True)
    assert simulate(problem, "easy").info["engine"] == "compiled"
    assert "engine" not in simulate(problem, "easy", engine="simpy").info
    assert "engine" not in simulate(problem, "window-shortest-9-1").info
    assert simulate(problem, "easy").jobs.equals(simulate(problem, "easy", engine="simpy").jobs)


@pytest.mark.parametrize(
    ("agent", "loop"), [("fcfs", "plain.first_come"), ("easy-sjf", "plain.in_order"), ("conservative", "kernel.run")]
)
def test_a_cache_is_found_and_not_an_old_one(
    agent: str, loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the loop that simulates the run lies beside its source, and is at least as new."""
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "__init__.py"))
    name, index = loop.partition(".")[0], tmp_path / "__pycache__" / f"{loop}-1.py311.nbi"
    for source in (name, "numba_functions"):
        (tmp_path / f"{source}.py").touch()
    problem, decider = BatchCluster(JOBS, 4), create(agent)
    assert not compiled.is_cached(problem, decider)
    index.parent.mkdir()
    (index.parent / "other.run-1.py311.nbi").touch()
    assert not compiled.is_cached(problem, decider)
    index.touch()
    assert compiled.is_cached(problem, decider)
    os.utime(index, (1.0, 1.0))
    assert not compiled.is_cached(problem, decider)


def test_comparisons_reuse_runs_of_either_engine(tmp_path: Path) -> None:
    """The identity of a stored run does not depend on what has simulated it."""
    options: dict[str, Any] = {"seeds": 1, "workers": 1, "out": tmp_path, "jobs": 50, "cores": 32, "load": 0.9}
    first = compare("batch", ["fcfs", "easy"], engine="compiled", **options)
    assert first.result("easy-fcfs").info["engine"] == "compiled"
    second = compare("batch", ["fcfs", "easy"], engine="simpy", **options)
    assert all(one.reused for one in second.all_runs)


def test_ctrl_c_while_records_are_written_leaves_whole_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is interrupted at its last part, as with SimPy's kernel, and its records are valid."""

    def write(path: Path, content: Any) -> None:
        if path.name == "part-000003.parquet":
            raise KeyboardInterrupt
        files.write_atomically(path, content)

    jobs = [Job(number, float(number), 1, 3.0, 3.0) for number in range(10)]
    problem, tables = BatchCluster(jobs, 2), BatchCluster.tables
    small = {name: replace(table, chunk_rows=3) for name, table in problem.tables().items()}
    monkeypatch.setattr(BatchCluster, "tables", lambda self: small)
    monkeypatch.setattr("desim.records.write_atomically", write)
    with pytest.raises(KeyboardInterrupt):
        simulate(problem, "easy", engine="compiled", out=tmp_path / "run")
    monkeypatch.setattr(BatchCluster, "tables", tables)
    result = Result.load(tmp_path / "run")
    assert (result.info["status"], result.info["agent"], result.height("jobs")) == ("interrupted", "easy-fcfs", 6)
    assert result.end_time == result.jobs["finish_time"].max()
    assert validate(result).ok


def test_nothing_loads_numba_before_it_compiles() -> None:
    """Runs of SimPy's kernel do not pay for the compiler."""
    code = """
import sys
from desim import simulate
from desim.problems.batch import BatchCluster, Job
simulate(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], 2), "easy")
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
