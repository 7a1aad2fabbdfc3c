"""REINFORCE with its baselines and the synchronous actor-critic: estimates against slow ones, and what they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_cases import BEST, RANDOM, Bandit, Line, Luck, bandit_policy, line_policy

from desim.agents.learning.actor_critic import ActorCritic, ActorCriticConfig
from desim.agents.learning.baselines import group_means
from desim.agents.learning.evaluation import evaluate, mean_of
from desim.agents.learning.learner import Discounting, Learner
from desim.agents.learning.policy import MLPPolicy
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.reinforce import Reinforce, ReinforceConfig
from desim.agents.learning.rollout import Collector, Rollout
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.exceptions import InvalidConfiguration

Baseline = Any


def episodes(seed: int = 0, count: int = 6, groups: int = 1, longest: int = 20) -> Rollout:
    seeds = [one for one in np.random.SeedSequence(seed).spawn(count // groups) for _ in range(groups)]
    return Collector(Line, seeds, np.random.default_rng(seed)).collect_episodes(line_policy(), longest)


def reinforce(baseline: Baseline = "none", policy: Any = None, **others: Any) -> Reinforce:
    return Reinforce(policy or line_policy(), ReinforceConfig(baseline=baseline, **others), np.random.default_rng(0))


def slow_group_means(figures: np.ndarray, rollout: Rollout, size: int) -> np.ndarray:
    """Interpolate by hand: at each own time, between the steps of every member, the latest step of those at once."""
    result = np.zeros_like(figures)

    def at(time: float, times: list[float], values: list[float]) -> float:
        if time > times[-1]:
            return 0.0
        if time in times:  # of several steps at this instant the last
            return values[len(times) - 1 - times[::-1].index(time)]
        if time < times[0]:
            return values[0]
        place = next(number for number, one in enumerate(times) if one > time)
        part = (time - times[place - 1]) / (times[place] - times[place - 1])
        return values[place - 1] + part * (values[place] - values[place - 1])

    for env in range(figures.shape[1]):
        members = range(env // size * size, env // size * size + size)
        curves = []
        for member in members:
            clock, times, values = 0.0, [], []
            for step in range(len(figures)):
                if rollout.valid[step, member]:
                    times.append(clock)
                    values.append(float(figures[step, member]))
                clock += rollout.elapsed[step, member]
            curves.append((times, values))
        for step, time in enumerate(curves[env % size][0]):
            result[step, env] = np.mean([at(time, *curve) for curve in curves])
    return result


class TestGroupMeans:
    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 6]), st.integers(2, 20))
    def test_they_are_means_at_the_same_time(self, seed: int, size: int, longest: int) -> None:
        rollout = episodes(seed, groups=size, longest=longest)
        rollout.elapsed = np.random.default_rng(seed).uniform(0.1, 3.0, rollout.elapsed.shape)  # no two at once
        figures = np.random.default_rng(seed).normal(size=rollout.rewards.shape)
        np.testing.assert_allclose(
            group_means(figures, rollout, size), slow_group_means(figures, rollout, size), atol=1e-9
        )

    def test_steps_at_one_instant_know_the_same_mean(self) -> None:
        rollout = episodes(5, count=2, groups=2)
        rollout.elapsed[:] = 0.0
        rollout.elapsed[2] = 4.0
        figures = np.arange(rollout.rewards.size, dtype=float).reshape(rollout.rewards.shape)
        found = group_means(figures, rollout, 2)
        assert np.isfinite(found).all()
        assert rollout.valid[:3].all()
        for env in range(2):
            assert (found[:3, env] == found[0, 0]).all()
            assert (found[3:][rollout.valid[3:, env], env] == found[3, 0]).all()
            assert found[3, 0] != found[0, 0]

    def test_where_no_time_passes_steps_are_matched_by_number(self) -> None:
        rollout = episodes(3, count=4, groups=2)
        rollout.elapsed[:] = 0.0
        figures = np.where(rollout.valid, np.random.default_rng(0).normal(size=rollout.rewards.shape), 0.0)
        found = group_means(figures, rollout, 2)
        for step, env in np.argwhere(rollout.valid):
            pair = figures[step, env // 2 * 2 : env // 2 * 2 + 2]
            assert found[step, env] == pytest.approx(pair.mean())

    def test_equal_episodes_leave_nothing(self) -> None:
        rollout = episodes(2, count=4, groups=1)
        for name in ("elapsed", "valid"):
            array = getattr(rollout, name)
            array[:] = array[:, :1]
        figures = np.where(rollout.valid, np.random.default_rng(0).normal(size=(len(rollout.rewards), 1)), 0.0)
        times = np.cumsum(rollout.elapsed[:, 0]) - rollout.elapsed[:, 0]
        alone = np.append(np.diff(times) > 0, True)
        left = figures - group_means(figures, rollout, 4)
        np.testing.assert_allclose(left[alone & rollout.valid[:, 0]], 0.0, atol=1e-12)

    def test_groups_must_be_whole(self) -> None:
        with pytest.raises(InvalidConfiguration, match="6 environments are no whole number of groups of 4"):
            group_means(np.zeros((1, 6)), episodes(), 4)


class TestReturns:
    @pytest.mark.parametrize("time_unit", [None, 2.0])
    def test_they_are_discounted_sums_of_whole_episodes(self, time_unit: float | None) -> None:
        rollout = episodes(3)
        found = reinforce(discount=0.8, time_unit=time_unit).returns(rollout)
        for env in range(6):
            length = int(rollout.valid[:, env].sum())
            for step in range(length):
                total, weight = 0.0, 1.0
                for later in range(step, length):
                    total += weight * rollout.rewards[later, env]
                    weight *= 0.8 ** (1.0 if time_unit is None else rollout.elapsed[later, env] / time_unit)
                assert found[step, env] == pytest.approx(total)
            assert (found[length:, env] == 0).all()

    @pytest.mark.parametrize("longest", [3, 20])
    def test_the_critic_says_what_would_follow_where_an_episode_was_cut(self, longest: int) -> None:
        rollout = episodes(3, longest=longest)
        assert (rollout.final_values != 0).any() == (longest == 20)
        learner = reinforce("value", discount=0.5)
        learner.moments.restore({"count": 2.0, "mean": 4.0, "squares": 8.0})  # deviation 2
        found, plain = learner.returns(rollout), reinforce("mean", discount=0.5).returns(rollout)
        for env in range(6):
            last = int(rollout.valid[:, env].sum()) - 1
            following = 0.0
            if not rollout.ends[last, env]:
                following = rollout.last_values[env] * 2.0 + 4.0
            elif rollout.final_values[last, env] != 0:
                following = rollout.final_values[last, env] * 2.0 + 4.0
            for step in range(last + 1):
                expected = plain[step, env] + 0.5 ** (last + 1 - step) * following
                assert found[step, env] == pytest.approx(expected, rel=1e-5)

    def test_baselines_are_taken_off_and_targets_are_returns(self) -> None:
        rollout = episodes(4, groups=3)
        valid = rollout.valid
        for baseline in ("none", "mean", "value", "group"):
            learner = reinforce(baseline, group_size=3)
            learner.moments.restore({"count": 2.0, "mean": 1.0, "squares": 8.0})
            returns = learner.returns(rollout)
            wanted = {
                "none": 0.0,
                "mean": returns[valid].mean(),
                "value": rollout.values * 2.0 + 1.0,
                "group": slow_group_means(returns, rollout, 3) if baseline == "group" else 0.0,
            }[baseline]
            found, targets = learner.estimate(rollout)
            np.testing.assert_array_equal(targets, returns)
            if baseline != "group":
                np.testing.assert_allclose(found[valid], (returns - wanted)[valid], rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_allclose(found, returns - group_means(returns, rollout, 3))


def gradient(learner: Learner, rollout: Rollout) -> np.ndarray:
    """Return the gradient of the policy that a learner would go along."""
    found, _ = learner.estimate(rollout)
    seen = {name: torch.from_numpy(array[rollout.valid]) for name, array in rollout.observations.items()}
    distribution, _ = learner.policy(seen)
    logs = distribution.log_prob(torch.from_numpy(rollout.actions[rollout.valid]))
    loss = -(logs * torch.from_numpy(found[rollout.valid])).mean()
    parameters = [parameter for name, parameter in learner.policy.named_parameters() if name.startswith("actor")]
    return np.concatenate([part.flatten().numpy() for part in torch.autograd.grad(loss, parameters)])


def luck_policy() -> MLPPolicy:
    return MLPPolicy({"x": 1}, 2, np.random.default_rng(0), hidden=(8,))


def spread(make: Any, num_rollouts: int = 25) -> tuple[float, np.ndarray]:
    """Return the total variance and the mean of the gradient over rollouts of four groups of eight."""
    gradients = []
    for seed in range(num_rollouts):
        seeds = [one for one in np.random.SeedSequence(seed).spawn(4) for _ in range(8)]
        learner = make()
        rollout = Collector(Luck, seeds, np.random.default_rng(seed)).collect_episodes(learner.policy, 20)
        gradients.append(gradient(learner, rollout))
    return float(np.var(gradients, axis=0).sum()), np.mean(gradients, axis=0)


def test_a_baseline_of_the_group_takes_the_luck_out_of_the_gradient() -> None:
    mean, _ = spread(lambda: reinforce("mean", luck_policy()))
    group, direction = spread(lambda: reinforce("group", luck_policy()))
    assert group < 0.05 * mean
    # PPO takes the mean of the group off its advantages to the same end.
    plain = Discounting(1.0, 1.0)
    alone, _ = spread(lambda: PPO(luck_policy(), PPOConfig(discounting=plain), np.random.default_rng(0)))
    grouped, same = spread(
        lambda: PPO(luck_policy(), PPOConfig(discounting=plain, group_size=8), np.random.default_rng(0))
    )
    assert grouped < 0.05 * alone
    # What is left points to where the second action becomes likelier (the last two numbers are the biases).
    for one in (direction, same):
        assert one[-1] < 0 < one[-2]


def trained(learner: Learner, config: TrainingConfig) -> float:
    """Return the mean reward of a pull of the bandit after a training."""
    Training(Task(Bandit, Bandit), learner, config).run()
    return mean_of(evaluate(learner.policy, Bandit, range(100)))["return"] / Bandit.episode


@pytest.mark.parametrize("baseline", ["none", "mean", "value", "group"])
def test_reinforce_learns_the_bandit(baseline: Baseline) -> None:
    config = TrainingConfig(
        total_steps=8_000,
        num_envs=16,
        num_steps=20,
        whole_episodes=True,
        group_size=4 if baseline == "group" else 1,
        validate_every=1000,
        validation_episodes=1,
    )
    learner = reinforce(
        baseline, bandit_policy(), learning_rate=2e-2, final_learning_rate=2e-3, discount=0.0, group_size=4
    )
    assert trained(learner, config) > BEST - 0.1 * (BEST - RANDOM)


def test_the_actor_critic_learns_the_bandit() -> None:
    config = TrainingConfig(total_steps=8_000, num_envs=16, num_steps=8, validate_every=1000, validation_episodes=1)
    settings = ActorCriticConfig(
        learning_rate=2e-2, final_learning_rate=2e-3, entropy=0.0, discounting=Discounting(0.0, 0.0)
    )
    learner = ActorCritic(bandit_policy(), settings, np.random.default_rng(0))
    assert trained(learner, config) > BEST - 0.1 * (BEST - RANDOM)


@pytest.mark.parametrize("normalized", [True, False])
def test_the_actor_critic_takes_one_step_down_its_loss(normalized: bool) -> None:
    rollout = Collector(Line, np.random.SeedSequence(0).spawn(4), np.random.default_rng(0)).collect(line_policy(), 12)
    config = ActorCriticConfig(
        learning_rate=0.01,
        normalize_advantages=normalized,
        normalize_values=False,
        entropy=0.1,
        final_entropy=0.0,
        max_grad_norm=1e9,
    )
    learner, policy = ActorCritic(line_policy(), config, np.random.default_rng(0)), line_policy()
    found, targets = learner.estimate(rollout)
    figures = learner.update(rollout, 0.5)
    distribution, values = policy(
        {name: torch.from_numpy(a.reshape(48, -1)) for name, a in rollout.observations.items()}
    )
    weights = torch.from_numpy(found.ravel().astype(np.float32))
    if normalized:
        weights = (weights - weights.mean()) / weights.std()
    logs = distribution.log_prob(torch.from_numpy(rollout.actions.ravel()))
    error = ((values - torch.from_numpy(targets.ravel().astype(np.float32))) ** 2).mean()
    entropy = distribution.entropy().mean()
    loss = -(logs * weights).mean() + 0.5 * error - 0.05 * entropy
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.5 * (0.01 + 7e-4), eps=1e-5)
    loss.backward()
    optimizer.step()
    for mine, reference in zip(learner.policy.parameters(), policy.parameters(), strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-5, rtol=1e-3)
    assert figures["value_loss"] == pytest.approx(error.item(), rel=1e-4)
    assert figures["entropy"] == pytest.approx(entropy.item(), rel=1e-4)


@pytest.mark.parametrize(
    ("wrong", "what"), [({"baseline": "luck"}, "no baseline 'luck'"), ({"group_size": 1}, "group_size is 1")]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidConfiguration, match=what):
        ReinforceConfig(**wrong)
