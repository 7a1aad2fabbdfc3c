"""Deferrable jobs for learners: rows, scores and rewards, each against a plain second version."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from env_cases import Masked, play, total
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.deferrable import FIFO, EarliestDeadline, LargestRevenue
from desim.agents.deferrable.orders import first_fitting
from desim.core import Decision, Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, Job
from desim.problems.deferrable.encoder import (
    CURRENT_FEATURES,
    FUTURE_FEATURES,
    HISTORY_FEATURES,
    SYSTEM_FEATURES,
    ScoreEncoder,
)
from desim.problems.deferrable.env import REWARDS, DeferrableEnv, PaperReward, UtilizationReward
from desim.workloads import deferrable

RESOURCES = ("cores", "memory")


def random_cluster(rng: Random, num_resources: int, **options: Any) -> DeferrableCluster:
    """Return a cluster that is short of everything; amounts are thirds, whose sums are not exact."""
    times = sorted(rng.choice((0, 0.5, 1, 3, 6, 7)) for _ in range(rng.randint(1, 25)))
    jobs = []
    for job_id, time in zip(rng.sample(range(99), len(times)), times, strict=True):
        earliest = math.ceil(time) + rng.randint(0, 3)
        others = tuple(rng.choice((0, 1, 2)) / 3 for _ in range(num_resources - 1))
        latest = earliest + rng.randint(0, 4)
        jobs.append(Job(job_id, time, earliest, latest, rng.randint(1, 5), rng.randint(1, 9) / 3, others))
    capacity = [[rng.randint(0, 15) / 3 for _ in range(num_resources)] for _ in range(12)]
    settings: dict[str, Any] = {
        "num_slots": rng.choice((None, 12)),
        "eviction": rng.choice(("never", "lost", "restarted")),
        "overcommit": False,
        "resources": RESOURCES[:num_resources],
    }
    return DeferrableCluster(jobs, capacity, **settings | options)


def decisions(
    rng: Random, encoder: ScoreEncoder, cluster: DeferrableCluster
) -> Iterator[tuple[Simulation, Decision, list[int]]]:
    """Yield the decisions of a run with random scores, many of them equal, and what is going to be started."""
    simulation = Simulation(cluster)
    while (decision := simulation.advance()) is not None:
        scores = [rng.choice((-1.0, -0.5, 0.0, 0.25, 1.0)) for _ in range(encoder.max_jobs)]
        answer, valid = encoder.decode(decision.observation, np.array(scores, np.float32))
        assert valid
        assert answer is not None
        yield simulation, decision, answer
        assert answer == slow_answer(decision.observation, scores, encoder.threshold, encoder.rule)
        decision.answer(answer)


def slow_answer(seen: Any, scores: list[float], threshold: float, rule: str) -> list[int]:
    """Return which jobs are started, written with the agents' own way to fill what is free."""
    count = min(len(seen.current), len(scores))
    order = sorted(range(count), key=lambda position: (-scores[position], position))
    order = [position for position in order if threshold == -1 or scores[position] > threshold]
    room = (seen.limit - seen.used)[None, :]
    return first_fitting(seen.current, np.array(order, dtype=np.int64), room, skip=rule == "skip")


@given(
    seed=st.integers(0, 10**6),
    max_jobs=st.integers(1, 9),
    num_resources=st.integers(1, 2),
    threshold=st.sampled_from([-1.0, -0.5, 0.0, 1.0]),
    rule=st.sampled_from(["stop", "skip"]),
)
@settings(max_examples=60, deadline=None)
def test_jobs_are_started_in_order_of_their_scores_while_they_fit(
    seed: int, max_jobs: int, num_resources: int, threshold: float, rule: Any
) -> None:
    rng = Random(seed)
    encoder = ScoreEncoder(max_jobs, num_resources, threshold=threshold, rule=rule)
    started: list[tuple[float, int]] = []
    expected = []
    cluster = random_cluster(rng, num_resources)  # without overcommitting: what does not fit is refused
    cluster.on("start", lambda time, job: started.append((time, job.job_id)))
    for _, decision, answer in decisions(rng, encoder, cluster):
        observation = decision.observation
        mask = encoder.encode(observation)["action_mask"].tolist()
        count = min(len(observation.current), max_jobs)
        assert mask == [1] * count + [0] * (max_jobs - count)
        assert encoder.is_forced(observation) == (sum(mask) == 0)
        expected += [(float(observation.slot), int(observation.current.job_id[position])) for position in answer]
    assert started == expected


