"""Tables of the Alibaba cluster traces, read whole or in batches of rows.

A file is a csv table as published: without quotation marks, UTF-8, with a header line in
cluster-trace-gpu-v2023 only (one that holds exactly the column names is accepted everywhere). It may be plain, packed
by gzip, or the one csv file in a tar archive. Blank lines are skipped. A file that does not fit the table's schema is
refused with a `WorkloadError` that names line and column; numbers that stand for an unknown one are read as null and
counted in a `TableReport`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads._files import Pathish
from desim.workloads.alibaba._parse import parse, without_header
from desim.workloads.alibaba._unpack import batches, chunks
from desim.workloads.alibaba.report import TableReport
from desim.workloads.alibaba.schema import TableSchema
from desim.workloads.alibaba.tables import find_table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TableStream", "read", "stream"]


class TableStream:
    """The rows of a file in batches, in constant memory; every iteration reads anew.

    Parameters
    ----------
    path : str or path-like
        The file: csv, plain or gzip, or a tar archive of one csv file.
    table : str, optional
        Name of the table, one of `desim.workloads.alibaba.TABLES`; by default the file name decides.
    batch_rows : int
        Rows a batch, at most.
    max_rows : int, optional
        Stop after so many rows; what follows is not looked at.

    Attributes
    ----------
    schema : TableSchema
        The table.
    report : TableReport
        The books of the latest iteration, complete when it has ended.

    Raises
    ------
    WorkloadError
        At once, if the file cannot be opened or is empty; while iterating, for the first line that does not fit, and
        at the end if there was no row.
    InvalidConfiguration
        If the table is unknown or a number of rows is not positive.
    """

    def __init__(
        self, path: Pathish, table: str | None = None, *, batch_rows: int = 100_000, max_rows: int | None = None
    ) -> None:
        for name, value in (("batch_rows", batch_rows), ("max_rows", max_rows)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidConfiguration(f"{name} is {value!r}, want a whole number of at least 1")
        self.path = path
        self.schema: TableSchema = find_table(path, table)
        self.report = TableReport()
        self._batch_rows = batch_rows if max_rows is None else min(batch_rows, max_rows)
        self._max_rows = max_rows
        with closing(chunks(path)) as parts:
            if next(parts, None) is None:
                raise WorkloadError(f"{os.fspath(path)}: is empty")

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Read the file from its start."""
        source = os.fspath(self.path)
        self.report = report = TableReport()
        for number, block in batches(source, chunks(self.path), self._batch_rows):
            first, lines = without_header(source, block, self.schema) if number == 1 else (number, block)
            left = None if self._max_rows is None else self._max_rows - report.rows
            frame = parse(source, first, lines, self.schema, report, most=left)
            if len(frame):
                yield frame
            if report.rows == self._max_rows:
                return
        if not report.rows:
            raise WorkloadError(f"{source}: holds no row of {self.schema.name}")


def stream(
    path: Pathish, table: str | None = None, *, batch_rows: int = 100_000, max_rows: int | None = None
) -> TableStream:
    """Open a file whose rows are read in batches.

    Parameters
    ----------
    path : str or path-like
        The file: csv, plain or gzip, or a tar archive of one csv file.
    table : str, optional
        Name of the table, one of `desim.workloads.alibaba.TABLES`; by default the file name decides.
    batch_rows : int
        Rows a batch, at most.
    max_rows : int, optional
        Stop after so many rows.

    Returns
    -------
    TableStream
        To iterate over, any number of times; each item is a polars.DataFrame with the columns of the table.

    Raises
    ------
    WorkloadError, InvalidConfiguration
        As for `TableStream`.
    """
    return TableStream(path, table, batch_rows=batch_rows, max_rows=max_rows)


def read(path: Pathish, table: str | None = None, *, max_rows: int | None = None) -> pl.DataFrame:
    """Read a whole table.

    Parameters
    ----------
    path : str or path-like
        The file: csv, plain or gzip, or a tar archive of one csv file.
    table : str, optional
        Name of the table, one of `desim.workloads.alibaba.TABLES`; by default the file name decides.
    max_rows : int, optional
        Stop after so many rows.

    Returns
    -------
    polars.DataFrame
        One row a line, with the columns of the table: strings as String, whole numbers as Int64, numbers as Float64,
        null where empty or invalid.

    Raises
    ------
    WorkloadError, InvalidConfiguration
        As for `TableStream`.
    """
    import polars as pl

    return pl.concat(list(stream(path, table, max_rows=max_rows)), rechunk=True)
