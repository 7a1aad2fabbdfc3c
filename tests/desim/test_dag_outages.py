"""Executors that fail: what is cut, lost, computed again and withdrawn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import simpy
from dag_scripts import Scripted, assign, chain, cluster_of, moves, outcomes, run

from desim import simulate
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, Job
from desim.processes import Outage

FOREVER = float("inf")


def test_what_runs_is_interrupted_and_offered_again() -> None:
    result, agent = run([Job(1, [10])], [(0, assign((0, 0))), (4, assign((0, 1)))], [Outage(4, 6, executors=[0])])
    assert outcomes(result, 1) == [(0, 0, 0, 4, "interrupted"), (0, 1, 4, 14, "completed")]
    assert agent.seen == [(0, [(1, 0)]), (4, [(1, 0)])]
    assert result.jobs.select("starting_time", "finish_time", "waiting_time").rows() == [(0, 14, 0)]
    assert result.table("copies")["duplicate"].to_list() == [False, False]


def test_what_waits_is_withdrawn() -> None:
    jobs = [Job(1, [10]), Job(2, [1])]
    script = [(0, [*assign((0, 0)), *assign((0, 0), job_id=2)]), (6, Assign(2, 0, 0)), (6, Assign(1, 0, 0))]
    result, agent = run(jobs, script, [Outage(4, 6, executors=[0])])
    assert outcomes(result, 1) == [(0, 0, 0, 4, "interrupted"), (0, 0, 7, 17, "completed")]
    assert outcomes(result, 2) == [(0, 0, None, None, "withdrawn"), (0, 0, 6, 7, "completed")]
    assert agent.seen[1:3] == [(4, [(1, 0), (2, 0)]), (6, [(1, 0), (2, 0)])]


def test_a_lost_result_that_is_needed_is_computed_again() -> None:
    script = [(0, assign((0, 0))), (2, assign((0, 1))), (3, assign((1, 1)))]
    result, agent = run([chain(5)], script, [Outage(2, 9, executors=[0])])
    assert agent.seen == [(0, [(1, 0)]), (1, [(1, 1)]), (2, [(1, 0)]), (3, [(1, 1)])]
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (0, 1, 2, 3, "completed"), (1, 1, 3, 4, "completed")]


def test_a_lost_result_that_nobody_needs_any_more_is_not() -> None:
    result, agent = run([chain(2)], [(0, assign((0, 0))), (1, assign((1, 1)))], [Outage(3.5, 9, executors=[0])])
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (1, 1, 3, 4, "completed")]
    assert agent.seen == [(0, [(1, 0)]), (1, [(1, 1)])]


def test_a_lost_result_is_needed_for_one_child_though_another_has_it() -> None:
    job = Job(1, [1, 9, 1], [(0, 1, 2), (0, 2, 2)])
    script = [(0, assign((0, 0))), (1, assign((1, 1))), (5, assign((0, 1))), (13, assign((2, 1)))]
    result, agent = run([job], script, [Outage(5, 20, executors=[0])])
    assert [seen for seen in agent.seen if seen[0] >= 5] == [(5, [(1, 0)]), (13, [(1, 2)])]
    assert outcomes(result, 1)[1:] == [
        (1, 1, 3, 12, "completed"),
        (0, 1, 12, 13, "completed"),
        (2, 1, 13, 14, "completed"),
    ]


WAITING = [(0, [*assign((0, 0)), *assign((0, 1), job_id=2)]), (1, assign((1, 1)))]


@pytest.mark.parametrize("start", [3, 5])
def test_what_a_waiting_copy_has_received_stays_with_it(start: float) -> None:
    """Its data arrive at 3, also if their source fails at that very instant."""
    result, agent = run([chain(2), Job(2, [10])], WAITING, [Outage(start, 30, executors=[0])])
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (1, 1, 10, 11, "completed")]
    assert agent.seen[-1][0] == 1
    assert moves(result) == [(0, 1, 0, 1, 1, 3, 2)]


def test_data_on_their_way_are_lost_with_their_source() -> None:
    script = [*WAITING, (2.5, assign((0, 1))), (11, assign((1, 1)))]
    result, agent = run([chain(2), Job(2, [10])], script, [Outage(2.5, 30, executors=[0])])
    assert agent.seen[-2:] == [(2.5, [(1, 0)]), (11, [(1, 1)])]
    assert outcomes(result, 1) == [
        (0, 0, 0, 1, "completed"),
        (1, 1, None, None, "withdrawn"),
        (0, 1, 10, 11, "completed"),
        (1, 1, 11, 12, "completed"),
    ]


def test_what_a_waiting_copy_has_received_is_lost_with_its_executor() -> None:
    script = [*WAITING, (6, assign((0, 2))), (7, assign((1, 2)))]
    outages = [Outage(5, 30, executors=[0]), Outage(6, 29, executors=[1])]
    result, agent = run([chain(2), Job(2, [10])], script, outages, num_executors=3, until=20)
    assert agent.seen[2:5] == [(6, [(1, 0), (2, 0)]), (6, [(2, 0)]), (7, [(1, 1), (2, 0)])]
    assert outcomes(result, 1)[-2:] == [(0, 2, 6, 7, "completed"), (1, 2, 7, 8, "completed")]


def test_what_led_to_a_lost_result_is_computed_again_up_to_the_entry() -> None:
    script = [(0, assign((0, 0))), (1, assign((1, 0))), (2, assign((2, 0))), (3.5, assign((0, 1)))]
    script += [(4.5, assign((1, 1))), (5.5, assign((2, 1))), (6.5, assign((3, 1)))]
    result, agent = run([chain(1, 1, 1)], script, [Outage(3.5, 30, executors=[0])])
    assert agent.seen[3:] == [(3, [(1, 3)]), (3.5, [(1, 0)]), (4.5, [(1, 1)]), (5.5, [(1, 2)]), (6.5, [(1, 3)])]
    assert [row[:2] for row in outcomes(result, 1)] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 1)]
    assert result.jobs["finish_time"].to_list() == [7.5]


def test_but_not_beyond_a_result_that_is_elsewhere() -> None:
    script = [(0, assign((0, 1))), (1, assign((1, 0))), (3.5, assign((1, 1))), (4.5, assign((2, 1)))]
    result, agent = run([chain(1, 1)], script, [Outage(3.5, 30, executors=[0])])
    assert agent.seen[2:] == [(3, [(1, 2)]), (3.5, [(1, 1)]), (4.5, [(1, 2)])]
    assert result.jobs["finish_time"].to_list() == [5.5]


def test_the_result_of_an_exit_node_has_been_delivered() -> None:
    job = Job(1, [1, 1, 5], [(0, 1, 0), (0, 2, 0)])
    result, agent = run([job], [(0, assign((0, 0))), (1, assign((1, 0), (2, 1)))], [Outage(3, 30, executors=[0])])
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (1, 0, 1, 2, "completed"), (2, 1, 1, 6, "completed")]
    assert agent.seen[-1][0] == 1


def test_a_duplicate_saves_the_result() -> None:
    """Node 0 has finished on executor 0, and waits behind node 1 on executor 1."""
    job = Job(1, [1, 3, 1], [(0, 2, 9), (1, 2, 0)])
    script = [(0, assign((0, 0), (1, 1), (0, 1))), (4, assign((2, 1)))]
    result, agent = run([job], script, [Outage(3.5, 30, executors=[0])])
    assert agent.seen == [(0, [(1, 0), (1, 1)]), (3, [(1, 2)]), (4, [(1, 2)])]
    assert outcomes(result, 1)[2:] == [(0, 1, 3, 4, "completed"), (2, 1, 4, 5, "completed")]


def test_a_duplicate_on_its_way_keeps_a_waiting_copy() -> None:
    """The copy on executor 0 is lost while its data move; that on executor 2 comes in its place."""
    jobs = [chain(20), Job(2, [4])]
    script = [(0, [Assign(2, 0, 2), *assign((0, 0)), Assign(1, 0, 2)]), (1, assign((1, 1)))]
    result, agent = run(jobs, script, [Outage(3, 90, executors=[0])], num_executors=3)
    assert outcomes(result, 1)[-1] == (1, 1, 25, 26, "completed")
    assert moves(result) == [(0, 1, 2, 1, 5, 25, 20)]
    assert agent.seen[-1][0] == 1


def test_data_may_survive_outages() -> None:
    script = [(0, assign((0, 0))), (2, assign((1, 1)))]
    result, agent = run([chain(5)], script, [Outage(2, 9, executors=[0])], outages_lose_data=False)
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (1, 1, 6, 7, "completed")]
    assert agent.seen == [(0, [(1, 0)]), (1, [(1, 1)]), (2, [(1, 1)])]


def test_all_executors_down_and_back() -> None:
    outages = [Outage(2, 5, executors=[0, 1])]
    result, agent = run([chain(1)], [(0, assign((0, 0))), (5, assign((0, 1))), (6, assign((1, 1)))], outages)
    assert agent.seen == [(0, [(1, 0)]), (1, [(1, 1)]), (2, [(1, 0)]), (5, [(1, 0)]), (6, [(1, 1)])]
    assert result.jobs["finish_time"].to_list() == [7]
    assert result.table("outages").rows() == [(2, 0, "down"), (2, 1, "down"), (5, 0, "up"), (5, 1, "up")]


def test_failures_nest() -> None:
    outages = [Outage(1, 10, executors=[0]), Outage(2, 4, executors=[0, 1])]
    result, agent = run([Job(1, [1], submission_time=3)], [(10, assign((0, 0)))], outages)
    assert result.table("outages").rows() == [(1, 0, "down"), (2, 1, "down"), (4, 1, "up"), (10, 0, "up")]
    assert agent.seen == [(3, [(1, 0)]), (4, [(1, 0)]), (10, [(1, 0)])]


def test_two_executors_that_fail_at_once_do_not_save_each_other() -> None:
    job = Job(1, [1, 1, 9], [(0, 1, 0), (2, 1, 0)])
    script = [(0, [*assign((0, 0), (1, 2)), Assign(1, 0, 1)]), (3, assign((0, 2)))]
    result, _ = run([job], script, [Outage(3, 90, executors=[0, 1])], num_executors=3, until=50)
    assert outcomes(result, 1)[2:] == [(1, 2, 0, 9, "completed"), (0, 2, 9, 10, "completed")]


def test_what_ends_when_its_executor_fails_has_ended_but_its_data_are_lost() -> None:
    script = [(0, assign((0, 0))), (1, assign((0, 1))), (2, assign((1, 1)))]
    result, agent = run([chain(1)], script, [Outage(1, 90, executors=[0])])
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (0, 1, 1, 2, "completed"), (1, 1, 2, 3, "completed")]
    assert agent.seen == [(0, [(1, 0)]), (1, [(1, 0)]), (2, [(1, 1)])]


def test_a_copy_that_starts_when_another_executor_fails_has_its_data() -> None:
    result, _ = run([chain(2)], [(0, assign((0, 0))), (1, assign((1, 1)))], [Outage(3, 9, executors=[0])])
    assert outcomes(result, 1)[1:] == [(1, 1, 3, 4, "completed")]


def test_an_executor_that_is_repaired_is_free_from_then_on() -> None:
    seen = []

    class Looking(Scripted):
        def act(self, observation: Any) -> Any:
            table = observation.executor_queues[0]
            seen.append((observation.time, observation.available_times.tolist(), len(table.waiting), [*table.gaps]))
            free.append(table.free_since)
            return super().act(observation)

    free: list[float] = []
    jobs = [chain(9), Job(2, [1], submission_time=3), Job(3, [1], submission_time=4.5)]
    agent = Looking([(0, assign((0, 1))), (1, assign((1, 0))), (3, Assign(2, 0, 1)), (5, Assign(3, 0, 0))])
    simulate(cluster_of(jobs, 2, [Outage(4, 5, executors=[0])]), agent, until=8)
    assert seen[:5] == [
        (0, [0, 0], 0, []),
        (1, [1, 1], 0, []),
        (3, [11, 3], 1, [(0, 10)]),
        (4, [FOREVER, 4], 0, []),
        (4.5, [FOREVER, 4.5], 0, []),
    ]
    assert seen[5:7] == [(5, [5, 5], 0, []), (5, [6, 5], 0, [])]
    assert free[5] == 5


# -- what is withdrawn, and processes that let executors fail ---------------------------------------


def test_withdrawals_go_down_the_chain_of_what_is_planned() -> None:
    job = chain(1, 1, 1)
    script = [(0, assign((0, 0), (1, 1), (2, 2), (3, 1))), (0.5, assign((0, 1), (1, 1), (2, 2), (3, 2)))]
    result, agent = run([job], script, [Outage(0.5, 90, executors=[0])], num_executors=3, plan_ahead=True)
    assert agent.seen == [(0, [(1, 0)]), (0.5, [(1, 0)])]
    assert outcomes(result, 1)[:4] == [
        (0, 0, 0, 0.5, "interrupted"),
        *[(node, executor, None, None, "withdrawn") for node, executor in ((1, 1), (2, 2), (3, 1))],
    ]
    assert outcomes(result, 1)[4:] == [
        (0, 1, 0.5, 1.5, "completed"),
        (1, 1, 1.5, 2.5, "completed"),
        (2, 2, 3.5, 4.5, "completed"),
        (3, 2, 4.5, 5.5, "completed"),
    ]


def test_what_is_planned_on_other_data_stays() -> None:
    """Node 1 can count on the duplicate of node 0 on executor 2, and node 2 on node 1."""
    script = [(0, [*assign((0, 0)), Assign(1, 0, 2), *assign((1, 1), (2, 1))])]
    result, agent = run([chain(1, 1)], script, [Outage(0.5, 90, executors=[0])], num_executors=3, plan_ahead=True)
    assert outcomes(result, 1) == [
        (0, 0, 0, 0.5, "interrupted"),
        (0, 2, 0, 1, "completed"),
        (1, 1, 2, 3, "completed"),
        (2, 1, 3, 4, "completed"),
    ]
    assert [time for time, _ in agent.seen] == [0]


def test_what_waits_in_front_of_the_only_copy_of_its_parent_is_withdrawn() -> None:
    """Node 1 counted on executor 0; the duplicate of node 0 behind it would wait for it, and it for the duplicate."""
    job = Job(1, [10, 1], [(0, 1, 0)])
    script = [(0, assign((0, 0), (1, 1), (0, 1))), (5, assign((1, 1)))]
    result, _ = run([job], script, [Outage(5, 90, executors=[0])], plan_ahead=True)
    assert outcomes(result, 1) == [
        (0, 0, 0, 5, "interrupted"),
        (1, 1, None, None, "withdrawn"),
        (0, 1, 5, 15, "completed"),
        (1, 1, 15, 16, "completed"),
    ]


def test_only_the_failed_part_of_a_plan_is_withdrawn() -> None:
    job = Job(1, [2, 2, 2], [(0, 2, 1), (1, 2, 1)])
    script = [(0, assign((0, 0), (1, 1), (2, 1))), (1, assign((0, 1), (2, 1)))]
    result, agent = run([job], script, [Outage(1, 90, executors=[0])], plan_ahead=True)
    assert agent.seen == [(0, [(1, 0), (1, 1)]), (1, [(1, 0)])]
    assert outcomes(result, 1)[2:] == [
        (1, 1, 0, 2, "completed"),
        (0, 1, 2, 4, "completed"),
        (2, 1, 4, 6, "completed"),
    ]


def fails(*moments: tuple[float, str, list[int]]) -> Any:
    """Return a process that fails and repairs executors at plain times."""

    def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
        for time, what, units in moments:
            yield cluster.env.timeout(time - cluster.env.now)
            getattr(cluster, what)(executors=units)

    return process


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ((1, "fail", [2]), "executors: got 2, expected a name or a number from 0 to 1"),
        ((1, "fail", [-1]), "executors: got -1, expected a name or a number from 0 to 1"),
        ((1, "repair", [1]), "executor executor1 cannot be repaired at time 1: it is not down"),
    ],
)
def test_failures_and_repairs_that_cannot_be(moment: tuple[float, str, list[int]], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        run([Job(1, [5])], [(0, assign((0, 0)))], processes=[fails(moment)])


def test_a_failure_and_a_repair_at_one_instant_interrupt() -> None:
    process = fails((2, "fail", [0]), (2, "repair", [0]))
    result, _ = run([Job(1, [5])], [(0, assign((0, 0))), (2, assign((0, 0)))], processes=[process])
    assert outcomes(result, 1) == [(0, 0, 0, 2, "interrupted"), (0, 0, 2, 7, "completed")]


def test_what_is_behind_the_copy_of_a_job_that_has_ended_starts_then() -> None:
    job = Job(1, [1, 5], [(0, 1, 100)])
    script = [(0, assign((0, 0))), (1, [*assign((1, 0), (1, 1)), Assign(2, 0, 1)])]
    result, _ = run([job, Job(2, [3])], script)
    assert outcomes(result, 2) == [(0, 1, 6, 9, "completed")]
