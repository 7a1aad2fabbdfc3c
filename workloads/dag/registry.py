"""DAG workloads by name or file, for the command line and environments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from desim.checks import MOST_ITEMS, check_choice, check_float, check_int, did_you_mean
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.reading import suffix_of
from desim.workloads.catalogue import entries, located
from desim.workloads.dag import dax, jobshop, pegasus, rcpsp, stg, submissions, tpch, wfformat
from desim.workloads.dag.executors import heterogeneous
from desim.workloads.dag.random_dags import (
    cholesky,
    fft,
    fork_join,
    gaussian_elimination,
    generate,
    in_tree,
    montage,
    out_tree,
    with_ccr,
    with_random_work,
)
from desim.workloads.dag.wfformat import WorkflowReport
from desim.workloads.files import Pathish

__all__ = [
    "FAMILY_SECONDS",
    "WorkflowReport",
    "descriptions",
    "draw",
    "executors_of",
    "machines_of",
    "read",
    "read_all",
    "write",
]

_GENERATED = "tpch"
_READERS: Mapping[str, Callable[..., Job]] = {
    ".json": wfformat.read,
    ".dax": dax.read,
    ".xml": dax.read,
    ".yml": pegasus.read,
    ".yaml": pegasus.read,
    ".stg": stg.read,
}
_PROJECTS = (".sm", ".mm", ".rcp")
_JOB_SHOP = ".jsp"
_WITH_EXECUTORS = (_JOB_SHOP, *_PROJECTS)
"""Formats that state their executors, whose speed is 1: job shops and projects."""
#: Mean interval in seconds and number of executors in LACHESIS' continuous mode; our default has the same load.
_LACHESIS_INTERVAL, _LACHESIS_EXECUTORS = 45.0, 50


def descriptions() -> dict[str, str]:
    """Return a one-line description of every workload source and file pattern.

    Returns
    -------
    dict of str to str
        Descriptions by name or pattern, in display order.
    """
    return {
        "tpch": "Queries like those of TPC-H, as in LACHESIS, generated from a seed.",
        "NAME": "Public workflow that `desim fetch NAME` has downloaded; `desim list workloads` shows them.",
        "FILE.json, FILE.json.gz": "Recorded workflow in the WfFormat of WfCommons; separate several by commas.",
        "FILE.dax, FILE.xml, FILE.yml": "Abstract workflow of Pegasus; separate several by commas.",
        "FILE.stg": "Task graph of the Standard Task Graph set.",
        "FILE.jsp": "Job shop in the standard format or Taillard's, with an executor for each machine.",
        "FILE.sm, FILE.mm, FILE.rcp": "Resource-constrained project of PSPLIB or Patterson, on one pool.",
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
    capacity: Mapping[str, float] | None = None,
    templates: Sequence[Job] | None = None,
    task_times: bool = False,
    graphs: str = _GENERATED,
    load: float | None = None,
) -> tuple[list[Job], Executors]:
    """Generate DAG jobs, such as queries like those of TPC-H, with submission times and executors.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    num_jobs : int, optional
        Number of jobs, each sampled from all queries. None takes every query exactly once, in order.
    num_executors : int
        Number of executors, with speeds of 2.1 to 3.6 GHz as in LACHESIS.
    mean_interval : float, optional
        Mean time between submissions in a Poisson process, in seconds; with 0, all jobs are submitted at time 0. The
        default gives the load of LACHESIS, where 50 executors receive a job every 45 seconds.
    ccr : float, optional
        Communication-to-computation ratio of each job, to which data sizes are generated. None keeps the data sizes of
        the edges, which are 0 for the queries of TPC-H. The ratio uses mean transfer times over pairs of executors, and
        mean run times over executors. For executors generated with transfer speed 1, the setting of LACHESIS, run times
        are those at its middle speed, 2.85 GHz. If transfers take no time, sizes are those for transfer speed 1.
    transfer_speed : float
        Transfer speed between two executors, in units of data per second.
    executors : Executors, optional
        Executors to use instead of generated ones; ``num_executors`` and ``transfer_speed`` are then ignored.
    capacity : mapping of str to float, optional
        Amounts of resources of each generated executor, which is a pool then.
    templates : sequence of Job, optional
        Jobs to sample from instead of TPC-H's queries.
    task_times : bool
        Whether stages also have the durations of their single tasks.
    graphs : {"tpch", "random", "varied", "layered", "fork-join", "cholesky", "in-tree", "fft", "montage", "gaussian", \
"out-tree"}
        Kind of graphs. ``"random"`` generates long and wide graphs of 10 to 24 nodes; the mean run time of a node,
        between 5 and 200 seconds, is the same for all jobs, and `templates` is ignored. ``"varied"`` generates graphs
        of 6 to 110 nodes and of more shapes. The others generate graphs of one family, with 3 to 60 nodes of random
        work; the mean run time of a node is `FAMILY_SECONDS`, and `templates` is ignored as well.
    load : float, optional
        Submitted work per time, divided by the total speed of all executors; with 0, all jobs are submitted at
        time 0. It replaces ``mean_interval``.

    Returns
    -------
    tuple of list of Job and Executors
        Jobs in order of submission, and the executors that run them.

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
        if capacity is not None:
            pools = [capacity] * num_executors
            executors = Executors(executors.speeds, transfer_speed, names=executors.names, capacities=pools)
    rates = _AS_PUBLISHED if as_published else _rates(executors)
    if mean_interval is None:
        mean_interval = _LACHESIS_INTERVAL * _LACHESIS_EXECUTORS / executors.num_executors
    check_float("mean_interval", mean_interval, least=0, most=1e9)
    if check_choice("graphs", graphs, (_GENERATED, *_RANDOM, *_FAMILIES)) != _GENERATED:
        count = check_int("num_jobs", num_jobs, least=1, most=MOST_ITEMS)
        if graphs in _FAMILIES:
            jobs = [_of_family(rng, ccr or 0.0, _FAMILIES[graphs], rates) for _ in range(count)]
        else:
            jobs = _random_graphs(rng, count, ccr or 0.0, _RANDOM[graphs], rates)
        return _submitted(jobs, executors, mean_interval, load, rng), executors
    queries = _queries(task_times=task_times) if templates is None else templates
    if not queries:
        raise InvalidConfiguration("templates: got an empty sequence, expected at least one job")
    jobs = list(queries)
    if num_jobs is not None:
        jobs = [
            queries[at]
            for at in rng.integers(len(queries), size=check_int("num_jobs", num_jobs, least=1, most=MOST_ITEMS))
        ]
    if ccr is not None:
        jobs = [with_ccr(job, ccr, rng=rng, **rates._asdict()) for job in jobs]
    return _submitted(jobs, executors, mean_interval, load, rng), executors


