"""Compiled passes over schedules on pools: parallel schedule generation, forward and backward.

A pass goes through time. At each end or arrival of data, the nodes whose parents have finished start in the order of
their ranks, each on the pool among those where it fits that finishes it first. A backward pass does the same from the
end, with all edges reversed and each node on its pool; nodes then start in the next forward pass in the order of their
backward starts. A node with modes has a place for each mode on each pool; in a backward pass, it keeps its mode.
Forward and backward passes in turn are known as justification: V. Valls, F. Ballestin and
S. Quintanilla, "Justification and RCPSP: a technique that pays", European Journal of Operational Research 165(2), 2005.

A node fits if ``used + demand <= limit``. Amounts are floats that hold whole numbers, or shares of the capacity in the
arithmetic of a published study. Times are summed as in the simulator, so they are equal to the last bit. Waiting nodes
are the leaves of a binary tree by rank, whose inner vertices hold the least demands below them, so that the next node
that fits is found without a look at those that do not. This module imports numba; see
:func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from desim.agents._random_bits import next_bits
from desim.agents.search import compiled

__all__ = ["Network", "PoolSearch", "evaluate", "improve", "ranks_of"]

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

Function = TypeVar("Function", bound=Callable[..., Any])

NONE = -1


class Network(NamedTuple):
    """Nodes, edges and pools, in one direction of time.

    Places are pools or, if nodes have modes, pairs of a pool and a mode.

    Attributes
    ----------
    place : array of int, shape (p,)
        Pool of each place.
    run_times : array of float, shape (n, p)
        Run time of each node at each place, infinite where it may not run, in seconds.
    demands : array of float, shape (n, p, r)
        Amounts that each node takes at each place.
    limits, used : array of float, shape (k, r)
        Amounts of each pool, and those that are used at the beginning.
    release_times, release_pools, release_units
        When running copies end, on which pool, and the amounts that they give back, in order of time.
    first, child, lag : array
        Edges of node i: ``child[first[i]:first[i + 1]]``, and the units of data that are moved along each.
    parents : array of int, shape (n,)
        Number of parents of each node that are planned as well.
    ready : array of float, shape (n, k)
        When data of other parents are on each pool, in seconds.
    seconds, latencies : array of float, shape (k, k)
        Seconds per unit of data, and latency, from each pool to each other.
    job : array of int, shape (n,)
        Job of each node.
    weights : array of float, shape (j,)
        Weight of a second of each job's end, beside the weight of the makespan.
    now, makespan_weight : float
        Time at the beginning, and weight of the makespan.
    moves : bool
        Whether data take time.
    """

    place: IntArray
    run_times: Floats
    demands: Floats
    limits: Floats
    used: Floats
    release_times: Floats
    release_pools: IntArray
    release_units: Floats
    first: IntArray
    child: IntArray
    lag: Floats
    parents: IntArray
    ready: Floats
    seconds: Floats
    latencies: Floats
    job: IntArray
    weights: Floats
    now: float
    makespan_weight: float
    moves: bool


class PoolSearch(NamedTuple):
    """State of a search: the best schedule, the current one, and random numbers.

    Attributes
    ----------
    starts, own : array of float and int, shape (n,)
        Starts and places of the best schedule.
    current, current_own : array of float and int, shape (n,)
        Starts and places of the current schedule.
    values : array of float, shape (2,)
        Values of the best and of the current schedule.
    state : array of uint64, shape (1,)
        State of the random generator.
    few : bool
        Whether the nodes are few, and amounts are exact.
    """

    starts: Floats
    own: IntArray
    current: Floats
    current_own: IntArray
    values: Floats
    state: NDArray[np.uint64]
    few: bool


@compiled
def ranks_of(keys: Floats) -> tuple[IntArray, IntArray]:
    """Return the rank of each node by key, smallest first, and the nodes by rank; ties go to the first node."""
    order = np.argsort(keys, kind="mergesort")
    ranks = np.empty(len(keys), np.int64)
    for place in range(len(order)):
        ranks[order[place]] = place
    return ranks, order


class Pass(NamedTuple):
    """State of a pass through time.

    Attributes
    ----------
    own, ranks : array of int, shape (n,)
        Place of each node, or NONE for any; and its rank.
    starts, ends, places : array of float, float and int, shape (n,)
        Start, end and place of each node that has started.
    missing : array of int, shape (n,)
        Number of parents of each node that have not ended.
    ready : array of float, shape (n, k)
        When the data of each node are on each pool, as far as its parents have ended.
    order, coming, running : array of int, shape (n,)
        Nodes by rank; nodes that have waited for data, whose parents have ended; and nodes that run, the last end
        first.
    used : array of float, shape (k, r)
        Used amounts of each pool.
    tree : array of float, shape (2 m, p, r)
        Demands of the waiting nodes, infinite for others: that of rank i at ``m + i``, and the least of two children,
        ``2 j`` and ``2 j + 1``, at ``j``.
    counts : array of int, shape (4,)
        Numbers of nodes that have waited for data, of running nodes, of copies that have given back their amounts, and
        of nodes left.
    """

    own: IntArray
    ranks: IntArray
    starts: Floats
    ends: Floats
    places: IntArray
    missing: IntArray
    ready: Floats
    order: IntArray
    coming: IntArray
    running: IntArray
    used: Floats
    tree: Floats
    counts: IntArray


def _small(function: Function) -> Function:
    return compiled(function, allocates=False)


def _inlined(function: Function) -> Function:
    """Return a function that numba inlines into its callers, because passing many arrays takes longer than its work."""
    inlined: Any = numba.njit(inline="always")(function)
    return inlined  # type: ignore[no-any-return]


@_inlined
def _place_for(net: Network, now: Pass, node: int, time: float) -> int:
    """Return the place where a node fits now and finishes first; NONE if there is none."""
    best, first = NONE, np.inf
    for place in range(len(net.place)):
        pool = net.place[place]
        fits = now.own[node] == NONE or now.own[node] == place
        for kind in range(net.limits.shape[1]):
            fits &= now.used[pool, kind] + net.demands[node, place, kind] <= net.limits[pool, kind]
        if fits and now.ready[node, pool] <= time:
            finish = time + net.run_times[node, place]
            if finish < first:
                best, first = place, finish
    return best


@_small
def _next_fit(tree: Floats, place_of: IntArray, used: Floats, limits: Floats, rank: int) -> int:
    """Return the first rank from a given one on whose node waits and may fit at some place; NONE if there is none."""
    first_leaf = len(tree) // 2
    vertex = rank + first_leaf if rank else 1
    while vertex and rank < first_leaf:
        found = False
        for place in range(len(place_of)):
            pool, fits = place_of[place], True
            for kind in range(limits.shape[1]):
                fits &= used[pool, kind] + tree[vertex, place, kind] <= limits[pool, kind]
            found |= fits
        if found and vertex >= first_leaf:
            return vertex - first_leaf
        if found:
            vertex *= 2
        else:
            while vertex & 1:  # what follows a right child follows its parent
                vertex >>= 1
            vertex += vertex > 0
    return NONE


@_small
def _update(tree: Floats, vertex: int) -> None:
    """Compute the least demands of all ancestors of a leaf, as far as they change."""
    changed = True
    while vertex > 1 and changed:
        vertex >>= 1
        changed = False
        for place in range(tree.shape[1]):
            for kind in range(tree.shape[2]):
                least = min(tree[2 * vertex, place, kind], tree[2 * vertex + 1, place, kind])
                changed |= least != tree[vertex, place, kind]
                tree[vertex, place, kind] = least


@_inlined
def _set_leaf(net: Network, now: Pass, node: int, waits: bool) -> None:
    """Enter a node into the waiting nodes, or remove it."""
    leaf = len(now.tree) // 2 + now.ranks[node]
    for place in range(len(net.place)):
        for kind in range(net.limits.shape[1]):
            now.tree[leaf, place, kind] = net.demands[node, place, kind] if waits else np.inf
    _update(now.tree, leaf)


@_inlined
def _begin(net: Network, now: Pass, node: int, time: float) -> None:
    """Start a node at its place."""
    place = now.places[node]
    pool = net.place[place]
    for kind in range(net.limits.shape[1]):
        now.used[pool, kind] += net.demands[node, place, kind]
    now.starts[node], now.ends[node] = time, time + net.run_times[node, place]
    at = now.counts[1]
    while at > 0 and now.ends[now.running[at - 1]] <= now.ends[node]:  # equal ends: first in, first out
        now.running[at] = now.running[at - 1]
        at -= 1
    now.running[at] = node
    now.counts[1] += 1
    now.counts[3] -= 1


@_inlined
def _start_waiting(net: Network, now: Pass, time: float) -> None:
    """Start the nodes that can start, in the order of their ranks."""
    rank = _next_fit(now.tree, net.place, now.used, net.limits, 0)
    while rank != NONE:
        node = now.order[rank]
        place = _place_for(net, now, node, time)
        if place != NONE:
            now.places[node] = place
            _set_leaf(net, now, node, False)
            _begin(net, now, node, time)
        rank = _next_fit(now.tree, net.place, now.used, net.limits, rank + 1)


@_inlined
def _next_arrival(net: Network, now: Pass, time: float) -> float:
    """Return when data of a waiting node next arrive on a pool, infinite if never."""
    kept, soonest = 0, np.inf
    for place in range(now.counts[0]):
        node, comes = now.coming[place], False
        for pool in range(net.limits.shape[0]):
            if now.ready[node, pool] > time:
                comes = True
                soonest = min(soonest, now.ready[node, pool])
        if comes and now.ends[node] == 0.0:
            now.coming[kept] = node
            kept += 1
    now.counts[0] = kept
    return soonest


@_inlined
def _wait(net: Network, now: Pass, node: int) -> None:
    """Enter a node whose parents have ended into the waiting nodes."""
    _set_leaf(net, now, node, True)
    if net.moves:
        now.coming[now.counts[0]] = node
        now.counts[0] += 1


@_inlined
def _end_last(net: Network, now: Pass) -> None:
    """End the running node that is the first to end."""
    now.counts[1] -= 1
    node = now.running[now.counts[1]]
    place = now.places[node]
    pool = net.place[place]
    for kind in range(net.limits.shape[1]):
        now.used[pool, kind] -= net.demands[node, place, kind]
    for edge in range(net.first[node], net.first[node + 1]):
        child = net.child[edge]
        if net.moves:
            for other in range(net.limits.shape[0]):
                arrival = now.ends[node]
                if other != pool:
                    arrival += net.lag[edge] * net.seconds[pool, other] + net.latencies[pool, other]
                now.ready[child, other] = max(now.ready[child, other], arrival)
        now.missing[child] -= 1
        if not now.missing[child]:
            _wait(net, now, child)


@_inlined
def _next_time(net: Network, now: Pass, arrival: float) -> float:
    """Return when the next node or copy ends or data arrive."""
    soonest = arrival
    if now.counts[1]:
        soonest = min(soonest, now.ends[now.running[now.counts[1] - 1]])
    if now.counts[2] < len(net.release_times):
        soonest = min(soonest, net.release_times[now.counts[2]])
    return soonest


@_inlined
def _advance(net: Network, now: Pass, time: float) -> None:
    """Release what nodes that end by a time hold."""
    while now.counts[2] < len(net.release_times) and net.release_times[now.counts[2]] <= time:
        for kind in range(net.limits.shape[1]):
            now.used[net.release_pools[now.counts[2]], kind] -= net.release_units[now.counts[2], kind]
        now.counts[2] += 1
    while now.counts[1] and now.ends[now.running[now.counts[1] - 1]] <= time:
        _end_last(net, now)


@_small
def _go_through(net: Network, now: Pass) -> None:
    """Go through time until all nodes have started, or no more can."""
    for node in now.order:
        if not now.missing[node]:
            _wait(net, now, node)
    time = net.now
    while time < np.inf:
        _start_waiting(net, now, time)
        if not now.counts[3]:
            break
        time = max(time, _next_time(net, now, _next_arrival(net, now, time)))
        _advance(net, now, time)


@compiled
def generate(net: Network, keys: Floats, own: IntArray) -> tuple[float, Floats, IntArray]:
    """Generate the schedule of nodes in the order of their keys.

    Parameters
    ----------
    net : Network
        Nodes, edges and pools.
    keys : array of float, shape (n,)
        Keys, smallest first.
    own : array of int, shape (n,)
        Place of each node, or NONE for any.

    Returns
    -------
    tuple of float, array of float, array of int
        End of the last node, infinite if some never start; and the starts and places of the nodes.
    """
    number = len(keys)
    ranks, order = ranks_of(keys)
    first_leaf = 1
    while first_leaf < number:
        first_leaf *= 2
    now = Pass(
        own,
        ranks,
        np.zeros(number),
        np.zeros(number),
        np.zeros(number, np.int64),
        net.parents.copy(),
        net.ready.copy(),
        order,
        np.empty(number, np.int64),
        np.empty(number, np.int64),
        net.used.copy(),
        np.full((2 * first_leaf, *net.demands.shape[1:]), np.inf),
        np.array([0, 0, 0, number]),
    )
    _go_through(net, now)
    return np.inf if now.counts[3] else now.ends.max(), now.starts, now.places


class Profile(NamedTuple):
    """Used amounts of each pool over time, in steps.

    Attributes
    ----------
    times : array of float, shape (k, s)
        Begin of each step.
    used : array of float, shape (k, s, r)
        Amounts used in it; the last step does not end.
    lengths : array of int, shape (k,)
        Number of steps.
    """

    times: Floats
    used: Floats
    lengths: IntArray


@_small
def _first_fit(net: Network, profile: Profile, node: int, place: int, earliest: float) -> float:
    """Return the first time from an earliest one at which a node fits at a place; infinite if never."""
    pool, run_time = net.place[place], net.run_times[node, place]
    times, length = profile.times[pool], profile.lengths[pool]
    first = 0
    while first + 1 < length and times[first + 1] <= earliest:
        first += 1
    start, at = earliest, first
    while at < length and (at == first or times[at] < start + run_time):
        fits = True
        for kind in range(net.limits.shape[1]):
            fits &= profile.used[pool, at, kind] + net.demands[node, place, kind] <= net.limits[pool, kind]
        at += 1
        if not fits:
            if at == length:
                return np.inf
            first, start = at, times[at]
    return start


@_small
def _split(profile: Profile, pool: int, time: float) -> None:
    """Split the step of a pool's profile that covers a time, so that one begins then."""
    at = profile.lengths[pool]
    while profile.times[pool, at - 1] > time:
        at -= 1
    if profile.times[pool, at - 1] == time:
        return
    for place in range(profile.lengths[pool], at - 1, -1):
        profile.times[pool, place] = profile.times[pool, place - 1] if place > at else time
        for kind in range(profile.used.shape[2]):
            profile.used[pool, place, kind] = profile.used[pool, place - 1, kind]
    profile.lengths[pool] += 1


