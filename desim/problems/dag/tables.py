"""The tables that a run of DAG jobs records, whether nodes run whole or task by task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.tables import Column, Table, arrival_number, columns_of, turnaround_time, waiting_time

__all__ = [
    "CHANNELS",
    "COPIES",
    "EDGES",
    "EXECUTORS",
    "INFO",
    "JOBS",
    "NODES",
    "OUTAGES",
    "TABLES",
    "TRANSFERS",
    "info_faults",
]

Columns = dict[str, Any]

STARTED = ("completed", "running")
RAN = ("completed", "interrupted", "running")
ENDED = ("completed", "interrupted")

INFO = (
    Column("granularity", "text", "what runs on an executor as a whole", values=("node", "task")),
    Column("num_executors", "integer", "executors of the cluster", least=1),
    Column("speeds", "floats", "their speeds, work per second"),
    Column("plan_ahead", "boolean", "whether nodes may be assigned before their parents have finished"),
    Column("transfers", "text", "when data set out to another executor", values=("when_finished", "when_assigned")),
    Column("outages_lose_data", "boolean", "whether an executor that goes down loses the results that it holds"),
)


def info_faults(info: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with the description of a run that no column tells.

    Parameters
    ----------
    info : mapping
        The description.

    Returns
    -------
    list of str
        Nothing if all is well.
    """
    faults = []
    for key in ("speeds", "executors"):
        if not isinstance(info.get(key), list) or len(info[key]) != info["num_executors"]:
            faults.append(f"{key} is {info.get(key)!r}, want {info['num_executors']} entries, one for each executor")
    for key in ("transfer_speed", "latency"):
        if key not in info or not isinstance(info[key], int | float | list | None):
            faults.append(f"{key} is {info.get(key)!r}, want a number, a table, or None")
    shared = info.get("links") is not None
    if shared and info["transfers"] != "when_assigned":
        faults.append(f"transfers is {info['transfers']!r}, want 'when_assigned' where links are shared")
    if info["granularity"] == "task":
        delay = info.get("moving_delay")
        if not isinstance(delay, int | float) or not 0 <= delay < np.inf:
            faults.append(f"moving_delay is {delay!r}, want a finite time of at least 0")
        if info["plan_ahead"] or shared:
            faults.append("nodes are planned ahead or links are shared, which tasks cannot be or do")
    return faults


def _repeated(values: Iterable[int], counts: Iterable[int]) -> NDArray[np.int64]:
    return np.repeat(np.fromiter(values, np.int64), np.fromiter(counts, np.int64))


def _joined(arrays: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *arrays]).astype(dtype)


