"""QOS levels on the command line: ``NAME:WHAT=VALUE``, joined by ``+``, or a file.

A level has ``priority``, ``preempts``, ``mode`` and ``grace_time`` of :class:`QualityOfService`. If the workload does
not state the QOS of jobs, ``scope`` and ``members`` name the groups whose jobs have it. The grace time is a number of
seconds, or the name of an attribute of jobs that states them:
``urgent:priority=10:preempts=standby+standby:mode=suspend:scope=user:members=3|4``. A file has ``name`` and these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.problems.batch.parts.preemption import QualityOfService
from desim.problems.batch.parts.text import Entry, check_scope, names_of, number_of, read_entries

if TYPE_CHECKING:
    from desim import plugins

__all__ = ["Options", "qos_of_text", "settings"]

FILES = ("qos",)


@dataclass(frozen=True)
class Options:
    """Options of QOS levels."""

    qos: Annotated[str | None, arg(metavar="FILE|NAME:WHAT=VALUE+...", help_behavior_hint="(default: none)")] = None
    """QOS levels for preemptive-... agents, e.g. urgent:preempts=standby:scope=user:members=1+standby:mode=suspend."""


def settings(options: Options, workload: plugins.LoadedWorkload, jobs: Iterable[Job]) -> dict[str, Any]:
    """Return arguments of a cluster that follow from the options, with the jobs and their QOS."""
    return {} if options.qos is None else dict(zip(("qos", "jobs"), qos_of_text(options.qos, jobs), strict=True))


def qos_of_text(text: str, jobs: Iterable[Job]) -> tuple[list[QualityOfService], Iterable[Job]]:
    """Return the QOS levels in a file or in the short notation, and the jobs with their QOS.

    Parameters
    ----------
    text : str
        Name of a CSV or YAML file, or the short notation.
    jobs : iterable of Job
        Workload.

    Returns
    -------
    list of QualityOfService
        QOS levels, at least one.
    iterable of Job
        Workload; the levels' own groups count more than the QOS that a job had.

    Raises
    ------
    InvalidConfiguration
        If the text is neither, a value is out of range, or no job has a QOS.
    WorkloadError
        If the file cannot be read; the message names file, line and column.

    Examples
    --------
    >>> jobs = [Job(1, 0.0, 1, 9.0, 9.0, user_id=8)]
    >>> qos, jobs = qos_of_text("urgent:preempts=standby+standby:scope=user:members=8", jobs)
    >>> qos[0].preempts, jobs[0].qos
    (('standby',), 'standby')
    """
    names = ("priority", "preempts", "mode", "grace_time", "scope", "members")
    expected = "e.g. urgent:preempts=standby+standby:mode=suspend:scope=user:members=3"
    read = read_entries(text, "qos", ("name",), names, _level, expected=expected, least=0)
    for level, where, entry in read:
        if entry.get("scope"):
            jobs = _with_qos(where, entry, jobs, level.name)
    levels = [level for level, _, _ in read]
    if isinstance(jobs, Sequence) and not any(job.qos for job in jobs):
        raise InvalidConfiguration(
            f"qos: got {', '.join(sorted(level.name for level in levels))}, but no job has a QOS; add scope and "
            "members to name the jobs, e.g. scope=user:members=3"
        )
    return levels, jobs


def _level(where: str, entry: Entry) -> tuple[QualityOfService, str, Entry]:
    """Return the QOS level of an entry, with its place and the entry."""
    mode = str(entry.get("mode") or "requeue").strip()
    numbers: dict[str, Any] = {}
    for name in ("priority", "grace_time"):
        value = entry.get(name, "")
        try:
            is_time = name == "grace_time"
            numbers[name] = 0.0 if value in ("", None) else number_of(where, name, value, is_time=is_time)
        except WorkloadError:
            if name != "grace_time" or not isinstance(value, str):
                raise
            numbers[name] = value.strip()  # an attribute of jobs
    name, preempts = str(entry.get("name", "")).strip(), tuple(names_of(entry.get("preempts", "")))
    level = QualityOfService(name, preempts=preempts, mode=mode, **numbers)  # type: ignore[arg-type]  # mode: checked
    return level, where, entry


def _with_qos(where: str, entry: Mapping[str, Any], jobs: Iterable[Job], name: str) -> list[Job]:
    """Return the jobs, those in the groups of an entry with its QOS."""
    by, of = str(entry["scope"]).strip(), names_of(entry.get("members", ""))
    check_scope(where, by, jobs)
    if not isinstance(jobs, Sequence):
        raise InvalidConfiguration(f"{where}: scope={by} needs all jobs in advance; not possible with a stream")
    groups = [job.group(by) for job in jobs]
    if all(group is None for group in groups):
        raise InvalidConfiguration(f"{where}: scope={by}, but the {by} of jobs is unknown")
    return [
        job._replace(qos=name) if group is not None and (not of or str(group) in of) else job
        for job, group in zip(jobs, groups, strict=True)
    ]
