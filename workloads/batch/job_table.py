"""Job tables: data frames, mappings of columns, structured arrays, Parquet files and CSV files.

A table has one row per job. Its columns have the names of a result's job table, of Batsim, of the fields of a job, or
of Slurm's accounting, as ``sacct -P`` prints it, or of Slurm's simulators:

==================  =============================================================================================
``job_id``          ``id``, ``JobID``, ``JobIDRaw``, ``sim_job_id``: integers, or texts; if missing, rows are numbered
submission time     ``submission_time``, ``subtime``, ``Submit``, ``sim_submit_ts``, ``sim_submit``
cores               ``requested_number_of_resources``, ``requested_cores``, ``res``, ``cores``, ``AllocCPUS``,
                    ``NCPUS``, ``ReqCPUS``, ``sim_tasks`` (times ``sim_cpus_per_task``)
requested time      ``requested_time``, ``walltime``, ``Timelimit``; in minutes ``TimelimitRaw``, ``sim_wclimit``;
                    if missing, the run time
run time            ``run_time``, ``execution_time``, ``runtime``, ``Elapsed``, ``ElapsedRaw``, ``sim_duration``
user                ``user_id``, ``user``, ``User``, ``sim_username``; if missing, -1; names are numbered in order of
                    appearance
recorded wait       ``waiting_time``, or else ``starting_time`` or ``Start`` minus the submission time
==================  =============================================================================================

If a table has several of these names, the first counts. Other columns that a result or Batsim writes are ignored
silently; the report lists any further columns as not read. Times are numbers of seconds, or durations, also as text
such as ``1-12:00:00`` (a day and 12 hours) or ``00:10:00``. Submission and start times may also be dates, as text in
ISO 8601: they become seconds since 1970, in UTC unless they state a time zone; then all of them must be dates. A cell
without a value is unknown. Queues, partitions, job dependencies and sizes have the columns of
:mod:`desim.workloads.batch.site_columns`. With ``requests=True``, the columns of :mod:`desim.workloads.batch.requests`
are read as well: the requests of jobs for nodes. Rows are repaired and counted by the same rules as those of a Standard
Workload Format log. In Slurm's accounting (``JobID``), the rows of steps, such as ``12.batch``, are dropped, and jobs
that have not ended have no run time. The key-value metadata of a Parquet file hold ``num_cores``, the cores of the
machine, if they are known. Rows of a file with a cell that is not what its column holds, or with another number of
cells than there are names, are dropped and counted, and dependencies on ids that no job has, or several have, are left
out and counted, unless reading is strict; in a table in memory, all these are errors.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import repeat
from typing import Any, Protocol, Unpack, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import TAKEN, Job
from desim.problems.batch.tables import JOBS
from desim.problems.batch.workload import Workload, text_ids
from desim.reading import read_parquet, suffix_of
from desim.workloads.batch._cells import cells_of, found_columns, values_of
from desim.workloads.batch.requests import RequestColumns
from desim.workloads.batch.selection import Columns, Floats, TraceOptions, check_writable, ids_of, select
from desim.workloads.batch.site_columns import SiteColumns, named_users
from desim.workloads.batch.trace import Trace, TraceHeader, TraceReason, TraceReport
from desim.workloads.catalogue import located
from desim.workloads.files import Pathish, plain_number, read_text, write_lines, writing
from desim.workloads.json_fields import LARGEST, short_repr

__all__ = ["TableLike", "TableReport", "jobs_from", "read", "write"]

#: Possible names of a column by content; the first name is used for writing.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "job_id": ("job_id", "id", "JobID", "JobIDRaw", "sim_job_id"),
    "submission_time": ("submission_time", "subtime", "Submit", "sim_submit_ts", "sim_submit"),
    "requested_cores": (
        "requested_number_of_resources",
        "requested_cores",
        "res",
        "cores",
        "AllocCPUS",
        "NCPUS",
        "ReqCPUS",
        "sim_tasks",
    ),
    "requested_time": ("requested_time", "walltime", "Timelimit", "TimelimitRaw", "sim_wclimit"),
    "run_time": ("run_time", "execution_time", "runtime", "Elapsed", "ElapsedRaw", "sim_duration"),
    "user_id": ("user_id", "user", "User", "sim_username"),
    "waiting_time": ("waiting_time",),
    "starting_time": ("starting_time", "Start"),
}
#: Columns in minutes.
_MINUTES = ("TimelimitRaw", "sim_wclimit")
#: Columns of ids in Slurm's accounting, which has rows of steps, such as 12.batch and 12.0, and states of jobs.
_SLURM = ("JobID", "JobIDRaw")
_UNFINISHED = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED", "PD", "R", "RQ", "RS", "S")
_NEEDED = ("submission_time", "requested_cores", "run_time")
_DURATION = re.compile(r"(?:(\d+)-)?(\d+):([0-5]?\d):([0-5]?\d(?:\.\d+)?)")
#: Times that may be dates.
_INSTANTS = ("submission_time", "starting_time")
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")
_WHOLE = ("job_id", "requested_cores", "user_id")
#: Names of the written columns, in the order of the fields of a job.
_WRITTEN = [names[0] for what, names in _NAMES.items() if what in Job._fields]
#: Columns with outcomes of jobs, which are not read and not reported.
_OUTCOMES = {column.name for column in JOBS.columns} | {
    "workload_name", "profile", "final_state", "consumed_energy", "metadata", "purpose", "State", "End",
    "sim_cpus_per_task",
}  # fmt: skip
_MISSING = ("", "NA", "NaN", "nan", "null", "None", "UNLIMITED", "Partition_Limit", "Unknown", "INVALID", "NULL", "\\N")


@runtime_checkable
class TableLike(Protocol):
    """Table with named columns, such as a data frame of polars or pandas."""

    @property
    def columns(self) -> Iterable[str]:
        """Names of the columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the column of a name."""


@dataclass(repr=False)
class TableReport(TraceReport):
    """Counts of the rows that were dropped, changed or noted; places are positions, or lines of a text file.

    Parameters
    ----------
    unread : tuple of str
        Columns that have no meaning in a batch workload.
    """

    unread: tuple[str, ...] = ()

    def headline(self) -> str:
        """Return the totals and the columns not read, in one line."""
        return super().headline() + (f"; columns not read: {', '.join(self.unread)}" if self.unread else "")


class _Unreadable(WorkloadError):
    """Cells that are not what their column holds, at some places."""

    def __init__(self, message: str, places: NDArray[np.int64]) -> None:
        super().__init__(message)
        self.places = places


@dataclass(frozen=True)
class _Table:
    """Columns by name, their source, and the place of each row in it."""

    source: str
    columns: Mapping[str, Any]
    unit: str = "position"
    places: NDArray[np.int64] | None = None
    header: TraceHeader = field(default_factory=TraceHeader)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Places of all rows: lines, or positions in the table."""
        return np.arange(len(next(iter(self.columns.values()), ()))) if self.places is None else self.places

    def where(self, row: int) -> str:
        """Return the place of a row as text, for messages."""
        return f"{self.source}: row {row}" if self.places is None else f"{self.source}: line {self.places[row]}"

    def refused(self, wrong: Mapping[int, object]) -> WorkloadError:
        """Return the error for unreadable rows, given what is wrong by row; the message is about the first."""
        row, why = next(iter(wrong.items()))
        return _Unreadable(f"{self.where(row)}: {why}", self.rows[list(wrong)])


