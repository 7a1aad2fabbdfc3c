"""DAG jobs on heterogeneous executors, with data transfers and duplication of nodes.

Model: Luo et al., "Learning to Optimize DAG Scheduling in Heterogeneous Environment" (LACHESIS), section III.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy as shallow_copy
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np
import simpy
from numpy.typing import NDArray

from desim.checks import check_bool, check_choice, items
from desim.core import Decision
from desim.exceptions import InfeasibleAction, InvalidConfiguration, WorkloadError
from desim.problem import Problem, Process, declared
from desim.problems.dag.execution import Execution, Plan
from desim.problems.dag.executors import Executors, SharedLinks
from desim.problems.dag.job import Job, TaskTimes
from desim.problems.dag.observation import Assign, DagObservation, explain, explain_mode
from desim.problems.dag.pools import PoolExecution, PoolPlan
from desim.problems.dag.state import Copy, InputTransfer, JobState, Setting
from desim.processes.arrivals import Arrivals
from desim.processes.outages import FailingCluster, FailureCounts, random_outages

__all__ = ["DagCluster"]


class DagCluster(FailingCluster, Problem):
    """Cluster of executors for DAG jobs: each node runs as a whole on one executor, without interruption.

    Executors with ``capacities`` are pools, which run several nodes at once: each node takes its demands of the pool
    until it finishes. The copies in the queue of a pool start in order, each as soon as its demands are free.

    A node can start on an executor once the data of at least one copy of each parent have arrived there. A node is
    ready ("ready") when all its parents have finished or, with ``plan_ahead``, when all its parents are assigned.
    While any node is ready, a decision is due when a job arrives, a node finishes, or an executor fails or is repaired.
    The answer is an :class:`Assign`, a list of them, or None to do nothing until the next event. After an action that
    leaves nodes ready, the agent is asked again.

    Events for listeners: ``arrival`` and ``job_completion`` (the subject is the Job), ``assignment`` and ``start`` (a
    Copy), ``outage`` and ``repair`` (a tuple of executor names). Each copy then ends with one of ``completion``,
    ``interruption`` (by an outage), ``withdrawal``, and ``unfinished`` (it runs or waits when the run ends), so that
    these four events add up to the table of copies.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs in order of submission time. An iterator is consumed lazily, one job ahead of the clock.
    executors : Executors
        Executors of the cluster.
    plan_ahead : bool, optional
        Whether nodes may be assigned as soon as their parents are assigned, instead of finished. By default, the agent
        of a run decides, by its attribute ``plans_ahead``: HEFT and similar agents plan whole jobs.
    transfers : {"when_finished", "when_assigned"}
        Time at which data transfers to other executors begin. ``"when_finished"`` (as in the paper): when the parent
        finishes, so data may be on their way before the node is assigned. ``"when_assigned"``: not before the node is
        assigned.
    outages_lose_data : bool
        Whether an executor that fails loses the results that it holds. Results that are still needed and not held
        elsewhere are then computed again. In any case, nodes that run or wait on the executor become ready again.
    links : SharedLinks, optional
        Links that transfers share, so a transfer may take longer than it would alone. Requires
        ``transfers="when_assigned"``. Expected times ignore other transfers.
    processes : iterable of callables
        Extra SimPy processes, for example outages; each is called with the bound cluster.

    Attributes
    ----------
    observation : DagObservation
        View for agents; available once the cluster is bound to a simulation.

    Raises
    ------
    InvalidConfiguration
        If an argument has an invalid value, or ``links`` do not match ``transfers`` or the executors.
    WorkloadError
        If no executor may run some node of a job in a list; of other iterables, when the job arrives.

    Examples
    --------
    >>> from desim.agents.dag import HEFT
    >>> from desim import simulate
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), HEFT())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name: ClassVar[str] = "dag"
    sources: ClassVar[tuple[str, ...]] = ("jobs",)
    constants: tuple[type, ...] = (Job, TaskTimes, Executors, SharedLinks, InputTransfer)
    granularity: ClassVar[str] = "node"
    events: ClassVar[tuple[str, ...]] = (
        "arrival",
        "assignment",
        "start",
        "completion",
        "interruption",
        "withdrawal",
        "unfinished",
        "job_completion",
        "outage",
        "repair",
    )

    _planned_end: float | None = None  # end of the plan at the last assignment

    def __init__(
        self,
        jobs: Iterable[Job],
        executors: Executors,
        *,
        plan_ahead: bool | None = None,
        transfers: Literal["when_finished", "when_assigned"] = "when_finished",
        outages_lose_data: bool = True,
        links: SharedLinks | None = None,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        check_choice("transfers", transfers, ("when_finished", "when_assigned"))
        if links is not None and transfers != "when_assigned":
            raise InvalidConfiguration(
                f"transfers: got {transfers!r}, expected 'when_assigned' if links are given: "
                "unassigned nodes have no route"
            )
        if links is not None and links.num_executors != executors.num_executors:
            raise InvalidConfiguration(
                f"links: got routes for {links.num_executors} executors, expected {executors.num_executors}"
            )
        self.jobs = items("jobs", jobs, "jobs", "submission_time")
        self.executors = executors
        self._has_modes = False
        for job in self.jobs if isinstance(self.jobs, list | tuple) else ():
            if isinstance(job, Job):
                job.check_eligible(executors)
                self._has_modes |= job.modes is not None
        self.plan_ahead = None if plan_ahead is None else check_bool("plan_ahead", plan_ahead)
        self.transfers = transfers
        self.outages_lose_data = check_bool("outages_lose_data", outages_lose_data)
        self.links = links

    def describe(self) -> dict[str, Any]:
        """Return the configuration without the jobs, as plain Python values."""
        return {
            "problem": self.name,
            "granularity": self.granularity,
            **self.executors.describe(),
            "plan_ahead": bool(self.plan_ahead),
            "transfers": self.transfers,
            "outages_lose_data": self.outages_lose_data,
            "links": None if self.links is None else self.links.describe(),
            **({"modes": True} if self._has_modes else {}),
        } | ({} if self._planned_end is None else {"planned_end": self._planned_end})

    def features(self) -> dict[str, str]:
        """Return the features that not every agent takes into account, by name, with what other agents do."""
        known = self.jobs if isinstance(self.jobs, list | tuple) else ()
        outages = any(getattr(process, "__module__", "") == random_outages.__module__ for process in self.processes)
        found = {
            "links": (self.links is not None, "expects each transfer as if it were alone"),
            "outages": (outages, "plans as if executors never failed"),
            "demands": (bool(self.executors.resources), "expects each pool to run one node at a time"),
            "modes": (self._has_modes, "expects each node to run in its quickest mode"),
            "arrivals": (len({job.submission_time for job in known}) > 1, "plans only the jobs that have arrived"),
        }
        return {name: text for name, (is_there, text) in found.items() if is_there}

    def for_agent(self, agent: Any) -> Self:
        """Return the configuration for the run of an agent, which decides whether nodes are planned ahead."""
        if self.plan_ahead is not None:
            return self
        found = shallow_copy(self)
        found.plan_ahead = bool(declared(agent, "plans_ahead"))
        return found

    # -- the run --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Set up the executors and start their processes, the decisions and the arrivals."""
        self._record = {name: table.append for name, table in self.simulation.records.tables.items()}
        self._record["executors"](self.executors)
        count = self.executors.num_executors
        for executor in range(count if count > 1 and self.executors.lists_channels else 0):
            self._record["channels"]((self.executors, executor), count - 1)
        self._plan = (
            PoolPlan(self.env, self.executors, is_exact=self._is_exact)
            if self.executors.resources
            else Plan(self.env, self.executors.num_executors, is_exact=self._is_exact)
        )
        self.failures = FailureCounts("executor", self.executors.num_executors, self.executors.names)
        self._setting = Setting(self.executors, self.env, self.transfers == "when_finished")
        self._back_since: NDArray[np.float64] | None = None
        self.observation = DagObservation(self.executors, self._plan)
        self._jobs = self.observation.jobs
        self._ready = self.observation.ready
        self._num_arrived = 0
        self._cycling = False
        self._decision = Decision(self.simulation, self.observation)
        self._on_answer: list[Callable[[Any], None]] = [self._act]
        self._decision.callbacks = self._on_answer
        self._execution = (PoolExecution if self.executors.resources else Execution)(
            self,
            self.executors,
            self._plan,
            self.links,
            outages_lose_data=self.outages_lose_data,
            completed=self._completed,
        )
        jobs = Arrivals(self.env, self.jobs, attrgetter("submission_time"), self._take)
        self.keep_running(jobs)

    @property
    def _is_exact(self) -> bool:
        """Whether, apart from outages, everything happens at the expected time."""
        return self.links is None

    def _new_state(self, job: Job) -> JobState:
        return JobState(job, self._num_arrived, self._setting, self._back_since)

    def _act(self, decision: simpy.Event) -> None:
        """Carry out the agent's answer, and ask again if nodes are still ready."""
        decision.callbacks = self._on_answer  # the decision is reused
        action = decision._value
        actions = action if type(action) is list else (action,)
        goes_on = bool(actions)
        for single in actions:
            goes_on = single is not None
            if not goes_on:
                break
            self._carry_out(single)
        if goes_on and self.plan_ahead:
            ends = self._plan.available[self._plan.available < np.inf]
            self._planned_end = float(ends.max(initial=self.env.now))
        if goes_on and self._ready:
            self._decision.request()
        else:
            self._cycling = False

    def _open_cycle(self) -> None:
        """Request a decision if nodes are ready and no decision is pending."""
        self.observation.time = self.env.now
        if not self._cycling and self._ready:
            self._cycling = True
            self._decision.request()

    def is_empty(self) -> bool:
        """Return whether no job is in the system."""
        return not self._jobs

    def is_idle(self) -> bool:
        """Return whether no copy runs or waits on any executor."""
        return not any(table.running or table.waiting for table in self._plan.executor_queues.values())

    def submit(self, job: Job) -> None:
        """Add a job at the current time, as the arrival process does; custom processes may call it, too.

        Parameters
        ----------
        job : Job
            Job to add; its submission time must not lie in the future.

        Raises
        ------
        WorkloadError
            If the job lies in the future, its id is already in the system, or its run times do not match the executors.
        """
        if job.submission_time > self.env.now:
            raise WorkloadError(
                f"job {job.job_id}: submission_time: got {job.submission_time} s, expected at most the current time, "
                f"{self.env.now} s"
            )
        self._take(job)

    def _take(self, job: Job) -> None:
        """Add an arriving job to the system."""
        if job.job_id in self._jobs:
            raise WorkloadError(f"{job!r}: job_id: got {job.job_id}, expected an id that no job in the system has")
        if job.modes and not self._has_modes:
            raise WorkloadError(f"{job!r}: got modes, which tables hold only of jobs in a list; try jobs=list(jobs)")
        self._jobs[job.job_id] = state = self._new_state(job)
        self._num_arrived += 1
        self._record["nodes"]((job, state.arrival_number), job.num_nodes)
        self._record["edges"]((job, state.arrival_number), job.num_edges)
        if job.modes:
            self._record["modes"]((job, state.arrival_number), sum(map(len, filter(None, job.modes))))
        for node, parents in enumerate(job.parent_lists):
            if not parents:
                self._reveal(state, node)
        if self.listening:
            self.emit("arrival", job)
        self._open_cycle()

    def _reveal(self, state: JobState, node: int) -> None:
        """Mark a node as ready."""
        observation = self.observation
        ticket = observation.num_revealed
        observation.num_revealed = ticket + 1
        self._ready[ticket] = (state, node)
        state.tickets[node] = ticket

    def _hide(self, state: JobState, node: int) -> None:
        """Mark a node as no longer ready, if it was."""
        ticket = state.tickets[node]
        if ticket is not None:
            del self._ready[ticket]
            state.tickets[node] = None

    # -- assignments ----------------------------------------------------------------------------------

    def _carry_out(self, action: Any) -> None:
        """Carry out an assignment."""
        if isinstance(action, Assign) and self._is_possible(action):
            state, node = self._jobs[action.job_id], int(action.node)
            place = int(action.executor), action.position, action.mode
            if self._execution.assign(state, (*action.duplicates, node), *place):
                if not state.assigned[node]:
                    self._mark_assigned(state, node)
                return
        raise InfeasibleAction(f"time {self.env.now}: {explain(self.observation, action)}")

    def _is_possible(self, action: Assign) -> bool:
        """Return whether an action names an existing job, node, executor and position, so that it can be tried."""
        job_id, node, executor, duplicates, position, mode = action
        try:
            state = self._jobs.get(job_id)
            if state is None or node < 0 or not 0 <= executor < self.executors.num_executors:
                return False
            restricted = state.is_restricted  # first, because this is called for every assignment
            if self._execution.is_down(executor) or (restricted and not self._may_run(state, action)):
                return False
            waiting = self._plan.executor_queues[executor].waiting
            if (position is not None and not 0 <= position <= len(waiting)) or (
                mode is not None and explain_mode(state, action)
            ):
                return False
            if not duplicates and state.tickets[node] is not None:
                return True
            return self._may_duplicate(state, (*duplicates, node))
        except (TypeError, IndexError, KeyError):
            return False

    @staticmethod
    def _may_run(state: JobState, action: Assign) -> bool:
        """Return whether the executor of an action is eligible for its nodes."""
        return bool((state.run_times[[*action.duplicates, action.node], action.executor] < np.inf).all())

    def _may_duplicate(self, state: JobState, nodes: tuple[int, ...]) -> bool:
        """Return whether the nodes can run one after the other, where all but the last are duplicates."""
        last = len(nodes) - 1
        if not state.may_duplicate:
            return False
        for number, node in enumerate(nodes):
            if node < 0 or (not state.assigned[node] and (number < last or state.tickets[node] is None)):
                return False
            for parent, _ in state.job.parent_lists[node]:
                if not state.copies[parent] and parent not in nodes[:number]:
                    return False
        return True

    def _mark_assigned(self, state: JobState, node: int) -> None:
        """Update the state after a node has been assigned."""
        self._hide(state, node)
        for child in state.mark_assigned(node):
            if self.plan_ahead and not state.assigned[child]:
                self._reveal(state, child)

    # -- completions ----------------------------------------------------------------------------------

    def _completed(self, copy: Copy) -> None:
        """Update the state after a copy has finished."""
        state, node = copy.state, copy.node
        is_whole = state.complete(copy)  # always True if nodes are not split into tasks
        if is_whole and not state.has_data[node]:
            for child in state.hold(node):
                if not self.plan_ahead and not state.assigned[child]:
                    self._reveal(state, child)
        waiting = state.waiting_executors.pop(node, None)
        if waiting:
            self._execution.look_again(waiting)
        if self.listening:
            self.emit("completion", copy)
        if is_whole and not state.finished[node]:
            state.finish(node)
            if not state.num_unfinished:
                self._finish_job(state, copy.finish)
        self._open_cycle()

    def _finish_job(self, state: JobState, time: float) -> None:
        """Record a job whose nodes have all finished, and remove it from the system."""
        job = state.job
        del self._jobs[job.job_id]
        self._execution.withdraw_rest(state)
        self._record["jobs"]((job, state.arrival_number, state.started_at, time, "completed"))
        if self.listening:
            self.emit("job_completion", job)
        self.stop_if_done()

    def close(self, time: float) -> None:
        """Record the jobs that are in the system when the run ends."""
        self._execution.close(time)
        for state in self._jobs.values():
            started = state.started_at == state.started_at
            times = state.started_at if started else None, None
            self._record["jobs"]((state.job, state.arrival_number, *times, "running" if started else "queued"))

    def drop_future(self) -> None:
        """Continue only with what an agent can know at the current decision: for forks without foresight.

        No further jobs arrive, executors that are down stay down, and extra processes end. Nodes take as long as agents
        expect. Single tasks take their expected duration; running tasks end no earlier than now.
        """
        self.forget_sources()
        self._execution.go_on_as_expected()

    # -- outages --------------------------------------------------------------------------------------

    def is_down(self, executor: int) -> bool:
        """Return whether an executor is down."""
        return self._execution.is_down(executor)

    def on_failure(self, units: list[int]) -> None:
        """Fail executors: drop what runs or waits on them and, if configured, the results that they hold."""
        waiting = self._execution.on_failure(units)
        for state in list(self._jobs.values()):
            if self.outages_lose_data:
                state.lose_results(units)
            own = [copy for copy in waiting if copy.state is state]
            for copy in state.unsupported(own, units, lost=self.outages_lose_data):
                self._execution.withdraw(copy)
            state.recount()
            self._offer_anew(state)
        others = [executor for executor in self._plan.executor_queues if executor not in units]
        for executor in others:
            self._plan.mark(executor)
        self._execution.look_again(others)
        for executor in units:
            self._record["outages"]((self.env.now, executor, "down"))
        self.emit("outage", self.failures.ids(units))
        self._open_cycle()

    def _offer_anew(self, state: JobState) -> None:
        """Update which nodes are ready, now that some have to run again."""
        for node, ready in enumerate(state.ready(plan_ahead=bool(self.plan_ahead))):
            if not ready:
                self._hide(state, node)
            elif state.tickets[node] is None:
                self._reveal(state, node)

    def on_repair(self, units: list[int]) -> None:
        """Repair executors; data that they had received before must be sent to them again."""
        for executor in units:
            self._execution.on_repair(executor)
            self._record["outages"]((self.env.now, executor, "up"))
            if self.outages_lose_data:
                if self._back_since is None:
                    self._back_since = np.zeros(self.executors.num_executors)
                self._back_since[executor] = self.env.now
                for state in self._jobs.values():
                    state.lose_received(self._back_since)
        self.emit("repair", self.failures.ids(units))
        self._open_cycle()
