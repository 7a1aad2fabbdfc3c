"""Jobs, measured durations of their tasks, and executors: what makes no sense is refused by name."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.dag import create
from desim.exceptions import DesimError, InvalidConfiguration, WorkloadError
from desim.problems.dag import DagCluster, Executors, Job, TaskCluster, TaskTimes, from_networkx, to_networkx

NAN = math.nan
USUAL: dict[str, Any] = {"work": [1.0, 2.0, 3.0], "edges": [("a", "b", 1), ("b", "c", 1)], "names": "abc"}
TIMES: dict[str, Any] = {"executors": [2, 10], "fresh": [[], []], "first": [[], []], "rest": [[1.0], []]}


def graph_of(edges: list[tuple[Any, Any]], **nodes: dict[str, Any]) -> nx.DiGraph:
    graph = nx.DiGraph(edges)
    for node, attributes in nodes.items():
        graph.add_node(node, **attributes)
    return graph


WRONG_JOBS: list[tuple[dict[str, Any], str]] = [
    ({"work": [], "edges": (), "names": None}, "work is empty, expected one number per node"),
    ({"work": [[1.0], [2.0]]}, "work: got shape (2, 1), expected (any,)"),
    ({"work": [1.0, -2.0, 1.0]}, "work of b: got -2.0, expected a finite number >= 0"),
    ({"edges": [(0, 1, 1), (1, 2, 1), (2, 1, 1)]}, "the graph has the cycle b -> c -> b"),
    ({"edges": [(0, 1, 1), (1, 1, 1), (1, 2, 1)]}, "the graph has the cycle b -> b"),
    ({"edges": [("a", "b", 1)]}, "the graph has 2 connected components, expected 1: 'a', 'b'; 'c'; try allow"),
    ({"edges": [("a", "b", 1), ("b", "c", 1), ("a", "b", 2)]}, "the edge 'a' -> 'b' is given twice"),
    ({"edges": [("a", "b", -1), ("b", "c", 1)]}, "size of the edge 'a' -> 'b': got -1, expected a finite number >= 0"),
    ({"edges": [("z", "b", 1)]}, "the edge 'z' -> 'b' has an unknown parent"),
    ({"edges": [("a", ["b"], 1)]}, "the edge 'a' -> ['b'] has an unknown child"),
    ({"edges": [("a", "b")]}, "edges: got ('a', 'b'), expected a tuple (parent, child, size)"),
    ({"names": "ab"}, "node: got 2 names, expected 3"),
    ({"names": "aba"}, "node: the name 'a' is given twice"),
    ({"submission_time": -1.0}, "submission_time: got -1.0, expected seconds >= 0"),
    ({"run_times": [[1.0], [2.0]]}, "run time: got shape (2, 1), expected (3, any)"),
    ({"run_times": [[1.0], [-2.0], [3.0]]}, "run time of b: got -2.0, expected a number >= 0"),
    ({"num_tasks": [1, 0, 2]}, "number of tasks of b: got 0.0, expected an integer >= 1"),
    ({"num_tasks": [1, 1.5, 2]}, "number of tasks of b: got 1.5, expected an integer >= 1"),
    ({"task_times": []}, "task_times: got 0, expected 3, one per node"),
]
WRONG_TIMES: list[tuple[dict[str, Any], str]] = [
    ({"executors": []}, "executors: got (), expected at least one number, in ascending order"),
    ({"executors": [3, 2]}, "executors: got (3, 2), expected at least one number, in ascending order"),
    ({"rest": [[1.0]]}, "rest: got 1 lists, expected 2, one per run"),
    ({"rest": [[1.0], [-1.0]]}, "rest with 10 executors: got -1.0, expected a finite number >= 0"),
    ({"first": [[NAN], []]}, "first with 2 executors: got nan, expected a finite number"),
    ({"rest": [[], []]}, "first and rest hold no durations"),
    (
        {"fresh": [[2.0, 2.0], []], "first": [[2.0, 3.0], []]},
        "with 2 executors, fresh holds the duration 2.0 more often than first",
    ),
    ({"warm_up": -1.0}, "warm_up: got -1.0, expected a finite number >= 0"),
    ({"reference_speed": 0.0}, "reference_speed: got 0.0, expected a finite number > 0"),
]
WRONG: list[tuple[Callable[[], Any], type[DesimError], str]] = [
    *((lambda change=change: Job(7, **USUAL | change), WorkloadError, f"job 7: {text}") for change, text in WRONG_JOBS),
    *(
        (lambda change=change: TaskTimes(**TIMES | change), WorkloadError, f"task times: {text}")
        for change, text in WRONG_TIMES
    ),
    (lambda: from_networkx(nx.path_graph(3), 5), WorkloadError, "job 5: graph: got an undirected graph"),
    (lambda: from_networkx(graph_of([(0, 1)]), 5), WorkloadError, "job 5: node 0 has no attribute 'work'"),
    (
        lambda: from_networkx(graph_of([("a", "b")], a={"work": 1, "run_times": [1]}, b={"work": 1}), 5),
        WorkloadError,
        "job 5: node 'b' has no attribute 'run_times'",
    ),
    (
        lambda: Job(4, [6], run_times=[[1, 2]]).run_times_on(Executors([1] * 3)),
        WorkloadError,
        "job 4: run_times: got 2",
    ),
    (lambda: Job(1, [1]).submitted(-1), WorkloadError, "job 1: submission_time: got -1, expected"),
    (lambda: Job(**{"job_id": 1} | USUAL).sized([1.0, -2.0]), WorkloadError, "job 1: size"),
    (lambda: Executors([]), InvalidConfiguration, "speeds is empty, expected one number per executor"),
    (lambda: Executors([1.0, 0.0]), InvalidConfiguration, "speed of executor1: got 0.0, expected a finite number > 0"),
    (
        lambda: Executors([1.0, math.inf]),
        InvalidConfiguration,
        "speed of executor1: got inf, expected a finite number > 0",
    ),
    (lambda: Executors([1, 1], [1.0, 2.0]), InvalidConfiguration, "transfer_speed: got shape (2,), expected (2, 2)"),
    (
        lambda: Executors([1, 1], [[1, 1], [NAN, 1]], names="ab"),
        InvalidConfiguration,
        "transfer_speed of b to a: got nan, expected a number > 0",
    ),
    (
        lambda: Executors([1, 1], 1.0, [[0, -1.0], [0, 0]], names="ab"),
        InvalidConfiguration,
        "latency of a to b: got -1.0, expected a finite number >= 0",
    ),
    (lambda: Executors([1, 1], names="a"), InvalidConfiguration, "executor: got 1 names, expected 2"),
    (
        lambda: DagCluster([], Executors([1]), transfers="late"),
        InvalidConfiguration,
        "transfers: got 'late', expected one of 'when_finished', 'when_assigned'",
    ),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_what_makes_no_sense_is_refused_by_name(make: Callable[[], Any], error: type[DesimError], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        make()
    assert len(caught.value.args) == 1


def test_the_cycle_that_is_named_is_one() -> None:
    edges = [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 1, 0), (3, 4, 0), (0, 4, 0)]
    with pytest.raises(WorkloadError) as caught:
        Job(1, [1] * 5, edges)
    names = [int(name) for name in re.findall(r"node(\d)", str(caught.value))]
    assert names[0] == names[-1] and len(names) == 4
    assert set(pairwise(names)) <= {(parent, child) for parent, child, _ in edges}


def test_many_parts_are_not_all_named() -> None:
    with pytest.raises(
        WorkloadError, match=r"has 5 connected components, expected 1: 'node0'; 'node1'; 'node2'; \.\.\.; try allow"
    ):
        Job(1, [1] * 5)
    with pytest.raises(WorkloadError, match=r"2 connected components, .* 'node7' and 2 more; 'node10'; try allow"):
        Job(1, [1] * 11, [(node, node + 1, 0) for node in range(9)])
    assert Job(1, [1] * 5, allow_disconnected=True).num_edges == 0


def test_nothing_can_be_changed() -> None:
    values = np.ones((2, 2))
    job = Job(1, values[0], [(0, 1, 2.0)], run_times=values)
    executors = Executors(values[0], values, values)
    times = TaskTimes([2], [[]], [[]], [values[0]])
    columns = "parent_start parent_index parent_size child_start child_index child_size num_tasks"
    arrays = [job.work, job.run_times, *(getattr(job, name) for name in columns.split()), times.rest[0]]
    arrays += [executors.speeds, executors.transfer_speeds, executors.latencies, executors.seconds_per_unit]
    values[:] = 9
    assert all(np.max(array) <= 2 or array is executors.transfer_speeds for array in arrays)
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 5


# -- jobs ---------------------------------------------------------------------------------------------


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
    assert job.run_times_on(Executors([1, 9])).tolist() == [[4, 40], [1, 10], [3, 30], [2, 20]]
    assert job.parent_lists == [[], [(0, 5)], [(0, 6)], [(1, 7), (2, 8)]]
    assert job.child_lists == [[(1, 5), (2, 6)], [(3, 7)], [(3, 8)], []]
    assert (job.num_nodes, job.num_edges, repr(job)) == (4, 4, "<Job 1: 4 nodes, submitted at 0 s>")


@pytest.mark.parametrize("kind", [int, float, np.int64, np.uint8, np.float32])
def test_numbers_that_are_names_are_no_positions(kind: type[Any]) -> None:
    names = [kind(number) for number in (2, 1, 0)]
    edges = [(kind(2), kind(1), 3.0), (kind(1), kind(0), 4.0)]
    for called in (names, np.array(names)):
        job = Job(1, [10.0, 20.0, 30.0], edges, names=called)  # type: ignore[arg-type]
        assert job.work.tolist() == [10.0, 20.0, 30.0]
        assert job.parent_lists == [[], [(0, 3.0)], [(1, 4.0)]]
    text = Job(1, [10.0, 20.0, 30.0], [(0, 1, 3.0), (1, 2, 4.0)], names=np.array(["2", "1", "0"]))  # type: ignore[arg-type]
    assert text.parent_lists == job.parent_lists  # text is no number: these are positions
    rows = np.array([(2, 1, 3.0), (1, 0, 4.0)])
    assert Job(1, [10.0, 20.0, 30.0], rows, names=np.array([2, 1, 0])).parent_lists == job.parent_lists  # type: ignore[arg-type]


def test_identifiers_of_numpy_are_those_of_python() -> None:
    times = [TaskTimes([2], [[1.0]], [[1.0]], [[1.0, 2.0]])] * 2
    ends = []
    for identifier in (-3, np.int64(-3), np.int8(-3)):
        job = Job(identifier, [1.0, 2.0], [(0, 1, 0.0)], num_tasks=[3, 5], task_times=times)
        assert type(job.job_id) is int and type(job.submitted(1.0, job_id=identifier).job_id) is int
        result = simulate(TaskCluster([job], Executors([1.0, 1.0])), create("fifo-eft"), seed=4)
        ends.append(result.end_time)
    assert ends[0] == ends[1] == ends[2]


def test_other_sizes_are_those_of_a_job_made_anew() -> None:
    edges = [(3, 0, 1.0), (3, 1, 2.0), (0, 2, 3.0), (1, 2, 4.0), (3, 2, 5.0)]
    job = Job(1, [1.0, 2.0, 3.0, 4.0], edges)
    assert job.parent_lists
    assert job.child_lists
    children = np.repeat(np.arange(4), np.diff(job.parent_start)).tolist()
    sizes = [50.0, 10.0, 20.0, 30.0, 40.0]
    pairs = zip(job.parent_index.tolist(), children, sizes, strict=True)
    anew = Job(1, job.work, list(pairs), names=job.names)
    other = job.sized(sizes)
    for name in ("parent_start", "parent_index", "parent_size", "child_start", "child_index", "child_size", "work"):
        assert getattr(other, name).tolist() == getattr(anew, name).tolist()
    assert (other.parent_lists, other.child_lists) == (anew.parent_lists, anew.child_lists)
    assert job.parent_size.max() == 5.0


def test_the_same_job_submitted_at_another_time() -> None:
    job = Job(1, [6, 3], [(0, 1, 3)], label="q1")
    other = job.submitted(5, job_id=2)
    assert (other.job_id, other.submission_time, other.label, other.work is job.work) == (2, 5.0, "q1", True)
    assert (job.job_id, job.submission_time, job.submitted(1).job_id) == (1, 0.0, 1)
    assert job.run_times_on(Executors([1.0, 1.5])).tolist() == [[6, 4], [3, 2]]


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Job, list[str], list[tuple[str, str, float]]]:
    """Draw a job, with the names and the edges that it was made of, in any order."""
    count = draw(st.integers(1, 8))
    names = draw(st.lists(st.text(), min_size=count, max_size=count, unique=True))
    pairs = [(parent, child) for child in range(count) for parent in range(child)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    order = draw(st.permutations(range(count)))
    numbers = st.floats(0, 1e6)
    edges = [(names[order[parent]], names[order[child]], draw(numbers)) for parent, child in chosen]
    table = draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=count, max_size=count))
    job = Job(
        draw(st.integers(-5, 5)),
        [float(number) for number in range(count)],
        edges,
        names=names,
        run_times=draw(st.sampled_from([None, table])),
        num_tasks=draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)),
        submission_time=draw(st.floats(0, 1e6)),
        label=draw(st.text()),
        allow_disconnected=True,
    )
    return job, names, edges


@given(made=jobs())
@settings(max_examples=100)
def test_any_order_of_any_graph(made: tuple[Job, list[str], list[tuple[str, str, float]]]) -> None:
    job, names, edges = made
    assert [names[int(work)] for work in job.work] == list(job.names)
    rows = enumerate(job.parent_lists)
    listed = [(job.names[parent], job.names[child], size) for child, row in rows for parent, size in row]
    assert sorted(listed) == sorted(edges)
    check_views(job)
    ready = list(job.names)
    for place, name in enumerate(job.names):  # the earliest given of those whose parents have come
        before = set(job.names[:place])
        free = [n for n in ready if {parent for parent, child, _ in edges if child == n} <= before]
        assert name == min(free, key=names.index)
        ready.remove(name)


def check_views(job: Job) -> None:
    """Check that the lists, the arrays by child and the arrays by parent hold the same edges."""
    down = [(int(parent), child) for child in range(job.num_nodes) for parent in job.parents(child)]
    up = [(parent, int(child)) for parent in range(job.num_nodes) for child in job.children(parent)]
    by_child = dict(zip(down, job.parent_size.tolist(), strict=True))
    assert by_child == dict(zip(up, job.child_size.tolist(), strict=True))
    assert by_child == {(parent, child): size for child, row in enumerate(job.parent_lists) for parent, size in row}
    assert by_child == {(parent, child): size for parent, row in enumerate(job.child_lists) for child, size in row}
    assert all(row == sorted(row) for row in (*job.parent_lists, *job.child_lists))
    assert job.parent_start[-1] == job.child_start[-1] == job.num_edges == len(by_child)


@given(made=jobs())
@settings(max_examples=50)
def test_to_networkx_and_back(made: tuple[Job, Any, Any]) -> None:
    job = made[0]
    graph = to_networkx(job)
    other = from_networkx(graph, job.job_id, allow_disconnected=True)
    for name in ("job_id", "names", "label", "submission_time", "parent_lists", "child_lists"):
        assert getattr(other, name) == getattr(job, name)
    for name in ("work", "run_times", "num_tasks", "parent_start", "parent_index", "parent_size"):
        np.testing.assert_array_equal(getattr(other, name), getattr(job, name))
    assert nx.utils.graphs_equal(graph, to_networkx(other))


def test_what_a_graph_holds() -> None:
    job = Job(3, [1, 2], [("a", "b", 4)], names="ab", submission_time=5, label="q", num_tasks=[1, 6])
    graph = to_networkx(job)
    assert graph.graph == {"job_id": 3, "submission_time": 5.0, "label": "q"}
    assert list(graph.nodes(data=True)) == [("a", {"work": 1, "num_tasks": 1}), ("b", {"work": 2, "num_tasks": 6})]
    assert list(graph.edges(data=True)) == [("a", "b", {"size": 4})]
    assert from_networkx(graph, 9, submission_time=7, label="r").submission_time == 7


def test_nodes_may_be_called_anything_and_a_multigraph_will_do_without_parallel_edges() -> None:
    graph = nx.MultiDiGraph()
    for work, name in enumerate(((1, 2), 1, 0), 1):
        graph.add_node(name, work=work)
    graph.add_edge(1, (1, 2))
    graph.add_edge(0, 1, size=4)
    job = from_networkx(graph)
    assert (job.names, job.parent_lists) == (("0", "1", "(1, 2)"), [[], [(0, 4)], [(1, 0)]])
    graph.add_edge(0, 1, size=3.0)
    with pytest.raises(WorkloadError, match="job 5: the edge '0' -> '1' is given twice"):
        from_networkx(graph, 5)


# -- durations of tasks -------------------------------------------------------------------------------

WAVES = ("fresh", "first", "rest")
FULL = TaskTimes(
    [2, 10],
    fresh=[[5.0, 6.0], [50.0]],
    first=[[3.0, 5.0, 6.0, 3.0], [50.0, 30.0]],
    rest=[[1.0, 1.5], [10.0]],
)


def drawn(times: TaskTimes, wave: Any, num_executors: float, count: int = 400, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [times.draw(rng, wave, num_executors) for _ in range(count)]


def test_values_of_a_wave_are_equally_likely_and_runs_between_two_counts_linearly() -> None:
    times = TaskTimes([3], [[]], [[]], [[1.0, 2.0, 2.0, 4.0, 8.0]])
    counts = Counter(drawn(times, "rest", 3, 20_000))
    assert {value: round(count / 20_000, 1) for value, count in counts.items()} == {1: 0.2, 2: 0.4, 4: 0.2, 8: 0.2}
    for num_executors, above in ((3, 1 / 8), (6, 1 / 2), (9.5, 7.5 / 8)):
        found = np.mean([value == 10.0 for value in drawn(FULL, "rest", num_executors, 20_000)])
        assert found == pytest.approx(above, abs=0.015)
    assert all(type(value) is float for value in drawn(FULL, "rest", 5))


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        # fresh, first, rest of the only run -> what fresh, first and rest are drawn from; the warm-up is 0.25 s
        (([3.0], [3.0, 2.0], [1.0]), (3.0, 2.0, 1.0)),
        (([], [2.0], [1.0]), (2.25, 2.0, 1.0)),
        (([], [], [1.0]), (1.25, 1.0, 1.0)),
        (([3.0], [3.0], [1.0]), (3.0, 3.0, 1.0)),
        (([3.0], [3.0, 2.0], []), (3.0, 2.0, 2.0)),
        (([3.0], [3.0], []), (3.0, 3.0, 3.0)),
        (([], [2.0], []), (2.25, 2.0, 2.0)),
    ],
)
def test_what_stands_in_for_a_wave_without_values(lists: Any, expected: tuple[float, ...]) -> None:
    times = TaskTimes([4], *([values] for values in lists), warm_up=0.25)
    assert tuple(set(drawn(times, wave, 4, 20)) for wave in WAVES) == tuple({value} for value in expected)


def test_first_without_fresh_keeps_order_and_repetitions_and_means_count_every_task_once() -> None:
    times = TaskTimes([5], [[2.0, 3.0]], [[3.0, 1.0, 2.0, 2.0, 3.0]], [[]])
    assert times.first_warm[0].tolist() == [1.0, 2.0, 3.0]
    assert times.first[0].tolist() == [3.0, 1.0, 2.0, 2.0, 3.0]
    assert times.mean() == 11 / 5
    assert FULL.mean() == pytest.approx((17 + 80 + 2.5 + 10) / 9)
    assert repr(FULL) == "<TaskTimes: 9 durations with 2 to 10 executors>"


durations = st.lists(st.integers(0, 40).map(lambda value: value / 8), max_size=5)


@st.composite
def task_times(draw: st.DrawFn) -> TaskTimes:
    counts = sorted(draw(st.sets(st.integers(1, 30), min_size=1, max_size=4)))
    fresh = [draw(durations) for _ in counts]
    warm = [draw(durations) for _ in counts]
    first = [draw(st.permutations(new + old)) for new, old in zip(fresh, warm, strict=True)]
    rest = [draw(durations) for _ in counts]
    if not any([*first, *rest]):
        rest[0] = [1.0]
    return TaskTimes(counts, fresh, first, rest, warm_up=draw(st.sampled_from([0.0, 1.0])))


@given(task_times(), st.sampled_from(WAVES), st.integers(0, 35), st.integers(0, 99))
def test_a_draw_is_the_one_of_a_plain_reading_of_the_rules(
    times: TaskTimes, wave: Any, num_executors: int, seed: int
) -> None:
    allowed = {value for run in neighbours(times, num_executors) for value in pool(times, wave, run)}
    values = drawn(times, wave, num_executors, 8, seed)
    assert set(values) <= allowed
    for other in (times, copy.deepcopy(times), pickle.loads(pickle.dumps(times))):
        assert values == drawn(other, wave, num_executors, 8, seed)
    everything = np.concatenate([*times.first_warm, *times.fresh]).tolist()
    assert Counter(np.concatenate(times.first).tolist()) == Counter(everything)


def neighbours(times: TaskTimes, num_executors: int) -> list[int]:
    """Return the runs that may be picked."""
    counts = times.executors
    if num_executors in counts:
        return [counts.index(num_executors)]
    between = [run for run, (low, high) in enumerate(pairwise(counts)) if low < num_executors < high]
    return [between[0], between[0] + 1] if between else [0 if num_executors < counts[0] else len(counts) - 1]


def pool(times: TaskTimes, wave: str, run: int) -> list[float]:
    """Return what a wave of a run is drawn from, by the documentation's words."""
    filled = [other for other in range(len(times.executors)) if len(times.first[other]) + len(times.rest[other])]
    run = min(filled, key=lambda other: (abs(times.executors[other] - times.executors[run]), times.executors[other]))
    fresh, warm, rest = (lists[run].tolist() for lists in (times.fresh, times.first_warm, times.rest))
    if wave == "fresh":
        return fresh or [value + times.warm_up for value in warm or rest]
    return (warm or fresh or rest) if wave == "first" else (rest or warm or fresh)


