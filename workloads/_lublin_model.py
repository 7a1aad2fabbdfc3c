"""The three random variables of the Lublin-Feitelson model, drawn in blocks of numpy arrays.

Gamma(a, b) has shape a and scale b throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from desim.workloads._columns import Floats

__all__ = ["LONGEST", "LONGEST_GAP", "TYPES", "Block", "Constants", "Exponents", "daily_cycle", "draw", "merge"]

#: Jobs drawn at a time. Part of what a seed means: another value gives other jobs.
BLOCK = 8192
BUCKETS = 48
BUCKET_SECONDS = 1800.0
DAY_SECONDS = BUCKETS * BUCKET_SECONDS
#: Largest logarithms of a run time and of the points between two arrivals; larger draws are repeated.
LONGEST = 12.0
LONGEST_GAP = 13.0
# The gamma density of the daily cycle covers the half hours 11 to 58, that is 5:00 to 5:00
_DAY_START = 11


@dataclass(frozen=True)
class Constants:
    """The constants of one type of jobs, named as in the paper.

    Attributes
    ----------
    serial, pow2 : float
        Shares of all jobs with one node, and with a number of nodes rounded to a power of two.
    ulow : float
        Lower end of the two-stage uniform distribution of log2(nodes).
    uhi_offset, umed_offset : float
        Its upper end below log2 of the machine, and its middle below its upper end.
    uprob : float
        Share of the lower stage.
    a1, b1, a2, b2, pa, pb : float
        Hyper-gamma distribution of ln(run time); the first gamma has probability pa * nodes + pb.
    aarr, barr, arar : float
        Gamma distribution of ln(points between arrivals), of shape aarr * arar.
    anum, bnum : float
        Gamma density of the daily cycle, over half hours.
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
#: The published constants, fitted with 128 nodes: umed and uhi are kept relative to log2 of the machine.
TYPES = {
    "all": Constants(.244, .576, .8, 2.5, 0.0, .86, 4.2, .94, 312.0, .03, -.0054, .78,
                     10.2303, .4871, 8.1737, 3.9631, 1.0225),
    "batch": Constants(.2927, .6686, 1.2, 2.0, 0.0, .875, 6.57, .823, 639.1, .0156, -.003, .6986,
                       6.0415, .8531, 6.1271, 5.2740, 1.0519),
    "interactive": Constants(.1541, .625, 1.0, 2.5, 1.5, .705, 3.8351, .6605, 7.073, .6856, -.0118, .9156,
                             6.5510, .6621, 8.9186, 3.6680, .9797),
}
# fmt: on


class Block(NamedTuple):
    """Consecutive jobs of a workload.

    Attributes
    ----------
    submission_time : array of float
        Seconds since the first midnight, whole, never decreasing.
    cores : array of int
        At least 1.
    run_time : array of float
        Seconds, whole, at least 1.
    """

    submission_time: Floats
    cores: NDArray[np.int64]
    run_time: Floats

    def take(self, rows: slice | NDArray[np.int64]) -> Block:
        """Return the jobs that a slice or an index array selects."""
        return Block(self.submission_time[rows], self.cores[rows], self.run_time[rows])

    def joined(self, other: Block) -> Block:
        """Return these jobs and then those of another block."""
        time, cores, run_time = (np.concatenate(pair) for pair in zip(self, other, strict=True))
        return Block(time, cores, run_time)


