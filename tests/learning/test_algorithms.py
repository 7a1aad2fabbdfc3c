"""Advantages, PPO, the actor-critic and REINFORCE: against slow ones, and what they learn beside Stable-Baselines3."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_cases import (
    BEST,
    RANDOM,
    Bandit,
    Normalized,
    Point,
    PointPolicy,
    bandit_policy,
    bandit_q_policy,
    collector,
    line_policy,
)

from desim.agents.learning.experience import Experience, evaluate, mean_of
from desim.agents.learning.learner import MAX_GRADIENT, Learner, LearningConfig, between
from desim.agents.learning.policy import MLPPolicy, Policy
from desim.agents.learning.policy_gradients import ActorCritic, Reinforce
from desim.agents.learning.ppo import PPO, advantages, group_means
from desim.agents.learning.q_actor_critic import QActorCritic
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.exceptions import InvalidConfiguration

LINE = LearningConfig(learning_rate=0.02, epochs=3, minibatch_size=20, entropy_coef=0.05, target_kl=0.0, discount=0.9)


def ppo(policy: Policy | None = None, **changes: Any) -> PPO:
    return PPO(policy or line_policy(), replace(LearningConfig(), **changes), np.random.default_rng(0))


def line_experience(policy: Policy, seed: int = 0, length: int = 20) -> Experience:
    return collector(4, seed=seed).collect(policy, length)


class TestAdvantages:
    """Against sums over all later steps, closed forms, and discounts by time."""

    @staticmethod
    def some(seed: int, length: int, count: int) -> tuple[Any, dict[str, Any]]:
        """Return rewards with ends of both kinds, and values and weights that differ from step to step."""
        rng = np.random.default_rng(seed)
        shape = (length, count)
        ends = rng.random(shape) < 0.3
        truncated = ends & (rng.random(shape) < 0.5)
        told = {
            "values": rng.normal(size=shape),
            "final": np.where(truncated, rng.normal(size=shape), 0.0),
            "last": rng.normal(size=count),
            "weights": (rng.choice([0.0, 0.3, 0.9, 1.0], shape), rng.choice([0.0, 0.5, 0.95, 1.0], shape)),
        }
        return SimpleNamespace(rewards=rng.normal(size=shape), ends=ends), told

    @staticmethod
    def slow(seen: Any, values: Any, final: Any, last: Any, weights: Any) -> np.ndarray:
        """Sum the errors of all later steps of the same episode, each with the product of the weights in between."""
        length, count = seen.rewards.shape
        discounts, decays = weights
        result = np.zeros((length, count))
        for env in range(count):
            for step in range(length):
                weight = 1.0
                for later in range(step, length):
                    if seen.ends[later, env]:
                        following = final[later, env]
                    else:
                        following = last[env] if later == length - 1 else values[later + 1, env]
                    error = seen.rewards[later, env] + discounts[later, env] * following - values[later, env]
                    result[step, env] += weight * error
                    if seen.ends[later, env]:
                        break
                    weight *= discounts[later, env] * decays[later, env]
        return result

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 12), st.integers(1, 4))
    def test_they_are_weighted_sums_of_errors(self, seed: int, length: int, count: int) -> None:
        seen, told = self.some(seed, length, count)
        np.testing.assert_allclose(advantages(seen, **told), self.slow(seen, **told), rtol=1e-10, atol=1e-12)

    def test_decay_0_is_the_error_of_one_step_and_single_precision_is_not_lost(self) -> None:
        seen, told = self.some(3, 9, 3)
        told["weights"] = told["weights"][0], np.zeros((9, 3))
        following = np.where(seen.ends, told["final"], np.concatenate([told["values"][1:], told["last"][None]]))
        errors = seen.rewards + told["weights"][0] * following - told["values"]
        np.testing.assert_allclose(advantages(seen, **told), errors, atol=1e-12)
        seen, told = self.some(7, 300, 1)
        told |= {name: told[name].astype(np.float32) for name in ("values", "final", "last")}
        found = advantages(seen, **told)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, self.slow(seen, **told), rtol=1e-6, atol=1e-6)

    def test_weights_by_decision_and_by_time(self) -> None:
        discounts, decays = LearningConfig(discount=0.9, gae_lambda=0.8).weights(np.array([0.0, 5.0]))
        assert (discounts.tolist(), decays.tolist()) == ([0.9, 0.9], [0.8, 0.8])
        elapsed = np.array([0.0, 1800.0, 3600.0, 7200.0])
        discounts, decays = LearningConfig(discount=0.9, gae_lambda=0.8, time_unit=3600.0).weights(elapsed)
        np.testing.assert_allclose(discounts, [1.0, 0.9**0.5, 0.9, 0.81])
        np.testing.assert_allclose(decays, [1.0, 0.8**0.5, 0.8, 0.64])


def plain_ppo(policy: Policy, seen: Experience, order: np.ndarray, config: LearningConfig) -> None:
    """Update a policy as the paper has it, sample by sample; advantages as weighted sums of errors."""
    length, count = seen.rewards.shape
    found = np.zeros((length, count))
    for env in range(count):
        running = 0.0
        for step in reversed(range(length)):
            following = seen.last_values[env] if step == length - 1 else seen.values[step + 1, env]
            if seen.ends[step, env]:
                following, running = seen.final_values[step, env], 0.0
            error = seen.rewards[step, env] + config.discount * following - seen.values[step, env]
            running = found[step, env] = error + config.discount * config.gae_lambda * running
    targets = found + seen.values
    targets = (targets - targets.mean()) / targets.std()
    places = [(step, env) for step in range(length) for env in range(count)]
    optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, eps=1e-5)
    for epoch in range(config.epochs):
        for begin in range(0, len(places), config.minibatch_size):
            chosen = [places[number] for number in order[epoch][begin : begin + config.minibatch_size]]
            weights = np.array([found[place] for place in chosen])
            weights = (weights - weights.mean()) / (weights.std(ddof=1) + 1e-8)
            objective = []
            for place, weight in zip(chosen, weights, strict=True):
                shown = {name: torch.from_numpy(array[place])[None] for name, array in seen.observations.items()}
                distribution, value = policy(shown)
                log = distribution.log_prob(torch.tensor([seen.actions[place]]))[0]
                ratio = torch.exp(log - float(seen.log_probs[place]))
                limited = ratio.clamp(1 - config.clip_range, 1 + config.clip_range)
                gain = torch.minimum(ratio * float(weight), limited * float(weight))
                error = (value[0] - float(targets[place])) ** 2
                objective.append(gain - config.value_coef * error + config.entropy_coef * distribution.entropy()[0])
            optimizer.zero_grad()
            (-torch.stack(objective).mean()).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), MAX_GRADIENT)
            optimizer.step()


class TestPPO:
    def test_an_update_is_that_of_the_paper(self) -> None:
        policy, other = line_policy(2), line_policy(2)
        seen = line_experience(policy)
        figures = PPO(policy, LINE, np.random.default_rng(7)).update(seen, 0.0)
        rng = np.random.default_rng(7)
        plain_ppo(other, seen, np.array([rng.permutation(80) for _ in range(3)]), LINE)
        for mine, reference in zip(policy.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine, reference, atol=2e-5, rtol=1e-3)
        assert figures["optimizer_steps"] == 12
        assert figures["clipped"] > 0.02  # some of it was

    def test_the_scale_of_the_critic_changes_no_advantage(self) -> None:
        policy = line_policy()
        learner, plain = ppo(policy), ppo(policy)
        vars(learner.moments).update({"count": 10.0, "mean": 50.0, "squares": 90.0})  # deviation 3
        seen = line_experience(policy)
        found, targets = learner.estimate(seen)
        truncated = seen.final_values != 0
        assert truncated.any()
        restored = replace(seen, values=seen.values * 3.0 + 50.0, last_values=seen.last_values * 3.0 + 50.0)
        restored.final_values = np.where(truncated, seen.final_values * 3.0 + 50.0, 0.0)
        for mine, reference in zip((found, targets), plain.estimate(restored), strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-5)
        samples = learner.samples(seen)
        everything = np.concatenate([np.full(5, 47.0), np.full(5, 53.0), targets.ravel()])
        assert learner.moments.mean == pytest.approx(everything.mean())
        assert learner.moments.deviation == pytest.approx(everything.std())
        wanted = (targets.ravel() - everything.mean()) / everything.std()
        np.testing.assert_allclose(samples.targets.numpy(), wanted, rtol=1e-4, atol=1e-5)
        errors = (targets.ravel() - restored.values.ravel()).var() / targets.var()
        assert samples.explained_variance == pytest.approx(1.0 - errors, rel=1e-4)

    def test_what_the_critic_foresaw_is_told_once_it_has_learned(self) -> None:
        learner = ppo(line_policy())
        seen = line_experience(learner.policy)
        seen.rewards = 1_000.0 * seen.rewards  # far from the scale of a network's first answers
        assert math.isnan(learner.update(seen, 0.0)["explained_variance"])
        again = line_experience(learner.policy)
        again.rewards = 1_000.0 * again.rewards
        _, targets = learner.estimate(again)
        errors = (targets - learner.moments.restored(again.values)).var() / targets.var()
        assert learner.samples(again).explained_variance == pytest.approx(1.0 - errors, rel=1e-4)

    def test_an_update_ends_when_the_policy_has_moved_far_enough(self) -> None:
        def steps(target: float, moved: float = 0.0) -> tuple[float, float]:
            learner = ppo(learning_rate=0.05, minibatch_size=20, epochs=10, target_kl=target)
            seen = line_experience(learner.policy)
            seen.log_probs += moved
            figures = learner.update(seen, 0.0)
            return figures["optimizer_steps"], figures["kl"]

        free, small, tiny, by_others = steps(0.0), steps(0.02), steps(1e-9), steps(0.02, 1.0)
        assert free[0] == 40
        assert 1 < small[0] < 40
        assert small[1] > 0.03  # 1.5 times
        assert tiny[0] == by_others[0] == 1  # the first step is always taken

    @pytest.mark.parametrize(("size", "steps"), [(80, 1), (64, 1), (50, 2), (30, 3), (1, 80), (1000, 1)])
    def test_a_small_rest_is_left_out_and_single_samples_do_no_harm(self, size: int, steps: int) -> None:
        learner = ppo(minibatch_size=size, epochs=1, target_kl=0.0)
        assert learner.update(line_experience(learner.policy), 0.0)["optimizer_steps"] == steps
        assert all(torch.isfinite(parameter).all() for parameter in learner.policy.parameters())

    def test_schedules_follow_the_progress(self) -> None:
        learner = ppo(learning_rate=1e-3, entropy_coef=0.2)
        weights, rates = [], []
        for progress in (0.0, 0.5, 1.0, 1.2):
            weights.append(learner.schedule(progress))
            rates += {group["lr"] for group in learner.optimizer.param_groups}
        assert rates == pytest.approx([1e-3, 5.5e-4, 1e-4, 1e-4])
        assert weights == pytest.approx([0.2, 0.1, 0.0, 0.0])
        assert [between(2.0, 4.0, part) for part in (-1.0, 0.0, 0.25, 1.0, 1.5)] == [2.0, 2.0, 2.5, 4.0, 4.0]

    def test_threads_divide_a_minibatch_and_add_the_same_gradient_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("desim.agents.learning.ppo.LEAST_OF_A_THREAD", 16)
        found = []
        for threads in (1, 2, 2, 3, 9):
            learner = ppo(epochs=2, minibatch_size=70, learning_rate=0.01)
            learner.threads = threads
            figures = learner.update(line_experience(learner.policy, length=50), 0.0)
            weights = torch.cat([tensor.flatten() for tensor in learner.policy.state_dict().values()])
            found.append((threads, figures, weights))
        (_, alone, expected), *others = found
        assert alone["optimizer_steps"] == 6
        for _, figures, weights in others:
            assert figures == pytest.approx(alone, rel=1e-4, abs=1e-6, nan_ok=True)
            np.testing.assert_allclose(weights, expected, atol=1e-5)
        assert torch.equal(found[1][2], found[2][2])  # whatever the threads' order
        assert not torch.equal(found[3][2], found[2][2])  # there were threads

    def test_steps_that_are_not_valid_are_not_learned_from(self) -> None:
        seen = collector(6).collect_episodes(line_policy(), 20)
        assert not seen.valid.all()
        other = copy.deepcopy(seen)
        for name in ("values", "log_probs", "actions", "elapsed", "final_values"):
            getattr(other, name)[~other.valid] = 1
        for array in other.observations.values():
            array[~other.valid] = 9
        outcomes = []
        for one in (seen, other):
            learner = ppo(minibatch_size=16)
            figures = learner.update(one, 0.0)
            outcomes.append((figures, [parameter.tolist() for parameter in learner.policy.parameters()]))
        assert outcomes[0] == outcomes[1]

    def test_a_policy_learns_its_scale_from_experience_and_from_nothing_else(self) -> None:
        policy = Normalized()
        learner, together, shown = ppo(policy, minibatch_size=16, epochs=2), collector(4), []
        for _ in range(3):
            seen = together.collect(policy, 10)
            learner.update(seen, 0.0)
            shown.append(seen.observations["x"].reshape(-1, 3))
            everything = np.concatenate(shown).astype(np.float64)
            assert float(policy.normalizer.count) == len(everything)
            np.testing.assert_allclose(policy.normalizer.mean.numpy(), everything.mean(0), atol=1e-9)
            np.testing.assert_allclose(policy.normalizer.squares / len(everything), everything.var(0), atol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        *(({name: 0}, "got 0, expected a finite number > 0") for name in ("learning_rate", "clip_range")),
        *(({name: 0}, "got 0, expected an integer >= 1") for name in ("epochs", "minibatch_size")),
        *(
            ({name: -1.0}, "got -1.0, expected a finite number >= 0")
            for name in ("time_unit", "entropy_coef", "value_coef", "target_kl")
        ),
        ({"discount": 1.1}, "got 1.1, expected a finite number from 0 to 1"),
        ({"gae_lambda": float("nan")}, "got nan, expected a finite number from 0 to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{next(iter(wrong))}: {what}"):
        LearningConfig(**wrong)


def whole(seed: int = 0, count: int = 6, groups: int = 1, longest: int = 20) -> Experience:
    return collector(count, seed=seed, groups=groups).collect_episodes(line_policy(), longest)


def slow_group_means(figures: np.ndarray, seen: Experience, size: int) -> np.ndarray:
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
                if seen.valid[step, member]:
                    times.append(clock)
                    values.append(float(figures[step, member]))
                clock += seen.elapsed[step, member]
            curves.append((times, values))
        for step, time in enumerate(curves[env % size][0]):
            result[step, env] = np.mean([at(time, *curve) for curve in curves])
    return result


class TestGroupMeans:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 6]), st.integers(2, 20))
    def test_they_are_means_at_the_same_time(self, seed: int, size: int, longest: int) -> None:
        seen = whole(seed, groups=size, longest=longest)
        seen.elapsed = np.random.default_rng(seed).uniform(0.1, 3.0, seen.elapsed.shape)  # no two at once
        figures = np.random.default_rng(seed).normal(size=seen.rewards.shape)
        np.testing.assert_allclose(group_means(figures, seen), slow_group_means(figures, seen, size), atol=1e-9)

    def test_steps_at_one_instant_know_the_same_mean(self) -> None:
        seen = whole(5, count=2, groups=2)
        seen.elapsed[:] = 0.0
        seen.elapsed[2] = 4.0
        found = group_means(np.arange(seen.rewards.size, dtype=float).reshape(seen.rewards.shape), seen)
        assert np.isfinite(found).all()
        assert seen.valid[:3].all()
        for env in range(2):
            assert (found[:3, env] == found[0, 0]).all()
            assert (found[3:][seen.valid[3:, env], env] == found[3, 0]).all()
            assert found[3, 0] != found[0, 0]

    def test_where_no_time_passes_steps_are_matched_by_number(self) -> None:
        seen = whole(3, count=4, groups=2)
        seen.elapsed[:] = 0.0
        figures = np.where(seen.valid, np.random.default_rng(0).normal(size=seen.rewards.shape), 0.0)
        found = group_means(figures, seen)
        for step, env in np.argwhere(seen.valid):
            pair = figures[step, env // 2 * 2 : env // 2 * 2 + 2]
            assert found[step, env] == pytest.approx(pair.mean())


class TestReturns:
    @pytest.mark.parametrize("time_unit", [0.0, 2.0])
    @pytest.mark.parametrize("longest", [3, 20])
    def test_they_are_discounted_sums_less_the_mean(self, time_unit: float, longest: int) -> None:
        seen = whole(3, longest=longest)
        config = LearningConfig(discount=0.8, time_unit=time_unit)
        found, returns = Reinforce(line_policy(), config, np.random.default_rng(0)).estimate(seen)
        for env in range(6):
            length = int(seen.valid[:, env].sum())
            for step in range(length):
                total, weight = 0.0, 1.0
                for later in range(step, length):
                    total += weight * seen.rewards[later, env]
                    weight *= 0.8 ** (seen.elapsed[later, env] / time_unit if time_unit else 1.0)
                assert returns[step, env] == pytest.approx(total)
            assert (returns[length:, env] == 0).all()
        np.testing.assert_allclose(found, returns - returns[seen.valid].mean())

    def test_with_groups_it_is_their_mean_that_is_taken_off(self) -> None:
        seen = whole(4, groups=3)
        found, returns = Reinforce(line_policy(), LearningConfig(), np.random.default_rng(0)).estimate(seen)
        np.testing.assert_allclose(found, returns - group_means(returns, seen))

    def test_they_are_divided_by_their_deviation_or_are_not(self) -> None:
        moved = {}
        for standardize in (False, True):
            config, policy, seen = LearningConfig(standardize=standardize, entropy_coef=0.0), line_policy(), whole(3)
            seen.rewards *= 1e-6
            Reinforce(policy, config, np.random.default_rng(0)).update(seen, 0.0)
            moved[standardize] = float((policy.actor[0].weight - line_policy().actor[0].weight).detach().abs().max())
        assert moved[False] < 0.1 * moved[True]  # such gradients are below the optimizer's epsilon


class TestQActorCritic:
    """Algorithm 1 of LACHESIS, against loops over steps."""

    @staticmethod
    def some(seed: int, length: int = 5) -> tuple[Any, Experience]:
        """Return a learner whose targets differ from its networks, and episodes of which some are cut off."""
        policy = bandit_q_policy(seed)
        rng = np.random.default_rng(seed)
        with torch.no_grad():
            for parameter in (*policy.target_actor.parameters(), *policy.target_critic.parameters()):
                parameter.add_(torch.from_numpy(rng.normal(size=parameter.shape).astype(np.float32)))
        config = LearningConfig(discount=0.9, learning_rate=1e-2, minibatch_size=7, epochs=2, entropy_coef=0.0)
        seen = collector(4, seed=seed, make=Bandit).collect_episodes(policy, length)
        return QActorCritic(policy, config, np.random.default_rng(0)), seen

    @pytest.mark.parametrize("length", [5, 20])
    def test_targets_are_rewards_and_what_the_targets_say_of_the_next_state(self, length: int) -> None:
        learner, seen = self.some(1, length)
        _, found = learner.estimate(seen)
        known = 0
        for step, env in np.argwhere(seen.valid):
            if seen.ends[step, env]:
                following = 0.0
            elif step + 1 == len(seen.rewards):
                assert np.isnan(found[step, env])
                continue
            else:
                shown = {name: torch.from_numpy(a[step + 1, env])[None] for name, a in seen.observations.items()}
                scores = learner.policy.target_actor(shown)[0].masked_fill(shown["action_mask"][0] == 0, -np.inf)
                following = float(learner.policy.target_critic(shown)[0, int(scores.argmax())])
            assert found[step, env] == pytest.approx(seen.rewards[step, env] + 0.9 * following, abs=1e-5)
            known += 1
        assert known == (4 * 4 if length == 5 else 4 * Bandit.episode)

    def test_an_update_takes_the_steps_of_both_lines_and_moves_the_targets(self) -> None:
        learner, seen = self.some(2)
        twin, _ = self.some(2)
        learner.update(seen, 0.0)
        order = np.random.default_rng(0)
        _, targets = twin.estimate(seen)
        places = np.argwhere(seen.valid & np.isfinite(targets))
        policy = twin.policy
        optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2, eps=1e-5)

        def step(loss: Any) -> None:
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), MAX_GRADIENT)
            optimizer.step()

        def look(place: Any) -> tuple[Any, Any, int]:
            shown = {name: torch.from_numpy(array[tuple(place)])[None] for name, array in seen.observations.items()}
            logs = policy.actor(shown)[0].masked_fill(shown["action_mask"][0] == 0, -np.inf).log_softmax(-1)
            return logs, policy.critic(shown)[0], int(seen.actions[tuple(place)])

        for _ in range(2):
            for chosen in torch.split(torch.from_numpy(order.permutation(len(places))), 7):
                losses = []
                for place in places[chosen.numpy()]:
                    logs, values, action = look(place)
                    error = (values[action] - targets[tuple(place)]) ** 2
                    losses.append(error - (logs.exp() * values.detach()).sum())  # the critic's loss, and line 13
                step(torch.stack(losses).mean())
        losses = [-(logs[action] * values[action].detach()) for logs, values, action in map(look, places)]
        step(torch.stack(losses).mean())  # equation 12
        for found, wanted in zip(learner.policy.actor.parameters(), policy.actor.parameters(), strict=True):
            torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-3)
        for found, wanted in zip(learner.policy.critic.parameters(), policy.critic.parameters(), strict=True):
            torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-3)
        old, new = twin.policy.target_critic.layers[0].weight, learner.policy.critic.layers[0].weight
        torch.testing.assert_close(learner.policy.target_critic.layers[0].weight, 0.9 * old + 0.1 * new)

    def test_episodes_of_one_step_that_are_cut_off_teach_nothing(self) -> None:
        learner, seen = self.some(3, 1)
        before = [parameter.clone() for parameter in learner.policy.parameters()]
        assert all(np.isnan(figure) for figure in learner.update(seen, 0.0).values())
        assert all(torch.equal(a, b) for a, b in zip(before, learner.policy.parameters(), strict=True))

    def test_policies_without_a_critic_of_actions_are_refused(self) -> None:
        with pytest.raises(InvalidConfiguration, match="q_actor_critic: got the policy MLPPolicy, expected a QPolicy"):
            QActorCritic(bandit_policy(), LearningConfig(), np.random.default_rng(0))

    def test_the_bandit_is_learned(self) -> None:
        single = BANDIT | {"lr": 1e-2, "envs": 4, "total": 8_000, "gamma": 0.0, "lambda": 0.0}
        further = {"whole_episodes": True, "num_steps": 20}
        returns = Rivals(Bandit, **single).ours(QActorCritic, 0, range(60), bandit_q_policy(), **further)
        assert np.mean(returns) / Bandit.episode > BEST - 0.1 * (BEST - RANDOM)


def test_the_actor_critic_takes_one_step_down_its_loss() -> None:
    seen = collector(4).collect(line_policy(), 12)
    config = LearningConfig(learning_rate=0.01, entropy_coef=0.1)
    learner, policy = ActorCritic(line_policy(), config, np.random.default_rng(0)), line_policy()
    found, targets = learner.estimate(seen)
    figures = learner.update(seen, 0.5)
    distribution, values = policy({name: torch.from_numpy(a.reshape(48, -1)) for name, a in seen.observations.items()})
    weights = torch.from_numpy(found.ravel().astype(np.float32))
    weights = (weights - weights.mean()) / weights.std()
    logs = distribution.log_prob(torch.from_numpy(seen.actions.ravel()))
    wanted = ((targets - targets.mean()) / targets.std()).ravel().astype(np.float32)
    error = ((values - torch.from_numpy(wanted)) ** 2).mean()
    entropy = distribution.entropy().mean()
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.55 * 0.01, eps=1e-5)
    (-(logs * weights).mean() + 0.5 * error - 0.05 * entropy).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), MAX_GRADIENT)
    optimizer.step()
    for mine, reference in zip(learner.policy.parameters(), policy.parameters(), strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-5, rtol=1e-3)
    assert figures["value_loss"] == pytest.approx(error.item(), rel=1e-4)
    assert figures["entropy"] == pytest.approx(entropy.item(), rel=1e-4)


def test_two_numbers_are_learned() -> None:
    policy = PointPolicy()
    learner = ppo(
        policy, learning_rate=1e-2, epochs=8, minibatch_size=128, entropy_coef=0.0, discount=0.0, gae_lambda=0.0
    )
    training = TrainingConfig(total_steps=12_000, num_envs=8, num_steps=64, validate_every=100, validation_episodes=1)
    before = mean_of(evaluate(policy, Point, range(20)))["return"]
    Training(Task(Point, Point), learner, training).run()
    after = mean_of(evaluate(policy, Point, range(20)))["return"]
    assert before < -5
    assert after > -0.5


class Rivals:
    """The same training by this package and by Stable-Baselines3, with the same settings."""

    def __init__(self, make: Any, **settings: Any) -> None:
        self.make, self.settings = make, settings

    def ours(self, kind: type[Learner], seed: int, seeds: Any, policy: Policy, **further: Any) -> list[float]:
        """Return the returns of the last weights in greedy episodes."""
        known = self.settings
        config = LearningConfig(
            learning_rate=known["lr"],
            epochs=known["epochs"],
            minibatch_size=known["batch"],
            entropy_coef=0.0,
            target_kl=0.0,
            discount=known["gamma"],
            gae_lambda=known["lambda"],
        )
        loop = {"num_envs": known["envs"], "num_steps": known["steps"], "validate_every": 100_000}
        training = TrainingConfig(known["total"], seed, validation_episodes=1, **loop | further)
        Training(Task(self.make, self.make), kind(policy, config, np.random.default_rng(seed)), training).run()
        return [episode["return"] for episode in evaluate(policy, self.make, seeds)]

    def theirs(self, seed: int, seeds: Any, *, masked: bool, hidden: Any) -> list[float]:
        """Return the same of theirs."""
        from sb3_contrib import MaskablePPO
        from stable_baselines3 import PPO as Plain  # noqa: N811
        from stable_baselines3.common.env_util import make_vec_env

        known = self.settings
        model = (MaskablePPO if masked else Plain)(
            "MultiInputPolicy" if masked else "MlpPolicy",
            make_vec_env(self.make, known["envs"], seed=seed),
            learning_rate=lambda left: known["lr"] * (0.1 + 0.9 * left),
            n_steps=known["steps"],
            batch_size=known["batch"],
            n_epochs=known["epochs"],
            gamma=known["gamma"],
            gae_lambda=known["lambda"],
            seed=seed,
            device="cpu",
            policy_kwargs={"net_arch": list(hidden), "activation_fn": torch.nn.Tanh},
        )
        model.learn(known["total"])
        returns = []
        for one in seeds:
            env = self.make()
            seen, earned, over = env.reset(seed=one)[0], 0.0, False
            while not over:
                masks = {"action_masks": env.unwrapped.action_masks()} if masked else {}
                action, _ = model.predict(seen, deterministic=True, **masks)
                seen, reward, terminated, truncated, _ = env.step(int(action))
                earned, over = earned + float(reward), terminated or truncated
            returns.append(earned)
        return returns


BANDIT = {"lr": 3e-3, "envs": 8, "steps": 32, "batch": 64, "epochs": 4, "gamma": 0.9, "lambda": 0.9, "total": 4_096}


def test_the_bandit_is_learned_as_by_maskable_ppo() -> None:
    rivals, seeds = Rivals(Bandit, **BANDIT), range(60)
    mine = np.mean(rivals.ours(PPO, 0, seeds, bandit_policy())) / Bandit.episode
    reference = np.mean(rivals.theirs(0, seeds, masked=True, hidden=(32,))) / Bandit.episode
    assert mine > BEST - 0.1 * (BEST - RANDOM)
    assert mine >= reference - 0.1 * (BEST - RANDOM)


@pytest.mark.parametrize(
    ("kind", "further"),
    [
        (ActorCritic, {"num_steps": 8}),
        (Reinforce, {"whole_episodes": True, "num_steps": 20}),
        (Reinforce, {"whole_episodes": True, "num_steps": 20, "group_size": 4}),
    ],
)
def test_the_bandit_is_learned_in_single_steps(kind: type[Learner], further: dict[str, Any]) -> None:
    single = BANDIT | {"lr": 2e-2, "envs": 16, "total": 8_000, "gamma": 0.0, "lambda": 0.0}
    returns = Rivals(Bandit, **single).ours(kind, 0, range(60), bandit_policy(), **further)
    assert np.mean(returns) / Bandit.episode > BEST - 0.1 * (BEST - RANDOM)


@pytest.mark.slow
def test_cart_pole_is_solved_as_by_stable_baselines() -> None:
    cart_pole = {"lr": 1e-3, "envs": 8, "steps": 64, "batch": 128, "epochs": 10, "gamma": 0.98, "lambda": 0.9}
    rivals, seeds = Rivals(lambda: gymnasium.make("CartPole-v1"), total=60_000, **cart_pole), range(20)
    mine, reference = [], []
    for seed in range(3):
        policy = MLPPolicy({"observation": 4}, 2, np.random.default_rng(seed), hidden=(64, 64))
        mine.append(np.mean(rivals.ours(PPO, seed, seeds, policy)))
        reference.append(np.mean(rivals.theirs(seed, seeds, masked=False, hidden=(64, 64))))
    assert min(mine) >= 475
    assert np.mean(mine) >= np.mean(reference) - 25
