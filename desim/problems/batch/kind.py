"""Descriptor of the problem ``batch``."""

from __future__ import annotations

from desim.problem import ProblemDescriptor
from desim.problems.batch.parts import gathered
from desim.problems.batch.tables import INFO, TABLES

__all__ = ["KIND"]

KIND = ProblemDescriptor(
    name="batch",
    description="A queue of parallel jobs for cores, or for nodes with memory and GPUs.",
    tables=(*TABLES, *gathered("TABLES")),
    info=(*INFO, *gathered("INFO")),
    former_info={"kill_at_request": "enforce_time_limit", "grace": "over_time_limit"},
    metrics_from="desim.problems.batch.metrics:METRICS",
    rules_from="desim.problems.batch.rules:RULES",
    figures_from="desim.problems.batch.node_figures:FIGURES",
    words_from="desim.problems.batch.figures:WORDS",
    view_from="desim.problems.batch.view:view",
    environment="desim.problems.batch.env:BatchEnv",
    vector_environment="desim.problems.batch.vector_env:BatchVectorEnv",
    system_from="desim.problems.batch.options:SYSTEM",
    instances_from="desim.problems.batch.adversarial:BatchInstance",
    agents=("desim.agents.batch.registry",),
    workloads=("desim.workloads.batch.registry",),
    episodes="desim.workloads.batch.registry:draw",
    trainings={
        "batch": "desim.agents.batch.training:SplitWindowTraining",
        "batch-dbf": "desim.agents.batch.training:DBFTraining",
        "batch-inspector": "desim.agents.batch.training:InspectorTraining",
        "batch-schedinspector": "desim.agents.batch.training:SchedInspectorTraining",
    },
    same_workload={
        "jobs": ("job_id", "submission_time", "requested_number_of_resources", "requested_time", "run_time")
    },
    workload="jobs",
    progress=("completion", "jobs"),
)
