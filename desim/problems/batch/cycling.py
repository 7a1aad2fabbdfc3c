"""Schedule cycling: how jobs come into the queue, when an agent is asked, and what its answers do.

Model: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, section III-B.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Literal

import simpy

from desim.core import Decision, Phase, at
from desim.exceptions import InfeasibleAction, WorkloadError
from desim.problems.batch.cores import lowest_cores
from desim.problems.batch.entities import Job, Start, WaitUntil, check_job
from desim.problems.batch.execution import Execution
from desim.problems.batch.observation import BatchObservation, Queue
from desim.problems.batch.refusals import explain
from desim.problems.failures import UnitCluster

__all__ = ["CyclingCluster"]


class CyclingCluster(UnitCluster):
    """Base class of the batch cluster: its queue, and the scheduling cycles in which an agent is asked.

    What starting a job means is left to the cluster.

    Parameters
    ----------
    processes : iterable of callables
        Extra SimPy processes.
    """

    num_cores: int
    infeasible: Literal["raise", "forward"]
    too_wide: Literal["error", "reject"]
    ask_when_empty: bool
    observation: BatchObservation
    _free: int
    _num_free: int
    _running: dict[int, Execution]
    _record_job: Callable[[tuple[Any, ...]], object]

    def _begin_cycling(self) -> None:
        """Set up the empty queue and start the process that waits for decisions."""
        self._queue = Queue()
        self._queued: dict[int, Job] = {}
        self._inbox: deque[Job] = deque()
        self._cycling = False
        self._next_wake = math.inf
        self.env.process(self._schedule())

    def _start(self, job: Job, cores: int) -> None:
        """Start a queued job on free cores, a bit set."""
        raise NotImplementedError

    def _schedule(self) -> Generator[simpy.Event, Any, None]:
        """Carry out decisions: the process that waits for them, cycle after cycle."""
        self._decision = decision = Decision(self.simulation, self.observation)
        queued, inbox, always = self._queued, self._inbox, self.ask_when_empty
        while True:
            action = yield decision
            decision.callbacks = []  # the same decision serves again
            if type(action) is list:
                self._carry_out_all(action)
                goes_on = False
            else:
                goes_on = action is not None and self._carry_out(action) and bool(queued or always)
            if goes_on:
                decision.request()
            elif inbox:
                self._enqueue(inbox.popleft())
                decision.request()
            else:
                self._cycling = False

    def _open_cycle(self) -> None:
        """Ask for a decision, unless a cycle is open already: its next decision sees all of this instant."""
        if not self._cycling and (self._queued or self.ask_when_empty):
            self._cycling = True
            self._decision.request()

    def _enqueue(self, job: Job, position: int | None = None) -> None:
        """Put a job at the end of the queue, or at a position in it."""
        self._queue._add(job, position)
        self._queued[job.job_id] = job

    def submit(self, job: Job) -> None:
        """Take a job now, as the arrival process does; a process of your own may call it, too.

        Parameters
        ----------
        job : Job
            Its submission time must not lie in the future.

        Raises
        ------
        WorkloadError
            If the job makes no sense, is too wide, or has the id of a job that is in the system.
        """
        check_job(job)
        if job.submission_time > self.env.now:
            raise WorkloadError(f"job {job.job_id} cannot be submitted at {self.env.now} s: {job!r} lies in the future")
        self._take(job)

    def _take(self, job: Job) -> None:
        """Put a job that has arrived into the queue, or in line for it."""
        job_id, _, requested_cores, requested_time, run_time, _ = job
        try:
            plausible = requested_cores > 0 <= requested_time < math.inf > run_time >= 0
        except TypeError:
            plausible = False
        if not plausible:
            check_job(job)
        if requested_cores > self.num_cores:
            if self.too_wide == "error":
                raise WorkloadError(
                    f"job {job_id} requests {requested_cores} cores, the cluster has {self.num_cores}; "
                    "too_wide='reject' records such jobs as rejected"
                )
            self._record_job((job, None, None, None, 0, "rejected", 0))
            self.emit("rejection", job)
            return
        if job_id in self._queued or job_id in self._running or (self._inbox and self._is_waiting(job_id)):
            raise WorkloadError(f"{job!r} arrives while another job {job_id} is in the system")
        if self.listening:
            self.emit("arrival", job)
        if self._cycling:
            self._inbox.append(job)
        else:
            self._enqueue(job)
            self._cycling = True
            self._decision.request()

    def _is_waiting(self, job_id: int) -> bool:
        """Tell whether a job that arrived at this instant has yet to enter the queue."""
        return any(job_id == job.job_id for job in self._inbox)

    def _carry_out_all(self, actions: list[Any]) -> None:
        for action in actions:
            if action is None or not self._carry_out(action):
                break

    def _carry_out(self, action: Any) -> bool:
        """Start the job that an action names; return whether the cycle goes on."""
        try:
            job = self._queued.get(action)
        except TypeError:  # not hashable, so no job id
            return self._refuse(action)
        if job is not None:
            if job.requested_cores > self._num_free:
                return self._refuse(action)
            self._start(job, lowest_cores(self._free, job.requested_cores))
            return True
        if type(action) is WaitUntil and action.time > self.env.now:
            self._wait_until(action.time)
            return False
        if type(action) is Start:
            job, cores = self._queued.get(action.job_id), action.cores
            if job is not None and self._are_free(cores, job.requested_cores):
                self._start(job, cores)
                return True
        return self._refuse(action)

    def _are_free(self, cores: Any, count: int) -> bool:
        """Tell whether a core set that an agent has chosen holds so many cores, all of them free."""
        return isinstance(cores, int) and not cores & ~self._free and cores.bit_count() == count

    def _refuse(self, action: Any) -> bool:
        if self.infeasible == "forward":
            return False
        raise InfeasibleAction(f"time {self.env.now}: {explain(self, action)}")

    def _wait_until(self, time: float) -> None:
        """See to it that a cycle opens no later than at a time."""
        if time < self._next_wake:
            self._next_wake = time
            at(self.env, time, Phase.ARRIVAL).callbacks.append(self._wake_up)

    def _wake_up(self, event: simpy.Event) -> None:
        self._next_wake = math.inf
        self._open_cycle()
