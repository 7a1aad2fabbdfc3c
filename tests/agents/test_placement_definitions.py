"""Every placement policy, FGD among them, puts requests where its definition says, on nodes that fill and empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_placement import Plain

from desim.problems.batch import (
    PLACEMENTS,
    FragmentationGradient,
    Node,
    NodeAvailability,
    NodeTable,
    PlacementPolicy,
    Request,
)

POLICIES = (*PLACEMENTS, "fgd")
DISK = frozenset({"disk"})
KINDS = [
    {"cores": 64, "memory": 1024, "gpus": 8, "gpu_model": "A"},
    {"cores": 32, "memory": 256, "gpus": 4, "gpu_model": "B", "partition": "fast"},
    {"cores": 16, "memory": 512, "gpus": 2, "gpu_model": "A", "features": DISK},
    {"cores": 32, "memory": 128, "resources": {"licenses": 4}},
    {"cores": 8, "memory": 64, "gpus": 1, "gpu_model": "B", "features": DISK},
]
# Multiples of an eighth, and amounts whose largest is a power of two: floating point numbers are then exact.
SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)


def random_nodes(rng: np.random.Generator) -> list[Node]:
    """Return nodes of all kinds, of some more than one, in any order."""
    kinds = [*KINDS, *(KINDS[int(kind)] for kind in rng.integers(0, len(KINDS), int(rng.integers(0, 5))))]
    rng.shuffle(kinds)  # type: ignore[arg-type]
    return [Node(f"n{number}", **kind) for number, kind in enumerate(kinds)]


def random_request(rng: np.random.Generator) -> Request:
    """Return a request of any kind, more often than not with GPUs."""
    gpus = float(rng.choice([0, 0, 1, 1, 2, 4, *SHARES, *SHARES]))
    return Request(
        tasks=int(rng.choice([1, 1, 1, 2, 3, 5])),
        cores=int(rng.integers(1, 13)),
        memory=int(rng.integers(0, 65)),
        gpus=gpus,
        gpu_models=(("A",), ("B",), ("A", "B"))[int(rng.integers(3))] if gpus and rng.random() < 0.3 else (),
        resources=(("licenses", 1),) if not gpus and rng.random() < 0.3 else (),
        partition="fast" if rng.random() < 0.1 else "",
        features=("disk",) if rng.random() < 0.1 else (),
        excluded_features=("disk",) if rng.random() < 0.1 else (),
        exclusive=bool(rng.random() < 0.05),
        tasks_per_node=int(rng.integers(1, 3)) if rng.random() < 0.2 else None,
    )


def compare(seed: int, name: str, steps: int) -> None:
    """Place requests one after the other; now and then one ends, or a node fails."""
    rng = np.random.default_rng(seed)
    nodes = random_nodes(rng)
    typical = [
        (Request(cores=int(rng.integers(1, 17)), gpus=gpus, gpu_models=models), int(rng.integers(1, 100)))
        for gpus, models in [(0, ()), (0.5, ()), (0.25, ("A",)), (1, ()), (2, ("B",)), (8, ())]
        if rng.random() < 0.8
    ] or [(Request(gpus=1), 1)]
    plain = Plain(nodes, typical)
    policy: PlacementPolicy = FragmentationGradient(typical) if name == "fgd" else PLACEMENTS[name]()
    room = NodeAvailability(NodeTable(nodes))
    there = []
    for _ in range(steps):
        if there and rng.random() < 0.35:
            ended = there.pop(int(rng.integers(len(there))))
            room.release(ended)
            plain.change(ended, -1)
        if rng.random() < 0.05:
            number = int(rng.integers(len(nodes)))
            plain.there[number].down = not plain.there[number].down
            room.down[number] = plain.there[number].down
        request = random_request(rng)
        held = room.place(room.table.compile(request), policy)
        assert held == plain.place(name, request), request
        if held is not None:
            room.take(held)
            plain.change(held, 1)
            there.append(held)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_requests_go_where_the_definition_says(name: str, seed: int) -> None:
    compare(seed, name, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=1_000, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_requests_go_where_the_definition_says_on_a_thousand_scenarios(name: str, seed: int) -> None:
    compare(seed, name, 60)
