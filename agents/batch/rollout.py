"""Rollout over any agent for the batch cluster; see :mod:`desim.agents.lookahead`."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from desim.agents.lookahead import Lookahead, Score
from desim.checks import check_int
from desim.core import Agent, Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, Execution, NodeObservation, Start, StartOnNodes, WaitForCores

__all__ = ["RolloutAgent"]

Objective = Literal["bounded_slowdown", "waiting_time"]
THRESHOLD = 10.0  # seconds, as in the metrics


class RolloutAgent(Lookahead):
    """Starts the job, or waits, where the base agent then gets on best with the jobs that are queued.

    Candidates are the base agent's action, each of the shortest other jobs that fit, the first parts of a list of
    starts, and to wait. The jobs' requested times are taken for their run times.

    Parameters
    ----------
    base : Agent
        See :class:`Lookahead`.
    objective : {"bounded_slowdown", "waiting_time"}
        The mean over the queued jobs, which is to be small; the slowdown by requested times, with a threshold of 10 s.
    width : int
        How many other jobs to try at most, those first that request the shortest time.
    horizon : float
        How far to look ahead, in seconds; what has not started by then counts as if it did then.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the base agent looks ahead itself.
    """

    def __init__(
        self, base: Agent, *, objective: Objective = "bounded_slowdown", width: int = 4, horizon: float = math.inf
    ) -> None:
        super().__init__(base, objective, get_args(Objective))
        self.width = check_int("width", width, least=0)
        if not horizon > 0:
            raise InvalidConfiguration(f"horizon is {horizon!r}, want a time above 0")
        self.horizon = horizon

    def propose(self, observation: BatchObservation) -> Any:
        """Return the base agent's action; what that would wait for does not bind an agent with more to choose from.

        Parameters
        ----------
        observation : BatchObservation
            The queue and the free cores.

        Returns
        -------
        object
            Without :class:`~desim.problems.batch.WaitForCores`.
        """
        action = super().propose(observation)
        if isinstance(action, list):
            return [one for one in action if not isinstance(one, WaitForCores)] or None
        return None if isinstance(action, WaitForCores) else action

    def alternatives(self, observation: BatchObservation, action: Any) -> list[Any]:
        """Return the other jobs that fit, shorter lists of starts, and None.

        Parameters
        ----------
        observation : BatchObservation
            The queue and the free cores.
        action : object
            The base agent's action.

        Returns
        -------
        list of object
            None where at most one thing can be done: nothing fits, or the only job is to be started.
        """
        starts = action if isinstance(action, list) else [action]
        names = [each.job_id if isinstance(each, Start | StartOnNodes) else each for each in starts]
        first = names[0] if names and isinstance(names[0], int | np.integer) else None
        queue = observation.queue
        if isinstance(observation, NodeObservation):
            fits = observation.fitting()
        else:
            fits = queue.requested_cores <= observation.free_cores
        fitting = fits.nonzero()[0]
        if not len(fitting) or (first is not None and len(queue) == 1):
            return []
        by_time = fitting[queue.requested_time[fitting].argsort(kind="stable")]
        jobs = [job for job in queue.job_id[by_time[: self.width + 1]].tolist() if job != first]
        parts = [starts[:count] for count in range(len(starts) - 1, 0, -1)]
        return [*jobs[: self.width], *parts[: self.width], *([] if first is None else [None])]

    def tally(self, simulation: Simulation) -> _Starts:
        """Return what adds up the objective over the jobs that start in a fork.

        Parameters
        ----------
        simulation : Simulation
            The fork.

        Returns
        -------
        Tally
            It listens to starts.
        """
        return _Starts(simulation, self.objective, self.horizon)


class _Starts:
    """The objective of the queued jobs, as they start."""

    def __init__(self, simulation: Simulation, objective: str, horizon: float) -> None:
        self._env = simulation.env
        self._queue = simulation.problem.observation.queue  # type: ignore[attr-defined]
        self._end = simulation.env.now + horizon
        self._bounded = objective == "bounded_slowdown"
        self._number = max(len(self._queue), 1)
        self._sum = 0.0
        simulation.problem.on("start", self._start)

    def _start(self, time: float, execution: Execution) -> None:
        job = execution.job
        self._sum += self._cost(time - job.submission_time, job.requested_time)

    def _cost(self, waiting: float, requested: float) -> float:
        """Return what a job adds, by its waiting time and its requested time in seconds."""
        if self._bounded:
            return max((waiting + requested) / max(requested, THRESHOLD), 1.0)
        return waiting

    def is_over(self, best: Score | None) -> bool:
        """Tell whether the horizon is reached or the sum is too large already."""
        beaten = best is not None and not best.unfinished and self._sum > best.value * self._number
        return beaten or self._env.now > self._end

    def score(self) -> Score:
        """Return the mean; jobs that are left are unfinished unless the horizon is reached."""
        if self._env.now <= self._end:
            return Score(len(self._queue), self._sum / self._number)
        pairs = zip(self._queue.submission_time.tolist(), self._queue.requested_time.tolist(), strict=True)
        rest = sum(self._cost(self._end - submitted, requested) for submitted, requested in pairs)
        return Score(0, (self._sum + rest) / self._number)
