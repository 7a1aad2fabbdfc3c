"""Jobs to and from networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["from_networkx", "to_networkx"]


def from_networkx(graph: nx.DiGraph, job_id: int = 0, **options: Any) -> Job:
    """Make a job of a networkx graph.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes have the attribute ``work``; ``num_tasks``, ``run_times`` (seconds on each executor) and
        ``task_times`` are optional, but then for all nodes. Edges have the attribute ``size``, 0 where it is missing.
        A MultiDiGraph will do if no two edges join the same nodes in the same direction.
    job_id : int
        Identifier of the job.
    **options
        What :class:`Job` takes by name and the graph does not hold: ``submission_time``, ``label``,
        ``allow_disconnected``.

    Returns
    -------
    Job
        Its nodes are called as in the graph.

    Raises
    ------
    WorkloadError
        If an attribute is missing, the graph is not directed, or the job makes no sense.
    """
    if not graph.is_directed():
        raise WorkloadError(f"job {job_id}: the graph is not directed, so that no edge has a parent and a child")
    nodes = list(graph.nodes)
    columns: dict[str, Any] = {}
    for attribute in ("work", "run_times", "num_tasks", "task_times"):
        present = [node for node in nodes if attribute in graph.nodes[node]]
        wanted = present or attribute == "work"
        missing = [node for node in nodes if attribute not in graph.nodes[node]]
        if wanted and missing:
            raise WorkloadError(f"job {job_id}: node {missing[0]!r} has no attribute {attribute!r}")
        columns[attribute] = [graph.nodes[node][attribute] for node in nodes] if present else None
    edges = [(parent, child, data.get("size", 0.0)) for parent, child, data in graph.edges(data=True)]
    position = {node: index for index, node in enumerate(nodes)}
    numbered = [(position[parent], position[child], size) for parent, child, size in edges]
    settings = {key: graph.graph[key] for key in ("submission_time", "label") if key in graph.graph}
    names = [str(node) for node in nodes]
    return Job(job_id, columns.pop("work"), numbered, names=names, **columns, **settings | options)


def to_networkx(job: Job) -> nx.DiGraph:
    """Return a job as a networkx graph.

    Parameters
    ----------
    job : Job
        The job.

    Returns
    -------
    networkx.DiGraph
        Nodes by name, in topological order, with the attributes ``work`` and ``num_tasks``, and ``run_times`` and
        ``task_times`` if the job has them; edges with the attribute ``size``; the graph with ``job_id``,
        ``submission_time`` and ``label``.
    """
    import networkx as nx

    graph = nx.DiGraph(job_id=job.job_id, submission_time=job.submission_time, label=job.label)
    for node, name in enumerate(job.names):
        attributes: dict[str, Any] = {"work": job.work[node].item(), "num_tasks": job.num_tasks[node].item()}
        if job.run_times is not None:
            attributes["run_times"] = job.run_times[node].tolist()
        if job.task_times is not None:
            attributes["task_times"] = job.task_times[node]
        graph.add_node(name, **attributes)
    for child, parents in enumerate(job.parent_lists):
        graph.add_edges_from((job.names[parent], job.names[child], {"size": size}) for parent, size in parents)
    return graph
