"""Compiled decoders that turn an order of nodes into a schedule: list scheduling as the simulator carries it out.

A plan is an order of all unassigned nodes, parents first, with a fixed executor for some of them. It is decoded node by
node: a node goes to its fixed executor or to the one on which it finishes first, after everything there; with
insertion, also into an idle interval; with duplication, also after a copy of one parent. These are the allocations of
:mod:`desim.agents.dag.allocation`. Times are summed in the cluster's order, so they are equal to the last bit.

Copies are kept in doubly linked lists, one per executor, so that the last decoded nodes can be removed again: plans
with a common beginning share its decoding. Related values are in one array of records, because compiled code counts the
references of every array that it uses. All compiled functions are in this module, because numba's cache on disk does
not notice changes in other modules. This module imports numba; see :func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from desim.agents._random_bits import next_bits
from desim.agents.search import compiled

__all__ = ["COPY", "EDGE", "EXECUTOR", "JOB", "NODE", "PLACE", "Patience", "Schedule", "Search"]
__all__ += ["decode", "find_bounds", "find_chain", "improve", "plan_patiently", "roll_back", "value_of"]

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]
Records = NDArray[Any]

Function = TypeVar("Function", bound=Callable[..., Any])

NONE = -1
"""Marks the absence of a copy, node or executor, and the end of a list."""

_WHOLE, _REAL = np.int64, np.float64

EDGE = np.dtype([("parent", _WHOLE), ("size", _REAL)])
"""A parent of a node, and the units of data that it sends."""

NODE = np.dtype(
    [
        ("first_edge", _WHOLE),
        ("last_edge", _WHOLE),
        ("first_child", _WHOLE),
        ("last_child", _WHOLE),
        ("job", _WHOLE),
        ("tail", _REAL),
        ("copy", _WHOLE),
    ]
)
"""A node: first and one-past-last index of its edges and of its children, its job, the least time in seconds from its
end to the end of its job, and the copy that was added last."""

COPY = np.dtype(
    [
        ("node", _WHOLE),
        ("executor", _WHOLE),
        ("start", _REAL),
        ("finish", _REAL),
        ("before", _WHOLE),
        ("behind", _WHOLE),
        ("sibling", _WHOLE),
        ("old_available", _REAL),
        ("old_gap_end", _REAL),
    ]
)
"""A copy: node, executor, start and finish in seconds; the copies before and behind it on its executor, and the copy of
the same node added before it; and the executor's previous values of ``available`` and ``gap_end``."""

EXECUTOR = np.dtype(
    [
        ("first", _WHOLE),
        ("last", _WHOLE),
        ("free", _REAL),
        ("available", _REAL),
        ("gap_end", _REAL),
        ("sent", _REAL),
        ("arrival", _REAL),
        ("latest", _REAL),
        ("others", _REAL),
        ("latest_parent", _WHOLE),
    ]
)
"""An executor: both ends of its list of copies; when its running node ends and when all its nodes do, infinite if it is
down; a time after which there is no idle interval before a copy; the earliest time at which data are sent to it; and
scratch space for a node's data arrivals: of one parent, of the last parent, of all others, and which parent is the
last. Times are in seconds."""

JOB = np.dtype([("weight", _REAL), ("bound", _REAL)])
"""A job: weight of a second of its end, and lower bound on its end in seconds, given what has been decoded."""

PLACE = np.dtype([("old_bound", _REAL), ("old_sum", _REAL), ("old_peak", _REAL), ("count", _WHOLE)])
"""The state before a position of the order was decoded: the bound of its node's job, the weighted sum and the maximum
of all bounds, and the number of copies."""


