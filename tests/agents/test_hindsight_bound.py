"""The certificate of the best fixed allocation: its upper bound and its prices."""

from __future__ import annotations

import numpy as np
import pytest
from hindsight_cases import check, cluster, feasible_points, random_case, reward, rewards_on
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.agents.multiserver.hindsight import best_fixed_allocation, hindsight_bound
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import UTILITIES, BipartiteGraph, RewardModel, Utility


class TestCertificate:
    @given(seed=st.integers(0, 10_000))
    @settings(max_examples=35, deadline=None)
    def test_no_feasible_point_is_above_the_bound(self, seed: int) -> None:
        rewards, counts = random_case(seed)
        best = best_fixed_allocation(rewards, counts)
        check(rewards, counts, best)
        assert best.gap <= 1e-7 * best.upper_bound + 1e-10
        for point in feasible_points(rewards, np.random.default_rng(seed), 10):
            value = reward(rewards, counts, point)
            assert value <= best.upper_bound * (1 + 1e-12) + 1e-12
            # ... nor on the way there, where the concave reward does not rise from the best allocation.
            between = reward(rewards, counts, 0.999 * best.allocation + 0.001 * point)
            assert between <= best.upper_bound * (1 + 1e-12) + 1e-12

    @given(seed=st.integers(0, 10_000))
    @settings(max_examples=35, deadline=None)
    def test_any_multipliers_give_a_bound(self, seed: int) -> None:
        rewards, counts = random_case(seed)
        rng = np.random.default_rng(seed)
        graph = rewards.graph
        best = best_fixed_allocation(rewards, counts)
        for _ in range(5):
            shares = rng.dirichlet(np.full(graph.num_resources, 0.5), graph.num_ports)
            prices = rng.exponential(rng.choice([0.1, 3.0]), graph.capacity.shape) * (rng.random() < 0.8)
            assert best.value <= hindsight_bound(rewards, counts, shares, prices) * (1 + 1e-12) + 1e-12
        again = hindsight_bound(rewards, counts, best.shares, best.prices)
        assert again == pytest.approx(best.upper_bound, rel=1e-9, abs=1e-9)

    @pytest.mark.parametrize("seed", range(6))
    def test_bound_is_the_formula(self, seed: int) -> None:
        """The maximum of each piece by golden section, one entry at a time."""
        from scipy.optimize import minimize_scalar

        rewards, counts = random_case(seed)
        graph = rewards.graph
        rng = np.random.default_rng(seed)
        shares = rng.dirichlet(np.ones(graph.num_resources), graph.num_ports)
        prices = rng.exponential(2.0, graph.capacity.shape)
        total = 0.0
        seen = set()
        for channel, (port, node) in enumerate(zip(graph.channel_port, graph.channel_node, strict=True)):
            for k in range(graph.num_resources):
                most = min(graph.requests[port, k], graph.capacity[node, k])
                if most == 0 or counts[port] == 0:
                    continue
                seen.add((node, k))
                price = counts[port] * shares[port, k] * rewards.overhead[k] + prices[node, k]

                def loss(y: float, at=(channel, k), price: float = price, count: float = counts[port]) -> float:
                    table = np.zeros(graph.shape)
                    table[at] = y
                    return price * y - count * rewards.utility_gains(table)[at]

                inner = minimize_scalar(loss, bounds=(0, most), method="bounded", options={"xatol": 1e-10}).fun
                total += max(0.0, -inner, -loss(most))
        total += sum(prices[cell] * graph.capacity[cell] for cell in seen)
        assert hindsight_bound(rewards, counts, shares, prices) == pytest.approx(total, rel=1e-8)

    def test_prices_are_what_capacity_would_earn(self) -> None:
        rewards, counts = cluster(3, 4, 5, 3.0, 6.0, (0.1, 0.2))
        graph = rewards.graph
        best = best_fixed_allocation(rewards, counts, relative_gap=1e-12)
        for node, resource in np.argwhere(best.prices > 0.01 * best.prices.max())[:6]:
            values = []
            for change in (-1e-3, 1e-3):
                capacity = graph.capacity.copy()
                capacity[node, resource] += change
                ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
                other = rewards_on(rewards, BipartiteGraph(graph.requests, capacity, ends))
                values.append(best_fixed_allocation(other, counts, relative_gap=1e-12).value)
            low, high = (best.value - values[0]) / 1e-3, (values[1] - best.value) / 1e-3
            assert high * (1 - 1e-3) <= best.prices[node, resource] <= low * (1 + 1e-3)

    def test_a_utility_with_a_kink_is_bounded_all_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kink = Utility("kink", np.minimum, lambda y, w: np.where(y < w, 1.0, 0.0))
        monkeypatch.setitem(UTILITIES, "kink", kink)
        for seed in range(8):
            rewards, counts = random_case(seed, ("kink",))
            best = best_fixed_allocation(rewards, counts)
            check(rewards, counts, best)
            assert best.relative_gap < 2e-3
            for point in feasible_points(rewards, np.random.default_rng(seed), 50):
                assert reward(rewards, counts, point) <= best.upper_bound * (1 + 1e-12) + 1e-12

    @pytest.mark.parametrize("off", [0.0, 0.5, 2.0])
    def test_the_bound_does_not_trust_the_inverse_of_the_slope(
        self, off: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = UTILITIES["log"]
        monkeypatch.setitem(UTILITIES, "off", Utility("off", log.value, log.slope, lambda s, w: off * (w / s - 1.0)))
        for seed in range(10):
            rewards, counts = random_case(seed, ("off",))
            exact = RewardModel(rewards.graph, "log", rewards.weights, rewards.overhead)
            best = best_fixed_allocation(exact, counts)
            bound = hindsight_bound(rewards, counts, best.shares, best.prices)
            assert bound >= best.value * (1 - 1e-12)

    def test_one_iteration_is_honest(self) -> None:
        rewards, counts = cluster(1, 6, 8, 3.0, 10.0, (0.3, 0.5))
        best = best_fixed_allocation(rewards, counts)
        early = best_fixed_allocation(rewards, counts, max_iterations=1)
        check(rewards, counts, early)
        assert early.iterations == 1
        assert early.relative_gap > 1e-3
        assert early.value <= best.value <= best.upper_bound <= early.upper_bound

    def test_multipliers(self) -> None:
        rewards = RewardModel(BipartiteGraph([[1.0], [1.0]], [[1.0]]), "log")
        with pytest.raises(InvalidConfiguration, match=r"shares of port1: got a sum of .*0\.5"):
            hindsight_bound(rewards, [1, 1], [[1.0], [0.5]], [[1.0]])
        with pytest.raises(InvalidConfiguration, match=r"prices: got an array of shape \(1, 2\), expected \(1, 1\)"):
            hindsight_bound(rewards, [1, 1], [[1.0], [1.0]], [[1.0, 1.0]])
        with pytest.raises(InvalidConfiguration, match="prices: got -1, expected finite numbers >= 0"):
            hindsight_bound(rewards, [1, 1], [[1.0], [1.0]], [[-1.0]])
