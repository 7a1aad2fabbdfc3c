"""Standard Workload Format: what is written is read again, and nothing is written by halves."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job
from desim.workloads import swf
from desim.workloads.batch.trace import TraceReason as Reason

whole_jobs = st.builds(
    Job,
    job_id=st.just(0),
    submission_time=st.integers(0, 10**9),
    requested_cores=st.integers(1, 10**6),
    requested_time=st.integers(1, 10**9),
    run_time=st.integers(0, 10**9),
    user_id=st.integers(-1, 10**6),
)
fractional_jobs = st.builds(
    Job,
    job_id=st.just(0),
    submission_time=st.floats(0, 1e14),
    requested_cores=st.integers(1, 10**9),
    requested_time=st.floats(0, 1e14, exclude_min=True),
    run_time=st.floats(0, 1e14),
    user_id=st.integers(-1, 10**6),
)


@settings(max_examples=80, deadline=None)
@given(
    jobs=st.lists(whole_jobs | fractional_jobs, min_size=1, max_size=20),
    numbers=st.randoms(use_true_random=False),
    packed=st.booleans(),
)
def test_round_trip(tmp_path: Path, jobs: list[Job], numbers: random.Random, packed: bool) -> None:
    ids = numbers.sample(range(1000), len(jobs))
    jobs = [job._replace(job_id=number) for job, number in zip(jobs, ids, strict=True)]
    path = tmp_path / ("jobs.swf.gz" if packed else "jobs.swf")
    swf.write(path, jobs, header={"MaxProcs": 64, "Note": "a\nb"})
    trace = swf.read(path)
    assert trace.jobs == sorted(jobs, key=lambda job: job.submission_time)
    assert trace.num_cores == 64
    assert trace.header.lines == ("; MaxProcs: 64", "; Note: a", "; b")
    assert trace.report.counts.keys() <= {Reason.OUT_OF_ORDER, Reason.OVERRUN, Reason.ZERO_RUN_TIME}


def test_real_log_written_and_read_again(real_log: Callable[[str], Path], tmp_path: Path) -> None:
    trace = swf.read(real_log("KTH-SP2-1996-2.swf"))
    swf.write(tmp_path / "copy.swf.gz", trace.jobs, header=trace.header)
    assert (tmp_path / "copy.swf.gz").read_bytes()[:2] == b"\x1f\x8b"
    copy = swf.read(tmp_path / "copy.swf.gz")
    assert (copy.jobs, copy.header) == (trace.jobs, trace.header)


def test_write_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text("old")
    good, bad = Job(1, 0.0, 1, 5.0, 5.0), Job(2, 0.0, 0, 5.0, 5.0)
    with pytest.raises(WorkloadError, match="job 2: requested_cores is 0"):
        swf.write(path, [good, bad])
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["jobs.swf"]
    swf.write(path, iter([good]))
    assert path.read_text() == "; Version: 2.2\n1 0 -1 5 1 -1 -1 1 5 -1 1 -1 -1 -1 -1 -1 -1 -1\n"


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job(1, 0.0, 1, 0.0, 5.0), "job 1: requested_time is 0, which means unknown in a workload file"),
        (Job(1, 2e15, 1, 5.0, 5.0), "job 1: .* holds a number beyond 1e15"),
        (Job(1, float("nan"), 1, 5.0, 5.0), "job 1: submission_time is nan"),
    ],
)
def test_jobs_that_cannot_be_written(tmp_path: Path, job: Job, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        swf.write(tmp_path / "jobs.swf", [job])


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    job = Job(1, 0.0, 1, 5.0, 5.0)
    with pytest.raises(WorkloadError, match=r"nowhere/jobs.swf: cannot be written: No such file or directory"):
        swf.write(tmp_path / "nowhere" / "jobs.swf", [job])
    with pytest.raises(WorkloadError, match="cannot be written: Is a directory"):
        swf.write(tmp_path, [job])
    with pytest.raises(WorkloadError, match="cannot be written: embedded null byte"):
        swf.write(f"{tmp_path}/a\0b", [job])
    with pytest.raises(WorkloadError, match=r"header line 'Note: a\\rb' holds a control character"):
        swf.write(tmp_path / "jobs.swf", [job], header={"Note": "a\rb"})
    assert list(tmp_path.iterdir()) == []
