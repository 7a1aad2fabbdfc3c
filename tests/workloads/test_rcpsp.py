"""Resource-constrained projects: both formats, written and read; generated ones, against the optimum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import Optimum, create
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag import DagCluster, Executors, Job, Mode
from desim.validation import validate
from desim.workloads.dag import rcpsp, registry
from desim.workloads.dag.registry import WorkflowReport, executors_of, read_all

CORPUS = Path(__file__).parent.parent / "corpus"
POOL = Executors([1.0], capacities=[{"R1": 4.0}])


def test_both_formats_hold_the_same_project() -> None:
    (job, pool), (other, again) = (rcpsp.read(CORPUS / f"project.{suffix}") for suffix in ("sm", "rcp"))
    assert job.work.tolist() == other.work.tolist() == [0.0, 3.0, 2.0, 0.0]
    assert job.demands == other.demands
    assert job.demands is not None and job.demands[1] == {"R1": 2.0, "R2": 1.0}
    assert pool.capacities == again.capacities == [{"R1": 3.0, "R2": 1.0}]
    result = simulate(DagCluster([job], pool), create("rank-up-eft-idle"))
    assert result.metrics()["makespan"] == 5.0  # the two jobs need four units of the three of R1
    stated = executors_of(CORPUS / "project.sm")
    assert stated is not None and stated.capacities == pool.capacities


@pytest.mark.parametrize("name", ["a.sm", "a.rcp", "a.rcp.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    for seed in range(3):
        job, pool = rcpsp.generate(12, seed=seed)
        assert registry.write(tmp_path / name, job, executors=pool) == ()
        found, same = rcpsp.read(tmp_path / name)
        assert found.work.tolist() == job.work.tolist()
        assert (found.names, found.demands, found.parent_lists) == (job.names, job.demands, job.parent_lists)
        assert same.capacities == pool.capacities


def test_several_modes_are_read_written_and_scheduled(tmp_path: Path) -> None:
    """Job 2 takes 3 s with two of three R1, or 5 s with one: beside job 3, which takes two for 2 s, that is as long."""
    job, pool = rcpsp.read(CORPUS / "project.mm")
    assert job.work.tolist() == [0.0, 3.0, 2.0, 0.0]
    assert job.modes is not None and job.demands is not None
    assert job.modes[1] == (Mode(3.0, {"R1": 2.0, "R2": 1.0}), Mode(5.0, {"R1": 1.0, "R2": 0.0}))
    assert (job.modes[2], job.demands[1], job.demands[2]) == (None, None, {"R1": 2.0, "R2": 0.0})
    slow = Executors([1.0], names=["pool"], capacities=[{"R1": 3, "R2": 0}])
    for executors in (pool, slow):
        assert simulate(DagCluster([job], executors), create("rank-up-eft-idle")).metrics()["makespan"] == 5.0
    for seed in range(3):
        job = several_modes(seed)
        registry.write(tmp_path / f"{seed}.mm", job, executors=pool)
        found, same = rcpsp.read(tmp_path / f"{seed}.mm")
        assert (found.modes, found.parent_lists, same.capacities) == (job.modes, job.parent_lists, pool.capacities)
    with pytest.raises(WorkloadError, match=r"got modes, expected a file whose name ends in .mm"):
        rcpsp.write(tmp_path / "a.sm", job, pool)


def several_modes(seed: int) -> Job:
    """Return a project with up to three modes per job."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 9))
    modes = []
    for _ in range(count):
        times = np.sort(rng.integers(0, 10, int(rng.integers(1, 4)))).tolist()
        amounts = [{"R1": float(rng.integers(0, 4)), "R2": float(rng.integers(0, 2))} for _ in times]
        modes.append([Mode(float(time), amount) for time, amount in zip(times, amounts, strict=True)])
    edges = [(a, b, 0.0) for b in range(count) for a in range(b) if rng.random() < 0.4]
    several = [own if len(own) > 1 else None for own in modes]
    demands = [None if len(own) > 1 else own[0].demands for own in modes]
    work = [min(mode.run_time for mode in own) for own in modes]
    return Job(0, work, edges, modes=several, demands=demands, allow_disconnected=True)


