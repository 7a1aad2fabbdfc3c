"""The kernel: a clock, decisions, random streams, and the loop that everything is built on.

A problem is a set of SimPy processes. Where a choice is due, a process waits for a decision::

    action = yield simulation.decide(observation)

and whoever drives the simulation answers it::

    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))

:func:`simulate` is that loop. Nothing in this module knows any particular problem.
"""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import repeat
from pkgutil import resolve_name
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from desim.exceptions import DesimError, InvalidConfiguration, StalledWarning
from desim.records import Records
from desim.reprs import Summarized

if TYPE_CHECKING:
    from os import PathLike

    from desim.problem import Problem
    from desim.result import Result

__all__ = [
    "RESUMED",
    "Agent",
    "Decision",
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


class Phase:
    """Order of what happens at one instant, as SimPy event priorities.

    The horizon is the end of the run: what happens at ``until`` is no longer part of it.
    Completions, then changes of capacity, then arrivals follow, then the ticks of slot clocks, which sum up
    what has arrived; decisions come last, when the instant is over. A plain ``env.timeout()`` has SimPy's
    normal priority, which is that of a completion, so a user's own process acts before the arrivals and
    decisions of its instant.
    """

    HORIZON = EventPriority(-1)
    COMPLETION = NORMAL
    CAPACITY = EventPriority(NORMAL + 1)
    ARRIVAL = EventPriority(NORMAL + 2)
    SLOT = EventPriority(NORMAL + 3)


def at(
    env: simpy.Environment, time: float, phase: EventPriority = Phase.COMPLETION, value: object = None
) -> simpy.Event:
    """Return an event that happens at an absolute time and in a given phase of that instant.

    Parameters
    ----------
    env : simpy.Environment
        The environment whose clock counts.
    time : float
        When the event happens, in seconds, not before ``env.now``.
    phase : int
        Its place within the instant: a constant of :class:`Phase`.
    value : object
        What a process that waits for the event receives.

    Returns
    -------
    simpy.Event
        The scheduled event.

    Raises
    ------
    InvalidConfiguration
        If the time lies in the past or is not finite.
    """
    event = simpy.Event(env)
    schedule_at(event, time, phase, value)
    return event


def schedule_at(event: simpy.Event, time: float, phase: EventPriority = Phase.COMPLETION, value: object = None) -> None:
    """Let an existing event happen at an absolute time; the work behind :func:`at`.

    An event that has happened may serve again, if it is given a new list of ``callbacks`` first.

    Parameters
    ----------
    event : simpy.Event
        An event that is not scheduled.
    time : float
        When it happens, in seconds.
    phase : int
        A constant of :class:`Phase`.
    value : object
        What a process that waits for it receives.

    Raises
    ------
    InvalidConfiguration
        If the time lies in the past or is not finite.
    """
    env = event.env
    now = env._now
    delay = time - now
    if not 0 <= delay < math.inf:
        raise InvalidConfiguration(f"an event for time {time!r} cannot be scheduled at time {now!r}")
    while now + delay < time:  # rounding must never let an event happen before its time
        delay = math.nextafter(delay, math.inf)
    event._ok = True
    event._value = value
    heappush(env._queue, (now + delay, phase, next(env._eid), event))  # what env.schedule() does


def reschedule(env: simpy.Environment, time_of: Callable[[simpy.Event, float], float | None]) -> None:
    """Change when what is scheduled happens, or whether it does: for :meth:`Problem.drop_future`.

    Parameters
    ----------
    env : simpy.Environment
        Whose schedule it is.
    time_of : callable
        Called with each scheduled event and its time in seconds; returns its new time, not before now, or None for what
        will not happen. Events of one time and phase keep the order in which they were scheduled.
    """
    queue = env._queue
    entries = [(time_of(event, time), phase, number, event) for time, phase, number, event in queue]
    queue[:] = [(time, *rest) for time, *rest in entries if time is not None]  # type: ignore[misc]
    heapify(queue)


class _HorizonReached(Exception):  # control flow inside Simulation.advance(), never seen outside
    """The clock has reached the end of the run."""


def _reach_horizon(event: simpy.Event) -> None:
    """Raise _HorizonReached: the callback of the event that ends a run."""
    raise _HorizonReached


def _error_of(event: simpy.Event) -> BaseException:
    """Return the error of a failed event that nobody waits for, as SimPy raises it: a copy with its own traceback."""
    error: BaseException = type(event._value)(*event._value.args)
    error.__cause__ = event._value
    return error


@contextmanager
def deferred_interrupts() -> Iterator[list[int]]:
    """Collect the first SIGINT in the list that is yielded; let the second one through.

    Outside the main thread, or where somebody else already handles SIGINT, nothing is changed.
    """
    caught: list[int] = []
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield caught
        return

    def _catch(number: int, frame: FrameType | None) -> None:
        if caught:
            signal.default_int_handler(number, frame)
        caught.append(number)

    signal.signal(signal.SIGINT, _catch)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`simulate`; nothing recorded so far is lost.

    Parameters
    ----------
    message : str
        When it happened.
    result : Result
        The records up to the interruption, complete and consistent; also an attribute.
    """

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


RESUMED: Any = None
"""What a resumed process yields first: it stands for what the process waits for already."""


class Resumable(Protocol):
    """A process that forks can copy: an object that knows where it stands, which a generator does not tell.

    Started by :func:`start_process`.
    """

    def run(self) -> Generator[simpy.Event, Any, Any]:
        """Return the process, from its beginning."""

    def resume(self) -> Generator[simpy.Event, Any, Any]:
        """Return the process from where it waits now; before all else it yields :data:`RESUMED`."""


def start_process(env: simpy.Environment, process: Resumable | Generator[simpy.Event, Any, Any]) -> simpy.Process:
    """Start a process.

    Parameters
    ----------
    env : simpy.Environment
        Where it runs.
    process : Resumable or generator
        What it does; a run with processes that are generators is forked by replaying its past.

    Returns
    -------
    simpy.Process
        As ``env.process()`` returns it.
    """
    if isinstance(process, Generator):
        return env.process(process)
    started = env.process(process.run())
    started.source = process  # type: ignore[attr-defined]
    return started


class Agent(Protocol):
    """What answers decisions.

    ``act`` is all that an agent needs. :func:`simulate` also calls two methods of agents that have them, before the
    first decision and in this order:

    * ``attach(fork)``, for agents that look ahead. While a decision is due, ``fork()`` returns a simulation in the
      state that is observed, with that decision due, for the agent to drive as it likes: it goes on as far as the agent
      can know, without what is yet to arrive or to fail, see :meth:`Problem.drop_future`. It takes a workload that
      can be read again and a problem that has this method. The agent never gets hold of the simulation itself.
    * ``reset(info, rng)``, for agents that keep state or draw random numbers: the problem's ``describe()`` and the
      agent's own random stream, see ``desim.agents.base``.
    """

    def act(self, observation: Any) -> Any:
        """Return the action for one observation."""


class Decision(simpy.Event):
    """A choice that is due: the SimPy event that a problem's process waits on.

    A process that has been answered may wait for the same decision again, after it has given it
    a new list of ``callbacks``, as for any SimPy event.

    Parameters
    ----------
    simulation : Simulation
        Where the choice is due.
    observation : object
        What the agent may see, also an attribute. It is a live view, valid until the decision
        is answered.
    """

    _ok = True

    def __init__(self, simulation: Simulation, observation: Any) -> None:
        self.env = simulation.env
        self.callbacks = []
        self.observation = observation
        self._pending = simulation._pending
        self._actions, self._answered_at = simulation.actions, simulation._answered_at

    def request(self) -> Decision:
        """Make the decision due as soon as everything else at this instant has happened."""
        self._pending.append(self)
        return self

    def answer(self, action: Any) -> None:
        """Hand an action to the waiting process, which acts on it at once.

        Parameters
        ----------
        action : object
            What the problem's documentation allows.

        Raises
        ------
        DesimError
            If this decision is not the one that is due.
        """
        pending = self._pending
        if not pending or pending[0] is not self:
            raise DesimError(f"a decision can be answered once, and only while it is due (time {self.env.now})")
        pending.popleft()
        if self._actions is not None:
            self._actions.append(copy(action))  # an agent may use its array or list again
            self._answered_at.append(self.env.now)  # type: ignore[union-attr]  # both are logged, or neither is
        # Nothing else happens at this instant, so there is no need to go by way of the event queue.
        self._value = action
        callbacks = self.callbacks
        self.callbacks = None  # type: ignore[assignment]  # as SimPy marks what has happened
        for callback in callbacks:
            callback(self)


class Simulation(Summarized):
    """One run of a problem: its clock, its pending decisions, its random streams, its records.

    Parameters
    ----------
    problem : Problem
        The configuration; it is not changed.
    seed : int
        Root of all random streams.
    until : float
        The run covers [0, until), in seconds of simulated time.
    out : path, optional
        Directory that records are streamed to, in Parquet files; in memory if None.
    log_actions : bool
        Keep every answered action, which :meth:`fork` needs.

    Attributes
    ----------
    env : simpy.Environment
        The SimPy environment, whose ``now`` is the time in seconds.
    problem : Problem
        The bound copy of the problem.
    actions : list or None
        The actions answered so far; None if they are not logged.
    truncated : bool
        Whether the run was cut short of the end of its work: by ``until``, or by :meth:`stop`.
    replayed : bool
        Whether this is a fork for which the past had to be replayed, see :meth:`fork`.
    stalled : str
        Why the run was ended before its work was done, since nothing but endless processes was left; else empty.

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
        if not (isinstance(seed, int | np.integer) and seed >= 0):
            raise InvalidConfiguration(f"seed is {seed!r}, want a whole number of at least 0")
        if not hasattr(until, "__float__") or not until > 0:
            raise InvalidConfiguration(f"until is {until!r}, want a time above 0")
        if not (out is None or isinstance(out, str) or hasattr(out, "__fspath__")):
            raise InvalidConfiguration(f"out is {out!r}, want the path of a directory")
        self.env = simpy.Environment()
        self.seed = seed
        self.until = until
        self.truncated = self.replayed = False
        self.stalled = ""
        self._seen: object = None  # how far the work had come at the last look for a standstill
        self.actions: list[Any] | None = [] if log_actions else None
        self._answered_at: list[float] | None = [] if log_actions else None
        self._forgotten: tuple[int, ...] = ()  # after how many actions the future was forgotten
        self._configuration = problem
        self._pending: deque[Decision] = deque()
        self.problem = copy(problem)
        self.records = Records(self.problem.tables(), out, self.problem.describe() | {"seed": seed})
        if until < math.inf:
            at(self.env, until, Phase.HORIZON).callbacks.append(_reach_horizon)
        self.problem.bind(self)

    def summary(self) -> dict[str, Any]:
        """Return the problem, the seed, how far the clock is, and how many decisions wait for an answer."""
        problem = type(self.problem).__name__
        return {"problem": problem, "seed": self.seed, "time": self.env.now, "pending": len(self._pending)}

    def stream(self, name: str) -> np.random.Generator:
        """Return a new generator for a named purpose, the same one for the same seed and name.

        Parameters
        ----------
        name : str
            For example ``"arrivals"``, ``"outages"`` or ``"agent"``.

        Returns
        -------
        numpy.random.Generator
            Independent of the generators of all other names.
        """
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=tuple(name.encode())))

    def decide(self, observation: Any) -> Decision:
        """Ask for a decision; the calling process yields what is returned and receives the action."""
        return Decision(self, observation).request()

    def advance(self) -> Decision | None:
        """Run the clock to the next decision that is due.

        A decision is due once everything else that happens at its instant has happened. A
        decision that has not been answered yet is returned again.

        Returns
        -------
        Decision or None
            None when nothing is left to happen before ``until``.
        """
        pending, env = self._pending, self.env
        queue = env._queue
        try:
            while True:
                for _ in repeat(None, self.problem.patience):  # a while loop that ends now and then, at no cost
                    if pending:
                        if not queue or queue[0][0] > env._now:
                            return pending[0]
                    elif not queue:
                        return None
                    # What follows is simpy.Environment.step(), without a call for every event.
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
            self.stop()  # once more, should advance() be called again
        return None

    def look_for_standstill(self) -> None:
        """Stop a run without ``until`` in which nothing has been done since the last look, and nothing will be."""
        if self.until < math.inf or self.stalled:
            return
        why, seen = self.problem.standstill(), self.problem.progress()
        if why and seen == self._seen:
            self.stalled = why
            self.stop(truncated=True)
        self._seen = seen if why else None

    def stop(self, *, truncated: bool = False) -> None:
        """End the run after what happens now: :meth:`advance` then returns None for good.

        Parameters
        ----------
        truncated : bool
            Whether there would be more to do. A learner then counts on what it has not seen.
        """
        self.truncated = self.truncated or truncated
        at(self.env, self.env.now, Phase.HORIZON).callbacks.append(_reach_horizon)

    @property
    def end_time(self) -> float:
        """Where the clock stands, in seconds, and at most ``until``."""
        return min(self.env.now, self.until)

    def fork(self, *, problem: Problem | None = None, foresight: bool = True) -> Simulation:
        """Return an independent simulation in the same state.

        The state is copied, which takes as long as there are jobs in the system, whatever the past. Where that cannot
        be done, the actions are replayed, and ``replayed`` of the copy says so: with processes of the user's own, which
        are generators, with problems of the user's own, and onto another problem.

        The copy has no listeners and keeps its records in memory. An agent that has state of
        its own is not part of the simulation: copy it as well.

        Parameters
        ----------
        problem : Problem, optional
            Go on with this system instead: one with the same past and another future, such as an
            outage or a further job. Whether the past is the same shows in when decisions are due.
        foresight : bool
            Whether the copy has the future of this simulation. Without, it goes on as its agent
            would expect now, see :meth:`Problem.drop_future`, and has no ``until``.

        Returns
        -------
        Simulation
            Continues exactly as this one does if it is given the same answers, for as long as
            the future is the same.

        Raises
        ------
        InvalidConfiguration
            If actions were not logged, the workload is an iterator, the problem cannot tell what
            its agents know, or another future is asked for where no decision is due.
        DesimError
            If the replay differs: a decision is not due when it was, or an answer not possible.
        """
        from desim.forks import fork

        return fork(self, problem=problem, foresight=foresight)

    def finish(self, *, status: str | None = None, agent: str = "") -> Result:
        """Close the records and return the result; what is still in the system is recorded as such.

        Parameters
        ----------
        status : str, optional
            ``"complete"``, ``"truncated"`` (by :meth:`stop`, with work left), ``"stalled"`` (with work left and nothing
            that will do it, see :meth:`Problem.standstill`), ``"interrupted"`` or ``"failed"``. By default one of the
            first three, whichever is true of a run that has come to its end.
        agent : str
            Name of the agent, for the records.

        Returns
        -------
        Result
            Tables and metrics of the run so far.
        """
        from desim.result import Result

        if status is None:
            if not (self.env._queue or self._pending):  # run dry: a problem that is done stops, which leaves an event
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
        kind = self.problem.kind
        if kind is not None:  # where records that are read back find it
            info["kind"] = f"{type(self.problem).__module__}:{type(self.problem).__qualname__}.kind"
        return Result(self.records.close(info), info, kind)


