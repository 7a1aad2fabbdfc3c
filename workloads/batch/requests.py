"""What the jobs of a table request of nodes: columns of :mod:`desim.workloads.batch.job_table` beside times and cores.

==================  =============================================================================================
``tasks``           1 if there is none
``cores``           of each task; a column with one of the other names of cores has those of all tasks of a job
``memory``          of each task, in bytes, or with a unit: ``64 GiB``
``gpus``            of each task: a whole number, or a share below one in thousandths
GPU models          ``gpu_models``, ``gpu_model``, ``model``: those that will do
``partition``       the only one that will do
``features``        what nodes must have
``without``         what they must not have
``exclusive``       whether no other job may be on its nodes
``tasks_per_node``  at most so many on one node
``resource:NAME``   of each task, of a resource of your own
``queue``           by name; it tells jobs apart, and asks for nothing
==================  =============================================================================================

In text several models or features have blanks or ``|`` between them; these are the names of the table ``requests`` of a
result. A cell without a value asks for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Job, NodeJob, Request
from desim.workloads.batch._cells import cells_of, is_missing, number, several
from desim.workloads.batch.node_file import amount_of_memory
from desim.workloads.batch.trace import Trace

__all__ = ["RequestColumns"]

_WHOLE, _WORDS = ("tasks", "tasks_per_node"), ("partition", "queue")
_SEVERAL = ("gpu_models", "features", "excluded_features")
_NAMES: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in (*_WHOLE, "memory", "gpus", "exclusive", *_WORDS, "features", "excluded_features")},
    "gpu_models": ("gpu_models", "gpu_model", "model"),
}
_RESOURCE = "resource:"
_YES, _NO = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")


@dataclass(frozen=True)
class RequestColumns:
    """The columns of a table that say what jobs request of nodes.

    Parameters
    ----------
    columns : mapping of str to column
        All of the table.
    found : mapping of str to str
        The names of those that count here, by what they hold.
    """

    columns: Mapping[str, Any]
    found: Mapping[str, str]

    @classmethod
    def of(cls, columns: Mapping[str, Any], names: Mapping[str, str]) -> Self:
        """Return the columns that count, by the names that the caller gives or by their own."""
        found = {what: name for what, name in names.items() if what in _NAMES and name in columns}
        for what, known in _NAMES.items():
            name = next((name for name in known if name in columns), None)
            if what not in found and name is not None:
                found[what] = name
        return cls(columns, found | {name: name for name in columns if name.startswith(_RESOURCE)})

    def requests(
        self, cores: NDArray[np.float64], *, of_each_task: bool, where: Callable[[int], str]
    ) -> tuple[list[Request | None], NDArray[np.float64]]:
        """Return what each row requests, and the cores of all its tasks.

        Parameters
        ----------
        cores : array of float
            As the table has them, below 1 where they are not known; such a row requests nothing.
        of_each_task : bool
            Whether these are the cores of a task; those of all tasks otherwise.
        where : callable
            Returns a row in words.

        Returns
        -------
        list of Request or None, array of float
            Equal requests are one object.

        Raises
        ------
        WorkloadError
            If a cell holds what it should not, or a request makes no sense; the message names row and column.
        """
        names = [what for what in self.found if what != "queue"]
        cells = [cells_of(self.columns[self.found[what]]) for what in names]
        known: dict[tuple[Any, ...], Request] = {}
        asked: list[Request | None] = []
        rows = zip(*cells, strict=True) if cells else ((),) * len(cores)
        for row, (count, values) in enumerate(zip(cores.tolist(), rows, strict=True)):
            if count < 1:
                asked.append(None)
                continue
            key = (count, *map(str, values))
            request = known.get(key)
            if request is None:
                given = {what: value for what, value in zip(names, values, strict=True) if not is_missing(value)}
                try:
                    request = known[key] = self._request(int(count), given, of_each_task=of_each_task)
                except InvalidConfiguration as error:
                    raise WorkloadError(f"{where(row)}: {error}") from error
            asked.append(request)
        totals = [each if one is None else one.tasks * one.cores for each, one in zip(cores, asked, strict=True)]
        return asked, np.array(totals, np.float64)

    def _request(self, cores: int, given: Mapping[str, Any], *, of_each_task: bool) -> Request:
        """Return the request of a row; the name of a column at fault is that of the table."""
        values: dict[str, Any] = {what: _whole(self.found[what], given[what]) for what in _WHOLE if what in given}
        values |= {what: several(given[what]) for what in _SEVERAL if what in given}
        if "partition" in given:
            values["partition"] = str(given["partition"]).strip()
        if "memory" in given:
            values["memory"] = amount_of_memory(given["memory"])
        if "gpus" in given:
            values["gpus"] = number(self.found["gpus"], given["gpus"])
        if "exclusive" in given:
            values["exclusive"] = _truth(self.found["exclusive"], given["exclusive"])
        further = {what.removeprefix(_RESOURCE): what for what in given if what.startswith(_RESOURCE)}
        amounts = {name: _whole(what, given[what]) for name, what in further.items()}
        tasks = values.get("tasks", 1)
        if not of_each_task and tasks > 0 and cores % tasks:
            raise InvalidConfiguration(f"{cores} cores of all tasks are no multiple of the {tasks} tasks")
        each = cores if of_each_task else cores // max(1, tasks)
        request = Request(**values, cores=each, resources=tuple(amount for amount in amounts.items() if amount[1]))
        if fault := request.fault():
            raise InvalidConfiguration(fault)
        return request

    def applied(self, trace: Trace, asked: Sequence[Request | None], places: NDArray[np.int64]) -> Trace:
        """Return a trace whose jobs have their requests, and whose queues have names."""
        assert trace.place is not None
        row_of = dict(zip(places.tolist(), range(len(places)), strict=True))
        rows = [row_of[place] for place in trace.place.tolist()]
        jobs: list[Job] = []
        for job, row in zip(trace.jobs, rows, strict=True):
            request = asked[row]
            assert request is not None  # without cores it would be no job
            jobs.append(NodeJob.requesting(job, request))
        queues = None
        if "queue" in self.found:
            cells = cells_of(self.columns[self.found["queue"]])
            queues = ["" if is_missing(cells[row]) else str(cells[row]).strip() for row in rows]
        return replace(trace, jobs=jobs, queue_name=queues)


def _whole(name: str, cell: Any) -> int:
    value = number(name, cell)
    if value % 1 or value < 0:
        raise InvalidConfiguration(f"{name} is {cell!r}, want a whole number of at least 0")
    return int(value)


def _truth(name: str, cell: Any) -> bool:
    text = str(cell).strip().lower()
    if text not in (*_YES, *_NO):
        raise InvalidConfiguration(f"{name} is {cell!r}, want true or false")
    return text in _YES
