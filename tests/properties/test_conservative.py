"""Conservative backfilling agrees with its rules on random workloads with overruns, outages and reservations."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from conservative import ConservativeByRules

from desim import simulate
from desim.agents.batch import ConservativeBackfilling, create
from desim.core import Agent
from desim.problems.batch import AdvanceReservation, BatchCluster, BatchObservation, Job, Node, to_core_ids
from desim.processes import Outage, planned_outages
from desim.reprs import NamedRepr

NUM_CORES = 8
PER_NODE = 2


def workload(rng: Random) -> list[Job]:
    """Return jobs that often arrive together, and of which a fourth exceed their requested time."""
    time, jobs = 0.0, []
    for job_id in range(30):
        time += rng.choice((0.0, 1.0, 5.0, 40.0))
        requested = float(rng.randint(1, 60))
        ran = rng.choice((requested, requested, rng.uniform(0.0, requested), requested * rng.choice((2, 5, 30))))
        jobs.append(Job(job_id, time, rng.randint(1, NUM_CORES), requested, float(ran), rng.randrange(3)))
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


def options_of(kind: str, rng: Random) -> dict[str, Any]:
    """Return the options of a cluster on which jobs run longer than expected."""
    options: dict[str, Any] = {"over_time_limit": 45.0} if kind == "grace" else {"enforce_time_limit": False}
    if kind.startswith("predictor"):
        options["predictor"] = "user-average"
    if kind.endswith("disturbances"):
        options |= disturbances(rng)
    return options


def starts_of(cluster: BatchCluster, agent: Agent) -> list[float]:
    """Return the last starts by job id."""
    return simulate(cluster, agent).jobs.sort("job_id")["starting_time"].to_list()


@pytest.mark.parametrize("cycle", ["arrival", "instant", "event", 7.0])
@pytest.mark.parametrize("order", ["fcfs", "sjf"])
@pytest.mark.parametrize("kind", ["overruns", "grace", "disturbances", "predictor", "predictor, disturbances"])
def test_conservative_backfilling_follows_its_rules(cycle: Any, order: str, kind: str) -> None:
    for seed in range(3):
        rng = Random(f"{kind} {seed}")
        jobs = workload(rng)
        options = {"cycle": cycle} | options_of(kind, rng)
        starts = starts_of(BatchCluster(jobs, NUM_CORES, **options), create(f"conservative-{order}"))
        assert starts == starts_of(BatchCluster(jobs, NUM_CORES, **options), ConservativeByRules(order)), seed
        if "disturbances" not in kind:
            one_node = BatchCluster(jobs, nodes=[Node("n1", NUM_CORES)], **options)
            assert starts == starts_of(one_node, create(f"conservative-{order}")), seed


class Promises(NamedRepr):
    """Agent that checks after each of its decisions that no two jobs have the same core or node at the same time."""

    def __init__(self, base: ConservativeBackfilling) -> None:
        self.base, self.name = base, base.name

    def reset(self, simulation_info: dict[str, Any], rng: Any) -> None:
        self.base.reset(simulation_info, rng)

    def act(self, observation: BatchObservation) -> Any:
        answer = self.base.act(observation)
        assert self.base._profile is not None
        slots = [*self.base.reservations.values(), *self.base._profile.running.values()]
        for moment in {max(slot.start, observation.time) for slot in slots}:
            held = Counter[int]()
            for slot in slots:
                if slot.start <= moment < slot.end:
                    nodes = slot.changes[:, [0, 2]].tolist() if hasattr(slot, "changes") else ()
                    held += Counter(dict(nodes) or dict.fromkeys(to_core_ids(slot.core_set), PER_NODE))
            assert not held or max(held.values()) <= PER_NODE
        return answer


@pytest.mark.parametrize("specific_cores", [True, False])
def test_promises_that_are_kept_do_not_overlap_with_jobs_that_run_longer(specific_cores: bool) -> None:
    for seed in range(10):
        options: dict[str, Any] = {"predictor": "user-average", "enforce_time_limit": seed % 2 > 0}
        if specific_cores:
            options["num_cores"] = NUM_CORES
        else:
            options["nodes"] = [Node(f"n{number}", PER_NODE) for number in range(NUM_CORES // PER_NODE)]
        cluster = BatchCluster(workload(Random(seed)), **options)
        simulate(cluster, Promises(ConservativeBackfilling(specific_cores=specific_cores)))


def test_a_promise_that_nothing_delays_survives_the_correction_of_another_job() -> None:
    """At 10 s, job 0 is expected to end at 70 s: job 3 loses its promise for 10 s, and job 4 keeps its own for 20 s."""
    jobs = [
        Job(0, 0.0, 1, 10.0, 100.0),
        Job(1, 0.0, 1, 20.0, 20.0),
        Job(2, 0.0, 1, 30.0, 30.0),
        Job(3, 1.0, 1, 10.0, 10.0),
        Job(4, 2.0, 1, 30.0, 30.0),
    ]
    cluster = BatchCluster(jobs, 3, enforce_time_limit=False)
    assert starts_of(cluster, create("conservative-fcfs")) == [0.0, 0.0, 0.0, 30.0, 20.0]


def test_jobs_move_forward_when_another_loses_its_promise() -> None:
    """Job 1 cannot have all cores at 10 s, so job 2, which was to start at 20 s, starts then."""
    jobs = [Job(0, 0.0, 1, 10.0, 30.0), Job(1, 1.0, 2, 10.0, 10.0), Job(2, 2.0, 1, 20.0, 5.0)]
    cluster = BatchCluster(jobs, 2, enforce_time_limit=False)
    assert starts_of(cluster, create("conservative-fcfs")) == [0.0, 30.0, 10.0]
