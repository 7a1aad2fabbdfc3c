"""Fragmentation of GPUs, and the placement that lets it grow least.

Source: Weng, Yang, Yu, Wang, Tang, Yang and Zhang, "Beware of fragmentation: scheduling GPU-sharing workloads with
fragmentation gradient descent", USENIX ATC 2023.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.node_availability import NodeAvailability
from desim.problems.batch.nodes import CORES, GPU, CompiledRequest, NodeTable, Request
from desim.problems.batch.placement import PlacementPolicy

__all__ = ["Fragmentation", "FragmentationGradient", "typical_requests"]

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]


def typical_requests(requests: Iterable[Request], share: float = 0.95) -> list[tuple[Request, int]]:
    """Return the most frequent requests of a workload, with how many jobs have them.

    Parameters
    ----------
    requests : iterable of Request
        Of all jobs; memory does not count.
    share : float
        Kinds are kept, the most frequent first, until they make up this part of all jobs; among equally frequent ones
        those that request more come first: cores, further resources, GPU share, GPUs, models.

    Returns
    -------
    list of (Request, int)
        The most frequent one first.

    Raises
    ------
    InvalidConfiguration
        If there is no request.
    """
    counts = Counter(
        Request(
            cores=request.cores,
            gpus=request.gpus,
            gpu_models=request.gpu_models,
            resources=_but_memory(request.resources),
        )
        for request in requests
    )
    if not counts:
        raise InvalidConfiguration("no requests, so that none is typical")

    def rank(item: tuple[Request, int]) -> tuple[Any, ...]:
        """Return what comes first: many, then much."""
        request, count = item
        return count, request.cores, request.resources, min(request.gpus, 1), request.gpus, request.gpu_models

    kept, total, all_jobs = [], 0, counts.total()
    for request, count in sorted(counts.items(), key=rank, reverse=True):
        kept.append((request, count))
        total += count
        if total >= share * all_jobs:
            break
    return kept


def _but_memory(resources: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return all but what is a kind of memory."""
    return tuple((name, amount) for name, amount in resources if "memory" not in name)


