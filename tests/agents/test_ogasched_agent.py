"""OGASched as printed: against plain loops over ports written from the text, known answers, a prototype, statistics."""

from __future__ import annotations

import importlib.util
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from multiserver_slow_agents import Dense, Floats, random_rewards, slots_of
from numpy.random import default_rng

from desim import simulate
from desim.agents.multiserver import Breaches, ExactOGA, GeometricSteps, OGASched, create, printed_loop, project
from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, Gang, MultiServerCluster, SlotOutcome
from desim.statistics import mean_interval
from desim.validation import validate
from desim.workloads.multiserver import bernoulli_arrivals, generate

PROTOTYPE = Path(__file__).resolve().parents[3] / "shared" / "prototypes" / "ogasched" / "printed_loop.py"
LEFTOVERS = ("zeroed", "kept")


def plain_loop(z: list[float], a: list[float], c: float, leftovers: str) -> list[float]:
    """Return what algorithm 1, lines 7 to 40, makes of one node and resource: sets of ports, one at a time."""
    if not z:
        return []
    ports = sorted(range(len(z)), key=lambda port: -z[port])
    first = ports[0]
    y = [0.0] * len(z)
    b1: set[int] = set()
    b2: set[int] = set()
    b3 = set(ports)
    initialized = False
    while True:
        b2.clear()
        if initialized:
            if not y[first] > a[first]:
                break
            b1, b3 = {first}, set(ports) - {first}
        initialized = True
        while True:
            illegal: set[int] = set()
            half = math.nan
            if b3:
                half = (sum(z[port] for port in b3) - c + sum(a[port] for port in b1)) / len(b3)
            for place, port in enumerate(ports):
                if port in b1:
                    y[port] = a[port]
                elif port in b3:
                    y[port] = z[port] - half
                    if y[port] < 0:
                        illegal = set(ports[place:])
                        break
            b2 |= illegal
            b3 -= illegal
            if leftovers == "zeroed":
                for port in b2:
                    y[port] = 0.0
            if not illegal:
                break
    return y


# -- the loop -----------------------------------------------------------------------------------


@pytest.mark.parametrize("leftovers", LEFTOVERS)
def test_the_loop_is_that_of_sets_of_ports(leftovers: Any) -> None:
    broken = 0
    for seed in range(150):
        rng = default_rng(seed)
        shape = int(rng.integers(1, 7)), 12
        z, a = rng.normal(1, 5, shape), rng.uniform(0, 4, shape)
        c = rng.uniform(0, 9, shape[1]) * (rng.random(shape[1]) < 0.9)
        members = rng.random(shape) < 0.8
        found = printed_loop(z, a, c, members, leftovers)
        for column in range(shape[1]):
            there = np.flatnonzero(members[:, column])
            wanted = np.zeros(shape[0])
            points = z[there, column].tolist(), a[there, column].tolist(), float(c[column])
            wanted[there] = plain_loop(*points, leftovers)
            assert found[:, column] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
            broken += bool((wanted > a[:, column] + 1e-6).any() or (wanted < -1e-6).any())
    assert broken > 300


@pytest.mark.parametrize(
    ("z", "a", "c", "zeroed", "kept", "projection"),
    [
        ([3, 1], [9, 9], 8, [5, 3], [5, 3], [3, 1]),  # 4 would do, 8 is spent
        ([9, 8, 1], [4, 4, 4], 12, [4, 7.5, 0.5], [4, 7.5, 0.5], [4, 4, 1]),  # only the largest is capped
        ([5, 1, -3], [9, 9, 9], 2, [2, 0, 0], [2, -1, -10 / 3], [2, 0, 0]),  # two leave B3, one in a round
        ([5], [2], 8, [2], [2], [2]),  # nobody is left in B3
        ([10, 3, 2.9, -100], [50] * 4, 0, [0] * 4, [0, -2.3, 23.925, -78.975], [0] * 4),  # a share of an earlier round
        ([1, 1], [3, 3], 0, [0, 0], [0, 0], [0, 0]),
    ],
)
def test_known_answers(z: list[float], a: list[float], c: float, zeroed: Any, kept: Any, projection: Any) -> None:
    column = np.array(z, dtype=float)[:, None], np.array(a, dtype=float)[:, None], np.array([float(c)])
    assert printed_loop(*column, leftovers="zeroed")[:, 0] == pytest.approx(zeroed)
    assert printed_loop(*column, leftovers="kept")[:, 0] == pytest.approx(kept)
    assert project(*column)[:, 0] == pytest.approx(projection)


