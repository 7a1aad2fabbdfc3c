"""Records of compiled runs: arrays, of which tables are made when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.tables import JOBS

if TYPE_CHECKING:
    import polars as pl

    from desim.problems.batch.workload import Workload
    from desim.tables import Table

__all__ = ["Outcome"]

STATUSES = ("completed", "killed", "running", "queued", "rejected")
"""What the statuses of the loops mean, from 1 on."""
_, KILLED, RUNNING, _, REJECTED = range(1, 6)
ALL = slice(None)


@dataclass(frozen=True)
class Outcome:
    """When the jobs of a run started and ended, and how.

    Attributes
    ----------
    workload : Workload
        Jobs by row.
    num_cores : int
        Number of cores of the cluster.
    end : float
        End of the run in seconds.
    start, duration, predicted : array of float, shape (n,)
        By row: start, execution time and predicted time, in seconds.
    status, corrections : array of int, shape (n,)
        By row: status, 0 for a job that has not arrived, and number of corrections of the predicted time.
    started, ended_before, ended, recorded : array of int
        Rows in the order of starts, number of jobs that had ended before each of these starts, and rows in the order of
        ends and of records.
    """

    workload: Workload
    num_cores: int
    end: float
    start: NDArray[np.float64]
    duration: NDArray[np.float64]
    predicted: NDArray[np.float64]
    status: NDArray[np.int64]
    corrections: NDArray[np.int64]
    started: NDArray[np.int64]
    ended_before: NDArray[np.int64]
    ended: NDArray[np.int64]
    recorded: NDArray[np.int64]

    @property
    def times(self) -> NDArray[np.float64]:
        """When each job was recorded, in this order."""
        rows = self.recorded
        status, ends = self.status[rows], self.start[rows] + self.duration[rows]
        known = np.where(status == REJECTED, self.workload["submission_time"][rows], self.end)
        return np.maximum.accumulate(np.where(status <= KILLED, ends, known))

    @cached_property
    def in_order(self) -> NDArray[np.int64] | slice:
        """Rows in the order of the job table: by submission and id, those with the same id as they were recorded."""
        rows = ALL if len(self.recorded) == len(self.workload) else np.sort(self.recorded)
        times, ids = (self.workload[name][rows] for name in JOBS.sort_by)
        if ids.dtype.kind == "i" and ((times[1:] > times[:-1]) | (ids[1:] > ids[:-1])).all():
            return rows
        import polars as pl

        rows = self.recorded
        keys = {name: self._of_workload(name, rows) for name in JOBS.sort_by}
        order = pl.DataFrame(keys).with_row_index("place").sort(*JOBS.sort_by, maintain_order=True)["place"]
        return np.asarray(rows[order.to_numpy()])

    @cached_property
    def _texts(self) -> pl.Series:
        """Texts of the allocated cores of the jobs that have started, in the order of their starts."""
        import polars as pl

        from desim.problems.batch.compiled import allocation

        cores, started = self.workload["requested_cores"], self.started
        ranges, begins = allocation.core_ranges(cores, started, self.ended_before, self.ended, self.num_cores)
        parts = []
        for begin in range(0, len(started), 65_536):  # a text holds at most 4 GB
            text = allocation.texts(ranges, begins[begin : begin + 65_537]).tobytes().decode("ascii")
            parts.append(pl.Series([text]).str.split("\n").explode())
        return pl.concat(parts) if parts else pl.Series([], dtype=pl.String)

    def _of_workload(self, name: str, rows: NDArray[np.int64] | slice) -> Any:
        """Return a column of the workload, for some rows."""
        values = self.workload[{"requested_number_of_resources": "requested_cores"}.get(name, name)][rows]
        return values.tolist() if values.dtype.kind == "O" else values

    def column(self, rows: NDArray[np.int64] | slice, name: str) -> Any:
        """Return a recorded column of the job table.

        Parameters
        ----------
        rows : array of int, or slice
            Rows of the jobs.
        name : str
            Name of the column.

        Returns
        -------
        sequence
            Values as :meth:`desim.tables.Table.frame` takes them.
        """
        if name in OF_RUN:
            return OF_RUN[name](self, rows)
        if name in JOBS.names:
            return self._of_workload(name, rows)
        values = [self.workload.job(row).attributes.get(name) for row in self.numbers[rows].tolist()]
        is_text = self.workload.attributes[name] == "text"
        return [None if value is None else str(value) for value in values] if is_text else values

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """Numbers of all rows."""
        return np.arange(len(self.workload))

    @cached_property
    def has_ended(self) -> bool:
        """Whether all jobs have run to their end."""
        return len(self.ended) == len(self.workload)

    def ended_only(self, times: NDArray[np.float64], rows: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return times of some rows, with NaN for jobs that have not run to their end."""
        return times if self.has_ended else np.where(self.status[rows] <= KILLED, times, np.nan)

    def corrections_of(self, rows: NDArray[np.int64] | slice) -> list[int | None]:
        """Return how often the predicted times of some rows were corrected, None for rejected jobs."""
        pairs = zip((self.status[rows] == REJECTED).tolist(), self.corrections[rows].tolist(), strict=True)
        return [None if is_rejected else number for is_rejected, number in pairs]

    def array(self, name: str) -> NDArray[Any]:
        """Return a column of the job table as an array, with NaN for unknown times, and the status by its index."""
        return np.asarray(self.column(self.in_order, name))

    def texts_of(self, rows: NDArray[np.int64] | slice) -> pl.Series:
        """Return the allocated cores of jobs as texts."""
        import polars as pl

        number_of = np.full(len(self.workload), -1)
        number_of[self.started] = np.arange(len(self.started))
        numbers = pl.Series(number_of[rows])
        return self._texts.gather(numbers.set(numbers < 0, None))

    def frame(self, table: Table, rows: NDArray[np.int64] | slice, names: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the job table, or some of its columns, for some rows."""
        return table.frame(partial(self.column, rows), names)

    def lazy(self, table: Table) -> pl.LazyFrame:
        """Return the job table as a lazy frame, of which only those columns are made that are read."""
        from polars.io.plugins import register_io_source

        def read(
            names: list[str] | None, predicate: pl.Expr | None, height: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            """Make the columns that a query reads."""
            rows = self.numbers[self.in_order]
            frame = self.frame(table, rows[:height] if predicate is None else rows, names)
            yield frame if predicate is None else frame.filter(predicate).head(height or len(frame))

        return register_io_source(read, schema=table.to_frame([]).schema)


OF_RUN: dict[str, Callable[[Outcome, Any], Any]] = {
    "starting_time": lambda run, rows: run.start[rows],
    "execution_time": lambda run, rows: run.ended_only(run.duration[rows], rows),
    "finish_time": lambda run, rows: run.ended_only(run.start[rows] + run.duration[rows], rows),
    "allocated_resources": Outcome.texts_of,
    "status": lambda run, rows: INDICES[run.status[rows]],
    "attempts": lambda run, rows: (run.status[rows] <= RUNNING).astype(np.int64),
    "earlier_execution_time": lambda run, rows: np.zeros(len(run.start[rows])),
    "useful_execution_time": lambda run, rows: run.ended_only(run.duration[rows], rows),
    "arrival_number": lambda run, rows: run.numbers[rows],
    "predicted_time": lambda run, rows: np.where(run.status[rows] == REJECTED, np.nan, run.predicted[rows]),
    "corrections": Outcome.corrections_of,
}
"""Functions that make the columns that the workload does not have, for some rows."""
INDICES: NDArray[np.uint32] = np.array([0, *map(JOBS["status"].values.index, STATUSES)], np.uint32)
"""Index of each of the loops' statuses among those of the job table."""
