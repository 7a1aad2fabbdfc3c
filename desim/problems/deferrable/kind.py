"""What desim knows of the problem ``deferrable``."""

from __future__ import annotations

from desim.problem import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="deferrable",
    description="Jobs that may start within a window, in a capacity that on-demand jobs leave.",
    time_unit="slots",
    metrics_from="desim.metrics:DEFERRABLE",
    environment="desim.problems.deferrable.env:DeferrableEnv",
    system_from="desim.problems.deferrable.options:SYSTEM",
    agents=("desim.agents.deferrable.registry",),
    workloads=("desim.workloads.deferrable.registry",),
    episodes="desim.workloads.deferrable.registry:draw",
    trainings={"deferrable": "desim.agents.deferrable.command:TrainingOptions"},
    workload="jobs",
    progress=("slot", "slots"),
)
