"""Orders: which of the executable nodes comes next.

An order gives each node of a job a key when the job arrives; the node with the smallest key comes first, and of equal
keys the job that arrived first and the node that comes first in it. An order whose keys change with time has
``changes = True`` and is asked at every decision.
"""

from __future__ import annotations

from typing import Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from desim.agents.dag.ranks import mean_run_times, path_lengths, rank_up, rounded
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagObservation, JobState

__all__ = ["FIFO", "HRRN", "SJF", "CriticalPath", "LeastWork", "Order", "RandomOrder", "RankUp"]

Floats = NDArray[np.float64]


class Order(Protocol):
    """What gives nodes their keys."""

    name: str
    changes: bool

    def reset(self, rng: Generator) -> None:
        """Forget what came before."""

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return a key for each node of a job, of shape (num_nodes,); small ones come first."""


class _Static:
    """An order whose keys are computed once a job."""

    changes = False

    def reset(self, rng: Generator) -> None:
        """Do nothing: the keys follow from the job."""


class FIFO(_Static):
    """The job that arrived first."""

    name = "FIFO"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the submission time for all nodes."""
        return np.full(state.job.num_nodes, state.job.submission_time)


class SJF(_Static):
    """The smallest job: the one with the least mean run time in all."""

    name = "SJF"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the sum of the mean run times for all nodes, in seconds."""
        return np.full(state.job.num_nodes, rounded(mean_run_times(state.job, observation.executors).sum()))


class RankUp(_Static):
    """The node with the longest way to the end of its job, transfers included: that of HEFT and HighRankUp-DEFT."""

    name = "rank_up"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative upward ranks, in seconds."""
        return -rank_up(state.job, observation.executors)


class CriticalPath(_Static):
    """The node on the longest path through its job: that of CPOP, upward and downward rank together."""

    name = "critical path"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative length of the longest path through each node, in seconds."""
        return -path_lengths(state.job, observation.executors)


class LeastWork:
    """The job with the least work left to assign, and in it the node with the highest upward rank: SRPT for graphs.

    The key is the sum of the mean run times of the job's nodes without an executor, less a hundredth of the rank.
    """

    name = "least work"
    changes = True

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[JobState, tuple[Floats, Floats]] = WeakKeyDictionary()

    def reset(self, rng: Generator) -> None:
        """Forget the jobs of another run."""
        self._known.clear()

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the time that is left of the job less a hundredth of each rank, in seconds."""
        known = self._known.get(state)
        if known is None:
            job, executors = state.job, observation.executors
            known = self._known[state] = mean_run_times(job, executors), rank_up(job, executors)
        times, ranks = known
        keys: Floats = rounded(times[~state.assigned].sum() - 0.01 * ranks)
        return keys


class HRRN:
    """The highest response ratio, wait / (wait + execution), as LACHESIS writes it.

    The paper does not say whose wait and execution. In its mode a node is assigned as soon as it is executable, so that
    its own wait says nothing; that of the job does.

    Parameters
    ----------
    of : {"job", "node"}
        Wait since the submission of the job, and the mean run time of the whole job or of the node alone.

    Raises
    ------
    InvalidConfiguration
        If ``of`` is something else.
    """

    changes = True

    def __init__(self, of: Literal["job", "node"] = "job") -> None:
        if of not in ("job", "node"):
            raise InvalidConfiguration(f"of is {of!r}, want 'job' or 'node'")
        self.name = "HRRN" if of == "job" else "HRRN (node)"
        self._of = of
        self._times: dict[int, tuple[JobState, Floats]] = {}

    def reset(self, rng: Generator) -> None:
        """Forget the jobs of another run."""
        self._times.clear()

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative response ratios now."""
        known = self._times.get(state.job.job_id)
        if known is not None and known[0] is state:
            times = known[1]
        else:
            times = mean_run_times(state.job, observation.executors)
            if self._of == "job":
                times = np.full(len(times), times.sum())
            self._times = {job: self._times[job] for job in observation.jobs if job in self._times}
            self._times[state.job.job_id] = state, times
        wait = observation.time - state.job.submission_time
        ratios: Floats = np.divide(wait, wait + times, out=np.zeros(len(times)), where=wait + times > 0)
        return -ratios


class RandomOrder:
    """Any node."""

    name = "random"
    changes = False

    def __init__(self) -> None:
        self._rng = default_rng(0)

    def reset(self, rng: Generator) -> None:
        """Draw from the run's generator from now on."""
        self._rng = rng

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return random numbers."""
        return self._rng.random(state.job.num_nodes)
