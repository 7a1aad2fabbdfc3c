"""Read tables of the Alibaba cluster traces, whole or in batches of rows.

A file is a CSV table as published: UTF-8 without quotation marks, and with a header line only in
cluster-trace-gpu-v2023 (elsewhere, a header with exactly the column names is accepted). The file is plain, compressed
by gzip, or the only CSV file in a tar archive. Blank lines are skipped. A file that does not fit the table's schema
raises a `WorkloadError` that names line and column. Numbers that mean an unknown value are read as null and
counted in a `TableReport`.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_int
from desim.exceptions import WorkloadError
from desim.workloads.alibaba.tables import Column, TableSchema, find_table
from desim.workloads.files import BLOCK, Pathish, line_blocks, open_binary
from desim.workloads.json_fields import LARGEST, short_repr
from desim.workloads.report import RepairReport

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Finding", "TableReport", "TableStream", "read", "stream"]

# Quotation marks would change the meaning of commas; the published tables have none
_REFUSED = bytes([*range(9), *range(11, 32), ord('"'), 127])
_REFUSED_CODES = np.isin(np.arange(256), list(_REFUSED))
# POSIX and GNU archives both have "ustar" at this position of the first header
_TAR_MAGIC = slice(257, 262)


class Finding(NamedTuple):
    """Kind of remarkable value in a column, and the action taken."""

    action: Literal["changed", "noted"]
    column: str

    @property
    def name(self) -> str:
        """Name of the finding, such as ``plan_mem_changed``."""
        return f"{self.column}_{self.action}"

    @property
    def meaning(self) -> str:
        """Explanation of the finding."""
        what = "means unknown: read as null" if self.action == "changed" else "outside the stated range, kept"
        return f"{self.column}: {what}"


class TableReport(RepairReport[Finding, int]):
    """Counts, by column, of the values that mean unknown or lie outside the stated range."""

    def headline(self) -> str:
        """Return the totals in one line."""
        cleared = sum(count for finding, count in self.counts.items() if finding.action == "changed")
        return f"{self.rows:,} rows: {cleared:,} values cleared"


class TableStream:
    """Iterable over the rows of a file in batches, in constant memory; each iteration reads the file again.

    Parameters
    ----------
    path, table, batch_rows : path, str or None, int
        Arguments of `stream`, which creates the object.

    Attributes
    ----------
    schema : TableSchema
        Schema of the table.
    report : TableReport
        Counts of the latest iteration, complete when it ends.
    """

    def __init__(self, path: Pathish, table: str | None, batch_rows: int) -> None:
        self.path = path
        self.schema: TableSchema = find_table(path, table)
        self.report = TableReport()
        self._batch_rows = check_int("batch_rows", batch_rows, least=1)
        with closing(_chunks(path)) as parts:
            if next(parts, None) is None:
                raise WorkloadError(f"{os.fspath(path)}: is empty")

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Iterate over the batches, from the start of the file."""
        source = os.fspath(self.path)
        self.report = report = TableReport()
        for number, block in line_blocks(source, _chunks(self.path), self._batch_rows):
            first, lines = _without_header(source, block, self.schema) if number == 1 else (number, block)
            frame = _parse(source, first, lines, self.schema, report)
            if len(frame):
                yield frame
        if not report.rows:
            raise WorkloadError(f"{source}: got no row of {self.schema.name}, expected at least one")


def stream(path: Pathish, table: str | None = None, *, batch_rows: int = 100_000) -> TableStream:
    """Open a file whose rows are read in batches.

    Parameters
    ----------
    path : str or path-like
        CSV file, plain or gzip, or a tar archive of one CSV file.
    table : str, optional
        Name of the table, a key of `TABLES` (default: inferred from the file name).
    batch_rows : int
        Largest number of rows per batch.

    Returns
    -------
    TableStream
        Iterable, any number of times, over data frames of polars with the columns of the table.

    Raises
    ------
    WorkloadError
        Immediately, if the file cannot be opened or is empty; while iterating, for the first line that does not fit;
        and at the end, if there was no row.
    InvalidConfiguration
        If the table is unknown or `batch_rows` is not positive.
    """
    return TableStream(path, table, batch_rows)


