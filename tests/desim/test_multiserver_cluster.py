"""The slotted cluster: rewards of the equations, copies of ports, records, forks, cuts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from multiserver_references import (
    RandomFeasible,
    Scripted,
    assert_jobs,
    assert_same_tables,
    plain_slots,
    random_rewards,
    submissions,
)
from numpy.random import default_rng
from small_agents import python

from desim import Result, Simulation, simulate
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel

TWO = RewardModel(BipartiteGraph([[1.0], [1.0]], [[2.0]]), "linear")
EACH = [[1.0], [1.0]]


def example(seed: int = 0, slots: int = 20, **options: Any) -> MultiServerCluster:
    rng = default_rng([seed, 77])
    rewards = random_rewards(rng)
    most = options.get("jobs_per_port", 1)
    return MultiServerCluster(rewards, rng.integers(0, most + 1, (slots, rewards.graph.num_ports)), **options)


class TestEquations:
    """Jobs, slots and amounts are those of plain loops over equations (7) and (8)."""

    @pytest.mark.parametrize("copies", [1, 3])
    def test_random_graphs_and_allocations(self, copies: int) -> None:
        for seed in range(40):
            rng = default_rng([seed, copies])
            rewards = random_rewards(rng)
            counts = rng.integers(0, copies + 1, (int(rng.integers(1, 12)), rewards.graph.num_ports))
            agent = RandomFeasible(seed)
            result = simulate(MultiServerCluster(rewards, counts, jobs_per_port=copies), agent)
            answers = [seen.answer for seen in agent.seen]
            job_positions = rewards.graph.repeat_ports(copies)
            jobs = plain_slots(rewards, job_positions, counts, answers, copies)
            assert_jobs(result, jobs, rewards.graph)
            slots = result.table("slots")
            assert slots["slot"].to_list() == list(range(len(counts)))
            assert slots["arrived"].to_list() == counts.sum(axis=1).tolist()
            assert slots["queued"].to_list() == [0] * len(counts)
            for name in ("gain", "overhead", "running"):
                expected = [
                    sum(
                        job.status == "completed" if name == "running" else getattr(job, name)
                        for job in jobs
                        if job[2] == t
                    )
                    for t in range(len(counts))
                ]
                assert slots[name].to_list() == pytest.approx(expected, abs=1e-12)
            assert slots["reward"].to_list() == pytest.approx((slots["gain"] - slots["overhead"]).to_list())
            for k, name in enumerate(rewards.graph.resources):
                present = [
                    np.where(seen.arrived[job_positions.channel_port], seen.answer[:, k], 0).sum()
                    for seen in agent.seen
                ]
                assert slots[f"allocated_{name}"].to_list() == pytest.approx(present)
                assert slots[f"reserved_{name}"].to_list() == pytest.approx([a[:, k].sum() for a in answers])
            assert all(np.array_equal(seen.capacity, rewards.graph.capacity) for seen in agent.seen)

    def test_copies_are_ports_of_a_graph_made_by_hand(self) -> None:
        for seed in range(10):
            rng = default_rng(seed)
            rewards = random_rewards(rng)
            graph, copies = rewards.graph, 3
            counts = rng.integers(0, copies + 1, (12, graph.num_ports))
            by_hand = BipartiteGraph(
                [row for row in graph.requests.tolist() for _ in range(copies)],
                graph.capacity,
                [
                    (copies * port + copy, node)
                    for port, node in zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
                    for copy in range(copies)
                ],
            )
            arrived = np.array([[copy < count for count in row for copy in range(copies)] for row in counts.tolist()])
            copied = RewardModel(by_hand, rewards.utilities, rewards.weights, rewards.overhead)
            first = simulate(MultiServerCluster(rewards, counts, jobs_per_port=copies), RandomFeasible(seed))
            second = simulate(MultiServerCluster(copied, arrived), RandomFeasible(seed))
            assert first.table("slots").equals(second.table("slots"))
            assert first.jobs.drop("port").equals(second.jobs.drop("port"))
            types = [f"port{int(name.removeprefix('port')) // copies}" for name in second.jobs["port"]]
            assert first.jobs["port"].to_list() == types
            assert first.table("allocations").drop("port").equals(second.table("allocations").drop("port"))

    def test_the_tables_of_what_does_not_change(self) -> None:
        graph = BipartiteGraph(
            [[1.0, 2.0], [3.0, 0.0]], [[5.0, 6.0]], [("b", "n")], ports=["a", "b"], nodes=["n"], resources=["x", "y"]
        )
        result = simulate(MultiServerCluster(RewardModel(graph, ["log", "poly"], [1.0, 0.5]), [[1, 1]]), Scripted())
        assert result.table("channels").rows() == [("b", "n")]
        ports = [("a", "x", 1.0), ("a", "y", 2.0), ("b", "x", 3.0), ("b", "y", 0.0)]
        assert result.table("ports").rows() == ports
        assert result.table("nodes").rows() == [("n", "x", 5.0, "log", 1.0), ("n", "y", 6.0, "poly", 0.5)]
        assert result.info["resources"] == ["x", "y"]
        assert result.info["total_capacity"] == [5.0, 6.0]
        assert (result.info["num_ports"], result.info["num_nodes"], result.info["num_channels"]) == (2, 1, 1)


class TestRecords:
    """Allocations as often as asked; the same in memory, in files and in any process."""

    @pytest.mark.parametrize("every", [0, 1, 3])
    def test_allocations_of_every_so_many_slots(self, every: int) -> None:
        for seed in range(8):
            agent = RandomFeasible(seed)
            cluster = example(seed, jobs_per_port=2, record_allocations=every)
            result = simulate(cluster, agent)
            assert_same_tables(
                result, simulate(example(seed, jobs_per_port=2), RandomFeasible(seed)), but=["allocations"]
            )
            graph = cluster.layout.graph
            expected = set()
            for seen in agent.seen:
                if every == 0 or seen.slot % every:
                    continue
                ids = result.jobs.filter(pl.col("submission_time") == seen.slot).sort("job_id")["job_id"].to_list()
                job_of = dict(zip(np.flatnonzero(seen.arrived).tolist(), ids, strict=True))
                for row, k in np.ndindex(graph.shape):
                    port = int(graph.channel_port[row])
                    if port in job_of and seen.answer[row, k]:
                        names = f"port{port // 2}", graph.nodes[graph.channel_node[row]], graph.resources[k]
                        expected.add((seen.slot, job_of[port], names[0], 0, *names[1:], seen.answer[row, k]))
            found = result.table("allocations").drop("arrival_number").rows()
            assert len(found) == len(expected)
            assert set(found) == expected
            assert found == sorted(found, key=lambda row: row[:2])
            assert result.info["record_allocations"] == every

    def test_streamed_and_saved_records_are_those_in_memory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables = MultiServerCluster.tables

        def in_small_parts(self: MultiServerCluster) -> dict[str, Any]:
            return {name: replace(table, chunk_rows=16) for name, table in tables(self).items()}

        monkeypatch.setattr(MultiServerCluster, "tables", in_small_parts)
        in_memory = simulate(example(2, 60), RandomFeasible(), seed=5)
        streamed = simulate(example(2, 60), RandomFeasible(), seed=5, out=tmp_path / "run")
        assert len(list((tmp_path / "run" / "allocations").glob("part-*.parquet"))) > 3
        assert in_memory.table("allocations").height > 50
        in_memory.save(tmp_path / "saved")
        for other in (streamed, Result.load(tmp_path / "run"), Result.load(tmp_path / "saved")):
            assert_same_tables(in_memory, other)
            assert other.info == in_memory.info

    def test_the_same_bytes_in_every_process(self, tmp_path: Path) -> None:
        code = """
