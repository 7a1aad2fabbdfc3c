"""Grace times of preempted jobs: known answers, what agents see, what is refused, records, rules and forks."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest

from desim import InfeasibleAction, InvalidConfiguration, Result, WorkloadError, simulate
from desim.agents.batch import create
from desim.core import Simulation
from desim.problems.batch import BatchCluster, BatchObservation, Job, Node, QualityOfService, StartPreempting
from desim.problems.batch.parts.preemption.options import qos_of_text
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate

LONG = Job(1, 0.0, 4, 100.0, 100.0, qos="standby")
SHORT = Job(2, 5.0, 4, 80.0, 20.0, qos="standby")
URGENT = Job(3, 10.0, 8, 50.0, 30.0, qos="urgent")
JOBS = [LONG, SHORT, URGENT]


def qos(grace: float = 25.0, mode: Any = "requeue") -> list[QualityOfService]:
    """Return urgent jobs, which preempt those that stand by after a grace time."""
    return [
        QualityOfService("urgent", 10.0, ("standby",)),
        QualityOfService("standby", mode=mode, grace_time=grace),
    ]


def times(result: Any) -> list[tuple[Any, ...]]:
    """Return the last start and the end of each job."""
    return result.jobs.sort("job_id").select("job_id", "starting_time", "finish_time").rows()  # type: ignore[no-any-return]


class Answers:
    """Agent that gives one answer at each decision, and records what it sees."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[float, dict[int, Any]]] = []

    def act(self, observation: BatchObservation) -> Any:
        """Answer."""
        self.seen.append((observation.time, dict(observation.announced_preemptions)))
        return self.answers.pop(0) if self.answers else None


@pytest.mark.parametrize("nodes", [False, True])
def test_a_victim_runs_on_until_its_grace_time_is_over(nodes: bool) -> None:
    place: dict[str, Any] = {"nodes": [Node("a", 4), Node("b", 4)]} if nodes else {"num_cores": 8}
    result = simulate(BatchCluster(JOBS, qos=qos(), **place), create("preemptive-easy"))
    assert times(result) == [(1, 65.0, 165.0), (2, 5.0, 25.0), (3, 35.0, 65.0)]  # job 2 ends by itself
    assert result.table("preemptions").rows() == [(35.0, 1, 3, "requeue", 0, 2, 10.0)]
    assert result.table("qos")["grace_time"].to_list() == [0.0, 25.0]
    assert result.metrics()["wasted_core_seconds"] == 35.0 * 4
    assert validate(result, JOBS).ok


def test_a_suspended_victim_keeps_the_work_of_its_grace_time() -> None:
    result = simulate(BatchCluster(JOBS, 8, qos=qos(mode="suspend")), create("preemptive-easy"))
    assert times(result) == [(1, 65.0, 130.0), (2, 5.0, 25.0), (3, 35.0, 65.0)]
    assert validate(result, JOBS).ok


def test_nobody_is_preempted_if_the_victims_end_in_time() -> None:
    result = simulate(BatchCluster(JOBS, 8, qos=qos(200.0)), create("preemptive-easy"))
    assert times(result) == [(1, 0.0, 100.0), (2, 5.0, 25.0), (3, 100.0, 130.0)]
    assert result.table("preemptions").is_empty()
    assert validate(result, JOBS).ok


def test_a_victim_that_ends_at_the_end_of_its_grace_time_completes() -> None:
    result = simulate(BatchCluster(JOBS, 8, qos=qos(90.0)), create("preemptive-easy"))
    assert times(result)[0] == (1, 0.0, 100.0)
    assert result.table("preemptions").is_empty()


def test_the_longest_grace_time_of_the_victims_counts() -> None:
    levels = [QualityOfService("urgent", 10.0, ("standby", "patient")), *qos(5.0)[1:]]
    levels.append(QualityOfService("patient", grace_time=7.0))
    jobs = [LONG, Job(2, 5.0, 4, 80.0, 70.0, qos="patient"), URGENT]
    result = simulate(BatchCluster(jobs, 8, qos=levels), create("preemptive-easy"))
    assert result.table("preemptions").select("time", "job_id", "announced").rows() == [
        (17.0, 1, 10.0),
        (17.0, 2, 10.0),
    ]
    assert validate(result, jobs).ok


