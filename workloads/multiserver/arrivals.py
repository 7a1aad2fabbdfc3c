"""How many jobs of each type arrive for each slot, drawn at random."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.workloads.streams import NamedStreams

__all__ = ["bernoulli_arrivals", "periodic_arrivals", "poisson_arrivals"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: numpy draws Poisson numbers up to here.
_LARGEST_MEAN = 1e15


def bernoulli_arrivals(
    num_slots: int, num_ports: int, probability: ArrayLike = 0.7, seed: int | Generator = 0
) -> Booleans:
    """Draw whether a job arrives, independently for each slot and port.

    This is the arrival pattern of arXiv 2305.06572 (section 4, table II). A job that arrives with some probability also
    arrives with any larger one and the same seed, and fewer slots are the beginning of more.

    Parameters
    ----------
    num_slots, num_ports : int
        Size, at least 1 each.
    probability : array_like of float
        Between 0 and 1: one for all ports, or one a port.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.

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
    slots, ports = check_int("num_slots", num_slots, least=1), check_int("num_ports", num_ports, least=1)
    chance = _one_each("probability", probability, ports, 0.0, 1.0)
    drawn: Booleans = NamedStreams(seed)("arrivals").random((slots, ports)) < chance
    return drawn


def poisson_arrivals(num_slots: int, num_ports: int, mean: ArrayLike, seed: int | Generator = 0) -> NDArray[np.int64]:
    """Draw Poisson numbers of jobs, independently for each slot and port.

    For clusters that serve several jobs a port and slot (arXiv 2305.06572, section 3.4), or let jobs wait. Fewer slots
    are the beginning of more.

    Parameters
    ----------
    num_slots, num_ports : int
        Size, at least 1 each.
    mean : array_like of float
        Mean number of jobs in a slot, at least 0: one for all ports, or one a port.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.

    Returns
    -------
    numpy.ndarray of int64, shape (num_slots, num_ports)
        Numbers of jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    slots, ports = check_int("num_slots", num_slots, least=1), check_int("num_ports", num_ports, least=1)
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
    """Draw whether a job arrives, with a probability that goes up and down like day and night.

    In slot t it is ``probability + swing * cos(2 pi (t - peak) / period)``, independently for each slot and port.
    Without a swing these are the `bernoulli_arrivals` of the same seed. Fewer slots are the beginning of more.

    Parameters
    ----------
    num_slots, num_ports : int
        Size, at least 1 each.
    period : float
        Slots from peak to peak, above 0.
    probability : array_like of float
        Mean over a period, between 0 and 1: one for all ports, or one a port.
    swing : array_like of float
        How far the probability goes up and down, at least 0; it has to stay between 0 and 1.
    peak : array_like of float
        A slot in which jobs are most likely, at least 0; one a port has them peak at different times.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.

    Returns
    -------
    numpy.ndarray of bool, shape (num_slots, num_ports)
        Whether a job arrives.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    slots, ports = check_int("num_slots", num_slots, least=1), check_int("num_ports", num_ports, least=1)
    length = check_float("period", period, above=0)
    middle = _one_each("probability", probability, ports, 0.0, 1.0)
    swings = _one_each("swing", swing, ports, 0.0, 1.0)
    peaks = _one_each("peak", peak, ports, 0.0)
    wrong = (middle - swings < -1e-12) | (middle + swings > 1 + 1e-12)
    if wrong.any():
        port = int(wrong.argmax())
        raise InvalidConfiguration(
            f"the probability of port {port} is {middle[port]:g} +- {swings[port]:g}, want it within 0 and 1"
        )
    phase = (np.arange(slots)[:, None] - peaks) / length
    chance = middle + swings * np.cos(2 * math.pi * phase)
    drawn: Booleans = NamedStreams(seed)("arrivals").random((slots, ports)) < chance
    return drawn


def _one_each(name: str, values: ArrayLike, num_ports: int, least: float, most: float = math.inf) -> Floats:
    """Return one number a port, of one for all or one each, within bounds that are included."""
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{name} is not a number or an array of numbers: {error}") from error
    if given.shape not in ((), (num_ports,)):
        raise InvalidConfiguration(
            f"{name} has shape {given.shape}, want one number, or one for each of {num_ports} ports"
        )
    result = np.array(np.broadcast_to(given, num_ports))
    wrong = ~((result >= least) & (result <= most) & np.isfinite(result))
    if wrong.any():
        port = int(wrong.argmax())
        bound = f"of at least {least:g}" if most == math.inf else f"between {least:g} and {most:g}"
        raise InvalidConfiguration(f"{name} of port {port} is {float(result[port])!r}, want a finite number {bound}")
    return result
