"""Standard Workload Format (SWF): read and write the logs of the Parallel Workloads Archive.

A row has 18 numbers: 1 job number, 2 submit time, 3 wait time, 4 run time, 5 allocated processors,
6 average CPU time, 7 used memory, 8 requested processors, 9 requested time, 10 requested memory,
11 status, 12 user, 13 group, 14 executable, 15 queue, 16 partition, 17 preceding job, 18 think
time. The value -1 means unknown, and a line that begins with ``;`` is a comment.

The cores of a job are field 8, or field 5 if field 8 is unknown; its requested time is field 9, or
field 4 if field 9 is unknown. In fields 8 and 9, 0 also counts as unknown. Rows that cannot be a job are dropped and
counted in a `RepairReport`, and so are rows that break the format (wrong number of fields, text in place of a number,
nan, a fraction of a core), unless reading is strict. A file that is no text raises a `WorkloadError`. Job numbers are
kept, also those that occur in several rows. Fields 17 and 18 are read on demand: there, a number that occurs in several
rows means the first of them, not counting partial executions. Queues and partitions are named by their numbers.

Reference: S. Chapin et al., "Benchmarks and standards for the evaluation of parallel job
schedulers", JSSPP 1999.
"""

from __future__ import annotations

import os
import re
from collections import Counter, deque
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
        Immediately, if the file cannot be opened; while iterating, for a submit time before an earlier one, or a broken
        row if reading is strict; and at the end, if there was no usable job.
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
        for rows in _read_columns(self.path, self.report, self.limits, strict=self.rules.strict):
            yield selector.feed(rows)
            if selector.full:
                break
        if self.report.count(TraceReason.UNREADABLE) == self.report.rows:
            deque(_read_values(self.path, TraceReport(), self.limits, strict=True), 0)  # the error of the first row
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
        Text of the field by line number, as in ``Trace.place``; job numbers may occur more than once. Lines that are
        no rows are left out.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or a row of the format lacks this field.
    """
    check_int("field", field, least=1)
    found: dict[int, str] = {}
    for first, block in line_blocks(path, chunks(path)):
        for number, line in enumerate(block.split(b"\n"), first):
            row = line.split()
            if not row or row[0][:1] == b";":
                continue
            if not _NUMBER.fullmatch(row[0]) or len(row) < min(field, len(_FIELDS)):
                continue  # no row of the format
            if len(row) < field:
                raise WorkloadError(f"{os.fspath(path)}: line {number}: no field {field}")
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


def _read_columns(path: Pathish, report: SWFReport, limit: Limits, *, strict: bool) -> Iterator[Columns]:
    """Yield all readable rows unchanged, block by block; allocated processors replace unknown requested ones."""
    first: list[Floats] = []
    for numbers, values in _read_values(path, report, limit, strict=strict):
        first = first or values
        varied = [at for at in _UNREAD if _FIELDS[at] in report.unread or (values[at] != first[at][0]).any()]
        report.unread = tuple(_FIELDS[at] for at in varied)
        report.add(TraceReason.DEPENDENCY, numbers[values[_PRECEDING] > 0].tolist())
        yield _as_columns(numbers, values)


def _read_values(
    path: Pathish, report: TraceReport, limit: Limits | None = None, *, strict: bool = False
) -> Iterator[tuple[NDArray[np.int64], list[Floats]]]:
    """Yield the line numbers and fields of all readable rows, block by block.

    The fast path converts a whole block at once and notices only that something is wrong; the slow
    path then checks the same lines one by one to find what.
    """
    source, width = os.fspath(path), 0  # number of fields of a row
    for first, block in line_blocks(path, chunks(path, limit)):
        lines, numbers = block.split(b"\n"), np.arange(first, first + block.count(b"\n") + 1, dtype=np.int64)
        width = width or _width_of(lines)
        if block.translate(None, _NUMERIC):  # comments, or faults
            at = [at for at, line in enumerate(lines) if not line.lstrip().startswith(b";")]
            if len(block.translate(None, _CONTROLS)) < len(block):
                _refuse_bytes(source, first, lines)
            lines, numbers = [lines[row] for row in at], numbers[at]
        if not all(rows := [line.split() for line in lines]):
            at = [at for at, row in enumerate(rows) if row]
            lines, rows, numbers = [lines[row] for row in at], [rows[row] for row in at], numbers[at]
        if not rows:
            continue
        values = _convert(rows, width)
        if values is None:
            wrong = [at for at, line in enumerate(lines) if _fault_of(line, width)]
            if strict:
                raise WorkloadError(f"{source}: line {numbers[wrong[0]]}: {_fault_of(lines[wrong[0]], width)}")
            report.add(TraceReason.UNREADABLE, numbers[wrong].tolist())
            report.rows, faulty = report.rows + len(wrong), {*wrong}
            numbers = np.delete(numbers, wrong)
            values = _convert([row for at, row in enumerate(rows) if at not in faulty], width)
        if values is not None and len(numbers):
            report.add(TraceReason.EXTRA_FIELDS, numbers.tolist() if width > len(_FIELDS) else ())
            yield numbers, values


def _width_of(lines: list[bytes]) -> int:
    """Return the number of fields that most rows have; some logs add fields to the format's 18."""
    found = Counter(len(row) for row in map(bytes.split, lines) if row and row[0][:1] != b";")
    return max(found.most_common(1)[0][0], len(_FIELDS)) if found else 0


def _convert(rows: list[list[bytes]], width: int) -> list[Floats] | None:
    """Return the fields of the format; None if a row has a fault."""
    try:
        fields = list(zip(*rows, strict=True))
        if len(fields) != width:  # also of no rows
            return None
        values = []
        for field in fields[: len(_FIELDS)]:
            if b"".join(field).translate(None, _NUMERIC):
                return None
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


def _refuse_bytes(source: str, first: int, lines: list[bytes]) -> NoReturn:
    """Raise for the first line with control characters, which text does not have."""
    for number, line in enumerate(lines, first):
        if line.lstrip().startswith(b";"):
            _check_comment(source, number, line)
        elif len(line.translate(None, _CONTROLS)) < len(line):
            odd = next(byte for byte in line if byte in _CONTROLS)
            where = f"{source}: line {number}: byte 0x{odd:02x} at column {line.index(odd) + 1}"
            raise WorkloadError(f"{where}: expected ASCII text")
    raise AssertionError("the fast path refused a block in which the slow path finds no fault")


def _fault_of(line: bytes, width: int) -> str:
    """Return what is wrong with a row; empty if nothing is."""
    row = line.split()
    if len(row) != width:
        hint = " (a truncated line?)" if len(row) < width else ""
        return f"got {len(row)} fields, expected {width}{' like other rows' * (width > len(_FIELDS))}{hint}"
    for at, token in enumerate(row[: len(_FIELDS)]):
        if odd := token.translate(None, _PRINTABLE):
            return f"byte 0x{odd[0]:02x} at column {line.index(odd[:1]) + 1}: expected ASCII text"
        field = f"field {at + 1} ({_FIELDS[at]}): got {short_repr(token.decode())}"
        if not _NUMBER.fullmatch(token):
            return f"{field}, expected a number"
        if at in _IDS and re.fullmatch(rb"[+-]?\d{1,19}", token) and abs(int(token)) < 1 << 63:
            continue
        if abs(float(token)) > LARGEST:
            return f"{field}, expected a number from -1e15 to 1e15"
        if at in _WHOLE and float(token) % 1:
            return f"{field}, expected an integer"
    return ""
