"""The schedule that a log recorded, as an agent: metrics and figures of what the real machine did are had by it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from statistics import median
from typing import Any

import numpy as np

from desim import plugins
from desim.agents.batch.node_backfilling import NodeRoom
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, NodeObservation, StartOnNodes, WaitUntil
from desim.reprs import NamedRepr

__all__ = ["TraceReplay"]

#: Seconds by which a recorded start may lie before the submission: times that were moved are rounded.
_ROUNDING = 1e-3


class TraceReplay(NamedRepr):
    """Starts every job when a log says that it started, or, if its cores are taken then, as soon as they are free.

    Who is late comes first, in the order of the recorded starts, but blocks nobody. A job of which no start is known
    starts as soon as it can. The model is too small where many jobs are late: it lacks cores, or jobs hold them longer
    than they did. No job starts before its recorded time.

    Parameters
    ----------
    starts : mapping of int to float
        When each job started, in seconds of the workload's clock, by its number, such as ``recorded_starts()`` of a
        :class:`desim.workloads.batch.trace.Trace`.
    name : str
        What the agent is called; ``replay:FILE`` makes it again.
    nodes : mapping of int to sequence of (str, int), optional
        On which nodes by name, with how many tasks on each, if the log says so. Jobs on a cluster that has them wait
        for their own; otherwise the cluster chooses.

    Attributes
    ----------
    delays : dict of int to float
        By how many seconds the jobs were late that were, in the latest run.
    unknown : int
        How many jobs it had of which no start is known.

    Raises
    ------
    InvalidConfiguration
        If no start is known; in a run, if a job is submitted after its recorded start: it is not a job of the log.
    """

    def __init__(
        self,
        starts: Mapping[int, float],
        *,
        name: str = "recorded",
        nodes: Mapping[int, Sequence[tuple[str, int]]] | None = None,
    ) -> None:
        if not starts:
            raise InvalidConfiguration(f"{name}: no start of a job is recorded: nothing to repeat")
        self.name = name
        self._recorded = starts
        self._nodes = nodes or {}
        self.reset({}, np.random.default_rng(0))

    @classmethod
    def named(cls, source: str) -> TraceReplay:
        """Return the agent of a log.

        Parameters
        ----------
        source : str
            A workload file, or whatever else the workloads of ``batch`` know by name.

        Returns
        -------
        TraceReplay
            Its name leads back to the file.

        Raises
        ------
        InvalidConfiguration
            If it records no start.
        WorkloadError
            If it cannot be read.
        """
        provider = plugins.workload_provider("batch", source)
        knows = getattr(provider, "tells_nodes", None)  # readers of others need not have it
        trace = provider.load(source, **({"nodes": "log"} if knows and knows(source) else {})).trace
        nodes = getattr(trace, "recorded_nodes", None)
        return cls({} if trace is None else trace.recorded_starts(), name=f"replay:{source}", nodes=nodes)

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the run before."""
        self.delays: dict[int, float] = {}
        self.unknown = 0
        self._due: list[tuple[float, int, int, int]] = []  # a heap of start, number, id and cores of those to come
        self._late: list[tuple[float, int, int, int]] = []  # the same, sorted, of those whose time has come
        self._known: set[int] = set()  # the ids in both
        self._count = 0
        self._numbers: dict[str, int] | None = None  # of the nodes, by name

    def act(self, observation: BatchObservation) -> list[Any] | None:
        """Start what is due and fits.

        Parameters
        ----------
        observation : BatchObservation
            The queue and the free cores.

        Returns
        -------
        list or None
            Jobs to start, and when to ask again.
        """
        self._take_in(observation)
        now, free = observation.time, observation.free_cores
        while self._due and self._due[0][0] <= now:
            self._late.append(heappop(self._due))
        actions: list[Any] = []
        waiting = []
        room = NodeRoom(observation) if isinstance(observation, NodeObservation) else None
        for entry in self._late:
            start, _, job_id, cores = entry
            action: Any = job_id if cores <= free else None
            if room is not None and isinstance(observation, NodeObservation):
                action = self._placed(room, observation, job_id)
            if action is None:
                waiting.append(entry)
                continue
            free -= cores
            actions.append(action)
            self._known.remove(job_id)
            if start < now:
                self.delays[job_id] = now - start
        self._late = waiting
        if self._due:
            actions.append(WaitUntil(self._due[0][0]))
        return actions or None

    def _placed(self, room: NodeRoom, observation: NodeObservation, job_id: int) -> StartOnNodes | None:
        """Return where a job starts now, None if it has no room there."""
        if self._numbers is None:
            self._numbers = {node.name: number for number, node in enumerate(observation.table.nodes)}
        where = [(self._numbers.get(name, -1), tasks) for name, tasks in self._nodes.get(job_id, ())]
        is_known = bool(where) and all(number >= 0 for number, _ in where)
        shape = observation.compiled_request(job_id)
        return room.starts[-1] if room.start(job_id, shape, 0.0, where if is_known else None) else None

    def remarks(self) -> str:
        """Return how far the latest run was from the log, in a line."""
        total = self._count
        parts = [f"{total:,} jobs met, {len(self.delays):,} of them started later than recorded"]
        if self.delays:
            late = self.delays.values()
            parts.append(f"by {median(late):,.0f} s at the median and {max(late):,.0f} s at most")
        if self.unknown:
            parts.append(f"{self.unknown:,} without a recorded start")
        return ", ".join(parts)

    def _take_in(self, observation: BatchObservation) -> None:
        """Note when jobs are due that were not in the queue before; most stand at its end."""
        queue = observation.queue
        fresh, place = len(queue) - len(self._known), len(queue)
        while fresh:
            place -= 1
            job_id, cores, _ = queue.job_at(place)
            if job_id in self._known:
                continue
            fresh -= 1
            submitted = float(queue.submission_time[place])
            start = self._recorded.get(job_id, math.nan)
            if start < submitted - _ROUNDING:
                raise InvalidConfiguration(
                    f"{self.name}: job {job_id} is submitted at {submitted:.10g} s, after its recorded start at "
                    f"{start:.10g} s: it is not as the log has it"
                )
            if math.isnan(start):
                self.unknown += 1
            heappush(self._due, (submitted if math.isnan(start) else start, self._count, job_id, cores))
            self._known.add(job_id)
            self._count += 1
