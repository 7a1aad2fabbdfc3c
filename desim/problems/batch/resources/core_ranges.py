"""Cores of a large cluster: free ones as ranges, because operations on bit sets take time in proportion to its size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.problems.batch.cores import cores_of_ranges, to_core_ids
from desim.problems.batch.resources.cores import CoreResources

if TYPE_CHECKING:
    from desim.problems.batch.job import Job

__all__ = ["LARGE", "CoreRanges"]

LARGE = 4_096
"""Number of cores above which clusters keep ranges."""


class CoreRanges(CoreResources):
    """Identical cores of which free ranges are kept, in order; the bit set of free cores is made when it is read.

    Jobs get the same cores as in :class:`CoreResources`. Places of agents, outages and preemption use bit sets.
    """

    def _begin(self, tables: Mapping[str, Any]) -> None:
        super()._begin(tables)
        self._bits: int | None = None
        self._begins, self._ends = [0], [self.num_cores]

    @property
    def free(self) -> int:
        """Cores that are up and idle, as a bit set."""
        if self._bits is None:
            self._bits = cores_of_ranges(zip(self._begins, self._ends, strict=True))
        return self._bits

    @free.setter
    def free(self, cores: int) -> None:
        """Set the cores that are up and idle."""
        self._bits = cores
        ids = to_core_ids(cores)
        edges = np.flatnonzero(np.diff(ids, prepend=-2) > 1).tolist()
        self._begins = ids[edges].tolist()
        self._ends = [int(ids[end - 1]) + 1 for _, end in pairwise([*edges, len(ids)])]

    def take(self, job: Job, row: int) -> Any:
        """Take the lowest free cores for a job; return their ranges, none if too few are free."""
        left, begins, ends = int(job.requested_cores), self._begins, self._ends
        if left > self.num_free:
            return ()
        self.num_free -= left
        taken, place = [], 0
        while left:
            begin = begins[place]
            end = min(ends[place], begin + left)
            taken.append((begin, end))
            left -= end - begin
            if end == ends[place]:
                place += 1
            else:
                begins[place] = end
        del begins[:place], ends[:place]
        self._bits = None
        return tuple(taken)

    def put_back(self, allocation: Any) -> None:
        """Free cores that an execution has held, except those that are closed."""
        if isinstance(allocation, int) or self.closed:
            cores = allocation if isinstance(allocation, int) else cores_of_ranges(allocation)
            super().put_back(cores)
            return
        begins, ends = self._begins, self._ends
        for begin, end in allocation:
            place = bisect_left(begins, begin)
            follows = place > 0 and ends[place - 1] == begin
            precedes = place < len(begins) and begins[place] == end
            if follows and precedes:
                ends[place - 1] = ends[place]
                del begins[place], ends[place]
            elif follows:
                ends[place - 1] = end
            elif precedes:
                begins[place] = begin
            else:
                begins.insert(place, begin)
                ends.insert(place, end)
            self.num_free += end - begin
        self._bits = None
