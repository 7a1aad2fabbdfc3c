"""PEFT: a table of what is still to come, computed once, looks ahead.

Source: H. Arabnejad and J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost
table", IEEE TPDS 25(3), 2014.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag._insertion import insertion_finish_times
from desim.agents.dag.list_scheduling import ListScheduler, require_planning
from desim.agents.dag.ranks import RESOLUTION, mean_transfer_times, rounded
from desim.problems.dag import Assign, DagObservation, Executors, Job, JobState

__all__ = ["PEFT", "optimistic_cost_table"]

Floats = NDArray[np.float64]


def optimistic_cost_table(job: Job, executors: Executors) -> Floats:
    """Return the least time from the end of each node to the end of its job, if executors were always free.

    OCT(i, k) is 0 for a node without children; otherwise, over its children j, the greatest of the least, over the
    executors l, of OCT(j, l) + run time of j on l + mean transfer time of the edge, which is 0 if l is k.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.

    Returns
    -------
    numpy.ndarray of shape (num_nodes, num_executors)
        Seconds, for each executor that the node may run on.
    """
    run_times = job.run_times_on(executors)
    transfers = mean_transfer_times(job, executors).tolist()
    starts = job.child_start.tolist()
    table = np.zeros_like(run_times)
    to_come = np.empty_like(run_times)  # OCT + run time
    least = [0.0] * job.num_nodes
    for node in range(job.num_nodes - 1, -1, -1):
        row = table[node]
        for number, (child, _) in enumerate(job.child_lists[node], starts[node]):
            np.maximum(row, np.minimum(to_come[child], least[child] + transfers[number]), out=row)
        np.add(row, run_times[node], out=to_come[node])
        least[node] = to_come[node].min().item()
    return table


class PEFT(ListScheduler):
    """Predict Earliest Finish Time: HEFT with the optimistic cost table in place of ranks, and in the choice.

    Of the nodes whose parents are assigned, the one with the highest mean of its row of the table comes next; it goes
    to the executor with the least finish (in idle time, too) plus entry of the table. It plans the whole job when it
    arrives, so it needs a cluster with ``plan_ahead=True``.

    Of means that are equal but for rounding the job that arrived first comes first, then the node that is first in
    topological order; of such sums the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), PEFT())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    def __init__(self) -> None:
        self._tables = _Tables()
        super().__init__(_RankOCT(self._tables), _OptimisticEFT(self._tables))
        self.name = "PEFT"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead is an InvalidConfiguration."""
        require_planning(self.name, info)
        self._tables.forget()
        super().reset(info, rng)


class _Tables:
    """The optimistic cost tables of the jobs in the system."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the jobs of another run."""
        self._tables: dict[int, tuple[JobState, Floats]] = {}

    def of(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the table of a job."""
        known = self._tables.get(state.job.job_id)
        if known is None or known[0] is not state:
            self._tables = {job_id: entry for job_id, entry in self._tables.items() if job_id in observation.jobs}
            known = state, optimistic_cost_table(state.job, observation.executors)
            self._tables[state.job.job_id] = known
        return known[1]


class _RankOCT:
    """The node with the highest mean optimistic cost."""

    name = "rank_oct"
    changes = False

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def reset(self, rng: Generator) -> None:
        """Do nothing: the keys follow from the job."""

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative means, in seconds, rounded so that equal ones are equal."""
        return -rounded(self._tables.of(observation, state).mean(axis=1))


class _OptimisticEFT:
    """The executor with the least finish plus optimistic cost: O_EFT, equation (6) of the paper."""

    name = "optimistic-EFT"

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of an executable node; None if there is no executor for it."""
        costs = self._tables.of(observation, state)[node]
        finish, positions = insertion_finish_times(observation, state, node, available, costs)
        sums = finish + costs
        least = sums.min()
        if least == np.inf:
            return None
        executor = int(np.flatnonzero(sums <= least * (1.0 + 4.0 * RESOLUTION))[0])
        return Assign(state.job.job_id, node, executor, (), positions.get(executor))
