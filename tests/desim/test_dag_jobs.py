"""Jobs that make no sense are refused by name, and those that do are numbered in topological order."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import WorkloadError
from desim.problems.dag import Executors, Job

NAN = math.nan
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"work": []}, "job 7: work has shape (0,), want one number for each node"),
    ({"work": [[1.0], [2.0]]}, "job 7: work has shape (2, 1), want one number for each node"),
    ({"work": ["much"]}, "job 7: work: want numbers"),
    (
        {"work": [1.0, -2.0], "edges": [(0, 1, 0)]},
        "job 7: the work of node 'node1' is -2.0, want a finite number",
    ),
    ({"edges": [(0, 1, 1), (1, 2, 1), (2, 1, 1)]}, "job 7: the graph has the cycle c -> b -> c"),
    ({"edges": [(0, 1, 1), (1, 1, 1), (1, 2, 1)]}, "job 7: the graph has the cycle b -> b"),
    (
        {"edges": [("a", "b", 1)]},
        "job 7: the graph has 2 parts that are not connected: 'a', 'b'; 'c'; allow",
    ),
    ({"edges": [("a", "b", 1), ("b", "c", 1), ("a", "b", 2)]}, "job 7: the edge 'a' -> 'b' is given twice"),
    ({"edges": [("a", "b", -1), ("b", "c", 1)]}, "job 7: the edge 'a' -> 'b' has size -1, want a number from 0 on"),
    ({"edges": [("a", "b", "big")]}, "job 7: the edge 'a' -> 'b' has size 'big'"),
    ({"edges": [("z", "b", 1)]}, "job 7: the edge 'z' -> 'b' has an unknown parent"),
    ({"edges": [("a", 3, 1)]}, "job 7: the edge 'a' -> 3 has an unknown child"),
    ({"edges": [("a", ["b"], 1)]}, "job 7: the edge 'a' -> ['b'] has an unknown child"),
    ({"edges": [("a", "b")]}, "job 7: an edge is ('a', 'b'), want a parent, a child, a size"),
    ({"names": "ab"}, "job 7: 2 node names for 3 nodes"),
    ({"names": "aba"}, "job 7: two nodes are called 'a'"),
    ({"submission_time": -1.0}, "job 7: submission_time is -1.0, want a time from 0 on"),
    ({"run_times": [[1.0], [2.0]]}, "job 7: run time has shape (2, 1), want a row for each node"),
    (
        {"run_times": [[1.0], [-2.0], [3.0]]},
        "job 7: the run time of node 'b' is -2.0, want a finite number",
    ),
    ({"num_tasks": [1, 2]}, "job 7: number of tasks has shape (2,), want a row for each node"),
    ({"num_tasks": [1, 0, 2]}, "job 7: node 'b' has 0.0 tasks, want a whole number of at least 1"),
    ({"task_times": []}, "job 7: 0 task times for 3 nodes"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_makes_no_sense_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"work": [1.0, 2.0, 3.0], "edges": [("a", "b", 1), ("b", "c", 1)], "names": "abc"}
    if "work" in settings:
        usual |= {"edges": (), "names": None}
    with pytest.raises(WorkloadError, match=re.escape(message)) as caught:
        Job(7, **usual | settings)
    assert len(caught.value.args) == 1


def test_the_cycle_that_is_named_is_one() -> None:
    edges = [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 1, 0), (3, 4, 0), (0, 4, 0)]
    with pytest.raises(WorkloadError) as caught:
        Job(1, [1] * 5, edges)
    names = re.findall(r"node(\d)", str(caught.value))
    assert names[0] == names[-1]
    pairs = {(parent, child) for parent, child, _ in edges}
    assert all((int(parent), int(child)) in pairs for parent, child in pairwise(names))
    assert len(names) == 4


def test_many_parts_are_not_all_named() -> None:
    with pytest.raises(WorkloadError, match=r"has 5 parts .*: 'node0'; 'node1'; 'node2'; \.\.\.; allow"):
        Job(1, [1] * 5)
    with pytest.raises(WorkloadError, match=r"2 parts .* 'node7' and 2 more; 'node10'; allow"):
        Job(1, [1] * 11, [(node, node + 1, 0) for node in range(9)])
    assert Job(1, [1] * 5, allow_disconnected=True).num_edges == 0


def test_nodes_are_numbered_in_topological_order_and_otherwise_as_given() -> None:
    job = Job(
        1,
        [1, 2, 3, 4],
        [("d", "a", 5), ("d", "c", 6), ("a", "b", 7), ("c", "b", 8)],
        names="abcd",
        run_times=[[1, 10], [2, 20], [3, 30], [4, 40]],
        num_tasks=[5, 6, 7, 8],
    )
    assert job.names == ("d", "a", "c", "b")
    assert job.work.tolist() == [4, 1, 3, 2]
    assert job.num_tasks.tolist() == [8, 5, 7, 6]
    assert job.run_times is not None
    assert job.run_times.tolist() == [[4, 40], [1, 10], [3, 30], [2, 20]]
    assert job.parent_lists == [[], [(0, 5)], [(0, 6)], [(1, 7), (2, 8)]]
    assert job.child_lists == [[(1, 5), (2, 6)], [(3, 7)], [(3, 8)], []]
    assert (job.num_nodes, job.num_edges, repr(job)) == (4, 4, "<Job 1: 4 nodes, submitted at 0 s>")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int, float]], list[int]]:
    """Draw work, edges from lower to higher nodes, and an order in which to give the nodes."""
    count = draw(st.integers(1, 9))
    pairs = [(parent, child) for child in range(count) for parent in range(child)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = [(parent, child, float(draw(st.integers(0, 9)))) for parent, child in chosen]
    return [float(node) for node in range(count)], edges, draw(st.permutations(range(count)))


@given(graph=graphs())
@settings(max_examples=200)
def test_any_order_of_any_graph(graph: tuple[list[float], list[tuple[int, int, float]], list[int]]) -> None:
    work, edges, order = graph
    names = [f"n{node}" for node in order]
    named = [(f"n{parent}", f"n{child}", size) for parent, child, size in edges]
    job = Job(1, [work[node] for node in order], named, names=names, allow_disconnected=True)
    assert sorted(job.names) == sorted(names)
    assert [f"n{int(work)}" for work in job.work] == list(job.names)
    listed = [
        (job.names[parent], job.names[child], size)
        for child, row in enumerate(job.parent_lists)
        for parent, size in row
    ]
    assert sorted(listed) == sorted(named)
    assert all(parent < child for child, row in enumerate(job.parent_lists) for parent, _ in row)
    check_views(job)
    ready = list(job.names)
    for place, name in enumerate(job.names):  # the earliest given of those whose parents have come
        before = set(job.names[:place])
        free = [n for n in ready if {parent for parent, child, _ in named if child == n} <= before]
        assert name == min(free, key=names.index)
        ready.remove(name)


def check_views(job: Job) -> None:
    """Check that the lists, the arrays by child and the arrays by parent hold the same edges."""
    down = [(int(parent), child) for child in range(job.num_nodes) for parent in job.parents(child)]
    up = [(parent, int(child)) for parent in range(job.num_nodes) for child in job.children(parent)]
    assert sorted(down) == sorted(up)
    by_child = dict(zip(down, job.parent_size.tolist(), strict=True))
    assert by_child == dict(zip(up, job.child_size.tolist(), strict=True))
    assert by_child == {(parent, child): size for child, row in enumerate(job.parent_lists) for parent, size in row}
    assert by_child == {(parent, child): size for parent, row in enumerate(job.child_lists) for child, size in row}
    for rows in (job.parent_lists, job.child_lists):
        assert all(row == sorted(row) for row in rows)
    assert job.parent_start[-1] == job.child_start[-1] == job.num_edges == len(down)


def test_jobs_do_not_change() -> None:
    work, run_times = np.ones(2), np.ones((2, 3))
    job = Job(1, work, [(0, 1, 2.0)], run_times=run_times)
    work[0] = run_times[0, 0] = 9
    assert (job.work.tolist(), job.run_times_on(Executors([1] * 3))[0].tolist()) == ([1, 1], [1, 1, 1])
    columns = "work run_times num_tasks parent_start parent_index parent_size child_start child_index child_size"
    for name in columns.split():
        with pytest.raises(ValueError, match="read-only"):
            getattr(job, name)[0] = 5


def test_run_times_are_work_over_speed_or_those_given() -> None:
    assert Job(1, [6, 3], [(0, 1, 0)]).run_times_on(Executors([1.0, 1.5])).tolist() == [[6, 4], [3, 2]]
    assert Job(1, [6, 3], [(0, 1, 0)], run_times=[[1, 2], [3, 4]]).run_times_on(Executors([1, 9])).tolist() == [
        [1, 2],
        [3, 4],
    ]
    with pytest.raises(WorkloadError, match="job 4 has run times for 2 executors, the cluster has 3"):
        Job(4, [6], run_times=[[1, 2]]).run_times_on(Executors([1, 1, 1]))


def test_the_same_job_submitted_at_another_time() -> None:
    job = Job(1, [1, 2], [(0, 1, 3)], label="q1")
    other = job.submitted(5, job_id=2)
    assert (other.job_id, other.submission_time, other.label, other.work is job.work) == (2, 5.0, "q1", True)
    assert (job.job_id, job.submission_time, job.submitted(1).job_id) == (1, 0.0, 1)
    with pytest.raises(WorkloadError, match="job 1: submission_time is -1, want"):
        job.submitted(-1)
