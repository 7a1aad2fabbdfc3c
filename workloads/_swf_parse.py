"""From the text of a Standard Workload Format file to arrays, with exact complaints.

The fast path converts a whole block at once and only notices that something is wrong; the slow
path then looks at the same lines one by one to say what.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.workloads._columns import LARGEST, Columns, Floats
from desim.workloads._files import Pathish, line_blocks
from desim.workloads.trace import TraceHeader

__all__ = ["FIELDS", "read_columns", "read_header"]

#: The 18 fields of a row, by the names of the format's definition.
FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
#: Positions of the fields that count or name something, so that a fraction makes no sense.
WHOLE = (0, 4, 7, 10, 11, 12, 13, 14, 15, 16)
MOST_HEADER_LINES = 100_000

# With these bytes only, float() accepts exactly what _NUMBER does: no nan, no 1_000
_NUMERIC = b"0123456789+-.eE \t\r\n"
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
_CONTROLS = bytes([*range(9), *range(11, 13), *range(14, 32), 127])
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_header(path: Pathish) -> TraceHeader:
    """Read the comment lines in front of the first row.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    TraceHeader
        The lines and their entries.

    Raises
    ------
    WorkloadError
        If the file cannot be read or its header holds control characters.
    """
    source = os.fspath(path)
    header: list[str] = []
    for first, block in line_blocks(path):
        for number, line in enumerate(block.split(b"\n"), first):
            text = line.strip()
            if text and not text.startswith(b";"):
                return TraceHeader.parse(header)
            if text:
                _check_comment(source, number, line)
                header.append(_decode(text))
                if len(header) > MOST_HEADER_LINES:
                    raise WorkloadError(f"{source}: line {number}: more than {MOST_HEADER_LINES:,} header lines")
    return TraceHeader.parse(header)


def read_columns(path: Pathish) -> Iterator[Columns]:
    """Read all rows, block by block, in constant memory.

    Parameters
    ----------
    path : str or path-like
        The file.

    Yields
    ------
    Columns
        The rows of a block, nothing dropped or repaired but for processors not requested,
        for which the allocated ones stand.

    Raises
    ------
    WorkloadError
        For the first row that is not 18 plain numbers; the message names line and field.
    """
    source = os.fspath(path)
    for first, block in line_blocks(path):
        lines = block.split(b"\n")
        numbers = np.arange(first, first + len(lines), dtype=np.int64)
        if block.translate(None, _NUMERIC):
            keep = [at for at, line in enumerate(lines) if _is_row(source, first + at, line)]
            lines, numbers = [lines[at] for at in keep], numbers[keep]
        rows = [line.split() for line in lines]
        if not all(rows):
            numbers = numbers[[bool(row) for row in rows]]
            rows = [row for row in rows if row]
        if rows:
            values = _convert(rows)
            if values is None:
                _complain(source, numbers, rows)
            yield _as_columns(numbers, values)


def _convert(rows: list[list[bytes]]) -> list[Floats] | None:
    try:
        fields = list(zip(*rows, strict=True))
        if len(fields) != len(FIELDS):
            return None
        values = []
        for field in fields:
            # Most fields repeat a few values: convert each of them once
            known = {token: float(token) for token in dict.fromkeys(field)}
            values.append(np.fromiter(map(known.__getitem__, field), dtype=np.float64, count=len(field)))
    except ValueError:
        return None
    if max(np.abs(column).max() for column in values) > LARGEST:
        return None
    return None if any((values[at] % 1).any() for at in WHOLE) else values


def _as_columns(numbers: NDArray[np.int64], values: list[Floats]) -> Columns:
    assumed = values[7] < 1
    return Columns(
        place=numbers,
        job_id=values[0].astype(np.int64),
        submission_time=values[1],
        cores=np.where(assumed, values[4], values[7]),
        requested_time=values[8],
        run_time=values[3],
        user=values[11],
        status=values[10],
        queue=values[14],
        partition=values[15],
        assumed_cores=assumed,
    )


def _is_row(source: str, number: int, line: bytes) -> bool:
    if line.lstrip().startswith(b";"):
        _check_comment(source, number, line)
        return False
    if odd := line.translate(None, _PRINTABLE):
        raise WorkloadError(
            f"{source}: line {number}: byte 0x{odd[0]:02x} at column {line.index(odd[:1]) + 1}, want plain ASCII text"
        )
    if line.translate(None, _NUMERIC):
        _complain_of_row(source, number, line.split())
    return True


def _check_comment(source: str, number: int, line: bytes) -> None:
    kept = line.translate(None, _CONTROLS)
    if len(kept) < len(line):
        odd = next(byte for byte in line if byte in _CONTROLS)
        raise WorkloadError(f"{source}: line {number}: control character 0x{odd:02x} in a comment line")


def _decode(text: bytes) -> str:
    # The format demands ASCII, but names of people and places in old logs are often Latin-1
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _complain(source: str, numbers: NDArray[np.int64], rows: list[list[bytes]]) -> NoReturn:
    for number, row in zip(numbers, rows, strict=True):
        _complain_of_row(source, int(number), row)
    raise AssertionError("the fast path refused a block in which the slow path finds no fault")


def _complain_of_row(source: str, number: int, row: list[bytes]) -> None:
    where = f"{source}: line {number}"
    if len(row) != len(FIELDS):
        hint = " (a truncated line?)" if len(row) < len(FIELDS) else ""
        raise WorkloadError(f"{where}: {len(row)} fields, want {len(FIELDS)}{hint}")
    for at, token in enumerate(row):
        shown = repr(token[:30].decode() + ("..." if len(token) > 30 else ""))
        field = f"{where}: field {at + 1} ({FIELDS[at]}) is {shown}"
        if not _NUMBER.fullmatch(token):
            raise WorkloadError(f"{field}, want a number")
        if abs(float(token)) > LARGEST:
            raise WorkloadError(f"{field}, want a number between -1e15 and 1e15")
        if at in WHOLE and float(token) % 1:
            raise WorkloadError(f"{field}, want a whole number")
