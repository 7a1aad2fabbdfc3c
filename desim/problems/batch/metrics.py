"""Metrics of a batch cluster, computed only from its tables.

`METRICS` describes every metric. There are two kinds.

Job statistics (waiting, turnaround, slowdown, fairness, counts) cover the jobs *submitted* within the observed
interval. Time averages (utilization, queue length, throughput) cover the interval itself and count every job that is
in the system then, whenever it was submitted.

The option ``unfinished`` determines how jobs that have not finished at the end of the run count:

- ``"exclude"``: waiting time covers the jobs that have started; turnaround time and slowdowns cover those
  that have finished. In an overloaded system, the longest waits are then missing.
- ``"include"``: queued jobs count with their waiting time so far. Queued and running jobs count with their turnaround
  time so far, divided by their full run time for a slowdown. These values are lower bounds of the final ones.

A job counts as finished if it completed or was killed at its requested time. A job lost to an outage counts as
started, but not as finished; a rejected job only enters the counts.

A job waits while it does not run, from its submission to its *last* start. A slowdown divides by the useful execution
time: that of all executions of a job, except seconds whose work was lost at an interruption. These lost seconds are
busy and wasted. The time of a job that is killed is useful by this definition, since nothing interrupted it;
``killed_core_seconds`` counts it apart. The same schedule therefore has the same metrics, whatever made jobs start
again. See :mod:`desim.problems.batch.executions` for the definitions.

Sources: bounded slowdown: Feitelson, Rudolph, Schwiegelshohn, Sevcik and Wong, "Theory and
practice in parallel job scheduling", JSSPP 1997. Fairness index: Jain, Chiu and Hawe, "A quantitative
measure of fairness and discrimination for resource allocation in shared computer systems", DEC-TR-301, 1984.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice, check_float
from desim.exceptions import InvalidConfiguration
from desim.measures import maximum, step_integral, time_integral
from desim.problem import Better, Metric, Metrics, bounded
from desim.problems.batch.executions import with_kept_time
from desim.problems.batch.node_metrics import NODE_METRICS, node_metrics
from desim.problems.batch.parts import gathered
from desim.problems.batch.tables import INTERRUPTIONS, JOBS
from desim.records import Parts

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["METRICS", "batch_metrics", "read_cut_executions", "warm_up_of"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Unfinished = Literal["exclude", "include"]

SUMMARIES = {"mean": "mean", "median": "median", "p95": "95th percentile", "p99": "99th percentile", "max": "maximum"}
"""Summary statistics of a distribution: suffix of the metric's name, and description."""


class JobColumns:
    """Columns of a job table of n rows that metrics read, under their names; times are NaN if unknown.

    Parameters
    ----------
    read : callable
        Returns a column by its name; called when the column is used first.
    status : mapping of str to array of bool, shape (n,)
        Whether each job has a status, by status.

    Attributes
    ----------
    submission_time, requested_time, run_time : array of float, shape (n,)
    starting_time, finish_time, earlier_execution_time, useful_execution_time : array of float, shape (n,)
    requested_number_of_resources, user_id : array of int, shape (n,)
        Columns, in seconds and cores.
    """

    submission_time: Floats
    requested_time: Floats
    run_time: Floats
    starting_time: Floats
    finish_time: Floats
    earlier_execution_time: Floats
    useful_execution_time: Floats
    requested_number_of_resources: NDArray[np.int64]
    user_id: NDArray[np.int64]

    def __init__(self, read: Callable[[str], NDArray[Any]], status: Mapping[str, Mask]) -> None:
        self._read, self.status = read, status

    def __getattr__(self, name: str) -> Any:
        """Read a column, and keep it."""
        if name not in COLUMNS:
            raise AttributeError(name)
        column = self._read(name)
        setattr(self, name, column)
        return column

    @cached_property
    def finished(self) -> Mask:
        """Whether each job completed or was killed."""
        return self.status["completed"] | self.status["killed"]


