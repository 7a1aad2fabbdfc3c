"""Tables of the Alibaba cluster traces, read whole or in batches of rows.

A file is a csv table as published: without quotation marks, UTF-8, with a header line in
cluster-trace-gpu-v2023 only (one that holds exactly the column names is accepted everywhere). It may be plain, packed
by gzip, or the one csv file in a tar archive. Blank lines are skipped. A file that does not fit the table's schema is
refused with a `WorkloadError` that names line and column; numbers that stand for an unknown one are read as null and
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

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Quotation marks would change what a comma means; the published tables have none
_REFUSED = bytes([*range(9), *range(11, 32), ord('"'), 127])
_REFUSED_CODES = np.isin(np.arange(256), list(_REFUSED))
# "ustar" stands at this place of an archive's first header, in POSIX and GNU archives alike
_TAR_MAGIC = slice(257, 262)


class Finding(NamedTuple):
    """What was found in a column, and what was done about it."""

    action: Literal["changed", "noted"]
    column: str

    @property
    def name(self) -> str:
        """A word for it, such as ``plan_mem_changed``."""
        return f"{self.column}_{self.action}"

    @property
    def meaning(self) -> str:
        """The reason in words."""
        what = "stands for unknown: read as null" if self.action == "changed" else "outside of the stated range, kept"
        return f"{self.column}: {what}"


class TableReport(RepairReport[Finding, int]):
    """Counts of the values by column that stand for an unknown number or lie outside of the range that is stated."""

    def headline(self) -> str:
        """Return the totals in one line."""
        cleared = sum(count for finding, count in self.counts.items() if finding.action == "changed")
        return f"{self.rows:,} rows: {cleared:,} values cleared"


class TableStream:
    """The rows of a file in batches, in constant memory; every iteration reads anew.

    Parameters
    ----------
    path, table, batch_rows : path, str or None, int
        As `stream` says, which makes it.

    Attributes
    ----------
    schema : TableSchema
        The table.
    report : TableReport
        The books of the latest iteration, complete when it has ended.
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
        """Read the file from its start."""
        source = os.fspath(self.path)
        self.report = report = TableReport()
        for number, block in line_blocks(source, _chunks(self.path), self._batch_rows):
            first, lines = _without_header(source, block, self.schema) if number == 1 else (number, block)
            frame = _parse(source, first, lines, self.schema, report)
            if len(frame):
                yield frame
        if not report.rows:
            raise WorkloadError(f"{source}: holds no row of {self.schema.name}")


def stream(path: Pathish, table: str | None = None, *, batch_rows: int = 100_000) -> TableStream:
    """Open a file whose rows are read in batches.

    Parameters
    ----------
    path : str or path-like
        The file: csv, plain or gzip, or a tar archive of one csv file.
    table : str, optional
        Name of the table, one of `TABLES`; by default the file name decides.
    batch_rows : int
        Rows a batch, at most.

    Returns
    -------
    TableStream
        To iterate over, any number of times; each item is a polars.DataFrame with the columns of the table.

    Raises
    ------
    WorkloadError
        At once, if the file cannot be opened or is empty; while iterating, for the first line that does not fit, and
        at the end if there was no row.
    InvalidConfiguration
        If the table is unknown or `batch_rows` is not positive.
    """
    return TableStream(path, table, batch_rows)


def read(path: Pathish, table: str | None = None) -> pl.DataFrame:
    """Read a whole table.

    Parameters
    ----------
    path : str or path-like
        The file: csv, plain or gzip, or a tar archive of one csv file.
    table : str, optional
        Name of the table, one of `TABLES`; by default the file name decides.

    Returns
    -------
    polars.DataFrame
        One row a line, with the columns of the table: strings as String, whole numbers as Int64, numbers as Float64,
        null where empty or invalid.

    Raises
    ------
    WorkloadError, InvalidConfiguration
        As for `stream`.
    """
    import polars as pl

    return pl.concat(list(stream(path, table)), rechunk=True)


def _chunks(path: Pathish) -> Generator[bytes]:
    """Yield consecutive parts of a table, from a plain file, a gzip file, or the one csv file in a tar archive."""
    # A GzipFile has what a BufferedReader needs, which looks further ahead than GzipFile.peek
    with open_binary(path) as file, io.BufferedReader(cast(io.RawIOBase, file), BLOCK) as buffered:
        if buffered.peek(512)[_TAR_MAGIC] == b"ustar":
            yield from _member(os.fspath(path), buffered)
        else:
            yield from _blocks(buffered)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while data := file.read(BLOCK):
        yield data


