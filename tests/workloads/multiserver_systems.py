"""Comparison of systems of ports and nodes, and small tables to make them of."""

from __future__ import annotations

import numpy as np
import polars as pl

from desim.problems.multiserver import RewardModel


def ports_of(rewards: RewardModel) -> list[frozenset[int]]:
    """Return the ports that each node serves."""
    graph = rewards.graph
    return [frozenset(graph.channel_port[graph.channel_node == node].tolist()) for node in range(graph.num_nodes)]


def same(first: RewardModel, second: RewardModel, *but: str) -> bool:
    """Tell whether two systems are equal but for some parts."""
    parts = {
        "requests": lambda rewards: rewards.graph.requests,
        "capacity": lambda rewards: rewards.graph.capacity,
        "port": lambda rewards: rewards.graph.channel_port,
        "node": lambda rewards: rewards.graph.channel_node,
        "utilities": lambda rewards: rewards.utilities,
        "weights": lambda rewards: rewards.weights,
        "overhead": lambda rewards: rewards.overhead,
    }
    equal = {name for name, part in parts.items() if np.array_equal(part(first), part(second))}
    assert not equal & set(but), f"{sorted(equal & set(but))} should differ"
    return equal | set(but) == set(parts)


MACHINES = pl.DataFrame(
    {
        "machine_id": ["a", "b", "c"],
        "cpu": [64.0, None, 96.0],
        "memory": [512.0, 512.0, 384.0],
        "memory_percent": pl.Series([None, None, None], dtype=pl.Float64),
        "gpu": [2, 2, 8],
    }
)


def requests_of(*rows: tuple[float | None, float | None, float | None, float | None]) -> pl.DataFrame:
    """Return a table of requests from arrival times, cores, GB and GPUs."""
    columns = dict.fromkeys(("arrival_time", "cpu", "memory", "gpu"), pl.Float64)
    frame = pl.DataFrame(rows, columns, orient="row")
    return frame.with_columns(memory_percent=pl.lit(None, dtype=pl.Float64))


REQUESTS = requests_of(
    (100.0, 4.0, 16.0, 1.0),
    (100.0, 4.0, 16.0, 1.0),
    (109.9, 3.0, 16.0, 1.0),
    (None, 32.0, 48.0, None),
    (131.0, 32.0, 48.0, 0.0),
    (120.0, None, 48.0, 0.0),
    (125.0, 0.0, 0.0, 0.0),
    (160.0, 64.0, 256.0, 8.0),
)
