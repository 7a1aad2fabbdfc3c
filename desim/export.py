"""Export of results to other programs: CSV, time series, Batsim's job table, Chrome's trace events.

Trace events show a batch run in Perfetto (ui.perfetto.dev) and chrome://tracing. There is one track per core. A job is
a slice on the track of the first core of each range of adjacent cores that it holds, so slices of a track never
overlap. Above the tracks are curves of the queued jobs, the busy cores and, if cores failed, the cores that are up. One
simulated second is one second of the trace. The file follows the "Trace Event Format", with complete events (``X``),
counters (``C``) and metadata (``M``), and times in microseconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.checks import check_float
from desim.exceptions import InvalidConfiguration
from desim.files import write_atomically
from desim.plotting.views import averages
from desim.problem import kind_of
from desim.problems.batch import parse_core_sets
from desim.problems.batch.executions import executions
from desim.result import Result

__all__ = ["time_series", "to_batsim_csv", "to_chrome_trace", "to_csv"]

Floats = NDArray[np.float64]

#: Batsim's names for the final states of a job.
_FINAL_STATES = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "killed": "COMPLETED_WALLTIME_REACHED",
    "lost": "COMPLETED_KILLED",
    "running": "RUNNING",
    "queued": "SUBMITTED",
    "rejected": "REJECTED",
}

#: Maximum number of points per curve; longer curves are sampled at equal distances in time.
MOST_POINTS = 20_000


def to_csv(result: Result, path: str | os.PathLike[str]) -> Path:
    """Write the job table unchanged as CSV, one row per job, with a header line.

    Parameters
    ----------
    result : Result
        The run.
    path : path
        CSV file; an existing file is replaced only when the new one is complete.

    Returns
    -------
    Path
        Path of the file. Unknown values are empty; numbers are written so that they are read back exactly.

    Raises
    ------
    RecordError
        If the records cannot be read or the file cannot be written.
    """
    return _write_csv(result.scan("jobs"), path)


def to_batsim_csv(result: Result, path: str | os.PathLike[str], *, workload_name: str = "w0") -> Path:
    """Write the job table with the columns of Batsim's ``_jobs.csv``, which evalys reads.

    Parameters
    ----------
    result : Result
        The run.
    path : path
        CSV file; an existing file is replaced only when the new one is complete.
    workload_name : str
        Content of the column ``workload_name``.

    Returns
    -------
    Path
        Path of the file. A profile is named after the run time of its job, as in the workloads that desim writes for
        Batsim. ``consumed_energy`` is -1, for unknown. Unknown times of jobs that have not started or finished are
        empty.

    Raises
    ------
    InvalidConfiguration
        If the run is not of the problem batch.
    RecordError
        If the records cannot be read or the file cannot be written.
    """
    _check_batch(result)
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
        pl.col("status").cast(pl.String).replace_strict(_FINAL_STATES).alias("final_state"),
        "starting_time",
        "execution_time",
        "finish_time",
        "waiting_time",
        "turnaround_time",
        "stretch",
        "allocated_resources",
        pl.lit(-1).alias("consumed_energy"),
    )
    return _write_csv(table, path)


def time_series(result: Result, *, every: float | None = None) -> pl.DataFrame:
    """Return what a run's page shows over time, such as utilization and queue, as one frame.

    Parameters
    ----------
    result : Result
        Run of any problem whose page has curves.
    every : float, optional
        Width of bins, in seconds or slots, over which values are averaged; the last bin may be shorter. Default: a row
        for each time at which a value changes; it holds until the next row.

    Returns
    -------
    polars.DataFrame
        ``time``, or the beginning of the bin, and a column per curve.

    Raises
    ------
    InvalidConfiguration
        If the problem has no curves, or the width is not a number > 0.
    """
    kind = kind_of(result)
    view = kind.view(result)
    if not view.curves:
        raise InvalidConfiguration(f"problem {kind.name!r} has no curves over time")
    if every is not None:
        edges = np.arange(*result.span, check_float("every", every, above=0.0))
        return averages(view.curves, np.append(edges, result.span[1]))
    steps = [pl.DataFrame({"time": curve.time, name: curve.value}) for name, curve in view.curves.items()]
    table = steps[0]
    for other in steps[1:]:
        table = table.join(other, on="time", how="full", coalesce=True)
    return table.sort("time").with_columns(pl.exclude("time").forward_fill())


def _write_csv(table: pl.LazyFrame, path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    frame = table.collect()

    def _fill(draft: Path) -> None:
        with draft.open("wb") as file:
            frame.write_csv(file)

    write_atomically(target, _fill)
    return target


def to_chrome_trace(result: Result, path: str | os.PathLike[str], *, max_slices: int = 300_000) -> Path:
    """Write a batch run as a file of Chrome trace events.

    Parameters
    ----------
    result : Result
        The run.
    path : path
        JSON file; an existing file is replaced only when the new one is complete.
    max_slices : int
        Maximum number of slices, of about 200 bytes each in the file. If there are more ranges of cores, a job has
        one slice, for its first range; if there are still more executions, those with the most core-seconds are
        kept. ``otherData`` in the file states the number left out.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    InvalidConfiguration
        If ``max_slices`` is less than 1, or the run is not of the problem batch.
    RecordError
        If the records cannot be read or the file cannot be written.
    """
    if max_slices < 1:
        raise InvalidConfiguration(f"max_slices: got {max_slices!r}, expected at least 1")
    _check_batch(result, ("jobs", "interruptions", "outages"))
    table = _executions(result)
    slices, omitted = _slices(table, max_slices)
    curves = _curves(result, table)
    other = {key: value for key, value in result.info.items() if isinstance(value, str | int | float)}
    other |= {"executions": len(table), "executions_left_out": omitted}

    def _write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ms",\n"otherData": ' + json.dumps(other) + ',\n"traceEvents": [\n')
            for number, event in enumerate(_events(result, slices, curves)):
                file.write((",\n" if number else "") + json.dumps(event, separators=(",", ":")))
            file.write("\n]}\n")

    target = Path(path)
    write_atomically(target, _write)
    return target


def _end(result: Result, jobs: pl.DataFrame) -> float:
    """Return the end time of a run; for a crashed run, the last time in its records."""
    known = result.info.get("end_time")
    times = [jobs[name].max() for name in ("submission_time", "starting_time", "finish_time")]
    return float(known) if known is not None else max((float(time) for time in times if time is not None), default=0.0)  # type: ignore[arg-type]


def _executions(result: Result) -> pl.DataFrame:
    """Return all executions, including interrupted ones, with the columns of their jobs."""
    names = (
        "job_id",
        "submission_time",
        "requested_number_of_resources",
        "requested_time",
        "starting_time",
        "finish_time",
        "allocated_resources",
        "status",
        "user_id",
        "arrival_number",
    )
    jobs = result.scan("jobs").select(names).with_columns(pl.col("status").cast(pl.String)).collect()
    found = executions(jobs, result.scan("interruptions").collect(), _end(result, jobs)).drop("cut", "arrival_number")
    return found.with_columns(pl.col("status").replace("requeued", "cut by an outage"))


def _slices(table: pl.DataFrame, most: int) -> tuple[pl.DataFrame, int]:
    """Return the slices with their tracks, by start, and the number of executions left out."""
    omitted = max(len(table) - most, 0)
    if omitted:
        length = pl.col("finish_time") - pl.col("starting_time")
        table = table.top_k(most, by=length * pl.col("requested_number_of_resources"))
    ranges = parse_core_sets(table["allocated_resources"])
    if len(ranges) > most:
        ranges = ranges.unique("row", keep="first", maintain_order=True)
    slices = pl.concat([table[ranges["row"]], ranges.select("first", "last")], how="horizontal")
    return slices.sort("starting_time", "first"), omitted


def _curves(result: Result, table: pl.DataFrame) -> dict[str, tuple[Floats, Floats]]:
    """Return times and values of the curves, by name."""
    jobs = result.scan("jobs").filter(pl.col("status") != "rejected").select("submission_time").collect()
    starts, ends = table["starting_time"].to_numpy(), table["finish_time"].to_numpy()
    leaves = starts[~table["resumed"].to_numpy()]
    cores = table["requested_number_of_resources"].to_numpy()
    again = ends[table["status"].is_in(("cut by an outage", "preempted")).to_numpy()]
    joins = np.concatenate((jobs["submission_time"].to_numpy(), again))
    queued = (np.concatenate((joins, leaves)), np.repeat([1, -1], [len(joins), len(leaves)]))
    busy = (np.concatenate((starts, ends)), np.concatenate((cores, -cores)))
    curves = {"queued jobs": _thinned(*_steps(*queued)), "busy cores": _thinned(*_steps(*busy))}
    outages = result.scan("outages").select("time", "cores_up").collect()
    if len(outages):
        times, up = outages["time"].to_numpy(), outages["cores_up"].to_numpy()
        full = float(result.info.get("num_cores", up.max()))
        curves["cores up"] = _thinned(np.append(0.0, times), np.append(full, up.astype(np.float64)))
    return curves


def _steps(times: Floats, changes: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return a step function: its distinct times, and its values from then on."""
    moments, place = np.unique(times, return_inverse=True)
    return moments, np.cumsum(np.bincount(place, weights=changes, minlength=len(moments)))


