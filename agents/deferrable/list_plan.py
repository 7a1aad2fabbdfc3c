"""Plans made by placing one job after another, where it fits first: what a job would get if the most urgent came first.

A plan takes the capacity as it is for all slots to come. It costs a hundredth of what a rolling horizon takes, and it
reserves room for a large job, as backfilling does, where a rule that looks at one slot lets smaller ones by. Several
plans, of which the best counts, come close to what a rolling horizon plans.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation
from desim.problems.deferrable.observation import HORIZON, LATER, EarliestFitPlan
from desim.reprs import NamedRepr

__all__ = ["ORDERS", "ListPlan", "PlanOrder", "PlannedWaits", "planned_starts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PlanOrder = Literal["worth", "slack", "best"]
"""Jobs that add most to the objective first; those first whose start can least be deferred; or the plan that is worth
most of five: of these two, and of those that place the largest, the earliest, or the most impatient jobs first."""

ORDERS: tuple[PlanOrder, ...] = get_args(PlanOrder)


class _Planner(EarliestFitPlan):
    """The known jobs and the room for them, from which plans are made."""

    def plan(self, key: Floats) -> Ints:
        """Return the starts of the plan that places the jobs with the least key first, of equal ones the best."""
        return self.starts(np.lexsort((-self.worth, key)).tolist())

    def value(self, starts: Ints) -> float:
        """Return what a plan adds to the objective, in core-slots."""
        planned = starts != LATER
        return float((self.worth - self.weight * (starts - self.first))[planned].sum())

    def plans(self) -> dict[PlanOrder, Ints]:
        """Return the plans of all orders; if all jobs fit at their earliest, they are the same."""
        found: dict[PlanOrder, Ints] = {"worth": self.plan(-self.worth)}
        at_once = np.where(self.usable, self.first, LATER)
        if (found["worth"] == at_once).all():
            return dict.fromkeys(ORDERS, found["worth"])
        found["slack"] = self.plan(self.jobs.latest_start)
        patience = 2.0 * self.weight * (self.last - self.first) - self.worth
        others = [self.plan(key) for key in (-self.jobs.cores, self.first, patience)]
        best = max([found["worth"], found["slack"], *others], key=self.value)
        return found | {"best": best}


def planned_starts(observation: DeferrableObservation, order: PlanOrder, horizon: int = HORIZON) -> Ints:
    """Return when a plan starts each known job.

    Parameters
    ----------
    observation : DeferrableObservation
        What is seen now.
    order : {"worth", "slack", "best"}
        In which order jobs are placed, see `PlanOrder`. Of equal jobs those whose window is open come first, and then
        those that became known earlier.
    horizon : int
        Slots that are planned, this one included; what happens behind them is not looked at.

    Returns
    -------
    numpy.ndarray of int64, shape (current jobs + future jobs,)
        In how many slots they are started; -1 for jobs that are not: no room in their windows, or nothing to gain.

    Raises
    ------
    InvalidConfiguration
        If there is no such order, or nothing is planned.
    """
    _check(order, horizon)
    planner = _Planner(observation, horizon)
    if order == "best":
        return planner.plans()["best"]
    return planner.plan(-planner.worth if order == "worth" else planner.jobs.latest_start)


def _check(order: str, horizon: int) -> None:
    if order not in ORDERS:
        raise InvalidConfiguration(f"no order {order!r}; there are {', '.join(ORDERS)}")
    if horizon < 1:
        raise InvalidConfiguration(f"horizon is {horizon!r}, want at least 1")


class ListPlan(NamedRepr):
    """Starts what a plan starts now that places one job after another.

    Parameters
    ----------
    order : {"best", "slack", "worth"}
        In which order, see `PlanOrder`.
    horizon : int
        Slots that are planned.

    Raises
    ------
    InvalidConfiguration
        If there is no such order, or nothing is planned.
    """

    def __init__(self, order: PlanOrder = "best", *, horizon: int = HORIZON) -> None:
        _check(order, horizon)
        self.order: PlanOrder = order
        self.horizon = horizon
        self.name = "list-plan" if order == "best" else f"list-plan-{order}"

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to be started."""
        number = len(observation.current)
        if not number:
            return []
        starts = planned_starts(observation, self.order, self.horizon)[:number]
        return np.flatnonzero(starts == 0).tolist()


class PlannedWaits:
    """Tells a network when plans would start each job; the advice of a score encoder.

    Parameters
    ----------
    horizon : int
        Slots that are planned.
    """

    names = tuple(f"{what}_by_{order}" for order in ORDERS for what in ("starts_now", "planned_wait"))

    def __init__(self, horizon: int = HORIZON) -> None:
        self.horizon = horizon

    def describe(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return for each known job whether a plan starts it now, and the wait in eighths of slots, 3 if it never does.

        Parameters
        ----------
        observation : DeferrableObservation
            What is seen now.

        Returns
        -------
        numpy.ndarray of float32, shape (current jobs + future jobs, 6)
            The columns are ``names``.
        """
        columns: list[Any] = []
        plans = _Planner(observation, self.horizon).plans()
        for order in ORDERS:
            starts = plans[order]
            columns += [starts == 0, np.where(starts == LATER, 3.0, np.minimum(starts / 8.0, 3.0))]
        return np.stack(columns, axis=1).astype(np.float32)