COLUMNS = tuple(JobColumns.__annotations__)


class _Statuses(dict[str, Mask]):
    """Whether each job has a status, by status, of jobs with the status as index of its name."""

    def __init__(self, indices: NDArray[Any]) -> None:
        super().__init__()
        self._indices = indices

    def __missing__(self, status: str) -> Mask:
        """Compare the indices with that of a status."""
        self[status] = self._indices == JOBS["status"].values.index(status)
        return self[status]


class CutExecutions(NamedTuple):
    """The m executions that were interrupted and whose jobs were requeued or suspended.

    Attributes
    ----------
    start, finish, back : array of float, shape (m,)
        Start and end, and when the job returned to the queue, in seconds: when it was interrupted; of a suspended job,
        when it resumed, infinite if it did not.
    cores, load : array of float, shape (m,)
        Requested cores of the job, and requested cores x requested time in core-seconds.
    preempted : array of bool, shape (m,)
        Whether another job preempted the execution.
    kept : array of float, shape (m,)
        Seconds from the start of the execution whose work was not lost.
    killed : array of bool, shape (m,)
        Whether the job was killed in the end.
    """

    start: Floats
    finish: Floats
    back: Floats
    cores: Floats
    load: Floats
    preempted: Mask
    kept: Floats
    killed: Mask


_NONE = np.empty(0)
NO_CUTS = CutExecutions(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE > 0, _NONE, _NONE > 0)


def _measure(result: Result, *, names: Collection[str] = (), **options: Any) -> dict[str, float]:
    """Return all metrics of a run, or some."""
    end_time, options = _with_window(result, options)
    sources: dict[str, Any]
    if result.array is not None:  # no execution was interrupted, and no core was down
        table = JobColumns(result.array, _Statuses(result.array("status")))
        sources = {"jobs": table, "outages": None, "interruptions": None}
    else:
        outages = result.scan("outages") if "outages" in result.table_names else None
        interruptions = result.scan("interruptions")
        sources = {"jobs": result.source("jobs"), "outages": outages, "interruptions": interruptions}
    sources |= {"num_cores": result.info["num_cores"], "end_time": end_time, "names": names}
    values, observed = _measured(**sources, **options)
    if names and values.keys() >= set(names):
        return values
    for measure in (_prediction_accuracy, *gathered("measure"), node_metrics):
        values |= measure(result, observed)
    return values


