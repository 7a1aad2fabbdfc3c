"""SimPy processes that problems consist of, and that users can add or adapt."""

from desim.processes.arrivals import arrivals, job_stream
from desim.processes.capacity import (
    CapacityProcess,
    Pattern,
    TimeVarying,
    mean_reverting_capacity,
    replayed_capacity,
    stepped_capacity,
)
from desim.processes.channels import Flow, SharedChannels, fair_rates
from desim.processes.endings import stop_after
from desim.processes.on_demand import OnDemand, OnDemandVM, on_demand_vms, replayed_vms
from desim.processes.outages import Outage, planned_outages, random_outages

__all__ = [
    "CapacityProcess",
    "Flow",
    "OnDemand",
    "OnDemandVM",
    "Outage",
    "Pattern",
    "SharedChannels",
    "TimeVarying",
    "arrivals",
    "fair_rates",
    "job_stream",
    "mean_reverting_capacity",
    "on_demand_vms",
    "planned_outages",
    "random_outages",
    "replayed_capacity",
    "replayed_vms",
    "stepped_capacity",
    "stop_after",
]
