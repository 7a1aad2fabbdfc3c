"""Metrics of a multi-server cluster, computed only from the tables of a run.

`METRICS` describes every metric. Rewards are in units of the utilities, times in slots.

The observed slots are those from ``warm_up_slots`` on. Rewards, amounts and queues are averages over them, regardless
of when their jobs arrived. Counts and statistics of times cover the jobs that *arrived* in them, regardless of when
these end. Jobs that have not started, or not finished, are left out of the times that they do not have yet.

If jobs last one slot, the total reward is the sum over slots of equation (8) of arXiv 2305.06572, and its average per
slot is the value that the paper compares. If jobs hold their resources, their reward is a speed, and the total is its
integral over time, the work done. A job yields a reward, and holds its resources, up to its end, which may lie between
slots. These resources can be allocated again only from the next slot on, so reserved amounts count whole slots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_int
from desim.exceptions import InvalidConfiguration
from desim.measures import mean, summary, time_integral
from desim.problem import Metric, Metrics, bounded
from desim.problems.multiserver.tables import JOBS, SLOTS, STATUSES

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["METRICS", "multiserver_metrics", "reward_ratio", "running_average_reward"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

REWARDS = ("gain", "overhead", "reward")
"""Parts of the reward of jobs and slots."""


class JobColumns(NamedTuple):
    """Columns of a job table of n rows that metrics need; times in slots, NaN where unknown.

    Attributes
    ----------
    submission, start, finish : array of float, shape (n,)
        Arrival, start and end of each job.
    gain, overhead, reward : array of float, shape (n,)
        Parts of the reward in the job's slot, or per slot if jobs hold their resources.
    status : mapping of str to array of bool, shape (n,)
        Whether each job has a given status, by status.
    """

    submission: Floats
    start: Floats
    finish: Floats
    gain: Floats
    overhead: Floats
    reward: Floats
    status: Mapping[str, Mask]

    def ends(self, end_time: float) -> Floats:
        """Return the end of each job, or of the run if it is running; NaN for jobs that have not started."""
        return np.where(self.status["running"], end_time, self.finish)

    @property
    def started(self) -> Mask:
        """Whether each job was given resources."""
        return self.status["completed"] | self.status["running"]

    def work_done(self, end_time: float, times: Floats) -> Floats:
        """Return the integral of the running jobs' speeds up to given times, for jobs that hold resources."""
        rows = self.started
        events = np.concatenate(([0.0], self.start[rows], self.ends(end_time)[rows]))
        changes = np.concatenate(([0.0], self.reward[rows], -self.reward[rows]))
        order = np.argsort(events, kind="stable")
        events, speeds = events[order], np.cumsum(changes[order])
        done = np.concatenate(([0.0], np.cumsum(speeds[:-1] * np.diff(events))))
        return np.interp(times, events, done)


def _read_jobs(jobs: pl.DataFrame | pl.LazyFrame) -> JobColumns:
    names = ("submission_time", "starting_time", "finish_time", *REWARDS)
    frame = JOBS.select(jobs, *names, "status")
    status = {name: (frame["status"] == name).to_numpy() for name in STATUSES}
    submission, start, finish, gain, overhead, reward = (frame[name].cast(float).to_numpy() for name in names)
    return JobColumns(submission, start, finish, gain, overhead, reward, status)


def _measure(result: Result, **options: Any) -> dict[str, float]:
    info = result.info
    return multiserver_metrics(
        result.scan("jobs"),
        result.scan("slots"),
        capacity=dict(zip(info["resources"], info["total_capacity"], strict=True)),
        holding=info["holding"],
        end_time=result.end_time,
        **options,
    )


def _measured_jobs(result: Result, *, warm_up_slots: int = 0, **options: Any) -> pl.DataFrame:
    """Return the jobs that arrived in the observed slots."""
    return result.jobs.filter(result.jobs["submission_time"] >= warm_up_slots)


