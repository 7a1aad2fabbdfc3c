"""The workloads of the experiments, and the episodes that are cut from them: the same for all agents."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from desim.cli.output import remark
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.env import TraceEpisodes
from desim.workloads import lublin, swf

__all__ = ["KTH", "NUM_CORES", "TRACE", "Arrivals", "episode", "most_episodes", "present"]

SWF = Path(__file__).resolve().parents[3] / "shared" / "data" / "swf"
"""Where the traces lie in the project's own workplace; they are not part of the package."""

TRACE, KTH, GENERATED = "lublin_256", "KTH-SP2-1996-2", "generated"
NUM_CORES = {TRACE: 256, GENERATED: 256, KTH: 100}
STAND_IN = " (stand-in)"
"""Ends the name of a trace that is generated, because the file is absent."""

#: Seeds of generated traces that no training and no validation has seen.
HELD_OUT = 999_983
NUM_GENERATED, TRACE_JOBS, LOAD = 5, 10_000, 1.06
KTH_JOBS, KTH_LOAD, KTH_OVERESTIMATE = 28_489, 0.69, 5.0

#: Episodes of the trace begin at one of so many positions, drawn from a seed.
STARTS, STARTS_SEED, MOST = 8_000, 0, 1_000

Arrivals = Literal["open", "closed"]


@cache
def present(workload: str) -> str:
    """Return the name of a workload, or that of what stands in for it where its file is absent.

    Parameters
    ----------
    workload : str
        One of :data:`NUM_CORES`.

    Returns
    -------
    str
        A workload that can be simulated.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name.
    """
    if workload not in NUM_CORES:
        raise InvalidConfiguration(f"no workload {workload!r}; there are {', '.join(NUM_CORES)}")
    if workload == GENERATED or (SWF / f"{workload}.swf").is_file():
        return workload
    remark(f"there is no {workload}.swf: a generated trace stands in for it")
    return workload + STAND_IN


@lru_cache(maxsize=2)
def traces_of(workload: str) -> tuple[list[Job], ...]:
    """Return the traces of a workload, read or made once in each process.

    Parameters
    ----------
    workload : str
        Of :func:`present`.

    Returns
    -------
    tuple of lists of Job
        Each in order of submission.
    """
    name = workload.removesuffix(STAND_IN)
    cores = NUM_CORES[name]
    if workload in (TRACE, KTH):
        return (swf.read(SWF / f"{workload}.swf").jobs,)
    if name == KTH:
        jobs = lublin.generate(KTH_JOBS, cores, HELD_OUT, load=KTH_LOAD, overestimate=KTH_OVERESTIMATE)
        return (jobs,)
    count = NUM_GENERATED if name == GENERATED else 1
    return tuple(lublin.generate(TRACE_JOBS, cores, HELD_OUT + number, load=LOAD) for number in range(count))


def most_episodes(workload: str, num_jobs: int) -> int:
    """Return how many different episodes there are.

    Parameters
    ----------
    workload : str
        Of :func:`present`.
    num_jobs : int
        Jobs of an episode.

    Returns
    -------
    int
        The real log is cut into pieces one after the other; the others have any number, nearly.
    """
    if workload.removesuffix(STAND_IN) != KTH:
        return MOST
    return max(len(traces_of(workload)[0]) // num_jobs - 1, 1)


def episode(workload: str, number: int, num_jobs: int, arrivals: Arrivals) -> BatchCluster:
    """Return an episode.

    Parameters
    ----------
    workload : str
        Of :func:`present`.
    number : int
        Which one, from 0 on.
    num_jobs : int
        Jobs of it.
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until so many have been started, or so many arrive and all are finished.

    Returns
    -------
    BatchCluster
        The same for everybody.

    Raises
    ------
    InvalidConfiguration
        If there are not so many.
    """
    most = most_episodes(workload, num_jobs)
    if not 0 <= number < most:
        raise InvalidConfiguration(f"no episode {number} of {num_jobs} jobs of {workload}: there are {most}")
    traces = traces_of(workload)
    episodes = TraceEpisodes(traces, NUM_CORES[workload.removesuffix(STAND_IN)], num_jobs=num_jobs, arrivals=arrivals)
    if workload.removesuffix(STAND_IN) == KTH:
        return episodes.at(number * num_jobs)
    starts = np.random.default_rng(STARTS_SEED).integers(0, STARTS, MOST)
    return episodes.at(int(starts[number]), number % len(traces))
