"""Accepting or rejecting what a base policy chooses: questions, answers, and the environment in which that is learned.

Source: Zhang, Dai and Xie, "SchedInspector: a batch job scheduling inspector using reinforcement learning", HPDC 2022,
as described by Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II and IV-B. Agent and environment
share this module, so that both mean the same. What differs in the program that was released with the paper has names of
its own: :class:`ReleasedEncoder`, and improvements ``by_larger``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import gymnasium
import numpy as np

from desim.checks import check_int
from desim.core import Decision, Simulation, simulate
from desim.envs.base import ACTION_MASK, Arrays, Episodes, SchedulingEnv
from desim.exceptions import DesimError, InvalidConfiguration
from desim.problem import Problem
from desim.problems.batch import BatchObservation, Job, Queue, WaitUntil
from desim.problems.batch.env import TraceEpisodes
from desim.result import Result

__all__ = [
    "INSPECTION_FEATURES",
    "OBJECTIVES",
    "AcceptingAgent",
    "Answer",
    "BasePolicy",
    "Improvement",
    "Inspection",
    "InspectionEncoder",
    "InspectorEnv",
    "Question",
    "ReleasedEncoder",
]

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
    reservation beside which others are backfilled at every arrival and completion; these are not asked about, nor is
    anything else until it has started. *Rejected*, nothing starts before the next arrival or completion (or outage or
    repair), and a question is asked again after ``interval`` at the latest. A job that was rejected ``max_rejections``
    times is accepted without a question. What has started and is queued again, after an outage, is counted anew.

    Parameters
    ----------
    base : BasePolicy
        Chooses.
    max_rejections : int, optional
        Most rejections of a job, at least 1; any number with None.
    interval : float
        Longest time from a rejection to the next question, in seconds.
    keeps_accepted : bool
        Whether an accepted job that does not fit stays the chosen one until it has started, as with the paper's
        SchedInspector. Otherwise the base policy chooses anew at each arrival and completion, so that accepting
        everything is EASY backfilling over the base policy; a job is still asked about no more once it was accepted.

    Raises
    ------
    InvalidConfiguration
        If a number is out of range.
    """

    def __init__(
        self,
        base: BasePolicy,
        *,
        max_rejections: int | None = 72,
        interval: float = 600.0,
        keeps_accepted: bool = True,
    ) -> None:
        if max_rejections is not None:
            check_int("max_rejections", max_rejections, least=1)
        if not 0 < interval < math.inf:
            raise InvalidConfiguration(f"the interval is {interval!r}, want a finite time above 0")
        self.base = base
        self.max_rejections = max_rejections
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
        if job_id in self._accepted or rejections == self.max_rejections:
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
        """Start a job, or let it wait for its cores while others are backfilled."""
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


INSPECTION_FEATURES = (
    "waiting_time",
    "requested_time",
    "requested_cores",
    "rejections",
    "free_cores",
    "fits",
    "queue_delay",
)
"""The numbers of ``features``, all from 0 to 1. The first four are those of the job in question.

``queue_delay`` is what a rejection may cost: the sum over all queued jobs of the interval over the requested time,
which counts as 10 s if it is shorter. Times and the delay are logarithms, of 1 + the value; 1 stands for 10^6 s and for
a delay of 10^4.
"""

OBJECTIVES = {"bounded_slowdown": "bounded_slowdown_mean", "waiting_time": "waiting_time_mean"}
"""What is to be improved, and the metric that says so; jobs that have not finished count with what they have so far."""

_LONGEST_LOG = float(np.log1p(1e6))
_DELAY_LOG = float(np.log1p(1e4))
_SHORTEST = 10.0  # seconds, as in the bounded slowdown
_USUAL_MOST = 72  # rejections, where a job may be rejected any number of times
_HALF_DAY = 43_200.0  # seconds
_LONGEST_REQUEST = 124_707.0  # seconds, in the workload lublin_256
_RELEASED_DELAY = 60.0 * 128