def test_by_hand() -> None:
    jobs = [Job(1, 0, 0, 5, 2, 3.0), Job(2, 0, 0, 5, 2, 4.0), Job(3, 0, 0, 5, 2, 1.0), Job(4, 0, 0, 5, 1, 2.0)]
    decision = Simulation(DeferrableCluster(jobs, [6.0])).advance()
    assert decision is not None
    scores = np.array([0.5, 0.4, 0.4, -0.2, 0.9], np.float32)
    answers = {
        ("stop", -1.0): [0],
        ("skip", -1.0): [0, 2, 3],
        ("skip", 0.0): [0, 2],
        ("skip", float(scores[1])): [0],
    }
    for (rule, threshold), answer in answers.items():
        encoder = ScoreEncoder(5, threshold=threshold, rule=rule)  # type: ignore[arg-type]
        assert encoder.decode(decision.observation, scores) == (answer, True)
    assert ScoreEncoder(2, rule="skip").decode(decision.observation, -scores[:2]) == ([1], True)
    assert encoder.decode(decision.observation, np.array([0, 0, math.nan, 0, 0])) == (None, False)
    assert encoder.decode(decision.observation, np.array([0, 0, 0, 0, math.nan])) == ([], True)  # there is no such job
    with pytest.raises(InvalidConfiguration, match=r"action: got shape \(4,\), expected \(5,\)"):
        encoder.decode(decision.observation, scores[:4])


def test_a_job_fits_however_short_is_what_it_does_not_need() -> None:
    jobs = [Job(1, 0, 0, 0, 9, 1.0, (2.0,)), Job(2, 0, 1, 5, 1, 1.0, (0.5,)), Job(3, 0, 1, 5, 1, 1.0, (0.0,))]
    cluster = DeferrableCluster(jobs, [[4.0, 2.0], [4.0, 1.0]], resources=RESOURCES, overcommit=False, num_slots=2)
    gym_env = DeferrableEnv([cluster], 2, num_resources=2, rule="skip")
    gym_env.reset(seed=0)
    seen, *_ = gym_env.step(np.zeros(2))  # job 1 holds all the memory, half of which then goes
    assert seen["current"][:, 1].tolist() == [0.0, 1.0]
    gym_env.step(np.zeros(2))
    started = gym_env.result().jobs.sort("job_id")["starting_time"].to_list()
    assert started == [0.0, None, 1.0]


