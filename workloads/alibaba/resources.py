"""Machines of an Alibaba cluster trace, and the requests of its tasks, in the same form for all three traces.

=================== =================== =================== ==================== ====================
column              unit                ``machine_meta``    ``pai_machine_spec`` ``openb_node_list``
=================== =================== =================== ==================== ====================
``machine_id``                          machine_id          machine              sn
``model``           model of GPUs       (empty)             gpu_type, not "CPU"  model
``cpu``             cores               cpu_num             cap_cpu              cpu_milli / 1000
``memory``          GB                  (null)              cap_mem              memory_mib / 1024
``memory_percent``  % of the largest    mem_size            (null)               (null)
``gpu``             GPUs                0                   cap_gpu              gpu
=================== =================== =================== ==================== ====================

A GB is 1,024 MiB. cluster-trace-v2018 states memory only as normalized to 100, so it has a separate column.

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

Times are in seconds, a GB is 1,024 MiB, and amounts are per instance. v2018 and v2020 state only when a task started,
not when it arrived, so ``arrival_time`` omits its wait. (The submission times of v2020's jobs are in
``pai_job_table``.) A duration is known if the task has ended (in v2018 and v2020, with the status Terminated or
Failed) and its end is not before its start; it is null for pods that were never scheduled.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from desim.exceptions import WorkloadError
from desim.workloads.alibaba.reading import read, stream
from desim.workloads.alibaba.tables import find_table
from desim.workloads.files import Pathish

if TYPE_CHECKING:
    import polars as pl

__all__ = ["machines", "requests"]

_ENDED = ("Terminated", "Failed")


def machines(path: Pathish, table: str | None = None) -> pl.DataFrame:
    """Read the machines of a trace.

    Parameters
    ----------
    path : str or path-like
        File of ``machine_meta``, ``pai_machine_spec`` or ``openb_node_list``.
    table : {"machine_meta", "pai_machine_spec", "openb_node_list"}, optional
        Name of the table (default: inferred from the file name).

    Returns
    -------
    polars.DataFrame
        One row per machine, in the order of the file: ``machine_id`` and ``model`` (String; the model of its GPUs,
        empty without GPUs or where unknown), ``cpu`` (cores), ``memory`` (GB) and ``memory_percent`` (Float64, null
        where unknown), ``gpu`` (Int64). ``machine_meta`` has a row per change of a machine's status; only the first row
        of each machine is used.

    Raises
    ------
    WorkloadError
        If the file does not fit the table, a machine occurs twice in a table other than ``machine_meta``, or an
        amount is negative.
    InvalidConfiguration
        If the table is unknown or not one of the three.
    """
    import polars as pl

    unknown = pl.lit(None, dtype=pl.Float64)
    forms: dict[str, dict[str, str | pl.Expr]] = {
        "machine_meta": {
            "machine_id": "machine_id",
            "model": pl.lit(""),
            "cpu": pl.col("cpu_num").cast(pl.Float64),
            "memory": unknown,
            "memory_percent": "mem_size",
            "gpu": pl.lit(0, dtype=pl.Int64),
        },
        "pai_machine_spec": {
            "machine_id": "machine",
            "model": pl.col("gpu_type").replace("CPU", ""),
            "cpu": pl.col("cap_cpu").cast(pl.Float64),
            "memory": "cap_mem",
            "memory_percent": unknown,
            "gpu": "cap_gpu",
        },
        "openb_node_list": {
            "machine_id": "sn",
            "model": pl.col("model").fill_null(""),
            "cpu": pl.col("cpu_milli") / 1000,
            "memory": pl.col("memory_mib") / 1024,
            "memory_percent": unknown,
            "gpu": "gpu",
        },
    }
    name = find_table(path, table, forms).name
    source = os.fspath(path)
    frame = read(path, name)
    if name == "machine_meta":
        frame = frame.unique("machine_id", keep="first", maintain_order=True)
    found = frame.select(**forms[name])
    twice = found["machine_id"].is_duplicated()
    if twice.any():
        raise WorkloadError(f"{source}: machine_id: got {found['machine_id'].filter(twice)[0]!r} more than once")
    _refuse_negative(source, found, "machine_id", ("cpu", "memory", "memory_percent", "gpu"))
    return found


def requests(path: Pathish, table: str | None = None) -> pl.DataFrame:
    """Read the requests of a trace.

    Parameters
    ----------
    path : str or path-like
        File of ``batch_task``, ``pai_task_table`` or ``openb_pod_list``.
    table : {"batch_task", "pai_task_table", "openb_pod_list"}, optional
        Name of the table (default: inferred from the file name).

    Returns
    -------
    polars.DataFrame
        One row per group of identical instances of a task, in the order of the file: ``job_id``, ``task_name``,
        ``status`` and ``gpu_model`` (String; the last is empty if any model is acceptable), ``arrival_time`` and
        ``duration`` (s), ``instances`` (Int64), and, per instance, ``cpu`` (cores), ``memory`` (GB),
        ``memory_percent`` and ``gpu`` (GPUs, fractions allowed). Numbers other than instances are Float64, null where
        unknown.

    Raises
    ------
    WorkloadError
        If the file does not fit the table or an amount is negative.
    InvalidConfiguration
        If the table is unknown or not one of the three.
    """
    import polars as pl

    unknown = pl.lit(None, dtype=pl.Float64)
    task: dict[str, str | pl.Expr] = {
        "job_id": "job_name",
        "task_name": "task_name",
        "status": "status",
        "arrival_time": "start_time",
        "duration": _between("start_time", "end_time", pl.col("status").is_in(_ENDED)),
    }
    forms: dict[str, dict[str, str | pl.Expr]] = {
        "batch_task": task
        | {
            "instances": "instance_num",
            "cpu": pl.col("plan_cpu") / 100,
            "memory": unknown,
            "memory_percent": "plan_mem",
            "gpu": pl.lit(0.0),
            "gpu_model": pl.lit(""),
        },
        "pai_task_table": task
        | {
            "instances": "inst_num",
            "cpu": pl.col("plan_cpu") / 100,
            "memory": "plan_mem",
            "memory_percent": unknown,
            "gpu": pl.col("plan_gpu") / 100,
            "gpu_model": pl.col("gpu_type").fill_null("").replace("CPU", ""),
        },
        "openb_pod_list": {
            "job_id": "name",
            "task_name": pl.lit(""),
            "status": "pod_phase",
            "arrival_time": "creation_time",
            "duration": _between("scheduled_time", "deletion_time", pl.lit(True)),
            "instances": pl.lit(1, dtype=pl.Int64),
            "cpu": pl.col("cpu_milli") / 1000,
            "memory": pl.col("memory_mib") / 1024,
            "memory_percent": unknown,
            "gpu": pl.col("num_gpu") * pl.col("gpu_milli") / 1000,
            "gpu_model": pl.col("gpu_spec").fill_null(""),
        },
    }
    name = find_table(path, table, forms).name
    found = []
    for frame in stream(path, name):
        found.append(frame.select(**forms[name]))
        amounts = ("instances", "cpu", "memory", "memory_percent", "gpu")
        _refuse_negative(os.fspath(path), found[-1], "job_id", amounts)
    return pl.concat(found, rechunk=True)


def _between(start: str, end: str, known: pl.Expr) -> pl.Expr:
    """Return the time between two columns, null where unknown or negative."""
    import polars as pl

    return pl.when(known & (pl.col(end) >= pl.col(start))).then(pl.col(end) - pl.col(start))


def _refuse_negative(source: str, frame: pl.DataFrame, identity: str, columns: tuple[str, ...]) -> None:
    """Raise for the first negative amount of the first column that has one; null is not negative."""
    for column in columns:
        wrong = (frame[column] < 0).fill_null(False)
        if wrong.any():
            row = int(wrong.arg_true()[0])
            amount = frame[column][row]
            raise WorkloadError(f"{source}: {identity} {frame[identity][row]!r}: {column}: got {amount}, expected >= 0")