class InspectionEncoder:
    """Shows the job in question; action 1 accepts it, action 0 rejects it, and both are always possible.

    Parameters
    ----------
    inspection : Inspection
        Whose questions are shown, and answered by :meth:`decode`.
    """

    MOST: ClassVar[float] = 1.0

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        features = gymnasium.spaces.Box(0.0, 1.0, (len(INSPECTION_FEATURES),), np.float32)
        mask = gymnasium.spaces.Box(0, 1, (2,), np.int8)
        self.observation_space = gymnasium.spaces.Dict({"features": features, ACTION_MASK: mask})
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return ``features``, shape (7,), and the mask, shape (2,).

        Parameters
        ----------
        observation : BatchObservation
            The decision at which the question is asked.

        Returns
        -------
        dict of str to numpy.ndarray
            The features are :data:`INSPECTION_FEATURES`; 0 if there is no question.
        """
        question = self.inspection.question
        features = np.zeros(len(INSPECTION_FEATURES), np.float32)
        if question is not None:
            queue, place = observation.queue, question.position
            free, total = observation.free_cores, observation.num_cores
            cores = int(queue.requested_cores[place])
            delay = self.inspection.interval * (1.0 / np.maximum(queue.requested_time, _SHORTEST)).sum()
            waiting = observation.time - queue.submission_time[place]
            times = self._times(float(waiting), float(queue.requested_time[place]), question.rejections, float(delay))
            features[:] = (*times[:2], cores / total, times[2], free / total, cores <= free, times[3])
            np.minimum(features, self.MOST, out=features)
        return {"features": features, ACTION_MASK: np.ones(2, np.int8)}

    def _times(self, waiting: float, requested: float, rejections: int, delay: float) -> Sequence[float]:
        """Return waiting time, requested time, rejections and the delay of the queue on scales of 1."""
        logarithms = np.log1p((waiting, requested, delay))
        most = self.inspection.max_rejections or _USUAL_MOST
        return logarithms[0] / _LONGEST_LOG, logarithms[1] / _LONGEST_LOG, rejections / most, logarithms[2] / _DELAY_LOG

    def decode(self, observation: BatchObservation, action: Any) -> tuple[Answer, bool]:
        """Answer the question, and return what the cluster is to be told.

        Parameters
        ----------
        observation : BatchObservation
            The decision at which it was asked.
        action : int
            1 accepts, 0 rejects.

        Returns
        -------
        tuple of answer and bool
            Every action is possible.

        Raises
        ------
        InvalidConfiguration
            If there is no such action.
        """
        if int(action) not in (0, 1):
            raise InvalidConfiguration(f"action {action!r} is none of 0 and 1")
        return self.inspection.decide(observation, accept=bool(int(action))), True

    def is_forced(self, observation: BatchObservation) -> bool:
        """Return False: where a question is asked, there is a choice."""
        return False


class ReleasedEncoder(InspectionEncoder):
    """The same numbers as the released program shows them: in proportion, and below 1.

    Source: SchedInspector's public program, DIR-LAB/SchedInspector, 2022. A waiting time of 12 hours stands for 1, and
    so do the rejections that would fill them, which count as a whole interval each, whatever time has passed. The
    longest requested time is that of the workload ``lublin_256``.

    Parameters
    ----------
    inspection : Inspection
        Whose questions are shown, and answered by :meth:`decode`.
    """

    MOST = 1.0 - 1e-5

    def _times(self, waiting: float, requested: float, rejections: int, delay: float) -> Sequence[float]:
        rejected = rejections * self.inspection.interval
        return waiting / _HALF_DAY, requested / _LONGEST_REQUEST, rejected / _HALF_DAY, delay / _RELEASED_DELAY


class Improvement:
    """The relative improvement over the base policy alone on the same sequence, earned at its end: (base - own) / base.

    The released program divides by the larger of the two, so that a sequence earns from -1 to 1.

    Parameters
    ----------
    agent : AcceptingAgent
        The base policy alone.
    objective : {"bounded_slowdown", "waiting_time"}
        Whose mean over all jobs is compared; a base's mean below 1 (a waiting time in seconds) counts as 1.
    floor : float
        A sequence that is worse earns this. Where the base policy hardly lets anybody wait, an inspector may be many
        times worse, and a few such sequences outweigh the others in the mean.
    by_larger : bool
        Whether the difference is divided by the larger of the two means, as in the released program.

    Attributes
    ----------
    own, base : Result or None
        The runs that were compared last; None as long as a sequence goes on.
    metrics : list of dict
        Of both runs, their unfinished jobs included.

    Raises
    ------
    InvalidConfiguration
        If there is no such objective, or the floor is not below 0.
    """

    def __init__(
        self,
        agent: AcceptingAgent,
        objective: str = "bounded_slowdown",
        *,
        floor: float = -math.inf,
        by_larger: bool = False,
    ) -> None:
        if objective not in OBJECTIVES:
            raise InvalidConfiguration(f"no objective {objective!r}; there are {', '.join(OBJECTIVES)}")
        if not floor < 0:
            raise InvalidConfiguration(f"the floor is {floor!r}, want a number below 0")
        self.agent = agent
        self.objective = objective
        self.floor = floor
        self.by_larger = by_larger
        self.own: Result | None = None
        self.base: Result | None = None
        self.metrics: list[dict[str, float]] = []
        self._earned = 0.0

    def reset(self, simulation: Simulation) -> None:
        """Learn that a sequence begins."""
        self.own = self.base = None
        self._earned = 0.0

    def on_decision(self, answer: Any) -> None:
        """Learn that a decision was answered, which earns nothing by itself."""

    def ended(self, simulation: Simulation, problem: Problem) -> None:
        """Learn that a sequence has ended: let the base policy face it, too.

        Parameters
        ----------
        simulation : Simulation
            The inspector's.
        problem : Problem
            What was simulated.
        """
        self.own = simulation.finish(agent="gymnasium")
        self.base = simulate(problem, self.agent, seed=simulation.seed)
        self.metrics = [result.metrics(unfinished="include") for result in (self.own, self.base)]
        own, base = (metrics[OBJECTIVES[self.objective]] for metrics in self.metrics)
        self._earned = max((base - own) / max(base, own if self.by_larger else 1.0, 1.0), self.floor)

    def pop_reward(self) -> float:
        """Return what was earned since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned


