"""EASY backfilling that chooses the size of each moldable job when it starts.

A good size lets the job end early and uses few core-seconds, because on C cores each core-second delays every other
queued job by 1/C s. So the cost of a size is the job's expected end plus (number of other queued jobs) x (core-seconds)
/ C. A job alone in the queue gets the size with which it ends first; in a long queue it gets the most efficient size.
For sizes that adapt to the load, see Srinivasan, Krishnamoorthy and Sadayappan, "A robust scheduling strategy for
moldable scheduling of parallel jobs", Cluster 2003.
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
    """Cores that jobs can use now: ``free`` in all, ``spare`` of them beyond the shadow time."""

    free: int
    spare: float = inf
    shadow: float = inf


class _Choice(NamedTuple):
    """A size of a job with its cost and when it would run; the minimum is the best."""

    cost: float
    cores: int
    size: int
    start: float
    end: float


class MoldableBackfilling(NamedRepr):
    """EASY backfilling that gives each moldable job its best size; rigid jobs have one size.

    Jobs start in order of priority while the best size of the next one can start now. The first job whose best size has
    to wait gets a reservation; later jobs start in the best of the sizes that do not delay it. If the site has limits,
    only sizes within them are considered.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order of the jobs, for example ``"fcfs"`` or ``F1``.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs") -> None:
        self.priority = as_priority(order)
        self.name = f"easy-moldable-{self.priority.name}"

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Begin a run; raise InvalidConfiguration if the cluster has nodes."""
        refuse_nodes(simulation_info, self.name, f"easy-{self.priority.name}")

    def act(self, observation: BatchObservation) -> Sequence[int | StartWithSize] | int | StartWithSize | None:
        """Return the jobs to start and their sizes; one at a time under limits, because each start changes them."""
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
                if choice.cores > room.free:  # even if its start is due now, because a running job is overdue
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
    """Return the best size of the first job, which may have to wait; it starts at infinity if cores never suffice."""
    choices = []
    for size, cores, requested in sizes:
        start = _earliest(cores, time, free, releases)
        end = start + requested
        choices.append(_Choice(end + weight * cores * requested, cores, size, start, end))
    return min(choices)


def _best_now(sizes: list[tuple[int, int, float]], time: float, weight: float, room: _Room) -> _Choice | None:
    """Return the best size that can start now without delaying the reservation; None if there is none."""
    choices = [
        _Choice(time + requested + weight * cores * requested, cores, size, time, time + requested)
        for size, cores, requested in sizes
        if cores <= room.free and (time + requested <= room.shadow or cores <= room.spare)
    ]
    return min(choices, default=None)


def _earliest(cores: int, time: float, free: int, releases: list[tuple[float, int]]) -> float:
    """Return when enough cores are free as the running jobs end."""
    if cores <= free:
        return time
    for end, released in releases:
        free += released
        if cores <= free:
            return max(end, time)
    return inf


def _beside(choice: _Choice, free: int, releases: list[tuple[float, int]]) -> _Room:
    """Return the cores that others may use beside the first job's reservation; all if its start is unknown."""
    if choice.start == inf:
        return _Room(free)
    released = sum(cores for end, cores in releases if end <= choice.start)
    return _Room(free, free + released - choice.cores, choice.start)
