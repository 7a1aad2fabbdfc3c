"""Cases for the tests of the best fixed allocation, and what every answer promises."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from desim.agents.multiserver.hindsight import Hindsight
from desim.problems.multiserver import BipartiteGraph, RewardModel

Floats = NDArray[np.float64]
KINDS = ("linear", "log", "reciprocal", "poly")


def rewards_on(rewards: RewardModel, graph: BipartiteGraph) -> RewardModel:
    return RewardModel(graph, rewards.utilities, rewards.weights, rewards.overhead)


def random_case(seed: int, kinds: tuple[str, ...] = KINDS) -> tuple[RewardModel, Floats]:
    """Return rewards and counts with ties, zeros, ports without channels, and overheads of every size."""
    rng = np.random.default_rng(seed)
    ports, nodes, resources = (int(rng.integers(1, most)) for most in (7, 8, 5))
    if rng.random() < 0.5:  # ties
        requests = rng.integers(0, 4, (ports, resources)).astype(float)
        capacity = rng.integers(0, 5, (nodes, resources)).astype(float)
    else:
        requests = rng.uniform(0, 5, (ports, resources)) * (rng.random((ports, resources)) < 0.9)
        capacity = rng.uniform(0, 9, (nodes, resources)) * (rng.random((nodes, resources)) < 0.9)
    there = rng.random((ports, nodes)) < rng.choice([0.4, 0.8, 1.0])
    there[0, 0] = True
    graph = BipartiteGraph(requests, capacity, np.argwhere(there).tolist())
    overhead = [np.zeros(resources), rng.uniform(0.2, 0.6, resources), rng.uniform(0, 2, resources)][seed % 3]
    weights = rng.choice([1.0, 1.5], (nodes, resources)) if seed % 2 else rng.uniform(1, 1.5, (nodes, resources))
    rewards = RewardModel(graph, rng.choice(kinds, (nodes, resources)), weights, overhead)
    return rewards, rng.integers(0, 9, ports).astype(float)


def cluster(
    seed: int, num_ports: int, num_nodes: int, density: float, contention: float, overhead: tuple[float, float]
) -> tuple[RewardModel, Floats]:
    """Return a case of the size and the kind of the paper's experiments, and counts of 2000 slots."""
    rng = np.random.default_rng(seed)
    capacity = np.array([96.0, 64.0, 8.0, 2.0, 2.0, 8.0]) * rng.choice([0.5, 1.0, 1.0, 2.0], (num_nodes, 6))
    requests = contention * np.array([8.0, 4.0, 0.8, 0.8, 0.8, 0.8]) * rng.uniform(0.4, 1.6, (num_ports, 6))
    there = rng.random((num_ports, num_nodes)) < density / num_ports
    there[rng.integers(num_ports, size=num_nodes), np.arange(num_nodes)] = True
    graph = BipartiteGraph(requests, capacity, np.argwhere(there).tolist())
    kinds, weights = rng.choice(KINDS, (num_nodes, 6)), rng.uniform(1, 1.5, (num_nodes, 6))
    return RewardModel(graph, kinds, weights, rng.uniform(*overhead, 6)), rng.binomial(2000, 0.7, num_ports) * 1.0


def reward(rewards: RewardModel, counts: Floats, allocation: Floats) -> float:
    """Return Q(y) the long way: port by port, as a slot's reward."""
    alone = np.eye(rewards.graph.num_ports, dtype=bool)
    return sum(count * rewards.total_reward(allocation, arrived) for count, arrived in zip(counts, alone, strict=True))


def feasible_points(rewards: RewardModel, rng: np.random.Generator, count: int) -> list[Floats]:
    graph = rewards.graph
    points = []
    for _ in range(count):
        point = graph.channel_requests * rng.random(graph.shape) ** rng.choice([0.1, 1, 10])
        point *= rng.random(graph.shape) < rng.choice([0.3, 1.0])
        sums = graph.node_sums(point)
        shrink = np.where(sums > graph.capacity, graph.capacity / np.where(sums > 0, sums, 1.0), 1.0)
        points.append(point * shrink[graph.channel_node])
    return points


def check(rewards: RewardModel, counts: Floats, best: Hindsight) -> None:
    """Check what every answer promises."""
    graph = rewards.graph
    assert best.allocation.shape == graph.shape
    assert (best.allocation >= 0).all()
    assert (best.allocation <= graph.channel_requests).all()
    assert (graph.node_sums(best.allocation) <= graph.capacity * (1 + 1e-14) + 1e-14).all()
    assert best.value == pytest.approx(reward(rewards, counts, best.allocation), rel=1e-12, abs=1e-12)
    assert best.value <= best.upper_bound
    assert best.gap == best.upper_bound - best.value
    assert (best.prices >= 0).all() and (best.shares >= 0).all()
    assert best.shares.sum(axis=1) == pytest.approx(1.0)
    assert not best.allocation[counts[graph.channel_port] == 0].any()
