"""Planning anew in every slot: what is known of jobs, and forecast of the capacity, as a program that is solved."""

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
    """Plans the jobs that are known, on the capacity that is forecast, and starts what the plan starts now.

    The plan is that of :func:`~desim.agents.deferrable.optimum.offline_optimum`, with running jobs as they are. It
    takes no account of jobs that are still to be submitted, nor of evictions. Where all known jobs fit at their
    earliest,
    nothing has to be solved.

    Parameters
    ----------
    forecast : Forecast, optional
        Of the capacity of the slots to come; that of this slot is known. If left out, it stays as it is.
    horizon : int, optional
        How many slots are planned, this one included; if left out, as many as the known jobs can run, and at most to
        the end of the run. Jobs whose window opens later do not matter.
    every : int
        Plan in every so manyth slot. In those between, the plan is followed as far as it fits, and new jobs are started
        if they fit as well, those of largest revenue first.
    margin : float
        Share of the forecast capacity that is kept free, from 0 to 1; this slot's is used in full.
    overcommit : bool
        Whether to start what exceeds the capacity if that pays; the cluster must allow it.
    time_limit : float
        Seconds of real time for each plan; if they are over, the best so far is used, which another computer may not
        repeat.
    gap : float
        Relative gap at which the solver may stop.

    Attributes
    ----------
    num_solved : int
        How many programs have been solved since the run began.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range; when a run begins, if ``overcommit`` is not allowed; if a forecast has another
        shape, or is not a number.

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
        """Forget the plan; a cluster that does not allow what ``overcommit`` says is an InvalidConfiguration."""
        if self.overcommit and not simulation_info.get("overcommit", True):
            raise InvalidConfiguration("the agent starts more than fits, and the cluster's overcommit is False")
        self._forget()

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs that are to be started now.

        Parameters
        ----------
        observation : DeferrableObservation
            What is seen now.

        Returns
        -------
        list of int
            In the order in which they became known, or, between plans, in that of the plan.
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
        """Return what the last plan starts by now, and then new jobs, as far as they fit."""
        current = observation.current
        slots = np.array([self._starts.get(number, -1.0) for number in current.job_id.tolist()])
        order = np.lexsort((-current.revenue, np.where(slots < 0, np.inf, slots)))
        order = order[slots[order] <= observation.slot]
        return first_fitting(current, order, (observation.limit - observation.used)[None, :], skip=True)

    def _instance(self, observation: DeferrableObservation, jobs: JobSet) -> PlanningInstance:
        """Return what is known, with the present slot as slot 0; jobs that are too far ahead have an empty window."""
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
        """Return what there is in this slot, and by the forecast in those to come."""
        steps = int((jobs.latest_start + jobs.duration).max()) - observation.slot - 1
        if self.horizon is not None:
            steps = min(steps, self.horizon - 1)
        if observation.num_slots is not None:
            steps = min(steps, observation.num_slots - observation.slot - 1)
        present = observation.capacity[None, :]
        expected = self._expected(observation, steps)
        if expected.shape != (steps, present.shape[1]) or not np.isfinite(expected).all():
            raise InvalidConfiguration(
                f"time {observation.slot}: the forecast is of shape {expected.shape}, want "
                f"{(steps, present.shape[1])} and finite numbers"
            )
        return np.concatenate([present, (1 - self.margin) * np.maximum(expected, 0.0)])

    def _expected(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the forecast."""
        return np.asarray(self.forecast.predict(observation, steps), dtype=np.float64)

    def _sure_limit(self, instance: PlanningInstance) -> Floats:
        """Return up to what there is no violation."""
        return instance.limit

    def _plan(self, instance: PlanningInstance) -> Ints:
        """Return a schedule; -1 for jobs that are not started."""
        pays = (instance.worth > 0) & (instance.first <= instance.last)
        starts = np.where(pays, instance.first, -1)
        if (usage(instance, starts) <= self._sure_limit(instance)).all():
            return starts  # nothing is better than all at once
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
        """Return a schedule of jobs that pay and do not all fit; these are their numbers among all that are known."""
        self.num_solved += 1
        solution = solve(instance, time_limit=self.time_limit, gap=self.gap)
        return improved(instance, solution.starts)
