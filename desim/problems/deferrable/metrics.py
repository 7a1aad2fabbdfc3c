"""Metrics of a cluster for deferrable jobs, computed only from the tables of a run.

`METRICS` describes every metric. Times are in slots. Work and rewards are in core-slots: amounts of the first resource
times slots.

The first four metrics are those of the OSDEC paper (Dong et al., "An Advanced Reinforcement Learning Framework for
Online Scheduling of Deferrable Workloads in Cloud Computing", Tables 1 and 2). The total reward is its objective,
equation (1), the sum of the other three. The full revenue of a job is earned at its start, even if the job runs past
the end of the run. A start *stood* if the job has completed, or was running when the run ended. The contributions of an
evicted job are taken back in the slot of its eviction. So the sum holds for every run that did not stop within a slot.

Shares of jobs and of work refer to all submitted jobs, including those whose window was still open when the run ended.
Amounts are those of whole slots, after the starts of the slot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.measures import mean, summary
from desim.problem import Metric, Metrics, bounded
from desim.problems.deferrable.tables import EVICTIONS, JOBS, SLOTS, STATUSES

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
        Table of jobs, one row per job, in any order.
    slots : polars.DataFrame or polars.LazyFrame
        Table of slots, in any order.
    evictions : polars.DataFrame or polars.LazyFrame
        Table of evictions, in any order.
    resources : sequence of str
        Names of the resources; the first is that of cores.
    delay_weight : float
        Weight w1 of equation (1), in core-slots per slot of delay.
    violation_weights : sequence of float
        Weight w2 of equation (1), in core-slots per unit and slot above the capacity, one per resource.

    Returns
    -------
    dict of str to float
        Metrics by name; means and shares of nothing are NaN. Percentiles are interpolated linearly.

    Raises
    ------
    InvalidConfiguration
        If a column is missing, the numbers of weights and resources differ, or the metric of a resource would have the
        name of another metric.
    """
    if len(violation_weights) != len(resources):
        raise InvalidConfiguration(
            f"violation_weights: got {violation_weights!r}, expected one per resource of {resources!r}"
        )
    for name in resources:
        if f"violation_{name}" in METRICS.names:
            raise InvalidConfiguration(f"resources: got {name!r}, but violation_{name} is another metric; rename it")
    lost = _lost_work(evictions, jobs, resources[0])
    values = {
        **_of_jobs(jobs, delay_weight),
        **_of_slots(slots, resources, violation_weights),
        "evictions": len(lost),
        "lost_work": float(lost.sum()),
    }
    return {name: float(values[name]) for name in METRICS.names_for(resources)}


def _numbers(column: pl.Series) -> Floats:
    """Return a column as an array, with NaN for null."""
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
        "time_delay": 0.0 - delay_weight * float(delay.sum()),  # avoids -0.0 without delays
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
    """Return, per eviction, cores times slots from start to eviction; NaN if there is no such job."""
    amount = f"requested_{cores}"
    cut = EVICTIONS.select(evictions, "arrival_number", "starting_time", "eviction_time").sort("starting_time")
    held = JOBS.select(jobs, "arrival_number", amount)
    pairs = cut.join(held, on="arrival_number", how="left", maintain_order="left")
    return _numbers(pairs[amount]) * _numbers(pairs["eviction_time"] - pairs["starting_time"])


METRICS = Metrics(
    bounded(
        (
            Metric("revenue", "cores times duration of all jobs whose start stood, core-slots", "core-slots", "higher"),
            Metric(
                "time_delay",
                "negative delay weight times the delays of all jobs whose start stood, core-slots",
                "core-slots",
                "higher",
                most=0.0,
            ),
            Metric(
                "violation_penalty",
                "negative violation weights times the violations of all slots, core-slots",
                "core-slots",
                "higher",
                most=0.0,
            ),
            Metric(
                "total_reward",
                "sum of the rewards of all slots: equation (1), the sum of the three metrics above, core-slots",
                "core-slots",
                "higher",
            ),
            Metric("average_reward", "total reward per slot, core-slots", "core-slots per slot", "higher"),
            Metric(
                "violation",
                "amounts used above the capacity, over all slots and resources, each in its unit times slots",
                better="lower",
            ),
            Metric("violation_<resource>", "violation of one resource, its unit times slots", better="lower"),
            Metric("violation_slots", "share of slots in which use of a resource exceeds its capacity", "", "lower"),
            Metric(
                "utilization_<resource>", "amount used within the capacity over the capacity, summed over all slots"
            ),
            Metric("utilization", "mean utilization of the resources with a capacity above 0"),
            Metric("num_slots", "slots that have begun", "slots"),
            Metric("jobs_submitted", "jobs submitted, in total", "jobs"),
            Metric("jobs_started", "jobs whose start stood (completed or running)", "jobs"),
            Metric("jobs_completed", "jobs that completed", "jobs"),
            Metric("jobs_running", "jobs running when the run ended", "jobs"),
            Metric("jobs_expired", "jobs that expired: their window ended without a start", "jobs"),
            Metric("jobs_evicted", "jobs that were evicted and not restarted", "jobs"),
            Metric("jobs_queued", "jobs that could still start when the run ended", "jobs"),
            Metric("acceptance", "started jobs over submitted jobs", "", "higher"),
            Metric("acceptance_by_work", "revenue over cores times duration of all submitted jobs", "", "higher"),
            Metric("expiry_rate", "expired jobs over submitted jobs", "", "lower"),
            Metric("evictions", "evictions; a restarted job may be evicted again", "", "lower"),
            Metric(
                "lost_work",
                "cores times slots that evicted jobs had run, over all evictions, core-slots",
                "core-slots",
                "lower",
            ),
            Metric(
                "delay_mean", "mean delay (earliest start to start) of jobs whose start stood, slots", "slots", "lower"
            ),
            Metric("delay_median", "median delay, slots", "slots", "lower"),
            Metric("delay_p95", "95th percentile of the delay, slots", "slots", "lower"),
            Metric(
                "current_work_mean",
                "mean over slots of cores times duration of the jobs that could start, core-slots",
                "core-slots",
            ),
            Metric(
                "future_work_mean",
                "mean over slots of cores times duration of known jobs with a later window, core-slots",
                "core-slots",
            ),
            Metric("known_work_mean", "sum of current_work_mean and future_work_mean, core-slots", "core-slots"),
        ),
        signed=("time_delay", "violation_penalty", "total_reward", "average_reward"),
        shares=(
            "violation_slots",
            "utilization_<resource>",
            "utilization",
            "acceptance",
            "acceptance_by_work",
            "expiry_rate",
        ),
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
"""Metrics of a cluster for deferrable jobs, in the order in which they are returned."""
