"""Generalized advantage estimation.

Source: Schulman, Moritz, Levine, Jordan and Abbeel, "High-dimensional continuous control using generalized advantage
estimation", ICLR 2016. Discounts may differ from step to step, as in semi-Markov decision processes, where a
decision that is followed by another at the same instant is not discounted at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

__all__ = ["Discounting", "advantages"]

Floats = NDArray[np.floating]


def advantages(
    rewards: Floats,
    values: Floats,
    *,
    ends: NDArray[np.bool_],
    final_values: Floats,
    last_values: Floats,
    discounts: Floats,
    decays: Floats,
) -> NDArray[np.float64]:
    """Return the advantage of every action of N environments over T steps.

    Parameters
    ----------
    rewards : array, shape (T, N)
        What each action earned.
    values : array, shape (T, N)
        Estimated value of each observation.
    ends : array of bool, shape (T, N)
        Whether the episode ended with the action, terminated or truncated.
    final_values : array, shape (T, N)
        Where an episode was truncated, the estimated value of its last observation; 0 where it terminated.
    last_values : array, shape (N,)
        Estimated value of the observation after the last step.
    discounts : array, shape (T, N)
        Weight of the value of the next observation.
    decays : array, shape (T, N)
        The lambda of each step.

    Returns
    -------
    array of float, shape (T, N)
        Add the values to get the targets of the critic.
    """
    length, count = rewards.shape
    result = np.zeros((length, count))
    following = last_values.astype(np.float64)
    advantage = np.zeros(count)
    for step in range(length - 1, -1, -1):
        end = ends[step]
        following = np.where(end, final_values[step], following)
        error = rewards[step] + discounts[step] * following - values[step]
        advantage = error + np.where(end, 0.0, discounts[step] * decays[step] * advantage)
        result[step] = advantage
        following = values[step]
    return result


@dataclass(frozen=True)
class Discounting:
    """How much the future counts.

    Parameters
    ----------
    discount : float
        Weight of what comes one decision, or one unit of time, later.
    decay : float
        The lambda of generalized advantage estimation, for one decision or one unit of time.
    time_unit : float, optional
        In seconds or slots. With it, both hold for one unit of simulated time, and decisions at the same instant are
        not discounted at all (semi-Markov decision process); without, for one decision.
    """

    discount: float = 0.99
    decay: float = 0.95
    time_unit: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if not 0 <= self.discount <= 1 or not 0 <= self.decay <= 1:
            given = f"discount {self.discount!r}, decay {self.decay!r}"
            raise InvalidConfiguration(f"{given}: want numbers from 0 to 1")
        if self.time_unit is not None and not self.time_unit > 0:
            raise InvalidConfiguration(f"time_unit is {self.time_unit!r}, want a time above 0")

    def weights(self, elapsed: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return discount and decay of each step, by the time that elapsed with it.

        Parameters
        ----------
        elapsed : array of float
            In seconds or slots.

        Returns
        -------
        two arrays of the same shape
            Discounts and decays.
        """
        if self.time_unit is None:
            return np.full_like(elapsed, self.discount), np.full_like(elapsed, self.decay)
        units = elapsed / self.time_unit
        return self.discount**units, self.decay**units
