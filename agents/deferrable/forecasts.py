"""Forecasts of the capacity that on-demand jobs leave, for agents that plan ahead.

Each forecast is a pure function of the observation. :func:`forecast_errors` measures its accuracy on a series of
capacities.

A shield is a lower bound of the capacity: a forecast that is rarely too high. The OSDEC paper (Dong et al., section 6)
leaves safety as future work. An agent with a shield starts only jobs that fit under the bound as long as they run. The
bound is a forecast minus a margin per slot ahead. The margins are calibrated on other trajectories, so that the
capacity falls below the bound in at most a given share of the forecasts.
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
    """Forecast of the capacity in future slots."""

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the expected capacities of the slots after the present one, whose capacity is known.

        Parameters
        ----------
        observation : DeferrableObservation
            Observation at the beginning of slot t.
        steps : int
            Number of slots to look ahead, at least 0.

        Returns
        -------
        numpy.ndarray of shape (steps, num_resources)
            Expected capacity; row k - 1 is for slot t + k, k = 1 ... steps, even beyond the end of the run.
        """


@dataclass(frozen=True)
class Persistence:
    """Persistence forecast: the capacity stays as it is."""

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the present capacity for each slot; see :meth:`Forecast.predict`."""
        return np.repeat(observation.capacity[None], _checked_steps(steps), axis=0)


@dataclass(frozen=True)
class Seasonal:
    """Seasonal forecast: the capacity of one period ago, or its mean over several past periods.

    The forecast of a slot uses the latest known slots that lie a whole number of periods before it. If there is none,
    it is the present capacity.

    Parameters
    ----------
    period : int
        Period in slots, such as the slots of a day, at least 1.
    carry : float
        Autoregressive coefficient of the deviation from the seasonal level, 0 to 1. The forecast k slots ahead adds
        carry^k times the present deviation. This suits a periodic level with first-order autoregressive noise.
    num_periods : int, optional
        Number of past periods to average over, as far as they are known; None for all.

    Raises
    ------
    InvalidConfiguration
        If a parameter is out of range.
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
        """Return the seasonal capacity of each slot; see :meth:`Forecast.predict`."""
        lead = np.arange(_checked_steps(steps) + 1)  # starts with the present slot, to get its deviation
        slot, present = observation.slot, observation.capacity
        # The present slot uses earlier slots only, a later one all that are known.
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
        """Return means over slots that are whole periods apart; NaN if there are none."""
        slots = latest[:, None] - self.period * np.arange(count)
        is_known = (slots >= 0)[:, :, None]
        total = np.where(is_known, history[np.maximum(slots, 0)], 0.0).sum(axis=1)
        with np.errstate(invalid="ignore"):  # 0 / 0
            means: Floats = total / is_known.sum(axis=1)
        return means


class Oracle:
    """Perfect forecast from the true capacities, as an upper bound on the benefit of better forecasts.

    Parameters
    ----------
    series : array_like of shape (num_slots,) or (num_slots, num_resources)
        True capacity of each slot, such as that of :func:`~desim.problems.deferrable.clairvoyant_view`. The last value
        holds for all later slots.

    Raises
    ------
    InvalidConfiguration
        If the series is empty, or an entry is negative or not finite.
    """

    def __init__(self, series: ArrayLike) -> None:
        self.series = checked_series(series)

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the true capacity of each slot; see :meth:`Forecast.predict`."""
        if self.series.shape[1] != len(observation.resources):
            raise InvalidConfiguration(
                f"series of the Oracle: got {self.series.shape[1]} resources, expected {observation.resources}"
            )
        slots = observation.slot + 1 + np.arange(_checked_steps(steps))
        return self.series[np.minimum(slots, len(self.series) - 1)]


class ForecastErrors(NamedTuple):
    """Forecast errors by lead time; row k - 1 is for forecasts k slots ahead.

    Attributes
    ----------
    mean_absolute : numpy.ndarray of shape (steps, num_resources)
        Mean absolute error, in units of the resource; NaN where there was no forecast.
    root_mean_square : numpy.ndarray of shape (steps, num_resources)
        Root mean square error, in the same units.
    bias : numpy.ndarray of shape (steps, num_resources)
        Mean of forecast minus truth, in the same units; above 0 if forecasts were too high.
    num_forecasts : numpy.ndarray of shape (steps,)
        Number of forecasts that the means are over.
    """

    mean_absolute: Floats
    root_mean_square: Floats
    bias: Floats
    num_forecasts: NDArray[np.int64]


def forecast_errors(forecast: Forecast, capacity: ArrayLike, steps: int, *, first_slot: int = 0) -> ForecastErrors:
    """Return the errors of a forecast over a whole series, by lead time.

    Parameters
    ----------
    forecast : Forecast
        Forecast, made in every slot from the capacities up to that slot, without jobs.
    capacity : array_like of shape (num_slots,) or (num_slots, num_resources)
        Capacity of each slot.
    steps : int
        Longest lead time in slots, at least 1.
    first_slot : int
        First slot whose forecast counts, for forecasts that need a period of history.

    Returns
    -------
    ForecastErrors
        Errors by lead time; NaN for lead times longer than the series.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or a forecast has the wrong shape.

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
    """Yield forecast minus truth for each slot of a series, with one row per slot ahead.

    Parameters
    ----------
    forecast : Forecast
        Forecast, made from the capacities up to the slot, without jobs.
    series : numpy.ndarray of shape (num_slots, num_resources)
        Capacity of each slot.
    steps : int
        Number of slots to look ahead; there are fewer rows near the end of the series.
    first_slot : int
        Slot of the first forecast.

    Yields
    ------
    numpy.ndarray of shape (at most steps, num_resources)
        Errors in units of the resource.

    Raises
    ------
    InvalidConfiguration
        If a forecast has the wrong shape.
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
                    f"slot {slot}: forecast shape: got {np.shape(predicted)}, expected {(steps, num_resources)}"
                )
            truth = series[slot + 1 : slot + 1 + steps]
            yield predicted[: len(truth)] - truth


def _checked_steps(steps: int) -> int:
    """Return the number of slots to look ahead; raise InvalidConfiguration if it is out of range."""
    return whole_number("steps", steps, 0)


def whole_number(name: str, value: object, least: int) -> int:
    """Return an integer; raise InvalidConfiguration if it is none or below ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise InvalidConfiguration(f"{name}: got {value!r}, expected an integer >= {least}")
    return int(value)


