"""The Lublin-Feitelson model of parallel supercomputer workloads.

A job is serial, or its number of nodes is two to the power of a number sampled from a two-stage uniform
distribution and mostly rounded to an integer. The logarithm of its run time is hyper-gamma, with more weight on
long run times for wide jobs. The logarithm of the interarrival time is gamma, stretched over
the day so that most jobs arrive in working hours. Time 0 is midnight.

We depart from the published generator where it leaves a gap. The middle and the upper end of the
two-stage uniform distribution keep their distance from log2 of the machine's size; the paper gives the
constants of interactive jobs for 128 nodes only. No job is wider than the machine, whose
size need not be a power of two.

Reference: U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the
characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, TypedDict, Unpack, get_args

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from desim.checks import MOST_CORES, MOST_ITEMS, check_choice, check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.workloads.batch.selection import Floats, make_jobs
from desim.workloads.streams import seed_sequence

__all__ = [
    "TYPES",
    "Constants",
    "LublinOptions",
    "core_probabilities",
    "daily_cycle",
    "expected_load",
    "generate",
    "mean_interarrival",
    "mean_work",
    "stream",
]

Model = Literal["all", "batch", "interactive", "two_types"]

#: Number of jobs generated at a time. It belongs to the meaning of a seed: another value gives other jobs.
_BLOCK = 8192
_BUCKETS = 48
_BUCKET_SECONDS = 1800.0
_DAY_SECONDS = _BUCKETS * _BUCKET_SECONDS
#: Largest logarithms of a run time and of the points between two arrivals; larger samples are rejected.
_LONGEST = 12.0
_LONGEST_GAP = 13.0
# The gamma density of the daily cycle covers half hours 11 to 58, that is, from 5:00 to 5:00 the next day
_DAY_START = 11


@dataclass(frozen=True)
class Constants:
    """Constants of one job type, named as in the paper.

    Attributes
    ----------
    serial, pow2 : float
        Shares of all jobs that have one node, and whose number of nodes is rounded to a power of two.
    ulow : float
        Lower end of the two-stage uniform distribution of log2(nodes).
    uhi_offset, umed_offset : float
        Distances of the upper end below log2 of the machine's nodes, and of the middle below the upper end.
    uprob : float
        Probability of the lower stage.
    a1, b1, a2, b2, pa, pb : float
        Parameters of the hyper-gamma distribution of ln(run time); the first gamma has probability pa * nodes + pb.
    aarr, barr, arar : float
        Parameters of the gamma distribution of ln(points between arrivals), with shape aarr * arar.
    anum, bnum : float
        Parameters of the gamma density of the daily cycle, over half hours.
    """

    serial: float
    pow2: float
    ulow: float
    umed_offset: float
    uhi_offset: float
    uprob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float
    barr: float
    anum: float
    bnum: float
    arar: float


# fmt: off
#: The published constants, fitted to 128 nodes; umed and uhi are stored relative to log2 of the machine's nodes.
TYPES = {
    "all": Constants(.244, .576, .8, 2.5, 0.0, .86, 4.2, .94, 312.0, .03, -.0054, .78,
                     10.2303, .4871, 8.1737, 3.9631, 1.0225),
    "batch": Constants(.2927, .6686, 1.2, 2.0, 0.0, .875, 6.57, .823, 639.1, .0156, -.003, .6986,
                       6.0415, .8531, 6.1271, 5.2740, 1.0519),
    "interactive": Constants(.1541, .625, 1.0, 2.5, 1.5, .705, 3.8351, .6605, 7.073, .6856, -.0118, .9156,
                             6.5510, .6621, 8.9186, 3.6680, .9797),
}
# fmt: on


class LublinOptions(TypedDict, total=False):
    """Options of generated workloads, passed to `generate` and `stream` by name.

    Attributes
    ----------
    model : {"all", "batch", "interactive", "two_types"}
        Job types and their constants: all jobs, batch jobs, interactive jobs, or batch and interactive jobs from
        two independent sources, merged by arrival. Default: all.
    load : float, optional
        Target offered load, > 0. Without it, submission times are whole seconds.
    umed_offset : float, optional
        Distance of the middle of the two-stage uniform distribution from its upper end: smaller values make
        wider jobs. The authors allow 1.5 to 3.5. Default: 2.5, and 2 for batch jobs.
    overestimate : float
        Largest ratio of requested time to run time. The ratio is uniform between 1 and this value, and the
        requested time is rounded up to whole seconds. By default, the requested time is the run time.
    num_users : int, optional
        Number of users, numbered from 1; they submit with probabilities proportional to 1 / user_id (Zipf's law).
        By default, all jobs have user_id -1.
    """

    model: Model
    load: float | None
    umed_offset: float | None
    overestimate: float
    num_users: int | None


def generate(num_jobs: int, num_cores: int, seed: int | Generator = 0, **options: Unpack[LublinOptions]) -> list[Job]:
    """Generate a workload as a list, with the same jobs as `stream` for the same arguments.

    Parameters
    ----------
    num_jobs : int
        Number of jobs, >= 1.
    num_cores : int
        Number of nodes of the machine.
    seed : int or numpy.random.Generator
        Seed, see `stream`.
    **options : LublinOptions
        Model, load, requested times and users.

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
        raise InvalidConfiguration("num_jobs: got None, expected an integer >= 1; only stream() can be endless")
    return list(stream(num_jobs, num_cores, seed, **options))


def stream(
    num_jobs: int | None, num_cores: int, seed: int | Generator = 0, **options: Unpack[LublinOptions]
) -> Iterator[Job]:
    """Generate a workload job by job, in constant memory.

    Without `load`, a shorter workload is the beginning of a longer one with the same seed. With
    `load`, all times of a finite workload are stretched by one factor, so that its offered load
    (see `desim.workloads.batch.transform.offered_load`) is exactly `load`; to find the factor, the jobs
    are generated once in advance. The times of an endless workload are stretched by the ratio of `expected_load`
    to `load`, so that the load approaches `load` in the long run. The 24-hour day is stretched as well.

    Parameters
    ----------
    num_jobs : int or None
        Number of jobs, >= 1; None for an endless stream.
    num_cores : int
        Number of nodes of the machine, >= 1.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once. Nodes, run times, arrivals, requested times and
        users have independent random streams, so an option for one changes none of the others.
    **options : LublinOptions
        Model, load, requested times and users.

    Returns
    -------
    iterator of Job
        Sorted by submission time, numbered from 0.

    Raises
    ------
    InvalidConfiguration
        Immediately, if an argument is out of range.
    WorkloadError
        If `load` is given and all jobs arrive in the same second.
    """
    request = _Request(num_jobs, num_cores, **options)
    load = request.load
    entropy = seed_sequence(seed).entropy
    factor = 1.0
    if load is not None and num_jobs is None:
        factor = expected_load(num_cores, model=request.model, umed_offset=request.umed_offset) / load
    elif load is not None:
        factor = _measured_load(request.blocks(SeedSequence(entropy)), num_cores) / load
    *_, estimates, users = SeedSequence(entropy).spawn(8)
    blocks = request.blocks(SeedSequence(entropy))
    return chain.from_iterable(request.finish(blocks, factor, default_rng(estimates), default_rng(users)))


def expected_load(num_cores: int, *, model: Model = "all", umed_offset: float | None = None) -> float:
    """Return the long-run offered load of a model, computed from its exact means.

    Parameters
    ----------
    num_cores : int
        Number of nodes of the machine.
    model : {"all", "batch", "interactive", "two_types"}
        Job types, see `stream`.
    umed_offset : float, optional
        Distance that sets the width of jobs, see `stream`.

    Returns
    -------
    float
        Mean core-seconds of work that arrive per second and core.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    request = _Request(None, num_cores, model, umed_offset=umed_offset)
    arriving = sum(
        mean_work(TYPES[name], num_cores, umed_offset) / mean_interarrival(TYPES[name]) for name in request.types
    )
    return arriving / num_cores


@dataclass(frozen=True)
class _Request:
    """Checked arguments of a workload; the random streams are passed to the methods."""

    num_jobs: int | None
    num_cores: int
    model: Model = "all"
    load: float | None = None
    umed_offset: float | None = None
    overestimate: float = 1.0
    num_users: int | None = None

    def __post_init__(self) -> None:
        """Check every argument."""
        check_choice("model", self.model, get_args(Model))
        check_int("num_cores", self.num_cores, least=1, most=MOST_CORES)
        for name in ("num_jobs", "num_users"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), least=1, most=MOST_ITEMS)
        if self.load is not None:
            check_float("load", self.load, above=0)
            if self.num_jobs == 1:
                raise InvalidConfiguration("num_jobs: got 1 with a load, expected at least 2 jobs to define a load")
        if self.umed_offset is not None:
            check_float("umed_offset", self.umed_offset, least=0)
        check_float("overestimate", self.overestimate, least=1, most=1e6)

    @property
    def types(self) -> tuple[str, ...]:
        """Job types, each an independent source."""
        return ("batch", "interactive") if self.model == "two_types" else (self.model,)

    def blocks(self, seeds: SeedSequence) -> Iterator[_Block]:
        """Generate the jobs, without rescaling."""
        children = seeds.spawn(8)
        sources = [
            _draw(TYPES[name], self.num_cores, children[3 * at : 3 * at + 3], self.umed_offset)
            for at, name in enumerate(self.types)
        ]
        left = math.inf if self.num_jobs is None else self.num_jobs
        for block in _merge(*sources) if len(sources) == 2 else sources[0]:
            if len(block.cores) >= left:
                yield block.take(slice(int(left)))
                return
            left -= len(block.cores)
            yield block

    def finish(
        self, blocks: Iterator[_Block], factor: float, for_estimates: Generator, for_users: Generator
    ) -> Iterator[Iterator[Job]]:
        """Add job ids, requested times and users, and rescale the submission times."""
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
            with np.errstate(over="ignore"):  # the times are checked with the jobs
                submission_time = block.submission_time * factor
            yield make_jobs(
                np.arange(number, number + count),
                submission_time,
                block.cores,
                requested,
                block.run_time,
                user_id=user,
            )
            number += count


def _measured_load(blocks: Iterator[_Block], num_cores: int) -> float:
    work, first, last = 0.0, math.nan, math.nan
    for block in blocks:
        work += float(block.cores @ block.run_time)
        if len(block.cores):
            first = float(block.submission_time[0]) if math.isnan(first) else first
            last = float(block.submission_time[-1])
    if not last > first:
        raise WorkloadError("load cannot be rescaled: all jobs arrive in the same second; try more jobs")
    return work / (num_cores * (last - first))


class _Block(NamedTuple):
    """Consecutive jobs of a workload.

    Attributes
    ----------
    submission_time : array of float
        Seconds since the first midnight, whole and nondecreasing.
    cores : array of int
        Number of nodes, >= 1.
    run_time : array of float
        Run times in whole seconds, >= 1.
    """

    submission_time: Floats
    cores: NDArray[np.int64]
    run_time: Floats

    def take(self, rows: slice | NDArray[np.int64]) -> _Block:
        """Return the jobs that a slice or an index array selects."""
        return _Block(self.submission_time[rows], self.cores[rows], self.run_time[rows])

    def joined(self, other: _Block) -> _Block:
        """Return these jobs followed by those of another block."""
        time, cores, run_time = (np.concatenate(pair) for pair in zip(self, other, strict=True))
        return _Block(time, cores, run_time)


class _Exponents(NamedTuple):
    """Range of log2(nodes) on a machine: ``low <= middle <= high <= log2(num_cores)``."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, constants: Constants, num_cores: int, umed_offset: float | None) -> _Exponents:
        """Return the range for a machine, narrowed if the machine is too small for the constants."""
        widest = math.log2(num_cores)
        high = max(widest - constants.uhi_offset, min(widest, 1.0))
        low = min(constants.ulow, high)
        offset = constants.umed_offset if umed_offset is None else umed_offset
        return cls(low, max(low, high - offset), high)


def daily_cycle(constants: Constants) -> tuple[Floats, Floats]:
    """Return the map between points and seconds within a day, as the vertices of a piecewise linear function.

    Half hour i of the day takes its weight in points; the mean weight is 1.

    Parameters
    ----------
    constants : Constants
        Constants of the job type; only `anum` and `bnum` are used.

    Returns
    -------
    points, seconds : array of shape (49,)
        Increasing arrays that start at 0 and end at 48 points and 86,400 s.
    """
    hours = np.arange(_DAY_START, _DAY_START + _BUCKETS)
    edges = _incomplete_gamma(constants.anum, np.stack([hours - 0.5, hours + 0.5]) / constants.bnum)
    weights = np.empty(_BUCKETS)
    weights[(hours - 1) % _BUCKETS] = edges[1] - edges[0]
    points: Floats = np.concatenate([[0.0], np.cumsum(weights)])
    return points * (_BUCKETS / float(points[-1])), np.linspace(0, _DAY_SECONDS, _BUCKETS + 1)


def _incomplete_gamma(shape: float, x: Floats) -> Floats:
    """Return the lower incomplete gamma function by its power series, which suits x up to a few times the shape.

    Generating jobs needs nothing else of scipy, whose import takes longer than a run of a few hundred jobs.
    """
    term, total, count = np.ones_like(x), np.ones_like(x), 0
    while (term > 1e-17 * total).any():
        count += 1
        term = term * x / (shape + count)
        total += term
    value: Floats = x**shape * np.exp(-x) * total / shape
    return value


def _draw(
    constants: Constants, num_cores: int, seeds: Sequence[SeedSequence], umed_offset: float | None
) -> Iterator[_Block]:
    """Generate jobs of one type endlessly, from seeds for nodes, run times and arrivals."""
    for_cores, for_times, for_arrivals = (default_rng(seed) for seed in seeds)
    exponents = _Exponents.of(constants, num_cores, umed_offset)
    points, seconds = daily_cycle(constants)
    spent = 0.0
    while True:
        cores = _cores(constants, num_cores, exponents, for_cores)
        run_time = _run_time(constants, cores, for_times)
        total = spent + np.cumsum(_points_between(constants, for_arrivals))
        spent = float(total[-1])
        day, point = np.divmod(total, _BUCKETS)
        arrival = day * _DAY_SECONDS + np.interp(point, points, seconds)
        yield _Block(np.floor(arrival), cores, run_time)


def _cores(constants: Constants, num_cores: int, exponents: _Exponents, rng: Generator) -> NDArray[np.int64]:
    kind, stage, within = rng.random((3, _BLOCK))
    low, middle, high = exponents
    exponent = np.where(stage < constants.uprob, low + (middle - low) * within, middle + (high - middle) * within)
    # On a machine whose size is not a power of two, rounding up must not exceed its size
    rounded = np.minimum(np.rint(exponent), math.floor(math.log2(num_cores)))
    exponent = np.where(kind < constants.serial + constants.pow2, rounded, exponent)
    cores = np.where(kind < constants.serial, 1.0, np.rint(np.exp2(exponent)))
    return np.clip(cores, 1, num_cores).astype(np.int64)


def _run_time(constants: Constants, cores: NDArray[np.int64], rng: Generator) -> Floats:
    first_share = np.clip(constants.pa * cores + constants.pb, 0, 1)
    logarithm = np.full(len(cores), np.inf)
    while len(again := np.flatnonzero(logarithm > _LONGEST)):
        first = rng.random(len(again)) < first_share[again]
        shape = np.where(first, constants.a1, constants.a2)
        logarithm[again] = rng.gamma(shape, np.where(first, constants.b1, constants.b2))
    run_time: Floats = np.floor(np.exp(logarithm))
    return run_time


def _points_between(constants: Constants, rng: Generator) -> Floats:
    logarithm = np.full(_BLOCK, np.inf)
    while len(again := np.flatnonzero(logarithm > _LONGEST_GAP)):
        logarithm[again] = rng.gamma(constants.aarr * constants.arar, constants.barr, len(again))
    points: Floats = np.exp(logarithm) / _BUCKET_SECONDS
    return points


def _merge(left: Iterator[_Block], right: Iterator[_Block]) -> Iterator[_Block]:
    """Merge two endless streams by arrival; of two jobs that arrive together, the left one comes first."""
    waiting = [next(left), next(right)]
    while True:
        # Both streams are complete before this time
        limit = min(block.submission_time[-1] for block in waiting)
        cuts = [int(np.searchsorted(block.submission_time, limit, side="left")) for block in waiting]
        ready = [block.take(slice(cut)) for block, cut in zip(waiting, cuts, strict=True)]
        joined = ready[0].joined(ready[1])
        yield joined.take(np.argsort(joined.submission_time, kind="stable"))
        for at, source in enumerate((left, right)):
            rest = waiting[at].take(slice(cuts[at], None))
            waiting[at] = rest.joined(next(source)) if rest.submission_time[-1] == limit else rest


def core_probabilities(constants: Constants, num_cores: int, umed_offset: float | None) -> Floats:
    """Return the probability of each number of nodes.

    Parameters
    ----------
    constants : Constants
        Constants of the job type.
    num_cores : int
        Number of nodes of the machine.
    umed_offset : float or None
        Value that replaces the constant of that name.

    Returns
    -------
    array of shape (num_cores + 1,)
        Entry n is the probability of n nodes; the entries sum to 1.
    """
    low, middle, high = _Exponents.of(constants, num_cores, umed_offset)

    def _below(exponent: Floats) -> Floats:
        lower, upper = _ramp(exponent, low, middle), _ramp(exponent, middle, high)
        return constants.uprob * lower + (1 - constants.uprob) * upper

    free = np.diff(_below(np.concatenate([[-np.inf], np.log2(np.arange(1, num_cores) + 0.5), [np.inf]])))
    powers = np.arange(math.floor(math.log2(num_cores)) + 1)
    rounded = np.diff(_below(np.concatenate([[-np.inf], powers[:-1] + 0.5, [np.inf]])))
    probability = np.zeros(num_cores + 1)
    probability[1:] = (1 - constants.serial - constants.pow2) * free
    probability[2**powers] += constants.pow2 * rounded
    probability[1] += constants.serial
    return probability


def _ramp(value: Floats, start: float, end: float) -> Floats:
    """Return the distribution function of a uniform variable, or of a constant if start = end."""
    if start == end:
        return (value >= start).astype(np.float64)
    return np.clip((value - start) / (end - start), 0, 1)


def _run_times_by_cores(constants: Constants, num_cores: int) -> Floats:
    """Return the mean run time of jobs with n nodes, in seconds, at index n."""
    from scipy.special import gammainc

    # E[floor(Y); Y <= y] is the sum over k >= 1 of P(k <= Y <= y)
    logs = np.log(np.arange(1, math.floor(math.exp(_LONGEST)) + 1))
    inside, total = [], []
    for shape, scale in ((constants.a1, constants.b1), (constants.a2, constants.b2)):
        accepted = float(gammainc(shape, _LONGEST / scale))
        inside.append(accepted)
        total.append(float(np.sum(accepted - gammainc(shape, logs / scale))))
    first = np.clip(constants.pa * np.arange(num_cores + 1) + constants.pb, 0, 1)
    means: Floats = (first * total[0] + (1 - first) * total[1]) / (first * inside[0] + (1 - first) * inside[1])
    return means


def mean_work(constants: Constants, num_cores: int, umed_offset: float | None) -> float:
    """Return the mean work of a job (cores times run time), in core-seconds."""
    probability = core_probabilities(constants, num_cores, umed_offset)
    return float(probability @ (np.arange(num_cores + 1) * _run_times_by_cores(constants, num_cores)))


def mean_interarrival(constants: Constants) -> float:
    """Return the long-run mean interarrival time in seconds.

    For x with distribution gamma(a, b), b < 1, the mean of exp(x) restricted to x <= c is
    (1 - b)^-a times the probability that a gamma(a, b / (1 - b)) variable is at most c.

    Parameters
    ----------
    constants : object
        Constants of the job type.
    """
    from scipy.special import gammainc

    shape, scale = constants.aarr * constants.arar, constants.barr
    tilted = gammainc(shape, _LONGEST_GAP * (1 - scale) / scale)
    return float((1 - scale) ** -shape * tilted / gammainc(shape, _LONGEST_GAP / scale))
