"""When an agent is asked, what it sees then, and what its answers do."""

from __future__ import annotations

from typing import Any

import pytest
from dag_scripts import Scripted, assign, chain, cluster_of, moves, outcomes, run

from desim import simulate
from desim.exceptions import InfeasibleAction
from desim.problems.dag import Assign, Job
from desim.processes import Outage


def times(agent: Scripted) -> list[float]:
    return [time for time, _ in agent.seen]


def test_it_is_asked_for_arrivals_completions_and_outages_while_something_is_executable() -> None:
    jobs = [Job(1, [5]), Job(2, [1], submission_time=2)]
    script = [(0, assign((0, 0))), (8, Assign(2, 0, 1))]
    jobs.append(Job(3, [1], submission_time=8))
    script.append((8, Assign(3, 0, 0)))
    outages = [Outage(1, 4, 0b10), Outage(6, 7, 0b10)]
    _, agent = run(jobs, script, outages)
    assert times(agent) == [0, 2, 4, 5, 6, 7, 8, 8]


def test_it_is_not_asked_when_nothing_is_executable() -> None:
    jobs = [chain(1), Job(2, [1], submission_time=30)]
    script = [(0, assign((0, 0))), (1, assign((1, 1))), (30, Assign(2, 0, 0))]
    _, agent = run(jobs, script, [Outage(2.5, 2.75, 0b01)])
    assert times(agent) == [0, 1, 30]


@pytest.mark.parametrize("answer", [None, [], [None], [None, Assign(1, 0, 0)]])
def test_nothing_ends_the_instant(answer: Any) -> None:
    """What comes behind a None in a list is not carried out."""
    jobs = [Job(1, [1]), Job(2, [1], submission_time=3)]
    result, agent = run(jobs, [(0, answer), (3, assign((0, 0))), (3, Assign(2, 0, 1))])
    assert agent.seen == [(0, [(1, 0)]), (3, [(1, 0), (2, 0)]), (3, [(2, 0)])]
    assert outcomes(result, 1) == [(0, 0, 3, 4, "completed")]


def test_after_an_assignment_it_is_asked_again_and_after_none_it_is_not() -> None:
    jobs = [Job(number, [number]) for number in (1, 2, 3)]
    script = [(0, Assign(1, 0, 0)), (0, [Assign(2, 0, 0), None]), (1, Assign(3, 0, 1))]
    _, agent = run(jobs, script)
    assert agent.seen == [(0, [(1, 0), (2, 0), (3, 0)]), (0, [(2, 0), (3, 0)]), (1, [(3, 0)])]


def test_an_agent_that_never_assigns_ends_the_run() -> None:
    result, agent = run([chain(1)], [])
    assert times(agent) == [0]
    assert result.jobs.select("starting_time", "finish_time", "status").rows() == [(None, None, "queued")]
    assert (result.info["status"], outcomes(result)) == ("complete", [])


def test_a_node_is_executable_when_its_parents_have_finished_or_with_planning_when_they_are_assigned() -> None:
    job = Job(1, [1, 2, 1], [(0, 2, 0), (1, 2, 0)])
    _, agent = run([job], [(0, assign((0, 0), (1, 1))), (2, assign((2, 0)))])
    assert agent.seen == [(0, [(1, 0), (1, 1)]), (2, [(1, 2)])]
    _, agent = run([job], [(0, assign((0, 0))), (0, assign((1, 1))), (0, assign((2, 0)))], plan_ahead=True)
    assert agent.seen == [(0, [(1, 0), (1, 1)]), (0, [(1, 1)]), (0, [(1, 2)])]


def test_everything_at_an_instant_is_seen_by_the_decision() -> None:
    jobs = [Job(1, [5]), Job(2, [5]), Job(3, [1], submission_time=5), Job(4, [1], submission_time=5)]
    script = [(0, [Assign(1, 0, 0), Assign(2, 0, 1)]), (5, [Assign(3, 0, 0), Assign(4, 0, 1)])]
    _, agent = run(jobs, script)
    assert agent.seen == [(0, [(1, 0), (2, 0)]), (5, [(3, 0), (4, 0)])]


def test_tickets_tell_in_which_order_nodes_became_executable() -> None:
    tickets: list[list[int]] = []

    class Looking(Scripted):
        def act(self, observation: Any) -> Any:
            tickets.append([*observation.executable, observation.num_revealed])
            return super().act(observation)

    job = Job(1, [1, 1, 1], [(0, 2, 0), (1, 2, 0)])
    agent = Looking([(0, assign((0, 0), (1, 1))), (0.5, assign((1, 0)))])
    simulate(cluster_of([job], 2, [Outage(0.5, 9, 0b10)]), agent, until=5)
    assert tickets == [[0, 1, 2], [2, 3], [3, 4]]


