"""RCPSP: read and write resource-constrained projects of PSPLIB (``.sm``, ``.mm``) and Patterson's format (``.rcp``).

A project is one job whose nodes hold amounts of several resources while they run, on one pool of these resources. A
file of PSPLIB has a section of the successors of each job, one of durations and demands, and one of capacities. In
``.mm`` files, jobs have several modes, each with a duration and demands. Resources are renewable: files with
non-renewable ones, of which a project may use only so much in all, are refused. Patterson's format is a list of
numbers: those of jobs and resources, the capacities, and for each job its duration, its demands, the number of its
successors and these. Jobs are numbered from 1 in both, and edges have no data.

References: R. Kolisch and A. Sprecher, "PSPLIB - a project scheduling problem library", European Journal of Operational
Research 96(1), 1997. J. H. Patterson, "A comparison of exact approaches for solving the multiple constrained resource,
project scheduling problem", Management Science 30(7), 1984.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.random import Generator

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job, Mode
from desim.reading import suffix_of
from desim.workloads.dag._workflow import Repairs, Task, WorkflowReport, build
from desim.workloads.files import Pathish, plain_number, read_text, write_lines
from desim.workloads.json_fields import LARGEST, short_repr

__all__ = ["generate", "read", "write"]

Project = tuple[Job, Executors]
Row = tuple[int, list[int]]
"""Number of a line, and the numbers in it."""

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_SECTIONS = ("PRECEDENCE RELATIONS", "REQUESTS/DURATIONS", "RESOURCEAVAILABILITIES")
_PATTERSON = ".rcp"
_SEVERAL_MODES = ".mm"


def read(path: Pathish, *, strict: bool = False, report: WorkflowReport | None = None) -> Project:
    """Read a project.

    Parameters
    ----------
    path : str or path-like
        File in Patterson's format if its name ends in ``.rcp``, possibly followed by ``.gz`` and the like; otherwise in
        PSPLIB's.
    strict : bool
        Whether to refuse a project of which something must be changed.
    report : WorkflowReport, optional
        Report to complete: it counts successors that are stated more than once.

    Returns
    -------
    tuple of Job and Executors
        Job 0, submitted at time 0, whose nodes, also the two dummies, are named by their numbers, with the name of the
        file as label; and one pool of speed 1 with the resources ``R1``, ``R2``, ... The work of a node with several
        modes is its shortest duration.

    Raises
    ------
    WorkloadError
        If the file cannot be read or its content is invalid; the message names file and line.
    """
    source, text = str(path), read_text(path)
    parse = _patterson if suffix_of(path) == _PATTERSON else _psplib
    capacities, jobs = parse(source, text)
    names = [f"R{number}" for number in range(1, len(capacities) + 1)]
    tasks, edges = [], []
    for number, (line, requests, successors) in enumerate(jobs, 1):
        where = f"{source}: line {line}"
        wanted = [(float(duration), dict(zip(names, map(float, each), strict=True))) for duration, *each in requests]
        for name, most in zip(names, capacities, strict=True):
            least = min(demands[name] for _, demands in wanted)
            if least > most:
                raise WorkloadError(
                    f"{where}: {name} of job {number}: got {least:g}, expected at most {most}, its capacity"
                )
        if unknown := [child for child in successors if not 0 < child <= len(jobs)]:
            raise WorkloadError(f"{where}: got the successor {unknown[0]}, expected a job from 1 to {len(jobs)}")
        modes = tuple(Mode(*each) for each in wanted) if len(wanted) > 1 else None
        shortest, demands = min(wanted, key=lambda each: each[0])
        tasks.append(Task(str(number), shortest, {}, {}, None if modes else demands, modes))
        edges += [(str(number), str(child)) for child in successors]
    label = Path(os.fspath(path)).name.partition(".")[0]
    if not tasks:
        raise WorkloadError(f"{source}: got no job, expected at least one")
    job = build(source, label, tasks, edges, repairs=Repairs(strict=strict), report=report)
    try:
        pool = _pool(dict(zip(names, capacities, strict=True)))
        job.check_eligible(pool)
        return job, pool
    except (InvalidConfiguration, WorkloadError) as error:
        raise WorkloadError(f"{source}: {error}") from error


def _pool(capacities: dict[str, int]) -> Executors:
    return Executors([1.0], names=["pool"], capacities=[capacities])


def _numbers(where: str, cells: Sequence[str]) -> list[int]:
    """Return integers; raise WorkloadError if something else is among them."""
    wrong = next((cell for cell in cells if not _NUMBER.fullmatch(cell) or int(cell) > LARGEST), None)
    if wrong is not None:
        raise WorkloadError(f"{where}: got {short_repr(wrong)}, expected an integer from 0 to 1e15")
    return list(map(int, cells))


Found = tuple[list[int], list[tuple[int, list[list[int]], list[int]]]]
"""Capacities, and of each job its line, the duration and demands of each of its modes, and its successors."""


def _psplib(source: str, text: str) -> Found:
    """Return what a file of PSPLIB says."""
    relations, requests, availabilities = _sections(source, text)
    capacities, jobs, left = availabilities[0][1], [], iter(requests)
    for job, (row, relation) in enumerate(relations, 1):
        if len(relation) < 3 or relation[0] != job or not relation[1] or relation[2] != len(relation) - 3:
            raise WorkloadError(
                f"{source}: line {row}: got {relation}, expected job {job}, the numbers of its modes and of its "
                "successors, and these"
            )
        modes = []
        for mode in range(1, relation[1] + 1):
            line, request = next(left, (0, []))
            if not request:
                raise WorkloadError(
                    f"{source}: got {len(requests)} rows of {_SECTIONS[1]}, expected one per mode: mode {mode} of job "
                    f"{job} is missing"
                )
            own = request if mode == 1 else [job, *request]
            if len(own) != 3 + len(capacities) or own[:2] != [job, mode]:
                wanted = f"job {job}, mode 1" if mode == 1 else f"mode {mode} of job {job}"
                raise WorkloadError(
                    f"{source}: line {line}: got {request}, expected {wanted}, its duration, and demands for "
                    f"{len(capacities)} resources"
                )
            modes.append((line, own[2:]))
        jobs.append((modes[0][0], [request for _, request in modes], relation[3:]))
    for line, request in left:
        raise WorkloadError(f"{source}: line {line}: got {request}, expected the end after {len(jobs)} jobs")
    return capacities, jobs


def _sections(source: str, text: str) -> list[list[Row]]:
    """Return the rows of each section of a file of PSPLIB."""
    sections: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), 1):
        cells = line.split()
        title = next((name for name in _SECTIONS if line.strip().startswith(name)), None)
        if cells[:1] == ["jobnr."] and {"N", "D"} & set(cells):
            raise WorkloadError(
                f"{source}: line {number}: got non-renewable resources, of which a project may use only so much in "
                "all, expected renewable ones only"
            )
        if title is not None:
            rows = sections.setdefault(title, [])
            if rows:
                raise WorkloadError(f"{source}: line {number}: got {title} again, expected it once")
        elif line.lstrip().startswith("*"):
            rows = []
        elif sections and cells and cells[0][0].isdigit():
            rows.append((number, _numbers(f"{source}: line {number}", cells)))
    if missing := [name for name in _SECTIONS if not sections.get(name)]:
        raise WorkloadError(f"{source}: got no rows of {missing[0]}, expected a project in the format of PSPLIB")
    return [sections[name] for name in _SECTIONS]


def _patterson(source: str, text: str) -> Found:
    """Return what a file of Patterson's format says."""
    cells = [(line, cell) for line, row in enumerate(text.split("\n"), 1) for cell in row.split()]
    place = 0

    def take(count: int, what: str) -> list[int]:
        """Return the next numbers, which are somewhere in the following lines."""
        nonlocal place
        if place + count > len(cells):
            raise WorkloadError(f"{source}: got an end of the file, expected {what}")
        where = f"{source}: line {cells[place][0]}" if count else source
        found = _numbers(where, [cell for _, cell in cells[place : place + count]])
        place += count
        return found

    count, resources = take(2, "the numbers of jobs and resources")
    capacities, jobs = take(resources, f"the capacities of {resources} resources"), []
    for job in range(1, count + 1):
        line = cells[min(place, len(cells) - 1)][0]
        *request, successors = take(resources + 2, f"duration, {resources} demands and successors of job {job}")
        jobs.append((line, [request], take(successors, f"{successors} successors of job {job}")))
    if place < len(cells):
        raise WorkloadError(f"{source}: line {cells[place][0]}: got more numbers, expected the end after {count} jobs")
    return capacities, jobs


