"""Alibaba cluster traces: cluster-trace-v2018, cluster-trace-gpu-v2020 and cluster-trace-gpu-v2023.

`machines` and `requests` give what a simulation needs, in one form for all three; `read` and `stream` give any of the
tables in `TABLES` as published. The jobs of v2018 as graphs of tasks are in `desim.workloads.alibaba.dags`, jobs drawn
from its published histograms in `desim.workloads.alibaba.dag_model`.
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
