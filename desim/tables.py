"""What a run records, said once: the columns of its tables, with type, unit and meaning.

A problem lists its tables as `Table` objects of `Column` objects. Recording, reading back, checks of types and nulls,
metrics, rules, figures, exports and the reference take from there whatever they have to know of a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Column", "DataType", "Table", "arrival_number", "columns_of", "fault_of", "turnaround_time", "waiting_time"]

DataType = Literal["integer", "float", "boolean", "text", "floats", "texts"]
"""What a column can hold: whole numbers, numbers, truth values, text, or a list of numbers or of texts in each row."""


@dataclass(frozen=True)
class Column:
    """One column of a table, or one entry of the description of a run.

    Attributes
    ----------
    name : str
        As it is recorded; with ``each``, it holds ``{}`` for the name of the thing.
    dtype : {"integer", "float", "boolean", "text", "floats", "texts"}
        What it holds.
    meaning : str
        A phrase for the reference.
    unit : str
        ``"s"``, ``"slots"``, ``"cores"``; empty for plain numbers.
    null : str
        When it is null, as a phrase; empty if it never is, or if ``given`` says so.
    given : tuple of str
        The statuses of a row in which it is not null; in all others it is.
    values : tuple of str
        The texts that it can hold; empty for any.
    least : float or None
        The smallest number that makes sense.
    finite : bool
        Whether it has no infinite numbers.
    formula : str
        What it follows from: an expression of SQL over columns that stand before it. It is then not recorded but
        computed when records become a table.
    each : str
        The entry of the run's description that lists the names for which there is a column, such as ``"resources"``.
    optional : bool
        Of an entry of a description, whether it may be missing: what only some runs have.
    """

    name: str
    dtype: DataType
    meaning: str
    unit: str = ""
    null: str = ""
    given: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    least: float | None = None
    finite: bool = True
    formula: str = ""
    each: str = ""
    optional: bool = False

    @property
    def nullable(self) -> bool:
        """Whether it is null in some rows."""
        return bool(self.null or self.given)

    def polars_type(self) -> pl.DataType:
        """Return the type with which it is recorded."""
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
    """A table of a run.

    Attributes
    ----------
    name : str
        Such as ``"jobs"``.
    meaning : str
        What a row stands for.
    columns : tuple of Column
        In order.
    sort_by : tuple of str
        Columns that give the whole table its order, whatever the order of recording; none keeps that order.
    chunk_rows : int
        Rows that are held as they were recorded before they become a frame.
    pack : callable or None
        Turns a list of recorded rows and the run's description into columns by name: sequences, arrays or series; texts
        of which there are few may be given as an array of their indices. Without one, a row is a tuple of all columns
        that have no formula.
    status : str
        The column that tells what has become of a row, see ``Column.given``.
    only_with : str
        The entry of a run's description without which the run has no such table.
    info : mapping
        The run's description, of a table that is bound to a run.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    sort_by: tuple[str, ...] = ()
    chunk_rows: int = 65_536
    pack: Callable[[list[Any], Mapping[str, Any]], Mapping[str, Any]] | None = None
    status: str = "status"
    only_with: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)

    def bound(self, info: Mapping[str, Any]) -> Table:
        """Return the table of a run: with a column for each thing that the run's description lists.

        Parameters
        ----------
        info : mapping
            The description.

        Returns
        -------
        Table
            Without columns that stand for several.
        """
        columns = tuple(one for column in self.columns for one in _bound(column, info))
        return replace(self, columns=columns, info=info)

    def naming(self, names: Mapping[str, tuple[str, ...]]) -> Table:
        """Return the table with the texts that columns can hold in a run, by their names."""
        columns = (replace(one, values=names.get(one.name, one.values)) for one in self.columns)
        return replace(self, columns=tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def recorded(self) -> tuple[Column, ...]:
        """The columns that have no formula."""
        return tuple(column for column in self.columns if not column.formula)

    def __getitem__(self, name: str) -> Column:
        """Return a column by name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def to_frame(self, rows: list[Any]) -> pl.DataFrame:
        """Return recorded rows as a frame with all columns.

        Parameters
        ----------
        rows : list
            As `pack` expects them; of no rows, the frame has the right columns all the same.

        Returns
        -------
        polars.DataFrame
            In the order of recording.
        """
        import polars as pl

        recorded = self.recorded
        if self.pack is not None:
            columns = self.pack(rows, self.info)
        else:
            names = (column.name for column in recorded)
            columns = dict(zip(names, columns_of(rows, len(recorded)), strict=True))
        frame = pl.DataFrame([_series(column, columns[column.name]) for column in recorded])
        if len(recorded) == len(self.columns):
            return frame
        for column in self.columns:
            if column.formula:
                frame = frame.with_columns(_formula(column.formula).alias(column.name))
        return frame.select(self.names)

    def select(self, frame: pl.DataFrame | pl.LazyFrame, *columns: str) -> pl.DataFrame:
        """Read columns of the recorded table, and no others.

        Parameters
        ----------
        frame : polars.DataFrame or polars.LazyFrame
            The table.
        *columns : str
            Names.

        Returns
        -------
        polars.DataFrame
            The columns.

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
        """Say what is wrong with the columns of a recorded table: missing, of another type, null, infinite, unknown.

        Parameters
        ----------
        frame : polars.DataFrame
            The table.

        Yields
        ------
        str
            Names table, column and row; nothing if all is well. Columns that are not described do no harm.
        """
        for column in self.columns:
            if column.name not in frame.columns:
                yield f"table {self.name} has no column {column.name}"
            else:
                yield from (f"column {column.name} of table {self.name} {text}" for text in _faults(column, frame))


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Turn rows into columns.

    Parameters
    ----------
    rows : sequence of sequences
        n rows of one length.
    width : int
        Their length.

    Returns
    -------
    list of list
        The columns, ``width`` of them, with n values each.
    """
    columns: list[list[Any]] = [[] for _ in range(width)]
    for begin in range(0, len(rows), 256):  # so many rows stay in the processor's cache
        for column, values in zip(columns, zip(*rows[begin : begin + 256], strict=True), strict=True):
            column.extend(values)
    return columns


def arrival_number(meaning: str = "how many jobs arrived before this one: tells jobs apart", null: str = "") -> Column:
    """Return the column that tells jobs apart in every table, whatever their identifiers.

    Parameters
    ----------
    meaning : str
        Where it is not the number of the row's own job.
    null : str
        When it is null.

    Returns
    -------
    Column
        ``arrival_number``.
    """
    return Column("arrival_number", "integer", meaning, null=null, least=0)


def waiting_time(given: tuple[str, ...], unit: str = "s", meaning: str = "from submission to the start") -> Column:
    """Return the column of how long jobs waited.

    Parameters
    ----------
    given : tuple of str
        The statuses of jobs that have one: those that have started.
    unit : str
        Of time.
    meaning : str
        What it is, where jobs start more than once.

    Returns
    -------
    Column
        ``waiting_time``.
    """
    formula = "starting_time - submission_time"
    return Column("waiting_time", "float", meaning, unit=unit, given=given, formula=formula)


def turnaround_time(given: tuple[str, ...], unit: str = "s") -> Column:
    """Return the column of how long jobs were in the system.

    Parameters
    ----------
    given : tuple of str
        The statuses of jobs that have one: those that have ended.
    unit : str
        Of time.

    Returns
    -------
    Column
        ``turnaround_time``.
    """
    formula = "finish_time - submission_time"
    return Column("turnaround_time", "float", "from submission to the end", unit=unit, given=given, formula=formula)


def fault_of(column: Column, info: Mapping[str, Any]) -> str:
    """Say what is wrong with an entry of a run's description.

    Parameters
    ----------
    column : Column
        What the entry can be.
    info : mapping
        The description.

    Returns
    -------
    str
        Empty if all is well.
    """
    kinds: dict[str, tuple[type, ...]] = {"integer": (int,), "float": (int, float), "boolean": (bool,), "text": (str,)}
    value: Any = info.get(column.name)
    allowed = kinds.get(column.dtype, (list,))
    wanted = [kind.__name__ for kind in allowed] + ["NoneType"] * column.nullable
    if value is None and (column.nullable if column.name in info else column.optional):
        return ""
    is_kind = isinstance(value, allowed) and (column.dtype == "boolean" or type(value) is not bool)
    if not is_kind:
        return f"{column.name} is {value!r}, want {' or '.join(wanted)}"
    if column.values and value not in column.values:
        return f"{column.name} is {value!r}, want one of {', '.join(column.values)}"
    if column.least is not None and not column.least <= value < math.inf:
        return f"{column.name} is {value!r}, want at least {column.least:g}"
    return ""


def _bound(column: Column, info: Mapping[str, Any]) -> Iterable[Column]:
    if not column.each:
        return (column,)
    return (
        replace(column, name=column.name.format(name), formula=column.formula.format(name), each="")
        for name in info[column.each]
    )


def _series(column: Column, values: Any) -> pl.Series:
    import polars as pl

    if isinstance(values, pl.Series) and values.dtype == column.polars_type():
        return values.alias(column.name)
    if column.values and isinstance(values, np.ndarray) and values.dtype.kind in "ui":
        return pl.Series(column.name, column.values, dtype=column.polars_type()).gather(values)
    strict = column.dtype in ("text", "floats", "texts")
    series = pl.Series(column.name, values, dtype=column.polars_type(), strict=strict)
    may_be_nan = column.dtype == "float" and column.nullable and isinstance(values, np.ndarray)  # lists hold None
    return series.fill_nan(None) if may_be_nan else series


@cache
def _formula(text: str) -> pl.Expr:
    import polars as pl

    return pl.sql_expr(text)


def _faults(column: Column, frame: pl.DataFrame) -> Iterator[str]:
    """Yield what is wrong with a column that is there; of several things, the first."""
    values = frame[column.name]
    if not _fits(column, values.dtype):
        yield f"holds {values.dtype}, want {column.dtype}"
    elif not column.nullable and values.null_count():
        row = int(values.is_null().to_numpy().argmax())
        yield f"is null {values.null_count()} times, first in row {row}"
    elif column.dtype == "float" and not _numbers(column, values).all():
        row = int(_numbers(column, values).argmin())
        yield f"holds {values[row]} in row {row}, want a {'finite ' * column.finite}number"
    elif column.values and values.dtype != column.polars_type():
        for text in values.drop_nulls().unique(maintain_order=True):
            if text not in column.values:
                yield f"holds {text!r}, want one of {column.values}"


def _numbers(column: Column, values: pl.Series) -> NDArray[np.bool_]:
    """Tell which values are numbers, and finite if they have to be, or null."""
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
