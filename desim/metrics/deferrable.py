"""Metrics of a cluster for deferrable jobs, computed from its tables and from nothing else.

`DEFERRABLE_METRICS` names every metric with its meaning and unit. Times are in slots. Work and rewards are in
core-slots: amounts of the first resource times slots.

The first four are those that the OSDEC paper reports (Dong et al., "An Advanced Reinforcement Learning Framework for
Online Scheduling of Deferrable Workloads in Cloud Computing", Tables 1 and 2): the total reward is its objective,
equation (1), the sum of the other three. Revenue is earned in full at the start, also by jobs that run past the end
of the run. A start *stood* if the job has completed, or was running when the run ended; what evicted jobs had brought
is taken back in the slot of their eviction. So the sum holds for every run that was not broken off within a slot.

Shares of jobs and of work are of all that were submitted, also of jobs whose window was still open when the run ended.
Amounts are those of whole slots, once jobs have been started.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.metrics.columns import description
from desim.metrics.deferrable_input import DeferrableJobs, DeferrableSlots, read_evictions, read_jobs, read_slots
from desim.statistics import RESOURCE, mean, named_for, summary

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["DEFERRABLE_METRICS", "deferrable_metrics", "deferrable_result_metrics"]

DEFERRABLE_METRICS: Mapping[str, str] = {
    "utilization": "cores times duration of all jobs whose start stood, core-slots",
    "time_delay": "minus the delay weight times the delays of all jobs whose start stood, core-slots",
    "violation_penalty": "minus the violation weights times the violations of all slots, core-slots",
    "total_reward": "sum of the rewards of all slots: equation (1), the sum of the three above, core-slots",
    "average_reward": "total reward over slots, core-slots a slot",
    "violation": "what was used above the capacity, all slots and resources, each in its unit times slots",
    "violation_<resource>": "the same of one resource, its unit times slots",
    "violation_slots": "share of the slots in which more of some resource was used than there was",
    "capacity_share_<resource>": "what was used, all slots, over what there was, all slots; above 1 by violations only",
    "num_slots": "slots that have begun",
    "num_jobs": "jobs submitted; the next six are parts of these",
    "num_started": "jobs whose start stood (completed or running)",
    "num_completed": "jobs that have ended",
    "num_running": "jobs running when the run ended",
    "num_expired": "jobs whose window has passed",
    "num_evicted": "jobs that were evicted for good",
    "num_pending": "jobs that could still be started when the run ended",
    "acceptance": "started jobs over jobs submitted",
    "acceptance_by_work": "utilization over cores times duration of all jobs submitted",
    "expiry_rate": "expired jobs over jobs submitted",
    "num_evictions": "evictions; a job that is started anew may be evicted again",
    "lost_work": "cores times slots that jobs had run when they were evicted, all evictions, core-slots",
    "delay_mean": "mean of: slots from earliest start to start, of jobs whose start stood",
    "delay_median": "median of the same",
    "delay_p95": "95th percentile of the same",
    "current_work_mean": "mean over slots of cores times duration of the jobs that could be started, core-slots",
    "future_work_mean": "mean over slots of cores times duration of known jobs whose window is to open, core-slots",
    "known_work_mean": "sum of these two",
}
"""The metrics of a cluster for deferrable jobs: name, and meaning with unit, in the order in which they are returned.
There is one of ``NAME_<resource>`` for each resource."""

_PLAIN = tuple(name for name in DEFERRABLE_METRICS if RESOURCE not in name)


def deferrable_result_metrics(result: Result) -> dict[str, float]:
    """Return the metrics of a deferrable run.

    Parameters
    ----------
    result : Result
        The run, whatever its status; only the columns that are needed are read.

    Returns
    -------
    dict of str to float
        The metrics of `DEFERRABLE_METRICS`.

    Raises
    ------
    InvalidConfiguration
        If the result is not one of a cluster for deferrable jobs, or for what `deferrable_metrics` refuses.
    """
    info = description(result, "deferrable")
    return deferrable_metrics(
        result.scan("jobs"),
        result.scan("slots"),
        result.scan("evictions"),
        resources=info["resources"],
        delay_weight=info["delay_weight"],
        violation_weights=info["violation_weights"],
    )


def deferrable_metrics(
    jobs: pl.DataFrame | pl.LazyFrame,
    slots: pl.DataFrame | pl.LazyFrame,
    evictions: pl.DataFrame | pl.LazyFrame,
    *,
    resources: Sequence[str] = ("cores",),
    delay_weight: float = 2.0,
    violation_weights: Sequence[float] = (10.0,),
) -> dict[str, float]:
    """Compute the metrics of `DEFERRABLE_METRICS`.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table, one row a job, in any order.
    slots : polars.DataFrame or polars.LazyFrame
        The slots, in any order.
    evictions : polars.DataFrame or polars.LazyFrame
        The evictions, in any order.
    resources : sequence of str
        Names of the resources; the first is that of cores.
    delay_weight : float
        w1 of equation (1), in core-slots for each slot of delay.
    violation_weights : sequence of float
        w2 of equation (1), in core-slots for each unit and slot above the capacity, one for each resource.

    Returns
    -------
    dict of str to float
        The metrics, NaN where there is nothing to take a mean or a share of. Percentiles are interpolated linearly.

    Raises
    ------
    InvalidConfiguration
        If a column is missing, there is another number of weights than of resources, or a metric of a resource would
        have the name of another metric.
    """
    if len(violation_weights) != len(resources):
        raise InvalidConfiguration(f"violation_weights is {violation_weights!r}, want one for each of {resources!r}")
    for name in resources:
        if f"violation_{name}" in _PLAIN:
            raise InvalidConfiguration(f"a resource is called {name!r}, and violation_{name} is another metric")
    table, series = read_jobs(jobs), read_slots(slots, resources)
    num_evictions, lost_work = read_evictions(evictions, jobs, resources[0])
    delay, revenue = table.delay[table.started], table.revenue[table.started]
    values = {
        **_counts(table),
        **_amounts(series, resources),
        **_work(series),
        **summary("delay", delay),
        "utilization": float(revenue.sum()),
        "time_delay": 0.0 - delay_weight * float(delay.sum()),  # 0 and not -0 without delays
        "violation_penalty": 0.0 - float(series.violation.sum(axis=0) @ np.asarray(violation_weights, dtype=float)),
        "acceptance_by_work": _ratio(float(revenue.sum()), float(table.revenue.sum())),
        "num_evictions": num_evictions,
        "lost_work": lost_work,
    }
    return {name: float(values[name]) for name in named_for(DEFERRABLE_METRICS, resources)}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _counts(table: DeferrableJobs) -> dict[str, float]:
    groups = {**table.status, "started": table.started}
    values = {f"num_{name}": float(np.count_nonzero(mask)) for name, mask in groups.items()}
    count = float(len(table.revenue))
    shares = {"acceptance": values["num_started"], "expiry_rate": values["num_expired"]}
    return {**values, "num_jobs": count, **{name: _ratio(part, count) for name, part in shares.items()}}


def _amounts(series: DeferrableSlots, resources: Sequence[str]) -> dict[str, float]:
    violation, used, capacity = (table.sum(axis=0) for table in (series.violation, series.used, series.capacity))
    above = np.max(series.violation, axis=1) > 0
    values = {
        "violation": float(violation.sum()),
        "violation_slots": _ratio(float(np.count_nonzero(above)), float(len(above))),
    }
    for place, name in enumerate(resources):
        values[f"violation_{name}"] = float(violation[place])
        values[f"capacity_share_{name}"] = _ratio(float(used[place]), float(capacity[place]))
    return values


def _work(series: DeferrableSlots) -> dict[str, float]:
    return {
        "num_slots": len(series.reward),
        "total_reward": float(series.reward.sum()),
        "average_reward": mean(series.reward),
        "current_work_mean": mean(series.current_work),
        "future_work_mean": mean(series.future_work),
        "known_work_mean": mean(series.current_work + series.future_work),
    }
