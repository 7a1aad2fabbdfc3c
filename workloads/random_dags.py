"""Task graphs for the problem ``dag``: random ones in layers, and those of well-known programs.

:func:`generate` follows the random graph generator of H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and
low-complexity task scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002, section 5, and leaves no part
unconnected. The graphs of programs have exact numbers of nodes and edges; their work and data are equal everywhere,
until :func:`with_random_work` and :func:`with_ccr` draw others.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from desim.exceptions import InvalidConfiguration
from desim.problems.dag.job import Job
from desim.workloads._edge_sizes import rebuilt, with_ccr
from desim.workloads._named_streams import NamedStreams, number, whole_number
from desim.workloads._program_dags import chain, fft, fork_join, gaussian_elimination, in_tree, out_tree

__all__ = [
    "chain",
    "fft",
    "fork_join",
    "gaussian_elimination",
    "generate",
    "in_tree",
    "out_tree",
    "with_ccr",
    "with_random_work",
]

Pairs = list[tuple[int, int]]


def generate(
    num_nodes: int,
    *,
    shape: float = 1.0,
    out_degree: int = 3,
    ccr: float = 1.0,
    mean_work: float = 1.0,
    heterogeneity: float = 0.5,
    num_executors: int | None = None,
    transfer_speed: float = 1.0,
    job_id: int = 0,
    seed: int | Generator = 0,
) -> Job:
    """Draw a random graph in layers.

    The number of layers is drawn around sqrt(v) / shape and their widths around shape sqrt(v), both between half and
    one and a half of that, so that the numbers of nodes add up to v. Each node after the first layer has a parent in
    the layer before it, hence the graph is as deep as it has layers; each node before the last one has as many children
    in later layers as `out_degree` says, unless fewer nodes are left. It has more where the next layer has more nodes
    than their parents may have children, or where an edge more is needed to connect two parts.

    Parameters
    ----------
    num_nodes : int
        Number of nodes, v.
    shape : float
        Shape parameter, alpha: above 1 the graph is wide, below 1 it is long.
    out_degree : int
        Number of children of a node.
    ccr : float
        Communication-to-computation ratio, see :func:`with_ccr`.
    mean_work : float
        Mean over all jobs of the work of a node: that of a single node is uniform between 0 and twice this.
    heterogeneity : float
        Range of computation costs, beta, between 0 and 2: with `num_executors`, a node of work w takes between
        w (1 - beta / 2) and w (1 + beta / 2) seconds on each executor, uniformly. Without, it plays no part.
    num_executors : int, optional
        Number of unrelated executors for which run times are drawn; if left out a node takes work / speed.
    transfer_speed : float
        Units of data per second with which transfers count for the ratio.
    job_id : int
        Identifier of the job.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once. Graph, work, run times and edge sizes have random streams of
        their own.

    Returns
    -------
    Job
        Connected, submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Examples
    --------
    >>> job = generate(40, shape=0.5, ccr=2.0, seed=7)
    >>> job.num_nodes, round(float(job.parent_size.mean() / job.work.mean()), 9)
    (40, 2.0)
    """
    count = whole_number("num_nodes", num_nodes)
    degree = whole_number("out_degree", out_degree)
    number("shape", shape, above=True)
    number("mean_work", mean_work)
    streams = NamedStreams(seed)
    rng = streams("random_dags.graph")
    pairs = _layered(rng, _widths(rng, count, shape), degree)
    job = Job(
        job_id,
        np.full(count, float(mean_work)),
        [(parent, child, 0.0) for parent, child in pairs],
        label=f"random-{count}",
    )
    job = with_random_work(
        job,
        mean_work,
        rng=streams("random_dags.work"),
        heterogeneity=heterogeneity,
        num_executors=num_executors,
        run_time_rng=streams("random_dags.run_times"),
    )
    return with_ccr(job, ccr, rng=streams("random_dags.edge_sizes"), transfer_speed=transfer_speed)


def with_random_work(
    job: Job,
    mean_work: float = 1.0,
    *,
    rng: Generator,
    heterogeneity: float = 0.5,
    num_executors: int | None = None,
    run_time_rng: Generator | None = None,
) -> Job:
    """Return a job with the same graph and data, whose nodes have random work.

    Parameters
    ----------
    job : Job
        The job.
    mean_work : float
        The work of each node is uniform between 0 and twice this.
    rng : numpy.random.Generator
        Source of randomness.
    heterogeneity : float
        With `num_executors`: a node of work w takes between w (1 - heterogeneity / 2) and w (1 + heterogeneity / 2)
        seconds on each executor, uniformly; between 0 and 2.
    num_executors : int, optional
        Number of unrelated executors for which run times are drawn.
    run_time_rng : numpy.random.Generator, optional
        Source of randomness for the run times; `rng` if left out.

    Returns
    -------
    Job
        A new one.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    number("mean_work", mean_work)
    if number("heterogeneity", heterogeneity) > 2:
        raise InvalidConfiguration(f"heterogeneity is {heterogeneity!r}, want a number between 0 and 2")
    work = rng.uniform(0, 2 * mean_work, job.num_nodes)
    if num_executors is None:
        return rebuilt(job, work=work)
    size = (job.num_nodes, whole_number("num_executors", num_executors))
    factors = (run_time_rng or rng).uniform(1 - heterogeneity / 2, 1 + heterogeneity / 2, size)
    return rebuilt(job, work=work, run_times=work[:, None] * factors)