@pytest.mark.parametrize("leftovers", LEFTOVERS)
@pytest.mark.skipif(not PROTOTYPE.exists(), reason="the prototype of the loop is not beside this repository")
def test_the_loop_is_that_of_the_prototype(leftovers: Any) -> None:
    """Columns without a port, or with one, are left out: there the prototype leaves a single port all that there is."""
    spec = importlib.util.spec_from_file_location("printed_loop_prototype", PROTOTYPE)
    assert spec is not None and spec.loader is not None
    prototype = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prototype)
    for seed in range(100):
        rng = default_rng([seed, 5])
        shape = int(rng.integers(2, 9)), 30
        z, a, c = rng.normal(0, 5, shape), rng.uniform(0, 4, shape), rng.uniform(0, 8, shape[1])
        members = rng.random(shape) < 0.7
        members[:2] = True
        theirs = prototype.loop(z, a, c, members, clean=leftovers == "zeroed")
        assert printed_loop(z, a, c, members, leftovers) == pytest.approx(theirs, abs=1e-12)


# -- the agent ----------------------------------------------------------------------------------


def slow_step(dense: Dense, z: Floats, among: list[bool], capacity: Any, leftovers: str) -> Floats:
    y = np.zeros(dense.shape)
    for node, k in product(dense.nodes, dense.resources):
        ports = [port for port in dense.ports_of[node] if among[port]]
        column = [float(z[port, node, k]) for port in ports]
        amounts = plain_loop(column, [dense.a[port][k] for port in ports], float(capacity[node][k]), leftovers)
        for port, amount in zip(ports, amounts, strict=True):
            y[port, node, k] = amount
    return y


def slow_cap(dense: Dense, y: Floats, capacity: Any) -> Floats:
    result = np.minimum(np.maximum(y, 0.0), np.array(dense.a)[:, None, :])
    for node, k in product(dense.nodes, dense.resources):
        total = result[:, node, k].sum()
        if total > capacity[node][k]:
            result[:, node, k] *= capacity[node][k] / total
    return result


VARIANTS = [
    ("reactive", "all", True, False, "zeroed"),
    ("reactive", "all", False, False, "zeroed"),
    ("reactive", "all", True, True, "kept"),  # below 0 most utilities are not defined: kept ones are capped
    ("reactive", "arrived", True, False, "zeroed"),
    ("reactive", "arrived", False, True, "zeroed"),
    ("reactive", "arrived", False, True, "kept"),
    ("reservation", "all", False, False, "zeroed"),
    ("reservation", "all", True, True, "zeroed"),
    ("reservation", "all", False, True, "kept"),
]


@pytest.mark.parametrize(("form", "among", "forget", "capped", "leftovers"), VARIANTS)
def test_thirty_slots_are_those_of_loops(form: Any, among: Any, forget: bool, capped: bool, leftovers: Any) -> None:
    for seed in range(2):
        rng = default_rng([seed, len(form), len(among), forget, capped])
        rewards = random_rewards(rng)
        dense = Dense(rewards)
        agent = OGASched(form, 1.5, among=among, forget=forget, leftovers=leftovers, capped=capped)
        agent.reset({}, rng)
        y = np.zeros(dense.shape)
        above = 0
        for slot, observation in enumerate(slots_of(rng, rewards, 30)):
            arrived, before = observation.arrived.tolist(), y
            z = y + 1.5 * 0.9999**slot * dense.gradient(y, arrived)
            everyone = [True] * len(arrived)
            y = slow_step(dense, z, arrived if among == "arrived" else everyone, dense.c, leftovers)
            if forget:
                y[~observation.arrived] = 0.0
            above += bool((dense.rows(y) > rewards.graph.channel_requests + 1e-6).any())
            y = slow_cap(dense, y, dense.c) if capped else y
            answer = y if form == "reactive" else before
            if among == "arrived" and not forget:  # who is absent gets nothing and remembers
                y = np.where(observation.arrived[:, None, None], y, before)
            assert agent.act(observation) == pytest.approx(dense.rows(answer), rel=1e-7, abs=1e-7)
            assert agent.allocation == pytest.approx(dense.rows(y), rel=1e-7, abs=1e-7)
        assert agent.breaches.slots == 30
        assert agent.breaches.above_request == above


