"""Inspection of a base policy: a learner accepts or rejects its choices; questions, answers and environment.

Source: Zhang, Dai and Xie, "SchedInspector: a batch job scheduling inspector using reinforcement learning", HPDC 2022,
as described by Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II and IV-B. Agent and environment
share this module and therefore the same rules. Where the program released with the paper differs from the paper, its
variant has a separate name: :class:`ReleasedEncoder`, and improvements ``by_larger``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import gymnasium
import numpy as np

from desim.checks import check_action, check_choice, check_float, check_int
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
"""Actions for the cluster."""


class BasePolicy(Protocol):
    """Interface of a policy whose choices are inspected.

    Attributes
    ----------
    name : str
        Name for records and tables.
    """

    name: str

    def first(self, queue: Queue, time: float) -> int:
        """Return the position of the job to start next in a nonempty queue."""

    def backfill(self, observation: BatchObservation, blocked: int) -> list[int] | None:
        """Return rows of jobs that may be backfilled around the chosen job at a position, which does not fit."""


class Question(NamedTuple):
    """Question whether to accept the base policy's choice.

    Attributes
    ----------
    position : int
        Position of the chosen job in the queue.
    row : int
        Row of the chosen job.
    rejections : int
        Number of earlier rejections of this job.
    """

    position: int
    row: int
    rejections: int


class Inspection:
    """Inspection rules of one run: pass every observation to `next`, and an answer to every question to `decide`.

    When a scheduling cycle opens, the base policy chooses a job, and a question is asked about it.

    * *Accepted*: the job starts if it fits, and the next choice is asked about. If it does not fit, it gets a
      reservation, around which other jobs are backfilled at every arrival and completion. No question is asked until
      it has started.
    * *Rejected*: nothing starts before the next arrival, completion, outage or repair. The next question is asked
      then, or after ``interval`` if that is earlier.

    A job that was rejected ``max_rejections`` times is accepted without a question. The count of a job restarts at 0
    when it starts, so that it is 0 if an outage returns the job to the queue.

    Parameters
    ----------
    base : BasePolicy
        Policy whose choices are inspected.
    max_rejections : int, optional
        Maximum number of rejections per job, at least 1; None for no limit.
    interval : float
        Longest time from a rejection to the next question, in seconds.
    keeps_accepted : bool
        Whether an accepted job that does not fit remains the chosen one until it has started, as in the paper's
        SchedInspector. Otherwise the base policy chooses again at each arrival and completion, so that accepting
        every choice is EASY backfilling with the order of the base policy. Even then, no further question is asked
        about a job that was accepted.

    Raises
    ------
    InvalidConfiguration
        If a number is out of range.
    """

    def __init__(
        self, base: BasePolicy, *, max_rejections: int | None = 72, interval: float = 600.0, keeps_accepted: bool = True
    ) -> None:
        if max_rejections is not None:
            check_int("max_rejections", max_rejections, least=1)
        self.base = base
        self.max_rejections = max_rejections
        self.interval = check_float("interval", interval, above=0)
        self.keeps_accepted = keeps_accepted
        self.reset()

    def reset(self) -> None:
        """Reset the state for a new run."""
        self.question: Question | None = None
        self._rejections: dict[int, int] = {}
        self._accepted: set[int] = set()
        self._head: int | None = None
        self._seen: tuple[int, int, int] | None = None
        self._until = math.inf

    def next(self, observation: BatchObservation) -> Question | Answer:
        """Return the next question, or the action for the cluster if there is none.

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision, which remains pending while a question is open.

        Returns
        -------
        Question, int, list of int, WaitUntil or None
            Question to answer with :meth:`decide`, or action for the cluster.
        """
        queue = observation.queue
        if not len(queue):
            return None
        if self._seen is not None:
            if observation.time < self._until and self._seen == _state(observation):
                return self._wait()  # woken for an earlier rejection, whose wait has already ended
            self._seen = None
        if self._head is not None:
            return self._accept(observation, int((queue.row == self._head).argmax()))
        position = self.base.first(queue, observation.time)
        row = int(queue.row[position])
        rejections = self._rejections.get(row, 0)
        if row in self._accepted or rejections == self.max_rejections:
            return self._accept(observation, position)
        self.question = Question(position, row, rejections)
        return self.question

    def decide(self, observation: BatchObservation, *, accept: bool) -> Answer:
        """Answer the open question and return the action for the cluster.

        Parameters
        ----------
        observation : BatchObservation
            Observation for which the question was asked.
        accept : bool
            Whether to follow the base policy's choice.

        Returns
        -------
        int, list of int, WaitUntil or None
            Action for the cluster.

        Raises
        ------
        DesimError
            If no question is open.
        """
        question, self.question = self.question, None
        if question is None:
            raise DesimError("no question is open; call next() first")
        if accept:
            return self._accept(observation, question.position)
        self._rejections[question.row] = question.rejections + 1
        self._end_cycle(observation, [], observation.time + self.interval)
        return self._wait()

    def _accept(self, observation: BatchObservation, position: int) -> Answer:
        """Return the action that starts a job, or that backfills others while it waits for its cores."""
        queue = observation.queue
        row = int(queue.row[position])
        if queue.requested_cores[position] <= observation.free_cores:
            self._forget(row)
            return row
        self._accepted.add(row)
        if self.keeps_accepted:
            self._head = row
        started = self.base.backfill(observation, position)
        self._end_cycle(observation, started or [], math.inf)
        return started

    def _forget(self, row: int) -> None:
        """Remove a job that starts from all state."""
        self._rejections.pop(row, None)
        self._accepted.discard(row)
        if row == self._head:
            self._head = None

    def _end_cycle(self, observation: BatchObservation, started: list[int], until: float) -> None:
        """Store the expected cluster state if nothing happens except the starts of the given jobs."""
        for row in started:
            self._forget(row)
        changes, length, down = _state(observation)
        self._seen = changes + len(started), length - len(started), down
        self._until = until

    def _wait(self) -> Answer:
        return WaitUntil(self._until) if self._until < math.inf else None


class AcceptingAgent:
    """Agent that accepts every choice of the base policy: the baseline of an inspector.

    Parameters
    ----------
    inspection : Inspection
        Inspection rules; each run resets them.
    """

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        self.name = inspection.base.name

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Reset the inspection for a new run."""
        self.inspection.reset()

    def act(self, observation: BatchObservation) -> Answer:
        """Return the action of the base policy."""
        found = self.inspection.next(observation)
        return self.inspection.decide(observation, accept=True) if isinstance(found, Question) else found


