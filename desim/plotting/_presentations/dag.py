"""Results of the cluster of executors that runs DAG jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from desim.plotting._presentations.base import MOST_OVERLAID, Figure, Presentation, Remarks
from desim.plotting.curves import utilization
from desim.plotting.executor_gantt import executor_gantt
from desim.plotting.executor_utilization import executor_utilization
from desim.plotting.jobs_in_system import jobs_in_system
from desim.problems.dag.metrics import METRICS
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DAG"]


def _gantt(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return executor_gantt(results, transfers=False)


def _utilization(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return utilization(results, panels=True) if len(results) > MOST_OVERLAID else utilization(results)


def _jobs(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return jobs_in_system(results, panels=True) if len(results) > MOST_OVERLAID else jobs_in_system(results)


def _executors(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return executor_utilization(results)


def _size(result: Result) -> tuple[str, int]:
    return "executors", int(result.info["num_executors"])


def _workload(result: Result) -> dict[str, float]:
    import polars as pl

    submission = pl.col("submission_time")
    numbers = result.jobs.select(
        pl.len().alias("jobs"),
        (submission.max() - submission.min()).alias("first to last submission ({})"),
        pl.col("num_nodes").sum().alias("nodes"),
        pl.col("num_nodes").max().alias("nodes of a job, maximum"),
        pl.col("num_edges").sum().alias("edges"),
        pl.col("work").sum().alias("work, sum"),
        pl.col("data_size").sum().alias("data, sum"),
    ).row(0, named=True)
    return {name: math.nan if number is None else float(number) for name, number in numbers.items()}


DAG = Presentation(
    problem="dag",
    meanings={metric.name: metric.meaning for metric in METRICS},
    headline=("makespan", "speedup", "slr", "turnaround_time_mean", "useful_utilization"),
    main=(
        "makespan",
        "speedup",
        "slr",
        "gap_to_lower_bound",
        "turnaround_time_mean",
        "turnaround_time_p95",
        "useful_utilization",
        "num_duplicates",
        "data_moved",
    ),
    kinds={
        "jobs_submitted": ("jobs", None),
        "jobs_completed": ("jobs", "higher"),
        "jobs_running": ("jobs", None),
        "jobs_queued": ("jobs", None),
        "num_nodes": ("nodes", None),
        "num_copies": ("copies", None),
        "num_duplicates": ("copies", None),
        "num_useful_duplicates": ("copies", None),
        "num_interrupted": ("copies", None),
        "num_withdrawn": ("copies", None),
        "num_reexecuted": ("copies", None),
        "makespan": ("s", "lower"),
        "serial_time": ("s", None),
        "speedup": ("", "higher"),
        "critical_path": ("s", None),
        "slr": ("", "lower"),
        "job_slr_mean": ("", "lower"),
        "lower_bound": ("s", None),
        "gap_to_lower_bound": ("", "lower"),
        "turnaround_time": ("s", "lower"),
        "waiting_time": ("s", "lower"),
        "utilization": ("", None),
        "useful_utilization": ("", "higher"),
        "wasted_time": ("s", "lower"),
        "num_transfers": ("inputs", None),
        "data_moved": ("units", "lower"),
        "local_share": ("", "higher"),
        "transfer_time": ("s", None),
    },
    figures={
        "gantt": Figure(
            _gantt,
            "Gantt charts: which executor ran which copy of a node when. Duplicates are dotted, copies that an outage "
            "cut are hatched; a thin grey bar is the time in which an executor waited for data.",
        ),
        "utilization": Figure(
            _utilization, "Utilization over time: executors that ran something as a share of those that are up."
        ),
        "jobs": Figure(_jobs, "Jobs in the system over time: those that have been submitted and have not finished."),
        "executors": Figure(
            _executors, "What each executor spent its time on, from the beginning of the run to its end."
        ),
    },
    workload=_workload,
    same_workload={"jobs": ("job_id", "submission_time", "num_nodes", "num_edges", "work", "data_size")},
    size=_size,
    statuses=("completed", "running", "queued"),
    left_behind={"running": "jobs_running", "queued": "jobs_queued"},
    of_finished_jobs=("turnaround_time", "waiting_time", "job_slr", "makespan", "speedup", "slr", "gap_to_lower_bound"),
    remarks=Remarks(
        all_finished="Every job had finished when its run ended, and is part of the metrics.",
        left_out="Makespan, speedup, SLR and the gap to the lower bound are missing from these runs; turnaround times "
        "are those of the jobs that had finished.",
        blind="makespan and turnaround times",
        workload="Work is in units of which an executor of speed 1 does one a second.",
    ),
)
