"""Jobs like those of cluster-trace-v2018, generated from published histograms of its batch workload.

A job is generated in this order. First its number of tasks; then the length of its longest path in tasks, given the
number of tasks; then the levels of its tasks, given that length: one task on each level of the path, and a level for
every other task, so that the mean number of tasks per level is the published one; finally the durations and numbers of
instances of its tasks. The level of a task is the number of tasks on the longest path that ends with it. Everything
else is independent, because no joint distribution is published.

Beyond these levels, nothing is published about edges. Every task from the second level on depends on one task of the
previous level, each with equal probability. If the graph has several components, one more edge joins each of them to
the component of the deepest task. The trace has no data on transfers: ``ccr`` sets the sizes of the edges.

Reference: H. Tian, Y. Zheng and W. Wang, "Characterizing and synthesizing task dependencies of data-parallel jobs in
Alibaba Cloud", SoCC 2019, whose authors published the histograms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.checks import check_choice, check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job
from desim.workloads.alibaba.dags import Work
from desim.workloads.dag.random_dags import part_of, with_ccr
from desim.workloads.files import Pathish
from desim.workloads.json_fields import LARGEST, Entries, listed, object_of, read_object, short_repr
from desim.workloads.streams import NamedStreams

__all__ = ["DagModel", "Histogram", "generate"]

Floats = NDArray[np.float64]
Levels = NDArray[np.int64]
Pairs = list[tuple[int, int]]

_STREAMS = ("sizes", "shapes", "durations", "instances", "data")


@dataclass(frozen=True, eq=False)
class Histogram:
    """Values and the number of observations of each.

    Parameters
    ----------
    values : numpy.ndarray of float
        Values, ascending and >= 0.
    counts : numpy.ndarray of float
        Number of observations per value, >= 0, not all 0.
    """

    values: Floats
    counts: Floats

    @cached_property
    def _cumulative(self) -> Floats:
        total: Floats = np.cumsum(self.counts) / self.counts.sum()
        return total

    @property
    def mean(self) -> float:
        """Mean of the observations."""
        return float(self.values @ self.counts / self.counts.sum())

    def draw(self, rng: Generator, size: int) -> Floats:
        """Return independently sampled observations.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness; one number is sampled per observation.
        size : int
            Number of observations.

        Returns
        -------
        numpy.ndarray of shape (size,)
            Sampled values, with probabilities proportional to their counts.
        """
        last = int(np.flatnonzero(self.counts)[-1])  # rounding may leave the end of the sum below 1
        drawn: Floats = self.values[np.minimum(np.searchsorted(self._cumulative, rng.random(size), side="right"), last)]
        return drawn

    def between(self, what: str, least: float, most: float) -> Histogram:
        """Return the histogram restricted to a range of values.

        Parameters
        ----------
        what : str
            Name of the quantity, for messages.
        least, most : float
            Smallest and largest value, both included.

        Returns
        -------
        Histogram
            Histogram of the values in the range.

        Raises
        ------
        InvalidConfiguration
            If there is no observation in the range.
        """
        inside: NDArray[np.bool_] = (self.values >= least) & (self.values <= most)
        if not self.counts[inside].any():
            raise InvalidConfiguration(f"{what}: the model has no observation from {least:g} to {most:g}")
        return Histogram(self.values[inside], self.counts[inside])


@dataclass(frozen=True, eq=False)
class DagModel:
    """Published histograms of a workload of DAG jobs.

    Parameters
    ----------
    job_interval : Histogram
        Seconds between consecutive jobs.
    num_tasks : Histogram
        Number of tasks of a job.
    task_duration, instance_duration : Histogram
        Duration of a task, and of one of its instances, in seconds.
    num_instances : Histogram
        Number of instances of a task.
    critical_paths : mapping of int to Histogram
        Tasks on the longest path of a job, by its number of tasks from 2 on; the largest key includes larger numbers.
    levels : mapping of int to Histogram
        Levels of all tasks, by the length of their job's longest path; the largest key includes larger lengths.
    """

    job_interval: Histogram
    num_tasks: Histogram
    task_duration: Histogram
    instance_duration: Histogram
    num_instances: Histogram
    critical_paths: Mapping[int, Histogram]
    levels: Mapping[int, Histogram]

    @classmethod
    def read(cls, path: Pathish) -> DagModel:
        """Read the histograms of a file.

        Parameters
        ----------
        path : str or path-like
            JSON file, plain or gzip: ``job_interval``, ``task_num``, ``task_duration``, ``instance_duration`` and
            ``instance_num`` have lists ``value`` and ``count``; ``critical_path_length_given_task_num`` and
            ``level_given_critical_path_length`` have such lists by number in ``by_task_num`` and
            ``by_critical_path_length``.

        Returns
        -------
        DagModel
            Model with these histograms.

        Raises
        ------
        WorkloadError
            If the file cannot be read or has invalid content; the message names file and entry.
        """
        source = str(path)
        document = read_object(path)

        def histogram(key: str, least: float = 0.0, whole: bool = False) -> Histogram:
            """Return the histogram of an entry."""
            return _histogram_of(f"{source}: {key}", object_of(source, document, key), least=least, whole=whole)

        return cls(
            histogram("job_interval"),
            histogram("task_num", 1.0, True),
            histogram("task_duration"),
            histogram("instance_duration"),
            histogram("instance_num", 1.0, True),
            _histograms_of(source, document, "critical_path_length_given_task_num", "by_task_num", 2),
            _histograms_of(source, document, "level_given_critical_path_length", "by_critical_path_length", 1),
        )

    def critical_path_of(self, num_tasks: int) -> Histogram:
        """Return the histogram of the number of tasks on the longest path of a job.

        Parameters
        ----------
        num_tasks : int
            Number of tasks of the job.

        Returns
        -------
        Histogram
            Histogram as published; that of the largest number of tasks may exceed the tasks of a job.
        """
        if num_tasks == 1:
            return Histogram(np.ones(1), np.ones(1))
        return self.critical_paths[min(num_tasks, max(self.critical_paths))]

    def further_levels(self, length: int) -> Histogram:
        """Return the histogram of the levels of further tasks, beyond the one task that every level has.

        Parameters
        ----------
        length : int
            Number of tasks on the longest path of the job.

        Returns
        -------
        Histogram
            Number of tasks per level, minus the number of jobs with this level; uniform if nothing remains.
        """
        most = max(self.levels)
        published = self.levels[min(length, most)]
        levels = np.arange(1, length + 1, dtype=np.float64)
        tasks = np.zeros(length)
        inside = published.values <= length
        tasks[published.values[inside].astype(np.int64) - 1] = published.counts[inside]
        jobs = np.zeros(length)
        for histogram in self.critical_paths.values():
            for path, count in zip(histogram.values.tolist(), histogram.counts.tolist(), strict=True):
                if path == length or (length >= most and path >= most):
                    jobs[: int(path)] += count
        left = np.maximum(tasks - jobs, 0.0)
        return Histogram(levels, left if left.any() else np.ones(length))


def generate(
    num_jobs: int,
    *,
    model: DagModel,
    seed: int | Generator = 0,
    min_tasks: int = 2,
    max_tasks: int | None = None,
    mean_interval: float | None = None,
    work: Work = "task_duration",
    reference_speed: float = 1.0,
    allow_disconnected: bool = False,
    ccr: float = 0.0,
    transfer_speed: float = 1.0,
) -> list[Job]:
    """Generate jobs from published histograms.

    Arrivals, graphs, durations, instances and data have independent random streams, and a shorter workload is the
    beginning of a longer one.

    Parameters
    ----------
    num_jobs : int
        Number of jobs, >= 1.
    model : DagModel
        Histograms to sample from.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.
    min_tasks, max_tasks : int
        Smallest and largest number of tasks of a job; the histogram is restricted to them. Default: no largest number.
    mean_interval : float, optional
        Mean time between jobs in seconds; the times are scaled to it, and 0 submits all jobs at once. By default, as
        published: 0.2 s, for a cluster of 4,000 machines.
    work : {"task_duration", "instances"}
        Definition of a task's work: its duration, as if it had run on one executor, or its number of instances times
        the duration of one.
    reference_speed : float
        Speed of a machine of the trace, in work per second, by which durations are multiplied.
    allow_disconnected : bool
        Whether to keep several components, and also generate jobs of several tasks on a single level.
    ccr : float
        Communication-to-computation ratio: mean transfer time over the edges of each job, divided by the mean run time
        of its tasks; single sizes are between 0.5 and 1.5 times their mean. With 0, edges have size 0.
    transfer_speed : float
        Transfer speed for which the ratio holds, in units of data per second.

    Returns
    -------
    list of Job
        Jobs numbered from 0 in order of submission, the first at time 0. The names of the tasks state their
        dependencies as in the trace; instances are parallel tasks. A duration of 0 (one task in 13) gives work 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the model has no job with such numbers of tasks.
    """
    count = check_int("num_jobs", num_jobs, least=1)
    least = check_int("min_tasks", min_tasks, least=1)
    most = float(model.num_tasks.values[-1]) if max_tasks is None else check_int("max_tasks", max_tasks, least=1)
    speed = check_float("reference_speed", reference_speed, above=0)
    check_float("ccr", ccr, least=0)
    check_float("transfer_speed", transfer_speed, above=0)
    check_choice("work", work, get_args(Work))
    streams = NamedStreams(seed)
    rngs = {name: streams(f"alibaba.dags.{name}") for name in _STREAMS}
    sizes = model.num_tasks.between("tasks of a job", least, most).draw(rngs["sizes"], count).astype(np.int64)
    times = _submissions(model.job_interval, count, mean_interval, streams("alibaba.dags.arrivals"))
    shapes = _Shapes(model, connected=not allow_disconnected)
    durations = model.instance_duration if work == "instances" else model.task_duration
    jobs = []
    for job_id, size in enumerate(sizes.tolist()):
        levels, edges = shapes.draw(size, rngs["shapes"])
        amount = durations.draw(rngs["durations"], size) * speed
        instances = model.num_instances.draw(rngs["instances"], size)
        job = Job(
            job_id,
            amount * instances if work == "instances" else amount,
            [(parent, child, 0.0) for parent, child in edges],
            submission_time=times[job_id],
            names=_names(levels, edges),
            num_tasks=instances,
            allow_disconnected=allow_disconnected,
        )
        if ccr:
            job = with_ccr(job, ccr, rng=rngs["data"], reference_speed=speed, transfer_speed=transfer_speed)
        jobs.append(job)
    return jobs


def _submissions(intervals: Histogram, count: int, mean: float | None, rng: Generator) -> list[float]:
    """Return submission times; the first is 0."""
    gaps = intervals.draw(rng, count - 1)
    if mean is not None:
        wanted = check_float("mean_interval", mean, least=0)
        if wanted and not intervals.mean:
            raise InvalidConfiguration(f"mean_interval: got {mean!r}, expected 0: all intervals of the model are 0")
        gaps *= wanted / intervals.mean if wanted else 0.0
    times: list[float] = np.concatenate(([0.0], np.cumsum(gaps))).tolist()
    return times


def _names(levels: Levels, edges: Pairs) -> list[str]:
    """Return the names of tasks as in the trace: J3_1_2 is task 3, which depends on 1 and 2."""
    parents: list[list[str]] = [[] for _ in levels]
    for parent, child in edges:
        parents[child].append(str(parent + 1))
    return ["_".join([f"{'MRJ'[min(len(above), 2)]}{task}", *above]) for task, above in enumerate(parents, 1)]


class _Shapes:
    """Generator of graphs; `connected` is whether their components are joined."""

    def __init__(self, model: DagModel, *, connected: bool) -> None:
        self._model = model
        self._connected = connected
        self._lengths: dict[int, Histogram] = {}
        self._levels: dict[int, Histogram] = {}

    def draw(self, num_tasks: int, rng: Generator) -> tuple[Levels, Pairs]:
        """Return a graph: the level of each task, ascending, and the edges, sorted."""
        length = int(self._length(num_tasks).draw(rng, 1)[0])
        others = self._level(length).draw(rng, num_tasks - length)
        levels = np.sort(np.concatenate((np.arange(1, length + 1), others.astype(np.int64))))
        begin = np.searchsorted(levels, np.arange(1, length + 2))
        edges: dict[tuple[int, int], None] = {}
        for child in range(begin[1], num_tasks):
            first, last = begin[levels[child] - 2], begin[levels[child] - 1]
            needed = int(rng.integers(first, last))
            edges[needed, child] = None
        if self._connected:
            edges |= dict.fromkeys(_bridges(levels, part_of(num_tasks, edges), rng))
        return levels, sorted(edges)

    def _length(self, num_tasks: int) -> Histogram:
        """Return the histogram of the length of a job's longest path, in tasks."""
        if num_tasks not in self._lengths:
            least = 2 if self._connected and num_tasks > 1 else 1
            self._lengths[num_tasks] = self._model.critical_path_of(num_tasks).between(
                f"longest path in jobs of {num_tasks} tasks", least, num_tasks
            )
        return self._lengths[num_tasks]

    def _level(self, length: int) -> Histogram:
        """Return the histogram of the levels of a job's tasks, beyond one task per level."""
        if length not in self._levels:
            self._levels[length] = self._model.further_levels(length)
        return self._levels[length]


