"""Multi-server jobs for learners: arrays, allocations and rewards, each against a plain second version."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from env_cases import Masked, play, total
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.core import Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, Gang, MultiServerCluster, MultiSlotCluster, RewardModel
from desim.problems.multiserver.env import AllocationEncoder, MultiServerEnv, PaperReward
from desim.workloads import multiserver


def random_cluster(rng: Random, **options: Any) -> MultiServerCluster:
    """Return a small cluster with more requests than there is capacity, some of them for nothing."""
    ports, nodes, resources = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 3)
    amounts = (0.0, 0.1, 1.0, 3.0, 7.5)
    channels = [(port, node) for port in range(ports) for node in range(nodes) if rng.random() < 0.7] or [(0, 0)]
    graph = BipartiteGraph(
        [[rng.choice(amounts) for _ in range(resources)] for _ in range(ports)],
        [[rng.choice(amounts) for _ in range(resources)] for _ in range(nodes)],
        channels,
    )
    copies = rng.choice((1, 1, 2))
    arrivals = [[rng.randint(0, copies) for _ in range(ports)] for _ in range(rng.randint(1, 12))]
    rewards = RewardModel(graph, rng.choice(("linear", "log", "poly")), 1.25, 0.4)
    return MultiServerCluster(rewards, arrivals, jobs_per_port=copies, **options)


def slow_allocation(seen: Any, action: np.ndarray) -> np.ndarray:
    """Return the allocation that an action stands for, entry by entry."""
    graph = seen.graph
    result = np.zeros(graph.shape)
    for channel, resource in np.ndindex(*graph.shape):
        port = graph.channel_port[channel]
        if seen.arrived[port]:
            result[channel, resource] = (1 + float(action[channel, resource])) / 2 * graph.requests[port, resource]
    for node in range(graph.num_nodes):
        rows = np.flatnonzero(graph.channel_node == node)
        for resource in range(graph.num_resources):
            asked, free = result[rows, resource].sum(), seen.capacity[node, resource]
            if asked > free:
                result[rows, resource] *= free / asked
    return result


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_every_action_is_carried_out_scaled_to_what_is_there(seed: int) -> None:
    rng = Random(seed)
    cluster = random_cluster(rng)
    encoder = AllocationEncoder(cluster.layout.graph)
    given_away: list[Any] = []
    cluster.on("slot", lambda time, outcome: given_away.append(outcome.allocation))
    simulation = Simulation(cluster)
    numbers = np.random.default_rng(seed)
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        action = numbers.choice([-1.0, 0.5, 1.0, numbers.uniform(-1, 1)], size=encoder.shape).astype(np.float32)
        expected = slow_allocation(seen, action)
        mask = encoder.encode(seen)["action_mask"]
        assert np.array_equal(mask == 1, seen.arrived[seen.graph.channel_port][:, None] & np.ones(encoder.shape, bool))
        assert encoder.is_forced(seen) == (not seen.arrived.any())
        answer, valid = encoder.decode(seen, action)
        assert valid
        np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=1e-15)
        changed = np.where(mask == 1, action, 1.0)  # what is masked out means nothing
        np.testing.assert_array_equal(encoder.decode(seen, changed)[0], answer)
        decision.answer(answer)
        np.testing.assert_array_equal(given_away[-1], answer)


def test_by_hand() -> None:
    graph = BipartiteGraph([[4.0], [2.0]], [[3.0], [9.0]], [(0, 0), (0, 1), (1, 0)])
    cluster = MultiServerCluster(RewardModel(graph, "linear"), [[1, 1], [0, 1]])
    simulation = Simulation(cluster)
    encoder = AllocationEncoder(graph)
    decision = simulation.advance()
    assert decision is not None
    full = np.ones((3, 1), np.float32)
    answer, _ = encoder.decode(decision.observation, full)
    assert answer is not None
    # Of node 0 both ask for all that they request, 6, and it has 3; node 1 has enough.
    assert answer.ravel().tolist() == [2.0, 4.0, 1.0]
    assert encoder.decode(decision.observation, 0 * full)[0].ravel().tolist() == [2.0, 2.0, 1.0]  # type: ignore[union-attr]
    assert encoder.decode(decision.observation, 9 * full)[0].tolist() == answer.tolist()  # type: ignore[union-attr]
    assert encoder.decode(decision.observation, math.nan * full) == (None, False)
    with pytest.raises(InvalidConfiguration, match=r"action: got shape \(3,\), expected \(3, 1\)"):
        encoder.decode(decision.observation, full.ravel())
    decision.answer(answer)
    decision = simulation.advance()
    assert decision is not None
    assert encoder.decode(decision.observation, full)[0].ravel().tolist() == [0.0, 0.0, 2.0]  # type: ignore[union-attr]


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_arrays_are_those_that_are_described(seed: int) -> None:
    cluster = random_cluster(Random(seed))
    graph = cluster.layout.graph
    encoder = AllocationEncoder(graph)
    simulation = Simulation(cluster)
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        found = encoder.encode(seen)
        assert found in encoder.observation_space
        assert found["arrivals"].tolist() == seen.arrived.astype(int).tolist()
        assert [(graph.channel_port[row], graph.channel_node[row]) for row in range(graph.num_channels)] == [
            tuple(ends) for ends in found["channels"].tolist()
        ]
        for name, table in (("requests", graph.requests), ("capacity", seen.capacity)):
            expected = [[math.log1p(amount) / 4 for amount in row] for row in table.tolist()]
            np.testing.assert_allclose(found[name], expected, rtol=1e-6)
        found["requests"][:] = found["channels"][:] = -1  # what was returned belongs to the caller
        decision.answer(None)


def test_the_reward_is_what_the_metrics_say() -> None:
    rng = Random(7)
    for _ in range(6):
        gym_env = MultiServerEnv([random_cluster(rng)])
        for seed in range(2):
            steps = play(gym_env, Masked(seed), seed=seed)
            assert steps[-1][2:4] == (True, False)
            assert 1_000 * total(steps) == pytest.approx(gym_env.result().metrics()["total_reward"], abs=1e-9)


def test_slots_without_a_job_can_be_skipped() -> None:
    graph = multiserver.generate(num_ports=3, num_nodes=4, seed=1)
    arrivals = multiserver.bernoulli_arrivals(40, 3, 0.2, seed=2)
    found = []
    for skip in (False, True):
        gym_env = MultiServerEnv([MultiServerCluster(graph, arrivals)], skip_forced=skip)
        steps = play(gym_env, lambda gym_env, seen: gym_env.action_space.high, seed=0)
        found.append((len(steps) - 1, total(steps)))
    assert found[0][0] == 40
    assert found[1][0] == arrivals.any(axis=1).sum() < 40
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-12)


def test_a_system_is_shared_and_arrivals_are_not() -> None:
    gym_env = MultiServerEnv(num_slots=5)
    first, second = (play(gym_env, Masked(), seed=seed) for seed in (1, 2))
    for name in ("requests", "capacity", "channels"):
        assert np.array_equal(first[0][0][name], second[0][0][name])
    assert [step[0]["arrivals"].tolist() for step in first] != [step[0]["arrivals"].tolist() for step in second]
    other = MultiServerEnv(num_slots=5, workload_seed=1)
    assert not np.array_equal(play(other, Masked(), seed=1)[0][0]["requests"], first[0][0]["requests"])


def test_graphs_may_differ_in_all_but_their_shape() -> None:
    def episode(rng: np.random.Generator) -> MultiServerCluster:
        rewards = multiserver.generate(num_ports=3, num_nodes=4, seed=rng)
        return MultiServerCluster(rewards, multiserver.bernoulli_arrivals(5, 3, seed=rng))

    gym_env = MultiServerEnv(episode)
    requests = [play(gym_env, Masked(), seed=seed)[0][0]["requests"].tolist() for seed in range(3)]
    assert requests[0] != requests[1] != requests[2]


def test_jobs_that_hold_resources_take_a_reward_of_ones_own() -> None:
    graph = BipartiteGraph([[2.0], [3.0]], [[4.0]])
    cluster = MultiSlotCluster(RewardModel(graph, "linear"), [[1, 1], [0, 1], [0, 0], [0, 0]], 2.5)
    with pytest.raises(InvalidConfiguration, match="last one slot"):
        MultiServerEnv([cluster]).reset(seed=0)

    class Served(PaperReward):
        def reset(self, simulation: Simulation) -> None:
            super(PaperReward, self).reset(simulation)

        def value(self, outcome: Any) -> float:
            return float((outcome.gain > 0).sum())

    gym_env = MultiServerEnv([cluster], reward=Served(1.0))
    steps = play(gym_env, lambda gym_env, seen: gym_env.action_space.high, seed=0)
    assert gym_env.result().metrics()["jobs_completed"] == 3
    assert total(steps) >= 3
    assert steps[1][0]["capacity"].tolist() != steps[0][0]["capacity"].tolist()


def test_what_does_not_fit_is_refused() -> None:
    rewards = RewardModel(BipartiteGraph([[2.0]], [[4.0]]), "linear")
    cluster = MultiServerCluster(rewards, [[1]])
    other = MultiServerCluster(RewardModel(BipartiteGraph([[2.0], [1.0]], [[4.0]]), "linear"), [[1, 1]])
    with pytest.raises(InvalidConfiguration, match="expected 2 ports"):
        MultiServerEnv([cluster], observation=AllocationEncoder(other.layout.graph)).reset(seed=0)
    gangs = MultiServerCluster(rewards, [[1]], gang=Gang([[[1.0], [1.0]]], [2]))
    with pytest.raises(InvalidConfiguration, match="gangs"):
        MultiServerEnv([gangs]).reset(seed=0)
    with pytest.raises(InvalidConfiguration, match="channel"):
        AllocationEncoder(BipartiteGraph([[1.0]], [[1.0]], []))
    with pytest.raises(InvalidConfiguration, match="scale"):
        PaperReward(-1.0)
