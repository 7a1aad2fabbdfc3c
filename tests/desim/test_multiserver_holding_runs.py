"""Holding clusters from outside: work that is drawn, listeners, forks."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from multiserver_references import Greedy, RandomFeasible, Scripted, assert_same_tables, random_rewards, submissions
from numpy.random import default_rng

from desim import Result, Simulation, simulate
from desim.problems.multiserver import BipartiteGraph, MultiSlotCluster, RewardModel

TWO = RewardModel(BipartiteGraph([[1.0], [1.0]], [[2.0]]), "linear")


def everything(observation: Any) -> Any:
    """Give one job after another all that it requests and the node has."""
    return Greedy([1.0] * observation.graph.num_ports).act(observation)


class TestRandomWork:
    """Work that is drawn when jobs arrive."""

    @staticmethod
    def draw(rng: np.random.Generator, port: int) -> float:
        return float(rng.exponential(2.0 + port))

    def run(self, agent: Any, seed: int) -> Result:
        rng = default_rng(1)
        rewards = RewardModel(BipartiteGraph(np.ones((3, 2)), np.full((4, 2), 2.0)), "poly", 1.0, 0.1)
        cluster = MultiSlotCluster(rewards, rng.integers(0, 2, (25, 3)), self.draw, give_up_after=5)
        return simulate(cluster, agent, seed=seed, until=80)

    def test_it_depends_on_the_seed_and_not_on_the_agent(self) -> None:
        lists = [
            self.run(agent, seed).jobs.sort("job_id")["work"].to_list()
            for agent, seed in ((Greedy([1.0] * 3), 3), (RandomFeasible(2), 3), (Scripted(), 3), (Scripted(), 4))
        ]
        assert lists[0] == lists[1] == lists[2]
        assert len(set(lists[0])) > 20
        assert lists[3] != lists[0]

    def test_the_same_seed_gives_the_same_tables(self) -> None:
        assert_same_tables(self.run(RandomFeasible(2), 3), self.run(RandomFeasible(2), 3))

    def test_every_service_takes_work_over_speed(self) -> None:
        table = self.run(RandomFeasible(5), 0).jobs.filter(pl.col("status") == "completed")
        assert table.height > 10
        assert table["execution_time"].to_numpy() == pytest.approx((table["work"] / table["reward"]).to_numpy())


class TestEventsAndForks:
    """Who listens, and what is played again."""

    def test_every_event_with_its_time_and_subject(self) -> None:
        cluster = MultiSlotCluster(TWO, [[1, 0], [0, 1]], [1.5, 3.0])
        heard: list[tuple[float, str, Any]] = []
        for event in cluster.events:
            cluster.on(event, lambda time, subject, event=event: heard.append((time, event, subject)))
        simulate(cluster, Scripted(*[everything] * 5))
        assert [(time, event) for time, event, _ in heard] == [
            (0, "arrival"),
            (0, "start"),
            (0, "slot"),
            (1, "arrival"),
            (1, "start"),
            (1, "slot"),
            (1.5, "completion"),
            (2, "slot"),
            (3, "slot"),
            (4, "completion"),
        ]
        first, second = (subject for _, event, subject in heard if event == "start")
        assert [subject for _, event, subject in heard if event == "completion"] == [first, second]
        assert (first.job.job_id, first.job.port, first.job.submission_time, first.job.work) == (0, 0, 0.0, 1.5)
        assert (second.starting_time, second.finish_time, second.gain, second.overhead) == (1, 4, 1, 0)
        assert (second.channels, second.amounts.tolist(), second.held.tolist()) == (slice(1, 2), [[1.0]], [1.0])
        assert [subject for _, event, subject in heard if event == "arrival"] == [0, 1]

    def test_what_ends_at_an_instant_ends_before_others_arrive_at_it(self) -> None:
        cluster = MultiSlotCluster(TWO, [[1, 0], [0, 0], [0, 1]], 2.0)
        heard: list[tuple[float, str]] = []
        for event in cluster.events:
            cluster.on(event, lambda time, subject, event=event: heard.append((time, event)))
        simulate(cluster, Scripted(everything), until=2.5)
        assert [event for time, event in heard if time == 2] == ["completion", "arrival", "slot"]

    def test_listening_changes_nothing(self) -> None:
        def run(loud: bool) -> Result:
            rewards = random_rewards(default_rng(3))
            counts = default_rng(4).integers(0, 2, (20, rewards.graph.num_ports))
            cluster = MultiSlotCluster(rewards, counts, 4.0, jobs_per_port=2, give_up_after=5)
            for event in cluster.events if loud else ():
                cluster.on(event, lambda time, subject: None)
            return simulate(cluster, RandomFeasible(), until=40)

        assert_same_tables(run(loud=False), run(loud=True))

    @pytest.mark.parametrize("decisions", [0, 1, 7, 15])
    def test_a_fork_goes_on_to_the_same_end(self, decisions: int) -> None:
        rng = default_rng(8)
        rewards = random_rewards(rng)
        counts = rng.integers(0, 2, (20, rewards.graph.num_ports))
        cluster = MultiSlotCluster(
            rewards, counts, TestRandomWork.draw, give_up_after=3, processes=[submissions((2.25, 0), (9.0, 0))]
        )

        def drive(simulation: Simulation, count: int) -> None:
            agent = RandomFeasible(6)
            while count and (decision := simulation.advance()) is not None:
                decision.answer(agent.act(decision.observation))
                count -= 1

        simulation = Simulation(cluster, seed=12, until=60)
        drive(simulation, decisions)
        other = simulation.fork()
        results = []
        for one in (simulation, other):
            drive(one, 1000)
            results.append(one.finish())
        assert_same_tables(*results)
        assert results[0].jobs.filter(pl.col("status") == "completed").height > 5
