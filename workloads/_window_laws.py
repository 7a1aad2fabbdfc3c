"""Distributions of whole numbers of slots: how long before its window a job is known, and how long the window is.

A law is an inverse distribution function: it turns numbers that are uniform between 0 and 1, one a job, into slots, and
larger numbers into no fewer slots. Each job takes one number whatever the law, so that the jobs of one seed are alike
under different laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.workloads._named_streams import number

__all__ = ["Constant", "Geometric", "Law", "Proportional", "Sometimes", "Uniform", "UpTo", "drawn", "law_of", "most_of"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

Law = Callable[[Floats, Slots], ArrayLike]
"""Makes whole numbers of slots from uniform numbers and the durations of the jobs, in slots."""

#: More slots than any run has.
_MOST = 2**40
_BELOW_ONE = float(np.nextafter(1.0, 0.0))


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise InvalidConfiguration(f"{name} is {value!r}, want a whole number of at least 0")
    return int(value)


@dataclass(frozen=True)
class Constant:
    """The same number for all jobs.

    Parameters
    ----------
    slots : int
        That number, at least 0.

    Raises
    ------
    InvalidConfiguration
        If it is out of range.
    """

    slots: int

    def __post_init__(self) -> None:
        """Check the number."""
        _whole("slots", self.slots)

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Return it once for each job."""
        return np.full(len(uniforms), self.slots, dtype=np.int64)


@dataclass(frozen=True)
class Uniform:
    """All whole numbers of a range, equally likely.

    Parameters
    ----------
    least, most : int
        Its ends, which belong to it; at least 0.

    Raises
    ------
    InvalidConfiguration
        If they are out of range or in the wrong order.
    """

    least: int
    most: int

    def __post_init__(self) -> None:
        """Check the range."""
        if _whole("least", self.least) > _whole("most", self.most):
            raise InvalidConfiguration(f"least is {self.least!r}, above most, which is {self.most!r}")

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Draw one number for each job."""
        return (self.least + np.floor(uniforms * (self.most - self.least + 1))).astype(np.int64)


@dataclass(frozen=True)
class Geometric:
    """Numbers from 0 on, each less likely than the one before it by the same factor.

    Parameters
    ----------
    mean : float
        Their mean, at least 0.

    Raises
    ------
    InvalidConfiguration
        If it is out of range.
    """

    mean: float

    def __post_init__(self) -> None:
        """Check the mean."""
        number("mean", self.mean)

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Draw one number for each job."""
        if self.mean == 0:
            return np.zeros(len(uniforms), dtype=np.int64)
        found = np.floor(np.log1p(-uniforms) / -math.log1p(1 / self.mean))
        return np.minimum(found, _MOST).astype(np.int64)


@dataclass(frozen=True)
class Proportional:
    """A multiple of the job's duration, rounded, halves up.

    Parameters
    ----------
    factor : float
        By which the duration is multiplied, at least 0.

    Raises
    ------
    InvalidConfiguration
        If it is out of range.
    """

    factor: float

    def __post_init__(self) -> None:
        """Check the factor."""
        number("factor", self.factor)

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Return one number for each job."""
        found: Slots = np.floor(self.factor * durations + 0.5).astype(np.int64)
        return found


@dataclass(frozen=True)
class UpTo:
    """Any whole number from 0 to a multiple of the job's duration, equally likely.

    Parameters
    ----------
    factor : float
        By which the duration is multiplied for the largest number, at least 0.

    Raises
    ------
    InvalidConfiguration
        If it is out of range.
    """

    factor: float

    def __post_init__(self) -> None:
        """Check the factor."""
        number("factor", self.factor)

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Draw one number for each job."""
        found: Slots = np.floor(uniforms * (np.floor(self.factor * durations) + 1)).astype(np.int64)
        return found


@dataclass(frozen=True)
class Sometimes:
    """What another law says for a share of the jobs, and 0 for the others.

    Parameters
    ----------
    share : float
        Of the jobs, between 0 and 1.
    law : Law or int
        What holds for them.

    Raises
    ------
    InvalidConfiguration
        If one is out of range.
    """

    share: float
    law: Law | int

    def __post_init__(self) -> None:
        """Check the share and the law."""
        if number("share", self.share) > 1:
            raise InvalidConfiguration(f"share is {self.share!r}, want a number between 0 and 1")
        law_of("law", self.law)

    def __call__(self, uniforms: Floats, durations: Slots) -> Slots:
        """Draw one number for each job."""
        found = np.zeros(len(uniforms), dtype=np.int64)
        held = uniforms >= 1 - self.share
        if held.any():
            rest = np.minimum((uniforms[held] - (1 - self.share)) / self.share, _BELOW_ONE)
            found[held] = drawn("law", law_of("law", self.law), rest, durations[held])
        return found


def law_of(name: str, value: Law | int) -> Law:
    """Return a law, a `Constant` for a number.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : Law or int
        What was given for it.

    Returns
    -------
    callable
        The law.

    Raises
    ------
    InvalidConfiguration
        If it is neither.
    """
    if callable(value):
        return value
    return Constant(_whole(name, value))


def drawn(name: str, law: Law, uniforms: Floats, durations: Slots) -> Slots:
    """Return what a law makes of numbers, checked.

    Parameters
    ----------
    name : str
        The argument that the law was given for, for messages.
    law : Law
        The law.
    uniforms : numpy.ndarray of shape (n,)
        Numbers between 0 and 1.
    durations : numpy.ndarray of int64, shape (n,)
        Of the jobs, in slots.

    Returns
    -------
    numpy.ndarray of int64, shape (n,)
        Slots.

    Raises
    ------
    InvalidConfiguration
        If they are not whole numbers of at least 0, one a job.
    """
    found = np.asarray(law(uniforms, durations))
    if found.shape != uniforms.shape or found.dtype.kind not in "iuf":
        raise InvalidConfiguration(
            f"{name} gave an array of shape {found.shape} and type {found.dtype} for {len(uniforms)} jobs, want one "
            f"whole number a job"
        )
    wrong = ~((found >= 0) & (found <= _MOST) & (found == np.floor(found)))
    if wrong.any():
        raise InvalidConfiguration(f"{name} gave {found[wrong][0].item()!r}, want whole numbers of slots of at least 0")
    return found.astype(np.int64)


def most_of(name: str, law: Law, longest: int) -> int:
    """Return the largest number of slots that a law gives.

    Parameters
    ----------
    name : str
        The argument that the law was given for, for messages.
    law : Law
        The law.
    longest : int
        The longest duration of a job, in slots.

    Returns
    -------
    int
        What it makes of the largest number below 1.

    Raises
    ------
    InvalidConfiguration
        If that is no whole number of at least 0.
    """
    return int(drawn(name, law, np.array([_BELOW_ONE]), np.array([longest]))[0])
