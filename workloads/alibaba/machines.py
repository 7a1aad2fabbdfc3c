"""The machines of an Alibaba cluster trace, in one form for all three traces.

=================== =================== =================== =================== ====================
column              unit                ``machine_meta``    ``pai_machine_spec`` ``openb_node_list``
=================== =================== =================== =================== ====================
``machine_id``                          machine_id          machine             sn
``model``           of the GPUs         (empty)             gpu_type, not "CPU" model
``cpu``             cores               cpu_num             cap_cpu             cpu_milli / 1000
``memory``          GB                  (null)              cap_mem             memory_mib / 1024
``memory_percent``  of the largest      mem_size            (null)              (null)
``gpu``             GPUs                0                   cap_gpu             gpu
=================== =================== =================== =================== ====================

A GB is 1024 MiB. cluster-trace-v2018 states memory only as normalized to 100, hence the column of its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from desim.exceptions import WorkloadError
from desim.workloads._files import Pathish
from desim.workloads.alibaba._amounts import refuse_negative
from desim.workloads.alibaba.reading import read
from desim.workloads.alibaba.tables import find_table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["machines"]


def machines(path: Pathish, table: str | None = None) -> pl.DataFrame:
    """Read the machines of a trace.

    Parameters
    ----------
    path : str or path-like
        A file of ``machine_meta``, ``pai_machine_spec`` or ``openb_node_list``.
    table : {"machine_meta", "pai_machine_spec", "openb_node_list"}, optional
        Which of them; by default the file name decides.

    Returns
    -------
    polars.DataFrame
        One row a machine, in the order of the file: ``machine_id`` and ``model`` (String; the model of its GPUs, empty
        without GPUs or where unknown), ``cpu`` (cores), ``memory`` (GB) and ``memory_percent`` (Float64, null where
        unknown), ``gpu`` (Int64). ``machine_meta`` has a row for each change of a machine's status: the first one in
        the file counts.

    Raises
    ------
    WorkloadError
        If the file does not fit the table, a machine of another table than ``machine_meta`` appears twice, or an
        amount is negative.
    InvalidConfiguration
        If the table is unknown or none of the three.
    """
    forms = {"machine_meta": _v2018, "pai_machine_spec": _v2020, "openb_node_list": _v2023}
    name = find_table(path, table, forms).name
    source = os.fspath(path)
    found = forms[name](read(path, name))
    twice = found["machine_id"].is_duplicated()
    if twice.any():
        raise WorkloadError(f"{source}: machine_id {found['machine_id'].filter(twice)[0]!r} appears more than once")
    refuse_negative(source, found, "machine_id", ("cpu", "memory", "memory_percent", "gpu"))
    return found


def _v2018(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.unique("machine_id", keep="first", maintain_order=True).select(
        "machine_id",
        model=pl.lit(""),
        cpu=pl.col("cpu_num").cast(pl.Float64),
        memory=pl.lit(None, dtype=pl.Float64),
        memory_percent="mem_size",
        gpu=pl.lit(0, dtype=pl.Int64),
    )


def _v2020(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.select(
        machine_id="machine",
        model=pl.col("gpu_type").replace("CPU", ""),
        cpu=pl.col("cap_cpu").cast(pl.Float64),
        memory="cap_mem",
        memory_percent=pl.lit(None, dtype=pl.Float64),
        gpu="cap_gpu",
    )


def _v2023(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.select(
        machine_id="sn",
        model=pl.col("model").fill_null(""),
        cpu=pl.col("cpu_milli") / 1000,
        memory=pl.col("memory_mib") / 1024,
        memory_percent=pl.lit(None, dtype=pl.Float64),
        gpu="gpu",
    )
