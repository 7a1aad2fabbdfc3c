"""Allocations: choose the executor of a node, and the parents to duplicate there.

Source: LACHESIS, section IV-C, for EFT and DEFT. Its equations (9) and (10) ignore that an executor may be busy; we
take that into account. Insertion is that of HEFT (IEEE TPDS 13(3), 2002, section 4.1): a node may run in an idle
interval before nodes that are already assigned.
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
    """Return when a node would finish on each executor, and its queue position where that is in an idle interval.

    Parameters
    ----------
    observation : DagObservation
        Observation with the current assignments.
    state : JobState
        State of the job.
    node : int
        A ready node.
    available : numpy.ndarray of shape (num_executors,), optional
        Time in seconds from which each executor is available, infinite for executors not to use. Default: when
        everything assigned to it has run.
    penalties : numpy.ndarray of shape (num_executors,) or float
        Seconds that the caller will add to the finish times before comparing them. Executors that cannot win even in
        the best case are not searched.

    Returns
    -------
    finish : numpy.ndarray of shape (num_executors,)
        Finish times in seconds, without the penalties; infinite for executors not to use.
    positions : dict of int to int
        For executors on which the node fits into an idle interval: number of waiting copies before it in the queue.
    """
    run_times = state.run_times[node]
    ready = np.maximum(state.ready_times(node), observation.time)
    if available is None:
        available = observation.available_times
    finish = np.maximum(available, ready) + run_times
    least = ready + run_times
    limit = (finish + penalties).min() * (1.0 + 8.0 * RESOLUTION)  # allows for rounding errors
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
    """Return the assignment of a node to a given executor, in the first idle interval in which it fits.

    Parameters
    ----------
    observation : DagObservation
        Observation with the current assignments.
    state : JobState
        State of the job.
    node, executor : int
        A ready node, and an executor that is up.

    Returns
    -------
    Assign
        Assignment; at the end of the queue if the node fits in no idle interval.
    """
    ready = max(state.ready_time(node, executor), observation.time)
    gap = observation.executor_queues[executor].earliest_gap(ready, state.run_times.item(node, executor))
    return Assign(state.job.job_id, node, executor, (), None if gap is None else gap[1])


class Allocation(Protocol):
    """Protocol of a rule that chooses an executor."""

    name: str

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node; None if no executor can take it.

        Parameters
        ----------
        observation : DagObservation
            Current observation.
        state : JobState
            State of the job.
        node : int
            The node.
        available : numpy.ndarray of shape (num_executors,), optional
            Time in seconds from which each executor is available, infinite for executors not to use. Default: when
            everything assigned to it has run.
        """


class EFT:
    """Earliest finish time, after everything assigned to the executor; ties go to the first executor."""

    name = "eft"

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node, as in :class:`Allocation`."""
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
        """Return when the node would finish on each executor, and its queue positions other than the last."""
        finish = np.maximum(available, state.ready_times(node))
        finish += state.run_times[node]
        return finish, {}


class DEFT(EFT):
    """EFT with an optional copy of one parent before the node on the same executor, if that lets it finish earlier.

    The copy needs the parent's inputs on that executor and occupies the executor. The other inputs of the node arrive
    as usual. A parent is duplicated only if that is strictly better; ties go to the first executor, then to the first
    parent. Tasks of a :class:`TaskCluster` cannot be duplicated, so there DEFT is EFT.
    """

    name = "deft"

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node, as in :class:`Allocation`."""
        if available is None:
            available = observation.available_times
        run_times = state.run_times[node]
        finish, positions = self._finish_times(observation, state, node, available)
        executor = int(finish.argmin())
        best = finish[executor]
        if best == np.inf:
            return None
        parents = state.job.parents(node)
        if len(parents) and state.may_duplicate:
            # lower bound: a copy of the parent with the shortest run time that starts as soon as the executor is free
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
        """Return the earliest finish with one duplicated parent (CPEFT), with the executor and the parent."""
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
    """EFT with HEFT's insertion: the node may run in an idle interval before nodes that are already assigned."""

    def _finish_times(
        self, observation: DagObservation, state: JobState, node: int, available: Floats
    ) -> tuple[Floats, dict[int, int]]:
        return insertion_finish_times(observation, state, node, available)


class InsertionEFT(_Insertion):
    """Earliest finish time, also in idle intervals before nodes that are already assigned (HEFT's insertion)."""

    name = "insertion-eft"


class InsertionDEFT(_Insertion, DEFT):
    """DEFT with HEFT's insertion: the node may run in an idle interval before nodes that are already assigned.

    This departs from the LACHESIS paper, in which nodes run in the order of assignment. A copy of a parent, followed by
    the node, still goes to the end of the queue.
    """

    name = "insertion-deft"


def latest_others(arrivals: Floats) -> Floats:
    """Return for each row the maximum of all other rows, column by column.

    Parameters
    ----------
    arrivals : numpy.ndarray of shape (num_rows, num_columns)
        Values; at least two rows.

    Returns
    -------
    numpy.ndarray of the same shape
        Maxima of the other rows.
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
