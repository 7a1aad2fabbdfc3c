"""The actor-critic network of desim's own graph agents: it scores the nodes that may be assigned.

It grew out of that of LACHESIS (Luo et al., section IV), which :mod:`desim.agents.dag.printed` has as it is printed.
Here messages go up level by level; there are features of when a node would finish; job and global summaries are means,
not sums, so that they stay within bounds in systems of all sizes, the numbers being features of their own; the job
summary takes in nodes without an executor only; and there may be an action to wait.
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
    """The embedding; all levels share their weights.

    With x_n a linear map of the features of node n, e_n = g[sum of e_u over the children] + h[sum of a_u over the edges
    to them] + x_n; a leaf has e_n = x_n. So has every node if the kind is "local": no sums then, which grow with graphs
    that are larger than those that were learned from; what a node's rank tells of its descendants is all that is known
    of them.

    Parameters
    ----------
    kind : {"messages", "local"}
        Whether nodes hear of their children.
    num_features : int
        Features of a node, F.
    width : int
        Numbers in an embedding, D.
    rng : numpy.random.Generator
        For the weights.
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
        """Return what a child tells its parent, with the number of the edge behind it, shape (e, D + 1).

        Parameters
        ----------
        x_j : Tensor, shape (e, D)
            Embeddings of the children.
        known : Tensor, shape (e, 1)
            Of the edges.
        """
        return torch.cat([x_j, known], dim=1)


Kind = Literal["messages", "local"]
"""Whether a network passes messages from children to parents, or none; both see the same."""


MOST_KNOWN = 4_096
"""Jobs that are kept in mind while a policy acts."""


class _Memory:
    """What a policy has computed of jobs while it acts: their graphs stay the same until it has learned.

    Attributes
    ----------
    parameters : list of torch.nn.Parameter
        The weights that play a part; to look for them takes longer than to see whether they have changed.
    versions : tuple of int
        Of these weights.
    places : dict of int to int
        Row of each job, by its key.
    parts : tuple of Tensor
        Features, embeddings and what is summed up of nodes, of shape (jobs, N, ...); empty if nothing is known.
    """

    def __init__(self) -> None:
        self.parameters: list[nn.Parameter] = []
        self.versions: tuple[int, ...] = ()
        self.places: dict[int, int] = {}
        self.parts: tuple[Tensor, ...] = ()

    def __reduce__(self) -> tuple[type[_Memory], tuple[()]]:
        """Leave behind what is known when a policy is copied or sent to another process."""
        return _Memory, ()

    def clear(self, versions: tuple[int, ...]) -> None:
        """Forget all."""
        self.versions, self.places, self.parts = versions, {}, ()


class GraphPolicy(Policy):
    """Scores candidates from their node, their job and the whole system, with the same weights.

    Parameters
    ----------
    kind : {"messages", "local"}
        Which embedding.
    rng : numpy.random.Generator
        For the weights.
    width : int
        Numbers in an embedding or a summary, D.
    hidden : sequence of int
        Units of the layers that score, and of those that value.
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
        nn.init.constant_(last.bias, -2.0)  # begins by assigning what it can
        self.critic = initialized(mlp([whole, *hidden, 1], Activation), rng)
        self._memory = _Memory()

    def train(self, mode: bool = True) -> GraphPolicy:
        """Begin to learn, or to act only; nothing is kept in mind from what was before."""
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
        batch, places = has_nodes.nonzero(as_tuple=True)  # the jobs, P of them
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
        """Embed every graph once, though many observations may show it.

        Returns which graph each job is, shape (P,), and of the graphs the features and embeddings of their nodes, and
        what is summed up of these, shape (U, N, F), (U, N, D) and (U, N, D).
        """
        keys, graph_of_job = torch.unique(_picked(observations["keys"], batch, places), return_inverse=True)
        one = torch.zeros(len(keys), dtype=torch.long, device=keys.device)
        one[graph_of_job] = torch.arange(len(graph_of_job), device=keys.device)
        return graph_of_job, self._embedded(observations, batch[one], places[one])

    def _recall(
        self, observations: Observations, batch: Tensor, places: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Do the same while the policy acts, with jobs that it has seen before with these weights in mind."""
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
        """Return features, embeddings and what is summed up of the nodes of some graphs."""
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
    """Return ``tensor[rows, places]``: ``index_select`` copies blocks, and adds their gradients up, much faster."""
    return tensor.flatten(0, 1).index_select(0, rows * tensor.shape[1] + places)


#: The names that PyTorch Geometric has for what it knows of.
NAMES = {"nodes": "x", "edges": "edge_index", "edge_times": "edge_attr"}


def to_data(graph: SystemGraph) -> Data:
    """Return a graph for PyTorch Geometric.

    Parameters
    ----------
    graph : SystemGraph
        Of :meth:`desim.problems.dag.graph_encoder.GraphEncoder.graph`.

    Returns
    -------
    torch_geometric.data.Data
        ``x`` (n, F), ``edge_index`` (2, e) from parent to child, ``edge_attr`` (e, 1), ``job`` (n,), the job of each
        node, and all other arrays under their own names.
    """
    tensors = {one.name: torch.from_numpy(np.array(getattr(graph, one.name))) for one in fields(graph)}
    tensors["edges"] = tensors["edges"].T.contiguous()
    tensors["edge_times"] = tensors["edge_times"][:, None]
    named = {NAMES.get(name, name): tensor for name, tensor in tensors.items()}
    return Data(**named, job=torch.from_numpy(graph.job_of_node), num_nodes=len(graph.nodes))


def from_data(data: Data) -> SystemGraph:
    """Return the graph that was given to PyTorch Geometric.

    Parameters
    ----------
    data : torch_geometric.data.Data
        Of :func:`to_data`.

    Returns
    -------
    SystemGraph
        With equal arrays.
    """
    arrays = {one.name: data[NAMES.get(one.name, one.name)].numpy() for one in fields(SystemGraph)}
    arrays["edges"] = np.ascontiguousarray(arrays["edges"].T)
    arrays["edge_times"] = arrays["edge_times"][:, 0]
    return SystemGraph(**arrays)
