"""Append-only records: rows go in, polars tables come out, in memory or in Parquet files written chunk by chunk.

A run appends plain tuples, which is cheap. Every ``chunk_rows`` rows become a polars frame.
Frames stay in memory or, with a directory, are written to ``DIR/TABLE/part-NNNNNN.parquet``, so
that memory does not grow with the length of the run. ``DIR/result.json`` states how the run ended;
during the run, and after a crash, it says ``"running"``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from functools import cached_property, lru_cache, partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from desim.checks import short_repr
from desim.exceptions import RecordError
from desim.files import StorageError, locked, read_json, remove_leftovers, write_atomically

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from desim.tables import Table

__all__ = [
    "INFO_FILE",
    "Parts",
    "Records",
    "TableWriter",
    "close_cut",
    "create_directory",
    "is_plain_name",
    "make_directory",
    "portions_of",
    "read_info",
    "table_directory",
]

INFO_FILE = "result.json"
PARTS = "complete_parts"
"""Entry of the description of a run under way: number of complete parts of each table."""
FORMAT_VERSION = 1

UNSUSPICIOUS, RATIO = 1 << 24, 200
"""Number of bytes that a table may always take, and the largest ratio to the size of its files beyond it."""
SMALL, SHORT = 1 << 20, 1 << 12
"""Number of bytes up to which a table is read as a whole, and up to which a part may be one without rows."""

PORTION_ROWS = 16_384
"""Approximate number of rows read at a time where a table is not read as a whole."""


class TableWriter:
    """Writer of one append-only table of a run.

    Parameters
    ----------
    table : Table
        Description of the table, bound to the run.
    directory : Path, optional
        Directory for the parts; None keeps them in memory.
    write_all : callable, optional
        Called when a part in the directory is full; it writes the rows of all tables.
    """

    def __init__(self, table: Table, directory: Path | None, write_all: Callable[[], object] | None = None) -> None:
        self._table, self._write_all = table, write_all
        self._chunk_rows = table.chunk_rows
        self._defers = table.deferred and directory is None
        self._directory = directory
        self._rows: list[Any] = []
        self._held = 0
        self._frames: list[pl.DataFrame] = []
        self._elsewhere: list[Path] = []  # parts written by the simulation that this one was forked from
        self._parts = 0
        if directory is not None:
            self._flush()  # an empty part, so that the table has its columns even after a crash

    def describe_again(self, table: Table) -> None:
        """Replace the description of the table, unless it has rows already."""
        if self._parts <= 1 and not self._rows:
            self._table, self._parts = table, 0
            if self._directory is not None:
                self._flush()

    def append(self, row: Any, size: int = 1) -> None:
        """Add a row in the form that the table's ``to_frame`` expects; ``size`` is the number of rows it stands for."""
        self._rows.append(row)
        self._held += size
        if self._held >= self._chunk_rows and not self._defers:
            (self._flush if self._directory is None or self._write_all is None else self._write_all)()

    def flush(self) -> int:
        """Write the rows that are held, if any, and return the number of parts."""
        if self._rows:
            self._flush()
        return self._parts

    def extend(self, frame_of: Callable[[int, int], pl.DataFrame], height: int) -> Iterator[int]:
        """Write computed rows to files, in parts of the usual size, and yield the number of rows after each part."""
        assert self._directory is not None and not self._rows
        for begin in range(0, height, self._chunk_rows):
            end = min(begin + self._chunk_rows, height)
            write_atomically(self._directory / _part(self._parts), frame_of(begin, end).write_parquet)
            self._parts += 1
            yield end

    @property
    def extent(self) -> tuple[int, int]:
        """Number of parts and of rows so far; the pair changes whenever a row is added."""
        return self._parts, len(self._rows)

    def copied(self) -> TableWriter:
        """Return a writer that continues in memory from the rows recorded so far."""
        other = copy(self)
        other._rows, other._frames, other._directory = self._rows.copy(), self._frames.copy(), None
        if self._directory is not None:
            other._elsewhere = [self._directory / _part(number) for number in range(self._parts)]
        return other

    def _flush(self) -> None:
        frame = self._table.to_frame(self._rows)
        self._rows, self._held = [], 0
        if self._directory is None:
            self._frames.append(frame)
        elif len(frame):
            write_atomically(self._directory / _part(self._parts), frame.write_parquet)
        else:
            content = _empty_part(tuple(frame.schema.items()))
            write_atomically(self._directory / _part(self._parts), lambda path: path.write_bytes(content))
        self._parts += 1

    def close(self) -> pl.LazyFrame | Parts:
        """Write the remaining rows and return the whole table, sorted: a lazy frame, or the files that contain it."""
        import polars as pl

        if self._defers and not self._parts:
            pack = partial(self._table.to_frame, self._rows)
            return pl.defer(pack, schema=self._table.to_frame([]).schema)
        if self._rows or not self._parts:
            self._flush()
        if self._directory is not None:
            return Parts(self._directory, self._table.sort_by)
        if self._elsewhere:
            table = pl.concat([pl.scan_parquet(self._elsewhere, glob=False), *(frame.lazy() for frame in self._frames)])
        else:
            table = (pl.concat(self._frames) if len(self._frames) > 1 else self._frames[0]).lazy()
        return table.sort(self._table.sort_by, maintain_order=True) if self._table.sort_by else table


