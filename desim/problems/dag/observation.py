"""What an agent sees when it is asked, what it may answer, and why an answer cannot be carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.execution import ExecutorQueue, Plan
from desim.problems.dag.executors import Executors
from desim.problems.dag.state import JobState

__all__ = ["Assign", "DagObservation", "explain"]


class Assign(NamedTuple):
    """The action that puts a node into the queue of an executor.

    An executor runs what is assigned to it in the order of its queue, each copy as soon as its inputs have arrived.
    A node may be assigned more than once: every further copy is a duplicate. Where nodes run task by task, each
    assignment is one of the next task.

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


class DagObservation:
    """A live view of the cluster, valid until the decision is answered.

    Parameters
    ----------
    executors : Executors
        Of the cluster.
    plan : Plan
        What is assigned to them.

    Attributes
    ----------
    time : float
        Now, in seconds.
    executors : Executors
        Their speeds and channels.
    jobs : dict of int to JobState
        The jobs in the system, in order of arrival, by identifier.
    ready : dict of int to (JobState, int)
        The nodes that may be assigned: a job and a node of it, by a running number that tells when it became
        ready. A node that is withdrawn from an executor that fails gets a new number.
    num_revealed : int
        How many running numbers have been given. An agent that remembers it finds in ``ready`` what is new by
        looking up the numbers since.
    """

    def __init__(self, executors: Executors, plan: Plan) -> None:
        self.time = 0.0
        self.executors = executors
        self.jobs: dict[int, JobState] = {}
        self.ready: dict[int, tuple[JobState, int]] = {}
        self.num_revealed = 0
        self._plan = plan

    @property
    def available_times(self) -> NDArray[np.float64]:
        """When each executor will have run all that is assigned to it, in seconds; now if that has passed.

        An expectation; infinite for an executor that is down.
        """
        self._plan.refresh()
        times: NDArray[np.float64] = np.maximum(self._plan.available, self.time)
        return times

    @property
    def last_gap_ends(self) -> NDArray[np.float64]:
        """Where the last idle time before an assigned copy ends on each executor, in seconds; -inf without one."""
        self._plan.refresh()
        return self._plan.last_gap_ends

    @property
    def executor_queues(self) -> Mapping[int, ExecutorQueue]:
        """What waits on each executor, with the times at which it is expected to start and to finish."""
        self._plan.refresh()
        return self._plan.executor_queues


def explain(observation: DagObservation, action: Any) -> str:
    """Say why an action cannot be carried out.

    Parameters
    ----------
    observation : DagObservation
        What the agent saw.
    action : object
        What it answered.

    Returns
    -------
    str
        The reason, for the message of an error.
    """
    if not isinstance(action, Assign):
        return f"the action is {action!r}, want an Assign, a list of them, or None"
    state = observation.jobs.get(action.job_id) if isinstance(action.job_id, int | np.integer) else None
    if state is None:
        return f"job {action.job_id!r} is not in the system"
    refused = f"job {action.job_id} node {action.node} cannot be assigned"
    return (
        _unknown(observation, state, action, refused)
        or _not_ready(state, action, refused)
        or _no_place(observation, action, refused)
    )


def _unknown(observation: DagObservation, state: JobState, action: Assign, refused: str) -> str:
    """Say which node or executor there is not, or is down; nothing if all are there."""
    for node in (*action.duplicates, action.node):
        if not isinstance(node, int | np.integer) or not 0 <= node < state.job.num_nodes:
            return f"job {action.job_id} has no node {node!r}, it has {state.job.num_nodes}"
    count = observation.executors.num_executors
    if not isinstance(action.executor, int | np.integer) or not 0 <= action.executor < count:
        return f"{refused} to executor {action.executor!r}: there are {count}"
    if observation.available_times[action.executor] == np.inf:
        return f"{refused} to executor {action.executor}: it is down"
    return ""


def _not_ready(state: JobState, action: Assign, refused: str) -> str:
    """Say which node does not have what it needs; nothing if all do."""
    nodes = (*action.duplicates, action.node)
    if not state.may_duplicate and (action.duplicates or state.assigned[action.node]):
        return f"{refused} once more: tasks are not duplicated"
    for node in action.duplicates:
        if not state.assigned[node]:
            return f"{refused}: node {node} is to be duplicated and has not been assigned before"
    for number, node in enumerate(nodes):
        for parent in state.job.parents(node).tolist():
            if not state.copies[parent] and parent not in nodes[:number]:
                role = "" if node == action.node else f" of its duplicated parent {node}"
                return f"{refused}: parent {parent}{role} has no copy"
    if not state.assigned[action.node] and state.tickets[action.node] is None:
        return f"{refused}: it has parents that have not finished, and the cluster does not plan ahead"
    return ""


def _no_place(observation: DagObservation, action: Assign, refused: str) -> str:
    """Say what is wrong with the position."""
    waiting = len(observation.executor_queues[int(action.executor)].waiting)
    position = action.position
    if position is not None and (not isinstance(position, int | np.integer) or not 0 <= position <= waiting):
        return f"{refused} at position {position!r}: {waiting} copies wait on executor {action.executor}"
    return f"{refused} at position {position} of executor {action.executor}: it does not fit into the idle time there"
