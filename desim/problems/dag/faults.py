"""What is wrong with a run, where it takes a sentence to say: executors, shared links, and what was submitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.problems.dag.job import Job
from desim.problems.dag.recorded import NODE, by_task, transfers
from desim.validation.engine import Recorded

__all__ = ["channel_faults", "executor_faults", "overloads", "unconserved"]

RELATIVE_LOAD = 1e-6
"""Part by which a link may carry more: rates are recomputed whenever a transfer begins or ends, which rounds."""


# -- executors and channels -----------------------------------------------------------------------


def executor_faults(run: Recorded) -> Iterator[str]:
    """Say in what executors differ from the description."""
    executors, count = run["executors"], run.info["num_executors"]
    if executors["executor"].to_list() != list(range(count)):
        yield f"executors are {executors['executor'].to_list()}, want the numbers 0 to {count - 1}"
    for column, expected in (("speed", run.info["speeds"]), ("name", run.info["executors"])):
        if executors[column].to_list() != expected:
            yield f"the {column}s of the executors are {executors[column].to_list()}, described as {expected}"
    for number, speed in enumerate(executors["speed"].to_list()):
        if not speed > 0:
            yield f"executor {number} has speed {speed}, want above 0"


def channel_faults(run: Recorded) -> Iterator[str]:
    """Say which channels are missing or differ from the description."""
    channels, count = run["channels"], run.info["num_executors"]
    found = channels.select("source", "destination").rows()
    wanted = [(one, other) for one in range(count) for other in range(count) if one != other]
    if sorted(found) != wanted:
        missing = sorted(set(wanted) - set(found))[:3]
        yield f"there are {len(found)} channels for {len(wanted)} pairs of executors; missing between {missing}"
        return
    for column in ("transfer_speed", "latency"):
        described = np.array(run.info[column], dtype=np.float64)  # None becomes NaN, alone and within a table
        described[np.isnan(described)] = np.inf
        if described.ndim and described.shape != (count, count):
            yield f"{column} is described with shape {described.shape} for {count} executors"
            continue
        table = np.broadcast_to(described, (count, count))
        for (source, destination), value in zip(found, channels[column].to_list(), strict=True):
            if value != table[source, destination] or value < 0 or (value == 0 and column == "transfer_speed"):
                expected = table[source, destination]
                yield f"the {column} from executor {source} to {destination} is {value}, described as {expected}"


# -- shared links ---------------------------------------------------------------------------------


def overloads(run: Recorded) -> Iterator[str]:
    """Say when links carried too much, from the begin of each stretch of time in which it is in use.

    When the rates change is not recorded, but a transfer uses its links only between its own begin and arrival: those
    that have arrived at some time are at most what the link has carried since the stretch began.

    Parameters
    ----------
    run : Recorded
        The run.
    """
    links = run.info["links"]
    frame = run.once(transfers)
    pairs = frame.group_by("source", "destination").agg("row").rows()
    uses: dict[int, list[int]] = defaultdict(list)
    for source, destination, rows in pairs:
        for link in links["routes"][source][destination] if source != destination else ():
            uses[link] += rows
    for link, rows in sorted(uses.items()):
        if links["bandwidths"][link] is not None:
            yield from _overloads_of(links["names"][link], links["bandwidths"][link], frame[sorted(rows)])


def _overloads_of(name: str, bandwidth: float, frame: pl.DataFrame) -> Iterator[str]:
    frame = frame.sort("starting_time", maintain_order=True)
    begin, arrival, size = (frame[column].to_numpy() for column in ("starting_time", "arrival_time", "size"))
    free = np.ones(len(frame), dtype=np.bool_)
    free[1:] = begin[1:] > np.maximum.accumulate(arrival)[:-1]
    stretch = np.cumsum(free) - 1
    since = begin[free][stretch]
    order = np.lexsort((arrival, stretch))
    total = np.cumsum(size[order])
    before = np.append(0.0, total)[np.flatnonzero(free)]  # a stretch has the same places in both orders
    carried = total - before[stretch[order]]
    room = bandwidth * (arrival - since)[order]
    changes = np.arange(len(order)) - np.flatnonzero(free)[stretch[order]] + 1  # of the rates; the clock rounds each
    allowed = room + RELATIVE_LOAD * total + bandwidth * 4.0 * changes * np.spacing(arrival[order])
    for place in np.flatnonzero(carried > allowed).tolist():
        row = order[place]
        yield (
            f"link {name} has carried {carried[place]} from {since[row]} s to {arrival[row]} s, at most {room[place]} "
            f"is possible; {frame['what'][int(row)]}"
        )


# -- conservation ---------------------------------------------------------------------------------


def unconserved(run: Recorded) -> Iterator[str]:
    """Say in what the jobs differ from the workload, those of one identifier in the order of their submission.

    A run that was stopped need not have the jobs submitted at its end or later.

    Parameters
    ----------
    run : Recorded
        The run.
    """
    left: dict[int, list[dict[str, Any]]] = defaultdict(list)  # rows of each id, the last submitted first
    known = run["jobs"].sort("submission_time", "arrival_number", descending=True)
    for row in known.select("arrival_number", "job_id", "submission_time").iter_rows(named=True):
        left[row["job_id"]].append(row)
    tables = _Numbered(run["nodes"].sort(NODE)), _Numbered(run["edges"].sort("arrival_number", "child", "parent"))
    jobs: Iterable[Job] = run.workload or ()
    for job in jobs if run.drained else takewhile(lambda job: not job.submission_time > run.end_time, jobs):
        rows = left.get(job.job_id)
        if rows:
            faults = _differences(job, rows.pop(), *tables, tasks=by_task(run))
            yield from (f"job {job.job_id}: {fault}" for fault in faults)
        elif run.drained or job.submission_time < run.end_time:
            yield f"job {job.job_id}, submitted at {job.submission_time} s, is not recorded"
    for row in sorted((row for rows in left.values() for row in rows), key=lambda row: row["arrival_number"]):
        time = row["submission_time"]
        yield f"job {row['job_id']} is recorded as submitted at {time} s, but was not submitted"


class _Numbered:
    """A table in the order of arrival numbers, as arrays that can be cut job by job."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.columns = {name: frame[name].to_numpy() for name in frame.columns if name not in ("name", "run_times")}
        if "run_times" in frame.columns:
            self.run_times = frame["run_times"]
            self.columns["is_own"] = frame["run_times"].is_not_null().to_numpy()

    def of(self, arrival_number: int) -> slice:
        """Return where the rows of a job are."""
        return slice(*np.searchsorted(self.columns["arrival_number"], (arrival_number, arrival_number + 1)).tolist())