def write(path: Pathish, job: Job, pool: Executors) -> None:
    """Write a project so that `read` returns it; the file is written completely or not at all.

    Nodes are written by their numbers in topological order, from 1.

    Parameters
    ----------
    path : str or path-like
        Target file: in Patterson's format if its name ends in ``.rcp``, possibly followed by ``.gz``, otherwise in
        PSPLIB's; a job with modes needs ``.mm``.
    job : Job
        Job to write, with integer run times and demands; all formats know neither data nor other names.
    pool : Executors
        One pool of speed 1.

    Raises
    ------
    WorkloadError
        If the file cannot be written, or the formats cannot hold the job or the pool.
    """
    if pool.num_executors != 1 or pool.speeds[0] != 1.0 or not pool.capacities:
        raise WorkloadError(f"{path}: got {pool!r}, expected one pool of speed 1")
    (capacity,) = pool.capacities
    if job.modes is not None and suffix_of(path) != _SEVERAL_MODES:
        raise WorkloadError(f"{path}: job {job.job_id}: got modes, expected a file whose name ends in {_SEVERAL_MODES}")
    modes = job.modes or [None] * job.num_nodes
    demands = [capacity if each is None else each for each in job.demands or [None] * job.num_nodes]
    plain = [(Mode(time, each),) for time, each in zip(job.work.tolist(), demands, strict=True)]
    chosen = [own if several is None else several for own, several in zip(plain, modes, strict=True)]
    rows = [[[mode.run_time, *(mode.demands.get(name, 0.0) for name in capacity)] for mode in own] for own in chosen]
    numbers = [value for own in rows for row in own for value in row] + list(capacity.values())
    restricted = any(mode.eligible is not None for own in chosen for mode in own)
    wrong = any(value % 1 or value > LARGEST for value in numbers) or restricted
    if wrong or job.run_times is not None or job.parent_size.any():
        raise WorkloadError(
            f"{path}: job {job.job_id}: expected integers up to 1e15 as run times, demands and capacities, no data on "
            "edges, and no run times per executor or modes for some pools"
        )
    if suffix_of(path) == _PATTERSON:
        write_lines(path, _in_patterson(job, [own[0] for own in rows], list(capacity.values())))
    else:
        write_lines(path, _in_psplib(job, rows, list(capacity.values())))


