"""A portfolio of schedulers: the plans of several are made in simulation, and the best is carried out.

Each heuristic has instances on which it is several times as bad as another: data that had better not move, a task that
had better wait. No rule tells these apart beforehand as surely as carrying out the plans of all does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from desim.agents.dag.planning import Placed, PlanningAgent, Timetables, UnionGraph, in_order_of_start, serial_plan
from desim.core import Agent, end_of
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Copy, DagCluster, Executors, Job

__all__ = ["Portfolio"]


class Portfolio(PlanningAgent):
    """Plans the jobs that arrive together as the best of its members would, or on one executor if that is better.

    Each member is asked in a simulation of the new jobs alone, on the executors that are up. Its copies are then
    placed, in the order of their starts there, behind what the executors of the cluster are busy with. The plan whose
    last node is done first is carried out, of equal ones the first. For jobs that arrive at an idle cluster, whose
    executors stay up, it is therefore never behind a member.

    Parameters
    ----------
    members : sequence of Agent
        At least one.

    Raises
    ------
    InvalidConfiguration
        If there is none.
    """

    def __init__(self, members: Sequence[Agent]) -> None:
        super().__init__()
        if not members:
            raise InvalidConfiguration("members is empty, want at least one agent")
        self.members = list(members)
        self.name = f"portfolio:{'+'.join(str(getattr(member, 'name', type(member).__name__)) for member in members)}"

    def plan_jobs(self, jobs: Sequence[Job], executors: Executors, graph: UnionGraph) -> list[Placed]:
        """Return the best plan of all members.

        Parameters
        ----------
        jobs : sequence of Job
            Those that are new.
        executors : Executors
            Of the cluster.
        graph : UnionGraph
            The jobs as one graph, on the executors that are up.

        Returns
        -------
        list of Placed
            In order of start.
        """
        alone = [_restricted(job.submitted(0.0, job_id=number), graph.executors) for number, job in enumerate(jobs)]
        first = np.cumsum([0, *(job.num_nodes for job in jobs)]).tolist()
        reduced = _only(executors, graph.executors)
        plans = [serial_plan(graph)]
        for member in self.members:
            rows = _simulated(member, alone, reduced)
            plans.append(_behind(graph, [(first[job] + node, executor) for job, node, executor in rows]))
        return min(plans[1:] + plans[:1], key=_end)


def _end(plan: Sequence[Placed]) -> float:
    """Return when the last node is done, from the copy of it that is done first."""
    finishes: dict[int, float] = {}
    for copy in plan:
        finishes[copy.node] = min(copy.finish, finishes.get(copy.node, np.inf))
    return max(finishes.values())


def _only(executors: Executors, used: list[int]) -> Executors:
    pairs = np.ix_(used, used)
    return Executors(executors.speeds[used], executors.transfer_speeds[pairs], executors.latencies[pairs])


def _restricted(job: Job, used: list[int]) -> Job:
    """Return a job with the run times of some executors, if it has any."""
    if job.run_times is None or len(used) == job.run_times.shape[1]:
        return job
    edges = [(parent, child, size) for child, row in enumerate(job.parent_lists) for parent, size in row]
    return Job(job.job_id, job.work, edges, run_times=job.run_times[:, used], allow_disconnected=True)


def _simulated(member: Agent, jobs: Sequence[Job], executors: Executors) -> list[tuple[int, int, int]]:
    """Return job, node and executor of the copies that a member starts, in order of their starts."""
    cluster = DagCluster(jobs, executors)
    if _plans_ahead(member, cluster):
        cluster = DagCluster(jobs, executors, plan_ahead=True)
    started: list[Copy] = []
    cluster.on("start", lambda time, copy: started.append(copy))
    end_of(cluster, member)
    return [(copy.state.job.job_id, copy.node, copy.executor) for copy in in_order_of_start(started)]


def _plans_ahead(member: Agent, cluster: DagCluster) -> bool:
    """Tell whether a member refuses a cluster that does not let it assign nodes before their parents have finished."""
    reset: Any = getattr(member, "reset", None)
    try:
        if reset is not None:
            reset(cluster.describe(), np.random.default_rng(0))
    except InvalidConfiguration:
        return True
    return False


def _behind(graph: UnionGraph, rows: Sequence[tuple[int, int]]) -> list[Placed]:
    """Return nodes on executors in some order as a plan, behind what the executors are busy with."""
    timetables = Timetables(graph)
    for node, executor in rows:
        timetables.append(node, executor)
    timetables.drop_unused()
    return timetables.in_order()