def _pack_jobs(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> Columns:
    """Take rows (job, arrival number, start, finish, status) apart."""
    jobs, numbers, starts, finishes, statuses = columns_of(rows, 5)
    return {
        "job_id": [job.job_id for job in jobs],
        "label": [job.label for job in jobs],
        "submission_time": [job.submission_time for job in jobs],
        "starting_time": starts,
        "finish_time": finishes,
        "num_nodes": [job.num_nodes for job in jobs],
        "num_edges": [job.num_edges for job in jobs],
        "work": [job.work.sum().item() for job in jobs],
        "data_size": [job.parent_size.sum().item() for job in jobs],
        "status": statuses,
        "arrival_number": numbers,
    }


def _pack_nodes(rows: list[tuple[Job, int]], info: Mapping[str, Any]) -> Columns:
    """Take rows (job, arrival number) apart."""
    jobs, counts = [job for job, _ in rows], [job.num_nodes for job, _ in rows]
    times = [[None] * job.num_nodes if job.run_times is None else job.run_times.tolist() for job in jobs]
    measured = [info["granularity"] == "task" and job.task_times is not None for job in jobs]
    return {
        "job_id": _repeated((job.job_id for job in jobs), counts),
        "node": _joined(map(np.arange, counts), np.int64),
        "name": [name for job in jobs for name in job.names],
        "work": _joined((job.work for job in jobs), np.float64),
        "num_tasks": _joined((job.num_tasks for job in jobs), np.int64),
        "run_times": [row for table in times for row in table],
        "measured": np.repeat(np.array(measured, np.bool_), counts),
        "arrival_number": _repeated((number for _, number in rows), counts),
    }


def _pack_edges(rows: list[tuple[Job, int]], info: Mapping[str, Any]) -> Columns:
    """Take rows (job, arrival number) apart."""
    jobs, counts = [job for job, _ in rows], [job.num_edges for job, _ in rows]
    children = (np.repeat(np.arange(job.num_nodes), np.diff(job.parent_start)) for job in jobs)
    return {
        "job_id": _repeated((job.job_id for job in jobs), counts),
        "parent": _joined((job.parent_index for job in jobs), np.int64),
        "child": _joined(children, np.int64),
        "size": _joined((job.parent_size for job in jobs), np.float64),
        "arrival_number": _repeated((number for _, number in rows), counts),
    }


def _pack_transfers(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> Columns:
    """Take rows of all columns apart or, of tasks, rows (job id, arrival number, child, task, destination, shares)."""
    names = [column.name for column in TRANSFERS.columns]
    if info["granularity"] == "node":
        return dict(zip(names, columns_of(rows, len(names)), strict=True))
    shares = [row[-1] for row in rows]
    counts = [len(each.sources) for each in shares]
    ids, numbers, children, tasks, destinations = (
        _repeated((row[place] for row in rows), counts) for place in range(5)
    )
    return {
        "job_id": ids,
        "parent": _joined((each.parents for each in shares), np.int64),
        "child": children,
        "task": tasks,
        "source": _joined((each.sources for each in shares), np.int64),
        "destination": destinations,
        "starting_time": _joined((each.begins for each in shares), np.float64),
        "arrival_time": _joined((each.arrivals for each in shares), np.float64),
        "size": _joined((each.sizes for each in shares), np.float64),
        "arrival_number": numbers,
    }


def _pack_executors(rows: list[Executors], info: Mapping[str, Any]) -> Columns:
    """Take the executors apart: there is one row, or none yet."""
    names = [name for executors in rows for name in executors.names]
    speeds = _joined((executors.speeds for executors in rows), np.float64)
    return {"executor": range(len(names)), "name": names, "speed": speeds}


def _pack_channels(rows: list[Executors], info: Mapping[str, Any]) -> Columns:
    """Take the channels between pairs apart: there is one row, or none yet."""
    pairs = np.nonzero(~np.eye(sum(executors.num_executors for executors in rows), dtype=np.bool_))
    return {
        "source": pairs[0],
        "destination": pairs[1],
        "transfer_speed": _joined((executors.transfer_speeds[pairs] for executors in rows), np.float64),
        "latency": _joined((executors.latencies[pairs] for executors in rows), np.float64),
    }


_JOB_ID = Column("job_id", "integer", "the job's identifier")
_OF_JOB = arrival_number("of the job")

JOBS = Table(
    "jobs",
    "a job that was submitted",
    (
        Column("job_id", "integer", "the job's identifier in the workload"),
        Column("label", "text", "what kind of job it is"),
        Column("submission_time", "float", "when it was submitted", unit="s", least=0),
        Column("starting_time", "float", "when the first of its copies started", unit="s", given=STARTED),
        Column("finish_time", "float", "when the last of its nodes finished", unit="s", given=("completed",)),
        waiting_time(STARTED, meaning="from submission to the first start"),
        turnaround_time(("completed",)),
        Column("num_nodes", "integer", "its nodes", unit="nodes", least=1),
        Column("num_edges", "integer", "its edges", unit="edges", least=0),
        Column("work", "float", "the work of all its nodes"),
        Column("data_size", "float", "the data of all its edges"),
        Column("success", "boolean", "whether all its nodes have finished", formula="status = 'completed'"),
        Column(
            "status",
            "text",
            "all its nodes have finished, or some node had started, or none, when the run ended",
            values=("completed", "running", "queued"),
        ),
        arrival_number(),
    ),
    sort_by=("submission_time", "job_id"),
    pack=_pack_jobs,
)

NODES = Table(
    "nodes",
    "a node of a job",
    (
        _JOB_ID,
        Column("node", "integer", "its number in the job, in topological order"),
        Column("name", "text", "its name"),
        Column("work", "float", "its computation size", least=0),
        Column("num_tasks", "integer", "the parallel tasks it consists of", unit="tasks", least=1),
        Column("run_times", "floats", "how long it runs on each executor", unit="s", null="unless the job says so"),
        Column("measured", "boolean", "whether the durations of its tasks were drawn from measured ones"),
        _OF_JOB,
    ),
    pack=_pack_nodes,
)

EDGES = Table(
    "edges",
    "data that a node needs of another",
    (
        _JOB_ID,
        Column("parent", "integer", "the node that they come from"),
        Column("child", "integer", "the node that needs them"),
        Column("size", "float", "units of data", least=0),
        _OF_JOB,
    ),
    pack=_pack_edges,
)

COPIES = Table(
    "copies",
    "a node, or a task of one, that was assigned to an executor",
    (
        _JOB_ID,
        Column("node", "integer", "the node"),
        Column("task", "integer", "the task of the node, 0 where nodes run whole"),
        Column("executor", "integer", "the executor"),
        Column("duplicate", "boolean", "whether the node had another copy when it was assigned"),
        Column("assignment_time", "float", "when it was assigned", unit="s"),
        Column("receiving_time", "float", "since when its executor waited for its data", unit="s", null="before"),
        Column("starting_time", "float", "when it started", unit="s", given=RAN),
        Column("finish_time", "float", "when it finished or was cut", unit="s", given=ENDED),
        Column(
            "outcome",
            "text",
            "it ran to its end, was cut by an outage of its executor, was taken back before it started (because of an "
            "outage or because its job had ended), or was running or queued when the run ended",
            values=("completed", "interrupted", "withdrawn", "running", "queued"),
        ),
        _OF_JOB,
    ),
    status="outcome",
)

TRANSFERS = Table(
    "transfers",
    "data of a parent that a copy received, also those that were on its executor; of a task, from each executor",
    (
        _JOB_ID,
        Column("parent", "integer", "the node that they come from"),
        Column("child", "integer", "the node that received them"),
        Column("task", "integer", "the task of that node, 0 where nodes run whole"),
        Column("source", "integer", "the executor that sent them"),
        Column("destination", "integer", "the executor of the copy"),
        Column("starting_time", "float", "when they were sent", unit="s"),
        Column("arrival_time", "float", "when they had arrived", unit="s"),
        Column("size", "float", "units of data"),
        _OF_JOB,
    ),
    pack=_pack_transfers,
)

EXECUTORS = Table(
    "executors",
    "an executor",
    (
        Column("executor", "integer", "its number"),
        Column("name", "text", "its name"),
        Column("speed", "float", "work per second"),
    ),
    pack=_pack_executors,
)

CHANNELS = Table(
    "channels",
    "the channel between two executors, in one direction",
    (
        Column("source", "integer", "the executor that sends"),
        Column("destination", "integer", "the executor that receives"),
        Column("transfer_speed", "float", "units of data per second, infinite for no delay", finite=False),
        Column("latency", "float", "before the first unit of data arrives", unit="s"),
    ),
    pack=_pack_channels,
)

OUTAGES = Table(
    "outages",
    "an executor that went down or came back",
    (
        Column("time", "float", "when", unit="s"),
        Column("executor", "integer", "the executor"),
        Column("event", "text", "what happened", values=("down", "up")),
    ),
)

TABLES = (JOBS, NODES, EDGES, COPIES, TRANSFERS, EXECUTORS, CHANNELS, OUTAGES)
