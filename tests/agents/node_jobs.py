"""A small cluster of nodes of three kinds, and random jobs that request whatever can be requested of it."""

from __future__ import annotations

import numpy as np

from desim.problems.batch import Job, Node, Request

NODES = [
    *Node.several(3, 8, memory=100, gpus=2, gpu_model="A", partition="fast"),
    *Node.several(2, 4, name="m", memory=400, resources={"licenses": 2}, features=frozenset({"local-disk"})),
    Node("big", 16, memory=900, gpus=4, gpu_model="B"),
]


def random_request(rng: np.random.Generator) -> Request:
    """Return a request of any kind."""
    gpus = float(rng.choice([0, 0, 1, 2, 0.25, 0.5, 0.7]))
    return Request(
        tasks=int(rng.integers(1, 5)),
        cores=int(rng.integers(1, 5)),
        memory=int(rng.integers(0, 120)),
        gpus=gpus,
        gpu_models=("B",) if gpus and rng.random() < 0.2 else (),
        resources=(("licenses", 1),) if not gpus and rng.random() < 0.2 else (),
        partition="fast" if rng.random() < 0.2 else "",
        features=("local-disk",) if not gpus and rng.random() < 0.1 else (),
        excluded_features=("local-disk",) if rng.random() < 0.1 else (),
        exclusive=bool(rng.random() < 0.1),
        tasks_per_node=int(rng.integers(1, 3)) if rng.random() < 0.2 else None,
    )


def random_jobs(rng: np.random.Generator, count: int) -> list[Job]:
    """Return jobs that arrive faster than the nodes serve them; several arrive and end at the same time."""
    times = (5 * rng.integers(0, 3, count)).cumsum().tolist()
    runs = (10 * rng.integers(1, 10, count)).tolist()
    return [
        Job.of_tasks(number, float(time), random_request(rng), run * float(rng.integers(1, 4)), float(run), number % 3)
        for number, (time, run) in enumerate(zip(times, runs, strict=True))
    ]
