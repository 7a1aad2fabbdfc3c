"""Sets of executors for the problem ``dag``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.executors import Executors
from desim.workloads.streams import NamedStreams

__all__ = ["SPEEDS", "heterogeneous", "homogeneous", "racks"]

#: Speeds of LACHESIS' executors in GHz: 2.1 to 3.6 in steps of 0.1, each equally likely.
SPEEDS = tuple(tenths / 10 for tenths in range(21, 37))

#: Largest number of executors: tables of all pairs have 100 million entries.
MOST_EXECUTORS = 10_000

Floats = NDArray[np.float64]


def heterogeneous(
    num_executors: int = 50,
    *,
    speeds: Sequence[float] = SPEEDS,
    transfer_speed: float | tuple[float, float] = 1.0,
    latency: float | tuple[float, float] = 0.0,
    seed: int | Generator = 0,
) -> Executors:
    """Generate executors of different speeds, as in LACHESIS.

    Parameters
    ----------
    num_executors : int
        Number of executors.
    speeds : sequence of float
        Speeds to sample from, each equally likely.
    transfer_speed : float or (float, float)
        Units of data per second between all pairs of executors, or bounds of a uniform distribution from which each
        pair gets one value for both directions.
    latency : float or (float, float)
        Seconds before the first unit of data arrives, one value or bounds as for `transfer_speed`.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once. Speeds, transfer speeds and latencies have independent
        random streams.

    Returns
    -------
    Executors
        Executors; with the same seed, a smaller set has the speeds of the first executors of a larger one.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Notes
    -----
    Luo et al., "Learning to optimize DAG scheduling in heterogeneous environment": 50 executors, equal transfer
    speeds.

    Examples
    --------
    >>> heterogeneous(seed=1)
    Executors(50, speeds 2.1 to 3.6)
    """
    count = check_int("num_executors", num_executors, least=1, most=MOST_EXECUTORS)
    streams = NamedStreams(seed)
    choices = _speeds(speeds)
    return Executors(
        choices[streams("executors.speeds").integers(len(choices), size=count)],
        _between_pairs("transfer_speed", transfer_speed, count, streams("executors.transfer_speeds")),
        _between_pairs("latency", latency, count, streams("executors.latencies")),
    )


def homogeneous(
    num_executors: int, *, speed: float = 1.0, transfer_speed: float = 1.0, latency: float = 0.0
) -> Executors:
    """Return identical executors.

    Parameters
    ----------
    num_executors : int
        Number of executors.
    speed : float
        Speed of each executor, in units of work per second.
    transfer_speed : float
        Units of data per second between all pairs; infinity for no delay.
    latency : float
        Seconds before the first unit of data arrives.

    Returns
    -------
    Executors
        Executors with equal speeds.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    return Executors(
        [speed] * check_int("num_executors", num_executors, least=1, most=MOST_EXECUTORS), transfer_speed, latency
    )


def racks(
    num_racks: int,
    per_rack: int,
    *,
    within: float = 10.0,
    between: float = 1.0,
    latency_within: float = 0.0,
    latency_between: float = 0.0,
    speeds: Sequence[float] = SPEEDS,
    seed: int | Generator = 0,
) -> Executors:
    """Generate executors in racks: data moves faster within a rack than between racks.

    Parameters
    ----------
    num_racks : int
        Number of racks.
    per_rack : int
        Number of executors per rack.
    within, between : float
        Units of data per second between two executors of the same rack, and of different racks.
    latency_within, latency_between : float
        Seconds before the first unit of data arrives, within a rack and between racks.
    speeds : sequence of float
        Speeds to sample from, each equally likely; one speed for identical executors.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once. Speeds equal those of `heterogeneous` with this seed.

    Returns
    -------
    Executors
        Executors rack by rack, with names such as ``rack0.executor3``.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Examples
    --------
    >>> racks(2, 2, speeds=[1.0]).transfer_speeds[0].tolist()
    [inf, 10.0, 1.0, 1.0]
    """
    num_racks, per_rack = check_int("num_racks", num_racks, least=1), check_int("per_rack", per_rack, least=1)
    rack = np.repeat(np.arange(num_racks), per_rack)
    same = rack[:, None] == rack
    choices = _speeds(speeds)
    return Executors(
        choices[NamedStreams(seed)("executors.speeds").integers(len(choices), size=len(rack))],
        np.where(same, within, between),
        np.where(same, latency_within, latency_between),
        names=[f"rack{place}.executor{index}" for place in range(num_racks) for index in range(per_rack)],
    )


def _speeds(speeds: Sequence[float]) -> Floats:
    try:
        choices = np.array(speeds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"speeds: got {speeds!r}, expected numbers ({error})") from error
    if choices.ndim != 1 or not len(choices) or not ((choices > 0) & (choices < np.inf)).all():
        raise InvalidConfiguration(f"speeds: got {speeds!r}, expected at least one finite number > 0")
    return choices


def _between_pairs(name: str, value: float | tuple[float, float], count: int, rng: Generator) -> float | Floats:
    """Return one value for all pairs, or a symmetric table of values sampled between two bounds."""
    if not isinstance(value, tuple | list):
        return value
    if len(value) != 2 or check_float(name, value[0], least=0) > check_float(name, value[1], least=0):
        raise InvalidConfiguration(f"{name}: got {value!r}, expected a number, or two bounds in ascending order")
    upper = np.triu(rng.uniform(value[0], value[1], (count, count)), 1)
    table: Floats = upper + upper.T
    return table
