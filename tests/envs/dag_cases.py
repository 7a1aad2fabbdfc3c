"""Random clusters of DAG jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from desim.agents.dag.orders import downward_rank, mean_run_times, mean_transfer_times, upward_rank
from desim.core import Decision, Simulation
from desim.problems.dag import DagCluster, Executors, Job, TaskCluster
from desim.processes import Outage, planned_outages

ALL_DOWN = Outage(3.0, 7.0, executors=[0, 1, 2])


def random_job(rng: Random, job_id: int, time: float) -> Job:
    """Return a job of a few nodes."""
    nodes = rng.randint(1, 7)
    edges = [
        (parent, child, rng.choice((0.0, 1.0, 4.0)))
        for child in range(1, nodes)
        for parent in rng.sample(range(child), min(child, rng.randint(1, 2)))
    ]
    work = [rng.choice((0.0, 1.0, 2.0, 5.0)) for _ in range(nodes)]
    tasks = [rng.randint(1, 3) for _ in range(nodes)]
    return Job(job_id, work, edges, submission_time=time, num_tasks=tasks, allow_disconnected=True)


def random_cluster(rng: Random, *, outages: bool = True, tasks: bool = True) -> DagCluster:
    """Return a cluster of three executors, which may all be down for a while."""
    times = sorted(rng.choice((0.0, 1.0, 5.0, 12.0)) for _ in range(rng.randint(1, 6)))
    ids = rng.sample(range(50), len(times))
    jobs = [random_job(rng, job_id, time) for job_id, time in zip(ids, times, strict=True)]
    down = [ALL_DOWN, Outage(8.0, 11.0, executors=[1])] if outages and rng.random() < 0.6 else []
    options: dict[str, Any] = {
        "transfers": rng.choice(("when_finished", "when_assigned")),
        "processes": [planned_outages(down)] if down else (),
    }
    executors = Executors([1.0, 1.5, 2.0], 1.5, rng.choice((0.0, 0.25)))
    if tasks and rng.random() < 0.3:
        return TaskCluster(jobs, executors, **options)
    return DagCluster(jobs, executors, plan_ahead=rng.random() < 0.3, **options)


def decisions(rng: Random, encoder: Any, **options: Any) -> Iterator[tuple[Simulation, Decision]]:
    """Yield the decisions of a run in which possible actions are chosen at random."""
    simulation = Simulation(random_cluster(rng, **options))
    while (decision := simulation.advance()) is not None:
        yield simulation, decision
        possible = np.flatnonzero(encoder.encode(decision.observation)["action_mask"]).tolist()
        decision.answer(encoder.decode(decision.observation, rng.choice(possible))[0])


def log(value: float) -> float:
    """Return what features of times and counts are compressed to."""
    return math.log1p(min(value, 1e9)) / 4


def fixed_features(job: Job, executors: Executors) -> list[list[float]]:
    """Return what does not change while a job runs, node by node, written as it is described."""
    times, up, down = mean_run_times(job, executors), upward_rank(job, executors), downward_rank(job, executors)
    ends = [(parent, int(child)) for parent in range(job.num_nodes) for child in job.children(parent)]
    edges = list(zip(ends, mean_transfer_times(job, executors), strict=True))
    rows = []
    for node in range(job.num_nodes):
        incoming = [seconds for (_, child), seconds in edges if child == node]
        outgoing = [seconds for (parent, _), seconds in edges if parent == node]
        means = [sum(group) / len(group) if group else 0.0 for group in (incoming, outgoing)]
        rows.append([log(value) for value in (times[node], *means, up[node], down[node], len(outgoing))])
    return rows
