"""A policy learns what an expert did, from its notes alone; and weights from a passed generator."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from learning_cases import Bandit, PointPolicy, bandit_policy
from torch import Tensor, nn

from desim.agents.learning._drawing import drawn
from desim.agents.learning.distributions import Distribution
from desim.agents.learning.imitation import clone
from desim.agents.learning.learner import Learner
from desim.agents.learning.policy import MLPPolicy, to_tensors
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.exceptions import InvalidConfiguration


def improbability(distribution: Distribution, wanted: Tensor) -> Tensor:
    return -distribution.log_prob(wanted)


def learner_of(policy: Any, seed: int = 0) -> Learner:
    return PPO(policy, PPOConfig(), np.random.default_rng(seed))


def shown(count: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return what is seen of the bandit, two arms of which are open, and the better one of them."""
    rng = np.random.default_rng(seed)
    signs = rng.integers(3, size=count)
    mask = np.zeros((count, 4), np.int8)
    for row in mask:
        row[rng.choice(4, 2, replace=False)] = 1
    best = np.where(mask == 1, Bandit.worth[signs], -1.0).argmax(1)
    return {"sign": np.eye(3, dtype=np.float32)[signs], "action_mask": mask}, best


def test_a_rule_is_learned() -> None:
    learner = learner_of(bandit_policy())
    seen, best = shown(600)
    found = clone(learner, seen, best, improbability, epochs=8, minibatch_size=64, learning_rate=2e-2)
    assert len(found) == 8
    assert 0.3 < found[0] < 0.95
    assert found[-1] > 0.99
    others, wanted = shown(200, seed=1)
    with torch.no_grad():
        agreed = learner.policy(to_tensors(others))[0].mode().numpy() == wanted
    assert agreed.mean() > 0.99


def test_numbers_are_learned_as_well() -> None:
    def near(likely: Tensor, wanted: Tensor) -> Tensor:
        return ((likely - wanted).abs() < 0.2).all(1)

    learner = learner_of(PointPolicy())
    points = np.random.default_rng(3).normal(size=(600, 2)).astype(np.float32)
    seen = {"observation": points}
    found = clone(learner, seen, 0.5 * points, improbability, agrees=near, epochs=12, learning_rate=2e-2)
    assert found[0] < 0.3
    assert found[-1] > 0.8
    means = learner.policy(to_tensors(seen))[0].mode().detach().numpy()
    assert np.abs(means - 0.5 * points).mean() < 0.1


def test_the_critic_and_the_optimizer_of_the_learner_are_left_alone() -> None:
    learner = learner_of(bandit_policy())
    before = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
    clone(learner, *shown(100), improbability, epochs=1)
    for name, tensor in learner.policy.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("critic."), name
    assert json.dumps(learner.optimizer.state_dict()["state"]) == "{}"
    assert learner.moments.state() == learner_of(bandit_policy()).moments.state()


class Watching(MLPPolicy):
    """Notes which samples it is shown, and learns something else beside."""

    def __init__(self) -> None:
        super().__init__({"sign": 3}, 4, np.random.default_rng(0), hidden=(8,), mask="action_mask")
        self.used: list[list[int]] = []
        self.beside = nn.Parameter(torch.zeros(()))

    def forward(self, observations: dict[str, Tensor]) -> Any:
        """Note, and do as others do."""
        self.used.append(observations["number"].tolist())
        return super().forward(observations)

    def auxiliary_loss(self, observations: dict[str, Tensor]) -> Tensor:
        """Return how far a number is from 1."""
        assert observations["number"].tolist() == self.used[-1]
        return (self.beside - 1.0).square()


def test_every_sample_is_used_once_an_epoch_and_shares_are_of_all_of_them() -> None:
    policy = Watching()
    seen, best = shown(50)
    seen["number"] = np.arange(50)

    def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
        assert wanted.tolist() == best[policy.used[-1]].tolist()
        return improbability(distribution, wanted)

    def agrees(likely: Tensor, wanted: Tensor) -> Tensor:
        assert likely.shape == wanted.shape
        return torch.tensor(policy.used[-1]) < 5 * len(policy.used)

    found = clone(learner_of(policy), seen, best, distance, agrees=agrees, epochs=3, minibatch_size=20)
    assert [len(places) for places in policy.used] == [20, 20, 10] * 3
    epochs = [[place for places in policy.used[first : first + 3] for place in places] for first in (0, 3, 6)]
    assert all(sorted(places) == list(range(50)) for places in epochs)
    assert len({tuple(places) for places in epochs}) == 3
    agreed = [sum(place < 5 * number for place in places) for number, places in enumerate(policy.used, start=1)]
    assert found == [sum(agreed[first : first + 3]) / 50 for first in (0, 3, 6)]
    assert 0 < policy.beside.item() < 0.1


def test_the_learning_rate_falls_to_a_twentieth() -> None:
    policy = Watching()
    seen, best = shown(40)
    seen["number"] = np.arange(40)
    places: list[float] = []

    def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
        places.append(policy.beside.item())
        return improbability(distribution, wanted)

    clone(learner_of(policy), seen, best, distance, epochs=10, minibatch_size=10, learning_rate=1e-4)
    steps = np.diff([*places, policy.beside.item()])
    # Adam's steps are as long as the rate, while the gradient has one sign.
    rates = 1e-4 * (1.0 - 0.95 * np.arange(40) / 40)
    np.testing.assert_allclose(steps, rates, rtol=0.02)


def test_the_same_generator_gives_the_same_weights() -> None:
    weights = []
    for seed in (0, 0, 1):
        learner = learner_of(bandit_policy(), seed)
        clone(learner, *shown(300), improbability, epochs=2, minibatch_size=32)
        weights.append({name: tensor.numpy().tobytes() for name, tensor in learner.policy.state_dict().items()})
    assert weights[0] == weights[1] != weights[2]


def test_without_samples_there_is_nothing_to_imitate() -> None:
    learner = learner_of(bandit_policy())
    seen, best = shown(0)
    with pytest.raises(InvalidConfiguration, match="there is nothing to imitate"):
        clone(learner, seen, best, improbability)


class Parts(nn.Module):
    """Layers of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(30, 50)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.recurrent = nn.GRU(7, 11)
        self.norm = nn.LayerNorm(6)


def test_weights_are_drawn_within_their_bounds_from_the_generator_alone() -> None:
    modules = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(noise)
        modules.append(drawn(Parts(), np.random.default_rng(seed), gain=1.5 if seed == 0 else 0.5))
    first, again, other = (dict(module.named_parameters()) for module in modules)
    for name, parameter in first.items():
        assert torch.equal(parameter, again[name])
        assert parameter.requires_grad
        assert parameter.dtype == torch.float32
        if parameter.dim() < 2:
            assert (parameter == (1.0 if "norm" in name and name.endswith("weight") else 0.0)).all(), name
            continue
        bound = math.sqrt(6 / sum(parameter.shape))
        assert not torch.equal(parameter, other[name])
        for found, gain in ((parameter, 1.5), (other[name], 0.5)):
            assert found.abs().max() <= gain * bound * (1 + 1e-6)
            assert found.abs().max() > 0.9 * gain * bound
            # uniform numbers: their variance is a third of the square of the bound
            assert found.detach().var().item() == pytest.approx((gain * bound) ** 2 / 3, rel=0.3)


def test_the_weights_of_normalization_layers_stay_as_they_are() -> None:
    module = nn.LayerNorm(6)
    with torch.no_grad():
        module.weight.copy_(torch.arange(6.0))
    assert drawn(module, np.random.default_rng(0)) is module
    assert module.weight.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
