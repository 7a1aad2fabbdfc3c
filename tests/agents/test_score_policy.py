"""Networks that score jobs: what they make of jobs hangs neither on their order nor on room without jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from score_cases import Arrays, batch_of, drawn_arrays, met_arrays, policy_of, single, slow_context  # noqa: E402

from desim.agents.deferrable.list_plan import PlannedWaits  # noqa: E402
from desim.agents.deferrable.score_agent import (  # noqa: E402
    Recurrent,
    ScoreConfig,
    scores_of,
)
from desim.agents.deferrable.score_policy import LEAST_DEVIATION  # noqa: E402
from desim.agents.learning.policy import one_thread  # noqa: E402
from desim.problems.deferrable.encoder import CURRENT_FEATURES  # noqa: E402

SMALL = ScoreConfig(max_jobs=9, width=8)
ATTENTION = [replace(SMALL, auxiliary=auxiliary) for auxiliary in ("none", "high", "low", "both")]  # type: ignore[arg-type]
FIXED = [replace(config, network="mlp") for config in ATTENTION]
RESERVING = [replace(SMALL, rule="reserve"), replace(SMALL, rule="reserve", network="mlp")]
every_attention = pytest.mark.parametrize("config", ATTENTION, ids=lambda config: config.auxiliary)
every_network = pytest.mark.parametrize("config", ATTENTION + FIXED, ids=lambda one: f"{one.network}-{one.auxiliary}")
some_jobs = {"seed": st.integers(0, 10**6), "current": st.integers(0, 9), "future": st.integers(0, 6)}


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Let torch use one thread while a test runs."""
    with one_thread():
        yield


def drawn(config: ScoreConfig, seed: int, current: int, future: int) -> Arrays:
    return drawn_arrays(config.encoder(), np.random.default_rng(seed), current, future)


def outputs(policy: Any, rows: list[Arrays]) -> tuple[Any, Any, Any]:
    """Return means, deviations and values."""
    with torch.no_grad():
        distribution, values = policy(batch_of(rows))
    return distribution.mean, distribution.deviation, values


def log_probs(policy: Any, rows: list[Arrays], actions: np.ndarray) -> Any:
    with torch.no_grad():
        return policy(batch_of(rows))[0].log_prob(torch.from_numpy(actions))


def with_rows(seen: Arrays, name: str, order: np.ndarray) -> Arrays:
    """Return an observation with the first rows in another order."""
    rows = seen[name].copy()
    rows[: len(order)] = rows[order]
    return seen | {name: rows}


@every_attention
@given(**some_jobs)
@settings(max_examples=8, deadline=None)
def test_the_order_of_jobs_means_nothing(config: ScoreConfig, seed: int, current: int, future: int) -> None:
    policy, rng = policy_of(config), np.random.default_rng(seed)
    seen = drawn(config, seed, current, future)
    order, later = rng.permutation(current), rng.permutation(future)
    moved = with_rows(seen, "current", order)
    for other in (moved, with_rows(moved, "future", later)):
        means, deviations, values = outputs(policy, [seen])
        found_means, found_deviations, found_values = outputs(policy, [other])
        torch.testing.assert_close(found_means[0, :current], means[0, order])
        torch.testing.assert_close(found_deviations[0, :current], deviations[0, order])
        torch.testing.assert_close(found_values, values)
        action = rng.normal(size=9)
        permuted = action.copy()
        permuted[:current] = action[order]
        found, wanted = log_probs(policy, [other], permuted[None]), log_probs(policy, [seen], action[None])
        torch.testing.assert_close(found, wanted)


@every_attention
def test_each_job_has_a_say(config: ScoreConfig) -> None:
    policy, rows = policy_of(config), drawn(config, 1, 4, 3)
    means, _, value = outputs(policy, [rows])
    for name, count in (("current", 4), ("future", 3)):
        for row in range(count):
            changed = {key: array.copy() for key, array in rows.items()}
            changed[name][row, -1] += 1.0
            other, _, changed_value = outputs(policy, [changed])
            assert (other[0, :4] - means[0, :4]).abs().min() > 1e-9
            assert abs(changed_value - value) > 1e-9


