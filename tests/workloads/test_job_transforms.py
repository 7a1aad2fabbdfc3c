"""Offered load, time windows and clocks of job lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.workloads import swf
from desim.workloads.batch.transform import offered_load, rescale_load, scale_interarrivals, shift_to_zero, time_window

JOBS = [
    Job(4, 100.0, 2, 30.0, 20.0, 7),
    Job(5, 110.0, 1, 30.0, 30.0),
    Job(6, 150.0, 5, 30.0, 2.0),
    Job(7, 200.0, 4, 9.0, 10.0),
]


def times(jobs: list[Job]) -> list[float]:
    return [job.submission_time for job in jobs]


def test_offered_load() -> None:
    assert offered_load(JOBS, 6) == pytest.approx((40 + 30 + 10 + 40) / (6 * 100))
    assert offered_load(iter(JOBS), 12) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("name", "num_cores", "load"),
    [("lublin_256.swf", 256, 271.5568 / 256), ("NASA-iPSC-1993-3.1-cln.swf", 128, 0.4661)],
)
def test_offered_load_of_real_logs(real_log: Callable[[str], Path], name: str, num_cores: int, load: float) -> None:
    assert offered_load(swf.read(real_log(name)), num_cores) == pytest.approx(load, abs=5e-5)


def test_offered_load_may_be_undefined() -> None:
    for jobs in ([], JOBS[:1], [JOBS[0], JOBS[0]]):
        with pytest.raises(WorkloadError, match=f"the offered load of {len(jobs)} jobs is not defined"):
            offered_load(jobs, 4)
    with pytest.raises(InvalidConfiguration, match="num_cores is 0, want a whole number of at least 1"):
        offered_load(JOBS, 0)


def test_scale_interarrivals() -> None:
    before = list(JOBS)
    scaled = scale_interarrivals(JOBS, 0.5)
    assert times(scaled) == [100, 105, 125, 150]
    assert [job._replace(submission_time=0.0) for job in scaled] == [job._replace(submission_time=0.0) for job in JOBS]
    assert before == JOBS
    assert scale_interarrivals([], 2) == []
    for factor in (0, -1, float("inf"), float("nan")):
        with pytest.raises(InvalidConfiguration, match=r"factor is .*, want a finite number above 0"):
            scale_interarrivals(JOBS, factor)


@given(
    jobs=st.lists(
        st.builds(
            Job,
            job_id=st.integers(0, 99),
            submission_time=st.integers(0, 10**7),
            requested_cores=st.integers(1, 512),
            requested_time=st.just(1.0),
            run_time=st.integers(1, 10**5),
        ),
        min_size=2,
        max_size=30,
        unique_by=lambda job: job.submission_time,
    ),
    num_cores=st.integers(1, 1000),
    load=st.floats(0.01, 10),
)
def test_rescale_load(jobs: list[Job], num_cores: int, load: float) -> None:
    jobs.sort(key=lambda job: job.submission_time)
    rescaled = rescale_load(jobs, num_cores, load)
    # The first time stays, so that a later one carries its rounding error
    span = rescaled[-1].submission_time - rescaled[0].submission_time
    error = 1e-9 + 1e-15 * rescaled[-1].submission_time / span
    assert offered_load(rescaled, num_cores) == pytest.approx(load, rel=error)
    assert rescaled[0] == jobs[0]
    assert times(rescaled) == sorted(times(rescaled))


def test_rescale_load_refuses() -> None:
    for load in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidConfiguration, match=r"load is .*, want a finite number above 0"):
            rescale_load(JOBS, 4, load)
    with pytest.raises(WorkloadError, match="the 4 jobs have no work"):
        rescale_load([job._replace(run_time=0.0) for job in JOBS], 4, 0.5)


def test_shift_to_zero() -> None:
    assert times(shift_to_zero(JOBS)) == [0, 10, 50, 100]
    assert times(shift_to_zero(JOBS, 90.0)) == [10, 20, 60, 110]
    assert shift_to_zero([]) == []
    with pytest.raises(InvalidConfiguration, match=r"origin is 101.0, after the first submission at 100.0"):
        shift_to_zero(JOBS, 101.0)


def test_time_window() -> None:
    assert [job.job_id for job in time_window(JOBS, 110, 200)] == [5, 6]
    assert times(time_window(JOBS, 105, 201, shift=True)) == [5, 45, 95]
    assert time_window(JOBS, 0, 5, shift=True) == []
    with pytest.raises(InvalidConfiguration, match="the window from 5 to 5 s is empty"):
        time_window(JOBS, 5, 5)