class Schedule(NamedTuple):
    """The known state when a plan is made, and the decoded part of the plan.

    Attributes
    ----------
    now : float
        Current time in seconds.
    run_times : array of float, shape (num_nodes, num_executors)
        Run times in seconds.
    seconds, latencies : array of float, shape (num_executors, num_executors)
        Transfer time per unit of data and latency from each executor to each other, in seconds.
    edges, nodes, copies, executors, jobs, places : array of records
        Records as described above. Nodes are numbered job by job, parents before their children. Copies that are
        already assigned come first.
    children : array of int
        Children of the nodes.
    sizes : array of int, shape (2,)
        Number of copies, and number of decoded positions of the order.
    sums : array of float, shape (2,)
        Weighted sum of the bounds of the jobs, and their maximum.
    makespan_weight : float
        Weight of a second of the last job's end.
    last_end : float
        Latest end of jobs whose nodes are all assigned, in seconds.
    late : bool
        Whether data are sent only once all parents of a node have finished.
    insertion, duplication : bool
        Allocation that decoding uses.
    """

    now: float
    run_times: Floats
    seconds: Floats
    latencies: Floats
    edges: Records
    nodes: Records
    copies: Records
    executors: Records
    jobs: Records
    places: Records
    children: IntArray
    sizes: IntArray
    sums: Floats
    makespan_weight: float
    last_end: float
    late: bool
    insertion: bool
    duplication: bool


def _inlined(function: Function) -> Function:
    """Return a function that numba inlines into its callers, because passing many arrays takes longer than its work."""
    inlined: Any = numba.njit(inline="always")(function)
    return inlined  # type: ignore[no-any-return]


# -- when data arrive ------------------------------------------------------------------------------


@compiled
def _sent_at(schedule: Schedule, node: int) -> float:
    """Return when all parents of a node have finished, which is when its data are sent if sending is late."""
    copies, nodes, edges = schedule.copies, schedule.nodes, schedule.edges
    latest = -np.inf
    for edge in range(nodes[node]["first_edge"], nodes[node]["last_edge"]):
        soonest, copy = np.inf, nodes[edges[edge]["parent"]]["copy"]
        while copy != NONE:
            soonest = min(soonest, copies[copy]["finish"])
            copy = copies[copy]["sibling"]
        latest = max(latest, soonest)
    return latest


@_inlined
def _find_arrivals(schedule: Schedule, node: int, begin: int, end: int) -> None:
    """Store when the data of a node's last parent, and of all others, arrive at executors ``begin`` to ``end`` - 1."""
    executors, copies, nodes, edges = schedule.executors, schedule.copies, schedule.nodes, schedule.edges
    for place in range(begin, end):
        executors[place]["latest"] = 0.0
        executors[place]["others"] = -np.inf
        executors[place]["latest_parent"] = NONE
    all_sent = _sent_at(schedule, node) if schedule.late else -np.inf
    for edge in range(nodes[node]["first_edge"], nodes[node]["last_edge"]):
        parent, size = edges[edge]["parent"], edges[edge]["size"]
        for place in range(begin, end):
            executors[place]["arrival"] = np.inf
        copy = nodes[parent]["copy"]
        while copy != NONE:
            source, finish = copies[copy]["executor"], copies[copy]["finish"]
            for place in range(begin, end):
                arrival = finish
                if place != source:
                    arrival = max(finish, executors[place]["sent"], all_sent)
                    arrival += size * schedule.seconds[source, place] + schedule.latencies[source, place]
                executors[place]["arrival"] = min(executors[place]["arrival"], arrival)
            copy = copies[copy]["sibling"]
        for place in range(begin, end):
            arrival, latest = executors[place]["arrival"], executors[place]["latest"]
            if arrival > latest:
                executors[place]["others"] = max(executors[place]["others"], latest)
                executors[place]["latest"] = arrival
                executors[place]["latest_parent"] = parent
            else:
                executors[place]["others"] = max(executors[place]["others"], arrival)


@_inlined
def _ready_time(schedule: Schedule, node: int, place: int) -> float:
    """Return when all data of a node are available at an executor."""
    copies, nodes, edges = schedule.copies, schedule.nodes, schedule.edges
    earliest = schedule.executors[place]["sent"]
    if schedule.late:
        earliest = max(earliest, _sent_at(schedule, node))
    latest = 0.0
    for edge in range(nodes[node]["first_edge"], nodes[node]["last_edge"]):
        soonest, copy = np.inf, nodes[edges[edge]["parent"]]["copy"]
        while copy != NONE:
            source, arrival = copies[copy]["executor"], copies[copy]["finish"]
            if place != source:
                seconds = edges[edge]["size"] * schedule.seconds[source, place]
                arrival = max(arrival, earliest) + (seconds + schedule.latencies[source, place])
            soonest = min(soonest, arrival)
            copy = copies[copy]["sibling"]
        latest = max(latest, soonest)
    return latest


