"""DRF, Fairness, BinPacking and Spreading: against loops in rational numbers, and on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_slow_agents import (
    Floats,
    assert_feasible,
    drf_ordered,
    drf_progressive,
    fairness,
    packing,
    random_observation,
)
from numpy.random import default_rng

from desim import simulate
from desim.agents.multiserver import DRF, BinPacking, Fairness, Spreading, dominant_shares, fill_in_order
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, MultiServerObservation, RewardModel

AGENTS: dict[str, tuple[Callable[[], Any], Callable[[MultiServerObservation], Floats]]] = {
    "drf": (DRF, drf_ordered),
    "drf-progressive": (lambda: DRF("progressive"), drf_progressive),
    "fairness": (Fairness, lambda observation: fairness(observation, "arrived")),
    "fairness-all": (lambda: Fairness("all"), lambda observation: fairness(observation, "all")),
}
PACKING: dict[str, tuple[Callable[[], Any], tuple[int, str, int | None]]] = {
    "bin-packing": (BinPacking, (1, "workers", None)),
    "spreading": (Spreading, (-1, "workers", None)),
    "bin-packing-2": (lambda: BinPacking(most_workers=2), (1, "workers", 2)),
    "spreading-1": (lambda: Spreading(most_workers=1), (-1, "workers", 1)),
    "bin-packing-jobs": (lambda: BinPacking("jobs"), (1, "jobs", None)),
    "spreading-jobs": (lambda: Spreading("jobs"), (-1, "jobs", None)),
    "bin-packing-jobs-2": (lambda: BinPacking("jobs", 2), (1, "jobs", 2)),
    "spreading-jobs-1": (lambda: Spreading("jobs", 1), (-1, "jobs", 1)),
}
ALL = {name: make for name, (make, _) in [*AGENTS.items(), *PACKING.items()]}


def seen(
    requests: Any, capacity: Any, channels: Any = None, *, arrived: Any = None, free: Any = None
) -> MultiServerObservation:
    graph = BipartiteGraph(requests, capacity, channels)
    observation = MultiServerObservation(graph, RewardModel(graph, "linear"))
    observation.arrived = np.ones(graph.num_ports, dtype=bool) if arrived is None else np.array(arrived, dtype=bool)
    if free is not None:
        observation.capacity = np.array(free)
    return observation


@pytest.mark.parametrize("holding", [False, True])
@pytest.mark.parametrize("name", AGENTS)
def test_shares_are_those_of_loops(name: str, holding: bool) -> None:
    make, slow = AGENTS[name]
    agent = make()
    for seed in range(90):
        observation = random_observation(default_rng(seed), dyadic=seed % 2 == 0, holding=holding)
        assert agent.act(observation) == pytest.approx(slow(observation), rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("holding", [False, True])
@pytest.mark.parametrize("name", PACKING)
def test_places_are_those_of_loops(name: str, holding: bool) -> None:
    make, parameters = PACKING[name]
    agent, several = make(), 0
    for seed in range(90):
        observation = random_observation(default_rng(seed), dyadic=True, holding=holding)
        answer = agent.act(observation)
        assert np.array_equal(answer, packing(observation, *parameters))
        several += not np.array_equal(answer, packing(observation, -parameters[0], *parameters[1:]))
    assert several > 10 or parameters[1:] == ("jobs", None)


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), holding=st.booleans())
def test_feasible_and_nothing_for_absent_jobs(name: str, seed: int, holding: bool) -> None:
    observation = random_observation(default_rng(seed), holding=holding)
    assert_feasible(observation, ALL[name]().act(observation), arrived_only=True)


@pytest.mark.parametrize("name", ALL)
def test_deterministic_without_memory_and_without_side_effects(name: str) -> None:
    agent = ALL[name]()
    for seed in range(25):
        observation = random_observation(default_rng(seed), holding=True)
        observation.arrived.flags.writeable = observation.capacity.flags.writeable = False
        first = agent.act(observation)
        agent.act(random_observation(default_rng(seed + 1000)))
        assert np.array_equal(agent.act(observation), first)
        assert np.array_equal(ALL[name]().act(observation), first)


@pytest.mark.parametrize("name", ["drf", "fairness", "bin-packing", "spreading"])
def test_nothing_is_left_that_a_job_could_take(name: str) -> None:
    for seed in range(60):
        observation = random_observation(default_rng(seed), holding=True)
        graph, answer = observation.graph, ALL[name]().act(observation)
        wanted = graph.channel_requests * observation.arrived[graph.channel_port][:, None]
        left = observation.capacity - graph.node_sums(answer)
        enough = graph.node_sums(wanted) <= observation.capacity
        assert answer[enough[graph.channel_node]] == pytest.approx(wanted[enough[graph.channel_node]])
        reachable = graph.node_sums(wanted) > observation.capacity
        assert left[reachable] == pytest.approx(0, abs=1e-12)


class TestDRF:
    """Dominant shares, ordered and progressive."""

    def test_dominant_shares_on_paper(self) -> None:
        graph = BipartiteGraph(
            [[2.0, 1.0], [1.0, 8.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]],
            [[4.0, 8.0], [6.0, 8.0], [0.0, 1.0]],
            [(0, 0), (0, 1), (1, 1), (2, 0), (3, 2)],
        )
        # 2/10 of the first resource; 8/8 of the second; nothing; of what is not there; without a node
        assert dominant_shares(graph).tolist() == [0.2, 1.0, 0.0, np.inf, np.inf]

    def test_the_smallest_dominant_share_comes_first_and_takes_all_it_may(self) -> None:
        observation = seen([[4.0, 1.0], [3.0, 3.0], [3.0, 2.0]], [[8.0, 8.0]], arrived=[1, 1, 1])
        # Shares: 4/8, 3/8, 3/8; the second and the third tie, and the lower port is first.
        assert DRF().act(observation).tolist() == [[2.0, 1.0], [3.0, 3.0], [3.0, 2.0]]
        observation.arrived = np.array([True, False, True])
        assert DRF().act(observation).tolist() == [[4.0, 1.0], [0.0, 0.0], [3.0, 2.0]]

    def test_the_example_of_ghodsi_and_others(self) -> None:
        # 9 CPUs and 18 GB; tasks of (1 CPU, 4 GB) and of (3 CPU, 1 GB): three of the first and two of the second.
        observation = seen([[9.0, 36.0], [27.0, 9.0]], [[9.0, 18.0]])
        assert DRF("progressive").act(observation) == pytest.approx(np.array([[3.0, 12.0], [6.0, 2.0]]))

    def test_growing_ends_with_the_request_and_others_go_on(self) -> None:
        observation = seen([[1.0, 0.0], [8.0, 0.0], [0.0, 3.0]], [[8.0, 4.0]])
        # The first is full at share 1/8, the third at 3/4, the second when the first resource is used up.
        assert DRF("progressive").act(observation) == pytest.approx(np.array([[1.0, 0], [7.0, 0], [0, 3.0]]))

    def test_the_order_follows_the_graph(self) -> None:
        agent = DRF()
        first = seen([[4.0], [2.0]], [[5.0]])
        second = seen([[2.0], [4.0]], [[5.0]])
        assert [agent.act(each).ravel().tolist() for each in (first, second, first)] == [[3, 2], [2, 3], [3, 2]]

    def test_fill_in_order_serves_in_any_order(self) -> None:
        graph = BipartiteGraph([[3.0], [3.0], [3.0]], [[4.0], [10.0]])
        arrived, capacity = np.array([True, True, False]), np.array([[4.0], [5.0]])
        filled = fill_in_order(graph, np.array([1, 2, 0]), arrived, capacity)
        assert graph.to_dense(filled)[:, :, 0].tolist() == [[1.0, 2.0], [3.0, 3.0], [0.0, 0.0]]
        assert capacity.tolist() == [[4.0], [5.0]]

    def test_an_unknown_filling(self) -> None:
        with pytest.raises(
            InvalidConfiguration, match="filling: got 'quick', expected one of 'ordered', 'progressive'"
        ):
            DRF("quick")  # type: ignore[arg-type]


class TestFairness:
    """Shares in proportion to requests."""

    def test_among_those_that_have_arrived_or_all(self) -> None:
        observation = seen([[2.0], [6.0], [8.0]], [[4.0], [100.0]], [(0, 0), (1, 0), (2, 0), (2, 1)], arrived=[1, 1, 0])
        assert Fairness().act(observation).ravel().tolist() == [1.0, 3.0, 0.0, 0.0]
        assert Fairness("all").act(observation).ravel().tolist() == [0.5, 1.5, 0.0, 0.0]
        observation.arrived = np.array([True, True, True])
        assert Fairness().act(observation).ravel().tolist() == [0.5, 1.5, 2.0, 8.0]
        observation.arrived = np.array([True, False, False])
        assert Fairness().act(observation).ravel().tolist() == [2.0, 0.0, 0.0, 0.0]

    def test_an_unknown_crowd(self) -> None:
        with pytest.raises(InvalidConfiguration, match="among: got 'some', expected one of 'arrived', 'all'"):
            Fairness("some")  # type: ignore[arg-type]


class TestPacking:
    """Where workers go."""

    def test_the_fullest_and_the_emptiest_node(self) -> None:
        # Of the nodes a half, a quarter and three quarters are in use.
        observation = seen([[1.0]], [[4.0], [4.0], [8.0]], free=[[2.0], [3.0], [2.0]])
        assert BinPacking(most_workers=1).act(observation).ravel().tolist() == [0, 0, 1]
        assert BinPacking(most_workers=2).act(observation).ravel().tolist() == [1, 0, 1]
        assert Spreading(most_workers=1).act(observation).ravel().tolist() == [0, 1, 0]
        assert Spreading(most_workers=2).act(observation).ravel().tolist() == [1, 1, 0]
        assert BinPacking().act(observation).ravel().tolist() == [1, 1, 1]

    def test_the_score_is_the_mean_over_the_resources_that_a_node_has(self) -> None:
        # In use: 0 and 1/2 of the first node, 3/8 of the second, which has one resource only.
        observation = seen([[1.0, 0.0]], [[4.0, 4.0], [8.0, 0.0]], free=[[4.0, 2.0], [5.0, 0.0]])
        assert BinPacking(most_workers=1).act(observation).tolist() == [[0, 0], [1, 0]]
        assert Spreading(most_workers=1).act(observation).tolist() == [[1, 0], [0, 0]]
        # An eighth of the only resource of the second node
        observation = seen([[1.0, 0.0]], [[4.0, 4.0], [8.0, 0.0]], free=[[4.0, 2.0], [7.0, 0.0]])
        assert BinPacking(most_workers=1).act(observation).tolist() == [[1, 0], [0, 0]]
        assert Spreading(most_workers=1).act(observation).tolist() == [[0, 0], [1, 0]]

    def test_jobs_take_turns_or_come_one_after_another(self) -> None:
        # Two jobs, two nodes of 4 of which the first is a half full; each worker takes up to 2.
        observation = seen([[2.0], [2.0]], [[4.0], [4.0]], free=[[2.0], [4.0]])
        # In turns the first job takes the full rest of node 0; it is then the fullest, with nothing for the second.
        assert BinPacking(most_workers=1).act(observation).ravel().tolist() == [2, 0, 0, 2]
        assert BinPacking("jobs", 1).act(observation).ravel().tolist() == [2, 0, 0, 2]
        assert Spreading(most_workers=1).act(observation).ravel().tolist() == [0, 2, 2, 0]
        # The second job is served before the first has its second worker, or after it.
        small = seen([[3.0], [3.0]], [[4.0], [4.0]], free=[[4.0], [3.0]])
        assert BinPacking().act(small).ravel().tolist() == [3, 3, 1, 0]
        assert Spreading().act(small).ravel().tolist() == [3, 0, 1, 3]
        assert Spreading("jobs").act(small).ravel().tolist() == [3, 3, 1, 0]

    def test_a_node_that_has_nothing_left_is_no_worker(self) -> None:
        observation = seen([[1.0]], [[4.0], [4.0], [4.0]], free=[[0.0], [1.0], [4.0]])
        assert BinPacking(most_workers=1).act(observation).ravel().tolist() == [0, 1, 0]
        assert BinPacking(most_workers=2).act(observation).ravel().tolist() == [0, 1, 1]

    @pytest.mark.parametrize("agent", [BinPacking, Spreading])
    def test_with_whole_jobs_and_no_limit_the_two_coincide(self, agent: Any) -> None:
        for seed in range(30):
            observation = random_observation(default_rng(seed), holding=True)
            order = np.arange(observation.graph.num_ports)
            filled = fill_in_order(observation.graph, order, observation.arrived, observation.capacity)
            assert np.array_equal(agent("jobs").act(observation), filled)

    def test_empty_nodes_are_equally_full(self) -> None:
        for capacity in range(1, 100):
            observation = seen([[1.0]], [[1.0], [float(capacity)]])
            assert BinPacking(most_workers=1).act(observation).ravel().tolist() == [1, 0]

    def test_arguments_out_of_range(self) -> None:
        with pytest.raises(InvalidConfiguration, match="order: got 'nodes', expected one of 'workers', 'jobs'"):
            BinPacking("nodes")  # type: ignore[arg-type]
        with pytest.raises(InvalidConfiguration, match="most_workers: got 0, expected an integer >= 1"):
            Spreading(most_workers=0)


def test_two_slots_of_a_cluster_on_paper() -> None:
    rewards = RewardModel(BipartiteGraph([[2.0], [6.0]], [[4.0]]), "linear", 2.0, 0.5)
    for agent, expected in ((DRF(), [6.0, 6.0]), (Fairness("all"), [6.0, 4.5]), (BinPacking(), [6.0, 6.0])):
        slots = simulate(MultiServerCluster(rewards, [[1, 1], [0, 1]]), agent).table("slots")
        assert slots["reward"].to_list() == expected
