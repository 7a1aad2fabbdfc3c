"""Preemption by quality of service in the plain batch cluster, written from the definitions and from nothing else.

Each core has a pile of jobs: at the bottom the one that has had it longest, on top the one that may run on it. A job
runs if it is on top of all its piles; it is suspended if it is on top of some of them or none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plain_batch import (
    Cores,
    Held,
    Nodes,
    PlainCluster,
    Policy,
    Profile,
    Run,
    Site,
    Starts,
    closed_to,
    expected_end,
    in_order,
)

from desim.problems.batch import Job, QualityOfService


@dataclass
class Service:
    """Who may preempt whom, and the order in which jobs come, but for their qualities."""

    qos: Mapping[str, QualityOfService]
    qos_of: Mapping[int, str]
    order: str | None = None  # None if nobody preempts

    def of(self, job_id: int) -> QualityOfService | None:
        """Return the quality of a job."""
        return self.qos.get(self.qos_of.get(job_id, ""))

    def priority(self, job_id: int) -> float:
        """Return the priority of its quality."""
        job_qos = self.of(job_id)
        return job_qos.priority if job_qos else 0.0

    def allows(self, job_id: int, other: int) -> bool:
        """Tell whether a job may preempt another one."""
        mine, others = self.of(job_id), self.of(other)
        return bool(mine and others and others.name in mine.preempts)

    def suspends(self, job_id: int) -> bool:
        """Tell whether a job is suspended when it is preempted."""
        job_qos = self.of(job_id)
        return bool(job_qos and job_qos.mode == "suspend")


class PlainPreemption(PlainCluster):
    """One run in which the first job may preempt others.

    Attributes
    ----------
    preempted : list
        Who was taken off (time, id), and by whom (id, mode).
    """

    def __init__(self, jobs: Sequence[Job], space: Any, policy: Policy, site: Site, service: Service) -> None:
        super().__init__(jobs, space, policy, site)
        self.service = service
        self.suspended: list[Run] = []
        self.piles: list[list[int]] = [[] for _ in range(space.cores)]
        self.preempted: list[tuple[Any, ...]] = []
        self.planned: Starts = []
        self.answers = 0  # with which somebody preempted
        self.as_is = isinstance(space, Cores)
        if not self.as_is:
            sizes = [node.cores for node in space.nodes]
            self.node_of = [number for number, size in enumerate(sizes) for _ in range(size)]

    # -- who is on which core -----------------------------------------------------------------------

    def cores_of(self, job_id: int) -> set[int]:
        """Return the cores of a job that has begun."""
        return {core for core, pile in enumerate(self.piles) if job_id in pile}

    def down_cores(self) -> set[int]:
        """Return the cores that are down."""
        down = self.down()
        return down if self.as_is else {core for core, node in enumerate(self.node_of) if node in down}

    def begin(self, job: Job, held: Held, done: float) -> Run:
        """Note the cores of a job, unless it has them."""
        if not self.cores_of(job.job_id):
            for core in self.chosen if self.chosen is not None else self.lowest(held, self.empty()):
                self.piles[core].append(job.job_id)
        return super().begin(job, held, done)

    chosen: Collection[int] | None = None

    def empty(self) -> set[int]:
        """Return the cores that nobody has."""
        return {core for core, pile in enumerate(self.piles) if not pile} - self.down_cores()

    def lowest(self, held: Held, cores: Iterable[int], more: Iterable[int] = ()) -> set[int]:
        """Return as many cores as a job has, the lowest of some first, then the lowest of others."""
        if self.as_is:
            return set(held)
        chosen: set[int] = set()
        for number, tasks, each, _ in held:
            here = [core for part in (cores, more) for core in sorted(part) if self.node_of[core] == number]
            chosen.update(here[: tasks * each])
        return chosen

    def forget(self, job_id: int) -> None:
        """Take a job from all piles."""
        for pile in self.piles:
            if job_id in pile:
                pile.remove(job_id)

    # -- what policies see --------------------------------------------------------------------------

    def begun(self) -> list[Job]:
        """Return the jobs that have cores, running or not."""
        return [one.job for one in (*self.running, *self.suspended)]

    def ends_at(self, one: Run) -> float:
        """Return when a job is expected to end: a suspended one goes on when those above it have ended."""
        left = max(one.job.requested_time - one.done, 0.0)
        if one not in self.suspended:
            return one.start + left
        mine = one.job.job_id
        above = {other for pile in self.piles if mine in pile for other in pile[pile.index(mine) + 1 :]}
        ends = [self.ends_at(other) for other in (*self.running, *self.suspended) if other.job.job_id in above]
        return max(ends, default=self.now) + left

    def own(self, one: Run) -> Held:
        """Return what a job has that is free when it ends: its cores at the bottom of their piles."""
        job_id = one.job.job_id
        bottom = {core for core, pile in enumerate(self.piles) if pile and pile[0] == job_id}
        if self.as_is:
            return frozenset(bottom)
        count = [sum(self.node_of[core] == number for core in bottom) for number in range(len(self.space.nodes))]
        return tuple((number, 1, count[number], tasks * memory) for number, tasks, _, memory in one.held)

    def expected(self) -> list[tuple[Held, float]]:
        """Return what each job has, and when it is expected to end."""
        return [(self.own(one), self.ends_at(one)) for one in (*self.running, *self.suspended)]

    def upheaval(self) -> Any:
        """Return how often somebody preempted, and what is expected of those who share cores."""
        shared = {job_id for pile in self.piles if len(pile) > 1 for job_id in pile}
        shared |= {one.job.job_id for one in self.suspended}
        seen = [one for one in (*self.running, *self.suspended) if one.job.job_id in shared]
        return self.answers, {one.job.job_id: (self.own(one), self.ends_at(one)) for one in seen}

    # -- who preempts whom ---------------------------------------------------------------------------

    def decide(self) -> None:
        """Take one step: let the first job preempt others, or start one job as without; end the cycle if none does."""
        if not self.planned:
            found = self.first() if self.service.order is not None else None
            if found is not None:
                job, victims, has_room = found
                if has_room:  # and comes first anyway: it may start as it would without preemption
                    self.planned = self.policy(self)
                starts = any(job_id == job.job_id for job_id, *_ in self.planned)
                if not starts and self.leaves_reservations_alone(job, victims):
                    self.planned = []
                    self.preempt(job, victims)
                    if not self.queue:
                        self.end_cycle()
                    return
            self.planned = self.planned or self.policy(self)
        if self.planned:
            self.start(*self.planned.pop(0))
        else:
            self.end_cycle()
            return
        if not self.queue:
            self.planned = []
            self.end_cycle()

    def first(self) -> tuple[Any, list[Run], bool] | None:
        """Return the first job, those that it preempts, and whether it has room and comes first in any case."""
        service, queue = self.service, in_order(self.queue, self.service.order or "fcfs")
        job = min(queue, key=lambda one: -service.priority(one.job_id))
        while above := [one for one in queue if service.allows(one.job_id, job.job_id)]:
            job = min(above, key=lambda one: -service.priority(one.job_id))
        job_qos = service.of(job.job_id)
        if job_qos is None or not job_qos.preempts:
            return None
        victims: list[Run] = []
        if self.place_for(job, victims) is None:
            order = [one for one in self.running[::-1] if service.allows(job.job_id, one.job.job_id)]
            order.sort(key=lambda one: (service.priority(one.job.job_id), -one.start))
            while order and self.place_for(job, victims) is None:
                victims.append(order.pop(0))
            if self.place_for(job, victims) is None:
                return None
            for one in reversed(victims[:-1]):
                fewer = [other for other in victims if other is not one]
                if self.place_for(job, fewer) is not None:
                    victims = fewer
        has_room = self.space.place(job, [[held for held, _ in self.expected()]], self.down()) is not None
        return job, victims, has_room and job is queue[0]

    def preempt(self, job: Any, victims: Sequence[Run]) -> None:
        """Start a job in the place of others."""
        self.answers += 1
        held = self.place_for(job, victims)
        closed = self.closed_to(job, victims)
        for one in sorted(victims, key=lambda one: -self.numbers[one.job.job_id]):
            suspends = self.service.suspends(one.job.job_id)
            self.preempted.append((self.now, one.job.job_id, job.job_id, "suspend" if suspends else "requeue"))
            if suspends:
                self.suspend(one)
            else:
                self.cut(one, "preempted")
        free = self.empty()
        borrowed = set(range(len(self.piles))) - closed - free
        if self.as_is:
            self.chosen = [*sorted(free), *sorted(borrowed)][: job.requested_cores]
            held = frozenset(self.chosen)
        else:
            self.chosen = self.lowest(held, free, borrowed)
        self.queue.remove(job)
        self.begin(job, held, 0.0)
        self.chosen = None

    def closed_to(self, job: Job, victims: Collection[Run]) -> set[int]:
        """Return the cores that a job cannot have even without others."""
        taken = {one.job.job_id for one in self.running if one not in victims}
        hidden = {one.job.job_id for one in self.suspended if not self.service.allows(job.job_id, one.job.job_id)}
        return {core for core, pile in enumerate(self.piles) if {*pile} & (taken | hidden)} | self.down_cores()

    def place_for(self, job: Any, victims: Collection[Run]) -> Held | None:
        """Return where a job could start without others."""
        open_cores = set(range(len(self.piles))) - self.closed_to(job, victims)
        if self.as_is:
            return frozenset(open_cores) if len(open_cores) >= job.requested_cores else None
        space: Nodes = self.space
        stays = [
            one.held
            for one in (*self.running, *self.suspended)
            if one not in victims or self.service.suspends(one.job.job_id)
        ]
        memory = [left for _, left in space.left(stays)]
        request, held = job.request, []
        missing = request.tasks
        for number, node in enumerate(space.nodes):
            tasks = 0
            cores = sum(self.node_of[core] == number for core in open_cores)
            suits = number not in self.down() and request.partition in ("", node.partition)
            while (
                suits
                and tasks < missing
                and (tasks + 1) * request.cores <= cores
                and (tasks + 1) * request.memory <= memory[number]
            ):
                tasks += 1
            if tasks:
                held.append((number, tasks, request.cores, request.memory))
                missing -= tasks
        return None if missing else tuple(held)

    def leaves_reservations_alone(self, job: Job, victims: Collection[Run]) -> bool:
        """Tell whether a job that starts now without others has its cores for as long as it requests."""
        if not any(number not in self.over for number in range(len(self.reservations))):
            return True
        if isinstance(self.space, Nodes):
            closed = closed_to(self, job, self.now)
            wanted: Any = job
            nodes = enumerate(self.space.nodes)
            return not any(
                place in closed and wanted.request.partition in ("", node.partition) for place, node in nodes
            )
        profile, now = Profile(self), self.now
        ends = {one.job.job_id: expected_end(self.ends_at(one), now) for one in victims}

        def count(time: float) -> int:
            return profile.free(time) + sum(len(self.own(one)) for one in victims if ends[one.job.job_id] > time)

        borrowed = max(job.requested_cores - count(now), 0)
        times = (time for time in profile.changes() if time < now + job.requested_time)
        return all(count(time) >= job.requested_cores - borrowed for time in (now, *times))

    # -- what becomes of them ------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Tell whether some job has not ended."""
        return super().has_work() or bool(self.suspended)

    def suspend(self, one: Run) -> None:
        """Let a job stop where it is."""
        self.running = [other for other in self.running if other is not one]
        self.cuts.append((self.now, one.job.job_id, one.start, "suspended"))
        self.attempts[one.job.job_id] = self.attempts.get(one.job.job_id, 0) + 1
        one.done += self.now - one.start
        self.suspended.append(one)

    def is_unsettled(self) -> bool:
        """Let those go on that are on top of all their piles."""
        tops = {job_id: self.is_on_top(job_id) for job_id in (one.job.job_id for one in self.suspended)}
        back = [one for one in self.suspended if tops[one.job.job_id]]
        for one in back:
            self.suspended.remove(one)
            self.begin(one.job, one.held, one.done)
        if back:
            self.ask()
        return bool(back)

    def is_on_top(self, job_id: int) -> bool:
        """Tell whether a job may run on all its cores."""
        return all(pile[-1] == job_id for pile in self.piles if job_id in pile)

    def complete(self, one: Run) -> None:
        """Take a job from its cores when it ends, unless it was cut."""
        if one in self.running:
            self.forget(one.job.job_id)
        super().complete(one)

    def cut(self, one: Run, outcome: str = "") -> None:
        """Take a job from its cores; one that is suspended begins for an instant."""
        self.forget(one.job.job_id)
        if one in self.suspended:
            self.suspended.remove(one)
            one.start = self.now
        super().cut(one, outcome)

    def hit_by(self, units: set[int]) -> list[Run]:
        """Return the jobs that have some units, the suspended ones after the others."""
        return super().hit_by(units) + [one for one in reversed(self.suspended) if self.space.units(one.held) & units]

    def stop(self) -> None:
        """Note what is left when the run ends."""
        super().stop()
        for one in self.suspended:
            self.note(one.job, None, None, "queued", None, 0)
