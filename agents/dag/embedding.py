"""Embeddings of the nodes of directed acyclic graphs, in PyTorch Geometric.

Messages go from the leaves up, level by level, so that one pass brings a node what all its descendants have to say.

Sources: LACHESIS, section IV-B, equation (7), and Mao et al., "Learning scheduling algorithms for data processing
clusters" (Decima), SIGCOMM 2019, section 5.1. A node is embedded when its job arrives, and once only: what it hears of
does not change while it waits, as no descendant can have run before it.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from desim.agents.learning.policy import initialized, mlp

__all__ = ["SLOPE", "Activation", "NodeEmbedding", "levels_of"]

SLOPE = 0.2
"""Of the leaky rectified linear units below 0, as in Decima."""


class Activation(nn.LeakyReLU):
    """The unit between layers."""

    def __init__(self) -> None:
        super().__init__(SLOPE)


def levels_of(edges: Tensor, num_nodes: int) -> Tensor:
    """Return how far each node is from the leaves below it: the number of edges on the longest way.

    Parameters
    ----------
    edges : Tensor of int, shape (e, 2)
        Parents and children, without a cycle.
    num_nodes : int
        Number of nodes, n.

    Returns
    -------
    Tensor of int, shape (n,)
        0 for leaves.
    """
    levels = torch.zeros(num_nodes, dtype=torch.long, device=edges.device)
    while len(edges):
        found = levels.scatter_reduce(0, edges[:, 0], levels[edges[:, 1]] + 1, "amax")
        if torch.equal(found, levels):
            break
        levels = found
    return levels


class NodeEmbedding(MessagePassing):  # type: ignore[misc]  # comes without types
    """The embedding of LACHESIS or of Decima; all levels share their weights.

    With x_n a linear map of the features of node n, LACHESIS has e_n = g[sum of e_u over the children] +
    h[sum of a_u over the edges to them] + x_n, and Decima e_n = g[sum of f(e_u) over the children] + x_n; a leaf has
    e_n = x_n.

    Parameters
    ----------
    kind : {"lachesis", "decima"}
        Which of them.
    num_features : int
        Features of a node, F.
    width : int
        Numbers in an embedding, D.
    rng : numpy.random.Generator
        For the weights.
    """

    def __init__(
        self, kind: Literal["lachesis", "decima"], num_features: int, width: int, rng: np.random.Generator
    ) -> None:
        super().__init__(aggr="sum", flow="source_to_target")
        self.kind = kind
        self.prepare = initialized(mlp([num_features, 16, width], Activation), rng)
        self.gather = initialized(mlp([width, 16, width], Activation), rng)
        edge_inputs = 1 if kind == "lachesis" else width
        self.other = initialized(mlp([edge_inputs, 16, width], Activation), rng)

    def forward(self, nodes: Tensor, edges: Tensor, edge_times: Tensor) -> Tensor:
        """Return the embeddings, shape (n, D).

        Parameters
        ----------
        nodes : Tensor, shape (n, F)
            Features.
        edges : Tensor of int, shape (e, 2)
            Parents and children.
        edge_times : Tensor, shape (e,)
            What is known of the edges.
        """
        own = self.prepare(nodes)
        embedded = own
        levels = levels_of(edges, len(nodes))
        level_of_edge = levels[edges[:, 0]]
        for level in range(1, int(levels.max()) + 1 if len(levels) else 0):
            upward = edges[level_of_edge == level].flip(1).T  # from child to parent
            known = edge_times[level_of_edge == level, None]
            inner = self.other(embedded) if self.kind == "decima" else embedded
            heard = self.propagate(upward, x=inner, known=known, size=None)
            total, sizes = heard[:, :-1], heard[:, -1:]
            new = self.gather(total) + own
            if self.kind == "lachesis":
                new = new + self.other(sizes)
            embedded = torch.where((levels == level)[:, None], new, embedded)
        return cast(Tensor, embedded)

    def message(self, x_j: Tensor, known: Tensor) -> Tensor:
        """Return what a child tells its parent, with the number of the edge behind it, shape (e, D + 1).

        Parameters
        ----------
        x_j : Tensor, shape (e, D)
            Embeddings of the children.
        known : Tensor, shape (e, 1)
            Of the edges.
        """
        return torch.cat([x_j, known], dim=1)