# -- where a node goes -------------------------------------------------------------------------------


@_inlined
def _gap(copies: Records, last: int, free: float, ready: float, duration: float) -> tuple[int, float]:
    """Return the copy after the first idle interval that fits, and the start in it; NONE and infinity if none fits."""
    found, found_start = NONE, np.inf
    copy, least = last, ready + duration
    while copy != NONE and copies[copy]["start"] >= least:
        ahead = copies[copy]["before"]
        begin, end = free if ahead == NONE else copies[ahead]["finish"], copies[copy]["start"]
        if end > begin:
            start = max(begin, ready)
            if start < end and start + duration <= end:
                found, found_start = copy, start
        copy = ahead
    return found, found_start


@_inlined
def _allocate(schedule: Schedule, node: int, own: int) -> tuple[int, int, int]:
    """Return a node's executor, the copy it goes before (or NONE), and the parent to duplicate (or NONE)."""
    executors, copies, run_times = schedule.executors, schedule.copies, schedule.run_times
    begin, end = (0, len(executors)) if own == NONE else (own, own + 1)
    _find_arrivals(schedule, node, begin, end)
    best, where, position, duplicated = np.inf, NONE, NONE, NONE
    for place in range(begin, end):
        available, duration = executors[place]["available"], run_times[node, place]
        ready = max(executors[place]["latest"], schedule.now)
        if available == np.inf or ready + duration >= best:
            continue
        finish, behind = max(available, ready) + duration, NONE
        if schedule.insertion and ready + duration <= executors[place]["gap_end"]:
            copy, start = _gap(copies, executors[place]["last"], executors[place]["free"], ready, duration)
            if copy != NONE:
                finish, behind = start + duration, copy
        if finish < best:
            best, where, position = finish, place, behind
    if schedule.duplication:
        for place in range(begin, end):
            # Duplication helps only for the parent whose data arrive last, if it is the only such parent.
            parent, available, others = (
                executors[place]["latest_parent"],
                executors[place]["available"],
                executors[place]["others"],
            )
            if parent == NONE or available == np.inf:
                continue
            longest, duration = run_times[parent, place], run_times[node, place]
            if available + longest + duration >= best or others + duration >= best:
                continue
            finish = max(_ready_time(schedule, parent, place), available) + longest
            finish = max(finish, others) + duration
            if finish < best:
                best, where, position, duplicated = finish, place, NONE, parent
    return where, position, duplicated


@_inlined
def _put(schedule: Schedule, node: int, place: int, behind: int) -> float:
    """Add a copy of a node to an executor, before another copy or at the end; return its finish time."""
    copies, nodes, executors = schedule.copies, schedule.nodes, schedule.executors
    number = schedule.sizes[0]
    schedule.sizes[0] = number + 1
    ahead = executors[place]["last"] if behind == NONE else copies[behind]["before"]
    if behind == NONE:
        time = executors[place]["available"]
    else:
        time = executors[place]["free"] if ahead == NONE else copies[ahead]["finish"]
    start = max(time, _ready_time(schedule, node, place), schedule.now)
    finish: float = start + schedule.run_times[node, place]
    copy = copies[number]
    copy["node"], copy["executor"], copy["start"], copy["finish"] = node, place, start, finish
    copy["before"], copy["behind"] = ahead, behind
    copy["sibling"], copy["old_available"] = nodes[node]["copy"], executors[place]["available"]
    copy["old_gap_end"] = executors[place]["gap_end"]
    nodes[node]["copy"] = number
    if ahead == NONE:
        executors[place]["first"] = number
    else:
        copies[ahead]["behind"] = number
    if behind == NONE:
        executors[place]["last"] = number
        executors[place]["available"] = finish
        if start > time:
            executors[place]["gap_end"] = start
    else:
        copies[behind]["before"] = number
    return finish


