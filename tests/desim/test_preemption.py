"""Preemption by quality of service: known answers, what is refused, what agents see, records, metrics and forks."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from desim import InfeasibleAction, InvalidConfiguration, WorkloadError, simulate
from desim.agents.batch import FCFS, Multifactor, PreemptiveAgent, create
from desim.core import Simulation
from desim.problems.batch import (
    AdvanceReservation,
    BatchCluster,
    BatchObservation,
    Job,
    Node,
    QualityOfService,
    Request,
    StartPreempting,
)
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from tests.jobs import with_fields

SERVICE = {1: "standby", 2: "standby", 3: "urgent"}
JOBS = [Job(1, 0.0, 4, 100.0, 100.0, 1), Job(2, 5.0, 4, 80.0, 70.0, 2), Job(3, 10.0, 5, 50.0, 30.0, 3)]


def qos(mode: Any = "requeue") -> list[QualityOfService]:
    """Return urgent jobs, which preempt those that stand by."""
    return [QualityOfService("urgent", 10.0, ("standby",)), QualityOfService("standby", mode=mode)]


def cluster(
    mode: Any = "requeue", jobs: Any = JOBS, cores: int = 8, qos_of: Any = SERVICE, **options: Any
) -> BatchCluster:
    """Return a cluster on which urgent jobs preempt others."""
    options = {"num_cores": cores, "qos": qos(mode)} | options
    return BatchCluster(with_fields(jobs, qos=qos_of), **options)


def rows(result: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the jobs."""
    return result.jobs.select("job_id", *columns).rows()  # type: ignore[no-any-return]


