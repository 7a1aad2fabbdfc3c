"""What desim knows of the problem ``dag``."""

from __future__ import annotations

from desim.problem import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="dag",
    description="Jobs that are graphs of tasks on executors of different speeds, with data transfers.",
    metrics_from="desim.metrics:DAG",
    environment="desim.problems.dag.env:DagEnv",
    system_from="desim.problems.dag.options:SYSTEM",
    agents=("desim.agents.dag.registry",),
    workloads=("desim.workloads.workflows",),
    episodes="desim.workloads.episodes:dag",
    trainings={"dag": "desim.agents.dag.command:TrainingOptions"},
    workload="jobs",
    progress=("job_completion", "jobs"),
)
