"""The tables of the Alibaba cluster traces, and which of them a file holds.

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

Names and units are those of the traces' own descriptions, misspelled ones included (``mkpi``). These do not say which
columns may be empty. In v2018 and v2020 only those are required here that tell what a row is about; in v2023, and in
``pai_machine_spec``, those are that have a value in every row of the published files.

Source: the descriptions and header files in https://github.com/alibaba/clusterdata, folders cluster-trace-v2018,
cluster-trace-gpu-v2020 and cluster-trace-gpu-v2023.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import PurePath
from types import MappingProxyType

from desim.exceptions import InvalidConfiguration
from desim.workloads._files import Pathish
from desim.workloads.alibaba.schema import Column, TableSchema

__all__ = ["TABLES", "find_table"]

_key = partial(Column, required=True)
_count = partial(Column, kind="whole number")
_number = partial(Column, kind="number")
_seconds = partial(Column, kind="number", unit="s")
_core_percent = partial(Column, kind="number", unit="1/100 core")
_gigabytes = partial(Column, kind="number", unit="GB")
# "Normalized values lie in [0, 100], invalid ones are -1 or 101"
_normalized = partial(Column, kind="number", unit="normalized", minimum=0.0, maximum=100.0, invalid=(-1.0, 101.0))
_percent = partial(_normalized, unit="percent")

_V2018 = {
    "machine_meta": (
        _key("machine_id"),
        _seconds("time_stamp", required=True),
        _count("failure_domain_1"),
        Column("failure_domain_2"),
        _count("cpu_num", unit="cores"),
        _normalized("mem_size"),
        Column("status"),
    ),
    "machine_usage": (
        _key("machine_id"),
        _seconds("time_stamp", required=True),
        _percent("cpu_util_percent"),
        _percent("mem_util_percent"),
        _normalized("mem_gps"),
        _number("mkpi"),
        _normalized("net_in"),
        _normalized("net_out"),
        _percent("disk_io_percent"),
    ),
    "container_meta": (
        _key("container_id"),
        Column("machine_id"),
        _seconds("time_stamp", required=True),
        Column("app_du"),
        Column("status"),
        _core_percent("cpu_request"),
        _core_percent("cpu_limit"),
        _normalized("mem_size"),
    ),
    "container_usage": (
        _key("container_id"),
        Column("machine_id"),
        _seconds("time_stamp", required=True),
        _percent("cpu_util_percent"),
        _percent("mem_util_percent"),
        _number("cpi"),
        _normalized("mem_gps"),
        _number("mpki"),
        _normalized("net_in"),
        _normalized("net_out"),
        _percent("disk_io_percent"),
    ),
    "batch_task": (
        _key("task_name"),
        _count("instance_num"),
        _key("job_name"),
        Column("task_type"),
        Column("status"),
        _seconds("start_time"),
        _seconds("end_time"),
        _core_percent("plan_cpu"),
        _normalized("plan_mem"),
    ),
    "batch_instance": (
        Column("instance_name"),
        _key("task_name"),
        _key("job_name"),
        Column("task_type"),
        Column("status"),
        _seconds("start_time"),
        _seconds("end_time"),
        Column("machine_id"),
        _count("seq_no"),
        _count("total_seq_no"),
        _core_percent("cpu_avg"),
        _core_percent("cpu_max"),
        _normalized("mem_avg"),
        _normalized("mem_max"),
    ),
}

_V2020 = {
    "pai_job_table": (
        _key("job_name"),
        Column("inst_id"),
        Column("user"),
        Column("status"),
        _seconds("start_time"),
        _seconds("end_time"),
    ),
    "pai_task_table": (
        _key("job_name"),
        _key("task_name"),
        _count("inst_num"),
        Column("status"),
        _seconds("start_time"),
        _seconds("end_time"),
        _core_percent("plan_cpu"),
        _gigabytes("plan_mem"),
        _number("plan_gpu", unit="1/100 GPU"),
        Column("gpu_type"),
    ),
    "pai_instance_table": (
        _key("job_name"),
        _key("task_name"),
        Column("inst_name"),
        Column("worker_name"),
        Column("inst_id"),
        Column("status"),
        _seconds("start_time"),
        _seconds("end_time"),
        Column("machine"),
    ),
    "pai_sensor_table": (
        Column("job_name"),
        Column("task_name"),
        _key("worker_name"),
        Column("inst_id"),
        Column("machine"),
        Column("gpu_name"),
        _core_percent("cpu_usage"),
        _number("gpu_wrk_util", unit="1/100 GPU"),
        _gigabytes("avg_mem"),
        _gigabytes("max_mem"),
        _gigabytes("avg_gpu_wrk_mem"),
        _gigabytes("max_gpu_wrk_mem"),
        _number("read", unit="bytes"),
        _number("write", unit="bytes"),
        _number("read_count"),
        _number("write_count"),
    ),
    "pai_group_tag_table": (
        _key("inst_id"),
        Column("user"),
        Column("gpu_type_spec"),
        Column("group"),
        Column("workload"),
    ),
    "pai_machine_spec": (
        _key("machine"),
        _key("gpu_type"),
        _count("cap_cpu", required=True, unit="cores"),
        _gigabytes("cap_mem", required=True),
        _count("cap_gpu", required=True, unit="GPUs"),
    ),
    "pai_machine_metric": (
        _key("worker_name"),
        Column("machine"),
        _seconds("start_time"),
        _seconds("end_time"),
        _number("machine_cpu_iowait"),
        _number("machine_cpu_kernel"),
        _number("machine_cpu_usr"),
        _number("machine_gpu"),
        _number("machine_load_1"),
        _number("machine_net_receive", unit="bytes"),
        _number("machine_num_worker"),
        _number("machine_cpu"),
    ),
}

_V2023 = {
    "openb_node_list": (
        _key("sn"),
        _count("cpu_milli", required=True, unit="1/1000 core"),
        _count("memory_mib", required=True, unit="MiB"),
        _count("gpu", required=True, unit="GPUs"),
        Column("model"),
    ),
    "openb_pod_list": (
        _key("name"),
        _count("cpu_milli", required=True, unit="1/1000 core"),
        _count("memory_mib", required=True, unit="MiB"),
        _count("num_gpu", required=True, unit="GPUs"),
        _count("gpu_milli", required=True, unit="1/1000 GPU", minimum=0.0, maximum=1000.0),
        Column("gpu_spec"),
        _key("qos"),
        _key("pod_phase"),
        _seconds("creation_time", required=True),
        _seconds("deletion_time"),
        _seconds("scheduled_time"),
    ),
}

_TRACES = (("cluster-trace-v2018", _V2018), ("cluster-trace-gpu-v2020", _V2020), ("cluster-trace-gpu-v2023", _V2023))

#: Every table by its name.
TABLES: Mapping[str, TableSchema] = MappingProxyType(
    {
        name: TableSchema(name, trace, columns, header=trace == "cluster-trace-gpu-v2023")
        for trace, tables in _TRACES
        for name, columns in tables.items()
    }
)


def find_table(path: Pathish, table: str | None = None, among: Iterable[str] = tuple(TABLES)) -> TableSchema:
    """Return the schema of the table that a file holds.

    Parameters
    ----------
    path : str or path-like
        The file; its name decides where `table` is None: it must begin with that of a table
        (``openb_pod_list_default.csv`` holds an ``openb_pod_list``).
    table : str, optional
        Name of the table.
    among : iterable of str
        The tables that the caller can use.

    Returns
    -------
    TableSchema
        One of `TABLES`.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown, or none of `among`.
    """
    usable = tuple(among)
    if table is None:
        file_name = PurePath(os.fspath(path)).name
        found = next((name for name in TABLES if re.match(rf"{name}(?![A-Za-z0-9])", file_name)), None)
        said = f"{os.fspath(path)}: the file name does not say which table it holds"
        table = found
        wrong = said if found is None else f"{os.fspath(path)}: holds the table {found}"
    else:
        wrong = f"table is {table!r}"
    if table not in usable:
        raise InvalidConfiguration(f"{wrong}, want table to be one of {', '.join(usable)}")
    return TABLES[table]
