"""Virtual machines of Azure's public traces: the packing trace of 2020, and a slice of the trace of 2017.

`workloads.azure.packing` reads the first, a large SQLite file, `workloads.azure.vm_2017` the second, a few small text
files. Both give `VirtualMachine`, in the order of their starts. What `on_demand` keeps of them is the load that
deferrable jobs have to leave room for; `deferrable_jobs` makes such jobs of others.
"""

from __future__ import annotations

from workloads.azure import packing, vm_2017
from workloads.azure.jobs import deferrable_jobs, low_priority, on_demand
from workloads.azure.machine import VirtualMachine
from workloads.azure.report import VmReason, VmReport

__all__ = [
    "VirtualMachine",
    "VmReason",
    "VmReport",
    "deferrable_jobs",
    "low_priority",
    "on_demand",
    "packing",
    "vm_2017",
]