def _differences(job: Job, row: dict[str, Any], nodes: _Numbered, edges: _Numbered, *, tasks: bool) -> Iterator[str]:
    """Say in what a row of the job table, with its nodes and edges, differs from a job."""
    if row["submission_time"] != job.submission_time:
        time = row["submission_time"]
        yield f"submitted at {job.submission_time} s, recorded as submitted at {time} s"
    place = nodes.of(row["arrival_number"])
    if place.stop - place.start != job.num_nodes:
        yield f"submitted with {job.num_nodes} nodes, recorded with {place.stop - place.start}"
        return
    work, num_tasks, measured, is_own = (
        nodes.columns[name][place] for name in ("work", "num_tasks", "measured", "is_own")
    )
    yield from _changed("work", job.work, work)
    yield from _changed("number of tasks", job.num_tasks, num_tasks)
    if tasks and (measured != (job.task_times is not None)).any():
        yield f"submitted with{'' if job.task_times is not None else 'out'} task times, recorded otherwise"
    if (job.run_times is not None) != bool(is_own.all()):
        yield f"submitted with{'' if job.run_times is not None else 'out'} run times of its own, recorded otherwise"
    elif job.run_times is not None:
        yield from _changed("run times", job.run_times, np.array(nodes.run_times[place].to_list()))
    children = np.repeat(np.arange(job.num_nodes), np.diff(job.parent_start))
    submitted = np.column_stack((job.parent_index, children, job.parent_size))
    place = edges.of(row["arrival_number"])
    recorded = np.column_stack([edges.columns[name][place] for name in ("parent", "child", "size")])
    if len(submitted) != len(recorded):
        yield f"submitted with {len(submitted)} edges, recorded with {len(recorded)}"
        return
    for edge in np.flatnonzero((submitted != recorded).any(axis=1))[:1].tolist():
        yield (
            f"edge {edge} (parent, child, size) was submitted as {submitted[edge].tolist()}, "
            f"recorded as {recorded[edge].tolist()}"
        )


def _changed(what: str, submitted: NDArray[Any], recorded: NDArray[Any]) -> Iterator[str]:
    wrong = np.flatnonzero((submitted != recorded).reshape(len(submitted), -1).any(axis=1))
    for node in wrong[:1].tolist():
        yield f"the {what} of node {node} was submitted as {submitted[node]}, recorded as {recorded[node]}"
