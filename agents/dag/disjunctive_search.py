"""Tabu search where each node may run on one executor only, as in job shops.

`improved` returns a better order of the nodes; :class:`desim.agents.dag.search.SearchAgent` carries it out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.search import Budget, decoders

__all__ = ["improved", "is_disjunctive"]

IntArray = NDArray[np.int64]

TABU = "desim.agents.dag.disjunctive_decoders"
AT_ONCE = 500  # moves between two readings of the clock
SIZE = 8  # number of good schedules that are kept


def is_disjunctive(schedule: Any, planned: IntArray) -> bool:
    """Return whether each node to plan may run on exactly one executor that is up."""
    up = schedule.executors["available"] < np.inf
    return bool((((schedule.run_times[planned] < np.inf) & up).sum(axis=1) == 1).all())


def improved(schedule: Any, order: IntArray, budget: Budget, state: NDArray[np.uint64]) -> IntArray:
    """Return the order of the best schedule found.

    Parameters
    ----------
    schedule : Schedule
        Known state, without any decoded node.
    order : numpy.ndarray of int
        Nodes to plan in the order of a first schedule, parents first.
    budget : Budget
        Limit on the search: moves, or seconds.
    state : numpy.ndarray of uint64, shape (1,)
        State of the random generator, which is updated.

    Returns
    -------
    numpy.ndarray of int
        The same nodes, parents first, and on each executor in the order found.
    """
    passes, number = decoders(TABU), len(order)
    shop, first = _shop(schedule, order), np.arange(number)
    width = int(shop.slot.max()) + 1
    now = passes.Selection(
        **{name: np.zeros(number, np.int64) for name in ("before", "behind", "missing", "path")},
        **{name: np.zeros(number) for name in ("head", "tail", "parents_head", "children_tail", "scratch")},
        order=first.copy(),
        last=np.zeros(len(schedule.executors), np.int64),
    )
    tabu = passes.Tabu(
        until=np.zeros((number, width), np.int64),
        best=first.copy(),
        values=np.full(2, np.inf),
        moves=np.zeros(2, np.int64),
        state=state,
    )
    elite = passes.Elite(
        orders=np.zeros((SIZE, number), np.int64),
        makespans=np.full(SIZE, np.inf),
        values=np.full(1, np.inf),
        best=first.copy(),
        ranks=first.copy(),
    )
    ahead = passes.Side(
        *(shop.first_child, shop.child, now.before, now.behind, now.head, now.tail),
        *(now.parents_head, now.children_tail, False),
    )
    mirrored = passes.Side(
        *(shop.first_parent, shop.parent, now.behind, now.before, now.tail, now.head),
        *(now.children_tail, now.parents_head, True),
    )
    move = passes.Move(np.zeros(6, np.int64), np.zeros(1), np.zeros(2, np.int64))
    situation = passes.State(shop, now, ahead, mirrored, tabu, move)
    left, goes_on, used = budget.most_moves, True, budget.timer()
    while goes_on and left > 0 and used() < 1.0:
        at_once = int(min(left, AT_ONCE))
        goes_on = passes.search(situation, elite, at_once)
        left -= at_once
    best: IntArray = order[elite.best]
    return best


def _shop(schedule: Any, order: IntArray) -> Any:
    """Return the nodes in a given order, with their executors and edges."""
    nodes, edges, executors, copies = schedule.nodes, schedule.edges, schedule.executors, schedule.copies
    up = executors["available"] < np.inf
    executor = np.where(up, schedule.run_times[order], np.inf).argmin(axis=1)
    run_times = schedule.run_times[order, executor]
    release = np.maximum(executors["available"][executor], schedule.now)
    places = {node: place for place, node in enumerate(order.tolist())}
    found: list[tuple[int, int, float]] = []
    for place, node in enumerate(order.tolist()):
        own, lags = executor[place], []
        for edge in range(nodes["first_edge"][node], nodes["last_edge"][node]):
            parent, size = edges["parent"][edge].item(), edges["size"][edge].item()
            soonest, copy = np.inf, nodes["copy"][parent].item()
            while copy >= 0:
                source, arrival = copies["executor"][copy], copies["finish"][copy]
                if source != own:
                    arrival = max(arrival, executors["sent"][own])
                    arrival += size * schedule.seconds[source, own] + schedule.latencies[source, own]
                soonest, copy = min(soonest, arrival), copies["sibling"][copy].item()
            if soonest < np.inf:
                release[place] = max(release[place], soonest)
            if parent in places:
                source = executor[places[parent]]
                lag = size * schedule.seconds[source, own] + schedule.latencies[source, own] if source != own else 0.0
                lags.append((places[parent], place, lag))
        if schedule.late and lags:  # all data are sent once the last parent has finished
            longest = max(lag for *_, lag in lags)
            lags = [(parent, child, longest) for parent, child, _ in lags]
        found += lags
    slot = np.zeros(len(order), np.int64)
    for one in range(len(executors)):
        slot[executor == one] = np.arange((executor == one).sum())
    by_child = _grouped([(child, parent, lag) for parent, child, lag in found], len(order))
    by_parent = _grouped(found, len(order))
    work = np.bincount(executor, run_times, len(executors))
    earliest = np.array([release[executor == one].min(initial=np.inf) for one in range(len(executors))])
    bound = float(np.where(work > 0.0, earliest + work, 0.0).max())
    return decoders(TABU).Shop(run_times, release, executor, slot, *by_child, *by_parent, bound)


def _grouped(edges: list[tuple[int, int, float]], count: int) -> tuple[IntArray, IntArray, NDArray[np.float64]]:
    """Return edges grouped by their first end: where each group begins, the second ends, and the times."""
    edges = sorted(edges)
    first = np.searchsorted(np.array([edge[0] for edge in edges], dtype=np.int64), np.arange(count + 1))
    return first, np.array([edge[1] for edge in edges], np.int64), np.array([edge[2] for edge in edges], np.float64)
