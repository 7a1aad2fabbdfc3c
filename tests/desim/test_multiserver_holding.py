"""Jobs that hold their resources until their work is done, against an event simulation of our own and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from multiserver_events import PlainHolding
from multiserver_references import (
    Greedy,
    RandomFeasible,
    Scripted,
    assert_jobs,
    random_rewards,
    submissions,
)
from numpy.random import default_rng
from polars.testing import assert_frame_equal

from desim import Result, simulate
from desim.problems.multiserver import BipartiteGraph, MultiSlotCluster, RewardModel
from desim.validation import validate

ONE = RewardModel(BipartiteGraph([[2.0]], [[2.0]]), "linear")
TWO = RewardModel(BipartiteGraph([[1.0], [1.0]], [[2.0]]), "linear")


def everything(observation: Any) -> Any:
    """Give one job after another all that it requests and the node has."""
    return Greedy([1.0] * observation.graph.num_ports).act(observation)


class TestAgainstAnotherSimulation:
    """A heap of events and plain lists come to the same starts, finishes and free capacities."""

    @pytest.mark.parametrize("exact", [True, False], ids=["linear", "mixed"])
    @pytest.mark.parametrize("copies", [1, 3])
    def test_random_scenarios(self, copies: int, exact: bool) -> None:
        started = 0
        for seed in range(60):
            rng = default_rng([seed, copies, exact])
            rewards = random_rewards(rng, exact=exact)
            ports = rewards.graph.num_ports
            counts = rng.integers(0, 3, (int(rng.integers(0, 12)), ports)) * (rng.random(ports) < 0.8)
            work = (rng.integers(1, 60, ports) / 4).tolist()
            shares = rng.choice([0.0, 0.25, 0.5, 1.0], ports * copies).tolist()
            limits = {
                "minimum_speed": float(rng.choice([0.0, 0.0, 0.5, 2.0])),
                "longest_service": float(rng.choice([10_000.0, 6.0])),
            }
            times = np.sort(rng.integers(1, 60, int(rng.integers(0, 5))) / 4).tolist()
            submitted = [(time, int(rng.integers(ports))) for time in times]
            plain = PlainHolding(rewards, counts, work, shares, copies=copies, submitted=submitted, **limits)
            cluster = MultiSlotCluster(
                rewards,
                counts,
                work,
                jobs_per_port=copies,
                give_up_after=20,
                processes=[submissions(*submitted)],
                **limits,
            )
            agent = Greedy(shares)
            result = simulate(cluster, agent)
            assert_jobs(result, plain.done, rewards.graph, exact=exact)
            started += result.jobs["starting_time"].count()
            if not any(job.status == "queued" for job in plain.done):
                assert result.info["end_time"] == plain.end_time
            length = min(len(plain.slots), result.table("slots").height)
            assert length >= len(counts)
            slots = pl.DataFrame(plain.slots[:length], schema=self.schema(result, plain))
            found = result.table("slots").select(slots.columns)[:length]
            assert_frame_equal(found, slots, rel_tol=1e-12, abs_tol=1e-11)  # means over slots are rounded
            # All amounts are in eighths or halves of them, so that nothing is lost or won on the way.
            assert [seen.capacity.tolist() for seen in agent.seen[:length]] == plain.free[:length]
        assert started > 200

    @staticmethod
    def schema(result: Result, plain: PlainHolding) -> dict[str, Any]:
        known = result.table("slots").schema
        names = plain.slots[0] if plain.slots else ["slot"]
        return {name: known[name] for name in names}

    def test_more_agents_never_hand_out_more_than_there_is(self) -> None:
        for seed in range(30):
            rng = default_rng(seed)
            rewards = random_rewards(rng)
            counts = rng.integers(0, 2, (15, rewards.graph.num_ports))
            agent = RandomFeasible(seed)
            result = simulate(MultiSlotCluster(rewards, counts, 5.0, jobs_per_port=2, give_up_after=5), agent, until=60)
            times = {row[0]: row[1:] for row in result.jobs.select("job_id", "starting_time", "finish_time").rows()}
            amounts = result.table("allocations").select("slot", "job_id", "node", "resource", "amount").rows()
            assert all(times[job][0] == slot for slot, job, *_ in amounts)
            graph = rewards.graph
            for seen in agent.seen:
                free = graph.capacity.copy()
                for slot, job, node, resource, amount in amounts:
                    finish = times[job][1]
                    if slot < seen.slot and (finish is None or finish > seen.slot):
                        free[graph.nodes.index(node), graph.resources.index(resource)] -= amount
                assert seen.capacity == pytest.approx(free, abs=1e-9)
                assert (seen.capacity >= 0).all()
                assert (seen.capacity <= graph.capacity * (1 + 1e-12)).all()
                empty = all(
                    finish is not None and finish <= seen.slot
                    for start, finish in times.values()
                    if start is not None and start < seen.slot
                )
                assert not empty or np.array_equal(seen.capacity, graph.capacity)


class TestOneQueue:
    """One port, one node, and arithmetic that fits on a napkin."""

    @pytest.mark.parametrize("work", [1.0, 3.0, 7.5])
    def test_a_service_takes_its_work_over_its_reward(self, work: float) -> None:
        rewards = RewardModel(ONE.graph, "linear", 1.5, 0.25)
        result = simulate(MultiSlotCluster(rewards, [[1]], work), Scripted(everything))
        assert result.jobs.select("gain", "overhead", "reward", "work").row(0) == (3.0, 0.5, 2.5, work)
        assert result.jobs["execution_time"].to_list() == [work / 2.5]
        assert result.info["end_time"] == np.ceil(work / 2.5)

    def test_waiting_times_follow_lindley(self) -> None:
        # As in a queue with deterministic service, but services begin with slots: W' = max(W + S - 1, 0), whole slots.
        arrivals = (default_rng(5).random(400) < 0.3).astype(int)
        service, waiting, expected = 3.0, 0.0, []
        for arrived in arrivals:
            if arrived:
                expected.append(waiting)
                waiting += service
            waiting = max(waiting - 1, 0.0)
        cluster = MultiSlotCluster(ONE, arrivals[:, None], 2 * service)
        table = simulate(cluster, Scripted(*[everything] * 3000)).jobs
        assert table["waiting_time"].to_list() == expected
        assert table["execution_time"].unique().to_list() == [service]

    def test_what_ends_at_an_instant_is_free_at_it(self) -> None:
        result = simulate(MultiSlotCluster(ONE, [[1], [1], [0]], 4.0), Scripted(*[everything] * 9))
        assert result.jobs["starting_time"].to_list() == [0, 2]
        assert result.jobs["finish_time"].to_list() == [2, 4]
        assert result.table("slots")["running"].to_list() == [1, 1, 1, 1]
        assert result.table("slots")["queued"].to_list() == [0, 1, 0, 0]
        assert result.table("slots")["arrived"].to_list() == [1, 1, 0, 0]
        assert result.info["end_time"] == 4

    def test_what_ends_between_slots_is_free_from_the_next_one_on(self) -> None:
        result = simulate(MultiSlotCluster(ONE, [[1], [1]], 3.0), Scripted(*[everything] * 9))
        assert result.jobs["starting_time"].to_list() == [0, 2]
        assert result.jobs["finish_time"].to_list() == [1.5, 3.5]
        assert result.table("slots")["running"].to_list() == [1, 1, 1, 1]

    def test_a_port_is_served_first_come_first_served(self) -> None:
        counts = [[2], [0], [1], [0], [0]]
        cluster = MultiSlotCluster(ONE, counts, 2.0, processes=[submissions((0.5, 0), (1.5, "port0"), (2.0, 0))])
        result = simulate(cluster, Scripted(*[everything] * 20))
        assert result.jobs["submission_time"].to_list() == [0, 0, 0.5, 1.5, 2, 2]
        assert result.jobs["job_id"].to_list() == list(range(6))
        assert result.jobs["starting_time"].to_list() == list(range(6))

    def test_with_several_places_the_unserved_keep_their_order(self) -> None:
        # Three jobs, two places; in the first slot only the second place is given anything.
        rewards = RewardModel(BipartiteGraph([[1.0]], [[4.0]]), "linear")
        answers = [[[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [1.0]]]
        result = simulate(MultiSlotCluster(rewards, [[3], [0], [0]], 1.0, jobs_per_port=2), Scripted(*answers))
        assert result.jobs["starting_time"].to_list() == [1, 0, 2]

    def test_the_work_of_every_port(self) -> None:
        rewards = RewardModel(BipartiteGraph([[1.0], [2.0]], [[8.0]]), "linear")
        result = simulate(MultiSlotCluster(rewards, [[1, 1]], [3.0, 5.0]), Scripted(everything))
        assert result.jobs["finish_time"].to_list() == [3.0, 2.5]

    def test_what_others_are_given_goes_back(self) -> None:
        # The second job is not worth starting with 1.0; in the next slot the third one starts with the same and more.
        graph = BipartiteGraph([[3.0], [3.0], [3.0]], [[4.0]])
        cluster = MultiSlotCluster(RewardModel(graph, "linear"), [[1, 1, 0], [0, 0, 1]], 6.0, minimum_speed=1.0)
        result = simulate(cluster, Scripted([[2.5], [1.0], [0.0]], [[0.0], [0.0], [1.5]]), until=3)
        assert result.jobs["starting_time"].to_list() == [0, None, 1]
        slots = result.table("slots")
        means = [2.5, 4.0, 1.5 + 0.4 * 2.5]  # the first job ends at 2.4, and what it held is reserved until 3
        assert slots["allocated_resource0"].to_list() == pytest.approx(means)
        assert slots["reserved_resource0"].to_list() == [3.5, 4.0, 4.0]
        assert slots["gain"].to_list() == pytest.approx(means)

    @pytest.mark.parametrize(("until", "share"), [(np.inf, 0.1), (9.05, 0.95 / 9.05), (0.05, 1.0), (0.5, 0.2)])
    def test_utilization_is_a_time_average(self, until: float, share: float) -> None:
        # One job of a tenth of a slot in each of ten slots; the run may end within a slot, or within its job.
        cluster = MultiSlotCluster(RewardModel(BipartiteGraph([[1.0]], [[1.0]]), "linear"), [[1]] * 10, 0.1)
        result = simulate(cluster, Scripted(*[everything] * 10), until=until)
        values = result.metrics()
        assert values["utilization"] == pytest.approx(share)
        assert values["average_reward"] == pytest.approx(share)
        slots = result.table("slots")
        assert slots["running"].to_list() == [1] * slots.height
        whole = slots["allocated_resource0"].to_list()[:-1] if until < 10 else slots["allocated_resource0"].to_list()
        assert whole == pytest.approx([0.1] * len(whole))
        assert values["reserved_resource0"] == pytest.approx(1.0)
        assert validate(result).ok

    @pytest.mark.parametrize("until", [np.inf, 11.3])
    def test_utilization_is_the_integral_of_what_was_allocated(self, until: float) -> None:
        for seed in range(8):
            rng = default_rng(seed)
            rewards = random_rewards(rng)
            counts = rng.integers(0, 2, (15, rewards.graph.num_ports))
            cluster = MultiSlotCluster(rewards, counts, lambda stream, port: float(stream.exponential(1.0)) + 0.01)
            result = simulate(cluster, RandomFeasible(seed), seed=seed, until=until)
            finish = result.jobs.select("job_id", end=pl.col("finish_time").fill_null(result.info["end_time"]))
            held = result.table("allocations").join(finish, on="job_id")
            for warm_up in (0, 3):
                values = result.metrics(warm_up_slots=warm_up)
                lasted = (pl.col("end") - pl.col("slot").clip(warm_up)).clip(0.0)
                for name, total in zip(rewards.graph.resources, result.info["total_capacity"], strict=True):
                    mine = held.filter(pl.col("resource").cast(pl.String) == name)
                    amount = mine.select((lasted * pl.col("amount")).sum()).item()
                    wanted = amount / total / (result.info["end_time"] - warm_up) if total else np.nan
                    assert values[f"utilization_{name}"] == pytest.approx(wanted, nan_ok=True)
            assert validate(result).ok


class TestTheEnd:
    """When a run is over, and what is left."""

    def test_jobs_do_not_start_at_the_minimum_speed_or_below(self) -> None:
        cluster = MultiSlotCluster(TWO, [[1, 0]], 1.0, minimum_speed=0.5, give_up_after=100)
        answers = [[[0.25], [0.0]], [[0.5], [0.0]], [[0.5625], [0.0]]]
        assert simulate(cluster, Scripted(*answers)).jobs["starting_time"].to_list() == [2]

    def test_jobs_do_not_start_if_they_would_take_too_long(self) -> None:
        cluster = MultiSlotCluster(TWO, [[1, 1]], [1.0, 0.5], longest_service=4.0)
        answers = [[[0.125], [0.125]], [[0.2], [0.0]], [[0.25], [0.0]]]
        result = simulate(cluster, Scripted(*answers))
        assert result.jobs["starting_time"].to_list() == [2, 0]
        assert result.jobs["execution_time"].to_list() == [4, 4]
        assert result.info["longest_service"] == 4

    def test_with_several_places_one_that_would_take_too_long_is_left_out(self) -> None:
        rewards = RewardModel(BipartiteGraph([[1.0]], [[4.0]]), "linear")
        cluster = MultiSlotCluster(rewards, [[3]], 1.0, jobs_per_port=3, longest_service=2.0)
        result = simulate(cluster, Scripted([[0.25], [0.5], [1.0]], [[0.5], [0.0], [0.0]]))
        assert result.jobs["starting_time"].to_list() == [1, 0, 0]
        assert result.table("slots")["allocated_resource0"].to_list() == [1.5, 1.0, 0.5]  # all end with slots

    def test_a_job_whose_overhead_eats_its_gain_does_not_start(self) -> None:
        rewards = RewardModel(ONE.graph, "linear", 1.0, 1.0)
        cluster = MultiSlotCluster(rewards, [[1]], 1.0, give_up_after=4)
        assert simulate(cluster, Scripted(*[everything] * 9)).jobs["status"].to_list() == ["queued"]

    @pytest.mark.parametrize("patience", [1, 2, 7])
    def test_it_gives_up_when_nothing_goes_on(self, patience: int) -> None:
        # The first job runs until 2.5; the second is never given anything.
        cluster = MultiSlotCluster(TWO, [[1, 1]], 2.5, give_up_after=patience)
        agent = Scripted([[1.0], [0.0]])
        result = simulate(cluster, agent)
        assert result.jobs["status"].to_list() == ["completed", "queued"]
        assert result.info["end_time"] == 3 + patience
        assert result.table("slots")["queued"].to_list() == [1] * (3 + patience)

    def test_it_does_not_give_up_while_jobs_run_or_arrive(self) -> None:
        cluster = MultiSlotCluster(TWO, [[1, 1]], [8.0, 1.0], give_up_after=2)
        agent = Scripted([[1.0], [0.0]], *[None] * 8, [[0.0], [1.0]])
        assert simulate(cluster, agent).jobs["starting_time"].to_list() == [0, 9]
        cluster = MultiSlotCluster(TWO, [[0, 1], *[[0, 0]] * 4], 1.0, give_up_after=2)
        agent = Scripted(*[None] * 4, [[0.0], [1.0]])
        assert simulate(cluster, agent).jobs["starting_time"].to_list() == [4]

    def test_a_job_that_has_just_been_submitted_is_not_given_up(self) -> None:
        cluster = MultiSlotCluster(TWO, [[0, 0]], 1.0, give_up_after=2, processes=[submissions((5.5, 0))])
        agent = Scripted(*[None] * 6, [[1.0], [1.0]])
        assert simulate(cluster, agent).jobs["starting_time"].to_list() == [6]

    def test_a_job_of_the_last_row_has_as_many_chances_as_others(self) -> None:
        arrivals = np.zeros((10, 2), dtype=int)
        arrivals[9, 0] = 1
        agent = Scripted(*[None] * 10, [[1.0], [0.0]])
        assert simulate(MultiSlotCluster(TWO, arrivals, 1.0, give_up_after=5), agent).jobs[
            "starting_time"
        ].to_list() == [10]

    def test_the_horizon_leaves_running_and_waiting_jobs(self) -> None:
        result = simulate(MultiSlotCluster(ONE, [[1], [1], [1], [1]], 5.0), Scripted(*[everything] * 9), until=3.5)
        assert result.jobs["status"].to_list() == ["completed", "running", "queued", "queued"]
        assert result.jobs["starting_time"].to_list() == [0, 3, None, None]
        assert result.jobs["finish_time"].to_list() == [2.5, None, None, None]
        assert result.jobs["submission_time"].to_list() == [0, 1, 2, 3]
        assert result.jobs["reward"].to_list() == [2, 2, 0, 0]
        assert result.jobs["work"].to_list() == [5.0] * 4
        assert result.jobs["success"].to_list() == [True, False, False, False]
        assert result.info["end_time"] == 3.5

    def test_nothing_arrives(self) -> None:
        result = simulate(MultiSlotCluster(TWO, np.zeros((0, 2), dtype=int), 1.0), Scripted())
        assert (result.info["end_time"], result.jobs.height, result.table("slots").height) == (0, 0, 0)
        result = simulate(MultiSlotCluster(TWO, np.zeros((3, 2), dtype=int), 1.0), Scripted())
        assert (result.info["end_time"], result.jobs.height, result.table("slots").height) == (3, 0, 3)


def test_jobs_do_not_start_on_what_rounding_leaves() -> None:
    graph = BipartiteGraph([[0.1], [0.3], [1.0]], [[0.4]])
    result = simulate(MultiSlotCluster(RewardModel(graph, "linear"), [[1, 1, 1]], 1.0), Greedy([1.0] * 3), until=50)
    assert result.jobs["status"].to_list() == ["completed"] * 3
