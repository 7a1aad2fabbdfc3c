"""Comparison of agents over seeds or windows: means, paired differences, tests, ranks, performance profiles."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.files import write_atomically
from desim.problem import Better, ProblemDescriptor
from desim.result import Result
from desim.statistics import (
    Estimate,
    Interval,
    PairedTest,
    PerformanceProfile,
    Ranking,
    bootstrap_interval,
    mean_interval,
    paired_tests,
    performance_profile,
    rank_agents,
)

__all__ = [
    "LEVEL",
    "Comparison",
    "Criterion",
    "IntervalKind",
    "RunSummary",
    "check_criterion",
    "compare_runs",
    "dependence",
    "document",
    "rows_of",
    "smallest_p_value",
    "write_csv",
]

IntervalKind = Literal["t", "bootstrap"]

LEVEL = 0.95
#: Minimum number of scenarios to rank: with fewer, ranks cannot differ by the critical difference.
FEWEST_RANKED = 3
#: Minimum number of windows for a correlation of neighbours.
FEWEST_CORRELATED = 10


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run for comparisons.

    Attributes
    ----------
    agent : str
        Name of the agent.
    seed : int
        Seed of workload and agent, or number of the window.
    metrics : dict of str to float
        Metrics by name.
    validation : dict
        Outcome of the validation, with ``valid``, ``counts`` and ``violations``.
    workload : str
        Digest of the data that do not depend on the agent; empty if unknown.
    directory : Path or None
        Directory of the records, if they were stored.
    reused : bool
        Whether the run was stored before.
    stalled : str
        Reason why the run stalled; empty if it did not.
    window : tuple of float
        Number of the window of a log, begin of its warm-up, start and end of the measured interval, and end of its
        cool-down, as far as known; empty if the run is of no window.
    """

    agent: str
    seed: int
    metrics: dict[str, float]
    validation: dict[str, Any]
    workload: str = ""
    directory: Path | None = None
    reused: bool = False
    stalled: str = ""
    window: tuple[float, ...] = ()

    def load(self) -> Result:
        """Return the stored run; raise InvalidConfiguration if its records were not stored."""
        if self.directory is None:
            raise InvalidConfiguration(f"{self.agent}, seed {self.seed}: the records were not stored")
        return Result.load(self.directory)


@dataclass(frozen=True)
class Criterion:
    """Criterion for ranking agents.

    Attributes
    ----------
    metric : str
        Name of the metric.
    better : {"lower", "higher"}
        Whether lower or higher values are better.
    """

    metric: str
    better: Better


@dataclass(frozen=True)
class Comparison:
    """Comparison of several agents over the same seeds, or over the same windows.

    Attributes
    ----------
    baseline : str
        Agent that the others are compared with.
    seeds : list of int
        Seeds, or numbers of the windows, in the order of the metrics.
    kind : ProblemDescriptor
        Kind of problem, with the descriptions of the metrics.
    metrics : dict of str to list of dict
        Metrics of each agent's runs, one dictionary per seed.
    means : dict of str to dict of str to Interval
        Means over the seeds, by agent and metric.
    differences : dict of str to dict of str to Interval
        Means of agent minus baseline, paired by seed, by agent (without the baseline) and metric.
    interval : {"t", "bootstrap"}
        Method for the intervals.
    shown : tuple of str
        Names of the metrics in the tables.
    tests : dict of str to dict of str to PairedTest
        Wilcoxon's tests against the baseline, adjusted for the number of agents, by metric of the tables and agent.
    criterion : Criterion or None
        Criterion for ranking; None if neither lower nor higher values of the metric are better.
    ranking : Ranking or None
        Ranking of at least three agents over at least three seeds.
    profile : PerformanceProfile or None
        Performance profiles of costs > 0: the values, or their reciprocals if higher is better.
    left_out : dict of str to str
        Agents that are not ranked, with the reason.
    unequal : list of str
        Sentences about agents that did not have the same workload.
    windows : tuple of tuple of float
        Windows as in the summaries, in the order of the metrics; empty if seeds are compared.
    """

    baseline: str
    seeds: list[int]
    kind: ProblemDescriptor
    metrics: dict[str, list[dict[str, float]]]
    means: dict[str, dict[str, Interval]]
    differences: dict[str, dict[str, Interval]]
    interval: IntervalKind
    shown: tuple[str, ...]
    tests: dict[str, dict[str, PairedTest]] = field(default_factory=dict)
    criterion: Criterion | None = None
    ranking: Ranking | None = None
    profile: PerformanceProfile | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    unequal: list[str] = field(default_factory=list)
    windows: tuple[tuple[float, ...], ...] = ()

    @property
    def pair(self) -> str:
        """What the runs of all agents have in common: ``"seed"`` or ``"window"``."""
        return "window" if self.windows else "seed"

    @property
    def unfinished(self) -> list[str]:
        """Agents with a run that left jobs unfinished which the metrics do not cover."""
        counts = self.kind.words.left_behind.values()
        return [agent for agent, runs in self.metrics.items() if any(run[name] for run in runs for name in counts)]

    @property
    def table(self) -> dict[str, dict[str, float]]:
        """Means without intervals, by agent and metric."""
        return {agent: {name: item.value for name, item in row.items()} for agent, row in self.means.items()}


