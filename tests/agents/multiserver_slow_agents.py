"""Multi-server agents a second time: tables y[l][r][k], loops, bisection and rational numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.problems.multiserver import BipartiteGraph, MultiServerObservation, RewardModel

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
SLOPE: dict[str, Callable[[float, float], float]] = {
    "linear": lambda y, alpha: alpha,
    "log": lambda y, alpha: alpha / (y + 1),
    "reciprocal": lambda y, alpha: 1 / (y + alpha) ** 2,
    "poly": lambda y, alpha: alpha / (2 * math.sqrt(y + 1)),
}


def random_rewards(rng: Generator, *, dyadic: bool = False) -> RewardModel:
    """Return rewards on a sparse graph with ports and nodes without channels, and with nothing requested or there.

    Dyadic graphs have requests in eighths and capacities that are powers of two, so that use is computed without
    rounding.
    """
    num_ports, num_nodes, num_resources = (int(rng.integers(1, 6)) for _ in range(3))
    if dyadic:
        num_resources = int(2 ** rng.integers(0, 3))
    there = rng.random((num_ports, num_nodes)) < rng.choice([0.4, 0.8, 1.0])
    shapes = (num_ports, num_resources), (num_nodes, num_resources)
    if dyadic:
        requests, capacity = rng.integers(0, 24, shapes[0]) / 8, 2.0 ** rng.integers(0, 4, shapes[1])
        for node in range(num_nodes):  # of one, two or four resources, all, a half or none are there
            there_too = rng.permutation(num_resources) < num_resources * rng.choice([0, 0.5, 1, 1, 1])
            capacity[node] *= there_too
    else:
        requests, capacity = (rng.uniform(0.1, 4, shape) * (rng.random(shape) < 0.85) for shape in shapes)
    graph = BipartiteGraph(requests, capacity, [(int(port), int(node)) for port, node in np.argwhere(there)])
    names = rng.choice(list(SLOPE), shapes[1])
    overhead = rng.uniform(0, 0.5, num_resources)
    return RewardModel(graph, names, rng.uniform(0.5, 2, shapes[1]), overhead)


def random_observation(
    rng: Generator, *, dyadic: bool = False, holding: bool = False, rewards: RewardModel | None = None
) -> MultiServerObservation:
    """Return what an agent may see in a slot; in a holding cluster a part of the capacity may be free."""
    rewards = random_rewards(rng, dyadic=dyadic) if rewards is None else rewards
    graph = rewards.graph
    observation = MultiServerObservation(graph, rewards)
    observation.arrived = rng.random(graph.num_ports) < 0.7
    if holding:
        share = rng.integers(0, 9, graph.capacity.shape) / 8 if dyadic else rng.random(graph.capacity.shape)
        observation.capacity = graph.capacity * share * (rng.random(graph.capacity.shape) < 0.8)
    return observation


def slots_of(
    rng: Generator, rewards: RewardModel, count: int, *, holding: bool = False
) -> Iterator[MultiServerObservation]:
    """Yield what an agent sees slot by slot: one live view."""
    observation = MultiServerObservation(rewards.graph, rewards)
    for slot in range(count):
        fresh = random_observation(rng, holding=holding, rewards=rewards)
        observation.slot, observation.arrived = slot, fresh.arrived
        if holding:
            observation.capacity = fresh.capacity
        yield observation


def assert_feasible(observation: MultiServerObservation, answer: Floats, *, arrived_only: bool) -> None:
    graph = observation.graph
    given = np.zeros(graph.capacity.shape)
    assert answer.shape == graph.shape
    for row, (port, node) in enumerate(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)):
        for resource in range(graph.num_resources):
            assert 0 <= answer[row, resource] <= graph.requests[port, resource] * (1 + 1e-12)
            assert observation.arrived[port] or not arrived_only or answer[row, resource] == 0
            given[node, resource] += answer[row, resource]
    assert (given <= observation.capacity + 1e-9 * (graph.capacity + 1)).all()  # what clusters take for rounding


class Dense:
    """Requests, capacities, rewards as tables over ports, nodes and resources."""

    def __init__(self, rewards: RewardModel) -> None:
        graph = rewards.graph
        self.ports, self.nodes, self.resources = map(range, (graph.num_ports, graph.num_nodes, graph.num_resources))
        self.ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
        self.nodes_of = [[node for node in self.nodes if (port, node) in self.ends] for port in self.ports]
        self.ports_of = [[port for port in self.ports if (port, node) in self.ends] for node in self.nodes]
        self.a, self.c = graph.requests.tolist(), graph.capacity.tolist()
        self.utilities, self.alpha = rewards.utilities.tolist(), rewards.weights.tolist()
        self.beta = rewards.overhead.tolist()
        self.shape = graph.num_ports, graph.num_nodes, graph.num_resources

    def rows(self, y: Any) -> Floats:
        """Return a table as an agent would."""
        rows = [[float(y[port][node][k]) for k in self.resources] for port, node in self.ends]
        return np.array(rows).reshape(-1, len(self.resources))

    def table(self, rows: Any) -> Floats:
        y = np.zeros(self.shape)
        for (port, node), row in zip(self.ends, rows, strict=True):
            y[port, node] = row
        return y

    def gradient(self, y: Floats, arrived: Sequence[float]) -> Floats:
        """Equation (30), with k* of equation (27)."""
        result = np.zeros(self.shape)
        for port in self.ports:
            held = [sum(float(y[port, node, k]) for node in self.nodes_of[port]) for k in self.resources]
            overheads = [beta * amount for beta, amount in zip(self.beta, held, strict=True)]
            dominant = overheads.index(max(overheads))
            for node in self.nodes_of[port]:
                for k in self.resources:
                    slope = SLOPE[self.utilities[node][k]](float(y[port, node, k]), self.alpha[node][k])
                    result[port, node, k] = arrived[port] * (slope - self.beta[k] * (k == dominant))
        return result

    def project(
        self,
        z: Floats,
        *,
        among: Sequence[bool] | None = None,
        capacity: Any = None,
        weights: Floats | None = None,
    ) -> Floats:
        """Return the nearest feasible table, node by node and resource by resource."""
        y = np.zeros(self.shape)
        capacity = self.c if capacity is None else capacity
        for node in self.nodes:
            ports = [port for port in self.ports_of[node] if among is None or among[port]]
            for k in self.resources:
                w = [1.0 if weights is None else float(weights[port, node, k]) for port in ports]
                column = [float(z[port, node, k]) for port in ports]
                upper = [self.a[port][k] for port in ports]
                for port, amount in zip(ports, nearest(column, upper, float(capacity[node][k]), w), strict=True):
                    y[port, node, k] = amount
        return y


def nearest(z: list[float], upper: list[float], capacity: float, w: list[float]) -> list[float]:
    """Project one column: bisection for the multiplier, to the last bit."""

    def clipped(tau: float) -> list[float]:
        return [min(max(zi - wi * tau, 0.0), ai) for zi, ai, wi in zip(z, upper, w, strict=True)]

    if sum(clipped(0.0)) <= capacity:
        return clipped(0.0)
    low, high = 0.0, max(zi / wi for zi, wi in zip(z, w, strict=True)) * 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if sum(clipped(middle)) > capacity else (low, middle)
    return clipped(high)


def norm(gradient: Floats) -> float:
    return math.sqrt(sum(float(entry) ** 2 for entry in gradient.ravel()))


def diameter(rewards: RewardModel) -> float:
    """Equation (53)."""
    graph = rewards.graph
    return math.sqrt(
        2
        * sum(
            max(graph.requests[port, k] for port in range(graph.num_ports))
            * sum(graph.capacity[node, k] for node in range(graph.num_nodes))
            for k in range(graph.num_resources)
        )
    )


def theoretical(rewards: RewardModel, num_slots: int) -> float:
    """The step of theorem 1 with the bounds (50) and (53)."""
    at_zero = {"linear": lambda a: a, "log": lambda a: a, "reciprocal": lambda a: 1 / a**2, "poly": lambda a: a / 2}
    total = 0.0
    for node in rewards.graph.channel_node.tolist():
        slopes = [
            at_zero[name](weight)
            for name, weight in zip(rewards.utilities[node].tolist(), rewards.weights[node].tolist(), strict=True)
        ]
        total += max(rewards.overhead.tolist()) ** 2 + len(slopes) * max(slopes) ** 2
    return diameter(rewards) / (math.sqrt(total) * math.sqrt(num_slots)) if total else 0.0


def drf_ordered(observation: MultiServerObservation) -> Floats:
    """Ports in ascending order of max_k a_l^k over what their nodes have, each with all that it may take."""
    dense = Dense(observation.rewards)  # type: ignore[arg-type]
    free, y = observation.capacity.tolist(), np.zeros(dense.shape)

    def share(port: int) -> float:
        shares = [0.0]
        for k in dense.resources:
            reach = sum(dense.c[node][k] for node in dense.nodes_of[port])
            if dense.a[port][k] > 0:
                shares.append(dense.a[port][k] / reach if reach else math.inf)
        return max(shares)

    for port in sorted(dense.ports, key=lambda port: (share(port), port)):
        for node in dense.nodes_of[port] if observation.arrived[port] else ():
            for k in dense.resources:
                y[port, node, k] = min(dense.a[port][k], free[node][k])
                free[node][k] -= y[port, node, k]
    return dense.rows(y)


def drf_progressive(observation: MultiServerObservation) -> Floats:
    """Let dominant shares of every node grow together until jobs have all or run out of something; in fractions."""
    dense = Dense(observation.rewards)  # type: ignore[arg-type]
    y = np.zeros(dense.shape)
    for node in dense.nodes:
        c = [Fraction(value) for value in dense.c[node]]
        free = [Fraction(value) for value in observation.capacity[node].tolist()]
        requests = {port: [Fraction(value) for value in dense.a[port]] for port in dense.ports_of[node]}
        share = {}
        for port, a in requests.items():
            wanted = [k for k in dense.resources if a[k]]
            if observation.arrived[port] and wanted and all(c[k] for k in wanted):
                share[port] = max(a[k] / c[k] for k in wanted)
        level, growing = Fraction(0), sorted(share)
        final = dict.fromkeys(share, Fraction(0))
        while growing:
            for port in list(growing):
                out = any(requests[port][k] and not free[k] for k in dense.resources)
                if level == share[port] or out:
                    growing.remove(port)
                    final[port] = level
            use = [sum(requests[port][k] / share[port] for port in growing) for k in dense.resources]
            steps = [free[k] / use[k] for k in dense.resources if use[k]] + [share[port] - level for port in growing]
            if growing:
                level += min(steps)
                free = [free[k] - use[k] * min(steps) for k in dense.resources]
        for port, stop in final.items():
            for k in dense.resources:
                y[port, node, k] = float(requests[port][k] * stop / share[port])
    return dense.rows(y)


def fairness(observation: MultiServerObservation, among: str) -> Floats:
    """Node r gives port l the part a_l^k / sum of a^k of what it has, at most a_l^k."""
    dense = Dense(observation.rewards)  # type: ignore[arg-type]
    y = np.zeros(dense.shape)
    for node in dense.nodes:
        for k in dense.resources:
            sharing = [port for port in dense.ports_of[node] if among == "all" or observation.arrived[port]]
            total = sum(dense.a[port][k] for port in sharing)
            for port in sharing:
                if observation.arrived[port] and total:
                    part = float(observation.capacity[node, k]) * dense.a[port][k] / total
                    y[port, node, k] = min(part, dense.a[port][k])
    return dense.rows(y)


def packing(observation: MultiServerObservation, sign: int, order: str, most_workers: int | None) -> Floats:
    """Place worker after worker on the node that is fullest (sign 1) or emptiest (-1); equals go to the first node."""
    dense = Dense(observation.rewards)  # type: ignore[arg-type]
    y = np.zeros(dense.shape)
    free = [[Fraction(value) for value in row] for row in observation.capacity.tolist()]

    def use(node: int) -> Fraction:
        there = [k for k in dense.resources if dense.c[node][k]]
        parts = [1 - free[node][k] / Fraction(dense.c[node][k]) for k in there]
        return sum(parts, Fraction(0)) / len(parts) if parts else Fraction(1)

    jobs = [port for port in dense.ports if observation.arrived[port]]
    for together in [jobs] if order == "workers" else [[job] for job in jobs]:
        unused = {job: list(dense.nodes_of[job]) for job in together}
        left = dict.fromkeys(together, len(dense.nodes) if most_workers is None else most_workers)
        while turn := [job for job in together if unused[job] and left[job]]:
            while turn:  # all name their best node; the first to name a node gets it, the others name one again
                best = {
                    job: max(unused[job], key=lambda node: (sign * use(node), -node)) for job in turn if unused[job]
                }
                winners = {node: min(job for job in best if best[job] == node) for node in best.values()}
                for node, job in winners.items():
                    unused[job].remove(node)
                    for k in dense.resources:
                        given = min(Fraction(dense.a[job][k]), free[node][k])
                        free[node][k] -= given
                        y[job, node, k] = float(given)
                    left[job] -= bool(y[job, node].any())
                turn = [job for job in turn if job not in winners.values() and unused[job]]
    return dense.rows(y)
