"""Deferrable jobs on what on-demand jobs leave of a platform, slot by slot.

Model: Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable Workloads in Cloud
Computing" (OSDEC), section 3, and the real-time setting of its Table 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from math import isclose
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_choice, check_float, items
from desim.core import Phase, Simulation, at, start_process
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problem import Process
from desim.problems.deferrable.job import (
    DURATION,
    EARLIEST,
    EVICTIONS,
    REQUESTS,
    START,
    Job,
    JobSet,
    check_job,
    real_time,
    rows_of,
    submission_time_of,
)
from desim.problems.deferrable.observation import DeferrableObservation, limit_of, positions_of
from desim.problems.deferrable.tables import STATUSES
from desim.problems.slotted import SlottedProblem
from desim.processes.capacity import CapacityProcess, amounts_of, replayed_capacity

__all__ = ["ClairvoyantView", "DeferrableCluster", "SlotOutcome", "clairvoyant_view"]

Floats = NDArray[np.float64]
Eviction = Literal["never", "lost", "restarted"]

#: How far, relatively, the clock may be from a time that it was set to: it adds times up.
ROUNDING = 1e-12

#: The column requested_time and the metrics violation_slots and violation_penalty are not those of a resource.
TAKEN = ("time", "slots", "penalty")


class SlotOutcome(NamedTuple):
    """What a slot has brought; the subject of the event ``slot``.

    Attributes
    ----------
    slot : int
        Its number, from 0.
    started, expired, evicted : JobSet
        Jobs that were started in it, whose window has passed with it, and that were evicted as it began.
    capacity, used, violation : numpy.ndarray of shape (num_resources,)
        What on-demand jobs left, what deferrable jobs held, and by how much that was more.
    revenue, delay : float
        Of the jobs that were started, less those of the jobs that were evicted: core-slots, and slots.
    reward : float
        The slot's part of the objective, equation (6) of the OSDEC paper, in core-slots.
    """

    slot: int
    started: JobSet
    expired: JobSet
    evicted: JobSet
    capacity: Floats
    used: Floats
    violation: Floats
    revenue: float
    delay: float
    reward: float


class DeferrableCluster(SlottedProblem):
    """A platform whose on-demand jobs leave a fluctuating capacity, in which deferrable jobs run.

    A slot clock asks once a slot: which of the jobs whose window is open are to be started now? The answer is a
    sequence of positions in ``observation.current``, or None for none. What runs is not interrupted; if the capacity at
    a slot's beginning is below what is held, that is a violation, which costs. Jobs that end at a slot's beginning have
    left; a job that was not started by its latest start expires.

    The objective is equation (1) of the OSDEC paper: the sum over started jobs of cores times duration less the delay
    weight times (start - earliest start), less the violation weight times the sum of all violations.

    Events for listeners: ``arrival``, ``start``, ``completion``, ``expiry``, ``eviction`` (each a :class:`Job`) and
    ``slot`` (a :class:`SlotOutcome`).

    Parameters
    ----------
    jobs : iterable of Job
        In order of submission. An iterator is read once, one job ahead of the clock.
    capacity : array_like of shape (num_slots,) or (num_slots, num_resources), or callable
        What on-demand jobs leave: a series, whose last value stays, or a process of :mod:`desim.processes`.
    num_slots : int, optional
        Length of the run in slots, T; without it the run ends with its last job.
    resources : sequence of str
        Names of the resources that jobs request; the first is that of ``Job.cores``.
    delay_weight : float
        w1, in core-slots for each slot of delay.
    violation_weight : float or sequence of float
        w2, in core-slots for each unit and slot above the capacity; one number, or one for each resource.
    overcommit : bool
        Whether an agent may start more than fits, as equation (1) allows; if not, such an answer is infeasible.
    eviction : {"never", "lost", "restarted"}
        What becomes of jobs, the last started first, when the capacity has fallen below what is used: they run on; they
        are lost; or they may be started anew while their window is open. Their revenue and delay are then taken back.
    real_time : bool
        Show each of ``jobs`` at its earliest start only, to be started then or never (Table 2).
    processes : iterable of callables
        Extra SimPy processes, which are called with the bound cluster and may :meth:`submit` jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    name: ClassVar[str] = "deferrable"
    events: ClassVar[tuple[str, ...]] = ("arrival", "start", "completion", "expiry", "eviction", "slot")
    sources: ClassVar[tuple[str, ...]] = ("jobs",)
    constants: ClassVar[tuple[type, ...]] = (Job,)

    def __init__(
        self,
        jobs: Iterable[Job],
        capacity: ArrayLike | CapacityProcess,
        *,
        num_slots: int | None = None,
        resources: Sequence[str] = ("cores",),
        delay_weight: float = 2.0,
        violation_weight: float | Sequence[float] = 10.0,
        overcommit: bool = True,
        eviction: Eviction = "never",
        real_time: bool = False,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(num_slots=num_slots, processes=processes)
        self.jobs = items("jobs", jobs, "jobs", "submission_time")
        self.resources = _names(resources)
        self.capacity_process = capacity if callable(capacity) else replayed_capacity(capacity)
        self.delay_weight = check_float("delay_weight", delay_weight, least=0)
        self.violation_weights = _weights("violation_weight", violation_weight, len(self.resources))
        self.overcommit = bool(check_choice("overcommit", overcommit, (True, False)))
        self.eviction = check_choice("eviction", eviction, ("never", "lost", "restarted"))
        self.real_time = bool(check_choice("real_time", real_time, (True, False)))

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without jobs and capacity, as plain values."""
        return {
            "problem": self.name,
            "num_slots": self.num_slots,
            "resources": list(self.resources),
            "delay_weight": self.delay_weight,
            "violation_weights": self.violation_weights.tolist(),
            "overcommit": self.overcommit,
            "eviction": self.eviction,
            "real_time": self.real_time,
        }

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster and start the capacity, the jobs and the slot clock."""
        self.observation: DeferrableObservation = DeferrableObservation(
            self.resources, self.num_slots, self.delay_weight, self.violation_weights
        )
        self._record = self.simulation.records.tables
        self._nobody = self.observation.nobody
        self._waiting = self._running = self._nobody.rows
        self._evicted = self._nobody
        self._capacity: Floats | None = None
        self._new: list[Job] = []
        self._arrived = 0
        self._known: set[int] = set()
        start_process(self.env, self.capacity_process(self))
        self.start(real_time(self.jobs) if self.real_time else self.jobs, submission_time_of, self.submit)

    def set_capacity(self, amounts: ArrayLike) -> None:
        """Let the capacity be this much from now on.

        Parameters
        ----------
        amounts : float or array_like of shape (num_resources,)
            What on-demand jobs leave of each resource.

        Raises
        ------
        WorkloadError
            If an amount is negative or not finite, or there is another number of them.
        """
        self._capacity = amounts_of(amounts, self.resources, self.env.now)

    def submit(self, job: Job) -> None:
        """Let a job become known now; it may be started from the next slot on, or in this one if that has yet to begin.

        Parameters
        ----------
        job : Job
            Its submission time is now.

        Raises
        ------
        WorkloadError
            If it makes no sense, its window has passed with this slot, or a job with its identifier is in the system.
        """
        check_job(job, len(self.resources))
        now = self.env.now
        if now == self.num_slots:  # as in a workload, what comes at the end is not part of the run
            return
        if not isclose(job.submission_time, now, rel_tol=ROUNDING):
            raise WorkloadError(f"job {job.job_id}: submitted at {now}, not at {job.submission_time!r}")
        if job.latest_start < self.next_slot:
            raise WorkloadError(f"job {job.job_id}: submitted at {now}, when the slot of its latest start has begun")
        if job.job_id in self._known:
            raise WorkloadError(f"job {job.job_id}: submitted twice, the second time at {now}")
        self._known.add(job.job_id)
        self._new.append(job)
        if self.listening:
            self.emit("arrival", job)

    def is_empty(self) -> bool:
        """Tell whether no job waits or runs."""
        return not (self._new or len(self._waiting) or len(self._running))

    def is_idle(self) -> bool:
        """Tell whether no job runs."""
        return not len(self._running)

    def observe(self, slot: int) -> None:
        """Take what has changed since the slot before, and show it."""
        if self._capacity is None:
            raise InvalidConfiguration(f"time {slot}: no process has set the capacity")
        self._arrived_now = len(self._new)
        self._take_new()
        if self.eviction != "never":
            self._evict(slot, self._capacity)
        waiting, running = self._waiting, self.observation.running
        current = future = self._nobody
        self._all_open = True
        if len(waiting):
            is_open = waiting[:, EARLIEST] <= slot
            number = np.count_nonzero(is_open)
            self._all_open = number == len(waiting)
            if self._all_open:  # as often, when there are few: nothing is to be told apart
                current = JobSet(waiting)
            elif number:
                self._open = np.flatnonzero(is_open)
                current, future = JobSet(waiting[self._open]), JobSet(waiting[~is_open])
            else:
                future = JobSet(waiting)
        if running.rows is not self._running:
            running = JobSet(self._running)
        self.observation.begin_slot(slot, self._capacity, current, future, running)

    def _take_new(self) -> None:
        """Let the jobs wait that have become known."""
        if self._new:
            rows = rows_of(self._new, len(self.resources), self._arrived)
            self._waiting = np.concatenate([self._waiting, rows])
            self._arrived += len(rows)
            self._new = []

    def _evict(self, slot: int, capacity: Floats) -> None:
        """Take back what no longer fits."""
        chosen = newest_to_evict(self._running, limit_of(capacity))
        evicted = self._nobody
        rows = self._running[chosen]
        if len(rows):
            self._running = np.delete(self._running, chosen, axis=0)
            self._record["evictions"].append((slot, rows), len(rows))
            rows = rows.copy()
            rows[:, EVICTIONS] += 1
            again = (JobSet(rows).latest_start >= slot) & (self.eviction == "restarted")
            self._leave(rows[~again], slot, "evicted")
            returned = rows[again]
            returned[:, START] = np.nan
            self._waiting = np.concatenate([self._waiting, returned])
            evicted = JobSet(rows)
            self._emit_jobs("eviction", evicted)
        self._evicted = evicted

    def serve(self, slot: int, action: Any) -> None:
        """Start the jobs of the answer, let those expire whose window has passed, and count."""
        current, nobody = self.observation.current, self._nobody
        positions = positions_of(action, self.observation, overcommit=self.overcommit)
        started = expired = nobody
        if current is not nobody:
            leaves = current.latest_start <= slot
            leaves[positions] = False
            if leaves.any():
                expired = JobSet(current.rows[leaves])
                self._leave(expired.rows, np.nan, "expired")
            leaves[positions] = True
            if len(positions):
                started = self._start(current.rows[positions], slot)
            if started is not nobody or expired is not nobody:
                self._remove(leaves)
        self._emit_jobs("start", started)
        self._emit_jobs("expiry", expired)
        self._account(started, expired)

    def _start(self, rows: Floats, slot: int) -> JobSet:
        """Let jobs run from a slot on."""
        started = JobSet(rows)
        rows[:, START] = slot
        self._running = np.concatenate([self._running, rows])
        for end in sorted(set(started.finish_time.tolist())):  # one event ends all that end together
            at(self.env, end, Phase.COMPLETION).callbacks.append(self._complete)
        return started

    def _remove(self, leaves: NDArray[np.bool_]) -> None:
        """Let jobs whose window is open wait no longer."""
        stays = ~leaves
        if not self._all_open:
            stays, of_current = np.ones(len(self._waiting), dtype=bool), stays
            stays[self._open] = of_current
        self._waiting = self._waiting[stays]

    def _account(self, started: JobSet, expired: JobSet) -> None:
        """Record what a slot has brought: equation (6), less what evictions take back."""
        observation = self.observation
        slot, current, future = observation.slot, observation.current, observation.future
        used, revenue, delay = observation.used, 0.0, 0.0
        if started is not self._nobody:
            used = used + started.requests.sum(axis=0)
            revenue, delay = _revenue(started), float((slot - started.earliest_start).sum())
        evicted = self._evicted
        if evicted is not self._nobody:
            revenue -= _revenue(evicted)
            delay -= float((evicted.starting_time - evicted.earliest_start).sum())
        available, held, most = (array.tolist() for array in (observation.capacity, used, observation.limit))
        above = [u - c if u > limit else 0.0 for u, c, limit in zip(held, available, most, strict=True)]
        violation = np.array(above)
        penalty = float(self.violation_weights @ violation) if any(above) else 0.0
        reward = revenue - self.delay_weight * delay - penalty
        observation.end_slot(used, len(started.rows))
        sets = current, future, started, expired, evicted
        counts = [len(jobs.rows) for jobs in sets]
        work = _revenue(current), _revenue(future)
        each = *available, *held, *above
        self._record["slots"].append(
            (slot, self._arrived_now, *counts, len(self._running), *work, revenue, delay, reward, *each)
        )
        if self.listening and self.listeners["slot"]:
            amounts = observation.capacity, used, violation
            self.emit("slot", SlotOutcome(slot, started, expired, evicted, *amounts, revenue, delay, reward))

    def _complete(self, event: simpy.Event) -> None:
        """Let the jobs go that end now; none is left if they have been evicted."""
        ended = JobSet(self._running).finish_time <= self.env.now
        rows = self._running[ended]
        if len(rows):
            self._running = self._running[~ended]
            self._leave(rows, self.env.now, "completed")
            self._emit_jobs("completion", JobSet(rows))

    def _leave(self, rows: Floats, finish: float, status: str) -> None:
        """Record jobs that leave the system."""
        if len(rows):
            self._known.difference_update(JobSet(rows).job_id.tolist())
            self._record["jobs"].append((rows, finish, STATUSES.index(status)), len(rows))

    def _emit_jobs(self, event: str, jobs: JobSet) -> None:
        if self.listening and self.listeners[event]:
            for job in jobs:
                self.emit(event, job)

    def close(self, time: float) -> None:
        """Record the jobs that run, or may still be started, when the run ends."""
        self._take_new()
        self._leave(self._running, np.nan, "running")
        self._leave(self._waiting, np.nan, "queued")


def _revenue(jobs: JobSet) -> float:
    """Return what jobs earn together, in core-slots."""
    number = len(jobs.rows)
    if number > 1:
        return float(jobs.revenue.sum())
    return float(jobs.rows.item(0, REQUESTS) * jobs.rows.item(0, DURATION)) if number else 0.0


def newest_to_evict(running: Floats, limit: Floats) -> NDArray[np.int64]:
    """Return which running jobs must go until the others fit: those that were started last go first.

    A job stays if it holds nothing of what is short.

    Parameters
    ----------
    running : numpy.ndarray
        Rows of the jobs, in the order of their starts.
    limit : numpy.ndarray of shape (num_resources,)
        What they may hold together.

    Returns
    -------
    numpy.ndarray of int64
        Positions in ``running``, ascending.
    """
    requests = running[:, REQUESTS:]
    excess = requests.sum(axis=0) - limit
    chosen = []
    for position in range(len(running) - 1, -1, -1):
        if not (excess > 0).any():
            break
        if (requests[position][excess > 0] > 0).any():
            chosen.append(position)
            excess = excess - requests[position]
    return np.array(chosen[::-1], dtype=np.int64)


class ClairvoyantView(NamedTuple):
    """Jobs and capacities of a whole run.

    Attributes
    ----------
    jobs : tuple of Job
        All that are submitted, in the order in which they become known; those of a real-time run as they are then.
    capacity : numpy.ndarray of shape (num_slots, num_resources)
        Of every slot.
    """

    jobs: tuple[Job, ...]
    capacity: Floats


def clairvoyant_view(cluster: DeferrableCluster, *, seed: int = 0, until: float = math.inf) -> ClairvoyantView:
    """Return all that will come, as only an offline planner or an oracle may know it.

    Parameters
    ----------
    cluster : DeferrableCluster
        The system; none of its processes may depend on what is started.
    seed : int
        Root of all random streams, as for ``simulate``.
    until : float
        End of the run in slots, as for ``simulate``.

    Returns
    -------
    ClairvoyantView
        The same for every agent. Without ``num_slots`` it covers the slots until the last window has passed.

    Raises
    ------
    InvalidConfiguration
        If the jobs are an iterator: a run would find nothing left.

    Examples
    --------
    >>> job = Job(1, submission_time=0, earliest_start=1, latest_start=2, duration=5, cores=2)
    >>> clairvoyant_view(DeferrableCluster([job], [4, 3])).capacity[:, 0].tolist()
    [4.0, 3.0, 3.0]
    """
    cluster.check_replayable()
    simulation = Simulation(cluster, seed=seed, until=until, log_actions=False)
    jobs: list[Job] = []
    simulation.problem.on("arrival", lambda _, job: jobs.append(job))
    capacity = []
    while (decision := simulation.advance()) is not None:
        capacity.append(decision.observation.capacity)
        decision.answer(None)
    return ClairvoyantView(tuple(jobs), np.array(capacity).reshape(len(capacity), len(cluster.resources)))


def _names(resources: Sequence[str]) -> tuple[str, ...]:
    names = (resources,) if isinstance(resources, str) else tuple(resources or ())
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise InvalidConfiguration(f"the resources are {resources!r}, want names that differ, and at least one")
    for name in names:
        if name in TAKEN:
            raise InvalidConfiguration(f"a resource is called {name!r}, which tables or metrics use for something else")
    return names


def _weights(name: str, weights: ArrayLike, count: int) -> Floats:
    """Return weights, one number for all or one each."""
    try:
        given = np.asarray(weights)
        if given.dtype.kind not in "iuf":
            raise TypeError
        table = np.array(np.broadcast_to(given, (count,)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{name} is {weights!r}, want one number or {count}") from error
    if not ((table >= 0) & (table < np.inf)).all():
        raise InvalidConfiguration(f"{name} is {weights!r}, want finite numbers of at least 0")
    table.flags.writeable = False
    return table
