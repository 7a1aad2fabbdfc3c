"""What desim knows of the problem ``multiserver``."""

from __future__ import annotations

from desim.problem import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="multiserver",
    description="Multi-server jobs of several types on nodes that are shared out anew in every slot.",
    time_unit="slots",
    metrics_from="desim.metrics:MULTISERVER",
    environment="desim.problems.multiserver.env:MultiServerEnv",
    system_from="desim.problems.multiserver.options:SYSTEM",
    agents=("desim.agents.multiserver.registry",),
    workloads=("desim.workloads.multiserver.registry",),
    episodes="desim.workloads.multiserver.registry:draw",
    workload="arrivals",
    progress=("slot", "slots"),
)
