"""Rules of a split window: with a window over the whole queue they are those of backfilling."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from desim import Simulation, simulate
from desim.agents.batch import SimpleBackfilling, create
from desim.agents.batch.window_rules import RULES, WindowRule
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.resources.core_plan import CountPlan
from desim.validation import validate
from desim.workloads import lublin

JOBS = lublin.generate(600, 64, seed=3, load=1.1)


def starts(agent: Any, jobs: list[Job], cores: int, seed: int = 0) -> dict[int, float]:
    table = simulate(BatchCluster(jobs, cores), agent, seed=seed).jobs
    return dict(zip(table["job_id"].to_list(), table["starting_time"].to_list(), strict=True))


def random_jobs(seed: int, cores: int) -> list[Job]:
    """Return jobs with many equal sizes and times."""
    random = Random(seed)
    jobs, time = [], 0.0
    for number in range(random.randint(1, 25)):
        time += random.choice([0.0, 0.0, 1.0, 5.0])
        requested = float(random.randint(1, 6))
        jobs.append(Job(number, time, random.randint(1, cores), requested, float(random.randint(1, int(requested)))))
    return jobs


@pytest.mark.parametrize(("rule", "order"), [("shortest", "sjf"), ("first", "fcfs"), ("smallest", "smallest-first")])
class TestWholeQueue:
    def test_a_window_over_all_jobs_is_simple_backfilling(self, rule: Any, order: str) -> None:
        assert starts(WindowRule(rule, len(JOBS)), JOBS, 64) == starts(SimpleBackfilling(order), JOBS, 64)

    @settings(max_examples=60, deadline=None)
    @given(seed=st.integers(0, 10**6), head=st.integers(0, 25))
    def test_also_where_jobs_are_equal_and_it_is_split(self, rule: Any, order: str, seed: int, head: int) -> None:
        jobs = random_jobs(seed, 6)
        assert starts(WindowRule(rule, head, 25 - head), jobs, 6) == starts(SimpleBackfilling(order), jobs, 6)


class Checked:
    """Compares every answer of a rule with a slow one."""

    def __init__(self, rule: WindowRule) -> None:
        self.rule = rule
        self.num_answers = 0

    def act(self, seen: Any) -> int | None:
        """Act as the rule does."""
        answer = self.rule.act(seen)
        queue = list(zip(seen.queue.row, seen.queue.requested_cores, seen.queue.requested_time, strict=True))
        window = self.rule.window
        if len(queue) > window.size:
            queue = queue[: window.head] + queue[::-1][: window.tail]
        fitting = [job for job in queue if job[1] <= seen.free_cores]
        if self.rule.rule in ("reserving", "weighing") and fitting and len(fitting) < len(queue):
            fitting = self.harmless(seen, fitting, min((j for j in queue if j not in fitting), key=lambda job: job[2]))
        if self.rule.rule == "aged" and queue and seen.time - seen.queue.submission_time[0] >= self.rule.reserve_after:
            fitting = self.harmless_to_oldest(seen, fitting)
        if not fitting:
            assert answer is None
            return None
        if self.rule.rule == "random":
            assert answer in [job[0] for job in fitting]
        else:
            if self.rule.rule == "aged":
                submitted = dict(zip(seen.queue.row, seen.queue.submission_time, strict=True))
                ages = {job: (1 + time) / (1 + seen.time - submitted[job]) ** 4 for job, _, time in fitting}
                assert ages[answer] <= min(ages.values()) * (1 + 1e-9)
                self.num_answers += 1
                return answer
            column = {"shortest": 2, "reserving": 2, "weighing": 2, "smallest": 1}.get(self.rule.rule)
            best = fitting[0] if column is None else min(fitting, key=lambda job: job[column])
            assert answer == best[0]
        self.num_answers += 1
        return answer

    def harmless_to_oldest(self, seen: Any, fitting: list[Any]) -> list[Any]:
        """Leave out what would delay the oldest job of the queue."""
        oldest, cores = int(seen.queue.row[0]), int(seen.queue.requested_cores[0])
        running = list(zip(seen.running.expected_end, seen.running.requested_cores, strict=True))

        def free_at(time: float) -> int:
            return seen.free_cores + sum(taken for end, taken in running if end <= time)

        begin = min(time for time in [seen.time, *(max(e, seen.time) for e, _ in running)] if free_at(time) >= cores)
        spare = free_at(begin) - cores if begin > seen.time else seen.free_cores - cores
        return [job for job in fitting if job[0] == oldest or seen.time + job[2] <= begin or job[1] <= spare]

    def harmless(self, seen: Any, fitting: list[Any], reserved: Any) -> list[Any]:
        """Leave out what would delay the reserved job, if that is soon."""
        running = list(zip(seen.running.expected_end, seen.running.requested_cores, strict=True))

        def free_at(time: float) -> int:
            return seen.free_cores + sum(cores for end, cores in running if end <= time)

        times = [end for end, _ in running if free_at(end) >= reserved[1]]
        if not times or (self.rule.rule == "reserving" and min(times) - seen.time >= self.rule.horizon):
            return fitting
        begin = max(min(times), seen.time)
        spare = free_at(begin) - reserved[1]

        def is_worth_it(job: Any) -> bool:
            """Tell whether both wait longer in sum if the reserved job is first, one after the other."""
            soon = begin - seen.time
            return self.rule.rule == "weighing" and bool(soon + (soon + reserved[2]) >= job[2])

        return [
            job
            for job in fitting
            if job[2] <= reserved[2] or seen.time + job[2] <= begin or job[1] <= spare or is_worth_it(job)
        ]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(RULES),
    st.integers(0, 10**6),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([2.0, 4.0, 99.0]),
)
def test_the_best_job_of_the_window_starts(rule: Any, seed: int, head: int, tail: int, horizon: float) -> None:
    if head + tail == 0 or rule == "aged":  # which keeps a place for the oldest
        head = max(head, 1)
    agent = Checked(WindowRule(rule, head, tail, horizon=horizon, reserve_after=horizon))
    jobs = random_jobs(seed, 6)
    result = simulate(BatchCluster(jobs, 6), agent)
    assert agent.num_answers == len(jobs)
    assert validate(result, jobs).ok


class TestRandom:
    def test_all_jobs_that_fit_are_equally_likely(self) -> None:
        cores = {7: 2, 3: 9, 9: 1, 4: 2, 1: 1, 2: 2, 8: 9}
        simulation = Simulation(BatchCluster([Job(job, 0.0, cores[job], 1.0, 1.0) for job in cores], 9))
        while (decision := simulation.advance()) is not None and len(decision.observation.queue) < len(cores):
            decision.answer(None)  # until all have arrived
        assert decision is not None
        state = SimpleNamespace(env=SimpleNamespace(_now=0.0), resources=SimpleNamespace(num_free=2))
        seen: Any = SimpleNamespace(queue=decision.observation.queue, free_cores=2, time=0.0, _state=state)
        seen.plan = lambda **options: CountPlan(seen)
        rule = WindowRule("random", 3, 2)  # sees 7, 3, 9 and, from the tail, 8, 2
        rule.reset({}, np.random.default_rng(5))
        counts = Counter(rule.act(seen) for _ in range(6_000))
        assert set(counts) == {0, 2, 5}  # the rows of 7, 9 and 2
        assert stats.chisquare(list(counts.values())).pvalue > 0.01

    def test_runs_follow_the_seed(self) -> None:
        runs = [starts(WindowRule("random", 8, 8), JOBS, 64, seed=seed) for seed in (1, 1, 2)]
        assert runs[0] == runs[1] != runs[2]
        again = WindowRule("random", 8, 8)
        assert [starts(again, JOBS, 64, seed=1) for _ in range(2)] == [runs[0]] * 2


def test_rules_by_name() -> None:
    for rule in RULES:
        agent: Any = create(f"window-{rule}-9-1")
        assert isinstance(agent, WindowRule)
        assert (agent.rule, agent.window.head, agent.window.tail) == (rule, 9, 1)
        assert agent.name == f"window-{rule}-9-1"


@pytest.mark.parametrize("seconds", [14_400.0, 0.5, 2.5e6, np.inf])
def test_another_horizon_is_part_of_the_name(seconds: float) -> None:
    name = WindowRule("reserving", 9, 1, horizon=seconds).name
    again: Any = create(name)
    assert (again.horizon, again.name) == (seconds, name)
    assert WindowRule("reserving", 9, 1, horizon=3_600.0).name == "window-reserving-9-1"


def test_what_weighs_holds_a_job_back_for_half_of_what_it_takes_longer() -> None:
    def start_of_the_longer(longer: float) -> float:
        jobs = [
            Job(0, 0.0, 6, 10.0, 10.0),  # runs until 10
            Job(1, 1.0, 8, 20.0, 20.0),  # blocked until 10, in 8 seconds at time 2
            Job(2, 2.0, 2, longer, longer),  # would delay it
        ]
        return starts(WindowRule("weighing", 4), jobs, 8)[2]

    assert start_of_the_longer(36.0) == 2.0  # 8 + 28 seconds of waiting if it is held back, 36 if not
    assert start_of_the_longer(37.0) == 30.0


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (
            "window-luckiest-9-1",
            "rule: got 'luckiest', expected one of 'random', 'shortest', 'smallest', 'first', 'reserving', 'weighing'",
        ),
        ("window-shortest-9", "unknown batch agent 'window-shortest-9'; try for example window-shortest-9-1"),
        ("window-shortest-a-b", "try for example"),
        ("window-shortest-0-0", r"window: got \(0, 0\), expected numbers of slots >= 0, not both 0"),
        ("window-weighing-9-1@60", "unknown batch agent 'window-weighing-9-1@60': only rule 'reserving' has a horizon"),
        ("window-reserving-9-1@soon", "try for example"),
        ("window-aged-0-4", "head: got 0, expected at least 1 slot"),
    ],
)
def test_rules_that_do_not_exist_are_refused(name: str, what: str) -> None:
    with pytest.raises(InvalidConfiguration, match=what):
        create(name)
