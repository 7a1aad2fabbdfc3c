"""TPC-H queries on Spark as DAG jobs: measured stages read from files, and synthetic stages like them.

A node is a stage. Its work is the total time of all its tasks times a reference speed, so that an executor of
that speed runs it in the total time. The edges have size 0, because transfer sizes were not measured; set a
communication-to-computation ratio to give them sizes, see :func:`desim.workloads.random_dags.with_ccr`.

The measurements are those of Decima's simulator, in JSON: ``tpch_SIZEg.json`` holds the stages, and
``durations/tpch_durations_SIZEg.json.gz`` the task durations, in milliseconds. They are not part of this
project. Instead, `templates` makes synthetic jobs that match the published figures of each query exactly: stages,
edges and depth, and tasks and work at each size. A model spreads the work over the stages. Compared with the
measured stages, the critical paths of all 22 queries together are 0 to 3 % longer at each size. For a single query,
the median difference is 3 % from 10 GB on (6 % at 2 GB), and the largest is 40 %.

References: H. Mao et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019; TPC
Benchmark H, standard specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job, TaskTimes
from desim.workloads.dag import _tpch_like as like
from desim.workloads.dag.random_dags import with_ccr
from desim.workloads.files import Pathish
from desim.workloads.json_fields import LARGEST, Entries, listed, number, object_of, read_object, short_repr
from desim.workloads.streams import NamedStreams

__all__ = ["QUERIES", "REFERENCE_SPEED", "SIZES", "generate", "read", "templates"]

#: Sizes of the queries in LACHESIS, in gigabytes.
SIZES = (2, 5, 10, 50, 80, 100)
#: Numbers of all 22 queries.
QUERIES = tuple(range(1, 23))
#: Middle of the speeds of LACHESIS' executors, which are 2.1 to 3.6 GHz.
REFERENCE_SPEED = 2.85


def read(
    directory: Pathish,
    sizes: Iterable[int] = SIZES,
    queries: Iterable[int] = QUERIES,
    *,
    task_times: bool = False,
) -> list[Job]:
    """Read measured queries: one job per size and query.

    Parameters
    ----------
    directory : str or path-like
        Directory of the files.
    sizes : iterable of int
        Sizes in gigabytes.
    queries : iterable of int
        Numbers of the queries.
    task_times : bool
        Whether to read the durations of single tasks, too. The work of a stage is always its tasks times their mean.

    Returns
    -------
    list of Job
        Jobs ordered by size, numbered from 0, all at time 0, with labels such as ``tpch-q5-10g``; edges have size 0.

    Raises
    ------
    WorkloadError
        If a file is missing or broken; the message names the file, query, stage and key.
    InvalidConfiguration
        If an argument is out of range.
    """
    sizes, queries = _numbers("sizes", sizes), _numbers("queries", queries)
    jobs: list[Job] = []
    for size in sizes:
        path = Path(directory) / f"tpch_{size}g.json"
        by_query = _read_stages(path, size, queries)
        times: dict[int, list[TaskTimes]] = {}
        if task_times:
            durations = Path(directory) / "durations" / f"tpch_durations_{size}g.json.gz"
            times = _read_task_times(durations, by_query)
        for query, stages in by_query.items():
            try:
                job = Job(
                    len(jobs),
                    [stage.num_tasks * stage.mean * REFERENCE_SPEED for stage in stages],
                    [(parent, child, 0.0) for child, stage in enumerate(stages) for parent in stage.parents],
                    names=_names(len(stages)),
                    num_tasks=[stage.num_tasks for stage in stages],
                    task_times=times.get(query),
                    label=f"tpch-q{query}-{size}g",
                )
            except WorkloadError as error:
                raise WorkloadError(f"{path}: query {query}: {error}") from error
            jobs.append(job)
    return jobs


def templates(
    sizes: Iterable[int] = SIZES,
    queries: Iterable[int] = QUERIES,
    *,
    task_times: bool = False,
) -> list[Job]:
    """Return synthetic queries like the measured ones: one job per size and query, always the same.

    Parameters
    ----------
    sizes : iterable of int
        Sizes in gigabytes: 2, 5, 10, 20, 50, 80 or 100.
    queries : iterable of int
        Numbers of the queries, 1 to 22.
    task_times : bool
        Whether stages have the durations of their single tasks, too. These are log-normal; they are longer for the
        first task of an executor, for a task on a new executor, and with more executors, by factors fitted to the
        measurements.

    Returns
    -------
    list of Job
        Jobs ordered by size, numbered from 0, all at time 0, with labels such as ``tpch-like-q5-10g``; edges have
        size 0.

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
    sizes, queries = _numbers("sizes", sizes, like.SIZES), _numbers("queries", queries, QUERIES)
    return [
        _template(query, size, task_times=task_times).submitted(0.0, job_id=job_id)
        for job_id, (size, query) in enumerate(product(sizes, queries))
    ]