@_inlined
def _take_off(schedule: Schedule) -> None:
    """Remove the copy that was added last."""
    copies = schedule.copies
    number = schedule.sizes[0] - 1
    schedule.sizes[0] = number
    copy = copies[number]
    executor, ahead, behind = schedule.executors[copy["executor"]], copy["before"], copy["behind"]
    if ahead == NONE:
        executor["first"] = behind
    else:
        copies[ahead]["behind"] = behind
    if behind == NONE:
        executor["last"] = ahead
    else:
        copies[behind]["before"] = ahead
    executor["available"], executor["gap_end"] = copy["old_available"], copy["old_gap_end"]
    schedule.nodes[copy["node"]]["copy"] = copy["sibling"]


# -- plans -------------------------------------------------------------------------------------------


@compiled
def roll_back(schedule: Schedule, order: IntArray, place: int) -> None:
    """Undo the decoding of an order from a position on."""
    places, sums = schedule.places, schedule.sums
    while schedule.sizes[1] > place:
        last = schedule.sizes[1] - 1
        while schedule.sizes[0] > places[last]["count"]:
            _take_off(schedule)
        schedule.jobs[schedule.nodes[order[last]]["job"]]["bound"] = places[last]["old_bound"]
        sums[0], sums[1] = places[last]["old_sum"], places[last]["old_peak"]
        schedule.sizes[1] = last


@compiled
def decode(schedule: Schedule, order: IntArray, own: IntArray, end: int, limit: float) -> bool:
    """Decode an order up to a position, continuing from the decoded part.

    Parameters
    ----------
    schedule : Schedule
        Known state and decoded part, which grows.
    order : array of int
        Nodes, parents first.
    own : array of int, shape (num_nodes,)
        Fixed executor of each node, or NONE.
    end : int
        Position at which to stop.
    limit : float
        Value above which decoding is abandoned.

    Returns
    -------
    bool
        False if decoding was abandoned because the decoded part implies a value above the limit. With duplication, a
        later copy that finishes before an earlier one could still have lowered it.
    """
    places, jobs, nodes, sums = schedule.places, schedule.jobs, schedule.nodes, schedule.sums
    for place in range(schedule.sizes[1], end):
        node = order[place]
        job = nodes[node]["job"]
        bound = jobs[job]["bound"]
        places[place]["old_bound"], places[place]["count"] = bound, schedule.sizes[0]
        places[place]["old_sum"], places[place]["old_peak"] = sums[0], sums[1]
        schedule.sizes[1] = place + 1
        where, behind, duplicated = _allocate(schedule, node, own[node])
        if where == NONE:  # the fixed executor is down
            return False
        if duplicated != NONE:
            _put(schedule, duplicated, where, NONE)
        finish = _put(schedule, node, where, behind) + nodes[node]["tail"]
        if finish > bound:
            jobs[job]["bound"] = finish
            sums[0] += jobs[job]["weight"] * (finish - bound)
            sums[1] = max(sums[1], finish)
            if schedule.makespan_weight * sums[1] + sums[0] > limit:
                return False
    return True


@compiled
def value_of(schedule: Schedule) -> float:
    """Return the value of a fully decoded order: weighted sum of job ends plus weighted last end."""
    nodes, copies, jobs = schedule.nodes, schedule.copies, schedule.jobs
    total, last, job, end = 0.0, schedule.last_end, 0, -np.inf
    for node in range(len(nodes)):
        if nodes[node]["job"] != job:
            total, last = total + jobs[job]["weight"] * end, max(last, end)
            job, end = nodes[node]["job"], -np.inf
        if nodes[node]["first_child"] == nodes[node]["last_child"]:  # every other node finishes before one of these
            soonest, copy = np.inf, nodes[node]["copy"]
            while copy != NONE:
                soonest = min(soonest, copies[copy]["finish"])
                copy = copies[copy]["sibling"]
            if soonest < np.inf:  # otherwise its result was lost after it ended
                end = max(end, soonest)
    total, last = total + jobs[job]["weight"] * end, max(last, end)
    value: float = schedule.makespan_weight * last + total
    return value


