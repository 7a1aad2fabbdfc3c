"""A workload that was read from a file: its jobs, its header and what was repaired."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from desim.problems.batch.job import Job
from desim.workloads.report import RepairReport

__all__ = ["Trace", "TraceHeader"]

# "; Key: value"; a continuation is indented further, and a colon before // belongs to an address
_ENTRY = re.compile(r";\s{0,3}([A-Za-z]\w*)\s*:(?!//)\s*(.*)")
_WHOLE = re.compile(r"\d{1,15}")


@dataclass(frozen=True)
class TraceHeader:
    """What a file says about its workload as a whole.

    Parameters
    ----------
    lines : tuple of str
        The header as it stands in the file, line by line (empty for a JSON file).
    fields : mapping of str to str
        The named entries, such as ``MaxProcs`` or ``UnixStartTime`` of a Standard Workload Format
        log or ``nb_res`` of a Batsim workload. Repeated entries (``Note``, ``Queue``) and
        continued lines are joined by line ends.
    """

    lines: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, lines: Sequence[str]) -> TraceHeader:
        """Build a header from the comment lines of a Standard Workload Format file.

        Parameters
        ----------
        lines : sequence of str
            The lines, each with its leading ``;``.

        Returns
        -------
        TraceHeader
            The lines and the entries found in them.
        """
        fields: dict[str, list[str]] = {}
        key = ""
        for line in lines:
            if entry := _ENTRY.match(line):
                key = entry[1]
                fields.setdefault(key, []).append(entry[2].strip())
            elif (text := line.lstrip(";").strip()) and key:
                fields[key].append(text)
            else:
                key = ""
        return cls(tuple(lines), {key: "\n".join(values) for key, values in fields.items()})

    def number(self, key: str) -> int | None:
        """Return the whole number that an entry begins with, None where there is none.

        Parameters
        ----------
        key : str
            Name of the entry.

        Returns
        -------
        int or None
            For example 128 for ``MaxProcs: 128 (8 of them interactive)``.
        """
        found = _WHOLE.match(self.fields.get(key, ""))
        return int(found[0]) if found else None

    @property
    def num_cores(self) -> int | None:
        """Cores of the machine: ``MaxProcs``, else ``MaxNodes``, else ``nb_res``, else None."""
        for key in ("MaxProcs", "MaxNodes", "nb_res"):
            if number := self.number(key):
                return number
        return None


@dataclass(frozen=True)
class Trace:
    """The jobs of a file, sorted by submission time, with the header and the repair report.

    Parameters
    ----------
    jobs : list of Job
        The usable jobs.
    header : TraceHeader
        What the file says about itself.
    report : RepairReport
        What was dropped, changed and noticed on the way.
    """

    jobs: list[Job]
    header: TraceHeader
    report: RepairReport

    @property
    def num_cores(self) -> int | None:
        """Cores of the machine as the header states them, None if it does not."""
        return self.header.num_cores

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs."""
        return iter(self.jobs)
