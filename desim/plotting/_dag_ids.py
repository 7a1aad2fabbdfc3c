"""Jobs of a DAG run told apart although an id may come back once its job has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["number_jobs", "rows_of_jobs"]


def rows_of_jobs(jobs: pl.DataFrame, table: pl.DataFrame, time: str) -> pl.Series:
    """Return the row of the job of each row of another table: the one of that id that was submitted last before it.

    Parameters
    ----------
    jobs : polars.DataFrame
        Job table of a DAG run, by submission time.
    table : polars.DataFrame
        Another one, with ``job_id``.
    time : str
        Its column of a time at which the job was in the system.

    Returns
    -------
    polars.Series of int
        Rows of ``jobs``; null where there is none.
    """
    import polars as pl

    known = (
        jobs.select("job_id", "submission_time").with_row_index("number").sort("submission_time", maintain_order=True)
    )
    wanted = table.select("job_id", pl.col(time).alias("time")).with_row_index("place")
    found = wanted.filter(pl.col("time").is_not_null()).sort("time", maintain_order=True)
    found = found.join_asof(known, left_on="time", right_on="submission_time", by="job_id", check_sortedness=False)
    return wanted.join(found.select("place", "number"), on="place", how="left", maintain_order="left")["number"]


def number_jobs(
    jobs: pl.DataFrame, edges: pl.DataFrame, copies: pl.DataFrame, transfers: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Put the row of the job in place of its id.

    Parameters
    ----------
    jobs, edges, copies, transfers : polars.DataFrame
        Tables of a DAG run; the edges of an id in the order in which its jobs were submitted, as they are recorded.

    Returns
    -------
    tuple of polars.DataFrame
        The same four, with other ids.
    """
    import polars as pl

    if not jobs["job_id"].is_duplicated().any():
        return jobs, edges, copies, transfers
    numbered = jobs.with_row_index("number")
    begins = numbered.filter(pl.col("num_edges") > 0).select(
        "number", "job_id", begin=(pl.col("num_edges").cum_sum().over("job_id") - pl.col("num_edges")).cast(pl.Int64)
    )
    ranks = edges.with_columns(rank=pl.int_range(pl.len(), dtype=pl.Int64).over("job_id"))
    owners = ranks.with_row_index("place").sort("rank", maintain_order=True)
    owners = owners.join_asof(
        begins.sort("begin", maintain_order=True), left_on="rank", right_on="begin", by="job_id", check_sortedness=False
    ).sort("place")
    return (
        numbered.with_columns(job_id="number").drop("number"),
        edges.with_columns(owners["number"].alias("job_id")),
        copies.with_columns(rows_of_jobs(jobs, copies, "assignment_time").alias("job_id")),
        transfers.with_columns(rows_of_jobs(jobs, transfers, "starting_time").alias("job_id")),
    )
