"""Fragmentation of GPUs from its definition in loops, and the placement that lets it grow least."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration
from desim.problems.batch import (
    Fragmentation,
    FragmentationGradient,
    Node,
    NodeAvailability,
    NodeTable,
    Request,
    typical_requests,
)

NODES = [
    Node("a", 96, gpus=8, gpu_model="A"),
    Node("b", 32, gpus=2, gpu_model="B"),
    Node("c", 64, gpus=4, gpu_model="A"),
    Node("d", 16),
]
KINDS = [
    Request(cores=4),
    Request(cores=3, gpus=0.25),
    Request(cores=11, gpus=0.81),
    Request(cores=8, gpus=1, gpu_models=("B",)),
    Request(cores=12, gpus=1),
    Request(cores=30, gpus=2),
    Request(cores=90, gpus=8),
    Request(cores=20, gpus=0.5, gpu_models=("A",)),
]


def lost(node: Node, cores: int, gpus: list[int], typical: list[tuple[Request, int]]) -> float:
    """Return the fragmentation of one node: for each typical request, what of the free GPUs it could not use."""
    total = 0.0
    for request, count in typical:
        share = 1000 if request.gpus >= 1 else round(request.gpus * 1000)
        number = max(1, int(request.gpus))
        fits = (
            request.gpus > 0
            and (not request.gpu_models or node.gpu_model in request.gpu_models)
            and cores >= request.cores
            and sum(free >= share for free in gpus) >= number
        )
        total += count * (sum(free for free in gpus if free < share) if fits else sum(gpus))
    return total / sum(count for _, count in typical)


def random_room(rng: np.random.Generator) -> NodeAvailability:
    """Return a room in which something is taken everywhere."""
    room = NodeAvailability(NodeTable(NODES))
    for number, node in enumerate(NODES):
        room.free[number, 0] = rng.integers(0, node.cores + 1)
        shares = rng.choice([0, 190, 250, 500, 810, 1000, 1000], node.gpus)
        room.gpus[number, : node.gpus] = shares
        room.whole[number], room.largest[number] = (shares == 1000).sum(), max([*shares, 0])
    return room


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_scores_and_devices_are_those_of_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    typical = [(request, int(rng.integers(1, 100))) for request in KINDS if rng.random() < 0.7] or [(KINDS[2], 1)]
    policy, room = FragmentationGradient(typical), random_room(rng)
    for _ in range(5):
        measure = Fragmentation(typical, room.table)
        states = [(int(room.free[n, 0]), room.gpus[n].tolist()) for n in range(len(NODES))]
        before = [lost(node, *state, typical) for node, state in zip(NODES, states, strict=True)]
        assert measure.of_room(room) == pytest.approx(before)
        request = KINDS[int(rng.integers(len(KINDS)))]
        shape = room.table.compile(request)
        nodes = room.takes_one(shape).nonzero()[0]
        if not len(nodes):
            continue
        found = policy.scores(room, shape, nodes).tolist()
        devices = []
        for number, score in zip(nodes.tolist(), found, strict=True):
            cores, gpus = states[number]
            options = []
            for gpu in range(len(gpus)) if shape.share else [-1]:
                after = list(gpus)
                if shape.share and after[gpu] < shape.share:
                    continue
                taken = [gpu] if shape.share else [n for n, free in enumerate(after) if free == 1000][: shape.gpus]
                for one in taken:
                    after[one] -= shape.share or 1000
                less = before[number] - lost(NODES[number], cores - request.cores, after, typical)
                options.append((100 / (1 + math.exp(-less / 1000)), -gpu))
            best = max(int(each + 1e-9) for each, _ in options)
            near = any(abs(each - round(each)) < 1e-6 and each != 50 for each, _ in options)
            assert score == best or near
            devices.append(-max((int(each + 1e-9), gpu) for each, gpu in options)[1])
            if shape.share and not near:
                assert policy.device(room, shape, number, room.gpus[number]) == devices[-1]
        held = room.place(shape, policy)
        assert held is not None
        assert held[0].node == nodes[int(np.argmax(found))]
        room.take(held)


def test_the_most_frequent_requests_are_typical() -> None:
    requests = [*[Request(cores=2, memory=n) for n in range(6)], *[Request(cores=3, gpus=0.5)] * 3, Request(cores=9)]
    assert typical_requests(requests, 0.9) == [(Request(cores=2), 6), (Request(cores=3, gpus=0.5), 3)]
    assert typical_requests(requests)[-1] == (Request(cores=9), 1)
    with pytest.raises(InvalidConfiguration, match="requests: got none"):
        typical_requests([])


def test_a_resource_that_no_node_has() -> None:
    with pytest.raises(InvalidConfiguration, match="resource: got 'cpu', expected one of 'cores', 'memory'"):
        Fragmentation([(KINDS[0], 1)], NodeTable(NODES), "cpu")
