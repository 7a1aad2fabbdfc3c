"""Pegasus 5: read abstract workflows in YAML.

A job of the workflow becomes a node, and an edge of ``jobDependencies`` has the total size in bytes of the files
(``uses``, named by ``lfn``) that its parent writes and its child reads, as in :mod:`desim.workloads.dag.dax`. A size is
an entry ``size`` of the metadata of a use. The format has no run times: they are entries ``runtime`` of the metadata of
jobs, where a generator states them, or ``default_run_time``.

Reference: E. Deelman et al., "Pegasus, a workflow management system for science automation", Future Generation
Computer Systems 46, 2015.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Unpack

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job
from desim.reading import parse_yaml
from desim.workloads.dag._workflow import Pair, Repairs, Task, WorkflowOptions, WorkflowReport, build
from desim.workloads.files import Pathish, read_text
from desim.workloads.json_fields import LARGEST, Entries, has, listed, number, object_of, short_repr, text

__all__ = ["read"]

_TYPES = ("input", "output", "inout", "checkpoint")
_NESTED = ("pegasusWorkflow", "condorWorkflow", "dag", "dax")


def read(
    path: Pathish,
    *,
    report: WorkflowReport | None = None,
    **options: Unpack[WorkflowOptions],
) -> Job:
    """Read a workflow of Pegasus 5 as a job.

    Parameters
    ----------
    path : str or path-like
        YAML file.
    report : WorkflowReport, optional
        Report to complete: it counts what was changed and ignored.
    **options : WorkflowOptions
        Defaults for what the file does not state, and repairs, see `WorkflowOptions`.

    Returns
    -------
    Job
        Job 0, submitted at time 0. Its nodes are named by the ids of the workflow's jobs.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is no workflow of Pegasus 5, or its graph is invalid; the message names the job.
    InvalidConfiguration
        If an option is out of range.
    """
    repairs = Repairs(**options)
    source = str(path)
    document = parse_yaml(source, read_text(path))
    version = document.get("pegasus") if isinstance(document, dict) else None
    if not str(version).startswith("5"):
        raise WorkloadError(f"{source}: pegasus: got {short_repr(version)}, expected a workflow of version 5")
    name = document.get("name") or ""
    if not isinstance(name, str):
        raise WorkloadError(f"{source}: name: got {short_repr(name)}, expected a string")
    tasks: dict[str, Task] = {}
    for at, entry in enumerate(listed(source, document, "jobs", dict)):
        identity = text(f"{source}: jobs[{at}]", entry, "id")
        where = f"{source}: job {identity!r}"
        if identity in tasks:
            raise WorkloadError(f"{where}: got a second job of this id, expected distinct ids")
        if entry.get("type") in _NESTED:
            raise WorkloadError(f"{where}: type: got {short_repr(entry['type'])}, expected 'job', no nested workflow")
        work = repairs.work(where, _metadata(where, entry, "runtime"))
        tasks[identity] = Task(identity, work, *_files(where, entry, repairs))
    if not tasks:
        raise WorkloadError(f"{source}: got no job, expected at least one")
    return build(
        source,
        name,
        list(tasks.values()),
        _edges(source, document, tasks),
        repairs=repairs,
        report=report,
    )


def _metadata(where: str, entry: Entries, key: str, least: float = 0.0) -> float | None:
    """Return a number of the metadata, which are texts in most files, or None."""
    if not has(entry, "metadata") or not has(found := object_of(where, entry, "metadata"), key):
        return None
    value = found[key]
    if isinstance(value, str) and value.isascii() and "_" not in value:
        with suppress(ValueError):  # refused as a text
            value = float(value)
    return number(where, {key: value}, key, least=least)


def _files(where: str, job: Entries, repairs: Repairs) -> tuple[Mapping[str, float | None], Mapping[str, float | None]]:
    """Return the sizes of the files that a job reads, and of those that it writes, by name."""
    reads: dict[str, float | None] = {}
    writes: dict[str, float | None] = {}
    for at, use in enumerate(listed(where, job, "uses", dict) if has(job, "uses") else ()):
        here = f"{where}: uses[{at}]"
        file, link = text(here, use, "lfn"), text(here, use, "type")
        if link not in _TYPES:
            raise WorkloadError(f"{here}: type: got {short_repr(link)}, expected one of {', '.join(_TYPES)}")
        size = repairs.size(f"{where}: {file!r}", _metadata(here, use, "size", -LARGEST))
        if link in ("input", "inout"):
            reads[file] = size
        if link in ("output", "inout"):
            writes[file] = size
    return reads, writes


def _edges(source: str, document: dict[str, Any], tasks: Mapping[str, Task]) -> Iterator[Pair]:
    entries = listed(source, document, "jobDependencies", dict) if has(document, "jobDependencies") else ()
    for at, entry in enumerate(entries):
        where = f"{source}: jobDependencies[{at}]"
        parent = text(where, entry, "id")
        for name in (parent, *(children := listed(where, entry, "children", str))):
            if name not in tasks:
                raise WorkloadError(f"{where}: got {short_repr(name)}, expected the id of a job")
        yield from ((parent, child) for child in children)