def _text(values: Sequence[float]) -> str:
    return " ".join(f"{plain_number(value):>5}" for value in values)


def _successors(job: Job, node: int) -> list[float]:
    return [float(child + 1) for child in sorted(job.children(node).tolist())]


def _in_patterson(job: Job, rows: list[list[float]], capacities: list[float]) -> Iterator[str]:
    yield _text([job.num_nodes, len(capacities)])
    yield _text(capacities)
    for node, row in enumerate(rows):
        children = _successors(job, node)
        yield _text([*row, len(children), *children])


def _in_psplib(job: Job, rows: list[list[list[float]]], capacities: list[float]) -> Iterator[str]:
    heads = "".join(f"  R {number}" for number in range(1, len(capacities) + 1))
    rule = "*" * 72
    yield rule
    yield f"jobs (incl. supersource/sink ):  {job.num_nodes}"
    yield f"horizon                       :  {plain_number(sum(max(row[0] for row in own) for own in rows))}"
    yield f"RESOURCES\n  - renewable                 :  {len(capacities)}   R"
    yield f"{rule}\n{_SECTIONS[0]}:\njobnr.    #modes  #successors   successors"
    for node in range(job.num_nodes):
        children = _successors(job, node)
        yield _text([node + 1, len(rows[node]), len(children), *children])
    yield f"{rule}\n{_SECTIONS[1]}:\njobnr. mode duration{heads}\n{'-' * 72}"
    for node, own in enumerate(rows):
        for mode, row in enumerate(own, 1):
            yield _text([node + 1, mode, *row]) if mode == 1 else " " * 6 + _text([mode, *row])
    yield f"{rule}\n{_SECTIONS[2]}:\n{heads}\n{_text(capacities)}\n{rule}"