@pytest.mark.parametrize("nodes", [False, True])
def test_jobs_of_one_level_may_have_grace_times_of_their_own(nodes: bool) -> None:
    levels = [QualityOfService("urgent", 10.0, ("standby",)), QualityOfService("standby", grace_time="notice")]
    jobs = [LONG._replace(attributes={"notice": 12.0}), SHORT._replace(attributes={"notice": 8}), URGENT]
    place: dict[str, Any] = {"nodes": [Node("a", 4), Node("b", 4)]} if nodes else {"num_cores": 8}
    result = simulate(BatchCluster(jobs, qos=levels, **place), create("preemptive-easy"))
    assert result.table("preemptions").select("time", "job_id", "preempted_by", "announced").rows() == [
        (22.0, 1, 3, 10.0),
        (22.0, 2, 3, 10.0),
    ]
    assert result.table("job_qos")["grace_time"].to_list() == [12.0, 8.0, 0.0]
    assert result.table("qos")["grace_time"].to_list() == [0.0, None]
    assert result.info["grace_time"] == 12.0
    assert validate(result, jobs).ok


def test_a_single_victim_has_its_own_grace_time() -> None:
    levels = [QualityOfService("urgent", 10.0, ("standby",)), QualityOfService("standby", grace_time="notice")]
    for notice, start in ((0.0, 10.0), (3, 13.0), (95.0, 100.0)):  # it ends by itself at 100 s
        jobs = [Job(1, 0.0, 8, 100.0, 100.0, qos="standby", attributes={"notice": notice}), URGENT]
        result = simulate(BatchCluster(jobs, 8, qos=levels), create("preemptive-easy"))
        assert times(result)[1] == (3, start, start + 30.0)
        assert validate(result, jobs).ok


@pytest.mark.parametrize("value", [None, -1.0, float("nan"), "long"])
def test_a_job_without_its_grace_time_is_refused(value: Any) -> None:
    levels = [QualityOfService("urgent", 10.0, ("standby",)), QualityOfService("standby", grace_time="notice")]
    jobs = [LONG._replace(attributes={} if value is None else {"notice": value}), URGENT]
    with pytest.raises(WorkloadError, match=r"job 1: attribute 'notice': got .*, expected the grace time that QOS 's"):
        BatchCluster(jobs, 8, qos=levels)
    with pytest.raises(WorkloadError, match="job 1: attribute 'notice'"):  # a stream knows no job in advance
        simulate(BatchCluster(iter(jobs), 8, qos=levels), create("preemptive-easy"))


def test_agents_see_announcements_and_an_earlier_start_withdraws_them() -> None:
    jobs = [LONG, SHORT, Job(3, 10.0, 4, 50.0, 30.0, qos="urgent")]
    agent = Answers([0], [1], StartPreempting(2, (0,)), None, [2])
    result = simulate(BatchCluster(jobs, 8, qos=qos()), agent)
    assert times(result) == [(1, 0.0, 100.0), (2, 5.0, 25.0), (3, 25.0, 55.0)]
    announced = {2: (10.0, 35.0, (0,))}
    assert agent.seen[2:5] == [(10.0, {}), (10.0, announced), (25.0, announced)]
    assert result.table("preemptions").is_empty()


def test_an_announcement_lapses_if_the_job_does_not_fit() -> None:
    jobs = [LONG, Job(2, 5.0, 4, 80.0, 70.0), Job(3, 10.0, 8, 50.0, 30.0, qos="urgent"), Job(4, 11.0, 4, 9.0, 99.0)]
    late = [LONG, SHORT, URGENT, Job(4, 24.0, 4, 90.0, 90.0)]
    agent = Answers([0], [1], StartPreempting(2, (0, 1)), None, None, [3])
    result = simulate(BatchCluster(late, 8, qos=qos()), agent, until=60.0)
    assert times(result)[0] == (1, 0.0, None)
    assert times(result)[2:] == [(3, None, None), (4, 25.0, None)]
    assert result.table("preemptions").is_empty()
    with pytest.raises(InfeasibleAction, match="does not preempt none, the QOS of job 2"):
        simulate(BatchCluster(jobs, 8, qos=qos()), Answers([0], [1], StartPreempting(2, (0, 1))))


