"""The jobs in the system as one graph in arrays: of the length that they have, or padded to constant shapes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

__all__ = ["GraphSizes", "SystemGraph", "padded", "padded_jobs", "padded_progress", "unpadded"]

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class GraphSizes:
    """How much room there is in padded arrays.

    Parameters
    ----------
    jobs : int
        Jobs, J.
    nodes : int
        Nodes of a job, N.
    edges : int
        Edges of a job, E.
    candidates : int
        Executable nodes, C.

    Raises
    ------
    InvalidConfiguration
        If a number is not above 0, or that of the edges below 0.
    """

    jobs: int = 24
    nodes: int = 18
    edges: int = 24
    candidates: int = 64

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if not (self.jobs >= 1 and self.nodes >= 1 and self.edges >= 0 and self.candidates >= 1):
            raise InvalidConfiguration(f"{self!r}: want at least 1 of each, and no fewer than 0 edges")


@dataclass(frozen=True)
class SystemGraph:
    """The jobs in the system, j of them with n nodes and e edges in all, and the c nodes that may be assigned.

    Attributes
    ----------
    job_start : array of int, shape (j + 1,)
        Job k has the nodes from ``job_start[k]`` to before ``job_start[k + 1]``, in topological order.
    edge_start : array of int, shape (j + 1,)
        And the edges from ``edge_start[k]``.
    keys : array of int, shape (j,)
        Equal for jobs whose nodes and edges are described by the same numbers.
    nodes : array of float, shape (n, F)
        What does not change while a job runs.
    edges : array of int, shape (e, 2)
        Parent and child, as rows of ``nodes``.
    edge_times : array of float, shape (e,)
        How long data take.
    unassigned : array of bool, shape (n,)
        Which nodes have no executor yet.
    jobs : array of float, shape (j, G)
        How far the jobs are.
    candidate_nodes : array of int, shape (c,)
        The nodes that may be assigned, as rows of ``nodes``.
    candidates : array of float, shape (c, K)
        What is expected of them now.
    system : array of float, shape (S,)
        Of the whole.
    """

    job_start: Whole
    edge_start: Whole
    keys: Whole
    nodes: Floats
    edges: Whole
    edge_times: Floats
    unassigned: NDArray[np.bool_]
    jobs: Floats
    candidate_nodes: Whole
    candidates: Floats
    system: Floats

    @property
    def job_of_node(self) -> Whole:
        """The job of each node, shape (n,)."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.job_start))

    def equals(self, other: SystemGraph) -> bool:
        """Tell whether all arrays are the same."""
        return all(np.array_equal(getattr(self, one.name), getattr(other, one.name)) for one in fields(self))


def padded(graph: SystemGraph, sizes: GraphSizes) -> dict[str, NDArray[Any]]:
    """Return a graph as arrays of constant shapes.

    Parameters
    ----------
    graph : SystemGraph
        Within the sizes.
    sizes : GraphSizes
        Room.

    Returns
    -------
    dict of str to numpy.ndarray
        Of :func:`padded_jobs` and :func:`padded_progress`.

    Raises
    ------
    InvalidConfiguration
        If it does not fit.
    """
    return padded_jobs(graph, sizes) | padded_progress(graph, sizes)


def padded_jobs(graph: SystemGraph, sizes: GraphSizes) -> dict[str, NDArray[Any]]:
    """Return what does not change while the same jobs are in the system.

    Parameters
    ----------
    graph : SystemGraph
        Within the sizes.
    sizes : GraphSizes
        Room.

    Returns
    -------
    dict of str to numpy.ndarray
        ``keys`` (J,), ``nodes`` (J, N, F), ``edges`` (J, E, 2) with the numbers of nodes in their jobs, ``edge_times``
        (J, E) and ``present`` (J, N). What is empty is 0, in ``edges`` -1.

    Raises
    ------
    InvalidConfiguration
        If it does not fit.
    """
    counts, edge_counts = np.diff(graph.job_start), np.diff(graph.edge_start)
    num_nodes, num_edges = int(counts.max(initial=0)), int(edge_counts.max(initial=0))
    if len(counts) > sizes.jobs or num_nodes > sizes.nodes or num_edges > sizes.edges:
        raise InvalidConfiguration(
            f"{len(counts)} jobs of up to {num_nodes} nodes and {num_edges} edges do not fit into {sizes!r}"
        )
    job, edge_job = graph.job_of_node, np.repeat(np.arange(len(counts)), edge_counts)
    place = np.arange(len(graph.nodes)) - graph.job_start[job]
    edge_place = np.arange(len(graph.edges)) - graph.edge_start[edge_job]
    arrays: dict[str, NDArray[Any]] = {
        "keys": np.zeros(sizes.jobs, np.int64),
        "nodes": np.zeros((sizes.jobs, sizes.nodes, graph.nodes.shape[1]), np.float32),
        "edges": np.full((sizes.jobs, sizes.edges, 2), -1, np.int16),
        "edge_times": np.zeros((sizes.jobs, sizes.edges), np.float32),
        "present": np.zeros((sizes.jobs, sizes.nodes), np.int8),
    }
    arrays["keys"][: len(counts)] = graph.keys
    arrays["nodes"][job, place] = graph.nodes
    arrays["present"][job, place] = 1
    arrays["edges"][edge_job, edge_place] = graph.edges - graph.job_start[edge_job, None]
    arrays["edge_times"][edge_job, edge_place] = graph.edge_times
    return arrays