class _Rates(NamedTuple):
    """Speeds that define the ratio: work per second, units of data per second, and latency of a transfer in seconds."""

    reference_speed: float
    transfer_speed: float = 1.0
    latency: float = 0.0


_AS_PUBLISHED = _Rates(tpch.REFERENCE_SPEED)


def _rates(executors: Executors) -> _Rates:
    """Return means over executors, and over pairs of executors."""
    seconds = executors.mean_seconds_per_unit
    return _Rates(1.0 / float((1.0 / executors.speeds).mean()), 1.0 / (seconds or 1.0), executors.mean_latency)


def _submitted(
    jobs: Sequence[Job], executors: Executors, mean_interval: float, load: float | None, rng: Generator
) -> list[Job]:
    """Return jobs with submission times."""
    if load is not None:
        check_float("load", load, least=0)
        seconds = sum(float(job.work.sum()) for job in jobs) / len(jobs) / float(executors.speeds.sum())
        mean_interval = seconds / load if load else 0.0
    return submissions.poisson(jobs, mean_interval, rng) if mean_interval else submissions.batch(jobs)


class _Layered(NamedTuple):
    """Distribution of random layered graphs: sizes, shapes, and the largest number of children of a node."""

    draw_size: Callable[[Generator], int]
    shapes: tuple[float, ...]
    most_children: int


_RANDOM = {
    "random": _Layered(lambda rng: int(rng.integers(10, 25)), (0.5, 1.0, 2.0), 3),
    "varied": _Layered(
        lambda rng: round(math.exp(rng.uniform(math.log(6), math.log(110)))), (0.3, 0.5, 1.0, 2.0, 3.0), 4
    ),
}


FAMILY_SECONDS = 30.0
"""Mean run time of the nodes of graph families, in seconds at the middle speed of LACHESIS."""

