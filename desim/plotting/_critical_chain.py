"""The critical chain of a DAG run: the copies that, one after the other, determine when it was over."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CriticalChain", "critical_chain"]

#: Times that differ by less than this part count as equal.
RESOLUTION = 1e-9


class CriticalChain(NamedTuple):
    """Copies and transfers, last ones first.

    Attributes
    ----------
    copies, transfers : array of int
        Rows of the tables.
    """

    copies: NDArray[np.int64]
    transfers: NDArray[np.int64]


def critical_chain(copies: pl.DataFrame, transfers: pl.DataFrame, *, moving_delay: float = 0.0) -> CriticalChain:
    """Trace back what made a run last as long as it did.

    The chain ends with the copy by which the last node finished. What a copy waited for until it started comes before
    it: the copy that sent the last of its data, or else the copy that ran before it on its executor, or else, for a
    copy that started as soon as it was assigned, the copy of its job that finished at that moment. It begins with
    a copy that waited for none of these, but for a submission or a repair.

    Parameters
    ----------
    copies, transfers : polars.DataFrame
        Tables of a DAG run; of the copies perhaps only those that have started.
    moving_delay : float
        Seconds that an executor needs between copies of different jobs.

    Returns
    -------
    CriticalChain
        Without any copies if none has finished.
    """
    rows = list(copies.iter_rows(named=True))
    done = [index for index, row in enumerate(rows) if row["outcome"] == "completed"]
    first: dict[tuple[int, int, int], int] = {}
    for index in sorted(done, key=lambda index: rows[index]["finish_time"]):
        first.setdefault((rows[index]["job_id"], rows[index]["node"], rows[index]["task"]), index)
    if not first:
        return CriticalChain(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    search = _Search(rows, done, list(transfers.iter_rows(named=True)), moving_delay)
    current: int | None = max(first.values(), key=lambda index: rows[index]["finish_time"])
    chain: list[int] = []
    sent: list[int] = []
    while current is not None and current not in chain:
        chain.append(current)
        current, transfer = search.cause(current)
        if transfer is not None:
            sent.append(transfer)
    return CriticalChain(np.array(chain, dtype=np.int64), np.array(sent, dtype=np.int64))


class _Search:
    """What looks for the causes of starts."""

    def __init__(
        self, rows: list[dict[str, Any]], done: list[int], transfers: list[dict[str, Any]], delay: float
    ) -> None:
        self._rows, self._transfers, self._delay = rows, transfers, delay
        self._done: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self._ended: dict[tuple[int, float], int] = {}
        for index in done:
            row = rows[index]
            self._done[row["job_id"], row["node"], row["executor"]].append(index)
            self._ended.setdefault((row["job_id"], row["finish_time"]), index)
        started = [index for index, row in enumerate(rows) if row["starting_time"] is not None]
        started.sort(key=lambda index: (rows[index]["starting_time"], rows[index]["finish_time"] or np.inf, index))
        self._before: dict[int, int] = {}
        last: dict[int, int] = {}
        for index in started:
            row = rows[index]
            if row["executor"] in last:
                self._before[index] = last[row["executor"]]
            last[row["executor"]] = index
        self._inputs: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
        for index, row in enumerate(transfers):
            self._inputs[row["job_id"], row["child"], row["task"], row["destination"]].append(index)

    def cause(self, index: int) -> tuple[int | None, int | None]:
        """Return the copy that a copy waited for, and the transfer by which, if any."""
        row = self._rows[index]
        candidates: list[tuple[float, int, int, int | None]] = []
        start = row["starting_time"]
        # a copy may have started there before, with other data; these had arrived by then and come behind
        for transfer in self._inputs[row["job_id"], row["node"], row["task"], row["executor"]]:
            source = self._source(transfer)
            if source is not None and self._transfers[transfer]["arrival_time"] <= start:
                candidates.append((self._transfers[transfer]["arrival_time"], 1, source, transfer))
        if index in self._before:
            before = self._before[index]
            candidates.append((self._rows[before]["finish_time"] + self._moving(index), 0, before, None))
        time, _, copy, taken = max(candidates, key=lambda entry: entry[:2], default=(-np.inf, 0, -1, None))
        if time >= start - RESOLUTION * max(1.0, start):
            return copy, taken
        if row["assignment_time"] + self._moving(index) >= start - RESOLUTION * max(1.0, start):
            return self._ended.get((row["job_id"], row["assignment_time"])), None
        return None, None

    def _moving(self, index: int) -> float:
        """Return how long an executor needed before it could run a copy, since the one before was of another job."""
        before = self._before.get(index)
        moves = before is not None and self._rows[before]["job_id"] != self._rows[index]["job_id"]
        return self._delay if moves else 0.0

    def _source(self, transfer: int) -> int | None:
        """Return the copy whose data a transfer moved: the last that had finished there."""
        row = self._transfers[transfer]
        known = self._done[row["job_id"], row["parent"], row["source"]]
        before = [index for index in known if self._rows[index]["finish_time"] <= row["starting_time"]]
        return max(before, key=lambda index: self._rows[index]["finish_time"], default=None)
