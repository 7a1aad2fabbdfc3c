"""Nodes and pods of openb: Alibaba's cluster-trace-gpu-v2023, and workloads derived from it.

Reference: Weng, Yang, Yu, Wang, Tang, Yang and Zhang, "Beware of fragmentation: scheduling GPU-sharing workloads with
fragmentation gradient descent", USENIX ATC 2023.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import GPU, Node, Request
from desim.workloads.files import Pathish

__all__ = ["CPU", "Pod", "read_nodes", "read_pods"]

CPU = "cpu_milli"
"""The resource that CPUs are counted in, in thousandths; pods request fractions of them, and at least one."""

Made = TypeVar("Made")


class Pod(NamedTuple):
    """A pod.

    Attributes
    ----------
    name : str
        Unique in its file.
    request : Request
        A task of one core, the CPUs being counted by :data:`CPU`.
    """

    name: str
    request: Request


def read_nodes(path: Pathish) -> list[Node]:
    """Return the nodes of a file such as ``openb_node_list_gpu_node.csv``.

    Parameters
    ----------
    path : path-like
        With the columns ``sn``, ``cpu_milli``, ``memory_mib``, ``gpu`` and ``model``.

    Returns
    -------
    list of Node
        In the order of the file. CPUs are cores, and :data:`CPU` as well; memory is in bytes.

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
        With the columns ``name``, ``cpu_milli``, ``memory_mib``, ``num_gpu`` and ``gpu_milli``, and perhaps
        ``gpu_spec``; times play no part.

    Returns
    -------
    list of Pod
        In the order of the file.

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
        raise ValueError(f"num_gpu is {count} and gpu_milli {share}: only a pod of one GPU may ask for a part of it")
    request = Request(
        memory=int(row["memory_mib"]) << 20,
        gpus=count * share / GPU,
        gpu_models=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),  # as written: kinds differ by the text
        resources=((CPU, int(row[CPU])),),
    )
    if fault := request.fault():
        raise ValueError(fault)
    return Pod(row["name"], request)


def _rows(path: Pathish, columns: tuple[str, ...], make: Callable[[Mapping[str, Any]], Made]) -> Iterator[Made]:
    """Yield what is made of each row of a file."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if missing := set(columns) - set(reader.fieldnames or ()):
                raise WorkloadError(f"{path}: no column {sorted(missing)[0]!r}; want {', '.join(columns)}")
            for row in reader:
                try:
                    yield make(row)
                except (ValueError, TypeError, InvalidConfiguration) as error:
                    raise WorkloadError(f"{path}, line {reader.line_num}: {error}") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"{path} cannot be read: {error}") from error
