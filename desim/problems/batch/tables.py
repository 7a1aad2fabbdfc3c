"""Tables that a batch run records; column names follow Batsim and evalys where these define them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from desim.checks import MOST_CORES
from desim.problems.batch.cores import format_core_sets
from desim.tables import Column, Table, arrival_number, columns_of, turnaround_time

__all__ = ["INFO", "INTERRUPTIONS", "JOBS", "NODES", "PLACEMENTS", "REQUESTS", "TABLES", "job_id_column", "with_cores"]

STARTED = ("completed", "killed", "lost", "running")
ENDED = ("completed", "killed", "lost")
FINISHED = ("completed", "killed")


def job_id_column(meaning: str = "identifier of the job", name: str = "job_id") -> Column:
    """Return the column of the identifiers that jobs have in the workload; several jobs may have the same."""
    return Column(name, "integer", meaning, typed_by="job_ids")


INFO = (
    Column("num_cores", "integer", "number of cores of the cluster", unit="cores", least=1, most=MOST_CORES),
    Column("resources", "text", "what the cluster consists of", values=("cores", "nodes"), optional=True),
    Column("enforce_time_limit", "boolean", "whether a job that reaches its requested time is killed"),
    Column(
        "over_time_limit", "float", "time that a job may exceed its requested time", unit="s", least=0, optional=True
    ),
    Column("infeasible", "text", "what an infeasible action does", values=("raise", "forward")),
    Column("too_wide", "text", "what happens to a job that requests too much", values=("error", "reject")),
    Column("on_outage", "text", "what happens to a running job when its core fails", values=("requeue", "lose")),
    Column("ask_when_empty", "boolean", "whether decisions are requested even if no job is queued"),
    Column(
        "cycle",
        "text",
        "which events of an instant share a scheduling cycle",
        values=("arrival", "instant", "event", "periodic"),
        optional=True,
    ),
    Column("cycle_period", "float", "time between scheduling cycles, if they are periodic", unit="s", optional=True),
    Column("predictor", "text", "what predicts run times, unless they are the requested times", optional=True),
    Column("foresight", "boolean", "whether the predictor knows the actual run times", optional=True),
    Column("job_ids", "text", "type of the job ids, unless they are integers", values=("text",), optional=True),
    Column("attributes", "texts", "types of the attributes of jobs by name, if any", optional=True),
    Column(
        "window",
        "floats",
        "the window of a log: its number, begin of warm-up, start, end, and end of cool-down on the log's clock",
        optional=True,
    ),
    Column("engine", "text", "what simulated the run, unless SimPy did", values=("compiled",), optional=True),
    Column("parts", "texts", "names of the optional features of the cluster", optional=True),
    Column(
        "num_nodes", "integer", "number of nodes, if the cluster has nodes", least=1, most=MOST_CORES, optional=True
    ),
    Column("placement", "text", "policy that chooses nodes if an agent names none", optional=True),
)


def _pack_jobs(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of rows.

    A row holds job, arrival number, start, end and duration of the last execution, core set, status, attempts, and the
    seconds of earlier executions and of work that was kept; with a predictor, also the prediction and the number of its
    corrections.
    """
    names = _OF_ROWS + (("predicted_time", "corrections") if "predictor" in info else ())
    columns = dict(zip(names, columns_of(rows, len(names)), strict=True))
    jobs = columns.pop("job")
    columns |= zip(_OF_JOBS, columns_of(jobs, len(_OF_JOBS)), strict=True)
    for name, kind in info.get("attributes", {}).items():
        values = [job.attributes.get(name) for job in jobs]
        columns[name] = [None if value is None else str(value) for value in values] if kind == "text" else values
    return columns | {"allocated_resources": format_core_sets(columns["allocated_resources"], info["num_cores"])}