@compiled
def _profile_of(net: Network) -> Profile:
    """Return the profile of the copies that run, with room for all nodes."""
    count, size = len(net.limits), 2 * len(net.run_times) + len(net.release_times) + 1
    profile = Profile(np.empty((count, size)), np.empty((count, size, net.limits.shape[1])), np.ones(count, np.int64))
    profile.times[:, 0], profile.used[:, 0] = net.now, net.used
    for release in range(len(net.release_times)):  # in order of time
        pool = net.release_pools[release]
        _split(profile, pool, max(net.release_times[release], net.now))
        profile.used[pool, profile.lengths[pool] - 1] -= net.release_units[release]
    return profile


@_small
def _take(net: Network, profile: Profile, node: int, place: int, start: float) -> None:
    """Add the demands of a node to the profile."""
    pool, finish = net.place[place], start + net.run_times[node, place]
    _split(profile, pool, start)
    _split(profile, pool, finish)
    for step in range(profile.lengths[pool]):
        if start <= profile.times[pool, step] < finish:
            for kind in range(net.limits.shape[1]):
                profile.used[pool, step, kind] += net.demands[node, place, kind]


@_small
def _first_of(order: IntArray, places: IntArray, missing: IntArray) -> int:
    """Return the first node in order that has no place yet, but whose parents have; NONE if there is none."""
    for node in order:
        if places[node] == NONE and not missing[node]:
            return int(node)
    return NONE