def jobs_from(
    table: TableLike | Mapping[str, Sequence[Any]] | NDArray[Any],
    *,
    columns: Mapping[str, str] | None = None,
    num_cores: int | None = None,
    requests: bool = False,
    attributes: Collection[str] = (),
    **options: Unpack[TraceOptions],
) -> Trace:
    """Return the jobs of a table in memory.

    Parameters
    ----------
    table : data frame, mapping of str to sequence, or structured array
        Data frame of polars, pandas or any other type with ``columns`` and access by name; or columns by name.
    columns : mapping of str to str, optional
        Names of the columns in this table, by the fields of a job and ``waiting_time`` or ``starting_time``, for
        example ``{"requested_cores": "ncpus"}``.
    num_cores : int, optional
        Number of cores of the machine, if known.
    requests : bool
        Whether jobs request tasks on nodes, see :mod:`desim.workloads.batch.requests`.
    attributes : collection of str
        Further columns to keep as attributes of jobs, which agents see. Columns with outcomes, such as recorded waits,
        cannot be kept.
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`. Status, queue and partition numbers are unknown, that is, -1.

    Returns
    -------
    Trace
        Jobs in order of submission, header and repair report; places are positions in the table, from 0.

    Raises
    ------
    WorkloadError
        If a column is missing, a cell has an invalid value, or no row is a usable job; the message
        names column and row.
    InvalidConfiguration
        If an option is out of range, or `columns` has a key that is not a field of a job.

    Examples
    --------
    >>> table = {"submission_time": [0, 60], "cores": [4, 2], "run_time": [30.0, 20.0], "colour": ["red", "blue"]}
    >>> trace = jobs_from(table)
    >>> trace.jobs[1]
    Job(job_id=1, submission_time=60.0, requested_cores=2, requested_time=20.0, run_time=20.0, user_id=-1)
    >>> print(trace.report.headline())
    2 rows: 2 jobs, 0 dropped; columns not read: colour
    """
    header = TraceHeader() if num_cores is None else TraceHeader(fields={"nb_res": str(num_cores)})
    return _trace(
        _Table("table", _columns_of(table), header=header), columns, options, requests=requests, attributes=attributes
    )


