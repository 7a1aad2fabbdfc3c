"""Plans on counted cores, on particular cores, and around advance reservations of cores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import merge
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.cores import lowest_cores
from desim.problems.batch.job import Start, StartWithSize, WaitForCores
from desim.problems.batch.resources.profile import AvailabilityProfile, Reservation

if TYPE_CHECKING:
    from desim.problems.batch.observation import BatchObservation

__all__ = ["CoreSetPlan", "CountPlan", "ReservationPlan", "start_until_refused"]

IntArray = NDArray[np.int64]

FEW = 16
"""Up to this number, checking jobs one by one is faster than array operations."""


def start_until_refused(self: Any, order: IntArray | None = None) -> int | None:
    """Start jobs one by one until one does not fit; return its position: a method of plans.

    Parameters
    ----------
    self : Plan
        Plan.
    order : array of int, optional
        Positions, first to last (default: the whole queue in order of arrival).

    Returns
    -------
    int or None
        Position of the job that does not fit; None if all start.
    """
    positions = range(len(self.observation.queue)) if order is None else order.tolist()
    return next((position for position in positions if not self.start(position)), None)


class CountPlan:
    """Plan that counts cores; see :class:`~desim.problems.batch.Plan`.

    A job that ends by the shadow time, the start of the reserved job, may use all free cores. A job that ends later may
    use the spare ones, which the reserved job leaves over.

    Parameters
    ----------
    observation : BatchObservation
        Observation of the decision.
    """

    shadow = inf
    spare: float = inf
    _head: tuple[IntArray | list[int] | None, int] | None = None  # order of the jobs started at once, and how many
    _blocked_cores = 0

    def __init__(self, observation: BatchObservation) -> None:
        self.observation = observation
        state = observation._state  # for each decision; properties take longer
        self.now: float = state.env._now
        self.free = state.resources.num_free
        self.answer: list[Any] = []
        self._starts: list[tuple[float, int, int]] = []  # expected end, cores and position of each started job

    def fitting(self, among: IntArray | None = None) -> IntArray:
        """Return the positions of the jobs that could start now."""
        queue = self.observation.queue
        cores = queue.requested_cores
        if among is None:
            among = (cores <= self.free).nonzero()[0]
        elif self.shadow == inf or len(among) > FEW:
            of_these = cores[among]
            fits = of_these <= self.free
            if self.shadow < inf:
                fits &= (self.now + queue.expected_time[among] <= self.shadow) | (of_these <= self.spare)
            among = among[fits]
        if self.answer:
            self._note_head()
            left = np.ones(len(cores), np.bool_)
            left[[position for _, _, position in self._starts]] = False
            among = among[left[among]]
        return among

    def fits(self, position: int, size: int | None = None) -> bool:
        """Return whether a job fits and would not delay the reserved one."""
        _, width, length = self._job(position, size)
        return self._allows(width, self.now + length)

    def is_full(self) -> bool:
        """Return whether no core is free."""
        return not self.free

    def start(self, position: int, size: int | None = None, place: Any = None) -> bool:
        """Start a job if it fits and would not delay the reserved one; return whether it starts."""
        row, width, length = self._job(position, size)
        end = self.now + length
        if not self._allows(width, end):
            return False
        self._take(position, row if size is None else StartWithSize(row, size), width, end)
        return True

    def start_on(self, position: int, nodes: Sequence[tuple[str, int]]) -> bool:
        """Start a job if it fits, because the cluster has no named nodes; return whether it starts."""
        return self.start(position)

    def start_in_order(self, order: IntArray | None = None) -> int | None:
        """Start jobs until one does not fit; return its position."""
        if order is None:
            free, answer = self.free, self.answer
            for row, width in self.observation.heads():
                if width > free:
                    self._blocked_cores = width
                    break
                free -= width
                answer.append(row)
            self.free, self._head = free, (None, len(answer))
            return len(answer) if self._blocked_cores else None
        queue = self.observation.queue
        needed = queue.requested_cores[order[: self.free]].cumsum()
        count = int(needed.searchsorted(self.free, "right"))
        if count:
            self.answer += queue.row[order[:count]].tolist()
            self.free -= int(needed[count - 1])
            self._head = order, count
        return int(order[count]) if count < len(order) else None

    def start_each(self, positions: IntArray) -> None:
        """Start every job that fits and would not delay the reserved one."""
        queue, free, spare, shadow = self.observation.queue, self.free, self.spare, self.shadow
        rows, widths = queue.row[positions].tolist(), queue.requested_cores[positions].tolist()
        ends = (self.now + queue.expected_time[positions]).tolist()
        for position, row, width, end in zip(positions.tolist(), rows, widths, ends, strict=True):
            if width <= free and (width <= spare or end <= shadow):  # _allows() and _take() without calls
                free -= width
                if end > shadow:
                    spare -= width
                self._starts.append((end, width, position))
                self.answer.append(row)
                if not free:
                    break
        self.free, self.spare = free, spare

    def _start_one_by_one(self, positions: IntArray) -> None:
        queue = self.observation.queue
        widths = queue.requested_cores[positions].tolist()
        ends = (self.now + queue.expected_time[positions]).tolist()
        for position, width, end in zip(positions.tolist(), widths, ends, strict=True):
            if self._allows(width, end):
                self._take(position, queue.job_at(position)[0], width, end)
                if not self.free:
                    break

    def reserve(self, position: int, size: int | None = None) -> None:
        """Reserve for a job at the shadow time."""
        # this needs no profile, because the number of free cores only grows as the running jobs end
        width, available, shadow = self._job(position, size)[1], self.free, inf
        for end, released, _ in self._releases():
            if end > shadow:  # count the cores of all jobs that end at the shadow time
                break
            available += released
            if available >= width:
                shadow = end
        if shadow < inf:  # otherwise cores are down for an unknown time: no job can delay this one further
            self.shadow, self.spare = shadow, available - width

    def earliest(self, position: int, size: int | None = None) -> float:
        """Return when enough cores are free as the running jobs and the started ones end."""
        width, available = self._job(position, size)[1], self.free
        if width <= available:
            return self.now
        for end, released, _ in self._releases():
            available += released
            if width <= available:
                return float(max(end, self.now))
        return inf

    def ends_in_time(self, position: int, victims: Collection[int] = ()) -> bool:
        """Return True, because there are no advance reservations."""
        return True

    def wait(self, position: int | None = None, *, arrivals: bool = True) -> list[WaitForCores] | None:
        """Return the number of cores to wait for, if none of the jobs fits."""
        if position is None:
            cores = self.observation.queue.requested_cores
            least = int(cores.min()) if len(cores) else 0
        else:
            least = self._blocked_cores or self.observation.queue.job_at(position)[1]
        return [WaitForCores(least, arrivals)] if least > self.free else None

    def _job(self, position: int, size: int | None = None) -> tuple[int, int, float]:
        """Return row, cores and expected time of a job in one of its sizes."""
        job = self.observation.queue.job_at(position)
        return job if size is None else (job[0], *self.observation.sizes_of(job[0])[size])

    def _allows(self, width: int, end: float) -> bool:
        """Return whether a job that requests some cores until a given time may start."""
        return width <= self.free and (width <= self.spare or end <= self.shadow)

    def _take(self, position: int, action: Any, width: int, end: float) -> None:
        """Take the cores of a job that may start, and note the action."""
        self.free -= width
        if end > self.shadow:
            self.spare -= width
        self._starts.append((end, width, position))
        self.answer.append(action)

    def _note_head(self) -> None:
        """Note the positions and expected ends of the jobs that were started at once, which few callers need."""
        if self._head is None:
            return
        (order, count), self._head = self._head, None
        positions = np.arange(count) if order is None else np.asarray(order[:count], np.int64)
        queue = self.observation.queue
        ends, cores = self.now + queue.expected_time[positions], queue.requested_cores[positions]
        self._starts += zip(ends.tolist(), cores.tolist(), positions.tolist(), strict=True)

    def _releases(self) -> Iterator[tuple[float, int, int]]:
        """Yield the expected end of each running or started job and the cores that it releases, by end."""
        self._note_head()
        releases = self.observation.running.releases()
        return merge(releases, sorted(self._starts)) if self._starts else releases


class CoreSetPlan(CountPlan):
    """Plan on particular cores, as in Batsim's reference schedulers: the reserved job gets the lowest free ones."""

    start_each = CountPlan._start_one_by_one
    start_in_order = start_until_refused

    def __init__(self, observation: BatchObservation) -> None:
        super().__init__(observation)
        self.free_set = observation.free_core_set
        self.reserved = 0

    def start(self, position: int, size: int | None = None, place: Any = None) -> bool:
        """Start a job, on given cores if any; return whether it starts."""
        row, width, length = self._job(position, size)
        end = self.now + length
        if place & ~self.free_set if place else not self._allows(width, end):
            return False
        self._take(position, row, width, end, place)
        return True

    def reserve(self, position: int, size: int | None = None) -> None:
        """Reserve the lowest cores that are free at the shadow time."""
        width, available, shadow = self._job(position, size)[1], self.free_set, inf
        seen = self.observation
        releases = ((end, seen.core_set_of(row)) for end, _, row in seen.running.releases())
        if self.answer:
            ends = ((end, start.cores) for (end, _, _), start in zip(self._starts, self.answer, strict=True))
            releases = merge(releases, sorted(ends))
        for end, released in releases:
            if end > shadow:
                break
            available |= released
            if available.bit_count() >= width:
                shadow = end
        if shadow < inf:
            self.shadow, self.reserved = shadow, lowest_cores(available, width)
            self.spare = (self.free_set & ~self.reserved).bit_count()

    def _take(self, position: int, action: Any, width: int, end: float, cores: int | None = None) -> None:
        """Take given cores, or else the lowest ones that a job may use."""
        if cores is None:
            cores = lowest_cores(self.free_set if end <= self.shadow else self.free_set & ~self.reserved, width)
        self.free -= width
        self.free_set &= ~cores
        if self.shadow < inf:
            self.spare = (self.free_set & ~self.reserved).bit_count()
        self._starts.append((end, width, position))
        self.answer.append(Start(action, cores))


