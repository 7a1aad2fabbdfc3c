"""The compiled vector environment against single environments, step by step, and what it refuses."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import desim.envs  # noqa: F401  # registers the environments
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.env import BatchEnv, MixedEpisodes, TraceEpisodes, WaitingCost
from desim.problems.batch.vector_env import BatchVectorEnv
from desim.workloads import lublin

TRACE = lublin.generate(num_jobs=200, num_cores=64, seed=0, load=1.2)


def own_episode(rng: np.random.Generator) -> BatchCluster:
    """Return a small problem with ties, jobs of no length and jobs that exceed their requested times."""
    count, num_cores = int(rng.integers(5, 40)), int(rng.integers(2, 9))
    times = np.cumsum(rng.integers(0, 3, count) * rng.integers(0, 10, count)).astype(float)
    widths, requested, lengths = (
        rng.integers(low, high, count) for low, high in ((1, num_cores + 1), (0, 20), (0, 25))
    )
    rows = zip(times, widths, requested, lengths, strict=True)
    return BatchCluster(
        [Job(n, float(t), int(w), float(r), float(x)) for n, (t, w, r, x) in enumerate(rows)], num_cores
    )


class OwnReward(WaitingCost):
    """A reward that may do anything."""


def same(ours: Any, theirs: Any) -> None:
    """Assert that two observations or infos are equal; single-precision features to the last digits."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            same(ours[name], theirs[name])
    elif theirs is None or (isinstance(theirs, np.ndarray) and theirs.dtype == object):
        assert (ours is None) == (theirs is None)
        for one, other in zip(*(() if array is None else array for array in (ours, theirs)), strict=True):
            same(one, other)
    elif theirs.dtype == np.float32:
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    else:
        np.testing.assert_array_equal(ours, theirs)


def play(seed: int, mode: AutoresetMode, num_steps: int, **options: Any) -> int:
    """Step both kinds of environment with the same actions; return how many episodes ended."""
    ours = BatchVectorEnv(3, autoreset_mode=mode, **options)
    theirs = SyncVectorEnv([lambda: gymnasium.make("desim/Batch-v0", **options)] * 3, autoreset_mode=mode)
    rng, ended = np.random.default_rng(seed), 0
    first, second = ours.reset(seed=seed), theirs.reset(seed=seed)
    for one, other in zip(first, second, strict=True):
        same(one, other)
    observation = first[0]
    for _ in range(num_steps):
        mask = observation["action_mask"]
        assert np.array_equal(ours.action_masks(), mask.astype(bool))
        actions = np.array([rng.choice(row.nonzero()[0]) for row in mask])
        if rng.random() < 0.1:  # impossible ones, too
            actions = rng.integers(0, mask.shape[1], len(mask))
        gone = ours.step(actions)
        for one, other in zip(gone, theirs.step(actions), strict=True):
            same(one, other)
        observation = gone[0]
        over = gone[2] | gone[3]
        ended += int(over.sum())
        if mode is AutoresetMode.DISABLED and over.any():
            pair = [env.reset(options={"reset_mask": over.copy()}) for env in (ours, theirs)]
            for one, other in zip(*pair, strict=True):
                same(one, other)
            observation = pair[0][0]
    return ended


@settings(max_examples=8)
@given(
    seed=st.integers(0, 99),
    mode=st.sampled_from(AutoresetMode),
    skips=st.booleans(),
    window=st.sampled_from([(16, 16), (3, 2), (0, 2), (2, 0), [(4, 4), (2, 0), (8, 1)]]),
)
def test_small_episodes_are_those_of_single_environments(seed: int, mode: Any, skips: bool, window: Any) -> None:
    play(seed, mode, 30, jobs=own_episode, skip_forced=skips, window=window)


@pytest.mark.parametrize("skips", [True, False])
def test_episodes_of_a_trace_are_those_of_single_environments(skips: bool) -> None:
    options: dict[str, Any] = {"jobs": TRACE, "num_cores": 64, "num_jobs": 30, "window": (5, 3), "skip_forced": skips}
    assert play(1, AutoresetMode.NEXT_STEP, 120, **options) > 3
    assert play(2, AutoresetMode.SAME_STEP, 60, **options, max_decisions=20) > 3


@settings(max_examples=3)
@given(seed=st.integers(0, 99), skips=st.booleans())
def test_the_observation_and_reward_of_the_dbf_paper_are_those_of_single_environments(seed: int, skips: bool) -> None:
    options: dict[str, Any] = {"jobs": TRACE, "num_cores": 64, "num_jobs": 30, "window": (5, 3), "arrivals": "open"}
    paper = {"observation": "flat", "reward": "paper", "skip_forced": False}
    assert play(seed, AutoresetMode.NEXT_STEP, 150, **options, **paper)
    assert play(seed, AutoresetMode.NEXT_STEP, 100, **options, skip_forced=skips)


