"""Comparing agents fairly: paired tests, ranks, performance profiles.

All functions take one value an agent and scenario. Agents have to have met the same scenarios, the same seeds of the
same workload for example: what scenarios have in common then falls out of the comparison (common random numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration

__all__ = [
    "PairedTest",
    "Profile",
    "Ranking",
    "paired_tests",
    "performance_profile",
    "rank_agents",
]

Floats = NDArray[np.float64]
Better = Literal["higher", "lower"]


class PairedTest(NamedTuple):
    """How likely a difference between two agents would be if there were none.

    Attributes
    ----------
    agents : tuple of (str, str)
        The two.
    difference : float
        Mean of the first less the second.
    p_value : float
        Two-sided, of Wilcoxon's signed-rank test; 1 where all pairs are equal.
    adjusted : float
        The same, adjusted by Holm's method for all pairs that were tested.
    """

    agents: tuple[str, str]
    difference: float
    p_value: float
    adjusted: float


def paired_tests(values_by_agent: Mapping[str, ArrayLike], baseline: str | None = None) -> list[PairedTest]:
    """Return Wilcoxon's signed-rank test for pairs of agents, adjusted for their number.

    Sources: Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945; Holm, "A simple
    sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.

    Parameters
    ----------
    values_by_agent : mapping of str to array-like of float, shape (n,)
        One value a scenario, scenarios in the same order.
    baseline : str, optional
        Test all others against this one; all pairs if left out.

    Returns
    -------
    list of PairedTest
        In the order of the agents.

    Raises
    ------
    InvalidConfiguration
        If agents have different numbers of values, or there is no such baseline.
    """
    names, table = _table(values_by_agent)
    if baseline is not None and baseline not in names:
        raise InvalidConfiguration(f"no agent {baseline!r}; there are {', '.join(names)}")
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
    """Return p-values so that one below a level is as rare among all of them as one of a single test would be."""
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
        From the best to the worst; 1 is the best in every scenario.
    statistic, p_value : float
        Of Friedman's test that all agents are alike.
    critical_difference : float
        Two agents whose mean ranks are closer than this cannot be told apart (Nemenyi).
    num_scenarios : int
        How many there were.
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
        """Return the largest groups of agents of which no two can be told apart, each from the best to the worst."""
        names, ranks = list(self.mean_ranks), list(self.mean_ranks.values())
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(ranks):
            last = max(place for place in range(first, len(ranks)) if ranks[place] - rank < self.critical_difference)
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return [tuple(names[first : last + 1]) for first, last in found]


def rank_agents(values_by_agent: Mapping[str, ArrayLike], *, better: Better, level: float = 0.95) -> Ranking:
    """Rank agents in every scenario, test whether they differ, and say how far ranks have to be apart.

    Sources: Friedman, "The use of ranks to avoid the assumption of normality implicit in the analysis of variance",
    Journal of the American Statistical Association 32, 1937; Demsar, "Statistical comparisons of classifiers over
    multiple data sets", Journal of Machine Learning Research 7, 2006.

    Parameters
    ----------
    values_by_agent : mapping of str to array-like of float, shape (n,)
        One value a scenario, scenarios in the same order; equal values share their ranks.
    better : {"higher", "lower"}
        Which values are better.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    Ranking
        Of at least three agents.

    Raises
    ------
    InvalidConfiguration
        If there are less than three agents or two scenarios, agents have different numbers of values, or an argument is
        out of range.
    """
    names, table = _table(values_by_agent)
    count, size = table.shape
    if size < 3 or count < 2:
        raise InvalidConfiguration(f"{size} agents and {count} scenarios, want at least 3 and 2")
    if not 0 < level < 1:
        raise InvalidConfiguration(f"level is {level!r}, want a number between 0 and 1")
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    ranks = rankdata(_costs(table, better), axis=1).mean(axis=0)
    alike = (table == table[:, :1]).all()
    statistic, p_value = (0.0, 1.0) if alike else friedmanchisquare(*table.T)
    quantile = float(studentized_range.ppf(level, size, np.inf)) / np.sqrt(2.0)
    apart = quantile * np.sqrt(size * (size + 1) / (6.0 * count))
    order = np.argsort(ranks, kind="stable")
    mean_ranks = {names[place]: float(ranks[place]) for place in order}
    return Ranking(mean_ranks, float(statistic), float(p_value), float(apart), count, level)


class Profile(NamedTuple):
    """In which share of the scenarios agents are how near to the best.

    Attributes
    ----------
    ratios : numpy.ndarray of shape (points,)
        Distances from the best: times its cost, from 1 on.
    shares : dict of str to numpy.ndarray of shape (points,)
        By agent, between 0 and 1.
    """

    ratios: Floats
    shares: dict[str, Floats]


def performance_profile(costs_by_agent: Mapping[str, ArrayLike], ratios: ArrayLike | None = None) -> Profile:
    """Return the performance profiles of agents.

    Source: Dolan and More, "Benchmarking optimization software with performance profiles", Mathematical Programming 91,
    2002.

    Parameters
    ----------
    costs_by_agent : mapping of str to array-like of float, shape (n,)
        Costs above 0, such as makespans; one a scenario, scenarios in the same order. Infinity stands for a failure.
    ratios : array-like of float, optional
        Where profiles are wanted; by default, wherever one of them changes.

    Returns
    -------
    Profile
        The share at 1 is that of the scenarios in which an agent is the best.

    Raises
    ------
    InvalidConfiguration
        If a cost is not above 0, no agent has a finite one in some scenario, or agents have different numbers of them.
    """
    names, table = _table(costs_by_agent, infinite=True)
    best = table.min(axis=1, keepdims=True)
    if not (table > 0).all() or not np.isfinite(best).all():
        raise InvalidConfiguration("costs have to be above 0, and in every scenario one of them finite")
    relative = table / best
    finite = relative[np.isfinite(relative)]
    points = np.unique(finite) if ratios is None else np.asarray(ratios, dtype=np.float64)
    shares = {name: (relative[:, [place]] <= points).mean(axis=0) for place, name in enumerate(names)}
    return Profile(points, shares)


def _costs(table: Floats, better: Better) -> Floats:
    if better not in ("higher", "lower"):
        raise InvalidConfiguration(f"better is {better!r}, want 'higher' or 'lower'")
    return -table if better == "higher" else table


def _table(values_by_agent: Mapping[str, ArrayLike], *, infinite: bool = False) -> tuple[list[str], Floats]:
    """Return the names of agents and their values, one column an agent."""
    names = list(values_by_agent)
    columns = [np.asarray(values, dtype=np.float64) for values in values_by_agent.values()]
    if not columns or not len(columns[0]):
        raise InvalidConfiguration("there are no values")
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1 or len(column) != len(columns[0]):
            given = f"agent {name!r} has values of shape {column.shape}"
            raise InvalidConfiguration(f"{given}, {names[0]!r} of shape {columns[0].shape}: they form no pairs")
        usable = ~np.isnan(column) if infinite else np.isfinite(column)
        if not usable.all():
            place = int(np.flatnonzero(~usable)[0])
            raise InvalidConfiguration(f"value {place} of agent {name!r} is {column[place]}")
    return names, np.stack(columns, axis=1)
