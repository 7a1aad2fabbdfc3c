"""Repair of allocations for gangs: always feasible, as little as needed, as its description has it in loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_slow_agents import random_rewards
from multiserver_slow_repair import Loops, assert_carried_out, random_answer, random_gangs
from numpy.random import default_rng

from desim import simulate
from desim.agents.multiserver import DRF, Fairness, GangRepair, create, descriptions
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import (
    BipartiteGraph,
    Gang,
    GangRewards,
    MultiServerCluster,
    MultiServerObservation,
    MultiSlotCluster,
    RewardModel,
)

FAMILIES = ("ogasched", "ogasched-VARIANT", "exact-oga-VARIANT", "gang-NAME")  # best-slot refuses gangs
NAMES = [name for name in descriptions() if name not in ("best-slot", *FAMILIES)]


class Given:
    """An agent whose answer is known."""

    name = "given"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def act(self, observation: MultiServerObservation) -> Any:
        return self.answer


@pytest.mark.parametrize("holding", [False, True])
@pytest.mark.parametrize("whole", [False, True], ids=["divisible", "whole"])
def test_it_is_that_of_loops(whole: bool, holding: bool) -> None:
    changed = 0
    for seed in range(80):
        rng = default_rng([seed, whole, holding])
        observation = random_gangs(rng, whole=whole, holding=holding)
        wanted = random_answer(observation, rng)
        kept = wanted.copy()
        answer = GangRepair(Given(wanted)).act(observation)
        loops = Loops(observation, wanted)
        assert answer == pytest.approx(loops.round() if whole else loops.complete(), rel=1e-9, abs=1e-12)
        assert np.array_equal(wanted, kept)
        changed += not np.array_equal(answer, wanted)
    assert changed > 40


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), whole=st.booleans(), holding=st.booleans())
def test_always_feasible_for_every_agent(name: str, seed: int, whole: bool, holding: bool) -> None:
    rng = default_rng(seed)
    observation = random_gangs(rng, whole=whole, holding=holding)
    agent = create(f"gang-{name}")
    for _ in range(2):
        observation.arrived = np.repeat(
            rng.random(len(observation.rewards.gang.counts)) < 0.8,  # type: ignore[attr-defined]
            observation.rewards.gang.counts,  # type: ignore[attr-defined]
        )
        assert_carried_out(observation, agent.act(observation))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_divisible_jobs_that_have_enough_keep_what_they_have(seed: int) -> None:
    rng = default_rng(seed)
    observation = random_gangs(rng, whole=False)
    wanted = random_answer(observation, rng)
    answer = GangRepair(Given(wanted)).act(observation)
    before, after = Loops(observation, wanted), Loops(observation, answer)
    minimum = observation.rewards.gang.minimum  # type: ignore[attr-defined]
    for job in before.there:
        served = [port for port in before.parts[job] if before.has(port) > 0]
        now = [port for port in after.parts[job] if after.has(port) > 0]
        for port in served if len(served) >= minimum[job] or now else ():
            assert all(before.y[end] == after.y[end] for end in before.ends if end[0] == port)
        if len(served) >= minimum[job] or not served:
            assert now == served
        else:
            assert len(now) in (0, minimum[job])


def four_components(
    minimum: int, *, whole: bool, overhead: float = 0.0, capacity: float = 3.0
) -> MultiServerObservation:
    """Return a job with components of 1, 1, 2 and 2, and another of 2, on nodes with 3 or more and 2."""
    jobs = RewardModel(BipartiteGraph([[1.0], [1.0]], [[capacity], [2.0]]), "linear", [[1.0], [0.5]], overhead)
    gang = Gang([[[1.0], [1.0], [2.0], [2.0]], [[2.0]]], [minimum, 1], whole=whole)
    rewards = GangRewards(jobs, gang)
    observation = MultiServerObservation(rewards.graph, rewards)
    observation.arrived = np.ones(5, dtype=bool)
    return observation


class TestOnPaper:
    """Small examples; rows are components, columns nodes."""

    def repaired(self, observation: MultiServerObservation, wanted: Any) -> Any:
        rows = observation.graph.from_dense(np.array(wanted, dtype=float)[:, :, None])
        answer = GangRepair(Given(rows)).act(observation)
        return observation.graph.to_dense(answer)[:, :, 0].tolist()

    def test_missing_components_take_what_is_left_where_most_is_left(self) -> None:
        observation = four_components(3, whole=False)
        wanted = [[0, 0], [0, 0], [0, 0.5], [0, 0], [1.5, 0]]
        # 1.5 is left on both nodes: the first two components take 1 each, the first one on the first node.
        assert self.repaired(observation, wanted) == [[1, 0], [0, 1], [0, 0.5], [0, 0], [1.5, 0]]

    def test_where_there_is_not_enough_the_job_gets_nothing(self) -> None:
        observation = four_components(3, whole=False)
        wanted = [[0, 0], [0, 0], [1, 0], [0, 2], [2, 0]]
        assert self.repaired(observation, wanted) == [[0, 0], [0, 0], [0, 0], [0, 0], [2, 0]]

    def test_whole_components_go_where_the_agent_wants_them_most(self) -> None:
        observation = four_components(2, whole=True)
        wanted = [[0.25, 0.5], [0, 0], [0, 0], [0.5, 1.0], [1, 0]]
        # The last component first: it fills the second node; two others go to the first, where 2 are then too many.
        assert self.repaired(observation, wanted) == [[1, 0], [1, 0], [0, 0], [0, 2], [0, 0]]
        assert self.repaired(four_components(4, whole=True), wanted) == [[0, 0]] * 4 + [[2, 0]]

    def test_further_components_only_if_the_job_earns_more(self) -> None:
        # A unit earns 1 or 0.5, less 0.75: on the second node it is worth nothing.
        observation = four_components(1, whole=True, overhead=0.75)
        wanted = [[0.1, 0], [0, 0.1], [0.5, 0], [0, 0.2], [0, 0]]
        assert self.repaired(observation, wanted)[:4] == [[1, 0], [0, 0], [2, 0], [0, 0]]
        observation = four_components(3, whole=True, overhead=0.75)
        assert self.repaired(observation, wanted)[:4] == [[1, 0], [0, 0], [2, 0], [0, 2]]

    def test_jobs_that_earn_most_come_first(self) -> None:
        observation = four_components(4, whole=True, capacity=4.0)
        small, large = [[0.1, 0]] * 4 + [[1, 0]], [[0.5, 0]] * 4 + [[1, 0]]
        assert self.repaired(observation, large) == [[1, 0], [1, 0], [2, 0], [0, 2], [0, 0]]
        assert self.repaired(observation, small) == [[0, 0]] * 4 + [[2, 0]]

    def test_a_job_that_cannot_be_served_leaves_what_it_would_have_had(self) -> None:
        observation = four_components(4, whole=True, capacity=3.0)
        assert self.repaired(observation, [[0.5, 0]] * 4 + [[1, 0]]) == [[0, 0]] * 4 + [[2, 0]]


def test_one_component_is_no_gang() -> None:
    rng = default_rng(2)
    jobs = random_rewards(rng)
    gang = Gang([[request] for request in jobs.graph.requests], 1)
    arrivals = rng.integers(0, 2, (20, jobs.graph.num_ports))
    plain = simulate(MultiServerCluster(jobs, arrivals), create("exact-oga-reactive"))
    ganged = simulate(MultiServerCluster(jobs, arrivals, gang=gang), create("gang-exact-oga-reactive"))
    assert plain.table("slots")["reward"].to_list() == pytest.approx(ganged.table("slots")["reward"].to_list())
    assert plain.table("slots")["reward"].sum() > 1


@pytest.mark.parametrize("whole", [False, True], ids=["divisible", "whole"])
@pytest.mark.parametrize("copies", [1, 2])
def test_it_works_in_clusters(copies: int, whole: bool) -> None:
    served = 0
    for seed in range(6):
        rng = default_rng([seed, copies, whole])
        observation = random_gangs(rng, whole=whole)
        assert isinstance(observation.rewards, GangRewards)
        jobs, gang = observation.rewards.jobs, observation.rewards.gang
        counts = rng.integers(0, copies + 1, (10, jobs.graph.num_ports))
        for cluster in (
            MultiServerCluster(jobs, counts, gang=gang, jobs_per_port=copies),
            MultiSlotCluster(jobs, counts, 3.0, gang=gang, jobs_per_port=copies, give_up_after=3),
        ):
            result = simulate(cluster, create("gang-exact-oga-reactive"), until=40)
            served += (result.jobs["status"] == "completed").sum()
            table = result.table("allocations").group_by("job_id").agg(parts=pl.col("component").n_unique())
            ports = dict(result.jobs.select("job_id", "port").rows())
            for job, parts in table.rows():
                assert parts >= gang.minimum[jobs.graph.ports.index(ports[job])]
    assert served > 50


class TestWrapping:
    """The agent inside."""

    def test_it_is_reset_and_named(self) -> None:
        heard: list[Any] = []

        class Inner(DRF):
            def reset(self, info: Any, rng: Any) -> None:
                heard.append((info, rng))

        agent = GangRepair(Inner())
        agent.reset({"a": 1}, default_rng(0))
        assert heard[0][0] == {"a": 1}
        assert agent.name == "gang-drf"
        GangRepair(Fairness()).reset({}, default_rng(0))
        assert GangRepair(type("Nameless", (), {"act": lambda self, observation: None})()).name == "gang-Nameless"

    def test_it_needs_gangs(self) -> None:
        rewards = RewardModel(BipartiteGraph([[1.0]], [[1.0]]), "log")
        with pytest.raises(InvalidConfiguration, match="got a cluster without gangs"):
            simulate(MultiServerCluster(rewards, [[1]]), GangRepair(DRF()))

    def test_an_agent_that_answers_none(self) -> None:
        observation = four_components(2, whole=False)
        assert not GangRepair(Given(None)).act(observation).any()
