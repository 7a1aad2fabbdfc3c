"""Submission times of DAG jobs: all at time 0, a Poisson process, given times, or those of a trace."""

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

# The block size belongs to the meaning of a seed: another value gives other jobs
_BLOCK = 1024


def batch(jobs: Iterable[Job]) -> list[Job]:
    """Submit all jobs at time 0.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs to submit.

    Returns
    -------
    list of Job
        Jobs in the same order, numbered from 0.
    """
    return [job.submitted(0.0, job_id=job_id) for job_id, job in enumerate(jobs)]


def poisson(
    jobs: Iterable[Job], mean_interval: float, seed: int | Generator = 0, *, first_at_zero: bool = True
) -> list[Job]:
    """Submit jobs in order, at exponential intervals.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs to submit.
    mean_interval : float
        Mean time between submissions in seconds, > 0; 45 in LACHESIS.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.
    first_at_zero : bool
        Whether the first job is submitted at time 0, as in LACHESIS, or after one interval.

    Returns
    -------
    list of Job
        Jobs in the same order, numbered from 0.

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
    """Submit jobs endlessly, at exponential intervals.

    Parameters
    ----------
    templates : sequence of Job
        Jobs from which each submitted job is sampled, all equally likely.
    mean_interval : float
        Mean time between submissions in seconds, > 0.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once. The times equal those of `poisson` with this seed.
    first_at_zero : bool
        Whether the first job is submitted at time 0, or after one interval.

    Returns
    -------
    iterator of Job
        Endless stream of jobs, numbered from 0.

    Raises
    ------
    InvalidConfiguration
        Immediately, if an argument is out of range or there is no template.
    """
    templates = list(templates)
    if not templates:
        raise InvalidConfiguration("templates: got an empty sequence, expected at least one job")
    sequence = seed_sequence(seed)
    times = _poisson_times(mean_interval, sequence, first_at_zero)
    choices = _choices(len(templates), default_rng(sequence.spawn(1)[0]))
    drawn = zip(times, choices, strict=False)
    return (templates[choice].submitted(time, job_id=job_id) for job_id, (time, choice) in enumerate(drawn))


def at_times(jobs: Iterable[Job], times: Iterable[float]) -> list[Job]:
    """Submit each job at a given time.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs to submit.
    times : iterable of float
        Submission times in seconds, one per job, in ascending order.

    Returns
    -------
    list of Job
        Jobs in the same order, numbered from 0.

    Raises
    ------
    WorkloadError
        If the numbers of times and jobs differ, a time is negative or not finite, or times are not ascending.
    """
    jobs, clock = list(jobs), _clock(times)
    if len(clock) != len(jobs):
        raise WorkloadError(f"times: got {len(clock)} submission times, expected {len(jobs)}, one per job")
    return [job.submitted(time, job_id=job_id) for job_id, (job, time) in enumerate(zip(jobs, clock, strict=True))]


def trace(jobs: Iterable[Job], source: Iterable[Any], *, from_zero: bool = True) -> list[Job]:
    """Submit jobs at the times of a trace.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs to submit.
    source : iterable
        Source of the times: jobs of any problem, such as a log read by `desim.workloads.swf`, or numbers of
        seconds. It may have more times than there are jobs.
    from_zero : bool
        Whether to shift the times so that the first job is submitted at time 0.

    Returns
    -------
    list of Job
        Jobs in the same order, numbered from 0.

    Raises
    ------
    WorkloadError
        If there are fewer times than jobs, a time is negative or not finite, or times are not ascending.
    """
    jobs = list(jobs)
    rows = iter(getattr(source, "jobs", source))
    found = [getattr(row, "submission_time", row) for row, _ in zip(rows, jobs, strict=False)]
    if len(found) < len(jobs):
        raise WorkloadError(f"source: got {len(found)} submission times, expected at least {len(jobs)}, one per job")
    clock = _clock(found)
    start = clock[0] if clock and from_zero else 0.0
    return at_times(jobs, [time - start for time in clock])


def _clock(times: Iterable[float]) -> list[float]:
    clock: list[float] = []
    for position, time in enumerate(times):
        known = isinstance(time, int | float | np.integer | np.floating) and not isinstance(time, bool)
        if not known or not 0 <= time < math.inf:
            raise WorkloadError(f"submission time {position}: got {time!r}, expected a finite number >= 0")
        if clock and time < clock[-1]:
            raise WorkloadError(
                f"submission time {position}: got {time!r}, expected at least the previous time {clock[-1]!r}"
            )
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
        # Summing from the clock on gives the same times whatever the block size
        block = np.cumsum(np.concatenate(([clock], rng.exponential(mean, _BLOCK))))[1:]
        clock = float(block[-1])
        yield block.tolist()


def _choices(count: int, rng: Generator) -> Iterator[int]:
    while True:
        yield from rng.integers(count, size=_BLOCK).tolist()
