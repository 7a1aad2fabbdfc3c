"""Distributions over actions against those of torch; masks; samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_cases import categorical
from scipy import stats

from desim.agents.learning.distributions import Gaussian, MaskedCategorical
from desim.agents.learning.policy import MLPPolicy, initialized, mlp
from desim.exceptions import InvalidConfiguration


def random_masked(seed: int, rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, width)) < 0.5
    mask[np.arange(rows), rng.integers(width, size=rows)] = True
    return torch.from_numpy(rng.normal(0, 3, (rows, width))), torch.from_numpy(mask)


class TestMaskedCategorical:
    @settings(max_examples=80, deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 5), st.integers(1, 7))
    def test_it_is_that_of_torch_over_the_possible_actions(self, seed: int, rows: int, width: int) -> None:
        logits, mask = random_masked(seed, rows, width)
        found = MaskedCategorical(logits, mask.to(torch.int8))
        for row in range(rows):
            places = mask[row].nonzero().squeeze(1)
            reference = torch.distributions.Categorical(logits=logits[row, places])
            logs = torch.stack([found.log_prob(torch.full((rows,), int(place)))[row] for place in places])
            torch.testing.assert_close(logs, reference.logits)
            torch.testing.assert_close(found.entropy()[row], reference.entropy())
            assert int(found.mode()[row]) == int(places[reference.logits.argmax()])
            impossible = (~mask[row]).nonzero().squeeze(1)
            assert all(found.log_probabilities[row, place].exp() == 0 for place in impossible)

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 5), st.integers(1, 7))
    def test_without_a_mask_all_are_possible(self, seed: int, rows: int, width: int) -> None:
        logits, _ = random_masked(seed, rows, width)
        found, reference = MaskedCategorical(logits), torch.distributions.Categorical(logits=logits)
        actions = torch.arange(rows) % width
        torch.testing.assert_close(found.log_prob(actions), reference.log_prob(actions))
        torch.testing.assert_close(found.entropy(), reference.entropy())

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**9), st.integers(2, 6))
    def test_impossible_actions_have_no_gradient_and_others_that_of_torch(self, seed: int, width: int) -> None:
        logits, mask = random_masked(seed, 4, width)
        actions = mask.int().argmax(1)
        for what in ("log_prob", "entropy"):
            ours = logits.clone().requires_grad_()
            distribution = MaskedCategorical(ours, mask)
            (distribution.log_prob(actions) if what == "log_prob" else distribution.entropy()).sum().backward()
            assert ours.grad is not None
            assert torch.isfinite(ours.grad).all()
            assert (ours.grad[~mask] == 0).all()
            for row in range(4):
                places = mask[row].nonzero().squeeze(1)
                theirs = logits[row, places].clone().requires_grad_()
                reference = torch.distributions.Categorical(logits=theirs)
                index = (places == actions[row]).int().argmax()
                (reference.log_prob(index) if what == "log_prob" else reference.entropy()).backward()
                torch.testing.assert_close(ours.grad[row, places], theirs.grad, atol=1e-10, rtol=1e-6)

    @settings(max_examples=40, deadline=None)
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

    def test_samples_follow_the_probabilities_and_the_mask(self) -> None:
        row, mask = [1.0, 9.0, 0.0, -1.0, 0.5], [1, 0, 1, 1, 0]
        drawn = categorical([row] * 40_000, [mask] * 40_000).sample(np.random.default_rng(0)).numpy()
        counts = np.bincount(drawn, minlength=5)
        assert counts[1] == counts[4] == 0
        wanted = np.exp(np.array(row)) * mask
        places = [0, 2, 3]
        expected = (wanted / wanted.sum() * len(drawn))[places]
        assert stats.chisquare(counts[places], expected).pvalue > 0.01

    def test_an_action_is_never_drawn_against_a_mask_however_good_it_looks(self) -> None:
        distribution = categorical([[80.0, -80.0, 80.0]] * 5_000, [[0, 1, 0]] * 5_000)
        assert (distribution.sample(np.random.default_rng(1)) == 1).all()
        assert (distribution.mode() == 1).all()
        assert (distribution.entropy() == 0).all()

    def test_samples_depend_on_the_generator_alone(self) -> None:
        distribution = categorical([[0.0, 1.0, 2.0]] * 50)
        first, second = (distribution.sample(np.random.default_rng(5)) for _ in range(2))
        assert first.tolist() == second.tolist()
        assert first.tolist() != distribution.sample(np.random.default_rng(6)).tolist()

    def test_of_equal_actions_the_first_is_the_most_likely(self) -> None:
        assert categorical([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]).mode().tolist() == [1, 0]

    def test_entropies_that_are_known(self) -> None:
        found = categorical([[0.0] * 4, [0.0] * 4], [[1, 1, 1, 1], [1, 0, 1, 0]]).entropy()
        torch.testing.assert_close(found, torch.log(torch.tensor([4.0, 2.0])))


class TestGaussian:
    @settings(max_examples=60, deadline=None)
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

    def test_numbers_that_do_not_count_have_no_gradient(self) -> None:
        mean, mask = random_masked(2, 4, 5)
        mean = mean.requires_grad_()
        deviation = torch.ones(4, 5, dtype=mean.dtype, requires_grad=True)
        distribution = Gaussian(mean, deviation, mask)
        (distribution.log_prob(torch.zeros(4, 5)) + distribution.entropy()).sum().backward()
        assert mean.grad is not None
        assert deviation.grad is not None
        assert (mean.grad[~mask] == 0).all()
        assert (deviation.grad[~mask] == 0).all()
        assert (mean.grad[mask] != 0).all()

    def test_samples_are_normal(self) -> None:
        distribution = Gaussian(torch.tensor([[1.0, -2.0]]).expand(20_000, 2), torch.tensor([[0.5, 3.0]]))
        drawn = distribution.sample(np.random.default_rng(3)).numpy()
        for column, (mean, deviation) in enumerate(((1.0, 0.5), (-2.0, 3.0))):
            assert stats.kstest(drawn[:, column], "norm", (mean, deviation)).pvalue > 0.01
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03


class TestMLPPolicy:
    def test_networks_begin_orthogonal_and_near_to_uniform(self) -> None:
        policy = MLPPolicy({"a": 3, "b": 4}, 5, np.random.default_rng(0), hidden=(16, 8))
        for network, last in ((policy.actor, 0.01), (policy.critic, 1.0)):
            layers = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
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

    def test_weights_depend_on_the_generator_alone(self) -> None:
        first, second, other = (initialized(mlp([3, 4, 2]), np.random.default_rng(seed)) for seed in (1, 1, 2))
        for one, same, different in zip(first.parameters(), second.parameters(), other.parameters(), strict=True):
            assert torch.equal(one, same)
            assert not one.any() or not torch.equal(one, different)

    def test_inputs_stand_in_the_order_in_which_they_were_named(self) -> None:
        policy = MLPPolicy({"b": 1, "a": 2}, 2, np.random.default_rng(0), mask="m", activation="relu")
        a, b = torch.randn(4, 2), torch.randn(4, 1)
        mask = torch.tensor([[1, 1], [1, 0], [0, 1], [1, 1]])
        distribution, values = policy({"a": a, "b": b, "m": mask})
        row = torch.cat([b, a], 1)
        torch.testing.assert_close(
            distribution.log_probabilities, MaskedCategorical(policy.actor(row), mask).log_probabilities
        )
        torch.testing.assert_close(values, policy.critic(row).squeeze(1))

    def test_an_unknown_activation_is_refused(self) -> None:
        with pytest.raises(InvalidConfiguration, match="no activation 'cubic'; there are tanh, relu"):
            MLPPolicy({"a": 1}, 2, np.random.default_rng(0), activation="cubic")
