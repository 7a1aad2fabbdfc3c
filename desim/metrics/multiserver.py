"""Metrics of a multi-server cluster, computed from its tables and from nothing else.

`MULTISERVER_METRICS` names every metric with its meaning and unit. Rewards are in units of the utilities, times in
slots.

The observed slots are those from ``warm_up_slots`` on. Rewards, amounts and queues are averages over them, whenever
their jobs were submitted; counts and the statistics of times are taken over the jobs *submitted* within them, whatever
happens to them. Jobs that have not started, or not finished, are left out of the times that they do not have yet.

Where a job lasts one slot, the total reward is the sum over slots of equation (8) of arXiv 2305.06572, and its average
per slot is what that paper compares. Where jobs hold their resources, their reward is a speed, and the total is its
integral over time, the work that was done: a job earns up to its end, which may come between slots. What it held can
be given away from the next slot on, so that utilization counts whole slots in both cases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.metrics.columns import description, end_time_of, numbers, read_columns
from desim.metrics.multiserver_input import REWARDS, MultiServerJobs, read_jobs
from desim.statistics import area, mean, named_for, summary

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = [
    "MULTISERVER_METRICS",
    "multiserver_metrics",
    "multiserver_result_metrics",
    "reward_ratio",
    "running_average_reward",
]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SUMMARIES = {"mean": "mean", "median": "median", "p95": "95th percentile"}
_DISTRIBUTIONS = {
    "waiting_time": "time from submission to start, slots",
    "turnaround_time": "time from submission to end, slots",
    "execution_time": "time from start to end, slots",
}
_ALWAYS = {
    "num_slots": "observed slots",
    "num_jobs": "jobs submitted within the observed slots; the other counts are parts of these",
    "num_served": "jobs that were given resources (completed or running)",
    "num_completed": "jobs that have ended",
    "num_unserved": "jobs that were given nothing in their one slot",
    "num_running": "jobs running when the run ended",
    "num_waiting": "jobs waiting when the run ended",
    "total_reward": "gain less overhead, in all",
    "average_reward": "gain less overhead, a slot",
    "average_gain": "gain by parallel computation, a slot",
    "average_overhead": "dominant communication overhead, a slot",
    "reward_per_job": "mean of what the jobs that were served or left unserved have earned so far",
    "utilization_<resource>": "mean over slots of what running jobs are given of a resource, over its capacity",
    "utilization_mean": "mean of the utilizations of the resources of which there is any",
    "reserved_<resource>": "mean over slots of what the agent gives away, to ports without a job too, over capacity",
}
_HOLDING = {
    **{
        f"{name}_{summary}": f"{statistic} of: {meaning} (with holding)"
        for name, meaning in _DISTRIBUTIONS.items()
        for summary, statistic in _SUMMARIES.items()
    },
    "throughput": "jobs that end, a slot (with holding)",
    "mean_speed": "mean reward a slot of the jobs that were served (with holding)",
    "queue_length_mean": "time average of the number of waiting jobs (with holding)",
}

MULTISERVER_METRICS: Mapping[str, str] = {**_ALWAYS, **_HOLDING}
"""The metrics of a multi-server cluster: name, and meaning with unit, in the order in which they are returned. There is
one of ``NAME_<resource>`` for each resource; those with holding are only returned for jobs that hold resources."""


def multiserver_result_metrics(result: Result, **options: Any) -> dict[str, float]:
    """Return the metrics of a multi-server run.

    Parameters
    ----------
    result : Result
        The run; only the columns that are needed are read.
    **options
        From ``warm_up_slots`` on, those of `multiserver_metrics`.

    Returns
    -------
    dict of str to float
        The metrics of `MULTISERVER_METRICS`.

    Raises
    ------
    InvalidConfiguration
        If the result is not one of a multi-server cluster, or an option is out of range.
    """
    info = description(result, "multiserver")
    return multiserver_metrics(
        result.scan("jobs"),
        result.scan("slots"),
        capacity=dict(zip(info["resources"], info["total_capacity"], strict=True)),
        holding=info["holding"],
        end_time=end_time_of(result),
        **options,
    )


def multiserver_metrics(
    jobs: pl.DataFrame | pl.LazyFrame,
    slots: pl.DataFrame | pl.LazyFrame,
    *,
    capacity: Mapping[str, float],
    holding: bool,
    end_time: float,
    warm_up_slots: int = 0,
) -> dict[str, float]:
    """Compute the metrics of `MULTISERVER_METRICS`.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table, one row a job, in any order.
    slots : polars.DataFrame or polars.LazyFrame
        The slots, in order.
    capacity : mapping of str to float
        The resources, and what all nodes together have of each.
    holding : bool
        Whether jobs hold their resources until their work is done, instead of lasting one slot.
    end_time : float
        When the run ended, in slots.
    warm_up_slots : int
        The first so many slots are not observed.

    Returns
    -------
    dict of str to float
        The metrics, NaN where there is nothing to take a mean of. Percentiles are interpolated linearly.

    Raises
    ------
    InvalidConfiguration
        If the warm-up is out of range, a column is missing, or a resource is called ``mean``.
    """
    if "mean" in capacity:
        raise InvalidConfiguration("a resource is called 'mean', which is taken: utilization_mean is the mean of all")
    table = read_jobs(jobs)
    amounts = [f"{kind}_{resource}" for resource in capacity for kind in ("allocated", "reserved")]
    frame = read_columns("slots", slots, (*REWARDS, *amounts))
    if not 0 <= warm_up_slots <= len(frame) or warm_up_slots != int(warm_up_slots):
        raise InvalidConfiguration(
            f"warm_up_slots is {warm_up_slots!r}, want a whole number from 0 to the {len(frame)} slots of the run"
        )
    series = {column.name: numbers(column)[int(warm_up_slots) :] for column in frame.iter_columns()}
    selected = table.submission >= warm_up_slots
    observed = (float(warm_up_slots), max(float(end_time), float(warm_up_slots))) if holding else None
    earned = table.reward * (table.ends(end_time) - table.start) if holding else table.reward
    values = {
        **_counts(table, selected),
        **_rewards(table, series, observed),
        **_amounts(series, capacity),
        **({} if observed is None else _flow(table, selected, observed)),
        "num_slots": len(frame) - warm_up_slots,
        "reward_per_job": mean(earned[selected & ~table.status["waiting"]]),
    }
    names = (name for name in MULTISERVER_METRICS if holding or name not in _HOLDING)
    return {name: float(values[name]) for name in named_for(names, list(capacity))}


def running_average_reward(result: Result) -> pl.DataFrame:
    """Return the average reward up to each slot, (1/t) sum over tau <= t of the reward: Fig. 2 of arXiv 2305.06572.

    Parameters
    ----------
    result : Result
        A multi-server run.

    Returns
    -------
    polars.DataFrame
        A row for each slot: ``slot``, ``average_reward`` a slot, and ``cumulative_reward``, both up to the end of the
        slot, or of the run if that comes first.

    Raises
    ------
    InvalidConfiguration
        If the result is not one of a multi-server cluster.
    """
    import polars as pl

    info = description(result, "multiserver")
    end_time = end_time_of(result)
    slots = read_columns("slots", result.scan("slots"), ("slot", "reward"))
    ends = numbers(slots["slot"]) + 1.0
    if info["holding"]:
        ends = np.minimum(ends, end_time)
        total = read_jobs(result.scan("jobs")).work_done(end_time, ends)
    else:
        total = np.cumsum(numbers(slots["reward"]))
    average = np.divide(total, ends, out=np.full_like(total, np.nan), where=ends > 0)  # a run may end when it begins
    return pl.DataFrame({"slot": slots["slot"], "average_reward": average, "cumulative_reward": total})


def reward_ratio(results: Mapping[str, Result], baseline: str, **options: Any) -> dict[str, float]:
    """Compare the average rewards of runs with that of one of them.

    Parameters
    ----------
    results : mapping of str to Result
        Multi-server runs by name; of the same workload, if the comparison is to mean anything.
    baseline : str
        The name of the run whose average reward the others are divided by.
    **options
        From ``warm_up_slots`` on, those of `multiserver_metrics`.

    Returns
    -------
    dict of str to float
        The ratios in the order of the runs, 1 for the baseline; NaN if the baseline earns nothing or less.

    Raises
    ------
    InvalidConfiguration
        If there is no run of the baseline's name, or a run is not one of a multi-server cluster.
    """
    if baseline not in results:
        raise InvalidConfiguration(f"the baseline {baseline!r} is none of the runs {', '.join(results)}")
    rewards = {name: multiserver_result_metrics(run, **options)["average_reward"] for name, run in results.items()}
    by = rewards[baseline]
    return {name: reward / by if by > 0 else math.nan for name, reward in rewards.items()}


def _counts(table: MultiServerJobs, selected: Mask) -> dict[str, float]:
    groups = {**table.status, "served": table.started, "jobs": selected}
    return {f"num_{name}": float(np.count_nonzero(mask & selected)) for name, mask in groups.items()}


def _rewards(
    table: MultiServerJobs, slots: Mapping[str, Floats], observed: tuple[float, float] | None
) -> dict[str, float]:
    """Return totals and averages: of the slots, or of the jobs' time within the observed slots if they hold."""
    if observed is None:
        values = {f"average_{name}": mean(slots[name]) for name in REWARDS}
        return values | {"total_reward": float(slots["reward"].sum())}
    length = observed[1] - observed[0]
    rows = table.started
    begins, ends = table.start[rows], table.ends(observed[1])[rows]
    totals = {name: area(begins, ends, getattr(table, name)[rows], observed) for name in REWARDS}
    values = {f"average_{name}": total / length if length else math.nan for name, total in totals.items()}
    return values | {"total_reward": totals["reward"]}


