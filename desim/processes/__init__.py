"""SimPy processes that problems are made of and that users can add or copy from."""

from desim.processes.arrivals import arrivals
from desim.processes.outages import Outage, planned_outages, random_outages

__all__ = ["Outage", "arrivals", "planned_outages", "random_outages"]
