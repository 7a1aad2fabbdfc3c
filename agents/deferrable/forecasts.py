"""Forecasts of the capacity that on-demand jobs will leave, for agents that plan ahead.

Each is a pure function of the observation, without state. How good one is on a series of capacities,
:func:`forecast_errors` says.

A shield is a forecast that is hardly ever too high. The OSDEC paper (Dong et al., section 6) leaves safety as future
work. Here an agent starts only jobs that fit under a lower bound of the capacity for as long as they run. The bound is
a forecast less a margin for each slot ahead, so large that on other trajectories the capacity fell below the bound in
no more than a given share of the forecasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_float
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation
from desim.processes.capacity import checked_series

__all__ = [
    "CapacityShield",
    "Forecast",
    "ForecastErrors",
    "Oracle",
    "Persistence",
    "Seasonal",
    "calibrate",
    "forecast_errors",
]

Floats = NDArray[np.float64]


class Forecast(Protocol):
    """Tells what the capacity may be in the slots to come."""

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the capacities of the slots that follow the present one, whose own is known.

        Parameters
        ----------
        observation : DeferrableObservation
            At the beginning of slot t.
        steps : int
            How many slots to look ahead, at least 0.

        Returns
        -------
        numpy.ndarray of shape (steps, num_resources)
            Row k - 1 is for slot t + k, k = 1 ... steps; whether or not the run lasts as long.
        """


