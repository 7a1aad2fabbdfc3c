"""A capacity process on its own: all that it needs of a problem, and what it has set."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import simpy

__all__ = ["BareCluster", "run_capacity"]


class BareCluster:
    """Notes when the capacity is set to what, without jobs and decisions."""

    def __init__(self, resources: tuple[str, ...], seed: int) -> None:
        self.resources = resources
        self.env = simpy.Environment()
        self.simulation = SimpleNamespace(
            stream=lambda name: np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(name.encode())))
        )
        self.times: list[float] = []
        self.amounts: list[np.ndarray] = []
        self.noted: list[object] = []
        self.note: Callable[[], object] = lambda: None

    def set_capacity(self, amounts) -> None:
        self.times.append(self.env.now)
        self.amounts.append(np.array(amounts, dtype=float).reshape(-1))
        self.noted.append(self.note())


def run_capacity(process, num_slots, *, resources=("cores",), seed=0, note=None):
    """Return the capacity of every slot, of shape (num_slots, num_resources), and what was noted as it was set."""
    cluster = BareCluster(resources, seed)
    if note is not None:
        cluster.note = note
    cluster.env.process(process(cluster))
    cluster.env.run(until=num_slots - 0.5)
    assert cluster.times == list(range(num_slots))  # once a slot, at its beginning
    return np.array(cluster.amounts), cluster.noted
