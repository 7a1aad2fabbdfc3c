"""Clusters for deferrable jobs a second time: lists and fractions, slot by slot, written from the definition."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from deferrable_agents import Choice, Seen, View
from deferrable_scenarios import Scenario

from desim.problems.deferrable import Job

Amounts = list[Fraction]


class DoesNotFitError(Exception):
    """An answer goes beyond the capacity where it must not: the slot and the first job at fault."""

    def __init__(self, slot: int, job_id: int) -> None:
        super().__init__(slot, job_id)
        self.slot, self.job_id = slot, job_id


@dataclass(eq=False)
class PlainJob:
    """A job and what has become of it."""

    job: Job
    number: int
    start: int | None = None
    finish: int | None = None
    evictions: int = 0
    status: str = "queued"
    requests: tuple[Fraction, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = tuple(Fraction(float(amount)) for amount in (self.job.cores, *self.job.others))

    @property
    def revenue(self) -> Fraction:
        return self.requests[0] * int(self.job.duration)

    @property
    def delay(self) -> int:
        assert self.start is not None
        return self.start - int(self.job.earliest_start)

    @property
    def end(self) -> int:
        assert self.start is not None
        return self.start + int(self.job.duration)

    def seen(self) -> Seen:
        return Seen(*self.job[:5], self.requests, self.evictions, self.start)


class PlainCluster:
    """A run of a scenario with an agent; ``error`` is what ended it early, if anything.

    The lists ``jobs``, ``slots`` and ``evictions`` are rows of the tables in the order in which they come about,
    ``views`` what the agent saw, and ``heard`` what listeners hear, as (time, event, job or slot).
    """

    def __init__(self, scenario: Scenario, choose: Choice) -> None:
        self.scenario, self.choose = scenario, choose
        self.width = len(scenario.resources)
        self.known: list[PlainJob] = []
        self.running: list[PlainJob] = []
        self.done: list[PlainJob] = []
        self.slots: list[dict[str, Any]] = []
        self.evictions: list[tuple[int, int, int, int]] = []
        self.views: list[View] = []
        self.heard: list[tuple[float, str, int]] = []
        self.coming, self.last_event = self.submissions()
        self.fresh = self.arrived = 0
        self.error: DoesNotFitError | None = None
        try:
            self.end_time: float = self.run()
        except DoesNotFitError as error:
            self.error, self.end_time = error, error.slot
        for job in self.running:
            job.status = "running"
        self.done += self.running + self.known

    def submissions(self) -> tuple[list[tuple[float, int, Job]], float]:
        """Return (time, rank within the time, job) in order, and when the last process ends."""
        stream = list(self.scenario.jobs)
        if self.scenario.real_time:
            stream = [
                job._replace(submission_time=job.earliest_start, latest_start=job.earliest_start) for job in stream
            ]
            stream.sort(key=lambda job: job.earliest_start)
        # what a process does after a timeout comes before the arrivals of its instant; at time 0 it has not begun yet
        found = [(float(job.submission_time), 1, job) for job in stream]
        found += [(float(job.submission_time), 0 if job.submission_time else 2, job) for job in self.scenario.own]
        found.sort(key=lambda item: item[:2])
        return found, max([0.0, self.scenario.idle_until, *(time for time, _, _ in found)])

    def run(self) -> float:
        """Go through the slots and return when the run ends."""
        slot = 0
        horizon = self.scenario.num_slots
        while True:
            if slot >= self.scenario.until:
                self.submit(self.scenario.until, included=False)
                return self.scenario.until
            self.complete(slot)
            if slot == horizon:
                self.submit(slot, included=False)
                return slot
            self.submit(slot, included=True)
            if horizon is None and not (self.known or self.running or self.last_event > slot):
                return slot
            self.serve(slot)
            slot += 1

    def submit(self, until: float, *, included: bool) -> None:
        while self.coming and (self.coming[0][0] < until or (included and self.coming[0][0] == until)):
            time, _, job = self.coming.pop(0)
            self.known.append(PlainJob(job, self.arrived))
            self.arrived += 1
            self.heard.append((time, "arrival", int(job.job_id)))
            self.fresh += 1

    def complete(self, slot: int) -> None:
        for job in [job for job in self.running if job.end == slot]:
            self.running.remove(job)
            job.finish, job.status = slot, "completed"
            self.done.append(job)
            self.heard.append((slot, "completion", int(job.job.job_id)))

    def held(self) -> Amounts:
        return [sum((job.requests[k] for job in self.running), Fraction(0)) for k in range(self.width)]

    def serve(self, slot: int) -> None:
        capacity = self.scenario.capacity_at(slot)
        evicted = self.evict(slot, capacity)
        revenue = -sum(revenue for revenue, _ in evicted)
        delay = -sum(delay for _, delay in evicted)
        current = [job for job in self.known if job.job.earliest_start <= slot]
        future = [job for job in self.known if job.job.earliest_start > slot]
        self.show(slot, current, future, capacity)
        answer = self.choose(self.views[-1])
        chosen = [current[position] for position in answer or ()]
        if not self.scenario.overcommit:
            self.check_fit(slot, chosen, capacity)
        for job in chosen:
            self.known.remove(job)
            self.running.append(job)
            job.start = slot
            self.heard.append((slot, "start", int(job.job.job_id)))
        expired = [job for job in self.known if job.job.latest_start <= slot]
        for job in expired:
            self.known.remove(job)
            job.status = "expired"
            self.done.append(job)
            self.heard.append((slot, "expiry", int(job.job.job_id)))
        self.heard.append((slot, "slot", slot))
        used = self.held()
        violation = [max(Fraction(0), amount - limit) for amount, limit in zip(used, capacity, strict=True)]
        revenue += sum(job.revenue for job in chosen)
        delay += sum(job.delay for job in chosen)
        weights = [Fraction(weight) for weight in self.scenario.violation_weights]
        penalty = sum(weight * amount for weight, amount in zip(weights, violation, strict=True))
        row: dict[str, Any] = {"slot": slot, "arrived": self.fresh, "current": len(current), "future": len(future)}
        row |= {"started": len(chosen), "expired": len(expired), "evicted": len(evicted), "running": len(self.running)}
        row |= {"current_work": sum(job.revenue for job in current), "future_work": sum(job.revenue for job in future)}
        row |= {"revenue": revenue, "delay": delay}
        row |= {"reward": revenue - Fraction(self.scenario.delay_weight) * delay - penalty}
        for kind, amounts in (("capacity", capacity), ("used", used), ("violation", violation)):
            row |= {f"{kind}_{name}": amount for name, amount in zip(self.scenario.resources, amounts, strict=True)}
        self.slots.append(row)
        self.fresh = 0

    def show(self, slot: int, current: list[PlainJob], future: list[PlainJob], capacity: Amounts) -> None:
        sets = [[job.seen() for job in jobs] for jobs in (current, future, self.running)]
        names = self.scenario.resources
        history = [[row[f"{kind}_{name}"] for name in names] for kind in ("capacity", "used") for row in self.slots]
        before, used = history[: len(self.slots)], history[len(self.slots) :]
        self.views.append(View(slot, *sets, capacity, self.held(), [*before, capacity], used))

    def evict(self, slot: int, capacity: Amounts) -> list[tuple[Fraction, int]]:
        """Let the newest of the jobs that hold what is short go until nothing is; return what they had brought."""
        gone: list[PlainJob] = []
        while self.scenario.eviction != "never":
            short = [k for k, amount in enumerate(self.held()) if amount > capacity[k]]
            if not short:
                break
            newest = [job for job in self.running if any(job.requests[k] for k in short)][-1]
            self.running.remove(newest)
            gone.insert(0, newest)
        brought = [(job.revenue, job.delay) for job in gone]
        for job in gone:
            assert job.start is not None
            self.evictions.append((int(job.job.job_id), job.start, slot, job.number))
            self.heard.append((slot, "eviction", int(job.job.job_id)))
            job.evictions += 1
            if self.scenario.eviction == "restarted" and job.job.latest_start >= slot:
                job.start = None
                self.known.append(job)  # it becomes known once more
            else:
                job.finish, job.status = slot, "evicted"
                self.done.append(job)
        return brought

    def check_fit(self, slot: int, chosen: list[PlainJob], capacity: Amounts) -> None:
        held = self.held()
        for job in chosen:
            held = [amount + request for amount, request in zip(held, job.requests, strict=True)]
            if any(job.requests[k] and held[k] > capacity[k] for k in range(self.width)):
                raise DoesNotFitError(slot, int(job.job.job_id))

    def job_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table of jobs, sorted as it is."""
        rows = []
        for job in sorted(self.done, key=lambda job: (job.job.submission_time, job.job.job_id)):
            g, start, finish = Fraction(float(job.job.submission_time)), job.start, job.finish
            row: dict[str, Any] = {"job_id": job.job.job_id, "submission_time": g}
            row |= {"earliest_start": job.job.earliest_start, "latest_start": job.job.latest_start}
            row |= {"requested_time": job.job.duration}
            row |= {
                f"requested_{name}": amount for name, amount in zip(self.scenario.resources, job.requests, strict=True)
            }
            row |= {"starting_time": start, "finish_time": finish}
            row |= {"waiting_time": None if start is None else start - g}
            row |= {"execution_time": None if start is None or finish is None else finish - start}
            row |= {"turnaround_time": None if finish is None else finish - g}
            row |= {"delay": None if start is None else job.delay, "revenue": job.revenue, "evictions": job.evictions}
            row |= {"status": job.status, "success": job.status == "completed", "arrival_number": job.number}
            rows.append(row)
        return rows

    def eviction_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table of evictions, sorted as it is."""
        names = ("job_id", "starting_time", "eviction_time", "arrival_number")
        return [dict(zip(names, row, strict=True)) for row in sorted(self.evictions, key=lambda row: (row[2], row[0]))]
