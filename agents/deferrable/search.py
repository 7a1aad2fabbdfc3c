"""Search over plans of deferrable jobs: what starts when, under the capacity that is forecast.

In every slot the last plan is gone on with, new jobs are put in where they bring most, and then a few jobs leave and
others try for their room, as long as the budget lasts: a large-neighbourhood search (P. Shaw, CP 1998). What the plan
starts now is started.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.forecasts import Forecast
from desim.agents.deferrable.program import Instance
from desim.agents.deferrable.rolling_horizon import RollingHorizon
from desim.agents.search import Budget, SearchName, decoders
from desim.checks import one_of
from desim.problems.deferrable import DeferrableObservation, JobSet

__all__ = ["PlanDecoder", "SearchAgent"]

Objective = Literal["total_reward"]
Integers = NDArray[np.int64]

DECODERS = "desim.agents.deferrable.decoders"
MOVES = Budget(moves=100)
AT_ONCE = 16  # moves between two looks at the clock


class PlanDecoder:
    """A plan for an instance, and what it brings; from arrays, by compiled functions.

    Parameters
    ----------
    instance : Instance
        What is planned.
    starts : array of int, shape (num_jobs,)
        A plan in which no job starts where it does not fit, unless the instance allows that.
    seed : int
        Of the random numbers of :meth:`improve`.

    Raises
    ------
    MissingDependency
        If numba is not installed.
    """

    def __init__(self, instance: Instance, starts: Integers, seed: int = 0) -> None:
        self._compiled: Any = decoders(DECODERS)
        requests = np.ascontiguousarray(instance.requests)
        self._situation = self._compiled.Situation(
            np.ascontiguousarray(instance.first, np.int64),
            np.ascontiguousarray(instance.last, np.int64),
            np.ascontiguousarray(instance.worth, np.float64),
            np.ascontiguousarray(instance.duration, np.int64),
            requests,
            np.ascontiguousarray(instance.capacity),
            np.ascontiguousarray(instance.limit),
            float(instance.delay_weight),
            np.ascontiguousarray(instance.violation_weights, np.float64),
            bool(instance.overcommit),
        )
        used, begun = np.array(instance.held, np.float64, order="C"), np.zeros(instance.held.shape, np.int64)
        for job in np.flatnonzero(starts >= 0).tolist():
            used[starts[job] : starts[job] + instance.duration[job]] += requests[job]
            begun[starts[job]] += requests[job] > 0
        plan = np.array(starts, np.int64)
        random = np.array([seed], np.uint64)
        self._work = self._compiled.Work(plan, used, begun, plan.copy(), plan.copy(), random)

    @property
    def starts(self) -> Integers:
        """The slot of each job, -1 if it is not started."""
        starts: Integers = self._work.starts.copy()
        return starts

    @property
    def value(self) -> float:
        """What the plan brings, in core-slots, less the cost of all violations."""
        return float(self._compiled.value(self._situation, self._work))

    def place_all(self, order: Integers) -> float:
        """Put jobs that are not in the plan, one after another, where each brings most.

        Parameters
        ----------
        order : array of int
            The jobs.

        Returns
        -------
        float
            What that brings.
        """
        return float(self._compiled.place_all(order, self._situation, self._work))

    def improve(self, moves: int) -> float:
        """Take jobs out and others in, and keep what brings more.

        Parameters
        ----------
        moves : int
            How many times.

        Returns
        -------
        float
            By how much the plan brings more.
        """
        if not len(self._work.starts):
            return 0.0
        return float(self._compiled.improve(moves, self._situation, self._work))


class SearchAgent(RollingHorizon):
    """Starts what the best plan starts now, of the plans that a local search comes by in this slot and those before.

    Parameters
    ----------
    objective : {"total_reward"}
        What is to be large.
    budget : Budget, optional
        How long to search in each slot; by default 100 moves.
    forecast : Forecast, optional
        Of the capacity of the slots to come; if left out, it stays as it is.
    horizon : int, optional
        As for :class:`~desim.agents.deferrable.RollingHorizon`.
    margin : float
        As there.
    overcommit : bool
        As there.

    Attributes
    ----------
    name : str
        Such as ``"search:deferrable:total_reward:100"``.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If numba is not installed.
    """

    def __init__(
        self,
        objective: Objective = "total_reward",
        budget: Budget = MOVES,
        *,
        forecast: Forecast | None = None,
        horizon: int | None = None,
        margin: float = 0.0,
        overcommit: bool = False,
    ) -> None:
        decoders(DECODERS)
        super().__init__(forecast, horizon=horizon, margin=margin, overcommit=overcommit)
        self.objective = one_of("objective", objective, get_args(Objective))
        self.budget = budget
        self.name = str(SearchName("deferrable", objective, budget))
        self._rng = np.random.default_rng(0)
        self._before = np.empty(0, np.int64)

    @classmethod
    def named(cls, rest: str) -> SearchAgent:
        """Return the agent of a name.

        Parameters
        ----------
        rest : str
            What stands behind ``search:``: ``deferrable``, ``deferrable:OBJECTIVE`` or ``deferrable:OBJECTIVE:BUDGET``.

        Returns
        -------
        SearchAgent
            A new one.

        Raises
        ------
        InvalidConfiguration
            If a part is unknown.
        """
        name = SearchName.parse("deferrable", rest, get_args(Objective), MOVES)
        return cls(name.objective, name.budget)  # type: ignore[arg-type]  # it was looked up

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the plan, and take the random numbers of a new run."""
        super().reset(simulation_info, rng)
        self._rng = rng

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs that are to be started now, in the order in which they became known."""
        if not len(observation.current):
            return []
        jobs = JobSet(np.concatenate([observation.current.rows, observation.future.rows]))
        numbers = jobs.job_id.tolist()
        before = np.array([self._starts.get(number, -1.0) for number in numbers]) - observation.slot
        self._before = np.where(before >= 0, before, -1).astype(np.int64)
        starts = self._plan(self._instance(observation, jobs))
        planned = np.flatnonzero(starts >= 0)
        slots = (starts[planned] + observation.slot).tolist()
        self._starts = {numbers[job]: float(slot) for job, slot in zip(planned.tolist(), slots, strict=True)}
        return np.flatnonzero(starts[: len(observation.current)] == 0).tolist()

    def _plan_among(self, instance: Instance, number: Integers) -> Integers:
        """Return the best plan found."""
        density = instance.worth / np.maximum(instance.requests.sum(axis=1) * instance.duration, 1e-9)
        by_density = np.argsort(-density, kind="stable")
        before = self._before[number]
        inside = np.flatnonzero((before >= instance.first) & (before <= instance.last))
        nothing = np.full(instance.num_jobs, -1, np.int64)
        seed = int(self._rng.integers(2**63))
        beginnings = []
        for order in (
            np.concatenate([inside[before[inside].argsort(kind="stable")], by_density]),  # as planned last, if it was
            by_density,
            np.argsort(-instance.worth, kind="stable"),
        ):
            decoder = PlanDecoder(instance, nothing, seed)
            decoder.place_all(order)
            beginnings.append(decoder)
        best = max(beginnings, key=lambda each: each.value)
        moves = self.budget.most_moves
        deadline = math.inf if self.budget.seconds is None else perf_counter() + self.budget.seconds
        while moves > 0 and (deadline == math.inf or perf_counter() < deadline):
            count = moves if deadline == math.inf else min(moves, AT_ONCE)
            best.improve(int(count))
            moves -= count
        return best.starts