def compare_runs(
    summaries: Sequence[RunSummary],
    baseline: str,
    kind: ProblemDescriptor,
    *,
    interval: IntervalKind = "t",
    metric: str | None = None,
    better: Better | None = None,
) -> Comparison:
    """Return the comparison of the runs of all agents and seeds.

    Parameters
    ----------
    summaries : sequence of RunSummary
        Summaries of every agent on the same seeds.
    baseline : str
        Agent that the others are compared with.
    kind : ProblemDescriptor
        Kind of problem, with the descriptions of the metrics.
    interval : {"t", "bootstrap"}
        Method for the intervals.
    metric : str, optional
        Metric that agents are ranked by; default: the first of the headline.
    better : {"lower", "higher"}, optional
        Whether lower or higher values of it are better; default: as the metric is defined.

    Returns
    -------
    Comparison
        Means, differences, tests and ranks.

    Raises
    ------
    InvalidConfiguration
        If the metric is unknown, or it is not known which values are better.
    """
    metrics: dict[str, list[dict[str, float]]] = {}
    for summary in summaries:
        metrics.setdefault(summary.agent, []).append(summary.metrics)
    names = list(next(iter(metrics.values()))[0])
    criterion = _criterion(names, kind, metric, better)
    shown = [name for name in kind.metrics.headline if name in names] or names[:5]
    if criterion is not None and criterion.metric not in shown:
        shown.insert(0, criterion.metric)
    values = {agent: {name: [run[name] for run in runs] for name in names} for agent, runs in metrics.items()}
    found = Comparison(
        baseline,
        list(dict.fromkeys(summary.seed for summary in summaries)),
        kind,
        metrics,
        {agent: {name: _interval(row[name], interval) for name in names} for agent, row in values.items()},
        {
            agent: {name: _interval(np.subtract(row[name], values[baseline][name]), interval) for name in names}
            for agent, row in values.items()
            if agent != baseline
        },
        interval,
        tuple(shown),
        tests={name: _tests(name, values, baseline) for name in shown},
        criterion=criterion,
        unequal=_unequal(summaries, baseline),
        windows=tuple(one.window for one in summaries if one.agent == baseline and one.window),
    )
    return found if criterion is None else _ranked(found, criterion, values)


def check_criterion(kind: ProblemDescriptor, metric: str | None, better: Better | None) -> None:
    """Raise before any simulation if a problem lacks a metric, or if it is not known which values are better.

    Parameters
    ----------
    kind : ProblemDescriptor
        Kind of problem, with the descriptions of the metrics.
    metric : str or None
        Metric that agents are to be ranked by.
    better : {"lower", "higher"} or None
        Whether lower or higher values of it are better.

    Raises
    ------
    InvalidConfiguration
        If the metric is unknown, or it is not known which values are better.
    """
    if metric is not None and not any(known.fits(metric) for known in kind.metrics):
        _criterion(kind.metrics.names, kind, metric, better)
    elif metric is not None:
        _criterion([metric], kind, metric, better)


def _criterion(
    names: Sequence[str], kind: ProblemDescriptor, metric: str | None, better: Better | None
) -> Criterion | None:
    if metric is not None and metric not in names:
        raise InvalidConfiguration(
            f"metric: got {metric!r}{did_you_mean(metric, names)}, expected one of {', '.join(names)}"
        )
    chosen = metric or next((name for name in kind.metrics.headline if name in names), names[0])
    direction = better or kind.metrics[chosen].better
    if direction is None and metric is not None:
        raise InvalidConfiguration(
            f"metric {metric}: it is not known which values are better; give --better lower or higher"
        )
    return None if direction is None else Criterion(chosen, direction)


def _interval(values: Sequence[float] | np.ndarray[tuple[int, ...], np.dtype[np.float64]], kind: str) -> Interval:
    """Return a mean with its interval; NaN ends if the mean is NaN."""
    sample = np.asarray(values, dtype=np.float64)
    if kind == "bootstrap" and len(sample) > 1 and np.isfinite(sample).all():
        return bootstrap_interval(sample, np.random.default_rng(0), level=LEVEL)
    with np.errstate(invalid="ignore"):  # infinite values
        found: Estimate = mean_interval(sample, level=LEVEL)
    return Interval(found.mean, found.low, found.high, LEVEL)


