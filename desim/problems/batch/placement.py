"""Placement policies: which nodes a job gets among those with enough free resources.

A policy scores every node with room for a task. Nodes are chosen by descending score and, for equal scores, by
ascending number, so that equally good nodes are filled one after another. Sources: first, best and worst fit for
several resources: Panigrahy and others, "Heuristics for vector bin packing", 2011; dot product: Grandl and others,
"Multi-resource packing for cluster schedulers", SIGCOMM 2014; GPU packing: Weng and others, "Beware of fragmentation",
USENIX ATC 2023.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.problems.batch.nodes import GPU, CompiledRequest

if TYPE_CHECKING:
    from desim.problems.batch.resources.node_availability import NodeAvailability

__all__ = [
    "PLACEMENTS",
    "BestFit",
    "DotProduct",
    "FirstFit",
    "GPUPacking",
    "NodeFirst",
    "PlacementPolicy",
    "WorstFit",
    "placement_of",
]

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]


class PlacementPolicy:
    """Placement policy; this base class orders the nodes on which a job fits by number."""

    name: ClassVar[str] = "first-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats | IntArray | None:
        """Return a score for each of the given nodes, or None to order them by number. The highest score is best.

        Parameters
        ----------
        room : NodeAvailability
            Free resources of the nodes.
        shape : CompiledRequest
            Compiled request of the job.
        nodes : array of int, shape (n,)
            Nodes with room for a task, ascending.

        Returns
        -------
        array of shape (n,), or None
            Scores.
        """
        return None

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Yield the nodes in order of preference."""
        scores = self.scores(room, shape, nodes)
        if scores is None:
            return iter(nodes.tolist())
        if shape.tasks == 1:
            return iter([int(nodes[scores.argmax()])])
        return iter(nodes[(-scores).argsort(kind="stable")].tolist())

    def device(self, room: NodeAvailability, shape: CompiledRequest, node: int, free: IntArray) -> int:
        """Return the GPU of a node on which to place a task that requests a share: by default the fullest that fits.

        Parameters
        ----------
        room : NodeAvailability
            Free resources of the nodes.
        shape : CompiledRequest
            Compiled request of a share.
        node : int
            Number of the node.
        free : array of int, shape (G,)
            Free thousandths of its GPUs, not counting those given to other tasks of the job.

        Returns
        -------
        int
            Number of the GPU.
        """
        fitting = (free >= shape.share).nonzero()[0]
        return int(fitting[free[fitting].argmin()])


class FirstFit(PlacementPolicy):
    """First fit: the nodes with the lowest numbers."""


def _shares(room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> tuple[Floats, Floats]:
    """Return free and requested resources relative to the largest capacity of any node.

    The shapes are (n, R + 1) and (R + 1,); the last column stands for the GPUs.
    """
    table = room.table
    most = np.append(table.capacity.max(axis=0), table.gpus.sum(axis=1).max()).astype(np.float64)
    most[most == 0] = np.inf  # no node has this resource
    free = np.column_stack([room.free[nodes], room.gpus[nodes].sum(axis=1)])
    return free / most, np.array([*shape.amounts, shape.gpus * GPU or shape.share]) / most


class BestFit(PlacementPolicy):
    """Best fit: the nodes with the least resources left after placement, averaged over resources."""

    name = "best-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats:
        """Return the negative mean fraction of resources that would be left."""
        free, requested = _shares(room, shape, nodes)
        return -np.asarray((free - requested).mean(axis=1))


class WorstFit(PlacementPolicy):
    """Worst fit: the nodes with the most resources left after placement, averaged over resources."""

    name = "worst-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats:
        """Return the mean fraction of resources that would be left."""
        free, requested = _shares(room, shape, nodes)
        return np.asarray((free - requested).mean(axis=1))


class DotProduct(PlacementPolicy):
    """Dot product of free and requested resources, as in Tetris: the best aligned nodes come first."""

    name = "dot-product"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats:
        """Return the dot product of the free and requested fractions."""
        free, requested = _shares(room, shape, nodes)
        return np.asarray(free @ requested)


class GPUPacking(PlacementPolicy):
    """GPU packing: first nodes whose GPUs in use have room, then nodes with the fewest free GPUs."""

    name = "gpu-packing"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats | None:
        """Return scores: room on GPUs in use is best, then free GPUs of nodes in use, then empty nodes."""
        if not (shape.gpus or shape.share):
            return None
        free = room.gpus[nodes]
        whole = (free == GPU).sum(axis=1)
        left = free.sum(axis=1) / GPU
        has_used = ((free >= shape.share) & (free < GPU)).any(axis=1) if shape.share else np.zeros(len(nodes), np.bool_)
        is_empty = free.sum(axis=1) == room.table.gpus[nodes].sum(axis=1)
        return np.asarray(np.where(has_used, 2e6, np.where(is_empty, 0.0, 1e6)) - whole * 1e3 - left)


class NodeFirst(PlacementPolicy):
    """Policy that puts a given node first and leaves the order of the others to another policy.

    Parameters
    ----------
    policy : PlacementPolicy
        Policy that orders the other nodes and chooses GPUs for shares.
    node : int
        Number of the first node.
    """

    name = "node-first"

    def __init__(self, policy: PlacementPolicy, node: int) -> None:
        self.policy = policy
        self.node = node

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Yield the nodes in order of preference; nodes without room, even the given one, are omitted."""
        others = self.policy.order(room, shape, nodes)  # always called, because policies may update their state here
        if self.node not in nodes:
            return others
        if shape.tasks == 1:
            return iter([self.node])
        return chain([self.node], (node for node in others if node != self.node))

    def device(self, room: NodeAvailability, shape: CompiledRequest, node: int, free: IntArray) -> int:
        """Return the GPU that the other policy chooses."""
        return self.policy.device(room, shape, node, free)


PLACEMENTS: dict[str, type[PlacementPolicy]] = {
    policy.name: policy for policy in (FirstFit, BestFit, WorstFit, DotProduct, GPUPacking)
}
"""Placement policies by name."""


def placement_of(policy: str | PlacementPolicy) -> PlacementPolicy:
    """Return the policy with a given name, or the given policy itself.

    Parameters
    ----------
    policy : str or PlacementPolicy
        Policy, or its name such as ``"best-fit"``.

    Returns
    -------
    PlacementPolicy
        Placement policy.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown.
    """
    if isinstance(policy, PlacementPolicy):
        return policy
    return PLACEMENTS[check_choice("placement", policy, tuple(PLACEMENTS))]()