def read(
    path: Pathish,
    *,
    columns: Mapping[str, str] | None = None,
    requests: bool = False,
    attributes: Collection[str] = (),
    **options: Unpack[TraceOptions],
) -> Trace:
    """Read the jobs of a table in a file.

    Parameters
    ----------
    path : str or path-like
        Parquet file; or, if its name ends in ``.csv`` or ``.csv.gz``, text with column names in the first line and
        cells separated by commas, semicolons, tabs or vertical bars.
    columns : mapping of str to str, optional
        Names of the columns in this file, see `jobs_from`.
    requests : bool
        Whether jobs request tasks on nodes, see :mod:`desim.workloads.batch.requests`.
    attributes : collection of str
        Further columns to keep as attributes of jobs, which agents see. Columns with outcomes, such as recorded waits,
        cannot be kept.
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`. Status, queue and partition numbers are unknown, that is, -1.

    Returns
    -------
    Trace
        Jobs in order of submission, header (with ``nb_res``, if a Parquet file states the cores) and repair
        report; places are positions in the table, or lines of a text file.

    Raises
    ------
    WorkloadError
        If the file cannot be read, lacks a column, or has no usable job, and, if reading is strict, for a cell that is
        not a finite number; the message names file, column and row.
    InvalidConfiguration
        If an option is out of range, or `columns` has a key that is not a field of a job.
    """
    source, strict, dropped = os.fspath(path), options.get("strict", False), TableReport()
    table = _read_text(source, dropped, strict=strict) if _is_text(source) else _read_parquet(source)
    while True:  # at most once per column, and once for requests and for the columns of sites
        try:
            return _trace(table, columns, options, requests=requests, attributes=attributes, dropped=dropped)
        except _Unreadable as fault:
            is_faulty = np.isin(table.rows, fault.places)
            if strict or is_faulty.all():
                raise
            table = _without(table, is_faulty.tolist(), TraceReason.UNREADABLE, dropped)


def write(path: Pathish, jobs: Iterable[Job], num_cores: int | None = None, *, sacct: bool = False) -> None:
    """Write jobs so that `read` returns them exactly; the file is written completely or not at all.

    Parameters
    ----------
    path : str or path-like
        Target file, replaced only when the new one is complete: CSV if its name ends in ``.csv`` or ``.csv.gz``,
        otherwise Parquet.
    jobs : iterable of Job
        Jobs to write.
    num_cores : int, optional
        Number of cores of the machine; CSV files do not store it.
    sacct : bool
        Whether to write a CSV file as Slurm's ``sacct -P`` prints it: separated by vertical bars, with times in whole
        seconds, dates (time 0 is 1970 in UTC), users, partitions, QOS, and recorded starts of a workload.

    Raises
    ------
    WorkloadError
        If the file cannot be written, a job is invalid, or its requested time is 0 although its run time
        is not (the readers take 0 as unknown).
    InvalidConfiguration
        If ``sacct`` is set for another file.
    """
    if sacct and not _is_text(os.fspath(path)):
        raise InvalidConfiguration(f"{os.fspath(path)}: expected a .csv file for a table of sacct")
    if _is_text(os.fspath(path)):
        write_lines(path, _sacct_lines(jobs) if sacct else _lines(jobs))
        return
    import polars as pl

    rows = list(jobs)
    for job in rows:
        check_writable(job)
    whole = {_NAMES[what][0] for what in _WHOLE}
    kinds: dict[str, Any] = {name: pl.Int64 if name in whole else pl.Float64 for name in _WRITTEN}
    if text_ids(rows):
        kinds["job_id"] = pl.String
    table = pl.DataFrame([job[:6] for job in rows], schema=kinds, orient="row", strict=False)
    with writing(path) as file:
        table.write_parquet(file, metadata={} if num_cores is None else {"num_cores": str(num_cores)})


