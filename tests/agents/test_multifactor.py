"""The multifactor priority against its definition, computed anew at each decision from everything that ever ran."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, Simulation, simulate
from desim.agents.batch import EASYBackfilling, Multifactor
from desim.problems.batch import BatchCluster, BatchObservation, Job, Node, Request, Usage
from desim.processes.outages import Outage, planned_outages


def random_jobs(seed: int, count: int = 60) -> list[Job]:
    """Return jobs of five users, of whom one submits half."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(3.0, count).cumsum().round(1).tolist()
    users = rng.choice(5, count, p=[0.5, 0.125, 0.125, 0.125, 0.125]).tolist()
    return [
        Job(number, time, int(rng.integers(1, 6)), 20.0, float(rng.integers(0, 25)), user)
        for number, (time, user) in enumerate(zip(times, users, strict=True))
    ]


class Checked:
    """EASY by multifactor priority that compares all scores with the definition."""

    def __init__(self, jobs: list[Job], priority: Multifactor) -> None:
        self.easy = EASYBackfilling(priority)
        self.jobs = dict(enumerate(jobs))
        self.starts: dict[int, float] = {}
        self.compared = 0

    def act(self, observation: BatchObservation) -> Any:
        self.easy.priority.look(observation)
        queue, now = observation.queue, observation.time
        wanted = [self.score(row, queue.user_id.tolist(), now) for row in queue.row.tolist()]
        assert self.easy.priority.scores(queue, now).tolist() == pytest.approx(wanted, rel=1e-9)
        self.compared += len(wanted)
        answer = self.easy.act(observation)
        self.starts |= {row: now for row in answer or () if isinstance(row, int)}
        return answer

    def score(self, row: int, queued_users: list[int], now: float) -> float:
        rule: Any = self.easy.priority
        job = self.jobs[row]
        used = dict.fromkeys({*queued_users, *(self.jobs[started].user_id for started in self.starts)}, 0.0)
        for started, start in self.starts.items():
            other = self.jobs[started]
            end = min(now, start + min(other.run_time, other.requested_time))
            faded = [2.0 ** -((now - time) / rule.half_life) for time in (start, end)]
            used[other.user_id] += other.requested_cores * (faded[1] - faded[0]) * rule.half_life / log(2.0)
        of_all, shares = sum(used.values()), sum(rule.shares.get(user, 1.0) for user in used)
        share = rule.shares.get(job.user_id, 1.0) / shares
        fair = 2.0 ** -(used[job.user_id] / of_all / share) if of_all else 1.0
        width = job.requested_cores / 8
        age = min(1.0, (now - job.submission_time) / rule.max_age)
        return -(rule.age * age + rule.size * (1 - width if rule.narrow_first else width) + rule.fair_share * fair)


def compare_with_the_definition(seed: int, narrow_first: bool) -> None:
    jobs = random_jobs(seed)
    priority = Multifactor(half_life=40.0, max_age=30.0, narrow_first=narrow_first, shares={0: 4.0, 3: 0.5})
    agent = Checked(jobs, priority)
    simulate(BatchCluster(jobs, 8), agent)
    assert agent.compared > 60


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=25, deadline=None)
def test_scores_are_those_of_the_definition(seed: int, narrow_first: bool) -> None:
    compare_with_the_definition(seed, narrow_first)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=1000, deadline=None)
def test_scores_are_those_of_the_definition_in_a_thousand_scenarios(seed: int, narrow_first: bool) -> None:
    compare_with_the_definition(seed, narrow_first)


def test_who_has_used_much_comes_later_until_that_is_forgotten() -> None:
    rows = [(0.0, 10.0, 1), (1.0, 2.0, 2), (3.0, 5.0, 2), (4.0, 5.0, 1)]  # submission, run time, user
    jobs = [Job(number, time, 4, run, run, user) for number, (time, run, user) in enumerate(rows)]
    for half_life, starts in ((1000.0, [0, 10, 12, 17]), (1.0, [0, 10, 17, 12])):
        result = simulate(BatchCluster(jobs, 4), Multifactor(age=0.0, half_life=half_life))
        assert result.jobs.sort("job_id")["starting_time"].to_list() == starts


def test_age_alone_is_the_order_of_arrival() -> None:
    jobs = random_jobs(3)
    age_only = Multifactor(size=0.0, fair_share=0.0, max_age=1e6)
    one, other = (simulate(BatchCluster(jobs, 8), EASYBackfilling(order)).jobs for order in (age_only, "fcfs"))
    assert one.equals(other)


def test_partitions_have_factors() -> None:
    requests = (Request(), Request(), Request(partition="fast"))
    jobs = [Job.of_tasks(number, min(number, 1.0), request, 9.0, 9.0) for number, request in enumerate(requests)]
    for weight, starts in ((1.0, [0, 18, 9]), (0.0, [0, 9, 18])):
        agent = EASYBackfilling(Multifactor(fair_share=0.0, partition=weight, partitions={"fast": 1.0}))
        result = simulate(BatchCluster(jobs, nodes=[Node("a", 1, partition="fast")]), agent)
        assert result.jobs.sort("job_id")["starting_time"].to_list() == starts


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=20))
@settings(deadline=None)
def test_usage_is_the_integral(changes: list[tuple[float, int, int]]) -> None:
    changes.sort()
    usage, half_life, end = Usage(7.0), 7.0, 60.0
    for time, user, cores in changes:
        usage.change(user, cores, time)
    rate = log(2.0) / half_life
    for user in range(3):
        wanted = sum(
            cores * (1 - 2 ** ((time - end) / half_life)) / rate for time, who, cores in changes if who == user
        )
        assert usage.of(user, end) == pytest.approx(wanted)
    assert set(usage.by_user(end)) == {user for _, user, _ in changes}


def test_forks_know_what_has_been_used() -> None:
    jobs = random_jobs(5)
    outage = planned_outages([Outage(30.0, 50.0, cores=[0, 1])])
    simulation = Simulation(BatchCluster(jobs, 8, processes=[outage]))
    agent = EASYBackfilling(Multifactor(half_life=40.0))
    for _ in range(40):
        decision = simulation.advance()
        assert decision is not None
        decision.answer(agent.act(decision.observation))
    fork, other = simulation.fork(), EASYBackfilling(Multifactor(half_life=40.0))
    ends = []
    for each, policy in ((fork, other), (simulation, agent)):
        while (decision := each.advance()) is not None:
            decision.answer(policy.act(decision.observation))
        ends.append(each.finish().jobs)
    assert ends[0].equals(ends[1])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"age": -1.0}, "age: got -1"),
        ({"half_life": 0.0}, "half_life: got 0"),
        ({"max_age": float("nan")}, "max_age: got nan"),
        ({"shares": {3: 0.0}}, "the share of user 3: got 0"),
        ({"partitions": {"fast": 2.0}}, "a factor of partitions: got 2"),
    ],
)
def test_arguments_out_of_range(options: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidConfiguration, match=what):
        Multifactor(**options)


def test_scores_without_a_look_are_refused() -> None:
    simulation = Simulation(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], 1))
    decision = simulation.advance()
    assert decision is not None
    with pytest.raises(InvalidConfiguration, match="multifactor: got no observation before scores"):
        Multifactor().scores(decision.observation.queue, 0.0)
