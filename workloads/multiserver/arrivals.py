"""Randomly generated arrivals: numbers of jobs of each type per slot."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from desim.checks import MOST_ITEMS, check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.workloads.streams import NamedStreams

__all__ = ["bernoulli_arrivals", "periodic_arrivals", "poisson_arrivals"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: Largest mean for which numpy samples Poisson numbers.
_LARGEST_MEAN = 1e15


def bernoulli_arrivals(
    num_slots: int, num_ports: int, probability: ArrayLike = 0.7, seed: int | Generator = 0
) -> Booleans:
    """Generate for each slot and port, independently, whether a job arrives.

    This is the arrival pattern of arXiv 2305.06572 (section 4, table II). With the same seed, a larger probability only
    adds arrivals, and a run with fewer slots is the beginning of one with more.

    Parameters
    ----------
    num_slots, num_ports : int
        Numbers of slots and ports, >= 1.
    probability : array_like of float
        Probability of an arrival, between 0 and 1: one number for all ports, or one per port.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    numpy.ndarray of bool, shape (num_slots, num_ports)
        Whether a job arrives.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.

    Examples
    --------
    >>> bernoulli_arrivals(4, 3, [0.0, 0.5, 1.0]).shape
    (4, 3)
    """
    slots, ports = _checked(num_slots, num_ports)
    chance = _one_each("probability", probability, ports, 0.0, 1.0)
    drawn: Booleans = NamedStreams(seed)("arrivals").random((slots, ports)) < chance
    return drawn


def poisson_arrivals(num_slots: int, num_ports: int, mean: ArrayLike, seed: int | Generator = 0) -> NDArray[np.int64]:
    """Generate Poisson numbers of arriving jobs, independently for each slot and port.

    For clusters that serve several jobs per port and slot (arXiv 2305.06572, section 3.4), or let jobs wait. A run with
    fewer slots is the beginning of one with more.

    Parameters
    ----------
    num_slots, num_ports : int
        Numbers of slots and ports, >= 1.
    mean : array_like of float
        Mean number of jobs per slot, >= 0: one number for all ports, or one per port.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    numpy.ndarray of int64, shape (num_slots, num_ports)
        Numbers of jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    slots, ports = _checked(num_slots, num_ports)
    means = _one_each("mean", mean, ports, 0.0, _LARGEST_MEAN)
    return NamedStreams(seed)("arrivals").poisson(means, (slots, ports))


def periodic_arrivals(
    num_slots: int,
    num_ports: int,
    period: float,
    probability: ArrayLike = 0.7,
    *,
    swing: ArrayLike = 0.3,
    peak: ArrayLike = 0.0,
    seed: int | Generator = 0,
) -> Booleans:
    """Generate arrivals whose probability rises and falls periodically, such as over a day.

    In slot t the probability is ``probability + swing * cos(2 pi (t - peak) / period)``, independently for each slot
    and port. With swing 0 these are the `bernoulli_arrivals` of the same seed. A run with fewer slots is the beginning
    of one with more.

    Parameters
    ----------
    num_slots, num_ports : int
        Numbers of slots and ports, >= 1.
    period : float
        Slots from one peak to the next, > 0.
    probability : array_like of float
        Mean probability over a period, between 0 and 1: one number for all ports, or one per port.
    swing : array_like of float
        Amplitude of the probability, >= 0; the probability must stay between 0 and 1.
    peak : array_like of float
        Slot of the largest probability, >= 0; one number per port gives ports different peaks.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    numpy.ndarray of bool, shape (num_slots, num_ports)
        Whether a job arrives.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    slots, ports = _checked(num_slots, num_ports)
    length = check_float("period", period, above=0)
    middle = _one_each("probability", probability, ports, 0.0, 1.0)
    swings = _one_each("swing", swing, ports, 0.0, 1.0)
    peaks = _one_each("peak", peak, ports, 0.0)
    wrong = (middle - swings < -1e-12) | (middle + swings > 1 + 1e-12)
    if wrong.any():
        port = int(wrong.argmax())
        raise InvalidConfiguration(
            f"probability of port {port}: got {middle[port]:g} +- {swings[port]:g}, expected a range within 0 to 1"
        )
    phase = (np.arange(slots)[:, None] - peaks) / length
    chance = middle + swings * np.cos(2 * math.pi * phase)
    drawn: Booleans = NamedStreams(seed)("arrivals").random((slots, ports)) < chance
    return drawn


def _one_each(name: str, values: ArrayLike, num_ports: int, least: float, most: float = math.inf) -> Floats:
    """Return one number per port, from one for all or one for each, after checking the inclusive bounds."""
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{name}: expected a number or an array of numbers: {error}") from error
    if given.shape not in ((), (num_ports,)):
        raise InvalidConfiguration(
            f"{name}: got shape {given.shape}, expected one number, or one for each of the {num_ports} ports"
        )
    result = np.array(np.broadcast_to(given, num_ports))
    wrong = ~((result >= least) & (result <= most) & np.isfinite(result))
    if wrong.any():
        port = int(wrong.argmax())
        bound = f">= {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise InvalidConfiguration(
            f"{name} of port {port}: got {float(result[port])!r}, expected a finite number {bound}"
        )
    return result


def _checked(num_slots: int, num_ports: int) -> tuple[int, int]:
    slots = check_int("num_slots", num_slots, least=1, most=MOST_ITEMS)
    return slots, check_int("num_ports", num_ports, least=1, most=MOST_ITEMS)
