"""The network of :mod:`desim.agents.dag.graph_policy` in NumPy, for decisions one at a time.

What belongs to a node is computed once, when its job arrives, up to its share of the first layer that scores it; what
belongs to a job, when another of its nodes is assigned. Calls of a few microseconds are where torch spends more time on
the way than at work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag.graph_policy import GraphPolicy
from desim.agents.learning.numpy_mlp import NumpyMLP
from desim.problems.dag.features import JobGraph

__all__ = ["EmbeddedJob", "GraphNetwork"]

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class EmbeddedJob:
    """What a network needs of the nodes of one job.

    Attributes
    ----------
    told : array of float, shape (num_nodes, D)
        What each node adds to the summary of its job.
    scored : array of float, shape (num_nodes, 32)
        The share of each node in the first layer that scores it.
    """

    told: Floats
    scored: Floats


class GraphNetwork:
    """The trained network.

    Parameters
    ----------
    policy : GraphPolicy
        Later changes of its weights have no effect.
    """

    def __init__(self, policy: GraphPolicy) -> None:
        self.kind = policy.kind
        self.inputs, self.width = policy.inputs, policy.width
        embedding = policy.embedding
        self._prepare, self._gather, self._other = map(NumpyMLP, (embedding.prepare, embedding.gather, embedding.other))
        self._of_node, self._of_job = NumpyMLP(policy.of_node), NumpyMLP(policy.of_job)
        self._score, self._wait = NumpyMLP(policy.score), NumpyMLP(policy.wait)
        first, self._bias = self._score.layers[0]
        inputs, width = self.inputs, self.width
        lengths = len(inputs.nodes) + width, len(inputs.jobs) + width, len(inputs.candidates)
        self._by_node, self._by_job, self._by_candidate, self._by_whole = np.split(first, np.cumsum(lengths).tolist())

    def embed(self, graphs: Sequence[JobGraph]) -> list[EmbeddedJob]:
        """Embed the nodes of jobs.

        Parameters
        ----------
        graphs : sequence of JobGraph
            At least one; all are embedded together.
        """
        starts = np.cumsum([0, *(len(graph.nodes) for graph in graphs)])
        own = np.concatenate([graph.nodes for graph in graphs])[:, self.inputs.nodes]
        edges = np.concatenate([graph.edges + begin for graph, begin in zip(graphs, starts[:-1], strict=True)])
        times = np.concatenate([graph.edge_times for graph in graphs])
        embedded = self._embed(own, edges, times)
        both = np.concatenate([own, embedded], axis=1)
        told, scored = self._of_node(both), both @ self._by_node
        return [EmbeddedJob(told[a:b], scored[a:b]) for a, b in pairwise(starts.tolist())]

    def _embed(self, nodes: Floats, edges: NDArray[np.int64], times: Floats) -> Floats:
        own = self._prepare(nodes)
        levels = np.zeros(len(nodes), np.int64)
        for parent, child in reversed(edges.tolist()):  # in topological order
            levels[parent] = max(levels[parent], levels[child] + 1)
        embedded = own.copy()
        for level in range(1, int(levels.max()) + 1):
            chosen = levels[edges[:, 0]] == level
            parents, children = edges[chosen].T
            heard = embedded[children]
            total = np.zeros_like(own)
            np.add.at(total, parents, self._other(heard) if self.kind == "decima" else heard)
            here = levels == level
            embedded[here] = self._gather(total[here]) + own[here]
            if self.kind == "lachesis":
                known = np.zeros((len(nodes), 1), np.float32)
                np.add.at(known[:, 0], parents, times[chosen])
                embedded[here] += self._other(known[here])
        return embedded

    def describe(self, jobs: Floats, told: Floats, system: Floats) -> tuple[Floats, Floats]:
        """Return the shares of jobs in the first layer that scores their nodes, and the summary of the system.

        Parameters
        ----------
        jobs : array of float, shape (j, G)
            How far they are.
        told : array of float, shape (j, D)
            The means of what their nodes without an executor tell.
        system : array of float, shape (S,)
            Of the whole.

        Returns
        -------
        tuple of arrays of float, shape (j, 32) and (D + S,)
            The shares hold that of the system as well.
        """
        known = jobs[:, self.inputs.jobs]
        summary = self._of_job(np.concatenate([known, told], axis=1))
        whole = np.concatenate([summary.mean(axis=0), system[self.inputs.system]])
        shares = np.concatenate([known, summary], axis=1) @ self._by_job
        shares += whole @ self._by_whole + self._bias
        return shares, whole

    def scores(self, shares: Floats, candidates: Floats) -> Floats:
        """Return the scores of candidates, shape (c,).

        Parameters
        ----------
        shares : array of float, shape (c, 32)
            Of their nodes and jobs in the first layer.
        candidates : array of float, shape (c, K)
            What is expected of them.
        """
        if self.inputs.candidates:
            shares = shares + candidates[:, self.inputs.candidates] @ self._by_candidate
        found: Floats = self._score.after_first(shares)[:, 0]
        return found

    def wait_score(self, whole: Floats) -> float:
        """Return the score of waiting.

        Parameters
        ----------
        whole : array of float, shape (D + S,)
            Of :meth:`describe`.
        """
        return float(self._wait(whole)[0])