def _member(source: str, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of the csv file in an archive; nothing is ever written to disk."""
    found = ""
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                # Files that begin with "._" are what macOS adds
                if not member.isfile() or not name.endswith(".csv") or name.startswith("._"):
                    continue
                if found:
                    raise WorkloadError(f"{source}: holds {found!r} and {member.name!r}, want one csv file")
                found = member.name
                yield from _blocks(cast(IO[bytes], archive.extractfile(member)))
    except WorkloadError:
        raise
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise WorkloadError(f"{source}: corrupt tar archive: {error}") from error
    if not found:
        raise WorkloadError(f"{source}: is an archive without a csv file")


@dataclass(frozen=True)
class _Fault:
    """The first thing wrong with a block or column: the row in it, from 0, and what to say."""

    row: int
    message: str


def _without_header(source: str, block: bytes, table: TableSchema) -> tuple[int, bytes]:
    """Check and remove the line of column names; return the number of the first line behind it, and what follows.

    A table that has no such line by itself may have one that holds exactly the names.
    """
    block = block.removeprefix(_BYTE_ORDER_MARK)
    line, _, rest = block.partition(b"\n")
    names = line.removesuffix(b"\r").decode("utf-8", "replace").split(",")
    if names == list(table.names):
        return 2, rest
    if not table.header:
        return 1, block
    where = f"{source}: line 1: the header of {table.name}"
    for at, (name, wanted) in enumerate(zip(names, table.names, strict=False), 1):
        if name != wanted:
            raise WorkloadError(f"{where}: column {at}: got {short_repr(name)}, want {wanted!r}")
    raise WorkloadError(f"{where}: got {len(names)} columns, want {len(table.names)}: {','.join(table.names)}")


def _parse(source: str, first: int, block: bytes, table: TableSchema, report: TableReport) -> pl.DataFrame:
    """Turn whole lines into a table of typed columns; blank ones are skipped."""
    places, block = _full_lines(first, block)
    broken = _structural_fault(block, len(table.columns))
    if broken is not None:  # an earlier line may hold a wrong number, and comes first
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
    """Return the numbers of the lines that are not blank, and these, ended by line feeds only."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").removesuffix(b"\r")
    if b"\n\n" in block or block[:1] in (b"", b"\n") or block[-1:] == b"\n":
        lines = block.split(b"\n")
        kept = [at for at, line in enumerate(lines) if line]
        return np.array(kept, dtype=np.int64) + first, b"\n".join(lines[at] for at in kept)
    return np.arange(first, first + block.count(b"\n") + 1, dtype=np.int64), block


def _structural_fault(block: bytes, width: int) -> _Fault | None:
    """Return the first line with bytes that are no text, or another number of fields."""
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
        faults.append(_Fault(row, f"{what} at position {position}, want plain UTF-8 text"))
    commas = np.searchsorted(np.flatnonzero(codes == ord(",")), np.append(feeds, len(codes)))
    fields = np.diff(commas, prepend=0) + 1
    wrong = fields != width
    if wrong.any():
        row = int(np.argmax(wrong))
        hint = " (a truncated line?)" if fields[row] < width else ""
        faults.append(_Fault(row, f"{fields[row]} fields, want {width}{hint}"))
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

    # Behind a header, polars cannot take the first bytes of a block for those of a compressed file
    header = ",".join(table.names).encode() + b"\n"
    if not block:
        return pl.DataFrame(schema=dict.fromkeys(table.names, pl.String))
    return pl.read_csv(header + block, has_header=True, quote_char=None, infer_schema=False)


def _convert(text: pl.Series, column: Column) -> tuple[pl.Series, _Fault | None]:
    """Return the values of a column and the first one that is none."""
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
        wanted = f"a {column.kind}{' between -1e15 and 1e15' if abs(numbers[row]) > LARGEST else ''}"
        faults.append(_Fault(row, f"column {column.name}: got {short_repr(text[row])}, want {wanted}"))
    elif column.kind == "whole number":
        values = values.cast(pl.Int64)
    return values, min(faults, key=lambda fault: fault.row, default=None)


def _missing(text: pl.Series, column: Column) -> _Fault | None:
    if not column.required or not text.null_count():
        return None
    wanted = "text" if column.kind == "string" else f"a {column.kind}"
    return _Fault(int(text.is_null().arg_true()[0]), f"column {column.name}: got '', want {wanted}")


def _repair(values: pl.Series, column: Column, places: NDArray[np.int64], report: TableReport) -> pl.Series:
    """Return the values with null for invalid ones; count these and those out of range."""
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
