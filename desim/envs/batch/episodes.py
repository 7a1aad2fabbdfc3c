"""Episodes of a batch cluster, cut from traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.processes import stop_after

__all__ = ["TraceEpisodes"]


class TraceEpisodes:
    """Episodes that begin at random points of traces, with an empty cluster.

    Source: Wang, Harwood and Rodriguez, HPCC 2022: an episode ends when 1,000 jobs have been started, whether or not
    jobs are queued.

    Parameters
    ----------
    traces : sequence of sequences of Job
        Each in order of submission; an episode comes from one of them.
    num_cores : int
        Cores of the cluster.
    num_jobs : int
        Jobs of an episode, at least 1.
    arrivals : {"open", "closed"}
        Open: the stream goes on, and the episode is cut short at the num_jobs-th start. Closed: exactly num_jobs jobs
        arrive, and the episode ends with the last of them.
    **cluster
        Further arguments of :class:`~desim.problems.batch.BatchCluster`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or a trace has fewer than num_jobs jobs.
    """

    def __init__(
        self,
        traces: Sequence[Sequence[Job]],
        num_cores: int,
        *,
        num_jobs: int = 1_000,
        arrivals: Literal["open", "closed"] = "open",
        **cluster: Any,
    ) -> None:
        if num_jobs < 1:
            raise InvalidConfiguration(f"num_jobs is {num_jobs!r}, want at least 1")
        if arrivals not in ("open", "closed"):
            raise InvalidConfiguration(f"arrivals is {arrivals!r}, want 'open' or 'closed'")
        if not traces:
            raise InvalidConfiguration("there is no trace to cut episodes from")
        for number, trace in enumerate(traces):
            if len(trace) < num_jobs:
                raise InvalidConfiguration(f"trace {number} has {len(trace)} jobs, an episode {num_jobs}")
        self.traces = traces
        self.num_cores = num_cores
        self.num_jobs = num_jobs
        self.arrivals = arrivals
        self._cluster = cluster
        self._processes = (*cluster.pop("processes", ()),)
        if arrivals == "open":
            self._processes += (stop_after("start", num_jobs),)

    def starts(self, trace: int) -> int:
        """Return at how many positions of a trace an episode can begin.

        Of a long trace, as many jobs as in two episodes stay behind the last position: in an open episode more
        jobs arrive than are started.

        Parameters
        ----------
        trace : int
            Which trace.
        """
        length = len(self.traces[trace])
        behind = self.num_jobs if self.arrivals == "closed" else 2 * self.num_jobs
        return max(length - behind, 0) + 1

    def at(self, start: int, trace: int = 0) -> BatchCluster:
        """Return the episode that begins with a given job, which arrives at time 0.

        Parameters
        ----------
        start : int
            Position of the first job in its trace.
        trace : int
            Which trace.

        Returns
        -------
        BatchCluster
            To be simulated.

        Raises
        ------
        InvalidConfiguration
            If there is no such trace or job.
        """
        if not 0 <= trace < len(self.traces) or not 0 <= start < len(self.traces[trace]):
            raise InvalidConfiguration(f"no job {start!r} in trace {trace!r} of {len(self.traces)}")
        end = start + self.num_jobs if self.arrivals == "closed" else len(self.traces[trace])
        jobs = _Shifted(self.traces[trace], start, end)
        return BatchCluster(jobs, self.num_cores, processes=self._processes, **self._cluster)

    def fixed(self, count: int, seed: int) -> list[BatchCluster]:
        """Return a number of episodes that are the same for everybody who asks with the same seed.

        Parameters
        ----------
        count : int
            How many.
        seed : int
            Of the positions.

        Returns
        -------
        list of BatchCluster
            To be simulated with one agent after another.
        """
        rng = np.random.default_rng(seed)
        return [self(rng) for _ in range(count)]

    def __call__(self, rng: np.random.Generator) -> BatchCluster:
        """Return an episode that begins at a random point of a random trace."""
        trace = int(rng.integers(len(self.traces)))
        return self.at(int(rng.integers(self.starts(trace))), trace)


class _Shifted:
    """Jobs of a trace from one position to another, the first of them at time 0; made while they are read."""

    def __init__(self, trace: Sequence[Job], start: int, end: int) -> None:
        self._trace, self._start, self._end = trace, start, min(end, len(trace))

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[Job]:
        origin = self._trace[self._start].submission_time
        for position in range(self._start, self._end):
            job_id, submission, cores, requested_time, run_time, user_id = self._trace[position]
            yield Job(job_id, submission - origin, cores, requested_time, run_time, user_id)