class ReservationPlan(CountPlan):
    """Plan that counts cores around advance reservations.

    A job starts only if, by its requested time, it uses no cores of an advance reservation. All decisions use a profile
    of free cores that contains the running jobs and the advance reservations. With predicted run times, a second one
    contains what is certain: in it, all jobs run for their requested times.

    Parameters
    ----------
    observation : BatchObservation
        Observation of the decision.
    """

    start_in_order = start_until_refused

    def __init__(self, observation: BatchObservation) -> None:
        super().__init__(observation)
        self.profile = AvailabilityProfile.of_running(observation)
        self._certain = AvailabilityProfile.of_latest(observation) if observation.predicts else None

    def start_each(self, positions: IntArray) -> None:
        """Start every job that fits and would not delay the reserved one."""
        if self._certain is None:
            self._start_one_by_one(positions)
        else:
            for position in positions.tolist():
                self.start(position)

    def fits(self, position: int, size: int | None = None) -> bool:
        """Return whether a job fits, would not delay the reserved one, and ends in time by its request."""
        return self._is_certain(position, size) and super().fits(position, size)

    def start(self, position: int, size: int | None = None, place: Any = None) -> bool:
        """Start a job if it fits, would not delay the reserved one, and ends in time; return whether it starts."""
        if not (self._is_certain(position, size) and super().start(position, size, place)):
            return False
        if self._certain is not None:
            width = self._job(position, size)[1]
            self._certain.take(Reservation(self.now, self.now + self._requested(position, size), width, 0))
        return True

    def _requested(self, position: int, size: int | None = None) -> float:
        """Return the requested time of a job in one of its sizes."""
        return self.observation.requested_time_of(self.observation.queue.job_at(position)[0], size)

    def _is_certain(self, position: int, size: int | None) -> bool:
        """Return whether a job uses no cores of an advance reservation even if all jobs run as long as they may."""
        if self._certain is None:
            return True
        width = self._job(position, size)[1]
        return self._certain.has_until(self.now + self._requested(position, size), width)

    def fitting(self, among: IntArray | None = None) -> IntArray:
        """Return the positions of the jobs that could start now."""
        among = super().fitting(among)
        queue, profile = self.observation.queue, self.profile
        ends = self.now + queue.expected_time[among]
        points = np.maximum(np.searchsorted(profile.times, ends), 1) - 1
        fits: NDArray[np.bool_] = queue.requested_cores[among] <= np.minimum.accumulate(profile.free)[points]
        return among[fits]

    def reserve(self, position: int, size: int | None = None) -> None:
        """Take the earliest slot of a job in the profile, unless cores are down for an unknown time."""
        _, width, length = self._job(position, size)
        if (slot := self.profile.fit(width, length, self._requested(position, size))) is not None:
            self.profile.take(slot)

    def earliest(self, position: int, size: int | None = None) -> float:
        """Return the start of the earliest slot of a job in the profile."""
        _, width, length = self._job(position, size)
        slot = self.profile.fit(width, length, self._requested(position, size))
        return inf if slot is None else slot.start

    def ends_in_time(self, position: int, victims: Collection[int] = ()) -> bool:
        """Return whether a job ends before advance reservations need its cores, those of its victims included."""
        width, length = self._job(position)[1], self._requested(position)
        profile = AvailabilityProfile.of_latest(self.observation)
        for end, released, row in self.observation.latest_ends():
            if row in victims:
                profile.give(Reservation(self.now, end, released, 0))
        borrowed = max(width - profile.free[0], 0)  # borrowed from jobs that are suspended already
        return profile.has_until(self.now + length, width - borrowed)

    def wait(self, position: int | None = None, *, arrivals: bool = True) -> list[WaitForCores] | None:
        """Return None, because a job may start as time passes although no core becomes free."""
        return None

    def _allows(self, width: int, end: float) -> bool:
        return width <= self.free and self.profile.has_until(end, width)

    def _take(self, position: int, action: Any, width: int, end: float) -> None:
        super()._take(position, action, width, end)
        self.profile.take(Reservation(self.now, end, width, 0))
