"""The files of measured TPC-H stages, as objects whose every field has been looked at."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.problems.dag.task_times import TaskTimes
from desim.workloads._files import Pathish, read_bytes

__all__ = ["MEANS", "MeasuredStage", "read_stages", "read_task_times", "stage_file"]

#: Mean task durations that a file holds; all but the first two may be null.
MEANS = ("mean_all", "decima_rough", "mean_first", "mean_first_warm", "mean_rest", "mean_fresh")


class MeasuredStage(NamedTuple):
    """A stage of a query.

    Attributes
    ----------
    parents : list of int
        Stages that it needs.
    num_tasks : int
        Tasks that it consists of.
    mean : float
        Mean task duration in seconds.
    """

    parents: list[int]
    num_tasks: int
    mean: float


def stage_file(directory: Pathish, size: int) -> Path:
    """Return where the stages of all queries at a size are."""
    return Path(directory) / f"tpch_{size}g.json"


def read_stages(directory: Pathish, size: int, queries: Sequence[int], mean: str) -> dict[int, list[MeasuredStage]]:
    """Read the stages of queries.

    Parameters
    ----------
    directory : str or path-like
        Where the file ``tpch_SIZEg.json`` is.
    size : int
        Gigabytes.
    queries : sequence of int
        Numbers of the queries.
    mean : str
        One of `MEANS`; ``mean_all`` stands in where it is null.

    Returns
    -------
    dict of int to list of MeasuredStage
        By query.

    Raises
    ------
    WorkloadError
        If the file is broken or lacks a query.
    """
    path = stage_file(directory, size)
    content = _load(path)
    for key, expected in (("size_gb", size), ("time_unit", "ms")):
        if isinstance(content, Mapping) and content.get(key, expected) != expected:
            raise WorkloadError(f"{path}: {key} is {content[key]!r}, want {expected!r}")
    by_query = _get(path, content, "queries", Mapping)
    return {
        query: _stages(f"{path}: query {query}", _get(path, by_query, str(query), Mapping), mean) for query in queries
    }


def _stages(where: str, query: Mapping[str, Any], mean: str) -> list[MeasuredStage]:
    given = _get(where, query, "stages", list)
    if not given:
        raise WorkloadError(f"{where}: there are no stages")
    stages = [_stage(f"{where}, stage {number}", stage, number, len(given), mean) for number, stage in enumerate(given)]
    if "edges" in query:
        ends = _get(where, query, "edges", list)
        pairs = [[parent, child] for child, stage in enumerate(stages) for parent in stage.parents]
        odd = [end for end in ends if end not in pairs] + [pair for pair in pairs if pair not in ends]
        if odd:
            raise WorkloadError(f"{where}: the edge {odd[0]!r} is only in one of edges and the stages' parents")
    return stages


def _stage(where: str, stage: Any, number: int, count: int, mean: str) -> MeasuredStage:
    if not isinstance(stage, Mapping):
        raise WorkloadError(f"{where}: {stage!r:.40}, want an object")
    if stage.get("stage", number) != number:
        raise WorkloadError(f"{where}: it is called {stage['stage']!r:.40}")
    parents = _get(where, stage, "parents", list)
    for parent in parents:
        if not _is_number(parent, int) or not 0 <= parent < count:
            raise WorkloadError(f"{where}: unknown parent {parent!r:.40}, want a number from 0 to {count - 1}")
    num_tasks = _get(where, stage, "num_tasks", object)
    if not _is_number(num_tasks, int) or not 1 <= num_tasks < 2**31:
        raise WorkloadError(f"{where}: num_tasks is {num_tasks!r:.40}, want a whole number of at least 1")
    duration = _get(where, stage, mean, object)
    if duration is None and mean in MEANS[2:]:
        mean = "mean_all"
        duration = _get(where, stage, mean, object)
    if not _is_number(duration, int | float) or not 0 <= duration < 1e15:
        raise WorkloadError(f"{where}: {mean} is {duration!r:.40}, want milliseconds of at least 0")
    return MeasuredStage(parents, num_tasks, duration / 1e3)


def read_task_times(
    directory: Pathish, size: int, num_stages: Mapping[int, int], *, warm_up: float, reference_speed: float
) -> dict[int, list[TaskTimes]]:
    """Read the task durations of queries.

    Parameters
    ----------
    directory : str or path-like
        Where the file ``durations/tpch_durations_SIZEg.json.gz`` is.
    size : int
        Gigabytes.
    num_stages : mapping of int to int
        How many stages each of the queries has.
    warm_up, reference_speed : float
        As for :class:`TaskTimes`.

    Returns
    -------
    dict of int to list of TaskTimes
        By query, one for each stage.

    Raises
    ------
    WorkloadError
        If the file is broken, or lacks a query or a stage.
    """
    path = Path(directory) / "durations" / f"tpch_durations_{size}g.json.gz"
    content = _load(path)
    result = {}
    for query, count in num_stages.items():
        where = f"{path}: query {query}"
        stages = _get(path, content, str(query), list)
        if len(stages) != count:
            raise WorkloadError(f"{where}: durations of {len(stages)} stages, want {count}")
        result[query] = [
            _task_times(f"{where}, stage {number}", stage, warm_up, reference_speed)
            for number, stage in enumerate(stages)
        ]
    return result


def _task_times(where: str, stage: Any, warm_up: float, reference_speed: float) -> TaskTimes:
    if not isinstance(stage, Mapping):
        raise WorkloadError(f"{where}: {stage!r:.40}, want an object")
    runs: dict[int, Any] = {}
    for key in stage:
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise WorkloadError(f"{where}: {key!r:.40} is no number of executors")
        runs[int(key)] = _get(where, stage, key, Mapping)
    counts = sorted(runs)
    waves = (
        [_seconds(f"{where}, {count} executors", runs[count], wave) for count in counts]
        for wave in ("fresh", "first", "rest")
    )
    try:
        return TaskTimes(counts, *waves, warm_up=warm_up, reference_speed=reference_speed)
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from error


def _seconds(where: str, run: Mapping[str, Any], wave: str) -> NDArray[np.float64]:
    given = _get(where, run, wave, list)
    try:
        values = np.array(given)
    except (ValueError, OverflowError):
        values = np.array(None)
    if given and (values.dtype.kind not in "iuf" or values.ndim != 1):
        raise WorkloadError(f"{where}: {wave} is {given!r:.60}, want a list of numbers")
    return values.astype(np.float64) / 1e3


def _load(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path))
    except WorkloadError:
        raise
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{os.fspath(path)}: not JSON: {error}") from error


def _get(where: object, container: Any, key: str, kind: type[Any]) -> Any:
    """Return an entry of an object, or raise WorkloadError if it is missing or of another type."""
    if not isinstance(container, Mapping):
        raise WorkloadError(f"{where}: {container!r:.40}, want an object")
    if key not in container:
        raise WorkloadError(f"{where}: there is no {key!r}")
    value = container[key]
    if not isinstance(value, kind):
        raise WorkloadError(f"{where}: {key!r} is {value!r:.40}, want {'a list' if kind is list else 'an object'}")
    return value


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
