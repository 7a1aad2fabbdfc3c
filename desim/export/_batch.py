"""Formats that only results of batch, or of problems with the same tables, can take."""

from __future__ import annotations

from collections.abc import Sequence

from desim.exceptions import InvalidConfiguration
from desim.result import Result

__all__ = ["check_batch"]


def check_batch(result: Result, tables: Sequence[str] = ("jobs",)) -> None:
    """Refuse a result of another problem.

    Parameters
    ----------
    result : Result
        The run.
    tables : sequence of str
        What the format needs.

    Raises
    ------
    InvalidConfiguration
        If a table is missing, or its jobs are not those of batch.
    """
    is_there = all(table in result.table_names for table in tables)
    if not is_there or "requested_number_of_resources" not in result.scan("jobs").collect_schema():
        raise InvalidConfiguration(
            f"this is a result of {result.info.get('problem', 'an unknown problem')}, but the format is one of batch"
        )
