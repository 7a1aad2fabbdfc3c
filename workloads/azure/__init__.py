"""Virtual machines of Azure's public traces: the packing trace of 2020, and a slice of the trace of 2017.

`desim.workloads.azure.packing` reads the trace of 2020, a large SQLite file; `desim.workloads.azure.vm_2017` reads the
slice of 2017, a few small text files. Both return `VirtualMachine` objects in order of start time. `on_demand` selects
those that form the load above which deferrable jobs run; `deferrable_jobs` turns others into deferrable jobs.
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
