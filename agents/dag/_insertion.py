"""Idle time on executors: when a node would finish if it may run before what is assigned already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag.ranks import RESOLUTION
from desim.problems.dag import Assign, DagObservation, JobState

__all__ = ["assign_inserted", "insertion_finish_times"]

Floats = NDArray[np.float64]


def insertion_finish_times(
    observation: DagObservation,
    state: JobState,
    node: int,
    available: Floats | None = None,
    penalties: Floats | float = 0.0,
) -> tuple[Floats, dict[int, int]]:
    """Return when a node would finish on each executor, and the place in the queue where that is in idle time.

    Parameters
    ----------
    observation : DagObservation
        What is assigned.
    state : JobState
        The job.
    node : int
        An executable node.
    available : numpy.ndarray of shape (num_executors,), optional
        When each executor can take something on, in seconds, infinite for those that are not to be used; by default
        when all that is assigned to it will have run.
    penalties : numpy.ndarray of shape (num_executors,) or float
        What will be added to the finishes before they are compared, in seconds: an executor that cannot be the least
        even in the best case is not searched.

    Returns
    -------
    finish : numpy.ndarray of shape (num_executors,)
        Seconds, without the penalties; infinite where the executor is not to be used.
    positions : dict of int to int
        For executors on which the node fits into idle time, how many waiting copies stay in front.
    """
    run_times = state.run_times[node]
    ready = np.maximum(state.ready_times(node), observation.time)
    if available is None:
        available = observation.available_times
    finish = np.maximum(available, ready) + run_times
    least = ready + run_times
    limit = (finish + penalties).min() * (1.0 + 8.0 * RESOLUTION)  # equal but for rounding is good enough
    worth_a_look = (least <= observation.last_gap_ends) & (least + penalties <= limit)
    worth_a_look &= available < np.inf
    positions = {}
    if worth_a_look.any():
        timetables = observation.timetables
        for executor in np.flatnonzero(worth_a_look).tolist():
            duration = run_times.item(executor)
            gap = timetables[executor].earliest_gap(ready.item(executor), duration)
            if gap is not None:
                finish[executor] = gap[0] + duration
                positions[executor] = gap[1]
    return finish, positions


def assign_inserted(observation: DagObservation, state: JobState, node: int, executor: int) -> Assign:
    """Return the assignment of a node to a given executor, in the first idle time that it fits into.

    Parameters
    ----------
    observation : DagObservation
        What is assigned.
    state : JobState
        The job.
    node, executor : int
        An executable node, and an executor that is up.

    Returns
    -------
    Assign
        At the end of the queue if there is no such idle time.
    """
    ready = max(state.ready_time(node, executor), observation.time)
    gap = observation.timetables[executor].earliest_gap(ready, state.run_times.item(node, executor))
    return Assign(state.job.job_id, node, executor, (), None if gap is None else gap[1])
