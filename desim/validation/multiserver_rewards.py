"""Rules on the rewards of a multi-server run: equation (7) of arXiv 2305.06572 once more, on the recorded amounts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from desim.validation.multiserver_tables import ABSOLUTE, RELATIVE, MultiServerRun, differs
from desim.validation.report import Findings

__all__ = ["check_rewards"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

_UTILITIES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "linear": lambda amount, alpha: alpha * amount,
    "log": lambda amount, alpha: alpha * np.log(amount + 1.0),
    "reciprocal": lambda amount, alpha: amount / (alpha * (amount + alpha)),
    "poly": lambda amount, alpha: alpha * amount / (np.sqrt(amount + 1.0) + 1.0),
}
"""Those of equation (60), written so that small amounts do not cancel."""


def check_rewards(run: MultiServerRun, findings: Findings) -> None:
    """Check gains, overheads and rewards of the jobs.

    Parameters
    ----------
    run : MultiServerRun
        The run.
    findings : Findings
        Takes the violations.
    """
    ids, gain, overhead, reward = (run.jobs[name] for name in ("job_id", "gain", "overhead", "reward"))
    size = np.maximum(np.abs(gain), np.abs(overhead))
    findings.check(
        "reward",
        len(ids),
        np.abs(reward - (gain - overhead)) > RELATIVE * size + ABSOLUTE,
        lambda row: f"job {ids[row]}: reward {reward[row]} is not gain {gain[row]} - overhead {overhead[row]}",
    )
    _check_gains(run, findings)
    _check_overheads(run, findings)


def _check_gains(run: MultiServerRun, findings: Findings) -> None:
    """Recompute the gains of jobs all of whose utilities are known here."""
    ids, said = run.jobs["job_id"], run.jobs["gain"]
    amount, job, node, resource = _of_jobs(run)
    names, alpha = run.graph.utilities[node, resource], run.graph.weights[node, resource]
    values, known = np.zeros(len(amount)), np.zeros(len(amount), dtype=np.bool_)
    for name, value in _UTILITIES.items():
        rows = np.flatnonzero(names == name)
        values[rows], known[rows] = value(amount[rows], alpha[rows]), True
    expected = np.bincount(job, values, minlength=len(ids)).astype(np.float64)
    checked = run.recorded | ~run.started
    checked[job[~known]] = False
    if not np.isin(run.graph.utilities, list(_UTILITIES)).all():
        checked &= run.started  # an unknown utility may be a little off at 0
    rows = np.flatnonzero(checked)
    wrong = rows[differs(said[rows], expected[rows])]
    findings.check(
        "gain",
        len(rows),
        wrong,
        lambda row: f"{_job(run, row)}: gain is {said[row]}, what it gets yields {expected[row]}",
    )


def _of_jobs(run: MultiServerRun) -> tuple[Floats, Whole, Whole, Whole]:
    """Return what each job gets from each node, summed over its components, and job, node and resource of it."""
    import polars as pl

    given = run.allocations
    rows = np.flatnonzero((given.job >= 0) & (given.amount > 0))
    columns = {name: getattr(given, name)[rows] for name in ("job", "node", "resource", "amount")}
    if run.info["gang"] is not None:
        sums = pl.DataFrame(columns).group_by("job", "node", "resource").agg(pl.col("amount").sum())
        columns = {name: sums[name].to_numpy() for name in columns}
    return columns["amount"], columns["job"], columns["node"], columns["resource"]


def _check_overheads(run: MultiServerRun, findings: Findings) -> None:
    said, resources = run.jobs["overhead"], run.graph.resources
    overheads = run.held * np.array(run.info["overhead"], dtype=np.float64)
    expected = overheads.max(axis=1)
    checked = run.recorded | ~run.started
    count = int(checked.sum())
    findings.check(
        "overhead",
        count,
        checked & differs(said, expected),
        lambda row: f"{_job(run, row)}: overhead is {said[row]}, what it gets costs {expected[row]}",
    )
    own = np.take_along_axis(overheads, run.dominant[:, None], axis=1)[:, 0]
    findings.check(
        "overhead",
        count,
        checked & differs(own, expected),
        lambda row: (
            f"{_job(run, row)}: its dominant resource is said to be {resources[run.dominant[row]]}, whose overhead is "
            f"{own[row]}; that of {resources[int(overheads[row].argmax())]} is {expected[row]}"
        ),
    )


def _job(run: MultiServerRun, row: int) -> str:
    start = run.jobs["starting_time"][row]
    when = "never served" if np.isnan(start) else f"served from slot {start:g} on"
    return f"job {run.jobs['job_id'][row]}, {when}"