def multiserver_metrics(
    jobs: pl.DataFrame | pl.LazyFrame,
    slots: pl.DataFrame | pl.LazyFrame,
    *,
    capacity: Mapping[str, float],
    holding: bool,
    end_time: float,
    warm_up_slots: int = 0,
) -> dict[str, float]:
    """Compute all metrics of `METRICS`.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        Table of jobs, one row per job, in any order.
    slots : polars.DataFrame or polars.LazyFrame
        Table of slots, in order.
    capacity : mapping of str to float
        Total capacity of all nodes, by resource.
    holding : bool
        Whether jobs hold their resources until their work is done, instead of lasting one slot.
    end_time : float
        End of the run, in slots.
    warm_up_slots : int
        Number of initial slots to ignore.

    Returns
    -------
    dict of str to float
        Metrics by name; means of nothing are NaN. Percentiles are interpolated linearly.

    Raises
    ------
    InvalidConfiguration
        If the warm-up is out of range, or a column is missing.
    """
    table = _read_jobs(jobs)
    amounts = [f"{kind}_{resource}" for resource in capacity for kind in ("allocated", "reserved")]
    frame = SLOTS.select(slots, *REWARDS, *amounts)
    first = check_int("warm_up_slots", warm_up_slots, least=0, most=len(frame))
    series = {column.name: column.cast(float).to_numpy()[first:] for column in frame.iter_columns()}
    selected = table.submission >= first
    observed = (float(first), max(float(end_time), float(first))) if holding else None
    earned = table.reward * (table.ends(end_time) - table.start) if holding else table.reward
    values = {
        **_counts(table, selected),
        **_rewards(table, series, observed),
        **_amounts(series, capacity, None if observed is None else _lengths(first, len(frame), observed[1])),
        **({} if observed is None else _flow(table, selected, observed)),
        "num_slots": len(frame) - first,
        "reward_per_job": mean(earned[selected & ~table.status["queued"]]),
    }
    return {name: float(values[name]) for name in METRICS.names_for(list(capacity)) if name in values}


def running_average_reward(result: Result) -> pl.DataFrame:
    """Return the average reward up to each slot, (1/t) sum over tau <= t of the reward: Fig. 2 of arXiv 2305.06572.

    Parameters
    ----------
    result : Result
        Result of a multi-server run.

    Returns
    -------
    polars.DataFrame
        One row per slot: ``slot``, ``average_reward`` per slot, and ``cumulative_reward``, both up to the end of the
        slot, or of the run if that comes first.

    Raises
    ------
    InvalidConfiguration
        If the result does not come from a multi-server cluster.
    """
    import polars as pl

    _check(result)
    slots = SLOTS.select(result.scan("slots"), "slot", "reward")
    ends = slots["slot"].cast(float).to_numpy() + 1.0
    if result.info["holding"]:
        ends = np.minimum(ends, result.end_time)
        total = _read_jobs(result.scan("jobs")).work_done(result.end_time, ends)
    else:
        total = np.cumsum(slots["reward"].to_numpy())
    average = np.divide(total, ends, out=np.full_like(total, np.nan), where=ends > 0)  # a run may end at time 0
    return pl.DataFrame({"slot": slots["slot"], "average_reward": average, "cumulative_reward": total})


def reward_ratio(results: Mapping[str, Result], baseline: str, **options: Any) -> dict[str, float]:
    """Return the ratios of the average rewards of runs to that of a baseline.

    Parameters
    ----------
    results : mapping of str to Result
        Multi-server runs by name; they should have the same workload.
    baseline : str
        Name of the run whose average reward is the divisor.
    **options
        Options of `multiserver_metrics`, such as ``warm_up_slots``.

    Returns
    -------
    dict of str to float
        Ratios in the order of the runs, 1 for the baseline; NaN if the baseline's average reward is not above 0.

    Raises
    ------
    InvalidConfiguration
        If no run has the baseline's name, or a run does not come from a multi-server cluster.
    """
    if baseline not in results:
        raise InvalidConfiguration(f"baseline: got {baseline!r}, expected one of {', '.join(results)}")
    for run in results.values():
        _check(run)
    rewards = {name: _measure(run, **options)["average_reward"] for name, run in results.items()}
    by = rewards[baseline]
    return {name: reward / by if by > 0 else math.nan for name, reward in rewards.items()}


def _check(result: Result) -> None:
    if result.info.get("problem") != "multiserver":
        raise InvalidConfiguration(f"result: got problem {result.info.get('problem')!r}, expected 'multiserver'")


def _counts(table: JobColumns, selected: Mask) -> dict[str, float]:
    groups = {**table.status, "started": table.started, "submitted": selected}
    return {f"jobs_{name}": float(np.count_nonzero(mask & selected)) for name, mask in groups.items()}


def _rewards(table: JobColumns, slots: Mapping[str, Floats], observed: tuple[float, float] | None) -> dict[str, float]:
    """Return totals and averages of the slots or, with holding, of the jobs' time within the observed slots."""
    if observed is None:
        values = {f"average_{name}": mean(slots[name]) for name in REWARDS}
        return values | {"total_reward": float(slots["reward"].sum())}
    length = observed[1] - observed[0]
    rows = table.started
    begins, ends = table.start[rows], table.ends(observed[1])[rows]
    totals = {name: time_integral(begins, ends, getattr(table, name)[rows], observed) for name in REWARDS}
    values = {f"average_{name}": total / length if length else math.nan for name, total in totals.items()}
    return values | {"total_reward": totals["reward"]}


