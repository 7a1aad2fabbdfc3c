"""List scheduling of deferrable jobs: jobs are placed one after another, each in the earliest slot in which it fits.

A plan assumes that the capacity stays constant. It takes a hundredth of the time of a rolling horizon. Unlike a rule
that considers a single slot, it reserves capacity for large jobs, as backfilling does. The best of several such plans
comes close to that of a rolling horizon.
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
"""Order in which jobs are placed: ``"worth"``, largest reward first; ``"slack"``, earliest latest start first; or
``"best"``, the plan with the largest reward out of five: these two, and those that place the largest jobs first, the
earliest jobs first, or jobs with a short start window and a large reward first."""

ORDERS: tuple[PlanOrder, ...] = get_args(PlanOrder)


class _Planner(EarliestFitPlan):
    """Known jobs and free capacity, from which plans are made."""

    def plan(self, key: Floats) -> Ints:
        """Return the start slots of the plan that places jobs by ascending key; ties go to the largest reward."""
        return self.starts(np.lexsort((-self.worth, key)).tolist())

    def value(self, starts: Ints) -> float:
        """Return the reward of a plan, in core-slots."""
        planned = starts != LATER
        return float((self.worth - self.weight * (starts - self.first))[planned].sum())

    def plans(self) -> dict[PlanOrder, Ints]:
        """Return the plans of all orders; they are equal if all jobs fit at their earliest start."""
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
    """Return the slot in which a list schedule starts each known job.

    Parameters
    ----------
    observation : DeferrableObservation
        Present observation.
    order : {"worth", "slack", "best"}
        Order in which jobs are placed, see `PlanOrder`. Ties go to jobs whose start window is open, then to those that
        became known earlier.
    horizon : int
        Number of slots to plan, including the present one; later slots are ignored.

    Returns
    -------
    numpy.ndarray of int64, shape (current jobs + future jobs,)
        Number of slots until each job starts; -1 for jobs that are not started, because they do not fit within their
        start window or have no positive reward.

    Raises
    ------
    InvalidConfiguration
        If the order is unknown, or the horizon is below 1.
    """
    _check(order, horizon)
    planner = _Planner(observation, horizon)
    if order == "best":
        return planner.plans()["best"]
    return planner.plan(-planner.worth if order == "worth" else planner.jobs.latest_start)


def _check(order: str, horizon: int) -> None:
    if order not in ORDERS:
        raise InvalidConfiguration(f"order: got {order!r}, expected one of {', '.join(ORDERS)}")
    if horizon < 1:
        raise InvalidConfiguration(f"horizon: got {horizon!r}, expected an integer >= 1")


class ListPlan(NamedRepr):
    """Agent that makes a list schedule in every slot and starts the jobs that it starts now.

    Parameters
    ----------
    order : {"best", "slack", "worth"}
        Order in which jobs are placed, see `PlanOrder`.
    horizon : int
        Number of slots to plan, including the present one.

    Raises
    ------
    InvalidConfiguration
        If the order is unknown, or the horizon is below 1.
    """

    def __init__(self, order: PlanOrder = "best", *, horizon: int = HORIZON) -> None:
        _check(order, horizon)
        self.order: PlanOrder = order
        self.horizon = horizon
        self.name = "list-plan" if order == "best" else f"list-plan-{order}"

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to start."""
        number = len(observation.current)
        if not number:
            return []
        starts = planned_starts(observation, self.order, self.horizon)[:number]
        return np.flatnonzero(starts == 0).tolist()


class PlannedWaits:
    """Features of a score encoder: when list schedules would start each job.

    Parameters
    ----------
    horizon : int
        Number of slots to plan, including the present one.
    """

    names = tuple(f"{what}_by_{order}" for order in ORDERS for what in ("starts_now", "planned_wait"))

    def __init__(self, horizon: int = HORIZON) -> None:
        self.horizon = horizon

    def describe(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return for each known job and plan whether it starts now, and its wait.

        Parameters
        ----------
        observation : DeferrableObservation
            Present observation.

        Returns
        -------
        numpy.ndarray of float32, shape (current jobs + future jobs, 6)
            Features; the columns are ``names``. Waits are in units of 8 slots, at most 3; 3 also means never.
        """
        columns: list[Any] = []
        plans = _Planner(observation, self.horizon).plans()
        for order in ORDERS:
            starts = plans[order]
            columns += [starts == 0, np.where(starts == LATER, 3.0, np.minimum(starts / 8.0, 3.0))]
        return np.stack(columns, axis=1).astype(np.float32)
