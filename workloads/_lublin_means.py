"""Exact means of the Lublin-Feitelson model, by summing over its distributions."""

from __future__ import annotations

import math

import numpy as np

from desim.workloads._columns import Floats
from desim.workloads._lublin_model import LONGEST, LONGEST_GAP, Constants, Exponents

__all__ = ["core_probabilities", "mean_interarrival", "mean_run_time", "mean_work"]


def core_probabilities(constants: Constants, num_cores: int, umed_offset: float | None) -> Floats:
    """Return the probability of each number of nodes.

    Parameters
    ----------
    constants : Constants
        Type of the jobs.
    num_cores : int
        Nodes of the machine.
    umed_offset : float or None
        Replaces the constant of that name.

    Returns
    -------
    array of shape (num_cores + 1,)
        Entry n for jobs of n nodes; they sum to 1.
    """
    low, middle, high = Exponents.of(constants, num_cores, umed_offset)

    def below(exponent: Floats) -> Floats:
        lower, upper = _ramp(exponent, low, middle), _ramp(exponent, middle, high)
        return constants.uprob * lower + (1 - constants.uprob) * upper

    free = np.diff(below(np.concatenate([[-np.inf], np.log2(np.arange(1, num_cores) + 0.5), [np.inf]])))
    powers = np.arange(math.floor(math.log2(num_cores)) + 1)
    rounded = np.diff(below(np.concatenate([[-np.inf], powers[:-1] + 0.5, [np.inf]])))
    probability = np.zeros(num_cores + 1)
    probability[1:] = (1 - constants.serial - constants.pow2) * free
    probability[2**powers] += constants.pow2 * rounded
    probability[1] += constants.serial
    return probability


def _ramp(value: Floats, start: float, end: float) -> Floats:
    """Return the distribution function of a uniform variable, of a constant one if start = end."""
    if start == end:
        return (value >= start).astype(np.float64)
    return np.clip((value - start) / (end - start), 0, 1)


def _run_times_by_cores(constants: Constants, num_cores: int) -> Floats:
    """Return the mean run time of jobs with n nodes, in seconds, at index n."""
    from scipy.special import gammainc

    # E[floor(Y); Y <= y] is the sum over k >= 1 of P(k <= Y <= y)
    logs = np.log(np.arange(1, math.floor(math.exp(LONGEST)) + 1))
    inside, total = [], []
    for shape, scale in ((constants.a1, constants.b1), (constants.a2, constants.b2)):
        accepted = float(gammainc(shape, LONGEST / scale))
        inside.append(accepted)
        total.append(float(np.sum(accepted - gammainc(shape, logs / scale))))
    first = np.clip(constants.pa * np.arange(num_cores + 1) + constants.pb, 0, 1)
    means: Floats = (first * total[0] + (1 - first) * total[1]) / (first * inside[0] + (1 - first) * inside[1])
    return means


def mean_run_time(constants: Constants, num_cores: int, umed_offset: float | None) -> float:
    """Return the mean run time of a job in seconds."""
    probability = core_probabilities(constants, num_cores, umed_offset)
    return float(probability @ _run_times_by_cores(constants, num_cores))


def mean_work(constants: Constants, num_cores: int, umed_offset: float | None) -> float:
    """Return the mean of cores times run time of a job, in core-seconds."""
    probability = core_probabilities(constants, num_cores, umed_offset)
    return float(probability @ (np.arange(num_cores + 1) * _run_times_by_cores(constants, num_cores)))


def mean_interarrival(constants: Constants) -> float:
    """Return the long-run mean time between two arrivals in seconds.

    For x of distribution gamma(a, b), b < 1, the mean of exp(x) where x is at most c is
    (1 - b)^-a times the probability that a gamma(a, b / (1 - b)) variable is at most c.
    """
    from scipy.special import gammainc

    shape, scale = constants.aarr * constants.arar, constants.barr
    tilted = gammainc(shape, LONGEST_GAP * (1 - scale) / scale)
    return float((1 - scale) ** -shape * tilted / gammainc(shape, LONGEST_GAP / scale))
