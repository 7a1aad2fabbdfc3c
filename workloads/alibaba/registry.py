"""Jobs of Alibaba's trace of 2018 for the command line: the file ``batch_task.csv``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.job import Job
from desim.workloads.alibaba import dags
from desim.workloads.alibaba.dags import DagReport as WorkflowReport
from desim.workloads.dag.tpch import REFERENCE_SPEED
from desim.workloads.files import Pathish

__all__ = ["WorkflowReport", "descriptions", "executors_of", "machines_of", "read_all"]

_RESOURCES = ("cores", "memory")


def descriptions() -> dict[str, str]:
    """Return a one-line description of every workload source.

    Returns
    -------
    dict of str to str
        Descriptions by name of the file.
    """
    text = "Jobs of Alibaba's trace of 2018, unpacked or compressed."
    return {f"batch_task.csv{suffix}": text for suffix in ("", ".gz")}


def read_all(
    path: Pathish,
    *,
    demands: Sequence[str] = (),
    allow_disconnected: bool = True,
    report: WorkflowReport | None = None,
    **others: Any,
) -> list[Job]:
    """Read all jobs of a file.

    Parameters
    ----------
    path : str or path-like
        File ``batch_task.csv``, plain or compressed.
    demands : sequence of {"cores", "memory"}
        What nodes demand of a pool, see `desim.workloads.alibaba.dags.jobs`. Default: nothing.
    allow_disconnected : bool
        Whether to keep jobs of several components, or drop them.
    report : DagReport, optional
        Report to complete.
    **others
        Options of workflows, which are refused.

    Returns
    -------
    list of Job
        Jobs, whose run times are those on an executor of LACHESIS' middle speed.

    Raises
    ------
    InvalidConfiguration
        If an option does not apply or is out of range.
    WorkloadError
        If the file cannot be read or holds no usable job.
    """
    if others:
        raise InvalidConfiguration(f"{sorted(others)[0]}: applies only to workflows, not to {path}")
    for resource in demands:
        check_choice("demands", resource, _RESOURCES)
    found = dags.jobs(
        path, reference_speed=REFERENCE_SPEED, allow_disconnected=allow_disconnected, demands=bool(demands)
    )
    jobs = [job.demanding(demands) if demands else job for job in found]
    if report is not None:
        report.merge(found.report)
        report.jobs += found.report.jobs
    return jobs


def executors_of(path: Pathish) -> None:
    """Return None: the file states no executors."""


def machines_of(path: Pathish, transfer_speed: float) -> None:
    """Return None: the file states no machines."""
