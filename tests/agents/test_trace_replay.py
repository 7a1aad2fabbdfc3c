"""The schedule of a log, repeated: to the second where the cores suffice, else late, in order, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, simulate
from desim.agents.batch import TraceReplay, create
from desim.problems.batch import BatchCluster, Job
from desim.sweep.identity import identity_of
from desim.workloads import job_table, lublin, swf

#: Five jobs on four cores: the log lets job 3 start at 20 s, while jobs 1 and 2 hold all cores until 25 s.
LOG = """; MaxProcs: 4
1 0 5 20 2 -1 -1 2 50 -1 1 7 -1 -1 1 -1 -1 -1
2 0 0 25 2 -1 -1 2 50 -1 1 7 -1 -1 2 -1 -1 -1
3 10 10 5 3 -1 -1 3 50 -1 1 7 -1 -1 2 -1 -1 -1
4 12 13 30 1 -1 -1 1 50 -1 1 7 -1 -1 1 -1 -1 -1
5 40 -1 30 1 -1 -1 1 50 -1 1 7 -1 -1 1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


def starts_of(agent: object, jobs: list[Job], num_cores: int) -> dict[int, float]:
    table = simulate(BatchCluster(jobs, num_cores), agent).jobs  # type: ignore[arg-type]
    return dict(zip(table["job_id"].to_list(), table["starting_time"].to_list(), strict=True))


def test_a_job_starts_when_the_log_says_so_or_as_soon_as_it_can(log: Path) -> None:
    trace = swf.read(log)
    assert trace.recorded_starts() == {1: 5.0, 2: 0.0, 3: 20.0, 4: 25.0}
    agent = create(f"replay:{log}")
    assert isinstance(agent, TraceReplay)
    assert starts_of(agent, trace.jobs, 4) == {1: 5.0, 2: 0.0, 3: 25.0, 4: 25.0, 5: 40.0}
    assert (agent.delays, agent.unknown) == ({3: 5.0}, 1)
    told = "5 jobs submitted, 1 of them started later than recorded, by 5 s at the median and 5 s at most, 1 without a"
    assert agent.remarks().startswith(told)
    assert starts_of(agent, trace.jobs, 7) == {1: 5.0, 2: 0.0, 3: 20.0, 4: 25.0, 5: 40.0}
    assert (agent.delays, agent.unknown) == ({}, 1)


def test_who_is_late_comes_first_but_blocks_nobody(log: Path) -> None:
    """On three cores job 1 cannot start before 25 s; job 4 fits beside it, job 3 needs all three cores."""
    agent = create(f"replay:{log}")
    assert starts_of(agent, swf.read(log).jobs, 3) == {2: 0.0, 1: 25.0, 4: 25.0, 5: 45.0, 3: 75.0}


def test_jobs_of_another_clock_are_refused(log: Path) -> None:
    trace = swf.read(log)
    later = [job._replace(submission_time=job.submission_time + 100) for job in trace.jobs]
    with pytest.raises(InvalidConfiguration, match=r"recorded: job 2 is submitted at 100 s, after its recorded start"):
        simulate(BatchCluster(later, 4), TraceReplay(trace.recorded_starts()))
    moved = swf.read(log, shift=True)
    assert starts_of(TraceReplay(moved.recorded_starts()), moved.jobs, 7)[4] == 25.0


def test_without_a_record_there_is_nothing_to_repeat(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(LOG.replace(" 5 20 ", " -1 20 ").splitlines()[1])
    for source in (str(path), "lublin"):
        with pytest.raises(InvalidConfiguration, match=f"^replay:{source}: got a log without start times"):
            create(f"replay:{source}")


def test_another_log_is_another_agent(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    before = identity_of(create("replay:log.swf"))
    assert before == identity_of(create("replay:log.swf"))
    log.write_text(LOG.replace(" 10 10 ", " 10 11 "))
    assert identity_of(create("replay:log.swf")) != before


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    name=st.sampled_from(["fcfs", "easy-sjf", "conservative", "backfilling-lcfs"]),
    load=st.floats(0.3, 1.5),
)
def test_any_schedule_is_repeated_exactly(seed: int, name: str, load: float) -> None:
    jobs = lublin.generate(60, 16, seed=seed, load=load, overestimate=3.0)
    table = simulate(BatchCluster(jobs, 16), create(name)).jobs
    starts = job_table.jobs_from(table).recorded_starts()
    agent = TraceReplay(starts)
    again = simulate(BatchCluster(jobs, 16), agent).jobs
    waits = (table["waiting_time"] - again["waiting_time"]).abs()
    assert waits.max() <= 1e-6  # type: ignore[operator]  # a wait is a difference of two times
    assert all(delay <= 1e-6 for delay in agent.delays.values())
