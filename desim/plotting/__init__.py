"""Figures and reports of batch runs; matplotlib is loaded when the first one is made.

Every function takes one result or a mapping of names to results and returns matplotlib ``Axes``,
whose ``figure`` can be saved. Figures are unknown to pyplot: nothing needs a display, nothing has to
be closed, and no global setting changes. A run keeps its colour in all figures of the same mapping.
"""

from desim.plotting.comparison import compare_metrics
from desim.plotting.curves import queue_length, utilization
from desim.plotting.gantt import gantt
from desim.plotting.report import report
from desim.plotting.waiting import waiting_by_size

__all__ = ["compare_metrics", "gantt", "queue_length", "report", "utilization", "waiting_by_size"]
