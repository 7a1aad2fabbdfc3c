"""Drawings of jobs: layers, crossings, sizes, critical paths, and where nodes ran."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from batch_pictures import check_layout
from batch_pictures import run as run_batch
from batch_pictures import some_jobs as batch_jobs
from dag_pictures import COSTS, DATA, THREE, example, find, legend, run, some_executors, some_job, some_jobs, started
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result
from desim.plotting import dag_drawing
from desim.plotting._dag_canvas import CRITICAL_COLOR
from desim.plotting._dag_tables import executors_of, job_of
from desim.plotting._layers import lay_out, layers_of
from desim.plotting.dag_drawing import longest_path
from desim.problems.dag import Executors, Job, to_networkx
from desim.workloads import wfformat

MONTAGE = Path(__file__).resolve().parents[2] / "../shared/data/workflows/montage-chameleon-2mass-005d-001.json"


def jobs(most: int = 25) -> st.SearchStrategy[Job]:
    return st.builds(
        lambda seed, count: some_job(count, np.random.default_rng(seed)), st.integers(0, 10**6), st.integers(1, most)
    )


@pytest.fixture(scope="module")
def duplicated() -> Result:
    return run([example(), *some_jobs(2, seed=1)[:1]], THREE)


def edges_of(job: Job) -> list[tuple[int, int]]:
    """Return the edges in the order of ``job.parent_index``."""
    return [(parent, child) for child in range(job.num_nodes) for parent in job.parents(child).tolist()]


def places(axes) -> np.ndarray:
    return np.asarray(find(axes, "nodes").get_offsets())


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


@given(jobs())
def test_layers_are_longest_paths(job):
    layer = layers_of(job)
    graph = to_networkx(job)
    nodes = list(graph.nodes)
    for number, generation in enumerate(nx.topological_generations(graph)):
        for name in generation:
            if graph.in_degree(name):
                assert layer[nodes.index(name)] == number
    for node in range(job.num_nodes):
        if not len(job.parents(node)) and len(job.children(node)):
            assert layer[node] == min(layer[job.children(node)]) - 1


def crossings(routes: list[np.ndarray]) -> int:
    """Count the crossings of straight lines between neighbouring layers, by looking at all pairs."""
    links = {(tuple(a), tuple(b)) for route in routes for a, b in pairwise(route.tolist())}
    return sum(
        one[0][0] == other[0][0] and (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < -1e-12
        for one, other in combinations(sorted(links), 2)
    )


@settings(max_examples=50, deadline=None)
@given(jobs(40))
def test_places_keep_their_distance_and_routes_lead_along_edges(job):
    layout = lay_out(job)
    assert np.array_equal(layout.places[:, 0], layers_of(job))
    for layer in np.unique(layout.places[:, 0]):
        inside = np.sort(layout.places[layout.places[:, 0] == layer, 1])
        assert (np.diff(inside) >= 1.0 - 1e-9).all()
    assert len(layout.routes) == job.num_edges
    for (parent, child), route in zip(edges_of(job), layout.routes, strict=True):
        assert np.array_equal(route[0], layout.places[parent]) and np.array_equal(route[-1], layout.places[child])
        assert (np.diff(route[:, 0]) == 1.0).all()
    again = lay_out(job)
    assert np.array_equal(again.places, layout.places)


def test_few_edges_cross():
    # two ladders, given such that their edges would cross
    ladder = Job(
        1,
        np.ones(8),
        [(0, 5, 1.0), (1, 4, 1.0), (4, 7, 1.0), (5, 6, 1.0), (2, 6, 1.0), (3, 7, 1.0)],
        allow_disconnected=True,
    )
    assert crossings(lay_out(ladder).routes) == 0
    tree = Job(1, np.ones(15), [(child, (child - 1) // 2, 1.0) for child in range(1, 15)])
    assert crossings(lay_out(tree).routes) == 0
    layout = lay_out(example())
    assert crossings(layout.routes) == 1  # 2 -> 8 and 4 -> 9: the edges from 2, 4, 5, 6 to 8 and 9 need one
    rng = np.random.default_rng(0)
    for _ in range(5):
        job = some_job(30, rng)
        drawn = lay_out(job)
        shuffled = [place.copy() for place in drawn.routes]
        for layer in range(int(drawn.places[:, 0].max()) + 1):
            levels = sorted({tuple(point) for route in drawn.routes for point in route.tolist() if point[0] == layer})
            moved = dict(zip(levels, [levels[i] for i in rng.permutation(len(levels))], strict=True))
            for route in shuffled:
                for index, point in enumerate(route.tolist()):
                    if point[0] == layer:
                        route[index] = moved[tuple(point)]
        assert crossings(drawn.routes) <= crossings(shuffled)


@settings(max_examples=60, deadline=None)
@given(jobs(), st.booleans())
def test_the_critical_path_is_the_longest(job, transfers):
    executors = Executors([1.0, 2.0, 4.0], 0.5, latency=0.25)
    nodes = job.work * (1.0 + 1 / 2 + 1 / 4) / 3
    edges = np.array([0.25 + size / 0.5 if transfers else 0.0 for size in job.parent_size])
    path = longest_path(job, nodes, edges)
    weight = dict(zip(edges_of(job), edges.tolist(), strict=True))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(job.num_nodes))
    for parent, child in edges_of(job):
        graph.add_edge(parent, child, length=weight[parent, child] + nodes[child])
    for node in range(job.num_nodes):  # from a common beginning, whose edges carry the first node
        graph.add_edge(-1, node, length=nodes[node])
    length = nodes[path].sum() + sum(weight[pair] for pair in pairwise(path))
    assert length == pytest.approx(nx.dag_longest_path_length(graph, weight="length"))
    if transfers:
        title = dag_drawing(job, executors=executors).get_title("right").replace("\n", " ")
        assert title.endswith(f"critical path: {length:.4g} s")


def test_the_published_critical_path():
    axes = dag_drawing(example(), executors=THREE)
    assert axes.get_title("right").endswith("critical path: 108 s")  # the upward rank of the first node
    outlines = [to_hex(color) for color in find(axes, "nodes").get_edgecolor()]
    names = list(COSTS)
    assert [name for name, color in zip(names, outlines, strict=True) if color == CRITICAL_COLOR.lower()] == [
        "1",
        "2",
        "9",
        "10",
    ]
    assert len(find(axes, "critical edges").get_segments()) == 3
    assert len(find(axes, "edges").get_segments()) == len(DATA) - 3
    assert legend(axes) == ["critical path"]
    assert dag_drawing(example()).get_title("right").endswith(f"critical path: work {(39 + 50 + 50 + 44) / 3:.4g}")


@settings(max_examples=20, deadline=None)
@given(jobs())
def test_areas_and_widths_are_in_proportion(job):
    axes = dag_drawing(job)
    areas = find(axes, "nodes").get_sizes()
    shares = job.work / job.work.max()
    large = shares >= 0.1
    assert areas[large] / areas.max() == pytest.approx(shares[large])
    assert (areas[~large] <= 0.1 * areas.max() + 2.2**2).all() and (areas > 0).all()
    widths = find(axes, "edges").get_linewidths()
    on_path = set(pairwise(longest_path(job, job.work, np.zeros(job.num_edges))))
    sizes = [size for pair, size in zip(edges_of(job), job.parent_size.tolist(), strict=True) if pair not in on_path]
    assert np.array_equal(np.argsort(widths, kind="stable"), np.argsort(sizes, kind="stable"))


def test_names_and_numbers():
    found = texts(dag_drawing(example(), executors=THREE))
    assert set(COSTS) <= set(found)
    assert {f"{sum(costs) / 3:.3g}" for costs in COSTS.values()} <= set(found)
    assert sorted(found) == sorted(
        [*COSTS, *(f"{sum(costs) / 3:.3g}" for costs in COSTS.values()), *(f"{size:.3g}" for size in DATA.values())]
    )
    assert texts(dag_drawing(some_job(200, np.random.default_rng(0)))) == []
    long = Job(
        1,
        [1.0, 1.0],
        [("a_task_with_a_long_name_ID0000012", "$b$", 1.0)],
        names=["a_task_with_a_long_name_ID0000012", "$b$"],
    )
    axes = dag_drawing(long)
    axes.figure.draw_without_rendering()
    assert "$b$" in texts(axes) and all(len(text) <= 24 for text in texts(axes))


def test_colours_are_the_executors_that_finished_first(duplicated):
    job = example()
    axes = dag_drawing(job, result=duplicated)
    rows = [row for row in started(duplicated) if row["job_id"] == 1 and row["outcome"] == "completed"]
    first = {row["node"]: row["executor"] for row in sorted(rows, key=lambda row: row["finish_time"], reverse=True)}
    faces = [to_hex(face) for face in find(axes, "nodes").get_facecolor()]
    color_of = dict(zip([f"executor {k}" for k in sorted(set(first.values()))], [None] * 3, strict=False))
    for node, executor in first.items():
        name = f"executor {executor}"
        color_of[name] = color_of[name] or faces[node]
        assert faces[node] == color_of[name]
    assert len(set(color_of.values())) == len(color_of)
    assert legend(axes)[: len(color_of)] == list(color_of)


def test_duplicated_nodes_have_a_second_ring(duplicated):
    axes = dag_drawing(1, result=duplicated)
    nodes = sorted({row["node"] for row in started(duplicated) if row["job_id"] == 1 and row["duplicate"]})
    rings = find(axes, "duplicated")
    assert nodes and np.asarray(rings.get_offsets()) == pytest.approx(places(axes)[nodes])
    assert (rings.get_sizes() > find(axes, "nodes").get_sizes()[nodes]).all()
    assert "duplicated" in legend(axes) and find(dag_drawing(example()), "duplicated") is None


def test_a_run_that_was_cut_has_nodes_without_executor():
    result = run([example()], THREE, until=30.0)
    axes = dag_drawing(1, result=result)
    assert "not finished" in legend(axes)
    done = {row["node"] for row in started(result) if row["outcome"] == "completed"}
    faces = [to_hex(face) for face in find(axes, "nodes").get_facecolor()]
    grey = {node for node, face in enumerate(faces) if face == "#dddddd"}
    assert grey == set(range(10)) - done and 0 < len(done) < 10


def test_many_executors_are_a_scale():
    job = Job(1, np.ones(40), [(0, child, 0.01) for child in range(1, 40)])
    result = run([job], Executors(np.ones(30), 1.0))
    axes = dag_drawing(job, result=result)
    assert [panel.get_ylabel() for panel in axes.figure.axes] == ["", "executor"]
    assert not any(entry.startswith("executor") for entry in legend(axes))
    ticks = axes.figure.axes[1].get_yticks()
    assert np.array_equal(ticks, np.round(ticks))


def test_jobs_and_executors_are_read_back(duplicated):
    job, known = example(), job_of(duplicated, 1)
    for name in ("names", "submission_time", "label"):
        assert getattr(known, name) == getattr(job, name)
    for name in ("work", "parent_start", "parent_index", "parent_size", "run_times"):
        assert np.array_equal(getattr(known, name), getattr(job, name))
    rng = np.random.default_rng(0)
    executors = Executors([1.0, 2.0, 3.0], rng.random((3, 3)) + 0.1, rng.random((3, 3)), names="abc")
    found = executors_of(run([Job(1, [1.0])], executors))
    assert found.names == executors.names and np.array_equal(found.speeds, executors.speeds)
    assert np.array_equal(found.transfer_speeds, executors.transfer_speeds)
    assert np.array_equal(found.latencies, executors.latencies)
    by_id, given_job = dag_drawing(1, result=duplicated), dag_drawing(job, result=duplicated)
    assert by_id.get_title("right") == given_job.get_title("right")


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
    FigureCanvasAgg(axes.figure).draw()
    assert len(places(axes)) == job.num_nodes
    low, high = sorted(axes.get_ylim())
    assert ((places(axes)[:, 1] > low) & (places(axes)[:, 1] < high)).all()
    assert axes.get_title("left") == ("job 1" + (f" ({job.label})" if job.label else ""))
    check_layout(axes.figure)


@pytest.mark.skipif(not MONTAGE.exists(), reason="the workflow is not here")
def test_montage():
    axes = dag_drawing(wfformat.read(MONTAGE))
    assert len(places(axes)) == 58 and texts(axes).count("mDiffFit") == 18
    axes.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert axes.get_title("right").startswith("58 nodes, 114 edges")


def test_own_axes_are_used():
    panel = Figure(figsize=(5.0, 3.0)).subplots()
    assert dag_drawing(example(), axes=panel) is panel
    assert len(panel.figure.axes) == 1


def test_wrong_arguments(duplicated):
    with pytest.raises(InvalidConfiguration, match="job is 'q1', want a Job"):
        dag_drawing("q1")
    with pytest.raises(InvalidConfiguration, match="job is 1, want a Job, or with a result the id of a job"):
        dag_drawing(1)
    with pytest.raises(InvalidConfiguration, match="job is 99, and the run has no jobs of that id"):
        dag_drawing(99, result=duplicated)
    with pytest.raises(InvalidConfiguration, match="job 99 is not in the run"):
        dag_drawing(Job(99, [1.0]), result=duplicated)
    with pytest.raises(InvalidConfiguration, match="job 1 is not the one in the run"):
        dag_drawing(Job(1, [1.0]), result=duplicated)
    twice = run([Job(5, [1.0]), Job(5, [1.0], submission_time=9.0)], THREE)
    with pytest.raises(InvalidConfiguration, match="job is 5, and the run has 2 jobs of that id"):
        dag_drawing(5, result=twice)
    with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'dag'"):
        dag_drawing(1, result=run_batch(batch_jobs(3, 2), 2))
