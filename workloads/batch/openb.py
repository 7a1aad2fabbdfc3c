"""Nodes and pods of openb: Alibaba's cluster-trace-gpu-v2023 and workloads derived from it.

Reference: Weng, Yang, Yu, Wang, Tang, Yang and Zhang, "Beware of fragmentation: scheduling GPU-sharing workloads with
fragmentation gradient descent", USENIX ATC 2023.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from typing import Any, NamedTuple, TypeVar

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import GPU, Node, Request
from desim.workloads.files import Pathish, read_text

__all__ = ["CPU", "Pod", "read_nodes", "read_pods"]

CPU = "cpu_milli"
"""Resource that counts CPUs in thousandths, because pods request fractions of CPUs and cores are integers."""

Made = TypeVar("Made")


class Pod(NamedTuple):
    """Pod of the trace: a name and a request.

    Attributes
    ----------
    name : str
        Name, unique in the file.
    request : Request
        Request of one task with one core; its CPUs are counted by :data:`CPU`.
    """

    name: str
    request: Request


def read_nodes(path: Pathish) -> list[Node]:
    """Return the nodes of a file such as ``openb_node_list_gpu_node.csv``.

    Parameters
    ----------
    path : path-like
        CSV file with the columns ``sn``, ``cpu_milli``, ``memory_mib``, ``gpu`` and ``model``.

    Returns
    -------
    list of Node
        Nodes in the order of the file. CPUs are both cores and :data:`CPU`; memory is in bytes.

    Raises
    ------
    WorkloadError
        If the file cannot be read; the message names file, line and column.
    """
    return list(_rows(path, ("sn", CPU, "memory_mib", "gpu", "model"), _node))


def read_pods(path: Pathish) -> list[Pod]:
    """Return the pods of a file such as ``openb_pod_list_default.csv``.

    Parameters
    ----------
    path : path-like
        CSV file with the columns ``name``, ``cpu_milli``, ``memory_mib``, ``num_gpu`` and ``gpu_milli``, and
        optionally ``gpu_spec``; times are not read.

    Returns
    -------
    list of Pod
        Pods in the order of the file.

    Raises
    ------
    WorkloadError
        If the file cannot be read; the message names file, line and column.
    """
    return list(_rows(path, ("name", CPU, "memory_mib", "num_gpu", "gpu_milli"), _pod))


def _node(row: Mapping[str, str]) -> Node:
    cpu = int(row[CPU])
    return Node(
        row["sn"],
        cpu // 1000,
        memory=int(row["memory_mib"]) << 20,
        gpus=int(row["gpu"]),
        gpu_model=row["model"],
        resources={CPU: cpu},
    )


def _pod(row: Mapping[str, str]) -> Pod:
    count, share = int(row["num_gpu"]), int(row["gpu_milli"])
    if not 0 <= share <= GPU or (count != 1 and share != (GPU if count else 0)):
        raise ValueError(f"gpu_milli: got {share} with num_gpu {count}, expected a fraction only for num_gpu 1")
    request = Request(
        memory=int(row["memory_mib"]) << 20,
        gpus=count * share / GPU,
        gpu_models=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),  # unsorted: pods differ by the text
        resources=((CPU, int(row[CPU])),),
    )
    if fault := request.fault():
        raise ValueError(fault)
    return Pod(row["name"], request)


def _rows(path: Pathish, columns: tuple[str, ...], make: Callable[[Mapping[str, Any]], Made]) -> Iterator[Made]:
    """Yield the object made from each row of a file."""
    reader = csv.DictReader(StringIO(read_text(path)))
    try:
        if missing := set(columns) - set(reader.fieldnames or ()):
            raise WorkloadError(f"{path}: no column {sorted(missing)[0]!r}; expected {', '.join(columns)}")
        for row in reader:
            try:
                yield make(row)
            except (ValueError, TypeError, InvalidConfiguration) as error:
                raise WorkloadError(f"{path}, line {reader.line_num}: {error}") from error
    except csv.Error as error:
        raise WorkloadError(f"{path}: line {reader.line_num}: {error}") from error
