"""The Lublin-Feitelson model of the workload of parallel supercomputers.

A job is serial, or its number of nodes is 2 to a power drawn from a two-stage uniform distribution,
mostly rounded to a whole power. The logarithm of its run time is hyper-gamma, with more weight on
long run times for wide jobs. The logarithm of the time between arrivals is gamma, stretched over
the day so that most jobs arrive in working hours. Time 0 is midnight.

Departures from the published generator, where it leaves a gap: the middle and the upper end of the
two-stage uniform distribution keep their distance from log2 of the machine's size, for which the
constants of interactive jobs were given at 128 nodes only; no job is wider than the machine, whose
size need not be a power of two.

Reference: U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the
characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.workloads._columns import make_jobs
from desim.workloads._lublin_means import mean_interarrival, mean_work
from desim.workloads._lublin_model import TYPES, Block, draw, merge
from desim.workloads._seeds import seed_sequence

__all__ = ["expected_load", "generate", "stream"]

Model = Literal["all", "batch", "interactive", "two_types"]


def generate(
    num_jobs: int,
    num_cores: int,
    seed: int | Generator = 0,
    *,
    model: Model = "all",
    load: float | None = None,
    umed_offset: float | None = None,
    overestimate: float = 1.0,
    num_users: int | None = None,
) -> list[Job]:
    """Generate a workload as a list: the very jobs of `stream` with the same arguments.

    Parameters
    ----------
    num_jobs : int
        Number of jobs, at least 1.
    num_cores : int
        Nodes of the machine.
    seed : int or numpy.random.Generator
        As for `stream`, like the following.
    model : {"all", "batch", "interactive", "two_types"}
        The constants.
    load : float, optional
        The wanted offered load.
    umed_offset : float, optional
        Less makes wider jobs.
    overestimate : float
        Largest ratio of requested to actual run time.
    num_users : int, optional
        Number of users.

    Returns
    -------
    list of Job
        Sorted by submission time, numbered from 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Examples
    --------
    >>> jobs = generate(1000, 256, seed=1, load=0.8)
    >>> len(jobs), max(job.requested_cores for job in jobs) <= 256
    (1000, True)
    """
    if num_jobs is None:
        raise InvalidConfiguration("num_jobs is None, want a number; only stream() goes on without end")
    return list(
        stream(
            num_jobs,
            num_cores,
            seed,
            model=model,
            load=load,
            umed_offset=umed_offset,
            overestimate=overestimate,
            num_users=num_users,
        )
    )


def stream(
    num_jobs: int | None,
    num_cores: int,
    seed: int | Generator = 0,
    *,
    model: Model = "all",
    load: float | None = None,
    umed_offset: float | None = None,
    overestimate: float = 1.0,
    num_users: int | None = None,
) -> Iterator[Job]:
    """Generate a workload job by job, in constant memory.

    Without `load`, a shorter workload is the beginning of a longer one with the same seed. With
    `load`, the times of a finite workload are stretched by one factor, found by drawing the jobs
    once in advance, so that the offered load of the whole (see `desim.workloads.transform.offered_load`)
    is exactly as wanted; the times of an endless one are stretched by the ratio of `expected_load`
    to `load`, so that the load is as wanted in the long run. The day of 24 hours is stretched too.

    Parameters
    ----------
    num_jobs : int or None
        Number of jobs, at least 1; None goes on without end.
    num_cores : int
        Nodes of the machine, at least 1.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once. Nodes, run times, arrivals, estimates and
        users have random streams of their own: an option for one changes none of the others.
    model : {"all", "batch", "interactive", "two_types"}
        The constants: all jobs, batch jobs, interactive jobs, or batch and interactive jobs from
        two independent sources, merged by arrival.
    load : float, optional
        The wanted offered load, above 0. Without it, submission times are whole seconds.
    umed_offset : float, optional
        Distance of the middle of the two-stage uniform distribution from its upper end: less makes
        wider jobs. The authors allow 1.5 to 3.5; by default 2.5, for batch jobs 2.
    overestimate : float
        Largest ratio of requested to actual run time. The ratio is uniform between 1 and this, the
        requested time rounded up to whole seconds. By default requests are exact.
    num_users : int, optional
        Number of users, who submit with a probability proportional to 1 / user_id (Zipf's law),
        numbered from 1. By default all jobs have user_id -1.

    Returns
    -------
    iterator of Job
        Sorted by submission time, numbered from 0.

    Raises
    ------
    InvalidConfiguration
        At once, if an argument is out of range.
    WorkloadError
        If `load` is asked for and all jobs arrive in the same second.
    """
    request = _Request(num_jobs, num_cores, model, load, umed_offset, overestimate, num_users)
    entropy = seed_sequence(seed).entropy
    factor = 1.0
    if load is not None and num_jobs is None:
        factor = expected_load(num_cores, model=model, umed_offset=umed_offset) / load
    elif load is not None:
        factor = _measured_load(request.blocks(SeedSequence(entropy)), num_cores) / load
    *_, estimates, users = SeedSequence(entropy).spawn(8)
    blocks = request.blocks(SeedSequence(entropy))
    return chain.from_iterable(request.finish(blocks, factor, default_rng(estimates), default_rng(users)))


def expected_load(num_cores: int, *, model: Model = "all", umed_offset: float | None = None) -> float:
    """Return the offered load that a model tends to in the long run, from the exact means.

    Parameters
    ----------
    num_cores : int
        Nodes of the machine.
    model : {"all", "batch", "interactive", "two_types"}
        As for `stream`.
    umed_offset : float, optional
        As for `stream`.

    Returns
    -------
    float
        Mean core-seconds that arrive in a second for each core.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    request = _Request(None, num_cores, model, None, umed_offset, 1.0, None)
    arriving = sum(
        mean_work(TYPES[name], num_cores, umed_offset) / mean_interarrival(TYPES[name]) for name in request.types
    )
    return arriving / num_cores


@dataclass(frozen=True)
class _Request:
    """What is asked for, checked; the random streams come with the calls."""

    num_jobs: int | None
    num_cores: int
    model: Model
    load: float | None
    umed_offset: float | None
    overestimate: float
    num_users: int | None

    def __post_init__(self) -> None:
        if self.model not in get_args(Model):
            raise InvalidConfiguration(f"model is {self.model!r}, want one of {get_args(Model)}")
        for name in ("num_jobs", "num_cores", "num_users"):
            count = getattr(self, name)
            if count is not None and not (count >= 1 and count == int(count)):
                raise InvalidConfiguration(f"{name} is {count!r}, want a whole number of at least 1")
        if self.load is not None and not 0 < self.load < math.inf:
            raise InvalidConfiguration(f"load is {self.load!r}, want a finite number above 0")
        if self.load is not None and self.num_jobs == 1:
            raise InvalidConfiguration("load is given for a single job, want num_jobs of at least 2")
        if self.umed_offset is not None and not 0 <= self.umed_offset < math.inf:
            raise InvalidConfiguration(f"umed_offset is {self.umed_offset!r}, want a finite number of at least 0")
        if not 1 <= self.overestimate < math.inf:
            raise InvalidConfiguration(f"overestimate is {self.overestimate!r}, want a finite ratio of at least 1")

    @property
    def types(self) -> tuple[str, ...]:
        return ("batch", "interactive") if self.model == "two_types" else (self.model,)

    def blocks(self, seeds: SeedSequence) -> Iterator[Block]:
        """Draw the jobs, not rescaled."""
        children = seeds.spawn(8)
        sources = [
            draw(TYPES[name], self.num_cores, children[3 * at : 3 * at + 3], self.umed_offset)
            for at, name in enumerate(self.types)
        ]
        left = math.inf if self.num_jobs is None else self.num_jobs
        for block in merge(*sources) if len(sources) == 2 else sources[0]:
            if len(block.cores) >= left:
                yield block.take(slice(int(left)))
                return
            left -= len(block.cores)
            yield block

    def finish(
        self, blocks: Iterator[Block], factor: float, for_estimates: Generator, for_users: Generator
    ) -> Iterator[Iterator[Job]]:
        """Add numbers, requested times and users, and rescale the submission times."""
        shares = np.cumsum(1 / np.arange(1, (self.num_users or 1) + 1))
        number = 0
        for block in blocks:
            count = len(block.cores)
            requested = block.run_time
            if self.overestimate > 1:
                ratio = 1 + (self.overestimate - 1) * for_estimates.random(count)
                requested = np.ceil(block.run_time * ratio)
            user = np.full(count, -1)
            if self.num_users is not None:
                user = 1 + np.searchsorted(shares[:-1], for_users.random(count) * shares[-1], side="right")
            yield make_jobs(
                np.arange(number, number + count),
                block.submission_time * factor,
                block.cores,
                requested,
                block.run_time,
                user_id=user,
            )
            number += count


def _measured_load(blocks: Iterator[Block], num_cores: int) -> float:
    work, first, last = 0.0, math.nan, math.nan
    for block in blocks:
        work += float(block.cores @ block.run_time)
        if len(block.cores):
            first = float(block.submission_time[0]) if math.isnan(first) else first
            last = float(block.submission_time[-1])
    if not last > first:
        raise WorkloadError("all jobs arrive in the same second, so that their load cannot be rescaled")
    return work / (num_cores * (last - first))
