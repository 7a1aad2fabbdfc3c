"""Conservative backfilling agrees with its rules on random workloads with overruns, outages and reservations."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from conservative import ConservativeByRules

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import AdvanceReservation, BatchCluster, Job, to_core_ids
from desim.processes import Outage, planned_outages

NUM_CORES = 8


def workload(rng: Random) -> list[Job]:
    """Return jobs that often arrive together, and of which a fourth exceed their requested time."""
    time, jobs = 0.0, []
    for job_id in range(30):
        time += rng.choice((0.0, 1.0, 5.0, 40.0))
        requested = float(rng.randint(1, 60))
        ran = rng.choice((requested, requested, rng.uniform(0.0, requested), requested * rng.choice((2, 5, 30))))
        jobs.append(Job(job_id, time, rng.randint(1, NUM_CORES), requested, float(ran)))
    return jobs


def disturbances(rng: Random) -> dict[str, Any]:
    """Return outages and advance reservations as options of a cluster."""
    outages = []
    for start in sorted(rng.uniform(0.0, 400.0) for _ in range(3)):
        end, cores = start + rng.uniform(1.0, 90.0), to_core_ids(rng.randrange(1, 1 << NUM_CORES))
        outages.append(Outage(start, end, cores=cores))
    start = rng.uniform(0.0, 400.0)
    reservation = AdvanceReservation(start, start + 50.0, cores=rng.randint(1, NUM_CORES))
    return {"processes": [planned_outages(outages)], "reservations": [reservation]}


@pytest.mark.parametrize("cycle", ["arrival", "instant", "event", 7.0])
@pytest.mark.parametrize("order", ["fcfs", "sjf"])
@pytest.mark.parametrize("kind", ["overruns", "grace", "disturbances"])
def test_conservative_backfilling_follows_its_rules(cycle: Any, order: str, kind: str) -> None:
    for seed in range(5):
        rng = Random(f"{kind} {seed}")
        jobs = workload(rng)
        options = {"over_time_limit": 45.0} if kind == "grace" else {"enforce_time_limit": False}
        if kind == "disturbances":
            options |= disturbances(rng)
        starts = [
            simulate(BatchCluster(jobs, NUM_CORES, cycle=cycle, **options), agent)
            .jobs.sort("job_id")["starting_time"]
            .to_list()
            for agent in (create(f"conservative-{order}"), ConservativeByRules(order))
        ]
        assert starts[0] == starts[1], seed
