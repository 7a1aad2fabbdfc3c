"""Deferrable jobs in the capacity that on-demand jobs leave free, slot by slot.

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

#: Largest relative difference between the clock and a time that it was set to; the clock adds up time spans.
ROUNDING = 1e-12

#: Names not allowed for resources: requested_time, violation_slots and violation_penalty have other meanings.
TAKEN = ("time", "slots", "penalty")


class SlotOutcome(NamedTuple):
    """Outcome of a slot; the subject of the event ``slot``.

    Attributes
    ----------
    slot : int
        Number of the slot, from 0.
    started, expired, evicted : JobSet
        Jobs that were started in the slot, whose window has ended with it, and that were evicted at its beginning.
    capacity, used, violation : numpy.ndarray of shape (num_resources,)
        Capacity that on-demand jobs left, amount that deferrable jobs held, and excess of the latter over the former.
    revenue, delay : float
        Totals of the started jobs minus those of the evicted jobs, in core-slots and in slots.
    reward : float
        Contribution of the slot to the objective, equation (6) of the OSDEC paper, in core-slots.
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
    """Cluster with a fluctuating capacity, left free by on-demand jobs, in which deferrable jobs run.

    Once per slot, the agent decides which jobs with an open window start now. The answer is a sequence of positions in
    ``observation.current``, or None for no job. Running jobs are not interrupted. If the capacity at the beginning of a
    slot is below the amount held, the difference is a violation, which is penalized. Jobs that end at the beginning of
    a slot have left by then. A job that has not started by its latest start expires.

    The objective is equation (1) of the OSDEC paper: the sum over started jobs of cores times duration minus the delay
    weight times (start - earliest start), minus the violation weight times the sum of all violations.

    Events for listeners: ``arrival``, ``start``, ``completion``, ``expiry``, ``eviction`` (each a :class:`Job`) and
    ``slot`` (a :class:`SlotOutcome`).

    Parameters
    ----------
    jobs : iterable of Job
        Jobs in order of submission time. An iterator is consumed lazily, one job ahead of the clock.
    capacity : array_like of shape (num_slots,) or (num_slots, num_resources), or callable
        Capacity that on-demand jobs leave: a series, whose last value stays, or a process of :mod:`desim.processes`.
    num_slots : int, optional
        Length of the run in slots, T; default: until the last job has left.
    resources : sequence of str
        Names of the resources that jobs request; the first one is that of ``Job.cores``.
    delay_weight : float
        Cost of a slot of delay, w1, in core-slots.
    violation_weight : float or sequence of float
        Cost per unit and slot above the capacity, w2, in core-slots; one number, or one per resource.
    overcommit : bool
        Whether an agent may start more jobs than fit, as equation (1) allows. If False, such an action is infeasible.
    eviction : {"never", "lost", "restarted"}
        Treatment of running jobs when the capacity falls below the amount held. ``"never"``: they continue. Otherwise
        jobs are evicted, the last started first, and their revenue and delay are taken back. ``"lost"``: evicted jobs
        are lost. ``"restarted"``: they may start again while their window is open.
    real_time : bool
        Whether each of ``jobs`` becomes known only at its earliest start and must start then or never (Table 2).
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
    constants: tuple[type, ...] = (Job,)

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
        self.delay_weight = check_float("delay_weight", delay_weight, least=0, most=1e15)
        self.violation_weights = _weights("violation_weight", violation_weight, len(self.resources))
        self.overcommit = bool(check_choice("overcommit", overcommit, (True, False)))
        self.eviction = check_choice("eviction", eviction, ("never", "lost", "restarted"))
        self.real_time = bool(check_choice("real_time", real_time, (True, False)))

    def describe(self) -> dict[str, Any]:
        """Return the configuration without jobs and capacity, as plain Python values."""
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

    def features(self) -> dict[str, str]:
        """Return the features that not every agent takes into account, by name, with what other agents do."""
        return {} if self.eviction == "never" else {"eviction": "plans as if no job were evicted"}

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster and start the capacity process, the arrivals and the slot clock."""
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
        """Set the capacity from now on.

        Parameters
        ----------
        amounts : float or array_like of shape (num_resources,)
            Capacity that on-demand jobs leave of each resource.

        Raises
        ------
        WorkloadError
            If an amount is negative or not finite, or their number does not match the resources.
        """
        self._capacity = amounts_of(amounts, self.resources, self.env.now)

    def submit(self, job: Job) -> None:
        """Submit a job now; it may start from the next slot on, or in this slot if that has not begun yet.

        Parameters
        ----------
        job : Job
            Job to add; its submission time is the current time.

        Raises
        ------
        WorkloadError
            If the job is invalid, its window has already ended, or its identifier is already in the system.
        """
        check_job(job, len(self.resources))
        now = self.env.now
        if now == self.num_slots:  # as in a workload, arrivals at the end are not part of the run
            return
        if not isclose(job.submission_time, now, rel_tol=ROUNDING):
            raise WorkloadError(
                f"job {job.job_id}: submission_time: got {job.submission_time!r}, expected the current time, {now}"
            )
        if job.latest_start < self.next_slot:
            raise WorkloadError(
                f"job {job.job_id}: latest_start: got {job.latest_start}, expected a slot that has not begun at {now}"
            )
        if job.job_id in self._known:
            raise WorkloadError(
                f"job {job.job_id}: submitted at {now}, while another job with this id is in the system"
            )
        self._known.add(job.job_id)
        self._new.append(job)
        if self.listening:
            self.emit("arrival", job)

    def is_empty(self) -> bool:
        """Return whether no job waits or runs."""
        return not (self._new or len(self._waiting) or len(self._running))

    def is_idle(self) -> bool:
        """Return whether no job is running."""
        return not len(self._running)

    def observe(self, slot: int) -> None:
        """Update the observation at the beginning of a slot, after evictions."""
        if self._capacity is None:
            raise InvalidConfiguration(f"time {slot}: the capacity is not set; call set_capacity() in a process")
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
            if self._all_open:  # common if there are few jobs: no need to split them
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
        """Move newly submitted jobs to the waiting jobs."""
        if self._new:
            rows = rows_of(self._new, len(self.resources), self._arrived)
            self._waiting = np.concatenate([self._waiting, rows])
            self._arrived += len(rows)
            self._new = []

    def _evict(self, slot: int, capacity: Floats) -> None:
        """Evict jobs until the others fit."""
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
        """Start the agent's jobs, let jobs expire whose window has ended, and record the slot."""
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
        """Start jobs in a slot."""
        started = JobSet(rows)
        rows[:, START] = slot
        self._running = np.concatenate([self._running, rows])
        for end in sorted(set(started.finish_time.tolist())):  # one event per finish time
            at(self.env, end, Phase.COMPLETION).callbacks.append(self._complete)
        return started

    def _remove(self, leaves: NDArray[np.bool_]) -> None:
        """Remove jobs with an open window from the waiting jobs."""
        stays = ~leaves
        if not self._all_open:
            stays, of_current = np.ones(len(self._waiting), dtype=bool), stays
            stays[self._open] = of_current
        self._waiting = self._waiting[stays]

    def _account(self, started: JobSet, expired: JobSet) -> None:
        """Record the outcome of a slot: equation (6), minus what evictions take back."""
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
        """Complete the jobs that end now; there may be none left after evictions."""
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
        """Record the jobs that are running or could still start when the run ends."""
        self._take_new()
        self._leave(self._running, np.nan, "running")
        self._leave(self._waiting, np.nan, "queued")