def test_a_job_that_failed_meanwhile_is_no_victim_any_more() -> None:
    outage = planned_outages([Outage(20.0, 22.0, cores=[0])])
    agent = Answers([0], [1], StartPreempting(2, (0, 1)), None, None, [0])
    jobs = [LONG, Job(2, 5.0, 4, 80.0, 70.0, qos="standby"), URGENT]
    result = simulate(BatchCluster(jobs, 8, qos=qos(), processes=[outage]), agent, until=60.0)
    assert times(result) == [(1, 22.0, None), (2, 5.0, None), (3, None, None)]  # job 1 started again: job 3 cannot


def test_what_is_refused() -> None:
    agent = Answers([0], [1], StartPreempting(2, (0, 1)), StartPreempting(2, (0, 1)))
    with pytest.raises(InfeasibleAction, match=r"job 3 has announced its preemption already: it starts at 35\.0 s"):
        simulate(BatchCluster(JOBS, 8, qos=qos()), agent)
    with pytest.raises(InvalidConfiguration, match=r"the grace time of QOS 'a'"):
        QualityOfService("a", grace_time=-1.0)


def test_the_short_notation_knows_grace_times() -> None:
    levels, _ = qos_of_text("urgent:preempts=standby+standby:grace_time=60", JOBS)
    assert [one.grace_time for one in levels] == [0.0, 60.0]
    levels, _ = qos_of_text("urgent:preempts=standby+standby:grace_time=notice", JOBS)
    assert [one.grace_time for one in levels] == [0.0, "notice"]
    with pytest.raises(InvalidConfiguration, match="priority: got 'high', expected a number"):
        qos_of_text("urgent:priority=high", JOBS)


def workload(rng: Random) -> list[Job]:
    """Return jobs of three levels."""
    jobs, time = [], 0.0
    for job_id in range(40):
        time += rng.choice((0.0, 3.0, 10.0))
        requested = float(rng.randint(1, 60))
        name = rng.choice(("", "standby", "standby", "urgent"))
        jobs.append(Job(job_id, time, rng.randint(1, 8), requested, rng.uniform(0.0, 1.5) * requested, qos=name))
    return jobs


@pytest.mark.parametrize("mode", ["requeue", "suspend"])
@pytest.mark.parametrize("cycle", ["instant", "arrival", "event", 7.0])
def test_random_runs_are_valid_and_forks_go_on_alike(mode: Any, cycle: Any) -> None:
    found = 0
    for seed in range(5):
        jobs = workload(Random(seed))
        outages = planned_outages([Outage(100.0, 120.0, cores=[0, 1])])
        options: dict[str, Any] = {"qos": qos(8.0, mode), "cycle": cycle}
        for processes in ([outages], []):
            result = simulate(BatchCluster(jobs, 8, processes=processes, **options), create("preemptive-easy"))
            assert validate(result, jobs).ok, seed
            found += len(result.table("preemptions"))
        assert fork_at_announcement(BatchCluster(jobs, 8, **options), foresight=True).jobs.equals(result.jobs)
    assert found >= 10


def fork_at_announcement(cluster: BatchCluster, *, foresight: bool) -> Any:
    """Return the result of a fork that was made when a preemption was announced."""
    simulation, agent = Simulation(cluster), create("preemptive-easy")
    while (decision := simulation.advance()) is not None and not decision.observation.announced_preemptions:
        decision.answer(agent.act(decision.observation))
    fork = simulation.fork(foresight=foresight)
    assert not fork.replayed
    while (decision := fork.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    return fork.finish()


def test_forks_without_foresight_know_announced_preemptions() -> None:
    result = fork_at_announcement(BatchCluster(JOBS, 8, qos=qos()), foresight=False)
    assert times(result) == [(1, 85.0, 185.0), (2, 85.0, 165.0), (3, 35.0, 85.0)]  # all run for their requested times


@pytest.mark.parametrize(
    "change",
    [
        pl.col("announced") + 1.0,  # the grace time is not over
        pl.col("announced") - 1.0,  # job 3 was not there
    ],
)
def test_rules_find_false_announcements(change: pl.Expr) -> None:
    result = simulate(BatchCluster(JOBS, 8, qos=qos()), create("preemptive-easy"))
    tables = {name: result.table(name).lazy() for name in result.table_names}
    edited = Result(tables | {"preemptions": tables["preemptions"].with_columns(announced=change)}, result.info)
    assert {violation.rule for violation in validate(edited).violations} == {"preemptions"}
