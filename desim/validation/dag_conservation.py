"""Conservation: the jobs of a run are the workload, nothing lost, nothing invented, nothing changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings

if TYPE_CHECKING:
    from desim.problems.dag import Job

__all__ = ["check_conservation"]


def check_conservation(run: DagRun, workload: Iterable[Job], findings: Findings) -> None:
    """Check that every submitted job is recorded exactly once, with its nodes and edges as they were submitted.

    A run that was stopped need not have the jobs submitted at its end or later.

    Parameters
    ----------
    run : DagRun
        The run.
    workload : iterable of Job
        The jobs in order of submission; read no further than the run has come.
    findings : Findings
        Takes the violations.
    """
    ids, submission = run.jobs["job_id"], run.jobs["submission_time"]
    left: dict[int, list[int]] = defaultdict(list)  # rows of each id, the last submitted first
    for row in np.lexsort((-submission, ids)).tolist():
        left[int(ids[row])].append(row)
    messages, count = [], 0
    known = workload if run.drained else takewhile(lambda job: not job.submission_time > run.end_time, workload)
    for job in known:
        count += 1
        rows = left.get(job.job_id)
        if rows:
            messages += [f"job {job.job_id}: {fault}" for fault in _differences(run, rows.pop(), job)]
        elif run.drained or job.submission_time < run.end_time:
            messages.append(f"job {job.job_id}, submitted at {job.submission_time} s, is not recorded")
    messages += [
        f"job {ids[row]} is recorded as submitted at {submission[row]} s, but was not submitted"
        for row in sorted(row for rows in left.values() for row in rows)
    ]
    findings.note("conservation", max(count, len(ids)), messages)


def _differences(run: DagRun, row: int, job: Job) -> Iterator[str]:
    """Say in what a row of the job table, with its nodes and edges, differs from a job."""
    graph, submission = run.graph, run.jobs["submission_time"][row]
    if submission != job.submission_time:
        yield f"submitted at {job.submission_time} s, recorded as submitted at {submission} s"
    first, count = int(graph.first_node[row]), int(graph.node_counts[row])
    if count != job.num_nodes:
        yield f"submitted with {job.num_nodes} nodes, recorded with {count}"
        return
    yield from _changed("work", job.work, graph.work[first : first + count])
    yield from _changed("number of tasks", job.num_tasks, graph.num_tasks[first : first + count])
    measured = graph.measured[first : first + count]
    if run.by_task and (measured != (job.task_times is not None)).any():
        yield f"submitted with{'' if job.task_times is not None else 'out'} task times, recorded otherwise"
    own = graph.own_row[first : first + count]
    if (job.run_times is not None) != bool((own >= 0).all()):
        yield f"submitted with{'' if job.run_times is not None else 'out'} run times of its own, recorded otherwise"
    elif job.run_times is not None:
        yield from _changed("run times", job.run_times, graph.own_times[own])
    low, high = np.searchsorted(graph.child, (first, first + count))
    children = np.repeat(np.arange(count), np.diff(job.parent_start))
    edges = np.column_stack((job.parent_index, children, job.parent_size))
    recorded = np.column_stack((graph.parent[low:high] - first, graph.child[low:high] - first, graph.size[low:high]))
    if len(edges) != len(recorded):
        yield f"submitted with {len(edges)} edges, recorded with {len(recorded)}"
        return
    wrong = np.flatnonzero((edges != recorded).any(axis=1))
    for place in wrong[:1].tolist():
        yield (
            f"edge {place} (parent, child, size) was submitted as {edges[place].tolist()}, "
            f"recorded as {recorded[place].tolist()}"
        )


def _changed(what: str, submitted: NDArray[Any], recorded: NDArray[Any]) -> Iterator[str]:
    wrong = np.flatnonzero((submitted != recorded).reshape(len(submitted), -1).any(axis=1))
    for node in wrong[:1].tolist():
        yield f"the {what} of node {node} was submitted as {submitted[node]}, recorded as {recorded[node]}"
