"""SimPy processes that problems are made of and that users can add or copy from."""

from desim.processes.arrivals import arrivals
from desim.processes.outages import Outage, planned_outages, random_outages
from desim.processes.streams import job_stream

__all__ = ["Outage", "arrivals", "job_stream", "planned_outages", "random_outages"]