@compiled
def find_bounds(schedule: Schedule, planned: IntArray) -> None:
    """Store the tails, and the bounds before any of the planned nodes is decoded."""
    nodes, jobs, executors = schedule.nodes, schedule.jobs, schedule.executors
    shortest = np.full(len(nodes), np.inf)
    for place in range(len(executors)):
        if executors[place]["available"] < np.inf:
            shortest = np.minimum(shortest, schedule.run_times[:, place])
    for node in range(len(nodes) - 1, -1, -1):
        if shortest[node] == np.inf:  # every executor that may run it is down: it is not planned
            shortest[node] = 0.0
        tail = 0.0
        for edge in range(nodes[node]["first_child"], nodes[node]["last_child"]):
            child = schedule.children[edge]
            tail = max(tail, shortest[child] + nodes[child]["tail"])
        nodes[node]["tail"] = tail
    for job in range(len(jobs)):
        jobs[job]["bound"] = schedule.now
    for node in planned:
        job = nodes[node]["job"]
        jobs[job]["bound"] = max(jobs[job]["bound"], schedule.now + shortest[node] + nodes[node]["tail"])
    schedule.sums[0], schedule.sums[1] = 0.0, schedule.last_end
    for job in range(len(jobs)):
        schedule.sums[0] += jobs[job]["weight"] * jobs[job]["bound"]
        schedule.sums[1] = max(schedule.sums[1], jobs[job]["bound"])


# -- patient list scheduling ---------------------------------------------------------------------------


class Patience(NamedTuple):
    """Parameters and state of a simulated patient scheduler, see :class:`~desim.agents.dag.PatientScheduler`.

    Attributes
    ----------
    keys : array of float, shape (num_jobs,)
        Key of each job; the node with the least key of its job minus its own rank share comes next.
    work : array of float, shape (num_nodes,)
        Amount by which the key of the job decreases when the node is assigned.
    ranks : array of float, shape (num_nodes,)
        Rank shares of the nodes.
    slack : float
        Largest acceptable ratio of the times on the best idle executor and on the best of all.
    missing : array of bool, shape (num_nodes,)
        Whether the node is not ready yet.
    ready : array of float, shape (num_nodes, num_executors)
        For ready nodes, when their data are on each executor, in seconds.
    found : array of int, shape (num_nodes,)
        Nodes; those that are ready now come first.
    number : array of int, shape (1,)
        Number of ready nodes.
    """

    keys: Floats
    work: Floats
    ranks: Floats
    slack: float
    missing: NDArray[np.bool_]
    ready: Floats
    found: IntArray
    number: IntArray


@compiled
def _have_finished(schedule: Schedule, node: int, time: float) -> bool:
    """Return whether all parents of a node have finished by a given time."""
    nodes, copies, edges = schedule.nodes, schedule.copies, schedule.edges
    for edge in range(nodes[node]["first_edge"], nodes[node]["last_edge"]):
        soonest, copy = np.inf, nodes[edges[edge]["parent"]]["copy"]
        while copy != NONE:
            soonest = min(soonest, copies[copy]["finish"])
            copy = copies[copy]["sibling"]
        if soonest > time:
            return False
    return True


@compiled
def _find_ready(schedule: Schedule, patience: Patience, time: float) -> None:
    """Add the nodes whose parents have finished by a given time to the ready nodes."""
    executors, missing = schedule.executors, patience.missing
    for node in range(len(missing)):
        if missing[node] and _have_finished(schedule, node, time):
            missing[node] = False
            patience.found[patience.number[0]] = node
            patience.number[0] += 1
            _find_arrivals(schedule, node, 0, len(executors))
            for place in range(len(executors)):
                patience.ready[node, place] = executors[place]["latest"]


@compiled
def _choose(schedule: Schedule, patience: Patience, time: float) -> int:
    """Return the index of the next node among the ready ones; NONE if all of them should wait."""
    nodes, executors, run_times, ready = schedule.nodes, schedule.executors, schedule.run_times, patience.ready
    chosen, least, spare, least_loss, busy = NONE, np.inf, NONE, np.inf, False
    for place in range(len(executors)):
        busy |= time < executors[place]["available"] < np.inf
    for number in range(patience.number[0]):
        node = patience.found[number]
        best, best_idle = np.inf, np.inf
        for place in range(len(executors)):
            available = executors[place]["available"]
            finish = max(available, ready[node, place]) + run_times[node, place] - time
            best = min(best, finish)
            if available <= time:
                best_idle = min(best_idle, finish)
        key = patience.keys[nodes[node]["job"]] - patience.ranks[node]
        if best_idle < np.inf and best_idle <= patience.slack * best + 1e-9 * max(time, 1.0):
            if key < least:
                least, chosen = key, number
        elif best_idle - best < least_loss:
            least_loss, spare = best_idle - best, number
    return chosen if chosen != NONE or busy else spare


