"""A batch workload read from a file: its jobs, its header and its repair report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job
from desim.problems.batch.nodes import Node
from desim.problems.batch.workload import Workload
from desim.reprs import Summarized
from desim.workloads.batch.transform import offered_load
from desim.workloads.report import ListedReason, RepairReport

__all__ = ["Trace", "TraceHeader", "TraceReason", "TraceReport"]

# "; Key: value"; a colon before // belongs to an address
_ENTRY = re.compile(r";+(\s*)([A-Za-z]\w*)\s*:(?!//)\s*(.*)")
_MOST_BLANKS = 3
"""A line indented further continues the previous entry, unless it begins with a name of the format."""
# Names of the format's definition, which logs indent differently
# fmt: off
_KNOWN = frozenset((
    "Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs", "MaxRecords",
    "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime", "MaxNodes", "MaxProcs",
    "MaxRuntime", "MaxMemory", "AllowOveruse", "MaxQueues", "Queues", "Queue", "MaxPartitions", "Partitions",
    "Partition", "Note",
))
# fmt: on
# Matches 4096, 4,096 and 4096.0, but not the 4 of 4.096, 4'096, 4 096, 4,09 or 4x96
_WHOLE = re.compile(r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15})(?:\.0+)?(?![^\s\d]?\d|\s\d{3}(?!\w))")


@dataclass(frozen=True)
class TraceHeader:
    """Header of a workload file.

    Parameters
    ----------
    lines : tuple of str
        Header lines as in the file (empty for a JSON file).
    fields : mapping of str to str
        Named entries, such as ``MaxProcs`` or ``UnixStartTime`` of a Standard Workload Format
        log, or ``nb_res`` of a Batsim workload. Repeated entries (``Note``, ``Queue``) and
        continued lines are joined by line feeds.
    places : mapping of str to int
        Number of the line of each entry, of its first one if it is repeated.
    """

    lines: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def parse(cls, lines: Sequence[str], numbers: Sequence[int] | None = None) -> TraceHeader:
        """Return the header in the comment lines of a Standard Workload Format file.

        Parameters
        ----------
        lines : sequence of str
            Comment lines, each with its leading ``;``.
        numbers : sequence of int, optional
            Their numbers in the file. Default: from 1.

        Returns
        -------
        TraceHeader
            Header with the lines and the entries found in them.
        """
        fields: dict[str, list[str]] = {}
        places: dict[str, int] = {}
        key = ""
        for number, line in zip(numbers or range(1, len(lines) + 1), lines, strict=True):
            entry = _ENTRY.match(line)
            if entry and (len(entry[1]) <= _MOST_BLANKS or entry[2] in _KNOWN):
                key = entry[2]
                fields.setdefault(key, []).append(entry[3].strip())
                places.setdefault(key, number)
            elif (text := line.lstrip(";").strip()) and key:
                fields[key].append(text)
            else:
                key = ""
        return cls(tuple(lines), {key: "\n".join(values) for key, values in fields.items()}, places)

    def number(self, key: str) -> int | None:
        """Return the integer at the beginning of an entry, or None if it is missing or ambiguous.

        Parameters
        ----------
        key : str
            Name of the entry.

        Returns
        -------
        int or None
            For example 128 for ``MaxProcs: 128 (8 of them interactive)``, 4096 for ``4,096``; None for ``4.096``.
        """
        found = _WHOLE.match(self.fields.get(key, ""))
        return int(found[1].replace(",", "")) if found else None

    @property
    def num_cores(self) -> int | None:
        """Cores of the machine: ``MaxProcs``, else ``MaxNodes``, else ``nb_res``; None if unknown or ambiguous."""
        key = self._key_of_cores()
        return self.number(key) if key else None

    @property
    def cores_stated(self) -> str:
        """The entry that states the cores of the machine, such as ``MaxProcs: 4,096 on line 3``; empty if none does."""
        key = self._key_of_cores()
        if not key:
            return ""
        line = f" on line {self.places[key]}" if key in self.places else ""
        return f"{key}: {self.fields[key].partition(chr(10))[0]}{line}"

    def _key_of_cores(self) -> str:
        for key in ("MaxProcs", "MaxNodes", "nb_res"):
            number = self.number(key)
            if number or (number is None and self.fields.get(key, "")[:1].isdigit()):
                return key
        return ""


class TraceReason(ListedReason):
    """Reason why a reader dropped or changed a row, or noted something about it."""

    UNREADABLE = (
        "dropped",
        "a cell that is no number, or not what its column holds, or another number of cells than other rows have",
    )
    PARTIAL_EXECUTION = (
        "dropped",
        "part of a job that has its own row: status 2, 3 or 4, or a step in Slurm's accounting",
    )
    RESERVATION = ("dropped", "a reservation, not a job: read by --reservations")
    CANCELLED = ("dropped", "status 5 without run time or cores: cancelled before it ran")
    NEGATIVE_SUBMIT = ("dropped", "submit time negative or unknown")
    UNKNOWN_CORES = ("dropped", "neither requested nor allocated processors known")
    UNKNOWN_RUN_TIME = ("dropped", "run time negative or unknown")
    ZERO_RUN_TIME_DROPPED = ("dropped", "run time 0, with zero_run_time='drop'")
    TOO_WIDE = ("dropped", "more cores than max_cores")
    FILTERED = ("dropped", "excluded by the caller's filters")
    ASSUMED_CORES = ("changed", "requested processors unknown: allocated processors used")
    ASSUMED_REQUESTED_TIME = ("changed", "requested time unknown: run time used")
    OUT_OF_ORDER = ("changed", "submitted before an earlier row: sorted by submit time")
    REPEATED_ID = ("noted", "job id of an earlier row, kept")
    ZERO_RUN_TIME = ("noted", "run time 0, kept")
    OVERRUN = ("noted", "ran longer than requested, kept")
    UNEQUAL_PARTS = ("changed", "nodes with different numbers of CPUs requested: replaced by tasks of one CPU")
    UNKNOWN_DEPENDENCY = (
        "changed",
        "depends on an id that no job has, or several have: read without the dependency",
    )
    SELF_DEPENDENCY = ("changed", "depends on itself: read without the dependency")
    DEPENDENCY = ("ignored", "depends on another job: read only with dependencies=True, or --dependencies keep")
    EXTRA_FIELDS = ("ignored", "more fields than the format's 18: further fields not read")
    IGNORED_PROPERTIES = (
        "ignored",
        "requested node properties without effect: host names, common to all nodes, or unknown",
    )


@dataclass(repr=False)
class TraceReport(RepairReport[TraceReason, int]):
    """Counts of the rows that a reader dropped, changed or noted.

    ``rows == jobs + dropped`` holds for every finished report. Places are line numbers of a text file, from 1, or
    positions in a list of jobs, from 0.

    Parameters
    ----------
    jobs : int
        Number of rows that became jobs.
    """

    jobs: int = 0

    def headline(self) -> str:
        """Return the totals in one line."""
        return f"{self.rows:,} rows: {self.jobs:,} jobs, {self.dropped:,} dropped"

    def locate(self, place: int) -> str:
        """Return a place as text: ``line 7`` or ``jobs[7]``."""
        return f"line {place}" if self.unit == "line" else f"jobs[{place}]"


@dataclass(frozen=True, repr=False)
class Trace(Summarized):
    """Workload of a file, with its header and repair report.

    Parameters
    ----------
    jobs : Workload
        Usable jobs. Besides their fields, the workload has secret columns, which no agent can see: ``waiting_time``,
        the recorded wait on the real machine in seconds, nan where unknown; ``place``, the place in the file, see
        `TraceReport.locate`; and ``recorded_nodes``, where the file states them: the names of the nodes, each with the
        number of tasks there.
    header : TraceHeader
        Header of the file.
    report : TraceReport
        Counts of the rows that were dropped, changed or noted.
    nodes : tuple of Node
        Nodes of the machine, if the file describes them.
    """

    jobs: Workload
    header: TraceHeader
    report: TraceReport
    nodes: tuple[Node, ...] = field(default=(), compare=False, repr=False)

    @property
    def num_cores(self) -> int | None:
        """Total cores of the nodes, or cores of the machine as stated in the header; None if unknown."""
        return sum(node.cores for node in self.nodes) or self.header.num_cores

    @property
    def waiting_time(self) -> NDArray[np.float64]:
        """Recorded wait of each job on the real machine, in seconds, nan where unknown."""
        return self.jobs["waiting_time"]

    @property
    def place(self) -> NDArray[np.int64]:
        """Place of each job in the file, see `TraceReport.locate`."""
        return self.jobs["place"]

    @property
    def recorded_nodes(self) -> dict[Any, Sequence[tuple[str, int]]] | None:
        """Recorded nodes, pairs (name, number of tasks there), by keys as in :meth:`recorded_starts`, if known."""
        if "recorded_nodes" not in self.jobs.columns:
            return None
        return self._by_job(self.jobs["recorded_nodes"], np.ones(len(self), np.bool_))

    def recorded_starts(self) -> dict[Any, float]:
        """Return the recorded start times on the real machine, in seconds, where the file states them.

        Returns
        -------
        dict
            Times by job id; for an id that several jobs have, by pairs (job id, submission time).

        Raises
        ------
        WorkloadError
            If two jobs have the same id and submission time.
        """
        return self._by_job(self.jobs["submission_time"] + self.waiting_time, self.waiting_time >= 0)

    def _by_job(self, values: NDArray[Any], known: NDArray[np.bool_]) -> dict[Any, Any]:
        """Return the known values by job id, or by id and submission time where an id is not enough."""
        ids, times = self.jobs["job_id"].tolist(), self.jobs["submission_time"].tolist()
        again = {job_id for job_id, count in Counter(ids).items() if count > 1} if len({*ids}) < len(ids) else ()
        rows = np.flatnonzero(known).tolist()
        keys = [(ids[row], times[row]) if ids[row] in again else ids[row] for row in rows]
        found = dict(zip(keys, values[known].tolist(), strict=True))
        if len(found) < len(keys):
            job_id, time = next(key for key, count in Counter(keys).items() if count > 1)
            raise WorkloadError(f"job {job_id}: several jobs have this id and are submitted at {time:.10g} s")
        return found

    def summary(self) -> dict[str, Any]:
        """Return a summary of the jobs, for ``repr`` and notebooks."""
        times = self.jobs["submission_time"]
        last = float(times[-1] - times[0]) if len(times) else 0.0
        found = {"jobs": len(self.jobs), "num_cores": self.num_cores, "days": round(last / 86_400, 2)}
        found |= {"offered_load": round(offered_load(self.jobs, self.num_cores), 3)} if self.num_cores and last else {}
        found |= {"nodes": len(self.nodes)} if self.nodes else {}
        found |= {"recorded_waits": True} if not np.isnan(self.waiting_time).all() else {}
        unread = getattr(self.report, "unread", ())  # columns of a job table, or fields of a log, that were not read
        return found | {"unread": ", ".join(unread)} if unread else found

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs."""
        return iter(self.jobs)