def _amounts(slots: Mapping[str, Floats], capacity: Mapping[str, float]) -> dict[str, float]:
    values = {}
    for name, kind in (("utilization", "allocated"), ("reserved", "reserved")):
        for resource, amount in capacity.items():
            average = mean(slots[f"{kind}_{resource}"])
            values[f"{name}_{resource}"] = average / amount if amount else math.nan
    there = np.array([values[f"utilization_{resource}"] for resource, amount in capacity.items() if amount])
    return values | {"utilization_mean": mean(there)}


def _flow(table: MultiServerJobs, selected: Mask, observed: tuple[float, float]) -> dict[str, float]:
    """Return what is particular to jobs that wait and hold resources."""
    started, ended = table.started & selected, table.status["completed"] & selected
    samples = {
        "waiting_time": (table.start - table.submission)[started],
        "turnaround_time": (table.finish - table.submission)[ended],
        "execution_time": (table.finish - table.start)[ended],
    }
    values = {"mean_speed": mean(table.reward[started])}
    for name, sample in samples.items():
        values |= summary(name, sample)
    begin, end = observed
    served = np.where(table.started, table.start, end)
    queued = area(table.submission, served, 1.0, observed)
    finished = np.count_nonzero((table.finish >= begin) & (table.finish <= end))
    length = end - begin
    return values | {
        "throughput": finished / length if length else math.nan,
        "queue_length_mean": queued / length if length else math.nan,
    }
