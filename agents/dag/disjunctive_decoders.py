"""Compiled tabu search over the order of nodes on executors, where each node may run on one executor only.

A schedule is a selection: the order of the nodes on each executor, which with the edges of the graph determines the
earliest starts. Only moves within a block, nodes that follow each other on one executor along a longest path, can
shorten it. A node moves to an end of its block, or the first or last node into it, by the estimate of the longest path
through the moved nodes (neighbourhood N6: E. Balas and A. Vazacopoulos, "Guided local search with shifting bottleneck
for job shop scheduling", Management Science 44(2), 1998). The least estimate is taken, unless the move restores what a
recent move has changed (E. D. Taillard, "Parallel taboo search techniques for the job shop scheduling problem", ORSA
Journal on Computing 6(2), 1994).

When a tabu search no longer finds better schedules, another one starts between two good ones: on the way from one to
the other, by swaps (B. Peng, Z. Lu and T. C. E. Cheng, "A tabu search/path relinking algorithm to solve the job shop
scheduling problem", Computers and Operations Research 53, 2015). This module imports numba; see
:func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from desim.agents._random_bits import next_bits
from desim.agents.search import compiled

__all__ = ["Elite", "Move", "Selection", "Shop", "Side", "State", "Tabu", "search"]

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

Function = TypeVar("Function", bound=Callable[..., Any])

NONE = -1
PATIENCE = 10_000  # moves of a tabu search without a better schedule before it ends
TENURE = 10.0  # least number of moves for which an order is kept, beside the nodes per executor over the executors


class Shop(NamedTuple):
    """Nodes with their executors, and edges.

    Attributes
    ----------
    run_times, release : array of float, shape (n,)
        Run time of each node on its executor, and its earliest start, in seconds.
    executor, slot : array of int, shape (n,)
        Executor of each node, and its number among the nodes there.
    first_parent, parent, parent_lag : array
        Parents of node i: ``parent[first_parent[i]:first_parent[i + 1]]``, and the times from their ends to the arrival
        of their data, in seconds.
    first_child, child, child_lag : array
        The same for the children.
    bound : float
        Lower bound on the makespan: the search ends when it is met.
    """

    run_times: Floats
    release: Floats
    executor: IntArray
    slot: IntArray
    first_parent: IntArray
    parent: IntArray
    parent_lag: Floats
    first_child: IntArray
    child: IntArray
    child_lag: Floats
    bound: float


class Selection(NamedTuple):
    """Order of the nodes on each executor, and what follows from it; all arrays have shape (n,).

    Attributes
    ----------
    before, behind : array of int
        Node before and behind each node on its executor, or NONE.
    head, tail : array of float
        Start of each node, and time from its end to the end of the schedule.
    parents_head, children_tail : array of float
        The same as far as edges and releases tell.
    order, missing : array of int
        Nodes, each after all that it waits for; and scratch space.
    path : array of int
        Nodes on a longest path, from its end.
    scratch : array of float
        Scratch space.
    last : array of int, shape (k,)
        Scratch space: the last node on each executor.
    """

    before: IntArray
    behind: IntArray
    head: Floats
    tail: Floats
    parents_head: Floats
    children_tail: Floats
    order: IntArray
    missing: IntArray
    path: IntArray
    scratch: Floats
    last: IntArray


class Side(NamedTuple):
    """One direction of time, or the mirrored one, in which ends are starts and children are parents.

    Attributes
    ----------
    first_child, child, before, behind, head, tail, parents_head, children_tail : array
        As above.
    is_mirrored : bool
        Whether time goes backwards.
    """

    first_child: IntArray
    child: IntArray
    before: IntArray
    behind: IntArray
    head: Floats
    tail: Floats
    parents_head: Floats
    children_tail: Floats
    is_mirrored: bool


class Tabu(NamedTuple):
    """State of a tabu search.

    Attributes
    ----------
    until : array of int, shape (n, w)
        Move until which a node must not come before the node in a slot of its executor.
    best : array of int, shape (n,)
        Order of the best schedule of this tabu search.
    values : array of float, shape (2,)
        Makespan of the best schedule of this tabu search, and of the current one.
    moves : array of int, shape (2,)
        Moves made, and moves when the best schedule was found.
    state : array of uint64, shape (1,)
        State of the random generator.
    """

    until: IntArray
    best: IntArray
    values: Floats
    moves: IntArray
    state: NDArray[np.uint64]


class Move(NamedTuple):
    """The best moves so far.

    Attributes
    ----------
    nodes : array of int, shape (6,)
        Node, other node and whether it is mirrored, for the best move that is not tabu; and the same for a random move.
    lengths : array of float, shape (1,)
        Estimate of the best move.
    counts : array of int, shape (2,)
        Number of moves as good as the best one, and of all moves.
    """

    nodes: IntArray
    lengths: Floats
    counts: IntArray


class State(NamedTuple):
    """State of the search.

    Attributes
    ----------
    shop : Shop
        Nodes, executors and edges.
    now : Selection
        Current schedule; at first, only its order matters.
    ahead, mirrored : Side
        Its two directions of time.
    tabu : Tabu
        State of the tabu search, with an infinite best value at first.
    move : Move
        The best moves so far.
    """

    shop: Shop
    now: Selection
    ahead: Side
    mirrored: Side
    tabu: Tabu
    move: Move


class Elite(NamedTuple):
    """Good schedules.

    Attributes
    ----------
    orders : array of int, shape (size, n)
        Order of the nodes in each.
    makespans : array of float, shape (size,)
        Their makespans, infinite where there is none yet.
    values : array of float, shape (1,)
        Makespan of the best schedule of all.
    best : array of int, shape (n,)
        Order of the best schedule of all.
    ranks : array of int, shape (n,)
        Scratch space.
    """

    orders: IntArray
    makespans: Floats
    values: Floats
    best: IntArray
    ranks: IntArray


def _small(function: Function) -> Function:
    return compiled(function, allocates=False)


@_small
def _draw(state: NDArray[np.uint64], number: int) -> int:
    """Return a random integer from 0 to ``number`` - 1."""
    return int(np.int64(next_bits(state) >> np.uint64(33)) * number >> 31)


# -- selections ------------------------------------------------------------------------------------


@_small
def _load(shop: Shop, now: Selection, order: IntArray) -> None:
    """Select the orders on executors that follow from an order of all nodes."""
    for executor in range(len(now.last)):
        now.last[executor] = NONE
    for place in range(len(order)):
        node = order[place]
        ahead = now.last[shop.executor[node]]
        now.before[node], now.behind[node] = ahead, NONE
        if ahead != NONE:
            now.behind[ahead] = node
        now.last[shop.executor[node]] = node


@_small
def _find_heads(shop: Shop, now: Selection) -> bool:
    """Compute the order and the heads; return False if nodes wait for each other in a cycle."""
    order, missing, head, run_times = now.order, now.missing, now.head, shop.run_times
    end = 0
    for node in range(len(order)):
        missing[node] = shop.first_parent[node + 1] - shop.first_parent[node] + (now.before[node] != NONE)
        if missing[node] == 0:
            order[end] = node
            end += 1
    place = 0
    while place < end:
        node = order[place]
        place += 1
        latest = shop.release[node]
        for edge in range(shop.first_parent[node], shop.first_parent[node + 1]):
            parent = shop.parent[edge]
            latest = max(latest, head[parent] + run_times[parent] + shop.parent_lag[edge])
        now.parents_head[node] = latest
        ahead, behind = now.before[node], now.behind[node]
        if ahead != NONE:
            latest = max(latest, head[ahead] + run_times[ahead])
        head[node] = latest
        for edge in range(shop.first_child[node], shop.first_child[node + 1]):
            child = shop.child[edge]
            missing[child] -= 1
            if missing[child] == 0:
                order[end] = child
                end += 1
        if behind != NONE:
            missing[behind] -= 1
            if missing[behind] == 0:
                order[end] = behind
                end += 1
    return end == len(order)


@_small
def _find_tails(shop: Shop, now: Selection) -> float:
    """Compute the tails; return the makespan."""
    tail, run_times, makespan = now.tail, shop.run_times, 0.0
    for place in range(len(now.order) - 1, -1, -1):
        node = now.order[place]
        latest = 0.0
        for edge in range(shop.first_child[node], shop.first_child[node + 1]):
            child = shop.child[edge]
            latest = max(latest, tail[child] + run_times[child] + shop.child_lag[edge])
        now.children_tail[node] = latest
        behind = now.behind[node]
        if behind != NONE:
            latest = max(latest, tail[behind] + run_times[behind])
        tail[node] = latest
        makespan = max(makespan, now.head[node] + run_times[node])
    return makespan


@_small
def _put(side: Side, node: int, other: int) -> None:
    """Move a node right behind another one on its executor."""
    ahead, behind = side.before[node], side.behind[node]
    if ahead != NONE:
        side.behind[ahead] = behind
    if behind != NONE:
        side.before[behind] = ahead
    ahead, behind = other, side.behind[other]
    side.before[node], side.behind[node] = ahead, behind
    side.behind[ahead] = node
    if behind != NONE:
        side.before[behind] = node


# -- moves -----------------------------------------------------------------------------------------


@_small
def _find_path(shop: Shop, now: Selection, state: NDArray[np.uint64]) -> int:
    """Find a longest path, from its end; return the number of its nodes."""
    head, run_times = now.head, shop.run_times
    node, end = NONE, -np.inf
    for other in range(len(head)):
        if head[other] + run_times[other] > end:
            node, end = other, head[other] + run_times[other]
    count = 0
    while node != NONE:
        now.path[count] = node
        count += 1
        start, ahead, parent = head[node], now.before[node], NONE
        if ahead != NONE and head[ahead] + run_times[ahead] < start:
            ahead = NONE
        if now.parents_head[node] == start:
            for edge in range(shop.first_parent[node], shop.first_parent[node + 1]):
                other = shop.parent[edge]
                if head[other] + run_times[other] + shop.parent_lag[edge] == start:
                    parent = other
        node = parent if ahead == NONE or (parent != NONE and _draw(state, 2)) else ahead
    return count


@_small
def _may_move(run_times: Floats, side: Side, node: int, other: int) -> bool:
    """Return whether a node can move right behind another one, because no child of it is before that one."""
    left = run_times[other] + side.tail[other]
    for edge in range(side.first_child[node], side.first_child[node + 1]):
        child = side.child[edge]
        if left < run_times[child] + side.tail[child] or run_times[child] == 0.0:
            return False
    return True


@_small
def _length(run_times: Floats, side: Side, scratch: Floats, node: int, other: int) -> float:
    """Return an estimate of the longest path through the moved nodes if a node moves right behind another one."""
    ahead = side.before[node]
    end = -np.inf if ahead == NONE else side.head[ahead] + run_times[ahead]
    step = node
    while step != other:
        step = side.behind[step]
        end = max(side.parents_head[step], end) + run_times[step]
        scratch[step] = end
    end = max(side.parents_head[node], end) + run_times[node]
    behind, rest = side.behind[other], side.children_tail[node]
    if behind != NONE:
        rest = max(rest, side.tail[behind] + run_times[behind])
    longest: float = end + rest
    rest += run_times[node]
    while step != node:
        rest = max(side.children_tail[step], rest)
        longest = max(longest, scratch[step] + rest)
        rest += run_times[step]
        step = side.before[step]
    return longest


@_small
def _is_tabu(shop: Shop, tabu: Tabu, side: Side, node: int, other: int) -> bool:
    """Return whether a move restores an order that a recent one has changed."""
    step = node
    while step != other:
        step = side.behind[step]
        first, second = (node, step) if side.is_mirrored else (step, node)
        if tabu.until[first, shop.slot[second]] > tabu.moves[0]:
            return True
    return False


@_small
def _forbid(shop: Shop, tabu: Tabu, side: Side, node: int, other: int) -> None:
    """Forbid to restore the order that a move is about to change, for a random number of moves."""
    tenure = TENURE + tabu.until.shape[1] ** 2 / len(tabu.until)
    until = tabu.moves[0] + int(tenure) + _draw(tabu.state, int(0.5 * tenure) + 1)
    step = node
    while step != other:
        step = side.behind[step]
        first, second = (step, node) if side.is_mirrored else (node, step)
        tabu.until[first, shop.slot[second]] = until


@_small
def _consider(state: State, side: Side, node: int, other: int) -> None:
    """Compare a move with the best one so far."""
    shop, now, tabu, move = state.shop, state.now, state.tabu, state.move
    if not (side.behind[node] == other or _may_move(shop.run_times, side, node, other)):
        return
    move.counts[1] += 1
    if _draw(tabu.state, move.counts[1]) == 0:
        move.nodes[3], move.nodes[4], move.nodes[5] = node, other, side.is_mirrored
    length = _length(shop.run_times, side, now.scratch, node, other)
    if length > move.lengths[0] or (length >= tabu.values[0] and _is_tabu(shop, tabu, side, node, other)):
        return
    move.counts[0] = move.counts[0] + 1 if length == move.lengths[0] else 1
    move.lengths[0] = length
    if _draw(tabu.state, move.counts[0]) == 0:
        move.nodes[0], move.nodes[1], move.nodes[2] = node, other, side.is_mirrored


@_small
def _consider_all(state: State) -> None:
    """Compare all moves within the blocks of a longest path."""
    now, move, path = state.now, state.move, state.now.path
    first = _find_path(state.shop, now, state.tabu.state) - 1
    move.counts[0], move.counts[1], move.lengths[0] = 0, 0, np.inf
    while first >= 0:  # the path is stored from its end, so that a block goes down from ``first`` to ``last``
        last = first
        while last > 0 and now.before[path[last - 1]] == path[last]:
            last -= 1
        for place in range(first, last, -1):
            _consider(state, state.ahead, path[place], path[last])
        for place in range(first - 1, last, -1):
            _consider(state, state.ahead, path[first], path[place])
        for place in range(first - 2, last - 1, -1):
            _consider(state, state.mirrored, path[place], path[first])
        for place in range(first - 1, last + 1, -1):
            _consider(state, state.mirrored, path[last], path[place])
        first = last - 1


@_small
def _step(state: State) -> bool:
    """Make the best move; return False if there is none, because the schedule is optimal."""
    shop, now, tabu, move, ahead, mirrored = state.shop, state.now, state.tabu, state.move, state.ahead, state.mirrored
    _consider_all(state)
    if not move.counts[1]:
        return False
    first = 0 if move.counts[0] else 3
    node, other = move.nodes[first], move.nodes[first + 1]
    if move.nodes[first + 2]:
        next_one = mirrored.behind[node]
        _forbid(shop, tabu, mirrored, node, other)
        _put(mirrored, node, other)
    else:
        next_one = ahead.behind[node]
        _forbid(shop, tabu, ahead, node, other)
        _put(ahead, node, other)
    if not _find_heads(shop, now):  # a cycle through nodes without run time: undo the move
        if move.nodes[first + 2]:
            _put(ahead, node, next_one)
        else:
            _put(mirrored, node, next_one)
        _find_heads(shop, now)
    tabu.values[1] = _find_tails(shop, now)
    tabu.moves[0] += 1
    return True


# -- starts ----------------------------------------------------------------------------------------


@_small
def _load_random(shop: Shop, now: Selection, state: NDArray[np.uint64]) -> None:
    """Select random orders: one node after the other whose parents are there."""
    missing, able, count = now.missing, now.path, 0
    for node in range(len(missing)):
        missing[node] = shop.first_parent[node + 1] - shop.first_parent[node]
        if not missing[node]:
            able[count] = node
            count += 1
    for place in range(len(missing)):
        drawn = _draw(state, count)
        node = able[drawn]
        count -= 1
        able[drawn] = able[count]
        now.order[place] = node
        for edge in range(shop.first_child[node], shop.first_child[node + 1]):
            child = shop.child[edge]
            missing[child] -= 1
            if not missing[child]:
                able[count] = child
                count += 1
    _load(shop, now, now.order)


@_small
def _distance(now: Selection, ranks: IntArray) -> int:
    """Return the number of pairs on an executor whose order is another one by rank."""
    count = 0
    for node in range(len(ranks)):
        other = now.behind[node]
        while other != NONE:
            count += ranks[other] < ranks[node]
            other = now.behind[other]
    return count


@_small
def _rank(order: IntArray, ranks: IntArray) -> None:
    """Store the place of each node in an order."""
    for place in range(len(order)):
        ranks[order[place]] = place


@_small
def _relink(shop: Shop, now: Selection, elite: Elite, ahead: Side, state: NDArray[np.uint64]) -> None:
    """Select orders on the way from one good schedule to another, by swaps of neighbours."""
    size = len(elite.makespans)
    one = _draw(state, size)
    other = (one + 1 + _draw(state, size - 1)) % size
    _load(shop, now, elite.orders[one])
    _rank(elite.orders[other], elite.ranks)
    left = int(_distance(now, elite.ranks) * (0.3 + 0.4 * _draw(state, 1024) / 1024))
    if left < 5:  # they are almost the same
        _load_random(shop, now, state)
    while left > 0:
        begin, found = _draw(state, len(elite.ranks)), False
        for place in range(len(elite.ranks)):
            node = (begin + place) % len(elite.ranks)
            behind = now.behind[node]
            if behind != NONE and elite.ranks[behind] < elite.ranks[node]:
                _put(ahead, node, behind)
                if _find_heads(shop, now):
                    found = True
                    break
                _put(ahead, behind, node)
        if not found:
            break
        left -= 1


@_small
def _keep(shop: Shop, now: Selection, tabu: Tabu, elite: Elite) -> None:
    """Keep the best schedule of a tabu search instead of the worst good one, unless it is there already."""
    worst = 0
    for place in range(len(elite.makespans)):
        if elite.makespans[place] > elite.makespans[worst]:
            worst = place
    if tabu.values[0] >= elite.makespans[worst]:
        return
    _load(shop, now, tabu.best)
    for place in range(len(elite.makespans)):
        if elite.makespans[place] == tabu.values[0]:
            _rank(elite.orders[place], elite.ranks)
            if not _distance(now, elite.ranks):
                return
    elite.makespans[worst] = tabu.values[0]
    _copy(elite.orders[worst], tabu.best)


@_small
def _is_full(elite: Elite) -> bool:
    """Return whether there are as many good schedules as are kept."""
    full = True
    for makespan in elite.makespans:
        full &= makespan < np.inf
    return full


@_small
def _copy(into: IntArray, order: IntArray) -> None:
    """Copy an order."""
    for place in range(len(order)):
        into[place] = order[place]


@_small
def _note(now: Selection, tabu: Tabu, elite: Elite, makespan: float) -> None:
    """Note the current schedule if it is the best one of the tabu search, and of all."""
    if makespan < tabu.values[0]:
        tabu.values[0], tabu.moves[1] = makespan, tabu.moves[0]
        _copy(tabu.best, now.order)
        if makespan < elite.values[0]:
            elite.values[0] = makespan
            _copy(elite.best, now.order)


@_small
def search(state: State, elite: Elite, moves: int) -> bool:
    """Search for shorter schedules.

    Parameters
    ----------
    state : State
        State of the search.
    elite : Elite
        Good schedules, and the best one.
    moves : int
        Number of moves to make.

    Returns
    -------
    bool
        Whether the search should go on: False if the best schedule is optimal.
    """
    shop, now, tabu = state.shop, state.now, state.tabu
    if elite.values[0] == np.inf:
        _load(shop, now, now.order)
        _find_heads(shop, now)
        _note(now, tabu, elite, _find_tails(shop, now))
    for _ in range(moves):
        if elite.values[0] <= shop.bound or not _step(state):
            return False
        _note(now, tabu, elite, tabu.values[1])
        if tabu.moves[0] - tabu.moves[1] > PATIENCE:
            _keep(shop, now, tabu, elite)
            if _is_full(elite):
                _relink(shop, now, elite, state.ahead, tabu.state)
            else:
                _load_random(shop, now, tabu.state)
            _find_heads(shop, now)
            tabu.values[0] = np.inf
            _note(now, tabu, elite, _find_tails(shop, now))
    return True
