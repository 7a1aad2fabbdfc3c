"""Why an action cannot be carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from desim.problems.dag.actions import Assign

if TYPE_CHECKING:
    from desim.problems.dag.dynamics import DagDynamics
    from desim.problems.dag.job_state import JobState

__all__ = ["explain"]


def explain(cluster: DagDynamics, action: Any) -> str:
    """Say what is wrong with an action.

    Parameters
    ----------
    cluster : DagDynamics
        Where it was to be carried out.
    action : object
        What the agent answered.

    Returns
    -------
    str
        The reason, for the message of an error.
    """
    if not isinstance(action, Assign):
        return f"the action is {action!r}, want an Assign, a list of them, or None"
    state = cluster.observation.jobs.get(action.job_id) if isinstance(action.job_id, int | np.integer) else None
    if state is None:
        return f"job {action.job_id!r} is not in the system"
    return _unknown(cluster, state, action) or _not_ready(state, action) or _no_place(cluster, action)


def _unknown(cluster: DagDynamics, state: JobState, action: Assign) -> str:
    """Say which node or executor there is not, or is down; nothing if all are there."""
    for node in (*action.duplicates, action.node):
        if not isinstance(node, int | np.integer) or not 0 <= node < state.job.num_nodes:
            return f"job {action.job_id} has no node {node!r}, it has {state.job.num_nodes}"
    count = cluster.executors.num_executors
    if not isinstance(action.executor, int | np.integer) or not 0 <= action.executor < count:
        return f"{_where(action)} to executor {action.executor!r}: there are {count}"
    if cluster.is_down(action.executor):
        return f"{_where(action)} to executor {action.executor}: it is down"
    return ""


def _not_ready(state: JobState, action: Assign) -> str:
    """Say which node does not have what it needs; nothing if all do."""
    nodes = (*action.duplicates, action.node)
    for node in action.duplicates:
        if not state.assigned[node]:
            return f"{_where(action)}: node {node} is to be duplicated and has not been assigned before"
    for number, node in enumerate(nodes):
        for parent in state.job.parents(node).tolist():
            if not state.copies[parent] and parent not in nodes[:number]:
                role = "" if node == action.node else f" of its duplicated parent {node}"
                return f"{_where(action)}: parent {parent}{role} has no copy"
    if not state.assigned[action.node] and state._tickets[action.node] is None:
        return f"{_where(action)}: it has parents that have not finished, and the cluster does not plan ahead"
    return ""


def _no_place(cluster: DagDynamics, action: Assign) -> str:
    """Say what is wrong with the position."""
    waiting = len(cluster.observation.timetables[int(action.executor)].waiting)
    position = action.position
    if position is not None and (not isinstance(position, int | np.integer) or not 0 <= position <= waiting):
        return f"{_where(action)} at position {position!r}: {waiting} copies wait on executor {action.executor}"
    place = f"position {position} of executor {action.executor}"
    return f"{_where(action)} at {place}: it does not fit into the idle time there"


def _where(action: Assign) -> str:
    return f"job {action.job_id} node {action.node} cannot be assigned"
