"""Systems and arrivals for multi-server jobs: generated from fitted models, or taken from Alibaba's traces.

The amounts of the six `RESOURCES` are in cores, units of 8 GiB of memory, and numbers of accelerators. In these units a
machine has about as much memory as cores, so neither outweighs the other in the sums of rewards.
"""

from __future__ import annotations

from desim.workloads.multiserver.arrivals import bernoulli_arrivals, periodic_arrivals, poisson_arrivals
from desim.workloads.multiserver.job_types import job_types, trace_arrivals
from desim.workloads.multiserver.systems import RESOURCES, from_alibaba, generate

__all__ = [
    "RESOURCES",
    "bernoulli_arrivals",
    "from_alibaba",
    "generate",
    "job_types",
    "periodic_arrivals",
    "poisson_arrivals",
    "trace_arrivals",
]
