"""What a run leaves behind: tables of records, and what can be asked of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration, RecordError
from desim.records import (
    Parts,
    create_directory,
    portions_of,
    read_info,
    table_directory,
    write_atomically,
    write_info,
)
from desim.reprs import html_table

if TYPE_CHECKING:
    import polars as pl

    from desim.problem import ProblemDescriptor

__all__ = ["RUN_STATUSES", "Result"]

RUN_STATUSES = ("complete", "truncated", "stalled", "interrupted", "failed")
"""How a run can have ended; the records of one that is under way, or has died, say ``"running"``."""


MOST_JOBS = 100_000
"""Metrics of runs with more jobs take too long for a glance."""


class Result:
    """Tables of a run and its description.

    Parameters
    ----------
    tables : mapping of str to polars.LazyFrame or desim.records.Parts
        The records by table name.
    info : mapping
        The problem's configuration, agent, seed, status (one of ``RUN_STATUSES``) and end time.
    kind : ProblemDescriptor, optional
        What is known of a problem of a user's own; that of others is found by the problem's name.
    """

    def __init__(
        self, tables: Mapping[str, pl.LazyFrame | Parts], info: Mapping[str, Any], kind: ProblemDescriptor | None = None
    ) -> None:
        self._tables = dict(tables)
        self._frames: dict[str, pl.DataFrame] = {}
        self.info = dict(info)
        self.kind = kind

    def __repr__(self) -> str:
        """Say which run this is."""
        words = (f"{key}={self.info[key]!r}" for key in ("problem", "agent", "seed", "status") if key in self.info)
        return f"Result({', '.join(words)})"

    def _repr_html_(self) -> str:
        """Say for notebooks which run this is, with the few metrics that matter most of one that has ended."""
        from desim.plotting.formatting import format_value
        from desim.problem import kind_of

        names = ("problem", "agent", "seed", "status", "stalled", "end_time", "until")
        facts = {name: self.info[name] for name in names if self.info.get(name) is not None}
        sizes = {name: f"{self.height(name):,} rows" for name in self._tables}
        metrics = kind_of(self).metrics
        is_short = "jobs" in self._tables and self.height("jobs") <= MOST_JOBS
        if is_short and "end_time" in self.info and metrics.headline:
            found = self.metrics()
            facts |= {name: format_value(found[name]) for name in metrics.headline if name in found}
        return html_table("Result", facts) + html_table("tables", sizes)

    @property
    def end_time(self) -> float:
        """When the run ended, in seconds or slots; InvalidConfiguration if its records do not tell."""
        if "end_time" not in self.info:
            raise InvalidConfiguration(
                f"the run has status {self.info.get('status')!r} and no end: metrics need one that has ended"
            )
        return float(self.info["end_time"])

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(self._tables)

    def scan(self, name: str) -> pl.LazyFrame:
        """Return a table as a lazy frame: nothing is read before it is collected.

        Parameters
        ----------
        name : str
            One of ``table_names``.

        Returns
        -------
        polars.LazyFrame
            The table, sorted.

        Raises
        ------
        RecordError
            If there is no such table.
        """
        table = self.source(name)
        return table.scan() if isinstance(table, Parts) else table

    def source(self, name: str) -> pl.LazyFrame | Parts:
        """Return a table as it is kept: as a lazy frame, or the files that it lies in and that nobody has read.

        Parameters
        ----------
        name : str
            One of ``table_names``.

        Returns
        -------
        polars.LazyFrame or Parts
            The table, sorted.

        Raises
        ------
        RecordError
            If there is no such table.
        """
        if name not in self._tables:
            near = did_you_mean(name, self._tables)
            raise RecordError(f"no table {name!r} in this result{near}; there are {', '.join(self._tables)}")
        return self._frames[name].lazy() if name in self._frames else self._tables[name]

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table in memory."""
        if name not in self._frames:
            self._frames[name] = self.scan(name).collect()
        return self._frames[name]

    def height(self, name: str) -> int:
        """Return how many rows a table has."""
        table = self.source(name)
        return table.height if isinstance(table, Parts) else self.table(name).height

    def portions(
        self, name: str, columns: Sequence[str] | None = None, *, by: Sequence[str] = (), in_order: bool = True
    ) -> Iterator[pl.DataFrame]:
        """Go through a table portion by portion, so that a long one that lies in files need not fit into memory.

        Parameters
        ----------
        name : str
            One of ``table_names``.
        columns : sequence of str, optional
            Those that are wanted; by default all.
        by : sequence of str
            Columns that give another order; among equal rows it is that of the table.
        in_order : bool
            Whether the order matters; if not, that of a table in files may be that of recording, which is faster.

        Yields
        ------
        polars.DataFrame
            Some rows. There is at least one portion, which may be empty.

        Raises
        ------
        RecordError
            If there is no such table.
        """
        table = self.source(name)
        if isinstance(table, Parts):
            yield from table.portions(columns, by=by, in_order=in_order)
        else:
            yield from portions_of(self.table(name), columns, by=by)

    @property
    def jobs(self) -> pl.DataFrame:
        """The jobs, one row each, by submission time."""
        return self.table("jobs")

    def metrics(self, **options: Any) -> dict[str, float]:
        """Return the problem's metrics; the reference has their names, units and options."""
        from desim.problem import kind_of

        metrics = kind_of(self).metrics
        if not metrics.described:
            raise InvalidConfiguration(
                f"no metrics for problem {self.info.get('problem')!r} (run status {self.info.get('status')!r})"
            )
        return metrics.measure(self, **options)

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write the result to a new directory, all or nothing.

        Parameters
        ----------
        directory : path
            Where; it must not exist or be empty.

        Returns
        -------
        Path
            The directory.

        Raises
        ------
        RecordError
            If the directory already holds something or cannot be written.
        """
        target = Path(directory)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise RecordError(f"{target} already exists and is not empty; choose another directory or remove it first")
        temporary = target.with_name(f".{target.name}.partial")
        shutil.rmtree(temporary, ignore_errors=True)
        create_directory(temporary, self._tables)
        for name in self._tables:
            write_atomically(temporary / name / "part-000000.parquet", self.table(name).write_parquet)
        write_info(temporary, self.info, {name: [] for name in self._tables})
        if target.exists():
            target.rmdir()
        temporary.replace(target)
        return target

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Result:
        """Open a result that was saved or streamed to a directory.

        Parameters
        ----------
        directory : path
            What :meth:`save` or ``simulate(..., out=directory)`` has written.

        Returns
        -------
        Result
            Its tables are read only when they are asked for.

        Raises
        ------
        RecordError
            If the directory holds no result, or one that cannot be read.
        """
        source = Path(directory)
        info = read_info(source)
        sorting = info.pop("tables")
        tables = {name: Parts(table_directory(source, name), columns) for name, columns in sorting.items()}
        info.pop("format")
        from desim.problem import kinds

        known = kinds().get(str(info.get("problem")))
        former = known.former_info if known is not None else {}
        return cls(tables, {former.get(name, name): value for name, value in info.items()})
