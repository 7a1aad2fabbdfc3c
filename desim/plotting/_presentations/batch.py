"""Results of the batch cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from desim.plotting._presentations.base import MOST_OVERLAID, Figure, Presentation, Remarks
from desim.plotting._runs import num_cores
from desim.plotting.curves import queue_length, utilization
from desim.plotting.gantt import gantt
from desim.plotting.waiting import waiting_by_size
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BATCH"]


def _utilization(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return utilization(results, panels=True) if len(results) > MOST_OVERLAID else utilization(results)


def _queue(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return queue_length(results, panels=True) if len(results) > MOST_OVERLAID else queue_length(results)


def _gantt(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return gantt(results)


def _waiting(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return waiting_by_size(results)


def _size(result: Result) -> tuple[str, int]:
    return "cores", num_cores(result)


def _workload(result: Result) -> dict[str, float]:
    import polars as pl

    cores, run_time, submission = (
        pl.col(name) for name in ("requested_number_of_resources", "run_time", "submission_time")
    )
    numbers = result.jobs.select(
        pl.len().alias("jobs"),
        (submission.max() - submission.min()).alias("first to last submission ({})"),
        cores.median().alias("cores requested, median"),
        cores.max().alias("cores requested, maximum"),
        run_time.median().alias("run time, median (s)"),
        run_time.max().alias("run time, maximum (s)"),
        (cores * run_time).filter(pl.col("status") != "rejected").sum().alias("cores x run time, sum (core-{})"),
    ).row(0, named=True)
    values = {name: math.nan if number is None else float(number) for name, number in numbers.items()}
    room = _size(result)[1] * values["first to last submission ({})"]
    return values | {"offered load": values["cores x run time, sum (core-{})"] / room if room else math.nan}


BATCH = Presentation(
    problem="batch",
    headline=(
        "waiting_time_mean",
        "waiting_time_p95",
        "bounded_slowdown_mean",
        "queue_length_mean",
        "utilization",
    ),
    main=(
        "waiting_time_mean",
        "waiting_time_median",
        "waiting_time_p95",
        "bounded_slowdown_mean",
        "bounded_slowdown_p95",
        "utilization",
        "queue_length_mean",
        "makespan",
    ),
    kinds={
        "waiting_time": ("s", "lower"),
        "turnaround_time": ("s", "lower"),
        "slowdown": ("", "lower"),
        "bounded_slowdown": ("", "lower"),
        "stretch": ("", "lower"),
        "fairness_jain": ("", "higher"),
        "fairness_max_over_mean": ("", "lower"),
        "users": ("users", None),
        "makespan": ("s", "lower"),
        "offered_load": ("", None),
        "utilization": ("", "higher"),
        "busy_core_seconds": ("core-s", None),
        "available_core_seconds": ("core-s", None),
        "wasted_core_seconds": ("core-s", "lower"),
        "interruptions": ("executions", None),
        "queue_length": ("jobs", "lower"),
        "queued_load": ("core-s", "lower"),
        "throughput": ("jobs/h", "higher"),
        "jobs": ("jobs", None),
        "jobs_finished": ("jobs", "higher"),
        "jobs_completed": ("jobs", "higher"),
        "jobs_lost": ("jobs", "lower"),
    },
    figures={
        "gantt": Figure(
            _gantt,
            "Gantt charts: which job held which cores when. Neighbouring jobs have different colours, which mean "
            "nothing else. Executions that an outage cut and cores that were down are hatched.",
        ),
        "utilization": Figure(_utilization, "Utilization over time: busy cores as a share of the cores that are up."),
        "queue": Figure(
            _queue,
            "Queue over time: jobs that have been submitted and are not running, rejected jobs excepted.",
        ),
        "waiting": Figure(
            _waiting,
            "Waiting time by the number of cores requested. Dot: median; bar: 25th to 75th percentile; line: 5th "
            "to 95th. The scale is logarithmic if waiting times are long, and linear near 0.",
        ),
    },
    workload=_workload,
    same_workload={
        "jobs": ("job_id", "submission_time", "requested_number_of_resources", "requested_time", "run_time")
    },
    size=_size,
    statuses=("completed", "killed", "lost", "running", "queued", "rejected"),
    left_behind={"queued": "jobs_queued", "running": "jobs_running", "lost": "jobs_lost"},
    of_finished_jobs=(
        "waiting_time",
        "turnaround_time",
        "slowdown",
        "bounded_slowdown",
        "stretch",
        "fairness",
        "makespan",
    ),
    remarks=Remarks(
        all_finished="Every job that was not rejected had finished when its run ended, and is part of the metrics.",
        left_out="Waiting times are those of the jobs that had started, turnaround times and slowdowns those of the "
        "jobs that had finished. The other jobs, which often wait longest, are missing from them. Utilization and "
        "queue length are averages over the time of the run and count every job.",
        blind="waiting times and slowdowns",
        workload="Run times are the actual ones. The offered load is the sum of cores x run time over the cores of the "
        "cluster times the time from first to last submission. Rejected jobs are left out of that sum.",
    ),
)
