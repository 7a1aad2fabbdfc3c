"""Rollouts of many environments against one environment at a time; whole episodes; states; evaluation."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from learning_cases import (
    Bandit,
    Line,
    Luck,
    Point,
    PointPolicy,
    assert_same,
    bandit_policy,
    batch_of,
    line_length,
    line_policy,
)

from desim.agents.learning.distributions import MaskedCategorical
from desim.agents.learning.policy import Policy, to_tensors
from desim.agents.learning.rollout import Collector, Rollout, concatenated
from desim.exceptions import InvalidConfiguration


def collector(count: int, *, seed: int = 0, make: Any = Line, groups: int = 1) -> Collector:
    """Return a collector of so many environments, of which neighbours face the same episodes."""
    seeds = np.random.SeedSequence(seed).spawn(count // groups)
    return Collector(
        make, [one for one in seeds for _ in range(groups)], np.random.default_rng(seed + 1), measure=line_length
    )


def copied(seen: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(array) for name, array in seen.items()}


class Naive:
    """Environments in lists, acted in one step after the other; written without regard to speed."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.rngs = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(count)]
        self.rng = np.random.default_rng(seed + 1)
        self.envs = [Line() for _ in self.rngs]
        self.seen = [self.reset(number) for number in range(count)]
        self.episodes: list[dict[str, float]] = []
        self.earned, self.lengths = [0.0] * count, [0] * count

    def reset(self, number: int) -> dict[str, Any]:
        return copied(self.envs[number].reset(seed=int(self.rngs[number].integers(2**31)))[0])

    def steps(self, policy: Policy, count: int) -> list[list[dict[str, Any]]]:
        """Return a dictionary a step and environment."""
        found = []
        for _ in range(count):
            with torch.no_grad():
                distribution, values = policy(batch_of(self.seen))
                actions = distribution.sample(self.rng)
                logs = distribution.log_prob(actions)
            rows = []
            for number, env in enumerate(self.envs):
                after, reward, terminated, truncated, info = env.step(int(actions[number]))
                self.earned[number] += reward
                self.lengths[number] += 1
                final = 0.0
                if truncated:
                    with torch.no_grad():
                        final = float(policy(batch_of([copied(after)]))[1])
                rows.append(
                    self.seen[number]
                    | {
                        "actions": int(actions[number]),
                        "log_probs": float(logs[number]),
                        "values": float(values[number]),
                        "rewards": reward,
                        "elapsed": info["elapsed"],
                        "ends": terminated or truncated,
                        "final_values": final,
                    }
                )
                self.seen[number] = copied(after)
                if terminated or truncated:
                    ended = {"return": self.earned[number], "length": self.lengths[number], "place": env.place}
                    self.episodes.append(ended)
                    self.earned[number], self.lengths[number] = 0.0, 0
                    self.seen[number] = self.reset(number)
            found.append(rows)
        return found


def test_a_rollout_is_what_each_environment_goes_through_alone() -> None:
    policy, count = line_policy(), 5
    together, naive = collector(count), Naive(count)
    for length in (11, 1, 16):
        rollout = together.collect(policy, length)
        naive.episodes = []
        expected = naive.steps(policy, length)
        for name in ("x", "mask", "actions", "log_probs", "values", "rewards", "elapsed", "ends", "final_values"):
            array = rollout.observations[name] if name in rollout.observations else getattr(rollout, name)
            wanted = np.array([[row[name] for row in rows] for rows in expected])
            np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
        with torch.no_grad():
            np.testing.assert_allclose(rollout.last_values, policy(batch_of(naive.seen))[1].numpy(), rtol=1e-5)
        assert rollout.valid.all()
        assert rollout.num_steps == length * count
        assert [tuple(episode.values()) for episode in rollout.episodes] == [
            tuple(episode.values()) for episode in naive.episodes
        ]
    assert len(naive.episodes) > 5


