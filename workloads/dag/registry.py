"""Jobs that are graphs of tasks by name or file, for the command line and environments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from desim.checks import check_choice, check_float, check_int, did_you_mean
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.workloads.dag import dax, submissions, tpch, wfformat
from desim.workloads.dag.executors import heterogeneous
from desim.workloads.dag.random_dags import generate, with_ccr
from desim.workloads.files import Pathish

__all__ = ["descriptions", "draw", "executors_of", "read", "write"]

_GENERATED = "tpch"
_READERS: Mapping[str, Callable[..., Job]] = {".json": wfformat.read, ".dax": dax.read, ".xml": dax.read}
#: Times between jobs and number of executors in the continuous mode of LACHESIS; the default has the same load.
_LACHESIS_INTERVAL, _LACHESIS_EXECUTORS = 45.0, 50


def descriptions() -> dict[str, str]:
    """Return every source, or pattern of files, with a line on it.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    return {
        "tpch": "Queries like those of TPC-H, as in LACHESIS, drawn from a seed.",
        "FILE.json, FILE.json.gz": "A recorded workflow in the WfFormat of WfCommons; several with commas between.",
        "FILE.dax, FILE.xml": "An abstract workflow of Pegasus, the same.",
    }


def draw(
    rng: Generator,
    *,
    num_jobs: int | None = 20,
    num_executors: int = 10,
    mean_interval: float | None = None,
    ccr: float | None = 0.5,
    transfer_speed: float = 1.0,
    executors: Executors | None = None,
    templates: Sequence[Job] | None = None,
    task_times: bool = False,
    graphs: str = _GENERATED,
    load: float | None = None,
) -> tuple[list[Job], Executors]:
    """Draw queries like those of TPC-H, the executors that run them, and when they are submitted.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    num_jobs : int, optional
        Number of jobs, each drawn from all queries. None stands for every one once, in their order.
    num_executors : int
        Number of executors, of 2.1 to 3.6 GHz as in LACHESIS.
    mean_interval : float, optional
        Mean seconds between two submissions, which are a Poisson process; 0 for all at time 0. By default so many
        that the load is that of LACHESIS, where 50 executors have a job every 45 seconds.
    ccr : float, optional
        Communication-to-computation ratio of each job, for which sizes of data are drawn. None keeps what edges carry,
        which is nothing for the queries of TPC-H. Transfer times are means over pairs of executors, and run times over
        the executors. Of what is drawn for a transfer speed of 1, the setting of LACHESIS, run times are those at its
        middle speed, 2.85 GHz. Where no amount of data takes any time, sizes are as for a transfer speed of 1.
    transfer_speed : float
        Units of data per second between two executors.
    executors : Executors, optional
        Take these instead of drawing some; ``num_executors`` and ``transfer_speed`` play no part then.
    templates : sequence of Job, optional
        Draw from these instead of TPC-H's queries.
    task_times : bool
        Give the stages of these durations of their single tasks, too.
    graphs : {"tpch", "random", "varied"}
        Random graphs are of 10 to 24 nodes, long and wide ones, whose mean run time is between 5 and 200 seconds for
        all of them; no template plays a part then. Varied ones are of 6 to 110 nodes, and of more shapes.
    load : float, optional
        Work that is submitted in a time, by what all executors can do in it; 0 for all at time 0. It takes the place of
        ``mean_interval``.

    Returns
    -------
    tuple of list of Job and Executors
        The jobs in order of submission.

    Raises
    ------
    InvalidConfiguration
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> jobs, executors = draw(np.random.default_rng(1), num_jobs=3)
    >>> len(jobs), executors.num_executors
    (3, 10)
    """
    as_published = transfer_speed == 1 and executors is None and templates is None
    if executors is None:
        executors = heterogeneous(num_executors, transfer_speed=transfer_speed, seed=rng)
    rates = _AS_PUBLISHED if as_published else _rates(executors)
    if mean_interval is None:
        mean_interval = _LACHESIS_INTERVAL * _LACHESIS_EXECUTORS / executors.num_executors
    check_float("mean_interval", mean_interval, least=0)
    if check_choice("graphs", graphs, (_GENERATED, *_RANDOM)) in _RANDOM:
        jobs = _random_graphs(rng, check_int("num_jobs", num_jobs, least=1), ccr or 0.0, _RANDOM[graphs], rates)
        return _submitted(jobs, executors, mean_interval, load, rng), executors
    queries = _queries(task_times=task_times) if templates is None else templates
    if not queries:
        raise InvalidConfiguration("templates is empty, want at least one job to draw from")
    jobs = list(queries)
    if num_jobs is not None:
        jobs = [queries[at] for at in rng.integers(len(queries), size=check_int("num_jobs", num_jobs, least=1))]
    if ccr is not None:
        jobs = [with_ccr(job, ccr, rng=rng, **rates._asdict()) for job in jobs]
    return _submitted(jobs, executors, mean_interval, load, rng), executors


