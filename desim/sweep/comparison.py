"""Agents compared over seeds: means, paired differences, tests, ranks, performance profiles."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.problem import Better, ProblemDescriptor
from desim.records import write_atomically
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
    "document",
    "rows_of",
    "smallest_p_value",
    "write_csv",
]

IntervalKind = Literal["t", "bootstrap"]

LEVEL = 0.95
#: Ranks of fewer scenarios cannot differ by the critical difference, whatever the agents do.
FEWEST_RANKED = 3


@dataclass(frozen=True)
class RunSummary:
    """What a comparison needs of a run.

    Attributes
    ----------
    agent : str
        Its name.
    seed : int
        Of workload and agent.
    metrics : dict of str to float
        By name.
    validation : dict
        Outcome of the check, with ``valid``, ``counts`` and ``violations``.
    workload : str
        A digest of what does not depend on the agent; empty where that is not known.
    directory : Path or None
        Where its records are, if they were stored.
    reused : bool
        Whether it was there already.
    stalled : str
        Why it has come to nothing before its work was done; empty if it has not.
    """

    agent: str
    seed: int
    metrics: dict[str, float]
    validation: dict[str, Any]
    workload: str = ""
    directory: Path | None = None
    reused: bool = False
    stalled: str = ""


@dataclass(frozen=True)
class Criterion:
    """What agents are ranked by.

    Attributes
    ----------
    metric : str
        Its name.
    better : {"lower", "higher"}
        Which values are better.
    """

    metric: str
    better: Better


@dataclass(frozen=True)
class Comparison:
    """Runs of several agents on the same seeds.

    Attributes
    ----------
    baseline : str
        The agent that the others are compared with.
    seeds : list of int
        In the order of the metrics.
    kind : ProblemDescriptor
        What is known of the metrics.
    metrics : dict of str to list of dict
        By agent, the metrics of each seed.
    means : dict of str to dict of str to Interval
        By agent and metric, over the seeds.
    differences : dict of str to dict of str to Interval
        The same of each agent minus the baseline, seed by seed; without the baseline.
    interval : {"t", "bootstrap"}
        What the intervals rest on.
    shown : tuple of str
        The metrics of the tables.
    tests : dict of str to dict of str to PairedTest
        By metric of the tables and agent: Wilcoxon's test against the baseline, adjusted for the number of agents.
    criterion : Criterion or None
        What agents are ranked by; None if it is not known which values are better.
    ranking : Ranking or None
        Of at least three agents over at least three seeds.
    profile : PerformanceProfile or None
        Of costs above 0: the values, or their reciprocals where higher is better.
    left_out : dict of str to str
        Agents that are not ranked, and why.
    unequal : list of str
        What is wrong where agents did not have the same workload.
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

    @property
    def unfinished(self) -> list[str]:
        """Agents of which a run left jobs behind that metrics do not cover."""
        counts = self.kind.words.left_behind.values()
        return [agent for agent, runs in self.metrics.items() if any(run[name] for run in runs for name in counts)]

    @property
    def table(self) -> dict[str, dict[str, float]]:
        """The means alone, by agent and metric."""
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
    """Put the runs of all agents and seeds together.

    Parameters
    ----------
    summaries : sequence of RunSummary
        Every agent on the same seeds.
    baseline : str
        The agent that the others are compared with.
    kind : ProblemDescriptor
        What is known of the metrics.
    interval : {"t", "bootstrap"}
        What the intervals rest on.
    metric : str, optional
        What agents are ranked by; the first of the headline if left out.
    better : {"lower", "higher"}, optional
        Which values of it are better; what is known of it if left out.

    Returns
    -------
    Comparison
        Means, differences, tests and ranks.

    Raises
    ------
    InvalidConfiguration
        If there is no such metric, or it is not known which values are better.
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
    )
    return found if criterion is None else _ranked(found, criterion, values)


def check_criterion(kind: ProblemDescriptor, metric: str | None, better: Better | None) -> None:
    """Complain about a metric that a problem does not have, before anything is simulated.

    Parameters
    ----------
    kind : ProblemDescriptor
        What is known of the metrics.
    metric : str or None
        What agents are to be ranked by.
    better : {"lower", "higher"} or None
        Which values of it are better.

    Raises
    ------
    InvalidConfiguration
        If there is no such metric, or it is not known which values are better.
    """
    if metric is not None and not any(known.fits(metric) for known in kind.metrics):
        _criterion(kind.metrics.names, kind, metric, better)
    elif metric is not None:
        _criterion([metric], kind, metric, better)


def _criterion(
    names: Sequence[str], kind: ProblemDescriptor, metric: str | None, better: Better | None
) -> Criterion | None:
    if metric is not None and metric not in names:
        raise InvalidConfiguration(f"metric is {metric!r}{did_you_mean(metric, names)}; there are {', '.join(names)}")
    chosen = metric or next((name for name in kind.metrics.headline if name in names), names[0])
    direction = better or kind.metrics[chosen].better
    if direction is None and metric is not None:
        raise InvalidConfiguration(f"which values of {metric} are better? Say --better lower or --better higher")
    return None if direction is None else Criterion(chosen, direction)


def _interval(values: Sequence[float] | np.ndarray[tuple[int, ...], np.dtype[np.float64]], kind: str) -> Interval:
    """Return a mean with an interval; one of no number has no ends."""
    sample = np.asarray(values, dtype=np.float64)
    if kind == "bootstrap" and len(sample) > 1 and np.isfinite(sample).all():
        return bootstrap_interval(sample, np.random.default_rng(0), level=LEVEL)
    with np.errstate(invalid="ignore"):  # infinite values
        found: Estimate = mean_interval(sample, level=LEVEL)
    return Interval(found.mean, found.low, found.high, LEVEL)


def _tests(name: str, values: Mapping[str, Mapping[str, Sequence[float]]], baseline: str) -> dict[str, PairedTest]:
    """Test all agents against the baseline, but for those that have a value which is no number."""
    usable = {agent: row[name] for agent, row in values.items() if np.isfinite(row[name]).all()}
    if baseline not in usable or len(usable) < 2 or len(usable[baseline]) < 2:
        return {}
    return {test.agents[0]: test for test in paired_tests(usable, baseline)}


def _ranked(
    comparison: Comparison, criterion: Criterion, values: Mapping[str, Mapping[str, Sequence[float]]]
) -> Comparison:
    """Return a comparison with ranks and performance profiles of all agents for which that is fair."""
    name, left_out = criterion.metric, {}
    misses = name.startswith(comparison.kind.words.of_finished_jobs) if comparison.unfinished else False
    for agent, row in values.items():
        if misses and agent in comparison.unfinished:
            left_out[agent] = "left jobs behind"
        elif not np.isfinite(row[name]).all():
            left_out[agent] = f"has no {name} for some seed"
    ranked = {agent: row[name] for agent, row in values.items() if agent not in left_out}
    ranking = profile = None
    if len(ranked) >= 3 and len(comparison.seeds) >= FEWEST_RANKED:
        ranking = rank_agents(ranked, better=criterion.better, level=LEVEL)
    if len(ranked) >= 2 and len(comparison.seeds) >= 2 and all(min(row) > 0 for row in ranked.values()):
        is_gain = criterion.better == "higher"
        profile = performance_profile({agent: np.reciprocal(row) if is_gain else row for agent, row in ranked.items()})
    return replace(comparison, ranking=ranking, profile=profile, left_out=left_out)


def _unequal(summaries: Sequence[RunSummary], baseline: str) -> list[str]:
    """Say which agents did not have the workload of the baseline, seed by seed."""
    theirs = {one.seed: one.workload for one in summaries if one.agent == baseline}
    others: dict[int, list[str]] = {}
    for one in summaries:
        if one.workload != theirs[one.seed]:
            others.setdefault(one.seed, []).append(one.agent)
    return [f"seed {seed}: not the workload of {baseline}: {', '.join(agents)}" for seed, agents in others.items()]


def smallest_p_value(num_seeds: int) -> float:
    """Return the smallest p-value that Wilcoxon's two-sided test can have, all differences having the same sign.

    Parameters
    ----------
    num_seeds : int
        Number of pairs.

    Returns
    -------
    float
        Before any adjustment.
    """
    return math.ldexp(1.0, 1 - num_seeds)


def document(comparison: Comparison, summaries: Sequence[RunSummary]) -> dict[str, Any]:
    """Return everything as plain values.

    Parameters
    ----------
    comparison : Comparison
        Means, differences, tests, ranks.
    summaries : sequence of RunSummary
        The runs.

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
        "seeds": comparison.seeds,
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
    """Return a table with one row for each agent and metric.

    Parameters
    ----------
    comparison : Comparison
        What it is of.

    Returns
    -------
    (list of str, list of list)
        Names of the columns, of which the first three are no measurements; and the rows, NaN where there is no value.
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
    """Write one row for each agent and metric.

    Parameters
    ----------
    comparison : Comparison
        What to write.
    path : Path
        The file.

    Returns
    -------
    Path
        The file. Nothing stands where there is no value.

    Raises
    ------
    RecordError
        If it cannot be written.
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
