"""Alibaba cluster traces: cluster-trace-v2018, cluster-trace-gpu-v2020 and cluster-trace-gpu-v2023.

`machines` and `requests` give what a simulation needs, in one form for all three; `read` and `stream` give any of the
tables in `TABLES` as published.
"""

from __future__ import annotations

from workloads.alibaba.machines import machines
from workloads.alibaba.reading import TableStream, read, stream
from workloads.alibaba.report import TableReport
from workloads.alibaba.requests import requests
from workloads.alibaba.schema import Column, TableSchema
from workloads.alibaba.tables import TABLES, find_table

__all__ = [
    "TABLES",
    "Column",
    "TableReport",
    "TableSchema",
    "TableStream",
    "find_table",
    "machines",
    "read",
    "requests",
    "stream",
]
