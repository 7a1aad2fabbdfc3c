"""Actions that cannot be carried out: the message says why, and the records up to then are kept."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from dag_scripts import Scripted, assign, chain, cluster_of, outcomes

from desim import simulate
from desim.core import Simulation
from desim.exceptions import InfeasibleAction
from desim.problems.dag import Assign, Job
from desim.processes import Outage

FIRST = Assign(1, 0, 0)
WRONG: list[tuple[list[Any], str]] = [
    ([5], "the action is 5, want an Assign, a list of them, or None"),
    ([(1, 0, 0)], "the action is (1, 0, 0), want an Assign, a list of them, or None"),
    ([[FIRST, 7]], "the action is 7, want an Assign, a list of them, or None"),
    ([Assign(9, 0, 0)], "job 9 is not in the system"),
    ([Assign("one", 0, 0)], "job 'one' is not in the system"),  # type: ignore[arg-type]
    ([Assign(1, 4, 0)], "job 1 has no node 4, it has 4"),
    ([Assign(1, 0.0, 0)], "job 1 has no node 0.0, it has 4"),  # type: ignore[arg-type]
    ([FIRST, Assign(1, 1, 0, (7,))], "job 1 has no node 7, it has 4"),
    ([Assign(1, 0, 2)], "job 1 node 0 cannot be assigned to executor 2: there are 2"),
    ([Assign(1, 0, 1.0)], "job 1 node 0 cannot be assigned to executor 1.0: there are 2"),  # type: ignore[arg-type]
    ([Assign(1, 1, 0)], "job 1 node 1 cannot be assigned: parent 0 has no copy"),
    ([FIRST, Assign(1, 2, 0)], "job 1 node 2 cannot be assigned: parent 1 has no copy"),
    ([Assign(1, 0, 0, (0,))], "job 1 node 0 cannot be assigned: node 0 is to be duplicated and has not been assigned"),
    ([FIRST, Assign(1, 1, 0, (2,))], "job 1 node 1 cannot be assigned: node 2 is to be duplicated and has not been"),
    ([Assign(1, 0, 0, (), 1)], "job 1 node 0 cannot be assigned at position 1: 0 copies wait on executor 0"),
    ([Assign(1, 0, 0, (), 0.5)], "job 1 node 0 cannot be assigned at position 0.5: 0 copies wait on"),  # type: ignore[arg-type]
    (
        [FIRST, Assign(1, 1, 0), Assign(2, 0, 0, (), 0)],
        "job 2 node 0 cannot be assigned at position 0 of executor 0: it does not fit into the idle time there",
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


def test_nothing_is_assigned_to_what_is_down() -> None:
    cluster = cluster_of([chain(1)], 2, [Outage(0, 5, 0b10)])
    with pytest.raises(InfeasibleAction, match="time 0: job 1 node 0 cannot be assigned to executor 1: it is down"):
        simulate(cluster, Scripted([(0, Assign(1, 0, 1))]))


def test_a_cluster_that_does_not_plan_ahead_says_so() -> None:
    message = "time 0: job 1 node 1 cannot be assigned: it has parents that have not finished, and the cluster does not"
    with pytest.raises(InfeasibleAction, match=message):
        simulate(cluster_of([chain(1), Job(2, [1])], 2), Scripted([(0, [FIRST, Assign(1, 1, 0)])]))


def test_a_duplicate_needs_inputs_of_its_own() -> None:
    """The result of node 0 is lost after node 1 has received it, so that node 1 cannot have a second copy."""
    cluster = cluster_of([chain(0, 9), Job(2, [1])], 3, [Outage(1.5, 90, 0b001)])
    agent = Scripted([(0, FIRST), (1, Assign(1, 1, 1)), (1.5, Assign(2, 0, 2, ())), (2, Assign(1, 2, 2, (1,)))])
    message = r"time 2\.0: job 1 node 2 cannot be assigned: parent 0 of its duplicated parent 1 has no copy"
    with pytest.raises(InfeasibleAction, match=message):
        simulate(cluster, agent)


def test_a_job_that_has_ended_is_not_in_the_system() -> None:
    cluster = cluster_of([Job(1, [1]), Job(2, [2])], 2)
    agent = Scripted([(0, FIRST)])
    agent.script.append((0, None))
    jobs = [Job(1, [1]), Job(2, [2], submission_time=1)]
    with pytest.raises(InfeasibleAction, match=r"time 1\.0: job 1 is not in the system"):
        simulate(cluster_of(jobs, 2), Scripted([(0, FIRST), (1, FIRST)]))
    assert simulate(cluster, agent).jobs["status"].to_list() == ["completed", "queued"]


def test_what_came_before_in_a_list_is_carried_out() -> None:
    with pytest.raises(InfeasibleAction, match="job 9 is not in the system") as caught:
        simulate(cluster_of([chain(1)], 2), Scripted([(0, [FIRST, Assign(9, 0, 0), FIRST])]))
    assert outcomes(caught.value.result, 1) == [(0, 0, 0, None, "running")]  # type: ignore[attr-defined]


def test_a_refused_place_changes_nothing() -> None:
    """A copy that does not fit, with its duplicate, leaves no trace: what is observed afterwards is as before."""
    simulation = Simulation(cluster_of([chain(1, 1)], 2, plan_ahead=True))

    def seen(observation: Any) -> Any:
        state = observation.jobs[1]
        copies = [len(copies) for copies in state.copies]
        ready = [state.ready_times(node).tolist() for node in range(3)]
        gaps = [[*table.gaps] for table in observation.timetables.values()]
        return copies, state.assigned.tolist(), ready, observation.available_times.tolist(), gaps

    decision = simulation.advance()
    assert decision is not None
    decision.answer(assign((0, 0), (1, 1)))
    decision = simulation.advance()
    assert decision is not None
    before = seen(decision.observation)
    decision.answer(Assign(1, 2, 1, (0,), 0))
    with pytest.raises(InfeasibleAction, match="it does not fit into the idle time there"):
        simulation.advance()
    assert seen(decision.observation) == before


def test_errors_of_agents_keep_the_records() -> None:
    class Failing(Scripted):
        def act(self, observation: Any) -> Any:
            if observation.time == 1:
                raise RuntimeError("out of ideas")
            return super().act(observation)

    with pytest.raises(RuntimeError, match="out of ideas") as caught:
        simulate(cluster_of([chain(1)], 2), Failing([(0, FIRST)]))
    result = caught.value.result  # type: ignore[attr-defined]
    assert (result.info["status"], result.info["end_time"]) == ("failed", 1)
    assert outcomes(result, 1) == [(0, 0, 0, 1, "completed")]
    assert result.jobs.select("starting_time", "finish_time", "status").rows() == [(0, None, "running")]


def test_numbers_of_numpy_will_do() -> None:
    answers = [
        Assign(np.int64(1), np.int32(0), np.intp(1)),
        Assign(np.int64(1), np.int64(1), np.uint8(0), (np.int64(0),), np.int64(0)),
    ]
    result = simulate(cluster_of([chain(9)], 2), Scripted([(0, answers[0]), (1, answers[1])]))
    rows = [(0, 1, 0, 1, "completed"), (0, 0, 1, 2, "completed"), (1, 0, 2, 3, "completed")]
    assert outcomes(result, 1) == rows
