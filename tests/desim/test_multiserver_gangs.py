"""Jobs of several components: rewards of section 3.5 in loops, who may be served, copies, and holding clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_references import (
    Floats,
    RandomFeasible,
    Scripted,
    amounts_of,
    assert_jobs,
    assert_same_tables,
    earn,
    plain_slots,
    random_allocation,
    random_gang,
    random_rewards,
)
from numpy.random import Generator, default_rng

from desim import Simulation, simulate
from desim.exceptions import InfeasibleAction
from desim.problems.multiserver import (
    BipartiteGraph,
    Gang,
    GangRewards,
    MultiServerCluster,
    MultiServerObservation,
    MultiSlotCluster,
    RewardModel,
)

GRAPH = BipartiteGraph([[1.0], [1.0]], [[4.0], [4.0]], [(0, 0), (0, 1), (1, 1)])
GANG = Gang([[[1.0], [2.0], [2.0]], [[3.0]]], [2, 1])
WHOLE = Gang([[[1.0], [2.0], [2.0]], [[3.0]]], [2, 1], whole=True)


def served_components(graph: BipartiteGraph, answer: Floats, sizes: list[int]) -> list[list[int]]:
    """Return for each seat the ports of its components that get anything."""
    first, served = 0, []
    for size in sizes:
        ports = range(first, first + size)
        served.append([port for port in ports if any(amounts_of(graph, answer, [port]).values())])
        first += size
    return served


class RandomGangs(RandomFeasible):
    """Gives at random, and nothing to jobs with too few components; whole components fit where they are tried."""

    name = "random-gangs"

    def __init__(self, gang: Gang, seed: int = 0) -> None:
        super().__init__(seed)
        self.gang = gang

    def act(self, observation: MultiServerObservation) -> Any:
        answer, graph = super().act(observation), observation.graph
        if answer is None:
            return None
        if self.gang.whole:
            answer = self.place(observation, default_rng([self.seed, observation.slot]))
        copies = graph.num_ports // sum(self.gang.counts)
        sizes = [int(size) for size in self.gang.counts for _ in range(copies)]
        needed = [int(needs) for needs in self.gang.minimum for _ in range(copies)]
        first = 0
        for ports, size, needs in zip(served_components(graph, answer, sizes), sizes, needed, strict=True):
            if len(ports) < needs:
                answer[(graph.channel_port >= first) & (graph.channel_port < first + size)] = 0.0
            first += size
        self.seen[-1] = self.seen[-1]._replace(answer=answer.copy())
        return answer

    @staticmethod
    def place(observation: MultiServerObservation, rng: Generator) -> Floats:
        graph, free = observation.graph, observation.capacity.copy()
        answer, placed = np.zeros(graph.shape), set()
        for row in rng.permutation(graph.num_channels).tolist():
            port, node = int(graph.channel_port[row]), int(graph.channel_node[row])
            if port not in placed and (graph.requests[port] <= free[node]).all() and rng.random() < 0.8:
                placed.add(port)
                answer[row] = graph.requests[port]
                free[node] -= graph.requests[port]
        return answer


class TestRewards:
    """Components of a job share its utilities and its overhead."""

    def test_rewards_and_gradients_are_those_of_the_jobs(self) -> None:
        for seed in range(60):
            rng = default_rng(seed)
            jobs = random_rewards(rng)
            gang = random_gang(rng, jobs.graph)
            rewards = GangRewards(jobs, gang)
            graph, sizes = rewards.graph, gang.counts.tolist()
            present = rng.random(len(sizes)) < 0.7
            arrived = np.repeat(present, sizes)
            answer = random_allocation(MultiServerObservation(graph, rewards), rng)
            earnings = rewards.evaluate(answer, arrived)
            gradient, first = rewards.gradient(answer, arrived), 0
            for job, size in enumerate(sizes):
                given = amounts_of(graph, answer, range(first, first + size))
                gain, overhead, dominant = earn(jobs, given) if present[job] else (0.0, 0.0, 0)
                assert earnings.gain[job] == pytest.approx(gain, rel=1e-12)
                assert earnings.overhead[job] == pytest.approx(overhead, rel=1e-12)
                assert earnings.dominant[job] == dominant
                first += size
                alone = jobs.gradient(jobs.graph.from_dense(dense(jobs, given, job)), present)
                for row in np.flatnonzero((graph.channel_port >= first - size) & (graph.channel_port < first)).tolist():
                    (channel,) = np.flatnonzero(
                        (jobs.graph.channel_port == job) & (jobs.graph.channel_node == graph.channel_node[row])
                    )
                    assert gradient[row] == pytest.approx(alone[channel], rel=1e-12, abs=1e-15)

    def test_components_share_what_a_utility_gives(self) -> None:
        jobs = RewardModel(GRAPH, "poly", 1.0, 0.25)
        rewards = GangRewards(jobs, GANG)
        # The first job gets 1 + 2 on the first node and 2 + 1 on the second; the second job is not there.
        answer = rewards.graph.from_dense(np.array([[[1.0], [0]], [[2.0], [0]], [[0], [2.0]], [[0], [3.0]]]))
        earnings = rewards.evaluate(answer, np.array([True, True, True, False]))
        assert earnings.gain == pytest.approx([1.0 + (3**0.5 - 1), 0.0])
        assert earnings.overhead == pytest.approx([0.25 * 5, 0.0])
        assert rewards.components_served(answer).tolist() == [3, 1]
        assert rewards.of_jobs(answer).tolist() == [[3.0], [2.0], [3.0]]
        assert rewards.jobs_arrived(np.array([True, True, True, False])).tolist() == [True, False]

    def test_the_graph_of_components(self) -> None:
        graph = GangRewards(RewardModel(GRAPH, "log"), GANG).graph
        assert graph.ports == ("port0/1", "port0/2", "port0/3", "port1/1")
        assert graph.requests.tolist() == [[1.0], [2.0], [2.0], [3.0]]
        assert (graph.nodes, graph.resources) == (GRAPH.nodes, GRAPH.resources)
        assert np.array_equal(graph.capacity, GRAPH.capacity)
        ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
        assert ends == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 1)]


def dense(jobs: RewardModel, given: dict[tuple[int, int], float], job: int) -> Floats:
    table = np.zeros((jobs.graph.num_ports, jobs.graph.num_nodes, jobs.graph.num_resources))
    for (node, resource), amount in given.items():
        table[job, node, resource] = amount
    return table


@pytest.mark.parametrize("whole", [False, True], ids=["divisible", "whole"])
@pytest.mark.parametrize("copies", [1, 3])
def test_jobs_of_random_clusters(copies: int, whole: bool) -> None:
    completed = unserved = 0
    for seed in range(30):
        rng = default_rng([seed, copies, whole])
        rewards = random_rewards(rng)
        gang = random_gang(rng, rewards.graph, whole=whole)
        counts = rng.integers(0, copies + 1, (8, rewards.graph.num_ports))
        cluster = MultiServerCluster(rewards, counts, jobs_per_port=copies, gang=gang)
        agent = RandomGangs(gang, seed)
        result = simulate(cluster, agent)
        graph = cluster.layout.graph
        assert graph.num_ports == copies * sum(gang.counts)
        assert graph.requests.tolist() == [
            row for component in gang.components for _ in range(copies) for row in component.tolist()
        ]
        for seen, row in zip(agent.seen, counts.tolist(), strict=True):
            present = [copy < count for count in row for copy in range(copies)]
            assert seen.arrived.tolist() == np.repeat(present, np.repeat(gang.counts, copies)).tolist()
        answers = [seen.answer for seen in agent.seen]
        jobs = plain_slots(rewards, graph, counts, answers, copies, gang.counts.tolist())
        assert_jobs(result, jobs, rewards.graph)
        check_components(result, cluster, answers, copies)
        completed += (result.jobs["status"] == "completed").sum()
        unserved += (result.jobs["status"] == "unserved").sum()
    assert completed > 100
    assert unserved > 20


def check_components(result: Any, cluster: MultiServerCluster, answers: list[Floats], copies: int) -> None:
    """Compare the recorded amounts with the answers, component by component."""
    graph, types = cluster.layout.graph, cluster.rewards.graph
    ids = {row[0]: row[1:] for row in result.jobs.select("job_id", "port", "submission_time").rows()}
    sizes = {} if cluster.layout.gang is None else dict(enumerate(cluster.layout.gang.counts.tolist()))
    first = np.cumsum([0, *sizes.values()])
    for slot, job, port, component, node, resource, amount in result.table("allocations").drop("arrival_number").rows():
        assert ids[job] == (port, slot)
        before = sum(1 for other, (name, time) in ids.items() if other < job and (name, time) == (port, slot))
        seat = types.ports.index(port) * copies + before
        (row,) = np.flatnonzero(
            (graph.channel_port == first[seat] + component) & (graph.channel_node == graph.nodes.index(node))
        )
        assert answers[slot][row, graph.resources.index(resource)] == amount > 0
    amounts = result.table("allocations").group_by("slot").agg(pl.col("amount").sum()).sort("slot")
    given = result.table("slots").select("slot", total=pl.sum_horizontal(pl.selectors.starts_with("allocated_")))
    given = given.filter(pl.col("total") > 0)
    assert amounts["slot"].to_list() == given["slot"].to_list()
    assert amounts["amount"].to_list() == pytest.approx(given["total"].to_list())


class TestWhoMayBeServed:
    """None of a job's components, or at least as many as it needs; whole components once, and completely."""

    @staticmethod
    def accepts(cluster: MultiServerCluster, answer: Any) -> bool:
        simulation = Simulation(cluster)
        decision = simulation.advance()
        assert decision is not None
        try:
            decision.answer(answer)
            simulation.advance()
        except InfeasibleAction:
            return False
        return True

    @settings(max_examples=150, deadline=None)
    @given(seed=st.integers(0, 2**32), whole=st.booleans(), copies=st.integers(1, 2))
    def test_it_is_the_rule_of_section_3_5(self, seed: int, whole: bool, copies: int) -> None:
        rng = default_rng(seed)
        rewards = random_rewards(rng)
        gang = random_gang(rng, rewards.graph, whole=whole)
        counts = rng.integers(0, copies + 1, (1, rewards.graph.num_ports))
        cluster = MultiServerCluster(rewards, counts, jobs_per_port=copies, gang=gang)
        observation = MultiServerObservation(cluster.layout.graph, cluster.layout.rewards)
        graph = observation.graph
        answer = RandomGangs.place(observation, rng) if whole else random_allocation(observation, rng)
        answer[rng.random(graph.num_channels) < 0.3] = 0.0
        sizes = np.repeat(gang.counts, copies).tolist()
        needed = np.repeat(gang.minimum, copies).tolist()
        present = [copy < count for count in counts[0].tolist() for copy in range(copies)]
        served = [len(ports) for ports in served_components(graph, answer, sizes)]
        expected = all(
            not there or count == 0 or count >= needs
            for there, count, needs in zip(present, served, needed, strict=True)
        )
        assert self.accepts(cluster, answer) == expected

    @pytest.mark.parametrize(("served", "accepted"), [(0, True), (1, False), (2, True), (3, True)])
    def test_none_or_enough(self, served: int, accepted: bool) -> None:
        cluster = MultiServerCluster(RewardModel(GRAPH, "log"), [[1, 0]], gang=GANG)
        answer = np.zeros((7, 1))
        answer[[0, 3, 5][:served]] = 1e-3
        assert self.accepts(cluster, answer) == accepted
        assert self.accepts(MultiServerCluster(RewardModel(GRAPH, "log"), [[0, 1]], gang=GANG), answer)

    @pytest.mark.parametrize(
        ("rows", "accepted"),
        [
            ({0: 1.0, 2: 2.0}, True),
            ({0: 1.0, 2: 2.0, 5: 2.0}, True),
            ({0: 1.0}, False),  # one of two
            ({0: 1.0, 2: 1.0, 3: 1.0}, False),  # from two nodes
            ({0: 1.0, 2: 1.5}, False),  # a part
            ({0: 1.0 - 1e-12, 2: 2.0 + 1e-12}, True),  # rounding
            ({6: 3.0}, True),
            ({6: 1.0}, False),
        ],
    )
    def test_whole_components(self, rows: dict[int, float], accepted: bool) -> None:
        answer = np.zeros((7, 1))
        for row, amount in rows.items():
            answer[row] = amount
        assert self.accepts(MultiServerCluster(RewardModel(GRAPH, "log"), [[1, 1]], gang=WHOLE), answer) == accepted

    def test_a_trace_of_a_whole_component_is_not_a_component(self) -> None:
        answer = np.zeros((7, 1))
        answer[0], answer[2] = 1.0, 1e-12
        assert not self.accepts(MultiServerCluster(RewardModel(GRAPH, "log"), [[1, 0]], gang=WHOLE), answer)


