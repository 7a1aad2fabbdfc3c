"""The projection against exact rational arithmetic, all active sets, two solvers, and the properties that define it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from projection_references import (
    KINDS,
    Problem,
    best_of_all_active_sets,
    exact,
    exact_columns,
    least_distance,
    problems,
    random_problem,
    rounding,
)

from desim.agents.multiserver import projection
from desim.agents.multiserver.projection import Projection, project
from desim.problems.multiserver import BipartiteGraph

Floats = NDArray[np.float64]


def solve(problem: Problem) -> Floats:
    points, upper, capacity, weights = problem
    return project(points, upper, capacity, weights)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_equals_exact_arithmetic(kind: str, count: int) -> None:
    problem = random_problem(kind, count, 120, default_rng(count))
    error = np.abs(solve(problem) - exact_columns(problem))
    assert (error <= rounding(problem)).all()
    if kind != "scales":
        assert error.max() < 1e-10


@settings(max_examples=250, deadline=None)
@given(problem=problems())
def test_equals_exact_arithmetic_where_much_coincides(problem: Problem) -> None:
    assert (np.abs(solve(problem) - exact_columns(problem)) <= rounding(problem)).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("steep", "scales")])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_equals_the_best_of_all_active_sets(kind: str, count: int) -> None:
    problem = random_problem(kind, count, 400, default_rng(count))
    assert np.abs(solve(problem) - best_of_all_active_sets(problem)).max() < 1e-8


@pytest.mark.parametrize("kind", ["plain", "weighted", "full", "empty", "roomy", "ties"])
def test_equals_non_negative_least_squares(kind: str) -> None:
    problem = random_problem(kind, 8, 150, default_rng(8))
    points, upper, capacity, weights = problem
    expected = [least_distance(points[:, i], upper[:, i], capacity[i], weights[:, i]) for i in range(len(capacity))]
    assert np.abs(solve(problem) - np.transpose(expected)).max() < 1e-8


@pytest.mark.parametrize("kind", ["plain", "weighted", "integers", "full", "empty", "roomy", "ties"])
def test_equals_a_quadratic_program_solver(kind: str) -> None:
    cvxpy = pytest.importorskip("cvxpy", reason="cvxpy is not installed")
    problem = random_problem(kind, 6, 400, default_rng(6))
    points, upper, capacity, weights = problem
    y = cvxpy.Variable(points.shape)
    distance = cvxpy.sum_squares(cvxpy.multiply(1 / np.sqrt(weights), y - points))
    program = cvxpy.Problem(cvxpy.Minimize(distance), [y >= 0, y <= upper, cvxpy.sum(y, axis=0) <= capacity])
    program.solve(solver="OSQP", eps_abs=1e-11, eps_rel=1e-11, max_iter=100_000)
    assert program.status == "optimal"
    assert np.abs(solve(problem) - y.value).max() < 1e-8


@settings(max_examples=250, deadline=None)
@given(problem=problems())
def test_feasible_and_optimal_by_the_multiplier(problem: Problem) -> None:
    points, upper, capacity, weights = problem
    y, slack = solve(problem), rounding(problem)
    assert ((y >= 0) & (y <= upper)).all()
    assert y.sum() <= capacity + slack
    pull = (points - y) / weights
    below, above = y < upper - slack, y > slack  # by more than the multiplier's rounding
    least = max(pull[below], default=0.0)  # entries below their bound want no more at the multiplier
    most = min(pull[above], default=np.inf)  # entries above 0 want no less
    assert max(least, 0.0) <= most + slack / weights.min()
    if y.sum() < capacity - slack:
        assert np.array_equal(y, np.clip(points, 0, upper))


@settings(max_examples=200, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**32))
def test_non_expansive_and_idempotent(problem: Problem, seed: int) -> None:
    points, upper, capacity, weights = problem
    other = points + default_rng(seed).normal(0, 2, points.shape)
    first, second = project(points, upper, capacity, weights), project(other, upper, capacity, weights)
    slack = rounding((np.maximum(points, other), upper, capacity, weights)) * np.sqrt(len(points) / weights.min())

    def length(step: Floats) -> float:
        return float(np.linalg.norm(step / np.sqrt(weights)))

    assert length(first - second) <= length(points - other) * (1 + 1e-12) + slack
    again = project(first, upper, capacity, weights)
    assert np.abs(again - first).max() <= rounding(problem)


def test_weights_of_one_are_no_weights() -> None:
    points, upper, capacity, weights = random_problem("plain", 7, 500, default_rng(3))
    assert project(points, upper, capacity, weights) == pytest.approx(project(points, upper, capacity), abs=1e-12)


@pytest.mark.parametrize("factor", [2.0**-30, 0.5, 2.0**30])
def test_weights_count_in_proportion_to_each_other(factor: float) -> None:
    points, upper, capacity, weights = random_problem("steep", 7, 2_000, default_rng(3))
    expected = project(points, upper, capacity, weights)
    assert np.array_equal(project(points, upper, capacity, weights * factor), expected)


def test_feasible_points_stay_to_the_bit() -> None:
    rng = default_rng(4)
    upper = rng.uniform(0, 3, (6, 300))
    points = upper * rng.random(upper.shape)
    assert np.array_equal(project(points, upper, points.sum(axis=0) + 1e-9), points)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_do_not_depend_on_each_other_and_rows_have_no_order(kind: str) -> None:
    problem = random_problem(kind, 6, 200, default_rng(5))
    whole = solve(problem)
    points, upper, capacity, weights = problem
    rows, columns = default_rng(6).permutation(6), default_rng(7).permutation(200)
    turned = project(
        *(table[rows][:, columns] for table in (points, upper)), capacity[columns], weights[rows][:, columns]
    )
    assert (np.abs(turned - whole[rows][:, columns]) <= rounding(problem)[columns]).all()
    alone = [project(points[:, [i]], upper[:, [i]], capacity[[i]], weights[:, [i]]) for i in range(200)]
    assert (np.abs(np.hstack(alone) - whole) <= rounding(problem)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_steps_are_enough(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(kind, 30, 500, default_rng(9))
    expected = solve(problem)
    monkeypatch.setattr(projection, "MOST_STEPS", 40)
    assert np.array_equal(solve(problem), expected)


@pytest.mark.parametrize(("count", "number"), [(3, 50_000), (2_000, 80)])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_arrays_give_what_small_ones_give(count: int, number: int, weighted: bool) -> None:
    points, upper, capacity, weights = random_problem("weighted", count, number, default_rng(10))
    given_weights = [weights] if weighted else []
    pieces = [slice(start, start + number // 8) for start in range(0, number, number // 8)]
    small = [project(points[:, p], upper[:, p], capacity[p], *(w[:, p] for w in given_weights)) for p in pieces]
    assert project(points, upper, capacity, *given_weights) == pytest.approx(np.hstack(small), abs=1e-11)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 1e-4)])
def test_torch_tensors_give_what_numpy_arrays_give(precision: str, tolerance: float) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    parts = [random_problem(kind, 7, 100, default_rng(12)) for kind in KINDS if kind != "scales"]
    problem = [np.concatenate(tables, axis=-1) for tables in zip(*parts, strict=True)]
    tensors = [torch.tensor(table, dtype=getattr(torch, precision)) for table in problem]
    before = [tensor.clone() for tensor in tensors]
    for size in (4, 3):  # with weights and without
        answer = project(*tensors[:size])
        assert (type(answer), answer.dtype) == (torch.Tensor, getattr(torch, precision))
        assert np.abs(answer.numpy() - project(*problem[:size])).max() <= tolerance
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))


def test_float32_stays_float32_and_arguments_stay_as_they_are() -> None:
    problem = random_problem("plain", 5, 100, default_rng(13))
    for table in problem:
        table.flags.writeable = False
    narrow = project(*(table.astype(np.float32) for table in problem))
    assert narrow.dtype == np.float32
    assert np.abs(narrow - solve(problem)).max() < 1e-4


def test_whole_numbers_as_capacity() -> None:
    points, upper, _, _ = random_problem("plain", 4, 10, default_rng(14))
    capacity = np.array([100] * 8 + [1] * 2)
    assert project(points, upper, capacity) == pytest.approx(project(points, upper, capacity * 1.0), abs=1e-12)


def random_graph(kind: str, rng: Generator) -> tuple[BipartiteGraph, NDArray[np.bool_]]:
    """Return a graph and where its channels are; the first port and the last node of a sparse one have none."""
    num_ports, num_nodes, num_resources = (1 if kind == "one port" else int(rng.integers(2, 6))), 4, 2
    there = np.ones((num_ports, num_nodes), dtype=bool)
    if kind == "sparse":
        there = rng.random(there.shape) < 0.6
        there[0] = there[:, -1] = False
    elif kind == "no channels":
        there[:] = False
    requests = rng.uniform(0, 3, (num_ports, num_resources))
    capacity = rng.uniform(0, 6, (num_nodes, num_resources)) * (rng.random((num_nodes, num_resources)) < 0.8)
    return BipartiteGraph(requests, capacity, [tuple(ends) for ends in np.argwhere(there).tolist()]), there


def part_by_part(graph: BipartiteGraph, there: NDArray[np.bool_], points: Floats, options: dict[str, Any]) -> Floats:
    """Project y[l, r, k] in a loop over nodes and resources, each in exact arithmetic."""
    allowed = options.get("ports", np.ones(graph.num_ports, dtype=bool))
    capacity = options.get("capacity", graph.capacity)
    weights = graph.to_dense(options.get("weights", np.ones(graph.shape)))
    answer = np.zeros_like(points)
    for node, resource in product(range(graph.num_nodes), range(graph.num_resources)):
        ports = [port for port in range(graph.num_ports) if there[port, node] and allowed[port]]
        at = (ports, node, resource)
        answer[at] = exact(points[at], graph.requests[ports, resource], capacity[node, resource], weights[at])
    return answer


def random_options(names: Sequence[str], graph: BipartiteGraph, rng: Generator) -> dict[str, Any]:
    options = {
        "ports": rng.random(graph.num_ports) < 0.6,
        "capacity": graph.capacity * rng.choice([0.0, 0.5, 1.0], graph.capacity.shape),
        "weights": rng.uniform(0.1, 10, graph.shape),
    }
    return {name: options[name] for name in names}


@pytest.mark.parametrize("kind", ["sparse", "complete", "one port", "no channels"])
@pytest.mark.parametrize("names", [(), ("ports",), ("capacity",), ("weights",), ("ports", "capacity", "weights")])
def test_a_graph_is_projected_part_by_part(kind: str, names: tuple[str, ...]) -> None:
    for seed in range(12):
        rng = default_rng(seed)
        graph, there = random_graph(kind, rng)
        points, options = rng.normal(1, 2, graph.shape), random_options(names, graph, rng)
        before = points.copy()
        answer = Projection(graph)(points, **options)
        expected = part_by_part(graph, there, graph.to_dense(points), options)
        assert answer.shape == graph.shape
        assert graph.to_dense(answer) == pytest.approx(expected, abs=1e-12)
        assert np.array_equal(points, before)
        assert not np.shares_memory(answer, points)


@pytest.mark.parametrize("kind", ["sparse", "complete"])
def test_what_was_projected_before_does_not_matter(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "MOST_STEPS", 60)
    rng = default_rng(20)
    graph, there = random_graph(kind, rng)
    several = Projection(graph)
    for _ in range(150):
        scale = 10.0 ** rng.choice([-9, 0, 0, 0, 6])
        points = rng.normal(rng.choice([-5, 1, 5]), 2, graph.shape) * scale
        options = random_options(
            [("ports", "capacity", "weights")[i] for i in rng.permutation(3)[: rng.integers(4)]], graph, rng
        )
        expected = part_by_part(graph, there, graph.to_dense(points), options)
        assert graph.to_dense(several(points, **options)) == pytest.approx(expected, abs=1e-12 * (1 + scale))
        feasible = expected * 0.999
        assert np.array_equal(several(graph.from_dense(feasible), **options), graph.from_dense(feasible))


@pytest.mark.parametrize("kind", ["sparse", "complete"])
def test_ports_and_nodes_may_be_listed_in_any_order(kind: str) -> None:
    for seed in range(30):
        rng = default_rng(seed)
        graph, there = random_graph(kind, rng)
        points = rng.normal(1, 2, (*there.shape, graph.num_resources))
        ports, nodes = rng.permutation(graph.num_ports), rng.permutation(graph.num_nodes)
        channels = [tuple(ends) for ends in rng.permutation(np.argwhere(there[ports][:, nodes])).tolist()]
        turned = BipartiteGraph(graph.requests[ports], graph.capacity[nodes], channels)
        first = graph.to_dense(Projection(graph)(graph.from_dense(points)))
        second = turned.to_dense(Projection(turned)(turned.from_dense(points[ports][:, nodes])))
        assert second == pytest.approx(first[ports][:, nodes], abs=1e-12)
