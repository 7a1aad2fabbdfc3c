"""What can be said of the nodes of a job when it arrives: run times, transfers, and how far they are from its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from desim.envs.scaling import compressed
from desim.problems.dag import Executors, Job, JobState

__all__ = ["FIXED_FEATURES", "JobFeatures", "PerJob", "features_of"]

Floats = NDArray[np.float64]
Made = TypeVar("Made")

FIXED_FEATURES = ("run_time", "incoming_time", "outgoing_time", "rank_up", "rank_down", "children")
"""The columns of ``JobFeatures.table``."""


class JobFeatures:
    """Features of the nodes of one job that do not change while it runs.

    A node counts with its mean run time over all executors, an edge with its mean transfer time over all pairs of
    different executors, as for the ranks of HEFT (Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, section 4).

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_nodes,)
        Mean seconds on an executor.
    rank_up : numpy.ndarray of shape (num_nodes,)
        Longest ways to the end of the job, transfers included, in seconds.
    table : numpy.ndarray of shape (num_nodes, 6)
        The columns are :data:`FIXED_FEATURES`, compressed.
    """

    def __init__(self, job: Job, executors: Executors) -> None:
        self.run_times: Floats = job.run_times_on(executors).mean(axis=1)
        latency, per_unit = executors.mean_latency, executors.mean_seconds_per_unit
        times = self.run_times.tolist()
        incoming, outgoing = ([0.0] * job.num_nodes for _ in range(2))
        below, above = ([0.0] * job.num_nodes for _ in range(2))
        children = job.child_lists
        for node in range(job.num_nodes - 1, -1, -1):
            longest = 0.0
            for child, size in children[node]:
                seconds = latency + size * per_unit
                longest = max(longest, seconds + below[child])
                outgoing[node] += seconds / len(children[node])
                incoming[child] += seconds / len(job.parent_lists[child])
            below[node] = times[node] + longest
        for node, edges in enumerate(children):
            for child, size in edges:
                above[child] = max(above[child], above[node] + times[node] + latency + size * per_unit)
        self.rank_up: Floats = np.array(below)
        counts = [len(edges) for edges in children]
        self.table = compressed(np.array([times, incoming, outgoing, below, above, counts]).T)


class PerJob(Generic[Made]):
    """What is made once of each job in the system, and forgotten with it.

    Parameters
    ----------
    make : callable
        Makes it of a job and the executors.
    """

    def __init__(self, make: Callable[[JobState, Executors], Made]) -> None:
        self._make = make
        self._known: WeakKeyDictionary[JobState, Made] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type[PerJob[Made]], tuple[Callable[[JobState, Executors], Made]]]:
        """Leave behind what is known when an encoder is copied or sent to another process."""
        return PerJob, (self._make,)

    def of(self, state: JobState, executors: Executors) -> Made:
        """Return what was made of a job.

        Parameters
        ----------
        state : JobState
            The job.
        executors : Executors
            What it runs on.
        """
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self._make(state, executors)
        return found


def features_of(state: JobState, executors: Executors) -> JobFeatures:
    """Return the features of a job in the system, for :class:`PerJob`.

    Parameters
    ----------
    state : JobState
        The job.
    executors : Executors
        What it runs on.

    Returns
    -------
    JobFeatures
        New.
    """
    return JobFeatures(state.job, executors)
