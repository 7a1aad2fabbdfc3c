"""Accepting or rejecting what a base policy chooses: which job is asked about, and what an answer means.

Source: Zhang, Dai and Xie, "SchedInspector: a batch job scheduling inspector using reinforcement learning", HPDC 2022,
as described by Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II and IV-B. Agent and environment
share this module, so that both mean the same.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from desim.exceptions import DesimError, InvalidConfiguration
from desim.problems.batch import BatchObservation, Queue, WaitUntil

__all__ = ["AcceptingAgent", "Answer", "BasePolicy", "Inspection", "Question"]

Answer = int | list[int] | WaitUntil | None
"""What the cluster is told."""


class BasePolicy(Protocol):
    """The policy that chooses, and whose choices are inspected.

    Attributes
    ----------
    name : str
        For records and tables.
    """

    name: str

    def first(self, queue: Queue, time: float) -> int:
        """Return the position of the job to start next, in a queue that is not empty."""

    def backfill(self, observation: BatchObservation, blocked: int) -> list[int] | None:
        """Return the jobs that may start beside the one at a position, which was chosen and does not fit."""


class Question(NamedTuple):
    """Whether the base policy's choice shall be accepted.

    Attributes
    ----------
    position : int
        Of the job in the queue.
    job_id : int
        The job.
    rejections : int
        How often it was rejected before.
    """

    position: int
    job_id: int
    rejections: int


class Inspection:
    """The rules of one run: give it every observation, and an answer to every question.

    When a scheduling cycle opens, the base policy chooses a job, and a question is asked. *Accepted*, the job
    starts if it fits, and the next choice is asked about. If it does not fit, it waits for its cores, with a
    reservation beside which others are back-filled at every arrival and completion; these are not asked about, nor is
    anything else until it has started. *Rejected*, nothing starts before the next arrival or completion (or outage or
    repair), and a question is asked again after ``interval`` at the latest. A job that was rejected ``max_rejections``
    times is accepted without a question. What has started and is queued again, after an outage, is counted anew.

    Parameters
    ----------
    base : BasePolicy
        Chooses.
    max_rejections : int
        Most rejections of a job, at least 1.
    interval : float
        Longest time from a rejection to the next question, in seconds.
    keeps_accepted : bool
        Whether an accepted job that does not fit stays the chosen one until it has started, as with the paper's
        SchedInspector. Otherwise the base policy chooses anew at each arrival and completion, so that accepting
        everything is EASY back-filling over the base policy; a job is still asked about no more once it was accepted.

    Raises
    ------
    InvalidConfiguration
        If a number is out of range.
    """

    def __init__(
        self,
        base: BasePolicy,
        *,
        max_rejections: int = 72,
        interval: float = 600.0,
        keeps_accepted: bool = True,
    ) -> None:
        if max_rejections < 1 or max_rejections != int(max_rejections):
            raise InvalidConfiguration(f"max_rejections is {max_rejections!r}, want a whole number of at least 1")
        if not 0 < interval < math.inf:
            raise InvalidConfiguration(f"the interval is {interval!r}, want a finite time above 0")
        self.base = base
        self.max_rejections = int(max_rejections)
        self.interval = interval
        self.keeps_accepted = keeps_accepted
        self.reset()

    def reset(self) -> None:
        """Forget the last run."""
        self.question: Question | None = None
        self._rejections: dict[int, int] = {}
        self._accepted: set[int] = set()
        self._head: int | None = None
        self._seen: tuple[int, int, int] | None = None
        self._until = math.inf

    def next(self, observation: BatchObservation) -> Question | Answer:
        """Return the question that is due, or else what the cluster is to be told.

        Parameters
        ----------
        observation : BatchObservation
            A decision. It stays due as long as a question is open.

        Returns
        -------
        Question, int, list of int, WaitUntil or None
            A question is to be followed by :meth:`decide`.
        """
        queue = observation.queue
        if not len(queue):
            return None
        if self._seen is not None:
            if observation.time < self._until and self._seen == _state(observation):
                return self._wait()  # woken for a rejection that something else has ended since
            self._seen = None
        if self._head is not None:
            return self._accept(observation, int((queue.job_id == self._head).argmax()))
        position = self.base.first(queue, observation.time)
        job_id = int(queue.job_id[position])
        rejections = self._rejections.get(job_id, 0)
        if job_id in self._accepted or rejections >= self.max_rejections:
            return self._accept(observation, position)
        self.question = Question(position, job_id, rejections)
        return self.question

    def decide(self, observation: BatchObservation, *, accept: bool) -> Answer:
        """Answer the question that is open.

        Parameters
        ----------
        observation : BatchObservation
            The decision at which it was asked.
        accept : bool
            Whether the base policy's choice is followed.

        Returns
        -------
        int, list of int, WaitUntil or None
            What the cluster is to be told.

        Raises
        ------
        DesimError
            If there is no question.
        """
        question, self.question = self.question, None
        if question is None:
            raise DesimError("no question is open: ask for the next one first")
        if accept:
            return self._accept(observation, question.position)
        self._rejections[question.job_id] = question.rejections + 1
        self._end_cycle(observation, [], observation.time + self.interval)
        return self._wait()

    def _accept(self, observation: BatchObservation, position: int) -> Answer:
        """Start a job, or let it wait for its cores while others are back-filled."""
        queue = observation.queue
        job_id = int(queue.job_id[position])
        if queue.requested_cores[position] <= observation.free_cores:
            self._forget(job_id)
            return job_id
        self._accepted.add(job_id)
        if self.keeps_accepted:
            self._head = job_id
        started = self.base.backfill(observation, position)
        self._end_cycle(observation, started or [], math.inf)
        return started

    def _forget(self, job_id: int) -> None:
        """Drop all that is known of a job, because it starts."""
        self._rejections.pop(job_id, None)
        self._accepted.discard(job_id)
        if job_id == self._head:
            self._head = None

    def _end_cycle(self, observation: BatchObservation, started: list[int], until: float) -> None:
        """Note what the cluster will look like when no more than the given jobs' starts has happened."""
        for job_id in started:
            self._forget(job_id)
        changes, length, down = _state(observation)
        self._seen = changes + len(started), length - len(started), down
        self._until = until

    def _wait(self) -> Answer:
        return WaitUntil(self._until) if self._until < math.inf else None


class AcceptingAgent:
    """Accepts every choice of the base policy: what an inspector is compared with.

    Parameters
    ----------
    inspection : Inspection
        The rules; it is reset by each run.
    """

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        self.name = inspection.base.name

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the last run."""
        self.inspection.reset()

    def act(self, observation: BatchObservation) -> Answer:
        """Return what the base policy would do."""
        found = self.inspection.next(observation)
        return self.inspection.decide(observation, accept=True) if isinstance(found, Question) else found


def _state(observation: BatchObservation) -> tuple[int, int, int]:
    """Return what no arrival, completion, outage or repair leaves as it is."""
    return observation.running.changes, len(observation.queue), observation.down_cores
