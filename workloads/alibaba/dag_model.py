"""Jobs like those of cluster-trace-v2018, drawn from published histograms of its batch workload.

A job is drawn in this order: its number of tasks; the number of tasks on its longest path, given the number of tasks;
one task on each level of that path and a level for every other task, given the length of the path, so that the mean
number of tasks on each level is the published one; durations and numbers of instances of its tasks. The level of a task
is the number of tasks on the longest path that ends with it. All else is independent, since no joint distribution is
published.

About edges nothing is published beyond these levels. Every task from the second level on needs one task of the level
before, each with equal chance; ``extra_edge_probability`` adds others of that level. If parts remain that are not
connected, one more edge joins each of them to the part of the deepest task. About the data that tasks exchange the
trace tells nothing: ``ccr`` sets how much they are.

Reference: H. Tian, Y. Zheng and W. Wang, "Characterizing and synthesizing task dependencies of data-parallel jobs in
Alibaba Cloud", SoCC 2019, whose authors published the histograms.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.random import Generator

from desim.exceptions import InvalidConfiguration
from desim.problems.dag.job import Job
from desim.workloads._edge_sizes import with_ccr
from desim.workloads._files import Pathish, read_bytes
from desim.workloads._named_streams import NamedStreams, number, whole_number
from desim.workloads._workflow_json import decode, object_of
from desim.workloads.alibaba._dag_shapes import Levels, Pairs, Shapes
from desim.workloads.alibaba._dag_tasks import Work
from desim.workloads.alibaba._histograms import Histogram, histogram_of, histograms_of

__all__ = ["DagModel", "generate"]

_STREAMS = ("sizes", "shapes", "edges", "durations", "instances", "data")


@dataclass(frozen=True, eq=False)
class DagModel:
    """Published histograms of a workload of jobs that are graphs of tasks.

    Parameters
    ----------
    job_interval : Histogram
        Seconds between consecutive jobs.
    num_tasks : Histogram
        Tasks of a job.
    task_duration, instance_duration : Histogram
        Seconds that a task, or one of its instances, took.
    num_instances : Histogram
        Instances of a task.
    critical_paths : mapping of int to Histogram
        Tasks on the longest path of a job, by its number of tasks, from 2 on; the largest number stands for more, too.
    levels : mapping of int to Histogram
        Levels of all tasks, by the number of tasks on the longest path of their job; the largest stands for more, too.
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
        """Read the histograms.

        Parameters
        ----------
        path : str or path-like
            A JSON file, plain or gzip: ``job_interval``, ``task_num``, ``task_duration``, ``instance_duration`` and
            ``instance_num`` with lists ``value`` and ``count``; ``critical_path_length_given_task_num`` and
            ``level_given_critical_path_length`` with such lists by number in ``by_task_num`` and
            ``by_critical_path_length``.

        Returns
        -------
        DagModel
            The model.

        Raises
        ------
        WorkloadError
            If the file cannot be read or holds something else; the message names file and entry.
        """
        source = str(os.fspath(path))
        document = decode(source, read_bytes(path))

        def histogram(key: str, least: float = 0.0, whole: bool = False) -> Histogram:
            """Return the histogram of an entry."""
            return histogram_of(f"{source}: {key}", object_of(source, document, key), least=least, whole=whole)

        return cls(
            histogram("job_interval"),
            histogram("task_num", 1.0, True),
            histogram("task_duration"),
            histogram("instance_duration"),
            histogram("instance_num", 1.0, True),
            histograms_of(source, document, "critical_path_length_given_task_num", "by_task_num", 2),
            histograms_of(source, document, "level_given_critical_path_length", "by_critical_path_length", 1),
        )

    def critical_path_of(self, num_tasks: int) -> Histogram:
        """Return how many tasks are on the longest path of a job.

        Parameters
        ----------
        num_tasks : int
            Tasks of the job.

        Returns
        -------
        Histogram
            As published; those for the largest number of tasks may exceed the tasks of a job.
        """
        if num_tasks == 1:
            return Histogram(np.ones(1), np.ones(1))
        return self.critical_paths[min(num_tasks, max(self.critical_paths))]

    def further_levels(self, length: int) -> Histogram:
        """Return on which level a task is that is not the one which every level of its job must have.

        Parameters
        ----------
        length : int
            Tasks on the longest path of the job.

        Returns
        -------
        Histogram
            The tasks on each level less the jobs that have it; all levels alike where none is left.
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
    extra_edge_probability: float = 0.0,
    allow_disconnected: bool = False,
    ccr: float = 0.0,
    transfer_speed: float = 1.0,
) -> list[Job]:
    """Draw jobs.

    Arrivals, graphs, durations, instances and data have random streams of their own, and a shorter workload is the
    beginning of a longer one.

    Parameters
    ----------
    num_jobs : int
        Number of jobs, at least 1.
    model : DagModel
        The histograms.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.
    min_tasks, max_tasks : int
        Jobs with other numbers of tasks are left out of the histogram. No upper bound by default.
    mean_interval : float, optional
        Stretch the times between jobs so that their mean is this, in seconds; 0 submits all jobs at once. As published
        by default: 0.2 s, for a cluster of 4,000 machines.
    work : {"task_duration", "instances"}
        The work of a task: its duration, as if it had run whole on one executor, or its number of instances times the
        duration of one.
    reference_speed : float
        Work per second of a machine of the trace, by which the durations are multiplied.
    extra_edge_probability : float
        Probability of each further edge to a task from the tasks of the level before.
    allow_disconnected : bool
        Leave parts as they are, and draw jobs of several tasks on a single level, too.
    ccr : float
        Communication-to-computation ratio: the mean transfer time over the edges of each job by the mean run time of
        its tasks; single sizes lie between 0.5 and 1.5 times their mean. Edges have size 0 by default.
    transfer_speed : float
        Units of data per second with which the transfer times count.

    Returns
    -------
    list of Job
        Numbered from 0 in the order of their submission, the first at time 0. The names of the tasks say what they
        need, as in the trace; instances are parallel tasks. A duration of 0, one task in 13 of the trace, is work 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the model knows no job of such numbers of tasks.
    """
    count = whole_number("num_jobs", num_jobs)
    least = whole_number("min_tasks", min_tasks)
    most = float(model.num_tasks.values[-1]) if max_tasks is None else whole_number("max_tasks", max_tasks)
    speed = number("reference_speed", reference_speed, above=True)
    probability = number("extra_edge_probability", extra_edge_probability)
    if probability > 1:
        raise InvalidConfiguration(f"extra_edge_probability is {extra_edge_probability!r}, want at most 1")
    number("ccr", ccr)
    number("transfer_speed", transfer_speed, above=True)
    if work not in get_args(Work):
        raise InvalidConfiguration(f"work is {work!r}, want one of {get_args(Work)}")
    streams = NamedStreams(seed)
    rngs = {name: streams(f"alibaba.dags.{name}") for name in _STREAMS}
    sizes = model.num_tasks.between("tasks of a job", least, most).draw(rngs["sizes"], count).astype(np.int64)
    times = _submissions(model.job_interval, count, mean_interval, streams("alibaba.dags.arrivals"))
    shapes = Shapes(model, probability, not allow_disconnected)
    durations = model.instance_duration if work == "instances" else model.task_duration
    jobs = []
    for job_id, size in enumerate(sizes.tolist()):
        levels, edges = shapes.draw(size, rngs["shapes"], rngs["edges"])
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
    """Return times that begin with 0."""
    gaps = intervals.draw(rng, count - 1)
    if mean is not None:
        wanted = number("mean_interval", mean)
        if wanted and not intervals.mean:
            raise InvalidConfiguration(f"mean_interval is {mean!r}, but all intervals of the model are 0")
        gaps *= wanted / intervals.mean if wanted else 0.0
    times: list[float] = np.concatenate(([0.0], np.cumsum(gaps))).tolist()
    return times


def _names(levels: Levels, edges: Pairs) -> list[str]:
    """Return the names of tasks as in the trace: J3_1_2 is task 3 and needs 1 and 2."""
    parents: list[list[str]] = [[] for _ in levels]
    for parent, child in edges:
        parents[child].append(str(parent + 1))
    return ["_".join([f"{'MRJ'[min(len(above), 2)]}{task}", *above]) for task, above in enumerate(parents, 1)]
