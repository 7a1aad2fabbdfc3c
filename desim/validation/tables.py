"""What the rules of every problem need of tables: columns of the right types, as arrays, and how these are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import RecordError
from desim.validation.report import Findings

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["Columns", "Kinds", "choice_of", "masks", "read_tables", "rounding", "table_faults", "to_arrays"]

Columns = Mapping[str, NDArray[Any]]
Kinds = Mapping[str, str | tuple[str, ...]]


def read_tables(result: Result, expected: Mapping[str, Kinds], findings: Findings) -> dict[str, pl.DataFrame]:
    """Read tables and check their columns.

    Parameters
    ----------
    result : Result
        The run.
    expected : mapping of str to mapping
        By table what each column holds, as :func:`table_faults` takes it.
    findings : Findings
        Takes what is wrong, by the rule ``columns``.

    Returns
    -------
    dict of str to polars.DataFrame
        The tables that there are.
    """
    tables, faults = {}, []
    for name, kinds in expected.items():
        try:
            tables[name] = result.table(name)
        except RecordError as error:
            faults.append(str(error))
        else:
            faults += table_faults(name, tables[name], kinds)
    findings.note("columns", max((len(table) for table in tables.values()), default=0), faults)
    return tables


def table_faults(name: str, table: pl.DataFrame, expected: Kinds) -> list[str]:
    """Say what is wrong with the columns of a table.

    Parameters
    ----------
    name : str
        The table's, for the messages.
    table : polars.DataFrame
        Its columns may be more than those expected.
    expected : mapping of str to str or tuple of str
        What each column holds: ``"integer"``, ``"float"``, ``"text"`` or ``"boolean"``, with a question mark where it
        may be null, or one of some texts.

    Returns
    -------
    list of str
        One message a column, none if all is well.
    """
    faults = []
    for column, kind in expected.items():
        if column not in table.columns:
            faults.append(f"table {name} has no column {column}")
            continue
        values = table[column]
        choices = None if isinstance(kind, str) else kind
        label = "text" if choices else str(kind).rstrip("?")
        if not _is_kind(values.dtype, label):
            faults.append(f"column {column} of table {name} holds {values.dtype}, want {label}")
        elif not str(kind).endswith("?") and values.null_count():
            row = int(values.is_null().to_numpy().argmax())
            faults.append(f"column {column} of table {name} is null {values.null_count()} times, first in row {row}")
        elif label == "float" and not values.is_finite().all():
            row = int(values.is_finite().fill_null(True).to_numpy().argmin())
            faults.append(f"column {column} of table {name} holds {values[row]} in row {row}, want a finite number")
        elif choices:
            unknown = [text for text in values.unique(maintain_order=True).to_list() if text not in choices]
            faults += [f"column {column} of table {name} holds {text!r}, want one of {choices}" for text in unknown]
    return faults


def _is_kind(dtype: pl.DataType, kind: str) -> bool:
    import polars as pl

    if kind == "integer":
        return dtype.is_integer()
    if kind == "float":
        return dtype.is_float()
    return dtype == pl.Boolean if kind == "boolean" else dtype in (pl.String, pl.Enum, pl.Categorical)


def to_arrays(table: pl.DataFrame) -> Columns:
    """Return the columns of numbers as arrays, with NaN for null.

    Parameters
    ----------
    table : polars.DataFrame
        Columns of text are left out.

    Returns
    -------
    mapping of str to numpy.ndarray
        Whole numbers as int64, others as float64.
    """
    import polars as pl

    arrays = {}
    for column in table.iter_columns():
        if column.dtype == pl.Boolean:
            arrays[column.name] = column.to_numpy()
        elif column.dtype.is_numeric():
            arrays[column.name] = column.cast(pl.Int64 if column.dtype.is_integer() else pl.Float64).to_numpy()
    return arrays


def masks(column: pl.Series, choices: tuple[str, ...]) -> dict[str, NDArray[np.bool_]]:
    """Return for each choice which rows have it.

    Parameters
    ----------
    column : polars.Series
        Texts.
    choices : tuple of str
        What they can be.

    Returns
    -------
    dict of str to array of bool, shape (n,)
        By choice.
    """
    return {choice: (column == choice).to_numpy() for choice in choices}


def choice_of(masks: Mapping[str, NDArray[np.bool_]], row: int) -> str:
    """Return the choice that a row has.

    Parameters
    ----------
    masks : mapping of str to array of bool, shape (n,)
        For each choice which rows have it.
    row : int
        The row.

    Returns
    -------
    str
        The choice.
    """
    return next(choice for choice, mask in masks.items() if mask[row])


def rounding(*values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far a sum or difference of times may be off: four units in the last place of the largest.

    Parameters
    ----------
    *values : array of float, shape (n,)
        The terms.

    Returns
    -------
    array of float, shape (n,)
        The tolerance, NaN where a term is.
    """
    largest: NDArray[np.float64] = np.max(np.abs(values), axis=0)
    return 4.0 * np.spacing(largest)
