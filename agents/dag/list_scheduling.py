"""List scheduling: an order says which node comes next, an allocation says where it runs."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
from numpy.random import Generator

from desim.agents.dag.allocation import DEFT, Allocation, InsertionEFT
from desim.agents.dag.orders import Order, RankUp
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagObservation, Job, JobState

__all__ = ["HEFT", "ListScheduler"]


class ListScheduler:
    """Assigns every executable node at once, in the order given, to the executor that the allocation chooses.

    So the paper has it: a node that becomes executable is bound to an executor even if all are busy, and no later node
    goes before it, however urgent. With ``only_idle`` nodes are kept back until an executor has nothing to do.

    Parameters
    ----------
    order : Order
        For example ``FIFO()`` or ``RankUp()``.
    allocation : Allocation
        ``EFT()``, ``InsertionEFT()`` or ``DEFT()``, the default.
    only_idle : bool
        Assign a node only when some executor is idle, and only to such a one.

    Attributes
    ----------
    name : str
        As in the paper: the order and the allocation, ``"rank_up-DEFT"``; and ``" (idle)"`` with ``only_idle``.

    Examples
    --------
    >>> from desim.agents.dag import FIFO
    >>> ListScheduler(FIFO()).name
    'FIFO-DEFT'
    """

    def __init__(self, order: Order, allocation: Allocation | None = None, *, only_idle: bool = False) -> None:
        self.order = order
        self.allocation = DEFT() if allocation is None else allocation
        self.only_idle = only_idle
        self.name = f"{order.name}-{self.allocation.name}{' (idle)' if only_idle else ''}"
        self._forget()

    def _forget(self) -> None:
        self._read = 0
        self._heap: list[tuple[float, int, int, int]] = []
        self._keys: dict[int, tuple[ReferenceType[Job], int, list[float]]] = {}
        self._num_jobs = 0
        self._time = np.nan
        self._fresh: set[int] = set()  # jobs whose keys are those of this time, where keys change; only looked up

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._forget()
        self.order.reset(rng)

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the node that comes next; None if there is no executor for it."""
        available = observation.available_times
        if self.only_idle:
            available = np.where(available <= observation.time, available, np.inf)
            if available.min() == np.inf:
                return None
        if self.order.changes and observation.time != self._time:
            self._order_anew(observation)
        self._take_new(observation)
        heap = self._heap
        while heap[0][3] not in observation.executable:  # withdrawn, or assigned by somebody else
            heapq.heappop(heap)
        ticket = heap[0][3]
        state, node = observation.executable[ticket]
        return self.allocation.allocate(observation, state, node, available)

    def _take_new(self, observation: DagObservation) -> None:
        """Put the nodes that have become executable into the heap."""
        executable = observation.executable
        first, last = self._read, observation.num_revealed
        if last - first > len(executable):
            new = [ticket for ticket in executable if ticket >= first]
        else:
            new = [ticket for ticket in range(first, last) if ticket in executable]
        for ticket in new:
            state, node = executable[ticket]
            number, keys = self._keys_of(observation, state)
            heapq.heappush(self._heap, (keys[node], number, node, ticket))
        self._read = last

    def _order_anew(self, observation: DagObservation) -> None:
        """Forget the keys of an earlier time."""
        self._time = observation.time
        self._fresh.clear()
        self._heap.clear()
        self._read = 0

    def _keys_of(self, observation: DagObservation, state: JobState) -> tuple[int, list[float]]:
        """Return the number of a job and the keys of its nodes."""
        job_id = state.job.job_id
        known = self._keys.get(job_id)
        if known is None or known[0]() is not state.job:  # an id may be used again
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

    Source: H. Topcuoglu, S. Hariri and M.-Y. Wu, IEEE TPDS 13(3), 2002, section 4.1. It plans the whole job when it
    arrives, so it needs a cluster with ``plan_ahead=True``. Of equal ranks the job that arrived first comes first, then
    the node that is first in topological order; of equal finishes the first executor.
    """

    def __init__(self) -> None:
        super().__init__(RankUp(), InsertionEFT())
        self.name = "HEFT"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead is an InvalidConfiguration."""
        require_planning(self.name, info)
        super().reset(info, rng)


def require_planning(name: str, info: Mapping[str, Any]) -> None:
    """Raise InvalidConfiguration unless the cluster takes nodes whose parents have not finished."""
    if not info.get("plan_ahead"):
        raise InvalidConfiguration(f"{name} plans whole jobs: want DagCluster(..., plan_ahead=True)")
