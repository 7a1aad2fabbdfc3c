"""Workloads: jobs as columns, in order of submission.

A list of jobs takes an object per job and per number. A :class:`Workload` holds the same jobs as one array per field,
makes a :class:`~desim.problems.batch.Job` on demand, and can be passed wherever a list of jobs
is expected. Inside, a job is known by its row: the ids of logs may be numbers or texts, and may occur more than once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain, pairwise, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast, overload

import numpy as np
from numpy.typing import NDArray

from desim.checks import short_repr
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.attributes import type_of_values
from desim.problems.batch.job import EMPTY, LATEST, TAKEN, Dependency, Job, check_job
from desim.tables import columns_of

if TYPE_CHECKING:
    from desim.problems.batch.windows import Window

__all__ = ["Workload", "ids_of", "text_ids"]

_BLOCK = 4_096
"""Jobs that are made at a time."""
_MOST_KEPT = 65_536
"""Number of jobs up to which a workload keeps its jobs once all are made, since small workloads are run repeatedly."""
_NUMBERS: Mapping[str, type[np.generic]] = {
    "submission_time": np.float64,
    "requested_cores": np.int64,
    "requested_time": np.float64,
    "run_time": np.float64,
    "user_id": np.int64,
}
_NEEDED = ("job_id", "submission_time", "requested_cores", "requested_time", "run_time")
_SECRET = frozenset(("run_time", "run_times"))
"""Fields that no agent may see."""
_DEFAULTS: Mapping[str, Any] = Job._field_defaults


class Workload(Sequence[Job]):
    """Jobs as columns, in order of submission; does not change.

    ``workload["run_time"]`` is a column, ``workload[3]`` or ``workload.job(3)`` the job of row 3, ``workload[:100]`` a
    workload of the first 100 rows. Iterating over it yields jobs. Two workloads, or a workload and a list, are equal if
    their jobs are equal.

    Parameters
    ----------
    columns : mapping of str to sequence
        Columns by name: fields of a :class:`~desim.problems.batch.Job`, of which those without a default are needed,
        and attributes under any other names, where None stands for a missing value. Rows are sorted by submission
        time; ties keep their order. ``after`` holds, for each row, None or a pair (rows of the predecessors, think
        time); use :meth:`of` for jobs that name their predecessors by id.
    secret : collection of str
        Names of columns that agents must not see, such as recorded waits, in addition to the run times. They are not
        attributes of the jobs.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns in which some job has other values than the default.
    secret : frozenset of str
        Names of those that agents must not see.
    attributes : dict of str to str
        Types of the attributes of jobs by name: ``boolean``, ``integer``, ``float`` or ``text``.
    window : Window or None
        Place in the log that this workload is a window of, see :meth:`windows`; runs are measured only within it.

    Raises
    ------
    WorkloadError
        If a value is invalid, some ids are integers and others texts, or a dependency is circular.
    InvalidConfiguration
        If a column is missing, has another number of rows than the others, or a name that is taken.

    Examples
    --------
    >>> workload = Workload.of([Job("a", 0.0, 4, 60.0, 50.0), Job("b", 5.0, 2, 30.0, 30.0, attributes={"energy": 2.5})])
    >>> workload["requested_cores"].tolist(), workload["energy"].tolist()
    ([4, 2], [nan, 2.5])
    >>> workload.take([1])[0].job_id
    'b'
    """

    __slots__ = ("_columns", "_is_read", "_jobs", "_length", "attributes", "secret", "window")
    _columns: dict[str, _Column]
    _length: int
    _jobs: list[Job] | None
    _is_read: bool
    secret: frozenset[str]
    attributes: dict[str, str]
    window: Window | None

    def __init__(self, columns: Mapping[str, Any], *, secret: Collection[str] = ()) -> None:
        if missing := [name for name in _NEEDED if name not in columns]:
            raise InvalidConfiguration(f"columns: got no {missing[0]}, expected {', '.join(_NEEDED)}")
        length = len(columns["job_id"])
        encoded = {name: _encoded(name, values, length, secret) for name, values in columns.items()}
        self._fill({name: column for name, column in encoded.items() if column is not None}, length, secret)
        self._check()

    def _fill(
        self, columns: dict[str, _Column], length: int, secret: Collection[str], window: Window | None = None
    ) -> None:
        """Set the columns, sorted by submission time."""
        times = cast(_Plain, columns["submission_time"]).array
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            columns = {name: column.take(order, length) for name, column in columns.items()}
        hidden = frozenset(name for name in columns if name in _SECRET or name in secret)
        further = sorted(name for name in columns if name not in Job._fields and name not in hidden)
        kinds = {name: cast(_Plain, columns[name]).kind for name in further}
        values = {"_columns": columns, "_length": length, "_jobs": None, "_is_read": False, "secret": hidden}
        for name, value in (values | {"attributes": kinds, "window": window}).items():
            object.__setattr__(self, name, value)

    def _check(self) -> None:
        """Raise the error for the first job that is invalid, if there is any."""
        wrong = (self["requested_cores"] < 1) | (self["submission_time"] > LATEST)
        for name in ("submission_time", "requested_time", "run_time"):
            times = self[name]
            wrong |= ~((times >= 0) & (times < np.inf))
        for name in ("request", "sizes", "run_times"):
            column = self._columns.get(name)
            if isinstance(column, _Coded):  # equal requests need one check for each number of cores
                pairs = np.stack([column.codes, self["requested_cores"]])
                wrong[np.unique(pairs, axis=1, return_index=True)[1]] = True
            elif isinstance(column, _Sizes):
                wrong |= np.diff(column.ends) > 0
        for row in np.flatnonzero(wrong).tolist():
            check_job(self.job(row))
        if "after" in self._columns:
            from desim.problems.batch.parts.dependencies import check_acyclic

            check_acyclic({row: others for row, (others, _) in self.dependencies().items()}, self["job_id"].tolist())

    @classmethod
    def _new(
        cls, columns: dict[str, _Column], length: int, secret: Collection[str], window: Window | None = None
    ) -> Self:
        new = object.__new__(cls)
        new._fill(columns, length, secret, window)
        return new

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> Workload:
        """Return jobs as a workload; one that is a workload already is returned unchanged.

        Parameters
        ----------
        jobs : iterable of Job
            Jobs in any order; rows are sorted by submission time.

        Returns
        -------
        Workload
            Workload of the jobs.

        Raises
        ------
        WorkloadError
            If a job is invalid, or depends on an id that no job or more than one job has.
        """
        if isinstance(jobs, Workload):
            return jobs
        jobs = list(jobs)
        if wrong := next((job for job in jobs if not isinstance(job, Job)), None):
            raise WorkloadError(f"jobs: got {short_repr(wrong)}, expected objects of batch.Job")
        columns: dict[str, Any] = dict(zip(Job._fields, columns_of(jobs, len(Job._fields)), strict=True))
        given = columns.pop("attributes")
        for name in dict.fromkeys(chain.from_iterable(given)):
            if not isinstance(name, str) or name in TAKEN:
                check_job(next(job for job in jobs if name in job.attributes))
            columns[name] = [attributes.get(name) for attributes in given]
        if any(one is not None for one in columns.pop("after")):
            from desim.problems.batch.parts.dependencies import resolved

            found = resolved(jobs)
            columns["after"] = [
                (found[row][0], found[row][1].think_time) if row in found else None for row in range(len(jobs))
            ]
        try:
            return cls(columns)
        except (WorkloadError, InvalidConfiguration):
            for job in jobs:
                check_job(job)  # says which job is wrong
            raise

    # rows

    def __len__(self) -> int:
        """Return the number of jobs."""
        return self._length

    def job(self, row: int) -> Job:
        """Return the job of a row; negative numbers count from the end."""
        if not -self._length <= row < self._length:
            raise IndexError(f"row {row} of a workload of {self._length} jobs")
        if self._jobs is not None:
            return self._jobs[row]
        row %= self._length
        return next(self._made(row, row + 1))

    def __iter__(self) -> Iterator[Job]:
        """Yield the jobs."""
        return self.starting_at(0)

    def starting_at(self, row: int) -> Iterator[Job]:
        """Return an iterator of the jobs from a row on; those of a short workload are kept when it is read again."""
        if self._is_read and self._jobs is None and self._length <= _MOST_KEPT:
            object.__setattr__(self, "_jobs", list(self._made(0, self._length)))
        object.__setattr__(self, "_is_read", True)
        if self._jobs is not None:
            return iter(self._jobs) if not row else map(self._jobs.__getitem__, range(row, self._length))
        begins = range(row, self._length, _BLOCK)
        return chain.from_iterable(self._made(begin, min(begin + _BLOCK, self._length)) for begin in begins)

    def _made(self, begin: int, end: int) -> Iterator[Job]:
        """Return the jobs of consecutive rows, made from the columns."""
        rows = slice(begin, end)
        cells = [self._columns[name].cells(rows, self) if name in self._columns else None for name in Job._fields[:-1]]
        known = [repeat(_DEFAULTS[name]) if one is None else one for name, one in zip(Job._fields, cells, strict=False)]
        return map(partial(tuple.__new__, Job), zip(*known, self._attributes(rows), strict=False))

    def _attributes(self, rows: slice) -> Iterable[Mapping[str, Any]]:
        """Return the attributes of the jobs of consecutive rows."""
        if not self.attributes:
            return repeat(EMPTY)
        cells = zip(*(self._columns[name].cells(rows, self) for name in self.attributes), strict=True)
        pairs = (zip(self.attributes, row, strict=True) for row in cells)
        return ({name: value for name, value in row if value is not None} or EMPTY for row in pairs)

    def take(self, rows: slice | Sequence[int] | NDArray[Any]) -> Workload:
        """Return a workload of some rows.

        Parameters
        ----------
        rows : slice, or array of int or bool
            Rows to take, or a mask; a row may occur more than once. They are sorted by submission time.

        Returns
        -------
        Workload
            New workload. A job no longer depends on rows that were not taken.

        Raises
        ------
        WorkloadError
            If a job depends on a row that is taken more than once; the message names both.
        """
        wanted = np.arange(self._length)[rows] if isinstance(rows, slice) else np.asarray(rows)
        if wanted.dtype == np.bool_:
            wanted = np.flatnonzero(wanted)
        wanted = wanted.astype(np.int64)
        times = self["submission_time"][wanted]
        if (times[1:] < times[:-1]).any():
            wanted = wanted[np.argsort(times, kind="stable")]
        if isinstance(after := self._columns.get("after"), _After):
            after.check_taken(wanted, self)
        by = rows if isinstance(rows, slice) and (rows.step or 1) > 0 else wanted
        columns = {
            name: column.take(wanted if name == "after" else by, self._length) for name, column in self._columns.items()
        }
        return self._new(columns, len(wanted), self.secret, self.window)

    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, key: int) -> Job: ...
    @overload
    def __getitem__(self, key: slice) -> Workload: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        """Return a column by name, a job by its row, or a workload of a slice of the rows.

        Parameters
        ----------
        key : str, int or slice
            Name of a field, an attribute or a secret column; or row or rows.

        Returns
        -------
        array, Job or Workload
            Columns cannot be changed. Where an attribute is missing, its column has nan or, for text, an empty string.
            ``after`` has a Dependency or None for each row.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        if isinstance(key, slice):
            return self.take(key)
        if not isinstance(key, str):
            return self.job(int(key))
        if key in self._columns:
            return _read_only(self._columns[key].shown(self))
        if key not in Job._fields:
            further = (name for name in self._columns if name not in Job._fields)
            raise KeyError(f"{key}: no job has it; expected one of {', '.join((*Job._fields, *further))}")
        if key == "attributes":
            return _objects(
                list(self._attributes(slice(0, self._length))) if self.attributes else [EMPTY] * self._length
            )
        default = _DEFAULTS[key]
        return _read_only(
            np.full(self._length, default, _NUMBERS.get(key, object))
            if default != ()
            else _objects([()] * self._length)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in which some job has other values than the default."""
        return tuple(self._columns)

    def dependencies(self) -> dict[int, tuple[tuple[int, ...], Dependency]]:
        """Return, by row, the rows of the predecessors and the dependency of each job that has predecessors."""
        column = self._columns.get("after")
        return column.by_row(self) if isinstance(column, _After) else {}

    def with_columns(self, *, secret: bool = False, **columns: Iterable[Any] | None) -> Workload:
        """Return the workload with new or other columns.

        Parameters
        ----------
        secret : bool
            Whether agents must not see the new columns.
        **columns : sequence
            Columns by name as for the constructor, each with a value per row; None removes a column.

        Returns
        -------
        Workload
            New workload, sorted by submission time.

        Raises
        ------
        WorkloadError, InvalidConfiguration
            As for the constructor.

        Examples
        --------
        >>> workload = Workload.of([Job(1, 0.0, 4, 60.0, 50.0), Job(2, 5.0, 2, 30.0, 30.0)])
        >>> [job.queue for job in workload.with_columns(queue=["long", "short"])]
        ['long', 'short']
        """
        hidden = self.secret.union(columns if secret else ())
        known = {name: column for name, column in self._columns.items() if name not in columns}
        for name, values in columns.items():
            column = None if values is None else _encoded(name, values, self._length, hidden)
            if column is not None:
                known[name] = column
        if missing := [name for name in _NEEDED if name not in known]:
            raise InvalidConfiguration(f"columns: got no {missing[0]}, expected {', '.join(_NEEDED)}")
        if self.window is not None and "submission_time" in columns:
            raise InvalidConfiguration(
                "submission_time: got other times for a window, whose measured interval would be wrong; change the log "
                "first, then call windows()"
            )
        new = self._new(known, self._length, hidden, self.window)
        if not columns.keys().isdisjoint(Job._fields):
            new._check()
        return new

    def windows(
        self,
        length: float | str,
        *,
        sample: int | None = None,
        seed: int = 0,
        warm_up: float | str = 0.0,
        cool_down: float | str = 0.0,
    ) -> list[Workload]:
        """Return windows of the workload: all consecutive ones, or a sample of given size.

        A window is a workload whose runs are measured only within it: metrics cover its measured interval, although
        jobs of its warm-up and cool-down are simulated, too. Its first instant, warm-up included, is time 0. Windows in
        which no job is submitted are left out.

        Parameters
        ----------
        length : float or str
            Length of the measured interval: seconds, or a text such as ``"12h"``, ``"7d"`` or ``"2000jobs"``. Jobs
            submitted at the same time are never separated.
        sample : int, optional
            Number of windows at random places; they overlap only if they do not fit otherwise. By default, windows
            follow each other from the beginning, and what remains behind the last whole one is left out.
        seed : int
            Seed of the places of a sample.
        warm_up, cool_down : float or str
            Lengths of what is simulated before and behind a window, without being measured.

        Returns
        -------
        list of Workload
            Windows in order of time, each with its place in the attribute ``window``.

        Raises
        ------
        InvalidConfiguration
            If a length is invalid, or not a single window fits.

        Examples
        --------
        >>> log = Workload.of([Job(day, 86_400.0 * day, 1, 60.0, 60.0) for day in range(21)])
        >>> [week["job_id"].tolist() for week in log.windows("7d", warm_up="1d")]
        [[0, 1, 2, 3, 4, 5, 6, 7], [7, 8, 9, 10, 11, 12, 13, 14]]
        """
        from desim.problems.batch.windows import cut

        return cut(self, length, sample=sample, seed=seed, warm_up=warm_up, cool_down=cool_down)

    def as_window(self, window: Window | None) -> Workload:
        """Return the same jobs as a window of a log, or, with None, as a log."""
        return self._new(self._columns, self._length, self.secret, window)

    # content

    def digest(self) -> str:
        """Return a hexadecimal digest of all columns, secret ones included; equal content has equal digests."""
        found = sha256(str(self._length).encode())
        for name in sorted(self._columns):
            found.update(f"\0{name}\0{name in self.secret}\0".encode())
            self._columns[name].add_to(found)
        if self.window is not None:
            found.update(repr(self.window).encode())
        return found.hexdigest()

    __content_digest__ = digest  # the identity of a workload among runs

    def __eq__(self, other: object) -> bool:
        """Return whether another workload or sequence has the same jobs."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(map(tuple.__eq__, self, other)))

    def __hash__(self) -> int:
        """Return a hash of the ids and submission times."""
        return hash((self._length, self["submission_time"].tobytes()))

    def __repr__(self) -> str:
        """Return the number of jobs and the columns."""
        return f"{type(self).__name__}({self._length:,} jobs; {', '.join(self._columns)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise an error: a workload does not change."""
        raise AttributeError(f"a workload cannot be changed; use with_columns({name}=...)")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the workload in another process."""
        return type(self)._new, (self._columns, self._length, self.secret, self.window)


def text_ids(jobs: Sequence[Job]) -> bool | None:
    """Return whether the ids of jobs are texts; None without jobs.

    Parameters
    ----------
    jobs : Workload, or sequence of Job
        Jobs that are known in advance.

    Returns
    -------
    bool or None
        False if the ids are integers.

    Raises
    ------
    WorkloadError
        If some are integers and others texts.
    """
    if isinstance(jobs, Workload):
        return jobs["job_id"].dtype.kind == "O" if len(jobs) else None
    if not jobs:
        return None
    if not any(issubclass(kind, str) for kind in set(map(type, map(_id, jobs)))):
        return False  # the cluster refuses anything else than integers
    return ids_of([job.job_id for job in jobs]).dtype.kind == "O"


_id = itemgetter(0)

# -- columns ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plain:
    """Column with a number, which may be missing, or a text that is different in most rows."""

    array: NDArray[Any]
    known: NDArray[np.bool_] | None = None  # where a number is not missing; None if none is

    @property
    def kind(self) -> str:
        return {"b": "boolean", "i": "integer", "u": "integer", "f": "float"}.get(self.array.dtype.kind, "text")

    def take(self, rows: Any, length: int) -> _Plain:
        return _Plain(self.array[rows], None if self.known is None else self.known[rows])

    def cells(self, rows: slice, workload: Workload) -> list[Any]:
        values: list[Any] = self.array[rows].tolist()
        if self.known is None:
            return values
        return [value if known else None for value, known in zip(values, self.known[rows].tolist(), strict=True)]

    def shown(self, workload: Workload) -> NDArray[Any]:
        return self.array.view() if self.known is None else np.where(self.known, self.array, np.nan)

    def add_to(self, digest: Any) -> None:
        is_text = self.array.dtype.kind == "O"
        digest.update(json.dumps(self.array.tolist()).encode() if is_text else self.array.tobytes())
        if self.known is not None:
            digest.update(self.known.tobytes())


@dataclass(frozen=True, slots=True)
class _Coded:
    """Column with few different values, of any kind."""

    codes: NDArray[np.int32]
    values: tuple[Any, ...]
    missing: Any = None  # what the column shows in place of None

    @property
    def kind(self) -> str:
        return "text"

    def take(self, rows: Any, length: int) -> _Coded:
        return _Coded(self.codes[rows], self.values, self.missing)

    def cells(self, rows: slice, workload: Workload) -> list[Any]:
        return list(map(self.values.__getitem__, self.codes[rows].tolist()))

    def shown(self, workload: Workload) -> NDArray[Any]:
        return _objects([self.missing if value is None else value for value in self.values])[self.codes]

    def add_to(self, digest: Any) -> None:
        used, first, codes = np.unique(self.codes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # codes in order of appearance, whatever values were dropped
        digest.update(np.argsort(order)[codes].astype(np.int32).tobytes())
        digest.update("\0".join(_canonical(self.values[used[at]]) for at in order.tolist()).encode())


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Column with any number of further sizes per row."""

    ends: NDArray[np.int64]
    values: NDArray[Any]

    @classmethod
    def of(cls, sizes: Sequence[Sequence[Any]]) -> _Sizes:
        return cls(_ends(list(map(len, sizes))), _objects(list(chain.from_iterable(sizes))))

    def take(self, rows: Any, length: int) -> _Sizes:
        counts, index = _rows_of(self.ends, rows)
        return _Sizes(_ends(counts), self.values[index])

    def cells(self, rows: slice, workload: Workload) -> list[Any]:
        ends = self.ends[rows.start : rows.stop + 1].tolist()
        return [tuple(self.values[begin:end]) for begin, end in pairwise(ends)]

    def shown(self, workload: Workload) -> NDArray[Any]:
        return _objects(self.cells(slice(0, len(self.ends) - 1), workload))

    def add_to(self, digest: Any) -> None:
        digest.update(self.ends.tobytes() + "\0".join(map(_canonical, self.values)).encode())


@dataclass(frozen=True, slots=True)
class _After:
    """Column of dependencies: the rows of any number of predecessors, and a think time where there are any."""

    ends: NDArray[np.int64]
    preceding: NDArray[np.int64]
    think_time: NDArray[np.float64]

    @classmethod
    def of(cls, pairs: Sequence[tuple[Sequence[int], float] | None]) -> _After:
        given: list[tuple[Sequence[int], float]] = [((), 0.0) if pair is None else pair for pair in pairs]
        rows = [tuple(dict.fromkeys(map(int, others))) for others, _ in given]
        preceding = np.array(list(chain.from_iterable(rows)), np.int64)
        if ((preceding < 0) | (preceding >= len(pairs))).any():
            raise WorkloadError(f"after: got row {preceding.max()}, expected rows of the {len(pairs)} jobs")
        return cls(_ends(list(map(len, rows))), preceding, np.array([time for _, time in given], np.float64))

    def take(self, rows: Any, length: int) -> _After:
        counts, index = _rows_of(self.ends, rows)
        new_rows = np.full(length, -1, np.int64)
        new_rows[rows] = np.arange(len(counts))
        preceding = new_rows[self.preceding[index]]
        owners = np.repeat(np.arange(len(counts)), counts)[preceding >= 0]
        kept = np.bincount(owners, minlength=len(counts))
        return _After(_ends(kept), preceding[preceding >= 0], self.think_time[rows])

    def check_taken(self, rows: NDArray[np.int64], workload: Workload) -> None:
        """Raise an error if a taken job depends on one that is taken more than once."""
        counts, index = _rows_of(self.ends, rows)
        often = np.bincount(rows, minlength=len(workload)) > 1
        wrong = often[self.preceding[index]]
        if wrong.any():
            at = int(wrong.argmax())
            ids, other = workload["job_id"], int(self.preceding[index][at])
            first, second = np.flatnonzero(rows == other)[:2].tolist()
            owner = rows[np.repeat(np.arange(len(counts)), counts)[at]]
            raise WorkloadError(
                f"job {ids[owner]} depends on job {ids[other]}, but this row is taken more than once, as rows {first} "
                f"and {second}"
            )

    def by_row(self, workload: Workload, rows: slice | None = None) -> dict[int, tuple[tuple[int, ...], Dependency]]:
        begin, end = (0, len(self.ends) - 1) if rows is None else (rows.start, rows.stop)
        ids, ends, times = workload["job_id"], self.ends, self.think_time
        found = {}
        for row in (np.flatnonzero(np.diff(ends[begin : end + 1])) + begin).tolist():
            others = self.preceding[ends[row] : ends[row + 1]]
            found[row] = tuple(others.tolist()), Dependency(tuple(ids[others].tolist()), float(times[row]))
        return found

    def cells(self, rows: slice, workload: Workload) -> list[Any]:
        found = self.by_row(workload, rows)
        return [found[row][1] if row in found else None for row in range(rows.start, rows.stop)]

    def shown(self, workload: Workload) -> NDArray[Any]:
        return _objects(self.cells(slice(0, len(self.ends) - 1), workload))

    def add_to(self, digest: Any) -> None:
        times = np.where(np.diff(self.ends) > 0, self.think_time, 0.0)
        digest.update(self.ends.tobytes() + self.preceding.tobytes() + times.tobytes())


_Column = _Plain | _Coded | _Sizes | _After


def _encoded(name: str, values: Any, length: int, secret: Collection[str]) -> _Column | None:
    """Return a column, or None if all values are the default of a job."""
    if not isinstance(values, np.ndarray):
        values = list(values)
    if len(values) != length:
        raise InvalidConfiguration(f"{name}: got {len(values)} values, expected {length}, one per job")
    if name == "job_id":
        return _Plain(_read_only(ids_of(values)))
    if name in _NUMBERS:
        array = _read_only(_numbers(name, values))
        return None if name == "user_id" and (array == _DEFAULTS["user_id"]).all() else _Plain(array)
    if name == "after":
        return _After.of(values) if any(one is not None and len(one[0]) for one in values) else None
    if name == "sizes":
        return _Sizes.of(values) if any(map(len, values)) else None
    if name in Job._fields:
        default = _DEFAULTS[name]
        return None if all(value is default or value == default for value in values) else _coded(values, None)
    if name in TAKEN and name not in secret:
        raise InvalidConfiguration(
            f"columns: got {name!r}, expected a name that no field or column of the job table has"
        )
    return _attribute(values)


def _attribute(values: Any) -> _Column | None:
    """Return the column of an attribute, or None if all values are missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return _Plain(_read_only(values.copy()))
    values = values.tolist() if isinstance(values, np.ndarray) else values
    kinds = set(map(type, values))
    if kinds <= {type(None)}:
        return None
    kind = type_of_values(kinds - {type(None)})
    if kind == "text":
        return _coded(values, "")
    known = np.array([value is not None for value in values])
    dtype = {"boolean": np.bool_, "integer": np.int64, "float": np.float64}[kind]
    try:
        array = _read_only(np.array([0 if value is None else value for value in values], dtype))
    except OverflowError:  # integers of more than 64 bits
        return _coded(values, "")
    return _Plain(array, None if known.all() else _read_only(known))


def _coded(values: Iterable[Any], missing: Any) -> _Coded:
    """Return values as codes; equal values of one type share a code."""
    known: dict[Any, int] = {}
    values = list(values)
    try:
        codes = [known.setdefault((type(value), value), len(known)) for value in values]
        different = tuple(value for _, value in known)
    except TypeError:  # lists or dictionaries
        codes, different = list(range(len(values))), tuple(values)
    return _Coded(_read_only(np.array(codes, np.int32)), different, missing)


def ids_of(values: Any) -> NDArray[Any]:
    """Return ids as integers, or as objects if they are texts."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.int64)
    values = values.tolist() if isinstance(values, np.ndarray) else values
    is_text = [isinstance(value, str) for value in values]
    wrong = [
        value
        for value in values
        if isinstance(value, bool) or not isinstance(value, int | np.integer | str) or value == ""
    ]
    if wrong:
        raise WorkloadError(f"job_id: got {wrong[0]!r}, expected an integer or a string")
    if not any(is_text):
        return np.array(values, np.int64)
    if not all(is_text):
        other = next(value for value in values if not isinstance(value, str))
        raise WorkloadError(
            f"job_id: got {values[is_text.index(True)]!r} and {other!r}, expected only integers or only texts"
        )
    return _objects(values)


def _numbers(name: str, values: Any) -> NDArray[Any]:
    """Return a column of numbers; requested cores and users are integers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        array = array.astype(np.float64) if array.dtype.kind == "O" else array
        converted: NDArray[Any] = array.astype(_NUMBERS[name])
    except (TypeError, ValueError, OverflowError):
        raise WorkloadError(f"{name}: expected numbers, got {short_repr(values)}") from None
    if (wrong := converted != array).any() and _NUMBERS[name] is np.int64:
        raise WorkloadError(f"{name}: got {array[wrong][0].item()!r}, expected integers")
    return converted


def _ends(counts: Any) -> NDArray[np.int64]:
    """Return where the values of each row begin, and where the last ones end."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _rows_of(ends: NDArray[np.int64], rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of values of some rows, and the positions of these values."""
    begins, counts = ends[:-1][rows], np.diff(ends)[rows]
    starts = np.cumsum(counts) - counts
    return counts, np.repeat(begins - starts, counts) + np.arange(counts.sum())


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _canonical(value: Any) -> str:
    """Return a text that is equal for equal values."""
    return repr(sorted(value.items())) if isinstance(value, Mapping) else repr(value)
