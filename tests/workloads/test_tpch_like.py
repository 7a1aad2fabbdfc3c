"""Made-up TPC-H queries: figures met exactly, close to the measurements elsewhere, and drawn workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp
from tpch_documents import MEASURED, write

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag import to_networkx
from desim.problems.dag.job import Job, TaskTimes
from desim.workloads import random_dags, tpch

ALL_SIZES = (2, 5, 10, 20, 50, 80, 100)
measured = pytest.mark.skipif(not MEASURED.is_dir(), reason="needs the TPC-H measurements in the shared data")


def seconds(job: Job) -> float:
    return float(job.work.sum()) / tpch.REFERENCE_SPEED


def critical_path(job: Job) -> float:
    """Return the longest path of whole stages in seconds."""
    finish = np.zeros(job.num_nodes)
    for node in range(job.num_nodes):
        finish[node] = job.work[node] + max((finish[parent] for parent in job.parents(node)), default=0.0)
    return float(finish.max()) / tpch.REFERENCE_SPEED


def by_size(jobs: list[Job], size: int) -> list[Job]:
    return [job for job in jobs if job.label.endswith(f"-{size}g")]


@pytest.fixture(scope="module")
def made_up() -> list[Job]:
    return tpch.templates(ALL_SIZES)


@pytest.fixture(scope="module")
def original() -> list[Job]:
    if not MEASURED.is_dir():
        pytest.skip("needs the TPC-H measurements in the shared data")
    return tpch.read(MEASURED, ALL_SIZES)


# -- templates -------------------------------------------------------------------------------------


def test_published_totals_are_met(made_up: list[Job]) -> None:
    largest = by_size(made_up, 100)
    assert (sum(job.num_nodes for job in largest), sum(job.num_edges for job in largest)) == (202, 187)
    tasks = [sum(int(job.num_tasks.sum()) for job in by_size(made_up, size)) for size in ALL_SIZES]
    assert tasks == [20_065, 20_479, 21_188, 22_684, 27_157, 31_657, 34_660]
    work = [sum(map(seconds, by_size(made_up, size))) for size in ALL_SIZES]
    assert work == pytest.approx([3825.1, 5304.4, 7679.8, 11992.1, 24099.4, 36962.3, 47110.3], abs=0.6)


def test_stages_look_like_those_of_spark(made_up: list[Job]) -> None:
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for job in made_up:
        graph = to_networkx(job)
        assert [name for name in graph if not graph.out_degree(name)] == [job.names[-1]]
        assert max(dict(graph.in_degree()).values()) <= 3
        assert job.num_tasks.min() >= 1
        assert job.work.min() > 0
        # Behind a shuffle there are 200 tasks; scans read a table that grows, or has two tasks at any size.
        inner = [int(count) for node, count in enumerate(job.num_tasks) if len(job.parents(node))]
        assert inner.count(200) >= len(inner) - 4
        shapes.setdefault(job.label.split("-")[2], []).append(tuple(job.parent_index.tolist()))
    assert len(shapes) == 22
    assert all(len(set(seen)) == 1 for seen in shapes.values())


@measured
def test_each_query_has_the_measured_figures(made_up: list[Job], original: list[Job]) -> None:
    for ours, theirs in zip(made_up, original, strict=True):
        assert ours.label == theirs.label.replace("tpch", "tpch-like")
        assert (ours.num_nodes, ours.num_edges) == (theirs.num_nodes, theirs.num_edges)
        depths = [nx.dag_longest_path_length(to_networkx(job), weight=None) for job in (ours, theirs)]
        assert depths[0] == depths[1]
        assert ours.num_tasks.sum() == theirs.num_tasks.sum()
        assert seconds(ours) == pytest.approx(seconds(theirs), abs=0.06)
        # The numbers of tasks of the single stages, sorted, differ by little, too.
        different = np.abs(np.sort(ours.num_tasks) - np.sort(theirs.num_tasks))
        assert different.max() <= 4
        assert different.sum() <= 0.01 * theirs.num_tasks.sum()


@measured
def test_critical_paths_are_close_to_the_measured_ones(made_up: list[Job], original: list[Job]) -> None:
    for size in ALL_SIZES:
        ours = np.array([*map(critical_path, by_size(made_up, size))])
        theirs = np.array([*map(critical_path, by_size(original, size))])
        assert 1.0 <= round(ours.sum() / theirs.sum(), 3) <= 1.03
        off = np.abs(np.log(ours / theirs))
        assert np.median(off) <= (0.065 if size < 10 else 0.03)
        assert off.max() <= np.log(1.41 if size < 10 else 1.25)


@measured
def test_work_is_spread_over_the_stages_as_measured(made_up: list[Job], original: list[Job]) -> None:
    for size in ALL_SIZES:
        ours, theirs = (by_size(jobs, size) for jobs in (made_up, original))
        one, other = (np.concatenate([job.work for job in jobs]) for jobs in (ours, theirs))
        assert ks_2samp(one, other).statistic < 0.12
        shares = [np.mean([((job.work / job.work.sum()) ** 2).sum() for job in jobs]) for jobs in (ours, theirs)]
        assert shares[0] == pytest.approx(shares[1], rel=0.09)
        # Heavy-tailed: at 100 GB, a tenth of the stages does most of the work.
        top = [np.sort(work)[-20:].sum() / work.sum() for work in (one, other)]
        assert top[0] == pytest.approx(top[1], rel=0.08)


WAVES = {
    "fresh": ("fresh", "first_warm", "rest"),
    "first": ("first_warm", "fresh", "rest"),
    "rest": ("rest", "first_warm", "fresh"),
}


def mean(times: TaskTimes, executors: int, wave: str | None = None) -> float:
    """Return the expected duration of a task of a wave, or the mean of all tasks of a run."""
    for count in sorted(times.executors, key=lambda count: (abs(count - executors), count)):
        run = times.executors.index(count)
        if wave is None:
            lists = {"all": np.concatenate([times.first[run], times.rest[run]])}
        else:
            lists = {name: getattr(times, name)[run] for name in WAVES[wave]}
        for name, values in lists.items():
            if len(values):
                return float(values.mean()) + times.warm_up * (wave == "fresh" != name)
    raise AssertionError("no durations at all")


def test_task_durations_add_up_to_the_work() -> None:
    for job in tpch.templates([2, 100], task_times=True):
        assert job.task_times is not None
        for times, count, work in zip(job.task_times, job.num_tasks.tolist(), job.work.tolist(), strict=True):
            assert times.mean() * count * tpch.REFERENCE_SPEED == pytest.approx(work)
            assert (times.warm_up, times.reference_speed) == (1.0, tpch.REFERENCE_SPEED)
            assert times.executors == (2, 5, 10, 20, 40, 50, 60, 80, 100)
            for run, executors in enumerate(times.executors):
                assert len(times.first[run]) == min(executors, count)
                assert len(times.first[run]) + len(times.rest[run]) == count
            assert mean(times, 10, "rest") <= mean(times, 10, "first") <= mean(times, 10, "fresh")
            assert mean(times, 2) <= mean(times, 100) * (1 + 1e-12)


@measured
@pytest.mark.parametrize(("size", "tolerance"), [(2, 0.25), (100, 0.28)])
def test_task_durations_depend_on_the_executors_as_measured(size: int, tolerance: float) -> None:
    ours = tpch.templates([size], task_times=True)
    theirs = tpch.read(MEASURED, [size], task_times=True)

    def total(jobs: list[Job], executors: int, wave: str | None = None) -> float:
        pairs = [pair for job in jobs for pair in zip(job.task_times or (), job.num_tasks.tolist(), strict=True)]
        return sum(mean(times, executors, wave) * count for times, count in pairs)

    for executors in (2, 10, 20, 50, 100):
        one, other = (total(jobs, executors) for jobs in (ours, theirs))
        assert one == pytest.approx(other, rel=tolerance)
    for wave in ("first", "rest"):
        assert total(ours, 20, wave) == pytest.approx(total(theirs, 20, wave), rel=0.2)


def test_templates_can_be_chosen() -> None:
    jobs = tpch.templates([10, 2], [5, 3])
    assert [(job.job_id, job.label) for job in jobs] == [
        (0, "tpch-like-q5-10g"),
        (1, "tpch-like-q3-10g"),
        (2, "tpch-like-q5-2g"),
        (3, "tpch-like-q3-2g"),
    ]
    assert seconds(jobs[0]) == pytest.approx(433.7)
    assert jobs[0].task_times is None
    assert not jobs[0].child_size.any()


# -- drawn workloads -------------------------------------------------------------------------------


def test_queries_and_sizes_are_equally_likely() -> None:
    jobs = tpch.generate(2_640, seed=1)
    counts = np.unique([job.label for job in jobs], return_counts=True)[1]
    assert len(counts) == 132
    assert chisquare(counts).pvalue > 0.001
    assert [job.job_id for job in jobs] == list(range(2_640))
    assert {job.submission_time for job in jobs} == {0.0}


def test_edges_carry_data_according_to_the_ratio() -> None:
    jobs = tpch.generate(40, ccr=2.0, transfer_speed=5.0, seed=2)
    for job in jobs:
        assert job.parent_size.mean() / 5.0 == pytest.approx(2.0 * job.work.mean() / tpch.REFERENCE_SPEED)
    plain = tpch.generate(40, ccr=0.0, seed=2)
    assert [job.label for job in plain] == [job.label for job in jobs]
    assert not any(job.parent_size.any() for job in plain)


def test_seeds_and_beginnings() -> None:
    def content(count: int, seed: Any) -> list[Any]:
        return [(job.label, job.parent_size.tolist()) for job in tpch.generate(count, seed=seed)]

    assert content(30, 3) == content(30, 3)
    assert content(7, 3) == content(30, 3)[:7]
    assert content(30, 3) != content(30, 4)
    rng = np.random.default_rng(0)
    assert content(5, rng) != content(5, rng)
    assert content(5, np.random.default_rng(0)) == content(5, np.random.default_rng(0))


def test_measured_queries_take_the_place_of_made_up_ones(tmp_path: Path) -> None:
    jobs = tpch.generate(20, sizes=[2], queries=[1, 7], directory=write(tmp_path), task_times=True, ccr=1.0, seed=0)
    assert {job.label for job in jobs} == {"tpch-q1-2g", "tpch-q7-2g"}
    assert all(job.task_times is not None for job in jobs)
    template = tpch.read(tmp_path, [2], [1])[0]
    found = next(job for job in jobs if job.label == "tpch-q1-2g")
    assert found.work.tolist() == template.work.tolist()
    sized = random_dags.with_ccr(template, 1.0, rng=np.random.default_rng(0))
    assert found.parent_size.mean() * tpch.REFERENCE_SPEED == pytest.approx(sized.parent_size.mean())
    with pytest.raises(WorkloadError, match=r"tpch_5g.json: cannot be read"):
        tpch.generate(2, sizes=[5], directory=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_jobs": 0}, "num_jobs: got 0, expected an integer >= 1"),
        ({"sizes": [3]}, "sizes: got 3, expected some of 2, 5, 10, 20, 50, 80, 100"),
        ({"queries": []}, r"queries: got \[\], expected at least one"),
        ({"ccr": -1.0}, "ccr: got -1.0, expected"),
    ],
)
def test_arguments_out_of_range(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        tpch.generate(**({"num_jobs": 3} | change))
