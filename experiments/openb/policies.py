"""The five placement policies that the paper compares with its own, with the scores of its artifact.

Scores are integers from 0 to 100, and ties go to the first node. They depend on CPU and GPU, but not on memory: as
fractions of 128 CPUs and 8 GPUs, whatever the capacity of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch import GPU, CompiledRequest, FragmentationGradient, NodeAvailability, PlacementPolicy, Request
from desim.workloads.batch.openb import CPU

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_CPU, MOST_GPU = 128_000.0, 8_000.0


def _cpu_and_gpu(
    room: NodeAvailability, shape: CompiledRequest, nodes: IntArray
) -> tuple[IntArray, IntArray, int, int]:
    """Return the free CPU and GPU of nodes, and a pod's requests for both, all in thousandths."""
    column = room.table.resources.index(CPU)
    requested = shape.share or shape.gpus * GPU
    return room.free[nodes, column], room.gpus[nodes].sum(axis=1), shape.amounts[column], requested


class Random(PlacementPolicy):
    """Placement on a random feasible node, and on a random feasible GPU of it.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness for both.
    """

    name = "random"

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Return one of the nodes."""
        return iter([int(self.rng.choice(nodes))])

    def device(self, room: NodeAvailability, shape: CompiledRequest, node: int, free: IntArray) -> int:
        """Return one of the GPUs with enough free capacity."""
        return int(self.rng.choice((free >= shape.share).nonzero()[0]))


class DotProduct(PlacementPolicy):
    """Placement by the smallest product of free and requested amounts."""

    name = "dot-product"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray:
        """Return 1 minus the mean product of the fractions, in hundredths."""
        free_cpu, free_gpu, cpu, gpu = _cpu_and_gpu(room, shape, nodes)
        product = (free_cpu / MOST_CPU * (cpu / MOST_CPU) + free_gpu / MOST_GPU * (gpu / MOST_GPU)) / 2
        return (100.0 * (1.0 - product)).astype(np.int64)


class BestFit(PlacementPolicy):
    """Placement on the node that has least left afterwards."""

    name = "best-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray:
        """Return 1 minus the mean fraction that would be left, in hundredths."""
        free_cpu, free_gpu, cpu, gpu = _cpu_and_gpu(room, shape, nodes)
        left = 0.5 * (free_cpu - cpu) / MOST_CPU + 0.5 * (free_gpu - gpu) / MOST_GPU
        return (100.0 * (1.0 - left)).astype(np.int64)


class GPUClustering(PlacementPolicy):
    """Placement on nodes with pods of the same kind: part of a GPU, or one, two, four, eight.

    The kinds on each node are remembered, because no pod leaves.
    """

    name = "gpu-clustering"

    def __init__(self) -> None:
        self._kinds: dict[int, set[int]] = {}

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray | None:
        """Return up to 25 points for GPUs in use, and up to 75 for pods of the same kind."""
        kind = shape.gpus
        if not (kind or shape.share):
            return None
        base = (25 * (8 * GPU - room.gpus[nodes].sum(axis=1))) // (8 * GPU)
        company = [self._kinds.get(node, set()) for node in nodes.tolist()]
        more = [75 if there == {kind} else 50 if kind in there else 25 if not there else 0 for there in company]
        return np.asarray(base + np.array(more))

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Return the best node, and remember that the pod is on it."""
        (node, *_) = super().order(room, shape, nodes)
        if shape.gpus or shape.share:
            self._kinds.setdefault(node, set()).add(shape.gpus)
        return iter([node])


class GPUPacking(PlacementPolicy):
    """Placement on GPUs in use first, then on free GPUs of nodes in use, then on empty nodes."""

    name = "gpu-packing"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray | None:
        """Return more than 50 if a GPU in use fits, otherwise up to 50 for nodes in use and up to 33 for others."""
        if not (shape.gpus or shape.share):
            return None
        free, total = room.gpus[nodes], room.table.gpus[nodes].sum(axis=1)
        count = total // GPU
        is_empty = free.sum(axis=1) == total
        of_empty = np.maximum(33 - count, count)
        if shape.gpus:  # needs entirely free GPUs
            return np.where(is_empty, of_empty, max(50 - shape.gpus, 33))
        least = np.where(free >= shape.share, free, GPU + 1).min(axis=1)
        of_used = np.maximum(100 - (least * 100 // GPU) // 10, 50)
        return np.where(is_empty, of_empty, np.where(least == GPU, 49, of_used))


Typical = Sequence[tuple[Request, int]]
POLICIES: dict[str, Callable[[Typical, np.random.Generator], PlacementPolicy]] = {
    "Random": lambda typical, rng: Random(rng),
    "DotProd": lambda typical, rng: DotProduct(),
    "GpuClustering": lambda typical, rng: GPUClustering(),
    "GpuPacking": lambda typical, rng: GPUPacking(),
    "BestFit": lambda typical, rng: BestFit(),
    "FGD": lambda typical, rng: FragmentationGradient(typical, CPU),
}
"""Functions that make the paper's policies from typical pods and a generator."""
