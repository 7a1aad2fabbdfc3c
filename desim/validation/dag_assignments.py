"""Rules on what may be assigned when: duplicates, and nodes whose parents have finished."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_lookup import expand
from desim.validation.dag_shares import num_held
from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings

__all__ = ["check_assignments", "copies_by_node"]

Whole = NDArray[np.int64]


def copies_by_node(run: DagRun) -> tuple[Whole, Whole, Whole]:
    """Group the copies by node.

    Parameters
    ----------
    run : DagRun
        The run, with n nodes and m copies.

    Returns
    -------
    order : array of int, shape (m,)
        Rows of copies.
    begins, counts : array of int, shape (n,)
        Those of node i are ``order[begins[i] : begins[i] + counts[i]]``.
    """
    counts = np.bincount(run.copy_node, minlength=run.graph.num_nodes)
    return np.argsort(run.copy_node, kind="stable"), np.cumsum(counts) - counts, counts


def check_assignments(run: DagRun, findings: Findings) -> None:
    """Check duplicates and parents at the time of each assignment.

    Parameters
    ----------
    run : DagRun
        The run.
    findings : Findings
        Takes the violations.
    """
    if run.by_task:
        _check_repetitions(run, findings)
        _check_finished(run, findings)
        return
    groups = copies_by_node(run)
    _check_duplicates(run, groups, findings)
    _check_parents(run, groups, findings)


def _check_duplicates(run: DagRun, groups: tuple[Whole, Whole, Whole], findings: Findings) -> None:
    """Check that a copy is called a duplicate if its node had another copy when it was assigned.

    When a copy was withdrawn is not recorded: it may count, or not.
    """
    order, begins, counts = groups
    copy, member = expand(begins[run.copy_node], counts[run.copy_node])
    other = order[member]
    copy, other = copy[copy != other], other[copy != other]
    assigned, gone, duplicate = run.copies["assignment_time"], run.gone, run.copies["duplicate"]
    now = assigned[copy]
    before = assigned[other] < now
    together = (assigned[other] == now) & ~duplicate[other]
    surely = (before | together) & (gone[other] > now)
    possibly = (assigned[other] <= now) & ~(gone[other] < now)
    count = len(assigned)
    is_one = np.bincount(copy[surely], minlength=count) > 0
    may_be = np.bincount(copy[possibly], minlength=count) > 0
    findings.check(
        "duplicates",
        count,
        duplicate & ~may_be,
        lambda row: f"{run.copy_text(row)}, assigned at {assigned[row]} s: the node has no other copy then",
    )
    findings.check(
        "duplicates",
        count,
        ~duplicate & is_one,
        lambda row: (
            f"{run.copy_text(row)}, assigned at {assigned[row]} s, is not called a duplicate, but the node has another "
            "copy then"
        ),
    )


def _check_parents(run: DagRun, groups: tuple[Whole, Whole, Whole], findings: Findings) -> None:
    """Check that all parents are assigned by then and, unless nodes are planned ahead, have finished."""
    order, begins, counts = groups
    graph, assigned = run.graph, run.copies["assignment_time"]
    num_parents = np.bincount(graph.child, minlength=graph.num_nodes)
    first_edge = np.cumsum(num_parents) - num_parents
    copy, edge = expand(first_edge[run.copy_node], num_parents[run.copy_node])
    parent, now = graph.parent[edge], assigned[copy]
    pair, member = expand(begins[parent], counts[parent])
    other = order[member]
    here = assigned[other] <= now[pair]
    if not run.info["plan_ahead"]:
        first = ~run.copies["duplicate"][copy]
        done = run.outcome["completed"][other] & (run.copies["finish_time"][other] <= now[pair])
        here &= ~first[pair] | (done & ~(run.gone[other] < now[pair]))
    missing = np.bincount(pair[here], minlength=len(parent)) == 0
    verb = "assigned" if run.info["plan_ahead"] else "ready"
    findings.check(
        "parents",
        len(assigned),
        np.flatnonzero(missing),
        lambda place: (
            f"{run.copy_text(copy[place])} is assigned at {now[place]} s, before its parent "
            f"{parent[place] - graph.first_node[run.copy_job[copy[place]]]} is {verb}"
        ),
    )


def _check_repetitions(run: DagRun, findings: Findings) -> None:
    """Check that a task is only assigned again when it was cut or withdrawn, or its result was lost, before."""
    assigned, duplicate, part = run.copies["assignment_time"], run.copies["duplicate"], run.copy_part
    findings.check(
        "repetitions",
        len(part),
        duplicate,
        lambda row: f"{run.copy_text(row)}, assigned at {assigned[row]} s: tasks are not duplicated",
    )
    order = np.lexsort((assigned, part))
    before, after = order[:-1], order[1:]
    wrong = (part[before] == part[after]) & (run.gone[before] > assigned[after])
    findings.check(
        "repetitions",
        len(part),
        np.flatnonzero(wrong),
        lambda pair: (
            f"{run.copy_text(after[pair])} is assigned at {assigned[after[pair]]} s, although what was assigned at "
            f"{assigned[before[pair]]} s to executor {run.copies['executor'][before[pair]]} is neither cut nor lost"
        ),
    )


def _check_finished(run: DagRun, findings: Findings) -> None:
    """Check that all tasks of all parents have results when a task is assigned."""
    graph, assigned = run.graph, run.copies["assignment_time"]
    num_parents = np.bincount(graph.child, minlength=graph.num_nodes)
    first_edge = np.cumsum(num_parents) - num_parents
    copy, edge = expand(first_edge[run.copy_node], num_parents[run.copy_node])
    parent, now = graph.parent[edge], assigned[copy]
    held = num_held(run, run.copy_node, parent, now)
    findings.check(
        "parents",
        len(assigned),
        np.flatnonzero(held < graph.num_tasks[parent]),
        lambda place: (
            f"{run.copy_text(copy[place])} is assigned at {now[place]} s, when {held[place]} of "
            f"{graph.num_tasks[parent[place]]} tasks of its parent "
            f"{parent[place] - graph.first_node[run.copy_job[copy[place]]]} have results"
        ),
    )
