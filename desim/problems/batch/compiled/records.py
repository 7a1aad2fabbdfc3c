"""Records of compiled runs: arrays, of which tables are made when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.compiled import kernel as k
from desim.problems.batch.tables import JOBS

if TYPE_CHECKING:
    import polars as pl

    from desim.problems.batch.workload import Workload
    from desim.tables import Table

__all__ = ["Outcome"]

STATUSES = ("completed", "killed", "running", "queued", "rejected")
"""What the kernel's statuses mean, from 1 on."""


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
    w, jobs, rows : array
        State of the kernel at the end of the run.
    """

    workload: Workload
    num_cores: int
    end: float
    w: NDArray[np.int64]
    jobs: NDArray[np.float64]
    rows: NDArray[np.int64]

    @cached_property
    def recorded(self) -> NDArray[np.int64]:
        """Rows in the order in which their jobs were recorded."""
        rows: NDArray[np.int64] = self.rows[k.RECORDED, : self.w[k.NUM_RECORDED]]
        return rows

    @property
    def times(self) -> NDArray[np.float64]:
        """When each job was recorded, in this order."""
        rows = self.recorded
        status, ends = self.rows[k.STATUS, rows], self.jobs[k.START, rows] + self.jobs[k.DURATION, rows]
        known = np.where(status == k.REJECTED, self.jobs[k.SUBMISSION, rows], self.end)
        return np.maximum.accumulate(np.where(status <= k.KILLED, ends, known))

    @cached_property
    def in_order(self) -> NDArray[np.int64]:
        """Rows in the order of the job table: by submission and id, those with the same id as they were recorded."""
        rows = np.sort(self.recorded)
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

        started = self.rows[k.STARTED, : self.w[k.NUM_STARTED]]
        before, ended = self.rows[k.ENDED_BEFORE, : len(started)], self.rows[k.ENDED, : self.w[k.NUM_ENDED]]
        ranges, begins = k.core_ranges(self.rows[k.CORES], started, before, ended, self.num_cores)
        parts = []
        for begin in range(0, len(started), 65_536):  # a text holds at most 4 GB
            text = k.texts(ranges, begins[begin : begin + 65_537]).tobytes().decode("ascii")
            parts.append(pl.Series([text]).str.split("\n").explode())
        return pl.concat(parts) if parts else pl.Series([], dtype=pl.String)

    def _of_workload(self, name: str, rows: NDArray[np.int64]) -> Any:
        """Return a column of the workload, for some rows."""
        values = self.workload[{"requested_number_of_resources": "requested_cores"}.get(name, name)][rows]
        return values.tolist() if values.dtype.kind == "O" else values

    def column(self, rows: NDArray[np.int64], name: str) -> Any:
        """Return a recorded column of the job table.

        Parameters
        ----------
        rows : array of int
            Rows of the jobs.
        name : str
            Name of the column.

        Returns
        -------
        sequence
            Values as :meth:`desim.tables.Table.frame` takes them.
        """
        found = self._of_run(rows).get(name)
        if found is not None:
            return found()
        if name in JOBS.names:
            return self._of_workload(name, rows)
        values = [self.workload.job(row).attributes.get(name) for row in rows.tolist()]
        is_text = self.workload.attributes[name] == "text"
        return [None if value is None else str(value) for value in values] if is_text else values

    def _of_run(self, rows: NDArray[np.int64]) -> dict[str, Callable[[], Any]]:
        """Return functions that make the columns that the workload does not have."""
        status = self.rows[k.STATUS, rows]

        def ended(times: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.where(status <= k.KILLED, times, np.nan)

        start, duration = self.jobs[k.START, rows], self.jobs[k.DURATION, rows]
        is_rejected = status == k.REJECTED
        return {
            "starting_time": lambda: start,
            "execution_time": lambda: ended(duration),
            "finish_time": lambda: ended(start + duration),
            "allocated_resources": lambda: self._texts_of(rows),
            "status": lambda: np.array([0, *map(JOBS["status"].values.index, STATUSES)], np.uint32)[status],
            "attempts": lambda: (status <= k.RUNNING_STILL).astype(np.int64),
            "earlier_execution_time": lambda: np.zeros(len(rows)),
            "useful_execution_time": lambda: ended(duration),
            "arrival_number": lambda: rows,
            "predicted_time": lambda: np.where(is_rejected, np.nan, self.jobs[k.PREDICTED, rows]),
            "corrections": lambda: [
                None if no else number for no, number in zip(is_rejected, self.rows[k.CORRECTIONS, rows], strict=True)
            ],
        }

    def arrays(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return columns of the job table as arrays, with NaN for unknown times, and the status by its name's index."""
        rows = self.in_order
        return {name: np.asarray(self.column(rows, name)) for name in names}

    def _texts_of(self, rows: NDArray[np.int64]) -> pl.Series:
        """Return the allocated cores of jobs as texts."""
        import polars as pl

        number_of = np.full(len(self.workload), -1)
        number_of[self.rows[k.STARTED, : self.w[k.NUM_STARTED]]] = np.arange(self.w[k.NUM_STARTED])
        numbers = pl.Series(number_of[rows])
        return self._texts.gather(numbers.set(numbers < 0, None))

    def frame(self, table: Table, rows: NDArray[np.int64], names: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the job table, or some of its columns, for some rows."""
        return table.frame(partial(self.column, rows), names)

    def lazy(self, table: Table) -> pl.LazyFrame:
        """Return the job table as a lazy frame, of which only those columns are made that are read."""
        from polars.io.plugins import register_io_source

        def read(
            names: list[str] | None, predicate: pl.Expr | None, height: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            """Make the columns that a query reads."""
            frame = self.frame(table, self.in_order[:height] if predicate is None else self.in_order, names)
            yield frame if predicate is None else frame.filter(predicate).head(height or len(frame))

        return register_io_source(read, schema=table.to_frame([]).schema)
