"""Rules of the batch cluster, checked on the tables ``jobs``, ``interruptions`` and ``outages``.

`BATCH_RULES` states them. Times are compared exactly where the simulator has no reason to round (the
order of ends and starts on a core, say) and up to four units in the last place where a time is the sum or
difference of others. Intervals are half-open: a core that is freed at t can be used at t, and an execution
that takes no time overlaps with nothing. A job that is running when the run ends holds its cores until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.validation.batch_jobs import check_jobs
from desim.validation.batch_outages import check_interruptions, check_outages, owners
from desim.validation.batch_tables import BatchRun, read_batch_run
from desim.validation.conservation import check_conservation
from desim.validation.core_ranges import CoreRanges
from desim.validation.occupancy import conflicts, overloads
from desim.validation.report import Findings, ValidationReport

if TYPE_CHECKING:
    from desim.problems.batch import Job
    from desim.result import Result

__all__ = ["BATCH_RULES", "validate_batch"]

BATCH_RULES: Mapping[str, str] = {
    "description": "the description of the run is complete and makes sense",
    "columns": "every column is there, with its type, without nulls where there may be none, and finite",
    "values": "no time, number of cores or attempts is below what is possible",
    "unique_ids": "of all jobs with one id at most one is in the system at any time",
    "status_fields": "a job has the times and cores that belong to its status, and no others; success means completed",
    "start_after_submission": "no job starts before its submission",
    "finish_time": "a job ends at its start plus its execution time",
    "derived_times": "waiting time, turnaround time and stretch follow from the times",
    "execution_time": "a completed job ran for its run time, a killed one for its requested time, a lost one no longer",
    "unfinished": "a job is still running only if it is not due yet, and none is when a run has gone on to its end",
    "rejected": "the rejected jobs are those that are wider than the cluster",
    "horizon": "nothing happens after the end of the run",
    "outages": "only cores that are up go down, and the reverse; the number of cores that are up is right",
    "interruptions": "an interrupted job exists, was running, and was cut by the outage of one of its cores",
    "attempts": "the attempts of a job are its interruptions, plus one for an execution that was not cut",
    "one_at_a_time": "the executions of a job do not overlap, and the one in the job table is the last",
    "core_ranges": "allocated cores are written as ascending ranges of existing cores",
    "core_count": "every execution holds as many cores as its job requests",
    "core_exclusive": "no core serves two jobs at once",
    "core_down": "no core serves a job while it is down",
    "capacity": "the number of cores in use is never above the number of cores that are up",
    "conservation": "every submitted job is recorded once, as it was submitted, and no other is (needs the workload)",
}
"""The rules, in the order of checking. A broken ``description`` or ``columns`` ends the check."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def validate_batch(result: Result, workload: Iterable[Job] | None = None, *, stop_after: int = 20) -> ValidationReport:
    """Check the records of a batch run against `BATCH_RULES`.

    Parameters
    ----------
    result : Result
        The run, whatever its status.
    workload : iterable of Job, optional
        The jobs that were simulated.
    stop_after : int
        How many violations of each rule are described; all are counted.

    Returns
    -------
    ValidationReport
        Violations and checks.

    Raises
    ------
    InvalidConfiguration
        If ``stop_after`` is below 1.
    """
    findings = Findings(stop_after)
    run = read_batch_run(result, findings)
    if run is None:
        return findings.report()
    check_jobs(run, findings)
    owner = owners(run)
    down_event, down_core, down_until = check_outages(run, findings)
    check_interruptions(run, owner, findings)
    executions = _executions(run, owner)
    _check_order(executions, findings)
    _check_cores(run, executions, findings)
    _check_occupancy(run, executions, (down_event, down_core, down_until), findings)
    _check_capacity(run, executions, findings)
    if workload is not None:
        check_conservation(run, workload, findings)
    return findings.report()


@dataclass(frozen=True)
class _Executions:
    """All executions: first those of the job table, then those that were cut and repeated.

    Attributes
    ----------
    owner : array of int, shape (n,)
        Row of the job in the job table, -1 if there is no such job.
    final : array of bool, shape (n,)
        Whether it is in the job table.
    job_id, requested : array of int, shape (n,)
        The job and how many cores it requests (0 if there is no such job).
    begins, ends : array of float, shape (n,)
        In seconds.
    cores : CoreRanges
        Their cores.
    """

    owner: Whole
    final: NDArray[np.bool_]
    job_id: Whole
    requested: Whole
    begins: Floats
    ends: Floats
    cores: CoreRanges


def _executions(run: BatchRun, owner: Whole) -> _Executions:
    begun = np.flatnonzero(~np.isnan(run.jobs["starting_time"]) & ~np.isnan(run.ends))
    cut = np.flatnonzero(run.requeued)
    rows = np.concatenate((begun, owner[cut]))
    cores = _joined(_chosen(run.cores["jobs"], begun), _chosen(run.cores["interruptions"], cut))
    return _Executions(
        owner=rows,
        final=np.arange(len(rows)) < len(begun),
        job_id=np.concatenate((run.jobs["job_id"][begun], run.interruptions["job_id"][cut])),
        requested=np.where(rows >= 0, np.append(run.jobs["requested_number_of_resources"], 0)[rows], 0),
        begins=np.concatenate((run.jobs["starting_time"][begun], run.interruptions["starting_time"][cut])),
        ends=np.concatenate((run.ends[begun], run.interruptions["finish_time"][cut])),
        cores=cores,
    )


