"""What the rules of every problem need of tables: columns of the right types, taken apart into arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Columns", "table_faults", "to_arrays"]

Columns = Mapping[str, NDArray[Any]]


def table_faults(name: str, table: pl.DataFrame, expected: Mapping[str, str | tuple[str, ...]]) -> list[str]:
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
