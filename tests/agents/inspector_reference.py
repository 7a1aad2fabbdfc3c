"""An inspector over a base policy, written again with plain lists and nothing from the simulator but the jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from desim.problems.batch import Job

__all__ = ["ORDERS", "Judge", "Outcome", "run_reference", "workloads"]

Judge = Callable[[int, int, float], bool]
"""Whether a job is accepted, by its id, how often it was rejected, and the time."""

ORDERS: dict[str, Callable[[Job, int], float]] = {
    "fcfs": lambda job, place: float(place),
    "lcfs": lambda job, place: float(-place),
    "sjf": lambda job, place: job.requested_time,
    "smallest-first": lambda job, place: float(job.requested_cores),
    "f1": lambda job, place: (
        math.log10(max(job.requested_time, 1.0)) * job.requested_cores
        + 870.0 * math.log10(max(job.submission_time, 1.0))
    ),
}


class Outcome(NamedTuple):
    """When each job started, and every question: time, job, rejections before."""

    starts: dict[int, float]
    questions: list[tuple[float, int, int]]


class _Run:
    def __init__(self, cores: int, order: str, judge: Judge, rejections: int, interval: float, keeps: bool) -> None:
        self.free = cores
        self.score = ORDERS[order]
        self.judge, self.limit, self.interval, self.keeps = judge, rejections, interval, keeps
        self.queue: list[Job] = []
        self.running: list[tuple[float, float, int]] = []  # end, expected end, cores
        self.starts: dict[int, float] = {}
        self.questions: list[tuple[float, int, int]] = []
        self.rejected: dict[int, int] = {}
        self.accepted: list[int] = []
        self.wake = math.inf

    def ranked(self) -> list[Job]:
        places = range(len(self.queue))
        return [self.queue[place] for place in sorted(places, key=lambda i: (self.score(self.queue[i], i), i))]

    def start(self, job: Job, time: float) -> None:
        self.queue.remove(job)
        self.free -= job.requested_cores
        duration = min(job.run_time, job.requested_time)
        self.running.append((time + duration, time + job.requested_time, job.requested_cores))
        self.starts[job.job_id] = time

    def cycle(self, time: float) -> None:
        self.wake = math.inf
        while self.queue:
            job = self.ranked()[0]
            held = [waiting for waiting in self.queue if waiting.job_id in self.accepted]
            if self.keeps and held:
                (job,) = held
            if job not in held:
                before = self.rejected.get(job.job_id, 0)
                if before < self.limit:
                    self.questions.append((time, job.job_id, before))
                    if not self.judge(job.job_id, before, time):
                        self.rejected[job.job_id] = before + 1
                        self.wake = time + self.interval
                        return
            if job.requested_cores > self.free:
                self.accepted.append(job.job_id)
                self.backfill(job, time)
                return
            self.start(job, time)

    def backfill(self, blocked: Job, time: float) -> None:
        free, shadow = self.free, math.inf
        for _, expected, cores in sorted(self.running, key=lambda row: row[1]):
            if expected > shadow:
                break
            free += cores
            if free >= blocked.requested_cores:
                shadow = expected
        spare = free - blocked.requested_cores
        for job in self.ranked():
            late = time + job.requested_time > shadow
            if job != blocked and job.requested_cores <= self.free and (not late or job.requested_cores <= spare):
                self.start(job, time)
                spare -= job.requested_cores if late else 0


def run_reference(
    jobs: Sequence[Job], cores: int, order: str, judge: Judge, rejections: int, interval: float, *, keeps: bool
) -> Outcome:
    """Run jobs whose run times are above 0 to their end; waking up must not coincide with an arrival."""
    run = _Run(cores, order, judge, rejections, interval, keeps)
    todo = list(jobs)
    while todo or run.queue:
        arrival = todo[0].submission_time if todo else math.inf
        time = min([arrival, run.wake, *(row[0] for row in run.running)])
        ended = [row for row in run.running if row[0] == time]
        run.running = [row for row in run.running if row[0] != time]
        run.free += sum(row[2] for row in ended)
        if run.queue and (ended or time < arrival):  # ends and arrivals of the same instant have a cycle each
            run.cycle(time)
        while todo and todo[0].submission_time == time:
            run.queue.append(todo.pop(0))
            run.cycle(time)
    return Outcome(run.starts, run.questions)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Job], int]:
    """Draw up to 14 jobs on up to 8 cores, with many ties."""
    cores = draw(st.integers(1, 8))
    row = st.tuples(st.sampled_from((0, 0, 1, 2, 9)), st.integers(1, cores), st.integers(1, 9), st.integers(1, 10))
    rows = draw(st.lists(row, min_size=1, max_size=14))
    names = draw(st.permutations(range(len(rows))))
    time, jobs = 0, []
    for job_id, (gap, width, requested, run) in zip(names, rows, strict=True):
        time += gap
        jobs.append(Job(job_id, float(time), width, float(requested), float(run)))
    return jobs, cores
