"""A running job: its execution, which is the event of its end, and what agents may see of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappush
from typing import Any, NamedTuple

import simpy

from desim.core import Phase
from desim.problems.batch.cores import cores_of_ranges
from desim.problems.batch.job import Job
from desim.problems.batch.predictors import Predictions, corrected_end

__all__ = ["Execution", "ObservedExecution"]


class ObservedExecution(NamedTuple):
    """What agents may see of an execution.

    Attributes
    ----------
    job : Job
        Job, with its requested time as run time.
    starting_time : float
        Start in seconds.
    cores : int
        Allocated cores as a bit set.
    ran : float
        Seconds since the start.
    row : int
        Row of the job.
    """

    job: Job
    starting_time: float
    cores: int
    ran: float
    row: int


class Execution(simpy.Event):
    """Execution of a job, which is also the SimPy event of its end.

    Parameters
    ----------
    env : simpy.Environment
        Environment, whose current time is the start of the execution.
    row : int
        Row of the job.
    job : Job
        Job that runs.
    allocation : int or tuple
        Allocated cores: a bit set, or on large clusters the ranges (begin, end).
    work : float
        Seconds of work that are left; fewer than these are done if the job is killed at its time limit.
    duration : float
        Duration in seconds, unless the execution is interrupted.
    expected : float
        Expected duration in seconds: by the requested or predicted time.
    end : callable
        Function that is called with the execution when it has ended.

    Attributes
    ----------
    starting_time : float
        Start in seconds.
    done : float
        Seconds that the job had run before it was suspended; 0 if this execution is not a resumption.
    expected_end : float
        Expected end in seconds, later than `expected` says if the job has exceeded it.
    outcome : str
        How the execution ended, for listeners: ``"completed"``, ``"killed"``, ``"lost"``, ``"requeued"``,
        ``"preempted"`` or ``"suspended"``; empty until then.
    """

    _ok = True
    _value = None
    done = 0.0
    outcome = ""

    def __init__(  # noqa: PLR0917  # called for each start
        self,
        env: simpy.Environment,
        row: int,
        job: Job,
        allocation: Any,
        work: float,
        duration: float,
        expected: float,
        end: Callable[[Any], None],
    ) -> None:
        self.env = env
        self.callbacks = [end]
        self.row = row
        self.job = job
        self.allocation = allocation
        self.work = work
        self.duration = duration
        self.starting_time = now = env._now
        self.expected_end = now + expected
        heappush(env._queue, (now + duration, Phase.COMPLETION, next(env._eid), self))  # like env.schedule()

    @property
    def cores(self) -> int:
        """Allocated cores as a bit set."""
        held = self.allocation
        return held if isinstance(held, int) else cores_of_ranges(held)

    @property
    def requested_end(self) -> float:
        """End by the requested time, in seconds."""
        return self.starting_time + (self.job.requested_time - self.done)

    def observed(self) -> ObservedExecution:
        """Return what agents may see of the execution now."""
        ran = self.env.now - self.starting_time
        return ObservedExecution(self.job.known(), self.starting_time, self.cores, ran, self.row)

    def predict(self, length: float) -> None:
        """Expect the job to run for a number of seconds in all, since it started from the beginning."""
        self.expected_end = self.starting_time + (length - self.done)

    def correct(self, predictions: Predictions | None) -> None:
        """Expect a job that has not ended by its expected end to continue."""
        now = self.env.now
        if predictions is None:
            self.expected_end = corrected_end(self.requested_end, now)
        else:
            self.predict(predictions.correct(self.job, self.row, self.done + (now - self.starting_time)))
            if self.expected_end <= now:  # by rounding
                self.expected_end = math.nextafter(now, math.inf)

    def expect(self, now: float) -> float:
        """Set the end of the execution to its expected end, and return that time in seconds.

        Parameters
        ----------
        now : float
            Current time in seconds.

        Returns
        -------
        float
            New end in seconds, not before `now`.
        """
        end = max(self.expected_end, now)
        self._end_at(end)
        return end

    def _end_at(self, end: float) -> None:
        """Set the end of the execution."""
        by_request = end == self.requested_end
        self.duration = self.work = self.job.requested_time if by_request else end - self.starting_time
        self.job = self.job._replace(run_time=self.duration)