def test_reservations_are_for_all_ports() -> None:
    with pytest.raises(InvalidConfiguration, match="got 'arrived' with form 'reservation', expected 'all'"):
        OGASched("reservation", among="arrived")
    with pytest.raises(InvalidConfiguration, match="expected 'all'"):
        ExactOGA("reservation", among="arrived")


def test_breaches_are_counted_by_hand() -> None:
    graph = BipartiteGraph([[2.0], [4.0]], [[5.0], [3.0]])  # channels: port 0 to both nodes, port 1 to both
    breaches = Breaches()
    breaches.record(graph, np.array([[2.0], [1.0], [3.0], [2.0]]), graph.capacity)  # keeps them
    breaches.record(graph, np.array([[3.0], [-1.0], [1.0], [4.0]]), graph.capacity)
    assert (breaches.slots, breaches.above_request, breaches.below_zero, breaches.above_capacity) == (2, 1, 1, 1)
    assert breaches.excess_request == pytest.approx(1 / 8)
    assert breaches.excess_capacity == pytest.approx(1 / 8)
    assert breaches.worst_request == pytest.approx(1 / 2)
    assert breaches.worst_capacity == pytest.approx(1 / 3)
    assert breaches.lowest == -1.0


# -- clusters -----------------------------------------------------------------------------------


def cluster(seed: int, num_slots: int, **options: Any) -> MultiServerCluster:
    rewards = generate(seed=seed, utilities=options.pop("utilities", "mixed"))
    options.setdefault("record_allocations", 0)
    return MultiServerCluster(rewards, bernoulli_arrivals(num_slots, 10, 0.7, seed), **options)


def test_an_ordinary_cluster_refuses_what_is_infeasible() -> None:
    with pytest.raises(InfeasibleAction, match="expected at most its request"):
        simulate(cluster(0, 5), OGASched())


def test_without_limits_it_earns_what_equation_7_makes_of_its_answer() -> None:
    system = cluster(1, 12, enforce_limits=False, record_allocations=1)
    outcomes: list[SlotOutcome] = []
    system.on("slot", lambda time, outcome: outcomes.append(outcome))
    result = simulate(system, OGASched(), seed=1)
    rewards = system.rewards
    assert result.info["enforce_limits"] is False
    for outcome, reward in zip(outcomes, result.table("slots")["reward"], strict=True):
        gains = rewards.graph.port_sums(rewards.utility_gains(outcome.allocation)).sum(axis=1)
        costs = (rewards.graph.port_sums(outcome.allocation) * rewards.overhead).max(axis=1)
        assert (gains - costs)[outcome.arrived].sum() == pytest.approx(reward)
        assert (outcome.allocation > rewards.graph.channel_requests + 1e-6).any()
    broken = {violation.rule for violation in validate(result).violations}
    assert broken == {"requests"}


def test_left_over_entries_make_rewards_undefined_in_the_second_slot() -> None:
    agent = OGASched(leftovers="kept")
    with pytest.raises(
        InvalidConfiguration,
        match=r"time 1: reward of .*: got nan, expected a finite number; .* undefined for amounts below 0",
    ):
        simulate(cluster(0, 5, enforce_limits=False), agent)
    assert agent.breaches.below_zero > 0
    assert agent.breaches.lowest < -1


