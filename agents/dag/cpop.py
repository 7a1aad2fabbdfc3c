"""CPOP: the critical path on one executor.

Source: H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag._insertion import assign_inserted
from desim.agents.dag.allocation import InsertionEFT
from desim.agents.dag.list_scheduling import ListScheduler, require_planning
from desim.agents.dag.orders import CriticalPath
from desim.agents.dag.ranks import RESOLUTION, mean_transfer_times, rank_up
from desim.problems.dag import Assign, DagObservation, Executors, Job, JobState

__all__ = ["CPOP", "critical_path"]

Floats = NDArray[np.float64]


class CPOP(ListScheduler):
    """Critical Path On a Processor: the nodes of the critical path on one executor, the others by insertion-based EFT.

    Of the nodes whose parents are assigned, the one on the longest path comes next (upward and downward rank together).
    The nodes of the critical path go to the executor on which their run times have the least sum, also in idle time
    there. It plans whole jobs, so it needs a cluster with ``plan_ahead=True``.

    Jobs that arrive together are one graph with one critical path; each group of later jobs has its own. A node that
    comes back after an outage goes to the executor of its path if that is up, and by EFT otherwise. Of equal priorities
    the job that arrived first comes first, then the node that is first in topological order; of equal sums or finishes
    the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), CPOP())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    def __init__(self) -> None:
        self._allocation = _PathOnOneExecutor()
        super().__init__(CriticalPath(), self._allocation)
        self.name = "CPOP"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead is an InvalidConfiguration."""
        require_planning(self.name, info)
        self._allocation.forget()
        super().reset(info, rng)


class _PathOnOneExecutor:
    """The executor of the critical path for its nodes, insertion-based EFT for the others."""

    name = "critical-path executor"

    def __init__(self) -> None:
        self._others = InsertionEFT()
        self.forget()

    def forget(self) -> None:
        """Forget the jobs of another run."""
        self._planned: dict[int, JobState] = {}
        self._critical: dict[tuple[int, int], int] = {}

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of an executable node; None if there is no executor for it."""
        if available is None:
            available = observation.available_times
        if available.min() == np.inf:
            return None
        job_id = state.job.job_id
        if self._planned.get(job_id) is not state:
            self._plan(observation, available)
        executor = self._critical.get((job_id, node))
        if executor is None or available[executor] == np.inf:
            return self._others.allocate(observation, state, node, available)
        return assign_inserted(observation, state, node, executor)

    def _plan(self, observation: DagObservation, available: Floats) -> None:
        """Find the critical path of the jobs that are new, and its executor."""
        jobs = observation.jobs
        self._critical = {key: executor for key, executor in self._critical.items() if self._is_current(jobs, key[0])}
        new = [state for job_id, state in jobs.items() if self._planned.get(job_id) is not state]
        self._planned = dict(jobs)
        index, path = critical_path([state.job for state in new], observation.executors)
        sums = new[index].run_times[path].sum(axis=0)
        sums[available == np.inf] = np.inf
        executor = int(np.flatnonzero(sums <= sums.min() * (1.0 + RESOLUTION))[0])
        self._critical |= {(new[index].job.job_id, node): executor for node in path}

    def _is_current(self, jobs: Mapping[int, JobState], job_id: int) -> bool:
        return job_id in jobs and jobs[job_id] is self._planned.get(job_id)


def critical_path(jobs: Sequence[Job], executors: Executors) -> tuple[int, list[int]]:
    """Return the longest path through some jobs, taken as one graph, with mean run times and mean transfer times.

    It goes from one node to the child that its upward rank comes from. (The paper takes any child whose priority is
    that of the path, which may be a node of another path that is just as long.)

    Parameters
    ----------
    jobs : sequence of Job
        At least one.
    executors : Executors
        What they run on.

    Returns
    -------
    index : int
        Which of the jobs it lies in; of equal ones the first.
    path : list of int
        Its nodes, from one without parents to one without children; of equal ones the first child at each step.
    """
    ranks = [rank_up(job, executors) for job in jobs]
    lengths = [rank.max().item() for rank in ranks]
    tolerance = 4.0 * RESOLUTION * max(lengths)
    index = _first_greatest(lengths, tolerance)
    job, rank = jobs[index], ranks[index].tolist()
    transfers = mean_transfer_times(job, executors).tolist()
    entries = [node for node, parents in enumerate(job.parent_lists) if not parents]
    path = [entries[_first_greatest([rank[node] for node in entries], tolerance)]]
    while job.child_lists[path[-1]]:
        first = int(job.child_start[path[-1]])
        children = [child for child, _ in job.child_lists[path[-1]]]
        ways = [transfers[first + number] + rank[child] for number, child in enumerate(children)]
        path.append(children[_first_greatest(ways, tolerance)])
    return index, path


def _first_greatest(values: Sequence[float], tolerance: float) -> int:
    """Return the position of the first value that is the greatest but for rounding."""
    greatest = max(values)
    return next(position for position, value in enumerate(values) if value >= greatest - tolerance)
