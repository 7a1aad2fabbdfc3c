"""Whatever is drawn, of all problems and all agents: the run is valid, and its records tell the same later on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from everything import PROBLEMS, Scenario, first_of_each_agent, scenario
from everything_names import agent_names, kind_of, patterns_of
from everything_runs import RULES, Summary, check, features, run_all
from everything_sites import families, site

from desim.problems.batch import PLACEMENTS
from desim.problems.batch.resources.cores import CoreResources
from desim.problems.dag import JobState
from desim.problems.deferrable import cluster as deferrable
from desim.problems.multiserver import RewardModel


def one_of_each_kind(problem: str) -> list[int]:
    """Return a scenario for each agent, and for one after another of those that are much alike."""
    kinds: dict[str, list[int]] = {}
    for (of, name), number in first_of_each_agent().items():
        if of == problem:
            kinds.setdefault(kind_of(name), []).append(number)
    return [numbers[place % len(numbers)] for place, numbers in enumerate(kinds.values())]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_scenario_of_each_kind_of_agent_is_valid(problem: str) -> None:
    summary = Summary()
    for number in one_of_each_kind(problem):
        summary.run(number)
    assert not summary.failures, "\n\n".join(summary.failures)
    kinds = {kind_of(name) for name in summary.counts["agents"][problem]}
    assert kinds == {kind_of(name) for name in agent_names(problem)}
    assert all({kind_of(name) for name in names} <= kinds for names in patterns_of(problem).values())


SITES = (
    "over_time_limit",
    "checkpoint_interval",
    "dependencies",
    "limits",
    "reservations",
    "qos",
    "planned outages",
    "random outages",
    "stop_after",
    "nodes",
    "num_cores",
    *(f"placement={name}" for name in (*PLACEMENTS, "fgd")),
)
"""Features that scenarios of sites combine."""

ONLY_SITES = {
    *("nodes", "requests", "placements", "placed_tasks", "suitable_nodes", "held_gpus", "cores_on_nodes"),
    *("node_capacity", "exclusive_nodes", "request_conservation", "dependencies", "checkpoints", "reservations"),
    *("reservation_nodes", "limits", "qos", "preemptions", "suspended"),
}
"""Rules that need nodes, or what sites do."""


def test_scenarios_of_sites_are_valid() -> None:
    summary, told = Summary(), set[str]()
    for number in range(66):
        summary.run(number, site)
        told.update(features(site(number)), site(number).drawn.system)
    assert not summary.failures, "\n\n".join(summary.failures)
    assert told.issuperset(SITES)
    assert all(any(name in summary.counts["agents"]["batch"] for name in family) for family in families())
    assert any(site(number).refuses for number in range(66))
    assert len(summary.counts["rules"]["batch"]) >= len(RULES["batch"]) - 1  # `rejected` is of the rest


@pytest.mark.slow
def test_three_thousand_scenarios_of_sites_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    summary = run_all(range(3_000), made=site, processes=2, say=say)
    say(str(summary))
    assert not summary.failures
    assert set(summary.counts["agents"]["batch"]) == {name for family in families() for name in family}
    assert set(summary.counts["rules"]["batch"]) == RULES["batch"]


@pytest.mark.slow
def test_ten_thousand_scenarios_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    say("")
    summary = run_all(range(10_000), processes=2, say=say)
    say(str(summary))
    assert summary.number == 10_000
    assert not summary.failures
    for problem in PROBLEMS:
        assert set(summary.counts["agents"][problem]) == set(agent_names(problem))
        assert set(summary.counts["rules"][problem]) == RULES[problem] - (ONLY_SITES if problem == "batch" else set())


def plain(value: Any) -> Iterator[Any]:
    """Yield what is not plain within a value."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from plain(name)
            yield from plain(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from plain(entry)
    elif type(value) not in (str, int, float, bool, type(None)):
        yield value


@pytest.mark.parametrize(("made", "file"), [(scenario, "everything.py"), (site, "everything_sites.py")])
def test_a_scenario_is_plain_values_that_follow_from_its_number(made: Callable[[int], Scenario], file: str) -> None:
    for number in range(200):
        one = made(number)
        assert not list(plain(one))
        assert one == made(number)
        assert f"{file} {number}" in str(one)
    assert len({str(made(number).drawn) for number in range(200)}) == 200


def is_caught(problem: str, count: int) -> bool:
    """Tell whether some of the first scenarios of a problem shows that something is wrong."""
    numbers = [number for (of, _), number in first_of_each_agent().items() if of == problem]
    for number in sorted(numbers)[:count]:
        try:
            check(scenario(number))
        except AssertionError:
            return True
    return False


def test_a_core_too_many_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = CoreResources.take

    def take_more(self: CoreResources, job: Any, row: int) -> int:
        cores = take(self, job, row)
        return cores | (self.free & -self.free) if cores else 0

    monkeypatch.setattr(CoreResources, "take", take_more)
    assert is_caught("batch", 10)


def test_data_that_take_no_time_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def arrival(self: JobState, copy: Any, size: float, executor: int, assigned: float) -> float:
        return self.sending_time(copy, executor, assigned)

    monkeypatch.setattr(JobState, "arrival_from", arrival)
    assert is_caught("dag", 10)


def test_jobs_that_are_not_evicted_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferrable, "newest_to_evict", lambda running, limit: np.empty(0, dtype=np.int64))
    assert is_caught("deferrable", 20)


def test_gains_that_no_utility_yields_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = RewardModel.utility_gains
    monkeypatch.setattr(RewardModel, "utility_gains", lambda self, allocation: 1.01 * gains(self, allocation))
    assert is_caught("multiserver", 20)
