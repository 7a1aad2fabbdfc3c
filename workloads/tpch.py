"""TPC-H queries on Spark as jobs: measured stages, read from files, and stages like them, made up.

A node is a stage; its work is the seconds of all its tasks together times a reference speed, so that an executor of
that speed runs it in as many seconds. Edges carry nothing until a communication-to-computation ratio is set, since no
transfer sizes were measured, see :func:`desim.workloads.random_dags.with_ccr`.

The measurements are those of Decima's simulator, as JSON: ``tpch_SIZEg.json`` with the stages and
``durations/tpch_durations_SIZEg.json.gz`` with the task durations, in milliseconds. They are not part of this
project. In their place it can make up jobs that agree with the published figures of each query exactly: stages, edges
and depth, and tasks and work at each size. How the work is spread over the stages is a model. Compared with the
measured stages, the critical paths of the 22 queries together are 0 to 3 % longer at each size; that of a single query
differs by 3 % in the median from 10 GB on (6 % at 2 GB), by 40 % at most.

References: H. Mao et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019; TPC
Benchmark H, standard specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
from numpy.random import Generator

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job
from desim.workloads import _tpch_figures as figures
from desim.workloads._edge_sizes import Proportion, with_ccr
from desim.workloads._files import Pathish
from desim.workloads._named_streams import NamedStreams, number, whole_number
from desim.workloads._tpch_files import MEANS, read_stages, read_task_times, stage_file
from desim.workloads._tpch_model import stage_task_times, stage_tasks, stage_work
from desim.workloads._tpch_shapes import shape

__all__ = ["QUERIES", "REFERENCE_SPEED", "SIZES", "Mean", "generate", "read", "templates"]

#: Gigabytes of the queries in LACHESIS.
SIZES = (2, 5, 10, 50, 80, 100)
#: All 22 queries.
QUERIES = tuple(figures.FIGURES)
#: The middle of the speeds of LACHESIS' executors, 2.1 to 3.6 GHz.
REFERENCE_SPEED = 2.85

#: Which mean task duration: over all tasks, the rough one of Decima's simulator, or over the tasks of one wave.
Mean = Literal["mean_all", "decima_rough", "mean_first", "mean_first_warm", "mean_rest", "mean_fresh"]


def read(
    directory: Pathish,
    sizes: Iterable[int] = SIZES,
    queries: Iterable[int] = QUERIES,
    *,
    task_times: bool = False,
    mean: Mean = "mean_all",
    reference_speed: float = REFERENCE_SPEED,
    warm_up: float = 1.0,
) -> list[Job]:
    """Read measured queries, one job for each size and query.

    Parameters
    ----------
    directory : str or path-like
        Where the files are.
    sizes : iterable of int
        Gigabytes.
    queries : iterable of int
        Numbers of the queries.
    task_times : bool
        Read the durations of the single tasks, too.
    mean : {"mean_all", "decima_rough", "mean_first", "mean_first_warm", "mean_rest", "mean_fresh"}
        Mean task duration that makes up the work of a stage; the mean over all tasks where it has none in a wave.
    reference_speed : float
        Speed of the executors that the tasks were measured on.
    warm_up : float
        Seconds that an executor needs to get ready for a job, see `desim.problems.dag.task_times.TaskTimes`.

    Returns
    -------
    list of Job
        Size by size, numbered from 0, all at time 0, with labels such as ``tpch-q5-10g``; edges carry nothing.

    Raises
    ------
    WorkloadError
        If a file is missing or broken; the message names it, and the query, stage and key.
    InvalidConfiguration
        If an argument is out of range.
    """
    sizes, queries = _numbers("sizes", sizes), _numbers("queries", queries)
    _check(reference_speed, warm_up)
    if mean not in MEANS:
        raise InvalidConfiguration(f"mean is {mean!r}, want one of {', '.join(MEANS)}")
    jobs: list[Job] = []
    for size in sizes:
        by_query = read_stages(directory, size, queries, mean)
        times = None
        if task_times:
            counts = {query: len(stages) for query, stages in by_query.items()}
            times = read_task_times(directory, size, counts, warm_up=warm_up, reference_speed=reference_speed)
        for query, stages in by_query.items():
            try:
                job = Job(
                    len(jobs),
                    [stage.num_tasks * stage.mean * reference_speed for stage in stages],
                    [(parent, child, 0.0) for child, stage in enumerate(stages) for parent in stage.parents],
                    names=_names(len(stages)),
                    num_tasks=[stage.num_tasks for stage in stages],
                    task_times=None if times is None else times[query],
                    label=f"tpch-q{query}-{size}g",
                )
            except WorkloadError as error:
                raise WorkloadError(f"{stage_file(directory, size)}: query {query}: {error}") from error
            jobs.append(job)
    return jobs


def templates(
    sizes: Iterable[int] = SIZES,
    queries: Iterable[int] = QUERIES,
    *,
    task_times: bool = False,
    reference_speed: float = REFERENCE_SPEED,
    warm_up: float = 1.0,
) -> list[Job]:
    """Make up queries like the measured ones, one job for each size and query; always the same.

    Parameters
    ----------
    sizes : iterable of int
        Gigabytes: 2, 5, 10, 20, 50, 80 or 100.
    queries : iterable of int
        Numbers of the queries, 1 to 22.
    task_times : bool
        Give the stages durations of their single tasks, too: log-normal, longer for the first task of an executor, for
        one on a new executor, and with more executors, by factors fitted to the measurements.
    reference_speed : float
        Speed at which a stage takes its seconds.
    warm_up : float
        Seconds that an executor needs to get ready for a job, see `desim.problems.dag.task_times.TaskTimes`.

    Returns
    -------
    list of Job
        Size by size, numbered from 0, all at time 0, with labels such as ``tpch-like-q5-10g``; edges carry nothing.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Examples
    --------
    >>> job = templates(sizes=[100], queries=[21])[0]
    >>> job.num_nodes, job.num_edges, int(job.num_tasks.sum()), round(float(job.work.sum()) / REFERENCE_SPEED, 1)
    (16, 15, 3717, 7560.1)
    """
    sizes, queries = _numbers("sizes", sizes, figures.SIZES), _numbers("queries", queries, QUERIES)
    _check(reference_speed, warm_up)
    return [
        _template(job_id, query, size, task_times=task_times, reference_speed=reference_speed, warm_up=warm_up)
        for job_id, (size, query) in enumerate(product(sizes, queries))
    ]


def generate(
    num_jobs: int,
    *,
    sizes: Iterable[int] = SIZES,
    queries: Iterable[int] = QUERIES,
    ccr: float = 0.5,
    transfer_speed: float = 1.0,
    proportion: Proportion = "uniform",
    reference_speed: float = REFERENCE_SPEED,
    task_times: bool = False,
    warm_up: float = 1.0,
    directory: Pathish | None = None,
    seed: int | Generator = 0,
) -> list[Job]:
    """Draw jobs: each is one of the queries at one of the sizes, all equally likely, with edge sizes of its own.

    Parameters
    ----------
    num_jobs : int
        Number of jobs, at least 1. A shorter workload is the beginning of a longer one.
    sizes, queries : iterable of int
        What to draw from.
    ccr : float
        Communication-to-computation ratio of each job, see :func:`desim.workloads.random_dags.with_ccr`.
    transfer_speed : float
        Units of data per second with which transfers count for the ratio.
    proportion : {"uniform", "parent_work"}
        Whether all edges of a job have the same mean size, or one in proportion to the work of the parent.
    reference_speed : float
        Speed at which a stage takes its seconds.
    task_times : bool
        Give the stages durations of their single tasks, too.
    warm_up : float
        Seconds that an executor needs to get ready for a job, see `desim.problems.dag.task_times.TaskTimes`.
    directory : str or path-like, optional
        Where measured queries are, to be used as by `read`; those of `templates` if left out.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.

    Returns
    -------
    list of Job
        Numbered from 0, all at time 0; see `desim.workloads.submissions` for other times.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    WorkloadError
        If a file in `directory` is missing or broken.

    Examples
    --------
    >>> [job.label for job in generate(3, sizes=[10], seed=1)]
    ['tpch-like-q21-10g', 'tpch-like-q22-10g', 'tpch-like-q11-10g']
    """
    num_jobs = whole_number("num_jobs", num_jobs)
    number("ccr", ccr)
    sizes, queries = _numbers("sizes", sizes), _numbers("queries", queries)
    make = templates if directory is None else partial(read, directory)
    choices = make(sizes, queries, task_times=task_times, reference_speed=reference_speed, warm_up=warm_up)
    streams = NamedStreams(seed)
    drawn = streams("tpch.queries").integers(len(choices), size=num_jobs).tolist()
    rng = streams("tpch.edge_sizes")
    return [
        with_ccr(
            choices[choice].submitted(0.0, job_id=job_id),
            ccr,
            rng=rng,
            reference_speed=reference_speed,
            transfer_speed=transfer_speed,
            proportion=proportion,
        )
        for job_id, choice in enumerate(drawn)
    ]


def _template(job_id: int, query: int, size: int, *, task_times: bool, reference_speed: float, warm_up: float) -> Job:
    stages = shape(query)
    times = stage_task_times(query, size, warm_up=warm_up, reference_speed=reference_speed) if task_times else None
    return Job(
        job_id,
        stage_work(query, size) * reference_speed,
        [(parent, child, 0.0) for child, stage in enumerate(stages) for parent in stage.parents],
        names=_names(len(stages)),
        num_tasks=stage_tasks(query, size),
        task_times=times,
        label=f"tpch-like-q{query}-{size}g",
    )


def _names(count: int) -> list[str]:
    return [f"stage{index}" for index in range(count)]


def _numbers(name: str, values: Iterable[int], known: Sequence[int] | None = None) -> list[int]:
    """Return whole numbers above 0, at least one, or raise InvalidConfiguration."""
    result = [values] if isinstance(values, str | bytes) else list(values)
    for value in result:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise InvalidConfiguration(f"{name}: {value!r}, want whole numbers of at least 1")
        if known is not None and value not in known:
            raise InvalidConfiguration(f"{name}: {value!r} is none of {', '.join(map(str, known))}")
    if not result or len(set(result)) < len(result):
        raise InvalidConfiguration(f"{name} are {result!r}, want at least one, and none twice")
    return [int(value) for value in result]


def _check(reference_speed: float, warm_up: float) -> None:
    number("reference_speed", reference_speed, above=True)
    number("warm_up", warm_up)