def test_a_truncated_episode_has_the_value_of_its_own_last_observation() -> None:
    rollout = collector(4).collect(line_policy(), 60)
    with torch.no_grad():
        every = line_policy()(to_tensors({name: a.reshape(-1, 3) for name, a in rollout.observations.items()}))[1]
    shown = set(np.round(every.numpy(), 5).tolist())
    truncated = rollout.final_values[rollout.final_values != 0]
    assert len(truncated) > 5
    # The last observation of an episode is shown in no other place; that of the reset, which follows, is shown.
    assert shown.isdisjoint(np.round(truncated, 5).tolist())
    assert (rollout.ends[rollout.final_values != 0]).all()
    assert (rollout.ends & (rollout.final_values == 0)).any()


def test_arrays_that_are_no_dictionary_and_actions_that_are_arrays() -> None:
    rollout = Collector(Point, np.random.SeedSequence(3).spawn(3), np.random.default_rng(0)).collect(PointPolicy(), 9)
    assert rollout.observations["observation"].shape == (9, 3, 2)
    assert rollout.observations["observation"].dtype == np.float32
    assert rollout.actions.shape == (9, 3, 2)
    assert rollout.actions.dtype == np.float32
    expected = -((rollout.actions - rollout.observations["observation"]) ** 2).sum(2)
    np.testing.assert_allclose(rollout.rewards, expected, rtol=1e-5)
    assert (rollout.elapsed == 1).all()  # as it is not told
    np.testing.assert_array_equal(np.flatnonzero(rollout.ends[:, 0]), [3, 7])


class TestWholeEpisodes:
    def test_each_environment_plays_one_from_its_beginning(self) -> None:
        policy, together = line_policy(), collector(6)
        together.collect(policy, 3)  # leaves them somewhere
        for _ in range(3):
            rollout = together.collect_episodes(policy, 50)
            lengths = rollout.valid.sum(0)
            assert len(rollout.rewards) == lengths.max() <= 7
            assert len(set(lengths.tolist())) > 1
            assert (rollout.observations["x"][0, :, 2] == 0).all()  # nothing taken yet
            for env, length in enumerate(lengths):
                assert rollout.valid[:length, env].all()
                assert not rollout.valid[length:, env].any()
                assert np.flatnonzero(rollout.ends[:, env]).tolist() == [length - 1]
                assert rollout.rewards[length:, env].tolist() == [0.0] * (len(rollout.rewards) - length)
            assert rollout.num_steps == lengths.sum()
            assert sorted(episode["length"] for episode in rollout.episodes) == sorted(lengths)
            earned = sorted(episode["return"] for episode in rollout.episodes)
            np.testing.assert_allclose(earned, np.sort(rollout.rewards.sum(0)))

    def test_one_that_is_too_long_is_cut_and_the_next_is_new(self) -> None:
        policy, together = line_policy(), collector(6)
        rollout = together.collect_episodes(policy, 2)
        assert rollout.valid.shape == (2, 6)
        cut = ~rollout.ends.any(0)
        assert cut.any()
        assert (rollout.last_values[cut] != 0).all()
        assert len(rollout.episodes) == 6 - cut.sum()
        following = together.collect_episodes(policy, 50)
        assert (following.observations["x"][0, :, 2] == 0).all()
        assert following.ends.any(0).all()

    def test_episodes_follow_one_another_without_a_gap(self) -> None:
        policy, together = line_policy(), collector(1)
        firsts = [together.collect_episodes(policy, 50).observations["x"][0, 0] for _ in range(4)]
        rng = np.random.default_rng(np.random.SeedSequence(0).spawn(1)[0])
        for first in firsts:
            np.testing.assert_array_equal(first, Line().reset(seed=int(rng.integers(2**31)))[0]["x"])


def test_groups_face_the_same_episodes_again_and_again() -> None:
    together = collector(6, groups=3)
    for longest in (50, 2, 50):  # also where some were cut and others not
        rollout = together.collect_episodes(line_policy(), longest)
        first = rollout.observations["x"][0]
        assert (first[:3] == first[0]).all()
        assert (first[3:] == first[3]).all()
        assert (first[0] != first[3]).any()
        assert len({tuple(column) for column in rollout.actions.T.tolist()}) > 2  # but they act for themselves


