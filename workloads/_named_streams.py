"""Random streams by name, and checks of the arguments of generators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.workloads._seeds import seed_sequence

__all__ = ["NamedStreams", "interval", "number", "one_each", "whole_number"]

Floats = NDArray[np.float64]


class NamedStreams:
    """Independent generators, one a name, so that drawing more from one changes none of the others.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        See :func:`desim.workloads._seeds.seed_sequence`.
    """

    def __init__(self, seed: int | Generator) -> None:
        self._entropy = seed_sequence(seed).entropy

    def __call__(self, name: str) -> Generator:
        """Return a new generator: the same one for the same seed and name."""
        return default_rng(SeedSequence(self._entropy, spawn_key=tuple(f"workloads.{name}".encode())))


def whole_number(name: str, value: Any) -> int:
    """Return a count, or raise InvalidConfiguration unless it is a whole number of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise InvalidConfiguration(f"{name} is {value!r}, want a whole number of at least 1")
    return int(value)


def number(name: str, value: Any, least: float = 0.0, *, above: bool = False) -> float:
    """Return a finite number.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : object
        What was given for it.
    least : float
        The smallest number that is allowed.
    above : bool
        Whether that number itself is not.

    Returns
    -------
    float
        The number.

    Raises
    ------
    InvalidConfiguration
        If it is none, or out of range.
    """
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not known or not least <= value < math.inf or (above and value == least):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        raise InvalidConfiguration(f"{name} is {value!r}, want a finite number {bound}")
    return float(value)


def interval(name: str, value: Any, *, above: bool = False) -> tuple[float, float]:
    """Return the ends of a range of numbers of at least 0.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : object
        What was given for it.
    above : bool
        Whether 0 itself is not allowed.

    Returns
    -------
    tuple of two floats
        The lower and the upper end.

    Raises
    ------
    InvalidConfiguration
        If it is no pair of finite numbers, one is out of range, or they are in the wrong order.
    """
    if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
        raise InvalidConfiguration(f"{name} is {value!r}, want a pair of numbers: from, to")
    low, high = (number(f"{name}[{at}]", end, above=above) for at, end in enumerate(value))
    if low > high:
        raise InvalidConfiguration(f"{name} is {value!r}, want the smaller number first")
    return low, high


def one_each(name: str, values: ArrayLike, num_ports: int, least: float, most: float = math.inf) -> Floats:
    """Return one number a port.

    Parameters
    ----------
    name : str
        The argument, for messages.
    values : array_like of float
        One for all ports, or one a port.
    num_ports : int
        Number of ports.
    least, most : float
        The range of finite numbers that is allowed, with its ends.

    Returns
    -------
    numpy.ndarray of shape (num_ports,)
        The numbers.

    Raises
    ------
    InvalidConfiguration
        If they are no numbers, too many or too few, or one is out of range.
    """
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
