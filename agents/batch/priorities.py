"""Priority orders for a batch queue; each is also an agent.

A priority gives every queued job a score. The smallest score comes first; ties are broken by arrival. As an agent, a
priority is strict: it starts the first job if that fits and waits otherwise. With
:mod:`desim.agents.batch.backfilling`, other jobs may overtake.

The score functions F1 to F4 come from Carastan-Santos and de Camargo, "Obtaining dynamic scheduling policies with
simulation and machine learning", SC 2017; WFP3 and UNICEP from Tang, Lan, Desai and Buettner, "Fault-aware,
utility-based job scheduling on Blue Gene/P systems", Cluster 2009. In their formulas, r is
the requested time, n the number of requested cores, s the submission time and w the waiting time; times are in seconds.
The orders named ``...-expected`` take as r the time that the cluster's predictor expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_float, did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, CompiledRule, Queue
from desim.problems.batch.observation import MANY
from desim.reprs import NamedRepr

__all__ = [
    "EXPECTED",
    "F1",
    "F2",
    "F3",
    "F4",
    "FCFS",
    "LCFS",
    "PRIORITIES",
    "SJF",
    "UNICEP",
    "WFP3",
    "Multifactor",
    "Priority",
    "SmallestFirst",
    "as_priority",
]


class Priority(NamedRepr):
    """An order of the queue, and the strict agent that starts jobs in this order."""

    name: str = "priority"

    def look(self, observation: BatchObservation) -> None:
        """Read the state of the cluster before jobs are ordered; most orders ignore it.

        Parameters
        ----------
        observation : BatchObservation
            Observation of the current decision.
        """

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return a score for every queued job, shape (L,); the smallest score comes first.

        Parameters
        ----------
        queue : Queue
            Queue of L jobs.
        time : float
            Current time in seconds.
        """
        return np.arange(len(queue), dtype=np.float64)

    def term(self, queue: Queue) -> NDArray[np.float64]:
        """Return the part of the scores that depends on neither r nor the time, shape (L,)."""
        return np.zeros(len(queue))

    def first(self, queue: Queue, time: float) -> int:
        """Return the position of the first job in a nonempty queue."""
        return int(self.scores(queue, time).argmin())

    def order(self, queue: Queue, time: float) -> NDArray[np.int64]:
        """Return the positions of all queued jobs from first to last, shape (L,)."""
        return self.scores(queue, time).argsort(kind="stable")

    def order_among(self, queue: Queue, time: float, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some positions, given in ascending order, from first to last, shape (n,)."""
        if len(positions) < 2:
            return positions
        return positions[self.scores(queue, time)[positions].argsort(kind="stable")]

    def first_few(self, observation: BatchObservation) -> NDArray[np.int64]:
        """Return the positions of the first jobs, at least one more than could start now, or of all."""
        queue = observation.queue
        if (jobs := self._kept(queue)) is None or observation.nodes is not None:
            return self.order(queue, observation.time)
        return queue.row.searchsorted([row for _, row in jobs[: observation.free_cores + 1]])

    def parts_among(self, queue: Queue, time: float, positions: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield some positions, given in ascending order, from first to last in parts, for who needs the first ones."""
        jobs = self._kept(queue) if len(positions) > MANY else None
        if jobs is None or len(positions) < len(queue) // 8:
            yield self.order_among(queue, time, positions)
            return
        chosen = np.zeros(len(queue), np.bool_)
        chosen[positions] = True
        for begin in range(0, len(jobs), 64):
            part = queue.row.searchsorted([row for _, row in jobs[begin : begin + 64]])
            yield part[chosen[part]]

    def _kept(self, queue: Queue) -> list[tuple[float, int]] | None:
        """Return the sorted jobs of a long queue, if the scores depend on each job alone and not on the time."""
        if len(queue) < MANY or type(self) not in BY_JOB:
            return None
        return queue.sorted_by(partial(self.scores, time=0.0), (type(self), getattr(self, "expected", False)))

    def compiled_rule(self) -> CompiledRule | str:
        """Return what the compiled engine needs to know, or why it cannot simulate this agent."""
        return compiled_rule(self, type(self), "strict", self)

    def act(self, observation: BatchObservation) -> list[Any] | None:
        """Start jobs in order until one does not fit."""
        self.look(observation)
        queue, time, plan = observation.queue, observation.time, observation.plan()
        if not len(queue):
            return None
        first = self.first(queue, time)
        if not plan.fits(first):  # with fixed scores, no job that is already queued can overtake this one
            return plan.wait(first if type(self).scores in FIXED_SCORES else None)
        plan.start_in_order(self.first_few(observation))
        return plan.answer


class FCFS(Priority):
    """First come, first served."""

    name = "fcfs"

    def first(self, queue: Queue, time: float) -> int:
        """Return 0, because the queue is in order of arrival."""
        return 0

    def order(self, queue: Queue, time: float) -> NDArray[np.int64]:
        """Return all positions in order of arrival."""
        return np.arange(len(queue))

    def order_among(self, queue: Queue, time: float, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the given ascending positions."""
        return positions

    def act(self, observation: BatchObservation) -> list[Any] | None:
        """Start jobs from the head of the queue until one does not fit; then wait for that job's cores."""
        plan = observation.plan()
        blocked = plan.start_in_order()
        if blocked is not None and (wait := plan.wait(blocked, arrivals=False)):
            plan.answer += wait
        return plan.answer


class LCFS(Priority):
    """Last come, first served."""

    name = "lcfs"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return scores that fall from the head of the queue to its tail."""
        return -np.arange(len(queue), dtype=np.float64)


class ByLength(Priority):
    """An order that depends on the lengths of jobs.

    Parameters
    ----------
    expected : bool
        Whether the lengths are the times that the cluster's predictor expects instead of the requested ones.
    """

    def __init__(self, *, expected: bool = False) -> None:
        self.expected = expected
        if expected:
            self.name = f"{type(self).name}-expected"

    def lengths(self, queue: Queue) -> NDArray[np.float64]:
        """Return r, shape (L,)."""
        return queue.expected_time if self.expected else queue.requested_time


class SJF(ByLength):
    """Shortest job first, by requested time."""

    name = "sjf"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return r."""
        return self.lengths(queue)


class SmallestFirst(Priority):
    """Smallest job first, by requested cores; the DBF paper calls this shortest job first."""

    name = "smallest-first"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return n."""
        return queue.requested_cores.astype(np.float64)


def _log10_submission(queue: Queue) -> NDArray[np.float64]:
    """Return log10(s), with s raised to at least 1 s because the logarithm is undefined at 0."""
    return np.log10(np.maximum(queue.submission_time, 1.0))


class F1(ByLength):
    """Score log10(r) n + 870 log10(s)."""

    name = "f1"

    def term(self, queue: Queue) -> NDArray[np.float64]:
        """Return 870 log10(s)."""
        return 870.0 * _log10_submission(queue)

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score, with r of at least 1 s."""
        requested = np.log10(np.maximum(self.lengths(queue), 1.0))
        return requested * queue.requested_cores + self.term(queue)


class F2(ByLength):
    """Score sqrt(r) n + 25600 log10(s)."""

    name = "f2"

    def term(self, queue: Queue) -> NDArray[np.float64]:
        """Return 25600 log10(s)."""
        return 25_600.0 * _log10_submission(queue)

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score."""
        return np.sqrt(self.lengths(queue)) * queue.requested_cores + self.term(queue)


class F3(ByLength):
    """Score r n + 6.86e6 log10(s)."""

    name = "f3"

    def term(self, queue: Queue) -> NDArray[np.float64]:
        """Return 6.86e6 log10(s)."""
        return 6.86e6 * _log10_submission(queue)

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score."""
        return self.lengths(queue) * queue.requested_cores + self.term(queue)


class F4(ByLength):
    """Score r sqrt(n) + 5.3e5 log10(s)."""

    name = "f4"

    def term(self, queue: Queue) -> NDArray[np.float64]:
        """Return 5.3e5 log10(s)."""
        return 5.3e5 * _log10_submission(queue)

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score."""
        return self.lengths(queue) * np.sqrt(queue.requested_cores) + self.term(queue)


class WFP3(ByLength):
    """Score -(w/r)^3 n; it grows with the slowdown and favours wide jobs."""

    name = "wfp3"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score, with r of at least 1 s."""
        ratio = (time - queue.submission_time) / np.maximum(self.lengths(queue), 1.0)
        return np.asarray(-(ratio * ratio * ratio) * queue.requested_cores)


class UNICEP(ByLength):
    """Score -w / (log2(n) r), with log2(1) taken as 1; it favours small, short jobs that have waited."""

    name = "unicep"

    def term(self, queue: Queue) -> NDArray[np.float64]:
        """Return log2(n), with log2(1) taken as 1."""
        return np.where(queue.requested_cores > 1, np.log2(queue.requested_cores), 1.0)

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score, with r of at least 1 s."""
        waiting = time - queue.submission_time
        return np.asarray(-waiting / (self.term(queue) * np.maximum(self.lengths(queue), 1.0)))


class Multifactor(Priority):
    r"""Slurm's multifactor priority: the weighted sum of factors from 0 to 1; the largest sum comes first.

    ============== =============================================================================================
    factor         value
    ============== =============================================================================================
    age            w / ``max_age``, at most 1
    size           n / C, or 1 - n / C with ``narrow_first``; C is the number of cores of the cluster
    fair share     :math:`2^{-(U_u / U) / (S_u / S)}` for user u: U_u is the user's core-seconds, halved every
                   ``half_life``, and U their sum over all users; S_u is the user's share, and S the sum of the
                   shares of all users who have queued jobs or used cores
    partition      the value in `partitions`, 0 for other partitions
    quality        priority of the job's QOS divided by the largest priority of any QOS; 0 without a QOS
    ============== =============================================================================================

    The formulas are those in Slurm's documentation of the plug-in ``priority/multifactor``, with the classic fair-share
    algorithm, a dampening factor of 1 and no hierarchy of users.

    Parameters
    ----------
    age, size, fair_share, partition, qos : float
        Weights of the factors, at least 0.
    max_age : float
        Waiting time in seconds at which the age factor reaches 1, above 0.
    half_life : float
        Time in seconds after which past usage counts half, above 0.
    narrow_first : bool
        Whether jobs with fewer cores have a larger size factor than jobs with more.
    shares : mapping of int to float, optional
        Shares by user id, above 0; other users have share 1.
    partitions : mapping of str to float, optional
        Factors by partition name, from 0 to 1.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    name = "multifactor"

    def __init__(
        self,
        *,
        age: float = 1_000.0,
        size: float = 1_000.0,
        fair_share: float = 10_000.0,
        partition: float = 1_000.0,
        qos: float = 1_000.0,
        max_age: float = 7 * 86_400.0,
        half_life: float = 7 * 86_400.0,
        narrow_first: bool = False,
        shares: Mapping[int, float] | None = None,
        partitions: Mapping[str, float] | None = None,
    ) -> None:
        self.age, self.size = check_float("age", age, least=0), check_float("size", size, least=0)
        self.fair_share = check_float("fair_share", fair_share, least=0)
        self.partition = check_float("partition", partition, least=0)
        self.qos = check_float("qos", qos, least=0)
        self.max_age, self.half_life = (
            check_float("max_age", max_age, above=0),
            check_float("half_life", half_life, above=0),
        )
        self.narrow_first = narrow_first
        self.shares = {
            user: check_float(f"the share of user {user}", share, above=0) for user, share in (shares or {}).items()
        }
        self.partitions = dict(partitions or {})
        for factor in self.partitions.values():
            check_float("a factor of partitions", factor, least=0, most=1)
        self._observation: BatchObservation | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings for a copy, which looks at its own run before it scores."""
        return self.__dict__ | {"_observation": None}

    def look(self, observation: BatchObservation) -> None:
        """Store the observation, from which the scores read the users' past usage."""
        self._observation = observation
        observation.usage(self.half_life)

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the negative priority."""
        priority = self.age * np.minimum((time - queue.submission_time) / self.max_age, 1.0)
        if (seen := self._observation) is None:
            raise InvalidConfiguration("multifactor: got no observation before scores; try look(observation) first")
        width = queue.requested_cores / seen.num_cores
        priority += self.size * (1.0 - width if self.narrow_first else width)
        if self.fair_share:
            users, places = np.unique(queue.user_id, return_inverse=True)
            factors = self.fair_share_factors(users.tolist(), seen.usage(self.half_life).by_user(time))
            priority += self.fair_share * np.array([factors[user] for user in users.tolist()])[places]
        if self.partition and self.partitions:
            priority += self.partition * np.array([self.partitions.get(name, 0.0) for name in queue["partition"]])
        if self.qos and (highest := max((one.priority for one in seen.qos.values()), default=0.0)):
            factors_of = {name: one.priority / highest for name, one in seen.qos.items()}
            priority += self.qos * np.array([factors_of.get(name, 0.0) for name in queue["qos"]])
        return -priority

    def fair_share_factors(self, users: Iterable[int], used: Mapping[int, float]) -> dict[int, float]:
        """Return the fair-share factors of users.

        Parameters
        ----------
        users : iterable of int
            User ids of the queued jobs.
        used : mapping of int to float
            Core-seconds by user id, for all users with past usage.
        """
        everybody = sorted({*users, *used})
        total = shares = 0.0
        for amount in used.values():  # added one by one, unlike sum(), whose digits depend on the version of Python
            total += amount
        for user in everybody:
            shares += self.shares.get(user, 1.0)
        if not total:
            return dict.fromkeys(everybody, 1.0)
        return {
            user: 2.0 ** -(used.get(user, 0.0) / total / (self.shares.get(user, 1.0) / shares)) for user in everybody
        }


BY_JOB = (SJF, SmallestFirst, F1, F2, F3, F4)
"""Priorities whose scores depend on each job alone."""

FIXED_SCORES = {each.scores for each in (Priority, LCFS, *BY_JOB)}
"""Scores that do not change over time."""

PRIORITIES: dict[str, type[Priority]] = {
    priority.name: priority for priority in (FCFS, LCFS, SJF, SmallestFirst, F1, F2, F3, F4, WFP3, UNICEP, Multifactor)
}
"""Priority classes by name, in the order of the list."""


def compiled_rule(
    agent: Any, of: type, kind: Any, order: Priority, backfill: Priority | None = None
) -> CompiledRule | str:
    """Return the compiled rule of an agent of ours, or why there is none.

    Parameters
    ----------
    agent : Agent
        Agent.
    of : type
        Its class, if it is desim's; a subclass may decide otherwise.
    kind : str
        Kind of rule, see :class:`~desim.problems.batch.CompiledRule`.
    order, backfill : Priority
        Its orders.
    """
    if getattr(agent, "specific_cores", False):
        return "it reserves particular cores"
    if type(agent) is not of:
        return "its class is not one of desim's"
    for one in (order, backfill or order):
        if type(one) not in PRIORITIES.values():
            return f"its order {one.name} is not one of desim's"
        if isinstance(one, Multifactor) and one.partition and one.partitions:
            return f"the scores of {one.name} depend on partitions"
    return CompiledRule(kind, order, None if backfill is order else backfill)


EXPECTED: dict[str, Callable[[], Priority]] = {
    f"{name}-expected": partial(one, expected=True) for name, one in PRIORITIES.items() if issubclass(one, ByLength)
}
"""What makes the priorities by expected instead of requested times, by name."""


def as_priority(order: str | Priority | type[Priority]) -> Priority:
    """Return the priority given by a name, an instance or a class.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        For example ``"fcfs"``, ``FCFS()`` or ``FCFS``.

    Returns
    -------
    Priority
        An instance of the priority.

    Raises
    ------
    InvalidConfiguration
            If the name is unknown.
    """
    if isinstance(order, Priority):
        return order
    if isinstance(order, type) and issubclass(order, Priority):
        return order()
    known: dict[str, Callable[[], Priority]] = {**PRIORITIES, **EXPECTED}
    if isinstance(order, str) and order in known:
        return known[order]()
    near = did_you_mean(order, known)
    raise InvalidConfiguration(f"unknown priority {order!r}{near}; expected one of {', '.join(known)}")