def test_groups_of_luck_share_what_chance_brings() -> None:
    seeds = [seed for seed in np.random.SeedSequence(0).spawn(2) for _ in range(3)]
    policy = LuckPolicy()
    rollout = Collector(Luck, seeds, np.random.default_rng(0)).collect_episodes(policy, 20)
    chance = rollout.rewards - rollout.actions
    np.testing.assert_allclose(chance[:, :3], np.repeat(chance[:, :1], 3, 1), atol=1e-9)
    assert not np.allclose(chance[:, 0], chance[:, 3])


class LuckPolicy(Policy):
    """Tosses a coin."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(2))

    def forward(self, observations: dict[str, torch.Tensor]) -> tuple[Any, torch.Tensor]:
        """Return even odds."""
        count = len(observations["x"])
        return MaskedCategorical(self.logits.expand(count, 2)), torch.zeros(count)


class TestConcatenated:
    def test_shorter_rollouts_are_filled_up(self) -> None:
        policy = line_policy()
        parts = [
            collector(2, seed=limit, make=partial(Line, limit)).collect_episodes(policy, 50) for limit in (3, 2, 7)
        ]
        lengths = [len(part.rewards) for part in parts]
        assert len(set(lengths)) > 1
        joined = concatenated(parts)
        assert joined.rewards.shape == (max(lengths), 6)
        for number, part in enumerate(parts):
            columns = slice(2 * number, 2 * number + 2)
            for name in ("actions", "rewards", "values", "ends", "elapsed", "final_values", "valid", "log_probs"):
                array = getattr(joined, name)
                np.testing.assert_array_equal(array[: lengths[number], columns], getattr(part, name))
                assert not array[lengths[number] :, columns].any()
                assert array.dtype == getattr(part, name).dtype
            for name, array in part.observations.items():
                np.testing.assert_array_equal(joined.observations[name][: lengths[number], columns], array)
            np.testing.assert_array_equal(joined.last_values[columns], part.last_values)
        assert joined.num_steps == sum(part.num_steps for part in parts)
        assert joined.episodes == [episode for part in parts for episode in part.episodes]
        assert joined.seconds["infer"] == max(part.seconds["infer"] for part in parts)

    def test_one_stays_as_it_is(self) -> None:
        rollout = collector(2).collect(line_policy(), 3)
        assert concatenated([rollout]) is rollout


class TestState:
    @pytest.mark.parametrize("whole", [False, True])
    def test_a_collector_goes_on_from_where_another_stood(self, whole: bool) -> None:
        def advance(one: Collector) -> Rollout:
            return one.collect_episodes(policy, 4) if whole else one.collect(policy, 10)

        policy, first, second = line_policy(), collector(3), collector(3, seed=9)
        advance(first)
        advance(second)
        second.restore(json.loads(json.dumps(first.state())))
        for _ in range(2):
            assert_same(advance(first), advance(second))
        assert first.state() == second.state()

    def test_actions_that_are_arrays(self) -> None:
        policy = PointPolicy()
        first, second = (
            Collector(Point, np.random.SeedSequence(seed).spawn(2), np.random.default_rng(seed)) for seed in (0, 1)
        )
        first.collect(policy, 6)
        second.restore(json.loads(json.dumps(first.state())))
        assert_same(first.collect(policy, 7), second.collect(policy, 7))

    def test_another_number_of_environments_is_refused(self) -> None:
        with pytest.raises(InvalidConfiguration, match="a state of 2 environments, there are 3"):
            collector(3).restore(collector(2).state())


def test_a_rollout_needs_an_environment() -> None:
    with pytest.raises(InvalidConfiguration, match="at least one environment"):
        Collector(Line, [], np.random.default_rng(0))


def test_gymnasium_s_own_environments_will_do() -> None:
    policy = PointPolicy()
    seeds = np.random.SeedSequence(0).spawn(2)
    rollout = Collector(lambda: gymnasium.make("MountainCarContinuous-v0"), seeds, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        rollout.collect(policy, 1)  # two numbers where the environment has one: not silently accepted


def test_masked_actions_are_never_taken() -> None:
    rollout = Collector(Bandit, np.random.SeedSequence(0).spawn(8), np.random.default_rng(0)).collect(
        bandit_policy(), 100
    )  # the bandit itself checks as well
    mask = rollout.observations["action_mask"]
    assert np.take_along_axis(mask, rollout.actions[..., None], 2).all()
    assert (mask.sum(2) == 2).all()
