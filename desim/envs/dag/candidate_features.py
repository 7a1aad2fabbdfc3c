"""What a graph network is told of the nodes that may be assigned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from desim.envs.scaling import compressed
from desim.problems.dag import JobState

__all__ = ["CANDIDATE_FEATURES", "MOST_DELAY", "PROMPT", "SOON", "Node", "describe_candidates"]

Floats = NDArray[np.float64]
Node = tuple[JobState, int]
"""A job and one of its nodes."""

CANDIDATE_FEATURES = (
    "finish_time",
    "usable_finish_time",
    "delay",
    "run_time",
    "waiting_for_data",
    "before_by_rank",
    "before_by_work",
    "rank_ratio",
    "work_ratio",
)
"""The columns of ``candidates``: the earliest finish on any executor and on one that may be used, from now, compressed;
the logarithm of their ratio, up to 3; run time and time until all data are there on the best of those executors that
may be used, compressed; how many candidates have a higher upward rank and no delay, and how many belong to a job with
less work left and have little delay, compressed; the logarithms of the ratio to the highest rank and to the least
work."""

MOST_DELAY = 3.0
"""Larger logarithms of ratios count as this."""

PROMPT, SOON = 1e-6, 0.3
"""Delays up to which a candidate has none, and little: an idle executor finishes it in 1.35 times the time."""

_TO_RANK = 0.01
"""What a second of rank counts beside a second of work: it orders the nodes of a job."""


def describe_candidates(
    nodes: Sequence[Node], ranks: Floats, work: Floats, available: Floats, *, usable: NDArray[np.bool_], time: float
) -> NDArray[np.float32]:
    """Return :data:`CANDIDATE_FEATURES`.

    Parameters
    ----------
    nodes : sequence of (JobState, int)
        Executable nodes, c of them.
    ranks : array of float, shape (c,)
        Their upward ranks, in seconds.
    work : array of float, shape (c,)
        The mean run times of the nodes of their job that have no executor yet, together, in seconds.
    available : array of float, shape (num_executors,)
        When each executor is free, in seconds; infinite if it is down.
    usable : array of bool, shape (num_executors,)
        Which executors a node may be assigned to.
    time : float
        Now, in seconds.

    Returns
    -------
    array of float, shape (c, 9)
        Without a usable executor the best of all stands for the best usable one.
    """
    shape = len(nodes), len(available)
    ready = np.array([state.ready_times(node) for state, node in nodes]).reshape(shape)
    run_times = np.array([state.run_times[node] for state, node in nodes]).reshape(shape)
    finish = np.maximum(ready, available)
    finish += run_times
    rows = np.arange(len(nodes))
    best = finish.argmin(axis=1)
    earliest = finish[rows, best]
    chosen, earliest_idle = best, earliest
    columns = np.flatnonzero(usable)
    if len(columns):
        chosen = columns[finish[:, columns].argmin(axis=1)]
        earliest_idle = finish[rows, chosen]
    table = np.empty((len(CANDIDATE_FEATURES), len(nodes)))
    table[0] = earliest
    table[1] = earliest_idle
    table[4] = ready[rows, chosen]
    table[[0, 1, 4]] -= time
    np.maximum(table, 0.0, out=table)
    with np.errstate(invalid="ignore"):  # nodes that no executor can run, while it is down
        table[2] = np.log((table[1] + 1.0) / (table[0] + 1.0))
    delay = table[2] = np.nan_to_num(np.minimum(table[2], MOST_DELAY), nan=MOST_DELAY)
    table[3] = run_times[rows, chosen]
    table[5] = _before(-ranks, delay <= PROMPT)
    table[6] = _before(work - _TO_RANK * ranks, delay <= SOON)
    table[[0, 1, 3, 4, 5, 6]] = compressed(table[[0, 1, 3, 4, 5, 6]])
    table[7] = np.maximum(np.log((ranks + 1.0) / (ranks.max(initial=0.0) + 1.0)), -MOST_DELAY)
    table[8] = np.minimum(np.log((work + 1.0) / (work.min(initial=np.inf) + 1.0)), MOST_DELAY)
    return np.ascontiguousarray(table.T, np.float32)


def _before(keys: Floats, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many of those that are counted have a smaller key."""
    return np.searchsorted(np.sort(keys[counted]), keys)
