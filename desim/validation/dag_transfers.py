"""Rules on the inputs of copies: where their data came from, when, and that nothing waited needlessly."""

from __future__ import annotations

import numpy as np

from desim.validation.dag_assignments import copies_by_node
from desim.validation.dag_inputs import Inputs
from desim.validation.dag_lookup import expand
from desim.validation.dag_shares import check_shares
from desim.validation.dag_starts import check_starts
from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings
from desim.validation.tables import rounding

__all__ = ["check_transfers"]


def check_transfers(run: DagRun, findings: Findings) -> None:
    """Check all inputs of all copies, and when copies start.

    Parameters
    ----------
    run : DagRun
        The run.
    findings : Findings
        Takes the violations.
    """
    inputs = Inputs(run)
    _check_complete(run, inputs, findings)
    _check_sources(run, inputs, findings)
    _check_times(run, inputs, findings)
    if not run.shared and not run.by_task:
        _check_choice(run, inputs, findings)
    check_starts(run, inputs, findings)


_ALL = slice(None)


def _check_complete(run: DagRun, inputs: Inputs, findings: Findings) -> None:
    """Check that each copy that started has one input for each parent, that fits and is there in time."""
    copy = inputs.copy
    wrong = copy < 0
    findings.check("inputs", len(copy), wrong, lambda row: f"{run.transfer_text(row)}: no copy started there with it")
    if run.by_task:
        check_shares(run, inputs, findings)
    else:
        _check_parts(run, inputs, findings)
    start = np.append(run.copies["starting_time"], np.nan)[copy]
    findings.check(
        "inputs",
        len(copy),
        start < inputs.arrival,
        lambda row: (
            f"{run.copy_text(copy[row])} starts at {start[row]} s, before the data of node "
            f"{run.transfers['parent'][row]} arrive at {inputs.arrival[row]} s"
        ),
    )


def _check_parts(run: DagRun, inputs: Inputs, findings: Findings) -> None:
    """Check that there is one input for each parent, all of it."""
    copy = inputs.copy
    num_parents = np.bincount(run.graph.child, minlength=run.graph.num_nodes)[run.copy_node]
    found = np.bincount(copy[copy >= 0], minlength=len(num_parents))
    findings.check(
        "inputs",
        len(copy),
        run.started & (found != num_parents),
        lambda row: f"{run.copy_text(row)} started with {found[row]} inputs, the node has {num_parents[row]} parents",
    )
    expected = run.graph.size[run.transfer_edge]
    findings.check(
        "inputs",
        len(copy),
        inputs.size != expected,
        lambda row: f"{run.transfer_text(row)}: the size is {inputs.size[row]}, that of the edge is {expected[row]}",
    )


def _check_sources(run: DagRun, inputs: Inputs, findings: Findings) -> None:
    """Check that data come from a finished copy whose result is not lost before they have arrived."""
    provider, start = inputs.provider, inputs.start
    findings.check(
        "sources",
        len(start),
        provider < 0,
        lambda row: f"{run.transfer_text(row)} sets out at {start[row]} s, when no copy of it has finished there",
    )
    gone = np.append(run.gone, np.nan)[provider]
    needed = np.fmax(inputs.arrival, inputs.assigned)
    findings.check(
        "sources",
        len(start),
        gone < needed,
        lambda row: (
            f"{run.transfer_text(row)} is lost in the outage at {gone[row]} s, needed from {start[row]} s "
            f"to {needed[row]} s"
        ),
    )


def _check_times(run: DagRun, inputs: Inputs, findings: Findings) -> None:
    """Check when data set out and how long they take; on shared links both are the least possible."""
    start, arrival, source = inputs.start, inputs.arrival, inputs.source
    finish = np.append(run.copies["finish_time"], np.nan)[inputs.provider]
    begin = inputs.begin(finish, source, _ALL)
    findings.check(
        "transfer_times",
        len(start),
        (start < begin) | ((start > begin) & (not run.shared)),
        lambda row: (
            f"{run.transfer_text(row)} sets out at {start[row]} s, want {begin[row]} s: finished at {finish[row]} s, "
            f"assigned at {inputs.assigned[row]} s"
        ),
    )
    seconds = inputs.seconds(source, _ALL)
    expected = start + seconds
    tolerance = rounding(expected, seconds)
    late = (arrival - expected > tolerance) & ((not run.shared) | (source == inputs.destination))
    findings.check(
        "transfer_times",
        len(start),
        (expected - arrival > tolerance) | late,
        lambda row: (
            f"{run.transfer_text(row)}, sent at {start[row]} s, takes {seconds[row]} s and arrives at {arrival[row]} s"
        ),
    )


def _check_choice(run: DagRun, inputs: Inputs, findings: Findings) -> None:
    """Check that no other copy of the parent would have brought the data earlier."""
    order, begins, counts = copies_by_node(run)
    row, member = expand(begins[inputs.parent], counts[inputs.parent])
    other = order[member]
    keep = run.outcome["completed"][other] & (other != inputs.provider[row]) & (inputs.copy[row] >= 0)
    row, other = row[keep], other[keep]
    source = run.copies["executor"][other]
    arrival = inputs.begin(run.copies["finish_time"][other], source, row) + inputs.seconds(source, row)
    there = run.gone[other] > np.fmax(arrival, inputs.assigned[row])
    better = there & (inputs.arrival[row] - arrival > rounding(arrival))
    findings.check(
        "earliest_source",
        len(inputs.start),
        np.flatnonzero(better),
        lambda place: (
            f"{run.transfer_text(row[place])} arrives at {inputs.arrival[row[place]]} s; from executor {source[place]} "
            f"it would at {arrival[place]} s"
        ),
    )
