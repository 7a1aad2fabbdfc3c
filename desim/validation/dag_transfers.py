"""Rules on the inputs of copies: where their data came from, when, and that nothing waited needlessly."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_assignments import copies_by_node
from desim.validation.dag_lookup import expand, latest, rounding
from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings

__all__ = ["check_transfers"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]


def check_transfers(run: DagRun, findings: Findings) -> None:
    """Check all inputs of all copies, and when copies start.

    Parameters
    ----------
    run : DagRun
        The run.
    findings : Findings
        Takes the violations.
    """
    inputs = _Inputs(run)
    _check_complete(run, inputs, findings)
    _check_sources(run, inputs, findings)
    _check_times(run, inputs, findings)
    if not run.shared:
        _check_choice(run, inputs, findings)
    _check_starts(run, inputs, findings)


class _Inputs:
    """The transfers of a run with the copies that they connect.

    Parameters
    ----------
    run : DagRun
        The run.

    Attributes
    ----------
    start, arrival, size : array of float, shape (n,)
        When the data were sent, when they had arrived, and how much it was.
    parent : array of int, shape (n,)
        The node that they come from.
    source, destination : array of int, shape (n,)
        Executors.
    """

    def __init__(self, run: DagRun) -> None:
        self._run = run
        names = ("starting_time", "arrival_time", "size", "source", "destination")
        self.start, self.arrival, self.size, self.source, self.destination = (run.transfers[name] for name in names)
        self.parent = run.graph.parent[run.transfer_edge]

    @cached_property
    def copy(self) -> Whole:
        """The copy that each transfer was for, -1 if there is none.

        Where a node was run several times by one executor, the rows of each input come in the order of the starts.
        """
        run, count = self._run, self._run.graph.num_executors
        rows = np.flatnonzero(run.started)
        executor, start, end = run.copies["executor"][rows], run.copies["starting_time"][rows], run.ends[rows]
        keys = run.copy_node[rows] * count + executor
        order = np.lexsort((end, start, keys))
        rows, keys = rows[order], keys[order]
        inputs = np.lexsort((np.arange(len(self.start)), self.destination, run.transfer_edge))
        new = np.ones(len(inputs), dtype=np.bool_)
        edge, destination = run.transfer_edge[inputs], self.destination[inputs]
        new[1:] = (np.diff(edge) != 0) | (np.diff(destination) != 0)
        place = np.arange(len(inputs))
        number = np.empty(len(inputs), dtype=np.int64)
        number[inputs] = place - np.maximum.accumulate(np.where(new, place, 0))
        wanted = run.graph.child[run.transfer_edge] * count + self.destination
        place = np.searchsorted(keys, wanted) + number
        found = place < len(keys)
        found[found] = keys[place[found]] == wanted[found]
        copy = np.full(len(wanted), -1)
        copy[found] = rows[place[found]]
        return copy

    @cached_property
    def provider(self) -> Whole:
        """The copy that each transfer came from, the last to finish there before it began; -1 if there is none."""
        run, count = self._run, self._run.graph.num_executors
        rows = np.flatnonzero(run.outcome["completed"])
        keys = run.copy_node[rows] * count + run.copies["executor"][rows]
        found = latest(keys, run.copies["finish_time"][rows], self.parent * count + self.source, self.start)
        return np.where(found >= 0, np.append(rows, -1)[found], -1)

    @cached_property
    def assigned(self) -> Floats:
        """When the copy that each transfer was for was assigned; NaN if there is none."""
        return np.append(self._run.copies["assignment_time"], np.nan)[self.copy]

    @cached_property
    def back_since(self) -> Floats:
        """When the destination had come back from its last outage before the assignment; what it had received is lost.

        Seconds, 0 if it was never down, or if outages lose no data.
        """
        run = self._run
        if not run.info["outages_lose_data"]:
            return np.zeros(len(self.start))
        repairs = run.outages["time"][~run.down]
        last = latest(run.outages["executor"][~run.down], repairs, self.destination, self.assigned)
        return np.append(repairs, 0.0)[last]

    def begin(self, finish: Floats, source: Whole, rows: Whole | slice) -> Floats:
        """Return when data that are complete at some times can set out from executors for chosen transfers."""
        if self._run.info["transfers"] == "when_finished":
            return np.where(source == self.destination[rows], finish, np.fmax(finish, self.back_since[rows]))
        return np.where(source == self.destination[rows], finish, np.fmax(finish, self.assigned[rows]))

    def seconds(self, source: Whole, rows: Whole | slice) -> Floats:
        """Return how long the data of chosen transfers take from executors if nothing else is moving."""
        graph, destination = self._run.graph, self.destination[rows]
        return graph.latencies[source, destination] + self.size[rows] / graph.transfer_speeds[source, destination]


_ALL = slice(None)


def _check_complete(run: DagRun, inputs: _Inputs, findings: Findings) -> None:
    """Check that each copy that started has one input for each parent, that fits and is there in time."""
    copy = inputs.copy
    wrong = copy < 0
    findings.check("inputs", len(copy), wrong, lambda row: f"{run.transfer_text(row)}: no copy started there with it")
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


def _check_sources(run: DagRun, inputs: _Inputs, findings: Findings) -> None:
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


def _check_times(run: DagRun, inputs: _Inputs, findings: Findings) -> None:
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


def _check_choice(run: DagRun, inputs: _Inputs, findings: Findings) -> None:
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


def _check_starts(run: DagRun, inputs: _Inputs, findings: Findings) -> None:
    """Check that a copy starts as soon as its data are there and its executor has run what comes before.

    After the withdrawal of a copy that was next, which happens at an outage or when a job ends, the one behind it
    cannot have started before.
    """
    rows = np.flatnonzero(run.started)
    executor, start = run.copies["executor"][rows], run.copies["starting_time"][rows]
    order = np.lexsort((run.ends[rows], start, executor))
    free = np.zeros(len(rows))
    follows = np.diff(executor[order]) == 0
    free[order[1:][follows]] = run.ends[rows][order[:-1][follows]]
    repairs = run.outages["time"][~run.down]
    repair = latest(run.outages["executor"][~run.down], repairs, executor, start)
    data = np.zeros(len(run.copy_node))
    known = inputs.copy >= 0
    np.maximum.at(data, inputs.copy[known], inputs.arrival[known])
    earliest = np.maximum.reduce(
        [free, np.append(repairs, 0.0)[repair], data[rows], run.copies["assignment_time"][rows]], axis=0
    )
    late = (start > earliest) & ~_may_be_behind_withdrawn(run, executor, start)
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


def _may_be_behind_withdrawn(run: DagRun, executor: Whole, start: Floats) -> Mask:
    """Tell whether copies start when a copy may have been withdrawn that was in front of them."""
    gone = np.flatnonzero(run.outcome["withdrawn"])
    ends = run.jobs["finish_time"][run.copy_job[gone]]
    moments = np.concatenate((run.outages["time"][run.down], ends[~np.isnan(ends)]))
    first = np.full(run.graph.num_executors, np.inf)
    np.minimum.at(first, run.copies["executor"][gone], run.copies["assignment_time"][gone])
    return np.isin(start, moments) & (first[executor] <= start)
