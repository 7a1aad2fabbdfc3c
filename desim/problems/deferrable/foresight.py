"""All that will come, as only an offline planner or an oracle may know it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.core import Simulation
from desim.problems.deferrable.cluster import DeferrableCluster
from desim.problems.deferrable.job import Job

__all__ = ["Foresight", "foresee"]


class Foresight(NamedTuple):
    """Jobs and capacities of a whole run.

    Attributes
    ----------
    jobs : tuple of Job
        All that are submitted, in the order in which they become known; those of a real-time run as they are then.
    capacity : numpy.ndarray of shape (num_slots, num_resources)
        Of every slot.
    """

    jobs: tuple[Job, ...]
    capacity: NDArray[np.float64]


def foresee(cluster: DeferrableCluster, *, seed: int = 0, until: float = math.inf) -> Foresight:
    """Let submissions and capacity run on their own and return what there was.

    Parameters
    ----------
    cluster : DeferrableCluster
        The system; none of its processes may depend on what is started.
    seed : int
        Root of all random streams, as for ``simulate``.
    until : float
        End of the run in slots, as for ``simulate``.

    Returns
    -------
    Foresight
        The same for every agent. Without ``num_slots`` it covers the slots until the last window has passed.

    Raises
    ------
    InvalidConfiguration
        If the jobs are an iterator: a run would find nothing left.

    Examples
    --------
    >>> from desim.problems.deferrable import Job
    >>> job = Job(1, submission_time=0, earliest_start=1, latest_start=2, duration=5, cores=2)
    >>> foresee(DeferrableCluster([job], [4, 3])).capacity[:, 0].tolist()
    [4.0, 3.0, 3.0]
    """
    cluster.check_replayable()
    simulation = Simulation(cluster, seed=seed, until=until, log_actions=False)
    jobs: list[Job] = []
    simulation.problem.on("submission", lambda _, job: jobs.append(job))
    capacity = []
    while (decision := simulation.advance()) is not None:
        capacity.append(decision.observation.capacity)
        decision.answer(None)
    return Foresight(tuple(jobs), np.array(capacity).reshape(len(capacity), len(cluster.resources)))
