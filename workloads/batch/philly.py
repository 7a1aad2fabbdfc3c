"""Philly: GPU jobs of Microsoft's clusters, and the machines that they ran on.

Read is the reduction with the columns ``timestamp``, ``duration``, ``num_gpus``, ``gpu_time`` and ``cluster``, the hash
of a virtual cluster. Nobody's estimates, cores or memory are recorded: a job requests the time that it ran, and a core
for each of its GPUs.

* A job of up to 8 GPUs has one task, on one node. A wider one has tasks of as many GPUs as 8 and its number have as
  their greatest common divisor: 16 GPUs are two tasks of 8, 12 are three of 4.
* The machines are not in the file, nor does what it comes with describe them. Those of `machines` are assumed, from
  memory of the paper: 321 of 2 GPUs and 231 of 8, 2,490 GPUs in all. Their cores are assumed, too: one for each GPU.
* Virtual clusters are queues by name; their shares of the machines are not known, and play no part.

Reference: Jeon, Venkataraman, Phanishayee, Qian, Xiao and Yang, "Analysis of large-scale multi-tenant GPU clusters for
DNN training workloads", USENIX ATC 2019.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import gcd
from typing import Unpack

from desim.problems.batch import Job, Node, NodeJob, Request
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
    """Tell whether a file has the columns of this trace."""
    with open_binary(path) as file:
        return file.read(len(_HEAD)) == _HEAD


def machines() -> list[Node]:
    """Return machines as assumed: 321 of 2 GPUs, then 231 of 8, with a core for each GPU.

    Returns
    -------
    list of Node
        552 of them.
    """
    small = Node.several(321, 2, name="two", gpus=2, partition="two")
    return [*small, *Node.several(231, _WIDEST, name="eight", gpus=_WIDEST, partition="eight")]


def read(path: Pathish, **options: Unpack[TraceOptions]) -> Trace:
    """Read the trace.

    Parameters
    ----------
    path : str or path-like
        The CSV file, plain or gzip.
    **options : TraceOptions
        Which jobs to keep. Times count from the first submission unless ``shift=False``, then since 1970 in UTC.

    Returns
    -------
    Trace
        Jobs with requests in the order of submission, the machines, and virtual clusters as queues.

    Raises
    ------
    WorkloadError
        If the file cannot be read; the message names file, line and column.
    InvalidConfiguration
        If an option is out of range.
    """
    trace = job_table.read(path, names=_NAMES, requests=True, **({"shift": True} | options))
    jobs: list[Job] = [NodeJob.requesting(job, _request(job.requested_cores)) for job in trace.jobs]
    return replace(trace, jobs=jobs, nodes=tuple(machines()))


@lru_cache(maxsize=1024)
def _request(gpus: int) -> Request:
    """Return the request of a job of so many GPUs."""
    each = gpus if gpus <= _WIDEST else gcd(gpus, _WIDEST)
    return Request(gpus // each, each, gpus=each)
