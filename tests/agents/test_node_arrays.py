"""Compiled functions on arrays of nodes say what plain definitions say."""

from __future__ import annotations

import numpy as np
import pytest
from node_jobs import NODES, random_request

from desim.problems.batch import NodeAvailability, NodeTable
from desim.problems.batch.placement import FirstFit
from desim.problems.batch.resources import node_kernel


@pytest.mark.parametrize("seed", range(3))
def test_requests_checked_at_once_fit_as_each_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = NodeTable(NODES)
    shapes = [table.compile(random_request(rng)) for _ in range(40)]
    numbers = np.array([shape.number for shape in shapes])
    room, found = NodeAvailability(table), set()
    room.down[int(rng.integers(len(NODES)))] = True
    for shape in shapes:
        fits = np.zeros(len(numbers), np.bool_)
        node_kernel.enough((room.free, room.jobs, room.gpus, room.down), table.columns, table.usable, numbers, fits)
        assert fits.tolist() == [room.fits(each) for each in shapes]
        assert fits.tolist() == (table.columns[numbers, len(table.resources)] <= room._totals(numbers)).tolist()
        assert fits.tolist() == room.enough_for(numbers).tolist()
        found |= set(fits.tolist())
        room.take(room.place(shape, FirstFit()) or ())
    assert found == {True, False}


@pytest.mark.parametrize("seed", range(3))
def test_step_functions_are_sums_of_what_is_added(seed: int) -> None:
    rng = np.random.default_rng(seed)
    last, forever = 30, 40
    times, free = np.zeros((1, 64)), np.zeros((1, 64, 3), np.int64)
    segments = times, free, np.zeros(1, np.int64), np.ones(1, np.int64)
    plain = np.zeros((forever, 3), np.int64)
    added: list[tuple[int, int, list[int]]] = []
    for _ in range(300):
        if added and rng.random() < len(added) / 12:
            (start, end, amounts), sign = added.pop(int(rng.integers(len(added)))), -1
        else:
            start, length = (int(each) for each in rng.integers(0, last - 8, 2))
            end, amounts, sign = start + 1 + length % 8, [1, *rng.integers(0, 2, 2).tolist()], 1
            end = forever if rng.random() < 0.2 else end
            added.append((start, end, amounts))
        changes = np.array([[0, 1, *amounts]])
        assert node_kernel.change(segments, 0.0, changes, float(start), np.inf if end == forever else float(end), sign)
        plain[start:end] += sign * np.array(amounts)
        begins = [0, *((np.diff(plain, axis=0) != 0).any(axis=1).nonzero()[0] + 1).tolist()]
        size = int(segments[3][0])
        assert times[0, :size].tolist() == begins
        assert free[0, :size].tolist() == plain[begins].tolist()
