"""When an agent is asked, what it sees then, what its answers do, and why some cannot be carried out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from dag_scripts import Scripted, assign, chain, cluster_of, moves, outcomes, run

from desim import simulate
from desim.core import Simulation
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
    outages = [Outage(1, 4, executors=[1]), Outage(6, 7, executors=[1])]
    _, agent = run(jobs, script, outages)
    assert times(agent) == [0, 2, 4, 5, 6, 7, 8, 8]


def test_it_is_not_asked_when_nothing_is_executable() -> None:
    jobs = [chain(1), Job(2, [1], submission_time=30)]
    script = [(0, assign((0, 0))), (1, assign((1, 1))), (30, Assign(2, 0, 0))]
    _, agent = run(jobs, script, [Outage(2.5, 2.75, executors=[0])])
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


def test_a_node_is_executable_when_its_parents_have_finished_or_with_planning_when_they_are_assigned() -> None:
    job = Job(1, [1, 2, 1], [(0, 2, 0), (1, 2, 0)])
    _, agent = run([job], [(0, assign((0, 0), (1, 1))), (2, assign((2, 0)))])
    assert agent.seen == [(0, [(1, 0), (1, 1)]), (2, [(1, 2)])]
    _, agent = run([job], [(0, assign((0, 0))), (0, assign((1, 1))), (0, assign((2, 0)))], plan_ahead=True)
    assert agent.seen == [(0, [(1, 0), (1, 1)]), (0, [(1, 1)]), (0, [(1, 2)])]


def test_tickets_tell_in_which_order_nodes_became_executable() -> None:
    tickets: list[list[int]] = []

    class Looking(Scripted):
        def act(self, observation: Any) -> Any:
            tickets.append([*observation.ready, observation.num_revealed])
            return super().act(observation)

    job = Job(1, [1, 1, 1], [(0, 2, 0), (1, 2, 0)])
    agent = Looking([(0, assign((0, 0), (1, 1))), (0.5, assign((1, 0)))])
    simulate(cluster_of([job], 2, [Outage(0.5, 9, executors=[1])]), agent, until=5)
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
    with pytest.raises(
        InfeasibleAction, match="node 2 cannot be assigned: it does not fit into the idle time at position 0"
    ):
        run([job], [(0, answer)], plan_ahead=True)


def test_nor_behind_a_duplicate_of_another_of_its_parents() -> None:
    """Node 3 needs node 2, which needs node 1 on executor 1; a copy of node 0 fits into the time until then."""
    job = Job(1, [5, 5, 0, 0], [(1, 2, 0), (0, 3, 100), (2, 3, 0)])
    answer = [Assign(1, 1, 1), Assign(1, 0, 2), Assign(1, 2, 0), Assign(1, 3, 0, (0,), 0)]
    with pytest.raises(InfeasibleAction, match="it does not fit into the idle time at position"):
        run([job], [(0, answer)], num_executors=3, plan_ahead=True)


# -- answers that cannot be carried out -------------------------------------------------------------

FIRST = Assign(1, 0, 0)
WRONG: list[tuple[list[Any], str]] = [
    ([5], "action: got 5, expected an Assign, a list of them, or None"),
    ([(1, 0, 0)], "action: got (1, 0, 0), expected an Assign, a list of them, or None"),
    ([[FIRST, 7]], "action: got 7, expected an Assign, a list of them, or None"),
    ([Assign(9, 0, 0)], "job_id: got 9, expected the id of a job in the system"),
    ([Assign("one", 0, 0)], "job_id: got 'one', expected the id of a job in the system"),  # type: ignore[arg-type]
    ([Assign(1, 4, 0)], "node: got 4, expected 0 to 3, a node of job 1"),
    ([Assign(1, 0.0, 0)], "node: got 0.0, expected 0 to 3, a node of job 1"),  # type: ignore[arg-type]
    ([FIRST, Assign(1, 1, 0, (7,))], "node: got 7, expected 0 to 3, a node of job 1"),
    ([Assign(1, 0, 2)], "job 1 node 0 cannot be assigned: executor: got 2, expected an integer from 0 to 1"),
    ([Assign(1, 0, 1.0)], "job 1 node 0 cannot be assigned: executor: got 1.0, expected an integer from 0 to 1"),  # type: ignore[arg-type]
    ([Assign(1, 1, 0)], "job 1 node 1 cannot be assigned: parent 0 has no copy"),
    ([FIRST, Assign(1, 2, 0)], "job 1 node 2 cannot be assigned: parent 1 has no copy"),
    ([Assign(1, 0, 0, (0,))], "job 1 node 0 cannot be assigned: duplicates: node 0 has not been assigned"),
    ([FIRST, Assign(1, 1, 0, (2,))], "job 1 node 1 cannot be assigned: duplicates: node 2 has not been"),
    ([Assign(1, 0, 0, (), 1)], "job 1 node 0 cannot be assigned: position: got 1, expected 0 to 0"),
    ([Assign(1, 0, 0, (), 0.5)], "job 1 node 0 cannot be assigned: position: got 0.5, expected 0 to 0"),  # type: ignore[arg-type]
    (
        [FIRST, Assign(1, 1, 0), Assign(2, 0, 0, (), 0)],
        "job 2 node 0 cannot be assigned: it does not fit into the idle time at position 0 of executor 0",
    ),
]


@pytest.mark.parametrize(("answers", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_cannot_be_is_refused_and_explained(answers: list[Any], message: str) -> None:
    agent = Scripted([(0, answer) for answer in answers])
    cluster = cluster_of([chain(1, 1, 1), Job(2, [1])], 2, plan_ahead=True)
    with pytest.raises(InfeasibleAction, match=re.escape(f"time 0: {message}")) as caught:
        simulate(cluster, agent)
    assert not agent.script
    assert len(caught.value.args) == 1
    assert "raised at time 0 s with agent Scripted" in "".join(caught.value.__notes__)


def test_a_cluster_that_does_not_plan_ahead_says_so() -> None:
    message = "time 0: job 1 node 1 cannot be assigned: its parents have not all finished; wait for them, or use"
    with pytest.raises(InfeasibleAction, match=message):
        simulate(cluster_of([chain(1), Job(2, [1])], 2), Scripted([(0, [FIRST, Assign(1, 1, 0)])]))


def test_a_duplicate_needs_inputs_of_its_own() -> None:
    """The result of node 0 is lost after node 1 has received it, so that node 1 cannot have a second copy."""
    cluster = cluster_of([chain(0, 9), Job(2, [1])], 3, [Outage(1.5, 90, executors=[0])])
    agent = Scripted([(0, FIRST), (1, Assign(1, 1, 1)), (1.5, Assign(2, 0, 2, ())), (2, Assign(1, 2, 2, (1,)))])
    message = r"time 2\.0: job 1 node 2 cannot be assigned: parent 0 of its duplicated parent 1 has no copy"
    with pytest.raises(InfeasibleAction, match=message):
        simulate(cluster, agent)


def test_what_came_before_in_a_list_is_carried_out() -> None:
    with pytest.raises(InfeasibleAction, match="job_id: got 9, expected the id of a job in the system") as caught:
        simulate(cluster_of([chain(1)], 2), Scripted([(0, [FIRST, Assign(9, 0, 0), FIRST])]))
    assert outcomes(caught.value.result, 1) == [(0, 0, None, None, "queued")]  # type: ignore[attr-defined]


def test_a_refused_place_changes_nothing() -> None:
    """A copy that does not fit, with its duplicate, leaves no trace: what is observed afterwards is as before."""
    simulation = Simulation(cluster_of([chain(1, 1)], 2, plan_ahead=True))

    def seen(observation: Any) -> Any:
        state = observation.jobs[1]
        copies = [len(copies) for copies in state.copies]
        ready = [state.ready_times(node).tolist() for node in range(3)]
        gaps = [[*table.gaps] for table in observation.executor_queues.values()]
        return copies, state.assigned.tolist(), ready, observation.available_times.tolist(), gaps

    decision = simulation.advance()
    assert decision is not None
    decision.answer(assign((0, 0), (1, 1)))
    decision = simulation.advance()
    assert decision is not None
    before = seen(decision.observation)
    with pytest.raises(InfeasibleAction, match="it does not fit into the idle time at position"):
        decision.answer(Assign(1, 2, 1, (0,), 0))
    assert seen(decision.observation) == before


def test_numbers_of_numpy_will_do() -> None:
    answers = [
        Assign(np.int64(1), np.int32(0), np.intp(1)),
        Assign(np.int64(1), np.int64(1), np.uint8(0), (np.int64(0),), np.int64(0)),
    ]
    result = simulate(cluster_of([chain(9)], 2), Scripted([(0, answers[0]), (1, answers[1])]))
    rows = [(0, 1, 0, 1, "completed"), (0, 0, 1, 2, "completed"), (1, 0, 2, 3, "completed")]
    assert outcomes(result, 1) == rows
