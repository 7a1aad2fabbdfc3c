"""Drawings of jobs: layers, crossings, sizes, critical paths, and where nodes ran."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from batch_pictures import check_layout, find, legend
from batch_pictures import run as run_batch
from batch_pictures import some_jobs as batch_jobs
from dag_pictures import EXAMPLE, THREE, run, some_executors, some_job, some_jobs, started
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result
from desim.plotting import dag_drawing
from desim.plotting.graphs import EMPHASIS, lay_out
from desim.problems.dag import Executors, Job, to_networkx
from desim.workloads import wfformat

MONTAGE = Path(__file__).resolve().parents[2] / "../shared/data/workflows/montage-chameleon-2mass-005d-001.json"


def jobs(most: int = 25) -> st.SearchStrategy[Job]:
    return st.builds(
        lambda seed, count: some_job(count, np.random.default_rng(seed)), st.integers(0, 10**6), st.integers(1, most)
    )


@pytest.fixture(scope="module")
def duplicated() -> Result:
    return run([EXAMPLE, *some_jobs(2, seed=1)[:1]], THREE)


def edges_of(job: Job) -> list[tuple[int, int]]:
    """Return the edges in the order of ``job.parent_index``."""
    return [(parent, child) for child in range(job.num_nodes) for parent in job.parents(child).tolist()]


def places(axes) -> np.ndarray:
    return np.asarray(find(axes, "nodes").get_offsets())


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def crossings(routes: list[np.ndarray]) -> int:
    """Count the crossings of straight lines between neighbouring layers, by looking at all pairs."""
    links = {(tuple(a), tuple(b)) for route in routes for a, b in pairwise(route.tolist())}
    return sum(
        one[0][0] == other[0][0] and (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < -1e-12
        for one, other in combinations(sorted(links), 2)
    )


@settings(max_examples=15)
@given(jobs(40))
def test_layers_are_longest_paths_and_places_keep_their_distance(job):
    layout = lay_out(job.num_nodes, edges_of(job))
    layer, graph = layout.places[:, 0], to_networkx(job)
    nodes = list(graph.nodes)
    for number, generation in enumerate(nx.topological_generations(graph)):
        assert all(layer[nodes.index(name)] == number for name in generation if graph.in_degree(name))
    for node in range(job.num_nodes):
        if not len(job.parents(node)) and len(job.children(node)):
            assert layer[node] == min(layer[job.children(node)]) - 1
    for number in np.unique(layer):
        inside = np.sort(layout.places[layer == number, 1])
        assert (np.diff(inside) >= 1.0 - 1e-9).all()
    for (parent, child), route in zip(edges_of(job), layout.routes, strict=True):
        assert np.array_equal(route[0], layout.places[parent]) and np.array_equal(route[-1], layout.places[child])
        assert (np.diff(route[:, 0]) == 1.0).all()
    assert np.array_equal(lay_out(job.num_nodes, edges_of(job)).places, layout.places)


def test_few_edges_cross():
    # two ladders, given such that their edges would cross
    ladder = [(0, 5), (1, 4), (4, 7), (5, 6), (2, 6), (3, 7)]
    assert crossings(lay_out(8, ladder).routes) == 0
    assert crossings(lay_out(15, [(child, (child - 1) // 2) for child in range(1, 15)]).routes) == 0
    job = EXAMPLE
    assert (
        crossings(lay_out(10, edges_of(job)).routes) == 1
    )  # 2 -> 8, 4 -> 9: edges from 2, 4, 5, 6 to 8 and 9 need one
    rng = np.random.default_rng(0)
    for _ in range(5):
        job = some_job(30, rng)
        drawn = lay_out(job.num_nodes, edges_of(job))
        shuffled = [place.copy() for place in drawn.routes]
        for layer in range(int(drawn.places[:, 0].max()) + 1):
            levels = sorted({tuple(point) for route in drawn.routes for point in route.tolist() if point[0] == layer})
            moved = dict(zip(levels, [levels[i] for i in rng.permutation(len(levels))], strict=True))
            for route in shuffled:
                for index, point in enumerate(route.tolist()):
                    if point[0] == layer:
                        route[index] = moved[tuple(point)]
        assert crossings(drawn.routes) <= crossings(shuffled)


@settings(max_examples=15)
@given(jobs(), st.booleans())
def test_the_critical_path_is_the_longest(job, transfers):
    executors = Executors([1.0, 2.0, 4.0], 0.5, latency=0.25) if transfers else None
    nodes = job.work * (1.0 + 1 / 2 + 1 / 4) / 3 if transfers else job.work
    sizes = dict(zip(edges_of(job), job.parent_size.tolist(), strict=True))
    longest: list[float] = []
    for node in range(job.num_nodes):  # in topological order
        before = [
            longest[parent] + (0.25 + sizes[parent, node] / 0.5 if transfers else 0.0) for parent in job.parents(node)
        ]
        longest.append(nodes[node] + max(before, default=0.0))
    axes = dag_drawing(job, executors=executors)
    length = f"{max(longest):.4g} s" if transfers else f"work {max(longest):.4g}"
    assert axes.get_title("right").replace("\n", " ").endswith(f"critical path: {length}")
    areas, large = find(axes, "nodes").get_sizes(), nodes >= 0.1 * nodes.max()
    assert areas[large] / areas.max() == pytest.approx((nodes / nodes.max())[large])
    assert (areas[~large] <= 0.1 * areas.max() + 2.2**2).all() and (areas > 0).all()
    thin, thick = find(axes, "edges"), find(axes, "critical edges")
    assert len(thin.get_segments()) + len(thick.get_segments()) == job.num_edges
    at = places(axes).round(6).tolist()
    of = {(*at[parent], *at[child]): size for (parent, child), size in sizes.items()}
    order = [of[tuple(np.concatenate([line[0], line[-1]]).round(6).tolist())] for line in thin.get_segments()]
    assert np.array_equal(np.argsort(thin.get_linewidths(), kind="stable"), np.argsort(order, kind="stable"))


def test_the_published_critical_path():
    axes = dag_drawing(EXAMPLE, executors=THREE)
    assert axes.get_title("right").endswith("critical path: 108 s")  # the upward rank of the first node
    outlines = [to_hex(color) for color in find(axes, "nodes").get_edgecolor()]
    path = [name for name, color in zip(EXAMPLE.names, outlines, strict=True) if color == EMPHASIS.lower()]
    assert path == ["1", "2", "9", "10"]
    assert len(find(axes, "critical edges").get_segments()) == 3
    assert len(find(axes, "edges").get_segments()) == EXAMPLE.num_edges - 3
    assert legend(axes) == ["critical path"]
    numbers = [f"{number:.3g}" for number in (*EXAMPLE.work, *EXAMPLE.parent_size)]
    assert sorted(texts(axes)) == sorted([*EXAMPLE.names, *numbers])


def test_names_are_left_out_or_shortened_where_there_is_no_room():
    assert texts(dag_drawing(some_job(200, np.random.default_rng(0)))) == []
    names = ["a_task_with_a_long_name_ID0000012", "$b$"]
    axes = dag_drawing(Job(1, [1.0, 1.0], [(*names, 1.0)], names=names))
    axes.figure.draw_without_rendering()
    assert "$b$" in texts(axes) and all(len(text) <= 24 for text in texts(axes))


def test_colours_and_rings_tell_where_nodes_ran(duplicated):
    axes = dag_drawing(EXAMPLE, result=duplicated)
    rows = [row for row in started(duplicated) if row["job_id"] == 1]
    done = sorted((row for row in rows if row["outcome"] == "completed"), key=lambda row: -row["finish_time"])
    first = {row["node"]: row["executor"] for row in done}
    faces = [to_hex(face) for face in find(axes, "nodes").get_facecolor()]
    shades = {executor: {faces[node] for node in first if first[node] == executor} for executor in first.values()}
    assert all(len(shade) == 1 for shade in shades.values()) and len(set.union(*shades.values())) == len(shades)
    assert legend(axes) == [*(f"executor {executor}" for executor in sorted(shades)), "duplicated", "critical path"]
    nodes, rings = sorted({row["node"] for row in rows if row["duplicate"]}), find(axes, "duplicated")
    assert nodes and np.asarray(rings.get_offsets()) == pytest.approx(places(axes)[nodes])
    assert (rings.get_sizes() > find(axes, "nodes").get_sizes()[nodes]).all()
    by_id = dag_drawing(1, result=duplicated)
    assert (places(by_id) == places(axes)).all() and by_id.get_title("right") == axes.get_title("right")
    assert find(dag_drawing(EXAMPLE), "duplicated") is None


def test_a_run_that_was_cut_has_nodes_without_executor():
    result = run([EXAMPLE], THREE, until=30.0)
    axes = dag_drawing(1, result=result)
    done = {row["node"] for row in started(result) if row["outcome"] == "completed"}
    faces = [to_hex(face) for face in find(axes, "nodes").get_facecolor()]
    grey = {node for node, face in enumerate(faces) if face == "#dddddd"}
    assert grey == set(range(10)) - done and 0 < len(done) < 10 and "not finished" in legend(axes)


@pytest.mark.parametrize(
    "job",
    [
        Job(1, [3.0]),
        Job(1, [0.0, 0.0], [(0, 1, 0.0)]),
        Job(1, [1.0, 2.0], allow_disconnected=True),
        Job(1, np.ones(30), [(0, child, 1.0) for child in range(1, 30)], label="star"),
        Job(1, np.ones(40), [(node, node + 1, 1.0) for node in range(39)], label="chain"),
    ],
)
def test_odd_shapes(job):
    axes = dag_drawing(job, executors=some_executors(3))
    assert len(places(axes)) == job.num_nodes
    low, high = sorted(axes.get_ylim())
    assert ((places(axes)[:, 1] > low) & (places(axes)[:, 1] < high)).all()
    assert axes.get_title("left").rstrip("\n") == ("job 1" + (f" ({job.label})" if job.label else ""))
    check_layout(axes.figure)


@pytest.mark.skipif(not MONTAGE.exists(), reason="the workflow is not here")
def test_montage():
    axes = dag_drawing(wfformat.read(MONTAGE))
    assert len(places(axes)) == 58 and texts(axes).count("mDiffFit") == 18
    axes.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert axes.get_title("right").startswith("58 nodes, 114 edges")


def test_wrong_arguments(duplicated):
    panel = Figure(figsize=(5.0, 3.0)).subplots()
    assert dag_drawing(EXAMPLE, axes=panel) is panel and len(panel.figure.axes) == 1
    twice = run([Job(5, [1.0]), Job(5, [1.0], submission_time=9.0)], THREE)
    for wrong, result, message in (
        ("q1", None, "job: got 'q1', expected a Job or, with a result, the id of a job"),
        (1, None, "job: got 1, expected a Job or, with a result, the id of a job"),
        (99, duplicated, "job: got 99, expected an id of one job; 0 in the run have it"),
        (Job(1, [1.0]), duplicated, "job 1: names: got other node names than in the run; try job=1"),
        (5, twice, "job: got 5, expected an id of one job; 2 in the run have it"),
        (1, run_batch(batch_jobs(3, 2), 2), "problem 'batch', expected 'dag'"),
    ):
        with pytest.raises(InvalidConfiguration, match=message):
            dag_drawing(wrong, result=result)
