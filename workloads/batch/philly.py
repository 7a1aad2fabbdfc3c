"""Philly: GPU jobs of Microsoft's clusters, and the machines on which they ran.

The reader takes the reduced trace with the columns ``timestamp``, ``duration``, ``num_gpus``, ``gpu_time`` and
``cluster`` (the hash of a virtual cluster). It records no requested times, cores or memory: a job requests its run
time, and one core per GPU.

* A job of up to 8 GPUs has one task, on one node. The tasks of a wider job have as many GPUs as the greatest common
  divisor of 8 and its number of GPUs: 16 GPUs are two tasks of 8, and 12 are three of 4.
* Neither the file nor its documentation describes the machines. `machines` returns assumed ones, recalled from
  the paper: 321 with 2 GPUs and 231 with 8, together 2,490 GPUs. Their cores are assumed as well: one per GPU.
* Virtual clusters become queue names; their shares of the machines are unknown and not modelled.

Reference: Jeon, Venkataraman, Phanishayee, Qian, Xiao and Yang, "Analysis of large-scale multi-tenant GPU clusters for
DNN training workloads", USENIX ATC 2019.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import gcd
from typing import Unpack

from desim.problems.batch import Node, Request
from desim.workloads.batch import job_table
from desim.workloads.batch.selection import TraceOptions
from desim.workloads.batch.trace import Trace
from desim.workloads.files import Pathish, open_binary

__all__ = ["is_such", "machines", "read"]

_HEAD = b"timestamp,duration,num_gpus,gpu_time,cluster"
_NAMES = {
    "submission_time": "timestamp",
    "run_time": "duration",
    "requested_cores": "num_gpus",
    "queue": "cluster",
    "gpus": "num_gpus",
}
_WIDEST = 8


def is_such(path: Pathish) -> bool:
    """Return whether a file has the columns of this trace."""
    with open_binary(path) as file:
        return file.read(len(_HEAD)) == _HEAD


def machines() -> list[Node]:
    """Return the assumed machines: 321 with 2 GPUs, then 231 with 8, each with one core per GPU.

    Returns
    -------
    list of Node
        The 552 nodes.
    """
    small = Node.several(321, 2, name="two", gpus=2, partition="two")
    return [*small, *Node.several(231, _WIDEST, name="eight", gpus=_WIDEST, partition="eight")]


def read(path: Pathish, **options: Unpack[TraceOptions]) -> Trace:
    """Read the Philly trace.

    Parameters
    ----------
    path : str or path-like
        CSV file, plain or gzip.
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`. Times count from the first submission, or from 1970 in UTC with
        ``shift=False``.

    Returns
    -------
    Trace
        Jobs with requests in order of submission, the machines, and virtual clusters as queue names.

    Raises
    ------
    WorkloadError
        If the file cannot be read; the message names file, line and column.
    InvalidConfiguration
        If an option is out of range.
    """
    trace = job_table.read(path, columns=_NAMES, requests=True, **({"shift": True} | options))
    requests = list(map(_request, trace.jobs["requested_cores"].tolist()))
    return replace(trace, jobs=trace.jobs.with_columns(request=requests), nodes=tuple(machines()))


@lru_cache(maxsize=1024)
def _request(gpus: int) -> Request:
    """Return the request of a job with a given number of GPUs."""
    each = gpus if gpus <= _WIDEST else gcd(gpus, _WIDEST)
    return Request(gpus // each, each, gpus=each)
