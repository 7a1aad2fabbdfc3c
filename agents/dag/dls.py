"""DLS: dynamic levels choose the node and its executor together.

Source: G. C. Sih and E. A. Lee, "A compile-time scheduling heuristic for interconnection-constrained heterogeneous
processor architectures", IEEE TPDS 4(2), 1993.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.ranks import RESOLUTION, mean_run_times, static_levels
from desim.problems.dag import Assign, DagObservation, JobState

__all__ = ["DLS"]

Floats = NDArray[np.float64]


class DLS:
    """Dynamic Level Scheduling: the pair of an executable node and an executor that has the highest dynamic level.

    The dynamic level of node i on executor k is its static level (the longest way to the end of the job, without
    transfers), less the time at which it could start there (its data have arrived and the executor has run all that is
    assigned to it), plus how much faster than the mean k runs i.

    Departures from the paper: links are not reserved, and run times are averaged by the mean instead of the median, so
    that the static level is that of the other agents here. With ``plan_ahead=True`` it schedules before anything runs,
    as in the paper; without, it chooses among the nodes whose parents have finished.

    Of levels that are equal but for rounding, the job that arrived first comes first, then the node that is first in
    topological order, then the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), DLS())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name = "DLS"

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._time = -1.0
        self._read = 0
        self._chosen = -1
        self._frontier = _Frontier(0)
        self._jobs: dict[int, tuple[JobState, int, Floats]] = {}
        self._num_jobs = 0

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._forget()

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the highest dynamic level; None if no executor is up."""
        available = observation.available_times
        if available.min() == np.inf:
            return None
        self._take(observation)
        while True:
            ticket, executor = self._frontier.highest(available)
            entry = observation.executable.get(ticket)
            self._frontier.remove(ticket)
            if entry is not None:  # otherwise somebody else has assigned it
                self._chosen = ticket
                state, node = entry
                return Assign(state.job.job_id, node, executor)

    def _take(self, observation: DagObservation) -> None:
        """Bring the frontier up to date; as long as time stands still, assignments do not change what is in it."""
        if observation.time != self._time:
            self._time = observation.time
            self._frontier = _Frontier(observation.executors.num_executors)
            tickets = list(observation.executable)
        else:
            tickets = [self._chosen, *range(self._read, observation.num_revealed)]  # a stage may have tasks left
        self._read = observation.num_revealed
        for ticket in tickets:
            entry = observation.executable.get(ticket)
            if entry is not None:
                state, node = entry
                number, advantages = self._of_job(observation, state)
                self._frontier.add((number, node, ticket), advantages[node], state.ready_times(node))

    def _of_job(self, observation: DagObservation, state: JobState) -> tuple[int, Floats]:
        """Return the number of a job in order of arrival, and static level + mean run time - run time of its nodes."""
        known = self._jobs.get(state.job.job_id)
        if known is None or known[0] is not state:
            self._jobs = {job_id: entry for job_id, entry in self._jobs.items() if job_id in observation.jobs}
            levels = static_levels(state.job, observation.executors) + mean_run_times(state.job, observation.executors)
            known = state, self._num_jobs, levels[:, None] - state.run_times
            self._jobs[state.job.job_id] = known
            self._num_jobs += 1
        return known[1:]


class _Frontier:
    """The executable nodes as rows of arrays; the last row takes the place of one that is removed."""

    def __init__(self, num_executors: int) -> None:
        self._keys: list[tuple[int, int, int]] = []
        self._row_of: dict[int, int] = {}
        self._advantages = np.empty((16, num_executors))
        self._ready = np.empty((16, num_executors))

    def add(self, key: tuple[int, int, int], advantages: Floats, ready: Floats) -> None:
        """Add a node: its place in the order, the last part of it the ticket; levels as if it started at time 0."""
        row = len(self._keys)
        if row == len(self._ready):
            self._advantages = np.concatenate((self._advantages, self._advantages))
            self._ready = np.concatenate((self._ready, self._ready))
        self._advantages[row] = advantages
        self._ready[row] = ready
        self._keys.append(key)
        self._row_of[key[2]] = row

    def remove(self, ticket: int) -> None:
        """Remove a node."""
        row = self._row_of.pop(ticket)
        key = self._keys.pop()
        if key[2] != ticket:
            last = len(self._keys)
            self._advantages[row] = self._advantages[last]
            self._ready[row] = self._ready[last]
            self._keys[row] = key
            self._row_of[key[2]] = row

    def highest(self, available: Floats) -> tuple[int, int]:
        """Return the ticket and the executor of the highest dynamic level."""
        count = len(self._keys)
        levels = np.maximum(self._ready[:count], available)
        np.subtract(self._advantages[:count], levels, out=levels)
        place = int(levels.argmax())
        row, executor = divmod(place, levels.shape[1])
        # Levels are differences of times: they are as exact as the largest of these.
        start = max(self._ready.item(row, executor), available.item(executor))
        tolerance = 4.0 * RESOLUTION * max(start, abs(self._advantages.item(row, executor)))
        rows, executors = np.nonzero(levels >= levels.item(place) - tolerance)
        if len(rows) == 1:
            return self._keys[row][2], executor
        best = min(zip(rows.tolist(), executors.tolist(), strict=True), key=lambda pair: (self._keys[pair[0]], pair[1]))
        return self._keys[best[0]][2], best[1]
