"""Alibaba cluster traces: cluster-trace-v2018, cluster-trace-gpu-v2020 and cluster-trace-gpu-v2023.

`machines` and `requests` return what a simulation needs, in the same form for all three traces. `read` and `stream`
return any table of `TABLES` as published. `desim.workloads.alibaba.dags` reads the jobs of v2018 as task graphs;
`desim.workloads.alibaba.dag_model` generates jobs from its published histograms.
"""

from __future__ import annotations

from desim.workloads.alibaba.dag_model import DagModel
from desim.workloads.alibaba.dags import DagReason, DagReport, DagStream, jobs
from desim.workloads.alibaba.reading import Finding, TableReport, TableStream, read, stream
from desim.workloads.alibaba.resources import machines, requests
from desim.workloads.alibaba.tables import TABLES, Column, TableSchema

__all__ = [
    "TABLES",
    "Column",
    "DagModel",
    "DagReason",
    "DagReport",
    "DagStream",
    "Finding",
    "TableReport",
    "TableSchema",
    "TableStream",
    "jobs",
    "machines",
    "read",
    "requests",
    "stream",
]
