"""Batsim workloads: fields, ids, repairs, round trips, and each way to be broken."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_files import BATCH_JOBS, data, refusal

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.workloads import batsim, swf
from desim.workloads.batch.trace import TraceReason as Reason

PROFILES: dict[str, Any] = {
    "short": {"type": "delay", "delay": 2.5},
    "long": {"type": "delay", "delay": 100},
    "zero": {"type": "delay", "delay": 0},
    "negative": {"type": "delay", "delay": -3},
    "parallel": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
}


def job(number: Any = 1, profile: Any = "long", **entries: Any) -> dict[str, Any]:
    """Return a job, with entries replaced or (None) left out."""
    values = {"id": number, "subtime": 10, "walltime": 120, "res": 2, "profile": profile} | entries
    return {key: value for key, value in values.items() if value is not None}


@pytest.fixture
def workload(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes jobs into a file."""

    def make(*jobs: Any, **entries: Any) -> Path:
        path = tmp_path / "workload.json"
        path.write_text(json.dumps({"nb_res": 8, "jobs": list(jobs), "profiles": PROFILES} | entries))
        return path

    return make


def test_fields(workload: Callable[..., Path]) -> None:
    path = workload(
        job(4, subtime=30.5),
        job(5, "short", subtime=40, walltime=None),
        job(6, subtime=50, walltime=-1, user_id=3),
        job(7, "zero", subtime=60, walltime=20, ret=0),
        job(8, subtime=70, walltime=99),
        description="made up",
        version=3,
    )
    trace = batsim.read(path)
    assert trace.jobs == [
        Job(4, 30.5, 2, 120.0, 100.0),
        Job(5, 40.0, 2, 2.5, 2.5),
        Job(6, 50.0, 2, 100.0, 100.0, 3),
        Job(7, 60.0, 2, 20.0, 0.0),
        Job(8, 70.0, 2, 99.0, 100.0),
    ]
    assert trace.header.fields == {"nb_res": "8", "description": "made up", "version": "3"}
    assert trace.num_cores == 8
    assert trace.report.counts == {Reason.ASSUMED_REQUESTED_TIME: 2, Reason.ZERO_RUN_TIME: 1, Reason.OVERRUN: 1}
    assert trace.report.places[Reason.ASSUMED_REQUESTED_TIME] == [1, 2]


@pytest.mark.parametrize(
    ("ids", "kept", "repeated"),
    [
        ([3, 1, 2], [3, 1, 2], 0),
        (["w0!12", "w0!7", 3], ["w0!12", "w0!7", "3"], 0),
        (["w0!1", "w1!1", "w0!2"], ["w0!1", "w1!1", "w0!2"], 0),
        ([5, 5, 6], [5, 5, 6], 1),
        ([10**20, 1], [str(10**20), "1"], 0),
        (["007", "7"], ["007", "7"], 0),
    ],
)
def test_ids_are_kept(workload: Callable[..., Path], ids: list[Any], kept: list[Any], repeated: int) -> None:
    trace = batsim.read(workload(*map(job, ids)))
    assert [job.job_id for job in trace.jobs] == kept
    assert trace.report.count(Reason.REPEATED_ID) == repeated


SEQUENCES: dict[str, Any] = {
    "new": {"type": "DelayProfile", "delay": 10},
    "twice": {"type": "composed", "seq": ["short", "long"], "repeat": 2},
    "nested": {"type": "SequentialCompositionProfile", "seq": ["new", "twice", "new"]},
    "nothing": {"type": "composed", "seq": []},
    "unknown": {"type": "composed", "seq": ["short", "parallel"]},
    "circle": {"type": "composed", "seq": ["short", "circle"]},
}


def test_delays_and_sequences_of_both_versions_of_the_format(workload: Callable[..., Path]) -> None:
    jobs = [job(number, profile) for number, profile in enumerate(("new", "twice", "nested", "nothing"))]
    trace = batsim.read(workload(*jobs, profiles=PROFILES | SEQUENCES))
    assert [job.run_time for job in trace.jobs] == [10.0, 205.0, 225.0, 0.0]


def test_a_sequence_with_a_part_of_unknown_length_is_unknown(workload: Callable[..., Path]) -> None:
    path = workload(job(1, "unknown"), job(2), profiles=PROFILES | SEQUENCES)
    assert [job.job_id for job in batsim.read(path, unknown_profile="drop").jobs] == [2]
    with pytest.raises(WorkloadError, match="profile 'unknown': profile 'parallel': got type"):
        batsim.read(path)
    with pytest.raises(WorkloadError, match="profile 'circle': seq: contains the profile itself"):
        batsim.read(workload(job(1, "circle"), profiles=PROFILES | SEQUENCES))


