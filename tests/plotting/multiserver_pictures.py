"""Runs of multi-server clusters to draw, and their tables summed up the slow way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from desim import Result, simulate
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, MultiSlotCluster, RewardModel

RESOURCES = ("cpu", "gpu")


class RandomShares:
    """Gives the ports that have a job, or all ports, a random feasible share of what they ask for."""

    name = "random shares"

    def __init__(self, *, reserves: bool = False, seed: int = 0, most: float = 1.0) -> None:
        self.reserves, self.seed, self.most = reserves, seed, most

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        self.rng = np.random.default_rng(self.seed)

    def act(self, observation):
        graph = observation.graph
        wanted = graph.channel_requests * self.rng.random(graph.shape)
        if not self.reserves:
            wanted *= observation.arrived[graph.channel_port][:, None]
        node_of = graph.channel_node
        total = np.array([wanted[node_of == node].sum(axis=0) for node in range(graph.num_nodes)])
        fits = np.divide(observation.capacity, total, out=np.ones_like(total), where=total > 0).clip(0.0, 1.0)
        return 0.999 * self.most * wanted * fits[node_of]


class Nobody:
    """Gives nothing."""

    name = "nobody"

    def act(self, observation):
        return None


def some_rewards(
    num_ports: int = 3, num_nodes: int = 4, *, seed: int = 0, without: tuple[int, ...] = ()
) -> RewardModel:
    """Return rewards on a random graph; some nodes have no gpu."""
    rng = np.random.default_rng(seed)
    capacity = rng.uniform(4.0, 20.0, (num_nodes, 2))
    capacity[list(without), 1] = 0.0
    joined = rng.random((num_ports, num_nodes)) < max(0.6 if num_nodes < 20 else 0.1, 1 / num_ports)
    joined[rng.integers(num_ports, size=num_nodes), np.arange(num_nodes)] = True
    requests = rng.uniform(1.0, 6.0, (num_ports, 2))
    graph = BipartiteGraph(requests, capacity, np.argwhere(joined).tolist(), resources=RESOURCES)
    return RewardModel(graph, "log", 1.5, (0.2, 0.3))


def some_arrivals(num_slots: int, num_ports: int = 3, *, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((num_slots, num_ports)) < 0.7


def run(num_slots: int, rewards: RewardModel | None = None, agent: Any = None, **options: Any) -> Result:
    """Simulate jobs that last one slot."""
    rewards = rewards or some_rewards()
    arrivals = some_arrivals(num_slots, rewards.graph.num_ports).astype(np.int64)
    if options.get("jobs_per_port", 1) > 1:
        arrivals *= np.random.default_rng(2).integers(1, options["jobs_per_port"] + 1, arrivals.shape)
    return simulate(MultiServerCluster(rewards, arrivals, **options), agent or RandomShares(), seed=0)


def hold(num_slots: int, rewards: RewardModel | None = None, *, until: float = np.inf, **options: Any) -> Result:
    """Simulate jobs that hold what they are given."""
    rewards = rewards or some_rewards()
    arrivals = some_arrivals(num_slots, rewards.graph.num_ports)
    cluster = MultiSlotCluster(rewards, arrivals, lambda rng, port: rng.exponential(9.0) + 0.1, **options)
    return simulate(cluster, RandomShares(most=0.6), seed=0, until=until)


def given(result: Result, resource: str, by: str, bounds: Sequence[float]) -> np.ndarray:
    """Return the mean amounts that jobs hold between neighbouring times: nodes or ports by intervals."""
    names = result.table(f"{by}s").filter(resource=resource)[by].to_list()
    finishes = dict(result.jobs.select("job_id", "finish_time").iter_rows())
    total = np.zeros((len(names), len(bounds) - 1))
    for row in result.table("allocations").iter_rows(named=True):
        if row["resource"] == resource:
            finish = finishes[row["job_id"]]
            finish = result.info["end_time"] if finish is None else finish
            for column, (begin, end) in enumerate(pairwise(bounds)):
                shared = max(0.0, min(finish, end) - max(row["slot"], begin))
                total[names.index(row[by]), column] += row["amount"] * shared / (end - begin)
    return total


def curves(axes: Any, gid: str = "curve") -> list[Any]:
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def points(axes) -> list[tuple[list[float], list[float]]]:
    return [tuple(np.asarray(part).tolist() for part in line.get_data()) for line in curves(axes)]
