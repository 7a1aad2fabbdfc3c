"""The kernel: simulation clock, decisions, random streams, and the main loop.

A problem is a set of SimPy processes. Where a choice has to be made, a process waits for a decision::

    action = yield simulation.decide(observation)

and the code that drives the simulation answers it::

    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))

:func:`simulate` runs that loop. Nothing in this module depends on a particular problem.
"""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import repeat
from pkgutil import resolve_name
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from desim.checks import check_choice
from desim.exceptions import DesimError, DisregardedWarning, InvalidConfiguration, StalledWarning
from desim.records import Records
from desim.reprs import Summarized

if TYPE_CHECKING:
    from os import PathLike

    from desim.problem import Metric, Problem
    from desim.result import Result

__all__ = [
    "ENGINES",
    "RESUMED",
    "Agent",
    "Decision",
    "Engine",
    "InterruptOverdue",
    "Phase",
    "Resumable",
    "Simulation",
    "SimulationInterrupted",
    "at",
    "deferred_interrupts",
    "prepare_agent",
    "reschedule",
    "run_to_end",
    "schedule_at",
    "simulate",
    "start_process",
]


Engine = Literal["auto", "simpy", "compiled"]
"""What simulates a run, see :func:`simulate`."""

ENGINES: tuple[Engine, ...] = ("auto", "simpy", "compiled")
"""Names of the engines."""


class Phase:
    """Order of the events at one instant, as SimPy event priorities.

    The horizon comes first: events at ``until`` are no longer part of the run. Then follow completions, changes of
    capacity, arrivals, and the ticks of slot clocks, which sum up what has arrived. Decisions come last, when
    everything else at the instant has happened. A plain ``env.timeout()`` has SimPy's normal priority, which equals
    that of a completion, so a user's own process acts before the arrivals and decisions of the same instant.
    """

    HORIZON = EventPriority(-1)
    COMPLETION = NORMAL
    CAPACITY = EventPriority(NORMAL + 1)
    ARRIVAL = EventPriority(NORMAL + 2)
    SLOT = EventPriority(NORMAL + 3)


def at(
    env: simpy.Environment, time: float, phase: EventPriority = Phase.COMPLETION, value: object = None
) -> simpy.Event:
    """Return an event scheduled at an absolute time and in a given phase of that instant.

    Parameters
    ----------
    env : simpy.Environment
        Environment whose clock counts.
    time : float
        Time of the event in seconds, not before ``env.now``.
    phase : int
        Position within the instant: a constant of :class:`Phase`.
    value : object
        Value that a process waiting for the event receives.

    Returns
    -------
    simpy.Event
        The scheduled event.

    Raises
    ------
    InvalidConfiguration
        If the time is in the past or not finite.
    """
    event = simpy.Event(env)
    schedule_at(event, time, phase, value)
    return event


def schedule_at(event: simpy.Event, time: float, phase: EventPriority = Phase.COMPLETION, value: object = None) -> None:
    """Schedule an existing event at an absolute time.

    An event that has already happened can be scheduled again if it first gets a new list of ``callbacks``.

    Parameters
    ----------
    event : simpy.Event
        Event that is not scheduled.
    time : float
        Time of the event in seconds.
    phase : int
        Position within the instant: a constant of :class:`Phase`.
    value : object
        Value that a process waiting for the event receives.

    Raises
    ------
    InvalidConfiguration
        If the time is in the past or not finite.
    """
    env = event.env
    now = env._now
    delay = time - now
    if not 0 <= delay < math.inf:
        raise InvalidConfiguration(f"time: got {time!r}, expected a finite time not before the current time {now!r}")
    while now + delay < time:  # rounding must never make an event early
        delay = math.nextafter(delay, math.inf)
    event._ok = True
    event._value = value
    heappush(env._queue, (now + delay, phase, next(env._eid), event))  # equivalent to env.schedule()


def reschedule(env: simpy.Environment, time_of: Callable[[simpy.Event, float], float | None]) -> None:
    """Change the times of scheduled events, or cancel events, for :meth:`Problem.drop_future`.

    Parameters
    ----------
    env : simpy.Environment
        Environment whose schedule changes.
    time_of : callable
        Called with each scheduled event and its time in seconds. Returns the new time, not before now, or None to
        cancel the event. Events of the same time and phase keep their order.
    """
    queue = env._queue
    entries = [(time_of(event, time), phase, number, event) for time, phase, number, event in queue]
    queue[:] = [(time, *rest) for time, *rest in entries if time is not None]  # type: ignore[misc]
    heapify(queue)


