"""Random graphs and graphs of programs: counts, layers, connectedness, data sizes by CCR, and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from desim.exceptions import InvalidConfiguration
from desim.problems.dag import to_networkx
from desim.problems.dag.job import Job
from desim.workloads import random_dags

generate = random_dags.generate

parameters = st.fixed_dictionaries(
    {
        "num_nodes": st.integers(1, 70),
        "shape": st.sampled_from([0.2, 0.5, 1.0, 2.0, 5.0]),
        "out_degree": st.integers(1, 5) | st.just(70),
        "ccr": st.sampled_from([0.0, 0.1, 1.0, 10.0]),
        "mean_work": st.sampled_from([0.5, 20.0]),
        "transfer_speed": st.sampled_from([1.0, 8.0]),
        "seed": st.integers(0, 10_000),
    }
)


def layers_of(job: Job) -> list[int]:
    """Return for each node how many nodes the longest path before it has."""
    graph = to_networkx(job)
    level = dict.fromkeys(graph, 0)
    for node in nx.topological_sort(graph):
        level[node] = max((level[parent] + 1 for parent in graph.predecessors(node)), default=0)
    return [level[name] for name in job.names]


def same(one: Job, other: Job) -> bool:
    arrays = ("work", "parent_start", "parent_index", "parent_size", "num_tasks")
    runs = one.run_times is other.run_times or np.array_equal(one.run_times, other.run_times)  # type: ignore[arg-type]
    return runs and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


@settings(max_examples=100)
@given(parameters)
def test_random_graphs_are_what_they_should_be(options: dict[str, Any]) -> None:
    job = generate(**options)
    graph = to_networkx(job)
    count, degree = options["num_nodes"], options["out_degree"]
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (count, job.num_edges)
    assert nx.is_directed_acyclic_graph(graph)
    assert nx.is_weakly_connected(graph)
    assert ((job.work >= 0) & (job.work <= 2 * options["mean_work"])).all()
    level = layers_of(job)
    assert level == sorted(level)
    widths = np.bincount(level)
    depth = math.sqrt(count) / options["shape"]
    if count > 1:
        assert min(max(round(0.5 * depth), 2), count) <= len(widths) <= min(max(round(1.5 * depth), 2), count)
    for node in range(count):
        later = int(widths[level[node] + 1 :].sum())
        assert len(job.children(node)) >= min(degree, later)
        assert all(level[child] > level[node] for child in job.children(node))
    # A node has more children than asked for only where the next layer is too wide, or to connect two parts.
    more = sum(max(0, len(job.children(node)) - degree) for node in range(count))
    crowded = sum(max(0, int(below) - int(above) * degree) for above, below in pairwise(widths))
    assert crowded <= more <= crowded + widths[0] - 1
    if job.num_edges:
        transfer = job.parent_size.mean() / options["transfer_speed"]
        assert transfer == pytest.approx(options["ccr"] * job.work.mean(), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(parameters)
def test_the_same_seed_gives_the_same_graph(options: dict[str, Any]) -> None:
    assert same(generate(**options), generate(**options))


def test_each_part_of_a_graph_has_a_random_stream_of_its_own() -> None:
    one = generate(30, ccr=1.0, seed=4)
    assert not same(one, generate(30, ccr=1.0, seed=5))
    other = generate(30, ccr=3.0, mean_work=2.0, num_executors=4, seed=4)
    assert np.array_equal(one.parent_index, other.parent_index)
    assert other.work == pytest.approx(2 * one.work)
    rng = np.random.default_rng(1)
    assert not same(generate(30, seed=rng), generate(30, seed=rng))
    assert same(generate(30, seed=np.random.default_rng(1)), generate(30, seed=np.random.default_rng(1)))


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
def test_depth_and_width_follow_the_shape(shape: float) -> None:
    depths = [len(np.bincount(layers_of(generate(100, shape=shape, seed=seed)))) for seed in range(1_000, 1_080)]
    assert np.mean(depths) == pytest.approx(10 / shape, rel=0.07)
    assert min(depths) < 0.75 * 10 / shape < 1.25 * 10 / shape < max(depths)


def test_work_is_uniform() -> None:
    work = np.concatenate([generate(100, mean_work=5.0, seed=seed).work for seed in range(40)])
    assert kstest(work, "uniform", (0, 10.0)).pvalue > 0.001


@pytest.mark.parametrize("heterogeneity", [0.0, 0.5, 1.0, 2.0])
def test_run_times_on_unrelated_executors(heterogeneity: float) -> None:
    job = generate(300, heterogeneity=heterogeneity, num_executors=10, ccr=2.0, seed=1)
    assert job.run_times is not None
    assert job.run_times.shape == (300, 10)
    ratio = job.run_times / job.work[:, None]
    low, high = 1 - heterogeneity / 2, 1 + heterogeneity / 2
    assert ratio.min() >= low - 1e-9
    assert ratio.max() <= high + 1e-9
    if heterogeneity:
        assert kstest(ratio.ravel(), "uniform", (low, high - low)).pvalue > 0.001
    assert job.parent_size.mean() == pytest.approx(2.0 * job.run_times.mean())


# -- data sizes -------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(parameters, st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([1.0, 2.85]))
def test_the_ratio_is_exact(options: dict[str, Any], ccr: float, speed: float) -> None:
    job = generate(**options)
    rng = np.random.default_rng(options["seed"])
    sized = random_dags.with_ccr(job, ccr, rng=rng, reference_speed=speed, transfer_speed=4.0)
    assert np.array_equal(sized.work, job.work)
    assert np.array_equal(sized.parent_index, job.parent_index)
    if job.num_edges:
        assert sized.parent_size.mean() / 4.0 == pytest.approx(ccr * (job.work / speed).mean(), rel=1e-12)
        assert (sized.parent_size >= 0).all()


def test_sizes_are_uniform_around_their_mean() -> None:
    job = random_dags.with_ccr(random_dags.fork_join(2_000, work=3.0), 2.0, rng=np.random.default_rng(2))
    sizes = job.parent_size
    assert kstest(sizes / sizes.mean(), "uniform", (0.5, 1.0)).pvalue > 0.001


def test_work_can_be_drawn_for_any_graph() -> None:
    job = random_dags.with_random_work(random_dags.chain(2_000, size=3.0), 4.0, rng=np.random.default_rng(0))
    assert kstest(job.work, "uniform", (0, 8.0)).pvalue > 0.001
    assert set(job.parent_size) == {3.0}
    drawn = random_dags.with_random_work(
        random_dags.chain(50), 4.0, rng=np.random.default_rng(0), num_executors=3, heterogeneity=1.0
    )
    assert drawn.run_times is not None
    assert drawn.run_times.shape == (50, 3)


# -- programs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 3, 5, 10, 20])
def test_gaussian_elimination(order: int) -> None:
    job = random_dags.gaussian_elimination(order)
    assert job.num_nodes == (order**2 + order - 2) // 2
    assert job.num_edges == order**2 - order - 1
    assert order != 5 or job.num_nodes == 14  # Topcuoglu et al. 2002, section 5
    graph = to_networkx(job)
    assert nx.dag_longest_path_length(graph, weight=None, default_weight=1) + 1 == 2 * (order - 1)
    assert [name for name in graph if not graph.in_degree(name)] == ["node0"]
    # The last pivot has been touched by every pivot before it.
    pivots = np.cumsum([0, *range(order, 2, -1)])
    assert {f"node{pivot}" for pivot in pivots[:-1]} <= nx.ancestors(graph, f"node{pivots[-1]}")


@pytest.mark.parametrize("points", [2, 4, 8, 32])
def test_fft(points: int) -> None:
    job = random_dags.fft(points)
    log = points.bit_length() - 1
    assert job.num_nodes == (2 * points - 1) + points * log
    assert job.num_edges == (2 * points - 2) + 2 * points * log
    graph = to_networkx(job)
    sinks = [name for name in graph if not graph.out_degree(name)]
    assert len(sinks) == points
    leaves = {f"node{number}" for number in range(points - 1, 2 * points - 1)}
    assert all(leaves <= nx.ancestors(graph, sink) for sink in sinks)
    lengths = nx.single_source_shortest_path_length(graph, "node0")
    assert {lengths[sink] for sink in sinks} == {2 * log} == {max(layers_of(job))}


@pytest.mark.parametrize("tiles", [1, 2, 3, 5])
def test_cholesky(tiles: int) -> None:
    job = random_dags.cholesky(tiles)
    assert job.num_nodes == tiles * (tiles + 1) * (tiles + 2) // 6
    assert job.num_edges == (tiles - 1) * tiles * (tiles + 1) // 2
    assert max(layers_of(job)) + 1 == 3 * tiles - 2  # POTRF, TRSM and SYRK of each step but the last


def test_cholesky_of_two_tiles_is_a_chain() -> None:
    assert [row.tolist() for row in map(np.array, random_dags.cholesky(2).parent_lists)] == [
        [],
        [[0, 1]],
        [[1, 1]],
        [[2, 1]],
    ]


@pytest.mark.parametrize("images", [2, 3, 7])
def test_montage(images: int) -> None:
    job = random_dags.montage(images)
    assert (job.num_nodes, job.num_edges) == (4 * images + 3, 9 * images - 5)
    assert max(layers_of(job)) + 1 == 9  # the path from mProject to mJPEG
    assert [len(row) for row in job.parent_lists].count(0) == images


@pytest.mark.parametrize(("width", "stages"), [(1, 1), (4, 1), (3, 5)])
def test_fork_join(width: int, stages: int) -> None:
    job = random_dags.fork_join(width, stages=stages)
    assert (job.num_nodes, job.num_edges) == (stages * (width + 1) + 1, 2 * stages * width)
    assert np.bincount(layers_of(job)).tolist() == [1, width] * stages + [1]


@pytest.mark.parametrize(("depth", "branching"), [(1, 3), (4, 1), (4, 2), (3, 4)])
def test_trees(depth: int, branching: int) -> None:
    out, into = random_dags.out_tree(depth, branching=branching), random_dags.in_tree(depth, branching=branching)
    widths = [branching**level for level in range(depth)]
    for job in (out, into):
        assert (job.num_nodes, job.num_edges) == (sum(widths), sum(widths) - 1)
    assert np.bincount(layers_of(out)).tolist() == widths
    assert np.bincount(layers_of(into)).tolist() == widths[::-1]
    reverse = to_networkx(into).reverse()
    assert nx.is_isomorphic(reverse, to_networkx(out))


def test_chain() -> None:
    job = random_dags.chain(4, work=2.0, size=5.0, job_id=3)
    assert (job.job_id, job.work.tolist(), job.parent_index.tolist()) == (3, [2.0] * 4, [0, 1, 2])
    assert job.parent_size.tolist() == [5.0] * 3
    assert random_dags.chain(1).num_edges == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: generate(0), "num_nodes: got 0, expected an integer >= 1"),
        (lambda: generate(5, shape=0.0), "shape: got 0.0, expected a finite number > 0"),
        (lambda: generate(5, ccr=-1.0), "ccr: got -1.0, expected a finite number >= 0"),
        (
            lambda: generate(5, heterogeneity=2.5, num_executors=2),
            "heterogeneity: got 2.5, expected a finite number from 0 to 2",
        ),
        (lambda: generate(5, seed="x"), "seed: got 'x', expected an integer"),  # type: ignore[arg-type]
        (lambda: random_dags.gaussian_elimination(1), "order: got 1, expected an integer >= 2"),
        (lambda: random_dags.fft(6), "points: got 6, expected a power of two"),
        (lambda: random_dags.chain(2, work=-1.0), "work: got -1.0, expected"),
        (lambda: random_dags.fork_join(1, stages=0), "stages: got 0, expected"),
        (lambda: random_dags.in_tree(2, branching=0), "branching: got 0, expected"),
    ],
)
def test_arguments_out_of_range(make: Callable[[], Job], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make()
