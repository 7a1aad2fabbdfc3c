"""STG: read task graphs of the Standard Task Graph set.

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

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job
from desim.workloads.dag._workflow import Repairs, Task, WorkflowReport, build
from desim.workloads.files import Pathish, read_text
from desim.workloads.json_fields import LARGEST, short_repr

__all__ = ["read"]

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
