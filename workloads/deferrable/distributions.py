"""Distributions of integer numbers of slots: for the lead time and the slack of deferrable jobs.

A distribution is given as an inverse distribution function. It maps numbers uniform between 0 and 1, one per job, to
slots, and larger numbers to at least as many slots. Each job uses one number whatever the distribution, so that the
jobs of one seed stay similar under different distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float
from desim.exceptions import InvalidConfiguration

__all__ = ["Constant", "Law", "Sometimes", "Uniform"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

Law = Callable[[Floats, Slots], ArrayLike]
"""Function from uniform numbers and the durations of the jobs in slots to integer numbers of slots."""

#: Upper bound on slots, more than any run has.
_MOST = 2**40
_BELOW_ONE = float(np.nextafter(1.0, 0.0))


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise InvalidConfiguration(f"{name}: got {value!r}, expected an integer >= 0")
    return int(value)


@dataclass(frozen=True)
class Constant:
    """Distribution with the same number for all jobs.

    Parameters
    ----------
    slots : int
        Number of slots, >= 0.

    Raises
    ------
    InvalidConfiguration
        If the number is out of range.
    """

    slots: int

    def __post_init__(self) -> None:
        """Check the number."""
        _whole("slots", self.slots)

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Return the number once per job."""
        return np.full(len(uniforms), self.slots, dtype=np.int64)


@dataclass(frozen=True)
class Uniform:
    """Uniform distribution over the integers of a range.

    Parameters
    ----------
    least, most : int
        Smallest and largest number of slots, both included; >= 0.

    Raises
    ------
    InvalidConfiguration
        If one is out of range, or `least` is larger than `most`.
    """

    least: int
    most: int

    def __post_init__(self) -> None:
        """Check the range."""
        if _whole("least", self.least) > _whole("most", self.most):
            raise InvalidConfiguration(f"least: got {self.least!r}, expected at most {self.most!r}, the value of most")

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Return one number per job."""
        return (self.least + np.floor(uniforms * (self.most - self.least + 1))).astype(np.int64)


@dataclass(frozen=True)
class Sometimes:
    """Distribution that applies another one to a share of the jobs, and gives 0 to the others.

    Parameters
    ----------
    share : float
        Share of the jobs, between 0 and 1.
    law : Law or int
        Distribution for that share of the jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    share: float
    law: Law | int

    def __post_init__(self) -> None:
        """Check the share and the distribution."""
        check_float("share", self.share, least=0, most=1)
        law_of("law", self.law)

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Return one number per job."""
        found = np.zeros(len(uniforms), dtype=np.int64)
        held = uniforms >= 1 - self.share
        if held.any():
            rest = np.minimum((uniforms[held] - (1 - self.share)) / self.share, _BELOW_ONE)
            found[held] = drawn("law", law_of("law", self.law), rest, durations[held])
        return found


def law_of(name: str, value: Law | int) -> Law:
    """Return a distribution, which is `Constant` for a number; `name` is the argument, for messages."""
    if callable(value):
        return value
    return Constant(_whole(name, value))


def drawn(name: str, law: Law, uniforms: Floats, durations: Slots) -> Slots:
    """Return the numbers that a distribution gives for uniform numbers and durations, after checking them.

    Raise InvalidConfiguration unless these are integers >= 0, one per job.

    Parameters
    ----------
    name : str
        Name of the argument that the distribution was given for, for messages.
    law : callable
        Distribution of the slots.
    uniforms : numpy.ndarray
        Uniform numbers between 0 and 1, one per job.
    durations : numpy.ndarray
        Durations of the jobs, in slots.
    """
    found = np.asarray(law(uniforms, durations))
    if found.shape != uniforms.shape or found.dtype.kind not in "iuf":
        raise InvalidConfiguration(
            f"{name}: got an array of shape {found.shape} and type {found.dtype} for {len(uniforms)} jobs, expected "
            f"one integer per job"
        )
    wrong = ~((found >= 0) & (found <= _MOST) & (found == np.floor(found)))
    if wrong.any():
        raise InvalidConfiguration(f"{name}: got {found[wrong][0].item()!r}, expected integer numbers of slots >= 0")
    return found.astype(np.int64)


def most_of(name: str, law: Law, longest: int) -> int:
    """Return the largest number of slots that a distribution gives: its value at the largest number below 1."""
    return int(drawn(name, law, np.array([_BELOW_ONE]), np.array([longest]))[0])
