"""Whatever fails when: every job ends, and nothing runs without its executor and its data."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from dag_reference import Scenario, random_scenario
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, simulate
from desim.agents.dag import DEFT, EFT, FIFO, HEFT, HRRN, InsertionEFT, ListScheduler, RandomOrder, RankUp
from desim.problems.dag import Assign
from desim.processes import Outage, planned_outages, random_outages


class Wild:
    """Assign anything anywhere, with duplicates of anything, wherever its inputs are or will be."""

    def __init__(self) -> None:
        self.rng = Random(0)

    def act(self, observation: Any) -> Any:
        up = [executor for executor, time in enumerate(observation.available_times) if time < math.inf]
        if not up:
            return None
        state, node = self.rng.choice(list(observation.executable.values()))
        executor = self.rng.choice(up)
        known = [other for other in range(state.job.num_nodes) if self.may_run_again(state, other)]
        supported = all(state.copies[parent] for parent, _ in state.job.parent_lists[node])
        before = tuple(self.rng.sample(known, min(len(known), self.rng.randint(0, 2)))) if supported else ()
        answer = [Assign(state.job.job_id, node, executor, before)]
        if known and self.rng.random() < 0.4:
            answer.append(Assign(state.job.job_id, self.rng.choice(known), self.rng.choice(up)))
        return answer

    @staticmethod
    def may_run_again(state: Any, node: int) -> bool:
        parents = state.job.parent_lists[node]
        return bool(state.copies[node]) and all(state.copies[parent] for parent, _ in parents)


AGENTS: dict[str, Callable[[], Any]] = {
    "rank_up-DEFT": lambda: ListScheduler(RankUp(), DEFT()),
    "FIFO-EFT": lambda: ListScheduler(FIFO(), EFT()),
    "HRRN-insertion": lambda: ListScheduler(HRRN(), InsertionEFT()),
    "random-DEFT": lambda: ListScheduler(RandomOrder(), DEFT()),
    "HEFT": HEFT,
    "anything": Wild,
}
Interval = tuple[float, float]


def downs(result: Result) -> dict[int, list[Interval]]:
    """Return when each executor was down."""
    since: dict[int, float] = {}
    found = defaultdict(list)
    for time, executor, event in result.table("outages").rows():
        if event == "down":
            assert executor not in since
            since[executor] = time
        else:
            found[executor].append((since.pop(executor), time))
    for executor, start in since.items():
        found[executor].append((start, math.inf))
    return found


def check(result: Result, scenario: Scenario, *, lose_data: bool) -> None:
    """Check a finished run from its records alone."""
    assert set(result.jobs["status"]) == {"completed"}
    assert len(result.jobs) == len(scenario.jobs)
    copies = result.table("copies").rows(named=True)
    down = downs(result)
    check_runs(copies, scenario, down)
    for job in scenario.jobs:
        ended = {row["node"] for row in copies if row["job_id"] == job.job_id and row["outcome"] == "completed"}
        assert ended == set(range(len(job.work)))
    check_data(result, copies, scenario, down if lose_data else {})
    check_repetitions(copies, down if lose_data else {})


def check_runs(copies: list[dict[str, Any]], scenario: Scenario, down: dict[int, list[Interval]]) -> None:
    by_executor = defaultdict(list)
    for row in copies:
        executor, start, finish = row["executor"], row["starting_time"], row["finish_time"]
        assert not any(first <= row["assignment_time"] < last for first, last in down.get(executor, ()))
        assert (start is None) == (row["outcome"] in ("withdrawn", "queued"))
        if start is None:
            continue
        assert row["assignment_time"] <= row["receiving_time"] <= start
        length = scenario.run_time(row["job_id"], row["node"], executor)
        if row["outcome"] == "completed":
            assert finish == start + length
        elif row["outcome"] == "interrupted":
            assert finish in [first for first, _ in down[executor]]
            assert finish < start + length
        finish = math.inf if finish is None else finish
        assert not any(first < finish and start < last and first != start for first, last in down.get(executor, ()))
        by_executor[executor].append((start, finish))
    for spans in by_executor.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))


def check_data(
    result: Result, copies: list[dict[str, Any]], scenario: Scenario, down: dict[int, list[Interval]]
) -> None:
    """Check that each input of each copy that started is there: made, sent, and not lost before it had arrived."""
    results = defaultdict(list)
    starts = defaultdict(list)
    for row in copies:
        if row["outcome"] == "completed":
            results[row["job_id"], row["node"], row["executor"]].append(row["finish_time"])
        if row["starting_time"] is not None:
            starts[row["job_id"], row["node"], row["executor"]].append(row)
    moved = defaultdict(list)
    for row in result.table("transfers").rows(named=True):
        moved[row["job_id"], row["child"], row["destination"]].append(row)
        source, begin, arrival = row["source"], row["starting_time"], row["arrival_time"]
        assert arrival == begin + scenario.transfer(source, row["destination"], row["size"])
        made = [time for time in results[row["job_id"], row["parent"], source] if time <= begin]
        assert made, row
        if source == row["destination"]:
            assert begin in made
        elif scenario.when_finished:  # an executor that was down has lost what was sent to it before
            back = max((last for _, last in down.get(row["destination"], ()) if last <= arrival), default=0.0)
            assert begin >= back
            assert begin == back or begin in made
        assert not any(max(made) <= first < arrival for first, _ in down.get(source, ())), row
    for key, rows in starts.items():
        parents = scenario.parents(*key[:2])
        ways = moved.pop(key, [])
        assert sorted((way["parent"], way["size"]) for way in ways) == sorted(parents * len(rows))
        latest = min(row["starting_time"] for row in rows)
        if len(rows) == 1:
            assert all(way["arrival_time"] <= latest for way in ways)
            kept = [way["starting_time" if way["source"] == key[2] else "arrival_time"] for way in ways]
            assert not any(time <= first < latest for time in kept for first, _ in down.get(key[2], ()))
    assert not moved


def check_repetitions(copies: list[dict[str, Any]], down: dict[int, list[Interval]]) -> None:
    """Check that what has finished runs again only as a duplicate, or after its result has been lost."""
    by_node = defaultdict(list)
    for row in copies:
        by_node[row["job_id"], row["node"]].append(row)
    for rows in by_node.values():
        for row in rows:
            if row["duplicate"]:
                continue
            for other in rows:
                if (
                    other is not row
                    and other["outcome"] == "completed"
                    and other["finish_time"] < row["assignment_time"]
                ):
                    span = other["finish_time"], row["assignment_time"]
                    assert any(span[0] <= first <= span[1] for first, _ in down.get(other["executor"], ()))


def run(scenario: Scenario, name: str, outages: Any, seed: int, *, lose_data: bool) -> Result:
    if name == "HEFT":
        scenario = scenario._replace(plan_ahead=True)
    cluster = scenario.cluster(processes=[outages], outages_lose_data=lose_data)
    result = simulate(cluster, AGENTS[name](), seed=seed, until=1e6)
    check(result, scenario, lose_data=lose_data)
    return result


LIST_SCHEDULERS = [name for name in AGENTS if name != "anything"]


@pytest.mark.parametrize("name", LIST_SCHEDULERS)
def test_every_job_ends_and_nothing_runs_without_its_data(name: str) -> None:
    outcomes: dict[str, int] = defaultdict(int)
    for seed in range(60):
        rng = Random(f"{name} {seed}")
        scenario = random_scenario(rng)
        outages = random_outages(
            rng.choice([20.0, 60.0]), rng.choice([2.0, 15.0]), units_per_failure=rng.choice([1, 2])
        )
        result = run(scenario, name, outages, seed, lose_data=rng.random() < 0.7)
        for outcome in result.table("copies")["outcome"]:
            outcomes[outcome] += 1
    assert min(outcomes["interrupted"], outcomes["withdrawn"]) > 20


def check_with_outages_that_end(name: str, seeds: range) -> None:
    for seed in seeds:
        rng = Random(f"ends {seed}")
        scenario = random_scenario(rng)
        starts = sorted(rng.uniform(0, 60) for _ in range(rng.randint(1, 12)))
        there = (1 << len(scenario.speeds)) - 1
        planned = [Outage(start, start + rng.expovariate(0.1), rng.randint(1, there)) for start in starts]
        run(scenario, name, planned_outages(planned), seed, lose_data=rng.random() < 0.7)


def test_every_job_ends_after_the_last_outage_whatever_is_assigned_where() -> None:
    check_with_outages_that_end("anything", range(80))


@pytest.mark.slow
def test_every_job_ends_after_the_last_outage_in_many_more_scenarios() -> None:
    check_with_outages_that_end("anything", range(80, 10_000))


@pytest.mark.slow
@pytest.mark.parametrize("name", LIST_SCHEDULERS)
def test_every_job_ends_in_many_more_scenarios(name: str) -> None:
    for seed in range(60, 5_060):
        rng = Random(f"{name} {seed}")
        run(random_scenario(rng), name, random_outages(30.0, 5.0), seed, lose_data=rng.random() < 0.7)


@given(
    seed=st.integers(0, 2**32),
    moments=st.lists(st.tuples(st.integers(0, 120), st.integers(1, 40), st.integers(1, 31)), max_size=8),
    name=st.sampled_from(sorted(AGENTS)),
    lose_data=st.booleans(),
)
@settings(max_examples=100)
def test_outages_at_the_instants_at_which_other_things_happen(
    seed: int, moments: list[tuple[int, int, int]], name: str, *, lose_data: bool
) -> None:
    scenario = random_scenario(Random(seed), exact=True, most=6)
    there = (1 << len(scenario.speeds)) - 1
    planned = [Outage(start / 4, (start + length) / 4, units & there) for start, length, units in sorted(moments)]
    run(scenario, name, planned_outages(planned), 0, lose_data=lose_data)


def test_what_happens_happens_when_the_clock_says_so() -> None:
    for seed in range(25):
        scenario = random_scenario(Random(seed))
        cluster = scenario.cluster(processes=[random_outages(20.0, 5.0)])
        cluster.on("start", lambda time, copy: check_time(time, copy.start))
        cluster.on("completion", lambda time, copy: check_time(time, copy.finish))
        simulate(cluster, ListScheduler(FIFO(), EFT()), seed=seed)


def check_time(time: float, wanted: float) -> None:
    assert math.isclose(time, wanted, rel_tol=1e-12)