def padded_progress(graph: SystemGraph, sizes: GraphSizes) -> dict[str, NDArray[Any]]:
    """Return what changes from decision to decision.

    Parameters
    ----------
    graph : SystemGraph
        Within the sizes.
    sizes : GraphSizes
        Room.

    Returns
    -------
    dict of str to numpy.ndarray
        ``unassigned`` (J, N), ``jobs`` (J, G), ``candidate_nodes`` (C, 2) with job and node, ``candidates`` (C, K) and
        ``system`` (S,). What is empty is 0, in ``candidate_nodes`` -1.

    Raises
    ------
    InvalidConfiguration
        If there are too many candidates.
    """
    count = len(graph.candidates)
    if count > sizes.candidates:
        raise InvalidConfiguration(f"{count} candidates do not fit into {sizes!r}")
    arrays: dict[str, NDArray[Any]] = {
        "unassigned": np.zeros((sizes.jobs, sizes.nodes), np.int8),
        "jobs": np.zeros((sizes.jobs, graph.jobs.shape[1]), np.float32),
        "candidate_nodes": np.full((sizes.candidates, 2), -1, np.int16),
        "candidates": np.zeros((sizes.candidates, graph.candidates.shape[1]), np.float32),
        "system": graph.system.copy(),
    }
    job = graph.job_of_node
    shown = job[graph.candidate_nodes]
    arrays["unassigned"][job, np.arange(len(job)) - graph.job_start[job]] = graph.unassigned
    arrays["jobs"][: len(graph.jobs)] = graph.jobs
    arrays["candidate_nodes"][:count, 0] = shown
    arrays["candidate_nodes"][:count, 1] = graph.candidate_nodes - graph.job_start[shown]
    arrays["candidates"][:count] = graph.candidates
    return arrays


def unpadded(arrays: dict[str, NDArray[Any]]) -> SystemGraph:
    """Return the graph that was padded.

    Parameters
    ----------
    arrays : dict of str to numpy.ndarray
        Of :func:`padded`.

    Returns
    -------
    SystemGraph
        With nothing empty in it.
    """
    present = arrays["present"].astype(bool)
    counts = present.sum(1)
    num_jobs = int(np.count_nonzero(counts))
    job_start = np.concatenate([[0], np.cumsum(counts[:num_jobs])])
    there = arrays["edges"][:, :, 0] >= 0
    edge_start = np.concatenate([[0], np.cumsum(there.sum(1)[:num_jobs])])
    job_of_edge = np.repeat(np.arange(num_jobs), np.diff(edge_start))
    shown = arrays["candidate_nodes"][arrays["candidate_nodes"][:, 0] >= 0].astype(np.int64)
    return SystemGraph(
        job_start=job_start,
        edge_start=edge_start,
        keys=arrays["keys"][:num_jobs],
        nodes=arrays["nodes"][present],
        edges=arrays["edges"][there].astype(np.int64) + job_start[job_of_edge, None],
        edge_times=arrays["edge_times"][there],
        unassigned=arrays["unassigned"][present].astype(bool),
        jobs=arrays["jobs"][:num_jobs],
        candidate_nodes=job_start[shown[:, 0]] + shown[:, 1],
        candidates=arrays["candidates"][: len(shown)],
        system=arrays["system"],
    )
