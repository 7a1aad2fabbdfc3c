"""Standard Workload Format (SWF): read and write the logs of the Parallel Workloads Archive.

A row has 18 numbers: 1 job number, 2 submit time, 3 wait time, 4 run time, 5 allocated processors,
6 average CPU time, 7 used memory, 8 requested processors, 9 requested time, 10 requested memory,
11 status, 12 user, 13 group, 14 executable, 15 queue, 16 partition, 17 preceding job, 18 think
time. The value -1 means unknown, and a line that begins with ``;`` is a comment.

The cores of a job are field 8, or field 5 if field 8 is unknown; its requested time is field 9, or
field 4 if field 9 is unknown. In fields 8 and 9, 0 also counts as unknown. Rows that cannot be a job are dropped and
counted in a `RepairReport`. A file that breaks the format itself (wrong number of fields, text in place of a number,
nan, a fraction of a core, damaged gzip data) raises a `WorkloadError`. Job numbers are
kept, also those that occur in several rows. Fields 17 and 18 are read on demand: there, a number that occurs in several
rows means the first of them, not counting partial executions. Queues and partitions are named by their numbers.

Reference: S. Chapin et al., "Benchmarks and standards for the evaluation of parallel job
schedulers", JSSPP 1999.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Unpack

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.problems.batch.workload import Workload
from desim.reading import Limits, current_limits
from desim.workloads.batch.selection import (
    PARTS,
    Columns,
    Floats,
    Rules,
    Selector,
    TraceOptions,
    check_writable,
    gathered,
    shifted,
)
from desim.workloads.batch.trace import Trace, TraceHeader, TraceReason, TraceReport
from desim.workloads.files import Pathish, chunks, line_blocks, plain_number, write_lines
from desim.workloads.json_fields import LARGEST, short_repr

__all__ = ["SWFReport", "SWFStream", "read", "stream", "texts", "write"]

#: Names of the 18 fields of a row, as the format's definition gives them.
# fmt: off
_FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)
# fmt: on
#: Positions of the fields that hold counts or ids and must therefore be integers.
_WHOLE = (0, 4, 7, 10, 11, 12, 13, 14, 15, 16)
#: Positions of ids, which may be as large as those of jobs.
_IDS = (0, 16)
_STATUS, _PRECEDING, _THINK_TIME = 10, 16, 17
#: Positions of unused fields: average CPU time, used and requested memory, group, executable.
_UNREAD = (5, 6, 9, 12, 13)
#: Numbers of the unused fields that are known when a job is submitted.
_ATTRIBUTES = {"requested_memory": 10, "group": 13, "executable": 14}
_MOST_HEADER_LINES = 100_000

# If a block has only these bytes, float() accepts exactly what _NUMBER matches: no nan, no 1_000
_NUMERIC = b"0123456789+-.eE \t\r\n"
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
_CONTROLS = bytes([*range(9), *range(11, 13), *range(14, 32), 127])
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(repr=False)
class SWFReport(TraceReport):
    """Counts of the rows that were dropped, changed or noted; places are line numbers of the file.

    Parameters
    ----------
    unread : tuple of str
        Unused fields that hold information: not all rows have the same value there.
    """

    unread: tuple[str, ...] = ()

    def headline(self) -> str:
        """Return the totals and the unused fields in one line."""
        return super().headline() + (f"; fields not read: {', '.join(self.unread)}" if self.unread else "")


class SWFStream:
    """Iterable over the jobs of a file, in constant memory; each iteration reads the file again.

    Parameters
    ----------
    path : str or path-like
        SWF file, plain or gzip (recognized by its content).
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`.

    Attributes
    ----------
    header : TraceHeader
        Comment lines before the first row, read when the stream is opened.
    report : SWFReport
        Counts of the latest iteration. They run ahead of the jobs by up to one block and are
        complete when the iteration ends.

    Raises
    ------
    WorkloadError
        Immediately, if the file cannot be opened; while iterating, for a broken row or a submit
        time before an earlier one; and at the end, if there was no usable job.
    InvalidConfiguration
        If an option is out of range.
    """

    def __init__(self, path: Pathish, **options: Unpack[TraceOptions]) -> None:
        self.path = path
        self.limits = current_limits()  # also while it is read later
        self.rules = Rules(**options)
        self.header = _read_header(path)
        self.report = SWFReport()

    @property
    def num_cores(self) -> int | None:
        """Cores of the machine as stated in the header, or None."""
        return self.header.num_cores

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs, from the start of the file."""
        for block in shifted(self._blocks(is_stream=True), self.rules.shift):
            yield from block.jobs()

    def read(self) -> Trace:
        """Read the whole file and sort its jobs."""
        blocks = list(self._blocks(is_stream=False))
        return gathered(blocks, self.header, self.report, shift=self.rules.shift)

    def _blocks(self, *, is_stream: bool) -> Iterator[Columns]:
        """Read the file from its start and yield its jobs as arrays, in the order of the file."""
        self.report = SWFReport()
        selector = Selector(os.fspath(self.path), self.rules, self.report, is_stream=is_stream)
        for rows in _read_columns(self.path, self.report, self.limits):
            yield selector.feed(rows)
            if selector.full:
                break
        selector.finish()


def stream(path: Pathish, **options: Unpack[TraceOptions]) -> SWFStream:
    """Open a file whose jobs are read one by one while they are used.

    Parameters
    ----------
    path : str or path-like
        SWF file, plain or gzip.
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`.

    Returns
    -------
    SWFStream
        Iterable over the jobs, any number of times; it raises the errors while iterating.
    """
    return SWFStream(path, **options)


def read(
    path: Pathish,
    *,
    dependencies: bool = False,
    attributes: Collection[str] = (),
    **options: Unpack[TraceOptions],
) -> Trace:
    """Read a whole SWF file.

    Parameters
    ----------
    path : str or path-like
        SWF file, plain or gzip.
    dependencies : bool
        Whether to read fields 17 and 18, the preceding job and the think time. Dependencies on dropped jobs are
        omitted, and an unknown think time counts as 0.
    attributes : collection of str
        Further fields to keep as attributes of jobs, of ``"requested_memory"``, ``"group"`` and ``"executable"``; -1 is
        unknown. Fields that are known only after a job has run, such as its used memory, cannot be read.
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`.

    Returns
    -------
    Trace
        Jobs, header and repair report. Jobs are sorted by submit time; ties keep the order of the
        file.

    Raises
    ------
    WorkloadError
        If the file cannot be read, breaks the format or holds no usable job; the message names
        file, line and field.
    InvalidConfiguration
        If an option is out of range.
    """
    trace = stream(path, **options).read()
    columns: dict[str, Any] = {}
    for name in attributes:
        check_choice("attributes", name, tuple(_ATTRIBUTES))
        found = texts(path, _ATTRIBUTES[name])
        given = [float(found[place]) for place in trace.place.tolist()]
        kept = [value if value >= 0 else None for value in given]
        if all(value is None for value in kept):
            raise InvalidConfiguration(f"attributes: got {name!r}, but {os.fspath(path)} states it for no job")
        columns[name] = kept if name == "requested_memory" else [value and int(value) for value in kept]
    if dependencies:
        trace.report.counts.pop(TraceReason.DEPENDENCY, None)
        columns["after"] = _dependencies(path, trace)
    return replace(trace, jobs=trace.jobs.with_columns(**columns)) if columns else trace


def texts(path: Pathish, field: int) -> dict[int, str]:
    """Return the text of one field of each row; some logs add fields after the 18 of the format.

    Parameters
    ----------
    path : str or path-like
        SWF file, plain or gzip.
    field : int
        Number of the field, from 1; fields are separated by whitespace.

    Returns
    -------
    dict of int to str
        Text of the field by line number, as in ``Trace.place``; job numbers may occur more than once.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or a row lacks this field or a job number.
    """
    check_int("field", field, least=1)
    found: dict[int, str] = {}
    for first, block in line_blocks(path, chunks(path)):
        for number, line in enumerate(block.split(b"\n"), first):
            row = line.split()
            if not row or row[0][:1] == b";":
                continue
            if len(row) < field or not _NUMBER.fullmatch(row[0]):
                raise WorkloadError(f"{os.fspath(path)}: line {number}: no field {field}, or no job number")
            found[number] = _decode(row[field - 1])
    return found


def _dependencies(path: Pathish, trace: Trace) -> list[tuple[tuple[int], float] | None]:
    """Return the dependencies of fields 17 and 18 as rows; a row of the trace is known by its line."""
    line_of: dict[
        int, int
    ] = {}  # first line of each number, not counting those of partial executions that were dropped
    links: dict[int, tuple[int, float]] = {}
    lines_of = trace.place.tolist()
    row_of = {line: row for row, line in enumerate(lines_of)}
    for lines, values in _read_values(path, TraceReport()):
        is_part = np.isin(values[_STATUS], PARTS).tolist()
        numbers, preceding = (values[at].astype(np.int64).tolist() for at in (0, _PRECEDING))
        for line, number, part, before, think_time in zip(
            lines.tolist(), numbers, is_part, preceding, values[_THINK_TIME].tolist(), strict=True
        ):
            if line in row_of or not part:
                line_of.setdefault(number, line)
            if before > 0 and line in row_of:
                links[row_of[line]] = before, max(think_time, 0.0)
    found: list[tuple[tuple[int], float] | None] = [None] * len(trace)
    for row, (before, think_time) in links.items():
        other = row_of.get(line_of.get(before, -1))
        if other == row:
            trace.report.add(TraceReason.SELF_DEPENDENCY, [lines_of[row]])
        elif other is not None:
            found[row] = (other,), think_time
    return found


def write(path: Pathish, jobs: Iterable[Job], *, header: TraceHeader | Mapping[str, object] | None = None) -> None:
    """Write jobs so that `read` returns them exactly; the file is written completely or not at all.

    Fields 5 and 8 hold the cores, field 4 the run time, field 9 the requested time, field 12 the user, and
    field 11 the status 1. Fields 15 and 16 hold queue and partition if their names are numbers, 17 and 18 the
    predecessor of a job that has one. All others are unknown (-1), and the format has no place for further fields of
    jobs. Integral times are written without a decimal point.

    Parameters
    ----------
    path : str or path-like
        Target file, replaced only when the new one is complete; compressed if its name ends in ``.gz``.
    jobs : iterable of Job
        Jobs to write; consumed one by one.
    header : TraceHeader or mapping, optional
        Header of a trace, kept line by line, or entries such as ``{"MaxProcs": 128}``.

    Raises
    ------
    WorkloadError
        If the file cannot be written, a job is invalid, has a text as id, or a requested time of 0 although its run
        time is not (the format reads 0 as unknown).
    """
    if isinstance(jobs, Workload):
        _check_references(jobs)
    write_lines(path, _lines(jobs, header))


def _check_references(workload: Workload) -> None:
    """Raise an error if a job depends on a row that readers would not find by its number."""
    ids, first = workload["job_id"].tolist(), dict[int | str, int]()
    for row, job_id in enumerate(ids):
        first.setdefault(job_id, row)
    for row, (others, _) in workload.dependencies().items():
        if wrong := [other for other in others if first[ids[other]] != other]:
            raise WorkloadError(
                f"job {ids[row]} depends on the job {ids[wrong[0]]} of row {wrong[0]}, but this number means row "
                f"{first[ids[wrong[0]]]} in this format"
            )


def _lines(jobs: Iterable[Job], header: TraceHeader | Mapping[str, object] | None) -> Iterator[str]:
    yield from _header_lines(header)
    for job in jobs:
        check_writable(job)
        if isinstance(job.job_id, str):
            raise WorkloadError(
                f"job {job.job_id}: job_id: got {job.job_id!r}, but this format has only numbers; try a .csv, .parquet "
                "or .json file"
            )
        submitted, requested, ran = map(plain_number, (job.submission_time, job.requested_time, job.run_time))
        cores = int(job.requested_cores)
        known = f"{job.job_id:d} {submitted} -1 {ran} {cores} -1 -1 {cores} {requested} -1 1 {job.user_id:d}"
        after: int | str = -1
        think_time = "-1"
        if job.after is not None and len(job.after.jobs) == 1:
            after, think_time = job.after.jobs[0], plain_number(job.after.think_time)
        queue, partition = (name if name.isdecimal() else "-1" for name in (job.queue, job.partition))
        yield f"{known} -1 -1 {queue} {partition} {after} {think_time}"


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
                raise WorkloadError(f"header line {line!r}: got a control character, expected text")
            yield line if line.startswith(";") else f"; {line}"


def _read_header(path: Pathish) -> TraceHeader:
    """Read the comment lines before the first row."""
    source = os.fspath(path)
    header: list[str] = []
    numbers: list[int] = []
    for first, block in line_blocks(path, chunks(path)):
        if not block.strip():
            continue
        for number, line in enumerate(block.split(b"\n"), first):
            text = line.strip()
            if text and not text.startswith(b";"):
                return TraceHeader.parse(header, numbers)
            if text:
                _check_comment(source, number, line)
                header.append(_decode(text))
                numbers.append(number)
                if len(header) > _MOST_HEADER_LINES:
                    raise WorkloadError(f"{source}: line {number}: more than {_MOST_HEADER_LINES:,} header lines")
    return TraceHeader.parse(header, numbers)


def _read_columns(path: Pathish, report: SWFReport, limit: Limits) -> Iterator[Columns]:
    """Yield all rows unchanged, block by block; allocated processors replace unknown requested ones."""
    first: list[Floats] = []
    for numbers, values in _read_values(path, report, limit):
        first = first or values
        varied = [at for at in _UNREAD if _FIELDS[at] in report.unread or (values[at] != first[at][0]).any()]
        report.unread = tuple(_FIELDS[at] for at in varied)
        report.add(TraceReason.DEPENDENCY, numbers[values[_PRECEDING] > 0].tolist())
        yield _as_columns(numbers, values)


def _read_values(
    path: Pathish, report: TraceReport, limit: Limits | None = None
) -> Iterator[tuple[NDArray[np.int64], list[Floats]]]:
    """Yield the line numbers and fields of all rows, block by block.

    The fast path converts a whole block at once and notices only that something is wrong; the slow
    path then checks the same lines one by one to find what.
    """
    width = 0  # number of fields of the first row, which all rows must have
    for first, block in line_blocks(path, chunks(path, limit)):
        lines = block.split(b"\n")
        width = width or next((len(row) for row in map(bytes.split, lines) if row and row[0][:1] != b";"), 0)
        text = block
        if width > len(_FIELDS):
            lines = _cut(os.fspath(path), first, lines, width, report)
            text = b"\n".join(lines)
        kept, numbers = lines, np.arange(first, first + len(lines), dtype=np.int64)
        if text.translate(None, _NUMERIC):  # comments, or faults
            at = [at for at, line in enumerate(lines) if not line.lstrip().startswith(b";")]
            kept, numbers = [lines[row] for row in at], numbers[at]
            if b"".join(kept).translate(None, _NUMERIC) or len(text.translate(None, _CONTROLS)) < len(text):
                _complain(os.fspath(path), first, lines)
        rows = [line.split() for line in kept]
        if not all(rows):
            numbers = numbers[[bool(row) for row in rows]]
            rows = [row for row in rows if row]
        if rows:
            values = _convert(rows)
            if values is None:
                _complain(os.fspath(path), first, lines)
            yield numbers, values


def _cut(source: str, first: int, lines: list[bytes], width: int, report: TraceReport) -> list[bytes]:
    """Return lines without the fields after the format's 18, which some logs add; all rows must have equally many."""
    cut, rows = [], []
    for number, line in enumerate(lines, first):
        row = line.split()
        if not row or row[0][:1] == b";":
            cut.append(line)
            continue
        if len(row) != width:
            hint = " (a truncated line?)" if len(row) < width else ""
            raise WorkloadError(
                f"{source}: line {number}: got {len(row)} fields, expected {width} like the first row{hint}"
            )
        cut.append(b" ".join(row[: len(_FIELDS)]))
        rows.append(number)
    report.add(TraceReason.EXTRA_FIELDS, rows)
    return cut


def _convert(rows: list[list[bytes]]) -> list[Floats] | None:
    try:
        fields = list(zip(*rows, strict=True))
        if len(fields) != len(_FIELDS):
            return None
        values = []
        for field in fields:
            # Most fields repeat a few values: convert each value once
            known = {token: float(token) for token in dict.fromkeys(field)}
            values.append(np.fromiter(map(known.__getitem__, field), dtype=np.float64, count=len(field)))
        for at in _IDS:
            if np.abs(values[at]).max() > LARGEST:  # these are exact only as integers
                values[at] = np.array(list(map(int, fields[at])), dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    if max(np.abs(column).max() for at, column in enumerate(values) if at not in _IDS) > LARGEST:
        return None
    return None if any((values[at] % 1).any() for at in _WHOLE) else values


def _as_columns(numbers: NDArray[np.int64], values: list[Floats]) -> Columns:
    assumed = values[7] < 1
    return Columns(
        place=numbers,
        job_id=values[0].astype(np.int64),
        submission_time=values[1],
        wait=values[2],
        cores=np.where(assumed, values[4], values[7]),
        requested_time=values[8],
        run_time=values[3],
        user=values[11],
        status=values[10],
        queue=values[14],
        partition=values[15],
        assumed_cores=assumed,
    )


def _check_comment(source: str, number: int, line: bytes) -> None:
    kept = line.translate(None, _CONTROLS)
    if len(kept) < len(line):
        odd = next(byte for byte in line if byte in _CONTROLS)
        raise WorkloadError(f"{source}: line {number}: control character 0x{odd:02x} in a comment line")


def _decode(text: bytes) -> str:
    # The format requires ASCII, but names of people and places in old logs are often Latin-1
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _complain(source: str, first: int, lines: list[bytes]) -> NoReturn:
    """Raise for the first faulty line."""
    for number, line in enumerate(lines, first):
        if line.lstrip().startswith(b";"):
            _check_comment(source, number, line)
        elif odd := line.translate(None, _PRINTABLE):
            where = f"{source}: line {number}: byte 0x{odd[0]:02x} at column {line.index(odd[:1]) + 1}"
            raise WorkloadError(f"{where}: expected ASCII text")
        elif row := line.split():
            _complain_of_row(source, number, row)
    raise AssertionError("the fast path refused a block in which the slow path finds no fault")


def _complain_of_row(source: str, number: int, row: list[bytes]) -> None:
    where = f"{source}: line {number}"
    if len(row) != len(_FIELDS):
        hint = " (a truncated line?)" if len(row) < len(_FIELDS) else ""
        raise WorkloadError(f"{where}: got {len(row)} fields, expected {len(_FIELDS)}{hint}")
    for at, token in enumerate(row):
        field = f"{where}: field {at + 1} ({_FIELDS[at]}): got {short_repr(token.decode())}"
        if not _NUMBER.fullmatch(token):
            raise WorkloadError(f"{field}, expected a number")
        if at in _IDS and re.fullmatch(rb"[+-]?\d+", token) and abs(int(token)) < 1 << 63:
            continue
        if abs(float(token)) > LARGEST:
            raise WorkloadError(f"{field}, expected a number from -1e15 to 1e15")
        if at in _WHOLE and float(token) % 1:
            raise WorkloadError(f"{field}, expected an integer")