def _lengths(first: int, count: int, end_time: float) -> Floats:
    """Return the lengths of the observed slots; the run may end within the last one."""
    ends = np.arange(first, count) + 1.0
    lengths: Floats = np.minimum(ends, end_time) - (ends - 1.0)
    return lengths


def _amounts(slots: Mapping[str, Floats], capacity: Mapping[str, float], lengths: Floats | None) -> dict[str, float]:
    """Return time averages over the slots, weighted by their lengths if these differ."""
    values = {}
    for name, kind in (("utilization", "allocated"), ("reserved", "reserved")):
        for resource, amount in capacity.items():
            amounts = slots[f"{kind}_{resource}"]
            average = mean(amounts) if lengths is None else _weighted(amounts, lengths)
            values[f"{name}_{resource}"] = average / amount if amount else math.nan
    there = np.array([values[f"utilization_{resource}"] for resource, amount in capacity.items() if amount])
    return values | {"utilization": mean(there)}


def _weighted(values: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float(values @ weights) / total if total > 0 else math.nan


def _flow(table: JobColumns, selected: Mask, observed: tuple[float, float]) -> dict[str, float]:
    """Return the metrics that only exist for jobs that wait and hold resources."""
    started, ended = table.started & selected, table.status["completed"] & selected
    samples = {
        "waiting_time": (table.start - table.submission)[started],
        "turnaround_time": (table.finish - table.submission)[ended],
        "execution_time": (table.finish - table.start)[ended],
    }
    values = {"speed_mean": mean(table.reward[started])}
    for name, sample in samples.items():
        values |= summary(name, sample)
    begin, end = observed
    served = np.where(table.started, table.start, end)
    queued = time_integral(table.submission, served, 1.0, observed)
    finished = np.count_nonzero((table.finish >= begin) & (table.finish <= end))
    length = end - begin
    return values | {
        "throughput": finished / length if length else math.nan,
        "queue_length_mean": queued / length if length else math.nan,
    }


def _described() -> tuple[Metric, ...]:
    distributions = {
        "waiting_time": "time from arrival to start, slots",
        "turnaround_time": "time from arrival to end, slots",
        "execution_time": "time from start to end, slots",
    }
    summaries = {"mean": "mean", "median": "median", "p95": "95th percentile"}
    return (
        Metric("num_slots", "observed slots", "slots"),
        Metric("jobs_submitted", "jobs that arrived in observed slots, in total", "jobs"),
        Metric("jobs_started", "jobs that were given resources (completed or running)", "jobs"),
        Metric("jobs_completed", "jobs that completed", "jobs"),
        Metric("jobs_unserved", "jobs that were given nothing in their one slot", "jobs", "lower"),
        Metric("jobs_running", "jobs running when the run ended", "jobs"),
        Metric("jobs_queued", "jobs queued when the run ended", "jobs"),
        Metric("total_reward", "total of gain minus overhead", better="higher"),
        Metric("average_reward", "gain minus overhead, per slot", better="higher"),
        Metric("average_gain", "gain by parallel computation, per slot", better="higher"),
        Metric("average_overhead", "dominant communication overhead, per slot", better="lower"),
        Metric(
            "reward_per_job",
            "mean reward so far of the jobs that were served or left unserved",
            better="higher",
        ),
        Metric("utilization_<resource>", "time average of the amount that running jobs hold, over the capacity"),
        Metric("utilization", "mean utilization of the resources with a capacity above 0"),
        Metric(
            "reserved_<resource>",
            "time average of the amount allocated in whole slots, also to ports without a job, over the capacity",
        ),
        *(
            Metric(f"{name}_{summary}", f"{statistic} of the {meaning} (with holding)", "slots", "lower")
            for name, meaning in distributions.items()
            for summary, statistic in summaries.items()
        ),
        Metric("throughput", "jobs that end per slot (with holding)", "jobs per slot", "higher"),
        Metric("speed_mean", "mean reward per slot of the started jobs (with holding)", "", "higher"),
        Metric("queue_length_mean", "time average of the number of queued jobs (with holding)", "jobs", "lower"),
    )


METRICS = Metrics(
    bounded(
        _described(),
        signed=("total_reward", "average_reward", "average_gain", "average_overhead", "reward_per_job", "speed_mean"),
        shares=("utilization", "utilization_<resource>", "reserved_<resource>"),
    ),
    _measure,
    headline=("average_reward", "average_gain", "average_overhead", "reward_per_job", "utilization"),
    main=(
        "average_reward",
        "average_gain",
        "average_overhead",
        "reward_per_job",
        "utilization",
        "jobs_unserved",
        "throughput",
        "turnaround_time_mean",
        "queue_length_mean",
    ),
    measured_jobs=_measured_jobs,
)
"""Metrics of a multi-server cluster, in the order in which they are returned; those marked "with holding" are returned
only for jobs that hold resources."""