@every_attention
@given(**some_jobs, more=st.tuples(st.integers(0, 9), st.integers(0, 6)))
@settings(max_examples=8, deadline=None)
def test_room_without_jobs_changes_nothing(
    config: ScoreConfig, seed: int, current: int, future: int, more: tuple[int, int]
) -> None:
    policy, seen = policy_of(config), drawn(config, seed, current, future)
    means, deviations, values = outputs(policy, [seen])
    together = outputs(policy, [drawn(config, seed + 1, *more), seen])
    large = replace(config, max_jobs=14)
    roomy = policy_of(large)
    roomy.load_state_dict(policy.state_dict())
    padded = dict(seen)
    for name, rows in (("current", 5), ("future", 5), ("action_mask", 5)):
        padded[name] = np.concatenate([seen[name], np.zeros((rows, *seen[name].shape[1:]), seen[name].dtype)])
    for found, place in ((together, 1), (outputs(roomy, [padded]), 0)):
        torch.testing.assert_close(found[0][place, :current], means[0, :current])
        torch.testing.assert_close(found[1][place, :current], deviations[0, :current])
        torch.testing.assert_close(found[2][place], values[0])
    action = np.random.default_rng(seed).normal(size=(1, 14))
    torch.testing.assert_close(log_probs(roomy, [padded], action), log_probs(policy, [seen], action[:, :9]))


@given(**some_jobs, more=st.tuples(st.integers(0, 9), st.integers(0, 6)))
@settings(max_examples=8, deadline=None)
def test_jobs_to_come_have_scores_where_jobs_keep_their_place(
    seed: int, current: int, future: int, more: tuple[int, int]
) -> None:
    config, rng = RESERVING[0], np.random.default_rng(seed)
    policy, seen = policy_of(config), drawn(config, seed, current, future)
    order, later = rng.permutation(current), rng.permutation(future)
    moved = with_rows(with_rows(seen, "current", order), "future", later)
    places, to = np.r_[np.arange(current), 9 + np.arange(future)], np.r_[order, 9 + later].astype(int)
    actions = rng.normal(size=(3, 18))
    actions[1, places] = actions[0, to]
    rows = [seen, moved, drawn(config, seed + 1, *more)]
    means, deviations, values = outputs(policy, rows)
    torch.testing.assert_close(means[1, places], means[0, to])
    torch.testing.assert_close(deviations[1, places], deviations[0, to])
    torch.testing.assert_close(values[1], values[0])
    found = log_probs(policy, rows, actions)
    wanted = 0.0
    for place in places:
        far = (actions[0, place] - means[0, place]) / deviations[0, place]
        wanted -= float(0.5 * far**2 + torch.log(deviations[0, place] * math.sqrt(2 * math.pi)))
    assert found[:2].tolist() == pytest.approx([wanted, wanted], rel=1e-9, abs=1e-12)
    alone = outputs(policy, [seen])
    torch.testing.assert_close(alone[0][0, places], means[0, places])
    assert len(set(means[0, places].tolist())) == len(places)


@every_attention
def test_what_stands_in_rows_without_a_job_means_nothing(config: ScoreConfig) -> None:
    policy, seen = policy_of(config), drawn(config, 2, 3, 2)
    wanted = outputs(policy, [seen, drawn(config, 3, 7, 5)])
    for name, count in (("current", 3), ("future", 2)):
        rows = seen[name].copy()
        rows[count:, 1:] = 5.0  # they are 0, so this never happens; but column 0 alone says what is a job
        found = outputs(policy, [seen | {name: rows}, drawn(config, 3, 7, 5)])
        torch.testing.assert_close(found[0][0, :3], wanted[0][0, :3])
        torch.testing.assert_close(found[2], wanted[2])


