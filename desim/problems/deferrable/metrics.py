"""Metrics of a cluster for deferrable jobs, computed from its tables and from nothing else.

`METRICS` describes every metric. Times are in slots. Work and rewards are in core-slots: amounts of the first resource
times slots.

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
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problem import Metric, Metrics
from desim.problems.deferrable.tables import EVICTIONS, JOBS, SLOTS, STATUSES
from desim.statistics import mean, summary

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["METRICS", "deferrable_metrics"]

Floats = NDArray[np.float64]


def _measure(result: Result) -> dict[str, float]:
    return deferrable_metrics(
        result.scan("jobs"),
        result.scan("slots"),
        result.scan("evictions"),
        resources=result.info["resources"],
        delay_weight=result.info["delay_weight"],
        violation_weights=result.info["violation_weights"],
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
    """Compute all metrics of `METRICS`.

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
        if f"violation_{name}" in METRICS.names:
            raise InvalidConfiguration(f"a resource is called {name!r}, and violation_{name} is another metric")
    lost = _lost_work(evictions, jobs, resources[0])
    values = {
        **_of_jobs(jobs, delay_weight),
        **_of_slots(slots, resources, violation_weights),
        "evictions": len(lost),
        "lost_work": float(lost.sum()),
    }
    return {name: float(values[name]) for name in METRICS.names_for(resources)}


def _numbers(column: pl.Series) -> Floats:
    """Return a column as an array, NaN for null."""
    return column.cast(float).to_numpy()


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _of_jobs(jobs: pl.DataFrame | pl.LazyFrame, delay_weight: float) -> dict[str, float]:
    frame = JOBS.select(jobs, "delay", "revenue", "status")
    status = {name: (frame["status"] == name).to_numpy() for name in STATUSES}
    status["started"] = stood = status["completed"] | status["running"]
    values = {f"jobs_{name}": float(np.count_nonzero(mask)) for name, mask in status.items()}
    count, offered = float(len(frame)), _numbers(frame["revenue"])
    delay, earned = _numbers(frame["delay"])[stood], float(offered[stood].sum())
    return {
        **values,
        **summary("delay", delay),
        "jobs_submitted": count,
        "revenue": earned,
        "time_delay": 0.0 - delay_weight * float(delay.sum()),  # 0 and not -0 without delays
        "acceptance": _ratio(values["jobs_started"], count),
        "acceptance_by_work": _ratio(earned, float(offered.sum())),
        "expiry_rate": _ratio(values["jobs_expired"], count),
    }


def _of_slots(
    slots: pl.DataFrame | pl.LazyFrame, resources: Sequence[str], violation_weights: Sequence[float]
) -> dict[str, float]:
    single, kinds = ("reward", "current_work", "future_work"), ("capacity", "used", "violation")
    frame = SLOTS.select(slots, *single, *(f"{kind}_{name}" for kind in kinds for name in resources))
    reward, current, future = (_numbers(frame[name]) for name in single)
    tables = [np.column_stack([_numbers(frame[f"{kind}_{name}"]) for name in resources]) for kind in kinds]
    capacity, used, violation = (table.sum(axis=0) for table in tables)
    above = tables[-1].max(axis=1, initial=0.0) > 0
    values = {
        "num_slots": len(frame),
        "total_reward": float(reward.sum()),
        "average_reward": mean(reward),
        "current_work_mean": mean(current),
        "future_work_mean": mean(future),
        "known_work_mean": mean(current + future),
        "violation_penalty": 0.0 - float(violation @ np.asarray(violation_weights, dtype=float)),
        "violation": float(violation.sum()),
        "violation_slots": _ratio(float(np.count_nonzero(above)), float(len(frame))),
    }
    for place, name in enumerate(resources):
        values[f"violation_{name}"] = float(violation[place])
        values[f"utilization_{name}"] = _ratio(float(used[place] - violation[place]), float(capacity[place]))
    shares = [values[f"utilization_{name}"] for place, name in enumerate(resources) if capacity[place]]
    return values | {"utilization": mean(np.array(shares))}