class Exponents(NamedTuple):
    """The range of log2(nodes) on a machine: ``low <= middle <= high <= log2(num_cores)``."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, constants: Constants, num_cores: int, umed_offset: float | None) -> Exponents:
        """Return the range for a machine, squeezed where it is too small for the constants."""
        widest = math.log2(num_cores)
        high = max(widest - constants.uhi_offset, min(widest, 1.0))
        low = min(constants.ulow, high)
        offset = constants.umed_offset if umed_offset is None else umed_offset
        return cls(low, max(low, high - offset), high)


def daily_cycle(constants: Constants) -> tuple[Floats, Floats]:
    """Return the map between points and seconds within a day, as the corners of a broken line.

    Passing half hour i of the day costs its weight in points, the mean weight being 1.

    Parameters
    ----------
    constants : Constants
        Of these, `anum` and `bnum`.

    Returns
    -------
    points, seconds : array of shape (49,)
        Both increase from 0, to 48 points and 86,400 s.
    """
    from scipy.special import gammainc

    hours = np.arange(_DAY_START, _DAY_START + BUCKETS)
    edges = gammainc(constants.anum, np.stack([hours - 0.5, hours + 0.5]) / constants.bnum)
    weights = np.empty(BUCKETS)
    weights[(hours - 1) % BUCKETS] = edges[1] - edges[0]
    points: Floats = np.concatenate([[0.0], np.cumsum(weights)])
    return points * (BUCKETS / float(points[-1])), np.linspace(0, DAY_SECONDS, BUCKETS + 1)


def draw(
    constants: Constants, num_cores: int, seeds: Sequence[SeedSequence], umed_offset: float | None
) -> Iterator[Block]:
    """Draw jobs of one type without end.

    Parameters
    ----------
    constants : Constants
        Type of the jobs.
    num_cores : int
        Nodes of the machine.
    seeds : sequence of three SeedSequence
        For the nodes, the run times and the arrivals.
    umed_offset : float or None
        Replaces the constant of that name.

    Yields
    ------
    Block
        The jobs that follow those of the blocks before.
    """
    for_cores, for_times, for_arrivals = (default_rng(seed) for seed in seeds)
    exponents = Exponents.of(constants, num_cores, umed_offset)
    points, seconds = daily_cycle(constants)
    spent = 0.0
    while True:
        cores = _cores(constants, num_cores, exponents, for_cores)
        run_time = _run_time(constants, cores, for_times)
        total = spent + np.cumsum(_points_between(constants, for_arrivals))
        spent = float(total[-1])
        day, point = np.divmod(total, BUCKETS)
        arrival = day * DAY_SECONDS + np.interp(point, points, seconds)
        yield Block(np.floor(arrival), cores, run_time)


def _cores(constants: Constants, num_cores: int, exponents: Exponents, rng: Generator) -> NDArray[np.int64]:
    kind, stage, within = rng.random((3, BLOCK))
    low, middle, high = exponents
    exponent = np.where(stage < constants.uprob, low + (middle - low) * within, middle + (high - middle) * within)
    # Rounding up must not exceed a machine whose size is no power of two itself
    rounded = np.minimum(np.rint(exponent), math.floor(math.log2(num_cores)))
    exponent = np.where(kind < constants.serial + constants.pow2, rounded, exponent)
    cores = np.where(kind < constants.serial, 1.0, np.rint(np.exp2(exponent)))
    return np.clip(cores, 1, num_cores).astype(np.int64)


def _run_time(constants: Constants, cores: NDArray[np.int64], rng: Generator) -> Floats:
    first_share = np.clip(constants.pa * cores + constants.pb, 0, 1)
    logarithm = np.full(len(cores), np.inf)
    while len(again := np.flatnonzero(logarithm > LONGEST)):
        first = rng.random(len(again)) < first_share[again]
        shape = np.where(first, constants.a1, constants.a2)
        logarithm[again] = rng.gamma(shape, np.where(first, constants.b1, constants.b2))
    run_time: Floats = np.floor(np.exp(logarithm))
    return run_time


def _points_between(constants: Constants, rng: Generator) -> Floats:
    logarithm = np.full(BLOCK, np.inf)
    while len(again := np.flatnonzero(logarithm > LONGEST_GAP)):
        logarithm[again] = rng.gamma(constants.aarr * constants.arar, constants.barr, len(again))
    points: Floats = np.exp(logarithm) / BUCKET_SECONDS
    return points


def merge(left: Iterator[Block], right: Iterator[Block]) -> Iterator[Block]:
    """Merge two endless streams by arrival; of two jobs at the same time the left one is first.

    Parameters
    ----------
    left, right : iterator of Block
        Endless.

    Yields
    ------
    Block
        The jobs of both.
    """
    waiting = [next(left), next(right)]
    while True:
        # Everything up to here is known of both streams
        limit = min(block.submission_time[-1] for block in waiting)
        cuts = [int(np.searchsorted(block.submission_time, limit, side="left")) for block in waiting]
        ready = [block.take(slice(cut)) for block, cut in zip(waiting, cuts, strict=True)]
        joined = ready[0].joined(ready[1])
        yield joined.take(np.argsort(joined.submission_time, kind="stable"))
        for at, source in enumerate((left, right)):
            rest = waiting[at].take(slice(cuts[at], None))
            waiting[at] = rest.joined(next(source)) if rest.submission_time[-1] == limit else rest
