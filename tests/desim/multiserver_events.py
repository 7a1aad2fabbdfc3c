"""The holding cluster a second time: a heap of events and plain lists."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count

from multiserver_references import Amounts, Counts, PlainJob, earn, greedy

from desim.problems.multiserver import RewardModel

# At one instant what ends and what is submitted comes first, then the arrivals of a slot, then its beginning.
COMPLETION, SUBMISSION, ARRIVAL, SLOT = range(4)


class PlainHolding:
    """A run of the holding cluster with the agent ``Greedy``, whose shares are those of the ports that it sees.

    The lists ``done`` and ``slots`` are the rows of the tables; ``free`` holds what was free when each slot began.
    """

    def __init__(
        self,
        model: RewardModel,
        counts: Counts,
        work: Sequence[float],
        shares: Sequence[float],
        *,
        copies: int = 1,
        minimum_speed: float = 0.0,
        longest_service: float = 10_000.0,
        submitted: Sequence[tuple[float, int]] = (),
        give_up_after: int = 20,
    ) -> None:
        self.model, self.work, self.shares, self.copies, self.minimum_speed = model, work, shares, copies, minimum_speed
        self.longest_service = longest_service
        self.job_positions = model.graph.repeat_ports(copies)
        self.left = model.graph.capacity.tolist()
        self.queues: list[list[PlainJob]] = [[] for _ in model.graph.ports]
        self.running: dict[int, tuple[PlainJob, Amounts]] = {}
        self.done: list[PlainJob] = []
        self.slots: list[dict[str, float]] = []
        self.free: list[list[list[float]]] = []
        self.ids, self.order, self.fresh = count(), count(), 0
        self.heap = [(time, SUBMISSION, next(self.order), port) for time, port in submitted]
        for slot, row in enumerate(counts.tolist()):
            for port, arrived in enumerate(row):
                self.heap += [(float(slot), ARRIVAL, next(self.order), port) for _ in range(arrived)]
        heapq.heapify(self.heap)
        last = max([len(counts), *(time for time, _ in submitted)])
        slot = idle = 0
        while True:
            while self.heap and self.heap[0][:2] < (slot, SLOT):
                self.happen(*heapq.heappop(self.heap))
            waiting = any(self.queues) and idle < give_up_after
            if not (slot < last or self.running or waiting):
                break
            self.begin_slot(slot)
            idle = 0 if self.running else idle + 1
            slot += 1
        self.end_time = slot
        self.done += [job for queue in self.queues for job in queue]

    def happen(self, time: float, phase: int, order: int, subject: int) -> None:
        if phase == COMPLETION:
            job, given = self.running.pop(subject)
            self.done.append(job)
            for (node, resource), amount in given.items():
                self.left[node][resource] += amount
            self.take_off(job, given, time)
        else:
            job = PlainJob(next(self.ids), subject, time, None, None, self.work[subject], 0.0, 0.0, 0, "queued")
            self.queues[subject].append(job)
            self.fresh += 1

    def take_off(self, job: PlainJob, given: Amounts, time: float) -> None:
        """Take what is missing of a job to the end of the slot off the means of the slot."""
        row = self.slots[-1]
        left = row["slot"] + 1 - time
        row["gain"] -= left * job.gain
        row["overhead"] -= left * job.overhead
        for k, name in enumerate(self.model.graph.resources):
            row[f"allocated_{name}"] -= left * sum(amount for (_, j), amount in given.items() if j == k)

    def begin_slot(self, slot: int) -> None:
        self.free.append([list(row) for row in self.left])
        jobs = [job_position < len(queue) for queue in self.queues for job_position in range(self.copies)]
        given = greedy(jobs, self.left, self.job_positions, self.shares)
        for port, queue in enumerate(self.queues):
            for job_position, job in enumerate(queue[: self.copies]):
                self.try_to_start(job, given[port * self.copies + job_position], slot)
        services = [job for job, _ in self.running.values()]
        row = {"slot": slot, "arrived": self.fresh, "queued": sum(map(len, self.queues)), "running": len(services)}
        row |= {"gain": sum(job.gain for job in services), "overhead": sum(job.overhead for job in services)}
        for k, name in enumerate(self.model.graph.resources):
            held = (amount for _, amounts in self.running.values() for (_, j), amount in amounts.items() if j == k)
            row[f"allocated_{name}"] = sum(held)
        self.slots.append(row)
        self.fresh = 0

    def try_to_start(self, job: PlainJob, given: Amounts, slot: int) -> None:
        gain, overhead, dominant = earn(self.model, given)
        speed = gain - overhead
        if speed <= self.minimum_speed or self.work[job.port] / speed > self.longest_service:
            return
        self.queues[job.port].remove(job)
        finish = slot + self.work[job.port] / speed
        started = PlainJob(*job[:3], float(slot), finish, job.work, gain, overhead, dominant, "completed")
        self.running[job.job_id] = started, given
        heapq.heappush(self.heap, (finish, COMPLETION, next(self.order), job.job_id))
        for (node, resource), amount in given.items():
            self.left[node][resource] -= amount