def generate(
    num_jobs: int,
    *,
    sizes: Iterable[int] = SIZES,
    queries: Iterable[int] = QUERIES,
    ccr: float = 0.5,
    transfer_speed: float = 1.0,
    task_times: bool = False,
    directory: Pathish | None = None,
    seed: int | Generator = 0,
) -> list[Job]:
    """Generate jobs: each is a query at a size, all equally likely, with newly sampled edge sizes.

    Parameters
    ----------
    num_jobs : int
        Number of jobs, >= 1. A shorter workload is the beginning of a longer one.
    sizes, queries : iterable of int
        Sizes in gigabytes, and numbers of the queries, to sample from.
    ccr : float
        Communication-to-computation ratio of each job, see :func:`desim.workloads.random_dags.with_ccr`.
    transfer_speed : float
        Transfer speed for which the ratio holds, in units of data per second.
    task_times : bool
        Whether stages have the durations of their single tasks, too.
    directory : str or path-like, optional
        Directory of measured queries for `read` (default: queries of `templates`).
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    list of Job
        Jobs numbered from 0, all at time 0; see `desim.workloads.submissions` for other times.

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
    num_jobs = check_int("num_jobs", num_jobs, least=1)
    check_float("ccr", ccr, least=0)
    sizes, queries = _numbers("sizes", sizes), _numbers("queries", queries)
    make = templates if directory is None else partial(read, directory)
    choices = make(sizes, queries, task_times=task_times)
    streams = NamedStreams(seed)
    drawn = streams("tpch.queries").integers(len(choices), size=num_jobs).tolist()
    rng = streams("tpch.edge_sizes")
    return [
        with_ccr(
            choices[choice].submitted(0.0, job_id=job_id),
            ccr,
            rng=rng,
            reference_speed=REFERENCE_SPEED,
            transfer_speed=transfer_speed,
        )
        for job_id, choice in enumerate(drawn)
    ]


@cache
def _template(query: int, size: int, *, task_times: bool) -> Job:
    stages = like.shape(query)
    return Job(
        0,
        like.stage_work(query, size) * REFERENCE_SPEED,
        [(parent, child, 0.0) for child, stage in enumerate(stages) for parent in stage.parents],
        names=_names(len(stages)),
        num_tasks=like.stage_tasks(query, size),
        task_times=[_times_of(runs) for runs in like.stage_runs(query, size)] if task_times else None,
        label=f"tpch-like-q{query}-{size}g",
    )


def _times_of(runs: Mapping[int, Sequence[ArrayLike]]) -> TaskTimes:
    """Return task durations from fresh, first and later ones, by number of executors."""
    fresh, first, rest = ([runs[count][wave] for count in sorted(runs)] for wave in range(3))
    return TaskTimes(sorted(runs), fresh, first, rest, reference_speed=REFERENCE_SPEED)


def _names(count: int) -> list[str]:
    return [f"stage{index}" for index in range(count)]


def _numbers(name: str, values: Iterable[int], known: Sequence[int] | None = None) -> list[int]:
    """Return the values as a list of distinct integers >= 1, at least one, or raise InvalidConfiguration."""
    result = [values] if isinstance(values, str | bytes) else list(values)
    for value in result:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise InvalidConfiguration(f"{name}: got {value!r}, expected integers >= 1")
        if known is not None and value not in known:
            raise InvalidConfiguration(f"{name}: got {value!r}, expected some of {', '.join(map(str, known))}")
    if not result or len(set(result)) < len(result):
        raise InvalidConfiguration(f"{name}: got {result!r}, expected at least one value and no duplicates")
    return [int(value) for value in result]


class _MeasuredStage(NamedTuple):
    parents: list[int]
    num_tasks: int
    mean: float


def _read_stages(path: Path, size: int, queries: Sequence[int]) -> dict[int, list[_MeasuredStage]]:
    """Return the stages of each query."""
    content = read_object(path)
    for key, expected in (("size_gb", size), ("time_unit", "ms")):
        if content.get(key, expected) != expected:
            raise WorkloadError(f"{path}: {key}: got {short_repr(content[key])}, expected {expected!r}")
    by_query = object_of(str(path), content, "queries")
    return {
        query: _stages(f"{path}: query {query}", object_of(f"{path}: queries", by_query, str(query)))
        for query in queries
    }


def _stages(where: str, query: Entries) -> list[_MeasuredStage]:
    given = listed(where, query, "stages", dict)
    if not given:
        raise WorkloadError(f"{where}: stages: got an empty list, expected at least one stage")
    stages = [_stage(f"{where}, stage {at}", stage, at, len(given)) for at, stage in enumerate(given)]
    if "edges" in query:
        ends = listed(where, query, "edges")
        pairs = [[parent, child] for child, stage in enumerate(stages) for parent in stage.parents]
        odd = [end for end in ends if end not in pairs] + [pair for pair in pairs if pair not in ends]
        if odd:
            raise WorkloadError(f"{where}: edge {odd[0]!r}: expected it in both edges and the stages' parents")
    return stages


def _stage(where: str, stage: Entries, at: int, count: int) -> _MeasuredStage:
    if stage.get("stage", at) != at:
        raise WorkloadError(f"{where}: stage: got {short_repr(stage['stage'])}, expected {at}")
    parents = listed(where, stage, "parents")
    for parent in parents:
        if not isinstance(parent, int) or isinstance(parent, bool) or not 0 <= parent < count:
            raise WorkloadError(
                f"{where}: parents: got {short_repr(parent)}, expected an integer from 0 to {count - 1}"
            )
    num_tasks = int(number(where, stage, "num_tasks", least=1, whole=True))
    return _MeasuredStage(parents, num_tasks, number(where, stage, "mean_all") / 1e3)


def _read_task_times(path: Path, by_query: Mapping[int, Sequence[object]]) -> dict[int, list[TaskTimes]]:
    """Return the task durations of each query, one TaskTimes per stage."""
    content = read_object(path)
    result = {}
    for query, wanted in by_query.items():
        where = f"{path}: query {query}"
        stages = listed(str(path), content, str(query), dict)
        if len(stages) != len(wanted):
            raise WorkloadError(f"{where}: got durations of {len(stages)} stages, expected {len(wanted)}")
        result[query] = [_task_times(f"{where}, stage {at}", stage) for at, stage in enumerate(stages)]
    return result


def _task_times(where: str, stage: Entries) -> TaskTimes:
    runs = {}
    for key in stage:
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise WorkloadError(f"{where}: got {short_repr(key)}, expected a number of executors")
        run = object_of(where, stage, key)
        runs[int(key)] = [_seconds(f"{where}, {key} executors", run, wave) for wave in ("fresh", "first", "rest")]
    try:
        return _times_of(runs)
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from error


def _seconds(where: str, run: Entries, wave: str) -> NDArray[np.float64]:
    given = listed(where, run, wave)
    for value in given:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            raise WorkloadError(f"{where}: {wave}: got {short_repr(value)}, expected milliseconds >= 0")
    return np.array(given, dtype=np.float64) / 1e3
