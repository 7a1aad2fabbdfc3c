"""The tables that a batch run records; columns follow Batsim and evalys where they have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from desim.problems.batch.cores import format_core_sets
from desim.tables import Column, Table, arrival_number, columns_of, turnaround_time, waiting_time

__all__ = [
    "CHECKPOINTS",
    "DEPENDENCIES",
    "INFO",
    "INTERRUPTIONS",
    "JOBS",
    "JOB_QOS",
    "LIMITED_JOBS",
    "LIMITS",
    "NODES",
    "OUTAGES",
    "PLACEMENTS",
    "PREEMPTIONS",
    "QOS",
    "REQUESTS",
    "RESERVATIONS",
    "TABLES",
]

STARTED = ("completed", "killed", "lost", "running")
ENDED = ("completed", "killed", "lost")

INFO = (
    Column("num_cores", "integer", "cores of the cluster", unit="cores", least=1),
    Column("enforce_time_limit", "boolean", "whether a job that reaches its requested time is ended"),
    Column(
        "over_time_limit", "float", "time beyond its request before a job is ended", unit="s", least=0, optional=True
    ),
    Column("checkpoint_interval", "float", "work between checkpoints, if there are any", unit="s", optional=True),
    Column("infeasible", "text", "what an action that cannot be carried out means", values=("raise", "forward")),
    Column("too_wide", "text", "what is done with a job wider than the cluster", values=("error", "reject")),
    Column("on_outage", "text", "what becomes of a job whose core fails", values=("requeue", "lose")),
    Column("ask_when_empty", "boolean", "whether an agent is asked although no job is queued"),
    Column("dependencies", "integer", "jobs that come after others, if any may", least=0, optional=True),
    Column("limits", "integer", "limits of jobs, users or queues, if there are any", least=1, optional=True),
    Column(
        "reservations",
        "integer",
        "reservations in which cores are not for jobs, if there are any",
        least=1,
        optional=True,
    ),
    Column("qos", "integer", "qualities of service, if there are any", least=1, optional=True),
    Column("node_reservations", "integer", "those of nodes, if there are any", least=1, optional=True),
    Column("user_reservations", "integer", "those that admit users, if there are any", least=1, optional=True),
    Column("num_nodes", "integer", "nodes of the cluster, if its cores belong to nodes", least=1, optional=True),
    Column("placement", "text", "which nodes jobs get, if an agent names none", optional=True),
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
        Column("attempts", "integer", "executions so far, those that an outage or a preemption cut included", least=0),
        Column("user_id", "integer", "who submitted it, -1 where unknown", least=-1),
        arrival_number(),
    ),
    sort_by=("submission_time", "job_id"),
    pack=_pack_jobs,
)

INTERRUPTIONS = Table(
    "interruptions",
    "an execution that an outage or a preemption cut",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("starting_time", "float", "when the execution began", unit="s"),
        Column("finish_time", "float", "when it was cut", unit="s"),
        Column("allocated_resources", "text", "the cores it held"),
        Column(
            "outcome",
            "text",
            "what became of the job: an outage sent it back to the queue, or it was lost; it was preempted and sent "
            "back, or suspended",
            values=("requeued", "lost", "preempted", "suspended"),
        ),
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


def _pack_requests(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (arrival number, job id, request) apart."""
    numbers, ids, requests = columns_of(rows, 3)
    columns: dict[str, Any] = {"arrival_number": numbers, "job_id": ids}
    for name in ("tasks", "cores", "memory", "gpus", "partition", "exclusive", "tasks_per_node"):
        columns[name] = [getattr(request, name) for request in requests]
    for name in ("gpu_models", "features", "excluded_features"):
        columns[name] = [list(getattr(request, name)) for request in requests]
    return columns | {"resources": [_amounts(request.resources) for request in requests]}


