"""Requests of jobs for nodes: further columns of :mod:`desim.workloads.batch.job_table`.

==================  =============================================================================================
``tasks``           number of tasks, or ``NNodes``, with a task per node; 1 if missing
``cores``           cores per task; a column with another name for cores holds the total of all tasks
``memory``          memory per task, in bytes or with a unit: ``64 GiB``; or ``ReqMem`` as Slurm's accounting writes
                    it: ``4Gn`` per node, ``2000Mc`` per core, ``16G`` of the job
``gpus``            GPUs per task: an integer, or a fraction below 1 in thousandths
GPU models          ``gpu_models``, ``gpu_model``, ``model``: acceptable models
``partition``       required partition
``features``        features that nodes must have
``without``         features that nodes must not have
``exclusive``       whether other jobs are excluded from the nodes of the job
``tasks_per_node``  largest number of tasks per node
``resource:NAME``   amount of a custom resource per task
==================  =============================================================================================

In text, several models or features are separated by blanks or ``|``. The names are those of the table ``requests`` of a
result. A cell without a value requests nothing. If cores are no multiple of ``NNodes``, each core is a task.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Request
from desim.reading import bytes_of
from desim.workloads.batch._cells import cells_of, found_columns, is_missing, number, several

__all__ = ["RequestColumns"]

_WHOLE = ("tasks", "tasks_per_node")
#: Columns of Slurm's accounting.
_NODES, _SLURM_MEMORY = "NNodes", "ReqMem"
_AMOUNT = re.compile(r"([0-9.]{1,30})([KMGT]?)([nc]?)")
_SEVERAL = ("gpu_models", "features", "excluded_features")
_NAMES: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("tasks_per_node", "gpus", "exclusive", "partition", "features", "excluded_features")},
    "tasks": ("tasks", _NODES),
    "memory": ("memory", _SLURM_MEMORY),
    "gpu_models": ("gpu_models", "gpu_model", "model"),
}
_RESOURCE = "resource:"
_YES, _NO = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")


@dataclass(frozen=True)
class RequestColumns:
    """Columns of a table that describe the requests of jobs for nodes.

    Parameters
    ----------
    columns : mapping of str to column
        All columns of the table.
    found : mapping of str to str
        Names of the request columns, by content.
    """

    columns: Mapping[str, Any]
    found: Mapping[str, str]

    @classmethod
    def of(cls, columns: Mapping[str, Any], names: Mapping[str, str]) -> Self:
        """Return the request columns, found by the caller's names or by their default names."""
        return cls(columns, found_columns(columns, names, _NAMES, _RESOURCE))

    def requests(
        self,
        cores: NDArray[np.float64],
        *,
        of_each_task: bool,
        refused: Callable[[Mapping[int, object]], WorkloadError],
    ) -> tuple[list[Request | None], NDArray[np.float64]]:
        """Return the request and the total number of cores of each row.

        Parameters
        ----------
        cores : array of float
            Cores in the table, below 1 where unknown; such a row requests nothing.
        of_each_task : bool
            Whether these are cores per task; otherwise they are totals of all tasks.
        refused : callable
            Function that returns the error for invalid rows, given what is wrong by row.

        Returns
        -------
        list of Request or None, array of float
            Requests, where equal requests are the same object, and total cores.

        Raises
        ------
        WorkloadError
            If a cell has an invalid value, or a request is invalid; the message names row and column of the first.
        """
        names = list(self.found)
        cells = [cells_of(self.columns[self.found[what]]) for what in names]
        known: dict[tuple[Any, ...], Request] = {}
        asked: list[Request | None] = []
        wrong: dict[int, object] = {}
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
                    wrong[row] = error
            asked.append(request)
        if wrong:
            raise refused(wrong)
        totals = [each if one is None else one.tasks * one.cores for each, one in zip(cores, asked, strict=True)]
        return asked, np.array(totals, np.float64)

    def _request(self, cores: int, given: Mapping[str, Any], *, of_each_task: bool) -> Request:
        """Return the request of a row; errors name the column as the table does."""
        values: dict[str, Any] = {what: _whole(self.found[what], given[what]) for what in _WHOLE if what in given}
        values |= {what: several(given[what]) for what in _SEVERAL if what in given}
        if "partition" in given:
            values["partition"] = str(given["partition"]).strip()
        if "memory" in given and self.found["memory"] != _SLURM_MEMORY:
            values["memory"] = bytes_of("memory", given["memory"])
        if "gpus" in given:
            values["gpus"] = number(self.found["gpus"], given["gpus"])
        if "exclusive" in given:
            values["exclusive"] = _truth(self.found["exclusive"], given["exclusive"])
        further = {what.removeprefix(_RESOURCE): what for what in given if what.startswith(_RESOURCE)}
        amounts = {name: _whole(what, given[what]) for name, what in further.items()}
        tasks = nodes = values.get("tasks", 1)
        if self.found.get("tasks") == _NODES and tasks > 0 and cores % tasks:
            values["tasks"] = tasks = cores
        if not of_each_task and tasks > 0 and cores % tasks:
            raise InvalidConfiguration(f"cores: got {cores} for all tasks, expected a multiple of the {tasks} tasks")
        each = cores if of_each_task else cores // max(1, tasks)
        if "memory" in given and self.found["memory"] == _SLURM_MEMORY:
            values["memory"] = _slurm_memory(str(given["memory"]), tasks, each, nodes)
        request = Request(**values, cores=each, resources=tuple(amount for amount in amounts.items() if amount[1]))
        if fault := request.fault():
            raise InvalidConfiguration(fault)
        return request


def _slurm_memory(text: str, tasks: int, cores: int, nodes: int) -> int:
    """Return the memory of each task in bytes; ``cores`` is of each task, ``nodes`` of the job."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise InvalidConfiguration(f"{_SLURM_MEMORY}: got {text!r}, expected memory such as 4Gn, 2000Mc or 16G")
    amount = bytes_of(_SLURM_MEMORY, found[1] + (found[2] or "M"))
    return math.ceil(amount * {"c": cores, "n": nodes / max(tasks, 1), "": 1 / max(tasks, 1)}[found[3]])


def _whole(name: str, cell: Any) -> int:
    value = number(name, cell)
    if value % 1 or value < 0:
        raise InvalidConfiguration(f"{name}: got {cell!r}, expected an integer >= 0")
    return int(value)


def _truth(name: str, cell: Any) -> bool:
    text = str(cell).strip().lower()
    if text not in (*_YES, *_NO):
        raise InvalidConfiguration(f"{name}: got {cell!r}, expected true or false")
    return text in _YES
