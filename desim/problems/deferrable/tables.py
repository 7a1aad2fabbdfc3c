"""The tables that a run of a cluster for deferrable jobs records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from desim.problems.deferrable.job import REQUESTS, JobSet
from desim.tables import Column, Table, arrival_number, columns_of, turnaround_time, waiting_time

__all__ = ["EVICTIONS", "INFO", "JOBS", "SLOTS", "STATUSES", "TABLES"]

STATUSES = ("completed", "expired", "evicted", "running", "queued")
STARTED = ("completed", "evicted", "running")
ENDED = ("completed", "evicted")

INFO = (
    Column("num_slots", "integer", "length of the run", "slots", null="if it ends with its jobs", least=1),
    Column("resources", "texts", "names of the resources, cores first"),
    Column("delay_weight", "float", "what a slot of delay costs", "core-slots", least=0),
    Column("violation_weights", "floats", "what a unit and slot above the capacity costs", "core-slots"),
    Column("overcommit", "boolean", "whether more may be started than fits"),
    Column("eviction", "text", "what becomes of jobs that no longer fit", values=("never", "lost", "restarted")),
    Column("real_time", "boolean", "whether jobs are known at their earliest start, to be started then or never"),
)


def _pack_jobs(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (rows of a set of jobs, end, place in `STATUSES`) apart."""
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
    """Take rows (slot, rows of a set of jobs) apart."""
    jobs = JobSet(np.concatenate([np.empty((0, REQUESTS + len(info["resources"]))), *(jobs for _, jobs in rows)]))
    return {
        "job_id": jobs.job_id,
        "starting_time": jobs.starting_time.astype(np.int64),
        "eviction_time": np.array([slot for slot, jobs in rows for _ in jobs], dtype=np.int64),
        "arrival_number": jobs.arrival_number,
    }


JOBS = Table(
    "jobs",
    "a job that was submitted",
    (
        Column("job_id", "integer", "the job's identifier in the workload"),
        Column("submission_time", "float", "when it became known", "slots", least=0),
        Column("earliest_start", "integer", "the first slot of its window", "slots", least=0),
        Column("latest_start", "integer", "the last slot of its window", "slots", least=0),
        Column("requested_time", "integer", "how long it runs", "slots", least=1),
        Column("requested_{}", "float", "what it requests of a resource", each="resources", least=0),
        Column("starting_time", "float", "the slot of its last start", "slots", given=STARTED),
        Column("finish_time", "float", "the slot at whose beginning it ended or was evicted", "slots", given=ENDED),
        waiting_time(STARTED, "slots"),
        Column(
            "execution_time", "float", "from start to end", "slots", given=ENDED, formula="finish_time - starting_time"
        ),
        turnaround_time(ENDED, "slots"),
        Column(
            "delay",
            "float",
            "from earliest start to start",
            "slots",
            given=STARTED,
            formula="starting_time - earliest_start",
        ),
        Column("revenue", "float", "what it requests of the first resource times its duration", "core-slots"),
        Column("evictions", "integer", "how often it was evicted", least=0),
        Column(
            "status",
            "text",
            "it ended; its window passed; it was evicted for good; it was running, or could still be started, when the "
            "run ended",
            values=STATUSES,
        ),
        Column("success", "boolean", "whether it has completed", formula="status = 'completed'"),
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
        Column("slot", "integer", "its number, from 0"),
        Column("arrived", "integer", "jobs that became known for it", "jobs"),
        Column("current", "integer", "jobs that could be started in it", "jobs"),
        Column("future", "integer", "known jobs whose window was not yet open", "jobs"),
        Column("started", "integer", "jobs that were started in it", "jobs"),
        Column("expired", "integer", "jobs whose window has passed with it", "jobs"),
        Column("evicted", "integer", "jobs that were evicted as it began", "jobs"),
        Column("running", "integer", "jobs that run once jobs have been started", "jobs"),
        Column("current_work", "float", "cores times duration of current jobs", "core-slots"),
        Column("future_work", "float", "cores times duration of future jobs", "core-slots"),
        Column("revenue", "float", "of the jobs that were started, less those that were evicted", "core-slots"),
        Column("delay", "float", "of the jobs that were started, less those that were evicted", "slots"),
        Column("reward", "float", "the slot's part of the objective", "core-slots"),
        Column("capacity_{}", "float", "what on-demand jobs left of a resource", each="resources", least=0),
        Column("used_{}", "float", "what deferrable jobs held of it", each="resources"),
        Column("violation_{}", "float", "by how much that was more", each="resources"),
    ),
    sort_by=("slot",),
    chunk_rows=16_384,
)

EVICTIONS = Table(
    "evictions",
    "a job that was evicted in a slot",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("starting_time", "integer", "the slot in which it had been started", "slots"),
        Column("eviction_time", "integer", "the slot as which began it was evicted", "slots"),
        arrival_number("of the job"),
    ),
    sort_by=("eviction_time", "job_id"),
    chunk_rows=16_384,
    pack=_pack_evictions,
)

TABLES = (JOBS, SLOTS, EVICTIONS)
