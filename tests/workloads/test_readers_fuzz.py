"""Thousands of damaged files: the readers either succeed with sound jobs or raise a WorkloadError."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from desim.exceptions import WorkloadError
from desim.problems.batch.job import check_job
from desim.workloads import batsim, swf
from desim.workloads.batch.trace import Trace

FILES = 600

SWF = b"""; Version: 2.2
; MaxProcs: 128
;
1 0 964980 97225 56 -1 -1 56 210000 -1 1 1 1 -1 -1 -1 -1 -1
2 327952 291900 9382 80 -1 -1 -1 14400 -1 1 2 2 -1 -1 -1 -1 -1
3 327998.5 303900 177.25 84 -1 -1 84 -1 -1 0 2 2 -1 2 -1 -1 -1

4 333654 297120 0 80 1e3 -1 80 14400 -1 5 3 3 -1 -1 1 2 60
5 508960 196680 44155 16 -1 -1 16 53400 -1 1 4 4 -1 -1 -1 -1 -1
"""
BATSIM = b"""{"nb_res": 4, "description": "x\\u00e9", "jobs": [
{"id": 1, "subtime": 0, "walltime": 100, "res": 4, "profile": "a"},
{"id": "w0!2", "subtime": 10.5, "walltime": -1, "res": 1, "profile": "b"},
{"id": "w0!3", "subtime": 11, "res": 2, "profile": "a", "user_id": 7}],
"profiles": {"a": {"type": "delay", "delay": 12}, "b": {"type": "delay", "delay": 1e2}}}
"""
TOKENS = [
    *(b"-1", b"0", b"1e999", b"nan", b"-inf", b"NaN", b"Infinity", b"1_0", b"9" * 40, b"1e15", b"0.5", b"--1", b"1e"),
    *(b"\n", b"\r\n", b"\r", b"\t", b" ", b";", b"\0", b"\x0c", b"\xff\xfe", b"\xc3\xa9", b"\x1f\x8b", b"#", b"%"),
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"true", b'{"id": 1}', b"\\u0000", b"\\ud800", b"\\", b"[[[["),
]


def mutate(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return the content with up to four kinds of damage."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([data[at] ^ 1 << rng.randrange(8)]) if at < len(data) else b""
            case 2:
                del data[at:]
            case 3:
                del data[at : at + rng.randint(1, 30)]
            case 4:
                start = rng.randrange(len(other))
                data[at:at] = other[start : start + rng.randint(1, 80)]
            case 5:
                lines = bytes(data).split(b"\n")
                lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
                data = bytearray(b"\n".join(lines))
            case 6:
                words = bytes(data).split(b" ")
                words[rng.randrange(len(words))] = rng.choice(TOKENS)
                data = bytearray(b" ".join(words))
            case _:
                data[at:at] = rng.choice(TOKENS)
    return bytes(data)


def damaged_files(content: bytes, other: bytes, seed: int) -> list[bytes]:
    """Return plain files, whole archives of damaged files, and damaged archives."""
    rng = random.Random(seed)
    packed = gzip.compress(content, mtime=0)
    files = []
    for number in range(FILES):
        if number % 6 == 4:
            files.append(gzip.compress(mutate(content, other, rng), 1, mtime=0))
        elif number % 6 == 5:
            files.append(mutate(packed, content, rng))
        else:
            files.append(mutate(content, other, rng))
    return files


def check(trace: Trace) -> None:
    """Check everything that a successful reader promises."""
    assert trace.jobs
    for job in trace.jobs:
        check_job(job)
        assert [type(value) for value in job[1:6]] == [float, int, float, float, int]
    assert len({type(job.job_id) for job in trace.jobs}) == 1 and type(trace.jobs[0].job_id) in {int, str}
    assert len(trace.jobs) == trace.report.jobs
    assert trace.report.rows == trace.report.jobs + trace.report.dropped
    assert all(a.submission_time <= b.submission_time for a, b in itertools.pairwise(trace.jobs))
    assert str(trace.report)
    assert trace.num_cores is None or trace.num_cores > 0


@pytest.mark.parametrize(
    ("reader", "content", "other"), [(swf.read, SWF, BATSIM), (batsim.read, BATSIM, SWF)], ids=["swf", "batsim"]
)
def test_damaged_files(tmp_path: Path, reader: Callable[..., Trace], content: bytes, other: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    check(reader(path))
    read, refused = 0, set()
    for number, damaged in enumerate(damaged_files(content, other, seed=1)):
        path.write_bytes(damaged)
        try:
            trace = reader(path)
        except WorkloadError as error:
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
            refused.add(str(error))
            continue
        check(trace)
        read += 1
        if reader is swf.read and number % 3 == 0:
            compare_with_stream(path, trace)
    # The damage must neither be trivial nor always fatal
    assert read > FILES // 50
    assert len(refused) > 40


def compare_with_stream(path: Path, trace: Trace) -> None:
    """Check that a stream gives the same jobs, or refuses them for their order only."""
    try:
        assert list(swf.stream(path)) == trace.jobs
    except WorkloadError as error:
        assert "of an earlier row" in str(error)
