"""The reference on scenarios that were worked out on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reference import Conservative, Easy, Scheduler, Simple, Strict, run_reference

from desim.problems.batch import Job

# Four cores. Job 1 leaves two cores free until 10; job 2 needs three of them, at 10 by the requests.
BLOCKED = [
    Job(1, 0.0, 2, 10.0, 10.0),
    Job(2, 1.0, 3, 5.0, 5.0),
    Job(3, 2.0, 2, 8.0, 8.0),  # ends at 10 by request, in time
    Job(4, 3.0, 1, 20.0, 20.0),  # beside job 2 there is one core to spare
]


def starts(scheduler: Scheduler, jobs: list[Job], num_cores: int) -> dict[int, float]:
    return {job_id: place.start for job_id, place in sorted(run_reference(jobs, num_cores, scheduler).items())}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Strict("fcfs"), {1: 0, 2: 10, 3: 15, 4: 15}),
        (lambda: Simple("fcfs"), {1: 0, 2: 10, 3: 2, 4: 10}),
        (lambda: Easy("fcfs", False), {1: 0, 2: 10, 3: 2, 4: 10}),
        (lambda: Easy("fcfs", True), {1: 0, 2: 10, 3: 2, 4: 10}),
        (lambda: Conservative("fcfs", False), {1: 0, 2: 10, 3: 2, 4: 10}),
        (lambda: Conservative("fcfs", True), {1: 0, 2: 10, 3: 2, 4: 10}),
    ],
)
def test_one_blocked_job(make: Callable[[], Scheduler], expected: dict[int, float]) -> None:
    assert starts(make(), BLOCKED, 4) == expected


def test_easy_reserves_particular_cores_or_their_number() -> None:
    # At 1 core 0 is free, job 2 wants the machine's cores 0-1 when job 1 ends, and job 3 outlasts that.
    jobs = [Job(0, 0.0, 1, 1.0, 1.0), Job(1, 0.0, 2, 9.0, 9.0), Job(2, 1.0, 2, 5.0, 5.0), Job(3, 1.0, 1, 50.0, 50.0)]
    by_number = run_reference(jobs, 3, Easy("fcfs", False))
    by_cores = run_reference(jobs, 3, Easy("fcfs", True))
    assert (by_number[3].start, by_number[3].cores, by_number[2].cores) == (1, {0}, {1, 2})
    assert (by_cores[2].start, by_cores[2].cores, by_cores[3].start) == (9, {0, 1}, 9)


def test_conservative_keeps_every_promise_where_easy_keeps_the_first() -> None:
    # Job 4 fits beside jobs 1 and 2; only job 3, the second in the queue, is in its way.
    jobs = [Job(1, 0.0, 2, 4.0, 4.0), Job(2, 1.0, 3, 2.0, 2.0), Job(3, 1.0, 4, 2.0, 2.0), Job(4, 2.0, 1, 9.0, 9.0)]
    assert starts(Easy("fcfs", False), jobs, 4) == {1: 0, 2: 4, 3: 11, 4: 2}
    assert starts(Conservative("fcfs", False), jobs, 4) == {1: 0, 2: 4, 3: 6, 4: 8}


def test_conservative_fits_the_queue_again_when_a_job_ends_early() -> None:
    jobs = [Job(1, 0.0, 2, 10.0, 3.0), Job(2, 1.0, 2, 10.0, 1.0), Job(3, 2.0, 1, 1.0, 1.0)]
    conservative = Conservative("fcfs", False)
    assert starts(conservative, jobs, 2) == {1: 0, 2: 3, 3: 4}
    assert conservative.first_promise == {1: 0, 2: 10, 3: 20}


def test_a_killed_job_leaves_at_its_requested_time() -> None:
    assert starts(Strict("fcfs"), [Job(1, 0.0, 1, 2.0, 9.0), Job(2, 0.0, 1, 1.0, 1.0)], 1) == {1: 0, 2: 2}
