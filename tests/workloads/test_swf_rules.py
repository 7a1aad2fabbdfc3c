"""Standard Workload Format: which rows are dropped, changed, noted, filtered, sorted and shifted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swf_rows import row

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads import swf
from desim.workloads.batch.trace import TraceReason as Reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (row(f11=2), Reason.PARTIAL_EXECUTION),
        (row(f11=3), Reason.PARTIAL_EXECUTION),
        (row(f11=4), Reason.PARTIAL_EXECUTION),
        (row(f11=5, ran=0), Reason.CANCELLED),
        (row(f11=5, ran=-1, cores=-1), Reason.CANCELLED),
        (row(f11=5, cores=0), Reason.CANCELLED),
        (row(submit=-1), Reason.NEGATIVE_SUBMIT),
        (row(cores=0), Reason.UNKNOWN_CORES),
        (row(cores=-1, f8=0), Reason.UNKNOWN_CORES),
        (row(ran=-1), Reason.UNKNOWN_RUN_TIME),
        (row(ran=-2.5), Reason.UNKNOWN_RUN_TIME),
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


def test_numbers_used_before_are_replaced(log: Callable[..., Path]) -> None:
    numbers = [-1, -1, 5, 6, 9, 6, 7, 7, 10, 2, 2]
    trace = swf.read(log(*map(row, numbers)))
    assert [job.job_id for job in trace.jobs] == [-1, 0, 5, 6, 9, 10, 7, 11, 12, 2, 13]
    assert trace.report.count(Reason.RENUMBERED) == 5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 30), min_size=1, max_size=12))
def test_numbers_against_a_plain_set(tmp_path: Path, numbers: list[int]) -> None:
    seen: set[int] = set()
    expected = []
    for number in numbers:
        expected.append(max(seen) + 1 if number in seen else number)
        seen.add(expected[-1])
    path = tmp_path / "numbers.swf"
    path.write_text("\n".join(map(row, numbers)))
    assert [job.job_id for job in swf.read(path)] == expected


def test_unsorted_rows(log: Callable[..., Path]) -> None:
    path = log(row(1, 50), row(2, 20), row(3, 50), row(4, 30), row(5, 20))
    trace = swf.read(path)
    assert [job.job_id for job in trace.jobs] == [2, 5, 4, 1, 3]
    assert trace.report.count(Reason.OUT_OF_ORDER) == 3
    message = r"log.swf: line 8: submit time 20 lies before the 50 of an earlier row; a stream"
    jobs = iter(swf.stream(path, max_jobs=5))
    with pytest.raises(WorkloadError, match=message):
        list(jobs)


def test_order_is_checked_between_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rows = [row(number, number) for number in range(1, 9001)]
    rows.append(row(9001, 8999))
    path.write_text("\n".join(rows))
    assert path.stat().st_size > 1 << 18
    with pytest.raises(WorkloadError, match="line 9001: submit time 8999 lies before the 9000 of an earlier row"):
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
        ({"zero_run_time": "no"}, r"zero_run_time is 'no', want one of 'keep', 'drop'"),
        ({"max_cores": 0}, "max_cores is 0, want at least 1"),
        ({"max_jobs": 0}, "max_jobs is 0, want at least 1"),
        ({"users": 3}, "users is 3, want a collection of whole numbers"),
        ({"statuses": "1"}, "statuses is '1', want a collection of whole numbers"),
        ({"window": (5, 5)}, r"window is \(5, 5\), want a start before its end"),
        ({"window": (float("nan"), 5)}, "window is .* want a start before its end"),
    ],
)
def test_options_out_of_range(log: Callable[..., Path], options: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        swf.read(log(row()), **options)
