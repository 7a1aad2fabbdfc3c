"""What the metrics of every problem need of a run: its description, and columns of tables as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["description", "end_time_of", "masks", "numbers", "read_columns", "whole"]


def description(result: Result, problem: str) -> Mapping[str, Any]:
    """Return the description of a run.

    Parameters
    ----------
    result : Result
        The run.
    problem : str
        Its problem.

    Returns
    -------
    mapping
        Its configuration and how it ended.

    Raises
    ------
    InvalidConfiguration
        If it is a run of another problem.
    """
    if result.info.get("problem") != problem:
        raise InvalidConfiguration(f"the result is of problem {result.info.get('problem')!r}, want {problem!r}")
    return result.info


def end_time_of(result: Result) -> float:
    """Return when a run ended, in seconds.

    Parameters
    ----------
    result : Result
        The run.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    InvalidConfiguration
        If its records do not tell: it is still under way, or its process has died.
    """
    if "end_time" not in result.info:
        raise InvalidConfiguration(
            f"the run has status {result.info.get('status')!r} and no end: metrics need one that has ended"
        )
    return float(result.info["end_time"])


def read_columns(name: str, table: pl.DataFrame | pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Read columns of a table, and no others.

    Parameters
    ----------
    name : str
        What the table is called in an error.
    table : polars.DataFrame or polars.LazyFrame
        The table.
    columns : sequence of str
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
    lazy = table.lazy()
    missing = set(columns) - set(lazy.collect_schema().names())
    if missing:
        raise InvalidConfiguration(f"the table {name} lacks the columns {', '.join(sorted(missing))}")
    return lazy.select(columns).collect()


def numbers(column: pl.Series) -> NDArray[np.float64]:
    """Return a column as an array.

    Parameters
    ----------
    column : polars.Series
        Numbers.

    Returns
    -------
    array of float, shape (n,)
        NaN for null.
    """
    return column.cast(float).to_numpy()


def whole(column: pl.Series) -> NDArray[np.int64]:
    """Return a column as an array.

    Parameters
    ----------
    column : polars.Series
        Whole numbers, none of them null.

    Returns
    -------
    array of int, shape (n,)
        The numbers.
    """
    return column.cast(int).to_numpy()


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