def _bridges(levels: Levels, part: list[int], rng: Generator) -> Pairs:
    """Return one edge per component that joins it to the component of the deepest task and changes no level.

    That component has tasks on every level, and every component has one on the first.
    """
    main = part[-1]
    members: dict[int, list[int]] = {}
    for task, label in enumerate(part):
        members.setdefault(label, []).append(task)
    by_level: dict[int, list[int]] = {}
    for task in members.pop(main):
        by_level.setdefault(int(levels[task]), []).append(task)
    edges = []
    for tasks in members.values():
        above = [task for task in tasks if levels[task] < levels[-1]]
        parent = above[int(rng.integers(len(above)))]
        below = by_level[int(levels[parent]) + 1]
        edges.append((parent, below[int(rng.integers(len(below)))]))
    return edges


def _histogram_of(where: str, entries: Entries, *, least: float = 0.0, whole: bool = False) -> Histogram:
    """Return a checked histogram of a document with the lists ``value`` and ``count``."""
    values, counts = (_numbers(where, entries, key) for key in ("value", "count"))
    if len(values) != len(counts):
        raise WorkloadError(f"{where}: got {len(values)} values and {len(counts)} counts, expected equal numbers")
    if not (np.diff(values) > 0).all():
        raise WorkloadError(f"{where}: value: expected ascending numbers")
    if (values < least).any() or (whole and (values % 1).any()):
        raise WorkloadError(f"{where}: value: expected {'integers' if whole else 'numbers'} >= {least:g}")
    if not counts.any():
        raise WorkloadError(f"{where}: count: got only zeros, expected at least one number > 0")
    return Histogram(values, counts)


def _histograms_of(source: str, document: Entries, key: str, by: str, first: int) -> dict[int, Histogram]:
    """Return the checked histograms of a document for each integer from `first` on, in ascending order."""
    where = f"{source}: {key}.{by}"
    given = object_of(f"{source}: {key}", object_of(source, document, key), by)
    found = {}
    for name in given:
        if not name.isascii() or not name.isdigit() or len(name) > 4 or int(name) in found:
            raise WorkloadError(f"{where}: got {short_repr(name)}, expected distinct integers as keys")
        found[int(name)] = _histogram_of(f"{where}.{name}", object_of(where, given, name), least=1.0, whole=True)
    for number in range(first, max(found, default=first) + 1):
        if number not in found:
            raise WorkloadError(f"{where}: {number} is missing")
    return {number: found[number] for number in sorted(found)}


def _numbers(where: str, entries: Entries, key: str) -> Floats:
    values = listed(where, entries, key)
    for at, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            raise WorkloadError(f"{where}: {key}[{at}]: got {short_repr(value)}, expected a number from 0 to 1e15")
    return np.array(values, dtype=np.float64)
