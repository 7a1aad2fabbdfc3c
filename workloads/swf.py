"""Standard Workload Format: the logs of the Parallel Workloads Archive, read and written.

A row is 18 numbers: 1 job number, 2 submit time, 3 wait time, 4 run time, 5 allocated processors,
6 average CPU time, 7 used memory, 8 requested processors, 9 requested time, 10 requested memory,
11 status, 12 user, 13 group, 14 executable, 15 queue, 16 partition, 17 preceding job, 18 think
time; -1 stands for unknown, and a line that begins with ``;`` is a comment.

A job takes its cores from field 8, else from field 5, and its requested time from field 9, else
from field 4; 0 counts as unknown in both. Rows that cannot be a job are dropped and counted in a
`RepairReport`; a file that breaks the format itself (another number of fields, text in a number,
nan, a fraction of a core, damaged gzip data) is refused with a `WorkloadError`. Job numbers are
kept; one that was used before is replaced by the largest number so far + 1.

Reference: S. Chapin et al., "Benchmarks and standards for the evaluation of parallel job
schedulers", JSSPP 1999.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job
from desim.workloads._columns import Columns
from desim.workloads._files import Pathish
from desim.workloads._rules import Rules
from desim.workloads._selector import Selector, SubmitOrder, collect, shifted
from desim.workloads._swf_parse import read_columns, read_header
from desim.workloads._writing import atomic_write, check_writable, plain_number
from desim.workloads.report import RepairReport
from desim.workloads.selection import TraceOptions
from desim.workloads.trace import Trace, TraceHeader

__all__ = ["SWFStream", "read", "stream", "write"]


class SWFStream:
    """The jobs of a file one after the other, in constant memory; every iteration reads anew.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzip (recognized by its content).
    **options : TraceOptions
        Which rows to keep, see `desim.workloads.selection.TraceOptions`.

    Attributes
    ----------
    header : TraceHeader
        The comment lines in front of the first row, read at once.
    report : RepairReport
        The books of the latest iteration. They run ahead of the jobs by up to a block and are
        complete when the iteration has ended.

    Raises
    ------
    WorkloadError
        At once, if the file cannot be opened; while iterating, for a broken row, for a submit
        time before an earlier one, and at the end if there was no usable job.
    InvalidConfiguration
        If an option is out of range.
    """

    def __init__(self, path: Pathish, **options: Unpack[TraceOptions]) -> None:
        self.path = path
        self.rules = Rules(**options)
        self.header = read_header(path)
        self.report = RepairReport()

    @property
    def num_cores(self) -> int | None:
        """Cores of the machine as the header states them, None if it does not."""
        return self.header.num_cores

    def __iter__(self) -> Iterator[Job]:
        """Read the file from its start."""
        for block in shifted(self.blocks("error"), self.rules.shift):
            yield from block.jobs()

    def blocks(self, unsorted: SubmitOrder) -> Iterator[Columns]:
        """Read the file from its start and yield its jobs as arrays, in the order of the file.

        Parameters
        ----------
        unsorted : {"error", "sort"}
            Whether a submit time before an earlier one is an error, or only counted.

        Yields
        ------
        Columns
            Rows that passed the rules; submission times are not shifted yet.
        """
        self.report = RepairReport()
        selector = Selector(os.fspath(self.path), self.rules, self.report, unsorted)
        for rows in read_columns(self.path):
            yield selector.feed(rows)
            if selector.full:
                break
        selector.finish()


def stream(path: Pathish, **options: Unpack[TraceOptions]) -> SWFStream:
    """Open a file whose jobs are read while they are used.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzip.
    **options : TraceOptions
        Which rows to keep, see `desim.workloads.selection.TraceOptions`.

    Returns
    -------
    SWFStream
        To iterate over, any number of times.

    Raises
    ------
    WorkloadError
        As for `SWFStream`.
    """
    return SWFStream(path, **options)


def read(path: Pathish, *, unsorted: SubmitOrder = "sort", **options: Unpack[TraceOptions]) -> Trace:
    """Read a whole file.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzip.
    unsorted : {"sort", "error"}
        Sort jobs that are not in the order of their submit times (and count them), or refuse them.
        Jobs of the same time keep the order of the file.
    **options : TraceOptions
        Which rows to keep, see `desim.workloads.selection.TraceOptions`.

    Returns
    -------
    Trace
        Jobs, header and repair report.

    Raises
    ------
    WorkloadError
        If the file cannot be read, breaks the format or holds no usable job; the message names
        file, line and field.
    InvalidConfiguration
        If an option is out of range.
    """
    source = SWFStream(path, **options)
    jobs = collect(source.blocks(unsorted), source.rules.shift)
    return Trace(jobs, source.header, source.report)


def write(path: Pathish, jobs: Iterable[Job], *, header: TraceHeader | Mapping[str, object] | None = None) -> None:
    """Write jobs so that `read` gives them back exactly, all or nothing.

    Fields 5 and 8 hold the cores, 4 the run time, 9 the requested time, 12 the user, 11 the status
    1; the others are unknown (-1). Times are written as whole numbers where they are whole.

    Parameters
    ----------
    path : str or path-like
        The file, replaced only when the new one is complete; compressed if it ends in ``.gz``.
    jobs : iterable of Job
        The jobs; consumed one by one.
    header : TraceHeader or mapping, optional
        The header of a trace, kept line by line, or entries such as ``{"MaxProcs": 128}``.

    Raises
    ------
    WorkloadError
        If the file cannot be written, a job is invalid, or its requested time is 0 although it
        runs (the format reads 0 as unknown).
    """
    atomic_write(path, _lines(jobs, header))


def _lines(jobs: Iterable[Job], header: TraceHeader | Mapping[str, object] | None) -> Iterator[str]:
    yield from _header_lines(header)
    for job in jobs:
        check_writable(job)
        submitted, requested, ran = map(plain_number, (job.submission_time, job.requested_time, job.run_time))
        cores = int(job.requested_cores)
        known = f"{job.job_id:d} {submitted} -1 {ran} {cores} -1 -1 {cores} {requested} -1 1 {job.user_id:d}"
        yield f"{known} -1 -1 -1 -1 -1 -1"


def _header_lines(header: TraceHeader | Mapping[str, object] | None) -> Iterator[str]:
    if header is None:
        header = {"Version": 2.2}
    if isinstance(header, TraceHeader):
        lines = list(header.lines) or [f"{key}: {value}" for key, value in header.fields.items()]
    else:
        lines = [f"{key}: {value}" for key, value in header.items()]
    for text in lines:
        for line in text.split("\n"):
            if any((ord(letter) < 32 and letter != "\t") or ord(letter) == 127 for letter in line):
                raise WorkloadError(f"header line {line!r} holds a control character")
            yield line if line.startswith(";") else f"; {line}"
