"""Agents that answer whatever is allowed, sensible or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from desim.agents.multiserver.gang import GangRepair
from desim.problems.batch import (
    PLACEMENTS,
    Start,
    StartOnNodes,
    StartPreempting,
    StartWithSize,
    WaitUntil,
)
from desim.problems.batch.placement import placement_of
from desim.problems.dag import Assign

__all__ = ["ANYTHING", "AnySite"]


class _Anything:
    """What all of them have in common."""

    name = "anything"

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        self.info = info
        self.rng = rng


class _Batch(_Anything):
    """Start jobs on any free cores, one or several, wait, or wait until; nonsense where that only ends the cycle."""

    def act(self, observation: Any) -> Any:
        rng, queue = self.rng, observation.queue
        fitting = [int(row) for row in queue.row[queue.requested_cores <= observation.free_cores]]
        if self.info["infeasible"] == "forward" and len(observation.running) and rng.random() < 0.2:
            return [-(10**6), "no job", Start(int(queue.row[0]), 0) if len(queue) else None][rng.integers(3)]
        if not fitting or (len(observation.running) and rng.random() < 0.25):
            wait = WaitUntil(observation.time + float(rng.exponential(5.0)) + 1e-3 * max(observation.time, 1e-3))
            return wait if len(queue) and rng.random() < 0.3 else None
        row = fitting[rng.integers(len(fitting))]
        count = int(queue.requested_cores[list(queue.row).index(row)])
        answer = Start(row, self.cores(observation.free_core_set, count)) if rng.random() < 0.5 else row
        return [answer] if rng.random() < 0.3 else answer

    def cores(self, free: int, count: int) -> int:
        """Choose some of the free cores, as a bit set."""
        there = [core for core in range(free.bit_length()) if free >> core & 1]
        return sum(1 << there[place] for place in self.rng.permutation(len(there))[:count].tolist())


class AnySite(_Anything):
    """Start jobs anywhere, in any of their sizes, where any others are taken off, wait, or wait until."""

    def act(self, observation: Any) -> Any:
        rng, queue = self.rng, observation.queue
        if self.info["infeasible"] == "forward" and len(observation.running) and rng.random() < 0.1:
            return (
                [StartPreempting(int(queue.row[0]), (10**6,)), StartWithSize(10**6, 1)][rng.integers(2)]
                if len(queue)
                else None
            )
        for row in rng.permutation(queue.row.tolist()).tolist():
            taken = [other for other, _ in observation.preemptible_by(row) if rng.random() < 0.5]
            if taken and rng.random() < 0.4 and observation.has_room_without(row, taken):
                return StartPreempting(row, tuple(rng.permutation(taken).tolist()))
        nodes = observation.nodes
        on_nodes = nodes is not None
        fits = nodes.fitting() if nodes is not None else queue.requested_cores <= observation.free_cores
        fitting = queue.row[fits].tolist()
        if not fitting or (len(observation.running) and rng.random() < 0.25):
            wait = WaitUntil(observation.time + float(rng.exponential(5.0)) + 1e-3 * max(observation.time, 1e-3))
            return wait if len(queue) and rng.random() < 0.3 else None
        row = fitting[rng.integers(len(fitting))]
        answer = self.start(observation, row, on_nodes)
        return [answer] if rng.random() < 0.3 else answer

    def start(self, observation: Any, row: int, on_nodes: bool) -> Any:
        """Start a job: by its name, in another size where nothing forbids that, or where a policy puts it."""
        rng, sizes = self.rng, observation.sizes_of(row)
        size, forwards = int(rng.integers(len(sizes))), self.info["infeasible"] == "forward"
        if forwards and len(observation.running):  # else nobody might ask again
            may = on_nodes or sizes[size][0] <= observation.free_cores
        else:
            allowed = observation.allows_size(row, size)
            may = not on_nodes and allowed and sizes[size][0] <= observation.free_cores
        if len(sizes) > 1 and may:
            return StartWithSize(row, size)
        if on_nodes and rng.random() < 0.5:
            policy = placement_of(list(PLACEMENTS)[rng.integers(len(PLACEMENTS))])
            nodes = observation.nodes
            return StartOnNodes(row, nodes.room.place(nodes.compiled_request(row), policy))
        return row


class _Dag(_Anything):
    """Assign any ready node to any executor, some with duplicates, some twice; tasks in any number."""

    def act(self, observation: Any) -> Any:
        rng = self.rng
        up = np.flatnonzero(observation.available_times < math.inf)
        busy = any(len(table.waiting) for table in observation.executor_queues.values())
        if not len(up) or (busy and rng.random() < 0.2):
            return None
        choices = list(observation.ready.values())
        state, node = choices[rng.integers(len(choices))]
        executor = int(rng.choice(up))
        if self.info["granularity"] == "task":
            return [Assign(state.job.job_id, node, executor)] * int(rng.integers(1, state.unassigned_tasks[node] + 1))
        known = [other for other in range(state.job.num_nodes) if self.may_run_again(state, other)]
        before = (
            rng.permutation(known)[: rng.integers(0, 3)].tolist()
            if all(state.copies[parent] for parent, _ in state.job.parent_lists[node])
            else []
        )
        answer = Assign(state.job.job_id, node, executor, tuple(map(int, before)))
        if known and rng.random() < 0.2:
            return [answer, Assign(state.job.job_id, int(rng.choice(known)), int(rng.choice(up)))]
        return answer

    @staticmethod
    def may_run_again(state: Any, node: int) -> bool:
        """Tell whether a node may be duplicated: it and its parents have copies."""
        return bool(state.copies[node]) and all(state.copies[parent] for parent, _ in state.job.parent_lists[node])


class _Deferrable(_Anything):
    """Start any jobs in any order, beyond the capacity too if that is allowed."""

    def act(self, observation: Any) -> Any:
        rng, count = self.rng, len(observation.current)
        if rng.random() < 0.1:
            return None
        chosen = rng.permutation(count)[rng.random(count) < 0.7].tolist()
        if self.info["overcommit"] and rng.random() < 0.3:
            return chosen
        used, fitting = observation.used.copy(), []
        for position in chosen:
            request = observation.current.requests[position]
            if not ((used + request > observation.limit) & (request > 0)).any():
                used = used + request
                fitting.append(position)
        return fitting


class _MultiServer(_Anything):
    """Give any share of what a node has to any of its ports, with or without jobs."""

    def act(self, observation: Any) -> Any:
        rng, graph = self.rng, observation.graph
        if rng.random() < 0.1:
            return None
        wanted = rng.random(graph.shape) * (rng.random(graph.shape) < 0.7) * graph.requests[graph.channel_port]
        total = graph.node_sums(wanted)
        share = np.divide(observation.capacity, total, out=np.ones_like(total), where=total > observation.capacity)
        return wanted * share[graph.channel_node]


def _multiserver(*, gang: bool) -> Any:
    return GangRepair(_MultiServer()) if gang else _MultiServer()


ANYTHING: dict[str, Callable[..., Any]] = {
    "batch": lambda gang: _Batch(),
    "dag": lambda gang: _Dag(),
    "deferrable": lambda gang: _Deferrable(),
    "multiserver": _multiserver,
}
"""By problem."""