@compiled
def _assign_to_idle(schedule: Schedule, node: int, time: float, available: Floats) -> tuple[int, float]:
    """Assign a node by DEFT to an executor that is idle at a given time; return the executor and the finish time."""
    executors = schedule.executors
    for place in range(len(executors)):
        available[place] = executors[place]["available"]
        executors[place]["available"] = time if available[place] <= time else np.inf
    where, _, duplicated = _allocate(schedule, node, NONE)
    for place in range(len(executors)):
        executors[place]["available"] = max(available[place], time)
    if where == NONE:
        return NONE, np.inf
    if duplicated != NONE:
        _put(schedule, duplicated, where, NONE)
    return where, _put(schedule, node, where, NONE)


@compiled
def _next_end(schedule: Schedule, time: float) -> float:
    """Return the first time after a given one at which a copy finishes or an executor becomes idle."""
    soonest = np.inf
    for copy in range(schedule.sizes[0]):
        finish = schedule.copies[copy]["finish"]
        if time < finish < soonest:
            soonest = finish
    for place in range(len(schedule.executors)):
        available = schedule.executors[place]["available"]
        if time < available < soonest:
            soonest = available
    return soonest


@compiled
def plan_patiently(schedule: Schedule, patience: Patience, order: IntArray, own: IntArray) -> int:
    """Simulate a patient scheduler with DEFT, store its plan, and restore the schedule.

    Parameters
    ----------
    schedule : Schedule
        Known state with nothing decoded and allocation by DEFT.
    patience : Patience
        Parameters and initial state; changed in place.
    order : array of int, shape (num_planned,)
        Output: the nodes in the order of assignment.
    own : array of int, shape (num_nodes,)
        Output: the executors of the nodes.

    Returns
    -------
    int
        Number of assigned nodes; fewer than all if no executor is available.
    """
    executors, found, count = schedule.executors, patience.found, patience.number
    before, available = executors["available"].copy(), np.zeros(len(executors))
    first, time, done = schedule.sizes[0], schedule.now, 0
    while done < len(order) and time < np.inf:
        _find_ready(schedule, patience, time)
        while count[0] > 0:
            number = _choose(schedule, patience, time)
            if number == NONE:
                break
            node = found[number]
            where, finish = _assign_to_idle(schedule, node, time, available)
            if where == NONE:
                break
            patience.keys[schedule.nodes[node]["job"]] -= patience.work[node]
            order[done], own[node] = node, where
            done += 1
            count[0] -= 1
            for other in range(number, count[0]):
                found[other] = found[other + 1]
            if finish <= time:  # a run time of 0
                _find_ready(schedule, patience, time)
        time = _next_end(schedule, time)
    while schedule.sizes[0] > first:
        _take_off(schedule)
    for place in range(len(executors)):
        executors[place]["available"] = before[place]
    return done


# -- local search ------------------------------------------------------------------------------------


class Search(NamedTuple):
    """State of a local search: the current plan and the best one found.

    Attributes
    ----------
    order : array of int, shape (num_planned,)
        Nodes of the current plan, parents first.
    places : array of int, shape (num_nodes,)
        Position of each node in the order; -1 for nodes that are not planned.
    own : array of int, shape (num_nodes,)
        Fixed executor of each node, or NONE.
    best_order, best_own : array of int
        Order and executors of the best plan.
    values : array of float, shape (2,)
        Values of the current and of the best plan.
    history : array of float
        Values of earlier plans: a plan that is no worse than the one some moves ago is accepted (late acceptance,
        E. K. Burke and Y. Bykov, European Journal of Operational Research 258(1), 2017).
    moves : array of int, shape (2,)
        Number of moves made, and its value when the best plan was found or the acceptance was last relaxed.
    spare : array of int, shape (num_planned,)
        Scratch space for the order before a move.
    chain : array of int, shape (num_planned + 1,)
        Number of nodes on a chain without idle time to the end of a job, followed by these nodes.
    state : array of uint64, shape (1,)
        State of the random generator.
    """

    order: IntArray
    places: IntArray
    own: IntArray
    best_order: IntArray
    best_own: IntArray
    values: Floats
    history: Floats
    moves: IntArray
    spare: IntArray
    chain: IntArray
    state: NDArray[np.uint64]


