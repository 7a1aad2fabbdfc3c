"""A plain batch cluster with everything that sites do, written from the definitions and from nothing else.

Events are a list of which the earliest is looked for; what is free is counted from nothing each time; schedulers are
loops. Jobs that come after others, limits, reservations, outages, checkpoints, grace, sizes, and nodes with memory and
speeds are there at once. Times that are multiples of a power of two keep all sums exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from desim.problems.batch import AdvanceReservation, Dependency, Job, Limit, Node
from desim.processes.outages import Outage

END, CAPACITY, ARRIVAL = range(3)  # what comes first at one instant

Held = Any
"""A frozenset of cores, or a tuple of pairs: a node, and how many tasks it has."""


class Cores:
    """Identical cores, of which a job gets the lowest."""

    def __init__(self, count: int) -> None:
        self.count = self.cores = count

    def place(self, job: Job, moments: Sequence[Sequence[Held]], down: Iterable[int]) -> Held | None:
        """Return what a job gets that has to have it at some moments, beside others; None if there is too little."""
        free = set(range(self.count)).difference(*(held for others in moments for held in others), down)
        return frozenset(sorted(free)[: job.requested_cores]) if len(free) >= job.requested_cores else None

    def units(self, held: Held) -> set[int]:
        """Return what must not fail."""
        return set(held)

    def slowness(self, held: Held) -> float:
        """Return how long a second of work takes."""
        return 1.0


class Nodes:
    """Nodes with memory, speeds and partitions; the first ones that have room are taken, each for all it can."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.cores = sum(node.cores for node in nodes)

    def left(self, others: Sequence[Held]) -> list[tuple[int, int]]:
        """Return cores and memory that others leave free on each node."""
        used = [one for held in others for one in held]
        return [
            (
                node.cores - sum(tasks * cores for at, tasks, cores, _ in used if at == number),
                node.memory - sum(tasks * memory for at, tasks, _, memory in used if at == number),
            )
            for number, node in enumerate(self.nodes)
        ]

    def place(self, job: Any, moments: Sequence[Sequence[Held]], down: Iterable[int]) -> Held | None:
        """Return what a job gets that has to have it at some moments, beside others; None if there is too little."""
        at_moments = [self.left(others) for others in moments]
        left = [tuple(map(min, zip(*nodes, strict=True))) for nodes in zip(*at_moments, strict=True)]
        request = job.request
        held, missing = [], request.tasks
        for number, node in enumerate(self.nodes):
            tasks = 0
            suits = number not in down and request.partition in ("", node.partition)
            while (
                suits
                and tasks < missing
                and left[number][0] >= (tasks + 1) * request.cores
                and left[number][1] >= (tasks + 1) * request.memory
            ):
                tasks += 1
            if tasks:
                held.append((number, tasks, request.cores, request.memory))
                missing -= tasks
        return None if missing else tuple(held)

    def has_room(self, held: Held, moments: Sequence[Sequence[Held]]) -> bool:
        """Return whether there is room for what a job has, at some moments, beside others."""
        return all(
            left[number][0] >= tasks * cores and left[number][1] >= tasks * memory
            for left in map(self.left, moments)
            for number, tasks, cores, memory in held
        )

    def units(self, held: Held) -> set[int]:
        """Return what must not fail."""
        return {number for number, *_ in held}

    def of_reservation(self, reservation: AdvanceReservation) -> set[int]:
        """Return the nodes of a reservation, which names them, or has their numbers, or a partition, or all."""
        return {
            number
            for number, node in enumerate(self.nodes)
            if reservation.nodes == "all"
            or number in reservation.nodes
            or node.name in reservation.nodes
            or (reservation.partition and reservation.partition == node.partition)
        }

    def slowness(self, held: Held) -> float:
        """Return how long a second of work takes: as long as on the slowest of the nodes."""
        return max(1.0 / self.nodes[number].speed for number, *_ in held)


