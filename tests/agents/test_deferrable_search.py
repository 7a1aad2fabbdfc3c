"""Search over plans of deferrable jobs: its accounting, small problems, and the agent."""

from __future__ import annotations

import numpy as np
import pytest
from deferrable_exhaustive import best_value, random_case
from test_deferrable_optimum import program_of

pytest.importorskip("numba")

from desim import simulate
from desim.agents.deferrable import create
from desim.agents.deferrable.program import usage, value_of
from desim.agents.deferrable.search import PlanDecoder, SearchAgent
from desim.agents.search import Budget
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster
from desim.validation import validate
from desim.workloads.deferrable import FLUCTUATING, generate


def decoders(number: int, **sizes: int) -> list[tuple[bool, int, PlanDecoder]]:
    """Return decoders of random problems, with nothing planned."""
    found = []
    for seed in range(number):
        overcommit = bool(seed // 4 % 2)
        instance = program_of(random_case(seed, **sizes), overcommit=overcommit)
        nothing = np.full(instance.num_jobs, -1, np.int64)
        found.append((overcommit, seed, PlanDecoder(instance, nothing, seed)))
    return found


def test_what_a_plan_brings_is_what_the_program_says() -> None:
    for overcommit, seed, decoder in decoders(200, max_jobs=20, max_slots=12, slack=4):
        instance = program_of(random_case(seed, max_jobs=20, max_slots=12, slack=4), overcommit=overcommit)
        before = decoder.value
        gain = decoder.place_all(np.random.default_rng(seed).permutation(instance.num_jobs))
        gain += decoder.improve(30)
        starts = decoder.starts
        assert decoder.value == pytest.approx(value_of(instance, starts), abs=1e-6)
        assert gain == pytest.approx(decoder.value - before, abs=1e-6)
        placed = np.flatnonzero(starts >= 0)
        assert (instance.first[placed] <= starts[placed]).all()
        assert (starts[placed] <= instance.last[placed]).all()
        again = PlanDecoder(instance, starts)
        assert again.value == pytest.approx(decoder.value, abs=1e-6)
        if not overcommit:  # what is requested fits where a job starts
            fits = usage(instance, starts)[starts[placed]] <= instance.limit[starts[placed]] + 1e-9
            assert (fits | (instance.requests[placed] == 0)).all()


def test_it_finds_the_best_of_all_plans_of_small_problems() -> None:
    missed = 0
    for overcommit, seed, decoder in decoders(80):
        decoder.place_all(np.arange(len(decoder.starts)))
        decoder.improve(500)
        best = best_value(random_case(seed), overcommit=overcommit)
        assert decoder.value <= best + 1e-6
        missed += decoder.value < best - 1e-6
    assert missed <= 2


def cluster(seed: int) -> DeferrableCluster:
    """Return one of the workload whose capacity fluctuates."""
    scenario = generate(FLUCTUATING, seed=seed)
    return DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=60)


def test_a_run_is_valid_and_repeats() -> None:
    results = [simulate(cluster(0), create("search:deferrable:total_reward:20"), seed=3) for _ in range(2)]
    assert results[0].metrics() == results[1].metrics()
    assert validate(results[0]).ok


def test_it_brings_more_than_rules_that_do_not_plan() -> None:
    rewards = {
        name: np.mean([simulate(cluster(seed), create(name)).metrics()["total_reward"] for seed in range(3)])
        for name in ("fifo", "search:deferrable")
    }
    assert rewards["search:deferrable"] > rewards["fifo"]


def test_names() -> None:
    assert create("search:deferrable").name == "search:deferrable:total_reward:100"
    assert create("search:deferrable:total_reward:0.01s").name == "search:deferrable:total_reward:0.01s"
    for wrong in ("search:deferrable:makespan", "search:deferrable:total_reward:x", "search:batch"):
        with pytest.raises(InvalidConfiguration):
            create(wrong)
    with pytest.raises(InvalidConfiguration):
        SearchAgent("makespan", Budget(moves=1))  # type: ignore[arg-type]