class _HorizonReached(Exception):  # control flow within Simulation.advance(); never leaves it
    """The clock has reached the end of the run."""


def _reach_horizon(event: simpy.Event) -> None:
    """Raise _HorizonReached; the callback of the event that ends a run."""
    raise _HorizonReached


def _error_of(event: simpy.Event) -> BaseException:
    """Return the error of a failed event that no process handles, as SimPy raises it: a copy with its own traceback."""
    error: BaseException = type(event._value)(*event._value.args)
    error.__cause__ = event._value
    return error


#: Signals that end a run early, and the seconds that an agent has for its last decision.
INTERRUPTS, GRACE = (signal.SIGINT, signal.SIGTERM), 0.5


def _would_be_lost(frame: FrameType | None) -> bool:
    """Return whether Python would ignore an exception here: in a finalizer, or where LLVM calls its Python binding."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_name.startswith("_raw_object_cache"):
            return True
        frame = frame.f_back
    return False


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt like Python's own handler, but later where the exception would be lost.

    While numba compiles, LLVM calls functions of its binding; an exception there is printed, and the program goes on.

    Parameters
    ----------
    number : int
        Number of the signal.
    frame : frame, optional
        Current frame.

    Raises
    ------
    KeyboardInterrupt
        Unless it would be lost; then the timer of SIGALRM calls this function again after 20 ms.
    """
    if _would_be_lost(frame) and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, interrupt):
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        return
    if number == signal.SIGALRM:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.default_int_handler(number, frame)