def read(path: Pathish, table: str | None = None) -> pl.DataFrame:
    """Read a whole table.

    Parameters
    ----------
    path : str or path-like
        CSV file, plain or gzip, or a tar archive of one CSV file.
    table : str, optional
        Name of the table, a key of `TABLES` (default: inferred from the file name).

    Returns
    -------
    polars.DataFrame
        One row per line, with the columns of the table: strings as String, whole numbers as Int64, numbers as Float64,
        null where empty or unknown.

    Raises
    ------
    WorkloadError, InvalidConfiguration
        As in `stream`.
    """
    import polars as pl

    return pl.concat(list(stream(path, table)), rechunk=True)


def _chunks(path: Pathish) -> Generator[bytes]:
    """Yield consecutive parts of a table, from a plain file, a gzip file, or the only CSV file in a tar archive."""
    # its own buffer, because that of a plain file is too short to look ahead
    with open_binary(path) as file, io.BufferedReader(cast(io.RawIOBase, file), BLOCK) as buffered:
        if buffered.peek(512)[_TAR_MAGIC] == b"ustar":
            yield from _member(os.fspath(path), buffered)
        else:
            yield from _blocks(buffered)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while data := file.read(BLOCK):
        yield data


def _member(source: str, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of the CSV file in an archive, without writing to disk."""
    found = ""
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                # macOS adds files that begin with "._"
                if not member.isfile() or not name.endswith(".csv") or name.startswith("._"):
                    continue
                if found:
                    raise WorkloadError(f"{source}: got {found!r} and {member.name!r}, expected one CSV file")
                found = member.name
                yield from _blocks(cast(IO[bytes], archive.extractfile(member)))
    except WorkloadError:
        raise
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise WorkloadError(f"{source}: corrupt tar archive: {error}") from error
    if not found:
        raise WorkloadError(f"{source}: got an archive without a CSV file, expected one CSV file")


@dataclass(frozen=True)
class _Fault:
    """First fault of a block or column: its row in the block, from 0, and the message."""

    row: int
    message: str


def _without_header(source: str, block: bytes, table: TableSchema) -> tuple[int, bytes]:
    """Check and remove the header line; return the number of the first line after it, and the remaining lines.

    A table that is published without a header may have one with exactly the column names.
    """
    line, _, rest = block.partition(b"\n")
    names = line.decode("utf-8", "replace").split(",")
    if names == list(table.names):
        return 2, rest
    if not table.header:
        return 1, block
    where = f"{source}: line 1: the header of {table.name}"
    for at, (name, wanted) in enumerate(zip(names, table.names, strict=False), 1):
        if name != wanted:
            raise WorkloadError(f"{where}: column {at}: got {short_repr(name)}, expected {wanted!r}")
    raise WorkloadError(f"{where}: got {len(names)} columns, expected {len(table.names)}: {','.join(table.names)}")


def _parse(source: str, first: int, block: bytes, table: TableSchema, report: TableReport) -> pl.DataFrame:
    """Return whole lines as a table of typed columns; blank lines are skipped."""
    places, block = _full_lines(first, block)
    broken = _structural_fault(block, len(table.columns))
    if broken is not None:  # an earlier line may hold a wrong number, which is reported first
        block = b"\n".join(block.split(b"\n", broken.row)[: broken.row])
    frame = _split(block, table)
    converted = [_convert(frame[column.name], column) for column in table.columns]
    faults = [fault for _, fault in converted if fault is not None] + ([] if broken is None else [broken])
    if faults:
        fault = min(faults, key=lambda fault: fault.row)
        raise WorkloadError(f"{source}: line {places[fault.row]}: {fault.message}")
    columns = [
        _repair(values, column, places, report) for (values, _), column in zip(converted, table.columns, strict=True)
    ]
    report.rows += len(places)
    return frame.select(columns)


def _full_lines(first: int, block: bytes) -> tuple[NDArray[np.int64], bytes]:
    """Return the numbers of the lines that are not blank, and these lines, all ended by line feeds."""
    if b"\n\n" in block or block[:1] in (b"", b"\n") or block[-1:] == b"\n":
        lines = block.split(b"\n")
        kept = [at for at, line in enumerate(lines) if line]
        return np.array(kept, dtype=np.int64) + first, b"\n".join(lines[at] for at in kept)
    return np.arange(first, first + block.count(b"\n") + 1, dtype=np.int64), block


def _structural_fault(block: bytes, width: int) -> _Fault | None:
    """Return the first line with bytes that are not text or with a wrong number of fields."""
    if not block:
        return None
    faults = []
    codes = np.frombuffer(block, dtype=np.uint8)
    feeds = np.flatnonzero(codes == ord("\n"))
    odd = _odd_byte(block, codes)
    if odd is not None:
        row = int(np.searchsorted(feeds, odd))
        position = odd - (int(feeds[row - 1]) if row else -1)
        what = "a quotation mark" if block[odd] == ord('"') else f"byte 0x{block[odd]:02x}"
        faults.append(_Fault(row, f"got {what} at position {position}, expected UTF-8 text without quotation marks"))
    commas = np.searchsorted(np.flatnonzero(codes == ord(",")), np.append(feeds, len(codes)))
    fields = np.diff(commas, prepend=0) + 1
    wrong = fields != width
    if wrong.any():
        row = int(np.argmax(wrong))
        hint = " (a truncated line?)" if fields[row] < width else ""
        faults.append(_Fault(row, f"got {fields[row]} fields, expected {width}{hint}"))
    return min(faults, key=lambda fault: fault.row, default=None)


def _odd_byte(block: bytes, codes: NDArray[np.uint8]) -> int | None:
    found = []
    if len(block.translate(None, _REFUSED)) < len(block):
        found.append(int(np.argmax(_REFUSED_CODES[codes])))
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        found.append(error.start)
    return min(found, default=None)


def _split(block: bytes, table: TableSchema) -> pl.DataFrame:
    """Return the fields as strings, null where empty."""
    import polars as pl

    # With a header, polars cannot mistake the first bytes of a block for those of a compressed file
    header = ",".join(table.names).encode() + b"\n"
    if not block:
        return pl.DataFrame(schema=dict.fromkeys(table.names, pl.String))
    return pl.read_csv(header + block, has_header=True, quote_char=None, infer_schema=False)


def _convert(text: pl.Series, column: Column) -> tuple[pl.Series, _Fault | None]:
    """Return the values of a column, and its first fault."""
    import polars as pl

    missing = _missing(text, column)
    if column.kind == "string":
        return text, missing
    values = text.cast(pl.Float64, strict=False)
    numbers = values.to_numpy()
    wrong = ~(np.abs(numbers) <= LARGEST)  # true for nan, which also stands for null
    if column.kind == "whole number":
        wrong |= np.floor(numbers) != numbers
    if text.null_count():
        wrong &= text.is_not_null().to_numpy()
    faults = [] if missing is None else [missing]
    if wrong.any():
        row = int(np.argmax(wrong))
        wanted = f"a {column.kind}{' from -1e15 to 1e15' if abs(numbers[row]) > LARGEST else ''}"
        faults.append(_Fault(row, f"column {column.name}: got {short_repr(text[row])}, expected {wanted}"))
    elif column.kind == "whole number":
        values = values.cast(pl.Int64)
    return values, min(faults, key=lambda fault: fault.row, default=None)


def _missing(text: pl.Series, column: Column) -> _Fault | None:
    if not column.required or not text.null_count():
        return None
    wanted = "text" if column.kind == "string" else f"a {column.kind}"
    return _Fault(int(text.is_null().arg_true()[0]), f"column {column.name}: got '', expected {wanted}")


def _repair(values: pl.Series, column: Column, places: NDArray[np.int64], report: TableReport) -> pl.Series:
    """Return the values with null for those that mean unknown; count these and those out of range."""
    import polars as pl

    if column.minimum is None or column.maximum is None:
        return values
    numbers = values.to_numpy()
    invalid = np.isin(numbers, column.invalid)
    outside = ((numbers < column.minimum) | (numbers > column.maximum)) & ~invalid  # false for nan
    report.add(Finding("noted", column.name), places[outside].tolist())
    if invalid.any():
        report.add(Finding("changed", column.name), places[invalid].tolist())
        values = values.set(pl.Series(invalid), None)
    return values