def test_what_is_let_through_has_to_be_finite_and_without_gangs() -> None:
    class Undefined:
        name = "undefined"

        def act(self, observation: Any) -> Any:
            return np.full(observation.graph.shape, np.nan)

    with pytest.raises(InfeasibleAction, match="action: got an infinite or NaN amount, expected finite numbers"):
        simulate(cluster(0, 5, enforce_limits=False), Undefined())
    gang = Gang([requests[None, :] for requests in generate(seed=0).graph.requests], 1)
    with pytest.raises(InvalidConfiguration, match="got False with a gang"):
        cluster(0, 5, gang=gang, enforce_limits=False)


@pytest.mark.parametrize("form", ["reactive", "reservation"])
@pytest.mark.parametrize("leftovers", LEFTOVERS)
def test_capped_it_keeps_the_limits(form: Any, leftovers: Any) -> None:
    agent = OGASched(form, capped=True, leftovers=leftovers)
    result = simulate(cluster(0, 30, record_allocations=1), agent)
    assert not validate(result).violations
    assert agent.breaches.above_request == agent.breaches.slots == 30


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "ogasched",
        "ogasched-reservation",
        "ogasched-reservation-forget-capped",
        "ogasched-arrived-remember-leftovers-capped-eta=0.1-decay=1.0001",
        "ogasched-eta=1e-05",
        "exact-oga-reactive-all-forget",
        "exact-oga-reactive-eta=500",
        "exact-oga-reservation-forget-decay=0.99",
    ],
)
def test_a_name_makes_the_agent_that_has_it(name: str) -> None:
    agent: Any = create(name)
    assert agent.name == name
    assert ("exact" in name) == isinstance(agent, ExactOGA)
    assert agent.form == ("reservation" if "reservation" in name else "reactive")


def test_words_mean_what_they_say() -> None:
    agent: Any = create("ogasched-reservation-forget-leftovers-capped-eta=5-decay=0.995")
    assert (agent.form, agent.among, agent.forgets, agent.leftovers, agent.capped) == (
        ("reservation", "all", True, "kept", True)
    )
    assert (agent.steps.initial, agent.steps.decay) == (5.0, 0.995)
    usual: Any = create("ogasched")
    assert (usual.form, usual.among, usual.forgets, usual.leftovers, usual.capped) == (
        ("reactive", "all", True, "zeroed", False)
    )
    assert usual.steps == GeometricSteps(25.0, 0.9999)


@pytest.mark.parametrize("rest", ["exact", "capped-bad", "eta=much", "all"])
def test_other_words_are_refused(rest: str) -> None:
    with pytest.raises(InvalidConfiguration, match="expected one of reservation, arrived, forget, remember, leftovers"):
        create(f"ogasched-{rest}")


# -- statistics on the default system -----------------------------------------------------------


def average(name: str, seed: int, num_slots: int) -> float:
    result = simulate(cluster(seed, num_slots, enforce_limits="ogasched" not in name), create(name), seed=seed)
    return float(result.table("slots")["reward"].mean())  # type: ignore[arg-type]


def test_a_short_run_earns_between_fairness_and_the_exact_projection() -> None:
    names = ("ogasched", "fairness", "drf", "exact-oga-reactive-all-forget")
    printed, fairness, drf, exact = (np.array([average(name, seed, 60) for seed in range(3)]) for name in names)
    assert printed.mean() == pytest.approx(3_055, rel=0.05)
    assert (printed > fairness).all() and (fairness > drf).all() and (exact > printed).all()
    assert printed.mean() / fairness.mean() == pytest.approx(1.115, abs=0.05)  # 11.8 % in the paper's table III


@pytest.mark.slow
def test_ten_systems_earn_what_was_found_with_another_program() -> None:
    rewards = [average("ogasched", seed, 2_000) for seed in range(10)]
    assert mean_interval(rewards).mean == pytest.approx(3_055, abs=40)
