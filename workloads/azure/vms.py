"""Virtual machines of a trace: how long each was there, and what it held; as on-demand load, and as deferrable jobs.

A trace tells neither which virtual machines could have waited nor for how long. Here the caller chooses both: which of
them become jobs, often those of low priority, and the distributions of lead time and slack.
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

#: What the packing trace calls high (on demand) and low (may be evicted).
HIGH_PRIORITY, LOW_PRIORITY = 0, 1


class VirtualMachine(NamedTuple):
    """A virtual machine, from its start to its end.

    Attributes
    ----------
    vm_id : int
        Identifier, valid within its file only.
    start, end : float
        When it was there, [start, end), in slots since the beginning of what is read.
    cores : float
        Cores that it held.
    memory : float
        Memory that it held: GB, or the unit in which the reader was told the memory of a machine.
    priority : int
        0 is high, 1 is low: it may be evicted.
    tenant_id : int
        Who owns it, or what it was requested with; -1 if that is unknown.

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
        """For how long it was there, in slots."""
        return self.end - self.start


class VmReason(ListedReason):
    """Why a virtual machine was dropped or changed, or what was remarkable about it.

    The first two are about the rows of ``vmType``, not about virtual machines.
    """

    UNUSABLE_TYPE_ROW = ("type", "core or memory of a VM type NULL or no fraction of a machine: row left out")
    REPEATED_TYPE_ROW = ("type", "another row for a VM type and machine type: the largest taken")
    UNKNOWN_START = ("dropped", "start NULL, or more than 10 years before the trace")
    UNKNOWN_TYPE = ("dropped", "VM type without a usable row in vmType")
    ENDED_BEFORE_START = ("dropped", "did not end after its start")
    ENDED_BEFORE_WINDOW = ("dropped", "ended before what is read begins")
    ALREADY_ALIVE = ("dropped", "started before what is read, with alive_before='drop'")
    OTHER_PRIORITY = ("dropped", "another priority than that asked for")
    CLIPPED_START = ("changed", "started before what is read: taken as its beginning")
    ASSUMED_END = ("changed", "end NULL: 90 days after the beginning of the trace taken")
    ZERO_DURATION = ("changed", "duration 0: half of the interval between readings taken")
    CENSORED = ("changed", "still there at the end of the trace, which is taken as its end")
    LATE_END = ("noted", "ended after what is read, kept")


@dataclass(repr=False)
class VmReport(RepairReport[VmReason, int]):
    """Counts of the virtual machines that were dropped, changed or remarked on.

    ``rows == vms + dropped`` holds for every finished report. A place is an identifier (of a VM type where the reason
    is about one), or a line number.

    Parameters
    ----------
    vms : int
        Virtual machines that were kept.
    batches : int
        Batches that they came in; 0 if the trace does not tell them.
    """

    unit: str = "vmId"
    vms: int = 0
    batches: int = 0

    def headline(self) -> str:
        """Return the totals in one line."""
        batches = f" in {self.batches:,} batches" if self.batches else ""
        return f"{self.rows:,} rows{batches}: {self.vms:,} virtual machines, {self.dropped:,} dropped"


# Not part of what a seed means: every job takes one number of each stream.
_BLOCK = 1024
#: A lifetime of 2.0000000001 slots is two slots, computed from days.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class _OfPriority:
    """The virtual machines of one priority; every iteration goes through the source anew."""

    vms: Iterable[VirtualMachine]
    priority: int

    def __iter__(self) -> Iterator[VirtualMachine]:
        """Yield them in the order of the source."""
        return (machine for machine in self.vms if machine.priority == self.priority)


def on_demand(vms: Iterable[VirtualMachine]) -> Iterable[VirtualMachine]:
    """Return the virtual machines of high priority: those whose requests have to be met at once.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        Such as `desim.workloads.azure.packing.read_vms` returns it.

    Returns
    -------
    iterable of VirtualMachine
        To iterate over as often as ``vms``.
    """
    return _OfPriority(vms, HIGH_PRIORITY)


def low_priority(vms: Iterable[VirtualMachine]) -> Iterable[VirtualMachine]:
    """Return the virtual machines of low priority: those that may be evicted, and could be deferred.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        Such as `desim.workloads.azure.packing.read_vms` returns it.

    Returns
    -------
    iterable of VirtualMachine
        To iterate over as often as ``vms``.
    """
    return _OfPriority(vms, LOW_PRIORITY)


class _DeferrableJobs:
    """Virtual machines as deferrable jobs; every iteration gives the same ones anew."""

    def __init__(
        self, vms: Iterable[VirtualMachine], laws: tuple[Law, Law], longest: int | None, seed: int | Generator
    ) -> None:
        self.vms = vms
        self._laws = laws
        self._longest = math.inf if longest is None else longest
        self._entropy = seed_sequence(seed).entropy
        self._used = False

    def __iter__(self) -> Iterator[Job]:
        """Go through the source from its start."""
        if self._used and isinstance(self.vms, Iterator):
            raise InvalidConfiguration("vms is an iterator, which can be read only once: pass what gives it anew")
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
                        f"virtual machine {machine.vm_id}: starts at {machine.start!r}, before the one in front of it, "
                        f"at {latest!r}"
                    )
                latest = machine.start
                yield self._job(machine, *slots)

    def _duration(self, machine: VirtualMachine) -> int:
        if not 0 <= machine.start < machine.end < math.inf:
            raise WorkloadError(
                f"virtual machine {machine.vm_id}: is there from {machine.start!r} to {machine.end!r}, want finite "
                f"times from 0 on, the end after the start"
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

    A job is submitted when its virtual machine started. Its window opens `lead_time` slots after the next slot's
    beginning and closes `slack` slots later. It runs for the lifetime, rounded up to whole slots, and keeps identifier
    and cores.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        In the order of their starts. Those that are clipped to the beginning of the trace would all be submitted at
        once: read it with ``alive_before="drop"``.
    lead_time : Law or int
        Slots from the submission (rounded up) to the earliest start: a number, or a distribution such as
        ``desim.workloads.deferrable.Uniform(0, 12)``, see `desim.workloads.deferrable.distributions`.
    slack : Law or int
        Slots from the earliest to the latest start.
    longest : int, optional
        Longer lifetimes are cut to this number of slots.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once. Notice and slack have random streams of their own.

    Returns
    -------
    iterable of Job
        To iterate over as often as ``vms``; jobs in the order of their submission.

    Raises
    ------
    InvalidConfiguration
        At once, if an argument is out of range; while iterating, if a distribution gives no whole numbers, or if `vms`
        is itself an iterator that has been used. One inside of `low_priority` or `on_demand` gives no jobs then.
    WorkloadError
        While iterating, if a virtual machine starts before an earlier one, or its times make no sense.

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
