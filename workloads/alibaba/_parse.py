"""From the lines of a table to typed columns, with exact complaints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.workloads._columns import LARGEST
from desim.workloads.alibaba.report import TableReport
from desim.workloads.alibaba.schema import Column, TableSchema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["parse", "without_header"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Quotation marks would change what a comma means; the published tables have none
_REFUSED = bytes([*range(9), *range(11, 32), ord('"'), 127])
_REFUSED_CODES = np.isin(np.arange(256), list(_REFUSED))
_SHOWN = 40


@dataclass(frozen=True)
class _Fault:
    """The first thing wrong with a block or column: the row in it, from 0, and what to say."""

    row: int
    message: str


def without_header(source: str, block: bytes, table: TableSchema) -> tuple[int, bytes]:
    """Check and remove the line of column names at the start of a file.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    block : bytes
        The first lines of the file.
    table : TableSchema
        The table; if it has no such line by itself, one that holds exactly the names is accepted.

    Returns
    -------
    number : int
        The number of the first line behind it, 1 or 2.
    rest : bytes
        The block from that line on.

    Raises
    ------
    WorkloadError
        If the line is missing or another one.
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
            raise WorkloadError(f"{where}: column {at}: got {_shown(name)}, want {wanted!r}")
    raise WorkloadError(f"{where}: got {len(names)} columns, want {len(table.names)}: {','.join(table.names)}")


def parse(
    source: str, first: int, block: bytes, table: TableSchema, report: TableReport, *, most: int | None = None
) -> pl.DataFrame:
    """Turn lines into a table of typed columns.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    first : int
        The number of the first line.
    block : bytes
        Whole lines; blank ones are skipped.
    table : TableSchema
        What they should hold.
    report : TableReport
        Where to count.
    most : int, optional
        How many rows to look at; the lines behind them are ignored.

    Returns
    -------
    polars.DataFrame
        One row a line; strings as String, whole numbers as Int64, numbers as Float64, null where empty or invalid.

    Raises
    ------
    WorkloadError
        For the first line that does not fit.
    """
    places, block = _full_lines(first, block)
    if most is not None and most < len(places):
        places, block = places[:most], _first_lines(block, most)
    broken = _structural_fault(block, len(table.columns))
    if broken is not None:  # an earlier line may hold a wrong number, and comes first
        block = _first_lines(block, broken.row)
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


def _first_lines(block: bytes, number: int) -> bytes:
    return b"\n".join(block.split(b"\n", number)[:number])


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
        faults.append(_Fault(row, f"column {column.name}: got {_shown(text[row])}, want {wanted}"))
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
    report.add("outside", column.name, places[outside])
    if invalid.any():
        report.add("cleared", column.name, places[invalid])
        values = values.set(pl.Series(invalid), None)
    return values


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
