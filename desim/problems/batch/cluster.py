"""The batch cluster: cores or nodes, a queue of jobs, and schedule cycling.

Model: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II-A and III-B.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import simpy

from desim.checks import check_choice, check_float, items, python_scalar
from desim.core import Decision, Phase, at, reschedule
from desim.exceptions import InfeasibleAction, InvalidConfiguration, WorkloadError
from desim.problem import Problem, Process, declared
from desim.problems.batch.attributes import types_of_attributes
from desim.problems.batch.cycles import Cycle, check_cycle, describe_cycle, next_multiple
from desim.problems.batch.execution import Execution
from desim.problems.batch.executions import NO_PAST, PastExecutions
from desim.problems.batch.job import (
    LATEST,
    Job,
    Start,
    StartPreempting,
    StartWithSize,
    WaitForCores,
    WaitUntil,
    check_job,
)
from desim.problems.batch.nodes import CompiledRequest, Node, NodeAllocation, NodeAllocations, NodeTable
from desim.problems.batch.observation import BatchState
from desim.problems.batch.parts import Part, check_parts, hooks, standard_parts
from desim.problems.batch.placement import PlacementPolicy
from desim.problems.batch.predictors import (
    Predictions,
    RunTimePredictor,
    as_predictor,
    describe_predictor,
    name_of,
)
from desim.problems.batch.request import Request
from desim.problems.batch.resources.core_ranges import LARGE, CoreRanges
from desim.problems.batch.resources.cores import CoreResources
from desim.problems.batch.resources.node_availability import StartOnNodes
from desim.problems.batch.resources.nodes import NodeResources
from desim.problems.batch.workload import Workload, text_ids
from desim.processes.arrivals import Arrivals
from desim.processes.outages import FailingCluster
from desim.tables import Table

if TYPE_CHECKING:
    from os import PathLike

    from desim.problems.batch.parts.limits import Limit
    from desim.problems.batch.parts.preemption import QualityOfService
    from desim.problems.batch.parts.reservations import AdvanceReservation
    from desim.result import Result

__all__ = ["LEAST_JOBS", "BatchCluster"]

LEAST_JOBS, LEAST_JOBS_AT_FIRST = 50_000, 1_000_000
"""Numbers of jobs from which ``engine="auto"`` compiles: if the engine is compiled already, and otherwise. SimPy's
kernel may simulate fewer jobs in less time than loading the engine takes, or compiling it."""


class BatchCluster(FailingCluster, Problem):
    """Cluster of identical cores, or of nodes with resources, with an unbounded queue of jobs.

    A scheduling cycle opens at every arrival, completion, outage and repair, when a reservation begins or ends, and
    when a running job reaches its expected end without ending (see `predictor`). `cycle` says which events of one
    instant share a cycle. Completions are processed first, then outages, repairs and reservations, then arrivals.

    Within a cycle the agent is asked repeatedly:

    * The row of a job or a :class:`Start` starts that job, and the cycle continues. So do :class:`StartWithSize`, which
      starts a moldable job in one of its sizes, and :class:`StartPreempting`, which starts a job by preempting others.
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
        Jobs in order of submission, for instance a :class:`Workload`. Their ids are integers, or all of them are texts;
        several jobs may have the same. The row of a job, which actions name, is the number of its submission, from 0:
        without dependencies, its position among the jobs. An iterator is read once, one job ahead of the clock, so
        that memory use grows only with the jobs in the system. A list or workload can be simulated repeatedly. Only
        there may jobs depend on others, and only their attributes are recorded. A job with dependencies is submitted
        once its predecessors have ended and its think time has passed, but not before its submission time in the
        workload.
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
        object, see ``desim.problems.batch.predictors``. A run works on a copy of it. Time limits remain those
        of the requests. The runs of an agent that brings a predictor, such as ``"easy++"``, use that one.
    limits : iterable of Limit
        Limits on what a job may request, and on what a user, partition or queue may use at once. A job that requests
        more than a limit allows is treated like one that is too wide. Other jobs are held outside the queue until
        the limit permits them.
    reservations : iterable of AdvanceReservation
        Advance reservations of cores or nodes that jobs cannot use, such as maintenance reservations.
    qos : iterable of QualityOfService
        QOS levels, which define whose jobs may preempt which others. Jobs name theirs.
    parts : iterable of Part
        Further features, such as your own policies of the site.
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
    constants: tuple[type, ...] = (Job, NodeTable, Request, CompiledRequest, NodeAllocation, NodeAllocations)
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
        parts: Iterable[Part] = (),
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        self.jobs = items("jobs", jobs, "jobs", "submission_time")
        in_advance: Sequence[Job] = []
        if isinstance(jobs, Sequence):
            in_advance = jobs if isinstance(jobs, Workload) else [job for job in jobs if isinstance(job, Job)]
        self.window = jobs.window if isinstance(jobs, Workload) else None
        self.has_text_ids = text_ids(in_advance)
        self.attributes = types_of_attributes(in_advance)
        self.resources: CoreResources
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
            is_large = isinstance(num_cores, int) and num_cores > LARGE
            self.resources = (CoreRanges if is_large else CoreResources)(num_cores, reservations)
        self.num_cores = self.resources.num_cores
        self.enforce_time_limit = enforce_time_limit
        self.over_time_limit = check_float("over_time_limit", over_time_limit, least=0)
        self.infeasible = check_choice("infeasible", infeasible, ("raise", "forward"))
        self.too_wide = check_choice("too_wide", too_wide, ("error", "reject"))
        self.on_outage = check_choice("on_outage", on_outage, ("requeue", "lose"))
        self.ask_when_empty = ask_when_empty
        self.cycle = check_cycle(cycle)
        self.checkpoint_interval = checkpoint_interval
        standard = standard_parts(in_advance, limits, self.resources.reservations, qos, checkpoint_interval)
        self.parts = (*standard, *check_parts(parts))
        for part in self.parts:
            self.constants += part.constants
        as_predictor(predictor)  # raises an error early
        self.predictor = predictor

    def describe(self) -> dict[str, Any]:
        """Return the configuration without the jobs, as JSON-compatible values."""
        description = {"problem": self.name, "num_cores": self.num_cores, "resources": f"{self.resources.unit}s"}
        always = ("enforce_time_limit", "infeasible", "too_wide", "on_outage", "ask_when_empty")
        description |= {name: getattr(self, name) for name in always} | describe_cycle(self.cycle)
        some = {
            "over_time_limit": self.over_time_limit,
            "job_ids": "text" if self.has_text_ids else "",
            "attributes": self.attributes,
            "window": list(self.window or ()),
        }
        description |= {name: value for name, value in some.items() if value}
        description["parts"] = [part.name for part in self.parts]
        for part in self.parts:
            description |= part.describe()
        return description | describe_predictor(as_predictor(self.predictor)) | self.resources.describe()

    def simulate_compiled(
        self, agent: Any, *, seed: int, until: float, out: str | PathLike[str] | None, needed: bool
    ) -> Result | None:
        """Simulate a run with the engine of :mod:`desim.problems.batch.compiled`, if it can and if that pays."""
        if not self.is_compiled(agent, needed=needed):
            return None
        from desim.problems.batch.compiled import simulate

        return simulate(self, agent, seed=seed, until=until, out=out, needed=needed)

    def is_compiled(self, agent: Any, *, needed: bool) -> bool:
        """Return whether the compiled engine is to simulate a run, by its number of jobs and what there is."""
        if needed or not isinstance(self.jobs, Sequence) or len(self.jobs) < LEAST_JOBS:
            return needed
        from desim.problems.batch.compiled import is_cached, is_installed, obstacle

        if not is_installed() or obstacle(self, agent):
            return False
        return len(self.jobs) >= LEAST_JOBS_AT_FIRST or is_cached(self, agent)

    def for_agent(self, agent: Any) -> Self:
        """Return the configuration for the run of an agent, which may bring the predictor of run times.

        Parameters
        ----------
        agent : Agent
            Agent of the run; its attribute ``run_time_predictor``, if it has one, is the predictor that it brings.

        Returns
        -------
        BatchCluster
            This cluster, or a copy with the agent's predictor.

        Raises
        ------
        InvalidConfiguration
            If the cluster has a predictor, too, and another one.
        """
        brought = declared(agent, "run_time_predictor")
        if brought is None or brought is self.predictor:
            return self
        mine, other = name_of(as_predictor(brought)), name_of(as_predictor(self.predictor))
        if self.predictor != "request" and mine != other:
            raise InvalidConfiguration(
                f"predictor: got {other!r}, but agent {getattr(agent, 'name', type(agent).__name__)} brings {mine!r}; "
                "leave predictor out, or take an agent without one"
            )
        found = copy(self)
        found.predictor = brought
        return found

    def features(self) -> dict[str, str]:
        """Return the features that not every agent takes into account, by name, with what other agents do."""
        if isinstance(self.jobs, Workload):
            is_moldable = "sizes" in self.jobs.columns
        else:
            is_moldable = isinstance(self.jobs, Sequence) and any(getattr(job, "sizes", ()) for job in self.jobs)
        return {"moldable": "starts jobs in their first size"} if is_moldable else {}

    def hear(self, agent: Any) -> None:
        """Call an agent's methods ``on_submit``, ``on_start`` and ``on_end``, if it has them, as events happen.

        They are called in the order of events, before the decision of the instant, in the agent's own run, and not in
        forks. Jobs are given as agents know them. An agent that wraps another holds it in an attribute ``agent`` or
        ``base``, so that the methods of the wrapped one are called as well.

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
        self._state = BatchState(self.env, self.resources, self.can_wait)
        # rows and jobs that arrived while a cycle was open, which does not show them
        self._inbox: deque[tuple[int, Job]] = deque()
        self._num_arrived = 0  # the row of the next job
        self._past: dict[int, PastExecutions] = {}  # of jobs in the system that were interrupted, by row
        self._known: set[int] | None = None  # without foresight: rows of jobs that were requeued, and are as expected
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
        if describe_predictor(predictor := as_predictor(self.predictor)):  # not by requests
            self._predictions = self._state.predictions = Predictions(predictor)
            self._record_job = self._record_prediction
        self.observation = self._state.observation
        self._decision = Decision(self.simulation, self.observation, immediate=self.cycle == "event")
        self._on_answer: list[Callable[[Any], None]] = [self._act]
        self._decision.callbacks = self._on_answer
        self.parts = tuple(copy(part) for part in self.parts)
        for part in self.parts:
            part.cluster = self
        hook = partial(hooks, self.parts)
        self._delays, self._arrived, self._refuses, self._holds = map(hook, ("delays", "arrived", "refuses", "holds"))
        self._may_start, self._resized, self._started = map(hook, ("may_start", "resized", "started"))
        self._keeps, self._room_freed, self._left = map(hook, ("keeps", "room_freed", "left"))
        self._corrected, self._cleared, self._settled = map(hook, ("corrected", "cleared", "settled"))
        self._carriers = hook("carry_out")
        self._state.parts = self.parts
        self._state.attributes = self.attributes
        if self._left:
            self._on_completion = self._complete_for_parts
        for part in self.parts:
            part.begin()
        # the jobs of a workload have been checked
        self._admit = self._take_checked if isinstance(self.jobs, Workload) else self._take
        deliver = self._deliver if self._delays else self._admit
        self.keep_running(Arrivals(self.env, self.jobs, _submission_time, deliver))

    def is_empty(self) -> bool:
        """Return whether no job is in the system."""
        state = self._state
        if state.running or state.queued or self._inbox:
            return False
        return all(part.is_empty() for part in self.parts)

    def is_idle(self) -> bool:
        """Return whether no job is running and nothing is due: no reservation, no think time and no wake-up."""
        is_due = any(part.is_due() for part in self.parts)
        return not (self._state.running or is_due or self._wakes or self._is_planned)

    def can_wait(self) -> bool:
        """Return whether anything may still happen if no job starts at this decision, see :class:`BatchObservation`."""
        is_due = bool(self._inbox) or self._is_missed or not self.is_idle()
        return is_due or any(process.is_alive for process in self.foreground)

    def tables(self) -> dict[str, Table]:
        """Return the tables of a run, those of custom parts included; large clusters use smaller chunks of jobs."""
        chunk_rows = min(16_384, max(1_024, (1 << 24) // self.num_cores))
        described = self.describe()
        further = {table.name: table.bound(described) for part in self.parts for table in part.tables}
        bound = super().tables() | further
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
            If the job is invalid or too wide.
        """
        check_job(job)
        if job.submission_time > self.env.now:
            raise WorkloadError(f"job {job.job_id} cannot be submitted at {self.env.now} s: {job!r} lies in the future")
        self._take(job)

    def _take(self, job: Job) -> None:
        """Check a job that has arrived, and put it into the queue."""
        job_id, submitted, requested_cores, requested_time, run_time, user_id, request, sizes, _, after, *_ = job
        try:
            plausible = requested_cores > 0 <= requested_time < math.inf > run_time >= 0 <= submitted <= LATEST
            is_text = self.has_text_ids if isinstance(job_id, str) is self.has_text_ids else self._settle_ids(job)
            _NUMBERS.pack(0 if is_text else job_id, submitted, requested_cores, requested_time, run_time, user_id)
        except (TypeError, struct.error) as error:
            check_job(job)
            raise WorkloadError(f"{job!r} holds a value of the wrong type: {error}") from error
        if not plausible or sizes or (request is not None and request.num_cores != requested_cores):
            check_job(job)
        if after is not None and after.jobs and all(part.name != "dependencies" for part in self.parts):
            raise WorkloadError(
                f"job {job_id} depends on other jobs, but the cluster does not know all jobs in advance; pass a list"
            )
        self._take_checked(job)

    def _take_checked(self, job: Job) -> None:
        """Put a job that has arrived into the queue, or into the inbox while a cycle is open."""
        row = self._num_arrived
        self._num_arrived = row + 1
        for arrived in self._arrived:
            arrived(job, row)
        fault = self.resources.misfit(job) if job.requested_cores > self.resources.always_fits else ""
        for refuses in self._refuses:
            fault = fault or refuses(job, row)
        if fault:
            self._turn_away(job, row, fault)
            return
        if self._predictions is not None:
            self._predictions.submit(job, row)
        is_held = self._holds and any(holds(job, row) for holds in self._holds)
        if self.listening:
            self.emit("arrival", job)
        if is_held:
            return
        if self._cycling and (self._acting or self._serializes):
            self._inbox.append((row, job))
        else:
            self._enqueue(row, job)

    def _settle_ids(self, job: Job) -> bool:
        """Return whether ids are texts, as the first job of a stream says; raise an error if a later one differs."""
        is_text = isinstance(job.job_id, str)
        if self.has_text_ids is not None:
            wanted = "a text" if self.has_text_ids else "an integer"
            raise WorkloadError(f"job {job.job_id}: job_id: got {job.job_id!r}, expected {wanted} as in earlier jobs")
        self.has_text_ids = is_text
        if is_text:
            self.simulation.records.describe_again(self.tables(), self.describe() | {"seed": self.simulation.seed})
        return is_text

    def _record_prediction(self, row: tuple[Any, ...]) -> None:
        """Record a job, with what was predicted, and let the predictor learn from it."""
        assert self._predictions is not None
        self.resources.record_job(self._predictions.leave(row))

    # parts

    def _deliver(self, job: Job) -> None:
        """Submit a job at its time in the workload, unless a part submits it later."""
        if not any(delays(job) for delays in self._delays):
            self._admit(job)

    def _complete_for_parts(self, execution: Execution) -> None:
        self._complete(execution)
        self._leave(execution.job, execution.row, "ended")

    def _leave(self, job: Job, row: int, outcome: str) -> None:
        """Call the hook ``left`` of the parts."""
        for left in self._left:
            left(job, row, outcome)

    def _let_in(self, part: Part, jobs: Mapping[int, Job]) -> None:
        """Put jobs that a part has held into the queue, unless a later part holds them, and open a cycle."""
        later = hooks(self.parts[self.parts.index(part) + 1 :], "holds")
        for row, job in jobs.items():
            if not any(holds(job, row) for holds in later):
                self._state.admit(row, job)
        self._open_cycle()

    def _turn_away(self, job: Job, row: int, why: str) -> None:
        """Reject a job that has arrived, or raise, depending on ``too_wide``."""
        if self.too_wide == "error":
            raise WorkloadError(f"job {job.job_id} {why}; too_wide='reject' records such jobs as rejected")
        self._record_job((job, row, None, None, None, 0, "rejected", 0, 0.0, None))
        self.emit("rejection", job)
        self._leave(job, row, "rejected")

    # scheduling cycles

    def _enqueue(self, row: int, job: Job) -> None:
        """Append a job to the queue, and open a cycle unless the agent awaits more cores than are free."""
        self._state.enqueue(row, job)
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
            self._enqueue(*self._inbox.popleft())
        if self._is_missed:
            self._is_missed = False
            self._open_cycle()
        if goes_on:
            decision.request()
        else:
            for settled in self._settled:
                settled()

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
        except TypeError:  # unhashable, so not a row
            return self._refuse(action)
        if job is not None:
            if (self._may_start and self._objection(job, action)) or not (cores := self.resources.take(job, action)):
                return self._refuse(action)
            self._start(job, action, cores)
            return True
        done = self._place(action) or self._mold(action) or "" in (carry_out(action) for carry_out in self._carriers)
        return done or self._refuse(action)

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
        row, place = action
        job = self._state.queued.get(row)
        if job is None or self._objection(job, row) or self.resources.fault(job, place):
            return False
        self._start(job, row, self.resources.take_at(job, row, place))
        return True

    def _mold(self, action: Any) -> bool:
        """Start a moldable job in the given size; return whether the action is a feasible :class:`StartWithSize`."""
        if type(action) is not StartWithSize or (size := self._size(action)) is None or not self.resources.fits(size):
            return False
        row = action.row
        if self._objection(size, row, action.size) or not (cores := self.resources.take(size, row)):
            return False
        for resized in self._resized:
            resized(size, row)
        if self._predictions is not None:
            self._predictions.mold(row, action.size)
        self._start(size, row, cores)
        return True

    def _objection(self, job: Job, row: int, size: int | None = None) -> str:
        """Return why the parts do not let a job start, or an empty string if they do."""
        return next(filter(None, (may_start(job, row, size) for may_start in self._may_start)), "")

    def _size(self, action: StartWithSize) -> Job | None:
        """Return the job in the size that an action names, or None if it has no such size."""
        job = self._state.queued.get(action.row)
        return None if job is None or action.size not in range(1 + len(job.sizes)) else job.in_size(action.size)

    def _refuse(self, action: Any) -> bool:
        if self.infeasible == "forward":
            return False
        why = next(filter(None, (carry_out(action) for carry_out in self._carriers)), "") or self._explain(action)
        raise InfeasibleAction(f"time {self.env.now}: {why}")

    def _explain(self, action: Any) -> str:
        """Return why an action cannot be carried out."""
        unit, start_action = self.resources.unit, self.resources.start_action
        if isinstance(action, WaitUntil):
            return f"{action!r} is not in the future"
        if isinstance(action, WaitForCores):
            return f"{action!r} awaits more cores than the {self.num_cores} of the cluster"
        if isinstance(action, Start | StartOnNodes) and type(action) is not start_action:
            wrong = "nodes" if isinstance(action, StartOnNodes) else "cores"
            hint = f"try a {start_action.__name__}, or return the row of the job"
            return f"{action!r} names {wrong}, but the cluster has {unit}s; {hint}"
        row = action.row if isinstance(action, Start | StartOnNodes | StartWithSize | StartPreempting) else action
        row = python_scalar(row)
        if isinstance(row, int) and row in self._state.queued:
            return self._explain_start(row, action)
        not_queued = f"{action!r} is not the row of a queued job; return one of queue.row, or None to wait"
        return (self._explain_row(row) if isinstance(row, int) else "") or not_queued

    def _explain_start(self, row: int, action: Any) -> str:
        """Return why an action cannot start a queued job."""
        if isinstance(action, StartWithSize):
            return self._explain_size(action)
        job, name = self._state.queued[row], self.named(row)
        if isinstance(action, StartPreempting):
            return f"{name} cannot start: it preempts others, but the cluster has no qualities (QOS levels)"
        place = action[1] if isinstance(action, self.resources.start_action) else None
        if objection := self._objection(job, row):
            return f"{name} cannot start: {objection}"
        return f"{name} cannot start{self.resources.fault(job, place)}"

    def _explain_row(self, row: int) -> str:
        """Return why a job that is not queued cannot start, or an empty string if it is not in the system."""
        if row in self._state.running:
            return f"{self.named(row)} cannot start: it is already running"
        for part in self.parts:
            if (job := part.outside().get(row)) is not None:
                return f"{self.named(row)} is held back: {part.explain(job, row)}"
        return ""

    def _explain_size(self, action: StartWithSize) -> str:
        size = self._size(action)
        if size is None:
            count = 1 + len(self._state.queued[action.row].sizes)
            sizes = f"{count} sizes" if count > 1 else "only size 0"
            return f"{action!r} names a size that does not exist: the job has {sizes}"
        fault = self.resources.fault(size) or f": {self._objection(size, action.row, action.size)}"
        return f"{self.named(action.row)} cannot start in size {action.size}{fault}"

    def in_system(self) -> dict[int, Job]:
        """Return the jobs that have arrived and not left, by row."""
        jobs = {row: one.job for row, one in self._state.running.items()} | self._state.queued | dict(self._inbox)
        for part in self.parts:
            jobs.update(part.outside())
        return jobs

    def named(self, row: int) -> str:
        """Return the name of a job in the system for messages: its id, and its row if another one has this id."""
        jobs = self.in_system()
        job_id = jobs[row].job_id
        recurs = any(one.job_id == job_id for other, one in jobs.items() if other != row)
        return f"job {job_id} (row {row})" if recurs else f"job {job_id}"

    def _wake_up(self, event: simpy.Event) -> None:
        time: Any = event.value
        del self._wakes[time]
        self._open_cycle()

    # jobs start and end

    def _start(self, job: Job, row: int, cores: Any) -> None:
        """Start a job on cores that it has taken."""
        if self._known is not None:
            job = self._without_secrets(job, row)
        if self.resources.has_nodes:
            job = self._moved(job, row)
        work, limit = job.run_time - self._saved(row) if self._past else job.run_time, job.requested_time
        duration = min(work, limit + self.over_time_limit) if work > limit and self.enforce_time_limit else work
        expected = limit if self._predictions is None else self._predictions.of(row)
        execution = Execution(self.env, row, job, cores, work, duration, expected, self._on_completion)
        if duration > expected:
            self._expire_later(execution)
        self._state.start(execution)
        for started in self._started:
            started(execution)
        if self.listening:
            self.emit("start", execution)

    def _moved(self, job: Job, row: int) -> Job:
        """Return a job that starts with its run time where it is."""
        there = self.resources.moved(job, row)
        if there is not job:
            self._elsewhere[row] = job
        if row in self._past:  # the same share of the work takes a different time here
            self._past[row].move(there.run_time)
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
        running = self._state.running.get(execution.row)
        if running is not None and running is execution:  # else it was interrupted
            self._state.correct(running)
            self._expire_later(running)
            for corrected in self._corrected:
                corrected()
            if self.resources.num_free >= self._awaited_cores:
                self._open_cycle()

    def _complete(self, execution: Execution) -> None:
        job, row, duration, start = execution.job, execution.row, execution.duration, execution.starting_time
        end = start + duration
        if self.resources.has_nodes:
            self.resources.release(execution, end)
            self._elsewhere.pop(row, None)
        self._state.leave(execution)
        status = "completed" if duration == execution.work else "killed"
        attempts, earlier, useful = 1, 0.0, duration
        if self._past and (past := self._past.pop(row, None)) is not None:
            attempts, earlier, useful = past.count + 1, past.length, past.useful() + duration
        self._record_job((job, row, start, end, duration, execution.allocation, status, attempts, earlier, useful))
        if self.listening:
            execution.outcome = status
            self.emit("completion", execution)
        if not self._cycling and self.resources.num_free >= self._awaited_cores:
            self._open_cycle()
        for room_freed in self._room_freed:
            room_freed()
        if not self._state.running:
            self.stop_if_done()

    def close(self, time: float) -> None:
        """Record the jobs that are running or queued when the run ends."""
        for row, execution in self._state.running.items():
            self.resources.record(execution, None)
            past, times = self._past.get(row, NO_PAST), (execution.starting_time, None, None)
            running = (execution.job, row, *times, execution.allocation, "running", past.count + 1)
            self._record_job((*running, past.length, None))
        outside = (item for part in self.parts for item in part.outside().items())
        for row, job in (*self._state.queued.items(), *self._inbox, *outside):
            past = self._past.get(row, NO_PAST)
            shown = job if self._known is None else self._without_secrets(job, row)
            self._record_job((shown, row, None, None, None, 0, "queued", past.count, past.length, None))
        for part in self.parts:
            part.close()

    # outages

    def on_failure(self, units: list[int]) -> None:
        """Interrupt the jobs that run on cores or nodes that fail."""
        from desim.problems.batch.parts.outages import begin_outage

        begin_outage(self, self.resources.fail(units))

    def on_repair(self, units: list[int]) -> None:
        """Return repaired cores or nodes to service."""
        from desim.problems.batch.parts.outages import end_outage

        end_outage(self, self.resources.repair(units))

    def _saved(self, row: int) -> float:
        """Return the seconds of work of a job that its checkpoints have saved."""
        past = self._past.get(row)
        return 0.0 if past is None else past.saved

    def _interrupt(
        self, execution: Execution, outcome: str = "", leave: Callable[[Execution], None] | None = None
    ) -> None:
        """End an execution early, because of an outage or with the given outcome; `leave` frees its cores."""
        execution.callbacks.clear()
        job, row, start, now = execution.job, execution.row, execution.starting_time, self.env.now
        self.resources.release(execution, now)
        (leave or self._state.leave)(execution)
        outcome = outcome or ("lost" if self.on_outage == "lose" else "requeued")
        earlier = self._past.get(row, NO_PAST).length
        past = self._note_cut(execution, outcome)
        if outcome == "lost":
            del self._past[row]
            self._elsewhere.pop(row, None)
            lost = (job, row, start, now, now - start, execution.allocation, "lost", past.count)
            self._record_job((*lost, earlier, None))
            self._leave(job, row, "lost")
        else:
            if self._known is not None:
                self._known.add(row)
            left = self._elsewhere.pop(row, job)  # restarts in the size in which it ran
            self._state.requeue(row, left.in_size(0) if left.sizes else left)
        for room_freed in self._room_freed:
            room_freed()
        execution.outcome = outcome
        self.emit("interruption", execution)
        self.stop_if_done()

    def _note_cut(self, execution: Execution, outcome: str) -> PastExecutions:
        """Record that an execution ended early; return the executions of the job so far."""
        row, start, now = execution.row, execution.starting_time, self.env.now
        past = self._past.get(row)
        if past is None:
            past = self._past[row] = PastExecutions()
        submitted, there = self._elsewhere.get(row, execution.job).run_time, execution.job.run_time
        speed = submitted / there if submitted and there else 1.0  # seconds of work per second
        before, after = past.cut(execution, now, outcome, speed, self._keeps)
        self.simulation.records.tables["interruptions"].append(
            (execution.job.job_id, row, start, now, execution.allocation, outcome, speed, before, after)
        )
        return past

    # forks

    def user_objects(self) -> list[Any]:
        """Return the predictor, which may be of any class."""
        return [] if self._predictions is None else [self._predictions.predictor]

    def as_known(self, job: Job, row: int) -> Job:
        """Return a job in the system as agents know it, with its expected run time as run time."""
        return job.known() if self._predictions is None else self._predictions.known(job, row)

    def _without_secrets(self, job: Job, row: int) -> Job:
        """Return a queued job as agents know it, in a fork without foresight: when it starts, not for all at once."""
        return job if self._known is not None and row in self._known else self.as_known(job, row)

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
        for past in self._past.values():
            past.saved = 0.0
        self._elsewhere = {row: job.known() for row, job in self._elsewhere.items()}
        self._known = set()
        now = self.env.now
        known = {self._wake_up, self._open_planned}.union(*(part.drop_future() for part in self.parts))

        def time_of(event: simpy.Event, time: float) -> float | None:
            """Return the new time of a scheduled event, or None to drop it."""
            if isinstance(event, Execution) and event.callbacks:
                return event.expect(now)
            return time if event.callbacks and not known.isdisjoint(event.callbacks) else None

        reschedule(self.env, time_of)


_submission_time = attrgetter("submission_time")
_WAITS = (WaitForCores, WaitUntil)
_NUMBERS = struct.Struct("qdqddq")  # the field types of a Job: int64 and float64; its id may be text, too
