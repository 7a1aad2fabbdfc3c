"""A portfolio of schedulers: simulate the plans of several agents and carry out the best one.

For each heuristic there are instances on which another one is several times better, for example because data should not
be moved or a task should wait. Simulating all plans tells these cases apart more reliably than any rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from desim.agents.dag.planning import (
    PartialSchedule,
    Placed,
    PlanningAgent,
    UnionGraph,
    can_be_planned,
    in_order_of_start,
    serial_plan,
)
from desim.core import Agent, run_to_end
from desim.exceptions import InvalidConfiguration
from desim.problem import declared
from desim.problems.dag import Assign, Copy, DagCluster, DagObservation, Executors, Job, SharedLinks

__all__ = ["Portfolio"]


class Portfolio(PlanningAgent):
    """Plan jobs that arrive together as the best of the portfolio's members, or on one executor if that is better.

    Each member runs in a simulation of the new jobs alone, on the executors that are up. Its copies are then placed in
    order of start, after the current work of the cluster's executors. The plan with the earliest end is carried out;
    ties go to the first member. So for jobs that arrive at an idle cluster whose executors stay up, the portfolio is
    never worse than any member.

    If transfers share links, a plan alone does not determine when its nodes finish. So members are simulated with the
    links, with and without planning ahead if they support both, and the assignments of the best one are repeated at the
    same times. If other jobs are already in the system, all assignments are made at once.

    Parameters
    ----------
    members : sequence of Agent
        Agents of the portfolio; at least one.

    Raises
    ------
    InvalidConfiguration
        If there are no members; in a run, if a member does not support the cluster.
    """

    considers = frozenset({"links", "arrivals"})

    def __init__(self, members: Sequence[Agent]) -> None:
        super().__init__()
        if not members:
            raise InvalidConfiguration("members: got an empty sequence, expected at least one agent")
        self.members = list(members)
        self.name = f"portfolio:{'+'.join(str(getattr(member, 'name', type(member).__name__)) for member in members)}"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; raise InvalidConfiguration if the cluster is unsupported or does not plan ahead."""
        super().reset(info, rng)
        self._links = _links_of(info)
        self._script: list[_Timed] = []
        for member in self.members if self._links is not None else ():
            if hasattr(member, "reset"):
                member.reset(info, np.random.default_rng(0))

    def act(self, observation: DagObservation) -> list[Assign] | Assign | None:
        """Return the schedule of new jobs, or the assignments that are due now."""
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
            new = can_be_planned(new, observation.executors, available)
            script = self._best(new, observation.executors, used) if new else []
            if is_alone:
                self._script = [_Timed(now + time, action) for time, action in script]
            else:  # queue positions count waiting copies, which differ from the simulation's
                script = [*self._script, *(_Timed(now, action) for _, action in script)]
                self._script = [_Timed(time, action._replace(position=None)) for time, action in script]
        if not self._script or available[self._executors].max() == np.inf:
            self._script = []
            return self._fallback.act(observation)
        latest = now + ROUNDING * max(now, 1.0)
        due = [one for one in self._script if one.time <= latest]
        if not due and available[self._executors].max() <= now:
            due = self._script[:1]  # nothing runs, so the event that it waited for has already happened
        self._script = [one for one in self._script if one not in due]
        return [one.action for one in due] or None

    def _best(self, new: Sequence[Job], executors: Executors, used: list[int]) -> list[_Timed]:
        """Return the assignments of the best plan on the given executors, with times since the arrival of the jobs."""
        assert self._links is not None
        jobs = [job.submitted(0.0, job_id=number).only_on(used) for number, job in enumerate(new)]
        make = partial(
            DagCluster,
            jobs,
            executors.only(used),
            transfers="when_assigned",
            links=self._links.only(used),
        )
        runs = []
        for member in self.members:
            ways = [True] if declared(member, "plans_ahead") else [False, True]
            runs += [_followed(make(plan_ahead=way), member, len(jobs)) for way in ways]
        seconds = np.sum([job.run_times_on(executors)[:, used].sum(axis=0) for job in new], axis=0)
        fastest = int(seconds.argmin())
        nodes = [Assign(number, node, fastest) for number, job in enumerate(jobs) for node in range(job.num_nodes)]
        if seconds[fastest] < np.inf:
            runs.append((float(seconds[fastest]), [_Timed(0.0, action) for action in nodes]))
        _, script = min(runs, key=itemgetter(0))
        return [
            _Timed(time, action._replace(job_id=new[action.job_id].job_id, executor=used[action.executor]))
            for time, action in script
        ]

    def plan_jobs(self, jobs: Sequence[Job], executors: Executors, graph: UnionGraph) -> list[Placed]:
        """Return the best plan among those of all members.

        Parameters
        ----------
        jobs : sequence of Job
            New jobs.
        executors : Executors
            Executors of the cluster.
        graph : UnionGraph
            Graph of the jobs on the executors that are up.

        Returns
        -------
        list of Placed
            Copies in order of start.
        """
        alone = [job.submitted(0.0, job_id=number).only_on(graph.executors) for number, job in enumerate(jobs)]
        first = np.cumsum([0, *(job.num_nodes for job in jobs)]).tolist()
        reduced = executors.only(graph.executors)
        plans = [serial_plan(graph)]
        for member in self.members:
            rows = _simulated(member, alone, reduced)
            plans.append(_behind(graph, [(first[job] + node, executor) for job, node, executor in rows]))
        return min(plans[1:] + plans[:1], key=_end)


class _Timed(NamedTuple):
    """An assignment with its time in seconds."""

    time: float
    action: Assign


#: Relative rounding error between the times of a simulation that begins at 0 and of one that begins later.
ROUNDING = 1e-9


class _Following:
    """Wrapper that records the assignments of an agent."""

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
    """Return when a member finishes all of the jobs, infinite if it does not, and its assignments with times."""
    ends: list[float] = []
    cluster.on("job_completion", lambda time, job: ends.append(time))
    following = _Following(member)
    run_to_end(cluster, following)
    return max(ends) if len(ends) == count else np.inf, following.script


def _links_of(info: Mapping[str, Any]) -> SharedLinks | None:
    """Return the shared links in the description of a cluster; None if there are none."""
    links = info.get("links")
    return None if links is None else SharedLinks.of(links)


def _end(plan: Sequence[Placed]) -> float:
    """Return when the last node finishes, by the earliest copy of each node."""
    finishes: dict[int, float] = {}
    for copy in plan:
        finishes[copy.node] = min(copy.finish, finishes.get(copy.node, np.inf))
    return max(finishes.values())


def _simulated(member: Agent, jobs: Sequence[Job], executors: Executors) -> list[tuple[int, int, int]]:
    """Return job, node and executor of the copies that a member starts, in order of start."""
    cluster = DagCluster(jobs, executors)
    started: list[Copy] = []
    cluster.on("start", lambda time, copy: started.append(copy))
    run_to_end(cluster, member)
    return [(copy.state.job.job_id, copy.node, copy.executor) for copy in in_order_of_start(started)]


def _behind(graph: UnionGraph, rows: Sequence[tuple[int, int]]) -> list[Placed]:
    """Return nodes on executors, in a given order, as a plan after the current work of the executors."""
    schedule = PartialSchedule(graph)
    for node, executor in rows:
        schedule.append(node, executor)
    schedule.drop_unused()
    return schedule.in_order()
