"""How a table is made, for wings that have yet to describe their tables with :mod:`desim.tables`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Schema"]


class Schema(NamedTuple):
    """How a table is made.

    Attributes
    ----------
    to_frame : callable
        Makes a polars frame of a list of rows; of no rows, a frame with the right columns.
    sort_by : tuple of str
        Columns that give the whole table its order, whatever the order of recording; none keeps that order.
    chunk_rows : int
        Rows that are held as tuples before they become a frame.
    """

    to_frame: Callable[[list[Any]], pl.DataFrame]
    sort_by: tuple[str, ...]
    chunk_rows: int = 65_536
