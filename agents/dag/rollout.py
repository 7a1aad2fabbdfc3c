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
from desim.problem import declared
from desim.problems.dag import Assign, DagObservation, Executors, Job, JobState

__all__ = ["Completions", "Objective", "RolloutAgent"]

Floats = NDArray[np.float64]

Objective = Literal["makespan", "turnaround_time_mean"]


class RolloutAgent(Lookahead):
    """Agent that assigns a node to an executor, or waits, where the base agent's simulated continuation scores best.

    Candidates are the base agent's action, its node on each of the next best executors and in its other modes that fit,
    the other ready nodes with the highest upward ranks, and waiting. Only jobs that are in the system are simulated. On
    pools, nodes are tried only where they fit; a rollout takes demands and modes into account if its base agent does.

    Parameters
    ----------
    base : Agent
        Base agent, see :class:`Lookahead`.
    objective : {"makespan", "turnaround_time_mean"}
        Quantity to minimize: the end of the last job, or the mean time from submission to end.
    executors : int
        Largest number of other executors to try for the base agent's node, those with the earliest finish first.
    nodes : int
        Largest number of other nodes to try, those with the highest upward rank first.
    allocation : Allocation, optional
        Allocation of nodes that the base agent did not choose. Default: the ``allocation`` of the base agent if it has
        one, otherwise ``DEFT()``, or ``EFT()`` on clusters that schedule single tasks.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the base agent looks ahead itself.
    """

    considers = frozenset({"links", "outages", "arrivals"})

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
        known = declared(base, "considers", frozenset())
        self.considers = RolloutAgent.considers | known.intersection({"demands", "modes"})
        self._ranks = PerJob(_ranks_of)

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a new run, also for the base agent.

        Parameters
        ----------
        info : dict
            Description of the cluster.
        rng : numpy.random.Generator
            Random stream of the agent, which passes it to the base agent.
        """
        super().reset(info, rng)
        self._ranks.forget()
        default = EFT() if info.get("granularity") == "task" else DEFT()
        self._allocation: Allocation = self.allocation or getattr(self.base, "allocation", None) or default

    def alternatives(self, observation: DagObservation, action: Any) -> list[Any]:
        """Return other executors for the base agent's node, other nodes, and None (to wait).

        Parameters
        ----------
        observation : DagObservation
            Ready nodes and executors.
        action : object
            The base agent's action.

        Returns
        -------
        list of object
            Alternative actions, without the base agent's.
        """
        first = action[0] if isinstance(action, list) and action else action
        own = None if first is None else (observation.jobs[first.job_id], int(first.node))
        found = [] if own is None else [*self._elsewhere(observation, own, first.executor), None]
        if own is not None and own[1] in own[0].modes:
            times = observation.fitting_modes(*own)[:, first.executor]
            modes = [mode for mode in np.flatnonzero(times < np.inf).tolist() if mode != first.mode]
            found = [*(first._replace(mode=mode) for mode in modes), *found]
        others = [pair for pair in observation.ready.values() if pair != own]
        others.sort(key=lambda pair: -self._ranks.of(observation, pair[0])[pair[1]])
        for state, node in others[: self.nodes]:
            assignment = self._allocation.allocate(observation, state, node, _available(observation, state, node))
            if assignment is not None:
                found.insert(0, assignment)
        return found

    def _elsewhere(self, observation: DagObservation, own: tuple[JobState, int], taken: int) -> Iterator[Assign]:
        """Yield assignments of a node to the executors with the earliest finish, except one executor."""
        state, node = own
        available = _available(observation, state, node)
        finish = np.maximum(available, state.ready_times(node)) + state.run_times[node]
        finish[taken] = np.inf
        for executor in finish.argsort(kind="stable")[: self.executors].tolist():
            only = np.full(len(available), np.inf)
            only[executor] = available[executor]
            assignment = self._allocation.allocate(observation, state, node, only)
            if assignment is not None:
                yield assignment

    def tally(self, simulation: Simulation) -> Completions:
        """Return the object that records when the jobs end in a fork.

        Parameters
        ----------
        simulation : Simulation
            The fork, before its first event.

        Returns
        -------
        Tally
            Running score, registered as a listener for job completions.
        """
        return Completions(simulation, self.objective)

    def twins(self, observation: DagObservation, twin: DagObservation) -> Iterator[tuple[Any, Any]]:
        """Yield the jobs in the system, each with its counterpart in a fork, and objects that both share.

        Parameters
        ----------
        observation : DagObservation
            Observation of the run.
        twin : DagObservation
            Observation of the fork.

        Yields
        ------
        (object, object)
            Pairs (original, counterpart).
        """
        yield observation.executors, observation.executors
        for job_id, state in observation.jobs.items():
            yield state, twin.jobs[job_id]
            yield state.job, state.job


def _available(observation: DagObservation, state: JobState, node: int) -> Floats:
    """Return when executors are available for a node; pools now where it fits, and otherwise never."""
    if not observation.executors.resources:
        return observation.available_times
    return np.where(observation.fits(state, node), observation.time, np.inf)


def _ranks_of(state: JobState, executors: Executors) -> Floats:
    return upward_rank(state.job, executors)


class Completions:
    """Running value of the objective as the jobs in the system end."""

    def __init__(self, simulation: Simulation, objective: str) -> None:
        self._env = simulation.env
        self._jobs: dict[int, JobState] = simulation.problem.observation.jobs  # type: ignore[attr-defined]
        self._mean = objective == "turnaround_time_mean"
        self._number = max(len(self._jobs), 1)
        self._submissions: float = sum(state.job.submission_time for state in self._jobs.values())
        self._sum, self._last = 0.0, 0.0
        simulation.problem.on("job_completion", self._end)

    def _end(self, time: float, job: Job) -> None:
        self._sum += time
        self._last = time

    def is_over(self, best: Score | None) -> bool:
        """Return whether the value is certain to be too large, because the remaining jobs end after now."""
        return best is not None and not best.unfinished and self._value(self._env.now) > best.value

    def score(self) -> Score:
        """Return the value; remaining jobs count as unfinished."""
        return Score(len(self._jobs), self._value(self._last))

    def _value(self, now: float) -> float:
        """Return the objective if the remaining jobs ended now."""
        if self._mean:
            return (self._sum + len(self._jobs) * now - self._submissions) / self._number
        return now