def _lost_work(evictions: pl.DataFrame | pl.LazyFrame, jobs: pl.DataFrame | pl.LazyFrame, cores: str) -> Floats:
    """Return cores times the slots from start to eviction of each eviction; NaN if there is no such job."""
    amount = f"requested_{cores}"
    cut = EVICTIONS.select(evictions, "arrival_number", "starting_time", "eviction_time").sort("starting_time")
    held = JOBS.select(jobs, "arrival_number", amount)
    pairs = cut.join(held, on="arrival_number", how="left", maintain_order="left")
    return _numbers(pairs[amount]) * _numbers(pairs["eviction_time"] - pairs["starting_time"])


METRICS = Metrics(
    (
        Metric("revenue", "cores times duration of all jobs whose start stood, core-slots", "core-slots", "higher"),
        Metric(
            "time_delay",
            "minus the delay weight times the delays of all jobs whose start stood, core-slots",
            "core-slots",
            "higher",
        ),
        Metric(
            "violation_penalty",
            "minus the violation weights times the violations of all slots, core-slots",
            "core-slots",
            "higher",
        ),
        Metric(
            "total_reward",
            "sum of the rewards of all slots: equation (1), the sum of the three above, core-slots",
            "core-slots",
            "higher",
        ),
        Metric("average_reward", "total reward over slots, core-slots a slot", "core-slots a slot", "higher"),
        Metric(
            "violation",
            "what was used above the capacity, all slots and resources, each in its unit times slots",
            better="lower",
        ),
        Metric("violation_<resource>", "the same of one resource, its unit times slots", better="lower"),
        Metric(
            "violation_slots", "share of the slots in which more of some resource was used than there was", "", "lower"
        ),
        Metric("utilization_<resource>", "what was used within the capacity, all slots, over what there was in all"),
        Metric("utilization", "mean of the utilizations of the resources of which there is any"),
        Metric("num_slots", "slots that have begun", "slots"),
        Metric("jobs_submitted", "jobs submitted; the next six are parts of these", "jobs"),
        Metric("jobs_started", "jobs whose start stood (completed or running)", "jobs"),
        Metric("jobs_completed", "jobs that have ended", "jobs"),
        Metric("jobs_running", "jobs running when the run ended", "jobs"),
        Metric("jobs_expired", "jobs whose window has passed", "jobs"),
        Metric("jobs_evicted", "jobs that were evicted for good", "jobs"),
        Metric("jobs_queued", "jobs that could still be started when the run ended", "jobs"),
        Metric("acceptance", "started jobs over jobs submitted", "", "higher"),
        Metric("acceptance_by_work", "revenue over cores times duration of all jobs submitted", "", "higher"),
        Metric("expiry_rate", "expired jobs over jobs submitted", "", "lower"),
        Metric("evictions", "evictions; a job that is started anew may be evicted again", "", "lower"),
        Metric(
            "lost_work",
            "cores times slots that jobs had run when they were evicted, all evictions, core-slots",
            "core-slots",
            "lower",
        ),
        Metric(
            "delay_mean", "mean of: slots from earliest start to start, of jobs whose start stood", "slots", "lower"
        ),
        Metric("delay_median", "median of the same", "slots", "lower"),
        Metric("delay_p95", "95th percentile of the same", "slots", "lower"),
        Metric(
            "current_work_mean",
            "mean over slots of cores times duration of the jobs that could be started, core-slots",
            "core-slots",
        ),
        Metric(
            "future_work_mean",
            "mean over slots of cores times duration of known jobs whose window is to open, core-slots",
            "core-slots",
        ),
        Metric("known_work_mean", "sum of these two", "core-slots"),
    ),
    _measure,
    headline=("total_reward", "revenue", "time_delay", "violation_penalty", "acceptance_by_work"),
    main=(
        "total_reward",
        "revenue",
        "time_delay",
        "violation_penalty",
        "acceptance_by_work",
        "expiry_rate",
        "delay_mean",
        "violation_slots",
    ),
)
"""The metrics of a cluster for deferrable jobs, in the order in which they are returned."""
