"""Concave utilities: the gain from an amount of a resource.

A utility is zero at zero, non-decreasing and concave, with a finite slope at zero ("nice setup", definition 1 of
arXiv 2305.06572). This module defines those of its equation (60). :func:`register_utility` adds others, after checking
these properties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

__all__ = ["UTILITIES", "Utility", "register_utility", "utility"]

Floats = NDArray[np.float64]
Function = Callable[[Floats, Floats], Floats]

#: Amounts and weights for which a utility is checked.
_AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 141)])
_WEIGHTS = np.array([0.5, 1.0, 1.25, 2.0])
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Utility:
    """Family of concave functions f(amount; weight); arguments and results are arrays that broadcast.

    Parameters
    ----------
    name : str
        Name in configurations and records.
    value : callable
        Function f(amount, weight): 0 at amount 0, non-decreasing and concave in the amount.
    slope : callable
        Derivative f'(amount, weight), finite at amount 0.
    inverse_slope : callable, optional
        Function ``inverse_slope(slope, weight)`` that returns the amount with a given slope, for slopes between 0 and
        the slope at amount 0. Without it, the amount is searched numerically. A linear utility has none.
    linear : bool
        Whether the slope is constant.
    """

    name: str
    value: Function
    slope: Function
    inverse_slope: Function | None = None
    linear: bool = False

    def amount_at(self, slope: Floats, weight: Floats, largest: Floats) -> Floats:
        """Return the amount within [0, largest] with a given slope, or the nearest bound.

        Parameters
        ----------
        slope, weight, largest : numpy.ndarray
            Slopes, weights and upper bounds, of one shape.

        Returns
        -------
        numpy.ndarray
            Amounts. For a linear utility, ``largest`` where the given slope is below its own, and 0 elsewhere.
        """
        at_zero = self.slope(np.zeros_like(largest), weight)
        if self.linear:
            return np.where(slope < at_zero, largest, 0.0)
        if self.inverse_slope is None:
            amount = self._search(slope, weight, largest)
        else:
            at_largest = self.slope(largest, weight)
            amount = self.inverse_slope(np.clip(slope, np.maximum(at_largest, 1e-300), at_zero), weight)
        amount = np.where(slope >= at_zero, 0.0, amount)
        return np.clip(amount, 0.0, largest)

    def _search(self, slope: Floats, weight: Floats, largest: Floats) -> Floats:
        low, high = np.zeros_like(largest), largest.astype(np.float64)
        for _ in range(64):
            middle = 0.5 * (low + high)
            steep = self.slope(middle, weight) > slope
            low, high = np.where(steep, middle, low), np.where(steep, high, middle)
        return np.where(self.slope(largest, weight) >= slope, largest, 0.5 * (low + high))


def _check(candidate: Utility) -> None:
    """Raise an error unless a utility is 0 at 0, non-decreasing and concave, and its slope is its derivative."""
    amount, weight = np.broadcast_arrays(_AMOUNTS[:, None], _WEIGHTS[None, :])
    with np.errstate(all="ignore"):  # values that are not finite raise an error with the utility's name below
        value, slope = (np.asarray(f(amount, weight), dtype=np.float64) for f in (candidate.value, candidate.slope))
    name = candidate.name
    for what, table in (("value", value), ("slope", slope)):
        if table.shape != amount.shape or not np.isfinite(table).all():
            raise InvalidConfiguration(
                f"utility {name!r}: {what}: expected finite numbers for all amounts in [0, {_AMOUNTS[-1]:g}]"
            )
    scale = np.abs(value).max() + 1.0
    _refuse(name, "is not 0 at amount 0", np.abs(value[:1]) > _TOLERANCE * scale, amount[:1])
    _refuse(name, "decreases", np.diff(value, axis=0) < -_TOLERANCE * scale, amount[1:])
    chords = np.diff(value, axis=0) / np.diff(amount, axis=0)
    _refuse(name, "is not concave: its slope grows", np.diff(slope, axis=0) > _TOLERANCE * slope[0], amount[1:])
    loose = _TOLERANCE * (slope[0] + np.abs(value[1:]) / np.diff(amount, axis=0) * 1e-8)
    off = (chords > slope[:-1] + loose) | (chords < slope[1:] - loose)
    _refuse(name, "has a slope that is not the derivative of its value", off, amount[1:])
    if candidate.linear:
        _refuse(name, "is marked as linear, but is not", np.abs(slope - slope[0]) > _TOLERANCE * slope[0], amount)
    elif candidate.inverse_slope is not None:
        with np.errstate(all="ignore"):
            found = candidate.slope(candidate.inverse_slope(slope, weight), weight)
        wrong = ~(np.abs(found - slope) <= _TOLERANCE * slope[0])
        _refuse(name, "has an inverse_slope that is not the inverse of its slope", wrong & (slope > 0), amount)


def _refuse(name: str, fault: str, wrong: NDArray[np.bool_], amounts: Floats) -> None:
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InvalidConfiguration(
            f"utility {name!r} {fault} (near amount {amounts[row, column]:g}, weight {_WEIGHTS[column]:g})"
        )


UTILITIES: dict[str, Utility] = {}
"""Utilities by name."""


def register_utility(new: Utility) -> Utility:
    """Register a utility under its name.

    Parameters
    ----------
    new : Utility
        Utility to check, for amounts from 0 to 10,000 and weights from 0.5 to 2, and to register.

    Returns
    -------
    Utility
        The same object.

    Raises
    ------
    InvalidConfiguration
        If the name is taken, the utility is not zero at zero, non-decreasing and concave, or its slope, inverse or
        linear flag is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> square = Utility("square", lambda amount, weight: amount**2, lambda amount, weight: 2 * amount)
    >>> register_utility(square)
    Traceback (most recent call last):
        ...
    desim.exceptions.InvalidConfiguration: utility 'square' is not concave: its slope grows (near amount ...)
    """
    if new.name in UTILITIES:
        raise InvalidConfiguration(f"utility {new.name!r} is already registered; choose another name")
    _check(new)
    UTILITIES[new.name] = new
    return new


def utility(name: str) -> Utility:
    """Return the utility with a given name.

    Parameters
    ----------
    name : str
        Name: ``"linear"``, ``"log"``, ``"reciprocal"``, ``"poly"``, or that of a registered utility.

    Returns
    -------
    Utility
        Utility with this name.

    Raises
    ------
    InvalidConfiguration
        If no utility has this name.
    """
    if name not in UTILITIES:
        raise InvalidConfiguration(f"utility: got {name!r}, expected one of {', '.join(UTILITIES)}")
    return UTILITIES[name]


register_utility(
    Utility(
        "linear",
        lambda amount, weight: weight * amount,
        lambda amount, weight: weight + np.zeros_like(amount),
        linear=True,
    )
)
register_utility(
    Utility(
        "log",
        lambda amount, weight: weight * np.log1p(amount),
        lambda amount, weight: weight / (amount + 1.0),
        lambda slope, weight: weight / slope - 1.0,
    )
)
register_utility(
    Utility(
        "reciprocal",
        lambda amount, weight: 1.0 / weight - 1.0 / (amount + weight),
        lambda amount, weight: 1.0 / np.square(amount + weight),
        lambda slope, weight: 1.0 / np.sqrt(slope) - weight,
    )
)
register_utility(
    Utility(
        "poly",
        lambda amount, weight: weight * (np.sqrt(amount + 1.0) - 1.0),
        lambda amount, weight: 0.5 * weight / np.sqrt(amount + 1.0),
        lambda slope, weight: np.square(0.5 * weight / slope) - 1.0,
    )
)
