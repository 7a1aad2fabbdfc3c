"""Large-neighbourhood search over plans of deferrable jobs under the forecast capacity.

In every slot the search starts from the last plan and inserts new jobs where they gain most. Then, until the budget is
used up, moves remove some jobs and insert others (large-neighbourhood search: P. Shaw, CP 1998). The agent starts the
jobs that the plan starts now.

The agent learns two things during a run. The forecast estimates its own error, so plans are evaluated by the expected
violation. And cores of later slots have a rent: the share of them that has so far been used by jobs with a shorter lead
time, for which a plan of the known jobs keeps nothing free.
"""

from __future__ import annotations

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
AT_ONCE = 16  # moves between two checks of the clock
MOST_NOTICE = 64  # slots; longer lead times count as this


class PlanDecoder:
    """Plan of an instance, evaluated and improved by compiled functions.

    Parameters
    ----------
    instance : PlanningInstance
        Planning instance.
    starts : array of int, shape (num_jobs,)
        Initial plan. No job may start where it does not fit, unless the instance allows overcommitment.
    seed : int
        Seed of the random numbers of :meth:`improve`.
    deviation : array of float, shape (num_slots, num_resources), optional
        Standard deviation of the capacity, whose mean is that of the instance. Default: 0.
    rent : array of float, shape (num_slots,), optional
        Rent of a core in each slot. Default: 0.

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
        """Start slot of each job, -1 if it is not started."""
        starts: Integers = self._work.starts.copy()
        return starts

    @property
    def value(self) -> float:
        """Value of the plan in core-slots: reward minus the cost of all violations and the rent."""
        return float(self._compiled.value(self._situation, self._work))

    def begin(self, orders: Integers) -> None:
        """Plan from scratch by each order, and keep the best plan.

        Parameters
        ----------
        orders : array of int, shape (num_orders, any)
            Jobs of each order; entries below 0 are padding.
        """
        self._compiled.begin(orders, self._situation, self._work)

    def place_all(self, order: Integers) -> float:
        """Insert jobs that are not in the plan one by one at their best slots.

        Parameters
        ----------
        order : array of int
            Jobs in the order in which they are inserted.

        Returns
        -------
        float
            Total gain.
        """
        return float(self._compiled.place_all(order, self._situation, self._work))

    def improve(self, moves: int) -> float:
        """Improve the plan by moves that remove jobs and insert others; moves that lower the value are undone.

        Parameters
        ----------
        moves : int
            Number of moves.

        Returns
        -------
        float
            Total gain.
        """
        if not len(self._work.starts):
            return 0.0
        return float(self._compiled.improve(moves, self._situation, self._work))


class SearchAgent(RollingHorizon):
    """Agent that searches for a good plan in every slot and starts the jobs that the plan starts now.

    Parameters
    ----------
    objective : {"total_reward"}
        Measure to maximize.
    budget : Budget, optional
        Search budget per slot. Default: 100 moves.
    forecast : Forecast, optional
        Forecast of the capacity after the present slot; if it estimates its uncertainty, the expected violation counts.
        Default: :class:`~desim.agents.deferrable.LearnedForecast`.
    horizon : int, optional
        Same as for :class:`~desim.agents.deferrable.RollingHorizon`.
    margin : float
        Same as for :class:`~desim.agents.deferrable.RollingHorizon`.
    overcommit : bool
        Same as for :class:`~desim.agents.deferrable.RollingHorizon`.
    rent : float
        Factor of the rent of later cores, from 0 to 1; 0 disables it. The rent is this factor times the share of a
        slot's cores that jobs not yet known are expected to use.

    Attributes
    ----------
    name : str
        Name of the agent, such as ``"search:deferrable:total_reward:100"``.

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
        """Return the agent of a registry name.

        Parameters
        ----------
        rest : str
            Part of the name after ``search:``: ``deferrable``, ``deferrable:OBJECTIVE`` or
            ``deferrable:OBJECTIVE:BUDGET``.
        forecast : Forecast, optional
            Same as for the class.

        Returns
        -------
        SearchAgent
            New agent.

        Raises
        ------
        InvalidConfiguration
            If a part of the name is unknown.
        """
        name = SearchName.parse("deferrable", rest, get_args(Objective), MOVES)
        return cls(name.objective, name.budget, forecast=forecast)  # type: ignore[arg-type]  # parse has checked it

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the plan and the learned rents, and use the random generator of a new run."""
        super().reset(simulation_info, rng)
        self._rng = rng
        self._late = np.zeros(MOST_NOTICE)

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to start now, in the order in which they became known."""
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
        """Record, for each job started now, its cores at the lead time of each slot in which it runs."""
        started = JobSet(observation.current.rows[chosen])
        lead_time = (observation.slot - np.floor(started.submission_time)).astype(np.int64)
        for known, duration, cores in zip(
            lead_time.tolist(), started.duration.tolist(), started.cores.tolist(), strict=True
        ):
            first = min(known, MOST_NOTICE - 1)
            self._late[first : known + int(duration)] += cores

    def _expected(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the forecast, and store its standard deviation."""
        self._deviation = np.zeros((steps + 1, len(observation.resources)))
        if self._uncertain is None:
            return super()._expected(observation, steps)
        mean, self._deviation[1:] = self._uncertain.expect(observation, steps)
        return mean

    def _sure_limit(self, instance: PlanningInstance) -> Floats:
        """Return the largest usage for which no violation is expected."""
        limit: Floats = instance.limit - self._far * self._deviation
        return limit

    def _plan_among(self, instance: PlanningInstance, number: Integers) -> Integers:
        """Return the best plan found within the budget."""
        density = instance.worth / np.maximum(instance.requests.sum(axis=1) * instance.duration, 1e-9)
        by_density = np.argsort(-density, kind="stable")
        before = self._before[number]
        inside = np.flatnonzero((before >= instance.first) & (before <= instance.last))
        orders = np.full((3, len(inside) + instance.num_jobs), -1)
        orders[0, : len(inside)] = inside[before[inside].argsort(kind="stable")]  # the last plan first
        orders[:2, len(inside) :] = by_density
        orders[2, len(inside) :] = np.argsort(-instance.worth, kind="stable")
        nothing = np.full(instance.num_jobs, -1, np.int64)
        rent = self._price[np.minimum(np.arange(instance.num_slots), MOST_NOTICE)]
        seed = int(self._rng.integers(2**63))
        best = PlanDecoder(instance, nothing, seed, deviation=self._deviation, rent=rent)
        best.begin(orders)
        moves, used = self.budget.most_moves, self.budget.timer()
        while moves > 0 and used() < 1.0:
            count = moves if self.budget.seconds is None else min(moves, AT_ONCE)
            best.improve(int(count))
            moves -= count
        return best.starts