def _tests(name: str, values: Mapping[str, Mapping[str, Sequence[float]]], baseline: str) -> dict[str, PairedTest]:
    """Return tests of all agents against the baseline, except agents with a value that is NaN."""
    usable = {agent: row[name] for agent, row in values.items() if np.isfinite(row[name]).all()}
    if baseline not in usable or len(usable) < 2 or len(usable[baseline]) < 2:
        return {}
    return {test.agents[0]: test for test in paired_tests(usable, baseline)}


def _ranked(
    comparison: Comparison, criterion: Criterion, values: Mapping[str, Mapping[str, Sequence[float]]]
) -> Comparison:
    """Return a comparison with ranks and performance profiles of all agents with comparable values."""
    name, left_out = criterion.metric, {}
    misses = name.startswith(comparison.kind.words.of_finished_jobs) if comparison.unfinished else False
    for agent, row in values.items():
        if misses and agent in comparison.unfinished:
            left_out[agent] = "left jobs unfinished"
        elif not np.isfinite(row[name]).all():
            left_out[agent] = f"has no {name} for some {comparison.pair}"
    ranked = {agent: row[name] for agent, row in values.items() if agent not in left_out}
    ranking = profile = None
    if len(ranked) >= 3 and len(comparison.seeds) >= FEWEST_RANKED:
        ranking = rank_agents(ranked, better=criterion.better, level=LEVEL)
    if len(ranked) >= 2 and len(comparison.seeds) >= 2 and all(min(row) > 0 for row in ranked.values()):
        is_gain = criterion.better == "higher"
        profile = performance_profile({agent: np.reciprocal(row) if is_gain else row for agent, row in ranked.items()})
    return replace(comparison, ranking=ranking, profile=profile, left_out=left_out)


def _unequal(summaries: Sequence[RunSummary], baseline: str) -> list[str]:
    """Return sentences on the agents that did not have the workload of the baseline, seed by seed."""
    theirs = {one.seed: one.workload for one in summaries if one.agent == baseline}
    others: dict[int, list[str]] = {}
    pair = "window" if summaries[0].window else "seed"
    for one in summaries:
        if one.workload != theirs[one.seed]:
            others.setdefault(one.seed, []).append(one.agent)
    return [
        f"{pair} {seed}: workload differs from that of {baseline}: {', '.join(agents)}"
        for seed, agents in others.items()
    ]


def dependence(comparison: Comparison) -> str:
    """Return how far the windows of a comparison depend on each other.

    Parameters
    ----------
    comparison : Comparison
        Comparison over windows of a log.

    Returns
    -------
    str
        A sentence on neighbouring windows that overlap, touch, or share simulated jobs, with the correlations of their
        differences from the baseline; empty if all windows are apart, or their places are unknown.
    """
    order = sorted(range(len(comparison.windows)), key=lambda at: comparison.windows[at])
    pairs = list(pairwise(comparison.windows[at] for at in order if len(comparison.windows[at]) > 1))
    overlap = sum(after[2] < before[3] for before, after in pairs)
    touch = sum(after[2] == before[3] for before, after in pairs)
    shared = sum(after[2] > before[3] and after[1] < before[4] for before, after in pairs)
    counts = {"overlap": overlap, "touch": touch, "share jobs of warm-up or cool-down": shared}
    told = [f"{count} {what}" for what, count in counts.items() if count]
    if not told:
        return ""
    text = (
        f"Of {len(pairs)} pairs of neighbouring windows, {', '.join(told)}: these windows depend on each other, and "
        "intervals and p-values take them as independent."
    )
    found, name = [], comparison.shown[0] if comparison.criterion is None else comparison.criterion.metric
    for agent in comparison.differences:
        runs = zip(comparison.metrics[agent], comparison.metrics[comparison.baseline], strict=True)
        values = np.array([mine[name] - theirs[name] for mine, theirs in runs])[order]
        if (
            len(values) >= FEWEST_CORRELATED
            and np.isfinite(values).all()
            and np.ptp(values[1:])
            and np.ptp(values[:-1])
        ):
            found.append(f"{agent} {np.corrcoef(values[1:], values[:-1])[0, 1]:+.2f}")
    return f"{text} Correlation of the differences of neighbours in {name}: {', '.join(found)}." if found else text


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


