"""The tables that a batch run records; columns follow Batsim and evalys where they have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from desim.problems.batch.cores import format_core_sets
from desim.tables import Column, Table, arrival_number, columns_of, turnaround_time, waiting_time

__all__ = ["INFO", "INTERRUPTIONS", "JOBS", "OUTAGES", "TABLES"]

STARTED = ("completed", "killed", "lost", "running")
ENDED = ("completed", "killed", "lost")

INFO = (
    Column("num_cores", "integer", "cores of the cluster", unit="cores", least=1),
    Column("kill_at_request", "boolean", "whether a job that reaches its requested time is ended"),
    Column("infeasible", "text", "what an action that cannot be carried out means", values=("raise", "forward")),
    Column("too_wide", "text", "what is done with a job wider than the cluster", values=("error", "reject")),
    Column("on_outage", "text", "what becomes of a job whose core fails", values=("requeue", "lose")),
    Column("ask_when_empty", "boolean", "whether an agent is asked although no job is queued"),
)


def _pack_jobs(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (job, arrival number, start, end, execution time, core set, status, attempts) apart."""
    jobs, numbers, starts, ends, durations, core_sets, statuses, attempts = columns_of(rows, 8)
    ids, submissions, cores, requested, run_times, users = columns_of(jobs, 6)
    return {
        "job_id": ids,
        "submission_time": submissions,
        "requested_number_of_resources": cores,
        "requested_time": requested,
        "run_time": run_times,
        "starting_time": starts,
        "execution_time": durations,
        "finish_time": ends,
        "allocated_resources": format_core_sets(core_sets, info["num_cores"]),
        "status": statuses,
        "attempts": attempts,
        "user_id": users,
        "arrival_number": numbers,
    }


def _pack_interruptions(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (job id, arrival number, start, end, core set, outcome) apart."""
    ids, numbers, starts, ends, core_sets, outcomes = columns_of(rows, 6)
    return {
        "job_id": ids,
        "starting_time": starts,
        "finish_time": ends,
        "allocated_resources": format_core_sets(core_sets, info["num_cores"]),
        "outcome": outcomes,
        "arrival_number": numbers,
    }


def _pack_outages(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (time, event, core set, cores up afterwards) apart."""
    times, events, core_sets, up = columns_of(rows, 4)
    resources = format_core_sets(core_sets, info["num_cores"])
    return {"time": times, "event": events, "resources": resources, "cores_up": up}


JOBS = Table(
    "jobs",
    "a job that was submitted",
    (
        Column("job_id", "integer", "the job's identifier in the workload"),
        Column("submission_time", "float", "when it was submitted", unit="s", least=0),
        Column("requested_number_of_resources", "integer", "the cores that it requests", unit="cores", least=1),
        Column("requested_time", "float", "the user's estimate of the run time", unit="s", least=0),
        Column("run_time", "float", "the actual run time", unit="s", least=0),
        Column("starting_time", "float", "the start of its last execution", unit="s", given=STARTED),
        Column("execution_time", "float", "how long its last execution took", unit="s", given=ENDED, least=0),
        Column("finish_time", "float", "the end of its last execution", unit="s", given=ENDED),
        waiting_time(STARTED, meaning="from submission to the last start"),
        turnaround_time(ENDED),
        Column(
            "stretch",
            "float",
            "turnaround time over execution time",
            null="unless it took some time",
            formula="CASE WHEN execution_time > 0 THEN turnaround_time / execution_time END",
        ),
        Column("allocated_resources", "text", 'the cores it held, as ranges such as "0-3 7"', given=STARTED),
        Column(
            "success",
            "boolean",
            "whether it ended by itself",
            formula="status = 'completed'",
        ),
        Column(
            "status",
            "text",
            "it ended by itself, was killed at its requested time, was lost to an outage, was running or queued when "
            "the run ended, or was wider than the cluster",
            values=("completed", "killed", "lost", "running", "queued", "rejected"),
        ),
        Column("attempts", "integer", "executions so far, those that an outage cut included", least=0),
        Column("user_id", "integer", "who submitted it, -1 where unknown", least=-1),
        arrival_number(),
    ),
    sort_by=("submission_time", "job_id"),
    pack=_pack_jobs,
)

INTERRUPTIONS = Table(
    "interruptions",
    "an execution that an outage cut",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("starting_time", "float", "when the execution began", unit="s"),
        Column("finish_time", "float", "when it was cut", unit="s"),
        Column("allocated_resources", "text", "the cores it held"),
        Column("outcome", "text", "what became of the job", values=("requeued", "lost")),
        arrival_number("of the job"),
    ),
    sort_by=("finish_time", "job_id"),
    pack=_pack_interruptions,
)

OUTAGES = Table(
    "outages",
    "cores that went down or came back",
    (
        Column("time", "float", "when", unit="s"),
        Column("event", "text", "what happened", values=("down", "up")),
        Column("resources", "text", 'the cores, as ranges such as "0-3 7"'),
        Column("cores_up", "integer", "cores that are up from then on", unit="cores"),
    ),
    sort_by=("time",),
    pack=_pack_outages,
)

TABLES = (JOBS, INTERRUPTIONS, OUTAGES)
