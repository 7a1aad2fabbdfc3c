"""Comparison of agents over seeds or windows: means, paired differences, tests, ranks, performance profiles."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.files import write_atomically
from desim.formatting import all_names, how_many
from desim.problem import Better, ProblemDescriptor
from desim.result import Result
from desim.statistics import (
    LEVEL,
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
from desim.sweep.runner import Run
from desim.sweep.tables import as_html, as_text
from desim.sweep.workers import Failed

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Comparison",
    "Criterion",
    "IntervalKind",
    "check_criterion",
    "compare_runs",
    "write_csv",
]

IntervalKind = Literal["t", "bootstrap"]

#: Minimum number of scenarios to rank: with fewer, ranks cannot differ by the critical difference.
FEWEST_RANKED = 3
#: Minimum number of windows for a correlation of neighbours.
FEWEST_CORRELATED = 10


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


@dataclass(frozen=True, repr=False)
class Comparison:
    """Comparison of several agents over the same seeds or windows; shows its tables in a notebook and when printed.

    Attributes
    ----------
    all_runs : tuple of Run
        Runs of every agent without failed runs, on the same seeds or windows.
    baseline : str
        Agent that the others are compared with.
    kind : ProblemDescriptor
        Kind of problem, with the descriptions of the metrics.
    criterion : Criterion or None
        Criterion for ranking; None if neither lower nor higher values of the metric are better.
    interval : {"t", "bootstrap"}
        Method for the intervals.
    failed : mapping of str to sequence of Failed
        Failed runs by agent.
    workload, options : mapping
        Workload, and options of the comparison, as plain values.
    command : str or None
        Command line that produced the comparison.
    study : mapping
        Options that repeat the comparison, the content of ``study.toml``; empty if problem, agents or metrics are given
        as Python objects.
    files : tuple of Path
        Paths of the files written.
    """

    all_runs: tuple[Run, ...]
    baseline: str
    kind: ProblemDescriptor
    criterion: Criterion | None = None
    interval: IntervalKind = "t"
    failed: Mapping[str, Sequence[Failed[Run]]] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    study: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        """Return a line with the agents and the best of them."""
        by = "" if self.criterion is None else f", best by {self.criterion.metric}: {self.best}"
        count = how_many(len(self.seeds), self.pair)
        return f"Comparison({self.kind.name}: {', '.join(self.means)}; {count}{by})"

    def __str__(self) -> str:
        """Return the tables as text, as the command line prints them."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """Return the tables and the main results in sentences, for notebooks."""
        return as_html(self)

    @cached_property
    def seeds(self) -> list[int]:
        """Seeds, or numbers of the windows, in the order of the metrics."""
        return list(dict.fromkeys(run.seed for run in self.all_runs))

    @cached_property
    def windows(self) -> tuple[tuple[float, ...], ...]:
        """Windows as the runs name them, in the order of the metrics; empty if seeds are compared."""
        return tuple(run.window for run in self.all_runs if run.policy == self.baseline and run.window)

    @property
    def pair(self) -> str:
        """What the runs of all agents have in common: ``"seed"`` or ``"window"``."""
        return "window" if self.windows else "seed"

    @cached_property
    def metrics(self) -> dict[str, dict[str, list[float]]]:
        """Values by agent and metric, one per seed or window; NaN for metrics that only other agents' runs have."""
        names, found = all_names(run.metrics for run in self.all_runs), dict[str, dict[str, list[float]]]()
        for run in self.all_runs:
            row = found.setdefault(run.policy, {name: [] for name in names})
            for name, values in row.items():
                values.append(run.metrics.get(name, math.nan))
        return found

    @cached_property
    def means(self) -> dict[str, dict[str, Interval]]:
        """Means over the seeds or windows, by agent and metric."""
        return {agent: {name: self._interval(row[name]) for name in row} for agent, row in self.metrics.items()}

    @cached_property
    def differences(self) -> dict[str, dict[str, Interval]]:
        """Means of agent minus baseline, paired by seed or window, by agent (without the baseline) and metric."""
        base = self.metrics[self.baseline]
        return {
            agent: {name: self._interval(np.subtract(row[name], base[name])) for name in row}
            for agent, row in self.metrics.items()
            if agent != self.baseline
        }

    def _interval(self, values: ArrayLike) -> Interval:
        """Return a mean with its interval; NaN ends if the mean is NaN."""
        sample = np.asarray(values, dtype=np.float64)
        if self.interval == "bootstrap" and len(sample) > 1 and np.isfinite(sample).all():
            return bootstrap_interval(sample, np.random.default_rng(0), level=LEVEL)
        with np.errstate(invalid="ignore"):  # infinite values
            found: Estimate = mean_interval(sample, level=LEVEL)
        return Interval(found.mean, found.low, found.high, LEVEL)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """Names of the metrics in the tables: few, with those of what happened only in some workloads where it did."""
        metrics, rows = self.kind.metrics, list(self.metrics.values())
        shown = [name for name in metrics.headline if name in rows[0]] or list(rows[0])[:5]
        shown += [name for name in metrics.incidents if any(any(row.get(name, ())) for row in rows)]
        own = [] if self.criterion is None or self.criterion.metric in shown else [self.criterion.metric]
        return (*own, *shown)

    @property
    def main_metric(self) -> str:
        """Metric that agents are ranked by, or else the first one of the tables."""
        return self.shown[0] if self.criterion is None else self.criterion.metric

    @cached_property
    def tests(self) -> dict[str, dict[str, PairedTest]]:
        """Wilcoxon's tests against the baseline, adjusted for the number of agents, by metric of the tables and agent.

        Agents with a value that is NaN are left out.
        """
        found: dict[str, dict[str, PairedTest]] = {}
        for name in self.shown:
            usable = {agent: row[name] for agent, row in self.metrics.items() if np.isfinite(row[name]).all()}
            can = self.baseline in usable and len(usable) > 1 and len(self.seeds) > 1
            found[name] = {test.agents[0]: test for test in paired_tests(usable, self.baseline)} if can else {}
        return found

    @property
    def unfinished(self) -> list[str]:
        """Agents with a run that left jobs unfinished which the metrics do not cover."""
        counts = self.kind.words.left_behind.values()
        return [agent for agent, row in self.metrics.items() if any(any(row[name]) for name in counts)]

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Agents that are not ranked, with the reason."""
        if self.criterion is None:
            return {}
        name, unfinished = self.criterion.metric, self.unfinished
        misses = bool(unfinished) and name.startswith(self.kind.words.of_finished_jobs)
        return {
            agent: "left jobs unfinished" if misses and agent in unfinished else f"has no {name} for some {self.pair}"
            for agent, row in self.metrics.items()
            if (misses and agent in unfinished) or not np.isfinite(row[name]).all()
        }

    def _ranked(self, least: int) -> dict[str, list[float]]:
        """Return the values of all ranked agents by the criterion; empty if there are fewer agents."""
        by = self.criterion
        found = {} if by is None else {a: row[by.metric] for a, row in self.metrics.items() if a not in self.left_out}
        return found if len(found) >= least else {}

    @cached_property
    def ranking(self) -> Ranking | None:
        """Ranking of at least three agents over at least three seeds or windows."""
        if self.criterion is None or len(self.seeds) < FEWEST_RANKED or not (ranked := self._ranked(3)):
            return None
        return rank_agents(ranked, better=self.criterion.better, level=LEVEL)

    @cached_property
    def profile(self) -> PerformanceProfile | None:
        """Performance profiles of costs > 0: the values, or their reciprocals if higher is better."""
        ranked = self._ranked(2)
        if self.criterion is None or len(self.seeds) < 2 or not ranked or min(map(min, ranked.values())) <= 0:
            return None
        is_gain = self.criterion.better == "higher"
        return performance_profile({agent: np.reciprocal(row) if is_gain else row for agent, row in ranked.items()})

    @property
    def no_profile(self) -> str:
        """Why several agents have no performance profile over several seeds or windows; empty if they have one."""
        ranked = self._ranked(2) if len(self.seeds) > 1 else {}
        if self.profile is not None or self.criterion is None or not ranked:
            return ""
        counts = {agent: sum(value <= 0 for value in row) for agent, row in ranked.items()}
        told = ", ".join(f"{agent} in {how_many(count, self.pair)}" for agent, count in counts.items() if count)
        return f"No performance profiles: {self.criterion.metric} is not above 0 for {told}, so it has no ratios."

    @property
    def best(self) -> str | None:
        """Agent with the best mean of the ranking metric; None if there is none."""
        if self.criterion is None:
            return None
        means = {agent: self.means[agent][self.criterion.metric].value for agent in self._ranked(1)}
        return (min if self.criterion.better == "lower" else max)(means, key=lambda agent: means[agent], default=None)

    @property
    def mean_table(self) -> dict[str, dict[str, float]]:
        """Means without intervals, by agent and metric."""
        return {agent: {name: item.value for name, item in row.items()} for agent, row in self.means.items()}

    @cached_property
    def unequal(self) -> list[str]:
        """Sentences on the agents that did not have the workload of the baseline, seed by seed."""
        theirs = {one.seed: one.workload for one in self.all_runs if one.policy == self.baseline}
        others: dict[int, list[str]] = {}
        for one in self.all_runs:
            if one.workload != theirs[one.seed]:
                others.setdefault(one.seed, []).append(one.policy)
        return [
            f"{self.pair} {seed}: workload differs from that of {self.baseline}: {', '.join(agents)}"
            for seed, agents in others.items()
        ]

    @cached_property
    def dependence(self) -> str:
        """How far the windows depend on each other.

        A sentence on neighbouring windows that overlap, touch, or share simulated jobs, with the correlations of their
        differences from the baseline; empty if all windows are apart, or their places are unknown.
        """
        order = sorted(range(len(self.windows)), key=lambda at: self.windows[at])
        pairs = list(pairwise(self.windows[at] for at in order if len(self.windows[at]) > 1))
        counts = {
            "overlap": sum(after[2] < before[3] for before, after in pairs),
            "touch": sum(after[2] == before[3] for before, after in pairs),
            "share jobs of warm-up or cool-down": sum(
                after[2] > before[3] and after[1] < before[4] for before, after in pairs
            ),
        }
        told = [f"{count} {what}" for what, count in counts.items() if count]
        if not told:
            return ""
        text = (
            f"Of {len(pairs)} pairs of neighbouring windows, {', '.join(told)}: these windows depend on each other, "
            "and intervals and p-values take them as independent."
        )
        found, name = [], self.main_metric
        for agent in self.differences if len(order) >= FEWEST_CORRELATED else ():
            values = np.subtract(self.metrics[agent][name], self.metrics[self.baseline][name])[order]
            if np.isfinite(values).all() and np.ptp(values[1:]) and np.ptp(values[:-1]):
                found.append(f"{agent} {np.corrcoef(values[1:], values[:-1])[0, 1]:+.2f}")
        return f"{text} Correlation of the differences of neighbours in {name}: {', '.join(found)}." if found else text

    @property
    def table(self) -> pl.DataFrame:
        """Table with a row per agent and metric: mean, interval, difference from the baseline, tests and rank."""
        import polars as pl

        ranks = {} if self.ranking is None else self.ranking.mean_ranks
        rows: list[list[Any]] = []
        for agent, means in self.means.items():
            for name, found in means.items():
                difference = self.differences.get(agent, {}).get(name, (None,) * 3)
                test = self.tests.get(name, {}).get(agent)
                is_ranked = self.criterion is not None and self.criterion.metric == name
                numbers = [*found[:3], *difference[:3], *((test.p_value, test.adjusted) if test else (None, None))]
                numbers.append(ranks.get(agent) if is_ranked else None)
                rows.append([agent, name, len(self.seeds), *(None if one != one else one for one in numbers)])  # noqa: PLR0124  # NaN
        ends = ("mean", "low", "high")
        heads = [*ends, *(f"difference_{end}" for end in ends), "p_value", "p_value_adjusted", "mean_rank"]
        schema: dict[str, Any] = {"agent": pl.String, "metric": pl.String, "seeds": pl.Int64}
        return pl.DataFrame(rows, schema=schema | dict.fromkeys(heads, pl.Float64), orient="row")

    @property
    def runs(self) -> pl.DataFrame:
        """Table with a row per run: agent, seed or window, whether it is valid and was found in the store, metrics."""
        import polars as pl

        names = all_names(run.metrics for run in self.all_runs)
        return pl.DataFrame(
            [
                {"agent": one.policy, self.pair: one.seed, "valid": one.validation["valid"], "reused": one.reused}
                | {name: one.metrics.get(name) for name in names}
                for one in self.all_runs
            ],
            infer_schema_length=None,
        )

    @cached_property
    def results(self) -> dict[str, list[Result]]:
        """Results of the runs that were stored, by agent."""
        found: dict[str, list[Result]] = {}
        for one in self.all_runs:
            if one.records is not None:
                found.setdefault(one.policy, []).append(one.load())
        return found

    @property
    def issues(self) -> tuple[str, ...]:
        """Problems with runs, one sentence each: invalid, stalled or failed runs."""
        found, pair = list(self.unequal), self.pair
        for one in self.all_runs:
            if one.stalled:
                found.append(f"{one.policy}, {pair} {one.seed}: stalled: {one.stalled}")
        for one in self.all_runs:
            if one.validation["valid"] is False:
                found.append(f"{one.policy}, {pair} {one.seed}: invalid: {', '.join(one.validation['counts'])}")
        for agent, runs in self.failed.items():
            seeds = ", ".join(str(one.task.seed) for one in runs)
            found.append(f"{agent} failed and is left out ({pair} {seeds}): {runs[0].kind}: {runs[0].message}")
        if self.failed:
            found.append(f"compared with {self.baseline}: the other agents without failures")
        return tuple(found)

    @property
    def status(self) -> int:
        """Exit status: 0 if all runs are valid and none failed, otherwise 1."""
        return int(bool(self.failed) or any(one.validation["valid"] is False for one in self.all_runs))

    def result(self, agent: str, seed: int | None = None) -> Result:
        """Return the result of a stored run.

        Parameters
        ----------
        agent : str
            Name of the agent.
        seed : int, optional
            Seed of the run, or number of its window; default: the first.

        Returns
        -------
        Result
            Result of the run, whose tables are read on first use.

        Raises
        ------
        InvalidConfiguration
            If there is no such run, or runs were not stored because ``out`` was not given.
        """
        wanted = self.seeds[0] if seed is None else seed
        for run in self.all_runs:
            if (run.policy, run.seed) == (agent, wanted):
                return run.load()
        raise InvalidConfiguration(f"no run of {agent!r} with {self.pair} {wanted}{did_you_mean(agent, self.means)}")

    @property
    def described(self) -> dict[str, Any]:
        """All results as plain values, the content of ``comparison.json``.

        Besides workload, command and options: ``own_metrics``, descriptions of a user's metrics; ``means`` and
        ``differences`` by agent and metric, each with the ends of its interval; ``tests`` by metric and agent;
        ``ranking`` and ``profile``, None where there is none; and ``runs``.
        """
        by, ranking, profile = self.criterion, self.ranking, self.profile
        return {
            "workload": self.workload,
            "command": self.command,
            "options": self.options,
            "baseline": self.baseline,
            "level": LEVEL,
            "interval": self.interval,
            "pair": self.pair,
            "seeds": self.seeds,
            "dependence": self.dependence,
            "own_metrics": [
                {"name": one.name, "meaning": one.meaning, "unit": one.unit, "better": one.better}
                for one in self.kind.metrics
                if one.measure is not None
            ],
            "means": _intervals(self.means),
            "differences": _intervals(self.differences),
            "tests": {
                name: {
                    agent: {"difference": test.difference, "p_value": test.p_value, "adjusted": test.adjusted}
                    for agent, test in tests.items()
                }
                for name, tests in self.tests.items()
            },
            "ranking": None
            if by is None or ranking is None
            else {
                "metric": by.metric,
                "better": by.better,
                "mean_ranks": ranking.mean_ranks,
                "critical_difference": ranking.critical_difference,
                "groups": ranking.groups(),
                "friedman": {"statistic": ranking.statistic, "p_value": ranking.p_value},
                "num_scenarios": ranking.num_scenarios,
                "left_out": self.left_out,
            },
            "profile": None
            if by is None or profile is None
            else {
                "metric": by.metric,
                "ratios": profile.ratios.tolist(),
                "shares": {agent: row.tolist() for agent, row in profile.shares.items()},
            },
            "runs": [
                {
                    "agent": one.policy,
                    "seed": one.seed,
                    "window": one.window,
                    "records": one.records,
                    "reused": one.reused,
                    "valid": one.validation["valid"],
                    "violations": one.validation["violations"],
                    "workload": one.workload,
                    "metrics": one.metrics,
                }
                for one in self.all_runs
            ],
        }


def compare_runs(
    runs: Sequence[Run],
    baseline: str,
    kind: ProblemDescriptor,
    *,
    metric: str | None = None,
    better: Better | None = None,
    **more: Any,
) -> Comparison:
    """Return the comparison of the runs of all agents and seeds.

    Parameters
    ----------
    runs : sequence of Run
        Runs of every agent on the same seeds, with their outcomes.
    baseline : str
        Agent that the others are compared with.
    kind : ProblemDescriptor
        Kind of problem, with the descriptions of the metrics.
    metric : str, optional
        Metric that agents are ranked by; default: the first of the headline.
    better : {"lower", "higher"}, optional
        Whether lower or higher values of it are better; default: as the metric is defined.
    **more
        Other fields of :class:`Comparison`, such as ``interval``.

    Returns
    -------
    Comparison
        Means, differences, tests and ranks.

    Raises
    ------
    InvalidConfiguration
        If the metric is unknown, or it is not known which values are better.
    """
    criterion = _criterion(all_names(run.metrics for run in runs), kind, metric, better)
    return Comparison(tuple(runs), baseline, kind, criterion, **more)


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


def _intervals(table: Mapping[str, Mapping[str, Interval]]) -> dict[str, Any]:
    return {
        agent: {name: {"mean": item.value, "low": item.low, "high": item.high} for name, item in row.items()}
        for agent, row in table.items()
    }


def write_csv(table: pl.DataFrame, path: Path) -> Path:
    """Write a table of a comparison as CSV.

    Parameters
    ----------
    table : polars.DataFrame
        Table of texts and numbers.
    path : Path
        Path of the file.

    Returns
    -------
    Path
        Path of the file. Missing values, and numbers that are not finite, are empty.

    Raises
    ------
    RecordError
        If the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # numbers as Python writes them, so that they are read back exactly
    writer.writerow(table.columns)
    for row in table.iter_rows():
        writer.writerow(None if isinstance(one, float) and not math.isfinite(one) else one for one in row)
    write_atomically(path, lambda draft: draft.write_text(text.getvalue()))
    return path
