"""Multi-server clusters a second time, in plain loops: what jobs earn, slot by slot; and agents to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import simpy
from numpy.random import Generator as Random
from numpy.random import default_rng
from numpy.typing import NDArray
from polars.testing import assert_frame_equal

from desim import Result
from desim.problems.multiserver import BipartiteGraph, Gang, MultiServerObservation, RewardModel

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Amounts = dict[tuple[int, int], float]
"""What a job or component gets: amounts by (node, resource)."""
UTILITY: dict[str, Callable[[float, float], float]] = {
    "linear": lambda y, alpha: alpha * y,
    "log": lambda y, alpha: alpha * math.log(y + 1),
    "reciprocal": lambda y, alpha: 1 / alpha - 1 / (y + alpha),
    "poly": lambda y, alpha: alpha * math.sqrt(y + 1) - alpha,
}


def random_graph(rng: Random) -> BipartiteGraph:
    """Return a sparse graph in eighths, with zeros, whose last port and last node may have no channel."""
    num_ports, num_nodes, num_resources = (int(rng.integers(1, high)) for high in (5, 5, 4))
    there = rng.random((num_ports, num_nodes)) < 0.7
    there[-1] &= rng.random() < 0.7
    there[:, -1] &= rng.random() < 0.7
    requests, capacity = (
        rng.integers(low, high, (rows, num_resources)) / 8 * (rng.random((rows, num_resources)) < 0.9)
        for low, high, rows in ((1, 24, num_ports), (4, 40, num_nodes))
    )
    return BipartiteGraph(requests, capacity, [(int(port), int(node)) for port, node in np.argwhere(there)])


def random_rewards(rng: Random, *, exact: bool = False) -> RewardModel:
    """Return rewards on a random graph; exact ones are linear in eighths, so that sums do not depend on their order."""
    graph = random_graph(rng)
    shape = (graph.num_nodes, graph.num_resources)
    if exact:
        return RewardModel(graph, "linear", rng.integers(4, 17, shape) / 8, rng.integers(0, 4, shape[1]) / 8)
    return RewardModel(
        graph, rng.choice(list(UTILITY), shape), rng.uniform(0.5, 2, shape), rng.uniform(0, 0.5, shape[1])
    )


def random_gang(rng: Random, graph: BipartiteGraph, *, whole: bool = False) -> Gang:
    """Return one to three components a port, of which some are needed."""
    counts = rng.integers(1, 4, graph.num_ports)
    components = [rng.integers(1, 13, (count, graph.num_resources)) / 8 for count in counts]
    return Gang(components, [int(rng.integers(1, count + 1)) for count in counts], whole=whole)


def random_allocation(observation: MultiServerObservation, rng: Random) -> Floats:
    """Return a feasible allocation: random amounts, scaled down where a node has less."""
    graph = observation.graph
    kind = rng.random(graph.shape)
    share = np.where(kind < 0.2, 0.0, np.where(kind < 0.4, 1.0, rng.random(graph.shape)))
    allocation: Floats = share * graph.requests[graph.channel_port]
    for node in range(graph.num_nodes):
        rows = np.flatnonzero(graph.channel_node == node)
        for resource in range(graph.num_resources):
            total, most = allocation[rows, resource].sum(), observation.capacity[node, resource]
            if total > most:
                allocation[rows, resource] *= most / total
    return allocation


class Seen(NamedTuple):
    """What an agent saw, and its answer."""

    slot: int
    arrived: NDArray[np.bool_]
    capacity: Floats
    answer: Floats


class RandomFeasible:
    """Gives at random, the same in the same slot; notes what it saw."""

    name = "random-feasible"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.seen: list[Seen] = []

    def act(self, observation: MultiServerObservation) -> Floats | None:
        rng = default_rng([self.seed, observation.slot])
        answer = np.zeros(observation.graph.shape) if rng.random() < 0.1 else random_allocation(observation, rng)
        self.seen.append(Seen(observation.slot, observation.arrived.copy(), observation.capacity.copy(), answer.copy()))
        return answer if answer.any() else None


class Scripted:
    """Gives the answers of a list, then nothing."""

    name = "scripted"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def act(self, observation: MultiServerObservation) -> Any:
        answer = self.answers[observation.slot] if observation.slot < len(self.answers) else None
        return answer(observation) if callable(answer) else answer


def nodes_of_ports(graph: BipartiteGraph) -> list[list[int]]:
    ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
    return [[node for other, node in ends if other == port] for port in range(graph.num_ports)]


def greedy(
    jobs: Sequence[bool], free: Sequence[Sequence[float]], graph: BipartiteGraph, shares: Sequence[float]
) -> list[Amounts]:
    """Give the ports in turn a share of what they request, as far as it goes."""
    left = [list(row) for row in free]
    given: list[Amounts] = [{} for _ in jobs]
    for port, nodes in enumerate(nodes_of_ports(graph)):
        for node in nodes if jobs[port] else ():
            for resource, request in enumerate(graph.requests[port].tolist()):
                amount = min(request * shares[port], left[node][resource])
                left[node][resource] -= amount
                given[port][node, resource] = amount
    return given


class Greedy:
    """The agent that answers as :func:`greedy` does."""

    def __init__(self, shares: Sequence[float]) -> None:
        self.shares = shares
        self.seen: list[Seen] = []

    def act(self, observation: MultiServerObservation) -> Floats:
        graph = observation.graph
        given = greedy(observation.arrived.tolist(), observation.capacity.tolist(), graph, self.shares)
        answer = np.zeros(graph.shape)
        for row, (port, node) in enumerate(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)):
            for resource in range(graph.num_resources):
                answer[row, resource] = given[port].get((node, resource), 0.0)
        self.seen.append(Seen(observation.slot, observation.arrived.copy(), observation.capacity.copy(), answer))
        return answer


def submissions(*items: tuple[float, int | str]) -> Callable[[Any], Generator[simpy.Event, Any, None]]:
    """Return a process that submits jobs at (time, port)."""

    def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
        for time, port in items:
            if time > cluster.env.now:
                yield cluster.env.timeout(time - cluster.env.now)
            cluster.submit(port)

    return process


def earn(model: RewardModel, given: Amounts) -> tuple[float, float, int]:
    """Return gain, overhead and dominant resource of one job, equation (7)."""
    gain = sum(
        UTILITY[str(model.utilities[node, resource])](amount, float(model.weights[node, resource]))
        for (node, resource), amount in given.items()
    )
    overheads = [
        float(model.overhead[k]) * sum(amount for (_, resource), amount in given.items() if resource == k)
        for k in range(model.graph.num_resources)
    ]
    return gain, max(overheads), overheads.index(max(overheads))


def amounts_of(graph: BipartiteGraph, answer: Floats, ports: Sequence[int]) -> Amounts:
    """Return what some ports of the graph that agents see get together."""
    total: Amounts = {}
    for row, (port, node) in enumerate(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)):
        for resource in range(graph.num_resources) if port in ports else ():
            total[node, resource] = total.get((node, resource), 0.0) + float(answer[row, resource])
    return total


class PlainJob(NamedTuple):
    """A row of the table of jobs; the port and the dominant resource as indices."""

    job_id: int
    port: int
    submission_time: float
    starting_time: float | None
    finish_time: float | None
    work: float | None
    gain: float
    overhead: float
    dominant: int
    status: str


def plain_slots(
    model: RewardModel,
    graph: BipartiteGraph,
    counts: Counts,
    answers: Sequence[Floats],
    copies: int,
    sizes: Sequence[int] | None = None,
) -> list[PlainJob]:
    """Return the jobs that last one slot each; ``sizes`` are the numbers of components by type of job."""
    jobs: list[PlainJob] = []
    for slot, row in enumerate(counts.tolist()):
        first = 0
        for port, arrived in enumerate(row):
            size = 1 if sizes is None else sizes[port]
            for copy in range(copies):
                if copy < arrived:
                    given = amounts_of(graph, answers[slot], range(first, first + size))
                    served = any(given.values())
                    times = (float(slot), slot + 1.0) if served else (None, None)
                    status = "completed" if served else "unserved"
                    jobs.append(PlainJob(len(jobs), port, float(slot), *times, None, *earn(model, given), status))
                first += size
    return jobs


def plain_table(jobs: Sequence[PlainJob], graph: BipartiteGraph) -> pl.DataFrame:
    """Return jobs as the table that a run should have recorded, without the columns that follow from others."""
    rows = [
        job._replace(port=graph.ports[job.port], dominant=graph.resources[job.dominant])  # type: ignore[arg-type]
        for job in sorted(jobs, key=lambda job: (job.submission_time, job.job_id))
    ]
    types = [pl.Int64, pl.String, *[pl.Float64] * 6, pl.String, pl.String]
    names = [name if name != "dominant" else "dominant_resource" for name in PlainJob._fields]
    return pl.DataFrame(rows, schema=dict(zip(names, types, strict=True)), orient="row")


def assert_jobs(result: Result, jobs: Sequence[PlainJob], graph: BipartiteGraph, *, exact: bool = False) -> None:
    expected = plain_table(jobs, graph)
    found = result.jobs.select(expected.columns).with_columns(pl.col(pl.Enum).cast(pl.String))
    assert_frame_equal(found, expected, check_exact=exact, rel_tol=1e-12, abs_tol=1e-12)


def assert_same_tables(first: Result, second: Result, *, but: Sequence[str] = ()) -> None:
    assert first.table_names == second.table_names
    for name in first.table_names:
        if name not in but:
            assert_frame_equal(first.table(name), second.table(name), check_exact=True)
