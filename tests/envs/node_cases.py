"""Environments of small clusters of nodes, and what happens on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from desim.core import Decision, Simulation
from desim.exceptions import WorkloadError
from desim.problems.batch import BatchCluster, Job, Node, NodeAvailability, NodeTable
from desim.processes.outages import Outage, planned_outages
from tests.agents.node_jobs import NODES, random_jobs

__all__ = ["NODES", "decisions", "fitting_jobs", "node_settings"]


def fitting_jobs(seed: int, count: int, nodes: Sequence[Node] = NODES) -> list[Job]:
    """Return random jobs, without those that never have room."""
    table = NodeTable(nodes)
    empty = NodeAvailability(table)

    def fits(job: Job) -> bool:
        try:
            return empty.fits(table.compiled_request(job))
        except WorkloadError:  # it asks for what no node has
            return False

    return list(filter(fits, random_jobs(np.random.default_rng(seed), count)))


def node_settings(**settings: Any) -> dict[str, Any]:
    """Return the settings of an environment of nodes."""
    return {"num_cores": None, "nodes": NODES, "jobs": fitting_jobs(0, 300), "placement": "best-fit"} | settings


def decisions(
    rng: np.random.Generator, encoder: Any, *, placement: str = "first-fit", count: int = 18
) -> Iterator[tuple[Simulation, Decision]]:
    """Yield the decisions of a run of random jobs with random possible answers, sometimes with outages."""
    outages = [planned_outages([Outage(30.0, 90.0, nodes=[0, 2]), Outage(60.0, 80.0, nodes=[2])])] * (
        rng.random() < 0.4
    )
    jobs = random_jobs(rng, count)
    problem = BatchCluster(jobs, nodes=NODES, placement=placement, too_wide="reject", processes=outages)
    simulation = Simulation(problem)
    while (decision := simulation.advance()) is not None:
        yield simulation, decision
        possible = np.flatnonzero(encoder.encode(decision.observation)["action_mask"])
        answer, is_possible = encoder.decode(decision.observation, rng.choice(possible))
        assert is_possible
        decision.answer(answer)
