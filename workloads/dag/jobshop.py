"""Job shops, read and written: jobs whose operations run one after the other, each on one given machine.

In the standard format, a line holds the numbers of jobs and machines. A line per job follows, with the machine
(numbered from 0) and the duration of each operation, in their order. In Taillard's format, a matrix of durations
follows, and then one of machines, numbered from 1, each with a row per job. Blank lines and lines that begin with # or
a letter are ignored. A JSON file holds ``machines_matrix`` and ``duration_matrix``, with a row per job, or several such
instances by name.

An operation becomes a node, which only the executor of its machine may run. Its work is its duration, and all executors
have speed 1.

Reference: J. Blazewicz, W. Domschke and E. Pesch, "The job shop scheduling problem: conventional and new solution
techniques", European Journal of Operational Research 93(1), 1996.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from desim.exceptions import WorkloadError
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.workloads.dag.executors import MOST_EXECUTORS
from desim.workloads.files import Pathish, plain_number, read_text, write_lines
from desim.workloads.json_fields import LARGEST, has, read_object

__all__ = ["job_shop", "read", "write"]

Shop = tuple[list[Job], Executors]


def job_shop(machines: Sequence[Sequence[int]], durations: Sequence[Sequence[float]], *, label: str = "") -> Shop:
    """Return the jobs and the executors of a job shop.

    Parameters
    ----------
    machines : sequence of sequence of int
        Machine of each operation, numbered from 0, for each job.
    durations : sequence of sequence of float
        Duration of each operation in seconds, in the same shape.
    label : str
        Label of the jobs.

    Returns
    -------
    tuple of list of Job and Executors
        Jobs submitted at time 0, and an executor for each machine, with transfers that take no time.

    Raises
    ------
    WorkloadError
        If the shapes differ, a job has no operation, or a number is out of range.

    Examples
    --------
    >>> jobs, executors = job_shop([[0, 1], [1, 0]], [[3, 2], [4, 1]])
    >>> jobs[1].run_times_on(executors).tolist()
    [[inf, 4.0], [1.0, inf]]
    """
    if len(machines) != len(durations) or not len(machines):
        raise WorkloadError(f"durations: got {len(durations)} jobs, expected {len(machines)} as machines, at least one")
    names = [f"machine{number}" for number in range(1 + max(map(_most, machines)))]
    jobs = []
    for number, (row, times) in enumerate(zip(machines, durations, strict=True)):
        if len(row) != len(times):
            raise WorkloadError(f"job {number}: got {len(times)} durations, expected {len(row)}, one per operation")
        if wrong := [time for time in times if time > LARGEST]:
            raise WorkloadError(f"job {number}: got the duration {wrong[0]:g}, expected at most {LARGEST:g}")
        edges = [(place, place + 1, 0.0) for place in range(len(row) - 1)]
        jobs.append(Job(number, times, edges, eligible=[[names[machine]] for machine in row], label=label))
    return jobs, Executors([1.0] * len(names), names=names)


def _most(row: Sequence[int]) -> int:
    """Return the largest machine of a job; raise WorkloadError if one is no number from 0."""
    found = np.asarray(row)
    if not found.size or not np.issubdtype(found.dtype, np.integer) or found.min() < 0:
        raise WorkloadError(f"machines: got {list(row)!r}, expected at least one integer >= 0")
    if found.max() >= MOST_EXECUTORS:
        raise WorkloadError(f"machines: got the number {found.max()}, expected one below {MOST_EXECUTORS:,}")
    return int(found.max())


def read(path: Pathish, instance: str | None = None) -> Shop:
    """Read a job shop.

    Parameters
    ----------
    path : str or path-like
        File in the standard format, or JSON if its name ends in ``.json``; both may be compressed with gzip.
    instance : str, optional
        Name of the instance in a JSON file with several.

    Returns
    -------
    tuple of list of Job and Executors
        See :func:`job_shop`; the label of the jobs is the name of the instance or of the file.

    Raises
    ------
    WorkloadError
        If the file cannot be read or its content is invalid; the message names file and line.
    """
    name = Path(os.fspath(path)).name.removesuffix(".gz")
    if name.endswith(".json"):
        document, label = read_object(path), instance or name.removesuffix(".json")
        if instance is not None:
            if not isinstance(document.get(instance), dict):
                raise WorkloadError(f"{path}: no instance {instance!r}; expected one of {', '.join(document)}")
            document = document[instance]
        missing = [key for key in ("machines_matrix", "duration_matrix") if not has(document, key)]
        if missing:
            raise WorkloadError(f"{path}: no {missing[0]!r}; name one of the instances: {', '.join(document)}")
        matrices: Any = document["machines_matrix"], document["duration_matrix"]
    else:
        label, matrices = name.rsplit(".", 1)[0], _standard(str(path), path)
    try:
        return job_shop(*matrices, label=label)
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"{path}: {error}") from error


def _standard(source: str, path: Pathish) -> tuple[list[list[int]], list[list[float]]]:
    rows: list[tuple[int, list[float]]] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        text = line.strip()
        if not text or text.startswith("#") or text[0].isalpha():
            continue
        try:
            rows.append((number, [float(cell) for cell in text.split()]))
        except ValueError:
            raise WorkloadError(f"{source}: line {number}: got {text!r}, expected numbers") from None
    if not rows or len(rows[0][1]) not in (2, 6):  # of Taillard's files, also those of seeds and bounds
        number, row = rows[0] if rows else (1, [])
        raise WorkloadError(f"{source}: line {number}: got {len(row)} numbers, expected those of jobs and machines")
    jobs, machines = rows.pop(0)[1][:2]
    if len(rows) == 2 * jobs and all(len(row) == machines for _, row in rows):
        for number, row in rows[int(jobs) :]:
            if sorted(row) != list(range(1, len(row) + 1)):
                raise WorkloadError(f"{source}: line {number}: expected each machine from 1 to {len(row)} once")
        return [[int(cell) - 1 for cell in row] for _, row in rows[int(jobs) :]], [row for _, row in rows[: int(jobs)]]
    for number, row in rows:
        if len(row) % 2 or not all(0 <= cell < machines and cell % 1 == 0 for cell in row[::2]):
            raise WorkloadError(
                f"{source}: line {number}: got {' '.join(f'{cell:g}' for cell in row)!r}, expected pairs of a machine "
                f"from 0 to {machines - 1:g} and a duration"
            )
    if len(rows) != jobs:
        raise WorkloadError(f"{source}: got {len(rows)} jobs, expected as many as the first line says")
    return [[int(cell) for cell in row[::2]] for _, row in rows], [row[1::2] for _, row in rows]


def write(path: Pathish, jobs: Sequence[Job], executors: Executors, *, taillard: bool = False) -> tuple[str, ...]:
    """Write a job shop so that `read` returns its operations; the file is written completely or not at all.

    Parameters
    ----------
    path : str or path-like
        Target file, replaced only when the new one is complete; compressed if its name ends in ``.gz``.
    jobs : sequence of Job
        Jobs whose nodes run one after the other, each on one executor.
    executors : Executors
        Machines, in the order of their numbers.
    taillard : bool
        Whether to write a matrix of durations and one of machines, as Taillard does, instead of the standard format.

    Returns
    -------
    tuple of str
        What the job shop has and the file does not hold, such as names of machines or transfer times.

    Raises
    ------
    WorkloadError
        If the file cannot be written, the jobs are no job shop, or a job does not visit each machine once in
        Taillard's format.
    """
    machines, durations, count = list[list[int]](), list[list[float]](), executors.num_executors
    if not jobs:
        raise WorkloadError(f"{path}: got no jobs, expected at least one job")
    for job in jobs:
        table = job.run_times_on(executors)
        is_chain = [job.parents(node).tolist() for node in range(job.num_nodes)] == [
            [node - 1] if node else [] for node in range(job.num_nodes)
        ]
        if not is_chain or (np.isfinite(table).sum(axis=1) != 1).any():
            raise WorkloadError(f"job {job.job_id}: expected operations one after the other, each on one executor")
        machines.append(table.argmin(axis=1).tolist())
        durations.append(table.min(axis=1).tolist())
        if taillard and sorted(machines[-1]) != list(range(count)):
            raise WorkloadError(f"job {job.job_id}: expected each of {count} machines once; try the standard format")
    if taillard:
        numbers = [[machine + 1 for machine in row] for row in machines]
        rows = ["Nb of jobs, Nb of Machines", f"{len(jobs)} {count}", "Times", *map(_row, durations)]
        rows += ["Machines", *map(_row, numbers)]
    else:
        pairs = [sum(zip(*job, strict=True), ()) for job in zip(machines, durations, strict=True)]
        rows = [f"{len(jobs)} {count}", *map(_row, pairs)]
    write_lines(path, rows)
    plain = [f"node{at}" for at in range(max(map(len, machines)))]
    lost = {
        "names of machines": list(executors.names) != [f"machine{at}" for at in range(count)],
        "machines without an operation": max(map(max, machines)) < count - 1,
        "names of operations": any(list(job.names) != plain[: job.num_nodes] for job in jobs),
        "sizes of data": any(job.parent_size.any() for job in jobs),
        "submission times": any(job.submission_time for job in jobs),
    }
    return tuple(what for what, is_lost in lost.items() if is_lost)


def _row(numbers: Sequence[float]) -> str:
    return " ".join(map(plain_number, numbers))
