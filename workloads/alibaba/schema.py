"""What a table of a cluster trace looks like: its columns, their units and valid ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Column", "Kind", "TableSchema"]

Kind = Literal["string", "whole number", "number"]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : str
        As in the source.
    kind : {"string", "whole number", "number"}
        What a field holds.
    required : bool
        Whether a field must not be empty.
    unit : str
        Of a number, as the source states it; empty where it states none.
    minimum, maximum : float or None
        The range that the source states.
    invalid : tuple of float
        Numbers that the source writes in place of an unknown one; they are read as null.
    """

    name: str
    kind: Kind = "string"
    required: bool = False
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    invalid: tuple[float, ...] = ()


@dataclass(frozen=True)
class TableSchema:
    """A table of a trace.

    Parameters
    ----------
    name : str
        Name of the table, with which the names of its files begin.
    trace : str
        The trace it belongs to.
    columns : tuple of Column
        In the order of the file.
    header : bool
        Whether the published file begins with a line of column names.
    """

    name: str
    trace: str
    columns: tuple[Column, ...]
    header: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(column.name for column in self.columns)
