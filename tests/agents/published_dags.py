"""Examples that papers print, with their schedules."""

from __future__ import annotations

from desim.problems.dag import Executors, Job


def topcuoglu() -> tuple[Job, Executors]:
    """Return the ten tasks on three processors of Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, figure 2."""
    costs = [
        [14, 16, 9],
        [13, 19, 18],
        [11, 13, 19],
        [13, 8, 17],
        [12, 13, 10],
        [13, 16, 9],
        [7, 15, 11],
        [5, 11, 14],
        [18, 12, 20],
        [21, 7, 16],
    ]
    edges = [
        *((1, 2, 18), (1, 3, 12), (1, 4, 9), (1, 5, 11), (1, 6, 14), (2, 8, 19), (2, 9, 16), (3, 7, 23)),
        *((4, 8, 27), (4, 9, 23), (5, 9, 13), (6, 8, 15), (7, 10, 17), (8, 10, 11), (9, 10, 13)),
    ]
    return _job(costs, edges)


def arabnejad() -> tuple[Job, Executors]:
    """Return the ten tasks on three processors of Arabnejad and Barbosa, IEEE TPDS 25(3), 2014, figure 1."""
    costs = [
        [22, 21, 36],
        [22, 18, 18],
        [32, 27, 43],
        [7, 10, 4],
        [29, 27, 35],
        [26, 17, 24],
        [14, 25, 30],
        [29, 23, 36],
        [15, 21, 8],
        [13, 16, 33],
    ]
    edges = [
        *((1, 2, 17), (1, 3, 31), (1, 4, 29), (1, 5, 13), (1, 6, 7), (2, 8, 3), (2, 9, 30), (3, 7, 16)),
        *((4, 8, 11), (4, 9, 7), (5, 9, 57), (6, 8, 5), (7, 10, 9), (8, 10, 42), (9, 10, 7)),
    ]
    return _job(costs, edges)


def _job(costs: list[list[int]], edges: list[tuple[int, int, int]]) -> tuple[Job, Executors]:
    work = [sum(row) / 3 for row in costs]
    named = [(str(parent), str(child), float(size)) for parent, child, size in edges]
    job = Job(1, work, named, names=[str(number) for number in range(1, 11)], run_times=costs)
    return job, Executors([1.0, 1.0, 1.0], 1.0)
