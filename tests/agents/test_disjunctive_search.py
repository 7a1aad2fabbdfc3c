"""`search:dag` where each node may run on one executor only: job shops, and graphs with transfers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster, Executors, Job
from desim.validation import validate
from desim.workloads.dag import jobshop
from tests.agents.test_eligible_executors import FT06, SHARED

pytest.importorskip("numba")


def makespan(jobs: list[Job], executors: Executors, name: str, **options: Any) -> float:
    result = simulate(DagCluster(jobs, executors, **options), create(name))
    validate(result, jobs).raise_if_invalid()
    return float(result.metrics()["makespan"])


def random_jobs(seed: int, *, arrivals: bool = False) -> tuple[list[Job], Executors]:
    """Return jobs of random graphs with transfers, some without run time, each node on one of three executors."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number in range(3):
        size = int(rng.integers(2, 6))
        edges = [(a, b, float(rng.integers(0, 5))) for b in range(size) for a in range(b) if rng.random() < 0.5]
        where = [[f"m{rng.integers(3)}"] for _ in range(size)]
        work = rng.integers(0 if seed % 2 else 1, 9, size).astype(float)
        jobs.append(
            Job(
                number,
                work,
                edges,
                eligible=where,
                allow_disconnected=True,
                submission_time=float(number * rng.integers(6)) if arrivals else 0.0,
            )
        )
    return jobs, Executors([1.0] * 3, [np.inf, 1.0, 2.0][seed % 3], names=["m0", "m1", "m2"])


def test_the_optimum_of_ft06_is_met_within_1000_moves(tmp_path: Any) -> None:
    (tmp_path / "ft06.jsp").write_text(FT06)
    assert makespan(*jobshop.read(tmp_path / "ft06.jsp"), "search:dag:makespan:1000") == 55.0


@pytest.mark.parametrize(("name", "moves", "most"), [("la01", 1000, 666), ("la05", 1000, 593), ("orb01", 60_000, 1090)])
def test_search_is_near_the_known_optimum(name: str, moves: int, most: int) -> None:
    if not SHARED.exists():
        pytest.skip("needs the instances beside the repository")
    assert makespan(*jobshop.read(SHARED, name), f"search:dag:makespan:{moves}") <= most


@pytest.mark.parametrize("seed", range(8))
def test_search_meets_the_optimum_with_transfers_and_nodes_without_run_time(seed: int) -> None:
    pytest.importorskip("ortools")
    jobs, executors = random_jobs(seed)
    least = makespan(jobs, executors, "optimum", plan_ahead=True)
    assert makespan(jobs, executors, "search:dag:makespan:25000", plan_ahead=True) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(4))
def test_each_new_arrival_is_planned(seed: int) -> None:
    jobs, executors = random_jobs(seed, arrivals=True)
    for transfers in ("when_finished", "when_assigned"):
        found = makespan(jobs, executors, "search:dag:makespan:200", transfers=transfers)
        assert found <= 1.1 * makespan(jobs, executors, "rank-up-eft", transfers=transfers)


def test_the_same_seed_gives_the_same_schedule() -> None:
    jobs, executors = random_jobs(1)
    tables = [
        simulate(DagCluster(jobs, executors), create("search:dag:makespan:30000")).table("copies") for _ in range(2)
    ]
    assert tables[0].equals(tables[1])