@contextmanager
def deferred_interrupts(can_end: Callable[[FrameType | None], bool]) -> Iterator[list[int]]:
    """Yield a list that collects the first SIGINT or SIGTERM; a second one is not held back.

    Only signals that would raise KeyboardInterrupt are collected, in the main thread: SIGINT in any program, and
    SIGTERM in the commands of desim. What still runs half a second later is ended by a KeyboardInterrupt.

    Parameters
    ----------
    can_end : callable
        Called with the current frame; returns whether the block may be ended there.

    Yields
    ------
    list of int
        Number of the signal, once there is one.
    """
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in INTERRUPTS}
    held = [number for number in INTERRUPTS if is_main and handlers[number] in (signal.default_int_handler, interrupt)]
    has_timer = bool(held) and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL

    def _catch(number: int, frame: FrameType | None) -> None:
        if caught:
            interrupt(number, frame)
        caught.append(number)
        if has_timer:
            signal.signal(signal.SIGALRM, _end)
            signal.setitimer(signal.ITIMER_REAL, GRACE, GRACE / 10)

    def _end(number: int, frame: FrameType | None) -> None:
        if can_end(frame) and not _would_be_lost(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            raise InterruptOverdue

    for number in held:
        signal.signal(number, _catch)
    try:
        yield caught
    finally:
        if has_timer:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number in held:
            signal.signal(number, handlers[number])


def _is_deciding(frame: FrameType | None) -> bool:
    """Return whether an agent decides; elsewhere, the state of the simulation or its records may be incomplete."""
    called = None
    while frame is not None and frame.f_code is not _decide_all.__code__:
        called, frame = frame, frame.f_back
    between = (Simulation.advance.__code__, Decision.answer.__code__)
    return frame is not None and called is not None and called.f_code not in between


class InterruptOverdue(KeyboardInterrupt):
    """Something has not ended in time after an interrupt."""


class SimulationInterrupted(KeyboardInterrupt):
    """Raised on Ctrl-C during :func:`simulate`; the records so far are kept.

    Parameters
    ----------
    message : str
        Message with the time of the interruption.
    result : Result
        Complete and consistent records up to the interruption; also an attribute.
    """

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


RESUMED: Any = None
"""First value that a resumed process yields; it stands for the event that the process is already waiting for."""


class Resumable(Protocol):
    """Process that forks can copy: an object that stores its position, which a generator does not expose.

    Start it with :func:`start_process`.
    """

    def run(self) -> Generator[simpy.Event, Any, Any]:
        """Return the process from its beginning."""

    def resume(self) -> Generator[simpy.Event, Any, Any]:
        """Return the process from the point where it waits now; it first yields :data:`RESUMED`."""


def start_process(env: simpy.Environment, process: Resumable | Generator[simpy.Event, Any, Any]) -> simpy.Process:
    """Start a process and return it.

    Parameters
    ----------
    env : simpy.Environment
        Environment that runs the process.
    process : Resumable or generator
        The process; a run with generator processes is forked by replaying its past.

    Returns
    -------
    simpy.Process
        The running process, as returned by ``env.process()``.
    """
    if isinstance(process, Generator):
        return env.process(process)
    started = env.process(process.run())
    started.source = process  # type: ignore[attr-defined]
    return started


class Agent(Protocol):
    """Scheduling policy: an object that answers decisions.

    ``act`` is the only required method. :func:`simulate` also calls two optional methods before the first decision, in
    this order:

    * ``attach(fork)``, for agents that look ahead. While a decision is due, ``fork()`` returns a simulation in the
      observed state, with that decision due, which the agent may drive at will. The fork contains only what the agent
      can know, without future arrivals and failures, see :meth:`Problem.drop_future`. This requires a workload that
      can be read again and a problem that has this method. The agent never gets access to the simulation itself.
    * ``reset(info, rng)``, for agents that keep state or draw random numbers: the problem's ``describe()`` and the
      agent's own random stream, see ``desim.agents.base``.

    A problem may call further methods as events happen, see :meth:`Problem.hear`: on a batch cluster, ``on_submit``,
    ``on_start`` and ``on_end``.
    """

    def act(self, observation: Any) -> Any:
        """Return the action for an observation."""


class Decision(simpy.Event):
    """Choice that is due: the SimPy event that a process of the problem waits for.

    A process that has received its answer may wait for the same decision again, after it has given it
    a new list of ``callbacks``, as for any SimPy event.

    Parameters
    ----------
    simulation : Simulation
        Simulation in which the choice is due.
    observation : object
        What the agent may see, also an attribute. It is a live view, valid until the decision
        is answered.
    immediate : bool
        Whether the decision is due before the remaining events of its instant instead of after them.
    """

    _ok = True

    def __init__(self, simulation: Simulation, observation: Any, *, immediate: bool = False) -> None:
        self.env = simulation.env
        self.callbacks = []
        self.observation = observation
        self.immediate = immediate
        self._pending = simulation._pending
        self._actions, self._answered_at = simulation.actions, simulation._answered_at

    def request(self) -> Decision:
        """Make the decision due once everything else at this instant has happened, or at once if it is immediate."""
        self._pending.append(self)
        return self

    def answer(self, action: Any) -> None:
        """Pass an action to the waiting process, which acts on it at once.

        Parameters
        ----------
        action : object
            Action in the form that the problem documents.

        Raises
        ------
        DesimError
            If this decision is not currently due.
        """
        pending = self._pending
        if not pending or pending[0] is not self:
            raise DesimError(f"time {self.env.now}: a decision can be answered only once, and only while it is due")
        pending.popleft()
        if self._actions is not None:
            self._actions.append(copy(action))  # the agent may reuse its array or list
            self._answered_at.append(self.env.now)  # type: ignore[union-attr]  # both are logged, or neither is
        # Nothing happens before the answer, so the event queue can be bypassed.
        self._value = action
        callbacks = self.callbacks
        self.callbacks = None  # type: ignore[assignment]  # how SimPy marks a processed event
        for callback in callbacks:
            callback(self)


class Simulation(Summarized):
    """One run of a problem: its clock, pending decisions, random streams, and records.

    Parameters
    ----------
    problem : Problem
        Configuration of the system and its workload; it is not changed.
    seed : int
        Root of all random streams.
    until : float
        End of the run, in seconds of simulated time; the run covers [0, until).
    out : path, optional
        Directory for the records as Parquet files; if None, records are kept in memory.
    log_actions : bool
        Whether to keep every answered action, which :meth:`fork` needs.

    Attributes
    ----------
    env : simpy.Environment
        SimPy environment, whose ``now`` is the time in seconds.
    problem : Problem
        Bound copy of the problem.
    actions : list or None
        Actions answered so far; None if they are not logged.
    truncated : bool
        Whether the run ended before its work was done, by ``until`` or by :meth:`stop`.
    replayed : bool
        Whether this is a fork that had to replay the past, see :meth:`fork`.
    stalled : str
        Reason why the run ended before its work was done although it was not cut off; empty if it did not stall.

    Raises
    ------
    InvalidConfiguration
        If ``seed`` or ``until`` is out of range.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        seed: int = 0,
        until: float = math.inf,
        out: str | PathLike[str] | None = None,
        log_actions: bool = True,
    ) -> None:
        _check_run(seed, until, out)
        self.env = simpy.Environment()
        self.seed = seed
        self.until = until
        self.truncated = self.replayed = False
        self.stalled = ""
        self._seen: object = None  # progress of the work at the last check for a stall
        self.actions: list[Any] | None = [] if log_actions else None
        self._answered_at: list[float] | None = [] if log_actions else None
        self._forgotten: tuple[int, ...] = ()  # numbers of actions after which the future was dropped
        self._configuration = problem
        self._pending: deque[Decision] = deque()
        self.problem = copy(problem)
        about = {"seed": seed, "until": None if until == math.inf else until} | self._kind()
        self.records = Records(self.problem.tables(), out, self.problem.describe() | about, lambda: self.end_time)
        if until < math.inf:
            at(self.env, until, Phase.HORIZON).callbacks.append(_reach_horizon)
        self.problem.bind(self)

    def summary(self) -> dict[str, Any]:
        """Return the problem, the seed, the current time, and the number of unanswered decisions."""
        problem = type(self.problem).__name__
        return {"problem": problem, "seed": self.seed, "time": self.env.now, "pending": len(self._pending)}

    def stream(self, name: str) -> np.random.Generator:
        """Return a new random generator for a named purpose; the same seed and name give the same generator.

        Parameters
        ----------
        name : str
            Name of the purpose, such as ``"arrivals"``, ``"outages"`` or ``"agent"``.

        Returns
        -------
        numpy.random.Generator
            Generator that is independent of those of all other names.
        """
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=tuple(name.encode())))

    def decide(self, observation: Any) -> Decision:
        """Return a new decision; the calling process yields it and receives the action."""
        return Decision(self, observation).request()

    def advance(self) -> Decision | None:
        """Advance the clock to the next decision that is due.

        A decision is due once everything else at its instant has happened. A decision that
        has not been answered yet is returned again.

        Returns
        -------
        Decision or None
            The decision; None if no event is left before ``until``.
        """
        pending, env = self._pending, self.env
        queue = env._queue
        try:
            while True:
                for _ in repeat(None, self.problem.patience):  # a while loop with a periodic check, at no extra cost
                    if pending:
                        if (
                            not queue
                            or queue[0][0] > env._now
                            or (pending[0].immediate and queue[0][1] > Phase.HORIZON)
                        ):
                            return pending[0]
                    elif not queue:
                        return None
                    # The following lines are simpy.Environment.step(), without a call per event.
                    env._now, _, _, event = heappop(queue)
                    callbacks = event.callbacks
                    event.callbacks = None  # type: ignore[assignment]
                    for callback in callbacks:
                        callback(event)
                    if not event._ok and not hasattr(event, "_defused"):
                        raise _error_of(event)
                self.look_for_standstill()
        except _HorizonReached:
            self.truncated = self.truncated or env.now >= self.until
            self.stop()  # needed again if advance() is called once more
        return None

    def look_for_standstill(self) -> None:
        """Stop a run without ``until`` that made no progress since the last check and cannot make any."""
        if self.until < math.inf or self.stalled:
            return
        why, seen = self.problem.standstill(), self.problem.progress()
        if why and seen == self._seen:
            self.stalled = why
            self.stop(truncated=True)
        self._seen = seen if why else None

    def stop(self, *, truncated: bool = False) -> None:
        """End the run after the current event; :meth:`advance` then always returns None.

        Parameters
        ----------
        truncated : bool
            Whether work remains, so that a learner should bootstrap from the final state.
        """
        self.truncated = self.truncated or truncated
        at(self.env, self.env.now, Phase.HORIZON).callbacks.append(_reach_horizon)

    @property
    def end_time(self) -> float:
        """Current time of the clock in seconds, at most ``until``."""
        return min(self.env.now, self.until)

    def fork(self, *, problem: Problem | None = None, foresight: bool = True) -> Simulation:
        """Return an independent simulation in the same state.

        Normally the state is copied, in time proportional to the number of jobs in the system. The actions are replayed
        instead, and ``replayed`` of the copy is True, with the user's own generator processes, with the user's own
        problems, and for a fork onto another problem.

        The copy has no listeners and keeps its records in memory. An agent with state is not
        part of the simulation: copy it as well.

        Parameters
        ----------
        problem : Problem, optional
            Problem to continue with instead: one with the same past and another future, such as an
            additional outage or job. The past counts as the same if decisions are due at the same times.
        foresight : bool
            Whether the copy has the future of this simulation. If False, it continues as its agent
            would expect now, see :meth:`Problem.drop_future`, and has no ``until``.

        Returns
        -------
        Simulation
            Simulation that continues exactly as this one does if it gets the same answers, as long
            as the future is the same.

        Raises
        ------
        InvalidConfiguration
            If actions were not logged, the workload is an iterator, the problem does not define what
            its agents know, or another future is requested while no decision is due.
        DesimError
            If the replay differs: a decision is not due when it was, or an answer is infeasible.
        """
        from desim.forks import fork

        return fork(self, problem=problem, foresight=foresight)

    def finish(self, *, status: str | None = None, agent: str = "") -> Result:
        """Close the records and return the result; jobs still in the system are recorded as unfinished.

        Parameters
        ----------
        status : str, optional
            ``"complete"``, ``"truncated"`` (by :meth:`stop`, with work left), ``"stalled"`` (with work left and no
            event that would do it, see :meth:`Problem.standstill`), ``"interrupted"`` or ``"failed"``. Default:
            whichever of the first three applies to a run that has ended.
        agent : str
            Name of the agent, for the records.

        Returns
        -------
        Result
            Tables and metrics of the run so far.
        """
        from desim.result import Result

        if status is None:
            if not (self.env._queue or self._pending):  # no events left: a problem that is done calls stop(), an event
                self.stalled = self.problem.standstill()
            is_cut = self.truncated and self.end_time < self.until
            status = "stalled" if self.stalled else "truncated" if is_cut else "complete"
        self.problem.close(self.end_time)
        info = self.problem.describe() | {
            "agent": agent,
            "seed": self.seed,
            "status": status,
            "end_time": self.end_time,
            "until": None if self.until == math.inf else self.until,
        }
        if self.stalled:
            info["stalled"] = self.stalled
        info |= self._kind()
        return Result(self.records.close(info), info, self.problem.kind)

    def _kind(self) -> dict[str, str]:
        """Return the entry by which reading the records finds the kind of a user's own problem."""
        kind = type(self.problem)
        return {} if self.problem.kind is None else {"kind": f"{kind.__module__}:{kind.__qualname__}.kind"}


def _check_run(seed: Any, until: Any, out: Any) -> None:
    """Raise InvalidConfiguration if an argument of a run is out of range."""
    if not (isinstance(seed, int | np.integer) and seed >= 0):
        raise InvalidConfiguration(f"seed: got {seed!r}, expected an integer >= 0")
    if not hasattr(until, "__float__") or not until > 0:
        raise InvalidConfiguration(f"until: got {until!r}, expected a time > 0")
    if not (out is None or isinstance(out, str) or hasattr(out, "__fspath__")):
        raise InvalidConfiguration(f"out: got {out!r}, expected the path of a directory")


def simulate(
    problem: Problem,
    agent: Agent | str,
    *,
    seed: int = 0,
    until: float = math.inf,
    out: str | PathLike[str] | None = None,
    metrics: Sequence[Metric] = (),
    engine: Engine = "auto",
) -> Result:
    """Simulate a problem with an agent to the end of the run.

    Parameters
    ----------
    problem : Problem
        System and workload.
    agent : Agent or str
        Agent that answers every decision, or its name in ``desim list``. The optional methods
        ``attach(fork)`` and ``reset(info, rng)`` are called before the first decision, see
        :class:`Agent`.
    seed : int
        Root of all random streams; the workload's streams do not depend on the agent.
    until : float
        End of the run, in seconds of simulated time.
    out : path, optional
        Directory for the records as Parquet files; if None, records are kept in memory.
    metrics : sequence of Metric
        Custom metrics, ``Metric(name, unit=..., better=..., measure=FUNCTION_OF_RESULT)``.
    engine : {"auto", "simpy", "compiled"}
        What simulates the run. The records do not depend on it. ``"simpy"`` simulates everything; ``"compiled"``
        simulates rigid jobs on counted cores with priority orders and backfilling, and is an error for other runs.
        ``"auto"`` takes the compiled engine for runs of many jobs that it can simulate, if numba is installed. The
        description of the run, ``result.info``, says so if it ran.

    Returns
    -------
    Result
        Tables of records, with metrics.

    Raises
    ------
    SimulationInterrupted
        On Ctrl-C, with the result so far; a second Ctrl-C stops at once.
    InvalidConfiguration
        If an argument is out of range, is not a problem, or is not an agent for the problem.
    InfeasibleAction
        If the agent requests an action that cannot be carried out. The records up to that time are kept, in the
        directory and as the exception's ``result``, as for any other exception raised by an agent or
        a process.

    Examples
    --------
    >>> from desim.agents.batch import FCFS
    >>> from desim.problems.batch import BatchCluster, Job
    >>> jobs = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 1.0, 2, 5.0, 5.0)]
    >>> simulate(BatchCluster(jobs, num_cores=2), FCFS()).jobs["waiting_time"].to_list()
    [0.0, 9.0]
    """
    # Imported by name, because agent resolution knows problems, and problems know the kernel.
    decider: Agent = resolve_name("desim.agent_resolution:resolve_agent")(problem, agent)
    if disregarded := problem.disregarded(decider):
        warnings.warn(disregarded, DisregardedWarning, 2)
    problem, attaches = problem.for_agent(decider), hasattr(decider, "attach")
    if check_choice("engine", engine, ENGINES) != "simpy":
        _check_run(seed, until, out)
        needed = engine == "compiled"
        compiled = problem.simulate_compiled(decider, seed=seed, until=until, out=out, needed=needed)
        if compiled is not None:
            compiled.own_metrics = (*problem.own_metrics, *metrics)
            return compiled
    if attaches:
        problem.check_replayable()
    simulation = Simulation(problem, seed=seed, until=until, out=out, log_actions=attaches)
    name = simulation.records.info["agent"] = getattr(decider, "name", type(decider).__name__)
    with deferred_interrupts(_is_deciding) as interrupted:
        try:
            _decide_all(simulation, decider, interrupted)
        except InterruptOverdue:
            raise _interrupted(simulation, name) from None
        except BaseException as error:
            error.result = simulation.finish(status="failed", agent=name)  # type: ignore[attr-defined]
            error.add_note(f"desim: raised at time {simulation.env.now} s with agent {name}")
            raise
        if interrupted:
            raise _interrupted(simulation, name)
        result = simulation.finish(agent=name)
    if interrupted:  # too late to change anything
        raise KeyboardInterrupt
    result.own_metrics = (*problem.own_metrics, *metrics)
    if simulation.stalled:
        warnings.warn(
            f"stalled at time {simulation.end_time} with agent {name}: {simulation.stalled}", StalledWarning, 2
        )
    return result


def _decide_all(simulation: Simulation, agent: Agent, interrupted: Sequence[int]) -> None:
    """Ask an agent for every decision of a run, until an interrupt arrives."""
    prepare_agent(agent, simulation)
    act, patience = agent.act, simulation.problem.patience // 10
    decision = simulation.advance()
    while decision is not None and not interrupted:
        for _ in repeat(None, patience):  # as in advance()
            decision.answer(act(decision.observation))
            if interrupted or (decision := simulation.advance()) is None:
                break
        else:
            simulation.look_for_standstill()


def _interrupted(simulation: Simulation, name: str) -> SimulationInterrupted:
    result = simulation.finish(status="interrupted", agent=name)
    return SimulationInterrupted(f"interrupted at time {simulation.env.now} s; its records are kept", result)


def run_to_end(problem: Problem, agent: Agent) -> Simulation:
    """Simulate a problem with an agent to the end of the run, without closing the records.

    Closing the records takes longer than simulating a few jobs. To run many small simulations, listen to events
    (:meth:`Problem.on`), or query the simulation after its end.

    Parameters
    ----------
    problem : Problem
        System and workload.
    agent : Agent
        Agent that answers every decision, as in :func:`simulate`.

    Returns
    -------
    Simulation
        The simulation at its end.
    """
    problem, attaches = problem.for_agent(agent), hasattr(agent, "attach")
    if attaches:
        problem.check_replayable()
    simulation = Simulation(problem, log_actions=attaches)
    prepare_agent(agent, simulation)
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    return simulation


def prepare_agent(agent: Agent, simulation: Simulation) -> None:
    """Call an agent's optional methods ``attach`` and ``reset`` before its first decision, and let it hear events.

    Parameters
    ----------
    agent : Agent
        Agent, with or without these methods, see :class:`Agent`.
    simulation : Simulation
        Simulation that the agent will decide in; it must log actions if the agent looks ahead.
    """
    attach = getattr(agent, "attach", None)
    if attach is not None:
        attach(partial(simulation.fork, foresight=False))
    reset = getattr(agent, "reset", None)
    if reset is not None:
        reset(simulation.problem.describe(), simulation.stream("agent"))
    simulation.problem.hear(agent)
