"""Distributions of whole numbers of slots: how long before its window a job is known, and how long the window is.

A law is an inverse distribution function: it turns numbers that are uniform between 0 and 1, one a job, into slots, and
larger numbers into no fewer slots. Each job takes one number whatever the law, so that the jobs of one seed are alike
under different laws.
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
        check_float("share", self.share, least=0, most=1)
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
    """Return a law, a `Constant` for a number; the name of the argument is for messages."""
    if callable(value):
        return value
    return Constant(_whole(name, value))


def drawn(name: str, law: Law, uniforms: Floats, durations: Slots) -> Slots:
    """Return what a law makes of uniform numbers and durations, whole numbers of at least 0, or refuse it.

    The name is that of the argument that the law was given for.

    Parameters
    ----------
    name : str
        What is drawn, for errors.
    law : callable
        Draws the slots.
    uniforms : numpy.ndarray
        Uniform numbers between 0 and 1.
    durations : numpy.ndarray
        Of the jobs, in slots.
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
    """Return the largest number of slots that a law gives: what it makes of the largest number below 1."""
    return int(drawn(name, law, np.array([_BELOW_ONE]), np.array([longest]))[0])
