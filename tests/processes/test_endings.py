"""Runs that end when something has happened often enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from desim import Simulation, simulate
from desim.agents.batch import FCFS, SimpleBackfilling
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.processes import stop_after
from desim.workloads import lublin

JOBS = [Job(number, 10.0 * number, 1, 15.0, 15.0) for number in range(9)]  # on one core: starts at 0, 15, 30, ...


def cluster(*processes: Callable[..., Any], jobs: list[Job] = JOBS, cores: int = 1) -> BatchCluster:
    return BatchCluster(jobs, cores, processes=processes)


@pytest.mark.parametrize(
    ("event", "count", "end"),
    [("start", 1, 5.0), ("start", 4, 50.0), ("completion", 1, 20.0), ("completion", 4, 65.0), ("arrival", 4, 35.0)],
)
def test_a_run_ends_with_the_last_of_so_many_events(event: str, count: int, end: float) -> None:
    events: list[float] = []
    jobs = [job._replace(submission_time=job.submission_time + 5.0) for job in JOBS]
    problem = cluster(stop_after(event, count), jobs=jobs)
    simulation = Simulation(problem)
    simulation.problem.on(event, lambda time, subject: events.append(time))
    agent = FCFS()
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    assert len(events) == count
    assert simulation.end_time == events[-1] == end
    assert simulation.truncated
    assert simulation.advance() is None


def test_a_run_with_fewer_events_ends_with_its_work() -> None:
    for count, truncated in ((8, True), (10, False)):
        simulation = Simulation(cluster(stop_after("start", count)))
        agent = FCFS()
        while (decision := simulation.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        assert simulation.truncated is truncated
        assert len(simulation.finish().jobs) == (8 if truncated else 9) + truncated


def test_records_hold_what_was_going_on() -> None:
    result = simulate(cluster(stop_after("start", 3)), FCFS())
    assert result.info["end_time"] == 30.0
    assert result.jobs["status"].to_list() == ["completed", "completed", "running", "queued"]
    assert result.metrics()["jobs_started"] == 3


def test_a_process_serves_many_runs_and_counts_in_each() -> None:
    problem = cluster(stop_after("start", 3))
    assert [simulate(problem, FCFS()).info["end_time"] for _ in range(3)] == [30.0] * 3


def test_it_ends_at_the_same_event_whatever_the_agent_asks_for_afterwards() -> None:
    jobs = [Job(number, 0.0, 1, 5.0, 5.0) for number in range(8)]

    class Greedy:
        """Starts all at once."""

        def act(self, seen: Any) -> Any:
            """Return all jobs."""
            return seen.queue.row.tolist() or None

    result = simulate(BatchCluster(jobs, 8, processes=[stop_after("start", 3)]), Greedy())
    assert result.info["end_time"] == 0.0
    assert result.metrics()["jobs_started"] >= 3


def test_a_fork_ends_where_the_run_does() -> None:
    jobs = lublin.generate(200, 32, seed=2, load=1.2)
    simulation = Simulation(cluster(stop_after("start", 60), jobs=jobs, cores=32))
    agent = SimpleBackfilling("sjf")
    for _ in range(40):
        decision = simulation.advance()
        assert decision is not None
        decision.answer(agent.act(decision.observation))
    simulation.advance()
    ends = []
    for one in (simulation.fork(), simulation):
        while (decision := one.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        result = one.finish()
        ends.append((one.end_time, one.truncated, result.jobs["starting_time"].to_list()))
    assert ends[0] == ends[1]
    assert ends[0][1]
    assert result.metrics()["jobs_started"] == 60


@pytest.mark.parametrize(("until", "end", "started"), [(20.0, 20.0, 2), (30.0, 30.0, 3), (100.0, 30.0, 3)])
def test_whichever_end_comes_first_counts(until: float, end: float, started: int) -> None:
    result = simulate(cluster(stop_after("start", 3)), FCFS(), until=until)
    assert result.info["end_time"] == end
    assert result.metrics()["jobs_started"] in (started, started - (until == 30.0))


def test_the_earlier_of_two_ends_counts() -> None:
    result = simulate(cluster(stop_after("completion", 5), stop_after("start", 2), stop_after("start", 4)), FCFS())
    assert result.info["end_time"] == 15.0


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_below_1_is_refused(count: int) -> None:
    with pytest.raises(InvalidConfiguration, match=f"count: got {count}, expected"):
        stop_after("start", count)


def test_an_event_that_does_not_exist_is_refused_when_the_run_begins() -> None:
    problem = cluster(stop_after("applause", 1))
    with pytest.raises(InvalidConfiguration, match="applause"):
        simulate(problem, FCFS())