_FAMILIES: Mapping[str, Callable[[Generator], Job]] = {
    "layered": lambda rng: generate(
        int(rng.integers(8, 49)),
        shape=float(rng.choice(_RANDOM["varied"].shapes)),
        out_degree=int(rng.integers(1, 4)),
        seed=rng,
    ),
    "fork-join": lambda rng: fork_join(int(rng.integers(2, 13)), stages=int(rng.integers(1, 5))),
    "cholesky": lambda rng: cholesky(int(rng.integers(2, 7))),
    "in-tree": lambda rng: in_tree(int(rng.integers(2, 5)), branching=int(rng.integers(2, 4))),
    "fft": lambda rng: fft(2 ** int(rng.integers(1, 4))),
    "montage": lambda rng: montage(int(rng.integers(2, 13))),
    "gaussian": lambda rng: gaussian_elimination(int(rng.integers(3, 10))),
    "out-tree": lambda rng: out_tree(int(rng.integers(2, 5)), branching=int(rng.integers(2, 4))),
}


def _of_family(rng: Generator, ccr: float, kind: Callable[[Generator], Job], rates: _Rates) -> Job:
    """Return a job of a graph family with random work and sizes of data."""
    job = with_random_work(kind(rng), FAMILY_SECONDS * tpch.REFERENCE_SPEED, rng=rng)
    return with_ccr(job, ccr, rng=rng, **rates._asdict())


def _random_graphs(rng: Generator, count: int, ccr: float, kind: _Layered, rates: _Rates) -> list[Job]:
    """Return random layered graphs that all have the same mean work."""
    work = float(np.exp(rng.uniform(np.log(5.0), np.log(200.0)))) * tpch.REFERENCE_SPEED
    is_published = rates == _AS_PUBLISHED
    jobs = [
        generate(
            kind.draw_size(rng),
            shape=float(rng.choice(kind.shapes)),
            out_degree=int(rng.integers(1, kind.most_children + 1)),
            mean_work=work,
            ccr=ccr / tpch.REFERENCE_SPEED if is_published else 0.0,  # a ratio of work here, of times there
            seed=rng,
        )
        for _ in range(count)
    ]
    return jobs if is_published else [with_ccr(job, ccr, rng=rng, **rates._asdict()) for job in jobs]


@cache
def _queries(*, task_times: bool) -> tuple[Job, ...]:
    """Return all queries at all sizes, cached because making them takes longer than an episode."""
    return tuple(tpch.templates(task_times=task_times))


def read(path: Pathish, **options: Any) -> Job:
    """Read a workflow file of any known format.

    Parameters
    ----------
    path : str or path-like
        Workflow file; its suffix, optionally followed by ``.gz``, determines the format. A name in
        `desim.workloads.catalogue` stands for its file.
    **options
        Options of `desim.workloads.dag.wfformat.read`, `desim.workloads.dag.dax.read` or
        `desim.workloads.dag.pegasus.read`. By default, run times are those on an executor of LACHESIS' middle speed,
        `desim.workloads.dag.tpch.REFERENCE_SPEED`.

    Returns
    -------
    Job
        Job of the workflow; sizes of data are in bytes.

    Raises
    ------
    InvalidConfiguration
        If the suffix is unknown.
    WorkloadError
        If the file does not exist, cannot be read, or has invalid content.
    """
    name = str(os.fspath(path))
    suffix = _suffix(path)
    if suffix not in _READERS:
        if name.isidentifier() and not Path(name).exists():
            near = did_you_mean(name, [_GENERATED, *entries()])
            raise WorkloadError(f"{name}: no such file or generated workload{near}; try {_GENERATED} or a file")
        raise InvalidConfiguration(
            f"{name}: unknown workload format; expected a suffix among {', '.join((*_READERS, *_WITH_EXECUTORS))}"
        )
    return _READERS[suffix](path, **{"reference_speed": tpch.REFERENCE_SPEED} | options)


