"""Schemas of the tables of the Alibaba cluster traces, and the table of a file.

============================ ==================================================================
trace                        tables
============================ ==================================================================
``cluster-trace-v2018``      ``machine_meta``, ``machine_usage``, ``container_meta``,
                             ``container_usage``, ``batch_task``, ``batch_instance``
``cluster-trace-gpu-v2020``  ``pai_job_table``, ``pai_task_table``, ``pai_instance_table``,
                             ``pai_sensor_table``, ``pai_group_tag_table``,
                             ``pai_machine_spec``, ``pai_machine_metric``
``cluster-trace-gpu-v2023``  ``openb_node_list``, ``openb_pod_list``
============================ ==================================================================

Names and units are those of the traces' own descriptions, including misspelled ones (``mkpi``). The descriptions do not
state which columns may be empty. In v2018 and v2020, we require only the columns that identify a row; in v2023 and in
``pai_machine_spec``, we require the columns that have a value in every row of the published files.

Source: the descriptions and header files in https://github.com/alibaba/clusterdata, folders cluster-trace-v2018,
cluster-trace-gpu-v2020 and cluster-trace-gpu-v2023.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal

from desim.exceptions import InvalidConfiguration
from desim.workloads.catalogue import located
from desim.workloads.files import Pathish

__all__ = ["TABLES", "Column", "TableSchema", "find_table"]

Kind = Literal["string", "whole number", "number"]


@dataclass(frozen=True)
class Column:
    """Column of a table.

    Parameters
    ----------
    name : str
        Name as in the source.
    kind : {"string", "whole number", "number"}
        Type of the fields.
    required : bool
        Whether fields must not be empty.
    unit : str
        Unit of a number as stated in the source; empty if it states none.
    minimum, maximum : float or None
        Range as stated in the source.
    invalid : tuple of float
        Numbers that mean an unknown value in the source; they are read as null.
    """

    name: str
    kind: Kind = "string"
    required: bool = False
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    invalid: tuple[float, ...] = ()


@dataclass(frozen=True)
class TableSchema:
    """Table of a trace.

    Parameters
    ----------
    name : str
        Name of the table; the names of its files begin with it.
    trace : str
        Name of the trace.
    columns : tuple of Column
        Columns in the order of the file.
    header : bool
        Whether the published file begins with a header line.
    """

    name: str
    trace: str
    columns: tuple[Column, ...]
    header: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the file."""
        return tuple(column.name for column in self.columns)


Columns = tuple[Column, ...]


def _columns(*names: str, **what: Any) -> Columns:
    return tuple(Column(name, **what) for name in names)


_text: Callable[..., Columns] = _columns
_key = partial(_columns, required=True)
_count = partial(_columns, kind="whole number")
_number = partial(_columns, kind="number")
_seconds = partial(_number, unit="s")
_core_percent = partial(_number, unit="1/100 core")
_gigabytes = partial(_number, unit="GB")
# "Normalized values lie in [0, 100], invalid ones are -1 or 101"
_normalized = partial(_number, unit="normalized", minimum=0.0, maximum=100.0, invalid=(-1.0, 101.0))
_percent = partial(_normalized, unit="percent")

_V2018: dict[str, tuple[Columns, ...]] = {
    "machine_meta": (
        _key("machine_id"),
        _seconds("time_stamp", required=True),
        _count("failure_domain_1"),
        _text("failure_domain_2"),
        _count("cpu_num", unit="cores"),
        _normalized("mem_size"),
        _text("status"),
    ),
    "machine_usage": (
        _key("machine_id"),
        _seconds("time_stamp", required=True),
        _percent("cpu_util_percent", "mem_util_percent"),
        _normalized("mem_gps"),
        _number("mkpi"),
        _normalized("net_in", "net_out"),
        _percent("disk_io_percent"),
    ),
    "container_meta": (
        _key("container_id"),
        _text("machine_id"),
        _seconds("time_stamp", required=True),
        _text("app_du", "status"),
        _core_percent("cpu_request", "cpu_limit"),
        _normalized("mem_size"),
    ),
    "container_usage": (
        _key("container_id"),
        _text("machine_id"),
        _seconds("time_stamp", required=True),
        _percent("cpu_util_percent", "mem_util_percent"),
        _number("cpi"),
        _normalized("mem_gps"),
        _number("mpki"),
        _normalized("net_in", "net_out"),
        _percent("disk_io_percent"),
    ),
    "batch_task": (
        _key("task_name"),
        _count("instance_num"),
        _key("job_name"),
        _text("task_type", "status"),
        _seconds("start_time", "end_time"),
        _core_percent("plan_cpu"),
        _normalized("plan_mem"),
    ),
    "batch_instance": (
        _text("instance_name"),
        _key("task_name", "job_name"),
        _text("task_type", "status"),
        _seconds("start_time", "end_time"),
        _text("machine_id"),
        _count("seq_no", "total_seq_no"),
        _core_percent("cpu_avg", "cpu_max"),
        _normalized("mem_avg", "mem_max"),
    ),
}

