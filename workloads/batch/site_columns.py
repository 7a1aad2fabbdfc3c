"""What a job table says of a job beside times, cores and requests: whose it is, what it comes after, its other sizes.

==================  =============================================================================================
``after``           ids of the jobs that must have ended before it is submitted
``think_time``      seconds from the last of these ends to its submission; 0 if there is none
``queue``           by name
``partition``       by name
``quality``         the quality of service, by name
``sizes``           other sizes of a moldable job: ``CORES:RUN_TIME`` or ``CORES:RUN_TIME:REQUESTED_TIME``
``run_time:MODEL``  how long it runs on nodes with GPUs of a model, in seconds
==================  =============================================================================================

In text, several ids or sizes have blanks or ``|`` between them: ``8:60:90 16:35:50``. The cores of a size are those of
all tasks; a job that requests tasks has more or fewer of the same. Without a requested time, a size requests its run
time. A cell without a value says nothing. Who comes after a job that was dropped does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Dependency, Job, MoldableJob, NodeJob
from desim.problems.batch.dependencies import Dependencies
from desim.workloads.batch._cells import cells_of, is_missing, number, several
from desim.workloads.batch.trace import Trace

__all__ = ["SiteColumns", "named_users"]

_NAMES = ("after", "think_time", "queue", "partition", "qos", "sizes")
_GROUPS = ("queue", "partition", "qos")
_RUN_TIME = "run_time:"
_WANT_SIZE = "want sizes such as 8:60 or 8:60:90: cores, run time and requested time"


@dataclass(frozen=True)
class SiteColumns:
    """The columns of a table that count here.

    Parameters
    ----------
    columns : mapping of str to column
        All of the table.
    found : mapping of str to str
        The names of those that count, by what they hold.
    """

    columns: Mapping[str, Any]
    found: Mapping[str, str]

    @classmethod
    def of(cls, columns: Mapping[str, Any], names: Mapping[str, str], *, on_nodes: bool) -> Self:
        """Return the columns that count, by the names that the caller gives or by their own."""
        found = {what: name for what, name in names.items() if what in _NAMES and name in columns}
        found |= {name: name for name in _NAMES if name not in found and name in columns}
        models = [name for name in columns if name.startswith(_RUN_TIME)] if on_nodes else []
        return cls(columns, found | {name: name for name in models})

    def applied(
        self, source: str, trace: Trace, places: NDArray[np.int64], ids: Sequence[Any], where: Callable[[int], str]
    ) -> Trace:
        """Return a trace whose jobs have what the columns say.

        Parameters
        ----------
        source : str
            Name of the table.
        trace : Trace
            Made of the other columns.
        places : array of int
            Where each row of the table stands.
        ids : sequence
            The id of each row, as it stands there.
        where : callable
            Returns a row in words.

        Returns
        -------
        Trace
            The same one if there are no such columns.

        Raises
        ------
        WorkloadError
            If a cell holds what it should not; the message names row and column.
        """
        if not self.found:
            return trace
        assert trace.place is not None
        row_of = dict(zip(places.tolist(), range(len(places)), strict=True))
        rows = [row_of[place] for place in trace.place.tolist()]
        cells = {what: cells_of(self.columns[name]) for what, name in self.found.items()}
        jobs = [self._with_times_and_sizes(job, row, cells, where) for job, row in zip(trace.jobs, rows, strict=True)]
        groups = {
            what: ["" if is_missing(cells[what][row]) else _text(cells[what][row]) for row in rows]
            for what in _GROUPS
            if what in cells
        }
        after = dict(self._after(trace, rows, cells, ids, where))
        if after:
            try:
                Dependencies(jobs, after)  # which says who waits for each other
            except WorkloadError as error:
                raise WorkloadError(f"{source}: {self.found['after']}: {error}") from error
        return replace(
            trace,
            jobs=jobs,
            dependencies=after,
            queue_name=groups.get("queue", trace.queue_name),
            partition_name=groups.get("partition"),
            qos_name=groups.get("qos"),
        )

    def _with_times_and_sizes(
        self, job: Job, row: int, cells: Mapping[str, Sequence[Any]], where: Callable[[int], str]
    ) -> Job:
        """Return a job with its run times by model, and with its sizes."""
        try:
            times = {
                what.removeprefix(_RUN_TIME): _time(what, cells[what][row])
                for what in cells
                if what.startswith(_RUN_TIME) and not is_missing(cells[what][row])
            }
            if times:
                assert isinstance(job, NodeJob)
                made = NodeJob.requesting(job, job.request)
                made.run_times = times
                job = made
            if "sizes" in cells and not is_missing(cells["sizes"][row]):
                texts = several(cells["sizes"][row])
                return MoldableJob.of([job, *(self._size(job, text) for text in texts)])
        except (InvalidConfiguration, WorkloadError) as error:
            raise WorkloadError(f"{where(row)}: {error}") from error
        return job

    def _size(self, job: Job, text: str) -> Job:
        """Return another size of a job."""
        name, parts = self.found["sizes"], text.split(":")
        if len(parts) not in (2, 3):
            raise InvalidConfiguration(f"{name} has {text!r}, {_WANT_SIZE}")
        cores, run_time, *others = (_time(name, part) for part in parts)
        requested = others[0] if others else run_time
        if cores % 1 or cores < 1:
            raise InvalidConfiguration(f"{name} has {text!r}, {_WANT_SIZE}, the cores being a whole number above 0")
        request = getattr(job, "request", None)
        if request is None:
            return job._replace(requested_cores=int(cores), run_time=run_time, requested_time=requested)
        if cores % request.cores:
            raise InvalidConfiguration(f"{name} has {text!r}, which is no number of tasks of {request.cores} cores")
        request = replace(request, tasks=int(cores) // request.cores)
        return NodeJob.of(job.job_id, job.submission_time, request, requested, run_time, job.user_id)

    def _after(
        self,
        trace: Trace,
        rows: Sequence[int],
        cells: Mapping[str, Sequence[Any]],
        ids: Sequence[Any],
        where: Callable[[int], str],
    ) -> Iterator[tuple[int, Dependency]]:
        """Yield what jobs come after."""
        if "after" not in cells:
            return
        row_of_id: dict[str, int] = {}
        for row, identity in enumerate(ids):
            row_of_id.setdefault(_text(identity), row)
        number_of = dict(zip(rows, (job.job_id for job in trace.jobs), strict=True))
        for job, row in zip(trace.jobs, rows, strict=True):
            cell = cells["after"][row]
            if is_missing(cell):
                continue
            words = several(cell) if isinstance(cell, str | list | tuple | np.ndarray) else (cell,)
            others = [_text(word) for word in words]
            if unknown := [other for other in others if other not in row_of_id]:
                raise WorkloadError(f"{where(row)}: {self.found['after']} names {unknown[0]}, but there is no such job")
            kept = [number_of[row_of_id[other]] for other in others if row_of_id[other] in number_of]
            if kept:
                think_time = cells["think_time"][row] if "think_time" in cells else None
                try:
                    yield (
                        job.job_id,
                        Dependency(tuple(kept), 0.0 if is_missing(think_time) else self._think(think_time)),
                    )
                except InvalidConfiguration as error:
                    raise WorkloadError(f"{where(row)}: {error}") from error

    def _think(self, cell: Any) -> float:
        return _time(self.found["think_time"], cell)


def named_users(cells: Sequence[Any]) -> tuple[list[int], list[str]] | None:
    """Return numbers of users in the order in which their names appear, -1 where there is none, and the names.

    Parameters
    ----------
    cells : sequence
        A column of users.

    Returns
    -------
    list of int and list of str, or None
        None if some of them are numbers, as all should be then.
    """
    names = ["" if is_missing(cell) else _text(cell) for cell in cells]
    numbers = {name: at for at, name in enumerate(dict.fromkeys(filter(None, names)))}
    if not numbers or any(map(_is_number, numbers)):
        return None
    return [numbers.get(name, -1) for name in names], names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _time(name: str, cell: Any) -> float:
    value = number(name, cell)
    if not 0 <= value < float("inf"):
        raise InvalidConfiguration(f"{name} is {cell!r}, want a finite number of at least 0")
    return value


def _text(cell: Any) -> str:
    """Return a name or an id as text: 3, 3.0 and "3" are the same."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    text = str(cell).strip()
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text
