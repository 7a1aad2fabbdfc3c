"""A run whose tables can be edited, to see what a validation says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from desim import Result


@dataclass
class EditableRun:
    """A run."""

    result: Result

    def edited(self, table: str, row: int, **values: Any) -> Result:
        """Return the result with some values of one row replaced."""
        frame = self.result.table(table)
        here = pl.int_range(pl.len()) == row
        new = {
            column: pl.when(here).then(pl.lit(value, dtype=frame.schema[column])).otherwise(column)
            for column, value in values.items()
        }
        return self.with_table(table, frame.with_columns(**new))

    def with_table(self, table: str, frame: pl.DataFrame) -> Result:
        """Return the result with a table replaced."""
        return Result(self._scans() | {table: frame.lazy()}, self.result.info)

    def described(self, **info: Any) -> Result:
        """Return the result with another description."""
        return Result(self._scans(), self.result.info | info)

    def dropped(self, table: str, row: int) -> Result:
        """Return the result without a row."""
        return self.with_table(table, self.result.table(table).filter(pl.int_range(pl.len()) != row))

    def repeated(self, table: str, row: int) -> Result:
        """Return the result with a row twice."""
        frame = self.result.table(table)
        return self.with_table(table, pl.concat([frame, frame[row]]))

    def _scans(self) -> dict[str, pl.LazyFrame]:
        return {name: self.result.table(name).lazy() for name in self.result.table_names}

    def find(self, table: str, condition: pl.Expr) -> int:
        """Return the first row that meets a condition."""
        rows = self.result.table(table).select(condition.fill_null(False).arg_true()).to_series()
        if rows.is_empty():
            raise LookupError(f"no row of {table} has {condition}")
        return int(rows[0])

    def row(self, table: str, index: int) -> dict[str, Any]:
        """Return one row."""
        return self.result.table(table).row(index, named=True)