def read_all(path: Pathish, **options: Any) -> list[Job]:
    """Read all jobs of a file: of a workflow, of a job shop (``.jsp``), or of a project (``.sm``, ``.mm``, ``.rcp``).

    Parameters
    ----------
    path : str or path-like
        File of any known format.
    **options
        Options of `read`.

    Returns
    -------
    list of Job
        Jobs.

    Raises
    ------
    InvalidConfiguration
        If the suffix is unknown.
    WorkloadError
        If the file does not exist, cannot be read, or has invalid content.
    """
    suffix = _suffix(path)
    if "demands" in options and suffix != ".json":
        raise InvalidConfiguration(f"demands: applies only to WfFormat (.json) and batch_task.csv, not to {path}")
    if suffix not in _WITH_EXECUTORS:
        return [read(path, **options)]
    is_project = suffix in _PROJECTS
    if given := sorted(options.keys() - {"report", *["strict"] * is_project}):
        raise InvalidConfiguration(f"{given[0]}: applies only to workflows, not to {path}")
    return [rcpsp.read(path, **options)[0]] if is_project else jobshop.read(path)[0]


def _suffix(path: Pathish) -> str:
    return suffix_of(located(path))


def executors_of(path: Pathish) -> Executors | None:
    """Return the executors that a workflow file describes along with its workflow.

    Parameters
    ----------
    path : str or path-like
        Workflow file of any known format.

    Returns
    -------
    Executors or None
        Executors, None if the file has none; recorded workflows have none.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or its executors are invalid.
    """
    suffix = _suffix(path)
    if suffix in _WITH_EXECUTORS:
        return (rcpsp.read if suffix in _PROJECTS else jobshop.read)(path)[1]
    return wfformat.executors_of(path) if suffix == ".json" else None


def machines_of(path: Pathish, transfer_speed: float) -> Executors | None:
    """Read the machines of a recorded workflow as pools of cores and memory.

    Parameters
    ----------
    path : str or path-like
        Workflow file of any known format.
    transfer_speed : float
        Bytes per second between two machines.

    Returns
    -------
    Executors or None
        A pool per machine, whose speed is the one at which `read` measures run times; None unless the file is WfFormat.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or states no machine, or a machine without cores.
    """
    if _suffix(path) != ".json":
        return None
    found = wfformat.machines(path)
    speeds = [tpch.REFERENCE_SPEED] * found.num_executors
    return Executors(speeds, transfer_speed, names=found.names, capacities=found.capacities)


def write(
    path: Pathish, jobs: Job | Sequence[Job], *, executors: Executors | None = None, taillard: bool = False
) -> tuple[str, ...]:
    """Write a workflow, task graph, job shop or project in the format given by its suffix; `read_all` returns it.

    Parameters
    ----------
    path : str or path-like
        Target file: ``.json`` (WfFormat), ``.stg``, ``.jsp`` for a job shop, or ``.sm``, ``.mm`` or ``.rcp`` for a
        project.
    jobs : Job or sequence of Job
        Job to write; several only for a job shop.
    executors : Executors, optional
        Executors to store with the workflow, machines of the job shop, or the pool of the project.
    taillard : bool
        Whether to write a job shop in Taillard's format.

    Returns
    -------
    tuple of str
        What the file does not hold, see `desim.workloads.dag.stg.write`.

    Raises
    ------
    InvalidConfiguration
        If the suffix is unknown, or an option does not apply to the format.
    WorkloadError
        If the file cannot be written, or the format cannot hold the jobs.
    """
    found = [jobs] if isinstance(jobs, Job) else list(jobs)
    suffix = suffix_of(path)
    if suffix not in (known := (".json", ".stg", *_WITH_EXECUTORS)):
        raise InvalidConfiguration(f"{path}: unknown workload format; expected one of {', '.join(known)}")
    if suffix in _WITH_EXECUTORS and executors is None:
        raise InvalidConfiguration(f"{path}: expected executors, which this format states, got none")
    if suffix == _JOB_SHOP and executors is not None:
        return jobshop.write(path, found, executors, taillard=taillard)
    if taillard or len(found) != 1:
        what = "Taillard's format" if taillard else f"{len(found)} jobs"
        raise InvalidConfiguration(f"{path}: got {what}, expected a {_JOB_SHOP} file, which is a job shop")
    if suffix in _PROJECTS and executors is not None:
        rcpsp.write(path, found[0], executors)
    elif suffix == ".stg":
        return stg.write(path, found[0], reference_speed=tpch.REFERENCE_SPEED)
    else:
        wfformat.write(path, found[0], reference_speed=tpch.REFERENCE_SPEED, executors=executors)
    return ("submission times",) if found[0].submission_time else ()
