"""Figures and reports of runs; matplotlib is loaded when the first one is made.

Every function takes one result or a mapping of names to results and returns matplotlib ``Axes``,
whose ``figure`` can be saved. Figures are unknown to pyplot: nothing needs a display, nothing has to
be closed, and no global setting changes. A run keeps its colour in all figures of the same mapping.

Of batch runs: :func:`gantt`, :func:`utilization`, :func:`queue_length`, :func:`waiting_by_size`, :func:`report`. Of
runs of DAG jobs: :func:`gantt` and, with more options, :func:`executor_gantt`, :func:`executor_utilization`,
:func:`utilization`, :func:`jobs_in_system`; :func:`dag_drawing` takes a job. Of runs of a multi-server cluster:
:func:`allocation_map`, :func:`average_reward`, :func:`cumulative_reward`, :func:`reward_ratio`, :func:`reward_parts`,
:func:`resource_utilization`; :func:`bipartite_drawing` takes its graph. Of runs of deferrable jobs:
:func:`capacity_use`, :func:`known_work`, and :func:`job_windows`, which is also what :func:`gantt` draws of them.
:func:`compare_metrics` and :func:`metric_lines` take the metrics of any runs, :func:`decision_time_cdf` takes decision
times, :func:`critical_differences` and :func:`performance_profiles` what :mod:`desim.statistics` makes of metrics.
"""

from desim.plotting.allocation_maps import allocation_map
from desim.plotting.bipartite import bipartite_drawing
from desim.plotting.capacity_use import capacity_use
from desim.plotting.comparison import compare_metrics
from desim.plotting.curves import queue_length, utilization
from desim.plotting.dag_drawing import dag_drawing
from desim.plotting.decision_times import decision_time_cdf
from desim.plotting.executor_gantt import executor_gantt
from desim.plotting.executor_utilization import executor_utilization
from desim.plotting.gantt import gantt
from desim.plotting.job_windows import job_windows
from desim.plotting.jobs_in_system import jobs_in_system
from desim.plotting.known_work import known_work
from desim.plotting.metric_lines import metric_lines
from desim.plotting.rankings import critical_differences, performance_profiles
from desim.plotting.report import Comparison, ReportTable, report
from desim.plotting.resources import resource_utilization
from desim.plotting.rewards import average_reward, cumulative_reward, reward_parts, reward_ratio
from desim.plotting.waiting import waiting_by_size

__all__ = [
    "Comparison",
    "ReportTable",
    "allocation_map",
    "average_reward",
    "bipartite_drawing",
    "capacity_use",
    "compare_metrics",
    "critical_differences",
    "cumulative_reward",
    "dag_drawing",
    "decision_time_cdf",
    "executor_gantt",
    "executor_utilization",
    "gantt",
    "job_windows",
    "jobs_in_system",
    "known_work",
    "metric_lines",
    "performance_profiles",
    "queue_length",
    "report",
    "resource_utilization",
    "reward_parts",
    "reward_ratio",
    "utilization",
    "waiting_by_size",
]
