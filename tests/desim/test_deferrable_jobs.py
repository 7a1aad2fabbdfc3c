"""Deferrable jobs that make no sense: the message names the job and the value."""

from __future__ import annotations

import math
import re
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from deferrable_agents import FirstFit
from deferrable_scenarios import caught, in_numpy, submitting

from desim import simulate
from desim.exceptions import WorkloadError
from desim.problems.deferrable import DeferrableCluster, Job, real_time
from desim.problems.deferrable.job import check_job
from desim.validation import validate

GOOD = Job(7, 1, 3, 5, 2, 4)
NAN, INF = math.nan, math.inf


def slots(name: str, value: Any, least: int) -> tuple[dict[str, Any], str]:
    return {name: value}, f"{name}: got {value!r}, expected an integer number of slots >= {least}"


IDENTIFIER = "job_id: got "
JOBS: list[tuple[dict[str, Any], str]] = [
    *(({"job_id": value}, IDENTIFIER) for value in ("seven", 7.0, None, True, 2**53 + 1, -(2**53) - 1, np.float64(3))),
    *(
        ({"submission_time": value}, f"submission_time: got {value!r}, expected a number of slots >= 0")
        for value in (-0.5, -1, NAN, INF, True)
    ),
    *(slots("earliest_start", value, 0) for value in (3.0, -1, NAN, None, "3", True, np.float64(3), 2**54)),
    *(slots("latest_start", value, 0) for value in (5.0, -1, NAN, None, "5", True, INF, 2**54)),
    *(slots("duration", value, 1) for value in (0, -1, 1.5, 2.0, NAN, INF, None, "2", True, 2**54)),
    ({"earliest_start": 0}, "earliest_start: got 0, expected at least submission_time, 1"),
    ({"submission_time": 3.25}, "earliest_start: got 3, expected at least submission_time, 3.25"),
    ({"latest_start": 2}, "latest_start: got 2, expected at least earliest_start, 3"),
    *(
        ({"cores": value}, f"cores: got {value!r}, expected a number above 0")
        for value in (0, 0.0, -1, -0.5, NAN, INF, -INF, None, "4", True)
    ),
    *(
        ({"others": value}, f"others: got {value!r}, expected a tuple of 0 amounts, one per resource")
        for value in ((1,), (0.0, 0.0), [], None, 0, "")
    ),
]


def test_what_a_job_says_of_itself() -> None:
    assert (GOOD.revenue, GOOD.slack, GOOD.lead_time) == (8, 2, 2)
    assert Job(1, 0.25, 1, 1, 3, 2.5, (9,)).revenue == 7.5
    assert Job(1, 0.25, 1, 1, 3, 2.5, (9,)).lead_time == 0.75


