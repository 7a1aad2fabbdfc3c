"""Jobs and executors of a run, read back from its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Executors, Job

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["check_job", "executors_of", "job_of"]


def job_of(result: Result, job_id: int) -> Job:
    """Return a job of a run, without measured task times.

    Parameters
    ----------
    result : Result
        A run of ``dag``.
    job_id : int
        Which job.

    Returns
    -------
    Job
        As it was submitted.

    Raises
    ------
    InvalidConfiguration
        If there is no such job, or more than one.
    """
    import polars as pl

    found = result.jobs.filter(pl.col("job_id") == job_id)
    if len(found) != 1:
        raise InvalidConfiguration(f"job is {job_id!r}, and the run has {len(found) or 'no'} jobs of that id")
    nodes, edges = (result.table(name).filter(pl.col("job_id") == job_id) for name in ("nodes", "edges"))
    run_times = nodes["run_times"].to_list()
    return Job(
        job_id,
        nodes["work"].to_numpy(),
        edges.select("parent", "child", "size").iter_rows(),
        submission_time=found["submission_time"][0],
        names=nodes["name"].to_list(),
        num_tasks=nodes["num_tasks"].to_numpy(),
        run_times=None if run_times[0] is None else run_times,
        label=found["label"][0],
        allow_disconnected=True,
    )


def check_job(result: Result, job: Job) -> None:
    """Raise InvalidConfiguration unless a job is the one of its id in a run."""
    import polars as pl

    nodes = result.table("nodes").filter(pl.col("job_id") == job.job_id)
    if not len(nodes):
        raise InvalidConfiguration(f"job {job.job_id} is not in the run")
    if nodes["name"].to_list() != list(job.names):
        raise InvalidConfiguration(f"job {job.job_id} is not the one in the run: their nodes have different names")


def executors_of(result: Result) -> Executors:
    """Return the executors of a run."""
    table, channels = result.table("executors"), result.table("channels")
    speed, latency = np.full((len(table), len(table)), np.inf), np.zeros((len(table), len(table)))
    ends = channels["source"].to_numpy(), channels["destination"].to_numpy()
    speed[ends], latency[ends] = channels["transfer_speed"].to_numpy(), channels["latency"].to_numpy()
    return Executors(table["speed"].to_numpy(), speed, latency, names=table["name"].to_list())
