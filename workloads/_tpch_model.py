"""Tasks, work and task durations of the made-up TPC-H stages.

The constants were fitted to the measurements that `desim.workloads._tpch_figures` names, over the sizes 2 to 100 GB.
What they give is scaled so that tasks and work of each query and size add up to the measured totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.task_times import TaskTimes
from desim.workloads._tpch_figures import FIGURES, SHUFFLE_TASKS, SIZES, scan_tasks
from desim.workloads._tpch_shapes import Stage, shape

__all__ = ["stage_task_times", "stage_tasks", "stage_work"]

Floats = NDArray[np.float64]

# A task that scans takes 3.6 s at 2 GB and 2.5 s at 100 GB; one that reads a whole small table takes 1.6 s.
_SCAN_SECONDS, _SCAN_EXPONENT, _SMALL_SCAN_SECONDS = 3.6, -0.09, 1.6
# A shuffle stage takes some time however little data it gets, more if it joins; on top of that a share of the work of
# the scans whose data it gets, and a share of what its parents needed for theirs.
_JOIN_SECONDS, _PASS_SECONDS, _SCAN_SHARE, _SHUFFLE_SHARE = 22.0, 5.5, 0.13, 0.3
_SINGLE_SECONDS, _FINAL_SECONDS, _FINAL_TASK_SECONDS = 0.3, 0.1, 0.08

_EXECUTORS = (2, 5, 10, 20, 40, 50, 60, 80, 100)


def stage_tasks(query: int, size: int) -> list[int]:
    """Return the number of tasks of each stage.

    Parameters
    ----------
    query, size : int
        Which query, on how many gigabytes.

    Returns
    -------
    list of int
        They add up to the measured total.
    """
    stages = shape(query)
    total = dict(zip(SIZES, FIGURES[query].num_tasks, strict=True))[size]
    tasks = [_tasks(stage, size) for stage in stages]
    # The last stage has what is left, at least one task; where that is too many, the largest scan has fewer.
    tasks[-1] = max(1, total - sum(tasks))
    scans = [number for number, stage in enumerate(stages) if stage.kind == "scan"]
    tasks[max(scans, key=tasks.__getitem__)] += total - sum(tasks)
    return tasks


def _tasks(stage: Stage, size: int) -> int:
    return {"scan": scan_tasks(stage.table or "N", size), "shuffle": SHUFFLE_TASKS, "single": 1, "final": 0}[stage.kind]


def stage_work(query: int, size: int) -> Floats:
    """Return the work of each stage.

    Parameters
    ----------
    query, size : int
        Which query, on how many gigabytes.

    Returns
    -------
    numpy.ndarray
        Seconds; they add up to the measured total.
    """
    stages = shape(query)
    tasks = stage_tasks(query, size)
    work = np.zeros(len(stages))
    data = np.zeros(len(stages))  # what a stage hands on, in seconds of work
    for number, (stage, count) in enumerate(zip(stages, tasks, strict=True)):
        if stage.kind == "scan":
            small = scan_tasks(stage.table, max(SIZES)) == 2
            seconds = _SMALL_SCAN_SECONDS if small else _SCAN_SECONDS * (size / 2) ** _SCAN_EXPONENT
            work[number] = count * seconds * stage.weight
            data[number] = _SCAN_SHARE * work[number]
        elif stage.kind == "shuffle":
            got = stage.weight * float(data[list(stage.parents)].sum())
            work[number] = got + (_JOIN_SECONDS if len(stage.parents) > 1 else _PASS_SECONDS)
            data[number] = _SHUFFLE_SHARE * got
        else:
            work[number] = _SINGLE_SECONDS if stage.kind == "single" else _FINAL_SECONDS + _FINAL_TASK_SECONDS * count
    total = dict(zip(SIZES, FIGURES[query].work, strict=True))[size]
    scaled: Floats = work * (total / work.sum())
    return scaled


@dataclass(frozen=True)
class _WaveModel:
    """How task durations depend on the wave and on the number of executors, for one kind of stage.

    With e executors, tasks that are not the first of their executor take time in proportion to e ** growth; a first one
    takes `first` times as long, and `fresh` times as long as that if its executor is new to the job. Of the first ones
    the share `new_at_2 + new_slope * ln(e / 2)` are on new executors. Within a wave durations are log-normal.
    """

    growth: float
    first: float
    fresh: float
    new_at_2: float
    new_slope: float
    spread: float

    def runs(self, num_tasks: int) -> list[tuple[Floats, Floats, Floats]]:
        """Return for each number of executors fresh, first and later durations, of mean 1 over all runs."""
        runs = []
        for count in _EXECUTORS:
            num_first = min(count, num_tasks)
            share = self.new_at_2 + self.new_slope * np.log(count / 2)
            num_fresh = round(share * num_first)
            later = (count / 2) ** self.growth
            fresh = later * self.first * self.fresh * _quantiles(num_fresh, self.spread)
            warm = later * self.first * _quantiles(num_first - num_fresh, self.spread)
            rest = later * _quantiles(num_tasks - num_first, self.spread)
            runs.append((fresh, np.concatenate((fresh, warm)), rest))
        mean = float(np.mean([value for _, first, rest in runs for value in (*first, *rest)]))
        return [(fresh / mean, first / mean, rest / mean) for fresh, first, rest in runs]


@lru_cache(maxsize=512)
def _quantiles(count: int, spread: float) -> Floats:
    """Return equally likely values of a log-normal distribution, scaled to mean 1 exactly."""
    levels = [NormalDist().inv_cdf((index + 0.5) / count) for index in range(count)]
    values: Floats = np.exp(spread * np.array(levels))
    values /= values.mean() if count else 1.0
    values.flags.writeable = False
    return values


_SCAN = _WaveModel(growth=0.16, first=1.2, fresh=1.4, new_at_2=0.25, new_slope=0.075, spread=0.1)
_SHUFFLE = _WaveModel(growth=0.35, first=5.0, fresh=2.0, new_at_2=0.0, new_slope=0.03, spread=0.25)
_MODELS = {"scan": _SCAN, "shuffle": _SHUFFLE, "single": _SCAN, "final": _SHUFFLE}


def stage_task_times(query: int, size: int, *, warm_up: float, reference_speed: float) -> list[TaskTimes]:
    """Return durations of the tasks of each stage.

    Parameters
    ----------
    query, size : int
        Which query, on how many gigabytes.
    warm_up, reference_speed : float
        As for :class:`TaskTimes`.

    Returns
    -------
    list of TaskTimes
        The mean of each over all runs is the mean task duration of the stage.
    """
    result = []
    for stage, count, work in zip(
        shape(query), stage_tasks(query, size), stage_work(query, size).tolist(), strict=True
    ):
        mean = work / count
        runs = [[mean * values for values in run] for run in _runs(stage.kind, count)]
        fresh, first, rest = zip(*runs, strict=True)
        result.append(TaskTimes(_EXECUTORS, fresh, first, rest, warm_up=warm_up, reference_speed=reference_speed))
    return result


@lru_cache(maxsize=512)
def _runs(kind: str, num_tasks: int) -> list[tuple[Floats, Floats, Floats]]:
    return _MODELS[kind].runs(num_tasks)
