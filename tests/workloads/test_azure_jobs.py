"""Virtual machines as on-demand load and as deferrable jobs; the report of what was repaired."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from azure_files import packing_file, vm
from numpy.random import default_rng
from scipy.stats import chisquare

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.deferrable import DeferrableCluster, Job, clairvoyant_view
from desim.processes import replayed_vms
from desim.workloads.azure import VirtualMachine, VmReason, VmReport, deferrable_jobs, low_priority, on_demand, packing
from desim.workloads.deferrable import Constant, Sometimes, Uniform


def machines(number: int, **fields: Any) -> list[VirtualMachine]:
    """Return virtual machines of 1, 2, 3, 1, 2, 3, ... slots, one every half slot."""
    values = {"cores": 2.0, "memory": 0.5} | fields
    return [VirtualMachine(at, at / 2, at / 2 + 1 + at % 3, **values) for at in range(number)]


def test_priorities_are_told_apart(tmp_path: Path) -> None:
    rows = [vm(number, number / 10, 5.0, priority=number % 3) for number in range(9)]
    trace = packing.read_vms(packing_file(tmp_path / "trace", rows))
    high, low = on_demand(trace), low_priority(trace)
    for _ in range(2):  # as often as the trace
        assert [machine.vm_id for machine in high] == [0, 3, 6]
        assert [machine.vm_id for machine in low] == [1, 4, 7]


def test_a_job_is_submitted_when_its_virtual_machine_started() -> None:
    vms = [
        VirtualMachine(4, 0.0, 1.0, 2.0, 0.5),
        VirtualMachine(9, 0.25, 3.25 + 1e-9, 1.5, 0.25, 1, 7),
        VirtualMachine(2, 3.0, 3.01, 1.0, 0.125),
    ]
    assert list(deferrable_jobs(vms, lead_time=2, slack=lambda uniforms, durations: 2 * durations)) == [
        Job(4, 0.0, 2, 4, 1, 2.0),
        Job(9, 0.25, 3, 9, 3, 1.5),
        Job(2, 3.0, 5, 7, 1, 1.0),
    ]
    assert list(deferrable_jobs(vms, lead_time=0, slack=0, longest=2)) == [
        Job(4, 0.0, 0, 0, 1, 2.0),
        Job(9, 0.25, 1, 1, 2, 1.5),
        Job(2, 3.0, 3, 3, 1, 1.0),
    ]
    instant = VirtualMachine(1, 2.0, 2.0 + 1e-9, 1.0, 0.0)
    assert [job.duration for job in deferrable_jobs([instant], lead_time=0, slack=0)] == [1]


def test_the_cluster_takes_the_jobs_of_a_trace(tmp_path: Path) -> None:
    rng = default_rng(5)
    rows = [
        vm(number, float(start), float(start + rng.exponential(0.1)), int(rng.integers(4)), priority=number % 2)
        for number, start in enumerate(rng.uniform(-1, 14, 3_000))
    ]
    trace = packing.read_vms(packing_file(tmp_path / "trace", rows), alive_before="drop", days=(0, 1))
    jobs = deferrable_jobs(low_priority(trace), lead_time=Uniform(0, 6), slack=Uniform(0, 4), seed=1)
    cluster = DeferrableCluster(jobs, np.full(288, 100.0), num_slots=288)
    known = clairvoyant_view(cluster)
    assert known.jobs == clairvoyant_view(cluster).jobs == tuple(jobs)
    assert 80 < len(known.jobs) < 120


def test_a_platform_has_left_what_on_demand_machines_do_not_hold(tmp_path: Path) -> None:
    rng = default_rng(6)
    rows = [
        vm(number, float(start), float(start + rng.exponential(0.2)), number % 4, priority=number % 2)
        for number, start in enumerate(rng.uniform(-0.3, 2, 600))
    ]
    trace = packing.read_vms(packing_file(tmp_path / "trace", rows), slot_seconds=3600.0)
    left = clairvoyant_view(DeferrableCluster([], replayed_vms(2_000, on_demand(trace)), num_slots=48)).capacity[:, 0]
    machines = [machine for machine in trace if machine.priority == 0]
    for slot in range(48):
        held = sum(machine.cores for machine in machines if machine.start <= slot < machine.end)
        assert left[slot] == pytest.approx(2_000 - held)
    assert left.min() < 1_900
    assert len(set(left.tolist())) > 20


def test_notice_and_slack_follow_their_distributions() -> None:
    vms = machines(30_000)
    jobs = list(deferrable_jobs(vms, lead_time=Uniform(1, 4), slack=Uniform(0, 2), seed=3))
    lead_times = Counter(job.earliest_start - int(np.ceil(job.submission_time)) for job in jobs)
    assert set(lead_times) == {1, 2, 3, 4}
    assert chisquare(list(lead_times.values())).pvalue > 1e-4
    slacks = Counter(job.slack for job in jobs)
    assert set(slacks) == {0, 1, 2}
    assert chisquare(list(slacks.values())).pvalue > 1e-4
    # A notice above 2 (a half) and a slack above 1 (a third) have nothing in common
    both = Counter((job.lead_time >= 3, job.slack > 1) for job in jobs)
    pairs = list(product([False, True], repeat=2))
    expected = [sum(both.values()) / 2 * (1 / 3 if long else 2 / 3) for _, long in pairs]
    assert chisquare([both[pair] for pair in pairs], expected).pvalue > 1e-4


def test_the_same_seed_gives_the_same_jobs_and_streams_are_independent() -> None:
    vms = machines(3_000)
    jobs = deferrable_jobs(vms, lead_time=Uniform(0, 5), slack=Uniform(0, 9), seed=8)
    assert list(jobs) == list(jobs) == list(deferrable_jobs(vms, lead_time=Uniform(0, 5), slack=Uniform(0, 9), seed=8))
    assert list(jobs) != list(deferrable_jobs(vms, lead_time=Uniform(0, 5), slack=Uniform(0, 9), seed=9))
    # Another law of the slack leaves the notice as it was, and fewer jobs are the beginning of more
    other = list(deferrable_jobs(vms, lead_time=Uniform(0, 5), slack=3, seed=8))
    assert [job.earliest_start for job in other] == [job.earliest_start for job in jobs]
    assert (
        list(deferrable_jobs(vms[:1_500], lead_time=Uniform(0, 5), slack=Uniform(0, 9), seed=8)) == list(jobs)[:1_500]
    )
    drawn = [
        deferrable_jobs(vms, lead_time=Uniform(0, 5), slack=3, seed=generator)
        for generator in (default_rng(3), default_rng(3))
    ]
    assert list(drawn[0]) == list(drawn[0]) == list(drawn[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lead_time": -1}, "lead_time: got -1, expected an integer >= 0"),
        ({"slack": 1.5}, "slack: got 1.5, expected an integer"),
        ({"longest": 0}, "longest: got 0"),
        ({"seed": "x"}, "seed: got 'x'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        deferrable_jobs([], **({"lead_time": 0, "slack": 0} | options))


@pytest.mark.parametrize(
    ("law", "arguments", "message"),
    [
        (Constant, [-1], "slots: got -1"),
        (Uniform, [4, 3], "least: got 4, expected at most 3"),
        (Sometimes, [1.5, 3], "share: got 1.5, expected a finite number from 0 to 1"),
        (Sometimes, [0.5, -3], "law: got -3"),
    ],
)
def test_laws_out_of_range_are_refused(law: Any, arguments: list[Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        law(*arguments)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda uniforms, durations: uniforms, "slack: got 0.[0-9]+, expected integer numbers"),
        (lambda uniforms, durations: 3, r"slack: got an array of shape \(\) and type int64 for 3 jobs"),
        (lambda uniforms, durations: ["x"] * 3, r"slack: got an array of shape \(3,\) and type <U1"),
    ],
)
def test_laws_that_give_no_slots_are_refused(law: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        list(deferrable_jobs(machines(3), lead_time=0, slack=law))


@pytest.mark.parametrize(("start", "end"), [(-1.0, 2.0), (3.0, 3.0), (0.0, float("inf"))])
def test_times_that_make_no_sense_are_refused(start: float, end: float) -> None:
    with pytest.raises(WorkloadError, match="virtual machine 7: got start"):
        list(deferrable_jobs([VirtualMachine(7, start, end, 1.0, 1.0)], lead_time=0, slack=0))


def test_virtual_machines_out_of_order_are_refused() -> None:
    jobs = iter(deferrable_jobs(machines(3)[::-1], lead_time=0, slack=0))
    assert next(jobs).job_id == 2
    with pytest.raises(
        WorkloadError, match=r"virtual machine 1: start: got 0\.5, expected at least 1\.0, the previous start"
    ):
        next(jobs)


def test_the_report_as_text_and_as_values() -> None:
    report = VmReport(unit="line", rows=10, vms=7, batches=3)
    assert str(report) == "10 rows in 3 batches: 7 virtual machines, 0 dropped"
    assert report.summary() == ""
    report.add(VmReason.LATE_END, range(1, 8))
    report.add(VmReason.UNKNOWN_TYPE, [5, 6])
    report.add(VmReason.UNKNOWN_START, [9])
    report.add(VmReason.REPEATED_TYPE_ROW, [])
    assert (report.dropped, report.summary()) == (3, "1 unknown_start, 2 unknown_type")
    lines = str(report).splitlines()
    assert lines[0] == "10 rows in 3 batches: 7 virtual machines, 3 dropped"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["action", "count"],
        ["dropped", "1"],
        ["dropped", "2"],
        ["noted", "7"],
    ]
    assert lines[1].endswith("lines")
    assert lines[-1].endswith("1, 2, 3, 4, 5, ...")
    values = json.loads(json.dumps(report.as_dict()))
    assert values["reasons"]["late_end"] == {
        "action": "noted",
        "count": 7,
        "places": [1, 2, 3, 4, 5],
        "meaning": VmReason.LATE_END.meaning,
    }
    assert [values[key] for key in ("rows", "vms", "batches", "dropped", "unit")] == [10, 7, 3, 3, "line"]
    assert list(values["reasons"]) == ["unknown_start", "unknown_type", "late_end"]