def _widths(rng: Generator, count: int, shape: float) -> list[int]:
    """Return the number of nodes of each layer."""
    if count == 1:
        return [1]
    num_layers = round(rng.uniform(0.5, 1.5) * math.sqrt(count) / shape)
    num_layers = min(max(num_layers, 2), count)
    # Each layer has one node at least; the rest is dealt out in proportion, the largest remainders rounded up.
    share = rng.uniform(0.5, 1.5, num_layers)
    exact = share / share.sum() * (count - num_layers)
    widths = np.floor(exact).astype(np.int64)
    missing = count - num_layers - int(widths.sum())
    widths[np.argsort(widths - exact, kind="stable")[:missing]] += 1
    return [int(width) + 1 for width in widths]


def _layered(rng: Generator, widths: list[int], out_degree: int) -> Pairs:
    """Return the edges, each from a lower to a higher number."""
    starts = [0, *np.cumsum(widths).tolist()]
    layers = [range(first, last) for first, last in pairwise(starts)]
    children: list[list[int]] = [[] for _ in range(starts[-1])]
    for above, layer in pairwise(layers):
        free = list(above)
        for node in layer:
            parents = free or above
            place = int(rng.integers(len(parents)))
            parent = parents[place]
            children[parent].append(node)
            if free and len(children[parent]) == out_degree:
                free[place] = free[-1]
                free.pop()
    for layer in layers:
        for node in layer:
            _top_up(rng, children[node], range(layer.stop, starts[-1]), out_degree)
    _connect(rng, children, widths[0])
    return [(parent, child) for parent, others in enumerate(children) for child in sorted(others)]


def _top_up(rng: Generator, children: list[int], later: range, out_degree: int) -> None:
    """Give a node further children among the later ones, each at most once."""
    missing = min(out_degree, len(later)) - len(children)
    if missing <= 0:
        return
    have = set(children)
    drawn = rng.choice(len(later), size=missing + len(have), replace=False).tolist()
    children.extend([later[index] for index in drawn if later[index] not in have][:missing])


def _connect(rng: Generator, children: list[list[int]], num_sources: int) -> None:
    """Add an edge from each part to the one before it until there is only one part.

    Every part has nodes in the first layer and behind it. An edge from the former to the latter moves no node to
    another layer.
    """
    if len(children) == 1:
        return
    part = _part_of(children)
    parts: dict[int, list[int]] = {}
    for node, representative in enumerate(part):
        parts.setdefault(representative, []).append(node)
    for before, this in pairwise(parts.values()):
        targets = [node for node in before if node >= num_sources]
        children[this[0]].append(targets[int(rng.integers(len(targets)))])


def _part_of(children: list[list[int]]) -> list[int]:
    """Return for each node the representative of its connected part."""
    root = list(range(len(children)))

    def find(node: int) -> int:
        """Follow the links to the representative, and shorten them."""
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for node, others in enumerate(children):
        for other in others:
            first, second = sorted((find(node), find(other)))
            root[second] = first
    return [find(node) for node in range(len(children))]
