"""What an agent may answer."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Assign", "AssignTasks"]


class Assign(NamedTuple):
    """The action that puts a node into the queue of an executor.

    An executor runs what is assigned to it in the order of its queue, each copy as soon as its inputs have arrived.
    A node may be assigned more than once: every further copy is a duplicate.

    Attributes
    ----------
    job_id : int
        The job.
    node : int
        The node, by its number in the job. All its parents must be assigned.
    executor : int
        The executor, by its number.
    duplicates : tuple of int
        Nodes of the same job, assigned before, of which further copies are to run on the same executor directly
        before the node, in this order.
    position : int, optional
        How many of the copies that wait in the executor's queue are to stay in front; all of them if left out. What is
        inserted must fit into the idle time there, so that no copy is expected to start later than before.
    """

    job_id: int
    node: int
    executor: int
    duplicates: tuple[int, ...] = ()
    position: int | None = None


class AssignTasks(NamedTuple):
    """The action that puts several tasks of a node into the queue of an executor, where nodes run task by task.

    Attributes
    ----------
    job_id : int
        The job.
    node : int
        The node, by its number in the job. All its parents must have finished.
    executor : int
        The executor, by its number.
    tasks : int
        How many of the tasks of the node that have not been assigned.
    """

    job_id: int
    node: int
    executor: int
    tasks: int = 1
