"""The environment of the inspector: what is seen, what is earned, and that it is the agent's own world."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_sb3

from desim import simulate
from desim.agents.batch.inspector import BackfilledPriority, Inspector
from desim.envs import ACTION_MASK
from desim.exceptions import DesimError, InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.env import TraceEpisodes
from desim.problems.batch.inspection import INSPECTION_FEATURES, Improvement, InspectorEnv
from desim.result import Result
from desim.validation import validate

CORES = 16


def trace(count: int = 120, seed: int = 0) -> list[Job]:
    """Return jobs that keep a small cluster busy, some of them requested for longer than they run."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(500.0, count).cumsum()
    runs = rng.lognormal(6.5, 1.7, count)
    requests = runs * rng.choice((1.0, 1.5, 4.0), count)
    rows = zip(times, rng.integers(1, CORES + 1, count), requests, runs, strict=True)
    return [Job(number, float(t), int(c), float(q), float(r)) for number, (t, c, q, r) in enumerate(rows)]


JOBS = trace()


def make(base: str = "smallest-first", **options: Any) -> InspectorEnv:
    return InspectorEnv(BackfilledPriority(base), JOBS, CORES, **{"num_jobs": 25} | options)


def play(env: InspectorEnv, seed: int, acceptance: float) -> tuple[list[int], list[float], list[dict[str, Any]]]:
    """Play a sequence with random answers; return actions, rewards and infos."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    actions, rewards, infos, over = [], [], [info], False
    while not over:
        actions.append(int(rng.random() < acceptance))
        _, reward, terminated, truncated, info = env.step(actions[-1])
        over = terminated or truncated
        assert not truncated and not info["invalid"]
        rewards.append(reward)
        infos.append(info)
    return actions, rewards, infos


def waits_and_slowdowns(result: Result) -> tuple[float, float]:
    """Return the mean waiting time and the mean bounded slowdown, from the rows of the records."""
    waits, slowdowns = [], []
    for row in result.jobs.iter_rows(named=True):
        wait = row["starting_time"] - row["submission_time"]
        run = row["finish_time"] - row["starting_time"]
        waits.append(wait)
        slowdowns.append(max((wait + run) / max(run, 10.0), 1.0))
    return sum(waits) / len(waits), sum(slowdowns) / len(slowdowns)


def test_it_is_an_environment() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(), skip_render_check=True)
        check_env_sb3(make())


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("base", ["smallest-first", "f1"])
def test_the_agent_meets_the_same_questions(base: str, keeps: bool) -> None:
    env = make(base, keeps_accepted=keeps)
    actions, rewards, _ = play(env, 3, 0.5)
    left = iter(actions)
    agent = Inspector(base, lambda seen: next(left), keeps_accepted=keeps)
    problem = TraceEpisodes([JOBS], CORES, num_jobs=25, arrivals="closed")(np.random.default_rng(3))
    own = simulate(problem, agent)
    assert next(left, None) is None
    columns = ("job_id", "starting_time", "allocated_resources")
    assert own.jobs.select(columns).rows() == env.result().jobs.select(columns).rows()
    assert validate(own, list(problem.jobs)).ok

    base_run = simulate(problem, Inspector(base, keeps_accepted=keeps))
    assert base_run.jobs.select(columns).rows() == env.improvement.base.jobs.select(columns).rows()
    (_, slowdown), (_, base_slowdown) = waits_and_slowdowns(own), waits_and_slowdowns(base_run)
    assert rewards[:-1] == [0.0] * (len(rewards) - 1)
    assert rewards[-1] == pytest.approx((base_slowdown - slowdown) / base_slowdown)
    assert rewards[-1] != 0


def test_the_improvement_of_the_waiting_time() -> None:
    env = make(reward="waiting_time_mean")
    _, rewards, _ = play(env, 1, 0.5)
    own, base = (waits_and_slowdowns(result)[0] for result in (env.result(), env.improvement.base))
    assert sum(rewards) == pytest.approx((base - own) / base)


@pytest.mark.parametrize(("floor", "earned"), [(-math.inf, -200.0), (-3.0, -3.0)])
def test_a_base_without_waiting_counts_as_one_second(floor: float, earned: float) -> None:
    jobs = [Job(number, 1000.0 * number, 1, 10.0, 10.0) for number in range(3)]
    env = InspectorEnv(BackfilledPriority("fcfs"), jobs, 1, num_jobs=3, reward="waiting_time_mean", floor=floor)
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in (0, 1, 1, 1)]
    assert rewards == [0.0, 0.0, 0.0, pytest.approx(earned)]  # one of three jobs has waited for 600 s


@pytest.mark.parametrize("seed", range(3))
def test_accepting_everything_improves_nothing(seed: int) -> None:
    env = make("f1")
    _, rewards, infos = play(env, seed, 1.1)
    assert sum(rewards) == 0
    assert infos[-1]["decisions"] == len(rewards) <= 25


def test_questions_while_something_is_rejected_are_at_most_600_s_apart() -> None:
    env = make("f1")
    actions, _, infos = play(env, 5, 0.2)
    gaps = [info["elapsed"] for action, info in zip(actions, infos[1:], strict=True) if action == 0]
    assert len(gaps) > 50
    assert max(gaps[:-1]) <= 600.0 + 1e-6
    assert sum(info["elapsed"] for info in infos) == pytest.approx(env.result().info["end_time"] - infos[0]["time"])


def slow_features(observation: Any, question: Any) -> list[float]:
    """Return the features, job by job."""
    rows = list(
        zip(
            observation.queue.row.tolist(),
            observation.queue.submission_time.tolist(),
            observation.queue.requested_cores.tolist(),
            observation.queue.requested_time.tolist(),
            strict=True,
        )
    )
    (job,) = [row for row in rows if row[0] == question.row]
    delay = 0.0
    for row in rows:
        delay += 600.0 / max(row[3], 10.0)
    used = sum(observation.running.requested_cores.tolist())
    return [
        min(math.log(1 + observation.time - job[1]) / math.log(1 + 1e6), 1),
        min(math.log(1 + job[3]) / math.log(1 + 1e6), 1),
        job[2] / CORES,
        question.rejections / 72,
        (CORES - used) / CORES,
        1.0 if job[2] <= CORES - used else 0.0,
        min(math.log(1 + delay) / math.log(1 + 1e4), 1),
    ]


def test_features_against_a_loop() -> None:
    env = make("f1")
    rng = np.random.default_rng(8)
    seen, _ = env.reset(seed=8)
    over, rows = False, []
    while not over:
        expected = slow_features(env._observation, env.inspection.question)
        assert seen["features"] == pytest.approx(expected, abs=1e-6)
        assert seen[ACTION_MASK].tolist() == [1, 1]
        rows.append(expected)
        seen, _, over, _, _ = env.step(int(rng.random() < 0.4))
    assert len(rows) > 20
    spread = np.ptp(rows, axis=0)
    assert dict(zip(INSPECTION_FEATURES, spread > 0, strict=True)) == dict.fromkeys(INSPECTION_FEATURES, True)
    assert seen["features"].tolist() == [0.0] * 7  # no question is left


def test_a_seed_gives_a_sequence() -> None:
    env = make()
    runs = [play(env, seed, 0.5) for seed in (4, 4, 6)]
    assert runs[0] == runs[1] != runs[2]


def test_before_the_end_there_is_nothing_to_compare_with() -> None:
    env = make()
    with pytest.raises(DesimError, match="no episode yet"):
        env.result()
    env.reset(seed=1)
    assert env.improvement.base is None
    with pytest.raises(InvalidConfiguration, match="action: got 2, expected an integer from 0 to 1"):
        env.step(2)


def test_jobs_that_can_be_read_only_once_are_refused() -> None:
    env = InspectorEnv(BackfilledPriority("fcfs"), lambda rng: BatchCluster(iter(JOBS), CORES))
    with pytest.raises(InvalidConfiguration, match="read only once"):
        env.reset(seed=0)


def test_a_floor_that_forbids_all_losses() -> None:
    with pytest.raises(InvalidConfiguration, match=r"floor: got 0\.0"):
        make(floor=0.0)


def test_an_unknown_objective() -> None:
    with pytest.raises(InvalidConfiguration, match="objective: got 'speed'"):
        make(reward="speed")
    with pytest.raises(InvalidConfiguration, match="objective: got 'speed'"):
        Improvement(None, "speed")  # type: ignore[arg-type]
