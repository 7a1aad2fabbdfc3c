"""The batch cluster: identical cores, a queue of rigid jobs, and schedule cycling.

Model: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II-A and III-B.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, ClassVar, Literal

import simpy

from desim.core import reschedule
from desim.exceptions import InvalidConfiguration
from desim.problems.base import Process
from desim.problems.batch.cycling import CyclingCluster
from desim.problems.batch.entities import Job
from desim.problems.batch.execution import Execution
from desim.problems.batch.failures import CoreFailures
from desim.problems.batch.observation import BatchObservation, Running
from desim.problems.batch.tables import schemas
from desim.processes.arrivals import arrivals
from desim.records import Schema

__all__ = ["BatchCluster"]


class BatchCluster(CyclingCluster):
    """Identical cores and an unbounded queue of rigid jobs.

    A scheduling cycle opens at every arrival and at every completion. Jobs that arrive together
    have one cycle each, so that each is once at the tail of the queue; completions, outages and
    repairs of the same instant come before and share the first of these cycles, or have one of
    their own. Within a cycle the agent is asked again and again: a job id, or a :class:`Start`,
    starts that job and the cycle goes on; None, or a :class:`WaitUntil`, ends it. A list of such
    actions is carried out in order and ends the cycle, which spares an agent that knows them all
    at once the questions in between.

    Events for listeners: ``arrival`` and ``rejection`` (the subject is the :class:`Job`);
    ``start``, ``completion`` and ``interruption`` (an :class:`Execution`); ``outage`` and
    ``repair`` (a core set).

    Parameters
    ----------
    jobs : iterable of Job
        In order of submission. An iterator is read once, one job ahead of the clock, so that
        memory follows the jobs in the system; a list can be simulated again and again.
    num_cores : int
        Cores, at least 1.
    kill_at_request : bool
        End a job that reaches its requested time, as real systems do.
    infeasible : {"raise", "forward"}
        What an action that cannot be carried out means: an error, or the end of the cycle, as
        in schedule cycling.
    too_wide : {"error", "reject"}
        What to do with a job that requests more cores than there are: raise
        :class:`WorkloadError`, or record it as rejected.
    on_outage : {"requeue", "lose"}
        What becomes of a job whose core fails: it goes back to its place in the queue and later
        starts afresh, or it is lost.
    ask_when_empty : bool
        Ask for a decision even if no job is queued; the only feasible answer is then to wait.
    processes : iterable of callables
        Extra SimPy processes, such as those of :mod:`desim.processes.outages`. Each is called with
        the bound cluster, whose ``observation`` (a :class:`BatchObservation`) shows its state.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    name: ClassVar[str] = "batch"
    events: ClassVar[tuple[str, ...]] = (
        "arrival",
        "rejection",
        "start",
        "completion",
        "interruption",
        "outage",
        "repair",
    )
    _failures: CoreFailures

    def __init__(
        self,
        jobs: Iterable[Job],
        num_cores: int,
        *,
        kill_at_request: bool = True,
        infeasible: Literal["raise", "forward"] = "raise",
        too_wide: Literal["error", "reject"] = "error",
        on_outage: Literal["requeue", "lose"] = "requeue",
        ask_when_empty: bool = False,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        if num_cores < 1 or num_cores != int(num_cores):
            raise InvalidConfiguration(f"num_cores is {num_cores!r}, want a whole number of at least 1")
        _check_choice("infeasible", infeasible, ("raise", "forward"))
        _check_choice("too_wide", too_wide, ("error", "reject"))
        _check_choice("on_outage", on_outage, ("requeue", "lose"))
        self.jobs = jobs
        self.num_cores = int(num_cores)
        self.kill_at_request = kill_at_request
        self.infeasible = infeasible
        self.too_wide = too_wide
        self.on_outage = on_outage
        self.ask_when_empty = ask_when_empty

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without the jobs, as plain values."""
        return {
            "problem": self.name,
            "num_cores": self.num_cores,
            "kill_at_request": self.kill_at_request,
            "infeasible": self.infeasible,
            "too_wide": self.too_wide,
            "on_outage": self.on_outage,
            "ask_when_empty": self.ask_when_empty,
        }

    def schemas(self) -> dict[str, Schema]:
        """Return the tables ``jobs``, ``interruptions`` and ``outages``."""
        return schemas(self.num_cores)

    def check_replayable(self) -> None:
        """Raise InvalidConfiguration if the jobs are an iterator, which can be read only once."""
        if isinstance(self.jobs, Iterator):
            raise InvalidConfiguration("the jobs are an iterator, which can be read only once: pass a list to fork")

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster and start the arrivals and the scheduler."""
        self._free = (1 << self.num_cores) - 1
        self._num_free = self.num_cores
        self._failures = CoreFailures(self)
        self._running: dict[int, Execution] = {}
        self._running_rows: Running | None = None
        self._attempts: dict[int, int] = {}
        self._on_completion = self._complete  # bound once, not once a job
        self._record_job = self.simulation.records.tables["jobs"].append
        self._begin_cycling()  # its first decision waits before any arrival
        self.observation = BatchObservation(self)
        stream = self.env.process(arrivals(self.env, self.jobs, _submission_time, self._take))
        self.foreground.append(stream)
        stream.callbacks.append(self.foreground_ended)

    def foreground_ended(self, process: simpy.Event) -> None:
        """Stop if there will be no more jobs."""
        self._stop_if_done()

    def _stop_if_done(self) -> None:
        """End the run with its last job, whatever goes on in the background."""
        if not (self._running or self._queued or self._inbox or any(p.is_alive for p in self.foreground)):
            self.simulation.stop()

    def _start(self, job: Job, cores: int) -> None:
        duration = job.run_time
        if duration > job.requested_time and self.kill_at_request:
            duration = job.requested_time
        job_id = job.job_id
        del self._queued[job_id]
        self._queue._remove(job_id)
        self._free ^= cores
        self._num_free -= job.requested_cores
        self._running[job_id] = execution = Execution(self, job, duration, cores)
        if self._running_rows is not None:
            self._running_rows._add(job_id, job.requested_cores, execution.expected_end, execution.starting_time)
        if self.listening:
            self.emit("start", execution)

    def _complete(self, execution: Execution) -> None:
        job, duration, start = execution.job, execution.duration, execution.starting_time
        self._leave(execution)
        status = "completed" if duration == job.run_time else "killed"
        attempts = self._attempts.pop(job.job_id, 0) + 1 if self._attempts else 1
        self._record_job((job, start, start + duration, duration, execution.cores, status, attempts))
        if self.listening:
            self.emit("completion", execution)
        if not self._cycling:
            self._open_cycle()
        if not self._running:
            self._stop_if_done()

    def _leave(self, execution: Execution) -> None:
        """Take an execution off its cores."""
        job_id = execution.job.job_id
        del self._running[job_id]
        if self._running_rows is not None:
            self._running_rows._remove(job_id)
        down = self._failures.down
        self._free |= execution.cores & ~down if down else execution.cores
        self._num_free = self._free.bit_count()

    def _running_table(self) -> Running:
        """Return the table of running jobs, which is kept only once somebody has asked for it."""
        if self._running_rows is None:
            self._running_rows = Running()
            for job_id, execution in self._running.items():
                self._running_rows._add(
                    job_id, execution.job.requested_cores, execution.expected_end, execution.starting_time
                )
        return self._running_rows

    def forget_future(self) -> None:
        """Go on as far as an agent can know at the decision that is due: in forks without foresight.

        Queued and running jobs run for as long as they request, and a job that has been running for longer, which
        takes ``kill_at_request=False``, ends now. Nothing else arrives, not even what has arrived at this instant and
        is not in the queue yet; cores that are down stay down; processes end. The wake-ups that agents have asked for
        remain.
        """
        self._forget_sources()
        self._inbox.clear()
        for job_id, job in self._queued.items():
            self._queued[job_id] = job._replace(run_time=job.requested_time)
        now, wake_up = self.env.now, self._wake_up

        def time_of(event: simpy.Event, time: float) -> float | None:
            """Return when what is scheduled for a time will happen, if it will."""
            if isinstance(event, Execution) and event.callbacks:
                return event.expect(now)
            return time if wake_up in event.callbacks else None

        reschedule(self.env, time_of)

    @property
    def num_units(self) -> int:
        """How many cores can fail."""
        return self.num_cores

    def close(self, time: float) -> None:
        """Record the jobs that are running or queued when the run ends."""
        for execution in self._running.values():
            job = execution.job
            attempts = self._attempts.get(job.job_id, 0) + 1
            self._record_job((job, execution.starting_time, None, None, execution.cores, "running", attempts))
        for job in (*self._queued.values(), *self._inbox):
            self._record_job((job, None, None, None, 0, "queued", self._attempts.get(job.job_id, 0)))


def _check_choice(argument: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidConfiguration(f"{argument} is {value!r}, want one of {', '.join(map(repr, allowed))}")


_submission_time = attrgetter("submission_time")
