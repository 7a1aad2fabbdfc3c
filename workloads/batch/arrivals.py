"""Streams of jobs with Poisson arrivals, such as M/M/c, M/D/c and M/G/c, for queueing theory and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float, check_int
from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job
from desim.workloads.batch.selection import make_jobs
from desim.workloads.json_fields import LARGEST
from desim.workloads.streams import seed_sequence

__all__ = ["constant", "exponential", "poisson_jobs"]

#: Function of a generator and a count that samples an array of that length.
Sampler = Callable[[Generator, int], ArrayLike]

# The block size belongs to the meaning of a seed: another value gives other jobs
_BLOCK = 4096


def exponential(mean: float) -> Sampler:
    """Return a sampler of exponentially distributed times.

    Parameters
    ----------
    mean : float
        Mean time in seconds, > 0.

    Returns
    -------
    callable
        Sampler to be used as `service` of `poisson_jobs`.

    Raises
    ------
    InvalidConfiguration
        If `mean` is not positive and finite.
    """
    check_float("mean", mean, above=0)
    return lambda rng, count: rng.exponential(mean, count)


def constant(value: float) -> Sampler:
    """Return a sampler whose samples all have the same value.

    Parameters
    ----------
    value : float
        Value, >= 0.

    Returns
    -------
    callable
        Sampler to be used as `service` or `cores` of `poisson_jobs`.

    Raises
    ------
    InvalidConfiguration
        If `value` is negative or not finite.
    """
    check_float("value", value, least=0)
    return lambda rng, count: np.full(count, value)


def poisson_jobs(
    num_jobs: int | None,
    *,
    arrival_rate: float,
    service: Sampler,
    cores: int | Sampler = 1,
    seed: int | Generator = 0,
) -> Iterator[Job]:
    """Generate jobs that arrive in a Poisson process, in constant memory.

    Arrivals, run times and cores have independent random streams, and a shorter workload is the
    beginning of a longer one.

    Parameters
    ----------
    num_jobs : int or None
        Number of jobs, >= 1; None for an endless stream.
    arrival_rate : float
        Mean number of arrivals per second, > 0.
    service : callable
        Sampler of run times: ``service(rng, count)`` returns `count` run times in seconds. `exponential` gives
        M/M/c, `constant` M/D/c. The requested time of a job is its run time.
    cores : int or callable
        Number of cores of every job, or a sampler of it.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    iterator of Job
        Jobs numbered from 0; the time from 0 to the first arrival is exponential, too.

    Raises
    ------
    InvalidConfiguration
        Immediately, if an argument is out of range.
    WorkloadError
        While iterating, if a sampler returns an invalid run time or number of cores.

    Examples
    --------
    >>> jobs = list(poisson_jobs(3, arrival_rate=0.5, service=constant(2.0), cores=4))
    >>> [job.run_time for job in jobs], jobs[0].requested_cores
    ([2.0, 2.0, 2.0], 4)
    """
    if num_jobs is not None:
        check_int("num_jobs", num_jobs, least=1)
    check_float("arrival_rate", arrival_rate, above=0)
    if not callable(cores):
        cores = constant(check_int("cores", cores, least=1))
    generators = [default_rng(child) for child in seed_sequence(seed).spawn(3)]
    return chain.from_iterable(_blocks(num_jobs, arrival_rate, service, cores, generators))


def _blocks(
    num_jobs: int | None, arrival_rate: float, service: Sampler, cores: Sampler, generators: list[Generator]
) -> Iterator[Iterator[Job]]:
    for_arrivals, for_service, for_cores = generators
    number, clock = 0, 0.0
    while num_jobs is None or number < num_jobs:
        count = _BLOCK if num_jobs is None else min(_BLOCK, num_jobs - number)
        arrival = clock + np.cumsum(for_arrivals.exponential(1 / arrival_rate, _BLOCK))
        run_time = _drawn("service", service, for_service, 0)
        wide = _drawn("cores", cores, for_cores, 1)
        if (wide % 1).any():
            raise WorkloadError(f"cores: got {float(wide[wide % 1 != 0][0])!r} from the sampler, expected integers")
        clock = float(arrival[-1])
        yield make_jobs(
            np.arange(number, number + count),
            arrival[:count],
            wide[:count],
            run_time[:count],
            run_time[:count],
            user_id=np.full(count, -1),
        )
        number += count


def _drawn(name: str, sampler: Sampler, rng: Generator, least: float) -> NDArray[np.float64]:
    values = np.asarray(sampler(rng, _BLOCK), dtype=np.float64)
    if values.shape != (_BLOCK,):
        raise WorkloadError(
            f"{name}: got an array of shape {values.shape} from the sampler, expected shape ({_BLOCK},)"
        )
    odd = values[~((values >= least) & (values <= LARGEST))]
    if len(odd):
        raise WorkloadError(
            f"{name}: got {float(odd[0])!r} from the sampler, expected numbers from {least} to {LARGEST:g}"
        )
    return values
