"""ExactOGA against a dense implementation with loops and bisection; step sizes by their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_slow_agents import (
    Dense,
    Floats,
    assert_feasible,
    diameter,
    norm,
    random_rewards,
    slots_of,
    theoretical,
)
from numpy.random import default_rng

from desim import simulate
from desim.agents.multiserver import (
    ExactOGA,
    GeometricSteps,
    NormalizedSteps,
    Projection,
    TheoreticalSteps,
    gradient_bound,
)
from desim.problems.multiserver import (
    BipartiteGraph,
    MultiServerCluster,
    MultiServerObservation,
    RewardModel,
)

Step = Callable[[Floats], float]
STEPS: dict[str, tuple[Any, Callable[[RewardModel], Step]]] = {
    "geometric": (GeometricSteps(0.7, 0.95), lambda rewards: iter_steps(0.7 * 0.95**slot for slot in range(10**6))),
    "large": (25.0, lambda rewards: iter_steps(25 * 0.9999**slot for slot in range(10**6))),
    "theoretical": (TheoreticalSteps(50), lambda rewards: lambda gradient: theoretical(rewards, 50)),
    "normalized": (
        NormalizedSteps(50, scale=2.0),
        lambda rewards: lambda gradient: 2 * diameter(rewards) / math.sqrt(50) / (norm(gradient) or math.inf),
    ),
}


def iter_steps(steps: Iterable[float]) -> Step:
    iterator = iter(steps)
    return lambda gradient: next(iterator)


def slow_oga(
    dense: Dense, observations: Iterator[MultiServerObservation], form: str, step: Step, start: Floats
) -> Iterator[tuple[MultiServerObservation, Floats, Floats]]:
    """Yield what is seen, answered, and learned so far (after the slot)."""
    y = dense.project(start)
    for observation in observations:
        arrived, capacity = observation.arrived.tolist(), observation.capacity.tolist()
        gradient = dense.gradient(y, arrived)
        z = y + step(gradient) * gradient
        if form == "reservation":
            answer = dense.project(y, capacity=capacity)
            y = dense.project(z)
        else:
            answer = dense.project(z, among=arrived, capacity=capacity)
            y = y.copy()
            for port in dense.ports:
                if arrived[port]:
                    y[port] = answer[port]
        yield observation, dense.rows(answer), dense.rows(y)


@pytest.mark.parametrize("holding", [False, True], ids=["slots", "holding"])
@pytest.mark.parametrize("form", ["reservation", "reactive"])
@pytest.mark.parametrize("steps", STEPS)
def test_fifty_slots_are_those_of_loops(steps: str, form: Any, holding: bool) -> None:
    size, step = STEPS[steps]
    agent = ExactOGA(form, size)
    for seed in range(2):
        rng = default_rng([seed, len(steps), holding])
        rewards = random_rewards(rng)
        dense = Dense(rewards)
        agent.reset({}, rng)
        observations = slots_of(rng, rewards, 50, holding=holding)
        for observation, answer, learned in slow_oga(dense, observations, form, step(rewards), np.zeros(dense.shape)):
            assert agent.act(observation) == pytest.approx(answer, rel=1e-8, abs=1e-8)
            assert agent.allocation == pytest.approx(learned, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("form", ["reservation", "reactive"])
def test_a_warm_start_is_projected_and_learned_from(form: Any) -> None:
    for seed in range(8):
        rng = default_rng(seed)
        rewards = random_rewards(rng)
        dense = Dense(rewards)
        start = rng.uniform(-1, 6, rewards.graph.shape)
        agent = ExactOGA(form, 0.3, start=start)
        slow = slow_oga(
            dense,
            slots_of(rng, rewards, 8),
            form,
            iter_steps(0.3 * 0.9999**slot for slot in range(8)),
            dense.table(start),
        )
        for observation, answer, learned in slow:
            assert agent.act(observation) == pytest.approx(answer, rel=1e-8, abs=1e-8)
            assert agent.allocation == pytest.approx(learned, rel=1e-8, abs=1e-8)


def test_what_one_run_learned_starts_the_next() -> None:
    rng = default_rng(3)
    rewards = random_rewards(rng)
    arrivals = rng.integers(0, 2, (40, rewards.graph.num_ports))
    first = ExactOGA("reservation", 0.5)
    simulate(MultiServerCluster(rewards, arrivals[:20]), first)
    second = ExactOGA("reservation", GeometricSteps(0.5 * 0.9999**20), start=first.allocation)
    halves = simulate(MultiServerCluster(rewards, arrivals[20:]), second).table("slots")
    whole = simulate(MultiServerCluster(rewards, arrivals), ExactOGA("reservation", 0.5)).table("slots")[20:]
    assert halves["gain"].to_list() == pytest.approx(whole["gain"].to_list(), rel=1e-9)
    assert halves["overhead"].to_list() == pytest.approx(whole["overhead"].to_list(), rel=1e-9)


@pytest.mark.parametrize("form", ["reservation", "reactive"])
def test_reset_forgets_everything(form: Any) -> None:
    rng = default_rng(5)
    rewards, other = random_rewards(rng), random_rewards(rng)
    agent = ExactOGA(form, GeometricSteps(0.8, 0.9))
    assert agent.allocation is None
    clusters = [
        MultiServerCluster(model, default_rng(1).integers(0, 2, (15, model.graph.num_ports)))
        for model in (rewards, other, rewards)
    ]
    first, _, third = (simulate(cluster, agent).table("allocations") for cluster in clusters)
    assert first.height > 50
    assert first.equals(third)
    agent.reset({}, rng)
    assert agent.allocation is None


class TestForms:
    """What is seen when."""

    def answers(self, form: Any, arrivals: Floats, rewards: RewardModel) -> list[Floats]:
        agent, answers = ExactOGA(form, 0.5), []
        observation = MultiServerObservation(rewards.graph, rewards)
        for slot, row in enumerate(arrivals):
            observation.slot, observation.arrived = slot, row.astype(bool)
            answers.append(np.array(agent.act(observation)))
        return answers

    def test_a_reservation_does_not_depend_on_the_jobs_of_its_slot(self) -> None:
        for seed in range(20):
            rng = default_rng(seed)
            rewards = random_rewards(rng)
            arrivals = rng.integers(0, 2, (10, rewards.graph.num_ports))
            one = self.answers("reservation", arrivals, rewards)
            for last in (0, 4, 9):
                other = arrivals[: last + 1].copy()
                other[last] = 1 - other[last]
                changed = self.answers("reservation", other, rewards)
                assert all(np.array_equal(*pair) for pair in zip(one, changed, strict=False))

    def test_a_reservation_does_depend_on_the_jobs_before(self) -> None:
        rewards = RewardModel(BipartiteGraph([[2.0], [2.0]], [[3.0]]), "log")
        answers = self.answers("reservation", np.array([[1, 0], [0, 0], [0, 1], [0, 0]]), rewards)
        assert [answer.ravel().tolist() for answer in answers] == [
            [0, 0],
            [0.5, 0],
            [0.5, 0],
            [0.5, pytest.approx(0.5 * 0.9999**2)],
        ]

    def test_reactive_shares_everything_among_those_that_have_arrived(self) -> None:
        rewards = RewardModel(BipartiteGraph([[2.0], [2.0]], [[3.0]]), "linear")
        agent = ExactOGA("reactive", GeometricSteps(4.0, 1.0))
        observation = MultiServerObservation(rewards.graph, rewards)
        expected = [([1, 1], [1.5, 1.5]), ([1, 0], [2.0, 0.0]), ([0, 1], [0.0, 2.0]), ([1, 1], [1.5, 1.5])]
        learned = [[1.5, 1.5], [2.0, 1.5], [2.0, 2.0], [1.5, 1.5]]
        for (arrived, answer), memory in zip(expected, learned, strict=True):
            observation.arrived = np.array(arrived, dtype=bool)
            assert agent.act(observation).ravel() == pytest.approx(np.array(answer))
            assert agent.allocation.ravel() == pytest.approx(np.array(memory))  # type: ignore[union-attr]

    @settings(max_examples=60, deadline=None)
    @given(
        seed=st.integers(0, 2**32),
        form=st.sampled_from(["reservation", "reactive"]),
        step=st.sampled_from([1e-3, 0.5, 25.0, 1e6]),
        holding=st.booleans(),
    )
    def test_always_feasible(self, seed: int, form: Any, step: float, holding: bool) -> None:
        rng = default_rng(seed)
        rewards = random_rewards(rng)
        agent = ExactOGA(form, step)
        for observation in slots_of(rng, rewards, 6, holding=holding):
            answer = agent.act(observation)
            assert_feasible(observation, answer, arrived_only=form == "reactive")

    def test_answers_already_given_do_not_change(self) -> None:
        for form in ("reservation", "reactive"):
            rng = default_rng(7)
            rewards = random_rewards(rng)
            agent, kept = ExactOGA(form, 0.5), []  # type: ignore[arg-type]
            for observation in slots_of(rng, rewards, 20):
                answer = agent.act(observation)
                kept.append((answer, answer.copy()))
            assert all(np.array_equal(*pair) for pair in kept)

    def test_it_learns(self) -> None:
        # One port of two has jobs; the optimum gives it everything that is worth having.
        graph = BipartiteGraph([[8.0], [8.0]], [[6.0]])
        rewards = RewardModel(graph, "log", 2.0, 0.5)
        arrivals = np.tile([1, 0], (400, 1))
        table = simulate(MultiServerCluster(rewards, arrivals), ExactOGA("reservation", 0.5)).table("slots")
        # 2 / (y + 1) = 1/2 at y = 3
        assert table["reward"][-1] == pytest.approx(2 * math.log(4) - 1.5, rel=1e-6)
        assert table["reserved_resource0"][-1] == pytest.approx(3.0, rel=1e-3)

    def test_the_regret_stays_within_the_bound_of_theorem_1(self) -> None:
        for seed in range(6):
            rng = default_rng(seed)
            rewards = random_rewards(rng)
            graph, num_slots = rewards.graph, 60
            arrivals = rng.random((num_slots, graph.num_ports)) < 0.6
            agent = ExactOGA("reservation", TheoreticalSteps(num_slots))
            earned = simulate(MultiServerCluster(rewards, arrivals), agent).table("slots")["reward"].sum()
            projection, best, y = Projection(graph), -math.inf, np.zeros(graph.shape)
            counts, everyone = arrivals.sum(axis=0).astype(float), np.ones(graph.num_ports, dtype=bool)
            for step in range(300):  # a good fixed allocation, by subgradient ascent; the best is hardly better
                earnings = rewards.evaluate(y, everyone)
                best = max(best, float(counts @ (earnings.gain - earnings.overhead)))
                y = projection(y + 0.5 / (1 + step) ** 0.5 / num_slots * rewards.gradient(y, counts))
            assert best > 0 or graph.num_channels == 0
            bound = diameter(rewards) * gradient_bound(rewards) * math.sqrt(num_slots)
            assert best - earned <= bound + 1e-9
