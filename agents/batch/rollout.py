"""Rollout over any agent for the batch cluster; see :mod:`desim.agents.lookahead`."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from desim.agents.lookahead import Lookahead, Score
from desim.checks import check_int
from desim.core import Agent, Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, Execution, Start, StartOnNodes, WaitForCores

__all__ = ["RolloutAgent"]

Objective = Literal["bounded_slowdown_mean", "waiting_time_mean"]
THRESHOLD = 10.0  # seconds, as in the metrics


class RolloutAgent(Lookahead):
    """Agent that starts the job, or waits, where the base agent's simulated continuation scores best.

    Candidates are the base agent's action, each of the shortest other jobs that fit, the beginnings of a list of
    starts, and waiting. Only jobs already queued are simulated, and their requested times are taken as run times.

    Parameters
    ----------
    base : Agent
        Base agent, see :class:`Lookahead`.
    objective : {"bounded_slowdown_mean", "waiting_time_mean"}
        Mean over the queued jobs that is minimized; slowdowns use requested times and a threshold of 10 s.
    width : int
        Largest number of other jobs to try, those with the shortest requested times first.
    horizon : float
        Simulated time to look ahead in seconds; jobs that have not started by then count as if they started then.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the base agent looks ahead itself.
    """

    def __init__(
        self, base: Agent, *, objective: Objective = "bounded_slowdown_mean", width: int = 4, horizon: float = math.inf
    ) -> None:
        super().__init__(base, objective, get_args(Objective))
        self.width = check_int("width", width, least=0)
        if not horizon > 0:
            raise InvalidConfiguration(f"horizon: got {horizon!r}, expected a time in seconds above 0")
        self.horizon = horizon

    def propose(self, observation: BatchObservation) -> Any:
        """Return the base agent's action without its conditions to wait for, since this agent has more choices.

        Parameters
        ----------
        observation : BatchObservation
            Queue and free cores.

        Returns
        -------
        object
            Action without any :class:`~desim.problems.batch.WaitForCores`.
        """
        action = super().propose(observation)
        if isinstance(action, list):
            return [one for one in action if not isinstance(one, WaitForCores)] or None
        return None if isinstance(action, WaitForCores) else action

    def alternatives(self, observation: BatchObservation, action: Any) -> list[Any]:
        """Return the other jobs that fit, shorter lists of starts, and None (to wait).

        Parameters
        ----------
        observation : BatchObservation
            Queue and free cores.
        action : object
            The base agent's action.

        Returns
        -------
        list of object
            Alternative actions; empty if there is no choice: nothing fits, or the only queued job is to start.
        """
        starts = action if isinstance(action, list) else [action]
        names = [each.row if isinstance(each, Start | StartOnNodes) else each for each in starts]
        first = names[0] if names and isinstance(names[0], int | np.integer) else None
        queue = observation.queue
        fitting = observation.plan(around_reservations=False).fitting()
        if not len(fitting) or (first is not None and len(queue) == 1):
            return []
        by_time = fitting[queue.expected_time[fitting].argsort(kind="stable")]
        jobs = [job for job in queue.row[by_time[: self.width + 1]].tolist() if job != first]
        parts = [starts[:count] for count in range(len(starts) - 1, 0, -1)]
        return [*jobs[: self.width], *parts[: self.width], *([] if first is None else [None])]

    def tally(self, simulation: Simulation) -> _Starts:
        """Return the object that sums the objective over the jobs that start in a fork.

        Parameters
        ----------
        simulation : Simulation
            The fork, before its first event.

        Returns
        -------
        Tally
            Running score, registered as a listener for starts.
        """
        return _Starts(simulation, self.objective, self.horizon)


class _Starts:
    """Running sum of the objective over the queued jobs as they start."""

    def __init__(self, simulation: Simulation, objective: str, horizon: float) -> None:
        self._env = simulation.env
        self._queue = simulation.problem.observation.queue  # type: ignore[attr-defined]
        self._end = simulation.env.now + horizon
        self._bounded = objective == "bounded_slowdown_mean"
        self._number = max(len(self._queue), 1)
        self._sum = 0.0
        simulation.problem.on("start", self._start)

    def _start(self, time: float, execution: Execution) -> None:
        job = execution.job
        self._sum += self._cost(time - job.submission_time, job.run_time)  # which is expected

    def _cost(self, waiting: float, requested: float) -> float:
        """Return a job's contribution to the objective, by its waiting time and requested time in seconds."""
        if self._bounded:
            return max((waiting + requested) / max(requested, THRESHOLD), 1.0)
        return waiting

    def is_over(self, best: Score | None) -> bool:
        """Return whether the horizon is reached, or the sum is already too large to win."""
        beaten = best is not None and not best.unfinished and self._sum > best.value * self._number
        return beaten or self._env.now > self._end

    def score(self) -> Score:
        """Return the mean; if the horizon is not reached, jobs still queued count as unfinished."""
        if self._env.now <= self._end:
            return Score(len(self._queue), self._sum / self._number)
        pairs = zip(self._queue.submission_time.tolist(), self._queue.expected_time.tolist(), strict=True)
        rest = sum(self._cost(self._end - submitted, requested) for submitted, requested in pairs)
        return Score(0, (self._sum + rest) / self._number)
