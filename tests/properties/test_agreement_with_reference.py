"""Every start and every core of the agents against plain schedulers written from their definitions."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import KINDS, Scenario, difference, random_scenario, scenarios, simulated

from desim.agents.batch import create

ORDERS = ("fcfs", "sjf", "lcfs", "f1")
PAIRS = [*product(KINDS, ORDERS), *product(("strict", "backfilling", "easy"), ("smallest-first", "wfp3"))]


def check_many(kind: str, order: str, seeds: range, shortest: int = 1) -> None:
    for seed in seeds:
        scenario = random_scenario(Random(f"{kind} {order} {seed}"), shortest)
        found = difference(scenario, kind, order)
        assert found is None, f"seed {seed}: {found}"


@pytest.mark.parametrize(("kind", "order"), PAIRS)
def test_starts_and_cores_are_those_of_the_reference(kind: str, order: str) -> None:
    check_many(kind, order, range(150 if kind in ("strict", "backfilling", "easy") else 300))


@pytest.mark.parametrize("kind", ["strict", "backfilling", "easy", "easy-specific"])
def test_jobs_that_request_no_time_are_blocked_and_overtaken_like_others(kind: str) -> None:
    check_many(kind, "fcfs", range(150), shortest=0)


@pytest.mark.parametrize("kind", ["conservative", "conservative-specific"])
def test_reservations_of_jobs_that_request_no_time_can_be_kept(kind: str) -> None:
    for seed in range(150):
        scenario = random_scenario(Random(f"{kind} {seed}"), shortest=0)
        assert len(simulated(scenario, create(f"{kind}-fcfs"))) == len(scenario.jobs)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "order"), PAIRS)
def test_starts_and_cores_are_those_of_the_reference_in_many_more_scenarios(kind: str, order: str) -> None:
    check_many(kind, order, range(300, 20_300))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(scenario=scenarios(), order=st.sampled_from(ORDERS))
def test_no_small_scenario_tells_them_apart(kind: str, scenario: Scenario, order: str) -> None:
    assert difference(scenario, kind, order) is None