def generate(
    num_jobs: int = 30,
    *,
    resources: int = 4,
    complexity: float = 1.5,
    factor: float = 0.5,
    strength: float = 0.2,
    seed: int | Generator = 0,
) -> Project:
    """Generate a project like those of PSPLIB: durations from 1 to 10, demands from 1 to 10, random precedence.

    Parameters
    ----------
    num_jobs : int
        Number of jobs, to which a dummy at the beginning and one at the end are added.
    resources : int
        Number of resources.
    complexity : float
        Mean number of edges per node, with those of the dummies; at least 1.
    factor : float
        Share of the resources that a job needs, at least one of them, in (0, 1].
    strength : float
        Scarcity of the resources: a capacity is this far between the least that is feasible (0) and the peak of the
        schedule in which each job starts as early as its predecessors allow (1).
    seed : int or numpy.random.Generator
        Seed.

    Returns
    -------
    tuple of Job and Executors
        As of `read`.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range.
    """
    check_int("num_jobs", num_jobs, least=2)
    check_int("resources", resources, least=1)
    check_float("complexity", complexity, least=1)
    check_float("factor", factor, above=0, most=1)
    check_float("strength", strength, least=0, most=1)
    rng = np.random.default_rng(seed)
    last = num_jobs + 1
    parent_of = {node: int(rng.integers(0, node)) for node in range(1, num_jobs + 1)}
    edges = {(parent, node) for node, parent in parent_of.items()}
    edges |= {(node, last) for node in range(num_jobs + 1) if node not in parent_of.values()}
    most = min(round(complexity * (num_jobs + 2)), num_jobs * (num_jobs - 1) // 2 + len(edges))
    for _ in range(100 * num_jobs):
        if len(edges) >= most:
            break
        one, other = sorted(rng.choice(np.arange(1, num_jobs + 1), 2, replace=False).tolist())
        edges.add((one, other))
        edges.discard((one, last))
    durations = np.array([0, *rng.integers(1, 11, num_jobs), 0])
    needs = rng.random((num_jobs, resources)) < factor
    needs[np.arange(num_jobs), rng.integers(resources, size=num_jobs)] = True
    amounts = np.zeros((num_jobs + 2, resources), dtype=np.int64)
    amounts[1:-1] = rng.integers(1, 11, needs.shape) * needs
    start = np.zeros(num_jobs + 2, dtype=np.int64)
    for parent, child in sorted(edges):  # by number of the parent, all of whose predecessors have smaller ones
        start[child] = max(start[child], start[parent] + durations[parent])
    running = (start[:, None] <= start) & (start < (start + durations)[:, None])  # of each job, at each start
    peak = (running[:, :, None] * amounts[:, None, :]).sum(axis=0).max(axis=0)
    least = amounts.max(axis=0)
    capacities = np.maximum(least + np.rint(strength * (peak - least)).astype(np.int64), 1)
    names = [f"R{number}" for number in range(1, resources + 1)]
    demands = [dict(zip(names, map(float, row), strict=True)) for row in amounts.tolist()]
    job = Job(
        0,
        durations.astype(float),
        [(one, other, 0.0) for one, other in sorted(edges)],
        names=[str(number) for number in range(1, num_jobs + 3)],
        demands=demands,
        label=f"generated{num_jobs}",
    )
    return job, _pool(dict(zip(names, capacities.tolist(), strict=True)))
