"""Jobs drawn from published histograms: their figures, their shapes, their seeds, and files that are no model."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from workload_files import data, refusal

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag import to_networkx
from desim.problems.dag.job import Job
from desim.workloads.alibaba import DagModel, dags
from desim.workloads.alibaba.dag_model import generate

SMALL: dict[str, Any] = {
    "dataset": "made up",
    "job_interval": {"value": [0, 1, 4], "count": [2, 1, 1]},
    "task_num": {"value": [1, 2, 3, 5, 6], "count": [3, 2, 3, 1, 1]},
    "task_duration": {"value": [0, 1.5, 10], "count": [1, 2, 3]},
    "instance_duration": {"value": [1, 2], "count": [1, 1]},
    "instance_num": {"value": [1, 4, 9], "count": [5, 1, 0]},
    "critical_path_length_given_task_num": {
        "by_task_num": {
            "2": {"value": [1, 2], "count": [1, 3]},
            "3": {"value": [1, 2, 3], "count": [1, 4, 2]},
            "4": {"value": [1, 2, 3, 5, 6], "count": [1, 2, 2, 1, 1]},
        }
    },
    "level_given_critical_path_length": {
        "by_critical_path_length": {
            "1": {"value": [1], "count": [1]},
            "2": {"value": [1, 2], "count": [10, 15]},
            "3": {"value": [1, 2, 3, 4, 5, 6], "count": [9, 8, 7, 2, 2, 1]},
        }
    },
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> DagModel:
    path = tmp_path_factory.mktemp("model") / "small.json"
    path.write_text(json.dumps(SMALL))
    return DagModel.read(path)


@pytest.fixture(scope="module")
def published() -> DagModel:
    return DagModel.read(data("alibaba/v2018_distributions.json"))


def levels_of(job: Job) -> list[int]:
    """Return the tasks on the longest path to each task."""
    found: dict[str, int] = {}
    graph = to_networkx(job)
    for generation, nodes in enumerate(nx.topological_generations(graph), 1):
        found |= dict.fromkeys(nodes, generation)
    return [found[name] for name in job.names]


def signature(job: Job) -> tuple[Any, ...]:
    lists = job.work.tolist(), job.num_tasks.tolist()
    return job.job_id, job.submission_time, job.names, job.parent_lists, *lists


def test_published_figures(published: DagModel) -> None:
    means = {
        "job_interval": (published.job_interval, 2_524_076, 0.205),
        "num_tasks": (published.num_tasks, 2_857_851, 3.385),
        "task_duration": (published.task_duration, 9_673_063, 44.79),
        "num_instances": (published.num_instances, 9_673_063, 43.06),
        "instance_duration": (published.instance_duration, 416_476_935, 35.45),
    }
    for histogram, observations, mean in means.values():
        assert histogram.counts.sum() == observations
        assert histogram.mean == pytest.approx(mean, abs=0.006)
    assert (list(published.critical_paths), list(published.levels)) == (list(range(2, 36)), list(range(1, 21)))


def test_further_levels(small: DagModel) -> None:
    # Longest paths of 2: 3 + 4 + 2 jobs; 3 and more: 2 + 2 jobs of 3, one of 5, one of 6
    assert small.further_levels(2).counts.tolist() == [1, 6]
    assert small.further_levels(3).counts.tolist() == [3, 2, 1]
    assert small.further_levels(5).counts.tolist() == [3, 2, 1, 0, 0]
    assert small.further_levels(1).counts.tolist() == [1]
    # A model in which nothing is left for other tasks: all levels alike
    full = copy.deepcopy(small)
    object.__setattr__(full, "levels", small.levels | {2: small.critical_paths[2]})
    assert full.further_levels(2).counts.tolist() == [1, 1]


def test_every_level_is_as_likely_as_published(published: DagModel) -> None:
    """Tasks that every job must have, and others, add up to the published ones: the model loses none."""
    jobs: Counter[int] = Counter()
    for histogram in published.critical_paths.values():
        jobs.update(
            dict(zip(histogram.values.astype(int).tolist(), histogram.counts.astype(int).tolist(), strict=True))
        )
    for length in range(2, 20):
        others = published.further_levels(length).counts
        assert (others + jobs[length] == published.levels[length].counts).all()


def counted(values: list[int], categories: list[int]) -> list[int]:
    found = Counter(values)
    assert set(found) <= set(categories)
    return [found[value] for value in categories]


def agrees(values: list[int], expected: dict[int, float]) -> bool:
    """Return whether observations come from a distribution, by a chi-squared test; rare values taken together."""
    observed = counted(values, list(expected))
    total, chance = len(values), sum(expected.values())
    wanted = [total * part / chance for part in expected.values()]
    rare = [at for at, part in enumerate(wanted) if part < 5]
    common = [at for at in range(len(wanted)) if at not in rare]
    cells = [(observed[at], wanted[at]) for at in common]
    cells.append((sum(observed[at] for at in rare), sum(wanted[at] for at in rare)))
    cells = [cell for cell in cells if cell[1] > 0]
    result = stats.chisquare(*zip(*cells, strict=True))
    return bool(result.pvalue > 1e-4)


def test_marginals_are_as_published(small: DagModel) -> None:
    jobs = generate(3_000, model=small, seed=1, min_tasks=1, allow_disconnected=True)
    assert agrees([job.num_nodes for job in jobs], {1: 3, 2: 2, 3: 3, 5: 1, 6: 1})
    assert agrees([int(work * 2) for job in jobs for work in job.work], {0: 1, 3: 2, 20: 3})
    assert agrees([int(count) for job in jobs for count in job.num_tasks], {1: 5, 4: 1})
    gaps = np.diff([job.submission_time for job in jobs]).astype(int).tolist()
    assert agrees(gaps, {0: 2, 1: 1, 4: 1})
    for size, paths in {2: {1: 1, 2: 3}, 3: {1: 1, 2: 4, 3: 2}, 5: {1: 1, 2: 2, 3: 2, 5: 1}}.items():
        assert agrees([max(levels_of(job)) for job in jobs if job.num_nodes == size], dict(paths))
    others = []
    for job in jobs:
        levels = levels_of(job)
        if max(levels) == 2:
            others += [level for level, count in Counter(levels).items() for _ in range(count - 1)]
    assert agrees(others, {1: 1, 2: 6})


def test_published_model(published: DagModel, tmp_path: Path) -> None:
    jobs = generate(1_500, model=published, seed=3)
    sizes = [job.num_nodes for job in jobs]
    kept = published.num_tasks.counts[published.num_tasks.values >= 2]
    values = published.num_tasks.values[published.num_tasks.values >= 2]
    deviation = np.sqrt(np.average(values**2, weights=kept) - np.average(values, weights=kept) ** 2)
    assert abs(np.mean(sizes) - np.average(values, weights=kept)) < 4 * deviation / np.sqrt(1_500)
    assert all(nx.is_weakly_connected(to_networkx(job)) for job in jobs)
    share = sum(max(levels_of(job)) == 2 for job in jobs if job.num_nodes == 2) / sizes.count(2)
    assert share == 1  # two tasks on one level are not connected
    # The jobs are written as the trace would hold them, and read back
    start = [1 + job.submission_time for job in jobs]
    path = tmp_path / "batch_task.csv"
    path.write_text(
        "".join(
            f"{name},{int(count)},j_{job.job_id},1,Terminated,{start[job.job_id]!r},{start[job.job_id] + work!r},,\n"
            for job in jobs
            for name, count, work in zip(job.names, job.num_tasks.tolist(), job.work.tolist(), strict=True)
        )
    )
    again = list(dags.jobs(path))
    assert [(job.names, job.parent_lists, job.work.tolist(), job.num_tasks.tolist()) for job in again] == [
        (job.names, job.parent_lists, job.work.tolist(), job.num_tasks.tolist()) for job in jobs
    ]
    assert [job.submission_time for job in again] == [1 + job.submission_time for job in jobs]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), connected=st.booleans())
def test_shapes(seed: int, connected: bool, small: DagModel) -> None:
    for job in generate(12, model=small, seed=seed, allow_disconnected=not connected, min_tasks=1):
        levels = levels_of(job)
        assert levels == sorted(levels)
        assert sorted(set(levels)) == list(range(1, max(levels) + 1))
        for child, parents in enumerate(job.parent_lists):
            assert all(levels[parent] == levels[child] - 1 for parent, _ in parents)
            numbers = job.names[child][1:].split("_")
            assert numbers == [str(child + 1), *(str(parent + 1) for parent, _ in parents)]
            if not connected:
                assert len(parents) == (levels[child] > 1)
        if connected:
            assert nx.is_weakly_connected(to_networkx(job))
            assert job.num_edges == job.num_nodes - 1  # a tree: no edge is there for nothing


def test_seeds(small: DagModel) -> None:
    jobs = [signature(job) for job in generate(30, model=small, seed=4)]
    assert [signature(job) for job in generate(30, model=small, seed=4)] == jobs
    assert [signature(job) for job in generate(11, model=small, seed=4)] == jobs[:11]
    assert [signature(job) for job in generate(30, model=small, seed=5)] != jobs
    drawn = [generate(30, model=small, seed=np.random.default_rng(4)) for _ in range(2)]
    assert [*map(signature, drawn[0])] == [*map(signature, drawn[1])]
    # Each part has a stream of its own
    faster = generate(30, model=small, seed=4, reference_speed=2, mean_interval=0)
    assert [job.parent_lists for job in faster] == [job[3] for job in jobs]
    assert [job.work.tolist() for job in faster] == [[2 * work for work in job[4]] for job in jobs]
    assert {job.submission_time for job in faster} == {0}


def test_options(small: DagModel) -> None:
    jobs = generate(300, model=small, seed=2, min_tasks=3, max_tasks=5)
    assert {job.num_nodes for job in jobs} == {3, 5}
    published = np.array([job.submission_time for job in jobs])
    stretched = generate(300, model=small, seed=2, min_tasks=3, max_tasks=5, mean_interval=5)
    # The mean of the model's intervals is 5 / 4
    assert np.allclose([job.submission_time for job in stretched], published * 4)
    whole = generate(300, model=small, seed=2, work="instances", reference_speed=3)
    assert {work / count for job in whole for work, count in zip(job.work, job.num_tasks, strict=True)} == {3, 6}
    assert {max(levels_of(job)) for job in generate(200, model=small, allow_disconnected=True)} == {1, 2, 3, 5, 6}
    assert {max(levels_of(job)) for job in generate(200, model=small)} == {2, 3, 5, 6}


def test_data_on_the_edges(small: DagModel) -> None:
    options: dict[str, Any] = {"model": small, "seed": 9, "reference_speed": 2.0}
    plain = generate(50, **options)
    sized = generate(50, ccr=0.5, transfer_speed=8.0, **options)
    assert not any(job.parent_size.any() for job in plain)
    for one, other in zip(plain, sized, strict=True):
        assert (one.names, one.work.tolist(), one.job_id) == (other.names, other.work.tolist(), other.job_id)
        assert (one.submission_time, one.num_tasks.tolist()) == (other.submission_time, other.num_tasks.tolist())
        assert one.parent_index.tolist() == other.parent_index.tolist()
        assert other.parent_size.mean() / 8 == pytest.approx(0.5 * other.work.mean() / 2)
    assert len({size for job in sized for size in job.parent_size.tolist()}) > 50
    shorter = generate(20, ccr=0.5, transfer_speed=8.0, **options)
    assert [signature(job) for job in shorter] == [signature(job) for job in sized[:20]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_tasks": 4, "max_tasks": 4}, "tasks of a job: the model has no observation from 4 to 4"),
        ({"mean_interval": -2}, "mean_interval: got -2, expected a finite number >= 0"),
        ({"ccr": -1}, "ccr: got -1, expected a finite number >= 0"),
        ({"work": "x"}, "work: got 'x', expected one of 'task_duration', 'instances'"),
    ],
)
def test_options_out_of_range(small: DagModel, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        generate(**{"num_jobs": 3, "model": small} | options)
    assert str(caught.value) == message


# -- files --------------------------------------------------------------------------------------------

PATHS, LEVELS = "critical_path_length_given_task_num", "level_given_critical_path_length"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("task_num"), " task_num: got nothing, expected a JSON object"),
        (lambda d: d["task_num"]["count"].pop(), " task_num: got 5 values and 4 counts, expected equal numbers"),
        (lambda d: d["job_interval"]["value"].reverse(), " job_interval: value: expected ascending numbers"),
        (
            lambda d: d["task_num"]["value"].__setitem__(0, 0),
            " task_num: value: expected integers >= 1",
        ),
        (
            lambda d: d["task_duration"]["count"].__setitem__(1, -2),
            " task_duration: count[1]: got -2, expected a number from 0 to 1e15",
        ),
        (
            lambda d: d["instance_num"].update(count=[0, 0, 0]),
            " instance_num: count: got only zeros, expected at least one number > 0",
        ),
        (lambda d: d[PATHS]["by_task_num"].pop("3"), f" {PATHS}.by_task_num: 3 is missing"),
        (
            lambda d: d[PATHS]["by_task_num"].update({"02": {}}),
            f" {PATHS}.by_task_num: got '02', expected distinct integers as keys",
        ),
    ],
)
def test_no_model(put: Callable[..., Path], change: Callable[[dict[str, Any]], object], message: str) -> None:
    document = copy.deepcopy(SMALL)
    change(document)
    path = put(document)
    assert refusal(lambda: DagModel.read(path)) == f"{path}:{message}"


def test_damaged_files(put: Callable[..., Path]) -> None:
    rng = random.Random(6)
    pieces = ["", "0", "-1", "1e300", "null", "[]", "{}", '"', ",", "1.5", "true", '"2"', "NaN", "9" * 5_000]
    pieces += ["1", "2", "3", "4", "5", "7"] * 4
    read, refused = 0, set()
    for _ in range(400):
        text = json.dumps(SMALL)
        for _ in range(rng.randint(1, 2)):
            digits = [at for at, letter in enumerate(text) if letter.isdigit()]
            at = rng.choice([rng.choice(digits), rng.randrange(len(text))])
            text = text[:at] + rng.choice(pieces) + text[at + rng.choice([0, 1, 1, 3]) :]
        path = put(None)
        path.write_text(text)
        try:
            jobs = generate(5, model=DagModel.read(path), seed=1)
        except (WorkloadError, InvalidConfiguration) as error:
            assert isinstance(error, InvalidConfiguration) or str(error).startswith(f"{path}: ")
            refused.add(str(error))
        else:
            read += 1
            assert all(job.num_nodes >= 2 and np.isfinite(job.work).all() for job in jobs)
    assert read > 25
    assert len(refused) > 40
