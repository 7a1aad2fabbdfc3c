"""The Lublin-Feitelson generator: streams, seeds, options, loads, refusals."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.stats import chisquare

from desim.exceptions import InvalidConfiguration
from desim.workloads import lublin
from desim.workloads.batch.lublin import TYPES, core_probabilities, mean_interarrival
from desim.workloads.batch.transform import offered_load

MODELS: list[Any] = ["all", "batch", "interactive"]


def test_two_types_are_both_streams_merged() -> None:
    both = lublin.generate(20_000, 128, 9, model="two_types")
    assert all(first.submission_time <= second.submission_time for first, second in itertools.pairwise(both))
    assert [job.job_id for job in both] == list(range(20_000))
    rates = [1 / mean_interarrival(TYPES[name]) for name in ("batch", "interactive")]
    narrow = sum(job.requested_cores <= 2**5.5 for job in both) / len(both)
    shares = [core_probabilities(TYPES[name], 128, None)[: math.floor(2**5.5) + 1].sum() for name in MODELS[1:]]
    assert narrow == pytest.approx(np.average(shares, weights=rates), abs=0.01)
    # The batch jobs of the mix are those of the batch model alone: same seeds, same draws
    batch = lublin.generate(2_000, 128, 9, model="batch")
    found = {(job.submission_time, job.requested_cores, job.run_time) for job in both}
    assert all((job.submission_time, job.requested_cores, job.run_time) in found for job in batch)


def test_jobs_are_sound() -> None:
    for job in lublin.generate(5_000, 256, 2):
        assert (job.user_id, job.requested_time) == (-1, job.run_time)
        assert job.run_time >= 1
        assert job.run_time <= math.exp(12)
        assert job.run_time == int(job.run_time)
        assert job.submission_time == int(job.submission_time)
        assert [type(value) for value in job] == [int, float, int, float, float, int]


@pytest.mark.parametrize("model", [*MODELS, "two_types"])
@pytest.mark.parametrize("load", [None, 0.7])
def test_stream_and_list_agree(model: Any, load: float | None) -> None:
    options: Any = {"model": model, "load": load, "overestimate": 3.0, "num_users": 20}
    assert list(lublin.stream(20_000, 64, 7, **options)) == lublin.generate(20_000, 64, 7, **options)


@pytest.mark.parametrize("model", [*MODELS, "two_types"])
def test_short_is_the_beginning_of_long(model: Any) -> None:
    options: Any = {"model": model, "overestimate": 3.0, "num_users": 20}
    endless = list(itertools.islice(lublin.stream(None, 64, 7, **options), 20_000))
    assert lublin.generate(20_000, 64, 7, **options) == endless
    assert lublin.generate(9, 64, 7, **options) == endless[:9]


def test_seeds() -> None:
    one, other = lublin.generate(50, 64, 1), lublin.generate(50, 64, 2)
    assert one == lublin.generate(50, 64, 1) == lublin.generate(50, 64, np.int64(1))  # type: ignore[arg-type]
    assert one != other
    rng = default_rng(3)
    first, second = lublin.generate(50, 64, rng), lublin.generate(50, 64, rng)
    assert first != second
    assert first == lublin.generate(50, 64, default_rng(3), load=None)
    lazy = lublin.stream(50, 64, rng := default_rng(3))
    rng.random(1000)
    assert list(lazy) == first


def test_options_leave_the_rest_alone() -> None:
    plain = lublin.generate(3_000, 64, 1)
    rich = lublin.generate(3_000, 64, 1, overestimate=5.0, num_users=10)
    assert [job._replace(requested_time=job.run_time, user_id=-1) for job in rich] == plain
    ratios = np.array([job.requested_time / job.run_time for job in rich if job.run_time > 1000])
    assert all(job.requested_time > job.run_time for job in rich)
    assert ratios.max() <= 5.001
    assert ratios.mean() == pytest.approx(3, abs=0.1)
    assert all(job.requested_time == int(job.requested_time) for job in rich)
    users = np.bincount([job.user_id for job in rich], minlength=11)
    weights = 1 / np.arange(1, 11)
    assert users[0] == 0
    assert chisquare(users[1:], 3_000 * weights / weights.sum()).pvalue > 0.001
    assert {job.user_id for job in lublin.generate(100, 64, 1, num_users=1)} == {1}


def test_umed_offset_makes_wider_jobs() -> None:
    means = [
        np.mean([job.requested_cores for job in lublin.generate(20_000, 256, 1, umed_offset=offset)])
        for offset in (1.5, 2.5, 3.5)
    ]
    assert means[0] > means[1] > means[2]
    assert lublin.generate(500, 256, 1, umed_offset=2.5) == lublin.generate(500, 256, 1)
    exact = core_probabilities(TYPES["all"], 256, 1.5) @ np.arange(257)
    assert means[0] == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("load", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("model", ["all", "two_types"])
def test_load_of_a_finite_workload_is_exact(load: float, model: Any) -> None:
    plain = lublin.generate(3_000, 100, 4, model=model)
    jobs = lublin.generate(3_000, 100, 4, model=model, load=load)
    assert offered_load(jobs, 100) == pytest.approx(load, rel=1e-12)
    factor = offered_load(plain, 100) / load
    assert [job.submission_time for job in jobs] == pytest.approx([job.submission_time * factor for job in plain])
    assert [job._replace(submission_time=0) for job in jobs] == [job._replace(submission_time=0) for job in plain]


@pytest.mark.parametrize(("model", "error"), [("all", 0.06), ("interactive", 0.06), ("two_types", 0.12)])
def test_load_of_an_endless_workload_is_as_wanted_in_the_long_run(model: Any, error: float) -> None:
    jobs = list(itertools.islice(lublin.stream(None, 128, 4, model=model, load=0.9), 200_000))
    assert offered_load(jobs, 128) == pytest.approx(0.9, rel=error)
    plain = next(lublin.stream(None, 128, 4, model=model))
    factor = lublin.expected_load(128, model=model) / 0.9
    assert jobs[0].submission_time == pytest.approx(plain.submission_time * factor)


def test_streaming_takes_constant_memory() -> None:
    peaks = []
    for count in (20_000, 100_000):
        jobs = lublin.stream(count, 256, 0, load=0.8)
        tracemalloc.start()
        assert sum(1 for _ in jobs) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "none"}, r"model is 'none', want one of 'all', 'batch', 'interactive', 'two_types'"),
        ({"num_jobs": 0}, "num_jobs is 0, want a whole number of at least 1"),
        ({"num_jobs": 1.5}, "num_jobs is 1.5, want a whole number"),
        ({"num_cores": 0}, "num_cores is 0, want a whole number of at least 1"),
        ({"num_cores": float("nan")}, "num_cores is nan, want a whole number of at least 1"),
        ({"num_users": 0}, "num_users is 0, want a whole number of at least 1"),
        ({"load": 0}, "load is 0, want a finite number above 0"),
        ({"load": float("inf")}, "load is inf, want a finite number above 0"),
        ({"load": 0.5, "num_jobs": 1}, "load is given for a single job"),
        ({"umed_offset": -1}, "umed_offset is -1, want a finite number of at least 0"),
        ({"overestimate": 0.5}, "overestimate is 0.5, want a finite number of at least 1"),
        ({"seed": -1}, "seed is -1, want a whole number of at least 0 or a numpy Generator"),
        ({"seed": None}, "seed is None, want a whole number"),
    ],
)
def test_arguments_out_of_range(change: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        lublin.stream(**({"num_jobs": 10, "num_cores": 64} | change))


def test_a_list_has_an_end() -> None:
    with pytest.raises(InvalidConfiguration, match="num_jobs is None, want a number"):
        lublin.generate(None, 64)  # type: ignore[arg-type]
