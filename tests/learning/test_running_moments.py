"""Running means and deviations against NumPy over all numbers at once."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_cases import Line
from torch import Tensor

from desim.agents.learning.distributions import Distribution
from desim.agents.learning.evaluation import evaluate
from desim.agents.learning.normalizers import ObservationNormalizer, RunningMoments
from desim.agents.learning.policy import MLPPolicy
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.rollout import Collector

parts = st.lists(st.lists(st.floats(-1e6, 1e6), max_size=6), max_size=6)


@settings(max_examples=150, deadline=None)
@given(parts)
def test_moments_are_those_of_all_numbers(batches: list[list[float]]) -> None:
    moments = RunningMoments()
    for batch in batches:
        moments.update(np.array(batch))
    together = np.array([number for batch in batches for number in batch])
    assert moments.count == len(together)
    if len(together):
        assert moments.mean == pytest.approx(together.mean(), rel=1e-9, abs=1e-6)
    if len(together) > 1 and together.std() > 1e-3:
        assert moments.deviation == pytest.approx(together.std(), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(moments.restored(moments.normalized(together)), together, rtol=1e-9, atol=1e-6)


def test_a_large_mean_costs_no_precision() -> None:
    numbers = 1e9 + np.random.default_rng(0).normal(size=(50, 20))
    moments = RunningMoments()
    for batch in numbers:
        moments.update(batch)
    assert moments.deviation == pytest.approx(numbers.std(), rel=1e-6)


def test_deviation_is_1_as_long_as_it_is_unknown() -> None:
    moments = RunningMoments()
    for numbers in ([], [5.0], [5.0, 5.0]):
        moments.update(np.array(numbers))
        assert moments.deviation == 1.0
    moments.update(np.array([6.0]))
    assert moments.deviation < 1


def test_they_go_through_json_to_the_last_bit() -> None:
    moments, other = RunningMoments(), RunningMoments()
    moments.update(np.random.default_rng(0).normal(size=100))
    other.restore(json.loads(json.dumps(moments.state())))
    for one in (moments, other):
        one.update(np.array([0.1, 0.7]))
    assert moments.state() == other.state()


class TestObservationNormalizer:
    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**9), st.lists(st.integers(1, 20), min_size=1, max_size=5))
    def test_columns_are_scaled_by_what_was_seen(self, seed: int, sizes: list[int]) -> None:
        rng = np.random.default_rng(seed)
        normalizer = ObservationNormalizer(3, limit=2.0)
        rows = [rng.normal([1.0, -50.0, 1000.0], [1.0, 0.1, 300.0], (size, 3)).astype(np.float32) for size in sizes]
        for batch in rows:
            normalizer.update(torch.from_numpy(batch))
        seen = np.concatenate(rows).astype(np.float64)
        torch.testing.assert_close(normalizer.mean, torch.from_numpy(seen.mean(0)))
        shown = rng.normal([1.0, -50.0, 1000.0], [1.0, 0.1, 300.0], (7, 3)).astype(np.float32)
        expected = ((shown - seen.mean(0)) / seen.std(0).clip(1e-6)).clip(-2.0, 2.0)
        found = normalizer(torch.from_numpy(shown))
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)

    def test_before_anything_was_seen_inputs_stay_as_they_are(self) -> None:
        shown = torch.tensor([[100.0, -3.0]])
        assert torch.equal(ObservationNormalizer(2)(shown), shown)

    def test_its_moments_are_weights_without_gradients(self) -> None:
        normalizer, other = ObservationNormalizer(2), ObservationNormalizer(2)
        normalizer.update(torch.randn(9, 2))
        assert list(normalizer.parameters()) == []
        other.load_state_dict(normalizer.state_dict())
        shown = torch.randn(4, 2)
        assert torch.equal(other(shown), normalizer(shown))


class Normalized(MLPPolicy):
    """A policy that scales what it sees."""

    def __init__(self) -> None:
        super().__init__({"x": 3}, 3, np.random.default_rng(0), hidden=(8,), mask="mask")
        self.normalizer = ObservationNormalizer(3)

    def forward(self, observations: dict[str, Tensor]) -> tuple[Distribution, Tensor]:
        """Scale first."""
        return super().forward(observations | {"x": self.normalizer(observations["x"])})

    def observe(self, observations: dict[str, Tensor]) -> None:
        """Take in what was seen."""
        self.normalizer.update(observations["x"])


def test_a_policy_learns_its_scale_from_rollouts_and_from_nothing_else() -> None:
    policy = Normalized()
    learner = PPO(policy, PPOConfig(minibatch_size=16, epochs=2, target_kl=None), np.random.default_rng(0))
    collector = Collector(Line, np.random.SeedSequence(0).spawn(4), np.random.default_rng(1))
    seen = []
    for _ in range(3):
        before = {name: tensor.clone() for name, tensor in policy.normalizer.state_dict().items()}
        rollout = collector.collect(policy, 10)
        evaluate(policy, Line, [1, 2, 3])
        assert all(torch.equal(tensor, before[name]) for name, tensor in policy.normalizer.state_dict().items())
        learner.update(rollout, 0.0)
        seen.append(rollout.observations["x"].reshape(-1, 3))
        together = np.concatenate(seen).astype(np.float64)
        assert float(policy.normalizer.count) == len(together)
        np.testing.assert_allclose(policy.normalizer.mean.numpy(), together.mean(0), atol=1e-9)
        np.testing.assert_allclose(policy.normalizer.squares.numpy() / len(together), together.var(0), atol=1e-9)
