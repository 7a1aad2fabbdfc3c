"""Allocations: on which executor a node runs, and which of its parents are duplicated there.

Source: LACHESIS, section IV-C, for EFT and DEFT; its equations (9) and (10) leave out that an executor may be busy,
which is put back here. Insertion is that of HEFT (IEEE TPDS 13(3), 2002, section 4.1): a node may run in idle time
before what is assigned already.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag.orders import RESOLUTION
from desim.problems.dag import Assign, DagObservation, JobState

__all__ = ["DEFT", "EFT", "Allocation", "InsertionDEFT", "InsertionEFT", "assign_inserted", "insertion_finish_times"]

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
        A ready node.
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
        executor_queues = observation.executor_queues
        for executor in np.flatnonzero(worth_a_look).tolist():
            duration = run_times.item(executor)
            gap = executor_queues[executor].earliest_gap(ready.item(executor), duration)
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
        A ready node, and an executor that is up.

    Returns
    -------
    Assign
        At the end of the queue if there is no such idle time.
    """
    ready = max(state.ready_time(node, executor), observation.time)
    gap = observation.executor_queues[executor].earliest_gap(ready, state.run_times.item(node, executor))
    return Assign(state.job.job_id, node, executor, (), None if gap is None else gap[1])


class Allocation(Protocol):
    """What chooses an executor."""

    name: str

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node; None if there is no executor for it.

        Parameters
        ----------
        observation : DagObservation
            What is known.
        state : JobState
            The job.
        node : int
            The node.
        available : numpy.ndarray of shape (num_executors,), optional
            When each executor can take something on, in seconds, infinite for those that are not to be used; by
            default when all that is assigned to it will have run.
        """


class EFT:
    """The executor on which the node finishes first, behind all that is assigned to it; of equal ones the first."""

    name = "eft"

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node, as for :class:`Allocation`."""
        if available is None:
            available = observation.available_times
        finish, positions = self._finish_times(observation, state, node, available)
        executor = int(finish.argmin())
        if finish[executor] == np.inf:
            return None
        return Assign(state.job.job_id, node, executor, (), positions.get(executor))

    def _finish_times(
        self, observation: DagObservation, state: JobState, node: int, available: Floats
    ) -> tuple[Floats, dict[int, int]]:
        """Return when the node would finish on each executor, and places in queues that are not the last."""
        finish = np.maximum(available, state.ready_times(node))
        finish += state.run_times[node]
        return finish, {}


class DEFT(EFT):
    """EFT, or a copy of one parent on the executor first, whichever lets the node finish earlier.

    The copy needs the inputs of the parent on that executor, and occupies it; the other inputs of the node arrive as
    usual. A parent is duplicated only if that is strictly better; of equal choices the first executor counts, then the
    first parent.
    """

    name = "deft"

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node, as for :class:`Allocation`."""
        if available is None:
            available = observation.available_times
        run_times = state.run_times[node]
        finish, positions = self._finish_times(observation, state, node, available)
        executor = int(finish.argmin())
        best = finish[executor]
        if best == np.inf:
            return None
        parents = state.job.parents(node)
        if len(parents):
            # A copy of the parent that runs shortest, started as soon as the executor is free: no better is possible.
            parent_times = state.run_times[parents]
            bound = parent_times.min(axis=0)
            bound += available
            bound += run_times
            if bound.min() < best:
                better = self._duplicate(state, node, parents, parent_times, available)
                if better is not None and better[0] < best:
                    return Assign(state.job.job_id, node, better[1], (better[2],))
        return Assign(state.job.job_id, node, executor, (), positions.get(executor))

    def _duplicate(
        self, state: JobState, node: int, parents: NDArray[np.int64], parent_times: Floats, available: Floats
    ) -> tuple[float, int, int] | None:
        """Return the best finish with one parent duplicated (CPEFT), with the executor and the parent."""
        ready = np.array([state.ready_times(parent) for parent in parents.tolist()])
        finish = np.maximum(ready, available)
        finish += parent_times
        if len(parents) > 1:
            np.maximum(finish, latest_others(state.arrivals(node)), out=finish)
        finish += state.run_times[node]
        executor = int(finish.min(axis=0).argmin())
        index = int(finish[:, executor].argmin())
        return finish[index, executor].item(), executor, int(parents[index])


class _Insertion(EFT):
    """The insertion of HEFT: the node may run in idle time before what is assigned already."""

    def _finish_times(
        self, observation: DagObservation, state: JobState, node: int, available: Floats
    ) -> tuple[Floats, dict[int, int]]:
        return insertion_finish_times(observation, state, node, available)


class InsertionEFT(_Insertion):
    """The executor on which the node finishes first, also in idle time before what is assigned to it already."""

    name = "insertion-eft"


class InsertionDEFT(_Insertion, DEFT):
    """DEFT with the insertion of HEFT: the node may run in idle time before what is assigned already.

    A departure from the paper, whose nodes run in the order in which they were assigned. A copy of a parent, with the
    node behind it, still goes to the end of the queue.
    """

    name = "insertion-deft"


def latest_others(arrivals: Floats) -> Floats:
    """Return, for each row, the maximum of all other rows, column by column.

    Parameters
    ----------
    arrivals : numpy.ndarray of shape (num_rows, num_columns)
        At least two rows.

    Returns
    -------
    numpy.ndarray of the same shape
        The maxima.
    """
    columns = np.arange(arrivals.shape[1])
    last = arrivals.argmax(axis=0)
    highest = arrivals[last, columns]
    rest = arrivals.copy()
    rest[last, columns] = -np.inf
    others = np.empty_like(arrivals)
    others[:] = highest
    others[last, columns] = rest.max(axis=0)
    return others
