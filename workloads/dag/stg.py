"""STG: read and write task graphs of the Standard Task Graph set.

The first number is that of the tasks, to which a dummy at the beginning and one at the end are added. A line per task
follows: its number from 0, its duration, the number of its predecessors, and their numbers. A line that begins with #
is a comment. An edge has no data.

Reference: T. Tobita and H. Kasahara, "A standard task graph set for fair evaluation of multiprocessor scheduling
algorithms", Journal of Scheduling 5(5), 2002.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from desim.checks import check_float
from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job
from desim.workloads.dag._workflow import Repairs, Task, WorkflowReport, build
from desim.workloads.files import Pathish, read_text, write_lines
from desim.workloads.json_fields import LARGEST, short_repr

__all__ = ["read", "write"]

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


def read(
    path: Pathish,
    *,
    reference_speed: float = 1.0,
    allow_disconnected: bool = True,
    strict: bool = False,
    report: WorkflowReport | None = None,
) -> Job:
    """Read a task graph as a job.

    Parameters
    ----------
    path : str or path-like
        Text file, plain or packed.
    reference_speed : float
        Speed, in work per second, at which the durations were measured; a node's work is its duration times this.
    allow_disconnected : bool
        Whether to accept a graph of several components.
    strict : bool
        Whether to refuse a graph of which something must be changed.
    report : WorkflowReport, optional
        Report to complete: it counts relations that are stated more than once.

    Returns
    -------
    Job
        Job 0, submitted at time 0; its nodes, also the two dummies, are named by their numbers, and its label is the
        name of the file.

    Raises
    ------
    WorkloadError
        If the file cannot be read or its content is invalid; the message names file and line.
    InvalidConfiguration
        If an option is out of range.
    """
    repairs, source = Repairs(reference_speed, None, None, allow_disconnected, strict), str(path)
    count, tasks, edges = None, list[Task](), list[tuple[str, str]]()
    for number, line in enumerate(read_text(path).split("\n"), 1):
        cells, where = line.split(), f"{source}: line {number}"
        if not cells or cells[0].startswith("#"):
            continue
        wrong = next((cell for cell in cells if not _NUMBER.fullmatch(cell) or int(cell) > LARGEST), None)
        if wrong is not None:
            raise WorkloadError(f"{where}: got {short_repr(wrong)}, expected an integer from 0 to 1e15")
        if count is None:
            count = int(cells[0])
            continue
        row = list(map(int, cells))
        if row[0] != len(tasks) or len(row) < 3 or len(row) != 3 + row[2]:
            raise WorkloadError(
                f"{where}: got {short_repr(line.strip())}, expected task {len(tasks)}, its duration, the number of its "
                "predecessors, and these"
            )
        if unknown := [other for other in row[3:] if other >= row[0]]:
            raise WorkloadError(f"{where}: got the predecessor {unknown[0]}, expected a task of an earlier line")
        tasks.append(Task(cells[0], repairs.work(where, row[1]), {}, {}))
        edges += [(str(other), str(row[0])) for other in row[3:]]
    if count is None or len(tasks) not in (count, count + 2):
        wanted = "its number of tasks" if count is None else f"{count + 2} with the two dummies, as the first line says"
        raise WorkloadError(f"{source}: got {len(tasks)} tasks, expected {wanted}")
    if not tasks:
        raise WorkloadError(f"{source}: got no task, expected at least one")
    label = Path(os.fspath(path)).name.partition(".")[0]
    return build(source, label, tasks, edges, repairs=repairs, report=report)


def write(path: Pathish, job: Job, *, reference_speed: float = 1.0) -> tuple[str, ...]:
    """Write a job so that `read` returns its graph; the file is written completely or not at all.

    The first number leaves out the first and the last node if they are dummies: the only source and the only sink,
    without work.

    Parameters
    ----------
    path : str or path-like
        Target file, replaced only when the new one is complete; compressed if its name ends in ``.gz``.
    job : Job
        Job to write.
    reference_speed : float
        Speed in work per second: the duration of a task is its work divided by this, rounded to an integer.

    Returns
    -------
    tuple of str
        What the job has and the file does not hold, such as names of nodes, sizes of data, or fractions of durations.

    Raises
    ------
    WorkloadError
        If the file cannot be written, a duration is above 1e15, or executors have their own run times or are not
        eligible for some node.
    InvalidConfiguration
        If `reference_speed` is not > 0.
    """
    speed = check_float("reference_speed", reference_speed, above=0)
    limited = (job.run_times, job.eligible, job.required_features, job.demands, job.modes)
    if any(found is not None for found in limited) or job.work.max() > LARGEST * speed:
        raise WorkloadError(
            f"job {job.job_id}: expected durations of at most 1e15 that every executor can run, which is all that an "
            "STG file stores"
        )
    parents = [job.parents(node).tolist() for node in range(job.num_nodes)]
    sources = [node for node, above in enumerate(parents) if not above]
    sinks = np.flatnonzero(np.diff(job.child_start) == 0).tolist()
    last = job.num_nodes - 1
    has_dummies = last > 0 and (sources, sinks) == ([0], [last]) and not job.work[[0, last]].any()
    times = np.rint(job.work / speed)
    rows = [
        [node, int(time), len(above), *above] for node, (time, above) in enumerate(zip(times, parents, strict=True))
    ]
    write_lines(path, [str(last - 1 if has_dummies else last + 1), *(" ".join(map(str, row)) for row in rows)])
    lost = {
        "names of nodes": job.names != tuple(map(str, range(job.num_nodes))),
        "sizes of data": job.parent_size.any(),
        "fractions of durations": (times * speed != job.work).any(),
        "submission times": job.submission_time,
        "parallel tasks": job.task_times is not None or (job.num_tasks > 1).any(),
    }
    return tuple(what for what, is_lost in lost.items() if is_lost)
