"""What conservative backfilling promises when a job arrives, and what it keeps."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from reference import Conservative, run_reference
from scenarios import random_scenario, simulated

from desim.agents.batch import ConservativeBackfilling


class Watched:
    """Conservative backfilling, with a note of the first reservation of every job."""

    def __init__(self, order: str, specific_cores: bool) -> None:
        self.agent = ConservativeBackfilling(order, specific_cores=specific_cores)
        self.promised: dict[int, float] = {}

    def reset(self, info: dict[str, Any], rng: Any) -> None:
        self.agent.reset(info, rng)

    def act(self, observation: Any) -> Any:
        actions = self.agent.act(observation)
        for job_id, row in zip(observation.queue.id.tolist(), observation.queue.row.tolist(), strict=True):
            slot = self.agent.reservations.get(row)  # without one, the job starts now
            self.promised.setdefault(job_id, observation.time if slot is None else slot.start)
        return actions


@pytest.mark.parametrize("order", ["fcfs", "sjf", "lcfs", "f1"])
@pytest.mark.parametrize("specific_cores", [False, True])
def test_no_job_starts_after_its_first_reservation(order: str, specific_cores: bool) -> None:
    kept = moved_up = 0
    for seed in range(100):
        scenario = random_scenario(Random(f"promise {order} {specific_cores} {seed}"))
        agent = Watched(order, specific_cores)
        placed = simulated(scenario, agent)
        expected = Conservative(order, specific_cores)
        run_reference(scenario.jobs, scenario.num_cores, expected, scenario.cycle)
        assert agent.promised == expected.first_promise, scenario
        late = {job_id for job_id, place in placed.items() if place.start > agent.promised[job_id]}
        assert not late, f"jobs {late} start after their first reservation: {scenario}"
        kept += sum(place.start == agent.promised[job_id] for job_id, place in placed.items())
        moved_up += sum(place.start < agent.promised[job_id] for job_id, place in placed.items())
    assert kept > 0
    assert moved_up > 0


@pytest.mark.parametrize("specific_cores", [False, True])
def test_exact_requests_are_promised_and_kept_to_the_second_in_order_of_arrival(specific_cores: bool) -> None:
    for seed in range(100):
        scenario = random_scenario(Random(f"exact {seed}"))
        jobs = [job._replace(run_time=job.requested_time) for job in scenario.jobs]
        agent = Watched("fcfs", specific_cores)
        placed = simulated(scenario._replace(jobs=jobs), agent)
        assert {job_id: place.start for job_id, place in placed.items()} == agent.promised