@compiled
def generate_serially(net: Network, keys: Floats, own: IntArray) -> tuple[float, Floats, IntArray]:
    """Generate the schedule in which each node in turn starts as early as it fits.

    A node may start before others that came first, and resources may be left idle for a node that needs many. Some of
    these schedules are optimal, while there may be no optimal one among those of `generate` (R. Kolisch, "Serial and
    parallel resource-constrained project scheduling methods revisited", European Journal of Operational Research 90(2),
    1996).

    Parameters
    ----------
    net : Network
        Nodes, edges and pools.
    keys : array of float, shape (n,)
        Keys, smallest first.
    own : array of int, shape (n,)
        Place of each node, or NONE for any.

    Returns
    -------
    tuple of float, array of float, array of int
        As of `generate`.
    """
    number, order, profile = len(keys), ranks_of(keys)[1], _profile_of(net)
    missing, ready = net.parents.copy(), np.maximum(net.ready, net.now)
    starts, ends, places = np.zeros(number), np.zeros(number), np.full(number, NONE)
    for _ in range(number):
        node, best, first = _first_of(order, places, missing), NONE, np.inf
        for place in range(len(net.place)):
            if node != NONE and (own[node] == NONE or own[node] == place):
                start = _first_fit(net, profile, node, place, ready[node, net.place[place]])
                if start + net.run_times[node, place] < first:
                    best, first, starts[node] = place, start + net.run_times[node, place], start
        if best == NONE:
            return np.inf, starts, places
        ends[node], places[node] = first, best
        _take(net, profile, node, best, starts[node])
        for edge in range(net.first[node], net.first[node + 1]):
            child = net.child[edge]
            missing[child] -= 1
            for pool in range(len(net.limits)):
                arrival, source = first, net.place[best]
                if pool != source and net.moves:
                    arrival += net.lag[edge] * net.seconds[source, pool] + net.latencies[source, pool]
                ready[child, pool] = max(ready[child, pool], arrival)
    return ends.max(), starts, places


