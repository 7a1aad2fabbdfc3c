"""Rolling-horizon planning: an optimal plan of the known jobs under the forecast capacity, renewed in every slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.forecasts import Forecast, Persistence, whole_number
from desim.agents.deferrable.orders import first_fitting
from desim.agents.deferrable.program import PlanningInstance, check_limits, solve, usage
from desim.agents.deferrable.reinsertion import improved
from desim.checks import check_float
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation, JobSet
from desim.reprs import NamedRepr

__all__ = ["RollingHorizon"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class RollingHorizon(NamedRepr):
    """Agent that plans the known jobs under the forecast capacity and starts the jobs that the plan starts now.

    The plan is that of :func:`~desim.agents.deferrable.optimum.offline_optimum`, with running jobs as they are. It
    ignores evictions and jobs that are not submitted yet. If all known jobs fit at their earliest start, no program has
    to be solved.

    Parameters
    ----------
    forecast : Forecast, optional
        Forecast of the capacity after the present slot. Default: the capacity stays as it is.
    horizon : int, optional
        Number of slots to plan, including the present one; jobs whose start window opens later are ignored. Default: up
        to the latest possible end of the known jobs, at most to the end of the run.
    every : int
        Number of slots from one plan to the next. In between, the agent follows the plan as far as it fits, and then
        starts new jobs that fit, by descending revenue.
    margin : float
        Share of the forecast capacity that is kept free, from 0 to 1; the present slot has no margin.
    overcommit : bool
        Whether to start jobs beyond the capacity if that increases the reward; the cluster must allow it.
    time_limit : float
        Time limit per plan in wall-clock seconds. If it is reached, the best plan so far is used, which may differ
        between computers.
    gap : float
        Relative gap at which the solver may stop.

    Attributes
    ----------
    num_solved : int
        Number of programs solved since the run began.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range; at the start of a run, if the cluster does not allow ``overcommit``; or if a
        forecast has the wrong shape or is not finite.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> long = Job(1, submission_time=0, earliest_start=0, latest_start=3, duration=6, cores=2)
    >>> large = Job(2, submission_time=0, earliest_start=1, latest_start=1, duration=2, cores=4)
    >>> cluster = DeferrableCluster([long, large], [4], num_slots=6)
    >>> simulate(cluster, RollingHorizon()).jobs["starting_time"].to_list()
    [3.0, 1.0]
    """

    name = "rolling-horizon"

    def __init__(
        self,
        forecast: Forecast | None = None,
        *,
        horizon: int | None = None,
        every: int = 1,
        margin: float = 0.0,
        overcommit: bool = False,
        time_limit: float = 5.0,
        gap: float = 1e-4,
    ) -> None:
        if horizon is not None:
            whole_number("horizon", horizon, 1)
        whole_number("every", every, 1)
        check_float("margin", margin, least=0, most=1)
        check_limits(time_limit, gap)
        self.forecast = Persistence() if forecast is None else forecast
        self.horizon = horizon
        self.every = every
        self.margin = margin
        self.overcommit = overcommit
        self.time_limit = time_limit
        self.gap = gap
        self._forget()

    def _forget(self) -> None:
        self.num_solved = 0
        self._planned_at: int | None = None
        self._starts: dict[int, float] = {}

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the plan; raise InvalidConfiguration if the cluster does not allow ``overcommit``."""
        if self.overcommit and not simulation_info.get("overcommit", True):
            raise InvalidConfiguration("overcommit: got True for the agent, expected False as for the cluster")
        self._forget()

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to start now.

        Parameters
        ----------
        observation : DeferrableObservation
            Present observation.

        Returns
        -------
        list of int
            Positions in the order in which the jobs became known; between plans, in the order of the plan.
        """
        if not len(observation.current):
            return []
        if self._planned_at is not None and observation.slot < self._planned_at + self.every:
            return self._follow(observation)
        jobs = JobSet(np.concatenate([observation.current.rows, observation.future.rows]))
        starts = self._plan(self._instance(observation, jobs))
        slots = np.where(starts >= 0, observation.slot + starts, np.inf)
        self._planned_at = observation.slot
        self._starts = dict(zip(jobs.job_id.tolist(), slots.tolist(), strict=True))
        return np.flatnonzero(starts[: len(observation.current)] == 0).tolist()

    def _follow(self, observation: DeferrableObservation) -> list[int]:
        """Return jobs that the last plan has started by now, and then new jobs, as far as they fit."""
        current = observation.current
        slots = np.array([self._starts.get(number, -1.0) for number in current.job_id.tolist()])
        order = np.lexsort((-current.revenue, np.where(slots < 0, np.inf, slots)))
        order = order[slots[order] <= observation.slot]
        return first_fitting(current, order, (observation.limit - observation.used)[None, :], skip=True)

    def _instance(self, observation: DeferrableObservation, jobs: JobSet) -> PlanningInstance:
        """Return the planning instance, with the present slot as slot 0; jobs beyond the horizon have empty windows."""
        slot, running = observation.slot, observation.running
        capacity = self._capacities(observation, jobs)
        first = np.maximum(jobs.earliest_start - slot, 0.0).astype(np.int64)
        sunk = np.maximum(slot - jobs.earliest_start, 0.0)
        runs_on = running.finish_time > slot + np.arange(len(capacity))[:, None]
        return PlanningInstance(
            first=first,
            last=np.minimum((jobs.latest_start - slot).astype(np.int64), len(capacity) - 1),
            worth=jobs.revenue - observation.delay_weight * sunk,
            duration=jobs.duration.astype(np.int64),
            requests=jobs.requests,
            capacity=capacity,
            held=runs_on.astype(np.float64) @ running.requests,
            delay_weight=observation.delay_weight,
            violation_weights=observation.violation_weights,
            overcommit=self.overcommit,
        )

    def _capacities(self, observation: DeferrableObservation, jobs: JobSet) -> Floats:
        """Return the capacity of the present slot, followed by the forecast."""
        steps = int((jobs.latest_start + jobs.duration).max()) - observation.slot - 1
        if self.horizon is not None:
            steps = min(steps, self.horizon - 1)
        if observation.num_slots is not None:
            steps = min(steps, observation.num_slots - observation.slot - 1)
        present = observation.capacity[None, :]
        expected = self._expected(observation, steps)
        wanted = (steps, present.shape[1])
        if expected.shape != wanted:
            raise InvalidConfiguration(
                f"slot {observation.slot}: forecast: got an array of shape {expected.shape}, expected {wanted}"
            )
        if not np.isfinite(expected).all():
            raise InvalidConfiguration(
                f"slot {observation.slot}: forecast: got NaN or infinity, expected finite numbers"
            )
        return np.concatenate([present, (1 - self.margin) * np.maximum(expected, 0.0)])

    def _expected(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the forecast."""
        return np.asarray(self.forecast.predict(observation, steps), dtype=np.float64)

    def _sure_limit(self, instance: PlanningInstance) -> Floats:
        """Return the largest usage that is certain to cause no violation."""
        return instance.limit

    def _plan(self, instance: PlanningInstance) -> Ints:
        """Return a schedule; -1 for jobs that are not started."""
        pays = (instance.worth > 0) & (instance.first <= instance.last)
        starts = np.where(pays, instance.first, -1)
        if (usage(instance, starts) <= self._sure_limit(instance)).all():
            return starts  # no plan is better than all jobs at their earliest start
        number = np.flatnonzero(pays)
        chosen = instance._replace(
            first=instance.first[number],
            last=instance.last[number],
            worth=instance.worth[number],
            duration=instance.duration[number],
            requests=instance.requests[number],
        )
        starts[:] = -1
        starts[number] = self._plan_among(chosen, number)
        return starts

    def _plan_among(self, instance: PlanningInstance, number: Ints) -> Ints:
        """Return a schedule of jobs that do not all fit; ``number`` holds their positions among all known jobs."""
        self.num_solved += 1
        solution = solve(instance, time_limit=self.time_limit, gap=self.gap)
        return improved(instance, solution.starts)
