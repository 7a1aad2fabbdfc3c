"""Result of a run: tables of records, and queries on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration, RecordError, missing
from desim.files import StorageError, draft_of, synchronize, synchronize_all, write_atomically
from desim.records import (
    INFO_FILE,
    Parts,
    create_directory,
    portions_of,
    read_info,
    table_directory,
    write_info,
)
from desim.reprs import html_table
from desim.tables import Column, fault_of

if TYPE_CHECKING:
    import pandas
    import polars as pl
    import pyarrow
    from numpy.typing import NDArray

    from desim.problem import Metric, ProblemDescriptor

__all__ = ["RUN", "RUN_STATUSES", "Result"]

RUN_STATUSES = ("complete", "truncated", "stalled", "interrupted", "failed")
"""Final statuses of a run; the records of a run that is under way or has crashed say ``"running"``."""

RUN = (
    Column("status", "text", "how the run ended", values=RUN_STATUSES),
    Column("end_time", "float", "when the run ended", least=0),
    Column("until", "float", "latest end of the run", null="for a run without a limit"),
)
"""Entries about its end in the description of every run."""

TIMES = ("time", "submission_time", "assignment_time", "starting_time", "finish_time")
"""Columns of tables that contain times of events."""

MOST_JOBS = 100_000
"""Number of jobs above which notebooks do not show metrics, because they take too long to compute."""


class Result:
    """Tables of a run, with its description.

    Parameters
    ----------
    tables : mapping of str to polars.LazyFrame, desim.records.Parts, or callable
        Tables of records by name, or functions without arguments that return one when it is read.
    info : mapping
        Description: configuration of the problem, agent, seed, status (one of ``RUN_STATUSES``) and end time.
    kind : ProblemDescriptor, optional
        Kind of a user's own problem; other kinds are found by the problem's name.

    Attributes
    ----------
    own_metrics : tuple of Metric
        Metrics besides those of the kind; results that are read from files have none.
    metric_options : dict
        Options of the metrics that are computed, such as a warm-up; empty but for custom metrics.
    array : callable, optional
        Returns a column of the job table by name as an array, if the run has it without making a table.
    """

    _name = ""

    def __init__(
        self,
        tables: Mapping[str, pl.LazyFrame | Parts | Callable[[], pl.LazyFrame]],
        info: Mapping[str, Any],
        kind: ProblemDescriptor | None = None,
    ) -> None:
        self._tables = dict(tables)
        self._frames: dict[str, pl.DataFrame] = {}
        self.info = dict(info)
        self.kind = kind
        self.own_metrics: tuple[Metric, ...] = ()
        self.metric_options: dict[str, Any] = {}
        self.array: Callable[[str], NDArray[Any]] | None = None

    def __repr__(self) -> str:
        """Return a line that identifies the run."""
        facts: dict[str, Any] = {key: self.info[key] for key in ("problem", "agent", "seed") if key in self.info}
        facts |= {"window": self.info["window"][0]} if self.info.get("window") else {}
        facts |= {"status": self.info["status"]} if "status" in self.info else {}
        words = (f"{key}={value!r}" for key, value in facts.items())
        return f"Result({', '.join(words)})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks that identifies the run, with the main metrics if the run has ended."""
        from desim.formatting import format_value
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
    def name(self) -> str:
        """Name in figures and on pages: the agent's, unless :meth:`named` has given another one."""
        return self._name or str(self.info.get("agent") or "result")

    def named(self, name: str) -> Result:
        """Return the same run under another name, such as one that distinguishes runs of the same agent."""
        other = copy(self)
        other._name = name
        return other

    @cached_property
    def span(self) -> tuple[float, float]:
        """Begin and end in seconds or slots: from 0, or from the first arrival if that is late.

        The end of a run that has crashed is the last time in its records.
        """
        import polars as pl

        end = self.info.get("end_time")
        if end is None:
            found = [(name, column) for name in self._tables for column in TIMES if column in self.table(name).columns]
            end = max([0.0, *(self.table(name).select(pl.col(column).max()).item() or 0.0 for name, column in found)])
        columns = ["submission_time"]
        submitted = self.portions("jobs", columns, in_order=False) if "jobs" in self._tables else ()
        first = min((float(part.to_numpy().min()) for part in submitted if len(part)), default=0.0)
        return 0.0 if first <= 0.05 * (end - first) else first, float(end)

    @property
    def measured_span(self) -> tuple[float, float] | None:
        """Begin and end, in seconds, of the time that metrics cover in a run on a window of a log; None for other runs.

        The run starts with the warm-up and ends with the cool-down, which are not measured.
        """
        window = self.info.get("window")
        return None if not window else (window[2] - window[1], window[3] - window[1])

    @property
    def end_time(self) -> float:
        """End of the run in seconds or slots; raises InvalidConfiguration if the records do not state it."""
        if "end_time" not in self.info:
            raise InvalidConfiguration(
                f"the run has status {self.info.get('status')!r} and no end time; metrics need a run that has ended"
            )
        return float(self.info["end_time"])

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(self._tables)

    def scan(self, name: str) -> pl.LazyFrame:
        """Return a table as a lazy frame; nothing is read before it is collected.

        Parameters
        ----------
        name : str
            Name of the table, one of ``table_names``.

        Returns
        -------
        polars.LazyFrame
            The table, sorted.

        Raises
        ------
        RecordError
            If the table does not exist.
        """
        table = self.source(name)
        return table.scan() if isinstance(table, Parts) else table

    def source(self, name: str) -> pl.LazyFrame | Parts:
        """Return a table as it is stored: a lazy frame, or the files that contain it, unread unless they are small.

        Parameters
        ----------
        name : str
            Name of the table, one of ``table_names``.

        Returns
        -------
        polars.LazyFrame or Parts
            The table, sorted.

        Raises
        ------
        RecordError
            If the table does not exist.
        """
        if name not in self._tables:
            near = did_you_mean(name, self._tables)
            raise RecordError(f"no table {name!r} in this result{near}; expected one of {', '.join(self._tables)}")
        if name in self._frames:
            return self._frames[name].lazy()
        table = self._tables[name]
        if callable(table):
            table = self._tables[name] = table()
        if isinstance(table, Parts) and (small := table.small) is not None:
            self._frames[name] = small
            return small.lazy()
        return table

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table in memory."""
        if name not in self._frames:
            table = self.source(name)
            if name not in self._frames:
                self._frames[name] = table.collect()
        return self._frames[name]

    def to_pandas(self, name: str = "jobs") -> pandas.DataFrame:
        """Return a table as a frame of pandas; needs the extra ``pandas``.

        Parameters
        ----------
        name : str
            Name of the table, one of ``table_names``.

        Returns
        -------
        pandas.DataFrame
            The table. Statuses and the like are categories, and missing numbers are NaN.

        Raises
        ------
        RecordError
            If the table does not exist.
        MissingDependency
            If pandas or pyarrow is not installed.
        """
        frame: pandas.DataFrame = self._for("to_pandas", name, "pandas", "pyarrow").to_pandas()
        return frame

    def to_arrow(self, name: str = "jobs") -> pyarrow.Table:
        """Return a table as one of Apache Arrow, as :meth:`to_pandas` does for pandas; needs pyarrow only."""
        return self._for("to_arrow", name, "pyarrow").to_arrow()

    def _for(self, call: str, name: str, *packages: str) -> pl.DataFrame:
        """Return a table; raise the error of a call that lacks a package, which Polars needs without saying so."""
        try:
            for package in packages:
                import_module(package)
        except ImportError as error:
            raise missing(call, error) from error
        return self.table(name)

    def height(self, name: str) -> int:
        """Return the number of rows of a table."""
        if name in self._frames:
            return self._frames[name].height
        table = self.source(name)
        return table.height if isinstance(table, Parts) else self.table(name).height

    def portions(
        self, name: str, columns: Sequence[str] | None = None, *, by: Sequence[str] = (), in_order: bool = True
    ) -> Iterator[pl.DataFrame]:
        """Yield a table in portions, so that a long table in files need not fit into memory.

        Parameters
        ----------
        name : str
            Name of the table, one of ``table_names``.
        columns : sequence of str, optional
            Columns to include; default: all.
        by : sequence of str
            Columns to sort by; equal rows keep the order of the table.
        in_order : bool
            Whether the order matters; if not, a table in files may come in the order of recording, which is faster.

        Yields
        ------
        polars.DataFrame
            Some rows. At least one portion is yielded, which may be empty.

        Raises
        ------
        RecordError
            If the table does not exist.
        """
        table = self.source(name)
        if isinstance(table, Parts):
            yield from table.portions(columns, by=by, in_order=in_order)
        else:
            yield from portions_of(self.table(name), columns, by=by)

    @property
    def jobs(self) -> pl.DataFrame:
        """Job table, one row per job, by submission time."""
        return self.table("jobs")

    @property
    def measured_jobs(self) -> pl.DataFrame:
        """Rows of the job table that statistics of jobs cover, without those of a warm-up or cool-down.

        For a run on a window of a log, they are the jobs of its measured interval. A custom metric gets a result that
        knows the options of the metrics, such as ``--warm-up``.
        """
        from desim.problem import kind_of

        select = kind_of(self).metrics.measured_jobs
        return self.jobs if select is None else select(self, **self.metric_options)

    def metrics(self, *names: str, **options: Any) -> dict[str, float]:
        """Return the problem's metrics by name; the reference lists their names, units and options.

        Parameters
        ----------
        *names : str
            Names of the metrics, which may save the time to compute others; default: all.
        **options
            Options of the problem's metrics.

        Returns
        -------
        dict of str to float
            Values by name.

        Raises
        ------
        InvalidConfiguration
            If the run has no metrics, or none of some name, or an option is out of range.
        """
        from desim.problem import kind_of

        metrics = kind_of(self).metrics
        if not metrics.described:
            raise InvalidConfiguration(
                f"no metrics for problem {self.info.get('problem')!r} (run status {self.info.get('status')!r})"
            )
        if not names:
            return metrics.measure(self, **options)
        found = metrics.measure(self, **options, **({"names": names} if metrics.selects else {}))
        if unknown := [name for name in names if name not in found]:
            known = metrics.measure(self, **options)
            near = did_you_mean(unknown[0], known)
            raise InvalidConfiguration(
                f"metrics: got {unknown[0]!r}, which this run does not have{near}; expected one of {', '.join(known)}"
            )
        return {name: found[name] for name in names}

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write the result to a new directory, completely or not at all.

        Parameters
        ----------
        directory : path
            Path of the directory, which must not exist or must be empty.

        Returns
        -------
        Path
            Path of the directory.

        Raises
        ------
        RecordError
            If the directory is not empty or cannot be written.
        """
        target = Path(directory)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise RecordError(f"{target} already exists and is not empty; choose another directory or remove it first")
        draft = draft_of(target)
        shutil.rmtree(draft, ignore_errors=True)
        try:
            create_directory(draft, self._tables)
            for name in self._tables:
                write_atomically(draft / name / "part-000000.parquet", self.table(name).write_parquet)
            write_info(draft, self.info, {name: [] for name in self._tables})
            synchronize_all(draft)
            if target.exists():
                target.rmdir()
            draft.replace(target)
            synchronize(target.parent)
        except RecordError:
            raise
        except OSError as error:
            raise StorageError.of(target, error) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return target

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Result:
        """Open a result that was saved or streamed to a directory.

        Parameters
        ----------
        directory : path
            Directory written by :meth:`save` or ``simulate(..., out=directory)``.

        Returns
        -------
        Result
            Result whose tables are read on first use.

        Raises
        ------
        RecordError
            If the directory does not contain a readable result.
        """
        source = Path(directory)
        info = read_info(source)
        sorting = info.pop("tables")
        info.pop("format")
        from desim.problem import kind_named

        known = kind_named(str(info.get("problem"))) if "kind" not in info else None
        if known is not None:
            info = {known.former_info.get(name, name): value for name, value in info.items()}
            unknown = sorting.keys() - {table.name for table in known.tables}
            if unknown and not info.get("parts"):  # custom parts of a cluster may have tables
                raise RecordError(f"{source / INFO_FILE}: problem {known.name!r} has no table {min(unknown)!r}")
            for column in (*known.info, *(() if info.get("status") == "running" else RUN)):
                if fault := fault_of(column, info):
                    raise RecordError(f"{source / INFO_FILE}: {fault}")
        tables = {name: Parts(table_directory(source, name), columns) for name, columns in sorting.items()}
        return cls(tables, info)
