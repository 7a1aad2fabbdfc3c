"""Workloads for the problems of desim: traces that are read, models that are drawn.

Each problem has a folder, and each trace family that serves several problems. Modules can be imported from here by
their short names, such as ``from desim.workloads import lublin, swf, tpch``:

============================= =======================================================================================
`batch.swf`                   Standard Workload Format logs, read whole or streamed, and written
`batch.batsim`                Batsim workloads in JSON, read and written
`batch.job_table`             job tables: data frames, CSV and Parquet files
`batch.requests`              columns of job tables that say what jobs request of nodes
`batch.node_file`             nodes of a YAML or CSV file, or from counts
`batch.cerit`                 CERIT-SC's log of 2013 with nodes, memory and queues
`batch.philly`                Philly's GPU jobs and machines
`batch.gavel`                 Gavel's measured throughputs: run times of training jobs by model of GPU
`batch.lublin`                the Lublin-Feitelson model of supercomputer workloads
`batch.arrivals`              Poisson arrivals with any run times, for queueing theory
`batch.transform`             offered load, time windows and clocks of job lists
`batch.trace`                 what the readers return: jobs, header and repair report
`batch.selection`             the options that the readers share
`dag.tpch`                    DAG jobs like the queries of TPC-H on Spark, drawn or read
`dag.random_dags`             random DAGs in layers and those of well-known programs
`dag.wfformat`                workflows in WfFormat, read and written
`dag.dax`                     workflows in Pegasus' DAX, read
`dag.executors`               executors of different speeds, in racks or not
`dag.submissions`             when DAG jobs are submitted: batch, Poisson, trace
`deferrable`                  deferrable jobs and the capacity that is left for them, drawn
`multiserver`                 systems and arrivals of multi-server jobs, fitted to Alibaba's traces or taken from them
`alibaba`                     every table of Alibaba's cluster traces, its jobs as graphs, and a model of them
`azure`                       virtual machines of Azure's traces, as on-demand load or as deferrable jobs
`report`                      the repair report of all readers
============================= =======================================================================================

The module ``registry`` of each problem knows these by name or file: ``descriptions()`` lists them, ``draw(rng, ...)``
draws what an episode is made of, ``read(path)`` reads a file where there are any.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from desim.workloads.batch import arrivals, batsim, job_table, lublin, swf, transform
    from desim.workloads.dag import dax, executors, random_dags, submissions, tpch, wfformat
else:

    def __getattr__(name: str) -> ModuleType:
        """Import a module of a problem when it is asked for."""
        from importlib import import_module
        from importlib.util import find_spec

        found = (f"{__name__}.{folder}.{name}" for folder in ("batch", "dag") if name in __all__)
        module = next(filter(find_spec, found), None)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(module)


__all__ = [
    "arrivals",
    "batsim",
    "dax",
    "executors",
    "job_table",
    "lublin",
    "random_dags",
    "submissions",
    "swf",
    "tpch",
    "transform",
    "wfformat",
]
