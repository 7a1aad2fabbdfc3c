"""Line searches: never below where they start, never above what the slot allows; and the slot solved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_slow_agents import Floats, assert_feasible, random_rewards, slots_of
from numpy.random import default_rng

from desim import simulate
from desim.agents.multiserver import (
    DRF,
    BestSlot,
    Fairness,
    LineSearchOGA,
    best_fixed_allocation,
    create,
    descriptions,
)
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import MultiServerCluster, MultiServerObservation, RewardModel
from desim.workloads.multiserver import bernoulli_arrivals, generate

RIVALS = ("drf", "drf-progressive", "fairness", "bin-packing", "spreading")


def reward(observation: MultiServerObservation, allocation: Floats) -> float:
    earnings = observation.rewards.evaluate(allocation, observation.arrived)
    return float(earnings.gain.sum() - earnings.overhead.sum())


@given(seed=st.integers(0, 10_000), holding=st.booleans())
@settings(max_examples=25)
def test_no_slot_is_below_its_starts_nor_above_the_solved_slot(seed: int, holding: bool) -> None:
    rng = default_rng(seed)
    agent, best = LineSearchOGA(), BestSlot()
    for observation in slots_of(rng, random_rewards(rng), 5, holding=holding):
        memory = agent.allocation
        capacity = observation.capacity if holding else None
        remembered = None if memory is None else agent.projection(memory, ports=observation.arrived, capacity=capacity)
        answer = agent.act(observation)
        assert_feasible(observation, answer, arrived_only=True)
        starts = [Fairness().act(observation), DRF().act(observation)]
        starts += [] if remembered is None else [remembered]
        earned, scale = reward(observation, answer), 1.0 + abs(reward(observation, answer))
        assert earned >= max(reward(observation, start) for start in starts) - 1e-9 * scale
        solved = best.act(observation)
        assert_feasible(observation, solved, arrived_only=True)
        assert earned <= reward(observation, solved) + 1e-5 * scale
        for name in RIVALS:
            assert reward(observation, create(name).act(observation)) <= reward(observation, solved) + 1e-5 * scale


@given(seed=st.integers(0, 10_000))
@settings(max_examples=12)
def test_a_reservation_never_earns_less_on_the_past_than_the_one_before(seed: int) -> None:
    rng = default_rng(seed)
    rewards = random_rewards(rng)
    agent = LineSearchOGA("reservation")
    arrived = []
    for observation in slots_of(rng, rewards, 8):
        before = agent.act(observation)
        arrived.append(observation.arrived)
        counts = np.sum(arrived, axis=0)
        assert agent.allocation is not None
        assert np.allclose(agent.frequencies, counts / len(arrived))

        def past(allocation: Floats) -> float:
            return sum(rewards.total_reward(allocation, jobs) for jobs in arrived)

        assert past(agent.allocation) >= past(before) - 1e-9
        assert past(agent.allocation) <= best_fixed_allocation(rewards, counts).upper_bound + 1e-9


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30)
def test_the_smoothed_gradient_is_that_of_a_function_near_the_reward(seed: int) -> None:
    """Its overhead lies between the mean of the largest ones and the largest; sharp enough, it is equation (30)."""
    rng = default_rng(seed)
    rewards = random_rewards(rng)
    arrived = rng.random(rewards.graph.num_ports) < 0.7
    amounts = rng.uniform(0.1, 1.0, rewards.graph.shape)
    smooth = rewards.slopes(amounts) - rewards.gradient(amounts, np.ones_like(arrived), 0.1)
    shares = np.divide(smooth, rewards.overhead, out=np.zeros_like(smooth), where=rewards.overhead > 0)
    if (rewards.overhead > 0).all():
        assert np.allclose(shares.sum(axis=1), 1.0)
    assert (shares >= -1e-9).all()
    plain, sharp = rewards.gradient(amounts, arrived), rewards.gradient(amounts, arrived, 1e-9)
    assert np.allclose(plain, sharp, atol=1e-9)


def test_the_solved_slot_is_the_best_of_all_fixed_allocations() -> None:
    rewards = generate(num_ports=4, num_nodes=6, seed=3)
    observation = MultiServerObservation(rewards.graph, rewards)
    observation.arrived = np.array([True, False, True, True])
    best = best_fixed_allocation(rewards, observation.arrived, relative_gap=1e-9)
    assert reward(observation, BestSlot().act(observation)) == pytest.approx(best.value, rel=2e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"utilities": "linear"},
        {"utilities": "poly"},
        {"utilities": "reciprocal"},
        {"contention": 0.1},
        {"contention": 1.0},
    ],
    ids=str,
)
def test_behind_no_rival(options: dict[str, float | str]) -> None:
    rewards = generate(**{"num_ports": 6, "num_nodes": 16, "seed": 2} | options)  # type: ignore[arg-type]
    names = [name for name in descriptions() if name.islower() and "reservation" not in name and name != "ogasched"]
    earned = {name: _total(rewards, name) for name in [*names, "ogasched-capped"]}
    rivals = [value for name, value in earned.items() if name not in ("line-search-reactive", "best-slot")]
    assert earned["line-search-reactive"] >= max(rivals) * (1 - 1e-3)
    assert earned["best-slot"] >= earned["line-search-reactive"] * (1 - 1e-6)


def _total(rewards: RewardModel, name: str) -> float:
    arrivals = bernoulli_arrivals(30, rewards.graph.num_ports, 0.7, 2)
    result = simulate(MultiServerCluster(rewards, arrivals, record_allocations=0), create(name))
    return float(result.table("slots")["reward"].sum())


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidConfiguration, match="steps"):
        LineSearchOGA(steps=-1)
    with pytest.raises(InvalidConfiguration, match="relative_gap"):
        BestSlot(-1.0)
