"""Amounts that are not whole: up to the limit, which lies a little above the capacity, all is well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deferrable_agents import FirstFit, Scripted

from desim import Result, simulate
from desim.exceptions import InfeasibleAction
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job

LIMIT = 1 + 1e-9  # of a capacity of 1


def run(jobs: list[Job], capacity: Any, *answers: Any, **options: Any) -> Result:
    return simulate(DeferrableCluster(jobs, capacity, **options), Scripted(*answers))


def test_free_and_limit() -> None:
    seen: list[Any] = []

    def look(observation: DeferrableObservation) -> list[int]:
        seen.append((observation.free.tolist(), (observation.limit - observation.capacity).tolist()))
        return [0] if len(observation.current) else []

    run([Job(1, 0, 0, 0, 3, 4)], [5, 1e6, 0.5], look, look, look)
    assert seen == [([1.0 * free], [pytest.approx(room)]) for free, room in ((5, 5e-9), (1e6 - 4, 1e-3), (-3.5, 1e-9))]


def test_rounding_is_no_violation() -> None:
    jobs = [Job(number, 0, 0, 0, 1, 0.1) for number in range(3)]
    assert np.sum([0.1] * 3) > 0.3
    for overcommit in (True, False):
        result = run(jobs, [0.3], [0, 1, 2], overcommit=overcommit)
        assert result.table("slots")["violation_cores"].to_list() == [0]
    result = run(jobs, [0.3 - 1e-6], [0, 1, 2])
    assert result.table("slots")["violation_cores"].to_list() == [pytest.approx(1e-6)]
    assert simulate(DeferrableCluster(jobs, [0.3], eviction="lost"), FirstFit()).table("slots")["started"][0] == 3


def test_rounding_evicts_nobody() -> None:
    jobs = [Job(number, 0, 0, 0, 2, 0.1) for number in range(3)]
    assert run(jobs, [0.3], [0, 1, 2], eviction="lost").table("evictions").height == 0
    assert run(jobs, [0.3, 0.3 - 1e-6], [0, 1, 2], eviction="lost").table("evictions").height == 1


def test_the_limit_itself_is_kept() -> None:
    result = run([Job(1, 0, 0, 0, 2, LIMIT)], [1], [0], overcommit=False, eviction="lost")
    assert result.table("slots")["violation_cores"].to_list() == [0, 0]
    assert result.jobs["status"].to_list() == ["completed"]
    beyond = [Job(1, 0, 0, 0, 2, float(np.nextafter(LIMIT, 2)))]
    assert run(beyond, [1], [0]).table("slots")["violation_cores"].to_list() == [pytest.approx(1e-9)] * 2
    assert run(beyond, [1], [0], eviction="lost").jobs["status"].to_list() == ["evicted"]
    with pytest.raises(InfeasibleAction, match=r"job 1 requests 1\.000000001 cores and 1 cores are free"):
        run(beyond, [1], [0], overcommit=False)


def test_who_holds_only_what_is_exactly_used_up_stays() -> None:
    jobs = [Job(1, 0, 0, 0, 2, 0.5, (2,)), Job(2, 0, 0, 0, 2, LIMIT - 0.5, (0,))]
    result = run(jobs, [(1, 2), (1, 1)], [0, 1], eviction="lost", resources=("cores", "memory"))
    assert result.table("evictions")["job_id"].to_list() == [1]
