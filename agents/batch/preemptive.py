"""Preemption by quality of service around any order or backfilling: who takes whom off, and when.

The job that comes first is that of the quality with the largest priority, and among its jobs the first one in the order
of the agent that is wrapped. If it cannot start and its quality preempts others, it starts where some of their jobs are
taken off, if that is enough. Those of the qualities of least priority are taken first, and of these the ones that
started last; of the jobs that would make enough room none is taken that can be spared. Nobody else preempts: whoever
comes later would only keep the first one waiting. All other decisions are those of the agent that is wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from desim.agents.batch.priorities import Priority
from desim.agents.batch.profile import AvailabilityProfile, Reservation, iter_releases
from desim.agents.batch.reservations import fits_now
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, NodeObservation, StartPreempting, WaitForCores, WaitUntil
from desim.reprs import NamedRepr

__all__ = ["PreemptiveAgent"]


class PreemptiveAgent(NamedRepr):
    """An order or a backfilling whose first job may preempt others, by quality of service.

    Where the site has no qualities of service, it is the agent that it wraps.

    Parameters
    ----------
    agent : Agent
        An order, such as ``FCFS()``, or an agent that follows one, such as ``EASYBackfilling("sjf")``.

    Raises
    ------
    InvalidConfiguration
        If the agent follows no order.
    """

    def __init__(self, agent: Agent) -> None:
        priority = agent if isinstance(agent, Priority) else getattr(agent, "priority", None)
        if not isinstance(priority, Priority):
            raise InvalidConfiguration(f"{agent!r} follows no order: want one such as FCFS(), or a backfilling")
        self.agent, self.priority = agent, priority
        self.name = f"preemptive-{getattr(agent, 'name', type(agent).__name__)}"
        self._planned: list[Any] = []  # what is left to be done of an answer of the agent that is wrapped
        self._planned_at = 0.0

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a run, as the agent that is wrapped does."""
        self._planned = []
        if hasattr(self.agent, "reset"):
            self.agent.reset(simulation_info, rng)

    def act(self, observation: BatchObservation) -> Any:
        """Return that the first job preempts others, or else the next thing that the agent that is wrapped does."""
        if not observation.qos:
            return self.agent.act(observation)
        if not (self._planned and self._planned_at == observation.time):
            action = self._preempt(observation)
            if action is not None:
                return action
        return self._planned.pop(0) if self._planned else None  # one by one, so that the cycle goes on

    def _preempt(self, observation: BatchObservation) -> StartPreempting | None:
        """Return how the first job starts if it preempts others; otherwise plan what is done without that."""
        self._planned = []
        first = self._first(observation)
        if first is None:
            self._plan(observation)
            return None
        job_id, is_next = first
        if is_next and _has_room(observation, job_id):
            self._plan(observation)
            starts = any(getattr(one, "job_id", one) == job_id for one in self._planned)
            return None if starts or not _ends_in_time(observation, job_id, ()) else self._instead(job_id, ())
        victims = _victims(observation, job_id)
        if victims is None or not _ends_in_time(observation, job_id, victims):
            self._plan(observation)
            return None
        return self._instead(job_id, victims)

    def _instead(self, job_id: int, victims: Sequence[int]) -> StartPreempting:
        self._planned = []
        return StartPreempting(job_id, tuple(victims))

    def _plan(self, observation: BatchObservation) -> None:
        """Note what the agent that is wrapped does, but for what it waits for: jobs that arrive may preempt.

        When it wants to be asked again is noted only if it starts no job: after those it is asked once more.
        """
        answer = self.agent.act(observation)
        actions = [one for one in (answer if isinstance(answer, list) else [answer]) if one is not None]
        starts = [one for one in actions if not isinstance(one, WaitForCores | WaitUntil)]
        self._planned = starts or [one for one in actions if isinstance(one, WaitUntil)]
        self._planned_at = observation.time

    def _first(self, observation: BatchObservation) -> tuple[int, bool] | None:
        """Return the first job, and whether it is the next one of the agent, too; None if it preempts nobody."""
        queue = observation.queue
        if not len(queue):
            return None
        self.priority.look(observation)
        order = queue.job_id[self.priority.order(queue, observation.time)].tolist()
        first = min(order, key=lambda job_id: -_priority_of(observation, job_id))  # the first of equals
        job_qos = observation.qos_of(first)
        return None if job_qos is None or not job_qos.preempts else (first, first == order[0])


def _priority_of(observation: BatchObservation, job_id: int) -> float:
    job_qos = observation.qos_of(job_id)
    return 0.0 if job_qos is None else job_qos.priority


def _has_room(observation: BatchObservation, job_id: int) -> bool:
    """Tell whether a queued job could start without preempting, and without cores that suspended jobs lend."""
    if isinstance(observation, NodeObservation):
        return observation.room.fits(observation.compiled_request(job_id))
    queue = observation.queue
    return bool(queue.requested_cores[(queue.job_id == job_id).argmax()] <= observation.free_cores)


def _victims(observation: BatchObservation, job_id: int) -> list[int] | None:
    """Return the jobs that a queued job preempts, if it has to; None if all of them would not be enough."""
    if observation.has_room_without(job_id, ()):
        return []
    candidates = reversed(observation.preemptible_by(job_id))  # those that started together: the last one first
    ordered = sorted(candidates, key=lambda one: (_priority_of(observation, one[0]), -one[1]))
    taken: list[int] = []
    for victim, _ in ordered:
        taken.append(victim)
        if observation.has_room_without(job_id, taken):
            break
    else:
        return None
    for victim in taken[-2::-1]:  # without the last one there was no room
        spared = [other for other in taken if other != victim]
        if observation.has_room_without(job_id, spared):
            taken = spared
    return taken


def _ends_in_time(observation: BatchObservation, job_id: int, victims: Sequence[int]) -> bool:
    """Tell whether a job that starts without some others leaves reservations alone, by its requested time."""
    if not observation.reservations:
        return True
    if isinstance(observation, NodeObservation):
        return _meets_no_reservation(observation, job_id)
    profile, queue, time = AvailabilityProfile.of_running(observation), observation.queue, observation.time
    _, cores, requested = queue.job_at(int((queue.job_id == job_id).argmax()))
    for end, released, each in iter_releases(observation):
        if each in victims:
            profile.give(Reservation(time, end, released, 0))
    borrowed = max(cores - profile.free[0], 0)  # by jobs that are suspended already
    return fits_now(profile, cores - borrowed, time + requested)


def _meets_no_reservation(observation: NodeObservation, job_id: int) -> bool:
    """Tell whether no node that will do for a job has a reservation until it is expected to end.

    That is more than need be; but who preempts names no nodes. Around reservations, the agent that is wrapped
    starts jobs.
    """
    queue, shape = observation.queue, observation.compiled_request(job_id)
    _, _, requested = queue.job_at(int((queue.job_id == job_id).argmax()))
    closed = observation.table.closed_between(observation.time, observation.time + requested)
    return bool(observation.table.open_to(shape, closed)[shape.eligible].all())
