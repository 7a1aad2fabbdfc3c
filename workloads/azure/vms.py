"""Virtual machines of a trace: lifetime, cores and memory; as on-demand load, and as deferrable jobs.

A trace states neither which virtual machines could have waited nor for how long. The caller chooses both: which of
them become jobs (often those of low priority), and the distributions of lead time (`lead_time`) and slack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from desim.checks import check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.deferrable import Job
from desim.workloads.deferrable.distributions import Law, drawn, law_of
from desim.workloads.report import ListedReason, RepairReport
from desim.workloads.streams import seed_sequence

__all__ = ["VirtualMachine", "VmReason", "VmReport", "deferrable_jobs", "low_priority", "on_demand"]

#: Priorities in the packing trace: high (on demand) and low (may be evicted).
HIGH_PRIORITY, LOW_PRIORITY = 0, 1


class VirtualMachine(NamedTuple):
    """Virtual machine of a trace, from its start to its end.

    Attributes
    ----------
    vm_id : int
        Id, unique only within its file.
    start, end : float
        Lifetime [start, end), in slots since the beginning of the read period.
    cores : float
        Number of cores.
    memory : float
        Amount of memory, in GB or in the unit of the reader's ``memory_per_machine``.
    priority : int
        Priority: 0 is high, 1 is low (may be evicted).
    tenant_id : int
        Id of its owner, or of the batch in which it was requested; -1 if unknown.

    Examples
    --------
    >>> machine = VirtualMachine(7, start=2.5, end=6.0, cores=2.0, memory=3.5)
    >>> machine.lifetime
    3.5
    """

    vm_id: int
    start: float
    end: float
    cores: float
    memory: float
    priority: int = HIGH_PRIORITY
    tenant_id: int = -1

    @property
    def lifetime(self) -> float:
        """Length of its lifetime, in slots."""
        return self.end - self.start


class VmReason(ListedReason):
    """Reason why a virtual machine was dropped or changed, or something about it was noted.

    The first two concern rows of ``vmType``, not virtual machines.
    """

    UNUSABLE_TYPE_ROW = ("type", "core or memory of a VM type NULL or not a fraction of a machine: row ignored")
    REPEATED_TYPE_ROW = ("type", "another row for a VM type and machine type: the largest used")
    UNKNOWN_START = ("dropped", "start NULL, or more than 10 years before the trace")
    UNKNOWN_TYPE = ("dropped", "VM type without a usable row in vmType")
    ENDED_BEFORE_START = ("dropped", "end not after start")
    ENDED_BEFORE_WINDOW = ("dropped", "ended before the read period")
    ALREADY_ALIVE = ("dropped", "started before the read period, with alive_before='drop'")
    OTHER_PRIORITY = ("dropped", "priority other than that requested")
    CLIPPED_START = ("changed", "started before the read period: start moved to its beginning")
    ASSUMED_END = ("changed", "end NULL: 90 days after the beginning of the trace used")
    ZERO_DURATION = ("changed", "duration 0: half of the interval between readings used")
    CENSORED = ("changed", "still running at the end of the trace, which is used as its end")
    LATE_END = ("noted", "ended after the read period, kept")


@dataclass(repr=False)
class VmReport(RepairReport[VmReason, int]):
    """Counts of the virtual machines that were dropped, changed or noted.

    ``rows == vms + dropped`` holds for every finished report. A place is an id (of a VM type, for reasons
    about types) or a line number.

    Parameters
    ----------
    vms : int
        Number of virtual machines that were kept.
    batches : int
        Number of their batches; 0 if the trace does not state them.
    """

    unit: str = "vmId"
    vms: int = 0
    batches: int = 0

    def headline(self) -> str:
        """Return the totals in one line."""
        batches = f" in {self.batches:,} batches" if self.batches else ""
        return f"{self.rows:,} rows{batches}: {self.vms:,} virtual machines, {self.dropped:,} dropped"


# The block size does not belong to the meaning of a seed: every job uses one number of each stream
_BLOCK = 1024
#: Tolerance in slots: a lifetime of 2.0000000001 slots, computed from days, counts as two slots.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class _OfPriority:
    """Iterable over the virtual machines of one priority; each iteration reads the source again."""

    vms: Iterable[VirtualMachine]
    priority: int

    def __iter__(self) -> Iterator[VirtualMachine]:
        """Iterate over them in the order of the source."""
        return (machine for machine in self.vms if machine.priority == self.priority)


def on_demand(vms: Iterable[VirtualMachine]) -> Iterable[VirtualMachine]:
    """Return the virtual machines of high priority: those whose requests must be met immediately.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        Virtual machines, for example from `desim.workloads.azure.packing.read_vms`.

    Returns
    -------
    iterable of VirtualMachine
        Iterable that can be used as often as ``vms``.
    """
    return _OfPriority(vms, HIGH_PRIORITY)


def low_priority(vms: Iterable[VirtualMachine]) -> Iterable[VirtualMachine]:
    """Return the virtual machines of low priority: those that may be evicted and could be deferred.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        Virtual machines, for example from `desim.workloads.azure.packing.read_vms`.

    Returns
    -------
    iterable of VirtualMachine
        Iterable that can be used as often as ``vms``.
    """
    return _OfPriority(vms, LOW_PRIORITY)


class _DeferrableJobs:
    """Iterable over virtual machines as deferrable jobs; every iteration gives the same jobs."""

    def __init__(
        self, vms: Iterable[VirtualMachine], laws: tuple[Law, Law], longest: int | None, seed: int | Generator
    ) -> None:
        self.vms = vms
        self._laws = laws
        self._longest = math.inf if longest is None else longest
        self._entropy = seed_sequence(seed).entropy
        self._used = False

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs, from the start of the source."""
        if self._used and isinstance(self.vms, Iterator):
            raise InvalidConfiguration(
                "vms: got an iterator a second time, expected an iterable that can be read again"
            )
        self._used = True
        return self._jobs()

    def _jobs(self) -> Iterator[Job]:
        lead_time, slack = self._laws
        for_lead_time, for_slack = map(default_rng, SeedSequence(self._entropy).spawn(2))
        source = iter(self.vms)
        latest = 0.0
        while block := list(islice(source, _BLOCK)):
            durations = np.array([self._duration(machine) for machine in block])
            lead_times = drawn("lead_time", lead_time, for_lead_time.random(len(block)), durations)
            slacks = drawn("slack", slack, for_slack.random(len(block)), durations)
            for machine, *slots in zip(block, durations.tolist(), lead_times.tolist(), slacks.tolist(), strict=True):
                if machine.start < latest:
                    raise WorkloadError(
                        f"virtual machine {machine.vm_id}: start: got {machine.start!r}, expected at least "
                        f"{latest!r}, the previous start"
                    )
                latest = machine.start
                yield self._job(machine, *slots)

    def _duration(self, machine: VirtualMachine) -> int:
        if not 0 <= machine.start < machine.end < math.inf:
            raise WorkloadError(
                f"virtual machine {machine.vm_id}: got start {machine.start!r} and end {machine.end!r}, expected "
                f"finite times >= 0 with the end after the start"
            )
        return int(min(max(math.ceil(machine.lifetime - _ROUNDING), 1), self._longest))

    def _job(self, machine: VirtualMachine, duration: int, lead_time: int, slack: int) -> Job:
        earliest = math.ceil(machine.start) + lead_time
        return Job(machine.vm_id, machine.start, earliest, earliest + slack, duration, machine.cores)


