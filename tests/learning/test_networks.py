"""Distributions over actions against those of torch, weights from passed generators, scales, copies in NumPy."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_cases import categorical
from scipy import stats
from torch import nn

from desim.agents.learning.learner import RunningMoments
from desim.agents.learning.policy import (
    Gaussian,
    MaskedCategorical,
    MLPPolicy,
    NumpyMLP,
    ObservationNormalizer,
    drawn,
    initialized,
    mlp,
)
from desim.exceptions import InvalidConfiguration


def random_masked(seed: int, rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, width)) < 0.5
    mask[np.arange(rows), rng.integers(width, size=rows)] = True
    return torch.from_numpy(rng.normal(0, 3, (rows, width))), torch.from_numpy(mask)


class TestMaskedCategorical:
    @settings(max_examples=50, deadline=None)
    @given(st.integers(0, 10**9), st.integers(2, 6))
    def test_it_is_that_of_torch_over_the_possible_actions_with_its_gradients(self, seed: int, width: int) -> None:
        logits, mask = random_masked(seed, 4, width)
        actions = mask.int().argmax(1)
        for what in ("log_prob", "entropy"):
            ours = logits.clone().requires_grad_()
            found = MaskedCategorical(ours, mask.to(torch.int8))
            values = found.log_prob(actions) if what == "log_prob" else found.entropy()
            values.sum().backward()
            assert ours.grad is not None
            assert torch.isfinite(ours.grad).all()
            assert (ours.grad[~mask] == 0).all()
            for row in range(4):
                places = mask[row].nonzero().squeeze(1)
                theirs = logits[row, places].clone().requires_grad_()
                reference = torch.distributions.Categorical(logits=theirs)
                index = (places == actions[row]).int().argmax()
                value = reference.log_prob(index) if what == "log_prob" else reference.entropy()
                value.backward()
                torch.testing.assert_close(values[row], value)
                torch.testing.assert_close(ours.grad[row, places], theirs.grad, atol=1e-10, rtol=1e-6)
                assert int(found.mode()[row]) == int(places[reference.logits.argmax()])
                assert (found.log_probabilities[row, ~mask[row]].exp() == 0).all()

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 6), st.integers(1, 9))
    def test_more_impossible_actions_change_nothing(self, seed: int, width: int, more: int) -> None:
        logits, mask = random_masked(seed, 3, width)
        padding = torch.zeros((3, more))
        wide = MaskedCategorical(torch.cat([logits, padding + 50], 1), torch.cat([mask, padding.bool()], 1))
        narrow = MaskedCategorical(logits, mask)
        actions = mask.int().argmax(1)
        torch.testing.assert_close(wide.log_prob(actions), narrow.log_prob(actions))
        torch.testing.assert_close(wide.entropy(), narrow.entropy())
        assert wide.mode().tolist() == narrow.mode().tolist()
        unmasked, reference = MaskedCategorical(logits), torch.distributions.Categorical(logits=logits)
        torch.testing.assert_close(unmasked.log_prob(actions), reference.log_prob(actions))
        torch.testing.assert_close(unmasked.entropy(), reference.entropy())

    def test_samples_follow_the_probabilities_and_the_mask(self) -> None:
        row, mask = [1.0, 9.0, 0.0, -1.0, 0.5], [1, 0, 1, 1, 0]
        drawn_ = categorical([row] * 40_000, [mask] * 40_000).sample(np.random.default_rng(0)).numpy()
        counts = np.bincount(drawn_, minlength=5)
        assert counts[1] == counts[4] == 0
        wanted = np.exp(np.array(row)) * mask
        places = [0, 2, 3]
        expected = (wanted / wanted.sum() * len(drawn_))[places]
        assert stats.chisquare(counts[places], expected).pvalue > 0.01

    def test_samples_depend_on_the_generator_alone_and_of_equal_actions_the_first_is_most_likely(self) -> None:
        distribution = categorical([[0.0, 1.0, 2.0]] * 50)
        samples = [distribution.sample(np.random.default_rng(seed)).tolist() for seed in (5, 5, 6)]
        assert samples[0] == samples[1] != samples[2]
        assert categorical([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]).mode().tolist() == [1, 0]


class TestGaussian:
    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 5), st.integers(1, 4))
    def test_it_is_that_of_torch_over_the_numbers_that_count(self, seed: int, rows: int, width: int) -> None:
        mean, mask = random_masked(seed, rows, width)
        rng = np.random.default_rng(seed)
        deviation = torch.from_numpy(rng.uniform(0.1, 3.0, (rows, width)))
        actions = torch.from_numpy(rng.normal(size=(rows, width)))
        reference = torch.distributions.Normal(mean, deviation)
        plain, masked = Gaussian(mean, deviation), Gaussian(mean, deviation, mask)
        torch.testing.assert_close(plain.log_prob(actions), reference.log_prob(actions).sum(1))
        torch.testing.assert_close(plain.entropy(), reference.entropy().sum(1))
        torch.testing.assert_close(masked.log_prob(actions), (reference.log_prob(actions) * mask).sum(1))
        torch.testing.assert_close(masked.entropy(), (reference.entropy() * mask).sum(1))
        assert (masked.mode()[~mask] == 0).all()
        assert (masked.sample(rng)[~mask] == 0).all()

    def test_samples_are_normal(self) -> None:
        distribution = Gaussian(torch.tensor([[1.0, -2.0]]).expand(20_000, 2), torch.tensor([[0.5, 3.0]]))
        numbers = distribution.sample(np.random.default_rng(3)).numpy()
        for column, (mean, deviation) in enumerate(((1.0, 0.5), (-2.0, 3.0))):
            assert stats.kstest(numbers[:, column], "norm", (mean, deviation)).pvalue > 0.01
        assert abs(np.corrcoef(numbers.T)[0, 1]) < 0.03


class TestMLPPolicy:
    def test_networks_begin_orthogonal_and_near_to_uniform(self) -> None:
        policy = MLPPolicy({"a": 3, "b": 4}, 5, np.random.default_rng(0), hidden=(16, 8))
        for network, last in ((policy.actor, 0.01), (policy.critic, 1.0)):
            layers = [layer for layer in network if isinstance(layer, nn.Linear)]
            for layer in layers:
                weight, gain = layer.weight, last if layer is layers[-1] else 2**0.5
                small = weight @ weight.T if len(weight) <= weight.shape[1] else weight.T @ weight
                torch.testing.assert_close(small, gain**2 * torch.eye(len(small)), atol=1e-5, rtol=1e-4)
                assert (layer.bias == 0).all()
        generator = torch.Generator().manual_seed(0)
        seen = {name: torch.randn(6, *shape, generator=generator) for name, shape in (("a", (3,)), ("b", (2, 2)))}
        distribution, values = policy(seen)
        torch.testing.assert_close(distribution.log_probabilities.exp(), torch.full((6, 5), 0.2), atol=0.02, rtol=0)
        assert values.shape == (6,)

    def test_inputs_stand_in_the_order_in_which_they_were_named(self) -> None:
        policy = MLPPolicy({"b": 1, "a": 2}, 2, np.random.default_rng(0), mask="m", activation="relu")
        a, b = torch.randn(4, 2), torch.randn(4, 1)
        mask = torch.tensor([[1, 1], [1, 0], [0, 1], [1, 1]])
        distribution, values = policy({"a": a, "b": b, "m": mask})
        row = torch.cat([b, a], 1)
        expected = MaskedCategorical(policy.actor(row), mask).log_probabilities
        torch.testing.assert_close(distribution.log_probabilities, expected)
        torch.testing.assert_close(values, policy.critic(row).squeeze(1))
        with pytest.raises(InvalidConfiguration, match="activation: got 'cubic', expected one of tanh, relu"):
            MLPPolicy({"a": 1}, 2, np.random.default_rng(0), activation="cubic")


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
        modules.append(drawn(Parts(), np.random.default_rng(seed)))
    first, again, other = (dict(module.named_parameters()) for module in modules)
    for name, parameter in first.items():
        assert torch.equal(parameter, again[name])
        assert parameter.requires_grad
        if parameter.dim() < 2:
            assert (parameter == (1.0 if "norm" in name and name.endswith("weight") else 0.0)).all(), name
            continue
        bound = math.sqrt(6 / sum(parameter.shape))
        assert not torch.equal(parameter, other[name])
        assert 0.9 * bound < parameter.abs().max() <= bound * (1 + 1e-6)
        # uniform numbers: their variance is a third of the square of the bound
        assert parameter.detach().var().item() == pytest.approx(bound**2 / 3, rel=0.3)
    one, same, different = (initialized(mlp([3, 4, 2]), np.random.default_rng(seed)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["0.weight"], different["0.weight"])


class TestRunningMoments:
    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=6), max_size=6))
    def test_they_are_those_of_all_numbers(self, batches: list[list[float]]) -> None:
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

    def test_a_large_mean_costs_no_precision_and_an_unknown_deviation_is_1(self) -> None:
        numbers = 1e9 + np.random.default_rng(0).normal(size=(50, 20))
        moments = RunningMoments()
        assert moments.deviation == 1.0
        for batch in numbers:
            moments.update(batch)
        assert moments.deviation == pytest.approx(numbers.std(), rel=1e-6)
        other = RunningMoments()
        vars(other).update(json.loads(json.dumps(vars(moments))))
        assert vars(other) == vars(moments)
        equal = RunningMoments()
        equal.update(np.array([5.0, 5.0]))
        assert equal.deviation == 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**9), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_columns_are_scaled_by_what_was_seen(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    normalizer = ObservationNormalizer(3)
    shown = rng.normal([1.0, -50.0, 1000.0], [1.0, 0.1, 300.0], (7, 3)).astype(np.float32)
    assert torch.equal(normalizer(torch.from_numpy(shown)), torch.from_numpy(shown))  # before anything was seen
    assert list(normalizer.parameters()) == []  # weights without gradients
    rows = [rng.normal([1.0, -50.0, 1000.0], [1.0, 0.1, 300.0], (size, 3)).astype(np.float32) for size in sizes]
    for batch in rows:
        normalizer.update(torch.from_numpy(batch))
    seen = np.concatenate(rows).astype(np.float64)
    torch.testing.assert_close(normalizer.mean, torch.from_numpy(seen.mean(0)))
    expected = ((shown - seen.mean(0)) / seen.std(0).clip(1e-6)).clip(-10.0, 10.0)
    found = normalizer(torch.from_numpy(shown))
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("unit", [nn.Tanh, nn.ReLU, nn.LeakyReLU])
def test_copies_in_numpy_give_what_torch_gives(unit: type[nn.Module]) -> None:
    for sizes in ([3, 2], [5, 8, 1], [4, 16, 8, 3]):
        rng = np.random.default_rng(1)
        network = initialized(mlp(sizes, unit), rng)
        with torch.no_grad():
            network[0].bias.normal_(generator=torch.Generator().manual_seed(2))
        copy = NumpyMLP(network)
        for shape in ((sizes[0],), (7, sizes[0]), (0, sizes[0])):
            inputs = rng.normal(size=shape).astype(np.float32)
            with torch.inference_mode():
                wanted = network(torch.from_numpy(inputs)).numpy()
            found = copy(inputs)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        with torch.no_grad():
            network[-1].weight.zero_()
        np.testing.assert_allclose(copy(inputs), found)  # it does not follow the network
    with pytest.raises(InvalidConfiguration, match="activation for NumPy: got GELU"):
        NumpyMLP(mlp([2, 3, 1], nn.GELU))
