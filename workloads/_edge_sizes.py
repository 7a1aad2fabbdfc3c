"""Data sizes for the edges of jobs whose source tells none."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.dag.job import Job
from desim.workloads._named_streams import number

__all__ = ["Proportion", "rebuilt", "with_ccr"]

Floats = NDArray[np.float64]

#: What the data on an edge are in proportion to, apart from chance.
Proportion = Literal["uniform", "parent_work"]


def with_ccr(
    job: Job,
    ccr: float,
    *,
    rng: Generator,
    reference_speed: float = 1.0,
    transfer_speed: float = 1.0,
    spread: float = 0.5,
    proportion: Proportion = "uniform",
) -> Job:
    """Return a job whose edges carry data according to a communication-to-computation ratio.

    The mean transfer time over the job's edges becomes the ratio times the mean run time over its nodes, exactly.

    Parameters
    ----------
    job : Job
        The job; what its edges carry now does not matter.
    ccr : float
        Communication-to-computation ratio, at least 0.
    rng : numpy.random.Generator
        Source of randomness. One number is drawn for each edge, in the order of ``job.parent_index``.
    reference_speed : float
        Speed of the executor on which the run times count, in work per second. Not used if the job has run times of
        its own: then the mean over all executors counts.
    transfer_speed : float
        Units of data per second with which the transfer times count.
    spread : float
        Sizes are drawn uniformly between 1 - spread and 1 + spread times their mean, before they are scaled to give the
        ratio exactly; between 0 for equal sizes and 1.
    proportion : {"uniform", "parent_work"}
        Whether all edges have the same mean, or one in proportion to the work of the parent.

    Returns
    -------
    Job
        The same graph with other sizes.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or `rng` is no generator.

    Notes
    -----
    The ratio is that of H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling
    for heterogeneous computing", IEEE TPDS 13(3), 2002, section 5: average communication cost by average
    computation cost.

    Examples
    --------
    >>> job = Job(1, [2.0, 4.0, 6.0], [(0, 1, 0.0), (0, 2, 0.0)])
    >>> sized = with_ccr(job, 0.5, rng=np.random.default_rng(0), transfer_speed=10.0)
    >>> round(float(sized.parent_size.mean()) / 10.0, 9)
    2.0
    """
    number("ccr", ccr)
    number("reference_speed", reference_speed, above=True)
    number("transfer_speed", transfer_speed, above=True)
    if number("spread", spread) > 1:
        raise InvalidConfiguration(f"spread is {spread!r}, want a number between 0 and 1")
    if proportion not in ("uniform", "parent_work"):
        raise InvalidConfiguration(f"proportion is {proportion!r}, want 'uniform' or 'parent_work'")
    if not isinstance(rng, Generator):
        raise InvalidConfiguration(f"rng is {rng!r}, want a numpy Generator")
    seconds = job.work / reference_speed if job.run_times is None else job.run_times.mean(axis=1)
    share = rng.uniform(1 - spread, 1 + spread, job.num_edges)
    if proportion == "parent_work" and job.work[job.parent_index].any():
        share *= job.work[job.parent_index]
    if not share.any():
        share = np.ones(job.num_edges)
    sizes = (
        share * (ccr * float(seconds.mean()) * transfer_speed * job.num_edges / share.sum()) if len(share) else share
    )
    return rebuilt(job, sizes=sizes)


def rebuilt(
    job: Job, *, sizes: Floats | None = None, work: Floats | None = None, run_times: Floats | None = None
) -> Job:
    """Return a job with the same graph and other numbers.

    Parameters
    ----------
    job : Job
        The job.
    sizes : array of shape (num_edges,), optional
        Data sizes in the order of ``job.parent_index``; as they are if left out.
    work : array of shape (num_nodes,), optional
        Work of the nodes; as it is if left out.
    run_times : array of shape (num_nodes, num_executors), optional
        Run times; as they are if left out.

    Returns
    -------
    Job
        A new one.
    """
    children = np.repeat(np.arange(job.num_nodes), np.diff(job.parent_start))
    sizes = job.parent_size if sizes is None else sizes
    return Job(
        job.job_id,
        job.work if work is None else work,
        zip(job.parent_index.tolist(), children.tolist(), sizes.tolist(), strict=True),
        submission_time=job.submission_time,
        names=job.names,
        run_times=job.run_times if run_times is None else run_times,
        num_tasks=job.num_tasks,
        task_times=job.task_times,
        label=job.label,
        allow_disconnected=True,
    )
