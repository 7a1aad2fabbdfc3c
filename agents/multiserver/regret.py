"""Regret of a policy against the best fixed allocation in hindsight, and its growth with the horizon.

Source: equations (9) to (11) and theorem 1 of arXiv 2305.06572.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.multiserver.hindsight import best_fixed_allocation
from desim.agents.multiserver.oga import check_horizon, diameter_bound, gradient_bound
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import RewardModel

__all__ = ["Growth", "growth_exponent", "regret_bound", "regret_curve"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Confidence level of the interval of the exponent.
CONFIDENCE = 0.95


def regret_bound(rewards: RewardModel, num_slots: int) -> float:
    """Return the bound of theorem 1, equation (41), on the regret of online gradient ascent.

    It holds for the form ``reservation`` with :class:`~desim.agents.multiserver.oga.TheoreticalSteps`, for any initial
    allocation and for any arrivals of at most one job per port and slot.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead, on a graph.
    num_slots : int
        Horizon T in slots, at least 1.

    Returns
    -------
    float
        sqrt(2 T sum_k sum_r max_l a_l^k c_r^k) sqrt(sum over channels of (max_k beta_k)^2 + K (max_k varpi_r^k)^2).

    Raises
    ------
    InvalidConfiguration
        If ``num_slots`` is not an integer >= 1.
    """
    check_horizon(num_slots)
    return diameter_bound(rewards.graph) * gradient_bound(rewards) * math.sqrt(num_slots)


def regret_curve(
    rewards: RewardModel,
    arrivals: ArrayLike,
    earned: ArrayLike,
    *,
    slots: ArrayLike,
    relative_gap: float = 1e-7,
) -> Floats:
    """Return the regret at several horizons, each against the best fixed allocation up to that horizon.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead, on a graph.
    arrivals : array_like of bool or int, shape (num_slots, num_ports)
        Number of jobs that arrived, x_l(t).
    earned : array_like of shape (num_slots,)
        Reward of the policy in each slot.
    slots : array_like of int
        Horizons T, from 1 to ``num_slots``, in any order.
    relative_gap : float
        Relative gap at which the search for a best fixed allocation stops.

    Returns
    -------
    numpy.ndarray of shape (len(slots),)
        Regret: Q_T(y*_T) minus the reward in the first T slots. The upper bound is used for Q_T(y*_T), so the regret is
        never underestimated. A policy that sees the arrivals first may have a negative regret.

    Raises
    ------
    InvalidConfiguration
        If shapes do not fit or a number is out of range.
    """
    jobs, reward = _record(rewards, arrivals, earned)
    horizons = _horizons(slots, len(jobs))
    sums = np.cumsum(reward)
    regrets = np.empty(len(horizons))
    for index, horizon in enumerate(horizons.tolist()):
        best = best_fixed_allocation(rewards, jobs[:horizon].sum(axis=0), relative_gap=relative_gap)
        regrets[index] = best.upper_bound - sums[horizon - 1]
    return regrets


@dataclass(frozen=True)
class Growth:
    """Power law fitted to regrets: R_T is about ``coefficient`` T ** ``exponent``.

    Attributes
    ----------
    exponent : float
        Least-squares slope of log R against log T; below 1 the regret per slot vanishes.
    low, high : float
        Bounds of the 95 % confidence interval of the exponent, by Student's t; infinite for two values.
    coefficient : float
        Fitted regret at T = 1.
    num_values : int
        Number of regrets used.
    """

    exponent: float
    low: float
    high: float
    coefficient: float
    num_values: int


def growth_exponent(horizons: ArrayLike, regrets: ArrayLike) -> Growth:
    """Fit a power law of the horizon to regrets.

    The confidence interval assumes independent values: use one run per horizon, or several with different seeds. The
    regrets of one run at increasing horizons are not independent and make the interval too narrow.

    Parameters
    ----------
    horizons : array_like of shape (n,)
        Horizons T, > 0; at least two different ones.
    regrets : array_like of shape (n,) or (n, m)
        Regrets R_T, one or ``m`` values per horizon, all > 0. A regret <= 0 has no logarithm, and leaving it out would
        overestimate the growth, so it is an error.

    Returns
    -------
    Growth
        Exponent and its confidence interval.

    Raises
    ------
    InvalidConfiguration
        If shapes do not fit, or a value is out of range; the message names it.

    Examples
    --------
    >>> growth = growth_exponent([100, 400, 1600], [20.0, 40.0, 80.0])
    >>> round(growth.exponent, 12), round(growth.coefficient, 12)
    (0.5, 2.0)
    """
    horizon, regret = np.asarray(horizons, dtype=np.float64), np.asarray(regrets, dtype=np.float64)
    if horizon.ndim != 1 or regret.ndim not in (1, 2) or len(regret) != len(horizon):
        raise InvalidConfiguration(
            f"horizons, regrets: got shapes {horizon.shape} and {regret.shape}, expected (n,) and (n, m)"
        )
    values = regret.reshape(len(regret), regret.size // max(len(regret), 1))
    times = np.broadcast_to(horizon[:, None], values.shape)
    wrong = np.argwhere(~((times > 0) & (times < np.inf) & (values > 0) & (values < np.inf)))
    if len(wrong):
        at = tuple(wrong[0])
        raise InvalidConfiguration(
            f"regret at horizon {times[at]:g}: got {values[at]:g}, expected both to be finite and > 0"
        )
    x, y = np.log(times.ravel()), np.log(values.ravel())
    if len(np.unique(x)) < 2:
        raise InvalidConfiguration(f"horizons: got {len(np.unique(x))} different ones, expected at least 2")
    return _fit_line(x, y)


def _fit_line(x: Floats, y: Floats) -> Growth:
    """Fit y = log coefficient + exponent x by least squares."""
    from scipy.special import stdtrit

    offset = x - x.mean()
    spread = float(offset @ offset)
    exponent = float(offset @ y) / spread
    residual = y - y.mean() - exponent * offset
    freedom = len(x) - 2
    half = math.inf
    if freedom > 0:
        half = float(stdtrit(freedom, 0.5 * (1 + CONFIDENCE))) * math.sqrt(
            float(residual @ residual) / freedom / spread
        )
    coefficient = math.exp(float(y.mean()) - exponent * float(x.mean()))
    return Growth(exponent, exponent - half, exponent + half, coefficient, len(x))


def _record(rewards: RewardModel, arrivals: ArrayLike, earned: ArrayLike) -> tuple[Floats, Floats]:
    """Return arrivals and rewards as arrays; raise InvalidConfiguration if they are invalid."""
    jobs = np.asarray(arrivals, dtype=np.float64)
    reward = np.asarray(earned, dtype=np.float64)
    graph = rewards.graph
    if jobs.ndim != 2 or jobs.shape[1] != graph.num_ports or reward.shape != jobs.shape[:1]:
        raise InvalidConfiguration(
            f"arrivals, earned: got shapes {jobs.shape} and {reward.shape}, expected (num_slots, {graph.num_ports}) "
            "and (num_slots,)"
        )
    wrong = np.argwhere(~((jobs >= 0) & (jobs < np.inf)))
    if len(wrong):
        slot, port = wrong[0]
        number = float(jobs[slot, port])
        raise InvalidConfiguration(
            f"arrivals at {graph.ports[port]} in slot {slot}: got {number!r}, expected a finite number >= 0"
        )
    if not np.isfinite(reward).all():
        slot = int(np.flatnonzero(~np.isfinite(reward))[0])
        raise InvalidConfiguration(f"earned in slot {slot}: got {float(reward[slot])!r}, expected a finite number")
    return jobs, reward


def _horizons(slots: ArrayLike, num_slots: int) -> Indices:
    numbers = np.asarray(slots, dtype=np.float64)
    if numbers.ndim != 1:
        raise InvalidConfiguration(f"slots: got shape {numbers.shape}, expected one dimension")
    wrong = np.flatnonzero(~((numbers >= 1) & (numbers <= num_slots) & (numbers == np.floor(numbers))))
    if len(wrong):
        raise InvalidConfiguration(
            f"slots: got {float(numbers[wrong[0]])!r}, expected integers from 1 to {num_slots}, the number of slots"
        )
    return numbers.astype(np.int64)
