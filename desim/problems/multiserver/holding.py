"""Multi-server jobs that hold their resources until their work is done.

Beyond arXiv 2305.06572, whose jobs last one slot: here a job waits at its port until it is given resources, keeps
them, and works at the speed that equation (7) gives for them. Completion times and utilization are then outcomes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf, isfinite
from typing import Any, ClassVar

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim.core import Phase, at
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.base import Process
from desim.problems.multiserver._checks import check_whole_number
from desim.problems.multiserver.cluster import MultiServerCluster
from desim.problems.multiserver.entities import Job
from desim.problems.multiserver.gang import Gang
from desim.problems.multiserver.outcomes import Service, SlotOutcome
from desim.problems.multiserver.rewards import RewardModel
from desim.problems.multiserver.tables import COMPLETED, RUNNING, JobRows, SlotRow

__all__ = ["HoldingCluster"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Work = Callable[[np.random.Generator, int], float]


class HoldingCluster(MultiServerCluster):
    """A cluster whose jobs wait at their ports, and hold what they are given until their work is done.

    Once a slot the agent sees the ports at which jobs wait and what is free. A job starts, the first in the queue of
    its type first, if the answer gives it a speed (gain less overhead, equation 7) above ``minimum_speed`` at which it
    will not take too long. It ends after work / speed slots, between slots if need be; what other jobs are given goes
    back. What a completion frees can be given away from the next slot on.

    Events for listeners: those of :class:`MultiServerCluster`, and ``start`` and ``completion`` (a :class:`Service`).

    Parameters
    ----------
    rewards : RewardModel
        What allocations earn, on the graph whose ports are the types of jobs.
    arrivals : array_like of shape (num_slots, num_ports), or iterable of such rows
        How many jobs of each type arrive for each slot.
    work : array_like, or callable
        Work of a job in units of reward times slots, above 0: one number, one for each port, or a function that
        is called with a random generator and the index of the port.
    jobs_per_port : int
        The most jobs of a type that can start in one slot; others wait.
    minimum_speed : float
        Jobs do not start at this speed or a lower one; at least 0.
    longest_service : float
        Jobs do not start if they would then take longer than this many slots, above 0: what is left of a full
        cluster may be so little that a job would hold it all but forever.
    give_up_after : int
        End the run when all has arrived and then for so many slots jobs have waited while none ran or started.
    gang : Gang, optional
        Components of the types of jobs.
    record_allocations : int
        Record what jobs get if they start in every so many slots; 0 for none.
    processes : iterable of callables
        Extra SimPy processes, which are called with the bound cluster and may ``submit`` jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or does not fit the graph.
    """

    events: ClassVar[tuple[str, ...]] = ("arrival", "slot", "start", "completion")

    def __init__(
        self,
        rewards: RewardModel,
        arrivals: ArrayLike | Iterable[ArrayLike],
        work: ArrayLike | Work,
        *,
        jobs_per_port: int = 1,
        minimum_speed: float = 0.0,
        longest_service: float = 10_000.0,
        give_up_after: int = 1_000,
        gang: Gang | None = None,
        record_allocations: int = 1,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(
            rewards,
            arrivals,
            jobs_per_port=jobs_per_port,
            gang=gang,
            record_allocations=record_allocations,
            processes=processes,
        )
        if not 0 <= minimum_speed < inf:
            raise InvalidConfiguration(f"minimum_speed is {minimum_speed!r}, want a number of at least 0")
        if not longest_service > 0:
            raise InvalidConfiguration(f"longest_service is {longest_service!r}, want a number of slots above 0")
        check_whole_number("give_up_after", give_up_after, 1)
        self.minimum_speed = float(minimum_speed)
        self.longest_service = float(longest_service)
        self.give_up_after = give_up_after
        self.work = work if callable(work) else _fixed_work(work, rewards.graph.num_ports)

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without graph, arrivals and work, as plain values."""
        limits = {
            "minimum_speed": self.minimum_speed,
            "longest_service": self.longest_service,
            "give_up_after": self.give_up_after,
        }
        return super().describe() | {"holding": True} | limits

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster and start the arrivals and the slot clock."""
        super().begin()
        graph = self.layout.graph
        self._queues: list[deque[Job]] = [deque() for _ in range(self.layout.types.num_ports)]
        self._services: dict[int, Service] = {}
        self._free: Floats = graph.capacity.copy()
        self._work_stream = self.simulation.stream("work")
        ends = np.searchsorted(self.layout.seat_of[graph.channel_port], np.arange(len(self.layout.type_of) + 1))
        self._channels_of_seat = [slice(first, last) for first, last in pairwise(ends.tolist())]
        self._idle_slots = self._arrived_since = 0

    def _admit(self, counts: Indices, time: float) -> None:
        """Let jobs join the queues of their types."""
        for port in np.repeat(np.arange(len(counts)), counts).tolist():
            work = self.work(self._work_stream, port)
            if not 0 < work < inf:
                name = self.rewards.graph.ports[port]
                raise WorkloadError(f"job {self._next_job} at {name} has work {work!r}, want a number above 0")
            self._queues[port].append(Job(self._next_job, port, time, float(work)))
            self._next_job += 1
            self._arrived_since += 1

    def _goes_on(self, slot: int) -> bool:
        if self._more_to_come(slot) or self._services:
            return True
        return any(self._queues) and self._idle_slots < self.give_up_after

    def _observe(self, slot: int) -> None:
        self._counts = np.array([len(queue) for queue in self._queues], dtype=np.int64)
        super()._observe(slot)
        self.observation.capacity = np.maximum(self._free, 0.0)  # rounding may leave less than nothing

    def _serve(self, slot: int, action: Any) -> None:
        """Start the jobs that are given enough."""
        observation = self.observation
        allocation = self._feasibility.check(action, observation.arrived, observation.capacity, self.env.now)
        earnings = self.layout.rewards.evaluate(allocation, observation.arrived)
        speeds = earnings.gain - earnings.overhead
        if not isfinite(float(speeds.sum())):
            raise self._feasibility.not_a_number(earnings, self.env.now)
        started: dict[int, int] = {}
        for seat in np.flatnonzero(self._seats & (speeds > self.minimum_speed)).tolist():
            port, place = divmod(seat, self.layout.copies)
            place -= started.get(port, 0)
            job = self._queues[port][place]
            duration = job.work / float(speeds[seat])  # type: ignore[operator]
            if duration > self.longest_service:
                continue
            del self._queues[port][place]
            started[port] = started.get(port, 0) + 1
            channels = self._channels_of_seat[seat]
            self._start(
                Service(
                    job,
                    self.env.now,
                    self.env.now + duration,
                    channels,
                    allocation[channels].copy(),
                    float(earnings.gain[seat]),
                    float(earnings.overhead[seat]),
                    int(earnings.dominant[seat]),
                    earnings.held[seat],
                ),
                slot,
            )
        idle = any(self._queues) and not self._services and not self._more_to_come(slot + 1)
        self._idle_slots = self._idle_slots + 1 if idle else 0
        self._record_slot(slot, allocation, len(started))
        if self.listening:
            outcome = SlotOutcome(slot, observation.arrived, allocation, earnings.gain, earnings.overhead)
            self.emit("slot", outcome)

    def _start(self, service: Service, slot: int) -> None:
        graph, job = self.layout.graph, service.job
        nodes = graph.channel_node[service.channels]
        np.subtract.at(self._free, nodes, service.amounts)
        self._services[job.job_id] = service
        at(self.env, service.finish_time, Phase.COMPLETION, service).callbacks.append(self._complete)
        if self.record_allocations and slot % self.record_allocations == 0:
            flat = service.amounts.ravel()
            entries = np.flatnonzero(flat)
            ids = np.full(len(entries), job.job_id)
            first = service.channels.start * graph.num_resources
            self._record["allocations"]((slot, ids, first + entries, flat[entries]))
        if self.listening:
            self.emit("start", service)

    def _complete(self, event: simpy.Event) -> None:
        service: Service = event._value
        del self._services[service.job.job_id]
        np.add.at(self._free, self.layout.graph.channel_node[service.channels], service.amounts)
        if not self._services:
            self._free[:] = self.layout.graph.capacity  # so that rounding does not add up
        self._record_job(service, service.finish_time, COMPLETED)
        if self.listening:
            self.emit("completion", service)

    def _record_job(self, service: Service, finish: float, status: int) -> None:
        job = service.job
        self._record["jobs"](
            JobRows(
                np.array([job.job_id]),
                np.array([job.port]),
                job.submission_time,
                service.starting_time,
                finish,
                job.work,
                service.gain,
                service.overhead,
                np.array([service.dominant]),
                status,
            )
        )

    def _record_slot(self, slot: int, allocation: Floats, started: int) -> None:
        """Record what runs once the slot has begun; ``reserved`` counts what was given in vain, too."""
        services = self._services.values()
        held = np.sum([service.held for service in services], axis=0) if services else np.zeros(len(self._free[0]))
        new = np.sum([s.held for s in services if s.starting_time == self.env.now], axis=0) if started else 0.0
        self._record["slots"](
            SlotRow(
                slot,
                self._arrived_since,
                sum(map(len, self._queues)),
                len(services),
                sum(service.gain for service in services),
                sum(service.overhead for service in services),
                held,
                held - new + allocation.sum(axis=0),
            )
        )
        self._arrived_since = 0

    def close(self, time: float) -> None:
        """Record the jobs that run or wait when the run ends."""
        for service in self._services.values():
            self._record_job(service, np.nan, RUNNING)
        waiting = [job for queue in self._queues for job in queue]
        if waiting:
            ids, ports, times, work = (np.array(column) for column in zip(*waiting, strict=True))
            self._record_waiting(ids, ports, times, work)


def _fixed_work(work: ArrayLike, num_ports: int) -> Work:
    """Return the function that gives every job of a port the same work."""
    try:
        amounts = np.broadcast_to(np.asarray(work, dtype=np.float64), (num_ports,))
    except ValueError as error:
        raise InvalidConfiguration(f"work is {work!r}, want one number or one for each of {num_ports} ports") from error
    if not ((amounts > 0) & (amounts < inf)).all():
        raise InvalidConfiguration(f"work is {work!r}, want numbers above 0")
    return lambda rng, port: float(amounts[port])
