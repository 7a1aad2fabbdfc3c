"""Ways to corrupt a valid deferrable run: each returns another result with one thing changed."""

from __future__ import annotations

import polars as pl
from deferrable_runs import Run

from desim import Result

STATUS = pl.col("status").cast(pl.String)
DUE = pl.col("starting_time") + pl.col("requested_time")


def job(run: Run, was: str, *conditions: pl.Expr, **values: float | str | bool | None) -> Result:
    """Edit the first job of a status that meets the conditions."""
    return run.edited("jobs", run.find("jobs", pl.all_horizontal(was == STATUS, *conditions)), **values)


def slot(run: Run, condition: pl.Expr, *columns: str, by: float = 1.0) -> Result:
    """Raise columns of the first slot that meets a condition."""
    row = run.find("slots", condition)
    return run.edited("slots", row, **{column: run.row("slots", row)[column] + by for column in columns})


def capacity(run: Run, condition: pl.Expr, value: float) -> Result:
    """Let the first slot that meets a condition have another capacity, with violation and reward to match."""
    row = run.find("slots", condition)
    old = run.row("slots", row)
    violation = max(0.0, old["used_cores"] - value)
    reward = old["reward"] - run.result.info["violation_weights"][0] * (violation - old["violation_cores"])
    return run.edited("slots", row, capacity_cores=value, violation_cores=violation, reward=reward)


def timed(row: dict[str, float]) -> dict[str, float | None]:
    """Return what follows from the times of a job."""
    start, finish = row["starting_time"], row["finish_time"]
    return {
        "starting_time": start,
        "finish_time": finish,
        "waiting_time": start - row["submission_time"],
        "execution_time": None if finish is None else finish - start,
        "turnaround_time": None if finish is None else finish - row["submission_time"],
        "delay": start - row["earliest_start"],
    }


def moved(run: Run, row: int, shift: float, *, end: float | None = None) -> Result:
    """Move a job in time, with all that follows from it; its end by another shift, if that is given."""
    old = run.row("jobs", row)
    finish = None if old["finish_time"] is None else old["finish_time"] + (shift if end is None else end)
    return run.edited(
        "jobs", row, **timed(old | {"starting_time": old["starting_time"] + shift, "finish_time": finish})
    )


def resubmitted(run: Run, row: int, shift: float) -> Result:
    """Move the submission of a job that has started, with all that follows from it."""
    new = run.row("jobs", row)
    new["submission_time"] += shift
    return run.edited("jobs", row, submission_time=new["submission_time"], **timed(new))


def another_window(run: Run, row: int, first: int, last: int) -> Result:
    """Shift the ends of the window of a job that has started, with all that follows from it."""
    new = run.row("jobs", row)
    new |= {"earliest_start": new["earliest_start"] + first, "latest_start": new["latest_start"] + last}
    ends = {name: new[name] for name in ("earliest_start", "latest_start")}
    return run.edited("jobs", row, **ends, **(timed(new) if new["starting_time"] is not None else {}))


def another_status(run: Run, row: int, status: str) -> Result:
    """Give a job another status, with the columns that belong to it, as if it had been started when it could first."""
    old = run.row("jobs", row)
    begun, ended = status in ("completed", "running", "evicted"), status in ("completed", "evicted")
    start = old["earliest_start"] if old["starting_time"] is None else old["starting_time"]
    names = ("starting_time", "finish_time", "waiting_time", "execution_time", "turnaround_time", "delay")
    times = dict.fromkeys(names)
    if begun:
        finish = start + old["requested_time"] - (status == "evicted") if ended else None
        times = timed(old | {"starting_time": float(start), "finish_time": None if finish is None else float(finish)})
    return run.edited("jobs", row, **times, status=status, success=status == "completed")


def other_requests(run: Run, row: int, factor: float) -> Result:
    """Multiply what a job requests of the first resource, and its revenue."""
    old = run.row("jobs", row)
    return run.edited("jobs", row, requested_cores=old["requested_cores"] * factor, revenue=old["revenue"] * factor)


def all_jobs(run: Run, **expressions: pl.Expr) -> Result:
    """Change a column of all jobs."""
    return run.with_table("jobs", run.result.jobs.with_columns(**expressions))


def same_name(run: Run) -> Result:
    """Give the name of one job to the next of which the first is still there when it comes."""
    jobs = run.result.jobs.with_row_index().filter(STATUS == "completed")
    for one, other in zip(jobs.iter_rows(named=True), jobs[1:].iter_rows(named=True), strict=False):
        if other["submission_time"] < one["finish_time"]:
            return run.edited("jobs", other["index"], job_id=one["job_id"])
    raise LookupError("no two jobs meet")


def swapped_evictions(run: Run) -> Result:
    """Let a job that was started before another stay in its place: one that stayed and requests no less."""
    jobs, evictions = run.result.jobs, run.result.table("evictions")
    for index, row in enumerate(evictions.iter_rows(named=True)):
        mine = jobs.row(by_predicate=pl.col("job_id") == row["job_id"], named=True)
        for place, other in enumerate(jobs.iter_rows(named=True)):
            if (
                other["status"] == "completed"
                and other["evictions"] == 0
                and other["starting_time"] < row["starting_time"]
                and other["finish_time"] > row["eviction_time"]
                and other["requested_cores"] >= mine["requested_cores"]
                and mine["status"] == "evicted"
                and mine["evictions"] == 1
            ):
                return _exchanged(run, index, place, row["eviction_time"])
    raise LookupError("no job could have been evicted in the place of another")


def _exchanged(run: Run, index: int, place: int, time: float) -> Result:
    """Let a job be evicted for good in the place of one that was, which completes."""
    evictions = run.result.table("evictions")
    was, mine = evictions["job_id"][index], run.row("jobs", place)
    row = run.find("jobs", pl.col("job_id") == was)
    kept = run.row("jobs", row)
    kept["finish_time"] = kept["starting_time"] + kept["requested_time"]
    first = run.edited("jobs", row, **timed(kept), status="completed", success=True, evictions=0)
    gone = timed(mine | {"finish_time": float(time)})
    second = Run(first, run.jobs).edited("jobs", place, **gone, status="evicted", success=False, evictions=1)
    changed = {
        **{name: mine[name] for name in ("job_id", "arrival_number")},
        "starting_time": int(mine["starting_time"]),
    }
    return Run(second, run.jobs).edited("evictions", index, **changed)


def slot_of_eviction(run: Run, index: int, shift: int) -> Result:
    """Let an eviction happen in another slot."""
    return run.edited("evictions", index, eviction_time=run.row("evictions", index)["eviction_time"] + shift)
