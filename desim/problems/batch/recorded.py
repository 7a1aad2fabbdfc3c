"""Views of a recorded batch run that several validation rules need."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import polars as pl

from desim.problems.batch.occupancy import read_core_ranges
from desim.validation import Recorded

__all__ = [
    "KEY",
    "SPAN",
    "Arrivals",
    "all_executions",
    "as_they_ran",
    "has_other_times",
    "has_suspensions",
    "is_uneven",
    "on_nodes",
    "worked_before",
]

KEY = ["arrival_number", "job_id"]
"""Columns that identify a job; both must match."""

SPAN = [*KEY, "starting_time", "finish_time"]
"""Columns that identify an execution of a job."""


def on_nodes(run: Recorded) -> bool:
    """Return whether a run is one on nodes."""
    return "num_nodes" in run.info


def has_suspensions(run: Recorded) -> bool:
    """Return whether a job was suspended."""
    return bool((run["interruptions"]["outcome"] == "suspended").any())


def is_uneven(run: Recorded) -> bool:
    """Return whether run times may differ between nodes.

    Parameters
    ----------
    run : Recorded
        Run on nodes or cores.

    Returns
    -------
    bool
        Whether nodes differ in speed or GPU model.
    """
    return on_nodes(run) and run["nodes"].select("speed", "gpu_model").n_unique() > 1


def has_other_times(run: Recorded) -> bool:
    """Return whether run times may differ from the submitted ones.

    Parameters
    ----------
    run : Recorded
        Run on nodes or cores.

    Returns
    -------
    bool
        Whether a node has a speed other than 1, or GPUs with a model name.
    """
    return on_nodes(run) and not run["nodes"].filter((pl.col("speed") != 1) | (pl.col("gpu_model") != "")).is_empty()


def as_they_ran(run: Recorded) -> Iterator[tuple[Any, ...]]:
    """Yield the jobs of the workload in their recorded sizes, with their run times on the nodes where they ran last.

    On a node, the run time is that for the model of its GPUs, if given, or else the job's run time, divided by the
    speed of the node. The slowest node determines the run time of the job. A moldable job has the first of its sizes
    with the recorded cores and times or, if there is none, the recorded cores and requested time.

    Parameters
    ----------
    run : Recorded
        Run, whose workload may be an iterator.

    Yields
    ------
    tuple
        First six fields of each job, in order of arrival.
    """
    nodes: dict[int, tuple[str, float]] = {}
    if on_nodes(run):
        table = run["nodes"].select("node", "gpus", "gpu_model", "speed")
        nodes = {node: (model if gpus else "", speed) for node, gpus, model, speed in table.iter_rows()}
    is_even = all(speed == 1 for _, speed in nodes.values())
    where: dict[int, set[tuple[str, float]]] = {}
    recorded: dict[int, tuple[Any, ...]] | None = None  # read when the first job needs it
    arrivals = Arrivals(run)
    for row, job in enumerate(run.workload or ()):
        if recorded is None and is_even and not job.sizes and not (nodes and job.run_times):
            yield job[:6]
            continue
        if recorded is None:
            where = _where_they_were(run, nodes) if nodes else {}
            told = run["jobs"].select("arrival_number", "requested_number_of_resources", "requested_time", "run_time")
            recorded = {number: tuple(values) for number, *values in told.iter_rows()}
        number = arrivals.number(row, job.job_id)
        there, found = {("", 1.0)}, None  # never started: run time as submitted
        if number is not None:
            there, found = where.get(number, there), recorded.get(number)
        sizes = [
            (*size[2:4], max(size.run_times.get(model, size.run_time) / speed for model, speed in there))
            for size in job.in_all_sizes()
        ]
        near = (size for size in sizes if found is not None and size[:2] == found[:2])
        yield (*job[:2], *(found if found in sizes else next(near, sizes[0])), job.user_id)


class Arrivals:
    """Arrival numbers of the jobs of a workload, found in the records when they are first needed.

    Jobs without dependencies arrive in the order of the workload. Processes may submit further jobs in between, so
    jobs with the same id are matched in order.

    Parameters
    ----------
    run : Recorded
        Run.
    """

    def __init__(self, run: Recorded) -> None:
        self.run = run
        self._of_position: dict[int, int | None] = {}  # of jobs with dependencies
        self._of_id: dict[Any, deque[int]] | None = None

    def number(self, position: int, job_id: Any) -> int | None:
        """Return the arrival number of a job of the workload, to be asked in order; None if it did not arrive."""
        if self._of_id is None:
            self._read()
            earlier = self.run.workload if isinstance(self.run.workload, Sequence) else ()
            for before, job in enumerate(islice(earlier, position)):
                self.number(before, job.job_id)
        assert self._of_id is not None
        if position in self._of_position:
            return self._of_position[position]
        return self._of_id[job_id].popleft() if self._of_id.get(job_id) else None

    def _read(self) -> None:
        if "dependencies" in self.run.info:
            self._of_position = dict(self.run["dependencies"].select("position", "arrival_number").iter_rows())
        dependent, self._of_id = {*self._of_position.values()}, {}
        jobs = self.run["jobs"].select("arrival_number", "job_id").sort("arrival_number")
        for number, job_id in jobs.iter_rows():
            if number not in dependent:
                self._of_id.setdefault(job_id, deque()).append(number)


def _where_they_were(run: Recorded, nodes: dict[int, tuple[str, float]]) -> dict[int, set[tuple[str, float]]]:
    """Return (GPU model, speed) of the nodes of last executions, by arrival number."""
    last = run["jobs"].select(SPAN).sort("arrival_number")
    placed = run["placements"].join(last, on=SPAN, how="semi", nulls_equal=True)
    at_once = run["jobs"].filter(pl.col("starting_time") == pl.col("finish_time"))
    ranges = read_core_ranges(at_once["allocated_resources"], run.info["num_cores"])
    cores: dict[int, list[tuple[int, int]]] = {number: [] for number in at_once["arrival_number"]}
    for row, *ends in zip(ranges.row.tolist(), ranges.first.tolist(), ranges.last.tolist(), strict=True):
        cores[at_once["arrival_number"][row]].append((ends[0], ends[1]))
    of_node = {row[0]: (row[1], row[1] + row[2]) for row in run["nodes"].select("node", "first_core", "cores").rows()}
    there: dict[int, set[tuple[str, float]]] = {}
    for number, node in placed.select("arrival_number", "node").iter_rows():
        begin, end = of_node[node]
        if number in cores and not any(first < end and begin <= last for first, last in cores[number]):
            continue  # an interrupted execution of zero length that started at the same instant
        there.setdefault(number, set()).add(nodes[node])
    return there


def all_executions(run: Recorded) -> pl.DataFrame:
    """Return all executions as recorded: the last one of each job, without outcome, and those that were interrupted.

    Parameters
    ----------
    run : Recorded
        Run on nodes or cores.

    Returns
    -------
    polars.DataFrame
        Numbers and ids of the jobs, starts, ends (null while a job runs), cores and outcomes.
    """
    columns = [*SPAN, "allocated_resources"]
    last = run.where("jobs", pl.col("starting_time").is_not_null()).select(*columns, outcome=pl.lit(None, pl.String))
    cut = run.where("interruptions", pl.col("outcome") != "lost").select(*columns, pl.col("outcome").cast(pl.String))
    return pl.concat([last, cut])


def worked_before(run: Recorded) -> pl.Expr:
    """Return the seconds of work before a job's last start since it last started from the beginning or a checkpoint.

    Parameters
    ----------
    run : Recorded
        Run.

    Returns
    -------
    polars.Expr
        Expression for the job table, in seconds; 0 for jobs that were not suspended.
    """
    done = run.once(_worked_before)
    return pl.col("arrival_number").replace_strict(
        done["arrival_number"], done["done"], default=0.0, return_dtype=pl.Float64
    )


def _worked_before(run: Recorded) -> pl.DataFrame:
    cuts = run["interruptions"].sort("finish_time", maintain_order=True)
    ends = pl.col("outcome") != "suspended"  # earlier work is lost, except what checkpoints have saved
    gone = ends.reverse().cum_sum().reverse().over("arrival_number") > 0
    return (
        cuts.filter(~gone)
        .group_by("arrival_number", maintain_order=True)
        .agg(done=(pl.col("finish_time") - pl.col("starting_time")).sum())
    )
