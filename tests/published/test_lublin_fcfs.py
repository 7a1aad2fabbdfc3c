"""First come, first served on a published workload, where other simulators agree on the figures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from desim import Result, simulate
from desim.agents.batch import FCFS
from desim.problems.batch import BatchCluster, Job
from desim.workloads import swf

LOG = Path(__file__).resolve().parents[3] / "shared" / "data" / "swf" / "lublin_256.swf"


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    if not LOG.is_file():
        pytest.skip("needs the log lublin_256.swf in the shared data")
    return list(swf.read(LOG).jobs)


@pytest.fixture(scope="module")
def result(jobs: list[Job]) -> Result:
    return simulate(BatchCluster(jobs, num_cores=256), FCFS())


def test_the_mean_waiting_time(result: Result) -> None:
    assert result.jobs["waiting_time"].mean() == pytest.approx(2_388_443.8, abs=0.05)


def test_the_mean_bounded_slowdown(result: Result) -> None:
    bounded = pl.max_horizontal(
        pl.lit(1.0), pl.col("turnaround_time") / pl.max_horizontal(pl.lit(10.0), pl.col("execution_time"))
    )
    assert result.jobs.select(bounded).to_series().mean() == pytest.approx(66_502.5, abs=0.05)


def test_the_metrics_say_the_same(result: Result) -> None:
    metrics = result.metrics()
    assert metrics["waiting_time_mean"] == pytest.approx(2_388_443.8, abs=0.05)
    assert metrics["bounded_slowdown_mean"] == pytest.approx(66_502.5, abs=0.05)


def test_every_job_ran_in_order_of_arrival(jobs: list[Job], result: Result) -> None:
    assert len(result.jobs) == len(jobs)
    assert result.jobs["success"].all()
    assert result.jobs["starting_time"].is_sorted()
