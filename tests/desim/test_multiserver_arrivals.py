"""Arrivals of the slotted cluster: rows, iterators, jobs that processes submit; and who listens to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from multiserver_references import Greedy, RandomFeasible, Scripted, assert_same_tables, submissions
from numpy.random import default_rng

from desim import simulate
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel, SlotOutcome

TWO = RewardModel(BipartiteGraph([[1.0], [1.0]], [[2.0]]), "linear")
THREE = RewardModel(BipartiteGraph(np.ones((3, 1)), [[4.0], [4.0]]), ["log"], 1.5, 0.25)
EACH = [[1.0], [1.0]]


class TestArrivals:
    """Rows, iterators, and jobs that a process submits."""

    def test_slots_end_time_and_jobs(self) -> None:
        agent = RandomFeasible()
        result = simulate(MultiServerCluster(TWO, [[1, 0], [0, 0], [1, 1], [0, 0]]), agent)
        assert [seen.slot for seen in agent.seen] == [0, 1, 2, 3]
        assert [seen.arrived.tolist() for seen in agent.seen] == [[1, 0], [0, 0], [1, 1], [0, 0]]
        assert result.info["end_time"] == 4
        assert result.info["status"] == "complete"
        assert result.jobs["job_id"].to_list() == [0, 1, 2]
        assert result.jobs["port"].to_list() == ["port0", "port0", "port1"]
        assert result.jobs["submission_time"].to_list() == [0, 2, 2]

    def test_no_rows_and_no_jobs(self) -> None:
        for arrivals in (np.zeros((0, 2), dtype=bool), [], iter([])):
            result = simulate(MultiServerCluster(TWO, arrivals), Scripted())
            assert result.info["end_time"] == 0
            assert all(result.table(name).height == 0 for name in ("jobs", "slots", "allocations"))
        result = simulate(MultiServerCluster(TWO, np.zeros((3, 2), dtype=bool)), Scripted(EACH, EACH, EACH))
        assert (result.info["end_time"], result.jobs.height, result.table("allocations").height) == (3, 0, 0)
        slots = result.table("slots")
        assert slots["reserved_resource0"].to_list() == [2.0] * 3
        assert [slots[name].to_list() for name in ("allocated_resource0", "gain", "running")] == [[0] * 3] * 3

    def test_a_port_without_a_channel_is_never_served(self) -> None:
        rewards = RewardModel(BipartiteGraph([[1.0], [1.0]], [[2.0]], [(1, 0)]), "linear", 1.0, 0.5)
        result = simulate(MultiServerCluster(rewards, [[1, 1]]), Scripted([[1.0]]))
        assert result.jobs["status"].to_list() == ["unserved", "completed"]
        assert result.jobs["reward"].to_list() == [0.0, 0.5]
        assert result.jobs["starting_time"].to_list() == [None, 0]
        assert result.jobs["finish_time"].to_list() == [None, 1]
        empty = RewardModel(BipartiteGraph([[1.0]], [[2.0]], []), "linear")
        result = simulate(MultiServerCluster(empty, [[1], [1]]), Scripted(None, np.zeros((0, 1))))
        assert result.jobs["status"].to_list() == ["unserved"] * 2

    @pytest.mark.parametrize("dtype", [bool, np.int64, np.int8, np.uint8, np.uint64])
    def test_rows_of_any_kind_of_whole_numbers(self, dtype: Any) -> None:
        counts = default_rng(3).integers(0, 2, (15, 3))
        results = [
            simulate(MultiServerCluster(THREE, arrivals), RandomFeasible())
            for arrivals in (
                counts,
                counts.astype(dtype),
                counts.astype(dtype).tolist(),
                list(counts.astype(dtype)),
                (row for row in counts.astype(dtype)),
                iter(counts.astype(dtype).tolist()),
            )
        ]
        assert results[0].jobs.height > 10
        for result in results[1:]:
            assert_same_tables(results[0], result)

    def test_an_iterator_is_read_one_slot_ahead(self) -> None:
        drawn: list[int] = []

        def rows() -> Iterator[list[int]]:
            for slot in range(6):
                drawn.append(slot)
                yield [1, 0]

        ahead = [(len(drawn), slot) for slot in range(6)]
        agent = Scripted(*[lambda observation: ahead.append((len(drawn), observation.slot))] * 6)
        simulate(MultiServerCluster(TWO, rows()), agent)
        assert ahead[6:] == [(min(slot + 2, 6), slot) for slot in range(6)]

    def test_submitted_jobs_are_served_in_the_slot_that_begins_next(self) -> None:
        times = [(0.25, 0), (1.5, "port1"), (1.75, 2), (3.0, 1), (3.999, 0), (6.5, 0)]
        cluster = MultiServerCluster(THREE, np.zeros((2, 3), dtype=int), processes=[submissions(*times)])
        agent = Greedy([0.5] * 3)
        result = simulate(cluster, agent)
        assert [np.flatnonzero(seen.arrived).tolist() for seen in agent.seen] == [
            [],
            [0],
            [1, 2],
            [1],
            [0],
            [],
            [],
            [0],
        ]
        assert result.jobs["submission_time"].to_list() == [time for time, _ in times]
        assert result.jobs["port"].to_list() == [f"port{str(port)[-1]}" for _, port in times]
        assert sorted(result.jobs["job_id"].to_list()) == list(range(6))
        begins = result.jobs["submission_time"].ceil()
        assert result.jobs["starting_time"].to_list() == begins.to_list()
        assert result.jobs["finish_time"].to_list() == (begins + 1).to_list()
        assert result.info["end_time"] == 8

    def test_submitted_and_arriving_jobs_share_a_port(self) -> None:
        counts = [[0, 0], [2, 0], [0, 1]]
        cluster = MultiServerCluster(
            TWO, counts, jobs_per_port=3, processes=[submissions((0.5, 0), (1.0, 1), (1.5, 1), (1.75, 1))]
        )
        result = simulate(cluster, Scripted())
        assert result.table("slots")["arrived"].to_list() == [0, 4, 3]
        jobs = result.jobs.sort("job_id")
        assert jobs["job_id"].to_list() == list(range(7))
        assert jobs["port"].to_list() == ["port0"] * 3 + ["port1"] * 4
        assert jobs["submission_time"].to_list() == [0.5, 1, 1, 1, 1.5, 1.75, 2]

    def test_a_process_at_the_instant_of_a_slot_is_in_time(self) -> None:
        def clock(cluster: Any) -> Iterator[Any]:
            for _ in range(3):
                cluster.submit(0)
                yield cluster.env.timeout(1.0)

        result = simulate(MultiServerCluster(TWO, [[0, 1]] * 3, processes=[clock]), Scripted(EACH, EACH, EACH))
        assert result.jobs["submission_time"].to_list() == [0, 0, 1, 1, 2, 2]
        assert result.jobs["starting_time"].to_list() == [0, 0, 1, 1, 2, 2]
        assert result.info["end_time"] == 3

    def test_the_run_waits_for_processes_that_are_not_in_the_background(self) -> None:
        def rest(cluster: Any) -> Iterator[Any]:
            yield cluster.env.timeout(4.5)

        def background(cluster: Any) -> Iterator[Any]:
            yield cluster.env.timeout(40.5)

        background.background = True  # type: ignore[attr-defined]
        assert simulate(MultiServerCluster(TWO, [[0, 1]], processes=[background]), Scripted()).info["end_time"] == 1
        result = simulate(MultiServerCluster(TWO, [[0, 1]], processes=[rest, background]), Scripted())
        assert result.info["end_time"] == 5
        assert result.table("slots").height == 5

    def test_a_process_may_answer_what_a_slot_has_brought(self) -> None:
        def resubmit(cluster: Any) -> Iterator[Any]:
            events = [cluster.env.event() for _ in range(3)]
            cluster.on("slot", lambda time, outcome: time < 3 and events[outcome.slot].succeed(outcome))
            for event in events:
                outcome = yield event
                cluster.submit(outcome.slot % 2)

        result = simulate(MultiServerCluster(TWO, [[1, 1]], processes=[resubmit]), Scripted())
        assert result.jobs["submission_time"].to_list() == [0, 0, 0, 1, 2]
        assert result.table("slots")["arrived"].to_list() == [2, 1, 1, 1]


class TestListeners:
    """Events ``arrival`` and ``slot``."""

    def test_every_event_with_its_time_and_subject(self) -> None:
        cluster = MultiServerCluster(TWO, [[2, 0], [0, 1]], jobs_per_port=2, processes=[submissions((0.5, "port1"))])
        heard: list[tuple[float, str, Any]] = []
        for event in cluster.events:
            cluster.on(event, lambda time, subject, event=event: heard.append((time, event, subject)))
        answer = [[0.5], [0.25], [0.0], [1.0]]
        simulate(cluster, Scripted(answer, None))
        assert [(time, event) for time, event, _ in heard] == [
            (0, "arrival"),
            (0, "arrival"),
            (0, "slot"),
            (0.5, "arrival"),
            (1, "arrival"),
            (1, "slot"),
        ]
        assert [subject for _, event, subject in heard if event == "arrival"] == [0, 0, 1, 1]
        first, second = (subject for _, event, subject in heard if event == "slot")
        assert isinstance(first, SlotOutcome)
        assert (first.slot, first.arrived.tolist()) == (0, [True, True, False, False])
        assert (first.allocation.tolist(), first.gain.tolist()) == (answer, [0.5, 0.25, 0, 0])
        assert (second.slot, second.arrived.tolist()) == (1, [False, False, True, True])
        assert (second.allocation.tolist(), second.overhead.tolist()) == ([[0.0]] * 4, [0.0] * 4)

    def test_listeners_hear_unsigned_arrivals(self) -> None:
        cluster = MultiServerCluster(TWO, np.ones((1, 2), dtype=np.uint64))
        heard: list[int] = []
        cluster.on("arrival", lambda time, port: heard.append(port))
        simulate(cluster, Scripted())
        assert heard == [0, 1]
