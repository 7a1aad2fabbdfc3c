"""One slot's projection: by (node, resource) sub-problems on 1 and 2 processors, all at once, and growth in ports.

The sub-problems share nothing, so that processors may divide them, as algorithm 1 of arXiv 2305.06572 says. Whether
that pays is another question: one sub-problem takes microseconds. Times are those of processors, which other work on
the machine does not change much; on two processors that of the longer share, and of handing out and collecting both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import print_table
from desim.agents.multiserver import printed_loop, project
from desim.agents.multiserver.projection import Columns
from desim.problems.multiserver import BipartiteGraph
from desim.workloads.multiserver import generate

Floats = NDArray[np.float64]
Problem = tuple[Floats, Floats, Floats]
PORTS = (10, 20, 40, 80)
ROUNDS = 7


def problem(graph: BipartiteGraph) -> Problem:
    """Return points after a step, their bounds and the capacities, one column per node and resource."""
    rng, columns = np.random.default_rng(0), Columns(graph)
    points = rng.uniform(-5.0, 25.0, graph.shape)
    return columns.of(points), columns.of(graph.channel_requests), graph.capacity.ravel()


def one_by_one(parts: Problem) -> Floats:
    """Run the printed loop for one node and resource after the other."""
    points, upper, capacity = parts
    found = np.empty_like(points)
    for n in range(len(capacity)):
        found[:, n : n + 1] = printed_loop(points[:, n : n + 1], upper[:, n : n + 1], capacity[n : n + 1])
    return found


def timed(parts: Problem) -> tuple[Floats, float]:
    """Return the answers of a share of the sub-problems, and the processor time that they took."""
    begin = time.process_time()
    found = one_by_one(parts)
    return found, time.process_time() - begin


def divided(pool: Executor, processors: int, parts: Problem) -> float:
    """Run the sub-problems on several processors, an equal share of them on each; return the seconds it would take."""
    begin = time.process_time()
    shares = zip(*(np.array_split(part, processors, axis=-1) for part in parts), strict=True)
    found = list(pool.map(timed, shares))
    np.concatenate([columns for columns, _ in found], axis=1)
    return time.process_time() - begin + max(seconds for _, seconds in found)


def alone(work: Callable[[], object]) -> float:
    """Return the processor time of work in this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    """Print one table: a row per number of ports, on complete graphs of 128 nodes with 6 resources, and table II."""
    rows = []
    first: list[float] = []
    with ProcessPoolExecutor(2) as pool:
        for ports, density in ((10, 2.5), *((ports, None) for ports in PORTS)):
            parts = problem(generate(num_ports=ports, density=density, seed=0).graph)
            ways: list[Callable[[], float]] = [
                partial(alone, partial(one_by_one, parts)),
                partial(divided, pool, 2, parts),
                partial(alone, partial(printed_loop, *parts)),
                partial(alone, partial(project, *parts)),
            ]
            milliseconds = [1e3 * min(work() for _ in range(ROUNDS)) for work in ways]
            first = milliseconds if (ports, density) == (10, None) else first
            growth = [f" (x {now / then:.1f})" for now, then in zip(milliseconds, first, strict=False)] or [""] * 4
            shape = f"{ports}, {'complete' if density is None else f'density {density:g}'}"
            rows.append([shape, *(f"{ms:,.2f}{times}" for ms, times in zip(milliseconds, growth, strict=True))])
    head = ["ports", "one by one, 1 processor, ms", "the same, 2 processors", "all at once", "exact projection"]
    print_table("One slot's projection, 768 sub-problems; in brackets, times as long as with 10 ports", head, rows)


if __name__ == "__main__":
    main()
