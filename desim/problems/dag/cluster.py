"""DAG jobs on heterogeneous executors, with data transfers and duplication of nodes.

Model: Luo et al., "Learning to Optimize DAG Scheduling in Heterogeneous Environment" (LACHESIS), section III.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, ClassVar, Literal

import numpy as np
import simpy
from numpy.typing import NDArray

from desim.checks import check_choice, items
from desim.core import Decision
from desim.exceptions import InfeasibleAction, InvalidConfiguration, WorkloadError
from desim.problem import Problem, Process
from desim.problems.dag.execution import Execution, Plan
from desim.problems.dag.executors import Executors, SharedLinks
from desim.problems.dag.job import Job, TaskTimes
from desim.problems.dag.observation import Assign, DagObservation, explain
from desim.problems.dag.state import Copy, InputTransfer, JobState, Setting
from desim.processes.arrivals import Arrivals
from desim.processes.outages import FailingCluster, FailureCounts

__all__ = ["DagCluster"]


class DagCluster(FailingCluster, Problem):
    """Executors that run the nodes of DAG jobs, each node whole on one executor and without interruption.

    A node can start on an executor once the data of some copy of each of its parents have arrived there. A decision is
    due when a job arrives, a node finishes or an executor changes between up and down, as long as there are ready
    nodes: those whose parents have all finished or, with ``plan_ahead``, are all assigned. The answer is an
    :class:`Assign`, a list of them, or None for nothing until the next event; after an action that leaves ready
    nodes the agent is asked again.

    Events for listeners: ``arrival`` (the subject is the Job), ``assignment``, ``start``, ``completion`` and
    ``withdrawal`` (a Copy), ``job_completion`` (the Job), ``outage`` and ``repair`` (the number of the executor).

    Parameters
    ----------
    jobs : iterable of Job
        In order of submission time. An iterator is read once, one job ahead of the clock.
    executors : Executors
        What they run on.
    plan_ahead : bool
        Nodes may be assigned as soon as their parents are, instead of after these have finished.
    transfers : {"when_finished", "when_assigned"}
        When data set out to another executor: when the parent has finished, as in the paper, so that a node finds data
        on their way that were sent before it was assigned; or not before the node is assigned.
    outages_lose_data : bool
        An executor that goes down loses the results that it holds; what is still needed of them and held nowhere else
        has to be run again. What runs and waits on it is lost in any case, and its nodes become ready again.
    links : SharedLinks, optional
        Links that transfers share, which may then arrive later than they would alone; it takes
        ``transfers="when_assigned"``. Expected times leave out what else is under way.
    processes : iterable of callables
        Extra SimPy processes, for example outages; each is called with the bound cluster.

    Attributes
    ----------
    observation : DagObservation
        What agents see; of a bound cluster.

    Raises
    ------
    InvalidConfiguration
        If an argument is not one of its choices.

    Examples
    --------
    >>> from desim.agents.dag import HEFT
    >>> from desim import simulate
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), HEFT())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name: ClassVar[str] = "dag"
    sources: ClassVar[tuple[str, ...]] = ("jobs",)
    constants: ClassVar[tuple[type, ...]] = (Job, TaskTimes, Executors, SharedLinks, InputTransfer)
    granularity: ClassVar[str] = "node"
    events: ClassVar[tuple[str, ...]] = (
        "arrival",
        "assignment",
        "start",
        "completion",
        "withdrawal",
        "job_completion",
        "outage",
        "repair",
    )

    def __init__(
        self,
        jobs: Iterable[Job],
        executors: Executors,
        *,
        plan_ahead: bool = False,
        transfers: Literal["when_finished", "when_assigned"] = "when_finished",
        outages_lose_data: bool = True,
        links: SharedLinks | None = None,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        check_choice("transfers", transfers, ("when_finished", "when_assigned"))
        if links is not None and transfers != "when_assigned":
            raise InvalidConfiguration(
                f"transfers is {transfers!r}, want 'when_assigned' with links: a copy that is not assigned has no route"
            )
        if links is not None and links.num_executors != executors.num_executors:
            raise InvalidConfiguration(
                f"the links are for {links.num_executors} executors, there are {executors.num_executors}"
            )
        self.jobs = items("jobs", jobs, "jobs", "submission_time")
        self.executors = executors
        self.plan_ahead = bool(plan_ahead)
        self.transfers = transfers
        self.outages_lose_data = bool(outages_lose_data)
        self.links = links

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without the jobs, as plain values."""
        return {
            "problem": self.name,
            "granularity": self.granularity,
            **self.executors.describe(),
            "plan_ahead": self.plan_ahead,
            "transfers": self.transfers,
            "outages_lose_data": self.outages_lose_data,
            "links": None if self.links is None else self.links.describe(),
        }

    # -- the run --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Set up the executors and start their processes, the decisions and the arrivals."""
        self._record = {name: table.append for name, table in self.simulation.records.tables.items()}
        self._record["executors"](self.executors)
        self._record["channels"](self.executors)
        self._plan = Plan(self.env, self.executors.num_executors, is_exact=self._is_exact)
        self.failures = FailureCounts("executor", self.executors.num_executors)
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
        self._execution = Execution(
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
        """Whether nothing happens later than expected but for outages."""
        return self.links is None

    def _new_state(self, job: Job) -> JobState:
        return JobState(job, self._num_arrived, self._setting, self._back_since)

    def _act(self, decision: simpy.Event) -> None:
        """Carry an answer out, and ask again if the cycle goes on."""
        decision.callbacks = self._on_answer  # the same decision serves again
        action = decision._value
        actions = action if type(action) is list else (action,)
        goes_on = bool(actions)
        for single in actions:
            goes_on = single is not None
            if not goes_on:
                break
            self._carry_out(single)
        if goes_on and self._ready:
            self._decision.request()
        else:
            self._cycling = False

    def _open_cycle(self) -> None:
        """Ask for a decision, unless a cycle is open already or there is nothing to assign."""
        self.observation.time = self.env.now
        if not self._cycling and self._ready:
            self._cycling = True
            self._decision.request()

    def is_empty(self) -> bool:
        """Tell whether no job is in the system."""
        return not self._jobs

    def is_idle(self) -> bool:
        """Tell whether no copy runs or waits on any executor."""
        return not any(table.running or table.waiting for table in self._plan.executor_queues.values())

    def submit(self, job: Job) -> None:
        """Take a job now, as the arrival process does; a process of your own may call it, too.

        Parameters
        ----------
        job : Job
            Its submission time must not lie in the future.

        Raises
        ------
        WorkloadError
            If it does, a job of that id is in the system, or the job's run times are for other executors.
        """
        if job.submission_time > self.env.now:
            raise WorkloadError(f"job {job.job_id} cannot be submitted at {self.env.now} s: it lies in the future")
        self._take(job)

    def _take(self, job: Job) -> None:
        """Put a job that has arrived into the system."""
        if job.job_id in self._jobs:
            raise WorkloadError(f"{job!r} arrives while another job {job.job_id} is in the system")
        self._jobs[job.job_id] = state = self._new_state(job)
        self._num_arrived += 1
        self._record["nodes"]((job, state.arrival_number), job.num_nodes)
        self._record["edges"]((job, state.arrival_number), job.num_edges)
        for node, parents in enumerate(job.parent_lists):
            if not parents:
                self._reveal(state, node)
        if self.listening:
            self.emit("arrival", job)
        self._open_cycle()

    def _reveal(self, state: JobState, node: int) -> None:
        """Make a node ready."""
        observation = self.observation
        ticket = observation.num_revealed
        observation.num_revealed = ticket + 1
        self._ready[ticket] = (state, node)
        state.tickets[node] = ticket

    def _hide(self, state: JobState, node: int) -> None:
        """Make a node ready no more, if it was."""
        ticket = state.tickets[node]
        if ticket is not None:
            del self._ready[ticket]
            state.tickets[node] = None

    # -- assignments ----------------------------------------------------------------------------------

    def _carry_out(self, action: Any) -> None:
        """Carry out an assignment."""
        if isinstance(action, Assign) and self._is_possible(action):
            state, node = self._jobs[action.job_id], int(action.node)
            if self._execution.assign(state, (*action.duplicates, node), int(action.executor), action.position):
                if not state.assigned[node]:
                    self._mark_assigned(state, node)
                return
        raise InfeasibleAction(f"time {self.env.now}: {explain(self.observation, action)}")

    def _is_possible(self, action: Assign) -> bool:
        """Tell whether an action names what there is, so that it can be tried."""
        job_id, node, executor, duplicates, position = action
        try:
            state = self._jobs.get(job_id)
            if state is None or node < 0 or not 0 <= executor < self.executors.num_executors:
                return False
            if self._execution.is_down(executor):
                return False
            if position is not None and not 0 <= position <= len(self._plan.executor_queues[executor].waiting):
                return False
            if not duplicates and state.tickets[node] is not None:
                return True
            return self._may_duplicate(state, (*duplicates, node))
        except (TypeError, IndexError, KeyError):
            return False

    def _may_duplicate(self, state: JobState, nodes: tuple[int, ...]) -> bool:
        """Tell whether nodes can run one behind the other, all of which but the last have been assigned before."""
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
        """Take note that a node has been assigned."""
        self._hide(state, node)
        for child in state.mark_assigned(node):
            if self.plan_ahead and not state.assigned[child]:
                self._reveal(state, child)

    # -- completions ----------------------------------------------------------------------------------

    def _completed(self, copy: Copy) -> None:
        """Take note that a copy has finished."""
        state, node = copy.state, copy.node
        is_whole = state.complete(copy)  # of a node that runs whole, always
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
        """Record a job all of whose nodes have finished, and forget it."""
        job = state.job
        del self._jobs[job.job_id]
        self._execution.withdraw_rest(state)
        self._record["jobs"]((job, state.arrival_number, state.started_at, time, "completed"))
        if self.listening:
            self.emit("job_completion", job)
        self.stop_if_done()

    def close(self, time: float) -> None:
        """Record what is in the system when the run ends."""
        self._execution.close()
        for state in self._jobs.values():
            started = state.started_at == state.started_at
            times = state.started_at if started else None, None
            self._record["jobs"]((state.job, state.arrival_number, *times, "running" if started else "queued"))

    def drop_future(self) -> None:
        """Go on as far as an agent can know at the decision that is due: in forks without foresight.

        Nothing else arrives, executors that are down stay down, processes end. Nodes take as long as agents see that
        they do, and single tasks as long as is expected of them, those that run at least until now.
        """
        self.forget_sources()
        self._execution.go_on_as_expected()

    # -- outages --------------------------------------------------------------------------------------

    def is_down(self, executor: int) -> bool:
        """Tell whether an executor is down."""
        return self._execution.is_down(executor)

    def on_failure(self, units: int, fresh: list[int]) -> None:
        """Let executors go down, with what runs and waits on them and perhaps with the results that they hold."""
        if not fresh:
            return
        waiting = self._execution.on_failure(fresh)
        for state in list(self._jobs.values()):
            if self.outages_lose_data:
                state.lose_results(fresh)
            own = [copy for copy in waiting if copy.state is state]
            for copy in state.unsupported(own, fresh, lost=self.outages_lose_data):
                self._execution.withdraw(copy)
            state.recount()
            self._offer_anew(state)
        others = [executor for executor in self._plan.executor_queues if executor not in fresh]
        for executor in others:
            self._plan.mark(executor)
        self._execution.look_again(others)
        for executor in fresh:
            self._record["outages"]((self.env.now, executor, "down"))
            self.emit("outage", executor)
        self._open_cycle()

    def _offer_anew(self, state: JobState) -> None:
        """Withdraw or offer nodes, now that some have to run again."""
        for node, ready in enumerate(state.ready(plan_ahead=self.plan_ahead)):
            if not ready:
                self._hide(state, node)
            elif state.tickets[node] is None:
                self._reveal(state, node)

    def on_repair(self, units: int, fresh: list[int]) -> None:
        """Let executors work again; data that they had received before have to be sent to them again."""
        for executor in fresh:
            self._execution.on_repair(executor)
            self._record["outages"]((self.env.now, executor, "up"))
            self.emit("repair", executor)
            if self.outages_lose_data:
                if self._back_since is None:
                    self._back_since = np.zeros(self.executors.num_executors)
                self._back_since[executor] = self.env.now
                for state in self._jobs.values():
                    state.lose_received(self._back_since)
        self._open_cycle()
