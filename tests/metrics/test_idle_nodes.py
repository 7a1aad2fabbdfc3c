"""Long waits of a log on nodes: with room, behind jobs of the same user, and without any."""

from __future__ import annotations

import math

import numpy as np

from desim.problems.batch import Job, Node, Request
from desim.problems.batch.idle_nodes import LongWaits, waits_on_nodes

NODES = [Node("a", 4, memory=100), Node("b", 4, memory=100)]


def job(number: int, submit: float, run: float, memory: int, user: int) -> Job:
    return Job.of_tasks(number, submit, Request(1, 1, memory), run, run, user)


def test_as_by_hand() -> None:
    jobs = [
        job(1, 0, 5_000, 80, 1),
        job(2, 0, 5_000, 80, 2),  # both nodes have 20 left until 5,000 s
        job(3, 10, 50, 30, 1),  # waits for memory until then
        job(4, 20, 50, 20, 2),  # has room, and its user runs something
        job(5, 30, 50, 10, 2),  # the same, behind job 4
        job(6, 40, 50, 10, 3),  # its user has nothing else
        job(7, 50, 50, 10, 5),  # no long wait
        job(8, 60, 50, 10, 4),  # nobody knows
    ]
    waits = [0, 0, 4_990, 2_000, 1_500, 3_000, 500, math.nan]
    where = {one.job_id: [("ab"[one.job_id % 2], 1)] for one in jobs}
    assert waits_on_nodes(jobs, waits, NODES, where) == LongWaits(jobs=4, with_room=3, behind_own=1, alone=1)
    none = np.zeros(len(jobs), np.bool_)
    assert waits_on_nodes(jobs, waits, NODES, where, counted=none) == (0, 0, 0, 0)


def test_room_for_part_of_the_wait_is_no_room() -> None:
    jobs = [job(1, 0, 2_000, 100, 1), job(2, 0, 1_001, 100, 2), job(3, 0, 9, 100, 3)]
    where = {1: [("a", 1)], 2: [("b", 1)], 3: [("a", 1)]}
    assert waits_on_nodes(jobs, [0, 0, 2_000], NODES, where) == (1, 0, 0, 0)
    assert waits_on_nodes(jobs, [0, 0, 2_000], NODES, where, moments=1) == (1, 0, 0, 0)  # in the middle, just before
    longer = [jobs[0], job(2, 0, 100, 100, 2), jobs[2]]
    assert waits_on_nodes(longer, [0, 0, 2_000], NODES, where, moments=1) == (1, 1, 0, 1)


def test_jobs_without_nodes_and_of_no_time() -> None:
    jobs = [job(1, 0, 0, 100, 1), job(2, 0, 500, 100, 2), job(3, 1, 9, 100, 3)]
    assert waits_on_nodes(jobs, [0, 0, 900], NODES, {1: [("a", 1)], 2: [("b", 1)]}) == (1, 1, 0, 1)
