"""Virtual machines of Azure's public traces: the packing trace of 2020, and a slice of the trace of 2017.

`desim.workloads.azure.packing` reads the first, a large SQLite file, `desim.workloads.azure.vm_2017` the second, a few
small text files. Both give `VirtualMachine`, in the order of their starts. What `on_demand` keeps of them is the load
that deferrable jobs have to leave room for; `deferrable_jobs` makes such jobs of others.
"""

from __future__ import annotations

from desim.workloads.azure import packing, vm_2017
from desim.workloads.azure.vms import VirtualMachine, VmReason, VmReport, deferrable_jobs, low_priority, on_demand

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