def _lines(jobs: Iterable[Job]) -> Iterator[str]:
    yield ",".join(_WRITTEN)
    for job in jobs:
        check_writable(job)
        identity = _quoted(job.job_id) if isinstance(job.job_id, str) else plain_number(job.job_id)
        yield ",".join((identity, *map(plain_number, job[1:6])))


def _sacct_lines(jobs: Iterable[Job]) -> Iterator[str]:
    columns = jobs.columns if isinstance(jobs, Workload) else ()
    waits = jobs["waiting_time"] if isinstance(jobs, Workload) and "waiting_time" in columns else repeat(math.nan)
    yield "JobID|User|Partition|QOS|Submit|Start|Elapsed|Timelimit|NCPUS"
    for job, wait in zip(jobs, waits, strict=False):
        check_writable(job)
        if "." in str(job.job_id):
            raise WorkloadError(f"job {job.job_id}: job_id: got {job.job_id!r}, which is the step of a job in Slurm")
        user = job.attributes.get("user") or ("" if job.user_id == -1 else job.user_id)
        start = "Unknown" if math.isnan(wait) else _as_date(job, job.submission_time + wait)
        times = _as_duration(round(job.run_time)), _as_duration(math.ceil(job.requested_time))
        date = _as_date(job, job.submission_time)
        yield _quoted(job.job_id, user, job.partition, job.qos, date, start, *times, job.requested_cores, separator="|")


def _as_date(job: Job, time: float) -> str:
    try:
        return (datetime(1970, 1, 1) + timedelta(seconds=round(time))).isoformat()  # without a time zone, as sacct
    except OverflowError:
        raise WorkloadError(f"job {job.job_id}: got the time {time:.15g} s, expected one before year 10000") from None


def _as_duration(seconds: int) -> str:
    """Return seconds as Slurm writes them: ``1-12:00:00``."""
    days, rest = divmod(seconds, 86_400)
    return f"{days}-" * bool(days) + f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _quoted(*cells: object, separator: str = ",") -> str:
    """Return a line of a CSV file, or one cell."""
    quoted = StringIO(newline="")
    csv.writer(quoted, lineterminator="", delimiter=separator).writerow(cells)
    return quoted.getvalue()


def _is_text(source: str) -> bool:
    return suffix_of(source) == ".csv"


def _columns_of(table: Any) -> dict[str, Any]:
    """Return the columns of a table of any kind, by name."""
    names = table if isinstance(table, Mapping) else getattr(getattr(table, "dtype", None), "names", None)
    if names is None and isinstance(table, TableLike):
        names = table.columns
    if names is None:
        raise InvalidConfiguration(
            f"table: got type {type(table).__name__}, expected a data frame, a mapping of columns or a structured array"
        )
    return {str(name): table[name] for name in names}


def _read_parquet(source: str) -> _Table:
    """Read the columns and the number of cores from a Parquet file."""
    table, metadata = read_parquet(located(source))
    fields = {"nb_res": metadata["num_cores"]} if "num_cores" in metadata else {}
    return _Table(source, {name: table[name] for name in table.columns}, header=TraceHeader(fields=fields))


