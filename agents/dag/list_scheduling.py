"""List schedulers: an order chooses the next node, and an allocation chooses its executor.

Patient list schedulers wait for a faster executor if that pays off.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.allocation import DEFT, Allocation, InsertionEFT
from desim.agents.dag.orders import Order, RankUp
from desim.checks import check_float
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagObservation, Job, JobState
from desim.reprs import NamedRepr

__all__ = ["HEFT", "ListScheduler", "PatientScheduler"]


class ListScheduler(NamedRepr):
    """Assign every ready node at once, in a given order, to the executor that an allocation chooses.

    A node that no available executor may run waits, and the next one in the order is considered.

    This follows the LACHESIS paper: a node is bound to an executor as soon as it is ready, even if all executors are
    busy, and no later node overtakes it, however urgent. With ``only_idle``, nodes wait until an executor is idle.

    Parameters
    ----------
    order : Order
        Order of the nodes, for example ``FIFO()`` or ``RankUp()``.
    allocation : Allocation
        Rule that chooses the executor: ``EFT()``, ``InsertionEFT()`` or ``DEFT()`` (default).
    only_idle : bool
        Whether to assign nodes only while some executor is idle, and only to idle ones; on pools, only where the
        demands of the node fit, so that nodes further down the order may go first. A node with modes then runs in the
        one that finishes first among those that fit.

    Attributes
    ----------
    name : str
        Names of the order and the allocation, such as ``"rank-up-deft"``, with ``"-idle"`` if ``only_idle`` is set.

    Examples
    --------
    >>> from desim.agents.dag import FIFO
    >>> ListScheduler(FIFO()).name
    'fifo-deft'
    """

    considers = frozenset({"outages", "arrivals"})

    def __init__(self, order: Order, allocation: Allocation | None = None, *, only_idle: bool = False) -> None:
        self.order = order
        self.allocation = DEFT() if allocation is None else allocation
        self.only_idle = only_idle
        self.name = f"{order.name}-{self.allocation.name}{'-idle' if only_idle else ''}"
        if only_idle:
            self.considers = ListScheduler.considers | {"demands", "modes"}
        self._forget()

    def _forget(self) -> None:
        self._read = 0
        self._heap: list[tuple[float, int, int, int]] = []
        self._keys: dict[int, tuple[ReferenceType[Job], int, list[float]]] = {}
        self._num_jobs = 0
        self._time = np.nan
        self._fresh: set[int] = set()  # ids of jobs with keys of the current time, if keys change; never iterated

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._forget()
        self.order.reset(rng)

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the next node; None if no executor can take it."""
        available = observation.available_times
        fitting = self.only_idle and observation.executors.resources
        if self.only_idle and not fitting:
            available = np.where(available <= observation.time, available, np.inf)
            if available.min() == np.inf:
                return None
        if self.order.changes and observation.time != self._time:
            self._order_anew(observation)
        self._take_new(observation)
        heap, ready = self._heap, observation.ready
        blocked: list[tuple[float, int, int, int]] = []
        chosen = None
        while heap and chosen is None:
            while heap and heap[0][3] not in ready:  # withdrawn, or assigned by another agent
                heapq.heappop(heap)
            if heap:
                state, node = ready[heap[0][3]]
                if fitting:
                    chosen = self._allocate_fitting(observation, state, node)
                else:
                    chosen = self.allocation.allocate(observation, state, node, available)
                if chosen is None:  # no executor may take it now; others may take the next node
                    if available.min() == np.inf and not fitting:
                        break
                    blocked.append(heapq.heappop(heap))
        for entry in blocked:
            heapq.heappush(heap, entry)
        if chosen is None and fitting and blocked and _is_empty(observation):
            state, node = ready[blocked[0][3]]  # its data are on their way, and no decision follows their arrival
            chosen = self.allocation.allocate(observation, state, node, observation.available_times)
        return chosen

    def _allocate_fitting(self, observation: DagObservation, state: JobState, node: int) -> Assign | None:
        """Return the assignment of a node to a pool where it fits; None if there is none."""
        if node in state.modes:
            return assign_fitting(observation, state, node)
        fits = observation.fits(state, node)
        if not fits.any():
            return None
        return self.allocation.allocate(observation, state, node, np.where(fits, observation.time, np.inf))

    def _take_new(self, observation: DagObservation) -> None:
        """Push the nodes that have become ready onto the heap."""
        ready = observation.ready
        first, last = self._read, observation.num_revealed
        if last - first > len(ready):
            new = [ticket for ticket in ready if ticket >= first]
        else:
            new = [ticket for ticket in range(first, last) if ticket in ready]
        for ticket in new:
            state, node = ready[ticket]
            number, keys = self._keys_of(observation, state)
            heapq.heappush(self._heap, (keys[node], number, node, ticket))
        self._read = last

    def _order_anew(self, observation: DagObservation) -> None:
        """Discard the keys of an earlier time."""
        self._time = observation.time
        self._fresh.clear()
        self._heap.clear()
        self._read = 0

    def _keys_of(self, observation: DagObservation, state: JobState) -> tuple[int, list[float]]:
        """Return the number of a job and the keys of its nodes."""
        job_id = state.job.job_id
        known = self._keys.get(job_id)
        if known is None or known[0]() is not state.job:  # ids may be reused
            if len(self._keys) > 2 * len(observation.jobs) + 4:
                self._keys = {job: self._keys[job] for job in observation.jobs if job in self._keys}
            known = ref(state.job), self._num_jobs, self.order.keys(observation, state).tolist()
            self._keys[job_id] = known
            self._num_jobs += 1
        elif self.order.changes and job_id not in self._fresh:
            known = known[0], known[1], self.order.keys(observation, state).tolist()
            self._keys[job_id] = known
        if self.order.changes:
            self._fresh.add(job_id)
        return known[1:]


