"""A task of a node: what it receives, how long it takes, where it runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.copies import Copy
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job

__all__ = ["NOTHING", "Shares", "TaskCopy", "task_run_times"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Shares(NamedTuple):
    """What a task receives: an entry for each executor that has run tasks of a parent, parents in ascending order.

    Attributes
    ----------
    parents, sources : numpy.ndarray of int
        The parent, and the executor that its tasks ran on.
    begins, arrivals : numpy.ndarray
        When the data set out, at the end of the last of these tasks at the earliest, and when they arrive, in seconds.
    sizes : numpy.ndarray
        Units of data.
    ready : float
        When all have arrived, in seconds; 0 for a node without parents.
    """

    parents: Whole
    sources: Whole
    begins: Floats
    arrivals: Floats
    sizes: Floats
    ready: float


class TaskCopy(Copy):
    """A task of a node, assigned to an executor; live, do not change it.

    Parameters
    ----------
    state : JobState
        The job.
    node, executor : int
        What runs, and where.
    duplicate : bool
        False.
    assigned : float
        When it was assigned, in seconds.
    sequence : int
        How many tasks had been assigned before, in the whole cluster.
    start, finish : float
        When it is expected to start and to finish, in seconds.
    task : int
        Which of its node's tasks it is.

    Attributes
    ----------
    shares : Shares
        What it receives.
    true_finish : float
        When it will have finished, once it has started; ``finish`` is what is expected, and what has happened once it
        has.
    """

    __slots__ = ("shares", "true_finish")
    shares: Shares
    true_finish: float


def task_run_times(job: Job, executors: Executors) -> Floats:
    """Return how long a task of each node of a job takes on each executor, in the mean.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Of the cluster.

    Returns
    -------
    numpy.ndarray of shape (num_nodes, num_executors)
        Seconds: an equal part of what the node takes or, if its task times were measured, their mean over all runs at
        the executor's speed.
    """
    table: Floats = job.run_times_on(executors) / job.num_tasks[:, None]
    if job.task_times is not None:
        for node, times in enumerate(job.task_times):
            table[node] = times.mean() * times.reference_speed / executors.speeds
    return table


_NO_NUMBERS = np.empty(0, dtype=np.int64)
_NO_TIMES = np.empty(0)
NOTHING = Shares(_NO_NUMBERS, _NO_NUMBERS, _NO_TIMES, _NO_TIMES, _NO_TIMES, 0.0)
"""What a task of a node without parents receives."""
