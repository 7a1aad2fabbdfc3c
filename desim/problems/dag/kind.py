"""Descriptor of the problem ``dag``: its tables, metrics, agents, workloads and trainings."""

from __future__ import annotations

from desim.problem import ProblemDescriptor
from desim.problems.dag.tables import INFO, TABLES, info_faults

__all__ = ["KIND"]

KIND = ProblemDescriptor(
    name="dag",
    description="Jobs that are task graphs, on executors of different speeds, with data transfers.",
    tables=TABLES,
    info=INFO,
    info_faults=info_faults,
    metrics_from="desim.problems.dag.metrics:METRICS",
    rules_from="desim.problems.dag.rules:RULES",
    figures_from="desim.problems.dag.figures:FIGURES",
    words_from="desim.problems.dag.figures:WORDS",
    view_from="desim.problems.dag.view:view",
    environment="desim.problems.dag.env:DagEnv",
    system_from="desim.problems.dag.options:SYSTEM",
    instances_from="desim.problems.dag.adversarial:DagInstance",
    agents=("desim.agents.dag.registry",),
    workloads=("desim.workloads.dag.registry", "desim.workloads.alibaba.registry"),
    episodes="desim.workloads.dag.registry:draw",
    trainings={
        "dag": "desim.agents.dag.training:GraphTraining",
        "dag-lachesis": "desim.agents.dag.training:LachesisTraining",
        "dag-decima": "desim.agents.dag.training:DecimaTraining",
    },
    same_workload={"jobs": ("job_id", "submission_time", "num_nodes", "num_edges", "work", "data_size")},
    workload="jobs",
    progress=("job_completion", "jobs"),
)