def test_repairs_are_counted() -> None:
    report = WorkflowReport()
    assert len(read_all(CORPUS / "project.sm", report=report)) == 1
    assert sum(map(report.count, report.counts)) == 1
    with pytest.raises(InvalidConfiguration, match="default_size: applies only to workflows"):
        read_all(CORPUS / "project.sm", default_size=1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1\n4\n3 5 0\n", "line 3: R1 of job 1: got 5, expected at most 4, its capacity"),
        ("1 1\n4\n3 2 1 7\n", "line 3: got the successor 7, expected a job from 1 to 1"),
        ("1 1\n4\n3 x 0\n", "line 3: got 'x', expected an integer from 0 to 1e15"),
        ("1 1\n4\n3 2 0\n9\n", "line 4: got more numbers, expected the end after 1 jobs"),
        ("1 1\n4\n3 2 1 1\n", "the graph has the cycle 1 -> 1"),
        ("0 1\n4\n", "got no job, expected at least one"),
        ("1 1\n0\n3 0 0\n", "capacities of 'pool': got none"),
        ("999999999 1\n4\n", "got an end of the file"),
        ("", "got an end of the file, expected the numbers of jobs and resources"),
    ],
)
def test_what_is_no_project_of_patterson_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.rcp").write_text(text)
    with pytest.raises(WorkloadError, match=message):
        rcpsp.read(tmp_path / "a.rcp")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("RESOURCEAVAILABILITIES", "RESOURCES AT HAND", "got no rows of RESOURCEAVAILABILITIES"),
        ("    2     1     3     2     1\n", "    2     1     3     2\n", "line 28: got .*, expected job 2, mode 1"),
        (
            "    4     1     0     0     0\n",
            "",
            "got 3 rows of REQUESTS/DURATIONS, expected one per mode: mode 1 of job 4",
        ),
        ("    4     1     0     0     0\n", "    4     1     0     0     0\n" * 2, "line 31: got .*, expected the end"),
        (
            "    2     1     1     4\n",
            "    2     1     2     4\n",
            "line 20: got .*, expected job 2, the numbers of its modes and of its successors",
        ),
        ("    2     1     1     4\n", "    2     2     1     4\n", "line 29: got .*, expected mode 2 of job 2"),
        (
            "duration  R 1  R 2",
            "duration  R 1  N 1",
            "line 25: got non-renewable resources",
        ),
        ("    2     1     1     4\n", "    2     1     1     x\n", "line 20: got 'x'"),
    ],
)
def test_what_is_no_project_of_psplib_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (CORPUS / "project.sm").read_text()
    assert old in text
    (tmp_path / "a.sm").write_text(text.replace(old, new))
    with pytest.raises(WorkloadError, match=message):
        rcpsp.read(tmp_path / "a.sm")


def test_what_the_formats_cannot_hold_is_refused(tmp_path: Path) -> None:
    two = Executors([1.0, 1.0], capacities=[{"R1": 4.0}] * 2)
    for job, pool in (
        (Job(1, [1.5]), POOL),
        (Job(1, [1.0, 1.0], [(0, 1, 2.0)]), POOL),
        (Job(1, [1.0], demands=[{"R1": 0.5}]), POOL),
        (Job(1, [1.0]), two),
        (Job(1, [1.0]), Executors([1.0])),
    ):
        with pytest.raises(WorkloadError, match="expected"):
            rcpsp.write(tmp_path / "a.sm", job, pool)
    assert not list(tmp_path.iterdir())


def test_generated_projects_are_as_asked_for() -> None:
    job, pool = rcpsp.generate(40, resources=3, complexity=1.8, strength=0.0, seed=1)
    assert (job.num_nodes, job.num_edges) == (42, round(1.8 * 42))
    assert (len(job.children(41)), len(job.parents(0))) == (0, 0)
    assert all(len(job.parents(node)) for node in range(1, 42)) and all(len(job.children(node)) for node in range(41))
    assert job.demands is not None and pool.capacities is not None
    most = {name: max(each[name] for each in job.demands if each is not None) for name in pool.resources}
    assert pool.capacities == [most]
    job, pool = rcpsp.generate(40, strength=1.0, seed=1)  # all jobs may start as early as their predecessors allow
    metrics = simulate(DagCluster([job], pool), create("rank-up-eft-idle")).metrics()
    assert metrics["makespan"] == metrics["critical_path"]
    with pytest.raises(InvalidConfiguration, match="factor"):
        rcpsp.generate(factor=0.0)


def test_search_is_near_the_optimum_of_generated_projects() -> None:
    pytest.importorskip("ortools")
    pytest.importorskip("numba")
    gaps: dict[str, list[float]] = {"rank-up-eft-idle": [], "search:dag:makespan:1000": []}
    for seed in range(5):
        job, pool = rcpsp.generate(15, strength=0.5, seed=seed)
        agent = Optimum(time_limit=10.0)
        result = simulate(DagCluster([job], pool), agent)
        validate(result, [job]).raise_if_invalid()
        assert agent.schedules[0].status == "optimal"
        for name, found in gaps.items():
            found.append(
                simulate(DagCluster([job], pool), create(name)).metrics()["makespan"] / result.metrics()["makespan"] - 1
            )
    assert min(map(min, gaps.values())) >= -1e-9
    assert np.mean(gaps["search:dag:makespan:1000"]) <= min(0.02, np.mean(gaps["rank-up-eft-idle"]))
