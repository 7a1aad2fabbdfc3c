"""Multi-server agents by name: every one of them runs wherever it is sent, and comes to the same twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from desim import Result, simulate
from desim.agents.multiserver import create, descriptions
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, Gang, MultiServerCluster, MultiSlotCluster, RewardModel

FAMILIES = {"ogasched", "ogasched-VARIANT", "exact-oga-VARIANT", "gang-NAME"}  # the first is refused: test_ogasched
VARIANTS = ("ogasched-capped", "ogasched-arrived-capped", "exact-oga-reactive-all-forget")
NAMES = [name for name in descriptions() if name not in FAMILIES] + list(VARIANTS)


def hard_rewards() -> RewardModel:
    """Return rewards on a graph with what is easily forgotten.

    A port and a node without channels, a port that requests nothing, a node that has nothing, a resource that nobody
    requests, one that no node has, and one without overhead.
    """
    requests = [[2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.5], [1.0, 1.0, 0.0, 1.0]]
    capacity = [[4.0, 1.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 0.0], [5.0, 5.0, 5.0, 0.0]]
    channels = [(port, node) for port in range(3) for node in range(3)]
    graph = BipartiteGraph(requests, capacity, channels)
    return RewardModel(graph, ["log", "linear", "poly", "reciprocal"], 1.5, [0.25, 0.0, 0.5, 0.25])


def easy_rewards() -> RewardModel:
    """Return rewards on a graph in which much fits."""
    rng = default_rng(11)
    graph = BipartiteGraph(rng.uniform(1, 3, (3, 2)), rng.uniform(3, 8, (4, 2)))
    return RewardModel(graph, ["log", "poly"], rng.uniform(1, 1.5, (4, 2)), [0.1, 0.2])


def run(kind: str, name: str, rewards: RewardModel, seed: int) -> Result:
    rng = default_rng([seed, 9])
    copies = 2 if "copies" in kind else 1
    counts = rng.integers(0, copies + 1, (12, rewards.graph.num_ports))
    options: dict[str, Any] = {"jobs_per_port": copies}
    if "gangs" in kind:
        components = [[request * 0.5, request * 0.75, request] for request in rewards.graph.requests]
        options["gang"] = Gang(components, 2, whole="whole" in kind)
        name = f"gang-{name}"
    if "holding" in kind:
        return simulate(
            MultiSlotCluster(rewards, counts, 2.0, give_up_after=3, **options),
            create(name),
            seed=seed,
            until=50,
        )
    return simulate(MultiServerCluster(rewards, counts, **options), create(name), seed=seed)


@pytest.mark.parametrize(
    "kind",
    ["slots", "slots copies", "slots gangs", "slots whole gangs", "holding", "holding copies", "holding gangs copies"],
)
@pytest.mark.parametrize("name", NAMES)
def test_every_agent_in_every_cluster(name: str, kind: str) -> None:
    if name == "best-slot" and "gangs" in kind:
        with pytest.raises(InvalidConfiguration, match="got the rewards of gangs, expected concave rewards"):
            run(kind, name, easy_rewards(), seed=4)
        return
    for rewards in (hard_rewards(), easy_rewards()):
        first, second = (run(kind, name, rewards, seed=4) for _ in range(2))
        assert first.info["status"] == "complete"
        assert first.info["agent"] == (f"gang-{name}" if "gangs" in kind else name)
        for table in ("jobs", "slots", "allocations"):
            assert first.table(table).equals(second.table(table))
        assert first.table("slots")["reward"].sum() > 0
        assert (first.jobs["status"] == "completed").sum() > 3
        totals = rewards.graph.capacity.sum(axis=0)
        for total, resource in zip(totals, rewards.graph.resources, strict=True):
            for kind_of in ("allocated", "reserved"):
                given = first.table("slots")[f"{kind_of}_{resource}"]
                assert given.max() <= total + 1e-6  # type: ignore[operator]
        hopeless = np.flatnonzero(rewards.graph.port_sums(rewards.graph.channel_requests).sum(axis=1) == 0)
        status = dict(
            zip(first.jobs["job_id"], zip(first.jobs["port"], first.jobs["status"], strict=True), strict=True)
        )
        left = [what for port, what in status.values() if port in [f"port{index}" for index in hopeless]]
        assert set(left) <= {"unserved", "queued"}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_at_all(name: str) -> None:
    for graph in (
        BipartiteGraph([[1.0], [2.0]], [[3.0]], []),
        BipartiteGraph([[0.0], [0.0]], [[3.0]]),
        BipartiteGraph([[1.0], [2.0]], [[0.0]]),
    ):
        arrivals = np.ones((4, 2), dtype=bool)
        result = simulate(MultiServerCluster(RewardModel(graph, "poly", 1.0, 0.5), arrivals), create(name))
        assert set(result.jobs["status"]) == {"unserved"}
        assert result.table("allocations").height == 0
