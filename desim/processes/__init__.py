"""SimPy processes that problems are made of and that users can add or copy from."""

from desim.processes.arrivals import arrivals
from desim.processes.capacity import CapacityProcess, replayed_capacity, stepped_capacity
from desim.processes.channels import Flow, SharedChannels
from desim.processes.fairness import fair_rates
from desim.processes.outages import Outage, planned_outages, random_outages
from desim.processes.streams import job_stream

__all__ = [
    "CapacityProcess",
    "Flow",
    "Outage",
    "SharedChannels",
    "arrivals",
    "fair_rates",
    "job_stream",
    "planned_outages",
    "random_outages",
    "replayed_capacity",
    "stepped_capacity",
]