class TestJobs:
    """Whatever is wrong with a job, its error names the job and the value."""

    @pytest.mark.parametrize(("change", "message"), JOBS, ids=repr)
    def test_a_field_out_of_range(self, change: dict[str, Any], message: str) -> None:
        bad = GOOD._replace(**change)
        what = f"^job {re.escape(repr(bad.job_id))}: {re.escape(message)}"
        caught(WorkloadError, what, lambda: check_job(bad))
        if "others" not in change:
            caught(WorkloadError, what, lambda: list(real_time([bad])))
        cluster = DeferrableCluster([Job(1, 0, 0, 0, 9, 1), bad], [9], num_slots=8)
        # a time that cannot come is found by the stream of arrivals
        what += rf"|^Job\(job_id=7, .* arrives at {bad.submission_time!r}: expected a time >= 0"
        error = caught(WorkloadError, what, lambda: simulate(cluster, FirstFit()))
        assert error.result.jobs["job_id"].to_list() == [1]

    @pytest.mark.parametrize("change", [change for change, _ in JOBS], ids=repr)
    def test_a_field_out_of_range_among_numbers_of_numpy(self, change: dict[str, Any]) -> None:
        bad = in_numpy(GOOD)._replace(**change)
        what = rf"^job {re.escape(repr(bad.job_id))}: (job_id|submission_time|cores|others|duration|earliest|latest).*"
        (value,) = change.values()
        caught(WorkloadError, what + ("" if "job_id" in change else re.escape(repr(value))), lambda: check_job(bad))

    @pytest.mark.parametrize("change", [{}, {"others": (1, 2, 3)}, {"others": (1,)}, {"others": [1, 2]}], ids=repr)
    def test_another_number_of_resources(self, change: dict[str, Any]) -> None:
        caught(
            WorkloadError,
            f"^job 7: others: got {re.escape(repr(change.get('others', ())))}, expected a tuple of 2 amounts",
            lambda: check_job(GOOD._replace(**change), 3),
        )

    @pytest.mark.parametrize("amount", [-1, NAN, INF, None, "1", True])
    def test_an_amount_of_another_resource(self, amount: Any) -> None:
        job = GOOD._replace(others=(1, amount))
        message = f"^job 7: others: got {re.escape(repr(amount))}, expected numbers >= 0$"
        caught(WorkloadError, message, lambda: check_job(job, 3))
        cluster = DeferrableCluster([job], [(9, 9, 9)], resources=("cores", "memory", "disk"))
        caught(WorkloadError, message, lambda: simulate(cluster, FirstFit()))

    def test_jobs_that_are_just_within_the_range(self) -> None:
        for job in (
            GOOD,
            Job(2**53, 0, 0, 0, 1, 1e-9),
            Job(-(2**53), 0, 0, 2**53, 2**53, 1e9),
            Job(0, 3.0, 3, 3, 1, 1),
        ):
            check_job(job)
            check_job(in_numpy(job))
        check_job(GOOD._replace(others=(0, np.float32(2.5))), 3)

    @pytest.mark.parametrize("thing", [3, None, "job", (1, 0, 0, 0, 1, 1, ()), {"job_id": 1}], ids=repr)
    def test_no_job_at_all(self, thing: Any) -> None:
        message = f"^jobs: got {re.escape(repr(thing))}, expected desim.problems.deferrable.Job$"
        caught(WorkloadError, message, lambda: check_job(thing))
        for at_once in (False, True):
            cluster = DeferrableCluster([thing], [9], real_time=at_once)
            caught(WorkloadError, message, lambda cluster=cluster: simulate(cluster, FirstFit()))
        cluster = DeferrableCluster([], [9], processes=[lambda cluster: (cluster.submit(thing), (yield simpy.Event))])
        caught(WorkloadError, message, lambda: simulate(cluster, FirstFit()))

    def test_jobs_out_of_order(self) -> None:
        jobs = [Job(1, 5, 5, 5, 1, 1), Job(2, 4.5, 5, 5, 1, 1)]
        message = r"job_id=2.* arrives at 4\.5, after a job that arrives at 5; sort"
        caught(WorkloadError, message, lambda: simulate(DeferrableCluster(jobs, [9]), FirstFit()))

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (Job(1, 0, 5, 5, 1, 1), Job(1, 0, 0, 0, 1, 1)),  # together
            (Job(1, 0, 5, 5, 1, 1), Job(1, 2, 2, 2, 1, 1)),  # the first is not yet open
            (Job(1, 0, 0, 2, 1, 9), Job(1, 2, 2, 2, 1, 1)),  # the first may still be started
            (Job(1, 0, 0, 0, 3, 1), Job(1, 2.5, 3, 3, 1, 1)),  # the first runs
        ],
    )
    def test_an_id_that_is_in_the_system(self, first: Job, second: Job) -> None:
        cluster = DeferrableCluster([first, second], [5])
        message = rf"^job 1: submitted at {second.submission_time!r}, while another job with this id is in the system$"
        error = caught(WorkloadError, message, lambda: simulate(cluster, FirstFit()))
        assert error.result.jobs["earliest_start"].to_list() == [first.earliest_start]

    def test_an_id_stays_in_use_when_others_leave(self) -> None:
        jobs = [Job(1, 0, 0, 0, 9, 1), Job(2, 0, 0, 0, 1, 1), Job(3, 0, 0, 0, 1, 9), Job(1, 2, 2, 2, 1, 1)]
        cluster = DeferrableCluster(jobs, [5])
        caught(
            WorkloadError,
            "^job 1: submitted at 2, while another job with this id",
            lambda: simulate(cluster, FirstFit()),
        )

    @pytest.mark.parametrize("time", [0.5, 3, 2.5])
    def test_a_job_that_is_submitted_at_another_time(self, time: float) -> None:
        def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
            yield cluster.env.timeout(2)
            cluster.submit(Job(7, time, 4, 4, 1, 1))

        cluster = DeferrableCluster([], [9], processes=[process])
        caught(
            WorkloadError,
            f"^job 7: submission_time: got {time!r}, expected the current time, 2$",
            lambda: simulate(cluster, FirstFit()),
        )

    def test_what_a_process_submits_is_looked_at(self) -> None:
        own = submitting([GOOD._replace(cores=-4)])
        cluster = DeferrableCluster([], [9], processes=[own])
        error = caught(WorkloadError, "^job 7: cores: got -4", lambda: simulate(cluster, FirstFit()))
        assert error.result.info["status"] == "failed"
        assert any("time 1" in note for note in error.__notes__)


def test_jobs_may_be_submitted_at_any_fraction_of_a_slot() -> None:
    times = np.sort(np.random.default_rng(0).uniform(0, 50, 2_000)).tolist()  # the clock misses some of them by an ulp
    jobs = [Job(number, time, int(np.ceil(time)), int(np.ceil(time)) + 3, 1, 1) for number, time in enumerate(times)]
    result = simulate(DeferrableCluster(jobs, [8]), FirstFit())
    assert result.jobs["submission_time"].to_list() == times
    assert validate(result, jobs).ok
