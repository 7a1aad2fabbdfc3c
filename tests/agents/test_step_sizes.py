"""Step sizes of online gradient ascent by their formulas, the bounds they rest on, arguments out of range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from multiserver_slow_agents import diameter, norm, random_rewards, theoretical
from numpy.random import default_rng

from desim import simulate
from desim.agents.multiserver import (
    ExactOGA,
    GeometricSteps,
    NormalizedSteps,
    Projection,
    TheoreticalSteps,
    diameter_bound,
    gradient_bound,
)
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import (
    BipartiteGraph,
    Gang,
    GangRewards,
    MultiServerCluster,
    MultiServerObservation,
    RewardModel,
)


class TestStepSizes:
    """Formulas, and arguments out of range."""

    def test_geometric(self) -> None:
        steps = GeometricSteps(3.0, 0.5)
        for _ in range(2):
            steps.start(None)  # type: ignore[arg-type]
            assert [steps.next(np.ones(2)) for _ in range(4)] == [3, 1.5, 0.75, 0.375]
        assert GeometricSteps(2.0).decay == 0.9999
        assert ExactOGA().steps == GeometricSteps(25.0, 0.9999)

    @pytest.mark.parametrize("num_slots", [1, 50, 2000])
    def test_theoretical_and_normalized(self, num_slots: int) -> None:
        for seed in range(20):
            rng = default_rng(seed)
            rewards = random_rewards(rng)
            assert diameter_bound(rewards.graph) == pytest.approx(diameter(rewards))
            steps = TheoreticalSteps(num_slots, scale=3.0)
            steps.start(rewards)
            expected = 3 * theoretical(rewards, num_slots)
            assert [steps.next(rng.random(3)) for _ in range(2)] == pytest.approx([expected] * 2)
            normalized = NormalizedSteps(num_slots, scale=3.0)
            normalized.start(rewards)
            for gradient in (rng.normal(size=(4, 2)), 1e-9 * rng.normal(size=(4, 2))):
                length = normalized.next(gradient) * norm(gradient)
                assert length == pytest.approx(3 * diameter(rewards) / math.sqrt(num_slots))
            assert normalized.next(np.zeros((4, 2))) == 0

    def test_the_bounds_hold(self) -> None:
        for seed in range(60):
            rng = default_rng(seed)
            rewards = random_rewards(rng)
            graph, projection = rewards.graph, Projection(rewards.graph)
            ends = [projection(rng.uniform(-2, 6, graph.shape)) for _ in range(2)]
            assert norm(ends[0] - ends[1]) <= diameter_bound(graph) * (1 + 1e-12)
            gradient = rewards.gradient(ends[0], rng.random(graph.num_ports) < 0.8)
            assert norm(gradient) <= gradient_bound(rewards) * (1 + 1e-12)

    def test_the_bound_on_gradients_on_paper(self) -> None:
        graph = BipartiteGraph(np.ones((2, 2)), np.ones((2, 2)), [(0, 0), (1, 0), (1, 1)])
        rewards = RewardModel(graph, ["linear", "reciprocal"], [[1.5, 0.5], [2.0, 1.0]], [0.25, 0.5])
        # Slopes at zero: 1.5 and 4 on the first node, 2 and 1 on the second.
        assert gradient_bound(rewards) == pytest.approx(math.sqrt(3 * 0.25 + 2 * (16 + 16 + 4)))
        assert diameter_bound(graph) == pytest.approx(math.sqrt(2 * (2 + 2)))

    def test_gangs_have_steps_too(self) -> None:
        jobs = RewardModel(BipartiteGraph([[1.0]], [[4.0]]), "log", 1.0, 0.5)
        rewards = GangRewards(jobs, Gang([[[2.0], [3.0]]], 1))
        steps = TheoreticalSteps(100)
        steps.start(rewards)
        assert steps.next(np.zeros(1)) == pytest.approx(math.sqrt(2 * 3 * 4) / math.sqrt(2 * (0.25 + 1)) / 10)

    def test_nothing_to_learn_means_no_step(self) -> None:
        rewards = RewardModel(BipartiteGraph([[1.0]], [[4.0]], []), "log")
        steps = TheoreticalSteps(10)
        steps.start(rewards)
        assert steps.next(np.zeros((0, 1))) == 0
        agent = ExactOGA("reservation", steps)
        assert agent.act(MultiServerObservation(rewards.graph, rewards)).shape == (0, 1)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: GeometricSteps(0.0), "initial: got 0.0, expected a finite number > 0"),
            (lambda: GeometricSteps(math.inf), "initial: got inf"),
            (lambda: GeometricSteps(1.0, 0.0), "decay: got 0.0, expected a finite number > 0"),
            (lambda: GeometricSteps(1.0, math.nan), "decay: got nan"),
            (lambda: ExactOGA("reactive", 0), "initial: got 0.0, expected a finite number > 0"),
            (lambda: TheoreticalSteps(0), "num_slots: got 0, expected an integer >= 1"),
            (lambda: NormalizedSteps(1.5), r"num_slots: got 1\.5, expected an integer >= 1"),  # type: ignore[arg-type]
            (lambda: TheoreticalSteps(5, 0.0), "scale: got 0.0, expected a finite number > 0"),
            (lambda: NormalizedSteps(5, -1.0), "scale: got -1.0, expected a finite number > 0"),
            (lambda: ExactOGA("proactive"), "form: got 'proactive' .*expected one of 'reservation', 'reactive'"),  # type: ignore[arg-type]
        ],
    )
    def test_arguments_out_of_range(self, make: Callable[[], Any], message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            make()

    @pytest.mark.parametrize("start", [np.zeros((2, 1)), np.zeros(3), np.full((3, 1), np.nan)])
    def test_a_start_that_does_not_fit(self, start: Any) -> None:
        rewards = RewardModel(BipartiteGraph(np.ones((3, 1)), [[4.0]]), "log")
        with pytest.raises(
            InvalidConfiguration, match=r"start: got shape .* numbers finite, expected finite numbers of shape \(3, 1\)"
        ):
            simulate(MultiServerCluster(rewards, [[1, 1, 1]]), ExactOGA(start=start))
