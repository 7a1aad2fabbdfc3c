"""Why an action cannot be carried out where nodes run task by task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from desim.problems.dag.actions import Assign, AssignTasks
from desim.problems.dag.refusals import explain
from desim.problems.dag.task_state import TaskState

if TYPE_CHECKING:
    from desim.problems.dag.cluster import DagCluster

__all__ = ["explain_tasks", "parts_of"]


def parts_of(action: Any) -> tuple[Assign | None, Any]:
    """Return the assignment of one task that an action repeats, None if it is none, and how often.

    Parameters
    ----------
    action : object
        What the agent answered.

    Returns
    -------
    (Assign or None, object)
        The assignment, and how many tasks, which the agent may have got wrong.
    """
    if isinstance(action, AssignTasks):
        return Assign(action.job_id, action.node, action.executor), action.tasks
    return (action if isinstance(action, Assign) else None), 1


def explain_tasks(cluster: DagCluster, action: Any) -> str:
    """Say what is wrong with an action.

    Parameters
    ----------
    cluster : DagCluster
        Where it was to be carried out.
    action : object
        What the agent answered.

    Returns
    -------
    str
        The reason, for the message of an error.
    """
    single, count = parts_of(action)
    if single is None:
        return f"the action is {action!r}, want an Assign, an AssignTasks, a list of them, or None"
    text = f"job {single.job_id} node {single.node} cannot be assigned"
    if single.duplicates:
        return f"{text} with duplicates of {list(single.duplicates)}: tasks are not duplicated"
    jobs = cluster.observation.jobs
    state = jobs.get(single.job_id) if isinstance(single.job_id, int | np.integer) else None
    if isinstance(state, TaskState) and isinstance(single.node, int | np.integer):
        node = int(single.node)
        if 0 <= node < state.job.num_nodes:
            left = state.unassigned_tasks[node].item()
            if not left:
                return f"{text}: all its {state.job.num_tasks[node]} tasks are"
            if not isinstance(count, int | np.integer) or not 1 <= count <= left:
                return f"{text}: {count!r} tasks of it, want 1 to {left}, which are not assigned"
    return explain(cluster, single)
