"""Multi-server jobs on a bipartite graph, slot by slot: jobs of one slot, and jobs that hold resources for longer.

Model: Zhao et al., "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning", arXiv 2305.06572,
section 2, with its extensions to several jobs per port (3.4) and gangs (3.5). Jobs that last longer than a slot are not
part of that paper.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf, isfinite
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float, check_int
from desim.core import Phase, at
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problem import Process
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.job import Job, RunningJob, SlotOutcome
from desim.problems.multiserver.observation import Feasibility, MultiServerObservation
from desim.problems.multiserver.rewards import Gang, GangRewards, Layout, RewardModel, RewardTerms
from desim.problems.multiserver.tables import STATUSES
from desim.problems.slotted import SlottedProblem
from desim.processes.arrivals import Numbered
from desim.tables import Table

__all__ = ["MultiServerCluster", "MultiSlotCluster"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Work = Callable[[np.random.Generator, int], float]

COMPLETED, UNSERVED, RUNNING, QUEUED = range(len(STATUSES))


class MultiServerCluster(SlottedProblem):
    """Cluster whose resources are allocated anew in every slot; a job lasts one slot.

    Once per slot, after all arrivals up to its beginning, the agent chooses an allocation, see :class:`BipartiteGraph`,
    or None to allocate nothing. Resources allocated to ports without a job are reserved and yield no reward. Rewards
    follow :class:`RewardModel`.

    Events for listeners: ``arrival`` (the subject is the index of the port) and ``slot`` (a :class:`SlotOutcome`).

    Parameters
    ----------
    rewards : RewardModel
        Rewards of allocations, on the graph whose ports are the job types.
    arrivals : array_like of shape (num_slots, num_ports), or iterable of such rows
        Number of jobs of each type that arrive for each slot. An iterator is consumed lazily, one slot ahead of the
        clock. The run ends with the last row.
    jobs_per_port : int
        Largest number of jobs of a type that arrive for one slot, J_l of section 3.4. If it is above 1, the graph that
        agents see has this number of copies of each port.
    gang : Gang, optional
        Components of the job types, section 3.5. The ports of the graph that agents see are then components.
    record_allocations : int
        Interval, in slots, at which allocations are recorded; 0 for never.
    enforce_limits : bool
        Whether to refuse allocations that violate the constraints: amounts from 0 to the request (5), and sums per node
        up to the capacity (6). If False, allocations are carried out as given, with the reward of equation (7), for
        algorithms that do not keep the constraints, such as :class:`~desim.agents.multiserver.OGASched`. Validation of
        the records then reports each violation.
    processes : iterable of callables
        Extra SimPy processes, which are called with the bound cluster and may :meth:`submit` jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or does not match the graph.
    """

    name: ClassVar[str] = "multiserver"
    events: ClassVar[tuple[str, ...]] = ("arrival", "slot")
    sources: ClassVar[tuple[str, ...]] = ("arrivals",)
    constants: tuple[type, ...] = (BipartiteGraph, RewardModel, Gang, GangRewards, Layout)

    def __init__(
        self,
        rewards: RewardModel,
        arrivals: ArrayLike | Iterable[ArrayLike],
        *,
        jobs_per_port: int = 1,
        gang: Gang | None = None,
        record_allocations: int = 1,
        enforce_limits: bool = True,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        self.rewards = rewards
        self.arrivals = arrivals
        self.jobs_per_port = check_int("jobs_per_port", jobs_per_port, least=1)
        self.record_allocations = check_int("record_allocations", record_allocations, least=0)
        if gang is not None and not enforce_limits:
            raise InvalidConfiguration("enforce_limits: got False with a gang, expected True")
        self.enforce_limits = enforce_limits
        self.layout = Layout(rewards, self.jobs_per_port, gang)

    def describe(self) -> dict[str, Any]:
        """Return the configuration without graph and arrivals, as plain Python values."""
        graph, gang = self.rewards.graph, self.layout.gang
        return {
            "problem": self.name,
            "holding": False,
            "num_ports": graph.num_ports,
            "num_nodes": graph.num_nodes,
            "num_channels": graph.num_channels,
            "resources": list(graph.resources),
            "overhead": self.rewards.overhead.tolist(),
            "total_capacity": graph.capacity.sum(axis=0).tolist(),
            "jobs_per_port": self.jobs_per_port,
            "gang": None if gang is None else {"minimum": gang.minimum.tolist(), "whole": gang.whole},
            "record_allocations": self.record_allocations,
        } | ({} if self.enforce_limits else {"enforce_limits": False})

    def features(self) -> dict[str, str]:
        """Return the features that not every agent takes into account, by name, with what other agents do."""
        return {} if self.layout.gang is None else {"gangs": "allocates each component alone"}

    def tables(self) -> dict[str, Table]:
        """Return the tables, with the names of the graph's ports, nodes and resources."""
        graph = self.rewards.graph
        names = {"port": graph.ports, "node": graph.nodes}
        names |= dict.fromkeys(("resource", "dominant_resource"), graph.resources)
        tables = super().tables()
        return tables | {name: tables[name].naming(names) for name in ("jobs", "allocations")}

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the cluster and start the arrivals and the slot clock."""
        graph = self.layout.graph
        self.observation: MultiServerObservation = MultiServerObservation(graph, self.layout.rewards)
        self._feasibility = Feasibility(graph, enforced=self.enforce_limits)
        self._record = {name: table.append for name, table in self.simulation.records.tables.items()}
        self._record_graph()
        self._counts: Indices = np.zeros(self.rewards.graph.num_ports, dtype=np.int64)
        self._early: dict[int, list[float]] = {}
        self._next_job = 0
        self._rows = 0
        self.start(Numbered(self.arrivals), itemgetter(0), self._take)  # type: ignore[arg-type]

    def _record_graph(self) -> None:
        rewards, graph = self.rewards, self.rewards.graph
        self._record["ports"](("port", graph.ports, {"request": graph.requests}))
        tables = {"capacity": graph.capacity, "utility": rewards.utilities, "weight": rewards.weights}
        self._record["nodes"](("node", graph.nodes, tables))
        for port, node in zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True):
            self._record["channels"]((graph.ports[port], graph.nodes[node]))

    def close(self, time: float) -> None:
        """Record the jobs whose slot has not begun when the run ends."""
        job_positions = np.flatnonzero(self.layout.job_positions(self._counts))
        times = self._submission_times(job_positions, self._rows - 1)
        self._record_waiting(
            self._next_job + np.arange(len(job_positions)), self.layout.type_of[job_positions], times, np.nan
        )

    def _record_waiting(self, ids: Any, ports: Any, times: Any, work: Any) -> None:
        if len(ids):
            nothing = np.zeros(len(ids), dtype=np.int64)
            self._record["jobs"]((ids, ports, times, np.nan, np.nan, work, 0.0, 0.0, nothing, QUEUED))

    def is_empty(self) -> bool:
        """Return whether no job has arrived for the next slot and no rows of arrivals, even of 0 jobs, are left."""
        return self.next_slot >= self._rows and not self._counts.any()

    def progress(self) -> object:
        """Return the number of jobs so far, and whether the system is empty; rows without jobs are no progress."""
        return self._next_job, self.is_empty()

    def _take(self, item: tuple[int, ArrayLike]) -> None:
        """Add the jobs that the workload has for a slot."""
        slot, row = item
        try:
            given = np.asarray(row)
        except ValueError:  # nested rows of unequal lengths
            given = np.zeros(())
        if given.shape != self._counts.shape or given.dtype.kind not in "bui":
            raise WorkloadError(
                f"slot {slot}: arrivals: got {row!r}, expected {self._counts.shape[0]} integers, one per port"
            )
        self._rows = slot + 1
        counts = given.astype(np.int64)
        if counts.min() < 0:
            port = int(counts.argmin())
            raise WorkloadError(
                f"slot {slot}: arrivals: got {counts[port]} at {self.rewards.graph.ports[port]}, expected at least 0"
            )
        self._admit(counts, slot)
        if self.listening and self.listeners["arrival"]:
            for port in np.repeat(np.arange(len(counts)), counts).tolist():
                self.emit("arrival", port)

    def submit(self, port: int | str) -> None:
        """Submit a job now; it is served in the next slot to begin, which may begin at this instant.

        Parameters
        ----------
        port : int or str
            Index or name of the job type.

        Raises
        ------
        WorkloadError
            If there is no such port, or it already has the largest number of jobs for the slot.
        """
        names = self.rewards.graph.ports
        index = names.index(port) if isinstance(port, str) and port in names else port
        if not isinstance(index, int | np.integer) or not 0 <= index < len(names):
            raise WorkloadError(
                f"time {self.env.now}: port: got {port!r}, expected a port name or an index below {len(names)}"
            )
        counts = np.zeros_like(self._counts)
        counts[index] = 1
        self._admit(counts, self.env.now)
        self._early.setdefault(int(index), []).append(self.env.now)
        if self.listening:
            self.emit("arrival", int(index))

    def _admit(self, counts: Indices, time: float) -> None:
        """Add jobs to those of the next slot."""
        together = self._counts + counts
        if together.max() > self.jobs_per_port:
            port = int(together.argmax())
            raise WorkloadError(
                f"time {time}: got {together[port]} jobs for one slot at {self.rewards.graph.ports[port]}, expected at "
                f"most jobs_per_port, {self.jobs_per_port}"
            )
        self._counts = together

    def observe(self, slot: int) -> None:
        """Update the observation with the jobs of a slot."""
        self._job_positions = self.layout.job_positions(self._counts)
        self.observation.begin_slot(slot, self.layout.ports(self._job_positions))

    def serve(self, slot: int, action: Any) -> None:
        """Carry out the allocation of a slot."""
        arrived = self.observation.arrived
        allocation = self._feasibility.check(action, self.observation)
        with np.errstate(invalid="warn" if self.enforce_limits else "ignore"):  # utilities may be undefined below 0
            earnings = self.layout.rewards.evaluate(allocation, arrived)
        gain, overhead = float(earnings.gain.sum()), float(earnings.overhead.sum())
        if not isfinite(gain - overhead):
            raise self._not_a_number(earnings)
        self._run_jobs(slot, allocation, earnings, (gain, overhead))
        if self.listening:
            self.emit("slot", SlotOutcome(slot, arrived, allocation, earnings.gain, earnings.overhead))

    def _run_jobs(self, slot: int, allocation: Floats, earnings: RewardTerms, totals: tuple[float, float]) -> None:
        """Run the jobs of the slot; they end with it."""
        job_positions = np.flatnonzero(self._job_positions)
        held = earnings.held[job_positions]
        served = held.any(axis=1)
        ids = self._next_job + np.arange(len(job_positions))
        self._next_job += len(job_positions)
        types, times = self.layout.type_of[job_positions], self._submission_times(job_positions, slot)
        starts, ends = np.where(served, float(slot), np.nan), np.where(served, slot + 1.0, np.nan)
        earned = earnings.gain[job_positions], earnings.overhead[job_positions], earnings.dominant[job_positions]
        self._record["jobs"](
            (
                ids,
                types,
                times,
                starts,
                ends,
                np.nan,
                *earned,
                np.where(served, COMPLETED, UNSERVED),
            )
        )
        amounts = *held.sum(axis=0).tolist(), *allocation.sum(axis=0).tolist()
        self._record["slots"]((slot, len(job_positions), 0, int(served.sum()), *totals, *amounts))
        if self.record_allocations and slot % self.record_allocations == 0:
            self._record_allocation(slot, allocation, job_positions, ids)
        self._counts = np.zeros_like(self._counts)
        self._early.clear()

    def _submission_times(self, job_positions: Indices, slot: int) -> Floats | float:
        """Return the arrival times of jobs by position; jobs submitted by processes come first at each port."""
        if not self._early:
            return float(slot)
        times = np.full(len(self.layout.type_of), float(slot))
        for port, early in self._early.items():
            first = port * self.jobs_per_port
            times[first : first + len(early)] = early
        return times[job_positions]

    def _record_allocation(self, slot: int, allocation: Floats, job_positions: Indices, ids: Indices) -> None:
        """Record the amounts that the slot's jobs get."""
        channels = np.flatnonzero(self.observation.channel_arrived)
        job_of_job_position = np.empty(len(self.layout.type_of), dtype=np.int64)
        job_of_job_position[job_positions] = ids
        jobs = job_of_job_position[self.layout.seat_of_channel[channels]]
        self._record_amounts(slot, jobs, channels, allocation[channels])

    def _record_amounts(self, slot: int, jobs: Indices, channels: Indices, amounts: Floats) -> None:
        """Record rows of an allocation and their jobs; zeros are removed per chunk of rows, which is faster."""
        self._record["allocations"]((slot, jobs, channels, amounts, self.layout), amounts.size)

    def _not_a_number(self, earnings: RewardTerms) -> InvalidConfiguration:
        """Return the error for a reward that is not a finite number."""
        reward = earnings.gain - earnings.overhead
        job_position = int(np.flatnonzero(~np.isfinite(reward))[0])
        port = self.rewards.graph.ports[self.layout.type_of[job_position]]
        return InvalidConfiguration(
            f"time {self.env.now}: reward of the job at {port}: got {float(reward[job_position])!r}, expected a finite "
            f"number; its gain is {float(earnings.gain[job_position])!r}, its overhead "
            f"{float(earnings.overhead[job_position])!r}; check the "
            "utilities" + ("" if self.enforce_limits else ", which may be undefined for amounts below 0")
        )


