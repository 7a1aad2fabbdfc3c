"""Schedulers that wait for a faster executor: what is worth waiting for, and the order of least work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dag_references import random_instance

from desim import Simulation, simulate
from desim.agents.dag import DEFT, EFT, FIFO, LeastWork, ListScheduler, PatientScheduler, RankUp
from desim.agents.dag.orders import mean_run_times, upward_rank
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagCluster, Executors, Job
from desim.processes import Outage, planned_outages
from desim.validation import validate


def test_a_node_waits_for_the_executor_that_finishes_it_first() -> None:
    jobs = [Job(0, [10.0]), Job(1, [10.0])]
    executors = Executors([10.0, 1.0], 1.0)  # one second on the first, ten on the second
    patient = simulate(DagCluster(jobs, executors), PatientScheduler())
    hasty = simulate(DagCluster(jobs, executors), ListScheduler(RankUp(), only_idle=True))
    assert patient.jobs["finish_time"].to_list() == [1.0, 2.0]
    assert hasty.jobs["finish_time"].to_list() == [1.0, 10.0]
    loose = simulate(DagCluster(jobs, executors), PatientScheduler(slack=5.0))
    assert loose.jobs["finish_time"].to_list() == [1.0, 10.0]  # ten are just five times two


def reference(seen: Any, keys: Any, slack: float) -> tuple[int, int] | None:
    """Return the job and node that are assigned, found one by one."""
    at = seen.available_times.tolist()
    found, order = [], []
    for number, (state, node) in enumerate(seen.ready.values()):
        ready = state.ready_times(node).tolist()
        ends = [max(free, ready[k]) + state.run_times[node][k] - seen.time for k, free in enumerate(at)]
        idle = [end for free, end in zip(at, ends, strict=True) if free <= seen.time]
        if not idle:
            return None
        order.append((keys(seen, state)[node], number))
        found.append((min(idle), min(ends), state.job.job_id, node))
    soon = [number for _, number in sorted(order) if found[number][0] <= slack * found[number][1] + 1e-9]
    if soon:
        return found[soon[0]][2:]
    assert any(seen.time < free < math.inf for free in at)
    return None


def by_rank(seen: Any, state: Any) -> Any:
    return -upward_rank(state.job, seen.executors)


def by_work(seen: Any, state: Any) -> Any:
    left = mean_run_times(state.job, seen.executors)[~state.assigned].sum()
    return np.round(left - 0.01 * upward_rank(state.job, seen.executors), 9)


def by_arrival(seen: Any, state: Any) -> Any:
    return np.full(state.job.num_nodes, state.job.submission_time)


@pytest.mark.parametrize(("order", "keys"), [(RankUp, by_rank), (LeastWork, by_work), (FIFO, by_arrival)])
@pytest.mark.parametrize("slack", [1.0, 1.5])
def test_decisions_are_those_of_the_rule(order: Any, keys: Any, slack: float) -> None:
    held = 0
    for seed in range(4000, 4015):
        jobs, executors = random_instance(seed, staggered=seed % 2 == 0)
        agent = PatientScheduler(order(), EFT(), slack=slack)
        agent.reset({}, np.random.default_rng(0))
        simulation = Simulation(DagCluster(jobs, executors))
        while (decision := simulation.advance()) is not None:
            seen = decision.observation
            answer = agent.act(seen)
            assert (None if answer is None else answer[:2]) == reference(seen, keys, slack), seed
            if isinstance(answer, Assign):
                assert seen.available_times[answer.executor] <= seen.time
            else:
                held += bool((seen.available_times <= seen.time).any())
            decision.answer(answer)
    assert held > 10


def test_nobody_waits_for_an_executor_that_is_down() -> None:
    down = planned_outages([Outage(0.0, 50.0, executors=[0])])
    cluster = DagCluster([Job(0, [10.0], submission_time=1.0)], Executors([10.0, 1.0], 1.0), processes=[down])
    result = simulate(cluster, PatientScheduler())
    assert result.jobs["finish_time"].to_list() == [11.0]


@pytest.mark.parametrize("seed", range(5))
def test_schedules_are_feasible(seed: int) -> None:
    jobs, executors = random_instance(5000 + seed)
    for agent in (PatientScheduler(allocation=DEFT()), PatientScheduler(LeastWork()), ListScheduler(LeastWork())):
        result = simulate(DagCluster(jobs, executors), agent)
        validate(result)
        assert result.metrics()["jobs_completed"] == len(jobs)


def test_a_slack_below_one_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match=r"slack: got 0\.9, expected .* >= 1"):
        PatientScheduler(slack=0.9)