class Records:
    """All tables of a run.

    Parameters
    ----------
    tables : mapping of str to Table
        Descriptions of the tables by name, bound to the run.
    out : path or None
        Directory for Parquet files; None keeps the records in memory.
    info : mapping
        Description of the run at its beginning.
    now : callable
        Returns the current time of the run.

    Raises
    ------
    RecordError
        If the directory already contains a result or cannot be written.
    """

    def __init__(
        self,
        tables: Mapping[str, Table],
        out: str | os.PathLike[str] | None,
        info: Mapping[str, Any],
        now: Callable[[], float] = float,
    ) -> None:
        self.info, self._now = dict(info), now
        self._out = None if out is None else Path(out)
        self._sorting = {name: list(table.sort_by) for name, table in tables.items()}
        self._lock = ExitStack()
        if self._out is not None:
            self._lock.enter_context(locked(self._out))
            create_directory(self._out, tables)
            write_info(self._out, {**info, "status": "running"}, self._sorting)
        self.tables = {
            name: TableWriter(table, self._out and self._out / name, self._write_all) for name, table in tables.items()
        }

    def describe_again(self, tables: Mapping[str, Table], info: Mapping[str, Any]) -> None:
        """Replace the descriptions of tables that have no rows yet, once a run knows more about its workload."""
        self.info |= info
        for name, table in tables.items():
            self.tables[name].describe_again(table)
        if self._out is not None:
            write_info(self._out, {**self.info, "status": "running"}, self._sorting)

    def extend(self, name: str, frame_of: Callable[[int, int], pl.DataFrame], times: NDArray[np.float64]) -> None:
        """Write the rows of a run that has been computed as a whole; what ends this leaves complete parts.

        Parameters
        ----------
        name : str
            Name of the table.
        frame_of : callable
            Returns the rows from one number to another as a frame.
        times : array, shape (rows,)
            Time until which the run is recorded with each row.
        """
        assert self._out is not None
        try:
            for height in self.tables[name].extend(frame_of, len(times)):
                self._tell_parts(float(times[height - 1]))
        except KeyboardInterrupt:
            self._lock.close()
            with suppress(RecordError):  # before the first part
                close_cut(self._out)
            raise

    def _write_all(self) -> None:
        """Write a part of the whole run: the rows of all tables so far."""
        self._tell_parts(self._now())

    def _tell_parts(self, time: float) -> None:
        """Write the rows that are held, and then that all rows up to a time are complete."""
        if self._out is not None:
            parts = {name: table.flush() for name, table in self.tables.items()}
            write_info(self._out, self.info | {"status": "running", "end_time": time, PARTS: parts}, self._sorting)

    def copied(self) -> Records:
        """Return records that continue in memory from the rows recorded so far."""
        other = copy(self)
        other._out, other._lock = None, ExitStack()
        other.tables = {name: table.copied() for name, table in self.tables.items()}
        return other

    def close(self, info: Mapping[str, Any]) -> dict[str, pl.LazyFrame | Parts]:
        """Write the remaining rows, store how the run ended, and return the tables."""
        tables = {name: table.close() for name, table in self.tables.items()}
        if self._out is not None:
            write_info(self._out, info, self._sorting)
        self._lock.close()
        return tables