def slow_outputs(policy: Any, seen: Arrays) -> tuple[np.ndarray, np.ndarray, float]:
    """Return means, deviations and value of one observation, from tokens of its jobs and of no others."""
    weights = {name: parameter.detach().numpy() for name, parameter in policy.named_parameters()}

    def linear(name: str, inputs: np.ndarray) -> np.ndarray:
        return inputs @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normed(name: str, inputs: np.ndarray) -> np.ndarray:
        centred = inputs - inputs.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def two_layers(first: str, second: str, inputs: np.ndarray) -> np.ndarray:
        return linear(second, np.maximum(linear(first, inputs), 0.0))

    system = linear("of_system", slow_context(policy, seen))
    current = [linear("of_current", row) + system for row in seen["current"] if row[0]]
    future = [linear("of_future", row) + system for row in seen["future"] if row[0]]
    tokens = np.array([system, *current, *future])
    for number in range(len(policy.layers)):
        layer = f"layers.{number}"
        stacked = tokens @ weights[f"{layer}.self_attn.in_proj_weight"].T + weights[f"{layer}.self_attn.in_proj_bias"]
        query, key, value = np.split(stacked, 3, axis=1)
        looks = np.exp(query @ key.T / math.sqrt(query.shape[1]))
        seen_by = looks / looks.sum(1, keepdims=True) @ value
        tokens = normed(f"{layer}.norm1", tokens + linear(f"{layer}.self_attn.out_proj", seen_by))
        tokens = normed(f"{layer}.norm2", tokens + two_layers(f"{layer}.linear1", f"{layer}.linear2", tokens))
    scores = two_layers("score.0", "score.2", tokens[1 : 1 + len(current)])
    values = two_layers("value.0", "value.2", tokens)
    return np.tanh(scores[:, 0]), np.log1p(np.exp(scores[:, 1])) + LEAST_DEVIATION, float(values.mean())


@pytest.mark.parametrize("config", [*ATTENTION, replace(SMALL, num_resources=2, layers=1)], ids=str)
def test_it_is_a_transformer_over_the_jobs_that_there_are(config: ScoreConfig) -> None:
    policy = policy_of(config)
    rows = [drawn(config, 5, 0, 0), drawn(config, 6, 9, 6), drawn(config, 7, 3, 0), drawn(config, 8, 0, 3)]
    rows += met_arrays(config) if config.num_resources == 1 else []
    counts = [int(row["action_mask"].sum()) for row in rows]
    assert min(counts) == 0
    assert max(counts) == 9
    means, deviations, values = outputs(policy, rows)
    for place, (row, count) in enumerate(zip(rows, counts, strict=True)):
        wanted_means, wanted_deviations, wanted_value = slow_outputs(policy, row)
        np.testing.assert_allclose(means[place, :count], wanted_means.reshape(count), rtol=1e-6)
        np.testing.assert_allclose(deviations[place, :count], wanted_deviations.reshape(count), rtol=1e-6)
        assert float(values[place]) == pytest.approx(wanted_value, rel=1e-6)


@every_network
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(0, 9), min_size=1, max_size=4))
@settings(max_examples=5, deadline=None)
def test_probabilities_are_those_of_the_jobs_that_there_are(config: ScoreConfig, seed: int, counts: list[int]) -> None:
    policy, rows = policy_of(config), [drawn(config, seed + place, n, 2) for place, n in enumerate(counts)]
    actions = np.random.default_rng(seed).normal(size=(len(rows), 9))
    means, deviations, _ = (found.numpy() for found in outputs(policy, rows))
    found = log_probs(policy, rows, actions)
    for place, count in enumerate(counts):
        wanted = 0.0
        for job in range(count):
            far = (actions[place, job] - means[place, job]) / deviations[place, job]
            wanted -= 0.5 * far**2 + math.log(deviations[place, job] * math.sqrt(2 * math.pi))
        assert float(found[place]) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@every_network
def test_gradients_are_finite_with_and_without_jobs(config: ScoreConfig) -> None:
    policy = policy_of(config)
    for rows in ([drawn(config, 1, 0, 0)], [*met_arrays(config, count=9), drawn(config, 1, 0, 3)]):
        distribution, values = policy(batch_of(rows))
        actions = distribution.sample(np.random.default_rng(0))
        log_prob = distribution.log_prob(actions)
        assert (log_prob[[not row["action_mask"].any() for row in rows]] == 0).all()
        assert (distribution.entropy()[[not row["action_mask"].any() for row in rows]] == 0).all()
        policy.zero_grad()
        (log_prob.sum() + values.sum() + distribution.entropy().sum()).backward()
        gradients = {name: parameter.grad for name, parameter in policy.named_parameters()}
        assert all(torch.isfinite(grad).all() for grad in gradients.values() if grad is not None)
        if len(rows) > 1:
            lost = {name for name, grad in gradients.items() if grad is None or not grad.any()}
            assert all(name.startswith("auxiliary.") for name in lost)


