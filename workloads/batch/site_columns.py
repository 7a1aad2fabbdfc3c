"""Further columns of job tables: job dependencies, queues, partitions, QOS, sizes and run times by GPU model.

==================  =============================================================================================
``after``           ids of the jobs that must end before this job is submitted
``think_time``      seconds from the last of these ends to the submission; 0 if missing
``queue``           name of the queue
``partition``       name of the partition
``qos``             name of the quality of service (QOS)
``sizes``           other sizes of a moldable job: ``CORES:RUN_TIME`` or ``CORES:RUN_TIME:REQUESTED_TIME``
``run_time:MODEL``  run time on nodes with GPUs of a model, in seconds
==================  =============================================================================================

In text, several ids or sizes are separated by blanks or ``|``: ``8:60:90 16:35:50``. The cores of a size are the total
of all tasks; for a job that requests tasks, a size changes their number. Without a requested time, a size requests its
run time. A cell without a value is ignored, and so is a dependency on a job that was dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Request, Size
from desim.workloads.batch._cells import cells_of, found_columns, is_missing, number, several
from desim.workloads.batch.trace import Trace, TraceReason
from desim.workloads.json_fields import LARGEST

__all__ = ["SiteColumns", "named_users"]

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
        slurm = {"partition": ("partition", "Partition", "sim_partition"), "qos": ("qos", "QOS", "sim_qosname")}
        known = slurm | {name: (name,) for name in ("queue", "after", "think_time", "sizes")}
        return cls(columns, found_columns(columns, names, known, _RUN_TIME if on_nodes else ""))

    def applied(
        self,
        source: str,
        trace: Trace,
        rows: Sequence[int],
        ids: Sequence[Any],
        refused: Callable[[Mapping[int, object]], WorkloadError],
        *,
        lenient: bool = False,
        requests: Sequence[Request | None] | None = None,
        attributes: Mapping[str, Sequence[Any]],
    ) -> Trace:
        """Return a trace whose jobs have the data of these columns.

        Parameters
        ----------
        source : str
            Name of the table, for messages.
        trace : Trace
            Trace made from the other columns.
        rows : sequence of int
            Row of the table of each job.
        ids : sequence
            Id of each row, as written in the table.
        refused : callable
            Function that returns the error for invalid rows, given what is wrong by row.
        lenient : bool
            Whether to leave out, and count, dependencies on ids that no job has or several have.
        requests : sequence of Request, optional
            Request of each row.
        attributes : mapping of str to sequence
            Attributes of each row by name; None where a row has none.

        Returns
        -------
        Trace
            The trace with new jobs.

        Raises
        ------
        WorkloadError
            If a cell has an invalid value, the message names row and column of the first; or if a dependency is
            circular.
        """
        whole = {what: cells_of(self.columns[name]) for what, name in self.found.items()}
        cells = {what: [values[row] for row in rows] for what, values in whole.items()}
        columns: dict[str, Any] = {name: [values[row] for row in rows] for name, values in attributes.items()}
        columns |= {
            what: ["" if is_missing(cell) else _text(cell) for cell in cells[what]] for what in _GROUPS if what in cells
        }
        if requests is not None:
            columns["request"] = [requests[row] for row in rows]
        times: list[dict[str, float]] = [{} for _ in rows]
        sizes: list[tuple[Size, ...]] = [()] * len(rows)
        wrong: dict[int, object] = {}
        for at, row in enumerate(rows):
            try:
                for what in cells:
                    if what.startswith(_RUN_TIME) and not is_missing(cells[what][at]):
                        times[at][what.removeprefix(_RUN_TIME)] = _time(what, cells[what][at])
                if "sizes" in cells and not is_missing(cells["sizes"][at]):
                    request = None if requests is None else requests[row]
                    sizes[at] = tuple(self._size(request, text) for text in several(cells["sizes"][at]))
                if "think_time" in cells and not is_missing(cells["think_time"][at]):
                    _time(self.found["think_time"], cells["think_time"][at])
            except (InvalidConfiguration, WorkloadError) as error:
                wrong[row] = error
        if wrong:
            raise refused(wrong)
        after, odd = self._after(rows, cells, ids) if "after" in cells else ([], {})
        if odd and not lenient:
            raise refused({row: why for row, (_, why) in odd.items()})
        places = dict(zip(rows, trace.place.tolist(), strict=True))
        for row, (reason, _) in odd.items():
            trace.report.add(reason, [places[row]])
        columns |= {"run_times": times} if any(times) else {}
        columns |= {"sizes": sizes} if any(sizes) else {}
        jobs = trace.jobs.with_columns(**columns)
        if "after" in cells:
            try:
                jobs = jobs.with_columns(after=after)  # raises for a circular dependency
            except WorkloadError as error:
                raise WorkloadError(f"{source}: {self.found['after']}: {error}") from error
        return replace(trace, jobs=jobs)

    def _size(self, request: Request | None, text: str) -> Size:
        """Return another size of a job."""
        name, parts = self.found["sizes"], text.split(":")
        if len(parts) not in (2, 3):
            raise InvalidConfiguration(f"{name}: got {text!r}, {_WANT_SIZE}")
        cores, run_time, *others = (_time(name, part) for part in parts)
        requested = others[0] if others else run_time
        if cores % 1 or cores < 1:
            raise InvalidConfiguration(f"{name}: got {text!r}, {_WANT_SIZE}, with an integer >= 1 as cores")
        if request is not None and cores % request.cores:
            raise InvalidConfiguration(f"{name}: got {text!r}, expected a multiple of {request.cores} cores per task")
        if request is not None:
            request = replace(request, tasks=int(cores) // request.cores)
        return Size(int(cores), requested, run_time, request)

    def _after(
        self, rows: Sequence[int], cells: Mapping[str, Sequence[Any]], ids: Sequence[Any]
    ) -> tuple[list[tuple[tuple[int, ...], float] | None], dict[int, tuple[TraceReason, str]]]:
        """Return the dependencies of the jobs, whose rows in the table are given, as rows of the workload.

        Left out are those on the job itself and on ids that no job or several jobs have, which the second result has.
        """
        found: list[tuple[tuple[int, ...], float] | None] = []
        odd: dict[int, tuple[TraceReason, str]] = {}
        rows_of_id: dict[str, list[int]] = {}
        for row, identity in enumerate(ids):
            rows_of_id.setdefault(_text(identity), []).append(row)
        job_of_row = {row: at for at, row in enumerate(rows)}
        for at, row in enumerate(rows):
            cell = cells["after"][at]
            if is_missing(cell):
                found.append(None)
                continue
            words = several(cell) if isinstance(cell, str | list | tuple | np.ndarray) else (cell,)
            kept = []
            for other in map(_text, words):
                meant = rows_of_id.get(other, [])
                if len(meant) == 1 and meant != [row]:
                    kept += [job_of_row[meant[0]]] if meant[0] in job_of_row else []
                    continue
                what = "the id of several jobs" if meant[1:] else "its own id" if meant else "but no job has this id"
                reason = TraceReason.SELF_DEPENDENCY if meant == [row] else TraceReason.UNKNOWN_DEPENDENCY
                odd.setdefault(row, (reason, f"{self.found['after']}: got {other}, {what}"))
            think_time = cells["think_time"][at] if kept and "think_time" in cells else None
            found.append((tuple(kept), 0.0 if is_missing(think_time) else number(self.found["think_time"], think_time)))
        return found, odd


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
    if not 0 <= value <= LARGEST:
        raise InvalidConfiguration(f"{name}: got {cell!r}, expected a finite number >= 0 and at most {LARGEST:g}")
    return value


def _text(cell: Any) -> str:
    """Return a name or an id as text; 3, 3.0 and "3" give the same."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    text = str(cell).strip()
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text