def _state(observation: BatchObservation) -> tuple[int, int, int]:
    """Return a state that every arrival, completion, outage or repair changes."""
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
"""Columns of ``features``, all from 0 to 1. The first four describe the job in question.

``queue_delay`` is the potential cost of a rejection: the sum over all queued jobs of the interval divided by the
requested time, or by 10 s if that is longer. Times and the delay are logarithms of 1 + the value, scaled so that 1
stands for 10^6 s and for a delay of 10^4.
"""

OBJECTIVES = ("bounded_slowdown_mean", "waiting_time_mean")
"""Metrics that may be the objective; jobs that have not finished count with their values so far."""

_LONGEST_LOG = float(np.log1p(1e6))
_DELAY_LOG = float(np.log1p(1e4))
_SHORTEST = 10.0  # seconds, as in the bounded slowdown
_USUAL_MOST = 72  # scale for the number of rejections if max_rejections is None
_HALF_DAY = 43_200.0  # seconds
_LONGEST_REQUEST = 124_707.0  # seconds, in the workload lublin_256
_RELEASED_DELAY = 60.0 * 128


class InspectionEncoder:
    """Encoder that shows the job in question; action 1 accepts it, action 0 rejects it, and both are always feasible.

    Parameters
    ----------
    inspection : Inspection
        Inspection whose questions are shown, and answered by ``decode``.
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
            Observation for which the question was asked.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays with the columns :data:`INSPECTION_FEATURES`; 0 if no question is open.
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
        """Return waiting time, requested time, rejections and queue delay, each scaled to about 1."""
        logarithms = np.log1p((waiting, requested, delay))
        most = self.inspection.max_rejections or _USUAL_MOST
        return logarithms[0] / _LONGEST_LOG, logarithms[1] / _LONGEST_LOG, rejections / most, logarithms[2] / _DELAY_LOG

    def decode(self, observation: BatchObservation, action: Any) -> tuple[Answer, bool]:
        """Answer the question and return the action for the cluster.

        Parameters
        ----------
        observation : BatchObservation
            Observation for which the question was asked.
        action : int
            Answer: 1 accepts, 0 rejects.

        Returns
        -------
        tuple of answer and bool
            Action for the cluster, and True, because both answers are feasible.

        Raises
        ------
        InvalidConfiguration
            If the action is neither 0 nor 1.
        """
        return self.inspection.decide(observation, accept=bool(check_action(action, 2))), True

    def is_forced(self, observation: BatchObservation) -> bool:
        """Return False: every question leaves a choice."""
        return False


class ReleasedEncoder(InspectionEncoder):
    """Encoder of the same features as the released program shows them: linear, and below 1.

    Source: SchedInspector's public program, DIR-LAB/SchedInspector, 2022. The value 1 stands for a waiting time of 12
    hours. It also stands for the number of rejections that would take 12 hours if each lasted a full interval, however
    long they really took. The longest requested time is that of the workload ``lublin_256``.

    Parameters
    ----------
    inspection : Inspection
        Inspection whose questions are shown, and answered by ``decode``.
    """

    MOST = 1.0 - 1e-5

    def _times(self, waiting: float, requested: float, rejections: int, delay: float) -> Sequence[float]:
        rejected = rejections * self.inspection.interval
        return waiting / _HALF_DAY, requested / _LONGEST_REQUEST, rejected / _HALF_DAY, delay / _RELEASED_DELAY


class Improvement:
    """Reward: relative improvement over the base policy on the same sequence, (base - own) / base, earned at its end.

    The released program divides by the larger of the two means, so that the reward lies between -1 and 1.

    Parameters
    ----------
    agent : AcceptingAgent
        Base policy without inspection.
    objective : {"bounded_slowdown_mean", "waiting_time_mean"}
        Quantity whose mean over all jobs is compared. A mean of the base policy below 1 (for waiting time: 1 s) counts
        as 1.
    floor : float
        Lower limit of the reward of a sequence. If jobs hardly wait under the base policy, an inspector may be many
        times worse, and a few such sequences would dominate the mean.
    by_larger : bool
        Whether to divide the difference by the larger of the two means, as the released program does.

    Attributes
    ----------
    own, base : Result or None
        Results of the last sequence; None while a sequence is running.
    metrics : list of dict
        Metrics of both runs, including unfinished jobs.

    Raises
    ------
    InvalidConfiguration
        If the objective is unknown, or the floor is not below 0.
    """

    def __init__(
        self,
        agent: AcceptingAgent,
        objective: str = "bounded_slowdown_mean",
        *,
        floor: float = -math.inf,
        by_larger: bool = False,
    ) -> None:
        if not floor < 0:
            raise InvalidConfiguration(f"floor: got {floor!r}, expected a number below 0")
        self.agent = agent
        self.objective = check_choice("objective", objective, OBJECTIVES)
        self.floor = floor
        self.by_larger = by_larger
        self.own: Result | None = None
        self.base: Result | None = None
        self.metrics: list[dict[str, float]] = []
        self._earned = 0.0

    def reset(self, simulation: Simulation) -> None:
        """Start a sequence."""
        self.own = self.base = None
        self._earned = 0.0

    def on_decision(self, answer: Any) -> None:
        """Do nothing: single decisions earn no reward."""

    def ended(self, simulation: Simulation, problem: Problem) -> None:
        """Compute the reward of a finished sequence by running the base policy on it.

        Parameters
        ----------
        simulation : Simulation
            Finished simulation of the inspector.
        problem : Problem
            Problem that was simulated.
        """
        self.own = simulation.finish(agent="gymnasium")
        self.base = simulate(problem, self.agent, seed=simulation.seed)
        self.metrics = [result.metrics(unfinished="include") for result in (self.own, self.base)]
        own, base = (metrics[self.objective] for metrics in self.metrics)
        self._earned = max((base - own) / max(base, own if self.by_larger else 1.0, 1.0), self.floor)

    def pop_reward(self) -> float:
        """Return the reward earned since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned


