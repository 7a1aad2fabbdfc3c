"""Search over schedules on pools: justification passes from the plans of common orders.

`search` returns the best schedule found; :class:`desim.agents.dag.search.SearchAgent` carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.search import Budget, decoders
from desim.problems.dag import DagObservation, JobState

__all__ = ["PoolState", "search"]

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

PASSES = "desim.agents.dag.pool_decoders"
AT_ONCE = 8  # passes between two readings of the clock
FEW = 200
"""Number of nodes up to which serial passes are quick, and small changes of their order find few other schedules."""
SLACK = 0.002  # share by which an accepted schedule may be worse at the beginning of the search


class PoolState(NamedTuple):
    """The observed state as arrays.

    Attributes
    ----------
    net, back : Network
        Nodes to plan, and the same with all edges reversed and all pools empty.
    owners : list of (JobState, int)
        Job and number of each node.
    modes : list of int
        Mode of each place; 0 without modes.
    few : bool
        Whether the nodes are few, and amounts are exact.
    """

    net: Any
    back: Any
    owners: list[tuple[JobState, int]]
    modes: list[int]
    few: bool

    @classmethod
    def of(
        cls, observation: DagObservation, weights: dict[JobState, float], makespan_weight: float, *, by_shares: bool
    ) -> PoolState:
        """Return the observed state.

        Parameters
        ----------
        observation : DagObservation
            Current observation.
        weights : dict of JobState to float
            Weight of a second of the end of each job.
        makespan_weight : float
            Weight of a second of the makespan.
        by_shares : bool
            Whether demands are added as floats, in shares of the capacity.

        Returns
        -------
        PoolState
            Nodes that are not assigned and that some pool that is up may run, with all of their ancestors.
        """
        executors, up = observation.executors, observation.available_times < np.inf
        capacity, count = executors.units, executors.num_executors
        owners: list[tuple[JobState, int]] = []
        places: dict[tuple[int, int], int] = {}
        for number, state in enumerate(weights):
            for node, parents in enumerate(state.job.parent_lists):
                able = bool((state.run_times[node][up] < np.inf).any())
                known = all(state.assigned[parent] or (number, parent) in places for parent, _ in parents)
                if able and known and not state.assigned[node]:
                    places[number, node] = len(owners)
                    owners.append((state, node))
        numbers = {state: number for number, state in enumerate(weights)}
        edges = [
            (places[numbers[state], parent], child, size)
            for child, (state, node) in enumerate(owners)
            for parent, size in state.job.parent_lists[node]
            if (numbers[state], parent) in places
        ]
        ready = np.full((len(owners), count), float(observation.time))
        for row, (state, node) in enumerate(owners):
            placed = [bool(state.copies[parent]) for parent, _ in state.job.parent_lists[node]]
            if any(placed):
                ready[row] = np.maximum(observation.time, state.arrivals(node)[placed].max(axis=0))
        most = max((len(state.modes[node].units) for state, node in owners if node in state.modes), default=1)
        place, modes = np.repeat(np.arange(count), most), list(range(most)) * count
        run_times = np.full((len(owners), len(place)), np.inf)
        demands = np.zeros((len(owners), len(place), capacity.shape[1]), dtype=np.int64)
        for row, (state, node) in enumerate(owners):
            own = state.units[node]
            if node in state.modes:
                times, units = state.modes[node]
                used = np.flatnonzero(np.array(modes) < len(units))
                run_times[row, used] = np.where(up, times, np.inf).T.ravel()
                demands[row, used] = np.tile(units, (count, 1))
            else:
                run_times[row, ::most] = np.where(up, state.run_times[node], np.inf)
                demands[row, ::most] = capacity if own is None else np.array(own)
        copies = sorted(
            (copy.finish, executor, copy.sequence, _units(copy.state.demand(copy.node, copy.mode), capacity[executor]))
            for executor, queue in observation.executor_queues.items()
            for copy in [*queue.copies(), *queue.waiting]
        )
        pools = np.array([executor for _, executor, *_ in copies], dtype=np.int64)
        units = np.array([units for *_, units in copies], dtype=np.int64).reshape(-1, capacity.shape[1])
        # Divided by what divides all amounts of a resource, whole numbers are exact as floats.
        scale = np.maximum(capacity, 1) if by_shares else _divisors(capacity, demands, units)
        moves = bool((executors.seconds_per_unit > 0).any() and edges) or bool(
            executors.latencies.any() or (ready > observation.time).any()
        )
        common = {
            "place": place,
            "run_times": run_times,
            "demands": demands / scale[place],
            "limits": np.ones(capacity.shape) if by_shares else capacity / scale,
            "seconds": np.array(executors.seconds_per_unit),  # writable, as the reversed ones
            "latencies": np.array(executors.latencies),
            "job": np.array([numbers[state] for state, _ in owners]),
            "weights": np.array(list(weights.values())),
            "makespan_weight": makespan_weight,
            "moves": moves,
        }
        network = decoders(PASSES).Network
        net = network(
            used=(capacity - observation.free_units) / scale,
            release_times=np.array([finish for finish, *_ in copies], dtype=np.float64),
            release_pools=pools,
            release_units=units / scale[pools],
            ready=ready,
            now=float(observation.time),
            **_grouped(edges, len(owners)),
            **common,
        )
        back = network(
            used=np.zeros(capacity.shape),
            release_times=np.empty(0),
            release_pools=np.empty(0, dtype=np.int64),
            release_units=np.empty((0, capacity.shape[1])),
            ready=np.zeros(ready.shape),
            now=0.0,
            **_grouped([(child, parent, size) for parent, child, size in edges], len(owners)),
            **{**common, "seconds": executors.seconds_per_unit.T.copy(), "latencies": executors.latencies.T.copy()},
        )
        return cls(net, back, owners, modes, len(owners) <= FEW and not by_shares)


def _divisors(capacity: IntArray, *others: IntArray) -> IntArray:
    """Return the greatest common divisor of all amounts of each resource, 1 if they are zero, in a row per pool."""
    rows = np.concatenate([amounts.reshape(-1, capacity.shape[1]) for amounts in (capacity, *others)])
    return np.broadcast_to(np.maximum(np.gcd.reduce(rows), 1), capacity.shape)


def _units(units: list[int] | None, capacity: IntArray) -> list[int]:
    """Return the amounts that a node takes of a pool."""
    return capacity.tolist() if units is None else units


def _grouped(edges: list[tuple[int, int, float]], count: int) -> dict[str, Any]:
    """Return edges grouped by their first end, and the number of edges that end at each node."""
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    return {
        "first": np.searchsorted(ends[order, 0], np.arange(count + 1)),
        "child": ends[order, 1].copy(),
        "lag": np.array([edge[2] for edge in edges], dtype=np.float64)[order],
        "parents": np.bincount(ends[:, 1], minlength=count).astype(np.int64),
    }


def search(situation: PoolState, beginnings: Iterable[Floats], budget: Budget, state: NDArray[np.uint64]) -> Any:
    """Return the search after the budget is used up.

    Parameters
    ----------
    situation : PoolState
        The observed state.
    beginnings : iterable of numpy.ndarray of shape (num_nodes,)
        Keys of the nodes in common orders, smallest first.
    budget : Budget
        Limit on the search: passes, or seconds.
    state : numpy.ndarray of uint64, shape (1,)
        State of the random generator, which is updated.

    Returns
    -------
    PoolSearch
        The search, with the best schedule.
    """
    passes, number = decoders(PASSES), len(situation.owners)
    found = passes.PoolSearch(
        starts=np.zeros(number),
        own=np.zeros(number, dtype=np.int64),
        current=np.zeros(number),
        current_own=np.zeros(number, dtype=np.int64),
        values=np.full(2, np.inf),
        state=state,
        few=situation.few,
    )
    for keys in beginnings:
        passes.evaluate(situation.net, keys, found)
    done, most, used = 0.0, budget.most_moves, budget.timer()
    while done < most and found.values[0] < np.inf and (elapsed := used()) < 1.0:
        at_once = int(min(AT_ONCE, most - done))
        slack = SLACK * (1.0 - max(done / most, elapsed))
        passes.improve(situation.net, situation.back, found, at_once, slack)
        done += at_once
    return found
