"""Lists and streams of batch jobs: offered load, time windows, clocks, and jobs of a Poisson process."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from scipy.stats import kstest
from workload_files import data

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.workloads import swf
from desim.workloads.batch.arrivals import constant, exponential, poisson_jobs
from desim.workloads.batch.transform import offered_load, rescale_load, scale_interarrivals

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
def test_offered_load_of_real_logs(name: str, num_cores: int, load: float) -> None:
    assert offered_load(swf.read(data(f"swf/{name}")), num_cores) == pytest.approx(load, abs=5e-5)


def test_offered_load_may_be_undefined() -> None:
    for jobs in ([], JOBS[:1], [JOBS[0], JOBS[0]]):
        with pytest.raises(WorkloadError, match=f"offered load of {len(jobs)} jobs is undefined"):
            offered_load(jobs, 4)
    with pytest.raises(InvalidConfiguration, match="num_cores: got 0, expected an integer >= 1"):
        offered_load(JOBS, 0)


def test_scale_interarrivals() -> None:
    before = list(JOBS)
    scaled = scale_interarrivals(JOBS, 0.5)
    assert times(scaled) == [100, 105, 125, 150]
    assert [job._replace(submission_time=0.0) for job in scaled] == [job._replace(submission_time=0.0) for job in JOBS]
    assert before == JOBS
    assert scale_interarrivals([], 2) == []
    for factor in (0, -1, float("inf"), float("nan")):
        with pytest.raises(InvalidConfiguration, match=r"factor: got .*, expected a finite number > 0"):
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
        with pytest.raises(InvalidConfiguration, match=r"load: got .*, expected a finite number > 0"):
            rescale_load(JOBS, 4, load)
    with pytest.raises(WorkloadError, match="load: got 4 jobs without work"):
        rescale_load([job._replace(run_time=0.0) for job in JOBS], 4, 0.5)


def test_arrivals_and_services_are_exponential() -> None:
    jobs = list(poisson_jobs(50_000, arrival_rate=0.25, service=exponential(3.0), seed=1))
    gaps = np.diff([0.0, *(job.submission_time for job in jobs)])
    assert gaps.min() >= 0
    assert gaps.max() < 4 * 30
    assert kstest(gaps, "expon", (0, 4)).pvalue > 0.001
    assert kstest([job.run_time for job in jobs], "expon", (0, 3)).pvalue > 0.001
    assert abs(np.corrcoef(gaps, [job.run_time for job in jobs])[0, 1]) < 0.02
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.02
    assert all(job.requested_time == job.run_time and job.requested_cores == 1 and job.user_id == -1 for job in jobs)
    assert [job.job_id for job in jobs] == list(range(50_000))


def test_any_service_and_any_cores() -> None:
    def bimodal(rng: Generator, count: int) -> np.ndarray[Any, Any]:
        return rng.choice([1.0, 50.0], size=count, p=[0.9, 0.1])

    jobs = list(
        poisson_jobs(10_000, arrival_rate=1.0, service=bimodal, cores=lambda rng, count: rng.integers(1, 5, count))
    )
    assert {job.run_time for job in jobs} == {1.0, 50.0}
    assert np.mean([job.run_time == 50 for job in jobs]) == pytest.approx(0.1, abs=0.012)
    assert {job.requested_cores for job in jobs} == {1, 2, 3, 4}
    assert [type(value) for value in jobs[0][:6]] == [int, float, int, float, float, int]
    fixed = list(poisson_jobs(5, arrival_rate=1.0, service=constant(7), cores=3))
    assert [(job.run_time, job.requested_cores) for job in fixed] == [(7.0, 3)] * 5


def test_the_service_leaves_arrivals_alone() -> None:
    one = poisson_jobs(9_000, arrival_rate=2.0, service=exponential(1.0), seed=5)
    other = poisson_jobs(
        9_000, arrival_rate=2.0, service=constant(1.0), cores=lambda rng, n: rng.integers(1, 9, n), seed=5
    )
    assert [job.submission_time for job in one] == [job.submission_time for job in other]


def test_seeds_and_beginnings() -> None:
    def jobs(count: int | None, seed: Any) -> list[Any]:
        stream = poisson_jobs(count, arrival_rate=2.0, service=exponential(1.0), seed=seed)
        return list(itertools.islice(stream, 9_000))

    assert jobs(9_000, 3) == jobs(None, 3) == jobs(9_000, 3)
    assert jobs(5, 3) == jobs(None, 3)[:5]
    assert jobs(5, 3) != jobs(5, 4)
    rng = np.random.default_rng(1)
    assert jobs(5, rng) != jobs(5, rng)
    assert jobs(5, np.random.default_rng(1)) == jobs(5, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_jobs": 0}, "num_jobs: got 0, expected an integer >= 1"),
        ({"arrival_rate": 0}, "arrival_rate: got 0, expected a finite number > 0"),
        ({"cores": float("inf")}, "cores: got inf, expected an integer >= 1"),
        ({"seed": "x"}, "seed: got 'x', expected an integer >= 0 or a numpy.random.Generator"),
    ],
)
def test_arguments_out_of_range(change: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        poisson_jobs(**({"num_jobs": 10, "arrival_rate": 1.0, "service": constant(1.0)} | change))


@pytest.mark.parametrize(
    ("samplers", "message"),
    [
        (
            {"service": lambda rng, n: np.full(n, -2.0)},
            r"service: got -2.0 from the sampler, expected numbers from 0 to 1e\+15",
        ),
        (
            {"service": lambda rng, n: np.full(n, np.nan)},
            r"service: got nan from the sampler, expected numbers from 0 to 1e\+15",
        ),
        (
            {"service": lambda rng, n: 3.0},
            r"service: got an array of shape \(\) from the sampler, expected shape \(4096,\)",
        ),
        ({"cores": lambda rng, n: np.full(n, 1.5)}, "cores: got 1.5 from the sampler, expected integers"),
        ({"cores": lambda rng, n: np.zeros(n)}, r"cores: got 0.0 from the sampler, expected numbers from 1 to 1e\+15"),
    ],
)
def test_samples_out_of_range(samplers: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        list(poisson_jobs(**({"num_jobs": 3, "arrival_rate": 1.0, "service": constant(1.0)} | samplers)))
