"""AdaGrad and optimistic ascent against dense implementations with loops and bisection, and on paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_slow_agents import Dense, Floats, assert_feasible, random_rewards, slots_of
from numpy.random import default_rng

from desim import simulate
from desim.agents.multiserver import AdaGrad, ExactOGA, GeometricSteps, NormalizedSteps, OptimisticOGA
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, MultiServerObservation, RewardModel

Slots = Iterator[tuple[MultiServerObservation, Floats, Floats]]


def slow_adagrad(
    dense: Dense, observations: Iterator[MultiServerObservation], form: str, rate: float, forget: float
) -> Slots:
    """Divide every coordinate's step by the root of the sum of its squared gradients; project in that norm."""
    y, squares = np.zeros(dense.shape), np.zeros(dense.shape)
    for observation in observations:
        arrived, capacity = observation.arrived.tolist(), observation.capacity.tolist()
        gradient = dense.gradient(y, arrived)
        z, scales = y.copy(), np.ones(dense.shape)
        for port, node in dense.ends:
            for k in dense.resources:
                if arrived[port]:
                    squares[port, node, k] *= forget
                squares[port, node, k] += gradient[port, node, k] ** 2
                scales[port, node, k] = rate / math.sqrt(squares[port, node, k] + 1e-12)
                z[port, node, k] += scales[port, node, k] * gradient[port, node, k]
        if form == "reservation":
            answer = dense.project(y, capacity=capacity)
            y = dense.project(z, weights=scales)
        else:
            answer = dense.project(z, among=arrived, capacity=capacity, weights=scales)
            y = np.where(np.array(arrived)[:, None, None], answer, y)
        yield observation, dense.rows(answer), dense.rows(y)


def slow_optimistic(dense: Dense, observations: Iterator[MultiServerObservation], first: float, decay: float) -> Slots:
    """Answer after a second step along the gradient that is expected; learn from the gradient at the answer."""
    y, step, seen = np.zeros(dense.shape), 0.0, [0] * len(dense.ports)
    for slot, observation in enumerate(observations):
        arrived, capacity = observation.arrived.tolist(), observation.capacity.tolist()
        guess = dense.gradient(y, [count / slot if slot else 0.0 for count in seen])
        reserved = dense.project(y + step * guess)
        step = first * decay**slot
        y = dense.project(y + step * dense.gradient(reserved, arrived))
        seen = [count + there for count, there in zip(seen, arrived, strict=True)]
        yield observation, dense.rows(dense.project(reserved, capacity=capacity)), dense.rows(y)


def compare(agent: Any, slots: Slots) -> None:
    for observation, answer, learned in slots:
        assert agent.act(observation) == pytest.approx(answer, rel=1e-6, abs=1e-6)
        assert agent.allocation == pytest.approx(learned, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("holding", [False, True], ids=["slots", "holding"])
@pytest.mark.parametrize("form", ["reservation", "reactive"])
@pytest.mark.parametrize(("rate", "forget"), [(10.0, 1.0), (0.5, 1.0), (0.5, 0.9)])
def test_adagrad_is_that_of_loops(rate: float, forget: float, form: Any, holding: bool) -> None:
    agent = AdaGrad(form, rate, forget)
    for seed in range(3):
        rng = default_rng([seed, holding, int(10 * forget)])
        rewards = random_rewards(rng)
        dense = Dense(rewards)
        agent.reset({}, rng)
        compare(agent, slow_adagrad(dense, slots_of(rng, rewards, 25, holding=holding), form, rate, forget))


@pytest.mark.parametrize("holding", [False, True], ids=["slots", "holding"])
@pytest.mark.parametrize(("first", "decay"), [(0.5, 0.95), (25.0, 0.9999)])
def test_optimistic_ascent_is_that_of_loops(first: float, decay: float, holding: bool) -> None:
    agent = OptimisticOGA(GeometricSteps(first, decay))
    for seed in range(3):
        rng = default_rng([seed, holding])
        rewards = random_rewards(rng)
        dense = Dense(rewards)
        agent.reset({}, rng)
        arrived = []
        for observation, answer, learned in slow_optimistic(
            dense, slots_of(rng, rewards, 25, holding=holding), first, decay
        ):
            compare(agent, iter([(observation, answer, learned)]))
            arrived.append(observation.arrived)
            assert agent.frequencies == pytest.approx(np.mean(arrived, axis=0))


AGENTS: dict[str, Callable[[], Any]] = {
    "adagrad-reservation": lambda: AdaGrad("reservation", 0.5),
    "adagrad-reactive": lambda: AdaGrad("reactive", 0.5),
    "forgetful": lambda: AdaGrad("reservation", 0.5, 0.9),
    "optimistic": lambda: OptimisticOGA(0.5),
    "optimistic-normalized": lambda: OptimisticOGA(NormalizedSteps(50)),
}


@pytest.mark.parametrize("name", AGENTS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), holding=st.booleans())
def test_always_feasible(name: str, seed: int, holding: bool) -> None:
    rng = default_rng(seed)
    rewards = random_rewards(rng)
    agent = AGENTS[name]()
    for observation in slots_of(rng, rewards, 6, holding=holding):
        assert_feasible(observation, agent.act(observation), arrived_only=name == "adagrad-reactive")


