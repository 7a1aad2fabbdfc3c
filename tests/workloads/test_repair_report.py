"""The repair report as a table and as plain values."""

from __future__ import annotations

import json

from desim.workloads.batch.trace import TraceReason as Reason
from desim.workloads.batch.trace import TraceReport as RepairReport


def filled() -> RepairReport:
    report = RepairReport(rows=12_345, jobs=12_336)
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
    assert (report.locate(3), RepairReport(unit="position").locate(3)) == ("line 3", "jobs[3]")


def test_plain_values() -> None:
    values = filled().as_dict()
    assert json.loads(json.dumps(values)) == values
    assert values == {
        "rows": 12_345,
        "jobs": 12_336,
        "dropped": 9,
        "unit": "line",
        "reasons": {
            "cancelled": {
                "action": "dropped",
                "count": 9,
                "places": [4, 5, 6, 10, 11],
                "meaning": "status 5 without run time or cores: cancelled before it ran",
            },
            "overrun": {"action": "noted", "count": 1, "places": [3], "meaning": "ran longer than requested, kept"},
        },
    }


def test_table() -> None:
    assert str(RepairReport(rows=2, jobs=2)) == "2 rows: 2 jobs, 0 dropped"
    assert str(filled()).splitlines() == [
        "12,345 rows: 12,336 jobs, 9 dropped",
        "action        count  reason                                                       lines",
        "dropped           9  status 5 without run time or cores: cancelled before it ran  4, 5, 6, 10, 11, ...",
        "noted             1  ran longer than requested, kept                              3",
    ]


def test_one_line() -> None:
    assert filled().summary() == "9 cancelled"
