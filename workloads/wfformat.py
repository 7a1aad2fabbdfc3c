"""WfFormat: recorded scientific workflows in the JSON of WfCommons, read and written.

A task becomes a node whose work is its run time times a reference speed. An edge carries the bytes of the files that
its parent writes and its child reads; one without such a file carries 0. What a task reads from outside the workflow,
or from a task that is not its parent, counts on no edge; ``file_edges=True`` makes an edge of the latter. A file that
several parents of a task write counts on each of these edges.

Version 1.5 keeps tasks and files in ``workflow.specification`` and run times in ``workflow.execution``; version 1.4
keeps all in ``workflow.tasks``, where files are lists of ``{"name", "link", "sizeInBytes"}`` and tasks refer to each
other by name. Both are read, 1.5 is written.

Reference: T. Coleman, H. Casanova, L. Pottier, M. Kaushik, E. Deelman and R. Ferreira da Silva, "WfCommons: A framework
for enabling scientific workflow research and development", Future Generation Computer Systems 128, 2022.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Literal, get_args

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job
from desim.workloads._columns import LARGEST
from desim.workloads._files import Pathish, read_bytes
from desim.workloads._named_streams import number
from desim.workloads._workflow_graph import JobOptions, build
from desim.workloads._workflow_json import decode
from desim.workloads._workflow_wfformat import Relations, WorkOptions, parse
from desim.workloads._writing import atomic_write, plain_number

__all__ = ["read", "write"]


def read(
    path: Pathish,
    *,
    job_id: int = 0,
    submission_time: float = 0.0,
    reference_speed: float | Literal["machine"] = 1.0,
    cpu_share: bool = False,
    relations: Relations = "both",
    file_edges: bool = False,
    allow_disconnected: bool = False,
) -> Job:
    """Read a workflow as a job.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzip (recognized by its content).
    job_id : int
        Identifier of the job.
    submission_time : float
        When it becomes known, in seconds.
    reference_speed : float or "machine"
        Work per second of what the workflow was recorded on: a node's work is its run time times this.
        ``"machine"`` takes the speed, in GHz, of the first machine that each task names.
    cpu_share : bool
        Multiply the work by ``avgCPU`` / 100, the mean number of cores that the task kept busy, so that time spent
        waiting for files counts nothing.
    relations : {"both", "either"}
        Whether the lists of parents and children must agree, or an edge is one that either of them names, and a
        missing list is empty.
    file_edges : bool
        Add an edge where a task reads a file of a task that is not its parent.
    allow_disconnected : bool
        Accept a workflow of several parts.

    Returns
    -------
    Job
        Its nodes are called as the tasks' identifiers, its label is the workflow's name.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is no such document, or its graph makes no sense; the message names the file and
        the tasks.
    InvalidConfiguration
        If an option is out of range.
    """
    if reference_speed != "machine":
        reference_speed = number("reference_speed", reference_speed, above=True)
    if relations not in get_args(Relations):
        raise InvalidConfiguration(f"relations is {relations!r}, want one of {get_args(Relations)}")
    source = str(os.fspath(path))
    document = decode(source, read_bytes(path))
    label, tasks, edges = parse(source, document, WorkOptions(reference_speed, cpu_share), relations)
    options = JobOptions(
        job_id=job_id, submission_time=submission_time, label=label, allow_disconnected=allow_disconnected
    )
    return build(source, tasks, edges, file_edges=file_edges, options=options)


def write(path: Pathish, job: Job, *, reference_speed: float = 1.0) -> None:
    """Write a job as version 1.5 so that `read` gives it back, all or nothing.

    The format knows no identifier of a job, no submission time and no parallel tasks of a node: these are not written.

    Parameters
    ----------
    path : str or path-like
        The file, replaced only when the new one is complete; compressed if it ends in ``.gz``.
    job : Job
        The job. Each edge becomes a file that its parent writes and its child reads; a size that is not whole is
        written as it is, although the format wants whole bytes.
    reference_speed : float
        Work per second: the run time of a task is its work divided by this. With 1, nothing is rounded.

    Raises
    ------
    WorkloadError
        If the file cannot be written, or the job has run times of its own for each executor.
    InvalidConfiguration
        If `reference_speed` is not above 0.
    """
    speed = number("reference_speed", reference_speed, above=True)
    if job.run_times is not None:
        raise WorkloadError(f"job {job.job_id}: has run times for each executor, which WfFormat cannot hold")
    most = max(float(job.work.max()) / speed, *job.parent_size.tolist(), 0.0)
    if not most <= LARGEST or "" in job.names:
        raise WorkloadError(f"job {job.job_id}: holds a number beyond 1e15 or a node without a name")
    atomic_write(path, _lines(job, speed))


def _lines(job: Job, speed: float) -> Iterator[str]:
    names = [json.dumps(name) for name in job.names]
    edges = [(parent, child, size) for child, parents in enumerate(job.parent_lists) for parent, size in parents]
    inputs: list[list[str]] = [[] for _ in names]
    outputs: list[list[str]] = [[] for _ in names]
    for at, (parent, child, _) in enumerate(edges):
        outputs[parent].append(f'"edge{at}"')
        inputs[child].append(f'"edge{at}"')
    yield f'{{\n"name": {json.dumps(job.label)},\n"schemaVersion": "1.5",'
    yield '"workflow": {\n"specification": {\n"tasks": ['
    for node, name in enumerate(names):
        parents = ", ".join(names[parent] for parent in job.parents(node))
        children = ", ".join(names[child] for child in job.children(node))
        yield (
            f'{{"name": {name}, "id": {name}, "parents": [{parents}], "children": [{children}], '
            f'"inputFiles": [{", ".join(inputs[node])}], "outputFiles": [{", ".join(outputs[node])}]}}'
            f"{_comma(node, len(names))}"
        )
    yield '],\n"files": ['
    for at, (_, _, size) in enumerate(edges):
        yield f'{{"id": "edge{at}", "sizeInBytes": {plain_number(size)}}}{_comma(at, len(edges))}'
    yield ']\n},\n"execution": {\n"tasks": ['
    for node, name in enumerate(names):
        run_time = plain_number(job.work[node].item() / speed)
        yield f'{{"id": {name}, "runtimeInSeconds": {run_time}}}{_comma(node, len(names))}'
    yield "]\n}\n}\n}"


def _comma(at: int, count: int) -> str:
    return "," if at + 1 < count else ""
