"""Task graphs for the problem ``dag``: random layered graphs, and the graphs of well-known programs.

:func:`generate` follows the random graph generator of H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and
low-complexity task scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002, section 5, and additionally makes
all graphs connected. The graphs of programs have exact numbers of nodes and edges; all their nodes have equal work and
all their edges equal data, until :func:`with_random_work` and :func:`with_ccr` sample other values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.job import Job
from desim.workloads.streams import NamedStreams

__all__ = [
    "chain",
    "cholesky",
    "fft",
    "fork_join",
    "gaussian_elimination",
    "generate",
    "in_tree",
    "montage",
    "out_tree",
    "part_of",
    "with_ccr",
    "with_random_work",
]

Pairs = list[tuple[int, int]]
Floats = NDArray[np.float64]


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
    """Generate a random layered graph.

    The number of layers is uniform around sqrt(v) / shape, and their widths around shape sqrt(v), both between 0.5 and
    1.5 times that, with the widths adjusted so that the numbers of nodes add up to v. Each node after the first layer
    has a parent in the previous layer, so the depth of the graph is its number of layers. Each node before the last
    layer has `out_degree` children in later layers, or all later nodes if they are fewer. It has more children where
    the next layer has more nodes than `out_degree` allows, or where an extra edge is needed to connect two components.

    Parameters
    ----------
    num_nodes : int
        Number of nodes v.
    shape : float
        Shape parameter alpha: graphs are wide above 1 and long below 1.
    out_degree : int
        Number of children of a node.
    ccr : float
        Communication-to-computation ratio, see :func:`with_ccr`.
    mean_work : float
        Mean work of a node over all jobs; the work of a single node is uniform between 0 and twice this.
    heterogeneity : float
        Range of computation costs beta, between 0 and 2: with `num_executors`, a node of work w takes a time on each
        executor that is uniform between w (1 - beta / 2) and w (1 + beta / 2) seconds. Otherwise it is ignored.
    num_executors : int, optional
        Number of unrelated executors for which run times are sampled. By default, a node takes work / speed.
    transfer_speed : float
        Transfer speed for which the ratio holds, in units of data per second.
    job_id : int
        Id of the job.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once. Graph, work, run times and edge sizes have independent
        random streams.

    Returns
    -------
    Job
        Connected job, submitted at time 0.

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
    count = check_int("num_nodes", num_nodes, least=1)
    degree = check_int("out_degree", out_degree, least=1)
    check_float("shape", shape, above=0)
    check_float("mean_work", mean_work, least=0)
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
    """Return a job with the same graph and data, but random work of its nodes.

    Parameters
    ----------
    job : Job
        Job whose graph is used.
    mean_work : float
        Mean work of a node; the work is uniform between 0 and twice this.
    rng : numpy.random.Generator
        Source of randomness.
    heterogeneity : float
        Range of run times, between 0 and 2: with `num_executors`, a node of work w takes a time on each executor that
        is uniform between w (1 - heterogeneity / 2) and w (1 + heterogeneity / 2) seconds.
    num_executors : int, optional
        Number of unrelated executors for which run times are sampled.
    run_time_rng : numpy.random.Generator, optional
        Source of randomness for the run times (default: `rng`).

    Returns
    -------
    Job
        New job with the same graph.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    check_float("mean_work", mean_work, least=0)
    check_float("heterogeneity", heterogeneity, least=0, most=2)
    work = rng.uniform(0, 2 * mean_work, job.num_nodes)
    if num_executors is None:
        return _rebuilt(job, work=work)
    size = (job.num_nodes, check_int("num_executors", num_executors, least=1))
    factors = (run_time_rng or rng).uniform(1 - heterogeneity / 2, 1 + heterogeneity / 2, size)
    return _rebuilt(job, work=work, run_times=work[:, None] * factors)


def _widths(rng: Generator, count: int, shape: float) -> list[int]:
    """Return the number of nodes of each layer."""
    if count == 1:
        return [1]
    num_layers = round(rng.uniform(0.5, 1.5) * math.sqrt(count) / shape)
    num_layers = min(max(num_layers, 2), count)
    # Each layer gets one node; the others are shared out proportionally, rounding up the largest remainders
    share = rng.uniform(0.5, 1.5, num_layers)
    exact = share / share.sum() * (count - num_layers)
    widths = np.floor(exact).astype(np.int64)
    missing = count - num_layers - int(widths.sum())
    widths[np.argsort(widths - exact, kind="stable")[:missing]] += 1
    return [int(width) + 1 for width in widths]


def _layered(rng: Generator, widths: list[int], out_degree: int) -> Pairs:
    """Return the edges, each from a lower to a higher node number."""
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
    """Add children of a node among later nodes, each at most once, up to `out_degree`."""
    missing = min(out_degree, len(later)) - len(children)
    if missing <= 0:
        return
    have = set(children)
    drawn = rng.choice(len(later), size=missing + len(have), replace=False).tolist()
    children.extend([later[index] for index in drawn if later[index] not in have][:missing])


def _connect(rng: Generator, children: list[list[int]], num_sources: int) -> None:
    """Add an edge from each component to the previous one, until the graph is connected.

    Every component has nodes in the first layer and in later ones. An edge from the former to the latter keeps all
    nodes in their layers.
    """
    if len(children) == 1:
        return
    part = part_of(len(children), ((node, child) for node, others in enumerate(children) for child in others))
    parts: dict[int, list[int]] = {}
    for node, representative in enumerate(part):
        parts.setdefault(representative, []).append(node)
    for before, this in pairwise(parts.values()):
        targets = [node for node in before if node >= num_sources]
        children[this[0]].append(targets[int(rng.integers(len(targets)))])


def part_of(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return, for each node, the smallest node of its connected component, ignoring directions.

    Parameters
    ----------
    count : int
        Number of nodes.
    edges : iterable of (int, int)
        Pairs of nodes.

    Returns
    -------
    list of int
        One number per node; equal for nodes of the same component.
    """
    root = list(range(count))

    def find(node: int) -> int:
        """Return the representative of a node's component, and shorten the path to it."""
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for one, other in edges:
        first, second = find(one), find(other)
        root[max(first, second)] = min(first, second)
    return [find(node) for node in range(count)]


