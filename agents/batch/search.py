"""Search over orders of the queue for the batch cluster.

At each decision, a plan is an order of the queued jobs, which backfilling decodes into start times: by requested times,
as if no further jobs arrived. Single jobs are moved to other positions until the budget is used up, and moves that
lower the objective are kept. The agent starts the jobs that start now in the best plan; the next decision continues
from the rest of that plan.

A plan is decoded by simple and by EASY backfilling, see :mod:`desim.agents.batch.backfilling`, and the better of the
two is used. The local search is a standard one of scheduling theory, insertion moves with first improvement (see for
example R. Ruiz and T. Stuetzle, European Journal of Operational Research 177(3), 2007, on flow shops).
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.cores_only import refuse_nodes
from desim.agents.search import Budget, SearchName, decoders
from desim.checks import check_choice
from desim.problems.batch import BatchObservation, Queue
from desim.reprs import NamedRepr

__all__ = ["OrderDecoder", "SearchAgent"]

Objective = Literal["waiting_time_mean", "bounded_slowdown_mean", "turnaround_time_mean", "slowdown_mean"]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

DECODERS = "desim.agents.batch.decoders"
MOVES = Budget(moves=300)
THRESHOLD = 10.0  # seconds, as in the metrics
SHORTEST = 1.0  # seconds; lower limit of the divisor in an unbounded slowdown
AT_ONCE = 64  # moves between two readings of the clock
MOST_JOBS = 64  # number of jobs in a plan, those with the shortest requested times; the others fill holes


class OrderDecoder:
    """Decoder of orders of the observed queue, with preallocated arrays and compiled functions.

    An order consists of positions in the queue; 0 is its head.

    Parameters
    ----------
    rng : numpy.random.Generator
        Random generator for :meth:`improve`; one number is drawn from it.

    Attributes
    ----------
    score : float
        Score of the last decoding: weighted sum of waiting times from now on, in seconds.

    Raises
    ------
    MissingDependency
        If numba is not installed.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._compiled: Any = decoders(DECODERS)
        self._random = rng.integers(2**64, size=1, dtype=np.uint64)
        self._make_room(64, 64)
        self.score, self._due, self._length = 0.0, 0, 0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the module of decoders, which cannot be copied."""
        return {name: value for name, value in vars(self).items() if name != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state and import the decoders again."""
        vars(self).update(state, _compiled=decoders(DECODERS))

    def see(self, observation: BatchObservation, weights: Floats | float = 1.0) -> None:
        """Read the state to decode for.

        Parameters
        ----------
        observation : BatchObservation
            Observation with L queued jobs.
        weights : float or array of float, shape (L,)
            Weight of a second of waiting, for all jobs or for each.
        """
        queue = observation.queue
        ends, released = observation.running.expected_end, observation.running.requested_cores
        count, running = len(queue), len(ends)
        if count > len(self._cores) or running > len(self._ends):
            self._make_room(max(2 * count, len(self._cores)), max(2 * running, len(self._ends)))
        self._length = count
        self._ends[:running] = ends
        self._released[:running] = released
        self._cores[:count] = queue.requested_cores
        self._times[:count] = queue.expected_time
        self._weights[:count] = weights
        arrays = self._ends, self._released, self._cores, self._times, self._weights
        now = float(observation.time), observation.free_cores, running
        self._situation = self._compiled.BatchSearchState(*now, *arrays)

    def decode(self, order: Integers, *, easy: bool, limit: float = math.inf) -> float:
        """Return the score of an order.

        Parameters
        ----------
        order : array of int
            Positions in the queue, without jobs that request more cores than are up.
        easy : bool
            Whether to decode by EASY backfilling; otherwise by simple backfilling.
        limit : float
            Score at which decoding stops because it cannot be an improvement.

        Returns
        -------
        float
            Score; infinite if not below the limit, in which case the start times are incomplete.
        """
        self.score, self._due = self._compiled.decode(order, easy, self._situation, limit, self._work)
        return self.score

    @property
    def starts(self) -> Floats:
        """Start times of the last decoding in seconds, shape (L,); valid only for jobs in the order."""
        starts: Floats = self._work.starts[: self._length]
        return starts.copy()

    @property
    def due(self) -> Integers:
        """Positions of the jobs that start now in the last decoding, in order of start."""
        due: Integers = self._work.sequence[: self._due]
        return due.copy()

    def improve(self, order: Integers, *, easy: bool, moves: int) -> float:
        """Improve an order by moving single jobs to other positions.

        Parameters
        ----------
        order : array of int
            Positions in the queue, as in :meth:`decode`; changed in place.
        easy : bool
            Kind of backfilling, as in :meth:`decode`.
        moves : int
            Number of moves to try.

        Returns
        -------
        float
            Score of the resulting order.
        """
        self.score = self._compiled.improve(order, easy, self._situation, moves, self._work)
        return self.score

    def _make_room(self, num_jobs: int, num_running: int) -> None:
        """Allocate arrays for given numbers of queued and running jobs."""
        whole, real = np.int64, np.float64
        self._ends, self._released = np.zeros(num_running, real), np.zeros(num_running, whole)
        self._cores = np.zeros(num_jobs, whole)
        self._times, self._weights = np.zeros(num_jobs, real), np.zeros(num_jobs, real)
        self._work: Any = self._compiled.Work(
            np.zeros(num_jobs, real),
            np.zeros(num_jobs, whole),
            np.zeros(num_jobs, real),
            np.zeros(num_jobs, whole),
            np.zeros(num_jobs + 1, whole),
            self._random,
        )


