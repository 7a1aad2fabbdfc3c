"""Waiting, slowdown and waste over the executions of jobs: by hand, and equal for equal schedules."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Phase, Result, at, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, Node, QualityOfService
from desim.problems.batch.executions import executions, with_kept_time
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from desim.workloads.batch import lublin

JOB = Job(1, 0.0, 4, 2000.0, 1000.0, qos="other")
OTHER = Job(2, 300.0, 4, 200.0, 200.0, qos="urgent")
QOS = [QualityOfService("urgent", 1.0, ("other",)), QualityOfService("other", mode="suspend")]
PREEMPTED: dict[str, Any] = {"qos": QOS}


def run(*outages: tuple[float, float], jobs: tuple[Job, ...] = (JOB,), **options: Any) -> Result:
    """Simulate jobs on four cores, one of which is down now and then."""
    processes = [planned_outages([Outage(*times, cores=[0]) for times in outages])]
    cluster = BatchCluster(list(jobs), 4, processes=processes, **options)
    result = simulate(cluster, create("preemptive-fcfs" if "qos" in options else "fcfs"))
    assert validate(result, list(jobs)).ok, str(validate(result, list(jobs)))
    return result


def blink(time: float, count: int) -> Any:
    """Return a process in which the first cores fail and are repaired at the same instant."""

    def run(cluster: BatchCluster) -> Any:
        yield at(cluster.env, time, Phase.CAPACITY)
        cluster.fail(cores=range(count))
        cluster.repair(cores=range(count))

    return run


@pytest.mark.parametrize(
    ("result", "waiting", "earlier", "useful", "slowdown", "wasted"),
    [
        pytest.param(lambda: run((950.0, 960.0)), 10.0, 950.0, 1000.0, 1.96, 3800.0, id="requeue"),
        pytest.param(
            lambda: run((950.0, 960.0), checkpoint_interval=100.0), 10.0, 950.0, 1000.0, 1.06, 200.0, id="checkpoint"
        ),
        pytest.param(
            lambda: run((950.0, 960.0), (1015.0, 1020.0), checkpoint_interval=100.0),
            15.0,
            1005.0,
            1000.0,
            1.12,
            4 * (50.0 + 55.0),
            id="cut before the next checkpoint",
        ),
        pytest.param(lambda: run(jobs=(JOB, OTHER), **PREEMPTED), 200.0, 300.0, 1000.0, 1.2, 0.0, id="suspension"),
        pytest.param(
            lambda: run((600.0, 700.0), jobs=(JOB, OTHER), **PREEMPTED),
            300.0,
            400.0,
            1000.0,
            1.7,
            1600.0,
            id="suspension, then requeue",
        ),
        pytest.param(
            lambda: run((600.0, 700.0), jobs=(JOB, OTHER), checkpoint_interval=250.0, **PREEMPTED),
            300.0,
            400.0,
            1000.0,
            1.45,
            600.0,
            id="suspension, then requeue with checkpoints",
        ),
        pytest.param(
            lambda: run((100.0, 110.0), jobs=(Job(1, 0.0, 4, 500.0, 1000.0),)),
            10.0,
            100.0,
            500.0,
            1.22,
            400.0,
            id="killed",
        ),
        pytest.param(
            lambda: run((100.0, 110.0), jobs=(Job(1, 0.0, 4, 500.0, 1000.0),), enforce_time_limit=False),
            10.0,
            100.0,
            1000.0,
            1.11,
            400.0,
            id="overrun",
        ),
        pytest.param(
            lambda: run((950.0, 960.0), on_outage="lose"),
            0.0,
            0.0,
            None,
            None,
            3800.0,
            id="lost",
        ),
    ],
)
def test_of_one_job_by_hand(
    result: Any, waiting: float, earlier: float, useful: float | None, slowdown: float | None, wasted: float
) -> None:
    found = result()
    names = ("waiting_time", "earlier_execution_time", "useful_execution_time", "stretch")
    assert found.jobs.filter(job_id=1).select(names).row(0) == (waiting, earlier, useful, slowdown)
    assert found.metrics()["wasted_core_seconds"] == wasted


def test_of_two_speeds_by_hand() -> None:
    """At twice the speed, 475 s do 950 s of work, of which two checkpoints of 200 s each save 800 s."""
    nodes = [Node("fast", 4, speed=2.0), Node("slow", 4)]
    outage = planned_outages([Outage(475.0, 5000.0, nodes=[0])])
    result = simulate(BatchCluster([JOB], nodes=nodes, checkpoint_interval=200.0, processes=[outage]), create("fcfs"))
    cuts = result.table("interruptions")
    assert cuts.select("speed", "work_before", "work_after").rows() == [(2.0, 0.0, 800.0)]
    assert with_kept_time(cuts)["kept_time"].to_list() == [400.0]
    names = ("starting_time", "execution_time", "earlier_execution_time", "useful_execution_time", "waiting_time")
    assert result.jobs.select(names).rows() == [(475.0, 200.0, 475.0, 600.0, 0.0)]
    assert validate(result, [JOB]).ok


def test_one_physical_schedule_has_one_set_of_metrics() -> None:
    """A job stops at 300 s and goes on at 500 s with all its work, whatever made it stop."""
    suspended = run(jobs=(JOB, OTHER), **PREEMPTED)
    requeue = [QOS[0], QualityOfService("other")]
    requeued = run(jobs=(JOB, OTHER), checkpoint_interval=100.0, **PREEMPTED | {"qos": requeue})
    assert suspended.table("interruptions")["outcome"].to_list() == ["suspended"]
    assert requeued.table("interruptions")["outcome"].to_list() == ["preempted"]
    for options in ({}, {"warm_up": 100.0}, {"window": (200.0, 800.0)}, {"unfinished": "include"}):
        found = [one.metrics(**options) for one in (suspended, requeued)]
        for values in found:
            for name in ("queue_length_mean", "queue_length_max", "queued_load_mean"):
                del values[name]  # a suspended job is not queued
        assert str(found[0]) == str(found[1])  # as text, since nan differs from itself


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), time=st.floats(0.0, 5e4), interval=st.sampled_from([None, 600.0]))
def test_an_outage_of_no_length_takes_what_checkpoints_do_not_keep_and_nothing_else(
    seed: int, time: float, interval: float | None
) -> None:
    """All cores fail and are repaired at once: each running job is requeued and starts again on the spot."""
    jobs = [job._replace(job_id=number) for number, job in enumerate(lublin.generate(40, 16, seed))]
    cluster = BatchCluster(jobs, 16, checkpoint_interval=interval, processes=[blink(time, 16)])
    result = simulate(cluster, create("fcfs"))
    assert validate(result, jobs).ok
    done, table = result.jobs.filter(status="completed"), result.jobs
    rework = pl.col("turnaround_time") - pl.col("waiting_time") - pl.col("useful_execution_time")
    assert done.select(rework.abs().max()).item() <= 5e4
    cuts = with_kept_time(result.table("interruptions"))
    lost = cuts["finish_time"] - cuts["starting_time"] - cuts["kept_time"]
    assert done.select(rework.sum()).item() == pytest.approx(
        lost.filter(cuts["arrival_number"].is_in(done["arrival_number"].implode())).sum(), abs=1e-6
    )
    ran = executions(table, result.table("interruptions"), result.end_time)
    assert ran.height == table["attempts"].sum()
    assert (done["useful_execution_time"] - done["run_time"]).abs().max() < 1e-6


def test_an_outage_that_hits_nobody_changes_nothing() -> None:
    jobs = lublin.generate(60, 16, 3, load=0.9)
    quiet = simulate(BatchCluster(jobs, 16), create("easy"))
    moment = max(job.submission_time for job in jobs) + 1e7
    late = simulate(BatchCluster(jobs, 16, processes=[blink(moment, 1)]), create("easy"))
    assert late.jobs.equals(quiet.jobs)