def _read_text(source: str, dropped: TableReport, *, strict: bool) -> _Table:
    """Read the cells of a CSV file as text, by column, with the number of the last line of each row.

    Rows of another number of cells are dropped and counted, unless reading is strict or all are like that.
    """
    text = read_text(source)
    skipped = 0  # comment lines above the names
    while text.startswith("#"):
        skipped, text = skipped + 1, text.partition("\n")[2]
    first = text.partition("\n")[0]
    separator = max(",;\t|", key=first.count)
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    places, rows, wrong = [], [], ""
    try:
        names = [name.strip() for name in next(reader, [])]
        for row in reader:
            line = skipped + reader.line_num
            if row and len(row) == len(names):
                places.append(line)
                rows.append(row)
            elif row:
                wrong = wrong or f"line {line}: got {len(row)} cells, expected {len(names)} as in line {skipped + 1}"
                dropped.add(TraceReason.UNREADABLE, [line])
                dropped.rows += 1
    except csv.Error as error:
        raise WorkloadError(f"{source}: line {skipped + reader.line_num}: {error}") from error
    if wrong and (strict or not rows):
        raise WorkloadError(f"{source}: {wrong}")
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise WorkloadError(
            f"{source}: line {skipped + 1}: got two columns {short_repr(twice)}, expected distinct names"
        )
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return _Table(source, dict(zip(names, cells, strict=True)), "line", np.array(places, dtype=np.int64))


def _trace(
    table: _Table,
    names: Mapping[str, str] | None,
    options: TraceOptions,
    *,
    requests: bool,
    attributes: Collection[str],
    dropped: TableReport | None = None,
) -> Trace:
    """Make a trace from the columns that have a meaning; some rows may have been dropped already."""
    of_nodes = RequestColumns.of(table.columns, names or {}) if requests else None
    of_site = SiteColumns.of(table.columns, names or {}, on_nodes=requests)
    own = dict(of_site.found) | ({} if of_nodes is None else dict(of_nodes.found))
    found = _found(table, {what: name for what, name in (names or {}).items() if what not in own})
    for name in attributes:
        if name not in table.columns or name in TAKEN | _OUTCOMES:
            why = "a field of jobs or known only after a job has run" if name in table.columns else "no column"
            raise InvalidConfiguration(
                f"attributes: got {name!r}, which is {why}; expected further columns of the table"
            )
    used = {*found.values(), *own.values(), *attributes}
    unread = tuple(name for name in table.columns if name not in used and name not in _OUTCOMES)
    report = TableReport(unit=table.unit, unread=tuple(filter(None, unread)))  # an index may have no name
    if dropped is not None:
        report.merge(dropped)
    table = _without_other_rows(table, found, report)
    of_site = replace(of_site, columns=table.columns)
    of_nodes = None if of_nodes is None else replace(of_nodes, columns=table.columns)
    count = len(table.columns[found["run_time"]])
    uneven = next((name for name in sorted(used) if len(table.columns[name]) != count), None)
    if uneven is not None:
        raise WorkloadError(
            f"{table.source}: column {uneven}: got {len(table.columns[uneven])} rows, expected {count} as in "
            f"{found['run_time']}"
        )

    def numbers(what: str) -> Floats:
        return _numbers(table, what, found[what])[0] if what in found else np.full(count, -1.0)

    job_id: NDArray[Any] = np.arange(count, dtype=np.int64)
    if "job_id" in found:
        job_id = _identities(table, found["job_id"])
    users = named_users(cells_of(table.columns[found["user_id"]])) if "user_id" in found else None
    known = [numbers(what) for what in ("submission_time", "requested_cores", "requested_time", "run_time")]
    known[1], known[3] = _as_slurm_means(table, found, known[1], known[3])
    known.append(numbers("user_id") if users is None else np.array(users[0], np.float64))
    if of_nodes is not None:
        asked, known[1] = of_nodes.requests(
            known[1], of_each_task=found["requested_cores"] == "cores", refused=table.refused
        )
    rows = Columns.of_list(job_id, known)
    if "waiting_time" in found or "starting_time" in found:
        wait = numbers("waiting_time") if "waiting_time" in found else _waits(table, found)
        rows = replace(rows, wait=wait)
    if table.places is not None:
        rows = replace(rows, place=table.places)
    trace = select(table.source, rows, table.header, report, **options)
    ids = cells_of(table.columns[found["job_id"]]) if "job_id" in found else range(count)
    further = {name: values_of(table.columns[name]) for name in attributes}
    if users is not None:
        further["user"] = [name or None for name in users[1]]
    if not (further or of_site.found or requests):
        return trace
    row_of = dict(zip(rows.place.tolist(), range(count), strict=True))
    places = [row_of[place] for place in trace.place.tolist()]
    asked_for = asked if of_nodes is not None else None
    return of_site.applied(
        table.source,
        trace,
        places,
        ids,
        table.refused,
        lenient=dropped is not None and not options.get("strict", False),
        requests=asked_for,
        attributes=further,
    )