def _pack_placements(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (arrival number, job id, what the job holds of each node, start, end) apart: a row for each node."""
    flat = [(number, job_id, held, start, end) for number, job_id, all_held, start, end in rows for held in all_held]
    numbers, ids, parts, starts, ends = columns_of(flat, 5)
    return {
        "job_id": ids,
        "node": [held.node for held in parts],
        "tasks": [held.tasks for held in parts],
        "gpus": [" ".join(f"{gpu}:{share}" for gpu, share in held.gpus) for held in parts],
        "starting_time": starts,
        "finish_time": ends,
        "arrival_number": numbers,
    }


def _pack_nodes(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (number, node, first core) apart."""
    numbers, nodes, first = columns_of(rows, 3)
    columns: dict[str, Any] = {"node": numbers, "first_core": first}
    for name in ("name", "cores", "memory", "gpus", "gpu_model", "partition", "speed"):
        columns[name] = [getattr(node, name) for node in nodes]
    columns["features"] = [sorted(node.features) for node in nodes]
    return columns | {"resources": [_amounts(sorted(node.resources.items())) for node in nodes]}


def _amounts(amounts: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{name}={amount}" for name, amount in amounts)


NODES = Table(
    "nodes",
    "a node of the cluster",
    (
        Column("node", "integer", "its number", least=0),
        Column("name", "text", "its name"),
        Column("first_core", "integer", "the number of its first core in the cluster", least=0),
        Column("cores", "integer", "how many cores it has", unit="cores", least=1),
        Column("memory", "integer", "its memory", unit="bytes", least=0),
        Column("gpus", "integer", "how many GPUs it has", least=0),
        Column("gpu_model", "text", "their model"),
        Column("resources", "text", 'further resources, such as "licenses=3 slots=8"'),
        Column("partition", "text", "the partition that it belongs to"),
        Column("speed", "float", "jobs run for so many times less than their run time", least=0),
        Column("features", "texts", "what jobs may ask for"),
    ),
    sort_by=("node",),
    pack=_pack_nodes,
    only_with="num_nodes",
)

REQUESTS = Table(
    "requests",
    "what a job requests of nodes",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("tasks", "integer", "how many tasks it has, each on one node", least=1),
        Column("cores", "integer", "cores of each task", unit="cores", least=1),
        Column("memory", "integer", "memory of each task", unit="bytes", least=0),
        Column("gpus", "float", "GPUs of each task; less than one is a share of one GPU", least=0),
        Column("gpu_models", "texts", "the models that will do; none if all will"),
        Column("resources", "text", 'further resources of each task, such as "licenses=1"'),
        Column("partition", "text", "the partition that will do; empty if all will"),
        Column("features", "texts", "what its nodes must have"),
        Column("excluded_features", "texts", "what its nodes must not have"),
        Column("exclusive", "boolean", "whether no other job may be on its nodes"),
        Column("tasks_per_node", "integer", "at most so many tasks on a node", null="without a limit", least=1),
        arrival_number("of the job"),
    ),
    sort_by=("arrival_number",),
    pack=_pack_requests,
    only_with="num_nodes",
)

PLACEMENTS = Table(
    "placements",
    "a node of an execution",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("node", "integer", "the number of the node", least=0),
        Column("tasks", "integer", "the tasks that ran there", least=1),
        Column("gpus", "text", 'GPUs and the thousandths that were held of each, such as "0:1000 1:250"'),
        Column("starting_time", "float", "when the execution began", unit="s"),
        Column("finish_time", "float", "when it ended", unit="s", null="while it is running"),
        arrival_number("of the job"),
    ),
    sort_by=("starting_time", "arrival_number", "node"),
    pack=_pack_placements,
    only_with="num_nodes",
)

DEPENDENCIES = Table(
    "dependencies",
    "a job whose time has come and that comes after others",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("trace_submission_time", "float", "its submission time in the workload", unit="s", least=0),
        Column("after", "text", 'the identifiers of the jobs that it comes after, such as "3 7"'),
        Column("think_time", "float", "from the last of their ends to its submission", unit="s", least=0),
        Column("submission_time", "float", "when it was submitted", unit="s", null="if it still waits at the end"),
    ),
    sort_by=("trace_submission_time", "job_id"),
    only_with="dependencies",
)


