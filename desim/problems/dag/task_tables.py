"""The tables that a run of DAG jobs records whose nodes run task by task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from desim.problems.dag.job import Job
from desim.problems.dag.tables import schemas
from desim.schema import Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["task_schemas"]


def _nodes(rows: list[Job]) -> pl.DataFrame:
    """Make the table of nodes, of jobs."""
    import polars as pl

    counts = [job.num_nodes for job in rows]
    measured = np.repeat(np.array([job.task_times is not None for job in rows], dtype=np.bool_), counts)
    return schemas()["nodes"].to_frame(rows).with_columns(measured=pl.Series(measured))


def _transfers(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Make the table of inputs of tasks from rows (job_id, child, task, destination, shares)."""
    import polars as pl

    shares = [row[-1] for row in rows]
    counts = [len(each.sources) for each in shares]
    job_ids, children, tasks, destinations = (
        np.repeat(np.array([row[place] for row in rows], dtype=np.int64), counts) for place in range(4)
    )

    def joined(name: str, dtype: Any) -> Any:
        return np.concatenate([np.empty(0, dtype=dtype), *(getattr(each, name) for each in shares)]).astype(dtype)

    return pl.DataFrame(
        {
            "job_id": job_ids,
            "parent": joined("parents", np.int64),
            "child": children,
            "task": tasks,
            "source": joined("sources", np.int64),
            "destination": destinations,
            "starting_time": joined("begins", np.float64),
            "arrival_time": joined("arrivals", np.float64),
            "size": joined("sizes", np.float64),
        }
    )


def task_schemas() -> dict[str, Schema]:
    """Return the tables of a cluster whose nodes run task by task.

    Returns
    -------
    dict of str to Schema
        As of :func:`desim.problems.dag.tables.schemas`. There is one row of ``copies`` for each task that was assigned,
        and one of ``transfers`` for each task that started, each parent and each executor that held results of it. In
        ``nodes`` a column more, ``measured``, tells whether the durations of a node's tasks were drawn from measured
        ones, the job's task times.
    """
    return schemas() | {"nodes": Schema(_nodes, (), 4096), "transfers": Schema(_transfers, (), 4096)}
