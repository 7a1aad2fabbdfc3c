"""What goes on in a DAG cluster: jobs arrive, decisions are carried out, jobs end."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from operator import attrgetter
from typing import Any, Literal

import simpy

from desim.core import Decision, reschedule
from desim.exceptions import InfeasibleAction, WorkloadError
from desim.problems.dag.actions import Assign
from desim.problems.dag.execution import Execution
from desim.problems.dag.executors import Executors
from desim.problems.dag.failures import ExecutorFailures
from desim.problems.dag.job import Job
from desim.problems.dag.job_state import JobState
from desim.problems.dag.links import SharedLinks
from desim.problems.dag.observation import DagObservation
from desim.problems.dag.plan import Plan
from desim.problems.dag.receiving import DirectTransfers, Receiving
from desim.problems.dag.refusals import explain
from desim.problems.dag.shared_transfers import SharedTransfers
from desim.problems.failures import UnitCluster
from desim.processes.arrivals import arrivals
from desim.processes.executors import ExecutorStatus

__all__ = ["DagDynamics"]


class DagDynamics(UnitCluster):
    """The part of a cluster that is at work during one simulation, on the bound copy.

    The configuration, and what users call, is that of :class:`DagCluster`.

    Parameters
    ----------
    processes : iterable of callables
        Extra SimPy processes.

    Attributes
    ----------
    observation : DagObservation
        What agents see.
    """

    jobs: Iterable[Job]
    executors: Executors
    plan_ahead: bool
    transfers: Literal["when_finished", "when_assigned"]
    outages_lose_data: bool
    links: SharedLinks | None
    _failures: ExecutorFailures

    def begin(self) -> None:
        """Set up the executors and start their processes, the decisions and the arrivals."""
        self._record = {name: table.append for name, table in self.simulation.records.tables.items()}
        self._record["executors"](self.executors)
        self._record["channels"](self.executors)
        self._plan = self._new_plan()
        self._receiving = self._new_receiving()
        self._failures = self._new_failures()
        self.observation = DagObservation(self.executors, self._plan)
        self._jobs = self.observation.jobs
        self._executable = self.observation.executable
        self._cycling = True
        self.env.process(self._schedule())  # its first decision waits before any arrival
        self._execution = self._new_execution()
        stream = self.env.process(arrivals(self.env, self.jobs, attrgetter("submission_time"), self._take))
        self.foreground.append(stream)
        stream.callbacks.append(self.foreground_ended)

    def _new_plan(self) -> Plan:
        return Plan(self.env, self.executors.num_executors, is_exact=self.links is None)

    def _new_receiving(self) -> Receiving:
        return DirectTransfers() if self.links is None else SharedTransfers(self, self.links)

    def _new_failures(self) -> ExecutorFailures:
        return ExecutorFailures(self)

    def _new_execution(self) -> Execution:
        return Execution(self)

    def _new_state(self, job: Job) -> JobState:
        eager = self.transfers == "when_finished"
        return JobState(job, self.executors, self.env, sent_when_finished=eager)

    def _schedule(self) -> Generator[simpy.Event, Any, None]:
        """Carry out decisions: the process that waits for them, cycle after cycle."""
        self._decision = decision = Decision(self.simulation, self.observation)
        self._cycling = False
        executable = self._executable
        while True:
            action = yield decision
            decision.callbacks = []  # the same decision serves again
            actions = action if type(action) is list else (action,)
            goes_on = bool(actions)
            for single in actions:
                goes_on = single is not None and self._carry_out(single)
                if not goes_on:
                    break
            if goes_on and executable:
                decision.request()
            else:
                self._cycling = False

    def _open_cycle(self) -> None:
        """Ask for a decision, unless a cycle is open already or there is nothing to assign."""
        self.observation.time = self.env.now
        if not self._cycling and self._executable:
            self._cycling = True
            self._decision.request()

    def foreground_ended(self, process: simpy.Event) -> None:
        """Stop if there will be no more jobs."""
        self._stop_if_done()

    def _stop_if_done(self) -> None:
        """End the run with its last job, whatever goes on in the background."""
        if not self._jobs and not any(process.is_alive for process in self.foreground):
            self.simulation.stop()

    def _take(self, job: Job) -> None:
        """Put a job that has arrived into the system."""
        if job.job_id in self._jobs:
            raise WorkloadError(f"{job!r} arrives while another job {job.job_id} is in the system")
        state = self._new_state(job)
        state._back_since = self._failures.back_since
        self._jobs[job.job_id] = state
        self._record["nodes"](job)
        self._record["edges"](job)
        for node, missing in enumerate(state._unassigned_parents):
            if not missing:
                self._reveal(state, node)
        if self.listening:
            self.emit("arrival", job)
        self._open_cycle()

    def _reveal(self, state: JobState, node: int) -> None:
        """Make a node executable."""
        observation = self.observation
        ticket = observation.num_revealed
        observation.num_revealed = ticket + 1
        self._executable[ticket] = (state, node)
        state._tickets[node] = ticket

    def _carry_out(self, action: Any) -> bool:
        """Carry out an assignment."""
        if not isinstance(action, Assign) or not self._is_possible(action):
            raise InfeasibleAction(f"time {self.env.now}: {explain(self, action)}")
        state = self._jobs[action.job_id]
        node, executor = int(action.node), int(action.executor)
        if not self._place(state, (*action.duplicates, node), executor, action.position):
            raise InfeasibleAction(f"time {self.env.now}: {explain(self, action)}")
        if not state.assigned[node]:
            self._mark_assigned(state, node)
        return True

    def _place(self, state: JobState, nodes: tuple[int, ...], executor: int, position: int | None) -> bool:
        """Put copies of nodes into a queue, one behind the other, if they fit there."""
        copies = self._plan.assign(state, nodes, executor, position)
        if copies is None:
            return False
        for copy in copies:
            self._receiving.assigned(copy)
            if self.listening:
                self.emit("assignment", copy)
        if self._plan.timetables[executor].waiting[0] is copies[0]:
            self._execution.processes[executor].look_again()
        return True

    def _is_possible(self, action: Assign) -> bool:
        """Tell whether an action names what there is, so that it can be tried."""
        job_id, node, executor, duplicates, position = action
        try:
            state = self._jobs.get(job_id)
            if state is None or node < 0 or not 0 <= executor < self.executors.num_executors:
                return False
            if self.is_down(executor):
                return False
            if position is not None and not 0 <= position <= len(self._plan.timetables[executor].waiting):
                return False
            if not duplicates and state._tickets[node] is not None:
                return True
            return self._may_duplicate(state, (*duplicates, node))
        except (TypeError, IndexError, KeyError):
            return False

    def _may_duplicate(self, state: JobState, nodes: tuple[int, ...]) -> bool:
        """Tell whether nodes can run one behind the other, all of which but the last have been assigned before."""
        last = len(nodes) - 1
        for number, node in enumerate(nodes):
            if node < 0 or (not state.assigned[node] and (number < last or state._tickets[node] is None)):
                return False
            for parent, _ in state.job.parent_lists[node]:
                if not state.copies[parent] and parent not in nodes[:number]:
                    return False
        return True

    def is_down(self, executor: int) -> bool:
        """Tell whether an executor is down."""
        return self._execution.processes[executor].status is ExecutorStatus.DOWN

    def _mark_assigned(self, state: JobState, node: int) -> None:
        """Take note that a node has a copy."""
        state.assigned[node] = True
        ticket = state._tickets[node]
        if ticket is not None:
            del self._executable[ticket]
            state._tickets[node] = None
        missing = state._unassigned_parents
        for child, _ in state._children[node]:
            missing[child] -= 1
            if self.plan_ahead and not missing[child] and not state.assigned[child]:
                self._reveal(state, child)

    def _finish_job(self, state: JobState, time: float) -> None:
        """Record a job all of whose nodes have finished, and forget it."""
        job = state.job
        del self._jobs[job.job_id]
        self._execution.withdraw_rest(state)
        self._record["jobs"]((job, state._started_at, time, "completed"))
        if self.listening:
            self.emit("job_completion", job)
        self._stop_if_done()

    def forget_future(self) -> None:
        """Go on as far as an agent can know at the decision that is due: in forks without foresight.

        Nothing else arrives, executors that are down stay down, processes end. Nodes take as long as agents see that
        they do, and single tasks as long as is expected of them, those that run at least until now.
        """
        self._forget_sources()
        ends = self._execution.expected_ends()
        kept = {process.next_event: None for process in self._execution.processes}
        kept |= dict.fromkeys(self._receiving.next_events())

        def time_of(event: simpy.Event, time: float) -> float | None:
            """Return when what is scheduled for a time will happen, if it will."""
            return ends.get(event, time) if event in kept else None

        reschedule(self.env, time_of)

    def close(self, time: float) -> None:
        """Record what is in the system when the run ends."""
        self._execution.close()
        for state in self._jobs.values():
            started = state._started_at == state._started_at
            start = state._started_at if started else None
            self._record["jobs"]((state.job, start, None, "running" if started else "waiting"))