import os, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from pathlib import Path
from multiserver_references import RandomFeasible
from desim import simulate
from test_multiserver_cluster import example
for number in range(3):
    cluster = example(number, jobs_per_port=2)
    simulate(cluster, RandomFeasible(), seed=number, out=Path(sys.argv[1], str(number)))
"""
        done = [python(code, str(tmp_path / name), PYTHONHASHSEED=name) for name in ("1", "4242")]
        assert [one.returncode for one in done] == [0, 0], done[0].stderr
        one, two = (
            {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for folder in (tmp_path / "1", tmp_path / "4242")
        )
        assert len(one) >= 3 * 7
        assert one == two

    def test_an_interrupted_run_can_be_loaded(self, tmp_path: Path) -> None:
        code = """
import os, signal, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from multiserver_references import RandomFeasible
from desim import SimulationInterrupted, simulate
from test_multiserver_cluster import example
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting(RandomFeasible):
    def act(self, observation):
        if observation.slot == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return super().act(observation)
try:
    simulate(example(2), Interrupting(), out=sys.argv[1])
except SimulationInterrupted as interruption:
    print(interruption.result.table("slots").height)
"""
        done = python(code, str(tmp_path / "run"))
        assert (done.returncode, done.stdout) == (0, "8\n"), done.stderr
        loaded = Result.load(tmp_path / "run")
        assert loaded.info["status"] == "interrupted"
        whole = simulate(example(2), RandomFeasible())
        for name in ("slots", "allocations"):
            assert loaded.table(name).equals(whole.table(name).filter(pl.col("slot") < 8))
        assert loaded.jobs.equals(whole.jobs.filter(pl.col("submission_time") < 8))
        assert loaded.table("nodes").equals(whole.table("nodes"))


class TestForksAndCuts:
    """Another way to the same end, and a shorter one."""

    @pytest.mark.parametrize("decisions", [0, 1, 6, 19])
    def test_a_fork_goes_on_to_the_same_end(self, decisions: int) -> None:
        cluster = example(4, jobs_per_port=3, processes=[submissions((2.5, 0), (5.0, 0))])
        cluster = MultiServerCluster(
            cluster.rewards, np.minimum(cluster.arrivals, 1), jobs_per_port=3, processes=cluster.processes
        )
        whole = simulate(cluster, RandomFeasible(9))

        def drive(simulation: Simulation, count: int) -> None:
            agent = RandomFeasible(9)
            while count and (decision := simulation.advance()) is not None:
                decision.answer(agent.act(decision.observation))
                count -= 1

        simulation = Simulation(cluster)
        drive(simulation, decisions)
        pending = simulation.fork()
        simulation.advance()
        for one in (simulation.fork(), pending, simulation):
            drive(one, 100)
            assert_same_tables(one.finish(), whole)

    def test_an_agent_may_use_one_array_for_all_of_its_answers(self) -> None:
        simulation, answer = Simulation(MultiServerCluster(TWO, [[1, 1]] * 4)), np.zeros((2, 1))
        for amount in (0.25, 0.5, 1.0):
            answer[:] = amount
            decision = simulation.advance()
            assert decision is not None
            decision.answer(answer)
        assert simulation.finish().jobs["gain"].to_list() == [0.25, 0.25, 0.5, 0.5, 1.0, 1.0]
        assert simulation.fork().finish().jobs["gain"].to_list() == [0.25, 0.25, 0.5, 0.5, 1.0, 1.0]

    def test_an_iterator_cannot_be_forked(self) -> None:
        simulation = Simulation(MultiServerCluster(TWO, iter([[1, 1]])))
        with pytest.raises(InvalidConfiguration, match=r"iterator.*only once"):
            simulation.fork()

    @pytest.mark.parametrize("until", [1, 2.5, 7, 19.5, 20, 100])
    def test_until_cuts_all_tables(self, until: float) -> None:
        cluster = example(6, processes=[submissions((0.5, 0))])
        cluster = MultiServerCluster(
            cluster.rewards,
            cluster.arrivals * 0 + [[0, *[1] * 9][: cluster.rewards.graph.num_ports]],
            processes=cluster.processes,
        )
        whole = simulate(cluster, RandomFeasible(1))
        cut = simulate(cluster, RandomFeasible(1), until=until)
        assert cut.info["end_time"] == min(until, 20)
        for name in ("slots", "allocations"):
            assert cut.table(name).equals(whole.table(name).filter(pl.col("slot") < until))
        served = cut.jobs.filter(pl.col("status") != "queued")
        assert served.equals(whole.jobs.filter(pl.col("submission_time").ceil() < until))

    def test_jobs_whose_slot_does_not_come_are_waiting(self) -> None:
        cluster = MultiServerCluster(TWO, [[0, 1]] * 5, processes=[submissions((0.5, 0), (2.25, 0), (2.75, 1))])
        result = simulate(cluster, Scripted(EACH, EACH, EACH), until=2.5)
        rows = result.jobs.select("job_id", "port", "submission_time", "starting_time", "reward", "status").rows()
        assert rows[-1] == (4, "port0", 2.25, None, 0.0, "queued")
        assert len(rows) == 5

    def test_one_cluster_serves_many_runs(self) -> None:
        cluster = example(3, jobs_per_port=2)
        assert_same_tables(simulate(cluster, RandomFeasible()), simulate(cluster, RandomFeasible()))

    def test_listening_changes_nothing(self) -> None:
        loud = example(jobs_per_port=2)
        for event in loud.events:
            loud.on(event, lambda time, subject: None)
        assert_same_tables(simulate(loud, RandomFeasible()), simulate(example(jobs_per_port=2), RandomFeasible()))
