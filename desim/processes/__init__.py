"""SimPy processes that problems are made of and that users can add or copy from."""

from desim.processes.arrivals import arrivals

__all__ = ["arrivals"]
