"""Observation and actions of DAG agents, and explanations of infeasible actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.execution import ExecutorQueue, Plan
from desim.problems.dag.executors import Executors
from desim.problems.dag.pools import PoolPlan
from desim.problems.dag.state import JobState

__all__ = ["Assign", "DagObservation", "explain", "explain_mode"]


class Assign(NamedTuple):
    """Action that assigns a node to the queue of an executor.

    An executor runs its copies in the order of its queue, each as soon as its inputs have arrived. A node may be
    assigned more than once; every further copy is a duplicate. If nodes run task by task, each assignment concerns the
    node's next task.

    Attributes
    ----------
    job_id : int
        Identifier of the job.
    node : int
        Number of the node within the job. All its parents must be assigned.
    executor : int
        Number of the executor, on which the run time of the node is finite.
    duplicates : tuple of int
        Nodes of the same job, assigned before, to duplicate on the same executor directly before the node, in this
        order.
    position : int, optional
        Number of waiting copies in the executor's queue that stay ahead; default: all. The inserted copies must fit
        into the idle time there, so that no copy is expected to start later than before.
    mode : int, optional
        Mode of the node on a pool, from 0; default: the one in which it is expected to finish first at the end of the
        queue. Duplicates run in such a mode, too.
    """

    job_id: int
    node: int
    executor: int
    duplicates: tuple[int, ...] = ()
    position: int | None = None
    mode: int | None = None


class DagObservation:
    """Live view of the cluster, valid until the agent answers.

    Parameters
    ----------
    executors : Executors
        Executors of the cluster.
    plan : Plan
        Queues of the executors.

    Attributes
    ----------
    time : float
        Current time in seconds.
    executors : Executors
        Executors with their speeds and channels.
    jobs : dict of int to JobState
        Jobs in the system, in order of arrival, by identifier.
    ready : dict of int to (JobState, int)
        Ready list: the nodes that may be assigned, as (job, node). The keys count up in the order in which nodes
        become ready. A node withdrawn from a failing executor gets a new key.
    num_revealed : int
        Number of keys given so far. An agent that stores it finds the new entries of ``ready`` by looking up the
        keys since.
    """

    def __init__(self, executors: Executors, plan: Plan) -> None:
        self.time = 0.0
        self.executors = executors
        self.jobs: dict[int, JobState] = {}
        self.ready: dict[int, tuple[JobState, int]] = {}
        self.num_revealed = 0
        self._plan = plan

    def __repr__(self) -> str:
        """Return a summary of the state."""
        up = np.count_nonzero(self.available_times < np.inf)
        return f"DagObservation(time={self.time}, jobs={len(self.jobs)}, ready={len(self.ready)}, executors_up={up})"

    @property
    def available_times(self) -> NDArray[np.float64]:
        """Time at which each executor will have run all its assigned copies, in seconds; at least the current time.

        The times are expectations; infinite for an executor that is down.
        """
        self._plan.refresh()
        times: NDArray[np.float64] = np.maximum(self._plan.available, self.time)
        return times

    @property
    def last_gap_ends(self) -> NDArray[np.float64]:
        """End of the last idle time before an assigned copy on each executor, in seconds; -inf if there is none."""
        self._plan.refresh()
        return self._plan.last_gap_ends

    @property
    def free_units(self) -> NDArray[np.int64]:
        """Amounts of pools that no assigned copy takes, in millionths, shape (num_executors, num_resources).

        They are negative where copies wait for others to finish.
        """
        return self._plan.free if isinstance(self._plan, PoolPlan) else self.executors.units

    def fits(self, state: JobState, node: int) -> NDArray[np.bool_]:
        """Return on which pools a node would start at once, shape (num_executors,).

        Parameters
        ----------
        state : JobState
            State of the job.
        node : int
            A ready node.
        """
        if state.modes and node in state.modes:
            fitting: NDArray[np.bool_] = self.fitting_modes(state, node).min(axis=0) < np.inf
            return fitting
        units = state.units[node]
        return self._fit(state, node, state.run_times[node], self.executors.units if units is None else units)

    def _fit(self, state: JobState, node: int, run_times: Any, units: Any) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.all(self.free_units >= units, axis=1)
        if found.any():
            found &= (run_times < np.inf) & (state.ready_times(node) <= self.time)
            found &= self.available_times < np.inf
        return found

    def fitting_modes(self, state: JobState, node: int) -> NDArray[np.float64]:
        """Return the run times of a node in the modes and on the pools in which it would start at once.

        Parameters
        ----------
        state : JobState
            State of the job.
        node : int
            A ready node with modes.

        Returns
        -------
        numpy.ndarray of shape (num_modes, num_executors)
            Run times in seconds, infinite where the node would not start at once.
        """
        times, units = state.modes[node]
        fits = [self._fit(state, node, *mode) for mode in zip(times, units, strict=True)]
        return np.where(fits, times, np.inf)

    @property
    def executor_queues(self) -> Mapping[int, ExecutorQueue]:
        """Queue of each executor, with expected starts and finishes."""
        self._plan.refresh()
        return self._plan.executor_queues


def explain(observation: DagObservation, action: Any) -> str:
    """Return the reason why an action cannot be carried out.

    Parameters
    ----------
    observation : DagObservation
        Observation that the agent decided on.
    action : object
        Action that the agent returned.

    Returns
    -------
    str
        Reason, for an error message.
    """
    if not isinstance(action, Assign):
        return f"action: got {action!r}, expected an Assign, a list of them, or None"
    state = observation.jobs.get(action.job_id) if isinstance(action.job_id, int | np.integer) else None
    if state is None:
        return f"job_id: got {action.job_id!r}, expected the id of a job in the system"
    refused = f"job {action.job_id} node {action.node} cannot be assigned"
    return (
        _unknown(observation, state, action, refused)
        or explain_mode(state, action, refused)
        or _not_ready(state, action, refused)
        or _no_place(observation, action, refused)
    )


def _unknown(observation: DagObservation, state: JobState, action: Assign, refused: str) -> str:
    """Return which node or executor does not exist or is down; empty if none."""
    for node in (*action.duplicates, action.node):
        if not isinstance(node, int | np.integer) or not 0 <= node < state.job.num_nodes:
            return f"node: got {node!r}, expected 0 to {state.job.num_nodes - 1}, a node of job {action.job_id}"
    count = observation.executors.num_executors
    if not isinstance(action.executor, int | np.integer) or not 0 <= action.executor < count:
        return f"{refused}: executor: got {action.executor!r}, expected an integer from 0 to {count - 1}"
    if observation.available_times[action.executor] == np.inf:
        return f"{refused}: executor {action.executor} is down; try one that is up"
    for node in (*action.duplicates, action.node):
        if state.run_times[node, action.executor] == np.inf:
            able = np.flatnonzero(state.run_times[node] < np.inf).tolist()
            return f"{refused}: executor {action.executor} may not run node {node}; expected one of {able}"
    return ""


def explain_mode(state: JobState, action: Assign, refused: str = "") -> str:
    """Return what is wrong with the mode of an action; empty if nothing is."""
    if action.mode is None:
        return ""
    modes = state.modes.get(int(action.node))
    if modes is None:
        return f"{refused}: mode: got {action.mode!r}, expected None: the node has no modes"
    able = np.flatnonzero(modes.run_times[:, action.executor] < np.inf).tolist()
    if not isinstance(action.mode, int | np.integer) or action.mode not in able:
        return f"{refused}: mode: got {action.mode!r}, expected one of {able} on executor {action.executor}"
    return ""


def _not_ready(state: JobState, action: Assign, refused: str) -> str:
    """Return which node is not ready; empty if all are."""
    nodes = (*action.duplicates, action.node)
    if not state.may_duplicate and (action.duplicates or state.assigned[action.node]):
        return f"{refused} again: tasks cannot be duplicated"
    for node in action.duplicates:
        if not state.assigned[node]:
            return f"{refused}: duplicates: node {node} has not been assigned before"
    for number, node in enumerate(nodes):
        for parent in state.job.parents(node).tolist():
            if not state.copies[parent] and parent not in nodes[:number]:
                role = "" if node == action.node else f" of its duplicated parent {node}"
                return f"{refused}: parent {parent}{role} has no copy; assign the parent first"
    if not state.assigned[action.node] and state.tickets[action.node] is None:
        return f"{refused}: its parents have not all finished; wait for them, or use plan_ahead=True"
    return ""


def _no_place(observation: DagObservation, action: Assign, refused: str) -> str:
    """Return what is wrong with the position."""
    waiting = len(observation.executor_queues[int(action.executor)].waiting)
    position = action.position
    if position is not None and (not isinstance(position, int | np.integer) or not 0 <= position <= waiting):
        return f"{refused}: position: got {position!r}, expected 0 to {waiting}, the copies waiting on the executor"
    if observation.executors.resources:
        return f"{refused}: position: got {position}, expected {waiting}: copies join the end of a pool's queue"
    return f"{refused}: it does not fit into the idle time at position {position} of executor {action.executor}"
