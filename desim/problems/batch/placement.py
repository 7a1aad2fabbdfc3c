"""Placement: which nodes a job gets, of those that have room for it.

Each policy gives every node that has room a score; the greatest comes first, and among equals the lowest number, so
that equally good nodes are filled one after another. Sources: first, best and worst fit for several resources:
Panigrahy and others, "Heuristics for vector bin packing", 2011; dot product: Grandl and others, "Multi-resource packing
for cluster schedulers", SIGCOMM 2014; packing of GPUs: Weng and others, "Beware of fragmentation", USENIX ATC 2023.
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
    from desim.problems.batch.node_availability import NodeAvailability

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
    """Puts the nodes that have room for a job in order; this one by their numbers."""

    name: ClassVar[str] = "first-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats | IntArray | None:
        """Return a score for each of some nodes; the greatest comes first. None if their numbers decide.

        Parameters
        ----------
        room : NodeAvailability
            What is free.
        shape : CompiledRequest
            What is requested.
        nodes : array of int, shape (n,)
            Those that have room for a task, ascending.

        Returns
        -------
        array of shape (n,), or None
            Scores.
        """
        return None

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Return the nodes from the first choice on."""
        scores = self.scores(room, shape, nodes)
        if scores is None:
            return iter(nodes.tolist())
        if shape.tasks == 1:
            return iter([int(nodes[scores.argmax()])])
        return iter(nodes[(-scores).argsort(kind="stable")].tolist())

    def device(self, room: NodeAvailability, shape: CompiledRequest, node: int, free: IntArray) -> int:
        """Return which GPU of a node a task shares: by default the fullest one that has room.

        Parameters
        ----------
        room : NodeAvailability
            What is free.
        shape : CompiledRequest
            Requests a share.
        node : int
            Which node.
        free : array of int, shape (G,)
            Free thousandths of its GPUs, less what other tasks of the job get.

        Returns
        -------
        int
            Its number.
        """
        fitting = (free >= shape.share).nonzero()[0]
        return int(fitting[free[fitting].argmin()])


class FirstFit(PlacementPolicy):
    """The first nodes that have room."""


def _shares(room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> tuple[Floats, Floats]:
    """Return what is free and what a task requests, as parts of the most that any node has.

    Shapes (n, R + 1) and (R + 1,); the last column stands for the GPUs.
    """
    table = room.table
    most = np.append(table.capacity.max(axis=0), table.gpus.sum(axis=1).max()).astype(np.float64)
    most[most == 0] = np.inf  # nobody has any
    free = np.column_stack([room.free[nodes], room.gpus[nodes].sum(axis=1)])
    return free / most, np.array([*shape.amounts, shape.gpus * GPU or shape.share]) / most


class BestFit(PlacementPolicy):
    """The nodes on which least is left, on the mean over resources."""

    name = "best-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats:
        """Return minus the mean part that would be left."""
        free, requested = _shares(room, shape, nodes)
        return -np.asarray((free - requested).mean(axis=1))


class WorstFit(PlacementPolicy):
    """The nodes on which most is left."""

    name = "worst-fit"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats:
        """Return the mean part that would be left."""
        free, requested = _shares(room, shape, nodes)
        return np.asarray((free - requested).mean(axis=1))


class DotProduct(PlacementPolicy):
    """The nodes whose free resources are most like what is requested, as in Tetris."""

    name = "dot-product"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats:
        """Return the dot product of free and requested parts."""
        free, requested = _shares(room, shape, nodes)
        return np.asarray(free @ requested)


class GPUPacking(PlacementPolicy):
    """First the nodes whose used GPUs have room, then those with the fewest free GPUs."""

    name = "gpu-packing"

    def scores(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Floats | None:
        """Return scores: shares of used GPUs come before free GPUs of used nodes, and those before empty nodes."""
        if not (shape.gpus or shape.share):
            return None
        free = room.gpus[nodes]
        whole = (free == GPU).sum(axis=1)
        left = free.sum(axis=1) / GPU
        has_used = ((free >= shape.share) & (free < GPU)).any(axis=1) if shape.share else np.zeros(len(nodes), np.bool_)
        is_empty = free.sum(axis=1) == room.table.gpus[nodes].sum(axis=1)
        return np.asarray(np.where(has_used, 2e6, np.where(is_empty, 0.0, 1e6)) - whole * 1e3 - left)


class NodeFirst(PlacementPolicy):
    """A chosen node before all others, which another policy puts in order.

    Parameters
    ----------
    policy : PlacementPolicy
        The other one; it also says which GPUs are shared.
    node : int
        Which.
    """

    name = "node-first"

    def __init__(self, policy: PlacementPolicy, node: int) -> None:
        self.policy = policy
        self.node = node

    def order(self, room: NodeAvailability, shape: CompiledRequest, nodes: IntArray) -> Iterator[int]:
        """Return the nodes from the first choice on; those that have no room are left out, the chosen one as well."""
        others = self.policy.order(room, shape, nodes)  # asked for one task, too: policies may look at the room here
        if self.node not in nodes:
            return others
        if shape.tasks == 1:
            return iter([self.node])
        return chain([self.node], (node for node in others if node != self.node))

    def device(self, room: NodeAvailability, shape: CompiledRequest, node: int, free: IntArray) -> int:
        """Return the GPU that the other policy takes."""
        return self.policy.device(room, shape, node, free)


PLACEMENTS: dict[str, type[PlacementPolicy]] = {
    policy.name: policy for policy in (FirstFit, BestFit, WorstFit, DotProduct, GPUPacking)
}
"""The policies by name."""


def placement_of(policy: str | PlacementPolicy) -> PlacementPolicy:
    """Return the policy of a name, or the one that is given.

    Parameters
    ----------
    policy : str or PlacementPolicy
        Such as ``"best-fit"``.

    Returns
    -------
    PlacementPolicy
        An instance.

    Raises
    ------
    InvalidConfiguration
        If there is no such policy.
    """
    if isinstance(policy, PlacementPolicy):
        return policy
    return PLACEMENTS[check_choice("placement", policy, tuple(PLACEMENTS))]()