def _pack_limits(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (number, limit) apart."""
    numbers, limits = columns_of(rows, 2)
    columns: dict[str, Any] = {"limit": numbers}
    columns["scope"] = ["jobs" if isinstance(limit.scope, Mapping) else limit.scope for limit in limits]
    columns["members"] = [sorted(limit.members or ()) for limit in limits]
    return columns | {name: [getattr(limit, name) for limit in limits] for name in _LIMITED}


_LIMITED = ("job_cores", "job_time", "running_jobs", "running_cores")

LIMITS = Table(
    "limits",
    "a limit of the site",
    (
        Column("limit", "integer", "its number", least=0),
        Column("scope", "text", "what groups of jobs it is for", values=("user", "partition", "jobs")),
        Column("members", "texts", "the groups; none if it is for all"),
        Column("job_cores", "integer", "cores that a job may request", unit="cores", null="without a limit", least=1),
        Column("job_time", "float", "time that a job may request", unit="s", null="without a limit", least=0),
        Column("running_jobs", "integer", "jobs of a group that may run at once", null="without a limit", least=1),
        Column("running_cores", "integer", "cores of these", unit="cores", null="without a limit", least=1),
    ),
    sort_by=("limit",),
    pack=_pack_limits,
    only_with="limits",
)

LIMITED_JOBS = Table(
    "limited_jobs",
    "a job and a limit that holds for it",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("limit", "integer", "the number of the limit", least=0),
        Column("group", "text", "the user, the partition or whatever else the job belongs to"),
        arrival_number("of the job"),
    ),
    sort_by=("arrival_number", "limit"),
    only_with="limits",
)

RESERVATIONS = Table(
    "reservations",
    "an announced time in which some cores are not for jobs",
    (
        Column("reservation", "integer", "its number", least=0),
        Column("start", "float", "when it begins", unit="s", least=0),
        Column("end", "float", "when it ends", unit="s", least=0),
        Column("cores", "integer", "how many cores it takes", unit="cores", least=1),
    ),
    sort_by=("reservation",),
    only_with="reservations",
)

RESERVATION_NODES = Table(
    "reservation_nodes",
    "a node of a reservation",
    (
        Column("reservation", "integer", "the number of the reservation", least=0),
        Column("node", "integer", "the number of the node", least=0),
    ),
    sort_by=("reservation", "node"),
    only_with="node_reservations",
)

RESERVATION_USERS = Table(
    "reservation_users",
    "a user whose jobs may run on the nodes of a reservation",
    (
        Column("reservation", "integer", "the number of the reservation", least=0),
        Column("user_id", "integer", "the user", least=0),
    ),
    sort_by=("reservation", "user_id"),
    only_with="user_reservations",
)

CHECKPOINTS = Table(
    "checkpoints",
    "what a job that was cut and sent back to the queue need not do again",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("finish_time", "float", "when it was cut", unit="s"),
        Column("saved", "float", "the work that is done, of this and earlier executions", unit="s", least=0),
        arrival_number("of the job"),
    ),
    sort_by=("finish_time", "job_id"),
    only_with="checkpoint_interval",
)

QOS = Table(
    "qos",
    "a quality of service",
    (
        Column("qos", "text", "its name"),
        Column("priority", "float", "the larger, the more important", least=0),
        Column("preempts", "texts", "the qualities whose jobs its jobs may take off"),
        Column("mode", "text", "what becomes of its own jobs then", values=("requeue", "suspend")),
    ),
    only_with="qos",
)

JOB_QOS = Table(
    "job_qos",
    "a job that has a quality of service",
    (
        Column("job_id", "integer", "the job's identifier"),
        Column("qos", "text", "the name of its quality of service"),
        arrival_number("of the job"),
    ),
    sort_by=("arrival_number",),
    only_with="qos",
)

PREEMPTIONS = Table(
    "preemptions",
    "a job that was taken off for another one",
    (
        Column("time", "float", "when", unit="s", least=0),
        Column("job_id", "integer", "the identifier of the job that was taken off"),
        Column("preempted_by", "integer", "the identifier of the job that started instead"),
        Column("mode", "text", "what became of the former", values=("requeue", "suspend")),
        arrival_number("of the job that was taken off"),
        Column("number_preempted_by", "integer", "the arrival number of the job that started", least=0),
    ),
    sort_by=("time", "arrival_number"),
    only_with="qos",
)

OF_RESERVATIONS = (RESERVATIONS, RESERVATION_NODES, RESERVATION_USERS)
OF_SITES = (DEPENDENCIES, LIMITS, LIMITED_JOBS, *OF_RESERVATIONS, CHECKPOINTS, QOS, JOB_QOS, PREEMPTIONS)
TABLES = (JOBS, INTERRUPTIONS, OUTAGES, NODES, REQUESTS, PLACEMENTS, *OF_SITES)
