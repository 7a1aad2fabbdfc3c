"""Rewards: gain, overhead and gradient against scalar loops written from the equations, and what they promise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, RewardModel, utility

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
NAMES = ("linear", "log", "reciprocal", "poly")
VALUE: dict[str, Callable[[float, float], float]] = {
    "linear": lambda y, alpha: alpha * y,
    "log": lambda y, alpha: alpha * math.log(y + 1),
    "reciprocal": lambda y, alpha: 1 / alpha - 1 / (y + alpha),
    "poly": lambda y, alpha: alpha * math.sqrt(y + 1) - alpha,
}
SLOPE: dict[str, Callable[[float, float], float]] = {
    "linear": lambda y, alpha: alpha,
    "log": lambda y, alpha: alpha / (y + 1),
    "reciprocal": lambda y, alpha: 1 / (y + alpha) ** 2,
    "poly": lambda y, alpha: alpha / (2 * math.sqrt(y + 1)),
}


class ByHand:
    """Equations (7), (8), (27) and (30), one number at a time."""

    def __init__(self, model: RewardModel) -> None:
        graph = model.graph
        self.ports, self.nodes, self.resources = (
            range(n) for n in (graph.num_ports, graph.num_nodes, graph.num_resources)
        )
        ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
        self.nodes_of = {port: [node for node in self.nodes if (port, node) in ends] for port in self.ports}
        self.names, self.alpha = model.utilities.tolist(), model.weights.tolist()
        self.beta = model.overhead.tolist()

    def held(self, y: Floats, port: int, resource: int) -> float:
        return sum(float(y[port, node, resource]) for node in self.nodes_of[port])

    def gain(self, y: Floats, port: int) -> float:
        return sum(
            VALUE[self.names[node][resource]](float(y[port, node, resource]), self.alpha[node][resource])
            for node in self.nodes_of[port]
            for resource in self.resources
        )

    def overheads(self, y: Floats, port: int) -> list[float]:
        return [self.beta[resource] * self.held(y, port, resource) for resource in self.resources]

    def dominant(self, y: Floats, port: int) -> int:
        overheads = self.overheads(y, port)
        return overheads.index(max(overheads))

    def reward(self, y: Floats, arrived: Booleans) -> float:
        return sum(self.gain(y, port) - max(self.overheads(y, port)) for port in self.ports if arrived[port])

    def gradient(self, y: Floats, arrived: Booleans) -> Floats:
        result = np.zeros_like(y)
        for port in self.ports:
            for node in self.nodes_of[port]:
                for k in self.resources:
                    slope = SLOPE[self.names[node][k]](float(y[port, node, k]), self.alpha[node][k])
                    less = self.beta[k] if k == self.dominant(y, port) else 0.0
                    result[port, node, k] = (slope - less) if arrived[port] else 0.0
        return result


def random_model(rng: Generator, names: tuple[str, ...] = NAMES) -> RewardModel:
    """Return rewards on a sparse graph whose first port has no channel."""
    num_ports, num_nodes, num_resources = (int(rng.integers(low, 6)) for low in (2, 1, 1))
    there = rng.random((num_ports, num_nodes)) < 0.7
    there[0] = False
    channels = [tuple(ends) for ends in np.argwhere(there).tolist()]
    graph = BipartiteGraph(np.ones((num_ports, num_resources)), np.ones((num_nodes, num_resources)), channels)
    shape = (num_nodes, num_resources)
    overhead = rng.uniform(0, 1, num_resources) * (rng.random(num_resources) < 0.8)
    return RewardModel(graph, rng.choice(names, shape), rng.uniform(0.5, 2, shape), overhead)


def random_allocation(model: RewardModel, rng: Generator) -> Floats:
    """Return amounts of which some are 0 and some are equal, so that resources tie."""
    shape = model.graph.shape
    return np.where(rng.random(shape) < 0.7, rng.uniform(0, 5, shape), rng.choice([0.0, 1.0], shape))


@pytest.mark.parametrize("names", [NAMES, *((name,) for name in NAMES)])
def test_everything_is_as_by_hand(names: tuple[str, ...]) -> None:
    for seed in range(40):
        rng = default_rng(seed)
        model = random_model(rng, names)
        by_hand, graph = ByHand(model), model.graph
        allocation, arrived = random_allocation(model, rng), rng.random(graph.num_ports) < 0.7
        y = graph.to_dense(allocation)
        earnings = model.evaluate(allocation, arrived)
        for port in range(graph.num_ports):
            overheads = by_hand.overheads(y, port)
            job = float(arrived[port])
            assert earnings.gain[port] == pytest.approx(job * by_hand.gain(y, port), rel=1e-12)
            assert earnings.overhead[port] == pytest.approx(job * max(overheads), rel=1e-12)
            held = [job * by_hand.held(y, port, resource) for resource in range(graph.num_resources)]
            assert earnings.held[port] == pytest.approx(held, rel=1e-12)
            for dominant in (model.dominant_resource(allocation)[port], *earnings.dominant[[port]][arrived[[port]]]):
                assert overheads[dominant] == pytest.approx(max(overheads), rel=1e-12)
        assert model.total_reward(allocation, arrived) == pytest.approx(
            by_hand.reward(y, arrived), rel=1e-12, abs=1e-12
        )
        gradient = graph.to_dense(model.gradient(allocation, arrived))
        assert gradient == pytest.approx(by_hand.gradient(y, arrived), rel=1e-12)


def test_two_jobs_on_paper() -> None:
    graph = BipartiteGraph(np.full((3, 2), 9.0), np.full((2, 2), 9.0), [(0, 0), (0, 1), (1, 1)])
    model = RewardModel(graph, [["linear", "log"], ["poly", "reciprocal"]], [[2, 1], [4, 0.5]], [0.25, 0.5])
    allocation = np.array([[1.0, 0.0], [3.0, 1.5], [8.0, 0.0]])
    earnings = model.evaluate(allocation, np.array([True, True, True]))
    # First job: 2 * 1 + 0 from the first node, 4 (2 - 1) + (2 - 1/2) from the second; overheads 0.25 * 4, 0.5 * 1.5
    assert earnings.gain == pytest.approx([7.5, 8.0, 0.0])
    assert earnings.overhead == pytest.approx([1.0, 2.0, 0.0])
    assert earnings.dominant.tolist() == [0, 0, 0]
    assert earnings.held.tolist() == [[4.0, 1.5], [8.0, 0.0], [0.0, 0.0]]
    assert model.total_reward(allocation, np.array([True, False, True])) == pytest.approx(6.5)
    expected = [[2 - 0.25, 1.0], [1 - 0.25, 0.25], [0.0, 0.0]]
    assert model.gradient(allocation, np.array([True, False, True])) == pytest.approx(np.array(expected))


def test_the_first_of_equal_overheads_is_the_dominant_one() -> None:
    graph = BipartiteGraph(np.ones((2, 3)), np.ones((2, 3)))
    model = RewardModel(graph, "linear", 1.0, [0.25, 0.5, 0.5])
    allocation = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [2.0, 1.0, 0.0], [2.0, 0.0, 1.0]])
    arrived = np.array([True, True])
    assert model.dominant_resource(allocation).tolist() == [1, 0]
    assert model.evaluate(allocation, arrived).dominant.tolist() == [1, 0]
    assert model.gradient(allocation, arrived).tolist() == [[1, 0.5, 1]] * 2 + [[0.75, 1, 1]] * 2
    assert model.dominant_resource(np.zeros(graph.shape)).tolist() == [0, 0]


def test_gradients_are_derivatives_where_no_resources_tie() -> None:
    step, tried = 1e-5, 0
    for seed in range(30):
        rng = default_rng(seed)
        model = random_model(rng)
        allocation, arrived = rng.uniform(0.5, 5, model.graph.shape), rng.random(model.graph.num_ports) < 0.8
        overheads = np.sort(model.graph.port_sums(allocation) * model.overhead, axis=1)
        if model.graph.num_resources > 1 and np.diff(overheads[1:])[:, -1].min() < 1e-3:
            continue
        gradient = model.gradient(allocation, arrived)
        for entry in np.ndindex(allocation.shape):
            change = np.zeros_like(allocation)
            change[entry] = step
            rewards = [model.total_reward(allocation + side * change, arrived) for side in (1, -1)]
            assert (rewards[0] - rewards[1]) / (2 * step) == pytest.approx(gradient[entry], abs=1e-7)
            tried += 1
    assert tried > 200


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1))
def test_rewards_are_concave_and_gradients_bound_them(seed: int, share: float) -> None:
    rng = default_rng(seed)
    model = random_model(rng)
    first, second = random_allocation(model, rng), random_allocation(model, rng)
    arrived = rng.random(model.graph.num_ports) < 0.8
    ends = [model.total_reward(allocation, arrived) for allocation in (first, second)]
    between = model.total_reward((1 - share) * first + share * second, arrived)
    assert between >= (1 - share) * ends[0] + share * ends[1] - 1e-10
    bound = ends[0] + float((model.gradient(first, arrived) * (second - first)).sum())
    assert ends[1] <= bound + 1e-10


def test_ports_without_a_job_or_without_channels_earn_nothing_and_have_no_gradient() -> None:
    rng = default_rng(1)
    model = random_model(rng)
    allocation = rng.uniform(1, 5, model.graph.shape)
    everyone = np.ones(model.graph.num_ports, dtype=bool)
    nobody = model.evaluate(allocation, ~everyone)
    assert not np.any(nobody.gain)
    assert not np.any(nobody.overhead)
    assert not np.any(nobody.held)
    assert not np.any(model.gradient(allocation, ~everyone))
    assert model.total_reward(allocation, ~everyone) == 0
    served = model.evaluate(allocation, everyone)
    assert (served.gain[0], served.overhead[0]) == (0, 0)
    assert (served.gain[model.graph.channel_port] > 0).all()
    for port in range(model.graph.num_ports):
        alone = model.evaluate(allocation, np.arange(model.graph.num_ports) == port)
        assert alone.gain.sum() == served.gain[port]


def test_a_graph_without_channels_earns_nothing() -> None:
    model = RewardModel(BipartiteGraph([[1.0]], [[1.0]], []), "log")
    empty = np.zeros((0, 1))
    assert model.total_reward(empty, np.array([True])) == 0
    assert model.gradient(empty, np.array([True])).shape == (0, 1)
    assert model.utility_gains(empty).shape == model.slope_inverse(empty, empty).shape == (0, 1)


def test_nothing_given_stays_as_it_was() -> None:
    rng = default_rng(2)
    model = random_model(rng)
    allocation, arrived = random_allocation(model, rng), np.ones(model.graph.num_ports, dtype=bool)
    allocation.flags.writeable = arrived.flags.writeable = False
    first = model.gradient(allocation, arrived)
    model.evaluate(allocation, arrived)
    assert np.array_equal(model.gradient(allocation, arrived), first)
    for table in (model.utilities, model.weights, model.overhead):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = table[0]


@pytest.mark.parametrize("names", [NAMES, *((name,) for name in NAMES)])
def test_tables_of_utilities_are_those_of_their_entries(names: tuple[str, ...]) -> None:
    rng = default_rng(3)
    model = random_model(rng, names)
    y, largest, slopes = (rng.uniform(low, 3, model.graph.shape) for low in (0, 0, -0.5))
    gains, steepness, amounts = model.utility_gains(y), model.slopes(y), model.slope_inverse(slopes, largest)
    nodes = model.graph.channel_node
    for row, k in np.ndindex(model.graph.shape):
        name, weight = model.utilities[nodes[row], k], model.weights[nodes[row], k]
        assert gains[row, k] == pytest.approx(VALUE[name](y[row, k], weight), rel=1e-12)
        assert steepness[row, k] == pytest.approx(SLOPE[name](y[row, k], weight), rel=1e-12)
        alone = utility(name).amount_at(*map(np.array, (slopes[row, k], weight, largest[row, k])))
        assert amounts[row, k] == pytest.approx(alone, rel=1e-12)
    for node, k in np.ndindex(model.utilities.shape):
        name = str(model.utilities[node, k])
        assert model.slopes_at_zero[node, k] == pytest.approx(SLOPE[name](0.0, model.weights[node, k]), rel=1e-14)


def test_one_for_all_one_a_resource_or_one_each() -> None:
    graph = BipartiteGraph(np.ones((2, 2)), np.ones((3, 2)))
    one = RewardModel(graph, "log", 2, 0.5)
    assert one.utilities.tolist() == [["log", "log"]] * 3
    assert one.weights.tolist() == [[2.0, 2.0]] * 3
    assert one.overhead.tolist() == [0.5, 0.5]
    by_resource = RewardModel(graph, ["log", "poly"], [1, 2], [0.1, 0.2])
    assert by_resource.utilities.tolist() == [["log", "poly"]] * 3
    assert by_resource.weights.tolist() == [[1.0, 2.0]] * 3
    assert by_resource.overhead.tolist() == [0.1, 0.2]
    assert RewardModel(graph, "log").overhead.tolist() == [0, 0]


def test_the_same_rewards_with_repeated_ports() -> None:
    rng = default_rng(4)
    model = random_model(rng)
    repeated = model.for_graph(model.graph.repeat_ports(3))
    allocation, arrived = random_allocation(model, rng), rng.random(model.graph.num_ports) < 0.7
    copied = repeated.graph.from_dense(np.repeat(model.graph.to_dense(allocation), 3, axis=0))
    earnings, copies = model.evaluate(allocation, arrived), repeated.evaluate(copied, np.repeat(arrived, 3))
    for one, three in zip(earnings, copies, strict=True):
        assert three == pytest.approx(np.repeat(one, 3, axis=0))
    assert model.graph.num_ports * 3 == repeated.graph.num_ports


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"utilities": "cubic"}, "utility: got 'cubic', expected one of linear, log, reciprocal, poly"),
        ({"utilities": [["log"], ["log"], ["Log"]]}, "utility: got 'Log'"),
        ({"utilities": ["log"] * 3}, "utilities: got shape (3,), expected it to broadcast to (3, 2)"),
        ({"weights": np.ones((2, 3))}, "weights: got shape (2, 3), expected it to broadcast to (3, 2)"),
        ({"overhead": np.ones((3, 2))}, "overhead: got shape (3, 2), expected it to broadcast to (2,)"),
        ({"weights": "heavy"}, "weights: expected an array of numbers"),
        ({"overhead": [[1.0], [1.0, 2.0]]}, "overhead: expected an array of numbers"),
        ({"weights": math.nan}, "weights: got nan, expected finite numbers"),
        ({"overhead": [0.5, math.inf]}, "overhead: got inf at [1], expected finite numbers"),
        ({"weights": [[1, 1], [1, 0], [1, 1]]}, "weight of y, gpu: got "),
        ({"weights": [1, -2]}, "weight of x, gpu: got "),
        ({"overhead": [0, -0.5]}, "overhead of gpu: got "),
    ],
)
def test_refused_models(arguments: dict[str, Any], message: str) -> None:
    graph = BipartiteGraph(np.ones((2, 2)), np.ones((3, 2)), nodes=["x", "y", "z"], resources=["cpu", "gpu"])
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        RewardModel(graph, **{"utilities": "log", **arguments})


def test_refusals_say_the_number_plainly() -> None:
    graph = BipartiteGraph(np.ones((2, 1)), np.ones((2, 1)))
    with pytest.raises(InvalidConfiguration, match=r"got -2\.0, expected a number above 0"):
        RewardModel(graph, "log", -2)
    with pytest.raises(InvalidConfiguration, match=r"got -0\.5, expected"):
        RewardModel(graph, "log", 1, -0.5)
