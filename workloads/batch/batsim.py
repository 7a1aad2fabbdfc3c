"""Batsim workloads in JSON: read and write them.

The file holds ``nb_res`` (number of resources of the machine), ``jobs``, a list of ``{"id", "subtime",
"walltime", "res", "profile"}``, and ``profiles``, which describe what jobs do. Run times are
known only for delays (``delay``, in Batsim 5 ``DelayProfile``) and for sequences of these (``composed``, in Batsim 5
``SequentialCompositionProfile``). If a ``walltime`` is missing or not positive, the run time
replaces it. An optional ``user_id`` of a job is kept.

Ids are kept: integers, or texts such as ``"w0!12"``. If a file has both, all of them are texts.

Reference: P.-F. Dutot et al., "Batsim: a realistic language-independent resources and jobs
management systems simulator", JSSPP 2016.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Unpack, get_args

import numpy as np

from desim.checks import MOST_CORES, check_choice, check_int
from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job
from desim.workloads.batch.selection import Columns, TraceOptions, check_writable, ids_of, select
from desim.workloads.batch.trace import Trace, TraceHeader, TraceReport
from desim.workloads.files import Pathish, plain_number, write_lines
from desim.workloads.json_fields import LARGEST, Entries, has, listed, number, object_of, read_object, short_repr

__all__ = ["read", "write"]

UnknownProfile = Literal["error", "drop"]

_DELAYS = ("delay", "DelayProfile")
_SEQUENCES = ("composed", "SequentialCompositionProfile")


def read(path: Pathish, *, unknown_profile: UnknownProfile = "error", **options: Unpack[TraceOptions]) -> Trace:
    """Read a whole Batsim workload.

    Parameters
    ----------
    path : str or path-like
        JSON file, plain or gzip (recognized by its content).
    unknown_profile : {"error", "drop"}
        Treatment of jobs whose run time is unknown because their profile is neither a delay nor a sequence of delays.
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`. The format has no status, queue or partition: these are -1.

    Returns
    -------
    Trace
        Jobs in order of submission, header (with ``nb_res``) and repair report; places are positions in the list
        of jobs.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is not a workload, or has no usable job; the message names
        file, job and entry.
    InvalidConfiguration
        If an option is out of range.
    """
    drop_unknown = check_choice("unknown_profile", unknown_profile, get_args(UnknownProfile)) == "drop"
    document = read_object(path)
    jobs = listed(str(path), document, "jobs", dict)
    profiles = object_of(str(path), document, "profiles")
    rows = [_numbers(f"{path}: jobs[{at}]", job, profiles, drop_unknown) for at, job in enumerate(jobs)]
    if has(document, "nb_res"):
        number(str(path), document, "nb_res", least=1, whole=True)
    report = TraceReport(unit="position")
    columns = Columns.of_list(
        ids_of([job["id"] for job in jobs]), list(np.array(rows, dtype=np.float64).reshape(-1, 5).T)
    )
    fields = {key: str(value) for key, value in document.items() if isinstance(value, str | int | float)}
    return select(str(path), columns, TraceHeader(fields=fields), report, **options)


def _numbers(where: str, job: Entries, profiles: Entries, drop_unknown: bool) -> tuple[float, ...]:
    """Return submission time, cores, requested time, run time and user of a job; -1 where unknown."""
    identity = job.get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str) or identity == "":
        raise WorkloadError(f"{where}: id: got {short_repr(identity)}, expected an integer or a string")
    return (
        number(where, job, "subtime", least=-LARGEST),
        number(where, job, "res", least=-LARGEST, whole=True),
        number(where, job, "walltime", least=-LARGEST, otherwise=-1.0),
        _run_time(where, job.get("profile"), profiles, drop_unknown),
        number(where, job, "user_id", least=-LARGEST, otherwise=-1.0, whole=True),
    )


def _run_time(where: str, name: Any, profiles: Entries, drop_unknown: bool, outer: tuple[str, ...] = ()) -> float:
    """Return the run time of a profile in seconds, -1 if it is unknown and such jobs are dropped."""
    profile = profiles.get(name) if isinstance(name, str) else None
    if not isinstance(profile, dict):
        raise WorkloadError(f"{where}: profile: got {short_repr(name)}, expected the name of one of the profiles")
    here = f"{where}: profile {short_repr(name)}"
    kind = profile.get("type")
    if kind in _DELAYS:
        return number(here, profile, "delay", least=-LARGEST)
    if kind in _SEQUENCES:
        if name in outer:
            raise WorkloadError(f"{here}: seq: contains the profile itself, expected other profiles")
        repeat = number(here, profile, "repeat", least=0, otherwise=1.0, whole=True)
        parts = profile.get("seq")
        if not isinstance(parts, list):
            raise WorkloadError(f"{here}: seq: got {short_repr(parts)}, expected a list of names of profiles")
        times = [_run_time(here, part, profiles, drop_unknown, (*outer, str(name))) for part in parts]
        return -1.0 if min(times, default=0.0) < 0 else repeat * sum(times)
    if drop_unknown:
        return -1.0
    raise WorkloadError(
        f"{here}: got type {short_repr(kind)}, whose run time is unknown, expected a delay or a sequence of delays "
        "('delay', 'composed'); try unknown_profile='drop', or --unknown-profile drop"
    )


def write(path: Pathish, jobs: Iterable[Job], num_cores: int) -> None:
    """Write jobs so that `read` returns them exactly; the file is written completely or not at all.

    Parameters
    ----------
    path : str or path-like
        Target file, replaced only when the new one is complete; compressed if its name ends in ``.gz``.
    jobs : iterable of Job
        Jobs to write; consumed one by one. Each distinct run time becomes a delay profile.
    num_cores : int
        Number of resources of the machine (``nb_res``).

    Raises
    ------
    WorkloadError
        If the file cannot be written, a job is invalid, or its requested time is 0 although its run time
        is not (the readers take 0 as unknown).
    InvalidConfiguration
        If `num_cores` is not positive.
    """
    write_lines(path, _lines(jobs, check_int("num_cores", num_cores, least=1, most=MOST_CORES)))


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
            f'{before}{{"id": {json.dumps(job.job_id)}, "subtime": {submitted}, "walltime": {walltime}, '
            f'"res": {int(job.requested_cores)}, "profile": "delay_{delay}"{user}}}'
        )
        before = ","
    yield '],\n"profiles": {'
    yield ",\n".join(f'"delay_{delay}": {{"type": "delay", "delay": {delay}}}' for delay in profiles)
    yield "}\n}"
