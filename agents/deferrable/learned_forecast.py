"""A forecast of the capacity that is learned from what was seen of it, slot by slot, and that knows how far it is off.

By how much the capacity changes from one slot to the next is taken for a linear function of the capacity and of waves
of a day, its halves and so on: an autoregressive process around a daily level. The coefficients are those of a ridge
regression on all slots so far, which draws them towards no change: at first the forecast is the last value. What is
left unexplained is the deviation of forecasts of one slot, and grows from slot to slot as the process says.
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
    """What the capacities of the slots to come may be, of shape (steps, num_resources) each.

    Attributes
    ----------
    mean : numpy.ndarray
        What is expected.
    deviation : numpy.ndarray
        The standard deviations.
    """

    mean: Floats
    deviation: Floats


@runtime_checkable
class UncertainForecast(Forecast, Protocol):
    """A forecast that also tells how far it may be off."""

    def expect(self, observation: DeferrableObservation, steps: int) -> ForecastDistribution:
        """Return means and standard deviations for the slots that follow the present one.

        Parameters
        ----------
        observation : DeferrableObservation
            At the beginning of slot t.
        steps : int
            How many slots to look ahead, at least 0.

        Returns
        -------
        ForecastDistribution
            Row k - 1 is for slot t + k.
        """


@dataclass(frozen=True)
class LearnedForecast:
    """The capacity goes on as it has gone so far: a daily level, and deviations from it that die away.

    Parameters
    ----------
    period : int
        Slots of a day, at least 1.
    harmonics : int
        Waves of the daily level, of a whole day, half a day and so on, at least 0.
    ridge : float
        How firmly to expect no change, above 0: as if so many slots had told so.
    caution : float
        Standard deviations by which :meth:`predict` stays below what is expected, at least 0: for agents that violate
        the capacity where a forecast is too high.

    Raises
    ------
    InvalidConfiguration
        If one of them is out of range.

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
        """Refuse what is out of range."""
        whole_number("period", self.period, 1)
        whole_number("harmonics", self.harmonics, 0)
        check_float("ridge", self.ridge, above=0)
        check_float("caution", self.caution, least=0)

    def predict(self, observation: DeferrableObservation, steps: int) -> Floats:
        """Return what is expected, less the caution; as :meth:`Forecast.predict` says."""
        mean, deviation = self.expect(observation, steps)
        return np.maximum(mean - self.caution * deviation, 0.0) if self.caution else mean

    def expect(self, observation: DeferrableObservation, steps: int) -> ForecastDistribution:
        """Return means and standard deviations, as :meth:`UncertainForecast.expect` says."""
        history = observation.capacity_history
        whole_number("steps", steps, 0)
        expected = [self._expect_one(series, observation.slot, steps) for series in history.T]
        mean, deviation = (np.stack(parts, axis=1) for parts in zip(*expected, strict=True))
        return ForecastDistribution(np.maximum(mean, 0.0), deviation)

    def _expect_one(self, series: Floats, slot: int, steps: int) -> tuple[Floats, Floats]:
        """Return both for one resource."""
        centre, scale = float(series.mean()), float(series.std())
        if scale <= 1e-12 * max(abs(centre), 1.0):  # it has never changed
            return np.full(steps, series[-1]), np.zeros(steps)
        level = (series - centre) / scale
        waves = self._waves(np.arange(slot + 1 - len(series) + 1, slot + 1 + steps))
        seen = len(series) - 1
        explaining = np.column_stack([level[:-1], waves[:seen]])
        change = np.diff(level)
        precision = explaining.T @ explaining
        precision.flat[:: len(precision) + 1] += self.ridge
        weights = np.linalg.solve(precision, explaining.T @ change)
        # what is left, and what the ridge counts as left, per slot
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
        """Return a constant and the waves, a row for each slot."""
        angles = 2.0 * np.pi * np.outer(slots % self.period, np.arange(1, self.harmonics + 1)) / self.period
        return np.concatenate([np.ones((len(slots), 1)), np.cos(angles), np.sin(angles)], axis=1)
