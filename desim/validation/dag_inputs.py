"""The inputs of copies: which copy each was for, where it came from, and how long it may take."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_executors import last_repair
from desim.validation.dag_lookup import count_until, latest
from desim.validation.dag_tables import DagRun

__all__ = ["Inputs"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Inputs:
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
        keys = run.copy_part[rows] * count + executor
        order = np.lexsort((end, start, keys))
        rows, keys, start = rows[order], keys[order], start[order]
        wanted = run.transfer_part * count + self.destination
        number = _occurrence(wanted, self.parent, self.source if run.by_task else np.zeros_like(self.source))
        if run.by_task:  # the next time, data may come from other executors, but then they set out later
            number = np.maximum(number, count_until(keys, start, wanted, self.start, inclusive=False))
        place = np.searchsorted(keys, wanted) + number
        found = place < len(keys)
        found[found] = keys[place[found]] == wanted[found]
        copy = np.full(len(wanted), -1)
        copy[found] = rows[place[found]]
        return copy

    @cached_property
    def provider(self) -> Whole:
        """The copy that each transfer came from, the last to finish there before it began; -1 if there is none.

        Tasks are sent what had been computed when they were assigned.
        """
        run, count = self._run, self._run.graph.num_executors
        rows = np.flatnonzero(run.outcome["completed"])
        keys = run.copy_node[rows] * count + run.copies["executor"][rows]
        until = self.assigned if run.by_task else self.start
        found = latest(keys, run.copies["finish_time"][rows], self.parent * count + self.source, until)
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
        return last_repair(run.outages, run.down, self.destination, self.assigned)

    def begin(self, finish: Floats, source: Whole, rows: Whole | slice) -> Floats:
        """Return when data can set out for chosen transfers.

        Parameters
        ----------
        finish : array of float, shape (m,)
            When they are complete, in seconds.
        source : array of int, shape (m,)
            Where they come from.
        rows : array of int, shape (m,), or slice
            The transfers.

        Returns
        -------
        array of float, shape (m,)
            In seconds.
        """
        if self._run.info["transfers"] == "when_finished":
            return np.where(source == self.destination[rows], finish, np.fmax(finish, self.back_since[rows]))
        return np.where(source == self.destination[rows], finish, np.fmax(finish, self.assigned[rows]))

    def seconds(self, source: Whole, rows: Whole | slice) -> Floats:
        """Return how long the data of chosen transfers take if nothing else is moving.

        Parameters
        ----------
        source : array of int, shape (m,)
            Where they come from.
        rows : array of int, shape (m,), or slice
            The transfers.

        Returns
        -------
        array of float, shape (m,)
            In seconds.
        """
        graph, destination = self._run.graph, self.destination[rows]
        return graph.latencies[source, destination] + self.size[rows] / graph.transfer_speeds[source, destination]


def _occurrence(*columns: Whole) -> Whole:
    """Return for each row how many rows before it are the same."""
    place = np.arange(len(columns[0]))
    order = np.lexsort((place, *columns))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return number
