"""The best fixed allocation: by hand, against other solvers, at the sizes of the paper."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hindsight_cases import KINDS, Floats, check, cluster, random_case, rewards_on
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.agents.multiserver.hindsight import best_fixed_allocation, best_fixed_allocation_cvxpy
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.problems.multiserver import UTILITIES, BipartiteGraph, Gang, GangRewards, RewardModel, Utility


class TestByHand:
    @pytest.mark.parametrize(
        ("kind", "weight", "overhead", "amount"),
        [
            ("linear", 1.2, 0.5, 4.0),  # all there is
            ("linear", 1.2, 1.3, 0.0),  # overhead above the slope
            ("log", 1.2, 0.4, 2.0),  # 1.2 / (y + 1) = 0.4
            ("log", 1.2, 0.1, 4.0),  # would be 11
            ("log", 1.2, 1.2, 0.0),
            ("reciprocal", 1.0, 0.25, 1.0),  # 1 / (y + 1)^2 = 0.25
            ("poly", 1.0, 0.25, 3.0),  # 0.5 / sqrt(y + 1) = 0.25
        ],
    )
    def test_one_port_one_node(self, kind: str, weight: float, overhead: float, amount: float) -> None:
        for requests, capacity in ((4.0, 9.0), (9.0, 4.0)):
            rewards = RewardModel(BipartiteGraph([[requests]], [[capacity]]), kind, weight, overhead)
            best = best_fixed_allocation(rewards, [7], relative_gap=1e-13)
            check(rewards, np.array([7.0]), best)
            assert best.allocation.item() == pytest.approx(amount, abs=1e-5)
            exact = rewards.total_reward(np.array([[amount]]), np.array([True]))
            assert best.value == pytest.approx(7 * exact, rel=1e-12, abs=1e-12)

    def test_capacity_is_shared_by_counts(self) -> None:
        # Equal slopes 3 / (y1 + 1) = 1 / (y2 + 1) and y1 + y2 = 6.
        rewards = RewardModel(BipartiteGraph([[9.0], [9.0]], [[6.0]]), "log")
        best = best_fixed_allocation(rewards, [3, 1], relative_gap=1e-12)
        assert best.allocation.ravel() == pytest.approx([5.0, 1.0], abs=1e-5)
        assert best.prices.item() == pytest.approx(0.5)

    def test_overhead_of_another_resource_leaves_room(self) -> None:
        # y1 + y2 - max(2 y1, y2 / 2): y2 = 4 costs 2, and then y1 = 1 costs nothing more.
        rewards = RewardModel(BipartiteGraph([[3.0, 4.0]], [[9.0, 9.0]]), "linear", 1.0, [2.0, 0.5])
        best = best_fixed_allocation(rewards, [1], relative_gap=1e-12)
        assert best.allocation.ravel() == pytest.approx([1.0, 4.0], abs=1e-9)
        assert best.value == pytest.approx(3.0)
        assert best.shares.ravel() == pytest.approx([0.5, 0.5])  # 2 p1 = 1

    def test_overhead_is_that_of_the_job_not_of_the_node(self) -> None:
        # Two nodes: resource 0 of the one and resource 1 of the other go together, for one overhead.
        rewards = RewardModel(BipartiteGraph([[2.0, 2.0]], [[2.0, 0.0], [0.0, 2.0]]), "linear", 1.0, 1.5)
        best = best_fixed_allocation(rewards, [5])
        assert best.value == pytest.approx(5 * (4 - 3))
        assert best_fixed_allocation(RewardModel(rewards.graph, "linear", 1.0, 2.1), [5]).value == 0.0


class TestAgainstOtherSolvers:
    @pytest.mark.parametrize("seed", range(40))
    def test_linear_program(self, seed: int) -> None:
        from scipy.optimize import linprog
        from scipy.sparse import block_array, eye_array, kron

        rewards, counts = random_case(seed, ("linear",))
        graph = rewards.graph
        ends = {
            "port": (graph.channel_port[None] == np.arange(graph.num_ports)[:, None]).astype(float),
            "node": (graph.channel_node[None] == np.arange(graph.num_nodes)[:, None]).astype(float),
        }
        each = eye_array(graph.num_resources)
        left = block_array(
            [
                [kron(ends["node"], each), None],
                [
                    kron(ends["port"], each) @ np.diag(np.tile(rewards.overhead, graph.num_channels)),
                    -kron(eye_array(graph.num_ports), np.ones((graph.num_resources, 1))),
                ],
            ]
        )
        right = np.concatenate([graph.capacity.ravel(), np.zeros(graph.num_ports * graph.num_resources)])
        gain = (counts[graph.channel_port][:, None] * rewards.weights[graph.channel_node]).ravel()
        bounds = [(0.0, most) for most in graph.channel_requests.ravel()] + [(0.0, None)] * graph.num_ports
        exact = -linprog(np.concatenate([-gain, counts]), left, right, bounds=bounds).fun
        best = best_fixed_allocation(rewards, counts, relative_gap=1e-10)
        check(rewards, counts, best)
        assert best.value == pytest.approx(exact, rel=1e-8, abs=1e-8)
        assert best.relative_gap <= 1e-10

    @pytest.mark.parametrize("kind", KINDS[1:])
    def test_sequential_quadratic_programs(self, kind: str) -> None:
        from scipy.optimize import minimize

        rng = np.random.default_rng(5)
        graph = BipartiteGraph(rng.uniform(1, 4, (3, 2)), rng.uniform(1, 4, (2, 2)))
        rewards = RewardModel(graph, kind, rng.uniform(1, 1.5, (2, 2)), [0.2, 0.3])
        counts = np.array([3.0, 1.0, 2.0])

        def cost(x: Floats) -> float:
            return float(
                counts @ x[12:] - counts[graph.channel_port] @ rewards.utility_gains(x[:12].reshape(6, 2)).sum(1)
            )

        def room(x: Floats) -> Floats:
            y = x[:12].reshape(6, 2)
            over = x[12:, None] - graph.port_sums(y) * rewards.overhead
            return np.concatenate([(graph.capacity - graph.node_sums(y)).ravel(), over.ravel()])

        bounds = [(0.0, most) for most in graph.channel_requests.ravel()] + [(0.0, None)] * 3
        start = np.concatenate([np.full(12, 0.1), np.ones(3)])
        found = minimize(
            cost,
            start,
            method="SLSQP",
            bounds=bounds,
            constraints={"type": "ineq", "fun": room},
            options={"ftol": 1e-14},
        )
        best = best_fixed_allocation(rewards, counts, relative_gap=1e-9)
        assert best.value == pytest.approx(-found.fun, rel=1e-7)

    @pytest.mark.parametrize("kinds", [KINDS, *((kind,) for kind in KINDS)], ids=["mixed", *KINDS])
    def test_cvxpy(self, kinds: tuple[str, ...]) -> None:
        pytest.importorskip("cvxpy", reason="needs cvxpy")
        for seed in range(5):
            rewards, counts = random_case(seed, kinds)
            own, other = best_fixed_allocation(rewards, counts), best_fixed_allocation_cvxpy(rewards, counts)
            check(rewards, counts, other)
            assert own.value == pytest.approx(other.value, rel=1e-6, abs=1e-6)
            assert own.value <= other.upper_bound * (1 + 1e-12) + 1e-12
            assert other.value <= own.upper_bound * (1 + 1e-12) + 1e-12

    def test_cvxpy_at_the_size_of_the_paper(self) -> None:
        pytest.importorskip("cvxpy", reason="needs cvxpy")
        rewards, counts = cluster(0, 10, 128, 2.5, 10.0, (0.3, 0.5))
        own, other = best_fixed_allocation(rewards, counts), best_fixed_allocation_cvxpy(rewards, counts)
        binding = rewards.graph.node_sums(own.allocation) > 0.999 * rewards.graph.capacity
        assert 0.3 < binding.mean() < 0.95
        assert own.value == pytest.approx(other.value, rel=1e-6)
        assert other.relative_gap < 1e-4
        assert other.method.startswith("cvxpy")


class TestSizes:
    @pytest.mark.parametrize("density", [2.5, 10.0])
    def test_the_defaults_of_the_paper(self, density: float) -> None:
        rewards, counts = cluster(1, 10, 128, density, 10.0, (0.3, 0.5))
        best = best_fixed_allocation(rewards, counts, relative_gap=1e-9)
        check(rewards, counts, best)
        assert best.relative_gap <= 1e-9
        assert best.iterations <= 40

    @pytest.mark.parametrize(
        ("num_ports", "density"),
        [
            (15, 3.0),
            pytest.param(100, 3.0, marks=pytest.mark.slow),
            pytest.param(100, 100.0, marks=pytest.mark.slow),
        ],
    )
    def test_the_large_scale_of_the_paper(self, num_ports: int, density: float) -> None:
        rewards, counts = cluster(2, num_ports, 1024, density, 5.0, (0.01, 0.015))
        steps = []
        best = best_fixed_allocation(rewards, counts, progress=lambda *step: steps.append(step))
        assert best.relative_gap <= 1e-7
        assert [step[0] for step in steps] == list(range(1, best.iterations + 1))
        _, values, bounds = zip(*steps, strict=True)
        assert list(values) == sorted(values)
        assert list(bounds) == sorted(bounds, reverse=True)
        assert values[-1] == pytest.approx(best.value, rel=1e-12)
        assert bounds[-1] == pytest.approx(best.upper_bound, rel=1e-12)


class TestInvariants:
    @given(seed=st.integers(0, 10_000), factor=st.sampled_from([1e-3, 3.0, 1e4]))
    @settings(max_examples=20, deadline=None)
    def test_only_the_proportions_of_counts_matter(self, seed: int, factor: float) -> None:
        rewards, counts = random_case(seed)
        one, many = best_fixed_allocation(rewards, counts), best_fixed_allocation(rewards, factor * counts)
        assert many.value == pytest.approx(factor * one.value, rel=1e-6, abs=1e-8 * factor)

    @given(seed=st.integers(0, 10_000))
    @settings(max_examples=20, deadline=None)
    def test_jobs_at_one_port_earn_no_less_than_at_two_of_its_kind(self, seed: int) -> None:
        """Two copies of a port share its capacity, and the mean of their allocations would serve one port better."""
        rewards, counts = random_case(seed)
        twice = rewards_on(rewards, rewards.graph.repeat_ports(2))
        apart = best_fixed_allocation(twice, np.repeat(counts, 2))
        together = best_fixed_allocation(rewards, 2 * counts)
        assert apart.value <= together.upper_bound * (1 + 1e-12) + 1e-12
        # A copy without jobs gets nothing, and so changes nothing.
        alone = best_fixed_allocation(twice, np.column_stack([2 * counts, 0 * counts]).ravel())
        assert alone.value == pytest.approx(together.value, rel=1e-6, abs=1e-8)

    @pytest.mark.parametrize("seed", range(5))
    def test_same_twice_and_arguments_untouched(self, seed: int) -> None:
        rewards, counts = random_case(seed)
        before = counts.copy()
        first, second = best_fixed_allocation(rewards, counts), best_fixed_allocation(rewards, counts)
        assert (first.allocation == second.allocation).all()
        assert (first.value, first.upper_bound, first.iterations) == (
            second.value,
            second.upper_bound,
            second.iterations,
        )
        assert (counts == before).all()


class TestNothingToGive:
    @pytest.mark.parametrize(
        ("requests", "capacity", "channels", "counts"),
        [
            ([[1.0]], [[1.0]], [], [3]),
            ([[0.0]], [[1.0]], None, [3]),
            ([[1.0]], [[0.0]], None, [3]),
            ([[1.0]], [[1.0]], None, [0]),
        ],
        ids=["no channels", "no requests", "no capacity", "no jobs"],
    )
    def test_zero(self, requests: list, capacity: list, channels: list | None, counts: list[int]) -> None:
        rewards = RewardModel(BipartiteGraph(requests, capacity, channels), "log", 1.0, 0.1)
        best = best_fixed_allocation(rewards, counts)
        assert not best.allocation.any()
        assert best.value == best.upper_bound == best.relative_gap == 0.0
        assert best.iterations == 0

    def test_a_utility_without_use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(UTILITIES, "flat", Utility("flat", lambda y, w: 0.0 * y, lambda y, w: 0.0 * y))
        best = best_fixed_allocation(RewardModel(BipartiteGraph([[1.0]], [[1.0]]), "flat"), [2])
        assert best.value == best.upper_bound == 0.0

    @pytest.mark.parametrize("kind", KINDS)
    def test_overhead_above_every_slope(self, kind: str) -> None:
        rewards = RewardModel(BipartiteGraph([[2.0, 2.0]] * 3, [[3.0, 3.0]] * 2), kind, 1.0, 5.0)
        best = best_fixed_allocation(rewards, [1, 2, 3])
        assert best.value == best.upper_bound == best.relative_gap == 0.0

    def test_overhead_above_every_slope_for_some_shares_only(self) -> None:
        # The slopes 1 are below p beta for p = (0.7, 0.3), but not for equal shares.
        rewards = RewardModel(BipartiteGraph([[2.0, 2.0]] * 3, [[3.0, 3.0]] * 2), "log", 1.0, [1.5, 4.0])
        best = best_fixed_allocation(rewards, [1, 2, 3])
        assert best.value == best.upper_bound == best.relative_gap == 0.0

    def test_ports_beside_that_have_no_jobs_or_channels(self) -> None:
        graph = BipartiteGraph([[2.0], [2.0], [2.0]], [[3.0], [1.0]], [(0, 0), (2, 0)])
        best = best_fixed_allocation(RewardModel(graph, "log"), [4, 4, 0], relative_gap=1e-12)
        assert best.allocation.ravel() == pytest.approx([2.0, 0.0])
        assert best.value == pytest.approx(4 * np.log(3))


class TestErrors:
    REWARDS = RewardModel(BipartiteGraph([[1.0], [1.0]], [[1.0]]), "log")

    @pytest.mark.parametrize(
        ("counts", "message"),
        [
            ([1, -2], "count of port1: got -2.0"),
            ([np.nan, 1], "count of port0: got nan"),
            ([1, np.inf], "count of port1: got inf"),
            ([1, 2, 3], r"counts: got shape \(3,\), expected \(2,\)"),
            (["many", 1], "counts: expected an array of numbers"),
        ],
    )
    def test_counts(self, counts: list, message: str) -> None:
        for solve in (best_fixed_allocation, best_fixed_allocation_cvxpy):
            with pytest.raises(InvalidConfiguration, match=message):
                solve(self.REWARDS, counts)

    def test_arguments(self) -> None:
        with pytest.raises(InvalidConfiguration, match="relative_gap: got -1"):
            best_fixed_allocation(self.REWARDS, [1, 1], relative_gap=-1)
        with pytest.raises(InvalidConfiguration, match="max_iterations: got 0"):
            best_fixed_allocation(self.REWARDS, [1, 1], max_iterations=0)
        gangs = GangRewards(self.REWARDS, Gang([[[1.0]], [[1.0], [1.0]]], 1))
        with pytest.raises(InvalidConfiguration, match="expected a RewardModel"):
            best_fixed_allocation(gangs, [1, 1, 1])

    def test_cvxpy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("cvxpy", reason="needs cvxpy")
        with pytest.raises(InvalidConfiguration, match="solver: got 'ABACUS', expected one installed for cvxpy"):
            best_fixed_allocation_cvxpy(self.REWARDS, [1, 1], solver="ABACUS")
        monkeypatch.setitem(UTILITIES, "mine", UTILITIES["log"])
        with pytest.raises(InvalidConfiguration, match="utility for cvxpy: got 'mine'"):
            best_fixed_allocation_cvxpy(RewardModel(self.REWARDS.graph, "mine"), [1, 1])

    def test_cvxpy_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cvxpy", None)
        with pytest.raises(MissingDependency, match=r'pip install "desim\[cvxpy\]"'):
            best_fixed_allocation_cvxpy(self.REWARDS, [1, 1])
