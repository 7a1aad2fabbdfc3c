"""An agent that repeats the schedule recorded in a log, for metrics and figures of the real machine's schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from desim import plugins
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, WaitUntil
from desim.reprs import NamedRepr

__all__ = ["TraceReplay"]

#: Seconds by which a recorded start may precede the submission, because shifted times are rounded.
_ROUNDING = 1e-3


class TraceReplay(NamedRepr):
    """Start every job when a log says that it started or, if its cores are busy then, as soon as they are free.

    Late jobs come first, in the order of their recorded starts, but do not block others. A job without a recorded start
    starts as soon as it can. If many jobs are late, the simulated cluster is smaller than the real one, or its jobs
    hold their cores for longer. No job starts before its recorded time.

    Parameters
    ----------
    starts : mapping to float
        Recorded start of each job by job id, or by (job id, submission time) if several have the same id, in seconds of
        the workload's clock, such as ``recorded_starts()`` of a :class:`desim.workloads.batch.trace.Trace`.
    name : str
        Name of the agent; ``replay:FILE`` creates the same agent again.
    nodes : mapping to sequence of (str, int), optional
        Recorded nodes of each job, by the same keys: pairs (node name, number of tasks). If the cluster has nodes with
        these names, the job waits for them; otherwise the cluster chooses.

    Attributes
    ----------
    delays : dict of int to float
        Delays in seconds of the jobs that started late in the latest run, by job id.
    unknown : int
        Number of jobs without a recorded start in the latest run.

    Raises
    ------
    InvalidConfiguration
        If there is no recorded start; in a run, if a job is submitted after its recorded start, so is not from the log.
    """

    def __init__(
        self,
        starts: Mapping[Any, float],
        *,
        name: str = "recorded",
        nodes: Mapping[Any, Sequence[tuple[str, int]]] | None = None,
    ) -> None:
        if not starts:
            raise InvalidConfiguration(f"{name}: got a log without start times, expected at least one")
        self.name = name
        self._recorded = starts
        self._nodes = nodes or {}
        self.reset({}, np.random.default_rng(0))

    @classmethod
    def named(cls, source: str) -> TraceReplay:
        """Return the agent for a log.

        Parameters
        ----------
        source : str
            Workload file, or another name that the ``batch`` workloads accept.

        Returns
        -------
        TraceReplay
            The agent, named ``replay:SOURCE``.

        Raises
        ------
        InvalidConfiguration
            If the log has no start times.
        WorkloadError
            If the log cannot be read.
        """
        provider = plugins.workload_provider("batch", source)
        knows = getattr(provider, "tells_nodes", None)  # optional for custom readers
        trace = provider.load(source, **({"nodes": "log"} if knows and knows(source) else {})).trace
        nodes = getattr(trace, "recorded_nodes", None)
        return cls({} if trace is None else trace.recorded_starts(), name=f"replay:{source}", nodes=nodes)

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Discard the state of the previous run."""
        self.delays: dict[int, float] = {}
        self.unknown = 0
        self._due: list[tuple[float, int, int]] = []  # heap of (start, number, row) of future starts
        self._late: list[tuple[float, int, int]] = []  # the same for due jobs, sorted
        self._known: set[int] = set()  # rows in both
        self._count = 0

    def act(self, observation: BatchObservation) -> list[Any] | None:
        """Return the due jobs that fit, and the time of the next decision.

        Parameters
        ----------
        observation : BatchObservation
            Queue and free resources.

        Returns
        -------
        list or None
            Jobs to start, and when to decide again.
        """
        self._take_in(observation)
        now, plan = observation.time, observation.plan(around_reservations=False)
        while self._due and self._due[0][0] <= now:
            self._late.append(heappop(self._due))
        waiting = []
        positions = observation.queue.positions_of([row for _, _, row in self._late])
        for position, entry in zip(positions, self._late, strict=True):
            start, _, row = entry
            job_id = observation.id_of(row)
            if not plan.start_on(position, self._nodes.get(job_id, ())):
                waiting.append(entry)
                continue
            self._known.remove(row)
            if start < now:
                self.delays[job_id] = now - start
        self._late = waiting
        wake = [WaitUntil(self._due[0][0])] if self._due else []
        return [*plan.answer, *wake] or None

    def remarks(self) -> str:
        """Return one line on how far the latest run was from the log."""
        total = self._count
        parts = [f"{total:,} jobs submitted, {len(self.delays):,} of them started later than recorded"]
        if self.delays:
            late = self.delays.values()
            parts.append(f"by {np.median(np.asarray(late)):,.0f} s at the median and {max(late):,.0f} s at most")
        if self.unknown:
            parts.append(f"{self.unknown:,} without a recorded start")
        return ", ".join(parts)

    def _take_in(self, observation: BatchObservation) -> None:
        """Record when new jobs in the queue are due; most are at the end of the queue."""
        queue = observation.queue
        fresh, place = len(queue) - len(self._known), len(queue)
        while fresh:
            place -= 1
            row = queue.job_at(place)[0]
            if row in self._known:
                continue
            fresh -= 1
            submitted = float(queue.submission_time[place])
            job_id = observation.id_of(row)
            start = self._recorded.get(job_id, self._recorded.get((job_id, submitted), math.nan))
            if start < submitted - _ROUNDING:
                raise InvalidConfiguration(
                    f"{self.name}: job {job_id} is submitted at {submitted:.10g} s, after its recorded start at "
                    f"{start:.10g} s; expected the jobs of the log"
                )
            if math.isnan(start):
                self.unknown += 1
            heappush(self._due, (submitted if math.isnan(start) else start, self._count, row))
            self._known.add(row)
            self._count += 1
