"""Runs that would never end, or end with work left: their status, and what is said of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
import simpy

from desim import Problem, Simulation, simulate
from desim.exceptions import StalledWarning
from desim.plugins import create_agent
from desim.problems.batch import BatchCluster, Job, WaitUntil
from desim.scenario import system_of
from desim.validation import validate

JOBS = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 1.0, 2, 5.0, 5.0)]
PROBLEMS = ("batch", "dag", "deferrable", "multiserver")


class Never:
    """Starts nothing."""

    def act(self, observation: Any) -> None:
        """Wait."""


def tick(problem: Any) -> Generator[simpy.Event, None, None]:
    """Go on without end."""
    while True:
        yield problem.env.timeout(1)


def later(problem: Any) -> Generator[simpy.Event, None, None]:
    """Submit a job after a long time in small steps."""
    for _ in range(3_000):
        yield problem.env.timeout(1)
    problem.submit(Job(3, problem.env.now, 1, 5.0, 5.0))


def small(problem: str, *processes: Callable[[Any], Any], patience: int = 2_000) -> Problem:
    """Return the default problem of the command line, with impatience and processes."""
    system = system_of(problem)
    options = system.options()
    if problem == "batch":
        options = replace(options, workload=replace(options.workload, jobs=20))
    made = system.instance(options).make(create_agent(problem, system.default_agent or ""))
    made.processes, made.patience = processes, patience
    if problem == "deferrable":
        made.num_slots = None  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("problem", PROBLEMS)
def test_endless_processes_alone_end_a_run_with_the_records_of_one_without_them(problem: str) -> None:
    """The warning names the process and what helps."""
    agent = create_agent(problem, system_of(problem).default_agent or "")
    with pytest.warns(StalledWarning, match="all work is done, but the process tick runs .* background = True"):
        stalled = simulate(small(problem, tick), agent)
    complete = simulate(small(problem), agent)
    assert stalled.info["status"] == "stalled" and "tick" in stalled.info["stalled"]
    assert complete.info["status"] == "complete" and "stalled" not in complete.info
    assert stalled.jobs.equals(complete.jobs)
    if problem != "deferrable":  # of which slots are counted
        assert validate(stalled).ok, validate(stalled)


@pytest.mark.parametrize("problem", ["batch", "dag"])
def test_an_agent_that_starts_nothing_ends_a_run_with_a_warning(problem: str) -> None:
    """With nothing left to happen at once, with an endless process when that has had its time."""
    for processes, words in ((), "does not start"), ((tick,), "the process tick runs"):
        with pytest.warns(StalledWarning, match=words):
            result = simulate(small(problem, *processes), Never())
        assert result.info["status"] == "stalled"
        assert set(result.jobs["status"]) == {"queued"}
        assert validate(result).ok


def test_who_waits_for_a_time_or_has_an_end_does_not_stall() -> None:
    """A process that ends, an agent that waits until, and a run with until."""

    class Patient:
        def act(self, observation: Any) -> Any:
            return WaitUntil(5_000.0) if observation.time < 5_000 else int(observation.queue.row[0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cluster = BatchCluster(JOBS, 4, processes=[later])
        cluster.patience = 2_000
        result = simulate(cluster, create_agent("batch", "fcfs"))
        assert result.info["status"] == "complete" and result.jobs.height == 3
        cluster = BatchCluster(JOBS, 4, processes=[tick])
        cluster.patience = 100
        assert simulate(cluster, Never(), until=10_000).info["status"] == "complete"
    cluster.patience = 4_000
    with pytest.warns(StalledWarning, match="all work is done"):
        assert simulate(cluster, Patient()).jobs["starting_time"].to_list() == [5_000.0, 5_000.0]


def test_a_learner_is_told_that_a_stalled_run_would_have_gone_on() -> None:
    """Such a simulation counts as cut."""
    cluster = BatchCluster(JOBS, 4, processes=[tick])
    cluster.patience = 100
    simulation = Simulation(cluster)
    while (decision := simulation.advance()) is not None:
        decision.answer(None)
    assert simulation.truncated and simulation.stalled and simulation.until == math.inf
    assert simulation.advance() is None
    assert simulation.finish().info["status"] == "stalled"


def test_problems_that_do_not_say_when_they_are_idle_never_stall() -> None:
    """Those of users, unless they want to."""

    class Own(Problem):
        name = "own"

        def begin(self) -> None:
            self.simulation.decide("anything?")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert simulate(Own(), Never()).info["status"] == "complete"