def _revenue(jobs: JobSet) -> float:
    """Return the total revenue of jobs, in core-slots."""
    number = len(jobs.rows)
    if number > 1:
        return float(jobs.revenue.sum())
    return float(jobs.rows.item(0, REQUESTS) * jobs.rows.item(0, DURATION)) if number else 0.0


def newest_to_evict(running: Floats, limit: Floats) -> NDArray[np.int64]:
    """Return which running jobs to evict so that the others fit, the last started first.

    A job is not evicted if it holds nothing of the resources that are short.

    Parameters
    ----------
    running : numpy.ndarray
        Rows of the running jobs, in the order of their starts.
    limit : numpy.ndarray of shape (num_resources,)
        Amount of each resource that they may hold together.

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
    """Clairvoyant view of a run: all its jobs and capacities.

    Attributes
    ----------
    jobs : tuple of Job
        All submitted jobs, in the order in which they become known; in real time, as they are known then.
    capacity : numpy.ndarray of shape (num_slots, num_resources)
        Capacity of every slot.
    """

    jobs: tuple[Job, ...]
    capacity: Floats


def clairvoyant_view(cluster: DeferrableCluster, *, seed: int = 0, until: float = math.inf) -> ClairvoyantView:
    """Return the clairvoyant view of a run, which only an offline planner or an oracle may use.

    Parameters
    ----------
    cluster : DeferrableCluster
        Cluster to look at; its processes must not depend on which jobs are started.
    seed : int
        Root of all random streams, as for ``simulate``.
    until : float
        End of the run in slots, as for ``simulate``.

    Returns
    -------
    ClairvoyantView
        All jobs and capacities, the same for every agent. Without ``num_slots``, the view ends with the last window.

    Raises
    ------
    InvalidConfiguration
        If the jobs are an iterator, which the view would exhaust.

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
        raise InvalidConfiguration(f"resources: got {resources!r}, expected at least one name, all distinct")
    for name in names:
        if name in TAKEN:
            raise InvalidConfiguration(f"resources: got {name!r}, a reserved name; expected none of {', '.join(TAKEN)}")
    return names


def _weights(name: str, weights: ArrayLike, count: int) -> Floats:
    """Return weights as an array, from one number for all or one number each."""
    try:
        given = np.asarray(weights)
        if given.dtype.kind not in "iuf":
            raise TypeError
        table = np.array(np.broadcast_to(given, (count,)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        several = f" or {count} numbers" if count > 1 else ""
        raise InvalidConfiguration(f"{name}: got {weights!r}, expected one number{several}") from error
    if not ((table >= 0) & (table < np.inf)).all():
        raise InvalidConfiguration(f"{name}: got {weights!r}, expected finite numbers >= 0")
    table.flags.writeable = False
    return table
