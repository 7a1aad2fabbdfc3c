"""Agents that duplicate nothing serve stages of parallel tasks, too."""

from __future__ import annotations

import pytest

from desim import simulate
from desim.agents.dag import create
from desim.problems.dag import Executors, Job, TaskCluster
from desim.validation import validate

ORDERS = ["fifo", "sjf", "hrrn", "hrrn-node", "rank-up", "critical-path", "least-work", "random"]


@pytest.mark.parametrize("name", ["dls", *(f"{order}-{kind}" for order in ORDERS for kind in ("eft", "insertion-eft"))])
def test_tasks_are_shared_out(name: str) -> None:
    stages = {"work": [6.0, 4.0, 1.0], "num_tasks": [3, 4, 1]}
    jobs = [Job(number, **stages, edges=[(0, 1, 2.0), (1, 2, 1.0)], submission_time=3.0 * number) for number in (0, 1)]
    result = simulate(TaskCluster(jobs, Executors([1.0, 1.0, 2.0], 4.0)), create(name))
    assert result.jobs["success"].all()
    assert validate(result, jobs).ok


def test_the_highest_dynamic_level_of_each_task_of_a_stage() -> None:
    job = Job(1, [8.0], num_tasks=[4])  # 2 s a task on the first executor, 1 s on the second, which is free again first
    result = simulate(TaskCluster([job], Executors([1.0, 2.0])), create("dls"))
    assert sorted(result.table("copies")["executor"].to_list()) == [0, 1, 1, 1]
    assert result.jobs["finish_time"].to_list() == [3.0]