@compiled
def _schedule(net: Network, keys: Floats, own: IntArray, serial: bool) -> tuple[float, Floats, IntArray]:
    if serial:
        return generate_serially(net, keys, own)
    return generate(net, keys, own)


@compiled
def value_of(net: Network, starts: Floats, places: IntArray, makespan: float) -> float:
    """Return the value of a schedule: the weighted sum of its makespan and of the ends of the jobs."""
    if makespan == np.inf:
        return np.inf
    ends = np.zeros(len(net.weights))
    for node in range(len(starts)):
        job = net.job[node]
        ends[job] = max(ends[job], starts[node] + net.run_times[node, places[node]])
    value: float = net.makespan_weight * makespan + (net.weights * ends).sum()
    return value


@compiled
def evaluate(net: Network, keys: Floats, search: PoolSearch) -> bool:
    """Generate the schedule of an order, and keep it if it is better than the best; return whether it is."""
    makespan, starts, places = generate(net, keys, np.full(len(keys), NONE))
    value = value_of(net, starts, places, makespan)
    if not value < search.values[0]:
        return False
    search.values[:] = value
    search.starts[:], search.own[:] = starts, places
    search.current[:], search.current_own[:] = starts, places
    return True


@compiled
def _uniform(state: NDArray[np.uint64]) -> float:
    """Return a random number between 0 and 1."""
    return float(next_bits(state) >> np.uint64(11)) / 9007199254740992.0


