"""Batsim workloads in JSON, read and written.

The file holds ``nb_res`` (resources of the machine), ``jobs``, a list of ``{"id", "subtime",
"walltime", "res", "profile"}``, and ``profiles``, whose entries say what a job does. A run time is
known only for profiles of type ``delay``. A ``walltime`` that is missing or not positive falls back
to the run time. An optional ``user_id`` of a job is kept.

Ids that are whole numbers are kept; of ids such as ``"w0!12"`` the trailing number is kept if that
makes all ids distinct, else all jobs are numbered from 0 in the order of the file.

Reference: P.-F. Dutot et al., "Batsim: a realistic language-independent resources and jobs
management systems simulator", JSSPP 2016.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Literal, Unpack, get_args

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job
from desim.workloads._batsim_parse import as_columns, parse
from desim.workloads._files import Pathish, read_bytes
from desim.workloads._rules import Rules
from desim.workloads._selector import Selector, SubmitOrder, collect
from desim.workloads._writing import atomic_write, check_writable, plain_number
from desim.workloads.report import RepairReport
from desim.workloads.selection import TraceOptions
from desim.workloads.trace import Trace, TraceHeader

__all__ = ["read", "write"]

UnknownProfile = Literal["error", "drop"]


def read(
    path: Pathish,
    *,
    unknown_profile: UnknownProfile = "error",
    unsorted: SubmitOrder = "sort",
    **options: Unpack[TraceOptions],
) -> Trace:
    """Read a whole workload.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzip (recognized by its content).
    unknown_profile : {"error", "drop"}
        What to do with jobs whose profile has no known run time, because it is of another type
        than ``delay``.
    unsorted : {"sort", "error"}
        Sort jobs that are not in the order of their submission (and count them), or refuse them.
    **options : TraceOptions
        Which jobs to keep, see `desim.workloads.selection.TraceOptions`. The format knows no status,
        queue or partition: these are -1.

    Returns
    -------
    Trace
        Jobs, header (with ``nb_res``) and repair report; places are positions in the list of jobs.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is not a workload or holds no usable job; the message names
        file, job and entry.
    InvalidConfiguration
        If an option is out of range.
    """
    if unknown_profile not in get_args(UnknownProfile):
        raise InvalidConfiguration(f"unknown_profile is {unknown_profile!r}, want one of {get_args(UnknownProfile)}")
    rules = Rules(**options)
    source = os.fspath(path)
    report = RepairReport(unit="position")
    selector = Selector(source, rules, report, unsorted)
    document = parse(source, read_bytes(path))
    rows = as_columns(source, document, report, drop_unknown=unknown_profile == "drop")
    blocks = [selector.feed(rows)] if len(rows) else []
    selector.finish()
    fields = {key: str(value) for key, value in document.items() if isinstance(value, str | int | float)}
    return Trace(collect(blocks, rules.shift), TraceHeader(fields=fields), report)


def write(path: Pathish, jobs: Iterable[Job], num_cores: int) -> None:
    """Write jobs so that `read` gives them back exactly, all or nothing.

    Parameters
    ----------
    path : str or path-like
        The file, replaced only when the new one is complete; compressed if it ends in ``.gz``.
    jobs : iterable of Job
        The jobs; consumed one by one. Each distinct run time becomes a delay profile.
    num_cores : int
        Resources of the machine (``nb_res``).

    Raises
    ------
    WorkloadError
        If the file cannot be written, a job is invalid, or its requested time is 0 although it
        runs (the readers take 0 for unknown).
    InvalidConfiguration
        If `num_cores` is not positive.
    """
    if not num_cores >= 1:
        raise InvalidConfiguration(f"num_cores is {num_cores!r}, want at least 1")
    atomic_write(path, _lines(jobs, int(num_cores)))


def _lines(jobs: Iterable[Job], num_cores: int) -> Iterator[str]:
    profiles: dict[str, None] = {}
    yield f'{{\n"nb_res": {num_cores},\n"jobs": ['
    before = ""
    for job in jobs:
        check_writable(job)
        submitted, walltime, delay = map(plain_number, (job.submission_time, job.requested_time, job.run_time))
        profiles[delay] = None
        user = f', "user_id": {job.user_id:d}' if job.user_id != -1 else ""
        yield (
            f'{before}{{"id": {job.job_id:d}, "subtime": {submitted}, "walltime": {walltime}, '
            f'"res": {int(job.requested_cores)}, "profile": "delay_{delay}"{user}}}'
        )
        before = ","
    yield '],\n"profiles": {'
    yield ",\n".join(f'"delay_{delay}": {{"type": "delay", "delay": {delay}}}' for delay in profiles)
    yield "}\n}"