@dataclass(frozen=True)
class CapacityShield:
    """Lower bound of the capacity, for the ``forecast`` of an agent.

    A job is started only if all running jobs stay below the bounds of that moment, so a violation means that one of
    these bounds failed. If each bound fails with a probability of at most ``level``, the probability of a violation in
    a slot is at most ``level`` times the number of earlier slots in which jobs that still run may have been started.

    Parameters
    ----------
    base : Forecast
        Forecast of the capacity.
    margins : numpy.ndarray of shape (steps, num_resources)
        Margins that are subtracted from the forecast, in units of the resource; row k - 1 is for k slots ahead, and the
        last row also for slots further ahead.
    level : float
        Largest probability that a bound fails; stored for information only.

    Raises
    ------
    InvalidConfiguration
        If ``margins`` is empty or holds a number that is not finite.
    """

    base: Forecast
    margins: Floats
    level: float

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if the margins are invalid."""
        known = isinstance(self.margins, np.ndarray) and self.margins.ndim == 2 and self.margins.size
        if not known or not np.isfinite(self.margins).all():
            raise InvalidConfiguration(
                f"margins: got {self.margins!r}, expected finite numbers, one row per slot ahead"
            )

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the lower bounds of the slots after the present one, shape (steps, num_resources)."""
        rows = np.minimum(np.arange(steps), len(self.margins) - 1)
        bounds: Floats = np.maximum(self.base.predict(observation, steps) - self.margins[rows], 0.0)
        return bounds


def calibrate(
    series: Sequence[ArrayLike], *, steps: int, level: float, base: Forecast | None = None, first_slot: int = 0
) -> CapacityShield:
    """Return the shield whose bounds failed in at most a given share of the forecasts.

    Parameters
    ----------
    series : sequence of array_like of shape (num_slots,) or (num_slots, num_resources)
        Capacities of calibration trajectories, which must differ from those that the shield is used on.
    steps : int
        Number of slots ahead with separate margins, at least 1.
    level : float
        Largest share of failed bounds, above 0 and below 1.
    base : Forecast, optional
        Forecast of the capacity. Default: :class:`Persistence`.
    first_slot : int
        Slot of the first forecast.

    Returns
    -------
    CapacityShield
        Shield whose margins are quantiles of the forecast errors by lead time, at least 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, trajectories differ in their numbers of resources, or none has ``steps`` slots
        after its first forecast.

    Examples
    --------
    >>> shield = calibrate([[4.0, 3.0, 5.0, 4.0, 2.0]], steps=1, level=0.3)
    >>> shield.margins.tolist()
    [[1.0]]
    """
    if not 0 < level < 1:
        raise InvalidConfiguration(f"level: got {level!r}, expected a number > 0 and < 1")
    if steps < 1:
        raise InvalidConfiguration(f"steps: got {steps!r}, expected an integer >= 1")
    forecast = Persistence() if base is None else base
    found: list[list[Floats]] = [[] for _ in range(steps)]
    all_checked = [checked_series(one) for one in series]
    if len({checked.shape[1] for checked in all_checked}) > 1:
        raise InvalidConfiguration("series: got trajectories with different numbers of resources, expected equal ones")
    for checked in all_checked:
        for errors in errors_by_slot(forecast, checked, steps, first_slot):
            for ahead, error in enumerate(errors):
                found[ahead].append(error)
    if not all(found):
        raise InvalidConfiguration(
            f"nothing to calibrate with: no trajectory has {steps} slots after slot {first_slot}; try fewer steps"
        )
    margins = [np.quantile(np.array(errors), 1.0 - level, axis=0, method="inverted_cdf") for errors in found]
    return CapacityShield(forecast, np.maximum(np.array(margins), 0.0), level)
