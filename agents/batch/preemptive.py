"""Preemption by quality of service (QOS), around any priority order or backfilling agent.

The first job is the one whose QOS has the largest priority; among the jobs of that QOS, it is the first in the order of
the wrapped agent. A job that may preempt it goes before it, whatever the priorities. If it cannot start and its QOS may
preempt, it preempts running jobs, provided that this frees enough resources. Jobs of the QOS with the lowest priority
are preempted first, and among them those that started last; no job is preempted unnecessarily. Only the first job
preempts, since later ones would only delay it. The wrapped agent makes all other decisions. While the victims of the
first job have grace time left, only that job starts, as soon as it fits: others might take the resources that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from desim.agents.batch.priorities import Priority
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problem import declared
from desim.problems.batch import BatchObservation, StartPreempting, WaitForCores, WaitUntil
from desim.reprs import NamedRepr

__all__ = ["PreemptiveAgent"]


class PreemptiveAgent(NamedRepr):
    """A priority order or backfilling agent whose first job may preempt others, by quality of service (QOS).

    On a site without QOS, it acts as the wrapped agent does.

    Parameters
    ----------
    agent : Agent
        Priority order, such as ``FCFS()``, or agent with one, such as ``EASYBackfilling("sjf")``.

    Raises
    ------
    InvalidConfiguration
        If the agent has no priority order.
    """

    def __init__(self, agent: Agent) -> None:
        priority = agent if isinstance(agent, Priority) else getattr(agent, "priority", None)
        if not isinstance(priority, Priority):
            raise InvalidConfiguration(
                f"agent: got {agent!r}, expected one with a priority order; try FCFS() or EASYBackfilling()"
            )
        self.agent, self.priority = agent, priority
        self.considers = declared(agent, "considers", frozenset())
        self.name = f"preemptive-{getattr(agent, 'name', type(agent).__name__)}"
        self._planned: list[Any] = []  # actions of the wrapped agent that are still to be carried out
        self._planned_at = 0.0

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a run, also for the wrapped agent."""
        self._planned = []
        if hasattr(self.agent, "reset"):
            self.agent.reset(simulation_info, rng)

    def act(self, observation: BatchObservation) -> Any:
        """Return a preemption for the first job or, without one, the next action of the wrapped agent."""
        if not observation.qos:
            return self.agent.act(observation)
        if not (self._planned and self._planned_at == observation.time):
            action = self._preempt(observation)
            if action is not None:
                return action
        return self._planned.pop(0) if self._planned else None  # one at a time, so that the cycle goes on

    def _preempt(self, observation: BatchObservation) -> StartPreempting | None:
        """Return the start of the first job if it preempts others; otherwise plan the wrapped agent's actions."""
        self._planned = []
        first = self._first(observation)
        if first is None:
            self._plan(observation)
            return None
        position, is_next = first
        row = int(observation.queue.row[position])
        if is_next and observation.plan(around_reservations=False).fits(position):  # without borrowed cores
            self._plan(observation)
            starts = any(getattr(one, "row", one) == row for one in self._planned)
            return None if starts or not observation.plan().ends_in_time(position) else self._instead(row, ())
        victims = _victims(observation, row)
        if victims and row in observation.announced_preemptions:
            return None
        if victims is None or not observation.plan().ends_in_time(position, victims):
            self._plan(observation)
            return None
        return self._instead(row, victims)

    def _instead(self, row: int, victims: Sequence[int]) -> StartPreempting:
        self._planned = []
        return StartPreempting(row, tuple(victims))

    def _plan(self, observation: BatchObservation) -> None:
        """Store the wrapped agent's actions, except what it waits for: jobs that arrive may preempt.

        Its wake-up time is stored only if it starts no job, because it decides again after a start.
        """
        answer = self.agent.act(observation)
        actions = [one for one in (answer if isinstance(answer, list) else [answer]) if one is not None]
        starts = [one for one in actions if not isinstance(one, WaitForCores | WaitUntil)]
        self._planned = starts or [one for one in actions if isinstance(one, WaitUntil)]
        self._planned_at = observation.time

    def _first(self, observation: BatchObservation) -> tuple[int, bool] | None:
        """Return the position of the first job and whether the wrapped agent agrees; None if it may not preempt."""
        queue = observation.queue
        if not len(queue):
            return None
        self.priority.look(observation)
        order = self.priority.order(queue, observation.time)
        rows = queue.row[order].tolist()
        first = min(rows, key=lambda row: -_priority_of(observation, row))  # ties keep the order
        while above := _above(observation, rows, first):  # else it would start, only to be preempted at once
            first = min(above, key=lambda row: -_priority_of(observation, row))
        job_qos, place = observation.qos_of(first), rows.index(first)
        return None if job_qos is None or not job_qos.preempts else (int(order[place]), place == 0)


def _above(observation: BatchObservation, order: Sequence[int], first: int) -> list[int]:
    """Return the queued jobs that may preempt another queued job once it runs, in the given order."""
    mine = observation.qos_of(first)
    levels = {one.name for one in observation.qos.values() if mine is not None and mine.name in one.preempts}
    named = ((row, observation.qos_of(row)) for row in order) if levels else ()
    return [row for row, level in named if level is not None and level.name in levels]


def _priority_of(observation: BatchObservation, row: int) -> float:
    job_qos = observation.qos_of(row)
    return 0.0 if job_qos is None else job_qos.priority


def _victims(observation: BatchObservation, row: int) -> list[int] | None:
    """Return the jobs that a queued job has to preempt; None if preempting all of them would not suffice."""
    if observation.has_room_without(row, ()):
        return []
    candidates = reversed(observation.preemptible_by(row))  # of jobs with equal start, the last one first
    ordered = sorted(candidates, key=lambda one: (_priority_of(observation, one[0]), -one[1]))
    taken: list[int] = []
    for victim, _ in ordered:
        taken.append(victim)
        if observation.has_room_without(row, taken):
            break
    else:
        return None
    for victim in taken[-2::-1]:  # the last one is needed: before it was added, the job did not fit
        spared = [other for other in taken if other != victim]
        if observation.has_room_without(row, spared):
            taken = spared
    return taken