def _with_window(result: Result, options: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Return the end of a run and the options; those of a run on a window of a log have the measured interval."""
    end_time, observed = result.end_time, result.measured_span
    if observed is None or any(options.get(name) for name in _INTERVAL):
        return end_time, options
    return max(end_time, observed[1]), options | {"window": observed}  # idle from the end of the run on


def _measured_jobs(result: Result, **options: Any) -> pl.DataFrame:
    """Return the jobs that job statistics cover."""
    end_time, options = _with_window(result, options)
    times = result.jobs["submission_time"].to_numpy()
    first = float(times.min()) if len(times) else 0.0
    interval = {name: options.get(name, default) for name, default in _INTERVAL.items()}
    return result.jobs.filter(_within(times, _observed_interval(first, end_time, **interval), end_time))


def _prediction_accuracy(result: Result, observed: tuple[float, float]) -> dict[str, float]:
    """Return the mean over all finished jobs of the shorter of predicted and useful time over the longer."""
    import polars as pl

    if "predictor" not in result.info:
        return {}
    predicted, ran = pl.col("predicted_time"), pl.col("useful_execution_time")
    shorter, longer = pl.min_horizontal(predicted, ran), pl.max_horizontal(predicted, ran)
    finished = result.scan("jobs").filter(ran.is_not_null())
    accuracy = pl.when(longer > 0).then(shorter / longer).otherwise(1.0)
    values = finished.select(accuracy.alias("accuracy")).collect()["accuracy"].to_numpy()
    # not Polars' mean, which depends on the number of threads
    return {"prediction_accuracy_mean": float(values.mean()) if len(values) else math.nan}


_INTERVAL: dict[str, Any] = {"warm_up": 0.0, "cool_down": 0.0, "window": None}


def batch_metrics(
    jobs: pl.DataFrame | pl.LazyFrame | Parts,
    *,
    num_cores: int,
    end_time: float,
    outages: pl.DataFrame | pl.LazyFrame | None = None,
    interruptions: pl.DataFrame | pl.LazyFrame | None = None,
    warm_up: float = 0.0,
    cool_down: float = 0.0,
    window: tuple[float, float] | None = None,
    unfinished: Unfinished = "exclude",
    bounded_slowdown_threshold: float = 10.0,
) -> dict[str, float]:
    """Compute all metrics of `METRICS`.

    Parameters
    ----------
    jobs : polars.DataFrame, polars.LazyFrame or Parts
        Job table, one row per job, in any order; a table in files is read in portions.
    num_cores : int
        Number of cores of the cluster.
    end_time : float
        End of the run in seconds.
    outages : polars.DataFrame or polars.LazyFrame, optional
        Table with columns ``time`` and ``cores_up``, in the order of the events; None if all cores were always up.
    interruptions : polars.DataFrame or polars.LazyFrame, optional
        Table of interrupted executions; None if no job was returned to the queue.
    warm_up : float
        Seconds from the first submission to the start of the observed interval (see `warm_up_of`).
    cool_down : float
        Seconds from the end of the observed interval to the end of the run.
    window : tuple of float, optional
        Start and end of the observed interval in simulated seconds, instead of `warm_up` and `cool_down`. The
        interval is half-open, but includes events at the end of the run. For a run on a window of a log, the default is
        that window, see :meth:`~desim.problems.batch.Workload.windows`.
    unfinished : {"exclude", "include"}
        Whether jobs that have not finished count with their times so far, see the module docstring.
    bounded_slowdown_threshold : float
        Lower limit of the useful execution time in the denominator of a bounded slowdown, in seconds.

    Returns
    -------
    dict of str to float
        Value of every metric, NaN if the sample or the interval is empty. Percentiles are interpolated linearly.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range or a column is missing.
    """
    return _measured(
        jobs=jobs,
        num_cores=num_cores,
        end_time=end_time,
        outages=outages,
        interruptions=interruptions,
        warm_up=warm_up,
        cool_down=cool_down,
        window=window,
        unfinished=unfinished,
        bounded_slowdown_threshold=bounded_slowdown_threshold,
    )[0]


def _measured(
    *,
    jobs: pl.DataFrame | pl.LazyFrame | Parts | JobColumns,
    num_cores: int,
    end_time: float,
    outages: pl.DataFrame | pl.LazyFrame | None,
    interruptions: pl.DataFrame | pl.LazyFrame | None,
    warm_up: float = 0.0,
    cool_down: float = 0.0,
    window: tuple[float, float] | None = None,
    unfinished: Unfinished = "exclude",
    bounded_slowdown_threshold: float = 10.0,
    names: Collection[str] = (),
) -> tuple[dict[str, float], tuple[float, float]]:
    """Return what :func:`batch_metrics` does, or only the metrics of some names, and the observed interval."""
    check_choice("unfinished", unfinished, ("exclude", "include"))
    check_float("bounded_slowdown_threshold", bounded_slowdown_threshold, above=0)
    table = jobs if isinstance(jobs, JobColumns) else _read_jobs(jobs)
    first = float(table.submission_time.min()) if len(table.submission_time) else 0.0
    observed = _observed_interval(first, end_time, warm_up, cool_down, window)
    selected = _within(table.submission_time, observed, end_time)
    cuts = NO_CUTS if isinstance(jobs, JobColumns) else read_cut_executions(jobs, interruptions)
    wants = _Wanted(names)
    available = _available(outages, num_cores, observed)
    values: dict[str, float] = {}
    if wants("jobs_"):
        values |= _counts(table, selected)
    includes = unfinished == "include"
    values |= _statistics(table, selected, end_time, includes, bounded_slowdown_threshold, wants=wants)
    if wants("makespan", "offered_load"):
        values |= _extent(table, selected, num_cores)
    values |= _occupation(table, cuts, available, observed, end_time, wants=wants)
    if wants("queue"):
        values |= _queue(table, cuts, observed, end_time, wants)
    if names:
        return {name: float(values[name]) for name in names if name in values}, observed
    # those of nodes and features are added later
    return {name: float(values[name]) for name in METRICS.names_for(())}, observed


class _Wanted:
    """Which metrics are wanted; all, if no names are given."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __call__(self, *beginnings: str) -> bool:
        """Return whether the name of a wanted metric begins in one of some ways."""
        return not self._names or any(name.startswith(beginnings) for name in self._names)


def warm_up_of(jobs: pl.DataFrame | pl.LazyFrame, fraction: float) -> float:
    """Return the warm-up that excludes a fraction of the jobs, those submitted first.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        Job table; only its column ``submission_time`` is read.
    fraction : float
        Fraction to exclude, at least 0 and below 1. Of n jobs, the first ``floor(fraction * n)`` are excluded, except
        jobs submitted at the same time as the first included one.

    Returns
    -------
    float
        Seconds from the first submission, to pass as ``warm_up``; 0 if there are no jobs.

    Raises
    ------
    InvalidConfiguration
        If the fraction is out of range.
    """
    check_float("fraction", fraction, least=0, below=1)
    times = np.sort(jobs.lazy().select("submission_time").collect()["submission_time"].to_numpy())
    return float(times[int(fraction * len(times))] - times[0]) if len(times) else 0.0


def _observed_interval(
    first: float, end_time: float, warm_up: float, cool_down: float, window: tuple[float, float] | None
) -> tuple[float, float]:
    check_float("warm_up", warm_up, least=0)
    check_float("cool_down", cool_down, least=0)
    if window is not None:
        if warm_up or cool_down:
            raise InvalidConfiguration("window: got warm_up or cool_down as well; give either window or these")
        begin, end = window
        if not 0 <= begin <= end <= end_time:
            raise InvalidConfiguration(f"window: got {window!r}, expected two ascending times from 0 to {end_time} s")
        return float(begin), float(end)
    begin, end = first + warm_up, float(end_time) - cool_down
    if begin > end:
        raise InvalidConfiguration(
            f"warm_up and cool_down leave no interval: it would start at {begin} s (first submission {first} s + "
            f"warm_up {warm_up} s) and end at {end} s (end of run {end_time} s - cool_down {cool_down} s)"
        )
    return begin, end


def _within(times: Floats, observed: tuple[float, float], end_time: float) -> Mask:
    begin, end = observed
    return (times >= begin) & ((times < end) | (end >= end_time))


def _available(outages: pl.DataFrame | pl.LazyFrame | None, num_cores: int, observed: tuple[float, float]) -> float:
    """Return the available core-seconds within the observed interval."""
    if outages is None:
        return num_cores * (observed[1] - observed[0])
    events = outages.lazy().select("time", "cores_up").collect()
    times, up = events["time"].to_numpy(), events["cores_up"].to_numpy()
    return step_integral(times, up.astype(np.float64), num_cores, observed)


def _occupation(
    table: JobColumns,
    cuts: CutExecutions,
    available: float,
    observed: tuple[float, float],
    end_time: float,
    *,
    wants: _Wanted,
) -> dict[str, float]:
    """Return core-seconds by use, interruptions and throughput within the observed interval."""
    found, length = {"available_core_seconds": available}, observed[1] - observed[0]
    if wants("throughput"):
        finished = np.count_nonzero(_within(table.finish_time[table.finished], observed, end_time))
        found["throughput"] = 3600.0 * finished / length if length else math.nan
    if not wants("utilization", "busy_", "wasted_", "killed_", "interruptions"):
        return found
    running = ~np.isnan(table.starting_time)
    ends = np.where(np.isnan(table.finish_time), end_time, table.finish_time)
    cores = table.requested_number_of_resources.astype(np.float64)
    cut_integral = time_integral(cuts.start, cuts.finish, cuts.cores, observed)
    ran = _of(table.starting_time, running), _of(ends, running), _of(cores, running)
    busy = cut_integral + time_integral(*ran, observed)
    found |= {"utilization": busy / available if available else math.nan, "busy_core_seconds": busy}
    if not wants("wasted_", "killed_", "interruptions"):
        return found
    lost = table.status["lost"]
    if cuts.kept.any():
        cut_integral = time_integral(cuts.start + cuts.kept, cuts.finish, cuts.cores, observed)
    wasted_integral = cut_integral + time_integral(table.starting_time[lost], ends[lost], cores[lost], observed)
    killed, cut = table.status["killed"], cuts.killed
    killed_integral = time_integral(table.starting_time[killed], ends[killed], cores[killed], observed) + time_integral(
        cuts.start[cut], cuts.start[cut] + cuts.kept[cut], cuts.cores[cut], observed
    )
    cut_ends = np.concatenate((cuts.finish[~cuts.preempted], ends[lost]))
    return found | {
        "wasted_core_seconds": wasted_integral,
        "killed_core_seconds": killed_integral,
        "interruptions": float(np.count_nonzero(_within(cut_ends, observed, end_time))),
    }


def _queue(
    table: JobColumns, cuts: CutExecutions, observed: tuple[float, float], end_time: float, wants: _Wanted
) -> dict[str, float]:
    """Return queue metrics; a job is queued from submission to its last start, except while it runs or is suspended."""
    queued = ~table.status["rejected"]
    begins, starts = _of(table.submission_time, queued), _of(table.starting_time, queued)
    ends = np.where(np.isnan(starts), end_time, starts)
    length, found = observed[1] - observed[0], {}
    if wants("queue_length_mean"):
        jobs = time_integral(begins, ends, 1.0, observed) - time_integral(cuts.start, cuts.back, 1.0, observed)
        found["queue_length_mean"] = jobs / length if length else math.nan
    if wants("queued_load_mean"):
        load = _of(table.requested_number_of_resources, queued) * _of(table.requested_time, queued)
        cut_load = time_integral(cuts.start, cuts.back, cuts.load, observed)
        waiting_load = time_integral(begins, ends, load, observed) - cut_load
        del load
        found["queued_load_mean"] = waiting_load / length if length else math.nan
    del ends
    if wants("queue_length_max"):
        entries = np.concatenate((begins, cuts.back))
        exits = np.concatenate((_of(starts, ~np.isnan(starts)), cuts.start))
        found["queue_length_max"] = maximum(entries, exits, observed)
    return found


def _portions(jobs: pl.DataFrame | pl.LazyFrame | Parts, *columns: str) -> Iterable[pl.DataFrame]:
    """Return the given columns of a job table, in portions if it is stored in files."""
    if not isinstance(jobs, Parts):
        return [JOBS.select(jobs, *columns)]
    JOBS.select(jobs.scan().clear(), *columns)  # raises an error that names a missing column
    return jobs.portions(columns)


def _read_jobs(jobs: pl.DataFrame | pl.LazyFrame | Parts) -> JobColumns:
    """Return the columns of a job table that metrics need."""
    import polars as pl

    portions = _portions(jobs, *COLUMNS, "status")
    height = jobs.height if isinstance(jobs, Parts) else sum(map(len, portions))
    kinds = {name: JOBS[name].polars_type() for name in COLUMNS}
    arrays: dict[str, Any] = {
        name: np.empty(height, np.float64 if kind == pl.Float64 else np.int64) for name, kind in kinds.items()
    }
    statuses = {status: np.empty(height, np.bool_) for status in JOBS["status"].values}
    begin = 0
    for portion in portions:
        there = slice(begin, begin + len(portion))
        for name, array in arrays.items():
            array[there] = portion[name].cast(kinds[name]).to_numpy()
        for status, mask in statuses.items():
            mask[there] = (portion["status"] == status).to_numpy()
        begin = there.stop
    return JobColumns(arrays.__getitem__, statuses)


def read_cut_executions(
    jobs: pl.DataFrame | pl.LazyFrame | Parts, interruptions: pl.DataFrame | pl.LazyFrame | None
) -> CutExecutions:
    """Return the interrupted executions after which the job ran again, ordered by job.

    The last executions of lost jobs are excluded, because the job table contains them.

    Parameters
    ----------
    jobs : polars.DataFrame, polars.LazyFrame or Parts
        Job table; a table in files is read in portions.
    interruptions : polars.DataFrame or polars.LazyFrame, optional
        Table of interrupted executions; None if no job was returned to the queue.

    Returns
    -------
    CutExecutions
        The executions.
    """
    import polars as pl

    key, cores = "arrival_number", pl.col("requested_number_of_resources")
    columns = key, "starting_time", "finish_time", "outcome", "speed", "work_before", "work_after"
    cuts = None if interruptions is None else INTERRUPTIONS.select(interruptions, *columns)
    if cuts is not None and not cuts.is_empty():
        cuts = with_kept_time(cuts).filter(pl.col("outcome") != "lost")
    if cuts is None or cuts.is_empty():
        return NO_CUTS
    resumed = pl.col("starting_time").shift(-1).over(key)
    cuts = cuts.with_columns(resumed=resumed, preempted=pl.col("outcome").is_in(("preempted", "suspended")))
    resumed = pl.coalesce("resumed", "starting_time_of_job", pl.lit(math.inf))
    frame = pl.concat(
        portion.rename({"starting_time": "starting_time_of_job"})
        .join(cuts, on=key, maintain_order="left_right")  # the order affects the last digit of sums
        .select(
            "starting_time",
            "finish_time",
            back=pl.when(pl.col("outcome") == "suspended").then(resumed).otherwise("finish_time"),
            cores=cores.cast(pl.Float64),
            load=cores * pl.col("requested_time"),
            preempted="preempted",
            kept="kept_time",
            killed=pl.col("status") == "killed",
        )
        for portion in _portions(
            jobs, key, "requested_time", "requested_number_of_resources", "starting_time", "status"
        )
    )
    return CutExecutions(*(frame[name].to_numpy() for name in frame.columns))


def _counts(table: JobColumns, selected: Mask) -> dict[str, float]:
    """Return the counts of the selected jobs, in total and by status."""
    statuses = JOBS["status"].values
    counts = {f"jobs_{status}": float(np.count_nonzero(table.status[status] & selected)) for status in statuses}
    return counts | {
        "jobs_submitted": float(np.count_nonzero(selected)),
        "jobs_started": float(np.count_nonzero(selected & ~np.isnan(table.starting_time))),
        "jobs_finished": counts["jobs_completed"] + counts["jobs_killed"],
    }


def _statistics(
    table: JobColumns, selected: Mask, end_time: float, include: bool, threshold: float, *, wants: _Wanted
) -> dict[str, float]:
    """Return summaries of waiting times, turnaround times and slowdowns of the selected jobs, and fairness metrics.

    Arrays are deleted as early as possible to save memory on long runs.
    """
    found: dict[str, float] = {}
    queued, submission = table.status["queued"], table.submission_time
    if wants("waiting_time"):
        earlier = table.earlier_execution_time
        waiting, waited = table.starting_time - submission - earlier, ~np.isnan(table.starting_time)
        if include:
            waiting, waited = np.where(queued, end_time - submission - earlier, waiting), waited | queued
        found = _summary("waiting_time", _of(waiting, selected & waited), wants)
        del waiting
    is_fair = wants("fairness_", "users")
    if not is_fair and not wants("turnaround_time", "slowdown", "bounded_slowdown"):
        return found
    turnaround, duration, ended = table.finish_time - submission, table.useful_execution_time, table.finished
    if include:
        left = queued | table.status["running"]
        turnaround = np.where(left, end_time - submission, turnaround)
        duration, ended = np.where(left, table.run_time, duration), ended | left
    sample = selected & ended
    turnaround, duration = _of(turnaround, sample), _of(duration, sample)
    if wants("slowdown"):
        runs = duration > 0
        slowdown = np.maximum(_of(turnaround, runs) / _of(duration, runs), 1.0)  # only unfinished jobs can be below 1
        found |= _summary("slowdown", slowdown, wants)
        del slowdown
    found |= _summary("turnaround_time", turnaround, wants)
    if not is_fair and not wants("bounded_slowdown"):
        return found
    bounded = np.maximum(turnaround / np.maximum(duration, threshold), 1.0)
    del turnaround, duration
    found |= _summary("bounded_slowdown", bounded, wants)
    return found | (_fairness(bounded, _of(table.user_id, sample)) if is_fair else {})


def _of(values: NDArray[Any], mask: Mask) -> NDArray[Any]:
    """Return the values selected by a mask, without a copy if it selects all of them."""
    return values if mask.all() else values[mask]


QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}


