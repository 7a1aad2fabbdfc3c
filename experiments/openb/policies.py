"""The five placement policies that the paper compares with its own, with the scores of its artifact.

Scores are whole numbers from 0 to 100, and the first node wins among equals. CPU and GPU count, memory does not: as
parts of 128 CPUs and 8 GPUs, whatever a node has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch import GPU, CompiledRequest, FragmentationGradient, NodeAvailability, PlacementPolicy, Request
from desim.workloads.batch.openb import CPU

__all__ = ["POLICIES", "BestFit", "DotProduct", "GPUClustering", "GPUPacking", "Random"]

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_CPU, MOST_GPU = 128_000.0, 8_000.0


def _cpu_and_gpu(
    room: NodeAvailability, shape: CompiledRequest, nodes: IntArray
) -> tuple[IntArray, IntArray, int, int]:
    """Return free CPU and GPU of nodes, and what a pod requests of both, all in thousandths."""
    column = room.table.resources.index(CPU)
    requested = shape.share or shape.gpus * GPU
    return room.free[nodes, column], room.gpus[nodes].sum(axis=1), shape.amounts[column], requested


class Random(PlacementPolicy):
    """Any node that has room, and any GPU of it that has room.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws both.
    """

    name = "random"

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Return one of the nodes."""
        return iter([int(self.rng.choice(nodes))])

    def device(self, room: NodeAvailability, shape: CompiledRequest, node: int, free: IntArray) -> int:
        """Return one of the GPUs that have room."""
        return int(self.rng.choice((free >= shape.share).nonzero()[0]))


class DotProduct(PlacementPolicy):
    """The smallest product of what is free and what is requested."""

    name = "dot-product"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray:
        """Return 100 less the mean product of parts, in hundredths."""
        free_cpu, free_gpu, cpu, gpu = _cpu_and_gpu(room, shape, nodes)
        product = (free_cpu / MOST_CPU * (cpu / MOST_CPU) + free_gpu / MOST_GPU * (gpu / MOST_GPU)) / 2
        return (100.0 * (1.0 - product)).astype(np.int64)


class BestFit(PlacementPolicy):
    """The node on which least is left."""

    name = "best-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray:
        """Return 100 less the mean part that would be left, in hundredths."""
        free_cpu, free_gpu, cpu, gpu = _cpu_and_gpu(room, shape, nodes)
        left = 0.5 * (free_cpu - cpu) / MOST_CPU + 0.5 * (free_gpu - gpu) / MOST_GPU
        return (100.0 * (1.0 - left)).astype(np.int64)


class GPUClustering(PlacementPolicy):
    """Nodes with pods of the same kind: a part of a GPU, or one, two, four, eight.

    Which kinds are on a node is remembered, as no pod leaves.
    """

    name = "gpu-clustering"

    def __init__(self) -> None:
        self._kinds: dict[int, set[int]] = {}

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray | None:
        """Return up to 25 for what is in use, and up to 75 for the company of the same kind."""
        kind = shape.gpus
        if not (kind or shape.share):
            return None
        base = (25 * (8 * GPU - room.gpus[nodes].sum(axis=1))) // (8 * GPU)
        company = [self._kinds.get(node, set()) for node in nodes.tolist()]
        more = [75 if there == {kind} else 50 if kind in there else 25 if not there else 0 for there in company]
        return np.asarray(base + np.array(more))

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Return the best node, on which the pod is from now on."""
        (node, *_) = super().order(room, shape, nodes)
        if shape.gpus or shape.share:
            self._kinds.setdefault(node, set()).add(shape.gpus)
        return iter([node])


class GPUPacking(PlacementPolicy):
    """GPUs that are in use first, then free GPUs of nodes in use, then empty nodes."""

    name = "gpu-packing"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> IntArray | None:
        """Return more than 50 where GPUs in use have room, up to 50 and 33 elsewhere."""
        if not (shape.gpus or shape.share):
            return None
        free, total = room.gpus[nodes], room.table.gpus[nodes].sum(axis=1)
        count = total // GPU
        is_empty = free.sum(axis=1) == total
        of_empty = np.maximum(33 - count, count)
        if shape.gpus:  # takes free GPUs only
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
"""What makes each of the paper's policies from the typical pods and a generator."""