@dataclass(frozen=True)
class Persistence:
    """The capacity stays as it is."""

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the present capacity for each slot, as :meth:`Forecast.predict` says."""
        return np.repeat(observation.capacity[None], _checked_steps(steps), axis=0)


@dataclass(frozen=True)
class Seasonal:
    """The capacity is what it was one period ago, or on average at the same time of the last periods.

    Of each slot to come it takes the latest slots that are known and lie a whole number of periods before it. Where
    there is none yet, the capacity stays as it is now.

    Parameters
    ----------
    period : int
        Slots after which the capacity repeats, such as those of a day, at least 1.
    carry : float
        From 0 to 1: how much of the present deviation from what it would have forecast for the present slot is expected
        to be left one slot later: the k-th slot is forecast with carry^k of it. That is right for a periodic level with
        noise of this autoregressive coefficient.
    num_periods : int, optional
        It takes the mean over so many periods, as far as there are; all if None.

    Raises
    ------
    InvalidConfiguration
        If one of them is out of range.
    """

    period: int
    carry: float = field(default=0.0, kw_only=True)
    num_periods: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        whole_number("period", self.period, 1)
        if self.num_periods is not None:
            whole_number("num_periods", self.num_periods, 1)
        check_float("carry", self.carry, least=0, most=1)

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the seasonal capacity of each slot, as :meth:`Forecast.predict` says."""
        lead = np.arange(_checked_steps(steps) + 1)  # from the present slot on, as it would have been forecast
        slot, present = observation.slot, observation.capacity
        # The present slot takes what was before it, a later one whatever is known.
        latest = slot + lead - self.period * np.maximum(1, -(-lead // self.period))
        count = slot // self.period + 1
        if self.num_periods is not None:
            count = min(count, self.num_periods)
        seasonal = self._means(observation.capacity_history, latest, count)
        is_known = ~np.isnan(seasonal)
        deviation = np.where(is_known[0], present - seasonal[0], 0.0)
        expected = np.maximum(seasonal + self.carry ** lead[:, None] * deviation, 0.0)
        return np.where(is_known, expected, present)[1:]

    def _means(self, history: Floats, latest: NDArray[np.int64], count: int) -> Floats:
        """Return means over slots that are whole periods apart; NaN where there is none."""
        slots = latest[:, None] - self.period * np.arange(count)
        is_known = (slots >= 0)[:, :, None]
        total = np.where(is_known, history[np.maximum(slots, 0)], 0.0).sum(axis=1)
        with np.errstate(invalid="ignore"):  # 0 / 0
            means: Floats = total / is_known.sum(axis=1)
        return means


class Oracle:
    """The capacity as it will be, for bounds on what better forecasts could bring.

    Parameters
    ----------
    series : array_like of shape (num_slots,) or (num_slots, num_resources)
        The capacity of each slot, such as that of :func:`~desim.problems.deferrable.clairvoyant_view`; the last value
        stays.

    Raises
    ------
    InvalidConfiguration
        If the series is empty, or an entry is negative or not finite.
    """

    def __init__(self, series: ArrayLike) -> None:
        self.series = checked_series(series)

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return what the series says, as :meth:`Forecast.predict` says."""
        if self.series.shape[1] != len(observation.resources):
            raise InvalidConfiguration(
                f"the oracle knows {self.series.shape[1]} resources, the platform has {observation.resources}"
            )
        slots = observation.slot + 1 + np.arange(_checked_steps(steps))
        return self.series[np.minimum(slots, len(self.series) - 1)]


class ForecastErrors(NamedTuple):
    """How far forecasts were from the truth; row k - 1 is about forecasts of k slots ahead.

    Attributes
    ----------
    mean_absolute : numpy.ndarray of shape (steps, num_resources)
        Mean absolute error, in units of the resource; NaN where there was no forecast.
    root_mean_square : numpy.ndarray of shape (steps, num_resources)
        Root of the mean squared error, in the same units.
    bias : numpy.ndarray of shape (steps, num_resources)
        Mean of forecast less truth, in the same units: above 0 if too much was promised.
    num_forecasts : numpy.ndarray of shape (steps,)
        Number of forecasts that these are means of.
    """

    mean_absolute: Floats
    root_mean_square: Floats
    bias: Floats
    num_forecasts: NDArray[np.int64]


def forecast_errors(forecast: Forecast, capacity: ArrayLike, steps: int, *, first_slot: int = 0) -> ForecastErrors:
    """Return how far a forecast is from the truth, over a whole series and by lead time.

    Parameters
    ----------
    forecast : Forecast
        What is asked at every slot; it sees the capacity up to that slot, and no jobs.
    capacity : array_like of shape (num_slots,) or (num_slots, num_resources)
        The capacity of each slot.
    steps : int
        The longest lead time in slots, at least 1.
    first_slot : int
        Forecasts made before this slot do not count, for those that need a period to begin with.

    Returns
    -------
    ForecastErrors
        By lead time; a lead time that goes past the series everywhere has NaN.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or a forecast has another shape than it should.

    Examples
    --------
    >>> errors = forecast_errors(Persistence(), [1.0, 2.0, 4.0, 7.0], steps=2)
    >>> errors.mean_absolute[:, 0].tolist(), errors.num_forecasts.tolist()
    ([2.0, 4.0], [3, 2])
    """
    series = checked_series(capacity)
    num_resources = series.shape[1]
    longest, first = whole_number("steps", steps, 1), whole_number("first_slot", first_slot, 0)
    absolute, square, signed = np.zeros((3, longest, num_resources))
    number = np.zeros(longest, dtype=np.int64)
    for error in errors_by_slot(forecast, series, longest, first):
        ahead = slice(len(error))
        absolute[ahead] += np.abs(error)
        square[ahead] += error**2
        signed[ahead] += error
        number[ahead] += 1
    with np.errstate(invalid="ignore"):
        absolute, square, signed = (total / number[:, None] for total in (absolute, square, signed))
    return ForecastErrors(absolute, np.sqrt(square), signed, number)


def errors_by_slot(forecast: Forecast, series: Floats, steps: int, first_slot: int) -> Iterator[Floats]:
    """Yield forecast less truth for each slot of a series that a forecast is made in, a row for each slot ahead of it.

    Parameters
    ----------
    forecast : Forecast
        What is asked; it sees the capacity up to the slot, and no jobs.
    series : numpy.ndarray of shape (num_slots, num_resources)
        The capacity of each slot.
    steps : int
        How many slots to look ahead; there are fewer rows where the series ends before.
    first_slot : int
        Of the first forecast.

    Yields
    ------
    numpy.ndarray of shape (at most steps, num_resources)
        In units of the resource.

    Raises
    ------
    InvalidConfiguration
        If a forecast has another shape than it should.
    """
    num_slots, num_resources = series.shape
    names = tuple(f"resource {index}" for index in range(num_resources))
    observation = DeferrableObservation(names, num_slots, 0.0, np.zeros(num_resources))
    for slot in range(num_slots):
        observation.begin_slot(slot, series[slot])
        if slot >= first_slot:
            predicted = forecast.predict(observation, steps)
            if np.shape(predicted) != (steps, num_resources):
                raise InvalidConfiguration(
                    f"slot {slot}: the forecast has shape {np.shape(predicted)}, want {(steps, num_resources)}"
                )
            truth = series[slot + 1 : slot + 1 + steps]
            yield predicted[: len(truth)] - truth


def _checked_steps(steps: int) -> int:
    """Return how many slots to look ahead, or raise InvalidConfiguration."""
    return whole_number("steps", steps, 0)


def whole_number(name: str, value: object, least: int) -> int:
    """Return a whole number of at least so much, or raise InvalidConfiguration."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise InvalidConfiguration(f"{name} is {value!r}, want a whole number of at least {least}")
    return int(value)


@dataclass(frozen=True)
class CapacityShield:
    """A lower bound of the capacity, for the ``forecast`` of an agent.

    If each bound fails with a probability of at most ``level``, a slot is violated with at most this probability times
    the number of slots before it in which running jobs may have been started: a job is started only if all that run
    stay below the bounds of that moment, so that one of these has failed where there is a violation.

    Parameters
    ----------
    base : Forecast
        What is expected.
    margins : numpy.ndarray of shape (steps, num_resources)
        What is taken off the forecast of k slots ahead, in units of the resource; row k - 1. The last row stays for
        slots that are further ahead.
    level : float
        The probability with which each bound may fail; for the record.

    Raises
    ------
    InvalidConfiguration
        If there are no margins, or one is not a finite number.
    """

    base: Forecast
    margins: Floats
    level: float

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        known = isinstance(self.margins, np.ndarray) and self.margins.ndim == 2 and self.margins.size
        if not known or not np.isfinite(self.margins).all():
            raise InvalidConfiguration(f"margins are {self.margins!r}, want a row of numbers for each slot ahead")

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the lower bounds of the slots that follow, of shape (steps, num_resources)."""
        rows = np.minimum(np.arange(steps), len(self.margins) - 1)
        bounds: Floats = np.maximum(self.base.predict(observation, steps) - self.margins[rows], 0.0)
        return bounds


def calibrate(
    series: Sequence[ArrayLike], *, steps: int, level: float, base: Forecast | None = None, first_slot: int = 0
) -> CapacityShield:
    """Return the shield whose bounds failed in no more than a share of the forecasts.

    Parameters
    ----------
    series : sequence of array_like of shape (num_slots,) or (num_slots, num_resources)
        Capacities of trajectories that are not those which the shield is for.
    steps : int
        How many slots ahead there is a margin of its own for, at least 1.
    level : float
        The share, above 0 and below 1.
    base : Forecast, optional
        What is expected; the last value if left out.
    first_slot : int
        Slot of the first forecast.

    Returns
    -------
    CapacityShield
        The margins of k slots ahead are quantiles of how much too high the forecasts were, and at least 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, trajectories differ in their resources, or none has ``steps`` slots behind
        its first forecast.

    Examples
    --------
    >>> shield = calibrate([[4.0, 3.0, 5.0, 4.0, 2.0]], steps=1, level=0.3)
    >>> shield.margins.tolist()
    [[1.0]]
    """
    if not 0 < level < 1:
        raise InvalidConfiguration(f"level is {level!r}, want a number above 0 and below 1")
    if steps < 1:
        raise InvalidConfiguration(f"steps is {steps!r}, want at least 1")
    forecast = Persistence() if base is None else base
    found: list[list[Floats]] = [[] for _ in range(steps)]
    all_checked = [checked_series(one) for one in series]
    if len({checked.shape[1] for checked in all_checked}) > 1:
        raise InvalidConfiguration("the trajectories have different numbers of resources")
    for checked in all_checked:
        for errors in errors_by_slot(forecast, checked, steps, first_slot):
            for ahead, error in enumerate(errors):
                found[ahead].append(error)
    if not all(found):
        raise InvalidConfiguration(
            f"no trajectory has {steps} slots behind slot {first_slot}: there is nothing to calibrate with"
        )
    margins = [np.quantile(np.array(errors), 1.0 - level, axis=0, method="inverted_cdf") for errors in found]
    return CapacityShield(forecast, np.maximum(np.array(margins), 0.0), level)
