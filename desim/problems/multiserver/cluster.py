"""Multi-server jobs on a bipartite graph, slot by slot.

Model: Zhao et al., "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning", arXiv 2305.06572,
section 2, with its extensions to several jobs a port (3.4) and gangs (3.5).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from math import isfinite
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim._clock import schedule_at
from desim.core import Decision, Phase
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.base import Problem, Process
from desim.problems.multiserver._checks import check_whole_number
from desim.problems.multiserver.feasibility import Feasibility
from desim.problems.multiserver.gang import Gang
from desim.problems.multiserver.layout import Layout
from desim.problems.multiserver.observation import MultiServerObservation
from desim.problems.multiserver.outcomes import SlotOutcome
from desim.problems.multiserver.rewards import RewardModel
from desim.problems.multiserver.tables import COMPLETED, UNSERVED, WAITING, JobRows, SlotRow, schemas
from desim.processes.arrivals import arrivals as arrival_stream
from desim.records import Schema

__all__ = ["MultiServerCluster"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class MultiServerCluster(Problem):
    """A cluster that is shared out anew in every slot; a job lasts one slot.

    A slot clock asks once a slot, after everything that arrives up to its beginning has arrived. The answer is an
    allocation, see :class:`BipartiteGraph`, or None for nothing. Ports without a job may be given resources (a
    reservation), which then earn nothing. Rewards follow :class:`RewardModel`.

    Events for listeners: ``arrival`` (the subject is the index of the port) and ``slot`` (a :class:`SlotOutcome`).

    Parameters
    ----------
    rewards : RewardModel
        What allocations earn, on the graph whose ports are the types of jobs.
    arrivals : array_like of shape (num_slots, num_ports), or iterable of such rows
        How many jobs of each type arrive for each slot. An iterator is read once, one slot ahead of the clock.
        The run ends with the last row.
    jobs_per_port : int
        The most jobs of a type that arrive for one slot, J_l of section 3.4. With more than one, the graph that agents
        see has so many copies of each port.
    gang : Gang, optional
        Components of the types of jobs, section 3.5. The ports of the graph that agents see are then components.
    record_allocations : int
        Record the allocations of every so many slots; 0 for none.
    processes : iterable of callables
        Extra SimPy processes, which are called with the bound cluster and may :meth:`submit` jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or does not fit the graph.
    """

    name: ClassVar[str] = "multiserver"
    events: ClassVar[tuple[str, ...]] = ("arrival", "slot")

    def __init__(
        self,
        rewards: RewardModel,
        arrivals: ArrayLike | Iterable[ArrayLike],
        *,
        jobs_per_port: int = 1,
        gang: Gang | None = None,
        record_allocations: int = 1,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        check_whole_number("jobs_per_port", jobs_per_port, 1)
        check_whole_number("record_allocations", record_allocations, 0)
        self.rewards = rewards
        self.arrivals = arrivals
        self.jobs_per_port = int(jobs_per_port)
        self.record_allocations = int(record_allocations)
        self.layout = Layout(rewards, self.jobs_per_port, gang)

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without graph and arrivals, as plain values."""
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
        }

    def schemas(self) -> dict[str, Schema]:
        """Return the tables ``jobs``, ``slots``, ``allocations``, ``ports``, ``nodes`` and ``channels``."""
        return schemas(self.layout)

    def check_replayable(self) -> None:
        """Raise InvalidConfiguration if the arrivals are an iterator, which can be read only once."""
        if isinstance(self.arrivals, Iterator):
            raise InvalidConfiguration(
                "the arrivals are an iterator, which can be read only once: pass an array to fork"
            )

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the cluster and start the arrivals and the slot clock."""
        layout = self.layout
        self.observation = MultiServerObservation(layout.graph, layout.rewards)
        self._feasibility = Feasibility(layout)
        self._record = {name: table.append for name, table in self.simulation.records.tables.items()}
        for table in ("ports", "nodes", "channels"):
            self._record[table](self.rewards)
        self._counts: Indices = np.zeros(layout.types.num_ports, dtype=np.int64)
        self._early: dict[int, list[float]] = {}
        self._next_job = 0
        self._rows = 0
        stream = arrival_stream(self.env, enumerate(self.arrivals), _slot_of, self._take)  # type: ignore[arg-type]
        self.foreground.append(self.env.process(stream))
        self.env.process(self._run_clock())

    def _run_clock(self) -> Generator[simpy.Event, Any, None]:
        """Ask at the beginning of every slot, until there is nothing more to come."""
        decision = Decision(self.simulation, self.observation)
        tick = simpy.Event(self.env)
        slot = 0
        while True:
            tick.callbacks = []  # the same event serves again, and so does the decision
            schedule_at(tick, slot, Phase.SLOT)
            yield tick
            if not self._goes_on(slot):
                self.simulation.stop()
                return
            self._observe(slot)
            decision.callbacks = []
            action = yield decision.request()
            self._serve(slot, action)
            slot += 1

    def close(self, time: float) -> None:
        """Record the jobs whose slot has not come when the run ends."""
        seats = np.flatnonzero(self.layout.seats(self._counts))
        if len(seats):
            times = self._submission_times(seats, self._rows - 1)
            self._record_waiting(self._next_job + np.arange(len(seats)), self.layout.type_of[seats], times, np.nan)

    def _record_waiting(self, ids: Indices, ports: Indices, times: Floats | float, work: Floats | float) -> None:
        nothing = np.zeros(len(ids), dtype=np.int64)
        self._record["jobs"](JobRows(ids, ports, times, np.nan, np.nan, work, 0.0, 0.0, nothing, WAITING))

    def _goes_on(self, slot: int) -> bool:
        """Tell whether a slot is still to be served."""
        return self._more_to_come(slot) or bool(self._counts.any())

    def _more_to_come(self, slot: int) -> bool:
        """Tell whether jobs may still arrive from a slot on."""
        return slot < self._rows or any(process.is_alive for process in self.foreground)

    def _take(self, item: tuple[int, ArrayLike]) -> None:
        """Take the jobs that the workload has for a slot."""
        slot, row = item
        try:
            given = np.asarray(row)
        except ValueError:  # of rows within the row
            given = np.zeros(())
        if given.shape != self._counts.shape or given.dtype.kind not in "bui":
            raise WorkloadError(
                f"slot {slot}: the arrivals are {row!r}, want {self._counts.shape[0]} whole numbers, one a port"
            )
        self._rows = slot + 1
        counts = given.astype(np.int64)
        if counts.min() < 0:
            port = int(counts.argmin())
            raise WorkloadError(f"slot {slot}: {counts[port]} jobs arrive at {self.rewards.graph.ports[port]}")
        self._admit(counts, slot)
        if self.listening:
            for port in np.repeat(np.arange(len(counts)), counts).tolist():
                self.emit("arrival", port)

    def submit(self, port: int | str) -> None:
        """Let a job arrive now; it is served in the slot that begins next, or now if one begins at this instant.

        Parameters
        ----------
        port : int or str
            Index or name of its type.

        Raises
        ------
        WorkloadError
            If there is no such port, or it has too many jobs for the slot.
        """
        names = self.rewards.graph.ports
        index = names.index(port) if isinstance(port, str) and port in names else port
        if not isinstance(index, int | np.integer) or not 0 <= index < len(names):
            raise WorkloadError(f"time {self.env.now}: a job arrives at the unknown port {port!r}")
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
                f"time {time}: {together[port]} jobs for one slot at {self.rewards.graph.ports[port]}, and "
                f"jobs_per_port is {self.jobs_per_port}"
            )
        self._counts = together

    def _observe(self, slot: int) -> None:
        """Bring the observation up to date."""
        self.observation.slot = slot
        self._seats = self.layout.seats(self._counts)
        self.observation.arrived = self.layout.ports(self._seats)

    def _serve(self, slot: int, action: Any) -> None:
        """Carry out the allocation of a slot: the jobs run now and are gone at its end."""
        arrived = self.observation.arrived
        allocation = self._feasibility.check(action, arrived, self.observation.capacity, self.env.now)
        earnings = self.layout.rewards.evaluate(allocation, arrived)
        gain, overhead = float(earnings.gain.sum()), float(earnings.overhead.sum())
        if not isfinite(gain - overhead):
            raise self._feasibility.not_a_number(earnings, self.env.now)
        seats = np.flatnonzero(self._seats)
        held = earnings.held[seats]
        served = held.any(axis=1)
        ids = self._next_job + np.arange(len(seats))
        self._next_job += len(seats)
        self._record["jobs"](
            JobRows(
                ids,
                self.layout.type_of[seats],
                self._submission_times(seats, slot),
                np.where(served, float(slot), np.nan),
                np.where(served, slot + 1.0, np.nan),
                np.nan,
                earnings.gain[seats],
                earnings.overhead[seats],
                earnings.dominant[seats],
                np.where(served, COMPLETED, UNSERVED),
            )
        )
        running = int(served.sum())
        totals = held.sum(axis=0), allocation.sum(axis=0)
        self._record["slots"](SlotRow(slot, len(seats), 0, running, gain, overhead, *totals))
        if self.record_allocations and slot % self.record_allocations == 0:
            self._record_allocation(slot, allocation, seats, ids)
        self._counts = np.zeros_like(self._counts)
        self._early.clear()
        if self.listening:
            self.emit("slot", SlotOutcome(slot, arrived, allocation, earnings.gain, earnings.overhead))

    def _submission_times(self, seats: Indices, slot: int) -> Floats | float:
        """Return when the jobs on seats arrived: the first at a port are those that a process has submitted."""
        if not self._early:
            return float(slot)
        times = np.full(len(self.layout.type_of), float(slot))
        for port, early in self._early.items():
            first = port * self.layout.copies
            times[first : first + len(early)] = early
        return times[seats]

    def _record_allocation(self, slot: int, allocation: Floats, seats: Indices, ids: Indices) -> None:
        """Record what the jobs on seats get."""
        graph, seat_of = self.layout.graph, self.layout.seat_of
        job_of_seat = np.full(len(self.layout.type_of), -1)
        job_of_seat[seats] = ids
        jobs = job_of_seat[seat_of][graph.channel_port]
        given = np.where(jobs[:, None] >= 0, allocation, 0.0).ravel()
        entries = np.flatnonzero(given)
        self._record["allocations"]((slot, jobs[entries // graph.num_resources], entries, given[entries]))


_slot_of = itemgetter(0)
