"""Of the long waits of a log that tells where its jobs ran: those that no lack of room on nodes explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from desim.problems.batch.fidelity import NEAR_SECONDS
from desim.problems.batch.job import Job
from desim.problems.batch.node_availability import NodeAvailability
from desim.problems.batch.nodes import Node, NodeAllocation, NodeTable
from desim.problems.batch.placement import FirstFit

__all__ = ["LongWaits", "waits_on_nodes"]

#: What happens at an instant, in this order: ends, submissions, looks, starts.
_END, _SUBMISSION, _LOOK, _START = range(4)


class LongWaits(NamedTuple):
    """Waits of more than ten minutes, and what was the case at every moment of them that was looked at.

    Attributes
    ----------
    jobs : int
        How many.
    with_room : int
        Those during which the nodes had room for the job, all requested resources counted.
    behind_own : int
        Those of them during which a job that the same user had submitted earlier waited as well.
    alone : int
        Those of them during which the same user had nothing running, and nothing earlier waiting.
    """

    jobs: int
    with_room: int
    behind_own: int
    alone: int


def waits_on_nodes(
    jobs: Sequence[Job],
    waiting_time: ArrayLike,
    nodes: Sequence[Node],
    where: Mapping[int, Sequence[tuple[str, int]]],
    *,
    counted: ArrayLike | None = None,
    moments: int = 20,
) -> LongWaits:
    """Repeat a recorded schedule on its nodes, and look at evenly spaced moments of each long wait.

    Parameters
    ----------
    jobs : sequence of Job
        Of the log, in the order of their submission, with what they request; they are taken to run for their run times.
    waiting_time : array_like
        Of each job, in seconds, nan where it is not known; such a job is nowhere here.
    nodes : sequence of Node
        Of the machine.
    where : mapping of int to sequence of (str, int)
        On which of the nodes, by name, each job ran, with how many tasks, by job number.
    counted : array_like of bool, optional
        Which jobs' waits count; by default all that are known.
    moments : int
        How many of each wait; the more, the fewer gaps without room are overlooked.

    Returns
    -------
    LongWaits
        Numbers of waits.
    """
    waits = np.asarray(waiting_time, dtype=np.float64)
    is_long = ~np.isnan(waits) & (waits > NEAR_SECONDS) & (True if counted is None else np.asarray(counted, np.bool_))
    table, placement = NodeTable(nodes), FirstFit()
    room, held = NodeAvailability(table), dict[int, tuple[NodeAllocation, ...]]()
    numbers = {node.name: number for number, node in enumerate(table.nodes)}
    running: dict[int, int] = {}  # jobs of each user
    waiting: dict[int, dict[int, None]] = {}  # positions of each user's jobs that wait, in order of submission
    seen = {place: np.ones(3, np.bool_) for place in np.flatnonzero(is_long).tolist()}
    for kind, place in _events(jobs, waits, is_long, moments):
        job, user = jobs[place], jobs[place].user_id
        if kind == _SUBMISSION:
            waiting.setdefault(user, {})[place] = None
        elif kind == _START:
            del waiting[user][place]
            there = [(numbers[name], tasks) for name, tasks in where.get(job.job_id, ())]
            found = room.place_on(table.compiled_request(job), there, placement) if there else None
            if found:  # a machine that is too small has no room for all: it has less than it had
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
    """Yield what happens to which job, by its position, in order of time."""
    events: list[tuple[float, int, int]] = []
    for place, (job, wait) in enumerate(zip(jobs, waits.tolist(), strict=True)):
        if np.isnan(wait):
            continue
        begin = job.submission_time
        start = begin + wait
        # a job that takes no time is gone before anybody looks
        events += [(begin, _SUBMISSION, place), (start, _START, place)]
        events.append((max(start + job.run_time, np.nextafter(start, np.inf)), _END, place))
        if is_long[place]:
            events += [(begin + wait * (moment + 0.5) / moments, _LOOK, place) for moment in range(moments)]
    for _, kind, place in sorted(events):
        yield kind, place