class Answers:
    """An agent that gives one answer after the other, and then waits."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.seen: list[Any] = []

    def act(self, observation: BatchObservation) -> Any:
        """Answer."""
        running = observation.running
        columns = running.row, running.requested_cores, running.expected_end
        self.seen.append((observation.time, *(column.tolist() for column in columns), observation.suspended))
        return self.answers.pop(0) if self.answers else None


def test_what_is_requeued_begins_anew() -> None:
    result = simulate(cluster(), create("preemptive-easy"))
    assert rows(result, "starting_time", "finish_time", "attempts") == [
        (1, 40.0, 140.0, 2),
        (2, 40.0, 110.0, 2),
        (3, 10.0, 40.0, 1),
    ]
    cuts = result.table("interruptions").select("job_id", "starting_time", "finish_time", "outcome").rows()
    assert cuts == [(1, 0.0, 10.0, "preempted"), (2, 5.0, 10.0, "preempted")]
    assert result.table("preemptions").rows() == [(10.0, 1, 3, "requeue", 0, 2), (10.0, 2, 3, "requeue", 1, 2)]
    found = result.metrics()
    assert (found["preemptions"], found["interruptions"], found["wasted_core_seconds"]) == (2, 0, 60.0)
    assert found["waiting_time_mean"] == (30 + 30 + 0) / 3  # jobs 1 and 2 ran for 10 s and 5 s before
    assert validate(result, JOBS).ok


def test_what_is_suspended_goes_on_where_it_was() -> None:
    result = simulate(cluster("suspend"), create("preemptive-easy"))
    assert rows(result, "starting_time", "execution_time", "finish_time", "allocated_resources") == [
        (1, 40.0, 90.0, 130.0, "0-3"),
        (2, 40.0, 65.0, 105.0, "4-7"),
        (3, 10.0, 30.0, 40.0, "0-4"),
    ]
    found = result.metrics()
    assert (found["preemptions"], found["wasted_core_seconds"]) == (2, 0.0)
    assert found["waiting_time_mean"] == (30 + 30 + 0) / 3  # while they did not run
    assert found["slowdown_mean"] == pytest.approx((130 / 100 + 100 / 70 + 1) / 3)
    assert found["busy_core_seconds"] == 4 * 100 + 4 * 70 + 5 * 30
    assert validate(result, JOBS).ok


def test_as_few_as_needed_are_taken_the_least_important_and_the_youngest_first() -> None:
    some = [QualityOfService("urgent", 10.0, ("a", "b")), QualityOfService("a", 2.0), QualityOfService("b", 1.0)]
    jobs = [Job(n, float(n), 2, 100.0, 100.0) for n in range(4)] + [Job(4, 9.0, 3, 10.0, 10.0)]
    names = {0: "a", 1: "b", 2: "b", 3: "a", 4: "urgent"}
    result = simulate(BatchCluster(with_fields(jobs, qos=names), 8, qos=some), create("preemptive-fcfs"))
    assert result.table("preemptions")["job_id"].to_list() == [1, 2]
    jobs[4] = jobs[4]._replace(requested_cores=2)
    result = simulate(BatchCluster(with_fields(jobs, qos=names), 8, qos=some), create("preemptive-fcfs"))
    assert result.table("preemptions")["job_id"].to_list() == [2]
    # the youngest of the least important is of no use once a wider, older one has to go anyway
    jobs[1], jobs[2] = Job(1, 1.0, 3, 100.0, 100.0), Job(2, 2.0, 1, 100.0, 100.0)
    jobs[4] = jobs[4]._replace(requested_cores=3)
    result = simulate(BatchCluster(with_fields(jobs, qos=names), 8, qos=some), create("preemptive-fcfs"))
    assert result.table("preemptions")["job_id"].to_list() == [1]


def test_nobody_behind_the_first_job_preempts() -> None:
    """Job 2 has no room in any case, since job 5 has no quality, and job 3 would keep it waiting."""
    jobs = [
        Job(1, 0.0, 4, 50.0, 50.0),
        Job(5, 0.0, 4, 80.0, 80.0),
        Job(2, 1.0, 8, 50.0, 50.0),
        Job(3, 2.0, 2, 9.0, 9.0),
    ]
    names = {1: "standby", 2: "urgent", 3: "urgent"}
    result = simulate(cluster(jobs=jobs, qos_of=names), create("preemptive-fcfs"))
    assert result.table("preemptions").is_empty()
    assert sorted(rows(result, "starting_time")) == [(1, 0.0), (2, 80.0), (3, 130.0), (5, 0.0)]


@pytest.mark.parametrize(
    "agent", ["preemptive-fcfs", "preemptive-backfilling", "preemptive-easy", "preemptive-conservative"]
)
@pytest.mark.parametrize("mode", ["requeue", "suspend"])
@pytest.mark.parametrize("nodes", [False, True])
def test_without_qualities_it_is_the_agent_that_is_wrapped(agent: str, mode: str, nodes: bool) -> None:
    options: Any = {"nodes": Node.several(2, 4)} if nodes else {"num_cores": 8}
    alone = simulate(BatchCluster(JOBS, **options), create(agent.removeprefix("preemptive-")))
    assert simulate(BatchCluster(JOBS, **options), create(agent)).jobs.equals(alone.jobs)
    known = BatchCluster(with_fields(JOBS, qos=SERVICE), **options, qos=qos(mode))
    assert simulate(known, create(agent.removeprefix("preemptive-"))).jobs.equals(alone.jobs)  # nobody preempts


def test_agents_see_when_lent_cores_are_free() -> None:
    """Job 3 has no core of its own: it runs on four cores of job 1, which goes on at 60 s, and on one of job 2."""
    agent = Answers(0, 1, StartPreempting(2, (0, 1)))
    simulate(cluster("suspend", [*JOBS, Job(4, 20.0, 1, 5.0, 5.0)]), agent, until=90.0)
    time, jobs, cores, ends, suspended = agent.seen[-3]
    assert time == 20.0 and sorted(suspended) == [0, 1]
    assert dict(zip(jobs, zip(cores, ends, strict=True), strict=True)) == {
        2: (0, 60.0),
        0: (4, 60.0 + 90.0),
        1: (4, 60.0 + 75.0),
    }
    for place, count in (
        (-2, 2),
        (-1, 0),
    ):  # job 3 has ended; the others go on right after this, and the agent is asked again
        time, jobs, cores, ends, suspended = agent.seen[place]
        assert (time, len(suspended)) == (40.0, count)
        assert dict(zip(jobs, ends, strict=True)) == {0: 130.0, 1: 115.0}


def test_others_do_not_get_what_a_suspended_job_keeps() -> None:
    jobs = [
        Job(1, 0.0, 8, 100.0, 100.0),
        Job(3, 10.0, 5, 50.0, 30.0),
        Job(4, 11.0, 1, 1.0, 1.0),
        Job(5, 12.0, 3, 9.0, 9.0),
    ]
    names = {1: "standby", 3: "urgent", 5: "urgent"}
    result = simulate(cluster("suspend", jobs, qos_of=names), create("preemptive-backfilling"))
    assert rows(result, "starting_time", "allocated_resources") == [
        (1, 40.0, "0-7"),
        (3, 10.0, "0-4"),
        (4, 130.0, "0"),
        (5, 12.0, "5-7"),  # may preempt job 1, too, and takes nobody off
    ]
    assert result.table("preemptions").height == 1
    assert validate(result, jobs).ok


def test_who_preempts_may_be_preempted() -> None:
    """Whoever lies on top of a pile goes on first."""
    some = [
        QualityOfService("c", 3.0, ("a", "b")),
        QualityOfService("b", 2.0, ("a",), "suspend"),
        QualityOfService("a", 1.0, (), "suspend"),
    ]
    jobs = [Job(1, 0.0, 4, 100.0, 100.0), Job(2, 10.0, 4, 50.0, 50.0), Job(3, 20.0, 2, 10.0, 10.0)]
    jobs = with_fields(jobs, qos={1: "a", 2: "b", 3: "c"})
    result = simulate(BatchCluster(jobs, 4, qos=some), create("preemptive-fcfs"))
    assert rows(result, "starting_time", "finish_time") == [(1, 70.0, 160.0), (2, 30.0, 70.0), (3, 20.0, 30.0)]
    assert validate(result, jobs).ok


def test_checkpoints_keep_what_was_done_before_and_after_suspensions() -> None:
    """Job 1 runs for 10 s, is suspended for 30 s, runs for 5 s, and loses what goes beyond whole intervals of 4 s."""
    outage = planned_outages([Outage(45.0, 50.0, cores=[0])])
    jobs = [JOBS[0], JOBS[2]]
    result = simulate(
        cluster("suspend", jobs, 5, checkpoint_interval=4.0, processes=[outage]), create("preemptive-fcfs")
    )
    cuts = result.table("interruptions").select("finish_time", "work_before", "work_after").rows()
    assert cuts == [(10.0, 0.0, 10.0), (45.0, 10.0, 12.0)]
    assert rows(result, "starting_time", "execution_time")[0] == (1, 45.0, 88.0)
    assert result.metrics()["wasted_core_seconds"] == 4 * 3.0  # of 10 + 5 s, 12 are kept
    assert validate(result, jobs).ok


def test_the_same_schedule_has_the_same_metrics_by_suspension_and_by_checkpoints() -> None:
    """Job 1 runs for 10 s and for 90 s; between them job 3 has its cores."""
    jobs = [JOBS[0], JOBS[2]]
    ways = cluster("suspend", jobs, 5), cluster("requeue", jobs, 5, checkpoint_interval=1.0)
    results = [simulate(way, create("preemptive-fcfs")) for way in ways]
    for result in results:
        assert rows(result, "starting_time", "execution_time") == [(1, 40.0, 90.0), (3, 10.0, 30.0)]
        assert validate(result, jobs).ok
    for options in ({}, {"warm_up": 7.0}, {"window": (5.0, 60.0)}, {"unfinished": "include"}):
        suspended, requeued = (result.metrics(**options) for result in results)
        for name in ("queue_length_mean", "queue_length_max", "queued_load_mean"):
            assert suspended.pop(name) < requeued.pop(name)  # a suspended job is not queued
        assert suspended == requeued
    assert suspended["wasted_core_seconds"] == 0.0
    assert (suspended["waiting_time_max"], suspended["slowdown_max"]) == (30.0, 1.3)
    assert [result.metrics()["queue_length_max"] for result in results] == [0.0, 1.0]


def test_an_outage_cuts_suspended_jobs_and_leaves_the_others_their_cores() -> None:
    outage = planned_outages([Outage(20.0, 25.0, cores=[7])])
    result = simulate(cluster("suspend", processes=[outage]), create("preemptive-easy"))
    cuts = result.table("interruptions").select("job_id", "starting_time", "finish_time", "outcome").rows()
    assert (2, 20.0, 20.0, "requeued") in cuts  # the core is its own, though nobody ran on it
    assert rows(result, "starting_time", "allocated_resources")[2] == (3, 10.0, "0-4")
    assert rows(result, "starting_time", "execution_time")[1] == (2, 40.0, 70.0)
    assert validate(result, JOBS).ok


def test_jobs_that_are_suspended_when_a_run_ends_are_queued() -> None:
    result = simulate(cluster("suspend"), create("preemptive-easy"), until=20.0)
    assert rows(result, "status", "attempts") == [(1, "queued", 1), (2, "queued", 1), (3, "running", 1)]
    assert validate(result, JOBS).ok


def test_time_and_grace_count_across_suspensions() -> None:
    jobs = [Job(1, 0.0, 4, 20.0, 40.0), JOBS[2]]
    result = simulate(cluster("suspend", jobs, 5, over_time_limit=5.0), create("preemptive-fcfs"))
    assert rows(result, "starting_time", "execution_time", "status")[0] == (1, 40.0, 15.0, "killed")
    assert validate(result, jobs).ok
    result = simulate(cluster("suspend", jobs, 5, enforce_time_limit=False), create("preemptive-fcfs"))
    assert rows(result, "starting_time", "execution_time", "status")[0] == (1, 40.0, 30.0, "completed")
    assert validate(result, jobs).ok


def test_windows_are_left_alone() -> None:
    reservations = [AdvanceReservation(50.0, 60.0, 6)]
    result = simulate(cluster(reservations=reservations, jobs=JOBS), create("preemptive-easy"))
    assert result.table("preemptions").is_empty()  # job 3 requests 50 s, and eight cores less six are too few
    assert validate(result, JOBS).ok


def test_suspended_jobs_keep_memory_and_gpus_on_nodes() -> None:
    nodes = [Node("n", 4, memory=10, gpus=1)]
    jobs = [
        Job.of_tasks(1, 0.0, Request(cores=4, memory=6, gpus=1), 100.0, 100.0),
        Job.of_tasks(2, 10.0, Request(cores=2, memory=5), 10.0, 10.0),
        Job.of_tasks(3, 20.0, Request(cores=2, memory=4), 10.0, 10.0),
    ]
    names = {1: "standby", 2: "urgent", 3: "urgent"}
    jobs = with_fields(jobs, qos=names)
    suspends: Any = {"nodes": nodes, "qos": qos("suspend")}
    result = simulate(BatchCluster(jobs, **suspends), create("preemptive-fcfs"))
    assert result.table("preemptions").is_empty()  # job 2, which comes first, finds no memory, and job 3 waits for it
    requeues = suspends | {"qos": qos("requeue")}
    result = simulate(BatchCluster(jobs, **requeues), create("preemptive-fcfs"))
    assert rows(result, "starting_time") == [(1, 30.0), (2, 10.0), (3, 20.0)]
    result = simulate(BatchCluster([jobs[0], jobs[2]], **suspends), create("preemptive-fcfs"))
    assert rows(result, "starting_time") == [(1, 30.0), (3, 20.0)]
    assert validate(result, [jobs[0], jobs[2]]).ok
    assert result.table("preemptions").height == 1


def test_a_job_that_is_alone_lends_nothing() -> None:
    jobs = [
        Job.of_tasks(1, 0.0, Request(cores=2, exclusive=True), 50.0, 50.0),
        Job.of_tasks(3, 9.0, Request(cores=1), 9.0, 9.0),
    ]
    jobs = with_fields(jobs, qos=SERVICE)
    site = {"qos": qos("suspend")}
    result = simulate(BatchCluster(jobs, nodes=Node.several(1, 4), **site), create("preemptive-fcfs"))
    assert rows(result, "starting_time") == [(1, 0.0), (3, 50.0)]
    site = {"qos": qos("requeue")}
    result = simulate(BatchCluster(jobs, nodes=Node.several(1, 4), **site), create("preemptive-fcfs"))
    assert rows(result, "starting_time") == [(1, 18.0), (3, 9.0)]


class Watching(Answers):
    """Looks at what is free on the nodes."""

    def act(self, observation: BatchObservation) -> Any:
        """Answer."""
        nodes = observation.nodes
        assert nodes is not None
        held = {row: nodes.allocation_of(row)[0].amounts[0] for row in observation.running.row.tolist()}
        self.seen.append((observation.time, nodes.room.free[:, 0].tolist(), held))
        return self.answers.pop(0) if self.answers else None


def test_lent_cores_count_once_on_nodes() -> None:
    agent = Watching(0, StartPreempting(1, (0,)))
    jobs = [JOBS[0], JOBS[2], Job(4, 20.0, 1, 5.0, 5.0)]
    simulate(cluster("suspend", jobs, num_cores=None, nodes=Node.several(1, 7)), agent, until=30.0)
    assert agent.seen[1] == (10.0, [3], {0: 4})
    assert agent.seen[-1] == (20.0, [0], {0: 4, 1: 3})  # two of the five cores of job 3 are those of job 1


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            [0, 1, StartPreempting(2, (3,))],
            "time 10.0: job 3 cannot start: row 3, which it would preempt, is not the row of a running job",
        ),
        (
            [0, 1, StartPreempting(2, (0, 0))],
            r"job 3 cannot start: victims: got \(0, 0\), expected a tuple of distinct rows of jobs",
        ),
        (
            [0, 1, StartPreempting(2, (0,))],
            "job 3 cannot start: it requests 5 cores, which would not be free even without job 1",
        ),
        ([0, StartPreempting(1, (0,))], "its QOS is 'standby', which does not preempt 'standby', the QOS of job 1"),
        ([StartPreempting(7, (0,))], "is not the row of a queued job"),
    ],
)
def test_what_is_refused(answers: list[Any], message: str) -> None:
    with pytest.raises(InfeasibleAction, match=message):
        simulate(cluster(), Answers(*answers))
    simulate(cluster(infeasible="forward"), Answers(*answers), until=30.0)


def test_preemption_takes_qualities() -> None:
    with pytest.raises(InfeasibleAction, match="it preempts others, but the cluster has no qualities"):
        simulate(BatchCluster(JOBS, 8), Answers(StartPreempting(0, ())))
    with pytest.raises(InfeasibleAction, match="its QOS is 'urgent', which does not preempt none"):
        simulate(cluster(qos_of={3: "urgent"}), Answers(0, 1, StartPreempting(2, (0, 1))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: QualityOfService("a", mode="stop"),
            "the mode of QOS 'a': got 'stop', expected one of 'requeue', 'suspend'",
        ),  # type: ignore[arg-type]
        (lambda: QualityOfService("a", -1.0), r"the priority of QOS 'a': got -1\.0, expected a finite number >= 0"),
        (lambda: QualityOfService(""), "the name of a QOS: got '', expected a nonempty string"),
        (
            lambda: QualityOfService("a", preempts="b"),
            r"QOS 'a': preempts: got 'b', expected a tuple; try \('b',\)",
        ),
        (lambda: QualityOfService("a", preempts=("a",)), "QOS 'a' preempts itself"),
        (
            lambda: cluster(qos=[QualityOfService("urgent", 1.0, ("x",))]),
            "QOS 'urgent': preempts: got 'x', expected one of: urgent",
        ),
        (lambda: cluster(qos=[*qos(), *qos()]), "qos: the name 'urgent' occurs twice"),
        (lambda: cluster(qos=["urgent"]), "qos: got 'urgent', expected QualityOfService objects"),
        (
            lambda: cluster(
                qos=[QualityOfService(*one) for one in (("a", 1.0, ("b",)), ("b", 1.0, ("c",)), ("c", 1.0, ("a",)))]
            ),
            "QOS levels preempt each other: a preempts b preempts c preempts a",
        ),
        (lambda: PreemptiveAgent(Answers()), "expected one with a priority order"),
    ],
)
def test_what_makes_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make()


def test_an_unknown_quality_is_told_of_lists_and_of_streams() -> None:
    message = r"job 1: qos: got 'stand-by' \(did you mean 'standby'\?\), expected one of: urgent, standby"
    with pytest.raises(WorkloadError, match=message):
        cluster(qos_of={1: "stand-by"})
    with pytest.raises(WorkloadError, match=message):
        simulate(BatchCluster(iter(with_fields(JOBS, qos={1: "stand-by"})), 8, qos=qos()), create("fcfs"))
    simulate(cluster(qos=[]), create("fcfs"))  # a cluster without qualities has no use for them


def test_multifactor_knows_the_priority_of_qualities() -> None:
    weights: Any = dict.fromkeys(("age", "size", "fair_share", "partition"), 0.0)
    jobs = [Job(0, 0.0, 4, 9.0, 9.0)] + [Job(n, 1.0, 4, 9.0, 9.0) for n in (1, 2, 3, 4)]
    some = [QualityOfService("a", 5.0), QualityOfService("b", 20.0), QualityOfService("c")]
    jobs = with_fields(jobs, qos={1: "c", 2: "a", 3: "b"})
    result = simulate(BatchCluster(jobs, 4, qos=some), Multifactor(qos=100.0, **weights))
    assert sorted(rows(result, "starting_time"), key=lambda row: row[1]) == [
        (0, 0.0),
        (3, 9.0),
        (2, 18.0),
        (1, 27.0),
        (4, 36.0),
    ]
    simulation = Simulation(BatchCluster(jobs, 4, qos=some))
    while (decision := simulation.advance()) is not None and simulation.env.now < 9.0:
        decision.answer(FCFS().act(decision.observation))
    assert decision is not None
    priority = Multifactor(qos=100.0, **weights)
    priority.look(decision.observation)
    assert priority.scores(decision.observation.queue, 9.0).tolist() == [0.0, -25.0, -100.0, 0.0]


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("foresight", [True, False])
def test_forks_go_on_alike(foresight: bool, nodes: bool) -> None:
    jobs = [*JOBS, Job(4, 20.0, 1, 5.0, 5.0), Job(5, 90.0, 1, 5.0, 5.0)]
    options: Any = {"num_cores": None, "nodes": Node.several(2, 4)} if nodes else {}
    simulation, agent = Simulation(cluster("suspend", jobs, **options)), create("preemptive-easy")
    while (decision := simulation.advance()) is not None and simulation.env.now < 20.0:
        decision.answer(agent.act(decision.observation))
    fork = simulation.fork(foresight=foresight)
    assert not fork.replayed
    results = []
    for one in (simulation, fork):
        while (decision := one.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        results.append(one.finish())
    assert validate(results[0], jobs).ok
    ends = dict(rows(results[1], "finish_time"))
    if foresight:
        assert results[0].jobs.equals(results[1].jobs)
        assert results[0].table("preemptions").equals(results[1].table("preemptions"))
    else:  # jobs run for as long as they request, before and after they are suspended
        assert (ends[3], ends[1], ends[2]) == (60.0, 150.0, 135.0) and 5 not in ends


def test_an_agent_that_has_looked_at_a_run_can_be_copied() -> None:
    simulation, agent = Simulation(cluster("suspend")), create("preemptive-multifactor")
    while (decision := simulation.advance()) is not None and simulation.env.now < 10.0:
        decision.answer(agent.act(decision.observation))
    results = []
    for one, other in ((simulation.fork(foresight=True), copy.deepcopy(agent)), (simulation, agent)):
        while (decision := one.advance()) is not None:
            decision.answer(other.act(decision.observation))
        results.append(one.finish().jobs)
    assert results[0].equals(results[1])


def test_users_use_nothing_while_suspended() -> None:
    class Asking(Answers):
        def act(self, observation: BatchObservation) -> Any:
            self.seen.append((observation.time, observation.usage(1e9).by_user(observation.time)))
            return self.answers.pop(0) if self.answers else None

    agent = Asking(0, 1, StartPreempting(2, (0, 1)))
    simulate(cluster("suspend", [*JOBS, Job(4, 30.0, 1, 5.0, 5.0)]), agent, until=35.0)
    assert agent.seen[-1][0] == 30.0
    assert agent.seen[-1][1] == pytest.approx({1: 40.0, 2: 20.0, 3: 100.0}, rel=1e-4)


def test_listeners_hear_of_all_segments() -> None:
    heard: list[Any] = []

    def listen(problem: BatchCluster) -> Any:
        for event in ("start", "interruption", "completion"):
            problem.on(event, lambda time, one, event=event: heard.append((time, event, one.job.job_id)))
        yield problem.env.timeout(0)

    simulate(cluster("suspend", [JOBS[0], JOBS[2]], 5, processes=[listen]), create("preemptive-fcfs"))
    of_first = [entry[:2] for entry in heard if entry[2] == 1]
    assert of_first == [(0.0, "start"), (10.0, "interruption"), (40.0, "start"), (130.0, "completion")]


def test_tables_without_preemptions_have_their_columns() -> None:
    result = simulate(cluster(), create("easy"))
    assert result.table("preemptions").is_empty()
    assert result.table("qos")["preempts"].to_list() == [["standby"], []]
    assert result.table("job_qos").select("job_id", "qos").rows() == [
        (1, "standby"),
        (2, "standby"),
        (3, "urgent"),
    ]
    assert result.metrics()["preemptions"] == 0
    assert "preemptions" not in simulate(BatchCluster(JOBS, 8), create("easy")).metrics()


@pytest.mark.parametrize("priorities", [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_who_preempts_needs_no_larger_number(priorities: tuple[float, float]) -> None:
    """Nothing starts only to be preempted at once: job 2 goes before job 1, which it may preempt."""
    high, low = priorities
    qos = [QualityOfService("high", high, preempts=("low",)), QualityOfService("low", low)]
    jobs = [Job(0, 0, 1, 10, 10), Job(1, 1, 1, 10, 10), Job(2, 2, 1, 5, 5)]
    problem = BatchCluster(with_fields(jobs, qos={0: "low", 1: "low", 2: "high"}), 1, qos=qos)
    result = simulate(problem, create("preemptive-fcfs"))
    assert rows(result, "starting_time", "attempts") == [(0, 7.0, 2), (1, 17.0, 1), (2, 2.0, 1)]
    assert result.table("interruptions").select("job_id", "starting_time", "finish_time").rows() == [(0, 0.0, 2.0)]
