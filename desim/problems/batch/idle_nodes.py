"""Long waits in a log with known placements that occurred although nodes had enough free resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from desim.problems.batch.fidelity import NEAR_SECONDS
from desim.problems.batch.job import Job
from desim.problems.batch.nodes import Node, NodeAllocation, NodeTable
from desim.problems.batch.placement import FirstFit
from desim.problems.batch.resources.node_availability import NodeAvailability

__all__ = ["LongWaits", "waits_on_nodes"]

#: Kinds of events in their order at the same instant: ends, submissions, sampled moments, starts.
_END, _SUBMISSION, _LOOK, _START = range(4)


class LongWaits(NamedTuple):
    """Counts of waits of more than ten minutes, by what held at all sampled moments of a wait.

    Attributes
    ----------
    jobs : int
        Number of waits.
    with_room : int
        Number of waits during which the job would have fitted on the nodes, with all requested resources.
    behind_own : int
        Number of these during which an earlier job of the same user was waiting as well.
    alone : int
        Number of these during which the same user had no job running and no earlier job waiting.
    """

    jobs: int
    with_room: int
    behind_own: int
    alone: int


def waits_on_nodes(
    jobs: Sequence[Job],
    waiting_time: ArrayLike,
    nodes: Sequence[Node],
    where: Mapping[Any, Sequence[tuple[str, int]]],
    *,
    counted: ArrayLike | None = None,
    moments: int = 20,
) -> LongWaits:
    """Replay a recorded schedule on its nodes, and check evenly spaced moments of each long wait.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs of the log in order of submission, with their requests; each is assumed to run for its run time.
    waiting_time : array_like
        Wait of each job in seconds; nan if unknown. A job of unknown wait occupies no nodes here.
    nodes : sequence of Node
        Nodes of the machine.
    where : mapping to sequence of (str, int)
        Names of the nodes that each job ran on and its number of tasks there, by keys as in ``Trace.recorded_starts``.
    counted : array_like of bool, optional
        Whether to count the wait of each job (default: all known waits).
    moments : int
        Number of moments per wait. With more moments, fewer short times without free resources are missed.

    Returns
    -------
    LongWaits
        Counts of waits.
    """
    waits = np.asarray(waiting_time, dtype=np.float64)
    is_long = ~np.isnan(waits) & (waits > NEAR_SECONDS) & (True if counted is None else np.asarray(counted, np.bool_))
    table, placement = NodeTable(nodes), FirstFit()
    room, held = NodeAvailability(table), dict[int, tuple[NodeAllocation, ...]]()
    numbers = {node.name: number for number, node in enumerate(table.nodes)}
    running: dict[int, int] = {}  # number of running jobs of each user
    waiting: dict[int, dict[int, None]] = {}  # positions of each user's waiting jobs, in order of submission
    seen = {place: np.ones(3, np.bool_) for place in np.flatnonzero(is_long).tolist()}
    for kind, place in _events(jobs, waits, is_long, moments):
        job, user = jobs[place], jobs[place].user_id
        if kind == _SUBMISSION:
            waiting.setdefault(user, {})[place] = None
        elif kind == _START:
            del waiting[user][place]
            recorded = where.get(job.job_id, where.get((job.job_id, job.submission_time), ()))
            there = [(numbers[name], tasks) for name, tasks in recorded]
            found = room.place_on(table.compiled_request(job), there, placement) if there else None
            if found:  # else the nodes as described are too small for the recorded schedule: skip the job
                room.take(found)
                held[place] = found
            running[user] = running.get(user, 0) + 1
        elif kind == _END:
            room.release(held.pop(place, ()))
            running[user] -= 1
        else:
            is_behind = next(iter(waiting[user])) != place
            seen[place] &= (room.fits(table.compiled_request(job)), is_behind, not (is_behind or running.get(user)))
    free = [states for states in seen.values() if states[0]]
    return LongWaits(len(seen), len(free), sum(bool(one[1]) for one in free), sum(bool(one[2]) for one in free))


def _events(jobs: Sequence[Job], waits: np.ndarray, is_long: np.ndarray, moments: int) -> Iterator[tuple[int, int]]:
    """Yield (kind, position of the job) of all events in order of time."""
    events: list[tuple[float, int, int]] = []
    for place, (job, wait) in enumerate(zip(jobs, waits.tolist(), strict=True)):
        if np.isnan(wait):
            continue
        begin = job.submission_time
        start = begin + wait
        # a job of zero run time still needs an end after its start
        events += [(begin, _SUBMISSION, place), (start, _START, place)]
        events.append((max(start + job.run_time, np.nextafter(start, np.inf)), _END, place))
        if is_long[place]:
            events += [(begin + wait * (moment + 0.5) / moments, _LOOK, place) for moment in range(moments)]
    for _, kind, place in sorted(events):
        yield kind, place