@pytest.mark.parametrize("name", AGENTS)
def test_reset_forgets_everything(name: str) -> None:
    rng = default_rng(5)
    rewards, other = random_rewards(rng), random_rewards(rng)
    agent = AGENTS[name]()
    clusters = [
        MultiServerCluster(model, default_rng(1).integers(0, 2, (15, model.graph.num_ports)))
        for model in (rewards, other, rewards)
    ]
    first, _, third = (simulate(cluster, agent).table("allocations") for cluster in clusters)
    assert first.height > 50
    assert first.equals(third)


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "adagrad-reactive"])
def test_a_reservation_does_not_depend_on_the_jobs_of_its_slot(name: str) -> None:
    def answers(arrivals: Floats, rewards: RewardModel) -> list[Floats]:
        agent, observation = AGENTS[name](), MultiServerObservation(rewards.graph, rewards)
        given = []
        for row in arrivals:
            observation.arrived = row.astype(bool)
            given.append(np.array(agent.act(observation)))
        return given

    differed = 0
    for seed in range(10):
        rng = default_rng(seed)
        rewards = random_rewards(rng)
        arrivals = rng.integers(0, 2, (8, rewards.graph.num_ports))
        one = answers(arrivals, rewards)
        other = arrivals.copy()
        other[6] = 1 - other[6]
        changed = answers(other, rewards)
        assert all(np.array_equal(*pair) for pair in zip(one[:7], changed[:7], strict=True))
        differed += not np.array_equal(one[7], changed[7])
    assert differed > 3


def two_ports() -> tuple[RewardModel, MultiServerObservation]:
    rewards = RewardModel(BipartiteGraph([[2.0], [2.0]], [[3.0]]), "linear", 0.5)
    observation = MultiServerObservation(rewards.graph, rewards)
    observation.arrived = np.array([True, False])
    return rewards, observation


def test_adagrad_on_paper() -> None:
    # The gradient is 1/2 wherever there is a job: steps of 0.25 / sqrt(1), 0.25 / sqrt(2), ...
    _, observation = two_ports()
    agent = AdaGrad("reservation", 0.25)
    assert agent.act(observation).ravel().tolist() == [0, 0]
    assert agent.act(observation).ravel() == pytest.approx(np.array([0.25, 0]))
    observation.arrived = np.array([False, True])
    assert agent.act(observation).ravel() == pytest.approx(np.array([0.25 * (1 + 2**-0.5), 0]))
    assert agent.act(observation).ravel() == pytest.approx(np.array([0.25 * (1 + 2**-0.5), 0.25]))


def test_only_jobs_make_adagrad_forget() -> None:
    _, observation = two_ports()
    agent = AdaGrad("reservation", 0.25, 0.5)
    for arrived in ([True, False], [False, True], [False, True], [True, False]):
        observation.arrived = np.array(arrived)
        agent.act(observation)
    # Squares of either port: 1/4, then 1/8 + 1/4, however long it took.
    expected = 0.25 * (1 + 0.5 / (3 / 8) ** 0.5)
    assert agent.allocation.ravel() == pytest.approx(np.array([expected, expected]))


def test_optimism_on_paper() -> None:
    _, observation = two_ports()
    agent = OptimisticOGA(GeometricSteps(0.5, 1.0))
    assert agent.act(observation).ravel().tolist() == [0, 0]
    # Learned: 1/4 for the first port, whose frequency is 1; the second step adds 1/4 again.
    assert agent.act(observation).ravel() == pytest.approx(np.array([0.5, 0]))
    observation.arrived = np.array([False, True])
    assert agent.act(observation).ravel() == pytest.approx(np.array([0.75, 0]))
    assert agent.frequencies == pytest.approx(np.array([2 / 3, 1 / 3]))
    assert agent.act(observation).ravel() == pytest.approx(np.array([0.5 + 1 / 6, 0.25 + 1 / 12]))


def test_rates_do_not_depend_on_the_unit_of_the_reward() -> None:
    graph = BipartiteGraph(np.full((3, 2), 4.0), np.full((4, 2), 6.0))
    arrivals = default_rng(2).integers(0, 2, (30, 3))
    tables = [
        simulate(
            MultiServerCluster(RewardModel(graph, "log", weight, 0.1 * weight), arrivals), AdaGrad("reservation", 0.5)
        )
        for weight in (1.0, 64.0)
    ]
    first, second = (table.table("slots")["reserved_resource0"].to_numpy() for table in tables)
    assert first == pytest.approx(second, rel=1e-6)
    assert first[-1] > 1


def test_warm_starts() -> None:
    _, observation = two_ports()
    start = np.array([[5.0], [1.5]])
    for agent in (
        AdaGrad("reservation", start=start),
        OptimisticOGA(start=start),
        ExactOGA("reservation", start=start),
    ):
        assert agent.act(observation).ravel() == pytest.approx(np.array([2.0, 1.0]))
    with pytest.raises(InvalidConfiguration, match=r"start: got shape \(1, 1\)"):
        AdaGrad(start=[[1.0]]).act(observation)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaGrad(rate=0.0), "rate: got 0.0, expected a finite number > 0"),
        (lambda: AdaGrad(rate=math.nan), "rate: got nan, expected a finite number > 0"),
        (lambda: AdaGrad(rate=math.inf), "rate: got inf, expected a finite number > 0"),
        (lambda: AdaGrad(forget=0.0), "forget: got 0.0, expected a finite number <= 1 and > 0"),
        (lambda: AdaGrad(forget=1.5), "forget: got 1.5, expected a finite number <= 1 and > 0"),
        (lambda: AdaGrad("later"), "form: got 'later', expected one of 'reservation', 'reactive'"),  # type: ignore[arg-type]
        (lambda: OptimisticOGA(0.0), "initial: got 0.0, expected a finite number > 0"),
    ],
)
def test_arguments_out_of_range(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make()
