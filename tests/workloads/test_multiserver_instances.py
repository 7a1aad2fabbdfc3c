"""Generated systems of ports and nodes: structure, distributions, common random numbers, errors."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_systems import MACHINES, REQUESTS, ports_of, same
from numpy.random import default_rng
from scipy.stats import chisquare, ks_2samp

from desim import simulate
from desim.agents.multiserver import Fairness
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import MultiServerCluster
from desim.workloads import multiserver
from desim.workloads.multiserver import bernoulli_arrivals, from_alibaba, generate
from desim.workloads.streams import NamedStreams


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_system_is_as_asked_for(data: st.DataObject) -> None:
    ports, nodes = data.draw(st.integers(1, 25), "ports"), data.draw(st.integers(1, 40), "nodes")
    least = max(1.0, ports / nodes * 1.0001)
    density = data.draw(st.one_of(st.none(), st.just(math.inf), st.floats(least, ports + 30.0)), "density")
    rewards = generate(num_ports=ports, num_nodes=nodes, density=density, seed=data.draw(st.integers(0, 2**70), "seed"))
    graph = rewards.graph
    assert (graph.num_ports, graph.num_nodes, graph.resources) == (ports, nodes, multiserver.RESOURCES)
    wanted = min(ports, math.inf if density is None else density)
    degrees = np.bincount(graph.channel_node, minlength=nodes)
    assert set(degrees.tolist()) <= {math.floor(wanted), math.ceil(wanted)}
    assert abs(graph.num_channels - wanted * nodes) < 1
    assert np.bincount(graph.channel_port, minlength=ports).min() >= 1
    assert (graph.requests[:, :2] > 0).all()
    assert set(map(tuple, graph.capacity[:, :2].tolist())) <= {(64, 64), (96, 64), (96, 48)}
    assert set(np.unique(graph.capacity[:, 2:])) <= {0, 2, 8}
    assert ((rewards.weights >= 1) & (rewards.weights <= 1.5)).all()
    assert ((rewards.overhead >= 0.3) & (rewards.overhead <= 0.5)).all()


def test_the_default_is_that_of_the_paper() -> None:
    rewards = generate()
    assert (rewards.graph.num_ports, rewards.graph.num_nodes, rewards.graph.density) == (10, 128, 2.5)
    assert rewards.graph.resources == ("cpu", "memory", "gpu", "npu", "tpu", "fpga")
    explicit = generate(
        num_ports=10,
        num_nodes=128,
        density=2.5,
        contention=10.0,
        utilities="mixed",
        weights=(1.0, 1.5),
        overhead=(0.3, 0.5),
        seed=0,
    )
    assert same(rewards, explicit)


def test_the_seed_decides() -> None:
    everything = ("requests", "capacity", "port", "node", "utilities", "weights", "overhead")
    assert same(generate(seed=3), generate(seed=3))
    assert same(generate(seed=3), generate(seed=np.int64(3)))
    assert same(generate(seed=3), generate(seed=4), *everything)
    assert same(generate(seed=default_rng(3)), generate(seed=default_rng(3)))
    rng = default_rng(3)
    assert same(generate(seed=rng), generate(seed=rng), *everything)


def test_streams_of_different_names_differ() -> None:
    streams = NamedStreams(3)
    drawn = {tuple(streams(name).random(2)) for name in ("machines", "channels", "overhead", "weights", "pods", "")}
    assert len(drawn) == 6
    assert streams("machines").random() == NamedStreams(3)("machines").random() != NamedStreams(4)("machines").random()


def test_options_change_what_they_are_about() -> None:
    base = generate(seed=5)
    contended = generate(seed=5, contention=2.5)
    assert same(base, contended, "requests")
    assert contended.graph.requests * 4 == pytest.approx(base.graph.requests)
    assert same(base, generate(seed=5, utilities="log"), "utilities")
    wide = generate(seed=5, weights=(0.5, 2.5))
    assert same(base, wide, "weights")
    assert (wide.weights - 0.5) / 2.0 == pytest.approx((base.weights - 1.0) / 0.5)
    cheap = generate(seed=5, overhead=(0.0, 0.01))
    assert same(base, cheap, "overhead")
    assert cheap.overhead / 0.01 == pytest.approx((base.overhead - 0.3) / 0.2)
    assert set(generate(weights=(2, 2)).weights.ravel()) == {2.0}
    assert set(generate(overhead=(0, 0)).overhead) == {0.0}


def test_more_nodes_keep_the_first_ones() -> None:
    few, many = generate(seed=7, num_nodes=50), generate(seed=7, num_nodes=300)
    assert np.array_equal(few.graph.requests, many.graph.requests)
    assert np.array_equal(few.overhead, many.overhead)
    assert np.array_equal(few.graph.capacity, many.graph.capacity[:50])
    assert np.array_equal(few.weights, many.weights[:50])
    assert np.array_equal(few.utilities, many.utilities[:50])
    assert ports_of(few) == ports_of(many)[:50]


def test_more_ports_keep_the_first_requests_and_the_nodes() -> None:
    few, many = generate(seed=7, num_ports=8), generate(seed=7, num_ports=40)
    assert np.array_equal(few.graph.requests, many.graph.requests[:8])
    assert same(few, many, "requests", "port", "node")


def test_whole_densities_contain_smaller_ones() -> None:
    channels = [ports_of(generate(seed=7, density=density)) for density in (1, 2, 2.5, 3, 9, 10)]
    for sparse, dense in pairwise(channels):
        assert all(one <= other for one, other in zip(sparse, dense, strict=True))
    assert channels[-1] == ports_of(generate(seed=7, density=None)) == ports_of(generate(seed=7, density=11.5))


@pytest.mark.parametrize("density", [2.0, 2.5])
def test_ports_of_a_node_are_uniform(density: float) -> None:
    graph = generate(num_ports=8, num_nodes=20_000, density=density, seed=11).graph
    counts = np.bincount(graph.channel_port)
    # A node has a port with probability density / 8
    spread = math.sqrt(20_000 * density / 8 * (1 - density / 8))
    assert np.abs(counts - 20_000 * density / 8).max() < 4 * spread
    pairs = Counter(tuple(sorted(ports)) for ports in ports_of(generate(num_ports=5, num_nodes=4_000, density=2)))
    assert len(pairs) == 10
    assert chisquare(list(pairs.values())).pvalue > 0.001


def test_each_port_has_a_node_where_channels_are_scarce() -> None:
    for seed in range(20):
        graph = generate(num_ports=30, num_nodes=12, density=2.5, seed=seed).graph
        assert sorted(graph.channel_port.tolist()) == list(range(30))
        assert set(np.bincount(graph.channel_node).tolist()) == {2, 3}
    assert {generate(num_ports=4, num_nodes=3, density=1.5, seed=seed).graph.num_channels for seed in range(20)} == {
        4,
        5,
    }
    # One node and many ports can only mean all of them
    assert generate(num_ports=30, num_nodes=1, density=30).graph.num_channels == 30


def test_mixed_utilities_are_equally_likely() -> None:
    names = generate(num_nodes=4_000, seed=1).utilities
    counts = Counter(names.ravel().tolist())
    assert set(counts) == {"linear", "log", "reciprocal", "poly"}
    assert chisquare(list(counts.values())).pvalue > 0.001
    for name in counts:
        assert set(generate(utilities=name).utilities.ravel()) == {name}


def test_other_accelerators_are_like_gpus_and_independent() -> None:
    graph = generate(num_ports=20_000, num_nodes=1, density=None, contention=1, seed=3).graph
    machines = generate(num_ports=1, num_nodes=20_000, density=None, seed=3).graph
    for amounts in (graph.requests, machines.capacity):
        correlations = np.corrcoef(amounts.T)
        assert np.abs(correlations[3:, :3]).max() < 0.03
        assert np.abs(correlations[3:, 3:] - np.eye(3)).max() < 0.03
        for other in (3, 4, 5):
            assert ks_2samp(amounts[:, other], amounts[:, 2]).statistic < 0.015


def test_machines_come_in_their_proportions() -> None:
    capacity = generate(num_ports=1, num_nodes=20_000, density=None, seed=9).graph.capacity
    counts = Counter(map(tuple, capacity[:, :3].tolist()))
    # Cores, units of 8 GB and GPUs in the machine table of cluster-trace-gpu-v2020
    table = {(64, 64, 2): 798, (96, 64, 2): 497, (96, 64, 8): 280 + 59, (96, 48, 8): 135 + 45, (96, 64, 0): 83}
    assert set(counts) == set(table)
    expected = [20_000 * table[shape] / 1_897 for shape in counts]
    assert chisquare(list(counts.values()), expected).pvalue > 0.001


def test_rewards_of_the_default_are_of_the_order_of_the_paper() -> None:
    # Table III: Fairness earns 2,436 to 2,583 at this setting
    average = [
        simulate(MultiServerCluster(generate(seed=seed), bernoulli_arrivals(30, 10, seed=seed)), Fairness())
        .table("slots")["reward"]
        .to_numpy()
        .mean()
        for seed in range(8)
    ]
    assert 2_000 < np.mean(average) < 4_000


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"num_ports": 0}, "num_ports: got 0, expected an integer from 1 to 100000000"),
    ({"density": 0.99}, "density: got 0.99, expected a finite number >= 1"),
    (
        {"num_ports": 21, "num_nodes": 8},
        "density: got 2.5, which gives 8 nodes fewer channels than the 21 ports; try a larger density or more nodes",
    ),
    ({"contention": 0}, "contention: got 0, expected a finite number > 0"),
    ({"utilities": "square"}, "utilities: got 'square', expected 'mixed' or one of linear, log, reciprocal, poly"),
    ({"weights": (0.0, 1.0)}, "weights[0]: got 0.0, expected a finite number > 0"),
    ({"weights": (2, 1)}, "weights: got (2, 1), expected the smaller number first"),
    ({"overhead": (-0.1, 1.0)}, "overhead[0]: got -0.1, expected a finite number >= 0"),
    ({"seed": -1}, "seed: got -1, expected an integer >= 0"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        generate(**options)
    assert str(caught.value) == message
    with pytest.raises(InvalidConfiguration) as caught:
        from_alibaba(MACHINES, REQUESTS, **options)
    assert str(caught.value) == message
