"""GPU fragmentation, and a placement policy that minimizes its growth.

Source: Weng, Yang, Yu, Wang, Tang, Yang and Zhang, "Beware of fragmentation: scheduling GPU-sharing workloads with
fragmentation gradient descent", USENIX ATC 2023.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.nodes import CORES, GPU, CompiledRequest, NodeTable, Request
from desim.problems.batch.placement import PlacementPolicy
from desim.problems.batch.resources.node_availability import NodeAvailability

__all__ = ["Fragmentation", "FragmentationGradient", "typical_requests"]

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]


def typical_requests(requests: Iterable[Request], share: float = 0.95) -> list[tuple[Request, int]]:
    """Return the most frequent requests of a workload, with their numbers of jobs.

    Parameters
    ----------
    requests : iterable of Request
        Requests of all jobs; memory is ignored.
    share : float
        Share of all jobs that the result must reach. Requests are kept, the most frequent first, until it is reached.
        Among equally frequent ones, larger requests come first: by cores, other resources, GPU share, GPUs, models.

    Returns
    -------
    list of (Request, int)
        Requests and their numbers of jobs, the most frequent first.

    Raises
    ------
    InvalidConfiguration
        If there are no requests.
    """
    counts = Counter(
        Request(
            cores=request.cores,
            gpus=request.gpus,
            gpu_models=request.gpu_models,
            resources=tuple((name, amount) for name, amount in request.resources if "memory" not in name),
        )
        for request in requests
    )
    if not counts:
        raise InvalidConfiguration("requests: got none, expected at least one")

    def rank(item: tuple[Request, int]) -> tuple[Any, ...]:
        """Return the sort key: frequency first, then the amounts requested."""
        request, count = item
        return count, request.cores, request.resources, min(request.gpus, 1), request.gpus, request.gpu_models

    kept, total, all_jobs = [], 0, counts.total()
    for request, count in sorted(counts.items(), key=rank, reverse=True):
        kept.append((request, count))
        total += count
        if total >= share * all_jobs:
            break
    return kept


class Fragmentation:
    """Expected amount of the free GPUs of nodes that a typical task of a workload could not use.

    Parameters
    ----------
    typical : sequence of (Request, int)
        Requests and their numbers of jobs, as returned by :func:`typical_requests`.
    table : NodeTable
        Nodes of the cluster.
    resource : str
        Resource that, besides GPUs, determines whether a task fits: cores, or another resource.

    Raises
    ------
    InvalidConfiguration
        If the nodes have no such resource.
    """

    def __init__(self, typical: Sequence[tuple[Request, int]], table: NodeTable, resource: str = CORES) -> None:
        self.column = table.resources.index(check_choice("resource", resource, table.resources))
        shapes = [table.compile(request) for request, _ in typical]
        self._weights = np.array([count for _, count in typical], np.float64)  # integers, so that sums are exact
        self._amounts = np.array([shape.amounts[self.column] for shape in shapes])
        parts = np.array([GPU if shape.gpus else shape.share for shape in shapes])
        self._parts, self._part = np.unique(parts, return_inverse=True)  # few distinct values
        self._counts = np.array([shape.gpus or 1 for shape in shapes])
        self._suits = np.array([shape.eligible & (parts[n] > 0) for n, shape in enumerate(shapes)]).T

    def of(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> Floats:
        """Return the fragmentation of nodes in given states.

        Parameters
        ----------
        nodes : array of int, shape (n,)
            Numbers of the nodes.
        free : array of int, shape (n,)
            Free amount of the resource on each node.
        gpus : array of int, shape (n, G)
            Free thousandths of each GPU of each node.

        Returns
        -------
        array of float, shape (n,)
            Thousandths of GPUs that typical tasks could not use, weighted by their frequency.
        """
        numbers = gpus.astype(np.float64)  # matrix products are faster than sums over so few GPUs
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
    """Placement that chooses the node and GPU where a task increases fragmentation least, or reduces it most.

    Scores are integer hundredths of a sigmoid, as published, because the way ties are broken affects the results.

    Parameters
    ----------
    typical : sequence of (Request, int)
        Requests and their numbers of jobs, as returned by :func:`typical_requests`.
    resource : str
        Resource that, besides GPUs, determines whether a task fits: cores, or another resource.
    """

    name: ClassVar[str] = "fgd"

    def __init__(self, typical: Sequence[tuple[Request, int]], resource: str = CORES) -> None:
        self.typical = tuple(typical)
        self.resource = resource
        self._table: NodeTable | None = None

    def _begin(self, table: NodeTable) -> None:
        """Reset the cache for the nodes of another cluster."""
        self._table = table
        self.fragmentation = Fragmentation(self.typical, table, self.resource)
        num_nodes = len(table)
        self._free = np.full(num_nodes, -1, np.int64)  # node states of the last call
        self._gpus = np.full(table.gpus.shape, -1, np.int64)
        self._changed = np.zeros(num_nodes, np.int64)  # clock of the last change of each node
        self._now = np.zeros(num_nodes)
        self._clock = 0
        self._known: dict[
            CompiledRequest, tuple[IntArray, IntArray, IntArray]
        ] = {}  # scores, devices, and the clock of their computation

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray:
        """Return the scores of nodes; cached scores are reused for nodes that have not changed."""
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
        """Return the GPU on which a task increases fragmentation least."""
        fitting = (free >= shape.share).nonzero()[0]
        if len(fitting) == 1:
            return int(fitting[0])
        self._look(room)
        nodes = np.array([node])
        other_tasks = int((room.gpus[node] - free).sum()) // shape.share  # of the same job, not allocated yet
        if not other_tasks:
            return int(self._judge(shape, nodes, self._free[nodes], self._gpus[nodes], self._now[nodes])[1][0])
        left = self._free[nodes] - other_tasks * shape.amounts[self.fragmentation.column]
        now = self.fragmentation.of(nodes, left, free[None])
        return int(self._judge(shape, nodes, left, free[None], now)[1][0])

    def _look(self, room: NodeAvailability) -> None:
        """Update the states and the fragmentation of nodes that changed since the last call."""
        if self._table is not room.table:
            self._begin(room.table)
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
        """Return scores and best GPUs of nodes that have room for a task, given their states and fragmentation."""
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
        """Return integer hundredths of a sigmoid of the reductions in fragmentation, in GPUs."""
        return (100.0 / (1.0 + np.exp(-less / GPU))).astype(np.int64)