def deferrable_jobs(
    vms: Iterable[VirtualMachine],
    *,
    lead_time: Law | int,
    slack: Law | int,
    longest: int | None = None,
    seed: int | Generator = 0,
) -> Iterable[Job]:
    """Turn virtual machines into deferrable jobs.

    A job is submitted when its virtual machine started. Its window opens `lead_time` slots after the beginning of the
    next slot and closes `slack` slots later. Its duration is the lifetime, rounded up to whole slots. Id and cores are
    kept.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        Virtual machines in order of start. Those clipped to the beginning of the trace would all be submitted at
        the same time: read it with ``alive_before="drop"``.
    lead_time : Law or int
        Lead time: slots from the submission (rounded up) to the earliest start, as a number or a distribution such as
        ``desim.workloads.deferrable.Uniform(0, 12)``, see `desim.workloads.deferrable.distributions`.
    slack : Law or int
        Slots from the earliest to the latest start, as a number or a distribution.
    longest : int, optional
        Largest duration in slots, to which longer ones are cut.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once. Lead time and slack have independent random streams.

    Returns
    -------
    iterable of Job
        Jobs in order of submission; the iterable can be used as often as ``vms``.

    Raises
    ------
    InvalidConfiguration
        Immediately, if an argument is out of range; while iterating, if a distribution does not give integers >= 0, or
        if `vms` is an iterator that was used before. Inside `low_priority` or `on_demand`, a used one gives no jobs.
    WorkloadError
        While iterating, if a virtual machine starts before an earlier one, or its times are invalid.

    Examples
    --------
    >>> machine = VirtualMachine(7, start=2.5, end=6.0, cores=2.0, memory=3.5)
    >>> list(deferrable_jobs([machine], lead_time=2, slack=4))
    [Job(job_id=7, submission_time=2.5, earliest_start=5, latest_start=9, duration=4, cores=2.0, others=())]
    """
    if longest is not None:
        check_int("longest", longest, least=1)
    laws = law_of("lead_time", lead_time), law_of("slack", slack)
    return _DeferrableJobs(vms, laws, longest, seed)