@pytest.mark.parametrize("config", [ATTENTION[3], FIXED[0]], ids=lambda config: config.network)
def test_scores_are_within_bounds_and_samples_are_as_likely_as_said(config: ScoreConfig) -> None:
    policy, row = policy_of(config), max(met_arrays(config), key=lambda row: row["action_mask"].sum() % 9)
    count = int(row["action_mask"].sum())
    assert 3 < count < 9
    with torch.no_grad():
        distribution, _ = policy(batch_of([row] * 4_000))
    means, deviations = distribution.mean[0, :count].numpy(), distribution.deviation[0, :count].numpy()
    assert (np.abs(means) <= 1).all()
    assert (deviations > 0).all()
    samples = distribution.sample(np.random.default_rng(0)).numpy()
    assert not samples[:, count:].any()
    np.testing.assert_allclose(samples[:, :count].mean(0), means, atol=5 * deviations.max() / math.sqrt(4_000))
    np.testing.assert_allclose(samples[:, :count].std(0), deviations, rtol=0.1)
    np.testing.assert_array_equal(distribution.mode()[0, :count], means)
    assert not distribution.mode()[:, count:].any()


@pytest.mark.parametrize("config", ATTENTION + FIXED + RESERVING, ids=lambda one: f"{one.network}-{one.rule}")
def test_agents_score_without_torch_as_in_the_training(config: ScoreConfig) -> None:
    policy = single(policy_of(config)).train()
    fast, rows = scores_of(policy), [*met_arrays(config), drawn(config, 1, 9, 6), drawn(config, 2, 1, 0)]
    met = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in batch_of(rows).items()}
    with torch.no_grad():
        wanted, values = policy(met)
    with torch.inference_mode():  # torch has another way to compute a layer then
        found, found_values = deepcopy(policy).eval()(met)
    assert_near(found.mode(), wanted.mode())
    assert_near(found_values, values)
    for place, row in enumerate(rows):
        scores = fast({name: array.astype(np.float32) for name, array in row.items()})
        assert scores.dtype == np.float32
        assert_near(torch.from_numpy(scores), wanted.mode()[place])


def assert_near(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", FIXED, ids=lambda config: config.auxiliary)
def test_a_network_of_fixed_length_hangs_on_the_order(config: ScoreConfig) -> None:
    policy, seen = policy_of(config), drawn(config, 4, 5, 3)
    means, _, value = outputs(policy, [seen])
    for name, order in (("current", np.array([4, 3, 2, 1, 0])), ("future", np.array([2, 0, 1]))):
        moved_means, _, moved_value = outputs(policy, [with_rows(seen, name, order)])
        if name == "current":
            moved_means = moved_means[:, [4, 3, 2, 1, 0, 5, 6, 7, 8]]
        assert (moved_means[0, :5] - means[0, :5]).abs().max() > 1e-3
        assert abs(moved_value - value) > 1e-3
    together = outputs(policy, [drawn(config, 5, 9, 6), seen])
    torch.testing.assert_close(together[0][1], means[0])
    torch.testing.assert_close(together[2][1], value[0])


def test_networks_see_what_plans_say_only_if_they_are_to() -> None:
    with_plans, without = (replace(SMALL, plans=plans).encoder().observation_space for plans in (True, False))
    assert with_plans["current"].shape == (9, len(CURRENT_FEATURES) + 2 + len(PlannedWaits.names))
    assert without["current"].shape == (9, len(CURRENT_FEATURES) + 2)


@pytest.mark.parametrize("network", ["attention", "mlp", "pointer"])
def test_weights_are_those_of_the_generator(network: Any) -> None:
    config = replace(SMALL, network=network)
    first, again, other = (config.policy(np.random.default_rng(seed)).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    assert any(not torch.equal(tensor, other[name]) for name, tensor in first.items())


def test_gates_that_are_all_but_closed() -> None:
    """An exponential that is too large for a float is no error: warnings are, in tests."""
    unit = torch.nn.GRU(3, 5)
    history = 1e4 * np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    with torch.no_grad():
        wanted = unit(torch.from_numpy(history))[1][0]
    assert_near(torch.from_numpy(Recurrent(unit)(history)), wanted)
