"""Virtual machines as on-demand load, and as deferrable jobs.

A trace tells neither which virtual machines could have waited nor for how long. Here the caller chooses both: which of
them become jobs, often those of low priority, and the distributions of notice and slack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.deferrable import Job
from desim.workloads._named_streams import whole_number
from desim.workloads._seeds import seed_sequence
from desim.workloads._window_laws import Law, drawn, law_of
from desim.workloads.azure.machine import HIGH_PRIORITY, LOW_PRIORITY, VirtualMachine

__all__ = ["DeferrableJobs", "OfPriority", "deferrable_jobs", "low_priority", "on_demand"]

# Not part of what a seed means: every job takes one number of each stream.
_BLOCK = 1024
#: A lifetime of 2.0000000001 slots is two slots, computed from days.
_ROUNDING = 1e-6


class OfPriority:
    """The virtual machines of one priority; every iteration goes through the source anew.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        The source.
    priority : int
        Which are kept.
    """

    def __init__(self, vms: Iterable[VirtualMachine], priority: int) -> None:
        self.vms = vms
        self.priority = priority

    def __iter__(self) -> Iterator[VirtualMachine]:
        """Yield them in the order of the source."""
        return (machine for machine in self.vms if machine.priority == self.priority)


def on_demand(vms: Iterable[VirtualMachine]) -> OfPriority:
    """Return the virtual machines of high priority: those whose requests have to be met at once.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        Such as `desim.workloads.azure.packing.read_vms` returns it.

    Returns
    -------
    OfPriority
        To iterate over as often as ``vms``.
    """
    return OfPriority(vms, HIGH_PRIORITY)


def low_priority(vms: Iterable[VirtualMachine]) -> OfPriority:
    """Return the virtual machines of low priority: those that may be evicted, and could be deferred.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        Such as `desim.workloads.azure.packing.read_vms` returns it.

    Returns
    -------
    OfPriority
        To iterate over as often as ``vms``.
    """
    return OfPriority(vms, LOW_PRIORITY)


class DeferrableJobs:
    """Virtual machines as deferrable jobs; every iteration gives the same ones anew.

    Made by `deferrable_jobs`, which documents the parameters.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        The source.
    laws : tuple of two Laws
        Distributions of notice and slack.
    longest : int or None
        Longest duration.
    memory : bool
        Whether jobs request memory.
    seed : int or numpy.random.Generator
        Source of randomness.
    """

    def __init__(
        self,
        vms: Iterable[VirtualMachine],
        laws: tuple[Law, Law],
        *,
        longest: int | None,
        memory: bool,
        seed: int | Generator,
    ) -> None:
        self.vms = vms
        self._laws = laws
        self._longest = math.inf if longest is None else longest
        self._memory = memory
        self._entropy = seed_sequence(seed).entropy
        self._used = False

    def __iter__(self) -> Iterator[Job]:
        """Go through the source from its start."""
        if self._used and isinstance(self.vms, Iterator):
            raise InvalidConfiguration("vms is an iterator, which can be read only once: pass what gives it anew")
        self._used = True
        return self._jobs()

    def _jobs(self) -> Iterator[Job]:
        notice, slack = self._laws
        for_notice, for_slack = map(default_rng, SeedSequence(self._entropy).spawn(2))
        source = iter(self.vms)
        latest = 0.0
        while block := list(islice(source, _BLOCK)):
            durations = np.array([self._duration(machine) for machine in block])
            notices = drawn("notice", notice, for_notice.random(len(block)), durations)
            slacks = drawn("slack", slack, for_slack.random(len(block)), durations)
            for machine, *slots in zip(block, durations.tolist(), notices.tolist(), slacks.tolist(), strict=True):
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

    def _job(self, machine: VirtualMachine, duration: int, notice: int, slack: int) -> Job:
        earliest = math.ceil(machine.start) + notice
        others = (machine.memory,) if self._memory else ()
        return Job(machine.vm_id, machine.start, earliest, earliest + slack, duration, machine.cores, others)


def deferrable_jobs(
    vms: Iterable[VirtualMachine],
    *,
    notice: Law | int,
    slack: Law | int,
    longest: int | None = None,
    memory: bool = False,
    seed: int | Generator = 0,
) -> DeferrableJobs:
    """Turn virtual machines into deferrable jobs.

    A job is submitted when its virtual machine started. Its window opens `notice` slots after the next slot's beginning
    and closes `slack` slots later. It runs for the lifetime, rounded up to whole slots, and keeps identifier and cores.

    Parameters
    ----------
    vms : iterable of VirtualMachine
        In the order of their starts. Those that are clipped to the beginning of the trace would all be submitted at
        once: read it with ``alive_before="drop"``.
    notice : Law or int
        Slots from the submission (rounded up) to the earliest start: a number, or a distribution such as
        ``desim.workloads.deferrable.Uniform(0, 12)``, see `desim.workloads.deferrable`.
    slack : Law or int
        Slots from the earliest to the latest start.
    longest : int, optional
        Longer lifetimes are cut to this number of slots.
    memory : bool
        Request memory as a second resource, too.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once. Notice and slack have random streams of their own.

    Returns
    -------
    DeferrableJobs
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
    >>> list(deferrable_jobs([machine], notice=2, slack=4))
    [Job(job_id=7, submission_time=2.5, earliest_start=5, latest_start=9, duration=4, cores=2.0, others=())]
    """
    if longest is not None:
        whole_number("longest", longest)
    laws = law_of("notice", notice), law_of("slack", slack)
    return DeferrableJobs(vms, laws, longest=longest, memory=bool(memory), seed=seed)
