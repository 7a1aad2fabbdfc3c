"""A shield against violations: a forecast of capacity that is hardly ever too high.

The OSDEC paper (Dong et al., section 6) leaves safety as future work. Here an agent starts only jobs that fit under a
lower bound of the capacity for as long as they run. The bound is a forecast less a margin for each slot ahead, so large
that on other trajectories the capacity fell below the bound in no more than a given share of the forecasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.deferrable.forecasts import Forecast, LastValue, errors_by_slot
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation
from desim.processes.capacity import checked_series

__all__ = ["CapacityShield", "calibrate"]

Floats = NDArray[np.float64]


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
    forecast = LastValue() if base is None else base
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
