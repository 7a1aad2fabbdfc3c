"""Tables that a run of DAG jobs records, with or without tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.checks import MOST_ITEMS
from desim.problems.dag.executors import MILLION, Executors
from desim.problems.dag.job import Job
from desim.tables import Column, Table, arrival_number, columns_of, turnaround_time, waiting_time

__all__ = [
    "CHANNELS",
    "COPIES",
    "EDGES",
    "EXECUTORS",
    "INFO",
    "JOBS",
    "MODES",
    "NODES",
    "OUTAGES",
    "TABLES",
    "TRANSFERS",
    "info_faults",
    "with_demands",
]

if TYPE_CHECKING:
    import polars as pl

Columns = dict[str, Any]

STARTED = ("completed", "running")
RAN = ("completed", "interrupted", "running")
ENDED = ("completed", "interrupted")

INFO = (
    Column("granularity", "text", "unit that runs on an executor without interruption", values=("node", "task")),
    Column("num_executors", "integer", "number of executors of the cluster", least=1, most=MOST_ITEMS),
    Column("speeds", "floats", "speed of each executor, work per second"),
    Column("plan_ahead", "boolean", "whether nodes may be assigned before their parents have finished"),
    Column("planned_end", "float", "end of the plan at the last assignment", unit="s", optional=True),
    Column("transfers", "text", "event at which transfers may begin", values=("when_finished", "when_assigned")),
    Column("outages_lose_data", "boolean", "whether an executor that fails loses the results that it holds"),
    Column("modes", "boolean", "whether nodes have several modes", optional=True),
)


def info_faults(info: Mapping[str, Any]) -> list[str]:
    """Return faults in the description of a run that the columns do not reveal.

    Parameters
    ----------
    info : mapping
        Description of the run.

    Returns
    -------
    list of str
        One sentence per fault; empty if there are none.
    """
    faults = []
    for key in ("speeds", "executors", *(["features"] if "features" in info else [])):
        if not isinstance(info.get(key), list) or len(info[key]) != info["num_executors"]:
            faults.append(f"{key}: got {info.get(key)!r}, expected {info['num_executors']} entries, one per executor")
    for key in ("transfer_speed", "latency"):
        if key not in info or not isinstance(info[key], int | float | list | None):
            faults.append(f"{key}: got {info.get(key)!r}, expected a number, a table, or None")
    shared = info.get("links") is not None
    if shared and info["transfers"] != "when_assigned":
        faults.append(f"transfers: got {info['transfers']!r}, expected 'when_assigned' if links are shared")
    if info["granularity"] == "task":
        delay = info.get("moving_delay")
        if not isinstance(delay, int | float) or not 0 <= delay < np.inf:
            faults.append(f"moving_delay: got {delay!r}, expected a finite time >= 0 s")
        if info["plan_ahead"] or shared:
            faults.append("plan_ahead, links: tasks support neither planning ahead nor shared links")
    return faults


def _repeated(values: Iterable[int], counts: Iterable[int]) -> NDArray[np.int64]:
    return np.repeat(np.fromiter(values, np.int64), np.fromiter(counts, np.int64))


def _joined(arrays: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *arrays]).astype(dtype)


def _pack_jobs(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> Columns:
    """Convert rows (job, arrival number, start, finish, status) to columns."""
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
    """Convert rows (job, arrival number) to columns."""
    jobs, counts = [job for job, _ in rows], [job.num_nodes for job, _ in rows]
    executors = _executors_of(info)
    tables = [job.recorded_run_times(executors) for job in jobs]
    times = [
        [None] * job.num_nodes if table is None else table.tolist() for job, table in zip(jobs, tables, strict=True)
    ]
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
        **{
            f"demand_{resource}": [value for job in jobs for value in job.amounts_of(resource)]
            for resource in executors.resources
        },
    }


def _executors_of(info: Mapping[str, Any]) -> Executors:
    """Return the executors of a run, without their channels."""
    return Executors(
        info["speeds"], names=info["executors"], features=info.get("features"), capacities=info.get("capacities")
    )


def _pack_modes(rows: list[tuple[Job, int]], info: Mapping[str, Any]) -> Columns:
    """Convert rows (job, arrival number) to columns."""
    executors = _executors_of(info)
    found = [
        (job.job_id, node, mode, times, units, number)
        for job, number in rows
        for node, modes in job.modes_on(executors).items()
        for mode, (times, units) in enumerate(zip(modes.run_times.tolist(), modes.units.tolist(), strict=True))
    ]
    ids, nodes, modes, times, units, numbers = columns_of(found, 6)
    amounts = np.array(units, dtype=np.int64).reshape(len(found), -1) / MILLION
    return {
        "job_id": ids,
        "node": nodes,
        "mode": modes,
        "run_times": times,
        "arrival_number": numbers,
        **{f"demand_{name}": column for name, column in zip(executors.resources, amounts.T, strict=True)},
    }


def with_demands(
    copies: pl.DataFrame, nodes: pl.DataFrame, modes: pl.DataFrame | None, resources: Sequence[str]
) -> pl.DataFrame:
    """Return copies with the amounts that they take of a pool, in columns ``demand_{resource}``.

    Parameters
    ----------
    copies : polars.DataFrame
        Copies with ``arrival_number`` and ``node``, and ``mode`` if nodes have modes.
    nodes : polars.DataFrame
        Table of nodes.
    modes : polars.DataFrame or None
        Table of modes; None if nodes have none.
    resources : sequence of str
        Names of the resources.

    Returns
    -------
    polars.DataFrame
        Copies in their order; null for a whole pool.
    """
    import polars as pl

    key, demands = ["arrival_number", "node"], [f"demand_{resource}" for resource in resources]
    found = copies.join(nodes.select(*key, *demands), on=key, how="left", maintain_order="left")
    if modes is None:
        return found
    own = modes.select(*key, "mode", *demands)
    found = found.join(own, on=[*key, "mode"], how="left", maintain_order="left", suffix="_in_mode")
    chosen = {name: pl.coalesce(f"{name}_in_mode", name) for name in demands}
    return found.with_columns(**chosen).drop(f"{name}_in_mode" for name in demands)


def _pack_edges(rows: list[tuple[Job, int]], info: Mapping[str, Any]) -> Columns:
    """Convert rows (job, arrival number) to columns."""
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
    """Convert rows to columns; with tasks, rows are (job id, arrival number, child, task, destination, shares)."""
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
    """Convert the executors to columns; there is at most one row."""
    names = [name for executors in rows for name in executors.names]
    speeds = _joined((executors.speeds for executors in rows), np.float64)
    capacities = [amounts for executors in rows for amounts in executors.capacities or ()]
    return {
        "executor": range(len(names)),
        "name": names,
        "speed": speeds,
        **{f"capacity_{name}": [amounts[name] for amounts in capacities] for name in info.get("resources", ())},
    }


def _pack_channels(rows: list[tuple[Executors, int]], info: Mapping[str, Any]) -> Columns:
    """Convert rows (executors, source executor) to columns: the channels to all other executors."""
    sources = [source for _, source in rows]
    counts = [executors.num_executors - 1 for executors, _ in rows]
    others = [np.delete(np.arange(executors.num_executors), source) for executors, source in rows]
    pairs = list(zip(rows, others, strict=True))
    return {
        "source": _repeated(sources, counts),
        "destination": _joined(others, np.int64),
        "transfer_speed": _joined((of.speed_between.rows([one])[0, to] for (of, one), to in pairs), np.float64),
        "latency": _joined((of.latency_between.rows([one])[0, to] for (of, one), to in pairs), np.float64),
    }


_JOB_ID = Column("job_id", "integer", "identifier of the job")
_OF_JOB = arrival_number("of the job")

JOBS = Table(
    "jobs",
    "a submitted job",
    (
        Column("job_id", "integer", "identifier of the job in the workload"),
        Column("label", "text", "kind of job"),
        Column("submission_time", "float", "time of submission", unit="s", least=0),
        Column("starting_time", "float", "start of the job's first copy", unit="s", given=STARTED),
        Column("finish_time", "float", "finish of the job's last node", unit="s", given=("completed",)),
        waiting_time(STARTED, meaning="time from submission to the first start"),
        turnaround_time(("completed",)),
        Column("num_nodes", "integer", "number of nodes", unit="nodes", least=1),
        Column("num_edges", "integer", "number of edges", unit="edges", least=0),
        Column("work", "float", "total work of all nodes"),
        Column("data_size", "float", "total data size of all edges, units of data"),
        Column("success", "boolean", "whether all nodes have finished", formula="status = 'completed'"),
        Column(
            "status",
            "text",
            "state at the end of the run: all nodes have finished, some node has started, or none has",
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
        Column("node", "integer", "number of the node within the job, in topological order"),
        Column("name", "text", "name of the node"),
        Column("work", "float", "computation size", least=0),
        Column("num_tasks", "integer", "number of parallel tasks", unit="tasks", least=1),
        Column(
            "run_times",
            "floats",
            "run time on each executor, infinite where the node may not run",
            unit="s",
            null="unless the job has its own or restricts its nodes",
            finite=False,
        ),
        Column("measured", "boolean", "whether task durations were sampled from measured ones"),
        Column(
            "demand_{}",
            "float",
            "amount of a pool that the node takes",
            null="for a whole pool, and for nodes with modes",
            each="resources",
        ),
        _OF_JOB,
    ),
    pack=_pack_nodes,
)

MODES = Table(
    "modes",
    "a mode of a node",
    (
        _JOB_ID,
        Column("node", "integer", "number of the node within the job"),
        Column("mode", "integer", "number of the mode within the node", least=0),
        Column(
            "run_times",
            "floats",
            "run time on each pool, infinite where the mode is impossible",
            unit="s",
            finite=False,
        ),
        Column("demand_{}", "float", "amount of a pool that the node takes", each="resources"),
        _OF_JOB,
    ),
    pack=_pack_modes,
    only_with="modes",
)

EDGES = Table(
    "edges",
    "data that a node needs from another node",
    (
        _JOB_ID,
        Column("parent", "integer", "node that produces the data"),
        Column("child", "integer", "node that needs the data"),
        Column("size", "float", "units of data", least=0),
        _OF_JOB,
    ),
    pack=_pack_edges,
)

COPIES = Table(
    "copies",
    "an execution of a node, or of a task, that was assigned to an executor",
    (
        _JOB_ID,
        Column("node", "integer", "number of the node within the job"),
        Column("task", "integer", "number of the task within the node, 0 without tasks"),
        Column("executor", "integer", "number of the executor"),
        Column("duplicate", "boolean", "whether the node already had a copy when this one was assigned"),
        Column("assignment_time", "float", "time of the assignment", unit="s"),
        Column("receiving_time", "float", "time since when the executor waited for the data", unit="s", null="before"),
        Column("starting_time", "float", "start", unit="s", given=RAN),
        Column("finish_time", "float", "finish or interruption", unit="s", given=ENDED),
        Column(
            "outcome",
            "text",
            "ran to its end, was interrupted by an outage of its executor, was withdrawn before it started (because of "
            "an outage or because its job had ended), or was running or queued when the run ended",
            values=("completed", "interrupted", "withdrawn", "running", "queued"),
        ),
        _OF_JOB,
        Column("mode", "integer", "mode of the node, 0 if it has none", least=0, only_with="modes"),
    ),
    status="outcome",
)

TRANSFERS = Table(
    "transfers",
    "data of a parent that a copy received, possibly from its own executor; with tasks, from each source executor",
    (
        _JOB_ID,
        Column("parent", "integer", "node that produced the data"),
        Column("child", "integer", "node that received the data"),
        Column("task", "integer", "task of the receiving node, 0 without tasks"),
        Column("source", "integer", "executor that sent the data"),
        Column("destination", "integer", "executor of the receiving copy"),
        Column("starting_time", "float", "begin of the transfer", unit="s"),
        Column("arrival_time", "float", "end of the transfer", unit="s"),
        Column("size", "float", "units of data"),
        _OF_JOB,
    ),
    pack=_pack_transfers,
)

EXECUTORS = Table(
    "executors",
    "an executor",
    (
        Column("executor", "integer", "number of the executor"),
        Column("name", "text", "name of the executor"),
        Column("speed", "float", "speed, work per second"),
        Column("capacity_{}", "float", "amount of the pool", each="resources", least=0),
    ),
    pack=_pack_executors,
)

CHANNELS = Table(
    "channels",
    "the channel from one executor to another; none if more than 512 executors have equal ones, as described",
    (
        Column("source", "integer", "executor that sends"),
        Column("destination", "integer", "executor that receives"),
        Column("transfer_speed", "float", "units of data per second, infinite for no delay", finite=False),
        Column("latency", "float", "delay before the first unit of data arrives", unit="s"),
    ),
    pack=_pack_channels,
    deferred=True,
)

OUTAGES = Table(
    "outages",
    "an outage or a repair of an executor",
    (
        Column("time", "float", "time of the event", unit="s"),
        Column("executor", "integer", "number of the executor"),
        Column("event", "text", "kind of event", values=("down", "up")),
    ),
)

TABLES = (JOBS, NODES, EDGES, COPIES, TRANSFERS, EXECUTORS, CHANNELS, OUTAGES, MODES)
