"""Workloads for the problems of desim: traces that are read, models that are drawn.

Import the module that is needed, such as ``from workloads import lublin, swf``:

========================= ===================================================================
`desim.workloads.swf`           Standard Workload Format logs, read whole or streamed, and written
`desim.workloads.batsim`        Batsim workloads in JSON, read and written
`desim.workloads.lublin`        the Lublin-Feitelson model of supercomputer workloads
`desim.workloads.arrivals`      Poisson arrivals with any run times, for queueing theory
`desim.workloads.multiserver`   systems and arrivals of multi-server jobs, fitted to Alibaba's traces
`desim.workloads.tpch`          DAG jobs like the queries of TPC-H on Spark, drawn or read
`desim.workloads.random_dags`   random DAGs in layers and those of well-known programs
`desim.workloads.wfformat`      workflows in WfFormat, read and written
`desim.workloads.dax`           workflows in Pegasus' DAX, read
`desim.workloads.executors`     executors of different speeds, in racks or not
`desim.workloads.submissions`   when DAG jobs are submitted: batch, Poisson, trace
`desim.workloads.alibaba`       readers of every table of Alibaba's cluster traces
`desim.workloads.job_table`     job tables in Parquet, read and written
`desim.workloads.transform`     offered load, time windows and clocks of job lists
`desim.workloads.trace`         what the readers return: jobs, header and repair report
`desim.workloads.report`        what was dropped, changed or noticed in a file
`desim.workloads.selection`     the options that all readers share
`desim.workloads.registry`      all of these by name or file suffix
========================= ===================================================================
"""
