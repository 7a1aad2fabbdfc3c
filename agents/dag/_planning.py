"""Agents that plan whole jobs when they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from desim.agents.dag._placing import Placed
from desim.agents.dag._union import UnionGraph, union_of
from desim.agents.dag.allocation import EFT
from desim.agents.dag.list_scheduling import ListScheduler, require_planning
from desim.agents.dag.orders import RankUp
from desim.problems.dag import Assign, DagObservation, JobState

__all__ = ["PlanningAgent"]


class PlanningAgent:
    """Plans the jobs that arrive together as one graph; a node that comes back after an outage goes by rank and EFT."""

    name = ""

    def __init__(self) -> None:
        self._planned: dict[int, JobState] = {}
        self._fallback = ListScheduler(RankUp(), EFT())

    def plan(self, graph: UnionGraph) -> list[Placed]:
        """Return a schedule of all nodes in order of start; to be written by subclasses."""
        raise NotImplementedError

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead is an InvalidConfiguration."""
        require_planning(self.name, info)
        self._planned = {}
        self._fallback.reset(info, rng)

    def act(self, observation: DagObservation) -> list[Assign] | Assign | None:
        """Return the schedule of the jobs that are new, or the assignment of a node that has come back."""
        jobs = observation.jobs
        new = [state.job for job_id, state in jobs.items() if self._planned.get(job_id) is not state]
        if not new:
            return self._fallback.act(observation)
        available = observation.available_times
        if available.min() == np.inf:
            return None
        self._planned = dict(jobs)
        graph = union_of(new, observation.executors, available)
        return [Assign(*graph.owners[placed.node], graph.executors[placed.executor]) for placed in self.plan(graph)]