@compiled
def _choose_places(net: Network, search: PoolSearch, own: IntArray) -> None:
    """Set the places of nodes with modes at random: free, as they are, or anywhere that they may run.

    A schedule takes the quickest mode that fits, but a slower one may leave more to others.
    """
    keeps, moves = _uniform(search.state), 0.1 * _uniform(search.state)
    for node in range(len(own)):
        draw = _uniform(search.state)
        own[node] = search.current_own[node] if draw < keeps else NONE
        if draw > 1.0 - moves:
            place = int(_uniform(search.state) * len(net.place))
            own[node] = place if net.run_times[node, place] < np.inf else NONE


@compiled
def improve(net: Network, back: Network, search: PoolSearch, passes: int, slack: float) -> None:
    """Search: justify the current schedule with random noise, and accept it unless it is worse by more than a share.

    Of a few nodes, a fifth of the pairs of passes changes the order much, and half of the pairs are serial: small
    changes find few other schedules then.

    Parameters
    ----------
    net, back : Network
        The network and its reverse.
    search : PoolSearch
        State of the search.
    passes : int
        Number of pairs of a backward and a forward pass.
    slack : float
        Share by which an accepted schedule may be worse than the current one.
    """
    number = len(search.starts)
    keys, own = np.empty(number), np.full(number, NONE)
    for _ in range(passes):
        draw = _uniform(search.state)
        share = 0.05 if draw < 0.5 else 0.5 if search.few and draw > 0.8 else 0.02
        serial = search.few and _uniform(search.state) < 0.5
        for node in range(number):
            noise = _uniform(search.state) + _uniform(search.state) + _uniform(search.state) - 1.5
            end = search.current[node] + net.run_times[node, search.current_own[node]] - net.now
            keys[node] = -end * (1.0 + 2.0 * share * noise)
        if net.makespan_weight > 0.0:
            length, starts, places = _schedule(back, keys, search.current_own, serial)
            if length == np.inf:
                continue
            for node in range(number):
                keys[node] = length - starts[node] - net.run_times[node, places[node]]
        else:
            for node in range(number):
                keys[node] = -keys[node] - net.run_times[node, search.current_own[node]]
        if len(net.place) > len(net.limits):
            _choose_places(net, search, own)
        makespan, starts, places = _schedule(net, keys, own, serial)
        value = value_of(net, starts, places, makespan)
        if value <= search.values[1] * (1.0 + slack):
            search.values[1] = value
            search.current[:], search.current_own[:] = starts, places
        if value < search.values[0]:
            search.values[0] = value
            search.starts[:], search.own[:] = starts, places