def _thinned(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    if len(times) <= MOST_POINTS:
        return times, values
    wanted = np.linspace(times[0], times[-1], MOST_POINTS)
    return wanted, values[np.searchsorted(times, wanted, "right") - 1]


def _events(result: Result, slices: pl.DataFrame, curves: dict[str, tuple[Floats, Floats]]) -> Iterator[dict[str, Any]]:
    label = ", ".join(str(result.info[key]) for key in ("problem", "agent") if key in result.info)
    yield {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": label or "desim"}}
    for core in sorted(set(slices["first"].to_list())):
        yield {"ph": "M", "pid": 1, "tid": core + 1, "name": "thread_name", "args": {"name": f"core {core}"}}
        yield {"ph": "M", "pid": 1, "tid": core + 1, "name": "thread_sort_index", "args": {"sort_index": core}}
    for name, (times, values) in curves.items():
        for time, value in zip(times.tolist(), values.tolist(), strict=True):
            yield {"ph": "C", "pid": 1, "ts": _microseconds(time), "name": name, "args": {name: value}}
    for row in slices.iter_rows(named=True):
        begin, end = _microseconds(row["starting_time"]), _microseconds(row["finish_time"])
        yield {
            "ph": "X",
            "pid": 1,
            "tid": row["first"] + 1,  # some viewers treat thread 0 specially
            "ts": begin,
            "dur": end - begin,
            "name": f"job {row['job_id']}",
            "cat": row["status"],
            "args": {
                "cores": row["allocated_resources"],
                "requested_cores": row["requested_number_of_resources"],
                "requested_time": row["requested_time"],
                "submission_time": row["submission_time"],
                "waiting_time": row["starting_time"] - row["submission_time"],
                "user": row["user_id"],
            },
        }


def _microseconds(seconds: float) -> int:
    """Return rounded microseconds, so that a slice that ends when another begins still does."""
    return round(seconds * 1e6)


def _check_batch(result: Result, tables: Sequence[str] = ("jobs",)) -> None:
    """Raise if a result is of another problem, or lacks a table that the format needs."""
    is_there = all(table in result.table_names for table in tables)
    if not is_there or "requested_number_of_resources" not in result.scan("jobs").collect_schema():
        raise InvalidConfiguration(
            f"got a result of {result.info.get('problem', 'an unknown problem')}, expected one of batch for this format"
        )
