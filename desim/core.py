"""The kernel: a clock, decisions, random streams, and the loop that everything is built on.

A problem is a set of SimPy processes. Where a choice is due, a process waits for a decision::

    action = yield simulation.decide(observation)

and whoever drives the simulation answers it::

    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))

:func:`simulate` is that loop. Nothing in this module knows any particular problem.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from simpy.core import EmptySchedule

from desim._clock import HorizonReached, Phase, at, reach_horizon, reschedule
from desim._decision import Agent, Decision
from desim._forks import fork
from desim._interruption import SimulationInterrupted, deferred_interrupts
from desim.exceptions import InvalidConfiguration
from desim.records import Records

if TYPE_CHECKING:
    from os import PathLike

    from desim.problem import Problem
    from desim.result import Result

__all__ = ["Agent", "Decision", "Phase", "Simulation", "SimulationInterrupted", "at", "reschedule", "simulate"]


class Simulation:
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
        if not until > 0:
            raise InvalidConfiguration(f"until is {until!r}, want a time above 0")
        self.env = simpy.Environment()
        self.seed = seed
        self.until = until
        self.truncated = False
        self.actions: list[Any] | None = [] if log_actions else None
        self._answered_at: list[float] | None = [] if log_actions else None
        self._forgotten: tuple[int, ...] = ()  # after how many actions the future was forgotten
        self._configuration = problem
        self._pending: deque[Decision] = deque()
        self.problem = copy.copy(problem)
        self.records = Records(self.problem.tables(), out, self.problem.describe() | {"seed": seed})
        if until < math.inf:
            at(self.env, until, Phase.HORIZON).callbacks.append(reach_horizon)
        self.problem.bind(self)

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
        pending = self._pending
        step = self.env.step
        try:
            while not pending:
                step()
            now, peek = self.env.now, self.env.peek
            while peek() <= now:
                step()
        except EmptySchedule:
            return None
        except HorizonReached:
            self.truncated = self.truncated or self.env.now >= self.until
            self.stop()  # once more, should advance() be called again
            return None
        return pending[0]

    def stop(self, *, truncated: bool = False) -> None:
        """End the run after what happens now: :meth:`advance` then returns None for good.

        Parameters
        ----------
        truncated : bool
            Whether there would be more to do. A learner then counts on what it has not seen.
        """
        self.truncated = self.truncated or truncated
        at(self.env, self.env.now, Phase.HORIZON).callbacks.append(reach_horizon)

    @property
    def end_time(self) -> float:
        """Where the clock stands, in seconds, and at most ``until``."""
        return min(self.env.now, self.until)

    def fork(self, *, problem: Problem | None = None, foresight: bool = True) -> Simulation:
        """Return an independent simulation in the same state, made by replaying the actions.

        The copy has no listeners and keeps its records in memory. An agent that has state of
        its own is not part of the simulation: copy it as well.

        Parameters
        ----------
        problem : Problem, optional
            Go on with this system instead: one with the same past and another future, such as an
            outage or a further job. Whether the past is the same shows in when decisions are due.
        foresight : bool
            Whether the copy has the future of this simulation. Without, it goes on as its agent
            would expect now, see :meth:`Problem.forget_future`, and has no ``until``.

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
        return fork(self, problem=problem, foresight=foresight)

    def finish(self, *, status: str | None = None, agent: str = "") -> Result:
        """Close the records and return the result; what is still in the system is recorded as such.

        Parameters
        ----------
        status : str, optional
            ``"complete"``, ``"truncated"`` (by :meth:`stop`, with work left), ``"interrupted"`` or ``"failed"``. By
            default the first or the second, whichever is true of a run that has come to its end.
        agent : str
            Name of the agent, for the records.

        Returns
        -------
        Result
            Tables and metrics of the run so far.
        """
        from desim.result import Result

        if status is None:
            status = "truncated" if self.truncated and self.end_time < self.until else "complete"
        self.problem.close(self.end_time)
        info = self.problem.describe() | {
            "agent": agent,
            "seed": self.seed,
            "status": status,
            "end_time": self.end_time,
            "until": None if self.until == math.inf else self.until,
        }
        kind = self.problem.kind
        if kind is not None:  # where records that are read back find it
            info["kind"] = f"{type(self.problem).__module__}:{type(self.problem).__qualname__}.kind"
        return Result(self.records.close(info), info, kind)


def simulate(
    problem: Problem,
    agent: Agent,
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
    agent : Agent
        Answers every decision. Its ``attach(fork)`` and its ``reset(info, rng)``, if it has
        them, are called first, see :class:`Agent`.
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
    attach = getattr(agent, "attach", None)
    if attach is not None:
        problem.check_replayable()
    simulation = Simulation(problem, seed=seed, until=until, out=out, log_actions=attach is not None)
    name = getattr(agent, "name", type(agent).__name__)
    try:
        if attach is not None:
            attach(partial(simulation.fork, foresight=False))
        reset = getattr(agent, "reset", None)
        if reset is not None:
            reset(simulation.problem.describe(), simulation.stream("agent"))
        act = agent.act
        with deferred_interrupts() as interrupted:
            while (decision := simulation.advance()) is not None:
                decision.answer(act(decision.observation))
                if interrupted:
                    break
    except BaseException as error:
        error.result = simulation.finish(status="failed", agent=name)  # type: ignore[attr-defined]
        error.add_note(f"desim: raised at time {simulation.env.now} s with agent {name}")
        raise
    if interrupted:
        result = simulation.finish(status="interrupted", agent=name)
        raise SimulationInterrupted(f"interrupted at time {simulation.env.now} s; its records are kept", result)
    return simulation.finish(agent=name)
