"""Whatever fails when: every job ends after the last outage, and its records are valid."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from dag_reference import Scenario, random_scenario
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, simulate
from desim.agents.dag import DEFT, EFT, FIFO, HEFT, HRRN, InsertionEFT, ListScheduler, RandomOrder, RankUp
from desim.problems.batch.cores import to_core_ids
from desim.problems.dag import Assign
from desim.processes import Outage, planned_outages, random_outages
from desim.validation import validate


class Wild:
    """Assign anything anywhere, with duplicates of anything, wherever its inputs are or will be."""

    def __init__(self) -> None:
        self.rng = Random(0)

    def act(self, observation: Any) -> Any:
        up = [executor for executor, time in enumerate(observation.available_times) if time < math.inf]
        if not up:
            return None
        state, node = self.rng.choice(list(observation.ready.values()))
        executor = self.rng.choice(up)
        known = [other for other in range(state.job.num_nodes) if self.may_run_again(state, other)]
        supported = all(state.copies[parent] for parent, _ in state.job.parent_lists[node])
        before = tuple(self.rng.sample(known, min(len(known), self.rng.randint(0, 2)))) if supported else ()
        answer = [Assign(state.job.job_id, node, executor, before)]
        if known and self.rng.random() < 0.4:
            answer.append(Assign(state.job.job_id, self.rng.choice(known), self.rng.choice(up)))
        return answer

    @staticmethod
    def may_run_again(state: Any, node: int) -> bool:
        parents = state.job.parent_lists[node]
        return bool(state.copies[node]) and all(state.copies[parent] for parent, _ in parents)


AGENTS: dict[str, Callable[[], Any]] = {
    "rank-up-DEFT": lambda: ListScheduler(RankUp(), DEFT()),
    "FIFO-EFT": lambda: ListScheduler(FIFO(), EFT()),
    "HRRN-insertion": lambda: ListScheduler(HRRN(), InsertionEFT()),
    "random-DEFT": lambda: ListScheduler(RandomOrder(), DEFT()),
    "HEFT": HEFT,
    "anything": Wild,
}


def run(scenario: Scenario, name: str, outages: Any, seed: int, *, lose_data: bool) -> Result:
    if name == "HEFT":
        scenario = scenario._replace(plan_ahead=True)
    cluster = scenario.cluster(processes=[outages], outages_lose_data=lose_data)
    result = simulate(cluster, AGENTS[name](), seed=seed, until=1e6)
    assert set(result.jobs["status"]) == {"completed"}
    report = validate(result, list(cluster.jobs))
    assert report.ok, str(report)
    return result


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 4_000), marks=pytest.mark.slow)])
def test_every_job_ends_and_nothing_runs_without_its_data(name: str, seeds: range) -> None:
    outcomes: dict[str, int] = defaultdict(int)
    for seed in seeds:
        rng = Random(f"{name} {seed}")
        scenario = random_scenario(rng)
        outages = random_outages(rng.choice([20.0, 60.0]), rng.choice([2.0, 15.0]), unit=rng.choice([1, 2]))
        if name == "anything":  # it may take for ever if they never end
            starts = sorted(rng.uniform(0, 60) for _ in range(rng.randint(1, 12)))
            there = (1 << len(scenario.speeds)) - 1
            planned = [
                Outage(start, start + rng.expovariate(0.1), executors=to_core_ids(rng.randint(1, there)))
                for start in starts
            ]
            outages = planned_outages(planned)
        result = run(scenario, name, outages, seed, lose_data=rng.random() < 0.7)
        for outcome in result.table("copies")["outcome"]:
            outcomes[outcome] += 1
    assert min(outcomes["interrupted"], outcomes["withdrawn"]) > 10


@given(
    seed=st.integers(0, 2**32),
    moments=st.lists(st.tuples(st.integers(0, 120), st.integers(1, 40), st.integers(1, 31)), max_size=8),
    name=st.sampled_from(sorted(AGENTS)),
    lose_data=st.booleans(),
)
@settings(max_examples=50)
def test_outages_at_the_instants_at_which_other_things_happen(
    seed: int, moments: list[tuple[int, int, int]], name: str, *, lose_data: bool
) -> None:
    scenario = random_scenario(Random(seed), exact=True, most=6)
    there = (1 << len(scenario.speeds)) - 1
    planned = [
        Outage(start / 4, (start + length) / 4, executors=to_core_ids(units & there))
        for start, length, units in sorted(moments)
    ]
    run(scenario, name, planned_outages(planned), 0, lose_data=lose_data)
