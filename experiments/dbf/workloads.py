"""The workloads of the experiments, and the episodes that are cut from them: the same for all agents."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from desim.cli.output import print_note
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.env import TraceEpisodes
from desim.workloads import lublin, swf
from desim.workloads.batch.transform import rescale_load

__all__ = ["KTH", "SOURCES", "TRACE", "Arrivals", "episode", "num_episodes", "present"]

SWF = Path(__file__).resolve().parents[3] / "shared" / "data" / "swf"
"""Where the logs lie in the project's own workplace; they are not part of the package."""

TRACE, KTH = "lublin_256", "KTH-SP2-1996-2"


class Source(NamedTuple):
    """Where a workload comes from.

    Attributes
    ----------
    num_cores : int
        Cores of the cluster.
    file : str
        The log; without one, or where it is absent, traces are generated.
    load : float
        Offered load of generated traces, and of a log if it is rescaled.
    rescaled : bool
        Whether the times between submissions of the log are stretched to that load.
    in_pieces : bool
        Whether episodes are pieces of the log one after the other, not from random positions.
    overestimate : float
        Largest ratio of requested to actual run times in generated traces.
    num_traces : int
        Generated traces.
    num_jobs : int
        Jobs of each of them.
    """

    num_cores: int
    file: str = ""
    load: float = 1.06
    rescaled: bool = False
    in_pieces: bool = False
    overestimate: float = 1.0
    num_traces: int = 1
    num_jobs: int = 10_000


SOURCES = {
    TRACE: Source(256, "lublin_256.swf"),
    "generated": Source(256, num_traces=5),
    KTH: Source(100, "KTH-SP2-1996-2.swf", 0.69, in_pieces=True, overestimate=5.0, num_jobs=28_489),
    "lublin_256, pieces": Source(256, "lublin_256.swf", in_pieces=True),
    "KTH-SP2, load 1": Source(100, "KTH-SP2-1996-2.swf", 1.0, True, True, 5.0, num_jobs=28_489),
    "NASA iPSC, load 1": Source(128, "NASA-iPSC-1993-3.1-cln.swf", 1.0, True, True, num_jobs=18_239),
    "CERIT-SC, 512 cores": Source(512, "wagap-2013.swf.gz", 1.0, True, True, 5.0, num_jobs=17_898),
    "Theta, load 1": Source(4_360, "theta-2018-validate.swf.gz", 1.0, True, True, 5.0, num_jobs=5_000),
    "Lublin, 1,024 cores": Source(1_024, load=1.0, overestimate=3.0, num_traces=100, num_jobs=2_000),
    "Lublin, 64 cores": Source(64, load=0.95, overestimate=10.0, num_traces=100, num_jobs=2_000),
}
"""The workloads by name."""

STAND_IN = " (stand-in)"
"""Ends the name of a trace that is generated, because the file is absent."""

#: Seeds of generated traces that no training and no validation has seen.
HELD_OUT = 999_983
#: Seed of the positions at which episodes begin that are not pieces, and how many are drawn.
STARTS_SEED, MOST = 0, 5_000

Arrivals = Literal["open", "closed"]


@cache
def present(workload: str) -> str:
    """Return the name of a workload, or that of what stands in for it where its file is absent.

    Parameters
    ----------
    workload : str
        One of :data:`SOURCES`.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name.
    """
    if workload not in SOURCES:
        raise InvalidConfiguration(f"workload: got {workload!r}, expected one of {', '.join(SOURCES)}")
    file = SOURCES[workload].file
    if not file or (SWF / file).is_file():
        return workload
    print_note(f"there is no {file}: a generated trace stands in for it")
    return workload + STAND_IN


@lru_cache(maxsize=2)
def traces_of(workload: str) -> tuple[list[Job], ...]:
    """Return the traces of a workload of :func:`present`, read or made once in each process."""
    source = SOURCES[workload.removesuffix(STAND_IN)]
    if source.file and not workload.endswith(STAND_IN):
        jobs = swf.read(SWF / source.file, max_cores=source.num_cores).jobs
        return (rescale_load(jobs, source.num_cores, source.load) if source.rescaled else jobs,)
    return tuple(
        lublin.generate(
            source.num_jobs, source.num_cores, HELD_OUT + n, load=source.load, overestimate=source.overestimate
        )
        for n in range(source.num_traces)
    )


def num_episodes(workload: str, num_jobs: int) -> int:
    """Return how many different episodes of so many jobs a workload of :func:`present` has."""
    if not SOURCES[workload.removesuffix(STAND_IN)].in_pieces:
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

    Raises
    ------
    InvalidConfiguration
        If there are not so many.
    """
    most = num_episodes(workload, num_jobs)
    if not 0 <= number < most:
        raise InvalidConfiguration(f"episode: got {number} of {num_jobs} jobs of {workload}, expected 0 to {most - 1}")
    traces, source = traces_of(workload), SOURCES[workload.removesuffix(STAND_IN)]
    episodes = TraceEpisodes(traces, source.num_cores, num_jobs=num_jobs, arrivals=arrivals)
    if source.in_pieces:
        return episodes.at(number * num_jobs)
    trace = number % len(traces)
    return episodes.at(int(np.random.default_rng(STARTS_SEED).integers(0, episodes.starts(trace), MOST)[number]), trace)