class InspectorEnv(SchedulingEnv):
    """Sequences of jobs in which a learner accepts or rejects what a base policy chooses.

    A step is a question. All that needs no question (a job that waits for its cores, backfilling) is done in between.

    Parameters
    ----------
    base : BasePolicy
        Chooses, and backfills; for example :class:`desim.agents.batch.inspector.BackfilledPriority`.
    jobs : sequence of Job, or callable
        A trace that sequences are cut from, or what makes the problem of a sequence from a random generator. Its jobs
        must not be an iterator, because the base policy faces the same.
    num_cores : int
        Cores of the cluster.
    num_jobs : int
        Jobs of a sequence that is cut from a trace. All of them are finished, and no others arrive.
    reward : {"bounded_slowdown", "waiting_time"}
        Whose relative improvement is earned, at the end of a sequence.
    floor : float
        The least that a sequence can earn.
    released : bool
        Whether numbers are shown, and improvements earned, as in the released program.
    **rules
        Further arguments of :class:`~desim.problems.batch.inspection.Inspection`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(
        self,
        base: BasePolicy,
        jobs: Sequence[Job] | Episodes,
        num_cores: int = 256,
        *,
        num_jobs: int = 128,
        reward: Literal["bounded_slowdown", "waiting_time"] = "bounded_slowdown",
        floor: float = -math.inf,
        released: bool = False,
        **rules: Any,
    ) -> None:
        self.inspection = Inspection(base, **rules)
        alone = AcceptingAgent(Inspection(base, **rules))
        self.improvement = Improvement(alone, reward, floor=floor, by_larger=released)
        if not callable(jobs):
            jobs = TraceEpisodes([jobs], num_cores, num_jobs=num_jobs, arrivals="closed")
        self._sequences = jobs
        encoder = ReleasedEncoder if released else InspectionEncoder
        super().__init__(self._next_problem, encoder(self.inspection), self.improvement)

    def _next_problem(self, rng: np.random.Generator) -> Problem:
        """Make the problem of a sequence, and keep it for the base policy."""
        self._problem = problem = self._sequences(rng)
        problem.check_replayable()
        self.inspection.reset()
        return problem

    def _advance(self, simulation: Simulation) -> Decision | None:
        """Run to the next question."""
        while (decision := simulation.advance()) is not None:
            found = self.inspection.next(decision.observation)
            if isinstance(found, Question):
                return decision
            decision.answer(found)
            self.reward.on_decision(found)
        self.inspection.question = None
        self.improvement.ended(simulation, self._problem)
        return None

    def result(self) -> Result:
        """End the sequence and return its records."""
        return self.improvement.own or super().result()

    def base_result(self) -> Result:
        """Return the records of the base policy alone.

        Returns
        -------
        Result
            Of the same sequence.

        Raises
        ------
        DesimError
            If the sequence is not over.
        """
        if self.improvement.base is None:
            raise DesimError("the base policy faces a sequence when it is over: go on to its end")
        return self.improvement.base