class TestHolding:
    """Gangs hold what their components were given."""

    def test_a_gang_runs_at_the_speed_of_its_job(self) -> None:
        jobs = RewardModel(GRAPH, "linear", 1.0, 0.5)
        answer = np.array([[1.0], [0], [0], [2.0], [0], [0], [2.0]])
        result = simulate(MultiSlotCluster(jobs, [[1, 1], [1, 0]], 6.0, gang=GANG), Scripted(answer), until=4.5)
        assert result.jobs["reward"].to_list() == [1.5, 1.0, 0.0]
        assert result.jobs["finish_time"].to_list() == [4.0, None, None]
        assert result.table("allocations").select("job_id", "component", "node", "amount").rows() == [
            (0, 0, "node0", 1.0),
            (0, 1, "node1", 2.0),
            (1, 0, "node1", 2.0),
        ]

    @pytest.mark.parametrize("whole", [False, True], ids=["divisible", "whole"])
    def test_random_gangs_wait_run_and_give_back(self, whole: bool) -> None:
        finished = 0
        for seed in range(15):
            rng = default_rng([seed, whole])
            rewards = random_rewards(rng)
            gang = random_gang(rng, rewards.graph, whole=whole)
            counts = rng.integers(0, 2, (10, rewards.graph.num_ports))
            cluster = MultiSlotCluster(rewards, counts, 4.0, gang=gang, jobs_per_port=2, give_up_after=3)
            services: list[Any] = []
            cluster.on("start", lambda time, service, services=services: services.append(service))
            agent = RandomGangs(gang, seed)
            result = simulate(cluster, agent, until=40)
            graph = cluster.layout.graph
            for service in services:
                ports = graph.channel_port[service.channels]
                served = {int(port) for port, row in zip(ports, service.amounts, strict=True) if row.any()}
                assert len(served) >= gang.minimum[service.job.port]
                answer = np.zeros(graph.shape)
                answer[service.channels] = service.amounts
                gain, overhead, dominant = earn(rewards, amounts_of(graph, answer, sorted(served)))
                assert (service.gain, service.overhead) == pytest.approx((gain, overhead))
                assert service.dominant == dominant
                speed = service.gain - service.overhead
                assert service.finish_time == pytest.approx(service.starting_time + 4.0 / speed)
            for seen in agent.seen:
                free = rewards.graph.capacity.copy()
                for service in services:
                    if service.starting_time < seen.slot < service.finish_time:
                        np.subtract.at(free, graph.channel_node[service.channels], service.amounts)
                assert seen.capacity == pytest.approx(free, abs=1e-9)
            finished += (result.jobs["status"] == "completed").sum()
            again = simulate(cluster, RandomGangs(gang, seed), until=40)
            assert_same_tables(result, again)
        assert finished > 30