def _summary(name: str, values: Floats, wants: _Wanted) -> dict[str, float]:
    """Return the wanted summary statistics of a sample."""
    wanted = [summary for summary in SUMMARIES if wants(f"{name}_{summary}")]
    if not len(values):
        return {f"{name}_{summary}": math.nan for summary in wanted}
    found: dict[str, Any] = {}
    if "mean" in wanted:
        found["mean"] = values.mean()
    if "max" in wanted:
        found["max"] = values.max()
    if quantiles := [summary for summary in QUANTILES if summary in wanted]:
        numbers = np.quantile(values, [QUANTILES[summary] for summary in quantiles])
        found |= zip(quantiles, numbers, strict=True)
    return {f"{name}_{summary}": float(found[summary]) for summary in wanted}


def _fairness(values: Floats, users: NDArray[np.int64]) -> dict[str, float]:
    """Return fairness across the users' means: Jain's index is (sum x)^2 / (n sum x^2)."""
    known = users >= 0
    index, values = _of(users, known), _of(values, known)
    if not len(index):
        return {"fairness_jain": math.nan, "fairness_max_over_mean": math.nan, "users": 0.0}
    if index.max() > 4 * len(index) + 1_000:
        index = np.unique(index, return_inverse=True)[1]
    counts = np.bincount(index)
    means = np.bincount(index, values)[counts > 0] / counts[counts > 0]
    return {
        "fairness_jain": float(means.sum() ** 2 / (len(means) * np.square(means).sum())),
        "fairness_max_over_mean": float(means.max() / means.mean()),
        "users": float(len(means)),
    }


