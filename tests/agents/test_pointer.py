"""The pointer network: what it points at, and how likely, against a second one that takes one step after another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from score_cases import Arrays, batch_of, drawn_arrays, met_arrays, policy_of, slow_context  # noqa: E402

from desim.agents.deferrable.score_agent import ScoreConfig  # noqa: E402
from desim.agents.learning.policy import one_thread  # noqa: E402
from desim.core import Simulation  # noqa: E402
from desim.problems.deferrable import DeferrableCluster, Job  # noqa: E402

CONFIG = ScoreConfig("pointer", "none", threshold=0.0, max_jobs=6, width=5)
CONFIGS = [CONFIG, replace(CONFIG, auxiliary="both")]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.auxiliary)
END = -1


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Let torch use one thread while a test runs."""
    with one_thread():
        yield


def drawn(config: ScoreConfig, seed: int, current: int) -> Arrays:
    return drawn_arrays(config.encoder(), np.random.default_rng(seed), current, 1)


def frozen(config: ScoreConfig, seed: int = 0) -> Any:
    """Return a network without gradients, which distributions would work out when they are asked."""
    return policy_of(config, seed).requires_grad_(False)


class SlowPointer:
    """The network on one observation with jobs, a job and a step at a time."""

    def __init__(self, policy: Any, seen: Arrays) -> None:
        self.weights = {name: parameter.detach().numpy() for name, parameter in policy.named_parameters()}
        self.system = self.linear("of_system", slow_context(policy, seen))
        state = np.zeros_like(self.system), np.zeros_like(self.system)
        self.options = {}
        for job, row in enumerate(row for row in seen["current"] if row[0]):
            state = self.recurrent("reader", "_l0", np.maximum(self.linear("of_job", row) + self.system, 0.0), state)
            self.options[job] = state[0]
        self.summary = state[0]
        self.options[END] = self.weights["end"]

    def linear(self, name: str, inputs: np.ndarray) -> np.ndarray:
        return self.weights[f"{name}.weight"] @ inputs + self.weights[f"{name}.bias"]

    def recurrent(self, name: str, suffix: str, inputs: np.ndarray, state: Any) -> tuple[np.ndarray, np.ndarray]:
        weights = {part: self.weights[f"{name}.{part}{suffix}"] for part in ("weight_ih", "weight_hh", "bias_ih")}
        sums = weights["weight_ih"] @ inputs + weights["weight_hh"] @ state[0] + weights["bias_ih"]
        sums = sums + self.weights[f"{name}.bias_hh{suffix}"]
        let_in, keep, new, show = np.split(sums, 4)
        cell = state[1] / (1 + np.exp(-keep)) + np.tanh(new) / (1 + np.exp(-let_in))
        return np.tanh(cell) / (1 + np.exp(-show)), cell

    def value(self) -> float:
        hidden = np.maximum(self.linear("value.0", np.concatenate([self.summary, self.system])), 0.0)
        return float(self.linear("value.2", hidden)[0])

    def steps(self, order: Sequence[int]) -> Iterator[dict[int, float]]:
        """Yield the log-probabilities of all options, before each choice of an order and once behind it."""
        state, inputs, left = (self.summary, np.zeros_like(self.summary)), self.system, set(self.options)
        for chosen in (*order, END):
            state = self.recurrent("pointer", "", inputs, state)
            query = self.linear("of_query", state[0])
            scores = {}
            for option in left:
                key = self.linear("of_read", self.options[option])
                scores[option] = float(self.weights["attention.weight"][0] @ np.tanh(key + query))
            scores[END] += float(self.weights["end_bias"])
            total = math.log(math.fsum(map(math.exp, scores.values())))
            yield {option: score - total for option, score in scores.items()}
            left.discard(chosen)
            inputs = self.options[chosen]

    def log_prob(self, order: Sequence[int]) -> float:
        """Return the log-probability of an order and of the end behind it; behind the last job it is no choice."""
        choices = [*order, END] if len(order) < len(self.options) - 1 else list(order)
        return math.fsum(logs[chosen] for chosen, logs in zip(choices, self.steps(order), strict=False))

    def greedy(self) -> tuple[list[int], float]:
        """Return the order of always the likeliest choice, and the sum of the entropies of these choices."""
        order: list[int] = []
        entropy = 0.0
        while len(order) < len(self.options) - 1:
            *_, logs = self.steps(order)
            entropy -= math.fsum(math.exp(log) * log for log in logs.values())
            chosen = max(logs, key=lambda option: logs[option])
            if chosen == END:
                break
            order.append(chosen)
        return order, entropy


def order_of(scores: Any) -> list[int]:
    """Return the jobs that scores point at."""
    numbers = np.asarray(scores)
    return [int(job) for job in np.argsort(-numbers, kind="stable") if numbers[job] > 0]


def scores_of(order: Sequence[int], count: int) -> np.ndarray:
    """Return scores that point at jobs in an order, and at no others."""
    scores = np.zeros(6)
    scores[:count] = -1.0
    for place, job in enumerate(order):
        scores[job] = 1.0 - place / 6
    return scores