def _without_other_rows(table: _Table, found: Mapping[str, str], report: TableReport) -> _Table:
    """Return a table without the steps of Slurm's accounting, and without Batsim's reservations."""
    if found.get("job_id") in _SLURM:
        steps = ["." in str(cell) for cell in cells_of(table.columns[found["job_id"]])]
        table = _without(table, steps, TraceReason.PARTIAL_EXECUTION, report)
    if "purpose" in table.columns:
        others = [str(cell).strip().lower() == "reservation" for cell in cells_of(table.columns["purpose"])]
        table = _without(table, others, TraceReason.RESERVATION, report)
    return table


def _as_slurm_means(table: _Table, found: Mapping[str, str], cores: Floats, ran: Floats) -> tuple[Floats, Floats]:
    """Return cores and run times: tasks can have several cores, and what has not ended has no run time."""
    if found["requested_cores"] == "sim_tasks" and "sim_cpus_per_task" in table.columns:
        cores = cores * _numbers(table, "requested_cores", "sim_cpus_per_task")[0]
    if found.get("job_id") in _SLURM and "State" in table.columns:
        states = [str(cell).split(" ")[0] for cell in cells_of(table.columns["State"])]
        ran = np.where(np.isin(states, _UNFINISHED), -1.0, ran)  # theirs is the time until now
    return cores, ran


def _without(table: _Table, dropped: Sequence[bool], reason: TraceReason, report: TableReport) -> _Table:
    """Return a table without the rows that are no jobs, which are counted."""
    if not any(dropped):
        return table
    places = table.rows
    kept = ~np.array(dropped, np.bool_)
    report.add(reason, places[~kept].tolist())
    report.rows += sum(dropped)
    rows = np.flatnonzero(kept).tolist()
    columns = {name: cells_of(column) for name, column in table.columns.items()}
    return replace(
        table, columns={name: [cells[row] for row in rows] for name, cells in columns.items()}, places=places[kept]
    )


