"""Agents that follow a script, and small DAG clusters for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from desim import Result, simulate
from desim.problems.dag import Assign, DagCluster, Executors, Job
from desim.processes import Outage, planned_outages

__all__ = ["Script", "Scripted", "assign", "chain", "cluster_of", "moves", "outage", "outcomes", "run"]

OUTCOMES = ("job_id", "node", "executor", "starting_time", "finish_time", "outcome")


class Scripted:
    """Give the answers of a list of (time, answer) at their times, otherwise None; note what there is to assign."""

    def __init__(self, script: Iterable[tuple[float, Any]]) -> None:
        self.script = deque(script)
        self.seen: list[tuple[float, list[tuple[int, int]]]] = []

    def act(self, observation: Any) -> Any:
        ready = sorted((state.job.job_id, node) for state, node in observation.ready.values())
        self.seen.append((observation.time, ready))
        if self.script and self.script[0][0] == observation.time:
            return self.script.popleft()[1]
        return None


class Script:
    """Gives answers one after the other, as soon as the cluster asks."""

    name = "script"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def act(self, observation: Any) -> Any:
        return self.answers.pop(0) if self.answers else None


def outage(start: float, end: float, *executors: int) -> Any:
    """Return a process that takes executors down."""
    return planned_outages([Outage(start, end, executors=executors)])


def cluster_of(
    jobs: Iterable[Job], num_executors: int = 2, outages: Iterable[Outage] = (), **options: Any
) -> DagCluster:
    """Return a cluster of executors of speed 1, between which a unit of data takes a second."""
    processes = [planned_outages(outages), *options.pop("processes", ())]
    return DagCluster(jobs, Executors([1.0] * num_executors, 1.0), processes=processes, **options)


def run(
    jobs: Iterable[Job], script: Iterable[tuple[float, Any]], outages: Iterable[Outage] = (), **options: Any
) -> tuple[Result, Scripted]:
    """Run a script to its end."""
    agent = Scripted(script)
    until = options.pop("until", float("inf"))
    result = simulate(cluster_of(jobs, options.pop("num_executors", 2), outages, **options), agent, until=until)
    assert not agent.script, f"nobody asked for {agent.script}"
    return result, agent


def outcomes(result: Result, job_id: int | None = None) -> list[tuple[Any, ...]]:
    """Return what has become of the copies, in the order of the records; of one job without its number."""
    rows = result.table("copies").select(OUTCOMES).rows()
    return rows if job_id is None else [row[1:] for row in rows if row[0] == job_id]


def moves(result: Result) -> list[tuple[Any, ...]]:
    """Return how data came to the copies: parent, child, source, destination, begin, arrival, size."""
    columns = ["parent", "child", "source", "destination", "starting_time", "arrival_time", "size"]
    return result.table("transfers").select(columns).rows()


def chain(*sizes: float, job_id: int = 1, work: float = 1.0, submission_time: float = 0.0) -> Job:
    """Return a job of nodes one behind the other, with the sizes of the data between them."""
    edges = [(node, node + 1, size) for node, size in enumerate(sizes)]
    return Job(job_id, [work] * (len(sizes) + 1), edges, submission_time=submission_time)


def assign(*places: tuple[int, int], job_id: int = 1) -> list[Assign]:
    """Return assignments of (node, executor)."""
    return [Assign(job_id, node, executor) for node, executor in places]
