"""Forecast of the capacity that is learned online from past slots and estimates its own error.

The model is an autoregressive process around a daily level: the change of the capacity from one slot to the next is a
linear function of the capacity and of sine waves with a period of a day, half a day and so on. The coefficients come
from a ridge regression on all slots so far, which shrinks them towards no change, so the first forecasts are the last
value. The residuals give the standard deviation one slot ahead; it grows with the lead time as the process implies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.forecasts import Forecast, whole_number
from desim.checks import check_float
from desim.problems.deferrable import DeferrableObservation

__all__ = ["ForecastDistribution", "LearnedForecast", "UncertainForecast"]

Floats = NDArray[np.float64]


class ForecastDistribution(NamedTuple):
    """Predictive distribution of future capacities; both arrays have shape (steps, num_resources).

    Attributes
    ----------
    mean : numpy.ndarray
        Expected capacities.
    deviation : numpy.ndarray
        Standard deviations.
    """

    mean: Floats
    deviation: Floats


@runtime_checkable
class UncertainForecast(Forecast, Protocol):
    """Forecast that also estimates its uncertainty."""

    def expect(self, observation: DeferrableObservation, steps: int) -> ForecastDistribution:
        """Return means and standard deviations for the slots after the present one.

        Parameters
        ----------
        observation : DeferrableObservation
            Observation at the beginning of slot t.
        steps : int
            Number of slots to look ahead, at least 0.

        Returns
        -------
        ForecastDistribution
            Means and standard deviations; row k - 1 is for slot t + k.
        """


@dataclass(frozen=True)
class LearnedForecast:
    """Online forecast: a learned daily level, with deviations that decay.

    Parameters
    ----------
    period : int
        Number of slots per day, at least 1.
    harmonics : int
        Number of sine waves of the daily level (a day, half a day and so on), at least 0.
    ridge : float
        Strength of the ridge penalty towards no change, > 0, in units of observed slots.
    caution : float
        Number of standard deviations that :meth:`predict` stays below the mean, at least 0. Use it for agents that
        would otherwise violate the capacity after high forecasts.

    Raises
    ------
    InvalidConfiguration
        If a parameter is out of range.

    Examples
    --------
    >>> from desim.agents.deferrable import Persistence, forecast_errors
    >>> wave = 40 + 10 * np.sin(2 * np.pi * np.arange(96) / 24)
    >>> for forecast in (LearnedForecast(24), Persistence()):
    ...     print(f"{forecast_errors(forecast, wave, steps=6, first_slot=24).mean_absolute[5, 0]:.1f}")
    0.1
    8.6
    """

    period: int = 24
    harmonics: int = field(default=1, kw_only=True)
    ridge: float = field(default=0.3, kw_only=True)
    caution: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a parameter is out of range."""
        whole_number("period", self.period, 1)
        whole_number("harmonics", self.harmonics, 0)
        check_float("ridge", self.ridge, above=0)
        check_float("caution", self.caution, least=0)

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return the means minus ``caution`` standard deviations; see :meth:`Forecast.predict`."""
        mean, deviation = self.expect(observation, steps)
        return np.maximum(mean - self.caution * deviation, 0.0) if self.caution else mean

    def expect(self, observation: DeferrableObservation, steps: int) -> ForecastDistribution:
        """Return means and standard deviations; see :meth:`UncertainForecast.expect`."""
        history = observation.capacity_history
        whole_number("steps", steps, 0)
        expected = [self._expect_one(series, observation.slot, steps) for series in history.T]
        mean, deviation = (np.stack(parts, axis=1) for parts in zip(*expected, strict=True))
        return ForecastDistribution(np.maximum(mean, 0.0), deviation)

    def _expect_one(self, series: Floats, slot: int, steps: int) -> tuple[Floats, Floats]:
        """Return means and standard deviations for one resource."""
        centre, scale = float(series.mean()), float(series.std())
        if scale <= 1e-12 * max(abs(centre), 1.0):  # the capacity has never changed
            return np.full(steps, series[-1]), np.zeros(steps)
        level = (series - centre) / scale
        waves = self._waves(np.arange(slot + 1 - len(series) + 1, slot + 1 + steps))
        seen = len(series) - 1
        explaining = np.column_stack([level[:-1], waves[:seen]])
        change = np.diff(level)
        precision = explaining.T @ explaining
        precision.flat[:: len(precision) + 1] += self.ridge
        weights = np.linalg.solve(precision, explaining.T @ change)
        # penalized residual sum of squares per slot
        variance = max(float(change @ (change - explaining @ weights)), 0.0) / seen
        persistence = min(max(1.0 + float(weights[0]), -1.0), 1.0)
        drifts = (waves[seen:] @ weights[1:]).tolist()
        value, spread = float(level[-1]), 0.0
        mean, deviation = np.empty(steps), np.empty(steps)
        for step, drift in enumerate(drifts):
            value = persistence * value + drift
            spread = persistence**2 * spread + variance
            mean[step], deviation[step] = value, spread
        return centre + scale * mean, scale * np.sqrt(deviation)

    def _waves(self, slots: NDArray[np.int64]) -> Floats:
        """Return a constant and the sine waves, one row per slot."""
        angles = 2.0 * np.pi * np.outer(slots % self.period, np.arange(1, self.harmonics + 1)) / self.period
        return np.concatenate([np.ones((len(slots), 1)), np.cos(angles), np.sin(angles)], axis=1)