def traced(rng: np.random.Generator, cycle: str) -> TraceEpisodes:
    """Return open episodes of a trace with ties, jobs of no length and, of few, fractional times."""
    jobs = [job for _ in range(3) for job in own_episode(rng).jobs]
    count, by = len(jobs), rng.choice([1.0, 0.1, 1 / 3])
    times = np.cumsum(rng.integers(0, 3, count) * rng.integers(0, 4, count)) * by
    renamed = [
        job._replace(job_id=n, submission_time=float(time), run_time=job.run_time * by)
        for n, (job, time) in enumerate(zip(jobs, times, strict=True))
    ]
    return TraceEpisodes([renamed], 8, num_jobs=int(rng.integers(1, 12)), arrivals="open", cycle=cycle)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cycle=st.sampled_from(["instant", "arrival"]),
    skips=st.booleans(),
    reward=st.sampled_from(["waiting", "paper", "scaled", "powers"]),
    reserve_after=st.sampled_from([None, 0.0, 5.0]),
)
def test_open_episodes_step_and_end_like_single_ones(
    seed: int, cycle: str, skips: bool, reward: str, reserve_after: float | None
) -> None:
    rng = np.random.default_rng(seed)
    episodes = traced(rng, cycle)
    powers = reward == "powers"
    options: dict[str, Any] = {"window": (2, 2), "skip_forced": skips}
    options |= {"observation": "flat"} if reserve_after is None else {"reserve_after": reserve_after}
    rewards = [WaitingCost(7.0, 4.0) if powers else reward for _ in range(3)]
    single = [BatchEnv(episodes, 8, num_jobs=episodes.num_jobs, reward=one, **options) for one in rewards]
    together = BatchVectorEnv.of(single[0], 3)
    for step in range(150):
        if not step % 50:
            together.begin(np.arange(3), [step, step + 1, step + 2])
            for number, env in enumerate(single):
                env.reset(seed=step + number)
        seen = {name: array.copy() for name, array in together.observe().items()}
        for number, env in enumerate(single):
            same({name: array[number] for name, array in seen.items()}, env.observe())
        asked = np.array([env.decision is not None for env in single])
        actions = np.where(rng.random(3) < 0.7, seen["action_mask"].argmax(axis=1), rng.integers(0, 5, 3))
        gone = together.advance(actions, asked)
        for number in asked.nonzero()[0].tolist():
            expected = single[number].advance(int(actions[number]))
            earned, elapsed, possible, terminated, truncated = (array[number] for array in gone)
            assert expected[1:] == (terminated, truncated, elapsed, possible)
            # numpy rounds powers differently
            assert earned == (pytest.approx(expected[0], 1e-9, 1e-9) if powers else expected[0])
            if terminated or truncated:
                ours, theirs = together.finished(number).unwrapped.result(), single[number].result()
                assert ours.jobs.drop("allocated_resources").equals(theirs.jobs.drop("allocated_resources"))
                assert {name: theirs.info[name] for name in ours.info} == ours.info


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(AutoresetMode), skips=st.booleans(), head=st.integers(0, 6))
def test_thousands_of_episodes_are_those_of_single_environments(seed: int, mode: Any, skips: bool, head: int) -> None:
    play(seed, mode, 200, jobs=own_episode, skip_forced=skips, window=(head, 3))


def test_gymnasium_makes_it() -> None:
    envs = gymnasium.make_vec(
        "desim/Batch-v0", 5, vectorization_mode="vector_entry_point", jobs=TRACE, num_cores=64, num_jobs=20
    )
    assert isinstance(envs.unwrapped, BatchVectorEnv) and envs.unwrapped.single.skip_forced
    observation, _ = envs.reset(seed=3)
    assert observation in envs.observation_space
    observation, rewards, *_ = envs.step(envs.action_space.sample())
    assert observation in envs.observation_space and rewards.shape == (5,)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"reward": OwnReward()}, "reward: got OwnReward"),
        ({"observation": "flat-sorted"}, "observation: got .*FlatEncoder"),
        ({"until": 9.0}, "until: got 9"),
        ({"num_envs": 0}, "num_envs: got 0"),
    ],
)
def test_what_it_does_not_serve_is_refused(options: dict[str, Any], names: str) -> None:
    with pytest.raises(InvalidConfiguration, match=names):
        BatchVectorEnv(**{"num_envs": 2, "jobs": TRACE, "num_cores": 64, "num_jobs": 20, **options})


def test_parts_of_mixed_episodes_may_only_differ_in_cores() -> None:
    parts = [TraceEpisodes([TRACE], 64, num_jobs=count) for count in (10, 20)]
    with pytest.raises(InvalidConfiguration, match="10 jobs, closed, cycle instant and 20 jobs"):
        BatchVectorEnv(2, MixedEpisodes(parts), 64)


def test_other_clusters_are_refused() -> None:
    waits = BatchVectorEnv(1, lambda rng: BatchCluster(TRACE, 64, over_time_limit=60.0), num_cores=64)
    with pytest.raises(InvalidConfiguration, match="over_time_limit 60"):
        waits.reset(seed=0)
    with pytest.raises(WorkloadError, match="requests 3 cores, but the cluster has 2"):
        BatchVectorEnv(1, lambda rng: BatchCluster([Job(1, 0.0, 3, 1.0, 1.0)], 2)).reset(seed=0)


def test_wrong_actions_and_masks_are_refused() -> None:
    envs = BatchVectorEnv(2, TRACE, 64, num_jobs=20, autoreset_mode="Disabled")
    with pytest.raises(InvalidConfiguration, match="has not begun"):
        envs.step(np.zeros(2, np.int64))
    envs.reset(seed=0)
    for wrong in (np.zeros(3, np.int64), np.zeros(2), np.array([0, 33])):
        with pytest.raises(InvalidConfiguration, match=r"actions: got .* expected integers from 0 to 32"):
            envs.step(wrong)
    with pytest.raises(InvalidConfiguration, match="reset_mask: got bool of shape"):
        envs.reset(options={"reset_mask": np.zeros(2, np.bool_)})