def simulate(
    problem: Problem,
    agent: Agent | str,
    *,
    seed: int = 0,
    until: float = math.inf,
    out: str | PathLike[str] | None = None,
) -> Result:
    """Run a problem with an agent to its end.

    Parameters
    ----------
    problem : Problem
        The system and its workload.
    agent : Agent or str
        Answers every decision. Its ``attach(fork)`` and its ``reset(info, rng)``, if it has
        them, are called first, see :class:`Agent`. A name stands for the agent that ``desim list``
        has by it.
    seed : int
        Root of all random streams; the workload's streams do not depend on the agent.
    until : float
        Stop at this time, in seconds.
    out : path, optional
        Directory to stream the records to, in Parquet files.

    Returns
    -------
    Result
        Tables of records and metrics.

    Raises
    ------
    SimulationInterrupted
        On Ctrl-C, with the result so far; a second Ctrl-C stops at once.
    InvalidConfiguration
        If the arguments are no problem and no agent for it, or out of range.
    InfeasibleAction
        If the agent asks for what cannot be done. The records up to that moment are kept, in the
        directory and as the exception's ``result``, as for any other exception of an agent or
        a process.

    Examples
    --------
    >>> from desim.agents.batch import FCFS
    >>> from desim.problems.batch import BatchCluster, Job
    >>> jobs = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 1.0, 2, 5.0, 5.0)]
    >>> simulate(BatchCluster(jobs, num_cores=2), FCFS()).jobs["waiting_time"].to_list()
    [0.0, 9.0]
    """
    # By name, since it knows problems, which know the kernel.
    decider: Agent = resolve_name("desim.agent_resolution:resolve_agent")(problem, agent)
    attaches = hasattr(decider, "attach")
    if attaches:
        problem.check_replayable()
    simulation = Simulation(problem, seed=seed, until=until, out=out, log_actions=attaches)
    name = getattr(decider, "name", type(decider).__name__)
    try:
        prepare_agent(decider, simulation)
        act = decider.act
        with deferred_interrupts() as interrupted:
            decision = simulation.advance()
            while decision is not None and not interrupted:
                for _ in repeat(None, problem.patience // 10):  # as in advance()
                    decision.answer(act(decision.observation))
                    if interrupted or (decision := simulation.advance()) is None:
                        break
                else:
                    simulation.look_for_standstill()
    except BaseException as error:
        error.result = simulation.finish(status="failed", agent=name)  # type: ignore[attr-defined]
        error.add_note(f"desim: raised at time {simulation.env.now} s with agent {name}")
        raise
    if interrupted:
        result = simulation.finish(status="interrupted", agent=name)
        raise SimulationInterrupted(f"interrupted at time {simulation.env.now} s; its records are kept", result)
    result = simulation.finish(agent=name)
    if simulation.stalled:
        warnings.warn(
            f"stalled at time {simulation.end_time} with agent {name}: {simulation.stalled}", StalledWarning, 2
        )
    return result


def run_to_end(problem: Problem, agent: Agent) -> Simulation:
    """Run a problem with an agent to its end, and leave its records open.

    To close them takes longer than a simulation of a few jobs. Whoever runs many of these listens to what happens
    (:meth:`Problem.on`), or asks the simulation when it has ended.

    Parameters
    ----------
    problem : Problem
        The system and its workload.
    agent : Agent
        Answers every decision, as in :func:`simulate`.

    Returns
    -------
    Simulation
        At its end.
    """
    attaches = hasattr(agent, "attach")
    if attaches:
        problem.check_replayable()
    simulation = Simulation(problem, log_actions=attaches)
    prepare_agent(agent, simulation)
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    return simulation


def prepare_agent(agent: Agent, simulation: Simulation) -> None:
    """Give an agent what it asks for before its first decision: forks, and what is known of the system.

    Parameters
    ----------
    agent : Agent
        See :class:`Agent` for the two methods that are called if it has them.
    simulation : Simulation
        What it is going to decide in; it logs actions if the agent looks ahead.
    """
    attach = getattr(agent, "attach", None)
    if attach is not None:
        attach(partial(simulation.fork, foresight=False))
    reset = getattr(agent, "reset", None)
    if reset is not None:
        reset(simulation.problem.describe(), simulation.stream("agent"))
