"""Jobs to networkx and back."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import WorkloadError
from desim.problems.dag import Job, from_networkx, to_networkx


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    count = draw(st.integers(1, 8))
    pairs = [(parent, child) for child in range(count) for parent in range(count) if parent < child]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    numbers = st.floats(0, 1e6)
    order = draw(st.permutations(range(count)))
    table = draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=count, max_size=count))
    return Job(
        draw(st.integers(-5, 5)),
        draw(st.lists(numbers, min_size=count, max_size=count)),
        [(order[parent], order[child], draw(numbers)) for parent, child in chosen],
        names=draw(st.lists(st.text(), min_size=count, max_size=count, unique=True)),
        run_times=draw(st.sampled_from([None, table])),
        num_tasks=draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)),
        submission_time=draw(st.floats(0, 1e6)),
        label=draw(st.text()),
        allow_disconnected=True,
    )


@given(job=jobs())
@settings(max_examples=150)
def test_there_and_back(job: Job) -> None:
    graph = to_networkx(job)
    other = from_networkx(graph, job.job_id, allow_disconnected=True)
    assert vars(other).keys() >= {"work", "names", "run_times", "num_tasks"}
    for name in ("job_id", "names", "label", "submission_time", "parent_lists", "child_lists"):
        assert getattr(other, name) == getattr(job, name)
    for name in ("work", "run_times", "num_tasks", "parent_start", "parent_index", "parent_size"):
        np.testing.assert_array_equal(getattr(other, name), getattr(job, name))
    assert nx.utils.graphs_equal(graph, to_networkx(other))
    assert nx.is_directed_acyclic_graph(graph)


def test_what_a_graph_holds() -> None:
    job = Job(3, [1, 2], [("a", "b", 4)], names="ab", submission_time=5, label="q", num_tasks=[1, 6])
    graph = to_networkx(job)
    assert graph.graph == {"job_id": 3, "submission_time": 5.0, "label": "q"}
    assert list(graph.nodes(data=True)) == [("a", {"work": 1, "num_tasks": 1}), ("b", {"work": 2, "num_tasks": 6})]
    assert list(graph.edges(data=True)) == [("a", "b", {"size": 4})]
    assert from_networkx(graph, 9, submission_time=7, label="r").submission_time == 7


def test_nodes_may_be_called_anything() -> None:
    graph = nx.DiGraph()
    graph.add_node((1, 2), work=1)
    graph.add_node(1, work=2)
    graph.add_node(0, work=3)
    graph.add_edge(1, (1, 2))
    graph.add_edge(0, 1, size=4)
    job = from_networkx(graph)
    assert (job.names, job.parent_lists) == (("0", "1", "(1, 2)"), [[], [(0, 4)], [(1, 0)]])


def test_a_multigraph_will_do_without_parallel_edges() -> None:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from("ab", work=1.0)
    graph.add_edge("a", "b", size=2.0)
    assert from_networkx(graph).parent_lists == [[], [(0, 2.0)]]
    graph.add_edge("a", "b", size=3.0)
    with pytest.raises(WorkloadError, match="job 5: the edge 'a' -> 'b' is given twice"):
        from_networkx(graph, 5)


def test_graphs_that_are_no_jobs() -> None:
    with pytest.raises(WorkloadError, match="job 5: the graph is not directed"):
        from_networkx(nx.path_graph(3), 5)
    with pytest.raises(WorkloadError, match="job 5: node 0 has no attribute 'work'"):
        from_networkx(nx.DiGraph([(0, 1)]), 5)
    with pytest.raises(WorkloadError, match="job 5: work has shape"):
        from_networkx(nx.DiGraph(), 5)
    graph = nx.DiGraph([("a", "b"), ("b", "a")])
    nx.set_node_attributes(graph, 1.0, "work")
    with pytest.raises(WorkloadError, match="job 5: the graph has the cycle b -> a -> b"):
        from_networkx(graph, 5)
    graph.remove_edge("b", "a")
    graph.nodes["a"]["run_times"] = [1.0]
    with pytest.raises(WorkloadError, match="job 5: node 'b' has no attribute 'run_times'"):
        from_networkx(graph, 5)
    graph.nodes["b"]["run_times"] = [1.0, 2.0]
    with pytest.raises(WorkloadError, match="job 5: run time"):
        from_networkx(graph, 5)
