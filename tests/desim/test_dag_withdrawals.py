"""What is withdrawn when executors fail, and processes that let them fail."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import simpy
from dag_scripts import assign, chain, outcomes, run

from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, Job
from desim.processes import Outage


def test_withdrawals_go_down_the_chain_of_what_is_planned() -> None:
    job = chain(1, 1, 1)
    script = [(0, assign((0, 0), (1, 1), (2, 2), (3, 1))), (0.5, assign((0, 1), (1, 1), (2, 2), (3, 2)))]
    result, agent = run([job], script, [Outage(0.5, 90, 0b001)], num_executors=3, plan_ahead=True)
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
    result, agent = run([chain(1, 1)], script, [Outage(0.5, 90, 0b001)], num_executors=3, plan_ahead=True)
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
    result, _ = run([job], script, [Outage(5, 90, 0b01)], plan_ahead=True)
    assert outcomes(result, 1) == [
        (0, 0, 0, 5, "interrupted"),
        (1, 1, None, None, "withdrawn"),
        (0, 1, 5, 15, "completed"),
        (1, 1, 15, 16, "completed"),
    ]


def test_only_the_failed_part_of_a_plan_is_withdrawn() -> None:
    job = Job(1, [2, 2, 2], [(0, 2, 1), (1, 2, 1)])
    script = [(0, assign((0, 0), (1, 1), (2, 1))), (1, assign((0, 1), (2, 1)))]
    result, agent = run([job], script, [Outage(1, 90, 0b01)], plan_ahead=True)
    assert agent.seen == [(0, [(1, 0), (1, 1)]), (1, [(1, 0)])]
    assert outcomes(result, 1)[2:] == [
        (1, 1, 0, 2, "completed"),
        (0, 1, 2, 4, "completed"),
        (2, 1, 4, 6, "completed"),
    ]


def fails(*moments: tuple[float, str, int]) -> Any:
    """Return a process that fails and repairs executors at plain times."""

    def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
        for time, what, units in moments:
            yield cluster.env.timeout(time - cluster.env.now)
            getattr(cluster, what)(units)

    return process


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ((1, "fail", 0b100), "the set 0x4 does not lie within the 2 executors of the cluster"),
        ((1, "fail", -1), "the set -0x1 does not lie within the 2 executors of the cluster"),
        ((1, "repair", 0b10), "executor 1 cannot be repaired at time 1: it is not down"),
    ],
)
def test_failures_and_repairs_that_cannot_be(moment: tuple[float, str, int], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        run([Job(1, [5])], [(0, assign((0, 0)))], processes=[fails(moment)])


def test_a_failure_and_a_repair_at_one_instant_interrupt() -> None:
    process = fails((2, "fail", 1), (2, "repair", 1))
    result, _ = run([Job(1, [5])], [(0, assign((0, 0))), (2, assign((0, 0)))], processes=[process])
    assert outcomes(result, 1) == [(0, 0, 0, 2, "interrupted"), (0, 0, 2, 7, "completed")]


def test_what_is_behind_a_withdrawn_copy_starts_when_that_is_withdrawn() -> None:
    script = [(0, assign((0, 0))), (1, [*assign((1, 1)), Assign(2, 0, 1)])]
    result, _ = run([chain(100), Job(2, [3])], script, [Outage(15, 99, 0b01)], until=50)
    assert outcomes(result, 2) == [(0, 1, 15, 18, "completed")]


def test_what_is_behind_the_copy_of_a_job_that_has_ended_starts_then() -> None:
    job = Job(1, [1, 5], [(0, 1, 100)])
    script = [(0, assign((0, 0))), (1, [*assign((1, 0), (1, 1)), Assign(2, 0, 1)])]
    result, _ = run([job, Job(2, [3])], script)
    assert outcomes(result, 2) == [(0, 1, 6, 9, "completed")]


def test_data_that_were_sent_to_an_executor_are_lost_with_it() -> None:
    """They arrive at 4, before node 1 is assigned at 6; executor 1 is down from 5 to 6."""
    script = [(0, assign((0, 0))), (6, assign((1, 1)))]
    result, _ = run([chain(3)], script, [Outage(5, 6, 0b10)])
    assert outcomes(result, 1)[1:] != [(1, 1, 6, 7, "completed")]