# -- executors ----------------------------------------------------------------------------------------


def test_the_diagonal_is_not_looked_at_and_means_are_over_pairs_of_different_executors() -> None:
    executors = Executors([1, 2], [[NAN, 4], [8, -1]], [[NAN, 1], [2, -5]])
    assert executors.seconds_per_unit.tolist() == [[0, 0.25], [0.125, 0]]
    assert executors.latencies.tolist() == [[0, 1], [2, 0]]
    assert (executors.mean_seconds_per_unit, executors.mean_latency) == (0.1875, 1.5)
    same = Executors([1] * 7, 0.3, 0.1)
    assert (same.mean_seconds_per_unit, same.mean_latency) == (1 / 0.3, 0.1)
    assert (Executors([1], 5, 5).mean_seconds_per_unit, Executors([1], 5, 5).mean_latency) == (0, 0)
    assert repr(Executors([1, 2.5])) == "Executors(2, speeds 1 to 2.5)"


DESCRIPTIONS: list[tuple[Executors, Any, Any]] = [
    (Executors([1, 2]), None, 0.0),
    (Executors([1, 2], 5, 0.5), 5.0, 0.5),
    (Executors([3]), None, None),
    (Executors([1, 2], [[1, 4], [8, 1]], [[0, 1], [2, 0]]), [[None, 4], [8, None]], [[0, 1], [2, 0]]),
]


@pytest.mark.parametrize(("executors", "transfer_speed", "latency"), DESCRIPTIONS)
def test_descriptions_are_plain(executors: Executors, transfer_speed: Any, latency: Any) -> None:
    found = DagCluster([], executors).describe()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["transfer_speed"], found["latency"]) == (transfer_speed, latency)
    assert (found["num_executors"], found["speeds"]) == (len(executors.speeds), executors.speeds.tolist())
    assert found["executors"] == [f"executor{number}" for number in range(len(executors.speeds))]
