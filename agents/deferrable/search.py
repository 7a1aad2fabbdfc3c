"""Search over plans of deferrable jobs: what starts when, under the capacity that is forecast.

In every slot the last plan is gone on with, new jobs are put in where they bring most, and then some jobs leave and
others try for their room, as long as the budget lasts: a large-neighbourhood search (P. Shaw, CP 1998). What the plan
starts now is started.

Two things are learned meanwhile from what was seen. The forecast knows how far it is off, and what counts is the
violation that is expected. And the cores of later slots have a price: what part of them has so far been taken by jobs
that became known no earlier, for whom a plan of the known jobs keeps no room.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.forecasts import Forecast
from desim.agents.deferrable.learned_forecast import LearnedForecast, UncertainForecast
from desim.agents.deferrable.program import PlanningInstance
from desim.agents.deferrable.rolling_horizon import RollingHorizon
from desim.agents.search import Budget, SearchName, decoders
from desim.checks import check_choice, check_float
from desim.problems.deferrable import DeferrableObservation, JobSet

__all__ = ["PlanDecoder", "SearchAgent"]

Objective = Literal["total_reward"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DECODERS = "desim.agents.deferrable.decoders"
MOVES = Budget(moves=100)
AT_ONCE = 16  # moves between two looks at the clock
MOST_NOTICE = 64  # slots; jobs that were known longer before count as if it had been so many


class PlanDecoder:
    """A plan for an instance, and what it brings; from arrays, by compiled functions.

    Parameters
    ----------
    instance : PlanningInstance
        What is planned.
    starts : array of int, shape (num_jobs,)
        A plan in which no job starts where it does not fit, unless the instance allows that.
    seed : int
        Of the random numbers of :meth:`improve`.
    deviation : array of float, shape (num_slots, num_resources), optional
        Standard deviations of the capacity, of which that of the instance is the mean; 0 if left out.
    rent : array of float, shape (num_slots,), optional
        What a core costs in each slot; nothing if left out.

    Raises
    ------
    MissingDependency
        If numba is not installed.
    """

    def __init__(
        self,
        instance: PlanningInstance,
        starts: Integers,
        seed: int = 0,
        *,
        deviation: Floats | None = None,
        rent: Floats | None = None,
    ) -> None:
        self._compiled: Any = decoders(DECODERS)
        requests = np.ascontiguousarray(instance.requests)
        self._situation = self._compiled.DeferrableSearchState(
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
            np.zeros(instance.capacity.shape) if deviation is None else np.ascontiguousarray(deviation),
            np.zeros(instance.num_slots + 1) if rent is None else np.concatenate([[0.0], np.cumsum(rent)]),
        )
        held = np.array(instance.held, np.float64, order="C")
        used, begun = held.copy(), np.zeros(held.shape, np.int64)
        for job in np.flatnonzero(starts >= 0).tolist():
            used[starts[job] : starts[job] + instance.duration[job]] += requests[job]
            begun[starts[job]] += requests[job] > 0
        plan = np.array(starts, np.int64)
        random = np.array([seed], np.uint64)
        self._work = self._compiled.Work(plan, used, begun, plan.copy(), plan.copy(), random, held)

    @property
    def starts(self) -> Integers:
        """The slot of each job, -1 if it is not started."""
        starts: Integers = self._work.starts.copy()
        return starts

    @property
    def value(self) -> float:
        """What the plan brings, in core-slots, less the cost of all violations and the rent."""
        return float(self._compiled.value(self._situation, self._work))

    def begin(self, orders: Integers) -> None:
        """Plan anew by each of some orders, and keep the plan that brings most.

        Parameters
        ----------
        orders : array of int, shape (num_orders, any)
            The jobs, and numbers below 0, which stand for none.
        """
        self._compiled.begin(orders, self._situation, self._work)

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
        """Take jobs out and others in, and keep what brings no less.

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
        Of the capacity of the slots to come; :class:`~desim.agents.deferrable.LearnedForecast` if left out. If it tells
        how far it may be off, the expected violation counts.
    horizon : int, optional
        As for :class:`~desim.agents.deferrable.RollingHorizon`.
    margin : float
        As there.
    overcommit : bool
        As there.
    rent : float
        What part of their worth cores cost in later slots that are taken by jobs not yet known, from 0 to 1.

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
        rent: float = 0.8,
    ) -> None:
        self._far = float(decoders(DECODERS).FAR)
        chosen = LearnedForecast() if forecast is None else forecast
        super().__init__(chosen, horizon=horizon, margin=margin, overcommit=overcommit)
        self._uncertain = chosen if isinstance(chosen, UncertainForecast) else None
        self.rent = check_float("rent", rent, least=0, most=1)
        self.objective = check_choice("objective", objective, get_args(Objective))
        self.budget = budget
        self.name = str(SearchName("deferrable", objective, budget))
        self._rng = np.random.default_rng(0)
        self._before = np.empty(0, np.int64)
        self._deviation = np.zeros((1, 1))
        self._late = np.zeros(MOST_NOTICE)
        self._price = np.zeros(MOST_NOTICE + 1)

    @classmethod
    def named(cls, rest: str, *, forecast: Forecast | None = None) -> SearchAgent:
        """Return the agent of a name.

        Parameters
        ----------
        rest : str
            What stands behind ``search:``: ``deferrable``, ``deferrable:OBJECTIVE`` or ``deferrable:OBJECTIVE:BUDGET``.
        forecast : Forecast, optional
            As for the agent.

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
        return cls(name.objective, name.budget, forecast=forecast)  # type: ignore[arg-type]  # it was looked up

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the plan and what was learned, and take the random numbers of a new run."""
        super().reset(simulation_info, rng)
        self._rng = rng
        self._late = np.zeros(MOST_NOTICE)

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs that are to be started now, in the order in which they became known."""
        if not len(observation.current):
            return []
        jobs = JobSet(np.concatenate([observation.current.rows, observation.future.rows]))
        numbers = jobs.job_id.tolist()
        before = np.array([self._starts.get(number, -1.0) for number in numbers]) - observation.slot
        self._before = np.where(before >= 0, before, -1).astype(np.int64)
        if self.rent:
            room = max(float(observation.capacity_history[:, 0].sum()), 1e-9)
            self._price[1:] = self.rent * np.minimum(self._late.cumsum() / room, 1.0)
        starts = self._plan(self._instance(observation, jobs))
        planned = np.flatnonzero(starts >= 0)
        slots = (starts[planned] + observation.slot).tolist()
        self._starts = {numbers[job]: float(slot) for job, slot in zip(planned.tolist(), slots, strict=True)}
        chosen = np.flatnonzero(starts[: len(observation.current)] == 0).tolist()
        if self.rent and chosen:
            self._learn(observation, chosen)
        return chosen

    def _learn(self, observation: DeferrableObservation, chosen: list[int]) -> None:
        """Remember how long before each slot of their lives jobs were known that are started now."""
        started = JobSet(observation.current.rows[chosen])
        lead_time = (observation.slot - np.floor(started.submission_time)).astype(np.int64)
        for known, duration, cores in zip(
            lead_time.tolist(), started.duration.tolist(), started.cores.tolist(), strict=True
        ):
            first = min(known, MOST_NOTICE - 1)
            self._late[first : known + int(duration)] += cores

    def _expected(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the forecast, and keep how far it may be off."""
        self._deviation = np.zeros((steps + 1, len(observation.resources)))
        if self._uncertain is None:
            return super()._expected(observation, steps)
        mean, self._deviation[1:] = self._uncertain.expect(observation, steps)
        return mean

    def _sure_limit(self, instance: PlanningInstance) -> Floats:
        """Return up to what no violation is expected."""
        limit: Floats = instance.limit - self._far * self._deviation
        return limit

    def _plan_among(self, instance: PlanningInstance, number: Integers) -> Integers:
        """Return the best plan found."""
        density = instance.worth / np.maximum(instance.requests.sum(axis=1) * instance.duration, 1e-9)
        by_density = np.argsort(-density, kind="stable")
        before = self._before[number]
        inside = np.flatnonzero((before >= instance.first) & (before <= instance.last))
        orders = np.full((3, len(inside) + instance.num_jobs), -1)
        orders[0, : len(inside)] = inside[before[inside].argsort(kind="stable")]  # as planned last, if it was
        orders[:2, len(inside) :] = by_density
        orders[2, len(inside) :] = np.argsort(-instance.worth, kind="stable")
        nothing = np.full(instance.num_jobs, -1, np.int64)
        rent = self._price[np.minimum(np.arange(instance.num_slots), MOST_NOTICE)]
        seed = int(self._rng.integers(2**63))
        best = PlanDecoder(instance, nothing, seed, deviation=self._deviation, rent=rent)
        best.begin(orders)
        moves = self.budget.most_moves
        deadline = math.inf if self.budget.seconds is None else perf_counter() + self.budget.seconds
        while moves > 0 and (deadline == math.inf or perf_counter() < deadline):
            count = moves if deadline == math.inf else min(moves, AT_ONCE)
            best.improve(int(count))
            moves -= count
        return best.starts
