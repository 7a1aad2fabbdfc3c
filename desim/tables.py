"""Descriptions of recorded tables: their columns, with type, unit and meaning.

A problem lists its tables as `Table` objects of `Column` objects. Recording, reading, checks of types and nulls,
metrics, rules, figures, exports and the reference all use these descriptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from desim.checks import short_repr
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Column", "DataType", "Table", "arrival_number", "columns_of", "fault_of", "turnaround_time", "waiting_time"]

DataType = Literal["integer", "float", "boolean", "text", "floats", "texts"]
"""Type of a column: integers, numbers, booleans, strings, or a list of numbers or of strings per row."""


@dataclass(frozen=True)
class Column:
    """One column of a table, or one entry of the description of a run.

    Attributes
    ----------
    name : str
        Recorded name; with ``each``, it contains ``{}`` for the name of the thing.
    dtype : {"integer", "float", "boolean", "text", "floats", "texts"}
        Type of the values.
    meaning : str
        Meaning as a phrase, for the reference.
    unit : str
        Unit: ``"s"``, ``"slots"``, ``"cores"``; empty for plain numbers.
    null : str
        Phrase that says when the column is null; empty if it never is, or if ``given`` determines it.
    given : tuple of str
        Statuses of a row in which the column is not null; it is null in all others.
    values : tuple of str
        Allowed strings; empty for any.
    least, most : float or None
        Smallest and largest allowed number.
    finite : bool
        Whether infinite numbers are excluded.
    formula : str
        SQL expression of preceding columns that gives the column. Such a column is not recorded but computed when
        records become a table.
    each : str
        Entry of the run's description that lists the names with a column each, such as ``"resources"``; a mapping
        also tells the type of each.
    optional : bool
        Whether an entry of a description may be missing, because only some runs have it.
    only_with : str
        Entry of a run's description that a run must have for this column to exist.
    typed_by : str
        Entry of a run's description that replaces ``dtype``, in runs that have it.
    """

    name: str
    dtype: DataType
    meaning: str
    unit: str = ""
    null: str = ""
    given: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    finite: bool = True
    formula: str = ""
    each: str = ""
    optional: bool = False
    only_with: str = ""
    typed_by: str = ""

    @property
    def nullable(self) -> bool:
        """Whether the column is null in some rows."""
        return bool(self.null or self.given)

    def polars_type(self) -> pl.DataType:
        """Return the type that the column is recorded with."""
        import polars as pl

        if self.values:
            return pl.Enum(self.values)
        return {
            "integer": pl.Int64(),
            "float": pl.Float64(),
            "boolean": pl.Boolean(),
            "text": pl.String(),
            "floats": pl.List(pl.Float64()),
            "texts": pl.List(pl.String()),
        }[self.dtype]


@dataclass(frozen=True)
class Table:
    """Description of a table of a run.

    Attributes
    ----------
    name : str
        Name, such as ``"jobs"``.
    meaning : str
        What a row stands for.
    columns : tuple of Column
        Columns in order.
    sort_by : tuple of str
        Columns to sort the whole table by; none keeps the order of recording.
    chunk_rows : int
        Number of rows that are collected before they become a frame.
    pack : callable or None
        Converts a list of recorded rows and the run's description to columns by name: sequences, arrays or series.
        Strings with few different values may be given as an array of indices. Without it, a row is a tuple of all
        columns without a formula.
    status : str
        Column that holds the status of a row, see ``Column.given``.
    only_with : str
        Entry of the run's description that a run must have for this table to exist.
    deferred : bool
        Whether rows in memory stay as recorded until the table is read, because they become many more.
    info : mapping
        Description of the run, in a table that is bound to a run.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    sort_by: tuple[str, ...] = ()
    chunk_rows: int = 65_536
    pack: Callable[[list[Any], Mapping[str, Any]], Mapping[str, Any]] | None = None
    status: str = "status"
    only_with: str = ""
    deferred: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    def bound(self, info: Mapping[str, Any]) -> Table:
        """Return the table bound to a run, with one column for each name that the run's description lists.

        Parameters
        ----------
        info : mapping
            Description of the run.

        Returns
        -------
        Table
            Table in which ``each`` columns are replaced by one column per name.
        """
        columns = tuple(one for column in self.columns for one in _bound(column, info))
        return replace(self, columns=columns, info=info)

    def naming(self, names: Mapping[str, tuple[str, ...]]) -> Table:
        """Return the table with the strings that columns can hold in a run, by column name."""
        columns = (replace(one, values=names.get(one.name, one.values)) for one in self.columns)
        return replace(self, columns=tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def recorded(self) -> tuple[Column, ...]:
        """Columns without a formula."""
        return tuple(column for column in self.columns if not column.formula)

    def __getitem__(self, name: str) -> Column:
        """Return a column by name; raise KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def to_frame(self, rows: list[Any]) -> pl.DataFrame:
        """Return recorded rows as a frame with all columns.

        Parameters
        ----------
        rows : list
            Rows as `pack` expects them; without rows, the frame still has all columns.

        Returns
        -------
        polars.DataFrame
            Frame in the order of recording.
        """
        if not rows:
            return _empty(tuple((column.name, column.dtype, column.values) for column in self.columns)).clone()
        if self.pack is not None:
            return self.frame(self.pack(rows, self.info).__getitem__)
        names = (column.name for column in self.recorded)
        return self.frame(dict(zip(names, columns_of(rows, len(self.recorded)), strict=True)).__getitem__)

    def frame(self, column_of: Callable[[str], Any], names: Sequence[str] | None = None) -> pl.DataFrame:
        """Return a frame of columns, of which those with a formula are computed from the others.

        Parameters
        ----------
        column_of : callable
            Returns the values of a recorded column by name: a sequence, an array or a series, as `pack` does.
        names : sequence of str, optional
            Columns to include; only what they need is asked for. Default: all.

        Returns
        -------
        polars.DataFrame
            Frame of the columns.
        """
        import polars as pl

        chosen = self.names if names is None else names
        needed = set(chosen)
        for column in reversed(self.columns):  # formulas name recorded columns, and earlier ones with a formula
            if column.formula and column.name in needed:
                needed.update(_roots(column.formula))
        frame = pl.DataFrame([_series(one, column_of(one.name)) for one in self.recorded if one.name in needed])
        together: dict[str, pl.Expr] = {}  # computed in one query, which costs more than the numbers of a small run
        for column in self.columns:
            if column.formula and column.name in needed:
                if not together.keys().isdisjoint(_roots(column.formula)):
                    frame, together = frame.with_columns(**together), {}
                together[column.name] = _formula(column.formula)
        if together:
            frame = frame.with_columns(**together)
        return frame if tuple(frame.columns) == tuple(chosen) else frame.select(chosen)

    def select(self, frame: pl.DataFrame | pl.LazyFrame, *columns: str) -> pl.DataFrame:
        """Return the given columns of the recorded table; only these are read.

        Parameters
        ----------
        frame : polars.DataFrame or polars.LazyFrame
            Recorded table.
        *columns : str
            Names of the columns.

        Returns
        -------
        polars.DataFrame
            Frame of the columns.

        Raises
        ------
        InvalidConfiguration
            If a column is missing.
        """
        lazy = frame.lazy()
        missing = set(columns) - set(lazy.collect_schema().names())
        if missing:
            raise InvalidConfiguration(f"the table {self.name} lacks the columns {', '.join(sorted(missing))}")
        return lazy.select(columns).collect()

    def faults(self, frame: pl.DataFrame) -> Iterator[str]:
        """Yield the faults of a recorded table's columns: missing, wrong type, null, infinite or unknown value.

        Parameters
        ----------
        frame : polars.DataFrame
            Recorded table.

        Yields
        ------
        str
            Sentence with table, column and row; nothing if there is no fault. Undescribed columns are ignored.
        """
        for column in self.columns:
            if column.name not in frame.columns:
                yield f"table {self.name} has no column {column.name}"
            else:
                yield from (f"table {self.name}, column {column.name}: {text}" for text in _faults(column, frame))


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return rows transposed to columns.

    Parameters
    ----------
    rows : sequence of sequences
        n rows of equal length.
    width : int
        Number of columns to return: the first ones, or all.

    Returns
    -------
    list of list
        ``width`` columns of n values each.
    """
    columns: list[list[Any]] = [[] for _ in range(width)]
    for begin in range(0, len(rows), 256):  # this number of rows fits into the processor's cache
        for column, values in zip(columns, zip(*rows[begin : begin + 256], strict=True), strict=False):
            column.extend(values)
    return columns


def arrival_number(meaning: str = "number of earlier arrivals; identifies a job", null: str = "") -> Column:
    """Return the column that identifies jobs in every table, whatever their identifiers.

    Parameters
    ----------
    meaning : str
        Meaning, where the number is not that of the row's own job.
    null : str
        Phrase that says when the column is null.

    Returns
    -------
    Column
        ``arrival_number``.
    """
    return Column("arrival_number", "integer", meaning, null=null, least=0)


def waiting_time(given: tuple[str, ...], unit: str = "s", meaning: str = "from submission to the start") -> Column:
    """Return the column of the jobs' waiting times.

    Parameters
    ----------
    given : tuple of str
        Statuses of jobs that have started.
    unit : str
        Unit of time.
    meaning : str
        Meaning, for jobs that can start more than once.

    Returns
    -------
    Column
        ``waiting_time``.
    """
    formula = "starting_time - submission_time"
    return Column("waiting_time", "float", meaning, unit=unit, given=given, formula=formula)


def turnaround_time(given: tuple[str, ...], unit: str = "s") -> Column:
    """Return the column of the jobs' turnaround times.

    Parameters
    ----------
    given : tuple of str
        Statuses of jobs that have ended.
    unit : str
        Unit of time.

    Returns
    -------
    Column
        ``turnaround_time``.
    """
    formula = "finish_time - submission_time"
    return Column("turnaround_time", "float", "from submission to the end", unit=unit, given=given, formula=formula)


def fault_of(column: Column, info: Mapping[str, Any]) -> str:
    """Return the fault of an entry of a run's description.

    Parameters
    ----------
    column : Column
        Description of the entry.
    info : mapping
        Description of the run.

    Returns
    -------
    str
        Sentence; empty if there is no fault.
    """
    kinds: dict[str, tuple[type, ...]] = {"integer": (int,), "float": (int, float), "boolean": (bool,), "text": (str,)}
    value: Any = info.get(column.name)
    allowed = kinds.get(column.dtype, (list, dict))
    wanted = [kind.__name__ for kind in allowed] + ["NoneType"] * column.nullable
    if value is None and (column.nullable if column.name in info else column.optional):
        return ""
    is_kind = isinstance(value, allowed) and (column.dtype == "boolean" or type(value) is not bool)
    if not is_kind:
        return f"{column.name}: got {short_repr(value)}, expected {' or '.join(wanted)}"
    if column.values and value not in column.values:
        return f"{column.name}: got {short_repr(value)}, expected one of {', '.join(column.values)}"
    if column.least is not None and not column.least <= value < math.inf:
        return f"{column.name}: got {short_repr(value)}, expected a value >= {column.least:g}"
    if column.most is not None and value > column.most:
        return f"{column.name}: got {short_repr(value)}, expected a value <= {column.most:g}"
    return _fault_of_parts(column, value) if isinstance(value, list | dict) else ""


def _fault_of_parts(column: Column, value: list[Any] | dict[str, Any]) -> str:
    """Return the fault of the parts of an entry."""
    kinds = (str,) if column.dtype == "texts" else (int, float, type(None))
    for part in value if isinstance(value, list) else value.values():
        is_type = not isinstance(value, dict) or part in get_args(DataType)  # a type by name, for columns with ``each``
        if not isinstance(part, kinds) or isinstance(part, bool) or not is_type:
            return f"{column.name}: got {short_repr(part)}, expected {column.dtype}"
    return ""


def _bound(column: Column, info: Mapping[str, Any]) -> Iterable[Column]:
    if column.typed_by:
        column = replace(column, dtype=info.get(column.typed_by, column.dtype))
    if not column.each:
        return () if column.only_with and column.only_with not in info else (column,)
    names = info.get(column.each, ())
    kinds = names if isinstance(names, Mapping) else dict.fromkeys(names, column.dtype)
    return (
        replace(column, name=column.name.format(name), dtype=kind, formula=column.formula.format(name), each="")
        for name, kind in kinds.items()
    )


def _series(column: Column, values: Any) -> pl.Series:
    import polars as pl

    if isinstance(values, pl.Series) and values.dtype == column.polars_type():
        return values.alias(column.name)
    if column.values and isinstance(values, np.ndarray) and values.dtype.kind in "ui":
        return pl.Series(column.name, column.values, dtype=column.polars_type()).gather(values)
    strict = column.dtype in ("text", "floats", "texts")
    may_be_nan = column.dtype == "float" and column.nullable and isinstance(values, np.ndarray)  # lists hold None
    return pl.Series(column.name, values, dtype=column.polars_type(), strict=strict, nan_to_null=may_be_nan)


@cache
def _empty(columns: tuple[tuple[str, DataType, tuple[str, ...]], ...]) -> pl.DataFrame:
    """Return a frame without rows for names, types and values of columns; every run has such tables."""
    import polars as pl

    return pl.DataFrame(schema={name: Column(name, dtype, "", values=of).polars_type() for name, dtype, of in columns})


@cache
def _formula(text: str) -> pl.Expr:
    import polars as pl

    return pl.sql_expr(text)


@cache
def _roots(text: str) -> frozenset[str]:
    """Return the columns that a formula names."""
    return frozenset(_formula(text).meta.root_names())


def _faults(column: Column, frame: pl.DataFrame) -> Iterator[str]:
    """Yield the faults of an existing column; of several kinds of faults, only the first."""
    values = frame[column.name]
    if not _fits(column, values.dtype):
        yield f"got {values.dtype}, expected {column.dtype}"
    elif not column.nullable and values.null_count():
        row = int(values.is_null().to_numpy().argmax())
        yield f"got {values.null_count()} nulls, the first in row {row}"
    elif column.dtype == "float" and not _numbers(column, values).all():
        row = int(_numbers(column, values).argmin())
        yield f"got {values[row]} in row {row}, expected a {'finite ' * column.finite}number"
    elif column.values and values.dtype != column.polars_type():
        for text in values.drop_nulls().unique(maintain_order=True):
            if text not in column.values:
                yield f"got {text!r}, expected one of {column.values}"


def _numbers(column: Column, values: pl.Series) -> NDArray[np.bool_]:
    """Return which values are null, or numbers that are finite where the column requires it."""
    array = (values.fill_null(0.0) if values.null_count() else values).to_numpy()
    numbers: NDArray[np.bool_] = np.isfinite(array) if column.finite else ~np.isnan(array)
    return numbers


def _fits(column: Column, dtype: pl.DataType) -> bool:
    import polars as pl

    if column.dtype == "integer":
        return dtype.is_integer()
    if column.dtype == "float":
        return dtype.is_float()
    if column.dtype == "text":
        return dtype in (pl.String, pl.Enum, pl.Categorical)
    return dtype == column.polars_type()
