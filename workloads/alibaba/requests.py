"""What the tasks of an Alibaba cluster trace requested, in one form for all three traces.

================== ======================= ======================= =======================================
column             ``batch_task``          ``pai_task_table``      ``openb_pod_list``
================== ======================= ======================= =======================================
``job_id``         job_name                job_name                name
``task_name``      task_name               task_name               (empty: a pod is a job of one task)
``status``         status                  status                  pod_phase
``arrival_time``   start_time              start_time              creation_time
``duration``       end_time - start_time   end_time - start_time   deletion_time - scheduled_time
``instances``      instance_num            inst_num                1
``cpu``            plan_cpu / 100          plan_cpu / 100          cpu_milli / 1000
``memory``         (null)                  plan_mem                memory_mib / 1024
``memory_percent`` plan_mem                (null)                  (null)
``gpu``            0                       plan_gpu / 100          num_gpu x gpu_milli / 1000
``gpu_model``      (empty)                 gpu_type, not "CPU"     gpu_spec, several joined by ``|``
================== ======================= ======================= =======================================

Times are in seconds, a GB is 1024 MiB, and amounts are for one instance. v2018 and v2020 do not tell when a task
arrived, only when it began: its wait is missing from ``arrival_time``. (The submission times of v2020's jobs are in
``pai_job_table``.) A duration is known if the task has ended, in v2018 and v2020 with the status Terminated or
Failed, and not before it began; it is null for pods that were never scheduled.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from desim.workloads._files import Pathish
from desim.workloads.alibaba._amounts import refuse_negative
from desim.workloads.alibaba.reading import stream
from desim.workloads.alibaba.tables import find_table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["requests"]

_ENDED = ("Terminated", "Failed")


def requests(path: Pathish, table: str | None = None, *, max_rows: int | None = None) -> pl.DataFrame:
    """Read the requests of a trace.

    Parameters
    ----------
    path : str or path-like
        A file of ``batch_task``, ``pai_task_table`` or ``openb_pod_list``.
    table : {"batch_task", "pai_task_table", "openb_pod_list"}, optional
        Which of them; by default the file name decides.
    max_rows : int, optional
        Stop after so many rows.

    Returns
    -------
    polars.DataFrame
        One row a group of like instances of a task, in the order of the file: ``job_id``, ``task_name``, ``status``
        and ``gpu_model`` (String; the last one is empty where any model will do), ``arrival_time`` and ``duration``
        (s), ``instances`` (Int64), and for each instance ``cpu`` (cores), ``memory`` (GB), ``memory_percent`` and
        ``gpu`` (GPUs, fractions allowed). Numbers are Float64 but for the instances, null where unknown.

    Raises
    ------
    WorkloadError
        If the file does not fit the table or an amount is negative.
    InvalidConfiguration
        If the table is unknown or none of the three, or `max_rows` is not positive.
    """
    import polars as pl

    forms = {"batch_task": _v2018, "pai_task_table": _v2020, "openb_pod_list": _v2023}
    name = find_table(path, table, forms).name
    found = []
    for frame in stream(path, name, max_rows=max_rows):
        found.append(forms[name](frame))
        refuse_negative(os.fspath(path), found[-1], "job_id", ("instances", "cpu", "memory", "memory_percent", "gpu"))
    return pl.concat(found, rechunk=True)


def _between(start: str, end: str, known: pl.Expr) -> pl.Expr:
    """Return the time between two columns, null where it is not known or negative."""
    import polars as pl

    return pl.when(known & (pl.col(end) >= pl.col(start))).then(pl.col(end) - pl.col(start))


def _v2018(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.select(
        job_id="job_name",
        task_name="task_name",
        status="status",
        arrival_time="start_time",
        duration=_between("start_time", "end_time", pl.col("status").is_in(_ENDED)),
        instances="instance_num",
        cpu=pl.col("plan_cpu") / 100,
        memory=pl.lit(None, dtype=pl.Float64),
        memory_percent="plan_mem",
        gpu=pl.lit(0.0),
        gpu_model=pl.lit(""),
    )


def _v2020(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.select(
        job_id="job_name",
        task_name="task_name",
        status="status",
        arrival_time="start_time",
        duration=_between("start_time", "end_time", pl.col("status").is_in(_ENDED)),
        instances="inst_num",
        cpu=pl.col("plan_cpu") / 100,
        memory="plan_mem",
        memory_percent=pl.lit(None, dtype=pl.Float64),
        gpu=pl.col("plan_gpu") / 100,
        gpu_model=pl.col("gpu_type").fill_null("").replace("CPU", ""),
    )


def _v2023(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.select(
        job_id="name",
        task_name=pl.lit(""),
        status="pod_phase",
        arrival_time="creation_time",
        duration=_between("scheduled_time", "deletion_time", pl.lit(True)),
        instances=pl.lit(1, dtype=pl.Int64),
        cpu=pl.col("cpu_milli") / 1000,
        memory=pl.col("memory_mib") / 1024,
        memory_percent=pl.lit(None, dtype=pl.Float64),
        gpu=pl.col("num_gpu") * pl.col("gpu_milli") / 1000,
        gpu_model=pl.col("gpu_spec").fill_null(""),
    )
