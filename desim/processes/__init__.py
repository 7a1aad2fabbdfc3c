"""SimPy processes that problems are made of and that users can add or copy from."""

from desim.processes.arrivals import arrivals
from desim.processes.capacity import CapacityProcess, replayed_capacity, stepped_capacity
from desim.processes.channels import SharedChannels
from desim.processes.endings import stop_after
from desim.processes.fairness import fair_rates
from desim.processes.flows import Flow
from desim.processes.noisy_capacity import mean_reverting_capacity
from desim.processes.on_demand import OnDemand, OnDemandVM, replayed_vms
from desim.processes.outages import Outage, planned_outages, random_outages
from desim.processes.patterns import Pattern, TimeVarying
from desim.processes.random_vms import on_demand_vms
from desim.processes.streams import job_stream

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