@given(seed=st.integers(0, 10**6), num_resources=st.integers(1, 2), max_jobs=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_features_are_those_that_are_described(seed: int, num_resources: int, max_jobs: int) -> None:
    rng = Random(seed)
    scale = [0.5, 4.0][:num_resources]
    encoder = ScoreEncoder(max_jobs, num_resources, max_future_jobs=3, history=4, horizon=3, scale=scale)
    for _, decision, _ in decisions(rng, encoder, random_cluster(rng, num_resources, overcommit=True)):
        found = encoder.encode(decision.observation)
        for name, table in slow_features(decision.observation, encoder, scale).items():
            np.testing.assert_allclose(found[name], table, rtol=1e-5, atol=1e-6, err_msg=name)
            assert found[name] in encoder.observation_space[name]


def log(value: float) -> float:
    return math.log1p(value) / 4


def slow_features(seen: Any, encoder: ScoreEncoder, scale: list[float]) -> dict[str, np.ndarray]:
    """Return all arrays but the mask, written as they are described."""
    slot, num_resources = seen.slot, len(scale)

    def over_scale(amounts: Any) -> list[float]:
        return [float(amount) / one for amount, one in zip(amounts, scale, strict=True)]

    ends = seen.running.finish_time.tolist()
    ahead = []
    for later in range(encoder.horizon):
        rows = [seen.running.requests[place] for place, end in enumerate(ends) if end > slot + later]
        ahead.append((seen.capacity - np.sum(rows, axis=0) if rows else seen.capacity).tolist())

    def until_fit(requests: Any) -> float:
        for later, room in enumerate(ahead):
            if all(one == 0 or one <= free + 1e-9 * max(free, 1) for one, free in zip(requests, room, strict=True)):
                return later / 8
        return encoder.horizon / 8

    def few(count: float) -> float:
        return min(count / 8, 1.0)

    def in_all(requests: Any) -> list[float]:
        return [*over_scale(requests), *over_scale([free - one for free, one in zip(ahead[0], requests, strict=True)])]

    current = np.zeros((encoder.max_jobs, len(CURRENT_FEATURES) + 2 * num_resources))
    for row, job in enumerate(list(seen.current)[: encoder.max_jobs]):
        requests = (job.cores, *job.others)
        fits = all(
            amount == 0 or held + amount <= limit
            for amount, held, limit in zip(requests, seen.used.tolist(), seen.limit.tolist(), strict=True)
        )
        counts = job.duration, job.latest_start - slot, slot - job.earliest_start, slot - job.submission_time
        evictions = float(seen.current.evictions[row])
        worth = job.cores * job.duration - seen.delay_weight * (slot - job.earliest_start)
        told = [1.0, fits, until_fit(requests), worth / max(scale), worth > 0, *map(log, counts), log(evictions)]
        current[row] = [*told, *map(few, counts[:3]), *in_all(requests)]
    future = np.zeros((3, len(FUTURE_FEATURES) + 2 * num_resources))
    for row, job in enumerate(list(seen.future)[:3]):
        requests = (job.cores, *job.others)
        counts = job.earliest_start - slot, job.slack + 1, job.duration
        told = [1.0, until_fit(requests), job.cores * job.duration / max(scale), *map(log, counts)]
        future[row] = [*told, few(counts[2]), few(counts[0]), few(counts[1]), *in_all(requests)]
    history = np.zeros((4, len(HISTORY_FEATURES) + 4 * num_resources))
    for back in range(4):
        if slot - back >= 0:
            used = seen.used if back == 0 else seen.used_history[slot - back]
            capacity = seen.capacity_history[slot - back]
            number, duration, *requests = seen.current_history[slot - back].tolist()
            started = 0.0 if back == 0 else float(seen.started_history[slot - back])
            over = [max(one - other, 0.0) for one, other in zip(used, capacity, strict=True)]
            amounts = [*over_scale(capacity), *over_scale(used), *over_scale(over), *over_scale(requests)]
            history[3 - back] = [1.0, log(number), log(started), log(duration), *amounts]
    counts = (
        len(seen.current),
        max(len(seen.current) - encoder.max_jobs, 0),
        len(seen.future),
        max(len(seen.future) - 3, 0),
        len(seen.running),
    )
    progress = slot / seen.num_slots if seen.num_slots else 0.0
    amounts = [*over_scale(seen.capacity), *over_scale(seen.used), *over_scale(seen.free)]
    system = np.array([progress, *map(log, counts), *amounts])
    assert len(system) == len(SYSTEM_FEATURES) + 3 * num_resources
    return {
        "current": current,
        "future": future,
        "free": [over_scale(one) for one in ahead],
        "history": history,
        "system": system,
    }


@pytest.mark.parametrize(("reward", "metric"), [("paper", "total_reward"), ("utilization", "revenue")])
def test_rewards_are_what_the_metrics_say(reward: str, metric: str) -> None:
    rng = Random(5)
    clusters = [random_cluster(rng, 2) for _ in range(8)]
    gym_env = DeferrableEnv(clusters, 4, num_resources=2, reward=reward, rule="skip")
    for seed in range(15):
        steps = play(gym_env, Masked(seed), seed=seed)
        assert steps[-1][2:4] == (True, False)
        assert 10 * total(steps) == pytest.approx(gym_env.result().metrics()[metric], abs=1e-9)


def test_the_reward_of_a_slot_comes_with_its_answer() -> None:
    jobs = [Job(1, 0, 0, 5, 2, 3.0), Job(2, 0, 0, 5, 3, 4.0)]
    cluster = DeferrableCluster(jobs, [6.0, 6.0, 6.0, 1.0], num_slots=5)
    gym_env = DeferrableEnv([cluster], 2, reward=PaperReward(1.0))
    gym_env.reset(seed=0)
    rewards = [gym_env.step(np.array([1.0, 0.5]))[1] for _ in range(5)]
    # Job 1 runs in slots 0 and 1, job 2 from slot 2 on, two slots late; in slots 3 and 4 it holds 3 cores too many.
    assert rewards == [6.0, 0.0, 12.0 - 2 * 2, -30.0, -30.0]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("agent", [FIFO, EarliestDeadline, LargestRevenue])
def test_scores_give_what_rules_do(agent: Any, skip: bool) -> None:
    scenario = deferrable.generate(seed=3)
    cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
    rule = agent(skip=skip)
    gym_env = DeferrableEnv([cluster], 64, rule="skip" if skip else "stop")

    def act(gym_env: Any, seen: Any) -> np.ndarray:
        ranks = np.argsort(np.argsort(rule.scores(gym_env.simulation.problem.observation), kind="stable"))
        scores = np.zeros(64)
        scores[: len(ranks)] = -ranks / 64
        return scores

    steps = play(gym_env, act, seed=0)
    expected = simulate(cluster, rule).metrics()
    assert gym_env.result().metrics() == expected
    assert 10 * total(steps) == pytest.approx(expected["total_reward"])


def test_the_default_workload_is_drawn_for_each_episode() -> None:
    gym_env = DeferrableEnv()
    first, second = (play(gym_env, Masked(), seed=seed)[-1] for seed in (1, 2))
    assert first[4]["time"] == second[4]["time"] == deferrable.DEFAULT.num_slots
    assert first[1] != second[1] or first[0]["history"].tolist() != second[0]["history"].tolist()


def test_what_does_not_fit_is_refused() -> None:
    cluster = random_cluster(Random(1), 2)
    with pytest.raises(InvalidConfiguration, match="resources: got 2 in the cluster, expected 1"):
        DeferrableEnv([cluster]).reset(seed=0)
    wrong: list[dict[str, Any]] = [
        {"max_jobs": 0},
        {"history": 0},
        {"threshold": 1.5},
        {"threshold": math.nan},
        {"rule": "jump"},
        {"scale": 0.0},
        {"scale": [1.0, 2.0]},
        {"scale": math.inf},
    ]
    for arguments in wrong:
        with pytest.raises(InvalidConfiguration, match=next(iter(arguments))):
            ScoreEncoder(**arguments)
    assert set(REWARDS) == {"paper", "utilization"}
    for reward in (PaperReward, UtilizationReward):
        with pytest.raises(InvalidConfiguration, match="scale"):
            reward(0.0)
