"""Workloads for the problems of desim: traces that are read, models that are drawn.

Import the module that is needed, such as ``from workloads import lublin, swf``:

========================= ===================================================================
`workloads.swf`           Standard Workload Format logs, read whole or streamed, and written
`workloads.batsim`        Batsim workloads in JSON, read and written
`workloads.lublin`        the Lublin-Feitelson model of supercomputer workloads
`workloads.arrivals`      Poisson arrivals with any run times, for queueing theory
`workloads.multiserver`   systems and arrivals of multi-server jobs, fitted to Alibaba's traces
`workloads.tpch`          DAG jobs like the queries of TPC-H on Spark, drawn or read
`workloads.random_dags`   random DAGs in layers and those of well-known programs
`workloads.wfformat`      workflows in WfFormat, read and written
`workloads.dax`           workflows in Pegasus' DAX, read
`workloads.executors`     executors of different speeds, in racks or not
`workloads.submissions`   when DAG jobs are submitted: batch, Poisson, trace
`workloads.alibaba`       readers of every table of Alibaba's cluster traces
`workloads.job_table`     job tables in Parquet, read and written
`workloads.transform`     offered load, time windows and clocks of job lists
`workloads.trace`         what the readers return: jobs, header and repair report
`workloads.report`        what was dropped, changed or noticed in a file
`workloads.selection`     the options that all readers share
`workloads.registry`      all of these by name or file suffix
========================= ===================================================================
"""
