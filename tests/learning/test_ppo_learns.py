"""PPO: its update against a plain one, what it refuses, and what it learns beside Stable-Baselines3."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from learning_cases import BEST, RANDOM, Bandit, Line, Point, PointPolicy, line_policy
from rival_learners import BANDIT, CARTPOLE, ours, theirs

from desim.agents.learning.evaluation import evaluate, mean_of
from desim.agents.learning.learner import Discounting, Samples, explained
from desim.agents.learning.policy import Policy
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.rollout import Collector, Rollout
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.exceptions import InvalidConfiguration


def line_rollout(policy: Policy, seed: int = 0, length: int = 20) -> Rollout:
    collector = Collector(Line, np.random.SeedSequence(seed).spawn(4), np.random.default_rng(seed))
    return collector.collect(policy, length)


def plain_ppo(policy: Policy, rollout: Rollout, order: np.ndarray, config: PPOConfig) -> None:
    """Update a policy as the paper has it, sample by sample; advantages as weighted sums of errors."""
    length, count = rollout.rewards.shape
    discount, decay = config.discounting.discount, config.discounting.decay
    found = np.zeros((length, count))
    for env in range(count):
        running = 0.0
        for step in reversed(range(length)):
            following = rollout.last_values[env] if step == length - 1 else rollout.values[step + 1, env]
            if rollout.ends[step, env]:
                following, running = rollout.final_values[step, env], 0.0
            running = (
                rollout.rewards[step, env]
                + discount * following
                - rollout.values[step, env]
                + discount * decay * running
            )
            found[step, env] = running
    places = [(step, env) for step in range(length) for env in range(count)]
    optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, eps=1e-5)
    for epoch in range(config.epochs):
        for begin in range(0, len(places), config.minibatch_size):
            chosen = [places[number] for number in order[epoch][begin : begin + config.minibatch_size]]
            weights = np.array([found[place] for place in chosen])
            weights = (weights - weights.mean()) / (weights.std(ddof=1) + 1e-8)
            objective = []
            for place, weight in zip(chosen, weights, strict=True):
                seen = {name: torch.from_numpy(array[place])[None] for name, array in rollout.observations.items()}
                distribution, value = policy(seen)
                log = distribution.log_prob(torch.tensor([rollout.actions[place]]))[0]
                ratio = torch.exp(log - float(rollout.log_probs[place]))
                limited = ratio.clamp(1 - config.clip, 1 + config.clip)
                gain = torch.minimum(ratio * float(weight), limited * float(weight))
                target = found[place] + rollout.values[place]
                error = (value[0] - float(target)) ** 2
                objective.append(gain - config.value_weight * error + config.entropy * distribution.entropy()[0])
            optimizer.zero_grad()
            (-torch.stack(objective).mean()).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), config.max_grad_norm)
            optimizer.step()


def test_an_update_is_that_of_the_paper() -> None:
    config = PPOConfig(
        learning_rate=0.02,
        final_learning_rate=0.0,
        epochs=3,
        minibatch_size=20,
        entropy=0.05,
        target_kl=None,
        normalize_values=False,
        discounting=Discounting(0.9, 0.8),
    )
    policy, other = line_policy(2), line_policy(2)
    rollout = line_rollout(policy)
    figures = PPO(policy, config, np.random.default_rng(7)).update(rollout, 0.0)
    rng = np.random.default_rng(7)
    plain_ppo(other, rollout, np.array([rng.permutation(80) for _ in range(3)]), config)
    for mine, reference in zip(policy.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, reference, atol=2e-5, rtol=1e-3)
    assert figures["optimizer_steps"] == 12
    assert figures["clipped"] > 0.02  # some of it was


def test_a_normalized_critic_changes_its_scale_and_no_advantage() -> None:
    policy = line_policy()
    learner = PPO(policy, PPOConfig(), np.random.default_rng(0))
    learner.moments.restore({"count": 10.0, "mean": 50.0, "squares": 90.0})  # deviation 3
    rollout = line_rollout(policy)
    found, targets = learner.estimate(rollout)
    plain = PPO(policy, PPOConfig(normalize_values=False), np.random.default_rng(0))
    restored = copy.deepcopy(rollout)
    for name in ("values", "last_values"):
        setattr(restored, name, getattr(rollout, name) * 3.0 + 50.0)
    truncated = rollout.final_values != 0
    assert truncated.any()
    restored.final_values = np.where(truncated, rollout.final_values * 3.0 + 50.0, 0.0)
    expected, expected_targets = plain.estimate(restored)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(targets, expected_targets, rtol=1e-5)
    samples = learner.samples(rollout, found, targets)
    everything = np.concatenate([np.full(5, 47.0), np.full(5, 53.0), targets.ravel()])
    assert learner.moments.mean == pytest.approx(everything.mean())
    assert learner.moments.deviation == pytest.approx(everything.std())
    wanted = (targets.ravel() - everything.mean()) / everything.std()
    np.testing.assert_allclose(samples.targets.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_an_update_ends_when_the_policy_has_moved_far_enough() -> None:
    def steps(target: float | None) -> tuple[float, float]:
        policy = line_policy()
        config = PPOConfig(learning_rate=0.05, minibatch_size=20, epochs=10, target_kl=target)
        figures = PPO(policy, config, np.random.default_rng(0)).update(line_rollout(policy), 0.0)
        return figures["optimizer_steps"], figures["kl"]

    free, small, tiny = steps(None), steps(0.02), steps(1e-9)
    assert free[0] == 40
    assert 1 < small[0] < 40
    assert small[1] > 0.03  # 1.5 times
    assert tiny[0] == 1  # the first step is always taken

    policy = line_policy()
    rollout = line_rollout(policy)
    rollout.log_probs += 1.0  # by somebody else
    config = PPOConfig(minibatch_size=20, epochs=10, target_kl=0.02)
    assert PPO(policy, config, np.random.default_rng(0)).update(rollout, 0.0)["optimizer_steps"] == 1


@pytest.mark.parametrize(("size", "steps"), [(80, 1), (64, 1), (50, 2), (30, 3), (1, 80), (1000, 1)])
def test_a_small_rest_is_left_out_and_single_samples_do_no_harm(size: int, steps: int) -> None:
    policy = line_policy()
    learner = PPO(policy, PPOConfig(minibatch_size=size, epochs=1, target_kl=None), np.random.default_rng(0))
    assert learner.update(line_rollout(policy), 0.0)["optimizer_steps"] == steps
    assert all(torch.isfinite(parameter).all() for parameter in policy.parameters())


def test_schedules_follow_the_progress() -> None:
    policy = line_policy()
    learner = PPO(policy, PPOConfig(learning_rate=1e-3, final_learning_rate=1e-4), np.random.default_rng(0))
    rates = []
    for progress in (0.0, 0.5, 1.0, 1.2):
        learner.update(line_rollout(policy), progress)
        rates += {group["lr"] for group in learner.optimizer.param_groups}
    assert rates == pytest.approx([1e-3, 5.5e-4, 1e-4, 1e-4])


def test_steps_that_are_not_valid_are_not_learned_from() -> None:
    policy = line_policy()
    collector = Collector(Line, np.random.SeedSequence(0).spawn(6), np.random.default_rng(0))
    rollout = collector.collect_episodes(policy, 20)
    assert not rollout.valid.all()
    other = copy.deepcopy(rollout)
    for name in ("values", "log_probs", "actions", "elapsed", "final_values"):
        getattr(other, name)[~other.valid] = 1
    for array in other.observations.values():
        array[~other.valid] = 9
    weights = []
    for one in (rollout, other):
        policy = line_policy()
        figures = PPO(policy, PPOConfig(minibatch_size=16), np.random.default_rng(0)).update(one, 0.0)
        weights.append((figures, [parameter.tolist() for parameter in policy.parameters()]))
    assert weights[0] == weights[1]


def test_what_the_critic_foresaw_is_told() -> None:
    rollout = line_rollout(line_policy())

    def part(targets: Any) -> float:
        flat = torch.from_numpy(np.asarray(targets, np.float32))
        return explained(Samples({}, flat, flat, flat, flat), rollout)["explained_variance"]

    assert part(rollout.values.ravel()) == pytest.approx(1.0)
    assert part(rollout.values.ravel() + 5.0) == pytest.approx(1.0)
    assert part(-rollout.values.ravel()) == pytest.approx(-3.0)
    assert np.isnan(part(np.zeros(80)))


@pytest.mark.parametrize(
    "wrong", [{"clip": 0.0}, {"epochs": 0}, {"minibatch_size": 0}, {"learning_rate": 0.0}], ids=str
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration, match="above 0"):
        PPO(line_policy(), PPOConfig(**wrong), np.random.default_rng(0))


def test_two_numbers_are_learned() -> None:
    policy = PointPolicy()
    config = PPOConfig(learning_rate=1e-2, epochs=8, minibatch_size=128, entropy=0.0, discounting=Discounting(0.0, 0.0))
    training = TrainingConfig(total_steps=20_000, num_envs=8, num_steps=64, validate_every=10, validation_episodes=20)
    before = mean_of(evaluate(policy, Point, range(20)))["return"]
    Training(Task(Point, Point), PPO(policy, config, np.random.default_rng(0)), training).run()
    after = mean_of(evaluate(policy, Point, range(20)))["return"]
    assert before < -5
    assert after > -0.3


def test_the_bandit_is_learned_as_by_maskable_ppo() -> None:
    seeds = list(range(100))
    network = {"inputs": {"sign": 3}, "num_actions": 4, "hidden": (32,), "mask": "action_mask"}
    mine = np.mean(ours(Bandit, BANDIT, 0, seeds, **network)) / Bandit.episode
    reference = np.mean(theirs(Bandit, BANDIT, 0, seeds, masked=True, hidden=(32,))) / Bandit.episode
    assert mine > BEST - 0.1 * (BEST - RANDOM)
    assert mine >= reference - 0.1 * (BEST - RANDOM)


def cart_pole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


CART_POLE = {"inputs": {"observation": 4}, "num_actions": 2, "hidden": (64, 64)}


@pytest.mark.slow
def test_cart_pole_is_solved_as_by_stable_baselines() -> None:
    seeds = list(range(20))
    mine, reference = [], []
    for seed in range(3):
        mine.append(np.mean(ours(cart_pole, CARTPOLE, seed, seeds, **CART_POLE)))
        reference.append(np.mean(theirs(cart_pole, CARTPOLE, seed, seeds, masked=False, hidden=(64, 64))))
    assert min(mine) >= 475
    assert np.mean(mine) >= np.mean(reference) - 25