def test_queues_are_run_in_order_and_places_in_them_can_be_chosen() -> None:
    jobs = [chain(4, job_id=1), Job(2, [2]), Job(3, [1])]
    script = [(0, [*assign((0, 0), (1, 1)), Assign(2, 0, 1, (), 0), Assign(3, 0, 1, (), 1)])]
    result, _ = run(jobs, script, plan_ahead=True)
    assert [row[:1] + row[2:] for row in outcomes(result) if row[2] == 1] == [
        (2, 1, 0, 2, "completed"),
        (3, 1, 2, 3, "completed"),
        (1, 1, 5, 6, "completed"),
    ]


def test_a_copy_at_the_head_of_a_queue_holds_up_what_is_behind_it() -> None:
    result, _ = run([chain(4), Job(2, [2])], [(0, [*assign((0, 0), (1, 1)), Assign(2, 0, 1)])], plan_ahead=True)
    assert outcomes(result, 2) == [(0, 1, 6, 8, "completed")]
    assert result.table("copies")["receiving_time"].to_list() == [0, 0, 6]


def test_data_set_out_when_they_are_there_or_when_they_are_asked_for() -> None:
    jobs = [chain(4), Job(2, [3])]
    script = [(0, [*assign((0, 0)), Assign(2, 0, 1)]), (1, None), (3, assign((1, 1)))]
    assert moves(run(jobs, script)[0]) == [(0, 1, 0, 1, 1, 5, 4)]
    assert moves(run(jobs, script, transfers="when_assigned")[0]) == [(0, 1, 0, 1, 3, 7, 4)]
    script = [(0, [*assign((0, 0)), Assign(2, 0, 1)]), (1, None), (3, assign((1, 0)))]
    assert moves(run(jobs, script, transfers="when_assigned")[0]) == [(0, 1, 0, 0, 1, 1, 4)]


def test_of_data_that_arrive_together_those_of_the_copy_that_was_assigned_first_count() -> None:
    script = [(0, [*assign((0, 0)), Assign(1, 0, 2), Assign(2, 0, 1)]), (1, None), (5, assign((1, 1)))]
    assert moves(run([chain(2), Job(2, [5])], script, num_executors=3)[0]) == [(0, 1, 0, 1, 1, 3, 2)]
    script = [(0, [*assign((0, 2)), Assign(1, 0, 0), Assign(2, 0, 1)]), (1, None), (5, assign((1, 1)))]
    assert moves(run([chain(2), Job(2, [5])], script, num_executors=3)[0]) == [(0, 1, 2, 1, 1, 3, 2)]


def test_duplicates_are_told_from_first_copies() -> None:
    script = [(0, assign((0, 0), (0, 1))), (1, [Assign(1, 1, 1, (0,)), *assign((1, 0))])]
    result, _ = run([Job(1, [1, 0.5], [(0, 1, 2)])], script)
    columns = ["node", "executor", "duplicate", "starting_time"]
    assert result.table("copies").select(columns).rows() == [
        (0, 0, False, 0),
        (0, 1, True, 0),
        (1, 0, True, 1),
        (1, 1, False, None),
        (0, 1, True, 1),
    ]


def test_what_duplicates_still_wait_when_their_job_ends_are_withdrawn() -> None:
    jobs = [Job(1, [1]), Job(2, [5]), Job(3, [1], submission_time=3)]
    script = [(0, [Assign(2, 0, 1), *assign((0, 0), (0, 1))]), (3, Assign(3, 0, 1))]
    result, _ = run(jobs, script)
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (0, 1, None, None, "withdrawn")]
    assert outcomes(result, 3) == [(0, 1, 5, 6, "completed")]


def test_those_that_run_run_on() -> None:
    jobs = [Job(1, [1], run_times=[[1, 5]]), Job(2, [9])]
    result, _ = run(jobs, [(0, [*assign((0, 0), (0, 1)), Assign(2, 0, 1)])])
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed"), (0, 1, 0, 5, "completed")]
    assert result.jobs["finish_time"].to_list() == [1, 14]


def test_what_takes_no_time_does_not_get_in_front_of_what_it_waits_for() -> None:
    """Nodes 1 and 2 take no time; 2 would start when 1 does, and 1 would wait behind it for ever."""
    job = Job(1, [5, 0, 0], [(0, 1, 0), (1, 2, 0)])
    answer = [Assign(1, 0, 1), Assign(1, 1, 0), Assign(1, 2, 0, (), 0)]
    with pytest.raises(InfeasibleAction, match="node 2 cannot be assigned at position 0 of executor 0: it does not"):
        run([job], [(0, answer)], plan_ahead=True)


def test_nor_behind_a_duplicate_of_another_of_its_parents() -> None:
    """Node 3 needs node 2, which needs node 1 on executor 1; a copy of node 0 fits into the time until then."""
    job = Job(1, [5, 5, 0, 0], [(1, 2, 0), (0, 3, 100), (2, 3, 0)])
    answer = [Assign(1, 1, 1), Assign(1, 0, 2), Assign(1, 2, 0), Assign(1, 3, 0, (0,), 0)]
    with pytest.raises(InfeasibleAction, match="it does not fit into the idle time there"):
        run([job], [(0, answer)], num_executors=3, plan_ahead=True)