class _BegunSlot(NamedTuple):
    """Slot that has begun but is not recorded yet: arrivals, waiting jobs, running jobs, and reserved amounts."""

    slot: int
    arrived: int
    waiting: int
    services: tuple[RunningJob, ...]
    reserved: list[float]


class MultiSlotCluster(MultiServerCluster):
    """Cluster whose jobs wait at their ports and hold their resources over several slots, until their work is done.

    Once per slot, the agent sees the ports at which jobs wait, and the free resources. A job starts if the allocation
    gives it a speed (gain minus overhead, equation 7) above ``minimum_speed`` and its duration at that speed does not
    exceed ``longest_service``. Jobs of a type start in the order of their queue. A job ends after work / speed slots,
    possibly between slots. Resources allocated to jobs that do not start are returned. Resources freed by a completion
    can be allocated from the next slot on. So completion times and utilization are outcomes of the run.

    Events for listeners: those of :class:`MultiServerCluster`, and ``start`` and ``completion`` (a
    :class:`RunningJob`).

    Parameters
    ----------
    rewards : RewardModel
        Rewards of allocations, on the graph whose ports are the job types.
    arrivals : array_like of shape (num_slots, num_ports), or iterable of such rows
        Number of jobs of each type that arrive for each slot.
    work : array_like, or callable
        Work of a job, above 0, in units of reward times slots: one number, one number per port, or a function of a
        random generator and the index of the port.
    minimum_speed : float
        Speed that a job must exceed to start, at least 0.
    longest_service : float
        Longest duration, in slots, with which a job may start, above 0. It keeps a job from holding the small remainder
        of a full cluster almost forever.
    give_up_after : int
        Number of slots, after the last arrival, in which jobs wait but none runs or starts, until the run ends.
    jobs_per_port, gang, record_allocations, processes : int, Gang, int, iterable
        As for :class:`MultiServerCluster`; ``jobs_per_port`` is the largest number of jobs of a type that start in one
        slot, while others wait.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or does not match the graph.
    """

    events: ClassVar[tuple[str, ...]] = ("arrival", "slot", "start", "completion")

    def __init__(
        self,
        rewards: RewardModel,
        arrivals: ArrayLike | Iterable[ArrayLike],
        work: ArrayLike | Work,
        *,
        minimum_speed: float = 0.0,
        longest_service: float = 10_000.0,
        give_up_after: int = 1_000,
        jobs_per_port: int = 1,
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
        if not longest_service > 0:
            raise InvalidConfiguration(f"longest_service: got {longest_service!r}, expected a number of slots above 0")
        self.minimum_speed = check_float("minimum_speed", minimum_speed, least=0)
        self.longest_service = float(longest_service)
        self.give_up_after = check_int("give_up_after", give_up_after, least=1)
        self.work = work if callable(work) else _fixed_work(work, rewards.graph.num_ports)

    def describe(self) -> dict[str, Any]:
        """Return the configuration without graph, arrivals and work, as plain Python values."""
        limits = {name: getattr(self, name) for name in ("minimum_speed", "longest_service", "give_up_after")}
        return super().describe() | {"holding": True} | limits

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster and start the arrivals and the slot clock."""
        graph = self.layout.graph
        self._queues: list[deque[Job]] = [deque() for _ in self.rewards.graph.ports]
        self._services: dict[int, RunningJob] = {}
        self._free: Floats = graph.capacity.copy()
        self._work_stream = self.simulation.stream("work")
        ends = np.searchsorted(self.layout.position_of[graph.channel_port], np.arange(len(self.layout.type_of) + 1))
        self._channels_of_job_position = [slice(first, last) for first, last in pairwise(ends.tolist())]
        self._idle_slots = self._arrived_since = 0
        self._begun: _BegunSlot | None = None
        super().begin()

    def _admit(self, counts: Indices, time: float) -> None:
        """Add jobs to the queues of their types."""
        for port in np.repeat(np.arange(len(counts)), counts).tolist():
            work = self.work(self._work_stream, port)
            if not 0 < work < inf:
                name = self.rewards.graph.ports[port]
                raise WorkloadError(f"job {self._next_job} at {name}: work: got {work!r}, expected a number above 0")
            self._queues[port].append(Job(self._next_job, port, time, float(work)))
            self._next_job += 1
            self._arrived_since += 1

    def is_empty(self) -> bool:
        """Return whether no job runs, and no job waits with a chance to start."""
        waits = any(self._queues) and self._idle_slots < self.give_up_after
        return self.next_slot >= self._rows and not self._services and not waits

    def is_idle(self) -> bool:
        """Return whether no job is running."""
        return not self._services

    def observe(self, slot: int) -> None:
        """Update the observation with the waiting jobs and the free resources."""
        self._record_slot(float(slot))
        self._counts = np.array([len(queue) for queue in self._queues], dtype=np.int64)
        super().observe(slot)
        self.observation.capacity = np.maximum(self._free, 0.0)  # rounding may leave tiny negative amounts

    def _run_jobs(self, slot: int, allocation: Floats, earnings: RewardTerms, totals: tuple[float, float]) -> None:
        """Start the jobs whose allocation gives them enough speed."""
        speeds = earnings.gain - earnings.overhead
        started: dict[int, int] = {}
        for job_position in np.flatnonzero(self._job_positions & (speeds > self.minimum_speed)).tolist():
            port, place = divmod(job_position, self.jobs_per_port)
            place -= started.get(port, 0)
            job = self._queues[port][place]
            duration = job.work / float(speeds[job_position])
            if duration > self.longest_service:
                continue
            del self._queues[port][place]
            started[port] = started.get(port, 0) + 1
            self._start_job(job, job_position, duration, allocation, earnings)
        idle = any(self._queues) and not self._services and self.next_slot >= self._rows and not self.expects_more()
        self._idle_slots = self._idle_slots + 1 if idle else 0
        self._begin_slot_row(slot, allocation)

    def _start_job(
        self, job: Job, job_position: int, duration: float, allocation: Floats, earnings: RewardTerms
    ) -> None:
        """Start a job that holds its allocation for a given duration."""
        now, graph, channels = self.env.now, self.layout.graph, self._channels_of_job_position[job_position]
        amounts, gain, overhead = (
            allocation[channels].copy(),
            earnings.gain[job_position],
            earnings.overhead[job_position],
        )
        dominant, held = int(earnings.dominant[job_position]), earnings.held[job_position]
        service = RunningJob(job, now, now + duration, channels, amounts, float(gain), float(overhead), dominant, held)
        np.subtract.at(self._free, graph.channel_node[channels], amounts)
        self._services[job.job_id] = service
        at(self.env, service.finish_time, Phase.COMPLETION, service).callbacks.append(self._complete)
        slot = self.observation.slot
        if self.record_allocations and slot % self.record_allocations == 0:
            ids = np.full(len(amounts), job.job_id)
            self._record_amounts(slot, ids, np.arange(channels.start, channels.stop), amounts)
        if self.listening:
            self.emit("start", service)

    def _complete(self, event: simpy.Event) -> None:
        service: RunningJob = event._value
        del self._services[service.job.job_id]
        np.add.at(self._free, self.layout.graph.channel_node[service.channels], service.amounts)
        if not self._services:
            self._free[:] = self.layout.graph.capacity  # keeps rounding errors from accumulating
        self._record_job(service, service.finish_time, COMPLETED)
        if self.listening:
            self.emit("completion", service)

    def _record_job(self, service: RunningJob, finish: float, status: int) -> None:
        job = service.job
        ids, port, dominant = (np.array([number]) for number in (job.job_id, job.port, service.dominant))
        times = job.submission_time, service.starting_time, finish
        self._record["jobs"]((ids, port, *times, job.work, service.gain, service.overhead, dominant, status))

    def _begin_slot_row(self, slot: int, allocation: Floats) -> None:
        """Store what runs after a slot has begun; ``reserved`` includes allocations that no job uses."""
        services = tuple(self._services.values())
        held, new = (
            np.sum(amounts, axis=0) if amounts else np.zeros(self._free.shape[1])
            for amounts in (
                [service.held for service in services],
                [service.held for service in services if service.starting_time == self.env.now],
            )
        )
        waiting = sum(map(len, self._queues))
        reserved = (held - new + allocation.sum(axis=0)).tolist()
        self._begun = _BegunSlot(slot, self._arrived_since, waiting, services, reserved)
        self._arrived_since = 0

    def _record_slot(self, time: float) -> None:
        """Record the slot that has ended, with means over its length, as jobs may end between slots."""
        if self._begun is None:
            return
        slot, arrived, waiting, services, reserved = self._begun
        self._begun = None
        length = time - slot
        shares = [(min(service.finish_time, time) - slot) / length if length else 1.0 for service in services]
        gain, overhead = (
            sum(share * getattr(service, name) for share, service in zip(shares, services, strict=True))
            for name in ("gain", "overhead")
        )
        amounts = [share * service.held for share, service in zip(shares, services, strict=True)]
        held = np.sum(amounts, axis=0).tolist() if amounts else [0.0] * len(reserved)
        self._record["slots"]((slot, arrived, waiting, len(services), gain, overhead, *held, *reserved))

    def close(self, time: float) -> None:
        """Record the last slot, and the jobs that run or wait when the run ends."""
        self._record_slot(time)
        for service in self._services.values():
            self._record_job(service, np.nan, RUNNING)
        waiting = [job for queue in self._queues for job in queue]
        if waiting:
            self._record_waiting(*(np.array(column) for column in zip(*waiting, strict=True)))


def _fixed_work(work: ArrayLike, num_ports: int) -> Work:
    """Return a function that returns the same work for every job of a port."""
    try:
        amounts = np.broadcast_to(np.asarray(work, dtype=np.float64), (num_ports,))
    except ValueError as error:
        raise InvalidConfiguration(f"work: got {work!r}, expected one number, or {num_ports}, one per port") from error
    if not ((amounts > 0) & (amounts < inf)).all():
        raise InvalidConfiguration(f"work: got {work!r}, expected finite numbers above 0")
    return lambda rng, port: float(amounts[port])
