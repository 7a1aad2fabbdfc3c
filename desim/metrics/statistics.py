"""Means with confidence intervals: over seeds, of paired differences, and of one autocorrelated series.

Everything here takes arrays or dictionaries of metrics and returns an `Estimate`. The intervals rest on
Student's t distribution: exact for independent normal samples, close for the means of many
observations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration

__all__ = ["Estimate", "batch_means", "compare", "mean_interval", "paired_difference", "summarize"]


class Estimate(NamedTuple):
    """A mean and its confidence interval.

    Attributes
    ----------
    mean : float
        The sample mean, in the unit of the sample; NaN for an empty sample or one that holds NaN.
    half_width : float
        Half the width of the confidence interval, NaN for fewer than two values.
    num_values : int
        Size of the sample.
    level : float
        Confidence level.
    """

    mean: float
    half_width: float
    num_values: int
    level: float

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width

    def excludes(self, value: float) -> bool:
        """Tell whether a value lies outside the interval.

        A paired difference that excludes 0 is significant at the level of the interval.

        Parameters
        ----------
        value : float
            The value, in the unit of the mean.

        Returns
        -------
        bool
            False if there is no interval.
        """
        return abs(value - self.mean) > self.half_width

    def __str__(self) -> str:
        """Write mean and half width."""
        return f"{self.mean:.6g} ± {self.half_width:.2g}"


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Return the mean of independent values and its confidence interval.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        For example one metric of n runs with different seeds.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Estimate
        Mean and t interval with n - 1 degrees of freedom.

    Raises
    ------
    InvalidConfiguration
        If the level is out of range or the values are not one-dimensional.
    """
    sample = _sample("values", values)
    count = len(sample)
    if not 0 < level < 1:
        raise InvalidConfiguration(f"level is {level!r}, want a number between 0 and 1")
    mean = float(sample.mean()) if count else math.nan
    if count < 2:
        return Estimate(mean, math.nan, count, level)
    from scipy.special import stdtrit  # scipy.stats would take ten times as long to import

    quantile = float(stdtrit(count - 1, (1 + level) / 2))
    return Estimate(mean, quantile * float(sample.std(ddof=1)) / math.sqrt(count), count, level)


def paired_difference(values: ArrayLike, baseline: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Return the mean of ``values - baseline`` over pairs and its confidence interval.

    Runs on the same seed share their workload, so that the interval of the difference is narrower than
    the two intervals of the means suggest.

    Parameters
    ----------
    values, baseline : array-like of float, shape (n,)
        The same metric of two agents, seed by seed in the same order.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Estimate
        Negative where the values lie below the baseline.

    Raises
    ------
    InvalidConfiguration
        If the two differ in length, or for what `mean_interval` refuses.
    """
    ours, theirs = _sample("values", values), _sample("baseline", baseline)
    if len(ours) != len(theirs):
        raise InvalidConfiguration(f"{len(ours)} values and {len(theirs)} of the baseline do not form pairs")
    return mean_interval(ours - theirs, level=level)


def batch_means(series: ArrayLike, *, num_batches: int = 20, level: float = 0.95) -> Estimate:
    """Return the mean of one long stationary series and its confidence interval, by batch means.

    Successive observations of a queue are correlated; the means of long batches of them hardly are.
    Source: Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research
    30(3), 1982, which also advises 10 to 30 batches.

    Parameters
    ----------
    series : array-like of float, shape (n,)
        Observations in order, for example waiting times, without the warm-up. Where n is no multiple
        of the number of batches, the first observations are left out.
    num_batches : int
        Batches, at least 2.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Estimate
        ``num_values`` is the number of batches.

    Raises
    ------
    InvalidConfiguration
        If there are fewer observations than batches, or for what `mean_interval` refuses.
    """
    sample = _sample("series", series)
    if num_batches < 2 or len(sample) < num_batches:
        raise InvalidConfiguration(f"num_batches is {num_batches!r} for {len(sample)} observations, want 2 or more")
    size = len(sample) // num_batches
    used = sample[len(sample) - size * num_batches :]
    return mean_interval(used.reshape(num_batches, size).mean(axis=1), level=level)


def summarize(
    metrics_by_agent: Mapping[str, Sequence[Mapping[str, float]]],
    *,
    names: Iterable[str] | None = None,
    level: float = 0.95,
) -> dict[str, dict[str, Estimate]]:
    """Return mean and confidence interval over seeds of every metric of every agent.

    Parameters
    ----------
    metrics_by_agent : mapping of str to sequence of mappings
        For each agent the metrics of its runs, one mapping a seed.
    names : iterable of str, optional
        Metrics to keep; all those of the first run if None.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    dict of str to dict of str to Estimate
        By agent, then by metric.

    Raises
    ------
    InvalidConfiguration
        If a run lacks a metric.
    """
    chosen = _chosen(metrics_by_agent, names)
    return {
        agent: {name: mean_interval(_column(agent, runs, name), level=level) for name in chosen}
        for agent, runs in metrics_by_agent.items()
    }


def compare(
    metrics_by_agent: Mapping[str, Sequence[Mapping[str, float]]],
    baseline: str,
    *,
    names: Iterable[str] | None = None,
    level: float = 0.95,
) -> dict[str, dict[str, Estimate]]:
    """Return the paired differences of every agent's metrics from those of a baseline.

    Parameters
    ----------
    metrics_by_agent : mapping of str to sequence of mappings
        For each agent the metrics of its runs, one mapping a seed, seeds in the same order.
    baseline : str
        The agent that the others are compared with.
    names : iterable of str, optional
        Metrics to keep; all those of the first run if None.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    dict of str to dict of str to Estimate
        By agent (without the baseline), then by metric: the mean of agent minus baseline.

    Raises
    ------
    InvalidConfiguration
        If there is no such baseline, agents have different numbers of runs, or a run lacks a metric.
    """
    if baseline not in metrics_by_agent:
        raise InvalidConfiguration(f"no baseline {baseline!r}; there are {', '.join(metrics_by_agent)}")
    chosen = _chosen(metrics_by_agent, names)
    references = {name: _column(baseline, metrics_by_agent[baseline], name) for name in chosen}
    return {
        agent: {name: paired_difference(_column(agent, runs, name), references[name], level=level) for name in chosen}
        for agent, runs in metrics_by_agent.items()
        if agent != baseline
    }


def _sample(argument: str, values: ArrayLike) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1:
        raise InvalidConfiguration(f"{argument} has shape {sample.shape}, want one dimension")
    return sample


def _chosen(metrics_by_agent: Mapping[str, Sequence[Mapping[str, float]]], names: Iterable[str] | None) -> list[str]:
    if names is not None:
        return list(names)
    return next((list(runs[0]) for runs in metrics_by_agent.values() if runs), [])


def _column(agent: str, runs: Sequence[Mapping[str, float]], name: str) -> list[float]:
    for number, run in enumerate(runs):
        if name not in run:
            raise InvalidConfiguration(f"run {number} of agent {agent!r} has no metric {name!r}")
    return [run[name] for run in runs]
