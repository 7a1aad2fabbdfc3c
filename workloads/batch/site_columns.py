"""Further columns of job tables: job dependencies, queues, partitions, QOS, sizes and run times by GPU model.

==================  =============================================================================================
``after``           ids of the jobs that must end before this job is submitted
``think_time``      seconds from the last of these ends to the submission; 0 if missing
``queue``           name of the queue
``partition``       name of the partition
``quality``         name of the quality of service (QOS)
``sizes``           other sizes of a moldable job: ``CORES:RUN_TIME`` or ``CORES:RUN_TIME:REQUESTED_TIME``
``run_time:MODEL``  run time on nodes with GPUs of a model, in seconds
==================  =============================================================================================

In text, several ids or sizes are separated by blanks or ``|``: ``8:60:90 16:35:50``. The cores of a size are the total
of all tasks; for a job that requests tasks, a size changes their number. Without a requested time, a size requests its
run time. A cell without a value is ignored, and so is a dependency on a job that was dropped.
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
_WANT_SIZE = "expected sizes such as 8:60 or 8:60:90: cores, run time and requested time"


@dataclass(frozen=True)
class SiteColumns:
    """Columns of a job table that this module reads.

    Parameters
    ----------
    columns : mapping of str to column
        All columns of the table.
    found : mapping of str to str
        Names of the columns read here, by content.
    """

    columns: Mapping[str, Any]
    found: Mapping[str, str]

    @classmethod
    def of(cls, columns: Mapping[str, Any], names: Mapping[str, str], *, on_nodes: bool) -> Self:
        """Return the columns read here, found by the caller's names or by their default names."""
        found = {what: name for what, name in names.items() if what in _NAMES and name in columns}
        found |= {name: name for name in _NAMES if name not in found and name in columns}
        models = [name for name in columns if name.startswith(_RUN_TIME)] if on_nodes else []
        return cls(columns, found | {name: name for name in models})

    def applied(
        self, source: str, trace: Trace, places: NDArray[np.int64], ids: Sequence[Any], where: Callable[[int], str]
    ) -> Trace:
        """Return a trace whose jobs have the data of these columns.

        Parameters
        ----------
        source : str
            Name of the table, for messages.
        trace : Trace
            Trace made from the other columns.
        places : array of int
            Place of each row of the table.
        ids : sequence
            Id of each row, as written in the table.
        where : callable
            Function that returns the place of a row as text, for messages.

        Returns
        -------
        Trace
            New trace, or the same one if the table has none of these columns.

        Raises
        ------
        WorkloadError
            If a cell has an invalid value; the message names row and column.
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
                Dependencies(jobs, after)  # raises for a circular dependency
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
        """Return a job with its run times by model and its sizes."""
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
            raise InvalidConfiguration(f"{name}: got {text!r}, {_WANT_SIZE}")
        cores, run_time, *others = (_time(name, part) for part in parts)
        requested = others[0] if others else run_time
        if cores % 1 or cores < 1:
            raise InvalidConfiguration(f"{name}: got {text!r}, {_WANT_SIZE}, with an integer >= 1 as cores")
        request = getattr(job, "request", None)
        if request is None:
            return job._replace(requested_cores=int(cores), run_time=run_time, requested_time=requested)
        if cores % request.cores:
            raise InvalidConfiguration(f"{name}: got {text!r}, expected a multiple of {request.cores} cores per task")
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
        """Yield the dependencies by job id."""
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
                raise WorkloadError(f"{where(row)}: {self.found['after']}: got {unknown[0]}, but no job has this id")
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
    """Return user numbers in order of first appearance (-1 for missing users), and the names.

    Parameters
    ----------
    cells : sequence
        Column of users.

    Returns
    -------
    list of int and list of str, or None
        Numbers and names; None if some of the users are numbers, since then all must be.
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
        raise InvalidConfiguration(f"{name}: got {cell!r}, expected a finite number >= 0")
    return value


def _text(cell: Any) -> str:
    """Return a name or an id as text; 3, 3.0 and "3" give the same."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    text = str(cell).strip()
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text