class _Rates(NamedTuple):
    """What ratios count with: work a second, units of data a second, and the latency of each transfer."""

    reference_speed: float
    transfer_speed: float = 1.0
    latency: float = 0.0


_AS_PUBLISHED = _Rates(tpch.REFERENCE_SPEED)


def _rates(executors: Executors) -> _Rates:
    """Return means over executors and over pairs of them."""
    seconds = executors.mean_seconds_per_unit
    return _Rates(1.0 / float((1.0 / executors.speeds).mean()), 1.0 / (seconds or 1.0), executors.mean_latency)


def _submitted(
    jobs: Sequence[Job], executors: Executors, mean_interval: float, load: float | None, rng: Generator
) -> list[Job]:
    """Return jobs at the times at which they are submitted."""
    if load is not None:
        check_float("load", load, least=0)
        seconds = sum(float(job.work.sum()) for job in jobs) / len(jobs) / float(executors.speeds.sum())
        mean_interval = seconds / load if load else 0.0
    return submissions.poisson(jobs, mean_interval, rng) if mean_interval else submissions.batch(jobs)


class _Layered(NamedTuple):
    """What random graphs in layers are drawn from: sizes, shapes, and the most children of a node."""

    draw_size: Callable[[Generator], int]
    shapes: tuple[float, ...]
    most_children: int


_RANDOM = {
    "random": _Layered(lambda rng: int(rng.integers(10, 25)), (0.5, 1.0, 2.0), 3),
    "varied": _Layered(
        lambda rng: round(math.exp(rng.uniform(math.log(6), math.log(110)))), (0.3, 0.5, 1.0, 2.0, 3.0), 4
    ),
}


def _random_graphs(rng: Generator, count: int, ccr: float, kind: _Layered, rates: _Rates) -> list[Job]:
    """Return random graphs in layers, all of one scale."""
    work = float(np.exp(rng.uniform(np.log(5.0), np.log(200.0)))) * tpch.REFERENCE_SPEED
    is_published = rates == _AS_PUBLISHED
    jobs = [
        generate(
            kind.draw_size(rng),
            shape=float(rng.choice(kind.shapes)),
            out_degree=int(rng.integers(1, kind.most_children + 1)),
            mean_work=work,
            ccr=ccr / tpch.REFERENCE_SPEED if is_published else 0.0,  # of work here, of times there
            seed=rng,
        )
        for _ in range(count)
    ]
    return jobs if is_published else [with_ccr(job, ccr, rng=rng, **rates._asdict()) for job in jobs]


@cache
def _queries(*, task_times: bool) -> tuple[Job, ...]:
    """Return all queries at all sizes; making them takes longer than an episode."""
    return tuple(tpch.templates(task_times=task_times))


def read(path: Pathish, **options: Any) -> Job:
    """Read a workflow file of any known format.

    Parameters
    ----------
    path : str or path-like
        The suffix tells the format; behind it there may be ``.gz``.
    **options
        For `desim.workloads.dag.wfformat.read` or `desim.workloads.dag.dax.read`. Unless told otherwise, run times
        are those on an executor of the middle speed of LACHESIS, `desim.workloads.dag.tpch.REFERENCE_SPEED`, and a
        workflow may have several parts.

    Returns
    -------
    Job
        Sizes of data are in bytes.

    Raises
    ------
    InvalidConfiguration
        If the suffix is unknown.
    WorkloadError
        If there is no such file, it cannot be read, or its content makes no sense.
    """
    name = str(os.fspath(path))
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in _READERS:
        if name.isidentifier() and not Path(name).exists():
            near = did_you_mean(name, [_GENERATED])
            raise WorkloadError(f"{name}: no such file, nor a generated workload{near} (there is {_GENERATED})")
        raise InvalidConfiguration(f"{name}: want a file with the suffix {', '.join(_READERS)}")
    return _READERS[suffix](path, **{"reference_speed": tpch.REFERENCE_SPEED, "allow_disconnected": True} | options)


def executors_of(path: Pathish) -> Executors | None:
    """Return the executors that a workflow file states beside its workflow.

    Parameters
    ----------
    path : str or path-like
        A file of any known format.

    Returns
    -------
    Executors or None
        None if it states none, as recorded workflows do not.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or what it states makes no sense.
    """
    is_json = Path(str(os.fspath(path)).removesuffix(".gz")).suffix == ".json"
    return wfformat.executors_of(path) if is_json else None


def write(path: Pathish, job: Job, *, executors: Executors | None = None) -> None:
    """Write a workflow as WfFormat so that `read` and `executors_of` give it back.

    Parameters
    ----------
    path : str or path-like
        The file.
    job : Job
        The workflow.
    executors : Executors, optional
        What it runs on.

    Raises
    ------
    WorkloadError
        If the file cannot be written, or the format cannot hold the job.
    """
    wfformat.write(path, job, reference_speed=tpch.REFERENCE_SPEED, executors=executors)
