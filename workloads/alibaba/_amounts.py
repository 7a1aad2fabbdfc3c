"""Checks of the amounts in a table of machines or requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from desim.exceptions import WorkloadError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["refuse_negative"]


def refuse_negative(source: str, frame: pl.DataFrame, identity: str, columns: tuple[str, ...]) -> None:
    """Raise if an amount is negative.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    frame : polars.DataFrame
        The table; null is no negative amount.
    identity : str
        The column that names a row.
    columns : tuple of str
        The columns to look at.

    Raises
    ------
    WorkloadError
        For the first negative amount of the first such column.
    """
    for column in columns:
        wrong = (frame[column] < 0).fill_null(False)
        if wrong.any():
            row = int(wrong.arg_true()[0])
            amount = frame[column][row]
            raise WorkloadError(f"{source}: {identity} {frame[identity][row]!r}: {column} is {amount}, want at least 0")
