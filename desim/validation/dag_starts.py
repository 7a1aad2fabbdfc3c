"""Rules on when copies start: as soon as they can, but not before their executor has moved to another job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_executors import last_repair
from desim.validation.dag_inputs import Inputs
from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings

__all__ = ["check_starts"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]


def check_starts(run: DagRun, inputs: Inputs, findings: Findings) -> None:
    """Check that a copy starts as soon as its data are there and its executor has run what comes before, and moved.

    After the withdrawal of a copy that was next, which happens at an outage or when a job ends, the one behind it
    cannot have started before.

    Parameters
    ----------
    run : DagRun
        The run.
    inputs : Inputs
        Its transfers.
    findings : Findings
        Takes the violations.
    """
    rows = np.flatnonzero(run.started)
    start = run.copies["starting_time"][rows]
    free, delay = _free_executors(run, rows)
    data = np.zeros(len(run.copy_node))
    known = inputs.copy >= 0
    np.maximum.at(data, inputs.copy[known], inputs.arrival[known])
    moment = np.maximum(free, run.copies["assignment_time"][rows]) + delay
    earliest = np.maximum(moment, data[rows])
    late = (start > earliest) & ~_may_be_behind_withdrawn(run, rows, delay)
    findings.check(
        "no_waiting",
        len(rows),
        late,
        lambda row: (
            f"{run.copy_text(rows[row])} starts at {start[row]} s, and could at {earliest[row]} s: assigned at "
            f"{run.copies['assignment_time'][rows[row]]} s, data there at {data[rows[row]]} s, executor free at "
            f"{free[row]} s"
        ),
    )
    if run.by_task:
        findings.check(
            "moving_delay",
            len(rows),
            (delay > 0) & (start < moment),
            lambda row: (
                f"{run.copy_text(rows[row])} starts at {start[row]} s; its executor, free from {free[row]} s on, comes "
                f"from another job and has moved at {moment[row]} s"
            ),
        )


def _free_executors(run: DagRun, rows: Whole) -> tuple[Floats, Floats]:
    """Return since when the executors of copies that started were free and up, and how long they then had to move."""
    executor, start, end = run.copies["executor"][rows], run.copies["starting_time"][rows], run.ends[rows]
    order = np.lexsort((end, start, executor))
    before, after = order[:-1], order[1:]
    follows = np.diff(executor[order]) == 0
    before, after = before[follows], after[follows]
    repair = last_repair(run.outages, run.down, executor, start)
    free, delay = repair.copy(), np.zeros(len(rows))
    free[after] = np.maximum(end[before], repair[after])
    if run.by_task:
        # Who has been down since has no job to move from; a copy that takes no time may come right after a repair.
        moved = run.copy_job[rows[before]] != run.copy_job[rows[after]]
        moved &= (repair[after] < end[before]) | (repair[after] == start[before])
        delay[after[moved]] = run.info["moving_delay"]
    return free, delay


def _may_be_behind_withdrawn(run: DagRun, rows: Whole, delay: Floats) -> Mask:
    """Tell whether copies start when a copy may have been withdrawn that was in front of them, or have moved since."""
    executor, start = run.copies["executor"][rows], run.copies["starting_time"][rows]
    gone = np.flatnonzero(run.outcome["withdrawn"])
    ends = run.jobs["finish_time"][run.copy_job[gone]]
    moments = np.concatenate((run.outages["time"][run.down], ends[~np.isnan(ends)]))
    first = np.full(run.graph.num_executors, np.inf)
    np.minimum.at(first, run.copies["executor"][gone], run.copies["assignment_time"][gone])
    at_once = np.where(delay > 0, np.isin(start, moments + delay.max(initial=0.0)), np.isin(start, moments))
    return at_once & (first[executor] <= start)