def chain(num_nodes: int, *, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return a job whose nodes form a chain.

    Parameters
    ----------
    num_nodes : int
        Number of nodes n; there are n - 1 edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    count = check_int("num_nodes", num_nodes, least=1)
    return _job(
        f"chain-{count}",
        count,
        zip(range(count - 1), range(1, count), strict=True),
        work=work,
        size=size,
        job_id=job_id,
    )


def fork_join(width: int, *, stages: int = 1, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return a job with parallel nodes between a fork and a join, which is also the fork of the next stage.

    Parameters
    ----------
    width : int
        Number w of parallel nodes per stage.
    stages : int
        Number of stages s: there are s (w + 1) + 1 nodes and 2 s w edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    width, stages = check_int("width", width, least=1), check_int("stages", stages, least=1)
    pairs: Pairs = []
    for fork in range(0, stages * (width + 1), width + 1):
        join = fork + width + 1
        for node in range(fork + 1, join):
            pairs += [(fork, node), (node, join)]
    return _job(f"fork-join-{width}x{stages}", stages * (width + 1) + 1, pairs, work=work, size=size, job_id=job_id)


def gaussian_elimination(order: int, *, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return the task graph of Gaussian elimination.

    Each column except the last has a node that finds the pivot, and one node per later column that updates it.
    An update depends on its pivot and on the previous update of the same column; so does the next pivot.

    Parameters
    ----------
    order : int
        Order m of the matrix, >= 2: there are (m^2 + m - 2) / 2 nodes and m^2 - m - 1 edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    Topcuoglu et al. 2002, section 5, after M. Cosnard et al., "Parallel Gaussian elimination on an MIMD computer",
    Parallel Computing 6, 1988.
    """
    order = check_int("order", order, least=2)
    numbers: dict[tuple[int, int], int] = {}
    pairs: Pairs = []
    for step in range(1, order):
        for column in range(step, order + 1):
            node = numbers[step, column] = len(numbers)
            if column > step:
                pairs.append((numbers[step, step], node))
            if step > 1:
                pairs.append((numbers[step - 1, column], node))
    return _job(f"gaussian-{order}", len(numbers), pairs, work=work, size=size, job_id=job_id)


def fft(points: int, *, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return the task graph of the fast Fourier transform: a tree of recursive calls, then the butterflies.

    Parameters
    ----------
    points : int
        Length m of the vector, a power of two >= 2: there are 2 m - 1 calls and m log2(m) butterfly nodes,
        2 m - 2 edges between calls and 2 m log2(m) between butterflies.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    Topcuoglu et al. 2002, section 5; all paths from the root have the same length.
    """
    if check_int("points", points) < 2 or points & (points - 1):
        raise InvalidConfiguration(f"points: got {points}, expected a power of two >= 2")
    calls = 2 * points - 1
    pairs: Pairs = [((node - 1) // 2, node) for node in range(1, calls)]
    layer = list(range(points - 1, calls))
    stride = 1
    while stride < points:
        below = [layer[-1] + 1 + index for index in range(points)]
        for index, node in enumerate(below):
            pairs += [(layer[index], node), (layer[index ^ stride], node)]
        layer, stride = below, 2 * stride
    return _job(f"fft-{points}", layer[-1] + 1, pairs, work=work, size=size, job_id=job_id)


def cholesky(tiles: int, *, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return the task graph of the tiled Cholesky factorization, in its right-looking form.

    In step k, POTRF factors the tile (k, k), TRSM solves each tile (i, k) below it, and SYRK or GEMM updates each tile
    (i, j) right of column k, which needs the tiles (i, k) and (j, k). The last update of a tile precedes its POTRF or
    TRSM.

    Parameters
    ----------
    tiles : int
        Number n of tiles per side, >= 1: there are n (n + 1) (n + 2) / 6 nodes and n (n - 1) (n + 1) / 2 edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    A. Buttari, J. Langou, J. Kurzak and J. Dongarra, "A class of parallel tiled linear algebra algorithms for multicore
    architectures", Parallel Computing 35(1), 2009.
    """
    tiles = check_int("tiles", tiles, least=1)
    latest: dict[tuple[int, int], int] = {}  # last node that wrote each tile
    pairs: Pairs = []
    count = 0
    for step in range(tiles):
        for row in range(step, tiles):
            for column in range(step, row + 1):
                inputs = [latest[row, column]] if (row, column) in latest else []
                if column > step:
                    inputs += [latest[row, step]] + [latest[column, step]] * (column < row)
                elif row > step:
                    inputs.append(latest[step, step])
                pairs += [(parent, count) for parent in inputs]
                latest[row, column] = count
                count += 1
    return _job(f"cholesky-{tiles}", count, pairs, work=work, size=size, job_id=job_id)


def montage(images: int, *, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return a graph like that of the workflow Montage, which joins images of the sky to a mosaic.

    Each image is projected (mProject). A difference is fitted for each pair of images at a distance of 1 or 2 in a row
    (mDiffFit). All fits are gathered (mConcatFit) into a model (mBgModel), by which every projected image is corrected
    (mBackground). The corrected images are listed (mImgtbl), added (mAdd), shrunk (mShrink) and stored (mJPEG).

    Parameters
    ----------
    images : int
        Number n of images, >= 2: there are 4 n + 3 nodes and 9 n - 5 edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    S. Bharathi et al., "Characterization of scientific workflows", Workshop on Workflows in Support of Large-Scale
    Science, 2008. The overlaps of real images depend on the region; recorded workflows have them.
    """
    images = check_int("images", images, least=2)
    overlaps = [(one, one + apart) for apart in (1, 2) for one in range(images - apart)]
    fits = range(images, images + len(overlaps))
    gathered = fits.stop
    model = gathered + 1
    corrected = range(model + 1, model + 1 + images)
    table = corrected.stop
    pairs: Pairs = [(image, fit) for fit, both in zip(fits, overlaps, strict=True) for image in both]
    pairs += [(fit, gathered) for fit in fits]
    pairs.append((gathered, model))
    for image, node in enumerate(corrected):
        pairs += [(image, node), (model, node), (node, table)]
    pairs += [(table + step, table + step + 1) for step in range(3)]
    return _job(f"montage-{images}", table + 4, pairs, work=work, size=size, job_id=job_id)


def out_tree(depth: int, *, branching: int = 2, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return a tree whose edges lead from the root to the leaves.

    Parameters
    ----------
    depth : int
        Number d of nodes on the path from the root to a leaf.
    branching : int
        Number b of children of a node: there are 1 + b + ... + b^(d - 1) nodes, and one edge less.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    pairs, label = _tree(depth, branching)
    return _job(f"out-tree-{label}", len(pairs) + 1, pairs, work=work, size=size, job_id=job_id)


def in_tree(depth: int, *, branching: int = 2, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return a tree whose edges lead from the leaves to the root.

    Parameters
    ----------
    depth : int
        Number d of nodes on the path from a leaf to the root.
    branching : int
        Number b of parents of a node: there are 1 + b + ... + b^(d - 1) nodes, and one edge less.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Id of the job.

    Returns
    -------
    Job
        Job submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    pairs, label = _tree(depth, branching)
    last = len(pairs)
    return _job(
        f"in-tree-{label}",
        last + 1,
        [(last - child, last - node) for node, child in pairs],
        work=work,
        size=size,
        job_id=job_id,
    )


def _tree(depth: int, branching: int) -> tuple[Pairs, str]:
    depth, branching = check_int("depth", depth, least=1), check_int("branching", branching, least=1)
    count = sum(branching**level for level in range(depth))
    return [((node - 1) // branching, node) for node in range(1, count)], f"{depth}x{branching}"


def _job(label: str, count: int, pairs: Iterable[tuple[int, int]], *, work: float, size: float, job_id: int) -> Job:
    work, size = check_float("work", work, least=0), check_float("size", size, least=0)
    return Job(job_id, [work] * count, [(parent, child, size) for parent, child in pairs], label=label)


def with_ccr(
    job: Job,
    ccr: float,
    *,
    rng: Generator,
    reference_speed: float = 1.0,
    transfer_speed: float = 1.0,
    latency: float = 0.0,
) -> Job:
    """Return a job with random edge sizes that have a given communication-to-computation ratio.

    The mean transfer time over the job's edges equals the ratio times the mean run time over its nodes, exactly.
    Edge sizes are sampled uniformly between 0.5 and 1.5 times their mean, and then scaled.

    Parameters
    ----------
    job : Job
        Job whose graph is used; its present edge sizes are ignored.
    ccr : float
        Communication-to-computation ratio, >= 0.
    rng : numpy.random.Generator
        Source of randomness. One number is sampled per edge, in the order of ``job.parent_index``.
    reference_speed : float
        Speed that defines the run times, in work per second. If the job has run times for each executor, their means
        over all executors are used instead.
    transfer_speed : float
        Speed that defines the transfer times, in units of data per second.
    latency : float
        Additional time of each transfer in seconds.

    Returns
    -------
    Job
        New job with the same graph and the sampled edge sizes.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, `rng` is not a generator, or the latency alone exceeds the ratio.

    Notes
    -----
    The ratio is that of H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling
    for heterogeneous computing", IEEE TPDS 13(3), 2002, section 5: average communication cost divided by average
    computation cost.

    Examples
    --------
    >>> job = Job(1, [2.0, 4.0, 6.0], [(0, 1, 0.0), (0, 2, 0.0)])
    >>> sized = with_ccr(job, 0.5, rng=np.random.default_rng(0), transfer_speed=10.0)
    >>> round(float(sized.parent_size.mean()) / 10.0, 9)
    2.0
    """
    check_float("ccr", ccr, least=0)
    check_float("reference_speed", reference_speed, above=0)
    check_float("transfer_speed", transfer_speed, above=0)
    check_float("latency", latency, least=0)
    if not isinstance(rng, Generator):
        raise InvalidConfiguration(f"rng: got {rng!r}, expected a numpy.random.Generator")
    seconds = job.work / reference_speed if job.run_times is None else job.run_times.mean(axis=1)
    share = rng.uniform(0.5, 1.5, job.num_edges)
    if len(share):
        transfer = ccr * float(seconds.mean()) - latency
        if transfer < 0 < ccr:
            raise InvalidConfiguration(
                f"ccr: got {ccr!r}, expected a ratio for which transfers take at least the latency of {latency:g} s: "
                f"nodes of job {job.job_id} take {float(seconds.mean()):g} s on average"
            )
        share *= max(transfer, 0.0) * transfer_speed * job.num_edges / share.sum()
    return job.sized(share)


def _rebuilt(job: Job, *, work: Floats | None = None, run_times: Floats | None = None) -> Job:
    """Return a job with the same graph, but other work or run times."""
    children = np.repeat(np.arange(job.num_nodes), np.diff(job.parent_start))
    return Job(
        job.job_id,
        job.work if work is None else work,
        zip(job.parent_index.tolist(), children.tolist(), job.parent_size.tolist(), strict=True),
        submission_time=job.submission_time,
        names=job.names,
        run_times=job.run_times if run_times is None else run_times,
        num_tasks=job.num_tasks,
        task_times=job.task_times,
        label=job.label,
        allow_disconnected=True,
    )
