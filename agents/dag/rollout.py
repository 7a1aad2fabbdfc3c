"""Rollout over any agent for DAG jobs; see :mod:`desim.agents.lookahead`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag.allocation import DEFT, EFT, Allocation
from desim.agents.dag.orders import PerJob, upward_rank
from desim.agents.lookahead import Lookahead, Score
from desim.checks import check_int
from desim.core import Agent, Simulation
from desim.problems.dag import Assign, DagObservation, Executors, Job, JobState

__all__ = ["RolloutAgent"]

Floats = NDArray[np.float64]

Objective = Literal["makespan", "completion_time"]


class RolloutAgent(Lookahead):
    """Assigns the node to the executor, or waits, where the base agent then gets on best with the jobs in the system.

    Candidates are the base agent's action, its node on each of the next best executors, each of the other ready
    nodes with the longest way to the end of their jobs, and to wait.

    Parameters
    ----------
    base : Agent
        See :class:`Lookahead`.
    objective : {"makespan", "completion_time"}
        What is to be small: when the last of the jobs ends, or the mean time from their submissions to their ends.
    executors : int
        How many other executors to try at most for the base agent's node, those first where it would finish first.
    nodes : int
        How many other nodes to try at most, those first with the highest upward rank.
    allocation : Allocation, optional
        Where nodes run that the base agent has not chosen; that of the base agent if it has one as ``allocation``,
        otherwise ``DEFT()``, or ``EFT()`` for tasks.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the base agent looks ahead itself.
    """

    def __init__(
        self,
        base: Agent,
        *,
        objective: Objective = "makespan",
        executors: int = 2,
        nodes: int = 2,
        allocation: Allocation | None = None,
    ) -> None:
        super().__init__(base, objective, get_args(Objective))
        self.executors = check_int("executors", executors, least=0)
        self.nodes = check_int("nodes", nodes, least=0)
        self.allocation = allocation
        self._ranks = PerJob(_ranks_of)

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a new run, of the base agent too.

        Parameters
        ----------
        info : dict
            The description of the cluster.
        rng : numpy.random.Generator
            The agent's random stream, for the base agent.
        """
        super().reset(info, rng)
        self._ranks.forget()
        default = EFT() if info.get("granularity") == "task" else DEFT()
        self._allocation: Allocation = self.allocation or getattr(self.base, "allocation", None) or default

    def alternatives(self, observation: DagObservation, action: Any) -> list[Any]:
        """Return other executors for the base agent's node, other nodes, and None.

        Parameters
        ----------
        observation : DagObservation
            The ready nodes and the executors.
        action : object
            The base agent's action.

        Returns
        -------
        list of object
            Without the base agent's action.
        """
        available = observation.available_times
        first = action[0] if isinstance(action, list) and action else action
        own = None if first is None else (observation.jobs[first.job_id], int(first.node))
        found = [] if own is None else [*self._elsewhere(observation, own, first.executor, available), None]
        others = [pair for pair in observation.ready.values() if pair != own]
        others.sort(key=lambda pair: -self._ranks.of(observation, pair[0])[pair[1]])
        for state, node in others[: self.nodes]:
            assignment = self._allocation.allocate(observation, state, node, available)
            if assignment is not None:
                found.insert(0, assignment)
        return found

    def _elsewhere(
        self, observation: DagObservation, own: tuple[JobState, int], taken: int, available: Floats
    ) -> Iterator[Assign]:
        """Yield assignments of a node to the executors where it would finish first, but for one."""
        state, node = own
        finish = np.maximum(available, state.ready_times(node)) + state.run_times[node]
        finish[taken] = np.inf
        for executor in finish.argsort(kind="stable")[: self.executors].tolist():
            only = np.full(len(available), np.inf)
            only[executor] = available[executor]
            assignment = self._allocation.allocate(observation, state, node, only)
            if assignment is not None:
                yield assignment

    def tally(self, simulation: Simulation) -> _Completions:
        """Return what notes when the jobs end in a fork.

        Parameters
        ----------
        simulation : Simulation
            The fork.

        Returns
        -------
        Tally
            It listens to the ends of jobs.
        """
        return _Completions(simulation, self.objective)

    def twins(self, observation: DagObservation, twin: DagObservation) -> Iterator[tuple[Any, Any]]:
        """Yield the jobs in the system, each with its counterpart in a fork, and what both share.

        Parameters
        ----------
        observation : DagObservation
            Of the run.
        twin : DagObservation
            Of the fork.

        Yields
        ------
        (object, object)
            Pairs.
        """
        yield observation.executors, observation.executors
        for job_id, state in observation.jobs.items():
            yield state, twin.jobs[job_id]
            yield state.job, state.job


def _ranks_of(state: JobState, executors: Executors) -> Floats:
    return upward_rank(state.job, executors)


class _Completions:
    """The objective of the jobs in the system, as they end."""

    def __init__(self, simulation: Simulation, objective: str) -> None:
        self._env = simulation.env
        self._jobs: dict[int, JobState] = simulation.problem.observation.jobs  # type: ignore[attr-defined]
        self._mean = objective == "completion_time"
        self._number = max(len(self._jobs), 1)
        self._submissions: float = sum(state.job.submission_time for state in self._jobs.values())
        self._sum, self._last = 0.0, 0.0
        simulation.problem.on("job_completion", self._end)

    def _end(self, time: float, job: Job) -> None:
        self._sum += time
        self._last = time

    def is_over(self, best: Score | None) -> bool:
        """Tell whether the jobs that are left, which end after now, make too large a value certain."""
        return best is not None and not best.unfinished and self._value(self._env.now) > best.value

    def score(self) -> Score:
        """Return the value; jobs that are left are unfinished."""
        return Score(len(self._jobs), self._value(self._last))

    def _value(self, now: float) -> float:
        """Return the objective if the jobs that are left end now."""
        if self._mean:
            return (self._sum + len(self._jobs) * now - self._submissions) / self._number
        return now