def document(comparison: Comparison, summaries: Sequence[RunSummary]) -> dict[str, Any]:
    """Return a comparison as plain values.

    Parameters
    ----------
    comparison : Comparison
        Means, differences, tests and ranks.
    summaries : sequence of RunSummary
        Summaries of the runs.

    Returns
    -------
    dict
        ``means`` and ``differences`` by agent and metric, each with the ends of its interval; ``tests`` by metric and
        agent; ``ranking`` and ``profile``, None where there is none; and ``runs``.
    """
    return {
        "baseline": comparison.baseline,
        "level": LEVEL,
        "interval": comparison.interval,
        "pair": comparison.pair,
        "seeds": comparison.seeds,
        "dependence": dependence(comparison),
        "means": _intervals(comparison.means),
        "differences": _intervals(comparison.differences),
        "tests": {
            name: {
                agent: {"difference": test.difference, "p_value": test.p_value, "adjusted": test.adjusted}
                for agent, test in tests.items()
            }
            for name, tests in comparison.tests.items()
        },
        "ranking": _ranking_document(comparison),
        "profile": _profile_document(comparison),
        "runs": [
            {
                "agent": summary.agent,
                "seed": summary.seed,
                "window": summary.window,
                "records": summary.directory,
                "reused": summary.reused,
                "valid": summary.validation["valid"],
                "violations": summary.validation["violations"],
                "workload": summary.workload,
                "metrics": summary.metrics,
            }
            for summary in summaries
        ],
    }


def _intervals(table: Mapping[str, Mapping[str, Interval]]) -> dict[str, Any]:
    return {
        agent: {name: {"mean": item.value, "low": item.low, "high": item.high} for name, item in row.items()}
        for agent, row in table.items()
    }


def _ranking_document(comparison: Comparison) -> dict[str, Any] | None:
    criterion, ranking = comparison.criterion, comparison.ranking
    if criterion is None or ranking is None:
        return None
    return {
        "metric": criterion.metric,
        "better": criterion.better,
        "mean_ranks": ranking.mean_ranks,
        "critical_difference": ranking.critical_difference,
        "groups": ranking.groups(),
        "friedman": {"statistic": ranking.statistic, "p_value": ranking.p_value},
        "num_scenarios": ranking.num_scenarios,
        "left_out": comparison.left_out,
    }


def _profile_document(comparison: Comparison) -> dict[str, Any] | None:
    criterion, profile = comparison.criterion, comparison.profile
    if criterion is None or profile is None:
        return None
    shares = {agent: row.tolist() for agent, row in profile.shares.items()}
    return {"metric": criterion.metric, "ratios": profile.ratios.tolist(), "shares": shares}


def rows_of(comparison: Comparison) -> tuple[list[str], list[list[str | int | float]]]:
    """Return a table with one row per agent and metric.

    Parameters
    ----------
    comparison : Comparison
        Comparison to tabulate.

    Returns
    -------
    (list of str, list of list)
        Column names, of which the first three are not measurements; and the rows, with NaN for missing values.
    """
    ends = ("mean", "low", "high")
    heads = ["agent", "metric", "seeds", *ends, *(f"difference_{end}" for end in ends)]
    ranks = {} if comparison.ranking is None else comparison.ranking.mean_ranks
    rows: list[list[str | int | float]] = []
    for agent, means in comparison.means.items():
        for name, found in means.items():
            difference = comparison.differences.get(agent, {}).get(name)
            test = comparison.tests.get(name, {}).get(agent)
            is_ranked = comparison.criterion is not None and comparison.criterion.metric == name
            numbers = [
                *found[:3],
                *(difference[:3] if difference else [math.nan] * 3),
                *([test.p_value, test.adjusted] if test else [math.nan] * 2),
                ranks.get(agent, math.nan) if is_ranked else math.nan,
            ]
            rows.append([agent, name, len(comparison.seeds), *map(float, numbers)])
    return [*heads, "p_value", "p_value_adjusted", "mean_rank"], rows


def write_csv(comparison: Comparison, path: Path) -> Path:
    """Write one row per agent and metric as CSV.

    Parameters
    ----------
    comparison : Comparison
        Comparison to write.
    path : Path
        Path of the file.

    Returns
    -------
    Path
        Path of the file. Missing values are empty.

    Raises
    ------
    RecordError
        If the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads, rows = rows_of(comparison)
    writer.writerow(heads)
    for agent, name, seeds, *numbers in rows:
        cells = [repr(number) if math.isfinite(float(number)) else "" for number in numbers]
        writer.writerow([agent, name, seeds, *cells])
    write_atomically(path, lambda draft: draft.write_text(text.getvalue()))
    return path