class SearchAgent(NamedRepr):
    """Agent that starts the jobs that start now in the best plan, found by local search over orders of the queue.

    Parameters
    ----------
    objective : {"waiting_time_mean", "bounded_slowdown_mean", "turnaround_time_mean", "slowdown_mean"}
        Mean over the queued jobs that is minimized, by requested times. Waiting time and turnaround time have the same
        best plans. The bounded slowdown has a threshold of 10 s.
    budget : Budget, optional
        Limit on the search at each decision. Default: 300 moves.

    Attributes
    ----------
    name : str
        Full name, such as ``"search:batch:waiting_time_mean:300"``.
    score : float
        Score of the best plan at the last decision, see :class:`OrderDecoder`.

    Raises
    ------
    InvalidConfiguration
        If the objective is unknown.
    MissingDependency
        If numba is not installed.
    """

    def __init__(self, objective: Objective = "waiting_time_mean", budget: Budget = MOVES) -> None:
        self.objective = check_choice("objective", objective, get_args(Objective))
        self.budget = budget
        self.name = str(SearchName("batch", objective, budget))
        self.reset({}, np.random.default_rng(0))

    @classmethod
    def named(cls, rest: str) -> SearchAgent:
        """Return the agent with a given name.

        Parameters
        ----------
        rest : str
            Name without ``search:``: ``batch``, ``batch:OBJECTIVE`` or ``batch:OBJECTIVE:BUDGET``.

        Returns
        -------
        SearchAgent
            A new agent.

        Raises
        ------
        InvalidConfiguration
            If a part is unknown.
        """
        name = SearchName.parse("batch", rest, get_args(Objective), MOVES)
        return cls(name.objective, name.budget)  # type: ignore[arg-type]  # checked by parse

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a run with its random generator; raise InvalidConfiguration if the cluster has nodes."""
        refuse_nodes(simulation_info, self.name, "rollout-waiting_time_mean:easy-sjf")
        self._decoder = OrderDecoder(rng)
        self._plan = np.empty(0, np.int64)
        self.score = 0.0

    def act(self, observation: BatchObservation) -> list[int] | None:
        """Return the jobs to start, or None."""
        queue, decoder = observation.queue, self._decoder
        up = observation.num_cores - observation.down_cores
        known = (queue.requested_cores <= up).nonzero()[0]  # wider jobs cannot start until cores are repaired
        if not len(known):
            return None
        decoder.see(observation, self._weights(queue.expected_time))
        by_time = known[queue.expected_time[known].argsort(kind="stable")]
        order, easy = self._best_beginning(self._beginnings(queue, by_time[:MOST_JOBS]))
        self.score = self._improve(order, easy)
        self._plan = queue.row[order]
        decoder.decode(np.concatenate((order, by_time[MOST_JOBS:])), easy=easy, limit=0.0)
        starts: list[int] = queue.row[decoder.due].tolist()
        return starts or None

    def _weights(self, times: Floats) -> Floats | float:
        """Return the weight of a second of waiting for each job."""
        if self.objective == "bounded_slowdown_mean":
            return 1.0 / np.maximum(times, THRESHOLD)
        if self.objective == "slowdown_mean":
            return 1.0 / np.maximum(times, SHORTEST)
        return 1.0

    def _beginnings(self, queue: Queue, by_time: Integers) -> list[Integers]:
        """Return the orders from which the search may start: by expected time, by area, and the last plan's."""
        areas = queue.expected_time[by_time] * queue.requested_cores[by_time]
        orders = [by_time, by_time[areas.argsort(kind="stable")]]
        return [*orders, self._continued(queue, by_time)] if len(self._plan) else orders

    def _continued(self, queue: Queue, by_time: Integers) -> Integers:
        """Return the last plan's order; each new job precedes the first one in it with a longer expected time."""
        rows = queue.row[by_time]
        by_row = rows.argsort()
        places = np.minimum(rows[by_row].searchsorted(self._plan), len(rows) - 1)
        known = by_row[places[rows[by_row[places]] == self._plan]]
        is_new = np.ones(len(rows), np.bool_)
        is_new[known] = False
        old, new = by_time[known], by_time[is_new]
        longest = np.maximum.accumulate(
            queue.expected_time[old]
        )  # running maximum, which is sorted, so that searchsorted finds the first longer job
        return np.insert(old, longest.searchsorted(queue.expected_time[new], "right"), new)

    def _best_beginning(self, orders: list[Integers]) -> tuple[Integers, bool]:
        """Return the order with the best score, and whether EASY backfilling gave it."""
        best, easy, least = orders[0], False, math.inf
        for order in orders:
            for reserving in (False, True):
                score = self._decoder.decode(order, easy=reserving, limit=least)
                if score < least:
                    best, easy, least = order, reserving, score
        return best, easy

    def _improve(self, order: Integers, easy: bool) -> float:
        """Search until the budget is used up; return the score."""
        moves, used = self.budget.most_moves, self.budget.timer()
        score = math.inf
        while score == math.inf or (moves > 0 and used() < 1.0):
            count = moves if self.budget.seconds is None else min(moves, AT_ONCE)
            score = self._decoder.improve(order, easy=easy, moves=int(count))
            moves -= count
        return score
