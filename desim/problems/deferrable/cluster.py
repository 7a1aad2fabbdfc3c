"""Deferrable jobs on what on-demand jobs leave of a platform, slot by slot.

Model: Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable Workloads in Cloud
Computing" (OSDEC), section 3, and the real-time setting of its Table 2.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim._clock import at, schedule_at
from desim.core import Decision, Phase
from desim.exceptions import InvalidConfiguration
from desim.problems.base import Problem, Process
from desim.problems.deferrable._arguments import check_choice, check_num_slots, names_of, weights_of
from desim.problems.deferrable.job import Job, check_job, check_submission, real_time, submission_time_of
from desim.problems.deferrable.job_set import EVICTIONS, START, JobSet, job_of, rows_of
from desim.problems.deferrable.observation import DeferrableObservation
from desim.problems.deferrable.outcomes import outcome_of
from desim.problems.deferrable.starts import newest_to_evict, positions_of
from desim.problems.deferrable.tables import COMPLETED, EVICTED, EXPIRED, PENDING, RUNNING, JobRows, schemas, slot_row
from desim.processes.arrivals import arrivals
from desim.processes.capacity import CapacityProcess, amounts_of, replayed_capacity
from desim.records import Schema

__all__ = ["DeferrableCluster"]

Floats = NDArray[np.float64]
Eviction = Literal["never", "lost", "restarted"]


class DeferrableCluster(Problem):
    """A platform whose on-demand jobs leave a fluctuating capacity, in which deferrable jobs run.

    A slot clock asks once a slot: which of the jobs whose window is open are to be started now? The answer is a
    sequence of positions in ``observation.current``, or None for none. What runs is not interrupted; if the capacity at
    a slot's beginning is below what is held, that is a violation, which costs. Jobs that end at a slot's beginning have
    left; a job that was not started by its latest start expires.

    The objective is equation (1) of the OSDEC paper: the sum over started jobs of cores times duration less the delay
    weight times (start - earliest start), less the violation weight times the sum of all violations.

    Events for listeners: ``submission``, ``start``, ``completion``, ``expiry``, ``eviction`` (each a :class:`Job`) and
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
    events: ClassVar[tuple[str, ...]] = ("submission", "start", "completion", "expiry", "eviction", "slot")

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
        super().__init__(processes=processes)
        self.jobs = jobs
        self.resources = names_of(resources)
        self.capacity_process = capacity if callable(capacity) else replayed_capacity(capacity)
        self.num_slots = check_num_slots(num_slots)
        self.delay_weight = float(weights_of("delay_weight", delay_weight, 1)[0])
        self.violation_weights = weights_of("violation_weight", violation_weight, len(self.resources))
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

    def schemas(self) -> dict[str, Schema]:
        """Return the tables ``jobs``, ``slots`` and ``evictions``."""
        return schemas(self.resources)

    def check_replayable(self) -> None:
        """Raise InvalidConfiguration if the jobs are an iterator, which can be read only once."""
        if isinstance(self.jobs, Iterator):
            raise InvalidConfiguration("the jobs are an iterator, which can be read only once: pass a list to fork")

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster and start the capacity, the submissions and the slot clock."""
        self.observation = DeferrableObservation(
            self.resources, self.num_slots, self.delay_weight, self.violation_weights
        )
        self._record = self.simulation.records.tables
        self._waiting = self._running = self._evicted = self.observation.current.rows
        self._capacity: Floats | None = None
        self._next_slot = 0
        self._new: list[Job] = []
        self._known: set[int] = set()
        self.env.process(self.capacity_process(self))
        jobs = real_time(self.jobs) if self.real_time else iter(self.jobs)
        self.foreground.append(self.env.process(arrivals(self.env, jobs, submission_time_of, self.submit)))
        self.env.process(self._run_clock())

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
        if self.env.now == self.num_slots:  # as in a workload, what comes at the end is not part of the run
            return
        check_submission(job, self.env.now, self._next_slot, self._known)
        self._known.add(job.job_id)
        self._new.append(job)
        if self.listening:
            self.emit("submission", job)

    def _run_clock(self) -> Generator[simpy.Event, Any, None]:
        """Ask at the beginning of every slot, until the last or until there is nothing more to come."""
        decision = Decision(self.simulation, self.observation)
        tick = simpy.Event(self.env)
        slot = 0
        while True:
            tick.callbacks = []  # the same event serves again, and so does the decision
            over = slot == self.num_slots  # jobs that end then have run, jobs that come then are too late
            schedule_at(tick, slot, Phase.CAPACITY if over else Phase.SLOT)
            yield tick
            if over or (self.num_slots is None and not self._goes_on()):
                self.simulation.stop()
                return
            self._observe(slot)
            decision.callbacks = []
            action = yield decision.request()
            self._serve(slot, action)
            slot += 1

    def _goes_on(self) -> bool:
        """Tell whether anything may still happen."""
        if self._new or len(self._waiting) or len(self._running):
            return True
        return any(process.is_alive for process in self.foreground)

    def _observe(self, slot: int) -> None:
        """Take what has changed since the slot before, and show it."""
        if self._capacity is None:
            raise InvalidConfiguration(f"time {slot}: no process has set the capacity")
        self._next_slot = slot + 1
        observation = self.observation
        observation.begin_slot(slot, self._capacity)
        self._submitted = len(self._new)
        if self._new:
            self._waiting = np.concatenate([self._waiting, rows_of(self._new, len(self.resources))])
            self._new = []
        if self.eviction != "never":
            self._evict(slot)
        is_open = JobSet(self._waiting).earliest_start <= slot
        self._open = np.flatnonzero(is_open)
        observation.current = JobSet(self._waiting[self._open])
        observation.future = JobSet(self._waiting[~is_open])
        observation.running = JobSet(self._running)
        observation.used = observation.running.requests.sum(axis=0)
        observation.note_current()

    def _evict(self, slot: int) -> None:
        """Take back what no longer fits."""
        chosen = newest_to_evict(self._running, self.observation.limit)
        rows = self._running[chosen]
        if len(rows):
            self._running = np.delete(self._running, chosen, axis=0)
            self._record["evictions"].append((slot, rows), len(rows))
            rows = rows.copy()
            rows[:, EVICTIONS] += 1
            again = (JobSet(rows).latest_start >= slot) & (self.eviction == "restarted")
            self._leave(rows[~again], slot, EVICTED)
            returned = rows[again]
            returned[:, START] = np.nan
            self._waiting = np.concatenate([self._waiting, returned])
            self._emit_jobs("eviction", rows)
        self._evicted = rows

    def _serve(self, slot: int, action: Any) -> None:
        """Start the jobs of the answer, let those expire whose window has passed, and count."""
        observation = self.observation
        positions = positions_of(action, observation, overcommit=self.overcommit)
        started = observation.current.rows[positions]
        started[:, START] = slot
        stays = np.ones(len(self._waiting), dtype=bool)
        stays[self._open[positions]] = False
        passed = stays & (JobSet(self._waiting).latest_start <= slot)
        expired = self._waiting[passed]
        self._waiting = self._waiting[stays & ~passed]
        self._start(started)
        self._leave(expired, np.nan, EXPIRED)
        self._emit_jobs("start", started)
        self._emit_jobs("expiry", expired)
        outcome = outcome_of(observation, started, expired, self._evicted)
        observation.end_slot(outcome.used, len(started))
        self._record["slots"].append(slot_row(outcome, observation, self._submitted, len(self._running)))
        if self.listening:
            self.emit("slot", outcome)

    def _start(self, rows: Floats) -> None:
        """Let jobs run; one event ends all that end together."""
        if len(rows):
            self._running = np.concatenate([self._running, rows])
            for end in np.unique(JobSet(rows).finish_time).tolist():
                at(self.env, end, Phase.COMPLETION).callbacks.append(self._complete)

    def _complete(self, event: simpy.Event) -> None:
        """Let the jobs go that end now; none is left if they have been evicted."""
        ended = JobSet(self._running).finish_time <= self.env.now
        rows = self._running[ended]
        if len(rows):
            self._running = self._running[~ended]
            self._leave(rows, self.env.now, COMPLETED)
            self._emit_jobs("completion", rows)

    def _leave(self, rows: Floats, finish: float, status: int) -> None:
        """Record jobs that leave the system."""
        if len(rows):
            self._known.difference_update(JobSet(rows).job_id.tolist())
            self._record["jobs"].append(JobRows(rows, finish, status), len(rows))

    def _emit_jobs(self, event: str, rows: Floats) -> None:
        if self.listening:
            for row in rows:
                self.emit(event, job_of(row))

    def close(self, time: float) -> None:
        """Record the jobs that run, or may still be started, when the run ends."""
        self._leave(self._running, np.nan, RUNNING)
        self._leave(np.concatenate([self._waiting, rows_of(self._new, len(self.resources))]), np.nan, PENDING)
