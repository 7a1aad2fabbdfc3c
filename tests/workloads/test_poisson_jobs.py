"""Poisson arrivals: moments, distributions, reproducibility and refusals."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy.stats import kstest

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads.batch.arrivals import constant, exponential, poisson_jobs


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
    assert [type(value) for value in jobs[0]] == [int, float, int, float, float, int]
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


def test_constant_memory() -> None:
    peaks = []
    for count in (10_000, 60_000):
        tracemalloc.start()
        assert sum(1 for _ in poisson_jobs(count, arrival_rate=1.0, service=exponential(1.0))) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_jobs": 0}, "num_jobs is 0, want a whole number of at least 1"),
        ({"num_jobs": float("inf")}, "num_jobs is inf, want a whole number of at least 1"),
        ({"num_jobs": 2.5}, "num_jobs is 2.5, want a whole number of at least 1"),
        ({"arrival_rate": 0}, "arrival_rate is 0, want a finite number above 0"),
        ({"arrival_rate": float("nan")}, "arrival_rate is nan, want a finite number above 0"),
        ({"cores": 0}, "cores is 0, want a whole number of at least 1"),
        ({"cores": float("inf")}, "cores is inf, want a whole number of at least 1"),
        ({"cores": 1.5}, "cores is 1.5, want a whole number of at least 1"),
        ({"seed": "x"}, "seed is 'x', want a whole number of at least 0 or a numpy Generator"),
    ],
)
def test_arguments_out_of_range(change: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        poisson_jobs(**({"num_jobs": 10, "arrival_rate": 1.0, "service": constant(1.0)} | change))


def test_samplers_out_of_range() -> None:
    with pytest.raises(InvalidConfiguration, match="mean is 0, want a finite number above 0"):
        exponential(0)
    with pytest.raises(InvalidConfiguration, match="value is -1, want a finite number of at least 0"):
        constant(-1)


@pytest.mark.parametrize(
    ("samplers", "message"),
    [
        ({"service": lambda rng, n: np.full(n, -2.0)}, r"service gave -2.0, want numbers between 0 and 1e\+15"),
        ({"service": lambda rng, n: np.full(n, np.nan)}, r"service gave nan, want numbers between 0 and 1e\+15"),
        ({"service": lambda rng, n: 3.0}, r"service gave an array of shape \(\), want \(4096,\)"),
        ({"cores": lambda rng, n: np.full(n, 1.5)}, "cores gave 1.5, want whole numbers"),
        ({"cores": lambda rng, n: np.zeros(n)}, r"cores gave 0.0, want numbers between 1 and 1e\+15"),
    ],
)
def test_samples_out_of_range(samplers: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        list(poisson_jobs(**({"num_jobs": 3, "arrival_rate": 1.0, "service": constant(1.0)} | samplers)))
