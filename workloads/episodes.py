"""What the Gymnasium environments run where nobody says otherwise: one workload for each problem.

The functions are called like the problems and stand in the entry-point group ``desim.episodes``, where `desim.envs`
finds them. All take a random generator and plain settings, and return what a problem is made of, not the problem. What
is to be the same in all episodes, executors or a graph, is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job as BatchJob
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job as DagJob
from desim.problems.multiserver import RewardModel
from desim.workloads import deferrable as deferrable_jobs
from desim.workloads import executors as executor_sets
from desim.workloads import lublin, submissions, tpch
from desim.workloads import multiserver as systems
from desim.workloads._edge_sizes import with_ccr
from desim.workloads._named_streams import number, whole_number

__all__ = ["batch", "dag", "deferrable", "multiserver"]

#: Times between jobs and number of executors in the continuous mode of LACHESIS; the default has the same load.
_LACHESIS_INTERVAL, _LACHESIS_EXECUTORS = 45.0, 50


def batch(rng: Generator, *, num_jobs: int = 10_000, num_cores: int = 256, load: float = 1.0) -> list[BatchJob]:
    """Draw a trace of the Lublin-Feitelson model, from which episodes are cut.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    num_jobs, num_cores : int
        Number of jobs, and cores of the cluster.
    load : float
        Offered load.

    Returns
    -------
    list of Job
        In order of submission.

    Raises
    ------
    InvalidConfiguration
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> len(batch(np.random.default_rng(1), num_jobs=100))
    100
    """
    return lublin.generate(num_jobs, num_cores, rng, load=load)


def dag(
    rng: Generator,
    *,
    num_jobs: int | None = 20,
    num_executors: int = 10,
    mean_interval: float | None = None,
    ccr: float | None = 0.5,
    transfer_speed: float = 1.0,
    executors: Executors | None = None,
    templates: Sequence[DagJob] | None = None,
    task_times: bool = False,
) -> tuple[list[DagJob], Executors]:
    """Draw queries like those of TPC-H, the executors that run them, and when they are submitted.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    num_jobs : int, optional
        Number of jobs, each drawn from all queries. None stands for every one once, in their order.
    num_executors : int
        Number of executors, of 2.1 to 3.6 GHz as in LACHESIS.
    mean_interval : float, optional
        Mean seconds between two submissions, which are a Poisson process; 0 for all at time 0. By default so many
        that the load is that of LACHESIS, where 50 executors have a job every 45 seconds.
    ccr : float, optional
        Communication-to-computation ratio of each job, for which sizes of data are drawn. None keeps what edges carry,
        which is nothing for the queries of TPC-H.
    transfer_speed : float
        Units of data per second between two executors. The ratio is for a speed of 1.
    executors : Executors, optional
        Take these instead of drawing some; ``num_executors`` and ``transfer_speed`` play no part then.
    templates : sequence of Job, optional
        Draw from these instead of TPC-H's queries.
    task_times : bool
        Give the stages of these durations of their single tasks, too.

    Returns
    -------
    tuple of list of Job and Executors
        The jobs in order of submission.

    Raises
    ------
    InvalidConfiguration
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> jobs, executors = dag(np.random.default_rng(1), num_jobs=3)
    >>> len(jobs), executors.num_executors
    (3, 10)
    """
    if executors is None:
        executors = executor_sets.heterogeneous(num_executors, transfer_speed=transfer_speed, seed=rng)
    if mean_interval is None:
        mean_interval = _LACHESIS_INTERVAL * _LACHESIS_EXECUTORS / executors.num_executors
    number("mean_interval", mean_interval)
    queries = _queries(task_times=task_times) if templates is None else templates
    if not queries:
        raise InvalidConfiguration("templates is empty, want at least one job to draw from")
    jobs = list(queries)
    if num_jobs is not None:
        jobs = [queries[place] for place in rng.integers(len(queries), size=whole_number("num_jobs", num_jobs))]
    if ccr is not None:
        jobs = [with_ccr(job, ccr, rng=rng, reference_speed=tpch.REFERENCE_SPEED) for job in jobs]
    if not mean_interval:
        return submissions.batch(jobs), executors
    return submissions.poisson(jobs, mean_interval, rng), executors


@cache
def _queries(*, task_times: bool) -> tuple[DagJob, ...]:
    """Return all queries at all sizes; making them takes longer than an episode."""
    return tuple(tpch.templates(task_times=task_times))


def deferrable(
    rng: Generator, *, settings: deferrable_jobs.Settings | str = deferrable_jobs.DEFAULT, **changes: Any
) -> deferrable_jobs.Scenario:
    """Draw deferrable jobs and the capacity that is left for them.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    settings : Settings or str
        See `desim.workloads.deferrable`; or a name that :func:`desim.workloads.deferrable.named` knows.
    **changes
        Parameters of :class:`desim.workloads.deferrable.Settings` that are to be others; lists stand for tuples.

    Returns
    -------
    Scenario
        Jobs in order of submission, capacity of each slot, and number of slots.

    Raises
    ------
    InvalidConfiguration
        If there are no settings of that name, no such parameter, or it is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> deferrable(np.random.default_rng(1), settings="fluctuating", num_slots=20).num_slots
    20
    """
    if isinstance(settings, str):
        settings = deferrable_jobs.named(settings)
    known = [field.name for field in fields(settings)]
    for name in changes:
        if name not in known:
            raise InvalidConfiguration(f"deferrable jobs have no parameter {name!r}; there are {', '.join(known)}")
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in changes.items()}
    settings = replace(settings, **given)
    return deferrable_jobs.generate(settings, seed=rng)


def multiserver(
    rng: Generator,
    *,
    num_slots: int = 500,
    num_ports: int = 10,
    num_nodes: int = 128,
    density: float | None = 2.5,
    contention: float = 10.0,
    probability: float = 0.7,
    rewards: RewardModel | None = None,
) -> tuple[RewardModel, NDArray[np.bool_]]:
    """Draw a system of ports and nodes, and whether a job arrives at each port for each slot.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    num_slots : int
        Number of slots.
    num_ports, num_nodes : int
        Number of job types and of machines.
    density : float or None
        Mean number of ports that a node serves.
    contention : float
        Multiplies all requests.
    probability : float
        That a job arrives, for each slot and port.
    rewards : RewardModel, optional
        Take this system instead of drawing one; the settings of the system play no part then.

    Returns
    -------
    tuple of RewardModel and numpy.ndarray of shape (num_slots, num_ports)
        The system, and the arrivals.

    Raises
    ------
    InvalidConfiguration
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> rewards, arrivals = multiserver(np.random.default_rng(1), num_slots=20)
    >>> rewards.graph, arrivals.shape
    (BipartiteGraph(10 ports, 128 nodes, 6 resources, 320 channels), (20, 10))
    """
    if rewards is None:
        rewards = systems.generate(
            num_ports=num_ports, num_nodes=num_nodes, density=density, contention=contention, seed=rng
        )
    return rewards, systems.bernoulli_arrivals(num_slots, rewards.graph.num_ports, probability, rng)