_OF_ROWS = (
    *("job", "arrival_number", "starting_time", "finish_time", "execution_time", "allocated_resources", "status"),
    *("attempts", "earlier_execution_time", "useful_execution_time"),
)
_OF_JOBS = ("job_id", "submission_time", "requested_number_of_resources", "requested_time", "run_time", "user_id")


def with_cores(column: str, *names: str) -> Callable[[list[tuple[Any, ...]], Mapping[str, Any]], dict[str, Any]]:
    """Return a function that packs rows with these columns, of which one holds core sets to record as ranges."""

    def pack(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of the rows."""
        columns = dict(zip(names, columns_of(rows, len(names)), strict=True))
        return columns | {column: format_core_sets(columns[column], info["num_cores"])}

    return pack


JOBS = Table(
    "jobs",
    "a submitted job",
    (
        job_id_column("identifier of the job in the workload: an integer, or text if the workload has texts"),
        Column("submission_time", "float", "submission", unit="s", least=0),
        Column("requested_number_of_resources", "integer", "requested cores", unit="cores", least=1),
        Column("requested_time", "float", "the user's estimate of the run time", unit="s", least=0),
        Column("run_time", "float", "actual run time", unit="s", least=0),
        Column("starting_time", "float", "start of the last execution", unit="s", given=STARTED),
        Column("execution_time", "float", "duration of the last execution", unit="s", given=ENDED, least=0),
        Column("finish_time", "float", "end of the last execution", unit="s", given=ENDED),
        Column(
            "waiting_time",
            "float",
            "from submission to the last start, except while the job ran",
            unit="s",
            given=STARTED,
            formula="starting_time - submission_time - earlier_execution_time",
        ),
        turnaround_time(ENDED),
        Column(
            "stretch",
            "float",
            "turnaround time over useful execution time",
            null="unless the job finished and took some time",
            formula="CASE WHEN useful_execution_time > 0 THEN turnaround_time / useful_execution_time END",
        ),
        Column("allocated_resources", "text", 'allocated cores, as ranges such as "0-3 7"', given=STARTED),
        Column("success", "boolean", "whether the job completed", formula="status = 'completed'"),
        Column(
            "status",
            "text",
            "whether the job completed, was killed at its requested time, was lost to an outage, was running or queued "
            "when the run ended, or was rejected because it requests too much",
            values=("completed", "killed", "lost", "running", "queued", "rejected"),
        ),
        Column("attempts", "integer", "number of executions so far, including interrupted ones", least=0),
        Column("earlier_execution_time", "float", "duration of all executions but the last", unit="s", least=0),
        Column(
            "useful_execution_time",
            "float",
            "execution time, including that of earlier executions whose work was kept",
            unit="s",
            given=FINISHED,
            least=0,
        ),
        Column("user_id", "integer", "user who submitted the job, -1 if unknown", least=-1),
        arrival_number(),
        Column(
            "predicted_time",
            "float",
            "predicted run time at submission, at most the requested time",
            unit="s",
            null="if rejected",
            least=0,
            only_with="predictor",
        ),
        Column(
            "corrections",
            "integer",
            "number of times that the job has run longer than predicted",
            null="if rejected",
            least=0,
            only_with="predictor",
        ),
        Column("{}", "text", "attribute of the job", null="unless the job has it", each="attributes"),
    ),
    sort_by=("submission_time", "job_id"),
    pack=_pack_jobs,
)

INTERRUPTIONS = Table(
    "interruptions",
    "an execution interrupted by an outage or a preemption",
    (
        job_id_column(),
        Column("starting_time", "float", "start of the execution", unit="s"),
        Column("finish_time", "float", "interruption", unit="s"),
        Column("allocated_resources", "text", "allocated cores"),
        Column(
            "outcome",
            "text",
            "what happened to the job: requeued or lost because of an outage, preempted and requeued, or preempted and "
            "suspended",
            values=("requeued", "lost", "preempted", "suspended"),
        ),
        Column("speed", "float", "seconds of work per second; 1 unless nodes differ", least=0),
        Column("work_before", "float", "work that was done at the start of the execution", unit="s", least=0),
        Column("work_after", "float", "work that was kept at the interruption", unit="s", least=0),
        arrival_number("of the job"),
    ),
    sort_by=("finish_time", "job_id"),
    pack=with_cores(
        "allocated_resources",
        *("job_id", "arrival_number", "starting_time", "finish_time", "allocated_resources", "outcome", "speed"),
        *("work_before", "work_after"),
    ),
)


def _pack_requests(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of rows (arrival number, job id, request)."""
    numbers, ids, requests = columns_of(rows, 3)
    columns: dict[str, Any] = {"arrival_number": numbers, "job_id": ids}
    for name in ("tasks", "cores", "memory", "gpus", "partition", "exclusive", "tasks_per_node"):
        columns[name] = [getattr(request, name) for request in requests]
    for name in ("gpu_models", "features", "excluded_features"):
        columns[name] = [list(getattr(request, name)) for request in requests]
    return columns | {"resources": [_amounts(request.resources) for request in requests]}


def _pack_placements(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of rows (arrival number, job id, allocations, start, end), with one row per node."""
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
    """Return the columns of rows (number, node, first core)."""
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
        Column("node", "integer", "number of the node", least=0),
        Column("name", "text", "name of the node"),
        Column("first_core", "integer", "number of its first core in the cluster", least=0),
        Column("cores", "integer", "number of cores", unit="cores", least=1),
        Column("memory", "integer", "memory", unit="bytes", least=0),
        Column("gpus", "integer", "number of GPUs", least=0),
        Column("gpu_model", "text", "model of the GPUs"),
        Column("resources", "text", 'other resources, such as "licenses=3 slots=8"'),
        Column("partition", "text", "partition of the node"),
        Column("speed", "float", "factor by which run times are divided", least=0),
        Column("features", "texts", "features that jobs may request"),
    ),
    sort_by=("node",),
    pack=_pack_nodes,
    only_with="num_nodes",
)

REQUESTS = Table(
    "requests",
    "the node request of a job",
    (
        job_id_column(),
        Column("tasks", "integer", "number of tasks, each on one node", least=1),
        Column("cores", "integer", "cores per task", unit="cores", least=1),
        Column("memory", "integer", "memory per task", unit="bytes", least=0),
        Column("gpus", "float", "GPUs per task; less than one is a share of one GPU", least=0),
        Column("gpu_models", "texts", "acceptable GPU models; none for any"),
        Column("resources", "text", 'other resources per task, such as "licenses=1"'),
        Column("partition", "text", "required partition; empty for any"),
        Column("features", "texts", "features that nodes must have"),
        Column("excluded_features", "texts", "features that nodes must not have"),
        Column("exclusive", "boolean", "whether the job needs its nodes for itself"),
        Column("tasks_per_node", "integer", "maximum number of tasks per node", null="without a limit", least=1),
        arrival_number("of the job"),
    ),
    sort_by=("arrival_number",),
    pack=_pack_requests,
    only_with="num_nodes",
)

PLACEMENTS = Table(
    "placements",
    "an execution on one of its nodes",
    (
        job_id_column(),
        Column("node", "integer", "number of the node", least=0),
        Column("tasks", "integer", "number of tasks on the node", least=1),
        Column("gpus", "text", 'allocated GPUs with the thousandths of each, such as "0:1000 1:250"'),
        Column("starting_time", "float", "start of the execution", unit="s"),
        Column("finish_time", "float", "end of the execution", unit="s", null="while it is running"),
        arrival_number("of the job"),
    ),
    sort_by=("starting_time", "arrival_number", "node"),
    pack=_pack_placements,
    only_with="num_nodes",
)

TABLES = (JOBS, INTERRUPTIONS, NODES, REQUESTS, PLACEMENTS)
"""Tables of every run, and of runs on nodes; those of features are in their packages."""
