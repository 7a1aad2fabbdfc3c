"""Baselines from episodes with the same input.

Several environments that face the same arrivals share most of their luck: what is left after the mean of the group at
the same simulated time is taken off comes from their actions.

Source: Mao, Venkatakrishnan, Schwarzkopf and Alizadeh, "Variance reduction for reinforcement learning in input-driven
environments", ICLR 2019; for the time alignment, Mao et al., "Learning scheduling algorithms for data processing
clusters", SIGCOMM 2019.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.learning.rollout import Rollout
from desim.exceptions import InvalidConfiguration

__all__ = ["group_means"]

Floats = NDArray[np.float64]


def group_means(figures: Floats, rollout: Rollout, size: int) -> Floats:
    """Return the mean over each group of a figure at the time of each step, interpolated linearly between steps.

    Parameters
    ----------
    figures : array of float, shape (T, N)
        Returns or advantages.
    rollout : Rollout
        Whole episodes of N environments; those of a group, which are neighbours, face the same input.
    size : int
        Environments of a group.

    Returns
    -------
    array of float, shape (T, N)
        0 for steps that are not valid. An episode that has ended counts with 0 behind its end. If no time passes at all
        before the last decision of any, as where plans are made, steps are matched by their numbers.

    Raises
    ------
    InvalidConfiguration
        If the environments cannot be divided into such groups.
    """
    count = figures.shape[1]
    if count % size:
        raise InvalidConfiguration(f"{count} environments are no whole number of groups of {size}")
    times = np.cumsum(rollout.elapsed, axis=0) - rollout.elapsed
    result = np.zeros_like(figures)
    for first in range(0, count, size):
        members = range(first, first + size)
        lengths = [int(rollout.valid[:, member].sum()) for member in members]
        if not any(times[:n, member].any() for n, member in zip(lengths, members, strict=True)):
            times[:, first : first + size] = np.arange(len(times))[:, None]
        curves = [(times[:n, member], figures[:n, member]) for n, member in zip(lengths, members, strict=True)]
        for member, (own, _) in zip(members, curves, strict=True):
            at_own_times = [np.interp(own, known, values, right=0.0) for known, values in curves]
            result[: len(own), member] = np.mean(at_own_times, axis=0)
    return result
