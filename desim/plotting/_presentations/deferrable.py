"""Results of the cluster for deferrable jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from desim.plotting._presentations.base import Figure, Presentation
from desim.plotting.capacity_use import capacity_use
from desim.plotting.job_windows import job_windows
from desim.plotting.known_work import known_work
from desim.problems.deferrable.metrics import METRICS
from desim.result import Result
from desim.statistics import RESOURCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DEFERRABLE"]


def _capacity(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return capacity_use(results)


def _windows(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return job_windows(results, num_jobs=min(40, max(12, 80 // len(results))))  # so that several fit on a page


def _work(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return known_work(results)


def _workload(result: Result) -> dict[str, float]:
    import polars as pl

    first = result.info["resources"][0]
    request, duration = pl.col(f"requested_{first}"), pl.col("requested_time")
    numbers = result.jobs.select(
        pl.len().alias("jobs"),
        request.median().alias(f"{first} requested, median"),
        request.max().alias(f"{first} requested, maximum"),
        duration.mean().alias("duration, mean (slots)"),
        duration.max().alias("duration, maximum (slots)"),
        (pl.col("latest_start") - pl.col("earliest_start") + 1).mean().alias("window, mean (slots)"),
        (request * duration).sum().alias(f"{first} x duration, sum"),
    ).row(0, named=True)
    slots = result.table("slots").select(
        pl.len().alias("slots"), pl.col(f"capacity_{first}").mean().alias(f"capacity, mean ({first})")
    )
    numbers |= slots.row(0, named=True)
    return {name: math.nan if number is None else float(number) for name, number in numbers.items()}


DEFERRABLE = Presentation(
    problem="deferrable",
    meanings={metric.name.replace("{}", RESOURCE): metric.meaning for metric in METRICS},
    headline=("total_reward", "utilization", "time_delay", "violation_penalty", "acceptance_by_work"),
    main=(
        "total_reward",
        "utilization",
        "time_delay",
        "violation_penalty",
        "acceptance_by_work",
        "expiry_rate",
        "delay_mean",
        "violation_slots",
    ),
    kinds={
        "utilization": ("core-slots", "higher"),
        "time_delay": ("core-slots", "higher"),
        "violation_penalty": ("core-slots", "higher"),
        "total_reward": ("core-slots", "higher"),
        "average_reward": ("core-slots a slot", "higher"),
        "violation": ("", "lower"),
        "violation_slots": ("", "lower"),
        "capacity_share": ("", None),
        "num": ("jobs", None),
        "num_slots": ("slots", None),
        "num_evictions": ("", "lower"),
        "acceptance": ("", "higher"),
        "expiry_rate": ("", "lower"),
        "lost_work": ("core-slots", "lower"),
        "delay": ("slots", "lower"),
        "current_work": ("core-slots", None),
        "future_work": ("core-slots", None),
        "known_work": ("core-slots", None),
    },
    figures={
        "windows": Figure(
            _windows,
            "The first jobs: a thin line from the submission to the window, a pale bar over the window (orange if it "
            "passed without a start), a black mark at the start, and a narrower bar for the run.",
        ),
        "capacity": Figure(
            _capacity,
            "What deferrable jobs of each size hold, one above the other, and the capacity as a line. What is held "
            "beyond the capacity, a violation, is hatched in orange.",
        ),
        "work": Figure(
            _work,
            "Work that is known and not done yet as each slot begins: of running jobs, of jobs whose window is open, "
            "of jobs that expire, and of jobs whose window opens later.",
        ),
    },
    workload=_workload,
    same_workload={
        "jobs": ("job_id", "submission_time", "earliest_start", "latest_start", "requested_*"),
        "slots": ("slot", "submitted", "capacity_*"),
    },
    statuses=("completed", "expired", "evicted", "running", "pending"),
    time_unit="slots",
)