def test_what_is_dropped(workload: Callable[..., Path]) -> None:
    path = workload(
        job(1, subtime=-1),
        job(2, res=0),
        job(3, "negative"),
        job(4, "parallel"),
        job(5, "zero"),
        job(6, res=99),
        job(7),
    )
    trace = batsim.read(path, unknown_profile="drop", zero_run_time="drop", max_cores=8)
    assert [job.job_id for job in trace.jobs] == [7]
    assert trace.report.counts == {
        Reason.NEGATIVE_SUBMIT: 1,
        Reason.UNKNOWN_CORES: 1,
        Reason.UNKNOWN_RUN_TIME: 2,
        Reason.ZERO_RUN_TIME_DROPPED: 1,
        Reason.TOO_WIDE: 1,
    }


BROKEN: list[tuple[Any, str]] = [
    (5, "jobs[1]: got 5, expected a JSON object"),
    (job(None), "jobs[1]: id: got nothing, expected an integer or a string"),
    (job(1.5), "jobs[1]: id: got 1.5, expected an integer or a string"),
    (job(2, subtime=None), "jobs[1]: subtime: got nothing, expected a number"),
    (job(2, subtime=1e16), "jobs[1]: subtime: got 1e+16, expected a number from -1e15 to 1e15"),
    (job(2, walltime=10**400), f"jobs[1]: walltime: got 1{'0' * 36}..., expected a number from -1e15 to 1e15"),
    (job(2, res=None), "jobs[1]: res: got nothing, expected a number"),
    (job(2, "none"), "jobs[1]: profile: got 'none', expected the name of one of the profiles"),
    (
        job(2, "parallel"),
        "jobs[1]: profile 'parallel': got type 'parallel_homogeneous', whose run time is unknown, "
        "expected a delay or a sequence of delays ('delay', 'composed'); try unknown_profile='drop', or "
        "--unknown-profile drop",
    ),
    (job(2, "no delay"), "jobs[1]: profile 'no delay': delay: got nothing, expected a number"),
    (job(2, "text"), "jobs[1]: profile 'text': delay: got '5', expected a number"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[message[:50] for _, message in BROKEN])
def test_broken_jobs(workload: Callable[..., Path], broken: Any, message: str) -> None:
    more = {"no delay": {"type": "delay"}, "text": {"type": "delay", "delay": "5"}, "null": None}
    path = workload(job(1), broken, profiles=PROFILES | more)
    assert refusal(lambda: batsim.read(path)) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"jobs": [], "profiles": {}, "x": NaN}', "got NaN, expected finite numbers"),
        (b'{"jobs": [], "profiles": {}, "x": ' + b"9" * 5000 + b"}", "is not JSON: Exceeds the limit"),
        (b"[" * 100_000, "line 1, column 101: nested too deeply, expected at most 100 levels"),
        (b'{"\xff": 1}', "line 1, column 3: byte 0xff is not UTF-8 text"),
        (b"[]", "got a JSON list, expected a JSON object"),
        (b'{"jobs": {}, "profiles": {}}', "jobs: got a JSON object, expected a JSON list"),
        (b'{"jobs": [], "profiles": {}}', "no usable job in 0 rows"),
        (b"\x1f\x8bnonsense", "corrupt gzip data: Unknown compression method"),
    ],
)
def test_broken_files(put: Callable[[bytes], Path], content: bytes, message: str) -> None:
    path = put(content)
    assert refusal(lambda: batsim.read(path)).startswith(f"{path}: {message}")


def test_arguments_out_of_range(workload: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"unknown_profile: got 'x', expected one of 'error', 'drop'"):
        batsim.read(workload(job()), unknown_profile="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidConfiguration, match="num_cores: got 0, expected an integer from 1 to"):
        batsim.write(tmp_path / "w.json", [], 0)
    with pytest.raises(WorkloadError, match=r"missing\.json: cannot be read: No such file"):
        batsim.read(tmp_path / "missing.json")
    with pytest.raises(WorkloadError, match="job 1: requested_time: got 0"):
        batsim.write(tmp_path / "w.json", [Job(1, 0.0, 1, 0.0, 5.0)], 4)
    assert not (tmp_path / "w.json").exists()


@settings(max_examples=40, deadline=None)
@given(jobs=st.lists(BATCH_JOBS, min_size=1, max_size=20), numbers=st.randoms(use_true_random=False))
def test_round_trip(tmp_path: Path, jobs: list[Job], numbers: random.Random) -> None:
    ids = numbers.sample(range(-50, 1000), len(jobs))
    jobs = [job._replace(job_id=number) for job, number in zip(jobs, ids, strict=True)]
    path = tmp_path / "jobs.json.gz"
    batsim.write(path, jobs, 64)
    trace = batsim.read(path)
    assert trace.jobs == sorted(jobs, key=lambda job: job.submission_time)
    assert trace.num_cores == 64


def test_real_log_converted(tmp_path: Path) -> None:
    trace = swf.read(data("swf/KTH-SP2-1996-2.swf"))
    batsim.write(tmp_path / "kth.json", trace.jobs, 100)
    document = json.loads((tmp_path / "kth.json").read_bytes())
    assert len(document["profiles"]) == len({job.run_time for job in trace.jobs})
    copy = batsim.read(tmp_path / "kth.json")
    assert copy.jobs == trace.jobs
    assert copy.report.counts == trace.report.counts
