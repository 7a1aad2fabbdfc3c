"""Workloads of the experiments, and the episodes cut from them, which are the same for all agents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.notes import print_note
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.env import TraceEpisodes
from desim.workloads import lublin, swf
from desim.workloads.batch.transform import rescale_load

SWF = Path(__file__).resolve().parents[3] / "shared" / "data" / "swf"
"""Directory of the logs next to the project; they are not part of the package."""

TRACE, KTH = "lublin_256", "KTH-SP2-1996-2"


class Source(NamedTuple):
    """Source of a workload.

    Attributes
    ----------
    num_cores : int
        Number of cores of the cluster.
    file : str
        Name of the log; if it is empty or the log is missing, traces are generated.
    load : float
        Offered load of generated traces, and of the log if it is rescaled.
    rescaled : bool
        Whether the times between submissions of the log are stretched to that load.
    in_pieces : bool
        Whether episodes are consecutive pieces of the log, rather than starting at random positions.
    overestimate : float
        Largest ratio of requested time to run time in generated traces.
    num_traces : int
        Number of generated traces.
    num_jobs : int
        Number of jobs per generated trace.
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
"""Workloads by name."""

STAND_IN = " (stand-in)"
"""Suffix of the name of a generated trace that replaces a missing file."""

#: First seed of generated traces, which no training or validation has used.
HELD_OUT = 999_983
#: Seed of the random positions at which episodes begin, and their number.
STARTS_SEED, MOST = 0, 5_000

Arrivals = Literal["open", "closed"]


@cache
def present(workload: str) -> str:
    """Return the name of a workload, or of its stand-in if its file is missing.

    Parameters
    ----------
    workload : str
        Name of a workload, a key of :data:`SOURCES`.

    Raises
    ------
    InvalidConfiguration
        If there is no workload of this name.
    """
    if workload not in SOURCES:
        raise InvalidConfiguration(f"workload: got {workload!r}, expected one of {', '.join(SOURCES)}")
    file = SOURCES[workload].file
    if not file or (SWF / file).is_file():
        return workload
    print_note(f"there is no {file}: using a generated trace instead")
    return workload + STAND_IN


@lru_cache(maxsize=2)
def traces_of(workload: str) -> tuple[Sequence[Job], ...]:
    """Return the traces of a workload of :func:`present`, read or generated once per process."""
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
    """Return the number of different episodes with a given number of jobs in a workload of :func:`present`."""
    if not SOURCES[workload.removesuffix(STAND_IN)].in_pieces:
        return MOST
    return max(len(traces_of(workload)[0]) // num_jobs - 1, 1)


def episode(workload: str, number: int, num_jobs: int, arrivals: Arrivals) -> BatchCluster:
    """Return an episode of a workload.

    Parameters
    ----------
    workload : str
        Name of a workload of :func:`present`.
    number : int
        Number of the episode, from 0.
    num_jobs : int
        Number of jobs of the episode.
    arrivals : {"open", "closed"}
        Whether jobs keep arriving until num_jobs have started, or num_jobs arrive and all of them finish.

    Raises
    ------
    InvalidConfiguration
        If the workload has fewer episodes.
    """
    most = num_episodes(workload, num_jobs)
    if not 0 <= number < most:
        raise InvalidConfiguration(f"episode: got {number} of {num_jobs} jobs of {workload}, expected 0 to {most - 1}")
    traces, source = traces_of(workload), SOURCES[workload.removesuffix(STAND_IN)]
    episodes = TraceEpisodes(traces, source.num_cores, num_jobs=num_jobs, arrivals=arrivals, cycle="arrival")
    if source.in_pieces:
        return episodes.at(number * num_jobs)
    trace = number % len(traces)
    return episodes.at(int(np.random.default_rng(STARTS_SEED).integers(0, episodes.starts(trace), MOST)[number]), trace)
