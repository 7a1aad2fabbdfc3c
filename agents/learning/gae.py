"""Generalized advantage estimation.

Source: Schulman, Moritz, Levine, Jordan and Abbeel, "High-dimensional continuous control using generalized advantage
estimation", ICLR 2016. Discounts may differ from step to step, as in semi-Markov decision processes, where a
decision that is followed by another at the same instant is not discounted at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["advantages"]

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