def _found(table: _Table, names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the columns by content."""
    for what, name in names.items():
        if what not in _NAMES:
            raise InvalidConfiguration(f"columns: got {what!r}, expected keys among {', '.join(_NAMES)}")
        if name not in table.columns:
            raise WorkloadError(f"{table.source}: has no column {name}, which columns maps to {what}")
    found = found_columns(table.columns, names, _NAMES)
    missing = [" or ".join(_NAMES[what]) for what in _NEEDED if what not in found]
    if missing:
        raise WorkloadError(
            f"{table.source}: is not a job table: has no column {', no column '.join(missing)}; try --columns"
        )
    return found


def _identities(table: _Table, name: str) -> NDArray[Any]:
    """Return the ids of the jobs: integers, or texts if some cell is not a number."""
    column = table.columns[name]
    items = column.tolist() if hasattr(column, "tolist") else list(column)
    is_text = any(isinstance(item, str) for item in items)
    if is_text and not (table.unit == "line" and all(map(_is_plain_number, items))):  # a CSV file has no types
        wrong = {
            row: f"{name}: got {item!r}, expected an integer or a string"
            for row, item in enumerate(items)
            if not isinstance(item, str | int) or item in _MISSING
        }
        if wrong:
            raise table.refused(wrong)
        return ids_of([str(item).strip() for item in items])
    if all(_INTEGER.fullmatch(str(item)) and abs(int(item)) < 1 << 63 for item in items):
        return np.array(list(map(int, items)), np.int64)  # not by floats, which are not exact beyond 2^53
    return _numbers(table, "job_id", name)[0].astype(np.int64)


def _is_plain_number(cell: str) -> bool:
    return _is_number(cell) and not (cell.strip()[:1] == "0" and cell.strip()[1:].isdecimal())


def _is_number(item: Any) -> bool:
    return not math.isnan(_number(item)) or (isinstance(item, str) and item.strip() in _MISSING)


def _waits(table: _Table, found: Mapping[str, str]) -> Floats:
    """Return the recorded waits of the jobs, from submission to start."""
    known = {what: _numbers(table, what, found[what]) for what in _INSTANTS}
    if len({dates.any() for values, dates in known.values() if (dates | (values != -1)).any()}) > 1:
        dated, other = (found[what] for what in sorted(_INSTANTS, key=lambda what: not known[what][1].any()))
        raise WorkloadError(f"{table.source}: got dates in {dated} and numbers in {other}, expected the same in both")
    start = known["starting_time"][0]
    return np.where(start == -1, -1.0, start - known["submission_time"][0])


def _numbers(table: _Table, what: str, name: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a column as finite numbers, -1 where unknown, and a mask of the cells that were dates."""
    column = table.columns[name]
    values, dates = _values(column, may_be_dates=what in _INSTANTS, may_be_durations=what.endswith("_time"))
    if what not in (*_NEEDED, "job_id"):
        unknown = [at for at in np.flatnonzero(np.isnan(values)).tolist() if _is_missing(_item(column, at))]
        values[unknown] = -1.0
    wanted = f"an integer of at most {LARGEST:g}" if what in _WHOLE else f"a finite number of at most {LARGEST:g}"
    wrong = ~(np.abs(values) <= LARGEST)
    if what in _WHOLE:
        with np.errstate(invalid="ignore"):  # of infinity
            wrong |= values % 1 != 0
    mixed = ~dates & (values != -1.0) if dates.any() and not wrong.any() else np.zeros_like(wrong)
    if wrong.any() or mixed.any():
        at = int(np.argmax(wrong | mixed))
        told = f"{table.where(at)}: {name}: got {' '.join(repr(_item(column, at)).split())}, expected"
        if mixed.any():  # and it is not known which are right
            raise WorkloadError(f"{told} a date as in other rows")
        raise _Unreadable(f"{told} {wanted}", table.rows[wrong])
    return (np.where(values > 0, 60.0 * values, values) if name in _MINUTES else values), dates


def _values(column: Any, *, may_be_dates: bool, may_be_durations: bool) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a column as new numbers, nan where a cell is not a number, and a mask of the cells that are dates."""
    cells = column.to_numpy() if hasattr(column, "to_numpy") else column
    dates = np.zeros(len(cells), np.bool_)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        return cells.astype(np.float64), dates
    if isinstance(cells, np.ndarray) and cells.dtype.kind in ("mM" if may_be_dates else "m"):
        since = cells - np.datetime64(0, "s") if cells.dtype.kind == "M" else cells
        seconds: Floats = since / np.timedelta64(1, "s")
        return seconds, ~np.isnat(cells) if cells.dtype.kind == "M" else dates
    numbers = np.array([_number(cell) for cell in cells], dtype=np.float64)
    for at in np.flatnonzero(np.isnan(numbers)).tolist() if may_be_durations else ():
        numbers[at] = _date(cells[at]) if may_be_dates else _duration(cells[at])
        dates[at] = may_be_dates and not math.isnan(numbers[at])
    return numbers, dates


def _number(item: Any) -> float:
    """Return a cell as a number, nan if it is not one."""
    if isinstance(item, bool | np.bool_) or (isinstance(item, str) and ("_" in item or not item.isascii())):
        # float() would accept these
        return math.nan
    try:
        if isinstance(item, timedelta):
            return item.total_seconds()
        return float(item)
    except (TypeError, ValueError):
        return math.nan


def _duration(item: Any) -> float:
    """Return a duration in seconds, such as that of ``1-12:00:00``; nan if it is not one."""
    found = _DURATION.fullmatch(item.strip()) if isinstance(item, str) else None
    if found is None:
        return math.nan
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((24.0 * days + hours) * 60.0 + minutes) * 60.0 + seconds


def _date(item: Any) -> float:
    """Return a date in seconds since 1970, nan if it is not one."""
    try:
        date = datetime.fromisoformat(item.strip()) if isinstance(item, str) else item
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (AttributeError, TypeError, ValueError):
        return math.nan


def _is_missing(item: Any) -> bool:
    """Return whether a cell without a number is unknown rather than invalid."""
    if isinstance(item, str):
        return item.strip() in _MISSING
    if isinstance(item, float):
        return math.isnan(item)
    return item is None or type(item).__name__ in ("NAType", "NaTType", "datetime64", "timedelta64")


def _item(column: Any, at: int) -> Any:
    """Return a cell of any kind of column as a plain Python value."""
    item = getattr(column, "iloc", column)[at]
    return item.item() if isinstance(item, np.number | np.bool_) else item
