"""Tables that a run of a cluster for deferrable jobs records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from desim.checks import MOST_ITEMS
from desim.problems.deferrable.job import REQUESTS, JobSet
from desim.tables import Column, Table, arrival_number, columns_of, turnaround_time, waiting_time

__all__ = ["EVICTIONS", "INFO", "JOBS", "SLOTS", "STATUSES", "TABLES"]

STATUSES = ("completed", "expired", "evicted", "running", "queued")
STARTED = ("completed", "evicted", "running")
ENDED = ("completed", "evicted")

INFO = (
    Column(
        "num_slots",
        "integer",
        "length of the run",
        "slots",
        null="if the run ends with its jobs",
        least=1,
        most=MOST_ITEMS,
    ),
    Column("resources", "texts", "names of the resources, cores first"),
    Column("delay_weight", "float", "cost of a slot of delay", "core-slots", least=0),
    Column("violation_weights", "floats", "cost per unit and slot above the capacity", "core-slots"),
    Column("overcommit", "boolean", "whether more jobs may be started than fit"),
    Column("eviction", "text", "treatment of jobs that no longer fit", values=("never", "lost", "restarted")),
    Column("real_time", "boolean", "whether jobs become known at their earliest start and start then or never"),
)


def _pack_jobs(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Convert rows (rows of a set of jobs, end, position in `STATUSES`) to columns."""
    sets, finishes, statuses = columns_of(rows, 3)
    counts = [len(jobs) for jobs in sets]
    jobs = JobSet(np.concatenate([np.empty((0, REQUESTS + len(info["resources"]))), *sets]))
    return {
        "job_id": jobs.job_id,
        "submission_time": jobs.submission_time,
        "earliest_start": jobs.earliest_start.astype(np.int64),
        "latest_start": jobs.latest_start.astype(np.int64),
        "requested_time": jobs.duration.astype(np.int64),
        **{f"requested_{name}": jobs.requests[:, place] for place, name in enumerate(info["resources"])},
        "starting_time": jobs.starting_time,
        "finish_time": np.repeat(np.array(finishes, dtype=np.float64), counts),
        "revenue": jobs.revenue,
        "evictions": jobs.evictions.astype(np.int64),
        "status": np.repeat(np.array(statuses, dtype=np.int64), counts),
        "arrival_number": jobs.arrival_number,
    }


def _pack_evictions(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Convert rows (slot, rows of a set of jobs) to columns."""
    jobs = JobSet(np.concatenate([np.empty((0, REQUESTS + len(info["resources"]))), *(jobs for _, jobs in rows)]))
    return {
        "job_id": jobs.job_id,
        "starting_time": jobs.starting_time.astype(np.int64),
        "eviction_time": np.array([slot for slot, jobs in rows for _ in jobs], dtype=np.int64),
        "arrival_number": jobs.arrival_number,
    }


JOBS = Table(
    "jobs",
    "a submitted job",
    (
        Column("job_id", "integer", "identifier of the job in the workload"),
        Column("submission_time", "float", "time at which the job became known", "slots", least=0),
        Column("earliest_start", "integer", "first slot of the start window", "slots", least=0),
        Column("latest_start", "integer", "last slot of the start window", "slots", least=0),
        Column("requested_time", "integer", "duration", "slots", least=1),
        Column("requested_{}", "float", "requested amount of a resource", each="resources", least=0),
        Column("starting_time", "float", "slot of the last start", "slots", given=STARTED),
        Column("finish_time", "float", "slot at whose beginning the job ended or was evicted", "slots", given=ENDED),
        waiting_time(STARTED, "slots"),
        Column(
            "execution_time",
            "float",
            "time from start to end",
            "slots",
            given=ENDED,
            formula="finish_time - starting_time",
        ),
        turnaround_time(ENDED, "slots"),
        Column(
            "delay",
            "float",
            "time from earliest start to start",
            "slots",
            given=STARTED,
            formula="starting_time - earliest_start",
        ),
        Column("revenue", "float", "requested amount of the first resource times duration", "core-slots"),
        Column("evictions", "integer", "number of evictions", least=0),
        Column(
            "status",
            "text",
            "state at the end of the run: completed; expired, as its window had ended; evicted and not restarted; "
            "running; or queued, as it could still start",
            values=STATUSES,
        ),
        Column("success", "boolean", "whether the job has completed", formula="status = 'completed'"),
        arrival_number(),
    ),
    sort_by=("submission_time", "job_id"),
    chunk_rows=16_384,
    pack=_pack_jobs,
)

SLOTS = Table(
    "slots",
    "a slot that has begun",
    (
        Column("slot", "integer", "number of the slot, from 0"),
        Column("arrived", "integer", "jobs that became known since the previous slot began", "jobs"),
        Column("current", "integer", "jobs that could start", "jobs"),
        Column("future", "integer", "known jobs whose window was not open yet", "jobs"),
        Column("started", "integer", "jobs started in the slot", "jobs"),
        Column("expired", "integer", "jobs whose window ended with the slot", "jobs"),
        Column("evicted", "integer", "jobs evicted at the beginning of the slot", "jobs"),
        Column("running", "integer", "running jobs, after the starts", "jobs"),
        Column("current_work", "float", "cores times duration of current jobs", "core-slots"),
        Column("future_work", "float", "cores times duration of future jobs", "core-slots"),
        Column("revenue", "float", "revenue of the started jobs minus that of evicted jobs", "core-slots"),
        Column("delay", "float", "delay of the started jobs minus that of evicted jobs", "slots"),
        Column("reward", "float", "contribution of the slot to the objective", "core-slots"),
        Column("capacity_{}", "float", "capacity of a resource that on-demand jobs left", each="resources", least=0),
        Column("used_{}", "float", "amount of the resource that deferrable jobs held", each="resources"),
        Column("violation_{}", "float", "excess of that amount over the capacity", each="resources"),
    ),
    sort_by=("slot",),
    chunk_rows=16_384,
)

EVICTIONS = Table(
    "evictions",
    "an eviction of a job",
    (
        Column("job_id", "integer", "identifier of the job"),
        Column("starting_time", "integer", "slot in which the job had been started", "slots"),
        Column("eviction_time", "integer", "slot at whose beginning the job was evicted", "slots"),
        arrival_number("of the job"),
    ),
    sort_by=("eviction_time", "job_id"),
    chunk_rows=16_384,
    pack=_pack_evictions,
)

TABLES = (JOBS, SLOTS, EVICTIONS)
