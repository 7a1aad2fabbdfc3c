"""The actor-critic network of desim's graph agents, which scores the nodes that may be assigned.

It is based on the network of LACHESIS (Luo et al., section IV); for that as published, see
:mod:`desim.agents.dag.printed`. Here messages are passed upwards level by level; there are features for expected finish
times; summaries of jobs and of the system are means instead of sums, which stay bounded in systems of any size, while
the counts are separate features; a job's summary only includes unassigned nodes; and there may be an action to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from desim.agents.learning.policy import (
    Distribution,
    MaskedCategorical,
    Observations,
    Policy,
    initialized,
    mlp,
    versions_of,
)
from desim.envs import ACTION_MASK
from desim.problems.dag.graph_encoder import (
    CANDIDATE_FEATURES,
    FIXED_FEATURES,
    JOB_FEATURES,
    SYSTEM_GRAPH_FEATURES,
    SystemGraph,
)

__all__ = [
    "SLOPE",
    "Activation",
    "GraphPolicy",
    "Kind",
    "NodeEmbedding",
    "from_data",
    "levels_of",
    "to_data",
]

SLOPE = 0.2

"""Slope of the leaky rectified linear units for negative inputs, as in Decima."""


class Activation(nn.LeakyReLU):
    """Activation function between layers."""

    def __init__(self) -> None:
        super().__init__(SLOPE)


def levels_of(edges: Tensor, num_nodes: int) -> Tensor:
    """Return the level of each node: the number of edges on the longest path to a leaf below it.

    Parameters
    ----------
    edges : Tensor of int, shape (e, 2)
        Pairs (parent, child) without a cycle.
    num_nodes : int
        Number of nodes, n.

    Returns
    -------
    Tensor of int, shape (n,)
        Levels; 0 for leaves.
    """
    levels = torch.zeros(num_nodes, dtype=torch.long, device=edges.device)
    while len(edges):
        found = levels.scatter_reduce(0, edges[:, 0], levels[edges[:, 1]] + 1, "amax")
        if torch.equal(found, levels):
            break
        levels = found
    return levels


class NodeEmbedding(MessagePassing):  # type: ignore[misc]  # the base class has no type hints
    """Embedding of the nodes of graphs; all levels share their weights.

    With x_n a small network's output for the features of node n, e_n = g[sum of e_u over the children u] + h[sum of a_u
    over the edges to them] + x_n; a leaf has e_n = x_n. With the kind "local", every node has e_n = x_n. This avoids
    sums that grow with graphs larger than those in training; the node's rank is then the only information about its
    descendants.

    Parameters
    ----------
    kind : {"messages", "local"}
        Kind of embedding: with messages from children to parents, or without.
    num_features : int
        Number of features of a node, F.
    width : int
        Length of an embedding, D.
    rng : numpy.random.Generator
        Random generator for the initial weights.
    """

    def __init__(
        self, kind: Literal["messages", "local"], num_features: int, width: int, rng: np.random.Generator
    ) -> None:
        super().__init__(aggr="sum", flow="source_to_target")
        self.kind = kind
        self.prepare = initialized(mlp([num_features, 16, width], Activation), rng)
        if kind == "local":
            return
        self.gather = initialized(mlp([width, 16, width], Activation), rng)
        self.other = initialized(mlp([1, 16, width], Activation), rng)

    def forward(self, nodes: Tensor, edges: Tensor, edge_times: Tensor) -> Tensor:
        """Return the embeddings of the nodes, shape (n, D).

        Parameters
        ----------
        nodes : Tensor, shape (n, F)
            Features of the nodes.
        edges : Tensor of int, shape (e, 2)
            Pairs (parent, child).
        edge_times : Tensor, shape (e,)
            Features of the edges.
        """
        own = self.prepare(nodes)
        if self.kind == "local":
            return cast(Tensor, own)
        embedded = own
        levels = levels_of(edges, len(nodes))
        level_of_edge = levels[edges[:, 0]]
        for level in range(1, int(levels.max()) + 1 if len(levels) else 0):
            upward = edges[level_of_edge == level].flip(1).T  # from child to parent
            known = edge_times[level_of_edge == level, None]
            heard = self.propagate(upward, x=embedded, known=known, size=None)
            total, sizes = heard[:, :-1], heard[:, -1:]
            new = self.gather(total) + own + self.other(sizes)
            embedded = torch.where((levels == level)[:, None], new, embedded)
        return cast(Tensor, embedded)

    def message(self, x_j: Tensor, known: Tensor) -> Tensor:
        """Return the message of each child to its parent, followed by the feature of the edge, shape (e, D + 1).

        Parameters
        ----------
        x_j : Tensor, shape (e, D)
            Embeddings of the children.
        known : Tensor, shape (e, 1)
            Features of the edges.
        """
        return torch.cat([x_j, known], dim=1)


Kind = Literal["messages", "local"]
"""Kind of embedding: with messages from children to parents, or without; the node features are the same."""


MOST_KNOWN = 4_096
"""Largest number of jobs whose embeddings are cached while a policy acts."""


class _Memory:
    """Cache of job embeddings while a policy acts; valid until its weights change.

    Attributes
    ----------
    parameters : list of torch.nn.Parameter
        Relevant weights, stored because collecting them takes longer than checking their versions.
    versions : tuple of int
        Version numbers of these weights.
    places : dict of int to int
        Row of each job, by its graph key.
    parts : tuple of Tensor
        Features, embeddings and summary inputs of nodes, of shape (jobs, N, ...); empty if nothing is cached.
    """

    def __init__(self) -> None:
        self.parameters: list[nn.Parameter] = []
        self.versions: tuple[int, ...] = ()
        self.places: dict[int, int] = {}
        self.parts: tuple[Tensor, ...] = ()

    def __reduce__(self) -> tuple[type[_Memory], tuple[()]]:
        """Return an empty cache if the policy is copied or sent to another process."""
        return _Memory, ()

    def clear(self, versions: tuple[int, ...]) -> None:
        """Empty the cache."""
        self.versions, self.places, self.parts = versions, {}, ()


class GraphPolicy(Policy):
    """Network that scores candidates by their node, their job and the whole system, with shared weights.

    Parameters
    ----------
    kind : {"messages", "local"}
        Kind of embedding.
    rng : numpy.random.Generator
        Random generator for the initial weights.
    width : int
        Length of an embedding and of a summary, D.
    hidden : sequence of int
        Numbers of units of the hidden layers of the scores and of the critic.
    """

    def __init__(
        self, kind: Kind, rng: np.random.Generator, *, width: int = 8, hidden: Sequence[int] = (32, 16, 8)
    ) -> None:
        super().__init__()
        self.kind = kind
        self.width = width
        node, job, whole = len(FIXED_FEATURES), len(JOB_FEATURES), width + len(SYSTEM_GRAPH_FEATURES)
        self.embedding = NodeEmbedding(kind, node, width, rng)
        self.of_node = initialized(mlp([node + width, 16, width], Activation), rng)
        self.of_job = initialized(mlp([job + width, 16, width], Activation), rng)
        scored = node + width + job + width + len(CANDIDATE_FEATURES) + whole
        self.score = initialized(mlp([scored, *hidden, 1], Activation), rng, 0.1)
        self.wait = initialized(mlp([whole, *hidden, 1], Activation), rng, 0.1)
        last = self.wait[-1]
        assert isinstance(last, nn.Linear)
        nn.init.constant_(last.bias, -2.0)  # a new network rarely waits if it can assign a node
        self.critic = initialized(mlp([whole, *hidden, 1], Activation), rng)
        self._memory = _Memory()

    def train(self, mode: bool = True) -> GraphPolicy:
        """Set training or evaluation mode; empty the cache."""
        self._memory.clear(())
        return super().train(mode)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution over the actions, and the values, shape (B,)."""
        mask = observations[ACTION_MASK]
        system = observations["system"]
        scores, whole = self._scores(observations, system)
        room = observations["candidates"].shape[1]
        if mask.shape[1] > room:
            scores = torch.cat([scores, self.wait(whole)], dim=1)
        return MaskedCategorical(scores, mask), cast(Tensor, self.critic(whole)).squeeze(-1)

    def _scores(self, observations: Observations, system: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of all candidates, shape (B, C), and the summary of the system, shape (B, D + S)."""
        present = observations["present"].bool()
        has_nodes = present.any(-1)
        batch, places = has_nodes.nonzero(as_tuple=True)  # the P jobs
        look_up = self._embed if torch.is_grad_enabled() else self._recall
        graph_of_job, (own, embedded, of_nodes) = look_up(observations, batch, places)
        jobs = _picked(observations["jobs"], batch, places)
        left = _picked(observations["unassigned"], batch, places).to(own.dtype).unsqueeze(-1)
        summary = (of_nodes.index_select(0, graph_of_job) * left).sum(1) / left.sum(1).clamp(min=1.0)
        summary = self.of_job(torch.cat([jobs, summary], dim=1))
        counts = has_nodes.sum(1, keepdim=True).clamp(min=1).to(own.dtype)
        of_jobs = own.new_zeros(len(present), self.width).index_add(0, batch, summary) / counts
        whole = torch.cat([of_jobs, system], dim=1)
        rows, slots = (observations["candidate_nodes"][:, :, 0] >= 0).nonzero(as_tuple=True)
        at = _picked(observations["candidate_nodes"], rows, slots).long()
        index = torch.zeros(present.shape[:2], dtype=torch.long, device=own.device)
        index[batch, places] = torch.arange(len(batch), device=own.device)
        job = index[rows, at[:, 0]]
        graph = graph_of_job[job]
        known = _picked(observations["candidates"], rows, slots)
        nodes = (_picked(own, graph, at[:, 1]), _picked(embedded, graph, at[:, 1]))
        parts = [*nodes, jobs.index_select(0, job), summary.index_select(0, job), known, whole.index_select(0, rows)]
        found = self.score(torch.cat(parts, dim=1)).squeeze(-1)
        scores = torch.full(observations["candidates"].shape[:2], -1e9, dtype=own.dtype, device=own.device)
        return scores.index_put((rows, slots), found), whole

    def _embed(
        self, observations: Observations, batch: Tensor, places: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Embed each graph once, even if several observations contain it.

        Return the graph index of each job, shape (P,), and for the U graphs the features, embeddings and summary inputs
        of their nodes, shape (U, N, F), (U, N, D) and (U, N, D).
        """
        keys, graph_of_job = torch.unique(_picked(observations["keys"], batch, places), return_inverse=True)
        one = torch.zeros(len(keys), dtype=torch.long, device=keys.device)
        one[graph_of_job] = torch.arange(len(graph_of_job), device=keys.device)
        return graph_of_job, self._embedded(observations, batch[one], places[one])

    def _recall(
        self, observations: Observations, batch: Tensor, places: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Return the same while the policy acts, with the cache for jobs seen before with the same weights."""
        memory = self._memory
        if not memory.parameters:
            memory.parameters = [*self.embedding.parameters(), *self.of_node.parameters()]
        versions = versions_of(memory.parameters)
        keys = _picked(observations["keys"], batch, places).tolist()
        if versions != memory.versions or len(memory.places) > MOST_KNOWN:
            memory.clear(versions)
        new = {key: number for number, key in enumerate(keys) if key not in memory.places}
        if new:
            one = torch.tensor(list(new.values()), device=batch.device)
            found = self._embedded(observations, batch[one], places[one])
            memory.places |= {key: len(memory.places) + number for number, key in enumerate(new)}
            memory.parts = tuple(map(torch.cat, zip(memory.parts, found, strict=True))) if memory.parts else found
        own, embedded, of_nodes = memory.parts
        return torch.tensor([memory.places[key] for key in keys], device=batch.device), (own, embedded, of_nodes)

    def _embedded(self, observations: Observations, batch: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return features, embeddings and summary inputs of the nodes of some graphs."""
        present = _picked(observations["present"], batch, places).bool()
        own = _picked(observations["nodes"], batch, places)
        edges = _picked(observations["edges"], batch, places).long()
        there = edges[:, :, 0] >= 0
        counts = present.sum(1)
        first = counts.cumsum(0) - counts
        flat = (edges + first[:, None, None])[there]
        embedded = own.new_zeros(*present.shape, self.width)
        embedded[present] = self.embedding(
            own[present], flat, _picked(observations["edge_times"], batch, places)[there]
        )
        return own, embedded, self.of_node(torch.cat([own, embedded], dim=2))


def _picked(tensor: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """Return ``tensor[rows, places]``; ``index_select`` is much faster, also in the backward pass."""
    return tensor.flatten(0, 1).index_select(0, rows * tensor.shape[1] + places)


#: Names in PyTorch Geometric of arrays that it interprets.
NAMES = {"nodes": "x", "edges": "edge_index", "edge_times": "edge_attr"}


def to_data(graph: SystemGraph) -> Data:
    """Return a graph as PyTorch Geometric data.

    Parameters
    ----------
    graph : SystemGraph
        Graph from :meth:`desim.problems.dag.graph_encoder.GraphEncoder.graph`.

    Returns
    -------
    torch_geometric.data.Data
        ``x`` (n, F); ``edge_index`` (2, e), from parent to child; ``edge_attr`` (e, 1); ``job`` (n,), the job of each
        node; and all other arrays under their own names.
    """
    tensors = {one.name: torch.from_numpy(np.array(getattr(graph, one.name))) for one in fields(graph)}
    tensors["edges"] = tensors["edges"].T.contiguous()
    tensors["edge_times"] = tensors["edge_times"][:, None]
    named = {NAMES.get(name, name): tensor for name, tensor in tensors.items()}
    return Data(**named, job=torch.from_numpy(graph.job_of_node), num_nodes=len(graph.nodes))


def from_data(data: Data) -> SystemGraph:
    """Return a graph from PyTorch Geometric data.

    Parameters
    ----------
    data : torch_geometric.data.Data
        Data from :func:`to_data`.

    Returns
    -------
    SystemGraph
        Graph with equal arrays.
    """
    arrays = {one.name: data[NAMES.get(one.name, one.name)].numpy() for one in fields(SystemGraph)}
    arrays["edges"] = np.ascontiguousarray(arrays["edges"].T)
    arrays["edge_times"] = arrays["edge_times"][:, 0]
    return SystemGraph(**arrays)