def _chosen(ranges: CoreRanges, rows: Whole) -> CoreRanges:
    """Keep the ranges of chosen rows, ascending, and number these from 0."""
    number = np.full(len(ranges.counts), -1, np.int64)
    number[rows] = np.arange(len(rows))
    row = number[ranges.row]
    keep = row >= 0
    return CoreRanges(row[keep], ranges.first[keep], ranges.last[keep], ranges.malformed[rows], ranges.counts[rows])


def _joined(one: CoreRanges, other: CoreRanges) -> CoreRanges:
    """Put the rows of two columns of ranges one after the other."""
    shifted = other._replace(row=other.row + len(one.counts))
    return CoreRanges(*(np.concatenate(arrays) for arrays in zip(one, shifted, strict=True)))


def _check_order(executions: _Executions, findings: Findings) -> None:
    """Check that a job runs once at a time, and last as its row says."""
    owner, begins, ends = executions.owner, executions.begins, executions.ends
    order = np.lexsort((ends, begins, executions.final, owner))
    order = order[owner[order] >= 0]
    before, after = order[:-1], order[1:]
    wrong = (owner[before] == owner[after]) & (ends[before] > begins[after])
    findings.check(
        "one_at_a_time",
        len(owner),
        np.flatnonzero(wrong),
        lambda pair: (
            f"job {executions.job_id[after[pair]]} runs {_span(executions, after[pair])} after it ran "
            f"{_span(executions, before[pair])}"
        ),
    )


def _span(executions: _Executions, index: int) -> str:
    return f"in [{executions.begins[index]}, {executions.ends[index]}) s"


def _check_cores(run: BatchRun, executions: _Executions, findings: Findings) -> None:
    for table in ("jobs", "interruptions"):
        _check_ranges(run, table, findings)
    cores = executions.cores
    findings.check(
        "core_count",
        len(executions.owner),
        (cores.counts != executions.requested) & (executions.owner >= 0) & ~cores.malformed,
        lambda row: (
            f"job {executions.job_id[row]} requests {executions.requested[row]} cores and has {cores.counts[row]} "
            f"{_span(executions, row)}"
        ),
    )


def _check_ranges(run: BatchRun, table: str, findings: Findings) -> None:
    ids: Whole = (run.jobs if table == "jobs" else run.interruptions)["job_id"]
    findings.check(
        "core_ranges",
        len(ids),
        run.cores[table].malformed,
        lambda row: (
            f"job {ids[row]} in table {table}: cores {run.texts[table][row]!r} are not ascending ranges of core ids "
            f"below {run.num_cores}"
        ),
    )


def _check_occupancy(
    run: BatchRun, executions: _Executions, downtimes: tuple[Whole, Whole, Floats], findings: Findings
) -> None:
    """Check every core for executions that overlap with each other or with downtimes."""
    event, core, until = downtimes
    count, since = len(core), run.outages["time"][event]
    none = np.zeros(count, np.bool_)
    cores = _joined(CoreRanges(np.arange(count), core, core, none, none.astype(np.int64)), executions.cores)
    begins, ends = np.concatenate((since, executions.begins)), np.concatenate((until, executions.ends))
    shared, down = conflicts(begins, ends, cores, run.num_cores, count)
    earlier, later = shared.earlier - count, shared.later - count
    findings.check(
        "core_exclusive",
        len(executions.owner),
        np.arange(len(later)),
        lambda pair: (
            f"core {shared.core[pair]} serves job {executions.job_id[earlier[pair]]} "
            f"{_span(executions, earlier[pair])} and job {executions.job_id[later[pair]]} "
            f"{_span(executions, later[pair])}"
        ),
    )
    held = down.later - count
    findings.check(
        "core_down",
        len(executions.owner),
        np.arange(len(held)),
        lambda pair: (
            f"core {down.core[pair]} serves job {executions.job_id[held[pair]]} {_span(executions, held[pair])} and is "
            f"down in [{begins[down.earlier[pair]]}, {ends[down.earlier[pair]]}) s"
        ),
    )


def _check_capacity(run: BatchRun, executions: _Executions, findings: Findings) -> None:
    """Check the number of cores in use, by what the jobs request, whatever their core ids."""
    exists = (executions.begins < executions.ends) & (executions.requested <= run.num_cores)
    times, used, up = overloads(
        executions.begins[exists],
        executions.ends[exists],
        executions.requested[exists],
        limit_times=run.outages["time"],
        limits=run.outages["cores_up"],
        num_cores=run.num_cores,
    )

    def message(index: int) -> str:
        at_work = exists & (executions.begins <= times[index]) & (executions.ends > times[index])
        jobs: list[Any] = executions.job_id[at_work].tolist()
        shown = ", ".join(map(str, jobs[-10:])) + (", ..." if len(jobs) > 10 else "")
        return f"at {times[index]} s {used[index]} cores are in use and {up[index]} up; running: jobs {shown}"

    findings.check("capacity", len(executions.owner), np.arange(len(times)), message)
