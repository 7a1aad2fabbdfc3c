"""Plans on nodes, where a job gets particular nodes and their memory, GPUs and other resources."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from heapq import merge
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import WaitForCores
from desim.problems.batch.nodes import CompiledRequest, NodeAllocation
from desim.problems.batch.resources.core_plan import start_until_refused
from desim.problems.batch.resources.node_availability import NodeAvailability, StartOnNodes
from desim.problems.batch.resources.node_levels import NodeLevels

if TYPE_CHECKING:
    from desim.problems.batch.observation import BatchObservation

__all__ = ["NodePlan"]

IntArray = NDArray[np.int64]
Place = tuple[NodeAllocation, ...]
Room = NodeAvailability | NodeLevels
"""Free resources: of every kind, or cores alone; a plan uses either in the same way."""


class NodePlan:
    """Plan on nodes, which the cluster's placement policy chooses; see :class:`~desim.problems.batch.Plan`.

    The reserved job starts as soon as enough running jobs have ended, on the nodes that the policy chooses then. A job
    that ends before may start wherever the policy puts it. A job that ends later may only use resources that are free
    now and not part of the reservation.

    Parameters
    ----------
    observation : BatchObservation
        Observation of the decision.
    around_reservations : bool
        Whether a job fits only on nodes whose next advance reservation begins after the job's requested time. If not,
        only the reservations in force count.
    """

    def __init__(self, observation: BatchObservation, *, around_reservations: bool) -> None:
        assert observation.nodes is not None
        self.observation, self.nodes = observation, observation.nodes
        self.answer: list[Any] = []
        self._around = around_reservations and bool(observation.reservations)
        self._num_heads = self._head_cores = 0  # the first jobs of the queue, which start but have no place yet
        self._blocked_cores = 0
        self._numbers: IntArray | None = None  # of the requests of all queued jobs, once they are needed
        self._totals: dict[object, int] = {}  # tasks that fit, by request of one task, until a job starts
        self._failed: set[object] = set()  # requests that did not fit: free resources only shrink
        self._fitting: IntArray | None = None  # last result of fitting(); None after each start
        self._chosen: tuple[int, Place | None] = -1, None  # last position examined and its place, until a job starts
        self._started: dict[int, tuple[float, Place]] = {}  # expected ends and places by position
        self._reserved: tuple[CompiledRequest, float, float] | None = None  # of the reserved job
        self.shadow: float | None = None  # when the reserved job starts, once it is known
        self._spare: float = inf  # at most as many cores are free then, beside the reserved job
        self._beyond: Room | None = None  # free at the shadow time, beside the reserved job
        self._beside: Room | None = None  # free now and then
        self._too_long: set[object] = set()  # requests that do not fit beside the reserved job

    @cached_property
    def room(self) -> Room:
        """Free resources beside the jobs that start: a NodeAvailability, or NodeLevels if these suffice."""
        room: Room = (self.nodes.levels or self.nodes.room).copy()
        for position in range(self._num_heads):
            request, length, _ = self._job(position)
            place = room.place(request, self.nodes.policy) or ()
            room.take(place)
            self._started[position] = self.observation.time + length, place
        return room

    def fitting(self, among: IntArray | None = None) -> IntArray:
        """Return the positions of the jobs that could start now; each distinct request is checked once."""
        if among is not None and among is self._fitting:
            self._fitting = self._fitting_beside(among)
            return self._fitting
        if isinstance(self.room, NodeLevels) and self.room.single is not None:
            return self._fitting_by_cores(self.room.single, among)
        if self._numbers is None:
            self._numbers = self.nodes.request_numbers()
        positions = np.arange(len(self._numbers)) if among is None else among
        if self._started:
            positions = positions[~np.isin(positions, [*self._started])]
        numbers = self._numbers[positions]
        self._look(0.0)
        found = positions[self._enough_for(numbers)]
        if self._around:
            found = np.array([each for each in found.tolist() if self._has_room(*self._job(each)[::2])], np.int64)
        self._fitting = found
        return found

    def _fitting_beside(self, positions: IntArray) -> IntArray:
        """Return which jobs that fit do not delay the reserved one; all of them if that is not known at once."""
        if self._reserved is None or self._numbers is None or self._around or not len(positions):
            return positions
        is_late: NDArray[np.bool_] = self._delays(self.observation.queue.expected_time[positions])
        late = positions[is_late]
        is_late[is_late] = ~self._enough_for(self._numbers[late], beside=True)
        return positions[~is_late]

    def _enough_for(self, numbers: IntArray, *, beside: bool = False) -> NDArray[np.bool_]:
        """Return whether requests, given by number, fit now, or beside the reserved job; each is checked once."""
        room, requests = self._room_beside() if beside else self.room, self.nodes.table.requests
        different = np.bincount(numbers).nonzero()[0]
        fits = np.zeros(len(requests), np.bool_)
        if isinstance(room, NodeAvailability) and room.counts_at_once(len(different)):
            fits[different] = room.enough_for(different)
        else:
            for number in different.tolist():
                fits[number] = self._total(requests[number], beside=beside) >= requests[number].tasks
        return fits[numbers]

    def _fitting_by_cores(self, single: CompiledRequest, among: IntArray | None) -> IntArray:
        """Return the same where only the number of cores matters."""
        queue = self.observation.queue
        if among is None:
            among = np.arange(len(queue))
        cores = queue.requested_cores[among]
        fits = cores <= self._total(single) * single.amounts[0]
        if self._reserved is not None and fits.any():
            fits &= ~self._delays(queue.expected_time[among]) | (cores <= self._spare)
        if self._started:
            left = np.ones(len(queue), np.bool_)
            left[[*self._started]] = False
            fits &= left[among]
        self._fitting = among[fits]
        return self._fitting

    def fits(self, position: int, size: int | None = None) -> bool:
        """Return whether a job fits for its requested time and would not delay the reserved one."""
        _refuse_sizes(size)
        return self._choose(position) is not None

    def is_full(self) -> bool:
        """Return False, because there are several resources."""
        return False

    def start(self, position: int, size: int | None = None, place: Any = None) -> bool:
        """Start a job if it fits and would not delay the reserved one, on given nodes if any."""
        _refuse_sizes(size)
        if place is None:
            place = self._choose(position)
            if place is None:
                return False
        elif self.room.fault(self._job(position)[0], place):
            return False
        self._take(position, place)
        return True

    def start_on(self, position: int, nodes: Sequence[tuple[str, int]]) -> bool:
        """Start a job on named nodes; anywhere if none are named, or if the cluster lacks one of them."""
        numbers = self.nodes.table.numbers
        if not nodes or any(name not in numbers for name, _ in nodes):
            return self.start(position)
        request = self._job(position)[0]
        place = self.room.place_on(request, [(numbers[name], tasks) for name, tasks in nodes], self.nodes.policy)
        if place is None:
            return False
        self._take(position, place)
        return True

    def start_in_order(self, order: IntArray | None = None) -> int | None:
        """Start jobs until one does not fit; return its position."""
        levels = None if order is not None or self.answer else self.nodes.levels
        if levels is None or levels.single is None:
            return start_until_refused(self, order)
        # the number of cores decides, and the cluster chooses the same nodes as this plan would
        free = before = levels.free_for(levels.single)
        for row, cores in self.observation.heads():
            if cores > free:
                self._blocked_cores = cores
                break
            free -= cores
            self.answer.append(row)
        self._num_heads, self._head_cores = len(self.answer), before - free
        return self._num_heads if self._blocked_cores else None

    def start_each(self, positions: IntArray) -> None:
        """Start every job that fits and would not delay the reserved one."""
        while len(positions):
            has_started, positions = self.start(int(positions[0])), positions[1:]
            if has_started and len(positions) > 1 and not self._around:
                positions = self._fitting_beside(self.fitting(positions))

    def reserve(self, position: int, size: int | None = None) -> None:
        """Reserve for a job; when and where is computed once another job may start."""
        _refuse_sizes(size)
        self._reserved, self._chosen = self._job(position), (-1, None)

    def earliest(self, position: int, size: int | None = None) -> float:
        """Return when a job fits as the running jobs and the started ones end."""
        if self.fits(position, size):
            return self.observation.time
        return self._release_until_fits(self.room.copy(), *self._job(position)[::2])

    def ends_in_time(self, position: int, victims: Collection[int] = ()) -> bool:
        """Return whether no node that suits a job has an advance reservation before the job's expected end."""
        # this is stricter than necessary, because a preemption cannot name nodes
        if not self._around:
            return True
        (request, _, length), table, now = self._job(position), self.nodes.table, self.observation.time
        return bool(table.open_to(request, table.closed_between(now, now + length))[request.eligible].all())

    def wait(self, position: int | None = None, *, arrivals: bool = True) -> list[WaitForCores] | None:
        """Return the number of cores to wait for if too few are free; enough cores need not be enough for a job."""
        if position is None:
            least = self.nodes.least_cores()
        else:
            least = self._blocked_cores or self._job(position)[0].request.num_cores
        placed = sum(held.amounts[0] for _, place in self._started.values() for held in place)
        taken = placed or self._head_cores
        return [WaitForCores(least, arrivals)] if least > self.observation.free_cores - taken else None

    def _job(self, position: int) -> tuple[CompiledRequest, float, float]:
        """Return request, expected time and requested time of a job."""
        row, _, length = self.observation.queue.job_at(position)
        longest = self.observation.requested_time_of(row) if self.observation.predicts else length
        if self._numbers is None:
            return self.nodes.compiled_request(row), length, longest
        request = self.nodes.table.requests[int(self._numbers[position])]
        return request, length, longest

    def _look(self, length: float) -> None:
        """Close the nodes with an advance reservation within the given time from now, in seconds."""
        if self._around:
            self.room.closed = self.nodes.table.closed_between(self.observation.time, self.observation.time + length)

    def _has_room(self, request: CompiledRequest, length: float) -> bool:
        """Return whether a request fits for some time from now."""
        self._look(length)
        key = request, self.room.closed
        if key not in self._failed and not self.room.fits(request):
            self._failed.add(key)
        return key not in self._failed

    def _choose(self, position: int) -> Place | None:
        """Return the place of a job that may start, or None if it has none that would not delay the reserved job."""
        if self._chosen[0] != position:
            request, length, longest = self._job(position)
            self._look(longest)
            try:
                place = self._place(request, length)
            except InvalidConfiguration as error:
                job_id = self.observation.id_of(self.observation.queue.job_at(position)[0])
                raise InvalidConfiguration(f"job {job_id}: {error}") from error
            self._chosen = position, place
        return self._chosen[1]

    def _place(self, request: CompiledRequest, length: float) -> Place | None:
        """Return the nodes that the policy chooses for a job, or None if it does not fit."""
        beside = self._reserved is not None and self._delays(length)
        failed = self._too_long if beside else self._failed
        key = (request, self.room.closed) if self._around else request
        if key in failed:
            return None
        if self._total(request, beside=beside) < request.tasks:
            failed.add(key)
            return None
        return (self._room_beside() if beside else self.room).place(request, self.nodes.policy)

    def _total(self, request: CompiledRequest, *, beside: bool = False) -> int:
        """Return how many tasks of a request fit now, beside the reserved job if that would be delayed."""
        key = request.single, self.room.closed, beside
        total = self._totals.get(key)
        if total is None:
            room = self._room_beside() if beside else self.room
            total = self._totals[key] = room.total(request.single)
        return total

    def _room_beside(self) -> Room:
        """Return what is free now and at the shadow time, beside the reserved job."""
        if self._beside is None:
            self._beside = self.room.least_of(self._look_beyond())  # type: ignore[arg-type]  # both of one kind
        self._beside.closed = self.room.closed
        return self._beside

    def _delays(self, length: Any) -> Any:
        """Return whether a job that starts now ends after the shadow time; of an array of lengths, each."""
        if self.shadow is None:
            assert self._reserved is not None
            if isinstance(self.room, NodeLevels) and self.room.single is not None and self.room.single.amounts[0] == 1:
                self._count_until_fits(self._reserved[0].tasks, self.room.total(self.room.single))
            else:
                self._look_beyond()
        return self.observation.time + length > self.shadow

    def _count_until_fits(self, tasks: int, free: int) -> None:
        """Find the shadow time where every free core fits a task."""
        releases = ((end, cores) for end, cores, _ in self.observation.running.releases())
        if self._started:
            started = ((end, sum(held.tasks for held in place)) for end, place in self._started.values())
            releases = merge(releases, sorted(started))
        self.shadow = inf
        for end, cores in releases:
            if end > self.shadow:
                break
            free += cores
            if free >= tasks:
                self.shadow = end
        self._spare = free - tasks if self.shadow < inf else inf

    def _look_beyond(self) -> Room:
        """Return what is free at the shadow time, beside the reserved job."""
        if self._beyond is None:
            assert self._reserved is not None
            self._beyond = self.room.copy()
            self.shadow = self._release_until_fits(self._beyond, *self._reserved[::2])
            if self.shadow < inf:  # otherwise nodes are down and the job may never start
                self._beyond.take(self._beyond.place(self._reserved[0], self.nodes.policy) or ())
        return self._beyond

    def _release_until_fits(self, room: Room, request: CompiledRequest, length: float) -> float:
        """Release the places of running and started jobs until a request fits; return when it does."""
        running, allocation_of = self.observation.running, self.nodes.allocation_of
        releases: list[tuple[float, Place]] = [(end, allocation_of(row)) for end, _, row in running.releases()]
        more = [*self._started.values(), *((reservation.end, ()) for reservation in self.observation.reservations)]
        if more:
            releases = sorted([*releases, *more], key=itemgetter(0))
        return room.release_until_fits(request, releases, length)

    def _take(self, position: int, place: Place) -> None:
        """Take the place of a job that starts, and note the action."""
        row, _, length = self.observation.queue.job_at(position)
        self.room.take(place)
        if self._beyond is not None and self._delays(length):  # else the room beyond follows from the one now
            self._beyond.take(place)
            if self._beside is not None:
                self._beside.take(place)
        else:
            self._beside = None
        self._started[position] = self.observation.time + length, place
        self._fitting, self._chosen = None, (-1, None)
        self._totals.clear()
        self.answer.append(StartOnNodes(row, place))


def _refuse_sizes(size: int | None) -> None:
    if size is not None:
        raise InvalidConfiguration(f"size: got {size!r}, expected None, because plans on nodes know no sizes")