@compiled
def _draw(state: NDArray[np.uint64], number: int) -> int:
    """Return a random integer from 0 to ``number`` - 1."""
    return int(np.int64(next_bits(state) >> np.uint64(33)) * number >> 31)


@compiled
def _draw_executor(schedule: Schedule, state: NDArray[np.uint64], node: int) -> int:
    """Return a random executor that may run a node."""
    run_times, count = schedule.run_times, 0
    for place in range(len(schedule.executors)):
        count += run_times[node, place] < np.inf
    left = _draw(state, count)
    for place in range(len(schedule.executors)):
        if run_times[node, place] < np.inf:
            if left == 0:
                return place
            left -= 1
    return NONE


@compiled
def _window(schedule: Schedule, search: Search, node: int) -> tuple[int, int]:
    """Return the first and the last position in the order to which a node can move."""
    nodes, edges, places = schedule.nodes, schedule.edges, search.places
    first, last = 0, len(search.order) - 1
    for edge in range(nodes[node]["first_edge"], nodes[node]["last_edge"]):
        first = max(first, places[edges[edge]["parent"]] + 1)
    for edge in range(nodes[node]["first_child"], nodes[node]["last_child"]):
        place = places[schedule.children[edge]]
        if place != NONE:
            last = min(last, place - 1)
    return first, last


@compiled
def _shift(search: Search, begin: int, end: int) -> None:
    """Move the node at one position of the order to another, shifting those in between by one."""
    order, places = search.order, search.places
    node = order[begin]
    step = 1 if end > begin else -1
    for place in range(begin, end, step):
        order[place] = order[place + step]
        places[order[place]] = place
    order[end] = node
    places[node] = end


@compiled
def _shift_job(schedule: Schedule, search: Search, job: int, begin: int, by: int) -> int:
    """Move a job's nodes from a position on by a distance in the order; return the first position that changes."""
    order, nodes = search.order, schedule.nodes
    count = len(order)
    if by > 0:  # from the end, so that the job's own nodes do not block each other
        bound = count
        for place in range(count - 1, begin - 1, -1):
            if nodes[order[place]]["job"] == job:
                bound = min(place + by, bound - 1)
                _shift(search, place, bound)
        return begin
    bound = max(begin + by, 0) - 1
    for place in range(max(begin + by, 0), begin):
        if nodes[order[place]]["job"] == job:  # not past another node of the job
            bound = place
    first = bound + 1
    for place in range(begin, count):
        if nodes[order[place]]["job"] == job:
            bound = max(place + by, bound + 1)
            _shift(search, place, bound)
    return first


@compiled
def _last_parent(schedule: Schedule, copy: int) -> int:
    """Return the copy from which the last data arrived at another copy; NONE if there is none."""
    copies, nodes, edges = schedule.copies, schedule.nodes, schedule.edges
    node, place = copies[copy]["node"], copies[copy]["executor"]
    latest, found = -np.inf, NONE
    for edge in range(nodes[node]["first_edge"], nodes[node]["last_edge"]):
        soonest, first = np.inf, NONE
        other = nodes[edges[edge]["parent"]]["copy"]
        while other != NONE:
            source, arrival = copies[other]["executor"], copies[other]["finish"]
            if source != place:
                arrival += edges[edge]["size"] * schedule.seconds[source, place] + schedule.latencies[source, place]
            if arrival < soonest:
                soonest, first = arrival, other
            other = copies[other]["sibling"]
        if soonest > latest:
            latest, found = soonest, first
    return found


