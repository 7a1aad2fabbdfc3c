"""Episodes for training and validation, cut from generated traces whose seeds are kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from desim import plugins
from desim.problems.batch.env import TraceEpisodes

__all__ = ["EpisodeOptions", "trace_episodes"]

VALIDATION_SEED = 1_000_000


@dataclass(frozen=True)
class EpisodeOptions:
    """Where episodes come from.

    Parameters
    ----------
    num_cores : int
        Cores of the cluster.
    load : float
        Offered load of the generated traces; the DBF paper's trace has 1.06.
    overestimate : float
        Generated jobs request between 1 and this times their actual run time.
    num_traces : int
        Generated traces for training; a quarter as many for validation.
    trace_jobs : int
        Jobs of a trace.
    num_jobs : int
        Jobs of an episode.
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until num_jobs have been started.
    """

    num_cores: int = 256
    load: float = 1.06
    overestimate: float = 1.0
    num_traces: int = 64
    trace_jobs: int = 10_000
    num_jobs: int = 1_000
    arrivals: Literal["open", "closed"] = "open"


@lru_cache(maxsize=4)
def trace_episodes(options: EpisodeOptions, *, validation: bool) -> TraceEpisodes:
    """Return the episodes for training or validation, made once in each process.

    Parameters
    ----------
    options : EpisodeOptions
        What they are like.
    validation : bool
        Whether they are for validation, from other seeds.

    Returns
    -------
    TraceEpisodes
        Of generated traces.
    """
    provider = plugins.workload_provider("batch", "lublin")
    count = max(options.num_traces // 4, 1) if validation else options.num_traces
    first = VALIDATION_SEED if validation else 1
    traces = [
        list(
            provider.load(
                "lublin",
                num_jobs=options.trace_jobs,
                num_cores=options.num_cores,
                seed=first + number,
                load=options.load,
                overestimate=options.overestimate,
            ).jobs
        )
        for number in range(count)
    ]
    return TraceEpisodes(traces, options.num_cores, num_jobs=options.num_jobs, arrivals=options.arrivals)