class Fragmentation:
    """How much of the free GPUs of nodes the typical tasks of a workload could not use, on the mean.

    Parameters
    ----------
    typical : sequence of (Request, int)
        Requests and how many jobs have them, as of :func:`typical_requests`.
    table : NodeTable
        The nodes.
    resource : str
        What decides beside GPUs whether a task fits: cores, or a further resource.

    Raises
    ------
    InvalidConfiguration
        If the nodes have no such resource.
    """

    def __init__(self, typical: Sequence[tuple[Request, int]], table: NodeTable, resource: str = CORES) -> None:
        if resource not in table.resources:
            raise InvalidConfiguration(f"no resource {resource!r}; there are {', '.join(table.resources)}")
        self.column = table.resources.index(resource)
        shapes = [table.compile(request) for request, _ in typical]
        self._weights = np.array([count for _, count in typical], np.float64)  # whole numbers, so that sums are exact
        self._amounts = np.array([shape.amounts[self.column] for shape in shapes])
        parts = np.array([GPU if shape.gpus else shape.share for shape in shapes])
        self._parts, self._part = np.unique(parts, return_inverse=True)  # few differ
        self._counts = np.array([shape.gpus or 1 for shape in shapes])
        self._suits = np.array([shape.eligible & (parts[n] > 0) for n, shape in enumerate(shapes)]).T

    def of(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> Floats:
        """Return the fragmentation of some nodes in some states.

        Parameters
        ----------
        nodes : array of int, shape (n,)
            Which.
        free : array of int, shape (n,)
            How much of the resource is free on each.
        gpus : array of int, shape (n, G)
            Free thousandths of its GPUs.

        Returns
        -------
        array of float, shape (n,)
            Thousandths of GPUs that typical tasks could not use, weighted by their frequency.
        """
        numbers = gpus.astype(np.float64)  # products of matrices are faster than sums over so few GPUs
        left = numbers @ np.ones(gpus.shape[1])
        enough = (gpus[:, None, :] >= self._parts[:, None]).astype(np.float64)
        useful = (enough @ numbers[:, :, None])[:, self._part, 0]
        counts = (enough @ np.ones(gpus.shape[1]))[:, self._part]
        fits = (counts >= self._counts) & (free[:, None] >= self._amounts) & self._suits[nodes]
        total = self._weights.sum()
        lost: Floats = (left * total - np.where(fits, useful, 0.0) @ self._weights) / total
        return lost

    def of_room(self, room: NodeAvailability) -> Floats:
        """Return the fragmentation of all nodes, shape (N,), in thousandths of GPUs."""
        return self.of(np.arange(len(room.table)), room.free[:, self.column], room.gpus)


class FragmentationGradient(PlacementPolicy):
    """The node, and the GPU of it, on which a task lets fragmentation grow least, or fall most.

    Scores are whole hundredths of a sigmoid, as published: how ties are broken matters for what comes out.

    Parameters
    ----------
    typical : sequence of (Request, int)
        Requests and how many jobs have them, as of :func:`typical_requests`.
    resource : str
        What decides beside GPUs whether a task fits: cores, or a further resource.
    """

    name: ClassVar[str] = "fgd"

    def __init__(self, typical: Sequence[tuple[Request, int]], resource: str = CORES) -> None:
        self.typical = tuple(typical)
        self.resource = resource
        self._table: NodeTable | None = None

    def _begin(self, table: NodeTable) -> None:
        """Forget what was computed of other nodes."""
        self._table = table
        self.fragmentation = Fragmentation(self.typical, table, self.resource)
        num_nodes = len(table)
        self._free = np.full(num_nodes, -1, np.int64)  # the states that were seen last
        self._gpus = np.full(table.gpus.shape, -1, np.int64)
        self._changed = np.zeros(num_nodes, np.int64)  # when that was another state
        self._now = np.zeros(num_nodes)
        self._clock = 0
        self._known: dict[
            CompiledRequest, tuple[IntArray, IntArray, IntArray]
        ] = {}  # scores, devices, and since when they are known

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray:
        """Return the scores; those of nodes that have not changed since the last question are still known."""
        if self._table is not room.table:
            self._begin(room.table)
        self._look(room)
        if shape not in self._known:
            num_nodes = len(room.table)
            self._known[shape] = tuple(np.zeros(num_nodes, np.int64) for _ in range(3))  # type: ignore[assignment]
        scores, devices, since = self._known[shape]
        stale = nodes[since[nodes] < self._changed[nodes]]
        if len(stale):
            states = self._free[stale], self._gpus[stale], self._now[stale]
            scores[stale], devices[stale] = self._judge(shape, stale, *states)
            since[stale] = self._clock
        return scores[nodes]

    def device(self, room: NodeAvailability, shape: CompiledRequest, node: int, free: IntArray) -> int:
        """Return the GPU that lets fragmentation grow least."""
        fitting = (free >= shape.share).nonzero()[0]
        if len(fitting) == 1:
            return int(fitting[0])
        self._look(room)
        nodes = np.array([node])
        other_tasks = int((room.gpus[node] - free).sum()) // shape.share  # of the same job, which nobody holds yet
        if not other_tasks:
            return int(self._judge(shape, nodes, self._free[nodes], self._gpus[nodes], self._now[nodes])[1][0])
        left = self._free[nodes] - other_tasks * shape.amounts[self.fragmentation.column]
        now = self.fragmentation.of(nodes, left, free[None])
        return int(self._judge(shape, nodes, left, free[None], now)[1][0])

    def _look(self, room: NodeAvailability) -> None:
        """Find out which nodes have changed since the last question, and how fragmented they are now."""
        free = room.free[:, self.fragmentation.column]
        of_gpus = (room.gpus != self._gpus).ravel().nonzero()[0] // room.gpus.shape[1]
        changed = np.union1d((free != self._free).nonzero()[0], of_gpus)
        if len(changed):
            self._clock += 1
            self._free[changed], self._gpus[changed] = free[changed], room.gpus[changed]
            self._changed[changed] = self._clock
            self._now[changed] = self.fragmentation.of(changed, free[changed], room.gpus[changed])

    def _judge(
        self, shape: CompiledRequest, nodes: IntArray, free: IntArray, gpus: IntArray, now: Floats
    ) -> tuple[IntArray, IntArray]:
        """Return scores and best GPUs of some nodes that have room for a task, in some states, as fragmented as now."""
        free = free - shape.amounts[self.fragmentation.column]
        if not shape.share:
            if shape.gpus:
                is_free = gpus == GPU
                gpus = np.where(is_free & (is_free.cumsum(axis=1) <= shape.gpus), 0, gpus)
            return self._score(now - self.fragmentation.of(nodes, free, gpus)), np.zeros_like(nodes)
        row, gpu = (gpus >= shape.share).nonzero()
        after = gpus[row]
        after[np.arange(len(row)), gpu] -= shape.share
        each = self._score(now[row] - self.fragmentation.of(nodes[row], free[row], after))
        scores = np.full(gpus.shape, -1, np.int64)
        scores[row, gpu] = each
        devices = scores.argmax(axis=1)
        return scores[np.arange(len(nodes)), devices], devices

    @staticmethod
    def _score(less: Floats) -> IntArray:
        """Return whole hundredths of a sigmoid of how much less fragmented nodes would be, in GPUs."""
        return (100.0 / (1.0 + np.exp(-less / GPU))).astype(np.int64)
