"""How a rate or a level changes with the time of day and the day of the week."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration

__all__ = ["Pattern", "TimeVarying"]

Floats = NDArray[np.float64]

_DAYS_OF_WEEK = 7
_FIRST_DAY_OF_WEEKEND = 5


class TimeVarying(Protocol):
    """What a process needs to know of a rate or a level that changes with time: a :class:`Pattern` is one."""

    @property
    def maximum(self) -> float:
        """A bound that it never exceeds."""

    def __call__(self, time: Any) -> Any:
        """Return it at one time, a number, or at many, an array."""


@dataclass(frozen=True)
class Pattern:
    """A rate or a level that goes up and down once a day and is another one on weekends.

    On a weekday it is mean x (1 + amplitude x cos(2 pi (time - peak) / day_length)), and on the sixth and the seventh
    day of each week that times the weekend level.

    Parameters
    ----------
    mean : float
        Its average over a weekday, at least 0.
    amplitude : float
        By how much it rises above that average each day, and falls below it, as a share of it: from 0 to 1.
    peak : float
        When it is highest, in slots from the beginning of a day.
    day_length : float
        Slots that a day has, above 0; 288 of 5 minutes each.
    weekend_level : float
        Its level on weekends, as a multiple of that on weekdays, at least 0.
    first_weekday : int
        Day of the week in which time 0 is, from 0, a Monday, to 6; the day begins at time 0.

    Raises
    ------
    InvalidConfiguration
        If one of them is out of range.

    Examples
    --------
    >>> pattern = Pattern(100, amplitude=0.5, peak=14, day_length=24, weekend_level=0.6)
    >>> pattern(14), pattern(2), pattern(5 * 24 + 14)
    (150.0, 50.0, 90.0)
    """

    mean: float
    amplitude: float = 0.0
    peak: float = 0.0
    day_length: float = 288.0
    weekend_level: float = 1.0
    first_weekday: int = 0

    def __post_init__(self) -> None:
        checked_number("the mean of a pattern", self.mean)
        checked_number("the amplitude of a pattern", self.amplitude, most=1.0)
        checked_number("the peak of a pattern", self.peak, least=-math.inf)
        if checked_number("the day_length of a pattern", self.day_length) == 0:
            raise InvalidConfiguration(f"the day_length of a pattern is {self.day_length!r}, want a number above 0")
        checked_number("the weekend_level of a pattern", self.weekend_level)
        day = self.first_weekday
        if not isinstance(day, int | np.integer) or isinstance(day, bool) or not 0 <= day < _DAYS_OF_WEEK:
            raise InvalidConfiguration(f"the first_weekday of a pattern is {day!r}, want a whole number from 0 to 6")

    @overload
    def __call__(self, time: float) -> float: ...

    @overload
    def __call__(self, time: Sequence[float] | Floats) -> Floats: ...

    def __call__(self, time: ArrayLike) -> float | Floats:
        """Return its value.

        Parameters
        ----------
        time : float or array_like
            In slots; may be before 0.

        Returns
        -------
        float or numpy.ndarray
            At that time, or at each of those.
        """
        times = np.asarray(time, dtype=np.float64)
        phase = 2.0 * np.pi / self.day_length * (times - self.peak)
        day = np.floor(times / self.day_length) + self.first_weekday
        weekend = np.mod(day, _DAYS_OF_WEEK) >= _FIRST_DAY_OF_WEEKEND
        values = self.mean * (1.0 + self.amplitude * np.cos(phase)) * np.where(weekend, self.weekend_level, 1.0)
        return values if times.ndim else float(values)

    @property
    def maximum(self) -> float:
        """The highest value that it takes."""
        return self.mean * (1.0 + self.amplitude) * max(1.0, self.weekend_level)

    @property
    def minimum(self) -> float:
        """The lowest value that it takes."""
        return self.mean * (1.0 - self.amplitude) * min(1.0, self.weekend_level)

    @property
    def average(self) -> float:
        """Its average over a week."""
        weekdays = _FIRST_DAY_OF_WEEKEND
        return self.mean * (weekdays + (_DAYS_OF_WEEK - weekdays) * self.weekend_level) / _DAYS_OF_WEEK


def pattern_of(name: str, value: float | TimeVarying) -> TimeVarying:
    """Return what changes with time as it is, and a number as a pattern that stays."""
    return value if callable(value) else Pattern(checked_number(name, value))


def checked_number(name: str, value: Any, least: float = 0.0, most: float = math.inf) -> float:
    """Return a finite number within bounds, or raise InvalidConfiguration with its name."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not least <= value <= most or math.isinf(value):
        lower = f" from {least:g}" if least > -math.inf else ""
        upper = f" to {most:g}" if most < math.inf else " on" if lower else ""
        raise InvalidConfiguration(f"{name} is {value!r}, want a finite number{lower}{upper}")
    return float(value)