@dataclass(eq=False)
class Run:
    """A job that runs."""

    job: Job
    held: Held
    start: float
    end: float
    status: str
    done: float = 0.0  # before it was suspended


@dataclass
class Site:
    """What the cluster does beside running jobs."""

    dependencies: dict[int, Dependency] = field(default_factory=dict)
    limits: Sequence[Limit] = ()
    queues: dict[int, str] = field(default_factory=dict)
    reservations: Sequence[AdvanceReservation] = ()
    outages: Sequence[Outage] = ()
    interval: float | None = None
    over_time_limit: float = 0.0
    kills: bool = True
    loses: bool = False
    until: float = math.inf
    cycle: str = "instant"


Starts = list[tuple[int, int | None, Held | None]]

Policy = Callable[["PlainCluster"], Starts]
"""What starts now: ids, each with its size and with what it holds if the policy chooses them."""


class PlainCluster:
    """One run.

    Attributes
    ----------
    rows : dict
        Submission, last start, end, status, what was held, cores, and number of executions of each job, by id.
    cuts, kept : list
        What was cut (time, id, start, outcome), and what of it was saved (time, id, seconds in all there).
    asked_for : dict
        When jobs were submitted that come after others.
    """

    def __init__(self, jobs: Sequence[Job], space: Any, policy: Policy, site: Site) -> None:
        self.coming, self.space, self.policy, self.site = list(jobs), space, policy, site
        self.now = 0.0
        self.events: list[tuple[float, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.queue: list[Job] = []
        self.turns: list[Job] = []  # have arrived, and get a cycle each if cycles are those of arrivals
        self.asked = False
        self.running: list[Run] = []
        self.failed: list[int] = []  # as often as they have failed
        self.reservations_on: dict[int, frozenset[int]] = {}
        self.reservations = sorted(site.reservations, key=lambda reservation: (reservation.start, reservation.end))
        self.over: set[int] = set()
        self.numbers: dict[int, int] = {}
        self.ended: dict[int, float] = {}
        self.thinking: dict[int, Job] = {}
        self.ready: dict[int, float] = {}
        self.held_back: list[Job] = []
        self.full: list[Any] = []
        self.saved: dict[int, float] = {}
        self.attempts: dict[int, int] = {}
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.cuts: list[tuple[Any, ...]] = []
        self.kept: list[tuple[Any, ...]] = []
        self.asked_for: dict[int, float] = {}
        self.wakes: set[float] = set()
        self.late: list[Run] = []  # once for each time at which one was expected to end, and did not
        self.count = 0

    # -- the loop ---------------------------------------------------------------------------------

    def at(self, time: float, phase: int, act: Callable[..., None], *arguments: Any) -> None:
        """Let something happen; what is known first happens first, all else being equal."""
        self.count += 1
        self.events.append((time, phase, self.count, act, arguments))

    def run(self) -> PlainCluster:
        """Run to the end."""
        for number, reservation in enumerate(self.reservations):  # what ends makes room for what begins
            self.at(reservation.end, CAPACITY, self.close_reservation, number)
        for number, reservation in enumerate(self.reservations):
            self.at(reservation.start, CAPACITY, self.open_reservation, number)
        for outage in self.site.outages:
            self.at(outage.start, CAPACITY, self.fail, units_of(outage))
            self.at(outage.end, CAPACITY, self.repair, units_of(outage))
        self.expect()
        while self.has_work():
            event = min(self.events, key=lambda event: event[:3], default=(math.inf,))
            if self.asked and event[0] > self.now:
                self.decide()
                continue
            if event[0] > self.now and self.is_unsettled():
                continue
            if event[0] >= self.site.until:
                self.stop()
                return self
            assert event[0] < math.inf, "the queue waits for nothing"
            self.events.remove(event)
            self.now = event[0]
            event[3](*event[4])
        return self

    def has_work(self) -> bool:
        """Tell whether some job has not ended."""
        return bool(self.coming or self.queue or self.turns or self.running or self.thinking or self.held_back)

    def is_unsettled(self) -> bool:
        """Do what is left to do when an instant is over; tell whether there was anything."""
        return False

    def upheaval(self) -> Any:
        """Return something that changes when others than outages and the policy have changed who runs."""
        return None

    def expected(self) -> list[tuple[Held, float]]:
        """Return what running jobs hold, and when each is expected to end."""
        return [(one.held, one.start + one.job.requested_time) for one in self.running]

    def overran(self, known: int) -> bool:
        """Tell whether a running job was expected to end and did not, beyond so many of `late` that are known already.

        Who was cut in that very instant has given back what others counted on.
        """
        return any(one in self.running for one in self.late[known:])

    def stop(self) -> None:
        """Note what is left when the run ends."""
        for one in self.running:
            self.note(one.job, one.start, None, "running", one.held, 1)
        for job in (*self.queue, *self.turns, *self.held_back):
            self.note(job, None, None, "queued", None, 0)

    def note(self, job: Job, start: float | None, end: float | None, status: str, held: Held, more: int) -> None:
        """Note how a job ended."""
        attempts = self.attempts.get(job.job_id, 0) + more
        self.rows[job.job_id] = (job.submission_time, start, end, status, held, job.requested_cores, attempts)

    def ask(self) -> None:
        """Let the policy decide once all else of this instant has happened."""
        self.asked = self.asked or bool(self.queue)

    def decide(self) -> None:
        """Carry out what the policy says, and let who has come meanwhile have a turn."""
        for job_id, size, held in self.policy(self):
            if not self.start(job_id, size, held):
                break
        self.end_cycle()

    def end_cycle(self) -> None:
        """Let the first of those come that came while the policy decided."""
        self.asked = False
        if self.turns:
            self.queue.append(self.turns.pop(0))
            self.asked = True

    # -- jobs come --------------------------------------------------------------------------------

    def expect(self) -> None:
        """Wait for the next jobs of the workload."""
        if self.coming:
            self.at(self.coming[0].submission_time, ARRIVAL, self.arrive)

    def arrive(self) -> None:
        """Take all jobs of the workload whose time has come."""
        while self.coming and self.coming[0].submission_time == self.now:
            self.submit_due()
            job = self.coming.pop(0)
            if job.job_id in self.site.dependencies and self.site.dependencies[job.job_id].jobs:
                self.thinking[job.job_id] = job
                self.follow(job)
            else:
                self.submit(job)
        self.expect()

    def follow(self, job: Job) -> None:
        """Let a job be submitted if all that it comes after has ended."""
        one = self.site.dependencies[job.job_id]
        if all(other in self.ended for other in one.jobs):
            ready = max(max(self.ended[other] for other in one.jobs) + one.think_time, self.now)
            self.ready[job.job_id] = ready
            self.at(ready, ARRIVAL, self.submit_due)

    def submit_due(self) -> None:
        """Submit the jobs that came after others and whose time has come, as they stand in the workload."""
        while due := [job for job in self.thinking.values() if self.ready.get(job.job_id, math.inf) <= self.now]:
            job = self.thinking.pop(due[0].job_id)
            self.asked_for[job.job_id] = self.now
            self.submit(job._replace(submission_time=self.now))

    def submit(self, job: Job) -> None:
        """Turn a job away, hold it back, or let it into the queue."""
        self.numbers[job.job_id] = len(self.numbers)
        fits = job.requested_cores <= self.space.cores and self.space.place(job, [[]], ()) is not None
        if not fits or self.is_too_much(job):
            self.note(job, None, None, "rejected", None, 0)
            self.end(job.job_id)
        elif not self.may_enter(job):
            self.held_back.append(job)
        elif self.asked and self.site.cycle == "arrival":
            self.turns.append(job)
        else:
            self.queue.append(job)
            self.asked = True

    def end(self, job_id: int) -> None:
        """Let those come that come after a job."""
        self.ended[job_id] = self.now
        for follower, one in self.site.dependencies.items():
            if job_id in one.jobs and follower in self.thinking:
                self.follow(self.thinking[follower])

    # -- limits -----------------------------------------------------------------------------------

    def groups(self, job: Any) -> list[tuple[int, str]]:
        """Return which limits hold for a job, each with its group."""
        found = []
        for number, limit in enumerate(self.site.limits):
            if limit.scope == "user":
                name = str(job.user_id) if job.user_id >= 0 else None
            elif limit.scope == "partition":
                name = job.request.partition or None
            else:
                name = self.site.queues.get(job.job_id)
            if name is not None and (limit.members is None or name in limit.members):
                found.append((number, name))
        return found

    def is_too_much(self, job: Job) -> bool:
        """Tell whether a job can never run."""
        for number, _ in self.groups(job):
            limit = self.site.limits[number]
            most = min(limit.job_cores or math.inf, limit.running_cores or math.inf)
            longest = math.inf if limit.job_time is None else limit.job_time
            if job.requested_cores > most or job.requested_time > longest:
                return True
        return False

    def lacking(self, job: Job) -> list[tuple[int, str]]:
        """Return the groups of a job that would have too much with it."""
        inside = [*self.queue, *self.turns, *self.begun()]
        found = []
        for key in self.groups(job):
            limit = self.site.limits[key[0]]
            mine = [other for other in inside if other.job_id != job.job_id and key in self.groups(other)] + [job]
            cores = sum(other.requested_cores for other in mine)
            if len(mine) > (limit.running_jobs or math.inf) or cores > (limit.running_cores or math.inf):
                found.append(key)
        return found

    def begun(self) -> list[Job]:
        """Return the jobs that have cores."""
        return [one.job for one in self.running]

    def may_enter(self, job: Job) -> bool:
        """Tell whether a job may enter the queue; note groups that are full, behind whose jobs others of them wait."""
        if any(key in self.full for key in self.groups(job)):
            return False
        lacking = self.lacking(job)
        self.full += lacking
        return not lacking

    def leave(self, job: Job) -> None:
        """Let those come that have waited for the end of a job."""
        self.end(job.job_id)
        if not any(key in self.full for key in self.groups(job)):
            return
        self.full = []
        entered = False
        for other in list(self.held_back):
            if self.may_enter(other):
                self.held_back.remove(other)
                place = len(self.queue)
                while place and self.numbers[self.queue[place - 1].job_id] > self.numbers[other.job_id]:
                    place -= 1
                self.queue.insert(place, other)
                entered = True
        if entered:
            self.ask()

    # -- jobs run ---------------------------------------------------------------------------------

    def down(self) -> set[int]:
        """Return what is down."""
        return set(self.failed)

    def start(self, job_id: int, size: int | None, held: Held | None) -> bool:
        """Start a job, if that is possible."""
        job: Any = next(job for job in self.queue if job.job_id == job_id)
        if size is not None:
            smaller = self.queue.index(job)
            molded = job.in_size(size)
            if self.is_too_much(molded) or (molded.requested_cores > job.requested_cores and self.lacking(molded)):
                return False
            job = molded
        if held is None:
            held = self.space.place(job, [[held for held, _ in self.expected()]], self.down())
        if held is None:
            return False
        if size is not None:
            self.queue[smaller] = job
        self.queue.remove(job)
        self.begin(job, held, 0.0)
        return True

    def begin(self, job: Job, held: Held, done: float) -> Run:
        """Let a job run that has run for some time already, unless it begins afresh."""
        left = (job.run_time - self.saved.get(job.job_id, 0.0)) * self.space.slowness(held)
        time, status = left, "completed"
        if self.site.kills and left > job.requested_time:
            time = min(left, job.requested_time + self.site.over_time_limit)
            status = "completed" if time == left else "killed"
        one = Run(job, held, self.now, self.now + time - done, status, done)
        self.running.append(one)
        self.at(one.end, END, self.complete, one)
        self.look_later(one)
        return one

    def look_later(self, one: Run) -> None:
        """Note when a run is expected to end, if it does not by then."""
        time = expected_end(one.start + max(one.job.requested_time - one.done, 0.0), self.now)
        if time < one.end:
            self.at(time, END, self.look_again, one)

    def look_again(self, one: Run) -> None:
        """Let the policy decide when a run was expected to end that goes on, unless it was cut."""
        if one in self.running:
            self.late.append(one)
            self.look_later(one)
            self.ask()

    def complete(self, one: Run) -> None:
        """Let a job end by itself or at its limit, unless it was cut."""
        if one not in self.running:
            return
        self.running.remove(one)
        self.note(one.job, one.start, self.now, one.status, one.held, 1)
        self.ask()
        self.leave(one.job)

    def cut(self, one: Run, outcome: str = "") -> None:
        """End a job because it has lost a core or a node, or as is said."""
        job = one.job
        self.running = [other for other in self.running if other is not one]
        outcome = outcome or ("lost" if self.site.loses else "requeued")
        self.cuts.append((self.now, job.job_id, one.start, outcome))
        if outcome == "lost":
            self.note(job, one.start, self.now, "lost", one.held, 1)
            self.leave(job)
            return
        self.attempts[job.job_id] = self.attempts.get(job.job_id, 0) + 1
        if self.site.interval is not None:
            steps, done = 0, one.done + self.now - one.start
            while (steps + 1) * self.site.interval <= done:
                steps += 1
            slowness = self.space.slowness(one.held)
            self.saved[job.job_id] = self.saved.get(job.job_id, 0.0) + steps * self.site.interval / slowness
            self.kept.append((self.now, job.job_id, self.saved[job.job_id]))
        behind = [other for other in self.queue if other.submission_time >= job.submission_time]
        self.queue.insert(self.queue.index(behind[0]) if behind else len(self.queue), job)

    # -- capacity changes -------------------------------------------------------------------------

    def fail(self, units: Iterable[int]) -> None:
        """Take units down, with the jobs that have them; those that began last are cut first."""
        fresh = set(units) - self.down()
        self.failed += units
        for one in self.hit_by(fresh):
            self.cut(one)
        if fresh:
            self.ask()

    def hit_by(self, units: set[int]) -> list[Run]:
        """Return the jobs that have some units, in the order in which they are cut."""
        return [one for one in reversed(self.running) if self.space.units(one.held) & units]

    def repair(self, units: Iterable[int]) -> None:
        """Bring units back."""
        before = self.down()
        for unit in units:
            self.failed.remove(unit)
        if self.down() != before:
            self.ask()

    def open_reservation(self, number: int) -> None:
        """Take the highest cores that are free, then some on which jobs run, and only then some that have failed.

        Nodes are those of the reservation; if it is for some users, they stay up for these.
        """
        reservation, down = self.reservations[number], self.down()
        if isinstance(self.space, Nodes):
            nodes = self.space.of_reservation(reservation)
            self.reservations_on[number] = frozenset() if reservation.users else frozenset(nodes)
            self.fail(self.reservations_on[number])
            if reservation.users:
                for one in self.hit_by(nodes):
                    if one.job.user_id not in reservation.users:
                        self.cut(one)
                self.ask()
            return
        busy = {core for held, _ in self.expected() for core in held}
        free = set(range(self.space.count)) - down - busy
        failed = down.difference(*self.reservations_on.values())
        highest_first = [core for cores in (free, busy, failed) for core in sorted(cores, reverse=True)]
        chosen = highest_first[: self.reservations[number].cores]
        self.reservations_on[number] = frozenset(chosen)
        self.fail(chosen)

    def close_reservation(self, number: int) -> None:
        """Give the cores of a reservation back."""
        self.over.add(number)
        self.repair(self.reservations_on.pop(number))
        if self.reservations[number].users:
            self.ask()

    def wake_at(self, time: float) -> None:
        """Ask the policy again at a time."""
        if time not in self.wakes:
            self.wakes.add(time)
            self.at(time, ARRIVAL, self.ask)


def units_of(outage: Outage) -> list[int]:
    """Return what an outage takes."""
    ((_, units),) = outage.units.items()
    return [int(unit) for unit in units]


# -- policies ---------------------------------------------------------------------------------------


def in_order(queue: Iterable[Job], order: str) -> list[Job]:
    """Return the jobs by priority, those of equal priority as they were."""
    keys: dict[str, Callable[[Job], float]] = {"fcfs": lambda job: 0.0, "sjf": lambda job: job.requested_time}
    return sorted(queue, key=keys[order])


def expected_end(end: float, now: float) -> float:
    """Return when a job is expected to end: who overruns goes on for a minute, then for as long again as it has."""
    late = 0.0
    while end + late <= now:
        late = max(2 * late, 60.0)
    return end + late


@dataclass
class Profile:
    """How many cores are expected to be free, counted anew at each time that is asked for."""

    cluster: PlainCluster
    taken: list[tuple[float, float, int]] = field(default_factory=list)

    def changes(self) -> list[float]:
        """Return when it changes from now on."""
        cluster, now = self.cluster, self.cluster.now
        times = {expected_end(end, now) for _, end in cluster.expected()}
        times |= {time for reservation in cluster.reservations for time in (reservation.start, reservation.end)}
        times |= {time for begin, end, _ in self.taken for time in (begin, end)}
        return sorted(time for time in times if time > now)

    def free(self, time: float) -> int:
        """Count what is free at a time."""
        cluster, now = self.cluster, self.cluster.now
        count = cluster.space.count - len(cluster.down())
        count -= sum(len(held) for held, end in cluster.expected() if expected_end(end, now) > time)
        for number, reservation in enumerate(cluster.reservations):
            if number in cluster.reservations_on:
                count += reservation.cores * (reservation.end <= time)
            elif number not in cluster.over:
                count -= reservation.cores * (reservation.start <= time < reservation.end)
        return count - sum(cores for begin, end, cores in self.taken if begin <= time < end)

    def fits(self, job: Job, start: float) -> bool:
        """Tell whether a job has its cores from a time on."""
        end = start + job.requested_time
        return all(
            self.free(time) >= job.requested_cores
            for time in (start, *(time for time in self.changes() if start < time < end))
        )

    def earliest(self, job: Job) -> float | None:
        """Return the first time at which a job fits."""
        return next((time for time in (self.cluster.now, *self.changes()) if self.fits(job, time)), None)

    def take(self, job: Job, start: float) -> None:
        """Let a job have its place."""
        self.taken.append((start, start + job.requested_time, job.requested_cores))


def by_counts(kind: str, order: str) -> Policy:
    """Return first come, first served, simple or EASY backfilling on cores."""

    def policy(cluster: PlainCluster) -> Starts:
        profile, starts, blocked = Profile(cluster), [], False
        for job in in_order(cluster.queue, order):
            if profile.fits(job, cluster.now):
                profile.take(job, cluster.now)
                starts.append((job.job_id, None, None))
            elif kind == "strict":
                break
            elif kind == "easy" and not blocked:
                blocked = True
                reserved = profile.earliest(job)
                if reserved is not None:  # else cores are down for who knows how long
                    profile.take(job, reserved)
        return starts

    return policy


def conservative(order: str) -> Policy:
    """Return conservative backfilling on cores."""
    promised: dict[int, float] = {}
    before: list[Any] = [
        set(),
        ((0, 0), None),
        0,
    ]  # who ran; cores down, those of no reservation; preemptions; overruns

    def policy(cluster: PlainCluster) -> Starts:
        by_id = {job.job_id: job for job in cluster.queue}
        now_running = {job.job_id for job in cluster.begun()}
        in_reservations = sum(map(len, cluster.reservations_on.values()))
        down = len(cluster.down()), len(cluster.down()) - in_reservations

        def profile(without: int | None) -> Profile:
            made = Profile(cluster)
            for other, start in promised.items():
                if other != without:
                    made.take(by_id[other], start)
            return made

        disturbed, has_lost = (down, cluster.upheaval()), False
        if disturbed != before[1]:
            promised.clear()
        elif cluster.overran(before[2]):
            known = dict(promised)
            promised.clear()
            for job in in_order(cluster.queue, order):  # what still fits is kept
                start = known.get(job.job_id)
                if start is not None and (not job.requested_time or profile(None).fits(job, start)):
                    promised[job.job_id] = start
            has_lost = len(promised) < len(known)
        if disturbed == before[1] and (has_lost or before[0] - now_running):
            for job in in_order(cluster.queue, order):
                if job.job_id in promised:
                    start = profile(job.job_id).earliest(job)
                    promised[job.job_id] = min(math.inf if start is None else start, promised[job.job_id])
        for job in in_order(cluster.queue, order):
            if job.job_id not in promised:
                start = profile(None).earliest(job)
                if start is not None:
                    promised[job.job_id] = start
        numbers = cluster.numbers
        due = sorted((start, numbers[one], one) for one, start in promised.items() if start <= cluster.now)
        for *_, job_id in due:
            del promised[job_id]
        if promised:
            cluster.wake_at(min(promised.values()))
        before[:] = [now_running | {job_id for *_, job_id in due}, disturbed, len(cluster.late)]
        return [(job_id, None, None) for *_, job_id in due]

    return policy


def on_nodes(kind: str, order: str) -> Policy:
    """Return first come, first served, simple or EASY backfilling on nodes."""

    def policy(cluster: PlainCluster) -> Starts:
        now, place = cluster.now, cluster.space.place
        taken = [(-math.inf, expected_end(end, now), held) for held, end in cluster.expected()]
        shadow, blocked, starts = math.inf, False, []

        def at(time: float) -> list[Held]:
            return [held for begin, end, held in taken if begin <= time < end]

        for job in in_order(cluster.queue, order):
            # Whoever would still run when the reservation begins needs room then, too, and the same room.
            beside = [at(now)] + [at(shadow)] * (blocked and now + job.requested_time > shadow)
            held = place(job, beside, away(cluster, job, now))
            if held is not None:
                taken.append((-math.inf, now + job.requested_time, held))
                starts.append((job.job_id, None, held))
            elif kind == "strict":
                break
            elif kind == "easy" and not blocked:
                blocked = True
                for end in sorted(
                    {end for _, end, _ in taken} | {reservation.end for reservation in cluster.reservations}
                ):
                    reserved = place(job, [at(end)], away(cluster, job, end)) if end > now else None
                    if reserved is not None:
                        shadow = end
                        taken.append((shadow, math.inf, reserved))
                        break
        return starts

    return policy


def broken(cluster: PlainCluster) -> set[int]:
    """Return the nodes that have failed, whether they have a reservation or not."""
    in_reservations = [node for nodes in cluster.reservations_on.values() for node in nodes]
    return {node for node in cluster.failed if cluster.failed.count(node) > in_reservations.count(node)}


def away(cluster: PlainCluster, job: Job, start: float) -> set[int]:
    """Return the nodes that have failed or have a reservation that a job would meet and that is not for its user."""
    return broken(cluster) | closed_to(cluster, job, start)


def closed_to(cluster: PlainCluster, job: Job, start: float) -> set[int]:
    """Return the nodes of reservations that a job would meet and that are not for its user."""
    nodes: set[int] = set()
    for reservation in cluster.reservations:
        met = reservation.start <= start < reservation.end or start < reservation.start < start + job.requested_time
        if met and job.user_id not in reservation.users:
            nodes |= cluster.space.of_reservation(reservation)
    return nodes


def conservative_on_nodes(order: str) -> Policy:
    """Return conservative backfilling on nodes."""
    promised: dict[int, tuple[float, Held]] = {}
    before: list[Any] = [set(), (set(), None), 0]  # who ran; which nodes had failed; preemptions; overruns

    def policy(cluster: PlainCluster) -> Starts:
        by_id, now = {job.job_id: job for job in cluster.queue}, cluster.now
        now_running = {job.job_id for job in cluster.begun()}
        disturbed = broken(cluster), cluster.upheaval()

        def earliest(job: Job) -> tuple[float, Held] | None:
            taken = [(-math.inf, expected_end(end, now), held) for held, end in cluster.expected()]
            for other, (start, held) in promised.items():
                if other != job.job_id:
                    taken.append((start, start + by_id[other].requested_time, held))
            times = {time for begin, end, _ in taken for time in (begin, end)}
            times |= {time for reservation in cluster.reservations for time in (reservation.start, reservation.end)}
            for time in (now, *sorted(time for time in times if time > now)):
                until = time + job.requested_time
                moments = [time, *(other for other in times if time < other < until)]
                beside = [[held for begin, end, held in taken if begin <= moment < end] for moment in moments]
                held = cluster.space.place(job, beside, away(cluster, job, time))
                if held is not None:
                    return time, held
            return None

        def still_fits(job: Job, start: float, held: Held) -> bool:
            spans = [(-math.inf, expected_end(end, now), each) for each, end in cluster.expected()]
            spans += [(begin, begin + by_id[other].requested_time, each) for other, (begin, each) in promised.items()]
            moments = [start, *(begin for begin, _, _ in spans if start < begin < start + job.requested_time)]
            beside = [[each for begin, end, each in spans if begin <= moment < end] for moment in moments]
            return cluster.space.has_room(held, beside)

        has_lost = False
        if disturbed != before[1]:
            promised.clear()
        elif cluster.overran(before[2]):
            known = dict(promised)
            promised.clear()
            for job in in_order(cluster.queue, order):  # what still fits is kept
                if job.job_id in known and (not job.requested_time or still_fits(job, *known[job.job_id])):
                    promised[job.job_id] = known[job.job_id]
            has_lost = len(promised) < len(known)
        if disturbed == before[1] and (has_lost or before[0] - now_running):
            for job in in_order(cluster.queue, order):
                if job.job_id in promised:
                    found = earliest(job)
                    if found is not None and found[0] < promised[job.job_id][0]:
                        promised[job.job_id] = found
        for job in in_order(cluster.queue, order):
            if job.job_id not in promised:
                found = earliest(job)
                if found is not None:
                    promised[job.job_id] = found
        due = sorted((start, cluster.numbers[one], one) for one, (start, _) in promised.items() if start <= now)
        starts = [(job_id, None, promised.pop(job_id)[1]) for *_, job_id in due]
        if promised:
            cluster.wake_at(min(start for start, _ in promised.values()))
        before[:] = [now_running | {job_id for *_, job_id in due}, disturbed, len(cluster.late)]
        return starts

    return policy


def widest_first(cluster: PlainCluster) -> Starts:
    """Start every job that fits, in the first of its sizes that does."""
    free = cluster.space.count - len(cluster.down()) - sum(len(one.held) for one in cluster.running)
    starts: Starts = []
    for job in cluster.queue:
        sizes = job.in_all_sizes()
        size = next((number for number, one in enumerate(sizes) if one.requested_cores <= free), None)
        if size is not None:
            free -= sizes[size].requested_cores
            starts.append((job.job_id, size if len(sizes) > 1 else None, None))
    return starts
