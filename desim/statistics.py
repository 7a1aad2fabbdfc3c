"""Statistics of many runs, and of comparisons between agents.

Means are returned as an `Estimate`, whose interval uses Student's t distribution: exact for independent normal samples,
close for means of many observations. Bootstrap intervals assume no distribution. Comparisons of agents take one value
per agent and scenario. All agents must run the same scenarios, so that differences between scenarios cancel (common
random numbers).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problem import Better

__all__ = [
    "LEVEL",
    "Estimate",
    "Interval",
    "PairedTest",
    "PerformanceProfile",
    "Ranking",
    "batch_means",
    "bootstrap_interval",
    "compare",
    "mean_interval",
    "paired_difference",
    "paired_tests",
    "performance_profile",
    "rank_agents",
    "smallest_p_value",
    "summarize",
]

#: Confidence level of comparisons.
LEVEL = 0.95

Floats = NDArray[np.float64]


class Estimate(NamedTuple):
    """Mean with its confidence interval.

    Attributes
    ----------
    mean : float
        Sample mean in the unit of the sample; NaN for a sample that is empty or contains NaN.
    half_width : float
        Half the width of the confidence interval; NaN for fewer than two values.
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
        """Return whether a value is outside the interval.

        A paired difference whose interval excludes 0 is significant at the level of the interval.

        Parameters
        ----------
        value : float
            Value in the unit of the mean.

        Returns
        -------
        bool
            Whether the value is outside; False if there is no interval.
        """
        return abs(value - self.mean) > self.half_width

    def __str__(self) -> str:
        """Return mean and half width as text."""
        return f"{self.mean:.6g} ± {self.half_width:.2g}"


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Return the mean of independent values with its confidence interval.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        Values such as one metric of n runs with different seeds.
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
        raise InvalidConfiguration(f"level: got {level!r}, expected a number > 0 and < 1")
    if count > 1 and (sample == sample[0]).all():  # sums of equal values are rounded
        return Estimate(float(sample[0]), 0.0, count, level)
    mean = float(sample.mean()) if count else math.nan
    if count < 2:
        return Estimate(mean, math.nan, count, level)
    from scipy.special import stdtrit  # importing scipy.stats takes ten times as long

    quantile = float(stdtrit(count - 1, (1 + level) / 2))
    return Estimate(mean, quantile * float(sample.std(ddof=1)) / math.sqrt(count), count, level)