@every_config
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(0, 6), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
def test_samples_are_orders_as_likely_as_they_are_step_by_step(
    config: ScoreConfig, seed: int, counts: list[int]
) -> None:
    policy = frozen(config, seed % 5)
    rows = [drawn(config, seed + place, count) for place, count in enumerate(counts)]
    distribution, values = policy(batch_of(rows))
    scores = distribution.sample(np.random.default_rng(seed))
    found, entropies, modes = distribution.log_prob(scores), distribution.entropy(), distribution.mode()
    for place, (row, count) in enumerate(zip(rows, counts, strict=True)):
        order = order_of(scores[place])
        np.testing.assert_allclose(scores[place], scores_of(order, count), rtol=1e-6)
        assert set(order) <= set(range(count))
        if not count:
            assert (float(found[place]), float(entropies[place])) == (0.0, 0.0)
            assert math.isfinite(values[place])
            continue
        slow = SlowPointer(policy, row)
        greedy, entropy = slow.greedy()
        assert float(found[place]) == pytest.approx(slow.log_prob(order), rel=1e-6, abs=1e-9)
        assert float(values[place]) == pytest.approx(slow.value(), rel=1e-6)
        assert order_of(modes[place]) == greedy
        assert float(entropies[place]) == pytest.approx(entropy, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_probabilities_of_all_orders_of_three_jobs_add_up_to_one(seed: int) -> None:
    policy, row = frozen(CONFIG, seed), drawn(CONFIG, seed, 3)
    orders = [order for number in range(4) for order in permutations(range(3), number)]
    assert len(orders) == 1 + 3 + 6 + 6
    distribution = policy(batch_of([row] * len(orders)))[0]
    logs = distribution.log_prob(torch.from_numpy(np.array([scores_of(order, 3) for order in orders])))
    assert float(logs.exp().sum()) == pytest.approx(1.0, rel=1e-9)
    slow = SlowPointer(policy, row)
    for order, log in zip(orders, logs.tolist(), strict=True):
        assert log == pytest.approx(slow.log_prob(order), rel=1e-6, abs=1e-9)


@every_config
def test_other_observations_of_a_batch_and_room_change_nothing(config: ScoreConfig) -> None:
    policy, large = frozen(config), replace(config, max_jobs=9)
    roomy = frozen(large)
    roomy.load_state_dict(policy.state_dict())
    rows = [*met_arrays(config, count=20), drawn(config, 1, 6), drawn(config, 1, 0)]
    together, values = policy(batch_of(rows))
    actions = together.sample(np.random.default_rng(2))
    logs = together.log_prob(actions)
    assert sum(len(order_of(action)) for action in actions) > 5
    for place, row in enumerate(rows):
        padded = row | {
            name: np.concatenate([row[name], np.zeros((3, *row[name].shape[1:]), row[name].dtype)])
            for name in ("current", "future", "action_mask")
        }
        for one, seen, room in ((policy, row, 0), (roomy, padded, 3)):
            alone, value = one(batch_of([seen]))
            action = torch.nn.functional.pad(actions[place : place + 1], (0, room))
            assert float(alone.log_prob(action)[0]) == pytest.approx(float(logs[place]), rel=1e-6, abs=1e-9)
            torch.testing.assert_close(value[0], values[place])
            assert order_of(alone.mode()[0]) == order_of(together.mode()[place])


@every_config
def test_scores_of_rows_without_a_job_mean_nothing(config: ScoreConfig) -> None:
    distribution = frozen(config)(batch_of([drawn(config, 3, 4), drawn(config, 4, 6)]))[0]
    scores = distribution.sample(np.random.default_rng(0))
    changed = scores.clone()
    changed[0, 4:] = 0.9
    assert torch.equal(distribution.log_prob(changed), distribution.log_prob(scores))


@every_config
def test_gradients_are_finite_with_and_without_jobs(config: ScoreConfig) -> None:
    policy = policy_of(config)
    for rows in ([drawn(config, 1, 0)], [drawn(config, 1, 0), *met_arrays(config, count=12), drawn(config, 2, 6)]):
        distribution, values = policy(batch_of(rows))
        log_prob = distribution.log_prob(distribution.sample(np.random.default_rng(0)))
        policy.zero_grad()
        (log_prob.sum() + distribution.entropy().sum() + values.sum()).backward()
        gradients = {name: parameter.grad for name, parameter in policy.named_parameters()}
        assert all(torch.isfinite(grad).all() for grad in gradients.values() if grad is not None)
    lost = {name for name, grad in gradients.items() if grad is None or not grad.any()}
    assert all(name.startswith("auxiliary.") for name in lost)


@pytest.mark.parametrize("seed", range(5))
def test_jobs_are_started_in_the_order_in_which_they_are_pointed_at(seed: int) -> None:
    jobs = [Job(number, 0, 0, 5, 1 + number % 3, 1.0 + number) for number in range(5)]
    decision = Simulation(DeferrableCluster(jobs, [99.0])).advance()
    assert decision is not None
    encoder = CONFIG.encoder()
    distribution = frozen(CONFIG, seed)(batch_of([encoder.encode(decision.observation)]))[0]
    for number in range(20):
        scores = distribution.sample(np.random.default_rng([seed, number]))[0]
        order = order_of(scores)
        assert encoder.decode(decision.observation, scores.numpy()) == (order, True)