class HEFT(ListScheduler):
    """Heterogeneous Earliest Finish Time: highest upward rank first, insertion-based EFT, no duplication.

    Source: H. Topcuoglu, S. Hariri and M.-Y. Wu, IEEE TPDS 13(3), 2002, section 4.1. HEFT plans a whole job when it
    arrives. Ties of rank go to the job that arrived first, then to the node
    that is first in topological order; ties of finish time go to the first executor.
    """

    considers = frozenset({"arrivals"})

    plans_ahead = True

    def __init__(self) -> None:
        super().__init__(RankUp(), InsertionEFT())
        self.name = "heft"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; raise InvalidConfiguration if the cluster does not plan ahead."""
        require_planning(self.name, info)
        super().reset(info, rng)


def require_planning(name: str, info: Mapping[str, Any]) -> None:
    """Raise InvalidConfiguration unless the cluster accepts nodes whose parents have not finished."""
    if not info.get("plan_ahead"):
        raise InvalidConfiguration(
            f"{name}: got a cluster without planning ahead, expected one with; try it without plan_ahead=False"
        )


Floats = NDArray[np.float64]


class PatientScheduler(NamedRepr):
    """Assign nodes to idle executors only, and hold a node back while a busy executor would finish it sooner.

    At each decision, the ready nodes are examined in order. The first node is assigned that some idle executor finishes
    within ``slack`` times the time on the best of all executors, including the wait for it. If there is no such node,
    all nodes wait for the next event. If no running node could cause one, the node with the smallest loss is assigned.

    Parameters
    ----------
    order : Order
        Order of the nodes. Default: ``RankUp()``.
    allocation : Allocation
        Rule that chooses among the idle executors. Default: ``DEFT()``.
    slack : float
        Largest acceptable ratio of the times on the best idle executor and on the best of all, at least 1. Duplication
        is not considered in it.

    Attributes
    ----------
    name : str
        Names of the order and the allocation, followed by ``"-patient"``.

    Raises
    ------
    InvalidConfiguration
        If the slack is less than 1.
    """

    considers = frozenset({"outages", "arrivals"})

    def __init__(self, order: Order | None = None, allocation: Allocation | None = None, *, slack: float = 1.0) -> None:
        self.order = RankUp() if order is None else order
        self.allocation = DEFT() if allocation is None else allocation
        self.slack = check_float("slack", slack, least=1)
        self.name = f"{self.order.name}-{self.allocation.name}-patient"
        self._keys: dict[JobState, list[float]] = {}

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._keys = {}
        self.order.reset(rng)

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the next node; None to wait."""
        available, time = observation.available_times, observation.time
        idle = available <= time
        if not idle.any():
            return None
        nodes = list(observation.ready.values())
        finish = np.array([state.ready_times(node) for state, node in nodes])
        np.maximum(finish, available, out=finish)
        finish += np.array([state.run_times[node] for state, node in nodes])
        finish -= time
        best, best_idle = finish.min(axis=1), finish[:, idle].min(axis=1)
        soon = np.flatnonzero((best_idle <= self.slack * best + 1e-9 * max(time, 1.0)) & (best_idle < np.inf))
        if len(soon):
            keys = self._keys_of(observation, nodes)
            state, node = nodes[min(soon.tolist(), key=keys.__getitem__)]
        elif ((available > time) & (available < np.inf)).any():
            return None
        else:  # only executors that are down would finish a node sooner
            state, node = nodes[int((best_idle - np.where(best < np.inf, best, 0.0)).argmin())]
        return self.allocation.allocate(observation, state, node, np.where(idle, available, np.inf))

    def _keys_of(self, observation: DagObservation, nodes: list[tuple[JobState, int]]) -> list[float]:
        """Return the keys of nodes; ties go to the first node."""
        known = {} if self.order.changes else self._keys
        if len(known) > 2 * len(observation.jobs) + 4:
            known = {state: known[state] for state in observation.jobs.values() if state in known}
        for state, _ in nodes:
            if state not in known:
                known[state] = self.order.keys(observation, state).tolist()
        self._keys = known
        return [known[state][node] for state, node in nodes]


def assign_fitting(observation: DagObservation, state: JobState, node: int) -> Assign | None:
    """Return the assignment of a node with modes that starts at once and finishes first; None if none fits.

    Parameters
    ----------
    observation : DagObservation
        Current observation.
    state : JobState
        State of the job.
    node : int
        A ready node with modes.

    Returns
    -------
    Assign or None
        Assignment with a mode; ties go to the first pool, then to the first mode.
    """
    times = observation.fitting_modes(state, node)
    executor = int(times.min(axis=0).argmin())
    mode = int(times[:, executor].argmin())
    if times[mode, executor] == np.inf:
        return None
    return Assign(state.job.job_id, node, executor, mode=mode)


def _is_empty(observation: DagObservation) -> bool:
    """Return whether no copy runs or waits."""
    return not any(queue.running or queue.waiting for queue in observation.executor_queues.values())
