"""Standard Workload Format: known answers, fields, header, streams."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from swf_rows import HEADER, row

from desim.problems.batch.job import Job
from desim.workloads import swf
from desim.workloads.batch.trace import TraceHeader
from desim.workloads.batch.trace import TraceReason as Reason

RealLog = Callable[[str], Path]


def work(jobs: list[Job]) -> float:
    """Return cores times run time, summed."""
    return sum(job.requested_cores * job.run_time for job in jobs)


def test_lublin_sample(real_log: RealLog) -> None:
    trace = swf.read(real_log("lublin_256.swf"))
    cores = [job.requested_cores for job in trace.jobs]
    assert (len(trace), trace.num_cores, work(trace.jobs)) == (10_000, 256, 2_092_781_168)
    assert (trace.jobs[0].submission_time, trace.jobs[-1].submission_time) == (5094, 7_711_701)
    assert (min(cores), max(cores), cores.count(1), cores.count(256)) == (1, 256, 2_493, 180)
    assert sum(core & (core - 1) == 0 for core in cores) == 8_613
    assert {(job.user_id, job.requested_time == job.run_time) for job in trace.jobs} == {(-1, True)}
    assert trace.report.counts == {Reason.ASSUMED_CORES: 10_000, Reason.ASSUMED_REQUESTED_TIME: 10_000}


def test_nasa_log(real_log: RealLog) -> None:
    path = real_log("NASA-iPSC-1993-3.1-cln.swf")
    trace = swf.read(path)
    assert (len(trace), trace.num_cores, trace.report.count(Reason.ZERO_RUN_TIME)) == (18_239, 128, 173)
    assert len({job.user_id for job in trace.jobs}) == 69
    assert "group 2 is system personnel" in trace.header.fields["Note"]
    assert trace.header.fields["Queue"] == "0  interactive\n1  batch"
    positive = swf.read(path, zero_run_time="drop")
    assert (len(positive), work(positive.jobs)) == (18_066, 474_238_015)
    assert positive.report.count(Reason.ZERO_RUN_TIME_DROPPED) == 173
    assert positive.report.places[Reason.ZERO_RUN_TIME_DROPPED] == [248, 249, 250, 251, 252]


def test_kth_log(real_log: RealLog) -> None:
    path = real_log("KTH-SP2-1996-2.swf")
    trace = swf.read(path)
    assert (len(trace), trace.num_cores) == (28_489, 100)
    assert trace.header.number("UnixStartTime") == 843_480_031
    assert trace.report.counts == {Reason.ZERO_RUN_TIME: 8, Reason.OVERRUN: 475}
    assert sum(job.run_time > job.requested_time + 60 for job in trace.jobs) == 64
    assert {job.requested_time for job in trace.jobs} >= {60.0, 216_000.0}
    assert len(swf.read(path, statuses=[1])) == 20_541
    assert len({job.user_id for job in trace.jobs}) == 214
    assert trace.jobs[0] == Job(1, 0.0, 56, 210_000.0, 97_225.0, 1)


@pytest.mark.parametrize("name", ["lublin_256.swf", "KTH-SP2-1996-2.swf"])
def test_a_stream_gives_what_read_gives(real_log: RealLog, name: str) -> None:
    path = real_log(name)
    stream, trace = swf.stream(path), swf.read(path)
    assert (stream.header, stream.num_cores) == (trace.header, trace.num_cores)
    for _ in range(2):
        assert list(stream) == trace.jobs
        assert stream.report == trace.report


def test_fields_and_header(log: Callable[..., Path]) -> None:
    path = log(
        row(7, 3.5, 10.25, 2, f8=4, f9=60, f12=5), "", "; a remark", "  \t ", row(8, 3.5, 1, 3).replace(" ", "\t")
    )
    trace = swf.read(path)
    assert trace.jobs == [Job(7, 3.5, 4, 60.0, 10.25, 5), Job(8, 3.5, 3, 1.0, 1.0, -1)]
    assert [type(value) for value in trace.jobs[0]] == [int, float, int, float, float, int]
    assert trace.header.lines == tuple(HEADER.splitlines())
    assert trace.header.fields == {
        "Version": "2.2",
        "MaxNodes": "4",
        "MaxProcs": "8 (2 of them interactive)",
        "Note": "one\nmore\ntwo",
    }
    assert trace.num_cores == 8
    assert list(trace) == trace.jobs


def test_header_may_be_absent_or_latin(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(row())
    assert swf.read(path).header == TraceHeader()
    assert swf.read(path).num_cores is None
    path.write_bytes("; Computer: Högskolan\r\n".encode("latin-1") + row().encode() + b"\r\n")
    assert swf.read(path).header.fields == {"Computer": "Högskolan"}


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.gz", tmp_path / "packed.swf"
    plain.write_text(row())
    packed.write_bytes(gzip.compress(f"{row()}\n".encode()) + gzip.compress(row(2).encode()))
    assert len(swf.read(plain)) == 1
    assert [job.job_id for job in swf.read(packed)] == [1, 2]


def test_streaming_takes_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.swf.gz"
    body = "".join(f"{row(number, number, f8=2, f9=60, f12=1)}\n" for number in range(1, 20_001))
    path.write_bytes(gzip.compress(body.encode(), 1))
    peaks = []
    for limit in (5_000, None):
        tracemalloc.start()
        count = sum(1 for _ in swf.stream(path, max_jobs=limit))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == (limit or 20_000)
    assert peaks[1] < 1.3 * peaks[0]


def test_an_address_is_no_entry_of_the_header() -> None:
    header = TraceHeader.parse(["; Information: here", "; http://example.org/log", ";", ";MaxProcs:12"])
    assert header.fields == {"Information": "here\nhttp://example.org/log", "MaxProcs": "12"}
    assert header.number("Information") is None