def _extent(table: JobColumns, selected: Mask, num_cores: int) -> dict[str, float]:
    """Return makespan in seconds and offered load of the selected jobs."""
    ends = table.finish_time[selected & table.finished]
    accepted = selected & ~table.status["rejected"]
    work = float(np.sum(table.requested_number_of_resources[accepted] * table.run_time[accepted]))
    times = table.submission_time[accepted]
    room = num_cores * (float(times.max()) - float(times.min())) if len(times) else 0.0
    return {
        "makespan": float(ends.max() - table.submission_time[selected].min()) if len(ends) else math.nan,
        "offered_load": work / room if room else math.nan,
    }


def _described() -> tuple[Metric, ...]:
    counts: dict[str, tuple[str, Better | None]] = {
        "submitted": ("jobs submitted within the observed interval; the other counts are subsets of these", None),
        "started": ("jobs whose last execution has started (running, completed, killed or lost)", None),
        "finished": ("jobs that completed or were killed", "higher"),
        "completed": ("jobs that ended by themselves", "higher"),
        "killed": ("jobs killed at their requested time", None),
        "lost": ("jobs lost to an outage", "lower"),
        "running": ("jobs running when the run ended", None),
        "queued": ("jobs queued when the run ended", None),
        "rejected": ("jobs that request more than the cluster has or a limit allows", None),
    }
    distributions = {
        "waiting_time": ("time from submission to the last start, except while the job ran, s", "s"),
        "turnaround_time": ("time from submission to the end, s", "s"),
        "slowdown": ("turnaround time over useful execution time; jobs for which that is 0 s are excluded", ""),
        "bounded_slowdown": (
            "turnaround time over useful execution time or threshold, whichever is longer; at least 1",
            "",
        ),
    }
    return (
        *(Metric(f"jobs_{name}", meaning, "jobs", better) for name, (meaning, better) in counts.items()),
        *(
            Metric(f"{name}_{summary}", f"{statistic} of: {meaning}", unit, "lower")
            for name, (meaning, unit) in distributions.items()
            for summary, statistic in SUMMARIES.items()
        ),
        Metric(
            "fairness_jain",
            "Jain's index of the users' mean bounded slowdowns: 1 if all are equal, 1 / users at worst",
            better="higher",
        ),
        Metric(
            "fairness_max_over_mean",
            "largest of the users' mean bounded slowdowns over their mean, at least 1",
            better="lower",
        ),
        Metric(
            "users",
            "users with a job in the sample of bounded slowdowns; the three fairness metrics exclude unknown users",
            "users",
        ),
        Metric("makespan", "last end of a finished job minus first submission, s", "s", "lower"),
        Metric(
            "offered_load",
            "cores x run time of the jobs not rejected, over num_cores x time from first to last submission",
        ),
        Metric("utilization", "busy core-seconds over core-seconds up", better="higher"),
        Metric("busy_core_seconds", "core-seconds of all executions, including interrupted ones", "core-s"),
        Metric("available_core_seconds", "core-seconds up", "core-s"),
        Metric(
            "wasted_core_seconds",
            "core-seconds of executions interrupted by an outage or preemption, except work that was kept",
            "core-s",
            "lower",
        ),
        Metric(
            "killed_core_seconds",
            "core-seconds of jobs killed at their requested time, except the wasted ones",
            "core-s",
            "lower",
        ),
        Metric("interruptions", "executions interrupted by an outage within the observed interval", "executions"),
        Metric("queue_length_mean", "time average of the number of queued jobs", "jobs", "lower"),
        Metric("queue_length_max", "largest number of queued jobs that lasted longer than an instant", "jobs", "lower"),
        Metric(
            "queued_load_mean",
            "time average of the sum of requested cores x requested time over queued jobs, core-seconds",
            "core-s",
            "lower",
        ),
        Metric("throughput", "finished jobs per hour", "jobs/h", "higher"),
        Metric(
            "prediction_accuracy_mean",
            "with a predictor: mean over finished jobs of min(predicted, useful execution time) over the larger one",
            better="higher",
            only_with="predictor",
        ),
    )


METRICS = Metrics(
    bounded(
        (*_described(), *gathered("METRICS"), *NODE_METRICS),
        shares=(
            "fairness_jain",
            "utilization",
            "prediction_accuracy_mean",
            "utilization_<resource>",
            "fragmentation_<resource>",
        ),
    ),
    _measure,
    headline=("waiting_time_mean", "waiting_time_p95", "bounded_slowdown_mean", "queue_length_mean", "utilization"),
    main=(
        "waiting_time_mean",
        "waiting_time_median",
        "waiting_time_p95",
        "bounded_slowdown_mean",
        "bounded_slowdown_p95",
        "utilization",
        "queue_length_mean",
        "makespan",
    ),
    incidents=("jobs_lost", "interruptions", "preemptions", "wasted_core_seconds"),
    measured_jobs=_measured_jobs,
    selects=True,
)
"""Metrics of a batch cluster, in the order in which they are returned."""
