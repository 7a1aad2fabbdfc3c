"""When jobs of the problem ``dag`` are submitted: all at once, in a Poisson process, or as in a trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from desim.checks import check_float
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job
from desim.workloads.streams import seed_sequence

__all__ = ["at_times", "batch", "poisson", "poisson_stream", "trace"]

# Part of what a seed means: another value gives other jobs.
_BLOCK = 1024


def batch(jobs: Iterable[Job]) -> list[Job]:
    """Submit all jobs at time 0.

    Parameters
    ----------
    jobs : iterable of Job
        The jobs.

    Returns
    -------
    list of Job
        The same jobs in the same order, numbered from 0.
    """
    return [job.submitted(0.0, job_id=job_id) for job_id, job in enumerate(jobs)]


def poisson(
    jobs: Iterable[Job], mean_interval: float, seed: int | Generator = 0, *, first_at_zero: bool = True
) -> list[Job]:
    """Submit jobs one after the other, at exponential intervals.

    Parameters
    ----------
    jobs : iterable of Job
        The jobs.
    mean_interval : float
        Mean time between two submissions in seconds, above 0; 45 in LACHESIS.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.
    first_at_zero : bool
        Submit the first job at time 0, as in LACHESIS, instead of after an interval.

    Returns
    -------
    list of Job
        The same jobs in the same order, numbered from 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    Luo et al., "Learning to optimize DAG scheduling in heterogeneous environment": the continuous mode.

    Examples
    --------
    >>> jobs = [Job(9, [1.0]), Job(9, [2.0])]
    >>> [(job.job_id, job.submission_time > 0) for job in poisson(jobs, 45.0, 1)]
    [(0, False), (1, True)]
    """
    times = _poisson_times(mean_interval, seed, first_at_zero)
    return [job.submitted(time, job_id=job_id) for job_id, (job, time) in enumerate(zip(jobs, times, strict=False))]


def poisson_stream(
    templates: Sequence[Job], mean_interval: float, seed: int | Generator = 0, *, first_at_zero: bool = True
) -> Iterator[Job]:
    """Submit jobs without end, at exponential intervals.

    Parameters
    ----------
    templates : sequence of Job
        What each job is drawn from, all equally likely.
    mean_interval : float
        Mean time between two submissions in seconds, above 0.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once. The times are those of `poisson` with the same seed.
    first_at_zero : bool
        Submit the first job at time 0 instead of after an interval.

    Returns
    -------
    iterator of Job
        Numbered from 0; it never ends.

    Raises
    ------
    InvalidConfiguration
        At once, if an argument is out of range or there is no template.
    """
    templates = list(templates)
    if not templates:
        raise InvalidConfiguration("templates: there are none, want at least one job")
    sequence = seed_sequence(seed)
    times = _poisson_times(mean_interval, sequence, first_at_zero)
    choices = _choices(len(templates), default_rng(sequence.spawn(1)[0]))
    drawn = zip(times, choices, strict=False)
    return (templates[choice].submitted(time, job_id=job_id) for job_id, (time, choice) in enumerate(drawn))


def at_times(jobs: Iterable[Job], times: Iterable[float]) -> list[Job]:
    """Submit each job at a time of its own.

    Parameters
    ----------
    jobs : iterable of Job
        The jobs.
    times : iterable of float
        As many times in seconds, in ascending order.

    Returns
    -------
    list of Job
        The same jobs in the same order, numbered from 0.

    Raises
    ------
    WorkloadError
        If there are more or fewer times than jobs, one is before the one before it, or is no time from 0 on.
    """
    jobs, clock = list(jobs), _clock(times)
    if len(clock) != len(jobs):
        raise WorkloadError(f"{len(clock)} submission times for {len(jobs)} jobs")
    return [job.submitted(time, job_id=job_id) for job_id, (job, time) in enumerate(zip(jobs, clock, strict=True))]


def trace(jobs: Iterable[Job], source: Iterable[Any], *, from_zero: bool = True) -> list[Job]:
    """Submit jobs at the times of a trace.

    Parameters
    ----------
    jobs : iterable of Job
        The jobs.
    source : iterable
        Where the times are from: jobs of any problem, such as a log that `desim.workloads.swf` has read, or plain
        numbers of seconds. There may be more than jobs.
    from_zero : bool
        Shift the times so that the first job is submitted at time 0.

    Returns
    -------
    list of Job
        The same jobs in the same order, numbered from 0.

    Raises
    ------
    WorkloadError
        If there are fewer times than jobs, one is before the one before it, or is no time from 0 on.
    """
    jobs = list(jobs)
    rows = iter(getattr(source, "jobs", source))
    found = [getattr(row, "submission_time", row) for row, _ in zip(rows, jobs, strict=False)]
    if len(found) < len(jobs):
        raise WorkloadError(f"the trace has {len(found)} submission times for {len(jobs)} jobs")
    clock = _clock(found)
    start = clock[0] if clock and from_zero else 0.0
    return at_times(jobs, [time - start for time in clock])


def _clock(times: Iterable[float]) -> list[float]:
    clock: list[float] = []
    for position, time in enumerate(times):
        known = isinstance(time, int | float | np.integer | np.floating) and not isinstance(time, bool)
        if not known or not 0 <= time < math.inf:
            raise WorkloadError(f"submission time {position} is {time!r}, want a time from 0 on")
        if clock and time < clock[-1]:
            raise WorkloadError(f"submission time {position} is {time!r}, before {clock[-1]!r}, the one before it")
        clock.append(float(time))
    return clock


def _poisson_times(
    mean_interval: float, seed: int | Generator | np.random.SeedSequence, first_at_zero: bool
) -> Iterator[float]:
    mean = check_float("mean_interval", mean_interval, above=0)
    sequence = seed if isinstance(seed, np.random.SeedSequence) else seed_sequence(seed)
    times = chain.from_iterable(_blocks(mean, default_rng(sequence)))
    return chain((0.0,), times) if first_at_zero else times


def _blocks(mean: float, rng: Generator) -> Iterator[list[float]]:
    clock = 0.0
    while True:
        # The clock is carried inside the sum: a stream is the same wherever it is cut.
        block = np.cumsum(np.concatenate(([clock], rng.exponential(mean, _BLOCK))))[1:]
        clock = float(block[-1])
        yield block.tolist()


def _choices(count: int, rng: Generator) -> Iterator[int]:
    while True:
        yield from rng.integers(count, size=_BLOCK).tolist()
