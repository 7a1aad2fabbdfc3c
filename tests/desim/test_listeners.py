"""Who listens hears everything, in order, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from deferrable_agents import FirstFit as FirstThatFit
from deferrable_agents import Scripted as Answers
from small_agents import make_jobs, random_jobs

from desim import InvalidConfiguration, Result, simulate
from desim.agents.batch import FCFS
from desim.problems import deferrable
from desim.problems.batch import BatchCluster, Execution, Job
from desim.problems.deferrable import DeferrableCluster, SlotOutcome
from desim.processes import Outage, planned_outages


def test_every_event_with_its_time_and_subject() -> None:
    jobs = make_jobs((0.0, 1, 5.0), (1.0, 9, 5.0))
    cluster = BatchCluster(jobs, 2, too_wide="reject", processes=[planned_outages([Outage(2.0, 3.0, cores=[0])])])
    heard: list[tuple[float, str, Any]] = []
    for event in cluster.events:
        cluster.on(event, lambda time, subject, event=event: heard.append((time, event, subject)))
    simulate(cluster, FCFS())
    assert [(time, event) for time, event, _ in heard] == [
        (0, "arrival"),
        (0, "start"),
        (1, "rejection"),
        (2, "interruption"),
        (2, "outage"),
        (2, "start"),
        (3, "repair"),
        (7, "completion"),
    ]
    subjects = {event: subject for _, event, subject in heard}
    assert subjects["arrival"] == jobs[0]
    assert subjects["rejection"] == jobs[1]
    assert subjects["outage"] == subjects["repair"] == (0,)
    for event, start, cores in (("interruption", 0, 0b01), ("start", 2, 0b10), ("completion", 2, 0b10)):
        execution = subjects[event]
        assert isinstance(execution, Execution)
        assert (execution.job, execution.starting_time, execution.cores) == (jobs[0], start, cores)
        assert execution.expected_end == start + 5


def test_every_event_of_a_cluster_for_deferrable_jobs() -> None:
    first, second, third = (
        deferrable.Job(1, 0, 0, 2, 1, 1),
        deferrable.Job(2, 0, 0, 1, 5, 3),
        deferrable.Job(3, 0.5, 1, 1, 2, 1),
    )
    cluster = DeferrableCluster([first, second, third], [4, 1], eviction="restarted")
    heard: list[tuple[float, str, Any]] = []
    for event in cluster.events:
        cluster.on(event, lambda time, subject, event=event: heard.append((time, event, subject)))
    simulate(cluster, Answers([1, 0], None))  # the first ends when the capacity falls, and the second must go
    assert [item for item in heard if item[1] != "slot"] == [
        (0, "arrival", first),
        (0, "arrival", second),
        (0, "start", second),
        (0, "start", first),
        (0.5, "arrival", third),
        (1, "completion", first),
        (1, "eviction", second),
        (1, "expiry", third),
        (1, "expiry", second),
    ]
    begin, end = (subject for _, event, subject in heard if event == "slot")
    assert isinstance(end, SlotOutcome)
    assert [event for time, event, _ in heard if time == 1] == ["completion", "eviction", "expiry", "expiry", "slot"]
    assert (begin.slot, list(begin.started), list(begin.expired), list(begin.evicted)) == (0, [second, first], [], [])
    assert (end.slot, list(end.started), list(end.expired), list(end.evicted)) == (1, [], [third, second], [second])
    assert (begin.revenue, begin.delay, begin.reward) == (16, 0, 16)
    assert (end.revenue, end.delay, end.reward) == (-15, 0, -15)
    amounts = [(one.capacity.tolist(), one.used.tolist(), one.violation.tolist()) for one in (begin, end)]
    assert amounts == [([4], [4], [0]), ([1], [0], [0])]
    assert end.evicted.starting_time.tolist() == [0]
    assert end.evicted.evictions.tolist() == end.expired.evictions.tolist()[1:] == [1]


def test_several_listeners_are_called_in_the_order_of_their_coming() -> None:
    heard: list[str] = []
    cluster = BatchCluster(make_jobs((0.0, 1, 5.0)), 1)
    for label in "abc":
        cluster.on("start", lambda time, execution, label=label: heard.append(label))
    simulate(cluster, FCFS())
    assert heard == ["a", "b", "c"]


def test_listening_changes_nothing() -> None:
    silent, loud = (BatchCluster(random_jobs(50, 4), 4) for _ in range(2))
    for event in loud.events:
        loud.on(event, lambda time, subject: None)
    assert simulate(silent, FCFS()).jobs.equals(simulate(loud, FCFS()).jobs)


def test_listening_changes_nothing_for_deferrable_jobs() -> None:
    def run(loud: bool) -> Result:
        jobs = [deferrable.Job(n, n / 4, 1 + n // 4, 4 + n // 3, 1 + n % 5, 1 + n % 3) for n in range(60)]
        cluster = DeferrableCluster(jobs, [9, 4, 12, 2] * 5, eviction="restarted")
        for event in cluster.events if loud else ():
            cluster.on(event, lambda time, subject: None)
        return simulate(cluster, FirstThatFit())

    silent, loud = run(loud=False), run(loud=True)
    assert silent.table("evictions").height > 5
    for name in silent.table_names:
        assert silent.table(name).equals(loud.table(name))


def test_an_event_that_does_not_exist() -> None:
    with pytest.raises(InvalidConfiguration, match=r"batch has no event 'finish'; expected one of arrival.*completion"):
        BatchCluster([], 1).on("finish", lambda time, subject: None)


def test_a_listener_that_fails_ends_the_run() -> None:
    def listener(time: float, job: Job) -> None:
        raise LookupError("not in my list")

    cluster = BatchCluster(make_jobs((3.0, 1, 5.0)), 1)
    cluster.on("arrival", listener)
    with pytest.raises(LookupError, match="not in my list"):
        simulate(cluster, FCFS())