def create_directory(path: Path, tables: Mapping[str, Any]) -> None:
    """Create an empty result directory with one folder per table.

    Parameters
    ----------
    path : Path
        Path of the directory.
    tables : mapping
        Tables by name; only the names are used.

    Raises
    ------
    RecordError
        If the directory already contains a result or cannot be created, or the name of a table leads out of it.
    """
    if (path / INFO_FILE).exists():
        raise RecordError(f"{path} already contains a result; choose another directory or remove it first")
    places = [table_directory(path, name) for name in tables]
    try:
        for place in places:
            place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create {path}: {error.strerror}") from error


def make_directory(directory: Path) -> None:
    """Create a directory if it does not exist.

    Parameters
    ----------
    directory : Path
        The directory; missing parents are created, too.

    Raises
    ------
    RecordError
        If it cannot be created.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot create {directory}: {error.strerror}") from error


def is_plain_name(name: str) -> bool:
    """Return whether a name read from a file refers to something directly beside the file.

    Parameters
    ----------
    name : str
        Name of a file or directory.

    Returns
    -------
    bool
        Whether the name has no separators and is not empty, ``"."`` or ``".."``.

    Examples
    --------
    >>> is_plain_name("jobs"), is_plain_name("../jobs"), is_plain_name("/jobs")
    (True, False, False)
    """
    return name not in ("", ".", "..") and not any(letter in name for letter in "/\\\0")


def table_directory(directory: Path, name: str) -> Path:
    """Return the folder of a table in the directory of a result.

    Parameters
    ----------
    directory : Path
        Directory of the result.
    name : str
        Name of the table, possibly read from a file.

    Returns
    -------
    Path
        Folder directly in the directory; it need not exist.

    Raises
    ------
    RecordError
        If the name leads elsewhere, or the folder is a link.
    """
    if not is_plain_name(name):
        raise RecordError(f"{directory}: name of a table: got {name!r}, expected a name without separators")
    place = directory / name
    if place.is_symlink():
        raise RecordError(f"{place}: got a link, expected the folder of a table; only files of the result are touched")
    return place


class Parts:
    """Table in Parquet files, read as a whole or in portions.

    Parameters
    ----------
    directory : Path
        Directory with the parts.
    sort_by : sequence of str
        Columns to sort the table by; none keeps the order of recording.

    Raises
    ------
    RecordError
        If the directory contains no part.
    """

    def __init__(self, directory: Path, sort_by: Sequence[str] = ()) -> None:
        self.directory = directory
        self._paths = sorted(directory.glob("part-*.parquet"))
        if not self._paths:
            raise RecordError(f"{directory} contains no part of a table")
        for path in self._paths:
            if path.is_symlink() or not path.is_file():
                raise RecordError(f"{path}: expected a plain file")
            path.open("rb").close()  # a run that uses this table is stored with it, and Polars opens files unnoticed
        self.sort_by = list(sort_by)

    @cached_property
    def height(self) -> int:
        """Number of rows."""
        import polars as pl

        with _readable(self.directory):
            return int(_scan(self._paths).select(pl.len()).collect().item())

    @cached_property
    def small(self) -> pl.DataFrame | None:
        """The whole table, sorted, if it fits into one portion: to read it once is cheaper than to ask its files again.

        None for a longer table.
        """
        import polars as pl

        if sum(path.stat().st_size for path in self._paths) > SMALL:
            return None
        with _readable(self.directory):
            contents = [path.read_bytes() for path in self._paths]
            parts = [(_read_short if len(one) <= SHORT else _read_part)(one, PORTION_ROWS + 1) for one in contents]
            if sum(map(len, parts)) > PORTION_ROWS:
                return None
            table = pl.concat(parts)
            return table.sort(self.sort_by, maintain_order=True) if self.sort_by and len(table) > 1 else table

    def collect(self) -> pl.DataFrame:
        """Return the whole table, sorted, in memory."""
        with _readable(self.directory):
            return self.scan().collect()

    def scan(self) -> pl.LazyFrame:
        """Return the whole table, sorted, as a lazy frame."""
        self._check_size()
        return _sorted(_scan(self._paths), self.sort_by)

    def _check_size(self) -> None:
        """Raise RecordError if the table has far more rows than desim would write into its files."""
        with _readable(self.directory):
            size = 8 * self.height * len(_scan(self._paths[:1]).collect_schema())
        content = sum(path.stat().st_size for path in self._paths)
        if size > max(UNSUSPICIOUS, RATIO * content):
            raise RecordError(f"{self.directory}: has {self.height:,} rows in {content:,} bytes, expected fewer")

    def portions(
        self, columns: Sequence[str] | None = None, *, by: Sequence[str] = (), in_order: bool = True
    ) -> Iterator[pl.DataFrame]:
        """Yield the table in portions.

        The values of the first sorting column in every part determine the range of values of each portion, and which
        parts contribute to it: few, if the order is close to that of recording.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to include; default: all.
        by : sequence of str
            Columns to sort by; equal rows keep the order of the table.
        in_order : bool
            Whether to sort; otherwise rows come in the order of recording, which is faster.

        Yields
        ------
        polars.DataFrame
            About `PORTION_ROWS` rows; all rows with the same value in the first sorting column come together.
            At least one portion is yielded, which may be empty.
        """
        self._check_size()
        with _readable(self.directory):
            yield from self._portions(columns, by, in_order)

    def _portions(self, columns: Sequence[str] | None, by: Sequence[str], in_order: bool) -> Iterator[pl.DataFrame]:
        import polars as pl

        order = [*by, *self.sort_by] if in_order else []
        wanted = pl.all() if columns is None else pl.col(columns)
        if not order:
            for path in self._paths:
                yield _scan([path]).select(wanted).collect()
            return
        key, spans = pl.col(order[0]), [_Span.of(path, order[0]) for path in self._paths]
        for low, high in _borders(spans):
            inside = pl.lit(True)
            if low is not None:
                inside &= ~(key < low)  # unlike >=, this is true for NaN, which is sorted last
            if high is not None:
                inside &= (key < high) | (key.is_null() & (low is None))  # nulls are sorted first
            paths = [path for path, span in zip(self._paths, spans, strict=True) if span.reaches(low, high)]
            if paths or low is None:
                yield _sorted(_scan(paths or self._paths[:1]).filter(inside), order).select(wanted).collect()


class _Span(NamedTuple):
    """Content of a part in the first sorting column: sampled values, ascending, and whether there are nulls."""

    values: pl.Series
    has_nulls: bool
    rows: int

    @classmethod
    def of(cls, path: Path, column: str) -> _Span:
        import polars as pl

        found = _scan([path]).select(column).collect()[column].sort()
        known = found.drop_nulls()
        # Every 64th value is enough for the borders; the first and last value show which portions the part belongs to.
        return cls(pl.concat([known.gather_every(64), known.tail(1)]), len(known) < len(found), len(found))

    def reaches(self, low: Any, high: Any) -> bool:
        """Return whether the part has rows between two borders; None means no border."""
        if self.has_nulls and low is None:
            return True
        if self.values.is_empty():
            return False
        above = low is None or not self.values[-1] < low
        return above and (high is None or bool(self.values[0] < high))


def _borders(spans: Sequence[_Span]) -> Iterator[tuple[Any, Any]]:
    """Yield the ranges of values of the portions, as pairs of an included and an excluded border."""
    import polars as pl

    rows = sum(span.rows for span in spans)
    values = pl.concat([span.values for span in spans]).sort()
    count = -(-rows // PORTION_ROWS)
    places = [len(values) * portion // count for portion in range(1, count)] if len(values) else []
    borders = values.gather(places).unique(maintain_order=True)
    if borders.dtype.is_float():
        borders = borders.drop_nans()
    yield from pairwise([None, *borders, None])


def portions_of(
    table: pl.DataFrame, columns: Sequence[str] | None = None, *, by: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """Yield a table in memory in portions, as `Parts.portions` does for files.

    Parameters
    ----------
    table : polars.DataFrame
        Sorted table.
    columns : sequence of str, optional
        Columns to include; default: all.
    by : sequence of str
        Columns to sort by; equal rows keep the order of the table.

    Yields
    ------
    polars.DataFrame
        Some rows. At least one portion is yielded, which may be empty.
    """
    names = table.columns if columns is None else list(columns)
    if by:
        table = table.select(list(dict.fromkeys([*names, *by]))).sort(by, maintain_order=True)
    if names != table.columns:
        table = table.select(names)
    yield table.head(PORTION_ROWS)
    for begin in range(PORTION_ROWS, len(table), PORTION_ROWS):
        yield table[begin : begin + PORTION_ROWS]


@lru_cache(maxsize=64)  # every run begins with the same
def _empty_part(schema: tuple[tuple[str, pl.DataType], ...]) -> bytes:
    """Return the content of a part without rows."""
    import polars as pl

    content = BytesIO()
    pl.DataFrame(schema=dict(schema)).write_parquet(content)
    return content.getvalue()


def _read_part(content: bytes, rows: int) -> pl.DataFrame:
    """Return the first rows of a part of a table."""
    import polars as pl

    return pl.read_parquet(BytesIO(content), n_rows=rows)


_read_short = lru_cache(maxsize=64)(_read_part)  # many runs have the same parts without rows


@contextmanager
def _readable(directory: Path) -> Iterator[None]:
    """Raise RecordError if a table cannot be read while the block runs."""
    try:
        yield
    except BaseException as error:
        if type(error).__module__.partition(".")[0] not in ("polars", "pyo3_runtime"):  # its panics are no Exceptions
            raise
        raise RecordError(f"{directory}: the table cannot be read: {str(error).partition(chr(10))[0]}") from error


def _scan(paths: list[Path]) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(paths, glob=False)


def _sorted(table: pl.LazyFrame, columns: Sequence[str]) -> pl.LazyFrame:
    return table.sort(columns, maintain_order=True) if columns else table


def _part(number: int) -> str:
    """Return the file name of a part of a table."""
    return f"part-{number:06d}.parquet"


def write_info(directory: Path, info: Mapping[str, Any], sorting: Mapping[str, list[str]]) -> None:
    """Write ``result.json``: the description of the run, and its tables with their sorting columns."""
    text = json.dumps({"format": FORMAT_VERSION, **info, "tables": dict(sorting)}, indent=2) + "\n"
    write_atomically(directory / INFO_FILE, lambda path: path.write_text(text))


def close_cut(directory: Path) -> int:
    """Close the records of a run that was cut, by a power failure or SIGKILL, at the last part of all its tables.

    Parameters
    ----------
    directory : Path
        Directory of the run. No other program may be writing to it.

    Returns
    -------
    int
        Number of files that were dropped, because parts of other tables did not reach the disk.

    Raises
    ------
    RecordError
        If the run has ended by itself, no part was complete, or parts are missing.
    """
    with locked(directory):
        info = read_info(directory)
        sorting, parts = info.pop("tables"), info.pop(PARTS, None)
        if info.get("status") != "running":
            raise RecordError(f"{directory}: the run has ended with status {info.get('status')!r}; it is complete")
        if not isinstance(parts, dict) or parts.keys() != sorting.keys():
            raise RecordError(f"{directory}: the run was cut before a part was complete; run it again with --force")
        further = []
        for name, count in parts.items():
            folder = table_directory(directory, name)
            remove_leftovers(folder)
            there = sorted(folder.glob("part-*.parquet"))
            if not isinstance(count, int) or [path.name for path in there[:count]] != list(map(_part, range(count))):
                raise RecordError(f"{folder}: expected {short_repr(count)} parts; some are missing")
            further += there[count:]
        for path in further:
            path.unlink()
        remove_leftovers(directory)
        info.pop("format")
        write_info(directory, {**info, "status": "interrupted", "is_cut": True}, sorting)
    return len(further)


def read_info(directory: Path) -> dict[str, Any]:
    """Read ``result.json``.

    Parameters
    ----------
    directory : Path
        Directory of a result.

    Returns
    -------
    dict
        Description of the run; its entry ``tables`` holds the tables with their sorting columns.

    Raises
    ------
    RecordError
        If there is none, it is not JSON, it was written by a newer desim, or its tables are elsewhere or no lists.
    """
    path = directory / INFO_FILE
    try:
        info = read_json(path)
    except OSError as error:
        raise RecordError(
            f"no result in {directory}: {path.name}: {error.strerror}; `desim run --out {directory}` writes one"
        ) from error
    except ValueError as error:
        raise RecordError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(info, dict) or info.get("format") != FORMAT_VERSION or not isinstance(info.get("tables"), dict):
        raise RecordError(f"{path}: expected a result of format {FORMAT_VERSION}")
    for name, columns in info["tables"].items():
        table_directory(directory, name)
        if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
            raise RecordError(f"{path}: table {name!r}: got {short_repr(columns)}, expected a list of columns")
    return info
