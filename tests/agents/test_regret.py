"""Regret of online gradient ascent: its bound, its curve and its growth."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from desim.agents.multiserver.hindsight import best_fixed_allocation
from desim.agents.multiserver.oga import ExactOGA, TheoreticalSteps
from desim.agents.multiserver.regret import growth_exponent, regret_bound, regret_curve
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerObservation, RewardModel

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Arrivals = Callable[[int, Floats], Booleans]

KINDS = ("linear", "log", "reciprocal", "poly")
ONE = RewardModel(BipartiteGraph([[4.0]], [[9.0]]), "log", 1.0, 0.25)


def small(seed: int, kinds: tuple[str, ...] = KINDS) -> RewardModel:
    rng = np.random.default_rng(seed)
    graph = BipartiteGraph(rng.uniform(1, 4, (4, 2)), rng.uniform(2, 5, (3, 2)))
    return RewardModel(graph, rng.choice(kinds, (3, 2)), rng.uniform(1, 1.5, (3, 2)), rng.uniform(0.1, 0.5, 2))


def play(rewards: RewardModel, agent: ExactOGA, num_slots: int, arrivals: Arrivals) -> tuple[Booleans, Floats]:
    """Return what arrived and what was earned; arrivals may depend on what is reserved for the slot."""
    observation = MultiServerObservation(rewards.graph, rewards)
    agent.reset({}, np.random.default_rng(0))
    jobs, earned = [], []
    for slot in range(num_slots):
        reserved = np.zeros(rewards.graph.shape) if agent.allocation is None else agent.allocation
        observation.slot, observation.arrived = slot, arrivals(slot, reserved)
        answer = agent.act(observation)
        assert (answer == reserved).all()
        jobs.append(observation.arrived)
        earned.append(rewards.total_reward(answer, observation.arrived))
    return np.array(jobs), np.array(earned)


def random_arrivals(rewards: RewardModel, seed: int) -> Arrivals:
    rng = np.random.default_rng(seed)
    return lambda slot, reserved: rng.random(rewards.graph.num_ports) < 0.6


def periodic_arrivals(rewards: RewardModel, seed: int) -> Arrivals:
    """Each port in turn, for some slots at a time."""
    return lambda slot, reserved: np.arange(rewards.graph.num_ports) == slot // (seed + 1) % rewards.graph.num_ports


def poorest_port(rewards: RewardModel, seed: int) -> Arrivals:
    """The port that would earn least, of those that would earn more alone on the cluster."""
    alone = np.eye(rewards.graph.num_ports, dtype=bool)
    most = np.array([best_fixed_allocation(rewards, port * 1.0).value for port in alone])

    def answer(slot: int, reserved: Floats) -> Booleans:
        earned = np.array([rewards.total_reward(reserved, port) for port in alone])
        return alone[np.argmax(most - earned)]

    return answer


def drifting_arrivals(rewards: RewardModel, seed: int) -> Arrivals:
    """The first half of the ports, until the agent has learned it, then the others."""
    half = np.arange(rewards.graph.num_ports) < rewards.graph.num_ports // 2
    return lambda slot, reserved: half if slot < 200 else ~half


class TestBound:
    def test_by_hand(self) -> None:
        # Ports 0 and 1 at node 0, port 1 at node 1; slopes at zero are 2, 1 at node 0 and 3, 1 / 4 at node 1.
        graph = BipartiteGraph([[1.0, 4.0], [2.0, 3.0]], [[5.0, 6.0], [7.0, 8.0]], [(0, 0), (1, 0), (1, 1)])
        kinds = [["linear", "reciprocal"], ["log", "reciprocal"]]
        rewards = RewardModel(graph, kinds, [[2.0, 1.0], [3.0, 2.0]], [0.5, 0.25])
        diameter = 2 * (2 * (5 + 7) + 4 * (6 + 8))
        gradient = 3 * 0.5**2 + 2 * 2**2 + 2 * 2**2 + 2 * 3**2
        assert regret_bound(rewards, 100) == pytest.approx(10 * math.sqrt(diameter * gradient))

    def test_it_grows_with_the_root_of_the_horizon(self) -> None:
        rewards = small(0)
        bounds = [regret_bound(rewards, horizon) for horizon in (10, 100, 1_000)]
        assert growth_exponent([10, 100, 1_000], bounds).exponent == pytest.approx(0.5)

    @pytest.mark.parametrize("horizon", [0, -3, 1.5])
    def test_horizon(self, horizon: float) -> None:
        with pytest.raises(InvalidConfiguration, match=f"num_slots: got {horizon}, expected an integer >= 1"):
            regret_bound(ONE, horizon)


class TestOnlineGradientAscent:
    @pytest.mark.parametrize("arrivals", [random_arrivals, periodic_arrivals, poorest_port, drifting_arrivals])
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("num_slots", [50, 400])
    def test_regret_is_below_the_bound(
        self, arrivals: Callable[[RewardModel, int], Arrivals], seed: int, num_slots: int
    ) -> None:
        rewards = small(seed)
        agent = ExactOGA("reservation", TheoreticalSteps(num_slots))
        jobs, earned = play(rewards, agent, num_slots, arrivals(rewards, seed))
        (regret,) = regret_curve(rewards, jobs, earned, slots=[num_slots])
        assert regret <= regret_bound(rewards, num_slots)

    def test_a_policy_that_does_not_learn_is_above_the_bound(self) -> None:
        """The comparison above can fail: giving nothing has a regret that grows with the horizon."""
        rewards = small(1)
        jobs = np.ones((4_000, 4), dtype=bool)
        (regret,) = regret_curve(rewards, jobs, np.zeros(4_000), slots=[4_000])
        assert regret > regret_bound(rewards, 4_000)

    def test_regret_grows_slower_than_the_horizon(self) -> None:
        rewards = small(2, ("log", "poly"))
        horizons, regrets = [50, 100, 200, 400, 800], []
        for horizon in horizons:
            agent = ExactOGA("reservation", TheoreticalSteps(horizon))
            jobs, earned = play(rewards, agent, horizon, poorest_port(rewards, 0))
            regrets.append(regret_curve(rewards, jobs, earned, slots=[horizon]).item())
        growth = growth_exponent(horizons, regrets)
        assert growth.high < 0.8


class TestCurve:
    def test_by_hand(self) -> None:
        # The slope 1 / (y + 1) is the overhead 1 / 4 at y = 3, so that each job can earn log 4 - 3 / 4.
        each = math.log(4) - 0.75
        arrivals, earned = [[1], [0], [1], [1]], [0.5, 0.0, 0.25, -1.0]
        curve = regret_curve(ONE, arrivals, earned, slots=[4, 1, 2, 3])
        assert curve == pytest.approx([3 * each + 0.25, each - 0.5, each - 0.5, 2 * each - 0.75], rel=1e-6)

    @given(seed=st.integers(0, 1_000))
    @settings(max_examples=8, deadline=None)
    def test_the_best_allocation_itself(self, seed: int) -> None:
        rewards = small(seed)
        rng = np.random.default_rng(seed)
        jobs = rng.random((30, 4)) < rng.random(4)
        best = best_fixed_allocation(rewards, jobs.sum(axis=0))
        earned = [rewards.total_reward(best.allocation, arrived) for arrived in jobs]
        curve = regret_curve(rewards, jobs, earned, slots=range(3, 31, 3))
        assert (curve >= -1e-9).all()  # another allocation may have been better until then, none until the end
        assert curve[-1] == pytest.approx(0.0, abs=1e-6 * max(1.0, best.value))

    def test_several_jobs_in_a_slot_count_several_times(self) -> None:
        rewards = small(4)
        jobs = np.array([[2, 0, 1, 3], [0, 1, 1, 0]])
        apart = np.array([[1, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 1, 0]])
        one = regret_curve(rewards, jobs, [1.0, 2.0], slots=[2])
        assert one == pytest.approx(regret_curve(rewards, apart, [0.5, 0.25, 0.25, 2.0], slots=[4]))

    def test_a_gap_is_counted_against_the_policy(self) -> None:
        rewards = small(5)
        jobs = np.ones((10, 4))
        exact = regret_curve(rewards, jobs, np.zeros(10), slots=[10], relative_gap=1e-12)
        loose = regret_curve(rewards, jobs, np.zeros(10), slots=[10], relative_gap=0.05)
        assert exact < loose <= exact * 1.06

    def test_no_jobs_and_no_slots(self) -> None:
        assert regret_curve(ONE, np.zeros((3, 1)), np.zeros(3), slots=[2]).tolist() == [0.0]
        assert regret_curve(ONE, np.zeros((3, 1)), np.zeros(3), slots=[]).tolist() == []

    @pytest.mark.parametrize(
        ("arrivals", "earned", "slots", "message"),
        [
            ([[1, 1]], [0.0], [1], r"arrivals, earned: got shapes \(1, 2\) and \(1,\)"),
            ([[1]], [0.0, 1.0], [1], r"earned: got shapes \(1, 1\) and \(2,\)"),
            ([[1], [-1]], [0.0, 1.0], [1], r"arrivals at port0 in slot 1: got -1\.0, expected a finite number >= 0"),
            ([[1], [1]], [0.0, np.nan], [1], "earned in slot 1: got nan"),
            ([[1]], [0.0], [0], r"slots: got 0\.0, expected integers from 1 to 1"),
            ([[1]], [0.0], [2], r"slots: got 2\.0"),
            ([[1], [1]], [0.0, 1.0], [1.5], r"slots: got 1\.5"),
            ([[1]], [0.0], 1, r"slots: got shape \(\)"),
        ],
    )
    def test_errors(self, arrivals: list, earned: list, slots: list, message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            regret_curve(ONE, arrivals, earned, slots=slots)


class TestGrowth:
    @pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.5, 1.0])
    def test_a_known_power(self, exponent: float) -> None:
        horizons = np.array([10.0, 30.0, 100.0, 1_000.0])
        growth = growth_exponent(horizons, 7.0 * horizons**exponent)
        assert growth.exponent == pytest.approx(exponent, abs=1e-12)
        assert growth.coefficient == pytest.approx(7.0)
        assert growth.low == pytest.approx(exponent, abs=1e-6)
        assert growth.high == pytest.approx(exponent, abs=1e-6)
        assert growth.num_values == 4

    @given(seed=st.integers(0, 1_000))
    @settings(max_examples=20, deadline=None)
    def test_it_is_linear_regression(self, seed: int) -> None:
        from scipy.stats import linregress, t

        rng = np.random.default_rng(seed)
        horizons = rng.choice([50.0, 100.0, 200.0, 400.0], 6)
        horizons[0], horizons[1] = 50.0, 400.0
        regrets = rng.uniform(1, 100, (6, 3))
        line = linregress(np.log(np.repeat(horizons, 3)), np.log(regrets.ravel()))
        growth = growth_exponent(horizons, regrets)
        half = line.stderr * t.ppf(0.975, 16)
        assert growth.exponent == pytest.approx(line.slope)
        assert (growth.low, growth.high) == pytest.approx((line.slope - half, line.slope + half))
        assert growth.coefficient == pytest.approx(math.exp(line.intercept))

    def test_the_interval_holds_the_truth_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(1)
        horizons = np.array([100.0, 200.0, 400.0, 800.0])
        held = 0
        for _ in range(1_000):
            noise = np.exp(rng.normal(0, 0.3, (4, 2)))
            growth = growth_exponent(horizons, 2.0 * horizons[:, None] ** 0.5 * noise)
            held += growth.low <= 0.5 <= growth.high
        assert 930 <= held <= 970  # 950 +- 3 standard deviations of 6.9

    def test_two_values_leave_it_open(self) -> None:
        growth = growth_exponent([10, 1_000], [1.0, 100.0])
        assert growth.exponent == pytest.approx(1.0)
        assert (growth.low, growth.high) == (-math.inf, math.inf)

    @pytest.mark.parametrize(
        ("horizons", "regrets", "message"),
        [
            ([10, 20], [1.0, -2.5], r"regret at horizon 20: got -2\.5"),
            ([10, 20], [[1.0, 2.0], [0.0, 1.0]], "regret at horizon 20: got 0"),
            ([10, 20], [np.nan, 1.0], "regret at horizon 10: got nan"),
            ([0, 20], [1.0, 1.0], "regret at horizon 0: got 1"),
            ([10, 10], [1.0, 2.0], "horizons: got 1 different ones, expected at least 2"),
            ([], [], "horizons: got 0 different ones"),
            ([10, 20], [1.0], r"horizons, regrets: got shapes \(2,\) and \(1,\)"),
        ],
    )
    def test_errors(self, horizons: list, regrets: list, message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            growth_exponent(horizons, regrets)
