"""Job tables in Parquet, read and written: the columns of a result's job table that make up a workload.

A table has one row a job, with the columns ``job_id``, ``submission_time``, ``requested_number_of_resources``,
``requested_time``, ``run_time`` and, optionally, ``user_id``; others are ignored. Times are in seconds. The file's
key-value metadata hold ``num_cores``, the cores of the machine, where they are known. Rows are repaired and counted
by the same rules as those of a Standard Workload Format log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Unpack

import numpy as np

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job
from desim.workloads.batch.selection import Columns, Floats, TraceOptions, check_writable, select
from desim.workloads.batch.trace import Trace, TraceHeader, TraceReport
from desim.workloads.documents import LARGEST
from desim.workloads.files import Pathish, read_bytes, writing

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read", "write"]

_WHOLE = ("job_id", "requested_number_of_resources", "user_id")
_COLUMNS = ("job_id", "submission_time", "requested_number_of_resources", "requested_time", "run_time", "user_id")


def read(path: Pathish, **options: Unpack[TraceOptions]) -> Trace:
    """Read a whole table.

    Parameters
    ----------
    path : str or path-like
        The Parquet file.
    **options : TraceOptions
        Which jobs to keep, see `TraceOptions`. The format knows no status, queue or partition: these are -1.

    Returns
    -------
    Trace
        Jobs in the order of submission, header (with ``nb_res``, if the file states the cores) and repair report;
        places are positions in the table.

    Raises
    ------
    WorkloadError
        If the file cannot be read, lacks a column, holds something else than finite numbers, or no usable job.
    InvalidConfiguration
        If an option is out of range.
    """
    source = os.fspath(path)
    table, header = _load(source)
    job_id, *others = (_numbers(source, table, name) for name in _COLUMNS)
    rows = Columns.of_list(job_id.astype(np.int64), others)
    return select(source, rows, header, TraceReport(unit="position"), **options)


def write(path: Pathish, jobs: Iterable[Job], num_cores: int | None = None) -> None:
    """Write jobs so that `read` gives them back exactly, all or nothing.

    Parameters
    ----------
    path : str or path-like
        The file, replaced only when the new one is complete.
    jobs : iterable of Job
        The jobs.
    num_cores : int, optional
        Cores of the machine.

    Raises
    ------
    WorkloadError
        If the file cannot be written, a job is invalid, or its requested time is 0 although it
        runs (the readers take 0 for unknown).
    """
    import polars as pl

    rows = list(jobs)
    for job in rows:
        check_writable(job)
    kinds = {name: pl.Int64 if name in _WHOLE else pl.Float64 for name in _COLUMNS}
    table = pl.DataFrame(rows, schema=kinds, orient="row", strict=False)
    with writing(path) as file:
        table.write_parquet(file, metadata={} if num_cores is None else {"num_cores": str(num_cores)})


def _load(source: str) -> tuple[pl.DataFrame, TraceHeader]:
    """Read the columns that there are, and the number of cores."""
    import polars as pl

    content = read_bytes(source)
    try:
        metadata = pl.read_parquet_metadata(BytesIO(content))
        there = pl.read_parquet_schema(BytesIO(content))
        missing = [name for name in _COLUMNS if name not in there and name != "user_id"]
        if missing:
            raise WorkloadError(f"{source}: has no column {', '.join(missing)}, so it is no job table")
        table = pl.read_parquet(BytesIO(content), columns=[name for name in _COLUMNS if name in there])
    except pl.exceptions.PolarsError as error:
        raise WorkloadError(f"{source}: is no Parquet file: {error}") from error
    fields = {"nb_res": metadata["num_cores"]} if "num_cores" in metadata else {}
    return table, TraceHeader(fields=fields)


def _numbers(source: str, table: pl.DataFrame, name: str) -> Floats:
    """Return a column as numbers that the rules can work on; unknown users are -1."""
    if name not in table.columns:
        return np.full(len(table), -1.0)
    column = table[name]
    if not column.dtype.is_numeric():
        raise WorkloadError(f"{source}: column {name} is of type {column.dtype}, want numbers")
    values = (column.fill_null(-1) if name == "user_id" else column).cast(float).to_numpy()
    wrong = ~(np.abs(values) <= LARGEST)
    if name in _WHOLE:
        wrong |= values % 1 != 0
    if wrong.any():
        at = int(np.argmax(wrong))
        wanted = "a whole number" if name in _WHOLE else "a finite number"
        raise WorkloadError(f"{source}: row {at}: {name} is {column[at]!r}, want {wanted} of at most {LARGEST:g}")
    return values