_V2020: dict[str, tuple[Columns, ...]] = {
    "pai_job_table": (
        _key("job_name"),
        _text("inst_id", "user", "status"),
        _seconds("start_time", "end_time"),
    ),
    "pai_task_table": (
        _key("job_name", "task_name"),
        _count("inst_num"),
        _text("status"),
        _seconds("start_time", "end_time"),
        _core_percent("plan_cpu"),
        _gigabytes("plan_mem"),
        _number("plan_gpu", unit="1/100 GPU"),
        _text("gpu_type"),
    ),
    "pai_instance_table": (
        _key("job_name", "task_name"),
        _text("inst_name", "worker_name", "inst_id", "status"),
        _seconds("start_time", "end_time"),
        _text("machine"),
    ),
    "pai_sensor_table": (
        _text("job_name", "task_name"),
        _key("worker_name"),
        _text("inst_id", "machine", "gpu_name"),
        _core_percent("cpu_usage"),
        _number("gpu_wrk_util", unit="1/100 GPU"),
        _gigabytes("avg_mem", "max_mem", "avg_gpu_wrk_mem", "max_gpu_wrk_mem"),
        _number("read", "write", unit="bytes"),
        _number("read_count", "write_count"),
    ),
    "pai_group_tag_table": (_key("inst_id"), _text("user", "gpu_type_spec", "group", "workload")),
    "pai_machine_spec": (
        _key("machine", "gpu_type"),
        _count("cap_cpu", required=True, unit="cores"),
        _gigabytes("cap_mem", required=True),
        _count("cap_gpu", required=True, unit="GPUs"),
    ),
    "pai_machine_metric": (
        _key("worker_name"),
        _text("machine"),
        _seconds("start_time", "end_time"),
        _number("machine_cpu_iowait", "machine_cpu_kernel", "machine_cpu_usr", "machine_gpu", "machine_load_1"),
        _number("machine_net_receive", unit="bytes"),
        _number("machine_num_worker", "machine_cpu"),
    ),
}

_V2023: dict[str, tuple[Columns, ...]] = {
    "openb_node_list": (
        _key("sn"),
        _count("cpu_milli", required=True, unit="1/1000 core"),
        _count("memory_mib", required=True, unit="MiB"),
        _count("gpu", required=True, unit="GPUs"),
        _text("model"),
    ),
    "openb_pod_list": (
        _key("name"),
        _count("cpu_milli", required=True, unit="1/1000 core"),
        _count("memory_mib", required=True, unit="MiB"),
        _count("num_gpu", required=True, unit="GPUs"),
        _count("gpu_milli", required=True, unit="1/1000 GPU", minimum=0.0, maximum=1000.0),
        _text("gpu_spec"),
        _key("qos", "pod_phase"),
        _seconds("creation_time", required=True),
        _seconds("deletion_time", "scheduled_time"),
    ),
}

_TRACES = (("cluster-trace-v2018", _V2018), ("cluster-trace-gpu-v2020", _V2020), ("cluster-trace-gpu-v2023", _V2023))

#: All tables by name.
TABLES: Mapping[str, TableSchema] = MappingProxyType(
    {
        name: TableSchema(name, trace, sum(columns, ()), header=trace == "cluster-trace-gpu-v2023")
        for trace, tables in _TRACES
        for name, columns in tables.items()
    }
)


def find_table(path: Pathish, table: str | None = None, among: Iterable[str] = tuple(TABLES)) -> TableSchema:
    """Return the schema of a file's table.

    Parameters
    ----------
    path : str or path-like
        File of the table. If `table` is None, the file name must begin with the name of a table:
        ``openb_pod_list_default.csv`` holds an ``openb_pod_list``.
    table : str, optional
        Name of the table.
    among : iterable of str
        Names of the tables that the caller can use.

    Returns
    -------
    TableSchema
        Schema, one of `TABLES`.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown or not in `among`.
    """
    usable = tuple(among)
    if table is None:
        file_name = PurePath(os.fspath(located(path))).name
        found = next((name for name in TABLES if re.match(rf"{name}(?![A-Za-z0-9])", file_name)), None)
        said = f"{os.fspath(path)}: the file name does not begin with that of a table"
        table = found
        wrong = said if found is None else f"{os.fspath(path)}: got the table {found}"
    else:
        wrong = f"table: got {table!r}"
    if table not in usable:
        raise InvalidConfiguration(f"{wrong}, expected table to be one of {', '.join(usable)}")
    return TABLES[table]