def paired_difference(values: ArrayLike, baseline: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Return the mean of ``values - baseline`` over pairs with its confidence interval.

    Runs with the same seed share their workload, so the interval of the difference is narrower than
    the intervals of the two means suggest.

    Parameters
    ----------
    values, baseline : array-like of float, shape (n,)
        One metric of two agents, in the same order of seeds.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Estimate
        Mean difference; negative if the values are below the baseline.

    Raises
    ------
    InvalidConfiguration
        If the lengths differ, or `mean_interval` raises.
    """
    ours, theirs = _sample("values", values), _sample("baseline", baseline)
    if len(ours) != len(theirs):
        raise InvalidConfiguration(f"baseline: got {len(theirs)} values, expected {len(ours)}, one per pair")
    return mean_interval(ours - theirs, level=level)


def batch_means(series: ArrayLike, *, num_batches: int = 20, level: float = 0.95) -> Estimate:
    """Return the mean of a long stationary series with its confidence interval, by batch means.

    Successive observations of a queue are correlated; the means of long batches hardly are.
    Source: Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research
    30(3), 1982, which recommends 10 to 30 batches.

    Parameters
    ----------
    series : array-like of float, shape (n,)
        Observations in order, such as waiting times, without the warm-up. If n is not a multiple
        of the number of batches, the first observations are dropped.
    num_batches : int
        Number of batches, at least 2.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Estimate
        Mean with its interval; ``num_values`` is the number of batches.

    Raises
    ------
    InvalidConfiguration
        If there are fewer observations than batches, or `mean_interval` raises.
    """
    sample = _sample("series", series)
    if num_batches < 2 or len(sample) < num_batches:
        raise InvalidConfiguration(
            f"num_batches: got {num_batches!r}, expected an integer from 2 to the number of observations, {len(sample)}"
        )
    size = len(sample) // num_batches
    used = sample[len(sample) - size * num_batches :]
    return mean_interval(used.reshape(num_batches, size).mean(axis=1), level=level)


def summarize(
    metrics_by_agent: Mapping[str, Sequence[Mapping[str, float]]],
    *,
    names: Iterable[str] | None = None,
    level: float = 0.95,
) -> dict[str, dict[str, Estimate]]:
    """Return the mean over seeds of every metric of every agent, with confidence intervals.

    Parameters
    ----------
    metrics_by_agent : mapping of str to sequence of mappings
        Metrics of each agent's runs, one mapping per seed.
    names : iterable of str, optional
        Metrics to include; None means all metrics of the first run.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    dict of str to dict of str to Estimate
        Estimates by agent, then by metric.

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
        Metrics of each agent's runs, one mapping per seed, seeds in the same order.
    baseline : str
        Agent that the others are compared with.
    names : iterable of str, optional
        Metrics to include; None means all metrics of the first run.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    dict of str to dict of str to Estimate
        Mean of agent minus baseline, by agent (without the baseline), then by metric.

    Raises
    ------
    InvalidConfiguration
        If the baseline is unknown, agents have different numbers of runs, or a run lacks a metric.
    """
    if baseline not in metrics_by_agent:
        raise InvalidConfiguration(f"baseline: got {baseline!r}, expected one of {', '.join(metrics_by_agent)}")
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
        raise InvalidConfiguration(f"{argument}: got shape {sample.shape}, expected one dimension")
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


class Interval(NamedTuple):
    """Statistic of a sample with an interval that need not be symmetric.

    Attributes
    ----------
    value : float
        Statistic of the sample.
    low, high : float
        Ends of the interval.
    level : float
        Confidence level.
    """

    value: float
    low: float
    high: float
    level: float


def bootstrap_interval(
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    statistic: Literal["mean", "median"] = "mean",
    num_resamples: int = 9_999,
    level: float = 0.95,
) -> Interval:
    """Return a statistic of independent values with a bias-corrected and accelerated (BCa) bootstrap interval.

    It assumes no distribution, unlike t intervals for small and skewed samples. The values may be paired differences,
    such as those between the rewards of two agents seed by seed.

    Source: Efron, "Better bootstrap confidence intervals", Journal of the American Statistical Association 82, 1987.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        At least two values.
    rng : numpy.random.Generator
        Random generator for the resamples.
    statistic : {"mean", "median"}
        Statistic to compute.
    num_resamples : int
        Number of bootstrap resamples.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Interval
        Statistic with its interval; the interval has width 0 if all values are equal.

    Raises
    ------
    InvalidConfiguration
        If there are fewer than two values, one is not a number, or an argument is out of range.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or len(sample) < 2 or not np.isfinite(sample).all():
        raise InvalidConfiguration(f"values: got shape {sample.shape}, expected at least two numbers in one dimension")
    if not 0 < level < 1 or num_resamples < 1:
        raise InvalidConfiguration(f"level {level!r} or num_resamples {num_resamples!r} is out of range")
    if statistic not in ("mean", "median"):
        raise InvalidConfiguration(f"statistic: got {statistic!r}, expected 'mean' or 'median'")
    function = np.mean if statistic == "mean" else np.median
    value = float(function(sample))
    if (sample == sample[0]).all():
        return Interval(value, value, value, level)
    from scipy.stats import bootstrap

    found = bootstrap((sample,), function, n_resamples=num_resamples, confidence_level=level, rng=rng)
    return Interval(value, float(found.confidence_interval.low), float(found.confidence_interval.high), level)


class PairedTest(NamedTuple):
    """Significance test of the difference between two agents.

    Attributes
    ----------
    agents : tuple of (str, str)
        Names of the two agents.
    difference : float
        Mean of the first agent minus mean of the second.
    p_value : float
        Two-sided p-value of Wilcoxon's signed-rank test; 1 if all pairs are equal.
    adjusted : float
        P-value adjusted by Holm's method for the number of pairs tested.
    """

    agents: tuple[str, str]
    difference: float
    p_value: float
    adjusted: float


def paired_tests(values_by_agent: Mapping[str, ArrayLike], baseline: str | None = None) -> list[PairedTest]:
    """Return Wilcoxon's signed-rank tests for pairs of agents, adjusted for the number of pairs.

    Sources: Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945; Holm, "A simple
    sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.

    Parameters
    ----------
    values_by_agent : mapping of str to array-like of float, shape (n,)
        One value per scenario, scenarios in the same order.
    baseline : str, optional
        Agent that all others are tested against; if omitted, all pairs are tested.

    Returns
    -------
    list of PairedTest
        Tests in the order of the agents.

    Raises
    ------
    InvalidConfiguration
        If agents have different numbers of values, or the baseline is unknown.
    """
    names, table = _table(values_by_agent)
    if baseline is not None and baseline not in names:
        raise InvalidConfiguration(f"baseline: got {baseline!r}, expected one of {', '.join(names)}")
    pairs = list(combinations(names, 2)) if baseline is None else [(one, baseline) for one in names if one != baseline]
    from scipy.stats import wilcoxon

    found = []
    for first, second in pairs:
        differences = table[:, names.index(first)] - table[:, names.index(second)]
        p_value = float(wilcoxon(differences).pvalue) if differences.any() else 1.0
        found.append((float(differences.mean()), p_value))
    adjusted = _holm([p_value for _, p_value in found])
    return [PairedTest(pair, *one, also) for pair, one, also in zip(pairs, found, adjusted, strict=True)]


def _holm(p_values: list[float]) -> list[float]:
    """Return p-values adjusted for the number of tests by Holm's step-down method."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.array(p_values)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(one) for one in adjusted]


class Ranking(NamedTuple):
    """Mean ranks of agents over scenarios.

    Attributes
    ----------
    mean_ranks : dict of str to float
        Mean ranks from the best agent to the worst; 1 is the best in every scenario.
    statistic, p_value : float
        Statistic and p-value of Friedman's test that all agents are equal.
    critical_difference : float
        Smallest significant difference between two mean ranks (Nemenyi).
    num_scenarios : int
        Number of scenarios.
    level : float
        Confidence level of the critical difference.
    """

    mean_ranks: dict[str, float]
    statistic: float
    p_value: float
    critical_difference: float
    num_scenarios: int
    level: float

    def groups(self) -> list[tuple[str, ...]]:
        """Return the maximal groups of agents without significant differences, each from the best to the worst."""
        names, ranks = list(self.mean_ranks), list(self.mean_ranks.values())
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(ranks):
            last = max(place for place in range(first, len(ranks)) if ranks[place] - rank < self.critical_difference)
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return [tuple(names[first : last + 1]) for first, last in found]


def rank_agents(values_by_agent: Mapping[str, ArrayLike], *, better: Better, level: float = 0.95) -> Ranking:
    """Rank agents in every scenario, test whether they differ, and return the critical difference of mean ranks.

    Sources: Friedman, "The use of ranks to avoid the assumption of normality implicit in the analysis of variance",
    Journal of the American Statistical Association 32, 1937; Demsar, "Statistical comparisons of classifiers over
    multiple data sets", Journal of Machine Learning Research 7, 2006.

    Parameters
    ----------
    values_by_agent : mapping of str to array-like of float, shape (n,)
        One value per scenario, scenarios in the same order; equal values share their ranks.
    better : {"higher", "lower"}
        Whether higher or lower values are better.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Ranking
        Mean ranks of at least three agents.

    Raises
    ------
    InvalidConfiguration
        If there are fewer than three agents or two scenarios, agents have different numbers of values, or an argument
        is out of range.
    """
    names, table = _table(values_by_agent)
    count, size = table.shape
    if size < 3 or count < 2:
        raise InvalidConfiguration(f"got {size} agents and {count} scenarios, expected at least 3 and 2")
    if not 0 < level < 1:
        raise InvalidConfiguration(f"level: got {level!r}, expected a number > 0 and < 1")
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    ranks = rankdata(_costs(table, better), axis=1).mean(axis=0)
    alike = (table == table[:, :1]).all()
    statistic, p_value = (0.0, 1.0) if alike else friedmanchisquare(*table.T)
    quantile = float(studentized_range.ppf(level, size, np.inf)) / np.sqrt(2.0)
    apart = quantile * np.sqrt(size * (size + 1) / (6.0 * count))
    order = np.argsort(ranks, kind="stable")
    mean_ranks = {names[place]: float(ranks[place]) for place in order}
    return Ranking(mean_ranks, float(statistic), float(p_value), float(apart), count, level)


class PerformanceProfile(NamedTuple):
    """Performance profile: share of the scenarios in which each agent is within a ratio of the best.

    Attributes
    ----------
    ratios : numpy.ndarray of shape (points,)
        Ratios of an agent's cost to the lowest cost, from 1 up.
    shares : dict of str to numpy.ndarray of shape (points,)
        Shares by agent, between 0 and 1.
    """

    ratios: Floats
    shares: dict[str, Floats]


def performance_profile(costs_by_agent: Mapping[str, ArrayLike], ratios: ArrayLike | None = None) -> PerformanceProfile:
    """Return the performance profiles of agents.

    Source: Dolan and More, "Benchmarking optimization software with performance profiles", Mathematical Programming 91,
    2002.

    Parameters
    ----------
    costs_by_agent : mapping of str to array-like of float, shape (n,)
        Costs > 0, such as makespans, one per scenario, scenarios in the same order. Infinity stands for a failure.
    ratios : array-like of float, optional
        Ratios at which to evaluate the profiles; default: all ratios at which one of them changes.

    Returns
    -------
    PerformanceProfile
        Profiles; the share at ratio 1 is that of the scenarios in which an agent is the best.

    Raises
    ------
    InvalidConfiguration
        If a cost is not > 0, a scenario has no finite cost, or agents have different numbers of costs.
    """
    names, table = _table(costs_by_agent, infinite=True)
    best = table.min(axis=1, keepdims=True)
    if not (table > 0).all() or not np.isfinite(best).all():
        raise InvalidConfiguration("costs: expected numbers > 0, and at least one finite cost in every scenario")
    relative = table / best
    finite = relative[np.isfinite(relative)]
    points = np.unique(finite) if ratios is None else np.asarray(ratios, dtype=np.float64)
    shares = {name: (relative[:, [place]] <= points).mean(axis=0) for place, name in enumerate(names)}
    return PerformanceProfile(points, shares)


def _costs(table: Floats, better: Better) -> Floats:
    if better not in ("higher", "lower"):
        raise InvalidConfiguration(f"better: got {better!r}, expected 'higher' or 'lower'")
    return -table if better == "higher" else table


def _table(values_by_agent: Mapping[str, ArrayLike], *, infinite: bool = False) -> tuple[list[str], Floats]:
    """Return the names of agents and their values, one column per agent."""
    names = list(values_by_agent)
    columns = [np.asarray(values, dtype=np.float64) for values in values_by_agent.values()]
    if not columns or not len(columns[0]):
        raise InvalidConfiguration("values_by_agent: got no values")
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1 or len(column) != len(columns[0]):
            given = f"agent {name!r} has values of shape {column.shape}"
            raise InvalidConfiguration(f"{given}, but {names[0]!r} of shape {columns[0].shape}; expected equal shapes")
        usable = ~np.isnan(column) if infinite else np.isfinite(column)
        if not usable.all():
            place = int(np.flatnonzero(~usable)[0])
            raise InvalidConfiguration(f"value {place} of agent {name!r}: got {column[place]}, expected a number")
    return names, np.stack(columns, axis=1)


def smallest_p_value(num_seeds: int) -> float:
    """Return the smallest possible p-value of Wilcoxon's two-sided test, when all differences have the same sign.

    Parameters
    ----------
    num_seeds : int
        Number of pairs.

    Returns
    -------
    float
        P-value before any adjustment.
    """
    return math.ldexp(1.0, 1 - num_seeds)
