"""What a new user mistakes in a call: one clear sentence of desim's own errors, and names that are nearly right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desim import Problem, simulate
from desim.agents.batch import FCFS, EASYBackfilling
from desim.agents.dag import HEFT
from desim.agents.deferrable import EarliestDeadline
from desim.agents.multiserver import DRF
from desim.checks import did_you_mean
from desim.exceptions import DesimError, InvalidConfiguration, WorkloadError
from desim.plugins import create_agent
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.kind import KIND

JOBS = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 1.0, 2, 5.0, 5.0)]
ANYTHING: Any = None


def cluster() -> BatchCluster:
    """Return a small problem."""
    return BatchCluster(JOBS, 2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: simulate(FCFS(), cluster()), "problem: got an agent; try simulate(problem, agent), not simulate("),
        (lambda: simulate(cluster(), FCFS), "agent: got the class FCFS, expected an instance; try FCFS()"),
        (
            lambda: simulate(cluster(), EASYBackfilling),
            "agent: got the class EASYBackfilling, expected an instance; try EASY",
        ),
        (
            lambda: simulate(BatchCluster, FCFS()),
            "problem: got the class BatchCluster, expected an instance; try BatchClu",
        ),
        (lambda: simulate("batch", "easy"), "problem: got the name 'batch', expected an object"),
        (lambda: simulate(JOBS, "easy"), "problem: got [Job(job_id=1"),
        (lambda: simulate(cluster(), "eazy"), "unknown batch agent 'eazy' (did you mean 'easy'?); expected one of"),
        (
            lambda: simulate(cluster(), HEFT()),
            "HEFT is an agent for problem 'dag', but the problem is Batch",
        ),
        (lambda: simulate(cluster(), EarliestDeadline()), "EarliestDeadline is an agent for problem 'deferrable', but"),
        (lambda: simulate(cluster(), DRF()), "DRF is an agent for problem 'multiserver', but the problem is Batch"),
        (lambda: simulate(cluster(), lambda seen: None), "expected an object with a method act(observation)"),
        (lambda: simulate(cluster(), cluster()), "agent: got a problem; try simulate(problem, agent)"),
        (lambda: simulate(cluster(), ANYTHING), "agent: got None, expected a name such as 'fcfs', or an object with a"),
        (lambda: simulate(cluster(), FCFS(), seed="0"), "seed: got '0', expected an integer >= 0"),
        (lambda: simulate(cluster(), FCFS(), until="9"), "until: got '9', expected a time > 0"),
        (lambda: simulate(cluster(), FCFS(), until=ANYTHING), "until: got None, expected a time > 0"),
        (lambda: simulate(cluster(), FCFS(), out=3), "out: got 3, expected the path of a directory"),
        (lambda: BatchCluster(2, JOBS), "jobs: got 2, expected a list or another iterable of jobs"),
        (lambda: BatchCluster(JOBS[0], 2), "expected a list or another iterable of jobs"),
        (lambda: BatchCluster("jobs.swf", 2), "jobs: got 'jobs.swf', expected a list or another iterable of jobs"),
        (lambda: BatchCluster(JOBS, JOBS * 50), "num_cores: got [Job(job_id=1"),
        (lambda: BatchCluster(JOBS, "2"), "num_cores: got '2', expected an integer from 1 to 16777216"),
        (
            lambda: BatchCluster(JOBS, 2, processes=3),
            "processes: got 3, expected a list or another iterable of functions",
        ),
        (
            lambda: BatchCluster(JOBS, 2, on_outage="requeu"),
            "on_outage: got 'requeu' (did you mean 'requeue'?), expected",
        ),
        (
            lambda: simulate(BatchCluster([1, 2], 2), FCFS()),
            "jobs: got 1, expected job objects ('int' object has no attribute",
        ),
    ],
)
def test_mistakes_get_one_sentence(call: Callable[[], Any], sentence: str) -> None:
    """Short enough to be read, and without a traceback of our own code's making."""
    with pytest.raises(DesimError) as caught:
        call()
    assert isinstance(caught.value, InvalidConfiguration | WorkloadError)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert "eazy" in sentence or len(str(caught.value)) < 400


def test_a_name_is_an_agent(tmp_path: Path) -> None:
    """The same as that of the registry."""
    by_name = simulate(cluster(), "easy", out=str(tmp_path / "run"))
    assert by_name.jobs.equals(simulate(cluster(), create_agent("batch", "easy")).jobs)
    assert by_name.info["agent"] == "easy-fcfs"


def test_own_problems_and_agents_are_left_alone() -> None:
    """An agent of ours on a class that is derived from its problem, and one of nobody's on anything."""

    class Larger(BatchCluster):
        name = "larger"
        kind = replace(KIND, name="larger")

    class Waits:
        def act(self, observation: Any) -> None:
            """Wait."""

    class Silent(Problem):
        name = "silent"

    assert simulate(Larger(JOBS, 4), FCFS()).info["problem"] == "larger"
    assert simulate(Silent(), FCFS()).info["status"] == "complete"
    assert simulate(Silent(), Waits()).info["status"] == "complete"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("easy-sjff", "easy-sjf"),
        ("FCFS", "fcfs"),
        ("waiting-time-mean", "waiting_time_mean"),
        ("wait_mean", "waiting_time_mean"),
        ("chess", None),
        ("fcfs", None),
        (3, None),
    ],
)
def test_suggestions(name: Any, meant: str | None) -> None:
    """Case and the kind of dash do not matter; what is near nothing, or right, is left alone."""
    choices = ["fcfs", "easy-sjf", "waiting_time_mean"]
    assert did_you_mean(name, choices) == (f" (did you mean {meant!r}?)" if meant else "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("eazy-sjf", "easy-sjf"), ("backfiling-sjf", "backfilling-sjf"), ("windw-fcfs-4-4", "window-fcfs-4-4")],
)
def test_agents_with_parts_in_their_names_are_suggested_with_these_parts(name: str, meant: str) -> None:
    """Families as well as names."""
    with pytest.raises(InvalidConfiguration, match=f"did you mean '{meant}'"):
        create_agent("batch", name)
