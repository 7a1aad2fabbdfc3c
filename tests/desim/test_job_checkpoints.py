"""Checkpoints, from which jobs go on that an outage has cut, and grace beyond the requested time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, simulate
from desim.agents.batch import create
from desim.core import Simulation
from desim.problems.batch import BatchCluster, Job, Node
from desim.processes.outages import Outage, planned_outages, random_outages
from desim.validation import validate


def random_jobs(seed: int, count: int = 15, width: int = 1) -> list[Job]:
    rng = np.random.default_rng(seed)
    times = rng.exponential(20.0, count).cumsum().tolist()
    return [
        Job(number, time, int(rng.integers(1, width + 1)), float(rng.uniform(20, 60)), float(rng.uniform(1, 80)))
        for number, time in enumerate(times)
    ]


def slow_runs(
    jobs: list[Job], downtimes: list[tuple[float, float]], interval: float | None, over_time_limit: float
) -> dict[int, tuple[float, float]]:
    """Return the last start and the end of jobs that run one after the other on one core, in order of arrival."""
    time, runs = 0.0, {}
    for job in jobs:
        time, work = max(time, job.submission_time), job.run_time
        while True:
            time = next((up for down, up in downtimes if down <= time < up), time)
            end = time + min(work, job.requested_time + over_time_limit)
            cut = next((down for down, _ in downtimes if time < down < end), None)
            if cut is None:
                break
            done = cut - time
            if interval is not None:
                saved = 0.0
                while saved + interval <= done:
                    saved += interval
                work -= saved
            time = cut
        runs[job.job_id] = time, end
        time = end
    return runs


INTERVALS, GRACES = st.sampled_from([None, 0.5, 4.0, 32.0]), st.sampled_from([0.0, 5.0])


def compare_with_loops(seed: int, interval: float | None, over_time_limit: float) -> None:
    """Times are multiples of a quarter, so that sums are exact."""
    jobs = [Job(*(round(value * 4) / 4 for value in job[:5])) for job in random_jobs(seed)]
    jobs = [job._replace(job_id=number, requested_cores=1) for number, job in enumerate(jobs)]
    rng = np.random.default_rng(seed)
    downs = np.cumsum(rng.integers(20, 200, 20)).tolist()
    downtimes = [(float(down) + 0.125, float(down) + 0.125 + float(rng.integers(1, 15))) for down in downs]
    outages = planned_outages([Outage(down, up, cores=[0]) for down, up in downtimes])
    cluster = BatchCluster(jobs, 1, checkpoint_interval=interval, over_time_limit=over_time_limit, processes=[outages])
    result = simulate(cluster, create("fcfs"))
    columns = result.jobs.select("job_id", "starting_time", "finish_time")
    assert {job_id: (start, end) for job_id, start, end in columns.iter_rows()} == slow_runs(
        jobs, downtimes, interval, over_time_limit
    )
    assert validate(result, jobs).ok


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), interval=INTERVALS, over_time_limit=GRACES)
def test_one_core_is_that_of_loops(seed: int, interval: float | None, over_time_limit: float) -> None:
    compare_with_loops(seed, interval, over_time_limit)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(seed=st.integers(0, 2**32), interval=INTERVALS, over_time_limit=GRACES)
def test_one_core_is_that_of_loops_in_thousands_of_scenarios(
    seed: int, interval: float | None, over_time_limit: float
) -> None:
    compare_with_loops(seed, interval, over_time_limit)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), kill=st.booleans(), nodes=st.booleans(), until=st.sampled_from([np.inf, 200.0]))
def test_jobs_end_for_good_once_all_work_is_done(seed: int, kill: bool, nodes: bool, until: float) -> None:
    jobs = random_jobs(seed, 30, 4)
    options: Any = {"nodes": Node.several(2, 4)} if nodes else {"num_cores": 8}
    outages = random_outages(300.0, 20.0)
    cluster = BatchCluster(
        jobs, **options, checkpoint_interval=3.0, over_time_limit=7.5, enforce_time_limit=kill, processes=[outages]
    )
    result = simulate(cluster, create("easy-fcfs"), seed=seed, until=until)
    assert validate(result, jobs).ok
    saved: dict[int, float] = {}
    for row in result.table("interruptions").iter_rows(named=True):
        saved[row["job_id"]] = max(saved.get(row["job_id"], 0.0), row["work_after"])
    for row in result.jobs.iter_rows(named=True):
        left, allowed = row["run_time"] - saved.get(row["job_id"], 0.0), row["requested_time"] + 7.5
        if row["status"] in ("completed", "killed"):
            assert row["status"] == ("killed" if kill and left > allowed else "completed")
            assert row["execution_time"] == (min(left, allowed) if kill else left)


def test_forks_know_what_is_saved() -> None:
    jobs = [Job(1, 0.0, 1, 100.0, 90.0), Job(2, 1.0, 1, 10.0, 5.0)]
    outage = planned_outages([Outage(50.0, 60.0, cores=[0])])
    simulation = Simulation(BatchCluster(jobs, 1, checkpoint_interval=20.0, processes=[outage]))
    agent = create("backfilling-sjf")
    while (decision := simulation.advance()) is not None and simulation.env.now < 60.0:
        decision.answer(agent.act(decision.observation))
    ends = []
    for foresight in (True, False):
        fork = simulation.fork(foresight=foresight)
        while (decision := fork.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        ends.append(fork.finish().jobs["finish_time"].to_list())
    assert ends == [[115.0, 65.0], [170.0, 70.0]]


@pytest.mark.parametrize("speeds", [(0.5, 4.0), (4.0, 0.5), (2.0, 2.0)])
def test_what_is_saved_is_a_share_of_the_work(speeds: tuple[float, float]) -> None:
    """Half of 80 s of work is saved on the first node; the second one does the other half at its own speed."""
    nodes = [Node(f"node {speed} {number}", 1, speed=speed) for number, speed in enumerate(speeds)]
    half = 40.0 / speeds[0]
    outage = planned_outages([Outage(half + 0.25, 500.0, nodes=[0])])
    jobs = [Job(1, 0.0, 1, 200.0, 80.0)]
    result = simulate(BatchCluster(jobs, nodes=nodes, checkpoint_interval=half, processes=[outage]), create("fcfs"))
    assert result.jobs.select("starting_time", "finish_time").rows() == [(half + 0.25, half + 0.25 + 40.0 / speeds[1])]
    assert result.table("interruptions").select("speed", "work_before", "work_after").rows() == [(speeds[0], 0.0, 40.0)]
    assert result.jobs.select("earlier_execution_time", "useful_execution_time", "waiting_time").rows() == [
        (half + 0.25, half + 40.0 / speeds[1], 0.0)
    ]
    assert validate(result, jobs).ok


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"over_time_limit": -1.0}, "over_time_limit: got -1.0"),
        ({"checkpoint_interval": 0.0}, "checkpoint_interval: got 0.0"),
    ],
)
def test_times_that_make_no_sense(options: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        BatchCluster([], 4, **options)


def test_who_is_cut_just_when_an_interval_is_full_may_have_saved_it_or_not() -> None:
    jobs = [Job(1, 3.1, 1, 9.0, 9.0)]  # 4 - 3.1 is a little less than 0.9
    outages = [planned_outages([Outage(4.0, 5.0, cores=[0])])]
    result = simulate(BatchCluster(jobs, 1, checkpoint_interval=0.3, processes=outages), create("fcfs"))
    assert result.table("interruptions")["work_after"].to_list() == [pytest.approx(0.6)]
    validate(result, jobs).raise_if_invalid()
