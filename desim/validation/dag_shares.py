"""Rules on what tasks receive: from each executor a share of the results that it holds, of each parent the whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_inputs import Inputs
from desim.validation.dag_lookup import count_until, expand
from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings
from desim.validation.tables import rounding

__all__ = ["check_shares", "num_held"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def num_held(run: DagRun, keys: Whole, wanted: Whole, times: Floats) -> Whole:
    """Count the results of tasks that are held at some times.

    Parameters
    ----------
    run : DagRun
        The run, with n copies.
    keys : array of int, shape (n,)
        What a copy counts for, its node for example.
    wanted : array of int, shape (m,)
        The keys that are looked for.
    times : array of float, shape (m,)
        When, in seconds.

    Returns
    -------
    array of int, shape (m,)
        Copies that have finished by then and whose results have not been lost by then.
    """
    rows = np.flatnonzero(run.outcome["completed"])
    finished = count_until(keys[rows], run.copies["finish_time"][rows], wanted, times)
    return finished - count_until(keys[rows], run.gone[rows], wanted, times)


def check_shares(run: DagRun, inputs: Inputs, findings: Findings) -> None:
    """Check that each task that started has all of its inputs, each as large as it must be.

    Parameters
    ----------
    run : DagRun
        The run, task by task.
    inputs : Inputs
        Its transfers.
    findings : Findings
        Takes the violations.
    """
    graph, count = run.graph, run.graph.num_executors
    held = num_held(
        run, run.copy_node * count + run.copies["executor"], inputs.parent * count + inputs.source, inputs.assigned
    )
    _check_whole(run, inputs, held, findings)
    child, edge = graph.child[run.transfer_edge], run.transfer_edge
    expected = held / graph.num_tasks[inputs.parent] * graph.size[edge] / graph.num_tasks[child]
    findings.check(
        "shares",
        len(held),
        (inputs.copy >= 0) & (held > 0) & (np.abs(inputs.size - expected) > rounding(expected)),
        lambda row: (
            f"{run.transfer_text(row)}: the size is {inputs.size[row]}; {held[row]} of "
            f"{graph.num_tasks[inputs.parent[row]]} tasks ran there, which makes {expected[row]}"
        ),
    )


def _check_whole(run: DagRun, inputs: Inputs, held: Whole, findings: Findings) -> None:
    """Check that the shares of a parent that a task receives are those of all the parent's tasks, each once."""
    graph = run.graph
    num_parents = np.bincount(graph.child, minlength=graph.num_nodes)
    first_edge = np.cumsum(num_parents) - num_parents
    rows = np.flatnonzero(run.started)
    index, edge = expand(first_edge[run.copy_node[rows]], num_parents[run.copy_node[rows]])
    first_pair = np.zeros(len(run.copy_node), dtype=np.int64)
    first_pair[rows] = np.cumsum(num_parents[run.copy_node[rows]]) - num_parents[run.copy_node[rows]]
    known = inputs.copy >= 0
    mine = inputs.copy[known]
    pair = first_pair[mine] + run.transfer_edge[known] - first_edge[run.copy_node[mine]]
    received = np.bincount(pair, held[known], minlength=len(edge)).astype(np.int64)
    wanted = graph.num_tasks[graph.parent[edge]]
    findings.check(
        "inputs",
        len(rows),
        np.flatnonzero(received != wanted),
        lambda place: (
            f"{run.copy_text(rows[index[place]])} started with results of {received[place]} tasks of node "
            f"{graph.parent[edge[place]] - graph.first_node[run.copy_job[rows[index[place]]]]}, which has "
            f"{wanted[place]}"
        ),
    )
