"""Submission times of DAG jobs: distributions, order, numbering, streams and refusals."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job as BatchJob
from desim.problems.dag.job import Job
from desim.workloads import submissions, swf

JOBS = [Job(7, [1.0 + number], label=f"kind{number}", submission_time=9.0) for number in range(4)]


def times(jobs: Any) -> list[float]:
    return [job.submission_time for job in jobs]


def test_a_batch_is_submitted_at_once() -> None:
    found = submissions.batch(iter(JOBS))
    assert [(job.job_id, job.submission_time, job.label) for job in found] == [
        (0, 0.0, "kind0"),
        (1, 0.0, "kind1"),
        (2, 0.0, "kind2"),
        (3, 0.0, "kind3"),
    ]
    assert times(JOBS) == [9.0] * 4
    assert submissions.batch([]) == []


def test_intervals_are_exponential_and_independent() -> None:
    found = submissions.poisson(JOBS * 5_000, 45.0, seed=1)
    assert found[0].submission_time == 0.0
    gaps = np.diff(times(found))
    assert kstest(gaps, "expon", (0, 45.0)).pvalue > 0.001
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.03
    assert [job.job_id for job in found] == list(range(20_000))
    assert [job.label for job in found[:8]] == [job.label for job in JOBS * 2]


def test_the_first_interval_may_come_first() -> None:
    late = submissions.poisson(JOBS, 45.0, seed=1, first_at_zero=False)
    assert times(submissions.poisson(JOBS, 45.0, seed=1))[1:] == times(late)[:-1]
    firsts = [submissions.poisson(JOBS, 2.0, seed, first_at_zero=False)[0].submission_time for seed in range(1_000)]
    assert kstest(firsts, "expon", (0, 2.0)).pvalue > 0.001


def test_a_stream_goes_on_with_all_templates() -> None:
    found = list(islice(submissions.poisson_stream(JOBS, 45.0, seed=3), 8_000))
    assert times(found) == times(submissions.poisson(JOBS * 2_000, 45.0, seed=3))
    assert [job.job_id for job in found] == list(range(8_000))
    counts = np.unique([job.label for job in found], return_counts=True)[1]
    assert len(counts) == 4
    assert chisquare(counts).pvalue > 0.001
    assert times(islice(submissions.poisson_stream(JOBS, 45.0, seed=3), 50)) == times(found[:50])


def test_seeds() -> None:
    assert times(submissions.poisson(JOBS, 1.0, 5)) == times(submissions.poisson(JOBS, 1.0, 5))
    assert times(submissions.poisson(JOBS, 1.0, 5)) != times(submissions.poisson(JOBS, 1.0, 6))
    rng = np.random.default_rng(0)
    assert times(submissions.poisson(JOBS, 1.0, rng)) != times(submissions.poisson(JOBS, 1.0, rng))
    again = np.random.default_rng(0)
    assert times(submissions.poisson(JOBS, 1.0, again)) == times(
        submissions.poisson(JOBS, 1.0, np.random.default_rng(0))
    )


def test_given_times() -> None:
    found = submissions.at_times(JOBS, [0, 0.5, 0.5, np.float64(3)])
    assert [(job.job_id, job.submission_time) for job in found] == [(0, 0.0), (1, 0.5), (2, 0.5), (3, 3.0)]
    assert submissions.at_times([], []) == []


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        ([0.0, 1.0], "times: got 2 submission times, expected 4"),
        ([0.0, 2.0, 1.0, 3.0], "submission time 2: got 1.0, expected at least the previous time 2.0"),
        ([0.0, 1.0, 2.0, float("inf")], "submission time 3: got inf, expected a finite number >= 0"),
    ],
)
def test_times_that_make_no_sense(clock: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        submissions.at_times(JOBS, clock)


def test_times_of_another_workload() -> None:
    rows = [BatchJob(number, 100.0 + 10 * number, 1, 5.0, 5.0) for number in range(6)]
    assert times(submissions.trace(JOBS, rows)) == [0.0, 10.0, 20.0, 30.0]
    assert times(submissions.trace(JOBS, iter(rows), from_zero=False)) == [100.0, 110.0, 120.0, 130.0]
    assert times(submissions.trace(JOBS, [4, 5, 5, 8.5])) == [0.0, 1.0, 1.0, 4.5]
    assert submissions.trace([], rows) == []
    with pytest.raises(WorkloadError, match="source: got 2 submission times, expected at least 4"):
        submissions.trace(JOBS, rows[:2])
    with pytest.raises(WorkloadError, match=r"submission time 1: got 100.0, expected at least the previous time 110.0"):
        submissions.trace(JOBS, rows[1::-1] + rows[2:])


def test_times_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = [f"{number} {50 + 7 * number} -1 9 2 -1 -1 2 9 -1 1 1 -1 -1 -1 -1 -1 -1" for number in range(1, 6)]
    path.write_text("\n".join(lines) + "\n")
    assert times(submissions.trace(JOBS, swf.read(path))) == [0.0, 7.0, 14.0, 21.0]
    assert times(submissions.trace(JOBS, swf.stream(path))) == [0.0, 7.0, 14.0, 21.0]


@pytest.mark.parametrize("mean", [0, float("nan")])
def test_intervals_out_of_range(mean: Any) -> None:
    for make in (submissions.poisson, submissions.poisson_stream):
        with pytest.raises(InvalidConfiguration, match=r"mean_interval: got .*, expected a finite number > 0"):
            make(JOBS, mean)
