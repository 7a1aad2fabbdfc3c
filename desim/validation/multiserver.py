"""Rules of the multi-server cluster, checked on the tables of a run.

`MULTISERVER_RULES` states them. They hold for jobs that last one slot and for jobs that hold their resources until
their work is done, for several jobs a port and for gangs. Times are compared up to four units in the last place where
they are sums of others; amounts and rewards may differ by one part in a million.

What is not recorded cannot be checked. With ``record_allocations`` above 1 or 0, rules on amounts and on rewards look
at the jobs that start in a recorded slot, and the number of rows in the report says how many that are. Requests of
components are not recorded: for gangs ``requests`` is left out, as is whether an indivisible component gets all that it
requests. ``gain`` knows the utilities of equation (60) of arXiv 2305.06572 and leaves out jobs that use another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.validation.multiserver_allocations import check_allocations
from desim.validation.multiserver_jobs import check_jobs
from desim.validation.multiserver_rewards import check_rewards
from desim.validation.multiserver_slots import check_slots
from desim.validation.multiserver_tables import MultiServerRun, read_multiserver_run
from desim.validation.report import Findings, ValidationReport

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["MULTISERVER_RULES", "validate_multiserver"]

Whole = NDArray[np.int64]

MULTISERVER_RULES: Mapping[str, str] = {
    "description": "the description of the run is complete and makes sense",
    "columns": "every column is there, with its type, without nulls where there may be none, and finite",
    "graph": "ports, nodes and channels are complete and as the description says; whatever is named is one of theirs",
    "job_ids": "jobs are numbered from 0 on, each number once",
    "values": "no time, work, gain or overhead is below what is possible",
    "status_fields": "a job has the columns that belong to its status, and no others; success means completed",
    "start_after_submission": "no job starts before its submission",
    "start_slot": "a job starts when a slot begins: the one it arrived for, or with holding that one or a later one",
    "derived_times": "waiting time, execution time and turnaround time follow from the times",
    "minimum_speed": "a job starts only with a speed above the lowest (with holding)",
    "queue": "of the waiting jobs of a type only the first start, as many as can in a slot (with holding)",
    "finish_time": "a job ends one slot after its start, or with holding when its work is done at its speed",
    "unfinished": "a job still runs or waits only if it is not due, and none runs when a run has gone on to its end",
    "horizon": "nothing happens after the end of the run",
    "jobs_per_port": "no more jobs of a type than can be served are served, or with holding start, in one slot",
    "slots": "slots are numbered from 0 on, and there are as many as the run has lasted",
    "arrivals": "the jobs of a slot are as many as it says, and were submitted since the slot before it began",
    "slot_counts": "the jobs that run and wait when a slot has begun are as many as it says",
    "slot_rewards": "gain, overhead and reward of a slot are the sums over the jobs that run then",
    "slot_amounts": "what a slot has allocated is what its jobs hold, at most what is reserved, at most the capacity",
    "allocations": "an allocation is above 0, is one of a job, its port and its start, and is recorded once",
    "channels": "jobs get something only through channels",
    "requests": "no job gets more through a channel than it requests (not for gangs)",
    "gangs": "of a job that is served enough components are, and an indivisible one has one node (for gangs)",
    "capacity": "no node ever gives more of a resource than it has",
    "reward": "a job's reward is its gain less its overhead",
    "gain": "a job's gain is what the utilities of the nodes yield for what it gets",
    "overhead": "a job's overhead is that of its dominant resource, the largest",
    "conservation": "the jobs of every slot and port are as many as arrived (needs the workload)",
}
"""The rules, in the order of checking. A broken ``description``, ``columns`` or ``graph`` ends the check."""


def validate_multiserver(
    result: Result, workload: Iterable[Any] | None = None, *, stop_after: int = 20
) -> ValidationReport:
    """Check the records of a multi-server run against `MULTISERVER_RULES`.

    Parameters
    ----------
    result : Result
        The run, whatever its status.
    workload : array_like of shape (num_slots, num_ports), or iterable of such rows, optional
        How many jobs of each type arrived for each slot; all of them, so that jobs which processes have submitted
        count as invented. It is read once, and no further than the run has come.
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
        If a row of the workload is not one whole number a port.
    """
    findings = Findings(stop_after)
    run = read_multiserver_run(result, findings)
    if run is None:
        return findings.report()
    check_jobs(run, findings)
    check_slots(run, findings)
    check_allocations(run, findings)
    check_rewards(run, findings)
    if workload is not None:
        _check_conservation(run, workload, findings)
    return findings.report()


def _check_conservation(run: MultiServerRun, workload: Iterable[Any], findings: Findings) -> None:
    """Count the jobs of each slot and port; a run that was stopped need not have those that arrive at its end."""
    ports, submission = run.graph.ports, run.jobs["submission_time"]
    rows = workload if run.drained else islice(workload, int(run.end_time) + 1)
    arrivals = [_row(slot, row, len(ports)) for slot, row in enumerate(rows)]
    given = np.array(arrivals, dtype=np.int64).reshape(-1, len(ports))
    whole = (submission == np.floor(submission)) & (submission >= 0) & (submission < len(given))
    found = np.zeros_like(given)
    np.add.at(found, (submission[whole].astype(np.int64), run.port[whole]), 1)
    wrong = found != given
    if not run.drained:
        late = np.arange(len(given)) >= run.end_time
        wrong[late] = found[late] > given[late]
    slot, port = np.nonzero(wrong)
    findings.check(
        "conservation",
        max(len(submission), int(given.sum())),
        np.arange(len(slot)),
        lambda place: (
            f"{given[slot[place], port[place]]} jobs arrive for slot {slot[place]} at {ports[port[place]]}, "
            f"{found[slot[place], port[place]]} are recorded"
        ),
    )
    ids = run.jobs["job_id"]
    findings.check(
        "conservation",
        len(ids),
        ~whole,
        lambda row: f"job {ids[row]} is recorded but did not arrive: submitted at {submission[row]}",
    )


def _row(slot: int, row: Any, num_ports: int) -> Whole:
    counts = np.asarray(row)
    if counts.shape != (num_ports,) or counts.dtype.kind not in "bui":
        raise WorkloadError(f"slot {slot}: the arrivals are {row!r}, want {num_ports} whole numbers, one a port")
    return counts.astype(np.int64)
