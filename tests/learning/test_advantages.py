"""Generalized advantage estimation against sums over all later steps, closed forms, and discounts by time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.agents.learning.gae import advantages
from desim.agents.learning.learner import Discounting, between
from desim.exceptions import InvalidConfiguration


def random_rollout(seed: int, length: int, count: int) -> dict[str, np.ndarray]:
    """Return arguments with ends of both kinds, and weights that differ from step to step."""
    rng = np.random.default_rng(seed)
    shape = (length, count)
    ends = rng.random(shape) < 0.3
    truncated = ends & (rng.random(shape) < 0.5)
    return {
        "rewards": rng.normal(size=shape),
        "values": rng.normal(size=shape),
        "ends": ends,
        "final_values": np.where(truncated, rng.normal(size=shape), 0.0),
        "last_values": rng.normal(size=count),
        "discounts": rng.choice([0.0, 0.3, 0.9, 1.0], shape),
        "decays": rng.choice([0.0, 0.5, 0.95, 1.0], shape),
    }


def slow(rewards, values, *, ends, final_values, last_values, discounts, decays):
    """Sum the errors of all later steps of the same episode, each with the product of the weights in between."""
    length, count = rewards.shape
    result = np.zeros((length, count))
    for env in range(count):
        for step in range(length):
            weight = 1.0
            for later in range(step, length):
                if ends[later, env]:
                    following = final_values[later, env]
                else:
                    following = last_values[env] if later == length - 1 else values[later + 1, env]
                error = rewards[later, env] + discounts[later, env] * following - values[later, env]
                result[step, env] += weight * error
                if ends[later, env]:
                    break
                weight *= discounts[later, env] * decays[later, env]
    return result


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 12), st.integers(1, 4))
def test_they_are_weighted_sums_of_errors(seed: int, length: int, count: int) -> None:
    given_ = random_rollout(seed, length, count)
    np.testing.assert_allclose(advantages(**given_), slow(**given_), rtol=1e-10, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 12))
def test_decay_1_is_the_discounted_return_less_the_value(seed: int, length: int) -> None:
    given_ = random_rollout(seed, length, 2)
    given_["decays"][:] = 1.0
    returns = np.zeros((length, 2))
    for env in range(2):
        following = given_["last_values"][env]
        for step in reversed(range(length)):
            if given_["ends"][step, env]:
                following = given_["final_values"][step, env]
            following = given_["rewards"][step, env] + given_["discounts"][step, env] * following
            returns[step, env] = following
    np.testing.assert_allclose(advantages(**given_), returns - given_["values"], atol=1e-12)


def test_decay_0_is_the_error_of_one_step() -> None:
    given_ = random_rollout(3, 9, 3)
    given_["decays"][:] = 0.0
    following = np.concatenate([given_["values"][1:], given_["last_values"][None]])
    following = np.where(given_["ends"], given_["final_values"], following)
    errors = given_["rewards"] + given_["discounts"] * following - given_["values"]
    np.testing.assert_allclose(advantages(**given_), errors, atol=1e-12)


def test_nothing_from_behind_an_end_is_seen_before_it() -> None:
    first = random_rollout(5, 8, 1)
    first["ends"][:] = False
    first["ends"][4] = True
    second = {name: array.copy() for name, array in first.items()}
    for name in ("rewards", "values", "discounts", "decays"):
        second[name][5:] = 77.0
    second["last_values"][:] = 77.0
    np.testing.assert_array_equal(advantages(**first)[:5], advantages(**second)[:5])


def test_single_precision_is_not_lost_in_sums() -> None:
    given_ = random_rollout(7, 300, 1)
    given_ |= {name: given_[name].astype(np.float32) for name in ("values", "final_values", "last_values")}
    found = advantages(**given_)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, slow(**given_), rtol=1e-6, atol=1e-6)


class TestDiscounting:
    def test_by_decision_time_does_not_matter(self) -> None:
        discounts, decays = Discounting(0.9, 0.8).weights(np.array([0.0, 5.0]))
        np.testing.assert_array_equal(discounts, [0.9, 0.9])
        np.testing.assert_array_equal(decays, [0.8, 0.8])

    def test_by_time_the_number_of_decisions_does_not(self) -> None:
        discounts, decays = Discounting(0.9, 0.8, 3600.0).weights(np.array([0.0, 1800.0, 3600.0, 7200.0]))
        np.testing.assert_allclose(discounts, [1.0, 0.9**0.5, 0.9, 0.81])
        np.testing.assert_allclose(decays, [1.0, 0.8**0.5, 0.8, 0.64])
        assert np.prod(Discounting(0.98, 0.9, 60.0).weights(np.full(60, 1.0))[0]) == pytest.approx(0.98)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 8), st.floats(0, 1), st.floats(0, 1))
    def test_more_decisions_at_the_same_instant_change_nothing(
        self, seed: int, length: int, discount: float, decay: float
    ) -> None:
        rng = np.random.default_rng(seed)
        discounting = Discounting(discount, decay, 10.0)
        given_ = random_rollout(seed, length, 1)
        elapsed = rng.uniform(1.0, 40.0, (length, 1))
        weights = dict(zip(("discounts", "decays"), discounting.weights(elapsed), strict=True))
        targets = advantages(**given_ | weights) + given_["values"]
        copies = rng.integers(1, 4, length)  # all but the last of which take no time and earn nothing
        rows = np.repeat(np.arange(length), copies)
        is_last = np.append(rows[1:] != rows[:-1], True)[:, None]
        split = {name: array if name == "last_values" else array[rows] for name, array in given_.items()}
        split["rewards"] = np.where(is_last, split["rewards"], 0.0)
        split["ends"] = split["ends"] & is_last
        split["final_values"] = np.where(is_last, split["final_values"], 0.0)
        split["values"] = rng.normal(size=split["values"].shape)  # whatever the critic says in between
        first = np.append(0, copies.cumsum()[:-1])
        split["values"][first] = given_["values"]
        times = np.where(is_last, elapsed[rows], 0.0)
        weights = dict(zip(("discounts", "decays"), discounting.weights(times), strict=True))
        found = advantages(**split | weights) + split["values"]
        np.testing.assert_allclose(found[first], targets, atol=1e-9)

    @pytest.mark.parametrize("wrong", [{"discount": 1.1}, {"discount": -0.1}, {"decay": 2.0}, {"time_unit": 0.0}])
    def test_what_is_out_of_range_is_refused(self, wrong: dict[str, float]) -> None:
        with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
            Discounting(**wrong)


def test_a_schedule_is_linear_and_ends_where_it_should() -> None:
    assert [between(2.0, 4.0, part) for part in (-1.0, 0.0, 0.25, 1.0, 1.5)] == [2.0, 2.0, 2.5, 4.0, 4.0]
