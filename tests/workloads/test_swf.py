"""Standard Workload Format: known answers, repairs and their report, each way to be broken, and round trips."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swf_rows import HEADER, row
from workload_files import BATCH_JOBS, data, refusal

from desim import simulate
from desim.agents.batch import create
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import BatchCluster, Dependency
from desim.problems.batch.job import Job
from desim.workloads import swf
from desim.workloads.batch.registry import load
from desim.workloads.batch.trace import TraceHeader, TraceReport
from desim.workloads.batch.trace import TraceReason as Reason


def work(jobs: list[Job]) -> float:
    """Return cores times run time, summed."""
    return sum(job.requested_cores * job.run_time for job in jobs)


def test_lublin_sample() -> None:
    trace = swf.read(data("swf/lublin_256.swf"))
    cores = [job.requested_cores for job in trace.jobs]
    assert (len(trace), trace.num_cores, work(trace.jobs)) == (10_000, 256, 2_092_781_168)
    assert (trace.jobs[0].submission_time, trace.jobs[-1].submission_time) == (5094, 7_711_701)
    assert (min(cores), max(cores), cores.count(1), cores.count(256)) == (1, 256, 2_493, 180)
    assert sum(core & (core - 1) == 0 for core in cores) == 8_613
    assert {(job.user_id, job.requested_time == job.run_time) for job in trace.jobs} == {(-1, True)}
    assert trace.report.counts == {Reason.ASSUMED_CORES: 10_000, Reason.ASSUMED_REQUESTED_TIME: 10_000}


def test_nasa_log() -> None:
    path = data("swf/NASA-iPSC-1993-3.1-cln.swf")
    trace = swf.read(path)
    assert (len(trace), trace.num_cores, trace.report.count(Reason.ZERO_RUN_TIME)) == (18_239, 128, 173)
    assert len({job.user_id for job in trace.jobs}) == 69
    assert "group 2 is system personnel" in trace.header.fields["Note"]
    assert trace.header.fields["Queue"] == "0  interactive\n1  batch"
    positive = swf.read(path, zero_run_time="drop")
    assert (len(positive), work(positive.jobs)) == (18_066, 474_238_015)
    assert positive.report.count(Reason.ZERO_RUN_TIME_DROPPED) == 173
    assert positive.report.places[Reason.ZERO_RUN_TIME_DROPPED] == [248, 249, 250, 251, 252]


def test_kth_log() -> None:
    path = data("swf/KTH-SP2-1996-2.swf")
    trace = swf.read(path)
    assert (len(trace), trace.num_cores) == (28_489, 100)
    assert trace.header.number("UnixStartTime") == 843_480_031
    assert trace.report.counts == {Reason.ZERO_RUN_TIME: 8, Reason.OVERRUN: 475}
    assert sum(job.run_time > job.requested_time + 60 for job in trace.jobs) == 64
    assert {job.requested_time for job in trace.jobs} >= {60.0, 216_000.0}
    assert len(swf.read(path, statuses=[1])) == 20_541
    assert len({job.user_id for job in trace.jobs}) == 214
    assert trace.jobs[0] == Job(1, 0.0, 56, 210_000.0, 97_225.0, 1)


@pytest.mark.parametrize("name", ["lublin_256.swf"])
def test_a_stream_gives_what_read_gives(name: str) -> None:
    path = data(f"swf/{name}")
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
    assert [type(value) for value in trace.jobs[0][:6]] == [int, float, int, float, float, int]
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


def test_entries_of_the_format_may_be_indented_as_far_as_logs_like() -> None:
    lines = ["; Version: 2.2", "; MaxNodes: 2", ";      MaxProcs: 4", ";\t\tNote:\ta", ";       odd: a continuation"]
    header = TraceHeader.parse([*lines, ";; UnixStartTime: 7"])
    expected = {"Version": "2.2", "MaxNodes": "2", "MaxProcs": "4", "Note": "a\nodd: a continuation"}
    assert header.fields == expected | {"UnixStartTime": "7"}
    assert header.num_cores == 4


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4,096", 4_096),
        ("1,234,567 (all)", 1_234_567),
        ("4096.0", 4_096),
        ("128 (8 of them interactive)", 128),
        ("128, 8 of them interactive", 128),
        ("512-node machine", 512),
        ("4.096", None),
        ("4'096", None),
        ("4 096", None),
        ("4,09", None),
        ("4,0961", None),
        ("4x96", None),
        ("2.5", None),
    ],
)
def test_numbers_of_the_header_are_read_as_they_are_meant_or_not_at_all(text: str, number: int | None) -> None:
    header = TraceHeader(fields={"MaxProcs": text, "MaxNodes": "64"})
    assert header.number("MaxProcs") == number
    assert header.num_cores == number  # and not the nodes in the place of processors that are told in some other way
    assert TraceHeader(fields={"MaxProcs": "-1", "MaxNodes": "64"}).num_cores == 64


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (row(f11=2), Reason.PARTIAL_EXECUTION),
        (row(f11=5, ran=0), Reason.CANCELLED),
        (row(f11=5, cores=0), Reason.CANCELLED),
        (row(submit=-1), Reason.NEGATIVE_SUBMIT),
        (row(cores=0), Reason.UNKNOWN_CORES),
        (row(cores=-1, f8=0), Reason.UNKNOWN_CORES),
        (row(ran=-1), Reason.UNKNOWN_RUN_TIME),
    ],
)
def test_rows_that_cannot_be_a_job_are_dropped(log: Callable[..., Path], text: str, reason: Reason) -> None:
    trace = swf.read(log(row(1), text, row(3)))
    assert [job.job_id for job in trace.jobs] == [1, 3]
    assert trace.report.count(reason) == 1
    assert trace.report.places[reason] == [8]
    assert (trace.report.rows, trace.report.jobs, trace.report.dropped) == (3, 2, 1)


def test_what_is_changed_or_noted(log: Callable[..., Path]) -> None:
    rows = [
        row(1, f8=2, f9=5),
        row(2, f8=-1, f9=0),
        row(3, ran=0, f8=3, f9=9),
        row(4, f8=0, f9=-7),
        row(5, ran=20, f8=1, f9=20, f11=5),
    ]
    trace = swf.read(log(*rows))
    assert [(job.requested_cores, job.requested_time) for job in trace.jobs] == [
        (2, 5),
        (2, 10),
        (3, 9),
        (2, 10),
        (1, 20),
    ]
    assert trace.report.counts == {
        Reason.OVERRUN: 1,
        Reason.ASSUMED_CORES: 2,
        Reason.ASSUMED_REQUESTED_TIME: 2,
        Reason.ZERO_RUN_TIME: 1,
    }
    assert trace.report.places[Reason.ASSUMED_CORES] == [8, 10]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-3, 30), min_size=1, max_size=12))
def test_repeated_numbers_are_kept_and_noted(tmp_path: Path, numbers: list[int]) -> None:
    repeated = [place for place, number in enumerate(numbers, 1) if number in numbers[: place - 1]]
    path = tmp_path / "numbers.swf"
    path.write_text("\n".join(map(row, numbers)))
    trace = swf.read(path)
    assert [job.job_id for job in trace] == numbers
    assert trace.report.places.get(Reason.REPEATED_ID, []) == repeated


def test_unsorted_rows(log: Callable[..., Path]) -> None:
    path = log(row(1, 50), row(2, 20), row(3, 50), row(4, 30), row(5, 20))
    trace = swf.read(path)
    assert [job.job_id for job in trace.jobs] == [2, 5, 4, 1, 3]
    assert trace.report.count(Reason.OUT_OF_ORDER) == 3
    message = r"log.swf: line 8: submit time 20, expected at least the 50 of an earlier row; a stream"
    jobs = iter(swf.stream(path, max_jobs=5))
    with pytest.raises(WorkloadError, match=message):
        list(jobs)


def test_order_is_checked_between_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rows = [row(number, number) for number in range(1, 9001)]
    rows.append(row(9001, 8999))
    path.write_text("\n".join(rows))
    assert path.stat().st_size > 1 << 18
    with pytest.raises(
        WorkloadError, match="line 9001: submit time 8999, expected at least the 9000 of an earlier row"
    ):
        list(swf.stream(path))


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"statuses": {0, 5}}, [2, 3]),
        ({"statuses": {2}}, [6]),
        ({"users": [3]}, [1, 4]),
        ({"queues": (1, 2)}, [4, 5]),
        ({"partitions": frozenset({9})}, [5]),
        ({"max_cores": 3}, [1, 2, 3]),
        ({"window": (10, 40)}, [2, 3, 4]),
        ({"max_jobs": 2}, [1, 2]),
        ({"max_jobs": 2, "max_cores": 3, "users": {4, 3}}, [1, 2]),
        ({"users": set(), "max_jobs": 1}, None),
    ],
)
def test_filters(log: Callable[..., Path], options: Any, numbers: list[int] | None) -> None:
    path = log(
        row(1, 0, cores=1, f12=3),
        row(2, 10, cores=2, f11=0, f12=4),
        row(3, 20, cores=3, f11=5, f12=4),
        row(4, 30, cores=4, f12=3, f15=1),
        row(5, 40, cores=5, f15=2, f16=9),
        row(6, 50, f11=2),
    )
    if numbers is None:
        with pytest.raises(WorkloadError, match="no usable job in 6 rows; dropped: 1 partial_execution, 5 filtered"):
            swf.read(path, **options)
        return
    trace = swf.read(path, **options)
    assert [job.job_id for job in trace.jobs] == numbers
    assert list(swf.stream(path, **options)) == trace.jobs
    assert trace.report.rows == len(numbers) + trace.report.dropped


def test_max_jobs_counts_nothing_behind(log: Callable[..., Path]) -> None:
    trace = swf.read(log(row(1), row(2, ran=-1), row(3), row(4, cores=-1), row(5)), max_jobs=2)
    assert trace.report.as_dict()["reasons"].keys() >= {"unknown_run_time"}
    assert (trace.report.rows, trace.report.jobs, trace.report.count(Reason.UNKNOWN_CORES)) == (3, 2, 0)


def test_shift(log: Callable[..., Path]) -> None:
    path = log(row(1, 100), row(2, 150), row(3, 200))
    assert [job.submission_time for job in swf.read(path, shift=True)] == [0, 50, 100]
    assert [job.submission_time for job in swf.stream(path, shift=True, window=(120, 300))] == [0, 50]
    backwards = log(row(1, 200), row(2, 150))
    assert [job.submission_time for job in swf.read(backwards, shift=True)] == [0, 50]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zero_run_time": "no"}, r"zero_run_time: got 'no', expected one of 'keep', 'drop'"),
        ({"max_cores": 0}, "max_cores: got 0, expected an integer >= 1"),
        ({"users": 3}, "users: got 3, expected a collection of integers"),
        ({"window": (5, 5)}, r"window: got \(5, 5\), expected a start before its end"),
    ],
)
def test_options_out_of_range(log: Callable[..., Path], options: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        swf.read(log(row()), **options)


GOOD = b"1 0 -1 10 2 -1 -1 2 10 -1 1 -1 -1 -1 -1 -1 -1 -1"


def with_field(field: int, text: str) -> bytes:
    """Return the good row with one field replaced."""
    fields = GOOD.split()
    fields[field - 1] = text.encode()
    return b" ".join(fields)


BROKEN = [
    (b"1 2 3", "line 2: got 3 fields, expected 18 (a truncated line?)"),
    (GOOD[:-3], "line 2: got 17 fields, expected 18 (a truncated line?)"),
    (GOOD + b" 7", "line 2: got 19 fields, expected 18"),
    (with_field(4, "abc"), "line 2: field 4 (run time): got 'abc', expected a number"),
    (with_field(7, "nan"), "line 2: field 7 (used memory): got 'nan', expected a number"),
    (with_field(1, "1_000"), "line 2: field 1 (job number): got '1_000', expected a number"),
    (with_field(3, "1e16"), "line 2: field 3 (wait time): got '1e16', expected a number from -1e15 to 1e15"),
    (with_field(6, "9" * 400), f"line 2: field 6 (average CPU time): got '{'9' * 37}...', expected a number from"),
    (with_field(5, "2.5"), "line 2: field 5 (allocated processors): got '2.5', expected an integer"),
    (with_field(14, "é"), "line 2: byte 0xc3 at column 35: expected ASCII text"),
    (GOOD.replace(b"10", b"1\x000", 1), "line 2: byte 0x00 at column 9: expected ASCII text"),
    (b"; note \x00", "line 2: control character 0x00 in a comment line"),
    (b"7" * (1 << 21), "line 2 is longer than 1,048,576 bytes"),
]


@pytest.mark.parametrize(("line", "message"), BROKEN, ids=[message[:60] for _, message in BROKEN])
def test_broken_lines(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "log.swf"
    content = b"\n".join([GOOD, line, GOOD.replace(b"1", b"3", 1), b""])
    path.write_bytes(content)
    for use in (swf.read, lambda path, **how: list(swf.stream(path, **how))):
        assert refusal(lambda use=use: use(path, strict=True)).startswith(f"{path}: {message}")
    if "x00" in message or "longer" in message:  # no text
        assert refusal(lambda: swf.read(path)).startswith(f"{path}: {message}")
        return
    trace = swf.read(path)
    assert trace.jobs == list(swf.stream(path))
    assert trace.jobs["job_id"].tolist() == [1, 3]
    assert (trace.report.rows, trace.report.jobs, trace.report.dropped) == (3, 2, 1)
    assert trace.report.places == {Reason.UNREADABLE: [2]}
    if line != GOOD + b" 7":  # alone, it is a log with a further field
        path.write_bytes(line)
        assert refusal(lambda: swf.read(path)).startswith(f"{path}: {message.replace('line 2', 'line 1')[:20]}")


def test_fields_behind_the_formats_own_are_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    rows = [with_field(1, str(number)) for number in range(1, 30)]
    path.write_bytes(b"; head\n" + b"\n".join(rows))
    wanted = swf.read(path)
    path.write_bytes(b"; head\n" + b"\n".join(row + b" {1,2} q_1d 1:ppn=2#excl" for row in rows))
    found = swf.read(path)
    assert found.jobs == wanted.jobs == list(swf.stream(path))
    assert found.report.count(Reason.EXTRA_FIELDS) == 29
    assert "more fields than the format's 18" in str(found.report)
    assert wanted.report.count(Reason.EXTRA_FIELDS) == 0
    rows[7] += b" 5"
    path.write_bytes(b"; head\n" + b"\n".join(row + b" {1,2}" for row in rows))
    message = f"{path}: line 9: got 20 fields, expected 19 like other rows"
    assert refusal(lambda: swf.read(path, strict=True)) == message
    assert swf.read(path).report.count(Reason.UNREADABLE) == 1
    rows[7] = with_field(4, "abc")
    path.write_bytes(b"; head\n" + b"\n".join(row + b" {1,2}" for row in rows))
    message = f"{path}: line 9: field 4 (run time): got 'abc', expected a number"
    assert refusal(lambda: swf.read(path, strict=True)) == message
    assert swf.texts(path, 19).keys() == set(range(2, 31))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no usable job in 0 rows"),
        (with_field(4, "-1"), "no usable job in 1 rows; dropped: 1 unknown_run_time"),
        (b";\n" * 100_001, "line 100001: more than 100,000 header lines"),
    ],
)
def test_files_without_jobs(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(content)
    assert refusal(lambda: swf.read(path)) == f"{path}: {message}"


def test_the_line_is_right_in_a_late_block(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = [with_field(1, str(number)) for number in range(1, 20_001)]
    lines[10_500] = with_field(9, "x")
    path.write_bytes(b"; head\n\n" + b"\n".join(lines))
    with pytest.raises(WorkloadError, match=r"line 10503: field 9 \(requested time\): got 'x', expected a number"):
        swf.read(path, strict=True)
    assert swf.read(path).report.places == {Reason.UNREADABLE: [10503]}
    lines[10_500] = b""
    lines[11_000] = b"1 2"
    path.write_bytes(b"\r\n".join(lines))
    with pytest.raises(WorkloadError, match="line 11001: got 2 fields, expected 18"):
        swf.read(path, strict=True)
    assert swf.read(path).report.places == {Reason.UNREADABLE: [11001]}


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    whole = gzip.compress(GOOD * 50, mtime=0)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for content in (whole[:-9], whole[:2], bytes(damaged), whole + b"tail", whole[:-8] + bytes(8)):
        path.write_bytes(content)
        assert refusal(lambda: swf.read(path)).startswith(f"{path}: corrupt gzip data: ")


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    missing = tmp_path / "missing.swf"
    for path, message in (
        (missing, f"{missing}: cannot be read: No such file or directory"),
        (tmp_path, f"{tmp_path}: cannot be read: Is a directory"),
        ("a\0b", r"'a\x00b': cannot be read: embedded null byte"),
    ):
        for use in (swf.read, swf.stream):
            assert refusal(lambda use=use, path=path: use(path)) == message


@settings(max_examples=40, deadline=None)
@given(
    jobs=st.lists(BATCH_JOBS, min_size=1, max_size=20), numbers=st.randoms(use_true_random=False), packed=st.booleans()
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


def test_real_log_written_and_read_again(tmp_path: Path) -> None:
    trace = swf.read(data("swf/KTH-SP2-1996-2.swf"))
    swf.write(tmp_path / "copy.swf.gz", trace.jobs, header=trace.header)
    assert (tmp_path / "copy.swf.gz").read_bytes()[:2] == b"\x1f\x8b"
    copy = swf.read(tmp_path / "copy.swf.gz")
    assert (copy.jobs, copy.header) == (trace.jobs, trace.header)


def test_write_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text("old")
    good, bad = Job(1, 0.0, 1, 5.0, 5.0), Job(2, 0.0, 0, 5.0, 5.0)
    with pytest.raises(WorkloadError, match="job 2: requested_cores: got 0, expected an integer >= 1"):
        swf.write(path, [good, bad])
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["jobs.swf"]
    swf.write(path, iter([good]))
    assert path.read_text() == "; Version: 2.2\n1 0 -1 5 1 -1 -1 1 5 -1 1 -1 -1 -1 -1 -1 -1 -1\n"


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job(1, 0.0, 1, 0.0, 5.0), "job 1: requested_time: got 0, .*; workload files read 0 as unknown"),
        (Job(1, 0.0, 1, 2e15, 5.0), "job 1: got .*, expected numbers from -1e15 to 1e15"),
        (Job(1, float("nan"), 1, 5.0, 5.0), "job 1: submission_time: got nan, expected a finite time >= 0 s"),
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
    with pytest.raises(WorkloadError, match=r"header line 'Note: a\\rb': got a control character"):
        swf.write(tmp_path / "jobs.swf", [job], header={"Note": "a\rb"})
    assert list(tmp_path.iterdir()) == []


def filled() -> TraceReport:
    report = TraceReport(rows=12_345, jobs=12_336)
    report.add(Reason.OVERRUN, [3])
    report.add(Reason.CANCELLED, range(4, 7))
    report.add(Reason.CANCELLED, range(10, 16))
    report.add(Reason.FILTERED, [])
    return report


def test_counts_and_first_places() -> None:
    report = filled()
    assert report.counts == {Reason.OVERRUN: 1, Reason.CANCELLED: 9}
    assert report.places == {Reason.OVERRUN: [3], Reason.CANCELLED: [4, 5, 6, 10, 11]}
    assert (report.dropped, report.count(Reason.FILTERED)) == (9, 0)
    assert (report.locate(3), TraceReport(unit="position").locate(3)) == ("line 3", "jobs[3]")


def test_table() -> None:
    assert str(TraceReport(rows=2, jobs=2)) == "2 rows: 2 jobs, 0 dropped"
    assert str(filled()).splitlines() == [
        "12,345 rows: 12,336 jobs, 9 dropped",
        "action        count  reason                                                       lines",
        "dropped           9  status 5 without run time or cores: cancelled before it ran  4, 5, 6, 10, 11, ...",
        "noted             1  ran longer than requested, kept                              3",
    ]


def after_of(trace: Any) -> dict[int, Dependency]:
    """Return the dependencies by job id."""
    return {job.job_id: job.after for job in trace.jobs if job.after is not None}


def test_preceding_jobs_and_think_times(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = [
        row(1),
        row(2, 5, f17=1, f18=30),
        row(3, 6, f17=2),  # an unknown think time
        row(4, 7, f17=9, f18=10),  # after a job that is not there
        row(5, 8, cores=0, f17=1),  # dropped
        row(6, 9, f17=5),
    ]
    path.write_text("; head\n" + "\n".join(lines) + "\n")
    trace = swf.read(path)
    assert trace.report.count(Reason.DEPENDENCY) == 5
    assert "depends on another job: read only with dependencies=True" in str(trace.report)
    assert after_of(trace) == {}
    trace = swf.read(path, dependencies=True)
    assert "depends on another job" not in str(trace.report)
    assert after_of(trace) == {2: Dependency((1,), 30.0), 3: Dependency((2,), 0.0)}
    jobs = simulate(BatchCluster(trace.jobs, 8), create("fcfs")).jobs
    assert jobs["submission_time"].to_list() == [0.0, 7.0, 9.0, 40.0, 50.0]


def test_numbers_of_preceding_jobs_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = [
        row(1),
        row(1, 3),  # depends on no job
        row(2, 4, f17=1, f18=100),  # after the first job 1
        row(5, 5, f11=2),  # a part of the job of the next row
        row(5, 6),
        row(3, 7, f17=2, f18=7),  # after the row that the file calls 2
        row(9, 8, f17=5, f18=1),
    ]
    path.write_text("\n".join(lines) + "\n")
    trace = swf.read(path, dependencies=True)
    assert [job.job_id for job in trace.jobs] == [1, 1, 2, 5, 3, 9]
    assert after_of(trace) == {2: Dependency((1,), 100.0), 3: Dependency((2,), 7.0), 9: Dependency((5,), 1.0)}
    assert {row: others for row, (others, _) in trace.jobs.dependencies().items()} == {2: (0,), 4: (2,), 5: (3,)}
    window = swf.read(path, window=(3, 9), shift=True, dependencies=True)  # without the job that the number 1 means
    assert [job.job_id for job in window.jobs] == [1, 2, 5, 3, 9]
    assert after_of(window) == {3: Dependency((2,), 7.0), 9: Dependency((5,), 1.0)}
    assert load(path, num_cores=8, dependencies="keep").jobs == trace.jobs
    copy = tmp_path / "copy.swf"
    swf.write(copy, trace.jobs)
    assert swf.read(copy, dependencies=True).jobs == trace.jobs
    other = trace.jobs.with_columns(after=[None, None, ((1,), 0.0), None, None, None])  # on the second row of job 1
    with pytest.raises(WorkloadError, match="job 2 depends on the job 1 of row 1, but this number means row 0 in this"):
        swf.write(copy, other)
    with pytest.raises(WorkloadError, match="job a: job_id: got 'a', but this format has only numbers"):
        swf.write(copy, [Job("a", 0.0, 1, 5.0, 5.0)])


def test_texts_are_told_apart_by_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("\n".join(["; head", row(1) + " a", row(1, 3) + " b", row(2, 4) + " c"]) + "\n")
    assert swf.texts(path, 19) == {2: "a", 3: "b", 4: "c"}


def test_fields_that_are_not_read_are_named_if_rows_differ_there(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    rows = [f"{number} 0 0 5 1 -1 {number // 2} 1 5 64 1 1 1 -1 -1 -1 -1 -1\n" for number in range(1, 4)]
    path.write_text("".join(rows))
    assert swf.read(path).report.headline() == "3 rows: 3 jobs, 0 dropped; fields not read: used memory"
    assert swf.read(path).report.as_dict()["unread"] == ("used memory",)
    assert swf.read(path, max_jobs=1).report.headline().startswith("1 rows: 1 jobs, 0 dropped")
    path.write_text(rows[0])
    assert swf.read(path).report.headline() == "1 rows: 1 jobs, 0 dropped"


def test_the_line_that_states_the_cores(log: Callable[..., Path]) -> None:
    header = "; Version: 2.2\n\n;      MaxProcs: 4,096 (8 interactive)\n; MaxProcs: 5\n"
    trace = swf.read(log(row(), header=header))
    assert (trace.num_cores, trace.header.cores_stated) == (4_096, "MaxProcs: 4,096 (8 interactive) on line 3")
    assert swf.read(log(row(), header="; MaxProcs: 4.096\n")).header.cores_stated == "MaxProcs: 4.096 on line 1"
    assert swf.read(log(row(), header="; Note: x\n")).header.cores_stated == ""


def test_a_row_that_depends_on_itself(log: Callable[..., Path]) -> None:
    path = log(row(f17=1, f18=5), row(2, f17=1, f18=5), header="; MaxProcs: 4\n")
    trace = swf.read(path, dependencies=True)
    assert [job.after and job.after.jobs for job in trace.jobs] == [None, (1,)]
    assert trace.report.places[Reason.SELF_DEPENDENCY] == [2]


def test_ids_up_to_those_of_jobs(log: Callable[..., Path], tmp_path: Path) -> None:
    """Integers beyond 2^53 are not read by floats."""
    largest = 2**63 - 1

    def identified(number: int, before: int) -> str:
        return " ".join([str(number), *row().split()[1:16], str(before), "-1"])

    path = log(identified(2**53 + 1, -1), identified(largest, 2**53 + 1), header="")
    trace = swf.read(path, dependencies=True)
    assert trace.jobs["job_id"].tolist() == [2**53 + 1, largest] and trace.jobs[1].after == Dependency((2**53 + 1,))
    copy = tmp_path / "copy.swf"
    swf.write(copy, trace.jobs)
    assert swf.read(copy, dependencies=True).jobs == trace.jobs
    assert "field 1 (job number): got '9223372036854775808', expected a number" in refusal(
        lambda: swf.read(log(identified(largest + 1, -1)))
    )


def test_strict_streams_refuse_the_first_repair(log: Callable[..., Path]) -> None:
    path = log(row(f8=2, f9=10), row(2, -1, f8=2, f9=10))
    assert "submit time negative or unknown (dropped, 1 times)" in refusal(lambda: list(swf.stream(path, strict=True)))
