"""Task graphs of well-known programs, with equal work and data everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from desim.exceptions import InvalidConfiguration
from desim.problems.dag.job import Job
from desim.workloads._named_streams import number, whole_number

__all__ = ["chain", "fft", "fork_join", "gaussian_elimination", "in_tree", "out_tree"]

Pairs = list[tuple[int, int]]


def chain(num_nodes: int, *, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return nodes one behind the other.

    Parameters
    ----------
    num_nodes : int
        Number of nodes, n; there are n - 1 edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Identifier of the job.

    Returns
    -------
    Job
        Submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    count = whole_number("num_nodes", num_nodes)
    return _job(
        f"chain-{count}",
        count,
        zip(range(count - 1), range(1, count), strict=True),
        work=work,
        size=size,
        job_id=job_id,
    )


def fork_join(width: int, *, stages: int = 1, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return parallel nodes between a fork and a join, which is the fork of the next stage.

    Parameters
    ----------
    width : int
        Parallel nodes of a stage, w.
    stages : int
        Number of stages, s: there are s (w + 1) + 1 nodes and 2 s w edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Identifier of the job.

    Returns
    -------
    Job
        Submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    width, stages = whole_number("width", width), whole_number("stages", stages)
    pairs: Pairs = []
    for fork in range(0, stages * (width + 1), width + 1):
        join = fork + width + 1
        for node in range(fork + 1, join):
            pairs += [(fork, node), (node, join)]
    return _job(f"fork-join-{width}x{stages}", stages * (width + 1) + 1, pairs, work=work, size=size, job_id=job_id)


def gaussian_elimination(order: int, *, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return the graph of Gaussian elimination.

    For each column but the last there is a node that finds the pivot, and one for each later column that updates it.
    An update follows its pivot and the update of the same column before it; so does the next pivot.

    Parameters
    ----------
    order : int
        Order of the matrix, m, at least 2: there are (m^2 + m - 2) / 2 nodes and m^2 - m - 1 edges.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Identifier of the job.

    Returns
    -------
    Job
        Submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    Topcuoglu et al. 2002, section 5, after M. Cosnard et al., "Parallel Gaussian elimination on an MIMD computer",
    Parallel Computing 6, 1988.
    """
    order = whole_number("order", order)
    if order == 1:
        raise InvalidConfiguration("order is 1, want a whole number of at least 2")
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
    """Return the graph of the fast Fourier transform: a tree of recursive calls, then the butterflies.

    Parameters
    ----------
    points : int
        Length of the vector, m, a power of two from 2 on: there are 2 m - 1 calls and m log2(m) butterfly nodes,
        2 m - 2 edges between calls and 2 m log2(m) between butterflies.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Identifier of the job.

    Returns
    -------
    Job
        Submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    Topcuoglu et al. 2002, section 5; all paths from the root have the same length.
    """
    points = whole_number("points", points)
    if points < 2 or points & (points - 1):
        raise InvalidConfiguration(f"points is {points}, want a power of two, at least 2")
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


def out_tree(depth: int, *, branching: int = 2, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return a tree whose root comes first.

    Parameters
    ----------
    depth : int
        Nodes on the way from the root to a leaf, d.
    branching : int
        Children of a node, b: there are 1 + b + ... + b^(d - 1) nodes, and an edge less.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Identifier of the job.

    Returns
    -------
    Job
        Submitted at time 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    pairs, label = _tree(depth, branching)
    return _job(f"out-tree-{label}", len(pairs) + 1, pairs, work=work, size=size, job_id=job_id)


def in_tree(depth: int, *, branching: int = 2, work: float = 1.0, size: float = 1.0, job_id: int = 0) -> Job:
    """Return a tree whose root comes last.

    Parameters
    ----------
    depth : int
        Nodes on the way from a leaf to the root, d.
    branching : int
        Parents of a node, b: there are 1 + b + ... + b^(d - 1) nodes, and an edge less.
    work : float
        Work of every node.
    size : float
        Units of data on every edge.
    job_id : int
        Identifier of the job.

    Returns
    -------
    Job
        Submitted at time 0.

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
    depth, branching = whole_number("depth", depth), whole_number("branching", branching)
    count = sum(branching**level for level in range(depth))
    return [((node - 1) // branching, node) for node in range(1, count)], f"{depth}x{branching}"


def _job(label: str, count: int, pairs: Iterable[tuple[int, int]], *, work: float, size: float, job_id: int) -> Job:
    work, size = number("work", work), number("size", size)
    return Job(job_id, [work] * count, [(parent, child, size) for parent, child in pairs], label=label)
