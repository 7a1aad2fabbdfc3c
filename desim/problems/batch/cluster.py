"""The batch cluster: cores or nodes, a queue of jobs, and schedule cycling.

Model: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II-A and III-B.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import attrgetter, itemgetter, or_
from typing import Any, ClassVar, Literal

import simpy

from desim.checks import check_choice, check_float, items, python_scalar
from desim.core import Decision, Phase, at, reschedule
from desim.exceptions import InfeasibleAction, InvalidConfiguration, WorkloadError
from desim.problem import Problem, Process
from desim.problems.batch.attributes import types_of_attributes
from desim.problems.batch.cycles import Cycle, check_cycle, describe_cycle, next_multiple
from desim.problems.batch.dependencies import Dependencies, Followers
from desim.problems.batch.executions import NO_PAST, PastExecutions
from desim.problems.batch.job import Job, Start, StartWithSize, WaitForCores, WaitUntil, check_job
from desim.problems.batch.limits import Admission, Limit
from desim.problems.batch.nodes import CompiledRequest, Node, NodeAllocation, NodeTable
from desim.problems.batch.observation import BatchObservation, BatchState, Execution, Resumed, Suspended
from desim.problems.batch.placement import PlacementPolicy
from desim.problems.batch.predictors import Predictions, RunTimePredictor, as_predictor, describe_predictor
from desim.problems.batch.preemption import QOSTable, QualityOfService, StartPreempting
from desim.problems.batch.request import Request
from desim.problems.batch.reservations import AdvanceReservation
from desim.problems.batch.resources.cores import CoreResources
from desim.problems.batch.resources.node_availability import StartOnNodes
from desim.problems.batch.resources.nodes import NodeResources
from desim.problems.batch.resources.protocols import Resources
from desim.processes.arrivals import Arrivals
from desim.processes.outages import FailingCluster
from desim.tables import Table

__all__ = ["BatchCluster"]


class BatchCluster(FailingCluster, Problem):
    """Cluster of identical cores, or of nodes with resources, with an unbounded queue of jobs.

    A scheduling cycle opens at every arrival, completion, outage and repair, when a reservation begins or ends, and
    when a running job reaches its expected end without ending (see `predictor`). `cycle` says which events of one
    instant share a cycle. Completions are processed first, then outages, repairs and reservations, then arrivals.

    Within a cycle the agent is asked repeatedly:

    * A job id or a :class:`Start` starts that job, and the cycle continues. So do :class:`StartWithSize`, which starts
      a moldable job in one of its sizes, and :class:`StartPreempting`, which starts a job by preempting others.
    * None, a :class:`WaitUntil` or a :class:`WaitForCores` ends the cycle.
    * A list of such actions is carried out in order and ends the cycle. It saves an agent that has decided on several
      actions at once the decisions in between.

    With `nodes`, cores are numbered consecutively node by node, and jobs may have requests. A
    plain :class:`Job` counts as one task per requested core, with one core each. An agent may name nodes with a
    :class:`StartOnNodes`; otherwise the placement policy chooses. The run time of a job is that on the slowest of its
    nodes, given their speeds and the job's run times by GPU model. Its requested time is a limit on all nodes.

    Events for listeners: ``arrival`` and ``rejection`` (the subject is the :class:`Job`);
    ``start``, ``completion`` and ``interruption`` (an :class:`Execution`); ``outage`` and
    ``repair`` (a tuple of core numbers, or of node names).

    Parameters
    ----------
    jobs : iterable of Job
        Jobs in order of submission. An iterator is read once, one job ahead of the clock, so that memory use grows
        only with the jobs in the system. A list can be simulated repeatedly; only in a list may jobs depend on others,
        and only their attributes are recorded. A job with dependencies is submitted once its predecessors have ended
        and its think time has passed, but not before its submission time in the workload.
    num_cores : int, optional
        Number of cores, at least 1. Omit it with `nodes`, which determine the number of cores.
    nodes : iterable of Node, optional
        Nodes with memory, GPUs and other resources, at least one.
    placement : str or PlacementPolicy, optional
        Policy that chooses among the nodes with room for a job (default: ``"first-fit"``, the first ones).
    enforce_time_limit : bool
        Whether the requested time is a time limit at which a job is killed, as on real systems.
    over_time_limit : float
        Seconds that a job may exceed its requested time before it is killed.
    checkpoint_interval : float, optional
        Seconds of work between checkpoints. After an outage, a requeued job resumes from its last checkpoint. By
        default there are no checkpoints, and the job starts from the beginning.
    infeasible : {"raise", "forward"}
        What an infeasible action does: raise :class:`~desim.exceptions.InfeasibleAction`, or end the cycle, as in the
        model of schedule cycling.
    too_wide : {"error", "reject"}
        What happens to a job that requests more than the cluster has: raise
        :class:`~desim.exceptions.WorkloadError`, or record the job as rejected.
    on_outage : {"requeue", "lose"}
        What happens to a running job when one of its cores or nodes fails: it returns to its position in the queue and
        starts again later, or it is lost.
    ask_when_empty : bool
        Whether to request decisions even if no job is queued. The only feasible action is then to wait.
    cycle : {"instant", "arrival", "event"} or float
        When cycles open. ``"instant"``: once, after all events of an instant. ``"arrival"``: once for each arrival,
        which is then the last job of the queue; the other events of the instant share the first of these cycles, as
        in the model of the DBF paper. ``"event"``: after each single event. A number: at its multiples, in seconds,
        if an event has happened since the last cycle.
    predictor : str or RunTimePredictor
        How long jobs are expected to run, which plans of backfilling use: ``"request"``, their requested times;
        ``"user-average"``, the mean of the last two jobs of the user; ``"oracle"``, their actual run times; or an
        object, see :mod:`desim.problems.batch.predictors`. A run works on a copy of it. Time limits remain those
        of the requests.
    limits : iterable of Limit
        Limits on what a job may request, and on what a user, partition or queue may use at once. A job that requests
        more than a limit allows is treated like one that is too wide. Other jobs are held outside the queue until
        the limit permits them.
    reservations : iterable of AdvanceReservation
        Advance reservations of cores or nodes that jobs cannot use, such as maintenance reservations.
    qos : iterable of QualityOfService
        QOS levels, which define whose jobs may preempt which others. Jobs name theirs.
    processes : iterable of callables
        Extra SimPy processes, such as those of :mod:`desim.processes.outages`. Each is called with
        the bound cluster, whose ``observation`` (a :class:`BatchObservation`) shows its state.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    WorkloadError
        If a dependency names a job that does not exist or an id that two jobs have, dependencies form a cycle, or an
        attribute has a name that is taken.
    """

    name: ClassVar[str] = "batch"
    sources: ClassVar[tuple[str, ...]] = ("jobs",)
    constants: ClassVar[tuple[type, ...]] = (
        Job,
        NodeTable,
        Request,
        CompiledRequest,
        NodeAllocation,
        Dependencies,
        Limit,
        AdvanceReservation,
        QOSTable,
    )
    work_tables: ClassVar[tuple[str, ...]] = ("jobs", "interruptions")
    events: ClassVar[tuple[str, ...]] = (
        "arrival",
        "rejection",
        "start",
        "completion",
        "interruption",
        "outage",
        "repair",
    )

    def __init__(
        self,
        jobs: Iterable[Job],
        num_cores: int | None = None,
        *,
        nodes: Iterable[Node] | NodeTable | None = None,
        placement: str | PlacementPolicy | None = None,
        enforce_time_limit: bool = True,
        over_time_limit: float = 0.0,
        checkpoint_interval: float | None = None,
        infeasible: Literal["raise", "forward"] = "raise",
        too_wide: Literal["error", "reject"] = "error",
        on_outage: Literal["requeue", "lose"] = "requeue",
        ask_when_empty: bool = False,
        cycle: Cycle = "instant",
        predictor: str | RunTimePredictor = "request",
        limits: Iterable[Limit] = (),
        reservations: Iterable[AdvanceReservation] = (),
        qos: Iterable[QualityOfService] = (),
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        self.jobs = items("jobs", jobs, "jobs", "submission_time")
        in_advance = [job for job in jobs if isinstance(job, Job)] if isinstance(jobs, Sequence) else []
        self.attributes = types_of_attributes(in_advance)
        known_after = Dependencies(in_advance) if any(map(_after, in_advance)) else None
        self.dependencies = known_after if known_after is not None and known_after.of_job else None
        self.limits = tuple(limits)
        if wrong := [limit for limit in self.limits if not isinstance(limit, Limit)]:
            raise InvalidConfiguration(f"limits: got {wrong[0]!r}, expected Limit objects")
        known = QOSTable(qos)
        self.qos = known if known.by_name else None
        for job in in_advance if self.qos is not None else ():
            known.check(job)
        self.resources: Resources
        if nodes is not None:
            if num_cores is not None:
                raise InvalidConfiguration("nodes: got num_cores as well, expected only one of them")
            self.resources = NodeResources(nodes, placement, reservations)
            self.placement = self.resources.policy  # an attribute of the configuration, which forks share
        elif num_cores is None:
            raise InvalidConfiguration("num_cores: got None without nodes; give num_cores or nodes")
        elif placement is not None:
            raise InvalidConfiguration("placement: needs nodes; a cluster given by num_cores has none")
        else:
            self.resources = CoreResources(num_cores, reservations)
        self.num_cores = self.resources.num_cores
        self.reservations = self.resources.reservations
        self.enforce_time_limit = enforce_time_limit
        self.over_time_limit = check_float("over_time_limit", over_time_limit, least=0)
        self.checkpoint_interval = (
            None if checkpoint_interval is None else check_float("checkpoint_interval", checkpoint_interval, above=0)
        )
        self.infeasible = check_choice("infeasible", infeasible, ("raise", "forward"))
        self.too_wide = check_choice("too_wide", too_wide, ("error", "reject"))
        self.on_outage = check_choice("on_outage", on_outage, ("requeue", "lose"))
        self.ask_when_empty = ask_when_empty
        self.cycle = check_cycle(cycle)
        self.predictor = as_predictor(predictor)

    def describe(self) -> dict[str, Any]:
        """Return the configuration without the jobs, as JSON-compatible values."""
        description = {
            "problem": self.name,
            "num_cores": self.num_cores,
            "enforce_time_limit": self.enforce_time_limit,
            "infeasible": self.infeasible,
            "too_wide": self.too_wide,
            "on_outage": self.on_outage,
            "ask_when_empty": self.ask_when_empty,
        } | describe_cycle(self.cycle)
        if self.over_time_limit:
            description["over_time_limit"] = self.over_time_limit
        if self.checkpoint_interval is not None:
            description["checkpoint_interval"] = self.checkpoint_interval
        if self.attributes:
            description["attributes"] = self.attributes
        if self.dependencies is not None:
            description["dependencies"] = len(self.dependencies.of_job)
        if self.limits:
            description["limits"] = len(self.limits)
        if self.reservations:
            description["reservations"] = len(self.reservations)
        if self.qos is not None:
            description["qos"] = len(self.qos.by_name)
        return description | describe_predictor(self.predictor) | self.resources.describe()

    def hear(self, agent: Any) -> None:
        """Call an agent's methods ``on_submit``, ``on_start`` and ``on_end``, if it has them, as events happen.

        They are called in the order of events, before the decision of the instant, in the agent's own run, and not in
        forks. Jobs are given as agents know them. The methods of wrapped agents are called as well.

        * ``on_submit(job)``: a job has arrived.
        * ``on_start(execution)``: an execution has begun, see :class:`ObservedExecution`.
        * ``on_end(execution, outcome)``: it has ended, ``execution.ran`` seconds later: ``"completed"``, ``"killed"``,
          ``"lost"``, ``"requeued"``, ``"preempted"`` or ``"suspended"``.

        Parameters
        ----------
        agent : Agent
            Agent, before its first decision.
        """
        if (on_submit := getattr(agent, "on_submit", None)) is not None:
            self.on("arrival", lambda time, job: on_submit(job.known()))
        if (on_start := getattr(agent, "on_start", None)) is not None:
            self.on("start", lambda time, execution: on_start(execution.observed()))
        if (on_end := getattr(agent, "on_end", None)) is not None:
            for event in ("completion", "interruption"):
                self.on(event, lambda time, execution: on_end(execution.observed(), execution.outcome))
        for name in ("agent", "base"):
            if (wrapped := getattr(agent, name, None)) is not None and hasattr(wrapped, "act"):
                self.hear(wrapped)

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster, and start the scheduler and the arrivals."""
        tables = self.simulation.records.tables
        self.resources = self.resources.begun(tables)
        self.failures = self.resources.failures
        self._state = BatchState(self.env, self.resources)
        self._inbox: deque[Job] = deque()  # jobs that arrived while a cycle was open, which does not show them
        self._numbers: dict[int, int] = {}  # arrival numbers of the jobs in the system, by id
        self._arrived = 0
        self._past: dict[int, PastExecutions] = {}  # of jobs in the system that were interrupted, by id
        self._elsewhere: dict[int, Job] = {}  # running jobs as submitted, if their run time differs where they run
        self._period = 0.0 if isinstance(self.cycle, str) else self.cycle
        self._serializes = self.cycle in ("arrival", "event")
        self._cycling = False
        self._acting = False  # whether an answer is being carried out
        self._is_missed = False  # whether something happened meanwhile that the cycle may not show
        self._is_planned = False  # whether a cycle is planned at the next multiple of the period
        self._awaited_cores = 0  # completions and arrivals open no cycle while fewer cores are free
        self._hears_arrivals = True  # whether an arrival lowers this threshold to the cores that it requests
        self._wakes: dict[float, simpy.Event] = {}  # times at which the agent has asked for a cycle
        self._on_completion = self._complete  # bound once instead of once per job
        self._record_job = self.resources.record_job
        self._predictions: Predictions | None = None
        if describe_predictor(self.predictor):  # not by requests
            self._predictions = self._state.predictions = Predictions(self.predictor)
            self._record_job = self._record_prediction
        self.observation = BatchObservation(self._state)
        self._decision = Decision(self.simulation, self.observation, immediate=self.cycle == "event")
        self._on_answer: list[Callable[[Any], None]] = [self._act]
        self._decision.callbacks = self._on_answer
        self._followers: Followers | None = None
        deliver = self._take
        if self.dependencies is not None:
            self._followers = Followers(self.dependencies)
            self._record_dependency = tables["dependencies"].append
            deliver = self._arrive
        self._admission: Admission | None = None
        if self.limits:
            self._admission = self._state.admission = Admission(self.limits)
            self._record_group = tables["limited_jobs"].append
            for number, limit in enumerate(self.limits):
                tables["limits"].append((number, limit))
        self._state.attributes = self.attributes
        for number, reservation in enumerate(self.reservations):  # ends first: another may begin at the same instant
            at(self.env, reservation.end, Phase.CAPACITY, number).callbacks.append(self._close_reservation)
        for number, reservation in enumerate(self.reservations):
            at(self.env, reservation.start, Phase.CAPACITY, number).callbacks.append(self._open_reservation)
        self._state.qos = self.qos
        if self.qos is not None:
            for row in self.qos.rows():
                tables["qos"].append(row)
        if self._followers is not None or self._admission is not None:
            self._on_completion = self._complete_for_others
        self.keep_running(Arrivals(self.env, self.jobs, _submission_time, deliver))

    def is_empty(self) -> bool:
        """Return whether no job is in the system."""
        state = self._state
        return not (state.running or state.queued or state.suspended or self._inbox or self._hides_jobs())

    def is_idle(self) -> bool:
        """Return whether no job is running and nothing is due: no reservation, no think time and no wake-up."""
        thinks = self._followers is not None and self._followers.is_thinking()
        return not (self._state.running or self._state.reservations or thinks or self._wakes or self._is_planned)

    def tables(self) -> dict[str, Table]:
        """Return the tables ``jobs``, ``interruptions`` and ``outages``; large clusters use smaller chunks."""
        chunk_rows = min(16_384, max(1_024, (1 << 24) // self.num_cores))
        bound = super().tables()
        return bound | {"jobs": replace(bound["jobs"], chunk_rows=chunk_rows)}

    # arrivals

    def submit(self, job: Job) -> None:
        """Submit a job now, as the arrival process does; custom processes may call it as well.

        Parameters
        ----------
        job : Job
            Job whose submission time is not in the future.

        Raises
        ------
        WorkloadError
            If the job is invalid or too wide, or has the id of a job in the system.
        """
        check_job(job)
        if job.submission_time > self.env.now:
            raise WorkloadError(f"job {job.job_id} cannot be submitted at {self.env.now} s: {job!r} lies in the future")
        self._take(job)

    def _take(self, job: Job) -> None:
        """Put a job that has arrived into the queue, or into the inbox while a cycle is open."""
        numbers = job[:6]
        job_id, _, requested_cores, requested_time, run_time, _ = numbers
        try:
            plausible = requested_cores > 0 <= requested_time < math.inf > run_time >= 0
            _NUMBERS.pack(*numbers)
        except (TypeError, struct.error) as error:
            check_job(job)
            raise WorkloadError(f"{job!r} holds a value of the wrong type: {error}") from error
        if not plausible or job.sizes or (job.request is not None and job.request.num_cores != requested_cores):
            check_job(job)
        if job.after is not None and self._followers is None and job.after.jobs:
            raise WorkloadError(
                f"job {job_id} depends on other jobs, but the cluster does not know all jobs in advance; pass a list"
            )
        number = self._arrived
        self._arrived = number + 1
        if self.qos is not None and job.qos:
            self.qos.check(job)
            self.simulation.records.tables["job_qos"].append((job_id, job.qos, number))
        if requested_cores > self.resources.always_fits and (fault := self.resources.misfit(job)):
            self._turn_away(job, fault)
            return
        if job_id in self._numbers:
            raise WorkloadError(f"{job!r} arrives while another job {job_id} is in the system; job ids must be unique")
        if self._admission is not None and not self._admits(job):
            return
        self._welcome(job, number)
        if self._cycling and (self._acting or self._serializes):
            self._inbox.append(job)
        else:
            self._enqueue(job)

    def _welcome(self, job: Job, number: int) -> None:
        """Note a job that has entered the system, in the queue or held back."""
        self._numbers[job.job_id] = number
        if self._predictions is not None:
            self._predictions.submit(job)
        if self.listening:
            self.emit("arrival", job)

    def _record_prediction(self, row: tuple[Any, ...]) -> None:
        """Record a job, with what was predicted, and let the predictor learn from it."""
        assert self._predictions is not None
        self.resources.record_job(self._predictions.leave(row))

    # dependencies and limits

    def _hides_jobs(self) -> bool:
        """Return whether jobs are outside the queue because of dependencies or limits."""
        hidden = self._followers is not None and self._followers.jobs
        return bool(hidden or (self._admission is not None and self._admission.held))

    def _arrive(self, job: Job) -> None:
        """Submit a job at its time in the workload, or later if it has dependencies."""
        assert self._followers is not None
        ready = self._followers.arrive(job)
        if ready is None:
            self._take(job)
        elif ready < math.inf:
            self._submit_at(ready, job)

    def _submit_at(self, ready: float, job: Job) -> None:
        """Schedule the submission of a job with dependencies, now if its time has passed."""
        time = max(ready, self.env.now)
        at(self.env, time, Phase.ARRIVAL, job).callbacks.append(self._submit_follower)

    def _submit_follower(self, event: simpy.Event) -> None:
        """Submit a job whose dependencies are satisfied; the current time becomes its submission time."""
        assert self._followers is not None
        waiting: Any = event.value
        job = self._followers.jobs.pop(waiting.job_id)
        self._record_dependency(self._followers.row(job, self.env.now))
        self._take(job._replace(submission_time=self.env.now))
        self.stop_if_done()

    def _complete_for_others(self, execution: Execution) -> None:
        self._complete(execution)
        self._make_way(execution.job.job_id)

    def _make_way(self, job_id: int) -> None:
        """Admit the jobs that were waiting for the end of a job."""
        self._release_followers(job_id)
        if self._admission is not None and (admitted := self._admission.leave(job_id)):
            for job in admitted:
                self._state.admit(job, self._numbers)
            self._open_cycle()

    def _release_followers(self, job_id: int) -> None:
        """Schedule the submission of jobs whose last predecessor has ended."""
        if self._followers is not None:
            for ready, job in self._followers.end(job_id, self.env.now):
                self._submit_at(ready, job)

    def _admits(self, job: Job) -> bool:
        """Return whether a job may enter the queue; otherwise reject it or hold it."""
        assert self._admission is not None
        for limit, group in self._admission.groups_of(job):
            self._record_group((job.job_id, limit, group, self._arrived - 1))
        if fault := self._admission.fault(job):
            self._turn_away(job, fault)
            return False
        if self._admission.arrive(job):
            return True
        self._welcome(job, self._arrived - 1)
        return False

    def _turn_away(self, job: Job, why: str) -> None:
        """Reject a job that has just been counted as arrived, or raise, depending on ``too_wide``."""
        if self.too_wide == "error":
            raise WorkloadError(f"job {job.job_id} {why}; too_wide='reject' records such jobs as rejected")
        self._record_job((job, self._arrived - 1, None, None, None, 0, "rejected", 0, 0.0, None))
        self.emit("rejection", job)
        self._release_followers(job.job_id)

    # scheduling cycles

    def _enqueue(self, job: Job) -> None:
        """Append a job to the queue, and open a cycle unless the agent awaits more cores than are free."""
        self._state.enqueue(job)
        if self._hears_arrivals and job.requested_cores < self._awaited_cores:
            self._awaited_cores = job.requested_cores
        if self.resources.num_free >= self._awaited_cores and not self._cycling:
            self._ask()

    def _ask(self) -> None:
        """Open a cycle now, or plan one at the next multiple of the period."""
        if self._period and (time := next_multiple(self.env.now, self._period)) > self.env.now:
            if not self._is_planned:
                self._is_planned = True
                at(self.env, time, Phase.SLOT).callbacks.append(self._open_planned)
            return
        self._cycling = True
        self._awaited_cores = 0
        self._decision.request()

    def _act(self, decision: Decision) -> None:
        """Carry out an answer; then request the next decision, or end the cycle and enqueue jobs that have arrived."""
        decision.callbacks = self._on_answer  # the decision object is reused
        action = decision._value
        goes_on = False
        self._acting = True
        if type(action) is list:
            for one in action:
                if one is None or not self._carry_out(one):
                    break
        elif action is not None and self._carry_out(action) and type(action) not in _WAITS:
            goes_on = bool(self._state.queued) or self.ask_when_empty
        self._acting, self._cycling = False, goes_on
        while self._inbox and not (self._cycling and self._serializes):
            self._enqueue(self._inbox.popleft())
        if self._is_missed:
            self._is_missed = False
            self._open_cycle()
        if goes_on:
            decision.request()
        elif self._state.suspended:
            self._resume_soon()

    def _open_cycle(self) -> None:
        """Request a decision, unless a cycle is open: its next decision shows all changes of this instant."""
        if self._acting:
            self._is_missed = True
        elif not self._cycling and (self._state.queued or self.ask_when_empty):
            self._ask()
        elif not self._cycling:
            self._awaited_cores = 0  # the wait is over, although there is nothing to ask

    def _open_planned(self, event: simpy.Event) -> None:
        self._is_planned = False
        self._open_cycle()

    def _carry_out(self, action: Any) -> bool:
        """Start the job that an action names, or store the wait condition; return whether the action is feasible."""
        if type(action) in _WAITS:  # first, because they have slow hashes
            return self._wait(action) or self._refuse(action)
        try:
            job = self._state.queued.get(action)
        except TypeError:  # unhashable, so not a job id
            return self._refuse(action)
        if job is not None:
            cores = self.resources.take(job)
            if not cores:
                return self._refuse(action)
            self._start(job, cores)
            return True
        return self._place(action) or self._mold(action) or self._preempt(action) or self._refuse(action)

    def _wait(self, action: Any) -> bool:
        """Store the wait condition; return whether the action is a feasible wait."""
        if type(action) is WaitForCores:
            if self.num_cores >= action.cores > self.resources.num_free:
                self._awaited_cores, self._hears_arrivals = action.cores, action.arrivals
            return action.cores <= self.num_cores
        if action.time is None:
            forgotten = {*self._wakes.values()}
            reschedule(self.env, lambda event, time: None if event in forgotten else time)
            self._wakes.clear()
            return True
        if self.env.now < action.time < math.inf and action.time not in self._wakes:
            self._wakes[action.time] = at(self.env, action.time, Phase.ARRIVAL, action.time)
            self._wakes[action.time].callbacks.append(self._wake_up)
        return bool(action.time > self.env.now)

    def _place(self, action: Any) -> bool:
        """Start a job on the cores or nodes that the action names; return whether that is feasible."""
        if type(action) is not self.resources.start_action:
            return False
        job_id, place = action
        job = self._state.queued.get(job_id)
        if job is None or self.resources.fault(job, place):
            return False
        self._start(job, self.resources.take_at(job, place))
        return True

    def _mold(self, action: Any) -> bool:
        """Start a moldable job in the given size; return whether the action is a feasible :class:`StartWithSize`."""
        if type(action) is not StartWithSize or (size := self._size(action)) is None or not self.resources.fits(size):
            return False
        if self._admission is not None and self._admission.resize(size):
            return False
        self._state.queued[size.job_id] = size
        if self._predictions is not None:
            self._predictions.mold(size.job_id, action.size)
        return self._carry_out(size.job_id)

    def _size(self, action: StartWithSize) -> Job | None:
        """Return the job in the size that an action names, or None if it has no such size."""
        job = self._state.queued.get(action.job_id)
        return None if job is None or action.size not in range(1 + len(job.sizes)) else job.in_size(action.size)

    def _refuse(self, action: Any) -> bool:
        if self.infeasible == "forward":
            return False
        raise InfeasibleAction(f"time {self.env.now}: {self._explain(action)}")

    def _explain(self, action: Any) -> str:
        """Return why an action cannot be carried out."""
        unit, start_action = self.resources.unit, self.resources.start_action
        if isinstance(action, WaitUntil):
            return f"{action!r} is not in the future"
        if isinstance(action, WaitForCores):
            return f"{action!r} awaits more cores than the {self.num_cores} of the cluster"
        if isinstance(action, Start | StartOnNodes) and type(action) is not start_action:
            wrong = "nodes" if isinstance(action, StartOnNodes) else "cores"
            hint = f"try a {start_action.__name__}, or return the id of the job"
            return f"{action!r} names {wrong}, but the cluster has {unit}s; {hint}"
        job_id = action.job_id if isinstance(action, Start | StartOnNodes | StartWithSize | StartPreempting) else action
        try:
            if job_id in self._state.running:
                return f"job {job_id} cannot start: it is already running"
            job = self._state.queued.get(job_id)
        except TypeError:
            job = None
        if job is not None:
            return self._explain_start(job, action)
        not_queued = f"{action!r} is not the id of a queued job; return the id of one, or None to wait"
        return self._explain_hold(job_id) or not_queued

    def _explain_start(self, job: Job, action: Any) -> str:
        """Return why an action cannot start a queued job."""
        if isinstance(action, StartWithSize):
            return self._explain_size(action)
        if isinstance(action, StartPreempting):
            return f"job {job.job_id} cannot start: {self._fault(action)[0]}"
        place = action[1] if isinstance(action, self.resources.start_action) else None
        return f"job {job.job_id} cannot start{self.resources.fault(job, place)}"

    def _explain_hold(self, job_id: Any) -> str:
        """Return why a job is held, or an empty string if it is not."""
        job_id = python_scalar(job_id)
        if self._admission is None or not isinstance(job_id, int) or job_id not in self._admission.held:
            return ""
        return f"job {job_id} is held back: {self._admission.explain(job_id)}"

    def _explain_size(self, action: StartWithSize) -> str:
        size = self._size(action)
        if size is None:
            count = 1 + len(self._state.queued[action.job_id].sizes)
            sizes = f"{count} sizes" if count > 1 else "only size 0"
            return f"{action!r} names a size that does not exist: the job has {sizes}"
        fault = self.resources.fault(size)
        if not fault and self._admission is not None:
            fault = f": {self._admission.refuses(size)}"
        return f"job {action.job_id} cannot start in size {action.size}{fault}"

    def _wake_up(self, event: simpy.Event) -> None:
        time: Any = event.value
        del self._wakes[time]
        self._open_cycle()

    # jobs start and end

    def _start(self, job: Job, cores: int) -> None:
        """Start a job on cores that it has taken."""
        if self.resources.has_nodes:
            job = self._moved(job)
        duration = job.run_time - self._saved(job) if self._past else job.run_time
        if duration > job.requested_time and self.enforce_time_limit:
            duration = min(duration, job.requested_time + self.over_time_limit)
        execution = Execution(self.env, job, duration, cores, self._on_completion)
        expected = job.requested_time
        if self._predictions is not None:
            expected = self._predictions.of(job)
            execution.predict(expected)
        if duration > expected:
            self._expire_later(execution)
        self._state.start(execution)
        if self.listening:
            self.emit("start", execution)

    def _moved(self, job: Job) -> Job:
        """Return a job that starts with its run time where it is."""
        there = self.resources.moved(job)
        if there is not job:
            self._elsewhere[job.job_id] = job
        if job.job_id in self._past:  # the same share of the work takes a different time here
            self._past[job.job_id].move(there.run_time)
        return there

    def _expire_later(self, execution: Execution) -> None:
        """Schedule the correction of an execution's expected end, unless it ends by then."""
        if execution.expected_end <= self.env.now:
            execution.correct(self._predictions)
        time = execution.expected_end
        if time < execution.starting_time + execution.duration:
            at(self.env, time, Phase.COMPLETION, execution).callbacks.append(self._expire)

    def _expire(self, event: simpy.Event) -> None:
        """Correct the expected end of a job that has not ended by then, and open a cycle: plans must be revised."""
        execution: Any = event.value
        running = self._state.running.get(execution.job.job_id)
        if running is not None and running is execution:  # else it was interrupted
            self._state.correct(running)
            self._expire_later(running)
            if self._state.suspended:
                self._state.tell_lent()
            if self.resources.num_free >= self._awaited_cores:
                self._open_cycle()

    def _complete(self, execution: Execution) -> None:
        job, duration, start = execution.job, execution.duration, execution.starting_time
        job_id, number, end = job.job_id, self._numbers.pop(job.job_id), start + duration
        if self.resources.has_nodes:
            self.resources.release(execution, number, end)
            self._elsewhere.pop(job_id, None)
        self._state.leave(execution)
        whole = job.run_time - self._saved(job) if self._past else job.run_time
        if isinstance(execution, Resumed):
            whole = execution.work
        status = "completed" if duration == whole else "killed"
        attempts, earlier, useful = 1, 0.0, duration
        if self._past and (past := self._past.pop(job_id, None)) is not None:
            attempts, earlier, useful = past.count + 1, past.length, past.useful() + duration
        row = (job, number, start, end, duration, execution.cores)
        self._record_job((*row, status, attempts, earlier, useful))
        if self.listening:
            execution.outcome = status
            self.emit("completion", execution)
        if not self._cycling and self.resources.num_free >= self._awaited_cores:
            self._open_cycle()
        if self._state.suspended:
            self._look_at_suspended()
        if not self._state.running:
            self.stop_if_done()

    def close(self, time: float) -> None:
        """Record the jobs that are running or queued when the run ends."""
        for job_id, execution in self._state.running.items():
            self.resources.record(execution, self._numbers[job_id], None)
            past, times = self._past.get(job_id, NO_PAST), (execution.starting_time, None, None)
            running = (execution.job, self._numbers[job_id], *times, execution.cores, "running", past.count + 1)
            self._record_job((*running, past.length, None))
        held = self._admission.held if self._admission is not None else {}
        suspended = [self._elsewhere.get(job_id, one.job) for job_id, one in self._state.suspended.items()]
        for job in (*self._state.queued.values(), *self._inbox, *held.values(), *suspended):
            past = self._past.get(job.job_id, NO_PAST)
            queued = (job, self._numbers[job.job_id], None, None, None, 0, "queued", past.count)
            self._record_job((*queued, past.length, None))
        if self._followers is not None:
            for job in self._followers.jobs.values():
                self._record_dependency(self._followers.row(job, None))

    # outages

    def on_failure(self, units: list[int]) -> None:
        """Interrupt the jobs that run on cores or nodes that fail."""
        self._take_down(self.resources.fail(units))

    def on_repair(self, units: list[int]) -> None:
        """Return repaired cores or nodes to service."""
        self._bring_up(self.resources.repair(units))

    def _take_down(self, units: list[int]) -> None:
        """Take units out of service, and interrupt the jobs that run on them."""
        if units:
            cores = self.resources.core_set_of(units)
            self._clear(cores, down=self.resources.down | cores)
            self._change("down", cores)
            self.emit("outage", self.failures.ids(units))

    def _clear(self, cores: int, down: int, users: Sequence[str | int] = ()) -> None:
        """Set the cores that are down, and interrupt the jobs on the given cores, except those of some users."""
        state = self._state
        hit = [one for one in state.running.values() if one.cores & cores and one.job.user_id not in users]
        self.resources.set_down(down)
        for execution in reversed(hit):  # each is requeued before jobs submitted at the same time
            self._interrupt(execution)
        for one in reversed(list(state.suspended.values())):  # as if they resumed and were interrupted at once
            if one.cores & cores and one.job.user_id not in users:
                self._interrupt(self._resumed(one, 0.0))

    def _bring_up(self, units: list[int]) -> None:
        """Return units to service."""
        if units:
            cores = self.resources.core_set_of(units)
            self.resources.set_down(self.resources.down & ~cores)
            self._change("up", cores)
            self.emit("repair", self.failures.ids(units))

    def _change(self, event: str, cores: int) -> None:
        """Record that cores went down or came up, and open a cycle."""
        up = self.num_cores - self.resources.down.bit_count()
        self.simulation.records.tables["outages"].append((self.env.now, event, cores, up))
        self._open_cycle()

    def _saved(self, job: Job) -> float:
        """Return the seconds of work of a job that its checkpoints have saved."""
        past = self._past.get(job.job_id)
        return 0.0 if past is None else past.saved

    def _open_reservation(self, event: simpy.Event) -> None:
        """Take the units of a reservation out of service, or interrupt the jobs of others than its users."""
        number: Any = event.value
        units, users = self.resources.reserve(number), self.reservations[number].users
        if users:
            self._clear(self.resources.core_set_of(units), self.resources.down, users)
        else:
            self._take_down(units)
        self._open_cycle()  # even if these units had failed before

    def _close_reservation(self, event: simpy.Event) -> None:
        """Return the units of a reservation to service, or open them to all users."""
        number: Any = event.value
        reservation, state = self.reservations[number], self._state
        state.reservations = tuple(other for other in state.reservations if other is not reservation)
        self._bring_up(self.resources.end_reservation(number, self.env.now))
        self._open_cycle()

    def _interrupt(self, execution: Execution, outcome: str = "") -> None:
        """End an execution early, because of an outage or with the given outcome."""
        execution.callbacks.clear()
        job, start, now, cores = execution.job, execution.starting_time, self.env.now, execution.cores
        self.resources.release(execution, self._numbers[job.job_id], now)
        if job.job_id in self._state.suspended:
            self._state.give_up(job.job_id)
        else:
            self._state.leave(execution)
        outcome = outcome or ("lost" if self.on_outage == "lose" else "requeued")
        earlier = self._past.get(job.job_id, NO_PAST).length
        past = self._note_cut(execution, outcome)
        if outcome == "lost":
            del self._past[job.job_id]
            self._elsewhere.pop(job.job_id, None)
            row = (job, self._numbers.pop(job.job_id), start, now, now - start, cores, "lost", past.count)
            self._record_job((*row, earlier, None))
            self._make_way(job.job_id)
        else:
            left = self._elsewhere.pop(job.job_id, job)  # restarts in the size in which it ran
            self._state.requeue(left.in_size(0) if left.sizes else left)
        if self._state.borrowed:
            self._look_at_suspended()
        execution.outcome = outcome
        self.emit("interruption", execution)
        self.stop_if_done()

    def _note_cut(self, execution: Execution, outcome: str) -> PastExecutions:
        """Record that an execution ended early; return the executions of the job so far."""
        job_id, start, now = execution.job.job_id, execution.starting_time, self.env.now
        past = self._past.get(job_id)
        if past is None:
            past = self._past[job_id] = PastExecutions()
        submitted, there = self._elsewhere.get(job_id, execution.job).run_time, execution.job.run_time
        speed = submitted / there if submitted and there else 1.0  # seconds of work per second
        before, after = past.cut(execution, now, outcome, speed, self.checkpoint_interval)
        self.simulation.records.tables["interruptions"].append(
            (job_id, self._numbers[job_id], start, now, execution.cores, outcome, speed, before, after)
        )
        return past

    # preemption

    def _preempt(self, action: Any) -> bool:
        """Start a job by preempting others; return whether the action is a feasible :class:`StartPreempting`."""
        if type(action) is not StartPreempting or action.job_id not in self._state.queued:
            return False
        fault, place = self._fault(action)
        if fault:
            return False
        job = self._state.queued[action.job_id]
        for victim in sorted(action.victims, key=self._numbers.__getitem__, reverse=True):
            self._take_off(self._state.running[victim], job)
        assert self.qos is not None
        _, borrowed = self.qos.open_to(self._state, job, ())
        self._start(job, self.resources.take_at(job, place, borrowed))
        self._state.preemptions += 1
        self._state.tell_lent()
        return True

    def _fault(self, action: StartPreempting) -> tuple[str, Any]:
        """Return why a queued job cannot preempt the jobs that an action names ("" if it can), and where it starts."""
        job_id, victims = action.job_id, action.victims
        if self.qos is None:
            return "it preempts others, but the cluster has no qualities (QOS levels)", None
        if not isinstance(victims, tuple) or len(set(victims)) < len(victims):
            return f"victims: got {victims!r}, expected a tuple of distinct job ids", None
        for victim in victims:
            if victim not in self._state.running:
                return f"job {victim}, which it would preempt, is not running", None
            if not self.qos.allows(self._state.queued[job_id], self._state.running[victim].job):
                mine, other = self._qos_named(job_id), self._qos_named(victim)
                return f"its QOS is {mine}, which does not preempt {other}, the QOS of job {victim}", None
        job = self._state.queued[job_id]
        place = self.resources.place_without(self._state, job, victims)
        if place is None:
            return f"it requests {job.requested_cores} cores, which would not be free even without jobs {victims}", None
        return "", place

    def _qos_named(self, job_id: int) -> str:
        job_qos = self.observation.qos_of(job_id)
        return "none" if job_qos is None else repr(job_qos.name)

    def _take_off(self, execution: Execution, by: Job) -> None:
        """Preempt a job: suspend it, or return it to the queue."""
        assert self.qos is not None
        job_id = execution.job.job_id
        suspends = self.qos.suspends(execution.job)
        numbers = self._numbers[job_id], self._numbers[by.job_id]
        mode = "suspend" if suspends else "requeue"
        self.simulation.records.tables["preemptions"].append(
            (self.env.now, job_id, by.job_id, mode, numbers[0], numbers[1])
        )
        if suspends:
            self._suspend(execution)
        else:
            self._interrupt(execution, "preempted")

    def _suspend(self, execution: Execution) -> None:
        """Suspend a job, which keeps its cores."""
        execution.callbacks.clear()
        self._note_cut(execution, "suspended")
        self.resources.record(execution, self._numbers[execution.job.job_id], self.env.now)
        self._state.suspend(execution)
        execution.outcome = "suspended"
        self.emit("interruption", execution)

    def _look_at_suspended(self) -> None:
        """React to freed cores: resume suspended jobs at the end of this instant if their cores are free."""
        self._state.tell_lent()
        self._resume_soon()

    def _resume_soon(self) -> None:
        """Schedule the resumption of suspended jobs after all other events of this instant and any open cycle."""
        if self._state.suspended and not self._cycling:
            at(self.env, self.env.now, Phase.SLOT).callbacks.append(self._resume_at_last)

    def _resume_at_last(self, event: simpy.Event) -> None:
        if not self._cycling:  # else the end of the cycle schedules it again
            self._resume_all()

    def _resume_all(self) -> None:
        """Resume suspended jobs whose cores are all free; jobs that borrowed their cores resume first."""
        state = self._state
        taken = reduce(or_, (one.cores for one in state.running.values()), self.resources.down)
        back = []
        for one in reversed(state.suspended.values()):
            if not one.cores & taken:
                back.append(one)
            taken |= one.cores
        for one in reversed(back):
            job = one.job
            work = max(job.run_time - self._saved(job) - one.done, 0.0)
            execution = self._resumed(one, work)
            state.resume(execution)
            if self.listening:
                self.emit("start", execution)
        if back:
            self._state.tell_lent()
            self._open_cycle()  # expected ends have changed

    def _resumed(self, one: Suspended, work: float) -> Resumed:
        """Return the execution of a resumed job, with its remaining seconds of work."""
        job, duration = one.job, work
        if work > job.requested_time - one.done and self.enforce_time_limit:
            duration = min(work, max(job.requested_time + self.over_time_limit - one.done, 0.0))
        execution = Resumed(self.env, job, duration, one.cores, self._on_completion, done=one.done, work=work)
        if self._predictions is not None:
            execution.predict(one.length)
        self._expire_later(execution)
        return execution

    # forks

    def user_objects(self) -> list[Any]:
        """Return the predictor, which may be of any class."""
        return [] if self._predictions is None else [self._predictions.predictor]

    def drop_future(self) -> None:
        """Remove future events that an agent cannot know at the current decision; for forks without foresight.

        Queued and running jobs run for exactly the time that the predictor expects, by default their requested time,
        regardless of checkpoints. A job that has run longer, which is possible with ``enforce_time_limit=False`` or a
        grace time, ends at its expected end. No other
        jobs arrive, not even those that arrived at this instant and are not in the queue yet. Cores that are down stay
        down, except those of reservations. Processes end. Wake-ups requested by agents and reservations remain.
        """
        self.forget_sources()
        self._inbox.clear()
        if self._followers is not None:
            self._followers.forget()
        for past in self._past.values():
            past.saved = 0.0
        self._elsewhere = {job_id: job.known() for job_id, job in self._elsewhere.items()}
        held = self._admission.held if self._admission is not None else {}
        as_known = Job.known if self._predictions is None else self._predictions.known
        for waiting in (self._state.queued, held):
            for job_id, job in waiting.items():
                waiting[job_id] = as_known(job)
        for job_id, one in self._state.suspended.items():
            self._state.suspended[job_id] = one._replace(job=one.job.known()._replace(run_time=one.length))
        now, known = self.env.now, {self._wake_up, self._open_planned, self._open_reservation, self._close_reservation}

        def time_of(event: simpy.Event, time: float) -> float | None:
            """Return the new time of a scheduled event, or None to drop it."""
            if isinstance(event, Execution) and event.callbacks:
                return event.expect(now)
            return time if event.callbacks and not known.isdisjoint(event.callbacks) else None

        reschedule(self.env, time_of)


_submission_time = attrgetter("submission_time")
_after = itemgetter(Job._fields.index("after"))  # faster than by name
_WAITS = (WaitForCores, WaitUntil)
_NUMBERS = struct.Struct("qdqddq")  # the field types of a Job: int64 and float64
