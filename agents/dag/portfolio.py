"""A portfolio of schedulers: the plans of several are made in simulation, and the best is carried out.

Each heuristic has instances on which it is several times as bad as another: data that had better not move, a task that
had better wait. No rule tells these apart beforehand as surely as carrying out the plans of all does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from desim.agents.dag.planning import PartialSchedule, Placed, PlanningAgent, UnionGraph, in_order_of_start, serial_plan
from desim.core import Agent, run_to_end
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, Copy, DagCluster, DagObservation, Executors, Job, SharedLinks

__all__ = ["Portfolio"]


class Portfolio(PlanningAgent):
    """Plans the jobs that arrive together as the best of its members would, or on one executor if that is better.

    Each member is asked in a simulation of the new jobs alone, on the executors that are up. Its copies are then
    placed, in the order of their starts there, behind what the executors of the cluster are busy with. The plan whose
    last node is done first is carried out, of equal ones the first. For jobs that arrive at an idle cluster, whose
    executors stay up, it is therefore never behind a member.

    Where transfers share links, no plan tells by itself when a node will be done: members are simulated with the links,
    with and without planning ahead where they take both, and what the best has assigned is assigned as it was, at the
    same times. Behind jobs that are in the system already, all of it is assigned at once.

    Parameters
    ----------
    members : sequence of Agent
        At least one.

    Raises
    ------
    InvalidConfiguration
        If there is none. A run raises it if a member refuses the cluster.
    """

    def __init__(self, members: Sequence[Agent]) -> None:
        super().__init__()
        if not members:
            raise InvalidConfiguration("members is empty, want at least one agent")
        self.members = list(members)
        self.name = f"portfolio:{'+'.join(str(getattr(member, 'name', type(member).__name__)) for member in members)}"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead, or that a member refuses, is an InvalidConfiguration."""
        super().reset(info, rng)
        self._links = _links_of(info)
        self._script: list[_Timed] = []
        for member in self.members if self._links is not None else ():
            if hasattr(member, "reset"):
                member.reset(info, np.random.default_rng(0))

    def act(self, observation: DagObservation) -> list[Assign] | Assign | None:
        """Return the schedule of the jobs that are new, or what of it is due now."""
        if self._links is None:
            return super().act(observation)
        available, now = observation.available_times, observation.time
        if available.min() == np.inf:
            return None
        new = [state.job for job_id, state in observation.jobs.items() if self._planned.get(job_id) is not state]
        if new:
            used = np.flatnonzero(available < np.inf).tolist()
            is_alone = len(new) == len(observation.jobs) and max(available[used]) <= now
            self._planned = dict(observation.jobs)
            self._executors = used
            script = self._best(new, observation.executors, used)
            if is_alone:
                self._script = [_Timed(now + time, action) for time, action in script]
            else:  # positions count copies that wait, of which there are others now
                script = [*self._script, *(_Timed(now, action) for _, action in script)]
                self._script = [_Timed(time, action._replace(position=None)) for time, action in script]
        if not self._script or available[self._executors].max() == np.inf:
            self._script = []
            return self._fallback.act(observation)
        latest = now + ROUNDING * max(now, 1.0)
        due = [one for one in self._script if one.time <= latest]
        if not due and available[self._executors].max() <= now:
            due = self._script[:1]  # what it waited for has come already, as nothing runs that could still come
        self._script = [one for one in self._script if one not in due]
        return [one.action for one in due] or None

    def _best(self, new: Sequence[Job], executors: Executors, used: list[int]) -> list[_Timed]:
        """Return what is to be assigned on some executors, by the time since the jobs have arrived."""
        assert self._links is not None
        jobs = [_restricted(job.submitted(0.0, job_id=number), used) for number, job in enumerate(new)]
        make = partial(
            DagCluster,
            jobs,
            _only(executors, used),
            transfers="when_assigned",
            links=_links_between(self._links, used),
        )
        runs = []
        for member in self.members:
            ways = [False, True] if not _plans_ahead(member, make()) else [True]
            runs += [_followed(make(plan_ahead=way), member, len(jobs)) for way in ways]
        seconds = np.sum([job.run_times_on(executors)[:, used].sum(axis=0) for job in new], axis=0)
        fastest = int(seconds.argmin())
        nodes = [Assign(number, node, fastest) for number, job in enumerate(jobs) for node in range(job.num_nodes)]
        runs.append((float(seconds[fastest]), [_Timed(0.0, action) for action in nodes]))
        _, script = min(runs, key=itemgetter(0))
        return [
            _Timed(time, action._replace(job_id=new[action.job_id].job_id, executor=used[action.executor]))
            for time, action in script
        ]

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


class _Timed(NamedTuple):
    """What is to be assigned, and when, in seconds."""

    time: float
    action: Assign


#: Times of a simulation that began at 0 are those of one that began later up to this part.
ROUNDING = 1e-9


class _Following:
    """Notes what another agent assigns."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.script: list[_Timed] = []
        if hasattr(agent, "attach"):
            self.attach = agent.attach

    def reset(self, info: dict[str, Any], rng: Generator) -> None:
        if hasattr(self.agent, "reset"):
            self.agent.reset(info, rng)

    def act(self, observation: DagObservation) -> Any:
        answer = self.agent.act(observation)
        actions = answer if isinstance(answer, list | tuple) and not isinstance(answer, Assign) else [answer]
        self.script += [_Timed(observation.time, action) for action in actions if isinstance(action, Assign)]
        return answer


def _followed(cluster: DagCluster, member: Agent, count: int) -> tuple[float, list[_Timed]]:
    """Return when a member has done all of so many jobs, and what it has assigned when."""
    ends: list[float] = []
    cluster.on("job_completion", lambda time, job: ends.append(time))
    following = _Following(member)
    run_to_end(cluster, following)
    return max(ends) if len(ends) == count else np.inf, following.script


def _links_of(info: Mapping[str, Any]) -> SharedLinks | None:
    """Return the links that a cluster describes."""
    links = info.get("links")
    if links is None:
        return None
    bandwidths = [np.inf if value is None else value for value in links["bandwidths"]]
    return SharedLinks(bandwidths, links["routes"], names=links["names"])


def _links_between(links: SharedLinks, used: list[int]) -> SharedLinks:
    routes = [[links.routes[source][destination] for destination in used] for source in used]
    return SharedLinks(links.bandwidths, routes, names=links.names)


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
    run_to_end(cluster, member)
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
    schedule = PartialSchedule(graph)
    for node, executor in rows:
        schedule.append(node, executor)
    schedule.drop_unused()
    return schedule.in_order()
