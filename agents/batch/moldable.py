"""EASY backfilling that chooses the sizes of moldable jobs, when they start.

A size of a job is good if the job ends early, and if it takes few core-seconds, each of which keeps the jobs that wait
waiting: on C cores by 1/C s for each of them. So the cost of a size is its expected end plus the number of other queued
jobs times its core-seconds over C: alone a job takes the size in which it ends first, in a long queue the one that does
most with its cores. On sizes that follow the load see Srinivasan, Krishnamoorthy and Sadayappan, "A robust scheduling
strategy for moldable scheduling of parallel jobs", Cluster 2003.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from desim.agents.batch.node_backfilling import refuse_nodes
from desim.agents.batch.priorities import Priority, as_priority
from desim.agents.batch.profile import iter_releases
from desim.problems.batch import BatchObservation, StartWithSize
from desim.reprs import NamedRepr

__all__ = ["MoldableBackfilling"]


class _Room(NamedTuple):
    """What can start now: so many cores, of which only the spare ones may be held beyond the shadow time."""

    free: int
    spare: float = inf
    shadow: float = inf


class _Choice(NamedTuple):
    """A size of a job, and when it would run; the best one is the least."""

    cost: float
    cores: int
    size: int
    start: float
    end: float


class MoldableBackfilling(NamedRepr):
    """EASY backfilling in which each job has the best of its sizes; rigid jobs have one.

    Jobs start in order of priority for as long as the best size of the next one can start now. If that has to wait, it
    gets a reservation, and later jobs start in the best of the sizes that do not delay it. Where the site has limits,
    only those sizes count that these allow.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Which job comes first, for example ``"fcfs"`` or ``F1``.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs") -> None:
        self.priority = as_priority(order)
        self.name = f"easy-moldable-{self.priority.name}"

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Begin a run; on nodes it is an InvalidConfiguration."""
        refuse_nodes(simulation_info, self.name, f"easy-{self.priority.name}")

    def act(self, observation: BatchObservation) -> Sequence[int | StartWithSize] | int | StartWithSize | None:
        """Return the jobs to start, and in which size; one by one under limits, which starts change."""
        self.priority.look(observation)
        queue, time = observation.queue, observation.time
        room = _Room(observation.free_cores)
        if not len(queue) or not room.free:
            return None
        weight = (len(queue) - 1) / observation.num_cores
        releases = [(end, cores) for end, cores, _ in iter_releases(observation)]
        started: list[int | StartWithSize] = []
        blocked = False
        for position in self.priority.order(queue, time).tolist():
            job_id = int(queue.job_id[position])
            every = observation.sizes_of(job_id)
            sizes = [(size, *each) for size, each in enumerate(every) if observation.allows_size(job_id, size)]
            if blocked:
                choice = _best_now(sizes, time, weight, room)
            else:
                choice = _best(sizes, time, weight, room.free, releases)
                if choice.cores > room.free:  # the start may be due all the same, while a job overruns its request
                    blocked, room = True, _beside(choice, room.free, releases)
                    continue
            if choice is None:
                continue
            started.append(StartWithSize(job_id, choice.size) if len(every) > 1 else job_id)
            if observation.has_limits:
                return started[0]
            room = room._replace(
                free=room.free - choice.cores, spare=room.spare - choice.cores * (choice.end > room.shadow)
            )
            releases = sorted([*releases, (choice.end, choice.cores)])
            if not room.free:
                break
        return started or None


def _best(
    sizes: list[tuple[int, int, float]], time: float, weight: float, free: int, releases: list[tuple[float, int]]
) -> _Choice:
    """Return the best size of the first job, which may have to wait for cores: for ever, if that many never come."""
    choices = []
    for size, cores, requested in sizes:
        start = _earliest(cores, time, free, releases)
        end = start + requested
        choices.append(_Choice(end + weight * cores * requested, cores, size, start, end))
    return min(choices)


def _best_now(sizes: list[tuple[int, int, float]], time: float, weight: float, room: _Room) -> _Choice | None:
    """Return the best size of those that can start now and do not delay the reservation; None if none can."""
    choices = [
        _Choice(time + requested + weight * cores * requested, cores, size, time, time + requested)
        for size, cores, requested in sizes
        if cores <= room.free and (time + requested <= room.shadow or cores <= room.spare)
    ]
    return min(choices, default=None)


def _earliest(cores: int, time: float, free: int, releases: list[tuple[float, int]]) -> float:
    """Return when so many cores are free, as jobs end that run now."""
    if cores <= free:
        return time
    for end, released in releases:
        free += released
        if cores <= free:
            return max(end, time)
    return inf


def _beside(choice: _Choice, free: int, releases: list[tuple[float, int]]) -> _Room:
    """Return what others may use beside the reservation of the first job; all, if nobody knows when it will start."""
    if choice.start == inf:
        return _Room(free)
    released = sum(cores for end, cores in releases if end <= choice.start)
    return _Room(free, free + released - choice.cores, choice.start)