@compiled
def find_chain(schedule: Schedule, search: Search) -> None:
    """Find the chain that determines a job's end, backwards: the copy ahead on the executor, or the last parent's.

    Only changes on such a chain can bring the end forward. Usually the job that ends last is chosen. Sometimes, and
    always if the makespan has no weight, the job is random.

    Parameters
    ----------
    schedule : Schedule
        Decoded order of the search.
    search : Search
        State of the search; its chain is changed.
    """
    nodes, copies, order, chain = schedule.nodes, schedule.copies, search.order, search.chain
    job = NONE
    if schedule.makespan_weight == 0.0 or _draw(search.state, 4) == 0:
        job = nodes[order[_draw(search.state, len(order))]]["job"]
    finish, copy = -np.inf, NONE
    for node in order:
        last = nodes[node]["copy"]
        if (job == NONE or nodes[node]["job"] == job) and copies[last]["finish"] > finish:
            finish, copy = copies[last]["finish"], last
    count, first = 0, schedule.places[0]["count"]
    while copy >= first and count < len(order):
        count += 1
        chain[count] = copies[copy]["node"]
        ahead = copies[copy]["before"]
        if ahead == NONE or copies[ahead]["finish"] < copies[copy]["start"]:
            ahead = _last_parent(schedule, copy)
        copy = ahead
    chain[0] = count


@compiled
def _change(schedule: Schedule, search: Search) -> tuple[int, int, int]:
    """Change the plan; return the first position that changes, and the node with its previous executor, if changed.

    We chose the probabilities of the changes and the distance of short moves on generated jobs.
    """
    state, order = search.state, search.order
    count = len(order)
    place = _draw(state, count)
    if search.chain[0] and _draw(state, 16) < 10:
        node = search.chain[1 + _draw(state, search.chain[0])]
        if search.places[node] != NONE:  # not a copy that was already assigned
            place = search.places[node]
    node = order[place]
    kind = _draw(state, 16)
    if kind < 3:
        old = search.own[node]
        if old != NONE and _draw(state, 2):
            search.own[node] = NONE
        else:
            search.own[node] = _draw_executor(schedule, state, node)
        return place, node, old
    if kind == 3 and len(schedule.jobs) > 1:
        by = 1 + _draw(state, max(count // 4, 1))
        if _draw(state, 2):
            by = -by
        return _shift_job(schedule, search, schedule.nodes[node]["job"], place, by), NONE, NONE
    first, last = _window(schedule, search, node)
    if kind < 8:
        first, last = max(first, place - 12), min(last, place + 12)
    if last <= first:
        return count, NONE, NONE
    end = first + _draw(state, last - first)
    if end >= place:  # any position but the current one
        end += 1
    _shift(search, place, end)
    return min(place, end), NONE, NONE


@compiled
def _let_worse_in(schedule: Schedule, search: Search) -> None:
    """Accept plans up to 10 % worse than the best one if there was no improvement for a number of moves."""
    count = len(search.order)
    if search.moves[0] - search.moves[1] < 100 + 20 * count:
        return
    now = schedule.makespan_weight
    for job in range(len(schedule.jobs)):
        now += schedule.jobs[job]["weight"]
    now *= schedule.now
    share = 0.1 * _draw(search.state, 1024) / 1024
    search.history[:] = search.values[1] + share * (search.values[1] - now)
    search.moves[1] = search.moves[0]


@compiled
def improve(schedule: Schedule, search: Search, moves: int) -> None:
    """Make moves and keep the best plan.

    Parameters
    ----------
    schedule : Schedule
        Known state; the beginning of the search's order may be decoded.
    search : Search
        State of the search; changed in place.
    moves : int
        Number of moves to make.
    """
    order, values, history = search.order, search.values, search.history
    count = len(order)
    for _ in range(moves):
        slot = search.moves[0] % len(history)
        search.moves[0] += 1
        _let_worse_in(schedule, search)
        search.spare[:] = order
        place, node, old = _change(schedule, search)
        if place == count:
            continue
        roll_back(schedule, search.spare, place)
        limit = max(values[0], history[slot])
        value = np.inf
        if decode(schedule, order, search.own, count, limit + 1e-12 * abs(limit)):
            value = value_of(schedule)
        if value <= limit:
            values[0] = value
            find_chain(schedule, search)
            if value < values[1]:
                values[1] = value
                search.moves[1] = search.moves[0]
                search.best_order[:] = order
                search.best_own[:] = search.own
        else:
            roll_back(schedule, order, place)
            for other in range(place, count):
                order[other] = search.spare[other]
                search.places[order[other]] = other
            if node != NONE:
                search.own[node] = old
        history[slot] = min(history[slot], values[0])
