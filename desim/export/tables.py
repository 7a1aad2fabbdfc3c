"""The job table of a run as comma-separated text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from desim.export._batch import check_batch
from desim.records import write_atomically
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl

__all__ = ["to_batsim_csv", "to_csv"]

#: Batsim's names for what became of a job.
FINAL_STATES = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "killed": "COMPLETED_WALLTIME_REACHED",
    "lost": "COMPLETED_KILLED",
    "running": "RUNNING",
    "queued": "SUBMITTED",
    "rejected": "REJECTED",
}


def to_csv(result: Result, path: str | os.PathLike[str]) -> Path:
    """Write the job table as it is, one row a job, with a line of column names.

    Parameters
    ----------
    result : Result
        The run.
    path : path
        The file, replaced only when the new one is complete.

    Returns
    -------
    Path
        The file. Nothing stands where a value is unknown; numbers read back exactly.

    Raises
    ------
    RecordError
        If the records cannot be read or the file cannot be written.
    """
    return _write(result.scan("jobs"), path)


def to_batsim_csv(result: Result, path: str | os.PathLike[str], *, workload_name: str = "w0") -> Path:
    """Write the job table with the columns of Batsim's ``_jobs.csv``, which evalys reads.

    Parameters
    ----------
    result : Result
        The run.
    path : path
        The file, replaced only when the new one is complete.
    workload_name : str
        Content of the column of this name.

    Returns
    -------
    Path
        The file. A profile is called after the run time of its job, as in the workloads that desim writes for
        Batsim. ``consumed_energy`` is -1, for unknown. A job that has not started or finished has nothing where a
        time of it is unknown.

    Raises
    ------
    InvalidConfiguration
        If the run is not one of batch.
    RecordError
        If the records cannot be read or the file cannot be written.
    """
    import polars as pl

    check_batch(result)
    run_time = pl.col("run_time")
    whole = run_time == run_time.floor()
    delay = (
        pl.when(whole).then(run_time.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(run_time.cast(pl.String))
    )
    table = result.scan("jobs").select(
        "job_id",
        pl.lit(workload_name).alias("workload_name"),
        ("delay_" + delay).alias("profile"),
        "submission_time",
        "requested_number_of_resources",
        "requested_time",
        pl.col("success").cast(pl.Int8),
        pl.col("status").cast(pl.String).replace_strict(FINAL_STATES).alias("final_state"),
        "starting_time",
        "execution_time",
        "finish_time",
        "waiting_time",
        "turnaround_time",
        "stretch",
        "allocated_resources",
        pl.lit(-1).alias("consumed_energy"),
    )
    return _write(table, path)


def _write(table: pl.LazyFrame, path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    frame = table.collect()

    def _fill(draft: Path) -> None:
        with draft.open("wb") as file:
            frame.write_csv(file)

    write_atomically(target, _fill)
    return target
