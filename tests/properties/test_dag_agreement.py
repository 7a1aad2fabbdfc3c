"""Every copy of every run against executors written from the definition, and whole schedules of list schedulers."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import pytest
from dag_agents import Anything, carry_out, logged_run
from dag_reference import Reference, ReferenceCopy, Scenario, random_scenario
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.agents.dag import (
    DEFT,
    EFT,
    FIFO,
    HEFT,
    HRRN,
    CriticalPath,
    InsertionEFT,
    ListScheduler,
    RandomOrder,
    RankUp,
)
from desim.problems.dag import Copy


def difference(scenario: Scenario, agent: Any, seed: int = 0) -> str | None:
    """Run an agent, repeat its decisions on the reference, and say where they differ."""
    result, copies, logged = logged_run(scenario, agent, seed)
    ends = dict(result.jobs.select("job_id", "finish_time").rows())
    kept = [number for number, copy in enumerate(copies) if copy.has_started and is_at_end(copy, ends)]
    reference = Reference(scenario, frozenset(kept))
    for time, actions in logged.log:
        reference.advance(time)
        for action in actions:
            carry_out(reference, action)
    reference.advance(math.inf)
    if len(copies) != len(reference.copies):
        return f"{len(copies)} copies, the reference has {len(reference.copies)}"
    if len(reference.ended) < len(scenario.jobs):
        return f"{len(reference.ended)} jobs end"
    end = max(reference.ended.values())
    rows = []
    for copy, expected in zip(copies, reference.copies, strict=True):
        ours = {parent: (way.source, way.begin, way.arrival) for parent, way in copy.inputs.items()}
        if is_among(reference, expected, ours):
            ours = expected.sources  # of several that serve at that instant any will do
        started = copy.start if copy.has_started else math.nan
        if expected.start > end and not copy.has_started:  # the run has ended
            expected.start = math.nan
        elif not is_same(started, expected.start) or (copy.has_started and ours != expected.sources):
            return f"{copy!r} starts at {started} with {ours}, want {expected.start} with {expected.sources}"
        rows.append((copy.state.job.job_id, copy.node, copy.executor, copy.assigned, *recorded(expected, end)))
    moved = [(*whose(copy), *way) for copy in copies for way in copy.inputs.values() if copy.has_started]
    if Counter(moved) != Counter(result.table("transfers").select(MOVES).rows()):
        return "the records of transfers are not what the copies received"
    table = [row for row in result.table("copies").select(COLUMNS).rows() if row[4] != end]
    table = [(*row[:5], None, "running") if row[5] == end else row for row in table]
    rows = [row for row in rows if row[4] != end]
    if Counter(table) != Counter(rows):
        return f"the records have {Counter(table) - Counter(rows)}, want {Counter(rows) - Counter(table)}"
    return None if ends == reference.ended else f"jobs end at {ends}, want {reference.ended}"


MOVES = ["job_id", "child", "destination", "parent", "source", "starting_time", "arrival_time", "size"]


def whose(copy: Copy) -> tuple[int, int, int]:
    return copy.state.job.job_id, copy.node, copy.executor


def is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


COLUMNS = ["job_id", "node", "executor", "assignment_time", "starting_time", "finish_time", "outcome"]


def is_at_end(copy: Copy, ends: dict[int, float]) -> bool:
    """Tell whether a copy started at the instant at which its job ended."""
    return copy.start == ends[copy.state.job.job_id]


def is_among(reference: Reference, copy: ReferenceCopy, sources: dict[int, tuple[int, float, float]]) -> bool:
    """Tell whether sources differ only among those that serve at the instant of the start, in whatever order."""
    if not sources or sources.keys() != copy.sources.keys():
        return False
    for parent, size in reference.scenario.parents(copy.job, copy.node):
        ways = [(source, begin, arrival) for arrival, _, source, begin in reference.arrivals(copy, parent, size)]
        chosen = sources[parent]
        if chosen != copy.sources[parent] and not (
            chosen in ways and chosen[2] == copy.sources[parent][2] == copy.start
        ):
            return False
    return True


def recorded(copy: Any, end: float) -> tuple[float | None, float | None, str]:
    if not math.isnan(copy.withdrawn):
        return None, None, "withdrawn"
    if math.isnan(copy.start):
        return None, None, "queued"
    return (copy.start, None, "running") if copy.finish >= end else (copy.start, copy.finish, "completed")


def check_anything(seeds: range, *, spare: bool) -> None:
    for seed in seeds:
        scenario = random_scenario(Random(seed))
        found = difference(scenario, Anything(scenario, str(seed), spare=spare))
        assert found is None, f"seed {seed}: {found}"


@pytest.mark.parametrize("start", [0, 75])
def test_every_copy_starts_when_the_reference_says(start: int) -> None:
    check_anything(range(start, start + 75), spare=False)


def test_also_with_duplicates_that_nobody_needs() -> None:
    check_anything(range(60), spare=True)


@pytest.mark.slow
@pytest.mark.parametrize("spare", [False, True])
def test_every_copy_starts_when_the_reference_says_in_many_more_scenarios(*, spare: bool) -> None:
    check_anything(range(60, 20_000), spare=spare)


AGENTS = {
    "FIFO-EFT": lambda: ListScheduler(FIFO(), EFT()),
    "rank-up-DEFT": lambda: ListScheduler(RankUp(), DEFT()),
    "critical path-insertion": lambda: ListScheduler(CriticalPath(), InsertionEFT()),
    "random-DEFT": lambda: ListScheduler(RandomOrder(), DEFT()),
    "HRRN-insertion": lambda: ListScheduler(HRRN(), InsertionEFT()),
}


@pytest.mark.parametrize("name", AGENTS)
def test_list_schedulers_run_as_the_reference_says(name: str) -> None:
    for seed in range(40):
        found = difference(random_scenario(Random(f"{name} {seed}")), AGENTS[name](), seed)
        assert found is None, f"seed {seed}: {found}"


def test_heft_runs_as_the_reference_says() -> None:
    for seed in range(40):
        found = difference(random_scenario(Random(f"HEFT {seed}"))._replace(plan_ahead=True), HEFT())
        assert found is None, f"seed {seed}: {found}"


@given(seed=st.integers(0, 2**32), spare=st.booleans())
@settings(max_examples=60)
def test_no_small_scenario_tells_them_apart(seed: int, *, spare: bool) -> None:
    scenario = random_scenario(Random(seed), exact=True, most=4)
    assert difference(scenario, Anything(scenario, str(seed), spare=spare)) is None
