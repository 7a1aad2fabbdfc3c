"""Small multi-server runs of every kind, and a way to edit their tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from editable_runs import EditableRun

from desim import simulate
from desim.agents.multiserver import create
from desim.problems.multiserver import BipartiteGraph, Gang, MultiServerCluster, MultiSlotCluster, RewardModel

UTILITIES = ("linear", "log", "reciprocal", "poly")
AGENTS = ("exact-oga-reactive", "exact-oga-reservation", "drf", "fairness", "bin-packing", "spreading")


@dataclass
class Run(EditableRun):
    """A run with the arrivals that were simulated."""

    arrivals: np.ndarray


def random_rewards(rng: np.random.Generator, ports: int, nodes: int, resources: int) -> RewardModel:
    """Make a random graph: some ports request none of a resource, some nodes have none, some ports have no node."""
    requests = rng.uniform(0.5, 6.0, (ports, resources)) * (rng.random((ports, resources)) < 0.9)
    capacity = rng.uniform(1.0, 12.0, (nodes, resources)) * (rng.random((nodes, resources)) < 0.9)
    channels = np.argwhere(rng.random((ports, nodes)) < 0.6).tolist()
    graph = BipartiteGraph(
        requests,
        capacity,
        channels or [(0, 0)],
        ports=[f"type {number}" for number in range(ports)],
        nodes=[f"machine {number}" for number in range(nodes)],
        resources=["CPU", "memory", "GPU"][:resources],
    )
    shape = nodes, resources
    return RewardModel(
        graph, rng.choice(UTILITIES, shape), rng.uniform(1.0, 1.5, shape), rng.uniform(0.05, 0.4, resources)
    )


def submissions(seed: int, count: int, ports: int) -> Any:
    """Return a process that submits jobs to one port after another, now and then and at full slots too."""

    def process(problem: MultiServerCluster) -> Any:
        rng = np.random.default_rng(seed)
        for number in range(count):
            yield problem.env.timeout(float(rng.choice([0.25, 1.0, 1.5, 2.0])))
            problem.submit(number % ports)

    return process


def random_run(
    seed: int,
    *,
    agent: str = "fairness",
    holding: bool = False,
    gang: str | None = None,
    copies: int = 1,
    every: int = 1,
    slots: int = 25,
    until: float = float("inf"),
    submitted: int = 0,
    **options: Any,
) -> Run:
    """Simulate random arrivals on a random graph of four ports, six nodes and three resources."""
    rng = np.random.default_rng(seed)
    rewards = random_rewards(rng, 4, 6, 3)
    room = copies if holding or not submitted else copies - 1
    arrivals = rng.binomial(room, 0.7, (slots, 4))
    gangs = None
    if gang is not None:
        sizes = rng.integers(1, 4, 4)
        components = [rng.uniform(0.2, 2.5, (size, 3)) for size in sizes]
        gangs = Gang(components, [int(rng.integers(1, size + 1)) for size in sizes], whole=gang == "whole")
        agent = f"gang-{agent}"
    if holding:
        options = {
            "work": lambda stream, port: float(stream.uniform(5.0, 40.0)),
            "give_up_after": 5,
            "minimum_speed": 0.5,
        } | options
    problem = (MultiSlotCluster if holding else MultiServerCluster)(
        rewards,
        arrivals,
        jobs_per_port=copies,
        gang=gangs,
        record_allocations=every,
        processes=[submissions(seed, submitted, 4)] if submitted else [],
        **options,
    )
    return Run(simulate(problem, create(agent), seed=seed, until=until), arrivals)