class InspectorEnv(SchedulingEnv):
    """Environment in which a learner accepts or rejects the choices of a base policy on sequences of jobs.

    Each step is a question. Everything without a question (jobs that wait for their cores, backfilling) happens between
    steps.

    Parameters
    ----------
    base : BasePolicy
        Policy that chooses and backfills, for example :class:`desim.agents.batch.inspector.BackfilledPriority`.
    jobs : sequence of Job, or callable
        Trace from which sequences are cut, or a function that creates the problem of a sequence from a random
        generator. The jobs of such a problem must not be an iterator, because the base policy runs on them as well.
    num_cores : int
        Number of cores of the cluster.
    num_jobs : int
        Number of jobs of a sequence cut from a trace. All of them are run to the end, and no others arrive.
    reward : {"bounded_slowdown_mean", "waiting_time_mean"}
        Quantity whose relative improvement is the reward at the end of a sequence.
    floor : float
        Lower limit of the reward of a sequence.
    released : bool
        Whether to use the features and the reward of the released program.
    **rules
        Other arguments of :class:`~desim.problems.batch.inspection.Inspection`.

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
        reward: Literal["bounded_slowdown_mean", "waiting_time_mean"] = "bounded_slowdown_mean",
        floor: float = -math.inf,
        released: bool = False,
        **rules: Any,
    ) -> None:
        self.inspection = Inspection(base, **rules)
        alone = AcceptingAgent(Inspection(base, **rules))
        self.improvement = Improvement(alone, reward, floor=floor, by_larger=released)
        if not callable(jobs):
            jobs = TraceEpisodes([jobs], num_cores, num_jobs=num_jobs, arrivals="closed")
        encoder = ReleasedEncoder if released else InspectionEncoder
        super().__init__(jobs, encoder(self.inspection), self.improvement)

    def next_problem(self) -> Problem:
        """Return the problem of a sequence, and keep it for the base policy."""
        self._problem = problem = super().next_problem()
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
        """End the sequence and return its result."""
        return self.improvement.own or super().result()
