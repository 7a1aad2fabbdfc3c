"""Rules of the DAG cluster, checked on the tables of a run.

`DAG_RULES` states them. Times are compared exactly where the simulator has no reason to round (the order of ends and
starts on an executor, the begin of a transfer when its data are complete, the start of a copy when the last of its
inputs arrives) and up to four units in the last place of the largest term where a time is a sum: the end of a copy, the
arrival of data, waiting time and turnaround time. Intervals are half-open: an executor that is freed at t can be used
at t, and a copy that takes no time overlaps with nothing.

Where nodes run task by task (``granularity`` in the description is ``task``), every task is a copy, and the rules are
`DAG_TASK_RULES`. The executors that a task receives data from, and how much from each, follow from where the tasks of
the parent ran whose results were held when it was assigned.

What is not recorded cannot be checked: the order in which an executor's queue was filled, when copies were withdrawn,
and how long a task takes whose duration was drawn from measured ones. Where transfers share links (``links`` in the
description), data may arrive later than on their own, and may come from another copy than the one that would have been
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from desim.exceptions import InvalidConfiguration
from desim.validation.dag_assignments import check_assignments
from desim.validation.dag_conservation import check_conservation
from desim.validation.dag_copies import check_copies
from desim.validation.dag_jobs import check_jobs
from desim.validation.dag_links import check_links
from desim.validation.dag_tables import read_dag_run
from desim.validation.dag_transfers import check_transfers
from desim.validation.report import Findings, ValidationReport

if TYPE_CHECKING:
    from desim.problems.dag import Job
    from desim.result import Result

__all__ = ["DAG_RULES", "DAG_TASK_RULES", "validate_dag"]

DAG_RULES: Mapping[str, str] = {
    "description": "the description of the run is complete and makes sense",
    "columns": "every column is there, with its type, without nulls where there may be none, and finite",
    "executors": "executors and channels are complete and as the description says",
    "graph": "nodes and edges are those of the jobs; every parent comes before its children, so that there is no cycle",
    "references": "copies, transfers and outages name only jobs, nodes, edges and executors that there are",
    "submissions": "of all jobs with one id at most one is in the system at any time; none comes before time 0",
    "horizon": "nothing happens after the end of the run",
    "status_fields": "a job has the times that belong to its status, and no others; success means completed",
    "derived_times": "waiting time and turnaround time of a job follow from its times",
    "job_times": "a job starts with the first of its copies and ends when the last of its nodes first finishes",
    "all_nodes": "every node of a completed job has finished",
    "unfinished": "what has not ended is not due, and nothing runs or waits when a run has gone on to its end",
    "outages": "only executors that are up go down, and the reverse",
    "outcome_fields": "a copy has the times that belong to its outcome, and no others",
    "copy_times": "a copy is assigned after the submission of its job, is next after that, then starts, then finishes",
    "after_completion": "no copy is assigned or starts after its job has ended",
    "record_order": "the ends of copies are recorded in the order in which they happened",
    "duration": "a copy runs for the work of its node over the speed of its executor, or the job's own run time",
    "executor_exclusive": "no executor runs two copies at once",
    "executor_down": "no executor that is down runs a copy or is assigned one, and no queue outlasts an outage",
    "interruptions": "a copy is cut when its executor goes down",
    "withdrawals": "a copy is withdrawn only after an outage or the end of its job",
    "duplicates": "a copy is a duplicate if its node had another copy when it was assigned",
    "parents": "when a node is assigned its parents are assigned or, unless nodes are planned ahead, have results",
    "inputs": "a copy that starts has one input for each parent of its node, all of it, arrived before",
    "sources": "data come from a copy that had finished, and whose result is not lost before they have arrived",
    "transfer_times": "data set out when they may, and take latency and size over transfer speed, or no time at home",
    "earliest_source": "no other copy of the parent would have brought the data earlier (not with shared links)",
    "no_waiting": "a copy starts as soon as it is assigned, its data are there, and its executor is free and up",
    "links": "no link carries more than it can in any stretch of time (with shared links)",
    "conservation": "every submitted job is recorded once, as it was submitted, and no other is (needs the workload)",
}
"""The rules, in the order of checking. A broken rule up to ``references`` ends the check."""


_LEFT_OUT = ("duplicates", "earliest_source", "links", "conservation")

DAG_TASK_RULES: Mapping[str, str] = {
    **{rule: text for rule, text in DAG_RULES.items() if rule not in _LEFT_OUT},
    "all_nodes": "every task of every node of a completed job has finished",
    "job_times": "a job starts with the first of its tasks and ends when the last of them first finishes",
    "duration": "a task runs for an equal part of what its node takes, or any time where that was drawn",
    "withdrawals": "a task is withdrawn only after an outage, of its own executor if outages lose no data",
    "repetitions": "a task is assigned again only when it was cut, withdrawn, or its result lost; none is a duplicate",
    "parents": "when a task is assigned, all tasks of all parents have finished, and their results are held",
    "inputs": "a task that starts has received results of all tasks of all parents, each once, and before",
    "sources": "data come from where tasks had finished, and are not lost before they have arrived",
    "shares": "a task receives its equal part of as much of an edge's size as of the parent's tasks ran at the source",
    "no_waiting": "a task starts as soon as it is assigned, its data are there, and its executor is free, up and moved",
    "moving_delay": "an executor moves before it runs a task of another job, unless it has been down in between",
    "conservation": DAG_RULES["conservation"],
}
"""The rules where nodes run task by task. A broken rule up to ``references`` ends the check."""


def validate_dag(result: Result, workload: Iterable[Job] | None = None, *, stop_after: int = 20) -> ValidationReport:
    """Check the records of a run of DAG jobs against `DAG_RULES` or, task by task, `DAG_TASK_RULES`.

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
        If ``stop_after`` is below 1, or neither nodes ran whole nor task by task.
    """
    granularity = result.info.get("granularity", "node")
    if granularity not in ("node", "task"):
        raise InvalidConfiguration(
            f"no rules for runs of granularity {granularity!r}; there are rules for 'node' and 'task'"
        )
    findings = Findings(stop_after)
    run = read_dag_run(result, findings)
    if run is None:
        return findings.report()
    check_jobs(run, findings)
    check_copies(run, findings)
    check_assignments(run, findings)
    check_transfers(run, findings)
    if run.shared:
        check_links(run, findings)
    if workload is not None:
        check_conservation(run, workload, findings)
    return findings.report()
