"""Rules of the cluster for deferrable jobs, checked on the tables of a run.

`DEFERRABLE_RULES` states them, for every kind of eviction, with and without overcommitment and foresight, and for any
number of resources. Times and counts are compared exactly; sums of amounts and rewards may differ by one part in 1e9,
and what is used may exceed the capacity by as much without being a violation.

What is not recorded cannot be checked. The capacity is taken as it is. The order in which the jobs of one slot were
started is not known, so that of the evictions among them is not checked. What a run did in a slot in which it broke off
has no row in the table of slots. Without a workload, jobs that are submitted as a slot begins may be known from the
next one on, as those are which a process submits once it has begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from desim.validation.deferrable_conservation import check_conservation
from desim.validation.deferrable_evictions import check_evictions
from desim.validation.deferrable_jobs import check_jobs
from desim.validation.deferrable_slots import check_slots
from desim.validation.deferrable_tables import read_deferrable_run
from desim.validation.report import Findings, ValidationReport

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["DEFERRABLE_RULES", "validate_deferrable"]

DEFERRABLE_RULES: Mapping[str, str] = {
    "description": "the description of the run is complete and makes sense",
    "columns": "every column is there, with its type, without nulls where there may be none, and finite",
    "job_ids": "no two jobs that are in the system at the same time have the same identifier",
    "values": "no time, duration, request, count or capacity is out of range",
    "windows": "no job is submitted after its earliest start, which is not after its latest start",
    "real_time": "a job is submitted at its earliest start, which is its latest start (in real time)",
    "status_fields": "a job has the columns that belong to its status, and no others; success means completed",
    "starts": "a job starts in a slot of its window, which is one of the run",
    "finish_time": "a job that has completed ran as long as requested; an evicted one less, and up to a whole slot",
    "derived_times": "waiting time, execution time, turnaround time and delay follow from the times",
    "revenue": "a job's revenue is its request of the first resource times its duration",
    "unfinished": "a job still runs only if it is not due, is still pending only if its window was open at the end; "
    "there is neither when a run has gone on until nothing was left",
    "expiry": "a job has expired only if its window had passed",
    "horizon": "nothing happens after the end of the run",
    "slots": "slots are numbered from 0 on, as many as the run has lasted, and a complete run has gone on to its end",
    "slot_counts": "as many jobs become known in a slot, can be started in it or later, start, expire, are evicted and "
    "run as it says, so that every job is accounted for from its submission on",
    "slot_work": "current and future work are cores times duration of the jobs that can or will be started",
    "used": "what is used in a slot is what the jobs request that run once jobs have been started",
    "violation": "the violation of a slot is what is used above the capacity",
    "slot_rewards": "revenue and delay of a slot are those of the jobs that start less those of the evicted ones, and "
    "the reward is what equation (6) of the OSDEC paper makes of them",
    "overcommit": "no job starts beyond the capacity (without overcommitment)",
    "evictions": "an eviction is of a job that was started in its window and had neither ended nor been evicted; a job "
    "has as many as it says, and one that is evicted for good was so by the last",
    "eviction_outcomes": "no job is evicted, or all that are get lost, or only those whose window has passed",
    "eviction_order": "jobs are evicted if and only if what they hold is short once those started later have gone",
    "conservation": "the jobs are those that were submitted, each once, with their numbers (needs the workload)",
}
"""The rules, in the order of checking. A broken ``description`` or ``columns`` ends the check."""


def validate_deferrable(
    result: Result, workload: Iterable[Any] | None = None, *, stop_after: int = 20
) -> ValidationReport:
    """Check the records of a run of a cluster for deferrable jobs against `DEFERRABLE_RULES`.

    Parameters
    ----------
    result : Result
        The run, whatever its status.
    workload : iterable of Job, optional
        The jobs that were simulated; all of them, so that jobs which processes have submitted count as invented. It is
        read once, and no further than the run has come. Those of a real-time run are given as they were to the cluster.
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
    WorkloadError
        If the workload has something else than jobs, or jobs with another number of requests.
    """
    findings = Findings(stop_after)
    run = read_deferrable_run(result, findings)
    if run is None:
        return findings.report()
    check_jobs(run, findings)
    check_slots(run, findings, in_time=workload is not None)
    check_evictions(run, findings)
    if workload is not None:
        check_conservation(run, workload, findings)
    return findings.report()
