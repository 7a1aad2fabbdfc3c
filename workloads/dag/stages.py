"""Stages on one pool: instances of resource-constrained scheduling in JSON, with durations, demands and edges.

An instance is an object with ``durations``, ``demands`` (units of the pool) and ``edges`` (pairs of a stage and one
that needs it, numbered from 0), and optionally ``capacity``. A file holds one instance, or lists of instances by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from desim.exceptions import WorkloadError
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.workloads.files import Pathish
from desim.workloads.json_fields import read_object

__all__ = ["CAPACITY", "instance", "read", "read_all"]

CAPACITY = 6_000
"""Units of the pool, unless an instance states them."""
RESOURCE = "units"


def instance(
    durations: Sequence[float],
    demands: Sequence[float],
    edges: Sequence[Sequence[int]],
    *,
    capacity: float = CAPACITY,
    label: str = "",
) -> tuple[Job, Executors]:
    """Return an instance: all stages as one job, and the pool.

    Parameters
    ----------
    durations : sequence of float
        Run time of each stage, in seconds.
    demands : sequence of float
        Units of the pool that each stage holds while it runs.
    edges : sequence of pairs of int
        Stages and those that need them, numbered from 0.
    capacity : float
        Units of the pool.
    label : str
        Label of the job.

    Returns
    -------
    tuple of Job and Executors
        The job, whose edges carry no data, and one pool of speed 1.

    Raises
    ------
    WorkloadError
        If the numbers of durations and demands differ, or a value is invalid.
    """
    if len(durations) != len(demands):
        raise WorkloadError(f"demands: got {len(demands)}, expected {len(durations)}, one per duration")
    pairs = [(parent, child, 0.0) for parent, child in edges]
    wanted = [{RESOURCE: demand} for demand in demands]
    job = Job(0, durations, pairs, demands=wanted, label=label, allow_disconnected=True)
    pool = Executors([1.0], names=["pool"], capacities=[{RESOURCE: capacity}])
    job.check_eligible(pool)
    return job, pool


def _of(content: Any, where: str) -> tuple[Job, Executors]:
    keys = ("durations", "demands", "edges")
    if not isinstance(content, dict) or any(not isinstance(content.get(key), list) for key in keys):
        raise WorkloadError(f"{where}: expected an object with the lists {', '.join(keys)}")
    try:
        return instance(
            *(content[key] for key in keys), capacity=content.get("capacity", CAPACITY), label=where.rpartition("/")[2]
        )
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"{where}: {error}") from error


def read(path: Pathish) -> tuple[Job, Executors]:
    """Read a file with one instance.

    Parameters
    ----------
    path : str or path-like
        File in JSON, possibly compressed.

    Returns
    -------
    tuple of Job and Executors
        The job of all stages, and the pool.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or its content is invalid.
    """
    return _of(read_object(path), str(path))


def read_all(path: Pathish) -> dict[str, list[tuple[Job, Executors]]]:
    """Read a file with lists of instances by name.

    Parameters
    ----------
    path : str or path-like
        File in JSON, possibly compressed.

    Returns
    -------
    dict of str to list of (Job, Executors)
        Instances by name of the list.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or its content is invalid.
    """
    found: dict[str, list[tuple[Job, Executors]]] = {}
    for name, instances in read_object(path).items():
        if not isinstance(instances, list):
            raise WorkloadError(f"{path}: {name}: got {type(instances).__name__}, expected a list of instances")

        found[name] = [_of(content, f"{path}: {name}, instance {number}") for number, content in enumerate(instances)]
    return found
